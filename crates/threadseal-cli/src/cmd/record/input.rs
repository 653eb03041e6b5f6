//! Standard input as lines: a thread reads chunks, and the recorder cuts them at LF.
//!
//! ```text
//! standard input ─► thread: chunks of READ_BYTES ─► at most MAX_WAITING_CHUNKS ─► Lines ─► one line
//! ```
//! The recorder never waits in a read: half a line may stall for ever, and a signal still ends the
//! record. Memory has a bound: a line beyond it is counted and dropped.

use super::request::MAX_INPUT_LINE_BYTES;
use memchr::memchr;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Most chunks that wait for the recorder.
pub(super) const MAX_WAITING_CHUNKS: usize = 16;

/// What the thread read. The end of the input closes the channel.
pub(super) type Chunk = io::Result<Vec<u8>>;

/// Reads `source` in a thread.
///
/// # Errors
/// When the system starts no thread.
pub(super) fn chunks_of(source: impl Read + Send + 'static) -> io::Result<Receiver<Chunk>> {
    let (to, chunks) = sync_channel(MAX_WAITING_CHUNKS);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || read_all(source, &to))?;
    Ok(chunks)
}

fn read_all(mut source: impl Read, to: &SyncSender<Chunk>) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let chunk = match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = chunk.is_err();
        if to.send(chunk).is_err() || is_last {
            return;
        }
    }
}

/// A line without its LF.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Its bytes.
    Line(Vec<u8>),
    /// It has more than [`MAX_INPUT_LINE_BYTES`].
    TooLong,
}

/// Cuts chunks into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The line that has begun; empty once it is too long.
    begun: Vec<u8>,
    is_too_long: bool,
    /// Bytes that are not looked at yet.
    rest: Vec<u8>,
    at: usize,
}

impl Lines {
    /// Adds bytes after those that are there.
    pub(super) fn push(&mut self, chunk: Vec<u8>) {
        if self.at == self.rest.len() {
            (self.rest, self.at) = (chunk, 0);
        } else {
            self.rest.drain(..self.at);
            self.at = 0;
            self.rest.extend_from_slice(&chunk);
        }
    }

    /// The next line that is whole.
    pub(super) fn next(&mut self) -> Option<Cut> {
        let rest = self.rest.get(self.at..).unwrap_or_default();
        let Some(length) = memchr(b'\n', rest) else {
            let rest = rest.to_vec();
            self.at = self.rest.len();
            self.keep(&rest);
            return None;
        };
        let end = rest[..length].to_vec();
        self.at += length + 1;
        self.keep(&end);
        self.cut()
    }

    /// The line that has begun and has no LF, if there is one.
    pub(super) fn last(&mut self) -> Option<Cut> {
        match self.begun.is_empty() && !self.is_too_long {
            true => None,
            false => self.cut(),
        }
    }

    fn cut(&mut self) -> Option<Cut> {
        let line = std::mem::take(&mut self.begun);
        Some(match std::mem::take(&mut self.is_too_long) {
            true => Cut::TooLong,
            false => Cut::Line(line),
        })
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.begun.len() + bytes.len() > MAX_INPUT_LINE_BYTES {
            self.begun = Vec::new();
            self.is_too_long = true;
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> (Vec<Cut>, Option<Cut>) {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk.to_vec());
            while let Some(line) = lines.next() {
                found.push(line);
            }
        }
        (found, lines.last())
    }

    #[test]
    fn lines_are_the_same_for_any_chunks() {
        let text = b"one\n\ntwo\nthree";
        let line = |text: &[u8]| Cut::Line(text.to_vec());
        for size in 1..=text.len() {
            let chunks: Vec<&[u8]> = text.chunks(size).collect();
            let (found, last) = cut(&chunks);
            assert_eq!(found, [line(b"one"), line(b""), line(b"two")], "{size}");
            assert_eq!(last, Some(line(b"three")));
        }
        // Chunks may also come before the lines of earlier ones are taken.
        let mut lines = Lines::default();
        for byte in text {
            lines.push(vec![*byte]);
        }
        assert_eq!(lines.next(), Some(line(b"one")));
        lines.push(b"!\n".to_vec());
        assert_eq!(lines.next(), Some(line(b"")));
        assert_eq!(lines.next(), Some(line(b"two")));
        assert_eq!(lines.next(), Some(line(b"three!")));
        assert_eq!((lines.next(), lines.last()), (None, None));
    }

    // T-REC-52
    #[test]
    fn a_line_beyond_the_bound_is_dropped_and_the_next_one_is_read() {
        let long = vec![b'a'; MAX_INPUT_LINE_BYTES];
        let (found, last) = cut(&[&long, b"\n", &long, b"a", b"\nb\n", &long, b"aa"]);
        assert_eq!(found.len(), 3);
        assert!(matches!(&found[0], Cut::Line(line) if line.len() == MAX_INPUT_LINE_BYTES));
        assert_eq!(found[1], Cut::TooLong);
        assert_eq!(found[2], Cut::Line(b"b".to_vec()));
        assert_eq!(last, Some(Cut::TooLong));
    }

    #[test]
    fn an_input_that_fails_is_no_end() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
        let chunks = chunks_of(Broken).unwrap();
        assert!(chunks.recv().unwrap().is_err());
        assert!(chunks.recv().is_err());
        let chunks = chunks_of(&b"a\n"[..]).unwrap();
        assert_eq!(chunks.recv().unwrap().unwrap(), b"a\n");
        assert!(chunks.recv().is_err());
    }
}
