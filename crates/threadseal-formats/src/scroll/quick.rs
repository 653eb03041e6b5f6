//! The quick way through a sealed turn: schema, covered bytes and bodies in one walk.
//!
//! ```text
//! text ─► jcs::watch ─┬─► covered bytes: the members but `hash` and `sig`, canonical
//!                     └─► Turn: each rule of the schema, each body's digest, as values pass
//! ```
//! It answers only for correct and usual turns: JCS, every rule kept, every body equal to its hash.
//! For any other turn it returns `None`. Then [`super::schema`] reads the turn; only that module
//! reports violations. Tests check that the two agree.

use super::facts::RoundedTimestamp;
use super::schema::{
    CALLS, Encoding, MAX_TURN_NUMBER, RESULTS, Role, Shape, SigText, Tools, VERSION, base64_of,
    hash_of,
};
use threadseal_core::canon::jcs::{self, LostDetails, Part, Watch};
use threadseal_core::digest::Digest;

/// A whole number of at most this many digits is its own canonical form.
const EXACT_DIGITS: usize = 15;

/// The result of the quick way.
pub(super) struct Found {
    pub(super) shape: Shape<'static>,
    pub(super) covered: Vec<u8>,
    pub(super) lost: LostDetails,
    pub(super) rounded: Option<RoundedTimestamp>,
}

/// Reads a sealed turn, if it is a usual one.
pub(super) fn read(text: &[u8]) -> Option<Found> {
    let mut turn = Turn::default();
    let form = jcs::watch(text, &mut turn)?;
    Some(Found {
        rounded: turn.rounded,
        shape: turn.shape()?,
        covered: form.without(&[b"hash", b"sig"]),
        lost: form.lost(),
    })
}

/// The member of the turn that is being read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Other,
    Model,
    Params,
    Messages,
    Calls,
    Results,
    Sig,
}

/// The state of reading a turn.
#[derive(Default)]
struct Turn {
    depth: usize,
    object: bool,
    section: Section,
    /// Is the member that is being read an array?
    list: bool,
    version: bool,
    number: Option<u64>,
    role: Option<Role>,
    model: Two,
    params: Two,
    model_met: bool,
    params_met: bool,
    messages: bool,
    timestamp_ns: Option<u64>,
    rounded: Option<RoundedTimestamp>,
    prev_hash: Option<Digest>,
    hash: Option<Digest>,
    sig: Option<Sig>,
    item: Item,
}

/// Two members that are required.
#[derive(Default, PartialEq, Eq)]
struct Two(bool, bool);

#[derive(Default)]
struct Sig {
    alg: bool,
    pubkey: Option<[u8; 32]>,
    sig: Option<[u8; 64]>,
    extra: bool,
}

/// A message, a call or a result.
#[derive(Default)]
struct Item {
    /// `role`; `id`.
    first: bool,
    /// `content`; `name`, `status`.
    second: bool,
    hash: Option<Digest>,
    body: Option<Digest>,
}

const BOTH: Two = Two(true, true);

impl Turn {
    fn shape(self) -> Option<Shape<'static>> {
        let all = self.object
            && self.version
            && self.model_met
            && self.params_met
            && self.messages
            && (self.model, self.params) == (BOTH, BOTH);
        if !all {
            return None;
        }
        let sig = match self.sig {
            None => None,
            Some(sig) if sig.alg => Some(SigText {
                pubkey: Some(sig.pubkey?),
                sig: Some(sig.sig?),
                extra: sig.extra,
            }),
            Some(_) => return None,
        };
        Some(Shape {
            turn: self.number?,
            role: self.role?,
            timestamp_ns: self.timestamp_ns?,
            encoding: Encoding::Jcs,
            prev_hash: self.prev_hash,
            hash: Some(self.hash?),
            sig,
            tool_calls: None,
            tool_results: None,
            outside: [None, None],
        })
    }

    /// A member of the turn.
    fn top(&mut self, name: &[u8], mut value: Part<'_, '_>) -> Option<()> {
        let raw = value.raw();
        let object = raw.first() == Some(&b'{');
        let array = raw.first() == Some(&b'[');
        match name {
            b"version" => {
                self.version = text(raw)? == VERSION.as_bytes();
                self.version.then_some(())?;
            }
            b"turn" => {
                let number = uint(&mut value).filter(|number| *number <= MAX_TURN_NUMBER);
                self.number = Some(number?);
            }
            b"role" => self.role = Some(Role::parse(std::str::from_utf8(text(raw)?).ok()?)?),
            b"model" => self.model_met = object.then_some(true)?,
            b"params" => self.params_met = object.then_some(true)?,
            b"messages" => self.messages = array.then_some(true)?,
            b"tool_calls" | b"tool_results" => array.then_some(())?,
            b"timestamp_ns" => {
                let covered = uint(&mut value)?;
                self.timestamp_ns = Some(covered);
                self.rounded = RoundedTimestamp::of(raw, value.offset(), covered);
            }
            b"prev_hash" => self.prev_hash = Some(hash_of(raw)?),
            b"hash" => self.hash = Some(hash_of(raw)?),
            b"sig" => object.then_some(())?,
            b"enc" => return None,
            _ => {}
        }
        Some(())
    }

    /// A member of an object in the turn.
    fn inner(&mut self, name: &[u8], mut value: Part<'_, '_>) -> Option<()> {
        let raw = value.raw();
        match (self.section, name) {
            (Section::Model, b"vendor") => self.model.0 = filled(raw)?,
            (Section::Model, b"id") => self.model.1 = filled(raw)?,
            (Section::Model, b"fingerprint") => is_text(raw).then_some(())?,
            (Section::Params, b"temperature") => self.params.0 = is_number(raw)?,
            (Section::Params, b"top_p") => self.params.1 = is_number(raw)?,
            (Section::Params, b"seed" | b"max_tokens") => int(&mut value)?,
            (Section::Sig, _) => {
                let sig = self.sig.get_or_insert_default();
                match name {
                    b"alg" => sig.alg = raw == b"\"ed25519\"",
                    b"pubkey" => sig.pubkey = Some(base64_of(Some(raw))?),
                    b"sig" => sig.sig = Some(base64_of(Some(raw))?),
                    _ => sig.extra = true,
                }
            }
            _ => {}
        }
        Some(())
    }

    /// A member of an object in a list of the turn.
    fn item(&mut self, name: &[u8], value: Part<'_, '_>) -> Option<()> {
        let item = &mut self.item;
        match self.section {
            Section::Messages => match name {
                b"role" => item.first = is_text(value.raw()),
                b"content" => item.second = matches!(value.raw().first(), Some(b'"' | b'[')),
                _ => {}
            },
            Section::Calls => item.tool(name, value, &CALLS)?,
            Section::Results => item.tool(name, value, &RESULTS)?,
            _ => {}
        }
        Some(())
    }
}

impl Item {
    fn tool(&mut self, name: &[u8], mut value: Part<'_, '_>, names: &Tools) -> Option<()> {
        let raw = value.raw();
        if name == b"id" {
            self.first = is_text(raw);
        } else if name == names.word.as_bytes() {
            let status = names.list == RESULTS.list;
            self.second = is_text(raw) && (!status || matches!(raw, b"\"ok\"" | b"\"error\""));
        } else if name == names.hash.as_bytes() {
            self.hash = Some(hash_of(raw)?);
        } else if name == names.body.as_bytes() {
            self.body = Some(Digest::of(value.canonical()?));
        }
        Some(())
    }
}

impl Watch for Turn {
    #[inline]
    fn open(&mut self, array: bool) {
        self.depth += 1;
        match self.depth {
            1 => self.object = !array,
            2 => {
                self.list = array;
                if self.section == Section::Sig {
                    self.sig = Some(Sig::default());
                }
            }
            3 if self.list => self.item = Item::default(),
            _ => {}
        }
    }

    #[inline]
    fn name(&mut self, name: &[u8]) {
        if self.depth == 1 {
            self.section = match name {
                b"model" => Section::Model,
                b"params" => Section::Params,
                b"messages" => Section::Messages,
                b"tool_calls" => Section::Calls,
                b"tool_results" => Section::Results,
                b"sig" => Section::Sig,
                _ => Section::Other,
            };
        }
    }

    #[inline]
    fn member(&mut self, name: &[u8], value: Part<'_, '_>) -> Option<()> {
        match self.depth {
            1 => self.top(name, value),
            2 => self.inner(name, value),
            3 if self.list => self.item(name, value),
            _ => Some(()),
        }
    }

    #[inline]
    fn element(&mut self, value: &[u8]) -> Option<()> {
        if self.depth != 2 {
            return Some(());
        }
        let item = &self.item;
        match self.section {
            Section::Other => Some(()),
            // An element that is no object leaves the state of the previous one.
            _ if value.first() != Some(&b'{') => None,
            Section::Messages => (item.first && item.second).then_some(()),
            _ => {
                let held = item.body.is_none() || item.body == item.hash;
                (item.first && item.second && item.hash.is_some() && held).then_some(())
            }
        }
    }

    #[inline]
    fn close(&mut self) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        Some(())
    }
}

fn text(raw: &[u8]) -> Option<&[u8]> {
    raw.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

fn is_text(raw: &[u8]) -> bool {
    raw.starts_with(b"\"")
}

/// A string that is not empty, or nothing.
fn filled(raw: &[u8]) -> Option<bool> {
    (is_text(raw) && raw != b"\"\"").then_some(true)
}

fn is_number(raw: &[u8]) -> Option<bool> {
    matches!(raw.first(), Some(b'-' | b'0'..=b'9')).then_some(true)
}

fn uint(value: &mut Part<'_, '_>) -> Option<u64> {
    let raw = value.raw();
    let digits = if raw.len() <= EXACT_DIGITS && raw.iter().all(u8::is_ascii_digit) {
        raw
    } else {
        value.canonical()?
    };
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn int(value: &mut Part<'_, '_>) -> Option<()> {
    let digits = std::str::from_utf8(value.canonical()?).ok()?;
    digits.parse::<i64>().ok().map(|_| ())
}
