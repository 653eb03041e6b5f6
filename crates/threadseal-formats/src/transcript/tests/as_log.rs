//! Records as logs: the data for a tool for logs, and its equality with the sealed lines.

use super::turns::rotated;
use super::*;
use crate::transcript::as_log::RecordLog;
use threadseal_core::error::ErrorKind;
use threadseal_core::limits::MAX_TILE_ENTRY_BYTES;
use threadseal_core::merkle;
use threadseal_core::tlog::verifier;

#[test]
fn the_lines_of_a_record_are_the_entries_of_the_tree_that_its_last_seal_signs() {
    let bench = Bench::new();
    // The key of line 1 made the last seal of one record. A key that a seal named made that of the
    // other.
    for bytes in [bench.record(), rotated(&bench, 7)] {
        let verified = bench.verify(&bytes).verified.unwrap();
        let log = RecordLog::open(&verified, &bytes).unwrap();
        let lines: Vec<&str> = std::str::from_utf8(&bytes).unwrap().lines().collect();
        let entries = log.entries();
        assert_eq!(entries.len(), lines.len() - 1);
        assert!(entries.iter().zip(&lines).all(|(e, l)| *e == l.as_bytes()));
        let known = [log.key()];
        let (checkpoint, signed) = verifier::open(log.checkpoint(), &known).unwrap();
        assert_eq!(signed.len(), 1);
        assert_eq!(checkpoint.tree(), log.tree());
        assert_eq!(log.tree().size, entries.len() as u64);
        let leaves: Vec<_> = entries.iter().map(|e| merkle::leaf_hash(e)).collect();
        assert_eq!(log.tree().root, merkle::root(&leaves));
        assert_eq!(checkpoint.extensions().len(), 1);
    }
}

#[test]
fn a_line_that_no_tile_holds_and_bytes_that_were_not_verified_are_refused() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(7, &mut bytes);
    let long = format!("{{\"text\":\"{}\"}}", "a".repeat(MAX_TILE_ENTRY_BYTES));
    bench.event(&mut sealer, "cognition_in", &long, &mut bytes);
    bench.finish(&mut sealer, 1, &mut bytes);
    let verified = bench.verify(&bytes).verified.unwrap();
    let refused = RecordLog::open(&verified, &bytes).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit);
    assert!(refused.to_string().contains("line 3 "), "{refused}");
    let other = bench.record();
    let refused = RecordLog::open(&verified, &other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
}
