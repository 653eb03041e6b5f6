//! SHA-256 digests, and the one tagged digest that every native signature domain uses.
//!
//! ```text
//! tagged(tag, parts) = SHA-256( "threadseal/1" 0x00
//!                               u64be(len tag)  tag
//!                               u64be(len part) part   … for each part )
//! ```
//! The prefix and the lengths ensure that two tags, or two splits of the same bytes, never collide.

use crate::encoding;
use sha2::Digest as _;
use std::fmt;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The tagged digest of the module's heading.
    pub fn tagged(tag: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(b"threadseal/1\0");
        for part in std::iter::once(tag.as_bytes()).chain(parts.iter().copied()) {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.finish()
    }

    /// Reads 64 lower-case hex digits and nothing else.
    pub fn parse_hex(text: &str) -> Option<Self> {
        encoding::parse_hex_array(text).map(Self)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        encoding::hex(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// A running SHA-256, cheap to clone: a prefix digest costs one clone, not another pass.
#[derive(Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    /// A hasher of the empty string.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        #[cfg(any(test, feature = "testing"))]
        work::add(bytes.len());
        self.0.update(bytes);
    }

    /// The digest of all bytes so far. The hasher stays usable.
    pub fn digest_so_far(&self) -> Digest {
        self.clone().finish()
    }

    /// The digest of all bytes.
    pub fn finish(self) -> Digest {
        #[cfg(any(test, feature = "testing"))]
        work::add(work::PADDING);
        Digest(self.0.finalize().into())
    }
}

/// Counts hashed bytes, so that tests can measure work without a clock.
#[cfg(any(test, feature = "testing"))]
pub mod work {
    use std::cell::Cell;

    /// The block that closing a digest costs.
    pub(super) const PADDING: usize = 64;

    thread_local! {
        static HASHED: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn add(bytes: usize) {
        HASHED.set(HASHED.get() + bytes as u64);
    }

    /// The bytes that `run` hashes on this thread.
    pub fn hashed_by<T>(run: impl FnOnce() -> T) -> u64 {
        let before = HASHED.get();
        run();
        HASHED.get() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_from_fips_180_4() {
        assert_eq!(
            Digest::of(b"abc").to_hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let mut hasher = Hasher::new();
        hasher.update(b"ab");
        let _ = hasher.digest_so_far();
        hasher.update(b"c");
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
    }

    // T-KEY-11
    #[test]
    fn tagged_digests_separate_tag_and_parts() {
        let a = Digest::tagged("a", &[b"bc", b""]);
        for other in [
            Digest::tagged("a", &[b"b", b"c"]),
            Digest::tagged("ab", &[b"c", b""]),
            Digest::tagged("a", &[b"bc"]),
        ] {
            assert_ne!(a, other);
        }
    }

    #[test]
    fn hex_has_one_spelling() {
        let text = Digest::of(b"").to_hex();
        assert!(Digest::parse_hex(&text).is_some());
        assert!(Digest::parse_hex(&text.to_uppercase()).is_none());
        assert!(Digest::parse_hex(&text[1..]).is_none());
        assert!(Digest::parse_hex(&format!("{text}0")).is_none());
    }
}
