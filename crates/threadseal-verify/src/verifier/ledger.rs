//! Ledgers: files of lines, history bundles, SQLite files, and runs in any store.
//!
//! ```text
//! FILE.jsonl    one ledger; FILE.jsonl.head, if there, must be in it
//! bundle, store one report for each run, named FILE#RUN
//! ```
//! A file that is named as a store names it (`ledger_<run>.jsonl`) must be the ledger of that run.

use super::as_of;
use super::context;
use super::context::{Context, shown};
use super::file::{SECOND_LOOKS, seems_older};
use super::file_result::FileResult;
use super::finish;
use super::gone;
use super::logged;
#[cfg(feature = "sqlite")]
use super::stored_lineage;
#[cfg(feature = "sqlite")]
use crate::address;
use crate::address::without_secrets;
use crate::detect::LedgerShape;
use crate::error::VerifyError;
use crate::trust_sources;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};
#[cfg(feature = "sqlite")]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
#[cfg(not(feature = "sqlite"))]
use threadseal_core::error::Unbuilt;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{MAX_NOTE_BYTES, MAX_SOURCE_BYTES};
use threadseal_core::record::{Head, RecordId, RecordKind};
use threadseal_core::report::{
    CheckResult, Completeness, Expectation, Finding, FindingCode, Format, Profile, Report, Verdict,
};
use threadseal_formats::ledger::{
    Bundle, BundledLedger, ChainOptions, ChainTip, HEAD_ORIGIN, HeadAtHand, Judging, Outcome,
    RunId, SignedHead, View,
};
use threadseal_store::ledger::known::{self, Known};
use threadseal_store::ledger::{
    self, IndexState, JsonlLedgerStore, LedgerStore, LedgerStoreExt as _, Tip,
};
#[cfg(feature = "sqlite")]
use threadseal_store::lineage::KeyedCheckpointStore;
use threadseal_store::read::{RegularFile, open_regular};
#[cfg(feature = "sqlite")]
use threadseal_store::sqlite::{Contents, SqliteLedgerStore, SqliteObjects};
use threadseal_store::sys::place_itself;

/// Runs of a store that are asked for at once.
const PAGE_RUNS: usize = 256;
/// Names of a store that no run has, of which each gets a report.
const MAX_STRAYS: usize = 64;

/// Where the signed head of the ledger at `path` is.
pub fn head_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".head");
    PathBuf::from(name)
}

/// Verifies the ledger in the file at `path`, and returns the file, too: a ledger that grows while it is read seems
/// older than its head, since it was opened before the head was fetched. Another look, after that head, decides.
///
/// # Errors
/// As [`ledger_file`].
pub(super) fn ledger_at(
    context: &Context,
    path: &Path,
) -> Result<(RegularFile, Outcome), VerifyError> {
    let look = || {
        let file = open_regular(&*context.host.fs, path)?;
        let outcome = ledger_file(context, &file)?;
        Ok::<_, VerifyError>((file, outcome))
    };
    for _ in 0..SECOND_LOOKS {
        let (file, outcome) = look()?;
        if !seems_older(&outcome.report) {
            return Ok((file, outcome));
        }
    }
    look()
}

/// Verifies all ledgers in a file.
///
/// # Errors
/// When it cannot be read, or the heads are damaged.
pub(super) fn look(
    context: &Context,
    file: &RegularFile,
    shape: LedgerShape,
) -> Result<Vec<Report>, VerifyError> {
    Ok(match shape {
        LedgerShape::Lines => {
            let report = ledger_file(context, file)?.report;
            let index = index_report(context, file.path())?;
            iter::once(report).chain(index).collect()
        }
        LedgerShape::Bundle => bundle(context, file)?,
        LedgerShape::Sqlite => sqlite(context, file)?,
    })
}

#[cfg(feature = "sqlite")]
fn sqlite(context: &Context, file: &RegularFile) -> Result<Vec<Report>, VerifyError> {
    let (path, name) = (file.path(), shown(file.path()));
    let contents = Contents::of(path)?;
    let mut reports = match contents.ledgers || !contents.objects {
        true => verify_store(context, &SqliteLedgerStore::open_read_only(path)?, &name)?,
        false => without_tables(context, path, &name)?,
    };
    if contents.objects {
        let objects = Arc::new(SqliteObjects::open_read_only(path)?);
        let store = KeyedCheckpointStore::new(objects);
        let place = format!("sqlite:{}", context.host.place(path));
        let lineages = stored_lineage::read_from(context, &store, &name, None)?.at(place);
        reports.extend(stored_lineage::reports(context, lineages)?);
    }
    Ok(reports)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_context: &Context, file: &RegularFile) -> Result<Vec<Report>, VerifyError> {
    let action = format!("read {}", shown(file.path()));
    Err(Unbuilt::Sqlite.error(action).into())
}

/// Does a file beside `path` show that a ledger should be there: its signed head, or its index?
pub(super) fn is_beside_ledger(context: &Context, path: &Path) -> bool {
    let head = read_head(context, path);
    head.is_ok_and(|text| text.is_some_and(|text| text.starts_with(HEAD_ORIGIN)))
        || run_of_name(path).is_some() && context.is_file(&index_path(path))
}

/// Where the index of the ledger at `path` is.
fn index_path(path: &Path) -> PathBuf {
    path.with_extension("index")
}

/// A report of the index of the ledger at `path`, where other bytes than an index are in it. An index
/// that lacks records, or that a loss of power damaged, shows nothing.
///
/// # Errors
/// When it cannot be read.
pub(super) fn index_report(context: &Context, path: &Path) -> Result<Option<Report>, VerifyError> {
    let Some(IndexState::Changed(at)) = index_state(context, path)? else {
        return Ok(None);
    };
    let mut report = Report::begin(Format::Ledger, Profile::ThreadSeal);
    report.path = shown(&index_path(path));
    report.trust = Some(context.request.trust.digest());
    let text =
        "other bytes than the index of this ledger are in it; hint: threadseal fsck --repair";
    let finding = Finding::error(FindingCode::IndexMalformed, text);
    report.downgrade(Verdict::Malformed, finding.at_bytes(at, at));
    Ok(Some(report))
}

/// What the index beside the ledger at `path` shows, if the ledger is called as a store calls it.
fn index_state(context: &Context, path: &Path) -> Result<Option<IndexState>, VerifyError> {
    let (Some(run), Some(folder)) = (run_of_name(path), path.parent()) else {
        return Ok(None);
    };
    if !context.exists(&index_path(path)) {
        return Ok(None);
    }
    Ok(Some(JsonlLedgerStore::check_index(
        &context.host.fs,
        folder,
        &run,
    )?))
}

/// The index of a ledger: the ledger is verified with it, or is missing if the index knows records.
///
/// # Errors
/// As [`look`].
pub(super) fn index(
    context: &Context,
    index: &Path,
    named: bool,
) -> Result<FileResult, VerifyError> {
    let path = index.with_extension("jsonl");
    let (Some(run), Some(folder)) = (run_of_name(&path), path.parent()) else {
        return Ok(FileResult::PassedOver);
    };
    // Of the ledger, or of its signed head, where only that is left.
    let told_elsewhere = context.is_walked(&path) || context.is_walked(&head_path(&path));
    if told_elsewhere && !named {
        return Ok(FileResult::Elsewhere);
    }
    if context.is_file(&path) {
        let file = open_regular(&*context.host.fs, &path)?;
        let mut reports = look(context, &file, LedgerShape::Lines)?;
        if let Some(report) = reports.first_mut() {
            report.path = shown(&path);
        }
        return Ok(FileResult::Reports(reports));
    }
    let lost = JsonlLedgerStore::lost_with_ledger(&context.host.fs, folder, &run)?;
    if lost == 0 {
        return Ok(FileResult::PassedOver);
    }
    let mut report = Report::begin(Format::Ledger, Profile::AbstractRuntime);
    report.path = shown(&path);
    report.trust = Some(context.request.trust.digest());
    report.record = Some(run.record_id());
    let message = format!("its index knows {lost} records, but the ledger is missing");
    report.downgrade(
        Verdict::Missing,
        Finding::error(FindingCode::LedgerMissing, message),
    );
    Ok(FileResult::Reports(vec![report]))
}

/// A signed head without its ledger: the ledger is verified instead, or is missing.
///
/// # Errors
/// As [`look`].
pub(super) fn sidecar(
    context: &Context,
    head: &Path,
    named: bool,
) -> Result<FileResult, VerifyError> {
    let ledger: PathBuf = head.with_extension("");
    let walked = context.is_walked(&ledger);
    if walked && !named {
        return Ok(FileResult::Elsewhere);
    }
    if context.is_file(&ledger) {
        let (_, outcome) = ledger_at(context, &ledger)?;
        let mut report = outcome.report;
        report.path = shown(&ledger);
        return Ok(FileResult::Reports(vec![report]));
    }
    let text = read_head(context, &ledger)?.unwrap_or_default();
    let signed = match SignedHead::parse(&text) {
        Ok(signed) => signed,
        Err(_) if !named => return Ok(FileResult::PassedOver),
        Err(error) => return Err(VerifyError::refused(error.to_string()).about(head)),
    };
    let mut report = Report::begin(Format::Ledger, Profile::AbstractRuntime);
    report.path = shown(&ledger);
    report.trust = Some(context.request.trust.digest());
    report.record = Some(signed.statement.run.record_id());
    let message = "its signed head is here, but the ledger is missing";
    report.downgrade(
        Verdict::Missing,
        Finding::error(FindingCode::LedgerMissing, message),
    );
    Ok(FileResult::Reports(vec![report]))
}

/// Verifies a ledger in a file of lines.
///
/// # Errors
/// When it cannot be read, or the heads are damaged.
pub(super) fn ledger_file(context: &Context, file: &RegularFile) -> Result<Outcome, VerifyError> {
    let by_name = run_of_name(file.path());
    let run = match context
        .request
        .ledger
        .run
        .clone()
        .or_else(|| by_name.clone())
    {
        Some(run) => Some(run),
        None => known::run_of(file.chunks())?,
    };
    let text = read_head(context, file.path())?;
    let signed = text.as_deref().map(SignedHead::parse);
    let head = signed.as_ref().and_then(|signed| signed.as_ref().ok());
    let stated = head.and_then(|head| head.statement.file);
    let beginning = stated.map(|stated| known::digest_of_beginning(file, stated.bytes));
    let at_hand = match (head, beginning.transpose()?) {
        (Some(head), file) => Some(HeadAtHand { head, file }),
        (None, _) => None,
    };
    let options = ChainOptions {
        run: context.request.ledger.run.clone().or(by_name),
        ..ChainOptions::default()
    };
    let place = place_itself(&*context.host.fs, file.path());
    let known = known_of(context, run.as_ref(), Some(&place))?;
    let mut outcome = judge_ledger(
        context,
        run.as_ref(),
        &known,
        options,
        at_hand,
        |options, judging| ledger::verify(file.chunks(), options, judging, &context.tick()),
    )?;
    if let Some(Err(_)) = signed {
        let text = "the file beside the ledger is not a signed head of a ledger";
        let finding = Finding::error(FindingCode::HeadMalformed, text);
        outcome.report.downgrade(Verdict::Malformed, finding);
        outcome.verified = None;
        outcome.tip = None;
    }
    if let Some(IndexState::Lost(number)) = index_state(context, file.path())? {
        let text = format!(
            "the index beside it acknowledged record {number}, and the ledger does not have that record"
        );
        let finding = Finding::error(FindingCode::RecordsLost, text);
        outcome.report.downgrade(Verdict::RolledBack, finding);
        outcome.verified = None;
        outcome.tip = None;
    }
    finish::finish_as(context, &mut outcome.report, file.path(), known.stored_as());
    Ok(outcome)
}

/// Verifies the ledgers of the store at `address`.
///
/// # Errors
/// As [`store`]; when no store has this address.
pub(super) fn store_at(context: &Context, address: &str) -> Result<Vec<Report>, VerifyError> {
    #[cfg(feature = "sqlite")]
    if let Some(path) = address::sqlite_file(address)?
        && let Ok(Contents {
            ledgers: false,
            objects: true,
        }) = Contents::of(&path)
    {
        return without_tables(context, &path, address);
    }
    verify_store(context, &*context.stores.ledgers(address)?, address)
}

/// What this host sealed last in an SQLite file that has lineages, and no table of ledgers.
#[cfg(feature = "sqlite")]
fn without_tables(context: &Context, path: &Path, name: &str) -> Result<Vec<Report>, VerifyError> {
    let own = format!("sqlite:{}", context.host.place(path));
    let joined = context.joined.lock();
    let here = joined.unwrap_or_else(PoisonError::into_inner).clone();
    gone::gone_from(context, RecordKind::Ledger, (name, Some(&own)), &here)
}

/// Verifies the runs of a store, or the one that was asked for.
///
/// # Errors
/// When it cannot be read, or the heads are damaged.
pub(super) fn verify_store(
    context: &Context,
    store: &dyn LedgerStore,
    name: &str,
) -> Result<Vec<Report>, VerifyError> {
    let mut reports = Vec::new();
    if let Some(run) = &context.request.ledger.run {
        reports.push(verify_run(context, store, run, name)?.report);
        return Ok(reports);
    }
    let (runs, mut here) = verify_runs(context, store, name)?;
    reports.extend(runs);
    if let Some(own) = store.place() {
        let joined = context.joined.lock();
        here.extend(joined.unwrap_or_else(PoisonError::into_inner).iter());
        let place = (name, Some(own.as_str()));
        reports.extend(gone::gone_from(context, RecordKind::Ledger, place, &here)?);
    }
    reports.extend(strays(context, store, name)?);
    Ok(reports)
}

/// Verifies the runs of a store; the second part is their records.
///
/// # Errors
/// As [`verify_store`].
pub(super) fn verify_runs(
    context: &Context,
    store: &dyn LedgerStore,
    name: &str,
) -> Result<(Vec<Report>, BTreeSet<RecordId>), VerifyError> {
    let (mut last, mut reports, mut here) = (None, Vec::new(), BTreeSet::new());
    loop {
        let runs = store.runs(last.as_ref(), PAGE_RUNS)?;
        for run in &runs {
            here.insert(run.record_id());
            reports.push(verify_run(context, store, run, name)?.report);
        }
        match runs.into_iter().next_back() {
            Some(run) => last = Some(run),
            None => return Ok((reports, here)),
        }
    }
}

/// A report of each name in a store that no run has.
///
/// # Errors
/// When it cannot be read.
pub(super) fn strays(
    context: &Context,
    store: &dyn LedgerStore,
    name: &str,
) -> Result<Vec<Report>, VerifyError> {
    let strays = store.strays(MAX_STRAYS)?;
    let report = |stray: &String| {
        let mut report = Report::begin(Format::Ledger, Profile::AbstractRuntime);
        report.trust = Some(context.request.trust.digest());
        report.path = format!("{}#{stray}", without_secrets(name));
        let text =
            "something is stored under a name that no run of this store has; it misleads readers";
        let finding = Finding::error(FindingCode::RunNameBad, text);
        report.downgrade(Verdict::Malformed, finding);
        report
    };
    Ok(strays.iter().map(report).collect())
}

/// Verifies one run of a store.
///
/// # Errors
/// As [`store`].
pub(super) fn verify_run(
    context: &Context,
    store: &dyn LedgerStore,
    run: &RunId,
    name: &str,
) -> Result<Outcome, VerifyError> {
    let options = ChainOptions {
        run: Some(run.clone()),
        ..ChainOptions::default()
    };
    let (refusal, listed) = (Mutex::new(None), AtomicU64::new(0));
    let place = store.place_of(run);
    let known = known_of(context, Some(run), place.as_deref())?;
    let before = store.tip(run);
    let mut outcome = judge_ledger(
        context,
        Some(run),
        &known,
        options,
        None,
        |options, judging| {
            let mut records = store.list(run, 0);
            listed.store(0, Ordering::Relaxed);
            let next = || match records.next().transpose() {
                Err(error) if is_of_records(&error) => {
                    *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Ok(None)
                }
                record => {
                    let record = record?;
                    listed.fetch_add(u64::from(record.is_some()), Ordering::Relaxed);
                    Ok(record.map(|record| record.line))
                }
            };
            ledger::verify_records(next, options, judging)
        },
    )?;
    let refusal = refusal.into_inner().unwrap_or_else(PoisonError::into_inner);
    let tip = match (refusal, store.tip(run)) {
        (Some(error), _) => {
            // Another reader might have read further.
            outcome.report.compat.clear();
            Err(error)
        }
        (None, Err(error)) if !is_of_records(&error) => return Err(error.into()),
        (None, Ok(tip)) if before.is_ok_and(|before| before == tip) => {
            agree(tip, listed.into_inner(), outcome.tip.as_ref())
        }
        (None, tip) => tip,
    };
    if let Err(error) = tip {
        match store.tombstone(run) {
            Ok(Some(_)) => return Err(error.into()),
            Err(why) if !is_of_records(&why) => return Err(why.into()),
            Ok(None) | Err(_) => {}
        }
        let finding = Finding::error(FindingCode::StoreRefuses, error.to_string());
        outcome.report.downgrade(Verdict::Tampered, finding);
        outcome.verified = None;
        outcome.tip = None;
    } else if outcome.report.stats.events == 0
        && tip.is_ok_and(|tip| tip.is_none())
        && known.head().is_some()
    {
        let text = "this host knows records of the run, but the store has none";
        let finding = Finding::error(FindingCode::LedgerMissing, text);
        outcome.report.downgrade(Verdict::Missing, finding);
    }
    outcome.report.path = format!("{}#{run}", without_secrets(name));
    finish::finish_as(
        context,
        &mut outcome.report,
        Path::new(name),
        known.stored_as(),
    );
    Ok(outcome)
}

/// Verifies the ledgers of the bundle at `path`.
///
/// # Errors
/// As [`store`].
pub(super) fn bundle_file(context: &Context, path: &str) -> Result<Vec<Report>, VerifyError> {
    bundle(context, &open_regular(&*context.host.fs, Path::new(path))?)
}

/// Verifies the ledgers of a bundle.
fn bundle(context: &Context, file: &RegularFile) -> Result<Vec<Report>, VerifyError> {
    let bytes = file.read_whole(MAX_SOURCE_BYTES)?;
    context.advance(file.size());
    let bundle = match Bundle::parse(&bytes) {
        Ok(bundle) => bundle,
        Err(error) => return Ok(vec![malformed(context, file, &error)]),
    };
    let mut reports = Vec::new();
    for ledger in &bundle.ledgers {
        if context
            .request
            .ledger
            .run
            .as_ref()
            .is_some_and(|run| *run != ledger.run)
        {
            continue;
        }
        let mut report = bundled(context, ledger)?.report;
        report.path = format!("{}#{}", shown(file.path()), ledger.run);
        if let Some(offset) = bundle.repeated {
            let text = "a member of the bundle occurs twice: readers differ on which one counts";
            let finding = Finding::error(FindingCode::NameRepeated, text);
            let at = offset as u64;
            report.downgrade(Verdict::Tampered, finding.at_bytes(at, at));
            (report.head, report.trusted_until) = (None, None);
            report.completeness = Completeness::Unproved;
        }
        finish::finish(context, &mut report, file.path());
        reports.push(report);
    }
    if let (true, Some(run)) = (reports.is_empty(), &context.request.ledger.run) {
        let mut report = begin(context, file);
        report.path = format!("{}#{run}", shown(file.path()));
        let text = "the bundle has no ledger of this run";
        let finding = Finding::error(FindingCode::LedgerMissing, text);
        report.downgrade(Verdict::Missing, finding);
        reports.push(report);
    }
    Ok(reports)
}

/// Verifies one ledger of a bundle.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn bundled(context: &Context, ledger: &BundledLedger) -> Result<Outcome, VerifyError> {
    let options = ChainOptions {
        run: Some(ledger.run.clone()),
        view: ledger.view,
        first: ledger.first,
        ..ChainOptions::default()
    };
    let known = match ledger.view {
        View::Whole => known_of(context, Some(&ledger.run), Some(known::BUNDLE))?,
        View::Window | View::Replay => Known::default(),
    };
    judge_ledger(
        context,
        Some(&ledger.run),
        &known,
        options,
        None,
        |options, judging| {
            let mut lines = ledger.lines.iter().cloned();
            ledger::verify_records(|| Ok(lines.next()), options, judging)
        },
    )
}

/// A report of a bundle as a whole.
fn begin(context: &Context, file: &RegularFile) -> Report {
    let mut report = Report::begin(Format::Ledger, Profile::AbstractRuntime);
    report.trust = Some(context.request.trust.digest());
    report.stats.bytes = file.size();
    report
}

fn malformed(context: &Context, file: &RegularFile, error: &Error) -> Report {
    let mut report = begin(context, file);
    let finding = Finding::error(FindingCode::BundleMalformed, error.to_string());
    report.downgrade(Verdict::Malformed, finding);
    report
}

/// A second look follows where the ledger admits later beginnings. Another one, with what this host
/// held, follows where a key was revoked: only the records held before count then.
fn judge_ledger(
    context: &Context,
    run: Option<&RunId>,
    known: &Known,
    options: ChainOptions,
    at_hand: Option<HeadAtHand<'_>>,
    verify: impl Fn(ChainOptions, &Judging<'_>) -> Result<Outcome, Error>,
) -> Result<Outcome, VerifyError> {
    // A head with a bad signature states nothing.
    let stated = at_hand.filter(|at_hand| at_hand.head.holds);
    let stated = stated.map(|at_hand| &at_hand.head.statement);
    let signed = stated.and_then(|stated| Some((stated.head()?, stated.signatures?)));
    let options = ChainOptions {
        expect: expectations(context, known),
        // A head by a key that was asked for covers records that no key signed.
        all_signed: !context.request.trust.pinned.is_empty() && at_hand.is_none(),
        signed_head: at_hand.and_then(|at_hand| at_hand.head.statement.head()),
        signatures: known.signatures().into_iter().chain(signed).collect(),
        ..options
    };
    let signers = known.signers();
    let mut judging = Judging {
        length: context.request.ledger.length,
        signers: &signers,
        signed_head: at_hand,
        ..Judging::new(&context.request.trust, context.now)
    };
    let mut outcome = verify(options.clone(), &judging)?;
    let later_beginnings = std::mem::take(&mut outcome.later_beginnings);
    let options = ChainOptions {
        later_beginnings,
        ..options
    };
    if !options.later_beginnings.is_empty() {
        outcome = verify(options.clone(), &judging)?;
    }
    trust_sources::refuse_pinned_id(&context.request.trust, &outcome.report)?;
    let held = known.head().is_some() && outcome.report.head == known.head();
    if held && context::has_revoked_signer(&outcome.report) {
        judging.held_since = known.updated();
        outcome = verify(options, &judging)?;
    }
    seen_at(context, run, known, &mut outcome)?;
    Ok(outcome)
}

/// What this host knows of the ledger of `run` in `place`; without a run, nothing.
fn known_of(
    context: &Context,
    run: Option<&RunId>,
    place: Option<&str>,
) -> Result<Known, VerifyError> {
    Ok(match run {
        Some(run) => known::known(&context.host, &run.record_id(), place)?,
        None => Known::default(),
    })
}

/// Notes the other names of a ledger that was found: those of unsigned ledgers are bound to their
/// places. A ledger that moved is found by the head that it contains.
fn seen_at(
    context: &Context,
    run: Option<&RunId>,
    known: &Known,
    outcome: &mut Outcome,
) -> Result<(), VerifyError> {
    let Some(run) = run else { return Ok(()) };
    let run = run.record_id();
    let pruned = match known.own {
        Some(own) if outcome.report.stats.events > 0 => context.host.heads.pruned(&own)?,
        _ => None,
    };
    if let Some(entry) = pruned {
        let text = format!(
            "it was pruned ({entry}), but still exists; hint: threadseal prune finishes the interrupted deletion"
        );
        let finding = Finding::warning(FindingCode::PrunedButPresent, text);
        outcome.report.find(finding);
    }
    let has_check = |report: &Report| {
        let mut checks = report.checks.iter();
        checks.any(|check| check.name == logged::CHECK)
    };
    let is_known = known.stored_elsewhere().any(|(record, _)| *record == run);
    if is_known && !has_check(&outcome.report) {
        // Otherwise the report would take it for the head of this ledger.
        let why = "the log has a head of this run, of a ledger in another place".to_owned();
        let skipped = CheckResult::Skipped;
        outcome.report.check(logged::CHECK, skipped, Some(why));
    }
    let contained = |head: &Head| outcome.contained.contains(head);
    let moved = known.stored_elsewhere().filter(|(_, head)| contained(head));
    let moved = moved.map(|(record, _)| *record);
    let mut joined = context
        .joined
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    joined.extend(known.own.into_iter().chain(moved));
    Ok(())
}

fn expectations(context: &Context, known: &Known) -> Vec<Expectation> {
    let given = context
        .request
        .expect_head
        .map(|head| Expectation::given(head, context.request.exact_head));
    given
        .into_iter()
        .chain(as_of::without_later(context, known.expectations()))
        .collect()
}

/// Does a store without new records know where its records end?
fn agree(tip: Option<Tip>, listed: u64, read: Option<&ChainTip>) -> Result<Option<Tip>, Error> {
    let noted = tip.unwrap_or_default();
    let is_other = |read: &ChainTip| noted.hash != Some(read.hash);
    if noted.count == listed && !read.is_some_and(is_other) {
        return Ok(tip);
    }
    let listed = Tip {
        count: listed,
        hash: read.map(|read| read.hash),
    };
    Err(Error::refused(format!(
        "the store notes {noted}, but contains {listed}"
    )))
}

/// Is it what is stored that stops a store, and not the store?
fn is_of_records(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Refused | ErrorKind::Limit)
}

/// The run in the name of a file of a store of files.
fn run_of_name(path: &Path) -> Option<RunId> {
    let name = path.file_name()?.to_str()?;
    let run = name.strip_prefix("ledger_")?.strip_suffix(".jsonl")?;
    RunId::parse(run).ok()
}

/// The text beside the ledger at `path` that should be its signed head.
fn read_head(context: &Context, path: &Path) -> Result<Option<String>, VerifyError> {
    let path = head_path(path);
    if !context.exists(&path) {
        return Ok(None);
    }
    let file = open_regular(&*context.host.fs, &path)?;
    let bytes = file.read_whole(MAX_NOTE_BYTES)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
