//! The file of a trust store, read and written.

use super::*;
use crate::error::ErrorKind;
use proptest::prelude::*;

const EXAMPLE: &str = r#"# Comments and order are free.
version = 1

[[key]]
name = "build host"
key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
usage = ["observed", "native"]
scope.threads = ["agency/*", "ci-*"]
scope.formats = ["transcript", "json"]
not_before = "2026-01-01T00:00:00Z"
not_after = "2026-12-31T23:59:59Z"
revoked = { at = "2026-06-01T00:00:00Z", reason = "stolen \"laptop\"" }
added = "2026-01-01T00:00:00Z"
note = 'C:\keys'
"#;

#[test]
fn every_member_of_the_file_is_read_and_written() {
    let store = TrustStore::parse(EXAMPLE).unwrap();
    let entry = store.by_name(&name("build host")).unwrap();
    assert_eq!(entry.key, key(1));
    assert_eq!(entry.usage, [KeyUsage::Native, KeyUsage::Observed].into());
    assert_eq!(
        entry.scope.formats,
        [ScopeFormat::Transcript, ScopeFormat::Json].into()
    );
    assert_eq!(entry.not_after, Some(time("2026-12-31T23:59:59Z")));
    assert_eq!(entry.revoked.as_ref().unwrap().reason, "stolen \"laptop\"");
    assert_eq!(entry.note.as_deref(), Some("C:\\keys"));
    assert_eq!(
        store.to_toml(),
        r#"version = 1

[[key]]
name = "build host"
key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
usage = ["native", "observed"]
scope.threads = ["agency/*", "ci-*"]
scope.formats = ["transcript", "json"]
not_before = "2026-01-01T00:00:00Z"
not_after = "2026-12-31T23:59:59Z"
revoked = { at = "2026-06-01T00:00:00Z", reason = "stolen \"laptop\"" }
added = "2026-01-01T00:00:00Z"
note = "C:\\keys"
"#
    );
    assert_eq!(TrustStore::parse("version = 1").unwrap(), TrustStore::new());
}

// T-KEY-06
#[test]
fn an_error_names_its_line() {
    let wrong = |from: &str, to: &str| {
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE, "{from}");
        TrustStore::parse(&text).unwrap_err().to_string()
    };
    for (from, to, line) in [
        ("version = 1", "version = 2", 2),
        ("version = 1", "version = \"1\"", 2),
        ("name = ", "name = \"x\"\nname = ", 6),
        ("build host", "build\\nhost", 5),
        ("8a88e3", "8A88E3", 6),
        ("8a88e3", "8a88e", 6),
        (
            "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c",
            "0100000000000000000000000000000000000000000000000000000000000000",
            6,
        ),
        ("\"observed\"", "\"native\"", 7),
        ("\"observed\"", "\"sign\"", 7),
        ("[\"observed\", \"native\"]", "[]", 7),
        ("[\"observed\", \"native\"]", "\"native\"", 7),
        ("ci-*", "ci-?", 8),
        ("ci-*", "agency/*", 8),
        ("[\"agency/*\", \"ci-*\"]", "[]", 8),
        ("\"json\"", "\"xml\"", 9),
        ("scope.formats", "scope.format", 9),
        (
            "\"2026-01-01T00:00:00Z\"\nnot_after",
            "2026-01-01T00:00:00Z\nnot_after",
            10,
        ),
        ("\"2026-12-31T23:59:59Z\"", "\"2026-12-31\"", 11),
        ("2026-12-31T23:59:59Z", "2025-12-31T23:59:59Z", 4),
        ("revoked =", "revokd =", 12),
        ("at = \"2026-06-01", "at = \"2026-06-31", 12),
        ("reason", "why", 12),
        ("note = ", "note = 1 #", 14),
        ("[[key]]", "[[keys]]", 4),
        ("[[key]]", "[key]", 4),
        ("[[key]]", "[[key]", 4),
    ] {
        let message = wrong(from, to);
        let expected = format!("line {line}:");
        assert!(message.contains(&expected), "{to}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let twice = format!("{EXAMPLE}{}", &EXAMPLE[EXAMPLE.find("\n[[").unwrap()..]);
    let message = TrustStore::parse(&twice).unwrap_err().to_string();
    assert!(message.contains("line 16:"), "{message}");
    assert!(TrustStore::parse("").is_err());
}

// T-KEY-05
#[test]
fn a_hostile_file_costs_little() {
    let deep = format!("version = 1\nx = {}", "[".repeat(1 << 20));
    assert!(TrustStore::parse(&deep).is_err());
    let dotted = format!("version = 1\n{}a = 1", "a.".repeat(1 << 20));
    assert!(TrustStore::parse(&dotted).is_err());
    let long = " ".repeat(crate::limits::MAX_TRUST_FILE_BYTES + 1);
    assert_eq!(
        TrustStore::parse(&long).unwrap_err().kind(),
        ErrorKind::Limit
    );
}

prop_compose! {
    fn any_entry()(
        seed in 0u8..6,
        name in "[a-zé0-9]([a-zé0-9 ._@/+:-]{0,12}[a-zé0-9])?",
        usage in prop::collection::btree_set(prop::sample::select(&KeyUsage::ALL[..]), 1..=KeyUsage::ALL.len()),
        threads in prop::collection::btree_set("[a-z*/.\" -]{1,8}", 1..4),
        formats in prop::collection::btree_set(prop::sample::select(&ScopeFormat::ALL[..]), 1..=7),
        times in prop::collection::vec(prop::option::of(0u64..4_000_000_000_000_000), 4),
        texts in prop::collection::vec(prop::option::of("[ -~é\u{2028}\u{1f980}]{0,20}"), 2),
    ) -> TrustedKey {
        let time = |i: usize| times[i].map(|micros| Timestamp::from_micros(micros).unwrap());
        let (a, b) = (time(0), time(1));
        let mut entry = TrustedKey::new(TrustName::parse(&name).unwrap(), key(seed), usage);
        entry.scope.threads = threads.iter().map(|t| ThreadPattern::parse(t).unwrap()).collect();
        entry.scope.formats = formats;
        (entry.not_before, entry.not_after) = match (a, b) {
            (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
            open => open,
        };
        entry.revoked = time(2).zip(texts[0].clone()).map(|(at, reason)| {
            let entry = (reason.len() % 2 == 1).then_some(reason.len() as u64);
            let next = (reason.len() % 3 == 1).then(|| key(9));
            Revocation { at, reason, entry, next }
        });
        entry.added = time(3);
        entry.note = texts[1].clone();
        entry
    }
}

proptest! {
    #[test]
    fn a_written_store_is_read_as_it_was(entries in prop::collection::vec(any_entry(), 0..6)) {
        let mut store = TrustStore::new();
        for entry in entries {
            let _ = store.add(entry);
        }
        let text = store.to_toml();
        let read = TrustStore::parse(&text).unwrap();
        prop_assert_eq!(&read, &store);
        prop_assert_eq!(read.to_toml(), text);
        prop_assert_eq!(read.digest(), store.digest());
    }
}
