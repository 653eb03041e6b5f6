//! Random documents and random spellings of them, for the property tests of this module.

#![allow(clippy::unwrap_used, reason = "only tests draw from here")]

use proptest::prelude::*;
use serde_json::Value;

/// Lines as agents write them, and texts dense with the features of the grammar.
pub(super) const LINES: [&str; 6] = [
    r#"{"timestamp": 1739820456.1234567, "thread_id": "agency-kiwi/discover_leads-1739820456", "event_type": "cognition_in", "payload": {"text": "List \"leads\" in C:\\tmp\n\u2028 caf\u00e9 \ud83e\udd80", "role": "user"}}"#,
    r#"{"timestamp": 1739820457.5, "thread_id": "t", "event_type": "checkpoint", "payload": {"turn": 1, "byte_offset": 1069, "hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "sig": "AAAA==", "fp": "0123456789abcdef"}}"#,
    r#"{"a":[1,-2,3.5,4e5,-0.0,1E-7,true,false,null,[],{},[[]],{"":{}}]}"#,
    r#"{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9,"k10":10,"k11":11,"k12":12,"k13":13,"k14":14,"k15":15,"k16":16,"k17":17}"#,
    "[\"\u{e9}\u{fffd}\u{1f980}\",\"\\u00e9\",\"\\b\\f\\n\\r\\t\\/\\\\\\\"\",1e308,12345678901234567890]",
    " [ {\"tool\" : \"bash\", \"arguments\" : {\"command\" : \"ls -la /tmp\"}} ,\t1 ]\r\n",
];

/// A spelling of a random document or a realistic line, with a few bytes changed.
///
/// Most new bytes have a meaning in the grammar.
pub fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let base = prop_oneof![
        prop::sample::select(&LINES[..]).prop_map(str::to_owned),
        (value(), any::<u64>()).prop_map(|(v, s)| spell(&v, s)),
    ];
    let pieces: Vec<&[u8]> = vec![
        b"\"",
        b"\\",
        b"\\u",
        b"\\ud800",
        b"\\udc00",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"0",
        b"-",
        b".",
        b"e",
        b"9999",
        b"e999",
        b" ",
        b"\n",
        b"\0",
        b"\x1f",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc3\xa9",
        b"n",
        b"t",
        b"NaN",
        b"Infinity",
        b"\"a\":1,",
        b"",
    ];
    let change = (
        any::<prop::sample::Index>(),
        0usize..3,
        prop_oneof![
            prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
            any::<u8>().prop_map(|byte| vec![byte]),
        ],
    );
    (base, prop::collection::vec(change, 0..4)).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (at, removed, inserted) in changes {
            let at = at.index(bytes.len() + 1);
            let to = (at + removed).min(bytes.len());
            bytes.splice(at..to, inserted);
        }
        bytes
    })
}

/// Nested documents with names and strings from every corner of Unicode.
pub fn value() -> impl Strategy<Value = Value> {
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
pub fn string() -> impl Strategy<Value = String> {
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

/// Writes `value` as JSON. `seed` selects blanks, escapes, member order and number spelling.
pub fn spell(value: &Value, seed: u64) -> String {
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
