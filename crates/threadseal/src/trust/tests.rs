//! Judging keys by scope, window and revocation; the file, read and written.

use super::*;
use crate::digest::Digest;
use crate::error::ErrorKind;
use crate::key::{LocalSigner, PrivateKey};
use crate::record::RecordId;
use crate::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn key(seed: u8) -> PublicKey {
    *PrivateKey::from_seed([seed; 32]).public_key()
}

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

const PURPOSE: Purpose<'static> = Purpose {
    usage: KeyUsage::Native,
    format: Format::Transcript,
    thread: Some("agency/one"),
    evidence: None,
    heads: &[],
};

fn standing(store: &TrustStore, key: &PublicKey, purpose: Purpose<'_>, now: u8) -> &'static str {
    match store.judge(key, &purpose, day(now)).standing {
        Standing::Trusted => "trusted",
        Standing::Pinned => "pinned",
        Standing::NotPinned => "not pinned",
        Standing::Unknown => "unknown",
        Standing::Revoked { .. } => "revoked",
        Standing::OutOfScope { .. } => "out of scope",
        Standing::Expired { .. } => "expired",
    }
}

#[test]
fn a_key_counts_for_what_its_entry_names_and_nothing_else() {
    let mut entry = native(1);
    entry.scope.threads = [ThreadPattern::parse("agency/*").unwrap()].into();
    entry.scope.formats = [Format::Transcript].into();
    let store = store([entry]);
    let judged = |purpose| standing(&store, &key(1), purpose, 1);
    assert_eq!(judged(PURPOSE), "trusted");
    for purpose in [
        Purpose {
            usage: KeyUsage::Rye,
            ..PURPOSE
        },
        Purpose {
            usage: KeyUsage::Observed,
            ..PURPOSE
        },
        Purpose {
            format: Format::Json,
            ..PURPOSE
        },
        Purpose {
            thread: Some("other/one"),
            ..PURPOSE
        },
        Purpose {
            thread: None,
            ..PURPOSE
        },
    ] {
        assert_eq!(judged(purpose), "out of scope", "{purpose:?}");
    }
    assert_eq!(standing(&store, &key(2), PURPOSE, 1), "unknown");
    assert_eq!(standing(&TrustStore::new(), &key(1), PURPOSE, 1), "unknown");
}

#[test]
fn a_window_is_judged_by_evidence_else_by_now() {
    let mut entry = native(1);
    (entry.not_before, entry.not_after) = (Some(day(10)), Some(day(20)));
    let store = store([entry]);
    let judged = |evidence: Option<u8>, now| {
        let evidence = evidence.map(day);
        standing(
            &store,
            &key(1),
            Purpose {
                evidence,
                ..PURPOSE
            },
            now,
        )
    };
    assert_eq!(judged(None, 9), "expired");
    assert_eq!(judged(None, 10), "trusted");
    assert_eq!(judged(None, 20), "trusted");
    assert_eq!(judged(None, 21), "expired");
    assert_eq!(judged(Some(15), 30), "trusted");
    assert_eq!(judged(Some(9), 15), "expired");
    assert_eq!(judged(Some(21), 15), "expired");
}

#[test]
fn a_revoked_key_without_earlier_evidence_is_revoked_for_all_its_seals() {
    let mut revoked = native(1);
    revoked.revoked = Some(Revocation {
        at: day(10),
        reason: "stolen".into(),
        entry: None,
    });
    let mut observed = TrustedKey::new(name("other use"), key(1), [KeyUsage::Observed]);
    observed.note = Some("of the same key".into());
    let store = store([revoked, observed]);
    for usage in [KeyUsage::Native, KeyUsage::Observed, KeyUsage::Rye] {
        let judged = |evidence: Option<u8>, now| {
            let evidence = evidence.map(day);
            standing(
                &store,
                &key(1),
                Purpose {
                    usage,
                    evidence,
                    ..PURPOSE
                },
                now,
            )
        };
        let held_before = if usage == KeyUsage::Rye {
            "out of scope"
        } else {
            "trusted"
        };
        assert_eq!(
            judged(None, 5),
            "revoked",
            "announced for later is revoked too"
        );
        assert_eq!(judged(None, 15), "revoked");
        assert_eq!(judged(Some(10), 15), "revoked");
        assert_eq!(judged(Some(9), 15), held_before);
    }
}

#[test]
fn only_the_pinned_key_is_acceptable_and_only_unless_revoked() {
    let mut trust = Trust::new(store([native(1), native(2)]));
    let judged = |trust: &Trust, seed| trust.judge(&key(seed), &PURPOSE, day(1)).standing;
    assert_eq!(judged(&trust, 1), Standing::Trusted);
    trust.pinned = Some(key(3));
    assert_eq!(judged(&trust, 1), Standing::NotPinned);
    assert_eq!(judged(&trust, 3), Standing::Pinned);
    trust.pinned = Some(key(1));
    assert_eq!(judged(&trust, 1), Standing::Pinned);
    let revocation = Revocation {
        at: day(1),
        reason: "lost".into(),
        entry: None,
    };
    trust.store.revoke(&name("key 1"), revocation).unwrap();
    assert!(matches!(judged(&trust, 1), Standing::Revoked { .. }));
    assert!(Standing::Pinned.counts() && !Standing::NotPinned.counts());
}

#[test]
fn keys_are_found_by_each_of_their_names() {
    let mut store = store([native(1), native(2)]);
    let fingerprint = key(1).rye_fingerprint();
    assert_eq!(store.by_fingerprint(fingerprint), [key(1)]);
    assert_eq!(store.by_key_id(key(2).key_id()), Some(key(2)));
    assert_eq!(store.by_name(&name("key 1")).map(|e| e.key), Some(key(1)));
    let mut trust = Trust::new(store.clone());
    trust.pinned = Some(key(3));
    assert_eq!(trust.by_fingerprint(key(3).rye_fingerprint()), [key(3)]);
    assert_eq!(trust.by_fingerprint(fingerprint), [key(1)]);
    trust.pinned = Some(key(1));
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
    assert!(
        store
            .add(same_name)
            .unwrap_err()
            .to_string()
            .contains("taken")
    );
    assert_eq!(store.len(), 2);
    store.remove(&name("key 1"));
    assert_eq!(store.by_key_id(key(1).key_id()), Some(key(1)));
}

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
        |e| {
            e.revoked = Some(Revocation {
                at: day(1),
                reason: "\u{1b}[2J".into(),
                entry: None,
            });
        },
        |e| {
            let pattern = |i| ThreadPattern::parse(&format!("t{i}")).unwrap();
            e.scope.threads = (0..=crate::limits::MAX_SCOPE_PATTERNS)
                .map(pattern)
                .collect();
        },
    ] {
        let mut entry = native(1);
        spoil(&mut entry);
        assert!(store.add(entry).is_err());
    }
    assert!(store.is_empty());
    for bad in [
        "",
        " a",
        "a ",
        "a\nb",
        "a\u{202e}b",
        "a\"b",
        &"x".repeat(129),
    ] {
        assert!(TrustName::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn an_earlier_revocation_stands() {
    let mut store = store([native(1)]);
    let revocation = |at, reason: &str| Revocation {
        at: day(at),
        reason: reason.into(),
        entry: None,
    };
    let name = name("key 1");
    store.revoke(&name, revocation(10, "first")).unwrap();
    store.revoke(&name, revocation(20, "later")).unwrap();
    let revoked = |store: &TrustStore| store.by_name(&name).and_then(|e| e.revoked.clone());
    assert_eq!(revoked(&store), Some(revocation(10, "first")));
    assert!(store.revoke(&name, revocation(5, "two\nlines")).is_err());
    assert_eq!(
        revoked(&store),
        Some(revocation(10, "first")),
        "a failure changes nothing"
    );
    store.revoke(&name, revocation(5, "earlier")).unwrap();
    assert_eq!(revoked(&store), Some(revocation(5, "earlier")));
    assert!(
        store
            .revoke(&self::name("nobody"), revocation(1, ""))
            .is_err()
    );
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
        pinned: Some(key(1)),
        ..trust.clone()
    };
    let local = Trust {
        local: true,
        ..trust.clone()
    };
    assert_ne!(trust.digest(), pinned.digest());
    assert_ne!(trust.digest(), local.digest());
}

/// A log in which heads stand at entries of their own numbers, and key 1 ended.
#[derive(Debug)]
struct Log {
    keys: KeyHistory,
    vouched_for: u64,
    stamps: BTreeMap<u64, Timestamp>,
}

impl Log {
    fn with_end_at(entry: u64, vouched_for: u64) -> Option<Arc<dyn SealPlaces>> {
        let signer = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native);
        let end = KeyEvent::sign(KeyChange::Revoke, &signer).unwrap();
        let keys = KeyHistory::of(&[(entry, end)]);
        Some(Arc::new(Self {
            keys,
            vouched_for,
            stamps: BTreeMap::new(),
        }))
    }
}

impl SealPlaces for Log {
    fn place(&self, head: &Head) -> Option<u64> {
        (head.seq < self.vouched_for).then_some(head.seq)
    }

    fn stamped(&self, head: &Head) -> Option<Timestamp> {
        self.stamps.get(&head.seq).copied()
    }

    fn keys(&self) -> Option<&KeyHistory> {
        Some(&self.keys)
    }
}

fn head(at: u64) -> Head {
    Head {
        record: RecordId::from_bytes([9; 32]),
        seq: at,
        size: 1,
        line: Digest::of(b"seal"),
    }
}

#[test]
fn a_key_that_ended_in_the_log_is_judged_by_places_there_and_by_no_moment() {
    let at = Timestamp::parse_iso_seconds("2026-06-01T00:00:00Z").unwrap();
    let mut store = TrustStore::new();
    store.add(native(1)).unwrap();
    let revocation = Revocation {
        at,
        reason: "stolen".into(),
        entry: Some(7),
    };
    store.revoke(&name("key 1"), revocation).unwrap();
    assert_eq!(store.ended_at(&key(1)), Some(7));
    assert_eq!(TrustStore::parse(&store.to_toml()), Ok(store.clone()));
    let early = Timestamp::from_micros(1).unwrap();
    let early_heads = [head(9), head(6)];
    let purpose = Purpose {
        usage: KeyUsage::Native,
        format: Format::Transcript,
        thread: None,
        evidence: Some(early),
        heads: &early_heads,
    };
    let trust = Trust::new(store.clone());
    let stands = |trust: &Trust| trust.judge(&key(1), &purpose, at).standing.counts();
    assert!(!stands(&trust), "a clock can be set back");
    let by = |places| Trust {
        places,
        ..trust.clone()
    };
    let before = by(Log::with_end_at(7, 9));
    assert!(stands(&before));
    // A head that came later, one that nothing vouches for, and the end of another log, show nothing.
    let only = |heads| Purpose { heads, ..purpose };
    let late = [head(7), head(8)];
    let judged = before.judge(&key(1), &only(&late), at).standing;
    assert!(!judged.counts());
    assert!(!stands(&by(Log::with_end_at(7, 6))));
    assert!(!stands(&by(Log::with_end_at(8, 9))));
    assert!(!stands(&by(None)));
    // The user's own, earlier word stands over what the key said.
    let mut earlier = store;
    let revocation = Revocation {
        at: Timestamp::parse_iso_seconds("2026-05-01T00:00:00Z").unwrap(),
        reason: "gone since May".into(),
        entry: None,
    };
    earlier.revoke(&name("key 1"), revocation).unwrap();
    let told = Trust {
        store: earlier,
        ..before
    };
    let late = Purpose {
        evidence: None,
        ..purpose
    };
    assert!(!told.judge(&key(1), &late, at).standing.counts());
}

/// A key that was revoked by a clock: what an authority outside of this host stamped before counts, and nothing else does by the log.
#[test]
fn a_stamp_of_the_log_is_evidence_against_a_revocation_by_a_clock_and_for_a_window() {
    let stamps = BTreeMap::from([(3, day(5)), (4, day(20))]);
    let stamped = |store: TrustStore| Trust {
        places: Some(Arc::new(Log {
            keys: KeyHistory::default(),
            vouched_for: 9,
            stamps: stamps.clone(),
        })),
        ..Trust::new(store)
    };
    let standing = |trust: &Trust, heads: &[Head], evidence| {
        let purpose = Purpose {
            usage: KeyUsage::Native,
            format: Format::Transcript,
            thread: None,
            evidence,
            heads,
        };
        trust.judge(&key(1), &purpose, day(30)).standing
    };
    let mut revoked = TrustStore::new();
    revoked.add(native(1)).unwrap();
    let revocation = Revocation {
        at: day(10),
        reason: "stolen".into(),
        entry: None,
    };
    revoked.revoke(&name("key 1"), revocation.clone()).unwrap();
    let by_stamps = stamped(revoked.clone());
    assert_eq!(standing(&by_stamps, &[head(3)], None), Standing::Trusted);
    assert_eq!(
        standing(&by_stamps, &[head(4), head(3)], Some(day(15))),
        Standing::Trusted,
        "any head that covers the signature"
    );
    for heads in [&[head(4)][..], &[head(5)], &[]] {
        assert!(!standing(&by_stamps, heads, None).counts());
    }
    assert!(!standing(&Trust::new(revoked), &[head(3)], None).counts());
    let pinned = Trust {
        pinned: Some(key(1)),
        ..by_stamps
    };
    assert_eq!(standing(&pinned, &[head(3)], None), Standing::Pinned);
    assert!(!standing(&pinned, &[head(4)], None).counts());
    // Where the key itself said in the log that it ended, places decide, and no moment.
    let mut ended = TrustStore::new();
    ended.add(native(1)).unwrap();
    let revocation = Revocation {
        entry: Some(1),
        ..revocation
    };
    ended.revoke(&name("key 1"), revocation).unwrap();
    assert!(!standing(&stamped(ended), &[head(3)], None).counts());
    // A window is over, and the seal is older.
    let mut window = TrustStore::new();
    window
        .add(TrustedKey {
            not_before: Some(day(2)),
            not_after: Some(day(10)),
            ..native(1)
        })
        .unwrap();
    let window = stamped(window);
    assert_eq!(standing(&window, &[head(3)], None), Standing::Trusted);
    for heads in [&[head(4)][..], &[]] {
        let out = standing(&window, heads, None);
        assert!(matches!(out, Standing::Expired { .. }), "{out:?}");
    }
}

/// The same log, put back to before some of its entries.
#[derive(Debug)]
struct WentBack(Log);

impl SealPlaces for WentBack {
    fn place(&self, _: &Head) -> Option<u64> {
        None
    }

    fn stamped(&self, head: &Head) -> Option<Timestamp> {
        self.0.stamped(head)
    }

    fn keys(&self) -> Option<&KeyHistory> {
        self.0.keys()
    }

    fn is_in_doubt(&self) -> bool {
        true
    }

    fn claimed(&self, head: &Head) -> Option<u64> {
        self.0.place(head)
    }
}

#[test]
fn a_log_that_went_back_neither_lets_a_key_that_ended_count_nor_accuses_it() {
    let at = Timestamp::parse_iso_seconds("2026-06-01T00:00:00Z").unwrap();
    let mut store = TrustStore::new();
    store.add(native(1)).unwrap();
    let revocation = Revocation {
        at,
        reason: "rotated".into(),
        entry: Some(7),
    };
    store.revoke(&name("key 1"), revocation).unwrap();
    let end = |change| {
        let signer = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native);
        (7, KeyEvent::sign(change, &signer).unwrap())
    };
    let judged = |change, head| {
        let keys = KeyHistory::of(&[end(change)]);
        let trust = Trust {
            places: Some(Arc::new(WentBack(Log {
                keys,
                vouched_for: 9,
                stamps: BTreeMap::new(),
            }))),
            ..Trust::new(store.clone())
        };
        let purpose = Purpose {
            heads: &[head],
            ..PURPOSE
        };
        let standing = trust.judge(&key(1), &purpose, at).standing;
        assert!(!standing.counts());
        matches!(standing, Standing::Revoked { in_doubt: true, .. })
    };
    assert!(judged(KeyChange::Revoke, head(6)));
    assert!(!judged(KeyChange::Revoke, head(8)));
    // The end itself is among what went.
    assert!(judged(KeyChange::Create, head(8)));
}

const EXAMPLE: &str = r#"# Comments and order are free.
version = 1

[[key]]
name = "build host"
key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
usage = ["observed", "native"]
scope.threads = ["agency/*", "ci-*"]
scope.formats = ["transcript", "json"]
not_before = "2026-01-01T00:00:00Z"
not_after = "2026-12-31T23:59:59Z"
revoked = { at = "2026-06-01T00:00:00Z", reason = "stolen \"laptop\"" }
added = "2026-01-01T00:00:00Z"
note = 'C:\keys'
"#;

#[test]
fn every_member_of_the_file_is_read_and_written() {
    let store = TrustStore::parse(EXAMPLE).unwrap();
    let entry = store.by_name(&name("build host")).unwrap();
    assert_eq!(entry.key, key(1));
    assert_eq!(entry.usage, [KeyUsage::Native, KeyUsage::Observed].into());
    assert_eq!(
        entry.scope.formats,
        [Format::Transcript, Format::Json].into()
    );
    assert_eq!(entry.not_after, Some(time("2026-12-31T23:59:59Z")));
    assert_eq!(entry.revoked.as_ref().unwrap().reason, "stolen \"laptop\"");
    assert_eq!(entry.note.as_deref(), Some("C:\\keys"));
    assert_eq!(
        store.to_toml(),
        r#"version = 1

[[key]]
name = "build host"
key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
usage = ["native", "observed"]
scope.threads = ["agency/*", "ci-*"]
scope.formats = ["transcript", "json"]
not_before = "2026-01-01T00:00:00Z"
not_after = "2026-12-31T23:59:59Z"
revoked = { at = "2026-06-01T00:00:00Z", reason = "stolen \"laptop\"" }
added = "2026-01-01T00:00:00Z"
note = "C:\\keys"
"#
    );
    assert_eq!(TrustStore::parse("version = 1").unwrap(), TrustStore::new());
}

#[test]
fn an_error_names_its_line() {
    let wrong = |from: &str, to: &str| {
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE, "{from}");
        TrustStore::parse(&text).unwrap_err().to_string()
    };
    for (from, to, line) in [
        ("version = 1", "version = 2", 2),
        ("version = 1", "version = \"1\"", 2),
        ("name = ", "name = \"x\"\nname = ", 6),
        ("build host", "build\\nhost", 5),
        ("8a88e3", "8A88E3", 6),
        ("8a88e3", "8a88e", 6),
        (
            "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c",
            "0100000000000000000000000000000000000000000000000000000000000000",
            6,
        ),
        ("\"observed\"", "\"native\"", 7),
        ("\"observed\"", "\"sign\"", 7),
        ("[\"observed\", \"native\"]", "[]", 7),
        ("[\"observed\", \"native\"]", "\"native\"", 7),
        ("ci-*", "ci-?", 8),
        ("ci-*", "agency/*", 8),
        ("[\"agency/*\", \"ci-*\"]", "[]", 8),
        ("\"json\"", "\"xml\"", 9),
        ("scope.formats", "scope.format", 9),
        (
            "\"2026-01-01T00:00:00Z\"\nnot_after",
            "2026-01-01T00:00:00Z\nnot_after",
            10,
        ),
        ("\"2026-12-31T23:59:59Z\"", "\"2026-12-31\"", 11),
        ("2026-12-31T23:59:59Z", "2025-12-31T23:59:59Z", 4),
        ("revoked =", "revokd =", 12),
        ("at = \"2026-06-01", "at = \"2026-06-31", 12),
        ("reason", "why", 12),
        ("note = ", "note = 1 #", 14),
        ("[[key]]", "[[keys]]", 4),
        ("[[key]]", "[key]", 4),
        ("[[key]]", "[[key]", 4),
    ] {
        let message = wrong(from, to);
        let expected = format!("line {line}:");
        assert!(message.contains(&expected), "{to}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let twice = format!("{EXAMPLE}{}", &EXAMPLE[EXAMPLE.find("\n[[").unwrap()..]);
    let message = TrustStore::parse(&twice).unwrap_err().to_string();
    assert!(message.contains("line 16:"), "{message}");
    assert!(TrustStore::parse("").is_err());
}

#[test]
fn a_hostile_file_costs_little() {
    let deep = format!("version = 1\nx = {}", "[".repeat(1 << 20));
    assert!(TrustStore::parse(&deep).is_err());
    let dotted = format!("version = 1\n{}a = 1", "a.".repeat(1 << 20));
    assert!(TrustStore::parse(&dotted).is_err());
    let long = " ".repeat(crate::limits::MAX_TRUST_FILE_BYTES + 1);
    assert_eq!(
        TrustStore::parse(&long).unwrap_err().kind(),
        ErrorKind::Limit
    );
}

prop_compose! {
    fn any_entry()(
        seed in 0u8..6,
        name in "[a-zé0-9]([a-zé0-9 ._@/+:-]{0,12}[a-zé0-9])?",
        usage in prop::collection::btree_set(prop::sample::select(&KeyUsage::ALL[..]), 1..=KeyUsage::ALL.len()),
        threads in prop::collection::btree_set("[a-z*/.\" -]{1,8}", 1..4),
        formats in prop::collection::btree_set(prop::sample::select(&Format::ALL[..]), 1..=7),
        times in prop::collection::vec(prop::option::of(0u64..4_000_000_000_000_000), 4),
        texts in prop::collection::vec(prop::option::of("[ -~é\u{2028}\u{1f980}]{0,20}"), 2),
    ) -> TrustedKey {
        let time = |i: usize| times[i].map(|micros| Timestamp::from_micros(micros).unwrap());
        let (a, b) = (time(0), time(1));
        let mut entry = TrustedKey::new(TrustName::parse(&name).unwrap(), key(seed), usage);
        entry.scope.threads = threads.iter().map(|t| ThreadPattern::parse(t).unwrap()).collect();
        entry.scope.formats = formats;
        (entry.not_before, entry.not_after) = match (a, b) {
            (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
            open => open,
        };
        entry.revoked = time(2).zip(texts[0].clone()).map(|(at, reason)| {
            let entry = (reason.len() % 2 == 1).then_some(reason.len() as u64);
            Revocation { at, reason, entry }
        });
        entry.added = time(3);
        entry.note = texts[1].clone();
        entry
    }
}

proptest! {
    #[test]
    fn a_written_store_is_read_as_it_was(entries in prop::collection::vec(any_entry(), 0..6)) {
        let mut store = TrustStore::new();
        for entry in entries {
            let _ = store.add(entry);
        }
        let text = store.to_toml();
        let read = TrustStore::parse(&text).unwrap();
        prop_assert_eq!(&read, &store);
        prop_assert_eq!(read.to_toml(), text);
        prop_assert_eq!(read.digest(), store.digest());
    }
}
