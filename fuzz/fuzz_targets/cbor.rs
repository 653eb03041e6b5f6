//! Deterministic CBOR: every accepted input is written back unchanged, and is a JSON value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::canon::cbor::{Skipped, Skipper, parse, to_vec};
use threadseal_core::canon::{jcs, json};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = parse(bytes) {
        assert_eq!(to_vec(&value).as_deref(), Ok(bytes));
        assert_eq!(skipped(bytes, usize::MAX), Some(bytes.len()));
        // The way over text, by which a turn in JSON gets its CBOR.
        let text = jcs::to_vec(&value).expect("its numbers are finite and its text is UTF-8");
        let again = json::parse(&text).expect("canonical text is JSON");
        assert_eq!(to_vec(&again).as_deref(), Ok(bytes));
    }
    assert_eq!(skipped(bytes, 1), skipped(bytes, usize::MAX));
    if let Ok(value) = json::parse(bytes)
        && let Ok(encoded) = to_vec(&value)
    {
        let back = parse(&encoded).expect("what is written can be read");
        assert_eq!(jcs::to_vec(&back), jcs::to_vec(&value));
    }
});

/// Length of the first item, read in pieces; `None` when there is none.
fn skipped(bytes: &[u8], size: usize) -> Option<usize> {
    let (mut skipper, mut before) = (Skipper::new(), 0);
    for piece in bytes.chunks(size) {
        match skipper.push(piece) {
            Skipped::More => before += piece.len(),
            Skipped::Done(length) => return Some(before + length),
            Skipped::Bad => return None,
        }
    }
    None
}
