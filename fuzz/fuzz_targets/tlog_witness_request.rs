//! A request has one spelling. A witness accepts only the checkpoint that its log signed, and only
//! from the tree that it cosigned last. A client accepts no cosignature that the witness's key did
//! not make.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::merkle::{TreeHead, leaf_hash, root};
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::witness::{AddCheckpoint, judge, read_cosignatures, read_size};

const NOTE: &str = include_str!("../../testkit/tlog/cosigned.note");
const POLICY: &str = include_str!("../../testkit/tlog/cosigned.policy");

fuzz_target!(|body: &[u8]| {
    let policy = Policy::parse(POLICY.as_bytes()).expect("a policy");
    let known = SignedNote::parse(NOTE).expect("a note");
    if let Ok(size) = read_size(body) {
        assert_eq!(format!("{size}\n").as_bytes(), body);
    }
    let witness = &policy.witnesses()[0].key;
    for answered in read_cosignatures(body, &known, witness).unwrap_or_default() {
        assert_eq!(&answered.line, &known.signatures()[1]);
    }
    let Ok(request) = AddCheckpoint::parse(body) else {
        return;
    };
    assert_eq!(request.to_string().as_bytes(), body);
    let keys = [policy.logs()[0].key.clone()];
    let three = TreeHead {
        size: 3,
        root: root(&[&b"one"[..], b"two", b"three"].map(leaf_hash)),
    };
    for last in [None, Some(three)] {
        match judge(&request, &keys, last.as_ref()) {
            Ok(accepted) => {
                assert_eq!(accepted.checkpoint().to_string(), known.text().as_str());
            }
            Err(refusal) => assert!([400, 403, 404, 409, 422].contains(&refusal.status())),
        }
    }
    assert_eq!(judge(&request, &[], None).unwrap_err().status(), 404);
});
