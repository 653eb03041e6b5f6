//! Payloads of `key`, `delegation` and `authority` in another spelling or over other bytes (§5).

use super::script::record;
use super::{Set, want};
use crate::forge::{Forge, Manifest, THREAD, authority, hex, key, succession, tagged};
use threadseal_core::encoding;
use threadseal_core::key::Signer as _;

pub(super) fn add(set: &mut Set) {
    key_events(set);
    delegations(set);
    authorities(set);
}

/// The event in an open record, and a seal.
fn refused(set: &mut Set, name: &str, event: &str, payload: &str) {
    let mut forge = record("b3");
    forge.event(event, payload).seal(&key(3));
    let want = want("tampered", &["event_malformed"], 1);
    set.add(
        &format!("{event}-event-{name}"),
        "§5: payload, one spelling",
        &forge,
        want,
    );
}

fn key_events(set: &mut Set) {
    let k = hex(&key(4));
    for (name, payload) in [
        ("empty", "{}".to_owned()),
        ("member-more", format!("{{\"next\":\"{k}\",\"x\":1}}")),
        ("blank", format!("{{\"next\": \"{k}\"}}")),
        ("escaped", format!("{{\"nex\\u0074\":\"{k}\"}}")),
        (
            "upper-case",
            format!("{{\"next\":\"{}\"}}", k.to_uppercase()),
        ),
        (
            "small-order",
            format!("{{\"next\":\"01{}\"}}", "00".repeat(31)),
        ),
        (
            "off-the-curve",
            format!("{{\"next\":\"02{}\"}}", "00".repeat(31)),
        ),
    ] {
        refused(set, name, "key", &payload);
    }
}

/// `"signature":"…"` of a payload.
fn word(payload: &str) -> &str {
    payload.rsplit('"').nth(1).unwrap_or_default()
}

fn delegations(set: &mut Set) {
    let forge = record("b3");
    let good = forge.delegation(&authority(), &key(5));
    let (k, s) = (hex(&key(5)), word(&good));
    let other = Manifest::of(authority().public_key(), 8);
    let other = Forge::bare(&other.text(), 8, THREAD).delegation(&authority(), &key(5));
    let five = *key(5).public_key().as_bytes();
    let first_key = tagged(
        &authority(),
        "threadseal/1 first key",
        &[forge.origin().as_bytes(), &five],
    );
    let for_other = forge.delegation(&authority(), &key(6));
    let large = encoding::parse_base64(s).unwrap_or_default();
    let large = encoding::base64(&super::seals::plus_order(large));
    let with = |s: &str| format!("{{\"key\":\"{k}\",\"signature\":\"{s}\"}}");
    for (name, payload) in [
        (
            "members-swapped",
            format!("{{\"signature\":\"{s}\",\"key\":\"{k}\"}}"),
        ),
        ("member-more", good.replace('}', ",\"x\":1}")),
        ("blank", good.replace("\",\"", "\", \"")),
        ("key-upper-case", good.replace(&k, &k.to_uppercase())),
        ("without-padding", good.replace('=', "")),
        ("of-63-bytes", with(&encoding::base64(&[0; 63]))),
        ("of-large-s", with(&large)),
        ("for-another-record", other),
        ("for-another-key", with(word(&for_other))),
        ("of-another-tag", with(&first_key)),
    ] {
        refused(set, name, "delegation", &payload);
    }
}

fn authorities(set: &mut Set) {
    let good = succession(&authority(), &key(6));
    let (k, s) = (hex(&key(6)), word(&good).to_owned());
    let with = |s: &str| format!("{{\"next\":\"{k}\",\"signature\":\"{s}\"}}");
    let bytes = |number| *key(number).public_key().as_bytes();
    let by = |tag: &str, parts: &[&[u8]]| with(&tagged(&authority(), tag, parts));
    let (a, b) = (bytes(1), bytes(6));
    for (name, payload) in [
        (
            "members-swapped",
            format!("{{\"signature\":\"{s}\",\"next\":\"{k}\"}}"),
        ),
        ("member-more", good.replace('}', ",\"x\":1}")),
        ("blank", good.replace(":\"", ": \"")),
        ("upper-case", good.replace(&k, &k.to_uppercase())),
        ("without-padding", good.replace('=', "")),
        (
            "keys-swapped",
            by("threadseal/1 key event", &[b"rotate", &b, &a]),
        ),
        (
            "another-word",
            by("threadseal/1 key event", &[b"end", &a, &b]),
        ),
        (
            "another-tag",
            by("threadseal/1 delegation", &[b"rotate", &a, &b]),
        ),
    ] {
        let mut forge = record("b3 c f3");
        forge.event("authority", &payload).end(&authority());
        let want = want("tampered", &["event_malformed"], 2);
        set.add(
            &format!("authority-event-{name}"),
            "§5: payload, S",
            &forge,
            want,
        );
    }
}
