//! Signatures under few keys, checked many times: the answers of [`PublicKey::verify`], faster.
//!
//! ```text
//! first time      is it a key under which one may verify? (a square root and an inversion)
//! up to the 64th  strict verification
//! from then on    the same answer from tables of its multiples:
//!
//! R' = [s]B - [k]A      k = SHA-512( R ‖ A ‖ message ) mod ℓ,   accepted if R' is spelled as R
//! s, k                  32 digits to the base 256, each from -127 to 128
//! multiples of P        j · 256^i · P for i in 0..32, j in 1..=128: 4096 points, 640 KiB
//! ```
//! With a table of all multiples a product is 32 additions and no doubling. Additions are exact, so
//! R' is the same point as without the table. This includes the torsion of A: k counts as an
//! integer. Both ways check the rules of strict verification (canonical s, canonical R of large
//! order, A of large order). Tests compare the two.

use super::{PublicKey, Signature, SignatureError};
use crate::limits::MAX_REPEATED_KEYS;
use curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use sha2::{Digest as _, Sha512};
use std::fmt;
use std::sync::LazyLock;

/// The number of multiples of each power of 256.
const ROW: usize = 128;

static MULTIPLES_OF_B: LazyLock<Multiples> =
    LazyLock::new(|| Multiples::of(&ED25519_BASEPOINT_POINT));

/// The number of signatures from which tables are worth their cost.
///
/// Making the tables then costs less than a third of the time spent before.
const USES_BEFORE_TABLES: u32 = 64;

/// The most recent keys, each with its tables once it is frequent.
///
/// When more than [`MAX_REPEATED_KEYS`] keys arrive, the oldest is dropped. So memory stays
/// bounded.
#[derive(Debug, Default)]
pub struct RepeatedKeys {
    met: Vec<UsedKey>,
    /// Which of `met` the next new key replaces.
    oldest: usize,
}

impl RepeatedKeys {
    /// The key in `bytes`, and whether `signature` exists and is its signature of `message`.
    ///
    /// Returns `None` when no signature may be verified under these bytes.
    pub fn check(
        &mut self,
        bytes: &[u8; 32],
        message: &[u8],
        signature: Option<&Signature>,
    ) -> Option<(PublicKey, bool)> {
        let at = match self.position(bytes) {
            Some(at) => at,
            None => self.meet(&PublicKey::from_bytes(bytes).ok()?),
        };
        let met = self.met.get_mut(at)?;
        let holds = signature.is_some_and(|signature| met.verifies(message, signature));
        Some((met.key, holds))
    }

    /// As [`PublicKey::verify`].
    pub fn verifies(&mut self, key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
        let at = match self.position(key.as_bytes()) {
            Some(at) => at,
            None => self.meet(key),
        };
        let met = self.met.get_mut(at);
        met.is_some_and(|met| met.verifies(message, signature))
    }

    /// Prepares a key before its first signature.
    pub fn meet(&mut self, key: &PublicKey) -> usize {
        if self.met.len() < MAX_REPEATED_KEYS {
            self.met.push(UsedKey::new(*key));
            return self.met.len() - 1;
        }
        let at = self.oldest;
        self.oldest = (at + 1) % MAX_REPEATED_KEYS;
        if let Some(met) = self.met.get_mut(at) {
            *met = UsedKey::new(*key);
        }
        at
    }

    fn position(&self, bytes: &[u8; 32]) -> Option<usize> {
        self.met.iter().position(|met| met.key.as_bytes() == bytes)
    }
}

#[derive(Debug)]
struct UsedKey {
    key: PublicKey,
    uses: u32,
    repeated: Option<RepeatedKey>,
}

impl UsedKey {
    fn new(key: PublicKey) -> Self {
        Self {
            key,
            uses: 0,
            repeated: None,
        }
    }

    fn verifies(&mut self, message: &[u8], signature: &Signature) -> bool {
        if let Some(repeated) = &self.repeated {
            return repeated.verify(message, signature).is_ok();
        }
        self.uses += 1;
        if self.uses >= USES_BEFORE_TABLES {
            self.repeated = Some(RepeatedKey::new(&self.key));
        }
        self.key.verify(message, signature).is_ok()
    }
}

/// A key with the tables for quick verification.
///
/// Making it costs as much as verifying some fifteen signatures without tables.
struct RepeatedKey {
    key: PublicKey,
    of_minus_a: Multiples,
}

impl RepeatedKey {
    fn new(key: &PublicKey) -> Self {
        Self {
            key: *key,
            of_minus_a: Multiples::of(&-key.0.to_edwards()),
        }
    }

    /// As [`PublicKey::verify`].
    ///
    /// # Errors
    /// [`SignatureError`] when the signature is not this key's signature of `message`.
    fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), SignatureError> {
        let (halves, _) = signature.as_bytes().as_chunks::<32>();
        let [r, s] = halves else {
            return Err(SignatureError);
        };
        let canonical: Option<Scalar> = Scalar::from_canonical_bytes(*s).into();
        let s = canonical.ok_or(SignatureError)?;
        if signature.has_small_order() {
            return Err(SignatureError);
        }
        let mut hasher = Sha512::new();
        hasher.update(r);
        hasher.update(self.key.as_bytes());
        hasher.update(message);
        let k = Scalar::from_bytes_mod_order_wide(&hasher.finalize().into());
        let sum = MULTIPLES_OF_B.times(&s);
        let sum = self.of_minus_a.add_to(sum, &k);
        if sum.compress().as_bytes() == r {
            Ok(())
        } else {
            Err(SignatureError)
        }
    }
}

impl fmt::Debug for RepeatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepeatedKey({})", self.key.to_hex())
    }
}

/// The multiples of one point, row after row.
struct Multiples(Vec<EdwardsPoint>);

impl Multiples {
    fn of(point: &EdwardsPoint) -> Self {
        let mut points = Vec::with_capacity(32 * ROW);
        let mut first = *point;
        for _ in 0..32 {
            let mut next = first;
            for _ in 0..ROW {
                points.push(next);
                next += &first;
            }
            // `next` is 129 times the first of the row; the next row begins with 256 times it.
            first = next + next - first - first;
        }
        Self(points)
    }

    fn times(&self, scalar: &Scalar) -> EdwardsPoint {
        self.add_to(EdwardsPoint::default(), scalar)
    }

    /// `sum` + `scalar` · P.
    fn add_to(&self, mut sum: EdwardsPoint, scalar: &Scalar) -> EdwardsPoint {
        let mut carry = 0;
        for (row, byte) in self.0.chunks_exact(ROW).zip(scalar.as_bytes()) {
            // The last byte of a reduced scalar is at most 16, so nothing is carried out of it.
            let digit = usize::from(*byte) + carry;
            carry = usize::from(digit > ROW);
            if carry == 0 {
                if let Some(multiple) = digit.checked_sub(1).and_then(|at| row.get(at)) {
                    sum += multiple;
                }
            } else if let Some(multiple) =
                (2 * ROW - digit).checked_sub(1).and_then(|at| row.get(at))
            {
                sum -= multiple;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::PrivateKey;
    use super::*;
    use curve25519_dalek::constants::EIGHT_TORSION;
    use proptest::prelude::*;

    #[test]
    fn multiples_of_any_scalar_are_what_dalek_computes() {
        let point = ED25519_BASEPOINT_POINT + EIGHT_TORSION[1];
        let multiples = Multiples::of(&point);
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, -Scalar::from(2_u8)];
        for byte in [0x7f, 0x80, 0x81, 0xff] {
            let mut bytes = [byte; 32];
            bytes[31] = 0x0f;
            scalars.push(Scalar::from_bytes_mod_order(bytes));
        }
        for shift in 0..252 {
            let mut bytes = [0; 32];
            bytes[shift / 8] = 1 << (shift % 8);
            scalars.push(Scalar::from_bytes_mod_order(bytes));
        }
        for scalar in scalars {
            assert_eq!(multiples.times(&scalar), point * scalar, "{scalar:?}");
        }
    }

    /// Signatures under a key with torsion in it, some of which verify without a cofactor and
    /// some only with one.
    #[test]
    fn keys_and_signatures_with_torsion_have_one_answer() {
        let secret = Scalar::from(123_456_789_u64);
        let mut held = 0;
        for torsion in EIGHT_TORSION {
            let a = ED25519_BASEPOINT_POINT * secret + torsion;
            let key = PublicKey::from_bytes(a.compress().as_bytes()).unwrap();
            let repeated = RepeatedKey::new(&key);
            for (nonce, other) in (1_u64..).zip(EIGHT_TORSION.iter().cycle()).take(32) {
                let nonce = Scalar::from(nonce);
                let r = (ED25519_BASEPOINT_POINT * nonce + other).compress();
                let mut hasher = Sha512::new();
                hasher.update(r.as_bytes());
                hasher.update(key.as_bytes());
                hasher.update(b"message");
                let k = Scalar::from_bytes_mod_order_wide(&hasher.finalize().into());
                let mut bytes = [0; 64];
                bytes[..32].copy_from_slice(r.as_bytes());
                bytes[32..].copy_from_slice((nonce + k * secret).as_bytes());
                let signature = Signature::from_bytes(bytes);
                let answer = key.verify(b"message", &signature);
                assert_eq!(repeated.verify(b"message", &signature), answer);
                held += usize::from(answer.is_ok());
            }
        }
        assert!((1..256).contains(&held), "{held}");
    }

    #[test]
    fn many_keys_in_turn_have_the_answers_of_each_alone() {
        let privates: Vec<_> = (0_u8..)
            .take(MAX_REPEATED_KEYS + 1)
            .map(|seed| PrivateKey::from_seed([seed; 32]))
            .collect();
        for count in [1, 2, privates.len()] {
            let mut keys = RepeatedKeys::default();
            for turn in 0..3 * USES_BEFORE_TABLES as usize {
                let private = &privates[turn % count];
                let (key, signed) = (private.public_key(), turn.to_be_bytes());
                let signature = private.sign_bytes(&signed);
                let other = (turn + 1).to_be_bytes();
                for (message, wanted) in [(&signed, true), (&other, false)] {
                    let answer = keys.check(key.as_bytes(), message, Some(&signature));
                    assert_eq!(answer, Some((*key, wanted)));
                    assert_eq!(keys.verifies(key, message, &signature), wanted);
                }
            }
            let tables = keys.met.iter().filter(|met| met.repeated.is_some()).count();
            assert_eq!(tables, if count <= MAX_REPEATED_KEYS { count } else { 0 });
        }
    }

    #[test]
    fn bytes_that_are_no_key_have_no_answer() {
        let mut keys = RepeatedKeys::default();
        let signature = Signature::from_bytes([0; 64]);
        assert_eq!(keys.check(&[0xff; 32], b"", Some(&signature)), None);
        assert!(keys.met.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_repeated_key_answers_as_the_key_does(
            seed in any::<[u8; 32]>(), message in any::<Vec<u8>>(), at in 0_usize..64, flip in any::<u8>(),
            random in any::<[[u8; 32]; 2]>(), torsion in 0_usize..8,
        ) {
            let private = PrivateKey::from_seed(seed);
            let key = private.public_key();
            let repeated = RepeatedKey::new(key);
            let good = *private.sign_bytes(&message).as_bytes();
            let mut changed = good;
            changed[at] ^= flip;
            let mut small = good;
            small[..32].copy_from_slice(EIGHT_TORSION[torsion].compress().as_bytes());
            // s + ℓ is an equivalent value and is refused.
            let mut long = good;
            let mut carry = 0;
            let order = (-Scalar::ONE).to_bytes();
            for (index, (byte, more)) in long[32..].iter_mut().zip(order).enumerate() {
                let sum = u16::from(*byte) + u16::from(more) + carry + u16::from(index == 0);
                *byte = sum.to_le_bytes()[0];
                carry = sum >> 8;
            }
            let mut noise = [0; 64];
            noise.copy_from_slice(&random.concat());
            for bytes in [good, changed, small, long, noise] {
                let signature = Signature::from_bytes(bytes);
                prop_assert_eq!(repeated.verify(&message, &signature), key.verify(&message, &signature));
            }
            prop_assert!(repeated.verify(&message, &Signature::from_bytes(good)).is_ok());
            prop_assert!(repeated.verify(&message, &Signature::from_bytes(long)).is_err());
        }
    }
}
