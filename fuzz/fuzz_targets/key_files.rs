//! Every accepted key is written back as the same key, in every form, as text and as DER.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::encoding::base64;
use threadseal_core::key::{PrivateKey, PublicKey};

const PASSPHRASE: &[u8] = b"correct horse battery staple";

fn check(key: &PrivateKey) {
    let pem = key.to_pem();
    let again = PrivateKey::from_pem(&pem).expect("we read what we write");
    assert_eq!(again.public_key(), key.public_key());
    assert_eq!(*again.to_pem(), *pem);
}

fn read_text(text: &str) {
    if let Ok(key) = PublicKey::parse_any(text) {
        assert_eq!(PublicKey::from_bytes(key.as_bytes()), Ok(key));
        let spellings = [key.to_pem(), key.to_hex(), key.to_did_key()];
        for spelling in &spellings {
            assert_eq!(PublicKey::parse_any(spelling), Ok(key));
        }
        let text = text.replace("\r\n", "\n");
        assert!(
            spellings
                .iter()
                .any(|spelling| spelling.trim() == text.trim())
        );
    }
    let plain = PrivateKey::from_pem(text);
    let encrypted = PrivateKey::from_encrypted_pem(text, PASSPHRASE);
    assert!(plain.is_err() || encrypted.is_err());
    plain.iter().chain(&encrypted).for_each(check);
}

/// Lets the fuzzer change bytes of DER rather than letters of base64.
fn wrap(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    let letters = base64(der);
    for line in letters.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        read_text(text);
    }
    for label in ["PUBLIC KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"] {
        read_text(&wrap(label, bytes));
    }
    PrivateKey::from_igor_identity(bytes).iter().for_each(check);
});
