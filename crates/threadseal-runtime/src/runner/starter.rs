//! [`ThreadStarter`]: how the tools of a thread start and continue other threads.
//!
//! Tools are part of a thread and start threads. The engine gives them this trait, so that a thread
//! and its tools need not know how the engine runs a thread.

use super::children::Children;
use super::order::{GraphOrder, Order, Ran, ResumeMode, Resumption};
use super::parent::{Inherited, ParentThread};
use super::services::Services;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

pub(super) trait ThreadStarter: Send + Sync {
    /// Runs a thread that only the caller started.
    ///
    /// # Errors
    /// As `Engine::run`.
    fn run(&self, services: &Services, order: &Order) -> Result<Ran, Error>;

    /// Begins a thread as the child of `parent`.
    ///
    /// # Errors
    /// As `Engine::run`.
    fn begin_child(
        &self,
        services: &Services,
        order: &Order,
        parent: ParentThread<'_>,
    ) -> Result<Box<dyn BegunThread>, Error>;

    /// Runs a graph as the child of `parent`, whose `thread.json` must match the parent's own
    /// values, `own`; `family` counts it.
    ///
    /// # Errors
    /// As `Engine::run_graph`.
    fn run_child_graph(
        &self,
        services: &Services,
        order: &GraphOrder,
        parent: ParentThread<'_>,
        own: &Inherited,
        family: &Children,
    ) -> Result<Ran, Error>;

    /// Continues a thread that ended.
    ///
    /// # Errors
    /// As `Engine::resume`.
    fn resume(
        &self,
        services: &Services,
        wanted: &Resumption,
        way: ResumeMode,
    ) -> Result<Ran, Error>;
}

/// The one implementation, which has no state.
pub(super) type Starter = &'static dyn ThreadStarter;

/// A thread that has begun, and whose model was asked nothing yet.
pub(super) trait BegunThread: Send {
    fn id(&self) -> &ThreadId;

    /// Runs it to its end; if it hands itself over, to the end of the last one.
    ///
    /// # Errors
    /// As `Engine::run`.
    fn run(self: Box<Self>) -> Result<Ran, Error>;

    /// Ends it at once.
    ///
    /// # Errors
    /// As `Engine::run`.
    fn fail(self: Box<Self>, why: &str) -> Result<Ran, Error>;
}
