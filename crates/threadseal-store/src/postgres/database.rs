//! [`PostgresDatabase`]: one database for other layers, reached and checked as the stores reach
//! theirs.
//!
//! ```text
//! read    statements one by one; repeated when the connection breaks
//! write   one transaction; begun again after a conflict or a deadlock, never after a lost answer
//! ```
//! A transaction whose answer was lost may have been committed. It is not guessed. The caller gets
//! an error for an unknown result, reads the present rows, and continues from those.

use super::connect::{self, Facts, Server};
use super::failure::{Failure, Tries};
use super::hint::{Channel, Listener, Marks, Teller};
use crate::runtime::wait_for;
use deadpool_postgres::{Object, Pool};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

/// Limit of attempts.
const MAX_TRIES: u32 = 12;
/// First pause between them; it doubles up to [`MAX_PAUSE`].
const PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The advisory lock while tables are made; any number that no other program takes.
pub(super) const TABLES_LOCK: i64 = 0x7468_7265_6164_7365;

/// A value of a statement.
pub type Value<'v> = &'v (dyn ToSql + Sync);

/// One PostgreSQL database; all clones share its connections.
#[derive(Clone)]
pub struct PostgresDatabase {
    server: Arc<Server>,
    pool: Pool,
    facts: Facts,
    teller: Arc<Teller>,
    listener: Arc<Listener>,
}

impl PostgresDatabase {
    /// Connects to the server of this address.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an address that cannot be used, [`ErrorKind::External`] when
    /// the server cannot be reached or does not commit durably. No message repeats the address.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::of(Server::parse(url)?)
    }

    fn of(server: Server) -> Result<Self, Error> {
        let pool = server.pool()?;
        let facts = wait_for(async {
            let client = connect::connection(&server, &pool).await?;
            match server.in_time(connect::facts(&client)).await {
                Some(facts) => facts.map_err(|error| Failure::from(error).into_error(&server)),
                None => Err(server.external(&server.silence())),
            }
        })?;
        Ok(Self::with(server, pool, facts))
    }

    fn with(server: Server, pool: Pool, facts: Facts) -> Self {
        Self {
            server: Arc::new(server),
            pool,
            facts,
            teller: Arc::new(Teller::default()),
            listener: Arc::new(Listener::default()),
        }
    }

    /// Its address, without secrets.
    pub fn place(&self) -> &str {
        &self.server.place
    }

    /// The settings of the server that weaken its promises.
    pub fn warnings(&self) -> Vec<String> {
        self.server.warnings(&self.facts)
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Can it only be read?
    pub(super) fn is_standby(&self) -> bool {
        self.facts.is_standby
    }

    pub(super) fn refuse_standby(&self) -> Result<(), Error> {
        match self.is_standby() {
            true => Err(self
                .server
                .external("it is a standby, which can only be read")),
            false => Ok(()),
        }
    }

    pub(super) async fn connection(&self) -> Result<Object, Failure> {
        connect::connection(&self.server, &self.pool)
            .await
            .map_err(|error| Failure::Lost(error.to_string()))
    }

    /// Asks until an answer comes, or another attempt is of no use. A question may be asked again
    /// after its answer was lost.
    pub(super) fn ask<T>(
        &self,
        question: &impl AsyncFn(&Object) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        self.server.refuse_silent()?;
        wait_for(async {
            let mut tries = Tries::default();
            loop {
                let asked = match self.connection().await {
                    Ok(client) => match self.server.in_time(question(&client)).await {
                        Some(asked) => asked,
                        None => {
                            drop(Object::take(client));
                            Err(Failure::Silent(self.server.silence()))
                        }
                    },
                    Err(failure) => Err(failure),
                };
                match asked {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => tries.again(&self.server, failure).await?,
                }
            }
        })
    }

    /// Brings the tables of one part of the program to the newest of `versions`. Each is applied
    /// once, in one transaction, under a lock that every maker of tables takes.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when a later version of this program made them,
    /// [`ErrorKind::External`] when the server fails.
    pub fn migrate(&self, part: &str, versions: &[&str]) -> Result<(), Error> {
        let is_current = self.read(|session| {
            let there = "SELECT to_regclass('threadseal_parts') IS NOT NULL";
            let there: bool = cell(&session.one(there, &[])?, 0)?;
            Ok(there && applied(session, part, versions)? == versions.len())
        })?;
        if is_current {
            return Ok(());
        }
        self.write(|session| {
            session.query("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])?;
            session.batch(
                "CREATE TABLE IF NOT EXISTS threadseal_parts
                   (part text PRIMARY KEY, version integer NOT NULL)",
            )?;
            let done = applied(session, part, versions)?;
            for sql in &versions[done..] {
                session.batch(sql)?;
            }
            let now = i32::try_from(versions.len()).unwrap_or(i32::MAX);
            let note = "INSERT INTO threadseal_parts VALUES ($1, $2)
                        ON CONFLICT (part) DO UPDATE SET version = excluded.version";
            session.execute(note, &[&part, &now]).map(drop)
        })
    }

    /// Reads, statement by statement; again from the beginning when the connection breaks.
    ///
    /// # Errors
    /// Those of `work`, [`ErrorKind::External`] when the server fails.
    pub fn read<T>(
        &self,
        mut work: impl FnMut(&Session<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.again(true, |client| {
            let session = Session::of(&self.server, client);
            let done = work(&session);
            (done, session.trouble.get())
        })
    }

    /// One statement that is its own transaction. It is sent again after a conflict, never when its
    /// answer was lost.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the server fails: it may have been done then.
    pub fn once(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        self.again(false, |client| {
            let session = Session::of(&self.server, client);
            let done = session.query(sql, values);
            (done, session.trouble.get())
        })
    }

    /// Does `work` in one transaction, or nothing of it. After a conflict it begins again with new
    /// reads.
    ///
    /// # Errors
    /// Those of `work`; [`ErrorKind::External`] when the server fails: it may have been done then.
    pub fn write<T>(
        &self,
        mut work: impl FnMut(&Session<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.refuse_standby()?;
        self.again(false, |client| {
            let session = Session::of(&self.server, client);
            let done = session.batch("BEGIN").and_then(|()| work(&session));
            let done = match done {
                Ok(done) => session.batch("COMMIT").map(|()| done),
                Err(error) => {
                    if !matches!(session.trouble.get(), Trouble::Lost | Trouble::Silent) {
                        let _ = session.batch("ROLLBACK");
                    }
                    Err(error)
                }
            };
            (done, session.trouble.get())
        })
    }

    fn again<T>(
        &self,
        also_lost: bool,
        mut attempt: impl FnMut(&Object) -> (Result<T, Error>, Trouble),
    ) -> Result<T, Error> {
        self.server.refuse_silent()?;
        let mut pause = PAUSE;
        for tries in 1.. {
            let connected = wait_for(connect::connection(&self.server, &self.pool));
            let (done, trouble) = match connected {
                Ok(client) => {
                    let attempted = attempt(&client);
                    if attempted.0.is_err() && attempted.1 != Trouble::None {
                        // The state of its session is unknown.
                        drop(Object::take(client));
                    }
                    attempted
                }
                Err(error) if tries >= MAX_TRIES => return Err(error),
                // No statement was sent yet.
                Err(error) => (Err(error), Trouble::Conflict),
            };
            let again = match trouble {
                Trouble::None | Trouble::Silent => false,
                Trouble::Conflict => true,
                Trouble::Lost => also_lost,
            };
            match done {
                Err(_) if again && tries < MAX_TRIES => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                done => return done,
            }
        }
        Err(self.server.external("it does not answer"))
    }

    /// Does the server answer at this moment?
    pub fn is_there(&self) -> bool {
        self.once("SELECT 1", &[]).is_ok()
    }

    /// Did it let so many statements run out of time that this process asks it no more?
    pub fn is_given_up(&self) -> bool {
        self.server.refuse_silent().is_err()
    }

    /// Sends waiting processes a hint of a change in a ledger; it may be lost.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when no thread can be started.
    pub fn tell(&self) -> Result<(), Error> {
        self.teller.tell(&self.pool)
    }

    /// The numbers of received hints; begins to listen.
    ///
    /// # Errors
    /// As [`PostgresDatabase::tell`].
    pub fn marks(&self) -> Result<Marks, Error> {
        self.listener.start(&self.server)?;
        Ok(self.listener.marks())
    }

    /// Does it receive hints at this moment?
    pub fn hears(&self) -> bool {
        self.listener.hears()
    }

    /// Waits for a hint of these channels after `marks`: at most `longest` and one poll, or until
    /// `stop`. Returns how long; read the data in any case.
    pub fn wait(
        &self,
        channels: &[Channel],
        marks: &Marks,
        longest: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Duration {
        self.listener.wait(channels, marks, longest, stop)
    }
}

impl fmt::Debug for PostgresDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresDatabase")
            .field("place", &self.server.place)
            .finish_non_exhaustive()
    }
}

/// How many versions of a part were applied.
fn applied(session: &Session<'_>, part: &str, versions: &[&str]) -> Result<usize, Error> {
    let sql = "SELECT version FROM threadseal_parts WHERE part = $1";
    let Some(row) = session.opt(sql, &[&part])? else {
        return Ok(0);
    };
    let version = usize::try_from(cell::<i32>(&row, 0)?).unwrap_or(usize::MAX);
    match version <= versions.len() {
        true => Ok(version),
        false => Err(Error::refused(format!(
            "a later ThreadSeal (version {version} of {part}) made the tables of this database; use that one"
        ))),
    }
}

/// The reason why a statement got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Conflict,
    Lost,
    /// It ran out of time.
    Silent,
}

/// One connection, for a while.
pub struct Session<'c> {
    server: &'c Server,
    client: &'c Object,
    trouble: Cell<Trouble>,
}

impl<'c> Session<'c> {
    fn of(server: &'c Server, client: &'c Object) -> Self {
        Self {
            server,
            client,
            trouble: Cell::new(Trouble::None),
        }
    }

    /// The rows that a statement returns.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when a constraint forbids it, [`ErrorKind::External`] when the server
    /// fails.
    pub fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        self.answer(async {
            let statement = self.client.prepare_cached(sql).await?;
            self.client.query(&statement, values).await
        })
    }

    /// The one row that a statement returns, if any.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn opt(&self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// The row that a statement always returns.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn one(&self, sql: &str, values: &[Value<'_>]) -> Result<Row, Error> {
        let row = self.opt(sql, values)?;
        row.ok_or_else(|| self.server.external("a statement returned no row"))
    }

    /// How many rows a statement changed.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        self.answer(async {
            let statement = self.client.prepare_cached(sql).await?;
            self.client.execute(&statement, values).await
        })
    }

    /// Statements without values.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn batch(&self, sql: &str) -> Result<(), Error> {
        self.answer(self.client.batch_execute(sql))
    }

    /// Sends a hint if this transaction is committed.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn notify(&self, channel: Channel) -> Result<(), Error> {
        self.batch(&format!("NOTIFY {}", channel.name()))
    }

    /// Waits for an answer, and not for ever.
    fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        match wait_for(async { Ok(self.server.in_time(work).await) })? {
            Some(answer) => answer.map_err(|error| self.failed(error)),
            None => {
                self.server.note_silence();
                self.trouble.set(Trouble::Silent);
                Err(self.server.external(&self.server.silence()))
            }
        }
    }

    fn failed(&self, error: tokio_postgres::Error) -> Error {
        let failure = Failure::from(error);
        self.trouble.set(match &failure {
            Failure::Final(_) => self.trouble.get(),
            Failure::Conflict(_) => Trouble::Conflict,
            Failure::Lost(_) => Trouble::Lost,
            Failure::Silent(_) => {
                self.server.note_silence();
                Trouble::Silent
            }
        });
        failure.into_error(self.server)
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("place", &self.server.place)
            .finish_non_exhaustive()
    }
}

/// A value of a row. The owner of the tables may have given its column another type.
///
/// # Errors
/// [`ErrorKind::External`] when it is of another one.
pub fn cell<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Error> {
    row.try_get(column).map_err(|_| {
        let text =
            "PostgreSQL: a value is not of the type that it was made with; restore the database";
        Error::new(ErrorKind::External, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadpool_postgres::{Manager, Runtime};
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    /// A server on this machine that answers nothing, or only who connects.
    fn silent(greets: bool) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut held = Vec::new();
            for mut client in listener.incoming().map(Result::unwrap) {
                if greets {
                    greet(&mut client);
                }
                held.push(client);
            }
        });
        let mut server = Server::parse(&format!("postgres://me@127.0.0.1:{port}/db")).unwrap();
        server.patience = Duration::from_millis(100);
        server
    }

    /// Lets a client begin its session.
    fn greet(client: &mut TcpStream) {
        let mut length = [0; 4];
        client.read_exact(&mut length).unwrap();
        let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut rest).unwrap();
        client
            .write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
            .unwrap();
    }

    // T-STO-38
    #[test]
    fn a_server_that_never_answers_is_given_up() {
        for (greets, why) in [
            (false, "does not answer in time"),
            (true, "did not answer within 0.1 seconds"),
        ] {
            let error = PostgresDatabase::of(silent(greets))
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{error}");
        }
        let server = silent(true);
        let manager = Manager::new(server.config.clone(), server.tls.clone());
        let pool = Pool::builder(manager).runtime(Runtime::Tokio1);
        let (pool, facts) = (pool.build().unwrap(), Facts::of_durable());
        let database = PostgresDatabase::with(server, pool, facts);
        let read = || database.read(|session| session.one("SELECT 1", &[]));
        let write = || database.write(|session| session.batch("SELECT 1"));
        let asked =
            || database.ask(&async |client: &Object| Ok(client.query("SELECT 1", &[]).await?));
        for error in [
            read().unwrap_err(),
            write().unwrap_err(),
            asked().unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.contains("did not answer within 0.1 seconds"),
                "{error}"
            );
        }
        let error = read().unwrap_err().to_string();
        assert!(error.contains("is asked no more"), "{error}");
    }
}
