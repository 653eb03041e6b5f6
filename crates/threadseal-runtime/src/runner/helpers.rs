//! [`Helpers`]: the values beside a thread or a graph run that its tools share with it.

use super::child_spawner::{ChildSpawner, ChildTool};
use super::children::Children;
use super::graph_tools::GraphTools;
use super::parent::Inherited;
use super::places::Places;
use super::record_writer::RecordWriter;
use super::services::Services;
use super::starter::Starter;
use crate::bounds::END_HOOK_TIME;
use crate::toolbox::{Cancel, Tool};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::record::ThreadId;
use threadseal_store::clock::Clock;

pub(super) struct Helpers {
    /// Stops the thread on request.
    pub(super) asked: Cancel,
    /// The same, and when its time is over: for all that it does.
    pub(super) cancel: Cancel,
    /// The same, and some time later: for the hooks of its end.
    pub(super) end: Cancel,
    pub(super) writer: RecordWriter,
    pub(super) children: Arc<Children>,
    pub(super) spawner: Arc<ChildSpawner>,
    /// The tool that starts threads.
    pub(super) child_tool: Arc<dyn Tool>,
    pub(super) graphs: Arc<GraphTools>,
    /// What it leaves outside of its record.
    pub(super) places: Arc<Places>,
    pub(super) starter: Starter,
}

impl Helpers {
    /// The helpers of a thread that `cancel` stops.
    pub(super) fn new(services: &Services, starter: Starter, cancel: &Cancel) -> Self {
        let asked = cancel.below();
        let (cancel, end) = (asked.below(), asked.below());
        let writer = RecordWriter::new(&services.watch);
        let places = Arc::new(Places::new(services.clone(), writer.handle()));
        let settings = &services.config.resilience;
        let children = Arc::new(Children::of(&cancel, settings, Arc::clone(&places)));
        let spawner = Arc::new(ChildSpawner::new(
            services.clone(),
            starter,
            Arc::clone(&children),
            writer.handle(),
        ));
        Self {
            child_tool: Arc::new(ChildTool::new(Arc::clone(&spawner))),
            graphs: Arc::new(GraphTools::new(
                services.clone(),
                starter,
                Arc::clone(&children),
            )),
            asked,
            cancel,
            end,
            writer,
            children,
            spawner,
            places,
            starter,
        }
    }

    /// The thread may take as long as `left` from now, and its end [`END_HOOK_TIME`] more.
    pub(super) fn may_take(&self, left: Option<Duration>, clock: &Arc<dyn Clock>) {
        if let Some(left) = left {
            self.cancel.set_after(clock, left);
            let end = left.saturating_add(END_HOOK_TIME);
            self.end.set_after(clock, end);
        }
    }

    /// Sets the thread that owns them, before the first call. Its children inherit `left` of its
    /// `own`.
    pub(super) fn belongs_to(&self, thread: &ThreadId, own: Inherited, left: Inherited) {
        self.spawner.belongs_to(thread, left.clone());
        self.graphs.belongs_to(thread, own, left);
    }
}
