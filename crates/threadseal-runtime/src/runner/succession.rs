//! The parts that a successor needs of its predecessor, and the order in which both are bound
//! together.
//!
//! ```text
//! successor's files, line 1 names the predecessor's last seal
//!   ─► predecessor's link names the successor's record, sealed
//!   ─► registry ─► budget ─► predecessor's thread.json
//! ```
//! The link is written once the successor exists. A failure before it leaves the predecessor
//! unchanged, and a successor that no link names is never resumed.

use super::derived_files::mark_continued;
use super::services::Services;
use crate::bounds::MAX_PREVIEW_CHARS;
use crate::registry::{Registry, Thread};
use crate::status::Status;
use crate::thread_meta::TrustedMeta;
use serde_json::{Value, json};
use std::path::PathBuf;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::Link;
use threadseal_formats::transcript::event::Payload;
use threadseal_formats::transcript::ext::Ext;
use threadseal_store::recorder::Recorder;

pub(super) trait Predecessor {
    fn id(&self) -> &ThreadId;

    /// Its seal that the successor's line 1 names.
    fn head(&self) -> Option<Head>;

    /// The parent's seal that its own line 1 names: its successor's parent, too.
    fn parent(&self) -> Option<Head>;

    /// The thread of that parent.
    fn parent_thread(&self) -> Option<&ThreadId>;

    /// Does its budget go to the successor? Else that gets one of its own.
    fn funds(&self) -> bool {
        false
    }

    /// Makes sure that the registry has it, before a successor is registered.
    ///
    /// # Errors
    /// When the registry fails.
    fn enroll(&self, _engine: &Services, _now: Timestamp) -> Result<(), Error> {
        Ok(())
    }

    /// Seals that `successor` continues this thread.
    ///
    /// # Errors
    /// When it cannot be sealed: the successor must not run then.
    fn link(&mut self, successor: &ThreadId, record: RecordId) -> Result<(), Error>;

    /// Lets everything else follow the link.
    ///
    /// # Errors
    /// When a database or a file cannot be written.
    fn settle(
        &mut self,
        services: &Services,
        successor: &ThreadId,
        now: Timestamp,
    ) -> Result<(), Error>;
}

/// A thread that had ended: its record is held from before it was verified until the link is
/// durable.
pub(super) struct Ended {
    pub(super) id: ThreadId,
    pub(super) recorder: Recorder,
    pub(super) meta: TrustedMeta,
    pub(super) path: PathBuf,
    pub(super) parent: Option<(ThreadId, Option<Head>)>,
    pub(super) link: Link,
    /// The further members of the link beside the successor's id.
    pub(super) members: Value,
    /// Is its budget given back, where it did not end yet?
    pub(super) releases_budget: bool,
}

impl Predecessor for Ended {
    fn id(&self) -> &ThreadId {
        &self.id
    }

    fn head(&self) -> Option<Head> {
        self.recorder.state().head().copied()
    }

    fn parent(&self) -> Option<Head> {
        self.parent.as_ref().and_then(|(_, head)| *head)
    }

    fn parent_thread(&self) -> Option<&ThreadId> {
        self.parent.as_ref().map(|(id, _)| id)
    }

    fn link(&mut self, successor: &ThreadId, record: RecordId) -> Result<(), Error> {
        self.recorder.adopt_tail()?;
        let (payload, ext) = link_to(successor, record, &self.members)?;
        self.recorder.link(self.link, &payload, ext).map(drop)
    }

    fn settle(
        &mut self,
        services: &Services,
        successor: &ThreadId,
        now: Timestamp,
    ) -> Result<(), Error> {
        services.registry.link(&self.id, successor, now)?;
        // A suspended predecessor has nothing set aside any more.
        let budget = services.budgets.get(&self.id)?;
        if self.releases_budget && budget.is_some_and(|budget| budget.status == "active") {
            services.budgets.release(&self.id, Status::Continued, now)?;
        }
        mark_continued(services, &self.id, &self.path, &self.meta, now)
    }
}

/// The payload and the seal's members of a link.
pub(super) fn link_to(
    successor: &ThreadId,
    record: RecordId,
    members: &Value,
) -> Result<(Payload, Ext), Error> {
    let mut event = json!({"new_thread_id": successor.as_str()});
    if let (Value::Object(event), Value::Object(members)) = (&mut event, members.clone()) {
        event.extend(members);
    }
    let ext = Ext {
        successor: Some(record),
        ..Ext::default()
    };
    Ok((Payload::parse(event.to_string().as_bytes())?, ext))
}

/// The beginning of a message, for a link.
pub(super) fn preview(message: &str) -> String {
    message.chars().take(MAX_PREVIEW_CHARS).collect()
}

/// The end of the chain of `id`, if it can be continued.
pub(super) fn resumable(registry: &dyn Registry, id: &ThreadId) -> Result<Thread, Error> {
    let last = registry.resolve(id)?;
    let status = last.standing()?;
    if status.is_resumable() {
        return Ok(last);
    }
    let why = match status {
        Status::Running | Status::Created => {
            "; hint: if its process is gone: threadseal thread recover"
        }
        _ => "",
    };
    Err(Error::new(
        ErrorKind::Refused,
        format!("{} is {status}: it cannot be resumed{why}", last.id),
    ))
}
