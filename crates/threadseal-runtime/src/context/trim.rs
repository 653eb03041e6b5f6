//! Which part of a conversation a successor receives: its end, as much as fits.
//!
//! ```text
//! user … call result … user call result    the longest fitting end that begins with a user message
//!        [prompt] call result call result  else the first prompt, and the longest end of exchanges
//!        [prompt, shortened]               else the prompt alone
//! ```
//! A call and its results stay together: models refuse one without the other. The seed stops at the
//! first message that does not fit, drops all but a user's messages, and may keep nothing.
//!
//! Seed 001, "Phase 1: Fill Trailing Messages".

use super::Counter;
use crate::model::ChatMessage;

/// The divisor of the ceiling that bounds the first prompt where messages follow it.
const PROMPT_SHARE: u64 = 2;

/// The end of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Trimmed {
    /// The text before it: the first prompt, where the end does not begin with a user's message.
    pub opening: Option<String>,
    /// How many of the last messages are kept.
    pub kept: usize,
    /// How many answers of the model are among them.
    pub turns: u64,
}

/// The part of `messages` that fits into `ceiling` tokens. `prompt` is the beginning of the
/// conversation.
pub fn trim(
    messages: &[ChatMessage],
    prompt: Option<&str>,
    ceiling: u64,
    counter: &Counter,
) -> Trimmed {
    if let Some(from) = longest(messages, ceiling, counter, |message| {
        matches!(message, ChatMessage::User(_))
    }) {
        return kept(messages, from, None);
    }
    let prompt = prompt.unwrap_or_default();
    let (short, left) = match shortened(prompt, ceiling / PROMPT_SHARE, counter) {
        Some(short) => {
            let left = ceiling.saturating_sub(counter.message(&ChatMessage::User(short.clone())));
            (short, left)
        }
        None => (String::new(), 0),
    };
    let whole = |message: &ChatMessage| matches!(message, ChatMessage::Assistant { .. });
    match longest(messages, left, counter, whole) {
        Some(from) => kept(messages, from, Some(short)),
        None => {
            let alone = shortened(prompt, ceiling, counter).unwrap_or_default();
            kept(messages, messages.len(), Some(alone))
        }
    }
}

/// Where the longest end begins that fits and begins as it must.
fn longest(
    messages: &[ChatMessage],
    ceiling: u64,
    counter: &Counter,
    may_begin: impl Fn(&ChatMessage) -> bool,
) -> Option<usize> {
    let (mut tokens, mut found) = (0_u64, None);
    for (place, message) in messages.iter().enumerate().rev() {
        tokens = tokens.saturating_add(counter.message(message));
        if tokens > ceiling {
            break;
        }
        if may_begin(message) {
            found = Some(place);
        }
    }
    found
}

fn kept(messages: &[ChatMessage], from: usize, opening: Option<String>) -> Trimmed {
    let end = &messages[from..];
    let answers = end
        .iter()
        .filter(|message| matches!(message, ChatMessage::Assistant { .. }));
    Trimmed {
        opening: opening.filter(|text| !text.is_empty()),
        kept: end.len(),
        turns: answers.count() as u64,
    }
}

/// `text` within `most` tokens, with a mark where text is left out; None when not even that fits.
fn shortened(text: &str, most: u64, counter: &Counter) -> Option<String> {
    let fits = |text: &str| counter.message(&ChatMessage::User(text.to_owned())) <= most;
    if fits(text) {
        return Some(text.to_owned());
    }
    let chars = text.chars().count();
    let mark = format!("\n\n[shortened: {chars} characters in all]");
    let cut = |count: usize| {
        let head: String = text.chars().take(count).collect();
        format!("{head}{mark}")
    };
    // Token counts grow with the text except for a few at its end. So halving finds the longest
    // text that surely fits.
    let (mut low, mut high) = (0, chars);
    if !fits(&cut(0)) {
        return None;
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(&cut(middle)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Some(cut(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::{Text as _, assistant, tool_call, tool_result};
    use serde_json::Value;

    fn user(length: usize) -> ChatMessage {
        ChatMessage::User("u".repeat(length))
    }

    fn said(call: &str) -> ChatMessage {
        assistant(&"s".repeat(40), vec![tool_call(call, "t", Value::Null)])
    }

    fn result(call: &str, length: usize) -> ChatMessage {
        tool_result(call, "t", "r".repeat(length))
    }

    fn whole(messages: &[ChatMessage], ceiling: u64) -> Trimmed {
        let counter = Counter::estimate();
        let trimmed = trim(messages, Some(&"p".repeat(400)), ceiling, &counter);
        let end = &messages[messages.len() - trimmed.kept..];
        let opening = trimmed.opening.clone().map(ChatMessage::User);
        let given: Vec<ChatMessage> = opening.into_iter().chain(end.to_vec()).collect();
        let tokens: u64 = given.iter().map(|message| counter.message(message)).sum();
        assert!(tokens <= ceiling, "{tokens} > {ceiling}");
        let is_user = |first: &ChatMessage| matches!(first, ChatMessage::User(_));
        assert!(given.first().is_none_or(is_user), "{given:?}");
        let calls = given.iter().flat_map(|message| match message {
            ChatMessage::Assistant { calls, .. } => calls.iter().map(|call| &call.id).collect(),
            _ => Vec::new(),
        });
        let results = given.iter().filter_map(|message| match message {
            ChatMessage::ToolResult { call_id, .. } => Some(call_id),
            _ => None,
        });
        assert!(calls.eq(results));
        trimmed
    }

    #[test]
    fn the_longest_end_that_begins_with_a_user_and_fits_is_kept() {
        let messages = [
            user(400),
            said("a"),
            result("a", 4),
            user(40),
            said("b"),
            result("b", 40),
        ];
        assert_eq!(whole(&messages, 1000).kept, 6);
        let trimmed = whole(&messages, 100);
        assert_eq!((trimmed.kept, trimmed.opening, trimmed.turns), (3, None, 1));
    }

    #[test]
    fn without_a_user_near_the_end_the_prompt_opens_whole_exchanges() {
        let mut messages = vec![user(400)];
        for call in ["a", "b", "c", "d"] {
            messages.extend([said(call), result(call, 80)]);
        }
        let trimmed = whole(&messages, 210);
        assert_eq!((trimmed.kept, trimmed.turns), (4, 2));
        assert_eq!(trimmed.opening.unwrap(), "p".repeat(400));
        let trimmed = whole(&messages, 120);
        let opening = trimmed.opening.unwrap();
        let end = "[shortened: 400 characters in all]";
        assert!(opening.ends_with(end), "{opening}");
        assert_eq!(trimmed.kept, 2);
    }

    #[test]
    fn where_nothing_fits_the_prompt_is_shortened_and_marked() {
        let messages = [user(400), said("a"), result("a", 100_000)];
        for ceiling in [0, 5, 20, 60, 104, 1000] {
            let trimmed = whole(&messages, ceiling);
            assert_eq!(trimmed.kept, 0, "{ceiling}");
        }
        let whole_prompt = whole(&messages, 1000).opening.unwrap();
        assert_eq!(whole_prompt, "p".repeat(400));
        let short = whole(&messages, 60).opening.unwrap();
        assert!(short.starts_with("ppp"), "{short}");
        short.has("shortened");
        assert_eq!(trim(&[], None, 0, &Counter::estimate()).kept, 0);
    }

    #[test]
    fn a_conversation_of_any_shape_is_trimmed_soundly() {
        let mut messages = vec![user(37)];
        for turn in 0..30_usize {
            let call = turn.to_string();
            messages.extend([said(&call), result(&call, turn * 31 % 200)]);
            if turn % 7 == 0 {
                messages.push(user(turn * 13));
            }
        }
        for ceiling in (0..2000).step_by(17) {
            whole(&messages, ceiling);
        }
    }
}
