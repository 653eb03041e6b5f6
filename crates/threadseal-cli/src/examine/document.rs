//! Documents: JSON objects and texts.

use super::{Examiner, ProfileArg, shown};
use crate::exit::Failure;
use threadseal::document::{self, DocumentKind, Options, Profile};
use threadseal::limits::MAX_DOCUMENT_BYTES;
use threadseal::record::ExpectedHead;
use threadseal::report::Report;
use threadseal_store::read::RegularFile;

/// Verifies a document.
///
/// # Errors
/// When it cannot be read, is larger than [`MAX_DOCUMENT_BYTES`], or the heads are damaged.
pub(super) fn look(
    examiner: &Examiner,
    file: &RegularFile,
    kind: DocumentKind,
) -> Result<Report, Failure> {
    let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
    examiner.bar.inc(file.size());
    let path = shown(file.path());
    let mut options = Options {
        path: &path,
        profile: match examiner.asked.profile {
            ProfileArg::Auto | ProfileArg::Observed => Profile::Auto,
            ProfileArg::Native => Profile::Native,
            ProfileArg::Rye => Profile::Rye,
        },
        expect_thread: examiner.asked.thread.as_ref(),
        expect_head: examiner.asked.expect_head,
        ..Options::new(kind, &examiner.asked.trust, examiner.now)
    };
    let report = document::verify(&bytes, &options)?.report;
    let Some(record) = report.record.filter(|_| options.expect_head.is_none()) else {
        return Ok(report);
    };
    // The record is known only after a first look; a head that this host holds decides then.
    let Some(stored) = examiner.host.heads.fetch(&record)? else {
        return Ok(report);
    };
    options.expect_head = Some(ExpectedHead::Head(stored.head));
    Ok(document::verify(&bytes, &options)?.report)
}
