//! Parts that the mappings of documents share: the head of a session, items from free-form content,
//! and vendors.
//!
//! A document states some facts once for all turns (the session, the tools, the totals). They go
//! into the `source` item of the first turn. If a document has no turn, they go into a turn of role
//! `system` without other content.

use super::account::{Account, Tokens};
use super::build::Build;
use super::draft::{Draft, Source, text_item};
use super::fit::fit_text;
use super::mapped::Mapped;
use super::source::{Node, read_json, without_mark};
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
