//! The events that keys sealed about themselves: their place in the log, and what cannot be put
//! before it.

use super::*;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent, KeyHistory};

pub(crate) fn event(seed: u8, change: KeyChange) -> KeyEvent {
    let signer = LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native);
    KeyEvent::sign(change, &signer).unwrap()
}

#[test]
fn a_key_event_stands_behind_the_heads_that_waited_and_is_written_once() {
    let (_, places, key) = in_memory();
    let log = open(&places, &key);
    let revoked = event(1, KeyChange::Revoke);
    log.publish(&head(1, 0));
    assert_eq!(log.commit_key_event(&revoked).unwrap(), 1);
    log.publish(&head(1, 1));
    flushed(&log);
    assert_eq!(log.commit_key_event(&revoked).unwrap(), 1);
    let log = open(&places, &key);
    assert_eq!(log.entries_of(&record(1)).unwrap(), [0, 2]);
    assert_eq!(log.key_events().unwrap(), [(1, revoked)]);
}

#[test]
fn key_events_in_tiles_are_found_as_those_in_the_journal_are() {
    let (_, places, key) = in_memory();
    let log = open(&places, &key);
    let mut expected = Vec::new();
    for seed in 1..4 {
        for seq in 0..300 {
            log.publish(&head(seed, seq));
        }
        let event = event(seed, KeyChange::Create);
        expected.push((log.commit_key_event(&event).unwrap(), event));
    }
    assert_eq!(open(&places, &key).key_events().unwrap(), expected);
    log.fold().unwrap();
    let log = open(&places, &key);
    assert_eq!(log.key_events().unwrap(), expected);
    assert_eq!(log.marked().unwrap(), log.view().unwrap().tree().size);
}

// T-KLOG-04
#[test]
fn a_log_that_went_back_vouches_for_no_entry() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    log.publish(&head(1, 0));
    flushed(&log);
    let journal = fs.bytes_of(&log.access.dir.journal()).unwrap();
    let at = log.commit_key_event(&event(1, KeyChange::Revoke)).unwrap();
    let history = KeyHistory::of(&log.key_events().unwrap());
    assert_eq!(
        history.ended(event(1, KeyChange::Create).public()),
        Some(at)
    );
    assert_eq!(log.marked().unwrap(), at + 1);
    // The revocation is taken back, so that a later seal could stand before it.
    fs.set_bytes(&log.access.dir.journal(), &journal).unwrap();
    let log = open(&places, &key);
    assert_eq!(log.key_events().unwrap(), []);
    assert_eq!(log.marked().unwrap(), 0);
    assert!(log.commit_key_event(&event(1, KeyChange::Revoke)).is_err());
}
