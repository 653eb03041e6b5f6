//! Evidence of two histories: made of copies of a record, and judged where it is of a log or a lineage.
//!
//! Making evidence needs no verdict about the copies: it is checked like any evidence before a caller gets it.

use crate::address::Stores;
use crate::error::VerifyError;
use crate::inputs;
use crate::notices::Notices;
use crate::verifier::MAX_TAKEN_UP_BYTES;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::record::RecordId;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_formats::lineage::{CheckedFork, ForkReader, Judging, check_fork};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::conflict::{SealConflict, check_file};
pub use threadseal_reader::proof::{LogKey, of_checkpoints, of_tombstone};
use threadseal_store::examine;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::sys::Fs;

/// Copies of one record that are compared with each other.
const MAX_COPIES: usize = 16;

/// Evidence that one key sealed two histories of a record.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The file, as text.
    pub text: String,
    /// The two copies.
    pub copies: [PathBuf; 2],
}

/// The first evidence that the native records of `paths` hold.
///
/// # Errors
/// When a file cannot be read.
pub fn find(
    paths: &[PathBuf],
    stores: &Stores,
    fs: &dyn Fs,
    now: Timestamp,
    notices: &dyn Notices,
) -> Result<Option<Evidence>, VerifyError> {
    for copies in copies(paths, stores, fs)?.into_values() {
        for (first, other) in pairs(&copies, notices) {
            let (one, another) = (read(first, fs)?, read(other, fs)?);
            if let Some(text) = parted(&one, &another, now, notices)? {
                let copies = [first.clone(), other.clone()];
                return Ok(Some(Evidence { text, copies }));
            }
        }
    }
    Ok(None)
}

/// The report on a fork proof of a lineage by this trust. It is read in pieces: a state of igor has any length.
///
/// # Errors
/// When it cannot be read.
pub fn of_lineage(
    file: &RegularFile,
    trust: &Trust,
    now: Timestamp,
) -> Result<CheckedFork, VerifyError> {
    let (mut chunks, mut chunk, mut reader) = (file.chunks(), Vec::new(), ForkReader::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(check_fork(reader, &Judging::new(trust, now)));
        }
        reader.push(&chunk);
    }
}

/// Each two of these copies, and a note where there are more than are compared. A short copy conflicts with none and hides nothing
/// of the others.
fn pairs<'c>(
    copies: &'c [PathBuf],
    notices: &dyn Notices,
) -> impl Iterator<Item = (&'c PathBuf, &'c PathBuf)> + use<'c> {
    if let Some(left) = copies
        .len()
        .checked_sub(MAX_COPIES)
        .filter(|left| *left > 0)
    {
        notices.note(&format!(
            "{MAX_COPIES} copies of one record were compared with each other, {left} more were not"
        ));
    }
    let taken = &copies[..copies.len().min(MAX_COPIES)];
    let after = |at: usize| taken.iter().skip(at + 1);
    (0..taken.len()).flat_map(move |at| after(at).map(move |other| (&taken[at], other)))
}

fn parted(
    one: &[u8],
    other: &[u8],
    now: Timestamp,
    notices: &dyn Notices,
) -> Result<Option<String>, VerifyError> {
    let found = match SealConflict::find(one, other) {
        Ok(found) => found.map(|found| found.to_string()),
        Err(why) => {
            notices.note(&format!("no evidence: {why}"));
            None
        }
    };
    let nobody = Trust::new(TrustStore::new());
    let options = VerifyOptions {
        trust: &nobody,
        now,
        held_since: None,
        thread: None,
    };
    let is_evidence = |text: &String| {
        check_file(text.as_bytes(), &options).report.verdict == Verdict::UnknownSigner
    };
    Ok(found.filter(is_evidence))
}

/// The native records that are in more than one of these files.
fn copies(
    paths: &[PathBuf],
    stores: &Stores,
    fs: &dyn Fs,
) -> Result<BTreeMap<RecordId, Vec<PathBuf>>, VerifyError> {
    let mut copies = BTreeMap::<RecordId, Vec<PathBuf>>::new();
    for candidate in inputs::find(paths, stores).files {
        let file = open_regular(fs, &candidate.path)?;
        let first = examine::first_line(&file)?;
        if let Some(record) = first.as_deref().and_then(examine::native_record) {
            copies.entry(record).or_default().push(candidate.path);
        }
    }
    copies.retain(|_, files| files.len() > 1);
    Ok(copies)
}

fn read(path: &Path, fs: &dyn Fs) -> Result<Vec<u8>, VerifyError> {
    let file = open_regular(fs, path)?;
    Ok(file.read_whole(MAX_TAKEN_UP_BYTES)?)
}
