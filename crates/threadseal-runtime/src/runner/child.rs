//! `rye/agent/threads/thread_directive`: a thread starts another one and waits for it.
//!
//! ```text
//! {directive_id | directive_name, inputs?, limit_overrides?}
//!    ─► {success, thread_id, status, result, outputs?, cost, head}
//! ```
//! The child has at most its parent's limits and capabilities. Both records name each other: the parent's sealed
//! event names the child's record, the child's first line names that seal, the parent's next seal the child's end.

use super::engine::{Engine, Order};
use super::prepare::Inherited;
use super::thread::{Children, ParentThread};
use crate::item::ItemId;
use crate::limit::{Cost, Limits, When};
use crate::model::ToolSchema;
use crate::toolbox::{Invocation, Outcome, Tool, model_name};
use serde_json::{Map, Value, json};
use std::sync::{Mutex, OnceLock, PoisonError};
use threadseal::error::Error;
use threadseal::record::ThreadId;

/// The tool of one thread.
pub(super) struct ChildTool {
    engine: Engine,
    schema: ToolSchema,
    children: Children,
    owner: OnceLock<(ThreadId, Inherited)>,
    /// Children begin one after the other.
    turn: Mutex<()>,
}

impl ChildTool {
    /// Its id, the original's.
    const ID: &'static str = "rye/agent/threads/thread_directive";

    pub(super) fn new(engine: Engine, children: Children) -> Self {
        let schema = ToolSchema {
            name: model_name(Self::ID),
            description:
                "Runs a directive in a thread of its own, waits for it, and gives its result."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "directive_id": {"type": "string"},
                    "inputs": {"type": "object"},
                    "limit_overrides": {"type": "object"},
                },
                "required": ["directive_id"],
            }),
        };
        Self {
            engine,
            schema,
            children,
            owner: OnceLock::new(),
            turn: Mutex::new(()),
        }
    }

    /// Says whose tool it is, before the first call.
    pub(super) fn belongs_to(&self, thread: &ThreadId, inherited: Inherited) {
        let _ = self.owner.set((thread.clone(), inherited));
    }

    fn start(&self, call: &mut Invocation<'_>) -> Result<Value, Error> {
        let (id, inherited) = self
            .owner
            .get()
            .ok_or_else(|| Error::refused("the thread has not begun"))?;
        let order = order(call)?;
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, spawns) = *self.children.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = Cost {
            spawns,
            ..Cost::default()
        };
        if let Some(hit) = inherited.limits.check(When::BeforeChild, &cost) {
            return Err(Error::refused(format!(
                "{}: {} of {}",
                hit.code, hit.current, hit.max
            )));
        }
        let ledger = call.record.ledger()?;
        let parent = ParentThread {
            id,
            inherited,
            record: call.record,
            ledger,
        };
        let ran = self.engine.run_under(&order, parent)?;
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.0 = children.0.saturating_add(ran.cost.spend);
        children.1 += 1;
        drop(children);
        call.record
            .child_ended(&ran.thread, ran.status.as_str(), &ran.head)?;
        Ok(ran.to_json())
    }
}

impl Tool for ChildTool {
    fn id(&self) -> &str {
        Self::ID
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        match self.start(call) {
            Ok(result) => Outcome::ok(result),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

fn order(call: &Invocation<'_>) -> Result<Order, Error> {
    let input = call.input;
    // Two names for one thing, as the original's directives use them.
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
        cancel: call.cancel.clone(),
    })
}
