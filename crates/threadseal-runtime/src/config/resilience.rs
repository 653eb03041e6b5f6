//! `agent/resilience`: default limits, retries, the handling of children.

use super::errors::RetryPolicy;
use super::fields::{file_fields, set};
use crate::limit::Limits;
use crate::money::Share;
use crate::yaml::{Fields, Node};
use threadseal_core::error::Error;

/// Limits, retries, children.
#[derive(Debug, Clone, PartialEq)]
pub struct Resilience {
    /// The limits of a thread whose directive names none.
    pub limits: Limits,
    /// What a child gets of the money that its parent has left, where it declares none itself.
    pub child_share: Share,
    /// How often a call of a model is tried again.
    pub max_retries: u64,
    /// The wait before a retry where an error's own policy gives none.
    pub retry_default: RetryPolicy,
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
            retry_default: RetryPolicy::Exponential {
                base: 2.0,
                max: 120.0,
            },
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
        // Every turn is sealed regardless of these; waiting belongs to `agent/coordination`.
        fields.ignore(&["checkpoint", "coordination"]);
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
                let policy = RetryPolicy::parse(&entry.value)?;
                if entry.key == "exponential" {
                    self.retry_default = policy;
                }
            }
        }
        retry.finish("`retry`")
    }

    fn limits(&mut self, fields: &mut Fields<'_>) -> Result<(), Error> {
        let Some(node) = fields.take("limits") else {
            return Ok(());
        };
        let mut limits = node.fields()?;
        // Limits are checked before and after every turn, and a limit that is hit fires `limit`
        // hooks.
        limits.ignore(&["enforcement"]);
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
