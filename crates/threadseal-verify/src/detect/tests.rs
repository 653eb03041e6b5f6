//! Which bytes make which kind of file.

use super::*;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::scroll;
use threadseal_store::read::open_regular;
use threadseal_store::sys::RealFs;

fn kind_of(name: &str, content: &[u8]) -> Option<Kind> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    kind(&open_regular(&RealFs, &path).unwrap()).unwrap()
}

const EVENT: &[u8] = b"{\"thread_id\":\"t\",\"event_type\":\"x\",\"payload\":{}}\n";
const CHECKPOINT: &[u8] = b"{\"event_type\": \"checkpoint\", \"payload\": {}}\n";
const JSON: Option<Kind> = Some(Kind::Document(DocumentKind::Json));

// T-CMD-07
#[test]
fn content_goes_before_the_name() {
    assert_eq!(kind_of("a.jsonl", EVENT), Some(Kind::Events));
    assert_eq!(kind_of("a.bak", EVENT), Some(Kind::Events));
    assert_eq!(
        kind_of("a.jsonl", b"{\"type\":\"user\"}\n"),
        Some(Kind::Log)
    );
    assert_eq!(kind_of("a.jsonl", b""), Some(Kind::Log));
    assert_eq!(kind_of("a.json", b" {}"), JSON);
    assert_eq!(kind_of("a.json", b"\xef\xbb\xbf{}"), JSON);
    assert_eq!(kind_of("a.json", b"[1]"), None);
    assert_eq!(kind_of("a.bin", b"\0\x01"), None);
    assert_eq!(kind_of("a.jsonl.seal", b""), Some(Kind::Sidecar));
}

#[test]
fn no_name_takes_a_transcript_out_of_sight() {
    for name in ["a.md", "a.yaml", "a.TS", "a.log", "a.seal", "a.json", "a"] {
        assert_eq!(kind_of(name, CHECKPOINT), Some(Kind::Events), "{name}");
        let spoiled = [b"garbage\n", CHECKPOINT].concat();
        assert_eq!(kind_of(name, &spoiled), Some(Kind::Events), "{name}");
    }
}

#[test]
fn a_log_with_event_types_of_its_own_stays_a_log() {
    let event = b"{\"event_type\":\"click\",\"id\":1}\n";
    assert_eq!(kind_of("a.jsonl", event), Some(Kind::Log));
}

// T-CMD-07
#[test]
fn a_spoiled_first_line_does_not_hide_a_transcript() {
    let spoiled = [b"garbage\n", CHECKPOINT].concat();
    assert_eq!(kind_of("a.jsonl", &spoiled), Some(Kind::Events));
    let escaped = b"garbage\n{\"event_\\u0074ype\":\"checkpoint\"}\n";
    assert_eq!(kind_of("a.jsonl", escaped), Some(Kind::Events));
}

#[test]
fn a_native_checkpoint_anywhere_makes_a_native_transcript() {
    let sealed = b"{\"event_type\":\"checkpoint\",\"payload\":{\"seal\":{\"note\":\"threadseal/1/transcript/x\"}}}\n";
    let spoiled = [EVENT, CHECKPOINT, sealed].concat();
    assert_eq!(kind_of("a.jsonl", &spoiled), Some(Kind::Native));
}

#[test]
fn a_spoiled_beginning_does_not_hide_a_signed_object() {
    let content = b"x{\"_signature\":\"rye:signed:2026\"}";
    assert_eq!(kind_of("a.json", content), JSON);
}

// T-CMD-07
#[test]
fn a_log_that_only_talks_about_checkpoints_stays_a_log() {
    let talk = br#"{"text":"\"event_type\": \"checkpoint\"","in":{"event_type":"checkpoint"}}"#;
    assert_eq!(kind_of("a.jsonl", talk), Some(Kind::Log));
}

#[test]
fn a_signature_makes_a_document_of_a_file_without_a_telling_name() {
    let shell = Some(Kind::Document(DocumentKind::Shell));
    let signed = b"#!/bin/sh\n# rye:signed:x\n";
    assert_eq!(kind_of("run", signed), shell);
    assert_eq!(kind_of("a", b"{\"_signature\":\"rye:signed:x\"}"), JSON);
    assert_eq!(kind_of("run", b"#!/bin/sh\n"), None);
    assert_eq!(kind_of("a.rs", b"fn main() {}\n"), None);
}

// T-CMD-07
#[test]
fn whatever_is_put_before_or_behind_a_seal_does_not_hide_it() {
    const SEAL: &[u8] = b"#!/bin/sh\n# threadseal:signed:1-shell-x\n";
    const MEMBER: &[u8] = b"\n{\"_threadseal\": \"threadseal:signed:x\"}\n";
    const SUFFIX: &[u8] = b"\n// rye:signed:x|threadseal@1-x\n";
    let shell = Some(Kind::Document(DocumentKind::Shell));
    let script = Some(Kind::Document(DocumentKind::JavaScript));
    let few: &[u8] = b"x\n";
    let much = &b"x \xff\n".repeat(100_000)[..];
    for (seal, kind) in [(SEAL, shell), (MEMBER, JSON), (SUFFIX, script)] {
        for (before, behind) in [(few, few), (few, much), (much, few), (much, much)] {
            let content = [before, seal, behind].concat();
            assert_eq!(kind_of("run", &content), kind, "{}", content.len());
        }
    }
    assert_eq!(kind_of("run", much), None);
    let talk = [much, b"it holds a threadseal:signed: line\n", much].concat();
    assert_eq!(kind_of("run", &talk), None);
}

#[test]
fn a_claim_across_two_chunks_is_seen() {
    let at = threadseal_store::read::CHUNK_BYTES;
    for claim in recognise::CLAIMS {
        for split in 1..claim.len() {
            let mut content = vec![b'x'; 2 * at];
            content[at - split..at - split + claim.len()].copy_from_slice(claim);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run");
            std::fs::write(&path, &content).unwrap();
            let file = open_regular(&RealFs, &path).unwrap();
            assert!(recognise::holds_any(&OnDisk(&file), &[claim]).unwrap());
        }
    }
}

#[test]
fn texts_that_can_carry_a_signature_are_documents_by_name() {
    let python = Some(Kind::Document(DocumentKind::Python));
    assert_eq!(kind_of("a.py", b"print()\n"), python);
}

#[test]
fn a_scroll_in_cbor_is_a_sequence_whatever_its_first_byte_became() {
    let turn = br#"{"version":"scroll/0.1","turn":0,"role":"user","model":{"vendor":"v","id":"m"},"params":{"temperature":1,"top_p":1},"messages":[],"timestamp_ns":1}"#;
    let turn = scroll::deserialize(turn).unwrap();
    let turn = turn.with_encoding(scroll::Encoding::Cbor).unwrap();
    let mut bytes = scroll::seal(turn, None, None).unwrap().to_cbor().unwrap();
    for first in 0..=u8::MAX {
        bytes[0] = first;
        assert_eq!(container_of(&bytes), Container::Sequence, "{first}");
        let sequence = Some(Kind::Scroll(Container::Sequence));
        assert_eq!(kind_of("a.cbor", &bytes), sequence, "{first}");
    }
}

#[test]
fn a_form_feed_is_no_blank_before_the_turns_of_a_scroll() {
    for (head, container) in [
        (&b" \t\r\n{"[..], Container::Lines),
        (b"\x0c{", Container::Array),
        (b"\x0b{", Container::Array),
        (b"\x0c\xa0", Container::Array),
    ] {
        assert_eq!(container_of(head), container, "{head:?}");
    }
}
