//! A home in one encrypted file, and back (`spec/host-log.md`, "Backups of a home").
//!
//! ```text
//! age file ─► ustar archive ─► threadseal-backup.json        the description, first
//!                              keys/… trust.toml log/… …      regular files only, each once
//! ```
//! * `snapshot` decides which files, in which order and under which locks.
//! * `pack` writes the archive, `unpack` reads it into a folder that becomes the home at the end.
//! * `seal` is the age format: a passphrase, or recipients.

mod pack;
mod seal;
mod snapshot;
mod unpack;

pub(crate) use pack::write;
pub(crate) use seal::{Opener, Sealer};
pub(crate) use unpack::restore;

use serde::{Deserialize, Serialize};

/// The first file of the archive.
const DESCRIPTION: &str = "threadseal-backup.json";
/// The format of the archive.
const FORMAT: &str = "threadseal-backup/1";
/// Largest description in bytes.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 10;
/// Most files of one backup.
const MAX_BACKUP_FILES: u64 = 1 << 22;
/// Most bytes of all files of one backup.
const MAX_BACKUP_BYTES: u64 = 1 << 40;
/// Longest path of a file in bytes; ustar has room for 255.
const MAX_BACKUP_PATH_BYTES: usize = 255;
/// Most folders around a file.
const MAX_BACKUP_DEPTH: usize = 16;
/// Most bytes after the end of the archive; ustar fills its last block with zeros.
const MAX_BACKUP_PADDING: u64 = 1 << 20;

/// What a backup states about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    format: String,
    /// The home that was backed up, as a report spells paths.
    pub(crate) home: String,
    /// When, to the second.
    pub(crate) made: String,
    /// The origin of its log, if it has one.
    pub(crate) origin: Option<String>,
}

impl Description {
    pub(crate) fn new(home: String, made: String, origin: Option<String>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            home,
            made,
            origin,
        }
    }
}

/// How much was written or read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}
