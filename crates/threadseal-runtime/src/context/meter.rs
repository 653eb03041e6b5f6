//! [`Meter`]: how full a model's window is.

use crate::bounds::MAX_COUNTED_PIECE_BYTES;
use crate::model::{ChatMessage, ToolSchema, Usage};
use serde_json::{Value, json};
use tiktoken::CoreBpe;

/// Characters of a token where no tokenizer fits.
const CHARS_PER_TOKEN: u64 = 4;

/// Tokens around each message: its role and its end.
const TOKENS_PER_MESSAGE: u64 = 4;

/// Counts the tokens of texts as one model does, or estimates them.
#[derive(Clone, Copy)]
pub struct Counter(Option<&'static CoreBpe>);

impl Counter {
    /// The counter of a model, by its name. A provider before the name (`openai/gpt-5`) is ignored.
    pub(crate) fn of_model(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        Self(tiktoken::encoding_for_model(name))
    }

    /// The seed's estimate.
    #[cfg(test)]
    pub(crate) fn estimate() -> Self {
        Self(None)
    }

    /// Does it count, rather than estimate?
    pub fn is_exact(&self) -> bool {
        self.0.is_some()
    }

    /// The tokens of a text.
    pub fn text(&self, text: &str) -> u64 {
        let Some(tokenizer) = self.0 else {
            return text.chars().count() as u64 / CHARS_PER_TOKEN;
        };
        // Pieces of bounded length: a text without a break must not cost more than its length.
        let (mut rest, mut tokens) = (text, 0);
        while !rest.is_empty() {
            let mut end = rest.len().min(MAX_COUNTED_PIECE_BYTES);
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, after) = rest.split_at(end);
            tokens += tokenizer.count(piece) as u64;
            rest = after;
        }
        tokens
    }

    /// The tokens of a message, calls included.
    pub fn message(&self, message: &ChatMessage) -> u64 {
        TOKENS_PER_MESSAGE
            + match message {
                ChatMessage::User(text) => self.text(text),
                ChatMessage::ToolResult { content, .. } => self.text(content),
                ChatMessage::Assistant { text, calls } => {
                    let calls = calls
                        .iter()
                        .map(|call| self.text(&call.name) + self.text(&call.input.to_string()));
                    self.text(text) + calls.sum::<u64>()
                }
            }
    }
}

/// How full a window is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// Tokens that are used.
    pub used: u64,
    /// Tokens of the window.
    pub window: u64,
}

impl Fill {
    /// The payload of `context_limit_reached`.
    pub fn to_json(&self) -> Value {
        json!({"usage_ratio": self.ratio(), "tokens_used": self.used, "tokens_limit": self.window})
    }

    /// The payload of `context_window_pressure`.
    pub fn pressure(&self) -> Value {
        json!({"pressure_ratio": self.ratio(), "tokens_used": self.used, "tokens_limit": self.window})
    }

    /// How many whole twentieths are used.
    pub fn twentieths(&self) -> u64 {
        self.used.saturating_mul(20) / self.window.max(1)
    }

    /// Used by window.
    pub fn ratio(&self) -> f64 {
        self.used as f64 / self.window.max(1) as f64
    }
}

/// Whether a window has room for another turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Window {
    /// It has.
    Open(Fill),
    /// The thread must hand itself over.
    Full(Fill),
}

/// Watches a conversation grow: each message is counted once.
pub struct Meter {
    counter: Counter,
    window: u64,
    threshold: f64,
    /// The system's prompt and the schemas.
    fixed: u64,
    counted: usize,
    tokens: u64,
}

impl Meter {
    /// Of a conversation with this prompt and these tools, in a window of so many tokens.
    pub fn new(
        counter: Counter,
        window: u64,
        threshold: f64,
        system: Option<&str>,
        tools: &[ToolSchema],
    ) -> Self {
        let schemas = tools.iter().map(|tool| {
            let parameters = tool.parameters.to_string();
            counter.text(&tool.name) + counter.text(&tool.description) + counter.text(&parameters)
        });
        Self {
            fixed: schemas.sum::<u64>() + system.map_or(0, |text| counter.text(text)),
            counter,
            window,
            threshold,
            counted: 0,
            tokens: 0,
        }
    }

    /// How full the window is with these messages; a higher count of the last turn by the provider
    /// takes precedence. `messages` are those of the last call and further ones.
    pub fn fill(&mut self, messages: &[ChatMessage], last: &Usage) -> Fill {
        let new = messages.get(self.counted..).unwrap_or_default();
        self.tokens += new.iter().map(|new| self.counter.message(new)).sum::<u64>();
        self.counted = messages.len();
        let told = last.input_tokens.saturating_add(last.output_tokens);
        Fill {
            used: self.fixed.saturating_add(self.tokens).max(told),
            window: self.window,
        }
    }

    /// The same, and whether the thread must hand itself over.
    pub fn window(&mut self, messages: &[ChatMessage], last: &Usage) -> Window {
        let fill = self.fill(messages, last);
        match fill.ratio() >= self.threshold {
            true => Window::Full(fill),
            false => Window::Open(fill),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_openai_are_counted_and_others_are_estimated() {
        let text = "The quick brown fox jumps over the lazy dog.";
        for (model, exact) in [
            ("gpt-4o", true),
            ("openai/gpt-5-mini", true),
            ("o3", true),
            ("gpt-4", true),
            ("claude-sonnet-4-5", false),
            ("gemini-2.5-pro", false),
            ("script", false),
        ] {
            let counter = Counter::of_model(model);
            assert_eq!(counter.is_exact(), exact, "{model}");
            assert_eq!(counter.text(text), if exact { 10 } else { 11 }, "{model}");
        }
        // Four characters, not bytes.
        assert_eq!(Counter::estimate().text("日本語で四"), 1);
    }

    #[test]
    fn a_text_without_a_break_is_counted_in_pieces() {
        let text = "é".repeat(MAX_COUNTED_PIECE_BYTES);
        let tokens = Counter::of_model("gpt-4o").text(&text);
        assert!(tokens > 0 && tokens < text.len() as u64, "{tokens}");
    }

    #[test]
    fn each_message_is_counted_once_and_the_provider_is_believed_where_it_counts_more() {
        let user = |text: &str| ChatMessage::User(text.to_owned());
        let mut meter = Meter::new(Counter::estimate(), 100, 0.9, Some("12345678"), &[]);
        let mut messages = vec![user("12345678")];
        let none = Usage::default();
        assert_eq!(
            meter.fill(&messages, &none).used,
            2 + 2 + TOKENS_PER_MESSAGE
        );
        messages.push(user("1234"));
        assert_eq!(
            meter.fill(&messages, &none).used,
            2 + 2 + 1 + 2 * TOKENS_PER_MESSAGE
        );
        let told = Usage {
            input_tokens: 89,
            output_tokens: 0,
            ..none
        };
        assert!(matches!(meter.window(&messages, &told), Window::Open(_)));
        let told = Usage {
            output_tokens: 1,
            ..told
        };
        let Window::Full(full) = meter.window(&messages, &told) else {
            panic!("the window is full");
        };
        assert_eq!(full.twentieths(), 18);
        assert_eq!(
            full.to_json(),
            json!({"usage_ratio": 0.9, "tokens_used": 90, "tokens_limit": 100})
        );
    }
}
