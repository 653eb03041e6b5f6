//! Stores of transcripts: native records by name.
//!
//! ```text
//! create ─► Appender           the record appears with its first lines, durable
//! claim ─► Claim ─ reader ─► verify ─ appender ─► Appender
//! read ─► RegularFile          the record as it is now, for any number of readers
//! delete                       all of it, if it ends where it was seen to end
//! ```
//! Laws, for every implementation (`spec/transcript-store.md` is normative):
//! * the bytes of a record, joined, are exactly the native transcript; a store changes none;
//! * of two writers at most one appends. The store refuses the second ([`FileTranscriptStore`]), or
//!   the second takes the record over ([`ObjectTranscriptStore`]). Then the first gets an error;
//! * [`Appender::flush`] returned: *written*; [`Appender::sync`] returned: *durable*. A store may
//!   make both of them true at once, never less;
//! * after an error an [`Appender`] promises nothing more and does nothing more.
//!
//! [`crate::recorder`] decides which bytes are appended, and verification decides what they prove.

mod file;
#[cfg(feature = "object")]
mod object;
mod record_name;
mod transcript_store;

pub use file::FileTranscriptStore;
#[cfg(feature = "object")]
pub use object::ObjectTranscriptStore;
pub use record_name::{MAX_RECORD_NAME_BYTES, RecordName, split_address};
pub use transcript_store::{Appender, Claim, FsckReport, TranscriptStore};
