//! [`Fleet`]: threads on many machines, in one PostgreSQL database.
//!
//! ```text
//! order {directive, inputs, limits} ─► taken by a worker ─► its threads: records, files, registry, budgets, heads
//!                                         │                  all in the database, all under the order's lease
//!   worker gone: lease expires ───────────┴─► the next one: children end, the root goes on in the same record
//! ```
//! An order covers the thread that it starts, whatever that starts and whatever goes on from it. A worker that loses
//! its lease stops at once: nothing it still tries to write is taken, and its tools are stopped.
//!
//! Normative: `spec/runtime.md`, "Many machines".

mod heads;
mod worker;

pub use worker::{Tally, Worker};

use crate::bounds::MAX_TAKEOVERS;
use crate::budget::{BudgetLedger, PostgresBudgets};
use crate::item::ItemId;
use crate::limit::Limits;
use crate::registry::{PostgresRegistry, Registry, Thread};
use crate::runner::{Engine, Order};
use crate::status::Status;
use crate::toolbox::Cancel;
use heads::Both;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use threadseal::error::{Error, ErrorKind};
use threadseal_store::heads::HeadStore;
use threadseal_store::host::Host;
use threadseal_store::ledger::postgres::files::LeasedFs;
use threadseal_store::ledger::postgres::leases::{Lease, Orders, Standing};
use threadseal_store::ledger::postgres::{
    PostgresDatabase, PostgresHeadStore, PostgresLedgerStore,
};

/// Folders of a project that lie in the database, relative to its root.
pub const FOLDERS: [&str; 3] = [
    ".ai/agent/threads",
    ".ai/knowledge/agent/threads",
    ".ai/knowledge/graphs",
];

/// Which threads there are, and what they may spend.
pub type Books = (Arc<dyn Registry>, Arc<dyn BudgetLedger>);

/// The threads of one database.
#[derive(Debug, Clone)]
pub struct Fleet {
    database: PostgresDatabase,
    orders: Orders,
    ledgers: Arc<PostgresLedgerStore>,
    registry: PostgresRegistry,
}

impl Fleet {
    /// Connects, and makes the tables that are missing.
    ///
    /// # Errors
    /// As [`PostgresDatabase::open`] and [`PostgresDatabase::migrate`].
    pub fn open(url: &str) -> Result<Self, Error> {
        let database = PostgresDatabase::open(url)?;
        Ok(Self {
            orders: Orders::open(&database)?,
            ledgers: Arc::new(PostgresLedgerStore::over(&database)?),
            registry: PostgresRegistry::open(&database, None)?,
            database,
        })
    }

    /// Where it is, without secrets.
    pub fn place(&self) -> &str {
        self.database.place()
    }

    /// What of the server's set-up takes away from what is promised.
    pub fn warnings(&self) -> Vec<String> {
        self.database.warnings()
    }

    /// All threads.
    pub fn registry(&self) -> &PostgresRegistry {
        &self.registry
    }

    /// Registry and budgets, without a lease.
    ///
    /// # Errors
    /// As [`Fleet::open`].
    pub fn books(&self) -> Result<Books, Error> {
        let budgets = PostgresBudgets::open(&self.database, None)?;
        Ok((Arc::new(self.registry.clone()), Arc::new(budgets)))
    }

    /// Gives an order to whichever worker takes it first; returns its number.
    ///
    /// # Errors
    /// Kind `External` when the server fails.
    pub fn put(&self, order: &Order) -> Result<i64, Error> {
        let task = json!({"directive": order.directive.as_str(), "inputs": order.inputs,
                          "limits": order.limits.to_json()});
        self.orders.put(&task.to_string())
    }

    /// Waits until an order is done, at most `longest`; returns where it stands then.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such order, `External` when the server fails.
    pub fn wait(
        &self,
        order: i64,
        longest: Option<Duration>,
        cancel: &Cancel,
        host: &Host,
    ) -> Result<Standing, Error> {
        let began = host.clock.elapsed();
        loop {
            let hints = self.database.hints()?;
            let standing = self.orders.get(order)?;
            let standing =
                standing.ok_or_else(|| Error::refused(format!("there is no order {order}")))?;
            let waited = host.clock.elapsed().saturating_sub(began);
            let is_over = longest.is_some_and(|longest| waited >= longest) || cancel.is_set();
            if standing.state == "done" || is_over {
                return Ok(standing);
            }
            let left = longest.map_or(HINT_WAIT, |longest| longest.saturating_sub(waited));
            self.database.wait(hints, left.min(HINT_WAIT));
        }
    }

    /// The host of a project whose threads lie in the database: only to look, without a lease.
    ///
    /// # Errors
    /// Kind `External` when the server or the disk fails.
    pub fn host(
        &self,
        local: &Host,
        root: &std::path::Path,
        lease: Option<&Lease>,
    ) -> Result<Host, Error> {
        let real = Arc::clone(&local.fs);
        let fs = LeasedFs::open(&self.database, lease.cloned(), real, root, &FOLDERS)?;
        let ledgers = Arc::clone(&self.ledgers);
        let shared: Arc<dyn HeadStore> = match lease {
            Some(lease) => Arc::new(PostgresHeadStore::leased(ledgers, lease.clone())),
            None => Arc::new(PostgresHeadStore::new(ledgers)),
        };
        Ok(Host {
            fs: Arc::new(fs),
            heads: Arc::new(Both {
                shared,
                local: Arc::clone(&local.heads),
            }),
            ..local.clone()
        })
    }

    /// `base` with everything that threads write in the database, under this lease.
    fn engine(&self, base: &Engine, lease: &Lease) -> Result<Engine, Error> {
        let host = self.host(&base.host, base.project.root(), Some(lease))?;
        Ok(Engine {
            host,
            registry: Arc::new(PostgresRegistry::open(&self.database, Some(lease.clone()))?),
            budgets: Arc::new(PostgresBudgets::open(&self.database, Some(lease.clone()))?),
            ..base.clone()
        })
    }

    /// Works on an order that is held, wherever it stands, to its end; gives its result.
    fn work_on(
        &self,
        base: &Engine,
        lease: &Lease,
        task: &str,
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        let engine = self.engine(base, lease)?;
        let threads = self.registry.of_order(lease.order())?;
        let live =
            |thread: &&Thread| matches!(thread.status, Ok(Status::Created | Status::Running));
        // What others started ends: the call that waited for it is gone.
        for child in threads
            .iter()
            .rev()
            .filter(|thread| thread.parent.is_some())
            .filter(live)
        {
            self.go_on(&engine, child, lease, cancel)?;
        }
        let roots: Vec<&Thread> = threads
            .iter()
            .filter(|thread| thread.parent.is_none())
            .collect();
        let mut result = None;
        for root in roots.iter().copied().filter(live) {
            result = self.go_on(&engine, root, lease, cancel)?.or(result);
        }
        let ended = roots.iter().rev().find_map(|root| root.result.clone());
        let ended = ended.and_then(|text| serde_json::from_str(&text).ok());
        match (result.or(ended), threads.is_empty()) {
            (Some(result), _) => Ok(result),
            (None, _) if lease.token() > MAX_TAKEOVERS => Err(Error::refused(format!(
                "{} workers were lost over it",
                lease.token()
            ))),
            // Nothing had begun, or what had begun left no record.
            (None, _) => Ok(engine.run(&order(task, cancel)?)?.to_json()),
        }
    }

    /// Goes on with a thread, or ends it where that cannot be; None where it had left no record.
    fn go_on(
        &self,
        engine: &Engine,
        root: &Thread,
        lease: &Lease,
        cancel: &Cancel,
    ) -> Result<Option<Value>, Error> {
        let transcript = engine.project.thread(&root.id).transcript();
        let has_record = engine.host.fs.metadata(&transcript).is_ok();
        if has_record {
            let ends = lease.token() > MAX_TAKEOVERS;
            match engine.carry_on(&root.id, ends, cancel) {
                Ok(ran) => return Ok(Some(ran.to_json())),
                Err(error) if is_final(&error) => lease.check()?,
                Err(error) => return Err(error),
            }
        }
        let recovered = engine.recover(&root.id)?;
        Ok(has_record.then(|| {
            json!({"success": false, "thread_id": root.id.as_str(),
                   "status": recovered.status.as_str(), "error": "its worker was lost"})
        }))
    }
}

/// How long to sleep at most without looking.
const HINT_WAIT: Duration = Duration::from_millis(500);

/// Is it of no use to try again?
fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Refused | ErrorKind::Key | ErrorKind::Limit
    )
}

/// The order that a task spells.
fn order(task: &str, cancel: &Cancel) -> Result<Order, Error> {
    let wrong = |what: &str| Error::invalid(format!("the order is none: {what}"));
    let task: Value = serde_json::from_str(task).map_err(|error| wrong(&error.to_string()))?;
    let directive = task["directive"].as_str();
    Ok(Order {
        directive: ItemId::parse(directive.ok_or_else(|| wrong("it names no directive"))?)?,
        inputs: match &task["inputs"] {
            Value::Object(inputs) => inputs.clone(),
            _ => Map::new(),
        },
        limits: Limits::from_json(&task["limits"])?,
        cancel: cancel.clone(),
    })
}

#[cfg(test)]
mod tests;
