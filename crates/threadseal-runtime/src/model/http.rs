//! Models of providers, over HTTP, through the crate `genai`: it speaks each provider's own protocol, takes the
//! address and key from its caller, and hands back errors with status and headers.
//!
//! | shape | protocol | also spoken by |
//! |---|---|---|
//! | `anthropic` | Anthropic Messages | |
//! | `openai_responses` | OpenAI Responses | |
//! | `openai` | OpenAI Chat Completions | vLLM, Ollama, llama.cpp, … |
//! | `gemini` | Gemini generateContent | |
//!
//! Address and key are arguments: nothing here reads the environment, and a key shows itself nowhere. One
//! request is one attempt.

use super::{Answer, ChatMessage, Model, ModelError, Request, Stop, ToolCall, ToolSchema, Usage};
use crate::bounds::{MAX_ERROR_TEXT_BYTES, MODEL_CONNECT_TIMEOUT, MODEL_TIMEOUT};
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage as Sent, ChatOptions, ChatRequest, ChatResponse, ContentPart, MessageContent,
    StopReason, Tool, ToolCall as SentCall, ToolResponse,
};
use genai::resolver::AuthData;
use genai::{Client, ModelIden, ServiceTarget};
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use threadseal::error::{Error, ErrorKind};
use threadseal_store::runtime::wait_for;

/// Which protocol an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAiResponses,
    /// OpenAI Chat Completions.
    OpenAi,
    /// Gemini generateContent.
    Gemini,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Anthropic,
        Self::OpenAiResponses,
        Self::OpenAi,
        Self::Gemini,
    ];

    /// The word for it in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai_responses",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }

    /// Reads [`Shape::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.as_str() == text)
    }

    /// Where the provider itself listens.
    pub fn default_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::OpenAiResponses | Self::OpenAi => "https://api.openai.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
        }
    }

    fn adapter(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::OpenAiResponses => AdapterKind::OpenAIResp,
            Self::OpenAi => AdapterKind::OpenAI,
            Self::Gemini => AdapterKind::Gemini,
        }
    }
}

/// Where a model answers.
#[derive(Clone)]
pub struct Endpoint {
    /// Its protocol.
    pub shape: Shape,
    /// The address before the protocol's own paths; None for the provider's.
    pub base_url: Option<String>,
    /// The key, where one is needed.
    pub api_key: Option<String>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Endpoint")
            .field("shape", &self.shape)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish()
    }
}

/// A model of a provider.
pub struct HttpModel {
    name: String,
    client: Client,
    target: ServiceTarget,
}

impl HttpModel {
    /// The model that `endpoint` calls `name`.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the address is none, `External` when no client can be made.
    pub fn new(endpoint: &Endpoint, name: &str) -> Result<Self, Error> {
        // Another part of the program may have chosen it already; it is the same one then.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = endpoint
            .base_url
            .as_deref()
            .unwrap_or(endpoint.shape.default_url());
        let mut base = reqwest::Url::parse(base)
            .map_err(|error| Error::invalid(format!("{base:?} is no address of a model: {error}")))?
            .to_string();
        if !base.ends_with('/') {
            base.push('/');
        }
        let web = reqwest::Client::builder()
            .timeout(MODEL_TIMEOUT)
            .connect_timeout(MODEL_CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::External, format!("cannot speak HTTP: {error}"))
            })?;
        let client = Client::builder().with_reqwest(web).build();
        let client = client.map_err(|error| Error::new(ErrorKind::External, error.to_string()))?;
        let adapter = endpoint.shape.adapter();
        let target = ServiceTarget {
            endpoint: genai::resolver::Endpoint::from_owned(base),
            auth: AuthData::from_single(endpoint.api_key.clone().unwrap_or_default()),
            model: ModelIden::new(adapter, name.to_owned()),
        };
        Ok(Self {
            name: name.to_owned(),
            client,
            target,
        })
    }
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let options = ChatOptions::default()
            .with_max_tokens(request.max_output_tokens)
            .with_capture_usage(true);
        let asked = self
            .client
            .exec_chat(self.target.clone(), chat(request), Some(&options));
        let done = wait_for(async { Ok(asked.await) }).map_err(|error| ModelError {
            kind: "ConnectionError".to_owned(),
            message: error.to_string(),
            ..ModelError::default()
        })?;
        let answer = answered(done.map_err(failed)?);
        if !answer.text.is_empty() {
            on_text(&answer.text);
        }
        Ok(answer)
    }
}

fn chat(request: &Request<'_>) -> ChatRequest {
    let mut out = ChatRequest::new(sent(request.messages));
    if let Some(system) = request.system {
        out = out.with_system(system);
    }
    if !request.tools.is_empty() {
        out = out.with_tools(request.tools.iter().map(tool));
    }
    out
}

fn tool(schema: &ToolSchema) -> Tool {
    Tool::new(schema.name.clone())
        .with_description(schema.description.clone())
        .with_schema(schema.parameters.clone())
}

/// The messages. Results of one answer's calls are one of them: Anthropic's protocol wants them together.
fn sent(messages: &[ChatMessage]) -> Vec<Sent> {
    let mut out = Vec::new();
    let mut results: Vec<ToolResponse> = Vec::new();
    for message in messages {
        if let ChatMessage::ToolResult {
            call_id,
            tool,
            content,
        } = message
        {
            results.push(ToolResponse::new(call_id, content).with_fn_name(tool));
            continue;
        }
        if !results.is_empty() {
            out.push(Sent::from(std::mem::take(&mut results)));
        }
        out.push(match message {
            ChatMessage::Assistant { text, calls } => assistant(text, calls),
            ChatMessage::User(text) => Sent::user(text.as_str()),
            ChatMessage::ToolResult { .. } => continue,
        });
    }
    if !results.is_empty() {
        out.push(Sent::from(results));
    }
    out
}

fn assistant(text: &str, calls: &[ToolCall]) -> Sent {
    let mut content = MessageContent::default();
    if !text.is_empty() || calls.is_empty() {
        content.push(ContentPart::from_text(text));
    }
    for call in calls {
        content.push(ContentPart::ToolCall(SentCall {
            call_id: call.id.clone(),
            fn_name: call.name.clone(),
            fn_arguments: call.input.clone(),
            thought_signatures: (!call.signatures.is_empty()).then(|| call.signatures.clone()),
        }));
    }
    Sent::assistant(content)
}

fn answered(response: ChatResponse) -> Answer {
    let details = response.usage.prompt_tokens_details.as_ref();
    let usage = Usage {
        input_tokens: count(response.usage.prompt_tokens),
        cached_tokens: count(details.and_then(|details| details.cached_tokens)),
        cache_write_tokens: count(details.and_then(|details| details.cache_creation_tokens)),
        output_tokens: count(response.usage.completion_tokens),
    };
    let text = response.content.joined_texts().unwrap_or_default();
    let calls: Vec<ToolCall> = response
        .content
        .into_tool_calls()
        .into_iter()
        .map(|call| ToolCall {
            id: call.call_id,
            name: call.fn_name,
            input: call.fn_arguments,
            signatures: call.thought_signatures.unwrap_or_default(),
        })
        .collect();
    let stop = match response.stop_reason {
        Some(StopReason::MaxTokens(_)) => Stop::Truncated,
        Some(StopReason::ContentFilter(_)) => Stop::Filtered,
        _ if calls.is_empty() => Stop::Complete,
        _ => Stop::ToolCalls,
    };
    Answer {
        text,
        reasoning: response.reasoning_content.filter(|text| !text.is_empty()),
        calls,
        usage,
        model: response.provider_model_iden.model_name.to_string(),
        stop,
    }
}

fn count(tokens: Option<i32>) -> u64 {
    tokens
        .and_then(|tokens| u64::try_from(tokens).ok())
        .unwrap_or(0)
}

fn failed(error: genai::Error) -> ModelError {
    use genai::webc;
    let ours = |kind: &str, message: String| ModelError {
        kind: kind.to_owned(),
        message: bounded(message),
        ..ModelError::default()
    };
    let (genai::Error::WebModelCall { webc_error, .. }
    | genai::Error::WebAdapterCall { webc_error, .. }) = error
    else {
        return ours("ProtocolError", error.to_string());
    };
    match webc_error {
        webc::Error::ResponseFailedStatus {
            status,
            body,
            headers,
        } => {
            let retry_after = headers
                .get("retry-after")
                .and_then(|value| value.to_str().ok());
            refused(status.as_u16(), &body, retry_after)
        }
        webc::Error::Reqwest(error) if error.is_timeout() => ours("TimeoutError", chain(&error)),
        webc::Error::Reqwest(error) => ours("ConnectionError", chain(&error)),
        other => ours("ProtocolError", other.to_string()),
    }
}

/// What a provider says when it refuses: `{"error": {"type", "code", "message"}}`, of which each has its own
/// parts (Gemini: `status` in place of `type`).
fn refused(status: u16, body: &str, retry_after: Option<&str>) -> ModelError {
    let parsed: Value = serde_json::from_str(body).unwrap_or_default();
    let error = &parsed["error"];
    let word = |name: &str| error[name].as_str().map(str::to_owned);
    ModelError {
        status,
        kind: word("type")
            .or_else(|| word("status"))
            .unwrap_or_else(|| "HttpError".to_owned()),
        code: word("code"),
        message: bounded(word("message").unwrap_or_else(|| body.to_owned())),
        retry_after: retry_after.and_then(seconds),
    }
}

/// `Retry-After` in seconds (RFC 9110 §10.2.3); a date is not looked at.
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

fn bounded(mut text: String) -> String {
    let mut end = text.len().min(MAX_ERROR_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// An error with its causes: reqwest's own text names none of them.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
