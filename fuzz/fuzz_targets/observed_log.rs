//! A seal file vouches for no log but its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::Head;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::log::LogReader;
use threadseal_formats::transcript::{VerifyOptions, observe, observed};
use threadseal_core::trust::Trust;

const LOG: &[u8] = include_bytes!("../../testkit/transcripts/native/observed.jsonl");
const SEALS: &[u8] = include_bytes!("../../testkit/transcripts/native/observed.jsonl.seal");

const SALTED_LOG: &[u8] = include_bytes!("../../testkit/transcripts/native/salted.jsonl");
const SALTED: &[u8] = include_bytes!("../../testkit/transcripts/native/salted.jsonl.seal");
const REDACTED_LOG: &[u8] = include_bytes!("../../testkit/transcripts/native/salted_redacted.jsonl");
const REDACTED: &[u8] = include_bytes!("../../testkit/transcripts/native/salted_redacted.jsonl.seal");

fuzz_target!(|bytes: &[u8]| {
    // The bytes as a seal file of the log.
    assert!(!vouches(bytes, LOG) || bytes == SEALS);
    // The salts and the statements of a file may differ, its seals not.
    assert!(!vouches(bytes, SALTED_LOG) || last_head(bytes) == last_head(SALTED));
    assert!(!vouches(bytes, REDACTED_LOG) || last_head(bytes) == last_head(SALTED));
    // The bytes as a log under the seal file.
    assert!(!vouches(SEALS, bytes) || is_log(bytes, LOG));
    assert!(!vouches(SALTED, bytes) || is_log(bytes, SALTED_LOG));
    assert!(!vouches(REDACTED, bytes) || is_log(bytes, REDACTED_LOG));
});

fn last_head(seals: &[u8]) -> Option<Head> {
    Some(observed::parse(seals).ok()?.last()?.head)
}

/// The last line may lack its line feed: its content is the same.
fn is_log(bytes: &[u8], log: &[u8]) -> bool {
    bytes == log || Some(bytes) == log.strip_suffix(b"\n")
}

fn vouches(seals: &[u8], log: &[u8]) -> bool {
    let key = LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Observed);
    let trust = Trust::key(*key.public_key());
    let now = Timestamp::from_micros(1_800_000_000_000_000).expect("in range");
    let options = VerifyOptions {
        trust: &trust,
        now,
        held_since: None,
        thread: None,
    };
    let Ok(file) = observed::parse(seals) else {
        return false;
    };
    let mut reader = LogReader::new(Some(&file), false);
    log.chunks(5).for_each(|piece| reader.push(piece));
    observe::report(&file, &reader.finish(), &[], &options).verdict == Verdict::Verified
}
