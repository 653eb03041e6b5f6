//! Writes a transcript as Rye writes it: `json.dumps(entry) + "\n"`, members in Rye's order.
//!
//! ```text
//! event(…) ─► line ─┐
//! push(bytes) ──────┴─► running SHA-256 ─► checkpoint(…) ─► line
//! ```
//! Rye hashes the whole file anew for each checkpoint (`transcript_signer.py`, `checkpoint`). With
//! the running digest, a checkpoint costs only the bytes since the last one.

use threadseal_core::canon::json::{Number, Value};
use threadseal_core::canon::python::{repr_float, rye_line};
use threadseal_core::digest::Hasher;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{Message, Signer};
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// The running state of one transcript: everything written so far, in one digest.
pub struct RyeSealer {
    thread: ThreadId,
    prefix: Hasher,
    size: u64,
    /// The last byte was LF, or there is none.
    at_line_start: bool,
}

impl RyeSealer {
    /// A sealer for a new transcript of `thread`. To continue a file, [`RyeSealer::push`] all of
    /// it, after it was verified.
    pub fn new(thread: ThreadId) -> Self {
        Self {
            thread,
            prefix: Hasher::new(),
            size: 0,
            at_line_start: true,
        }
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Takes bytes that the transcript already has, or that other writers append.
    pub fn push(&mut self, bytes: &[u8]) {
        self.prefix.update(bytes);
        self.size += bytes.len() as u64;
        if let Some(last) = bytes.last() {
            self.at_line_start = *last == b'\n';
        }
    }

    /// The next event line, with its LF, to be appended. `payload` must be an object.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] for the type `checkpoint` and after a torn
    /// line, [`threadseal_core::error::ErrorKind::InvalidInput`] when `payload` is no object.
    pub fn event(
        &mut self,
        timestamp: Timestamp,
        event_type: &str,
        payload: Value,
    ) -> Result<Vec<u8>, Error> {
        if event_type == "checkpoint" {
            return Err(Error::refused(
                "checkpoint events are written by `checkpoint` only",
            ));
        }
        if payload.as_object().is_none() {
            return Err(Error::invalid("the payload of an event is a JSON object"));
        }
        self.line(timestamp, event_type, payload)
    }

    /// The next checkpoint line, with its LF, to be appended: it seals everything before it. `turn`
    /// counts the turns in the lines so far; Rye's timestamps are doubles.
    ///
    /// # Errors
    /// Errors of `signer`; a signer without the usage `rye` refuses. As [`RyeSealer::event`] after
    /// a torn line. Nothing changes then.
    pub fn checkpoint(
        &mut self,
        signer: &dyn Signer,
        timestamp: Timestamp,
        turn: u64,
    ) -> Result<Vec<u8>, Error> {
        let hash = self.prefix.digest_so_far();
        let signature = signer.sign(&Message::rye_hash(&hash))?;
        let payload = object([
            ("turn", turn.into()),
            ("byte_offset", self.size.into()),
            ("hash", hash.to_hex().into()),
            ("sig", encoding::base64url(signature.as_bytes()).into()),
            ("fp", signer.public_key().rye_fingerprint().to_hex().into()),
            ("ts", timestamp.to_iso_seconds().into()),
        ]);
        self.line(timestamp, "checkpoint", payload)
    }

    fn line(
        &mut self,
        timestamp: Timestamp,
        event_type: &str,
        payload: Value,
    ) -> Result<Vec<u8>, Error> {
        if !self.at_line_start {
            return Err(Error::refused(
                "the transcript ends in a torn line; hint: verify it and move the tail aside first",
            ));
        }
        let mut line = rye_line(&object([
            ("timestamp", python_time(timestamp)?),
            ("thread_id", self.thread.as_str().into()),
            ("event_type", event_type.into()),
            ("payload", payload),
        ]));
        line.push(b'\n');
        self.push(&line);
        Ok(line)
    }
}

/// The output of `json.dumps(time.time())` for a moment of whole microseconds.
fn python_time(timestamp: Timestamp) -> Result<Value, Error> {
    let seconds: f64 = timestamp.to_epoch_text().parse().unwrap_or_default();
    Number::parse(&repr_float(seconds))
        .map(Value::Number)
        .ok_or_else(|| Error::invalid("the time cannot be written as a double"))
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(name, value)| (name.into(), value)).into())
}
