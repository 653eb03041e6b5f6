//! A conversation that goes to a model again: unsealed messages are marked, and each call has one
//! result.

use crate::model::{ChatMessage, ToolCall};

/// The mark before a message that no seal covers.
pub const UNVERIFIED: &str = "[unverified: no seal covers this] ";

/// The result that a model gets for a call that may have been carried out before.
pub(crate) const UNRESOLVED: &str =
    "unresolved: nobody knows whether this call was carried out; do not repeat it unseen";

/// Marks the messages in `whole` that are not in `sealed`. A call has no place for a mark: its
/// result has it, also one that reports an unknown result.
pub(super) fn marked(sealed: &[ChatMessage], whole: Vec<ChatMessage>) -> Vec<ChatMessage> {
    let mut sealed = sealed.iter().peekable();
    let mut told = Vec::with_capacity(whole.len());
    // Calls that no seal covers and that wait for a result.
    let mut open: Vec<ToolCall> = Vec::new();
    for message in whole {
        match &message {
            ChatMessage::ToolResult { call_id, .. } => open.retain(|call| call.id != *call_id),
            _ => told.extend(open.drain(..).map(nowhere)),
        }
        // Unsealed events may have added calls to an answer: its text is under a seal all the same.
        let covered = match (&message, sealed.peek()) {
            (
                ChatMessage::Assistant { text, calls },
                Some(ChatMessage::Assistant {
                    text: known,
                    calls: under,
                }),
            ) => (text == known && calls.starts_with(under)).then_some(under.len()),
            (message, Some(known)) => (message == *known).then_some(0),
            (_, None) => None,
        };
        if let ChatMessage::Assistant { calls, .. } = &message {
            open.extend_from_slice(&calls[covered.unwrap_or_default()..]);
        }
        if covered.is_some() {
            sealed.next();
            told.push(message);
            continue;
        }
        told.push(with_mark(message));
    }
    told.extend(open.into_iter().map(nowhere));
    told
}

fn with_mark(message: ChatMessage) -> ChatMessage {
    let mark = |text: String| format!("{UNVERIFIED}{text}");
    match message {
        ChatMessage::User(text) => ChatMessage::User(mark(text)),
        ChatMessage::Assistant { text, calls } => ChatMessage::Assistant {
            text: mark(text),
            calls,
        },
        ChatMessage::ToolResult {
            call_id,
            tool,
            content,
        } => ChatMessage::ToolResult {
            call_id,
            tool,
            content: mark(content),
        },
    }
}

fn nowhere(call: ToolCall) -> ChatMessage {
    with_mark(unresolved(call))
}

/// Gives each call without a result one that states this, and each result without a call a message
/// of its own. Models refuse a conversation that has either, and it is unknown whether an open call
/// was carried out.
pub(crate) fn answer_open_calls(messages: &mut Vec<ChatMessage>) {
    let mut answered = Vec::with_capacity(messages.len());
    let mut open: Vec<ToolCall> = Vec::new();
    let mut loose: Vec<ChatMessage> = Vec::new();
    for message in messages.drain(..) {
        if let ChatMessage::ToolResult { call_id, .. } = &message {
            match open.iter().position(|call| call.id == *call_id) {
                Some(place) => {
                    open.remove(place);
                    answered.push(message);
                }
                None => loose.push(ChatMessage::User(message.text().to_owned())),
            }
            continue;
        }
        answered.extend(open.drain(..).map(unresolved));
        answered.append(&mut loose);
        if let ChatMessage::Assistant { calls, .. } = &message {
            open.clone_from(calls);
        }
        answered.push(message);
    }
    answered.extend(open.into_iter().map(unresolved));
    answered.append(&mut loose);
    *messages = answered;
}

fn unresolved(call: ToolCall) -> ChatMessage {
    ChatMessage::ToolResult {
        call_id: call.id,
        tool: call.name,
        content: UNRESOLVED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::{assistant, tool_call, tool_result, user};
    use serde_json::Value;

    fn call(id: &str) -> ToolCall {
        tool_call(id, "t", Value::Null)
    }

    fn result(id: &str) -> ChatMessage {
        tool_result(id, "t", "done")
    }

    fn calls(ids: &[&str]) -> ChatMessage {
        assistant("", ids.iter().map(|id| call(id)).collect())
    }

    #[test]
    fn every_call_of_a_conversation_has_one_result_behind_it() {
        let mut messages = vec![calls(&["a", "b"]), result("a"), user("u"), calls(&["c"])];
        answer_open_calls(&mut messages);
        let expected = [
            calls(&["a", "b"]),
            result("a"),
            unresolved(call("b")),
            user("u"),
            calls(&["c"]),
            unresolved(call("c")),
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn a_result_that_answers_no_call_is_a_message_behind_all_results() {
        let mut messages = vec![
            result("x"),
            calls(&["a", "b"]),
            result("a"),
            result("a"),
            result("b"),
            user("u"),
        ];
        answer_open_calls(&mut messages);
        let expected = [
            user("done"),
            calls(&["a", "b"]),
            result("a"),
            result("b"),
            user("done"),
            user("u"),
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn what_no_seal_covers_is_marked_and_nothing_else_is() {
        let sealed = [user("u"), calls(&["a"])];
        let whole = vec![
            user("u"),
            calls(&["a", "b"]),
            result("a"),
            user("v"),
            calls(&["c"]),
        ];
        let told = marked(&sealed, whole.clone());
        assert_eq!(told[..2], whole[..2]);
        let is_marked = |message: &ChatMessage| message.text().starts_with(UNVERIFIED);
        assert!(told[2..].iter().all(is_marked), "{told:?}");
        // The results of calls that only the tail has: the report that a result is unknown is not
        // under a seal either.
        let of = |id: &str| {
            let is = |message: &&ChatMessage| matches!(message, ChatMessage::ToolResult { call_id, .. } if call_id == id);
            told.iter().filter(is).count()
        };
        assert_eq!((of("a"), of("b"), of("c")), (1, 1, 1));
    }
}
