//! Parts that the mappings of documents share: the head of a session, items from free-form content,
//! and vendors.
//!
//! A document states some facts once for all turns (the session, the tools, the totals). They go
//! into the `source` item of the first turn. If a document has no turn, they go into a turn of role
//! `system` without other content.

use super::account::{Account, Tokens};
use super::build::{Build, rfc3339_ns};
use super::draft::{Draft, Source, text_item};
use super::fit::fit_text;
use super::mapped::Mapped;
use super::source::{Node, Reading, json_lines, read_json, without_mark};
use std::collections::{BTreeMap, HashMap, HashSet};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

/// Types of items with a meaning in a scroll, which a source must not set.
const RESERVED: [&str; 6] = [
    "source",
    "thinking",
    "redacted_thinking",
    "tool_call",
    "tool_result",
    "part",
];

/// The turns of one document while it is read.
#[derive(Debug)]
pub(super) struct Thread {
    format: &'static str,
    head: Option<Source>,
    lists: BTreeMap<String, Vec<Value>>,
    tokens: Tokens,
    build: Build,
}

impl Thread {
    /// No turns yet, of the mapping called `format`.
    pub(super) fn new(format: &'static str) -> Self {
        Self {
            format,
            head: None,
            lists: BTreeMap::new(),
            tokens: Tokens::default(),
            build: Build::default(),
        }
    }

    /// The facts for all turns, for the `source` item of the next turn.
    pub(super) fn head(&mut self) -> &mut Source {
        self.head.get_or_insert_with(|| Source::new(self.format))
    }

    /// Adds to a list of facts for all turns.
    pub(super) fn head_list(&mut self, name: &str, more: Vec<Value>) {
        self.lists.entry(name.to_owned()).or_default().extend(more);
    }

    /// A `source` item for a turn made of these records.
    pub(super) fn source(&self, records: &[u64]) -> Source {
        let mut source = Source::new(self.format);
        if !records.is_empty() {
            let records = records.iter().map(|record| Value::from(*record));
            source.set("lines", Value::Array(records.collect()));
        }
        source
    }

    /// Counts tokens that belong to no single turn.
    pub(super) fn count(&mut self, tokens: Tokens) {
        self.tokens.add(tokens);
    }

    /// Counts tokens and sets them in `source`.
    pub(super) fn spend(&mut self, source: &mut Source, tokens: Tokens) {
        if tokens != Tokens::default() {
            self.tokens.add(tokens);
            source.set_tokens(tokens);
        }
    }

    /// Adds a turn.
    pub(super) fn push(&mut self, mut draft: Draft, mut source: Source) -> usize {
        if let Some(head) = self.head.take() {
            source.absorb(head);
        }
        for (name, list) in std::mem::take(&mut self.lists) {
            source.set(&name, Value::Array(list));
        }
        draft.close(source);
        self.build.push(&draft)
    }

    /// All turns, with defaults for missing fields.
    pub(super) fn finish(mut self, mut account: Account) -> Mapped {
        if self.head.is_some() || !self.lists.is_empty() {
            let head = self.source(&[]);
            self.push(Draft::new(Role::System, ""), head);
        }
        account.tokens = self.tokens;
        self.build.finish(account)
    }
}

/// Maps each line of `source`, a JSON object. An error of `map` is why the line is unmapped.
pub(super) fn each_line(
    source: &[u8],
    account: &mut Account,
    mut map: impl FnMut(Node<'_, '_>, u64) -> Result<(), String>,
) {
    json_lines(source, account, |account, line, value| {
        one_record(line, value, account, &mut map);
    });
}

/// The same for the elements of a list, counted from 1.
pub(super) fn each_element(
    list: &[Value],
    account: &mut Account,
    mut map: impl FnMut(Node<'_, '_>, u64) -> Result<(), String>,
) {
    for (number, value) in (1..).zip(list) {
        account.records += 1;
        if value.as_object().is_some() {
            one_record(number, value, account, &mut map);
        } else {
            account.unmapped(number, "not a JSON object");
        }
    }
}

fn one_record(
    number: u64,
    value: &Value,
    account: &mut Account,
    map: &mut impl FnMut(Node<'_, '_>, u64) -> Result<(), String>,
) {
    let reading = Reading::new(number, value);
    match map(reading.root(), number) {
        Ok(()) => reading.finish(account),
        Err(reason) => reading.refuse(&reason, account),
    }
}

/// Why a record is not mapped. A long kind is truncated.
pub(super) fn unknown_kind(what: &str, kind: Option<&Value>) -> String {
    const SHOWN: usize = 48;
    match kind.and_then(Value::as_str) {
        Some(kind) => {
            let shown: String = kind.chars().take(SHOWN).collect();
            format!("unknown kind of {what}: {shown}")
        }
        None => format!("a {what} without kind"),
    }
}

/// Sets members of `source` from text members of `node`: name here, name there.
pub(super) fn set_texts(source: &mut Source, node: Node<'_, '_>, names: &[(&str, &str)]) {
    for (ours, theirs) in names {
        let text = node.text_of(theirs).filter(|text| !text.is_empty());
        source.set_some(ours, text);
    }
}

/// Sets members of `source` from members of `node` with any content.
pub(super) fn set_values(source: &mut Source, node: Node<'_, '_>, names: &[(&str, &str)]) {
    for (ours, theirs) in names {
        let value = node.get(theirs).filter(|value| !says_nothing(value.peek()));
        source.set_some(ours, value.map(Node::take));
    }
}

/// Sets `time` and the moment of a turn from the RFC 3339 member `name`.
pub(super) fn set_time(draft: &mut Draft, source: &mut Source, node: Node<'_, '_>, name: &str) {
    if let Some(time) = node.text_of(name) {
        draft.timestamp_ns = rfc3339_ns(&time);
        source.set("time", time.into());
    }
}

/// Nanoseconds since 1970 of a moment in milliseconds.
pub(super) fn ms_to_ns(ms: &Value) -> Option<u64> {
    const NS_IN_MS: u64 = 1_000_000;
    ms.as_u64()?.checked_mul(NS_IN_MS)
}

/// Nanoseconds of `seconds` since 1970, to the microsecond: a double holds no more digits in this
/// century.
pub(super) fn seconds_ns(seconds: f64) -> Option<u64> {
    const NS_IN_SECOND: u64 = 1_000_000_000;
    const NS_IN_MICROSECOND: u64 = 1_000;
    let moment = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
    let whole = u64::try_from(moment.as_secs())
        .ok()?
        .checked_mul(NS_IN_SECOND)?;
    let rest = u64::try_from(moment.subsec_nanos()).ok()?;
    whole.checked_add(rest / NS_IN_MICROSECOND * NS_IN_MICROSECOND)
}

/// The count in the member `name`, or 0.
pub(super) fn count_of(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// The sum of the counts in the members `names`.
pub(super) fn sum_of(value: &Value, names: &[&str]) -> u64 {
    let counts = names.iter().map(|name| count_of(value, name));
    counts.fold(0, u64::saturating_add)
}

/// The value of a source that is one JSON text.
///
/// # Errors
/// Those of [`read_json`].
pub(super) fn document(source: &[u8]) -> Result<Value, Error> {
    Ok(read_json(without_mark(source))?)
}

/// The vendor of a model that is spelled `vendor/model`; otherwise unknown.
pub(super) fn vendor_of(model: &str) -> &str {
    model.split_once('/').map_or("", |(vendor, _)| vendor)
}

/// Adds a member to an item that has none of that name.
pub(super) fn extend(item: &mut Value, name: &str, value: Option<Value>) {
    if let (Value::Object(members), Some(value)) = (item, value)
        && !members.iter().any(|(known, _)| known == name)
    {
        members.push((name.into(), value));
    }
}

/// Adds each non-empty member of `node` to `item`, unchanged. It skips the members in `except` and
/// those that the item has.
pub(super) fn take_rest(node: Node<'_, '_>, item: &mut Value, except: &[&str]) {
    let Value::Object(members) = item else { return };
    let own = members.len();
    for (name, part) in node.members().into_iter().flatten() {
        let (name, _) = fit_text(name);
        let taken = |(known, _): &(Text, Value)| *known == *name;
        let known = except.contains(&name.as_str()) || members.iter().take(own).any(taken);
        if !known && !says_nothing(part.peek()) {
            members.push((name.into(), part.take()));
        }
    }
}

/// The items of free-form content: a string, a list of strings and blocks, or anything else.
pub(super) fn content_items(content: Node<'_, '_>) -> Vec<Value> {
    match content.peek() {
        Value::Null => Vec::new(),
        Value::String(text) if text.as_bytes().is_empty() => Vec::new(),
        Value::String(_) => content.text().map(text_item).into_iter().collect(),
        Value::Array(_) => {
            let blocks = content.items().into_iter().flatten();
            blocks.filter_map(block_item).collect()
        }
        _ => vec![part_item(content)],
    }
}

/// The item of one block; an empty block has none.
pub(super) fn block_item(block: Node<'_, '_>) -> Option<Value> {
    let value = block.peek();
    if says_nothing(value) {
        return None;
    }
    if value.as_str().is_some() {
        return block.text().map(text_item);
    }
    let kind = value.get("type").and_then(Value::as_str);
    let text = value
        .get("text")
        .is_some_and(|text| text.as_str().is_some());
    match kind {
        Some("text") if text => {
            let _ = block.told_by("type");
            let mut item = text_item(block.text_of("text")?);
            take_rest(block, &mut item, &["type", "text"]);
            Some(item)
        }
        Some(kind) if !RESERVED.contains(&kind) && kind != "text" => Some(block.take()),
        _ => Some(part_item(block)),
    }
}

/// The item of a part without a type of its own.
pub(super) fn part_item(part: Node<'_, '_>) -> Value {
    let mut item = Value::Object(vec![("type".into(), "part".into())]);
    extend(&mut item, "part", Some(part.take()));
    item
}

/// An object without duplicate names: of two members, the later gets its number after its name.
pub(super) fn unique(members: Vec<(Text, Value)>) -> Value {
    let mut names: HashSet<Text> = HashSet::with_capacity(members.len());
    let mut times: HashMap<Text, u64> = HashMap::new();
    let mut kept = Vec::with_capacity(members.len());
    for (name, value) in members {
        let mut own = name.clone();
        while !names.insert(own.clone()) {
            let times = times.entry(name.clone()).or_insert(1);
            *times += 1;
            own = format!("{} #{times}", name.as_str().unwrap_or_default()).into();
        }
        kept.push((own, value));
    }
    Value::Object(kept)
}

/// The digest of a value's content.
pub(super) fn fingerprint(value: &Value) -> Digest {
    Digest::of(&python::rye(value))
}

/// Whether a value has no content that a reader could miss.
pub(super) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.as_bytes().is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
