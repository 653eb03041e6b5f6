//! Values of JSON, and their texts: as they are, with sorted names, as deterministic CBOR.
//!
//! It shares no code with the product. A number is an integer, or one of the few halves that are named.

use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    /// 0.5.
    Half,
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// An object.
pub(crate) fn map<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Map(
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

impl Value {
    /// Sets a member of an object, in the place of one or behind the others.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        if let Self::Map(members) = self {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some(member) => member.1 = value.into(),
                None => members.push((name.to_owned(), value.into())),
            }
        }
        self
    }

    /// Takes a member away.
    pub(crate) fn remove(&mut self, name: &str) -> &mut Self {
        if let Self::Map(members) = self {
            members.retain(|(known, _)| known != name);
        }
        self
    }

    /// It without some members.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let mut rest = self.clone();
        for name in names {
            rest.remove(name);
        }
        rest
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(members) = self else {
            return None;
        };
        let found = members.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }

    /// The text of a member, or nothing.
    pub(crate) fn text_of(&self, name: &str) -> String {
        match self.get(name) {
            Some(Self::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    /// Without blanks, members as they are.
    pub(crate) fn plain(&self) -> String {
        self.json(false)
    }

    /// Without blanks, members sorted: what both kinds of hashes of JSON cover here.
    pub(crate) fn sorted(&self) -> String {
        self.json(true)
    }

    fn json(&self, sorted: bool) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Int(number) => number.to_string(),
            Self::Half => "0.5".to_owned(),
            Self::Text(text) => quoted(text),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.json(sorted)).collect();
                format!("[{}]", items.join(","))
            }
            Self::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if sorted {
                    members.sort_by(|a, b| a.0.cmp(&b.0));
                }
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("{}:{}", quoted(name), value.json(sorted)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }

    /// As `spec/canon.md` §7 has it.
    pub(crate) fn cbor(&self) -> Vec<u8> {
        match self {
            Self::Null => vec![0xf6],
            Self::Int(number) if *number < 0 => head(1, number.unsigned_abs() - 1),
            Self::Int(number) => head(0, number.unsigned_abs()),
            Self::Half => vec![0xf9, 0x38, 0x00],
            Self::Text(text) => [head(3, text.len() as u64), text.as_bytes().to_vec()].concat(),
            Self::List(items) => {
                let mut out = head(4, items.len() as u64);
                out.extend(items.iter().flat_map(Self::cbor));
                out
            }
            Self::Map(members) => {
                let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = members
                    .iter()
                    .map(|(name, value)| (Self::from(name.as_str()).cbor(), value.cbor()))
                    .collect();
                pairs.sort();
                let mut out = head(5, members.len() as u64);
                out.extend(
                    pairs
                        .into_iter()
                        .flat_map(|(name, value)| [name, value].concat()),
                );
                out
            }
        }
    }
}

/// The shortest head of this number.
fn head(major: u8, number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let (info, width) = match number {
        0..24 => return vec![major << 5 | bytes[7]],
        24..0x100 => (24, 1),
        0x100..0x1_0000 => (25, 2),
        0x1_0000..0x1_0000_0000 => (26, 4),
        _ => (27, 8),
    };
    [&[major << 5 | info], &bytes[8 - width..]].concat()
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
