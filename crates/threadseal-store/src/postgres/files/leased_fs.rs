//! [`LeasedFs`]: the paths that are in the database, and those that are not.

use super::changes::{LEASE, LeasedDatabase, failed};
use super::handle::{Appending, Reading};
use super::node::{Node, OpenNodes};
use super::row::{DEVICE, Row, new_inode, parent_of};
use crate::postgres::database::{PostgresDatabase, Session, Value, cell};
use crate::postgres::leases::{Lease, Orders};
use crate::sys::{Access, FileHandle, FileIdentity, Fs, Metadata};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threadseal_core::error::Error;

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

/// Folders in PostgreSQL, seen by one process.
#[derive(Clone)]
pub struct LeasedFs(Arc<Inner>);

struct Inner {
    real: Arc<dyn Fs>,
    leased: Arc<LeasedDatabase>,
    /// The base of paths in the database.
    root: PathBuf,
    /// The folders in the database, absolute.
    folders: Vec<PathBuf>,
    open: Arc<OpenNodes>,
    /// New files that have no name yet, by the temporary one.
    unnamed: Mutex<HashMap<String, Arc<Node>>>,
    /// Folders that exist: they are never removed.
    known: Mutex<HashSet<String>>,
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
        Orders::open(database)?;
        database.migrate("files", &VERSIONS)?;
        let real_root = real
            .canonicalize(root)
            .map_err(|error| crate::sys::failure("open", root, &error))?;
        Ok(Self(Arc::new(Inner {
            real,
            leased: Arc::new(LeasedDatabase::new(database.clone(), lease)),
            folders: folders
                .iter()
                .map(|folder| real_root.join(folder))
                .collect(),
            root: real_root,
            open: Arc::default(),
            unnamed: Mutex::default(),
            known: Mutex::default(),
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

    fn unnamed(&self) -> MutexGuard<'_, HashMap<String, Arc<Node>>> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row(&self, path: &str) -> io::Result<Option<Row>> {
        let found = self
            .leased
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

    fn open_to_append(&self, path: &str) -> io::Result<Arc<dyn FileHandle>> {
        // An early check, before the file is used; each change checks the lease again.
        self.leased.check()?;
        let row = self.row(path)?.ok_or(io::ErrorKind::NotFound)?;
        if row.is_folder {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Arc::new(Appending::new(self.open.node(&self.leased, &row))))
    }

    fn open_inside(&self, path: &str, access: Access) -> io::Result<Arc<dyn FileHandle>> {
        match access {
            Access::Read => {
                let row = self.find(&self.root.join(path), path)?;
                Ok(Arc::new(Reading::new(
                    Arc::clone(&self.leased),
                    Arc::clone(&self.open),
                    row,
                )))
            }
            Access::Append | Access::Rewrite => self.open_to_append(path),
            Access::CreateNew(mode) => {
                self.leased.lease()?;
                if self.row(path)?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                let node = Arc::new(Node::unnamed(Arc::clone(&self.leased), mode)?);
                self.unnamed().insert(path.to_owned(), Arc::clone(&node));
                Ok(Arc::new(Appending::new(node)))
            }
            Access::OpenOrCreate(mode) => match self.open_to_append(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let node = Node::unnamed(Arc::clone(&self.leased), mode)?;
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
    fn rename_inside(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let unnamed = self.unnamed().get(from).cloned();
        let Some(node) = unnamed else {
            // Only new files are ever renamed here.
            return Err(io::ErrorKind::Unsupported.into());
        };
        node.name(to, replace)?;
        self.unnamed().remove(from);
        self.open.insert(&node);
        Ok(())
    }

    fn create_folder(&self, path: &str, mode: u32) -> io::Result<()> {
        let (order, token, holder) = self.leased.lease()?.values();
        let (inode, mode) = (new_inode()?, i32::try_from(mode).unwrap_or(0o700));
        let sql = format!(
            "{LEASE}
             INSERT INTO threadseal_files (path, folder, inode, order_id, is_folder, mode, size, version)
             SELECT $4, $5, $6, $1, true, $7, 0, 0 FROM lease
             ON CONFLICT DO NOTHING RETURNING 1"
        );
        let folder = parent_of(path);
        let values: [Value<'_>; 7] = [&order, &token, &holder, &path, &folder, &inode, &mode];
        if self.leased.once(&sql, &values)?.is_empty() {
            self.leased.check()?;
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.known().insert(path.to_owned());
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        if self.unnamed().remove(path).is_some() {
            return Ok(());
        }
        let (order, token, holder) = self.leased.lease()?.values();
        let sql = format!(
            "{LEASE}, gone AS (
               DELETE FROM threadseal_files
               WHERE path = $4 AND order_id = $1 AND NOT is_folder AND EXISTS (SELECT 1 FROM lease)
               RETURNING inode),
             chunks AS (DELETE FROM threadseal_chunks c USING gone WHERE c.inode = gone.inode)
             SELECT 1 FROM gone"
        );
        let values: [Value<'_>; 4] = [&order, &token, &holder, &path];
        if self.leased.once(&sql, &values)?.is_empty() {
            self.leased.check()?;
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    fn names_inside(&self, path: &str) -> io::Result<Vec<OsString>> {
        let sql = "SELECT path FROM threadseal_files WHERE folder = $1";
        let rows = self
            .leased
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
            .field("place", &self.0.leased.database.place())
            .field("folders", &self.0.folders)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
