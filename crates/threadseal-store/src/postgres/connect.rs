//! Reaching a PostgreSQL server: the address, TLS, the pool, and the required guarantees of a
//! session.
//!
//! ```text
//! postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?NAME=VALUE&…]  sockets: host=/FOLDER as a value
//!   sslmode=verify-full   TLS, certificate and name checked        the default beyond this machine
//!           require, verify-ca   the same: encryption to an unknown peer protects nothing
//!           prefer        TLS and checked where the server offers it, else none; warned of
//!           disable       none                                     the default on this machine
//!   sslrootcert=FILE      authorities to trust in place of the system's
//! ```
//! Other names are libpq's. Before use, each session must confirm that it commits durably.
//! `synchronous_commit` must be `on` or `remote_apply` and is set where it is not.
//!
//! A message never repeats an address as it was given: it may contain a password.

use crate::clock::{Clock as _, SystemClock};
use crate::sys;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

const POOL_SIZE: usize = 8;
/// Longest wait for a connection, or for a turn in the pool.
const PATIENCE: Duration = Duration::from_secs(15);
/// Unanswered bytes break a connection after this time.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest wait for an answer, whatever limit the server has: its owner may have made a table a view without an end.
const MAX_ANSWER: Duration = Duration::from_secs(60);
/// A server is given up after so many statements without an answer in time,
const MAX_SILENCES: usize = 3;
/// of which the first is no older than this.
const SILENCES_WITHIN: Duration = Duration::from_secs(600);
/// The first statements of every session. They limit the wait for another writer, and that for an answer unless the
/// address or the database has another limit. They also keep a writer that stopped inside a transaction from
/// holding a run for ever.
const SESSION: &str = "SET lock_timeout = '30s';
SET idle_in_transaction_session_timeout = '60s';
SELECT set_config('statement_timeout', '45s', false) WHERE current_setting('statement_timeout') = '0';
SET client_min_messages = warning";

/// A server, and the way to connect to it.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    /// Its address, without secrets.
    pub(super) place: String,
    may_be_plain: bool,
    /// Longest wait for an answer.
    pub(super) patience: Duration,
    /// When it let a statement run out of time.
    silences: Mutex<Vec<Duration>>,
}

/// The settings that a server reports.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    fsync: bool,
    full_page_writes: bool,
    pub(super) is_standby: bool,
}

impl Server {
    /// Reads an address.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] without any part of `url` in its text.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let (url, options) = Options::taken_from(url)?;
        let mut config: Config = url
            .parse()
            .map_err(|error: tokio_postgres::Error| invalid(&text_of(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(invalid("it names no host"));
        }
        let is_near = config.get_hosts().iter().all(is_on_this_machine);
        let mode = match options.sslmode.as_deref() {
            None if is_near => SslMode::Disable,
            None | Some("verify-full" | "verify-ca" | "require") => SslMode::Require,
            Some("prefer") => SslMode::Prefer,
            Some("disable") => SslMode::Disable,
            Some(_) => {
                return Err(invalid(
                    "sslmode is one of disable, prefer, require, verify-ca, verify-full",
                ));
            }
        };
        config.ssl_mode(mode);
        config.application_name("threadseal");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        let roots = match mode {
            SslMode::Disable => RootCertStore::empty(),
            _ => authorities(options.sslrootcert.as_deref())?,
        };
        Ok(Self {
            place: place_of(&config),
            tls: MakeRustlsConnect::new(tls_with(roots)?),
            may_be_plain: mode != SslMode::Require && !is_near,
            patience: MAX_ANSWER,
            silences: Mutex::default(),
            config,
        })
    }

    /// A pool whose sessions have all been checked.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when it cannot be set up; nothing is connected yet.
    pub(super) fn pool(&self) -> Result<Pool, Error> {
        let settings = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), settings);
        let (patience, silence) = (self.patience, self.silence());
        let check = Hook::async_fn(move |client, _| {
            let silence = silence.clone();
            Box::pin(async move {
                match tokio::time::timeout(patience, check_session(client)).await {
                    Ok(checked) => checked.map_err(|error| HookError::message(error.to_string())),
                    Err(_) => Err(HookError::message(silence)),
                }
            })
        });
        Pool::builder(manager)
            .max_size(POOL_SIZE)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(2 * SILENCE))
            .create_timeout(Some(PATIENCE.min(self.patience)))
            .post_create(check)
            .build()
            .map_err(|error| self.external(&error.to_string()))
    }

    /// The settings of the server that weaken the promises of the store.
    pub(super) fn warnings(&self, facts: &Facts) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |applies: bool, text: &str| {
            if applies {
                warnings.push(format!("PostgreSQL at {}: {text}", self.place));
            }
        };
        warn(
            !facts.fsync,
            "fsync is off: power loss may take acknowledged records",
        );
        warn(
            !facts.full_page_writes,
            "full_page_writes is off: power loss may tear pages of acknowledged records",
        );
        warn(
            facts.is_standby,
            "it is a standby: it is read-only, and may lag",
        );
        warn(
            self.may_be_plain,
            "the connection may be unencrypted (sslmode)",
        );
        warnings
    }

    /// What `work` returns, unless it takes too long.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(self.patience, work).await.ok()
    }

    /// The reason of an answer that did not arrive in time.
    pub(super) fn silence(&self) -> String {
        let seconds = self.patience.as_secs_f64();
        format!("it did not answer within {seconds} seconds")
    }

    /// Notes that a statement ran out of time.
    pub(super) fn note_silence(&self) {
        let mut silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.elapsed();
        silences.retain(|at| now.saturating_sub(*at) < SILENCES_WITHIN);
        silences.push(now);
    }

    /// Gives a server up that let several statements run out of time: each further one would take as long.
    ///
    /// # Errors
    /// [`ErrorKind::External`], if it is given up.
    pub(super) fn refuse_silent(&self) -> Result<(), Error> {
        let silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        match silences.len() < MAX_SILENCES {
            true => Ok(()),
            false => Err(self.external(&format!(
                "it let {MAX_SILENCES} statements run out of time, and is asked no more; hint: look for views and triggers among its tables"
            ))),
        }
    }

    pub(super) fn external(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::External,
            format!("PostgreSQL at {}: {what}", self.place),
        )
    }
}

/// A checked connection of the pool.
pub(super) async fn connection(server: &Server, pool: &Pool) -> Result<Object, Error> {
    pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => server.external(&text_of(&error)),
        PoolError::Timeout(_) => {
            server.external("it does not answer in time, or all connections are in use")
        }
        other => server.external(&other.to_string()),
    })
}

#[cfg(test)]
impl Facts {
    /// Those of a server that writes, durably.
    pub(super) fn of_durable() -> Self {
        Self {
            fsync: true,
            full_page_writes: true,
            is_standby: false,
        }
    }
}

/// Reads the server's settings.
pub(super) async fn facts(client: &Client) -> Result<Facts, tokio_postgres::Error> {
    let row = client
        .query_one(
            "SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
                    pg_is_in_recovery()",
            &[],
        )
        .await?;
    Ok(Facts {
        fsync: row.get(0),
        full_page_writes: row.get(1),
        is_standby: row.get(2),
    })
}

/// The text of an error of the server or the connection: the server's message and code. Its detail
/// is left out, because that may repeat the contents of records.
pub(super) fn text_of(error: &tokio_postgres::Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!("{} ({})", told.message(), told.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&match inner.downcast_ref() {
            Some(system) => sys::reason(system),
            None => inner.to_string(),
        });
        source = inner.source();
    }
    text
}

async fn check_session(client: &Client) -> Result<(), Error> {
    let external = |error: tokio_postgres::Error| Error::new(ErrorKind::External, text_of(&error));
    client.batch_execute(SESSION).await.map_err(external)?;
    let settings =
        "SELECT current_setting('synchronous_commit'), current_setting('server_encoding')";
    let is_durable = |setting: &str| matches!(setting, "on" | "remote_apply");
    let row = client.query_one(settings, &[]).await.map_err(external)?;
    if row.get::<_, &str>(1) != "UTF8" {
        return Err(Error::invalid(
            "the database's encoding is not UTF8; create a database with it",
        ));
    }
    if is_durable(row.get(0)) {
        return Ok(());
    }
    client
        .batch_execute("SET synchronous_commit = on")
        .await
        .map_err(external)?;
    let row = client.query_one(settings, &[]).await.map_err(external)?;
    match is_durable(row.get(0)) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::External,
            "synchronous_commit is not on, so an acknowledged record may be lost; switch it on",
        )),
    }
}

/// The parameters of an address that this store reads itself.
#[derive(Default)]
struct Options {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Options {
    /// The address without them, and the parameters.
    fn taken_from(url: &str) -> Result<(String, Self), Error> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        // An unescaped @ in a password would make a piece of it the host, and messages name hosts.
        if base.matches('@').count() > 1 {
            return Err(invalid("write an @ within a user name or password as %40"));
        }
        let mut options = Self::default();
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => options.sslmode = Some(unescaped(value)?),
                "sslrootcert" => options.sslrootcert = Some(unescaped(value)?),
                _ => others.push(pair),
            }
        }
        let rest = others.join("&");
        let url = if rest.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{rest}")
        };
        Ok((url, options))
    }
}

fn unescaped(value: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().unwrap_or(0), rest.next().unwrap_or(0)];
        let digits = std::str::from_utf8(&digits).unwrap_or("");
        let byte =
            u8::from_str_radix(digits, 16).map_err(|_| invalid("a % does not begin an escape"))?;
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_| invalid("an escape is not UTF-8"))
}

fn is_on_this_machine(host: &Host) -> bool {
    match host {
        #[cfg(unix)]
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

fn place_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        #[cfg(unix)]
        Some(Host::Unix(folder)) => folder.display().to_string(),
        Some(Host::Tcp(name)) => name.clone(),
        None => String::new(),
    };
    let port = config.get_ports().first().map_or(5432, |port| *port);
    let database = config.get_dbname().unwrap_or("the default database");
    format!("{host}:{port}/{database}")
}

fn authorities(file: Option<&str>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        let unreadable = |error: rustls::pki_types::pem::Error| {
            Error::invalid(format!(
                "sslrootcert: cannot read certificates of {file}: {error}"
            ))
        };
        for certificate in CertificateDer::pem_file_iter(Path::new(file)).map_err(unreadable)? {
            roots
                .add(certificate.map_err(unreadable)?)
                .map_err(|error| Error::invalid(format!("sslrootcert: {file}: {error}")))?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
    }
    match roots.is_empty() {
        false => Ok(roots),
        true => Err(Error::invalid(
            "no certificate authority is known here; name one by sslrootcert",
        )),
    }
}

fn tls_with(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::External, error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn invalid(why: &str) -> Error {
    Error::invalid(format!(
        "the address of the PostgreSQL server cannot be used: {why}"
    ))
}
