//! The canonical form equals that of an independent implementation, and is its own canonical form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::canon::jcs;
use threadseal_core::canon::json::{JsonErrorKind, parse};

fuzz_target!(|text: &[u8]| {
    let parsed = parse(text);
    assert_eq!(
        jcs::canonicalize_closely(text).map(|(canonical, _)| canonical),
        jcs::canonicalize(text)
    );
    let canonical = match (jcs::canonicalize(text), &parsed) {
        (Ok(canonical), Ok(value)) => {
            assert_eq!(jcs::to_vec(value).as_ref(), Ok(&canonical));
            canonical
        }
        (Err(error), Ok(value)) => {
            assert_eq!(error.kind, JsonErrorKind::NonFiniteNumber);
            assert!(jcs::to_vec(value).is_err());
            return;
        }
        (Err(_), Err(_)) => return,
        (Ok(_), Err(error)) => panic!("canonicalised what is refused: {error}"),
    };
    assert_eq!(jcs::canonicalize(&canonical).as_ref(), Ok(&canonical));
    // serde_json reads one level less than we do.
    if let Ok(theirs) = serde_json::from_slice::<serde_json::Value>(text) {
        let theirs = serde_json_canonicalizer::to_vec(&theirs).expect("it is finite");
        assert_eq!(String::from_utf8(theirs), String::from_utf8(canonical));
    }
});
