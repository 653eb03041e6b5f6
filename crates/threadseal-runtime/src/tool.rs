//! Tools that a project declares: commands, and tools of MCP servers.
//!
//! ```yaml
//! tool_type: command                      tool_type: mcp
//! command: [grep, -n, "${inputs.what}"]   command: [npx, server]      or url: https://…/mcp
//! stdin: "{input:text}"                   tool: read_file
//! env: [PATH, LANG]                       env: [PATH]     header_env: {Authorization: MCP_TOKEN}
//! working_directory: data                 config_schema: …
//! config_schema: {type: object, …}
//! ```
//! No shell is involved. An argument is one argument regardless of its characters, and the program
//! is never taken from an argument.
//!
//! Normative: `spec/declarations.md` §6. Elsewhere: running them.

mod read;

use crate::bounds::MAX_ARGUMENTS;
use crate::interpolate::Template;
use crate::item::ItemId;
use crate::place::Place;
use crate::schema::Schema;
use serde_json::{Map, Value};
use std::time::Duration;
use threadseal_core::error::Error;

/// A tool, as declared.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its purpose, for models.
    pub description: String,
    /// Its version, as written; empty where it has none.
    pub version: String,
    /// The schema of its arguments. None where the file has none: a command then takes nothing, an
    /// MCP tool uses the schema of its server.
    pub schema: Option<Schema>,
    /// How long it may run.
    pub timeout: Duration,
    /// How much of each of its outputs is kept, in bytes.
    pub max_output_bytes: u64,
    /// May its calls run in parallel with other calls of the same answer? None where the file has
    /// no value: then only those of an MCP tool may.
    pub parallel: Option<bool>,
    /// Its kind.
    pub kind: ToolKind,
}

/// The kinds of tools.
#[derive(Debug, Clone)]
pub enum ToolKind {
    /// A program.
    Command(CommandTool),
    /// A tool of an MCP server.
    Mcp(McpTool),
}

/// A program and its surroundings.
#[derive(Debug, Clone)]
pub struct CommandTool {
    program: Vec<Template>,
    /// Its standard input; None for nothing.
    pub stdin: Option<Template>,
    /// Names of variables that it sees of the caller's environment. It sees no others.
    pub env: Vec<String>,
    /// Variables that are set for it.
    pub set_env: Vec<(String, Template)>,
    /// Where it runs: a path without `..` below the project; empty for the project itself.
    pub working_directory: String,
    /// A script that is verified first, and whose path is `${script}`.
    pub script: Option<ItemId>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone)]
pub struct McpTool {
    /// How to reach the server.
    pub server: McpServer,
    /// The tool's name there.
    pub tool: String,
}

/// How to reach an MCP server.
#[derive(Debug, Clone)]
pub enum McpServer {
    /// A program that communicates over standard input and output. Its templates see no arguments.
    Stdio(CommandTool),
    /// Streamable HTTP.
    Http {
        /// `https://…`, or `http://` to this machine.
        url: String,
        /// Headers by name, each with the variable of the caller's environment that contains its
        /// value.
        header_env: Vec<(String, String)>,
    },
}

impl Tool {
    /// Reads a tool. `file` is named in errors.
    ///
    /// # Errors
    /// Kind `InvalidInput` with file and line; `Limit` beyond a bound.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        read::tool(&crate::yaml::parse(file, text)?)
    }

    /// The arguments of a call with defaults where none are given.
    ///
    /// # Errors
    /// Kind `InvalidInput` when they do not suit the schema.
    pub fn arguments(&self, given: Map<String, Value>) -> Result<Map<String, Value>, Error> {
        match (&self.schema, &self.kind) {
            (Some(schema), _) => schema.apply(given),
            (None, ToolKind::Command(_)) if !given.is_empty() => {
                Err(Error::invalid("the tool takes no arguments"))
            }
            (None, _) => Ok(given),
        }
    }
}

impl CommandTool {
    /// The program and its arguments. `context` has `inputs` (the call's arguments), and further
    /// values of the runner. An argument that is one `${…}` disappears where that is nothing. It
    /// becomes as many arguments as there are items where that is a list.
    ///
    /// # Errors
    /// Kind `InvalidInput` when an argument has a NUL in it or a list contains lists; `Limit` for
    /// more than [`MAX_ARGUMENTS`].
    pub fn argv(&self, context: &Value) -> Result<Vec<String>, Error> {
        let mut argv = Vec::new();
        for template in &self.program {
            match template.render(context)? {
                Value::Null => {}
                Value::Array(items) => {
                    for item in &items {
                        argv.push(argument(item)?);
                    }
                }
                value => argv.push(argument(&value)?),
            }
            if argv.len() > MAX_ARGUMENTS {
                let message = format!("a command has at most {MAX_ARGUMENTS} arguments");
                return Err(Error::new(
                    threadseal_core::error::ErrorKind::Limit,
                    message,
                ));
            }
        }
        Ok(argv)
    }

    /// The program's name or path, which no argument can change.
    pub fn program(&self) -> String {
        let first = self.program.first();
        first
            .and_then(|template| template.render_text(&Value::Null).ok())
            .unwrap_or_default()
    }
}

fn argument(value: &Value) -> Result<String, Error> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(_) => return Err(Error::invalid("a list of lists is no list of arguments")),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match text.contains('\0') {
        true => Err(Error::invalid("an argument of a command cannot hold a NUL")),
        false => Ok(text),
    }
}

/// A path below the project, in parts without `..`.
fn below(text: &str, place: &Place) -> Result<String, Error> {
    let parts = text
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let parts: Vec<&str> = parts.collect();
    let inside = !text.starts_with('/')
        && parts
            .iter()
            .all(|part| *part != ".." && !part.contains(['\\', '\0', ':']));
    match inside {
        true => Ok(parts.join("/")),
        false => Err(place.error(format!("{text:?} does not stay in the project"))),
    }
}

#[cfg(test)]
mod tests;
