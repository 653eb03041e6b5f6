//! Reading a database: of which kind it is, its sessions, and the export of one.
//!
//! Only plain tables are read, by statements that are fixed here but for the names of columns. No
//! comparison follows a collation that the database declares.

use super::kind::{COMPOSER, First, Kind, Owner, Place, Query, Table, session_of_key};
use super::value::{spell, string};
use super::{MAX_COLUMNS, MAX_EXPORT_BYTES, MAX_EXPORT_ROWS, MAX_SESSIONS};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_store::sqlite::foreign;
use threadseal_store::sys::{Fs as _, RealFs};

/// The encoding of a database in which parts of keys are compared.
const UTF_8: &str = "UTF-8";
/// Most parents of a session that are followed.
const MAX_PARENTS: usize = 32;

/// For each session of a database, numbers that change when its agent writes.
pub type Stamps = BTreeMap<String, String>;

/// What a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It has sessions of this kind.
    Kind(Kind),
    /// It has none, for this reason.
    Other(String),
}

/// The rows of one session, in one state of its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRows {
    /// The kind of the database.
    pub kind: Kind,
    /// The id, as the agent spells it.
    pub session: String,
    /// The folder of its project, if a row names it.
    pub project: Option<String>,
    /// The session at the end of the chain of those that started it, and the one that did.
    pub started_by: Option<(String, String)>,
    /// A number that the agent only counts up.
    pub clock: Option<i64>,
    /// The rows.
    pub export: Export,
}

/// Lines of rows, by the part of each that names it: `{"table":…,"key":[…]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Export {
    pub(super) lines: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Export {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The bytes of the export: all lines in order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in self.sorted() {
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        bytes
    }

    /// Its SHA-256.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes())
    }

    fn sorted(&self) -> Vec<&Vec<u8>> {
        let mut lines: Vec<&Vec<u8>> = self.lines.values().collect();
        lines.sort_unstable();
        lines
    }
}

/// Does the file at `path` begin as an SQLite file does?
///
/// # Errors
/// Kind `External` when the system fails.
pub fn looks_like(path: &Path) -> Result<bool, Error> {
    let looked = foreign::is_database(path);
    looked.map_err(|error| threadseal_store::sys::failure("read", path, &error))
}

/// What the database at `path` is, and its sessions with their stamps.
///
/// # Errors
/// When it cannot be read.
pub fn find(path: &Path) -> Result<(Found, Stamps), Error> {
    foreign::read(path, |connection| {
        let reader = Reader::of(connection, path);
        match reader.kind()? {
            Found::Kind(kind) => Ok((Found::Kind(kind), reader.stamps(kind)?)),
            other => Ok((other, Stamps::new())),
        }
    })
}

/// The kind of the database at `path`.
///
/// # Errors
/// When it cannot be read, or is of no known kind.
pub fn kind(path: &Path) -> Result<Kind, Error> {
    let found = foreign::read(path, |connection| Reader::of(connection, path).kind());
    match found? {
        Found::Kind(kind) => Ok(kind),
        Found::Other(why) => Err(Error::invalid(format!("{}: {why}", path.display()))),
    }
}

/// The rows of one session; `None` if no row of it is there.
///
/// # Errors
/// When the database cannot be read, is of no known kind, or exceeds a bound.
pub fn read(path: &Path, session: &str) -> Result<Option<SessionRows>, Error> {
    foreign::read(path, |connection| {
        let reader = Reader::of(connection, path);
        match reader.kind()? {
            Found::Kind(kind) => reader.session(kind, session),
            Found::Other(why) => Err(Error::invalid(format!("{}: {why}", path.display()))),
        }
    })
}

/// One reading of a database.
struct Reader<'a> {
    connection: &'a Connection,
    path: &'a Path,
    /// The file that the path leads to.
    real: PathBuf,
}

impl<'a> Reader<'a> {
    fn of(connection: &'a Connection, path: &'a Path) -> Self {
        let real = RealFs.canonicalize(path);
        Self {
            connection,
            path,
            real: real.unwrap_or_else(|_| path.to_owned()),
        }
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|error| foreign::error(self.path, &error))
    }

    fn limit(&self, what: &str, most: usize) -> Error {
        let text = format!("{} has more than {most} {what}", self.path.display());
        Error::new(ErrorKind::Limit, text)
    }

    fn kind(&self) -> Result<Found, Error> {
        let mut why = "it has no tables of an agent that is known".to_owned();
        for kind in Kind::ALL {
            let mut is_it = true;
            for table in kind.tables().iter().filter(|table| table.is_needed) {
                let fault = self.fault(table)?;
                is_it &= fault.is_none();
                if let Some(Fault::Odd(text)) = fault {
                    why = format!(
                        "its tables are not those of a known {}: {text}",
                        kind.name()
                    );
                }
            }
            is_it &= kind
                .file_name()
                .is_none_or(|name| self.file_name() == Some(name));
            if is_it && kind.has_keys() && self.encoding()? != UTF_8 {
                why = format!("its text is not in {UTF_8}, as that of {} is", kind.name());
                is_it = false;
            }
            if is_it {
                return Ok(Found::Kind(kind));
            }
        }
        Ok(Found::Other(why))
    }

    /// Why a table is not the one that a kind needs.
    fn fault(&self, table: &Table) -> Result<Option<Fault>, Error> {
        let name = table.name;
        match self.form(name)? {
            Form::Absent => return Ok(Some(Fault::Absent)),
            Form::Other => return Ok(Some(Fault::Odd(format!("{name} is no plain table")))),
            Form::Table => {}
        }
        let columns = self.columns(name)?;
        let owner = match table.owner {
            Owner::Column(column) | Owner::Keys(column, _) => Some(column),
            Owner::Folder => None,
        };
        let mut needed = owner
            .into_iter()
            .chain(table.key.iter().copied())
            .chain(table.marks.iter().copied());
        let missing = needed.find(|needed| !columns.iter().any(|column| column == needed));
        Ok(missing.map(|column| Fault::Odd(format!("{name} has no column {column}"))))
    }

    fn file_name(&self) -> Option<&str> {
        self.real.file_name()?.to_str()
    }

    /// The only session of a database that is called as its folder.
    fn folder_session(&self) -> Option<&str> {
        self.real.parent()?.file_name()?.to_str()
    }

    fn encoding(&self) -> Result<String, Error> {
        let pragma = self
            .connection
            .query_row("PRAGMA encoding", [], |row| row.get(0));
        self.sql(pragma)
    }

    fn form(&self, name: &str) -> Result<Form, Error> {
        let sql = "SELECT type, rootpage, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND lower(name) = ?1";
        let found = self
            .connection
            .query_row(sql, [name.to_ascii_lowercase()], |row| {
                let is_table = matches!(row.get_ref(0)?, ValueRef::Text(b"table"));
                let has_pages = matches!(row.get_ref(1)?, ValueRef::Integer(1..));
                let is_plain = match row.get_ref(2)? {
                    ValueRef::Text(text) => {
                        let start = text.get(..12).unwrap_or_default();
                        start.eq_ignore_ascii_case(b"CREATE TABLE")
                    }
                    _ => false,
                };
                Ok(match is_table && has_pages && is_plain {
                    true => Form::Table,
                    false => Form::Other,
                })
            });
        Ok(self.sql(found.optional())?.unwrap_or(Form::Absent))
    }

    /// The columns of a plain table, without generated ones, in the order of their names.
    fn columns(&self, table: &str) -> Result<Vec<String>, Error> {
        let sql = format!("PRAGMA table_xinfo({})", quoted(table));
        let mut statement = self.sql(self.connection.prepare(&sql))?;
        let mut rows = self.sql(statement.query([]))?;
        let mut columns = Vec::new();
        while let Some(row) = self.sql(rows.next())? {
            if self.sql(row.get::<_, i64>("hidden"))? == 0 {
                columns.push(self.sql(row.get::<_, String>("name"))?);
            }
            if columns.len() > MAX_COLUMNS {
                return Err(self.limit("columns in a table", MAX_COLUMNS));
            }
        }
        columns.sort_unstable();
        Ok(columns)
    }

    fn stamps(&self, kind: Kind) -> Result<Stamps, Error> {
        let mut stamps = Stamps::new();
        for sql in kind.stamps() {
            // A version of the agent may lack the table.
            if !self.can_answer(sql)? {
                continue;
            }
            // Only of a table without row ids the first statement is refused.
            let without_rows = sql.sql.replace("max(rowid)", "0");
            let prepared = self.connection.prepare(sql.sql);
            let prepared = prepared.or_else(|_| self.connection.prepare(&without_rows));
            let mut statement = self.sql(prepared)?;
            let mut rows = self.sql(statement.query([]))?;
            let mut sums: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
            while let Some(row) = self.sql(rows.next())? {
                let (session, stamp) = match sql.first {
                    First::Session => (self.session_id(row)?, self.stamp(row)?),
                    First::Nothing => match self.folder_session() {
                        Some(session) => (session.to_owned(), self.stamp(row)?),
                        None => continue,
                    },
                    First::Key => {
                        self.sum(row, &mut sums)?;
                        if sums.len() > MAX_SESSIONS {
                            return Err(self.limit("sessions", MAX_SESSIONS));
                        }
                        continue;
                    }
                };
                stamps.entry(session).or_default().push_str(&stamp);
                if stamps.len() > MAX_SESSIONS {
                    return Err(self.limit("sessions", MAX_SESSIONS));
                }
            }
            for (session, (rows, last, size)) in sums {
                let stamp = format!("{rows} {last} {size} ");
                stamps.entry(session).or_default().push_str(&stamp);
            }
        }
        Ok(stamps)
    }

    /// Adds a row with a key to the sums of its session.
    fn sum(
        &self,
        row: &Row<'_>,
        sums: &mut BTreeMap<String, (i64, i64, i64)>,
    ) -> Result<(), Error> {
        let key = self.session_id(row)?;
        let Some(session) = session_of_key(&key, &COMPOSER) else {
            return Ok(());
        };
        let number = |column| -> Result<i64, Error> {
            let found: Option<i64> = self.sql(row.get(column))?;
            Ok(found.unwrap_or_default())
        };
        let (rows, last, size) = sums.entry(session.to_owned()).or_default();
        *rows += 1;
        *last = (*last).max(number(1)?);
        *size = size.saturating_add(number(2)?);
        Ok(())
    }

    fn session_id(&self, row: &Row<'_>) -> Result<String, Error> {
        let session = match self.sql(row.get_ref(0))? {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => None,
        };
        session.ok_or_else(|| {
            let text = format!("{} has a session whose id is no text", self.path.display());
            Error::invalid(text)
        })
    }

    fn stamp(&self, row: &Row<'_>) -> Result<String, Error> {
        let mut stamp = Vec::new();
        for column in 1..=2 {
            spell(self.sql(row.get_ref(column))?, &mut stamp);
            stamp.push(b' ');
        }
        Ok(String::from_utf8_lossy(&stamp).into_owned())
    }

    fn session(&self, kind: Kind, session: &str) -> Result<Option<SessionRows>, Error> {
        let mut export = Export::default();
        let mut size = 0;
        for table in kind.tables() {
            match self.fault(table)? {
                // A needed one was there when the kind was found, in the same transaction.
                Some(Fault::Absent) => {}
                Some(Fault::Odd(why)) => {
                    return Err(Error::invalid(format!("{}: {why}", self.path.display())));
                }
                None => self.rows(table, session, &mut export, &mut size)?,
            }
        }
        if export.lines.is_empty() {
            return Ok(None);
        }
        let (project, started_by) = match kind.place() {
            Some(place) => self.place(place, session)?,
            None => (None, None),
        };
        Ok(Some(SessionRows {
            kind,
            session: session.to_owned(),
            project,
            started_by,
            clock: self.clock(kind, session)?,
            export,
        }))
    }

    fn rows(
        &self,
        table: &Table,
        session: &str,
        export: &mut Export,
        size: &mut usize,
    ) -> Result<(), Error> {
        let columns = self.columns(table.name)?;
        let listed: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let from = format!("SELECT {} FROM {}", listed.join(","), quoted(table.name));
        let mut twins: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
        for (condition, values) in self.selections(table, session) {
            let mut statement = self.sql(self.connection.prepare(&format!("{from}{condition}")))?;
            let values = rusqlite::params_from_iter(values);
            let mut rows = self.sql(statement.query(values))?;
            while let Some(row) = self.sql(rows.next())? {
                let (name, values) = self.line(table, &columns, row)?;
                *size += name.len() + values.len();
                if *size > MAX_EXPORT_BYTES {
                    return Err(self.limit("bytes in one session", MAX_EXPORT_BYTES));
                }
                twins.entry(name).or_default().push(values);
                if export.lines.len() + twins.len() > MAX_EXPORT_ROWS {
                    return Err(self.limit("rows in one session", MAX_EXPORT_ROWS));
                }
            }
        }
        for (name, mut all) in twins {
            all.sort_unstable();
            for (number, values) in all.into_iter().enumerate() {
                let mut name = name.clone();
                if number > 0 {
                    name.extend_from_slice(format!(",\"nth\":{number}").as_bytes());
                }
                let line = [&name[..], b",\"row\":{", &values, b"}}"].concat();
                if line.len() > MAX_LINE_BYTES {
                    return Err(self.limit("bytes in one row", MAX_LINE_BYTES));
                }
                export.lines.insert(name, line);
            }
            if export.lines.len() > MAX_EXPORT_ROWS {
                return Err(self.limit("rows in one session", MAX_EXPORT_ROWS));
            }
        }
        Ok(())
    }

    /// The conditions that select the rows of a session, each with its values. No row fits two.
    fn selections(&self, table: &Table, session: &str) -> Vec<(String, Vec<String>)> {
        match table.owner {
            Owner::Column(column) => {
                let condition = format!(" WHERE {} COLLATE BINARY = ?1", quoted(column));
                vec![(condition, vec![session.to_owned()])]
            }
            Owner::Folder if self.folder_session() == Some(session) => {
                vec![(String::new(), Vec::new())]
            }
            Owner::Folder => Vec::new(),
            // No key names such a session: its rows are another one's.
            Owner::Keys(..) if session.is_empty() || session.contains(':') => Vec::new(),
            Owner::Keys(column, words) => {
                let column = format!("{} COLLATE BINARY", quoted(column));
                let exact = format!(" WHERE {column} = ?1");
                // A semicolon is the byte after a colon.
                let begins = format!(" WHERE {column} >= ?1 AND {column} < ?2");
                let of_word = |word: &&str| {
                    let key = format!("{word}:{session}");
                    let bounds = vec![format!("{key}:"), format!("{key};")];
                    [(exact.clone(), vec![key]), (begins.clone(), bounds)]
                };
                words.iter().flat_map(of_word).collect()
            }
        }
    }

    /// What names a row, and its values.
    fn line(
        &self,
        table: &Table,
        columns: &[String],
        row: &Row<'_>,
    ) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let mut name = format!("{{\"table\":\"{}\",\"key\":[", table.name).into_bytes();
        for (number, column) in table.key.iter().enumerate() {
            if number > 0 {
                name.push(b',');
            }
            spell(self.sql(row.get_ref(*column))?, &mut name);
        }
        name.push(b']');
        let mut values = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let value = self.sql(row.get_ref(at))?;
            if value == ValueRef::Null {
                continue;
            }
            if !values.is_empty() {
                values.push(b',');
            }
            string(column, &mut values);
            values.push(b':');
            spell(value, &mut values);
        }
        Ok((name, values))
    }

    /// The project of a session, and who started it.
    fn place(
        &self,
        place: Place,
        session: &str,
    ) -> Result<(Option<String>, Option<(String, String)>), Error> {
        let project = self.text_of(place, place.project, session)?;
        let columns = self.columns(place.table)?;
        let has_parents = columns.iter().any(|column| column == place.parent);
        let mut chain: Vec<String> = Vec::new();
        while has_parents && chain.len() < MAX_PARENTS {
            let of = chain.last().map_or(session, String::as_str);
            match self.text_of(place, place.parent, of)? {
                Some(parent) if parent != session && !chain.contains(&parent) => chain.push(parent),
                _ => break,
            }
        }
        let first = chain.first().cloned();
        Ok((project, chain.pop().zip(first)))
    }

    /// The text in a column of the row of a session.
    fn text_of(&self, place: Place, column: &str, session: &str) -> Result<Option<String>, Error> {
        let (table, id) = (quoted(place.table), quoted(place.id));
        let column = quoted(column);
        let sql = format!("SELECT {column} FROM {table} WHERE {id} COLLATE BINARY = ?1");
        let found = self.connection.query_row(&sql, [session], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
                _ => None,
            })
        });
        Ok(self.sql(found.optional())?.flatten())
    }

    /// `None` where the database has no such number.
    fn clock(&self, kind: Kind, session: &str) -> Result<Option<i64>, Error> {
        let Some(query) = kind.clock() else {
            return Ok(None);
        };
        if !self.can_answer(&query)? {
            return Ok(None);
        }
        let found = self.connection.query_row(query.sql, [session], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Integer(number) => Some(number),
                _ => None,
            })
        });
        Ok(self.sql(found.optional())?.flatten())
    }

    /// Is the table of a query a plain one, with its columns?
    fn can_answer(&self, query: &Query) -> Result<bool, Error> {
        if !matches!(self.form(query.table)?, Form::Table) {
            return Ok(false);
        }
        let columns = self.columns(query.table)?;
        let has = |needed: &&str| columns.iter().any(|column| column == needed);
        Ok(query.columns.iter().all(has))
    }
}

/// Why a table is not the one that a kind needs.
enum Fault {
    Absent,
    Odd(String),
}

/// What has a name in a schema.
enum Form {
    Absent,
    Table,
    Other,
}

/// A name in a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
