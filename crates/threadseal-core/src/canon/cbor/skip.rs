//! Finds where an item ends when its bytes arrive in pieces.
//!
//! The skipper reads heads and the lengths in them, and nothing more. [`super::parse`] checks the
//! complete item: whether it is deterministic, and whether it is JSON.

use crate::limits::MAX_JSON_DEPTH;

/// Crosses one item.
#[derive(Debug, Clone, Default)]
pub struct Skipper {
    /// Items still to be read at each level, innermost last.
    open: Vec<u64>,
    /// Bytes of a text still to be read.
    text: u64,
    /// The bytes so far of an incomplete head, and how many are missing.
    head: Vec<u8>,
    missing: usize,
}

/// The result of one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// The item ends after this many bytes of the piece.
    Done(usize),
    /// The item continues in the next piece.
    More,
    /// Not an item of JSON: an indefinite length, a reserved head, or too deep.
    Bad,
}

impl Skipper {
    /// A skipper before an item.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the item.
    pub fn push(&mut self, piece: &[u8]) -> Skipped {
        let mut at = 0;
        loop {
            if self.text > 0 {
                let rest = (piece.len() - at) as u64;
                let crossed = self.text.min(rest);
                self.text -= crossed;
                at += usize::try_from(crossed).unwrap_or(piece.len());
                if self.text > 0 {
                    return Skipped::More;
                }
                if self.ended() {
                    return Skipped::Done(at);
                }
            }
            let Some(byte) = piece.get(at) else {
                return Skipped::More;
            };
            at += 1;
            match self.head_byte(*byte) {
                None => return Skipped::Bad,
                Some(true) => return Skipped::Done(at),
                Some(false) => {}
            }
        }
    }

    /// Takes one byte of a head. Returns whether the outermost item ended with it.
    fn head_byte(&mut self, byte: u8) -> Option<bool> {
        if self.head.is_empty() {
            self.missing = match byte & 31 {
                0..24 => 0,
                24 => 1,
                25 => 2,
                26 => 4,
                27 => 8,
                _ => return None,
            };
        } else {
            self.missing -= 1;
        }
        self.head.push(byte);
        if self.missing > 0 {
            return Some(false);
        }
        let first = self.head[0];
        let argument = match first & 31 {
            small @ 0..24 => u64::from(small),
            _ => self.head[1..]
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        };
        self.head.clear();
        self.item(first >> 5, argument)
    }

    fn item(&mut self, major: u8, argument: u64) -> Option<bool> {
        let inside = match major {
            2 | 3 => {
                self.text = argument;
                return Some(argument == 0 && self.ended());
            }
            4 => argument,
            5 => argument.checked_mul(2)?,
            6 => 1,
            _ => 0,
        };
        if inside == 0 {
            return Some(self.ended());
        }
        self.open.push(inside);
        (self.open.len() <= MAX_JSON_DEPTH).then_some(false)
    }

    /// Records that an item ended, and with it each array and map that it completed.
    fn ended(&mut self) -> bool {
        while let Some(rest) = self.open.last_mut() {
            *rest -= 1;
            if *rest > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}
