//! `testkit/canon`, and every signed JSON document of the shared Rye vectors.

use crate::spec_canon::snake_case;
use std::path::Path;
use threadseal_core::canon::json::{Value, parse, parse_python, scan_object, validate};
use threadseal_core::canon::{jcs, python};
use threadseal_core::digest::Digest;
use threadseal_testkit::{beside_repository, in_repository};

fn cases(name: &str) -> Vec<Value> {
    let file = std::fs::read(in_repository("testkit/canon").join(name)).unwrap();
    let file = parse_python(&file).unwrap().value;
    file.get("cases")
        .and_then(Value::as_array)
        .unwrap()
        .to_vec()
}

fn field<'a>(case: &'a Value, name: &str) -> Option<&'a str> {
    case.get(name).and_then(Value::as_str)
}

fn text_of(case: &Value) -> Vec<u8> {
    match (field(case, "text"), field(case, "hex")) {
        (Some(text), _) => text.into(),
        (None, Some(hex)) => {
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digit).collect()
        }
        (None, None) => panic!("a case has no text: {case:?}"),
    }
}

#[test]
fn each_reading_vector_is_read_as_it_says() {
    for case in cases("reading.json") {
        let text = text_of(&case);
        let why = field(&case, "why").unwrap();
        let strict = case.get("strict").unwrap();
        let expected = (
            strict.get("refused").and_then(Value::as_str),
            strict.get("at").and_then(Value::as_u64),
        );
        let outcome = match validate(&text) {
            Ok(()) => (None, None),
            Err(error) => (
                Some(snake_case(&format!("{:?}", error.kind))),
                Some(error.offset as u64),
            ),
        };
        assert_eq!((outcome.0.as_deref(), outcome.1), expected, "{why}");
        assert_eq!(parse(&text).map(drop), validate(&text), "{why}");

        let accepted = field(&case, "python") == Some("accepted");
        assert_eq!(parse_python(&text).is_ok(), accepted, "Python: {why}");
    }
}

#[test]
fn each_writing_vector_is_written_as_it_says_by_us_and_by_serde_json_canonicalizer() {
    for case in cases("writing.json") {
        let text = field(&case, "text").unwrap();
        let value = parse_python(text.as_bytes()).unwrap().value;
        let utf8 = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ours = jcs::canonicalize(text.as_bytes()).ok().map(utf8);
        assert_eq!(ours.as_deref(), field(&case, "jcs"), "{text}");
        if ours.is_some() {
            let theirs = serde_json_canonicalizer::pipe(text).unwrap();
            assert_eq!(Some(theirs), ours, "{text}");
        }
        assert_eq!(Some(&*utf8(python::rye(&value))), field(&case, "rye"));
        assert_eq!(
            Some(&*utf8(python::rye_line(&value))),
            field(&case, "rye_line")
        );
        let ledger = python::ledger(&value).ok().map(utf8);
        assert_eq!(ledger.as_deref(), field(&case, "ledger"), "{text}");
    }
}

/// Whether SHA-256 of the `rye` form without `_signature` is the hash in `_signature`.
///
/// Returns `None` for a document without a signature.
fn hash_matches(bytes: &[u8]) -> Option<bool> {
    let Value::Object(mut members) = parse_python(bytes).ok()?.value else {
        return None;
    };
    let at = members.iter().position(|(name, _)| name == "_signature")?;
    let (_, signature) = members.remove(at);
    let hash = Digest::of(&python::rye(&Value::Object(members)));
    Some(
        signature
            .as_str()?
            .contains(&format!(":{}:", hash.to_hex())),
    )
}

#[test]
fn rye_documents_have_the_hash_that_their_signature_names() {
    let folder = in_repository("testkit/canon/rye");
    let index = parse(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
    for entry in index.as_array().unwrap() {
        let file = field(entry, "file").unwrap();
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let expected = entry.get("hash_matches").and_then(Value::as_bool);
        assert_eq!(hash_matches(&bytes), expected, "{file}");
    }
}

#[test]
fn every_shared_rye_document_has_the_hash_that_its_signature_names() {
    let Some(vectors) = beside_repository("vectors/rye") else {
        return;
    };
    let mut checked = 0;
    for half in ["valid", "tampered"] {
        let folder = vectors.join(half);
        let index = parse(&std::fs::read(folder.join("index.json")).unwrap()).unwrap();
        for entry in index.as_array().unwrap() {
            if field(entry, "kind") == Some("signed_json") {
                checked += usize::from(check_shared(&folder, entry));
            }
        }
    }
    assert!(
        checked > 150,
        "only {checked} documents were there to check"
    );
}

/// Checks one entry of an index; false where the hash gives no information about it.
fn check_shared(folder: &Path, entry: &Value) -> bool {
    let file = field(entry, "file").unwrap();
    // Documents from Rye's own repository are with the real logs.
    let moved = folder.join("../../../corpus/rye-real").join(file);
    let here = folder.join(file);
    let bytes = std::fs::read(if here.exists() { here } else { moved }).unwrap();
    let alters_value = [
        "add_key",
        "caps_widened",
        "int_to_float",
        "float_ulp",
        "true_to_one",
        "bigint_rounded",
    ];
    let expected = match field(entry, "expect").unwrap() {
        "valid"
        | "valid_nonstandard_json"
        | "untrusted_key(hash ok)"
        | "invalid_or_untrusted_ts"
        | "invalid_or_untrusted_provenance" => true,
        "invalid"
            if alters_value
                .iter()
                .any(|change| file.ends_with(&format!("__{change}.json"))) =>
        {
            false
        }
        _ => return false,
    };
    assert_eq!(hash_matches(&bytes), Some(expected), "{file}");
    true
}

#[test]
fn every_line_of_real_agent_logs_is_read_as_serde_json_reads_it() {
    let Some(corpus) = beside_repository("corpus") else {
        return;
    };
    let mut lines = 0;
    let mut folders = vec![corpus];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                lines += check_lines(&path);
            }
        }
    }
    println!("{lines} lines");
}

fn check_lines(path: &Path) -> usize {
    let Ok(bytes) = std::fs::read(path) else {
        return 0;
    };
    // The first megabytes of each log cover all of its features.
    let bytes = &bytes[..bytes.len().min(4 << 20)];
    let lines = bytes.split(|byte| *byte == b'\n').take(2000);
    let check = |line: &[u8]| {
        let verdict = validate(line);
        assert_eq!(parse(line).map(drop), verdict, "{}", path.display());
        let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        let scanned = scan_object(line, |_, _| {}).is_ok();
        assert!(!scanned || verdict.is_ok(), "{}", path.display());
        if verdict.is_ok() {
            assert!(theirs, "{}", path.display());
            assert_eq!(jcs::canonicalize(line).is_ok(), theirs);
        }
    };
    lines.map(check).count()
}
