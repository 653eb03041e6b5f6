//! Reads files of bodies, with any bytes and in any pieces, without a panic. A body is put only
//! into a line that commits to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_core::record::RecordId;
use threadseal_formats::transcript::bodies::{BodiesReader, Restorer, commitments};

fuzz_target!(|input: (Vec<u8>, Vec<u8>, u8)| {
    let (file, line, piece) = input;
    let mut whole = BodiesReader::new();
    whole.push(&file);
    let whole = whole.finish();
    let mut pieces = BodiesReader::new();
    for chunk in file.chunks(usize::from(piece).max(1)) {
        pieces.push(chunk);
    }
    assert_eq!(whole.is_torn(), pieces.finish().is_torn());
    let mut restorer = Restorer::new(&RecordId::from_bytes([7; 32]), &file);
    restorer.note(&line);
    let restored = restorer.restore(&line);
    if commitments(&line).is_ok_and(|found| found.is_empty()) {
        assert_eq!(&*restored, &line[..]);
    }
});
