//! Models of providers, over HTTP, through the crate `genai`. It implements each provider's
//! protocol, takes the address and key from its caller, and returns errors with status and headers.
//!
//! | shape | protocol | also used by |
//! |---|---|---|
//! | `anthropic` | Anthropic Messages | |
//! | `openai_responses` | OpenAI Responses | |
//! | `openai` | OpenAI Chat Completions | vLLM, Ollama, llama.cpp, … |
//! | `gemini` | Gemini generateContent | |
//!
//! Address and key are arguments: nothing here reads the environment, and a key never appears in
//! any output. One request is one attempt. Answers stream in: observers see them grow, and a thread
//! that is cancelled drops the line.

mod answer;
mod count;
mod explain;
mod failure;
mod refusal;
mod request;

use super::message::CANCELLED;
use super::{Advice, Answer, Model, ModelError, Request};
use crate::bounds::{MODEL_CONNECT_TIMEOUT, MODEL_IDLE_TIMEOUT, MODEL_TIMEOUT, POLL_INTERVAL};
use answer::{Growing, Seen};
use count::TokenCount;
use failure::{cut_off, failed, is_ours, ours};
use futures_util::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatStreamEvent};
use genai::resolver::AuthData;
use genai::{Client, ModelIden, ServiceTarget};
use refusal::Refusal;
use std::fmt;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::runtime::wait_for;

/// The protocol of an endpoint.
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

    /// The provider's own address.
    pub(crate) fn default_url(self) -> &'static str {
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
    /// The provider, as its users know it.
    pub provider: String,
    /// The variable that holds the key, for errors.
    pub key_env: Option<String>,
    /// The key, where one is needed.
    pub api_key: Option<String>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Endpoint")
            .field("shape", &self.shape)
            .field("base_url", &self.base_url)
            .field("provider", &self.provider)
            .field("key_env", &self.key_env)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish()
    }
}

/// A model of a provider.
pub struct HttpModel {
    name: String,
    /// Without its key, for errors.
    endpoint: Endpoint,
    place: String,
    client: Client,
    target: ServiceTarget,
    count: TokenCount,
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
            .map_err(|error| {
                Error::invalid(format!("{base:?} is not a valid model address: {error}"))
            })?
            .to_string();
        if !base.ends_with('/') {
            base.push('/');
        }
        let web = reqwest::Client::builder()
            .timeout(MODEL_TIMEOUT)
            .connect_timeout(MODEL_CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(refusal::noticed())
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::External, format!("cannot speak HTTP: {error}"))
            })?;
        let count = TokenCount::new(web.clone(), endpoint, &base, name);
        let client = Client::builder().with_reqwest(web).build();
        let client = client.map_err(|error| Error::new(ErrorKind::External, error.to_string()))?;
        let place = explain::place(endpoint, &base, name);
        let adapter = endpoint.shape.adapter();
        let target = ServiceTarget {
            endpoint: genai::resolver::Endpoint::from_owned(base),
            auth: AuthData::from_single(endpoint.api_key.clone().unwrap_or_default()),
            model: ModelIden::new(adapter, name.to_owned()),
        };
        Ok(Self {
            name: name.to_owned(),
            endpoint: Endpoint {
                api_key: None,
                ..endpoint.clone()
            },
            place,
            client,
            target,
            count,
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
        let asked = async { Ok(refusal::watched(self.streamed(request, on_text)).await) };
        let answer = wait_for(asked).map_err(|error| ours("ConnectionError", error.to_string()));
        answer.flatten().map_err(|error| ModelError {
            advice: Some(Box::new(Advice {
                place: self.place.clone(),
                hint: explain::hint(&error, &self.endpoint),
            })),
            ..error
        })
    }

    fn counts(&self) -> bool {
        self.count.is_there()
    }

    fn count(&self, request: &Request<'_>) -> Option<u64> {
        self.count.of(request)
    }
}

/// How far an answer has come.
#[derive(Default)]
struct Begun {
    /// The request is under way: genai states that before it connects.
    sent: bool,
    /// A part of the answer came.
    spoke: bool,
}

impl HttpModel {
    async fn streamed(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let mut begun = Begun::default();
        let answer = self.read(request, on_text, &mut begun).await;
        answer.map_err(|error| ModelError {
            // An error that the provider states instead of an answer is not paid for, nor one without a provider.
            began: begun.spoke || (begun.sent && !error.unreached && is_ours(&error)),
            ..error
        })
    }

    async fn read(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
        begun: &mut Begun,
    ) -> Result<Answer, ModelError> {
        let seen = Seen::default();
        let options = ChatOptions::default()
            .with_max_tokens(request.max_output_tokens)
            .with_capture_usage(true)
            .with_capture_tool_calls(true)
            .with_capture_reasoning_content(true)
            .with_stream_read_timeout(MODEL_IDLE_TIMEOUT)
            .with_raw_frame_sink_arc(Arc::new(seen.clone()));
        let chat = request::chat(request);
        let asked = self
            .client
            .exec_chat_stream(self.target.clone(), chat, Some(&options));
        let mut stream = asked.await.map_err(failed)?.stream;
        let mut growing = Growing::default();
        let mut refusal = Refusal::default();
        loop {
            // A cancelled thread does not wait for a provider; leaving here closes the connection.
            if request.cancel.is_set() {
                return Err(ours(CANCELLED, "cancelled".to_owned()));
            }
            let next = refusal.bounded(stream.next());
            let Ok(next) = tokio::time::timeout(POLL_INTERVAL, next).await else {
                continue;
            };
            let event = next?.ok_or_else(|| cut_off("the stream ends in the middle"))?;
            if seen.is_torn() {
                return Err(cut_off("an event of it is torn"));
            }
            let event = event.map_err(failed)?;
            begun.sent = true;
            begun.spoke |= !matches!(event, ChatStreamEvent::Start);
            if let Some(mut answer) = growing.push(event, &seen, request, on_text)? {
                if answer.model.is_empty() {
                    answer.model.clone_from(&self.name);
                }
                return Ok(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
