//! Seals turns: link, hash, signature (`spec/scroll.md` §5).
//!
//! ```text
//! turn + prev_hash ─► canonical bytes ─┬─ SHA-256 ─► "hash"
//!                                      └─ Ed25519 ─► "sig"
//! ```
//! The signature is over the canonical bytes, not over the hash. A key of the usage `scroll`
//! signs turns and nothing else.

use super::schema::Encoding;
use super::turn::{SealedTurn, Turn, hash_text};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{Message, Signer};
use threadseal_core::limits::MAX_TURN_BYTES;

/// Bytes that hash and signature add to a turn, at most.
const MAX_ADDED_BYTES: usize = 1 << 10;

/// Seals one turn after the turn with the hash `prev`.
///
/// # Errors
/// Kind `Limit` when no reader would take the sealed turn; kind `Refused` when the turn names another predecessor, or the signer refuses; kind `External`
/// when the signer fails.
pub fn seal(
    turn: Turn,
    prev: Option<Digest>,
    signer: Option<&dyn Signer>,
) -> Result<SealedTurn, Error> {
    let turn = linked(turn, prev)?;
    let covered = turn.covered().to_vec();
    if covered.len() > MAX_TURN_BYTES - MAX_ADDED_BYTES {
        let text = format!("a sealed turn has at most {MAX_TURN_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    let hash = Digest::of(&covered);
    let Value::Object(mut members) = turn.into_value() else {
        return Err(Error::invalid("a turn is an object"));
    };
    members.push(("hash".into(), hash_text(&hash).into()));
    if let Some(signer) = signer {
        members.push(("sig".into(), sign(covered, signer)?));
    }
    SealedTurn::from_value(Value::Object(members))
        .map_err(|violation| Error::invalid(violation.to_string()))
}

/// May `turn` be at `place` of a chain, after the turns that are hashed as `before`? Without this
/// check v0.1 accepts the chain, but a verifier here reports it as cut or repeated.
///
/// # Errors
/// Kind `InvalidInput` when its number is not its place, or its encoding is another one.
pub fn check_place(turn: &Turn, place: u64, before: Option<Encoding>) -> Result<(), Error> {
    let number = turn.number();
    if number != place {
        return Err(Error::invalid(format!(
            "`turn` is {number}, not {place}: turns are numbered from 0, without gaps"
        )));
    }
    if before.is_some_and(|before| before != turn.encoding()) {
        return Err(Error::invalid(
            "`enc` differs from that of the turn before it: a chain has one encoding",
        ));
    }
    Ok(())
}

/// Seals turns one after the other, the first without a predecessor.
///
/// # Errors
/// As [`seal`].
pub fn seal_chain(
    turns: impl IntoIterator<Item = Turn>,
    signer: Option<&dyn Signer>,
) -> Result<Vec<SealedTurn>, Error> {
    let mut prev = None;
    let mut chain = Vec::new();
    for turn in turns {
        let sealed = seal(turn, prev, signer)?;
        prev = Some(sealed.hash());
        chain.push(sealed);
    }
    Ok(chain)
}

fn linked(turn: Turn, prev: Option<Digest>) -> Result<Turn, Error> {
    if turn.prev_hash() == prev {
        return Ok(turn);
    }
    let (None, Some(prev)) = (turn.prev_hash(), prev) else {
        return Err(Error::refused(
            "the turn names another predecessor than the turn before it",
        ));
    };
    let Value::Object(mut members) = turn.into_value() else {
        return Err(Error::invalid("a turn is an object"));
    };
    members.push(("prev_hash".into(), hash_text(&prev).into()));
    Turn::from_value(Value::Object(members))
        .map_err(|violation| Error::invalid(violation.to_string()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "`covered` is the canonical text of a turn that passed the schema"
)]
fn sign(covered: Vec<u8>, signer: &dyn Signer) -> Result<Value, Error> {
    let signature = signer.sign(&Message::danger_of_turn(covered))?;
    let text = |bytes: &[u8]| Value::from(encoding::base64(bytes));
    Ok(Value::Object(vec![
        ("alg".into(), "ed25519".into()),
        ("pubkey".into(), text(signer.public_key().as_bytes())),
        ("sig".into(), text(signature.as_bytes())),
    ]))
}
