//! Every reader gives one answer, and none accepts more than `serde_json` knowingly does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::canon::json::{JsonErrorKind, Value, parse, parse_python, scan_object, validate};

fuzz_target!(|text: &[u8]| {
    let parsed = parse(text);
    assert_eq!(
        validate(text),
        parsed.as_ref().map(drop).map_err(|error| *error)
    );
    let is_object = matches!(parsed, Ok(Value::Object(_)));
    let mut spans = Vec::new();
    let scanned = scan_object(text, |key, span| {
        spans.push((key.name().into_owned(), span))
    });
    assert_eq!(scanned.is_ok(), is_object);
    if let Ok(Value::Object(members)) = &parsed {
        assert_eq!(members.len(), spans.len());
        for ((name, value), (key, span)) in members.iter().zip(spans) {
            assert_eq!(name.as_str(), Some(&*key));
            assert_eq!(parse(&text[span]).as_ref(), Ok(value));
        }
    }

    // serde_json allows one level less, and refuses integers beyond the range of doubles.
    let theirs = serde_json::from_slice::<serde_json::Value>(text);
    match (&parsed, theirs) {
        (Ok(_), Err(refused)) => {
            let refused = refused.to_string();
            let known = ["recursion limit", "number out of range"];
            assert!(known.iter().any(|why| refused.contains(why)), "{refused}");
        }
        (Err(error), Ok(_)) => assert!(
            error.kind == JsonErrorKind::DuplicateKey || error.kind.is_limit(),
            "{error}"
        ),
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
    }

    match (&parsed, parse_python(text)) {
        (Ok(value), Ok(python)) => {
            assert_eq!(*value, python.value);
            assert!(python.irregularities.is_empty());
        }
        (Ok(_), Err(error)) => panic!("Python's rules refuse: {error}"),
        (Err(error), Ok(python)) => {
            assert!(error.kind.is_limit() || !python.irregularities.is_empty());
        }
        (Err(_), Err(_)) => {}
    }
});
