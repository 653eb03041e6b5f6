//! Finds where strings end, 64 bytes at a time and without a branch per byte.
//!
//! ```text
//! text        { " a \ " b " : 1 }
//! quotes        1   0     1         those that open or close a string
//! backslashes       1
//! ```
//! Bit *n* of a mask represents byte *n* of the block. A block also checks the rules that need no
//! knowledge of the grammar. Each escape is valid, surrogates come in pairs, and no string contains
//! a control character. Backslashes outside strings are treated as if they were inside. The walk
//! over the text meets them and refuses them.
//!
//! Blocks are entered in order: the block before decides whether the first byte is escaped. The
//! mathematics of [`escaped`] is that of Langdale and Lemire, "Parsing gigabytes of JSON per
//! second" (2019), §3.1.1.

use super::escape::{hex_unit, short_escape};

const BLOCK: usize = 64;

/// A cursor over the blocks of one text.
///
/// `None` from any method means that the text may be invalid. The careful reader then names the
/// fault.
pub(super) struct Blocks<'a> {
    text: &'a [u8],
    /// Offset of the current block.
    start: usize,
    /// Offset after the current block; 0 before the first.
    end: usize,
    quotes: u64,
    backslashes: u64,
    /// Whether the next block's first byte is escaped.
    escape_goes_on: bool,
    /// Whether the current block has an escape that some canonical form spells otherwise.
    respell: bool,
    /// Offset of the `u` of the low surrogate that the last high surrogate announced.
    low_surrogate: usize,
}

/// The end of a string.
#[derive(Clone, Copy)]
pub(super) struct Close {
    /// Offset of the closing quote.
    pub(super) at: usize,
    /// Whether the string has a backslash.
    pub(super) escaped: bool,
    /// Whether the string may have escapes other than `\" \\ \b \f \n \r \t`.
    pub(super) respell: bool,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            start: 0,
            end: 0,
            quotes: 0,
            backslashes: 0,
            escape_goes_on: false,
            respell: false,
            low_surrogate: 0,
        }
    }

    /// Where the string opened at `open` closes.
    #[inline(always)]
    pub(super) fn string_end(&mut self, open: usize) -> Option<Close> {
        // The walk has passed all blocks before that of `open`, and they ended outside strings.
        while open >= self.end {
            self.next(false)?;
        }
        let mut quotes = self.quotes & above(open);
        let mut backslashes = self.backslashes & above(open);
        let mut escaped = 0;
        let mut respell = self.respell;
        while quotes == 0 {
            escaped |= backslashes;
            self.next(true)?;
            quotes = self.quotes;
            backslashes = self.backslashes;
            respell |= self.respell;
        }
        let before = (quotes & quotes.wrapping_neg()) - 1;
        escaped |= backslashes & before;
        Some(Close {
            at: self.start + lowest(quotes),
            escaped: escaped != 0,
            respell: respell && escaped != 0,
        })
    }

    /// Enters the next block, whose first byte is `inside` a string or not.
    #[inline(never)]
    fn next(&mut self, inside: bool) -> Option<()> {
        let rest = self.text.get(self.end..)?;
        let mut padded = [b' '; BLOCK];
        let block = match rest.first_chunk() {
            Some(block) => block,
            None if rest.is_empty() => return None,
            None => {
                // Blanks after the end are neither quotes nor refused in a string.
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            }
        };
        self.start = self.end;
        self.end += BLOCK;
        let (quotes, backslashes, control) = classify(block);
        self.quotes = quotes;
        self.backslashes = backslashes;
        self.respell = false;
        if backslashes != 0 || self.escape_goes_on {
            let escaped = escaped(backslashes, &mut self.escape_goes_on);
            self.quotes &= !escaped;
            // Escaped quotes and backslashes, the most frequent escapes, need no check.
            self.check_escapes(escaped & !(quotes | backslashes))?;
        }
        if control && control_characters(block) & inside_strings(self.quotes, inside) != 0 {
            return None;
        }
        Some(())
    }

    /// Checks the escapes whose second byte is marked in `escaped`; it is no quote or backslash.
    #[inline]
    fn check_escapes(&mut self, mut escaped: u64) -> Option<()> {
        while escaped != 0 {
            let at = self.start + lowest(escaped);
            escaped &= escaped - 1;
            let byte = *self.text.get(at)?;
            if short_escape(byte) == 0 {
                self.respell = true;
                self.check_unicode_escape(at)?;
            }
            self.respell |= byte == b'/';
        }
        Some(())
    }

    /// Checks the Unicode escape whose `u` is at `at`.
    fn check_unicode_escape(&mut self, at: usize) -> Option<()> {
        let [b'u', digits @ ..] = self.text.get(at..at + 5)? else {
            return None;
        };
        match hex_unit(digits)? {
            0xd800..=0xdbff => {
                let [b'\\', b'u', digits @ ..] = self.text.get(at + 5..at + 11)? else {
                    return None;
                };
                self.low_surrogate = at + 6;
                matches!(hex_unit(digits)?, 0xdc00..=0xdfff).then_some(())
            }
            0xdc00..=0xdfff => (self.low_surrogate == at).then_some(()),
            _ => Some(()),
        }
    }
}

/// Bits above that of `offset` in its block.
#[inline]
fn above(offset: usize) -> u64 {
    (!1_u64) << (offset % BLOCK)
}

#[inline]
fn lowest(mask: u64) -> usize {
    mask.trailing_zeros() as usize
}

/// Quotes, backslashes, and whether any byte is below 0x20.
///
/// Byte 16 *v* + *j* of the block sets bit 2 *v* of byte *j* of an accumulator. A vector unit thus
/// works on 16 bytes at once. [`gather`] then orders the bits.
#[inline]
fn classify(block: &[u8; BLOCK]) -> (u64, u64, bool) {
    let mut quotes = [0_u8; 16];
    let mut backslashes = [0_u8; 16];
    let mut control = [0_u8; 16];
    let (rows, _) = block.as_chunks::<16>();
    for (row, bit) in rows.iter().zip([1, 4, 16, 64]) {
        for column in 0..16 {
            let byte = row[column];
            quotes[column] |= if byte == b'"' { bit } else { 0 };
            backslashes[column] |= if byte == b'\\' { bit } else { 0 };
            control[column] |= if byte < 0x20 { bit } else { 0 };
        }
    }
    let control = u128::from_le_bytes(control) != 0;
    (gather(quotes), gather(backslashes), control)
}

/// Orders the bits of an accumulator of [`classify`].
///
/// Byte *j* of the low half holds bits 0, 2, 4, 6 for bytes *j*, 16 + *j*, 32 + *j*, 48 + *j*. The
/// high half holds the same from byte 8 on. After interleaving, bit *b* of byte *j* represents byte
/// 8 *b* + *j*. The result is the transpose of that matrix.
#[inline]
fn gather(accumulator: [u8; 16]) -> u64 {
    if u128::from_le_bytes(accumulator) == 0 {
        return 0;
    }
    let (halves, _) = accumulator.as_chunks::<8>();
    let [low, high] = [halves[0], halves[1]].map(u64::from_le_bytes);
    transpose(low | high << 1)
}

/// Transposes an 8 by 8 matrix of bits: swaps the corners of blocks of 2, 4 and 8.
#[inline]
fn transpose(mut matrix: u64) -> u64 {
    for (shift, mask) in [
        (7, 0x00aa_00aa_00aa_00aa),
        (14, 0x0000_cccc_0000_cccc),
        (28, 0x0000_0000_f0f0_f0f0),
    ] {
        let swapped = (matrix ^ matrix >> shift) & mask;
        matrix ^= swapped ^ swapped << shift;
    }
    matrix
}

/// The bytes that a backslash before them escapes.
///
/// In a run of backslashes every second one is escaped, counted from the start of the run. Adding a
/// run to itself carries into the byte after the run.
#[inline]
fn escaped(backslashes: u64, goes_on: &mut bool) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let first = u64::from(*goes_on);
    let backslashes = backslashes & !first;
    let follows = backslashes << 1 | first;
    let odd_starts = backslashes & !EVEN & !follows;
    let (runs, overflow) = odd_starts.overflowing_add(backslashes);
    *goes_on = overflow;
    (EVEN ^ runs << 1) & follows
}

/// Marks each string from its opening quote up to, but without, its closing quote.
fn inside_strings(quotes: u64, inside: bool) -> u64 {
    let parity = [1, 2, 4, 8, 16, 32]
        .iter()
        .fold(quotes, |mask, shift| mask ^ mask << shift);
    if inside { !parity } else { parity }
}

fn control_characters(block: &[u8; BLOCK]) -> u64 {
    let bit = |(at, byte): (usize, &u8)| u64::from(*byte < 0x20) << at;
    block
        .iter()
        .enumerate()
        .map(bit)
        .fold(0, |mask, bit| mask | bit)
}
