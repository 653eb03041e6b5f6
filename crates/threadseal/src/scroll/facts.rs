//! What one sealed turn shows by itself, whatever stands before and after it.
//!
//! ```text
//! canonical text ─► schema ─► covered bytes ─┬─ SHA-256 = hash?
//!                        │                   └─ Ed25519 under sig.pubkey?
//!                        └──► bodies ─ SHA-256 = args_hash, response_hash?
//! ```
//! This is where the work is; joining the facts of many turns to a chain costs nothing beside it.
//! So facts may be gathered in any order, on any core.

use super::schema::{self, CALLS, RESULTS, SchemaViolation, Tools, hash_of};
use super::walk::{elements, members};
use crate::digest::Digest;
use crate::key::{PublicKey, Signature};

/// The signature of a turn.
#[derive(Debug, Clone)]
pub(super) struct SigFacts {
    /// `sig.pubkey`; `None` when it is no key under which one may verify.
    pub(super) key: Option<PublicKey>,
    /// Does the signature verify under `sig.pubkey`?
    pub(super) holds: bool,
    /// Does it verify under the key that the caller pinned?
    pub(super) holds_for_pinned: bool,
}

/// One sealed turn that follows the schema.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) prev_hash: Option<Digest>,
    /// The member `hash`.
    pub(super) hash: Digest,
    /// Is it the digest of the covered bytes?
    pub(super) hash_holds: bool,
    pub(super) sig: Option<SigFacts>,
    /// A body that is not what its hash says.
    pub(super) body: Option<SchemaViolation>,
}

/// Gathers the facts of a sealed turn's canonical text.
///
/// # Errors
/// The first violation of the schema.
pub(super) fn of_canonical(
    canonical: &[u8],
    pinned: Option<&PublicKey>,
) -> Result<Facts, SchemaViolation> {
    let shape = schema::check(canonical)?;
    let Some(hash) = shape.hash else {
        return Err(SchemaViolation::new("/hash", "is missing"));
    };
    let covered = without(canonical, &shape.outside);
    let sig = shape.sig.as_ref().map(|sig| {
        let signature = Signature::from_bytes(sig.sig);
        let key = PublicKey::from_bytes(&sig.pubkey).ok();
        let verifies = |key: &PublicKey| key.verify(&covered, &signature).is_ok();
        let holds = key.as_ref().is_some_and(verifies);
        SigFacts {
            holds_for_pinned: match pinned {
                Some(pinned) if key.as_ref() == Some(pinned) => holds,
                Some(pinned) => verifies(pinned),
                None => false,
            },
            key,
            holds,
        }
    });
    Ok(Facts {
        prev_hash: shape.prev_hash,
        hash,
        hash_holds: Digest::of(&covered) == hash,
        sig,
        body: body_fault(shape.tool_calls, &CALLS)
            .or_else(|| body_fault(shape.tool_results, &RESULTS)),
    })
}

/// The text of an object without the members at `spans`, which are in order and not all it has.
fn without(canonical: &[u8], spans: &[Option<(usize, usize)>; 2]) -> Vec<u8> {
    let mut covered = Vec::with_capacity(canonical.len());
    let mut at = 0;
    for (from, to) in spans.iter().flatten() {
        // A member goes with the comma before it, the first with the one behind it.
        let (from, to) = match from {
            1 => (1, to + 1),
            _ => (from - 1, *to),
        };
        covered.extend_from_slice(canonical.get(at..from).unwrap_or_default());
        at = to;
    }
    covered.extend_from_slice(canonical.get(at..).unwrap_or_default());
    covered
}

/// The first body that is there and does not have the digest that is said of it.
fn body_fault(tools: Option<&[u8]>, names: &Tools) -> Option<SchemaViolation> {
    for (index, tool) in tools.and_then(elements)?.enumerate() {
        let (mut hash, mut body) = (None, None);
        for member in members(tool)? {
            if member.name == names.hash.as_bytes() {
                hash = hash_of(member.value);
            } else if member.name == names.body.as_bytes() {
                body = Some(member.value);
            }
        }
        if body.is_some_and(|body| Some(Digest::of(body)) != hash) {
            let at = format!("/{}/{index}/{}", names.list, names.hash);
            return Some(SchemaViolation::new(at, "is not the digest of the body"));
        }
    }
    None
}
