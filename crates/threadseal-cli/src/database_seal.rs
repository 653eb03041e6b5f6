//! Seals sessions in databases: the export of a session is added to its log, and that log is sealed and
//! archived as the log of any other session.
//!
//! ```text
//! database, session ─► rows, in one state ─► log in the home ─► SessionSealer ─► archive
//! ```
//! The log is locked from before it is read until it is sealed. So each seal is at the end of a state.

use crate::context::Context;
use crate::exit::Failure;
use crate::session_seal::{SessionSealed, SessionSealer};
use std::path::{Path, PathBuf};
use threadseal_capture::archive::Kept;
use threadseal_capture::database::{self, Found, Kind, RowLog, SessionRows, Stamps};
use threadseal_capture::session::{Growth, Part, SessionFile, SessionId};
use threadseal_core::error::Error;
use threadseal_formats::transcript::observed;
use threadseal_store::observer::{self, seal_path};

/// How a session is taken.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taking {
    /// Is an older state accepted, as of a backup that a person restored?
    pub(crate) restored: bool,
    /// Is it archived again if it was forgotten?
    pub(crate) recall: bool,
}

/// What was sealed of a session.
pub(crate) struct DatabaseSealed {
    /// The log of its rows.
    pub(crate) log: PathBuf,
    /// Which session it is; `None` if nothing of it is left in the database.
    pub(crate) file: Option<SessionFile>,
    pub(crate) sealed: SessionSealed,
    /// What the archive did; `None` if there is nothing to archive.
    pub(crate) kept: Option<Kept>,
}

/// Seals one session of the database at `path`, and archives it.
///
/// # Errors
/// When the database cannot be read, has no such session, is older than its log, or the log cannot be
/// sealed.
pub(crate) fn seal(
    sealer: &SessionSealer,
    path: &Path,
    session: &str,
    taking: Taking,
    context: &Context,
) -> Result<DatabaseSealed, Failure> {
    let fs = &*sealer.host().fs;
    let real = fs.canonicalize(path);
    let real = real.map_err(|error| Failure::io("read", path, &error))?;
    let home = context.existing_home()?;
    let kind = database::kind(&real)?;
    let log = database::place(home.path(), &real, kind, session);
    let _alone = RowLog::enter(fs, &log)?;
    let Some(rows) = database::read(&real, session)? else {
        return deleted(&real, session, log, context);
    };
    let file = file_of(&rows);
    if sealer.is_forgotten(&file.session)? && !taking.recall {
        let sealed = SessionSealed::Unchanged;
        return Ok(DatabaseSealed {
            log,
            file: Some(file),
            sealed,
            kept: Some(Kept::Forgotten),
        });
    }
    if context.fs.symlink_metadata(&log).is_err() {
        sealer.restore(&log, &file)?;
    }
    let sealed = (sealed_bytes(sealer, &log)?, taking.restored);
    RowLog::add(fs, &log, &real, &rows, sealed)?;
    let sealed = sealer.seal_lines(&log, Growth::Appends, context)?;
    let kept = sealer.keep(&log, &file, taking.recall)?;
    Ok(DatabaseSealed {
        log,
        file: Some(file),
        sealed,
        kept,
    })
}

/// A session of which no row is left: its log keeps the last state, if it has one.
fn deleted(
    database: &Path,
    session: &str,
    log: PathBuf,
    context: &Context,
) -> Result<DatabaseSealed, Failure> {
    if context.fs.symlink_metadata(&log).is_err() {
        let text = format!("{} has no session {session}", database.display());
        return Err(Failure::new(text));
    }
    Ok(DatabaseSealed {
        log,
        file: None,
        sealed: SessionSealed::Unchanged,
        kept: None,
    })
}

fn file_of(rows: &SessionRows) -> SessionFile {
    let agent = rows.kind.agent();
    let own = SessionId::new(agent, &rows.session);
    let (session, part) = match &rows.started_by {
        None => (own, Part::Main),
        Some((root, parent)) => {
            let part = Part::SubAgent {
                name: own.own().to_owned(),
                parent: SessionId::new(agent, parent).own().to_owned(),
            };
            (SessionId::new(agent, root), part)
        }
    };
    SessionFile {
        session,
        part,
        project: rows.project.clone(),
        growth: Growth::Appends,
    }
}

/// The bytes of a log that are under seals.
fn sealed_bytes(sealer: &SessionSealer, log: &Path) -> Result<u64, Error> {
    let seals = observer::read_seal_file(sealer.host(), &seal_path(log))?;
    let seals = seals.and_then(|bytes| observed::parse(&bytes).ok());
    Ok(seals
        .as_ref()
        .and_then(|seals| seals.last())
        .map_or(0, |last| last.head.size))
}

/// The sessions of the database at `path`.
///
/// # Errors
/// When it cannot be read, or is of no agent that is known.
pub(crate) fn sessions(path: &Path) -> Result<(Kind, Stamps), Failure> {
    match database::find(path)? {
        (Found::Kind(kind), stamps) => Ok((kind, stamps)),
        (Found::Other(why), _) => Err(Failure::new(why).about(path)),
    }
}

/// Seals what a hook names: one session of a database, or all of them. Gives what cannot be sealed.
pub(crate) fn seal_named(
    sealer: &SessionSealer,
    path: &Path,
    session: Option<&str>,
    context: &Context,
) -> Result<(), Failure> {
    let all = match session {
        Some(session) => vec![session.to_owned()],
        None => sessions(path)?.1.into_keys().collect(),
    };
    for session in all {
        seal(sealer, path, &session, Taking::default(), context)
            .map_err(|failure| failure.about(path))?;
    }
    Ok(())
}

/// The trouble with a database of an agent that is of no known kind.
pub(crate) fn unknown(path: &Path, why: &str) -> String {
    let path = path.display();
    format!(
        "{path}: it is not sealed: {why}; hint: install a newer threadseal, then threadseal watch --once"
    )
}

/// What a trouble of one session of a database is about.
pub(crate) fn about(database: &str, session: &str) -> String {
    format!("{database}#{session}")
}
