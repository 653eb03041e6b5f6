//! [`Last`]: the tree of one log that may have been signed last, and the time.
//!
//! ```text
//! last   threadseal/1 witness LF
//!        time <decimal seconds> LF       0: nothing was cosigned yet, and nothing follows
//!        <a signed note>                 the checkpoint, with lines of the log alone
//! ```

use std::io;
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::checkpoint::{Checkpoint, Origin, parse_size};
use threadseal_core::tlog::cosignature::CosignatureTime;
use threadseal_core::tlog::witness::Accepted;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::read;
use threadseal_store::sys::Fs;

const FILE: &str = "last";
const HEAD: &str = "threadseal/1 witness\ntime ";
const MAX_LAST_BYTES: usize = MAX_NOTE_BYTES + 64;

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Last(Option<Signed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Signed {
    time: CosignatureTime,
    tree: TreeHead,
    note: SignedNote,
}

impl Last {
    /// Of a log that was never cosigned.
    pub(super) fn nothing() -> Self {
        Self(None)
    }

    /// Of one that is about to be.
    pub(super) fn of(accepted: &Accepted, time: CosignatureTime) -> Self {
        Self(Some(Signed {
            time,
            tree: *accepted.checkpoint().tree(),
            note: accepted.note().clone(),
        }))
    }

    /// Reads it.
    ///
    /// # Errors
    /// Kind `External` when it is lacking, damaged or another log's.
    pub(super) fn read(fs: &dyn Fs, folder: &Path, origin: &Origin) -> Result<Self, Error> {
        let bytes = read_if_there(fs, &folder.join(FILE), MAX_LAST_BYTES)?;
        let bytes = bytes.ok_or_else(|| lost(folder))?;
        Self::parse(&bytes, origin).ok_or_else(|| lost(folder))
    }

    fn parse(bytes: &[u8], origin: &Origin) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (time, note) = text.strip_prefix(HEAD)?.split_once('\n')?;
        let seconds = parse_size(time)?;
        if seconds == 0 {
            return note.is_empty().then_some(Self::nothing());
        }
        let note = SignedNote::parse(note).ok()?;
        let checkpoint = Checkpoint::parse(note.text()).ok()?;
        (checkpoint.origin() == origin).then_some(Self(Some(Signed {
            time: CosignatureTime::from_seconds(seconds)?,
            tree: *checkpoint.tree(),
            note,
        })))
    }

    /// Puts it durably in the place of what was there.
    pub(super) fn write(&self, fs: &dyn Fs, folder: &Path) -> Result<(), Error> {
        let text = match &self.0 {
            None => format!("{HEAD}0\n"),
            Some(signed) => format!("{HEAD}{}\n{}", signed.time, signed.note),
        };
        let path = folder.join(FILE);
        atomic::replace(fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    pub(super) fn tree(&self) -> Option<TreeHead> {
        self.0.as_ref().map(|signed| signed.tree)
    }

    pub(super) fn time(&self) -> Option<CosignatureTime> {
        self.0.as_ref().map(|signed| signed.time)
    }

    pub(super) fn note(&self) -> Option<&SignedNote> {
        self.0.as_ref().map(|signed| &signed.note)
    }
}

/// Is there one, whatever its content?
pub(super) fn exists(fs: &dyn Fs, folder: &Path) -> Result<bool, Error> {
    read_if_there(fs, &folder.join(FILE), MAX_LAST_BYTES).map(|found| found.is_some())
}

pub(super) fn lost(folder: &Path) -> Error {
    let path = folder.join(FILE);
    Error::new(
        ErrorKind::External,
        format!(
            "{} is missing or damaged: the last cosigned checkpoint of this log is not known, and nothing is cosigned",
            path.display()
        ),
    )
}

/// The bytes of a file; None if there is none.
pub(crate) fn read_if_there(
    fs: &dyn Fs,
    path: &Path,
    limit: usize,
) -> Result<Option<Vec<u8>>, Error> {
    match fs.symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => read::read_small(fs, path, limit).map(Some),
    }
}
