//! The tokens of a request's input, as its provider counts them before it answers.
//!
//! ```text
//! anthropic         POST messages/count_tokens      {model, system, messages, tools}    {input_tokens}
//! openai_responses  POST responses/input_tokens     {model, instructions, input, tools} {input_tokens}
//! gemini            POST models/MODEL:countTokens   {generateContentRequest}            {totalTokens}
//! openai            has none
//! ```
//! These requests cost nothing. A provider that does not count is not asked again by this model.

use super::{Endpoint, Shape};
use crate::bounds::{COUNT_TIMEOUT, MAX_COUNT_ANSWER_BYTES, POLL_INTERVAL};
use crate::model::{ChatMessage, Request, ToolCall, ToolSchema};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use threadseal_core::error::Error;
use threadseal_store::runtime::wait_for;

/// Anthropic's version of its protocol, as genai sends it.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Asks a provider for counts.
pub(super) struct TokenCount {
    web: reqwest::Client,
    shape: Shape,
    base: String,
    key: String,
    model: String,
    refused: AtomicBool,
}

impl TokenCount {
    pub(super) fn new(web: reqwest::Client, endpoint: &Endpoint, base: &str, model: &str) -> Self {
        Self {
            web,
            shape: endpoint.shape,
            base: base.to_owned(),
            key: endpoint.api_key.clone().unwrap_or_default(),
            model: model.to_owned(),
            refused: AtomicBool::new(false),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.shape != Shape::OpenAi && !self.refused.load(Ordering::Relaxed)
    }

    /// The count; None where the provider gives none in time, or the thread is cancelled.
    pub(super) fn of(&self, request: &Request<'_>) -> Option<u64> {
        if !self.is_there() {
            return None;
        }
        let counted = wait_for(async { Ok::<_, Error>(self.counted(request).await) });
        let counted = counted.ok().flatten();
        if counted.is_none() && !request.cancel.is_set() {
            self.refused.store(true, Ordering::Relaxed);
        }
        counted
    }

    async fn counted(&self, request: &Request<'_>) -> Option<u64> {
        let mut asked = pin!(self.ask(request));
        let mut left = COUNT_TIMEOUT;
        while !request.cancel.is_set() && !left.is_zero() {
            match tokio::time::timeout(POLL_INTERVAL, asked.as_mut()).await {
                Ok(counted) => return counted,
                Err(_) => left = left.saturating_sub(POLL_INTERVAL),
            }
        }
        None
    }

    async fn ask(&self, request: &Request<'_>) -> Option<u64> {
        let (path, body, member) = self.spelled(request)?;
        let sent = self.web.post(format!("{}{path}", self.base)).json(&body);
        let sent = match self.shape {
            Shape::Anthropic => sent
                .header("x-api-key", &self.key)
                .header("anthropic-version", ANTHROPIC_VERSION),
            Shape::Gemini => sent.header("x-goog-api-key", &self.key),
            Shape::OpenAiResponses | Shape::OpenAi => sent.bearer_auth(&self.key),
        };
        let mut answer = sent.send().await.ok()?.error_for_status().ok()?;
        let mut text = Vec::new();
        while let Some(piece) = answer.chunk().await.ok()? {
            text.extend_from_slice(&piece);
            if text.len() > MAX_COUNT_ANSWER_BYTES {
                return None;
            }
        }
        let answer: Value = serde_json::from_slice(&text).ok()?;
        answer[member].as_u64()
    }

    /// Path, body, and the member of the answer that is the count.
    fn spelled(&self, request: &Request<'_>) -> Option<(String, Value, &'static str)> {
        let model = &self.model;
        let tools = |spell: fn(&ToolSchema) -> Value| -> Value {
            request.tools.iter().map(spell).collect()
        };
        let messages = request.messages;
        Some(match self.shape {
            Shape::Anthropic => {
                let messages: Value = messages.iter().map(anthropic).collect();
                let mut body = json!({"model": model, "messages": messages,
                                      "tools": tools(|tool| json!({"name": tool.name,
                                          "description": tool.description, "input_schema": tool.parameters}))});
                if let Some(system) = request.system {
                    body["system"] = system.into();
                }
                ("messages/count_tokens".to_owned(), body, "input_tokens")
            }
            Shape::OpenAiResponses => {
                let input: Value = messages.iter().flat_map(responses).collect();
                let mut body = json!({"model": model, "input": input,
                                      "tools": tools(|tool| json!({"type": "function", "name": tool.name,
                                          "description": tool.description, "parameters": tool.parameters}))});
                if let Some(system) = request.system {
                    body["instructions"] = system.into();
                }
                ("responses/input_tokens".to_owned(), body, "input_tokens")
            }
            Shape::Gemini => {
                let contents: Value = messages.iter().map(gemini).collect();
                let mut body = json!({"model": format!("models/{model}"), "contents": contents});
                if !request.tools.is_empty() {
                    let declared = tools(|tool| {
                        json!({"name": tool.name,
                        "description": tool.description, "parameters": tool.parameters})
                    });
                    body["tools"] = json!([{"functionDeclarations": declared}]);
                }
                if let Some(system) = request.system {
                    body["systemInstruction"] = json!({"parts": [{"text": system}]});
                }
                let body = json!({"generateContentRequest": body});
                (format!("models/{model}:countTokens"), body, "totalTokens")
            }
            Shape::OpenAi => return None,
        })
    }
}

fn anthropic(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::User(text) => json!({"role": "user", "content": text}),
        ChatMessage::Assistant { text, calls } => {
            let said = Some(json!({"type": "text", "text": text})).filter(|_| !text.is_empty());
            let used = calls.iter().map(|call| {
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
            });
            json!({"role": "assistant", "content": said.into_iter().chain(used).collect::<Value>()})
        }
        ChatMessage::ToolResult {
            call_id, content, ..
        } => {
            let result = json!({"type": "tool_result", "tool_use_id": call_id, "content": content});
            json!({"role": "user", "content": [result]})
        }
    }
}

fn responses(message: &ChatMessage) -> Vec<Value> {
    match message {
        ChatMessage::User(text) => vec![json!({"role": "user", "content": text})],
        ChatMessage::Assistant { text, calls } => {
            let said = Some(json!({"role": "assistant", "content": text}));
            let used = calls.iter().map(|call: &ToolCall| {
                json!({"type": "function_call", "call_id": call.id, "name": call.name,
                       "arguments": call.input.to_string()})
            });
            said.filter(|_| !text.is_empty())
                .into_iter()
                .chain(used)
                .collect()
        }
        ChatMessage::ToolResult {
            call_id, content, ..
        } => vec![json!({"type": "function_call_output", "call_id": call_id, "output": content})],
    }
}

fn gemini(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::User(text) => json!({"role": "user", "parts": [{"text": text}]}),
        ChatMessage::Assistant { text, calls } => {
            let said = Some(json!({"text": text})).filter(|_| !text.is_empty());
            let used = calls
                .iter()
                .map(|call| json!({"functionCall": {"name": call.name, "args": call.input}}));
            json!({"role": "model", "parts": said.into_iter().chain(used).collect::<Value>()})
        }
        ChatMessage::ToolResult { tool, content, .. } => {
            let response = json!({"name": tool, "response": {"content": content}});
            json!({"role": "user", "parts": [{"functionResponse": response}]})
        }
    }
}
