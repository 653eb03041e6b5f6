//! Tombstones on a disk, and how pruned records leave it (`spec/host-log.md`, "Tombstones").
//!
//! ```text
//! put ─► fsync ─► (the log of the host)
//!     ─► drop_all: files beside the record ─► fsync(directory) ─► the record ─► fsync(directory)
//! ```
//! The record is removed last: once it is gone, no file beside it exists. A process that is killed
//! in between leaves a tombstone and a record. The next prune of the record finishes the work.

use crate::append::tails_of;
use crate::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::bodies;
use crate::read::read_small;
use crate::sys::{self, Fs};
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_TOMBSTONE_BYTES;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::tombstone::Tombstone;

/// How the names of tombstones end.
pub const TOMBSTONE_ENDING: &str = ".tombstone";

/// The contents of the place of a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No file.
    Nothing,
    /// A tombstone, signed by its key.
    Tombstone(Box<Tombstone>),
    /// Another file.
    Other,
}

/// The place of the tombstone of the record at `path`.
pub fn place_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TOMBSTONE_ENDING);
    PathBuf::from(name)
}

/// The place of the tombstone of a record that was pruned in a store. It is in `folder`, by the
/// name of the record.
pub fn place_in(folder: &Path, record: &RecordId) -> PathBuf {
    folder.join(format!("{record}{TOMBSTONE_ENDING}"))
}

/// Reads the tombstone at `place`.
///
/// # Errors
/// When something is there and cannot be read, or is too large.
pub fn read(fs: &dyn Fs, place: &Path) -> Result<Found, Error> {
    match fs.metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(sys::failure("read", place, &error)),
        Ok(_) => {}
    }
    let bytes = read_small(fs, place, MAX_TOMBSTONE_BYTES)?;
    Ok(Tombstone::read(&bytes).map_or(Found::Other, |found| Found::Tombstone(Box::new(found))))
}

/// Writes a tombstone, durably, in the place of an older one; its folder is made where it is
/// missing.
///
/// # Errors
/// When it holds more than a tombstone may, or the system fails.
pub fn put(fs: &dyn Fs, place: &Path, tombstone: &Tombstone) -> Result<(), Error> {
    let bytes = tombstone.to_bytes();
    let bytes = bytes.ok_or_else(|| Error::invalid("the tombstone cannot be written"))?;
    atomic::create_directories(fs, sys::directory_of(place), PRIVATE_DIRECTORY)?;
    atomic::replace(fs, place, &bytes, Mode::Set(PRIVATE_FILE))
}

/// The files that are removed with the record at `path`. They are its bodies, and the parts of it
/// that were set aside.
///
/// # Errors
/// Kind `External` when its folder cannot be read.
pub fn beside(fs: &dyn Fs, path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = tails_of(fs, path)?;
    let bodies = bodies::place_of(path);
    if fs.metadata(&bodies).is_ok() {
        found.push(bodies);
    }
    Ok(found)
}

/// Removes the files `beside` a record, and then the record, each durably; missing files are no
/// error.
///
/// # Errors
/// When the system fails. The record still exists then, unless only the sync of its removal failed.
pub fn drop_all(fs: &dyn Fs, record: &Path, beside: &[PathBuf]) -> Result<(), Error> {
    let folder = sys::directory_of(record);
    let sync = || {
        let synced = fs.sync_dir(folder);
        synced.map_err(|error| sys::failure("remove files in", folder, &error))
    };
    for path in beside {
        unlink(fs, path)?;
    }
    sync()?;
    unlink(fs, record)?;
    sync()
}

fn unlink(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    match fs.unlink(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(sys::failure("remove", path, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultFs, FaultKind, Keep};
    use threadseal_core::digest::Digest;
    use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
    use threadseal_core::record::{Head, RecordKind};
    use threadseal_core::time::Timestamp;
    use threadseal_core::tlog::entry::LoggedHead;
    use threadseal_core::tlog::tombstone::Statement;

    const RECORD: &str = "/disk/transcript.jsonl";
    const BESIDE: [&str; 2] = ["/disk/thread.json", "/disk/transcript.bodies"];

    fn tombstone() -> Tombstone {
        let head = Head {
            record: RecordId::from_bytes([1; 32]),
            seq: 1,
            size: 6,
            line: Digest::of(b"line"),
        };
        let statement = Statement {
            at: Timestamp::UNIX_EPOCH,
            by: "self".to_owned(),
            why: String::new(),
            records: vec![LoggedHead {
                kind: RecordKind::Transcript,
                head,
                root: None,
                key: None,
            }],
        };
        let key = PrivateKey::from_seed([1; 32]);
        Tombstone::sign(statement, &LocalSigner::new(key, KeyUsage::Native)).unwrap()
    }

    fn disk() -> FaultFs {
        let disk = FaultFs::new();
        atomic::create_directories(&*disk.shared(), Path::new("/disk"), 0o700).unwrap();
        for path in BESIDE.into_iter().chain([RECORD]) {
            atomic::create_new(&*disk.shared(), Path::new(path), b"record", 0o600).unwrap();
        }
        disk
    }

    fn prune(fs: &dyn Fs) -> Result<(), Error> {
        let record = Path::new(RECORD);
        put(fs, &place_of(record), &tombstone())?;
        drop_all(fs, record, &BESIDE.map(PathBuf::from))
    }

    // T-PRU-19
    #[test]
    fn whatever_fails_nothing_goes_without_a_tombstone_and_the_record_goes_last() {
        let place = place_of(Path::new(RECORD));
        let (mut call, mut failed) = (0, 0);
        loop {
            let mut struck = false;
            for (kind, keep) in [
                (FaultKind::Io, Keep::Nothing),
                (FaultKind::DoneButFailed, Keep::Everything),
                (FaultKind::PowerOff, Keep::Nothing),
                (FaultKind::PowerOff, Keep::ByLot(7)),
            ] {
                let disk = disk();
                disk.plan(call, kind);
                let done = prune(&*disk.shared());
                struck |= disk.struck().is_some();
                disk.cut_power(keep);
                let is_there = |path: &str| disk.bytes_of(Path::new(path)).is_some();
                let beside = BESIDE.into_iter().filter(|path| is_there(path)).count();
                let all_there = is_there(RECORD) && beside == BESIDE.len();
                let found = read(&*disk.shared(), &place).unwrap();
                assert!(
                    all_there || found == Found::Tombstone(Box::new(tombstone())),
                    "{call}"
                );
                assert!(
                    is_there(RECORD) || beside == 0,
                    "{call}: the record went first"
                );
                assert!(done.is_err() || !is_there(RECORD), "{call}");
                failed += usize::from(done.is_err());
                // The next prune finishes the work.
                prune(&*disk.shared()).unwrap();
                assert!(
                    BESIDE
                        .into_iter()
                        .chain([RECORD])
                        .all(|path| !is_there_in(&disk, path))
                );
            }
            if !struck {
                break;
            }
            call += 1;
        }
        assert!(failed > 8, "{failed}");
    }

    fn is_there_in(disk: &FaultFs, path: &str) -> bool {
        disk.bytes_of(Path::new(path)).is_some()
    }

    #[test]
    fn what_is_no_tombstone_is_told_from_none() {
        let disk = disk();
        let place = place_of(Path::new(RECORD));
        assert_eq!(place, Path::new("/disk/transcript.jsonl.tombstone"));
        let fs = disk.shared();
        assert_eq!(read(&*fs, &place), Ok(Found::Nothing));
        atomic::create_new(&*fs, &place, b"{}\n", 0o600).unwrap();
        assert_eq!(read(&*fs, &place), Ok(Found::Other));
        put(&*fs, &place, &tombstone()).unwrap();
        assert_eq!(
            read(&*fs, &place),
            Ok(Found::Tombstone(Box::new(tombstone())))
        );
    }
}
