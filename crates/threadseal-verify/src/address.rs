//! Addresses of stores and of records in them, and how they are opened.
//!
//! ```text
//! PATH                                           a file; - is standard input
//! file:DIR#NAME s3://…#NAME object+file:DIR#NAME …   a transcript in a store
//! postgres://…#THREAD                                a thread in a database, with all its files; only to verify
//! ```
//! A path that exists is never taken for an address.

use crate::error::VerifyError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_store::address::{self, Intent};
use threadseal_store::ledger::LedgerStore;
use threadseal_store::lineage::CheckpointStore;
use threadseal_store::open;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::Fs;
use threadseal_store::transcripts::{self, RecordName, TranscriptStore};

/// Records of one store that are verified together.
const MAX_RECORDS: usize = 1 << 20;
/// Names that are asked for at once.
const PAGE: usize = 1000;

/// A store of transcripts, and the record in it that its address names, if it names one.
pub type NamedStore = (Box<dyn TranscriptStore>, Option<RecordName>);

/// Opens stores by their addresses.
#[derive(Debug, Clone, Default)]
pub struct Stores {
    settings: Arc<[(String, String)]>,
    input: Option<fn() -> Result<RegularFile, VerifyError>>,
}

/// The path that names standard input.
pub const STANDARD_INPUT: &str = "-";

impl Stores {
    /// Stores that these settings configure: where object storage is, and with which credentials. The names are those
    /// of the variables of each provider's own tools.
    pub fn new(settings: Vec<(String, String)>) -> Self {
        Self {
            settings: settings.into(),
            input: None,
        }
    }

    /// The same, where the path [`STANDARD_INPUT`] names what `input` returns: each time the same bytes.
    #[must_use]
    pub fn with_input(self, input: fn() -> Result<RegularFile, VerifyError>) -> Self {
        Self {
            input: Some(input),
            ..self
        }
    }

    /// Standard input, if `path` names it.
    pub(crate) fn input(&self, path: &Path) -> Option<Result<RegularFile, VerifyError>> {
        let input = self.input.filter(|_| path == Path::new(STANDARD_INPUT));
        input.map(|input| input())
    }

    /// The store of transcripts at `address`, and the record that it names.
    ///
    /// # Errors
    /// When no store has this address, or it cannot be opened.
    pub fn transcripts(&self, address: &str, intent: Intent) -> Result<NamedStore, VerifyError> {
        let (address, name) = transcripts::split_address(address)?;
        Ok((open::transcripts(address, intent, &self.settings)?, name))
    }

    /// The store and the record that an address must name.
    ///
    /// # Errors
    /// As [`Stores::transcripts`]; when it names no record.
    pub fn one(
        &self,
        address: &str,
        intent: Intent,
    ) -> Result<(Box<dyn TranscriptStore>, RecordName), VerifyError> {
        let (store, name) = self.transcripts(address, intent)?;
        let name = name.ok_or_else(|| {
            VerifyError::invalid("this is a store; name the record in it as STORE#NAME")
        })?;
        Ok((store, name))
    }

    /// Opens a file, or a record in a store, to read it.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn open(&self, fs: &dyn Fs, path: &Path) -> Result<RegularFile, VerifyError> {
        if let Some(input) = self.input(path) {
            return input;
        }
        let Some(address) = address_of(path) else {
            return Ok(open_regular(fs, path)?);
        };
        let (store, name) = self.one(address, Intent::Read)?;
        let file = store.read(&name)?;
        file.ok_or_else(|| VerifyError::refused(format!("there is no record {name}")))
    }

    /// The lineages at this address.
    ///
    /// # Errors
    /// When no store has it, or it cannot be opened.
    pub fn lineages(&self, address: &str) -> Result<Box<dyn CheckpointStore>, VerifyError> {
        Ok(open::lineages(address, Intent::Read, &self.settings)?)
    }

    /// The ledgers at this address.
    ///
    /// # Errors
    /// When no store has it, or it cannot be opened.
    pub fn ledgers(&self, address: &str) -> Result<Box<dyn LedgerStore>, VerifyError> {
        Ok(open::ledgers(address, Intent::Read, &self.settings)?)
    }
}

/// The address that `path` is, if it is one.
pub fn address_of(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    (address::is_address(text) && !path.exists()).then_some(text)
}

/// The database that an address names, and the name after its `#`; None where it is no PostgreSQL database.
pub fn database(address: &str) -> Option<(&str, Option<&str>)> {
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

/// The SQLite file that an address names, if it names one.
///
/// # Errors
/// When it names a host, or no path.
pub fn sqlite_file(address: &str) -> Result<Option<PathBuf>, VerifyError> {
    Ok(address::sqlite_file_of(address)?)
}

/// An address as it may be repeated: without a password, and without settings, of which one may be a password.
pub fn without_secrets(address: &str) -> String {
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

/// All records of a store.
///
/// # Errors
/// When it cannot be read, or has too many.
pub fn names(store: &dyn TranscriptStore) -> Result<Vec<RecordName>, VerifyError> {
    let mut all: Vec<RecordName> = Vec::new();
    loop {
        let page = store.names(all.last(), PAGE)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
        if all.len() > MAX_RECORDS {
            let text = format!("more than {MAX_RECORDS} records; name one as STORE#NAME");
            return Err(VerifyError::invalid(text));
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
