//! The layers around a prompt: added by a directive, those that it extends, settings and hooks.
//!
//! ```text
//! directive ─extends─► directive ─extends─► …   each found, verified, the one of its id; no cycle
//!     <context> of the last one first: system, before, after; `suppress` excludes items
//! settings        system_prompt of agent/agent, of the model
//! hooks           resolve_extends (a base for a directive without one),
//!                 build_system_prompt (more of the system),
//!                 thread_started, thread_continued (around the first message)
//! ```
//! All knowledge is verified before it is taken, and has a bound. It is wrapped in an element that
//! its text cannot end, which marks it as knowledge. `system_prompt` and `context_injected` record
//! which it was, with its digest.

use super::block::{Block, refuse_too_long};
use super::hooks::Hooks;
use super::services::Services;
use crate::bounds::MAX_EXTENDS;
use crate::directive::{Acknowledgement, Directive, Permission};
use crate::hook_declaration::{BUILD_SYSTEM_PROMPT, HookDeclaration, Position, RESOLVE_EXTENDS};
use crate::item::{ItemId, ItemKind, Used};
use crate::model::Chosen;
use serde_json::{Value, json};
use threadseal_core::error::Error;

/// The layers around the prompt of one thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Layers {
    /// The blocks of the system prompt.
    pub(super) system: Vec<Block>,
    /// The blocks before and after the prompt.
    pub(super) around: Vec<Block>,
    /// Items that the directive excludes.
    pub(super) suppressed: Vec<String>,
    /// The directives that it extends, the nearest first.
    pub(super) extends: Vec<String>,
    /// The risks that their author acknowledged with the permissions.
    pub(super) acknowledged: Vec<Acknowledgement>,
    /// The permissions of the thread, where its directive has none.
    pub(super) permissions: Vec<Permission>,
}

impl Layers {
    /// The system's prompt, if there is anything in it.
    pub(super) fn system_prompt(&self) -> Option<String> {
        let texts: Vec<String> = self.system.iter().map(Block::text).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The facts about the system prompt for the record.
    pub(super) fn system_note(&self) -> Option<Value> {
        let ids: Vec<&str> = self.system.iter().map(|block| block.id.as_str()).collect();
        let digests: Vec<&str> = self
            .system
            .iter()
            .map(|block| block.sha256.as_str())
            .collect();
        let text = self.system_prompt()?;
        Some(json!({"text": text, "layers": ids, "sha256": digests}))
    }

    /// Does the directive want this item?
    pub(super) fn wants(&self, block: &Block) -> bool {
        !self.suppressed.contains(&block.id)
    }
}

/// The layers of a directive. `used` gets every item that they use.
///
/// # Errors
/// Kind `Refused` or `InvalidInput` when a directive or knowledge is missing, may not be used,
/// or extends itself. Also when a text is too long to be recorded.
pub(in crate::runner) fn layers(
    services: &Services,
    id: &ItemId,
    directive: &Directive,
    chosen: &Chosen,
    hooks: &Hooks,
    inputs: &serde_json::Map<String, Value>,
    used: &mut Vec<Used>,
) -> Result<Layers, Error> {
    let facts = json!({
        "directive": id.as_str(), "name": directive.name, "category": directive.category,
        "version": directive.version, "model": chosen.model.name(), "inputs": inputs,
        "permissions": directive.permissions.iter().map(|held| held.capability.as_str()).collect::<Vec<_>>(),
    });
    let mut layers = Layers::default();
    let chain = extended(services, id, directive, hooks, &facts, &mut layers, used)?;
    for (name, text) in [
        ("config/agent/agent", &services.config.agent.system_prompt),
        ("config/agent/models", &chosen.system_prompt),
    ] {
        layers
            .system
            .extend(text.as_deref().map(|text| Block::setting(name, text)));
    }
    let all: Vec<&Directive> = chain.iter().rev().chain([directive]).collect();
    for one in all {
        let context = &one.context;
        let out: Vec<&str> = context.suppress.iter().map(ItemId::as_str).collect();
        layers
            .suppressed
            .extend(out.iter().map(|id| (*id).to_owned()));
        layers
            .system
            .retain(|block| !out.contains(&block.id.as_str()));
        layers
            .around
            .retain(|block| !out.contains(&block.id.as_str()));
        for (ids, position) in [
            (&context.system, None),
            (&context.before, Some(Position::Before)),
            (&context.after, Some(Position::After)),
        ] {
            for id in ids {
                let mut block = Block::load(services, id)?;
                block.position = position.unwrap_or_default();
                // A directive that names it again wants it again.
                layers.suppressed.retain(|known| *known != block.id);
                let list = match position {
                    None => &mut layers.system,
                    Some(_) => &mut layers.around,
                };
                if !list.iter().any(|known| known.id == block.id) {
                    list.push(block);
                }
            }
        }
    }
    system_hooks(services, hooks, &facts, &mut layers)?;
    let blocks = layers.system.iter().chain(&layers.around);
    used.extend(blocks.filter_map(|block| block.used.clone()));
    refuse_too_long(
        "the system's prompt",
        layers.system_prompt().map_or(0, |text| text.len()),
    )?;
    Ok(layers)
}

/// The directives that this one extends, the nearest first.
fn extended(
    services: &Services,
    id: &ItemId,
    directive: &Directive,
    hooks: &Hooks,
    facts: &Value,
    layers: &mut Layers,
    used: &mut Vec<Used>,
) -> Result<Vec<Directive>, Error> {
    let mut seen = vec![id.as_str().to_owned()];
    let mut chain: Vec<Directive> = Vec::new();
    let declared = directive.extends.is_some();
    let mut next = match &directive.extends {
        Some(base) => Some(base.clone()),
        None => routed(hooks, facts)?,
    };
    while let Some(base) = next {
        if seen.iter().any(|known| known == base.as_str()) {
            return Err(Error::refused(format!(
                "directive {id} extends {base} twice"
            )));
        }
        if chain.len() >= MAX_EXTENDS {
            let text = format!("directive {id} extends more than {MAX_EXTENDS} others");
            return Err(Error::refused(text));
        }
        let item = services
            .finder
            .load(ItemKind::Directive, &base, &services.grounds()?)?;
        let parsed = Directive::parse(item.path(), item.text())?;
        parsed.check_id(&base)?;
        used.push(item.used());
        seen.push(base.as_str().to_owned());
        next = parsed.extends.clone();
        chain.push(parsed);
    }
    layers.extends = seen.split_off(1);
    // An addition by a hook is context. Only the directives that this one extends give
    // permissions.
    let giver = chain.iter().find(|base| !base.permissions.is_empty());
    if let Some(giver) = giver.filter(|_| declared && directive.permissions.is_empty()) {
        layers.permissions.clone_from(&giver.permissions);
        layers.acknowledged.clone_from(&giver.acknowledged);
    }
    Ok(chain)
}

/// The blocks that hooks add to the system prompt.
fn system_hooks(
    services: &Services,
    hooks: &Hooks,
    facts: &Value,
    layers: &mut Layers,
) -> Result<(), Error> {
    for hook in hooks.at(BUILD_SYSTEM_PROMPT) {
        if !holds(hook, facts)? {
            continue;
        }
        for action in &hook.actions {
            let mut block = Block::load(
                services,
                &ItemId::parse(&action.item_id.render_text(facts)?)?,
            )?;
            block.wrap = hook.wrap || !action.item_id.is_plain();
            let there = layers.system.iter().any(|known| known.id == block.id);
            if layers.wants(&block) && !there {
                layers.system.push(block);
            }
        }
    }
    Ok(())
}

/// The base that a hook gives to a directive that extends nothing.
fn routed(hooks: &Hooks, facts: &Value) -> Result<Option<ItemId>, Error> {
    for hook in hooks.at(RESOLVE_EXTENDS) {
        if !holds(hook, facts)? {
            continue;
        }
        for action in &hook.actions {
            let base = ItemId::parse(&action.item_id.render_text(facts)?)?;
            // A base is not routed to itself.
            if facts["directive"] != base.as_str() {
                return Ok(Some(base));
            }
        }
    }
    Ok(None)
}

fn holds(hook: &HookDeclaration, facts: &Value) -> Result<bool, Error> {
    match &hook.condition {
        None => Ok(true),
        Some(condition) => condition
            .eval(facts)
            .map_err(|error| Error::refused(format!("hook {}: {error}", hook.id))),
    }
}
