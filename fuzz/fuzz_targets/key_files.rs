//! A public key that parses has one text of each kind; private keys never fail but by error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal::key::{PrivateKey, PublicKey};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(key) = PublicKey::parse_any(bytes) {
        assert_eq!(PublicKey::from_hex(&key.to_hex()), Ok(key));
        assert_eq!(PublicKey::from_pem(&key.to_pem()), Ok(key));
        assert_eq!(PublicKey::from_did_key(&key.to_did_key()), Ok(key));
    }
    let _ = PrivateKey::from_igor_identity(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(key) = PrivateKey::from_pem(text) {
            let again = PrivateKey::from_pem(&key.to_pem()).expect("what we write we read");
            assert_eq!(again.public_key(), key.public_key());
        }
    }
});
