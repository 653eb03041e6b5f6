//! [`RunFiles`]: the files of one run, and its tombstone.
//!
//! ```text
//! tombstone   {"format":"threadseal.ledger.deleted/1","run_id":…,"count":…,"record_hash":…|null,
//!              "deleted_at":<microseconds since 1970>} LF
//! ```

use crate::atomic::{self, PRIVATE_FILE};
use crate::heads::Durability;
use crate::ledger::{Tip, Tombstone, deleted};
use crate::read;
use crate::sys::{self, Fs};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Longest run id that becomes a file name, in bytes. Names have 255, and an end that is moved
/// aside needs 91 of them.
pub const MAX_FILE_RUN_ID_BYTES: usize = 144;
pub(super) const PREFIX: &str = "ledger_";
pub(super) const LEDGER: &str = ".jsonl";

const MAX_TOMBSTONE_BYTES: usize = 4096;
const FORMAT: &str = "threadseal.ledger.deleted/1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    format: String,
    run_id: String,
    count: u64,
    record_hash: Option<String>,
    deleted_at: u64,
}

/// The paths of the files of one run.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) directory: PathBuf,
    pub(super) ledger: PathBuf,
    pub(super) index: PathBuf,
    pub(super) tombstone: PathBuf,
}

/// The parameters of all work on one run.
pub(super) struct RunFiles<'c> {
    pub(super) fs: &'c dyn Fs,
    pub(super) shared: &'c Arc<dyn Fs>,
    pub(super) run: &'c RunId,
    pub(super) paths: Paths,
    pub(super) durability: Durability,
}

impl<'c> RunFiles<'c> {
    pub(super) fn of(
        fs: &'c Arc<dyn Fs>,
        directory: &Path,
        run: &'c RunId,
        durability: Durability,
    ) -> Result<Self, Error> {
        if !is_file_name_part(run.as_str()) {
            return Err(Error::invalid(format!(
                "run id {run:?} cannot be a part of a file name: at most {MAX_FILE_RUN_ID_BYTES} bytes, \
                 no '/', no '\\', no control character"
            )));
        }
        let path = |ending: &str| directory.join(format!("{PREFIX}{run}{ending}"));
        Ok(Self {
            fs: &**fs,
            shared: fs,
            run,
            paths: Paths {
                directory: directory.to_owned(),
                ledger: path(LEDGER),
                index: path(".index"),
                tombstone: path(".deleted"),
            },
            durability,
        })
    }

    pub(super) fn exists(&self, path: &Path) -> Result<bool, Error> {
        match self.fs.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(sys::failure("look for", path, &error)),
        }
    }

    /// The tombstone of the run, if it was deleted.
    pub(super) fn tombstone(&self) -> Result<Option<Tombstone>, Error> {
        let path = &self.paths.tombstone;
        if !self.exists(path)? {
            return Ok(None);
        }
        let bytes = read::read_small(self.fs, path, MAX_TOMBSTONE_BYTES)?;
        parse(&bytes, self.run.as_str()).map(Some).ok_or_else(|| {
            let text = format!(
                "{} is not a tombstone of run {}; a deleted run must not be mistaken for a new one",
                path.display(),
                self.run
            );
            Error::new(ErrorKind::External, text)
        })
    }

    /// Writes the tombstone, durably.
    pub(super) fn bury(&self, stone: &Tombstone) -> Result<(), Error> {
        let form = Form {
            format: FORMAT.to_owned(),
            run_id: self.run.as_str().to_owned(),
            count: stone.tip.count,
            record_hash: stone.tip.hash.map(|hash| hash.to_hex()),
            deleted_at: stone.at.as_micros(),
        };
        let text = serde_json::to_string(&form)
            .map_err(|error| Error::invalid(format!("the tombstone cannot be written: {error}")))?;
        let text = format!("{text}\n");
        atomic::create_new(
            self.fs,
            &self.paths.tombstone,
            text.as_bytes(),
            PRIVATE_FILE,
        )
    }

    pub(super) fn refuse_if_deleted(&self) -> Result<(), Error> {
        match self.tombstone()? {
            Some(tombstone) => Err(deleted(self.run, &tombstone)),
            None => Ok(()),
        }
    }
}

fn parse(bytes: &[u8], run: &str) -> Option<Tombstone> {
    let form: Form = serde_json::from_slice(bytes).ok()?;
    let hash = match form.record_hash {
        Some(hash) => Some(Digest::parse_hex(&hash)?),
        None => None,
    };
    let is_ours = form.format == FORMAT && form.run_id == run;
    is_ours.then_some(Tombstone {
        tip: Tip {
            count: form.count,
            hash,
        },
        at: Timestamp::from_micros(form.deleted_at).ok()?,
    })
}

/// The run id in a file name with this ending.
pub(super) fn strip<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let id = name.strip_prefix(PREFIX)?.strip_suffix(ending)?;
    is_file_name_part(id).then_some(id)
}

fn is_file_name_part(id: &str) -> bool {
    let harmless = |c: char| !c.is_control() && c != '/' && c != '\\';
    !id.is_empty() && id.len() <= MAX_FILE_RUN_ID_BYTES && id.chars().all(harmless)
}
