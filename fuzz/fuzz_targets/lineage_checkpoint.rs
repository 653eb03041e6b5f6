//! Checkpoints of all versions.
//!
//! * A parsed header is written back unchanged.
//! * A signature checked in pieces gives the same answer as one checked at once. Both give the file
//!   the same name.
//! * A link that holds does not hold with any byte changed, unless the change leaves it unsigned.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_formats::lineage::{
    Authority, CheckpointHeader, ContentHash, Delegation, LinkBody, LinkKind, OriginalVerifier,
    Version, WholeLink, verify_original,
};

fuzz_target!(|data: &[u8]| {
    header(data);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(delegation) = Delegation::parse(text) {
            assert_eq!(delegation.to_text(), text);
        }
        if let Some(hash) = ContentHash::parse(text) {
            assert!(hash.to_hex() == text || hash.to_cid() == text);
        }
    }
    for kind in LinkKind::ALL {
        if let Ok(body) = LinkBody::parse(kind, data) {
            assert_eq!((body.kind(), body.encode()), (kind, data.to_vec()));
        }
    }
    if let [high, low, flip, file @ ..] = data {
        changed(usize::from(*high) << 8 | usize::from(*low), *flip, file);
    }
});

fn header(file: &[u8]) {
    let Ok(header) = CheckpointHeader::parse(file) else {
        assert!(WholeLink::read(file).is_err());
        return;
    };
    let length = header.version.header_length();
    if header.version != Version::V2 {
        assert_eq!(header.encode().expect("it was read"), file[..length]);
    }
    if header.version == Version::V4 {
        let mut verifier = OriginalVerifier::new(&header).expect("of v0x04");
        file[length..].chunks(1 + file.len() % 61).for_each(|piece| verifier.update(piece));
        let (held, hash) = verifier.finish();
        assert_eq!(held, verify_original(file));
        assert_eq!(hash, ContentHash::of(file));
    }
    if let Ok(link) = WholeLink::read(file) {
        for before in [Authority::Nobody, Authority::Unknown] {
            let _ = before.after(&link.link());
        }
    }
}

fn changed(at: usize, flip: u8, file: &[u8]) {
    if flip == 0 || !WholeLink::read(file).is_ok_and(|link| link.header.version.is_signed()) {
        return;
    }
    let mut file = file.to_vec();
    let at = at % file.len();
    file[at] ^= flip;
    let signed = WholeLink::read(&file).is_ok_and(|link| link.header.version.is_signed());
    assert!(!signed, "byte {at} ^ {flip:02x}");
}
