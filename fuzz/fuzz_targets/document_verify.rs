//! Documents of every kind: no panic, and nothing verifies without a trusted key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal::document::{self, DocumentKind, Options, Profile};
use threadseal::report::Verdict;
use threadseal::time::Timestamp;
use threadseal::trust::Trust;

fuzz_target!(|bytes: &[u8]| {
    let trust = Trust::default();
    let now = Timestamp::from_micros(1_800_000_000_000_000).expect("in range");
    for name in ["a.json", "a.md", "a.py", "a.yaml", "a.toml", "a.sh", "a.ts"] {
        let Some(kind) = DocumentKind::detect(name, bytes) else {
            continue;
        };
        for profile in [Profile::Auto, Profile::Rye, Profile::Native] {
            let options = Options {
                path: name,
                profile,
                ..Options::new(kind, &trust, now)
            };
            if let Ok(outcome) = document::verify(bytes, &options) {
                assert_ne!(outcome.report.verdict, Verdict::Verified);
                assert!(outcome.verified.is_none());
            }
        }
    }
});
