//! The output of a Python dialect reads back as the same value, and is written the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::canon::json::{Value, parse, parse_python};
use threadseal_core::canon::python::{ledger, repr_float, rye, rye_line};

fn read(text: &[u8]) -> Value {
    let document = parse_python(text).expect("Python reads what Python wrote");
    document.value
}

fuzz_target!(|text: &[u8]| {
    if let Some(bits) = text.first_chunk() {
        let value = f64::from_le_bytes(*bits);
        let written = repr_float(value);
        let back: f64 = written.parse().expect("a float is written as a number");
        assert!(back.to_bits() == value.to_bits() || (back.is_nan() && value.is_nan()));
        assert_eq!(rye(&read(written.as_bytes())), written.as_bytes());
    }

    let Ok(document) = parse_python(text) else {
        return;
    };
    let sorted = rye(&document.value);
    assert!(sorted.iter().all(|byte| (0x20..0x7f).contains(byte)));
    assert_eq!(rye(&read(&sorted)), sorted);

    let line = rye_line(&document.value);
    assert!(line.iter().all(|byte| (0x20..0x7f).contains(byte)));
    let again = read(&line);
    assert_eq!(rye_line(&again), line);
    assert_eq!(rye(&again), sorted);

    let lone_surrogate = parse(&sorted).is_err_and(|error| {
        use threadseal_core::canon::json::JsonErrorKind::LoneSurrogate;
        error.kind == LoneSurrogate
    });
    match ledger(&document.value) {
        Ok(written) => {
            assert_eq!(ledger(&read(&written)).as_ref(), Ok(&written));
            assert_eq!(rye(&read(&written)), sorted);
            assert!(!lone_surrogate);
        }
        Err(_) => assert!(parse(&sorted).is_err()),
    }
});
