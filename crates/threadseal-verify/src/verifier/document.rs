//! Documents: JSON objects and texts.

use super::as_of;
use super::context::{Context, shown};
use super::logged;
use crate::error::VerifyError;
use crate::request;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Completeness, Finding, FindingCode, Report, Verdict};
use threadseal_formats::document::{self, DocumentKind, Options, ProfileChoice};
use threadseal_store::read::RegularFile;

/// Verifies a document.
///
/// # Errors
/// When it cannot be read, is larger than [`MAX_DOCUMENT_BYTES`], or the heads are damaged.
pub(super) fn look(
    context: &Context,
    file: &RegularFile,
    kind: DocumentKind,
) -> Result<Report, VerifyError> {
    let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
    context.advance(file.size());
    let path = shown(file.path());
    let mut options = Options {
        path: &path,
        profile: match context.request.profile {
            request::RequestedProfile::Auto
            | request::RequestedProfile::Observed
            | request::RequestedProfile::ScrollV01 => ProfileChoice::Auto,
            request::RequestedProfile::Native => ProfileChoice::Native,
            request::RequestedProfile::Rye => ProfileChoice::Rye,
        },
        expect_thread: context.request.thread.as_ref(),
        expect_head: context.request.expect_head,
        ..Options::new(kind, &context.request.trust, context.now)
    };
    let mut report = document::verify(&bytes, &options)?.report;
    if let (Some(expected), true) = (options.expect_head, context.request.exact_head) {
        hold_to_last(&mut report, expected);
    }
    // The record is known only after a first look; a head that this host holds counts as well.
    let Some(record) = report.record else {
        return Ok(report);
    };
    let stored = context.host.heads.fetch(&record)?;
    let Some(stored) = stored.filter(|stored| !as_of::is_later(context, &stored.head)) else {
        return Ok(report);
    };
    options.expect_head = Some(ExpectedHead::Head(stored.head));
    let mut held = document::verify(&bytes, &options)?.report;
    if !stored.vouches {
        held.completeness = Completeness::Unproved;
    }
    let request = context.request.expect_head.is_some();
    let mut report = if request && report.verdict.is_no_better_than(held.verdict) {
        report
    } else {
        held
    };
    logged::hold_document(&mut report, &stored);
    Ok(report)
}

/// With `--exact-head` the document must be that very version.
fn hold_to_last(report: &mut Report, expected: ExpectedHead) {
    let same = report.head.is_some_and(|head| match expected {
        ExpectedHead::Head(expected) => head == expected,
        ExpectedHead::Line(line) => head.line == line,
    });
    if !same {
        let text = "the document is not the version of the expected head";
        report.downgrade(
            Verdict::Open,
            Finding::error(FindingCode::HeadNotLast, text),
        );
    }
}
