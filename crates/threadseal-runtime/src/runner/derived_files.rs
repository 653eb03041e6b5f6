//! The files derived from a thread's record: `thread.json`, `capabilities.md`, the knowledge entry.

use super::services::Services;
use crate::journal::Journal;
use crate::project::ThreadFolder;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, TrustedMeta, capabilities_file};
use crate::toolbox::Toolbox;
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_formats::document::{DocumentKind, ItemType};
use threadseal_store::atomic;
use threadseal_store::read::read_small;

/// Permission bits of a thread's folder: only its owner may see the data and actions of an agent.
pub(super) const FOLDER_MODE: u32 = 0o700;

/// `thread.json`, written where its status changes, and the knowledge entry, after each turn.
pub(super) struct DerivedFiles {
    pub(super) meta: ThreadMeta,
    pub(super) file: SignedFile,
    pub(super) entry: SignedFile,
    /// Why the entry does not show the newest state.
    pub(super) unshown: Option<String>,
}

impl DerivedFiles {
    pub(super) fn write(&mut self, services: &Services) -> Result<(), Error> {
        self.meta.updated_at = services.host.clock.now()?;
        let bytes = self.meta.to_bytes();
        let thread = Some(&self.meta.thread_id);
        self.file
            .write(&services.host, &services.keys, thread, &bytes)
            .map(drop)
    }

    /// Rewrites the thread for readers. An entry that cannot be shown is no reason to end a thread.
    /// The record is valid, and the thread's end reports that the entry is out of date.
    pub(super) fn write_entry(
        &mut self,
        services: &Services,
        journal: &Journal,
    ) -> Result<(), Error> {
        let text = self.meta.covered(|cover| journal.entry(cover));
        let thread = Some(&self.meta.thread_id);
        let (host, keys) = (&services.host, &services.keys);
        let written = self.entry.write(host, keys, thread, text.as_bytes());
        self.shown(written.map(drop))
    }

    /// The same, without a head of this version: the next one has one.
    pub(super) fn write_entry_ahead(
        &mut self,
        services: &Services,
        journal: &Journal,
    ) -> Result<(), Error> {
        let text = self.meta.covered(|cover| journal.entry(cover));
        let (host, keys) = (&services.host, &services.keys);
        let written = self.entry.write_ahead(host, keys, text.as_bytes());
        self.shown(written)
    }

    fn shown(&mut self, written: Result<(), Error>) -> Result<(), Error> {
        self.unshown = match written {
            Ok(()) => None,
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Limit) => {
                Some(format!("the knowledge entry is not up to date: {error}"))
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }
}

/// The knowledge entry of a thread, which is not there yet.
pub(super) fn new_entry(services: &Services, meta: &ThreadMeta) -> Result<SignedFile, Error> {
    let directive = ThreadId::parse(&meta.directive)?;
    let path = services
        .project
        .knowledge_entry(&directive, &meta.thread_id);
    new_knowledge(services, &path)
}

/// A file of knowledge that is not there yet, in its folder.
pub(super) fn new_knowledge(services: &Services, path: &Path) -> Result<SignedFile, Error> {
    services.project.inside(&*services.host.fs, path)?;
    if let Some(folder) = path.parent() {
        atomic::create_directories(&*services.host.fs, folder, FOLDER_MODE)?;
    }
    let kind = DocumentKind::Markdown;
    SignedFile::new(&services.host, path, kind, Some(ItemType::Knowledge))
}

/// Writes `capabilities.md`, and returns its digest for line 1.
pub(super) fn write_capabilities(
    services: &Services,
    tools: &Toolbox,
    folder: &ThreadFolder,
) -> Result<Digest, Error> {
    let text = capabilities_file(&tools.schemas(), tools.capabilities());
    let path = folder.capabilities();
    let kind = DocumentKind::Markdown;
    let mut file = SignedFile::new(&services.host, &path, kind, Some(ItemType::Knowledge))?;
    file.write(&services.host, &services.keys, None, text.as_bytes())?;
    let bytes = read_small(&*services.host.fs, &path, MAX_DOCUMENT_BYTES)?;
    Ok(Digest::of(&bytes))
}

/// Marks the `thread.json` of a thread that has a successor.
pub(super) fn mark_continued(
    services: &Services,
    id: &ThreadId,
    path: &Path,
    trusted: &TrustedMeta,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(head) = trusted.head() else {
        return Ok(());
    };
    let mut file = SignedFile::after(&services.host, path, DocumentKind::Json, None, head)?;
    let mut meta = trusted.get().clone();
    meta.status = Status::Continued;
    meta.updated_at = now;
    file.write(&services.host, &services.keys, Some(id), &meta.to_bytes())
        .map(drop)
}
