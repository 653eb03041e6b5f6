//! [`SpoolQuarantine`]: lines of the spool that no tag shows to be this home's.
//!
//! ```text
//! log/set-aside/<32 hex of the digest>   such lines, each with LF
//! ```
//! A line may be forged or torn. It may be of another home or log, from a version without tags, or from before the home's
//! secret was lost. So it is no evidence and is not committed. It shows at most that the log may lack a head of its record:
//! then the newest head of that record in the home's own store is committed, for a head is stored before its line is
//! written. A line whose head the log then has is dropped. Any other is set aside, and no seal waits for it.

use crate::commit::batch::HeadBatch;
use crate::commit::spool::{LeftSpool, MAX_SPOOL_BYTES, SpoolLine};
use crate::index::head_index::HeadIndex;
use crate::layout::description::LogId;
use crate::layout::log_dir::LogDir;
use crate::tree::writer::Writer;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::heads::{FileHeadStore, HeadStore as _};
use threadseal_store::sys;

/// Lines of a file that are to be set aside; None if that is not known yet.
pub(crate) type Aside = Option<Vec<Vec<u8>>>;

/// Digits that name a file.
const NAME_DIGITS: usize = 32;

/// Lines that were set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// How many.
    pub lines: usize,
    /// Where they are.
    pub folder: PathBuf,
}

/// The judge of lines that wait for one log, and the files of those that were set aside.
#[derive(Debug)]
pub(crate) struct SpoolQuarantine<'l> {
    pub(crate) dir: &'l LogDir,
    pub(crate) log: LogId,
}

impl SpoolQuarantine<'_> {
    /// The lines that were set aside, for people to look at and to remove.
    ///
    /// # Errors
    /// Kind `External` when a file cannot be read.
    pub(crate) fn set_aside(&self) -> Result<SetAside, Error> {
        let folder = self.dir.set_aside();
        let names = match self.dir.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(sys::failure("read", &folder, &error)),
        };
        let mut lines = 0;
        for name in names.iter().filter(|name| name.len() == NAME_DIGITS) {
            let bytes = self.dir.read(&folder.join(name), MAX_SPOOL_BYTES)?;
            lines += memchr::memchr_iter(b'\n', &bytes.unwrap_or_default()).count();
        }
        Ok(SetAside { lines, folder })
    }

    /// Takes lines that this home wrote for this log, or for the one that it replaced.
    pub(crate) fn add_own(
        &self,
        batch: &mut HeadBatch,
        writer: &Writer<'_>,
        index: &HeadIndex,
        left: &LeftSpool,
    ) -> Result<(), Error> {
        let is_own = self.is_own(writer, left)?;
        let own = left.lines.iter().filter(|line| is_own(line));
        let mut heads = own.filter_map(|line| line.head);
        heads.try_for_each(|head| batch.add(writer, index, &head))
    }

    /// Takes the stored heads of the records that other lines name, and answers with the lines that the batch then lacks.
    pub(crate) fn add_stored(
        &self,
        batch: &mut HeadBatch,
        writer: &Writer<'_>,
        index: &HeadIndex,
        left: &LeftSpool,
    ) -> Result<Aside, Error> {
        let is_own = self.is_own(writer, left)?;
        let unproved: Vec<&SpoolLine> = left.lines.iter().filter(|line| !is_own(line)).collect();
        let named = unproved.iter().filter_map(|line| line.head);
        let named: BTreeSet<_> = named.map(|logged| logged.head.record).collect();
        let heads = self.stored_heads();
        let mut is_known = true;
        for record in named {
            match heads.fetch(&record) {
                Ok(Some(stored)) => batch.add(writer, index, &stored.to_log())?,
                Ok(None) => {}
                // It delays no other head: the file stays, and is read again.
                Err(_) => is_known = false,
            }
        }
        let mut aside = Vec::new();
        for line in unproved {
            let holds = |head: &LoggedHead| batch.holds(writer, index, head);
            if !line.head.as_ref().map_or(Ok(false), holds)? {
                aside.push(line.bytes.clone());
            }
        }
        Ok(is_known.then_some(aside))
    }

    /// Reads lines again that were set aside: the secret, or the head, may be back.
    pub(crate) fn retry(&self, writer: &mut Writer<'_>, index: &HeadIndex) -> Result<(), Error> {
        let (mut batch, mut settled) = (HeadBatch::begin(writer), Vec::new());
        for left in LeftSpool::each(self.dir, &self.dir.set_aside()) {
            self.add_own(&mut batch, writer, index, &left)?;
            let aside = self.add_stored(&mut batch, writer, index, &left)?;
            if aside.is_some_and(|aside| aside.is_empty()) {
                settled.push(left);
            }
        }
        writer.commit(&batch.entries)?;
        settled.into_iter().for_each(|left| left.done(self.dir));
        Ok(())
    }

    /// Commits the heads that wait in any process of this home: their records may be known in no
    /// store of this home.
    pub(crate) fn commit_waiting(
        &self,
        writer: &mut Writer<'_>,
        index: &HeadIndex,
    ) -> Result<(), Error> {
        let mut batch = HeadBatch::begin(writer);
        let lines = LeftSpool::peek(self.dir);
        let own = lines.iter().filter(|line| line.log == Some(self.log));
        for head in own.filter_map(|line| line.head) {
            batch.add(writer, index, &head)?;
        }
        writer.commit(&batch.entries)
    }

    /// Commits the stored heads of the home that the log lacks; answers how many.
    pub(crate) fn commit_stored(
        &self,
        writer: &mut Writer<'_>,
        index: &HeadIndex,
    ) -> Result<usize, Error> {
        let mut batch = HeadBatch::begin(writer);
        for stored in self.stored_heads().all()? {
            batch.add(writer, index, &stored)?;
        }
        writer.commit(&batch.entries)?;
        Ok(batch.entries.len())
    }

    /// Keeps lines for people, durably; a process that is killed here keeps the same lines under the same name next time.
    pub(crate) fn keep(&self, lines: &[Vec<u8>]) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        let (fs, folder) = (&*self.dir.fs, self.dir.set_aside());
        atomic::create_directories(fs, &folder, PRIVATE_DIRECTORY)?;
        let path = folder.join(&Digest::of(&bytes).to_hex()[..NAME_DIGITS]);
        match fs.symlink_metadata(&path) {
            // The process that wrote it may have died before its name was durable.
            Ok(_) => {
                let synced = fs.sync_dir(&folder);
                synced.map_err(|error| sys::failure("write", &path, &error))
            }
            Err(_) => atomic::create_new(fs, &path, &bytes, PRIVATE_FILE),
        }
    }

    fn stored_heads(&self) -> FileHeadStore {
        FileHeadStore::new(Arc::clone(&self.dir.fs), self.dir.home().join("heads"))
    }

    /// Which lines of this file a process of this home wrote for this log, or for the one that it replaced.
    fn is_own(
        &self,
        writer: &Writer<'_>,
        left: &LeftSpool,
    ) -> Result<impl Fn(&SpoolLine) -> bool + use<>, Error> {
        let own = self.log;
        let of_other = |line: &SpoolLine| line.log.is_some_and(|log| log != own);
        let before = match left.lines.iter().any(of_other) {
            true => replaced_log(writer)?,
            false => None,
        };
        Ok(move |line: &SpoolLine| {
            line.log
                .is_some_and(|log| log == own || Some(log) == before)
        })
    }
}

/// The log that this one replaced.
fn replaced_log(writer: &Writer<'_>) -> Result<Option<LogId>, Error> {
    if writer.contents().size() == 0 {
        return Ok(None);
    }
    let first = writer.contents().entry(0)?;
    match LogEntry::read(&first) {
        Ok(LogEntry::Restart(restart)) => Ok(LogId::of_origin(restart.origin.as_str())),
        _ => Ok(None),
    }
}
