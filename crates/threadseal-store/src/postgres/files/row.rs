//! [`Row`]: the state of one file in the database, and the values that its columns hold.

use super::changes::failed;
use crate::postgres::database::{Session, Value, cell};
use crate::random::{self, SystemRandom};
use crate::sys::{FileIdentity, FileKind, Fs as _, Metadata, RealFs};
use std::io;
use threadseal_core::error::Error;

/// Device number of all files of the database: none that a kernel gives.
pub(super) const DEVICE: u64 = u64::MAX;

/// A file or folder, from its row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) inode: i64,
    pub(super) is_folder: bool,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) version: i64,
}

const COLUMNS: &str = "SELECT inode, is_folder, mode, size, version FROM threadseal_files";

impl Row {
    pub(super) fn of_path(session: &Session<'_>, path: &str) -> Result<Option<Self>, Error> {
        Self::one(session, &format!("{COLUMNS} WHERE path = $1"), &path)
    }

    pub(super) fn of_inode(session: &Session<'_>, inode: i64) -> Result<Option<Self>, Error> {
        Self::one(session, &format!("{COLUMNS} WHERE inode = $1"), &inode)
    }

    fn one(session: &Session<'_>, sql: &str, key: Value<'_>) -> Result<Option<Self>, Error> {
        let Some(row) = session.opt(sql, &[key])? else {
            return Ok(None);
        };
        Ok(Some(Self {
            inode: cell(&row, 0)?,
            is_folder: cell(&row, 1)?,
            mode: u32::try_from(cell::<i32>(&row, 2)?).unwrap_or(0),
            size: u64::try_from(cell::<i64>(&row, 3)?).unwrap_or(0),
            version: cell(&row, 4)?,
        }))
    }

    /// A folder of which nothing else matters.
    pub(super) fn folder() -> Self {
        Self {
            inode: 0,
            is_folder: true,
            mode: 0o700,
            size: 0,
            version: 0,
        }
    }

    pub(super) fn metadata(&self) -> Metadata {
        Metadata {
            kind: kind_of(self.is_folder),
            size: self.size,
            mode: self.mode,
            uid: RealFs.effective_uid(),
            identity: FileIdentity {
                device: DEVICE,
                inode: self.inode.unsigned_abs(),
            },
            links: 1,
            modified_ns: self.version.into(),
            changed_ns: self.version.into(),
        }
    }
}

pub(super) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn kind_of(is_folder: bool) -> FileKind {
    match is_folder {
        true => FileKind::Directory,
        false => FileKind::Regular,
    }
}

/// A number that no other file has.
pub(super) fn new_inode() -> io::Result<i64> {
    let bytes: [u8; 8] = random::array(&SystemRandom).map_err(failed)?;
    // Positive, and never 0.
    Ok((i64::from_be_bytes(bytes) & i64::MAX) | 1)
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
