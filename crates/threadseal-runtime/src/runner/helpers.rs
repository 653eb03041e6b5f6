//! [`Helpers`]: the values beside a thread or a graph run that its tools share with it.

use super::child_spawner::{ChildSpawner, ChildTool};
use super::children::Children;
use super::graph_tools::GraphTools;
use super::parent::Inherited;
use super::record_writer::RecordWriter;
use super::services::Services;
use super::starter::Starter;
use crate::toolbox::{Cancel, Tool};
use std::sync::Arc;
use threadseal_core::record::ThreadId;

pub(super) struct Helpers {
    pub(super) cancel: Cancel,
    pub(super) writer: RecordWriter,
    pub(super) children: Arc<Children>,
    pub(super) spawner: Arc<ChildSpawner>,
    /// The tool that starts threads.
    pub(super) child_tool: Arc<dyn Tool>,
    pub(super) graphs: Arc<GraphTools>,
    pub(super) starter: Starter,
}

impl Helpers {
    /// The helpers of a thread that `cancel` stops.
    pub(super) fn new(services: &Services, starter: Starter, cancel: &Cancel) -> Self {
        let cancel = cancel.below();
        let writer = RecordWriter::new();
        let most = services.config.resilience.max_concurrent_children;
        let children = Arc::new(Children::of(&cancel, most));
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
            cancel,
            writer,
            children,
            spawner,
            starter,
        }
    }

    /// Sets the thread that owns them, before the first call. Its children inherit `left` of its
    /// `own`.
    pub(super) fn belongs_to(&self, thread: &ThreadId, own: Inherited, left: Inherited) {
        self.spawner.belongs_to(thread, left.clone());
        self.graphs.belongs_to(thread, own, left);
    }
}
