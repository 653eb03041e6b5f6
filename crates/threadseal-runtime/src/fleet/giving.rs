//! Gives orders, and takes their results from verified records alone.
//!
//! ```text
//! give      the item verified here ─► the line signed ─► row ready ─► any worker
//! resume    the chain verified here, nothing written ─► its order ready again, with a new line
//! await     row done, or record ended? ─► record of the line, verified ─► result
//! ```
//! The row only shows when and where to look: anyone who can write it can claim anything in it.

use super::Fleet;
use crate::bounds::{MAX_CLAIM_CHARS, RESULT_GRACE};
use crate::item::{ItemId, ItemKind};
use crate::limit::Limits;
use crate::runner::orchestrator::Records;
use crate::runner::{
    Engine, GraphOrder, GraphResumption, Order, Resumable, ResumeMode, Resumption, may_go_on_from,
};
use crate::signed_order::{From, GoOn, OrderLine, SignedOrder, Task, WalkOn};
use crate::toolbox::Cancel;
use serde_json::{Map, Value};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_store::host::Host;
use threadseal_store::postgres::Channel;
use threadseal_store::postgres::leases::Standing;
use threadseal_store::random;

/// An order that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its number.
    pub order: i64,
    /// The record of the thread that begins under it.
    pub record: RecordId,
    /// The names of its limits that workers will lower.
    pub lowered: Vec<&'static str>,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq)]
pub enum OrderEnd {
    /// Its thread ended: the result, from a record that verifies.
    Ended(Value),
    /// The record of its thread, or a file beside it, is not what it must be: the thread, and why.
    Refused(ThreadId, String),
    /// No record shows an end: the state of the row, and what it claims, cut.
    Nothing {
        /// `ready`, `taken` or `done`.
        state: String,
        /// Not verified.
        claim: Option<String>,
    },
}

/// The parts of an order that depend on its kind.
pub(super) struct Wanted<'a> {
    pub(super) kind: ItemKind,
    pub(super) item: &'a ItemId,
    pub(super) inputs: Map<String, Value>,
    pub(super) limits: Limits,
    pub(super) task: Task,
}

fn not_done(order: i64) -> Error {
    Error::refused(format!(
        "its order {order} is not done: a worker may still continue it"
    ))
}

impl Fleet {
    /// Gives an order to the first worker that takes it, within `lasts`.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` when the directive may not be used or the order cannot be
    /// signed, `External` when the server fails.
    pub fn put(&self, base: &Engine, order: &Order, lasts: Duration) -> Result<Given, Error> {
        let wanted = Wanted {
            kind: ItemKind::Directive,
            item: &order.directive,
            inputs: order.inputs.clone(),
            limits: order.limits,
            task: Task::Run,
        };
        self.give_new(base, wanted, lasts)
    }

    /// Gives the order to run a graph.
    ///
    /// # Errors
    /// As [`Fleet::put`].
    pub fn put_graph(
        &self,
        base: &Engine,
        order: &GraphOrder,
        lasts: Duration,
    ) -> Result<Given, Error> {
        let wanted = Wanted {
            kind: ItemKind::Graph,
            item: &order.graph,
            inputs: order.inputs.clone(),
            limits: order.limits,
            task: Task::Graph,
        };
        self.give_new(base, wanted, lasts)
    }

    /// Gives the order to continue a thread that ended or was suspended. A worker verifies all of
    /// it again, under the lock of the record.
    ///
    /// # Errors
    /// Kind `Refused` as [`Engine::resume`], and when the order is not done; nothing is changed
    /// then. Otherwise as [`Fleet::put`].
    pub fn resume(
        &self,
        base: &Engine,
        wanted: &Resumption,
        way: ResumeMode,
        lasts: Duration,
    ) -> Result<Given, Error> {
        let looking = self.looking(base)?;
        let from = may_go_on_from(&looking.services.archive(), &wanted.thread)?;
        let task = |from| {
            Task::GoOn(GoOn {
                thread: wanted.thread.clone(),
                way,
                message: wanted.message.clone(),
                from,
            })
        };
        let (kind, limits) = (ItemKind::Directive, wanted.limits);
        self.give_anew(base, &from, kind, limits, task, lasts)
    }

    /// Gives the order to continue a run of a graph.
    ///
    /// # Errors
    /// Kind `Refused` as [`Engine::resume_graph`], and when the order is not done; nothing is
    /// changed then. Otherwise as [`Fleet::put`].
    pub fn resume_graph(
        &self,
        base: &Engine,
        wanted: &GraphResumption,
        lasts: Duration,
    ) -> Result<Given, Error> {
        // Its record may have unsealed bytes as long as a worker may continue it.
        if let Ok(order) = self.order_of(&wanted.run)
            && self
                .orders
                .get(order)?
                .is_some_and(|row| row.state != "done")
        {
            return Err(not_done(order));
        }
        let from = self.looking(base)?.check_resumable_graph(wanted)?;
        let unresolved = wanted.unresolved;
        let task = |from| Task::WalkOn(WalkOn { unresolved, from });
        self.give_anew(base, &from, ItemKind::Graph, wanted.limits, task, lasts)
    }

    fn give_new(&self, base: &Engine, wanted: Wanted<'_>, lasts: Duration) -> Result<Given, Error> {
        let (signed, lowered) = self.signed(base, wanted, lasts)?;
        Ok(Given {
            order: self.orders.put(signed.text())?,
            record: signed.record(),
            lowered,
        })
    }

    /// Makes the order of a thread ready again, with another line.
    fn give_anew(
        &self,
        base: &Engine,
        from: &Resumable,
        kind: ItemKind,
        limits: Limits,
        task: impl FnOnce(From) -> Task,
        lasts: Duration,
    ) -> Result<Given, Error> {
        let order = self.order_of(&from.last)?;
        let standing = self.orders.get(order)?;
        let standing =
            standing.ok_or_else(|| Error::refused(format!("its order {order} does not exist")))?;
        let wanted = Wanted {
            kind,
            item: &from.item,
            inputs: Map::new(),
            limits,
            task: task(From {
                order,
                after: standing.token,
                last: from.last.clone(),
                head: from.head,
            }),
        };
        let (signed, lowered) = self.signed(base, wanted, lasts)?;
        match self.orders.reopen(order, standing.token, signed.text())? {
            true => Ok(Given {
                order,
                record: signed.record(),
                lowered,
            }),
            false => Err(not_done(order)),
        }
    }

    /// The line of an order, by this host's own key; and the limits that workers will lower.
    pub(super) fn signed(
        &self,
        base: &Engine,
        wanted: Wanted<'_>,
        lasts: Duration,
    ) -> Result<(SignedOrder, Vec<&'static str>), Error> {
        let services = &base.services;
        let (item_sha256, most) = base.declared(wanted.kind, wanted.item)?;
        let given = services.host.clock.now()?.floor_to_second();
        let lasts = u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX);
        let line = OrderLine {
            database: self.project_id()?,
            given,
            expires: Timestamp::from_micros(given.as_micros().saturating_add(lasts))?,
            item: wanted.item.clone(),
            item_sha256,
            inputs: wanted.inputs,
            limits: wanted.limits,
            task: wanted.task,
            nonce: random::array(&*services.host.random)?,
        };
        let native = &services.keys.native;
        // A key that ended gives no orders, as it makes no seals.
        let _section = services.host.enter_seal(&[native.public_key()])?;
        let lowered = wanted.limits.above(&most);
        Ok((SignedOrder::sign(line, &**native)?, lowered))
    }

    /// Waits until the thread of an order has ended by its record, or its row is done.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such order, `External` when the server fails.
    pub fn outcome(
        &self,
        records: &Records,
        given: &Given,
        cancel: &Cancel,
        host: &Host,
    ) -> Result<OrderEnd, Error> {
        loop {
            let marks = self.database.marks()?;
            let standing = self.standing(given.order)?;
            let is_over = standing.state == "done" || cancel.is_set();
            match self.result_of(records, given.order, &given.record)? {
                // Its worker still writes the row: the next command finds it done.
                Some(found) if !is_over => {
                    self.wait(given.order, Some(RESULT_GRACE), cancel, host)?;
                    return Ok(found);
                }
                Some(found) => return Ok(found),
                None if is_over => return Ok(nothing(standing)),
                None => {
                    let stop = || cancel.is_set();
                    let ends = [Channel::Ends];
                    self.database.wait(&ends, &marks, Duration::MAX, &stop);
                }
            }
        }
    }

    /// The result of the thread with this record, if one of the order's threads has it and ended.
    pub(super) fn result_of(
        &self,
        records: &Records,
        order: i64,
        record: &RecordId,
    ) -> Result<Option<OrderEnd>, Error> {
        let mut refused = None;
        for row in self.registry.of_order(order)? {
            if row.record != Some(*record) || !records.has_record(&row.id) {
                continue;
            }
            let Some(result) = records.end_under(&row.id, record)? else {
                continue;
            };
            if result["status"] != "refused" {
                return Ok(Some(OrderEnd::Ended(result)));
            }
            let why = result["error"].as_str().unwrap_or_default().to_owned();
            refused.get_or_insert(OrderEnd::Refused(row.id, why));
        }
        Ok(refused)
    }
}

fn nothing(standing: Standing) -> OrderEnd {
    let result = standing.result.as_deref();
    let result = result.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let claim = result.and_then(|result| result["error"].as_str().map(str::to_owned));
    let claim = standing.aside.or(claim);
    OrderEnd::Nothing {
        state: standing.state,
        claim: claim.map(|claim| claim.chars().take(MAX_CLAIM_CHARS).collect()),
    }
}
