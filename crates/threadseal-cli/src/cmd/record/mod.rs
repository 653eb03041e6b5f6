//! `record [FILE]`: takes events on standard input, one JSON object a line, and writes them into a
//! native record while they come (`spec/record-protocol.md`).
//!
//! ```text
//! standard input ─► input (thread) ─► request ─► session ─► Recorder ─► the file, its head
//!                                                   └─► answer (thread) ─► standard output
//! ```

mod answer;
mod input;
mod request;
mod session;
mod start;

use crate::context::Context;
use crate::exit::{Failure, Outcome, complain, io_reason};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use answer::{Answers, EndCause};
use clap::{Args, ValueEnum};
use input::{Chunk, Lines, MAX_WAITING_CHUNKS};
use request::Begin;
use session::{Policy, Session, Stop};
use start::Start;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::manifest::Bodies;

/// The most that `--seal-every` takes.
const MAX_SEAL_EVERY: u64 = 1 << 20;
/// The most that `--seal-after` takes: a day.
const MAX_SEAL_AFTER_SECONDS: u64 = 86_400;
/// The most that `--stall-after` takes: a day.
const MAX_STALL_SECONDS: u64 = 86_400;
/// How often a signal and the answers are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What `record` takes.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// New file of the record, or STORE#NAME [default: the thread id with .jsonl, each / replaced
    /// by -]
    file: Option<PathBuf>,
    /// Id of the thread; without it the first line must be {"begin":{"thread":ID}}
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Directive that the thread follows, for line 1
    #[arg(long, value_name = "TEXT", requires = "thread")]
    directive: Option<String>,
    /// Model that the thread asks, for line 1
    #[arg(long, value_name = "TEXT", requires = "thread")]
    model: Option<String>,
    /// Capability of the thread, for line 1; may be repeated
    #[arg(long, value_name = "NAME", requires = "thread")]
    capability: Vec<String>,
    /// Limits of the thread, for line 1: a JSON object
    #[arg(long, value_name = "JSON", requires = "thread")]
    limits: Option<String>,
    /// Anything else for line 1: a JSON object
    #[arg(long, value_name = "JSON", requires = "thread")]
    meta: Option<String>,
    /// Commit of the workspace, for line 1
    #[arg(long, value_name = "COMMIT", requires = "thread")]
    workspace: Option<String>,
    /// Where long and sensitive texts are: in the record, or beside it, so that redact can drop them
    /// [default: inline]
    #[arg(long, value_enum, value_name = "WHERE", requires = "thread")]
    bodies: Option<BodiesArg>,
    /// Continue this record: a path, STORE#NAME, or the id of its thread. One that has ended is
    /// continued by a new record with its own --thread
    #[arg(long, value_name = "RECORD")]
    resume: Option<String>,
    /// Keep the lines after the last seal of the resumed record, marked as unverified for ever
    /// [default: move them into a file beside the record, which the record names]
    #[arg(long, requires = "resume")]
    adopt_tail: bool,
    /// Seal after this many lines without a seal
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MAX_SEAL_EVERY))]
    seal_every: u64,
    /// Seal when a line is without a seal for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=MAX_SEAL_AFTER_SECONDS))]
    seal_after: u64,
    /// How the thread ended if the input ends without an end line [default: error, with exit 2]
    #[arg(long, value_enum, value_name = "ENDING")]
    on_eof: Option<OnEofArg>,
    /// End the record at the first line that is refused
    #[arg(long)]
    strict: bool,
    /// End the record when no one reads the answers for so long, and 4 MiB of them wait
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=MAX_STALL_SECONDS))]
    stall_after: u64,
    /// Name of the signing key [default: self]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

impl RecordArgs {
    /// The passphrase; no one is asked, since the input has the events.
    fn passphrase(&self) -> PassphraseArgs {
        self.passphrase.without_prompt("threadseal record")
    }

    fn policy(&self) -> Policy {
        Policy {
            every: self.seal_every,
            after: Duration::from_secs(self.seal_after),
            strict: self.strict,
            on_eof: self.on_eof.map(Ending::from),
        }
    }
}

/// `--bodies`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BodiesArg {
    /// In the record
    Inline,
    /// In a file beside it; the record has salted commitments
    Detached,
}

impl From<BodiesArg> for Bodies {
    fn from(bodies: BodiesArg) -> Self {
        match bodies {
            BodiesArg::Inline => Self::Inline,
            BodiesArg::Detached => Self::Detached,
        }
    }
}

/// `--on-eof`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnEofArg {
    /// It completed its task
    Complete,
    /// It waits, and is continued later
    Suspend,
    /// A user or program stopped it
    Cancel,
    /// It failed
    Error,
}

impl From<OnEofArg> for Ending {
    fn from(ending: OnEofArg) -> Self {
        match ending {
            OnEofArg::Complete => Self::Completed,
            OnEofArg::Suspend => Self::Suspended,
            OnEofArg::Cancel => Self::Cancelled,
            OnEofArg::Error => Self::Error,
        }
    }
}

/// Records until the end of the record.
pub(crate) fn run(args: &RecordArgs, context: &Context, _: &mut Out) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let mut start = Start::of(args, context)?;
    let started = start.at_once()?;
    // Until here a signal ends the process: nothing was read.
    #[cfg(any(feature = "agent", feature = "capture", feature = "cloud"))]
    crate::context::cancel_on_interrupt(&stop)?;
    let failed =
        |error: io::Error| Failure::new(format!("cannot read and answer: {}", io_reason(&error)));
    let stall = Duration::from_secs(args.stall_after);
    let output = streams::output().map_err(failed)?;
    let answers = Answers::to(output, context.quiet, stall, Arc::clone(&stop)).map_err(failed)?;
    let chunks = input::chunks_of(streams::input().map_err(failed)?).map_err(failed)?;
    let mut starter = |begin: &Begin| start.begin(begin);
    let mut session = Session::new(args.policy(), answers, &mut starter);
    let begun = match started {
        Some(started) => session.start(None, started),
        None => Ok(()),
    };
    let mut lines = Lines::default();
    let why = match begun {
        Ok(()) => record(&mut session, &mut lines, &chunks, &stop),
        Err(why) => why,
    };
    let (exit, complaint) = session.end_after(why, &mut lines);
    if let Some(complaint) = complaint {
        complain(&complaint);
    }
    Ok(exit)
}

/// Takes lines until one of them, or something else, ends the record.
fn record(
    session: &mut Session<'_>,
    lines: &mut Lines,
    chunks: &Receiver<Chunk>,
    stop: &AtomicBool,
) -> Stop {
    loop {
        // Lines that were read before a signal are recorded; it is looked at first.
        let is_over = stop.load(Ordering::Relaxed);
        if let Err(stop) = step(session, lines, chunks, is_over) {
            return stop;
        }
    }
}

/// Takes the chunks that are there, commits their lines together, and seals if that is due.
fn step(
    session: &mut Session<'_>,
    lines: &mut Lines,
    chunks: &Receiver<Chunk>,
    is_over: bool,
) -> Result<(), Stop> {
    if let Some(trouble) = session.trouble() {
        return Err(trouble);
    }
    let wait = match is_over {
        true => Duration::ZERO,
        false => session.until_due().map_or(LOOK, |due| due.min(LOOK)),
    };
    for taken in 0..MAX_WAITING_CHUNKS {
        let next = match taken {
            0 => chunks.recv_timeout(wait),
            _ => chunks.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        };
        match next {
            Ok(Ok(chunk)) => {
                lines.push(chunk);
                while let Some(line) = lines.next() {
                    session.take(line)?;
                }
            }
            Ok(Err(error)) => {
                let why = format!("the input cannot be read: {}", io_reason(&error));
                return Err(Stop::Cause(EndCause::InputFailed, why));
            }
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => {
                if let Some(line) = lines.last() {
                    session.take_last(line)?;
                }
                let why = "the input ended without an end line; hint: --on-eof complete";
                return Err(Stop::Cause(EndCause::InputEnded, why.to_owned()));
            }
        }
    }
    session.commit()?;
    if is_over {
        if let Some(line) = lines.last() {
            session.take_last(line)?;
        }
        let why = "a signal ended the record";
        return Err(Stop::Cause(EndCause::Interrupted, why.to_owned()));
    }
    session.seal_if_due()
}

/// Standard input and output without the locks of the library: a thread may stay in a read or a
/// write that never returns, while the process ends.
mod streams {
    use std::fs::File;
    use std::io;
    #[cfg(unix)]
    use std::os::fd::AsFd as Handle;
    #[cfg(windows)]
    use std::os::windows::io::AsHandle as Handle;

    #[cfg(unix)]
    fn file(stream: &impl Handle) -> io::Result<File> {
        Ok(File::from(stream.as_fd().try_clone_to_owned()?))
    }

    #[cfg(windows)]
    fn file(stream: &impl Handle) -> io::Result<File> {
        Ok(File::from(stream.as_handle().try_clone_to_owned()?))
    }

    pub(super) fn input() -> io::Result<File> {
        file(&io::stdin())
    }

    pub(super) fn output() -> io::Result<File> {
        file(&io::stdout())
    }
}
