//! The decisions that hooks may take: the one table of events and control actions.
//!
//! ```text
//! action: {primary: execute, item_type: tool, item_id: rye/agent/threads/internal/control,
//!          params: {action: retry | fail | abort | continue | escalate | suspend | skip, …}}
//! ```
//! A hook that would decide beyond its permission is an error of its file. Otherwise it would have
//! no effect, silently.
//!
//! Elsewhere: the effect of a decision ([`crate::runner`]). Normative: `spec/declarations.md` §5.1.

use crate::hook_declaration::{Action, HookDeclaration, Primary};
use crate::interpolate::Tree;
use crate::item::ItemKind;
use serde_json::Value;
use threadseal_core::error::Error;

/// The id by which Rye's hooks decide. It is no tool: only hooks can call it.
pub(crate) const CONTROL: &str = "rye/agent/threads/internal/control";

/// The id by which Rye's hooks add events.
pub(crate) const EMITTER: &str = "rye/agent/threads/internal/emitter";

/// A decision of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Control {
    /// Do it again.
    Retry,
    /// End as an error.
    Fail,
    /// End as cancelled.
    Abort,
    /// Behave as without hooks; later hooks are not asked.
    Continue,
    /// Stop until a person decides.
    Escalate,
    /// The same, without asking for anything.
    Suspend,
    /// Leave out the subject of the event.
    Skip,
}

/// Whose hook it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A thread's.
    Thread,
    /// A graph's.
    Graph,
    /// Of the configuration, which threads and graphs share.
    Shared,
    /// Of the infrastructure, which decides nothing.
    Infra,
}

use Control::{Abort, Continue, Escalate, Fail, Retry, Skip, Suspend};

/// Event, decisions of a thread's hooks, decisions of a graph's hooks. At other events hooks decide
/// nothing.
const TABLE: [(&str, &[Control], &[Control]); 9] = [
    ("thread_started", &[Continue, Fail, Abort, Suspend], &[]),
    ("thread_continued", &[Continue, Fail, Abort, Suspend], &[]),
    (
        "after_step",
        &[Continue, Fail, Abort, Escalate, Suspend],
        &[Continue, Fail, Abort, Escalate, Suspend],
    ),
    (
        "error",
        &[Retry, Fail, Abort, Escalate, Suspend],
        &[Retry, Fail, Abort, Continue, Escalate, Suspend, Skip],
    ),
    (
        "limit",
        &[Fail, Abort, Escalate, Suspend],
        &[Fail, Abort, Escalate, Suspend],
    ),
    (
        "context_limit_reached",
        &[Continue, Fail, Abort, Escalate, Suspend],
        &[],
    ),
    (
        "context_window_pressure",
        &[Continue, Fail, Abort, Escalate, Suspend],
        &[],
    ),
    ("directive_return", &[Continue, Retry, Fail, Abort], &[]),
    ("graph_started", &[], &[Continue, Fail, Abort, Suspend]),
];

/// The events of both threads and graphs; those of graphs alone begin with `graph_`.
const SHARED_EVENTS: [&str; 3] = ["after_step", "error", "limit"];

impl Control {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [Retry, Fail, Abort, Continue, Escalate, Suspend, Skip];

    /// The word in files and records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Retry => "retry",
            Fail => "fail",
            Abort => "abort",
            Continue => "continue",
            Escalate => "escalate",
            Suspend => "suspend",
            Skip => "skip",
        }
    }

    /// Reads [`Control::as_str`]'s words.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|control| control.as_str() == word)
    }

    /// May this be decided at `event`?
    pub(crate) fn is_permitted(self, event: &str, scope: Scope) -> bool {
        permitted(event, scope).any(|control| control == self)
    }
}

/// The decisions that hooks may take at an event.
pub(crate) fn permitted(event: &str, scope: Scope) -> impl Iterator<Item = Control> {
    let row = TABLE.iter().find(|row| row.0 == event);
    Control::ALL.into_iter().filter(move |control| {
        row.is_some_and(|row| match scope {
            Scope::Thread => row.1.contains(control),
            Scope::Graph => row.2.contains(control),
            Scope::Shared => row.1.contains(control) || row.2.contains(control),
            Scope::Infra => false,
        })
    })
}

/// Does this event happen where the hook is asked?
fn happens(event: &str, scope: Scope) -> bool {
    match scope {
        Scope::Thread => !event.starts_with("graph_"),
        Scope::Graph => event.starts_with("graph_") || SHARED_EVENTS.contains(&event),
        Scope::Shared | Scope::Infra => true,
    }
}

/// Checks that each hook is asked at all, and that none decides beyond its permission, as far as its
/// text shows the decision.
///
/// # Errors
/// At the line of the hook or the action.
pub(crate) fn check(hooks: &[HookDeclaration], scope: Scope) -> Result<(), Error> {
    for hook in hooks {
        if !happens(&hook.event, scope) {
            let (of, other) = match scope {
                Scope::Graph => ("graph", "threads"),
                _ => ("directive", "graphs"),
            };
            let why = format!(
                "a hook of a {of} is never asked at `{}`, an event of {other}",
                hook.event
            );
            return Err(hook.place.error(why));
        }
        for action in &hook.actions {
            if let Some(word) = word_of(action)? {
                let control = parse(&word).map_err(|why| action.place.error(why))?;
                if !control.is_permitted(&hook.event, scope) {
                    return Err(action.place.error(refusal(control, &hook.event, scope)));
                }
            }
        }
    }
    Ok(())
}

/// Reads the decision of an action that was rendered.
///
/// # Errors
/// A sentence, when it is none or may not be taken here.
pub(crate) fn decided(params: &Value, event: &str, scope: Scope) -> Result<Control, String> {
    let word = params["action"]
        .as_str()
        .ok_or("a decision needs `action`, a text")?;
    let control = parse(word)?;
    match control.is_permitted(event, scope) {
        true => Ok(control),
        false => Err(refusal(control, event, scope)),
    }
}

/// The word of a decision; None for another action, or where the word depends on a value.
fn word_of(action: &Action) -> Result<Option<String>, Error> {
    let id = &action.item_id;
    if !id.is_plain() || id.render_text(&Value::Null)? != CONTROL {
        return Ok(None);
    }
    if action.primary != Primary::Execute || action.item_type != ItemKind::Tool {
        let why = "a decision is {primary: execute, item_type: tool}";
        return Err(action.place.error(why));
    }
    let Tree::Map(members) = &action.params else {
        return Ok(None);
    };
    match members.iter().find(|(name, _)| name == "action") {
        None => Err(action
            .place
            .error("a decision needs the parameter `action`")),
        Some((_, Tree::Text(text))) if text.is_plain() => Ok(Some(text.render_text(&Value::Null)?)),
        Some((_, Tree::Text(_))) => Ok(None),
        Some(_) => Err(action.place.error("`action` must be a text")),
    }
}

fn parse(word: &str) -> Result<Control, String> {
    let known = Control::ALL.map(Control::as_str).join(", ");
    Control::parse(word).ok_or_else(|| format!("unknown decision `{word}`; known: {known}"))
}

fn refusal(control: Control, event: &str, scope: Scope) -> String {
    let there: Vec<&str> = permitted(event, scope).map(Control::as_str).collect();
    let there = match there.is_empty() {
        true => "nothing".to_owned(),
        false => there.join(", "),
    };
    format!(
        "`{}` cannot be decided at `{event}` here; possible decisions: {there}",
        control.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook_declaration::{BUILD_SYSTEM_PROMPT, EVENTS, RESOLVE_EXTENDS};
    use crate::testing::prelude::{Fails as _, rows};

    fn hooks(event: &str, params: &str) -> Vec<HookDeclaration> {
        let text = format!(
            "- id: a\n  event: {event}\n  action: {{primary: execute, item_type: tool, item_id: {CONTROL}, params: {params}}}\n"
        );
        HookDeclaration::list_from_yaml(&crate::yaml::parse("h", &text).unwrap()).unwrap()
    }

    // T-TOL-32
    #[test]
    fn the_table_alone_says_what_may_be_decided() {
        // At these hooks only name items.
        let decide = |event: &&str| ![BUILD_SYSTEM_PROMPT, RESOLVE_EXTENDS].contains(event);
        assert!(TABLE.iter().all(|row| decide(&row.0)));
        for event in EVENTS.into_iter().filter(decide) {
            for scope in [Scope::Thread, Scope::Graph, Scope::Shared, Scope::Infra] {
                for control in Control::ALL {
                    let hooks = hooks(event, &format!("{{action: {}}}", control.as_str()));
                    let fits = check(&hooks, scope).is_ok();
                    let permitted = control.is_permitted(event, scope);
                    assert_eq!(fits, permitted, "{event} {control:?}");
                    let params = serde_json::json!({"action": control.as_str()});
                    assert_eq!(decided(&params, event, scope).is_ok(), permitted);
                }
            }
        }
        assert!(Retry.is_permitted("error", Scope::Thread));
        assert!(!Retry.is_permitted("limit", Scope::Shared));
        // A hook cannot lift a limit.
        assert!(!Continue.is_permitted("limit", Scope::Shared));
        assert!(TABLE.iter().all(|row| EVENTS.contains(&row.0)));
    }

    // T-TOL-32
    #[test]
    fn what_may_not_be_decided_is_told_with_its_line() {
        for [event, params, said] in rows(
            r"after_complete => {action: retry} => possible decisions: nothing
              error => {action: again} => unknown decision `again`
              error => {} => needs the parameter `action`
              error => {action: [retry]} => must be a text",
        ) {
            let error = check(&hooks(&event, &params), Scope::Thread).why();
            assert!(
                error.starts_with("h:3: ") && error.contains(&said),
                "{error}"
            );
        }
        // A word from a value is checked once the value is known.
        let late = hooks("error", "{action: '${inputs.what}'}");
        check(&late, Scope::Thread).unwrap();
    }
}
