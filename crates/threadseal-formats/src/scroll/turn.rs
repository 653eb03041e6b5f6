//! Turns that passed the schema, and their canonical bytes.
//!
//! ```text
//! serialize(turn)   = RFC 8785 text of the turn, or its CBOR where the turn declares it
//! deserialize(bytes) = the turn, from JSON text or from CBOR
//! body_hash(value)  = SHA-256( RFC 8785 text of value )  hash_text(digest) = "sha256:" hex
//! ```
//! Members keep their order and numbers keep their spelling from the input; the canonical text has
//! neither. A [`Turn`] has no `hash` and no `sig`, a [`SealedTurn`] has a `hash`.

use super::facts::covered;
use super::schema::{self, Encoding, Role, SchemaViolation};
use super::signatures;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::canon::{Unrepresentable, cbor, jcs};
use threadseal_core::digest::Digest;

/// A turn that is not sealed.
#[derive(Debug, Clone)]
pub struct Turn {
    value: Value,
    canonical: Vec<u8>,
    covered: Option<Vec<u8>>,
    encoding: Encoding,
    number: u64,
    role: Role,
    timestamp_ns: u64,
    prev_hash: Option<Digest>,
}

impl Turn {
    /// Checks and takes `value`.
    ///
    /// # Errors
    /// The first violation of the schema. A turn that has `hash` or `sig` is refused, because
    /// sealing it would hash its old seal.
    pub fn from_value(value: Value) -> Result<Self, SchemaViolation> {
        let canonical = canonical(&value)?;
        let shape = schema::check(&canonical)?;
        if shape.outside != [None, None] {
            return Err(SchemaViolation::new("", "is sealed already"));
        }
        let covered = match shape.encoding {
            Encoding::Jcs => None,
            Encoding::Cbor => Some(covered(&canonical, &shape, Encoding::Cbor)?),
        };
        Ok(Self {
            covered,
            encoding: shape.encoding,
            number: shape.turn,
            role: shape.role,
            timestamp_ns: shape.timestamp_ns,
            prev_hash: shape.prev_hash,
            value,
            canonical,
        })
    }

    /// The turn as received.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// The turn as received.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The RFC 8785 text, whatever the encoding.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The bytes that are hashed and signed, by the turn's own encoding.
    pub fn covered(&self) -> &[u8] {
        self.covered.as_ref().unwrap_or(&self.canonical)
    }

    /// The encoding under which the turn is hashed and signed.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The same turn, to be hashed and signed as `encoding`.
    ///
    /// # Errors
    /// When the turn has too many values for CBOR.
    pub fn with_encoding(self, encoding: Encoding) -> Result<Self, SchemaViolation> {
        let Value::Object(mut members) = self.value else {
            return Err(SchemaViolation::new("", "is not an object"));
        };
        members.retain(|(name, _)| name != "enc");
        if encoding == Encoding::Cbor {
            members.push(("enc".into(), "cbor".into()));
        }
        Self::from_value(Value::Object(members))
    }

    /// The member `turn`.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The member `role`.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The member `timestamp_ns`, as the integer value of its double.
    pub fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns
    }

    /// The member `prev_hash`.
    pub fn prev_hash(&self) -> Option<Digest> {
        self.prev_hash
    }
}

/// Equal turns have one canonical text.
impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }
}

impl Eq for Turn {}

/// A turn with its hash, and its signature if it has one. Nothing about either was verified.
#[derive(Debug, Clone)]
pub struct SealedTurn {
    value: Value,
    canonical: Vec<u8>,
    encoding: Encoding,
    hash: Digest,
    covered: u64,
    /// The bytes of key and signature; none where it is not signed.
    signature: Option<Vec<u8>>,
}

impl SealedTurn {
    /// Checks and takes `value`.
    ///
    /// # Errors
    /// The first violation of the schema.
    pub fn from_value(value: Value) -> Result<Self, SchemaViolation> {
        let canonical = canonical(&value)?;
        let shape = schema::check(&canonical)?;
        let (hash, encoding) = (shape.hash, shape.encoding);
        let signature = shape.sig.as_ref().map(signatures::bytes_of);
        let covered = covered(&canonical, &shape, encoding)?.len() as u64;
        match hash {
            None => Err(SchemaViolation::new("/hash", "is missing")),
            Some(hash) => Ok(Self {
                value,
                canonical,
                encoding,
                hash,
                covered,
                signature,
            }),
        }
    }

    /// The turn as received.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// The turn as received.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The RFC 8785 text of the whole sealed turn: one line of a JSON Lines scroll without its LF.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The deterministic CBOR of the whole sealed turn: one item of a CBOR scroll.
    ///
    /// # Errors
    /// When the turn is hashed as JCS: CBOR holds only turns that are hashed as CBOR.
    pub fn to_cbor(&self) -> Result<Vec<u8>, SchemaViolation> {
        match self.encoding {
            Encoding::Jcs => Err(SchemaViolation::new("/enc", "must be \"cbor\" in CBOR")),
            Encoding::Cbor => {
                cbor::to_vec(&self.value).map_err(|_| SchemaViolation::new("", "has no CBOR"))
            }
        }
    }

    /// The encoding under which the turn is hashed and signed.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The member `hash`: the `prev_hash` of the next turn.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// How many bytes the hash covers.
    pub fn covered_bytes(&self) -> u64 {
        self.covered
    }

    /// Does it carry a signature?
    pub fn is_signed(&self) -> bool {
        self.signature.is_some()
    }

    /// The bytes of its key and signature, for [`super::Signatures`].
    pub fn signature(&self) -> Option<&[u8]> {
        self.signature.as_deref()
    }
}

/// The canonical encoding of a turn: RFC 8785 text, or CBOR where the turn declares it.
pub fn serialize(turn: &Turn) -> Vec<u8> {
    turn.covered().to_vec()
}

/// Reads a turn: JSON text by the strict rules of [`json`], in any spelling, or deterministic CBOR.
/// The first byte decides: CBOR begins with the head of a map, JSON with a brace or a blank.
///
/// # Errors
/// The fault of the bytes or the turn.
pub fn deserialize(bytes: &[u8]) -> Result<Turn, SchemaViolation> {
    let is_cbor = bytes.first().is_some_and(|byte| byte >> 5 == 5);
    Turn::from_value(if is_cbor {
        cbor::parse(bytes).map_err(|error| not_cbor(&error))?
    } else {
        json::parse(bytes).map_err(|error| not_json(&error))?
    })
}

/// The required value of `args_hash` or `response_hash` for a body.
///
/// # Errors
/// [`Unrepresentable`] when the value has no canonical text.
pub fn body_hash(body: &Value) -> Result<Digest, Unrepresentable> {
    Ok(Digest::of(&jcs::to_vec(body)?))
}

/// `sha256:` and 64 hex digits.
pub fn hash_text(digest: &Digest) -> String {
    format!("sha256:{digest}")
}

pub(super) fn not_json(error: &json::JsonError) -> SchemaViolation {
    use json::JsonErrorKind as Kind;
    let problem = match error.kind {
        Kind::DuplicateKey => "has a member name twice",
        Kind::LoneSurrogate => "has a lone surrogate",
        Kind::InvalidUtf8 => "is not UTF-8",
        Kind::NonFiniteNumber => "has a number that is not a finite double",
        Kind::TooDeep => "is nested too deep",
        Kind::NumberTooLong => "has a number that is too long",
        Kind::TooManyValues => "has too many values",
        _ => "is not JSON",
    };
    SchemaViolation::new("", problem)
}

pub(super) fn not_cbor(error: &cbor::CborError) -> SchemaViolation {
    use cbor::CborErrorKind as Kind;
    let problem = match error.kind {
        Kind::UnexpectedEnd => "is cut off",
        Kind::InvalidUtf8 => "is not UTF-8",
        Kind::TooDeep => "is nested too deep",
        Kind::TooManyValues => "has too many values",
        Kind::KeyOrder => "has a member out of order or twice",
        _ => "is not deterministic CBOR of JSON",
    };
    SchemaViolation::new("", problem)
}

pub(super) fn canonical(value: &Value) -> Result<Vec<u8>, SchemaViolation> {
    jcs::to_vec(value).map_err(|error| {
        let problem = match error {
            Unrepresentable::LoneSurrogate => "has a lone surrogate",
            Unrepresentable::NonFinite => "has a number that is not a finite double",
            Unrepresentable::DuplicateKey => "has a member name twice",
        };
        SchemaViolation::new("", problem)
    })
}
