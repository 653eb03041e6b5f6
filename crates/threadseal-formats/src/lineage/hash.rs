//! The content hash of a link, which is its name everywhere (`spec/lineage.md` §3).
//!
//! ```text
//! v0x02 to v0x04  SHA-256 of the whole file, signature and state included
//! v0x05           SHA-256 of the 624 bytes of the header, signature included
//! CID             "b" base32( 0x01 0x55 0x12 0x20 hash[32] )                  59 characters
//! ```
//! The CID is version 1, codec raw, multihash sha2-256. Content-addressed stores keep the hashed
//! bytes under this address. Base32 is RFC 4648 §6 in lower case without padding.

use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

/// Multibase letter of lower-case base32.
const CID_LETTER: char = 'b';
/// CID version 1, codec raw, multihash sha2-256, its length.
const CID_PREFIX: [u8; 4] = [0x01, 0x55, 0x12, 0x20];
/// The letter and the 58 digits of 36 bytes.
const CID_LENGTH: usize = 59;

/// The name of one link: the hash of exactly these bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(Digest);

impl ContentHash {
    /// The hash with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Digest::from_bytes(bytes))
    }

    /// The hash with these bytes; `None` for all zero, which formats write for "no link".
    pub fn from_field(bytes: [u8; 32]) -> Option<Self> {
        (bytes != [0; 32]).then(|| Self::from_bytes(bytes))
    }

    /// The hash of a running digest.
    pub const fn of_digest(digest: Digest) -> Self {
        Self(digest)
    }

    /// The hash of `bytes`: a whole file before v0x05, a header of v0x05.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Digest::of(bytes))
    }

    /// It as a digest.
    pub fn digest(&self) -> Digest {
        self.0
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Reads 64 lower-case hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        Digest::parse_hex(text).map(Self)
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }

    /// Reads the one spelling of the CID.
    pub fn parse_cid(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(CID_LETTER)?;
        if text.len() != CID_LENGTH {
            return None;
        }
        let bytes = encoding::parse_base32(digits)?;
        let hash = bytes.strip_prefix(&CID_PREFIX)?;
        Some(Self::from_bytes(hash.try_into().ok()?))
    }

    /// `bafkrei…`, 59 characters.
    pub fn to_cid(&self) -> String {
        let bytes = [&CID_PREFIX, self.as_bytes().as_slice()].concat();
        format!("{CID_LETTER}{}", encoding::base32(&bytes))
    }

    /// Reads hex or a CID.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_hex(text).or_else(|| Self::parse_cid(text))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({})", self.0)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cid_of_hello_world_is_the_one_that_everybody_computes() {
        // `ipfs add --raw-leaves --cid-version 1` of "hello world" without a line end.
        let hash = ContentHash::of(b"hello world");
        let cid = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e";
        assert_eq!(hash.to_cid(), cid);
        assert_eq!(ContentHash::parse(cid), Some(hash));
        assert_eq!(ContentHash::parse(&hash.to_hex()), Some(hash));
    }

    #[test]
    fn a_cid_has_one_spelling() {
        let cid = ContentHash::of(b"x").to_cid();
        for bad in [
            cid.to_uppercase(),
            cid[1..].to_owned(),
            format!("{cid}="),
            cid.replacen("bafkrei", "bafybei", 1),
            format!("{}b", &cid[..58]),
            format!("z{}", &cid[1..]),
        ] {
            assert_ne!(bad, cid);
            assert_eq!(ContentHash::parse_cid(&bad), None, "{bad}");
        }
    }

    #[test]
    fn zero_names_no_link() {
        assert_eq!(ContentHash::from_field([0; 32]), None);
        let one = ContentHash::from_field([1; 32]).unwrap();
        assert_eq!(one, ContentHash::from_bytes([1; 32]));
    }

    proptest! {
        #[test]
        fn every_hash_comes_back_from_both_texts(bytes in any::<[u8; 32]>()) {
            let hash = ContentHash::from_bytes(bytes);
            prop_assert_eq!(ContentHash::parse(&hash.to_cid()), Some(hash));
            prop_assert_eq!(ContentHash::parse(&hash.to_hex()), Some(hash));
        }
    }
}
