//! A note has one spelling, and another implementation agrees on the form of a note. No input is
//! verified under a key that did not sign it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::key::COSIGNATURE_DOMAIN;
use threadseal_core::note::{SignedNote, parse_vkey, vkey};
use threadseal_core::record::{ExpectedHead, Head};

/// The example of C2SP signed-note, and its only signed text.
const KNOWN: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const SIGNED: &str = "This is an example message.\n";
/// That implementation's bound; ours is smaller.
const THEIR_MAX_SIGNATURES: usize = 100;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(signed_note::Note::from_bytes(bytes).is_err());
        return;
    };
    if let Ok((name, key)) = parse_vkey(text) {
        assert_eq!(vkey(&name, &key), text);
    }
    if let Some(head) = Head::parse(text) {
        assert_eq!(head.to_string(), text);
        assert_eq!(ExpectedHead::parse(text), Ok(ExpectedHead::Head(head)));
    }
    let theirs = signed_note::Note::from_bytes(bytes);
    let note = match SignedNote::parse(text) {
        Ok(note) => note,
        Err(error) => {
            let bounded = error.to_string().contains("too");
            let reserved = text.starts_with(COSIGNATURE_DOMAIN);
            assert!(theirs.is_err() || bounded || reserved, "{error}");
            return;
        }
    };
    assert!(theirs.is_ok() || note.signatures().len() > THEIR_MAX_SIGNATURES);
    assert_eq!(note.to_string(), text);
    let known = [parse_vkey(KNOWN).expect("the example's key")];
    if note.verify(&known).is_ok() {
        assert_eq!(note.text().as_str(), SIGNED);
    }
});
