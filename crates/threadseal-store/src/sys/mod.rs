//! The system calls of this crate, as two traits: [`Fs`] for names, [`FileHandle`] for bytes.
//!
//! Every durable effect uses them. So a test can fail each call in turn, tear it, or cut the power
//! after it (the `fault` feature). The traits are as small as the crate's needs.
//!
//! ```text
//! promise                    call that gives it
//! bytes survive the process  append returned
//! bytes survive power loss   sync_data / sync_all returned, once and for these bytes
//! a name survives power loss sync_dir of its directory returned; on Windows there is no such promise
//! ```
//! What the system does is in one module for each, `unix` and `windows`; the latter begins with what differs.
//!
//! After one failed fsync, a later success proves nothing. Linux marks the pages clean and may keep
//! showing bytes that never reached the disk (Rebello et al., "Can Applications Recover from fsync
//! Failures?", USENIX ATC 2020). [`crate::append`] is built on that.

mod fs;
mod real;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use fs::{
    Access, FileHandle, FileIdentity, FileKind, Fs, Metadata, append_all, cause, directory_of,
    failure, led_to, message, path_text, place_itself, reason, text_path,
};
pub(crate) use fs::{read_full_at, uninterrupted, write_all_at};
pub use real::RealFs;
#[cfg(feature = "sqlite")]
pub(crate) use system::{is_locked, is_open_here};
