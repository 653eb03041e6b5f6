//! Ledgers: the steps of a run as hash-chained records, as in `AbstractRuntime`.
//!
//! ```text
//! record   {"run_id",…,"prev_hash","record_hash","signature"}     16 members, all of them always
//! covered  the record without `record_hash` and `signature`, as `canon::python::ledger`
//! hash     SHA-256 of the covered bytes, in hex
//! chain    record i+1 has prev_hash = record_hash of record i; the first has null
//! ```
//! | file | owns |
//! |---|---|
//! | `record` | [`StepRecord`] and its parts |
//! | `run` | [`RunState`], [`WaitState`] |
//! | `actor` | [`ActorFingerprint`] |
//! | `hash` | [`compute_record_hash`] |
//! | `sign` | [`RecordSignature`], [`KnownKeys`] |
//! | `genesis` | [`Genesis`]: a ledger's declarations, and the keys that may sign it |
//! | `head` | [`SignedHead`]: where a ledger ended, signed |
//! | `link` | a record's link to the previous one, compared as Python compares |
//! | `load` | cutting files into lines as `AbstractRuntime` does, reading lines and rows |
//! | `facts` | all facts of one record alone |
//! | `marker` | markers for content that is stored elsewhere |
//! | `steps` | steps that begin and end, and the order of time |
//! | `compat` | the answer of `AbstractRuntime` |
//! | `chain`, `conclude` | a verdict on a ledger of any length, in constant memory |
//! | `signers` | the keys that signed, and whether they may |
//! | `bundle` | [`Bundle`]: several ledgers in one document |
//! | `members` | reading and writing the members of a record by name |

mod actor;
mod beginnings;
mod bundle;
mod chain;
mod compat;
mod conclude;
mod facts;
mod genesis;
mod hash;
mod head;
mod link;
mod load;
mod marker;
mod members;
mod record;
mod run;
mod sign;
mod signers;
mod steps;

pub use actor::ActorFingerprint;
pub use beginnings::{BEGINNINGS_EFFECT, LaterBeginning, LaterBeginnings, MAX_LATER_BEGINNINGS};
pub use bundle::{Bundle, BundledLedger, Records, write_bundle};
pub use chain::{ChainOptions, ChainTip, Verifier, View};
pub use compat::ChainReport;
pub use conclude::{HeadAtHand, Judging, LedgerCoverage, Outcome, conclude, judge};
pub use genesis::{ACTORS_EFFECT, Actors, Declaration, FORMAT, GENESIS_EFFECT, Genesis, Parent};
pub use hash::{compute_record_hash, covered_bytes};
pub use head::{
    FileDigest, HEAD_ORIGIN, HeadStatement, SignedHead, head_of, line_of_unsigned, record_in_place,
};
pub use load::{LineRead, LineReader, LineSplitter, Place};
pub use record::{Effect, RunId, StepRecord, StepStatus, step_id_from_random};
pub use run::{RunState, RunStatus, WaitReason, WaitState};
pub use sign::{KnownKeys, RecordSignature, Signatures};
pub use signers::signer_name;

#[cfg(test)]
mod tests;
