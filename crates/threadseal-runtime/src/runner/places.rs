//! [`Places`]: what a thread leaves outside of its record, and whether another program changed it.
//!
//! ```text
//! thread.json, step ledger     as this process left them (`LeftFile`)
//! row of the registry          the members that this process wrote
//! row of the budgets           ceiling, parent, status; what was spent does not fall
//!    ─► another state ─► standard error at once, `changed_outside` in the record
//!                     ─► rows are put back; of two ceilings the lower one counts
//! ```
//! All four follow from the record. A change under a running thread is an attack, an accident or a
//! person at work: it is reported, and what the other program wrote is kept in the event or in a file.

use super::record_writer::WriteHandle;
use super::services::{Notice, Services};
use crate::bounds::MAX_CHANGES_TOLD;
use crate::budget::Budget;
use crate::left_file::{Foreign, LeftFile};
use crate::limit::Cost;
use crate::money::Nanos;
use crate::process_id::ProcessId;
use crate::registry::{Recorded, Subject, Thread};
use crate::status::Status;
use serde_json::{Map, Value, json};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// The places of one thread, once it has begun.
pub(super) struct Places {
    services: Services,
    writer: WriteHandle,
    own: OnceLock<Own>,
}

struct Own {
    id: ThreadId,
    began: Timestamp,
    meta: LeftFile,
    ledger: LeftFile,
    rows: Mutex<Rows>,
}

/// The rows as this process left them.
struct Rows {
    row: Option<Thread>,
    cost: Cost,
    budget: Option<Budget>,
    told: usize,
    /// Does its end follow, which changes all of them?
    is_over: bool,
}

impl Places {
    pub(super) fn new(services: Services, writer: WriteHandle) -> Self {
        Self {
            services,
            writer,
            own: OnceLock::new(),
        }
    }

    /// From here on the places are those of this thread, as they are now.
    ///
    /// # Errors
    /// When registry or budgets cannot be read.
    pub(super) fn begin(
        &self,
        id: &ThreadId,
        began: Timestamp,
        meta: LeftFile,
        ledger: LeftFile,
    ) -> Result<(), Error> {
        let row = self.services.registry.get(id)?;
        let cost = row.as_ref().map(cost_of).unwrap_or_default();
        let rows = Rows {
            cost,
            row,
            budget: self.services.budgets.get(id)?,
            told: 0,
            is_over: false,
        };
        let _ = self.own.set(Own {
            id: id.clone(),
            began,
            meta,
            ledger,
            rows: Mutex::new(rows),
        });
        Ok(())
    }

    /// Reports each change since the last look. What cannot be read now is read later.
    pub(super) fn look(&self) {
        let Some(own) = self.own.get() else {
            return;
        };
        self.look_at_all(own, &mut own.rows());
    }

    /// The last look: the end of the thread follows, in all of its places.
    pub(super) fn close(&self) {
        if let Some(own) = self.own.get() {
            let mut rows = own.rows();
            self.look_at_all(own, &mut rows);
            rows.is_over = true;
        }
    }

    fn look_at_all(&self, own: &Own, rows: &mut Rows) {
        if !rows.is_over {
            self.look_at_files(own, rows);
            let _ = self.look_at_row(own, rows);
            let _ = self.look_at_budget(own, rows);
        }
    }

    /// The same where it costs no question to a database.
    pub(super) fn look_aside(&self) {
        if matches!(self.services.registry.notices(Subject::Change), Ok(None)) {
            self.look();
        }
    }

    /// Notes the cost of the thread in its row.
    ///
    /// # Errors
    /// When the registry fails.
    pub(super) fn set_cost(&self, id: &ThreadId, cost: &Cost, now: Timestamp) -> Result<(), Error> {
        let Some(own) = self.own.get() else {
            return self.services.registry.set_cost(id, cost, now);
        };
        let mut rows = own.rows();
        self.look_at_row(own, &mut rows)?;
        self.services.registry.set_cost(id, cost, now)?;
        rows.cost = *cost;
        if let Some(row) = &mut rows.row {
            row.turns = cost.turns;
            row.input_tokens = cost.input_tokens;
            row.output_tokens = cost.output_tokens;
            row.spend = cost.spend;
        }
        Ok(())
    }

    /// The money that its row leaves for it and for its children, whatever was written there since;
    /// None where it has no budget.
    ///
    /// # Errors
    /// When the budgets cannot be read or written.
    pub(super) fn left_to_spend(&self) -> Result<Option<Nanos>, Error> {
        let Some(own) = self.own.get() else {
            return Ok(None);
        };
        let mut rows = own.rows();
        self.look_at_budget(own, &mut rows)?;
        let left = |budget: &Budget| budget.max.unwrap_or_default().saturating_sub(budget.actual);
        Ok(rows.budget.as_ref().map(left))
    }

    /// Pays for a request of the thread.
    ///
    /// # Errors
    /// As [`BudgetLedger::settle`](crate::budget::BudgetLedger::settle).
    pub(super) fn settle(
        &self,
        id: &ThreadId,
        key: &str,
        amount: Nanos,
        now: Timestamp,
    ) -> Result<(), Error> {
        let budgets = &self.services.budgets;
        let Some(own) = self.own.get() else {
            return budgets.settle(id, key, amount, now);
        };
        let mut rows = own.rows();
        self.look_at_budget(own, &mut rows)?;
        budgets.settle(id, key, amount, now)?;
        let paid = budgets.get(id)?.map(|paid| paid.actual);
        if let (Some(known), Some(paid)) = (&mut rows.budget, paid) {
            known.actual = known.actual.max(paid);
        }
        Ok(())
    }

    fn look_at_files(&self, own: &Own, rows: &mut Rows) {
        for change in own.meta.changes() {
            let mut text = "thread.json was changed by another program".to_owned();
            if let Some((name, _)) = &change.kept {
                text += &format!("; its bytes are kept as {name}");
            }
            self.tell(own, rows, &text, of_file("thread_json", &change));
        }
        for change in own.ledger.changes() {
            let text = "the step ledger was changed by another program; no further call begins";
            self.tell(own, rows, text, of_file("ledger", &change));
        }
    }

    fn look_at_row(&self, own: &Own, rows: &mut Rows) -> Result<(), Error> {
        let Some(right) = rows.row.as_ref().filter(|_| !rows.is_over) else {
            return Ok(());
        };
        let found = self.services.registry.get(&own.id)?;
        let (expected, differs) = differences(&facts(right), found.as_ref().map(facts));
        if expected.is_empty() {
            return Ok(());
        }
        self.put_row_back(own, right, &rows.cost, found.is_none())?;
        let text = match found {
            None => "its row in the registry was deleted; it is entered again".to_owned(),
            Some(_) => format!(
                "its row in the registry was changed by another program ({}); it is put back",
                names(&expected)
            ),
        };
        let event = json!({"what": "registry", "expected": expected, "found": differs});
        self.tell(own, rows, &text, event);
        Ok(())
    }

    fn put_row_back(
        &self,
        own: &Own,
        right: &Thread,
        cost: &Cost,
        was_deleted: bool,
    ) -> Result<(), Error> {
        let (registry, now) = (&self.services.registry, self.services.host.clock.now()?);
        let thread = |id: &Option<String>| id.as_deref().map(ThreadId::parse).transpose();
        if let Some(record) = right.record {
            let said = Recorded {
                id: own.id.clone(),
                record,
                directive: right.directive.clone(),
                model: right.model.clone(),
                parent: thread(&right.parent)?,
                began: own.began,
                spawns: right.spawns,
                before: thread(&right.continuation_of)?,
                after: thread(&right.continuation)?,
                root: thread(&right.chain_root)?,
                ended: None,
            };
            registry.enter(&said, now)?;
        }
        let status = right.status.as_ref().copied().unwrap_or(Status::Running);
        registry.correct(&own.id, status, now)?;
        if let Some(process) = ProcessId::own().filter(|_| was_deleted) {
            registry.set_process(&own.id, &process.to_row(), now)?;
        }
        registry.set_cost(&own.id, cost, now)
    }

    fn look_at_budget(&self, own: &Own, rows: &mut Rows) -> Result<(), Error> {
        let Some(known) = rows.budget.as_mut().filter(|_| !rows.is_over) else {
            return Ok(());
        };
        let found = self.services.budgets.get(&own.id)?;
        let is_same = |found: &Budget| {
            (found.max, &found.status, &found.parent) == (known.max, &known.status, &known.parent)
                && found.actual >= known.actual
        };
        if let Some(found) = found.as_ref().filter(|found| is_same(found)) {
            known.actual = found.actual;
            return Ok(());
        }
        let amounts = |budget: &Budget| {
            json!({"max_spend": budget.max.map(Nanos::to_real), "actual_spend": budget.actual.to_real(),
                   "status": budget.status, "parent_id": budget.parent})
        };
        let event = json!({"what": "budget", "expected": amounts(known),
                           "found": found.as_ref().map(amounts)});
        let text = match &found {
            None => "its row in the budgets was deleted; it is entered again",
            Some(found) if found.max < known.max => {
                "its budget was lowered by another program; the lower one counts"
            }
            Some(_) => "its row in the budgets was changed by another program; it is put back",
        };
        if let Some(found) = &found {
            known.max = known.max.min(found.max);
            known.actual = known.actual.max(found.actual);
        }
        let now = self.services.host.clock.now()?;
        self.services.budgets.put_back(&own.id, known, now)?;
        self.tell(own, rows, text, event);
        Ok(())
    }

    fn tell(&self, own: &Own, rows: &mut Rows, text: &str, event: Value) {
        rows.told += 1;
        if rows.told > MAX_CHANGES_TOLD {
            return;
        }
        self.services.announce(&own.id, Notice::Changed(text));
        // A record that cannot be written fails its thread at the next line.
        self.writer
            .leave(move |journal| drop(journal.event("changed_outside", &event)));
    }
}

impl Own {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_file(what: &str, change: &Foreign) -> Value {
    let bytes = |size: Option<u64>| size.map(|size| json!({ "bytes": size }));
    let mut event =
        json!({"what": what, "expected": bytes(change.before), "found": bytes(change.now)});
    if let Some((name, sha256)) = &change.kept {
        event["found"]["sha256"] = sha256.to_hex().into();
        event["kept"] = name.as_str().into();
    }
    event
}

/// What this process wrote into a row.
fn facts(row: &Thread) -> Map<String, Value> {
    let status = match &row.status {
        Ok(status) => status.as_str(),
        Err(word) => word,
    };
    let facts = json!({
        "directive": row.directive, "parent_id": row.parent, "status": status, "model": row.model,
        "record": row.record.map(|record| record.to_hex()), "turns": row.turns,
        "input_tokens": row.input_tokens, "output_tokens": row.output_tokens,
        "spend": row.spend.to_real(), "continuation_of": row.continuation_of,
        "continuation_thread_id": row.continuation, "chain_root_id": row.chain_root,
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// The members in which two rows differ, each as it should be and as it is.
fn differences(
    right: &Map<String, Value>,
    found: Option<Map<String, Value>>,
) -> (Map<String, Value>, Value) {
    let Some(found) = found else {
        return (right.clone(), Value::Null);
    };
    let differ = |name: &&String| right.get(*name) != found.get(*name);
    let names: Vec<&String> = right.keys().filter(differ).collect();
    let of = |row: &Map<String, Value>| {
        let members = names.iter().map(|name| {
            let value = row.get(*name).cloned().unwrap_or_default();
            ((*name).clone(), value)
        });
        members.collect::<Map<String, Value>>()
    };
    (of(right), Value::Object(of(&found)))
}

fn names(members: &Map<String, Value>) -> String {
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    names.join(", ")
}

fn cost_of(row: &Thread) -> Cost {
    Cost {
        turns: row.turns,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        spend: row.spend,
        ..Cost::default()
    }
}
