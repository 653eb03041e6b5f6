//! Finds contradictions in a ledger of budgets.
//!
//! | code | fault |
//! |---|---|
//! | `damaged` | the file's pages contradict each other, or it has no budgets |
//! | `path_id` | a thread id must not become a path |
//! | `unknown_status` | an unknown word |
//! | `orphan` | the parent has no budget here, or our own count has none |
//! | `cycle` | parents lead in a circle |
//! | `negative` | an amount below nothing, which would add to what a parent may spend |
//! | `ill_typed` | a value that is no amount, or money that differs from our own count of it |
//! | `overspent` | more was spent than allowed |
//! | `over_reserved` | more is set aside for children and requests than remains |
//! | `sum` | spending differs from its total, or is below its notes |

use super::books::{ACTIVE, Entry};
use super::{Budget, schema};
use crate::bounds::MAX_INSPECTED_ROWS;
use crate::money::Nanos;
use crate::registry::{Fault, Inspection, check_rows, count_of, looked_at, real_of, text_of};
use crate::status::Status;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::sqlite::database;

/// How far the sums of doubles in Rye's rows may be off.
const TOLERANCE: u64 = 1000;

/// Inspects the ledger at `path` without writing to it.
///
/// # Errors
/// Kind `External` when it cannot be read, `Limit` above [`MAX_INSPECTED_ROWS`]. A fault of the
/// file is no error but a [`crate::registry::Fault`].
pub fn inspect(path: &Path) -> Result<Inspection, Error> {
    looked_at(path, |connection, inspection| {
        if !schema::has_table(connection, "budget_ledger")? {
            if database::is_empty(connection)? {
                // A writer was about to create it.
                return Ok(());
            }
            let message = "there is no table of budgets".to_owned();
            inspection.add("damaged", "", message);
            return Ok(());
        }
        let ours = schema::has_table(connection, "threadseal_budgets")?;
        let sql = schema::row_of(connection)?;
        let mut entries = Vec::new();
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if entries.len() < MAX_INSPECTED_ROWS {
                let entry = Entry::read(row)?;
                judge_row(row, &entry, inspection)?;
                entries.push(entry);
            }
            inspection.rows += 1;
        }
        judge(&entries, inspection);
        if ours {
            strays(connection, inspection)?;
        }
        if schema::has_table(connection, "threadseal_commits")? {
            commits(connection, &entries, inspection)?;
        }
        if schema::has_table(connection, "threadseal_holds")? {
            holds(connection, &entries, inspection)?;
        }
        Ok(())
    })
}

/// Our own count of a budget that is not there.
fn strays(connection: &Connection, inspection: &mut Inspection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(schema::STRAYS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = text_of(row.get_ref(0)?).unwrap_or_default();
        let message = "ThreadSeal has a count for a thread that has no budget".to_owned();
        inspection.add("orphan", &id, message);
    }
    Ok(())
}

/// Amounts noted as spent must be valid, and their sum at most the thread's own spending.
fn commits(
    connection: &Connection,
    entries: &[Entry],
    inspection: &mut Inspection,
) -> rusqlite::Result<()> {
    let known: HashSet<&str> = entries.iter().map(|entry| entry.thread.as_str()).collect();
    let mut noted: HashMap<String, Nanos> = HashMap::new();
    let mut statement = connection.prepare(schema::COMMITS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = text_of(row.get_ref(0)?).unwrap_or_default();
        let found = amount(row.get_ref(1)?, "a spending", &id, inspection);
        if !known.contains(id.as_str()) {
            let message = "a spending is noted for a thread that has no budget".to_owned();
            inspection.add("orphan", &id, message);
        } else if let Some(nanos) = found {
            let sum = noted.entry(id).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }
    for entry in entries {
        // The thread of a row that Rye wrote first had spent something before.
        let sum = noted.get(&entry.thread).copied().unwrap_or_default();
        if entry.ours && sum > entry.own {
            let message = format!("{} spent by the thread alone, but {sum} noted", entry.own);
            inspection.add("sum", &entry.thread, message);
        }
    }
    Ok(())
}

/// Amounts held for requests must be valid, and of a thread with a budget.
fn holds(
    connection: &Connection,
    entries: &[Entry],
    inspection: &mut Inspection,
) -> rusqlite::Result<()> {
    let known: HashSet<&str> = entries.iter().map(|entry| entry.thread.as_str()).collect();
    let mut statement = connection.prepare(schema::HOLDS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = text_of(row.get_ref(0)?).unwrap_or_default();
        amount(row.get_ref(1)?, "a hold", &id, inspection);
        if !known.contains(id.as_str()) {
            let message = "money is held for a thread that has no budget".to_owned();
            inspection.add("orphan", &id, message);
        }
    }
    Ok(())
}

/// An amount of our own count: a whole number that is not negative.
fn amount(value: ValueRef<'_>, name: &str, id: &str, inspection: &mut Inspection) -> Option<Nanos> {
    let found = count_of(value).and_then(Nanos::new);
    if found.is_none() {
        let below = match value {
            ValueRef::Integer(nanos) => nanos < 0,
            ValueRef::Real(nanos) => nanos < 0.0,
            _ => false,
        };
        match below {
            true => inspection.add("negative", id, format!("{name} is negative")),
            false => inspection.add("ill_typed", id, format!("{name} is not an amount")),
        }
    }
    found
}

/// The fault `budget_mismatch` where a budget exceeds the signed limit of its thread. A successor's
/// budget may be lower than its limit.
pub fn contradiction(thread: &ThreadId, budget: &Budget, limit: Nanos) -> Option<Fault> {
    let max = budget.max.filter(|max| *max > limit)?;
    Some(Fault {
        code: "budget_mismatch",
        thread: Some(thread.to_string()),
        message: format!("the budget allows {max}, thread.json {limit}"),
    })
}

/// Inspects all rows of a database whose amounts are billionths; each row comes with the names of
/// its negative amounts.
///
/// # Errors
/// Kind `Limit` above [`MAX_INSPECTED_ROWS`].
pub(super) fn inspect_rows(
    rows: Vec<(Entry, Vec<&'static str>)>,
    place: &str,
) -> Result<Inspection, Error> {
    let mut inspection = Inspection {
        rows: rows.len() as u64,
        ..Inspection::default()
    };
    check_rows(inspection.rows, place)?;
    for (entry, below) in &rows {
        judge_words(entry, &mut inspection);
        for name in below {
            let message = format!("{name} is negative");
            inspection.add("negative", &entry.thread, message);
        }
        judge_spent(entry, &mut inspection);
    }
    let entries: Vec<Entry> = rows.into_iter().map(|(entry, _)| entry).collect();
    judge(&entries, &mut inspection);
    Ok(inspection)
}

fn judge_words(entry: &Entry, inspection: &mut Inspection) {
    let id = entry.thread.as_str();
    if ThreadId::parse(id).is_err() {
        inspection.add("path_id", id, format!("{id:?} is not safe as a path"));
    }
    let word = entry.status.as_str();
    // The first versions of Rye write `released`.
    let known = word == ACTIVE || word == "released" || Status::parse(word).is_some();
    if !known {
        inspection.add(
            "unknown_status",
            id,
            format!("{word:?} is not a known status"),
        );
    }
}

fn judge_spent(entry: &Entry, inspection: &mut Inspection) {
    if let Some(max) = entry.max
        && exceeds(entry.actual, max)
    {
        let message = format!("{} spent of {max}", entry.actual);
        inspection.add("overspent", &entry.thread, message);
    }
}

fn judge_row(row: &Row<'_>, entry: &Entry, inspection: &mut Inspection) -> rusqlite::Result<()> {
    let id = entry.thread.as_str();
    judge_words(entry, inspection);
    if row.get_ref(10)? != ValueRef::Null {
        for (column, name) in [
            (6, "max_nanos"),
            (7, "reserved_nanos"),
            (8, "actual_nanos"),
            (9, "own_nanos"),
        ] {
            // Report each fault alone: the value read in its place would be judged below.
            amount(row.get_ref(column)?, name, id, inspection);
        }
    }
    let ours = [entry.max, Some(entry.reserved), Some(entry.actual)];
    for (column, name) in [(2, "max_spend"), (3, "reserved_spend"), (4, "actual_spend")] {
        let value = row.get_ref(column)?;
        let below = match value {
            // Rye's roots may have no ceiling; then they may spend nothing.
            ValueRef::Null if column == 2 => continue,
            ValueRef::Real(dollars) => dollars < 0.0,
            ValueRef::Integer(dollars) => dollars < 0,
            _ => false,
        };
        match real_of(value) {
            None if below => inspection.add("negative", id, format!("{name} is negative")),
            None => inspection.add("ill_typed", id, format!("{name} is not an amount")),
            Some(real) if entry.ours && ours[column - 2].is_some_and(|ours| ours != real) => {
                inspection.add(
                    "ill_typed",
                    id,
                    format!("{name} differs from the count of ThreadSeal"),
                );
            }
            Some(_) => {}
        }
    }
    judge_spent(entry, inspection);
    Ok(())
}

fn judge(entries: &[Entry], inspection: &mut Inspection) {
    let index: HashMap<&str, &Entry> = entries.iter().map(|e| (e.thread.as_str(), e)).collect();
    let (mut promised, mut told) = (HashMap::new(), HashMap::new());
    let mut theirs: HashSet<&str> = HashSet::new();
    for entry in entries {
        let Some(parent) = entry.parent.as_deref() else {
            continue;
        };
        if !index.contains_key(parent) {
            let message = format!("its parent {parent:?} has no budget");
            inspection.add("orphan", &entry.thread, message);
        }
        let sum: &mut Nanos = promised.entry(parent).or_default();
        *sum = sum.saturating_add(entry.outstanding());
        if entry.ours {
            let sum: &mut Nanos = told.entry(parent).or_default();
            *sum = sum.saturating_add(entry.actual);
        } else {
            theirs.insert(parent);
        }
    }
    for entry in entries {
        let of = |sums: &HashMap<&str, Nanos>| sums.get(entry.thread.as_str()).copied();
        let promised = of(&promised).unwrap_or_default();
        let promised = promised.saturating_add(entry.held);
        let spent = entry.actual.saturating_add(promised);
        let max = entry.max.unwrap_or_default();
        if promised > Nanos::ZERO && exceeds(spent, max) {
            let message = format!("{spent} spent or reserved of {max}");
            inspection.add("over_reserved", &entry.thread, message);
        }
        let known = entry.own.saturating_add(of(&told).unwrap_or_default());
        // No count of ours contains the spending of Rye's children.
        let whole = !theirs.contains(entry.thread.as_str());
        if entry.ours && (known > entry.actual || (whole && known < entry.actual)) {
            let message = format!(
                "{} spent, but {known} by the thread and its children",
                entry.actual
            );
            inspection.add("sum", &entry.thread, message);
        }
    }
    circles(&index, inspection);
}

fn circles(index: &HashMap<&str, &Entry>, inspection: &mut Inspection) {
    let mut done: HashSet<&str> = HashSet::new();
    let mut names: Vec<&str> = index.keys().copied().collect();
    names.sort_unstable();
    for start in names {
        let mut walk: HashSet<&str> = HashSet::new();
        let mut at = index.get(start).copied();
        while let Some(entry) = at {
            let name = entry.thread.as_str();
            if done.contains(name) {
                break;
            }
            if !walk.insert(name) {
                inspection.add("cycle", name, "its parents form a cycle".to_owned());
                break;
            }
            let parent = entry.parent.as_deref();
            at = parent.and_then(|parent| index.get(parent).copied());
        }
        done.extend(walk);
    }
}

fn exceeds(amount: Nanos, max: Nanos) -> bool {
    amount.get() > max.get().saturating_add(TOLERANCE)
}
