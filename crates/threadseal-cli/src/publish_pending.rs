//! Records with seals of which no head is known yet: their writer was killed between the seal and its publication.
//!
//! ```text
//! heads of the home, heads of its log ─► places ─► is more there than is known? ─► published, or reported
//! ```
//! A record of which no head was ever published is not known here, and is not searched.

use crate::exit::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::key::KeyId;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::observed;
use threadseal_store::examine::{first_line, native_record};
use threadseal_store::heads::{Durability, RecordKind, StoredHead};
use threadseal_store::host::{Host, Published};
use threadseal_store::observer::{read_seals, seal_path};
use threadseal_store::read::open_regular;
use threadseal_store::recorder::publish_last_seal;
use threadseal_store::sys::{Access, failure};
use threadseal_verify::all_records::place_of;
use threadseal_verify::verifier::{FileResult, Verifier};

/// A record that holds more than is known, and why that could not be published.
#[derive(Debug)]
pub(crate) struct Unpublished {
    /// Where.
    pub(crate) place: String,
    /// Why.
    pub(crate) why: String,
}

/// Publishes heads that a process did not publish before it was killed; a verifier decides which records hold.
pub(crate) struct PendingPublisher {
    verifier: Verifier,
    host: Host,
}

impl PendingPublisher {
    /// A publisher of what `verifier` verifies.
    pub(crate) fn new(verifier: Verifier) -> Self {
        Self {
            host: verifier.host().clone(),
            verifier,
        }
    }

    /// Publishes what records hold beyond the heads that are known of them, where it verifies; answers with what could not be published.
    /// `places` are those of records that have none in the store of heads.
    pub(crate) fn publish(
        &self,
        known: &[StoredHead],
        places: &BTreeMap<RecordId, Vec<String>>,
    ) -> Vec<Unpublished> {
        let mut left = Vec::new();
        for known in known {
            let Some(path) = place_of(known) else {
                continue;
            };
            if let Err(failure) = self.publish_at(&path, known) {
                let (place, why) = (path.display().to_string(), failure.to_string());
                left.push(Unpublished { place, why });
            }
        }
        let mut wanted: BTreeMap<&str, Vec<&StoredHead>> = BTreeMap::new();
        for known in known {
            for place in places.get(&known.head.record).into_iter().flatten() {
                wanted.entry(place).or_default().push(known);
            }
        }
        for (place, known) in wanted {
            if let Err(failure) = self.publish_in(place, &known) {
                let (place, why) = (place.to_owned(), failure.to_string());
                left.push(Unpublished { place, why });
            }
        }
        left
    }

    /// The record in the place of a known head.
    fn publish_at(&self, path: &Path, known: &StoredHead) -> Result<(), Failure> {
        let Ok(file) = open_regular(&*self.host.fs, path) else {
            // `verify --all` reports what is gone.
            return Ok(());
        };
        let is_longer = file.size() > known.head.size;
        match known.kind {
            RecordKind::Transcript if is_longer => {
                let first = first_line(&file)?.unwrap_or_default();
                match native_record(&first) {
                    Some(record) if record != known.head.record => Ok(()),
                    Some(_) => Ok(publish_last_seal(&self.host, path, &self.verifier).map(drop)?),
                    None => self.publish_report(path, known, Some(path)),
                }
            }
            RecordKind::Observed if self.has_more_seals(path, known)? => {
                self.publish_report(path, known, Some(&seal_path(path)))
            }
            RecordKind::Document => self.publish_report(path, known, None),
            _ => Ok(()),
        }
    }

    fn has_more_seals(&self, log: &Path, known: &StoredHead) -> Result<bool, Failure> {
        let seals = read_seals(&self.host, log)?;
        let seals = seals.and_then(|bytes| observed::parse(&bytes).ok());
        let last = seals.as_ref().and_then(observed::SealFile::last);
        Ok(last.is_some_and(|last| {
            last.head.record == known.head.record && last.head.seq > known.head.seq
        }))
    }

    /// Looks at a file as `verify` does; `written` is what was written of the seal, where that may not be durable.
    fn publish_report(
        &self,
        path: &Path,
        known: &StoredHead,
        written: Option<&Path>,
    ) -> Result<(), Failure> {
        match self.verifier.verify_path(path) {
            FileResult::NoRecord(error) | FileResult::Failed(error) => Err(error.into()),
            seen => self.publish_reports(seen.reports(), &[known], Some(path), written),
        }
    }

    /// The records that the private index leads to.
    fn publish_in(&self, place: &str, known: &[&StoredHead]) -> Result<(), Failure> {
        let Some(reports) = self.verifier.look_into(place)? else {
            return Ok(());
        };
        let written = PathBuf::from(place);
        let written = written.is_file().then_some(&*written);
        self.publish_reports(&reports, known, None, written)
    }

    fn publish_reports(
        &self,
        reports: &[Report],
        known: &[&StoredHead],
        path: Option<&Path>,
        written: Option<&Path>,
    ) -> Result<(), Failure> {
        for report in reports {
            let of = |known: &&&StoredHead| report.record == Some(known.head.record);
            let (Some(known), Some(head)) = (known.iter().find(of), report.head) else {
                continue;
            };
            if head.seq <= known.head.seq || is_of_nobody(report.verdict) {
                continue;
            }
            if !is_whole(report.verdict) {
                return Err(Failure::new(format!(
                    "seal {} is not in the log, and the record is {}",
                    head.seq, report.verdict
                )));
            }
            if let Some(written) = written {
                let fs = &self.host.fs;
                let opened = fs.open(written, Access::Append);
                let synced = opened.and_then(|file| file.sync_all());
                synced.map_err(|error| failure("make durable", written, &error))?;
            }
            let key = match report.signers.as_slice() {
                [only] => KeyId::parse_hex(&only.key),
                _ => None,
            };
            self.host.publish(&Published {
                head,
                root: report.root,
                salts: None,
                key,
                kind: known.kind,
                is_final: false,
                thread: None,
                path,
                aliases: &[],
                durability: Durability::Durable,
            })?;
        }
        Ok(())
    }
}

/// Does all that is sealed hold?
fn is_whole(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Verified | Verdict::Open | Verdict::UnsignedTail | Verdict::Partial
    )
}

/// Is what is there signed by no key that counts here? Then the end of none takes anything from it.
fn is_of_nobody(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::UnknownSigner | Verdict::Unsigned | Verdict::Consistent | Verdict::Foreign
    )
}
