//! igor's receipts: every accepted input is written back unchanged, and costs no more memory than
//! its size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::key::PrivateKey;
use threadseal_formats::lineage::{parse_receipts, write_receipts};

fuzz_target!(|file: &[u8]| {
    let Ok(receipts) = parse_receipts(file) else {
        return;
    };
    assert_eq!(write_receipts(&receipts), file);
    let stranger = PrivateKey::from_seed([1; 32]);
    for receipt in &receipts {
        // The input contains no signature by this key.
        assert!(receipt.verify(stranger.public_key()).is_err());
        if let Some(node) = receipt.node_key() {
            let _ = receipt.verify(&node);
        }
    }
});
