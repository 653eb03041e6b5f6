//! The second half of native verification: one running SHA-256 over the whole file.
//!
//! Each checkpoint claims the digest of all bytes before it (`payload.hash`, Rye's member). The
//! scanner names the places and this half compares the digests: O(n) for any number of checkpoints.

use super::scan::{PointKind, PrefixPoint};
use threadseal_core::digest::{Digest, Hasher};

/// A running digest that is compared at the places the scanner names.
#[derive(Default)]
pub struct PrefixHasher {
    hasher: Hasher,
    offset: u64,
    /// The digest at the beginning of a line that the last chunk did not end.
    open_line: Option<(u64, Digest)>,
    first_bad: Option<u64>,
    sealed: Option<Digest>,
}

impl PrefixHasher {
    /// A hasher at the beginning of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, with the places that [`super::Scanner::push`] returned for them.
    pub fn push(&mut self, chunk: &[u8], points: &[PrefixPoint]) {
        let mut rest = chunk;
        for point in points {
            let digest = match point.offset.checked_sub(self.offset) {
                Some(ahead) => {
                    let length = usize::try_from(ahead).unwrap_or(rest.len()).min(rest.len());
                    let (before, after) = rest.split_at(length);
                    self.hasher.update(before);
                    self.offset += length as u64;
                    rest = after;
                    Some(self.hasher.digest_so_far())
                }
                None => self
                    .open_line
                    .and_then(|(at, digest)| (at == point.offset).then_some(digest)),
            };
            match point.kind {
                PointKind::LineStart => {
                    self.open_line = digest.map(|digest| (point.offset, digest));
                }
                PointKind::Claim { hash, .. } if digest == Some(hash) => {}
                PointKind::Claim { seq, .. } => {
                    self.first_bad.get_or_insert(seq);
                }
                PointKind::Sealed => self.sealed = digest,
            }
        }
        self.hasher.update(rest);
        self.offset += rest.len() as u64;
    }

    /// The number of the first seal whose `hash` is not the digest of the bytes before it.
    pub(crate) fn first_bad(&self) -> Option<u64> {
        self.first_bad
    }

    /// SHA-256 of all bytes up to and including the last good seal.
    pub(crate) fn sealed(&self) -> Option<Digest> {
        self.sealed
    }

    /// The running digest, for a writer that continues from here.
    pub(crate) fn hasher(&self) -> Hasher {
        self.hasher.clone()
    }
}
