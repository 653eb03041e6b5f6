//! Finds contradictions in a registry.
//!
//! | code | fault |
//! |---|---|
//! | `damaged` | the file's pages contradict each other, or it is no registry |
//! | `endless` | what the file declares takes more steps or space than any look may take |
//! | `path_id` | a thread id must not become a path |
//! | `unknown_status` | a word that is no status |
//! | `cycle` | continuations, or parents, lead in a circle |
//! | `dangling` | a continuation leads to a thread that is not registered |
//! | `fork` | two threads claim to continue one, or one claims to continue two |
//! | `one_sided` | a continuation is written on one side only |
//! | `ill_typed` | a value is no number, is negative, or money differs from our own count of it |
//! | `double` | two rows of one thread |
//! | `orphan` | our own columns of a thread that has no row |
//! | `foreign_schema` | a trigger or a view: it can change written values, invent read ones |
//!
//! A registry is evidence of nothing; a reader that finds one of these reads the signed files
//! instead.

use super::row::{count_of, real_of, text_of};
use super::{Thread, schema};
use crate::bounds::{MAX_INSPECTED_ROWS, MAX_LISTED_FAULTS};
use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Row};
use std::collections::HashMap;
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_store::sqlite::database;

/// A contradiction in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault; `spec/runtime.md` lists them.
    pub code: &'static str,
    /// The row, by its id as stored.
    pub thread: Option<String>,
    /// The fault in words.
    pub message: String,
}

/// The result of an inspection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Rows that were looked at.
    pub rows: u64,
    /// At most [`MAX_LISTED_FAULTS`].
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: u64,
}

impl Inspection {
    pub(crate) fn add(&mut self, code: &'static str, thread: &str, message: String) {
        let thread = Some(thread).filter(|thread| !thread.is_empty());
        self.push(Fault {
            code,
            thread: thread.map(str::to_owned),
            message,
        });
    }

    /// Are so few faults listed that another one is listed, too?
    pub(crate) fn has_room(&self) -> bool {
        self.faults.len() < MAX_LISTED_FAULTS
    }

    /// Adds a fault, or counts it where too many are listed already.
    pub(crate) fn push(&mut self, fault: Fault) {
        match self.has_room() {
            true => self.faults.push(fault),
            false => self.more += 1,
        }
    }
}

/// Inspects the registry at `path` without writing to it.
///
/// # Errors
/// Kind `External` when it cannot be read, `Limit` above [`MAX_INSPECTED_ROWS`]. A fault of the
/// file is no error but a [`Fault`].
pub fn inspect(path: &Path) -> Result<Inspection, Error> {
    looked_at(path, |connection, inspection| {
        let Some(select) = schema::select(connection)? else {
            if database::is_empty(connection)? {
                // A writer was about to create it.
                return Ok(());
            }
            let message = "there is no table of threads".to_owned();
            inspection.add("damaged", "", message);
            return Ok(());
        };
        let mut nodes = Vec::new();
        let mut statement = connection.prepare(&select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if nodes.len() < MAX_INSPECTED_ROWS {
                nodes.push(Node::read(row, inspection)?);
            }
            inspection.rows += 1;
        }
        judge(&nodes, inspection);
        orphans(connection, inspection)
    })
}

/// Reports rows of our own table without a row of Rye's.
fn orphans(connection: &Connection, inspection: &mut Inspection) -> rusqlite::Result<()> {
    if schema::columns(connection, "threadseal_threads")?.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare(
        "SELECT thread_id FROM threadseal_threads
         WHERE thread_id NOT IN (SELECT thread_id FROM threads WHERE thread_id IS NOT NULL) ORDER BY thread_id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = text_of(row.get_ref(0)?).unwrap_or_default();
        let message = "its row is missing, but the row that ThreadSeal added for it is still there"
            .to_owned();
        inspection.add("orphan", &id, message);
    }
    Ok(())
}

/// Reports objects that no registry and no ledger of budgets has.
fn strangers(connection: &Connection, inspection: &mut Inspection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "SELECT type, name, tbl_name FROM sqlite_master WHERE type IN ('trigger', 'view') ORDER BY name",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let text = |column: usize| Ok::<_, rusqlite::Error>(text_of(row.get_ref(column)?));
        let (kind, name, table) = (text(0)?, text(1)?, text(2)?);
        let message = format!(
            "{} {:?} of {:?}: this program does not create it",
            kind.unwrap_or_default(),
            name.unwrap_or_default(),
            table.unwrap_or_default()
        );
        inspection.add("foreign_schema", "", message);
    }
    Ok(())
}

/// Reports where a registry contradicts the signed metadata of a thread: `status_mismatch`,
/// `directive_mismatch`, and of a thread that has ended `cost_mismatch`. `thread.json` is written
/// when a thread begins and when it ends. In between the registry is ahead of it, and a link to a
/// successor comes later.
pub(crate) fn contradictions(
    row: &Thread,
    signed: Status,
    directive: &str,
    cost: Option<&Cost>,
) -> Vec<Fault> {
    let fits = match row.status {
        Err(_) => false,
        Ok(Status::Continued) => true,
        Ok(status) if signed.is_terminal() => status == signed,
        Ok(status) => !status.is_terminal(),
    };
    let word = row
        .status
        .as_ref()
        .map_or_else(String::as_str, |status| status.as_str());
    let mut found = Inspection::default();
    if !fits {
        let message = format!("the registry has {word}, but thread.json has {signed}");
        found.add("status_mismatch", row.id.as_str(), message);
    }
    if row.directive != directive {
        let message = format!(
            "the registry has {:?}, but thread.json has {directive:?}",
            row.directive
        );
        found.add("directive_mismatch", row.id.as_str(), message);
    }
    let over = signed.is_terminal()
        || (signed == Status::Suspended && row.status == Ok(Status::Suspended));
    if let Some(cost) = cost.filter(|cost| over && !row.cost_is(cost)) {
        let told = |turns, input: u64, output, spend| {
            let tokens = input.saturating_add(output);
            format!("{turns} turns, {tokens} tokens, {spend} dollars")
        };
        let message = format!(
            "the registry has {}, but thread.json has {}",
            told(row.turns, row.input_tokens, row.output_tokens, row.spend),
            told(
                cost.turns,
                cost.input_tokens,
                cost.output_tokens,
                cost.spend
            )
        );
        found.add("cost_mismatch", row.id.as_str(), message);
    }
    found.faults
}

/// Looks at a database and at its pages; damage is a fault.
pub(crate) fn looked_at(
    path: &Path,
    mut work: impl FnMut(&Connection, &mut Inspection) -> rusqlite::Result<()>,
) -> Result<Inspection, Error> {
    let mut inspection = Inspection::default();
    let seen = database::view(path, |connection| {
        inspection = Inspection::default();
        let fail = |error| failed(path, &error);
        let pages = "PRAGMA quick_check(1)";
        let pages: String = connection
            .query_row(pages, [], |row| row.get(0))
            .map_err(fail)?;
        if pages != "ok" {
            inspection.add("damaged", "", pages);
        }
        strangers(connection, &mut inspection).map_err(fail)?;
        work(connection, &mut inspection).map_err(fail)
    });
    match seen {
        Ok(()) => {
            check_rows(inspection.rows, &path.display().to_string())?;
            Ok(inspection)
        }
        Err(error) => match fault_of(error.kind()) {
            Some(code) => {
                // The faults that were found before it stay.
                inspection.add(code, "", error.to_string());
                Ok(inspection)
            }
            None => Err(error),
        },
    }
}

/// A query that SQLite cannot make of the file's own declarations is a fault of the file, and none of the system.
fn failed(path: &Path, error: &rusqlite::Error) -> Error {
    let found = database::error_of(path, error);
    match error.sqlite_error_code() {
        Some(ErrorCode::Unknown) => Error::refused(found.to_string()),
        _ => found,
    }
}

/// The fault of a file that cannot be looked at for an error of this kind; None where it is no fault of the file.
fn fault_of(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Refused => Some("damaged"),
        ErrorKind::Limit => Some("endless"),
        _ => None,
    }
}

/// A row of a database whose columns hold no other types than their own.
pub(super) struct Typed {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) parent: Option<String>,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// Numbers that must not be negative, by name.
    pub(super) counts: Vec<(&'static str, i64)>,
}

/// Inspects all rows of such a database.
///
/// # Errors
/// Kind `Limit` above [`MAX_INSPECTED_ROWS`].
pub(super) fn inspect_rows(rows: Vec<Typed>, place: &str) -> Result<Inspection, Error> {
    let mut inspection = Inspection {
        rows: rows.len() as u64,
        ..Inspection::default()
    };
    check_rows(inspection.rows, place)?;
    let mut nodes = Vec::with_capacity(rows.len());
    for row in rows {
        words(&row.id, &row.status, &mut inspection);
        for (name, _) in row.counts.iter().filter(|(_, count)| *count < 0) {
            let message = format!("{name} is not a count");
            inspection.add("ill_typed", &row.id, message);
        }
        nodes.push(Node {
            continued: row.status == Status::Continued.as_str(),
            id: row.id,
            parent: row.parent,
            before: row.before,
            after: row.after,
        });
    }
    judge(&nodes, &mut inspection);
    Ok(inspection)
}

/// Refuses more rows than one inspection can judge.
pub(crate) fn check_rows(rows: u64, place: &str) -> Result<(), Error> {
    match rows > MAX_INSPECTED_ROWS as u64 {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Limit,
            format!("{place} has more than {MAX_INSPECTED_ROWS} rows"),
        )),
    }
}

/// Are id and status valid?
fn words(id: &str, status: &str, inspection: &mut Inspection) {
    if ThreadId::parse(id).is_err() {
        inspection.add("path_id", id, format!("{id:?} is not safe as a path"));
    }
    if Status::parse(status).is_none() {
        inspection.add(
            "unknown_status",
            id,
            format!("{status:?} is not a known status"),
        );
    }
}

/// One thread, as far as its pointers go.
struct Node {
    id: String,
    continued: bool,
    parent: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl Node {
    fn read(row: &Row<'_>, inspection: &mut Inspection) -> rusqlite::Result<Self> {
        let text = |column: usize| row.get_ref(column).map(text_of);
        let id = text(0)?.unwrap_or_default();
        let word = text(3)?.unwrap_or_default();
        words(&id, &word, inspection);
        for (column, name) in [
            (8, "turns"),
            (9, "input_tokens"),
            (10, "output_tokens"),
            (12, "spawn_count"),
        ] {
            let value = row.get_ref(column)?;
            if value != ValueRef::Null && count_of(value).is_none() {
                inspection.add("ill_typed", &id, format!("{name} is not a count"));
            }
        }
        money(row, &id, inspection)?;
        Ok(Self {
            id,
            continued: word == Status::Continued.as_str(),
            parent: text(2)?,
            before: text(15)?,
            after: text(16)?,
        })
    }
}

fn money(row: &Row<'_>, id: &str, inspection: &mut Inspection) -> rusqlite::Result<()> {
    let (theirs, ours) = (row.get_ref(11)?, row.get_ref(18)?);
    let real = real_of(theirs);
    if theirs != ValueRef::Null && real.is_none() {
        inspection.add("ill_typed", id, "spend is not an amount".to_owned());
    }
    let nanos = count_of(ours).and_then(Nanos::new);
    if let (Some(real), Some(nanos)) = (real, nanos)
        && real != nanos
    {
        let message = format!("spend is {real}, but the count of ThreadSeal is {nanos}");
        inspection.add("ill_typed", id, message);
    }
    Ok(())
}

fn judge(nodes: &[Node], inspection: &mut Inspection) {
    let index = nodes.iter().enumerate();
    let index: HashMap<&str, usize> = index.map(|(at, node)| (node.id.as_str(), at)).collect();
    for (at, node) in nodes.iter().enumerate() {
        if index.get(node.id.as_str()).is_some_and(|last| *last != at) && !node.id.is_empty() {
            let message = "it has more than one row".to_owned();
            inspection.add("double", &node.id, message);
        }
    }
    let place = |id: &Option<String>| id.as_deref().and_then(|id| index.get(id).copied());
    circles(nodes, "continuations", inspection, |node| {
        place(&node.after)
    });
    circles(nodes, "parents", inspection, |node| place(&node.parent));
    for node in nodes {
        for (pointer, what) in [
            (&node.after, "continued by"),
            (&node.before, "a continuation of"),
        ] {
            if let Some(id) = pointer.as_deref().filter(|id| !index.contains_key(id)) {
                let message = format!("it is {what} {id:?}, which is not registered");
                inspection.add("dangling", &node.id, message);
            }
        }
        if node.continued && node.after.is_none() {
            let message = "it is continued, but its successor is not recorded".to_owned();
            inspection.add("dangling", &node.id, message);
        }
        let after = place(&node.after).map(|at| &nodes[at]);
        if let Some(after) = after.filter(|after| after.before.is_none()) {
            let message = format!("{:?} does not name it as its predecessor", after.id);
            inspection.add("one_sided", &node.id, message);
        }
    }
    forks(nodes, inspection);
}

/// Threads that several name as the one before, or as the one after.
fn forks(nodes: &[Node], inspection: &mut Inspection) {
    type Pointer = fn(&Node) -> Option<&str>;
    let pointers: [(Pointer, &str); 2] = [
        (
            |node| node.before.as_deref(),
            "name it as their predecessor",
        ),
        (|node| node.after.as_deref(), "name it as their successor"),
    ];
    for (pointer, what) in pointers {
        let mut claims: HashMap<&str, u64> = HashMap::new();
        for target in nodes.iter().filter_map(pointer) {
            *claims.entry(target).or_default() += 1;
        }
        let mut several: Vec<(&str, u64)> = claims.into_iter().filter(|(_, n)| *n > 1).collect();
        several.sort_unstable();
        for (target, count) in several {
            inspection.add("fork", target, format!("{count} threads {what}"));
        }
    }
}

/// Names one member of each circle that `next` leads in.
fn circles(
    nodes: &[Node],
    what: &str,
    inspection: &mut Inspection,
    next: impl Fn(&Node) -> Option<usize>,
) {
    // The number of the walk that first passed a node; 0: none yet.
    let mut passed = vec![0_usize; nodes.len()];
    for start in 0..nodes.len() {
        let (walk, mut at) = (start + 1, Some(start));
        while let Some(here) = at {
            if passed[here] != 0 {
                if passed[here] == walk {
                    let message = format!("its {what} form a cycle");
                    inspection.add("cycle", &nodes[here].id, message);
                }
                break;
            }
            passed[here] = walk;
            at = next(&nodes[here]);
        }
    }
}
