//! The outcome of a node, and where a run continues after it.

use super::run::End;
use crate::bounds::MAX_STATE_ERROR_BYTES;
use crate::toolbox::Outcome;
use serde_json::{Map, Value, json};

/// The outcome of a node.
pub(super) enum Did {
    /// It succeeded; its result, where it has one.
    Well { result: Value },
    /// It failed.
    Failed { error: String, result: Value },
    /// It called for each item.
    Each {
        set: Map<String, Value>,
        error: Option<String>,
        /// `items` and `failed`.
        told: Value,
    },
    /// It ends the graph.
    Returned { output: Value },
}

impl Did {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self::Failed {
            error: error.into(),
            result: Value::Null,
        }
    }
}

/// Where a run continues after a node.
pub(super) enum AfterNode {
    /// To this node, or to the end of the graph.
    Next(Option<String>),
    /// The graph is complete.
    Returned(Value),
    /// The run ends here.
    Ended(End),
    /// The run shall stop.
    Stopped,
}

/// The handling of a node that failed.
pub(super) enum Failing {
    /// As the graph declares.
    AsDeclared,
    /// It is tried again.
    Again,
    /// The graph continues, and is complete with errors.
    PassOver,
    /// The graph continues as if the node did not exist.
    LeaveOut,
    End(End),
}

/// The collected value of an item: the id of the thread that it started, if any, as in Rye.
pub(super) fn collected(outcome: &Outcome) -> Value {
    match (&outcome.error, thread_of(&outcome.output)) {
        (Some(error), _) => json!({"success": false, "error": cut(error)}),
        (None, Some(thread)) => thread.into(),
        (None, None) => outcome.output.clone(),
    }
}

pub(super) fn thread_of(result: &Value) -> Option<String> {
    let thread = result["thread_id"].as_str().filter(|id| !id.is_empty());
    thread.map(str::to_owned)
}

/// As much of an error as stays in the state.
pub(super) fn cut(error: &str) -> String {
    let mut end = error.len().min(MAX_STATE_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error[..end].to_owned()
}
