//! The only place that draws randomness.
//!
//! Record ids, salts, key seeds and initialisation vectors come from a [`Random`]; the core
//! takes their bytes as arguments.

use std::fmt;
use threadseal_core::error::{Error, ErrorKind};

/// A source of unpredictable random bytes.
pub trait Random: fmt::Debug + Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the source fails; then `bytes` must not be used.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error>;
}

/// `N` fresh bytes.
///
/// # Errors
/// As [`Random::fill`].
pub fn array<const N: usize>(random: &dyn Random) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    random.fill(&mut bytes)?;
    Ok(bytes)
}

/// The operating system's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that draws randomness"
    )]
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        getrandom::fill(bytes).map_err(|error| {
            Error::new(
                ErrorKind::External,
                format!("the operating system gave no randomness: {error}"),
            )
        })
    }
}

/// The same bytes for the same seed, SHA-256 in counter mode; for tests, worthless as secrets.
#[cfg(any(test, feature = "fault"))]
#[derive(Debug)]
pub struct SeededRandom {
    seed: u64,
    blocks: std::sync::atomic::AtomicU64,
}

#[cfg(any(test, feature = "fault"))]
impl SeededRandom {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            blocks: 0.into(),
        }
    }

    /// The next 64 bits.
    pub fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.block(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number below `bound`, 0 when `bound` is 0.
    pub fn below(&self, bound: usize) -> usize {
        let bound = bound as u64;
        let drawn = self.next_u64().checked_rem(bound).unwrap_or(0);
        usize::try_from(drawn).unwrap_or(0)
    }

    fn block(&self, out: &mut [u8]) {
        let number = self
            .blocks
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let block = threadseal_core::digest::Digest::tagged(
            "seeded random",
            &[&self.seed.to_be_bytes(), &number.to_be_bytes()],
        );
        out.copy_from_slice(&block.as_bytes()[..out.len()]);
    }
}

#[cfg(any(test, feature = "fault"))]
impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        for chunk in bytes.chunks_mut(32) {
            self.block(chunk);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_bytes_differ_and_a_seeds_bytes_do_not() {
        let a: [u8; 32] = array(&SystemRandom).unwrap();
        let b: [u8; 32] = array(&SystemRandom).unwrap();
        assert_ne!(a, b);
        let draw = |seed| array::<40>(&SeededRandom::new(seed)).unwrap();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_below_a_bound_stay_below_it() {
        let random = SeededRandom::new(9);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }
}
