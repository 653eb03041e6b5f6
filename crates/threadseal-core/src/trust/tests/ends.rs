//! Keys that end in a log. Places there, and time stamps over them, decide about their seals.

use super::*;
use crate::digest::Digest;
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
    /// Vouches for the heads before this number; this event of key 1 is at this entry.
    fn with(change: KeyChange, entry: u64, vouched_for: u64) -> Self {
        let event = KeyEvent::sign(change, &signer(1, KeyUsage::Native)).unwrap();
        Self {
            keys: KeyHistory::of(&[(entry, event)]),
            vouched_for,
            stamps: BTreeMap::new(),
        }
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
    let store = revoked(day(20), Some(7));
    assert_eq!(store.ended_at(&key(1)), Some(7));
    assert_eq!(TrustStore::parse(&store.to_toml()), Ok(store.clone()));
    // The user's own, earlier revocation takes precedence over the key's event.
    let mut earlier = store.clone();
    let gone = revocation(day(10), "gone before");
    earlier.revoke(&name("key 1"), gone).unwrap();
    let ended = |entry, vouched_for| -> Option<Arc<dyn SealPlaces>> {
        Some(Arc::new(Log::with(KeyChange::Revoke, entry, vouched_for)))
    };
    let (early, late) = ([head(9), head(6)], [head(7), head(8)]);
    let first = Some(micros(1));
    for (row, store, places, heads, evidence, counts) in [
        ("a place before", &store, ended(7, 9), &early, first, true),
        // A clock can be set back.
        ("no log", &store, None, &early, first, false),
        ("later heads", &store, ended(7, 9), &late, first, false),
        ("no evidence", &store, ended(7, 6), &early, first, false),
        (
            "an end elsewhere",
            &store,
            ended(8, 9),
            &early,
            first,
            false,
        ),
        ("revoked before", &earlier, ended(7, 9), &early, None, false),
    ] {
        let trust = Trust {
            places,
            ..Trust::new(store.clone())
        };
        let purpose = Purpose {
            evidence,
            heads,
            ..PURPOSE
        };
        let judged = trust.judge(&key(1), &purpose, day(20));
        assert_eq!(judged.standing.counts(), counts, "{row}");
    }
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
            evidence,
            heads,
            ..PURPOSE
        };
        trust.judge(&key(1), &purpose, day(30)).standing
    };
    let by_stamps = stamped(revoked(day(10), None));
    assert_eq!(standing(&by_stamps, &[head(3)], None), Standing::Trusted);
    // Any head that covers the signature counts.
    let any = standing(&by_stamps, &[head(4), head(3)], Some(day(15)));
    assert_eq!(any, Standing::Trusted);
    for heads in [&[head(4)][..], &[head(5)], &[]] {
        assert!(!standing(&by_stamps, heads, None).counts());
    }
    let no_log = Trust::new(revoked(day(10), None));
    assert!(!standing(&no_log, &[head(3)], None).counts());
    let pinned = Trust {
        pinned: key(1).into(),
        ..by_stamps
    };
    assert_eq!(standing(&pinned, &[head(3)], None), Standing::Pinned);
    assert!(!standing(&pinned, &[head(4)], None).counts());
    // If the key ended in the log, only places decide, and no moment does.
    let ended = stamped(revoked(day(10), Some(1)));
    assert!(!standing(&ended, &[head(3)], None).counts());
    // A window is over, and the seal is older.
    let window = stamped(store([TrustedKey {
        not_before: Some(day(2)),
        not_after: Some(day(10)),
        ..native(1)
    }]));
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
    for (change, head, in_doubt) in [
        (KeyChange::Revoke, head(6), true),
        (KeyChange::Revoke, head(8), false),
        // The end itself is among the lost entries.
        (KeyChange::Create, head(8), true),
    ] {
        let trust = Trust {
            places: Some(Arc::new(WentBack(Log::with(change, 7, 9)))),
            ..Trust::new(revoked(day(20), Some(7)))
        };
        let purpose = Purpose {
            heads: &[head],
            ..PURPOSE
        };
        let standing = trust.judge(&key(1), &purpose, day(20)).standing;
        assert!(!standing.counts());
        let doubt = in_doubt.then_some(EndDoubt::LogWentBack);
        let found = matches!(standing, Standing::Revoked { doubt: found, .. } if found == doubt);
        assert!(found, "{change:?} {head}");
    }
}
