//! One thread: its files, from the first to the final seal.
//!
//! ```text
//! registry `created` ─► folder ─► capabilities.md ─► line 1, seal 0 ─► thread.json
//!        ─► registry `running` ─► loop ─► terminal event, final seal
//!        ─► thread.json ─► registry: the end
//! ```
//! The record is the truth: thread.json and the registry follow it. A thread whose record cannot be
//! written ends at once, at its last recorded event.
//!
//! | module | owns |
//! |---|---|
//! | this | the start of a thread; running one, to the end of its last successor |
//! | `start` | its files, up to where it runs |
//! | `running` | the thread that runs |
//! | `finish` | its end, and the files and rows derived from its record |

mod finish;
mod running;
mod start;

pub(super) use finish::no_room;
pub(super) use running::ThreadRun;
pub(super) use start::{FOLDER_MODE, in_line_1};

use super::child_spawner::{ChildSpawner, ChildTool};
use super::children::Children;
use super::cycle::End;
use super::engine::{Engine, Order, Ran};
use super::graph_run::GraphTools;
use super::handoff::HandedOver;
use super::orchestrator::OrchestratorTool;
use super::prepare::{Inherited, Plan};
use super::record_writer::RecordWriter;
use super::succession::Predecessor;
use super::summary::{Preferring, SummaryTool};
use crate::context::Fill;
use crate::limit::Cost;
use crate::model::ChatMessage;
use crate::toolbox::{Cancel, Parentage, Tool};
use running::Beside;
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::ledger::Parent;

pub(super) struct ParentThread<'a> {
    pub(super) id: &'a ThreadId,
    pub(super) inherited: &'a Inherited,
    pub(super) record: &'a mut dyn Parentage,
    pub(super) ledger: Parent,
}

#[derive(Default)]
pub(super) struct Start<'p> {
    /// The conversation; its last message is the first question to the model.
    pub(super) messages: Vec<ChatMessage>,
    /// How many of them come from the predecessor.
    pub(super) inherited: usize,
    pub(super) parent: Option<ParentThread<'p>>,
    pub(super) predecessor: Option<Box<dyn Predecessor + 'p>>,
    /// The first events of its record.
    pub(super) notes: Vec<(&'static str, Value)>,
    /// The use of the threads that handed themselves over to it, where limits count them.
    pub(super) carried: Cost,
    /// Did a thread hand itself over to it?
    pub(super) handed: bool,
}

impl<'p> Start<'p> {
    /// A thread that begins with its directive's prompt.
    fn afresh(plan: &Plan, parent: Option<ParentThread<'p>>) -> Self {
        Self {
            messages: vec![ChatMessage::User(plan.prompt.clone())],
            parent,
            ..Self::default()
        }
    }
}

impl Engine {
    /// Runs a thread that only the caller started.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` before anything was written; `External` when the record
    /// could not be written to its end.
    pub fn run(&self, order: &Order) -> Result<Ran, Error> {
        self.run_with(order, None, |plan| Ok(Start::afresh(plan, None)))
    }

    /// Begins the child of `parent`.
    pub(super) fn begin_under(
        &self,
        order: &Order,
        parent: ParentThread<'_>,
    ) -> Result<Begun, Error> {
        let inherited = parent.inherited;
        let own = self.for_child(order.directive.as_str(), &order.inputs);
        own.begin_with(order, Some(inherited), |plan| {
            Ok(Start::afresh(plan, Some(parent)))
        })
    }

    /// The engine of a child: the same, with the models of a child where these differ.
    pub(super) fn for_child(&self, directive: &str, inputs: &Map<String, Value>) -> Self {
        let mut engine = self.clone();
        if let Some(models) = self.models.of_child(directive, inputs) {
            engine.models = models;
        }
        engine
    }

    /// Checks `order` under a parent's inheritance, lets `start` choose the start of the thread,
    /// and runs it. If it hands itself over, its successors run too.
    pub(super) fn run_with<'p>(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        start: impl FnOnce(&mut Plan) -> Result<Start<'p>, Error>,
    ) -> Result<Ran, Error> {
        self.begin_with(order, inherited, start)?.run()
    }

    /// As [`Engine::run_with`], up to where the model is first asked.
    pub(super) fn begin_with<'p>(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        start: impl FnOnce(&mut Plan) -> Result<Start<'p>, Error>,
    ) -> Result<Begun, Error> {
        self.begin_by(order, inherited, |mut plan| {
            let start = start(&mut plan)?;
            self.begin(plan, start)
        })
    }

    /// Checks `order`, has `make` create a thread from it, and adds the helpers that it needs.
    pub(super) fn begin_by(
        &self,
        order: &Order,
        inherited: Option<&Inherited>,
        make: impl FnOnce(Plan) -> Result<ThreadRun, Error>,
    ) -> Result<Begun, Error> {
        let cancel = order.cancel.below();
        let (writer, children) = (RecordWriter::new(), Arc::new(Children::of(&cancel)));
        let spawner = ChildSpawner::new(self.clone(), Arc::clone(&children), writer.handle());
        let spawner = Arc::new(spawner);
        let child_tool: Arc<dyn Tool> = Arc::new(ChildTool::new(Arc::clone(&spawner)));
        let helpers = ChildSpawner::new(self.summarising(), Arc::clone(&children), writer.handle());
        let helpers = Arc::new(helpers);
        let summary = Arc::new(SummaryTool::new(self.clone(), Arc::clone(&helpers)));
        let orchestrator = OrchestratorTool::new(Arc::clone(&spawner));
        let more: Vec<Arc<dyn Tool>> = vec![
            Arc::clone(&child_tool),
            Arc::clone(&summary) as _,
            Arc::new(orchestrator),
        ];
        let graphs = Arc::new(GraphTools::new(self.clone(), Arc::clone(&children)));
        let mut plan = self.prepare(order, inherited, more, &graphs)?;
        plan.tools.children(&child_tool);
        let thread = make(plan)?;
        for spawner in [spawner, helpers] {
            spawner.belongs_to(&thread.id, thread.inheritance());
        }
        graphs.belongs_to(&thread.id, thread.plan.inheritance(), thread.inheritance());
        summary.belongs_to(&thread.id, thread.plan.tools.capabilities().clone());
        Ok(Begun {
            thread,
            child_tool,
            cancel,
            children,
            writer,
            inherited: inherited.cloned(),
        })
    }

    /// The same, with the models that the settings name for summaries.
    pub(super) fn summarising(&self) -> Self {
        let mut engine = self.clone();
        if let Some(name) = &self.config.coordination.summary_model {
            engine.models = Arc::new(Preferring {
                inner: Arc::clone(&self.models),
                name: name.clone(),
            });
        }
        engine
    }
}

/// A thread that has begun, and of which the model was asked nothing yet.
pub(super) struct Begun {
    pub(super) thread: ThreadRun,
    /// The tool by which it starts others.
    pub(super) child_tool: Arc<dyn Tool>,
    pub(super) cancel: Cancel,
    pub(super) children: Arc<Children>,
    pub(super) writer: RecordWriter,
    /// Its inheritance from its parent, which its successor inherits too.
    pub(super) inherited: Option<Inherited>,
}

enum Went {
    /// The thread has ended or is suspended.
    Ended(Box<Ran>),
    /// The model's window is full: another thread shall continue.
    Full(Fill),
}

impl Begun {
    pub(super) fn id(&self) -> &ThreadId {
        &self.thread.id
    }

    /// Runs it to its end; if it hands itself over, to the end of the last one.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn run(self) -> Result<Ran, Error> {
        let mut begun = self;
        loop {
            let fill = match begun.run_alone()? {
                Went::Ended(ran) => return Ok(*ran),
                Went::Full(fill) => fill,
            };
            match begun.hand_over(fill)? {
                HandedOver::To(next) => begun = *next,
                HandedOver::Refused(ran) => return Ok(*ran),
            }
        }
    }

    fn run_alone(&mut self) -> Result<Went, Error> {
        let (engine, writer) = (&self.thread.engine, self.writer.handle());
        let attendant = engine.attend(&self.thread.id, &self.cancel, writer);
        let beside = Beside {
            cancel: &self.cancel,
            children: &self.children,
            writer: &self.writer,
            child_tool: &self.child_tool,
        };
        let went = self.thread.run(&beside);
        drop(attendant);
        went
    }

    /// Ends it at once with `finish`.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn end(mut self, end: End) -> Result<Ran, Error> {
        self.thread.finish(end, Cost::default())
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub(super) fn fail(mut self, why: &str) -> Result<Ran, Error> {
        let end = End::Failed(why.to_owned());
        self.thread.finish(end, Cost::default())
    }
}
