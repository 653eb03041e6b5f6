//! Deleting a ledger so that it stays known that there was one.
//!
//! ```text
//! tombstone   {"format":"threadseal.ledger.deleted/1","run_id":…,"count":…,"record_hash":…|null,
//!              "deleted_at":<microseconds since 1970>} LF
//! ```
//! The tombstone is durable before a byte of the ledger is removed. A process that sees it treats
//! the run as deleted, whatever other files exist still. The next deletion finishes one that was
//! interrupted.

use super::reader::Reader;
use super::{Context, PREFIX};
use crate::atomic::{self, PRIVATE_FILE};
use crate::ledger::{Tip, Tombstone};
use crate::lock::Turn;
use crate::read;
use crate::sys::{self, Access};
use serde::{Deserialize, Serialize};
use std::io;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;

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

/// The tombstone of the run, if it was deleted.
pub(super) fn read_tombstone(context: &Context<'_>) -> Result<Option<Tombstone>, Error> {
    let path = &context.paths.tombstone;
    if !context.exists(path)? {
        return Ok(None);
    }
    let bytes = read::read_small(context.fs, path, MAX_TOMBSTONE_BYTES)?;
    parse(&bytes, context.run.as_str())
        .map(Some)
        .ok_or_else(|| {
            let text = format!(
                "{} is not a tombstone of run {}; a deleted run must not be mistaken for a new one",
                path.display(),
                context.run
            );
            Error::new(ErrorKind::External, text)
        })
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

/// Deletes the run's ledger, if there is one and it ends as expected.
pub(super) fn delete(
    context: &Context<'_>,
    expected: Option<&Tip>,
    at: Timestamp,
) -> Result<bool, Error> {
    let is_expected = |tip: &Tip| expected.is_none_or(|expected| expected == tip);
    let path = &context.paths.ledger;
    let file = match context.fs.open(path, Access::Append) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match context.tombstone()? {
                Some(stone) if is_expected(&stone.tip) => remove_files(context).map(|()| true),
                Some(_) | None => Ok(false),
            };
        }
        Err(error) => return Err(sys::failure("delete", path, &error)),
    };
    let _turn = Turn::wait(context.fs, &*file, path)?;
    if let Some(stone) = context.tombstone()? {
        if !is_expected(&stone.tip) {
            return Ok(false);
        }
    } else {
        let Some(reader) = Reader::open(context)? else {
            return Ok(false);
        };
        let tip = reader.tip()?;
        if !is_expected(&tip) {
            return Ok(false);
        }
        let form = Form {
            format: FORMAT.to_owned(),
            run_id: context.run.as_str().to_owned(),
            count: tip.count,
            record_hash: tip.hash.map(|hash| hash.to_hex()),
            deleted_at: at.as_micros(),
        };
        let text = serde_json::to_string(&form)
            .map_err(|error| Error::invalid(format!("the tombstone cannot be written: {error}")))?;
        let text = format!("{text}\n");
        atomic::create_new(
            context.fs,
            &context.paths.tombstone,
            text.as_bytes(),
            PRIVATE_FILE,
        )?;
    }
    remove_files(context).map(|()| true)
}

/// Removes all files of the run except its tombstone.
pub(super) fn remove_files(context: &Context<'_>) -> Result<(), Error> {
    for path in remains(context)? {
        match context.fs.unlink(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(sys::failure("remove", &path, &error));
            }
            _ => {}
        }
    }
    let directory = &context.paths.directory;
    let synced = context.fs.sync_dir(directory);
    synced.map_err(|error| sys::failure("sync", directory, &error))
}

/// The files of the run beside its tombstone.
pub(super) fn remains(context: &Context<'_>) -> Result<Vec<std::path::PathBuf>, Error> {
    let directory = &context.paths.directory;
    let names = context.fs.read_dir(directory);
    let names = names.map_err(|error| sys::failure("read", directory, &error))?;
    let (run, mut found) = (context.run, Vec::new());
    let [ledger, index] = [".jsonl", ".index"].map(|ending| format!("{PREFIX}{run}{ending}"));
    let tails = format!("{ledger}.tail-");
    for name in names.iter().filter_map(|name| name.to_str()) {
        let is_tail = name.strip_prefix(&tails).is_some_and(is_tail_suffix);
        if name == ledger || name == index || is_tail {
            found.push(directory.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// `<offset>-<64 hex digits>` and no more: a longer name is a file of another run.
fn is_tail_suffix(text: &str) -> bool {
    text.split_once('-').is_some_and(|(offset, digest)| {
        offset.bytes().all(|byte| byte.is_ascii_digit()) && Digest::parse_hex(digest).is_some()
    })
}
