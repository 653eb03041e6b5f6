//! A policy is read completely or not at all. It requires its own quorum, and accepts only notes
//! that its log signed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::policy::{Judgement, NotAccepted, Policy};
use threadseal_core::tlog::verifier::VerifierKey;

const NOTE: &str = include_str!("../../testkit/tlog/cosigned.note");
const MAX_NAMES: usize = 512;

fuzz_target!(|file: &[u8]| {
    let policy = match Policy::parse(file) {
        Ok(policy) => policy,
        Err(error) => {
            let lines = file.iter().filter(|byte| **byte == b'\n').count();
            assert!(error.line().is_none_or(|line| (1..=lines).contains(&line)));
            return;
        }
    };
    assert!(policy.witnesses().len() <= MAX_NAMES && policy.logs().len() <= MAX_NAMES);
    let keys = policy.logs().iter().map(|log| &log.key);
    let keys: Vec<_> = keys
        .chain(policy.witnesses().iter().map(|witness| &witness.key))
        .collect();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(VerifierKey::parse(&key.to_string()).as_ref(), Ok(*key));
        assert!(!keys[..number].iter().any(|other| other.is_same_key(key)));
    }
    // A policy has one quorum. A comment before it changes nothing.
    let twice = [file, b"quorum none\n"].concat();
    assert!(Policy::parse(&twice).is_err());
    let commented = [b"# first\n\n", file].concat();
    assert_eq!(Policy::parse(&commented).as_ref(), Ok(&policy));

    let note = SignedNote::parse(NOTE).expect("a note");
    match policy.judge(&note) {
        Ok(Judgement::Witnessed(witnessed)) => {
            let signed = witnessed.signed();
            assert!(policy.asks_for_witnesses() && !signed.cosignatures().is_empty());
            assert!(signed.cosignatures().iter().any(|by| by.time >= witnessed.at()));
        }
        Ok(Judgement::LogOnly(_)) => assert!(!policy.asks_for_witnesses()),
        Err(NotAccepted::NoQuorum(_)) => assert!(policy.asks_for_witnesses()),
        Err(_) => {}
    }
});
