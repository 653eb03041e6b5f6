//! Seal and verify the records of AI agents.
//!
//! The library is pure: bytes, trust and the caller's "now" go in, a [`report::Report`] comes
//! out. It reads no file, no clock, no environment and draws no randomness; what needs those is
//! an argument, and lives in `threadseal-store` and the command.
//!
//! Modules, lowest first; a module uses only what stands before it (a test enforces this):
//!
//! | module | owns |
//! |---|---|
//! | [`limits`] | every bound, as a named `MAX_*` |
//! | [`error`] | [`error::Error`], whose kind says what the caller should do |
//! | [`time`] | [`time::Timestamp`], microseconds since 1970 |
//! | [`encoding`] | strict hex and base64: one spelling each |
//! | [`digest`] | SHA-256 digests, tagged digests |
//! | [`canon`] | strict JSON reader, RFC 8785, named Python dialects |
//! | [`key`] | Ed25519 keys, their files and names, signers |
//! | [`merkle`] | RFC 6962 root, frontier and proofs |
//! | [`note`] | C2SP signed notes |
//! | [`record`] | record ids, thread ids, heads |
//! | [`tlog`] | C2SP transparency logs: checkpoints, tiles, proofs as files, witnesses |
//! | [`trust`] | whose signature counts, for what, until when |
//! | [`report`] | verdicts, findings, [`report::Verified`] |
//! | [`document`] | signed JSON and signed text files |
//! | [`transcript`] | signed event logs: native, Rye, observed |
//! | [`scroll`] | chains of sealed turns: agent-scroll v0.1 |
//! | [`ledger`] | hash-chained step ledgers: `AbstractRuntime` |
//! | [`lineage`] | signed checkpoints of an agent, and who may write the next: igor |
#![forbid(unsafe_code)]

pub mod canon;
pub mod digest;
pub mod document;
pub mod encoding;
pub mod error;
pub mod key;
pub mod ledger;
pub mod limits;
pub mod lineage;
pub mod merkle;
pub mod note;
pub mod record;
pub mod report;
pub mod scroll;
pub mod time;
pub mod tlog;
pub mod transcript;
pub mod trust;
