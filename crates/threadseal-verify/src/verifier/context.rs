//! What every look at a file shares: the request, the host, the log, and the moment by which it is judged.

use super::thread_databases::ThreadDatabases;
use crate::address::Stores;
use crate::error::is_gone;
use crate::home_log::HomeLog;
use crate::notices::Progress;
use crate::request::VerifyRequest;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, SignerStatus};
use threadseal_core::time::Timestamp;
use threadseal_store::examine::Known;
use threadseal_store::host::Host;
use threadseal_store::sys::{FileKind, Metadata, path_text};

/// The request, knowledge and moment by which files are verified.
#[derive(Clone)]
pub(crate) struct Context {
    pub(super) request: VerifyRequest,
    pub(super) now: Timestamp,
    pub(super) host: Host,
    pub(super) log: HomeLog,
    pub(super) stores: Stores,
    pub(super) databases: Option<Arc<dyn ThreadDatabases>>,
    /// Where tombstones of records in stores are.
    pub(super) tombstones: Option<PathBuf>,
    pub(super) progress: Option<Arc<dyn Progress>>,
    /// Are other files verified at the same time?
    pub(super) among_many: bool,
    /// Are the files in a database?
    pub(super) is_shared: bool,
    /// Records of the lineages that were verified, under all their names.
    pub(super) joined: Arc<Mutex<BTreeSet<RecordId>>>,
}

impl Context {
    /// Is anything there? Asks the disk of the host, which may be a database. A path that cannot be
    /// looked at does not count as gone, here and below: opening it reports why.
    pub(super) fn exists(&self, path: &Path) -> bool {
        !self
            .host
            .fs
            .metadata(path)
            .is_err_and(|error| is_gone(&error))
    }

    /// Is a regular file there?
    pub(super) fn is_file(&self, path: &Path) -> bool {
        is_regular(self.host.fs.metadata(path))
    }

    /// The same, a final link not followed: what a walk finds.
    pub(super) fn is_walked(&self, path: &Path) -> bool {
        is_regular(self.host.fs.symlink_metadata(path))
    }

    pub(super) fn advance(&self, bytes: u64) {
        if let Some(progress) = &self.progress {
            progress.read(bytes);
        }
    }

    /// [`Context::advance`] for code that reads for this run.
    pub(super) fn tick(&self) -> impl Fn(u64) + Sync {
        |bytes| self.advance(bytes)
    }

    /// The same, asked by another request.
    pub(super) fn with(&self, request: VerifyRequest) -> Self {
        Self {
            request,
            progress: None,
            ..self.clone()
        }
    }
}

fn is_regular(found: io::Result<Metadata>) -> bool {
    match found {
        Ok(found) => found.kind == FileKind::Regular,
        Err(error) => !is_gone(&error),
    }
}

/// When this host already held the record's last seal: evidence against a later revocation.
/// Seals after the one that is held are not covered by it.
pub(super) fn held_since(known: &Known, report: &Report) -> Option<Timestamp> {
    let stored = known.stored.as_ref()?;
    stored
        .held_since()
        .filter(|_| report.head == Some(stored.head))
}

pub(super) fn has_revoked_signer(report: &Report) -> bool {
    let mut signers = report.signers.iter();
    signers.any(|signer| signer.status == SignerStatus::Revoked)
}

pub(super) fn shown(path: &Path) -> String {
    path_text(path)
}
