//! Native transcripts that are not on this machine's disk: threads in a database, records in object
//! storage.
//!
//! No writer continues one meanwhile: a lease holds the order of a thread, and a claim on a record
//! in object storage fences off its former writer. The tombstone is in this home, named after the
//! record, so that it outlives the store.

use super::file::{Site, ended, record_in, reports_at};
use super::{Done, Grave, Tools, whole};
use crate::exit::Failure;
use crate::record;
use crate::signing::manifest_of;
use std::path::Path;
use threadseal_core::record::ThreadId;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_runtime::bounds::LEASE_TIME;
use threadseal_runtime::fleet::{Fleet, transcript_of};
use threadseal_runtime::registry::Registry as _;
use threadseal_store::address::Intent;
use threadseal_store::host::Host;
use threadseal_store::read::RegularFile;
use threadseal_store::tombstones;
use threadseal_store::transcripts::{RecordName, TranscriptStore};

impl Tools<'_> {
    /// Prunes a thread in a database, with all its files, under the lease of its order.
    pub(super) fn prune_thread(&self, url: &str, thread: Option<&str>) -> Result<Done, Failure> {
        let thread = thread.ok_or_else(|| {
            Failure::new(
                "name what is meant: postgres://…#THREAD, or the store and --run or --agent",
            )
        })?;
        let thread = ThreadId::parse(thread)?;
        let none = || Failure::new("no threads lie in this database");
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
    ) -> Result<Done, Failure> {
        let path = transcript_of(thread);
        let record = match host.fs.metadata(&path) {
            Ok(_) => Some(manifest_of(&*host.fs, &path)?.record),
            // The registry keeps the record of a thread that was deleted.
            Err(_) => fleet.registry().get(thread)?.and_then(|row| row.record),
        };
        let record = record.ok_or_else(|| Failure::new("it has no record here"))?;
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

    /// Prunes a transcript in object storage.
    pub(super) fn prune_record(&self, address: &str) -> Result<Done, Failure> {
        let (store, name) = record::one(address, Intent::Write)?;
        let file = store.read(&name)?;
        let record = match &file {
            Some(file) => record_in(file)?,
            None => store.deleted(&name)?,
        };
        let none = || Failure::new("no native record of that name is there");
        let record = record.ok_or_else(none)?;
        let place = tombstones::place_in(&self.home.tombstones(), &record);
        let found = self.tombstone_at(&place, file.is_none())?;
        let is_new = found.is_none();
        let tombstone = match (found, &file) {
            (Some(found), _) => found,
            (None, Some(file)) if self.args.dry_run => self.look_at(address, file)?,
            (None, Some(file)) => self.judge_record(&*store, &name, file)?,
            (None, None) => {
                let text = "it was deleted here, and nothing says that it was pruned";
                return Err(Failure::new(text));
            }
        };
        let last = tombstone.of(&record).map(|logged| logged.head);
        let last = last.ok_or_else(|| Failure::new("its tombstone is of another record"))?;
        let grave = Grave {
            shown: address.to_owned(),
            place: &place,
            files: Vec::new(),
            left: Vec::new(),
        };
        self.bury(grave, &tombstone, is_new, |_| {
            match store.delete(&name, &record, last.size)? {
                true => Ok(()),
                false => Err(Failure::new(
                    "it does not end here as its tombstone says: it was written on meanwhile, or is an older copy; verify it",
                )),
            }
        })
    }

    /// Verifies a record in object storage under a claim, and signs that it is pruned.
    fn judge_record(
        &self,
        store: &dyn TranscriptStore,
        name: &RecordName,
        file: &RegularFile,
    ) -> Result<Tombstone, Failure> {
        // A claim fences off a writer. So the known head must show an end before the claim.
        let record = record_in(file)?.map(|record| self.host.heads.fetch(&record));
        let known = record.transpose()?.flatten();
        if !known.is_some_and(|known| known.is_final) {
            let text = "no end of it is known here: only whole records that have ended are pruned";
            return Err(Failure::new(text));
        }
        let (signing, host) = (&self.args.signing, self.host.clone());
        let opened = signing.open_in(store, name, &self.signer, host, self.context)?;
        let head = ended(&opened)?;
        self.sign(vec![self.newest_of_all(&*self.host.heads, file, &head)?])
    }

    /// The same without a claim, since a dry run must not fence off a writer.
    fn look_at(&self, address: &str, file: &RegularFile) -> Result<Tombstone, Failure> {
        let reports = reports_at(&self.verifier()?, Path::new(address), true)?;
        let report = reports
            .first()
            .ok_or_else(|| Failure::new("it is no record"))?;
        let head = whole(report)?;
        self.sign(vec![self.newest_of_all(&*self.host.heads, file, &head)?])
    }
}
