//! Checking everything that is stored of one record.
//!
//! | code | fault | repair |
//! |---|---|---|
//! | `head_damaged` | the head does not have the bytes that were written | no |
//! | `leftover` | a record whose deletion was interrupted | deleting the rest of it |
//!
//! [`crate::object_log`] has the codes of all segmented logs.

use super::format::Transcripts;
use super::write::{all_folders, remove_all};
use crate::fsck::Fault;
use crate::object_log::{Audit, Facts as _, SegmentedLog, check, read_head};
use crate::transcripts::FsckReport;
use crate::transcripts::transcript_store::no_record;
use threadseal_core::error::Error;

pub(super) fn fsck(log: &SegmentedLog<Transcripts>, repair: bool) -> Result<FsckReport, Error> {
    let mut report = FsckReport {
        name: log.name.clone(),
        bytes: 0,
        faults: Vec::new(),
        more: 0,
    };
    match read_head(log)?.ok_or_else(|| no_record(&log.name))? {
        Some(head) if head.facts.is_deleted() => leftover(log, repair, &mut report)?,
        Some(head) => check(log, &head, repair, &mut report)?,
        None => {
            let text = format!("{} differs from what was written", log.head_name());
            report.fault(Fault::new("head_damaged", None, text));
        }
    }
    Ok(report)
}

/// Reports the rest of a record that was deleted, and removes it on request.
fn leftover(
    log: &SegmentedLog<Transcripts>,
    repair: bool,
    report: &mut FsckReport,
) -> Result<(), Error> {
    let mut is_left = !log.is_marked_gone()?;
    for folder in all_folders(log) {
        is_left |= !log.objects.list(&folder, "", 1)?.is_empty();
    }
    if !is_left {
        return Ok(());
    }
    if repair {
        remove_all(log)?;
    }
    let text = "its deletion was interrupted: no reader uses the objects that remain".to_owned();
    report.fault(Fault {
        repaired: repair,
        ..Fault::new("leftover", None, text)
    });
    Ok(())
}

impl Audit<Transcripts> for FsckReport {
    fn items(&mut self, _: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }

    fn gap(&mut self) {}

    fn fault(&mut self, fault: Fault) {
        fault.note(&mut self.faults, &mut self.more);
    }
}
