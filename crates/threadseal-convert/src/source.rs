//! Reads a source so that no part of it can be forgotten.
//!
//! ```text
//! bytes ─► Lines ─► one JSON text each ─► Reading ─► Node … take / read / discard
//!                                            └─ finish: untouched parts go to the account
//! ```
//!
//! A mapping never sees a parsed value directly. It uses [`Node`]s, and every node that it reads,
//! takes or discards is marked. At the end of a record, [`Reading::finish`] walks over it. It
//! reports each untouched member to the [`Account`] as dropped, with its line and JSON Pointer. So
//! a mapping reports every member that it forgets.
//!
//! [`Node::take`] and [`Node::text`] make carried values fit for a scroll. They record in the
//! account where that changed a value.

use super::account::{Account, Alteration, Reason};
use super::fit::{fit, fit_text, push_segment};
use std::cell::RefCell;
use std::collections::HashMap;
use threadseal_core::canon::json::{IrregularityKind, JsonError, Text, Value, parse, parse_python};
use threadseal_core::limits::{MAX_LINE_BYTES, MAX_SOURCE_LINES, MAX_SOURCE_VALUES};

/// Reads the lines of `source`, each a JSON object, and passes them to `each`, one at a time.
pub(super) fn json_lines(
    source: &[u8],
    account: &mut Account,
    mut each: impl FnMut(&mut Account, u64, &Value),
) {
    json_objects(
        source,
        MAX_SOURCE_VALUES,
        account,
        |account, line, value| {
            each(account, line, &value);
        },
    );
}

/// As [`json_texts`]; the account counts a line that is no JSON object as unmapped.
pub(super) fn json_objects(
    source: &[u8],
    most_values: usize,
    account: &mut Account,
    mut each: impl FnMut(&mut Account, u64, Value),
) {
    json_texts(
        source,
        most_values,
        account,
        |account, line, value| match value.as_object() {
            Some(_) => each(account, line, value),
            None => account.unmapped(line, "not a JSON object"),
        },
    );
}

/// Reads the lines of `source`, each one JSON text, and passes them to `each`.
///
/// A line is the text between two bytes 0x0A; a carriage return before one is a blank. Blank lines
/// are skipped. The account counts these lines as unmapped: lines that are not JSON, lines beyond
/// [`MAX_LINE_BYTES`], and lines beyond [`MAX_SOURCE_LINES`]. So are the lines after which all
/// lines together exceed `most_values` values. A mapping that holds all lines at once needs a lower
/// bound.
pub(super) fn json_texts(
    source: &[u8],
    most_values: usize,
    account: &mut Account,
    mut each: impl FnMut(&mut Account, u64, Value),
) {
    let mut number = 0;
    let mut values = 0_usize;
    for line in without_mark(source).split(|byte| *byte == b'\n') {
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        account.records += 1;
        let mut unmapped = |reason: &str| {
            account.lose_record(line.len());
            account.unmapped(number, reason);
        };
        if number > MAX_SOURCE_LINES {
            unmapped("too many lines in the source");
        } else if line.len() > MAX_LINE_BYTES {
            unmapped("line too long");
        } else {
            match read_json(line) {
                Ok(value) => {
                    values = values.saturating_add(count_values(&value));
                    if values > most_values {
                        unmapped("too many values in the source");
                    } else {
                        each(account, number, value);
                    }
                }
                Err(error) => {
                    unmapped(&format!("not JSON: {}", error.kind.words()));
                }
            }
        }
    }
}

/// The value of one JSON text.
///
/// Programs write `NaN`, and lone surrogates where they truncate a text. Both are read, and carried
/// as `fit` converts them. A text with a name that occurs twice in one object is refused: one of
/// its values would be lost without a trace.
///
/// # Errors
/// The errors of the strict reader.
pub(super) fn read_json(text: &[u8]) -> Result<Value, JsonError> {
    let strict = match parse(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let lenient = parse_python(text).ok().filter(|document| {
        let mut notes = document.irregularities.iter();
        !notes.any(|note| note.kind == IrregularityKind::DuplicateKey)
    });
    Ok(lenient.ok_or(strict)?.value)
}

/// A source without the byte order mark that some editors add.
pub(super) fn without_mark(source: &[u8]) -> &[u8] {
    source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source)
}

/// One record of a source while a mapping reads it.
pub(super) struct Reading<'a> {
    line: u64,
    root: &'a Value,
    /// The fate of each value, by its address. The record is borrowed, so no value moves.
    marks: RefCell<HashMap<usize, Mark>>,
    /// The alterations inside a taken value, by the address of that value.
    altered: RefCell<HashMap<usize, Vec<(String, Alteration)>>>,
}

/// One value of a record. Reading its parts does not take it.
#[derive(Clone, Copy)]
pub(super) struct Node<'r, 'a> {
    reading: &'r Reading<'a>,
    value: &'a Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Its parts are reported one by one.
    Entered,
    /// It is in the scroll.
    Taken,
    /// It is not, for this reason.
    Discarded(Reason),
}

impl<'a> Reading<'a> {
    /// A reading of `root`, the record at `line`.
    pub(super) fn new(line: u64, root: &'a Value) -> Self {
        Self {
            line,
            root,
            marks: RefCell::default(),
            altered: RefCell::default(),
        }
    }

    /// The whole record.
    pub(super) fn root(&self) -> Node<'_, 'a> {
        Node {
            reading: self,
            value: self.root,
        }
    }

    /// Records in `account` the values that were altered, discarded, or never touched.
    pub(super) fn finish(self, account: &mut Account) {
        let walk = Walk {
            line: self.line,
            marks: self.marks.into_inner(),
            altered: self.altered.into_inner(),
        };
        walk.tell(self.root, &mut String::new(), account);
    }

    /// Records in `account` that the whole record is not mapped, and why.
    pub(super) fn refuse(self, reason: &str, account: &mut Account) {
        account.lose_record(weight(self.root));
        account.unmapped(self.line, reason);
    }

    fn mark(&self, value: &'a Value, mark: Mark) {
        let mut marks = self.marks.borrow_mut();
        let place = marks.entry(address(value)).or_insert(mark);
        if mark != Mark::Entered {
            *place = mark;
        }
    }

    fn note(&self, value: &'a Value, pointer: &str, how: Alteration) {
        let mut altered = self.altered.borrow_mut();
        let notes = altered.entry(address(value)).or_default();
        notes.push((pointer.to_owned(), how));
    }
}

impl<'r, 'a> Node<'r, 'a> {
    /// The member called `name`, if this is an object that has one.
    pub(super) fn get(self, name: &str) -> Option<Self> {
        if self.value.as_object().is_some() {
            self.reading.mark(self.value, Mark::Entered);
        }
        self.value.get(name).map(|value| self.part(value))
    }

    /// The elements, if this is an array.
    pub(super) fn items(self) -> Option<impl Iterator<Item = Self>> {
        let elements = self.value.as_array()?;
        self.reading.mark(self.value, Mark::Entered);
        Some(elements.iter().map(move |element| self.part(element)))
    }

    /// The members, if this is an object.
    pub(super) fn members(self) -> Option<impl Iterator<Item = (&'a Text, Self)>> {
        let members = self.value.as_object()?;
        self.reading.mark(self.value, Mark::Entered);
        Some(
            members
                .iter()
                .map(move |(name, value)| (name, self.part(value))),
        )
    }

    /// The value, for inspection only; it counts as untouched.
    pub(super) fn peek(self) -> &'a Value {
        self.value
    }

    /// The value for the scroll, made fit; it counts as taken, whole.
    pub(super) fn take(self) -> Value {
        self.reading.mark(self.value, Mark::Taken);
        let mut note = |pointer: &str, how| self.reading.note(self.value, pointer, how);
        fit(self.value, &mut String::new(), &mut note)
    }

    /// The object in the JSON of this string, made fit; it counts as taken. Only blanks and escapes
    /// of the string are lost.
    pub(super) fn take_spelled(self) -> Option<Value> {
        let text = self.value.as_str()?;
        let value = parse(text.as_bytes()).ok()?;
        value.as_object()?;
        self.reading.mark(self.value, Mark::Taken);
        let mut note = |pointer: &str, how| self.reading.note(self.value, pointer, how);
        Some(fit(&value, &mut String::new(), &mut note))
    }

    /// The value, for a mapping that converts it to another form; it counts as taken.
    pub(super) fn read(self) -> &'a Value {
        self.reading.mark(self.value, Mark::Taken);
        self.value
    }

    /// The string for the scroll, made fit, if this is one; it counts as taken.
    pub(super) fn text(self) -> Option<String> {
        let Value::String(text) = self.value else {
            return None;
        };
        self.reading.mark(self.value, Mark::Taken);
        let (fitted, lone) = fit_text(text);
        if lone {
            self.reading.note(self.value, "", Alteration::LoneSurrogate);
        }
        Some(fitted)
    }

    /// `held`, the JSON in this string, made fit; the string counts as taken.
    pub(super) fn take_held(self, held: &Value) -> Value {
        self.reading.mark(self.value, Mark::Taken);
        let mut note = |pointer: &str, how| self.reading.note(self.value, pointer, how);
        fit(held, &mut String::new(), &mut note)
    }

    /// Records that the value, taken for a comparison, is not in the scroll after all.
    pub(super) fn retract(self, reason: Reason) {
        self.reading.mark(self.value, Mark::Discarded(reason));
    }

    /// Records that the value is not in the scroll, and why. A value that was taken stays taken.
    pub(super) fn discard(self, reason: Reason) {
        if self.mark() != Some(Mark::Taken) {
            self.reading.mark(self.value, Mark::Discarded(reason));
        }
    }

    /// Whether it was taken, entered or discarded before.
    pub(super) fn is_marked(self) -> bool {
        self.mark().is_some()
    }

    /// [`Self::peek`] at the string member `name`.
    pub(super) fn peek_str(self, name: &str) -> Option<&'a str> {
        self.value.get(name)?.as_str()
    }

    /// [`Self::text`] of the member `name`.
    pub(super) fn text_of(self, name: &str) -> Option<String> {
        self.get(name)?.text()
    }

    /// [`Self::take`] of the member `name`, unless it is `null`.
    pub(super) fn take_of(self, name: &str) -> Option<Value> {
        let node = self.get(name)?;
        (!node.value.is_null()).then(|| node.take())
    }

    /// The integer member `name`; it counts as taken.
    pub(super) fn u64_of(self, name: &str) -> Option<u64> {
        let node = self.get(name)?;
        let value = node.value.as_u64()?;
        self.reading.mark(node.value, Mark::Taken);
        Some(value)
    }

    /// The truth value of the member `name`; it counts as taken.
    pub(super) fn bool_of(self, name: &str) -> Option<bool> {
        let node = self.get(name)?;
        let value = node.value.as_bool()?;
        self.reading.mark(node.value, Mark::Taken);
        Some(value)
    }

    /// [`Self::discard`] of those members in `names` that exist.
    pub(super) fn discard_all(self, names: &[&str], reason: Reason) {
        for name in names {
            if let Some(node) = self.get(name) {
                node.discard(reason);
            }
        }
    }

    /// The string member `name`, which selects a rule of the mapping.
    pub(super) fn told_by(self, name: &str) -> Option<&'a str> {
        let node = self.get(name)?;
        let text = node.value.as_str()?;
        node.discard(Reason::Form);
        Some(text)
    }

    fn mark(self) -> Option<Mark> {
        self.reading
            .marks
            .borrow()
            .get(&address(self.value))
            .copied()
    }

    fn part(self, value: &'a Value) -> Self {
        Self { value, ..self }
    }
}

/// The number of values, including those that a string may spell.
///
/// [`Node::take_spelled`] makes about one value of each comma in a string.
fn count_values(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) if text.as_bytes().starts_with(b"{") => {
            memchr::memchr_iter(b',', text.as_bytes()).count()
        }
        Value::Array(elements) => elements.iter().map(count_values).sum(),
        Value::Object(members) => members.iter().map(|(_, value)| count_values(value)).sum(),
        _ => 0,
    };
    inside + 1
}

/// The approximate size of `value` as text, in bytes.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.as_bytes().len() + 3,
        Value::Number(number) => number.literal().len() + 1,
        Value::Array(elements) => elements.iter().map(weight).sum::<usize>() + 2,
        Value::Object(members) => {
            let member = |(name, value): &(Text, Value)| name.as_bytes().len() + 4 + weight(value);
            members.iter().map(member).sum::<usize>() + 2
        }
        _ => 5,
    }
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// The state of a record after its mapping.
struct Walk {
    line: u64,
    marks: HashMap<usize, Mark>,
    altered: HashMap<usize, Vec<(String, Alteration)>>,
}

impl Walk {
    /// Reports each part of `value` that is not in the scroll unchanged, outermost first.
    fn tell(&self, value: &Value, pointer: &mut String, account: &mut Account) {
        let mut dropped = |reason| account.drop_part(self.line, pointer, reason);
        match self.marks.get(&address(value)) {
            Some(Mark::Taken) => self.tell_altered(value, pointer, account),
            Some(Mark::Discarded(reason)) => dropped(*reason),
            Some(Mark::Entered) | None if says_nothing(value) => dropped(Reason::Empty),
            Some(Mark::Entered) => self.tell_parts(value, pointer, account),
            None => {
                dropped(Reason::Unknown);
                account.lose(weight(value));
            }
        }
    }

    fn tell_altered(&self, value: &Value, pointer: &str, account: &mut Account) {
        for (rest, how) in self.altered.get(&address(value)).into_iter().flatten() {
            account.alter(self.line, &format!("{pointer}{rest}"), *how);
        }
    }

    fn tell_parts(&self, value: &Value, pointer: &mut String, account: &mut Account) {
        let length = pointer.len();
        let mut tell = |name: &str, part: &Value| {
            push_segment(pointer, name);
            self.tell(part, pointer, account);
            pointer.truncate(length);
        };
        match value {
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    tell(&index.to_string(), element);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    tell(&fit_text(name).0, member);
                }
            }
            _ => {}
        }
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.as_bytes().is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(account: &Account) -> Vec<(String, String)> {
        let group = |group: super::super::account::Group<'_>| {
            (group.pointer.to_owned(), group.reason.to_owned())
        };
        account.dropped().map(group).collect()
    }

    fn pair(pointer: &str, reason: &str) -> (String, String) {
        (pointer.to_owned(), reason.to_owned())
    }

    #[test]
    fn what_a_mapping_does_not_take_is_told_with_its_pointer() {
        let source = br#"{"type":"x","m":{"text":"hi","new":{"deep":1},"none":null},
            "list":[{"a":1},{"b/c":2}],"cwd":"/","never":"asked"}"#;
        let value = parse(source).unwrap();
        let reading = Reading::new(7, &value);
        let root = reading.root();
        assert_eq!(root.told_by("type"), Some("x"));
        assert_eq!(root.get("m").unwrap().text_of("text").unwrap(), "hi");
        root.discard_all(&["cwd", "absent"], Reason::Metadata);
        for item in root.get("list").unwrap().items().unwrap() {
            let _ = item.u64_of("a");
            let _ = item.peek();
        }
        let mut account = Account::default();
        reading.finish(&mut account);
        assert_eq!(
            dropped(&account),
            [
                pair("/cwd", "metadata"),
                pair("/list/1/b~1c", "unknown member"),
                pair("/m/new", "unknown member"),
                pair("/m/none", "empty"),
                pair("/never", "unknown member"),
                pair("/type", "form"),
            ]
        );
        assert_eq!(account.dropped().next().unwrap().lines.ranges(), [(7, 7)]);
    }

    #[test]
    fn a_record_that_nobody_looked_at_is_dropped_whole() {
        let value = parse(b"{\"a\":1}").unwrap();
        let mut account = Account::default();
        Reading::new(1, &value).finish(&mut account);
        assert_eq!(dropped(&account), [pair("", "unknown member")]);
    }

    #[test]
    fn asking_for_parts_of_what_was_taken_does_not_give_it_back() {
        let value = parse(b"{\"a\":{\"b\":1,\"c\":2}}").unwrap();
        let reading = Reading::new(1, &value);
        let a = reading.root().get("a").unwrap();
        let _ = a.take();
        let _ = a.u64_of("b");
        let mut account = Account::default();
        reading.finish(&mut account);
        assert_eq!(dropped(&account), []);
    }

    #[test]
    fn an_alteration_is_told_with_the_pointer_from_the_record() {
        let value = parse(b"{\"a\":[0,{\"n\":12345678901234567890}]}").unwrap();
        let reading = Reading::new(3, &value);
        let taken = reading.root().get("a").unwrap().take();
        assert_eq!(
            taken.as_array().unwrap()[1].get("n").unwrap().as_str(),
            Some("12345678901234567890")
        );
        let mut account = Account::default();
        reading.finish(&mut account);
        let altered = account.altered().next().unwrap();
        assert_eq!(
            (altered.pointer, altered.reason),
            ("/a/1/n", "inexact number")
        );
    }

    #[test]
    fn bad_lines_are_told_by_number_and_reason_and_the_rest_is_read() {
        let mut source = b"\n{\"a\":1}\r\n{\"a\":\n[1]\n \t\n{\"b\":2}".to_vec();
        source.extend_from_slice(b"\n\xff\n{\"a\":1,\"a\":2}\n");
        source.extend_from_slice(&[b'['; 200]);
        let mut account = Account::default();
        let mut seen = Vec::new();
        json_lines(&source, &mut account, |_, line, _| seen.push(line));
        assert_eq!(seen, [2, 6]);
        assert_eq!((account.records, account.unmapped_lines()), (7, 5));
        let reasons: Vec<_> = account.not_mapped().map(|group| group.reason).collect();
        assert_eq!(
            reasons,
            [
                "not JSON: duplicate key",
                "not JSON: ends inside a value",
                "not JSON: nested too deep",
                "not JSON: not UTF-8",
                "not a JSON object",
            ]
        );
    }
}
