//! Canonical bytes, keys, trees, notes, trust and reports: the parts of every record format.
//!
//! The crate is pure: it reads no file, no clock, no environment, and draws no randomness. The
//! caller's "now" is an argument. The formats themselves are in `threadseal-formats`.
//!
//! Modules, lowest first; a module uses only modules above it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`limits`] | every bound, as a named `MAX_*` |
//! | [`error`] | [`error::Error`], whose kind names the caller's next action |
//! | [`time`] | [`time::Timestamp`], microseconds since 1970 |
//! | [`encoding`] | strict hex and base64: one spelling each |
//! | [`fold`] | text without regard to case, for searches |
//! | [`digest`] | SHA-256 digests, tagged digests |
//! | [`canon`] | strict JSON reader, RFC 8785, named Python dialects, deterministic CBOR |
//! | [`key`] | Ed25519 keys, their files and names, signers |
//! | [`merkle`] | RFC 6962 root, frontier and proofs |
//! | [`salts`] | salts of lines, from one secret |
//! | [`note`] | C2SP signed notes |
//! | [`record`] | record ids, thread ids, heads |
//! | [`tlog`] | C2SP transparency logs: checkpoints, tiles, proofs as files, witnesses |
//! | [`trust`] | which keys count, for which records, until when |
//! | [`identity`] | the public keys of one person or machine, in one signed file |
//! | [`report`] | verdicts and findings, one shape for all formats |
//! | `testing` | keys and trust for tests; only with the feature of that name |
#![forbid(unsafe_code)]

pub mod canon;
pub mod digest;
pub mod encoding;
pub mod error;
pub mod fold;
pub mod identity;
pub mod key;
pub mod limits;
pub mod merkle;
pub mod note;
pub mod record;
pub mod report;
pub mod salts;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod tlog;
pub mod trust;
