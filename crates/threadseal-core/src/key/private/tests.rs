//! Private keys: their files, against RFC 8410 and OpenSSL, and refused input.

use super::*;
use crate::error::ErrorKind;
use std::io::Write as _;
use std::process::{Command, Stdio};

const SEED: [u8; 32] = [
    0xd4, 0xee, 0x72, 0xdb, 0xf9, 0x13, 0x58, 0x4a, 0xd5, 0xb6, 0xd8, 0xf1, 0xf7, 0x69, 0xf8, 0xad,
    0x3a, 0xfe, 0x7c, 0x28, 0xcb, 0xf1, 0xd4, 0xfb, 0xe0, 0x97, 0xa8, 0x8f, 0x44, 0x75, 0x58, 0x42,
];
/// RFC 8410 §10.3: the same key as v1, and as v2 with attributes and the public half.
const V1: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
const V2: &str = "-----BEGIN PRIVATE KEY-----\nMHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\noB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\nZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PRIVATE KEY-----\n";

/// The output of `openssl`, or `None` where it is not installed.
fn openssl(arguments: &[&str], input: &str) -> Option<String> {
    let child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: openssl is not installed");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {problem}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn both_versions_of_rfc_8410_are_read_and_the_first_is_written() {
    for pem in [V1, V2, &V1.replace('\n', "\r\n")] {
        let key = PrivateKey::from_pem(pem).unwrap();
        assert_eq!(key.public_key(), PrivateKey::from_seed(SEED).public_key());
        assert_eq!(*key.to_pem(), V1);
    }
    assert_eq!(V1.len(), 119);
}

#[test]
fn a_public_half_of_another_key_is_refused() {
    let other = V2.replace("SEAGb9E", "SEAGb9F");
    let error = PrivateKey::from_pem(&other).unwrap_err();
    assert!(error.to_string().contains("public half"), "{error}");
}

#[test]
fn what_is_not_an_unencrypted_ed25519_key_is_refused() {
    for bad in [
        "",
        "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
        &V1.replace("PRIVATE", "EC PRIVATE"),
        &V1.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
        // X25519 instead of Ed25519; a key of 31 bytes; a cut file; v1 with a public half.
        &V1.replace("K2Vw", "K2Vu"),
        &V1.replace("BCIEINT", "BCIEHtT"),
        &V1.replace("dVhC", ""),
        &V2.replace("MHICAQE", "MHICAQA"),
        &V1.replace("MC4", "MC5"),
        &"x".repeat(MAX_KEY_FILE_BYTES + 1),
    ] {
        let shown: String = bad.chars().take(80).collect();
        let error = PrivateKey::from_pem(bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key, "{shown}");
    }
}

#[test]
fn debug_shows_nothing_secret() {
    let key = PrivateKey::from_seed(SEED);
    let shown = format!("{key:?}");
    assert!(shown.contains(&key.public_key().to_hex()));
    assert!(!shown.contains(&encoding::hex(&SEED)[..8]) && !shown.contains("212, 238"));
}

#[test]
fn openssl_writes_the_same_files_and_signs_the_same() {
    let Some(theirs) = openssl(&["genpkey", "-algorithm", "ed25519"], "") else {
        return;
    };
    let key = PrivateKey::from_pem(&theirs).unwrap();
    assert_eq!(*key.to_pem(), theirs);
    let public = openssl(&["pkey", "-pubout"], &theirs).unwrap();
    assert_eq!(key.public_key().to_pem(), public);
    assert_eq!(*openssl(&["pkey"], &key.to_pem()).unwrap(), *theirs);
}

#[test]
fn openssl_opens_our_encrypted_file_and_we_open_its() {
    let key = PrivateKey::from_seed(SEED);
    let ours = key
        .to_encrypted_pem(b"correct horse", [1; 16], [2; 16])
        .unwrap();
    let Some(opened) = openssl(&["pkey", "-passin", "pass:correct horse"], &ours) else {
        return;
    };
    assert_eq!(opened, V1);
    let topk8 = ["pkcs8", "-topk8", "-passout", "pass:correct horse"];
    for options in [
        &["-scrypt"][..],
        &["-v2", "aes-256-cbc"],
        &[
            "-v2",
            "aes-128-cbc",
            "-v2prf",
            "hmacWithSHA512",
            "-iter",
            "10000",
        ],
        &[],
    ] {
        let theirs = openssl(&[&topk8[..], options].concat(), V1).unwrap();
        let read = PrivateKey::from_encrypted_pem(&theirs, b"correct horse").unwrap();
        assert_eq!(*read.to_pem(), V1, "{options:?}");
    }
}

#[test]
fn an_encrypted_file_opens_with_its_passphrase_only() {
    let key = PrivateKey::from_seed(SEED);
    let pem = key
        .to_encrypted_pem("pässword".as_bytes(), [1; 16], [2; 16])
        .unwrap();
    assert!(PrivateKey::is_encrypted_pem(&pem) && !PrivateKey::is_encrypted_pem(V1));
    let opened = PrivateKey::from_encrypted_pem(&pem, "pässword".as_bytes()).unwrap();
    assert_eq!(*opened.to_pem(), V1);
    for (pem, passphrase) in [
        (pem.as_str(), "password"),
        (pem.as_str(), ""),
        (V1, "pässword"),
    ] {
        let error = PrivateKey::from_encrypted_pem(pem, passphrase.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
    }
    let error = PrivateKey::from_pem(&pem).unwrap_err();
    assert!(error.to_string().contains("passphrase"), "{error}");
    let empty = key.to_encrypted_pem(b"", [1; 16], [2; 16]).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::InvalidInput);
    let long = [b'x'; crate::limits::MAX_PASSPHRASE_BYTES + 1];
    let error = key.to_encrypted_pem(&long, [1; 16], [2; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

// T-CMD-13
#[test]
fn a_file_that_asks_for_too_much_is_refused_before_the_work() {
    use pkcs8::der::{Encode as _, asn1::OctetStringRef};
    use pkcs8::pkcs5::pbes2::{
        EncryptionScheme, Kdf, Parameters, Pbkdf2Params, Salt, ScryptParams,
    };
    let scrypt = |cost_parameter, block_size, parallelization| {
        Kdf::Scrypt(ScryptParams {
            salt: Salt::new([0; 8]).unwrap(),
            cost_parameter,
            block_size,
            parallelization,
            key_length: None,
        })
    };
    let pbkdf2 = |count| Kdf::Pbkdf2(Pbkdf2Params::hmac_sha256(count, &[0; 8]).unwrap());
    for (kdf, kind) in [
        (scrypt(1 << 40, 8, 1), ErrorKind::Limit),
        (scrypt(1 << 19, 8, 1), ErrorKind::Limit),
        (scrypt(1 << 63, u16::MAX, u16::MAX), ErrorKind::Limit),
        (scrypt(1 << 14, 8, 1000), ErrorKind::Limit),
        (scrypt(2, 8000, 1000), ErrorKind::Limit),
        (pbkdf2(2_000_001), ErrorKind::Limit),
        (scrypt(0, 8, 1), ErrorKind::Key),
        (scrypt(1, 8, 1), ErrorKind::Key),
        (scrypt(3, 8, 1), ErrorKind::Key),
        (scrypt(u64::MAX, 8, 1), ErrorKind::Key),
        (scrypt(16, 0, 1), ErrorKind::Key),
        (scrypt(16, 8, 0), ErrorKind::Key),
        (pbkdf2(0), ErrorKind::Key),
        (scrypt(16, 8, 1), ErrorKind::Key),
    ] {
        let encryption = EncryptionScheme::Aes256Cbc { iv: [0; 16] };
        let info = pkcs8::EncryptedPrivateKeyInfoRef {
            encryption_algorithm: Parameters {
                kdf: kdf.clone(),
                encryption,
            }
            .into(),
            encrypted_data: OctetStringRef::new(&[0; 64]).unwrap(),
        };
        let pem = write_pem(ENCRYPTED_LABEL, &info.to_der().unwrap());
        let error = PrivateKey::from_encrypted_pem(&pem, b"x").unwrap_err();
        assert_eq!(error.kind(), kind, "{kdf:?}: {error}");
    }
}

#[test]
fn igors_identity_file_is_read_whole_or_not_at_all() {
    let key = PrivateKey::from_seed(SEED);
    let file = [&IGOR_PREFIX[..], &SEED, key.public_key().as_bytes()].concat();
    let read = PrivateKey::from_igor_identity(&file).unwrap();
    assert_eq!(read.public_key(), key.public_key());
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 1;
        assert!(PrivateKey::from_igor_identity(&bad).is_err(), "byte {at}");
        assert!(
            PrivateKey::from_igor_identity(&file[..at]).is_err(),
            "cut at {at}"
        );
    }
    assert!(PrivateKey::from_igor_identity(&[&file[..], &[0]].concat()).is_err());
}
