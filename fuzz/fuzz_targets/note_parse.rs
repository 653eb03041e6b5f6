//! A note that parses is written back byte for byte; names, keys and signatures hold together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal::note::{SignedNote, parse_vkey, vkey};
use threadseal::record::{ExpectedHead, Head};

fuzz_target!(|text: &str| {
    if let Ok(note) = SignedNote::parse(text) {
        assert_eq!(note.to_string(), text);
    }
    if let Ok((name, key)) = parse_vkey(text) {
        assert_eq!(vkey(&name, &key), text);
    }
    if let Some(head) = Head::parse(text) {
        assert_eq!(head.to_string(), text);
        assert_eq!(ExpectedHead::parse(text), Ok(ExpectedHead::Head(head)));
    }
});
