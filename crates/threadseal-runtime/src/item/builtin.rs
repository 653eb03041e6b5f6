//! Items that are parts of this program. A project's own of the same id counts before them.

use super::ItemKind;

/// Rye has both ids for its shell.
const SHELL: &str = include_str!("../../builtin/tools/rye/bash/bash.yaml");

const ITEMS: [(ItemKind, &str, &str); 7] = [
    (
        ItemKind::Directive,
        "rye/agent/continuation",
        include_str!("../../builtin/directives/rye/agent/continuation.md"),
    ),
    (
        ItemKind::Directive,
        "rye/agent/threads/thread_summary",
        include_str!("../../builtin/directives/rye/agent/threads/thread_summary.md"),
    ),
    (
        ItemKind::Config,
        "agent/error_classification",
        include_str!("../../builtin/config/agent/error_classification.yaml"),
    ),
    (
        ItemKind::Config,
        "agent/hook_conditions",
        include_str!("../../builtin/config/agent/hook_conditions.yaml"),
    ),
    (
        ItemKind::Config,
        "agent/models",
        include_str!("../../builtin/config/agent/models.yaml"),
    ),
    (ItemKind::Tool, "rye/bash", SHELL),
    (ItemKind::Tool, "rye/bash/bash", SHELL),
];

pub(super) fn find(kind: ItemKind, id: &str) -> Option<&'static str> {
    let found = ITEMS.iter().find(|item| (item.0, item.1) == (kind, id));
    found.map(|item| item.2)
}

/// The ids of all built-in items of a kind.
pub(super) fn ids(kind: ItemKind) -> impl Iterator<Item = &'static str> {
    let items = ITEMS.iter().filter(move |item| item.0 == kind);
    items.map(|item| item.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::Directive;
    use crate::item::ItemId;
    use crate::tool::Tool;

    #[test]
    fn every_built_in_tool_is_one() {
        for (_, id, text) in ITEMS.iter().filter(|item| item.0 == ItemKind::Tool) {
            Tool::parse(id, text).unwrap();
        }
    }

    #[test]
    fn every_built_in_directive_is_the_one_it_is_found_as() {
        for (kind, id, text) in ITEMS {
            if kind == ItemKind::Directive {
                let directive = Directive::parse(id, text).unwrap();
                directive.check_id(&ItemId::parse(id).unwrap()).unwrap();
                assert!(directive.undeclared_inputs().is_empty());
            }
        }
    }
}
