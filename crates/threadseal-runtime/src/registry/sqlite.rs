//! [`SqliteRegistry`]: the registry of a project, in one SQLite file.

use super::chain::{self, unknown};
use super::{
    Chain, Filter, Listing, NewThread, Origin, Process, Recorded, Registry, Thread, row, rules,
    schema,
};
use crate::limit::Cost;
use crate::status::Status;
use rusqlite::types::Value as Column;
use rusqlite::{Connection, OptionalExtension, Transaction, params_from_iter};
use serde_json::Value;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_store::sqlite::database::{self, Database};

/// A registry in an SQLite file.
#[derive(Debug)]
pub struct SqliteRegistry {
    database: Database,
    select: String,
}

impl SqliteRegistry {
    /// Opens the registry at `path`, and creates it where there is none; the folder must exist.
    ///
    /// # Errors
    /// Kind `Refused` for a file that is damaged, no registry, or a later version's; `External`
    /// when it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let database = Database::open(path)?;
        schema::migrate(&database)?;
        let select = database.read(|connection| {
            let select = schema::select(connection).map_err(|error| database.failed(&error))?;
            select.ok_or_else(|| no_registry(path))
        })?;
        Ok(Self { database, select })
    }

    /// Runs `work` on a file without writing to it, and repeats it when the file changes meanwhile.
    /// A file whose creation is incomplete has no threads.
    ///
    /// # Errors
    /// Kind `Refused` for a file that is damaged or no registry, `External` when it cannot be read;
    /// errors of `work`.
    pub fn view<T>(
        path: &Path,
        mut work: impl FnMut(&RegistryView<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        database::view(path, |connection| {
            let fail = |error| database::error_of(path, &error);
            let select = schema::select(connection).map_err(fail)?;
            if select.is_none() && !database::is_empty(connection).map_err(fail)? {
                return Err(no_registry(path));
            }
            work(&RegistryView {
                path,
                connection,
                select,
            })
        })
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        self.database
            .write(|transaction| work(transaction).map_err(|failure| self.error_of(failure)))
    }

    /// As `write`, for what a record holds too: after power loss it is corrected from there.
    fn write_loosely(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), Failure>,
    ) -> Result<(), Error> {
        self.database.write_loosely(|transaction| {
            work(transaction).map_err(|failure| self.error_of(failure))
        })
    }

    fn error_of(&self, failure: Failure) -> Error {
        match failure {
            Failure::Refused(error) => error,
            Failure::Sqlite(error) => self.database.failed(&error),
        }
    }

    fn thread(&self, connection: &Connection, id: &ThreadId) -> rusqlite::Result<Option<Thread>> {
        thread(connection, &self.select, id)
    }

    fn known(&self, connection: &Connection, id: &ThreadId) -> Result<Thread, Failure> {
        let thread = self.thread(connection, id)?;
        thread.ok_or_else(|| Failure::Refused(unknown(id)))
    }

    /// Sets columns of one thread, with the time.
    fn set(
        &self,
        id: &ThreadId,
        at: Timestamp,
        theirs: &[(&str, Column)],
        ours: &[(&str, Column)],
    ) -> Result<(), Error> {
        self.write(|transaction| set(transaction, id, at, theirs, ours))
    }
}

/// A registry that is only looked at.
#[derive(Debug)]
pub struct RegistryView<'c> {
    path: &'c Path,
    connection: &'c Connection,
    /// None where there is no table yet.
    select: Option<String>,
}

impl RegistryView<'_> {
    /// As [`Registry::get`].
    ///
    /// # Errors
    /// Kind `Refused` when the file is damaged, `External` when it cannot be read.
    pub fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error> {
        let Some(select) = &self.select else {
            return Ok(None);
        };
        let found = thread(self.connection, select, id);
        found.map_err(|error| database::error_of(self.path, &error))
    }

    /// As [`Registry::list`].
    ///
    /// # Errors
    /// As [`RegistryView::get`].
    pub fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        let Some(select) = &self.select else {
            return Ok(Listing::default());
        };
        let listed = list(self.connection, select, filter);
        listed.map_err(|error| database::error_of(self.path, &error))
    }

    /// As [`Registry::chain`].
    ///
    /// # Errors
    /// As [`Registry::chain`].
    pub fn chain(&self, id: &ThreadId) -> Result<Chain, Error> {
        chain::whole(id, |id| self.get(id))
    }

    /// As [`Registry::resolve`].
    ///
    /// # Errors
    /// As [`Registry::resolve`].
    pub fn resolve(&self, id: &ThreadId) -> Result<Thread, Error> {
        chain::last(id, |id| self.get(id))
    }
}

/// Why a transaction is rolled back.
enum Failure {
    Refused(Error),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Registry for SqliteRegistry {
    fn create(&self, new: &NewThread<'_>, at: Timestamp) -> Result<(), Error> {
        self.write(|transaction| {
            if self.thread(transaction, new.id)?.is_some() {
                return Err(Failure::Refused(rules::taken(new.id)));
            }
            if let Some(most) = new.most_running {
                rules::room(new, most, running(transaction)?).map_err(Failure::Refused)?;
            }
            let parent = match new.origin {
                Origin::Root => None,
                Origin::Child { parent, max_spawns } => {
                    let known = self.known(transaction, parent)?;
                    let spawns = rules::spawn(&known, max_spawns).map_err(Failure::Refused)?;
                    let spawns = integer(spawns);
                    set(transaction, parent, at, &[("spawn_count", spawns)], &[])?;
                    Some(parent.as_str().to_owned())
                }
                Origin::Successor { of } => self.known(transaction, of)?.parent,
            };
            insert(transaction, new, parent, at)
        })
    }

    fn enter(&self, said: &Recorded, at: Timestamp) -> Result<(), Error> {
        self.write(|transaction| {
            let known = self.thread(transaction, &said.id)?;
            if known.is_none() {
                let new = NewThread {
                    id: &said.id,
                    directive: &said.directive,
                    origin: Origin::Root,
                    model: None,
                    record: None,
                    process: None,
                    most_running: None,
                };
                insert(transaction, &new, None, said.began)?;
            }
            let spawns = known.map_or(0, |known| known.spawns).max(said.spawns);
            let id =
                |id: &Option<ThreadId>| id.as_ref().map_or(Column::Null, |id| text(id.as_str()));
            let theirs = [
                ("directive", text(&said.directive)),
                ("model", said.model.as_deref().map_or(Column::Null, text)),
                ("parent_id", id(&said.parent)),
                ("spawn_count", integer(spawns)),
                ("continuation_of", id(&said.before)),
                ("continuation_thread_id", id(&said.after)),
                ("chain_root_id", id(&said.root)),
            ];
            let ours = [("record", text(&said.record.to_hex()))];
            set(transaction, &said.id, at, &theirs, &ours)
        })
    }

    fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error> {
        self.database.read(|connection| {
            let found = self.thread(connection, id);
            found.map_err(|error| self.database.failed(&error))
        })
    }

    fn set_status(
        &self,
        id: &ThreadId,
        expected: Option<Status>,
        to: Status,
        at: Timestamp,
    ) -> Result<Status, Error> {
        self.write(|transaction| {
            let known = self.known(transaction, id)?;
            let before = rules::step(&known, expected, to).map_err(Failure::Refused)?;
            let ended = match to.is_terminal() {
                true => text(&at.to_python_text()),
                false => Column::Null,
            };
            let columns = [("status", text(to.as_str())), ("completed_at", ended)];
            set(transaction, id, at, &columns, &[])?;
            Ok(before)
        })
    }

    fn correct(&self, id: &ThreadId, to: Status, at: Timestamp) -> Result<(), Error> {
        self.write(|transaction| {
            self.known(transaction, id)?;
            let ended = match to.is_terminal() {
                true => text(&at.to_python_text()),
                false => Column::Null,
            };
            let columns = [("status", text(to.as_str())), ("completed_at", ended)];
            set(transaction, id, at, &columns, &[])
        })
    }

    fn link(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<(), Error> {
        self.write(|transaction| {
            let before = self.known(transaction, old)?;
            let after = self.known(transaction, new)?;
            let linked = rules::link(before, &after, at).map_err(Failure::Refused)?;
            let columns = [
                ("status", text(Status::Continued.as_str())),
                ("completed_at", text(&linked.ended)),
                ("continuation_thread_id", text(new.as_str())),
            ];
            set(transaction, old, at, &columns, &[])?;
            let columns = [
                ("continuation_of", text(old.as_str())),
                ("chain_root_id", text(&linked.root)),
            ];
            set(transaction, new, at, &columns, &[])
        })
    }

    fn set_cost(&self, id: &ThreadId, cost: &Cost, at: Timestamp) -> Result<(), Error> {
        let theirs = [
            ("turns", integer(cost.turns)),
            ("input_tokens", integer(cost.input_tokens)),
            ("output_tokens", integer(cost.output_tokens)),
            ("spend", Column::Real(cost.spend.to_real())),
        ];
        let elapsed = u64::try_from(cost.elapsed.as_micros()).unwrap_or(u64::MAX);
        let ours = [
            ("spend_nanos", Column::Integer(cost.spend.to_i64())),
            ("elapsed_micros", integer(elapsed)),
        ];
        self.write_loosely(|transaction| set(transaction, id, at, &theirs, &ours))
    }

    fn set_result(&self, id: &ThreadId, result: &Value, at: Timestamp) -> Result<(), Error> {
        self.set(id, at, &[("result", text(&result.to_string()))], &[])
    }

    fn set_process(&self, id: &ThreadId, process: &Process, at: Timestamp) -> Result<(), Error> {
        let theirs = [("pid", Column::Integer(process.pid.into()))];
        let ours = [("process_started", text(&process.started))];
        self.set(id, at, &theirs, &ours)
    }

    fn set_model(&self, id: &ThreadId, model: &str, at: Timestamp) -> Result<(), Error> {
        self.set(id, at, &[("model", text(model))], &[])
    }

    fn set_record(&self, id: &ThreadId, record: &RecordId, at: Timestamp) -> Result<(), Error> {
        self.write(|transaction| {
            let known = self.known(transaction, id)?;
            rules::record(&known, record).map_err(Failure::Refused)?;
            let ours = [("record", text(&record.to_hex()))];
            set(transaction, id, at, &[], &ours)
        })
    }

    fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        self.database.read(|connection| {
            let listed = list(connection, &self.select, filter);
            listed.map_err(|error| self.database.failed(&error))
        })
    }

    fn place(&self) -> String {
        self.database.path().display().to_string()
    }
}

/// The number of threads that run, or are about to.
fn running(transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM threads WHERE status IN ('created', 'running')";
    let count = transaction.query_row(sql, [], |row| row.get::<_, i64>(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn insert(
    transaction: &Transaction<'_>,
    new: &NewThread<'_>,
    parent: Option<String>,
    at: Timestamp,
) -> Result<(), Failure> {
    let process = new.process.as_ref();
    transaction
        .prepare_cached(
            "INSERT INTO threads
               (thread_id, directive, parent_id, status, created_at, updated_at, pid, model)
             VALUES (?1, ?2, ?3, 'created', ?4, ?4, ?5, ?6)",
        )?
        .execute((
            new.id.as_str(),
            new.directive,
            parent,
            at.to_python_text(),
            process.map(|process| process.pid),
            new.model,
        ))?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO threadseal_threads (thread_id, process_started, record)
             VALUES (?1, ?2, ?3)",
        )?
        .execute((
            new.id.as_str(),
            process.map(|process| process.started.as_str()),
            new.record.map(|record| record.to_hex()),
        ))?;
    Ok(())
}

fn set(
    transaction: &Transaction<'_>,
    id: &ThreadId,
    at: Timestamp,
    theirs: &[(&str, Column)],
    ours: &[(&str, Column)],
) -> Result<(), Failure> {
    let updated = ("updated_at", text(&at.to_python_text()));
    let theirs: Vec<&(&str, Column)> = theirs.iter().chain([&updated]).collect();
    if update(transaction, "threads", &theirs, id)? == 0 {
        return Err(Failure::Refused(unknown(id)));
    }
    if !ours.is_empty() {
        // A thread of Rye has no row in our table yet.
        transaction
            .prepare_cached("INSERT OR IGNORE INTO threadseal_threads (thread_id) VALUES (?1)")?
            .execute([id.as_str()])?;
        update(
            transaction,
            "threadseal_threads",
            &ours.iter().collect::<Vec<_>>(),
            id,
        )?;
    }
    Ok(())
}

/// Sets columns whose names are this module's own words.
fn update(
    transaction: &Transaction<'_>,
    table: &str,
    columns: &[&(&str, Column)],
    id: &ThreadId,
) -> rusqlite::Result<usize> {
    let names: Vec<String> = columns
        .iter()
        .map(|(name, _)| format!("{name} = ?"))
        .collect();
    let sql = format!(
        "UPDATE {table} SET {} WHERE thread_id = ?",
        names.join(", ")
    );
    let values = columns.iter().map(|(_, value)| value.clone());
    let values = values.chain([text(id.as_str())]);
    transaction
        .prepare_cached(&sql)?
        .execute(params_from_iter(values))
}

fn list(connection: &Connection, select: &str, filter: &Filter) -> rusqlite::Result<Listing> {
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    if !filter.statuses.is_empty() {
        let marks = vec!["?"; filter.statuses.len()].join(", ");
        conditions.push(format!("t.status IN ({marks})"));
        values.extend(filter.statuses.iter().map(|status| text(status.as_str())));
    }
    if let Some(directive) = &filter.directive {
        conditions.push("t.directive = ?".to_owned());
        values.push(text(directive));
    }
    if let Some(parent) = &filter.parent {
        conditions.push("t.parent_id = ?".to_owned());
        values.push(text(parent.as_str()));
    }
    let mut sql = select.replacen("t.result", "NULL", 1);
    if !conditions.is_empty() {
        sql.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    sql.push_str(" ORDER BY t.created_at DESC, t.thread_id DESC LIMIT ?");
    let limit = filter
        .limit
        .map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    values.push(Column::Integer(limit));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut listing = Listing::default();
    while let Some(row) = rows.next()? {
        match row::thread(row)? {
            Some(thread) => listing.threads.push(thread),
            None => listing.unusable += 1,
        }
    }
    Ok(listing)
}

fn thread(
    connection: &Connection,
    select: &str,
    id: &ThreadId,
) -> rusqlite::Result<Option<Thread>> {
    let sql = format!("{select} WHERE t.thread_id = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row([id.as_str()], row::thread).optional()?;
    Ok(found.flatten())
}

fn no_registry(path: &Path) -> Error {
    Error::refused(format!("{} has no table of threads", path.display()))
}

fn text(text: &str) -> Column {
    Column::Text(text.to_owned())
}

fn integer(number: u64) -> Column {
    Column::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
