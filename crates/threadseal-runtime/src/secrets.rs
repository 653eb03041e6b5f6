//! [`Secrets`]: the values that no record and no output repeats.
//!
//! ```text
//! key_env, header_env, secret variables of tools, addresses ─► learn
//! answer, output, offer, error ─► mask ─► the same with [secret], and how often
//! ```
//! A provider, a server or a tool that gets a secret can return it. So each text from them passes
//! here before anything records, prints or uses it. A value is found as it is, and in the spellings
//! of JSON (also twice), of addresses, in base64 and in hexadecimal digits. An author who wants to
//! leak it can still spell it in another way.
//!
//! Normative: `spec/runtime.md`, "Secrets".

use crate::bounds::{MAX_SECRET_PIECE_BYTES, MIN_SECRET_BYTES};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock};

/// The text in place of a secret.
const MASK: &str = "[secret]";
/// Longest spelling of a character of a secret, in bytes: some backslashes, `u`, four digits, for
/// each of two units.
const MAX_SPELLING_BYTES: usize = 24;
/// Memory of the compiled spellings.
const MAX_PATTERN_BYTES: usize = 64 << 20;
/// Memory of a search for them.
const MAX_SEARCH_BYTES: usize = 8 << 20;

/// The secrets that are known so far.
#[derive(Default)]
pub struct Secrets(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// The longest first.
    values: Vec<String>,
    finder: Option<Arc<Regex>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secrets(…)")
    }
}

impl Secrets {
    /// Learns a value. A scheme before it (`Bearer`, `Basic`, `Token`) is not secret, and a value
    /// of fewer than [`MIN_SECRET_BYTES`] bytes is none.
    pub fn learn(&self, value: &str) {
        let value = without_scheme(value.trim());
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.values.len();
        for piece in pieces(value) {
            if piece.len() >= MIN_SECRET_BYTES && !known.values.contains(&piece) {
                known.values.push(piece);
            }
        }
        if known.values.len() > before {
            known
                .values
                .sort_by_key(|value| std::cmp::Reverse(value.len()));
            known.finder = finder(&known.values);
        }
    }

    /// Learns the password and the secret settings of an address.
    pub fn learn_address(&self, address: &str) {
        let Some((_, rest)) = address.split_once("://") else {
            return;
        };
        if let Some((_, password)) = rest
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
        {
            self.learn(password);
        }
        let settings = rest.split_once('?').map_or("", |(_, settings)| settings);
        for setting in settings.split(['&', '#']) {
            if let Some((name, value)) = setting.split_once('=')
                && is_secret_name(name)
            {
                self.learn(value);
            }
        }
    }

    /// Is nothing known?
    pub fn is_empty(&self) -> bool {
        self.finder().is_none()
    }

    /// The text without secrets, and how many were replaced.
    pub fn mask<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        match self.finder() {
            Some(finder) => replaced(&finder, text),
            None => (Cow::Borrowed(text), 0),
        }
    }

    /// Masks a text in its place.
    pub(crate) fn mask_text(&self, text: &mut String) -> u64 {
        let (masked, count) = self.mask(text);
        if let Cow::Owned(masked) = masked {
            *text = masked;
        }
        count
    }

    /// Masks all texts, names and numbers of a value.
    pub fn mask_value(&self, value: &mut Value) -> u64 {
        match self.finder() {
            Some(finder) => masked(&finder, value),
            None => 0,
        }
    }

    /// Masks a text that arrives in pieces.
    pub(crate) fn streaming(&self) -> Streaming {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let longest = known.values.first().map_or(0, String::len);
        Streaming {
            finder: known.finder.clone(),
            has_blanks: known
                .values
                .iter()
                .any(|value| value.contains(char::is_whitespace)),
            held: longest * MAX_SPELLING_BYTES,
            pending: String::new(),
        }
    }

    fn finder(&self) -> Option<Arc<Regex>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.finder.clone()
    }
}

/// The event about replaced secrets: its type and payload. `place` is `model`, `error`, `tool`,
/// `hook` or `offer`.
pub(crate) fn event(count: u64, place: &str, turn: u64) -> (&'static str, Value) {
    let payload = json!({"count": count, "where": place, "turn": turn});
    ("secrets_replaced", payload)
}

/// Can the value of a variable or setting with this name be secret?
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "secret", "token", "key", "signature", "credential"]
        .iter()
        .any(|part| name.contains(part))
}

/// A text that arrives in pieces, without secrets. It holds back what may be the begin of one.
pub(crate) struct Streaming {
    finder: Option<Arc<Regex>>,
    /// Can a blank be inside a secret?
    has_blanks: bool,
    /// Longest spelling of a secret, in bytes.
    held: usize,
    pending: String,
}

impl Streaming {
    /// Takes a piece, and returns what can be shown.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let Some(finder) = &self.finder else {
            return piece.to_owned();
        };
        self.pending.push_str(piece);
        let blank = self.pending.rfind(char::is_whitespace);
        let end = match blank.filter(|_| !self.has_blanks) {
            Some(blank) => blank,
            None if self.pending.len() > 2 * self.held => {
                // A secret that began before would have ended.
                self.pending = replaced(finder, &self.pending).0.into_owned();
                let mut end = self.pending.len().saturating_sub(self.held);
                while !self.pending.is_char_boundary(end) {
                    end -= 1;
                }
                end
            }
            None => return String::new(),
        };
        let rest = self.pending.split_off(end);
        let shown = std::mem::replace(&mut self.pending, rest);
        replaced(finder, &shown).0.into_owned()
    }

    /// The rest.
    pub(crate) fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        match &self.finder {
            Some(finder) => replaced(finder, &rest).0.into_owned(),
            None => rest,
        }
    }
}

fn replaced<'t>(finder: &Regex, text: &'t str) -> (Cow<'t, str>, u64) {
    let mut count = 0;
    let masked = finder.replace_all(text, |_: &regex::Captures<'_>| {
        count += 1;
        MASK
    });
    (masked, count)
}

fn masked(finder: &Regex, value: &mut Value) -> u64 {
    let replace = |text: &str| match replaced(finder, text) {
        (Cow::Owned(text), count) => Some((text, count)),
        (Cow::Borrowed(_), _) => None,
    };
    match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => match replace(&number.to_string()) {
            Some((text, count)) => {
                *value = Value::String(text);
                count
            }
            None => 0,
        },
        Value::String(text) => match replace(text) {
            Some((masked, count)) => {
                *text = masked;
                count
            }
            None => 0,
        },
        Value::Array(items) => items.iter_mut().map(|item| masked(finder, item)).sum(),
        Value::Object(members) => {
            let mut count = 0;
            for value in members.values_mut() {
                count += masked(finder, value);
            }
            if members.keys().any(|name| finder.is_match(name)) {
                let named = std::mem::take(members).into_iter().map(|(name, value)| {
                    let (name, found) = replaced(finder, &name);
                    count += found;
                    (name.into_owned(), value)
                });
                *members = named.collect::<Map<_, _>>();
            }
            count
        }
    }
}

fn without_scheme(value: &str) -> &str {
    match value.split_once(char::is_whitespace) {
        Some((scheme, rest))
            if ["bearer", "basic", "token"].contains(&&*scheme.to_ascii_lowercase()) =>
        {
            rest.trim_start()
        }
        _ => value,
    }
}

/// A value in pieces that are short enough to be looked for, none much shorter than the others.
fn pieces(value: &str) -> Vec<String> {
    let count = value.len().div_ceil(MAX_SECRET_PIECE_BYTES).max(1);
    let most = value.len().div_ceil(count).max(1);
    let mut pieces = vec![String::new()];
    for c in value.chars() {
        match pieces.last_mut() {
            Some(last) if last.len() < most => last.push(c),
            _ => pieces.push(c.to_string()),
        }
    }
    pieces
}

/// What finds every spelling of these values.
fn finder(values: &[String]) -> Option<Arc<Regex>> {
    let mut pattern = String::new();
    for value in values {
        for spelling in [escaped(value), hexadecimal(value)]
            .into_iter()
            .chain((0..3).map(|offset| base64(value.as_bytes(), offset)))
        {
            if !pattern.is_empty() {
                pattern.push('|');
            }
            pattern.push_str(&spelling);
        }
    }
    let built = RegexBuilder::new(&pattern)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_SEARCH_BYTES)
        .build();
    match built {
        Ok(found) => Some(Arc::new(found)),
        // Too many for one pattern: as they are, at least.
        Err(_) => {
            let plain: Vec<String> = values.iter().map(|value| regex::escape(value)).collect();
            Regex::new(&plain.join("|")).ok().map(Arc::new)
        }
    }
}

/// Each character as it is, as JSON escapes it (more than once, too), or as addresses do.
fn escaped(value: &str) -> String {
    let mut pattern = String::new();
    for c in value.chars() {
        let plain = regex::escape(c.encode_utf8(&mut [0; 4]));
        // Infallible: the target is a string.
        let _ = match c {
            '\\' => write!(pattern, r"(?:\\{{1,8}}"),
            '"' | '/' => write!(pattern, r"(?:\\{{0,8}}{plain}"),
            '\n' => write!(pattern, r"(?:\n|\\{{1,8}}n"),
            '\r' => write!(pattern, r"(?:\r|\\{{1,8}}r"),
            '\t' => write!(pattern, r"(?:\t|\\{{1,8}}t"),
            _ => write!(pattern, "(?:{plain}"),
        };
        pattern.push('|');
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(pattern, r"\\{{1,8}}u(?i:{unit:04x})");
        }
        pattern.push('|');
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(pattern, "%(?:25){{0,3}}(?i:{byte:02x})");
        }
        pattern.push(')');
    }
    pattern
}

fn hexadecimal(value: &str) -> String {
    let digits: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("(?i:{digits})")
}

/// The characters of base64, in either alphabet, that depend on the value alone where `offset`
/// bytes precede it.
fn base64(value: &[u8], offset: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (first, end) = ((offset * 8).div_ceil(6), (offset + value.len()) * 8 / 6);
    let bit = |at: usize| {
        let byte = value.get((at / 8).wrapping_sub(offset)).copied();
        usize::from(byte.unwrap_or(0) >> (7 - at % 8) & 1)
    };
    let mut pattern = String::new();
    for place in first..end {
        let index = (0..6).fold(0, |index, next| index << 1 | bit(place * 6 + next));
        match ALPHABET.get(index).copied().unwrap_or(b'A') {
            b'+' => pattern.push_str(r"(?:[+\-]|%(?:25){0,3}2[bB]|\\{1,8}u002[bB])"),
            b'/' => pattern.push_str(r"(?:\\{0,8}/|_|%(?:25){0,3}2[fF]|\\{1,8}u002[fF])"),
            plain => pattern.push(char::from(plain)),
        }
    }
    pattern
}

#[cfg(test)]
mod tests;
