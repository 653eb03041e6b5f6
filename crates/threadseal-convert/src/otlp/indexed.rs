//! Attributes whose names contain the number of a message and the path into it.
//!
//! ```text
//! llm.input_messages.0.message.role = "user"            [{"role":"user","content":"hi"}]
//! llm.input_messages.0.message.content = "hi"     ─►
//! ^ prefix           ^ path
//! ```

use super::super::account::Reason;
use super::super::source::Node;
use super::super::thread::unique;
use super::super::trace::Part;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use threadseal_core::canon::json::{Text, Value};

/// Deepest nesting of the names of indexed attributes.
const MAX_INDEXED_DEPTH: usize = 16;

/// Indexed attributes of one prefix.
#[derive(Default)]
pub(super) struct Tree<'r, 'a> {
    entries: Vec<Entry<'r, 'a>>,
}

struct Entry<'r, 'a> {
    /// The number of the message.
    number: u32,
    /// The name after the prefix.
    path: String,
    value: Value,
    node: Node<'r, 'a>,
}

#[derive(Default)]
struct Branch {
    leaf: Option<Value>,
    inner: BTreeMap<Segment, Branch>,
}

/// Numbers sort as numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Index(u32),
    Name(String),
}

impl<'r, 'a> Tree<'r, 'a> {
    /// Adds the attribute whose name continues with `path` after the prefix.
    pub(super) fn insert(&mut self, path: &str, value: Value, node: Node<'r, 'a>) {
        let number = path.split('.').next().and_then(|first| first.parse().ok());
        self.entries.push(Entry {
            number: number.unwrap_or_default(),
            path: path.to_owned(),
            value,
            node,
        });
    }

    /// The messages, each with the attributes that it was made of.
    pub(super) fn into_part(mut self, role: &'static str) -> Part<'r, 'a> {
        self.say_once();
        let mut root = Branch::default();
        let mut nodes = Vec::with_capacity(self.entries.len());
        for entry in self.entries {
            root.insert(&entry.path, entry.value);
            nodes.push((entry.number, entry.node));
        }
        let numbers: BTreeSet<u32> = nodes.iter().map(|(number, _)| *number).collect();
        let places: HashMap<u32, usize> = numbers.into_iter().zip(0..).collect();
        let placed = |(number, node)| (places.get(&number).copied().unwrap_or_default(), node);
        Part {
            value: root.into_value(),
            nodes: nodes.into_iter().map(placed).collect(),
            pointer: None,
            role,
        }
    }

    /// Drops the copy of the text that `OpenInference` adds as `content` to several contents.
    fn say_once(&mut self) {
        let mut whole: HashMap<u32, String> = HashMap::new();
        let mut parts: HashMap<u32, BTreeMap<u32, String>> = HashMap::new();
        for entry in &self.entries {
            let Some(text) = entry.value.as_str() else {
                continue;
            };
            let segments: Vec<&str> = entry.path.splitn(MAX_INDEXED_DEPTH, '.').collect();
            match segments.as_slice() {
                [_, "message", "content"] => {
                    whole.insert(entry.number, text.to_owned());
                }
                [_, "message", "contents", place, "message_content", "text"] => {
                    let place = place.parse().unwrap_or_default();
                    parts
                        .entry(entry.number)
                        .or_default()
                        .insert(place, text.to_owned());
                }
                _ => {}
            }
        }
        let said = |(number, texts): (u32, BTreeMap<u32, String>)| {
            let joined: String = texts.into_values().collect();
            (whole.get(&number) == Some(&joined)).then_some(number)
        };
        let twice: HashSet<u32> = parts.into_iter().filter_map(said).collect();
        self.entries.retain(|entry| {
            let repeats =
                twice.contains(&entry.number) && entry.path.contains(".message.contents.");
            if repeats {
                entry.node.retract(Reason::Duplicate);
            }
            !repeats
        });
    }
}

impl Branch {
    fn insert(&mut self, path: &str, value: Value) {
        let mut branch = self;
        for segment in path.splitn(MAX_INDEXED_DEPTH, '.') {
            let segment = match segment.parse() {
                Ok(index) => Segment::Index(index),
                Err(_) => Segment::Name(segment.to_owned()),
            };
            branch = branch.inner.entry(segment).or_default();
        }
        branch.leaf = Some(value);
    }

    /// Lists where all names are numbers. Members that only wrap (`message`, `tool_call`,
    /// `message_content`) become their content.
    fn into_value(self) -> Value {
        if self.inner.is_empty() {
            return self.leaf.unwrap_or(Value::Null);
        }
        if self
            .inner
            .keys()
            .all(|segment| matches!(segment, Segment::Index(_)))
        {
            return Value::Array(self.inner.into_values().map(Self::into_value).collect());
        }
        let mut members: Vec<(Text, Value)> = Vec::new();
        for (segment, branch) in self.inner {
            let name = match segment {
                Segment::Index(index) => index.to_string(),
                Segment::Name(name) => name,
            };
            let value = branch.into_value();
            match (name.as_str(), value) {
                ("message" | "tool_call" | "message_content", Value::Object(inner)) => {
                    members.extend(inner);
                }
                (_, value) => members.push((name.into(), value)),
            }
        }
        if let Some(contents) = members.iter_mut().find(|(name, _)| name == "contents") {
            contents.0 = "content".into();
        }
        unique(members)
    }
}
