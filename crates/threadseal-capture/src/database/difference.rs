//! A log of rows and its database, compared (`spec/database-sources.md` §5).
//!
//! A row that changed may be an update of its agent, or an edit: a report has only what is known.

use super::kind::Kind;
use super::row_log::{FOLDER, RowLog};
use super::source::{self, Export};
use serde_json::Value;
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::report::{Finding, FindingCode, Report, Severity, Verdict};
use threadseal_store::read::{Source as _, Stamp, open_regular};
use threadseal_store::sys::{Fs, text_path};

/// Rows that are named in a report; of further ones, the count.
const MAX_NAMED_ROWS: usize = 16;
/// Most characters of a key that are shown.
const MAX_SHOWN_KEY: usize = 120;
/// Most bytes of a first line.
const MAX_FIRST_LINE: u64 = 64 << 10;

/// Columns of changes that have whole seconds.
const SECONDS: [&str; 1] = ["updated_at"];

/// How a database differs from the last state of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// No row differs.
    None,
    /// Rows that are new, that changed, and that are gone.
    Rows {
        /// How many are new.
        added: usize,
        /// Those that changed or are gone.
        changed: Vec<ChangedRow>,
    },
    /// The database is older than the log.
    Older,
    /// No row of the session is left, or no database.
    Deleted,
    /// The database cannot be read, for this reason.
    Unread(String),
}

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRow {
    /// Its table.
    pub table: String,
    /// Its key, as JSON.
    pub key: String,
    /// Is it gone?
    pub is_gone: bool,
    /// The agent's column for the time of a change, and whether that changed, too.
    pub touched: Option<(&'static str, bool)>,
    /// Does it look as an update of the agent does: its time of change moved, and the agent's clock?
    pub is_update: bool,
}

/// The database that the log at `place` is of; `None` if it is no log of rows in the exports of a home.
pub fn database_of(fs: &dyn Fs, place: &Path) -> Option<PathBuf> {
    let folder = place.ancestors().nth(3)?.file_name()?;
    if folder != FOLDER {
        return None;
    }
    let file = open_regular(fs, place).ok()?;
    let mut bytes = Vec::new();
    file.range(0, MAX_FIRST_LINE).next_chunk(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let first: Value = serde_json::from_slice(line).ok()?;
    text_path(first.get("database")?.as_str()?)
}

/// A text that changes when the database at `path` does.
pub fn database_stamp(fs: &dyn Fs, path: &Path) -> String {
    let of = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        let found = fs.metadata(Path::new(&name)).ok().map(Stamp::from);
        found.map_or_else(String::new, |stamp| {
            format!("{}.{}", stamp.size, stamp.modified_ns)
        })
    };
    format!("{} {}", of(""), of("-wal"))
}

/// Compares the log at `place` with its database; `None` if it is no log of rows.
///
/// # Errors
/// When the log cannot be read.
pub fn compare(fs: &dyn Fs, place: &Path) -> Result<Option<(Kind, Difference)>, Error> {
    if database_of(fs, place).is_none() {
        return Ok(None);
    }
    let Some(log) = RowLog::read(fs, place)? else {
        return Ok(None);
    };
    let is_gone = std::fs::symlink_metadata(&log.database)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    if is_gone {
        return Ok(Some((log.kind, Difference::Deleted)));
    }
    let difference = match source::read(&log.database, &log.session) {
        Err(error) if error.kind() == ErrorKind::Key => return Err(error),
        Err(error) => Difference::Unread(error.to_string()),
        Ok(None) => Difference::Deleted,
        Ok(Some(rows)) if log.is_older(&rows) => Difference::Older,
        Ok(Some(rows)) => {
            let before = log.states.last().and_then(|last| last.clock);
            let has_moved = match (before, rows.clock) {
                (Some(before), Some(now)) => now > before,
                (before, now) => before == now,
            };
            between(log.kind, &log.rows, &rows.export, has_moved)
        }
    };
    Ok(Some((log.kind, difference)))
}

fn between(kind: Kind, before: &Export, now: &Export, has_moved: bool) -> Difference {
    let mut changed = Vec::new();
    for (name, line) in &before.lines {
        let new = now.lines.get(name);
        if new != Some(line) {
            let mut row = row(kind, name, line, new);
            row.is_update = has_moved && matches!(row.touched, Some((_, true)));
            changed.push(row);
        }
    }
    let is_new = |name: &&Vec<u8>| !before.lines.contains_key(*name);
    let added = now.lines.keys().filter(is_new).count();
    match (added, changed.is_empty()) {
        (0, true) => Difference::None,
        _ => Difference::Rows { added, changed },
    }
}

fn row(kind: Kind, name: &[u8], line: &[u8], new: Option<&Vec<u8>>) -> ChangedRow {
    let named: Value = serde_json::from_slice(&[name, b"}"].concat()).unwrap_or_default();
    let table = named
        .get("table")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let key = named.get("key").map(Value::to_string).unwrap_or_default();
    let column = kind.table(table).and_then(|table| table.changed);
    let value = |line: &[u8]| {
        let line: Value = serde_json::from_slice(line).ok()?;
        line.get("row")?.get(column?).cloned()
    };
    let touched = new.and_then(|new| Some((column?, value(line) != value(new))));
    ChangedRow {
        table: table.to_owned(),
        key: key.chars().take(MAX_SHOWN_KEY).collect(),
        is_gone: new.is_none(),
        touched,
        is_update: false,
    }
}

/// Lowers the report of the log at `place` by what its database has.
pub fn judge(fs: &dyn Fs, place: &Path, report: &mut Report) {
    let compared = match compare(fs, place) {
        Ok(None) => return,
        Ok(Some((_, compared))) => compared,
        // The seals show what is wrong with a log that cannot be read.
        Err(error) => Difference::Unread(error.to_string()),
    };
    let seal = report.head.map_or(0, |head| head.seq);
    match compared {
        Difference::None => {}
        Difference::Rows { added, changed } => hold_rows(report, added, &changed, seal),
        Difference::Older => {
            let text = format!(
                "the database is older than seal {seal}: a copy was put in its place; rows that were sealed later are in the log"
            );
            report.downgrade(
                Verdict::RolledBack,
                Finding::error(FindingCode::DatabaseOlder, text),
            );
        }
        Difference::Deleted => report.find(Finding::note(
            FindingCode::SessionDeleted,
            "the database has no row of the session any more; the log keeps the last state",
        )),
        Difference::Unread(why) => {
            let text = format!("the database cannot be compared with the seals: {why}");
            report.downgrade(
                Verdict::Open,
                Finding::warning(FindingCode::DatabaseUnread, text),
            );
        }
    }
}

fn hold_rows(report: &mut Report, added: usize, changed: &[ChangedRow], seal: u64) {
    let (updates, others): (Vec<_>, Vec<_>) = changed.iter().partition(|row| row.is_update);
    for row in others.iter().take(MAX_NAMED_ROWS) {
        report.downgrade(Verdict::Partial, finding(row, seal));
    }
    if let Some(more) = others.len().checked_sub(MAX_NAMED_ROWS + 1) {
        let text = format!("{} more rows changed or are gone", more + 1);
        report.find(Finding::warning(FindingCode::RowChanged, text));
    }
    if added + updates.len() == 0 {
        return;
    }
    let text = format!(
        "after seal {seal}, {added} rows of the database were added, and {} updated",
        updates.len()
    );
    let unsealed = Finding::note(FindingCode::RowsUnsealed, text);
    report.downgrade(Verdict::UnsignedTail, unsealed);
    for row in updates.iter().take(MAX_NAMED_ROWS) {
        let mut updated = finding(row, seal);
        updated.severity = Severity::Note;
        report.find(updated);
    }
}

fn finding(row: &ChangedRow, seal: u64) -> Finding {
    let ChangedRow { table, key, .. } = row;
    if row.is_gone {
        let text = format!("row {key} of table {table} is gone since seal {seal}");
        return Finding::warning(FindingCode::RowGone, text);
    }
    let touched = match row.touched {
        None => String::new(),
        Some((column, true)) => format!("; so did its {column}"),
        Some((column, false)) if SECONDS.contains(&column) => {
            format!("; its {column} did not, which an update in another second would set")
        }
        Some((column, false)) => {
            format!("; its {column} did not, which an update of the agent would set")
        }
    };
    let text = format!("row {key} of table {table} changed after seal {seal}{touched}");
    Finding::warning(FindingCode::RowChanged, text)
}
