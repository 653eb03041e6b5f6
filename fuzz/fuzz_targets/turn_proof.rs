//! A proof of a turn has one text, and proves only sealed content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::{TurnProof, check_file};
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

/// The records of which the seeds are proofs.
const RECORDS: [&str; 3] = [
    include_str!("../seeds/turn_proof/rotated.jsonl"),
    include_str!("../../testkit/transcripts/native/valid.jsonl"),
    include_str!("../../testkit/transcripts/native/link_sealed.jsonl"),
];

fuzz_target!(|file: &[u8]| {
    let trust = trust();
    let options = VerifyOptions {
        trust: &trust,
        now: Timestamp::from_micros(1_800_000_000_000_000).expect("in range"),
        held_since: None,
        thread: None,
    };
    let checked = check_file(file, &options);
    let verdict = checked.report.verdict;
    match TurnProof::parse(file) {
        Ok(proof) => assert_eq!(proof.to_string().as_bytes(), file),
        Err(_) => assert_eq!(verdict, Verdict::Malformed),
    }
    // The key is secret, so every line under its name must come from its records.
    if matches!(verdict, Verdict::Verified | Verdict::Open | Verdict::Partial) {
        let lines = checked.lines.iter();
        let mut texts = lines.map(|line| (line.number, line.text.as_str()));
        let record = RECORDS.iter().find(|record| {
            texts.clone().all(|(number, text)| {
                let place = usize::try_from(number).expect("small") - 1;
                record.lines().nth(place) == Some(text)
            })
        });
        assert!(record.is_some() && texts.next().is_some());
        // None of the records commits to a body.
        assert!(checked.lines.iter().all(|line| line.restored.is_none()));
    }
    assert!(verdict.exit_code() != 1 || checked.lines.is_empty());
});

fn trust() -> Trust {
    let key = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native);
    let mut store = TrustStore::new();
    let name = TrustName::parse("testkit").expect("a name");
    store
        .add(TrustedKey::new(name, *key.public_key(), [KeyUsage::Native]))
        .expect("one key");
    Trust::new(store)
}
