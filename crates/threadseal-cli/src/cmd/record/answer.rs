//! Answers to the sender, and the thread that writes them (`spec/record-protocol.md` §3).
//!
//! ```text
//! session ─ put ─► waiting, at most MAX_WAITING_ANSWER_BYTES ─► thread ─► standard output
//!             └ full: waits while bytes are read; none for `stall` ─► Trouble::Stalled
//! ```
//! A reader that is slow, or gone, never blocks the recorder for ever: it learns of the trouble and
//! ends the record. The thread may remain in a write that no one reads; it ends with the process.

use super::request::Code;
use crate::redact_secrets;
use crate::render::json;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Most bytes of answers that wait for their reader.
pub(super) const MAX_WAITING_ANSWER_BYTES: usize = 4 << 20;
/// Most bytes that are written at once: each write that returns is progress of the reader.
const MAX_WRITE_BYTES: usize = 64 << 10;
/// How often a wait looks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait for a reader after a request to stop.
const STALL_AFTER_STOP: Duration = Duration::from_secs(1);

/// An answer: one JSON object with its kind as the only member.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<'a> {
    Recording(Recording<'a>),
    Written {
        #[serde(flatten)]
        to: To,
        line: u64,
    },
    Durable {
        #[serde(flatten)]
        to: To,
    },
    Sealed {
        #[serde(flatten)]
        to: Option<To>,
        cause: SealCause,
        #[serde(flatten)]
        at: SealedAt,
    },
    Refused {
        #[serde(flatten)]
        to: To,
        code: Code,
        why: &'a str,
        hint: Option<&'a str>,
    },
    Ended(Ended<'a>),
}

impl Answer<'_> {
    /// Is it sent with `--quiet`, too?
    fn is_essential(&self) -> bool {
        !matches!(
            self,
            Self::Written { .. } | Self::Durable { .. } | Self::Sealed { .. }
        )
    }
}

/// The line that an answer is about.
#[derive(Debug, Clone, Serialize)]
pub(super) struct To {
    pub(super) input: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<serde_json::Value>,
}

/// The last seal of a record.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct SealedAt {
    pub(super) seq: Option<u64>,
    pub(super) lines: Option<u64>,
    pub(super) turn: Option<u64>,
    pub(super) head: Option<String>,
}

/// The first answer.
#[derive(Debug, Serialize)]
pub(super) struct Recording<'a> {
    #[serde(flatten)]
    pub(super) to: Option<To>,
    pub(super) protocol: &'static str,
    pub(super) thread: &'a str,
    pub(super) path: String,
    pub(super) record: String,
    pub(super) resumed: bool,
    pub(super) continues: Option<String>,
    pub(super) lines: u64,
    pub(super) turn: u64,
    pub(super) head: Option<String>,
    pub(super) set_aside: Option<&'a SetAside>,
    pub(super) adopted: Option<[u64; 2]>,
}

/// The place of a tail that was moved out of the record.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SetAside {
    pub(super) bytes: [u64; 2],
    pub(super) path: String,
}

/// The last answer.
#[derive(Debug, Serialize)]
pub(super) struct Ended<'a> {
    #[serde(flatten)]
    pub(super) to: Option<To>,
    pub(super) status: Option<&'static str>,
    pub(super) cause: EndCause,
    pub(super) refused: u64,
    #[serde(flatten)]
    pub(super) at: SealedAt,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    pub(super) exit: u8,
}

/// Why a seal was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SealCause {
    Asked,
    Turn,
    Count,
    Size,
    Time,
    Opened,
}

/// Why a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EndCause {
    Asked,
    InputEnded,
    Interrupted,
    AnswersClosed,
    AnswersStalled,
    LineRefused,
    InputFailed,
    NotRecorded,
    NotBegun,
}

/// Why answers do not reach their reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The output is closed, or cannot be written.
    Closed,
    /// Nothing is read.
    Stalled,
}

/// Answers on their way to the sender.
#[derive(Debug)]
pub(super) struct Answers {
    shared: Arc<Shared>,
    quiet: bool,
    stall: Duration,
    stop: Arc<AtomicBool>,
    /// Those that are not handed over yet.
    batch: Vec<u8>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Bytes that were taken from `waiting` and not written yet.
    in_hand: usize,
    written: u64,
    trouble: Option<Trouble>,
    is_over: bool,
}

impl Answers {
    /// Writes answers to `sink`. `stall` is the longest wait for a reader that takes no byte.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub(super) fn to(
        sink: impl Write + Send + 'static,
        quiet: bool,
        stall: Duration,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || of_thread.write_all(sink))?;
        Ok(Self {
            shared,
            quiet,
            stall,
            stop,
            batch: Vec::new(),
        })
    }

    /// Adds an answer to the batch.
    pub(super) fn put(&mut self, answer: &Answer<'_>) {
        if self.quiet && !answer.is_essential() {
            return;
        }
        let line = json::to_vec(answer);
        match redact_secrets::is_anything() {
            false => self.batch.extend_from_slice(&line),
            true => {
                let text = String::from_utf8_lossy(&line);
                let text = redact_secrets::without(&text);
                self.batch.extend_from_slice(text.as_bytes());
            }
        }
        self.batch.push(b'\n');
    }

    /// Hands the batch over to the thread, once there is room for it.
    pub(super) fn send(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return;
        }
        let is_full = |state: &State| state.waiting.len() >= MAX_WAITING_ANSWER_BYTES;
        let mut state = self.wait_while(is_full);
        if state.trouble.is_none() {
            state.waiting.append(&mut batch);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Why answers do not reach their reader, if they do not.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.shared.lock().trouble
    }

    /// Sends what is left and waits until it is written; false if it was not.
    pub(super) fn finish(mut self) -> bool {
        self.send();
        let is_left = |state: &State| state.in_hand + state.waiting.len() > 0;
        let mut state = self.wait_while(is_left);
        state.is_over = true;
        let is_good = state.trouble.is_none();
        drop(state);
        self.shared.changed.notify_all();
        is_good
    }

    /// Waits while `is_so`, until there is trouble. A reader that takes no byte for long is trouble.
    fn wait_while(&self, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.shared.lock();
        let (mut written, mut since) = (state.written, SystemClock.elapsed());
        while state.trouble.is_none() && is_so(&state) {
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let now = SystemClock.elapsed();
            if state.written != written {
                (written, since) = (state.written, now);
            }
            let limit = match self.stop.load(Ordering::Relaxed) {
                true => self.stall.min(STALL_AFTER_STOP),
                false => self.stall,
            };
            if now.saturating_sub(since) >= limit && is_so(&state) {
                state.trouble = Some(Trouble::Stalled);
            }
        }
        state
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut sink: impl Write) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && !state.is_over {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if state.waiting.is_empty() {
                return;
            }
            let bytes = std::mem::take(&mut state.waiting);
            state.in_hand = bytes.len();
            drop(state);
            for piece in bytes.chunks(MAX_WRITE_BYTES) {
                let done = sink.write_all(piece).and_then(|()| sink.flush());
                let mut state = self.lock();
                state.in_hand -= piece.len();
                state.written += piece.len() as u64;
                if done.is_err() {
                    state.trouble = Some(Trouble::Closed);
                    state.in_hand = 0;
                }
                drop(state);
                self.changed.notify_all();
                if done.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    /// Takes bytes while it gets leave to.
    struct Gate(Receiver<()>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.recv() {
                Ok(()) => Ok(bytes.len()),
                Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn flush_of(input: u64) -> Answer<'static> {
        let to = To { input, id: None };
        Answer::Durable { to }
    }

    fn answers(sink: impl Write + Send + 'static, stall: Duration) -> Answers {
        Answers::to(sink, false, stall, Arc::default()).unwrap()
    }

    // T-REC-58
    #[test]
    fn a_reader_that_takes_nothing_is_trouble_after_a_limit_and_memory_has_a_bound() {
        let (_leave, gate) = channel();
        let mut answers = answers(Gate(gate), Duration::from_millis(100));
        let mut sent = 0;
        while answers.trouble().is_none() {
            for _ in 0..10_000 {
                answers.put(&flush_of(u64::MAX));
            }
            answers.send();
            sent += 1;
            assert!(sent < 100, "memory has no bound");
        }
        assert_eq!(answers.trouble(), Some(Trouble::Stalled));
        assert!(!answers.finish());
    }

    #[test]
    fn a_reader_that_is_slow_is_no_trouble() {
        let (leave, gate) = channel();
        let mut answers = answers(Gate(gate), Duration::from_secs(60));
        for _ in 0..200_000 {
            answers.put(&flush_of(u64::MAX));
        }
        answers.send();
        let reader = thread::spawn(move || while leave.send(()).is_ok() {});
        answers.put(&flush_of(1));
        assert!(answers.finish());
        reader.join().unwrap();
    }

    #[test]
    fn a_reader_that_is_gone_is_trouble() {
        let (leave, gate) = channel();
        drop(leave);
        let mut answers = answers(Gate(gate), Duration::from_secs(60));
        answers.put(&flush_of(1));
        assert!(!answers.finish());
    }

    #[test]
    fn answers_have_their_kind_as_their_only_member() {
        let to = To {
            input: 7,
            id: Some("a".into()),
        };
        let refused = Answer::Refused {
            to: to.clone(),
            code: Code::TypeReserved,
            why: "w",
            hint: None,
        };
        let sealed = Answer::Sealed {
            to: None,
            cause: SealCause::Time,
            at: SealedAt {
                seq: Some(1),
                lines: Some(4),
                turn: Some(0),
                head: Some("h".to_owned()),
            },
        };
        for (answer, expected) in [
            (
                Answer::Written { to, line: 3 },
                r#"{"written":{"input":7,"id":"a","line":3}}"#,
            ),
            (
                refused,
                r#"{"refused":{"input":7,"id":"a","code":"type_reserved","why":"w","hint":null}}"#,
            ),
            (
                sealed,
                r#"{"sealed":{"cause":"time","seq":1,"lines":4,"turn":0,"head":"h"}}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(json::to_vec(&answer)).unwrap(), expected);
        }
    }
}
