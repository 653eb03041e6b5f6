//! Chunks: where a stream is cut, their ids, and their files (`spec/archive.md` §2, §3, §5).
//!
//! ```text
//! "TSAC" ‖ version:u8 ‖ flags:u8 ‖ size:u32be ‖ [nonce:12] ‖ payload ‖ [tag:16]
//! ```
//! Invariant: [`open`] returns bytes only if their id is the requested one.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use hmac::{Hmac, Mac as _};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::Read as _;
use std::sync::LazyLock;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_store::random::{self, Random};
use zeroize::Zeroizing;

/// Most bytes of a chunk.
pub(super) const MAX_CHUNK_BYTES: usize = 256 << 10;
/// Fewest bytes of a chunk that is not the last of its stream.
const MIN_CHUNK_BYTES: usize = 16 << 10;
/// A boundary is where so many upper bits of the hash are 0.
const BOUNDARY_BITS: u32 = 16;
/// Most bytes of a chunk's file.
pub(super) const MAX_CHUNK_FILE_BYTES: usize = MAX_CHUNK_BYTES + HEADER_BYTES + NONCE_BYTES + 16;

const MAGIC: &[u8; 4] = b"TSAC";
const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;
const HEADER_BYTES: usize = 10;
const NONCE_BYTES: usize = 12;
const HMAC_BLOCK_BYTES: usize = 64;

static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let mut hasher = Sha256::new();
        hasher.update(b"threadseal archive gear 1");
        hasher.update([u8::try_from(byte).unwrap_or(u8::MAX)]);
        let hash = hasher.finalize();
        hash.iter()
            .take(8)
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
    })
});

/// Cuts a stream by its content.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    pending: Vec<u8>,
    hash: u64,
}

impl Cutter {
    /// Takes the next bytes, and passes each whole chunk to `each`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let gear = &*GEAR;
        for byte in bytes {
            self.hash = (self.hash << 1).wrapping_add(gear[usize::from(*byte)]);
            self.pending.push(*byte);
            let length = self.pending.len();
            let is_boundary = length >= MIN_CHUNK_BYTES && self.hash >> (64 - BOUNDARY_BITS) == 0;
            if is_boundary || length == MAX_CHUNK_BYTES {
                each(&self.pending)?;
                self.pending.clear();
                self.hash = 0;
            }
        }
        Ok(())
    }

    /// The bytes after the last boundary.
    pub(super) fn rest(self) -> Vec<u8> {
        self.pending
    }
}

/// The keys of an encrypted archive.
#[derive(Clone)]
pub struct Secret {
    ids: Zeroizing<[u8; 32]>,
    ciphers: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

impl Secret {
    /// The keys that a seed gives. A new seed must come from a cryptographic source.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self {
            ids: Zeroizing::new(hmac(seed, b"threadseal archive chunk id 1")),
            ciphers: Zeroizing::new(hmac(seed, b"threadseal archive cipher 1")),
        }
    }

    fn cipher(&self, id: &Digest) -> Aes256Gcm {
        let key = Zeroizing::new(hmac(&self.ciphers, id.as_bytes()));
        Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
    }
}

/// The id of a chunk of these bytes.
pub(super) fn id(secret: Option<&Secret>, bytes: &[u8]) -> Digest {
    match secret {
        None => Digest::of(bytes),
        Some(secret) => Digest::from_bytes(hmac(&secret.ids, bytes)),
    }
}

/// The file of a chunk.
pub(super) fn seal(
    secret: Option<&Secret>,
    id: &Digest,
    bytes: &[u8],
    random: &dyn Random,
) -> Result<Vec<u8>, Error> {
    let too_long = |_| Error::invalid("a chunk is too long");
    let size = u32::try_from(bytes.len()).map_err(too_long)?;
    let compressed = compress_to_vec(bytes, CompressionLevel::Fastest);
    let (flag, payload) = match compressed.len() < bytes.len() {
        true => (COMPRESSED, compressed),
        false => (0, bytes.to_vec()),
    };
    let encrypted = if secret.is_some() { ENCRYPTED } else { 0 };
    let mut file = MAGIC.to_vec();
    file.extend([VERSION, flag | encrypted]);
    file.extend(size.to_be_bytes());
    let Some(secret) = secret else {
        file.extend(payload);
        return Ok(file);
    };
    let nonce: [u8; NONCE_BYTES] = random::array(random)?;
    let bound = [id.as_bytes().as_slice(), &file].concat();
    let text = Payload {
        msg: &payload,
        aad: &bound,
    };
    let cipher = secret.cipher(id);
    let sealed = cipher.encrypt(&Nonce::from(nonce), text);
    let sealed = sealed.map_err(|_| Error::invalid("a chunk cannot be encrypted"))?;
    file.extend(nonce);
    file.extend(sealed);
    Ok(file)
}

/// The bytes of the chunk `id` from its file; the reason if the file is damaged.
pub(super) fn open(secret: Option<&Secret>, id: &Digest, file: &[u8]) -> Result<Vec<u8>, String> {
    let cut = || "the file is cut".to_owned();
    let (header, rest) = file.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
    if header[..4] != *MAGIC || header[4] != VERSION || header[5] > COMPRESSED | ENCRYPTED {
        return Err("it is no chunk file of a known version".to_owned());
    }
    let size = header[6..]
        .iter()
        .fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
    if size == 0 || size > MAX_CHUNK_BYTES {
        return Err(format!("it has a size of {size} bytes"));
    }
    let payload = match (header[5] & ENCRYPTED != 0, secret) {
        (false, None) => rest.to_vec(),
        (true, Some(secret)) => {
            let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES).ok_or_else(cut)?;
            let bound = [id.as_bytes().as_slice(), header].concat();
            let text = Payload {
                msg: sealed,
                aad: &bound,
            };
            let nonce = <[u8; NONCE_BYTES]>::try_from(nonce).map_err(|_| cut())?;
            let opened = secret.cipher(id).decrypt(&Nonce::from(nonce), text);
            opened
                .map_err(|_| "it cannot be decrypted: another key, or changed bytes".to_owned())?
        }
        (true, None) => return Err("it is encrypted, and there is no key".to_owned()),
        (false, Some(_)) => return Err("it is not encrypted, and this archive is".to_owned()),
    };
    let bytes = match header[5] & COMPRESSED != 0 {
        true => decompress(&payload, size)?,
        false => payload,
    };
    if bytes.len() != size || self::id(secret, &bytes) != *id {
        return Err("its bytes have another id".to_owned());
    }
    Ok(bytes)
}

fn decompress(payload: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let refuse = |error: &dyn fmt::Display| format!("it cannot be decompressed: {error}");
    let decoder = StreamingDecoder::new(payload).map_err(|error| refuse(&error))?;
    let mut bytes = Vec::new();
    let most = u64::try_from(size).unwrap_or(u64::MAX).saturating_add(1);
    let read = decoder.take(most).read_to_end(&mut bytes);
    read.map_err(|error| refuse(&error))?;
    Ok(bytes)
}

fn hmac(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    // HMAC fills a shorter key up with zeros.
    let mut block = Zeroizing::new([0; HMAC_BLOCK_BYTES]);
    block[..key.len()].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&(*block).into());
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_store::random::SeededRandom;

    fn text(seed: u64, bytes: usize) -> Vec<u8> {
        let mut text = vec![0; bytes];
        SeededRandom::new(seed).fill(&mut text).unwrap();
        for byte in &mut text {
            *byte = b'a' + *byte % 16;
        }
        text
    }

    fn cut(stream: &[u8], step: usize) -> Vec<Vec<u8>> {
        let (mut cutter, mut chunks) = (Cutter::default(), Vec::new());
        for part in stream.chunks(step) {
            let each = |chunk: &[u8]| {
                chunks.push(chunk.to_vec());
                Ok(())
            };
            cutter.push(part, each).unwrap();
        }
        chunks.push(cutter.rest());
        chunks
    }

    #[test]
    fn appended_and_inserted_bytes_leave_other_chunks_as_they_are() {
        let stream = text(1, 3 << 20);
        let chunks = cut(&stream, 1000);
        assert_eq!(chunks, cut(&stream, 777_777));
        assert_eq!(chunks.concat(), stream);
        assert!(chunks.len() > 12, "{}", chunks.len());
        assert!(chunks.iter().all(|chunk| chunk.len() <= MAX_CHUNK_BYTES));
        let longer = cut(&[stream.as_slice(), b"more"].concat(), 5000);
        assert_eq!(longer[..chunks.len() - 1], chunks[..chunks.len() - 1]);
        let mut inserted = stream;
        inserted.splice(100..100, *b"inserted");
        let changed = cut(&inserted, 5000);
        let shared = changed.iter().filter(|chunk| chunks.contains(chunk));
        assert!(shared.count() + 3 >= chunks.len());
    }

    #[test]
    fn the_cut_is_the_one_of_the_specification() {
        let lengths: Vec<usize> = cut(&text(7, 400_000), 4096).iter().map(Vec::len).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 400_000);
        let mut gear = Sha256::new();
        gear.update(b"threadseal archive gear 1\x00");
        assert_eq!(GEAR[0].to_be_bytes(), gear.finalize()[..8]);
        let one = cut(&[b'x'; MAX_CHUNK_BYTES + 5], 4096);
        assert_eq!(
            one.iter().map(Vec::len).collect::<Vec<_>>(),
            [MAX_CHUNK_BYTES, 5]
        );
    }

    // T-ARC-03
    #[test]
    fn every_changed_byte_of_a_chunk_file_is_noticed() {
        let random = SeededRandom::new(3);
        let secret = Secret::from_seed(&[9; 32]);
        let bytes =
            b"{\"type\":\"user\",\"text\":\"list the files list the files list the files\"}";
        for secret in [None, Some(&secret)] {
            let id = id(secret, bytes);
            let file = seal(secret, &id, bytes, &random).unwrap();
            assert_eq!(open(secret, &id, &file).unwrap(), bytes);
            for at in 0..file.len() {
                for bit in 0..8 {
                    let mut changed = file.clone();
                    changed[at] ^= 1 << bit;
                    let opened = open(secret, &id, &changed);
                    assert!(opened.is_err_and(|why| !why.is_empty()), "{at} {bit}");
                }
                assert!(open(secret, &id, &file[..at]).is_err(), "{at}");
            }
        }
    }

    // T-ARC-05
    #[test]
    fn an_encrypted_chunk_reveals_neither_content_nor_name_and_stays_in_its_place() {
        let random = SeededRandom::new(3);
        let (secret, other) = (Secret::from_seed(&[9; 32]), Secret::from_seed(&[8; 32]));
        let (first, second) = (text(1, 5000), text(2, 5000));
        let ids = [&first, &second].map(|bytes| id(Some(&secret), bytes));
        assert_ne!(ids[0], Digest::of(&first));
        assert_ne!(ids[0], id(Some(&other), &first));
        let file = seal(Some(&secret), &ids[0], &first, &random).unwrap();
        let again = seal(Some(&secret), &ids[0], &first, &random).unwrap();
        assert_ne!(file, again, "a nonce is never used twice");
        assert!(open(Some(&other), &ids[0], &file).is_err());
        assert!(open(None, &ids[0], &file).is_err());
        assert!(open(Some(&secret), &ids[1], &file).is_err(), "moved");
        let plain = seal(None, &ids[0], &first, &random).unwrap();
        assert!(
            open(Some(&secret), &ids[0], &plain).is_err(),
            "replaced by plain text"
        );
    }

    // T-ARC-04
    #[test]
    fn a_file_that_expands_beyond_its_size_is_refused() {
        let bomb = compress_to_vec(vec![0_u8; 8 << 20].as_slice(), CompressionLevel::Fastest);
        let mut file = b"TSAC\x01\x01\x00\x00\x00\x10".to_vec();
        file.extend(bomb);
        assert!(open(None, &Digest::of(&[0; 16]), &file).is_err());
    }
}
