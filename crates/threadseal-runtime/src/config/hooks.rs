//! `agent/hook_conditions` and `agent/hooks`: hooks that no directive or graph declares.
//!
//! ```text
//! hook_conditions   builtin_hooks, infra_hooks, context_hooks    by id; the later file's counts
//! hooks             hooks                                        the project's and the user's own
//! ```
//! The list of a hook decides whether it may control the thread, never the layer that it names.
//! Rye's infrastructure hooks carry the project's layer, and so no hook of a project can control
//! anything there.

use super::fields::{file_fields, known_words};
use crate::hook_control::{self, Scope};
use crate::hook_declaration::{HookDeclaration, Primary};
use crate::item::ItemKind;
use crate::yaml::{Fields, Node};
use threadseal_core::error::Error;

/// Hooks by where they come from.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    /// The defaults when no other hook decides: retry, fail, abort, escalate.
    pub builtin: Vec<HookDeclaration>,
    /// For the surroundings; they control nothing.
    pub infra: Vec<HookDeclaration>,
    /// Knowledge around prompts.
    pub context: Vec<HookDeclaration>,
    /// Of the user and the project. Each has a layer: the user's are asked first, the project's
    /// after those of directives and of the program, unless they name another.
    pub own: Vec<HookDeclaration>,
}

/// Layer of the user's own hooks.
pub(crate) const USER_LAYER: u64 = 0;

/// Layer of a directive's or graph's hooks.
pub(crate) const DIRECTIVE_LAYER: u64 = 1;

/// Layer of the defaults when no other hook decides.
pub(crate) const BUILTIN_LAYER: u64 = 2;

/// Layer of the project's own hooks.
pub(crate) const PROJECT_LAYER: u64 = 3;

/// Layer of the infrastructure's.
pub(crate) const INFRA_LAYER: u64 = 4;

impl Hooks {
    /// Takes over the lists of `agent/hook_conditions`.
    ///
    /// # Errors
    /// With file and line.
    pub fn overlay(&mut self, node: &Node) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        let primaries = Primary::ALL.map(Primary::as_str);
        known_words(&mut fields, "action_primaries", &primaries)?;
        let kinds = ItemKind::CALLABLE.map(ItemKind::as_str);
        known_words(&mut fields, "action_item_types", &kinds)?;
        for (key, list) in [
            ("builtin_hooks", &mut self.builtin),
            ("infra_hooks", &mut self.infra),
            ("context_hooks", &mut self.context),
        ] {
            let scope = match key {
                "infra_hooks" => Scope::Infra,
                _ => Scope::Shared,
            };
            merge(&mut fields, key, list, scope, None)?;
        }
        fields.finish("the hook conditions")
    }

    /// Adds the list of `agent/hooks`, whose hooks get `layer` where they name none.
    ///
    /// # Errors
    /// With file and line.
    pub(crate) fn declare(&mut self, node: &Node, layer: u64) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        merge(
            &mut fields,
            "hooks",
            &mut self.own,
            Scope::Shared,
            Some(layer),
        )?;
        fields.finish("the hooks")
    }
}

/// A hook of a known id is replaced in place; others are appended.
fn merge(
    fields: &mut Fields<'_>,
    key: &str,
    list: &mut Vec<HookDeclaration>,
    scope: Scope,
    layer: Option<u64>,
) -> Result<(), Error> {
    let Some(node) = fields.take(key) else {
        return Ok(());
    };
    let hooks = HookDeclaration::list_from_yaml(node)?;
    hook_control::check(&hooks, scope)?;
    for mut hook in hooks {
        hook.layer = hook.layer.or(layer);
        match list.iter_mut().find(|known| known.id == hook.id) {
            Some(known) => *known = hook,
            None => list.push(hook),
        }
    }
    Ok(())
}
