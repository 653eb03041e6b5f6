//! Records that a command names: a path, or `STORE#NAME` for a transcript in a store.
//!
//! ```text
//! PATH                                               a file
//! file:DIR#NAME s3://…#NAME object+file:DIR#NAME …   a transcript in a store
//! postgres://…#THREAD                                a thread in a database, only to verify
//! ```
//! An existing path is never taken for an address.

use crate::context::{self, Context};
use crate::engine::ProjectArgs;
use crate::exit::Failure;
use std::path::{Path, PathBuf};
use threadseal_core::record::ThreadId;
use threadseal_runtime::project::TRANSCRIPT_FILE;
use threadseal_store::ledger::LedgerStore;
use threadseal_store::ledger::url::{self, Intent};
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::{FileKind, Fs};
use threadseal_store::transcripts::{self, RecordName, TranscriptStore};
use threadseal_store::{bodies, examine};

/// The most records of one store that are listed.
const MAX_RECORDS: usize = 1 << 20;
/// The number of names that one request asks for.
const PAGE: usize = 1000;

/// `path` as an address, if it is one.
pub(crate) fn address_of(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    (url::is_address(text) && !path.exists()).then_some(text)
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
    let there = match (id, place.open(context)) {
        (Some(id), Ok(project)) => project.find_thread(&*context.fs, &id)?,
        _ => None,
    };
    let folder = there
        .ok_or_else(|| Failure::new("neither a file nor a thread of the project").about(named))?;
    Ok(folder.transcript())
}

/// A store of transcripts, and the record in it if the address names one.
///
/// # Errors
/// When no store has this address, or it cannot be opened.
pub(crate) fn store(
    address: &str,
    intent: Intent,
) -> Result<(Box<dyn TranscriptStore>, Option<RecordName>), Failure> {
    let (address, name) = transcripts::split_address(address)?;
    let settings = context::object_storage_settings();
    Ok((transcripts::open_with(address, intent, &settings)?, name))
}

/// The database that an address names, and the name after its `#`; None if it is no PostgreSQL
/// database.
pub(crate) fn database(address: &str) -> Option<(&str, Option<&str>)> {
    let (scheme, _) = address.split_once(':')?;
    let is_one = ["postgres", "postgresql"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let (url, name) = match address.split_once('#') {
        Some((url, name)) => (url, Some(name).filter(|name| !name.is_empty())),
        None => (address, None),
    };
    is_one.then_some((url, name))
}

/// An address that may be printed: without a password, and without settings, since one could be a
/// password.
pub(crate) fn without_secrets(address: &str) -> String {
    let Some((url, _)) = database(address) else {
        return address.to_owned();
    };
    let url = url.split_once('?').map_or(url, |(url, _)| url);
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    match rest.rsplit_once('@') {
        Some((user, rest)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}@{rest}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

/// The store and the record that an address names.
///
/// # Errors
/// As [`store`]; when it names no record.
pub(crate) fn one(
    address: &str,
    intent: Intent,
) -> Result<(Box<dyn TranscriptStore>, RecordName), Failure> {
    let (store, name) = store(address, intent)?;
    let name = name.ok_or_else(|| {
        let text = "this is a store; name the record in it as STORE#NAME";
        Failure::new(text)
    })?;
    Ok((store, name))
}

/// Opens a file, or a record in a store, to read it.
///
/// # Errors
/// When it is missing or cannot be read.
pub(crate) fn open(fs: &dyn Fs, path: &Path) -> Result<RegularFile, Failure> {
    let Some(address) = address_of(path) else {
        return Ok(open_regular(fs, path)?);
    };
    let (store, name) = one(address, Intent::Read)?;
    let file = store.read(&name)?;
    file.ok_or_else(|| Failure::new(format!("there is no record {name}")))
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

/// The ledgers at this address.
///
/// # Errors
/// When no store has it, or it cannot be opened.
pub(crate) fn ledgers(address: &str) -> Result<Box<dyn LedgerStore>, Failure> {
    let settings = context::object_storage_settings();
    Ok(url::open_with(address, Intent::Read, &settings)?)
}

/// All records of a store.
///
/// # Errors
/// When it cannot be read, or has too many.
pub(crate) fn names(store: &dyn TranscriptStore) -> Result<Vec<RecordName>, Failure> {
    let mut all: Vec<RecordName> = Vec::new();
    loop {
        let page = store.names(all.last(), PAGE)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
        if all.len() > MAX_RECORDS {
            let text = format!("more than {MAX_RECORDS} records; name one as STORE#NAME");
            return Err(Failure::new(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-FLT-10
    #[test]
    fn an_address_is_repeated_without_its_secrets() {
        for (address, shown) in [
            ("postgres://u:secret@h:1/d", "postgres://u@h:1/d"),
            (
                "postgresql://u:sec/re@t@h/d?password=x#run",
                "postgresql://u@h/d",
            ),
            ("POSTGRES://h/d?password=secret", "POSTGRES://h/d"),
            ("sqlite:a@b?c", "sqlite:a@b?c"),
        ] {
            assert_eq!(without_secrets(address), shown);
        }
    }
}
