//! Threads in a PostgreSQL database: each file there is verified as if it were in a folder.
//!
//! ```text
//! postgres://…            every ledger and lineage, every file of every thread
//! postgres://…#THREAD     the files of one thread
//! ```
//! All rows are verified, whatever folders list. A transcript must be of the thread in whose folder it is: records are
//! not copied within a database. A thread of the registry whose record was sealed, and is not there, is missing. So is
//! a thread that this host sealed there last, where its row is gone, too.

use super::context::Context;
use super::file;
use super::file_result::FileResult;
use super::gone;
use super::ledger;
use super::lineage;
use super::missing;
use super::stored_lineage;
use super::thread_databases::{DatabaseThread, ThreadDatabase};
use crate::address::without_secrets;
use crate::error::VerifyError;
use crate::inputs::Candidate;
use crate::layout::{THREADS, TRANSCRIPT_FILE};
use crate::request::VerifyRequest;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use threadseal_core::error::Unbuilt;
use threadseal_core::record::{RecordId, RecordKind, ThreadId};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};

/// The root of all paths in a database: no project is needed to verify them.
const ROOT: &str = "/";

/// Verifies the ledgers and threads of the database at `url`, or the one `thread`.
///
/// # Errors
/// When it cannot be reached or read, or has no such thread.
pub(super) fn database(
    context: &Context,
    url: &str,
    thread: Option<&ThreadId>,
) -> Result<Vec<FileResult>, VerifyError> {
    let unbuilt = || Unbuilt::ThreadDatabases.error(format_args!("open {}", without_secrets(url)));
    let databases = context.databases.as_ref().ok_or_else(unbuilt)?;
    let database = databases.open(url)?;
    let Some(thread) = thread else {
        return whole(context, url, database.as_deref());
    };
    match database {
        Some(database) => threads_of(context, &*database, Some(thread)),
        None => Err(VerifyError::refused("this database contains no threads")),
    }
}

/// Verifies all records of a database.
fn whole(
    context: &Context,
    url: &str,
    database: Option<&dyn ThreadDatabase>,
) -> Result<Vec<FileResult>, VerifyError> {
    let ledgers = context.stores.ledgers(url)?;
    let own = ledgers.place();
    if context.request.ledger.run.is_some() {
        let ledgers = ledger::verify_store(context, &*ledgers, url)?;
        return Ok(vec![FileResult::Reports(ledgers)]);
    }
    // Before anything is listed: what is sealed meanwhile may be newer than a list.
    let mut before = BTreeSet::new();
    for kind in [RecordKind::Ledger, RecordKind::Transcript] {
        let sealed = gone::sealed_in(context, kind, (url, own.as_deref()))?;
        before.extend(sealed.iter().map(|stored| stored.head.record));
    }
    let (mut reports, mut here) = ledger::verify_runs(context, &*ledgers, url)?;
    reports.extend(ledger::strays(context, &*ledgers, url)?);
    let lineages = stored_lineage::read(context, url, None)?;
    reports.extend(stored_lineage::reports(context, lineages)?);
    let mut seen = vec![FileResult::Reports(reports)];
    if let Some(database) = database {
        seen.extend(threads_of(context, database, None)?);
    }
    let reports = seen.iter().flat_map(FileResult::reports);
    here.extend(reports.filter_map(|report| report.record));
    let joined = context.joined.lock();
    here.extend(joined.unwrap_or_else(PoisonError::into_inner).iter());
    // One that cannot be read may be any of them.
    let is_unread = seen
        .iter()
        .any(|seen| matches!(seen, FileResult::Failed(_)));
    let gone_of = |kind| gone::gone_from(context, kind, (url, own.as_deref()), &here);
    let mut gone = gone_of(RecordKind::Ledger)?;
    gone.retain(|report| is_of_table(context, report, own.as_deref()));
    if !is_unread {
        gone.extend(gone_of(RecordKind::Transcript)?);
    }
    gone.retain(|report| report.record.is_some_and(|record| before.contains(&record)));
    seen.push(FileResult::Reports(gone));
    Ok(seen)
}

/// Was the ledger sealed in the table of ledgers? The step ledgers of threads are files beside their records.
fn is_of_table(context: &Context, report: &Report, own: Option<&str>) -> bool {
    let places = report
        .record
        .map(|record| context.host.heads.noted_places(&record));
    places.is_some_and(|places| places.iter().any(|place| Some(place.as_str()) == own))
}

fn threads_of(
    context: &Context,
    database: &dyn ThreadDatabase,
    thread: Option<&ThreadId>,
) -> Result<Vec<FileResult>, VerifyError> {
    let inside = Context {
        host: database.host(&context.host, Path::new(ROOT))?,
        ..asking(context, None)
    };
    let (files, strays) = database.files(thread)?;
    let rows = database.threads(thread)?;
    if let (Some(id), true, true) = (thread, files.is_empty(), rows.is_empty()) {
        let text = format!("there is no thread {id} in this database");
        return Err(VerifyError::refused(text));
    }
    let candidates: Vec<Candidate> = files
        .into_iter()
        .map(|(path, bytes)| Candidate {
            path: Path::new(ROOT).join(path),
            named: false,
            bytes,
        })
        .collect();
    let look = |candidate: &Candidate| match thread_of(&candidate.path) {
        // The thread id in the record is not enough.
        Some(id) => {
            let inside = Context {
                host: inside.host.clone(),
                ..asking(context, Some(id))
            };
            file::verify_candidate(&inside, candidate)
        }
        None => file::verify_candidate(&inside, candidate),
    };
    let mut seen: Vec<FileResult> = candidates.par_iter().map(look).collect();
    let (mut more, unread) = missing::missing(&inside, &candidates, &mut seen, &[]);
    more.extend(lineage::lineage_reports(&inside, &candidates, &mut seen)?);
    more.extend(strays.iter().map(|path| stray(&inside, path)));
    let lost = lost(&inside, &rows, &candidates, &seen, &more)?;
    more.extend(lost);
    seen.push(FileResult::Reports(more));
    seen.extend(unread.into_iter().map(FileResult::Failed));
    for seen in &mut seen {
        name(seen, database.place());
    }
    Ok(seen)
}

/// This context, asking that a record be of `thread`. What was asked of one record is asked of transcripts.
fn asking(context: &Context, thread: Option<ThreadId>) -> Context {
    let expect_head = context.request.expect_head.filter(|_| thread.is_some());
    Context {
        among_many: true,
        is_shared: true,
        ..context.with(VerifyRequest {
            exact_head: context.request.exact_head && expect_head.is_some(),
            expect_head,
            thread,
            ..context.request.clone()
        })
    }
}

/// A report of each thread of the registry whose record all machines know, and that is nowhere.
fn lost(
    context: &Context,
    rows: &[DatabaseThread],
    candidates: &[Candidate],
    seen: &[FileResult],
    more: &[Report],
) -> Result<Vec<Report>, VerifyError> {
    let all = || seen.iter().flat_map(FileResult::reports).chain(more);
    let here: BTreeSet<RecordId> = all().filter_map(|report| report.record).collect();
    let missing = all().filter(|report| report.verdict == Verdict::Missing);
    let missing: BTreeSet<&str> = missing.map(|report| report.path.as_str()).collect();
    let mut lost = Vec::new();
    for row in rows {
        let Some(record) = row.record.filter(|record| !here.contains(record)) else {
            continue;
        };
        let path = format!("{ROOT}{THREADS}/{}/{TRANSCRIPT_FILE}", row.id);
        let is_new = || {
            // It was made after the files were listed.
            let is_it = |candidate: &Candidate| candidate.path == Path::new(&path);
            context.exists(Path::new(&path)) && !candidates.iter().any(is_it)
        };
        // One that died before its first seal left none.
        if missing.contains(path.as_str())
            || context.host.heads.fetch(&record)?.is_none()
            || is_new()
        {
            continue;
        }
        let text = format!("the registry knows the sealed record {record}, but it is missing");
        let mut report = begin(context, Format::Transcript, path);
        report.record = Some(record);
        report.downgrade(
            Verdict::Missing,
            Finding::error(FindingCode::RecordMissing, text),
        );
        lost.push(report);
    }
    Ok(lost)
}

fn stray(context: &Context, path: &str) -> Report {
    let text = "it is stored under a name that no program opens";
    let mut report = begin(context, Format::Log, path.to_owned());
    report.downgrade(
        Verdict::Malformed,
        Finding::error(FindingCode::PathBad, text),
    );
    report
}

fn begin(context: &Context, format: Format, path: String) -> Report {
    let mut report = Report::begin(format, Profile::Native);
    report.path = path;
    report.trust = Some(context.request.trust.digest());
    report
}

/// The thread in whose folder a transcript is.
fn thread_of(path: &Path) -> Option<ThreadId> {
    let folder = path.strip_prefix(PathBuf::from(ROOT).join(THREADS)).ok()?;
    let is_record = folder
        .file_name()
        .is_some_and(|name| name == TRANSCRIPT_FILE);
    let id = folder.parent().filter(|_| is_record)?;
    ThreadId::parse(id.to_str()?).ok()
}

/// Puts the database before each path.
fn name(seen: &mut FileResult, place: &str) {
    let named = |path: &str| format!("{place}#{}", path.strip_prefix(ROOT).unwrap_or(path));
    match seen {
        FileResult::Reports(reports) | FileResult::Link(_, reports) => {
            for report in reports {
                report.path = named(&report.path);
            }
        }
        FileResult::NoRecord(error) | FileResult::Failed(error) => {
            error.path = error.path.as_deref().map(named);
        }
        FileResult::PassedOver | FileResult::Elsewhere => {}
    }
}
