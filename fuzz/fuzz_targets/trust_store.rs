//! A trust store that is read is written as the same store. Every error is one line with its place.
//! No key file vouches for itself in another owner's folder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::key::PrivateKey;
use threadseal_core::trust::TrustStore;
use threadseal_core::trust::rye::{SignatureLine, TrustSet, parse_trusted_key};

fn read_store(text: &str) {
    match TrustStore::parse(text) {
        Ok(store) => {
            let written = store.to_toml();
            let again = TrustStore::parse(&written).expect("we read what we write");
            assert_eq!(again, store);
            assert_eq!(again.to_toml(), written);
            assert_eq!(again.digest(), store.digest());
            for entry in store.iter() {
                assert!(store.by_key(&entry.key).any(|other| other == entry));
                assert_eq!(store.by_key_id(entry.key.key_id()), Some(entry.key));
                let fingerprint = entry.key.rye_fingerprint();
                assert!(store.by_fingerprint(fingerprint).contains(&entry.key));
            }
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("trust store, line ") && !message.contains('\n'));
        }
    }
}

fn read_key_file(bytes: &[u8]) {
    let Ok(file) = parse_trusted_key(bytes) else {
        return;
    };
    let name = format!("{}.toml", file.fingerprint);
    let stranger = PrivateKey::from_seed([0x5e; 32]).public_key().to_pem();
    let files = [(name.as_str(), bytes)];
    let set = TrustSet::load(Some(&stranger), &files).expect("the stranger's key is good");
    assert!(set.keys().is_empty() && set.refused().len() == 1);
    let set = TrustSet::load(None, &files).expect("no key was given");
    assert_eq!(set.keys().len(), usize::from(file.is_signed_by(&file.key)));
    set.to_store().expect("one key makes a store");
}

fuzz_target!(|bytes: &[u8]| {
    read_key_file(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        read_store(text);
        let _ = SignatureLine::parse(text);
    }
});
