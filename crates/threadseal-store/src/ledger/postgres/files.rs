//! [`LeasedFs`]: folders that are stored in PostgreSQL; all other paths stay on the disk.
//!
//! ```text
//! threadseal_files    path, folder, inode, order_id, is_folder, mode, size, version, changed_at
//! threadseal_chunks   inode, at, bytes: those of one append
//! ```
//! A path below one of the folders opens a file of the database. The same code that writes to a
//! disk writes records, metadata, ledgers and entries of threads there. No part of them is on a
//! disk. (Files of lines on a shared disk have no fencing: a writer that slept may write after
//! another took over.)
//!
//! * Each change is one statement. It checks the lease ([`super::leases`]), and that the file
//!   belongs to the lease's order. The file's version and size must be those that this writer
//!   knows. The statement advances both. If it returns no row, the writer stops.
//! * After one refused change a process writes nothing more, to no file.
//! * A change is durable when it returns; there is nothing to sync.
//! * A new file is held in memory until it gets its name. So a crash leaves no half of one.
//! * The lock of a file separates the threads of one process; the lease separates processes.
//! * Without a lease everything is read-only; only a request to the holder may be left ([`leave`]).

mod handle;
mod leaving;
mod listing;
mod node;

pub use leaving::leave;
pub use listing::{Listing, list, of_order, order_of};

use super::database::{PostgresDatabase, Session, cell};
use super::leases::Lease;
use crate::sys::{Access, FileHandle, FileIdentity, FileKind, Fs, Metadata};
use handle::{Appending, Reading};
use node::{Node, Row};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use threadseal_core::error::{Error, ErrorKind};

/// Device number of all files of the database: none that a kernel gives.
const DEVICE: u64 = u64::MAX;

const VERSIONS: [&str; 2] = [
    "
CREATE TABLE threadseal_files (
  path text COLLATE \"C\" PRIMARY KEY,
  folder text COLLATE \"C\" NOT NULL,
  inode bigint NOT NULL UNIQUE,
  order_id bigint NOT NULL,
  is_folder boolean NOT NULL,
  mode integer NOT NULL,
  size bigint NOT NULL CHECK (size >= 0),
  version bigint NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
CREATE INDEX threadseal_files_folder ON threadseal_files (folder);
CREATE TABLE threadseal_chunks (
  inode bigint NOT NULL,
  at bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (inode, at)
);
",
    "
CREATE INDEX threadseal_files_order ON threadseal_files (order_id);
",
];

/// Begins each statement that changes a row: without a row of `lease` it does nothing. `$1` to `$3`
/// are the lease's.
pub(super) const LEASE: &str = "
WITH lease AS MATERIALIZED (
  SELECT 1 FROM threadseal_orders
  WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken' AND expires_at > clock_timestamp()
  FOR SHARE)";

/// Folders in PostgreSQL, seen by one process.
#[derive(Clone)]
pub struct LeasedFs(Arc<Inner>);

struct Inner {
    real: Arc<dyn Fs>,
    database: PostgresDatabase,
    lease: Option<Lease>,
    /// The base of paths in the database.
    root: PathBuf,
    /// The folders in the database, absolute.
    folders: Vec<PathBuf>,
    /// Files that this process appends to, by inode.
    open: Mutex<HashMap<i64, Weak<Node>>>,
    /// New files that have no name yet, by the temporary one.
    unnamed: Mutex<HashMap<String, Arc<Node>>>,
    /// Folders that exist: they are never removed.
    known: Mutex<HashSet<String>>,
    /// A change was refused: this process writes nothing more.
    stopped: AtomicBool,
}

impl LeasedFs {
    /// Shows `folders`, relative to `root`, from the database, and all other paths from `real`.
    ///
    /// # Errors
    /// As [`PostgresDatabase::migrate`]; [`ErrorKind::External`] when `root` is no folder.
    pub fn open(
        database: &PostgresDatabase,
        lease: Option<Lease>,
        real: Arc<dyn Fs>,
        root: &Path,
        folders: &[&str],
    ) -> Result<Self, Error> {
        // A lease's order must be there before its files are.
        super::leases::Orders::open(database)?;
        database.migrate("files", &VERSIONS)?;
        let real_root = real
            .canonicalize(root)
            .map_err(|error| crate::sys::failure("open", root, &error))?;
        Ok(Self(Arc::new(Inner {
            real,
            database: database.clone(),
            lease,
            folders: folders
                .iter()
                .map(|folder| real_root.join(folder))
                .collect(),
            root: real_root,
            open: Mutex::default(),
            unnamed: Mutex::default(),
            known: Mutex::default(),
            stopped: AtomicBool::new(false),
        })))
    }
}

impl Inner {
    /// The path in the database, if it is there.
    fn inside(&self, path: &Path) -> io::Result<Option<String>> {
        if !self.folders.iter().any(|folder| path.starts_with(folder)) {
            return Ok(None);
        }
        let relative = path
            .strip_prefix(&self.root)
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let text = relative
            .to_str()
            .filter(|_| relative.components().all(plain));
        let text = text.filter(|text| !text.contains('\0'));
        text.map(|text| Some(text.to_owned()))
            .ok_or_else(|| io::ErrorKind::InvalidFilename.into())
    }

    /// Is this one of the folders in the database, or above one?
    fn leads_in(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| folder.starts_with(path))
    }

    /// The lease to write under. After one refused change this process writes nothing more, also to
    /// no other file. Otherwise it would continue there after the loss of the lease.
    fn lease(&self) -> io::Result<&Lease> {
        if self.stopped.load(Ordering::Acquire) {
            let text = "an earlier change was not taken: this worker has stopped";
            return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, text));
        }
        self.lease.as_ref().ok_or_else(|| {
            let text = "threads in a database are written by workers only";
            io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text)
        })
    }

    /// The result of a change; after a failure nothing is written any more.
    fn done<T>(&self, done: Result<T, Error>) -> io::Result<T> {
        done.map_err(|error| {
            self.stopped.store(true, Ordering::Release);
            failed(error)
        })
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<i64, Weak<Node>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unnamed(&self) -> MutexGuard<'_, HashMap<String, Arc<Node>>> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row(&self, path: &str) -> io::Result<Option<Row>> {
        let found = self
            .database
            .read(|session: &Session<'_>| Row::of_path(session, path));
        found.map_err(failed)
    }

    fn find(&self, path: &Path, inside: &str) -> io::Result<Row> {
        if self.known().contains(inside) || self.folders.iter().any(|folder| folder == path) {
            return Ok(Row::folder());
        }
        let row = self.row(inside)?.ok_or(io::ErrorKind::NotFound)?;
        if row.is_folder {
            self.known().insert(inside.to_owned());
        }
        Ok(row)
    }

    /// The one node of an open file, so that all handles of it know the same version.
    fn node(self: &Arc<Self>, row: &Row) -> Arc<Node> {
        let mut open = self.nodes();
        open.retain(|_, node| node.strong_count() > 0);
        if let Some(node) = open.get(&row.inode).and_then(Weak::upgrade) {
            return node;
        }
        let node = Arc::new(Node::named(Arc::clone(self), row));
        open.insert(row.inode, Arc::downgrade(&node));
        node
    }

    fn is_locked(&self, inode: i64) -> bool {
        let node = self.nodes().get(&inode).and_then(Weak::upgrade);
        node.is_some_and(|node| node.is_locked())
    }

    fn open_to_append(self: &Arc<Self>, path: &str) -> io::Result<Arc<dyn FileHandle>> {
        // An early check, before the file is used; each change checks the lease again.
        self.done(self.lease()?.check())?;
        let row = self.row(path)?.ok_or(io::ErrorKind::NotFound)?;
        if row.is_folder {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Arc::new(Appending::new(self.node(&row))))
    }

    fn open_inside(
        self: &Arc<Self>,
        path: &str,
        access: Access,
    ) -> io::Result<Arc<dyn FileHandle>> {
        match access {
            Access::Read => {
                let row = self.find(&self.root.join(path), path)?;
                Ok(Arc::new(Reading::new(Arc::clone(self), row)))
            }
            Access::Append | Access::Rewrite => self.open_to_append(path),
            Access::CreateNew(mode) => {
                self.lease()?;
                if self.row(path)?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                let node = Arc::new(Node::unnamed(Arc::clone(self), mode)?);
                self.unnamed().insert(path.to_owned(), Arc::clone(&node));
                Ok(Arc::new(Appending::new(node)))
            }
            Access::OpenOrCreate(mode) => match self.open_to_append(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let node = Node::unnamed(Arc::clone(self), mode)?;
                    match node.name(path, false) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        named => named?,
                    }
                    self.open_to_append(path)
                }
                opened => opened,
            },
        }
    }

    /// Gives a new file its name, or renames one that has one.
    fn rename_inside(self: &Arc<Self>, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let unnamed = self.unnamed().get(from).cloned();
        let Some(node) = unnamed else {
            // Only new files are ever renamed here.
            return Err(io::ErrorKind::Unsupported.into());
        };
        node.name(to, replace)?;
        self.unnamed().remove(from);
        self.nodes().insert(node.inode(), Arc::downgrade(&node));
        Ok(())
    }

    fn create_folder(&self, path: &str, mode: u32) -> io::Result<()> {
        let (order, token, holder) = self.lease()?.values();
        let (inode, mode) = (node::new_inode()?, i32::try_from(mode).unwrap_or(0o700));
        let sql = format!(
            "{LEASE}
             INSERT INTO threadseal_files (path, folder, inode, order_id, is_folder, mode, size, version)
             SELECT $4, $5, $6, $1, true, $7, 0, 0 FROM lease
             ON CONFLICT DO NOTHING RETURNING 1"
        );
        let folder = parent_of(path);
        let values: [super::Value<'_>; 7] =
            [&order, &token, &holder, &path, &folder, &inode, &mode];
        if self.done(self.database.once(&sql, &values))?.is_empty() {
            self.done(self.lease()?.check())?;
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.known().insert(path.to_owned());
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        if self.unnamed().remove(path).is_some() {
            return Ok(());
        }
        let (order, token, holder) = self.lease()?.values();
        let sql = format!(
            "{LEASE}, gone AS (
               DELETE FROM threadseal_files
               WHERE path = $4 AND order_id = $1 AND NOT is_folder AND EXISTS (SELECT 1 FROM lease)
               RETURNING inode),
             chunks AS (DELETE FROM threadseal_chunks c USING gone WHERE c.inode = gone.inode)
             SELECT 1 FROM gone"
        );
        let values: [super::Value<'_>; 4] = [&order, &token, &holder, &path];
        if self.done(self.database.once(&sql, &values))?.is_empty() {
            self.done(self.lease()?.check())?;
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    fn names_inside(&self, path: &str) -> io::Result<Vec<OsString>> {
        let sql = "SELECT path FROM threadseal_files WHERE folder = $1";
        let rows = self
            .database
            .read(|session| session.query(sql, &[&path]))
            .map_err(failed)?;
        let mut names = Vec::with_capacity(rows.len());
        for row in &rows {
            let path: &str = cell(row, 0).map_err(failed)?;
            names.push(path.rsplit('/').next().unwrap_or(path).into());
        }
        Ok(names)
    }

    /// The names in a folder of the disk that are in the database.
    fn names_below(&self, path: &Path) -> BTreeSet<OsString> {
        let below = self.folders.iter().filter_map(|folder| {
            let rest = folder.strip_prefix(path).ok()?;
            Some(rest.components().next()?.as_os_str().to_owned())
        });
        below.collect()
    }
}

impl Fs for LeasedFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>> {
        match self.0.inside(path)? {
            Some(inside) => self.0.open_inside(&inside, access),
            None => self.0.real.open(path, access),
        }
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if let Some(inside) = self.0.inside(path)? {
            let unnamed = self.0.unnamed().get(&inside).cloned();
            return match unnamed {
                Some(node) => Ok(node.metadata()),
                None => Ok(self.0.find(path, &inside)?.metadata()),
            };
        }
        match self.0.real.metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.0.leads_in(path) => {
                Ok(Row::folder().metadata())
            }
            found => found,
        }
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self.0.inside(path)? {
            Some(_) => self.metadata(path),
            None => self.0.real.symlink_metadata(path),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        // There are no links in the database: a path below its folders is the one there is.
        match self.0.inside(path)? {
            Some(_) => Ok(path.to_owned()),
            None => self.0.real.canonicalize(path),
        }
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.0.inside(path)? {
            Some(_) => Err(io::ErrorKind::InvalidInput.into()),
            None => self.0.real.read_link(path),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        if let Some(inside) = self.0.inside(path)? {
            self.0.find(path, &inside)?;
            return self.0.names_inside(&inside);
        }
        let mut names = self.0.names_below(path);
        match self.0.real.read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !names.is_empty() => {}
            found => names.extend(found?),
        }
        Ok(names.into_iter().collect())
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        match self.0.inside(path)? {
            Some(inside) => self.0.create_folder(&inside, mode),
            None => self.0.real.create_dir(path, mode),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.0.inside(from)?, self.0.inside(to)?) {
            (Some(from), Some(to)) => self.0.rename_inside(&from, &to, true),
            (None, None) => self.0.real.rename(from, to),
            _ => Err(io::ErrorKind::CrossesDevices.into()),
        }
    }

    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.0.inside(from)?, self.0.inside(to)?) {
            (Some(from), Some(to)) => self.0.rename_inside(&from, &to, false),
            (None, None) => self.0.real.rename_no_replace(from, to),
            _ => Err(io::ErrorKind::CrossesDevices.into()),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.0.inside(from)?, self.0.inside(to)?) {
            (None, None) => self.0.real.hard_link(from, to),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        match self.0.inside(path)? {
            Some(inside) => self.0.remove(&inside),
            None => self.0.real.unlink(path),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.0.inside(path)? {
            Some(_) => Ok(()),
            None if self.0.leads_in(path) => match self.0.real.sync_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                synced => synced,
            },
            None => self.0.real.sync_dir(path),
        }
    }

    fn effective_uid(&self) -> u32 {
        self.0.real.effective_uid()
    }

    fn lock_holder(&self, identity: FileIdentity) -> Option<u32> {
        match identity.device {
            DEVICE => None,
            _ => self.0.real.lock_holder(identity),
        }
    }
}

impl fmt::Debug for LeasedFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedFs")
            .field("place", &self.0.database.place())
            .field("folders", &self.0.folders)
            .finish_non_exhaustive()
    }
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// An error of the database as an error of a disk; its text is kept.
fn failed(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Superseded => io::ErrorKind::StaleNetworkFileHandle,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

fn kind_of(is_folder: bool) -> FileKind {
    match is_folder {
        true => FileKind::Directory,
        false => FileKind::Regular,
    }
}

#[cfg(test)]
mod tests;
