//! Streamed responses: reads their events, and assembles text that arrives in pieces.
//!
//! ```text
//! event: content_block_delta        one event: lines up to a blank one; the text after `data:`
//! data: {"type":…}                  is JSON, or the word [DONE]
//! ```
//! Lines end with LF, CR LF or CR (WHATWG HTML §9.2.6). A last event without its blank line counts,
//! because truncated recordings end so. A stream has the length bound of a line of JSON Lines. The
//! fields `event`, `id`, `retry` and comments add nothing to the data.

use super::super::account::{Account, Reason};
use super::super::fit::push_segment;
use std::collections::HashMap;
use threadseal_core::canon::json::{Text, Value, parse};
use threadseal_core::limits::MAX_LINE_BYTES;

/// Receives the parts of a stream that are not in the assembled response.
pub(super) struct StreamAccount<'x> {
    account: &'x mut Account,
    record: u64,
    pointer: String,
}

impl<'x> StreamAccount<'x> {
    pub(super) fn new(account: &'x mut Account, record: u64) -> Self {
        Self {
            account,
            record,
            pointer: String::new(),
        }
    }

    /// Sets the place of the response in the record.
    pub(super) fn under(&mut self, path: &[&str]) {
        self.pointer.clear();
        for name in path {
            push_segment(&mut self.pointer, name);
        }
    }

    /// Reports that a member called `name` of some event is not in the response.
    pub(super) fn drop_member(&mut self, name: &str, reason: Reason) {
        let mut pointer = self.pointer.clone();
        push_segment(&mut pointer, name);
        self.account.drop_part(self.record, &pointer, reason);
    }

    /// The events of a stream. Data that is no event is reported.
    pub(super) fn events(&mut self, text: &str) -> Vec<Value> {
        let mut all = Vec::new();
        if text.len() > MAX_LINE_BYTES {
            self.account.unmapped(self.record, "stream too long");
            return all;
        }
        for event in events(text) {
            match event {
                Ok(value) => all.push(value),
                Err(reason) => self.account.unmapped(self.record, reason),
            }
        }
        all
    }
}

/// Whether `text` begins as an event stream does.
pub(super) fn looks_like(text: &str) -> bool {
    let text = text.trim_start_matches(['\u{feff}', '\n', '\r', ' ']);
    ["data:", "event:", ":", "id:"]
        .iter()
        .any(|field| text.starts_with(field))
}

/// The events of a stream, or why its data is not an event.
pub(super) fn events(text: &str) -> impl Iterator<Item = Result<Value, &'static str>> {
    let text = text.trim_start_matches('\u{feff}');
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let mut data: Option<String> = None;
        while let Some(here) = rest {
            let (line, after) = split_line(here);
            rest = after;
            match line.split_once(':') {
                Some(("data", value)) => {
                    let value = value.strip_prefix(' ').unwrap_or(value);
                    let data = data.get_or_insert_default();
                    if !data.is_empty() {
                        data.push('\n');
                    }
                    data.push_str(value);
                }
                Some(("event" | "id" | "retry" | "", _)) => {}
                None if line.is_empty() => {
                    if let Some(event) = data.take().as_deref().and_then(event) {
                        return Some(event);
                    }
                }
                _ => return Some(Err("a line of the stream is not a field of an event")),
            }
        }
        data.as_deref().and_then(event)
    })
}

fn event(data: &str) -> Option<Result<Value, &'static str>> {
    match data.trim() {
        "" | "[DONE]" => None,
        data => Some(parse(data.as_bytes()).map_err(|_| "an event of the stream is not JSON")),
    }
}

fn split_line(text: &str) -> (&str, Option<&str>) {
    let Some(end) = text.find(['\n', '\r']) else {
        return (text, None);
    };
    let (line, rest) = text.split_at(end);
    let rest = rest.strip_prefix("\r\n").unwrap_or_else(|| &rest[1..]);
    (line, Some(rest))
}

/// The members of `value`; none if it is no object.
pub(super) fn into_members(value: Value) -> Vec<(Text, Value)> {
    match value {
        Value::Object(members) => members,
        _ => Vec::new(),
    }
}

/// The elements of `value`; none if it is no array.
pub(super) fn into_elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(elements) => elements,
        _ => Vec::new(),
    }
}

/// An object in the making. Appending text costs time linear in its length.
#[derive(Debug, Default)]
pub(super) struct Object {
    members: Vec<(Text, Part)>,
    places: HashMap<Text, usize>,
}

#[derive(Debug)]
enum Part {
    Whole(Value),
    Pieces(String),
}

impl Object {
    /// The object that holds the members of `value`.
    pub(super) fn of(value: Value) -> Self {
        let mut object = Self::default();
        for (name, value) in into_members(value) {
            object.put(name, Part::Whole(value));
        }
        object
    }

    pub(super) fn into_value(self) -> Value {
        let whole = |(name, part)| match part {
            Part::Whole(value) => (name, value),
            Part::Pieces(text) => (name, text.into()),
        };
        Value::Object(self.members.into_iter().map(whole).collect())
    }

    /// The member called `name`, unless it arrives in pieces.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        match &self.members[*self.places.get(&name.into())?].1 {
            Part::Whole(value) => Some(value),
            Part::Pieces(_) => None,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(&name.into())
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.put(name.into(), Part::Whole(value));
    }

    /// Removes the member called `name`, and leaves `null` in its place.
    pub(super) fn take(&mut self, name: &str) -> Value {
        let Some(place) = self.places.get(&name.into()) else {
            return Value::Null;
        };
        match std::mem::replace(&mut self.members[*place].1, Part::Whole(Value::Null)) {
            Part::Whole(value) => value,
            Part::Pieces(text) => text.into(),
        }
    }

    /// Appends `piece` to the string called `name`. A value that is no string counts as empty.
    pub(super) fn append(&mut self, name: &str, piece: &Value) {
        let piece = piece.as_str().unwrap_or_default();
        let Some(place) = self.places.get(&name.into()).copied() else {
            self.put(name.into(), Part::Pieces(piece.to_owned()));
            return;
        };
        let part = &mut self.members[place].1;
        match part {
            Part::Pieces(text) => text.push_str(piece),
            Part::Whole(value) => {
                let mut text = value.as_str().unwrap_or_default().to_owned();
                text.push_str(piece);
                *part = Part::Pieces(text);
            }
        }
    }

    /// Adopts the members of a later event. The last value of a name counts, but `null` never
    /// replaces a value. The account records the others that differ.
    pub(super) fn update(&mut self, later: Vec<(Text, Value)>, told: &mut StreamAccount<'_>) {
        for (name, value) in later {
            let known = self.places.get(&name).map(|place| &self.members[*place].1);
            let differs = match known {
                None | Some(Part::Whole(Value::Null)) => false,
                Some(Part::Whole(known)) => *known != value,
                Some(Part::Pieces(text)) => value.as_str() != Some(text),
            };
            if value.is_null() && known.is_some() {
                continue;
            }
            if differs {
                told.drop_member(name.as_str().unwrap_or("\u{fffd}"), Reason::Superseded);
            }
            self.put(name, Part::Whole(value));
        }
    }

    fn put(&mut self, name: Text, part: Part) {
        match self.places.get(&name) {
            Some(place) => self.members[*place].1 = part,
            None => {
                self.places.insert(name.clone(), self.members.len());
                self.members.push((name, part));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Option<Value>> {
        events(text).map(Result::ok).collect()
    }

    #[test]
    fn events_end_with_a_blank_line_or_the_text_and_any_line_end_will_do() {
        let one = parse(b"{\"a\":1}").unwrap();
        for text in [
            "data: {\"a\":1}\n\ndata: [DONE]\n\n",
            "event: x\r\ndata:{\"a\":1}\r\n\r\n",
            "\u{feff}: hello\rdata: {\rdata: \"a\":1}\r\r",
            "id: 1\nretry: 5\ndata: {\"a\":1}",
        ] {
            assert_eq!(read(text), [Some(one.clone())], "{text:?}");
        }
    }

    #[test]
    fn what_is_no_event_is_told_and_the_rest_is_read() {
        let text = "data: {\n\nnonsense\ndata: 1\n\n";
        assert_eq!(read(text), [None, None, Some(1_u64.into())]);
        let mut account = Account::default();
        assert_eq!(StreamAccount::new(&mut account, 4).events(text).len(), 1);
        assert_eq!(account.unmapped_lines(), 2);
    }

    #[test]
    fn pieces_become_one_text_and_later_members_replace_earlier_ones() {
        let mut account = Account::default();
        let mut told = StreamAccount::new(&mut account, 2);
        told.under(&["response"]);
        let mut object = Object::of(parse(br#"{"t":"a","n":1,"same":2}"#).unwrap());
        object.append("t", &"b".into());
        object.append("new", &"c".into());
        let later = parse(br#"{"n":3,"same":2,"t":null,"x/y":true}"#).unwrap();
        object.update(into_members(later), &mut told);
        let expected = br#"{"t":"ab","n":3,"same":2,"new":"c","x/y":true}"#;
        assert_eq!(object.into_value(), parse(expected).unwrap());
        let dropped: Vec<_> = account.dropped().map(|group| group.pointer).collect();
        assert_eq!(dropped, ["/response/n"]);
    }
}
