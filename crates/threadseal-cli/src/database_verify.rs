//! `verify` and databases of agents: each session by the log of its rows, and that log against its database.
//!
//! ```text
//! verify opencode.db   ─► its sessions ─► the log of each, in the home ─► seals, then rows of the database
//! any other log of rows                                              ─► the same comparison
//! ```

use crate::context::Context;
use crate::exit::Failure;
use std::collections::BTreeSet;
use std::path::PathBuf;
use threadseal_capture::database::{self, Found, Kind};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_store::sys::{directory_of, path_text, text_path};
use threadseal_verify::output::PathError;
use threadseal_verify::run::VerifyRun;
use threadseal_verify::{FileResult, Verifier};

/// A database that was named.
pub(crate) struct Database {
    path: PathBuf,
    /// Its real path.
    real: PathBuf,
    kind: Kind,
    sessions: Vec<String>,
}

/// Divides what `verify` names into databases of agents and other paths.
///
/// # Errors
/// When a database cannot be read.
pub(crate) fn split(
    named: Vec<PathBuf>,
    context: &Context,
) -> Result<(Vec<Database>, Vec<PathBuf>), Failure> {
    let (mut databases, mut paths) = (Vec::new(), Vec::new());
    for path in named {
        let real = context.fs.canonicalize(&path).ok();
        let is_one = real
            .as_ref()
            .is_some_and(|real| database::looks_like(real).unwrap_or(false));
        match real.filter(|_| is_one) {
            None => paths.push(path),
            Some(real) => match database::find(&real)? {
                (Found::Kind(kind), sessions) => databases.push(Database {
                    path,
                    real,
                    kind,
                    sessions: sessions.into_keys().collect(),
                }),
                (Found::Other(_), _) => paths.push(path),
            },
        }
    }
    Ok((databases, paths))
}

/// Verifies the log of each session of a database, also of those that are no longer in it.
///
/// # Errors
/// When there is no home.
pub(crate) fn verify(
    database: &Database,
    verifier: &Verifier,
    run: &mut VerifyRun,
    context: &Context,
) -> Result<(), Failure> {
    let home = context.existing_home()?;
    let mut seen = BTreeSet::new();
    for session in &database.sessions {
        let log = database::place(home.path(), &database.real, database.kind, session);
        if context.fs.symlink_metadata(&log).is_ok() {
            add(run, verifier.verify_path(&log));
        } else {
            run.results.push(unsealed(database, session, verifier));
        }
        seen.insert(log);
    }
    // A session that its agent deleted has its log, too.
    let any = database::place(home.path(), &database.real, database.kind, "any");
    let folder = directory_of(&any);
    for name in context.fs.read_dir(folder).unwrap_or_default() {
        let log = folder.join(name);
        let is_log = log.extension().is_some_and(|ending| ending == "jsonl");
        if is_log && !seen.contains(&log) {
            add(run, verifier.verify_path(&log));
        }
    }
    if database.sessions.is_empty() && run.results.is_empty() {
        let failure = Failure::new("it has no session").about(&database.path);
        run.errors
            .push(PathError::of(Some(&database.path), &failure.into()));
    }
    Ok(())
}

fn add(run: &mut VerifyRun, result: FileResult) {
    match result {
        FileResult::Reports(reports) => run.results.extend(reports),
        FileResult::NoRecord(error) | FileResult::Failed(error) => run.errors.push(error),
        FileResult::PassedOver | FileResult::Elsewhere | FileResult::Link(..) => {}
    }
}

fn unsealed(database: &Database, session: &str, verifier: &Verifier) -> Report {
    let mut report = Report::begin(Format::Log, Profile::None);
    report.path = format!("{}#{session}", path_text(&database.path));
    report.trust = Some(verifier.request().trust.digest());
    let text = "nothing seals the session; hint: threadseal archive add";
    report.downgrade(
        Verdict::Unsigned,
        Finding::note(FindingCode::Unsigned, text),
    );
    report
}

/// Compares each log of rows with its database.
pub(crate) fn compare(reports: &mut [Report], context: &Context) {
    for report in reports {
        if let Some(path) = text_path(&report.path) {
            database::judge(&*context.fs, &path, report);
        }
    }
}
