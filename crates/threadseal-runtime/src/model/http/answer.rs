//! An answer as it streams in: pieces for people, the whole for the record.
//!
//! ```text
//! frame ─► Seen        which model answers, and text that no piece carries
//! event ─► Growing     text, reasoning, within a bound
//! end   ─► Answer      only if the provider states that it is whole, or why not
//! ```
//! A stream that ends without that word was cut off, even if it looks complete.

use super::failure::{cut_off, ours};
use crate::bounds::MAX_RECORDED_TEXT_BYTES;
use crate::model::{Answer, ModelError, Request, Stop, ToolCall, Usage};
use genai::chat::{
    ChatFrameSink, ChatStreamEvent, FrameCtx, RawFrameRef, StopReason, StreamEnd,
    ToolCall as SentCall, Usage as Counted,
};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The facts that the frames contain and the crate's events lack.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    model: Option<String>,
    text: String,
    /// An event of the stream is there in part.
    torn: bool,
    /// The frame before held the name of an event, and nothing else.
    only_named: bool,
}

impl Seen {
    /// An event of the stream has come in part, and no more than that can be known of it.
    pub(super) fn is_torn(&self) -> bool {
        self.facts().torn
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for Seen {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut facts = self.facts();
        // genai 0.7.2 takes a CR that ends one read and the LF that begins the next for two line
        // ends. So the event ends early: its name is one frame, its data another, and its content
        // is lost.
        facts.torn |= facts.only_named && frame.event.is_none();
        facts.only_named = frame.event.is_some() && frame.data.is_empty();
        let ended = frame.data.contains("\"response.completed\"");
        let last = frame.event == Some("message_stop");
        if facts.model.is_some() && !ended && !last {
            return;
        }
        let Ok(data) = serde_json::from_str::<Value>(frame.data) else {
            facts.torn |= last;
            return;
        };
        let places = [
            &data["model"],
            &data["message"]["model"],
            &data["response"]["model"],
            &data["modelVersion"],
        ];
        let named = places.iter().find_map(|place| place.as_str());
        facts.model = facts.model.take().or(named.map(str::to_owned));
        if ended {
            facts.text = text_of(&data["response"]["output"]);
        }
    }
}

/// The text of a whole response (OpenAI Responses): some servers stream no pieces of it.
fn text_of(output: &Value) -> String {
    let parts = output
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item["type"] == "message")
        .filter_map(|item| item["content"].as_array())
        .flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// An incomplete answer.
#[derive(Debug, Default)]
pub(super) struct Growing {
    text: String,
    reasoning: String,
}

impl Growing {
    /// Takes an event of the stream; the last one makes the answer.
    pub(super) fn push(
        &mut self,
        event: ChatStreamEvent,
        seen: &Seen,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Option<Answer>, ModelError> {
        let size = match &event {
            ChatStreamEvent::Chunk(piece) => self.text.len() + piece.content.len(),
            ChatStreamEvent::ReasoningChunk(piece) => self.reasoning.len() + piece.content.len(),
            ChatStreamEvent::ToolCallChunk(piece) => match &piece.tool_call.fn_arguments {
                Value::String(text) => text.len(),
                _ => 0,
            },
            _ => 0,
        };
        if size > MAX_RECORDED_TEXT_BYTES {
            let text =
                format!("a part of the answer has more than {MAX_RECORDED_TEXT_BYTES} bytes");
            return Err(ours("ProtocolError", text));
        }
        match event {
            ChatStreamEvent::Chunk(piece) => {
                on_text(&piece.content);
                self.text.push_str(&piece.content);
            }
            ChatStreamEvent::ReasoningChunk(piece) => self.reasoning.push_str(&piece.content),
            ChatStreamEvent::End(end) => {
                return std::mem::take(self)
                    .whole(end, seen, request, on_text)
                    .map(Some);
            }
            _ => {}
        }
        Ok(None)
    }

    fn whole(
        mut self,
        end: StreamEnd,
        seen: &Seen,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let stop = end
            .captured_stop_reason
            .ok_or_else(|| cut_off("it does not say why it ends"))?;
        let calls = end
            .captured_content
            .map(genai::chat::MessageContent::into_tool_calls)
            .unwrap_or_default();
        let calls: Vec<ToolCall> = calls.into_iter().map(call).collect();
        let mut facts = seen.facts();
        if self.text.is_empty() && !facts.text.is_empty() {
            self.text = std::mem::take(&mut facts.text);
            on_text(&self.text);
        }
        let stop = match stop {
            StopReason::ContentFilter(_) => Stop::Filtered,
            StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_) => {
                if calls.is_empty() {
                    Stop::Complete
                } else {
                    Stop::ToolCalls
                }
            }
            // An unknown reason does not prove that the answer is complete.
            StopReason::MaxTokens(_) | StopReason::Other(_) => Stop::Truncated,
        };
        let model = facts.model.take();
        Ok(Answer {
            usage: usage(end.captured_usage, request, &self.text),
            text: self.text,
            reasoning: Some(self.reasoning).filter(|text| !text.is_empty()),
            calls,
            model: model.unwrap_or_default(),
            stop,
        })
    }
}

fn call(call: SentCall) -> ToolCall {
    // A text that is not JSON is kept as the model's output; no tool accepts it.
    let input = match call.fn_arguments {
        Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Value::Null => Value::Object(Map::new()),
        other => other,
    };
    ToolCall {
        id: call.call_id,
        name: call.fn_name,
        input,
        signatures: call.thought_signatures.unwrap_or_default(),
    }
}

/// The tokens that the provider counted. Missing counts are estimated and marked as such: unknown
/// is not free.
fn usage(counted: Option<Counted>, request: &Request<'_>, answer: &str) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let counted = counted.unwrap_or_default();
    let details = counted.prompt_tokens_details.as_ref();
    let cached = count(details.and_then(|details| details.cached_tokens));
    let written = count(details.and_then(|details| details.cache_creation_tokens));
    let details = counted.completion_tokens_details.as_ref();
    let reasoning = count(details.and_then(|details| details.reasoning_tokens));
    // Gemini counts an answer of thoughts alone in no other member.
    let (input, output) = (
        count(counted.prompt_tokens),
        count(counted.completion_tokens).or(reasoning),
    );
    let estimate = Usage::estimated(request, answer);
    Usage {
        input_tokens: input.unwrap_or(estimate.input_tokens),
        cached_tokens: cached.unwrap_or_default(),
        cache_write_tokens: written.unwrap_or_default(),
        output_tokens: output.unwrap_or(estimate.output_tokens),
        reasoning_tokens: reasoning.unwrap_or_default(),
        estimated: input.is_none() || output.is_none(),
    }
}
