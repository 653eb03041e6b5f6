//! Secrets that a list breaks into parts, and values whose names are beside them.
//!
//! ```text
//! [A, B, C]                      texts are searched as one, a line feed between them
//! [{"m":A}, {"m":B}]             so are those of one member of several objects
//! ["--token", A]                 A is searched as token="A"
//! {"name":N, "value":A}          A is searched as N="A"; also {"key":N, "value":{"stringValue":A}}
//! ```
//! A private key may have its lines as elements, and a command its words. No single element then
//! shows the secret. A secret that crosses a joint is hidden in each of its parts.

use super::{Detector, STRUCTURE, Secret, without};
use std::collections::HashMap;
use std::ops::Range;
use threadseal_core::canon::json::{Text, Value};

/// Most bytes of an option that names the next element.
const MAX_OPTION_BYTES: usize = 64;
/// Members whose text names the value beside it.
const NAMES: [&str; 3] = ["name", "key", "header"];
/// Members that contain such a value.
const VALUES: [&str; 3] = ["value", "stringValue", "string_value"];

/// Parts of secrets in one text of a list.
pub(super) struct Part {
    /// The element.
    pub(super) element: usize,
    /// The member of the element, or `None` for the element itself.
    member: Option<usize>,
    /// The places in the text.
    pub(super) secrets: Vec<Secret>,
}

/// One text of a list: its element, the member of that, and the text.
type ListText<'a> = (usize, Option<usize>, &'a str);

/// The parts of secrets that cross elements.
pub(super) fn broken(detector: &dyn Detector, elements: &[Value]) -> Vec<Part> {
    let mut lists: HashMap<Option<&Text>, Vec<ListText<'_>>> = HashMap::new();
    for (element, value) in elements.iter().enumerate() {
        if let Some(text) = value.as_str() {
            lists.entry(None).or_default().push((element, None, text));
        }
        let members = value.as_object().unwrap_or_default();
        for (place, (name, value)) in members.iter().enumerate() {
            let structure = name.as_str().is_some_and(|name| STRUCTURE.contains(&name));
            if let Some(text) = value.as_str().filter(|_| !structure) {
                let list = lists.entry(Some(name)).or_default();
                list.push((element, Some(place), text));
            }
        }
    }
    let mut parts: Vec<Part> = lists
        .into_values()
        .filter(|texts| texts.len() > 1)
        .flat_map(|texts| parts(detector, &texts))
        .collect();
    parts.sort_by_key(|part| (part.element, part.member));
    parts
}

fn parts(detector: &dyn Detector, texts: &[ListText<'_>]) -> Vec<Part> {
    let mut all = String::new();
    let mut places: Vec<Range<usize>> = Vec::with_capacity(texts.len());
    for (_, _, text) in texts {
        places.push(all.len()..all.len() + text.len());
        all.push_str(text);
        all.push('\n');
    }
    let inside = |secret: &Secret, place: &Range<usize>| {
        let start = secret.place.start.max(place.start);
        let end = secret.place.end.min(place.end);
        (start < end).then(|| start - place.start..end - place.start)
    };
    let mut found: Vec<Vec<Secret>> = vec![Vec::new(); texts.len()];
    for secret in detector.find(&all) {
        let first = places.partition_point(|place| place.end <= secret.place.start);
        let reached = places.iter().enumerate().skip(first);
        let reached = reached.take_while(|(_, place)| place.start < secret.place.end);
        let touched = reached.filter_map(|(index, place)| Some((index, inside(&secret, place)?)));
        let touched: Vec<_> = touched.collect();
        // A secret inside one text is found there, unless another text identifies it.
        if let [(index, place)] = touched.as_slice() {
            let text = texts.get(*index).map_or("", |(_, _, text)| text);
            let overlaps =
                |own: &Secret| own.place.start < place.end && place.start < own.place.end;
            if detector.find(text).iter().any(overlaps) {
                continue;
            }
        }
        for (index, place) in touched {
            let rule = secret.rule.clone();
            if let Some(list) = found.get_mut(index) {
                list.push(Secret { place, rule });
            }
        }
    }
    let found = texts.iter().zip(found);
    let found = found.filter(|(_, secrets)| !secrets.is_empty());
    found
        .map(|((element, member, _), secrets)| Part {
            element: *element,
            member: *member,
            secrets,
        })
        .collect()
}

impl Part {
    /// Removes the secrets from the element.
    pub(super) fn hide(&self, element: &mut Value) {
        let text = match (self.member, element) {
            (Some(member), Value::Object(members)) => {
                members.get_mut(member).map(|(_, value)| value)
            }
            (_, element) => Some(element),
        };
        if let Some(value) = text {
            let hidden = value.as_str().map(|text| without(text, &self.secrets));
            *value = hidden.map_or(Value::Null, Value::from);
        }
    }
}

/// The name that a command option gives to the next word.
pub(super) fn option(element: &Value) -> Option<&str> {
    let word = element
        .as_str()
        .filter(|word| word.len() <= MAX_OPTION_BYTES)?;
    let name = word.strip_prefix('-')?.trim_start_matches('-');
    (!name.is_empty()).then_some(name)
}

/// The text in `members` that names the value beside it.
pub(super) fn label(members: &[(Text, Value)]) -> Option<&str> {
    let has_value = members.iter().any(|(name, _)| is_value(name));
    let names =
        |(name, _): &&(Text, Value)| name.as_str().is_some_and(|name| NAMES.contains(&name));
    let (_, label) = members.iter().find(names).filter(|_| has_value)?;
    label.as_str().filter(|label| !STRUCTURE.contains(label))
}

/// Whether a member of this name is a value that a text beside or around it names.
pub(super) fn is_value(name: &Text) -> bool {
    name.as_str().is_some_and(|name| VALUES.contains(&name))
}
