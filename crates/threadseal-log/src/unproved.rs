//! What becomes of lines of the spool of which nothing shows that this home wrote them.
//!
//! ```text
//! log/set-aside/<32 hex of the digest>   such lines, each with LF
//! ```
//! A line may be forged, torn, of another home or log, from before lines had tags, or from before the home's secret was lost. So it accuses
//! nothing, and is not written down. It says at most that the log may lack something of its record: then the newest head
//! that the home's own store has of that record is written down, for a head is stored before its line is written. A line that says no more than the log
//! then has is dropped, any other is set aside, and no seal waits for it.

use super::batch::Batch;
use super::description::LogId;
use super::index::Index;
use super::place::Place;
use super::spool::{Left, Line, MAX_SPOOL_BYTES};
use super::writer::Writer;
use super::{SealLog, Shared};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::heads::{FileHeadStore, HeadStore as _};
use threadseal_store::home::PRIVATE_DIRECTORY;
use threadseal_store::sys;

/// Lines of a file that are to be set aside; None where that cannot be told yet.
pub(super) type Aside = Option<Vec<Vec<u8>>>;

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

impl SealLog {
    /// Lines of the spool that were set aside, for people to look at and to remove.
    ///
    /// # Errors
    /// Kind `External` when a file cannot be read.
    pub fn set_aside(&self) -> Result<SetAside, Error> {
        let place = &self.shared.place;
        let folder = place.set_aside();
        let names = match place.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(sys::failure("read", &folder, &error)),
        };
        let mut lines = 0;
        for name in names.iter().filter(|name| name.len() == NAME_DIGITS) {
            let bytes = place.read(&folder.join(name), MAX_SPOOL_BYTES)?;
            lines += memchr::memchr_iter(b'\n', &bytes.unwrap_or_default()).count();
        }
        Ok(SetAside { lines, folder })
    }
}

impl Shared {
    /// Takes lines that this home wrote for this log, or for the one that it follows.
    pub(super) fn add_own(
        &self,
        batch: &mut Batch,
        writer: &Writer<'_>,
        index: &Index,
        left: &Left,
    ) -> Result<(), Error> {
        let is_own = self.is_own(writer, left)?;
        let own = left.lines.iter().filter(|line| is_own(line));
        let mut heads = own.filter_map(|line| line.head);
        heads.try_for_each(|head| batch.add(writer, index, &head))
    }

    /// Takes what the home's store has of the records that other lines name, and answers with those lines that say something else.
    pub(super) fn add_stored(
        &self,
        batch: &mut Batch,
        writer: &Writer<'_>,
        index: &Index,
        left: &Left,
    ) -> Result<Aside, Error> {
        let is_own = self.is_own(writer, left)?;
        let unproved: Vec<&Line> = left.lines.iter().filter(|line| !is_own(line)).collect();
        let named = unproved.iter().filter_map(|line| line.head);
        let named: BTreeSet<_> = named.map(|logged| logged.head.record).collect();
        let heads = self.heads();
        let mut is_told = true;
        for record in named {
            match heads.fetch(&record) {
                Ok(Some(stored)) => batch.add(writer, index, &stored.to_log())?,
                Ok(None) => {}
                // It holds up no other head: the file stays, and is looked at again.
                Err(_) => is_told = false,
            }
        }
        let mut aside = Vec::new();
        for line in unproved {
            let holds = |head: &LoggedHead| batch.holds(writer, index, head);
            if !line.head.as_ref().map_or(Ok(false), holds)? {
                aside.push(line.bytes.clone());
            }
        }
        Ok(is_told.then_some(aside))
    }

    /// Looks again at lines that were set aside: the secret, or the head, may be back.
    pub(super) fn look_again(&self, writer: &mut Writer<'_>, index: &Index) -> Result<(), Error> {
        let (mut batch, mut settled) = (Batch::begin(writer), Vec::new());
        for left in Left::each(&self.place, &self.place.set_aside()) {
            self.add_own(&mut batch, writer, index, &left)?;
            let aside = self.add_stored(&mut batch, writer, index, &left)?;
            if aside.is_some_and(|aside| aside.is_empty()) {
                settled.push(left);
            }
        }
        writer.commit(&batch.entries)?;
        settled.into_iter().for_each(|left| left.done(&self.place));
        Ok(())
    }

    /// Writes down what the home's store of heads has and the log lacks; answers how much that was.
    pub(super) fn commit_stored(
        &self,
        writer: &mut Writer<'_>,
        index: &Index,
    ) -> Result<usize, Error> {
        let mut batch = Batch::begin(writer);
        for stored in self.heads().all()? {
            batch.add(writer, index, &stored)?;
        }
        writer.commit(&batch.entries)?;
        Ok(batch.entries.len())
    }

    fn heads(&self) -> FileHeadStore {
        let place = &self.place;
        FileHeadStore::new(Arc::clone(&place.fs), place.home().join("heads"))
    }

    /// Which lines of this file a process of this home wrote for this log, or for the one that it follows.
    fn is_own(
        &self,
        writer: &Writer<'_>,
        left: &Left,
    ) -> Result<impl Fn(&Line) -> bool + use<>, Error> {
        let own = self.description.id;
        let of_other = |line: &Line| line.log.is_some_and(|log| log != own);
        let before = match left.lines.iter().any(of_other) {
            true => followed(writer)?,
            false => None,
        };
        Ok(move |line: &Line| {
            line.log
                .is_some_and(|log| log == own || Some(log) == before)
        })
    }
}

/// The log in whose place this one was made.
fn followed(writer: &Writer<'_>) -> Result<Option<LogId>, Error> {
    if writer.contents().size() == 0 {
        return Ok(None);
    }
    let first = writer.contents().entry(0)?;
    match LogEntry::read(&first) {
        Ok(LogEntry::Restart(restart)) => Ok(LogId::of_origin(restart.origin.as_str())),
        _ => Ok(None),
    }
}

/// Keeps lines for people, durably; whoever is cut short keeps the same lines under the same name again.
pub(super) fn keep(place: &Place, lines: &[Vec<u8>]) -> Result<(), Error> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut bytes = lines.join(&b'\n');
    bytes.push(b'\n');
    let folder = place.set_aside();
    atomic::create_directories(&*place.fs, &folder, PRIVATE_DIRECTORY)?;
    let path = folder.join(&Digest::of(&bytes).to_hex()[..NAME_DIGITS]);
    match place.fs.symlink_metadata(&path) {
        // Whoever wrote it may not have come to make its name durable.
        Ok(_) => {
            let synced = place.fs.sync_dir(&folder);
            synced.map_err(|error| sys::failure("write", &path, &error))
        }
        Err(_) => atomic::create_new(&*place.fs, &path, &bytes, PRIVATE_FILE),
    }
}
