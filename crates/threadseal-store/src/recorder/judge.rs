//! [`LockedRecord`]: a native record that is verified while its writer holds it.
//!
//! A writer needs more than a verdict: the state after the last seal, computed from the very bytes
//! that the lock keeps from changing. So the recorder verifies again here, whatever its caller
//! verified before.

use super::admit::{accept, refusal};
use super::tail::TailPolicy;
use crate::bodies;
use crate::examine;
use crate::heads::StoredHead;
use crate::host::Host;
use crate::read::RegularFile;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::report::Report;
use threadseal_formats::transcript::{Outcome, ScanOptions, Sealer, VerifyOptions};

/// What this host knows of a record before it reads all of it.
pub(super) struct LockedRecord {
    pub(super) record: RecordId,
    pub(super) scan: ScanOptions,
    stored: Option<StoredHead>,
}

impl LockedRecord {
    pub(super) fn read(host: &Host, file: &RegularFile) -> Result<Self, Error> {
        let first = examine::first_line(file)?.ok_or_else(|| examine::not_native(file))?;
        let record = examine::native_record(&first).ok_or_else(|| examine::not_native(file))?;
        let known = examine::known(Some(&*host.heads), Some(&record), None, false)?;
        let scan = ScanOptions {
            expect: known.expect,
            bodies: bodies::beside(&*host.fs, file, &first)?,
            ..ScanOptions::default()
        };
        Ok(Self {
            record,
            scan,
            stored: known.stored,
        })
    }

    pub(super) fn verify(
        &self,
        file: &RegularFile,
        options: &VerifyOptions<'_>,
    ) -> Result<Outcome, Error> {
        examine::native(file, &self.scan, options, &|_| {})
    }

    /// Refuses a record that no writer continues. An ended record is checked as well: it may be an
    /// old copy, without the lines after its end.
    pub(super) fn accept(
        &self,
        host: &Host,
        report: &Report,
        tail: TailPolicy,
    ) -> Result<(), Error> {
        accept(report, tail)?;
        let what = format!("the record is {}", report.verdict);
        host.refuse_doubted(&what, self.stored.as_ref())
    }

    /// The writer's state under the last seal, as if there were no tail.
    pub(super) fn sealer(
        &self,
        file: &RegularFile,
        report: &Report,
        at_end: Option<Sealer>,
        options: &VerifyOptions<'_>,
    ) -> Result<Sealer, Error> {
        if let Some(sealer) = at_end {
            return Ok(sealer);
        }
        let sealed = report.head.map_or(0, |head| head.size);
        examine::native_range(file, sealed, &self.scan, options, &|_| {})?
            .sealer
            .ok_or_else(|| refusal(report))
    }

    /// The size up to which its bytes are known to be durable.
    pub(super) fn durable_floor(&self, file: &RegularFile) -> u64 {
        self.stored
            .as_ref()
            .map_or(0, |stored| stored.head.size.min(file.size()))
    }
}
