//! The valid contents of a header, and the refusal of others.

use super::*;

fn v3() -> CheckpointHeader {
    CheckpointHeader {
        version: Version::V3,
        ..original(None)
    }
}

fn sealed() -> SealedHeader {
    let writer = writer(1, 2, 3);
    let mut header = genesis(1, &writer, b"state");
    let native = header.native.as_mut().unwrap();
    native.manifest = Some(Digest::of(b"manifest"));
    native.parent = Some(ContentHash::of(b"parent"));
    seal_native(header, &super::native(2)).unwrap()
}

#[test]
fn headers_come_back_from_their_bytes() {
    let signed = seal_original(original(Some(ContentHash::of(b"p"))), b"", &igor(3)).unwrap();
    assert_eq!((signed.bytes.len(), signed.bytes[0]), (209, 4));
    for header in [v3(), signed.header, sealed().header] {
        let bytes = header.encode().unwrap();
        assert_eq!(bytes.len(), header.version.header_length());
        assert_eq!(CheckpointHeader::parse(&bytes), Ok(header.clone()));
        // A state after it changes nothing.
        let file = [bytes.as_slice(), b"state"].concat();
        assert_eq!(CheckpointHeader::parse(&file), Ok(header));
    }
}

#[test]
fn what_a_version_does_not_hold_is_not_written() {
    let mut too_much = v3();
    too_much.signer = Some([1; 32]);
    assert!(too_much.encode().is_err());
    let mut too_little = original(None);
    assert!(too_little.encode().is_err(), "no key, no signature");
    too_little.version = Version::V5;
    assert!(too_little.encode().is_err(), "no agent");
    let mut old = v3();
    old.version = Version::V2;
    assert!(old.encode().is_err(), "not written");
    let mut negative = v3();
    negative.budget = -1;
    assert!(negative.encode().is_err());
}

#[test]
fn the_originals_refusals_have_its_words_and_order() {
    let refused = |file: &[u8]| CheckpointHeader::parse(file).unwrap_err().to_string();
    let file = v3().encode().unwrap();
    assert_eq!(refused(b""), "checkpoint empty");
    assert_eq!(refused(b"\x01"), "unsupported checkpoint version: 1");
    assert_eq!(
        refused(&[&[5], &file[1..]].concat()),
        "unsupported checkpoint version: 5"
    );
    assert_eq!(refused(&[4]), "checkpoint too short: 1 bytes (need 209)");
    assert_eq!(
        refused(&file[..80]),
        "checkpoint too short: 80 bytes (need 81)"
    );
    assert_eq!(refused(&[5]), "checkpoint too short: 1 bytes (need 624)");
    let mut negative = file.clone();
    negative[16] = 0x80;
    assert_eq!(
        refused(&negative),
        format!(
            "checkpoint contains negative price: {}",
            1_000_000 + i64::MIN
        )
    );
    negative[8] = 0xff;
    assert!(refused(&negative).starts_with("checkpoint contains negative budget: -"));
}

#[test]
fn v2_is_read_with_zeros_for_what_it_lacks() {
    let mut file = v3().encode().unwrap();
    file.truncate(57);
    file[0] = 2;
    let header = CheckpointHeader::parse(&file).unwrap();
    assert_eq!(header.version, Version::V2);
    assert_eq!((header.epoch, header.lease_expiry), (Epoch::default(), 0));
    assert_eq!(header.tick, 55);
    assert_eq!((header.prev, header.signer), (None, None));
}

// T-LIN-02
#[test]
fn every_value_of_v5_has_one_spelling() {
    let bytes = sealed().bytes;
    for (at, value, what) in [
        (8, 6, "kind"),
        (8, 0, "kind"),
        (9, 1, "kind"),
        (10, 1, "reserved"),
        (12, 0x71, "header length"),
        (16, 1, "prev"),
        (39, 0x80, "negative budget"),
        (47, 0x80, "negative price"),
        (71, 0x80, "lease expiry"),
        (79, 0x80, "time"),
        (80, 0, "delegation"),
        (96, 32, "state type"),
        (96, 23, "state type"),
        (97, b'A', "state type"),
        (127, 1, "state type"),
        (192, 1, "prev"),
        (352, 0, "agent name"),
        (352, 64, "agent name"),
        (353, b'/', "agent name"),
        (353, 0xff, "agent name"),
        (415, 1, "agent name"),
        (487, 0x80, "delegation"),
        (495, 0, "delegation"),
    ] {
        let mut changed = bytes.clone();
        changed[at] = value;
        let error = CheckpointHeader::parse(&changed).unwrap_err().to_string();
        assert!(error.contains(what), "{at}: {error}");
    }
    // The identity, under which one signature would fit every message, and another spelling of a
    // point.
    for at in [416, 448] {
        let mut changed = bytes.clone();
        changed[at..at + 32].fill(0);
        changed[at] = 1;
        let error = CheckpointHeader::parse(&changed).unwrap_err();
        assert!(matches!(error, HeaderError::Key { .. }), "{error}");
    }
}

#[test]
fn a_root_that_signs_itself_has_no_delegation() {
    let writer = writer(1, 1, 0);
    let bytes = seal_native(genesis(1, &writer, b""), &native(1))
        .unwrap()
        .bytes;
    for at in [80, 480, 488, 496, 559] {
        let mut changed = bytes.clone();
        changed[at] = 1;
        assert!(CheckpointHeader::parse(&changed).is_err(), "{at}");
    }
}

#[test]
fn a_link_that_moves_authority_has_the_state_of_its_kind() {
    let sealed = sealed();
    let mut header = sealed.header;
    header.native.as_mut().unwrap().kind = LinkKind::Accept;
    assert!(header.encode().is_err(), "the state of a checkpoint");
    let state = StateSeal::of(&[1; 32], MediaType::parse(LINK_MEDIA_TYPE).unwrap());
    header.native.as_mut().unwrap().state = state.clone();
    assert!(header.encode().is_ok());
    header.native.as_mut().unwrap().state.length = 33;
    assert!(header.encode().is_err());
    let native = header.native.as_mut().unwrap();
    (native.kind, native.state) = (LinkKind::Checkpoint, state);
    assert!(
        header.encode().is_err(),
        "a checkpoint that looks like a link"
    );
}

#[test]
fn a_media_type_has_two_parts_in_lower_case() {
    for good in ["a/b", "application/json", "application/vnd.x+json"] {
        assert!(MediaType::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "a",
        "/b",
        "a/",
        "A/b",
        "a/b/c",
        "a/b c",
        "a/é",
        ".a/b",
        &"a/".repeat(16),
    ] {
        assert!(MediaType::parse(bad).is_err(), "{bad}");
    }
}

// T-LIN-08
#[test]
fn nobody_signs_a_link_under_a_delegation_that_does_not_hold() {
    let signer = native(2);
    let late = Writer {
        time: NOW + 1001,
        ..writer(1, 2, 3)
    };
    assert!(seal_native(genesis(1, &late, b""), &signer).is_err());
    let of_another_root = writer(9, 2, 3);
    assert!(seal_native(genesis(1, &of_another_root, b""), &signer).is_err());
    let none = Writer {
        certificate: None,
        ..writer(1, 2, 3)
    };
    assert!(seal_native(genesis(1, &none, b""), &signer).is_err());
    assert!(seal_native(genesis(1, &writer(1, 2, 3), b""), &native(3)).is_err());
    assert!(seal_native(genesis(1, &writer(1, 2, 3), b""), &igor(2)).is_err());
}

#[test]
fn a_state_that_is_read_in_pieces_is_signed_as_one_at_hand() {
    let state = vec![7; 1000];
    let whole = seal_original(original(None), &state, &igor(3)).unwrap();
    let pieces = seal_original_reread(original(None), &state.as_slice(), &igor(3)).unwrap();
    assert_eq!(pieces, whole);
    let file = [whole.bytes.as_slice(), &state].concat();
    assert_eq!(ContentHash::of(&file), whole.hash);
    assert_eq!(verify_original(&file), Ok(()));
    assert!(seal_original(v3(), &state, &igor(3)).is_err());
    assert!(seal_original(original(None), &state, &native(3)).is_err());
}
