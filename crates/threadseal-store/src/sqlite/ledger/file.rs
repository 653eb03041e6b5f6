//! [`LedgerFile`]: an SQLite file with the tables of ledgers, and its connections.

use super::schema;
use crate::random::{self, SystemRandom};
use crate::sqlite::connect::{self, Reading};
use crate::sqlite::failure::failed;
use crate::sqlite::turn::Turnstile;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::{Error, ErrorKind};

pub(super) const UNREADABLE: &str = "it cannot be read";
/// Connections that are kept for later.
const MAX_IDLE: usize = 8;
/// How often a file that is only read is read again when it changed meanwhile.
const MAX_LOOKS: usize = 5;

/// An SQLite file of ledgers.
#[derive(Debug)]
pub(super) struct LedgerFile {
    pub(super) path: PathBuf,
    connections: Connections,
    pub(super) turnstile: Turnstile,
    /// Drawn at opening: with the number of records it distinguishes our appends from those of
    /// others.
    pub(super) writer: [u8; 16],
}

#[derive(Debug)]
enum Connections {
    Writing(Mutex<Vec<Connection>>),
    Reading(Mutex<Vec<Reading>>),
}

impl LedgerFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let first = to_write(&path)?;
        Self::new(path, Connections::Writing(Mutex::new(vec![first])))
    }

    pub(super) fn open_read_only(path: PathBuf) -> Result<Self, Error> {
        let first = to_read(&path)?;
        Self::new(path, Connections::Reading(Mutex::new(vec![first])))
    }

    fn new(path: PathBuf, connections: Connections) -> Result<Self, Error> {
        Ok(Self {
            turnstile: Turnstile::of(&path),
            path,
            connections,
            writer: random::array(&SystemRandom)?,
        })
    }

    /// Does `look` within one read transaction, so that it sees one moment. It runs again where a
    /// file without locks changed meanwhile.
    pub(super) fn look<T>(
        &self,
        mut look: impl FnMut(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut once = |connection: &Connection| {
            let transaction = connection
                .unchecked_transaction()
                .map_err(self.fail(UNREADABLE))?;
            look(&transaction)
        };
        let idle = match &self.connections {
            Connections::Writing(_) => return self.write(|connection| once(connection)),
            Connections::Reading(idle) => idle,
        };
        for _ in 0..MAX_LOOKS {
            let reading = match held(idle).pop() {
                Some(reading) if reading.is_unchanged() => reading,
                _ => to_read(&self.path)?,
            };
            let seen = once(&reading.connection);
            if reading.is_unchanged() {
                keep(idle, reading);
                return seen;
            }
        }
        Err(Error::new(
            ErrorKind::External,
            format!(
                "{} keeps changing while it is read; try again",
                self.path.display()
            ),
        ))
    }

    /// Does `work` with a connection that may write.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Connections::Writing(idle) = &self.connections else {
            return Err(Error::refused(format!(
                "{} is opened read-only",
                self.path.display()
            )));
        };
        let taken = held(idle).pop();
        let mut connection = taken.map_or_else(|| to_write(&self.path), Ok)?;
        let done = work(&mut connection);
        if connection.is_autocommit() {
            keep(idle, connection);
        }
        done
    }

    pub(super) fn fail(&self, what: &str) -> impl Fn(rusqlite::Error) -> Error {
        move |error| failed(what, &self.path, &error)
    }
}

/// A connection that may write, to a file that is made where there is none.
pub(super) fn to_write(path: &Path) -> Result<Connection, Error> {
    let mut connection = connect::durable(path)?;
    schema::migrate(&mut connection, path)?;
    Ok(connection)
}

/// A connection that only reads; missing tables are replaced in memory.
pub(super) fn to_read(path: &Path) -> Result<Reading, Error> {
    let reading = Reading::bare(path)?;
    schema::stand_in(&reading.connection, path)?;
    Ok(reading)
}

fn held<T>(idle: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // A list of connections is whole, even after a panic of its holder.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep<T>(idle: &Mutex<Vec<T>>, connection: T) {
    let mut idle = held(idle);
    if idle.len() < MAX_IDLE {
        idle.push(connection);
    }
}
