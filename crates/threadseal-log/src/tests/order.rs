//! In which order entries stand in the log that takes the place of another one.

use super::key_events::event;
use super::restarts::{published, restarted};
use super::*;
use threadseal_core::tlog::entry::key_event::KeyChange;

/// `record:seq` of the heads, and `end` for the end of a key, in the order of the log.
fn order(log: &SealLog) -> Vec<String> {
    let view = log.view().unwrap();
    let entry = |number| match LogEntry::read(&view.entry(number).unwrap()).unwrap() {
        LogEntry::Head(logged) => {
            let Head { record, seq, .. } = logged.head;
            format!("{}:{seq}", record.as_bytes()[0])
        }
        LogEntry::Key(event) if *event.change() != KeyChange::Create => "end".to_owned(),
        LogEntry::Key(_) => "key".to_owned(),
        other => panic!("{other:?}"),
    };
    (1..view.tree().size).map(entry).collect()
}

fn ended(places: &LogRegistry, key: &Arc<Remembering>, seed: u8) {
    let event = event(seed, KeyChange::Revoke);
    open(places, key).commit_key_event(&event).unwrap();
}

/// A turn, or a record of one of several actors, is judged by the head that covers it, and not by the last one.
// T-KLOG-17
#[test]
fn all_that_stood_before_the_last_end_of_a_key_keeps_its_place() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0), head(2, 0)]);
    published(&places, &key, &[head(1, 1), head(1, 2)]);
    ended(&places, &key, 1);
    published(&places, &key, &[head(1, 3), head(2, 1)]);
    open(&places, &key)
        .commit_key_event(&event(3, KeyChange::Create))
        .unwrap();
    ended(&places, &key, 2);
    published(&places, &key, &[head(1, 4), head(1, 5), head(3, 0)]);
    let expected = [
        "1:0", "2:0", "1:1", "1:2", "end", "1:3", "2:1", "key", "end", "1:5", "3:0",
    ];
    for id in [0xcd, 0xef] {
        assert_eq!(restarted(&places, &key, id, &[], &[]), (3, 0));
        let log = open(&places, &key);
        assert_eq!(order(&log), expected);
        assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
    }
}

// T-KLOG-17
#[test]
fn of_more_heads_than_come_along_the_newest_before_each_end_do_and_that_is_not_done_by_the_way() {
    let (_folder, places, key) = on_disk();
    let heads: Vec<LoggedHead> = (0..60).map(|seq| head(1, seq)).collect();
    published(&places, &key, &heads);
    ended(&places, &key, 1);
    let heads: Vec<LoggedHead> = (60..120).map(|seq| head(1, seq)).collect();
    published(&places, &key, &heads);
    ended(&places, &key, 2);
    let past = places.past(&[], None).unwrap().unwrap();
    let log_key = LogKey(Arc::clone(&key) as _);
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    let refused = places
        .restart(past, &next, &log_key, &[], false)
        .unwrap_err();
    assert!(refused.to_string().contains("--anyway"), "{refused}");
    restarted(&places, &key, 0xef, &[], &[]);
    let order = order(&open(&places, &key));
    assert_eq!(order[..2], ["1:59", "end"], "{order:?}");
    assert!(order.len() < 100 && order.ends_with(&["1:119".to_owned(), "end".to_owned()]));
}
