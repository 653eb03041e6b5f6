//! Writes scrolls from their values, as `spec/scroll.md` §3, §4 and §7 have them.

use super::Container;
use crate::list::Trusted;
use crate::values::{Value, map};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PrivateKey, Signer as _};

/// The key of this number, for scrolls.
pub(super) fn scroll_key(number: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([number; 32]), KeyUsage::Scroll)
}

/// The timestamp of a turn: a number that doubles hold.
pub(super) fn timestamp(turn: usize) -> i64 {
    1_700_000_000_000_000_000 + 1_000_000_000 * i64::try_from(turn).expect("a few turns")
}

/// A sealed turn, and how many bytes its hash covers.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) value: Value,
    pub(super) covered: usize,
    /// The text in the file, where it is not that of the value.
    pub(super) spelled: Option<Vec<u8>>,
}

impl Sealed {
    /// The hash, without what is before its digits.
    pub(super) fn hash(&self) -> String {
        self.value.text_of("hash").replacen("sha256:", "", 1)
    }
}

/// A scroll while it is written.
pub(super) struct Scroll {
    pub(super) container: Container,
    pub(super) turns: Vec<Sealed>,
    /// A change of the whole file; places are those before it.
    pub(super) change: fn(Vec<u8>) -> Vec<u8>,
}

impl Scroll {
    pub(super) fn new(container: Container) -> Self {
        Self {
            container,
            turns: Vec::new(),
            change: |bytes| bytes,
        }
    }

    /// Three turns, each signed by key 1.
    pub(super) fn signed(&mut self) -> &mut Self {
        for _ in 0..3 {
            self.turn(Some(1));
        }
        self
    }

    /// The next turn, signed by this key.
    pub(super) fn turn(&mut self, key: Option<u8>) -> &mut Self {
        self.altered(key, |_| {})
    }

    /// The next turn, altered before it is hashed.
    pub(super) fn altered(&mut self, key: Option<u8>, alter: impl FnOnce(&mut Value)) -> &mut Self {
        let mut turn = self.next();
        alter(&mut turn);
        let sealed = seal(turn, key);
        self.turns.push(sealed);
        self
    }

    /// The last turn, altered after it was sealed.
    pub(super) fn spoil(&mut self, alter: impl FnOnce(&mut Value)) -> &mut Self {
        let turn = self.turns.last_mut().expect("a turn");
        alter(&mut turn.value);
        self
    }

    /// The last turn with another spelling of its text, which is JSON.
    pub(super) fn respell(&mut self, from: &str, to: &str) -> &mut Self {
        let turn = self.turns.last_mut().expect("a turn");
        let text = turn.value.sorted();
        assert!(text.contains(from), "the turn has no {from}");
        turn.spelled = Some(text.replacen(from, to, 1).into_bytes());
        self
    }

    fn next(&self) -> Value {
        let number = self.turns.len();
        let mut turn = map([
            ("version", "scroll/0.1".into()),
            ("turn", i64::try_from(number).expect("a few turns").into()),
            ("role", ["user", "assistant", "tool"][number % 3].into()),
            (
                "model",
                map([("vendor", "example".into()), ("id", "m-1".into())]),
            ),
            (
                "params",
                map([("temperature", Value::Half), ("top_p", 1.into())]),
            ),
            (
                "messages",
                Value::List(vec![map([
                    ("role", "user".into()),
                    ("content", format!("h\u{e9} {number}").into()),
                ])]),
            ),
            ("timestamp_ns", timestamp(number).into()),
        ]);
        if let Some(before) = self.turns.last() {
            turn.set("prev_hash", before.value.text_of("hash"));
        }
        if self.container == Container::Sequence {
            turn.set("enc", "cbor");
        }
        turn
    }

    /// The head of a turn, by the turns so far.
    pub(super) fn head(&self, turn: usize) -> String {
        let size: usize = self.turns[..=turn].iter().map(|turn| turn.covered).sum();
        let (record, line) = (self.turns[0].hash(), self.turns[turn].hash());
        format!("{record}:{turn}:{size}:{line}")
    }

    /// The file, and where each of its turns ends.
    pub(super) fn written(&self) -> (Vec<u8>, Vec<Trusted>) {
        let mut out = Vec::new();
        let mut places = Vec::new();
        if self.container == Container::Array {
            out.push(b'[');
        }
        for (number, turn) in self.turns.iter().enumerate() {
            if number > 0 && self.container == Container::Array {
                out.push(b',');
            }
            let bytes = match (&turn.spelled, self.container) {
                (Some(spelled), _) => spelled.clone(),
                (None, Container::Sequence) => turn.value.cbor(),
                (None, _) => turn.value.sorted().into_bytes(),
            };
            let line = match self.container {
                Container::Sequence => 0,
                Container::Lines => number as u64 + 1,
                Container::Array => 1,
            };
            out.extend(bytes);
            let stated = match turn.value.get("turn") {
                Some(Value::Int(number)) => u64::try_from(*number).ok(),
                _ => None,
            };
            places.push(Trusted {
                line,
                byte: out.len() as u64,
                turn: stated,
            });
            if self.container == Container::Lines {
                out.push(b'\n');
            }
        }
        if self.container == Container::Array {
            out.push(b']');
        }
        ((self.change)(out), places)
    }
}

/// Hash and signature of a turn.
pub(super) fn seal(mut turn: Value, key: Option<u8>) -> Sealed {
    let covered = match turn.get("enc") {
        Some(_) if turn.text_of("enc") == "cbor" => turn.cbor(),
        _ => turn.sorted().into_bytes(),
    };
    turn.set("hash", format!("sha256:{}", Digest::of(&covered)));
    let length = covered.len();
    if let Some(number) = key {
        turn.set("sig", signature(number, covered));
    }
    Sealed {
        value: turn,
        covered: length,
        spelled: None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the maker of vectors is a writer of its own"
)]
fn signature(number: u8, covered: Vec<u8>) -> Value {
    let key = scroll_key(number);
    let signed = key.sign(&Message::danger_of_turn(covered));
    let signed = signed.expect("a key for scrolls signs turns");
    map([
        ("alg", "ed25519".into()),
        (
            "pubkey",
            encoding::base64(key.public_key().as_bytes()).into(),
        ),
        ("sig", encoding::base64(signed.as_bytes()).into()),
    ])
}
