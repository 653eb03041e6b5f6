//! `rye/agent/threads/orchestrator`: the operations on threads that a thread's model may run.
//!
//! The capability of the tool permits all operations, `…orchestrator.<operation>` one of them. Both
//! permit them for the thread's own tree; [`super::reach`] defines the rules for other threads.

use super::operation::{Doer, Operation};
use super::reach::Reach;
use crate::capability::{Call, Capabilities};
use crate::model::ToolSchema;
use crate::runner::child_spawner::ChildSpawner;
use crate::toolbox::{Invocation, Outcome, Tool, model_name};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use threadseal_core::error::Error;

pub(in crate::runner) struct OrchestratorTool {
    schema: ToolSchema,
    spawner: Arc<ChildSpawner>,
    reach: OnceLock<Reach>,
}

impl OrchestratorTool {
    /// Its id, as in Rye.
    const ID: &'static str = "rye/agent/threads/orchestrator";

    pub(in crate::runner) fn new(spawner: Arc<ChildSpawner>) -> Self {
        let text = json!({"type": "string"});
        let schema = ToolSchema {
            name: model_name(Self::ID),
            description:
                "Looks at threads that this one started, waits for them, stops and resumes them."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "operation": {"enum": Operation::words()},
                    "thread_id": text,
                    "thread_ids": {"type": "array", "items": text},
                    "timeout": {"type": "number"},
                    "query": text,
                    "search_type": {"enum": ["text", "regex"]},
                    "max_results": {"type": "integer"},
                    "tail_lines": {"type": "integer"},
                    "message": text,
                    "directive_id": text,
                    "inputs": {"type": "object"},
                    "limit_overrides": {"type": "object"},
                },
                "required": ["operation"],
            }),
        };
        Self {
            schema,
            spawner,
            reach: OnceLock::new(),
        }
    }

    fn execute(&self, call: &Invocation<'_>) -> Result<Value, Error> {
        let operation = Operation::parse(call.input)?;
        let (thread, inherited) = self.spawner.owner()?;
        let capabilities = &inherited.capabilities;
        if !permits(capabilities, Self::ID)
            && !permits(capabilities, &format!("{}/{}", Self::ID, operation.word()))
        {
            return Err(Error::refused(format!("no leave for {}", operation.word())));
        }
        let reach = self
            .reach
            .get_or_init(|| Reach::of(thread.clone(), capabilities.clone()));
        operation.execute_as(&Doer {
            services: self.spawner.services(),
            starter: self.spawner.starter(),
            reach,
            spawner: Some(&self.spawner),
            cancel: call.cancel,
        })
    }
}

impl Tool for OrchestratorTool {
    fn id(&self) -> &str {
        Self::ID
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn is_permitted(&self, capabilities: &Capabilities) -> bool {
        let one = |word: &&str| permits(capabilities, &format!("{}/{word}", Self::ID));
        permits(capabilities, Self::ID) || Operation::words().iter().any(one)
    }

    fn parallel(&self, input: &Value) -> bool {
        Operation::parse(input).is_ok_and(|operation| operation.is_parallel())
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        match self.execute(call) {
            Ok(result) => Outcome::of_child(result),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

fn permits(capabilities: &Capabilities, id: &str) -> bool {
    Call::new("execute", "tool", Some(id)).is_ok_and(|call| capabilities.permits(&call))
}
