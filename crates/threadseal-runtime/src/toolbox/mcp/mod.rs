//! [`DeclaredMcp`]: a tool of an MCP server, as a project declares it.
//!
//! ```text
//! declaration ─► server started or reached, once for a thread ─► its tools listed
//!   ─► schema for the model
//! call ─► arguments ─► tools/call, bounded and cancellable
//!   ─► text, or JSON where there is more than text
//! ```
//! A server's output is data. Where the project has no description or schema of its own, a model
//! sees a bounded part of the server's. The server's instructions are never shown, and its requests
//! are refused (no sampling, roots or elicitation). If a server changes the tool that the thread
//! was shown under a name, that tool is not called.
//!
//! | module | owns |
//! |---|---|
//! | `hub` | the servers of a thread, and the OS thread that communicates with them |
//! | `server` | one connection |

mod address;
mod hub;
mod server;

use super::command::{SCRIPT_VARIABLE, Workshop};
use super::{Cancel, Invocation, Outcome, Tool, model_name};
use crate::bounds::{MAX_DECLARED_DEPTH, MAX_MCP_DESCRIPTION_BYTES, MAX_MCP_SCHEMA_BYTES};
use crate::item::ItemId;
use crate::model::ToolSchema;
use crate::tool::{self, McpServer, McpTool};
use address::Address;
pub use hub::Hub;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};
use server::{Called, Offer, Order};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// A tool of an MCP server.
pub struct DeclaredMcp {
    id: String,
    schema: ToolSchema,
    declaration: tool::Tool,
    address: Arc<Address>,
    name: String,
    hub: Arc<Hub>,
    /// The digest of the server's own texts that the model was shown; None where the project gives
    /// all texts.
    shown: Option<Digest>,
    /// How many secrets were replaced in the server's own texts.
    replaced: u64,
}

impl DeclaredMcp {
    /// The tool of this id; None when the declaration is none of an MCP server. Where the project
    /// gives no schema, the server's schema is requested, unless `cancel` stops it.
    ///
    /// # Errors
    /// When its script does not verify. When the server cannot be reached, does not have the tool, or describes it beyond bounds.
    pub fn new(
        id: &ItemId,
        declaration: tool::Tool,
        shop: &Workshop,
        hub: &Arc<Hub>,
        cancel: &Cancel,
    ) -> Result<Option<Self>, Error> {
        let tool::ToolKind::Mcp(McpTool { server, tool: name }) = declaration.kind.clone() else {
            return Ok(None);
        };
        declaration.teach(&shop.environment, &shop.secrets);
        let address = Arc::new(address(&server, shop, hub)?);
        let mut replaced = 0;
        let (shown, description, parameters) = match &declaration.schema {
            Some(schema) => (
                None,
                declaration.description.clone(),
                schema.to_json().clone(),
            ),
            None => {
                let order = Order {
                    address: Arc::clone(&address),
                    tool: name.clone(),
                    shown: None,
                };
                let mut offer = hub.offer(order, declaration.timeout, cancel)?;
                let digest = offer.digest();
                replaced = shop.secrets.mask_text(&mut offer.description);
                replaced += shop.secrets.mask_value(&mut offer.schema);
                let described = match declaration.description.as_str() {
                    "" => bounded(&offer.description).to_owned(),
                    own => own.to_owned(),
                };
                (Some(digest), described, acceptable(id, &offer)?)
            }
        };
        Ok(Some(Self {
            id: id.as_str().to_owned(),
            schema: ToolSchema {
                name: model_name(id.as_str()),
                description,
                parameters,
            },
            declaration,
            address,
            name,
            hub: Arc::clone(hub),
            shown,
            replaced,
        }))
    }

    /// How many secrets were replaced in the server's own texts about the tool.
    pub(crate) fn replaced(&self) -> u64 {
        self.replaced
    }

    fn called(&self, call: &Invocation<'_>) -> Result<Outcome, Error> {
        let given = match call.input {
            Value::Object(given) => given.clone(),
            Value::Null => Map::new(),
            _ => return Err(Error::invalid("arguments have names: they are an object")),
        };
        let arguments = self.declaration.arguments(given)?;
        let order = Order {
            address: Arc::clone(&self.address),
            tool: self.name.clone(),
            shown: self.shown,
        };
        let key = call.idempotency_key.to_owned();
        let timeout = self.declaration.timeout;
        let called = self.hub.call(order, arguments, key, timeout, call.cancel)?;
        Ok(match called {
            Called::Answered(result) => outcome(&result, self.declaration.max_output_bytes),
            Called::Lost(why) => Outcome::unknown(why),
        })
    }
}
impl Tool for DeclaredMcp {
    fn id(&self) -> &str {
        &self.id
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn parallel(&self, _: &Value) -> bool {
        self.declaration.parallel != Some(false)
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        self.called(call)
            .unwrap_or_else(|error| Outcome::failed(error.to_string()))
    }
}
fn address(server: &McpServer, shop: &Workshop, hub: &Hub) -> Result<Address, Error> {
    let value_of = |name: &String| {
        let found = shop.environment.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone())
    };
    match server {
        McpServer::Stdio(command) => {
            let directory = shop.project.root().join(&command.working_directory);
            shop.project.inside(&*shop.host.fs, &directory)?;
            let seen = command.env.iter();
            let mut environment: Vec<(String, String)> = seen
                .filter_map(|name| Some((name.clone(), value_of(name)?)))
                .collect();
            for (name, template) in &command.set_env {
                environment.push((name.clone(), template.render_text(&Value::Null)?));
            }
            let mut context = Value::Null;
            if let Some(item) = shop.script(command)? {
                context = json!({"script": hub.hold(&item)?});
                environment.push((SCRIPT_VARIABLE.to_owned(), item.path().to_owned()));
            }
            Ok(Address::Stdio {
                argv: command.argv(&context)?,
                directory,
                environment,
                supervisor: shop.supervisor.clone(),
            })
        }
        McpServer::Http { url, header_env } => {
            let header = |(header, name): &(String, String)| {
                let unset =
                    || Error::invalid(format!("header {header} needs ${name}, which is not set"));
                Ok((header.clone(), value_of(name).ok_or_else(unset)?))
            };
            Ok(Address::Http {
                url: url.clone(),
                headers: header_env
                    .iter()
                    .map(header)
                    .collect::<Result<_, Error>>()?,
            })
        }
    }
}

/// The schema of an offer, if a model can be shown it.
fn acceptable(id: &ItemId, offer: &Offer) -> Result<Value, Error> {
    let refused = |why: &str| {
        Error::refused(format!(
            "the input schema of {id} from its server is not usable: {why}"
        ))
    };
    let schema = &offer.schema;
    if schema["type"] != "object" {
        return Err(refused("its type is not an object"));
    }
    if schema.to_string().len() > MAX_MCP_SCHEMA_BYTES {
        return Err(refused(&format!(
            "it has more than {MAX_MCP_SCHEMA_BYTES} bytes"
        )));
    }
    if depth(schema) > MAX_DECLARED_DEPTH {
        return Err(refused("it is nested too deeply"));
    }
    Ok(schema.clone())
}
fn depth(value: &Value) -> usize {
    // serde_json reads nothing that is nested more deeply than 128.
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    deepest.unwrap_or(0) + 1
}
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(MAX_MCP_DESCRIPTION_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The content of a result: its text, or its parts where there is more. A part that is no text
/// becomes its description.
fn outcome(result: &CallToolResult, most: u64) -> Outcome {
    let texts: Option<Vec<&str>> = result
        .content
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    let said = match (texts, &result.structured_content) {
        (Some(texts), Some(structured)) if texts.is_empty() => structured.clone(),
        // The text is for models, and repeats the structure.
        (Some(texts), _) => Value::String(texts.join("\n")),
        (_, structured) => {
            let parts: Vec<Value> = result.content.iter().map(part).collect();
            match structured {
                Some(structured) => json!({"content": parts, "structured_content": structured}),
                None => Value::Array(parts),
            }
        }
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let outcome = Outcome::ok(said).bounded(most);
    match result.is_error {
        Some(true) => Outcome {
            error: Some(format!("the server says: {}", outcome.text())),
            ..outcome
        },
        _ => outcome,
    }
}
fn part(block: &ContentBlock) -> Value {
    let data = |kind: &str, mime: &str, data: &str| {
        let digest = Digest::of(data.as_bytes()).to_hex();
        json!({"type": kind, "mime_type": mime, "base64_bytes": data.len(), "base64_sha256": digest})
    };
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text.text}),
        ContentBlock::Image(image) => data("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => data("audio", &audio.mime_type, &audio.data),
        other => serde_json::to_value(other).unwrap_or(Value::Null),
    }
}
#[cfg(test)]
mod tests;
