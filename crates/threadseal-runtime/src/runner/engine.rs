//! [`Engine`]: runs, continues, stops and recovers the threads and graph runs of a project.

use super::children::Children;
use super::graph_run::{self, GraphRun, GraphStart, ShownGraph};
use super::handoff;
use super::lifecycle::{Origin, Prepared};
use super::orchestrator::Operation;
use super::order::{Fixed, GraphOrder, GraphResumption, Order, Ran, ResumeMode, Resumption};
use super::orphans::{self, Found, Healed, Scope};
use super::parent::{Inherited, ParentThread};
use super::recover::{self, Recovered};
use super::resume::{self, Resumable};
use super::resume_orphans::{self, ResumedOrphan};
use super::rye_thread::{self, Adoptable, Adoption};
use super::services::Services;
use super::starter::{BegunThread, Starter, ThreadStarter};
use super::stop::{self, Killed};
use super::takeover;
use super::thread::{Thread, ThreadRun, ThreadStart};
use crate::cancel::Cancel;
use crate::directive::Directive;
use crate::graph::Graph;
use crate::item::{ItemId, ItemKind};
use crate::limit::Limits;
use crate::signed_file::Put;
use crate::status::Status;
use serde_json::{Map, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// Runs the threads of a project. All clones are one.
#[derive(Clone)]
pub struct Engine {
    /// All that its threads work with.
    pub services: Services,
}

pub(super) const STARTER: Starter = &Threads;

impl Engine {
    /// An engine over `services`.
    pub fn new(services: Services) -> Self {
        Self { services }
    }

    /// Runs a thread that only the caller started.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` before anything was written; `External` when the record
    /// could not be written to its end.
    pub fn run(&self, order: &Order) -> Result<Ran, Error> {
        STARTER.run(&self.services, order)
    }

    /// Refuses a result where the record of a thread below `ran` is missing, or was changed since it
    /// ended.
    ///
    /// # Errors
    /// Kind `Refused` with the verdict; errors of the disk.
    pub fn check_children(&self, ran: &Ran) -> Result<(), Error> {
        self.services.check_children(ran)
    }

    /// As [`Engine::run`], under an order of a database.
    ///
    /// # Errors
    /// As [`Engine::run`], and kind `Refused` when the directive is another file than the order
    /// names, or the order was carried out before.
    pub(crate) fn run_fixed(&self, order: &Order, fixed: &Fixed) -> Result<Ran, Error> {
        let mut prepared = Prepared::<ThreadRun>::new(&self.services, STARTER, order, None)?;
        fixed.bind(&mut prepared.plan)?;
        let start = ThreadStart::afresh(&prepared.plan);
        handoff::run(prepared.start(Origin::fixed(fixed), start)?)
    }

    /// As [`Engine::resume`] or [`Engine::handoff`], under an order of a database.
    ///
    /// # Errors
    /// As these, and as [`Engine::run_fixed`]; kind `Refused` when the record has another end than
    /// the order names.
    pub(crate) fn resume_fixed(
        &self,
        wanted: &Resumption,
        way: ResumeMode,
        fixed: &Fixed,
    ) -> Result<Ran, Error> {
        resume::resume(&self.services, STARTER, wanted, way, Some(fixed), 0)
    }

    /// As [`Engine::run_graph`], under an order of a database.
    ///
    /// # Errors
    /// As [`Engine::run_graph`] and [`Engine::run_fixed`].
    pub(crate) fn run_graph_fixed(&self, order: &GraphOrder, fixed: &Fixed) -> Result<Ran, Error> {
        let mut prepared = Prepared::<GraphRun>::new(&self.services, STARTER, order, None)?;
        fixed.bind(&mut prepared.plan)?;
        let origin = Origin::fixed(fixed);
        prepared.start(origin, GraphStart::default())?.run()
    }

    /// As [`Engine::resume_graph`], under an order of a database.
    ///
    /// # Errors
    /// As [`Engine::resume_graph`] and [`Engine::resume_fixed`].
    pub(crate) fn resume_graph_fixed(
        &self,
        wanted: &GraphResumption,
        fixed: &Fixed,
    ) -> Result<Ran, Error> {
        graph_run::resume::resume(&self.services, STARTER, wanted, Some(fixed), 0)
    }

    /// The file of a directive or a graph that may be used, and the limits that it has without an
    /// order's.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` when it may not be used.
    pub(crate) fn declared(&self, kind: ItemKind, id: &ItemId) -> Result<(Digest, Limits), Error> {
        let services = &self.services;
        let item = services.finder.load(kind, id, &services.grounds()?)?;
        let own = match kind {
            ItemKind::Graph => Graph::parse(item.path(), item.text())?.limits,
            _ => {
                let directive = Directive::parse(item.path(), item.text())?;
                directive.check_id(id)?;
                directive.limits
            }
        };
        let layers = [&services.config.resilience.limits, &own];
        Ok((item.sha256(), Limits::resolve(&layers, None)?))
    }

    /// Continues a thread that ended or was suspended, in a new one with the whole conversation.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has not ended, or when its record, a predecessor's, or its
    /// parent's is not verified: nothing is changed then. Otherwise as [`Engine::run`].
    pub fn resume(&self, wanted: &Resumption) -> Result<Ran, Error> {
        STARTER.resume(&self.services, wanted, ResumeMode::Resume)
    }

    /// As [`Engine::resume`], in a thread that gets only the end of the conversation, within
    /// `resume_ceiling_tokens`. It also gets a summary where one is configured.
    ///
    /// # Errors
    /// As [`Engine::resume`].
    pub fn handoff(&self, wanted: &Resumption) -> Result<Ran, Error> {
        STARTER.resume(&self.services, wanted, ResumeMode::HandOver)
    }

    /// Brings a finished thread of Rye in: as a thread of ours that has its conversation and its
    /// end.
    ///
    /// # Errors
    /// Kind `Refused` when it is no such thread, has not ended, or does not verify except for its
    /// end: nothing is changed then. Otherwise as [`Engine::run`].
    pub fn adopt(&self, wanted: &Adoption) -> Result<Ran, Error> {
        rye_thread::adopt(&self.services, STARTER, wanted, None)
    }

    /// As [`Engine::adopt`], under an order of a database.
    ///
    /// # Errors
    /// As [`Engine::adopt`] and [`Engine::resume_fixed`].
    pub(crate) fn adopt_fixed(&self, wanted: &Adoption, fixed: &Fixed) -> Result<Ran, Error> {
        rye_thread::adopt(&self.services, STARTER, wanted, Some(fixed))
    }

    /// Would [`Engine::adopt`] take this thread? Writes nothing.
    ///
    /// # Errors
    /// As [`Engine::adopt`].
    pub(crate) fn check_adoptable(&self, wanted: &Adoption) -> Result<Adoptable, Error> {
        rye_thread::check(&self.services, wanted)
    }

    /// Continues a thread that another worker left, under the lease of this engine's files. With
    /// `ends`, or where the thread cannot continue without help, ends it in its record.
    ///
    /// # Errors
    /// Kind `Refused` when its record or its files contradict that: [`Engine::recover`] ends it
    /// then, if that can be. Otherwise as [`Engine::run`].
    pub(crate) fn take_over(
        &self,
        id: &ThreadId,
        ends: bool,
        cancel: &Cancel,
    ) -> Result<Ran, Error> {
        takeover::take_over(&self.services, STARTER, id, ends, cancel)
    }

    /// Runs a graph that only the caller started.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` before anything was written; `External` when the record
    /// could not be written to its end.
    pub fn run_graph(&self, order: &GraphOrder) -> Result<Ran, Error> {
        let prepared = Prepared::<GraphRun>::new(&self.services, STARTER, order, None)?;
        prepared
            .start(Origin::default(), GraphStart::default())?
            .run()
    }

    /// Continues a run that failed, was stopped or suspended, or whose process died.
    ///
    /// # Errors
    /// Kind `Refused` when a part of it does not verify or contradicts its record, or when the
    /// graph's file changed. Also when calls are unresolved without a decision. Nothing is changed
    /// then. Otherwise as [`Engine::run_graph`].
    pub fn resume_graph(&self, wanted: &GraphResumption) -> Result<Ran, Error> {
        graph_run::resume::resume(&self.services, STARTER, wanted, None, 0)
    }

    /// Continues a run of which a worker was lost, with what is left of its limits.
    ///
    /// # Errors
    /// As [`Engine::resume_graph`].
    pub(crate) fn continue_graph(&self, run: &ThreadId, cancel: &Cancel) -> Result<Ran, Error> {
        graph_run::resume::go_on(&self.services, STARTER, run, cancel, 0)
    }

    /// Would [`Engine::resume_graph`] continue, and from where? Takes no lock and writes nothing.
    ///
    /// # Errors
    /// As [`Engine::resume_graph`].
    pub(crate) fn check_resumable_graph(
        &self,
        wanted: &GraphResumption,
    ) -> Result<Resumable, Error> {
        graph_run::resume::check(&self.services, STARTER, wanted)
    }

    /// A run as its record has it, whether it stopped or not.
    ///
    /// # Errors
    /// Kind `Refused` when its transcript or its step ledger does not verify.
    pub fn show_graph(&self, id: &ThreadId) -> Result<ShownGraph, Error> {
        graph_run::stopped_run::show(&self.services, id)
    }

    /// The inputs of a graph, from typed-in texts: the declared types decide their values.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` when the graph may not be used.
    pub fn graph_inputs(
        &self,
        graph: &ItemId,
        typed: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Error> {
        graph_run::typed_inputs(&self.services, graph, typed)
    }

    /// Ends a thread that is marked as running without a process; repairs the end of one that has
    /// ended.
    ///
    /// # Errors
    /// Kind `Refused` when there is nothing to recover, it is another project's, or its record or
    /// its ledger contradicts itself; `External` when a process still writes it.
    pub fn recover(&self, id: &ThreadId) -> Result<Recovered, Error> {
        recover::recover(&self.services, id, Status::Error, recover::CAUSE)
    }

    /// Ends the threads that are marked as running and whose process is gone, children before their
    /// parents. One whose record does not verify keeps it; its row and its budget get an end.
    ///
    /// # Errors
    /// When registry or budgets cannot be read or written.
    pub fn heal(&self, scope: Scope<'_>) -> Result<Vec<Healed>, Error> {
        orphans::heal(&self.services, scope)
    }

    /// Looks for such threads as the settings ask (`orphan_detection`), before other work begins.
    ///
    /// # Errors
    /// As [`Engine::heal`].
    pub fn look_for_orphans(&self) -> Result<Found, Error> {
        orphans::scan(&self.services)
    }

    /// Continues those of `ended`, threads whose process was gone, that no other thread began, where
    /// the settings ask for that (`orphan_detection.action`); one after the other, to their ends.
    pub fn resume_orphans<'a>(
        &self,
        ended: impl IntoIterator<Item = &'a ThreadId>,
        cancel: &Cancel,
    ) -> Vec<ResumedOrphan> {
        resume_orphans::resume_all(&self.services, STARTER, ended, cancel)
    }

    /// Would [`Engine::cancel_suspended`] end it? Writes nothing.
    pub(crate) fn check_suspended(&self, id: &ThreadId) -> Result<(), Error> {
        stop::check_suspended(&self.services, id)
    }

    /// Ends a thread that waits for a person's decision, as `cancelled`.
    pub(crate) fn cancel_suspended(&self, id: &ThreadId) -> Result<(), Error> {
        stop::cancel_suspended(&self.services, id)
    }

    /// Gives row and budget of a thread an end, whose record does not verify and gets none.
    pub(crate) fn give_up(&self, id: &ThreadId, why: &Error) -> Result<(), Error> {
        orphans::give_up(&self.services, id, why)
    }

    /// As [`Engine::recover`]; a thread without an end of its own gets the status `killed`.
    pub(crate) fn recover_killed(&self, id: &ThreadId) -> Result<Recovered, Error> {
        recover::recover(&self.services, id, Status::Killed, stop::KILLED)
    }

    /// Would [`Engine::recover`] find something to do, in a record whose seals hold? Takes no lock
    /// and writes nothing.
    ///
    /// # Errors
    /// As [`Engine::recover`].
    pub(crate) fn check_recoverable(&self, id: &ThreadId) -> Result<(), Error> {
        recover::check(&self.services, id)
    }

    /// Asks the process that runs a thread to end it: also another process.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has ended, or the file in the place of the request is none.
    pub fn request_cancel(&self, id: &ThreadId) -> Result<(), Error> {
        stop::request_cancel(&self.services, id)
    }

    /// Leaves the request in the folder of a running thread; `put` writes it there.
    ///
    /// # Errors
    /// As [`Engine::request_cancel`].
    pub(crate) fn leave_request(&self, id: &ThreadId, put: &Put<'_>) -> Result<(), Error> {
        stop::leave_request(&self.services, id, put)
    }

    /// The end of a thread, by a record that verifies; None where that contains no end.
    pub(crate) fn ended(&self, id: &ThreadId) -> Option<Status> {
        stop::ended(&self.services, id)
    }

    /// Ends a thread's process, with all threads that it runs.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has ended, or when the writer of its record is not the
    /// process that the registry names. Nothing is signalled then. `External` when the process
    /// cannot be ended.
    pub fn kill(&self, id: &ThreadId) -> Result<Killed, Error> {
        stop::kill(&self.services, id)
    }

    /// Executes an operation, for people and their programs: all threads of the project may be
    /// touched.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn execute(&self, operation: &Operation, cancel: &Cancel) -> Result<Value, Error> {
        operation.execute(&self.services, STARTER, cancel)
    }
}

/// Starts threads for the engine and for the tools of threads.
struct Threads;

impl ThreadStarter for Threads {
    fn run(&self, services: &Services, order: &Order) -> Result<Ran, Error> {
        let prepared = Prepared::<ThreadRun>::new(services, STARTER, order, None)?;
        let start = ThreadStart::afresh(&prepared.plan);
        handoff::run(prepared.start(Origin::default(), start)?)
    }

    fn begin_child(
        &self,
        services: &Services,
        order: &Order,
        parent: ParentThread<'_>,
    ) -> Result<Box<dyn BegunThread>, Error> {
        let services = services.for_child(order.directive.as_str(), &order.inputs);
        let inherited = Some(parent.inherited);
        let prepared = Prepared::<ThreadRun>::new(&services, STARTER, order, inherited)?;
        let start = ThreadStart::afresh(&prepared.plan);
        Ok(Box::new(prepared.start(Origin::under(parent), start)?))
    }

    fn run_child_graph(
        &self,
        services: &Services,
        order: &GraphOrder,
        parent: ParentThread<'_>,
        own: &Inherited,
        family: &Children,
    ) -> Result<Ran, Error> {
        graph_run::trusts_parent(services, &parent, own)?;
        let services = services.for_child(order.graph.as_str(), &order.inputs);
        let inherited = Some(parent.inherited);
        let prepared = Prepared::<GraphRun>::new(&services, STARTER, order, inherited)?;
        let run = prepared.start(Origin::under(parent), GraphStart::default())?;
        family.begun();
        run.run()
    }

    fn resume(
        &self,
        services: &Services,
        wanted: &Resumption,
        way: ResumeMode,
    ) -> Result<Ran, Error> {
        resume::resume(services, STARTER, wanted, way, None, 0)
    }
}

impl BegunThread for Thread {
    fn id(&self) -> &ThreadId {
        &self.run.id
    }

    fn run(self: Box<Self>) -> Result<Ran, Error> {
        handoff::run(*self)
    }

    fn fail(mut self: Box<Self>, why: &str) -> Result<Ran, Error> {
        self.finish(super::cycle::End::Failed(why.to_owned()))
    }
}
