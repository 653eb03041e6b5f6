//! Object storage as five calls: read, create, replace if unchanged, list, remove.
//!
//! ```text
//! ledgers, transcripts, ─► Objects ─┬─ Cloud: S3, GCS, Azure (crate object_store)
//! lineages, heads                   ├─ Folder: files of one folder, replaced under a lock
//!                                   ├─ SqliteObjects, PostgresObjects: rows of one table
//!                                   ├─ MemoryObjects
//!                                   └─ FaultObjects: fails and loses replies (tests)
//! ```
//! The boundary is as small as [`crate::sys`] is for files, so that a test can fail each call in
//! turn. Laws, for every implementation:
//! * of several writers that create one name, or replace one version of it, one wins;
//! * an acknowledged write is durable, and every later read sees it;
//! * a call that failed may have done its work, and may do it later still. A caller that needs to
//!   know writes bytes that no other writer would write, and reads.
//!
//! A name is one or more parts of letters, digits, `-`, `_` and `.`, joined by `/`. The last part
//! is the object, and those before it are its folder.

#[cfg(feature = "object")]
mod cloud;
#[cfg(any(test, feature = "fault"))]
pub mod fault;
mod folder;
pub mod memory;
#[cfg(all(feature = "object", any(test, feature = "fault")))]
pub mod moto;
pub mod shape;
pub(crate) mod spell;
mod storage;
#[cfg(feature = "object")]
mod url;

#[cfg(feature = "object")]
pub use cloud::Cloud;
pub use folder::Folder;
pub use storage::{Object, Objects, Put, Version, damaged, seal};
pub(crate) use storage::{PAGE, each_name};
#[cfg(feature = "object")]
pub(crate) use storage::{Sealed, names_between};
#[cfg(feature = "object")]
pub use url::open;

#[cfg(not(feature = "object"))]
use std::sync::Arc;
#[cfg(not(feature = "object"))]
use threadseal_core::error::{Error, Unbuilt};

/// Opens no storage: this program was built without any.
///
/// # Errors
/// Always.
#[cfg(not(feature = "object"))]
pub fn open(_: &str, _: &[(String, String)]) -> Result<Arc<dyn Objects>, Error> {
    Err(Unbuilt::Objects.error("open this store"))
}
