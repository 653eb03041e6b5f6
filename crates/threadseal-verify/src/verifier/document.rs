//! Documents: JSON objects and texts, with the seal in them or in a file beside them.

use super::as_of;
use super::context::{Context, shown};
use super::file_result::FileResult;
use super::{displacement, log, logged};
use crate::error::VerifyError;
use crate::request;
use std::path::{Path, PathBuf};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{
    Completeness, Finding, FindingCode, Format, Profile, Report, Verdict,
};
use threadseal_formats::document::{
    self, DocumentKind, MAX_BESIDE_BYTES, Options, ProfileChoice, is_beside,
};
use threadseal_store::moved::neighbours;
use threadseal_store::observer::seal_path;
use threadseal_store::read::{self, RegularFile, Source as _};

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
    judge(context, file.path(), kind, |options| {
        Ok(document::verify(&bytes, options)?.report)
    })
}

/// Reads the seal file at `path` if it holds the seal of a document.
///
/// # Errors
/// When it cannot be read.
pub(super) fn seal_beside(context: &Context, path: &Path) -> Result<Option<Vec<u8>>, VerifyError> {
    let fs = &*context.host.fs;
    let file = read::open_regular(fs, path)?;
    let mut begin = file.range(0, MAX_BESIDE_BYTES as u64 + 1);
    let mut bytes = Vec::new();
    begin.next_chunk(&mut bytes)?;
    Ok(is_beside(&bytes).then_some(bytes))
}

/// Verifies a document against the seal of the seal file beside it. Any file may have one.
///
/// # Errors
/// As [`look`].
pub(super) fn look_beside(
    context: &Context,
    file: &RegularFile,
    kind: Option<DocumentKind>,
    seal: &[u8],
) -> Result<Report, VerifyError> {
    let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
    context.advance(file.size());
    let kind = kind.or_else(|| Some(document::read_beside(seal)?.kind));
    let kind = kind.unwrap_or(DocumentKind::Markdown);
    let mut report = judge(context, file.path(), kind, |options| {
        Ok(document::verify_beside(&bytes, seal, options).report)
    })?;
    let stored = report
        .record
        .map(|record| context.host.heads.fetch(&record));
    if stored.transpose()?.flatten().is_none() {
        log::hold_if_log(context, file, &mut report)?;
    }
    Ok(report)
}

/// A seal file of a document: the document is verified instead, or is missing.
///
/// # Errors
/// As [`look`].
pub(super) fn sidecar(
    context: &Context,
    seal_file: &Path,
    seal: &[u8],
    named: bool,
) -> Result<FileResult, VerifyError> {
    let path = seal_file.with_extension("");
    let there = match context.is_file(&path) {
        true => Some(path.clone()),
        false => moved_from(context, &path, seal)?,
    };
    if let Some(there) = there {
        // A walk meets the document itself.
        if !named && context.is_walked(&there) {
            return Ok(FileResult::Elsewhere);
        }
        let file = read::open_regular(&*context.host.fs, &there)?;
        let mut reports = vec![look_beside(context, &file, None, seal)?];
        reports[0].path = shown(&there);
        if there == path {
            displacement::hold(context, &path, &mut reports)?;
        }
        return Ok(FileResult::Reports(reports));
    }
    let Some(sealed) = document::read_beside(seal) else {
        return match named {
            // Other programs use the ending, too.
            false => Ok(FileResult::PassedOver),
            true => Err(VerifyError::refused("it is not a seal file").about(seal_file)),
        };
    };
    let format = match sealed.kind {
        DocumentKind::Json => Format::Json,
        _ => Format::Text,
    };
    let mut report = Report::begin(format, Profile::Native);
    report.path = shown(&path);
    report.trust = Some(context.request.trust.digest());
    report.record = Some(sealed.record);
    let message = "its seal is here, but the document is missing";
    report.downgrade(Verdict::Missing, Finding::error(log::LOG_MISSING, message));
    Ok(FileResult::Reports(vec![report]))
}

/// The report of a document that was moved without its seal file, by the seal in its earlier place.
///
/// # Errors
/// As [`look`].
pub(super) fn moved_here(
    context: &Context,
    file: &RegularFile,
    earlier: &Path,
) -> Result<Option<Report>, VerifyError> {
    let seal_file = seal_path(earlier);
    if context.is_file(earlier) || !context.is_file(&seal_file) {
        return Ok(None);
    }
    let Some(seal) = seal_beside(context, &seal_file)? else {
        return Ok(None);
    };
    let mut report = look_beside(context, file, None, &seal)?;
    if report.verdict.is_evidence() {
        return Ok(None);
    }
    let message = format!(
        "the document was moved here; its seal is {}",
        shown(&seal_file)
    );
    report.find(Finding::note(FindingCode::SealsElsewhere, message));
    Ok(Some(report))
}

/// The present path of the document that the seal covers, if it was moved from `path`.
fn moved_from(context: &Context, path: &Path, seal: &[u8]) -> Result<Option<PathBuf>, VerifyError> {
    let Some(sealed) = document::read_beside(seal) else {
        return Ok(None);
    };
    let Some(known) = context.host.heads.fetch(&sealed.record)? else {
        return Ok(None);
    };
    let fits = |there: &PathBuf| {
        let file = read::open_regular(&*context.host.fs, there).ok()?;
        let is_size = file.size() == known.head.size;
        let bytes = is_size.then(|| file.read_whole(MAX_DOCUMENT_BYTES).ok())??;
        let options = Options::new(sealed.kind, &context.request.trust, context.now);
        let report = document::verify_beside(&bytes, seal, &options).report;
        (report.head == Some(known.head)).then_some(())
    };
    let mut near = neighbours(&context.host, path).into_iter();
    Ok(near.find(|there| fits(there).is_some()))
}

/// Judges a document by `verify`, first alone and then against the head that this host knows.
fn judge(
    context: &Context,
    path: &Path,
    kind: DocumentKind,
    verify: impl Fn(&Options<'_>) -> Result<Report, VerifyError>,
) -> Result<Report, VerifyError> {
    let path = shown(path);
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
        exact_head: context.request.exact_head,
        ..Options::new(kind, &context.request.trust, context.now)
    };
    let mut report = verify(&options)?;
    // The record is known only after a first look; a head that this host holds counts as well.
    let Some(record) = report.record else {
        return Ok(report);
    };
    let stored = context.host.heads.fetch(&record)?;
    let Some(stored) = stored.filter(|stored| !as_of::is_later(context, &stored.head)) else {
        return Ok(report);
    };
    options.held_since = stored
        .held_since()
        .filter(|_| report.head == Some(stored.head));
    if options.held_since.is_some() && options.expect_head.is_some() {
        report = verify(&options)?;
    }
    options.expect_head = Some(ExpectedHead::Head(stored.head));
    options.exact_head = false;
    let mut held = verify(&options)?;
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
