//! A conflict of seals has one text, and is evidence only against a key that signed both.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::conflict::{SealConflict, check_file};
use threadseal_core::trust::{Trust, TrustStore};

/// An honest record: none of its seals is half of a conflict.
const HONEST: &[u8] = include_bytes!("../seeds/turn_proof/rotated.jsonl");

fuzz_target!(|file: &[u8]| {
    let trust = Trust::new(TrustStore::new());
    let options = VerifyOptions {
        trust: &trust,
        now: Timestamp::from_micros(1_800_000_000_000_000).expect("in range"),
        held_since: None,
        thread: None,
    };
    let verdict = check_file(file, &options).report.verdict;
    // No key is trusted, so no verdict can be better.
    assert!(verdict.forbids_use());
    match SealConflict::parse(file) {
        Ok(conflict) => assert_eq!(conflict.to_string().as_bytes(), file),
        Err(_) => assert_eq!(verdict, Verdict::Malformed),
    }
    // The keys of the honest record are secret, so every conflict with it is forged.
    if let Ok(Some(found)) = SealConflict::find(HONEST, file) {
        let verdict = check_file(found.to_string().as_bytes(), &options).report.verdict;
        assert!(verdict < Verdict::UnknownSigner);
    }
});
