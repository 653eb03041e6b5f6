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

use crate::bounds::MAX_ARGUMENTS;
use crate::bounds::{MAX_TOOL_OUTPUT_BYTES, MAX_TOOL_SECONDS};
use crate::interpolate::Template;
use crate::item::{IGNORED_MEMBERS, ItemId};
use crate::place::Place;
use crate::schema::Schema;
#[cfg(feature = "engine")]
use crate::secrets::{Secrets, is_secret_name};
use crate::yaml::{Fields, Node};
use serde_json::{Map, Value};
use std::time::Duration;
use threadseal_core::error::Error;

/// Variables that any tool may see: they hold no secrets. `LC_…` are, too.
const HARMLESS_VARIABLES: [&str; 7] = ["PATH", "LANG", "TZ", "HOME", "TERM", "TMPDIR", "USER"];

/// The argument in whose place a server's script is.
const SCRIPT_PLACEHOLDER: &str = "${script}";

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
    /// A script that is verified first. `${script}` is a path to the verified bytes.
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
        read(&crate::yaml::parse(file, text)?)
    }

    /// Refuses the members that only a signed file may have: addresses, and variables that may hold
    /// secrets. `node` is the whole file.
    ///
    /// # Errors
    /// Kind `Refused`, with file and line.
    pub(crate) fn check_unvouched(node: &Node) -> Result<(), Error> {
        let mut fields = node.fields()?;
        for name in ["url", "header_env"] {
            if let Some(entry) = fields.take_entry(name) {
                return Err(entry.place.unvouched(format!("`{name}` of a tool")));
            }
        }
        let names = fields.take("env").map(Node::list).transpose()?;
        for name in names.into_iter().flatten() {
            let text = name.text()?;
            if !is_harmless(text) {
                return Err(name
                    .place
                    .unvouched(format!("the variable {text} of a tool")));
            }
        }
        Ok(())
    }

    /// Makes `secrets` know the values that the tool gets from the caller's environment: those of
    /// headers, those of variables with the name of a secret, and those in its address.
    #[cfg(feature = "engine")]
    pub(crate) fn teach(&self, environment: &[(String, String)], secrets: &Secrets) {
        let names: Vec<&String> = match &self.kind {
            ToolKind::Command(command)
            | ToolKind::Mcp(McpTool {
                server: McpServer::Stdio(command),
                ..
            }) => {
                let names = command.env.iter();
                names.filter(|name| is_secret_name(name)).collect()
            }
            ToolKind::Mcp(McpTool {
                server: McpServer::Http { url, header_env },
                ..
            }) => {
                secrets.learn_address(url);
                header_env.iter().map(|(_, name)| name).collect()
            }
        };
        for (name, value) in environment {
            if names.contains(&name) {
                secrets.learn(value);
            }
        }
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
    /// Does it see variables that may hold secrets?
    pub(crate) fn sees_secrets(&self) -> bool {
        !self.env.iter().all(|name| is_harmless(name))
    }

    /// The program and its arguments. `context` has `inputs` (the call's arguments), and further
    /// values of the runner. An argument that is one `${…}` disappears where that is nothing. It
    /// becomes as many arguments as there are items where that is a list.
    ///
    /// # Errors
    /// Kind `InvalidInput` when an argument has a NUL in it or a list contains lists; `Limit` for
    /// more than [`MAX_ARGUMENTS`].
    pub(crate) fn argv(&self, context: &Value) -> Result<Vec<String>, Error> {
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

const DEFAULT_SECONDS: u64 = 300;

const DEFAULT_OUTPUT_BYTES: u64 = 1 << 20;

fn read(node: &Node) -> Result<Tool, Error> {
    let mut fields = node.fields()?;
    fields.ignore(&IGNORED_MEMBERS);
    let kind = fields.require("tool_type")?;
    let kind = match kind.text()? {
        "command" => ToolKind::Command(command(&mut fields, true)?),
        "mcp" => ToolKind::Mcp(mcp(&mut fields)?),
        other => {
            let message = format!("unknown tool type `{other}`; known: command, mcp");
            return Err(kind.error(message));
        }
    };
    let tool = Tool {
        description: text(&mut fields, "description")?,
        version: text(&mut fields, "version")?,
        schema: fields
            .take("config_schema")
            .map(Schema::parse)
            .transpose()?,
        timeout: Duration::from_secs(within(
            &mut fields,
            "timeout_seconds",
            DEFAULT_SECONDS,
            MAX_TOOL_SECONDS,
        )?),
        max_output_bytes: within(
            &mut fields,
            "max_output_bytes",
            DEFAULT_OUTPUT_BYTES,
            MAX_TOOL_OUTPUT_BYTES,
        )?,
        parallel: fields.take("parallel").map(Node::bool).transpose()?,
        kind,
    };
    fields.finish("a tool of this type")?;
    Ok(tool)
}

/// Reads a command. `has_arguments`: whether templates may name the arguments of a call.
fn command(fields: &mut Fields<'_>, has_arguments: bool) -> Result<CommandTool, Error> {
    let argv = fields.require("command")?;
    let template = |node: &Node| {
        let template = Template::parse(node.text()?, &node.place)?;
        match has_arguments || template.is_plain() || node.text()? == SCRIPT_PLACEHOLDER {
            true => Ok(template),
            false => Err(node.error("a server is started once, before there are arguments")),
        }
    };
    let program: Vec<Template> = argv
        .list()?
        .iter()
        .map(template)
        .collect::<Result<_, _>>()?;
    match argv.list()?.first().zip(program.first()) {
        None => return Err(argv.error("`command` is empty")),
        Some((node, program)) if !program.is_plain() || node.text()?.is_empty() => {
            return Err(node.error("the program must be a text without placeholders"));
        }
        Some(_) => {}
    }
    let script = fields.take("script");
    let stdin = match has_arguments {
        true => fields.take("stdin"),
        false => None,
    };
    Ok(CommandTool {
        program,
        stdin: match stdin {
            Some(node) => Some(template(node)?),
            None => None,
        },
        env: match fields.take("env") {
            Some(list) => {
                let names = list.list()?.iter();
                names.map(variable).collect::<Result<_, _>>()?
            }
            None => Vec::new(),
        },
        set_env: match fields.take("set_env") {
            Some(map) => {
                let entries = map.entries()?.iter();
                entries
                    .map(|entry| {
                        name(&entry.key).ok_or_else(|| {
                            let message = format!("{:?} is not a valid variable name", entry.key);
                            entry.place.error(message)
                        })?;
                        Ok((entry.key.clone(), template(&entry.value)?))
                    })
                    .collect::<Result<_, Error>>()?
            }
            None => Vec::new(),
        },
        working_directory: match fields.take("working_directory") {
            Some(node) => below(node.text()?, &node.place)?,
            None => String::new(),
        },
        script: match script {
            Some(node) => Some(ItemId::parse(node.text()?).map_err(|error| node.error(error))?),
            None => None,
        },
    })
}

fn mcp(fields: &mut Fields<'_>) -> Result<McpTool, Error> {
    let tool = fields.require("tool")?.text()?.to_owned();
    let Some(url) = fields.take("url") else {
        let server = McpServer::Stdio(command(fields, false)?);
        return Ok(McpTool { server, tool });
    };
    let address = url.text()?;
    let local = ["http://127.0.0.1", "http://localhost", "http://[::1]"]
        .iter()
        .filter_map(|host| address.strip_prefix(host))
        .any(|rest| rest.is_empty() || rest.starts_with([':', '/']));
    if !address.starts_with("https://") && !local {
        return Err(url
            .error("the address of a server must begin with https, or with http on this machine"));
    }
    let header_env = match fields.take("header_env") {
        Some(map) => {
            let entries = map.entries()?.iter();
            entries
                .map(|entry| Ok((entry.key.clone(), variable(&entry.value)?)))
                .collect::<Result<_, Error>>()?
        }
        None => Vec::new(),
    };
    let server = McpServer::Http {
        url: address.to_owned(),
        header_env,
    };
    Ok(McpTool { server, tool })
}

fn is_harmless(name: &str) -> bool {
    HARMLESS_VARIABLES.contains(&name) || name.starts_with("LC_")
}

fn variable(node: &Node) -> Result<String, Error> {
    let text = node.text()?;
    name(text).ok_or_else(|| node.error(format!("{text:?} is not a valid variable name")))
}

/// A name that every system takes for a variable.
fn name(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(plain);
    good.then(|| text.to_owned())
}

fn text(fields: &mut Fields<'_>, name: &str) -> Result<String, Error> {
    fields
        .take(name)
        .map_or(Ok(String::new()), |node| node.text().map(ToOwned::to_owned))
}

fn within(fields: &mut Fields<'_>, name: &str, default: u64, most: u64) -> Result<u64, Error> {
    let Some(node) = fields.take(name) else {
        return Ok(default);
    };
    match node.whole()? {
        value @ 1.. if value <= most => Ok(value),
        _ => Err(node.error(format!("`{name}` is 1 to {most}"))),
    }
}

#[cfg(test)]
mod tests;
