//! Records that a command names: a path, or `STORE#NAME` for a transcript in a store.
//!
//! ```text
//! PATH                                               a file; - is standard input
//! file:DIR#NAME s3://…#NAME object+file:DIR#NAME …   a transcript in a store
//! postgres://…#THREAD                                a thread in a database, only to verify
//! ```
//! An existing path is never taken for an address.

use crate::context::{self, Context};
use crate::exit::Failure;
use crate::project::ProjectArgs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use threadseal_core::record::ThreadId;
use threadseal_store::address::Intent;
use threadseal_store::bodies;
use threadseal_store::examine;
use threadseal_store::read::RegularFile;
use threadseal_store::sys::{FileKind, Fs};
use threadseal_store::transcripts::{RecordName, TranscriptStore};
use threadseal_verify::VerifyError;
use threadseal_verify::address::{NamedStore, STANDARD_INPUT, Stores};
use threadseal_verify::layout::TRANSCRIPT_FILE;
use threadseal_verify::verifier::MAX_TAKEN_UP_BYTES;

pub(crate) use threadseal_verify::address::{address_of, database, names, without_secrets};

/// Stores as the environment configures them.
pub(crate) fn stores() -> Stores {
    Stores::new(context::object_storage_settings()).with_input(standard_input)
}

/// Standard input as a file, read once.
fn standard_input() -> Result<RegularFile, VerifyError> {
    static INPUT: OnceLock<Result<RegularFile, Failure>> = OnceLock::new();
    let read = || {
        let path = Path::new(STANDARD_INPUT);
        Ok(RegularFile::of_stream(
            whole_stdin(MAX_TAKEN_UP_BYTES)?,
            path,
        )?)
    };
    INPUT.get_or_init(read).clone().map_err(VerifyError::from)
}

/// All of standard input, up to `limit` bytes.
///
/// # Errors
/// When it cannot be read or has more.
pub(crate) fn whole_stdin(limit: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    io::stdin()
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::io("read", Path::new("standard input"), &error))?;
    if bytes.len() > limit {
        return Err(Failure::new(
            "standard input is too large for memory; hint: name a file",
        ));
    }
    Ok(bytes)
}

/// The transcript that a path, the folder of a thread, or the id of one of the project's threads
/// names.
///
/// # Errors
/// When it is none of these.
pub(crate) fn transcript_at(
    named: &Path,
    place: &ProjectArgs,
    context: &Context,
) -> Result<PathBuf, Failure> {
    match context.fs.metadata(named) {
        Ok(found) if found.kind == FileKind::Directory => return Ok(named.join(TRANSCRIPT_FILE)),
        Ok(_) => return Ok(named.to_owned()),
        Err(_) => {}
    }
    let id = named.to_str().and_then(|id| ThreadId::parse(id).ok());
    let there = match id {
        Some(id) => place.transcript_of(&id, context)?,
        None => None,
    };
    there.ok_or_else(|| Failure::new("neither a file nor a thread of the project").about(named))
}

/// A store of transcripts, and the record in it if the address names one.
///
/// # Errors
/// When no store has this address, or it cannot be opened.
pub(crate) fn store(address: &str, intent: Intent) -> Result<NamedStore, Failure> {
    Ok(stores().transcripts(address, intent)?)
}

/// The store and the record that an address names.
///
/// # Errors
/// As [`store`]; when it names no record.
pub(crate) fn one(
    address: &str,
    intent: Intent,
) -> Result<(Box<dyn TranscriptStore>, RecordName), Failure> {
    Ok(stores().one(address, intent)?)
}

/// Opens a file, or a record in a store, to read it.
///
/// # Errors
/// When it is missing or cannot be read.
pub(crate) fn open(fs: &dyn Fs, path: &Path) -> Result<RegularFile, Failure> {
    Ok(stores().open(fs, path)?)
}

/// The bytes of the file of bodies beside a record; empty if it has none.
///
/// # Errors
/// When it cannot be read, or is too large.
pub(crate) fn bodies_of(
    fs: &dyn Fs,
    file: &RegularFile,
    limit_bytes: usize,
) -> Result<Vec<u8>, Failure> {
    let first = examine::first_line(file)?.unwrap_or_default();
    Ok(bodies::text_beside(fs, file.path(), &first, limit_bytes)?)
}
