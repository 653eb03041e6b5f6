//! Seals logs that other programs write: `FILE.seal` beside `FILE` (`spec/transcript.md` §9).
//!
//! ```text
//! read the seals ─► read the log against them ─► refuse if anything differs
//!                                            └─► new leaves + seal ─► append, fsync ─► head
//! ```
//! Invariants: the log is opened to read only; a seal is never replaced, only followed; nothing
//! is sealed over a log that differs from its seals, or whose seals this host knows to be older.

use crate::append::Log;
use crate::examine;
use crate::heads::{Durability, RecordKind};
use crate::host::{Host, Published};
use crate::lock::WriterLock;
use crate::read::{RegularFile, open_regular};
use crate::sys::led_to;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signer};
use threadseal_core::limits::MAX_OBSERVED_LINES;
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::log::LogScan;
use threadseal_formats::transcript::observed::{self, ObservedSeal, SealFile};

/// Mode of a new seal file: it holds digests only, and travels with the log.
const SEAL_MODE: u32 = 0o644;

/// Largest seal file: all leaves in base64, and a seal for every line.
pub const MAX_SEAL_FILE_BYTES: usize = MAX_OBSERVED_LINES * 64;

/// The path of the seals of `log`, which is no link.
pub fn seal_path(log: &Path) -> PathBuf {
    let mut name = OsString::from(log.as_os_str());
    name.push(".seal");
    PathBuf::from(name)
}

/// The result of sealing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealed {
    /// A new seal.
    Added(ObservedSeal),
    /// Every whole line was under a seal already.
    Unchanged,
    /// There is no whole line to seal yet.
    Nothing,
}

/// Reads the seal file of `log`; `None` when there is none. If `log` is a link, the seal file is
/// beside its target.
///
/// # Errors
/// As [`read_seal_file`].
pub fn read_seals(host: &Host, log: &Path) -> Result<Option<Vec<u8>>, Error> {
    read_seal_file(host, &seal_path(&led_to(&*host.fs, log)))
}

/// Reads a seal file; `None` when there is none.
///
/// # Errors
/// Kind `InvalidInput` when the seal file is no regular file, `Limit` when it is too large,
/// `External` when reading fails.
pub fn read_seal_file(host: &Host, path: &Path) -> Result<Option<Vec<u8>>, Error> {
    if host
        .fs
        .metadata(path)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    {
        return Ok(None);
    }
    // A file without the header is no seal file, however large it is.
    let first = examine::first_line(&open_regular(&*host.fs, path)?)?.unwrap_or_default();
    if observed::parse_header(&first).is_none() {
        return Ok(Some(first));
    }
    crate::read::read_small(&*host.fs, path, MAX_SEAL_FILE_BYTES).map(Some)
}

/// Seals all whole lines of `log`. With `is_final` it also seals an unended last line, and nothing
/// may be added afterwards.
///
/// # Errors
/// Kind `Refused` when the log or its seals do not verify, or this host knows newer seals, or
/// another key made them; `External` when the system fails.
pub fn seal(
    host: &Host,
    log: &Path,
    is_final: bool,
    signer: &dyn Signer,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Sealed, Error> {
    let log = &*led_to(&*host.fs, log);
    let path = seal_path(log);
    if read_seals(host, log)?.is_none() {
        let file = open_regular(&*host.fs, log)?;
        return first_seal(host, &file, &path, is_final, signer, progress);
    }
    let lock = WriterLock::acquire(Arc::clone(&host.fs), &path)?;
    // A log opened before the lock was held could be older than the seals of another process.
    let file = open_regular(&*host.fs, log)?;
    let bytes = lock.reader()?.read_whole(MAX_SEAL_FILE_BYTES)?;
    let mut seals = parse(&bytes, &path)?;
    let durable_floor = check_head(host, &seals, &path)?;
    examine::refuse_displacing(host, log, RecordKind::Observed, &seals.record)?;
    let scan = examine::read_log(&file, Some(&seals), is_final, progress)?;
    check_lines(&seals, &scan, log)?;
    let ends = is_final && seals.last().is_some_and(|last| !last.is_final);
    if scan.new_leaves.is_empty() && !ends {
        return Ok(Sealed::Unchanged);
    }
    host.refuse_doubted(&format!("{} has seals", path.display()), None)?;
    host.refuse_pruned(&seals.record)?;
    let sealed_bytes = seals.sealed_bytes;
    let mut out = Vec::new();
    let seal = add(host, &mut seals, &scan, is_final, signer, &mut out)?;
    let mut file = Log::open(lock, durable_floor)?;
    // Leaves without a seal, left by a crash: nothing was promised about them.
    file.move_tail_aside(sealed_bytes)?;
    file.append(&out)?;
    file.sync()?;
    publish(host, log, &seal, signer, &scan)?;
    Ok(Sealed::Added(seal))
}

fn first_seal(
    host: &Host,
    file: &RegularFile,
    path: &Path,
    is_final: bool,
    signer: &dyn Signer,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Sealed, Error> {
    if let Some(stripped) = examine::stripped_of(file, host)?.filter(|stripped| stripped.certain) {
        let (path, record) = (file.path().display(), stripped.record);
        let text = format!("{path} was sealed here as record {record}, and its seals are gone");
        return Err(Error::refused(format!("{text}; verify it")));
    }
    let scan = examine::read_log(file, None, is_final, progress)?;
    if scan.new_leaves.is_empty() {
        return Ok(Sealed::Nothing);
    }
    let mut out = Vec::new();
    let key: PublicKey = *signer.public_key();
    let mut seals = observed::begin(host.new_record()?, key, &mut out);
    let seal = add(host, &mut seals, &scan, is_final, signer, &mut out)?;
    drop(Log::create(Arc::clone(&host.fs), path, SEAL_MODE, &out)?);
    publish(host, file.path(), &seal, signer, &scan)?;
    Ok(Sealed::Added(seal))
}

/// Seals the lines that are new, now.
fn add(
    host: &Host,
    seals: &mut SealFile,
    scan: &LogScan,
    is_final: bool,
    signer: &dyn Signer,
    out: &mut Vec<u8>,
) -> Result<ObservedSeal, Error> {
    let (leaves, whole) = (&scan.new_leaves, scan.whole_bytes);
    seals.seal(leaves, whole, is_final, host.clock.now()?, signer, out)
}

fn parse(bytes: &[u8], path: &Path) -> Result<SealFile, Error> {
    let refuse = |text: &str| Error::refused(format!("{}: {text}", path.display()));
    let seals = observed::parse(bytes).map_err(|finding| refuse(&finding.message))?;
    match seals
        .faults
        .iter()
        .find(|(verdict, _)| *verdict != Verdict::UnsignedTail)
    {
        Some((_, finding)) => Err(refuse(&finding.message)),
        None => Ok(seals),
    }
}

/// Refuses seals that are older than those this host made.
///
/// Returns how many bytes of the seal file are known to have reached the disk. These are all bytes,
/// when the last seal is the known head.
fn check_head(host: &Host, seals: &SealFile, path: &Path) -> Result<u64, Error> {
    let Some(known) = host.heads.fetch(&seals.record)? else {
        return Ok(0);
    };
    if seals.last().is_some_and(|last| last.head == known.head) {
        return Ok(seals.sealed_bytes);
    }
    if seals.seals.iter().any(|seal| seal.head == known.head) {
        return Ok(0);
    }
    Err(Error::refused(format!(
        "{} lacks seal {} that this host made; verify it",
        path.display(),
        known.head.seq
    )))
}

fn check_lines(seals: &SealFile, scan: &LogScan, log: &Path) -> Result<(), Error> {
    let sealed = seals.last().map_or(0, |last| last.lines);
    let ended = seals.last().is_some_and(|last| last.is_final) && !scan.new_leaves.is_empty();
    let what = match scan.difference {
        Some((line, _, _)) => format!("differs from its seals at line {line}"),
        None if scan.lines < sealed => {
            format!("lacks sealed lines from line {} on", scan.lines + 1)
        }
        None if ended => "was ended by its last seal, and has new lines".to_owned(),
        None => return Ok(()),
    };
    Err(Error::new(
        ErrorKind::Refused,
        format!("{} {what}; verify it", log.display()),
    ))
}

fn publish(
    host: &Host,
    log: &Path,
    seal: &ObservedSeal,
    signer: &dyn Signer,
    scan: &LogScan,
) -> Result<(), Error> {
    host.publish(&Published {
        head: seal.head,
        root: Some(seal.root),
        key: Some(signer.public_key().key_id()),
        kind: RecordKind::Observed,
        is_final: seal.is_final,
        thread: None,
        path: Some(log),
        aliases: &scan.first_leaves,
        durability: Durability::Durable,
    })
}

#[cfg(test)]
mod tests;
