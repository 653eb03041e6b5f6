//! No key counts as a signer of a text that it did not sign. Evidence has one spelling and needs
//! two roots. Keys have one spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::{VerifierKey, open};

/// Both notes of the testkit have this text. All keys of both policies signed no other text.
const TEXT: &str = "example.com/log\n5\nXXStItFv634MMKpnX7Clwa5/Ml6CpToPMyKow3nxiTg=\n";
const POLICIES: [&str; 2] = [
    include_str!("../../testkit/tlog/cosigned.policy"),
    include_str!("../../testkit/tlog/ml_dsa.policy"),
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(key) = VerifierKey::parse(text) {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(found) = Conflict::parse(text) {
        assert_eq!(found.to_string(), text);
        let [one, other] = found.checkpoints();
        assert_eq!(one.origin(), other.origin());
        let (one, other) = (one.tree(), other.tree());
        match found.went_back().is_some() || found.parted().is_some() {
            true => assert!(one.size < other.size),
            false => {
                assert_eq!(one.size, other.size);
                assert!(one.root.as_bytes() < other.root.as_bytes());
            }
        }
    }
    let Ok(note) = SignedNote::parse(text) else {
        return;
    };
    for policy in POLICIES {
        let policy = Policy::parse(policy.as_bytes()).expect("a policy");
        let keys = policy.logs().iter().map(|log| &log.key);
        let keys: Vec<_> = keys
            .chain(policy.witnesses().iter().map(|witness| &witness.key))
            .collect();
        if let Ok((checkpoint, signers)) = open(&note, &keys) {
            assert_eq!(checkpoint.to_string(), note.text().as_str());
            assert!(signers.is_empty() || note.text().as_str() == TEXT);
        }
        assert!(policy.judge(&note).is_err() || note.text().as_str() == TEXT);
    }
});
