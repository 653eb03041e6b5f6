//! One file in, its reports out: one for each claim that is made about it.
//!
//! | kind | claims | looked at by |
//! |---|---|---|
//! | transcript | its own checkpoints; a seal file beside it | `transcript`, `log` |
//! | log | a seal file beside it | `log` |
//! | document | its own signature; a seal of its own, or the seals of a log, in a file beside it | `document`, `log` |
//! | scroll | its own hashes and signatures; a seal file beside it | `scroll`, `log` |
//! | checkpoint | its seal and place in the lineage that all checkpoints at hand make; a seal file beside it | `lineage`, `log` |
//! | ledger | its chains, one for each run, and signatures; a signed head, an index, a seal file beside it | `ledger`, `log` |
//!
//! A file inside a folder is passed over when nothing claims to protect it and it is no record
//! (a plain source file); a file that was named always gets a result.

use super::context::{Context, shown};
use super::file_result::FileResult;
use super::{
    companions, displacement, document, finish, ledger, leftover, lineage, log, pruned, scroll,
    transcript,
};
use crate::clean::Clean;
use crate::detect::{self, Kind, LedgerShape, PAGE_IS_NO_RECORD};
use crate::error::{VerifyError, is_gone};
use crate::inputs::Candidate;
use crate::output::PathError;
use crate::request::{RequestedProfile, VerifyRequest};
use std::path::Path;
use threadseal_core::record::RecordKind;
use threadseal_core::report::{Finding, FindingCode, Profile, Report, Severity, Verdict};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::document::DocumentKind;
use threadseal_store::observer::seal_path;
use threadseal_store::read::RegularFile;
use threadseal_store::sys::{FileIdentity, directory_of, place_itself};

/// Looks after the first, where a record seems older than its head.
pub(super) const SECOND_LOOKS: usize = 2;

/// Verifies one file.
pub(super) fn verify_candidate(context: &Context, candidate: &Candidate) -> FileResult {
    let mut before = stamps(context, candidate);
    let mut seen = look_or_fail(context, candidate);
    // A record that was sealed while it was read seems older than its head: the file was
    // opened before the head was fetched. Another look, after that head, decides.
    for _ in 0..SECOND_LOOKS {
        let again = match &seen {
            FileResult::Reports(reports) | FileResult::Link(_, reports) => {
                let accused = reports.iter().any(|report| report.verdict.is_evidence());
                reports.iter().any(seems_older)
                    || (accused && may_have_changed(context, candidate, &before))
            }
            // In a database a reader loses a file that is replaced while it is open.
            FileResult::Failed(_) => {
                context.is_shared || may_have_changed(context, candidate, &before)
            }
            _ => false,
        };
        if !again {
            break;
        }
        before = stamps(context, candidate);
        seen = look_or_fail(context, candidate);
    }
    if matches!(seen, FileResult::Failed(_)) && has_vanished(context, candidate) {
        return FileResult::PassedOver;
    }
    if let FileResult::Reports(reports) | FileResult::Link(_, reports) = &mut seen {
        for report in reports {
            finish::finish(context, report, &candidate.path);
        }
    }
    seen
}

/// The states of a file and of the seals beside it.
type Stamps = [Option<(FileIdentity, u64, i128)>; 2];

fn stamps(context: &Context, candidate: &Candidate) -> Stamps {
    let stamp = |path: &Path| {
        let found = context.host.fs.metadata(path).ok()?;
        Some((found.identity, found.size, found.changed_ns))
    };
    [stamp(&candidate.path), stamp(&seal_path(&candidate.path))]
}

/// Were the file or its seals changed, moved or made while they were looked at or shortly before, or
/// are seals being made in this home? Then the look may have met them in between.
fn may_have_changed(context: &Context, candidate: &Candidate, before: &Stamps) -> bool {
    if context.is_shared {
        return false;
    }
    let waited = context.host.keys.wait_for_seals();
    let now = stamps(context, candidate);
    let mut all = now.iter().flatten();
    waited || now != *before || all.any(|(_, _, changed)| is_recent(context, *changed))
}

/// Was there a change since this run began, or in the second before it? The times of files are
/// coarse.
fn is_recent(context: &Context, changed_ns: i128) -> bool {
    changed_ns >= (i128::from(context.now.as_micros()) - 1_000_000) * 1000
}

/// May seals have been made in the folder of `path` since this run began? Waits for those that are
/// being made.
pub(super) fn may_be_sealing_beside(context: &Context, path: &Path) -> bool {
    if context.is_shared {
        return false;
    }
    let waited = context.host.keys.wait_for_seals();
    let found = context.host.fs.metadata(directory_of(path));
    waited || found.is_ok_and(|found| is_recent(context, found.changed_ns))
}

/// Was it only found in a folder, and is gone, and did nothing show that it was a record? A running
/// project makes and removes files all the time.
fn has_vanished(context: &Context, candidate: &Candidate) -> bool {
    let fs = &*context.host.fs;
    let gone = |path: &Path| {
        fs.symlink_metadata(path)
            .is_err_and(|error| is_gone(&error))
    };
    !candidate.named
        && !context.is_shared
        && gone(&candidate.path)
        && gone(&seal_path(&candidate.path))
        && gone(&ledger::head_path(&candidate.path))
        && never_sealed(context, &candidate.path)
}

/// Does this host know no record that was sealed in this place, or in this folder? What cannot be
/// looked up may be one.
pub(super) fn never_sealed(context: &Context, path: &Path) -> bool {
    let heads = &*context.host.heads;
    let place = place_itself(&*context.host.fs, path);
    let inside = format!("{place}/");
    let is_it = |known: &String| {
        let path = known.strip_prefix("sqlite:").unwrap_or(known);
        path == place || path.starts_with(&inside)
    };
    let last = |kind| heads.find_by_place(kind, &place);
    let none_last = RecordKind::ALL
        .into_iter()
        .all(|kind| matches!(last(kind), Ok(None)));
    let known = heads.records_in(&|places: &[String]| places.iter().any(is_it));
    none_last && known.is_ok_and(|known| known.is_empty())
}

fn look_or_fail(context: &Context, candidate: &Candidate) -> FileResult {
    look(context, candidate).unwrap_or_else(|failure| {
        FileResult::Failed(PathError::of(Some(&candidate.path), &failure))
    })
}

fn look(context: &Context, candidate: &Candidate) -> Result<FileResult, VerifyError> {
    // A small file is looked at several times, for what it is and for what it proves.
    let file = context
        .stores
        .open(&*context.host.fs, &candidate.path)?
        .hold_if_small()?;
    look_at(context, candidate, &file)
}

/// Verifies the file at `path`: each claim about it, as `verify` does. Of a file of at most `limit`
/// bytes these are the bytes that the result holds; without a limit it holds none.
///
/// # Errors
/// When it cannot be read, or there is no verdict on it.
pub(super) fn read_source(
    context: &Context,
    path: &Path,
    limit: Option<usize>,
) -> Result<(RegularFile, Vec<Report>), VerifyError> {
    let candidate = Candidate {
        path: path.to_owned(),
        named: true,
        bytes: 0,
    };
    let once = || {
        let file = context.stores.open(&*context.host.fs, path)?;
        let file = match limit {
            Some(limit) => file.hold(limit)?,
            None => file,
        };
        let reports = match look_at(context, &candidate, &file)? {
            FileResult::Reports(reports) => reports,
            FileResult::Link(..) => {
                let text = "a checkpoint of a lineage is not converted";
                return Err(VerifyError::refused(text).about(path));
            }
            FileResult::Failed(error) => return Err(VerifyError::refused(error.message)),
            // Nothing seals what is no record.
            FileResult::NoRecord(_) | FileResult::PassedOver | FileResult::Elsewhere => Vec::new(),
        };
        Ok::<_, VerifyError>((file, reports))
    };
    let (mut file, mut reports) = once()?;
    for _ in 0..SECOND_LOOKS {
        if !reports.iter().any(seems_older) {
            break;
        }
        (file, reports) = once()?;
    }
    for report in &mut reports {
        finish::finish(context, report, path);
    }
    Ok((file, reports))
}

fn look_at(
    context: &Context,
    candidate: &Candidate,
    file: &RegularFile,
) -> Result<FileResult, VerifyError> {
    if !candidate.named && leftover::is_one(context, file)? {
        return Ok(FileResult::PassedOver);
    }
    if context.request.format.is_none() && detect::is_page(file)? {
        return Ok(FileResult::NoRecord(page(&candidate.path)));
    }
    let kind = kind(context, file)?;
    if kind == Some(Kind::Sidecar) {
        return log::sidecar(context, file.path(), candidate.named);
    }
    if kind == Some(Kind::LedgerHead) {
        return ledger::sidecar(context, file.path(), candidate.named);
    }
    if kind == Some(Kind::LedgerIndex) {
        return ledger::index(context, file.path(), candidate.named);
    }
    if kind == Some(Kind::Checkpoint) && context.request.profile != RequestedProfile::Observed {
        let reports = claims(context, file, kind, false)?;
        let facts = lineage::look(context, file)?;
        return Ok(FileResult::Link(Box::new(facts), reports));
    }
    let is_other = kind.is_some_and(|kind| !matches!(kind, Kind::Scroll(_)));
    if context.request.scroll.is_some() && (is_other || (kind.is_none() && candidate.named)) {
        let text = "a length or an age was requested, but only scrolls have them";
        return Err(VerifyError::refused(text).about(&candidate.path));
    }
    let mut reports = claims(context, file, kind, candidate.named)?;
    excuse_from_head(context, file, kind, candidate.named, &mut reports)?;
    // Its real place: a record in a store is named in another way.
    displacement::hold(context, file.path(), &mut reports)?;
    // A walk learns later whether it meets the log elsewhere.
    if candidate.named && reports.iter().all(|report| report.record.is_none()) {
        let gone = displacement::overwritten(context, &candidate.path)?;
        let gone = pruned::explain_pruned(context, gone)?;
        let logs = gone.into_iter();
        reports.extend(logs.filter(|gone| gone.profile == Profile::Observed));
    }
    match (reports.is_empty(), kind) {
        (false, _) => Ok(FileResult::Reports(reports)),
        (true, None) if candidate.named => {
            let text = match detect::other(file)? {
                Some((what, command)) => format!(
                    "{what} is not a record; hint: threadseal {command} {}",
                    Clean(&shown(&candidate.path))
                ),
                None => "unknown format".to_owned(),
            };
            let failure = VerifyError::refused(text).about(&candidate.path);
            let error = PathError::of(Some(&candidate.path), &failure);
            Ok(FileResult::NoRecord(error))
        }
        (true, _) => Ok(FileResult::PassedOver),
    }
}

/// That the file at `path` is an exported page.
fn page(path: &Path) -> PathError {
    let failure = page_is_no_record(path);
    PathError {
        is_page: true,
        ..PathError::of(Some(path), &failure)
    }
}

/// Why nothing is read from a page as from a record.
pub(super) fn page_is_no_record(path: &Path) -> VerifyError {
    let hint = Clean(&shown(path)).to_string();
    let text = format!("{PAGE_IS_NO_RECORD}; hint: threadseal verify {hint}");
    VerifyError::refused(text).about(path)
}

/// The claims that the profile asks for. A file that makes none is reported as unsigned where
/// it was named or should make one.
fn claims(
    context: &Context,
    file: &RegularFile,
    kind: Option<Kind>,
    named: bool,
) -> Result<Vec<Report>, VerifyError> {
    let mut reports = Vec::new();
    let beside = matches!(
        context.request.profile,
        RequestedProfile::Auto | RequestedProfile::Observed
    );
    let seals = seal_path(file.path());
    if context.exists(&seals) {
        let profile = context.request.profile;
        match document::seal_beside(context, &seals)? {
            Some(seal) if matches!(profile, RequestedProfile::Auto | RequestedProfile::Native) => {
                let text = match kind {
                    Some(Kind::Document(text)) => Some(text),
                    _ => None,
                };
                reports.push(document::look_beside(context, file, text, &seal)?);
            }
            None if beside => reports.push(log::sealed(context, file, &seals)?),
            _ => {}
        }
    }
    if context.request.profile == RequestedProfile::Observed {
        if reports.is_empty() && (named || kind == Some(Kind::Log)) {
            reports.push(unsealed(context, file)?);
        }
        return Ok(reports);
    }
    if let Some(Kind::Ledger(shape)) = kind {
        reports.extend(ledger::look(context, file, shape)?);
        return Ok(reports);
    }
    if kind == Some(Kind::Checkpoint) {
        return Ok(reports);
    }
    if let Some(report) = own_claim(context, file, kind)? {
        let is_source = matches!(kind, Some(Kind::Document(kind)) if kind != DocumentKind::Json);
        let should_claim = reports.is_empty() && (named || !is_source);
        // One file does not show what else is missing.
        let beside = match kind {
            Some(Kind::Native) if !named => companions::beside(context, file, &report)?,
            _ => Vec::new(),
        };
        if should_claim || !claims_nothing(&report) {
            reports.push(report);
        }
        reports.extend(beside);
    }
    Ok(reports)
}

/// An expected head is of one record. Of a file that is several, those that it was not meant
/// for are looked at without it.
fn excuse_from_head(
    context: &Context,
    file: &RegularFile,
    kind: Option<Kind>,
    named: bool,
    reports: &mut [Report],
) -> Result<(), VerifyError> {
    let is_meant = reports.iter().any(|report| !misses_head(report));
    if context.request.expect_head.is_none() || !is_meant || !reports.iter().any(misses_head) {
        return Ok(());
    }
    let without = context.with(VerifyRequest {
        expect_head: None,
        exact_head: false,
        ..context.request.clone()
    });
    let again = claims(&without, file, kind, named)?;
    for (report, again) in reports.iter_mut().zip(again) {
        if misses_head(report) {
            *report = again;
        }
    }
    Ok(())
}

/// What the file itself carries. That it carries nothing is evidence where this host sealed it
/// and no seals lie beside it either.
fn own_claim(
    context: &Context,
    file: &RegularFile,
    kind: Option<Kind>,
) -> Result<Option<Report>, VerifyError> {
    let mut report = match kind {
        Some(Kind::Native) => transcript::native(context, file)?.report,
        // Rye's checkpoints are nothing to who asks for native seals.
        Some(Kind::Events) if context.request.profile != RequestedProfile::Native => {
            transcript::rye(context, file)?.report
        }
        Some(Kind::Events | Kind::Log) => log::unsealed(context, file),
        Some(Kind::Document(kind)) => document::look(context, file, kind)?,
        Some(Kind::Scroll(container)) => scroll::look(context, file, container)?,
        Some(
            Kind::Sidecar
            | Kind::LedgerHead
            | Kind::LedgerIndex
            | Kind::Ledger(_)
            | Kind::Checkpoint,
        ) => {
            return Ok(None);
        }
        // It holds lines of a record, and is marked as a copy.
        None if detect::is_copy(file)? => return Ok(None),
        // This host may know that such a file was a record.
        None if context.exists(&seal_path(file.path())) => return Ok(None),
        None => {
            let report = unsealed(context, file)?;
            let lost = FindingCode::SealsGone;
            let is_known = report.findings.iter().any(|finding| finding.code == lost);
            return Ok((is_known || report.verdict != Verdict::Unsigned).then_some(report));
        }
    };
    log::hold_if_bare(context, file, &mut report)?;
    Ok(Some(report))
}

/// A file that should have a seal file beside it, and has none.
fn unsealed(context: &Context, file: &RegularFile) -> Result<Report, VerifyError> {
    let mut report = log::unsealed(context, file);
    log::hold_if_bare(context, file, &mut report)?;
    Ok(report)
}

fn kind(context: &Context, file: &RegularFile) -> Result<Option<Kind>, VerifyError> {
    let name = file.path().to_string_lossy();
    Ok(match context.request.format {
        None => match (detect::kind(file)?, DocumentKind::of_name(&name)) {
            (Some(Kind::Native | Kind::Events), Some(text))
                if text != DocumentKind::Json && is_sealed_text(context, file, text) =>
            {
                Some(Kind::Document(text))
            }
            // It should be a ledger, whatever it holds now.
            (None | Some(Kind::Log), _) if ledger::is_beside_ledger(context, file.path()) => {
                Some(Kind::Ledger(LedgerShape::Lines))
            }
            (found, _) => found,
        },
        Some(ScopeFormat::Transcript) => Some(detect::transcript(file)?),
        Some(ScopeFormat::Log) => Some(Kind::Log),
        Some(ScopeFormat::Scroll) => Some(Kind::Scroll(detect::container(file)?)),
        Some(ScopeFormat::Ledger) => Some(Kind::Ledger(detect::ledger_shape(file)?)),
        Some(ScopeFormat::Lineage) => Some(Kind::Checkpoint),
        Some(ScopeFormat::Json) => Some(Kind::Document(DocumentKind::Json)),
        Some(ScopeFormat::Text) => {
            let by_name = DocumentKind::of_name(&name);
            let text = by_name.filter(|kind| *kind != DocumentKind::Json);
            Some(Kind::Document(text.unwrap_or(DocumentKind::Markdown)))
        }
    })
}

/// Is all of a file one text under the seal of a trusted key? A text may quote the lines of transcripts, as the entry
/// of a thread that read one does; nothing is hidden where every byte is vouched for.
fn is_sealed_text(context: &Context, file: &RegularFile, kind: DocumentKind) -> bool {
    let looked = document::look(context, file, kind);
    looked.is_ok_and(|report| report.verdict == Verdict::Verified)
}

/// Is the expected head none of this record's?
fn misses_head(report: &Report) -> bool {
    const OTHERS: [FindingCode; 4] = [
        FindingCode::RecordDiffers,
        FindingCode::HeadMissing,
        FindingCode::OtherRecord,
        FindingCode::OtherHead,
    ];
    let mut findings = report.findings.iter();
    findings.any(|found| OTHERS.contains(&found.code))
}

pub(super) fn seems_older(report: &Report) -> bool {
    // Bodies are read after the record that names them.
    let lacks = |finding: &Finding| finding.code == FindingCode::BodyMissing;
    matches!(report.verdict, Verdict::Truncated | Verdict::RolledBack)
        || report.findings.iter().any(lacks)
}

/// Does nothing in the file claim to protect it, and nothing else speak of it?
fn claims_nothing(report: &Report) -> bool {
    let mut findings = report.findings.iter();
    report.verdict == Verdict::Unsigned
        && findings.all(|found| {
            found.severity == Severity::Note || found.code == FindingCode::NoCheckpoint
        })
}
