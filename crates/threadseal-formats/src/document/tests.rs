//! Native seals, both signatures in one file, and the verdict of each profile on them.

use super::*;
use std::sync::LazyLock;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Profile;
use threadseal_core::trust::{TrustName, TrustStore, TrustedKey};

const NOW: &str = "2026-12-01T00:00:00Z";

fn time(text: &str) -> Timestamp {
    Timestamp::parse_iso_seconds(text).unwrap()
}

fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

fn key(seed: u8) -> threadseal_core::key::PublicKey {
    *PrivateKey::from_seed([seed; 32]).public_key()
}

/// Trusts key 1 for native seals and key 2 for Rye's signatures.
fn trust() -> Trust {
    let mut store = TrustStore::new();
    for (seed, name, usage) in [(1, "native", KeyUsage::Native), (2, "rye", KeyUsage::Rye)] {
        let name = TrustName::parse(name).unwrap();
        store
            .add(TrustedKey::new(name, key(seed), [usage]))
            .unwrap();
    }
    Trust::new(store)
}

fn seal_with(bytes: &[u8], kind: DocumentKind, seed: u8, seq: u64) -> Vec<u8> {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([9; 32]),
        seq,
        time: time("2026-02-18T10:30:00Z"),
        signer: &signer(seed, KeyUsage::Native),
    };
    sign_native(bytes, kind, &sealing).unwrap()
}

fn seal(bytes: &[u8], kind: DocumentKind) -> Vec<u8> {
    seal_with(bytes, kind, 1, 0)
}

fn rye_with(bytes: &[u8], kind: DocumentKind, seed: u8) -> Result<Vec<u8>, Error> {
    let signing = RyeSigning {
        item_type: None,
        time: time("2026-02-18T10:30:00Z"),
        signer: &signer(seed, KeyUsage::Rye),
    };
    sign_rye(bytes, kind, &signing)
}

fn rye(bytes: &[u8], kind: DocumentKind) -> Vec<u8> {
    rye_with(bytes, kind, 2).unwrap()
}

fn report(bytes: &[u8], kind: DocumentKind, profile: ProfileChoice) -> Report {
    static TRUST: LazyLock<Trust> = LazyLock::new(trust);
    let mut options = Options::new(kind, &TRUST, time(NOW));
    options.profile = profile;
    verify(bytes, &options).unwrap().report
}

fn auto(bytes: &[u8], kind: DocumentKind) -> Verdict {
    report(bytes, kind, ProfileChoice::Auto).verdict
}

fn has(report: &Report, code: &str) -> bool {
    report.findings.iter().any(|finding| finding.code == code)
}

/// A small file of each kind.
const FILES: [(DocumentKind, &str); 9] = [
    (
        DocumentKind::Json,
        "{\n \"thread_id\": \"t\",\n \"n\": 1.50\n}\n",
    ),
    (DocumentKind::Json, "{}"),
    (DocumentKind::Markdown, "---\nname: x\n---\nbody é\n"),
    (
        DocumentKind::Markdown,
        "before\n<directive a=\"b\">x</directive>\nafter",
    ),
    (DocumentKind::Yaml, "a: 1\r\nb: 2\n"),
    (DocumentKind::Toml, "a = 1\n"),
    (DocumentKind::Python, "#!/usr/bin/env python3\nprint(1)\n"),
    (DocumentKind::Shell, ""),
    (DocumentKind::JavaScript, "export {}\n"),
];

#[test]
fn a_sealed_file_of_every_kind_verifies() {
    for (kind, text) in FILES {
        let sealed = seal(text.as_bytes(), kind);
        let report = report(&sealed, kind, ProfileChoice::Auto);
        assert_eq!(report.verdict, Verdict::Verified, "{kind} {report:#?}");
        assert_eq!(report.profile, "native");
        assert_eq!(report.signers[0].name.as_deref(), Some("native"));
        assert!(report.unauthenticated.is_empty());
        let head = report.head.unwrap();
        assert_eq!((head.seq, head.size), (0, sealed.len() as u64));
        assert!(is_signed_document(&sealed, kind));
        assert_eq!(DocumentKind::detect("blob", &sealed), Some(kind));
    }
}

/// Tries values at every byte of `file`; none may verify.
fn assert_every_byte_counts(mut file: Vec<u8>, kind: DocumentKind, values: &[u8]) {
    for at in 0..file.len() {
        let genuine = file[at];
        for value in values.iter().filter(|value| **value != genuine) {
            file[at] = *value;
            let verdict = auto(&file, kind);
            assert_ne!(verdict, Verdict::Verified, "{kind}: byte {at} := {value}");
        }
        file[at] = genuine;
    }
}

// T-DOC-01 T-RYE-13
#[test]
fn every_other_value_of_every_byte_of_a_sealed_file_is_noticed() {
    let all: Vec<u8> = (0..=255).collect();
    for (kind, text) in [(DocumentKind::Json, "{}"), (DocumentKind::Shell, "")] {
        assert_every_byte_counts(seal(text.as_bytes(), kind), kind, &all);
    }
}

#[test]
fn a_changed_byte_of_a_sealed_file_of_any_kind_is_noticed() {
    // One of each class that a grammar here distinguishes.
    let values = b"\n\r -/:0A_a|\xff";
    for (kind, text) in FILES {
        assert_every_byte_counts(seal(text.as_bytes(), kind), kind, values);
        if let Ok(signed) = rye_with(text.as_bytes(), kind, 2) {
            assert_every_byte_counts(seal(&signed, kind), kind, values);
        }
    }
}

// T-DOC-01
#[test]
fn nothing_can_be_added_to_or_taken_from_a_sealed_file() {
    for (kind, text) in FILES {
        let sealed = seal(text.as_bytes(), kind);
        for at in 0..=sealed.len() {
            for byte in [b'\n', b' ', b'\r', b'#', b'x', b'"'] {
                let mut longer = sealed.clone();
                longer.insert(at, byte);
                assert_ne!(auto(&longer, kind), Verdict::Verified, "{kind} {at}");
            }
            if at < sealed.len() {
                let mut shorter = sealed.clone();
                shorter.remove(at);
                // An equal byte next to it may have been the one that was removed.
                assert_ne!(auto(&shorter, kind), Verdict::Verified, "{kind} {at}");
            }
            assert_ne!(
                auto(&sealed[..at.min(sealed.len() - 1)], kind),
                Verdict::Verified
            );
        }
    }
}

#[test]
fn a_file_may_carry_both_signatures_and_each_profile_reads_its_own() {
    for (kind, text) in FILES {
        let Ok(signed) = rye_with(text.as_bytes(), kind, 2) else {
            continue;
        };
        let both = seal(&signed, kind);
        let native = report(&both, kind, ProfileChoice::Auto);
        assert_eq!(native.verdict, Verdict::Verified, "{kind} {native:#?}");
        assert_eq!(
            (native.profile, native.stats.checkpoints),
            (Profile::Native, 2)
        );
        assert_eq!(native.unauthenticated, ["timestamp=2026-02-18T10:30:00Z"]);
        let theirs = report(&both, kind, ProfileChoice::Rye);
        assert_eq!(
            (theirs.verdict, theirs.profile),
            (Verdict::Verified, Profile::Rye)
        );
        // Sealing again replaces the seal, signing with Rye again takes it away.
        let again = seal_with(&both, kind, 1, 1);
        assert_eq!(again, seal_with(&signed, kind, 1, 1));
        assert_eq!(rye(&both, kind), signed);
    }
}

#[test]
fn sealing_again_replaces_the_seal() {
    for (kind, text) in FILES {
        let first = seal(text.as_bytes(), kind);
        let second = seal_with(&first, kind, 1, 1);
        let head = report(&second, kind, ProfileChoice::Auto).head.unwrap();
        assert_eq!(head.seq, 1, "{kind}");
        assert_eq!(second, seal_with(text.as_bytes(), kind, 1, 1), "{kind}");
    }
}

#[test]
fn rye_takes_the_own_seal_of_a_file_away_and_the_next_seal_moves_into_its_suffix() {
    let kind = DocumentKind::Yaml;
    let signed = rye(&seal(b"a: 1\n", kind), kind);
    assert_eq!(signed, rye(b"a: 1\n", kind));
    let json = rye(&seal(b"{\"a\":1}", DocumentKind::Json), DocumentKind::Json);
    assert_eq!(json, rye(b"{\"a\":1}", DocumentKind::Json));
    // A program that puts a Rye header on a sealed file must do it in this order.
    let mut wrong = rye(b"a: 1\n", kind);
    wrong.extend_from_slice(&seal(b"", kind));
    let sealing = NativeSealing {
        record: RecordId::from_bytes([9; 32]),
        seq: 0,
        time: time(NOW),
        signer: &signer(1, KeyUsage::Native),
    };
    assert!(sign_native(&wrong, kind, &sealing).is_err());
    assert_eq!(auto(&wrong, kind), Verdict::Tampered);
}

// T-DOC-02
#[test]
fn a_second_seal_is_refused_wherever_it_stands() {
    let kind = DocumentKind::Shell;
    let line = seal(b"", kind);
    let sealed = seal(b"x\n", kind);
    let twice = [line.as_slice(), &sealed].concat();
    let report_of = |bytes: &[u8]| report(bytes, kind, ProfileChoice::Auto);
    assert!(has(&report_of(&twice), "several_seals"));
    let not_last = [sealed.as_slice(), b"rm -rf /\n"].concat();
    assert!(has(&report_of(&not_last), "seal_not_last"));
    let no_lf = &sealed[..sealed.len() - 1];
    assert!(has(&report_of(no_lf), "seal_unreadable"));
    for bytes in [twice.as_slice(), &not_last, no_lf] {
        assert_eq!(report_of(bytes).verdict.exit_code(), 1);
    }
}

// T-DOC-02
#[test]
fn a_seal_serves_only_the_kind_it_was_made_for() {
    let sealed = seal(b"x = 1\n", DocumentKind::Python);
    assert_eq!(auto(&sealed, DocumentKind::Toml), Verdict::Foreign);
    assert_eq!(auto(&sealed, DocumentKind::Markdown), Verdict::Foreign);
}

#[test]
fn strangers_pinned_and_revoked_keys() {
    let kind = DocumentKind::Markdown;
    let strange = seal_with(b"x\n", kind, 3, 0);
    assert_eq!(auto(&strange, kind), Verdict::UnknownSigner);
    let pinned = Trust::key(key(1));
    let judge = |bytes: &[u8], trust: &Trust| {
        let outcome = verify(bytes, &Options::new(kind, trust, time(NOW))).unwrap();
        assert_eq!(
            outcome.verified.is_some(),
            outcome.report.verdict == Verdict::Verified
        );
        outcome.report
    };
    assert_eq!(judge(&strange, &pinned).verdict, Verdict::Forged);
    assert_eq!(
        judge(&seal(b"x\n", kind), &pinned).verdict,
        Verdict::Verified
    );
    // With a native seal by the pinned key, Rye's signer does not matter.
    let both = seal(&rye_with(b"x\n", kind, 3).unwrap(), kind);
    let report = judge(&both, &pinned);
    assert_eq!(report.verdict, Verdict::Verified);
    assert!(has(&report, "other_signer"));
    // A key that is trusted for Rye's signatures seals nothing natively.
    let misused = seal_with(b"x\n", kind, 2, 0);
    assert_eq!(auto(&misused, kind), Verdict::UnknownSigner);
    let mut revoked = trust();
    let name = TrustName::parse("native").unwrap();
    let revocation = threadseal_core::trust::Revocation {
        at: time("2026-06-01T00:00:00Z"),
        reason: "lost".to_owned(),
        entry: None,
    };
    revoked.store.revoke(&name, revocation).unwrap();
    let report = judge(&seal(b"x\n", kind), &revoked);
    assert_eq!(report.verdict, Verdict::Forged);
    assert!(has(&report, "key_revoked"));
}

// T-DOC-04
#[test]
fn a_rye_signature_that_is_provably_wrong_speaks_against_a_sealed_file_too() {
    let kind = DocumentKind::Yaml;
    let signed = rye(b"a: 1\n", kind);
    let edited = [signed.as_slice(), b"b: 2\n"].concat();
    let report = report(&seal(&edited, kind), kind, ProfileChoice::Auto);
    assert_eq!(report.verdict, Verdict::Tampered);
    assert!(has(&report, "content_modified"));
}

// T-DOC-04
#[test]
fn a_broken_native_seal_is_not_overlooked_by_the_rye_profile() {
    let kind = DocumentKind::Yaml;
    let mut both = seal(&rye(b"a: 1\n", kind), kind);
    let at = both.iter().position(|b| *b == b'@').unwrap() + 80;
    both[at] ^= 1;
    assert_ne!(
        report(&both, kind, ProfileChoice::Rye).verdict,
        Verdict::Verified
    );
}

#[test]
fn the_native_profile_takes_nothing_else() {
    let kind = DocumentKind::Yaml;
    let native = |bytes: &[u8]| report(bytes, kind, ProfileChoice::Native).verdict;
    assert_eq!(native(&rye(b"a: 1\n", kind)), Verdict::Unsigned);
    assert_eq!(native(&seal(b"a: 1\n", kind)), Verdict::Verified);
    let theirs = report(&seal(b"a: 1\n", kind), kind, ProfileChoice::Rye);
    assert_eq!(
        (theirs.verdict, theirs.profile),
        (Verdict::Unsigned, Profile::None)
    );
}

// T-DOC-03
#[test]
fn an_older_copy_another_copy_and_another_record_are_told_apart() {
    let kind = DocumentKind::Json;
    let trust = trust();
    let old = seal_with(b"{\"spend\":1}", kind, 1, 4);
    let new = seal_with(b"{\"spend\":2}", kind, 1, 5);
    let twin = seal_with(b"{\"spend\":3}", kind, 1, 5);
    let head = report(&new, kind, ProfileChoice::Auto).head.unwrap();
    let against = |bytes: &[u8], head: Head| {
        let mut options = Options::new(kind, &trust, time(NOW));
        options.expect_head = Some(ExpectedHead::Head(head));
        verify(bytes, &options).unwrap().report
    };
    let same = against(&new, head);
    assert_eq!(same.verdict, Verdict::Verified);
    assert_eq!(same.completeness, Completeness::Head);
    assert_eq!(against(&old, head).verdict, Verdict::RolledBack);
    assert_eq!(against(&twin, head).verdict, Verdict::Forked);
    let record = RecordId::from_bytes([1; 32]);
    assert_eq!(
        against(&new, Head { record, ..head }).verdict,
        Verdict::Foreign
    );
    assert_eq!(
        against(&new, Head { seq: 4, ..head }).verdict,
        Verdict::Verified
    );
    assert_eq!(against(b"{\"spend\":2}", head).verdict, Verdict::Tampered);
    assert_eq!(
        against(&rye(b"{\"spend\":2}", kind), head).verdict,
        Verdict::Tampered
    );
}

#[test]
fn a_document_of_another_thread_is_foreign() {
    let kind = DocumentKind::Json;
    let trust = trust();
    let thread = ThreadId::parse("a/t-1").unwrap();
    let verdict = |text: &[u8]| {
        let sealed = seal(text, kind);
        let mut options = Options::new(kind, &trust, time(NOW));
        options.expect_thread = Some(&thread);
        verify(&sealed, &options).unwrap().report.verdict
    };
    assert_eq!(verdict(b"{\"thread_id\":\"a/t-1\"}"), Verdict::Verified);
    assert_eq!(verdict(b"{\"thread_id\":\"a/t-2\"}"), Verdict::Foreign);
    assert_eq!(verdict(b"{\"thread_id\":1}"), Verdict::Foreign);
    assert_eq!(verdict(b"{}"), Verdict::Foreign);
}

// T-RYE-11
#[test]
fn a_sealed_json_document_has_one_reading() {
    let kind = DocumentKind::Json;
    let sealed = String::from_utf8(seal(b"{\"a\":1,\"b\":{}}", kind)).unwrap();
    for (from, to, want) in [
        ("{\"a\":1", "{\"a\":2,\"a\":1", Verdict::Tampered),
        ("\"b\":{}", "\"b\":{\"x\":1,\"x\":2}", Verdict::Tampered),
        ("_threadseal", "_thread\\u0073eal", Verdict::Malformed),
        (
            "threadseal:signed",
            "threadseal\\u003asigned",
            Verdict::Malformed,
        ),
        ("1,", "NaN,", Verdict::Malformed),
        ("{\"a\"", "\u{feff}{\"a\"", Verdict::Malformed),
        ("{}", "{} ", Verdict::Tampered),
    ] {
        let changed = sealed.replacen(from, to, 1);
        assert_ne!(changed, sealed);
        assert_eq!(auto(changed.as_bytes(), kind), want, "{changed}");
    }
    let trailing = format!("{sealed}x");
    assert_eq!(auto(trailing.as_bytes(), kind), Verdict::Malformed);
}

#[test]
fn signing_refuses_what_could_not_be_verified_again() {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([9; 32]),
        seq: 0,
        time: time(NOW),
        signer: &signer(1, KeyUsage::Native),
    };
    let native = |bytes: &[u8], kind| sign_native(bytes, kind, &sealing).is_err();
    assert!(native(b"[1]", DocumentKind::Json));
    assert!(native(b"{\"a\":1,\"a\":2}", DocumentKind::Json));
    assert!(native(b"{\"_signature\":\"x\"}", DocumentKind::Json));
    assert!(native(b"\xff\n", DocumentKind::Yaml));
    assert!(native(b"# threadseal:signed:x\na: 1\n", DocumentKind::Yaml));
    let registry = String::from_utf8(rye(b"a: 1\n", DocumentKind::Yaml)).unwrap();
    let registry = registry.replacen('\n', "|rye-registry@me\n", 1);
    assert_eq!(
        auto(registry.as_bytes(), DocumentKind::Yaml),
        Verdict::Verified
    );
    assert!(native(registry.as_bytes(), DocumentKind::Yaml));

    let theirs = |bytes: &[u8], kind| rye_with(bytes, kind, 2).is_err();
    assert!(theirs(b"a\r\n", DocumentKind::Yaml));
    assert!(theirs("\u{feff}a".as_bytes(), DocumentKind::Yaml));
    assert!(theirs(b"#!/usr/bin/env node\n", DocumentKind::JavaScript));
    assert!(theirs(b"[]", DocumentKind::Json));
    assert!(theirs(b"# threadseal:signed:x\na: 1\n", DocumentKind::Yaml));
    let block = b"<directive></directive>\n";
    let header = rye(block, DocumentKind::Markdown);
    let twice = [block, &header[..header.len() - block.len()]].concat();
    assert!(theirs(&twice, DocumentKind::Markdown));
    // A native key does not sign Rye's hashes, and a Rye key makes no native seals.
    let wrong = RyeSigning {
        item_type: None,
        time: time(NOW),
        signer: &signer(1, KeyUsage::Native),
    };
    assert!(sign_rye(b"a\n", DocumentKind::Yaml, &wrong).is_err());
    let directive = RyeSigning {
        item_type: Some(ItemType::Directive),
        signer: &signer(2, KeyUsage::Rye),
        ..wrong
    };
    assert!(sign_rye(b"no block\n", DocumentKind::Markdown, &directive).is_err());
    assert!(sign_rye(b"a\n", DocumentKind::Yaml, &directive).is_err());
}

#[test]
fn a_verified_document_says_which_of_its_bytes_are_covered() {
    let trust = trust();
    let kind = DocumentKind::Markdown;
    let text = b"before\n<directive>x</directive>\nafter\n";
    let signed = rye(text, kind);
    let mut options = Options::new(kind, &trust, time(NOW));
    options.profile = ProfileChoice::Rye;
    let outcome = verify(&signed, &options).unwrap();
    let verified = outcome.verified.unwrap();
    let document = verified.get();
    let [covered] = document.covered() else {
        panic!("{document:?}")
    };
    let from = usize::try_from(covered.start).unwrap();
    let to = usize::try_from(covered.end).unwrap();
    assert_eq!(&signed[from..to], b"<directive>x</directive>");
    assert_eq!(document.item_type(), Some(ItemType::Directive));
    assert_eq!(document.seal(), None);
    options.profile = ProfileChoice::Auto;
    let report = verify(&signed, &options).unwrap().report;
    assert_eq!(report.verdict, Verdict::Partial);
    assert_eq!(report.findings.len(), 2);
}

// T-RYE-10
#[test]
fn broken_json_is_malformed_and_never_a_panic() {
    for text in [
        "",
        "{",
        "{\"_signature\":",
        "null",
        "{}{}",
        "\u{feff}{}",
        "{\"a\":\u{1}}",
    ] {
        let report = report(text.as_bytes(), DocumentKind::Json, ProfileChoice::Auto);
        let want = if text == "null" {
            Verdict::Unsigned
        } else {
            Verdict::Malformed
        };
        assert_eq!(report.verdict, want, "{text:?}");
    }
    assert_eq!(auto(b"\xff", DocumentKind::Yaml), Verdict::Malformed);
}
