//! [`Status`]: the states of a thread, and the permitted steps between them.
//!
//! ```text
//! from \ to      running suspended completed c_w_errors l_reached error cancelled killed continued
//! created           x                                              x       x        x
//! running                     x        x         x          x      x       x        x        x
//! suspended         x                                              x       x        x        x
//! completed … killed                                                                         x
//! continued
//! ```
//! There is no other table: a registry refuses every step that is not marked here. A thread that
//! ended is resumed by a successor, which makes it `continued`; its chain continues there. Rye
//! checks nothing, so its databases may contain anything; [`Status::parse`] rejects unknown words.

use std::fmt;
use std::str::FromStr;
use threadseal_core::error::Error;

/// The status of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Registered; nothing ran.
    Created,
    /// Some process runs it.
    Running,
    /// It waits for a person's decision.
    Suspended,
    /// It ended as it should.
    Completed,
    /// It ended; some of its steps failed.
    CompletedWithErrors,
    /// It ended at one of its limits.
    LimitReached,
    /// It failed.
    Error,
    /// It ended on request.
    Cancelled,
    /// Its process was ended.
    Killed,
    /// Another thread continues it.
    Continued,
}

impl Status {
    /// All of them, as the table has them.
    pub const ALL: [Self; 10] = [
        Self::Created,
        Self::Running,
        Self::Suspended,
        Self::Completed,
        Self::CompletedWithErrors,
        Self::LimitReached,
        Self::Error,
        Self::Cancelled,
        Self::Killed,
        Self::Continued,
    ];

    /// The word in registries and in `thread.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::CompletedWithErrors => "completed_with_errors",
            Self::LimitReached => "limit_reached",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Killed => "killed",
            Self::Continued => "continued",
        }
    }

    /// The status of a word; None when it is none.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The status of a thread whose record ends with this event, of which `stated` is the member
    /// `status`. None for an event that ends no thread.
    pub(crate) fn of_end(event: &str, stated: Option<&str>) -> Option<Self> {
        Some(match event {
            "thread_completed" => Self::Completed,
            "thread_error" => Self::Error,
            "thread_cancelled" => Self::Cancelled,
            "thread_suspended" if stated == Some(Self::LimitReached.as_str()) => Self::LimitReached,
            "thread_suspended" => Self::Suspended,
            "thread_continued" => Self::Continued,
            _ => return None,
        })
    }

    /// May a thread go from here to `next`?
    pub(crate) fn may_become(self, next: Self) -> bool {
        match next {
            Self::Created => false,
            Self::Running => matches!(self, Self::Created | Self::Suspended),
            Self::Suspended | Self::Completed | Self::CompletedWithErrors | Self::LimitReached => {
                self == Self::Running
            }
            Self::Error | Self::Cancelled | Self::Killed => {
                matches!(self, Self::Created | Self::Running | Self::Suspended)
            }
            Self::Continued => !matches!(self, Self::Created | Self::Continued),
        }
    }

    /// The step to `next`.
    ///
    /// # Errors
    /// Kind `Refused` when the table does not have it.
    pub fn step(self, next: Self) -> Result<Self, Error> {
        match self.may_become(next) {
            true => Ok(next),
            false => Err(Error::refused(format!(
                "a thread that is {self} cannot become {next}"
            ))),
        }
    }

    /// Did it end? Nothing but a link to a successor follows.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Created | Self::Running | Self::Suspended)
    }

    /// May a successor resume it? For a `continued` thread, the end of its chain is resumed.
    pub(crate) fn is_resumable(self) -> bool {
        self.may_become(Self::Continued) && self != Self::Running
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        Self::parse(word).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|status| status.as_str()).collect();
            Error::invalid(format!(
                "{word:?} is not a thread status; known: {}",
                words.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the module's heading, as words.
    const TABLE: [(&str, &str); 10] = [
        ("created", "running error cancelled killed"),
        (
            "running",
            "suspended completed completed_with_errors limit_reached error cancelled killed continued",
        ),
        ("suspended", "running error cancelled killed continued"),
        ("completed", "continued"),
        ("completed_with_errors", "continued"),
        ("limit_reached", "continued"),
        ("error", "continued"),
        ("cancelled", "continued"),
        ("killed", "continued"),
        ("continued", ""),
    ];

    #[test]
    fn a_thread_takes_the_steps_of_the_table_and_no_other() {
        for (from, allowed) in TABLE {
            let from: Status = from.parse().unwrap();
            for next in Status::ALL {
                let expected = allowed.split(' ').any(|word| word == next.as_str());
                assert_eq!(from.may_become(next), expected, "{from} -> {next}");
                assert_eq!(from.step(next).is_ok(), expected);
            }
        }
    }

    #[test]
    fn ended_threads_can_be_resumed_and_running_and_created_ones_cannot() {
        for status in Status::ALL {
            let words = ["created", "running", "continued"];
            assert_eq!(status.is_resumable(), !words.contains(&status.as_str()));
        }
        assert!(Status::Continued.is_terminal());
        assert!(!Status::Suspended.is_terminal());
    }

    #[test]
    fn words_that_are_no_status_are_told_from_those_that_are() {
        assert_eq!(Status::parse("released"), None);
        assert_eq!(Status::parse("Completed"), None);
        assert!("".parse::<Status>().is_err());
    }
}
