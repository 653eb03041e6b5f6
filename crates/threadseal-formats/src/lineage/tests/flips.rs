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
    let header = genesis(1, &writer(1, 2, 3), &state());
    let made = Made::native(header, 2, &state());
    assert_eq!(made.whole().hash, made.hash);
    for (what, changed) in changes(&made.file, HEADER_LENGTH) {
        assert!(WholeLink::read(&changed).is_err(), "{what}");
    }
}

// T-LIN-01
#[test]
fn every_flip_and_cut_of_a_file_of_v4_is_refused_as_what_it_was() {
    let made = Made::igor(original(None), 2, &state());
    assert_eq!(made.whole().hash, made.hash);
    let before = Authority::Original {
        key: key(2),
        epoch: 1,
    };
    for (what, changed) in changes(&made.file, 209) {
        // With another version byte the rest reads as an unsigned checkpoint, and nothing claims to
        // protect it. A verifier that knows the agent's key refuses it as a downgrade.
        if let Ok(link) = WholeLink::read(&changed) {
            let unsigned = !link.header.version.is_signed();
            assert!(unsigned && matches!(changed[0], 2 | 3), "{what}");
            let refused = before.after(&link.link());
            assert_eq!(refused, Err(Refusal::Downgrade), "{what}");
        }
    }
}
