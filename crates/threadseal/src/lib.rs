//! Record, seal, verify and prove what AI agents did.
//!
//! An agent's transcript is a file that anyone can edit. This library seals it while it grows, and
//! gives its content only to programs that verified it.
//!
//! # Where to begin
//!
//! * You have bytes and a key: [`verify`], then [`Verification::into_verified`].
//! * You have a document: [`seal`].
//! * You run an agent: [`Writer::record`], and [`Writer::resume`] after a restart.
//! * You show one turn to someone else: [`prove`] and [`check_proof`].
//! * You have files and a home, as the command has: [`OpenedHome`], [`Verifier`] and [`open_verified`].
//! * You have sessions of another program: [`convert`].
//! * You run threads and graphs of a project: `runtime`, with the feature `agent`.
//!
//! The parts are re-exported whole: [`core`], [`formats`], [`reader`], [`store`], [`log`].
//!
//! # Record and verify
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("session.jsonl");
//! use threadseal::{Trust, Writer};
//!
//! let writer = Writer::danger_with_seed([7; 32], folder.path())?; // a program opens its home
//! let mut record = writer.record(&path, "agency/scout")?;
//! record.append(&"cognition_in".parse()?, &r#"{"text":"Find the leads."}"#.parse()?)?;
//! record.seal(1, Default::default())?; // turn 1 is durable and sealed
//! record.end(threadseal::Ending::Completed, &"{}".parse()?, 1)?;
//!
//! let bytes = std::fs::read(&path)?;
//! let trust = Trust::key(writer.public_key());
//! let verified = threadseal::verify(&bytes, &trust, writer.now()?)?.into_verified()?;
//! assert_eq!(verified.bytes(), bytes);
//!
//! // One changed byte, and there is no verified record.
//! let forged = String::from_utf8(bytes)?.replace("Find", "Hide");
//! let refused = threadseal::verify(forged.as_bytes(), &trust, writer.now()?)?.into_verified();
//! assert_eq!(refused.unwrap_err().verdict().as_str(), "tampered");
//! # Ok(()) }
//! ```
//!
//! # Resume after a restart
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("session.jsonl");
//! # use threadseal::Writer;
//! let writer = Writer::danger_with_seed([7; 32], folder.path())?;
//! let mut record = writer.record(&path, "agency/scout")?;
//! record.append(&"cognition_in".parse()?, &r#"{"text":"Find the leads."}"#.parse()?)?;
//! record.seal(1, Default::default())?;
//! drop(record);
//!
//! // The record verifies before the first new byte is written.
//! let mut record = writer.resume(&path)?;
//! record.append(&"cognition_out".parse()?, &r#"{"text":"Three."}"#.parse()?)?;
//! record.seal(2, Default::default())?;
//! drop(record);
//!
//! std::fs::write(&path, std::fs::read_to_string(&path)?.replace("Three", "Four"))?;
//! assert!(writer.resume(&path).is_err());
//! # Ok(()) }
//! ```
//!
//! # Delete a text for good
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("session.jsonl");
//! use threadseal::{Trust, Writer};
//!
//! let writer = Writer::danger_with_seed([7; 32], folder.path())?.with_detached_bodies();
//! let mut record = writer.record(&path, "agency/scout")?;
//! record.append(&"cognition_in".parse()?, &r#"{"text":"My number is 555-0199"}"#.parse()?)?;
//! record.seal(1, Default::default())?;
//! let text = std::fs::read_to_string(&path)?;
//! let line = text.lines().find(|line| line.contains("cognition_in")).ok_or("no event")?;
//! let bodies = threadseal::commitments(line.as_bytes())?;
//! let digests = bodies.iter().map(|body| body.digest).collect();
//! record.redact(digests, "operator".into(), "a private number".into())?;
//! record.end(threadseal::Ending::Completed, &"{}".parse()?, 1)?;
//!
//! let bytes = std::fs::read(&path)?;
//! assert!(!String::from_utf8_lossy(&bytes).contains("555-0199"));
//! let trust = Trust::key(writer.public_key());
//! threadseal::verify(&bytes, &trust, writer.now()?)?.into_verified()?; // every seal still holds
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod home;
mod proof;
mod simple;
mod writer;

/// Canonical bytes, keys, trees, notes, trust and reports.
pub use threadseal_core as core;
/// The record formats, each with its verifier.
pub use threadseal_formats as formats;
/// The transparency log of a host.
pub use threadseal_log as log;
/// One file without a host: its kind, its verdict, and proofs checked.
pub use threadseal_reader as reader;
/// Durable effects: files, locks, stores, the recorder.
pub use threadseal_store as store;

/// Sessions of other programs to scrolls and back.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use threadseal::convert;
///
/// let source = br#"{"messages":[{"role":"user","content":"Hello"},
///                               {"role":"assistant","content":"Hello, Ada."}]}"#;
/// let format = convert::detect(source).ok_or("an unknown format")?;
/// let mapped = format.map(source)?;
/// assert_eq!(mapped.drafts.len(), 2);
/// # Ok(()) }
/// ```
#[cfg(feature = "convert")]
pub use threadseal_convert as convert;

/// Threads and graphs of agents: the engine that runs them, their registry and budgets.
#[cfg(feature = "agent")]
pub use threadseal_runtime as runtime;

pub use home::OpenedHome;
pub use proof::{check_proof, prove};
pub use simple::{NotVerified, Verification, VerifiedBytes, seal, verify};
pub use threadseal_core::error::{Error, ErrorKind};
pub use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, PublicKey, Signer};
pub use threadseal_core::record::{Head, RecordId, ThreadId};
pub use threadseal_core::report::{Finding, Report, Verdict};
pub use threadseal_core::time::Timestamp;
pub use threadseal_core::trust::{Trust, TrustStore};
pub use threadseal_formats::transcript::Ending;
pub use threadseal_formats::transcript::bodies::commitments;
pub use threadseal_formats::transcript::event::{EventType, Payload};
pub use threadseal_formats::transcript::ext::Ext;
pub use threadseal_formats::verified::{Grounds, Verified};
pub use threadseal_store::recorder::{Opened, Recorder, TailPolicy};
pub use threadseal_verify::{
    Need, OpenError, VerifiedRecord, Verifier, VerifyRequest, open_verified,
};
pub use writer::Writer;
