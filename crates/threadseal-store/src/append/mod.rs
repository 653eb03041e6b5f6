//! A file that only grows, and two promises about the bytes appended to it.
//!
//! ```text
//! append_buffered   no promise yet: the bytes wait in this process
//! append, flush     written: they survive this process, also SIGKILL
//! sync              durable: they survive power loss
//! ```
//! Invariants:
//! * **A failure is final.** After one failed write, fsync or truncation the log gives no promise
//!   any more. A later fsync that succeeds would prove nothing about the pages of the earlier one
//!   (see [`crate::sys`]). Drop the log, open it again, verify the file, and continue from that.
//! * **Opening repairs the page cache.** Bytes above `durable_floor` (the size in the last known
//!   head) are written again in place and synced. Only then does the log promise anything about
//!   them. Otherwise power loss could remove bytes under a published head. A process that reopens a
//!   file after another's failed fsync would read bytes from the cache and sync "successfully". It
//!   would publish a head, and lose the bytes at the next power cut.
//! * **No other process appends.** The log holds the record's lock. Before each write and after
//!   each sync it compares the file's size with its own count. So it notices a program that ignores
//!   the lock at once. It leaves the bytes of that program as they are.
//!
//! The log knows bytes, not lines: the sealer decides what a line is.

mod failure;
mod log;
mod tail;

pub(crate) use failure::FirstFailure;
pub use log::{Log, MAX_BUFFERED_BYTES};
pub use tail::{MovedTail, tails_of};
