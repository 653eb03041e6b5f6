//! Models, tools and watchers that stand in for others.

use crate::directive::ModelChoice;
use crate::model::{
    Answer, ChatMessage, Chosen, Model, ModelError, Models, Request, ScriptModel, ToolCall,
    ToolSchema,
};
use crate::runner::{Progress, Watch};
use crate::toolbox::{Cancel, Invocation, Outcome, Parentage, Tool, model_name};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// All requests to a model: system prompts, messages.
pub(crate) type Asked = Arc<Mutex<Vec<(String, Vec<ChatMessage>)>>>;

/// A script that keeps its requests.
pub(crate) struct Listener {
    pub(crate) script: ScriptModel,
    pub(crate) asked: Asked,
}

impl Model for Listener {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let system = request.system.unwrap_or_default().to_owned();
        let asked = (system, request.messages.to_vec());
        self.asked.lock().unwrap().push(asked);
        self.script.ask(request, on_text)
    }
}

/// A script whose model does something before each answer.
pub(crate) struct Acting {
    pub(crate) script: ScriptModel,
    pub(crate) does: Box<dyn Fn() + Send + Sync>,
}

impl Model for Acting {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        (self.does)();
        self.script.ask(request, on_text)
    }
}

/// Asks a model to answer these messages.
pub(crate) fn ask(model: &dyn Model, messages: &[ChatMessage]) -> Result<Answer, ModelError> {
    let request = Request {
        system: None,
        messages,
        tools: &[],
        max_output_tokens: 100,
        cancel: &Cancel::default(),
    };
    model.ask(&request, &mut |_| {})
}

pub(crate) fn user(text: impl Into<String>) -> ChatMessage {
    ChatMessage::User(text.into())
}

pub(crate) fn assistant(text: &str, calls: Vec<ToolCall>) -> ChatMessage {
    ChatMessage::Assistant {
        text: text.to_owned(),
        calls,
    }
}

pub(crate) fn tool_call(id: &str, name: &str, input: Value) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        input,
        signatures: Vec::new(),
    }
}

pub(crate) fn tool_result(call: &str, tool: &str, content: impl Into<String>) -> ChatMessage {
    ChatMessage::ToolResult {
        call_id: call.to_owned(),
        tool: tool.to_owned(),
        content: content.into(),
    }
}

/// One model for everything.
pub(crate) struct Only(pub(crate) Chosen);

impl Models for Only {
    fn choose(&self, _: &ModelChoice) -> Result<Chosen, Error> {
        Ok(self.0.clone())
    }
}

/// A watch that ignores everything.
pub(crate) struct Ignore;

impl Watch for Ignore {
    fn progress(&self, _: &ThreadId, _: Progress<'_>) {}
}

/// A watch that keeps all notices, each after its thread.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    /// The notices so far.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Watch for Heard {
    fn progress(&self, thread: &ThreadId, progress: Progress<'_>) {
        if let Progress::Notice(notice) = progress {
            self.0.lock().unwrap().push(format!("{thread}: {notice}"));
        }
    }
}

/// The record of a thread that has no children.
pub(crate) struct NoChildren;

impl Parentage for NoChildren {
    fn child_begins(&mut self, child: &ThreadId, _: &RecordId, _: &str) -> Result<Head, Error> {
        panic!("{child} was to begin")
    }

    fn child_ended(&mut self, child: &ThreadId, _: &str, _: &Head) -> Result<(), Error> {
        panic!("{child} ended")
    }

    fn server_restarted(&mut self, _: &str, _: usize, _: &str) -> Result<(), Error> {
        Ok(())
    }

    fn ledger(&self) -> Result<Parent, Error> {
        panic!("a child was to begin")
    }
}

struct Stub<F> {
    id: String,
    schema: ToolSchema,
    does: F,
}

impl<F: Fn(&mut Invocation<'_>) -> Outcome + Send + Sync> Tool for Stub<F> {
    fn id(&self) -> &str {
        &self.id
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        (self.does)(call)
    }
}

/// The schema of a tool that takes anything.
pub(crate) fn schema(id: &str) -> ToolSchema {
    ToolSchema {
        name: model_name(id),
        description: String::new(),
        parameters: json!({"type": "object"}),
    }
}

/// A tool that does this with each call.
pub(crate) fn stub(
    id: &str,
    does: impl Fn(&mut Invocation<'_>) -> Outcome + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(Stub {
        id: id.to_owned(),
        schema: schema(id),
        does,
    })
}

/// A tool that does this with the input of each call.
pub(crate) fn tool(
    id: &str,
    does: impl Fn(&Value) -> Outcome + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    stub(id, move |call| does(call.input))
}

/// A tool that returns its input.
pub(crate) fn ok(id: &str) -> Arc<dyn Tool> {
    tool(id, |input| Outcome::ok(input.clone()))
}

/// A tool that fails.
pub(crate) fn failing(id: &str) -> Arc<dyn Tool> {
    tool(id, |_| Outcome::failed("not now"))
}

/// A tool that returns its input, and the number of its calls.
pub(crate) fn counted(id: &str) -> (Arc<dyn Tool>, Count) {
    let count = Count::default();
    let calls = count.clone();
    let tool = tool(id, move |input| {
        calls.add();
        Outcome::ok(input.clone())
    });
    (tool, count)
}

/// A number that threads share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Adds one; the number before.
    pub(crate) fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Calls a tool.
pub(crate) fn call(tool: &dyn Tool, input: impl Into<Value>) -> Outcome {
    tool.run(&mut Invocation {
        idempotency_key: "t/1/c",
        input: &input.into(),
        cancel: &Cancel::default(),
        record: &mut NoChildren,
    })
}

/// A reading tool whose calls may be at once; it keeps the keys of those that ran.
struct Noting {
    schema: ToolSchema,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Tool for Noting {
    fn id(&self) -> &'static str {
        "rye/file-system/read"
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn parallel(&self, _: &Value) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let key = call.idempotency_key.to_owned();
        self.ran.lock().unwrap().push(key);
        Outcome::ok("noted")
    }
}

/// A reading tool, and the keys of its calls that ran.
pub(crate) fn noting_tool() -> (Arc<dyn Tool>, Arc<Mutex<Vec<String>>>) {
    let ran = Arc::<Mutex<Vec<String>>>::default();
    let tool = Noting {
        schema: schema("rye/file-system/read"),
        ran: Arc::clone(&ran),
    };
    (Arc::new(tool), ran)
}
