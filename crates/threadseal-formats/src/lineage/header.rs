//! The header of a checkpoint, one struct for all four versions (`spec/lineage.md` §2).
//!
//! ```text
//! off size field             v2 v3 v4     little-endian, no padding, state after it to the end
//!   0    1 version            x  x  x     0x02, 0x03, 0x04
//!   1    8 budget i64 >= 0    x  x  x     microcents
//!   9    8 price i64 >= 0     x  x  x     microcents a second
//!  17    8 tick u64           x  x  x
//!  25   32 code SHA-256       x  x  x
//!  57    8 epoch u64             x  x     igor's majorVersion
//!  65    8 generation u64        x  x     of the lease
//!  73    8 lease expiry i64      x  x     nanoseconds since 1970, 0 for no lease
//!  81   32 prev                     x     content hash of the parent, zero for none
//! 113   32 agent key                x
//! 145   64 signature                x     Ed25519 over [0:145] and the state
//! ```
//! v0x05 is drawn in `v5`. Fields that a version lacks are zero or `None` here. The refusals of the
//! first three, and their order, are igor's (`ParseCheckpointHeader`). igor checks nothing else, so
//! the agent key and the signature may be invalid.
//!
//! Elsewhere: whether the signature holds (`v4`, `v5`), whether a link may follow another
//! (`authority`).

use super::hash::ContentHash;
use super::v5::{self, NativeHeader};
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::{PublicKey, Signature};

/// The format of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// v0x02: budget, price, tick and code.
    V2,
    /// v0x03: and the epoch and lease.
    V3,
    /// v0x04: and a signature, with the hash of the file before.
    V4,
    /// v0x05: ThreadSeal's own.
    V5,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; 4] = [Self::V2, Self::V3, Self::V4, Self::V5];

    /// Its first byte.
    pub fn byte(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }

    /// The version whose files begin with `byte`.
    pub fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.byte() == byte)
    }

    /// Bytes of the header; the state begins there.
    pub fn header_length(self) -> usize {
        match self {
            Self::V2 => 57,
            Self::V3 => 81,
            Self::V4 => 209,
            Self::V5 => v5::HEADER_LENGTH,
        }
    }

    /// Does the format hold a signature?
    pub fn is_signed(self) -> bool {
        self >= Self::V4
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v0x{:02x}", self.byte())
    }
}

/// The authority as a counter. The first number rises with each transfer of authority, the second
/// with each renewal of the lease under it. Ordered as igor's `Supersedes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// Transfers of authority.
    pub major: u64,
    /// Renewals of the lease.
    pub generation: u64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.major, self.generation)
    }
}

/// The fields of a checkpoint before its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The version, which decides the fields.
    pub version: Version,
    /// The remaining budget, in microcents; not negative.
    pub budget: i64,
    /// Microcents a second of running; not negative.
    pub price: i64,
    /// Ticks completed.
    pub tick: u64,
    /// SHA-256 of the code that ran.
    pub code: Digest,
    /// From v0x03.
    pub epoch: Epoch,
    /// Nanoseconds since 1970, 0 for no lease. From v0x03.
    pub lease_expiry: i64,
    /// The previous link; `None` in the first, and before v0x04.
    pub prev: Option<ContentHash>,
    /// The key that signed, as its raw bytes. From v0x04.
    pub signer: Option<[u8; 32]>,
    /// From v0x04.
    pub signature: Option<Signature>,
    /// The fields that only v0x05 has.
    pub native: Option<Box<NativeHeader>>,
}

impl CheckpointHeader {
    /// Reads the header at the beginning of `file`, which must include the whole header or be the
    /// whole file.
    ///
    /// # Errors
    /// [`HeaderError`]. The file is then no checkpoint, whatever follows.
    pub fn parse(file: &[u8]) -> Result<Self, HeaderError> {
        let first = *file.first().ok_or(HeaderError::Empty)?;
        let version = Version::of_byte(first)
            .filter(|version| *version != Version::V5 || v5::has_magic(file))
            .ok_or(HeaderError::Unsupported(first))?;
        let needed = version.header_length();
        let Some(header) = file.get(..needed) else {
            let length = file.len();
            return Err(HeaderError::TooShort { length, needed });
        };
        if version == Version::V5 {
            v5::parse(header)
        } else {
            parse_original(version, header)
        }
    }

    /// The header as bytes.
    ///
    /// # Errors
    /// Kind `InvalidInput` where the fields do not fit the version, and for v0x02, which is no
    /// longer written.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let bytes = match self.version {
            Version::V2 => return Err(Error::invalid("v0x02 can be read but not written")),
            Version::V3 | Version::V4 => self.encode_original(),
            Version::V5 => v5::encode(self)?,
        };
        // There is one rule for valid headers: the reader's.
        match Self::parse(&bytes) {
            Ok(read) if read == *self => Ok(bytes),
            Ok(_) => Err(Error::invalid(format!(
                "{} cannot store all fields of this header",
                self.version
            ))),
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    /// The key that signed, if the format has one.
    ///
    /// # Errors
    /// Kind `Key` when the bytes are not a usable key ([`PublicKey::from_bytes`]): no signature can
    /// hold under it.
    pub fn signer_key(&self) -> Option<Result<PublicKey, Error>> {
        self.signer.as_ref().map(PublicKey::from_bytes)
    }

    fn encode_original(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.version.header_length());
        bytes.push(self.version.byte());
        bytes.extend(self.budget.to_le_bytes());
        bytes.extend(self.price.to_le_bytes());
        bytes.extend(self.tick.to_le_bytes());
        bytes.extend(self.code.as_bytes());
        bytes.extend(self.epoch.major.to_le_bytes());
        bytes.extend(self.epoch.generation.to_le_bytes());
        bytes.extend(self.lease_expiry.to_le_bytes());
        if self.version == Version::V4 {
            bytes.extend(self.prev.as_ref().map_or(&[0; 32], ContentHash::as_bytes));
            bytes.extend(self.signer.unwrap_or_default());
            bytes.extend(self.signature.map_or([0; 64], |signed| *signed.as_bytes()));
        }
        bytes
    }
}

fn parse_original(version: Version, header: &[u8]) -> Result<CheckpointHeader, HeaderError> {
    let budget = i64::from_le_bytes(field(header, 1));
    let price = i64::from_le_bytes(field(header, 9));
    if budget < 0 {
        return Err(HeaderError::NegativeBudget(budget));
    }
    if price < 0 {
        return Err(HeaderError::NegativePrice(price));
    }
    let leased = version >= Version::V3;
    let counter = |at| match leased {
        true => u64::from_le_bytes(field(header, at)),
        false => 0,
    };
    let signed = version >= Version::V4;
    Ok(CheckpointHeader {
        version,
        budget,
        price,
        tick: u64::from_le_bytes(field(header, 17)),
        code: Digest::from_bytes(field(header, 25)),
        epoch: Epoch {
            major: counter(57),
            generation: counter(65),
        },
        lease_expiry: counter(73).cast_signed(),
        prev: signed
            .then(|| ContentHash::from_field(field(header, 81)))
            .flatten(),
        signer: signed.then(|| field(header, 113)),
        signature: signed.then(|| Signature::from_bytes(field(header, 145))),
        native: None,
    })
}

/// The `N` bytes of a header at `at`; its length is known to be that of its version.
pub(super) fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    if let Some(found) = header.get(at..at + N) {
        bytes.copy_from_slice(found);
    }
    bytes
}

/// Why bytes are no header of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    /// There are none.
    Empty,
    /// The first byte is no version, or it is 5 and ThreadSeal's magic does not follow.
    Unsupported(u8),
    /// The header is cut.
    TooShort {
        /// Available bytes.
        length: usize,
        /// Bytes of the header.
        needed: usize,
    },
    /// The budget is this.
    NegativeBudget(i64),
    /// The price is this.
    NegativePrice(i64),
    /// A field of v0x05 has an invalid value.
    Malformed {
        /// The field's name in the specification.
        field: &'static str,
        /// The requirement.
        must: &'static str,
    },
    /// The 32 bytes of a public key of v0x05 are not one, or one that is not accepted.
    Key {
        /// The field's name in the specification.
        field: &'static str,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("checkpoint empty"),
            Self::Unsupported(byte) => write!(f, "unsupported checkpoint version: {byte}"),
            Self::TooShort { length, needed } => {
                write!(f, "checkpoint too short: {length} bytes (need {needed})")
            }
            Self::NegativeBudget(value) => {
                write!(f, "checkpoint contains negative budget: {value}")
            }
            Self::NegativePrice(value) => write!(f, "checkpoint contains negative price: {value}"),
            Self::Malformed { field, must } => write!(f, "the checkpoint's {field} must {must}"),
            Self::Key { field } => {
                write!(f, "the checkpoint's {field} is not a usable Ed25519 key")
            }
        }
    }
}

impl std::error::Error for HeaderError {}
