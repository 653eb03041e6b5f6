//! Documents: JSON objects and texts.

use super::{Examiner, ProfileArg, Seen, shown};
use crate::exit::Failure;
use threadseal::document::{self, DocumentKind, Options, Profile};
use threadseal::limits::MAX_DOCUMENT_BYTES;
use threadseal::record::ExpectedHead;
use threadseal::report::{Report, Verdict};
use threadseal_store::heads::HeadStore as _;
use threadseal_store::read::RegularFile;

/// Verifies a document.
///
/// # Errors
/// When it cannot be read or is larger than [`MAX_DOCUMENT_BYTES`].
pub(super) fn look(
    examiner: &Examiner,
    file: &RegularFile,
    kind: DocumentKind,
    named: bool,
) -> Result<Seen, Failure> {
    let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
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
    let mut report = document::verify(&bytes, &options)?.report;
    // The record's id is known only after a first look; a head that this host holds decides then.
    if options.expect_head.is_none()
        && let Some(head) = held(examiner, &report)?
    {
        options.expect_head = Some(head);
        report = document::verify(&bytes, &options)?.report;
    }
    if !named && kind != DocumentKind::Json && is_plain(&report) {
        return Ok(Seen::PassedOver);
    }
    Ok(Seen::Reports(vec![report]))
}

fn held(examiner: &Examiner, report: &Report) -> Result<Option<ExpectedHead>, Failure> {
    let (Some(record), Some(heads)) = (&report.record, &examiner.heads) else {
        return Ok(None);
    };
    Ok(heads
        .fetch(record)?
        .map(|stored| ExpectedHead::Head(stored.head)))
}

/// A text that nothing claims to protect.
fn is_plain(report: &Report) -> bool {
    report.verdict == Verdict::Unsigned && report.profile == "none"
}
