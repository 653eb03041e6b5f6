//! The facts of one sealed turn alone, independent of the turns before and after it.
//!
//! ```text
//! bytes ─► canonical text ─► schema ─► covered bytes ─┬─ SHA-256 = hash?
//!                                │                    └─ Ed25519 under sig.pubkey?
//!                                └──► bodies ─ SHA-256 = args_hash, response_hash?
//! ```
//! Most of the work is here; joining the facts of many turns to a chain costs almost nothing. So
//! facts may be gathered in any order, on any core: [`read_turn`] is a function of its bytes.

use super::keys::Keys;
use super::quick;
use super::schema::{self, CALLS, Encoding, RESULTS, SchemaViolation, Shape, Tools, hash_of};
use super::signatures;
use super::split::trim_end;
use super::turn::{canonical, not_cbor, not_json};
use super::walk::{elements, members};
use threadseal_core::canon::cbor::{self, CborError, CborErrorKind};
use threadseal_core::canon::jcs;
use threadseal_core::canon::json::{self, JsonErrorKind, Value};
use threadseal_core::digest::Digest;
use threadseal_core::key::{PublicKey, Signature};
use threadseal_core::limits::{MAX_CBOR_VALUES, MAX_LENIENT_TURN_BYTES};

/// The form of a sealed turn in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// JSON text.
    Json,
    /// One deterministic CBOR map; then the turn's encoding is CBOR, too.
    Cbor,
}

/// The facts of one sealed turn alone; a [`super::Verifier`] takes them in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRead {
    pub(super) facts: Result<Facts, SchemaViolation>,
    /// The result of v0.1 for the turn.
    pub(super) as_v01: AsV01,
    /// Content of the bytes that the hash does not cover.
    pub(super) lost: jcs::LostDetails,
    /// The turn's timestamp, if its last digits are among that content.
    pub(super) rounded: Option<RoundedTimestamp>,
    /// Do the bytes look like the beginning of a turn?
    pub(super) cut_off: bool,
}

impl TurnRead {
    /// The turn's hash, if it is the hash of this turn.
    pub fn hash(&self) -> Option<Digest> {
        let facts = self.facts.as_ref().ok()?;
        facts.hash_holds.then_some(facts.hash)
    }
}

/// The result of v0.1 for a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AsV01 {
    /// The same result as here.
    Same,
    /// Something else.
    Facts(Box<Result<Facts, SchemaViolation>>),
    /// No result, and so none for the whole scroll; the reason.
    Nothing(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SigFacts {
    /// `sig.pubkey`; `None` when it is no key that verification accepts.
    pub(super) key: Option<PublicKey>,
    /// Does the signature verify under `sig.pubkey`?
    pub(super) holds: bool,
    /// Does it verify under a key that the caller pinned?
    pub(super) holds_for_pinned: bool,
    /// Whether `sig` has members that no hash covers.
    pub(super) extra: bool,
    /// Its key and signature, for [`super::Signatures`].
    pub(super) bytes: Vec<u8>,
}

/// One sealed turn that follows the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) turn: u64,
    pub(super) timestamp_ns: u64,
    pub(super) encoding: Encoding,
    pub(super) prev_hash: Option<Digest>,
    pub(super) hash: Digest,
    /// Is it the digest of the covered bytes?
    pub(super) hash_holds: bool,
    pub(super) sig: Option<SigFacts>,
    /// A body that does not match its hash.
    pub(super) body: Option<SchemaViolation>,
    /// Bytes that the hash covers.
    pub(super) covered: u64,
}

/// A `timestamp_ns` in digits, the last of which are below the resolution of a double. The hash
/// covers the double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundedTimestamp {
    /// Where the number begins in the text of the turn.
    pub offset: usize,
    /// The value as written.
    pub written: u64,
    /// The value that the hash covers.
    pub covered: u64,
}

impl RoundedTimestamp {
    /// The number `literal` at `offset`, whose double is `covered`; `None` where it is no plain
    /// integer, or equals its double.
    pub(super) fn of(literal: &[u8], offset: usize, covered: u64) -> Option<Self> {
        let digits = literal.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(literal).ok().filter(|_| digits)?;
        let written = text.parse().ok().filter(|written| *written != covered)?;
        Some(Self {
            offset,
            written,
            covered,
        })
    }

    /// The one in the text of a turn, whose `timestamp_ns` is `covered` in canonical form.
    fn find(turn: &[u8], covered: u64) -> Option<Self> {
        let at = json::member_of(turn, "timestamp_ns")?;
        Self::of(turn.get(at.clone())?, at.start, covered)
    }
}

/// Digits in the text of a turn that no hash of the turn covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UncoveredDigits {
    /// Those of the timestamp, below the resolution of a double.
    pub timestamp: Option<RoundedTimestamp>,
    /// Where the first other number with such digits begins.
    pub other: Option<usize>,
}

/// The digits in the JSON text of a turn, sealed or not, that no hash covers.
///
/// # Errors
/// When the text is no turn.
pub fn uncovered_digits(turn: &[u8]) -> Result<UncoveredDigits, SchemaViolation> {
    let (canonical, lost) = jcs::canonicalize_closely(turn).map_err(|error| not_json(&error))?;
    if lost.digits.is_none() {
        return Ok(UncoveredDigits::default());
    }
    let covered = schema::check(&canonical)?.timestamp_ns;
    let timestamp = RoundedTimestamp::find(turn, covered);
    Ok(UncoveredDigits {
        timestamp,
        other: except(&lost, timestamp),
    })
}

/// Where the first number with lost digits begins that is not the timestamp.
pub(super) fn except(
    lost: &jcs::LostDetails,
    timestamp: Option<RoundedTimestamp>,
) -> Option<usize> {
    match timestamp {
        Some(timestamp) => lost.digits_except(timestamp.offset),
        None => lost.digits,
    }
}

/// Reads one sealed turn as stored in a file. `pinned` are the only acceptable keys; none, where
/// every key is.
pub fn read_turn(bytes: &[u8], form: Form, pinned: &[PublicKey]) -> TurnRead {
    TurnReader::new(form, pinned).read(bytes)
}

/// Reads sealed turns one after the other, as [`read_turn`] does. It reuses work that is the same
/// for turns of one signer.
#[derive(Debug)]
pub struct TurnReader {
    form: Form,
    keys: Keys,
    careful: bool,
}

impl TurnReader {
    /// A reader of turns in `form`.
    pub fn new(form: Form, pinned: &[PublicKey]) -> Self {
        Self {
            form,
            keys: Keys::new(pinned),
            careful: false,
        }
    }

    /// A reader that never takes the quick way: the answers are the same, only slower.
    #[must_use]
    pub fn careful(self) -> Self {
        Self {
            careful: true,
            ..self
        }
    }

    /// Reads the next turn.
    pub fn read(&mut self, bytes: &[u8]) -> TurnRead {
        match self.form {
            Form::Json if self.careful => read_carefully(bytes, &mut self.keys),
            Form::Json => match read_quickly(bytes, &mut self.keys) {
                Some(read) => read,
                None => read_carefully(bytes, &mut self.keys),
            },
            Form::Cbor => read_cbor(bytes, &mut self.keys),
        }
    }
}

fn read_quickly(text: &[u8], keys: &mut Keys) -> Option<TurnRead> {
    let found = quick::read(text)?;
    Some(TurnRead {
        facts: gather(&found.shape, &found.covered, None, keys),
        as_v01: AsV01::Same,
        lost: found.lost,
        rounded: found.rounded,
        cut_off: false,
    })
}

fn read_carefully(text: &[u8], keys: &mut Keys) -> TurnRead {
    match jcs::canonicalize_closely(text) {
        Ok((canonical, lost)) => {
            let facts = of_canonical(&canonical, keys);
            let same = matches!(&facts, Ok(facts) if facts.encoding == Encoding::Jcs);
            let inexact = facts.as_ref().ok().filter(|_| lost.digits.is_some());
            TurnRead {
                rounded: inexact.and_then(|facts| RoundedTimestamp::find(text, facts.timestamp_ns)),
                as_v01: match same {
                    true => AsV01::Same,
                    false => AsV01::Facts(Box::new(of_canonical_v01(&canonical, keys))),
                },
                facts,
                lost,
                cut_off: false,
            }
        }
        Err(error) => TurnRead {
            facts: Err(not_json(&error)),
            as_v01: read_leniently(text, keys),
            lost: jcs::LostDetails::default(),
            rounded: None,
            // A cut may split a character. After a crash, some file systems fill the rest of an
            // unfinished write with NUL bytes.
            cut_off: trim_end(text).ends_with(b"\0")
                || matches!(
                    error.kind,
                    JsonErrorKind::UnexpectedEnd | JsonErrorKind::InvalidUtf8
                ),
        },
    }
}

/// The result of each way for a text.
#[cfg(test)]
pub(super) fn both_ways(text: &[u8], keys: &mut Keys) -> (Option<TurnRead>, TurnRead) {
    (read_quickly(text, keys), read_carefully(text, keys))
}

/// The parsers of v0.1 keep the last of two members with one name, and are lenient in other ways.
fn read_leniently(text: &[u8], keys: &mut Keys) -> AsV01 {
    if text.len() > MAX_LENIENT_TURN_BYTES {
        return AsV01::Nothing("too long");
    }
    let read = json::parse_python(text).ok();
    match read.and_then(|document| canonical(&document.value).ok()) {
        Some(canonical) => AsV01::Facts(Box::new(of_canonical_v01(&canonical, keys))),
        None => AsV01::Nothing("not JSON"),
    }
}

fn read_cbor(bytes: &[u8], keys: &mut Keys) -> TurnRead {
    let read = cbor::parse(bytes);
    let ends_early = |error: &CborError| error.kind == CborErrorKind::UnexpectedEnd;
    TurnRead {
        // Other bytes than the beginning of an item are no write that was interrupted, whatever
        // length they claim.
        cut_off: read.as_ref().is_err_and(ends_early),
        facts: read
            .map_err(|error| not_cbor(&error))
            .and_then(|value| of_cbor(&value, keys)),
        as_v01: AsV01::Same,
        lost: jcs::LostDetails::default(),
        rounded: None,
    }
}

fn of_cbor(value: &Value, keys: &mut Keys) -> Result<Facts, SchemaViolation> {
    let facts = of_canonical(&canonical(value)?, keys)?;
    if facts.encoding != Encoding::Cbor {
        return Err(SchemaViolation::new("/enc", "must be \"cbor\" in CBOR"));
    }
    Ok(facts)
}

/// Gathers the facts of a sealed turn's canonical JSON text.
///
/// # Errors
/// The first violation of the schema.
pub(super) fn of_canonical(canonical: &[u8], keys: &mut Keys) -> Result<Facts, SchemaViolation> {
    let shape = schema::check(canonical)?;
    let covered = covered(canonical, &shape, shape.encoding)?;
    let body =
        body_fault(shape.tool_calls, &CALLS).or_else(|| body_fault(shape.tool_results, &RESULTS));
    gather(&shape, &covered, body, keys)
}

/// As [`of_canonical`], for a reader that knows no encoding but JCS and compares no bodies.
pub(super) fn of_canonical_v01(
    canonical: &[u8],
    keys: &mut Keys,
) -> Result<Facts, SchemaViolation> {
    let shape = schema::check_v01(canonical)?;
    let covered = covered(canonical, &shape, Encoding::Jcs)?;
    gather(&shape, &covered, None, keys)
}

fn gather(
    shape: &Shape<'_>,
    covered: &[u8],
    body: Option<SchemaViolation>,
    keys: &mut Keys,
) -> Result<Facts, SchemaViolation> {
    let Some(hash) = shape.hash else {
        return Err(SchemaViolation::new("/hash", "is missing"));
    };
    let sig = shape.sig.as_ref().map(|sig| {
        let signature = sig.sig.map(Signature::from_bytes);
        let named = sig.pubkey.as_ref();
        let checked = named.and_then(|named| keys.check(named, covered, signature.as_ref()));
        SigFacts {
            holds_for_pinned: keys.holds_for_pinned(checked, covered, signature.as_ref()),
            key: checked.map(|(key, _)| key),
            holds: checked.is_some_and(|(_, holds)| holds),
            extra: sig.extra,
            bytes: signatures::bytes_of(sig),
        }
    });
    Ok(Facts {
        turn: shape.turn,
        timestamp_ns: shape.timestamp_ns,
        encoding: shape.encoding,
        prev_hash: shape.prev_hash,
        hash,
        hash_holds: Digest::of(covered) == hash,
        sig,
        body,
        covered: covered.len() as u64,
    })
}

/// The bytes that hash and signature of a turn are over (`spec/scroll.md` §4).
///
/// # Errors
/// When the turn has too many values for CBOR.
pub(super) fn covered(
    canonical: &[u8],
    shape: &Shape<'_>,
    encoding: Encoding,
) -> Result<Vec<u8>, SchemaViolation> {
    let text = without(canonical, &shape.outside);
    match encoding {
        Encoding::Jcs => Ok(text),
        Encoding::Cbor => {
            to_cbor(&text).ok_or(SchemaViolation::new("", "has too many values for CBOR"))
        }
    }
}

/// The CBOR of canonical JSON text; `None` when it has more values than CBOR may have here.
fn to_cbor(text: &[u8]) -> Option<Vec<u8>> {
    // Each value but the first of its array or object follows a comma. Each array and object has a
    // bracket. So a tree is built only for few values.
    let starts = |byte: &&u8| matches!(byte, b',' | b'{' | b'[');
    if text.iter().filter(starts).count() > MAX_CBOR_VALUES {
        return None;
    }
    let value: Value = json::parse(text).ok()?;
    cbor::to_vec(&value).ok()
}

/// The text of an object without the members at `spans`, which are in order and not all it has.
fn without(canonical: &[u8], spans: &[Option<(usize, usize)>; 2]) -> Vec<u8> {
    let mut covered = Vec::with_capacity(canonical.len());
    let mut at = 0;
    for (from, to) in spans.iter().flatten() {
        // A member is removed with the comma before it; the first with the comma after it.
        let (from, to) = match from {
            1 => (1, to + 1),
            _ => (from - 1, *to),
        };
        covered.extend_from_slice(canonical.get(at..from).unwrap_or_default());
        at = to;
    }
    covered.extend_from_slice(canonical.get(at..).unwrap_or_default());
    covered
}

/// The first body that is present and differs from its declared digest.
fn body_fault(tools: Option<&[u8]>, names: &Tools) -> Option<SchemaViolation> {
    for (index, tool) in tools.and_then(elements)?.enumerate() {
        let (mut hash, mut body) = (None, None);
        for member in members(tool)? {
            if member.name == names.hash.as_bytes() {
                hash = hash_of(member.value);
            } else if member.name == names.body.as_bytes() {
                body = Some(member.value);
            }
        }
        if body.is_some_and(|body| Some(Digest::of(body)) != hash) {
            let at = format!("/{}/{index}/{}", names.list, names.hash);
            return Some(SchemaViolation::new(at, "is not the digest of the body"));
        }
    }
    None
}
