//! Public keys and signatures: RFC 8032, small orders, one spelling for each text.

use super::*;
use crate::testing::key;
use proptest::prelude::*;

/// RFC 8032 §7.1, test 1.
const SEED_1: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC_1: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const SIGNATURE_1: &str = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";

#[test]
fn the_first_vector_of_rfc_8032_holds() {
    let private = PrivateKey::from_seed(encoding::parse_hex_array(SEED_1).unwrap());
    assert_eq!(private.public_key().to_hex(), PUBLIC_1);
    let signature = private.sign_bytes(b"");
    assert_eq!(encoding::hex(signature.as_bytes()), SIGNATURE_1);
    assert_eq!(private.public_key().verify(b"", &signature), Ok(()));
    let other = private.public_key().verify(b"x", &signature);
    assert_eq!(other, Err(SignatureError));
}

// T-KEY-10
#[test]
fn points_of_small_order_never_become_keys() {
    // The eight points of order 1, 2, 4 and 8, and their non-canonical spellings.
    for hex in [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ] {
        assert!(PublicKey::from_hex(hex).is_err(), "{hex}");
    }
}

#[test]
fn the_points_of_small_order_are_the_eight_that_there_are() {
    let weak = |bytes: [u8; 32]| {
        ed25519_dalek::VerifyingKey::from_bytes(&bytes).is_ok_and(|key| key.is_weak())
    };
    let mut points = Vec::new();
    for y in SMALL_ORDER_YS {
        for sign in [0, 0x80] {
            let mut bytes = *y;
            bytes[31] |= sign;
            assert!(weak(bytes), "{bytes:02x?}");
            let signature = Signature::from_slice(&[bytes, [9; 32]].concat()).unwrap();
            assert!(signature.has_small_order());
            points.push(bytes);
        }
    }
    // With x = 0 (order 1 and 2) the sign has no meaning: ten spellings of eight points.
    points.sort_unstable();
    points.dedup();
    assert_eq!(points.len(), 10);
    let good = PrivateKey::from_seed([1; 32]).sign_bytes(b"m");
    assert!(!good.has_small_order());
}

// T-KEY-10
#[test]
fn a_second_spelling_of_a_good_point_is_refused() {
    // y = p + c encodes the point of y = c: the first c below 19 with a point of large order.
    let mut seen = 0;
    for low in 0u8..19 {
        let mut canonical = [0; 32];
        canonical[0] = low;
        let mut other = [0xff; 32];
        other[0] = 0xed + low;
        other[31] = 0x7f;
        seen += usize::from(PublicKey::from_bytes(&canonical).is_ok());
        assert!(PublicKey::from_bytes(&other).is_err(), "{low}");
    }
    assert!(seen > 0);
}

// T-KEY-10 T-RYE-20
#[test]
fn a_signature_with_a_second_spelling_of_s_is_refused() {
    // S + L, the malleated signature; L is the order of the base point.
    let order = encoding::parse_hex_array::<32>(
        "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
    )
    .unwrap();
    let private = PrivateKey::from_seed([7; 32]);
    let mut bytes = *private.sign_bytes(b"m").as_bytes();
    let mut carry = 0u16;
    for (byte, add) in bytes[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        [*byte, _] = sum.to_le_bytes();
        carry = sum >> 8;
    }
    let malleated = Signature::from_bytes(bytes);
    let verified = private.public_key().verify(b"m", &malleated);
    assert_eq!(verified, Err(SignatureError));
}

#[test]
fn public_keys_have_one_spelling_per_text() {
    let key = key(1);
    assert_eq!(key.to_pem().len(), 113);
    assert_eq!(key.to_did_key().len(), 56);
    assert!(key.to_did_key().starts_with("did:key:z6Mk"));
    let (pem, did, hex) = (key.to_pem(), key.to_did_key(), key.to_hex());
    for good in [
        pem.clone(),
        did.clone(),
        hex.clone(),
        format!("\n {hex}\r\n"),
        format!(" {did}\n"),
        pem.replace('\n', "\r\n"),
        pem.trim().to_owned(),
    ] {
        assert_eq!(PublicKey::parse_any(&good), Ok(key), "{good:?}");
    }
    for bad in [
        String::new(),
        hex.to_uppercase(),
        hex[1..].to_owned(),
        format!("0x{hex}"),
        did.replace("did:key:z", "did:key:Z"),
        did.replace("did:key:z6", "did:key:z16"),
        did[..55].to_owned(),
        did.replace("6Mk", "6LS"),
        format!("{did}#{}", &did[8..]),
        pem.replace("PUBLIC", "EC PUBLIC"),
        pem.replace("MCow", "MCox"),
        pem.replace("MCow", "MC\now"),
        pem.replace("MCow", "MC ow"),
        pem.replace("=\n", "\n"),
        format!("{pem}{pem}"),
        format!("comment\n{pem}"),
        PrivateKey::from_seed([1; 32]).to_pem().to_string(),
    ] {
        assert!(PublicKey::parse_any(&bad).is_err(), "{bad:?}");
    }
    assert!(PublicKey::parse_any([0xff; 32]).is_err());
}

#[test]
fn ryes_fingerprint_is_over_the_stripped_text() {
    // A key made by Rye, and Rye's name for it.
    let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA4+7g60fmacFsnPp8adT2g5YobpLH5wepeIPY/6G53H4=\n-----END PUBLIC KEY-----\n";
    let key = PublicKey::from_pem(pem).unwrap();
    assert_eq!(key.to_pem(), pem);
    let fingerprint = key.rye_fingerprint();
    assert_eq!(fingerprint.to_hex(), "3ef44d1ee334ace7");
    let padded = format!("\n {pem}\n\n");
    assert_eq!(RyeFingerprint::of_pem(&padded), fingerprint);
    let read = RyeFingerprint::parse_hex("3ef44d1ee334ace7");
    assert_eq!(read, Some(fingerprint));
    assert_eq!(RyeFingerprint::parse_hex("3EF44D1EE334ACE7"), None);
}

#[test]
fn the_key_id_is_the_digest_of_the_raw_key() {
    let (key, id) = (key(1), key(1).key_id());
    assert_eq!(id.digest(), Digest::of(key.as_bytes()));
    assert_eq!(KeyId::parse_hex(&id.to_string()), Some(id));
}

proptest! {
    #[test]
    fn every_key_comes_back_from_every_text(seed in any::<[u8; 32]>()) {
        let private = PrivateKey::from_seed(seed);
        let key = private.public_key();
        for text in [key.to_pem(), key.to_hex(), key.to_did_key()] {
            prop_assert_eq!(PublicKey::parse_any(&text), Ok(*key));
        }
        let again = PrivateKey::from_pem(&private.to_pem()).unwrap();
        prop_assert_eq!(again.public_key(), key);
    }

    #[test]
    fn strict_verification_answers_as_dalek_does(
        seed in any::<[u8; 32]>(), message in any::<Vec<u8>>(), at in 0_usize..64, flip in any::<u8>(),
        r in 0..SMALL_ORDER_YS.len(), high in any::<bool>(),
    ) {
        let private = PrivateKey::from_seed(seed);
        let key = private.public_key();
        let good = *private.sign_bytes(&message).as_bytes();
        let mut changed = good;
        changed[at] ^= flip;
        let mut small = good;
        small[..32].copy_from_slice(SMALL_ORDER_YS[r]);
        small[31] |= u8::from(high) << 7;
        for bytes in [good, changed, small] {
            let theirs = ed25519_dalek::Signature::from_bytes(&bytes);
            let ours = key.verify(&message, &Signature::from_bytes(bytes));
            prop_assert_eq!(ours.is_ok(), key.0.verify_strict(&message, &theirs).is_ok());
        }
    }

    #[test]
    fn whatever_did_key_is_accepted_is_written_as_it_was_read(text in "did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}") {
        if let Ok(key) = PublicKey::from_did_key(&text) {
            prop_assert_eq!(key.to_did_key(), text);
        }
    }

    #[test]
    fn reading_any_text_never_panics(text in any::<Vec<u8>>()) {
        let _ = PublicKey::parse_any(&text);
        let _ = PrivateKey::from_igor_identity(&text);
        let _ = PrivateKey::from_pem(&String::from_utf8_lossy(&text));
    }
}
