//! The items that the hooks of a thread may call: within its capabilities, like the model.

use super::Callees;
use crate::capability::{Call, Capabilities};
use crate::hook_declaration::Primary;
use crate::item::{ItemId, ItemKind};
use crate::runner::block::Block;
use crate::runner::services::Services;
use crate::toolbox::{Tool, Toolbox, primary_name};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The tools of a thread, its children, the project's knowledge.
pub(in crate::runner) struct ThreadCallees<'a> {
    pub(in crate::runner) services: &'a Services,
    pub(in crate::runner) tools: &'a Toolbox,
    /// The tool that runs directives in threads of their own.
    pub(in crate::runner) child: &'a Arc<dyn Tool>,
}

impl ThreadCallees<'_> {
    fn capabilities(&self) -> &Capabilities {
        self.tools.capabilities()
    }

    fn permitted(&self, primary: &str, kind: ItemKind, id: &str) -> Result<(), String> {
        let call =
            Call::new(primary, kind.as_str(), Some(id)).map_err(|error| error.to_string())?;
        match self.capabilities().permits(&call) {
            true => Ok(()),
            false => Err(format!("no leave for {call}")),
        }
    }
}

impl Callees for ThreadCallees<'_> {
    fn tool(&self, id: &ItemId) -> Result<Arc<dyn Tool>, String> {
        let tool = self.tools.tool(id.as_str());
        tool.ok_or_else(|| format!("no leave to use {id}, or no such tool"))
    }

    fn directive(&self, id: &ItemId, inputs: &Value) -> Result<(Arc<dyn Tool>, Value), String> {
        self.permitted("execute", ItemKind::Directive, id.as_str())?;
        let input = json!({"directive_id": id.as_str(), "inputs": inputs});
        Ok((Arc::clone(self.child), input))
    }

    fn primary(
        &self,
        primary: Primary,
        kind: ItemKind,
        id: &str,
        params: &Value,
    ) -> Result<(Arc<dyn Tool>, Value), String> {
        let name = primary_name(primary);
        let tool = self
            .tools
            .primary(primary)
            .ok_or_else(|| format!("no leave for {name}"))?;
        let mut input = params.as_object().cloned().unwrap_or_else(Map::new);
        input.insert("item_type".to_owned(), kind.as_str().into());
        input.insert("item_id".to_owned(), id.into());
        Ok((tool, Value::Object(input)))
    }

    /// An item that a hook's author names is part of a verified text; an item that a value names
    /// needs permission.
    fn knowledge(&self, id: &ItemId, chosen: bool) -> Result<Block, String> {
        if chosen {
            let kind = ItemKind::Knowledge;
            self.permitted("load", kind, id.as_str()).or_else(|why| {
                self.permitted("execute", kind, id.as_str())
                    .map_err(|_| why)
            })?;
        }
        Block::load(self.services, id).map_err(|error| error.to_string())
    }
}
