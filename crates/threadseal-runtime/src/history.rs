//! [`Archive`]: earlier threads, read only as far as they verify, back to the first of their chain.
//!
//! ```text
//! record    one transcript                                             VerifiedRecord
//! thread    and its thread.json, capabilities.md and step ledger       VerifiedThread
//! chain     and all its predecessors, and the parent                   VerifiedChain
//! ```
//! Each thread of a chain names the seal of the one before in its line 1. That one names its
//! successor's record in a link. Either alone is not enough. Registry rows are trusted only where
//! records confirm them. Nothing here writes.
//!
//! A strict archive reads verified transcripts only. A lenient one also takes events after the last
//! seal, or adopted from there, and marks them: [`Line::unverified`], [`UNVERIFIED`]. No other
//! verdict is softened.
//!
//! | module | owns |
//! |---|---|
//! | `record` | one transcript, ThreadSeal's or Rye's |
//! | `conversation` | its conversation: marks, and one result for each call |
//! | `steps` | the step ledger of a thread |
//! | `chain` | threads that continue each other |
//! | `thread_links` | the facts that a registry repeats |
//!
//! Seed 000 §4, "Integration with resume/handoff", §6; seed 001, "The Continuation Chain".

mod archive;
mod chain;
mod conversation;
mod record;
mod steps;
mod thread_links;
mod verified_thread;
use crate::bounds::MAX_CHAIN_THREADS;
use crate::config::coordination::Integrity;
use crate::no_links::refuse_links;
use crate::project::ThreadFolder;
use crate::project_id;
use crate::thread_meta::ThreadMeta;
pub use archive::Archive;
use archive::disagree;
pub use chain::{ChainLink, VerifiedChain};
pub use conversation::UNVERIFIED;
pub(crate) use conversation::{UNRESOLVED, answer_open_calls};
pub(crate) use record::TIMES_UNASKED;
pub use record::{Line, Successor, VerifiedRecord};
use std::collections::BTreeSet;
pub(crate) use steps::Steps;
pub use thread_links::ThreadLinks;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::trust::Trust;
use threadseal_formats::document::{self, DocumentKind, ItemType};
use threadseal_formats::transcript::messages::Message;
use threadseal_store::host::Host;
use threadseal_store::read::read_small;
use threadseal_verify::home_log::HomeLog;
pub use verified_thread::{VerifiedParent, VerifiedThread};
impl Archive<'_> {
    /// One transcript. It must be of thread `id`, and contain the seal `named` where one is given.
    ///
    /// # Errors
    /// Kind `Refused` with the verdict unless it is verified, also against the heads of this host;
    /// errors of the disk.
    pub fn record(&self, id: &ThreadId, named: Option<Head>) -> Result<VerifiedRecord, Error> {
        record::open(self, &self.folder(id)?, id, named, record::Need::Whole)
    }

    /// One thread: its transcript, its thread.json, its capabilities.md.
    ///
    /// # Errors
    /// As [`Archive::record`]; kind `Refused` when the other files are not verified or contradict
    /// it.
    pub fn thread(&self, id: &ThreadId, named: Option<Head>) -> Result<VerifiedThread, Error> {
        let folder = self.folder(id)?;
        let record = record::open(self, &folder, id, named, record::Need::Whole)?;
        self.has_children(&record)?;
        let thread = self.with_papers(record, folder)?;
        if let (None, Some(meta)) = (thread.record.manifest(), &thread.meta) {
            has_all_turns(&thread.record, meta.get())?;
        }
        Ok(thread)
    }

    /// A thread that `after` continues, which names its seal `head`. Rye's threads never seal their
    /// own end or their successor, and may grow. For these, that seal counts, and the tail that
    /// `after` claims to have taken after it.
    fn earlier(
        &self,
        id: &ThreadId,
        head: Head,
        after: &VerifiedRecord,
    ) -> Result<VerifiedThread, Error> {
        let folder = self.folder(id)?;
        let original = record::is_original(self, &folder)?;
        let need = match original {
            true => record::Need::Sealed,
            false => record::Need::Linked,
        };
        let mut record = record::open(self, &folder, id, Some(head), need)?;
        if original {
            let taken = after
                .took()
                .filter(|_| self.integrity == Integrity::Lenient);
            record.up_to(head, taken.as_ref())?;
        }
        self.has_children(&record)?;
        self.with_papers(record, folder)
    }

    /// Do all threads below `id` exist, unchanged since: its children whose end its record seals,
    /// theirs, and so on?
    ///
    /// # Errors
    /// Kind `Refused` with the verdict, or where a record is missing; `Limit` where there are too
    /// many; errors of the disk.
    pub fn children_hold(&self, id: &ThreadId) -> Result<(), Error> {
        let record = record::open(self, &self.folder(id)?, id, None, record::Need::Sealed)?;
        let mut left = Vec::from_iter(record.children_of_it());
        let mut seen = BTreeSet::new();
        while let Some((parent, child, head)) = left.pop() {
            let record = self.child(&parent, &child, head)?;
            // One that was continued is named with several seals.
            if seen.insert(child) {
                left.extend(record.children_of_it());
            }
            if seen.len() > MAX_CHAIN_THREADS {
                let text = format!("{id} has more than {MAX_CHAIN_THREADS} threads below it");
                return Err(Error::new(ErrorKind::Limit, text));
            }
        }
        Ok(())
    }

    /// Do the children exist whose end `record` seals, with the seals that it names? They may have
    /// been continued since.
    fn has_children(&self, record: &VerifiedRecord) -> Result<(), Error> {
        for (child, head) in record.children() {
            self.child(record.id(), child, *head)?;
        }
        Ok(())
    }

    /// The child of `parent` whose last seal was `head`, when the parent recorded its end.
    ///
    /// # Errors
    /// Kind `Refused` when its record is missing, or is not the one of that seal.
    pub(crate) fn child(
        &self,
        parent: &ThreadId,
        child: &str,
        head: Head,
    ) -> Result<VerifiedRecord, Error> {
        let id = ThreadId::parse(child)?;
        let found = self.project.find_thread(&*self.host.fs, &id)?;
        let there = |found: &ThreadFolder| {
            let found = self.host.fs.symlink_metadata(&found.transcript());
            found.is_ok()
        };
        let Some(folder) = found.filter(there) else {
            return Err(Error::refused(format!(
                "the record of {id} is missing, but {parent} started it and seals its end"
            )));
        };
        record::open(self, &folder, &id, Some(head), record::Need::Sealed)
    }

    /// Does a named thread belong to this project?
    pub(crate) fn belongs_here(&self, record: &VerifiedRecord) -> Result<(), Error> {
        match record.manifest() {
            Some(manifest) => {
                let (host, project) = (self.host, self.project);
                project_id::check(host, project, self.trust, record.path(), manifest)
            }
            // Rye's records name no project.
            None => Ok(()),
        }
    }

    /// Is the transcript of `id` one of Rye's?
    ///
    /// # Errors
    /// Kind `Refused` when there is none; errors of the disk.
    pub(crate) fn is_original(&self, id: &ThreadId) -> Result<bool, Error> {
        record::is_original(self, &self.folder(id)?)
    }

    /// The thread `id` of this project, all its predecessors, and its parent.
    ///
    /// # Errors
    /// As [`Archive::thread`], for each of them; kind `Refused` when they do not name each other or
    /// it is another project's, `Limit` when there are too many.
    pub fn chain(&self, id: &ThreadId) -> Result<VerifiedChain, Error> {
        chain::read(self, id, MAX_CHAIN_THREADS)
    }

    /// The same with a bound of the test's own.
    #[cfg(test)]
    pub(crate) fn chain_within(&self, id: &ThreadId, most: usize) -> Result<VerifiedChain, Error> {
        chain::read(self, id, most)
    }

    /// The parent whose seal `head` the line 1 of `child` names. Only the part of its transcript
    /// under that seal is read: it may still run.
    ///
    /// # Errors
    /// As [`Archive::thread`].
    pub fn parent(&self, child: &VerifiedRecord) -> Result<Option<VerifiedParent>, Error> {
        let Some(manifest) = child.manifest() else {
            // Rye's records do not show whether there is a parent.
            return Ok(None);
        };
        let recorded = child.text_of_line_1("parent_thread")?;
        self.parent_named(child.id(), manifest.parent, recorded.as_deref())
    }

    /// The same for a verified record that the caller holds: `head` and `recorded` come from its
    /// line 1.
    ///
    /// # Errors
    /// As [`Archive::parent`].
    pub(crate) fn parent_named(
        &self,
        child: &ThreadId,
        head: Option<Head>,
        recorded: Option<&str>,
    ) -> Result<Option<VerifiedParent>, Error> {
        let known = self.registry.get(child)?;
        let registered = known.and_then(|thread| thread.parent);
        let (head, name) = match (head, &registered) {
            (None, None) if recorded.is_none() => return Ok(None),
            (Some(head), Some(name)) if recorded.is_none_or(|recorded| recorded == name) => {
                (head, name)
            }
            (None, Some(name)) if recorded == Some(name.as_str()) => {
                return self.original_parent(&ThreadId::parse(name)?).map(Some);
            }
            _ => return Err(disagree(child)),
        };
        let id = ThreadId::parse(name)?;
        let folder = self.folder(&id)?;
        let record = record::open(self, &folder, &id, Some(head), record::Need::Sealed)?;
        let thread = self.with_papers(record, folder)?;
        let meta = thread.meta.ok_or_else(|| disagree(child))?;
        Ok(Some(VerifiedParent {
            id,
            head: Some(head),
            limits: meta.get().limits,
            capabilities: meta.get().capabilities.clone(),
        }))
    }

    /// A parent of Rye, which never seals the children that it started: the inheritance in its
    /// signed thread.json.
    fn original_parent(&self, id: &ThreadId) -> Result<VerifiedParent, Error> {
        let folder = self.folder(id)?;
        let has_record = self.host.fs.symlink_metadata(&folder.transcript()).is_ok();
        if has_record && !record::is_original(self, &folder)? {
            return Err(disagree(id));
        }
        refuse_links(&*self.host.fs, &folder)?;
        let meta = ThreadMeta::read(self.host, &folder, id, None, self.trust)?;
        Ok(VerifiedParent {
            id: id.clone(),
            head: None,
            limits: meta.get().limits,
            capabilities: meta.get().capabilities.clone(),
        })
    }

    /// By what records are judged.
    pub(crate) fn grounds(&self) -> (&Host, &HomeLog, &Trust) {
        (self.host, self.log, self.trust)
    }

    /// Where the files of a thread lie, in whatever layout.
    fn folder(&self, id: &ThreadId) -> Result<ThreadFolder, Error> {
        let found = self.project.find_thread(&*self.host.fs, id)?;
        found.ok_or_else(|| Error::refused(format!("{id} has no files here")))
    }

    /// Adds thread.json and holds capabilities.md against line 1.
    fn with_papers(
        &self,
        record: VerifiedRecord,
        folder: ThreadFolder,
    ) -> Result<VerifiedThread, Error> {
        let fs = &*self.host.fs;
        let native = record.manifest().is_some();
        refuse_links(fs, &folder)?;
        // A thread that was sealed with a thread.json beside it must have one.
        let meta = if native || fs.symlink_metadata(&folder.metadata()).is_ok() {
            let (id, manifest) = (record.id(), record.manifest());
            let meta = ThreadMeta::read(self.host, &folder, id, manifest, self.trust)?;
            Some(meta)
        } else {
            None
        };
        match record.text_of_line_1("capabilities_sha256")? {
            Some(sealed) => {
                let path = folder.capabilities();
                let bytes = read_small(fs, &path, MAX_DOCUMENT_BYTES)?;
                if Digest::of(&bytes).to_hex() != sealed {
                    let text = format!(
                        "{} is tampered: it is not the file that line 1 names",
                        path.display()
                    );
                    return Err(Error::refused(text));
                }
            }
            None if !native && fs.symlink_metadata(&folder.capabilities()).is_ok() => {
                self.original_capabilities(&folder)?;
            }
            None => {}
        }
        steps::check(self, &folder, &record)?;
        Ok(VerifiedThread {
            record,
            meta,
            folder,
        })
    }

    /// Rye signs capabilities.md, but never names it.
    fn original_capabilities(&self, folder: &ThreadFolder) -> Result<(), Error> {
        let options = document::Options {
            item_type: Some(ItemType::Knowledge),
            ..document::Options::new(DocumentKind::Markdown, self.trust, self.host.clock.now()?)
        };
        crate::signed_file::read_verified(self.host, &folder.capabilities(), &options).map(drop)
    }
}

/// Does a transcript of Rye have the answers that its signed thread.json counts? The file is
/// written when the last of them is sealed. Nothing else shows that a transcript was truncated at a
/// seal.
fn has_all_turns(record: &VerifiedRecord, meta: &ThreadMeta) -> Result<(), Error> {
    let turns = meta.cost.map_or(0, |cost| cost.turns);
    let answers = record.messages()?;
    let answers = answers
        .iter()
        .filter(|message| matches!(message, Message::Assistant { .. }));
    let answers = answers.count() as u64;
    match meta.status.is_resumable() && answers < turns {
        false => Ok(()),
        true => Err(Error::refused(format!(
            "{} is truncated: it seals {answers} answers, and its thread.json counts {turns}",
            record.path().display()
        ))),
    }
}
