//! The index of the archive: rows of sessions, texts of turns for search, verdicts (`spec/archive.md` §8).
//!
//! ```text
//! Archive ─► refresh: journals that grew ─► mapping ─► logs, turns (FTS5) ─► sessions, search
//! ```
//! Invariant: all of it can be made again from the archive; a file that cannot be read is made anew.
//! A text is stored once, compressed; the search table holds words only.

mod search;
#[cfg(test)]
mod tests;
mod text;

pub use search::{Hit, Query, search_archive};
pub use threadseal_reader::words::{TurnText, turn_text};

use crate::archive::{Archive, ArchivedLog, LogName};
use crate::session::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use threadseal_convert as convert;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::fold::folded;
use threadseal_core::limits::MAX_SOURCE_BYTES;
use threadseal_store::atomic::PRIVATE_FILE;
use threadseal_store::sqlite::database::check_files;
use threadseal_store::sys::{self, Access, Fs};

/// The layout of the tables; an index with another one is made anew.
const LAYOUT: i64 = 5;
/// Characters of a title.
const MAX_TITLE_CHARS: usize = 160;
/// Longest wait for another process that writes the index.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// Memory for pages of the file, in KiB.
const CACHE_KIB: i64 = 64 << 10;
/// Bytes of the file that are mapped into memory.
const MAPPED_BYTES: i64 = 8 << 30;

const TABLES: &str = "
CREATE TABLE logs(
  id INTEGER PRIMARY KEY, session TEXT NOT NULL, agent TEXT NOT NULL, part TEXT NOT NULL,
  stamp TEXT NOT NULL, size INTEGER NOT NULL, project TEXT, source TEXT, format TEXT,
  first INTEGER, last INTEGER, turns INTEGER, tools INTEGER, tokens INTEGER, model TEXT, problem TEXT, title TEXT, UNIQUE(session, part));
CREATE TABLE turns(
  id INTEGER PRIMARY KEY, log INTEGER NOT NULL, turn INTEGER NOT NULL, role TEXT NOT NULL,
  time INTEGER, digest BLOB NOT NULL, text BLOB NOT NULL, UNIQUE(log, turn));
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, detail=full);
CREATE TABLE verdicts(session TEXT NOT NULL, part TEXT NOT NULL, basis TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY(session, part));
";

/// The index of a home.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
    place: PathBuf,
}

/// One log in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedLog {
    /// Its name.
    pub name: LogName,
    /// Sealed bytes.
    pub size: u64,
    /// The folder of the project.
    pub project: Option<String>,
    /// The path of the log.
    pub source: Option<PathBuf>,
    /// The name of the mapping that reads it.
    pub format: Option<String>,
    /// The times of its first and last turn, in microseconds since 1970.
    pub first: Option<u64>,
    /// As `first`.
    pub last: Option<u64>,
    /// Turns; `None` if no mapping reads its content.
    pub turns: Option<u64>,
    /// Calls of tools, likewise.
    pub tools: Option<u64>,
    /// Tokens of input and output, likewise.
    pub tokens: Option<u64>,
    /// The model of the last turn that names one.
    pub model: Option<String>,
    /// Why its content is not indexed.
    pub problem: Option<String>,
    /// The first words of a person, on one line, as written; none of an encrypted archive.
    pub title: Option<String>,
}

/// The figures of a session, as each command shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// Turns of the session's own log; `None` if no mapping reads it.
    pub turns: Option<u64>,
    /// Calls of tools, those of subagents included; `None` if no mapping reads one of the logs.
    pub tools: Option<u64>,
    /// Tokens of input and output, likewise.
    pub tokens: Option<u64>,
    /// The model of the last turn of the own log that names one.
    pub model: Option<String>,
}

impl Figures {
    /// Those of a session with these logs, or of one log.
    pub fn of(logs: &[IndexedLog]) -> Self {
        let own = logs.iter().find(|log| log.name.sub_agent.is_none());
        let own = own.or(logs.first().filter(|_| logs.len() == 1));
        let sum = |figure: fn(&IndexedLog) -> Option<u64>| {
            let figures = logs.iter().map(figure);
            figures
                .into_iter()
                .try_fold(0, |sum: u64, one| Some(sum.saturating_add(one?)))
        };
        Self {
            turns: own.and_then(|log| log.turns),
            tools: sum(|log| log.tools),
            tokens: sum(|log| log.tokens),
            model: own.and_then(|log| log.model.clone()),
        }
    }
}

/// What a refresh did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Logs that were read.
    pub logs: u64,
    /// Turns that were written.
    pub turns: u64,
    /// Logs that are no longer archived.
    pub removed: u64,
}

impl Index {
    /// The index of the home at `home`, made if there is none, or if it cannot be read.
    ///
    /// # Errors
    /// Kind `External` when the system or SQLite fails.
    pub fn open(fs: &dyn Fs, home: &Path) -> Result<Self, Error> {
        let place = home.join("index.sqlite");
        match Self::attempt(fs, &place) {
            Ok(index) => Ok(index),
            Err(error) if error.kind() == ErrorKind::External => Err(error),
            Err(_) => {
                remove_files(fs, &place)?;
                Self::attempt(fs, &place)
            }
        }
    }

    /// Removes the index of the home at `home`, so that the next refresh makes all of it.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn remove(fs: &dyn Fs, home: &Path) -> Result<(), Error> {
        remove_files(fs, &home.join("index.sqlite"))
    }

    fn attempt(fs: &dyn Fs, place: &Path) -> Result<Self, Error> {
        // What is refused here is removed by the caller, and the index is made anew.
        check_files(place)?;
        // SQLite gives its journals the mode of the file.
        let file = fs.open(place, Access::OpenOrCreate(PRIVATE_FILE));
        let file = file.map_err(|error| sys::failure("open", place, &error))?;
        let set = file.set_mode(PRIVATE_FILE);
        set.map_err(|error| sys::failure("open", place, &error))?;
        drop(file);
        let failure = |error: rusqlite::Error| failure(place, &error);
        let connection = Connection::open(place).map_err(failure)?;
        check_files(place)?;
        connection.busy_timeout(BUSY_WAIT).map_err(failure)?;
        for (name, value) in [("cache_size", -CACHE_KIB), ("mmap_size", MAPPED_BYTES)] {
            connection
                .pragma_update(None, name, value)
                .map_err(failure)?;
        }
        // A cache: after a power loss it may be made anew.
        connection
            .pragma_update(None, "journal_mode", "wal")
            .map_err(failure)?;
        connection
            .pragma_update(None, "synchronous", "normal")
            .map_err(failure)?;
        let layout = || -> Result<i64, rusqlite::Error> {
            connection.pragma_query_value(None, "user_version", |row| row.get(0))
        };
        if layout().map_err(failure)? != LAYOUT {
            connection
                .execute_batch("BEGIN IMMEDIATE")
                .map_err(failure)?;
            // Another process may have made it meanwhile.
            let found = layout().map_err(failure)?;
            if found == 0 {
                connection.execute_batch(TABLES).map_err(failure)?;
                connection
                    .pragma_update(None, "user_version", LAYOUT)
                    .map_err(failure)?;
            }
            connection.execute_batch("COMMIT").map_err(failure)?;
            if found != 0 && found != LAYOUT {
                return Err(Error::invalid("the index has another layout"));
            }
        }
        Ok(Self {
            connection,
            place: place.to_owned(),
        })
    }

    /// Brings the index up to the archive: only logs whose journals changed are read.
    ///
    /// # Errors
    /// Kind `External` when the archive cannot be read or SQLite fails. A damaged log is a row with
    /// its problem.
    pub fn refresh(&mut self, archive: &Archive) -> Result<Refreshed, Error> {
        let mut done = Refreshed::default();
        let mut known = self.stamps()?;
        for (name, stamp) in archive.stamps()? {
            let key = (name.session.to_string(), part_of(&name));
            if known.remove(&key).as_ref() == Some(&stamp) {
                continue;
            }
            let log = archive.log(&name)?;
            done.turns += self.write(archive, &log, &stamp)?;
            done.logs += 1;
        }
        for (session, part) in known.keys() {
            self.drop_log(session, part)?;
            done.removed += 1;
        }
        if done.removed > 0 {
            self.scrub()?;
        }
        Ok(done)
    }

    /// Removes what is left of removed texts: else their words stay in the table, and the texts in
    /// free pages.
    ///
    /// # Errors
    /// Kind `External` when SQLite fails.
    pub fn scrub(&self) -> Result<(), Error> {
        let sql =
            "INSERT INTO words(words) VALUES ('optimize'); VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
        self.sql(self.connection.execute_batch(sql))
    }

    /// All logs, by session, each session's own first.
    ///
    /// # Errors
    /// Kind `External` when SQLite fails.
    pub fn logs(&self) -> Result<Vec<IndexedLog>, Error> {
        let sql = "SELECT session, part, size, project, source, format, first, last, turns, tools, tokens, model, problem, title FROM logs ORDER BY session, part";
        let mut statement = self.sql(self.connection.prepare_cached(sql))?;
        let rows = statement.query_map([], |row| {
            let (session, part): (String, String) = (row.get(0)?, row.get(1)?);
            let source: Option<String> = row.get(4)?;
            Ok(session.parse().ok().map(|session| IndexedLog {
                name: name_of(session, &part),
                size: count(row.get(2)),
                project: row.get(3).unwrap_or_default(),
                source: source.as_deref().and_then(sys::text_path),
                format: row.get(5).unwrap_or_default(),
                first: unsigned(row.get(6)),
                last: unsigned(row.get(7)),
                turns: unsigned(row.get(8)),
                tools: unsigned(row.get(9)),
                tokens: unsigned(row.get(10)),
                model: row.get(11).unwrap_or_default(),
                problem: row.get(12).unwrap_or_default(),
                title: row.get(13).unwrap_or_default(),
            }))
        });
        let rows: Result<Vec<_>, _> = self.sql(rows)?.collect();
        Ok(self.sql(rows)?.into_iter().flatten().collect())
    }

    /// The state that was kept for a log, if it was made on this basis.
    ///
    /// # Errors
    /// Kind `External` when SQLite fails.
    pub fn state(&self, name: &LogName, basis: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT state FROM verdicts WHERE session = ?1 AND part = ?2 AND basis = ?3";
        let values = params![name.session.to_string(), part_of(name), basis];
        let mut statement = self.sql(self.connection.prepare_cached(sql))?;
        self.sql(statement.query_row(values, |row| row.get(0)).optional())
    }

    /// Keeps the state of a log, and what it was made on.
    ///
    /// # Errors
    /// Kind `External` when SQLite fails.
    pub fn keep_state(&self, name: &LogName, basis: &str, state: &str) -> Result<(), Error> {
        let sql = "INSERT OR REPLACE INTO verdicts VALUES (?1, ?2, ?3, ?4)";
        let values = params![name.session.to_string(), part_of(name), basis, state];
        self.sql(self.connection.execute(sql, values)).map(drop)
    }

    /// The stamp of each log, by session and part.
    fn stamps(&self) -> Result<BTreeMap<(String, String), String>, Error> {
        let sql = "SELECT session, part, stamp FROM logs";
        let mut statement = self.sql(self.connection.prepare(sql))?;
        let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)));
        let rows: Result<BTreeMap<_, _>, _> = self.sql(rows)?.collect();
        self.sql(rows)
    }

    /// Writes the rows of a log; the number of turns that are new or differ.
    fn write(&mut self, archive: &Archive, log: &ArchivedLog, stamp: &str) -> Result<u64, Error> {
        let (mapped, problem) = match map(archive, log) {
            Ok(mapped) => (mapped, log.damage.clone()),
            Err(error) if error.kind() == ErrorKind::External => return Err(error),
            Err(error) => (None, Some(error.to_string())),
        };
        let holds_text = !archive.settings().encrypted;
        let place = self.place.clone();
        let transaction = self.connection.transaction();
        let transaction = transaction.map_err(|error| failure(&place, &error))?;
        let written = write_rows(
            &transaction,
            log,
            stamp,
            mapped.as_ref(),
            problem.as_deref(),
            holds_text,
        );
        let written = written.and_then(|turns| transaction.commit().map(|()| turns));
        written.map_err(|error| failure(&place, &error))
    }

    fn drop_log(&mut self, session: &str, part: &str) -> Result<(), Error> {
        let place = self.place.clone();
        let dropped = self.connection.transaction().and_then(|transaction| {
            let sql = "SELECT id FROM logs WHERE session = ?1 AND part = ?2";
            let id: Option<i64> = transaction
                .query_row(sql, params![session, part], |row| row.get(0))
                .optional()?;
            if let Some(id) = id {
                drop_turns(&transaction, id, 0)?;
                transaction.execute("DELETE FROM logs WHERE id = ?1", [id])?;
            }
            let sql = "DELETE FROM verdicts WHERE session = ?1 AND part = ?2";
            transaction.execute(sql, params![session, part])?;
            transaction.commit()
        });
        dropped.map_err(|error| failure(&place, &error))
    }

    fn sql<T>(&self, result: Result<T, rusqlite::Error>) -> Result<T, Error> {
        result.map_err(|error| failure(&self.place, &error))
    }
}

/// A log that a mapping read.
struct MappedLog {
    format: &'static str,
    mapped: convert::Mapped,
}

/// The turns of a log; `None` if no mapping knows it.
fn map(archive: &Archive, log: &ArchivedLog) -> Result<Option<MappedLog>, Error> {
    let Some(newest) = log.newest() else {
        return Ok(None);
    };
    if newest.last().head.size > MAX_SOURCE_BYTES as u64 {
        let text = format!("it has more than {MAX_SOURCE_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    let source = archive.read(log, newest, 0)?;
    let Some(format) = convert::detect(&source) else {
        return Ok(None);
    };
    let mapped = format.map(&source)?;
    Ok(Some(MappedLog {
        format: format.name,
        mapped,
    }))
}

fn write_rows(
    transaction: &Transaction<'_>,
    log: &ArchivedLog,
    stamp: &str,
    mapped: Option<&MappedLog>,
    problem: Option<&str>,
    holds_text: bool,
) -> Result<u64, rusqlite::Error> {
    let turns: Vec<TurnText> = match mapped {
        Some(mapped) => mapped
            .mapped
            .drafts
            .iter()
            .map(|draft| turn_text(&draft))
            .collect(),
        None => Vec::new(),
    };
    let account = mapped.map(|mapped| &mapped.mapped.account);
    let times = || turns.iter().filter_map(|turn| turn.time);
    let named = turns.iter().filter_map(|turn| turn.model.clone());
    let mut models = named.filter(|name| !is_place_holder(name));
    let sum = account.map(|account| account.tokens.input.saturating_add(account.tokens.output));
    let size = log.newest().map_or(0, |newest| newest.last().head.size);
    let name = &log.name;
    let sql = "INSERT INTO logs(session, agent, part, stamp, size, project, source, format, first, last, turns, tools, tokens, model, problem, title)
      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
      ON CONFLICT(session, part) DO UPDATE SET stamp = ?4, size = ?5, project = ?6, source = ?7, format = ?8, first = ?9, last = ?10,
        turns = ?11, tools = ?12, tokens = ?13, model = ?14, problem = ?15, title = ?16
      RETURNING id";
    let id: i64 = transaction.prepare_cached(sql)?.query_row(
        params![
            name.session.to_string(),
            name.session.agent().name(),
            part_of(name),
            stamp,
            number(size),
            log.facts.project,
            log.facts.source,
            mapped.map(|mapped| mapped.format),
            times().min().map(number),
            times().max().map(number),
            account.map(|_| number(turns.len() as u64)),
            account.map(|account| number(account.tool_calls)),
            sum.map(number),
            models.next_back(),
            problem,
            title_of(&turns).filter(|_| holds_text),
        ],
        |row| row.get(0),
    )?;
    if !holds_text {
        return Ok(0);
    }
    drop_turns(transaction, id, turns.len())?;
    let mut written = 0;
    for (number, turn) in turns.iter().enumerate() {
        written += u64::from(write_turn(transaction, id, number, turn)?);
    }
    Ok(written)
}

/// Is it no model? Claude Code writes `<synthetic>` where no model answered.
fn is_place_holder(model: &str) -> bool {
    model.starts_with('<') && model.ends_with('>')
}

/// The first line of the first words of a person. Agents put their own words there, too, in tags.
fn title_of(turns: &[TurnText]) -> Option<String> {
    let of_people = turns.iter().filter(|turn| turn.role == "user");
    let mut lines = of_people.flat_map(|turn| turn.text.lines().map(str::trim));
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('<'))?;
    Some(line.chars().take(MAX_TITLE_CHARS).collect())
}

/// Writes a turn, unless its text is there already.
fn write_turn(
    transaction: &Transaction<'_>,
    log: i64,
    turn: usize,
    text: &TurnText,
) -> Result<bool, rusqlite::Error> {
    let sql = "SELECT id, digest FROM turns WHERE log = ?1 AND turn = ?2";
    let turn = number(turn as u64);
    let known: Option<(i64, Vec<u8>)> = transaction
        .prepare_cached(sql)?
        .query_row(params![log, turn], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let digest = text::digest_of(text);
    if let Some((id, known)) = known {
        if known == digest {
            return Ok(false);
        }
        transaction
            .prepare_cached("DELETE FROM words WHERE rowid = ?1")?
            .execute([id])?;
        transaction
            .prepare_cached("DELETE FROM turns WHERE id = ?1")?
            .execute([id])?;
    }
    let sql =
        "INSERT INTO turns(log, turn, role, time, digest, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let time = text.time.map(number);
    let values = params![log, turn, text.role, time, digest, text::pack(&text.text)];
    transaction.prepare_cached(sql)?.execute(values)?;
    let id = transaction.last_insert_rowid();
    let sql = "INSERT INTO words(rowid, text) VALUES (?1, ?2)";
    transaction
        .prepare_cached(sql)?
        .execute(params![id, folded(&text.text)])?;
    Ok(true)
}

/// Removes the turns of a log from this number on.
fn drop_turns(transaction: &Transaction<'_>, log: i64, from: usize) -> Result<(), rusqlite::Error> {
    let values = params![log, number(from as u64)];
    let sql =
        "DELETE FROM words WHERE rowid IN (SELECT id FROM turns WHERE log = ?1 AND turn >= ?2)";
    transaction.execute(sql, values)?;
    transaction.execute("DELETE FROM turns WHERE log = ?1 AND turn >= ?2", values)?;
    Ok(())
}

fn remove_files(fs: &dyn Fs, place: &Path) -> Result<(), Error> {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let mut name = place.as_os_str().to_owned();
        name.push(ending);
        let file = PathBuf::from(name);
        match fs.unlink(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(sys::failure("remove", &file, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The part's name in the index; that of the session's own log sorts first.
fn part_of(name: &LogName) -> String {
    name.sub_agent.clone().unwrap_or_default()
}

fn name_of(session: SessionId, part: &str) -> LogName {
    LogName {
        session,
        sub_agent: Some(part.to_owned()).filter(|part| !part.is_empty()),
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn count(value: Result<i64, rusqlite::Error>) -> u64 {
    u64::try_from(value.unwrap_or_default()).unwrap_or_default()
}

fn unsigned(value: Result<Option<i64>, rusqlite::Error>) -> Option<u64> {
    u64::try_from(value.ok()??).ok()
}

fn failure(place: &Path, error: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let kind = match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => ErrorKind::InvalidInput,
        _ => ErrorKind::External,
    };
    let (place, hint) = (place.display(), "hint: threadseal archive rebuild-index");
    Error::new(
        kind,
        format!("cannot use the index {place}: {error}; {hint}"),
    )
}
