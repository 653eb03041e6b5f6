//! What mappings of documents share: the head of a session, items out of free-form content, and
//! who answered.
//!
//! A document says some things once for all turns (the session, the tools, the totals). They go
//! into the `source` item of the first turn; where a document has no turn at all, into that of a
//! turn of role `system` that says nothing else.

use super::Mapped;
use super::account::{Account, Tokens};
use super::build::Build;
use super::draft::{Draft, Source, text_item};
use super::fit::fit_text;
use super::source::{Node, read_json, without_mark};
use std::collections::{BTreeMap, HashMap, HashSet};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

/// Words of items that mean something in a scroll, and of which a source has no say.
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

    /// What is said for all turns: it goes into the `source` item of the next one.
    pub(super) fn head(&mut self) -> &mut Source {
        self.head.get_or_insert_with(|| Source::new(self.format))
    }

    /// Adds to a list that is said for all turns.
    pub(super) fn head_list(&mut self, name: &str, more: Vec<Value>) {
        self.lists.entry(name.to_owned()).or_default().extend(more);
    }

    /// A `source` item for a turn that stands in these records.
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

    /// Counts tokens and tells them in `source`.
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

    /// All turns, with what the source left out.
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
/// What [`read_json`] refuses.
pub(super) fn document(source: &[u8]) -> Result<Value, Error> {
    Ok(read_json(without_mark(source))?)
}

/// Who offers a model that is spelled `vendor/model`; otherwise nobody knows.
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

/// Adds to `item` each member of `node` that says something, as it stands, but those called
/// `except` and those that the item has.
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

/// The item of one block; a block that says nothing has none.
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

/// The item of something that has no word of its own.
pub(super) fn part_item(part: Node<'_, '_>) -> Value {
    let mut item = Value::Object(vec![("type".into(), "part".into())]);
    extend(&mut item, "part", Some(part.take()));
    item
}

/// An object in which no name occurs twice: of two, the later has its number behind its name.
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

/// The digest of what a value holds.
pub(super) fn fingerprint(value: &Value) -> Digest {
    Digest::of(&python::rye(value))
}

/// Whether a value holds nothing that somebody could miss.
pub(super) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.as_bytes().is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
