//! Files that ThreadSeal itself leaves in folders and that are no records.
//!
//! ```text
//! RECORD.tail-OFFSET-SHA256    bytes that no seal covered, moved out of the record beside it
//! thread.json.changed-SHA256   what another program wrote in the place of that file
//! .threadseal-PID-N.tmp        a file that a process died over before it got its name
//! ```
//! A name hides no record that a reader would read: nothing reads temporary files; a tail must match its
//! name, be beside its record, and hold no seal of a record; nothing reads a file that was changed,
//! which must match its name and be beside its place.

use super::context::Context;
use crate::detect;
use crate::error::VerifyError;
use crate::layout::THREAD_FILE;
use std::path::Path;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_store::atomic;
use threadseal_store::read::{RegularFile, Source as _};

/// Is it one of them?
///
/// # Errors
/// When it cannot be read.
pub(super) fn is_one(context: &Context, file: &RegularFile) -> Result<bool, VerifyError> {
    let name = file.path().file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    if atomic::is_temporary(&name) {
        return Ok(true);
    }
    let is_beside = |record: &str| context.is_file(&file.path().with_file_name(record));
    if let Some(sha256) = changed_of(&name) {
        return Ok(is_beside(THREAD_FILE) && digest_of(file)? == sha256);
    }
    let Some((record, sha256)) = tail_of(&name) else {
        return Ok(false);
    };
    Ok(is_beside(record) && !detect::has_native_seal(file)? && digest_of(file)? == sha256)
}

/// The digest that the name of a changed file gives.
fn changed_of(name: &str) -> Option<Digest> {
    let rest = name.strip_prefix(THREAD_FILE)?.strip_prefix(".changed-")?;
    Digest::parse_hex(rest)
}

/// The record and the digest that the name of a tail gives.
fn tail_of(name: &str) -> Option<(&str, Digest)> {
    let (record, rest) = name.rsplit_once(".tail-")?;
    let (offset, sha256) = rest.split_once('-')?;
    offset.parse::<u64>().ok()?;
    Some((record, Digest::parse_hex(sha256)?))
        .filter(|(record, _)| !Path::new(record).is_absolute())
}

fn digest_of(file: &RegularFile) -> Result<Digest, VerifyError> {
    let (mut chunks, mut buffer, mut hasher) = (file.chunks(), Vec::new(), Hasher::new());
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_this_program_gives_are_taken_for_left_overs() {
        let sha256 = Digest::of(b"tail");
        let name = format!("a.jsonl.tail-12-{sha256}");
        assert_eq!(tail_of(&name), Some(("a.jsonl", sha256)));
        for other in ["a.jsonl.tail-12", "a.jsonl.tail-x-00", "a.jsonl"] {
            assert_eq!(tail_of(other), None, "{other}");
        }
        assert_eq!(
            changed_of(&format!("thread.json.changed-{sha256}")),
            Some(sha256)
        );
        assert_eq!(changed_of(&format!("a.json.changed-{sha256}")), None);
        assert!(atomic::is_temporary(".threadseal-12-0.tmp"));
        for other in [
            ".threadseal-12.tmp",
            ".threadseal--1.tmp",
            "x.tmp",
            ".threadseal-1-2.tmp.json",
        ] {
            assert!(!atomic::is_temporary(other), "{other}");
        }
    }
}
