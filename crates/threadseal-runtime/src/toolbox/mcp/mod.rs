//! [`DeclaredMcp`]: a tool of an MCP server, as a project declares it.
//!
//! ```text
//! declaration ─► server started or reached, once for a process ─► its tools listed
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
//! | `hub` | the servers of a process, and the OS thread that communicates with them |
//! | `slot` | one server: its connection, and its new starts within bounds |
//! | `server`, `handshake` | one connection, and how it begins in either revision |
//! | `child` | the process of a server |
//! | `address`, `fault` | where a server is; what is wrong with it, and the next step |

mod address;
mod child;
mod fault;
mod handshake;
mod hub;
mod server;
mod slot;

use super::command::{SCRIPT_VARIABLE, Workshop};
use super::{Cancel, Invocation, Outcome, Tool, model_name};
use crate::bounds::{MAX_DECLARED_DEPTH, MAX_MCP_DESCRIPTION_BYTES, MAX_MCP_SCHEMA_BYTES};
use crate::item::ItemId;
use crate::model::ToolSchema;
use crate::secrets::Secrets;
use crate::tool::{self, McpServer, McpTool};
use address::Address;
pub use hub::Hub;
use hub::Lease;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};
use server::{Called, Offer};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// A tool of an MCP server.
pub struct DeclaredMcp {
    id: String,
    schema: ToolSchema,
    declaration: tool::Tool,
    server: Lease,
    name: String,
    secrets: Arc<Secrets>,
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
        let lease = lease(&server, shop, hub)?;
        let mut replaced = 0;
        let (shown, description, parameters) = match &declaration.schema {
            Some(schema) => (
                None,
                declaration.description.clone(),
                schema.to_json().clone(),
            ),
            None => {
                let offer = lease.offer(&name, declaration.timeout, cancel);
                let mut offer = offer.map_err(|error| masked(&error, &shop.secrets))?;
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
            server: lease,
            name,
            secrets: Arc::clone(&shop.secrets),
            shown,
            replaced,
        }))
    }

    /// How many secrets were replaced in the server's own texts about the tool.
    pub(crate) fn replaced(&self) -> u64 {
        self.replaced
    }

    fn called(&self, call: &mut Invocation<'_>) -> Result<Outcome, Error> {
        let given = match call.input {
            Value::Object(given) => given.clone(),
            Value::Null => Map::new(),
            _ => return Err(Error::invalid("arguments have names: they are an object")),
        };
        let arguments = self.declaration.arguments(given)?;
        let answer = self.server.call(
            (&self.name, self.shown),
            arguments,
            call.idempotency_key.to_owned(),
            self.declaration.timeout,
            call.cancel,
        )?;
        if let Some(again) = answer.restarted {
            let mut why = again.why;
            self.secrets.mask_text(&mut why);
            // A record that takes no event takes no result either: the call's own write fails then.
            let _ = call
                .record
                .server_restarted(self.server.name(), again.failures, &why);
        }
        Ok(match answer.called? {
            Called::Answered(result) => outcome(&result, self.declaration.max_output_bytes),
            Called::Open => Outcome::unknown(format!(
                "MCP server {}: it did not end the call, and asks for more than was called for; \
                 hint: look there whether the call was carried out",
                self.server.name()
            )),
            Called::Lost(fault) => Outcome::unknown(format!(
                "no answer, and whether it was carried out is not known: {}",
                fault.of(self.server.name())
            )),
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

/// An error without the secrets that a server may have put into it.
fn masked(error: &Error, secrets: &Secrets) -> Error {
    let mut text = error.to_string();
    secrets.mask_text(&mut text);
    Error::new(error.kind(), text)
}

/// The server of a declaration.
fn lease(server: &McpServer, shop: &Workshop, hub: &Arc<Hub>) -> Result<Lease, Error> {
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
            let (mut context, mut script) = (Value::Null, None);
            if let Some(item) = shop.script(command)? {
                let held = hub.script(&item)?;
                context = json!({"script": held.path()});
                environment.push((SCRIPT_VARIABLE.to_owned(), item.path().to_owned()));
                script = Some(held);
            }
            let address = Address::Stdio {
                argv: command.argv(&context)?,
                directory,
                environment,
                supervisor: shop.supervisor.clone(),
            };
            Ok(hub.lease(address, script))
        }
        McpServer::Http { url, header_env } => {
            let header = |(header, name): &(String, String)| {
                let unset = || {
                    Error::invalid(format!(
                        "MCP server {}: header {header} needs ${name}, which is not set; hint: set {name}",
                        address::plain(url)
                    ))
                };
                Ok((header.clone(), value_of(name).ok_or_else(unset)?))
            };
            let headers = header_env.iter().map(header);
            let address = Address::Http {
                url: url.clone(),
                headers: headers.collect::<Result<_, Error>>()?,
            };
            Ok(hub.lease(address, None))
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
