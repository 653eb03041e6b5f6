//! [`SealedCost`]: what a thread used, according to the sealed lines of its record.

mod spent;

use crate::limit::Cost;
use serde_json::Value;
use spent::Spent;

/// Adds up sealed lines. Money is not in them: the budget has it.
#[derive(Default)]
pub(super) struct SealedCost {
    cost: Cost,
    spent: Spent,
}

impl SealedCost {
    pub(super) fn line(&mut self, event: &Value) {
        self.spent.line(event);
        match event["event_type"].as_str() {
            Some("cognition_out") => {
                let usage = &event["payload"]["usage"];
                let count = |name: &str| usage[name].as_u64().unwrap_or(0);
                self.cost
                    .add_turn(count("input_tokens"), count("output_tokens"));
            }
            Some("child_thread_started") => self.cost.spawns += 1,
            _ => {}
        }
    }

    pub(super) fn total(&self) -> Cost {
        Cost {
            elapsed: self.spent.total(),
            ..self.cost
        }
    }
}
