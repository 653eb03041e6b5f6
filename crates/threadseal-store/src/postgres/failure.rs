//! [`Failure`]: a request that failed, and whether to send it again.

use super::connect::{Server, text_of};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::FromSql;

/// How often a transaction is begun again after a conflict, a deadlock or a lost connection.
const MAX_TRIES: u32 = 12;
/// First pause before that; it doubles up to [`MAX_PAUSE`].
const PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A failure, until it is known whether to begin again.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the caller; beginning again is of no use.
    Final(Error),
    /// Another transaction was in the way: a conflict or a deadlock. Nothing was stored.
    Conflict(String),
    /// The connection, or its server, is gone: the last statement may have been stored.
    Lost(String),
    /// It ran out of time. Another attempt would take as long.
    Silent(String),
}

impl Failure {
    /// May the last statement have been stored?
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    pub(super) fn into_error(self, server: &Server) -> Error {
        match self {
            Self::Final(error) => error,
            Self::Conflict(what) | Self::Lost(what) | Self::Silent(what) => server.external(&what),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = text_of(&error);
        let Some(code) = error.code() else {
            // Not a report of the server: the connection broke, before or after the server acted.
            return Self::Lost(text);
        };
        // Class 08: connection; class 57P: the server is shutting down, crashed or starting.
        let is_gone = code.code().starts_with("08") || code.code().starts_with("57P");
        if is_gone {
            return Self::Lost(text);
        }
        if [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ]
        .contains(code)
        {
            return Self::Conflict(text);
        }
        if *code == SqlState::QUERY_CANCELED {
            return Self::Silent(text);
        }
        let kind = match *code {
            SqlState::UNIQUE_VIOLATION | SqlState::CHECK_VIOLATION => ErrorKind::Refused,
            _ => ErrorKind::External,
        };
        Self::Final(Error::new(kind, format!("PostgreSQL: {text}")))
    }
}

/// Beginning again, with pauses, a bounded number of times.
#[derive(Default)]
pub(super) struct Tries(u32);

impl Tries {
    /// Waits before the next try.
    ///
    /// # Errors
    /// The failure itself, when trying again is of no use or was tried often enough.
    pub(super) async fn again(&mut self, server: &Server, failure: Failure) -> Result<(), Error> {
        match failure {
            Failure::Final(error) => return Err(error),
            Failure::Silent(_) => {
                server.note_silence();
                return Err(failure.into_error(server));
            }
            Failure::Conflict(_) | Failure::Lost(_) => {}
        }
        self.0 += 1;
        if self.0 > MAX_TRIES {
            return Err(failure.into_error(server));
        }
        let pause = PAUSE.saturating_mul(1 << (self.0 - 1).min(16));
        tokio::time::sleep(pause.min(MAX_PAUSE)).await;
        Ok(())
    }
}

/// The error that no retry helps.
pub(super) fn refused(text: String) -> Failure {
    Failure::Final(Error::new(ErrorKind::Refused, text))
}

/// A value of a row. The owner of the tables may have given its column another type.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, number: usize) -> Result<T, Failure> {
    row.try_get(number)
        .map_err(|_| damaged("a value is not of the type that it was made with"))
}

pub(super) fn damaged(what: &str) -> Failure {
    Failure::Final(Error::new(
        ErrorKind::Refused,
        format!("the tables are damaged: {what}"),
    ))
}
