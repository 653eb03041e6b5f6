//! Segmented logs in object storage: what ledgers and transcripts there have in common.
//!
//! ```text
//! HEADS/<hex>                                        its head: the end, and the newest items
//! GONE/<hex>                                         empty: it was deleted
//! SEGMENTS/<hex>/<first>-<sha256><suffix>            sealed items
//! INDEXES/<hex>/<level>-<first>-<sha256><suffix>     references to sealed objects
//!
//! head    <label> <64 hex: SHA-256 of everything after this line> LF  line of JSON LF  items
//! index   <label> LF  {"<member>":…,"level":…,"refs":[{"first":…,"count":…,"sha256":…,…},…]} LF
//! ```
//! A [`Format`] names the folders, spells heads and segments, and decides which objects a head may
//! still come to name. Items are records of a ledger, or bytes of a transcript, numbered from 0.
//! Invariants:
//! * only heads are written again, and only in place of the version that was read; so of several
//!   writers one wins;
//! * a sealed object is durable before a head names it, and is never written again;
//! * an append is one write of a head, rarely with sealed objects before it, however long the log is;
//! * after a lost answer the head is read: it shows whether the write was done.

mod format;
mod fsck;
mod head;
mod levels;
mod log;
mod retry;

pub(crate) use format::{Facts, Folders, Format, Reference, SealedName};
pub(crate) use fsck::{Audit, check, read_head};
pub(crate) use head::Head;
pub(crate) use levels::{FANOUT, MAX_LEVELS, Span};
pub(crate) use log::{FoundHead, Indexes, SegmentedLog, Visit, Written, holding};
