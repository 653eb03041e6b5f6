//! [`Plan`]: a directive or a graph that was admitted, before it leaves a trace.
//!
//! ```text
//! limits under the parent's ─► capabilities within the parent's ─► risks
//!   ─► tools that these permit ─► Plan
//! ```
//! An order that cannot run changes nothing.

use super::helpers::Helpers;
use super::hooks::Hooks;
use super::parent::Inherited;
use super::services::Services;
use crate::capability::{Call, Capabilities, Risk, RiskPolicy};
use crate::directive::Acknowledgement;
use crate::item::{Item, ItemId, ItemKind, Used};
use crate::limit::Limits;
use crate::secrets;
use crate::tool;
use crate::toolbox::{DeclaredCommand, DeclaredMcp, ItemPrimary, Tool, Toolbox};
use crate::yaml;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

pub(super) struct Plan<S> {
    /// The directive or the graph.
    pub(super) item: ItemId,
    pub(super) sha256: Digest,
    pub(super) inputs: Map<String, Value>,
    pub(super) limits: Limits,
    /// Does the item or its order name the money that it may spend?
    pub(super) declares_spend: bool,
    pub(super) tools: Toolbox,
    pub(super) hooks: Hooks,
    /// The items that it uses, for the record.
    pub(super) used: Vec<Used>,
    /// The risks of its capabilities that its author did not acknowledge.
    pub(super) risks: Vec<Risk>,
    /// The acknowledgements that its capabilities need, as its record has them.
    pub(super) taken: Vec<Value>,
    /// How many secrets were replaced in the texts of servers about their tools.
    pub(super) replaced: u64,
    /// The parts that only a directive or only a graph has.
    pub(super) subject: S,
}

impl<S> Plan<S> {
    pub(super) fn inheritance(&self) -> Inherited {
        Inherited {
            limits: self.limits,
            capabilities: self.tools.capabilities().clone(),
        }
    }

    /// The events about the used items and the risks of a self.
    pub(super) fn uses(&self) -> Result<Vec<(&'static str, Value)>, Error> {
        let mut events = Vec::with_capacity(self.used.len() + self.risks.len());
        for used in &self.used {
            let used =
                serde_json::to_value(used).map_err(|error| Error::invalid(error.to_string()))?;
            events.push(("item_used", used));
        }
        for risk in &self.risks {
            let event = json!({"capability": risk.capability.as_str(), "risk": risk.risk});
            events.push(("risk_unacknowledged", event));
        }
        for taken in &self.taken {
            events.push(("risk_acknowledged", taken.clone()));
        }
        if self.replaced > 0 {
            events.push(secrets::event(self.replaced, "offer", 0));
        }
        Ok(events)
    }
}

/// A directive or a graph, as its file and its order declare it.
pub(super) struct Declared<'a, S> {
    pub(super) item: &'a Item,
    pub(super) inputs: Map<String, Value>,
    /// Its own limits, and those of the order.
    pub(super) limits: [Limits; 2],
    pub(super) capabilities: Capabilities,
    /// Risks that its author acknowledged.
    pub(super) acknowledged: Vec<Acknowledgement>,
    /// The end of the refusal of a risk that was not acknowledged.
    pub(super) refusal: &'static str,
    pub(super) hooks: Hooks,
    pub(super) used: Vec<Used>,
    pub(super) subject: S,
}

impl<S> Declared<'_, S> {
    /// Admits it under a parent's inheritance. `more` are tools beside those of the services.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused`, with what to change.
    pub(super) fn admit(
        self,
        services: &Services,
        parent: Option<&Inherited>,
        more: Vec<Arc<dyn Tool>>,
        helpers: &Helpers,
    ) -> Result<Plan<S>, Error> {
        let [own, ordered] = &self.limits;
        let layers = [&services.config.resilience.limits, own, ordered];
        let limits = Limits::resolve(&layers, parent.map(|parent| &parent.limits))?;
        let capabilities = match parent {
            Some(parent) => parent.capabilities.attenuate(&self.capabilities)?,
            None => self.capabilities,
        };
        let risks = &services.config.risks;
        let mut taken = Vec::new();
        let known = risks.names();
        for Acknowledgement { risk, reason } in &self.acknowledged {
            if !known.contains(&risk.as_str()) {
                return Err(Error::invalid(format!(
                    "the directive acknowledges the risk {risk:?}, which is none; \
                     hint: the risks of agent/capability_risk are {}",
                    known.join(", ")
                )));
            }
            let needing = risks.needing(&capabilities, risk);
            taken.extend(needing.map(|capability| {
                json!({"capability": capability.as_str(), "risk": risk, "reason": reason})
            }));
        }
        let names: Vec<&str> = self.acknowledged.iter().map(|known| &*known.risk).collect();
        let risks = risks.unacknowledged(&capabilities, &names);
        if let Some(risk) = risks.iter().find(|risk| risk.policy == RiskPolicy::Block) {
            let (capability, name) = (&risk.capability, &risk.risk);
            let text = format!("capability {capability} is {name}{}", self.refusal);
            return Err(Error::refused(text));
        }
        let mut tools: Vec<Arc<dyn Tool>> = services.tools.iter().cloned().chain(more).collect();
        let mut used = self.used;
        let replaced = declared(services, &capabilities, &mut tools, &mut used, helpers)?;
        let primaries = ItemPrimary::all(&services.workshop(), &services.keys, &capabilities);
        Ok(Plan {
            tools: Toolbox::new(capabilities, tools)?
                .with_primaries(primaries)
                .preloading(services.config.resilience.tool_preload),
            item: self.item.id().clone(),
            sha256: self.item.sha256(),
            inputs: self.inputs,
            limits,
            declares_spend: ordered.spend.or(own.spend).is_some(),
            hooks: self.hooks,
            used,
            risks,
            taken,
            replaced,
            subject: self.subject,
        })
    }
}

/// Adds the tools and graphs that the project declares and `capabilities` permit. One that does
/// not verify stops the thread before it begins: the thread was meant to use it. Returns how many
/// secrets were replaced in the texts of servers.
fn declared(
    services: &Services,
    capabilities: &Capabilities,
    tools: &mut Vec<Arc<dyn Tool>>,
    used: &mut Vec<Used>,
    helpers: &Helpers,
) -> Result<u64, Error> {
    let mut replaced = 0;
    let shop = services.workshop();
    for id in services.finder.ids(ItemKind::Tool)? {
        let call = Call::new("execute", "tool", Some(id.as_str()))?;
        if !capabilities.permits(&call) || tools.iter().any(|tool| tool.id() == id.as_str()) {
            continue;
        }
        let item = services
            .finder
            .load(ItemKind::Tool, &id, &services.grounds()?)?;
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
        if !item.standing().vouches() {
            tool::Tool::check_unvouched(&node)?;
        }
        if let Some(mcp) = DeclaredMcp::new(
            &id,
            declaration.clone(),
            &shop,
            &services.servers,
            &helpers.cancel,
        )? {
            replaced += mcp.replaced();
            tools.push(Arc::new(mcp));
        } else if let Some(command) = DeclaredCommand::new(&id, declaration, shop.clone()) {
            tools.push(Arc::new(command));
        } else {
            continue;
        }
        used.push(item.used());
    }
    helpers.graphs.declared(capabilities, tools, used)?;
    Ok(replaced)
}
