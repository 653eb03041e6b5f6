//! The events that keys sealed about themselves: their place in the log, and what cannot be put
//! before it.

use super::prelude::*;

#[test]
fn a_key_event_stands_behind_the_heads_that_waited_and_is_written_once() {
    let scene = in_memory();
    let log = scene.open();
    log.publish(&head(1, 0));
    assert_eq!(log.commit_key_event(&revoked(1)).unwrap(), 1);
    log.commit_heads([head(1, 1)]);
    assert_eq!(log.commit_key_event(&revoked(1)).unwrap(), 1);
    let log = scene.open();
    assert_eq!(log.entries_of(&record(1)).unwrap(), [0, 2]);
    assert_eq!(log.key_events().unwrap(), [(1, revoked(1))]);
}

#[test]
fn key_events_in_tiles_are_found_as_those_in_the_journal_are() {
    let scene = in_memory();
    let log = scene.open();
    let mut expected = Vec::new();
    for seed in 1..4 {
        heads(seed, 0..300).for_each(|head| log.publish(&head));
        let event = event(seed, KeyChange::Create);
        expected.push((log.commit_key_event(&event).unwrap(), event));
    }
    assert_eq!(scene.open().key_events().unwrap(), expected);
    log.fold().unwrap();
    let log = scene.open();
    assert_eq!(log.key_events().unwrap(), expected);
    assert_eq!(log.marked().unwrap(), log.size());
}

// T-KLOG-04
#[test]
fn a_log_that_went_back_vouches_for_no_entry() {
    let scene = in_memory();
    let log = scene.open();
    log.commit_heads([head(1, 0)]);
    let journal = scene.get("journal");
    let at = log.commit_key_event(&revoked(1)).unwrap();
    let history = KeyHistory::of(&log.key_events().unwrap());
    assert_eq!(history.ended(revoked(1).public()), Some(at));
    assert_eq!(log.marked().unwrap(), at + 1);
    // The revocation is taken back, so that a later seal could stand before it.
    scene.put("journal", journal);
    let log = scene.open();
    assert_eq!(log.key_events().unwrap(), []);
    assert_eq!(log.marked().unwrap(), 0);
    assert!(log.commit_key_event(&revoked(1)).is_err());
}
