//! `agent/resilience`: default limits, retries, the handling of children.

use super::errors::{NamedPolicies, RetryPolicy};
use super::fields::{file_fields, set, stated};
use crate::limit::Limits;
use crate::money::Share;
use crate::yaml::{Fields, Node};
use serde_json::{Value, json};
use threadseal_core::error::Error;

/// The retry policy of errors whose pattern names none.
pub const DEFAULT_POLICY: &str = "exponential";

/// Limits, retries, children.
#[derive(Debug, Clone, PartialEq)]
pub struct Resilience {
    /// The limits of a thread whose directive names none.
    pub limits: Limits,
    /// What a child gets of the money that its parent has left, where it declares none itself.
    pub child_share: Share,
    /// How often a call of a model is tried again.
    pub max_retries: u64,
    /// The waits before a retry that error patterns name. The one of [`DEFAULT_POLICY`] is for
    /// patterns that name none.
    pub retry_policies: NamedPolicies,
    /// How children are handled when their parent is cancelled.
    pub on_parent_cancel: ChildPolicy,
    /// How they are handled when it completes.
    pub on_parent_complete: ChildPolicy,
    /// How they are handled when it ends in an error.
    pub on_parent_error: ChildPolicy,
    /// Children of one thread that run at once.
    pub max_concurrent_children: u64,
    /// Threads of the project that run at once.
    pub max_total_threads: u64,
    /// Which tools a model is shown.
    pub tool_preload: ToolPreload,
}

/// How children are handled when their parent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildPolicy {
    /// They continue.
    Allow,
    /// They are cancelled, and so are their own children.
    CascadeCancel,
}

/// The tools whose descriptions a model is shown; the others it calls by their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPreload {
    /// All that it may use.
    All,
    /// In the order of their ids, as long as their descriptions have at most so many tokens.
    UpTo(u64),
}

impl Default for Resilience {
    /// Rye's values.
    fn default() -> Self {
        Self {
            limits: Limits::shipped(),
            child_share: Share::SHIPPED,
            max_retries: 3,
            retry_policies: shipped_policies(),
            on_parent_cancel: ChildPolicy::CascadeCancel,
            on_parent_complete: ChildPolicy::Allow,
            on_parent_error: ChildPolicy::CascadeCancel,
            max_concurrent_children: 5,
            max_total_threads: 20,
            tool_preload: ToolPreload::All,
        }
    }
}

impl Resilience {
    /// Applies a file's settings.
    ///
    /// # Errors
    /// With file and line, for an unknown key or a bad value.
    pub fn overlay(&mut self, node: &Node) -> Result<(), Error> {
        let Some(mut fields) = file_fields(node)? else {
            return Ok(());
        };
        stated(&mut fields, "checkpoint", &checkpoints())?;
        stated(&mut fields, "coordination", &waits())?;
        self.retry(&mut fields)?;
        self.limits(&mut fields)?;
        if let Some(node) = fields.take("child_policy") {
            let mut policies = node.fields()?;
            for (key, slot) in [
                ("on_parent_cancel", &mut self.on_parent_cancel),
                ("on_parent_complete", &mut self.on_parent_complete),
                ("on_parent_error", &mut self.on_parent_error),
            ] {
                set(&mut policies, key, slot, child_policy)?;
            }
            policies.finish("`child_policy`")?;
        }
        if let Some(node) = fields.take("concurrency") {
            let mut most = node.fields()?;
            for (key, slot) in [
                ("max_concurrent_children", &mut self.max_concurrent_children),
                ("max_total_threads", &mut self.max_total_threads),
            ] {
                set(&mut most, key, slot, at_least_one)?;
            }
            most.finish("`concurrency`")?;
        }
        if let Some(node) = fields.take("tool_preload") {
            let mut preload = node.fields()?;
            let mut enabled = true;
            set(&mut preload, "enabled", &mut enabled, Node::bool)?;
            let most = preload.take("max_tokens").map(Node::whole).transpose()?;
            preload.finish("`tool_preload`")?;
            self.tool_preload = match (enabled, most) {
                (false, _) => ToolPreload::UpTo(0),
                (true, Some(tokens)) => ToolPreload::UpTo(tokens),
                (true, None) => ToolPreload::All,
            };
        }
        fields.finish("the resilience")
    }

    fn retry(&mut self, fields: &mut Fields<'_>) -> Result<(), Error> {
        let Some(node) = fields.take("retry") else {
            return Ok(());
        };
        let mut retry = node.fields()?;
        set(
            &mut retry,
            "max_retries",
            &mut self.max_retries,
            Node::whole,
        )?;
        if let Some(node) = retry.take("policies") {
            for entry in node.entries()? {
                let policy = RetryPolicy::parse(&entry.value, &self.retry_policies)?;
                self.retry_policies.insert(entry.key.clone(), policy);
            }
        }
        retry.finish("`retry`")
    }

    fn limits(&mut self, fields: &mut Fields<'_>) -> Result<(), Error> {
        let Some(node) = fields.take("limits") else {
            return Ok(());
        };
        let mut limits = node.fields()?;
        stated(&mut limits, "enforcement", &enforcement())?;
        if let Some(node) = limits.take("defaults") {
            for entry in node.entries()? {
                let value = entry.value.to_json();
                let set = self.limits.set(&entry.key, &value);
                set.map_err(|error| entry.place.error(error))?;
            }
        }
        set(&mut limits, "child_share", &mut self.child_share, |node| {
            Share::new(node.number()?)
                .ok_or_else(|| node.error("a share must be above 0 and at most 1"))
        })?;
        limits.finish("`limits`")
    }
}

fn shipped_policies() -> NamedPolicies {
    let exponential = |base| RetryPolicy::Exponential { base, max: 120.0 };
    let rate_limited = RetryPolicy::UseHeader {
        header: "retry-after".to_owned(),
        fallback: Box::new(exponential(5.0)),
    };
    [
        (DEFAULT_POLICY, exponential(2.0)),
        ("fixed", RetryPolicy::Fixed { delay: 60.0 }),
        ("rate_limited", rate_limited),
    ]
    .map(|(name, policy)| (name.to_owned(), policy))
    .into()
}

/// Rye's description of its checkpoints: every turn is sealed here, in one file at a time.
fn checkpoints() -> Value {
    json!({
        "triggers": {"pre_turn": true, "post_llm": true, "post_tools": true, "on_error": true},
        "persistence": {"atomic_write": true, "format": "json"},
    })
}

/// Rye's description of how it obeys limits.
fn enforcement() -> Value {
    json!({"check_before_turn": true, "check_after_turn": true, "on_exceed": "escalate"})
}

/// Values in a file of Rye's that its own program does not read. The settings of waiting are those
/// of `agent/coordination`.
fn waits() -> Value {
    json!({
        "wait_timeout_seconds": 300.0,
        "fail_fast": false,
        "cancel_siblings_on_failure": false,
        "max_wait_thread_ids": 50,
        "completion_event_ttl_seconds": 600,
    })
}

fn child_policy(node: &Node) -> Result<ChildPolicy, Error> {
    match node.text()? {
        "allow" => Ok(ChildPolicy::Allow),
        "cascade_cancel" => Ok(ChildPolicy::CascadeCancel),
        _ => Err(node.error("a child policy must be allow or cascade_cancel")),
    }
}

pub(super) fn at_least_one(node: &Node) -> Result<u64, Error> {
    match node.whole()? {
        0 => Err(node.error("at least 1")),
        number => Ok(number),
    }
}
