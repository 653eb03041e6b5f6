//! The laws of head stores, held against each of them, and damaged files.

use super::*;
use crate::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call};
use crate::objects::fault::{FaultObjects, ObjectFault};
use crate::objects::moto::Moto;
use crate::objects::{self, Cloud, Folder, Objects};
use crate::postgres::throwaway::Cluster;
use crate::postgres::{PostgresDatabase, PostgresHeadStore, PostgresTables};
use crate::sys::{Fs as _, RealFs};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyId;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::time::Timestamp;

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn stored(record: u8, seq: u64, size: u64) -> StoredHead {
    StoredHead {
        head: Head {
            record: RecordId::from_bytes([record; 32]),
            seq,
            size,
            line: digest(&format!("seal {seq}")),
        },
        root: None,
        salts: None,
        key: None,
        kind: RecordKind::Transcript,
        is_final: false,
        thread: Some(ThreadId::parse("clean/ten-1").unwrap()),
        first_seen: Timestamp::from_micros(1).unwrap(),
        updated: Timestamp::from_micros(2).unwrap(),
        path_hint: Some("/logs/\u{e9}\"\n".to_owned()),
        aliases: vec![digest("line 1")],
        logged: None,
        vouches: true,
    }
}

fn in_memory() -> Arc<dyn Objects> {
    let memory = object_store::memory::InMemory::new();
    Arc::new(Cloud::new(Arc::new(memory), ""))
}

#[track_caller]
fn stores(swap: Result<Swap, Error>) {
    assert_eq!(swap.unwrap(), Swap::Stored);
}

/// Runs `test` on every implementation.
fn on_all_stores(test: impl Fn(&dyn HeadStore)) {
    test(&MemoryHeadStore::default());
    test(&FileHeadStore::new(FaultFs::new().shared(), "/home/heads"));
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("heads");
    test(&FileHeadStore::new(RealFs::shared(), files));
    test(&ObjectHeadStore::new(in_memory()));
    let objects = Folder::new(RealFs::shared(), folder.path().join("objects"));
    test(&ObjectHeadStore::new(Arc::new(objects)));
    if let Some(cluster) = Cluster::shared() {
        let database = PostgresDatabase::open(&cluster.fresh()).unwrap();
        let tables = PostgresTables::make(&database).unwrap();
        test(&PostgresHeadStore::over(tables));
    }
    if let Some(moto) = Moto::shared() {
        let objects = objects::open(&moto.fresh(), &moto.settings()).unwrap();
        test(&ObjectHeadStore::new(objects));
    }
}

#[test]
fn every_fault_at_every_call_leaves_a_head_in_object_storage_that_was_promised() {
    let (first, next) = (stored(1, 0, 100), stored(1, 1, 200));
    for (call, fault) in (0..20).flat_map(|call| ObjectFault::ALL.map(|fault| (call, fault))) {
        let behind = in_memory();
        let faulty = Arc::new(FaultObjects::new(Arc::clone(&behind)));
        faulty.plan(call, fault);
        let heads = ObjectHeadStore::new(faulty);
        let created = heads.create(&first);
        let replaced = heads.replace_if(&first.head, &next, Durability::Written);
        let after = ObjectHeadStore::new(Arc::clone(&behind));
        let there = after.fetch(&first.head.record).unwrap();
        let what = format!("call {call}, {fault:?}: {created:?}, {replaced:?}");
        match (&created, &replaced) {
            (_, Ok(Swap::Stored)) => assert_eq!(there, Some(next.clone()), "{what}"),
            (Ok(Swap::Stored), Err(_)) => assert!(there.is_some(), "{what}"),
            (Err(_), Ok(Swap::Differs(found))) => assert_eq!(found.as_deref(), there.as_ref()),
            (Err(_), Err(_)) => {}
            _ => panic!("{what}"),
        }
        if let Some(found) = there {
            let known = after.find_by_line(&digest("line 1")).unwrap();
            assert_eq!(known, [found.head.record]);
        }
    }
}

#[test]
fn what_was_stored_comes_back_and_other_records_are_unknown() {
    on_all_stores(|heads| {
        let first = stored(1, 0, 100);
        assert_eq!(heads.fetch(&first.head.record).unwrap(), None);
        stores(heads.create(&first));
        let found = heads.fetch(&first.head.record).unwrap();
        assert_eq!(found, Some(first.clone()));
        assert_eq!(heads.fetch(&stored(2, 0, 0).head.record).unwrap(), None);
        let again = heads.create(&stored(1, 5, 500)).unwrap();
        assert_eq!(again, Swap::Differs(Some(Box::new(first))));
    });
}

#[test]
fn a_swap_needs_the_head_that_stands_there() {
    on_all_stores(|heads| {
        let (first, next, late) = (stored(1, 0, 100), stored(1, 1, 200), stored(1, 2, 300));
        let absent = heads.replace_if(&first.head, &next, Durability::Durable);
        assert_eq!(absent.unwrap(), Swap::Differs(None));
        stores(heads.create(&first));
        for durability in [Durability::Written, Durability::Durable] {
            let wrong = heads.replace_if(&next.head, &late, durability).unwrap();
            assert_eq!(wrong, Swap::Differs(Some(Box::new(first.clone()))));
        }
        stores(heads.replace_if(&first.head, &next, Durability::Written));
        stores(heads.replace_if(&next.head, &late, Durability::Durable));
        assert_eq!(heads.fetch(&late.head.record).unwrap(), Some(late));
    });
}

#[test]
fn a_head_never_goes_back() {
    on_all_stores(|heads| {
        let mut known = stored(1, 4, 400);
        known.is_final = true;
        stores(heads.create(&known));
        let with = |change: fn(&mut StoredHead)| {
            let mut new = stored(1, 5, 500);
            change(&mut new);
            new
        };
        for (what, new) in [
            ("a lower seq", with(|new| new.head.seq = 3)),
            ("a smaller size", with(|new| new.head.size = 399)),
            ("a second seal 4", with(|new| new.head.seq = 4)),
            ("another kind", with(|new| new.kind = RecordKind::Document)),
            ("a final taken back", stored(1, 4, 400)),
        ] {
            let swap = heads.replace_if(&known.head, &new, Durability::Durable);
            let error = swap.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{what}: {error}");
        }
        let found = heads.fetch(&known.head.record).unwrap();
        assert_eq!(found, Some(known.clone()));
        stores(heads.replace_if(&known.head, &known, Durability::Durable));
    });
}

#[test]
fn a_document_may_shrink_and_a_first_sight_stays() {
    on_all_stores(|heads| {
        let mut first = stored(1, 0, 100);
        first.kind = RecordKind::Document;
        stores(heads.create(&first));
        let mut shorter = stored(1, 1, 50);
        shorter.kind = RecordKind::Document;
        shorter.first_seen = Timestamp::from_micros(99).unwrap();
        shorter.aliases = vec![digest("line 2")];
        stores(heads.replace_if(&first.head, &shorter, Durability::Durable));
        let found = heads.fetch(&first.head.record).unwrap().unwrap();
        assert_eq!(found.first_seen, first.first_seen);
        assert_eq!(found.aliases, [digest("line 1"), digest("line 2")]);
    });
}

#[test]
fn records_are_found_by_each_of_their_lines() {
    on_all_stores(|heads| {
        let (a, mut b) = (stored(1, 0, 100), stored(2, 0, 100));
        b.aliases.push(digest("only b"));
        for new in [&b, &a] {
            stores(heads.create(new));
        }
        let (a, b) = (a.head.record, b.head.record);
        assert_eq!(heads.find_by_line(&digest("line 1")).unwrap(), [a, b]);
        assert_eq!(heads.find_by_line(&digest("only b")).unwrap(), [b]);
        assert_eq!(heads.find_by_line(&digest("unknown")).unwrap(), []);
    });
}

#[test]
fn a_place_leads_to_the_record_that_was_sealed_last_in_it() {
    let at = |record: u8, seq: u64, place: &str| StoredHead {
        path_hint: Some(place.to_owned()),
        ..stored(record, seq, 100 * seq)
    };
    on_all_stores(|heads| {
        let last = |place: &str| {
            let found = heads.find_by_place(RecordKind::Transcript, place).unwrap();
            found.map(|stored| stored.head.record)
        };
        let (a, b) = (at(1, 0, "/a"), at(2, 0, "/b"));
        for new in [&a, &b] {
            stores(heads.create(new));
        }
        assert_eq!(last("/a"), Some(a.head.record));
        assert_eq!(last("/b"), Some(b.head.record));
        assert_eq!(last("/c"), None);
        let other_kind = heads.find_by_place(RecordKind::Document, "/a").unwrap();
        assert_eq!(other_kind, None);
        // A record that is sealed in another place leaves its old place; the next record there
        // takes it over.
        let moved = at(1, 1, "/c");
        stores(heads.replace_if(&a.head, &moved, Durability::Written));
        assert_eq!((last("/a"), last("/c")), (None, Some(a.head.record)));
        stores(heads.replace_if(&b.head, &at(2, 1, "/c"), Durability::Durable));
        assert_eq!((last("/b"), last("/c")), (None, Some(b.head.record)));
    });
}

#[test]
fn a_damaged_place_is_an_error_and_mended_by_the_next_seal() {
    let (disk, heads, first, _) = damageable();
    let place = first.path_hint.clone().unwrap();
    let file = heads.place_file(first.kind, &place);
    disk.set_bytes(&file, b"nonsense").unwrap();
    let error = heads.find_by_place(first.kind, &place).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    let next = stored(0xab, 4, 400);
    stores(heads.replace_if(&first.head, &next, Durability::Durable));
    assert_eq!(heads.find_by_place(first.kind, &place).unwrap(), Some(next));
}

/// A head that names its signers, or lines that stay.
fn of_kind(kind: RecordKind, seq: u64, aliases: std::ops::Range<usize>) -> StoredHead {
    StoredHead {
        kind,
        aliases: aliases.map(|i| digest(&i.to_string())).collect(),
        ..stored(1, seq, 100 + seq)
    }
}

// T-DOC-10
#[test]
fn a_head_names_the_newest_first_lines_and_each_earlier_one_finds_its_record() {
    for kind in [RecordKind::Document, RecordKind::Transcript] {
        on_all_stores(|heads| {
            let mut last = of_kind(kind, 0, 0..2);
            stores(heads.create(&last));
            for seq in 1..40 {
                let from = 2 * usize::try_from(seq).unwrap();
                let next = of_kind(kind, seq, from..from + 2);
                admit(heads, (&next.head.record, kind), (seq, 1), &next.aliases).unwrap();
                stores(heads.replace_if(&last.head, &next, Durability::Durable));
                last = next;
            }
            let found = heads.fetch(&last.head.record).unwrap().unwrap();
            assert_eq!(found.aliases.len(), MAX_ALIASES);
            assert!(found.aliases.ends_with(&last.aliases));
            for line in 0..80 {
                let records = heads.find_by_line(&digest(&line.to_string())).unwrap();
                assert_eq!(records, [last.head.record], "{line}");
            }
        });
    }
}

// T-CMD-20
#[test]
fn a_head_beyond_a_bound_is_refused_before_its_seal_is_made() {
    let heads = MemoryHeadStore::default();
    let full = of_kind(RecordKind::Scroll, 0, 0..MAX_ALIASES);
    stores(heads.create(&full));
    let of = |kind| (&full.head.record, kind);
    let limit = |seq, size, aliases: &[Digest]| {
        let refused = admit(&heads, of(RecordKind::Scroll), (seq, size), aliases);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Limit);
    };
    admit(&heads, of(RecordKind::Scroll), (1, 1), &full.aliases).unwrap();
    limit(1, 1, &[digest("one more")]);
    limit(MAX_HEAD_NUMBER + 1, 1, &[]);
    limit(1, MAX_HEAD_NUMBER + 1, &[]);
    let other = admit(&heads, of(RecordKind::Ledger), (1, 1), &[]);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
fn too_many_aliases_are_refused_and_a_long_hint_is_left_out() {
    on_all_stores(|heads| {
        let mut new = of_kind(RecordKind::Scroll, 0, 0..0);
        new.path_hint = Some("x".repeat(MAX_PATH_HINT_BYTES + 1));
        new.aliases = (0..MAX_ALIASES).map(|i| digest(&i.to_string())).collect();
        stores(heads.create(&new));
        let found = heads.fetch(&new.head.record).unwrap().unwrap();
        assert_eq!((found.path_hint, found.aliases.len()), (None, MAX_ALIASES));
        let more = of_kind(RecordKind::Scroll, 1, MAX_ALIASES..MAX_ALIASES + 1);
        let swap = heads.replace_if(&new.head, &more, Durability::Durable);
        assert_eq!(swap.unwrap_err().kind(), ErrorKind::Limit);
    });
}

#[test]
fn the_largest_head_fits_its_file() {
    let mut largest = stored(1, u64::MAX, u64::MAX);
    largest.thread = Some(ThreadId::parse(&"\u{e9}".repeat(256)).unwrap());
    largest.path_hint = Some("\u{1}".repeat(MAX_PATH_HINT_BYTES));
    largest.aliases = vec![digest("x"); MAX_ALIASES];
    let bytes = codec::encode(&largest).unwrap();
    assert_eq!(codec::decode(&bytes), Some(largest));
}

/// A file store on a disk that can be damaged, with one durable head.
fn damageable() -> (FaultFs, FileHeadStore, StoredHead, String) {
    let disk = FaultFs::new();
    let heads = FileHeadStore::new(disk.shared(), "/heads");
    let first = stored(0xab, 3, 300);
    stores(heads.create(&first));
    let stem = format!("/heads/ab/{}", "ab".repeat(31));
    (disk, heads, first, stem)
}

#[test]
fn every_damaged_byte_of_a_head_file_is_an_error_and_never_unknown() {
    let (disk, heads, first, stem) = damageable();
    let path = format!("{stem}.head");
    let path = Path::new(&path);
    let whole = disk.bytes_of(path).unwrap();
    let mut damaged = vec![[&whole[..], b"\n"].concat()];
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        damaged.extend([changed, whole[..at].to_vec()]);
    }
    for bytes in damaged {
        disk.set_bytes(path, &bytes).unwrap();
        let error = heads.fetch(&first.head.record).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External);
        assert!(error.to_string().contains("is damaged"), "{error}");
        assert!(heads.create(&first).is_err());
    }
    disk.set_bytes(path, &whole).unwrap();
    assert_eq!(heads.fetch(&first.head.record).unwrap(), Some(first));
}

#[test]
fn a_head_file_under_another_records_name_is_an_error() {
    let (disk, heads, first, stem) = damageable();
    let other = stored(0xac, 0, 10);
    stores(heads.create(&other));
    let others = format!("/heads/ac/{}.head", "ac".repeat(31));
    let bytes = disk.bytes_of(Path::new(&others)).unwrap();
    disk.set_bytes(Path::new(&format!("{stem}.head")), &bytes)
        .unwrap();
    assert!(heads.fetch(&first.head.record).is_err());
}

#[test]
fn a_damaged_recent_head_leaves_the_one_before_and_later_heads_work() {
    let (disk, heads, first, stem) = damageable();
    let recent = format!("{stem}.recent");
    let recent = Path::new(&recent);
    let put = |seq, durability| {
        let old = heads.fetch(&first.head.record).unwrap().unwrap();
        let new = stored(0xab, seq, seq * 100);
        stores(heads.replace_if(&old.head, &new, durability));
        assert_eq!(heads.fetch(&first.head.record).unwrap(), Some(new));
    };
    let seq = || heads.fetch(&first.head.record).unwrap().unwrap().head.seq;
    put(4, Durability::Written);
    let whole = disk.bytes_of(recent).unwrap();
    let line_end = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for size in 0..=line_end {
        disk.set_bytes(recent, &whole[..size]).unwrap();
        assert_eq!(seq(), 3);
    }
    disk.set_bytes(recent, &whole).unwrap();
    put(5, Durability::Written);
    let mut damaged = disk.bytes_of(recent).unwrap();
    let second_slot = damaged.len() / 2;
    damaged[second_slot + 100] ^= 1;
    disk.set_bytes(recent, &damaged).unwrap();
    assert_eq!(seq(), 4);
    put(6, Durability::Written);
    put(7, Durability::Durable);
    // A recent head that the durable one has overtaken is not taken for newer.
    disk.set_bytes(recent, &whole).unwrap();
    assert_eq!(seq(), 7);
    disk.set_bytes(recent, b"").unwrap();
    put(8, Durability::Written);
}

#[test]
fn a_written_head_with_more_than_a_new_seal_is_stored_whole() {
    let (disk, heads, first, stem) = damageable();
    let mut next = stored(0xab, 4, 400);
    next.path_hint = Some("/moved".to_owned());
    stores(heads.replace_if(&first.head, &next, Durability::Written));
    assert_eq!(heads.fetch(&first.head.record).unwrap(), Some(next));
    assert_eq!(disk.bytes_of(Path::new(&format!("{stem}.recent"))), None);
}

/// As a transcript or a ledger publishes it.
fn of_a_turn(seq: u64) -> StoredHead {
    StoredHead {
        root: Some(digest(&format!("root {seq}"))),
        key: Some(KeyId::parse_hex(&"cd".repeat(32)).unwrap()),
        updated: Timestamp::from_micros(seq + 2).unwrap(),
        ..stored(0xab, seq, seq * 100)
    }
}

fn syncs(disk: &FaultFs) -> usize {
    let called = disk.called();
    called.iter().filter(|call| call.contains("sync")).count()
}

// T-TRA-44
#[test]
fn the_head_of_a_turn_costs_no_sync_and_a_durable_one_is_never_far_behind() {
    let (disk, heads, mut last, stem) = damageable();
    let recent = format!("{stem}.recent");
    let mut whole = 0;
    for seq in 4..200 {
        let next = of_a_turn(seq);
        disk.plan(usize::MAX, FaultKind::Io);
        stores(heads.replace_if(&last.head, &next, Durability::Written));
        let is_whole = syncs(&disk) > 0;
        whole += u64::from(is_whole);
        assert_eq!(is_whole, (seq - 3) % 64 == 0, "{seq}");
        assert_eq!(heads.fetch(&next.head.record).unwrap(), Some(next.clone()));
        // The slots are lost with the power.
        let slots = disk.bytes_of(Path::new(&recent));
        disk.set_bytes(Path::new(&recent), b"").unwrap();
        let durable = heads.fetch(&next.head.record).unwrap().unwrap();
        assert!(seq - durable.head.seq < 64, "{seq} {durable:?}");
        disk.set_bytes(Path::new(&recent), &slots.unwrap_or_default())
            .unwrap();
        last = next;
    }
    assert_eq!(whole, 3);
}

// T-TRA-44
#[test]
fn a_crash_at_each_call_leaves_a_head_of_a_turn_that_was_stored_and_never_a_mixed_one() {
    let survives = |call, kind, end: Option<Keep>| {
        let disk = FaultFs::new();
        let heads = FileHeadStore::new(disk.shared(), "/heads");
        let mut last = of_a_turn(3);
        stores(heads.create(&last));
        disk.plan(call, kind);
        let (mut promised, mut tried) = (3, 3);
        for seq in 4..9 {
            let next = of_a_turn(seq);
            tried = seq;
            if heads
                .replace_if(&last.head, &next, Durability::Written)
                .is_err()
            {
                break;
            }
            (promised, last) = (seq, next);
        }
        let (struck, cut) = (disk.struck().is_some(), end.is_some());
        disk.end(end);
        let heads = FileHeadStore::new(disk.shared(), "/heads");
        let found = heads.fetch(&last.head.record).unwrap().unwrap();
        let what = format!("call {call}, {kind:?}, {end:?}: {found:?}");
        let seq = found.head.seq;
        assert_eq!(found.head, of_a_turn(seq).head, "{what}");
        assert_eq!(found.root, of_a_turn(seq).root, "{what}");
        assert!((3..=tried).contains(&seq), "{what}");
        // A killed process lost nothing of what it was promised.
        assert!(
            cut || kind == FaultKind::PowerOff || seq >= promised,
            "{what}"
        );
        let next = of_a_turn(seq + 1);
        stores(heads.replace_if(&found.head, &next, Durability::Written));
        assert_eq!(heads.fetch(&next.head.record).unwrap(), Some(next));
        struck
    };
    fail_each_call(20, |call, _| ends(call), survives);
}

// T-TRA-44
#[test]
fn a_slot_that_another_wrote_takes_no_head_back() {
    let (disk, heads, first, stem) = damageable();
    let recent = format!("{stem}.recent");
    let mut known = of_a_turn(64);
    known.is_final = true;
    stores(heads.replace_if(&first.head, &known, Durability::Durable));
    let forged = |change: fn(&mut StoredHead)| {
        let mut head = of_a_turn(65);
        change(&mut head);
        let slots = recent::Slots::read(&disk, Path::new("/none")).unwrap();
        slots.write(&disk, Path::new(&recent), &recent::RecentHead::of(&head))
    };
    let backward: [fn(&mut StoredHead); 6] = [
        |head| head.head.record = RecordId::from_bytes([0xac; 32]),
        |head| head.head.seq = 63,
        |head| head.head.size = 1,
        |head| head.head.seq = 64,
        |head| (head.head, head.head.line) = (of_a_turn(64).head, digest("another")),
        |head| head.head = of_a_turn(64).head,
    ];
    for (number, change) in backward.into_iter().enumerate() {
        forged(change).unwrap();
        let found = heads.fetch(&known.head.record).unwrap();
        assert_eq!(found, Some(known.clone()), "{number}");
    }
    // One that is ahead accuses the record, and hides nothing.
    forged(|_| {}).unwrap();
    let found = heads.fetch(&known.head.record).unwrap().unwrap();
    assert_eq!(found.head, of_a_turn(65).head);
}

#[test]
fn a_stranger_among_the_aliases_is_an_error() {
    let (disk, heads, _, _) = damageable();
    let hex = digest("line 1").to_hex();
    let stray = format!("/heads/lines/{}/{}/notes.txt", &hex[..2], &hex[2..]);
    disk.open(Path::new(&stray), crate::sys::Access::CreateNew(0o600))
        .unwrap();
    let error = heads.find_by_line(&digest("line 1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
}

#[test]
fn readers_see_whole_heads_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let heads = Arc::new(FileHeadStore::new(RealFs::shared(), folder.path()));
    stores(heads.create(&stored(1, 0, 0)));
    let record = stored(1, 0, 0).head.record;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 0..200 {
                let durability =
                    [Durability::Durable, Durability::Written][usize::from(seq % 5 != 0)];
                let (old, new) = (stored(1, seq, seq), stored(1, seq + 1, seq + 1));
                let swapped = heads.replace_if(&old.head, &new, durability).unwrap();
                assert_eq!(swapped, Swap::Stored);
            }
        });
        scope.spawn(|| {
            let mut last = 0;
            while last < 200 {
                let seen = heads.fetch(&record).unwrap().unwrap().head.seq;
                assert!(seen >= last, "{seen} after {last}");
                last = seen;
            }
        });
    });
}
