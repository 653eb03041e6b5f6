//! [`Signatures`]: a digest of the signatures of a chain, which no hash of a turn covers.

use super::schema::SigText;
use threadseal_core::digest::Digest;

const TAG: &str = "threadseal/1 scroll signatures";

/// A digest of the signatures of the first turns of a chain (`spec/scroll.md` §8.4).
///
/// ```text
/// s(0)      tagged(TAG, [])
/// s(i + 1)  tagged(TAG, [s(i), u64be(i), pubkey ‖ sig]), their bytes
///           s(i), where turn i has no `sig`
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signatures(Digest);

impl Default for Signatures {
    fn default() -> Self {
        Self(Digest::tagged(TAG, &[]))
    }
}

impl Signatures {
    /// Those with the signature of the turn in place `index`, from 0, if it has one.
    #[must_use]
    pub fn then(self, index: u64, signature: Option<&[u8]>) -> Self {
        let Some(signature) = signature else {
            return self;
        };
        let parts: [&[u8]; 3] = [self.0.as_bytes(), &index.to_be_bytes(), signature];
        Self(Digest::tagged(TAG, &parts))
    }

    /// Their digest.
    pub fn digest(&self) -> Digest {
        self.0
    }
}

/// Key and signature as bytes; what cannot be read has none.
pub(super) fn bytes_of(sig: &SigText) -> Vec<u8> {
    let key = sig.pubkey.as_ref().map_or(&[][..], |key| key);
    let signature = sig.sig.as_ref().map_or(&[][..], |signature| signature);
    [key, signature].concat()
}
