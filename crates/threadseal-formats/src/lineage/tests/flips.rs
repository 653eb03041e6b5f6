//! Every change in a signed file is detected: each bit of a header, each byte of a state, each cut.

use super::*;

fn state() -> Vec<u8> {
    (0..1024_u32)
        .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
        .collect()
}

/// Every file that differs from `file` in one bit of its header, one byte of its state, or its end.
fn changes(file: &[u8], header: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    let flip = |at: usize, bits: u8| {
        let mut changed = file.to_vec();
        changed[at] ^= bits;
        (format!("byte {at} ^ {bits:02x}"), changed)
    };
    let bits = (0..header).flat_map(move |at| (0..8).map(move |bit| (at, 1 << bit)));
    let bytes = (header..file.len()).flat_map(|at| [(at, 1), (at, 0x80), (at, 0xff)]);
    let cuts = (0..file.len()).map(|length| (format!("cut to {length}"), file[..length].to_vec()));
    let longer = ("one more".to_owned(), [file, &[0]].concat());
    bits.chain(bytes)
        .map(move |(at, bits)| flip(at, bits))
        .chain(cuts)
        .chain([longer])
}

/// Most of the 2,900 files are refused before a signature is checked; the rest cost one check each.
// T-LIN-01
#[test]
fn every_flip_and_cut_of_a_file_of_v5_is_refused() {
    let writer = writer(1, 2, 3);
    let sealed = seal_native(genesis(1, &writer, &state()), &native(2)).unwrap();
    let file = [sealed.bytes.as_slice(), &state()].concat();
    assert_eq!(WholeLink::read(&file).unwrap().hash, sealed.hash);
    for (what, changed) in changes(&file, HEADER_LENGTH) {
        assert!(WholeLink::read(&changed).is_err(), "{what}");
    }
}

// T-LIN-01
#[test]
fn every_flip_and_cut_of_a_file_of_v4_is_refused_as_what_it_was() {
    let sealed = seal_original(original(None), &state(), &igor(2)).unwrap();
    let file = [sealed.bytes.as_slice(), &state()].concat();
    assert_eq!(WholeLink::read(&file).unwrap().hash, sealed.hash);
    for (what, changed) in changes(&file, 209) {
        // With another version byte the rest reads as an unsigned checkpoint, and nothing claims to
        // protect it. A verifier that knows the agent's key refuses it as a downgrade.
        let read = WholeLink::read(&changed);
        let unsigned = read
            .as_ref()
            .is_ok_and(|link| !link.header.version.is_signed());
        assert!(
            read.is_err() || unsigned && matches!(changed[0], 2 | 3),
            "{what}"
        );
        if let Ok(link) = read {
            let before = Authority::Original {
                key: key(2),
                epoch: 1,
            };
            assert_eq!(
                before.after(&link.link()),
                Err(Refusal::Downgrade),
                "{what}"
            );
        }
    }
}
