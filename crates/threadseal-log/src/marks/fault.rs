//! [`Fault`]: why a log commits nothing.

use crate::layout::description::LogId;
use crate::marks::place_list::Forgotten;
use std::fmt;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;

/// Why a log commits nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The second place knows a checkpoint that this log does not continue.
    RolledBack {
        /// There.
        mark: TreeHead,
        /// Here.
        log: TreeHead,
    },
    /// It was made on another machine.
    OtherHost,
    /// Another log was put in its place, or none.
    Ended,
    /// It was put in the place of another log of this home, which the second place knows and which never ended.
    Displaced {
        /// That one.
        other: LogId,
    },
    /// It lists second places that this home does not ask any more.
    PlaceForgotten(Forgotten),
}

impl Fault {
    /// The word for it in reports: `log_rolled_back` or `place_forgotten`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::PlaceForgotten(_) => "place_forgotten",
            _ => "log_rolled_back",
        }
    }

    pub(crate) fn into_error(self) -> Error {
        Error::refused(format!(
            "{}: {self}; nothing is committed; hint: threadseal log status",
            self.code()
        ))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack { mark, log } => write!(
                f,
                "the second place knows a checkpoint of {} entries that this log of {} does not continue",
                mark.size, log.size
            ),
            Self::OtherHost => f.write_str("this log was made on another machine"),
            Self::Ended => f.write_str("another log replaced this one"),
            Self::Displaced { other } => write!(
                f,
                "the second place knows the log {other} of this home, which never ended, and this log replaced it"
            ),
            Self::PlaceForgotten(forgotten) => forgotten.fmt(f),
        }
    }
}
