//! Open files of the database.

use super::changes::{LeasedDatabase, failed};
use super::node::{Node, OpenNodes};
use super::row::{Row, signed};
use crate::postgres::database::{PostgresDatabase, Session, cell};
use crate::sys::{FileHandle, Metadata};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are fetched at once.
const WINDOW_BYTES: usize = 256 << 10;

/// All chunks that hold bytes of `$2..$3`.
const CHUNKS: &str = "
SELECT at, bytes FROM threadseal_chunks
WHERE inode = $1 AND at < $3
  AND at >= coalesce((SELECT max(at) FROM threadseal_chunks WHERE inode = $1 AND at <= $2), 0)
ORDER BY at";

/// A file that is only read.
pub(super) struct Reading {
    leased: Arc<LeasedDatabase>,
    open: Arc<OpenNodes>,
    row: Row,
    window: Window,
}

impl Reading {
    pub(super) fn new(leased: Arc<LeasedDatabase>, open: Arc<OpenNodes>, row: Row) -> Self {
        Self {
            leased,
            open,
            row,
            window: Window::default(),
        }
    }
}

/// A file that this process appends to.
pub(super) struct Appending {
    node: Arc<Node>,
    holds: AtomicBool,
    window: Window,
}

impl Appending {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            holds: AtomicBool::new(false),
            window: Window::default(),
        }
    }
}

/// The bytes that were fetched last, and where they begin.
#[derive(Default)]
struct Window(Mutex<(u64, Vec<u8>)>);

impl Window {
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (0, Vec::new());
    }

    /// Fills `buffer` from `offset`, of a file with `size` bytes.
    fn read(
        &self,
        database: &PostgresDatabase,
        inode: i64,
        size: u64,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        if wanted == 0 {
            return Ok(0);
        }
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = |window: &(u64, Vec<u8>)| {
            let from = usize::try_from(offset.checked_sub(window.0)?).ok()?;
            (window.1.len() >= from.checked_add(wanted)?).then_some(from)
        };
        if held(&window).is_none() {
            let end = offset
                .saturating_add(wanted.max(WINDOW_BYTES) as u64)
                .min(size);
            *window = fetch(database, inode, offset, end)?;
        }
        let Some(from) = held(&window) else {
            // The file was replaced or cut since it was opened.
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        };
        buffer[..wanted].copy_from_slice(&window.1[from..from + wanted]);
        Ok(wanted)
    }
}

fn fetch(
    database: &PostgresDatabase,
    inode: i64,
    from: u64,
    to: u64,
) -> io::Result<(u64, Vec<u8>)> {
    let rows = database
        .read(|session: &Session<'_>| session.query(CHUNKS, &[&inode, &signed(from), &signed(to)]));
    let (mut begin, mut bytes): (Option<u64>, Vec<u8>) = (None, Vec::new());
    for row in &rows.map_err(failed)? {
        let at: i64 = cell(row, 0).map_err(failed)?;
        let chunk: &[u8] = cell(row, 1).map_err(failed)?;
        let at = u64::try_from(at).unwrap_or(0);
        let begin = *begin.get_or_insert(at);
        // A hole or an overlap was not made by an append.
        if begin + bytes.len() as u64 != at {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(chunk);
    }
    Ok((begin.unwrap_or(from), bytes))
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::PermissionDenied.into())
}

impl FileHandle for Reading {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let size = match self.row.size > offset {
            true => self.row.size,
            // It may have grown.
            false => self.metadata()?.size,
        };
        self.window
            .read(&self.leased.database, self.row.inode, size, buffer, offset)
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        read_only()
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        read_only()
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        read_only()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        if self.row.is_folder {
            return Ok(self.row.metadata());
        }
        let inode = self.row.inode;
        let found = self
            .leased
            .database
            .read(|session| Row::of_inode(session, inode))
            .map_err(failed)?;
        Ok(match found {
            Some(row) => row.metadata(),
            None => Metadata {
                links: 0,
                ..self.row.metadata()
            },
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        // A reader excludes no one, and waits for writers of this process.
        Ok(!self.open.is_locked(self.row.inode))
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FileHandle for Appending {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(count) = self.node.in_memory(buffer, offset) {
            return Ok(count);
        }
        let size = self.node.metadata().size;
        let inode = self.node.inode();
        self.window
            .read(&self.node.leased.database, inode, size, buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.node.append(bytes)?;
        Ok(bytes.len())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        // A write that only makes old bytes durable is not needed: appended bytes are durable.
        let mut there = vec![0; bytes.len()];
        let count = self.read_at(&mut there, offset)?;
        match count == bytes.len() && there == bytes {
            true => Ok(count),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.window.forget();
        self.node.cut(size)
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        // The database itself decides who may read it.
        Ok(())
    }

    fn metadata(&self) -> io::Result<Metadata> {
        Ok(self.node.metadata())
    }

    fn try_lock(&self) -> io::Result<bool> {
        if self.holds.load(Ordering::Acquire) {
            return Ok(true);
        }
        let locked = self.node.try_lock();
        self.holds.store(locked, Ordering::Release);
        Ok(locked)
    }

    fn unlock(&self) -> io::Result<()> {
        if self.holds.swap(false, Ordering::AcqRel) {
            self.node.unlock();
        }
        Ok(())
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        // As the kernel does with the last copy of a handle.
        let _ = self.unlock();
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("row", &self.row)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Appending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appending")
            .field("inode", &self.node.inode())
            .finish_non_exhaustive()
    }
}
