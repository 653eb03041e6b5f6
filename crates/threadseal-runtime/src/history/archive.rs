//! [`Archive`]: where earlier threads are read.

use crate::config::coordination::Integrity;
use crate::project::Project;
use crate::registry::Registry;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::trust::Trust;
use threadseal_store::host::Host;
use threadseal_verify::home_log::HomeLog;

/// The reader of earlier threads.
#[derive(Clone, Copy)]
pub struct Archive<'a> {
    /// Files, clock, heads.
    pub host: &'a Host,
    /// The project of the threads.
    pub project: &'a Project,
    /// Whose signatures count.
    pub trust: &'a Trust,
    /// The log of this host.
    pub log: &'a HomeLog,
    /// Which threads there are; never believed alone.
    pub registry: &'a dyn Registry,
    /// Whether events after the last seal are taken too.
    pub integrity: Integrity,
}

pub(super) fn disagree(id: &ThreadId) -> Error {
    Error::refused(format!(
        "the registry and the record of {id} disagree about its parent"
    ))
}
