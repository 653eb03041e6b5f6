//! Detached seals of logs that other programs write.
//!
//! ```text
//! --restart   record of the log ─► tombstone with the reason ─► entry in the log of the host
//!                               ─► old seals into the home   ─► seal as a new record
//! ```

use super::{Action, Sealed, Sealing};
use crate::exit::{Failure, complain};
use crate::key_log;
use crate::refused_path;
use crate::render::clean::Clean;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer};
use threadseal_core::record::RecordId;
use threadseal_core::tlog::tombstone::{Statement, Tombstone};
use threadseal_formats::transcript::observed;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::examine::{self, Stripped};
use threadseal_store::heads::RecordKind;
use threadseal_store::host::Host;
use threadseal_store::lock::WriterLock;
use threadseal_store::moved;
use threadseal_store::observer::{self, MAX_SEAL_FILE_BYTES, seal_path};
use threadseal_store::read::open_regular;
use threadseal_store::sys::{led_to, path_text};
use threadseal_store::tombstones;
use threadseal_verify::detect;

/// How the names of seal files end that a restart moved into the home.
const ENDED_SEALS_ENDING: &str = ".seal";

pub(super) fn seal(sealing: &Sealing<'_>, path: &Path) -> Result<Sealed, Failure> {
    let signer = sealing.signer(KeyUsage::Observed)?;
    let native = match sealing.args.restart {
        true => Some(native(sealing)?),
        false => None,
    };
    let keys = native.iter().chain([&*signer]).map(Signer::public_key);
    let section = sealing.host.enter_seal(&keys.collect::<Vec<_>>())?;
    if let Some(native) = &native {
        restart(sealing, path, native).map_err(|failure| failure.about(path))?;
    }
    let is_whole = !detect::is_of_lines(&open_regular(&*sealing.host.fs, path)?)?;
    let how = (sealing.args.is_final || is_whole, sealing.args.wait());
    let done = observer::seal_within(&sealing.host, path, how, &*signer, &section, &|_| {});
    let done =
        done.map_err(|error| refused_path::with_evidence(error.into(), path, sealing.context))?;
    note_moved(done.moved.as_ref());
    let mut sealed = match done.sealed {
        observer::Sealed::Added(seal) => {
            Sealed::new(path, "observed", Action::Sealed).with_head(Some(&seal.head))
        }
        observer::Sealed::Unchanged => Sealed::new(path, "observed", Action::Unchanged),
        observer::Sealed::Nothing => Sealed::new(path, "observed", Action::NothingYet),
    };
    sealed.uncovered = done.uncovered;
    sealed.whole = is_whole;
    Ok(sealed)
}

/// Mentions that the seals of a log were moved, since a copy that was then edited looks the same as a rotated log.
pub(crate) fn note_moved(moved: Option<&observer::Moved>) {
    if let Some(observer::Moved { from, to }) = moved {
        let (from, to) = (path_text(from), path_text(to));
        complain(&format!(
            "note: {} was rotated: its sealed lines are in {} now, and its seals were moved there",
            Clean(&from),
            Clean(&to)
        ));
    }
}

/// The key that signs the end of a record.
fn native(sealing: &Sealing<'_>) -> Result<LocalSigner, Failure> {
    let passphrase = &sealing.args.passphrase;
    let keyring = &sealing.keyring;
    keyring.signer(None, KeyUsage::Native, passphrase, sealing.context)
}

/// Ends the record of the log, with the reason for it, so that a new one can begin.
fn restart(sealing: &Sealing<'_>, path: &Path, native: &LocalSigner) -> Result<(), Failure> {
    let (host, log) = (&sealing.host, &*led_to(&*sealing.host.fs, path));
    let seals = seals_of(sealing, log)?;
    let lock = match host.fs.metadata(&seals) {
        Ok(_) => Some(WriterLock::acquire_within(
            Arc::clone(&host.fs),
            &seals,
            sealing.args.wait(),
        )?),
        Err(_) => None,
    };
    let old = match &lock {
        Some(lock) => Some(lock.reader()?.read_whole(MAX_SEAL_FILE_BYTES)?),
        None => None,
    };
    let Some(record) = record_of(sealing, log, old.as_deref())? else {
        return Err(Failure::new(
            "this home sealed no log here, so none is restarted; hint: seal it without --restart",
        ));
    };
    let Some(known) = host.heads.fetch(&record)? else {
        return Err(Failure::new(format!(
            "another home made the seals of record {record}; hint: move {} away",
            Clean(&path_text(&seals))
        )));
    };
    if host.heads.pruned(&record)?.is_none() {
        let host_log = key_log::log(sealing.context)?.ok_or_else(|| {
            Failure::new("this home has no log to hold the entry; hint: threadseal log init")
        })?;
        let statement = Statement {
            at: host.clock.now()?,
            by: crate::keyring::self_name(KeyUsage::Native).to_owned(),
            why: sealing.args.why.clone().unwrap_or_default(),
            records: vec![known.to_log()],
        };
        let tombstone = Tombstone::sign(statement, native)?;
        let place = tombstones::place_in(&sealing.home.tombstones(), &record);
        tombstones::put(&*host.fs, &place, &tombstone)?;
        host_log.commit_tombstones(&tombstone.statement().records)?;
    }
    if let Some(old) = old {
        let kept = ended_seals(sealing, &record);
        atomic::replace(&*host.fs, &kept, &old, Mode::Set(PRIVATE_FILE))?;
        tombstones::drop_all(&*host.fs, &seals, &[])?;
    }
    Ok(())
}

/// The seals of the log: beside it, or in the place from which it was moved without them.
fn seals_of(sealing: &Sealing<'_>, log: &Path) -> Result<PathBuf, Failure> {
    let (host, beside) = (&sealing.host, seal_path(log));
    if host.fs.metadata(&beside).is_ok() {
        return Ok(beside);
    }
    let file = open_regular(&*host.fs, log)?;
    let Some(found) = examine::stripped_of(&file, host)? else {
        return Ok(beside);
    };
    let left = place_left(host, &found)?.map(|earlier| seal_path(&earlier));
    let is_there = |seals: &PathBuf| host.fs.metadata(seals).is_ok();
    Ok(left.filter(is_there).unwrap_or(beside))
}

/// The place where this host sealed a record, if the record is no longer there.
fn place_left(host: &Host, found: &Stripped) -> Result<Option<PathBuf>, Failure> {
    match &found.sealed_at {
        Some(place) if moved::has_left(host, &found.record, place)? => Ok(Some(place.clone())),
        _ => Ok(None),
    }
}

/// The place of the old seals of a record in the home: they still prove what they cover.
fn ended_seals(sealing: &Sealing<'_>, record: &RecordId) -> PathBuf {
    let name = format!("{record}{ENDED_SEALS_ENDING}");
    sealing.home.tombstones().join(name)
}

/// The record that this host sealed in the place of the log, else the one that the seals beside it
/// name: another log's seals may be there.
fn record_of(
    sealing: &Sealing<'_>,
    log: &Path,
    seals: Option<&[u8]>,
) -> Result<Option<RecordId>, Failure> {
    let host = &sealing.host;
    let here = host
        .heads
        .find_by_place(RecordKind::Observed, &host.place(log))?;
    if let Some(here) = here {
        return Ok(Some(here.head.record));
    }
    if let Some(seals) = seals.and_then(|bytes| observed::parse(bytes).ok()) {
        return Ok(Some(seals.record));
    }
    let file = open_regular(&*host.fs, log)?;
    match examine::stripped_of(&file, host)? {
        Some(found) if found.certain || place_left(host, &found)?.is_some() => {
            Ok(Some(found.record))
        }
        _ => Ok(None),
    }
}
