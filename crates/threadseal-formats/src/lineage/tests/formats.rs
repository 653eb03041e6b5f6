//! The valid contents of a header, and the refusal of others.

use super::*;

fn v3() -> CheckpointHeader {
    CheckpointHeader {
        version: Version::V3,
        ..original(None)
    }
}

fn sealed() -> SealedHeader {
    let mut header = genesis(1, &writer(1, 2, 3), b"state");
    part(&mut header).manifest = Some(Digest::of(b"manifest"));
    part(&mut header).parent = Some(ContentHash::of(b"parent"));
    seal_native(header, &native(2)).unwrap()
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
    let edits: [(&str, fn(&mut CheckpointHeader)); 5] = [
        ("too much", |header| header.signer = Some([1; 32])),
        ("no key, no signature", |header| {
            header.version = Version::V4;
        }),
        ("no agent", |header| header.version = Version::V5),
        ("not written", |header| header.version = Version::V2),
        ("negative", |header| header.budget = -1),
    ];
    for (what, edit) in edits {
        let mut header = v3();
        assert!(header.encode().is_ok());
        edit(&mut header);
        assert!(header.encode().is_err(), "{what}");
    }
}

#[test]
fn the_originals_refusals_have_its_words_and_order() {
    let file = v3().encode().unwrap();
    let mut price = file.clone();
    price[16] = 0x80;
    let mut budget = price.clone();
    budget[8] = 0xff;
    let lowest = 1_000_000 + i64::MIN;
    for (file, words) in [
        (&b""[..], "checkpoint empty"),
        (b"\x01", "unsupported checkpoint version: 1"),
        (
            &[&[5], &file[1..]].concat(),
            "unsupported checkpoint version: 5",
        ),
        (&[4], "checkpoint too short: 1 bytes (need 209)"),
        (&file[..80], "checkpoint too short: 80 bytes (need 81)"),
        (&[5], "checkpoint too short: 1 bytes (need 624)"),
        (
            &price,
            &format!("checkpoint contains negative price: {lowest}"),
        ),
    ] {
        let error = CheckpointHeader::parse(file).unwrap_err();
        assert_eq!(error.to_string(), words);
    }
    let error = CheckpointHeader::parse(&budget).unwrap_err().to_string();
    assert!(error.starts_with("checkpoint contains negative budget: -"));
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
    let header = genesis(1, &writer(1, 1, 0), b"");
    let bytes = Made::native(header, 1, b"").file;
    for at in [80, 480, 488, 496, 559] {
        let mut changed = bytes.clone();
        changed[at] = 1;
        assert!(CheckpointHeader::parse(&changed).is_err(), "{at}");
    }
}

#[test]
fn a_link_that_moves_authority_has_the_state_of_its_kind() {
    let mut header = sealed().header;
    let mut encodes = |edit: &dyn Fn(&mut NativeHeader)| {
        edit(part(&mut header));
        header.encode().is_ok()
    };
    let state = StateSeal::of(&[1; 32], MediaType::parse(LINK_MEDIA_TYPE).unwrap());
    // The state of a checkpoint.
    assert!(!encodes(&|part| part.kind = LinkKind::Accept));
    assert!(encodes(&|part| part.state = state.clone()));
    assert!(!encodes(&|part| part.state.length = 33));
    // A checkpoint that looks like a link.
    assert!(!encodes(&|part| {
        (part.kind, part.state) = (LinkKind::Checkpoint, state.clone());
    }));
}

#[test]
fn a_media_type_has_two_parts_in_lower_case() {
    for good in ["a/b", "application/json", "application/vnd.x+json"] {
        assert!(MediaType::parse(good).is_ok(), "{good}");
    }
    let long = "a/".repeat(16);
    for bad in [
        "", "a", "/b", "a/", "A/b", "a/b/c", "a/b c", "a/é", ".a/b", &long,
    ] {
        assert!(MediaType::parse(bad).is_err(), "{bad}");
    }
}

// T-LIN-08
#[test]
fn nobody_signs_a_link_under_a_delegation_that_does_not_hold() {
    let good = writer(1, 2, 3);
    let late = Writer {
        time: NOW + 1001,
        ..writer(1, 2, 3)
    };
    let bare = Writer {
        certificate: None,
        ..writer(1, 2, 3)
    };
    for (what, writer, signer) in [
        ("late", &late, native(2)),
        ("of another root", &writer(9, 2, 3), native(2)),
        ("none", &bare, native(2)),
        ("another signer", &good, native(3)),
        ("another usage", &good, igor(2)),
    ] {
        let sealed = seal_native(genesis(1, writer, b""), &signer);
        assert!(sealed.is_err(), "{what}");
    }
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
