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

use super::engine::Engine;
use super::prepare::{Inherited, Plan};
use crate::bounds::MAX_PREVIEW_CHARS;
use crate::directive::Directive;
use crate::history::Archive;
use crate::item::{ItemId, ItemKind};
use crate::project::ProjectId;
use crate::project_id;
use crate::registry::{Registry, Thread};
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::TrustedMeta;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::transcript::Link;
use threadseal_formats::transcript::event::Payload;
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::recorder::Recorder;

/// The directive that words the first message where none is named.
const CONTINUATION: &str = "rye/agent/continuation";

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
    fn enroll(&self, _engine: &Engine, _now: Timestamp) -> Result<(), Error> {
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
        engine: &Engine,
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
    pub(super) said: Value,
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
        let (payload, ext) = link_to(successor, record, &self.said)?;
        self.recorder.link(self.link, &payload, ext).map(drop)
    }

    fn settle(
        &mut self,
        engine: &Engine,
        successor: &ThreadId,
        now: Timestamp,
    ) -> Result<(), Error> {
        engine.registry.link(&self.id, successor, now)?;
        // A suspended predecessor has nothing set aside any more.
        let budget = engine.budgets.get(&self.id)?;
        if budget.is_some_and(|budget| budget.status == "active") {
            engine.budgets.release(&self.id, Status::Continued, now)?;
        }
        let Some(head) = self.meta.head() else {
            return Ok(());
        };
        let mut file = SignedFile::after(&engine.host, &self.path, DocumentKind::Json, None, head)?;
        let mut meta = self.meta.get().clone();
        meta.status = Status::Continued;
        meta.updated_at = now;
        let thread = Some(&self.id);
        file.write(&engine.host, &engine.keys, thread, &meta.to_bytes())
            .map(drop)
    }
}

/// The payload and the seal's members of a link.
pub(super) fn link_to(
    successor: &ThreadId,
    record: RecordId,
    said: &Value,
) -> Result<(Payload, Ext), Error> {
    let mut event = json!({"new_thread_id": successor.as_str()});
    if let (Value::Object(event), Value::Object(said)) = (&mut event, said.clone()) {
        event.extend(said);
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

/// The first message of a successor, and the facts about it for its record.
pub(super) struct Continuation {
    pub(super) text: String,
    pub(super) notes: Vec<(&'static str, Value)>,
}

impl Engine {
    pub(super) fn archive(&self) -> Archive<'_> {
        Archive {
            host: &self.host,
            project: &self.project,
            trust: &self.trust,
            log: &self.log,
            registry: &*self.registry,
            integrity: self.config.coordination.transcript_integrity,
        }
    }

    /// Does the thread of this line 1, whose record is at `path`, belong to this project?
    ///
    /// # Errors
    /// Kind `Refused`, with the verdict `foreign`, when it is another project's.
    pub(super) fn belongs_here(&self, path: &Path, manifest: &Manifest) -> Result<(), Error> {
        project_id::check(&self.host, &self.project, &self.trust, path, manifest)
    }

    /// The id of this project, which line 1 of its threads names; it gets one where it has none.
    ///
    /// # Errors
    /// As [`project_id::find_or_make`].
    pub(super) fn own_project(&self) -> Result<ProjectId, Error> {
        project_id::find_or_make(&self.host, &self.keys, &self.project, &self.trust)
    }

    /// Words the first message of a thread that continues `previous`. If the directive for that is
    /// missing, the message stays unchanged; if it exists and does not verify, the thread stops.
    pub(super) fn continuation(
        &self,
        plan: &mut Plan,
        previous: &ThreadId,
        message: &str,
    ) -> Result<Continuation, Error> {
        let named = plan.directive.continuation_directive.clone();
        let id = named.map_or_else(|| ItemId::parse(CONTINUATION), Ok)?;
        let found = self
            .finder
            .find(ItemKind::Directive, &id, &self.grounds()?)?;
        let Some(item) = found else {
            return Ok(Continuation {
                text: message.to_owned(),
                notes: vec![("continuation_missing", json!({"directive": id.as_str()}))],
            });
        };
        let directive = Directive::parse(item.path(), item.text())?;
        directive.check_id(&id)?;
        let given = json!({
            "original_directive": plan.directive_id,
            "original_directive_body": plan.prompt,
            "previous_thread_id": previous.as_str(),
            "continuation_message": message,
        });
        let given = given.as_object().cloned().unwrap_or_default();
        plan.used.push(item.used());
        Ok(Continuation {
            text: directive.render_prompt(&directive.resolve_inputs(&given)?)?,
            notes: Vec::new(),
        })
    }

    /// The parent's inheritance to a thread whose verified line 1 names the parent's seal `head`.
    pub(super) fn parent_of(
        &self,
        thread: &Thread,
        head: Option<Head>,
    ) -> Result<Option<Inherited>, Error> {
        let parent = self.archive().parent_named(&thread.id, head, None)?;
        Ok(parent.map(|parent| Inherited {
            limits: parent.limits,
            capabilities: parent.capabilities,
        }))
    }
}

/// The end of the chain of `id`, if it can be continued.
pub(super) fn resumable(registry: &dyn Registry, id: &ThreadId) -> Result<Thread, Error> {
    let last = registry.resolve(id)?;
    let status = last.standing()?;
    if status.is_resumable() {
        return Ok(last);
    }
    let why = match status {
        Status::Running | Status::Created => "; if its process is gone: threadseal thread recover",
        _ => "",
    };
    Err(Error::new(
        ErrorKind::Refused,
        format!("{} is {status}: it cannot be resumed{why}", last.id),
    ))
}
