//! The fingerprint of an identity in words, for people who compare it by voice.
//!
//! The words are the English list of BIP-39, 2,048 words that differ in their first four letters.
//! Twelve of them are the first 132 bits of the id.

use crate::digest::Digest;

/// The list, one word a line, in its own order.
const LIST: &str = include_str!("words.txt");
const BITS: usize = 11;
const WORDS: usize = 12;

/// The twelve words of an id.
pub(super) fn of(id: &Digest) -> [&'static str; WORDS] {
    let list: Vec<&'static str> = LIST.lines().collect();
    let bytes = id.as_bytes();
    let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    std::array::from_fn(|word| {
        let from = word * BITS;
        let index = (from..from + BITS).fold(0, |index, at| index << 1 | usize::from(bit(at)));
        list.get(index).copied().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding;

    #[test]
    fn the_list_is_that_of_bip_39() {
        assert_eq!(LIST.lines().count(), 1 << BITS);
        assert_eq!(
            Digest::of(LIST.as_bytes()).to_hex(),
            "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
        );
    }

    /// The first eleven words of BIP-39's own vectors for 128 bits are those of the same bits; the
    /// twelfth has four bits of a checksum there, and of the id here.
    #[test]
    fn the_words_are_those_of_the_vectors_of_bip_39() {
        for (bits, words) in [
            ("00", ["abandon"; 11]),
            (
                "7f",
                [
                    "legal", "winner", "thank", "year", "wave", "sausage", "worth", "useful",
                    "legal", "winner", "thank",
                ],
            ),
            ("ff", ["zoo"; 11]),
        ] {
            let id = Digest::parse_hex(&bits.repeat(32)).unwrap();
            assert_eq!(of(&id)[..11], words, "{}", encoding::hex(id.as_bytes()));
        }
    }
}
