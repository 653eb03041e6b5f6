//! `rye/agent/threads/thread_directive`: a thread starts another one, and waits for it or continues
//! in parallel.
//!
//! ```text
//! {directive_id | directive_name, inputs?, limit_overrides?}
//!    ─► {success, thread_id, status, result, outputs?, cost, head}
//! {…, async: true}
//!    ─► {success, thread_id, status: running}
//! ```
//! The child has at most its parent's limits and capabilities. Both records name each other. The
//! parent's sealed event names the child's record, and the child's first line names that seal. The
//! parent's next seal names the child's end. An asynchronous child runs on an OS thread of this
//! process; [`super::children`] describes the effect of the parent's end.

use super::accounts::spent;
use super::children::Children;
use super::order::{Order, Ran, ResumeMode, Resumption};
use super::parent::{Inherited, ParentThread};
use super::record_writer::WriteHandle;
use super::recover;
use super::services::Services;
use super::starter::{BegunThread, Starter};
use crate::item::ItemId;
use crate::limit::Limits;
use crate::model::ToolSchema;
use crate::money::Nanos;
use crate::toolbox::{Cancel, Invocation, Outcome, Parentage as _, Tool, model_name};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;

pub(super) struct ChildTool {
    schema: ToolSchema,
    spawner: Arc<ChildSpawner>,
}

/// The starter of one thread's children.
pub(super) struct ChildSpawner {
    services: Services,
    starter: Starter,
    children: Arc<Children>,
    writer: WriteHandle,
    owner: OnceLock<(ThreadId, Inherited)>,
    /// Children begin one after the other.
    turn: Mutex<()>,
}

impl ChildTool {
    /// Its id, as in Rye.
    const ID: &'static str = "rye/agent/threads/thread_directive";

    pub(super) fn new(spawner: Arc<ChildSpawner>) -> Self {
        let schema = ToolSchema {
            name: model_name(Self::ID),
            description: "Runs a directive in a thread of its own, and gives its result; with async only the \
                          thread's id, at once."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "directive_id": {"type": "string"},
                    "inputs": {"type": "object"},
                    "limit_overrides": {"type": "object"},
                    "async": {"type": "boolean"},
                },
                "required": ["directive_id"],
            }),
        };
        Self { schema, spawner }
    }
}

impl Tool for ChildTool {
    fn id(&self) -> &str {
        Self::ID
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn parallel(&self, input: &Value) -> bool {
        input["async"] == true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let started = match &call.input["async"] {
            Value::Null | Value::Bool(false) => self.spawner.run(call.input, call.cancel),
            Value::Bool(true) => self.spawner.spawn(call.input),
            _ => Err(Error::invalid("async must be true or false")),
        };
        match started {
            Ok(result) => Outcome::of_child(result),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

impl ChildSpawner {
    /// The children of a thread whose record is written at `writer`.
    pub(super) fn new(
        services: Services,
        starter: Starter,
        children: Arc<Children>,
        writer: WriteHandle,
    ) -> Self {
        Self {
            services,
            starter,
            children,
            writer,
            owner: OnceLock::new(),
            turn: Mutex::new(()),
        }
    }

    /// Sets the thread that owns the children, before the first begins.
    pub(super) fn belongs_to(&self, thread: &ThreadId, inherited: Inherited) {
        let _ = self.owner.set((thread.clone(), inherited));
    }

    /// Runs a child to its end.
    ///
    /// # Errors
    /// When it cannot begin, or its result cannot be recorded.
    pub(super) fn run(&self, input: &Value, cancel: &Cancel) -> Result<Value, Error> {
        let place = self.children.place(cancel)?;
        let child = self.begin(input, cancel)?;
        let id = child.id().clone();
        let ran = child.run();
        drop(place);
        self.children.ended(spent(&self.services, &id, &ran));
        let told = ran.and_then(|ran| {
            let mut writer = self.writer.clone();
            writer.child_ended(&ran.thread, ran.status.as_str(), &ran.head)?;
            Ok(told(&self.services, &ran))
        });
        // It began: an error of ours does not undo its effects.
        Ok(told.unwrap_or_else(|why| lost(Some(&id), &why)))
    }

    /// Begins a child that runs in parallel with its parent.
    ///
    /// # Errors
    /// When it cannot begin.
    pub(super) fn spawn(&self, input: &Value) -> Result<Value, Error> {
        let place = self.children.place_now()?;
        let child = self.begin(input, self.children.cancel())?;
        let id = child.id().clone();
        let (children, writer, beside) = (
            Arc::clone(&self.children),
            self.writer.clone(),
            self.children.beside(),
        );
        // Taken out again where no thread can be had: a child that has begun must end.
        let child = Arc::new(Mutex::new(Some(child)));
        let taken = Arc::clone(&child);
        let (services, began) = (self.services.clone(), id.clone());
        let work = move || {
            if let Some(child) = take(&taken) {
                let ran = child.run();
                settle(spent(&services, &began, &ran), ran, &children, &writer);
            }
            drop((place, beside));
        };
        if let Err(error) = thread::Builder::new().spawn(work) {
            let why = format!("it cannot run beside its parent: {error}");
            if let Some(child) = take(&child) {
                let ran = child.fail(&why);
                let cost = spent(&self.services, &id, &ran);
                settle(cost, ran, &self.children, &self.writer);
            }
            return Err(Error::new(ErrorKind::External, why));
        }
        Ok(json!({"success": true, "thread_id": id.as_str(), "status": "running"}))
    }

    /// The thread that owns the children, and their inheritance.
    ///
    /// # Errors
    /// Kind `Refused` before the thread has begun.
    pub(super) fn owner(&self) -> Result<&(ThreadId, Inherited), Error> {
        let owner = self.owner.get();
        owner.ok_or_else(|| Error::refused("the thread has not begun"))
    }

    pub(super) fn services(&self) -> &Services {
        &self.services
    }

    pub(super) fn starter(&self) -> Starter {
        self.starter
    }

    /// Continues a thread, at the cost of this one: it counts as one more child, and may spend at
    /// most the rest.
    ///
    /// # Errors
    /// As `Engine::resume` and `Engine::handoff`; kind `Refused` at a limit.
    pub(super) fn resume(&self, mut wanted: Resumption, way: ResumeMode) -> Result<Ran, Error> {
        self.services.models.may_go_on()?;
        let (id, inherited) = self.owner()?;
        let _place = self.children.place(&wanted.cancel)?;
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.children.may_begin(&inherited.limits)?;
        // It has a budget of its own outside this tree, so its money is held here meanwhile.
        let (budgets, clock) = (&self.services.budgets, &self.services.host.clock);
        let key = self.key_of_resumption(&wanted.thread);
        let least = Nanos::new(1).unwrap_or_default();
        let most = wanted.limits.spend.unwrap_or(Nanos::MAX);
        let held = budgets.hold(id, &key, least, most, clock.now()?)?;
        let held = held.ok_or_else(|| Error::refused("spend_exceeded: no money is left"))?;
        wanted.limits.spend = Some(held);
        self.children.begun();
        let ran = self.starter.resume(&self.services, &wanted, way);
        let total = match &ran {
            Ok(ran) => ran.total().spend,
            Err(_) => self.spent_by_successor(&wanted.thread).unwrap_or(held),
        };
        self.children.ended(total);
        budgets.settle(id, &key, total, clock.now()?)?;
        ran
    }

    /// What the thread that continues `thread` spent; nothing where none began.
    ///
    /// # Errors
    /// When the registry or the budgets cannot be read.
    fn spent_by_successor(&self, thread: &ThreadId) -> Result<Nanos, Error> {
        let last = self.services.registry.resolve(thread)?;
        if last.id == *thread {
            return Ok(Nanos::ZERO);
        }
        let budget = self.services.budgets.get(&last.id)?;
        Ok(budget.map(|budget| budget.actual).unwrap_or_default())
    }

    /// Names the spending of a resumed thread. A worker that takes the owner over resumes it again.
    fn key_of_resumption(&self, thread: &ThreadId) -> String {
        let (_, begun) = self.children.spent();
        let key = format!("child {} resumes {thread}", begun + 1);
        match self.services.host.heads.fence() {
            Some(token) => format!("{key} under {token}"),
            None => key,
        }
    }

    fn begin(&self, input: &Value, cancel: &Cancel) -> Result<Box<dyn BegunThread>, Error> {
        let (id, inherited) = self.owner()?;
        let order = order(input, cancel)?;
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.children.may_begin(&inherited.limits)?;
        let mut record = self.writer.clone();
        let ledger = record.ledger()?;
        let parent = ParentThread {
            id,
            inherited,
            record: &mut record,
            ledger,
        };
        let begun = self.starter.begin_child(&self.services, &order, parent)?;
        self.children.begun();
        Ok(begun)
    }
}

/// The facts about a child's end for its parent.
pub(super) fn told(services: &Services, ran: &Ran) -> Value {
    let mut said = ran.to_json();
    if recover::is_unknown(services, ran) {
        said["unknown"] = true.into();
    }
    said
}

/// The result of a child that began, and whose end is unknown.
pub(super) fn lost(child: Option<&ThreadId>, why: &Error) -> Value {
    let mut said =
        json!({"success": false, "status": "error", "error": why.to_string(), "unknown": true});
    if let Some(child) = child {
        said["thread_id"] = child.as_str().into();
    }
    said
}

fn take(child: &Mutex<Option<Box<dyn BegunThread>>>) -> Option<Box<dyn BegunThread>> {
    child.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Counts and records the end of a child that ran in parallel with its parent. A child whose record
/// broke has no end to record: it is to be recovered.
fn settle(cost: Nanos, ran: Result<Ran, Error>, children: &Children, writer: &WriteHandle) {
    children.ended(cost);
    let Ok(ran) = ran else { return };
    writer.leave(move |journal| {
        // A record that cannot be written fails its thread at the next line.
        let _ = journal.child_ended(&ran.thread, ran.status.as_str(), &ran.head);
    });
}

/// The thread that `{directive_id | directive_name, inputs?, limit_overrides?}` asks for.
///
/// # Errors
/// Kind `InvalidInput` when it is none.
pub(super) fn order(input: &Value, cancel: &Cancel) -> Result<Order, Error> {
    // Two names for one thing, as Rye's directives use them.
    let directive = ["directive_id", "directive_name"]
        .iter()
        .find_map(|name| input[*name].as_str());
    let directive = directive.ok_or_else(|| Error::invalid("directive_id must be a text"))?;
    let object = |name: &str| match &input[name] {
        Value::Null => Ok(Map::new()),
        Value::Object(members) => Ok(members.clone()),
        _ => Err(Error::invalid(format!("{name} must be an object"))),
    };
    Ok(Order {
        directive: ItemId::parse(directive)?,
        inputs: object("inputs")?,
        limits: Limits::from_json(&Value::Object(object("limit_overrides")?))?,
        cancel: cancel.clone(),
    })
}

#[cfg(test)]
mod tests;
