//! [`Model`]: requests to a model, and its answers.

use crate::cancel::Cancel;
use crate::config::models::Tokens;
use crate::secrets::Secrets;
use serde_json::{Value, json};
use std::time::Duration;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// A message for the model.
    User(String),
    /// An answer of the model.
    Assistant {
        /// Its text.
        text: String,
        /// The tools it called.
        calls: Vec<ToolCall>,
    },
    /// The result of a tool.
    ToolResult {
        /// Which call it answers.
        call_id: String,
        /// The tool's name, which some providers want again.
        tool: String,
        /// The error if there was one, else the output.
        content: String,
    },
}

impl ChatMessage {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Self::User(text) | Self::Assistant { text, .. } => text,
            Self::ToolResult { content, .. } => content,
        }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Names the call.
    pub id: String,
    /// The tool, by the name the model knows it by.
    pub name: String,
    /// Its arguments.
    pub input: Value,
    /// Data of the provider that must be sent back with this call, opaque to us.
    pub signatures: Vec<String>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchema {
    /// Letters, digits, `_` and `-`, which every provider accepts.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A request to a model.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system's prompt.
    pub system: Option<&'a str>,
    /// The conversation; its last message is not the assistant's.
    pub messages: &'a [ChatMessage],
    /// Tools that may be called.
    pub tools: &'a [ToolSchema],
    /// Most tokens of the answer.
    pub max_output_tokens: u32,
    /// The caller stops waiting for the answer when this is set.
    pub cancel: &'a Cancel,
}

/// Tokens of one answer, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All tokens of the prompt, those of the provider's cache included.
    pub input_tokens: u64,
    /// Of these, tokens read from the cache.
    pub cached_tokens: u64,
    /// Of these, tokens put into the cache.
    pub cache_write_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: u64,
    /// Of these, tokens of reasoning.
    pub reasoning_tokens: u64,
    /// The provider gave no counts: these are a guess, a token for each four characters.
    pub estimated: bool,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model finished.
    Complete,
    /// It waits for the results of its calls.
    ToolCalls,
    /// The limit on output cut it off.
    Truncated,
    /// The provider withheld it.
    Filtered,
}

impl Usage {
    /// A guess, for an answer without counted tokens.
    pub(crate) fn estimated(request: &Request<'_>, answer: &str) -> Self {
        let count = |text: &str| text.chars().count() as u64;
        let prompt: u64 = request
            .messages
            .iter()
            .map(|message| count(message.text()))
            .sum();
        Self {
            input_tokens: (prompt + request.system.map_or(0, count)).div_ceil(4),
            output_tokens: count(answer).div_ceil(4),
            estimated: true,
            ..Self::default()
        }
    }

    /// The same, each token counted once.
    pub fn tokens(&self) -> Tokens {
        let cache_read = self.cached_tokens.min(self.input_tokens);
        let cache_write = self.cache_write_tokens.min(self.input_tokens - cache_read);
        Tokens {
            input: self.input_tokens - cache_read - cache_write,
            output: self.output_tokens,
            cache_read,
            cache_write,
        }
    }
}

/// An answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its reasoning, where the provider shows it.
    pub reasoning: Option<String>,
    /// The calls that the model asks for.
    pub calls: Vec<ToolCall>,
    /// Its use of tokens.
    pub usage: Usage,
    /// Which model answered, as the provider names it.
    pub model: String,
    /// Why it ends.
    pub stop: Stop,
}

impl Answer {
    /// Replaces known secrets, and returns how many there were.
    pub(crate) fn mask(&mut self, secrets: &Secrets) -> u64 {
        let mut count = secrets.mask_text(&mut self.text) + secrets.mask_text(&mut self.model);
        if let Some(reasoning) = &mut self.reasoning {
            count += secrets.mask_text(reasoning);
        }
        for call in &mut self.calls {
            count += secrets.mask_text(&mut call.id) + secrets.mask_text(&mut call.name);
            count += secrets.mask_value(&mut call.input);
            let signatures = call.signatures.iter_mut();
            count += signatures.map(|text| secrets.mask_text(text)).sum::<u64>();
        }
        count
    }
}

/// Something that answers.
pub trait Model: Send + Sync {
    /// Its name, as records give it.
    fn name(&self) -> &str;

    /// Asks for one answer. `on_text` receives pieces of it as they arrive, for people to watch;
    /// only the answer counts.
    ///
    /// # Errors
    /// The facts of the failure; there is no answer then.
    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError>;

    /// Can its provider count a request before it answers?
    fn counts(&self) -> bool {
        false
    }

    /// The tokens of the request's input, as the provider counts them; None where it does not.
    fn count(&self, _request: &Request<'_>) -> Option<u64> {
        None
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelError {
    /// The HTTP status; 0 when no response came.
    pub status: u16,
    /// The provider's word for the kind of error, else ours: `TimeoutError`, `ConnectionError`,
    /// `ProtocolError`.
    pub kind: String,
    /// The provider's code.
    pub code: Option<String>,
    /// Its text.
    pub message: String,
    /// How long to wait before another attempt, where the provider gave a time.
    pub retry_after: Option<Duration>,
    /// Headers of the response, by their names in small letters.
    pub headers: Box<[(String, String)]>,
    /// Is it certain that no other attempt will be answered? A script or a transcript that has no
    /// further answer.
    pub is_final: bool,
    /// Had an answer begun? The provider is paid for it, although it did not come whole.
    pub began: bool,
    /// Was there no connection, so that nothing of the request left this machine?
    pub unreached: bool,
    /// For people, where a provider was asked.
    pub advice: Option<Box<Advice>>,
}

/// What a person needs to know about a failure besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The model, its provider and their address.
    pub place: String,
    /// What the user can do.
    pub hint: String,
}

/// The kind of a request that the thread gave up.
pub(crate) const CANCELLED: &str = "CancelledError";

impl ModelError {
    /// A header by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str())
    }

    /// Replaces known secrets, and returns how many there were.
    pub(crate) fn mask(&mut self, secrets: &Secrets) -> u64 {
        let code = self.code.as_mut().map_or(0, |code| secrets.mask_text(code));
        if let Some(advice) = &mut self.advice {
            secrets.mask_text(&mut advice.place);
        }
        code + secrets.mask_text(&mut self.kind) + secrets.mask_text(&mut self.message)
    }

    /// The failure for people: where, why, and the next step.
    pub(crate) fn for_people(&self) -> String {
        let status = match self.status {
            0 => String::new(),
            status => format!("status {status}: "),
        };
        match &self.advice {
            None => self.message.clone(),
            Some(advice) => {
                let Advice { place, hint } = &**advice;
                format!("{place}: {status}{}; hint: {hint}", self.message)
            }
        }
    }

    /// The facts in the shape that patterns of `error_classification.yaml` look at.
    pub fn to_value(&self) -> Value {
        let mut error = json!({"type": self.kind, "message": self.message});
        if let Some(code) = &self.code {
            error["code"] = code.as_str().into();
        }
        let mut headers: Value = self.headers.iter().cloned().collect();
        if let Some(wait) = self.retry_after {
            headers["retry-after"] = wait.as_secs_f64().into();
        }
        json!({
            "status_code": self.status,
            "error": error,
            "headers": headers,
            "cancelled": self.kind == CANCELLED,
        })
    }
}
