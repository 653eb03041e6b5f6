//! The checks before a thread leaves a trace: an order that cannot run changes nothing.
//!
//! ```text
//! directive: found, verified, the one of its id ─► inputs ─► model
//!   ─► limits under the parent's ─► layers of context
//!   ─► capabilities within the parent's ─► tools that these permit ─► Plan
//! ```

use super::engine::{Engine, Order};
use super::graph_run::GraphTools;
use super::hooks::Hooks;
use super::layers::Layers;
use crate::capability::{Call, Capabilities, Risk, RiskPolicy};
use crate::directive::{Acknowledgement, Directive};
use crate::hook_control::Scope;
use crate::item::{ItemKind, Used};
use crate::limit::Limits;
use crate::model::Chosen;
use crate::tool;
use crate::toolbox::{
    DeclaredCommand, DeclaredMcp, Hub, ItemPrimary, Surroundings, Tool, Toolbox, Workshop,
};
use crate::yaml;
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

pub(super) struct Plan {
    pub(super) directive: Directive,
    pub(super) directive_id: String,
    pub(super) directive_sha256: Digest,
    pub(super) inputs: Map<String, Value>,
    pub(super) prompt: String,
    pub(super) chosen: Chosen,
    pub(super) limits: Limits,
    pub(super) tools: Toolbox,
    pub(super) hooks: Hooks,
    pub(super) layers: Layers,
    /// The items that it uses, for the record.
    pub(super) used: Vec<Used>,
    /// The risks of its capabilities that its author did not acknowledge.
    pub(super) risks: Vec<Risk>,
}

/// The inheritance of a child from its parent.
#[derive(Debug, Clone)]
pub(super) struct Inherited {
    pub(super) limits: Limits,
    pub(super) capabilities: Capabilities,
}

impl Engine {
    /// Checks `order`. `more` are tools beside the engine's own.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused`, with what to change.
    pub(super) fn prepare(
        &self,
        order: &Order,
        parent: Option<&Inherited>,
        more: Vec<Arc<dyn Tool>>,
        graphs: &Arc<GraphTools>,
    ) -> Result<Plan, Error> {
        let item = self
            .finder
            .load(ItemKind::Directive, &order.directive, &self.grounds()?)?;
        let directive = Directive::parse(item.path(), item.text())?;
        directive.check_id(&order.directive)?;
        let inputs = directive.resolve_inputs(&order.inputs)?;
        let prompt = directive.render_prompt(&inputs)?;
        let chosen = self.models.choose(&directive.model)?;
        let layers = [
            &self.config.resilience.limits,
            &directive.limits,
            &order.limits,
        ];
        let limits = Limits::resolve(&layers, parent.map(|parent| &parent.limits))?;
        let mut used = self.config.used.clone();
        used.push(item.used());
        let hooks = Hooks::new(&self.config.hooks, &directive.hooks, Scope::Thread);
        let layers = self.layers(
            &order.directive,
            &directive,
            &chosen,
            &hooks,
            &inputs,
            &mut used,
        )?;
        let permissions = directive.permissions.iter().chain(&layers.permissions);
        let wanted = Capabilities::parse(permissions.map(|permission| &permission.capability))?;
        let capabilities = match parent {
            Some(parent) => parent.capabilities.attenuate(&wanted)?,
            None => wanted,
        };
        let acknowledged = directive.acknowledged.iter().chain(&layers.acknowledged);
        let risks = self.risks(acknowledged, &capabilities)?;
        let mut tools: Vec<Arc<dyn Tool>> = self.tools.iter().cloned().chain(more).collect();
        self.declared(&capabilities, &mut tools, &mut used, graphs)?;
        let primaries = ItemPrimary::all(&self.workshop(), &self.keys, &capabilities);
        Ok(Plan {
            tools: Toolbox::new(capabilities, tools)?.with_primaries(primaries),
            hooks,
            layers,
            used,
            risks,
            directive_id: order.directive.as_str().to_owned(),
            directive_sha256: item.sha256(),
            directive,
            inputs,
            prompt,
            chosen,
            limits,
        })
    }

    /// Risks that are not acknowledged: those that the table blocks refuse the thread, others are
    /// recorded.
    fn risks<'a>(
        &self,
        acknowledged: impl Iterator<Item = &'a Acknowledgement>,
        granted: &Capabilities,
    ) -> Result<Vec<Risk>, Error> {
        let known: Vec<&str> = acknowledged.map(|known| known.risk.as_str()).collect();
        let risks = self.config.risks.unacknowledged(granted, &known);
        match risks.iter().find(|risk| risk.policy == RiskPolicy::Block) {
            None => Ok(risks),
            Some(risk) => Err(Error::refused(format!(
                "capability {} is {} and the directive does not acknowledge that",
                risk.capability, risk.risk
            ))),
        }
    }

    /// Adds the tools and graphs that the project declares and `capabilities` permit. One that does
    /// not verify stops the thread before it begins: the thread was meant to use it.
    pub(super) fn declared(
        &self,
        capabilities: &Capabilities,
        tools: &mut Vec<Arc<dyn Tool>>,
        used: &mut Vec<Used>,
        graphs: &Arc<GraphTools>,
    ) -> Result<(), Error> {
        let servers = Arc::new(Hub::default());
        let around = Surroundings {
            project: &self.project,
            fs: &*self.host.fs,
            environment: &self.environment,
        };
        for id in self.finder.ids(ItemKind::Tool)? {
            let call = Call::new("execute", "tool", Some(id.as_str()))?;
            if !capabilities.permits(&call) || tools.iter().any(|tool| tool.id() == id.as_str()) {
                continue;
            }
            let item = self.finder.load(ItemKind::Tool, &id, &self.grounds()?)?;
            let node = yaml::parse(item.path(), item.text())?;
            // Graphs are among the tools, as in Rye.
            if node
                .fields()?
                .take("tool_type")
                .is_some_and(|kind| kind.text().is_ok_and(|kind| kind == "graph"))
            {
                continue;
            }
            let declaration = tool::Tool::parse(item.path(), item.text())?;
            if let Some(mcp) = DeclaredMcp::new(&id, declaration.clone(), &around, &servers)? {
                tools.push(Arc::new(mcp));
            } else if let Some(command) = DeclaredCommand::new(&id, declaration, self.workshop()) {
                tools.push(Arc::new(command));
            } else {
                continue;
            }
            used.push(item.used());
        }
        graphs.declared(capabilities, tools, used)
    }

    pub(super) fn workshop(&self) -> Workshop {
        Workshop {
            project: Arc::clone(&self.project),
            host: self.host.clone(),
            trust: Arc::clone(&self.trust),
            finder: self.finder.clone(),
            policy: self.policy,
            environment: Arc::clone(&self.environment),
        }
    }
}

impl Plan {
    pub(super) fn inheritance(&self) -> Inherited {
        Inherited {
            limits: self.limits,
            capabilities: self.tools.capabilities().clone(),
        }
    }
}
