//! The verifier of ThreadSeal: files, folders and stores of records, with what a host knows of them.
//!
//! The core decides what bytes prove; this crate adds what a host knows: which kind of record a file is, the last known
//! heads, the host's log, detached bodies, tombstones, and the records that other records name. A program that links it
//! gets what `threadseal verify` prints. It reads; it writes and publishes nothing.
//!
//! ```text
//! paths ─► inputs::find ─► Verifier::verify_candidate ─► detect ─► the core's verifier ─► host knowledge ─► FileResult
//!                                                                        links between records ─► VerifyRun ─► JSON
//! path ──► open_verified ─► the same for one transcript ─► VerifiedRecord, as far as the caller needs
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`error`] | [`VerifyError`]: why there is no verdict |
//! | [`notices`] | messages for people, and progress |
//! | [`layout`] | where the files of threads are |
//! | [`money`], [`limit`] | limits of threads, which line 1 and `thread.json` must share |
//! | [`lines`] | the lines of a file, in bounded memory |
//! | [`detect`] | what kind of record a file on a disk is |
//! | [`address`] | addresses of stores and records |
//! | [`inputs`] | from paths to files |
//! | [`home_log`] | the log of a home |
//! | [`hosts`] | hosts with and without a home |
//! | [`home_keys`], [`home_key_ends`] | the keys of a home; those that ended |
//! | [`anchor_files`] | policies and authorities of a home |
//! | [`anchors`] | what witnesses saw of a log |
//! | [`identities`] | the identities that a home knows |
//! | [`trust_file`] | trust stores and files with public keys |
//! | [`trust_locality`] | trust that comes from the tree that it judges |
//! | [`key_places`], [`trust_sources`] | whose signatures count in one run |
//! | [`request`] | what a run asks of each record |
//! | [`verifier`] | [`Verifier`]: one file in, its reports out |
//! | [`all_records`] | every record that a home knows |
//! | [`run`] | all paths of a run, and the links between their records |
//! | [`evidence`] | evidence of two histories, made and judged |
//! | [`record`] | [`open_verified`]: a record for a caller that relies on it |
#![forbid(unsafe_code)]

pub mod address;
pub mod all_records;
pub mod anchor_files;
pub mod anchors;
pub mod detect;
pub mod error;
pub mod evidence;
pub mod home_key_ends;
pub mod home_keys;
pub mod home_log;
pub mod hosts;
pub mod identities;
pub mod inputs;
pub mod key_places;
pub mod layout;
pub mod limit;
pub mod lines;
pub mod money;
pub mod notices;
pub mod record;
pub mod request;
pub mod run;
pub mod source;
pub mod trust_file;
pub mod trust_locality;
pub mod trust_sources;
pub mod verifier;

/// Text of records, made safe to print; reports as JSON: rooms of `threadseal-reader`.
pub use threadseal_reader::{clean, output};

pub use error::VerifyError;
pub use record::{Need, OpenError, VerifiedRecord, open_verified};
pub use request::VerifyRequest;
pub use source::JudgedSource;
pub use verifier::{FileResult, Verifier};
