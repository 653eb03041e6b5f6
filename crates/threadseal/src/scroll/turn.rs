//! Turns that passed the schema, and their canonical bytes.
//!
//! ```text
//! serialize(turn)   = RFC 8785 text of the turn          deserialize(bytes) = the turn
//! body_hash(value)  = SHA-256( RFC 8785 text of value )  hash_text(digest)  = "sha256:" hex
//! ```
//! Members keep the order and numbers the spelling in which they came; the canonical text has
//! neither. A [`Turn`] has no `hash` and no `sig`, a [`SealedTurn`] has a `hash`.

use super::schema::{self, Role, SchemaViolation};
use crate::canon::json::{self, Value};
use crate::canon::{Unrepresentable, jcs};
use crate::digest::Digest;

/// A turn that is not sealed.
#[derive(Debug, Clone)]
pub struct Turn {
    value: Value,
    canonical: Vec<u8>,
    number: u64,
    role: Role,
    timestamp_ns: u64,
    prev_hash: Option<Digest>,
}

impl Turn {
    /// Checks and takes `value`.
    ///
    /// # Errors
    /// The first violation of the schema; a turn that has `hash` or `sig` is refused, because
    /// sealing it would hash its old seal.
    pub fn from_value(value: Value) -> Result<Self, SchemaViolation> {
        let canonical = canonical(&value)?;
        let shape = schema::check(&canonical)?;
        if shape.outside != [None, None] {
            return Err(SchemaViolation::new("", "is sealed already"));
        }
        Ok(Self {
            number: shape.turn,
            role: shape.role,
            timestamp_ns: shape.timestamp_ns,
            prev_hash: shape.prev_hash,
            value,
            canonical,
        })
    }

    /// The turn as it came.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// The turn as it came.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The RFC 8785 text.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The member `turn`.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The member `role`.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The member `timestamp_ns`, as its double stands for it.
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
    hash: Digest,
    is_signed: bool,
}

impl SealedTurn {
    /// Checks and takes `value`.
    ///
    /// # Errors
    /// The first violation of the schema.
    pub fn from_value(value: Value) -> Result<Self, SchemaViolation> {
        let canonical = canonical(&value)?;
        let shape = schema::check(&canonical)?;
        let (hash, is_signed) = (shape.hash, shape.sig.is_some());
        match hash {
            None => Err(SchemaViolation::new("/hash", "is missing")),
            Some(hash) => Ok(Self {
                value,
                canonical,
                hash,
                is_signed,
            }),
        }
    }

    /// The turn as it came.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// The turn as it came.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The RFC 8785 text of the whole sealed turn: one line of a JSON Lines scroll without its LF.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The member `hash`: what the next turn names.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Does it carry a signature?
    pub fn is_signed(&self) -> bool {
        self.is_signed
    }
}

/// The canonical text of a turn.
pub fn serialize(turn: &Turn) -> Vec<u8> {
    turn.canonical.clone()
}

/// Reads a turn by the strict rules of [`json`]; any spelling, not only the canonical one.
///
/// # Errors
/// What is wrong with the text or the turn.
pub fn deserialize(text: &[u8]) -> Result<Turn, SchemaViolation> {
    let value = json::parse(text).map_err(|error| not_json(&error))?;
    Turn::from_value(value)
}

/// What `args_hash` and `response_hash` must be for a body.
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
        Kind::NonFiniteNumber => "has a number that is no finite double",
        Kind::TooDeep => "is nested too deep",
        Kind::NumberTooLong => "has a number that is too long",
        Kind::TooManyValues => "has too many values",
        _ => "is not JSON",
    };
    SchemaViolation::new("", problem)
}

pub(super) fn canonical(value: &Value) -> Result<Vec<u8>, SchemaViolation> {
    jcs::to_vec(value).map_err(|error| {
        let problem = match error {
            Unrepresentable::LoneSurrogate => "has a lone surrogate",
            Unrepresentable::NonFinite => "has a number that is no finite double",
            Unrepresentable::DuplicateKey => "has a member name twice",
        };
        SchemaViolation::new("", problem)
    })
}
