//! Scrolls: chains of sealed turns, agent-scroll v0.1 (`spec/scroll.md`).
//!
//! ```text
//! turn     {"version":"scroll/0.1","turn":N,"role",…,"timestamp_ns":N,"prev_hash"?}
//! sealed   turn + {"hash":"sha256:HEX","sig"?:{"alg":"ed25519","pubkey":B64,"sig":B64}}
//! covered  JCS(sealed without `hash` and `sig`): the bytes that are hashed, and signed
//! chain    turn i+1 has prev_hash = hash of turn i; `hash` covers prev_hash, `sig` is outside
//! ```
//! | file | owns |
//! |---|---|
//! | `walk` | crossing text that is canonical already |
//! | `schema` | the schema of a turn, checked on its canonical text |
//! | `turn` | [`Turn`], [`SealedTurn`]: values that passed the schema |
//! | `seal` | hash, signature, link |
//! | `signatures` | a digest of all signatures up to a turn |
//! | `quick` | the same for usual turns, in one walk |
//! | `keys` | the signing keys, and a cache that makes later signatures cheaper |
//! | `facts` | all facts of one sealed turn alone |
//! | `verify` | the specification's `verify`, and the answer of v0.1 |
//! | `container` | how the turns are in a file: one array, lines, a CBOR sequence |
//! | `split` | cutting files into turns |
//! | `conversion` | the claim of a converter about the source of a scroll |
//! | `chain`, `conclude` | a verdict on a chain of any length, in constant memory |
//!
//! Invariants: every rule of the schema is checked on canonical text and nowhere else. Unknown
//! members are hashed, never dropped. Numbers are doubles, as RFC 8785 requires.

mod chain;
mod conclude;
mod container;
mod conversion;
mod facts;
mod keys;
mod quick;
mod schema;
mod seal;
mod signatures;
mod split;
mod turn;
mod verify;
mod walk;

pub use chain::{ChainOptions, Tip, Verifier};
pub use conclude::{ChainCoverage, Judging, Outcome, conclude, judge, signer_name};
pub use container::{container_of, has_marks_of_cbor};
pub use conversion::{CONVERSION_ROLE, conversion_of, read_conversion};
pub use facts::{
    Form, RoundedTimestamp, TurnRead, TurnReader, UncoveredDigits, read_turn, uncovered_digits,
};
pub use schema::{Encoding, MAX_TURN_NUMBER, Role, SchemaViolation, VERSION};
pub use seal::{check_place, seal, seal_chain};
pub use signatures::Signatures;
pub use split::{Container, ContainerFault, End, Place, Splitter};
pub use turn::{SealedTurn, Turn, body_hash, deserialize, hash_text, serialize};
pub use verify::{Failure, Reason, VerifyResult, verify, verify_as_v01};

#[cfg(test)]
mod tests;
