//! Native transcripts in files of their own, with the files of their threads; those files can be in
//! a database.

use super::{Grave, PruneArgs, PrunedRecord, Tools};
use crate::context::Context;
use crate::exit::Failure;
#[cfg(not(all(feature = "agent", feature = "cloud")))]
use crate::missing;
use crate::record;
use crate::render::clean::Clean;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::{Report, Verdict};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::address::{self, Intent};
use threadseal_store::examine::first_line;
use threadseal_store::heads::{HeadStore, RecordKind};
use threadseal_store::host::Host;
use threadseal_store::lock::WriterLock;
use threadseal_store::observer::seal_path;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::recorder::Opened;
use threadseal_store::sys::{directory_of, path_text};
use threadseal_store::tombstones;
use threadseal_verify::detect::{self, Kind};
use threadseal_verify::inputs::Candidate;
use threadseal_verify::layout::{CANCEL_FILE, CAPABILITIES_FILE, THREAD_FILE, TRANSCRIPT_FILE};
use threadseal_verify::verifier::{FileResult, Verifier, unfinished};

/// The place of a transcript.
pub(super) struct Site<'s> {
    /// The host of its files: this machine, or a database.
    pub(super) host: &'s Host,
    pub(super) path: &'s Path,
    /// The place of its tombstone, which is always on this machine.
    pub(super) place: &'s Path,
    pub(super) shown: String,
    /// Are its files in a database?
    pub(super) is_shared: bool,
}

impl Tools<'_> {
    pub(super) fn prune_file(&self, path: &Path) -> Result<PrunedRecord, Failure> {
        if let Some(address) = record::address_of(path) {
            return match record::database(address) {
                #[cfg(all(feature = "agent", feature = "cloud"))]
                Some((url, thread)) => self.prune_thread(url, thread),
                #[cfg(not(all(feature = "agent", feature = "cloud")))]
                Some((url, _)) => Err(missing::no_threads_in(url)),
                None => self.prune_record(address),
            };
        }
        let place = tombstones::place_of(path);
        let site = Site {
            host: &self.host,
            path,
            place: &place,
            shown: path_text(path),
            is_shared: false,
        };
        let is_there = |path: &Path| self.host.fs.symlink_metadata(path).is_ok();
        let is_gone = !is_there(path) && !is_there(&seal_path(path));
        if let Some(found) = self.tombstone_at(&place, is_gone)? {
            let is_transcript = |logged: &LoggedHead| logged.kind == RecordKind::Transcript;
            return match found.statement().records.first().is_some_and(is_transcript) {
                true => self.finish(&site, &found),
                false => self.finish_held(path, &found),
            };
        }
        let file = open_regular(&*self.host.fs, path)?;
        match detect::kind(&file)? {
            Some(Kind::Native) => self.begin(&site),
            Some(Kind::Ledger(_)) => Err(Failure::new(
                "a ledger is pruned in its store; hint: threadseal prune STORE --run ID",
            )),
            Some(Kind::Checkpoint) => Err(Failure::new(
                "the checkpoints of an agent are pruned in their store; hint: threadseal prune STORE --agent NAME",
            )),
            Some(Kind::LedgerHead | Kind::LedgerIndex) => Err(Failure::new(
                "this file belongs to a ledger; hint: threadseal prune STORE --run ID",
            )),
            Some(Kind::Sidecar) => Err(Failure::new(
                "this is a seal file; name the log that it seals",
            )),
            _ => self.begin_held(path),
        }
    }

    /// Completes a prune: a tombstone and the log show that the transcript is pruned.
    pub(super) fn finish(
        &self,
        site: &Site<'_>,
        found: &Tombstone,
    ) -> Result<PrunedRecord, Failure> {
        let records = &found.statement().records;
        let first = records.first().map(|logged| logged.head.record);
        let record = first.ok_or_else(|| Failure::new("its tombstone names no record"))?;
        if site.host.fs.metadata(site.path).is_err() {
            // The transcript is deleted last: the files that are here now belong to another one.
            return self.drop_files(site, found, false, (Vec::new(), Vec::new()));
        }
        let lock = WriterLock::acquire(Arc::clone(&site.host.fs), site.path)?;
        if record_in(&lock.reader()?)? != Some(record) {
            return Err(lies_there());
        }
        let files = beside(site, record, records.len() > 1)?;
        let done = self.drop_files(site, found, false, files)?;
        drop(lock);
        Ok(done)
    }

    /// Verifies the transcript under its lock, and signs a tombstone of it.
    pub(super) fn begin(&self, site: &Site<'_>) -> Result<PrunedRecord, Failure> {
        // Only keys that may seal the record can open it: its authority, or the successor of that
        // key.
        let signing = &self.args.signing;
        let opened = signing.open(site.path, &self.signer, site.host.clone(), self.context)?;
        let head = ended(&opened)?;
        let file = open_regular(&*site.host.fs, site.path)?;
        let mut records = vec![self.newest_of_all(&*site.host.heads, &file, &head)?];
        let with_thread = is_in_its_folder(site, opened.recorder.state().thread());
        let (files, left) = beside(site, head.record, with_thread)?;
        records.extend(self.verified(site, &files)?);
        let done = self.drop_files(site, &self.sign(records)?, true, (files, left))?;
        drop(opened.recorder);
        Ok(done)
    }

    /// The last seal of an ended transcript, which must be the newest that this home and its log
    /// know. `heads` must have an end of each thread that the transcript began or that continues
    /// it.
    pub(super) fn newest_of_all(
        &self,
        heads: &dyn HeadStore,
        file: &RegularFile,
        head: &Head,
    ) -> Result<LoggedHead, Failure> {
        match unfinished(heads, file, head.size)? {
            Some(why) => Err(Failure::new(why)),
            None => {
                let newest = self.newest(head)?;
                self.refuse_running(&head.record)?;
                Ok(newest.to_log())
            }
        }
    }

    /// Deletes a record in a file with the files beside it; reports the names of all other files.
    fn drop_files(
        &self,
        site: &Site<'_>,
        tombstone: &Tombstone,
        is_new: bool,
        (files, left): (Vec<PathBuf>, Vec<String>),
    ) -> Result<PrunedRecord, Failure> {
        let grave = Grave {
            shown: site.shown.clone(),
            place: site.place,
            files,
            left,
        };
        self.bury(grave, tombstone, is_new, |files| {
            Ok(tombstones::drop_all(&*site.host.fs, site.path, files)?)
        })
    }

    /// The heads of the records among `files`, each of which must be verified.
    fn verified(&self, site: &Site<'_>, files: &[PathBuf]) -> Result<Vec<LoggedHead>, Failure> {
        let verifier = match site.is_shared {
            true => self.verifier()?.over(site.host.clone()),
            false => self.verifier()?,
        };
        let mut records = Vec::new();
        for path in files {
            for report in reports_at(&verifier, path, false)? {
                let verdict = report.verdict;
                if verdict != Verdict::Verified {
                    let name = path_text(path);
                    let text = format!("{} beside it is {verdict}", Clean(&name));
                    return Err(Failure::new(text));
                }
                let stored = report.record.map(|record| self.host.heads.fetch(&record));
                records.extend(stored.transpose()?.flatten().map(|stored| stored.to_log()));
            }
        }
        Ok(records)
    }
}

/// The last seal of an opened record, which must have ended and be valid.
pub(super) fn ended(opened: &Opened) -> Result<Head, Failure> {
    let (verdict, state) = (opened.report.verdict, opened.recorder.state());
    match (state.is_ended(), verdict, state.head()) {
        (true, Verdict::Verified, Some(head)) => Ok(*head),
        _ => Err(Failure::new(format!(
            "it is {verdict} and has no valid end: only complete records that have ended are pruned"
        ))),
    }
}

/// The reports on the file at `path`.
pub(super) fn reports_at(
    verifier: &Verifier,
    path: &Path,
    named: bool,
) -> Result<Vec<Report>, Failure> {
    let candidate = Candidate {
        path: path.to_owned(),
        named,
        bytes: 0,
    };
    match verifier.verify_candidate(&candidate) {
        FileResult::Reports(reports) => Ok(reports),
        FileResult::NoRecord(error) | FileResult::Failed(error) => Err(error.into()),
        FileResult::PassedOver | FileResult::Elsewhere | FileResult::Link(..) => Ok(Vec::new()),
    }
}

fn is_in_its_folder(site: &Site<'_>, thread: &ThreadId) -> bool {
    let folder = directory_of(site.path);
    let name = site.path.file_name();
    name.is_some_and(|name| name == TRANSCRIPT_FILE)
        && folder.ends_with(thread.as_str())
        && site.host.fs.metadata(&folder.join(THREAD_FILE)).is_ok()
}

/// The files to delete with the record at a site, and the names of the other files of its thread.
fn beside(
    site: &Site<'_>,
    record: RecordId,
    with_thread: bool,
) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
    let mut files = tombstones::beside(&*site.host.fs, site.path)?;
    if !with_thread {
        return Ok((files, Vec::new()));
    }
    let folder = directory_of(site.path);
    let names = site.host.fs.read_dir(folder);
    let names = names.map_err(|error| Failure::io("read", folder, &error))?;
    let ledger = format!("ledger_{record}.");
    let own = [site.path, site.place];
    let mut left = Vec::new();
    for name in names {
        let there = folder.join(&name);
        let name = name.to_string_lossy().into_owned();
        let of_thread = [THREAD_FILE, CAPABILITIES_FILE, CANCEL_FILE].contains(&name.as_str());
        if of_thread || name.starts_with(&ledger) {
            files.push(there);
        } else if !own.contains(&&*there) && !files.contains(&there) {
            left.push(name);
        }
    }
    files.sort();
    left.sort();
    Ok((files, left))
}

/// The native record that the first line of a file names.
pub(super) fn record_in(file: &RegularFile) -> Result<Option<RecordId>, Failure> {
    let line = first_line(file)?;
    let manifest = line.as_deref().and_then(parse_line);
    Ok(manifest.map(|manifest| manifest.record))
}

/// The tombstone of one record permits no deletion of another.
pub(super) fn lies_there() -> Failure {
    Failure::new("this place contains another record than its tombstone names")
}

/// The path of the transcript that an argument names: a path, a folder with a transcript, or a
/// thread.
pub(super) fn path_of(
    args: &PruneArgs,
    named: &Path,
    context: &Context,
) -> Result<PathBuf, Failure> {
    if let Some(address) = record::address_of(named) {
        // In a store of files, each record is a file.
        if address::folder_of(address)?.is_some() {
            let (store, name) = record::one(address, Intent::Read)?;
            return Ok(store.place(&name));
        }
        return Ok(named.to_owned());
    }
    // After an interrupted prune, the tombstone can be the only remaining file.
    if context.fs.metadata(&tombstones::place_of(named)).is_ok() {
        return Ok(named.to_owned());
    }
    args.signing.transcript_at(named, context)
}
