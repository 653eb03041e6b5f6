//! The exact answer of Rye's own verifier, `TranscriptSigner.verify`, bugs included.
//!
//! ```text
//! {"valid": true, "checkpoints": N}                                    also with "unsigned": true
//! {"valid": false, "error": "…", "failed_at_turn": T, "byte_offset": O}
//! {"valid": false, "error": "…", "failed_at_turn": T}                  key, signature
//! {"valid": false, "error": "…", "failed_at_turn": T, "unsigned_bytes": N}
//! {"crash": "KeyError: 'hash'"}                                        where Rye raises
//! ```
//! A report shows it next to the verdict of [`super::rye`], for users of Rye. Nothing else may
//! depend on it: it accepts an empty file as valid, and smuggled content too.
//!
//! Rye holds the file in memory and hashes every prefix anew. [`Scanner`] reads the file once, in
//! bounded memory. Every genuine checkpoint claims the start of its own line, and is judged at once
//! with the current digest. Only if a checkpoint claims another place is a second pass over the
//! same bytes necessary ([`Pass::Again`]).
//!
//! Rye's order of work decides which of several faults is reported. First it decodes the whole
//! file, then it reads all lines, then it judges the checkpoints in order.
//!
//! Python's own behaviour (lines, slices, base64, `str()`) is in `python`.

mod judge;
pub(crate) mod python;
#[cfg(test)]
mod tests;

use crate::transcript::rye::lines::{LineSplitter, Part, Piece};
use judge::{Judged, Place, crash, judge, key_error, reports, unsigned};
use python::{decode_error, may_split, slice_bound, split_lines, strip, type_name};
use threadseal_core::canon::json::{self, JsonErrorKind, Value};
use threadseal_core::canon::python::rye_line;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::key::{PublicKey, RyeFingerprint};
use threadseal_core::limits::MAX_COMPAT_DEFERRED_BYTES;
use threadseal_core::report::Compat;
use threadseal_core::trust::Trust;

/// Looks a fingerprint up among the keys that Rye would trust.
pub type Keys<'k> = dyn Fn(&str) -> Option<PublicKey> + 'k;

/// Rye's answer for a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer(Value);

impl Answer {
    /// The answer as a value; numbers keep the spelling that the transcript gave them.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The output of Python's `json.dumps` for it.
    pub fn to_json(&self) -> String {
        String::from_utf8_lossy(&rye_line(&self.0)).into_owned()
    }
}

/// Rye's two answers, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    /// `verify()` and `verify(allow_unsigned_trailing=True)`.
    Given {
        /// `allow_unsigned_trailing=False`
        strict: Answer,
        /// `allow_unsigned_trailing=True`
        lenient: Answer,
    },
    /// Rye's answer would depend on its surroundings (its stack, its file system), or is beyond a
    /// bound of this reader.
    Omitted(&'static str),
}

impl Answers {
    /// `{"strict": …, "lenient": …}`, or `{"omitted": "<why>"}`.
    pub fn to_compat(&self) -> Compat {
        Compat::from_json(match self {
            Self::Given { strict, lenient } => {
                let (strict, lenient) = (strict.to_json(), lenient.to_json());
                format!("{{\"strict\":{strict},\"lenient\":{lenient}}}")
            }
            Self::Omitted(why) => format!("{{\"omitted\":{why:?}}}"),
        })
    }
}

/// The keys that Rye would trust if `trust` were its folder: it knows no usage, scope or window.
pub fn keys_of(trust: &Trust) -> impl Fn(&str) -> Option<PublicKey> {
    |fingerprint| {
        let fingerprint = RyeFingerprint::parse_hex(fingerprint)?;
        trust.by_fingerprint(fingerprint).first().copied()
    }
}

/// Rye's answer when there is no file.
pub fn verify_missing() -> Answers {
    same(unsigned())
}

/// Both answers for a transcript in memory.
pub fn verify(bytes: &[u8], keys: &Keys<'_>) -> Answers {
    let mut scanner = Scanner::new(keys);
    scanner.push(bytes);
    match scanner.finish() {
        Pass::Done(answers) => answers,
        Pass::Again(mut second) => {
            second.push(bytes);
            second.finish()
        }
    }
}

/// The result of a first pass.
pub enum Pass<'k> {
    /// The answers.
    Done(Answers),
    /// The same bytes must be pushed once more.
    Again(Box<SecondPass<'k>>),
}

/// The first pass.
pub struct Scanner<'k> {
    keys: &'k Keys<'k>,
    lines: LineSplitter,
    state: State,
}

#[derive(Default)]
struct State {
    /// All bytes before the current line.
    prefix: Hasher,
    length: u64,
    /// Raised by `content.decode`, before anything else.
    undecodable: Option<Value>,
    /// Raised while lines are read, before any checkpoint is judged.
    unreadable: Option<Value>,
    omitted: Option<&'static str>,
    /// A line was not held, so whether the file decodes is not known.
    overlong: bool,
    checkpoints: u64,
    /// The last checkpoint's payload and the range of its line.
    last: Option<(Value, Place)>,
    /// The first checkpoint that does not hold among those judged at once, and Rye's answer for it,
    /// if known.
    failed: Option<(u64, Result<Value, &'static str>)>,
    /// Checkpoints before it that claim another place.
    deferred: Vec<(u64, Value)>,
    deferred_bytes: usize,
}

impl<'k> Scanner<'k> {
    /// A scanner at the start of a transcript.
    pub fn new(keys: &'k Keys<'k>) -> Self {
        Self {
            keys,
            lines: LineSplitter::default(),
            state: State::default(),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let (state, keys) = (&mut self.state, self.keys);
        self.lines.push(chunk, |piece| state.piece(&piece, keys));
    }

    /// Ends the transcript.
    pub fn finish(mut self) -> Pass<'k> {
        let (state, keys) = (&mut self.state, self.keys);
        self.lines.finish(|piece| state.piece(&piece, keys));
        self.state.conclude(keys)
    }
}

impl State {
    fn piece(&mut self, piece: &Piece<'_>, keys: &Keys<'_>) {
        if self.undecodable.is_none() && !self.overlong {
            match std::str::from_utf8(piece.bytes) {
                _ if piece.part != Part::Whole => {
                    self.omitted = Some("a line is too long for this reader");
                    self.overlong = true;
                }
                Ok(text) => self.text(text, piece, keys),
                Err(error) => {
                    let message = decode_error(error, piece.bytes, piece.start);
                    self.undecodable = Some(crash("UnicodeDecodeError", &message));
                }
            }
        }
        self.prefix.update(piece.bytes);
        self.length = piece.end();
    }

    fn text(&mut self, text: &str, piece: &Piece<'_>, keys: &Keys<'_>) {
        if may_split(piece.bytes) {
            for part in split_lines(text) {
                self.line(strip(part), piece, keys);
            }
        } else {
            self.line(strip(text), piece, keys);
        }
    }

    /// One line as Rye sees it.
    fn line(&mut self, line: &str, piece: &Piece<'_>, keys: &Keys<'_>) {
        let settled = self.unreadable.is_some() || self.omitted.is_some();
        if line.is_empty() || settled || is_plain_event(line) {
            return;
        }
        let event = match json::parse_python(line.as_bytes()) {
            Ok(document) => document.value,
            Err(error) if error.kind == JsonErrorKind::NumberTooLong => {
                self.unreadable = Some(judge::too_many_digits(line, error.offset));
                return;
            }
            Err(error) if error.kind.is_limit() => {
                self.omitted = Some("a line is nested too deep for this reader");
                return;
            }
            Err(_) => return,
        };
        let Value::Object(members) = event else {
            let message = format!("'{}' object has no attribute 'get'", type_name(&event));
            self.unreadable = Some(crash("AttributeError", &message));
            return;
        };
        let find = |name: &str| members.iter().position(|(key, _)| key == name);
        let is_checkpoint =
            find("event_type").is_some_and(|at| members[at].1.as_str() == Some("checkpoint"));
        if !is_checkpoint {
            return;
        }
        match find("payload") {
            None => self.unreadable = Some(key_error("payload")),
            Some(at) => {
                let payload = members
                    .into_iter()
                    .nth(at)
                    .map_or(Value::Null, |(_, value)| value);
                self.checkpoint(payload, line.len(), piece, keys);
            }
        }
    }

    fn checkpoint(&mut self, payload: Value, size: usize, piece: &Piece<'_>, keys: &Keys<'_>) {
        let number = self.checkpoints;
        self.checkpoints += 1;
        if self.failed.is_none() {
            // Where Rye would slice, if the claim is the offset at which the line starts.
            let claims = payload.get("byte_offset").and_then(slice_bound);
            let here = claims == Some(python::SliceBound::FromStart(piece.start));
            let digest = here.then(|| self.prefix.digest_so_far());
            match judge(&payload, digest, keys) {
                Judged::Holds => {}
                Judged::Fails(answer) => self.failed = Some((number, Ok(answer))),
                Judged::Omitted(why) => self.failed = Some((number, Err(why))),
                Judged::NeedsDigest => self.defer(number, &payload, size),
            }
        }
        let place = Place {
            start: piece.start,
            end: piece.end(),
            terminated: piece.is_terminated(),
        };
        self.last = Some((payload, place));
    }

    fn defer(&mut self, number: u64, payload: &Value, size: usize) {
        self.deferred_bytes += size;
        if self.deferred_bytes > MAX_COMPAT_DEFERRED_BYTES {
            let why = "too many checkpoints have a wrong byte_offset";
            self.failed = Some((number, Err(why)));
        } else {
            self.deferred.push((number, payload.clone()));
        }
    }

    fn conclude<'k>(mut self, keys: &'k Keys<'k>) -> Pass<'k> {
        if let Some(crash) = self.undecodable.take() {
            return Pass::Done(same(Answer(crash)));
        }
        if let Some(why) = self.omitted {
            return Pass::Done(Answers::Omitted(why));
        }
        if let Some(crash) = self.unreadable.take() {
            return Pass::Done(same(Answer(crash)));
        }
        if self.deferred.is_empty() {
            if let Some((_, failure)) = self.failed.take() {
                return Pass::Done(told(failure));
            }
            let Some((last, place)) = &self.last else {
                return Pass::Done(same(unsigned()));
            };
            if let Some(bound) = last.get("byte_offset").and_then(slice_bound)
                && bound == python::SliceBound::FromStart(place.start)
            {
                let line_end = place.terminated.then_some(place.end);
                return Pass::Done(reports(self.checkpoints, last, line_end, self.length));
            }
        }
        Pass::Again(Box::new(SecondPass::new(self, keys)))
    }
}

/// Whether `line` is, by stricter rules than Python's, an object that is no checkpoint.
fn is_plain_event(line: &str) -> bool {
    let mut plain = true;
    let scan = json::scan_object(line.as_bytes(), |key, value| {
        if key.is("event_type") {
            let spelled = &line.as_bytes()[value];
            plain = spelled != b"\"checkpoint\"" && !spelled.contains(&b'\\');
        }
    });
    scan.is_ok() && plain
}

/// The second pass: digests at the places that checkpoints claim.
pub struct SecondPass<'k> {
    keys: &'k Keys<'k>,
    state: State,
    hasher: Hasher,
    at: u64,
    /// Ends of claimed prefixes, ascending, and their digests once reached.
    claimed: Vec<(u64, Option<Digest>)>,
    /// The offset from which Rye searches for the last checkpoint's LF, and that LF once found.
    search_from: u64,
    line_end: Option<u64>,
}

impl<'k> SecondPass<'k> {
    fn new(mut state: State, keys: &'k Keys<'k>) -> Self {
        let length = state.length;
        let bound = |payload: &Value| payload.get("byte_offset").and_then(slice_bound);
        let mut claimed: Vec<_> = state
            .deferred
            .iter()
            .filter_map(|(_, payload)| bound(payload))
            .map(|bound| (bound.end(length), None))
            .collect();
        claimed.sort_unstable_by_key(|(end, _)| *end);
        claimed.dedup_by_key(|(end, _)| *end);
        let search_from = state
            .last
            .as_ref()
            .and_then(|(last, _)| bound(last))
            .map_or(0, |b| b.start(length));
        state.prefix = Hasher::new();
        Self {
            keys,
            state,
            hasher: Hasher::new(),
            at: 0,
            claimed,
            search_from,
            line_end: None,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let chunk_end = self.at + chunk.len() as u64;
        if self.line_end.is_none() && self.search_from < chunk_end {
            let skip =
                usize::try_from(self.search_from.saturating_sub(self.at)).unwrap_or(chunk.len());
            let found = chunk
                .get(skip..)
                .and_then(|rest| memchr::memchr(b'\n', rest));
            self.line_end = found.map(|lf| self.at + (skip + lf) as u64 + 1);
        }
        let mut rest = chunk;
        for (end, digest) in &mut self.claimed {
            if digest.is_none() && *end <= chunk_end {
                let take = usize::try_from(*end - self.at).unwrap_or(rest.len());
                let (before, after) = rest.split_at(take.min(rest.len()));
                self.hasher.update(before);
                self.at = *end;
                rest = after;
                *digest = Some(self.hasher.digest_so_far());
            }
        }
        self.hasher.update(rest);
        self.at = chunk_end;
    }

    /// Ends the transcript. Without the same length as in the first pass there is no answer.
    pub fn finish(mut self) -> Answers {
        self.push(&[]);
        if self.at != self.state.length {
            return Answers::Omitted("the file changed while it was read");
        }
        for (number, payload) in &self.state.deferred {
            if self
                .state
                .failed
                .as_ref()
                .is_some_and(|(failed, _)| failed < number)
            {
                break;
            }
            let end = payload
                .get("byte_offset")
                .and_then(slice_bound)
                .map(|b| b.end(self.at));
            let place = self
                .claimed
                .iter()
                .find(|(claimed, _)| Some(*claimed) == end);
            match judge(payload, place.and_then(|(_, digest)| *digest), self.keys) {
                Judged::Holds => {}
                Judged::Fails(answer) => return same(Answer(answer)),
                Judged::Omitted(why) => return Answers::Omitted(why),
                Judged::NeedsDigest => {
                    return Answers::Omitted("the file changed while it was read");
                }
            }
        }
        match (self.state.failed, self.state.last) {
            (Some((_, failure)), _) => told(failure),
            (None, Some((last, _))) => {
                reports(self.state.checkpoints, &last, self.line_end, self.at)
            }
            (None, None) => same(unsigned()),
        }
    }
}

fn told(failure: Result<Value, &'static str>) -> Answers {
    failure.map_or_else(Answers::Omitted, |answer| same(Answer(answer)))
}

fn same(answer: Answer) -> Answers {
    Answers::Given {
        strict: answer.clone(),
        lenient: answer,
    }
}
