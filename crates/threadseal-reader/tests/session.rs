//! What is shown of a file: each turn with what is proved about its bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is test code; clippy knows only the functions marked #[test]"
)]

use std::fs;
use std::path::Path;
use threadseal_core::key::PublicKey;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_reader::asked::Asked;
use threadseal_reader::session::Session;

fn open(name: &str) -> Session {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit/transcripts/native");
    let key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
    let trust = Trust::key(PublicKey::from_hex(key).unwrap());
    let now = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
    let asked = Asked::of(name, trust, now).unwrap();
    Session::open(asked, fs::read(folder.join(name)).unwrap()).unwrap()
}

fn rows(session: &Session) -> Vec<serde_json::Value> {
    serde_json::from_slice(&session.rows(0, usize::MAX)).unwrap()
}

// T-VIEW-04
#[test]
fn a_turn_is_sealed_only_before_the_last_trusted_byte() {
    for (name, states) in [
        ("valid.jsonl", &["sealed"][..]),
        ("turn_edited.jsonl", &["sealed", "changed", "doubtful"]),
        ("event_appended.jsonl", &["sealed", "unsealed"]),
        ("stranger.jsonl", &["other_signer"]),
        ("seals_stripped.jsonl", &["changed", "doubtful"]),
    ] {
        let session = open(name);
        let [report] = session.outcome().results.as_slice() else {
            panic!("{name} has one report");
        };
        let trusted = report.trusted_until.map_or(0, |until| until.byte);
        for row in rows(&session) {
            let state = row["seal"]["state"].as_str().unwrap();
            assert!(states.contains(&state), "{name}: {row}");
            let end = row["bytes"][1].as_u64().unwrap();
            assert_eq!(state == "sealed", end <= trusted, "{name}: {row}");
        }
    }
}

#[test]
fn rows_are_cut_to_what_is_there() {
    let session = open("valid.jsonl");
    assert_eq!(rows(&session).len(), session.len());
    for (from, count, expected) in [
        (0, 1, 1),
        (session.len(), 5, 0),
        (usize::MAX, usize::MAX, 0),
    ] {
        let rows: Vec<serde_json::Value> =
            serde_json::from_slice(&session.rows(from, count)).unwrap();
        assert_eq!(rows.len(), expected);
    }
    assert!(session.turn(u64::MAX).is_err());
}
