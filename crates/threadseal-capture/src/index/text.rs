//! The text of a turn: what `search` looks for and `show` prints.

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Read as _;
use threadseal_core::digest::Digest;
use threadseal_reader::words::{MAX_TURN_TEXT_BYTES, TurnText};

/// A shorter text is not compressed.
const MIN_PACKED_BYTES: usize = 256;

/// What distinguishes the text of a turn from any other.
pub(super) fn digest_of(turn: &TurnText) -> Vec<u8> {
    let role = turn.role.as_bytes();
    Digest::tagged("threadseal/1 indexed turn", &[role, turn.text.as_bytes()])
        .as_bytes()
        .to_vec()
}

/// A text as it is stored: `0` and the text, or `1` and the compressed text.
pub(super) fn pack(text: &str) -> Vec<u8> {
    if text.len() >= MIN_PACKED_BYTES {
        let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        if packed.len() < text.len() {
            return [&[1], packed.as_slice()].concat();
        }
    }
    [&[0], text.as_bytes()].concat()
}

/// The text that [`pack`] stored; empty if it is damaged.
pub(super) fn unpack(stored: &[u8]) -> String {
    let bytes = match stored.split_first() {
        Some((1, packed)) => {
            let mut bytes = Vec::new();
            let most = MAX_TURN_TEXT_BYTES as u64;
            let read = StreamingDecoder::new(packed)
                .map(|decoder| decoder.take(most).read_to_end(&mut bytes));
            match read {
                Ok(Ok(_)) => bytes,
                _ => Vec::new(),
            }
        }
        Some((_, text)) => text.to_vec(),
        None => Vec::new(),
    };
    String::from_utf8_lossy(&bytes).into_owned()
}
