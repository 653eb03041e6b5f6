//! Transcripts: native records and Rye's.

use super::as_of;
use super::context;
use super::context::Context;
use super::displacement;
use super::file::{SECOND_LOOKS, page_is_no_record, seems_older};
use super::finish;
use super::log;
use super::logged;
use crate::detect::{self, Kind};
use crate::error::VerifyError;
use std::path::Path;
use threadseal_core::error::ErrorKind;
use threadseal_core::record::RecordId;
use threadseal_core::report::{Report, Verdict};
use threadseal_core::trust::ScopeFormat;
use threadseal_formats::transcript::bodies::SealedRedaction;
use threadseal_formats::transcript::rye;
use threadseal_formats::transcript::rye_compat::{self, Answers, Pass, Scanner};
use threadseal_formats::transcript::{Coverage, Outcome, ScanOptions, VerifyOptions};
use threadseal_formats::verified::Verified;
use threadseal_store::bodies;
use threadseal_store::examine::{self, Known};
use threadseal_store::heads::StoredHead;
use threadseal_store::host::Host;
use threadseal_store::read::{RegularFile, Source as _};
use threadseal_store::recorder::Judged;

/// Largest transcript that is held in memory.
pub const MAX_TAKEN_UP_BYTES: usize = 2 << 30;

/// The result for a transcript.
#[derive(Debug, Clone)]
pub struct TranscriptResult {
    /// The report.
    pub report: Report,
    /// The part that may be trusted: all of a verified record, the sealed part of one whose seals all hold.
    pub verified_part: Option<Verified<Coverage>>,
    /// Where the bytes after that part are.
    pub tail: [u64; 2],
    /// The redactions that its seals cover; of a native record only.
    pub redactions: Vec<SealedRedaction>,
}

/// A transcript that was verified, and is held for a caller that relies on it.
#[derive(Debug)]
pub struct OpenedTranscript {
    /// The file that was verified.
    pub file: RegularFile,
    /// Its first line, without LF; empty where it has none.
    pub first_line: Vec<u8>,
    /// Its detached bodies, as they were then; empty where it has none.
    pub bodies: Vec<u8>,
    /// The result.
    pub result: TranscriptResult,
}

impl OpenedTranscript {
    /// The bytes of the file up to the size that was verified. A caller that reads them through the
    /// verified events notices a change.
    ///
    /// # Errors
    /// When they cannot be read, or are too many.
    pub fn bytes(&self) -> Result<Vec<u8>, VerifyError> {
        self.bytes_within(MAX_TAKEN_UP_BYTES)
    }

    /// As [`OpenedTranscript::bytes`], at most `limit`.
    ///
    /// # Errors
    /// As [`OpenedTranscript::bytes`].
    pub fn bytes_within(&self, limit: usize) -> Result<Vec<u8>, VerifyError> {
        let (mut bytes, mut chunks, mut chunk) = (Vec::new(), self.file.chunks(), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                return Ok(bytes);
            }
            if bytes.len() + chunk.len() > limit {
                let text = format!("more than {limit} bytes are not read");
                return Err(VerifyError::refused(text).about(self.file.path()));
            }
            bytes.extend_from_slice(&chunk);
        }
    }
}

/// Verifies the transcript at `path` and holds it: of at most `limit` bytes, and as many of bodies.
///
/// # Errors
/// When it cannot be read, is not a transcript, or has more.
pub(super) fn open_transcript_within(
    context: &Context,
    path: &Path,
    limit: Option<usize>,
) -> Result<OpenedTranscript, VerifyError> {
    // As in [`verify_candidate`]: it may be sealed or redacted while it is read.
    for _ in 0..SECOND_LOOKS {
        match open_once(context, path, limit) {
            Ok(opened) if !seems_older(&opened.result.report) => return Ok(opened),
            Ok(_) | Err(_) => {}
        }
    }
    open_once(context, path, limit)
}

fn open_once(
    context: &Context,
    path: &Path,
    limit: Option<usize>,
) -> Result<OpenedTranscript, VerifyError> {
    let file = context
        .stores
        .open(&*context.host.fs, path)?
        .hold_if_small()?;
    if let Some(limit) = limit.filter(|limit| file.size() > *limit as u64) {
        let text = format!("{} has more than {limit} bytes", file.path().display());
        return Err(VerifyError::new(ErrorKind::Limit, text));
    }
    let first_line = examine::first_line(&file)?.unwrap_or_default();
    // Read before the record is verified: what is redacted afterwards is still in them, as the record's lines have it.
    let fs = &*context.host.fs;
    let bodies = bodies::text_beside(
        fs,
        file.path(),
        &first_line,
        limit.unwrap_or(MAX_TAKEN_UP_BYTES),
    )?;
    let result = transcript(context, &file, &first_line)?;
    Ok(OpenedTranscript {
        file,
        first_line,
        bodies,
        result,
    })
}

/// Verifies the transcript in a file that the caller holds.
///
/// # Errors
/// As [`native`]; when it is no transcript.
pub(super) fn transcript_file(
    context: &Context,
    file: &RegularFile,
) -> Result<TranscriptResult, VerifyError> {
    let first = examine::first_line(file)?.unwrap_or_default();
    transcript(context, file, &first)
}

fn transcript(
    context: &Context,
    file: &RegularFile,
    first: &[u8],
) -> Result<TranscriptResult, VerifyError> {
    let kind = match context.request.format {
        Some(ScopeFormat::Transcript) => Some(detect::transcript(file)?),
        _ => detect::kind(file)?,
    };
    let mut result = match kind {
        Some(Kind::Native) => native_from(context, file, first)?,
        Some(Kind::Events) => rye(context, file)?,
        None if detect::is_page(file)? => return Err(page_is_no_record(file.path())),
        _ => return Err(VerifyError::refused("not a transcript").about(file.path())),
    };
    let report = &mut result.report;
    log::hold_if_bare(context, file, report)?;
    displacement::hold(context, file.path(), std::slice::from_mut(report))?;
    if report.verdict == Verdict::Foreign {
        result.verified_part = None;
    }
    finish::finish(context, report, file.path());
    Ok(result)
}

/// Verifies a native record.
///
/// # Errors
/// When it cannot be read, changes meanwhile, or the heads are damaged.
pub(super) fn native(
    context: &Context,
    file: &RegularFile,
) -> Result<TranscriptResult, VerifyError> {
    let first = examine::first_line(file)?.unwrap_or_default();
    native_from(context, file, &first)
}

/// The same, where the first line was read.
fn native_from(
    context: &Context,
    file: &RegularFile,
    first: &[u8],
) -> Result<TranscriptResult, VerifyError> {
    let looked = look(context, file, first, Held::Counts)?;
    let (outcome, size) = (looked.outcome, file.size());
    let (report, redactions) = (outcome.report.clone(), outcome.redactions.clone());
    let result = match outcome.verified {
        Some(verified) => TranscriptResult::whole(report, verified, size),
        None => TranscriptResult::sealed(
            report,
            outcome
                .lenient()
                .map(|parts| (parts.verified, parts.unverified.from, parts.unverified.to)),
            size,
        ),
    };
    Ok(TranscriptResult {
        redactions,
        ..result
    })
}

/// Judges a native record for its writer on `host`, as [`native`] does for a reader, with the host's
/// knowledge of its place.
///
/// # Errors
/// As [`native`].
pub(super) fn judge(
    context: &Context,
    host: &Host,
    file: &RegularFile,
) -> Result<Judged, VerifyError> {
    let context = &Context {
        host: host.clone(),
        ..context.clone()
    };
    let first = examine::first_line(file)?.unwrap_or_default();
    let Looked {
        outcome,
        scan,
        stored,
    } = look(context, file, &first, Held::IsNoLicence)?;
    let mut report = outcome.report;
    displacement::hold(context, file.path(), std::slice::from_mut(&mut report))?;
    finish::finish(context, &mut report, file.path());
    Ok(Judged {
        report,
        sealer: outcome.sealer,
        unfinished: outcome.unfinished,
        delegations: outcome.delegations,
        scan,
        stored,
    })
}

/// Does a seal count that this host held before its key was revoked?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Counts,
    IsNoLicence,
}

/// A native record that was read: the report has what the log knows of it.
struct Looked {
    outcome: Outcome,
    scan: ScanOptions,
    stored: Option<StoredHead>,
}

/// Reads a native record. Where a key was revoked, a second pass follows by what this host held: only
/// the seals held before count then.
fn look(
    context: &Context,
    file: &RegularFile,
    first: &[u8],
    held: Held,
) -> Result<Looked, VerifyError> {
    let request = &context.request;
    let record = examine::native_record(first);
    let known = known(context, record.as_ref())?;
    let scan = ScanOptions {
        every_signature: request.every_signature,
        expect: known.expect.clone(),
        bodies: bodies::beside(&*context.host.fs, file, first)?,
    };
    let mut options = VerifyOptions {
        trust: &request.trust,
        now: context.now,
        held_since: None,
        thread: request.thread.as_ref(),
    };
    let pass = if context.among_many {
        examine::native_among_many
    } else {
        examine::native
    };
    let mut outcome = pass(file, &scan, &options, &context.tick())?;
    options.held_since = context::held_since(&known, &outcome.report);
    let counts = held == Held::Counts && options.held_since.is_some();
    if counts && context::has_revoked_signer(&outcome.report) {
        outcome = pass(file, &scan, &options, &|_| {})?;
    }
    let report = &mut outcome.report;
    logged::hold_redactions(report, &outcome.redactions, &context.log)?;
    logged::hold_delegations(report, &outcome.delegations, &context.log)?;
    Ok(Looked {
        outcome,
        scan,
        stored: known.stored,
    })
}

impl TranscriptResult {
    fn whole(report: Report, verified: Verified<Coverage>, size: u64) -> Self {
        Self {
            report,
            verified_part: Some(verified),
            tail: [size, size],
            redactions: Vec::new(),
        }
    }

    fn sealed(report: Report, parts: Option<(Verified<Coverage>, u64, u64)>, size: u64) -> Self {
        let tail = parts
            .as_ref()
            .map_or([size, size], |(_, from, to)| [*from, *to]);
        Self {
            report,
            verified_part: parts.map(|(verified, _, _)| verified),
            tail,
            redactions: Vec::new(),
        }
    }
}

/// Verifies a transcript in Rye's format. Its record is known only after a first look; a head
/// that this host holds is then held against it.
///
/// # Errors
/// As [`native`].
pub(super) fn rye(context: &Context, file: &RegularFile) -> Result<TranscriptResult, VerifyError> {
    let request = &context.request;
    let mut options = rye::Options {
        thread: request.thread.as_ref(),
        expect: known(context, None)?.expect,
        every_signature: request.every_signature,
        ..rye::Options::new(&request.trust, context.now)
    };
    let keys = rye_compat::keys_of(&request.trust);
    let mut original = Scanner::new(&keys);
    let tick = context.tick();
    let mut outcome = pass(file, options.clone(), &mut |chunk| {
        tick(chunk.len() as u64);
        original.push(chunk);
    })?;
    let original = originally(original, file)?;
    let known = known(context, outcome.report.record.as_ref())?;
    let revoked = context::has_revoked_signer(&outcome.report);
    options.held_since = context::held_since(&known, &outcome.report).filter(|_| revoked);
    let again = known.stored.is_some() || options.held_since.is_some();
    if outcome.look_closer || again {
        options.every_signature |= outcome.look_closer;
        options.expect = known.expect;
        outcome = pass(file, options.clone(), &mut |_| {})?;
    }
    if outcome.look_closer {
        options.every_signature = true;
        outcome = pass(file, options, &mut |_| {})?;
    }
    outcome.report.compat.insert("rye", original.to_compat());
    let (report, size) = (outcome.report.clone(), file.size());
    Ok(match outcome.verified {
        Some(verified) => TranscriptResult::whole(report, verified, size),
        None => TranscriptResult::sealed(
            report,
            outcome
                .lenient()
                .map(|parts| (parts.verified, parts.unverified.from, parts.unverified.to)),
            size,
        ),
    })
}

fn known(context: &Context, record: Option<&RecordId>) -> Result<Known, VerifyError> {
    let request = &context.request;
    let heads = Some(&*context.host.heads);
    let mut known = examine::known(heads, record, request.expect_head, request.exact_head)?;
    known.expect = as_of::without_later(context, known.expect);
    Ok(known)
}

/// The answers of Rye's own context; it seldom needs the file a second time.
fn originally(first: Scanner<'_>, file: &RegularFile) -> Result<Answers, VerifyError> {
    match first.finish() {
        Pass::Done(answers) => Ok(answers),
        Pass::Again(mut second) => {
            read(file, &mut |chunk| second.push(chunk))?;
            Ok(second.finish())
        }
    }
}

fn pass(
    file: &RegularFile,
    options: rye::Options<'_>,
    beside: &mut dyn FnMut(&[u8]),
) -> Result<rye::Outcome, VerifyError> {
    let mut verifier = rye::Verifier::new(options);
    read(file, &mut |chunk| {
        verifier.push(chunk);
        beside(chunk);
    })?;
    Ok(verifier.finish())
}

fn read(file: &RegularFile, each: &mut dyn FnMut(&[u8])) -> Result<(), VerifyError> {
    let (mut chunks, mut buffer) = (file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        each(&buffer);
    }
}
