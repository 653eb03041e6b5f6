//! [`Fleet`]: a database of threads.

use super::folders::{FOLDERS, THREADS, thread_of};
use super::heads::Both;
use super::meters::{CountingWatch, Meters};
use crate::budget::{BudgetLedger, PostgresBudgets};
use crate::project::{Project, ProjectId, TRANSCRIPT_FILE};
use crate::registry::{Inspection, PostgresRegistry, Registry};
use crate::runner::{Engine, Services};
use crate::toolbox::Cancel;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_store::heads::HeadStore;
use threadseal_store::host::Host;
use threadseal_store::postgres::files::{self, LeasedFs, Listing};
use threadseal_store::postgres::leases::{Lease, Orders, Standing};
use threadseal_store::postgres::{
    Channel, PostgresDatabase, PostgresHeadStore, PostgresTables, cell,
};
use threadseal_store::sys::path_text;

/// Did this database ever store threads? Any of their tables proves it, so that dropping one hides
/// nothing.
const HAS_THREADS: &str = "SELECT coalesce(to_regclass('threadseal_threads'),
  to_regclass('threadseal_orders'), to_regclass('threadseal_files')) IS NOT NULL";

/// The identity of the project whose threads are stored here: 32 random bytes, created once.
const PROJECT: [&str; 1] = ["
CREATE TABLE threadseal_project (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id text NOT NULL CHECK (id ~ '^[0-9a-f]{64}$')
);

INSERT INTO threadseal_project (id)
VALUES (replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));
"];

/// The registry of threads, and their budgets.
pub type Books = (Arc<dyn Registry>, Arc<dyn BudgetLedger>);

/// The threads of one database.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub(super) database: PostgresDatabase,
    pub(super) orders: Orders,
    tables: PostgresTables,
    pub(super) registry: PostgresRegistry,
    pub(super) meters: Arc<Meters>,
}

impl Fleet {
    /// Connects, and makes the tables that are missing.
    ///
    /// # Errors
    /// As [`PostgresDatabase::open`] and [`PostgresDatabase::migrate`].
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::over(PostgresDatabase::open(url)?)
    }

    /// The same where the database already stores threads; None, without creating anything, where
    /// it never did.
    ///
    /// # Errors
    /// As [`Fleet::open`].
    pub fn existing(url: &str) -> Result<Option<Self>, Error> {
        let database = PostgresDatabase::open(url)?;
        let has_any: bool = database.read(|session| cell(&session.one(HAS_THREADS, &[])?, 0))?;
        has_any.then(|| Self::over(database)).transpose()
    }

    fn over(database: PostgresDatabase) -> Result<Self, Error> {
        database.migrate("project", &PROJECT)?;
        Ok(Self {
            orders: Orders::open(&database)?,
            tables: PostgresTables::make(&database)?,
            registry: PostgresRegistry::open(&database, None)?,
            meters: Arc::default(),
            database,
        })
    }

    /// Where it is, without secrets.
    pub fn place(&self) -> &str {
        self.database.place()
    }

    /// Does a worker seem to be there? Proves nothing.
    ///
    /// # Errors
    /// Kind `External` when the server fails.
    pub fn has_worker(&self) -> Result<bool, Error> {
        self.orders.has_worker()
    }

    /// Server settings that weaken a guarantee.
    pub fn warnings(&self) -> Vec<String> {
        self.database.warnings()
    }

    /// The project of this folder, whose threads are stored here, with the identity from the
    /// database.
    ///
    /// # Errors
    /// Kind `Refused` when the database has no identity, `External` when the server fails.
    pub fn project(&self, folder: &Project) -> Result<Arc<Project>, Error> {
        Ok(Arc::new(folder.in_database(self.project_id()?)))
    }

    /// The identity of the project whose threads are stored here.
    pub(super) fn project_id(&self) -> Result<ProjectId, Error> {
        let id: String = self.database.read(|session| {
            let select = "SELECT coalesce((SELECT id FROM threadseal_project), '')";
            cell(&session.one(select, &[])?, 0)
        })?;
        let none = || Error::refused("threadseal_project does not contain a project id");
        ProjectId::parse(&id).ok_or_else(none)
    }

    /// All threads.
    pub fn registry(&self) -> &PostgresRegistry {
        &self.registry
    }

    /// Finds contradictions in registry and budgets, by the names of their tables.
    ///
    /// # Errors
    /// Kind `Limit` when there are too many rows, `External` when the server fails.
    pub fn inspect(&self) -> Result<[(&'static str, Inspection); 2], Error> {
        let budgets = PostgresBudgets::open(&self.database, None)?;
        Ok([
            ("threadseal_threads", self.registry.inspect()?),
            ("threadseal_budgets", budgets.inspect()?),
        ])
    }

    /// The files of all threads, or those of one, including files that no folder lists.
    ///
    /// # Errors
    /// Kind `Limit` when there are too many, `External` when the server fails.
    pub fn files(&self, thread: Option<&ThreadId>) -> Result<Listing, Error> {
        let folder = thread.map(|id| format!("{THREADS}/{id}"));
        files::list(&self.database, &FOLDERS, folder.as_deref())
    }

    /// The threads that have files here, including files that no folder lists.
    ///
    /// # Errors
    /// As [`Fleet::files`].
    pub fn left(&self) -> Result<Vec<ThreadId>, Error> {
        let files = self.files(None)?.files;
        let threads = files.iter().filter_map(|(path, _)| thread_of(path));
        let threads: BTreeSet<ThreadId> = threads.collect();
        Ok(threads.into_iter().collect())
    }

    /// Registry and budgets, without a lease.
    ///
    /// # Errors
    /// As [`Fleet::open`].
    pub fn books(&self) -> Result<Books, Error> {
        let budgets = PostgresBudgets::open(&self.database, None)?;
        Ok((Arc::new(self.registry.clone()), Arc::new(budgets)))
    }

    /// Waits until an order is done, at most `longest`; returns its state.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such order, `External` when the server fails.
    pub fn wait(
        &self,
        order: i64,
        longest: Option<Duration>,
        cancel: &Cancel,
        host: &Host,
    ) -> Result<Standing, Error> {
        let began = host.clock.elapsed();
        loop {
            let marks = self.database.marks()?;
            let standing = self.orders.get(order)?;
            let standing =
                standing.ok_or_else(|| Error::refused(format!("there is no order {order}")))?;
            let waited = host.clock.elapsed().saturating_sub(began);
            let is_over = longest.is_some_and(|longest| waited >= longest) || cancel.is_set();
            if standing.state == "done" || is_over {
                return Ok(standing);
            }
            let left = longest.map_or(Duration::MAX, |longest| longest.saturating_sub(waited));
            let stop = || cancel.is_set();
            self.database.wait(&[Channel::Ends], &marks, left, &stop);
        }
    }

    /// The host of a project whose threads are stored in the database: read-only use needs no
    /// lease.
    ///
    /// # Errors
    /// Kind `External` when the server or the disk fails.
    pub fn host(&self, local: &Host, root: &Path, lease: Option<&Lease>) -> Result<Host, Error> {
        let real = Arc::clone(&local.fs);
        let place = path_text(&real.canonicalize(root).unwrap_or_else(|_| root.to_owned()));
        let fs = LeasedFs::open(&self.database, lease.cloned(), real, root, &FOLDERS)?;
        let tables = self.tables.clone();
        let shared: Arc<dyn HeadStore> = match lease {
            Some(lease) => Arc::new(PostgresHeadStore::leased(tables, lease.clone())),
            None => Arc::new(PostgresHeadStore::over(tables)),
        };
        Ok(Host {
            fs: Arc::new(fs),
            heads: local.heads.logged(Arc::new(Both {
                shared,
                local: Arc::clone(&local.heads),
                root: place.trim_end_matches('/').to_owned(),
            })),
            ..local.clone()
        })
    }

    /// The order to which a thread belongs: of one whose row is gone, that of its record.
    ///
    /// # Errors
    /// As [`PostgresRegistry::order_of`].
    pub(super) fn order_of(&self, id: &ThreadId) -> Result<i64, Error> {
        if self.registry.get(id)?.is_none() {
            let record = format!("{THREADS}/{id}/{TRANSCRIPT_FILE}");
            if let Some(order) = files::order_of(&self.database, &record)? {
                return Ok(order);
            }
        }
        self.registry.order_of(id)
    }

    /// `base` with the files of this database, only to look.
    ///
    /// # Errors
    /// As [`Fleet::host`].
    pub fn looking(&self, base: &Engine) -> Result<Engine, Error> {
        let base = &base.services;
        Ok(Engine::new(Services {
            host: self.host(&base.host, base.project.root(), None)?,
            project: self.project(&base.project)?,
            ..base.clone()
        }))
    }

    /// `base` with everything that threads write in the database, under this lease.
    pub(super) fn engine(&self, base: &Engine, lease: &Lease) -> Result<Engine, Error> {
        let (base, activity) = (&base.services, &self.meters.activity);
        let registry = PostgresRegistry::open(&self.database, Some(lease.clone()))?;
        let budgets = PostgresBudgets::open(&self.database, Some(lease.clone()))?;
        Ok(Engine::new(Services {
            host: self.host(&base.host, base.project.root(), Some(lease))?,
            project: self.project(&base.project)?,
            registry: Arc::new(registry.counting(activity)),
            budgets: Arc::new(budgets.counting(activity)),
            watch: Arc::new(CountingWatch {
                inner: Arc::clone(&base.watch),
                activity: Arc::clone(activity),
            }),
            ..base.clone()
        }))
    }
}

/// Is it of no use to try again?
pub(super) fn is_final(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Refused | ErrorKind::Key | ErrorKind::Limit
    )
}
