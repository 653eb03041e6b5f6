//! Judging keys by scope, window and revocation. `ends` judges them by a log, `written` tests the
//! file.

mod ends;
mod written;

use super::*;
use crate::testing::{key, micros, signer};
use std::collections::BTreeSet;

fn name(text: &str) -> TrustName {
    TrustName::parse(text).unwrap()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse_iso_seconds(text).unwrap()
}

fn day(day: u8) -> Timestamp {
    time(&format!("2026-01-{day:02}T00:00:00Z"))
}

fn native(seed: u8) -> TrustedKey {
    TrustedKey::new(name(&format!("key {seed}")), key(seed), [KeyUsage::Native])
}

fn store(entries: impl IntoIterator<Item = TrustedKey>) -> TrustStore {
    let mut store = TrustStore::new();
    for entry in entries {
        store.add(entry).unwrap();
    }
    store
}

fn revocation(at: Timestamp, reason: &str) -> Revocation {
    Revocation {
        at,
        reason: reason.into(),
        entry: None,
        next: None,
    }
}

/// Key 1 was rotated to key 2.
fn rotation(at: Timestamp) -> Revocation {
    Revocation {
        next: Some(key(2)),
        ..revocation(at, "rotated")
    }
}

/// The store with key 1, which was revoked at this moment, by this entry of a log.
fn revoked(at: Timestamp, entry: Option<u64>) -> TrustStore {
    let mut store = store([native(1)]);
    let revocation = Revocation {
        entry,
        ..revocation(at, "stolen")
    };
    store.revoke(&name("key 1"), revocation).unwrap();
    store
}

const PURPOSE: Purpose<'static> = Purpose {
    usage: KeyUsage::Native,
    format: ScopeFormat::Transcript,
    thread: Some("agency/one"),
    evidence: None,
    heads: &[],
};

fn standing(store: &TrustStore, seed: u8, purpose: Purpose<'_>, now: u8) -> &'static str {
    match store.judge(&key(seed), &purpose, day(now)).standing {
        Standing::Trusted => "trusted",
        Standing::Pinned => "pinned",
        Standing::NotPinned => "not pinned",
        Standing::Unknown => "unknown",
        Standing::Revoked { .. } => "revoked",
        Standing::OutOfScope { .. } => "out of scope",
        Standing::Expired { .. } => "expired",
    }
}

// T-KEY-04
#[test]
fn a_key_counts_for_what_its_entry_names_and_nothing_else() {
    let mut entry = native(1);
    entry.scope.threads = [ThreadPattern::parse("agency/*").unwrap()].into();
    entry.scope.formats = [ScopeFormat::Transcript].into();
    let store = store([entry]);
    assert_eq!(standing(&store, 1, PURPOSE, 1), "trusted");
    let edits: [fn(&mut Purpose<'_>); 5] = [
        |purpose| purpose.usage = KeyUsage::Rye,
        |purpose| purpose.usage = KeyUsage::Observed,
        |purpose| purpose.format = ScopeFormat::Json,
        |purpose| purpose.thread = Some("other/one"),
        |purpose| purpose.thread = None,
    ];
    for edit in edits {
        let mut purpose = PURPOSE;
        edit(&mut purpose);
        let standing = standing(&store, 1, purpose, 1);
        assert_eq!(standing, "out of scope", "{purpose:?}");
    }
    assert_eq!(standing(&store, 2, PURPOSE, 1), "unknown");
    assert_eq!(standing(&TrustStore::new(), 1, PURPOSE, 1), "unknown");
}

// T-KEY-04 T-KEY-13
#[test]
fn a_window_is_judged_by_evidence_else_by_now() {
    let mut entry = native(1);
    (entry.not_before, entry.not_after) = (Some(day(10)), Some(day(20)));
    let store = store([entry]);
    for (evidence, now, expected) in [
        (None, 9, "expired"),
        (None, 10, "trusted"),
        (None, 20, "trusted"),
        (None, 21, "expired"),
        (Some(15), 30, "trusted"),
        (Some(9), 15, "expired"),
        (Some(21), 15, "expired"),
    ] {
        let purpose = Purpose {
            evidence: evidence.map(day),
            ..PURPOSE
        };
        let standing = standing(&store, 1, purpose, now);
        assert_eq!(standing, expected, "{evidence:?} {now}");
    }
}

// T-KEY-01
#[test]
fn a_revoked_key_without_earlier_evidence_is_revoked_for_all_its_seals() {
    let mut ended = native(1);
    ended.revoked = Some(revocation(day(10), "stolen"));
    let mut observed = TrustedKey::new(name("other use"), key(1), [KeyUsage::Observed]);
    observed.note = Some("of the same key".into());
    let store = store([ended, observed]);
    for (usage, held_before) in [
        (KeyUsage::Native, "trusted"),
        (KeyUsage::Observed, "trusted"),
        (KeyUsage::Rye, "out of scope"),
    ] {
        for (evidence, now, expected) in [
            // A revocation that is announced for later is one, too.
            (None, 5, "revoked"),
            (None, 15, "revoked"),
            (Some(10), 15, "revoked"),
            (Some(9), 15, held_before),
        ] {
            let purpose = Purpose {
                usage,
                evidence: evidence.map(day),
                ..PURPOSE
            };
            let standing = standing(&store, 1, purpose, now);
            assert_eq!(standing, expected, "{usage} {evidence:?} {now}");
        }
    }
}

#[test]
fn only_pinned_keys_are_acceptable_and_a_revocation_counts_of_any_key() {
    let mut trust = Trust::new(store([native(1), native(2)]));
    let judged = |trust: &Trust, seed| trust.judge(&key(seed), &PURPOSE, day(1)).standing;
    assert_eq!(judged(&trust, 1), Standing::Trusted);
    trust.pinned = key(3).into();
    assert_eq!(judged(&trust, 1), Standing::NotPinned);
    assert_eq!(judged(&trust, 3), Standing::Pinned);
    trust.pinned = key(1).into();
    assert_eq!(judged(&trust, 1), Standing::Pinned);
    trust.pinned = Pins::new([1, 3].map(|seed| key(seed).into())).unwrap();
    let several = [1, 2, 3].map(|seed| judged(&trust, seed));
    let expected = [Standing::Pinned, Standing::NotPinned, Standing::Pinned];
    assert_eq!(several, expected);
    trust.store = revoked(day(1), None);
    for seed in [1, 2] {
        trust.pinned = key(seed).into();
        assert!(matches!(judged(&trust, 1), Standing::Revoked { .. }));
    }
    assert!(Standing::Pinned.counts() && !Standing::NotPinned.counts());
}

// T-KEY-12
#[test]
fn keys_are_found_by_each_of_their_names() {
    let mut store = store([native(1), native(2)]);
    let fingerprint = key(1).rye_fingerprint();
    assert_eq!(store.by_fingerprint(fingerprint), [key(1)]);
    assert_eq!(store.by_key_id(key(2).key_id()), Some(key(2)));
    assert_eq!(store.by_name(&name("key 1")).map(|e| e.key), Some(key(1)));
    let mut trust = Trust::new(store.clone());
    trust.pinned = key(3).into();
    assert_eq!(trust.by_fingerprint(key(3).rye_fingerprint()), [key(3)]);
    assert_eq!(trust.by_fingerprint(fingerprint), [key(1)]);
    trust.pinned = key(1).into();
    assert_eq!(trust.by_fingerprint(fingerprint), [key(1)]);
    assert_eq!(trust.by_key_id(key(2).key_id()), Some(key(2)));

    assert!(store.remove(&name("key 1")).is_some());
    assert!(store.remove(&name("key 1")).is_none());
    assert_eq!(store.by_fingerprint(fingerprint), []);
    assert_eq!(store.by_key_id(key(1).key_id()), None);
    assert_eq!(store.by_key(&key(1)).count(), 0);
    assert_eq!(store.len(), 1);
}

#[test]
fn one_key_may_have_several_entries_but_not_for_the_same_usage() {
    let mut store = store([native(1)]);
    let rye = TrustedKey::new(name("as rye"), key(1), [KeyUsage::Rye]);
    store.add(rye).unwrap();
    let both = TrustedKey::new(name("again"), key(1), [KeyUsage::Observed, KeyUsage::Rye]);
    assert!(store.add(both).unwrap_err().to_string().contains("as rye"));
    let same_name = TrustedKey::new(name("key 1"), key(2), [KeyUsage::Native]);
    let refused = store.add(same_name).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    assert_eq!(store.len(), 2);
    store.remove(&name("key 1"));
    assert_eq!(store.by_key_id(key(1).key_id()), Some(key(1)));
}

// T-KEY-06
#[test]
fn an_entry_that_contradicts_itself_is_refused() {
    let mut store = TrustStore::new();
    for spoil in [
        (|e| e.usage.clear()) as fn(&mut TrustedKey),
        |e| e.scope.threads.clear(),
        |e| e.scope.formats.clear(),
        |e| (e.not_before, e.not_after) = (Some(day(2)), Some(day(1))),
        |e| e.note = Some("two\nlines".into()),
        |e| e.note = Some("x".repeat(MAX_TRUST_TEXT_BYTES + 1)),
        |e| e.revoked = Some(revocation(day(1), "\u{1b}[2J")),
        |e| {
            let pattern = |i| ThreadPattern::parse(&format!("t{i}")).unwrap();
            let many = 0..=crate::limits::MAX_SCOPE_PATTERNS;
            e.scope.threads = many.map(pattern).collect();
        },
    ] {
        let mut entry = native(1);
        spoil(&mut entry);
        assert!(store.add(entry).is_err());
    }
    assert!(store.is_empty());
    let long = "x".repeat(129);
    for bad in ["", " a", "a ", "a\nb", "a\u{202e}b", "a\"b", &long] {
        assert!(TrustName::parse(bad).is_err(), "{bad:?}");
    }
}

// T-KEY-25
#[test]
fn a_revocation_outweighs_a_rotation_whichever_came_first() {
    let (rotated, stolen) = (rotation(day(10)), revocation(day(20), "stolen"));
    let gone_before = revocation(day(5), "lost");
    let other = Revocation {
        next: Some(key(3)),
        ..rotation(day(15))
    };
    for (one, then, at, reason, next) in [
        (&rotated, &stolen, day(10), "stolen", None),
        (&rotated, &gone_before, day(5), "lost", None),
        (&stolen, &rotated, day(10), "stolen", None),
        (&gone_before, &rotated, day(5), "lost", None),
        (&rotated, &rotated, day(10), "rotated", Some(key(2))),
        (&rotated, &other, day(10), "rotated", Some(key(2))),
        (&other, &rotated, day(10), "rotated", Some(key(2))),
    ] {
        let mut store = store([native(1)]);
        for end in [one, then] {
            store.revoke(&name("key 1"), end.clone()).unwrap();
        }
        let end = Revocation {
            next,
            ..revocation(at, reason)
        };
        assert_eq!(store.end_of(&key(1)), Some(end), "{one:?} {then:?}");
        assert_eq!(TrustStore::parse(&store.to_toml()), Ok(store.clone()));
        let standing = store.judge(&key(1), &PURPOSE, day(30)).standing;
        let doubt = next.map(|next| EndDoubt::Rotated {
            next: next.key_id(),
        });
        let reason = reason.to_owned();
        assert_eq!(standing, Standing::Revoked { at, reason, doubt });
    }
}

// T-KEY-24 T-KEY-25
#[test]
fn a_rotated_key_counts_for_no_seal_and_its_next_key_for_none_at_all() {
    let purpose = |evidence| Purpose {
        evidence,
        ..PURPOSE
    };
    let standing = |trust: &Trust, seed, evidence| {
        let judged = trust.judge(&key(seed), &purpose(evidence), day(30));
        (judged.standing.counts(), judged.standing)
    };
    let is_rotated = |standing: &Standing| {
        let doubt = Some(EndDoubt::Rotated {
            next: key(2).key_id(),
        });
        matches!(standing, Standing::Revoked { doubt: found, .. } if *found == doubt)
    };
    let mut rotated = store([native(1)]);
    rotated.revoke(&name("key 1"), rotation(day(10))).unwrap();
    let trust = Trust::new(rotated.clone());
    let (counts, found) = standing(&trust, 1, None);
    assert!(!counts && is_rotated(&found), "{found:?}");
    let (counts, found) = standing(&trust, 1, Some(day(11)));
    assert!(!counts && is_rotated(&found), "{found:?}");
    assert!(standing(&trust, 1, Some(day(9))).0);
    // The next key is in no entry, and a pin brings the old one not back.
    assert_eq!(standing(&trust, 2, None), (false, Standing::Unknown));
    let pinned = Trust {
        pinned: key(1).into(),
        ..trust
    };
    let (counts, found) = standing(&pinned, 1, None);
    assert!(!counts && is_rotated(&found), "{found:?}");
    assert_eq!(standing(&pinned, 2, None), (false, Standing::NotPinned));
    // The end of another entry of the key, which is a later revocation.
    let scroll = TrustedKey {
        revoked: Some(revocation(day(20), "stolen")),
        ..TrustedKey::new(name("scroll"), key(1), [KeyUsage::Scroll])
    };
    let mut both = rotated.clone();
    both.add(scroll).unwrap();
    let (_, found) = standing(&Trust::new(both), 1, None);
    assert!(matches!(found, Standing::Revoked { doubt: None, .. }));
    // An end in the log of this host is ordered there: other seals are forged.
    let mut logged = store([native(1)]);
    let end = Revocation {
        entry: Some(7),
        ..rotation(day(10))
    };
    logged.revoke(&name("key 1"), end).unwrap();
    assert_eq!(TrustStore::parse(&logged.to_toml()), Ok(logged.clone()));
    let (_, found) = standing(&Trust::new(logged), 1, None);
    assert!(matches!(found, Standing::Revoked { doubt: None, .. }));
    // No key takes its own place.
    let own = Revocation {
        next: Some(key(1)),
        ..rotation(day(10))
    };
    let mut fresh = store([native(1)]);
    assert!(fresh.revoke(&name("key 1"), own).is_err());
    assert_eq!(fresh.end_of(&key(1)), None);
}

// T-KEY-09
#[test]
fn an_earlier_revocation_stands() {
    let mut store = store([native(1)]);
    let own = name("key 1");
    // An earlier moment counts; a later one, and a failure, change nothing.
    for (at, reason, stands) in [
        (10, "first", (10, "first")),
        (20, "later", (10, "first")),
        (5, "two\nlines", (10, "first")),
        (5, "earlier", (5, "earlier")),
    ] {
        let done = store.revoke(&own, revocation(day(at), reason));
        assert_eq!(done.is_ok(), !reason.contains('\n'));
        let now = store.by_name(&own).and_then(|entry| entry.revoked.clone());
        assert_eq!(now, Some(revocation(day(stands.0), stands.1)));
    }
    let unknown = store.revoke(&name("nobody"), revocation(day(1), ""));
    assert!(unknown.is_err());
}

#[test]
fn the_digest_follows_every_change_and_only_changes() {
    let mut store = store([native(2), native(1)]);
    let before = store.digest();
    let mut other = TrustStore::new();
    other.add(native(1)).unwrap();
    other.add(native(2)).unwrap();
    assert_eq!((other.digest(), &other), (before, &store));
    store.add(native(3)).unwrap();
    assert_ne!(store.digest(), before);
    store.remove(&name("key 3"));
    assert_eq!(store.digest(), before);

    let trust = Trust::new(store.clone());
    let pinned = Trust {
        pinned: key(1).into(),
        ..trust.clone()
    };
    let local = Trust {
        local: true,
        ..trust.clone()
    };
    assert_ne!(trust.digest(), pinned.digest());
    let several = |seeds: [u8; 2]| {
        let pinned = Pins::new(seeds.map(|seed| key(seed).into())).unwrap();
        let trust = trust.clone();
        Trust { pinned, ..trust }.digest()
    };
    assert_eq!(several([1, 2]), several([2, 1]));
    assert_eq!(several([1, 1]), pinned.digest());
    let all = [[1, 2], [1, 3], [1, 1]].map(several);
    assert_eq!(BTreeSet::from(all).len(), 3);
    assert_ne!(trust.digest(), local.digest());
}
