//! [`NotVerified`]: the report in an error, where a record was needed that verifies.

use super::{Finding, Report};
use crate::error::{Error, ErrorKind};
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// A record that its verdict keeps from being used: the source of the [`Error`] about it.
///
/// As text: `VERDICT: MESSAGE, turn T, bytes A-B [CODE]`, of the worst finding.
#[derive(Debug, Clone)]
pub struct NotVerified(Arc<Report>);

impl NotVerified {
    /// Of this report.
    pub fn of(report: &Report) -> Self {
        Self(Arc::new(report.clone()))
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// The finding that decided, if there is one.
    pub fn finding(&self) -> Option<&Finding> {
        self.0.worst_finding()
    }

    /// The record that `error` is about, if it was refused for its verdict.
    pub fn cause_of(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(refused) = error.downcast_ref::<Self>() {
                return Some(refused.clone());
            }
            cause = error.source();
        }
        None
    }

    /// The error that `subject` is not verified: `SUBJECT is VERDICT: …`, and after that `hint`.
    pub fn error(self, subject: impl fmt::Display, hint: &str) -> Error {
        let text = format!("{subject} is {self}{hint}");
        Error::new(ErrorKind::Refused, text).with_source(self)
    }
}

impl fmt::Display for NotVerified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.verdict)?;
        let Some(finding) = self.finding() else {
            return Ok(());
        };
        write!(f, ": {}", finding.message)?;
        if let Some(turn) = finding.turn {
            write!(f, ", turn {turn}")?;
        }
        if let Some([from, to]) = finding.bytes {
            write!(f, ", bytes {from}-{to}")?;
        }
        write!(f, " [{}]", finding.code)
    }
}

impl StdError for NotVerified {}
