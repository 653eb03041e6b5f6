//! Our verdict and the original's answer: neither panics, and ours is never the laxer one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal::report::Verdict;
use threadseal::time::Timestamp;
use threadseal::transcript::messages::Conversation;
use threadseal::transcript::rye::{self, Options};
use threadseal::trust::Trust;

fuzz_target!(|bytes: &[u8]| {
    let trust = Trust::default();
    let now = Timestamp::from_micros(1_800_000_000_000_000).expect("in range");
    let outcome = rye::verify(bytes, &Options::new(&trust, now));
    // Nobody is trusted here.
    assert_ne!(outcome.report.verdict, Verdict::Verified);
    assert!(outcome.verified.is_none());
    let mut conversation = Conversation::danger_new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = conversation.push_line(line);
    }
    let _ = conversation.into_messages();
});
