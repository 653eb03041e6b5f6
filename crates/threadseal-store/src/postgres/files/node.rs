//! [`Node`]: a file that this process writes, and the version of it that it has made.

use super::changes::{LEASE, LeasedDatabase};
use super::row::{Row, new_inode, parent_of, signed};
use crate::postgres::database::Value;
use crate::sys::Metadata;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use threadseal_core::error::Error;

/// Files that this process appends to, by inode.
#[derive(Default)]
pub(super) struct OpenNodes(Mutex<HashMap<i64, Weak<Node>>>);

impl OpenNodes {
    fn nodes(&self) -> MutexGuard<'_, HashMap<i64, Weak<Node>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one node of an open file, so that all handles of it know the same version.
    pub(super) fn node(&self, leased: &Arc<LeasedDatabase>, row: &Row) -> Arc<Node> {
        let mut open = self.nodes();
        open.retain(|_, node| node.strong_count() > 0);
        if let Some(node) = open.get(&row.inode).and_then(Weak::upgrade) {
            return node;
        }
        let node = Arc::new(Node::named(Arc::clone(leased), row));
        open.insert(row.inode, Arc::downgrade(&node));
        node
    }

    pub(super) fn insert(&self, node: &Arc<Node>) {
        self.nodes().insert(node.inode(), Arc::downgrade(node));
    }

    pub(super) fn is_locked(&self, inode: i64) -> bool {
        let node = self.nodes().get(&inode).and_then(Weak::upgrade);
        node.is_some_and(|node| node.is_locked())
    }
}

/// A file that this process writes.
pub(super) struct Node {
    pub(super) leased: Arc<LeasedDatabase>,
    state: Mutex<State>,
    locked: AtomicBool,
}

struct State {
    row: Row,
    /// The bytes of a file that has no name yet.
    unnamed: Option<Vec<u8>>,
}

impl Node {
    fn named(leased: Arc<LeasedDatabase>, row: &Row) -> Self {
        Self::of(leased, row.clone(), None)
    }

    pub(super) fn unnamed(leased: Arc<LeasedDatabase>, mode: u32) -> io::Result<Self> {
        let row = Row {
            inode: new_inode()?,
            is_folder: false,
            mode,
            size: 0,
            version: 0,
        };
        Ok(Self::of(leased, row, Some(Vec::new())))
    }

    fn of(leased: Arc<LeasedDatabase>, row: Row, unnamed: Option<Vec<u8>>) -> Self {
        Self {
            leased,
            state: Mutex::new(State { row, unnamed }),
            locked: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn inode(&self) -> i64 {
        self.state().row.inode
    }

    pub(super) fn metadata(&self) -> Metadata {
        self.state().row.metadata()
    }

    pub(super) fn try_lock(&self) -> bool {
        !self.locked.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Acquire)
    }

    pub(super) fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }

    /// Bytes of a file that has no name yet.
    pub(super) fn in_memory(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        let state = self.state();
        let bytes = state.unnamed.as_ref()?;
        let from = usize::try_from(offset).map_or(bytes.len(), |from| from.min(bytes.len()));
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Some(count)
    }

    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.state();
        let State { row, unnamed } = &mut *state;
        if let Some(unnamed) = unnamed {
            unnamed.extend_from_slice(bytes);
            row.size = unnamed.len() as u64;
            return Ok(());
        }
        let added = signed(bytes.len() as u64);
        let sql = format!(
            "{LEASE}, file AS (
               UPDATE threadseal_files
               SET size = size + $7, version = version + 1, changed_at = clock_timestamp()
               WHERE inode = $4 AND order_id = $1 AND version = $5 AND size = $6
                 AND EXISTS (SELECT 1 FROM lease)
               RETURNING 1)
             INSERT INTO threadseal_chunks SELECT $4, $6, $8 FROM file RETURNING 1"
        );
        self.change(row, &sql, &[&added, &bytes])?;
        row.size += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn cut(&self, size: u64) -> io::Result<()> {
        let mut state = self.state();
        let State { row, unnamed } = &mut *state;
        if size > row.size {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if let Some(unnamed) = unnamed {
            unnamed.truncate(usize::try_from(size).unwrap_or(usize::MAX));
            row.size = size;
            return Ok(());
        }
        if size == row.size {
            return Ok(());
        }
        let left = signed(size);
        let sql = format!(
            "{LEASE}, file AS (
               UPDATE threadseal_files
               SET size = $7, version = version + 1, changed_at = clock_timestamp()
               WHERE inode = $4 AND order_id = $1 AND version = $5 AND size = $6
                 AND EXISTS (SELECT 1 FROM lease)
               RETURNING inode),
             beyond AS (DELETE FROM threadseal_chunks c USING file WHERE c.inode = file.inode AND c.at >= $7),
             across AS (
               UPDATE threadseal_chunks c SET bytes = substring(c.bytes FOR ($7 - c.at)::integer)
               FROM file
               WHERE c.inode = file.inode AND c.at < $7 AND c.at + octet_length(c.bytes) > $7)
             SELECT 1 FROM file"
        );
        self.change(row, &sql, &[&left])?;
        row.size = size;
        Ok(())
    }

    /// Sends a change of the file as this writer knows it. If the row differs, nothing is done.
    fn change(&self, row: &mut Row, sql: &str, more: &[Value<'_>]) -> io::Result<()> {
        let (order, token, holder) = self.leased.lease()?.values();
        let size = signed(row.size);
        let mut values: Vec<Value<'_>> =
            vec![&order, &token, &holder, &row.inode, &row.version, &size];
        values.extend(more);
        if self.leased.once(sql, &values)?.is_empty() {
            self.leased.check()?;
            let text = "another process changed the file: nothing was written";
            return self.leased.done(Err(Error::refused(text)));
        }
        row.version += 1;
        Ok(())
    }

    /// Gives a new file its name, with all of its bytes.
    pub(super) fn name(&self, path: &str, replace: bool) -> io::Result<()> {
        let mut state = self.state();
        let State { row, unnamed } = &mut *state;
        let Some(bytes) = unnamed else {
            return Err(io::ErrorKind::AlreadyExists.into());
        };
        let (order, token, holder) = self.leased.lease()?.values();
        let (mode, size) = (i32::try_from(row.mode).unwrap_or(0o600), signed(row.size));
        // An existing file is removed first: `made` reads the rows that `gone` returned.
        let sql = format!(
            "{LEASE}, gone AS (
               DELETE FROM threadseal_files
               WHERE $10 AND path = $4 AND order_id = $1 AND NOT is_folder AND EXISTS (SELECT 1 FROM lease)
               RETURNING inode),
             dropped AS (DELETE FROM threadseal_chunks c USING gone WHERE c.inode = gone.inode),
             made AS (
               INSERT INTO threadseal_files (path, folder, inode, order_id, is_folder, mode, size, version)
               SELECT $4, $5, $6, $1, false, $7, $8, 0 FROM lease
               WHERE (SELECT count(*) FROM gone) >= 0
               ON CONFLICT DO NOTHING RETURNING inode),
             filled AS (
               INSERT INTO threadseal_chunks SELECT made.inode, 0, $9 FROM made WHERE $8 > 0)
             SELECT 1 FROM made"
        );
        let folder = parent_of(path);
        let values: [Value<'_>; 10] = [
            &order,
            &token,
            &holder,
            &path,
            &folder,
            &row.inode,
            &mode,
            &size,
            &&bytes[..],
            &replace,
        ];
        if self.leased.once(&sql, &values)?.is_empty() {
            self.leased.check()?;
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        *unnamed = None;
        Ok(())
    }
}
