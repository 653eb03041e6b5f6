//! [`Toolbox`]: the tools of one thread, each call checked against its capabilities.
//!
//! ```text
//! the model calls   rye_file-system_read {path}                            a tool by its name
//!                   rye_execute {item_type: tool,
//!                                item_id: rye/file-system/read,
//!                                parameters: {path}}                       Rye's way
//!                   rye_search, rye_load, rye_sign                         items, not to run them
//! ```
//! The model sees only tools that the thread may use, and only these run, under any name. Of many it
//! may be shown the first ones only (`tool_preload`): `rye_execute` names them all.

use super::primaries::may_permit;
use super::{Tool, model_name};
use crate::capability::{Call, Capabilities};
use crate::config::resilience::ToolPreload;
use crate::hook_declaration::Primary;
use crate::model::{ToolCall, ToolSchema};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use threadseal_core::error::Error;

/// Rye's own tool, through which all others are called.
const EXECUTE: &str = "rye_execute";
/// Names with a fixed meaning for models: no declared tool may have one.
const RESERVED: [&str; 5] = [
    EXECUTE,
    "rye_search",
    "rye_load",
    "rye_sign",
    "directive_return",
];

/// The tools of one thread.
pub struct Toolbox {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Those by which items are searched, loaded and signed: each checks its own calls.
    primaries: Vec<(Primary, Arc<dyn Tool>)>,
    /// The tool that runs directives in threads of their own.
    children: Option<Arc<dyn Tool>>,
    capabilities: Capabilities,
    /// Which tools the model is shown.
    preload: ToolPreload,
}

/// A call that may run.
pub struct Permitted {
    /// The tool that runs.
    pub tool: Arc<dyn Tool>,
    /// Its arguments.
    pub input: Value,
}

impl Toolbox {
    /// The available tools that `capabilities` permit.
    ///
    /// # Errors
    /// Kind `InvalidInput` when two of them have one name for the model, or one has the name of
    /// another thing.
    pub fn new(
        capabilities: Capabilities,
        there: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Self, Error> {
        let mut tools: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        for tool in there {
            if !tool.is_permitted(&capabilities) {
                continue;
            }
            let tool = tool.under(&capabilities).unwrap_or(tool);
            let name = tool.schema().name.clone();
            if RESERVED.contains(&name.as_str()) {
                let text = format!(
                    "tool {} has the name {name} for a model, which is reserved",
                    tool.id()
                );
                return Err(Error::invalid(text));
            }
            if let Some(other) = tools.get(&name) {
                let text = format!(
                    "tools {} and {} have the same name {name} for a model",
                    other.id(),
                    tool.id()
                );
                return Err(Error::invalid(text));
            }
            tools.insert(name, tool);
        }
        Ok(Self {
            tools,
            primaries: Vec::new(),
            children: None,
            capabilities,
            preload: ToolPreload::All,
        })
    }

    /// The same where a model is shown only these tools; it may call the others by their ids.
    #[must_use]
    pub fn preloading(mut self, preload: ToolPreload) -> Self {
        self.preload = preload;
        self
    }

    /// The same with ways to search, load and sign items.
    #[must_use]
    pub(crate) fn with_primaries(mut self, primaries: Vec<(Primary, Arc<dyn Tool>)>) -> Self {
        self.primaries = primaries;
        self
    }

    /// Sets the tool that runs directives in threads of their own.
    pub fn children(&mut self, children: &Arc<dyn Tool>) {
        self.children = Some(Arc::clone(children));
    }

    /// The tool of this id, if the thread may use it.
    pub fn tool(&self, id: &str) -> Option<Arc<dyn Tool>> {
        let tool = self.tools.get(&model_name(id));
        tool.filter(|tool| tool.id() == id).map(Arc::clone)
    }

    /// The tool by which items are searched, loaded or signed, if the thread may do that with any.
    pub(crate) fn primary(&self, primary: Primary) -> Option<Arc<dyn Tool>> {
        let mut there = self.primaries.iter();
        there
            .find(|(known, _)| *known == primary)
            .map(|(_, tool)| Arc::clone(tool))
    }

    /// The schemas for the model: each tool that it is shown, and Rye's way to call all.
    pub(crate) fn schemas(&self) -> Vec<ToolSchema> {
        let mut left = match self.preload {
            ToolPreload::All => u64::MAX,
            ToolPreload::UpTo(tokens) => tokens,
        };
        let all = self.tools.values().map(|tool| tool.schema());
        let fits = |schema: &&ToolSchema| match left.checked_sub(tokens_of(schema)) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let mut schemas: Vec<ToolSchema> = all.take_while(fits).cloned().collect();
        let children =
            self.children.is_some() && may_permit(&self.capabilities, "rye.execute.directive.");
        if children || !self.tools.is_empty() {
            schemas.push(self.execute_schema());
        }
        let primaries = self.primaries.iter();
        schemas.extend(primaries.map(|(_, tool)| tool.schema().clone()));
        schemas
    }

    /// The capabilities that calls are checked against.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The tool that a call means.
    ///
    /// # Errors
    /// A message for the model: no such tool, or no permission to use it.
    pub fn find(&self, call: &ToolCall) -> Result<Permitted, String> {
        let mut primaries = self.primaries.iter();
        if let Some((_, tool)) = primaries.find(|(_, tool)| tool.id() == call.name) {
            return Ok(Permitted {
                tool: Arc::clone(tool),
                input: call.input.clone(),
            });
        }
        let named = (call.name.as_str(), call.input.clone());
        let (name, input) = if call.name == EXECUTE {
            if call.input["item_type"] == "directive" {
                return self.directive(&call.input);
            }
            unwrapped(&call.input)?
        } else {
            named
        };
        let by_id = || {
            self.tools
                .get(&model_name(name))
                .filter(|tool| tool.id() == name)
        };
        let tool = self.tools.get(name).or_else(by_id).ok_or_else(|| {
            let known: Vec<&str> = self.tools.values().map(|tool| tool.id()).collect();
            format!(
                "no leave to use {name:?}, or no such tool; there are: {}",
                known.join(", ")
            )
        })?;
        Ok(Permitted {
            tool: Arc::clone(tool),
            input,
        })
    }

    /// The child that a call means. It needs permission for that directive, independent of the
    /// permission for the tool.
    fn directive(&self, input: &Value) -> Result<Permitted, String> {
        let id = input["item_id"].as_str().ok_or("item_id must be a text")?;
        let call =
            Call::new("execute", "directive", Some(id)).map_err(|error| error.to_string())?;
        let children = self.children.as_ref();
        let children = children.filter(|_| self.capabilities.permits(&call));
        let tool = children.ok_or_else(|| format!("no leave for {call}"))?;
        let inputs = match &input["parameters"] {
            Value::Null => json!({}),
            parameters => parameters.clone(),
        };
        Ok(Permitted {
            tool: Arc::clone(tool),
            input: json!({"directive_id": id, "inputs": inputs}),
        })
    }

    fn execute_schema(&self) -> ToolSchema {
        let ids: Vec<&str> = self.tools.values().map(|tool| tool.id()).collect();
        ToolSchema {
            name: EXECUTE.to_owned(),
            description: "Runs a tool by its id, or a directive in a thread of its own.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "item_type": {"enum": ["tool", "directive"], "default": "tool"},
                    "item_id": {"type": "string", "description": format!("Tools: {}", ids.join(", "))},
                    "parameters": {"type": "object"},
                },
                "required": ["item_id"],
            }),
        }
    }
}

/// The tokens of a description, one for each four bytes.
fn tokens_of(schema: &ToolSchema) -> u64 {
    let texts = schema.name.len() + schema.description.len();
    (texts + schema.parameters.to_string().len()).div_ceil(4) as u64
}

/// The tool and input in a call of `rye_execute`.
fn unwrapped(input: &Value) -> Result<(&str, Value), String> {
    match input["item_type"].as_str() {
        None | Some("tool") => {}
        Some(other) => {
            return Err(format!(
                "item_type {other:?} cannot be executed here, only tools and directives"
            ));
        }
    }
    let id = input["item_id"].as_str().ok_or("item_id must be a text")?;
    let parameters = match &input["parameters"] {
        Value::Null => json!({}),
        parameters => parameters.clone(),
    };
    Ok((id, parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::ok;

    fn toolbox(capabilities: &[&str]) -> Toolbox {
        let tools = ["rye/file-system/read", "rye/file-system/write", "rye/bash"].map(ok);
        Toolbox::new(Capabilities::parse(capabilities).unwrap(), tools).unwrap()
    }

    fn call(name: &str, input: Value) -> ToolCall {
        ToolCall {
            id: "1".to_owned(),
            name: name.to_owned(),
            input,
            signatures: Vec::new(),
        }
    }

    #[test]
    fn a_tool_runs_by_its_name_its_id_and_the_originals_way() {
        let tools = toolbox(&["rye.execute.tool.rye.file-system.*"]);
        for call in [
            call("rye_file-system_read", json!({"path": "a"})),
            call("rye/file-system/read", json!({"path": "a"})),
            call(
                "rye_execute",
                json!({"item_type": "tool", "item_id": "rye/file-system/read", "parameters": {"path": "a"}}),
            ),
        ] {
            let found = tools.find(&call).unwrap();
            assert_eq!(
                (found.tool.id(), &found.input),
                ("rye/file-system/read", &json!({"path": "a"}))
            );
        }
    }

    // T-TOL-04
    #[test]
    fn what_a_thread_may_not_use_it_is_neither_shown_nor_given() {
        let tools = toolbox(&["rye.execute.tool.rye.file-system.read"]);
        let names: Vec<String> = tools
            .schemas()
            .into_iter()
            .map(|schema| schema.name)
            .collect();
        assert_eq!(names, ["rye_file-system_read", "rye_execute"]);
        for refused in [
            call("rye_bash", json!({})),
            call("rye/bash", json!({})),
            call("rye_execute", json!({"item_id": "rye/bash"})),
            call("rye_execute", json!({"item_id": "rye/file-system/write"})),
            call(
                "rye_execute",
                json!({"item_type": "directive", "item_id": "rye/file-system/read"}),
            ),
            call("rye_execute", json!({"item_id": "rye_execute"})),
            call("rye_execute", json!({})),
            call("rye.file-system.read", json!({})),
        ] {
            assert!(tools.find(&refused).is_err(), "{refused:?}");
        }
        assert!(toolbox(&[]).schemas().is_empty());
    }

    #[test]
    fn of_many_tools_the_first_that_fit_are_shown_and_all_run() {
        let shown = |preload| {
            let tools = toolbox(&["rye.execute.tool.*"]).preloading(preload);
            let hidden = call("rye/file-system/write", json!({}));
            assert!(tools.find(&hidden).is_ok());
            let schemas = tools.schemas();
            let execute = schemas
                .iter()
                .find(|schema| schema.name == EXECUTE)
                .unwrap();
            let ids = execute.parameters["properties"]["item_id"]["description"].as_str();
            assert!(
                ids.unwrap()
                    .ends_with("rye/bash, rye/file-system/read, rye/file-system/write")
            );
            schemas.len() - 1
        };
        let first = tokens_of(&toolbox(&["rye.execute.tool.*"]).schemas()[0]);
        assert_eq!(shown(ToolPreload::All), 3);
        assert_eq!(shown(ToolPreload::UpTo(first)), 1);
        assert_eq!(shown(ToolPreload::UpTo(first - 1)), 0);
        assert_eq!(shown(ToolPreload::UpTo(0)), 0);
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        let tools = ["a/b", "a_b"].map(ok);
        let all = || Capabilities::parse(["rye.execute.tool.*"]).unwrap();
        assert!(Toolbox::new(all(), tools).is_err());
        for id in ["rye/execute", "rye/search", "rye/sign", "directive_return"] {
            assert!(Toolbox::new(all(), [ok(id)]).is_err(), "{id}");
        }
    }
}
