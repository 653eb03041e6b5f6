//! Which container the turns of a file are in (`spec/scroll.md` §7), by its beginning.

use super::split::{Container, Splitter};
use memchr::memmem;
use threadseal_core::canon::json;

/// So many bytes of a file decide.
const HEAD_BYTES: usize = 64 << 10;
/// So many pieces of them are looked at.
const LOOKED_AT: usize = 64;
/// The hash of a turn in deterministic CBOR.
const CBOR_HASH: &[u8] = b"dhashxGsha256:";
/// Members of a turn, as deterministic CBOR spells them.
const CBOR_MARKS: [&[u8]; 6] = [
    b"ltimestamp_ns",
    b"gversion",
    b"hmessages",
    b"fparams",
    b"emodel",
    CBOR_HASH,
];
/// So many of them make a turn: other files have some of these members, too.
const LEAST_MARKS: usize = 5;

/// How the turns are in a file that begins so. One in CBOR stays a sequence where its first byte is
/// another one.
pub fn container_of(file: &[u8]) -> Container {
    let is_blank = |byte: &u8| b" \t\n\r".contains(byte);
    let container = match file.iter().find(|byte| !is_blank(byte)) {
        Some(0xa0..=0xbf) => return Container::Sequence,
        Some(b'{') => Container::Lines,
        _ => Container::Array,
    };
    match has_marks_of_cbor(file) && !has_an_object(file, container) {
        true => Container::Sequence,
        false => container,
    }
}

/// Does a file that begins so have marks of turns in CBOR, and bytes that no text has?
pub fn has_marks_of_cbor(file: &[u8]) -> bool {
    let head = file.get(..HEAD_BYTES).unwrap_or(file);
    let has = |mark: &&&[u8]| memmem::find(head, mark).is_some();
    let is_map = matches!(head.trim_ascii_start().first(), Some(0xa0..=0xbb));
    let is_binary = head.iter().any(is_of_no_text);
    let marked = || CBOR_MARKS.iter().filter(has).count() >= LEAST_MARKS;
    ((is_map || is_binary) && has(&&CBOR_HASH)) || (is_binary && marked())
}

fn is_of_no_text(byte: &u8) -> bool {
    *byte < b' ' && !b"\t\n\r".contains(byte)
}

/// Is one of its first pieces an object in JSON?
fn has_an_object(file: &[u8], container: Container) -> bool {
    let (mut seen, mut found) = (0, false);
    let mut splitter = Splitter::new(container);
    let mut each = |piece: &[u8], _| {
        seen += 1;
        found |= seen <= LOOKED_AT && json::scan_object(piece, |_, _| {}).is_ok();
    };
    splitter.push(file, &mut each);
    splitter.finish(&mut each);
    found
}
