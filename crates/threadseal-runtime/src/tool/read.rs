//! Reading the YAML of a tool.

use super::{CommandTool, McpServer, McpTool, Tool, ToolKind, below};
use crate::bounds::{MAX_TOOL_OUTPUT_BYTES, MAX_TOOL_SECONDS};
use crate::interpolate::Template;
use crate::item::{IGNORED_MEMBERS, ItemId};
use crate::schema::Schema;
use crate::yaml::{Fields, Node};
use std::time::Duration;
use threadseal_core::error::Error;

const DEFAULT_SECONDS: u64 = 300;
const DEFAULT_OUTPUT_BYTES: u64 = 1 << 20;

pub(super) fn tool(node: &Node) -> Result<Tool, Error> {
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
        match has_arguments || template.is_plain() {
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
    let mut of_a_call = |name| match has_arguments {
        true => fields.take(name),
        false => None,
    };
    let (script, stdin) = (of_a_call("script"), of_a_call("stdin"));
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
