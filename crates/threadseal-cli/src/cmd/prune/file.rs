//! Native transcripts in files of their own, with what belongs to their threads.

use super::{Done, Grave, PruneArgs, Tools};
use crate::context::Context;
use crate::detect::{self, Kind};
use crate::examine::{Seen, kin};
use crate::exit::Failure;
use crate::record;
use crate::render::clean::Clean;
use crate::walk::Candidate;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal::record::{RecordId, ThreadId};
use threadseal::report::{Report, Verdict};
use threadseal::tlog::tombstone::Tombstone;
use threadseal::transcript::manifest::parse_line;
use threadseal_runtime::project::{CANCEL_FILE, CAPABILITIES_FILE, THREAD_FILE, TRANSCRIPT_FILE};
use threadseal_store::examine::first_line;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::ledger::url::{self, Intent};
use threadseal_store::lock::WriterLock;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::{directory_of, path_text};
use threadseal_store::{bodies, tombstones};

impl Tools<'_> {
    pub(super) fn prune_file(&self, path: &Path) -> Result<Done, Failure> {
        if let Some(found) = self.tombstone_at(&tombstones::place_of(path))? {
            return self.finish(path, &found);
        }
        let file = open_regular(&*self.host.fs, path)?;
        match detect::kind(&file)? {
            Some(Kind::Native) => self.begin(path),
            Some(Kind::Ledger(_)) => Err(Failure::new(
                "a ledger is pruned in its store: threadseal prune STORE --run ID",
            )),
            Some(Kind::Checkpoint) => Err(Failure::new(
                "the checkpoints of an agent are pruned in their store: threadseal prune STORE --agent NAME",
            )),
            Some(Kind::Sidecar) => Err(Failure::new("these are seals; name the log")),
            _ => self.begin_held(path),
        }
    }

    /// Goes on where a tombstone and the log say that the record is pruned.
    fn finish(&self, path: &Path, found: &Tombstone) -> Result<Done, Failure> {
        let records = &found.statement().records;
        let first = records.first();
        let first = first.ok_or_else(|| Failure::new("its tombstone names no record"))?;
        if first.kind != RecordKind::Transcript {
            return self.finish_held(path, found);
        }
        let record = first.head.record;
        if self.host.fs.metadata(path).is_err() {
            // It goes last: what lies there now is of another one.
            return self.drop_files(path, found, false, (Vec::new(), Vec::new()));
        }
        let lock = WriterLock::acquire(Arc::clone(&self.host.fs), path)?;
        if record_in(&lock.reader()?)? != Some(record) {
            return Err(lies_there());
        }
        let files = self.beside(path, record, records.len() > 1)?;
        let done = self.drop_files(path, found, false, files)?;
        drop(lock);
        Ok(done)
    }

    /// Verifies the transcript under its lock, and says with a tombstone that it is pruned.
    fn begin(&self, path: &Path) -> Result<Done, Failure> {
        // It opens only for who may seal the record: its authority, or the key in the place of that.
        let signing = &self.args.signing;
        let opened = signing.open(path, &self.signer, self.host.clone(), self.context)?;
        let verdict = opened.report.verdict;
        let state = opened.recorder.state();
        let (true, Verdict::Verified, Some(head)) = (state.is_ended(), verdict, state.head())
        else {
            return Err(Failure::new(format!(
                "it is {verdict} and has no end that holds: only whole records that have ended are pruned"
            )));
        };
        let file = open_regular(&*self.host.fs, path)?;
        if let Some(why) = kin::unfinished(&*self.host.heads, &file, head.size)? {
            return Err(Failure::new(why));
        }
        let stored = self.newest(head)?;
        let with_thread = self.is_in_its_folder(path, state.thread());
        let (files, left) = self.beside(path, head.record, with_thread)?;
        let mut records = vec![stored.to_log()];
        records.extend(self.verified(&files)?.iter().map(StoredHead::to_log));
        let done = self.drop_files(path, &self.sign(records)?, true, (files, left))?;
        drop(opened.recorder);
        Ok(done)
    }

    /// Buries a record in a file, with the files beside it; the names of others are told.
    fn drop_files(
        &self,
        path: &Path,
        tombstone: &Tombstone,
        is_new: bool,
        (files, left): (Vec<PathBuf>, Vec<String>),
    ) -> Result<Done, Failure> {
        let grave = Grave {
            shown: path_text(path),
            place: &tombstones::place_of(path),
            files,
            left,
        };
        self.bury(grave, tombstone, is_new, |files| {
            Ok(tombstones::drop_all(&*self.host.fs, path, files)?)
        })
    }

    fn is_in_its_folder(&self, path: &Path, thread: &ThreadId) -> bool {
        let folder = directory_of(path);
        path.file_name().is_some_and(|name| name == TRANSCRIPT_FILE)
            && folder.ends_with(thread.as_str())
            && self.host.fs.metadata(&folder.join(THREAD_FILE)).is_ok()
    }

    /// The files that go with the record at `path`, and the names of others in the folder of its thread.
    fn beside(
        &self,
        path: &Path,
        record: RecordId,
        with_thread: bool,
    ) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
        let folder = directory_of(path);
        let names = self.host.fs.read_dir(folder);
        let names = names.map_err(|error| Failure::io("read", folder, &error))?;
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let [tail, ledger] = [format!("{own}.tail-"), format!("ledger_{record}.")];
        let bodies = bodies::place_of(path);
        let tombstone = tombstones::place_of(path);
        let (mut files, mut left) = (Vec::new(), Vec::new());
        for name in names {
            let there = folder.join(&name);
            let name = name.to_string_lossy().into_owned();
            let of_thread = [THREAD_FILE, CAPABILITIES_FILE, CANCEL_FILE].contains(&name.as_str())
                || name.starts_with(&ledger);
            if there == bodies || name.starts_with(&tail) || (with_thread && of_thread) {
                files.push(there);
            } else if with_thread && name != own && there != tombstone {
                left.push(name);
            }
        }
        files.sort();
        left.sort();
        Ok((files, left))
    }

    /// The heads of the records among `files`, each of which must be verified.
    fn verified(&self, files: &[PathBuf]) -> Result<Vec<StoredHead>, Failure> {
        let mut records = Vec::new();
        for path in files {
            for report in self.reports_at(path, false)? {
                let verdict = report.verdict;
                if verdict != Verdict::Verified {
                    let name = path_text(path);
                    let text = format!("{} beside it is {verdict}", Clean(&name));
                    return Err(Failure::new(text));
                }
                let stored = report.record.map(|record| self.host.heads.fetch(&record));
                records.extend(stored.transpose()?.flatten());
            }
        }
        Ok(records)
    }

    /// What verification says of the file at `path`.
    pub(super) fn reports_at(&self, path: &Path, named: bool) -> Result<Vec<Report>, Failure> {
        let candidate = Candidate {
            path: path.to_owned(),
            named,
            bytes: 0,
        };
        match self.examiner()?.examine(&candidate) {
            Seen::Reports(reports) => Ok(reports),
            Seen::Failed(error) => Err(Failure::new(error.message)),
            Seen::PassedOver | Seen::Elsewhere | Seen::Link(..) => Ok(Vec::new()),
        }
    }
}

/// The native record in a file, as it says itself.
fn record_in(file: &RegularFile) -> Result<Option<RecordId>, Failure> {
    let line = first_line(file)?;
    let manifest = line.as_deref().and_then(parse_line);
    Ok(manifest.map(|manifest| manifest.record))
}

/// Nothing is deleted by the tombstone of another record.
pub(super) fn lies_there() -> Failure {
    Failure::new("another record lies where its tombstone says that one was pruned")
}

/// A path, the transcript in a folder, or where the transcript of a thread lies.
pub(super) fn path_of(
    args: &PruneArgs,
    named: &Path,
    context: &Context,
) -> Result<PathBuf, Failure> {
    if let Some(address) = record::address_of(named) {
        // In a store that is a folder each record is a file.
        if url::folder_of(address)?.is_some() {
            let (store, name) = record::one(address, Intent::Read)?;
            return Ok(store.place(&name));
        }
        let text = "transcripts are pruned where they lie in files; those in databases and other stores are not yet. A store is \
                    named with the --run or --agent in it";
        return Err(Failure::new(text).about(named));
    }
    // Of one that was pruned in part, the tombstone may be all that is left.
    if context.fs.metadata(&tombstones::place_of(named)).is_ok() {
        return Ok(named.to_owned());
    }
    args.signing.transcript_at(named, context)
}
