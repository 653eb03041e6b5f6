//! Standard output: data, and only data.
//!
//! The first failed write is remembered and everything after it is dropped; [`Out::finish`] turns
//! it into an exit code that is never 0. So no command handles a broken pipe or a full disk by
//! itself, and none can forget to.

use crate::exit::{Exit, complain, io_reason};
use crate::render::json;
use crate::unsaid;
use serde::Serialize;
use std::fmt;
use std::io::{self, BufWriter, Write};

/// An object, and how the process ends.
#[derive(Serialize)]
struct Object<'v, T> {
    #[serde(flatten)]
    value: &'v T,
    exit: u8,
}

/// Where a command writes its data.
pub(crate) struct Out {
    sink: BufWriter<Box<dyn Write>>,
    failure: Option<io::Error>,
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
        }
    }

    /// One line; the caller has cleaned whatever came from a record or a file name.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        self.attempt(|sink| match unsaid::is_anything() {
            false => writeln!(sink, "{line}"),
            true => writeln!(sink, "{}", unsaid::without(&line.to_string())),
        });
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.attempt(|sink| sink.write_all(bytes));
    }

    /// One JSON value on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        self.attempt(|sink| {
            if unsaid::is_anything() {
                let bytes = json::to_vec(value);
                let text = String::from_utf8_lossy(&bytes);
                sink.write_all(unsaid::without(&text).as_bytes())?;
            } else {
                json::write(&mut *sink, value)?;
            }
            sink.write_all(b"\n")
        });
    }

    /// One JSON object on one line, with the exit code as its last member.
    pub(crate) fn object(&mut self, value: &impl Serialize, exit: Exit) {
        self.json(&Object {
            value,
            exit: exit.code(),
        });
    }

    /// Brings everything so far to the reader; false once nobody reads any more.
    pub(crate) fn flush(&mut self) -> bool {
        self.attempt(Write::flush);
        self.failure.is_none()
    }

    /// Flushes; when any write failed, says so and takes success away from `exit`.
    pub(crate) fn finish(mut self, exit: Exit) -> Exit {
        self.attempt(Write::flush);
        match self.failure {
            None => exit,
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
