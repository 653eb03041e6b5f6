//! Random documents and random spellings of them, for the property tests of this module.

use proptest::prelude::*;
use serde_json::Value;

/// Nested documents with names and strings from every corner of Unicode.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no such number", |f| f.is_finite())
            .prop_map(Value::from),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((string(), inner), 0..24)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Short strings, rich in characters that are escaped or sort specially.
pub(super) fn string() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        any::<char>(),
        prop::char::range('a', 'e'),
        prop::char::range('\u{0}', '\u{7f}'),
        prop::sample::select(vec![
            '"',
            '\\',
            '/',
            '\n',
            '\u{7f}',
            '\u{80}',
            '\u{d7ff}',
            '\u{e000}',
            '\u{ffff}',
            '\u{10000}',
            '\u{10ffff}',
            '\u{2028}',
        ]),
    ];
    prop::collection::vec(character, 0..12).prop_map(|characters| characters.into_iter().collect())
}

/// Writes `value` as JSON, with blanks, escapes, member order and number spelling drawn from
/// `seed`.
pub(super) fn spell(value: &Value, seed: u64) -> String {
    let mut speller = Speller {
        state: seed | 1,
        out: String::new(),
    };
    speller.value(value);
    speller.out
}

struct Speller {
    state: u64,
    out: String,
}

impl Speller {
    /// Xorshift: enough to vary spellings.
    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn blank(&mut self) {
        let blanks = ["", "", "", " ", "\n\t", "\r\n"];
        let index = usize::try_from(self.draw(6)).unwrap();
        self.out.push_str(blanks[index]);
    }

    fn value(&mut self, value: &Value) {
        self.blank();
        match value {
            Value::Array(elements) => {
                self.out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.value(element);
                }
                self.blank();
                self.out.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if self.draw(2) == 0 {
                    members.reverse();
                }
                let middle = usize::try_from(self.draw(members.len() as u64 + 1)).unwrap();
                members.rotate_left(middle);
                self.out.push('{');
                for (index, (name, member)) in members.into_iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.blank();
                    self.string(name);
                    self.blank();
                    self.out.push(':');
                    self.value(member);
                }
                self.blank();
                self.out.push('}');
            }
            Value::String(text) => self.string(text),
            Value::Number(number) if number.is_f64() && self.draw(2) == 0 => {
                let number = number.as_f64().unwrap();
                self.out.push_str(&format!("{number:E}"));
            }
            scalar => self.out.push_str(&scalar.to_string()),
        }
        self.blank();
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let must = matches!(character, '"' | '\\' | '\u{0}'..='\u{1f}');
            match character {
                '/' if self.draw(2) == 0 => self.out.push_str("\\/"),
                '\n' if self.draw(2) == 0 => self.out.push_str("\\n"),
                _ if must || self.draw(4) == 0 => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&if *unit % 2 == 0 {
                            format!("\\u{unit:04x}")
                        } else {
                            format!("\\u{unit:04X}")
                        });
                    }
                }
                _ => self.out.push(character),
            }
        }
        self.out.push('"');
    }
}
