//! Computes every example of `spec/transcript.md` from two seeds and fixed times.

use crate::scene::{self, *};
use threadseal_core::merkle::leaf_hash;
use threadseal_core::salts::Secret;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};
use threadseal_formats::transcript::event::{EventType, Payload, Salt};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, Sealer, Signers, Stamp, bodies, observed};

fn example(name: &str) -> String {
    scene::example("spec/transcript.md", name)
}

/// Line `n` is written `n` milliseconds after 2026-02-17T19:26:45Z, with a salt of bytes `n`.
fn stamp(line: u8) -> Stamp {
    Stamp {
        timestamp: micros(1_771_356_405_000_000 + u64::from(line) * 1000),
        salt: Salt::from_bytes([line; 16]),
    }
}

fn native() -> (String, String) {
    let (native, rye) = (signer(1, KeyUsage::Native), signer(2, KeyUsage::Rye));
    let signers = Signers {
        native: &native,
        rye: &rye,
    };
    let record = RecordId::from_bytes([7; 32]);
    let manifest = Manifest::new(record, *native.public_key(), *rye.public_key());
    let thread = ThreadId::parse("demo/1").unwrap();
    let mut out = Vec::new();
    let mut sealer =
        Sealer::begin(thread, manifest, [stamp(1), stamp(2)], signers, &mut out).unwrap();
    let event_type = EventType::parse("cognition_in").unwrap();
    let payload = Payload::parse("{\"text\":\"caf\u{e9}\",\"role\":\"user\"}".as_bytes()).unwrap();
    sealer
        .event(stamp(3), &event_type, &payload, &mut out)
        .unwrap();
    let payload = Payload::parse(b"{\"cost\":{}}").unwrap();
    sealer
        .end(stamp(4), Ending::Completed, &payload, &mut out)
        .unwrap();
    let head = sealer
        .seal(stamp(5), 1, true, Ext::default(), signers, &mut out)
        .unwrap();
    (String::from_utf8(out).unwrap(), format!("{head}\n"))
}

#[test]
fn the_native_record_and_its_head_are_the_examples() {
    let (record, head) = native();
    assert_eq!(example("native"), record);
    assert_eq!(example("native-head"), head);
}

#[test]
fn the_note_of_the_final_seal_is_the_example() {
    let (record, _) = native();
    let (_, note) = record.rsplit_once("\"note\":\"").unwrap();
    let note = note.strip_suffix("\"}}}\n").unwrap();
    let note = note.replace("\\n", "\n").replace("\\u2014", "\u{2014}");
    assert_eq!(example("native-note"), note);
}

const ROOT: Secret = Secret::from_bytes([4; 16]);

#[test]
fn the_observed_log_and_its_seals_are_the_examples() {
    let observer = signer(3, KeyUsage::Observed);
    let log = example("observed-log");
    let leaves: Vec<Digest> = log.lines().map(|line| leaf_hash(line.as_bytes())).collect();
    let record = RecordId::from_bytes([8; 32]);
    let (size, time) = (log.len() as u64, stamp(1).timestamp);
    for (root, name) in [(None, "observed-seals-1"), (Some(ROOT), "observed-seals")] {
        let mut out = Vec::new();
        let mut seals = observed::begin(record, *observer.public_key(), root, &mut out);
        seals
            .seal(&leaves, size, false, time, &observer, &mut out)
            .unwrap();
        assert_eq!(example(name), String::from_utf8(out).unwrap());
    }
}

#[test]
fn the_line_that_names_the_next_key_is_the_example() {
    let observer = signer(3, KeyUsage::Observed);
    let next = *signer(5, KeyUsage::Observed).public_key();
    let rotation = KeyEvent::sign(KeyChange::Rotate(next), &observer).unwrap();
    let mut out = Vec::new();
    let mut seals = example("observed-seals").into_bytes();
    let mut read = observed::parse(&seals).unwrap();
    read.hand_over(&[rotation]).unwrap();
    let (size, time) = (read.last().unwrap().head.size, stamp(2).timestamp);
    let next = signer(5, KeyUsage::Observed);
    read.seal(&[], size, false, time, &next, &mut out).unwrap();
    let line = out.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    assert_eq!(example("observed-next").as_bytes(), line);
    seals.extend_from_slice(&out);
    assert_eq!(observed::parse(&seals).unwrap().next_keys.len(), 1);
}

#[test]
fn the_redacted_log_and_its_seals_are_the_examples() {
    let observer = signer(3, KeyUsage::Observed);
    let seals = example("observed-seals").into_bytes();
    let read = observed::parse(&seals).unwrap();
    let redaction = observed::Redaction {
        head: read.last().unwrap().head,
        runs: vec![(1, 1)],
        time: stamp(2).timestamp,
        by: "Ada".to_owned(),
        why: "a name".to_owned(),
    };
    let redacted = observed::redact(&seals, &redaction, &observer).unwrap();
    let front = observed::front(&redacted).unwrap().bytes;
    let front = String::from_utf8(redacted[..front].to_vec()).unwrap();
    assert_eq!(example("redacted-front"), front);
    let log = example("observed-log");
    let replaced = observed::replacement(1, &read.leaves[0]);
    let replaced = String::from_utf8(replaced).unwrap();
    let rest = log.split_once('\n').unwrap().1;
    assert_eq!(example("redacted-log"), format!("{replaced}\n{rest}"));
}

#[test]
fn the_detached_body_is_the_example() {
    let record = RecordId::from_bytes([7; 32]);
    let payload = Payload::parse("{\"text\":\"caf\u{e9}\"}".as_bytes()).unwrap();
    let salt = bodies::BodySalt::from_bytes([9; 32]);
    let out = bodies::detach(&record, &payload, &mut || Ok(salt)).unwrap();
    let payload = String::from_utf8(out.payload.as_bytes().to_vec()).unwrap();
    let commitment = payload.strip_prefix("{\"text\":").unwrap();
    let commitment = commitment.strip_suffix('}').unwrap();
    let file = [bodies::header(&record), out.entries].concat();
    let file = String::from_utf8(file).unwrap();
    assert_eq!(example("detached-body"), format!("{commitment}\n{file}"));
}
