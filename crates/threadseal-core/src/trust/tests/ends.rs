//! Keys that end in a log. Places there, and time stamps over them, decide about their seals.

use super::*;
use crate::digest::Digest;
use crate::key::LocalSigner;
use crate::record::RecordId;
use crate::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};
use std::collections::BTreeMap;

/// A log in which heads are at entries of their own numbers, and key 1 ended.
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

// T-KLOG-02 T-KLOG-09
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
        format: ScopeFormat::Transcript,
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
    // A later head, a head without evidence, and the end in another log prove nothing.
    let only = |heads| Purpose { heads, ..purpose };
    let late = [head(7), head(8)];
    let judged = before.judge(&key(1), &only(&late), at).standing;
    assert!(!judged.counts());
    assert!(!stands(&by(Log::with_end_at(7, 6))));
    assert!(!stands(&by(Log::with_end_at(8, 9))));
    assert!(!stands(&by(None)));
    // The user's own, earlier revocation takes precedence over the key's event.
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

/// A key that was revoked by a clock. Only stamps from an authority outside this host show that a
/// seal is older; nothing else in the log does.
// T-KLOG-10
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
            format: ScopeFormat::Transcript,
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
        pinned: Some(key(1).into()),
        ..by_stamps
    };
    assert_eq!(standing(&pinned, &[head(3)], None), Standing::Pinned);
    assert!(!standing(&pinned, &[head(4)], None).counts());
    // If the key ended in the log, only places decide, and no moment does.
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

/// The same log after a rollback to before some of its entries.
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

// T-KLOG-04
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
    // The end itself is among the lost entries.
    assert!(judged(KeyChange::Create, head(8)));
}
