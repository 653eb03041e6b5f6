//! The checks of a directive before its thread leaves a trace.
//!
//! ```text
//! directive: found, verified, the one of its id ─► inputs ─► model ─► layers of context ─► Plan
//! ```

use super::child_spawner::ChildSpawner;
use super::helpers::Helpers;
use super::hooks::Hooks;
use super::layers::{self, Layers};
use super::orchestrator::OrchestratorTool;
use super::order::Order;
use super::parent::Inherited;
use super::plan::{Declared, Plan};
use super::services::Services;
use super::summary::SummaryTool;
use crate::capability::Capabilities;
use crate::directive::Directive;
use crate::hook_control::Scope;
use crate::item::ItemKind;
use crate::model::Chosen;
use std::sync::Arc;
use threadseal_core::error::Error;

pub(super) type ThreadPlan = Plan<Prompted>;

/// The parts of a plan that only a directive has.
pub(super) struct Prompted {
    pub(super) directive: Directive,
    pub(super) prompt: String,
    pub(super) chosen: Chosen,
    pub(super) layers: Layers,
    /// The tool that summarises threads.
    pub(super) summary: Arc<SummaryTool>,
}

/// Checks `order`.
///
/// # Errors
/// Kind `InvalidInput` or `Refused`, with what to change.
pub(super) fn prepare(
    services: &Services,
    order: &Order,
    parent: Option<&Inherited>,
    helpers: &Helpers,
) -> Result<ThreadPlan, Error> {
    let item = services
        .finder
        .load(ItemKind::Directive, &order.directive, &services.grounds()?)?;
    let directive = Directive::parse(item.path(), item.text())?;
    directive.check_id(&order.directive)?;
    let inputs = directive.resolve_inputs(&order.inputs)?;
    let prompt = directive.render_prompt(&inputs)?;
    let chosen = services.models.choose(&directive.model)?;
    let mut used = services.config.used.clone();
    used.push(item.used());
    let hooks = Hooks::new(&services.config.hooks, &directive.hooks, Scope::Thread);
    let layers = layers::layers(
        services,
        &order.directive,
        &directive,
        &chosen,
        &hooks,
        &inputs,
        &mut used,
    )?;
    let permissions = directive.permissions.iter().chain(&layers.permissions);
    let acknowledged = directive.acknowledged.iter().chain(&layers.acknowledged);
    let summary = Arc::new(SummaryTool::new(
        services.clone(),
        ChildSpawner::new(
            services.for_summaries(),
            helpers.starter,
            Arc::clone(&helpers.children),
            helpers.writer.handle(),
        ),
    ));
    let more = vec![
        Arc::clone(&helpers.child_tool),
        Arc::clone(&summary) as _,
        Arc::new(OrchestratorTool::new(Arc::clone(&helpers.spawner))),
    ];
    let declared = Declared {
        item: &item,
        inputs,
        limits: [directive.limits, order.limits],
        capabilities: Capabilities::parse(permissions.map(|held| &held.capability))?,
        acknowledged: acknowledged.cloned().collect(),
        refusal: " and the directive does not acknowledge that",
        hooks,
        used,
        subject: Prompted {
            directive,
            prompt,
            chosen,
            layers,
            summary,
        },
    };
    let mut plan = declared.admit(services, parent, more, helpers)?;
    plan.tools.children(&helpers.child_tool);
    Ok(plan)
}
