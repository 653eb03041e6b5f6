//! The log of the states of a session (`spec/database-sources.md` §3).
//!
//! ```text
//! {"format":"threadseal-rows/1","kind":K,"session":ID,"database":PATH}
//! {"table":…,"key":…,"row":{…}}   {"table":…,"key":…,"gone":true}      what differs from the state before
//! {"state":N,"rows":N,"clock":N,"sha256":HEX}                          the end of a state
//! ```
//! Invariant: only bytes up to the end of a state are sealed, so lines after the last end are what a
//! crash left.

use super::source::{Export, SessionRows};
use super::value::string;
use super::{Kind, MAX_EXPORT_BYTES};
use crate::session::SessionId;
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::atomic::{self, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::lock::Exclusive;
use threadseal_store::read::read_small;
use threadseal_store::sys::{Access, Fs, append_all, directory_of, failure, path_text, text_path};

pub(super) const FORMAT: &str = "threadseal-rows/1";
/// The folder of exports in a home.
pub(super) const FOLDER: &str = "exports";
/// Hex digits that distinguish databases.
const DATABASE_DIGITS: usize = 16;
const ROW: &[u8] = b",\"row\":{";
const GONE: &[u8] = b",\"gone\":true}";
const STATE: &[u8] = b"{\"state\":";

/// The log of a session, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLog {
    /// The kind of the database.
    pub kind: Kind,
    /// The id of the session, as its agent spells it.
    pub session: String,
    /// The database.
    pub database: PathBuf,
    /// The rows in the last state.
    pub(super) rows: Export,
    pub(super) states: Vec<State>,
    /// Where the last state ends.
    end: u64,
    /// Bytes of the file.
    size: u64,
}

/// The end of a state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    state: u64,
    rows: u64,
    #[serde(default)]
    pub(super) clock: Option<i64>,
    #[serde(default)]
    pub(super) older: bool,
    pub(super) sha256: String,
}

#[derive(Deserialize)]
struct First {
    format: String,
    kind: String,
    session: String,
    database: String,
}

/// The result of [`RowLog::add`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// A state, with so many lines that differ.
    State(usize),
    /// No row differs from the last state.
    Unchanged,
}

/// The place of the log of a session of the database at `database`, which is a real path.
pub fn place(home: &Path, database: &Path, kind: Kind, session: &str) -> PathBuf {
    let hex = Digest::of(database.as_os_str().as_encoded_bytes()).to_hex();
    let own = SessionId::new(kind.agent(), session);
    let folder = home.join(FOLDER).join(kind.name());
    let folder = folder.join(&hex[..DATABASE_DIGITS]);
    folder.join(format!("{}.jsonl", own.own()))
}

impl RowLog {
    /// Makes the folder of the log at `place`, and takes its lock.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn enter(fs: &dyn Fs, place: &Path) -> Result<Exclusive, Error> {
        let folder = directory_of(place);
        atomic::create_directories(fs, folder, PRIVATE_DIRECTORY)?;
        Exclusive::enter(fs, &folder.join("lock"))
    }

    /// The log at `place`; `None` if there is none, or no state has ended in it.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is no such log, or its last state is not the one that it names.
    pub fn read(fs: &dyn Fs, place: &Path) -> Result<Option<Self>, Error> {
        match fs.symlink_metadata(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure("read", place, &error)),
            Ok(_) => {}
        }
        // What a crash left may follow.
        let bytes = read_small(fs, place, 2 * MAX_EXPORT_BYTES)?;
        let log = Self::parse(&bytes)
            .map_err(|why| Error::invalid(format!("{}: {why}", place.display())))?;
        Ok(log)
    }

    fn parse(bytes: &[u8]) -> Result<Option<Self>, String> {
        let first = bytes.split_inclusive(|byte| *byte == b'\n').next();
        let Some(mut log) = Self::begin(first.unwrap_or_default())? else {
            return Ok(None);
        };
        let whole = end_of_states(bytes);
        let lines = bytes[..whole].split(|byte| *byte == b'\n').skip(1);
        for line in lines.filter(|line| !line.is_empty()) {
            log.line(line)?;
        }
        (log.end, log.size) = (whole as u64, bytes.len() as u64);
        let Some(last) = log.states.last() else {
            return Ok(None);
        };
        match last.sha256 == log.rows.digest().to_hex() {
            true => Ok(Some(log)),
            false => Err(format!(
                "state {} has other rows than its digest",
                last.state
            )),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let rows = &mut self.rows.lines;
        if line.starts_with(STATE) {
            let state: State = serde_json::from_slice(line)
                .map_err(|error| format!("a state cannot be read: {error}"))?;
            if (state.state, state.rows) != (self.states.len() as u64, rows.len() as u64) {
                return Err(format!(
                    "state {} does not fit the lines before it",
                    state.state
                ));
            }
            self.states.push(state);
        } else if let Some(split) = memchr::memmem::find(line, ROW) {
            rows.insert(line[..split].to_vec(), line.to_vec());
        } else if let Some(name) = line.strip_suffix(GONE) {
            rows.remove(name);
        } else {
            return Err("a line is neither a row nor a state".to_owned());
        }
        Ok(())
    }

    /// The log with its first line only; `None` if a crash cut that.
    fn begin(line: &[u8]) -> Result<Option<Self>, String> {
        let Some(line) = line.strip_suffix(b"\n") else {
            return Ok(None);
        };
        let no_log = || "it is no log of rows".to_owned();
        let first: First = serde_json::from_slice(line).map_err(|_| no_log())?;
        let kind = Kind::named(&first.kind).filter(|_| first.format == FORMAT);
        let database = text_path(&first.database);
        let (kind, database) = kind.zip(database).ok_or_else(no_log)?;
        Ok(Some(Self {
            kind,
            session: first.session,
            database,
            rows: Export::default(),
            states: Vec::new(),
            end: 0,
            size: 0,
        }))
    }

    /// Whether `rows` are an older state than the last one: a copy was put in the place of the database.
    pub(super) fn is_older(&self, rows: &SessionRows) -> bool {
        let Some(last) = self.states.last() else {
            return false;
        };
        match (last.clock, rows.clock) {
            (Some(last), Some(now)) => now < last,
            (Some(_), None) => true,
            (None, _) => {
                let digest = rows.export.digest().to_hex();
                let is_it = |state: &State| state.sha256 == digest;
                !is_it(last) && self.states.iter().any(is_it)
            }
        }
    }

    /// Adds a state to the log at `place`, durably. The caller has the lock. `sealed` are the bytes under
    /// seals; with `restored`, an older state is accepted.
    ///
    /// # Errors
    /// Kind `Refused` when the state is older, or the log lost sealed bytes; `Limit` when the log would be
    /// too large; `External` when the system fails.
    pub fn add(
        fs: &dyn Fs,
        place: &Path,
        database: &Path,
        rows: &SessionRows,
        (sealed, restored): (u64, bool),
    ) -> Result<Added, Error> {
        let known = Self::read(fs, place)?;
        let end = known.as_ref().map_or(0, |known| known.end);
        if sealed > end {
            let hint = format!("hint: threadseal verify {}", place.display());
            let text = format!("{} lost lines that were sealed; {hint}", place.display());
            return Err(Error::refused(text));
        }
        let is_older = known.as_ref().is_some_and(|known| known.is_older(rows));
        if is_older && !restored {
            return Err(Error::refused(format!(
                "{} is older than what was sealed of its session {}: a copy was put in its place; \
                 hint: if you restored a backup, threadseal archive add --restored {}",
                database.display(),
                rows.session,
                database.display()
            )));
        }
        let empty = Export::default();
        let before = known.as_ref().map_or(&empty, |known| &known.rows);
        let mut lines = Vec::new();
        let mut count = 0;
        if known.is_none() {
            first_line(database, rows, &mut lines);
        }
        for (name, line) in &rows.export.lines {
            if before.lines.get(name) != Some(line) {
                lines.extend_from_slice(line);
                lines.push(b'\n');
                count += 1;
            }
        }
        let gone = before
            .lines
            .keys()
            .filter(|name| !rows.export.lines.contains_key(*name));
        for name in gone {
            lines.extend_from_slice(name);
            lines.extend_from_slice(GONE);
            lines.push(b'\n');
            count += 1;
        }
        if count == 0 && known.is_some() {
            if known.is_some_and(|known| known.size > known.end) {
                cut(fs, place, end)?;
            }
            return Ok(Added::Unchanged);
        }
        let number = known.map_or(0, |known| known.states.len());
        end_line(number, is_older, rows, &mut lines);
        if end + lines.len() as u64 > MAX_EXPORT_BYTES as u64 {
            let text = format!(
                "{} would have more than {MAX_EXPORT_BYTES} bytes",
                place.display()
            );
            return Err(Error::new(ErrorKind::Limit, text));
        }
        write(fs, place, end, &lines)?;
        Ok(Added::State(count))
    }
}

/// Where the last whole line ends that is the end of a state; 0 if there is none.
fn end_of_states(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut end = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        if line.starts_with(STATE) && line.ends_with(b"\n") {
            end = at;
        }
    }
    end
}

fn first_line(database: &Path, rows: &SessionRows, out: &mut Vec<u8>) {
    for (name, value) in [
        ("{\"format\":", FORMAT),
        (",\"kind\":", rows.kind.name()),
        (",\"session\":", rows.session.as_str()),
        (",\"database\":", &path_text(database)),
    ] {
        out.extend_from_slice(name.as_bytes());
        string(value, out);
    }
    out.extend_from_slice(b"}\n");
}

fn end_line(number: usize, is_older: bool, rows: &SessionRows, out: &mut Vec<u8>) {
    let clock = rows
        .clock
        .map_or_else(String::new, |clock| format!(",\"clock\":{clock}"));
    let older = if is_older { ",\"older\":true" } else { "" };
    let (count, digest) = (rows.export.rows(), rows.export.digest().to_hex());
    let line =
        format!("{{\"state\":{number},\"rows\":{count}{clock}{older},\"sha256\":\"{digest}\"}}\n");
    out.extend_from_slice(line.as_bytes());
}

/// Removes what is after `end`, and appends.
fn write(fs: &dyn Fs, place: &Path, end: u64, lines: &[u8]) -> Result<(), Error> {
    let fail = |error: &io::Error| failure("write", place, error);
    let file = match fs.open(place, Access::Append) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs.open(place, Access::CreateNew(PRIVATE_FILE))
        }
        opened => opened,
    };
    let file = file.map_err(|error| fail(&error))?;
    let size = file.metadata().map_err(|error| fail(&error))?.size;
    let written = match size == end {
        true => Ok(()),
        false => file.set_len(end),
    };
    let written = written
        .and_then(|()| append_all(&*file, lines))
        .and_then(|()| file.sync_all());
    written.map_err(|error| {
        // The next writer removes what is left in any case.
        let _ = file.set_len(end);
        fail(&error)
    })?;
    match end {
        0 => {
            let synced = fs.sync_dir(directory_of(place));
            synced.map_err(|error| fail(&error))
        }
        _ => Ok(()),
    }
}

fn cut(fs: &dyn Fs, place: &Path, end: u64) -> Result<(), Error> {
    let file = fs.open(place, Access::Append);
    let cut = file.and_then(|file| file.set_len(end).and_then(|()| file.sync_all()));
    cut.map_err(|error| failure("write", place, &error))
}
