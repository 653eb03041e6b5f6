//! Records by short words, so that a table shows them whole.
//!
//! | word | appended |
//! |---|---|
//! | `b1`, `b3` | first: line 1 and seal 0 by that key; another than key 1 is delegated |
//! | `e`, `t` | an event of a free type; a turn of two events |
//! | `l`, `h` | `thread_resumed`, `thread_handoff` |
//! | `c` | `thread_completed` |
//! | `m` | another `thread_started` |
//! | `j`, `o` | a line that is none; an event of another thread |
//! | `k4` | `key` names key 4 |
//! | `d5`, `d5/9` | `delegation` of key 5 by key 1; signed by key 9 |
//! | `a1>6`, `a1>6/9` | `authority`: key 1 names key 6; signed by key 9 |
//! | `D`, `A` | `tail_dropped`; `tail_adopted` of all lines since the last seal |
//! | `s3`, `f3` | a seal by key 3; a final one |
//! | `s3>4` | a seal with `next_key` 4 |

use crate::forge::{Forge, Manifest, THREAD, authority, hex, key, succession, tagged};
use threadseal_core::digest::Digest;
use threadseal_core::key::Signer as _;

/// The record that the words write.
pub(super) fn record(words: &str) -> Forge {
    let mut words = words.split_whitespace();
    let first = words.next().map_or(1, |word| number(&word[1..]));
    let mut forge = match first {
        1 => Forge::begun(),
        other => Forge::begun_by(&key(other)),
    };
    for word in words {
        append(&mut forge, word);
    }
    forge
}

/// Appends what the word means.
pub(super) fn append(forge: &mut Forge, word: &str) {
    let (kind, rest) = word.split_at(1);
    match kind {
        "e" => _ = forge.event("note", "{}"),
        "t" => _ = forge.turn(),
        "l" => _ = forge.event("thread_resumed", "{}"),
        "h" => _ = forge.event("thread_handoff", "{}"),
        "c" => _ = forge.event("thread_completed", "{\"cost\":{}}"),
        "m" => {
            let manifest = Manifest::of(authority().public_key(), 7).text();
            forge.event("thread_started", &manifest);
        }
        "j" => _ = forge.line(b"{}"),
        "o" => {
            let line = forge.frame("note", "{}").replace(THREAD, "testkit/other");
            forge.line(line.as_bytes());
        }
        "k" => {
            let payload = format!("{{\"next\":\"{}\"}}", hex(&key(number(rest))));
            forge.event("key", &payload);
        }
        "d" => {
            let (to, by) = rest.split_once('/').unwrap_or((rest, "1"));
            let payload = forge.delegation(&key(number(by)), &key(number(to)));
            forge.event("delegation", &payload);
        }
        "a" => {
            let payload = authority_payload(rest);
            forge.event("authority", &payload);
        }
        "D" => {
            let payload = dropped(forge);
            forge.event("tail_dropped", &payload);
        }
        "A" => {
            let payload = Adopted::of(forge).text();
            forge.event("tail_adopted", &payload);
        }
        "s" | "f" => {
            let (by, next) = rest.split_once('>').unwrap_or((rest, ""));
            forge.seal_with(&key(number(by)), |seal| {
                seal.is_final = kind == "f";
                if !next.is_empty() {
                    seal.ext = next_key(number(next));
                }
            });
        }
        other => panic!("no word of a script: {other}"),
    }
}

/// An `ext` that names the key of this number.
pub(super) fn next_key(next: u8) -> String {
    format!("{{\"next_key\":\"{}\"}}", hex(&key(next)))
}

fn number(text: &str) -> u8 {
    text.parse().expect("the number of a key")
}

/// `1>6`, or `1>6/9` where another key signs.
fn authority_payload(text: &str) -> String {
    let (names, by) = text.split_once('/').unwrap_or((text, ""));
    let (before, next) = names.split_once('>').expect("two numbers of keys");
    let (before, next) = (key(number(before)), key(number(next)));
    if by.is_empty() {
        return succession(&before, &next);
    }
    let parts: [&[u8]; 3] = [
        b"rotate",
        before.public_key().as_bytes(),
        next.public_key().as_bytes(),
    ];
    let word = tagged(&key(number(by)), "threadseal/1 key event", &parts);
    format!("{{\"next\":\"{}\",\"signature\":\"{word}\"}}", hex(&next))
}

/// The payload of a `tail_dropped` as it should be.
pub(super) fn dropped(forge: &Forge) -> String {
    let (offset, digest) = (forge.size(), Digest::of(b"dropped"));
    format!("{{\"offset\":{offset},\"length\":7,\"sha256\":\"{digest}\"}}")
}

/// The members of a `tail_adopted`.
pub(super) struct Adopted {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) lines: u64,
    pub(super) sha256: String,
}

impl Adopted {
    /// Of all bytes behind the last seal, as they should be.
    pub(super) fn of(forge: &Forge) -> Self {
        let tail = tail(forge);
        let (to, length) = (forge.size(), tail.len() as u64);
        let lines = tail.iter().filter(|byte| **byte == b'\n').count();
        Self {
            from: to - length,
            to,
            lines: lines as u64,
            sha256: Digest::of(tail).to_hex(),
        }
    }

    pub(super) fn text(&self) -> String {
        let Self {
            from,
            to,
            lines,
            sha256,
        } = self;
        format!("{{\"from\":{from},\"to\":{to},\"lines\":{lines},\"sha256\":\"{sha256}\"}}")
    }
}

/// All bytes behind the last seal.
pub(super) fn tail(forge: &Forge) -> &[u8] {
    let last = forge.seals.last().map_or(0, |seal| seal.trusted.byte);
    let last = usize::try_from(last).expect("a small file");
    &forge.out[last..]
}
