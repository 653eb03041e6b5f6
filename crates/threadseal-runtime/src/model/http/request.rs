//! The request to a provider: the conversation in the crate's own types, which the crate encodes
//! for each protocol.

use crate::model::{ChatMessage, Request, ToolCall, ToolSchema};
use genai::chat::{
    ChatMessage as Sent, ChatRequest, ContentPart, MessageContent, Tool, ToolCall as SentCall,
    ToolResponse,
};

/// The request in the crate's types.
pub(super) fn chat(request: &Request<'_>) -> ChatRequest {
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

/// The messages. Results of one answer's calls form one message: Anthropic's protocol wants them
/// together.
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
