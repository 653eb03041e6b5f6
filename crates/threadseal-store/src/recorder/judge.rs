//! [`Judge`]: the verifier that decides whether a writer may continue a record.
//!
//! ```text
//! lock ─► file ─► Judge ─► Judged: report, knowledge of this host, state of the writer ─► accept | refuse
//! ```
//! A writer needs more than a verdict: the state after the last seal, computed from the very bytes
//! that the lock keeps from changing. So a record is judged under the lock, whatever its caller
//! verified before. The judge is above this crate, since a verdict also depends on the log.

use super::admit::{accept, refusal};
use super::tail::TailPolicy;
use crate::examine;
use crate::heads::StoredHead;
use crate::host::Host;
use crate::read::RegularFile;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_formats::transcript::{ScanOptions, SealedDelegation, Sealer, VerifyOptions};

/// Verifies native records for their writers.
///
/// A writer continues only with keys that count now. So no judge counts a seal because this host
/// held it before its key was revoked: that is evidence for readers, not a licence to seal more.
pub trait Judge {
    /// Whose signatures count, and when; `held_since` is None.
    fn options(&self) -> VerifyOptions<'_>;

    /// Verifies the native record in `file`, which its writer on `host` holds.
    ///
    /// # Errors
    /// Kind `External` when reading fails or the heads are damaged.
    fn judge(&self, host: &Host, file: &RegularFile) -> Result<Judged, Error>;
}

/// A native record, as a judge found it.
#[derive(Debug)]
pub struct Judged {
    /// The report, as `verify` shows it.
    pub report: Report,
    /// The writer's state where the file ends at a seal that holds.
    pub sealer: Option<Sealer>,
    /// Bodies that are present although a sealed redaction records them as dropped.
    pub unfinished: Vec<Digest>,
    /// The keys that its authority let in under a seal.
    pub delegations: Vec<SealedDelegation>,
    /// How its lines were read.
    pub scan: ScanOptions,
    /// The head that this host knows.
    pub stored: Option<StoredHead>,
}

impl Judged {
    /// Refuses a record that no writer continues. An ended record is checked as well: it may be an
    /// old copy, without the lines after its end.
    pub(super) fn accept(&self, host: &Host, tail: TailPolicy) -> Result<(), Error> {
        accept(&self.report, tail)?;
        let what = format!("the record is {}", self.report.verdict);
        host.refuse_doubted(&what, self.stored.as_ref())
    }

    /// The writer's state under the last seal, as if there were no tail.
    pub(super) fn sealer(
        &mut self,
        file: &RegularFile,
        judge: &dyn Judge,
    ) -> Result<Sealer, Error> {
        if let Some(sealer) = self.sealer.take() {
            return Ok(sealer);
        }
        let sealed = self.report.head.map_or(0, |head| head.size);
        examine::native_range(file, sealed, &self.scan, &judge.options(), &|_| {})?
            .sealer
            .ok_or_else(|| refusal(&self.report))
    }

    /// The size up to which its bytes are known to be durable.
    pub(super) fn durable_floor(&self, file: &RegularFile) -> u64 {
        self.stored
            .as_ref()
            .map_or(0, |stored| stored.head.size.min(file.size()))
    }
}

/// The record in `file`, by its first line.
pub(super) fn record_in(file: &RegularFile) -> Result<RecordId, Error> {
    let first = examine::first_line(file)?;
    let record = first.as_deref().and_then(examine::native_record);
    record.ok_or_else(|| examine::not_native(file))
}

/// Judges by the heads of the host alone, for tests of the crates below the verifier.
#[cfg(any(test, feature = "fault"))]
impl Judge for VerifyOptions<'_> {
    fn options(&self) -> VerifyOptions<'_> {
        Self {
            held_since: None,
            ..*self
        }
    }

    fn judge(&self, host: &Host, file: &RegularFile) -> Result<Judged, Error> {
        let first = examine::first_line(file)?.unwrap_or_default();
        let record = record_in(file)?;
        let known = examine::known(Some(&*host.heads), Some(&record), None, false)?;
        let scan = ScanOptions {
            expect: known.expect,
            bodies: crate::bodies::beside(&*host.fs, file, &first)?,
            ..ScanOptions::default()
        };
        let outcome = examine::native(file, &scan, &self.options(), &|_| {})?;
        Ok(Judged {
            report: outcome.report,
            sealer: outcome.sealer,
            unfinished: outcome.unfinished,
            delegations: outcome.delegations,
            scan,
            stored: known.stored,
        })
    }
}
