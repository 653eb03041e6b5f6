//! `agent/hook_conditions` and `agent/hooks`: hooks that no directive or graph declares.
//!
//! ```text
//! hook_conditions   builtin_hooks, infra_hooks, context_hooks    by id; the later file's counts
//! hooks             hooks                                        the project's and the user's own
//! ```
//! Whether a hook may control the thread follows from the list it stands in, never from a number it
//! gives itself: the original's infrastructure hooks carry the project's layer, and so no hook of a
//! project can control anything there.

use super::file_fields;
use crate::hook_declaration::HookDeclaration;
use crate::yaml::{Fields, Node};
use threadseal::error::Error;

/// Hooks by where they come from.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    /// What happens when nothing else decides: retry, fail, abort, escalate.
    pub builtin: Vec<HookDeclaration>,
    /// For the surroundings; they control nothing.
    pub infra: Vec<HookDeclaration>,
    /// Knowledge around prompts.
    pub context: Vec<HookDeclaration>,
    /// Of the project and the user, the user's first.
    pub own: Vec<HookDeclaration>,
}

impl Hooks {
    /// Takes over the lists of `agent/hook_conditions`.
    ///
    /// # Errors
    /// With file and line.
    pub fn overlay(&mut self, node: &Node) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        // Which actions there are is not for a file to say.
        fields.ignore(&["action_primaries", "action_item_types"]);
        for (key, list) in [
            ("builtin_hooks", &mut self.builtin),
            ("infra_hooks", &mut self.infra),
            ("context_hooks", &mut self.context),
        ] {
            merge(&mut fields, key, list)?;
        }
        fields.finish("the hook conditions")
    }

    /// Takes over the list of `agent/hooks`.
    ///
    /// # Errors
    /// With file and line.
    pub fn declare(&mut self, node: &Node) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        merge(&mut fields, "hooks", &mut self.own)?;
        fields.finish("the hooks")
    }
}

/// A hook of a known id is replaced where it stands, others follow.
fn merge(fields: &mut Fields<'_>, key: &str, list: &mut Vec<HookDeclaration>) -> Result<(), Error> {
    let Some(node) = fields.take(key) else {
        return Ok(());
    };
    for hook in HookDeclaration::list_from_yaml(node)? {
        match list.iter_mut().find(|known| known.id == hook.id) {
            Some(known) => *known = hook,
            None => list.push(hook),
        }
    }
    Ok(())
}
