//! A tombstone has one text, and every head in it is by the key that signed it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::tlog::tombstone::Tombstone;

fuzz_target!(|file: &[u8]| {
    let Some(tombstone) = Tombstone::read(file) else {
        return;
    };
    assert_eq!(tombstone.to_bytes().as_deref(), Some(file));
    let key = Some(tombstone.public().key_id());
    let records = &tombstone.statement().records;
    assert!(!records.is_empty() && records.iter().all(|logged| logged.key == key));
    for logged in records {
        assert_eq!(tombstone.of(&logged.head.record), Some(logged));
    }
});
