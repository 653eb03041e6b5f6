//! The facts of one record alone, independent of the records before and after it.
//!
//! ```text
//! text ─► members as `ledger` writes them, sorted ─┬─ without record_hash, signature ─► SHA-256
//!                                                  └─ run, step, status, time, links, markers
//! ```
//! There are two ways from text to members. The fast one rewrites the text in one pass; it accepts
//! only text that the strict rules accept. Any other text is read as Python reads it, into a tree.
//! Where both ways work they give the same result; a test checks this.

use super::link::Link;
use super::marker::{Marker, markers};
use super::record::StepStatus;
use super::sign::{KnownKeys, SignatureRead};
use std::borrow::Cow;
use std::cmp::Ordering;
use threadseal_core::canon::json::{self, Irregularity, IrregularityKind, Text, Value};
use threadseal_core::canon::python::{LedgerObject, ledger_line};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyId, RepeatedKeys};
use threadseal_core::limits::MAX_LENIENT_RECORD_BYTES;
use threadseal_core::time::Timestamp;

/// An oddity of a record, and where in its text it is, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Oddity {
    pub(super) kind: OddityKind,
    pub(super) offset: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OddityKind {
    /// Two members of one name; only the last is hashed.
    NameRepeated,
    /// A lone surrogate: nothing can be hashed.
    LoneSurrogate,
    /// `NaN`, `Infinity`, or a number beyond doubles.
    NotFinite,
    /// A number with digits that its canonical form does not keep.
    Inexact,
    /// A member that every record has is missing or of another type.
    Member(&'static str),
    /// A text that is no valid time.
    Time,
    /// The record is too large for a search for markers.
    MarkersUnread,
}

/// Where Python's encoder finds surrogates that it cannot write, in characters of the covered
/// text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Surrogates {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) first: u32,
}

/// The step of a record: its id, or the digest of a long one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StepKey([u8; 40]);

impl StepKey {
    /// An id of at most 39 bytes, such as a UUID, is kept unchanged, then its length.
    pub(super) fn of(id: &str) -> Self {
        let mut key = [0; 40];
        let id = id.as_bytes();
        match (key.get_mut(..id.len()), u8::try_from(id.len())) {
            (Some(place), Ok(length)) if length < 40 => {
                place.copy_from_slice(id);
                key[39] = length;
            }
            _ => {
                let (place, rest) = key.split_at_mut(32);
                place.copy_from_slice(Digest::of(id).as_bytes());
                rest.fill(u8::MAX);
            }
        }
        Self(key)
    }
}

/// One record.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// The digest of the covered bytes, with the record's own `prev_hash`.
    pub(super) hash: Result<Digest, Surrogates>,
    pub(super) prev: Link,
    pub(super) stored: Link,
    /// Is the stored hash right?
    pub(super) hash_holds: bool,
    /// Is it right only with numeric names in the order of numbers?
    pub(super) numeric_names: bool,
    pub(super) run_id: Option<Box<str>>,
    pub(super) actor_id: Option<Box<str>>,
    pub(super) signature: SignatureRead,
    /// The digest of the text of the signature, whatever that is.
    pub(super) signature_text: Option<Digest>,
    pub(super) step: Option<StepKey>,
    pub(super) status: Option<StepStatus>,
    /// When it was written: `ended_at`, or `started_at`.
    pub(super) at: Option<Timestamp>,
    pub(super) oddities: Vec<Oddity>,
    pub(super) markers: Vec<Marker>,
}

/// Reads records; keeps its buffers for reuse.
#[derive(Debug, Default)]
pub(super) struct FactReader {
    covered: Vec<u8>,
    known: KnownKeys,
    named: KnownKeys,
    at_hand: RepeatedKeys,
}

impl FactReader {
    /// A reader that checks signatures by `known` keys at once.
    pub(super) fn knowing(known: &KnownKeys) -> Self {
        Self {
            known: known.clone(),
            ..Self::default()
        }
    }

    /// Checks signatures by `named` keys at once, too.
    pub(super) fn learn(&mut self, named: &KnownKeys) {
        self.named = named.clone();
    }

    /// Reads a text that the strict rules accept; `None` for any other.
    pub(super) fn read(&mut self, text: &[u8]) -> Option<Facts> {
        let object = LedgerObject::read(text)?;
        Some(self.gather(&object, None, text))
    }

    /// Reads Python's value of `text`; `None` when it is no object.
    pub(super) fn read_value(
        &mut self,
        value: &Value,
        irregularities: &[Irregularity],
        text: &[u8],
    ) -> Option<Facts> {
        let object = LedgerObject::of(value.as_object()?);
        let mut facts = self.gather(&object, Some(value), text);
        let odd = irregularities.iter().map(|found| Oddity {
            kind: match found.kind {
                IrregularityKind::DuplicateKey => OddityKind::NameRepeated,
                IrregularityKind::LoneSurrogate => OddityKind::LoneSurrogate,
                IrregularityKind::NonFinite => OddityKind::NotFinite,
            },
            offset: Some(found.offset),
        });
        facts.oddities.extend(odd);
        Some(facts)
    }

    fn gather(&mut self, object: &LedgerObject<'_>, tree: Option<&Value>, text: &[u8]) -> Facts {
        let mut facts = Facts {
            hash: Ok(Digest::from_bytes([0; 32])),
            prev: Link::None,
            stored: Link::None,
            hash_holds: false,
            numeric_names: false,
            run_id: None,
            actor_id: None,
            signature: SignatureRead::Absent,
            signature_text: None,
            step: None,
            status: None,
            at: None,
            oddities: Vec::new(),
            markers: Vec::new(),
        };
        if let Some(offset) = object.inexact {
            let offset = tree.is_none().then_some(offset);
            facts.note(OddityKind::Inexact, offset);
        }
        self.members(object, tree, &mut facts);
        facts.hash = hash(&self.covered, tree.is_some());
        facts.look_closer(object.dollar, tree, text);
        facts
    }

    /// Takes the members in order, and joins those that the hash covers.
    fn members(&mut self, object: &LedgerObject<'_>, tree: Option<&Value>, facts: &mut Facts) {
        let mut times = (None, None);
        let mut prev_missing = true;
        let mut signature = None;
        self.covered.clear();
        self.covered.push(b'{');
        for member in object.members() {
            let value = || tree.and_then(|tree| tree.get(std::str::from_utf8(member.name).ok()?));
            if prev_missing && member.name >= b"prev_hash".as_slice() {
                prev_missing = false;
                if member.name != b"prev_hash" {
                    self.cover(NO_PREV);
                }
            }
            match member.name {
                b"prev_hash" => facts.prev = Link::read(member.value, value()),
                b"record_hash" => {
                    facts.stored = Link::read(member.value, value());
                    continue;
                }
                b"signature" => {
                    let value = Some(member.value).filter(|value| *value != b"null");
                    // A value that is no text is no signature either.
                    signature = value.map(|value| text_of(value).unwrap_or_default());
                    continue;
                }
                b"run_id" => facts.run_id = text_of(member.value).map(Into::into),
                b"actor_id" => facts.actor_id = text_of(member.value).map(Into::into),
                b"step_id" => facts.step = text_of(member.value).map(|id| StepKey::of(&id)),
                b"status" => {
                    facts.status = text_of(member.value).and_then(|word| StepStatus::parse(&word));
                }
                b"started_at" if member.value != b"null" => times.0 = Some(member.value),
                b"ended_at" if member.value != b"null" => times.1 = Some(member.value),
                _ => {}
            }
            self.cover(member.text);
        }
        if prev_missing {
            self.cover(NO_PREV);
        }
        self.covered.push(b'}');
        let stored = facts.stored.digest();
        let known = |id: &KeyId| self.known.get(id).or_else(|| self.named.get(id));
        let text = signature.as_deref();
        facts.signature_text = text.map(|text| Digest::of(text.as_bytes()));
        facts.signature = SignatureRead::of(text, stored.as_ref(), known, &mut self.at_hand);
        facts.check_members(times);
    }

    fn cover(&mut self, member: &[u8]) {
        if self.covered.len() > 1 {
            self.covered.push(b',');
        }
        self.covered.extend_from_slice(member);
    }
}

/// The member that is hashed where a record has no `prev_hash`.
const NO_PREV: &[u8] = b"\"prev_hash\":null";

impl Facts {
    fn note(&mut self, kind: OddityKind, offset: Option<usize>) {
        self.oddities.push(Oddity { kind, offset });
    }

    /// Notes which of the required members are missing.
    fn check_members(&mut self, (started, ended): (Option<&[u8]>, Option<&[u8]>)) {
        let present = [
            ("run_id", self.run_id.is_some()),
            ("step_id", self.step.is_some()),
            ("status", self.status.is_some()),
            ("started_at", started.and_then(text_of).is_some()),
        ];
        for (name, present) in present {
            if !present {
                self.note(OddityKind::Member(name), None);
            }
        }
        let parse = |value: &[u8]| Timestamp::parse_rfc3339(&text_of(value)?);
        let Some(latest) = ended.or(started) else {
            return;
        };
        self.at = parse(latest);
        let odd = |value: Option<&[u8]>| value.is_some_and(|value| parse(value).is_none());
        if self.at.is_none() || ended.is_some() && odd(started) {
            self.note(OddityKind::Time, None);
        }
    }

    /// Checks that need a tree of the record; few records need them.
    fn look_closer(&mut self, dollar: bool, tree: Option<&Value>, text: &[u8]) {
        let right = self.stored.digest().zip(self.hash.ok());
        self.hash_holds = right.is_some_and(|(stored, computed)| stored == computed);
        let doubtful = !self.hash_holds && right.is_some();
        let sorted = [&self.prev, &self.stored]
            .into_iter()
            .any(Link::has_members);
        if !dollar && !doubtful && !sorted {
            return;
        }
        let parsed = match tree {
            Some(tree) => Some(Cow::Borrowed(tree)),
            None if text.len() > MAX_LENIENT_RECORD_BYTES => None,
            None => json::parse_python(text)
                .ok()
                .map(|document| Cow::Owned(document.value)),
        };
        let Some(tree) = parsed else {
            return self.note(OddityKind::MarkersUnread, None);
        };
        if sorted {
            self.prev.put_in_order(tree.get("prev_hash"));
            self.stored.put_in_order(tree.get("record_hash"));
        }
        if dollar {
            self.markers = markers(&tree);
        }
        if doubtful && numeric_hash(&tree) == self.stored.digest() {
            self.hash_holds = true;
            self.numeric_names = true;
        }
    }
}

/// A string that holds no lone surrogate.
fn text_of(value: &[u8]) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if !inner.contains(&b'\\') {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    let document = json::parse(value).ok()?;
    document.as_str().map(|text| Cow::Owned(text.to_owned()))
}

fn hash(covered: &[u8], may_hold_surrogates: bool) -> Result<Digest, Surrogates> {
    if may_hold_surrogates && let Err(error) = std::str::from_utf8(covered) {
        let (before, rest) = covered.split_at(error.valid_up_to());
        return Err(surrogates(before, rest));
    }
    Ok(Digest::of(covered))
}

/// Counts characters as Python does: each surrogate is one.
fn surrogates(before: &[u8], rest: &[u8]) -> Surrogates {
    let characters = before.iter().filter(|byte| **byte & 0xc0 != 0x80);
    let from = characters.count();
    let units = rest.chunks_exact(3);
    let run = units.take_while(|unit| matches!(unit, [0xed, 0xa0..=0xbf, _]));
    let first = match rest {
        [_, a, b, ..] => 0xd000 | u32::from(a & 0x3f) << 6 | u32::from(b & 0x3f),
        _ => 0xd800,
    };
    Surrogates {
        from,
        to: from + run.count(),
        first,
    }
}

/// The hash that `AbstractRuntime` computes when it appends a record with numbers for names. It
/// sorts the numbers and only then turns them into names. In the file they are names, and sort
/// differently.
fn numeric_hash(record: &Value) -> Option<Digest> {
    let Value::Object(members) = record else {
        return None;
    };
    let outside = |name: &Text| name == "record_hash" || name == "signature";
    let covered = members.iter().filter(|(name, _)| !outside(name));
    let mut covered: Vec<(Text, Value)> = covered.cloned().collect();
    if !covered.iter().any(|(name, _)| name == "prev_hash") {
        covered.push(("prev_hash".into(), Value::Null));
    }
    let mut value = Value::Object(covered);
    let numeric = sort_names(&mut value);
    numeric.then(|| ledger_line(&value).ok().map(|line| Digest::of(&line)))?
}

/// Sorts names as Python sorts the values that they may have been; true if any were numbers.
fn sort_names(value: &mut Value) -> bool {
    match value {
        Value::Array(elements) => {
            let numeric: Vec<bool> = elements.iter_mut().map(sort_names).collect();
            numeric.contains(&true)
        }
        Value::Object(members) => {
            let mut any = false;
            for (_, value) in members.iter_mut() {
                any |= sort_names(value);
            }
            let numbers: Option<Vec<f64>> = members.iter().map(|(name, _)| number(name)).collect();
            if members.len() > 1 && numbers.is_some() {
                members.sort_by(|a, b| compare_numbers(&a.0, &b.0));
                return true;
            }
            members.sort_by(|a, b| a.0.cmp(&b.0));
            any
        }
        _ => false,
    }
}

/// The number that a name may have been.
fn number(name: &Text) -> Option<f64> {
    match name.as_str()? {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => Some(json::Number::parse(text)?.as_f64()),
    }
}

fn compare_numbers(a: &Text, b: &Text) -> Ordering {
    let exact = |name: &Text| name.as_str()?.parse::<i128>().ok();
    match (exact(a), exact(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let double = |name: &Text| number(name).unwrap_or(f64::NAN);
            double(a).total_cmp(&double(b))
        }
    }
}
