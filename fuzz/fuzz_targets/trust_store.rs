//! A store that parses is written as one text that parses to the same store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal::trust::{TrustStore, rye};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(store) = TrustStore::parse(text) {
            let written = store.to_toml();
            let again = TrustStore::parse(&written).expect("what we write we read");
            assert_eq!(again.to_toml(), written);
            assert_eq!(again.digest(), store.digest());
        }
    }
    if let Ok(key) = rye::parse_trusted_key(bytes) {
        assert_eq!(key.fingerprint, key.key.rye_fingerprint());
    }
});
