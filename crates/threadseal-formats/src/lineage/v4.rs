//! v0x04: igor's signed checkpoint, signed and verified without holding its state
//! (`spec/lineage.md` §4).
//!
//! ```text
//! signed        header[0:145] ‖ state          pure Ed25519 over all of it, no tag, no prehash
//! content hash  SHA-256( header[0:209] ‖ state )
//! ```
//! The signed bytes begin with 0x04. Nothing else distinguishes them from other messages that igor
//! signs with the same key. A payment receipt whose amount ends in 0x04 can be, byte for byte, a
//! checkpoint. So a key of this usage signs nothing else here, and v0x05 signs a tagged message.

use super::hash::ContentHash;
use super::header::{CheckpointHeader, Version};
use super::v5::SealedHeader;
use threadseal_core::digest::Hasher;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{
    KeyUsage, LocalSigner, Reread, Signature, SignatureError, Signer as _, StreamVerifier,
    sign_long, sign_parts,
};

/// Where the signature begins: after the signed part of the header.
const SIGNATURE_AT: usize = 145;

/// Signs a checkpoint of v0x04 whose state is in memory. Its signer and signature are replaced.
///
/// # Errors
/// Kind `InvalidInput` where the header is not of v0x04 or does not fit it. `Refused` when the
/// signer is for another usage than `igor`.
pub fn seal(
    header: CheckpointHeader,
    state: &[u8],
    signer: &LocalSigner,
) -> Result<SealedHeader, Error> {
    let unsigned = Unsigned::new(header, signer)?;
    let signature = sign_parts(signer, KeyUsage::Igor, &[unsigned.signed(), state])?;
    let (header, bytes, mut hasher) = unsigned.signed_by(signature)?;
    hasher.update(state);
    let hash = ContentHash::of_digest(hasher.finish());
    Ok(SealedHeader {
        header,
        bytes,
        hash,
    })
}

/// As [`seal`], of a state that is read three times in pieces. Two passes are for the signature,
/// one for the content hash.
///
/// # Errors
/// As [`seal`]; kind `External` when the state cannot be read, or was not the same each time.
pub fn seal_reread(
    header: CheckpointHeader,
    state: &dyn Reread,
    signer: &LocalSigner,
) -> Result<SealedHeader, Error> {
    let unsigned = Unsigned::new(header, signer)?;
    let (signature, read) = sign_long(signer, KeyUsage::Igor, unsigned.signed(), state)?;
    let (header, bytes, mut hasher) = unsigned.signed_by(signature)?;
    let mut again = Hasher::new();
    state.read(&mut |piece| {
        hasher.update(piece);
        again.update(piece);
    })?;
    if again.finish() != read {
        let changed = "the state changed while it was being signed";
        return Err(Error::new(ErrorKind::External, changed));
    }
    let hash = ContentHash::of_digest(hasher.finish());
    Ok(SealedHeader {
        header,
        bytes,
        hash,
    })
}

/// A header that names its signer, with no signature yet.
struct Unsigned {
    header: CheckpointHeader,
    bytes: Vec<u8>,
}

impl Unsigned {
    fn new(mut header: CheckpointHeader, signer: &LocalSigner) -> Result<Self, Error> {
        if header.version != Version::V4 {
            return Err(Error::invalid("this header is not of v0x04"));
        }
        header.signer = Some(*signer.public_key().as_bytes());
        header.signature = Some(Signature::from_bytes([0; 64]));
        let bytes = header.encode()?;
        Ok(Self { header, bytes })
    }

    /// The signed bytes before the state.
    fn signed(&self) -> &[u8] {
        self.bytes.get(..SIGNATURE_AT).unwrap_or_default()
    }

    /// With its signature, and the content hash begun.
    fn signed_by(
        mut self,
        signature: Signature,
    ) -> Result<(CheckpointHeader, Vec<u8>, Hasher), Error> {
        self.header.signature = Some(signature);
        let bytes = self.header.encode()?;
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        Ok((self.header, bytes, hasher))
    }
}

/// The seal of a file of v0x04, checked while its state is read.
#[derive(Debug)]
pub struct Verifier {
    signature: Option<StreamVerifier>,
    /// Igor's own check; used where no signature can hold by the strict rules.
    as_original: Option<StreamVerifier>,
    hasher: Hasher,
}

impl Verifier {
    /// Begins with the header.
    ///
    /// # Errors
    /// Kind `InvalidInput` where it is not of v0x04.
    pub fn new(header: &CheckpointHeader) -> Result<Self, Error> {
        if header.version != Version::V4 {
            return Err(Error::invalid("this header is not of v0x04"));
        }
        let bytes = header.encode()?;
        let mut signature = match (header.signer_key(), &header.signature) {
            (Some(Ok(key)), Some(signature)) => StreamVerifier::new(&key, signature).ok(),
            _ => None,
        };
        let mut as_original = match (&signature, &header.signer, &header.signature) {
            (None, Some(key), Some(signature)) => StreamVerifier::danger_as_go(key, signature).ok(),
            _ => None,
        };
        for verifier in signature.iter_mut().chain(&mut as_original) {
            verifier.update(bytes.get(..SIGNATURE_AT).unwrap_or_default());
        }
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        Ok(Self {
            signature,
            as_original,
            hasher,
        })
    }

    /// The next bytes of the state.
    pub fn update(&mut self, piece: &[u8]) {
        // Where no signature can hold, the hash still names the file.
        for verifier in self.signature.iter_mut().chain(&mut self.as_original) {
            verifier.update(piece);
        }
        self.hasher.update(piece);
    }

    /// The file is whole: whether the signature holds, and its content hash.
    pub fn finish(self) -> (Result<(), SignatureError>, ContentHash) {
        let (held, _, hash) = self.finish_beside();
        (held, hash)
    }

    /// The same, with igor's own answer for the signature.
    pub(super) fn finish_beside(self) -> (Result<(), SignatureError>, bool, ContentHash) {
        let hash = ContentHash::of_digest(self.hasher.finish());
        let held = self.signature.ok_or(SignatureError);
        let held = held.and_then(StreamVerifier::finish);
        let original = match self.as_original {
            Some(verifier) => verifier.finish().is_ok(),
            None => held.is_ok(),
        };
        (held, original, hash)
    }
}

/// Does the signature of a whole file of v0x04 hold?
///
/// # Errors
/// [`SignatureError`] when not, or when it is no such file.
pub fn verify(file: &[u8]) -> Result<(), SignatureError> {
    let header = CheckpointHeader::parse(file).map_err(|_| SignatureError)?;
    let mut verifier = Verifier::new(&header).map_err(|_| SignatureError)?;
    let state = file.get(Version::V4.header_length()..);
    verifier.update(state.unwrap_or_default());
    verifier.finish().0
}
