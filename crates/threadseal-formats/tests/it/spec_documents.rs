//! Computes every example of `spec/documents.md` from its two seeds.

use crate::scene::*;
use threadseal_formats::document::{
    DocumentKind, NativeSealing, Options, ProfileChoice, RyeSigning, sign_native, sign_rye, verify,
};

const SCRIPT: &str = "#!/bin/sh\necho ok\n";

fn assert_example(name: &str, computed: &str) {
    assert_eq!(example("spec/documents.md", name), computed, "{name}");
}

fn time() -> Timestamp {
    Timestamp::parse_iso_seconds("2026-02-18T10:30:00Z").unwrap()
}

fn seal(bytes: &[u8], kind: DocumentKind) -> String {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([9; 32]),
        seq: 0,
        time: time(),
        signer: &signer(1, KeyUsage::Native),
    };
    String::from_utf8(sign_native(bytes, kind, &sealing).unwrap()).unwrap()
}

fn rye(bytes: &[u8], kind: DocumentKind) -> String {
    let signing = RyeSigning {
        item_type: None,
        time: time(),
        signer: &signer(2, KeyUsage::Rye),
    };
    String::from_utf8(sign_rye(bytes, kind, &signing).unwrap()).unwrap()
}

fn verified(bytes: &str, kind: DocumentKind, profile: ProfileChoice, seed: u8) -> Option<String> {
    let trust = Trust::key(key(seed));
    let mut options = Options::new(kind, &trust, time());
    options.profile = profile;
    let report = verify(bytes.as_bytes(), &options).unwrap().report;
    assert_eq!(report.verdict, Verdict::Verified, "{report:#?}");
    report.head.map(|head| head.to_string())
}

#[test]
fn the_sealed_text_is_the_example() {
    let sealed = seal(SCRIPT.as_bytes(), DocumentKind::Shell);
    let hole = sealed.len() - 87..sealed.len() - 1;
    let content = Digest::tagged(
        "threadseal/1 document content",
        &[
            &sealed.as_bytes()[..hole.start],
            &sealed.as_bytes()[hole.end..],
        ],
    );
    let computed = format!(
        "file before  {SCRIPT:?}\nrecord       32 x 09\nseq, time    0, 2026-02-18T10:30:00Z\n\
         key          seed 32 x 01\ncontent      {content}\nlast line    {}\nsignature    {}\n\
         head         {}\n",
        &sealed[SCRIPT.len()..hole.start],
        &sealed[hole],
        verified(&sealed, DocumentKind::Shell, ProfileChoice::Auto, 1).unwrap(),
    );
    assert_example("native-text", &computed);
}

#[test]
fn the_text_signed_for_rye_is_the_example() {
    let signed = rye(SCRIPT.as_bytes(), DocumentKind::Shell);
    verified(&signed, DocumentKind::Shell, ProfileChoice::Rye, 2);
    let header = signed.lines().nth(1).unwrap();
    let hashed = "echo ok\n";
    assert!(header.contains(&Digest::of(hashed.as_bytes()).to_hex()));
    let computed = format!(
        "file before  {SCRIPT:?}\nhashed       {hashed:?}\nkey, time    seed 32 x 02, \
         2026-02-18T10:30:00Z\nsecond line  {header}\n",
    );
    assert_example("rye-text", &computed);
}

#[test]
fn the_json_signed_for_rye_and_then_sealed_is_the_example() {
    let file = "{\"b\": 1.50, \"a\": \"é\"}";
    let signed = rye(file.as_bytes(), DocumentKind::Json);
    verified(&signed, DocumentKind::Json, ProfileChoice::Rye, 2);
    let hashed = "{\"a\":\"\\u00e9\",\"b\":1.5}";
    assert!(signed.contains(&Digest::of(hashed.as_bytes()).to_hex()));
    let sealed = seal(signed.as_bytes(), DocumentKind::Json);
    verified(&sealed, DocumentKind::Json, ProfileChoice::Rye, 2);
    verified(&sealed, DocumentKind::Json, ProfileChoice::Auto, 1);
    let computed = format!(
        "file before  {file}\nhashed       {hashed}\nkey, time    seed 32 x 02, \
         2026-02-18T10:30:00Z\nsigned       {signed}\nsealed       {sealed}\n",
    );
    assert_example("rye-json", &computed);
}
