//! Names of runs in SQLite, and values in their place that are no names.
//!
//! AbstractRuntime's package strips blanks off the names of runs before it looks them up
//! (`storage/sqlite.py`). So a name that it would change is not taken. A file of another program
//! may hold any value there. SQLite sorts NULL before numbers, those before texts, and those before
//! bytes.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

/// Characters of a stray name that are shown.
const MAX_TOLD: usize = 64;

/// Refuses a name that these tables do not hold.
pub(super) fn check_name(run: &RunId) -> Result<(), Error> {
    // `str.strip` also takes the four information separators for blanks.
    let is_blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    match run.as_str().trim_matches(is_blank) == run.as_str() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "the run id {run:?} begins or ends with a blank, which AbstractRuntime's tables do not hold"
        ))),
    }
}

/// Runs with rows, after `after`: one that was deleted has none.
pub(super) fn runs(
    connection: &Connection,
    after: Option<&RunId>,
    limit: usize,
) -> rusqlite::Result<Vec<RunId>> {
    let mut runs = Vec::new();
    let after = after.map_or("", RunId::as_str);
    each_text(connection, after.as_bytes(), |name| {
        runs.extend(run_of(name));
        Ok(runs.len() < limit)
    })?;
    Ok(runs)
}

/// The values in the place of names that are no names.
pub(super) fn strays(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut strays: Vec<String> = connection
        .prepare(
            "SELECT typeof(run_id) FROM ledger WHERE typeof(run_id) <> 'text' OR run_id = ''
             GROUP BY typeof(run_id)",
        )?
        .query_map([], |row| {
            let kind: String = row.get(0)?;
            Ok(match kind.as_str() {
                "text" => told(b""),
                _ => format!("({kind})"),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    each_text(connection, b"", |name| {
        if run_of(name).is_none() {
            strays.push(told(name));
        }
        Ok(strays.len() < limit)
    })?;
    strays.truncate(limit);
    Ok(strays)
}

fn run_of(name: &[u8]) -> Option<RunId> {
    let run = RunId::parse(std::str::from_utf8(name).ok()?).ok()?;
    check_name(&run).is_ok().then_some(run)
}

fn told(name: &[u8]) -> String {
    let name: String = String::from_utf8_lossy(name)
        .chars()
        .take(MAX_TOLD)
        .collect();
    format!("{name:?}")
}

/// A text that need not be UTF-8.
struct Bytes<'b>(&'b [u8]);

impl ToSql for Bytes<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Passes each text that is a name after `after` to `take`, once, until that returns false. One
/// step down the primary key finds each of them.
fn each_text(
    connection: &Connection,
    after: &[u8],
    mut take: impl FnMut(&[u8]) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let mut next = connection.prepare_cached(
        "SELECT run_id FROM ledger WHERE run_id > ?1 AND typeof(run_id) = 'text'
         ORDER BY run_id LIMIT 1",
    )?;
    let mut last = after.to_vec();
    while let Some(name) = next
        .query_row([Bytes(&last)], |row| {
            Ok(row.get_ref(0)?.as_bytes()?.to_vec())
        })
        .optional()?
    {
        if !take(&name)? {
            break;
        }
        last = name;
    }
    Ok(())
}
