//! The actions of hooks, in the record of their thread. They are events of their own types, so that
//! no reader takes a hook's calls for the model's.
//!
//! ```text
//! begins   hook_call_start, durable before the call starts    ledger: hook_call started
//! ended    hook_call_result                                   ledger: hook_call completed | failed
//! ```

use super::{Journal, effect};
use crate::model::sealed;
use crate::toolbox::Outcome;
use serde_json::{Value, json};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_store::ledger::{OpenStep, Step};

/// A call that a hook makes.
#[derive(Debug, Clone, PartialEq)]
pub struct HookCall {
    /// Names the call in its record.
    pub id: String,
    /// The same for all attempts at it.
    pub key: String,
    /// The hook.
    pub hook: String,
    /// Why it was asked.
    pub event: String,
    /// The operation: `execute`, …
    pub primary: &'static str,
    /// The kind of the item.
    pub item_type: &'static str,
    /// With which.
    pub item_id: String,
    /// Its input.
    pub input: Value,
}

impl Journal {
    /// The number of the next call of a hook, from 1; each is given once.
    pub fn next_hook_call(&mut self) -> u64 {
        self.hook_calls += 1;
        self.hook_calls
    }

    /// Records the intent of a hook's call, durably.
    ///
    /// # Errors
    /// As [`Journal::ask`]: the call must not start then.
    pub fn hook_begins(&mut self, call: &HookCall) -> Result<OpenStep, Error> {
        let start = json!({"hook": call.hook, "event": call.event, "call_id": call.id,
                           "primary": call.primary, "item_type": call.item_type,
                           "item_id": call.item_id, "input": call.input,
                           "idempotency_key": call.key});
        self.event("hook_call_start", &start)?;
        self.recorder.sync()?;
        let input = Digest::of(call.input.to_string().as_bytes()).to_hex();
        let payload = json!({"hook": call.hook, "primary": call.primary, "item_type": call.item_type,
                             "item_id": call.item_id, "input_sha256": input});
        let step = Step {
            idempotency_key: Some(call.key.clone()),
            ..Step::new(call.id.clone(), Some(effect("hook_call", &payload)?))
        };
        self.steps.start(step)
    }

    /// Records the result of the call.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub fn hook_ended(
        &mut self,
        step: OpenStep,
        call: &HookCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error> {
        let output = outcome.text();
        let mut result = json!({"hook": call.hook, "call_id": call.id, "output": output,
                                "duration_ms": millis});
        if let Some(error) = &outcome.error {
            result["error"] = error.as_str().into();
        }
        if outcome.unknown {
            result["unknown"] = true.into();
        }
        self.event("hook_call_result", &result)?;
        match &outcome.error {
            Some(error) => self.steps.fail(step, error).map(drop),
            None => {
                let digest = Digest::of(output.as_bytes()).to_hex();
                let result = sealed(&json!({"output_sha256": digest}))?;
                self.steps.succeed(step, Some(result)).map(drop)
            }
        }
    }
}
