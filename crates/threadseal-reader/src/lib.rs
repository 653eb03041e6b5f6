//! One file alone, without a host: what kind of record it is, what can be proved about it, and its turns to show.
//!
//! The crate is pure. A command and a page in a browser call it, so that both print the same. What a host
//! knows (heads, a log, files beside) is in `threadseal-verify`, which uses the same rules of recognition.
//!
//! ```text
//! chunks ─► FileVerifier ─► reports                          bytes ─► Session ─► rows, turns, hits, proofs
//! ```
//! | module | owns |
//! |---|---|
//! | [`clean`] | text of records, made safe to print |
//! | [`output`] | reports as JSON |
//! | [`content`] | the bytes of a file, wherever they are |
//! | [`lines`] | cutting pushed bytes into lines |
//! | [`recognise`] | what kind of record a file is |
//! | [`given`] | whose signatures count, from keys and files that a caller gives |
//! | [`asked`] | what a caller asks of a file, and what is beside it |
//! | `passes` | one pass over a record that is pushed |
//! | `claims` | all claims about a file that is held |
//! | [`alone`] | [`FileVerifier`]: the verdict on a file that is pushed |
//! | [`events`] | a line of a log in the terms of people |
//! | [`proof`] | proofs and evidence, checked |
//! | [`turns`] | a turn in the terms of people |
//! | [`plain`] | a log as plain text, for pages without scripts |
//! | [`words`] | words in turns |
//! | [`session`] | [`session::Session`]: the turns of one file, each with what is sealed of it |
#![forbid(unsafe_code)]

pub mod alone;
pub mod asked;
mod claims;
pub mod clean;
pub mod content;
pub mod events;
pub mod given;
pub mod lines;
pub mod output;
mod passes;
#[cfg(feature = "session")]
pub mod plain;
pub mod proof;
pub mod recognise;
#[cfg(feature = "session")]
pub mod session;
#[cfg(feature = "session")]
pub mod turns;
#[cfg(feature = "session")]
pub mod words;

pub use alone::FileVerifier;
pub use asked::Asked;
