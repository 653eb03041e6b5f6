//! Threads in a database.
//!
//! No worker continues one meanwhile: a lease holds its order. The tombstone is in this home, named
//! after the record, so that it outlives the database.

use super::file::Site;
use super::{PrunedRecord, Tools};
use crate::exit::Failure;
use crate::fleet::Fleet;
use crate::record;
use crate::signing::manifest_of;
use threadseal_core::record::ThreadId;
use threadseal_runtime::bounds::LEASE_TIME;
use threadseal_runtime::fleet::transcript_of;
use threadseal_runtime::registry::Registry as _;
use threadseal_store::host::Host;
use threadseal_store::tombstones;

impl Tools<'_> {
    /// Prunes a thread in a database, with all its files, under the lease of its order.
    pub(super) fn prune_thread(
        &self,
        url: &str,
        thread: Option<&str>,
    ) -> Result<PrunedRecord, Failure> {
        let thread = thread.ok_or_else(|| {
            Failure::new(
                "name what to prune: postgres://…#THREAD, or the store and --run or --agent",
            )
        })?;
        let thread = ThreadId::parse(thread)?;
        let none = || Failure::new("this database contains no threads");
        let fleet = Fleet::existing(url)?.ok_or_else(none)?;
        let worker = format!("prune {}", std::process::id());
        fleet.with_files(&self.host, &thread, &worker, LEASE_TIME, |host| {
            let shown = format!("{}#{thread}", record::without_secrets(url));
            self.prune_held_thread(&fleet, host, &thread, shown)
        })?
    }

    fn prune_held_thread(
        &self,
        fleet: &Fleet,
        host: &Host,
        thread: &ThreadId,
        shown: String,
    ) -> Result<PrunedRecord, Failure> {
        let path = transcript_of(thread);
        let record = match host.fs.metadata(&path) {
            Ok(_) => Some(manifest_of(&*host.fs, &path)?.record),
            // The registry keeps the record of a thread that was deleted.
            Err(_) => fleet.registry().get(thread)?.and_then(|row| row.record),
        };
        let record =
            record.ok_or_else(|| Failure::new("the thread has no record in this database"))?;
        let place = tombstones::place_in(&self.home.tombstones(), &record);
        let site = Site {
            host,
            path: &path,
            place: &place,
            shown,
            is_shared: true,
        };
        let is_gone = host.fs.metadata(&path).is_err();
        match self.tombstone_at(&place, is_gone)? {
            Some(found) => self.finish(&site, &found),
            None => self.begin(&site),
        }
    }
}
