//! `verify` and databases of agents: each session by the log of its rows, and that log against its database.
//!
//! ```text
//! verify opencode.db   ─► its sessions ─► the log of each, in the home ─► seals, then rows of the database
//! verify FOLDER        ─► databases in it that were sealed ─► the same; others are named in a note
//! any other log of rows                                              ─► the same comparison
//! ```

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::render::text::counted;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_capture::database::{self, Found, Kind};
use threadseal_core::report::{Finding, FindingCode, Format, Profile, Report, Verdict};
use threadseal_store::sys::{directory_of, path_text, text_path};
use threadseal_verify::VerifyError;
use threadseal_verify::output::PathError;
use threadseal_verify::run::VerifyRun;
use threadseal_verify::{FileResult, Verifier};
use walkdir::WalkDir;

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

/// A folder that was named, and the databases in it of which something was sealed.
pub(crate) struct Folder {
    path: PathBuf,
    databases: Vec<Database>,
}

/// The databases of agents in the folders of `named`. One of which nothing was sealed is named in a note:
/// it has no seal that could be verified.
///
/// # Errors
/// When the home cannot be used.
pub(crate) fn in_folders(named: &[PathBuf], context: &Context) -> Result<Vec<Folder>, Failure> {
    let mut folders = Vec::new();
    for path in named.iter().filter(|path| path.is_dir()) {
        let mut databases = Vec::new();
        let entries = WalkDir::new(path).sort_by_file_name().into_iter();
        let files = entries
            .flatten()
            .filter(|entry| entry.file_type().is_file());
        for file in files.map(walkdir::DirEntry::into_path) {
            if database::looks_like(&file).unwrap_or(false) {
                databases.extend(in_folder(file, context)?);
            }
        }
        folders.push(Folder {
            path: path.clone(),
            databases,
        });
    }
    Ok(folders)
}

fn in_folder(path: PathBuf, context: &Context) -> Result<Option<Database>, Failure> {
    let Ok(real) = context.fs.canonicalize(&path) else {
        return Ok(None);
    };
    let sealed = sealed_kind(&real, context)?;
    let (kind, sessions) = match (sealed, database::find(&real)) {
        (Some(kind), found) => {
            let sessions = found.map(|(_, sessions)| sessions).unwrap_or_default();
            (kind, sessions)
        }
        (None, Ok((Found::Kind(_), sessions))) => {
            if !sessions.is_empty() && !context.quiet {
                let shown = path.display();
                let count = counted(sessions.len() as u64, "session", "sessions");
                complain(&format!(
                    "note: {shown} has {count} without a seal; hint: threadseal archive add {shown}"
                ));
            }
            return Ok(None);
        }
        (None, Ok((Found::Other(_), _))) => return Ok(None),
        (None, Err(error)) => {
            complain(&format!("note: {} is passed over: {error}", path.display()));
            return Ok(None);
        }
    };
    Ok(Some(Database {
        path,
        real,
        kind,
        sessions: sessions.into_keys().collect(),
    }))
}

/// The kind that a database had when it was sealed.
fn sealed_kind(real: &Path, context: &Context) -> Result<Option<Kind>, Failure> {
    let Some(home) = context.home()? else {
        return Ok(None);
    };
    let is_sealed = |kind: &Kind| {
        let any = database::place(home.path(), real, *kind, "any");
        let names = context.fs.read_dir(directory_of(&any)).unwrap_or_default();
        let mut names = names.iter().map(Path::new);
        names.any(|name| name.extension().is_some_and(|ending| ending == "jsonl"))
    };
    Ok(Kind::ALL.into_iter().find(is_sealed))
}

/// Verifies the databases in folders.
///
/// # Errors
/// When there is no home.
pub(crate) fn verify_folders(
    folders: &[Folder],
    verifier: &Verifier,
    run: &mut VerifyRun,
    context: &Context,
) -> Result<(), Failure> {
    for folder in folders.iter().filter(|folder| !folder.databases.is_empty()) {
        run.add_elsewhere(&folder.path, folder.databases.len() as u64);
        for database in &folder.databases {
            verify(database, verifier, run, context)?;
        }
    }
    Ok(())
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
        run.errors.push(PathError::of(
            Some(&database.path),
            &VerifyError::from(failure),
        ));
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
