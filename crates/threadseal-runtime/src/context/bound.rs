//! [`InputBound`]: the most tokens that the input of a request may have, without asking anybody.
//!
//! A tokenizer over bytes never makes more tokens than there are bytes. The count of the answer
//! before is closer: its input and output, and the bytes of what was added since. Where a tokenizer
//! of the model is known, texts are counted by it.

use super::Counter;
use crate::model::{ChatMessage, Request, ToolCall, Usage};

/// Tokens around a message: its role, its end, ids of calls.
const TOKENS_PER_MESSAGE: u64 = 16;

/// Tokens around a tool.
const TOKENS_PER_TOOL: u64 = 32;

/// Tokens that a provider adds to any request, such as its own prompt about tools.
const TOKENS_PER_REQUEST: u64 = 1024;

/// Bounds the inputs of one conversation as it grows.
pub(crate) struct InputBound {
    counter: Counter,
    /// How many messages the last counted answer ends, and all its tokens.
    counted: Option<(usize, u64)>,
}

impl InputBound {
    pub(crate) fn new(counter: Counter) -> Self {
        Self {
            counter,
            counted: None,
        }
    }

    /// Learns what the provider counted for a request with so many messages.
    pub(crate) fn learn(&mut self, messages: usize, usage: &Usage) {
        if !usage.estimated {
            let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            self.counted = Some((messages + 1, tokens));
        }
    }

    /// The most tokens that this input may have.
    pub(crate) fn of(&self, request: &Request<'_>) -> u64 {
        let added = |from: usize| {
            let messages = request.messages.get(from..).unwrap_or_default();
            let counted = messages.iter().map(|message| self.message(message));
            counted.sum::<u64>()
        };
        let tools = request.tools.iter().map(|tool| {
            let parameters = tool.parameters.to_string();
            let bytes = tool.name.len() + tool.description.len() + parameters.len();
            TOKENS_PER_TOOL + bytes as u64
        });
        let system = request.system.map_or(0, |system| self.text(system));
        let whole: u64 = TOKENS_PER_REQUEST + system + tools.sum::<u64>() + added(0);
        match self.counted {
            Some((messages, tokens)) if messages <= request.messages.len() => {
                whole.min(tokens.saturating_add(added(messages)))
            }
            _ => whole,
        }
    }

    fn text(&self, text: &str) -> u64 {
        match self.counter.is_exact() {
            true => self.counter.text(text),
            false => text.len() as u64,
        }
    }

    fn message(&self, message: &ChatMessage) -> u64 {
        let call = |call: &ToolCall| {
            let signatures: usize = call.signatures.iter().map(String::len).sum();
            let input = call.input.to_string().len();
            (call.id.len() + call.name.len() + input + signatures) as u64 + TOKENS_PER_MESSAGE
        };
        TOKENS_PER_MESSAGE
            + match message {
                ChatMessage::User(text) => self.text(text),
                ChatMessage::Assistant { text, calls } => {
                    self.text(text) + calls.iter().map(call).sum::<u64>()
                }
                ChatMessage::ToolResult {
                    call_id,
                    tool,
                    content,
                } => self.text(content) + (call_id.len() + tool.len()) as u64,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::{assistant, user};
    use crate::toolbox::Cancel;

    fn bound(bound: &InputBound, messages: &[ChatMessage]) -> u64 {
        bound.of(&Request {
            system: None,
            messages,
            tools: &[],
            max_output_tokens: 1,
            cancel: &Cancel::default(),
        })
    }

    #[test]
    fn a_bound_is_never_below_what_a_tokenizer_counts() {
        let texts = [
            "",
            "Go.",
            "日本語のテキスト",
            "\u{1f980}\u{1f980}",
            "a\u{0}b",
            "zqxjv kwpf",
        ];
        for name in ["gpt-4o", "gpt-4", "gpt-5"] {
            let exact = Counter::of_model(name);
            assert!(exact.is_exact(), "{name}");
            for text in texts {
                let messages = [user(text)];
                let counted = exact.message(&messages[0]);
                for counter in [exact, Counter::estimate()] {
                    let bound = bound(&InputBound::new(counter), &messages);
                    assert!(bound >= counted + TOKENS_PER_REQUEST, "{name} {text:?}");
                }
            }
        }
    }

    #[test]
    fn the_count_of_the_answer_before_is_closer_and_an_estimate_is_none() {
        let mut growing = InputBound::new(Counter::estimate());
        let mut messages = vec![user("x".repeat(5000))];
        let first = bound(&growing, &messages);
        assert!(first > 5000);
        let usage = |estimated| Usage {
            input_tokens: 900,
            output_tokens: 50,
            estimated,
            ..Usage::default()
        };
        growing.learn(1, &usage(true));
        assert_eq!(bound(&growing, &messages), first);
        growing.learn(1, &usage(false));
        assert_eq!(bound(&growing, &messages), first, "nothing was answered");
        messages.extend([assistant("y", Vec::new()), user("more")]);
        assert_eq!(bound(&growing, &messages), 950 + 4 + TOKENS_PER_MESSAGE);
    }
}
