//! The suite that every ledger store passes; only for tests.
//!
//! A store's test gives a function that makes an empty place and returns how to open it; opening it
//! twice must give two stores over the same data, as two processes would have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use super::{
    Append, COMPLETED, ChainedLedger as _, Entry, HashChainedLedgerStore, LedgerStore,
    LedgerStoreExt as _, MAX_BATCH_RECORDS, StoredRecord, Tip,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{GENESIS_EFFECT, Genesis, RunId, StepRecord};

/// Opens one place again and again.
pub type Opener = Box<dyn Fn() -> Box<dyn LedgerStore> + Sync>;

/// Runs the whole suite; `fresh` makes an empty place each time it is called.
///
/// # Panics
/// When the store breaks a law.
pub fn run(fresh: &dyn Fn() -> Opener) {
    for law in [
        a_run_begins_with_its_first_record,
        bytes_come_back_as_they_were_given,
        an_append_that_expects_another_end_changes_nothing,
        pages_join_without_gaps,
        the_newest_completed_record_of_a_key_is_found,
        runs_are_listed_in_order_and_in_pages,
        names_of_runs_do_not_collide_or_leave_the_store,
        what_is_no_record_is_refused,
        a_deleted_run_leaves_a_tombstone_and_takes_no_record,
        another_opening_sees_and_continues_everything,
        concurrent_writers_make_one_unbroken_chain,
        of_eight_writers_who_begin_a_run_one_does,
        a_subscriber_gets_every_record_once_and_in_order,
        a_batch_is_appended_whole,
    ] {
        law(&fresh());
    }
}

/// The run with this name.
pub fn run_id(name: &str) -> RunId {
    RunId::parse(name).unwrap()
}

/// A record as the runtime writes it: chained by pointers, its hash made up from its text. `text`
/// is JSON text without quotes.
pub fn entry(run: &RunId, prev: Option<Digest>, text: &str, key: Option<&str>) -> Entry {
    entry_with(run, prev, text, key, COMPLETED)
}

fn entry_with(
    run: &RunId,
    prev: Option<Digest>,
    text: &str,
    key: Option<&str>,
    status: &str,
) -> Entry {
    let quoted =
        |text: Option<String>| text.map_or("null".to_owned(), |text| format!("\"{text}\""));
    let prev_hash = quoted(prev.map(|prev| prev.to_hex()));
    let begin = format!(
        "{{\"run_id\":{},\"step_id\":\"{text}\",\"status\":\"{status}\",\"idempotency_key\":{},\"prev_hash\":{prev_hash}",
        serde_json::to_string(run.as_str()).unwrap(),
        quoted(key.map(str::to_owned)),
    );
    let hash = Digest::of(begin.as_bytes());
    Entry {
        line: format!("{begin},\"record_hash\":\"{hash}\",\"signature\":null}}").into_bytes(),
        record_hash: Some(hash),
        idempotency_key: key.map(str::to_owned),
        status: status.to_owned(),
    }
}

/// Appends one record to the present end, and again while others are faster; returns the number of
/// attempts.
///
/// # Errors
/// Those of the store.
pub fn append_next(store: &dyn LedgerStore, run: &RunId, text: &str) -> Result<u64, Error> {
    let mut tip = store.tip(run)?.unwrap_or_default();
    for attempt in 0.. {
        match store.append_if(run, &tip, &[entry(run, tip.hash, text, None)])? {
            Append::Stored(now) => {
                assert_eq!(now.count, tip.count + 1);
                return Ok(attempt);
            }
            Append::Differs(now) => {
                assert_ne!(now, tip);
                tip = now;
            }
        }
    }
    unreachable!("one of the attempts wins")
}

/// All records of a run, checked to be one unbroken chain that ends at the store's tip.
pub fn whole_chain(store: &dyn LedgerStore, run: &RunId) -> Vec<StoredRecord> {
    let records: Vec<StoredRecord> = store.list(run, 0).map(Result::unwrap).collect();
    let mut prev = String::from("null");
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record.seq, index as u64);
        let value: serde_json::Value = serde_json::from_slice(&record.line).unwrap();
        assert_eq!(value["prev_hash"].to_string(), prev, "record {index}");
        prev = value["record_hash"].to_string();
    }
    let tip = store.tip(run).unwrap().unwrap_or_default();
    assert_eq!(tip.count, records.len() as u64);
    let hash = tip
        .hash
        .map_or("null".to_owned(), |hash| format!("\"{hash}\""));
    assert_eq!(hash, prev);
    records
}

/// Appends so many records.
pub fn fill(store: &dyn LedgerStore, run: &RunId, count: usize) {
    for number in 0..count {
        append_next(store, run, &number.to_string()).unwrap();
    }
}

/// The faults of a run, and whether each was repaired.
pub fn faults(store: &dyn LedgerStore, run: &RunId, repair: bool) -> Vec<(&'static str, bool)> {
    let report = store.fsck(run, repair).unwrap();
    let faults = report.faults.iter();
    faults.map(|fault| (fault.code, fault.repaired)).collect()
}

fn assert_clean(store: &dyn LedgerStore, run: &RunId) {
    let report = store.fsck(run, false).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(
        report.records,
        store.tip(run).unwrap().unwrap_or_default().count
    );
}

fn a_run_begins_with_its_first_record(place: &Opener) {
    let (store, run) = (place(), run_id("new"));
    assert_eq!(store.tip(&run).unwrap(), None);
    assert_eq!(store.list_after(&run, 0, 9).unwrap(), []);
    assert_eq!(store.find_completed(&run, "k").unwrap(), None);
    assert_eq!(store.tombstone(&run).unwrap(), None);
    assert_eq!(
        store.append_if(&run, &Tip::EMPTY, &[]).unwrap(),
        Append::Stored(Tip::EMPTY)
    );
    assert_eq!(store.runs(None, 9).unwrap(), []);
    let first = entry(&run, None, "first", None);
    let tip = Tip {
        count: 1,
        hash: first.record_hash,
    };
    let stored = store.append_if(&run, &Tip::EMPTY, &[first]).unwrap();
    assert_eq!(stored, Append::Stored(tip));
    assert_eq!(store.tip(&run).unwrap(), Some(tip));
    assert_clean(&*store, &run);
}

fn bytes_come_back_as_they_were_given(place: &Opener) {
    let (store, run) = (place(), run_id("bytes"));
    let long = "x".repeat(300_000);
    let texts = [
        "a",
        "ü \u{2028}\u{2029}\u{85}\u{7f}",
        "\\u0000 \\ud800 \\\"",
        "日本",
        &long,
    ];
    let mut tip = Tip::EMPTY;
    let mut lines = Vec::new();
    for text in texts {
        let next = entry(&run, tip.hash, text, None);
        lines.push(next.line.clone());
        let Append::Stored(now) = store.append_if(&run, &tip, &[next]).unwrap() else {
            panic!("nobody else writes");
        };
        tip = now;
    }
    let found: Vec<_> = store
        .list(&run, 0)
        .map(|record| record.unwrap().line)
        .collect();
    assert_eq!(found, lines);
    let unchained = Entry {
        line: b"{\"NaN\":NaN,\"n\":1e400}".to_vec(),
        record_hash: None,
        idempotency_key: None,
        status: "started".into(),
    };
    let stored = store
        .append_if(&run, &tip, std::slice::from_ref(&unchained))
        .unwrap();
    assert_eq!(
        stored,
        Append::Stored(Tip {
            count: 6,
            hash: None
        })
    );
    assert_eq!(
        store.list_after(&run, 5, 1).unwrap()[0].line,
        unchained.line
    );
    assert_eq!(
        place().tip(&run).unwrap(),
        Some(Tip {
            count: 6,
            hash: None
        })
    );
}

fn an_append_that_expects_another_end_changes_nothing(place: &Opener) {
    let (store, run) = (place(), run_id("cas"));
    fill(&*store, &run, 3);
    let tip = store.tip(&run).unwrap().unwrap();
    let other = Some(Digest::of(b"other"));
    for wrong in [
        Tip::EMPTY,
        Tip { count: 2, ..tip },
        Tip { count: 4, ..tip },
        Tip { hash: None, ..tip },
        Tip { hash: other, ..tip },
    ] {
        let next = entry(&run, wrong.hash, "next", None);
        let answer = store.append_if(&run, &wrong, &[next]).unwrap();
        assert_eq!(answer, Append::Differs(tip));
    }
    assert_eq!(whole_chain(&*store, &run).len(), 3);
    let absent = store.append_if(&run_id("absent"), &tip, &[]).unwrap();
    assert_eq!(absent, Append::Differs(Tip::EMPTY));
}

fn pages_join_without_gaps(place: &Opener) {
    let (store, run) = (place(), run_id("pages"));
    fill(&*store, &run, 10);
    let all = store.list_after(&run, 0, 100).unwrap();
    assert_eq!(all.len(), 10);
    for after in 0..12 {
        for limit in [1, 3, 100] {
            let page = store.list_after(&run, after as u64, limit).unwrap();
            let expected: Vec<_> = all.iter().skip(after).take(limit).cloned().collect();
            assert_eq!(page, expected, "after {after}, at most {limit}");
        }
    }
    assert_eq!(store.list_after(&run, u64::MAX, 1).unwrap(), []);
    assert_eq!(store.list_after(&run, 0, 0).unwrap(), []);
}

fn the_newest_completed_record_of_a_key_is_found(place: &Opener) {
    let (store, run) = (place(), run_id("keys"));
    let steps = [
        ("0", Some("k"), COMPLETED),
        ("1", Some("k"), "failed"),
        ("2", Some("other"), COMPLETED),
        ("3", Some("k"), COMPLETED),
        ("4", Some("k"), "started"),
        ("5", None, COMPLETED),
        ("6", Some("waits"), "waiting"),
    ];
    let mut tip = Tip::EMPTY;
    for (text, key, status) in steps {
        let next = entry_with(&run, tip.hash, text, key, status);
        match store.append_if(&run, &tip, &[next]).unwrap() {
            Append::Stored(now) | Append::Differs(now) => tip = now,
        }
    }
    for store in [store, place()] {
        let seq = |key| {
            store
                .find_completed(&run, key)
                .unwrap()
                .map(|record| record.seq)
        };
        assert_eq!(seq("k"), Some(3));
        assert_eq!(seq("other"), Some(2));
        assert_eq!(seq("waits"), None);
        assert_eq!(seq(""), None);
        assert_eq!(seq("unknown"), None);
    }
}

fn runs_are_listed_in_order_and_in_pages(place: &Opener) {
    let store = place();
    let names = ["a", "a.b", "b", "b-1", "c"];
    for name in ["c", "a", "b-1", "b", "a.b"] {
        fill(&*store, &run_id(name), 1);
    }
    let found = store.runs(None, 100).unwrap();
    assert_eq!(found, names.map(run_id));
    let mut paged = Vec::new();
    while let page = store.runs(paged.last(), 2).unwrap()
        && !page.is_empty()
    {
        paged.extend(page);
    }
    assert_eq!(paged, found);
}

/// A store may refuse a name, but must not take one for another.
fn names_of_runs_do_not_collide_or_leave_the_store(place: &Opener) {
    let store = place();
    let names = [
        "x",
        "X",
        "x ",
        " x",
        "x.jsonl",
        "x%2F",
        "x/y",
        "x\\y",
        "..",
        ".",
        "../x",
        "/x",
        "é",
        "e\u{301}",
        "x\ty",
        "'",
        "\"",
        ";--",
        "%",
        "_",
        "*",
        &"l".repeat(400),
    ];
    let mut taken = Vec::new();
    for name in names {
        let run = run_id(name);
        match append_next(&*store, &run, "first") {
            Ok(_) => taken.push(run),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}: {error}");
                assert!(store.tip(&run).is_err(), "{name:?}");
            }
        }
    }
    assert!(taken.len() > 10, "{taken:?}");
    for run in &taken {
        assert_eq!(whole_chain(&*store, run).len(), 1, "{run}");
    }
    taken.sort();
    assert_eq!(store.runs(None, 100).unwrap(), taken);
}

fn what_is_no_record_is_refused(place: &Opener) {
    let (store, run) = (place(), run_id("bad"));
    let good = entry(&run, None, "good", None);
    for line in [
        "",
        "{}\n",
        "{\"a\":\"b\n\"}",
        "{\r}",
        "[]",
        "{\0}",
        "x",
        "{",
    ] {
        let bad = Entry {
            line: line.into(),
            ..good.clone()
        };
        let error = store
            .append_if(&run, &Tip::EMPTY, &[good.clone(), bad])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{line:?}");
    }
    let many = vec![good; MAX_BATCH_RECORDS + 1];
    let error = store.append_if(&run, &Tip::EMPTY, &many).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(store.tip(&run).unwrap(), None);
}

fn a_deleted_run_leaves_a_tombstone_and_takes_no_record(place: &Opener) {
    let (store, run, other) = (place(), run_id("gone"), run_id("gone.too"));
    fill(&*store, &run, 3);
    fill(&*store, &other, 2);
    let tip = store.tip(&run).unwrap().unwrap();
    let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
    let earlier = Tip {
        count: tip.count - 1,
        ..tip
    };
    for other in [earlier, Tip { hash: None, ..tip }, Tip::EMPTY] {
        assert!(!store.delete(&run, Some(&other), at).unwrap());
    }
    assert_eq!(whole_chain(&*store, &run).len(), 3);
    assert!(store.delete(&run, Some(&tip), at).unwrap());
    let again = Timestamp::from_micros(9).unwrap();
    assert!(store.delete(&run, None, again).unwrap());
    assert!(store.delete(&run, Some(&tip), again).unwrap());
    assert!(!store.delete(&run, Some(&earlier), again).unwrap());
    assert!(!store.delete(&run_id("never was"), None, at).unwrap());
    for (round, store) in [store, place()].into_iter().enumerate() {
        let stone = store.tombstone(&run).unwrap().unwrap();
        assert_eq!((stone.tip, stone.at), (tip, at));
        for end in [tip, Tip::EMPTY] {
            let next = entry(&run, end.hash, "next", None);
            let error = store.append_if(&run, &end, &[next]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
        }
        assert_eq!(store.tip(&run).unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(
            store.list_after(&run, 0, 9).unwrap_err().kind(),
            ErrorKind::Refused
        );
        assert_eq!(
            store.find_completed(&run, "k").unwrap_err().kind(),
            ErrorKind::Refused
        );
        assert_eq!(store.runs(None, 9).unwrap(), std::slice::from_ref(&other));
        assert_eq!(whole_chain(&*store, &other).len(), 2);
        assert!(store.fsck(&run, false).unwrap().is_clean());
        let later = run_id("never was");
        assert_eq!(store.tombstone(&later).unwrap().is_some(), round == 1);
        if round == 0 {
            append_next(&*store, &later, "now it is").unwrap();
            assert!(store.delete(&later, None, at).unwrap());
        }
    }
}

fn another_opening_sees_and_continues_everything(place: &Opener) {
    let run = run_id("again");
    let stores = [place(), place()];
    for number in 0..20 {
        let store = &stores[number % 2];
        append_next(&**store, &run, &number.to_string()).unwrap();
        let other = &stores[(number + 1) % 2];
        assert_eq!(other.tip(&run).unwrap().unwrap().count, number as u64 + 1);
    }
    let third = place();
    assert_eq!(whole_chain(&*third, &run).len(), 20);
    append_next(&*third, &run, "20").unwrap();
    assert_eq!(whole_chain(&*stores[0], &run).len(), 21);
    assert_clean(&*third, &run);
}

fn concurrent_writers_make_one_unbroken_chain(place: &Opener) {
    const WRITERS: usize = 8;
    const APPENDS: usize = 25;
    let (run, lost) = (run_id("race"), AtomicUsize::new(0));
    let stores = [place(), place()];
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, run, lost) = (&stores[writer % 2], &run, &lost);
            scope.spawn(move || {
                for number in 0..APPENDS {
                    let text = format!("{writer}.{number}");
                    let retries = append_next(&**store, run, &text).unwrap();
                    lost.fetch_add(usize::try_from(retries).unwrap(), Ordering::Relaxed);
                }
            });
        }
    });
    let records = whole_chain(&*stores[0], &run);
    assert_eq!(records.len(), WRITERS * APPENDS);
    for writer in 0..WRITERS {
        let own = format!("\"step_id\":\"{writer}.");
        let numbers = records.iter().filter_map(|record| {
            let line = String::from_utf8(record.line.clone()).unwrap();
            let number = line.split_once(&own)?.1.split('"').next()?;
            number.parse::<usize>().ok()
        });
        assert!(
            numbers.eq(0..APPENDS),
            "the records of one writer are in order"
        );
    }
    assert_clean(&*place(), &run);
}

fn of_eight_writers_who_begin_a_run_one_does(place: &Opener) {
    const WRITERS: u8 = 8;
    const ROUNDS: u8 = 4;
    let at = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
    for round in 0..ROUNDS {
        let run = run_id(&format!("first {round}"));
        // Each writer has a store of its own; they open the place at the same time, too.
        let ledgers: Vec<_> = thread::scope(|scope| {
            let open = || HashChainedLedgerStore::new(place());
            let opening: Vec<_> = (0..WRITERS).map(|_| scope.spawn(open)).collect();
            let opened = opening.into_iter().map(|opening| opening.join().unwrap());
            opened.collect()
        });
        let (all_are_here, began) = (Barrier::new(usize::from(WRITERS)), AtomicUsize::new(0));
        thread::scope(|scope| {
            for (writer, ledger) in (0..WRITERS).zip(&ledgers) {
                let (run, all_are_here, began) = (&run, &all_are_here, &began);
                scope.spawn(move || {
                    let genesis = Genesis::new(RecordId::from_bytes([writer; 32]), at);
                    let genesis = genesis.to_record(run.clone(), writer.to_string(), None);
                    all_are_here.wait();
                    if let Some(begun) = ledger.begin(&genesis).unwrap() {
                        assert_eq!(begun.tip.count, 1);
                        began.fetch_add(1, Ordering::Relaxed);
                    }
                    let step = format!("step of {writer}");
                    let step = StepRecord::start(run.clone(), step, "node", None, at);
                    ledger.append(&step).unwrap();
                });
            }
        });
        assert_eq!(began.into_inner(), 1);
        let records = whole_chain(&*place(), &run);
        let lines: Vec<String> = records
            .into_iter()
            .map(|record| String::from_utf8(record.line).unwrap())
            .collect();
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert_eq!(lines.len(), usize::from(WRITERS) + 1);
        assert!(lines[0].contains(GENESIS_EFFECT), "{}", lines[0]);
        assert_eq!(count(GENESIS_EFFECT), 1);
        for writer in 0..WRITERS {
            assert_eq!(count(&format!("\"step of {writer}\"")), 1);
        }
    }
}

fn a_subscriber_gets_every_record_once_and_in_order(place: &Opener) {
    const RECORDS: usize = 40;
    let (run, writer, reader) = (run_id("stream"), place(), place());
    thread::scope(|scope| {
        let (run, writer) = (&run, &writer);
        scope.spawn(move || fill(&**writer, run, RECORDS));
        let mut stream = reader.subscribe(run, 0, Duration::from_secs(20));
        for expected in 0..RECORDS as u64 {
            assert_eq!(stream.next().unwrap().unwrap().seq, expected);
        }
        assert_eq!(stream.position(), RECORDS as u64);
    });
    let mut quiet = reader.subscribe(&run, RECORDS as u64, Duration::from_millis(5));
    assert!(quiet.next().is_none());
    fill(&*writer, &run, 1);
    assert_eq!(quiet.next().unwrap().unwrap().seq, RECORDS as u64);
    let tip = reader.wait(&run, 0, Duration::ZERO).unwrap();
    assert_eq!(tip.count, RECORDS as u64 + 1);
}

fn a_batch_is_appended_whole(place: &Opener) {
    let (store, run) = (place(), run_id("batch"));
    let mut tip = Tip::EMPTY;
    for batch in 0..3 {
        let (mut entries, mut prev) = (Vec::new(), tip.hash);
        for number in 0..100 {
            let next = entry(
                &run,
                prev,
                &format!("{batch}.{number}"),
                Some(&number.to_string()),
            );
            prev = next.record_hash;
            entries.push(next);
        }
        let stored = store.append_if(&run, &tip, &entries).unwrap();
        tip = Tip {
            count: tip.count + 100,
            hash: prev,
        };
        assert_eq!(stored, Append::Stored(tip));
    }
    assert_eq!(whole_chain(&*place(), &run).len(), 300);
    assert_eq!(store.find_completed(&run, "7").unwrap().unwrap().seq, 207);
    assert_clean(&*store, &run);
}
