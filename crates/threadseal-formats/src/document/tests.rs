//! Native seals, both signatures in one file, and the verdict of each profile on them.

use super::*;
use crate::testing::Row;
use std::sync::LazyLock;
use threadseal_core::key::{KeyUsage, Signer};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::testing::{codes, is, key, revoked, signer, trust_in};

const NOW: &str = "2026-12-01T00:00:00Z";

/// Trusts key 1 for native seals and key 2 for Rye's signatures.
static TRUST: LazyLock<Trust> =
    LazyLock::new(|| trust_in([(key(1), KeyUsage::Native), (key(2), KeyUsage::Rye)]));

fn time(text: &str) -> Timestamp {
    Timestamp::parse_iso_seconds(text).unwrap()
}

fn try_seal(bytes: &[u8], kind: DocumentKind, seed: u8, seq: u64) -> Result<Vec<u8>, Error> {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([9; 32]),
        seq,
        time: time("2026-02-18T10:30:00Z"),
        signer: &signer(seed, KeyUsage::Native),
    };
    sign_native(bytes, kind, &sealing)
}

fn seal_with(bytes: &[u8], kind: DocumentKind, seed: u8, seq: u64) -> Vec<u8> {
    try_seal(bytes, kind, seed, seq).unwrap()
}

fn seal(bytes: &[u8], kind: DocumentKind) -> Vec<u8> {
    seal_with(bytes, kind, 1, 0)
}

fn rye_with(bytes: &[u8], kind: DocumentKind, seed: u8) -> Result<Vec<u8>, Error> {
    rye_item(bytes, kind, &signer(seed, KeyUsage::Rye), None)
}

fn rye_item(
    bytes: &[u8],
    kind: DocumentKind,
    signer: &dyn Signer,
    item_type: Option<ItemType>,
) -> Result<Vec<u8>, Error> {
    let signing = RyeSigning {
        item_type,
        time: time("2026-02-18T10:30:00Z"),
        signer,
    };
    sign_rye(bytes, kind, &signing)
}

fn rye(bytes: &[u8], kind: DocumentKind) -> Vec<u8> {
    rye_with(bytes, kind, 2).unwrap()
}

/// The report under options that differ from the usual ones.
fn judged(bytes: &[u8], kind: DocumentKind, change: impl Fn(&mut Options<'_>)) -> Report {
    let mut options = Options::new(kind, &TRUST, time(NOW));
    change(&mut options);
    let Outcome { report, verified } = verify(bytes, &options).unwrap();
    assert_eq!(verified.is_some(), report.verdict == Verdict::Verified);
    report
}

fn report(bytes: &[u8], kind: DocumentKind, profile: ProfileChoice) -> Report {
    judged(bytes, kind, |options| options.profile = profile)
}

fn auto(bytes: &[u8], kind: DocumentKind) -> Verdict {
    report(bytes, kind, ProfileChoice::Auto).verdict
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
        assert_eq!(report.signers[0].name.as_deref(), Some("key-1"));
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
            let cut = &sealed[..at.min(sealed.len() - 1)];
            assert_ne!(auto(cut, kind), Verdict::Verified, "{kind} {at}");
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
        let found = (native.profile, native.stats.checkpoints);
        assert_eq!(found, (Profile::Native, 2));
        assert_eq!(native.unauthenticated, ["timestamp=2026-02-18T10:30:00Z"]);
        let theirs = report(&both, kind, ProfileChoice::Rye);
        let found = (theirs.verdict, theirs.profile);
        assert_eq!(found, (Verdict::Verified, Profile::Rye));
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
    assert!(try_seal(&wrong, kind, 1, 0).is_err());
    assert_eq!(auto(&wrong, kind), Verdict::Tampered);
}

// T-DOC-02
#[test]
fn a_second_seal_is_refused_wherever_it_stands() {
    let kind = DocumentKind::Shell;
    let line = seal(b"", kind);
    let sealed = seal(b"x\n", kind);
    let twice = [line.as_slice(), &sealed].concat();
    let not_last = [sealed.as_slice(), b"rm -rf /\n"].concat();
    for (bytes, code) in [
        (&twice[..], "several_seals"),
        (&not_last, "seal_not_last"),
        (&sealed[..sealed.len() - 1], "seal_unreadable"),
    ] {
        let report = report(bytes, kind, ProfileChoice::Auto);
        assert_eq!(report.verdict.exit_code(), 1, "{code}");
        assert!(codes(&report).contains(&code), "{code}: {report:?}");
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
    let own = seal(b"x\n", kind);
    let strange = seal_with(b"x\n", kind, 3, 0);
    // A key that is trusted for Rye's signatures seals nothing natively.
    let misused = seal_with(b"x\n", kind, 2, 0);
    // With a native seal by the pinned key, Rye's signer does not matter.
    let both = seal(&rye_with(b"x\n", kind, 3).unwrap(), kind);
    let pinned = Trust::key(key(1));
    let ended = revoked(TRUST.clone(), "key-1", time("2026-06-01T00:00:00Z"));
    for (row, bytes, trust, verdict, code) in [
        ("strange", &strange, &*TRUST, Verdict::UnknownSigner, ""),
        ("misused", &misused, &TRUST, Verdict::UnknownSigner, ""),
        (
            "strange, pinned",
            &strange,
            &pinned,
            Verdict::UnknownSigner,
            "other_signer",
        ),
        ("own, pinned", &own, &pinned, Verdict::Verified, ""),
        (
            "both, pinned",
            &both,
            &pinned,
            Verdict::Verified,
            "other_signer",
        ),
        ("own, ended", &own, &ended, Verdict::Forged, "key_revoked"),
    ] {
        let _row = Row(row);
        let outcome = verify(bytes, &Options::new(kind, trust, time(NOW))).unwrap();
        is(&outcome.report, verdict, code);
        assert_eq!(outcome.verified.is_some(), verdict == Verdict::Verified);
    }
}

// T-DOC-04
#[test]
fn a_rye_signature_that_is_provably_wrong_speaks_against_a_sealed_file_too() {
    let kind = DocumentKind::Yaml;
    let signed = rye(b"a: 1\n", kind);
    let edited = [signed.as_slice(), b"b: 2\n"].concat();
    let report = report(&seal(&edited, kind), kind, ProfileChoice::Auto);
    is(&report, Verdict::Tampered, "content_modified");
}

// T-DOC-04
#[test]
fn a_broken_native_seal_is_not_overlooked_by_the_rye_profile() {
    let kind = DocumentKind::Yaml;
    let mut both = seal(&rye(b"a: 1\n", kind), kind);
    let at = both.iter().position(|b| *b == b'@').unwrap() + 80;
    both[at] ^= 1;
    let report = report(&both, kind, ProfileChoice::Rye);
    assert_ne!(report.verdict, Verdict::Verified);
}

#[test]
fn the_native_profile_takes_nothing_else() {
    let kind = DocumentKind::Yaml;
    let native = |bytes: &[u8]| report(bytes, kind, ProfileChoice::Native).verdict;
    assert_eq!(native(&rye(b"a: 1\n", kind)), Verdict::Unsigned);
    assert_eq!(native(&seal(b"a: 1\n", kind)), Verdict::Verified);
    let theirs = report(&seal(b"a: 1\n", kind), kind, ProfileChoice::Rye);
    let found = (theirs.verdict, theirs.profile);
    assert_eq!(found, (Verdict::Unsigned, Profile::None));
}

// T-DOC-03
#[test]
fn an_older_copy_another_copy_and_another_record_are_told_apart() {
    let kind = DocumentKind::Json;
    let old = seal_with(b"{\"spend\":1}", kind, 1, 4);
    let new = seal_with(b"{\"spend\":2}", kind, 1, 5);
    let twin = seal_with(b"{\"spend\":3}", kind, 1, 5);
    let unsealed = b"{\"spend\":2}".to_vec();
    let head = report(&new, kind, ProfileChoice::Auto).head.unwrap();
    let record = RecordId::from_bytes([1; 32]);
    for (bytes, head, verdict) in [
        (&new, head, Verdict::Verified),
        (&old, head, Verdict::RolledBack),
        (&twin, head, Verdict::Forked),
        (&new, Head { record, ..head }, Verdict::Foreign),
        (&new, Head { seq: 4, ..head }, Verdict::Verified),
        (&unsealed, head, Verdict::Tampered),
        (&rye(&unsealed, kind), head, Verdict::Tampered),
    ] {
        let report = judged(bytes, kind, |options| {
            options.expect_head = Some(ExpectedHead::Head(head));
        });
        assert_eq!(
            report.verdict,
            verdict,
            "{}",
            String::from_utf8_lossy(bytes)
        );
        let same = verdict == Verdict::Verified && head.seq == 5;
        assert!(!same || report.completeness == Completeness::Head);
    }
}

#[test]
fn a_document_of_another_thread_is_foreign() {
    let kind = DocumentKind::Json;
    let thread = ThreadId::parse("a/t-1").unwrap();
    for (text, verdict) in [
        ("{\"thread_id\":\"a/t-1\"}", Verdict::Verified),
        ("{\"thread_id\":\"a/t-2\"}", Verdict::Foreign),
        ("{\"thread_id\":1}", Verdict::Foreign),
        ("{}", Verdict::Foreign),
    ] {
        let sealed = seal(text.as_bytes(), kind);
        let mut options = Options::new(kind, &TRUST, time(NOW));
        options.expect_thread = Some(&thread);
        let report = verify(&sealed, &options).unwrap().report;
        assert_eq!(report.verdict, verdict, "{text}");
    }
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
        ("seal:signed", "seal\\u003asigned", Verdict::Malformed),
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
    use DocumentKind::{JavaScript, Json, Markdown, Yaml};
    let registry = String::from_utf8(rye(b"a: 1\n", Yaml)).unwrap();
    let registry = registry.replacen('\n', "|rye-registry@me\n", 1);
    assert_eq!(auto(registry.as_bytes(), Yaml), Verdict::Verified);
    for (bytes, kind) in [
        (&b"[1]"[..], Json),
        (b"{\"a\":1,\"a\":2}", Json),
        (b"{\"_signature\":\"x\"}", Json),
        (b"\xff\n", Yaml),
        (b"# threadseal:signed:x\na: 1\n", Yaml),
        (registry.as_bytes(), Yaml),
    ] {
        assert!(try_seal(bytes, kind, 1, 0).is_err(), "{bytes:?}");
    }
    let block = b"<directive></directive>\n";
    let header = rye(block, Markdown);
    let twice = [block, &header[..header.len() - block.len()]].concat();
    for (bytes, kind) in [
        (&b"a\r\n"[..], Yaml),
        ("\u{feff}a".as_bytes(), Yaml),
        (b"#!/usr/bin/env node\n", JavaScript),
        (b"[]", Json),
        (b"# threadseal:signed:x\na: 1\n", Yaml),
        (&twice, Markdown),
    ] {
        assert!(rye_with(bytes, kind, 2).is_err(), "{bytes:?}");
    }
    // A native key does not sign Rye's hashes.
    let native = signer(1, KeyUsage::Native);
    assert!(rye_item(b"a\n", Yaml, &native, None).is_err());
    let directive = Some(ItemType::Directive);
    for (bytes, kind) in [(&b"no block\n"[..], Markdown), (b"a\n", Yaml)] {
        let signed = rye_item(bytes, kind, &signer(2, KeyUsage::Rye), directive);
        assert!(signed.is_err(), "{bytes:?}");
    }
}

#[test]
fn a_verified_document_says_which_of_its_bytes_are_covered() {
    let kind = DocumentKind::Markdown;
    let text = b"before\n<directive>x</directive>\nafter\n";
    let signed = rye(text, kind);
    let mut options = Options::new(kind, &TRUST, time(NOW));
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
    let report = report(&signed, kind, ProfileChoice::Auto);
    assert_eq!(report.verdict, Verdict::Partial);
    assert_eq!(report.findings.len(), 2);
}

// T-RYE-10
#[test]
fn broken_json_is_malformed_and_never_a_panic() {
    for (text, kind, verdict) in [
        (&b"null"[..], DocumentKind::Json, Verdict::Unsigned),
        (b"", DocumentKind::Json, Verdict::Malformed),
        (b"{", DocumentKind::Json, Verdict::Malformed),
        (b"{\"_signature\":", DocumentKind::Json, Verdict::Malformed),
        (b"{}{}", DocumentKind::Json, Verdict::Malformed),
        (b"\xef\xbb\xbf{}", DocumentKind::Json, Verdict::Malformed),
        (b"{\"a\":\x01}", DocumentKind::Json, Verdict::Malformed),
        (b"\xff", DocumentKind::Yaml, Verdict::Malformed),
    ] {
        assert_eq!(auto(text, kind), verdict, "{text:?}");
    }
}

// T-DOC-12
#[test]
fn a_document_that_is_verified_with_gaps_is_covered_up_to_no_byte() {
    let kind = DocumentKind::Markdown;
    let rye_profile = |text: &str| {
        let signed = rye(text.as_bytes(), kind);
        let mut options = Options::new(kind, &TRUST, time(NOW));
        options.profile = ProfileChoice::Rye;
        let outcome = verify(&signed, &options).unwrap();
        let report = outcome.report;
        assert_eq!(report.verdict, Verdict::Verified, "{text}");
        let until = outcome.verified.unwrap().grounds().trusted_until;
        (report.trusted_until, until, signed.len() as u64)
    };
    for text in [
        "before\n<directive>x</directive>\n",
        "<directive>x</directive>\nafter\n",
        "---\nname: x\n---\nbody\n",
    ] {
        let (shown, until, _) = rye_profile(text);
        assert_eq!((shown, until.byte, until.line), (None, 0, 0), "{text}");
    }
    let (shown, until, size) = rye_profile("<directive>x</directive>\n");
    assert_eq!((shown, until.byte, until.line), (Some(until), size, 2));
}

#[test]
fn only_the_signer_on_whom_the_verdict_rests_or_a_wrong_one_is_listed() {
    let kind = DocumentKind::Yaml;
    let signers = |bytes: &[u8], profile| -> Vec<_> {
        let signers = report(bytes, kind, profile).signers;
        signers.into_iter().map(|signer| signer.key).collect()
    };
    let id = |seed| key(seed).key_id().to_hex();
    let both = seal(&rye(b"a: 1\n", kind), kind);
    assert_eq!(signers(&both, ProfileChoice::Auto), [id(1)]);
    assert_eq!(signers(&both, ProfileChoice::Native), [id(1)]);
    assert_eq!(signers(&both, ProfileChoice::Rye), [id(2)]);
    // The last byte of a file with a seal in its suffix is content.
    let mut changed = both.clone();
    let at = changed.len() - 2;
    changed[at] ^= 1;
    assert_eq!(signers(&changed, ProfileChoice::Rye)[0], id(1));
}

// T-KEY-01
#[test]
fn a_revoked_key_is_forged_unless_the_head_was_held_before() {
    let sealed = seal(b"x = 1\n", DocumentKind::Python);
    let ended = revoked(TRUST.clone(), "key-1", time(NOW));
    for (held_since, verdict) in [
        (None, Verdict::Forged),
        (Some(time("2026-11-30T23:59:59Z")), Verdict::Verified),
        (Some(time(NOW)), Verdict::Forged),
    ] {
        let options = Options {
            held_since,
            ..Options::new(DocumentKind::Python, &ended, time(NOW))
        };
        let report = verify(&sealed, &options).unwrap().report;
        assert_eq!(report.verdict, verdict);
    }
}

#[test]
fn a_known_head_proves_no_document_complete_against_which_there_is_evidence() {
    let sealed = seal(b"x = 1\n", DocumentKind::Python);
    let head = report(&sealed, DocumentKind::Python, ProfileChoice::Auto).head;
    let thread = ThreadId::parse("t").unwrap();
    for (kind, verdict, completeness) in [
        (DocumentKind::Python, Verdict::Verified, Completeness::Head),
        (DocumentKind::Toml, Verdict::Foreign, Completeness::Unproved),
    ] {
        let report = judged(&sealed, kind, |options| {
            options.expect_head = head.map(ExpectedHead::Head);
        });
        assert_eq!(
            (report.verdict, report.completeness),
            (verdict, completeness)
        );
    }
    let json = seal(b"{}", DocumentKind::Json);
    let mut options = Options::new(DocumentKind::Json, &TRUST, time(NOW));
    options.expect_thread = Some(&thread);
    let head = verify(&json, &options).unwrap().report.head;
    options.expect_head = head.map(ExpectedHead::Head);
    let report = verify(&json, &options).unwrap().report;
    is(&report, Verdict::Foreign, "other_thread");
    assert_eq!(report.completeness, Completeness::Unproved);
}
