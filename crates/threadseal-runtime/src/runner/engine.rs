//! [`Engine`]: the surroundings in which the threads of a project run.

use super::cycle::Progress;
use crate::budget::BudgetLedger;
use crate::config::Config;
use crate::item::{Finder, Grounds, ItemId, ItemPolicy};
use crate::limit::{Cost, Limits};
use crate::model::Models;
use crate::project::Project;
use crate::registry::Registry;
use crate::status::Status;
use crate::toolbox::{Cancel, Tool};
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::manifest::{Bodies, Manifest};
use threadseal_store::host::Host;
use threadseal_store::recorder::Keys;
use threadseal_verify::home_log::HomeLog;

/// The surroundings in which the threads of a project run. All clones are one, except for
/// [`Engine::going_on_from`].
#[derive(Clone)]
pub struct Engine {
    /// Where they run.
    pub project: Arc<Project>,
    /// Files, clock, randomness, heads.
    pub host: Host,
    /// Their keys.
    pub keys: Keys,
    /// Whose signatures count.
    pub trust: Arc<Trust>,
    /// The log of this host.
    pub log: HomeLog,
    /// Where directives and tools are found.
    pub finder: Finder,
    /// Which of them may be used.
    pub policy: ItemPolicy,
    /// The registry of threads.
    pub registry: Arc<dyn Registry>,
    /// Their budgets.
    pub budgets: Arc<dyn BudgetLedger>,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The settings of program, user and project.
    pub config: Arc<Config>,
    /// Tools that are part of this program or of its caller.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The environment of this program's caller; declared commands see only the variables that they
    /// list.
    pub environment: Arc<Vec<(String, String)>>,
    /// The observer.
    pub watch: Arc<dyn Watch>,
}

impl Engine {
    /// The basis on which items are judged now.
    pub(super) fn grounds(&self) -> Result<Grounds<'_>, Error> {
        Ok(Grounds {
            trust: &self.trust,
            now: self.host.clock.now()?,
            heads: &*self.host.heads,
            policy: self.policy,
        })
    }

    /// The engine for a successor of a record with this line 1. If the record keeps contents
    /// redactable, the successor and all threads that it starts keep them redactable too.
    pub(super) fn going_on_from(&self, before: Option<&Manifest>) -> Self {
        let mut engine = self.clone();
        let is_detached = before.is_some_and(|line_1| line_1.bodies == Bodies::Detached);
        if is_detached && self.config.coordination.bodies_inherited {
            Arc::make_mut(&mut engine.config)
                .coordination
                .transcript_bodies = Bodies::Detached;
        }
        engine
    }
}

/// Follows threads, to show them to people.
pub trait Watch: Send + Sync {
    /// Something happened in `thread`.
    fn progress(&self, thread: &ThreadId, progress: Progress<'_>);
}

/// A thread to run.
#[derive(Debug, Clone)]
pub struct Order {
    /// The directive.
    pub directive: ItemId,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// Limits that count before the directive's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

/// How a thread ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Which it was.
    pub thread: ThreadId,
    /// Its status.
    pub status: Status,
    /// Its last text.
    pub text: String,
    /// Its named outputs.
    pub outputs: Option<Map<String, Value>>,
    /// The error.
    pub error: Option<String>,
    /// Its use.
    pub cost: Cost,
    /// The use of the threads that handed themselves over to it.
    pub carried: Cost,
    /// Its final seal.
    pub head: Head,
    /// Parts of its record that a person should know.
    pub warnings: Vec<String>,
}

impl Ran {
    /// Its use, together with the threads that handed themselves over to it.
    pub fn total(&self) -> Cost {
        self.carried.and(&self.cost)
    }

    /// The result as parents and `wait_threads` see it (seed 001, "thread result").
    pub fn to_json(&self) -> Value {
        let mut out = serde_json::json!({
            "success": self.status == Status::Completed,
            "thread_id": self.thread.as_str(),
            "status": self.status.as_str(),
            "result": self.text,
            "cost": self.cost.to_json(),
            "head": self.head.to_string(),
        });
        if let Some(outputs) = &self.outputs {
            out["outputs"] = Value::Object(outputs.clone());
        }
        if self.carried != Cost::default() {
            out["chain_cost"] = self.total().to_json();
        }
        if !self.warnings.is_empty() {
            out["warnings"] = self.warnings.clone().into();
        }
        if let Some(error) = &self.error {
            out["error"] = error.as_str().into();
        }
        out
    }
}
