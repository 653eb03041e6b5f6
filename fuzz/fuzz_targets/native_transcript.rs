//! Only the sealed bytes verify, in any chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::{ScanOptions, Verifier, VerifyOptions, verify};
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};

/// The records of the seeds that verify. No other input may verify.
const SEALED: [&[u8]; 3] = [
    include_bytes!("../../testkit/transcripts/native/key_rotated.jsonl"),
    include_bytes!("../../testkit/transcripts/native/valid.jsonl"),
    include_bytes!("../../testkit/transcripts/native/link_sealed.jsonl"),
];

fuzz_target!(|bytes: &[u8]| {
    let trust = trust();
    let now = Timestamp::from_micros(1_800_000_000_000_000).expect("in range");
    let options = VerifyOptions {
        trust: &trust,
        now,
        held_since: None,
        thread: None,
    };
    let outcome = verify(bytes, &ScanOptions::default(), &options);
    let verified = outcome.report.verdict == Verdict::Verified;
    assert_eq!(verified, outcome.verified.is_some());
    assert_eq!(verified, SEALED.contains(&bytes));
    let mut pieces = Verifier::new(ScanOptions {
        every_signature: true,
        ..ScanOptions::default()
    });
    bytes.chunks(7).for_each(|piece| pieces.push(piece));
    let pieces = pieces.finish(&options);
    assert_eq!(pieces.report.verdict, outcome.report.verdict);
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
