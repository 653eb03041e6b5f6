//! Transcripts: native records and Rye's.

use super::Examiner;
use super::log::hold_if_stripped;
use crate::exit::Failure;
use threadseal::record::RecordId;
use threadseal::report::{Report, Verdict};
use threadseal::transcript::rye::{self, Verifier};
use threadseal::transcript::{ScanOptions, VerifyOptions};
use threadseal_store::examine::{self, Known};
use threadseal_store::read::{RegularFile, Source as _};

/// Verifies a native record. A second look, with what this host held, follows where a key was
/// revoked: only the seals held before count then.
///
/// # Errors
/// When it cannot be read, changes meanwhile, or the heads are damaged.
pub(super) fn native(examiner: &Examiner, file: &RegularFile) -> Result<Report, Failure> {
    let asked = &examiner.asked;
    let line = examine::first_line(file)?;
    let record = line.as_deref().and_then(examine::native_record);
    let known = known(examiner, record.as_ref())?;
    let scan = ScanOptions {
        every_signature: asked.every_signature,
        expect: known.expect.clone(),
        keep_seals: false,
    };
    let mut options = VerifyOptions {
        trust: &asked.trust,
        now: examiner.now,
        held_since: None,
        thread: asked.thread.as_ref(),
    };
    let report = examine::native(file, &scan, &options, &examiner.tick())?.report;
    options.held_since = Examiner::held_since(&known, &report);
    if options.held_since.is_none() || !super::has_revoked_signer(&report) {
        return Ok(report);
    }
    Ok(examine::native(file, &scan, &options, &|_| {})?.report)
}

/// Verifies a transcript in Rye's format.
///
/// # Errors
/// As [`native`].
pub(super) fn rye(examiner: &Examiner, file: &RegularFile) -> Result<Report, Failure> {
    let asked = &examiner.asked;
    let known = known(examiner, None)?;
    let mut options = rye::Options {
        thread: asked.thread.as_ref(),
        expect: known.expect,
        every_signature: asked.every_signature,
        ..rye::Options::new(&asked.trust, examiner.now)
    };
    let mut outcome = pass(file, options.clone(), &examiner.tick())?;
    if outcome.look_closer {
        options.every_signature = true;
        outcome = pass(file, options, &|_| {})?;
    }
    let mut report = outcome.report;
    if report.verdict == Verdict::Unsigned {
        hold_if_stripped(examiner, file, &mut report)?;
    }
    Ok(report)
}

fn known(examiner: &Examiner, record: Option<&RecordId>) -> Result<Known, Failure> {
    let asked = &examiner.asked;
    let heads = Some(&*examiner.host.heads);
    Ok(examine::known(heads, record, asked.expect_head, asked.exact_head)?)
}

fn pass(
    file: &RegularFile,
    options: rye::Options<'_>,
    tick: &dyn Fn(u64),
) -> Result<rye::Outcome, Failure> {
    let mut verifier = Verifier::new(options);
    let (mut chunks, mut buffer) = (file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(verifier.finish());
        }
        tick(buffer.len() as u64);
        verifier.push(&buffer);
    }
}
