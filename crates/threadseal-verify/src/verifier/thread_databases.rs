//! What the verifier needs of a database of threads; the runtime implements it.

use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_store::host::Host;

/// Opens databases of threads.
pub trait ThreadDatabases: Send + Sync {
    /// The database at `url`; None where it holds no threads. Nothing is made in it.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn open(&self, url: &str) -> Result<Option<Box<dyn ThreadDatabase>>, Error>;
}

/// Paths with their sizes in bytes, and names that no path may have.
pub type DatabaseFiles = (Vec<(String, u64)>, Vec<String>);

/// A database of threads.
pub trait ThreadDatabase {
    /// Its address as it may be shown.
    fn place(&self) -> &str;

    /// A host whose files are those of the database, only to read.
    ///
    /// # Errors
    /// When it cannot be reached.
    fn host(&self, local: &Host, root: &Path) -> Result<Host, Error>;

    /// Paths relative to the root, and sizes, of all threads or of one; and names that no path may have.
    ///
    /// # Errors
    /// When there are too many, or it cannot be read.
    fn files(&self, thread: Option<&ThreadId>) -> Result<DatabaseFiles, Error>;

    /// The threads of its registry, all or one.
    ///
    /// # Errors
    /// When it cannot be read.
    fn threads(&self, thread: Option<&ThreadId>) -> Result<Vec<DatabaseThread>, Error>;
}

/// A row of the registry of a database.
#[derive(Debug, Clone)]
pub struct DatabaseThread {
    /// The thread.
    pub id: ThreadId,
    /// Its record, where the row names it.
    pub record: Option<RecordId>,
}
