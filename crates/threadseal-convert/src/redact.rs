//! Redaction: removes secrets from turns before they are sealed.
//!
//! ```text
//! {"id":I,"name":N,"args_hash":H,"args":A}            ─►  {"id":I,"name":N,"args_hash":H}
//! {"id":I,"status":S,"response_hash":H,"response":B}  ─►  {"id":I,"status":S,"response_hash":H}
//! a value in `messages` that is A or B                ─►  "[redacted H]"
//! a line in `messages` that is a line of A or B       ─►  [redacted H]
//! a secret in `messages`, in names and ids            ─►  [redacted RULE]
//! ```
//!
//! [`Bodies`] selects the arguments and responses to remove: all, or those in which the
//! [`Detector`] finds a secret. Removed content is removed everywhere. The messages of all turns
//! are compared with it. Whole values are compared by their content, in any order of members. Texts
//! are compared line by line from [`MIN_REPEATED_LINE`] characters on. A quotation of half a line
//! stays.
//!
//! A member is searched together with its name (`name="value"`), because many rules recognize a
//! secret only by the text before it. Names of members are searched, too. `lists` searches texts
//! that span several elements of one list, and values whose names are beside them.
//!
//! **What a hash reveals.** `args_hash` and `response_hash` are not salted (agent-scroll v0.1 has
//! no salt). A reader that can guess a body can confirm the guess. A yes or no, a date of birth, or
//! a number of nine digits is found by trying all of them. Redaction protects only bodies that
//! cannot be guessed.

mod lists;

use super::account::Account;
use super::draft::Draft;
use super::fit::push_segment;
use super::mapped::Mapped;
use super::thread::unique;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::digest::{Digest, Hasher};

/// Fewest characters, without blanks around them, of a line that is recognized as part of a removed
/// body.
///
/// Shorter lines (`}`, `ok`) occur in every text.
pub const MIN_REPEATED_LINE: usize = 4;

/// The depth of items below the content of a message.
const ITEM: usize = 1;
/// Members of items that give their type and their call.
const STRUCTURE: [&str; 3] = ["type", "id", "format"];

/// The members of an object.
type Members = Vec<(Text, Value)>;

/// Finds secrets in texts.
pub trait Detector {
    /// The secrets in `text`, in order, none overlapping another.
    fn find(&self, text: &str) -> Vec<Secret>;
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its place in bytes.
    pub place: Range<usize>,
    /// The rule that found it.
    pub rule: String,
}

/// The arguments and responses to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// All of them.
    All,
    /// Those that hold a secret.
    WithSecrets,
}

/// Removes `bodies` and all secrets from the turns, and records the places in the account.
#[must_use]
pub fn redact(mut mapped: Mapped, bodies: Bodies, detector: &dyn Detector) -> Mapped {
    let mut work = Redaction {
        detector,
        account: &mut mapped.account,
        values: HashMap::new(),
        lines: HashMap::new(),
    };
    let drafts = &mut mapped.drafts;
    drafts.rewrite(|turn, draft| work.bodies(turn, draft, bodies));
    drafts.rewrite(|turn, draft| {
        work.words(turn, draft);
        for (index, message) in draft.messages.iter_mut().enumerate() {
            let pointer = format!("/messages/{index}/content");
            let content = std::mem::replace(&mut message.content, Value::Null);
            let mut place = Place { turn, pointer };
            message.content = work.value(content, None, 0, &mut place).0;
        }
    });
    mapped
        .account
        .clean_pointers(|pointer| clean(detector, pointer));
    mapped
}

struct Redaction<'d> {
    detector: &'d dyn Detector,
    account: &'d mut Account,
    /// Removed bodies, by the digest of their content: their hashes.
    values: HashMap<Digest, Digest>,
    /// Lines of removed bodies.
    lines: HashMap<Digest, Digest>,
}

/// A place in the scroll.
struct Place {
    turn: u64,
    pointer: String,
}

impl Redaction<'_> {
    fn bodies(&mut self, turn: u64, draft: &mut Draft, which: Bodies) {
        let calls = draft.tool_calls.iter_mut().enumerate();
        let calls = calls.map(|(index, call)| {
            (
                format!("/tool_calls/{index}/args"),
                &mut call.args,
                call.args_hash,
            )
        });
        let results = draft.tool_results.iter_mut().enumerate();
        let results = results.map(|(index, result)| {
            let pointer = format!("/tool_results/{index}/response");
            (pointer, &mut result.response, result.response_hash)
        });
        for (pointer, body, hash) in calls.chain(results) {
            let Some(value) = body.as_ref() else { continue };
            let rule = match which {
                Bodies::All => Some("body".to_owned()),
                Bodies::WithSecrets => self.rule(value, None),
            };
            if let Some(rule) = rule {
                self.values.insert(print(value), hash);
                self.remember(value, hash);
                self.account.redact(turn, &pointer, &rule);
                *body = None;
            }
        }
    }

    /// The first rule that finds a secret in a value.
    fn rule(&self, value: &Value, name: Option<&str>) -> Option<String> {
        match value {
            Value::String(text) => {
                let text = text.as_str()?;
                Some(self.secrets(text, name).into_iter().next()?.rule)
            }
            Value::Array(elements) => {
                let before = std::iter::once(None).chain(elements.iter().map(lists::option));
                let mut named = elements.iter().zip(before);
                let own = named.find_map(|(element, option)| self.rule(element, option.or(name)));
                own.or_else(|| {
                    let broken = lists::broken(self.detector, elements);
                    let mut secrets = broken.into_iter().flat_map(|part| part.secrets);
                    Some(secrets.next()?.rule)
                })
            }
            Value::Object(members) => {
                let label = lists::label(members).or(name);
                members.iter().find_map(|(name, value)| {
                    let label = label.filter(|_| lists::is_value(name));
                    let name = name.as_str().unwrap_or_default();
                    let own = self.detector.find(name).into_iter().next();
                    own.map(|secret| secret.rule)
                        .or_else(|| self.rule(value, label.or(Some(name))))
                })
            }
            _ => None,
        }
    }

    /// Notes the lines of all texts of a body.
    fn remember(&mut self, value: &Value, hash: Digest) {
        match value {
            Value::String(text) => {
                let texts = text.as_str().into_iter().flat_map(str::lines);
                for line in texts.filter_map(comparable) {
                    self.lines.insert(Digest::of(line.as_bytes()), hash);
                }
            }
            Value::Array(elements) => elements
                .iter()
                .for_each(|element| self.remember(element, hash)),
            Value::Object(members) => members
                .iter()
                .for_each(|(_, value)| self.remember(value, hash)),
            _ => {}
        }
    }

    /// Names and ids.
    fn words(&mut self, turn: u64, draft: &mut Draft) {
        let calls = draft.tool_calls.iter_mut().enumerate();
        let calls = calls.flat_map(|(index, call)| {
            let at = |member| format!("/tool_calls/{index}/{member}");
            [(at("id"), &mut call.id), (at("name"), &mut call.name)]
        });
        let results = draft.tool_results.iter_mut().enumerate();
        let results =
            results.map(|(index, result)| (format!("/tool_results/{index}/id"), &mut result.id));
        let model = [
            Some(("/model/vendor".to_owned(), &mut draft.model.vendor)),
            draft
                .model
                .id
                .as_mut()
                .map(|id| ("/model/id".to_owned(), id)),
            draft
                .model
                .fingerprint
                .as_mut()
                .map(|id| ("/model/fingerprint".to_owned(), id)),
        ];
        let model = model.into_iter().flatten();
        for (pointer, word) in calls.chain(results).chain(model) {
            let place = Place { turn, pointer };
            if let Some(redacted) = self.hide(word, None, &place) {
                *word = redacted;
            }
        }
    }

    /// A value after redaction, and the digest of its content before.
    ///
    /// At `level` 0 it is the content of a message. At level 1 it is an item, whose type and id
    /// must stay.
    fn value(
        &mut self,
        value: Value,
        name: Option<&str>,
        level: usize,
        place: &mut Place,
    ) -> (Value, Digest) {
        let (kept, held) = match value {
            Value::String(text) => {
                let held = print_text(&text);
                let stays = level == ITEM + 1 && name.is_some_and(|name| STRUCTURE.contains(&name));
                let redacted = match text.as_str() {
                    Some(text) if stays => self.hide(text, name, place),
                    Some(text) => self.text(text, name, place),
                    None => None,
                };
                if stays {
                    return (redacted.map_or(Value::String(text), Value::from), held);
                }
                (redacted.map_or(Value::String(text), Value::from), held)
            }
            Value::Array(elements) => {
                let (kept, held) = self.elements(elements, name, level, place);
                (Value::Array(kept), print_list(&held))
            }
            Value::Object(members) => {
                let (kept, held) = self.members(members, name, level, place);
                (unique(kept), print_members(held))
            }
            other => {
                let held = print(&other);
                (other, held)
            }
        };
        (self.unless_body(kept, &held, place), held)
    }

    /// The elements of an array after redaction, and the digests of their content before.
    fn elements(
        &mut self,
        elements: Vec<Value>,
        name: Option<&str>,
        level: usize,
        place: &mut Place,
    ) -> (Vec<Value>, Vec<Digest>) {
        let length = place.pointer.len();
        let mut broken = lists::broken(self.detector, &elements)
            .into_iter()
            .peekable();
        let mut held = Vec::with_capacity(elements.len());
        let mut kept = Vec::with_capacity(elements.len());
        let mut option: Option<String> = None;
        for (index, mut element) in elements.into_iter().enumerate() {
            push_segment(&mut place.pointer, &index.to_string());
            let next = lists::option(&element).map(str::to_owned);
            let mut before = None;
            while let Some(part) = broken.next_if(|part| part.element == index) {
                before.get_or_insert_with(|| print(&element));
                for secret in &part.secrets {
                    self.account
                        .redact(place.turn, &place.pointer, &secret.rule);
                }
                part.hide(&mut element);
            }
            let (element, print) =
                self.value(element, option.as_deref().or(name), level + 1, place);
            let print = before.unwrap_or(print);
            kept.push(self.unless_body(element, &print, place));
            held.push(print);
            place.pointer.truncate(length);
            option = next;
        }
        (kept, held)
    }

    /// The members of an object after redaction, and the digests of their content before.
    fn members(
        &mut self,
        members: Members,
        name: Option<&str>,
        level: usize,
        place: &mut Place,
    ) -> (Members, Vec<(Digest, Digest)>) {
        let length = place.pointer.len();
        let label = lists::label(&members).or(name).map(str::to_owned);
        let mut held = Vec::with_capacity(members.len());
        let mut kept = Vec::with_capacity(members.len());
        for (name, value) in members {
            let shown = clean(self.detector, name.as_str().unwrap_or_default()).into_owned();
            push_segment(&mut place.pointer, &shown);
            let label = label.as_deref().filter(|_| lists::is_value(&name));
            let (value, print) = self.value(value, label.or(name.as_str()), level + 1, place);
            held.push((print_text(&name), print));
            let hidden = name.as_str().is_some_and(|name| name != shown);
            if hidden {
                self.account
                    .redact(place.turn, &place.pointer, "name of a member");
            }
            place.pointer.truncate(length);
            kept.push((if hidden { shown.into() } else { name }, value));
        }
        (kept, held)
    }

    /// `value`, unless its content was a removed body.
    fn unless_body(&mut self, value: Value, held: &Digest, place: &Place) -> Value {
        match self.values.get(held) {
            Some(hash) if worth(&value) => {
                let marker = format!("[redacted sha256:{hash}]").into();
                if value != marker {
                    self.account
                        .redact(place.turn, &place.pointer, "repeats a body");
                }
                marker
            }
            _ => value,
        }
    }

    /// A text without lines of removed bodies and without secrets, if it had any.
    fn text(&mut self, text: &str, name: Option<&str>, place: &Place) -> Option<String> {
        let repeated = self.without_lines(text);
        if repeated.is_some() {
            self.account
                .redact(place.turn, &place.pointer, "repeats a body");
        }
        let rest = repeated.as_deref().unwrap_or(text);
        self.hide(rest, name, place).or(repeated)
    }

    fn without_lines(&self, text: &str) -> Option<String> {
        if self.lines.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut found = false;
        for line in text.split_inclusive('\n') {
            let core = line.trim();
            let hash =
                comparable(line).and_then(|line| self.lines.get(&Digest::of(line.as_bytes())));
            match hash {
                Some(hash) => {
                    found = true;
                    let start = line.len() - line.trim_start().len();
                    out.push_str(&line[..start]);
                    out.push_str(&format!("[redacted sha256:{hash}]"));
                    out.push_str(&line[start + core.len()..]);
                }
                None => out.push_str(line),
            }
        }
        found.then_some(out)
    }

    /// `text` without secrets, if there is one.
    fn hide(&mut self, text: &str, name: Option<&str>, place: &Place) -> Option<String> {
        let secrets = self.secrets(text, name);
        for secret in &secrets {
            self.account
                .redact(place.turn, &place.pointer, &secret.rule);
        }
        (!secrets.is_empty()).then(|| without(text, &secrets))
    }

    /// The secrets in a text, also those that a rule recognizes by the name of its member.
    fn secrets(&self, text: &str, name: Option<&str>) -> Vec<Secret> {
        let named = match name {
            Some(name) if !text.is_empty() => format!("{name}=\""),
            _ => return self.detector.find(text),
        };
        let before = named.len();
        let found = self.detector.find(&format!("{named}{text}\""));
        let inside = |secret: Secret| {
            let start = secret.place.start.checked_sub(before)?;
            let end = secret.place.end.checked_sub(before)?.min(text.len());
            let whole = start < end && text.is_char_boundary(start) && text.is_char_boundary(end);
            let place = start..end;
            whole.then_some(Secret { place, ..secret })
        };
        let mut secrets: Vec<Secret> = found.into_iter().filter_map(inside).collect();
        if secrets.is_empty() {
            secrets = self.detector.find(text);
        }
        secrets
    }
}

/// `text` with a marker in the place of each secret.
fn without(text: &str, secrets: &[Secret]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for Secret { place, rule } in secrets {
        let Some(before) = text.get(from..place.start) else {
            continue;
        };
        out.push_str(before);
        out.push_str(&format!("[redacted {rule}]"));
        from = place.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

fn clean<'t>(detector: &dyn Detector, text: &'t str) -> Cow<'t, str> {
    let secrets = detector.find(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(without(text, &secrets))
}

/// A line as it is compared, if it is long enough.
fn comparable(line: &str) -> Option<&str> {
    let line = line.trim();
    (line.chars().take(MIN_REPEATED_LINE).count() == MIN_REPEATED_LINE).then_some(line)
}

/// Whether a value that equals a body is unlikely to equal it by chance.
fn worth(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.as_str().is_none_or(|text| comparable(text).is_some()),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// The digest of a value's content, in any order of members.
fn print(value: &Value) -> Digest {
    match value {
        Value::Null => Digest::of(b"null"),
        Value::Bool(truth) => Digest::of(if *truth { b"true" } else { b"false" }),
        Value::Number(number) => tagged(b'#', number.literal().as_bytes()),
        Value::String(text) => print_text(text),
        Value::Array(elements) => print_list(&elements.iter().map(print).collect::<Vec<_>>()),
        Value::Object(members) => print_members(
            members
                .iter()
                .map(|(name, value)| (print_text(name), print(value)))
                .collect(),
        ),
    }
}

fn print_text(text: &Text) -> Digest {
    tagged(b'"', text.as_bytes())
}

fn print_list(elements: &[Digest]) -> Digest {
    let bytes: Vec<u8> = elements
        .iter()
        .flat_map(|print| *print.as_bytes())
        .collect();
    tagged(b'[', &bytes)
}

fn print_members(mut members: Vec<(Digest, Digest)>) -> Digest {
    members.sort_unstable_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
    let both = members
        .iter()
        .flat_map(|(name, value)| [*name.as_bytes(), *value.as_bytes()]);
    tagged(b'{', &both.flatten().collect::<Vec<_>>())
}

fn tagged(tag: u8, bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(&[tag]);
    hasher.update(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests;
