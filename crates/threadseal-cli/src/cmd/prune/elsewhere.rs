//! Native transcripts in object storage.
//!
//! No writer continues one meanwhile: a claim fences off its former writer. The tombstone is in this
//! home, named after the record, so that it outlives the store.

use super::file::{ended, record_in, reports_at};
use super::{Grave, PrunedRecord, Tools, whole};
use crate::exit::Failure;
use crate::record;
use std::path::Path;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_store::address::Intent;
use threadseal_store::read::RegularFile;
use threadseal_store::tombstones;
use threadseal_store::transcripts::{RecordName, TranscriptStore};

impl Tools<'_> {
    /// Prunes a transcript in object storage.
    pub(super) fn prune_record(&self, address: &str) -> Result<PrunedRecord, Failure> {
        let (store, name) = record::one(address, Intent::Write)?;
        let file = store.read(&name)?;
        let record = match &file {
            Some(file) => record_in(file)?,
            None => store.deleted(&name)?,
        };
        let none = || Failure::new("the store has no native record of that name");
        let record = record.ok_or_else(none)?;
        let place = tombstones::place_in(&self.home.tombstones(), &record);
        let found = self.tombstone_at(&place, file.is_none())?;
        let is_new = found.is_none();
        let tombstone = match (found, &file) {
            (Some(found), _) => found,
            (None, Some(file)) if self.is_dry => self.look_at(address, file)?,
            (None, Some(file)) => self.judge_record(&*store, &name, file)?,
            (None, None) => {
                let text = "it was deleted here, but no tombstone shows that it was pruned";
                return Err(Failure::new(text));
            }
        };
        let last = tombstone.of(&record).map(|logged| logged.head);
        let last = last.ok_or_else(|| Failure::new("its tombstone names another record"))?;
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
                    "its end differs from the one in its tombstone: it was continued, or this is an older copy; verify it",
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
            let text = "this home does not know an end of it: only complete records that have ended are pruned";
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
            .ok_or_else(|| Failure::new("not a record"))?;
        let head = whole(report)?;
        self.sign(vec![self.newest_of_all(&*self.host.heads, file, &head)?])
    }
}
