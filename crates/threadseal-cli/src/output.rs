//! Standard output: data, and only data.
//!
//! The first failed write is remembered and all later output is dropped; [`Out::finish`] turns it
//! into an exit code that is never 0. So no command needs its own handling of a broken pipe or a
//! full disk, and none can forget it.
//!
//! Each object for programs names its schema, which is a file of `spec/schemas/README.md`. The object of a command is
//! closed when the process ends, so that its `exit` is the exit code of the process:
//!
//! ```text
//! {"schema":"threadseal.NAME/1",…,"exit":N,"code":CODE|null}
//! ```

use crate::exit::{Exit, Failure, complain, io_reason};
use crate::redact_secrets;
use crate::render::json;
use serde::Serialize;
use std::fmt;
use std::io::{self, BufWriter, Write};
use threadseal_core::report::{FindingCode, NotVerified, Report};

/// A command that failed, for a reader that expects JSON:
/// `{"schema":"threadseal.error/1","success":false,"message":"…","exit":2}`
///
/// Where a record was refused for its verdict, its finding's code and the report are in it.
#[derive(Debug, Serialize)]
struct FailureOutput<'f> {
    schema: &'static str,
    success: bool,
    message: String,
    code: Option<FindingCode>,
    report: Option<&'f Report>,
    exit: u8,
}

impl<'f> FailureOutput<'f> {
    fn new(failure: &'f Failure) -> Self {
        let refused = failure.not_verified();
        Self {
            schema: "threadseal.error/1",
            success: false,
            message: failure.to_string(),
            code: refused.and_then(|refused| Some(refused.finding()?.code)),
            report: refused.map(NotVerified::report),
            exit: failure.exit().code(),
        }
    }
}

/// Where a command writes its data.
pub(crate) struct Out {
    sink: BufWriter<Box<dyn Write>>,
    failure: Option<io::Error>,
    /// Is an object written that still lacks its last members?
    is_open: bool,
    /// The code of the finding that decides the exit code.
    code: Option<FindingCode>,
}

impl Out {
    /// The process's standard output.
    pub(crate) fn stdout() -> Self {
        Self::to(Box::new(io::stdout()))
    }

    /// Any writer.
    pub(crate) fn to(sink: Box<dyn Write>) -> Self {
        Self {
            sink: BufWriter::with_capacity(64 << 10, sink),
            failure: None,
            is_open: false,
            code: None,
        }
    }

    /// One line; the caller has cleaned each part that comes from a record or a file name.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        self.attempt(|sink| match redact_secrets::is_anything() {
            false => writeln!(sink, "{line}"),
            true => writeln!(sink, "{}", redact_secrets::without(&line.to_string())),
        });
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.attempt(|sink| sink.write_all(bytes));
    }

    /// The result of the command, as one object. [`Out::finish`] adds `exit` and `code`.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        self.close(Exit::NoVerdict);
        self.attempt(|sink| {
            let bytes = encoded(value);
            sink.write_all(bytes.strip_suffix(b"}").unwrap_or(&bytes))
        });
        self.is_open = true;
    }

    /// The result of the command, as one object whose members [`Out::bytes`] wrote, up to the brace that closes it.
    pub(crate) fn json_members(&mut self) {
        self.is_open = true;
    }

    /// The report whose verdict decides the exit code.
    pub(crate) fn because(&mut self, report: &Report) {
        self.code = report.code();
    }

    /// One object of several, or one that has its own `exit` and `code`.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) {
        self.close(Exit::NoVerdict);
        self.attempt(|sink| {
            sink.write_all(&encoded(value))?;
            sink.write_all(b"\n")
        });
    }

    /// One object of several, each with the exit code of its own round.
    pub(crate) fn json_round(&mut self, value: &impl Serialize, exit: Exit) {
        self.json(value);
        self.close(exit);
    }

    /// The object of a command that failed, after what it wrote before.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        self.close(failure.exit());
        self.json_line(&FailureOutput::new(failure));
    }

    fn close(&mut self, exit: Exit) {
        if std::mem::take(&mut self.is_open) {
            let (exit, code) = (exit.code(), self.code);
            let code = code.map_or_else(|| "null".to_owned(), |code| format!("\"{code}\""));
            self.attempt(|sink| writeln!(sink, ",\"exit\":{exit},\"code\":{code}}}"));
        }
    }

    /// Flushes the output; false after standard output was closed.
    pub(crate) fn flush(&mut self) -> bool {
        self.attempt(Write::flush);
        self.failure.is_none()
    }

    /// Flushes. If any write failed, reports it and replaces an `exit` of 0.
    pub(crate) fn finish(mut self, exit: Exit) -> Exit {
        self.close(exit);
        self.attempt(Write::flush);
        match self.failure {
            None => exit,
            // The reader has gone, and knows that it did not read all.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => exit.without_output(),
            Some(error) => {
                complain(&format!("cannot write the output: {}", io_reason(&error)));
                exit.without_output()
            }
        }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut BufWriter<Box<dyn Write>>) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = write(&mut self.sink).err();
        }
    }
}

/// One JSON value without a line end, and without secrets of the command line.
fn encoded(value: &impl Serialize) -> Vec<u8> {
    let bytes = json::to_vec(value);
    match redact_secrets::is_anything() {
        false => bytes,
        true => redact_secrets::without_in_json(&String::from_utf8_lossy(&bytes))
            .into_owned()
            .into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_never_success() {
        let mut out = Out::to(Box::new(Broken));
        out.line("verified");
        assert!(!out.flush());
        assert_eq!(out.finish(Exit::Done), Exit::NoVerdict);
    }

    #[test]
    fn whole_output_keeps_the_exit() {
        let mut out = Out::to(Box::new(io::sink()));
        out.json(&"x");
        out.bytes(b"y");
        assert_eq!(out.finish(Exit::Unconfirmed), Exit::Unconfirmed);
    }
}
