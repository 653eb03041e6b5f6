//! Exit codes, defined once.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | verified; for other commands: done |
//! | 1 | evidence against a record |
//! | 2 | no verdict: usage, unreadable file, unknown format, nothing to do, our own bug |
//! | 3 | no evidence against the record, but it is not confirmed |
//!
//! Two ends that programs often get wrong: a panic is 2 (Rust's own 101 would fit no row), and
//! output that could not be written is never 0.

use std::any::Any;
use std::fmt;
use std::io::{self, Write as _};
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use threadseal_core::error::{Error, Unbuilt};
use threadseal_core::report::{NotVerified, Report};
use threadseal_store::sys;
use threadseal_verify::VerifyError;
use threadseal_verify::output::PathError;

pub(crate) use threadseal_store::sys::reason as io_reason;

use crate::redact_secrets;
use crate::render::clean::Clean;

/// The table as `--help` prints it.
pub(crate) const HELP: &str = "\
Exit codes:
  0  verified (other commands: done)
  1  evidence against a record: forged, tampered, forked, rolled_back, truncated, foreign,
     missing, malformed
  2  no verdict: wrong usage, unreadable file, unknown format, nothing to verify, internal error
  3  not confirmed: unknown_signer, unsigned, partial, consistent, unsigned_tail, open
Over several records: 1 if any is 1, else 2, else 3, else 0.";

/// The end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0
    Done,
    /// 1
    Evidence,
    /// 2
    NoVerdict,
    /// 3
    Unconfirmed,
}

impl Exit {
    /// The exit of a code of [`threadseal_core::report::combined_exit_code`].
    pub(crate) fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Done,
            1 => Self::Evidence,
            3 => Self::Unconfirmed,
            _ => Self::NoVerdict,
        }
    }

    /// The number that the process returns.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Evidence => 1,
            Self::NoVerdict => 2,
            Self::Unconfirmed => 3,
        }
    }

    /// The exit after incomplete output: evidence stays evidence, any other code becomes no
    /// verdict.
    pub(crate) fn without_output(self) -> Self {
        match self {
            Self::Evidence => Self::Evidence,
            _ => Self::NoVerdict,
        }
    }
}

/// Why a command did not do what was asked: one sentence, lower-case, with the cause to repair.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    message: String,
    /// The record whose verdict forbids it.
    refused: Option<NotVerified>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            refused: None,
        }
    }

    /// `subject` is not verified: the report is in the output, and evidence decides the exit.
    pub(crate) fn refused(subject: impl fmt::Display, report: &Report, hint: &str) -> Self {
        NotVerified::of(report).error(subject, hint).into()
    }

    /// The same, and the record whose verdict forbids what was asked: it comes before the hint.
    #[must_use]
    pub(crate) fn because(self, refused: NotVerified) -> Self {
        let (what, hint) = match self.message.split_once("; hint: ") {
            Some((what, hint)) => (what, format!("; hint: {hint}")),
            None => (self.message.as_str(), String::new()),
        };
        Self {
            message: format!("{what}; it is {refused}{hint}"),
            refused: Some(refused),
        }
    }

    /// The record whose verdict forbids what was asked.
    pub(crate) fn not_verified(&self) -> Option<&NotVerified> {
        self.refused.as_ref()
    }

    /// Evidence where a record is refused for evidence, else no verdict.
    pub(crate) fn exit(&self) -> Exit {
        let report = self.refused.as_ref().map(NotVerified::report);
        match report.is_some_and(|report| report.verdict.is_evidence()) {
            true => Exit::Evidence,
            false => Exit::NoVerdict,
        }
    }

    /// `cannot <action> <path>: <reason>`
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!(
            "cannot {action} {}: {}",
            path.display(),
            io_reason(error)
        ))
    }

    /// Puts the name of the file before the message.
    #[must_use]
    pub(crate) fn about(self, path: &Path) -> Self {
        Self {
            message: format!("{}: {}", path.display(), self.message),
            ..self
        }
    }

    /// Prints it on standard error, as one line.
    pub(crate) fn print(&self) {
        complain(&self.message);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        Self {
            message: with_hint(error.to_string(), Unbuilt::cause_of(&error)),
            refused: NotVerified::cause_of(&error),
        }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::new(with_hint(error.message, error.unbuilt))
    }
}

impl From<Failure> for VerifyError {
    fn from(failure: Failure) -> Self {
        let refused = Self::refused(failure.message);
        match failure.refused {
            Some(report) => refused.with_source(report),
            None => refused,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            message: with_hint(sys::message(&error), Unbuilt::cause_of(&error)),
            refused: NotVerified::cause_of(&error),
        }
    }
}

/// The command that installs these features.
pub(crate) fn hint(features: &str) -> String {
    format!("hint: cargo install threadseal-cli --features {features}")
}

/// The message of an error, with a hint if it is about a part that this build lacks.
pub(crate) fn with_hint(message: String, part: Option<Unbuilt>) -> String {
    match part {
        None => message,
        Some(Unbuilt::Sqlite) => format!("{message}; {}", hint("sqlite")),
        Some(Unbuilt::ThreadDatabases) => format!("{message}; {}", hint("agent,cloud")),
        Some(_) => format!("{message}; {}", hint("cloud")),
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<Exit, Failure>;

/// One line on standard error, named and safe to print.
pub(crate) fn complain(message: &str) {
    // If standard error is closed, the exit code still reports the failure.
    let message = Clean(message).to_string();
    let _ = writeln!(
        io::stderr(),
        "threadseal: {}",
        redact_secrets::without(&message)
    );
}

/// Reports an error in the command line, over several lines.
pub(crate) fn usage(error: &clap::Error) {
    // As in `complain`, the exit code still reports the error.
    let _ = match redact_secrets::is_anything() {
        false => error.print(),
        true => {
            let text = error.render().to_string();
            io::stderr().write_all(redact_secrets::without(&text).as_bytes())
        }
    };
}

/// Runs `command`; a panic becomes one line and exit 2.
pub(crate) fn guarded(command: impl FnOnce() -> Exit + panic::UnwindSafe) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map(|at| format!(" at {}:{}", at.file(), at.line()));
        complain(&format!(
            "internal error{}: {} (this is a bug in threadseal; no verdict)",
            place.unwrap_or_default(),
            panic_message(info.payload())
        ));
    }));
    let exit = panic::catch_unwind(command).unwrap_or(Exit::NoVerdict);
    ExitCode::from(exit.code())
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::report::{Verdict, combined_exit_code};

    #[test]
    fn codes_survive_the_round_trip_and_unknown_codes_are_no_verdict() {
        for code in 0..=3 {
            assert_eq!(Exit::from_code(code).code(), code);
        }
        assert_eq!(Exit::from_code(7), Exit::NoVerdict);
        assert_eq!(
            Exit::from_code(combined_exit_code(&[Verdict::Tampered], 3)),
            Exit::Evidence
        );
    }

    #[test]
    fn lost_output_is_never_success() {
        assert_eq!(Exit::Done.without_output(), Exit::NoVerdict);
        assert_eq!(Exit::Unconfirmed.without_output(), Exit::NoVerdict);
        assert_eq!(Exit::Evidence.without_output(), Exit::Evidence);
    }

    // T-CMD-02
    #[test]
    fn a_panic_exits_2_in_this_thread_and_in_worker_threads() {
        let quiet = |f: fn() -> Exit| guarded(f);
        let expected = format!("{:?}", ExitCode::from(2));
        assert_eq!(format!("{:?}", quiet(|| panic!("boom"))), expected);
        let in_worker = || {
            rayon::join(|| panic!("boom"), || ());
            Exit::Done
        };
        assert_eq!(format!("{:?}", quiet(in_worker)), expected);
    }

    #[test]
    fn reasons_of_io_errors_carry_no_numbers() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(io_reason(&error), "No such file or directory");
    }
}
