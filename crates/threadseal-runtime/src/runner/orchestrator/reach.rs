//! [`Reach`]: which threads a thread may touch.
//!
//! Its own tree: the thread, its predecessors, and all threads that any of these started, at any
//! depth. That is read from line 1 of each record, under its seals. A registry can be edited to
//! show a stranger as a child. Threads of others need the capability
//! `rye.execute.tool.rye.agent.all-threads.<operation>`, which `rye.agent.threads.*` does not
//! include.

use super::records::{Need, Records};
use crate::bounds::MAX_BUDGET_DEPTH;
use crate::capability::{Call, Capabilities};
use std::sync::OnceLock;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};

/// The item id for other threads, as capabilities name it.
const ALL_THREADS: &str = "rye/agent/all-threads";

/// Which threads may be touched.
pub(super) enum Reach {
    /// All: the caller is a person or a person's program.
    All,
    /// Those of a thread's own tree, and others where its capabilities permit it.
    Own(Box<Own>),
}

pub(super) struct Own {
    thread: ThreadId,
    capabilities: Capabilities,
    chain: OnceLock<Vec<RecordId>>,
}

impl Reach {
    /// The reach of a thread with these capabilities.
    pub(super) fn of(thread: ThreadId, capabilities: Capabilities) -> Self {
        Self::Own(Box::new(Own {
            thread,
            capabilities,
            chain: OnceLock::new(),
        }))
    }

    pub(super) fn thread(&self) -> Option<&ThreadId> {
        match self {
            Self::All => None,
            Self::Own(own) => Some(&own.thread),
        }
    }

    /// May `id` be touched by `operation`?
    ///
    /// # Errors
    /// Kind `Refused` when it may not, or its record does not verify.
    pub(super) fn check(
        &self,
        records: &Records,
        id: &ThreadId,
        operation: &str,
    ) -> Result<(), Error> {
        let Self::Own(own) = self else {
            return Ok(());
        };
        let item = format!("{ALL_THREADS}/{operation}");
        let others = Call::new("execute", "tool", Some(&item))?;
        if own.thread == *id || own.capabilities.permits(&others) {
            return Ok(());
        }
        let chain = match own.chain.get() {
            Some(chain) => chain,
            None => {
                let read = records.own_chain(&own.thread)?;
                own.chain.get_or_init(|| read)
            }
        };
        let stranger = || {
            Error::refused(format!(
                "{id} is no thread of this one's tree; others need the capability {others}"
            ))
        };
        let mut id = id.clone();
        let mut named = None;
        for _ in 0..MAX_BUDGET_DEPTH {
            let manifest = records.past(&id, Need::Sealed)?.manifest;
            if named.is_some_and(|named| named != manifest.record) {
                return Err(stranger());
            }
            if chain.contains(&manifest.record) {
                return Ok(());
            }
            let parent = manifest.parent.ok_or_else(stranger)?;
            if chain.contains(&parent.record) {
                return Ok(());
            }
            named = Some(parent.record);
            let above = records.row(&id)?.parent.ok_or_else(stranger)?;
            id = ThreadId::parse(&above)?;
        }
        Err(stranger())
    }
}
