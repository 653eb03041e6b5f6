//! The orchestrator's operations on threads of a database: what begins work is an order, what only looks
//! needs no worker.

use super::{Fleet, Given, OrderEnd};
use crate::bounds::{LEASE_TIME, ORDER_LIFETIME};
use crate::registry::Registry as _;
use crate::runner::orchestrator::{Operation, Records, Request};
use crate::runner::{Engine, ResumeMode, Resumption};
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use threadseal_core::error::Error;

impl Fleet {
    /// Carries an operation out for a person or a program; `worker` names this process while it holds an
    /// order. Waits for what workers do, except for a spawned thread.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn execute(
        &self,
        base: &Engine,
        operation: &Operation,
        worker: &str,
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        match operation.request(cancel)? {
            Request::Look => self.looking(base)?.execute(operation, cancel),
            Request::Run(order) => {
                let given = self.put(base, &order, ORDER_LIFETIME)?;
                self.result(base, &given, cancel)
            }
            Request::Spawn(order) => {
                let given = self.put(base, &order, ORDER_LIFETIME)?;
                let record = given.record.to_hex();
                Ok(
                    json!({"success": true, "order": given.order, "record": record, "status": "queued"}),
                )
            }
            Request::Cancel(id) => {
                self.cancel(base, &id)?;
                Ok(json!({"success": true, "thread_id": id.as_str(), "cancelled": true}))
            }
            Request::Kill(id) => {
                let killed = self.kill(base, &id, worker, LEASE_TIME)?;
                Ok(
                    json!({"success": true, "thread_id": id.as_str(), "status": killed.status.as_str()}),
                )
            }
            Request::Resume(wanted, way) => self.go_on_as(base, &wanted, way),
        }
    }

    fn go_on_as(
        &self,
        base: &Engine,
        wanted: &Resumption,
        way: ResumeMode,
    ) -> Result<Value, Error> {
        let resolved = self.registry.resolve(&wanted.thread)?;
        let given = self.resume(base, wanted, way, ORDER_LIFETIME)?;
        let result = self.result(base, &given, &wanted.cancel)?;
        if result["thread_id"].is_null() {
            return Ok(result);
        }
        let hands_over = way == ResumeMode::HandOver;
        Ok(
            json!({"success": true, "resumed": !hands_over, "handed_over": hands_over,
                  "old_thread_id": resolved.id.as_str(), "new_thread_id": result["thread_id"],
                  "original_thread_id": wanted.thread.as_str(), "resolved_thread_id": resolved.id.as_str(),
                  "directive": resolved.directive, "new_thread_result": result}),
        )
    }

    /// The result of an order; of a thread whose record may not be trusted as `wait_threads` has it.
    fn result(&self, base: &Engine, given: &Given, cancel: &Cancel) -> Result<Value, Error> {
        let records = Records::from(&self.looking(base)?.services);
        match self.outcome(&records, given, cancel, &base.services.host)? {
            OrderEnd::Ended(result) => Ok(result),
            OrderEnd::Refused(id, why) => {
                let result = json!({"success": false, "thread_id": id.as_str(), "status": "refused", "error": why});
                let mut results = Map::new();
                results.insert(id.as_str().to_owned(), result);
                Ok(json!({"success": false, "results": results}))
            }
            OrderEnd::Nothing { state, claim } => {
                let claim = claim.map_or(String::new(), |claim| format!(": {claim}"));
                Err(Error::refused(format!(
                    "no record shows a result of order {}; its row states, unverified: {state}{claim}",
                    given.order
                )))
            }
        }
    }
}
