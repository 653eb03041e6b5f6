//! Durable effects: everything that ThreadSeal does to the world outside its memory.
//!
//! The core decides what bytes mean; this crate decides when they are safe. Each function states
//! what is true after it returned, and after it failed.
//!
//! | module | owns |
//! |---|---|
//! | [`sys`] | the system calls, as two traits, so that tests can fail each in turn |
//! | [`clock`] | the only place that reads time |
//! | [`random`] | the only place that draws randomness |
//! | [`read`] | streaming from one open file, noticing change |
//! | [`pipeline`] | two stages over one stream, in constant memory |
//! | [`atomic`] | files that appear whole or not at all |
//! | [`lock`] | one writer per record |
//! | [`append`] | the append-only log: *written* and *durable* |
//! | [`heads`] | last known heads, by compare-and-swap |
//! | [`objects`] | object storage as five calls: S3, GCS, Azure (feature `object`), a folder |
//! | `object_log` | segmented logs in object storage, for ledgers and transcripts (feature `object`) |
//! | [`examine`] | verifying files: native records on two cores, observed logs |
//! | [`epochs`] | keys that seal a part of one record each |
//! | [`bodies`] | files of detached bodies beside native records |
//! | [`tombstones`] | the tombstones of pruned records, and the removal of the rest |
//! | [`transcripts`] | stores of native records: files, object storage |
//! | [`recorder`] | writing native records |
//! | [`scroll`] | verifying scrolls on all cores, writing live ones |
//! | [`ledger`] | stores of step ledgers, appended by compare-and-swap |
//! | `sqlite` | ledgers and objects in SQLite files; files of other layers (feature `sqlite`) |
//! | `postgres` | ledgers, heads, objects, orders and files in PostgreSQL (feature `postgres`) |
//! | [`lineage`] | stores of agents' checkpoints and keys, and moving agents between machines |
//! | [`observer`] | sealing logs that other programs write |
//! | [`host`] | the effects of one host, bundled |
//! | [`key_ends`] | the end of keys, and the sections in which seals are made |
//! | [`home`] | `$THREADSEAL_HOME`: keys, trust, heads |
//! | [`owned_files`] | files that no other user could write |
//! | [`fsck`] | one fault in a store |
//! | [`address`] | the addresses of stores |
//! | [`open`] | opening any store by its address |
//! | `runtime` | waiting for libraries that are only async (feature `runtime`) |
//!
//! Only for tests (feature `fault`): `fault`, a disk in memory that fails, tears and loses power
//! on command; `clock::ManualClock`; `random::SeededRandom`; `snapshot`, texts that are frozen in files;
//! `testing`, scenes and child processes.
#![forbid(unsafe_code)]

pub mod address;
pub mod append;
pub mod atomic;
mod batches;
pub mod bodies;
pub mod clock;
pub mod epochs;
pub mod examine;
#[cfg(any(test, feature = "fault"))]
pub mod fault;
pub mod fsck;
pub mod heads;
pub mod home;
pub mod host;
pub mod key_ends;
pub mod ledger;
pub mod lineage;
pub mod lock;
pub mod moved;
#[cfg(feature = "object")]
mod object_log;
pub mod objects;
pub mod observer;
pub mod open;
pub mod owned_files;
pub mod pipeline;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod random;
pub mod read;
pub mod recorder;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod scroll;
#[cfg(any(test, feature = "fault"))]
pub mod snapshot;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod sys;
#[cfg(any(test, feature = "fault"))]
pub mod testing;
pub mod tombstones;
pub mod transcripts;
