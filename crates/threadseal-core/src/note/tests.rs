//! Signed notes: the published example, attacks on it, another implementation.

use super::*;
use crate::key::{KeyUsage, LocalSigner};
use crate::limits::MAX_KEY_NAME_BYTES;
use crate::testing::{self, key};
use proptest::prelude::*;

/// The example of the C2SP signed-note tests.
const VKEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const NOTE: &str = "This is an example message.\n\n\u{2014} example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

fn signer(seed: u8) -> LocalSigner {
    testing::signer(seed, KeyUsage::Native)
}

fn name(text: &str) -> KeyName {
    KeyName::parse(text).unwrap()
}

fn text(text: &str) -> NoteText {
    NoteText::parse(text).unwrap()
}

/// A line of an unknown key with any name, id and signature.
fn line(name: &str, blob: &[u8]) -> String {
    format!("\u{2014} {name} {}\n", encoding::base64(blob))
}

#[test]
fn the_published_example_verifies_and_comes_back_byte_for_byte() {
    let known = [parse_vkey(VKEY).unwrap()];
    assert_eq!(vkey(&known[0].0, &known[0].1), VKEY);
    let note = SignedNote::parse(NOTE).unwrap();
    assert_eq!(note.text().as_str(), "This is an example message.\n");
    assert_eq!(note.signatures()[0].id(), [0x53, 0x0d, 0x90, 0x3a]);
    assert_eq!(note.verify(&known), Ok(vec![&known[0]]));
    assert_eq!(note.to_string(), NOTE);
}

#[test]
fn every_changed_byte_of_the_example_is_noticed() {
    let known = [parse_vkey(VKEY).unwrap()];
    for at in 0..NOTE.len() {
        for flip in [1u8, 0x20, 0x80] {
            let mut bytes = NOTE.as_bytes().to_vec();
            bytes[at] ^= flip;
            let changed = String::from_utf8(bytes).unwrap_or_default();
            let note = SignedNote::parse(&changed);
            let accepted = note.is_ok_and(|note| note.verify(&known).is_ok());
            assert!(!accepted, "byte {at} flipped by {flip:#x}");
        }
    }
}

#[test]
fn the_text_ends_at_the_last_blank_line() {
    let sig = line("a", &[0; 5]);
    for text in ["\n", "\n\n", "a\n\nb\n", "a\n\n\n", "\u{2014} a AAAAAAA=\n"] {
        let note = SignedNote::parse(&format!("{text}\n{sig}")).unwrap();
        assert_eq!(note.text().as_str(), text);
        assert_eq!(note.signatures().len(), 1);
    }
    assert_eq!(text("a\n\nb\n").lines().collect::<Vec<_>>(), ["a", "", "b"]);
}

#[test]
fn what_the_format_forbids_is_refused() {
    let good = line("a", &[0; 5]);
    let under = |signatures: &str| format!("a\n\n{signatures}");
    let bad = [
        String::new(),
        "\n\n".into(),
        "a\n".into(),
        "a\n\n".into(),
        good.clone(),
        format!("\n{good}"),
        under(good.trim_end()),
        under(&format!("{good}\n")),
        under(&format!("{good}b\n")),
        format!("a\r\n\n{good}"),
        format!("a\tb\n\n{good}"),
        format!("a\0\n\n{good}"),
        under(&good.replace('\n', "\r\n")),
        under(&good.replace('\u{2014}', "-")),
        under(&good.replace('\u{2014}', "\u{2014} ")),
        under(&good.replace("a ", "a  ")),
        under(&good.replace("a ", "a\u{a0}")),
        under(&good.replace('=', "")),
        under(&good.replace("AA=", "AB=")),
        under(&line("", &[0; 5])),
        under(&line("a+b", &[0; 5])),
        under(&line("a\u{2003}b", &[0; 5])),
        under(&line("a\u{85}b", &[0; 5])),
        under(&line("a\u{1}b", &[0; 5])),
        under(&line("a", &[0; 4])),
        under(&line("a", &vec![0; MAX_NOTE_SIGNATURE_BYTES + 1])),
        under(&line(&"a".repeat(MAX_KEY_NAME_BYTES + 1), &[0; 5])),
        under(&good.repeat(MAX_NOTE_SIGNATURES + 1)),
        format!("{}\n\n{good}", "a".repeat(MAX_NOTE_BYTES)),
    ];
    for note in bad {
        let shown: String = note.chars().take(60).collect();
        let refused = matches!(SignedNote::parse(&note), Err(NoteError::Malformed(_)));
        assert!(refused, "{shown:?}");
    }
    for longest in [
        format!("a\n\n{}", line("a", &vec![0; MAX_NOTE_SIGNATURE_BYTES])),
        format!("a\n\n{}", line(&"a".repeat(MAX_KEY_NAME_BYTES), &[0; 5])),
        format!("{}\n\n{good}", "a".repeat(MAX_NOTE_BYTES - 1)),
    ] {
        assert!(SignedNote::parse(&longest).is_ok());
    }
    for count in [1, 16, MAX_NOTE_SIGNATURES] {
        let note = SignedNote::parse(&format!("a\n\n{}", good.repeat(count))).unwrap();
        assert_eq!(note.signatures().len(), count);
    }
}

// T-KEY-12
#[test]
fn unknown_keys_are_ignored_even_with_the_name_or_the_id_of_a_known_one() {
    let known = [(name("example.com/log"), key(1))];
    let id = note_key_id(&known[0].0, &key(1));
    let note = sign(text("a\n"), &known[0].0, &signer(1)).unwrap();

    let other_id = [&[!id[0], 1, 2, 3], [9; 64].as_slice()].concat();
    let same_name = line("example.com/log", &other_id);
    let same_id = line("example.com/other", &[&id, [9; 64].as_slice()].concat());
    let other_algorithm = line("example.com/pq", &[7; 2424]);
    for strange in [same_name, same_id, other_algorithm] {
        let with = SignedNote::parse(&format!("{note}{strange}")).unwrap();
        assert_eq!(with.verify(&known), Ok(vec![&known[0]]));
        let alone = SignedNote::parse(&format!("a\n\n{strange}")).unwrap();
        assert_eq!(alone.verify(&known), Err(NoteError::NoKnownSigner));
    }
}

#[test]
fn a_bad_signature_that_names_a_known_key_condemns_the_note() {
    let known = [(name("a"), key(1)), (name("b"), key(2))];
    let note = sign(text("a\n"), &name("a"), &signer(1)).unwrap();
    let other = sign(text("b\n"), &name("b"), &signer(2)).unwrap();
    let id = note_key_id(&name("b"), &key(2));
    for bad in [
        other.signatures()[0].to_string(),
        line("b", &[&id, [0; 64].as_slice()].concat()),
        line("b", &[&id, [0; 63].as_slice()].concat()),
    ] {
        let note = SignedNote::parse(&format!("{note}{bad}")).unwrap();
        let condemned = NoteError::BadSignature(name("b"));
        assert_eq!(note.verify(&known), Err(condemned));
        assert_eq!(note.verify(&known[..1]), Ok(vec![&known[0]]));
    }
}

#[test]
fn every_signer_is_named_once() {
    let mut note = sign(text("x\n"), &name("b"), &signer(2)).unwrap();
    for (by, seed) in [("a", 1), ("b", 2)] {
        let line = NoteSignature::sign(note.text(), &name(by), &signer(seed));
        note.add(line.unwrap()).unwrap();
    }
    let known = [
        (name("a"), key(1)),
        (name("c"), key(1)),
        (name("b"), key(2)),
    ];
    assert_eq!(note.verify(&known), Ok(vec![&known[0], &known[2]]));
    let line = note.signatures()[0].clone();
    while note.signatures().len() < MAX_NOTE_SIGNATURES {
        note.add(line.clone()).unwrap();
    }
    assert!(note.add(line).is_err());
}

#[test]
fn verifier_keys_have_one_spelling() {
    for bad in [
        "",
        "a+b",
        &VKEY.replace("530d903a", "530d903b"),
        &VKEY[..VKEY.len() - 4],
        &VKEY.replace("530d903a", "530D903A"),
        &VKEY.replace("+Aek", "+Aak"),
        &VKEY.replace("U2k", "U2l"),
        &format!("{VKEY}\n"),
        &format!("PRIVATE+KEY+{VKEY}"),
    ] {
        assert!(parse_vkey(bad).is_err(), "{bad}");
    }
}

/// Verifies with the crate by Cloudflare, which knows keys only as text.
fn foreign_verifies(note: &str, vkey: &str) -> bool {
    let verifier = signed_note::StandardVerifier::new(vkey).unwrap();
    let known = signed_note::VerifierList::new(vec![Box::new(verifier)]);
    signed_note::Note::from_bytes(note.as_bytes()).is_ok_and(|note| note.verify(&known).is_ok())
}

#[test]
fn another_implementation_reads_our_notes_and_we_read_its() {
    let origin = name("example.com/threads");
    for seed in 0..8 {
        let signer = signer(seed);
        let vkey = vkey(&origin, &key(seed));
        let note = sign(text("example.com/threads\n7\n\nx\n"), &origin, &signer).unwrap();
        assert!(foreign_verifies(&note.to_string(), &vkey));
        let changed = note.to_string().replace("\n7\n", "\n8\n");
        assert!(!foreign_verifies(&changed, &vkey));

        let id = encoding::hex(&note_key_id(&origin, &key(seed)));
        let secret = encoding::base64(&[&[1u8], [seed; 32].as_slice()].concat());
        let skey = format!("PRIVATE+KEY+{origin}+{id}+{secret}");
        let theirs = signed_note::StandardSigner::new(&skey).unwrap();
        let mut foreign = signed_note::Note::new(b"theirs\n", &[]).unwrap();
        foreign.add_sigs(&[&theirs]).unwrap();
        let foreign = String::from_utf8(foreign.to_bytes()).unwrap();
        let known = [parse_vkey(&vkey).unwrap()];
        let read = SignedNote::parse(&foreign).unwrap();
        assert_eq!(read.verify(&known), Ok(vec![&known[0]]));
        assert_eq!(read.to_string(), foreign);
    }
}

fn any_note() -> impl Strategy<Value = SignedNote> {
    let text = "[ -~\u{7f}\u{e4}\u{2014}\u{1f980}\n]{0,80}\n";
    let lines = prop::collection::vec(
        (
            "[!-*,-~\u{e4}\u{2014}]{1,12}",
            prop::collection::vec(any::<u8>(), 5..90),
        ),
        1..20,
    );
    (text, lines).prop_map(|(text, lines)| SignedNote {
        text: NoteText::parse(&text).unwrap(),
        signatures: lines
            .into_iter()
            .map(|(name, blob)| NoteSignature {
                name: KeyName::parse(&name).unwrap(),
                id: blob[..4].try_into().unwrap(),
                signature: blob[4..].to_vec(),
            })
            .collect(),
    })
}

proptest! {
    // T-TRA-06
    #[test]
    fn a_written_note_is_read_as_it_was(note in any_note()) {
        prop_assert_eq!(SignedNote::parse(&note.to_string()), Ok(note));
    }

    #[test]
    fn whatever_is_accepted_is_written_as_it_was_read(
        note in any_note(),
        at in any::<prop::sample::Index>(),
        piece in "[ -~\n\t\u{2014}\u{a0}]{0,3}",
    ) {
        let mut text = note.to_string();
        let at = text.floor_char_boundary(at.index(text.len() + 1));
        text.insert_str(at, &piece);
        if let Ok(note) = SignedNote::parse(&text) {
            prop_assert_eq!(note.to_string(), text);
        }
    }

    /// The other implementation accepts any names of 1 to n bytes and 100 signatures. Within our
    /// bounds both must agree on the form of a note.
    #[test]
    fn another_implementation_accepts_the_same_notes(
        note in any_note(),
        at in any::<prop::sample::Index>(),
        cut in 0usize..3,
        piece in "[ -~\n\t\u{2014}\u{a0}\u{85}=+]{0,3}",
    ) {
        let mut text = note.to_string();
        let at = text.floor_char_boundary(at.index(text.len() + 1));
        let end = text.ceil_char_boundary(at + cut);
        text.replace_range(at..end, &piece);
        let theirs = signed_note::Note::from_bytes(text.as_bytes());
        prop_assert_eq!(SignedNote::parse(&text).is_ok(), theirs.is_ok(), "{:?}", text);
    }
}
