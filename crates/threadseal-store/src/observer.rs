//! Seals logs that other programs write: `FILE.seal` beside `FILE` (`spec/transcript.md` §9).
//!
//! ```text
//! no seals ─► refuse if this host sealed the log ─► leaves + seal ─► new file, fsync ─► head
//! seals ─► lock ─► read the log against them ─► refuse if anything differs
//!                                           ├─► nothing new: publish a head that is not known yet
//!                                           ├─► new leaves + seal ─► append, fsync ─► head
//!                                           │   by another key: before them the rotations of the log
//!                                           └─► the log was moved: its seals follow, begin anew
//! ```
//! Invariants: the log is opened to read only; a seal is never replaced, only followed; nothing
//! is sealed over a log that differs from its seals, or whose seals this host knows to be older.

use crate::append::Log;
use crate::examine;
use crate::heads::{Durability, LoggedAt, RecordKind, StoredHead};
use crate::host::{Host, Published};
use crate::key_ends::SealSection;
use crate::lock::WriterLock;
use crate::moved::{self, SealedLines};
use crate::read::{RegularFile, open_regular};
use crate::sys::{Access, directory_of, failure, led_to, place_itself};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signer};
use threadseal_core::limits::MAX_OBSERVED_LINES;
use threadseal_core::record::RecordId;
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::log::LogScan;
use threadseal_formats::transcript::observed::{self, ObservedSeal, SealFile};

/// Most of the mode of a new seal file: it travels with the log. Its salts let a guess of a line be
/// tested, so who may not read the log may not read it.
const SEAL_MODE: u32 = 0o644;
/// The least of it.
const OWN_MODE: u32 = 0o600;

/// Largest seal file: all leaves in base64, and a seal for every line.
pub const MAX_SEAL_FILE_BYTES: usize = MAX_OBSERVED_LINES * 64;

/// Longest line of a seal, with room for the numbers in it.
const MAX_SEAL_LINE_BYTES: usize = 2048;

/// Bytes of a leaf in a seal file: in base64, with its share of the line around it.
const MAX_LEAF_BYTES: usize = 60;

/// Tries to find log and seals in agreement while others move or make them.
const MAX_ATTEMPTS: usize = 16;

/// Rotated logs whose seals are moved at once.
const MAX_GENERATIONS: usize = 64;

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
    Added(Box<ObservedSeal>),
    /// Every whole line was under a seal already.
    Unchanged,
    /// There is no whole line to seal yet.
    Nothing,
}

/// A log that was moved without its seals, which were moved to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Where it was sealed.
    pub from: PathBuf,
    /// Where it is.
    pub to: PathBuf,
}

/// What a run sealed, and what it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The result.
    pub sealed: Sealed,
    /// Where the unended last line is that no seal covers, in bytes: from and to.
    pub uncovered: Option<[u64; 2]>,
    /// A log whose seals were moved.
    pub moved: Option<Moved>,
}

impl Done {
    fn of(sealed: Sealed, scan: &LogScan) -> Self {
        let left = [scan.whole_bytes, scan.bytes];
        Self {
            sealed,
            uncovered: Some(left).filter(|[from, to]| from < to),
            moved: None,
        }
    }
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
    if observed::Header::parse(&first).is_none() {
        return Ok(Some(first));
    }
    crate::read::read_small(&*host.fs, path, MAX_SEAL_FILE_BYTES).map(Some)
}

/// Seals all whole lines of `log`. With `is_final` it also seals an unended last line, and nothing
/// may be added afterwards. While another process seals the log, it waits up to `wait`.
///
/// Where the log was moved without its seals, they are moved to it. A log that began in its place
/// gets seals of its own.
///
/// # Errors
/// Kind `Refused` when the log or its seals do not verify, or this host knows newer seals, or
/// another key made them; `External` when the system fails.
pub fn seal(
    host: &Host,
    log: &Path,
    is_final: bool,
    wait: Duration,
    signer: &dyn Signer,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Done, Error> {
    // From before seals are moved or made until heads are stored: a reader that meets a state in
    // between can wait for the end.
    let section = host.enter_seal(&[signer.public_key()])?;
    seal_within(host, log, (is_final, wait), signer, &section, progress)
}

/// As [`seal`], in a section that the caller has begun for the key of `signer`.
///
/// # Errors
/// As [`seal`].
pub fn seal_within(
    host: &Host,
    log: &Path,
    (is_final, wait): (bool, Duration),
    signer: &dyn Signer,
    _section: &SealSection,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Done, Error> {
    refuse_link_in_place(host, log)?;
    let log = &*led_to(&*host.fs, log);
    let sealing = Sealing {
        host,
        log,
        path: seal_path(log),
        is_final,
        signer,
        progress,
        moved: RefCell::default(),
    };
    for _ in 0..MAX_ATTEMPTS {
        let sealed = if read_seals(host, log)?.is_none() {
            sealing.first(wait)?
        } else {
            sealing.next(wait)?
        };
        if let Some(done) = sealed {
            let moved = sealing.moved.take();
            return Ok(Done { moved, ..done });
        }
    }
    let text = format!("{} is moved again and again", log.display());
    Err(Error::new(ErrorKind::External, text))
}

/// Refuses a link in the place where this host sealed a log, unless it leads to that log.
fn refuse_link_in_place(host: &Host, log: &Path) -> Result<(), Error> {
    let place = place_itself(&*host.fs, log);
    if host.place(log) == place {
        return Ok(());
    }
    let Some(known) = host.heads.find_by_place(RecordKind::Observed, &place)? else {
        return Ok(());
    };
    let moved = match SealedLines::of_known(&known) {
        Some(sealed) => sealed.moved_from(host, log)?,
        None => None,
    };
    let record = known.head.record;
    let leads_to_it = moved.is_some_and(|moved| host.place(&moved) == host.place(log));
    if leads_to_it || host.heads.pruned(&record)?.is_some() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} is a link, and record {record} was sealed in its place; hint: threadseal verify {}",
        log.display(),
        log.display()
    )))
}

/// The inputs of one sealing.
struct Sealing<'a> {
    host: &'a Host,
    log: &'a Path,
    /// The path of the seals.
    path: PathBuf,
    is_final: bool,
    signer: &'a dyn Signer,
    progress: &'a (dyn Fn(u64) + Sync),
    /// The log whose seals were moved.
    moved: RefCell<Option<Moved>>,
}

impl Sealing<'_> {
    /// Makes the seal file. `None` if another process has made it meanwhile, or if the seals of this
    /// log were moved here from its earlier place.
    fn first(&self, wait: Duration) -> Result<Option<Done>, Error> {
        let Self {
            host, log, path, ..
        } = self;
        let file = open_regular(&*host.fs, log)?;
        if self.fetch_seals(&file, wait)? {
            return Ok(None);
        }
        let refusal = self.refuse_stripped(&file);
        // Who seals first makes the seal file, and then its head known. So the seal file of a known
        // head is visible by now.
        if host.fs.metadata(path).is_ok() {
            return Ok(None);
        }
        refusal?;
        let scan = examine::read_log(&file, None, self.is_final, self.progress)?;
        if scan.new_lines.is_empty() {
            return Ok(Some(Done::of(Sealed::Nothing, &scan)));
        }
        let mut out = Vec::new();
        let key: PublicKey = *self.signer.public_key();
        let (record, salts) = (host.new_record()?, host.new_salts()?);
        let mut seals = observed::begin(record, key, Some(salts), &mut out);
        let seal = self.add(&mut seals, &scan, &mut out)?;
        // Locked until its head is known: the next writer continues a known record.
        let mode = host.fs.metadata(log).map_or(OWN_MODE, |found| found.mode);
        let mode = SEAL_MODE & (mode | OWN_MODE);
        let locked = match Log::create(Arc::clone(&host.fs), path, mode, &out) {
            Err(_) if host.fs.metadata(path).is_ok() => return Ok(None),
            created => created?,
        };
        self.publish(&seals, &seal, &scan)?;
        drop(locked);
        Ok(Some(Done::of(Sealed::Added(Box::new(seal)), &scan)))
    }

    /// Moves the seals of a log here that was moved without them; true if it did. Refuses a log whose
    /// lines this host sealed in a place where there is no log any more: its seals may be gone for
    /// an edit.
    fn fetch_seals(&self, file: &RegularFile, wait: Duration) -> Result<bool, Error> {
        let Self { host, log, .. } = self;
        let Some(stripped) = examine::stripped_of(file, host)? else {
            return Ok(false);
        };
        let known = host.heads.fetch(&stripped.record)?;
        let is_log = known.is_some_and(|known| known.kind == RecordKind::Observed);
        if host.heads.pruned(&stripped.record)?.is_some() {
            return Ok(false);
        }
        let Some(earlier) = stripped.sealed_at.filter(|_| is_log && !stripped.certain) else {
            return Ok(false);
        };
        let record = &stripped.record;
        if let Some(left) = moved::left_seals(host, record, Some(&earlier), log)? {
            let there = seal_path(&left);
            let lock = match WriterLock::acquire_within(Arc::clone(&host.fs), &there, wait) {
                // Another process moved them before they were opened.
                Err(_) if host.fs.metadata(&there).is_err() => return Ok(true),
                lock => lock?,
            };
            let bytes = lock.reader()?.read_whole(MAX_SEAL_FILE_BYTES)?;
            let seals = observed::parse(&bytes).ok();
            // Another process may have moved them before the lock was held.
            if let Some(seals) = seals.filter(|seals| seals.record == *record) {
                move_seals(host, &there, &seals, log, MAX_GENERATIONS)?;
                self.note_moved(&left, log);
            }
            return Ok(true);
        }
        let has_left = moved::has_left(host, record, &earlier)?;
        // Another process may have moved its seals here meanwhile.
        if host.fs.metadata(&self.path).is_ok() {
            return Ok(true);
        }
        let is_ended = host.heads.pruned(record)?.is_some();
        if !has_left || is_ended || moved::is_another(host, log, &earlier)? {
            return Ok(false);
        }
        let (shown, there) = (log.display(), earlier.display());
        Err(Error::refused(format!(
            "{shown} has lines of record {record}, which is no longer at {there} as it was sealed: its seals are gone or \
             no longer fit; hint: threadseal verify {there}, or threadseal seal --restart --why TEXT {shown}"
        )))
    }

    /// Refuses a log that has no seals, though this host sealed it.
    fn refuse_stripped(&self, file: &RegularFile) -> Result<(), Error> {
        let Self { host, log, .. } = self;
        let stripped = examine::stripped_of(file, host)?.filter(|stripped| stripped.certain);
        let stripped = stripped.map(|stripped| stripped.record);
        let mut gone = None;
        for record in self.displaced()?.into_iter().chain(stripped) {
            // A record that was pruned, or restarted, has an end.
            if host.heads.pruned(&record)?.is_none() {
                gone = Some(record);
                break;
            }
        }
        let Some(record) = gone else {
            return Ok(());
        };
        let (shown, seals) = (log.display(), self.path.display());
        Err(Error::refused(format!(
            "{shown} was sealed as record {record}, and its seals are gone or no longer fit; hint: restore {seals}, or \
             threadseal seal --restart --why TEXT {shown}"
        )))
    }

    /// The record that this host sealed in the place of the log, if it was not moved.
    fn displaced(&self) -> Result<Option<RecordId>, Error> {
        let Self { host, log, .. } = self;
        let place = host.place(log);
        let Some(known) = host.heads.find_by_place(RecordKind::Observed, &place)? else {
            return Ok(None);
        };
        let moved = match SealedLines::of_known(&known) {
            Some(sealed) => sealed.moved_from(host, log)?,
            None => None,
        };
        Ok(moved.is_none().then_some(known.head.record))
    }

    /// Continues the seal file. `None` if it was moved to the log that it covers.
    fn next(&self, wait: Duration) -> Result<Option<Done>, Error> {
        let Self {
            host, log, path, ..
        } = self;
        let lock = match WriterLock::acquire_within(Arc::clone(&host.fs), path, wait) {
            Err(_) if host.fs.metadata(path).is_err() => return Ok(None),
            lock => lock?,
        };
        // A log opened before the lock was held could be older than the seals of another process.
        let file = open_regular(&*host.fs, log)?;
        let bytes = lock.reader()?.read_whole(MAX_SEAL_FILE_BYTES)?;
        let mut seals = parse(&bytes, path)?;
        let durable_floor = check_head(host, &seals, path)?;
        examine::refuse_displacing(host, log, RecordKind::Observed, &seals.record)?;
        let scan = examine::read_log(&file, Some(&seals), self.is_final, self.progress)?;
        if let Err(differs) = check_lines(&seals, &scan, log) {
            return match self.moved(&seals)? {
                Some(moved) => {
                    move_seals(host, path, &seals, &moved, MAX_GENERATIONS)?;
                    self.note_moved(log, &moved);
                    Ok(None)
                }
                None => Err(differs),
            };
        }
        let ends = self.is_final && seals.last().is_some_and(|last| !last.is_final);
        if scan.new_lines.is_empty() && !ends {
            self.publish_pending(&seals, &scan)?;
            note_new_place(host, &seals.record, log)?;
            return Ok(Some(Done::of(Sealed::Unchanged, &scan)));
        }
        host.refuse_doubted(&format!("{} has seals", path.display()), None)?;
        host.refuse_pruned(&seals.record)?;
        self.hand_over(&mut seals)?;
        let sealed_bytes = seals.sealed_bytes;
        let mut out = Vec::new();
        let seal = self.add(&mut seals, &scan, &mut out)?;
        let mut file = Log::open(lock, durable_floor)?;
        // Leaves without a seal, left by a crash: nothing was promised about them.
        file.move_tail_aside(sealed_bytes)?;
        file.append(&out)?;
        file.sync()?;
        self.publish(&seals, &seal, &scan)?;
        Ok(Some(Done::of(Sealed::Added(Box::new(seal)), &scan)))
    }

    /// Publishes the head of the last seal if the home does not know it: the process that made it was
    /// killed before. Seals of another key stay as they are.
    fn publish_pending(&self, seals: &SealFile, scan: &LogScan) -> Result<(), Error> {
        let Self { host, path, .. } = self;
        let Some(last) = seals.last() else {
            return Ok(());
        };
        let known = host.heads.fetch(&seals.record)?;
        let is_known = known
            .as_ref()
            .is_some_and(|known| known.head.seq >= last.head.seq);
        let vouches = host.heads.vouches() && known.is_none_or(|known| known.vouches);
        let is_own = seals.current_key() == self.signer.public_key();
        if is_known || !is_own || !vouches || host.heads.pruned(&seals.record)?.is_some() {
            return Ok(());
        }
        host.admit(
            (&seals.record, RecordKind::Observed),
            (last.head.seq, last.head.size),
            &scan.first_lines,
        )?;
        host.fs
            .open(path, Access::Append)
            .and_then(|file| file.sync_all())
            .and_then(|()| host.fs.sync_dir(directory_of(path)))
            .map_err(|error| failure("make durable", path, &error))?;
        self.publish(seals, last, scan)
    }

    /// Has the next seal name the keys that took the place of the one that made the last seal, as
    /// far as the log of the home states that. Only a seal that the log has from before the end of
    /// its key is followed so: the holder of a key that ended may have added others.
    fn hand_over(&self, seals: &mut SealFile) -> Result<(), Error> {
        let Self { host, path, .. } = self;
        let (from, to) = (seals.current_key(), self.signer.public_key());
        let Some(handed) = host.keys.handed_over(from, to)? else {
            return Ok(());
        };
        let last = seals.last().map(|last| last.head);
        let known = host.heads.fetch(&seals.record)?;
        let logged = known.and_then(|known| known.logged);
        let is_before = |at: LoggedAt| Some(at.logged.head) == last && at.number < handed.ended;
        if !logged.is_some_and(is_before) {
            return Err(Error::refused(format!(
                "the last seal in {} is by a key that has ended, and the log of this home does not have it from before that; hint: \
                 threadseal verify {}, or --restart begins a new record",
                path.display(),
                self.log.display()
            )));
        }
        seals.hand_over(&handed.rotations)
    }

    fn note_moved(&self, from: &Path, to: &Path) {
        self.moved.replace(Some(Moved {
            from: from.to_owned(),
            to: to.to_owned(),
        }));
    }

    fn moved(&self, seals: &SealFile) -> Result<Option<PathBuf>, Error> {
        match SealedLines::of_seals(seals) {
            Some(sealed) => sealed.moved_from(self.host, self.log),
            None => Ok(None),
        }
    }

    /// Seals the lines that are new, now.
    fn add(
        &self,
        seals: &mut SealFile,
        scan: &LogScan,
        out: &mut Vec<u8>,
    ) -> Result<ObservedSeal, Error> {
        if scan.lines > MAX_OBSERVED_LINES as u64 {
            let text = format!(
                "{} has more than {MAX_OBSERVED_LINES} lines, and one seal file covers no more; hint: move the log away, \
                 and begin another one",
                self.log.display()
            );
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let (lines, now) = (&scan.new_lines, self.host.clock.now()?);
        let size = sealed_size(seals, scan);
        let number = (seals.seals.len() as u64, size);
        let record = (&seals.record, RecordKind::Observed);
        self.host.admit(record, number, &scan.first_lines)?;
        check_size(seals.sealed_bytes + seals.naming_bytes(), lines.len())?;
        seals.seal(lines, size, self.is_final, now, self.signer, out)
    }

    fn publish(&self, seals: &SealFile, seal: &ObservedSeal, scan: &LogScan) -> Result<(), Error> {
        self.host.publish(&Published {
            head: seal.head,
            root: Some(seal.root),
            salts: seals.salt_root(),
            key: Some(self.signer.public_key().key_id()),
            kind: RecordKind::Observed,
            is_final: seal.is_final,
            thread: None,
            path: Some(self.log),
            aliases: &scan.first_lines,
            durability: Durability::Durable,
        })
    }
}

/// Moves the seals at `from` to the log that they cover, which is at `moved` now. Seals of an
/// earlier generation there are moved before, to their own log.
fn move_seals(
    host: &Host,
    from: &Path,
    seals: &SealFile,
    moved: &Path,
    generations: usize,
) -> Result<(), Error> {
    let to = seal_path(moved);
    if let (Some(bytes), Some(rest)) = (read_seal_file(host, &to)?, generations.checked_sub(1)) {
        let earlier = parse(&bytes, &to)?;
        let sealed = SealedLines::of_seals(&earlier);
        let next = sealed.map(|sealed| sealed.moved_from(host, moved));
        if let Some(next) = next.transpose()?.flatten() {
            move_seals(host, &to, &earlier, &next, rest)?;
        }
    }
    host.fs
        .rename_no_replace(from, &to)
        .and_then(|()| host.fs.sync_dir(directory_of(&to)))
        .and_then(|()| host.fs.sync_dir(directory_of(from)))
        .map_err(|error| failure("move the seals to", &to, &error))?;
    note_place(host, &seals.record, moved)
}

/// Notes that the record was moved to `log` with its seals. A copy has no new place: the log is in
/// the old one still.
fn note_new_place(host: &Host, record: &RecordId, log: &Path) -> Result<(), Error> {
    let known = host.heads.fetch(record)?.and_then(|known| known.path_hint);
    match known.map(PathBuf::from) {
        Some(place) if host.fs.symlink_metadata(&place).is_err() => note_place(host, record, log),
        _ => Ok(()),
    }
}

/// Replaces the place of a known head, which is as it was.
fn note_place(host: &Host, record: &RecordId, log: &Path) -> Result<(), Error> {
    let Some(known) = host.heads.fetch(record)? else {
        return Ok(());
    };
    let here = StoredHead {
        path_hint: Some(host.place(log)),
        logged: None,
        ..known.clone()
    };
    let _ = host
        .heads
        .replace_if(&known.head, &here, Durability::Durable)?;
    Ok(())
}

/// Bytes of the log up to the end of its whole lines. Redacted lines count with the length that was
/// sealed.
fn sealed_size(seals: &SealFile, scan: &LogScan) -> u64 {
    match (seals.last(), scan.sealed_end) {
        (Some(last), Some(end)) if scan.redacted > 0 => {
            last.head.size + scan.whole_bytes.saturating_sub(end)
        }
        _ => scan.whole_bytes,
    }
}

/// Refuses another seal in a seal file that would be too large to read with it.
fn check_size(sealed_bytes: u64, leaves: usize) -> Result<(), Error> {
    let added = leaves
        .saturating_mul(MAX_LEAF_BYTES)
        .saturating_add(2 * MAX_SEAL_LINE_BYTES);
    let limit = (MAX_SEAL_FILE_BYTES as u64).saturating_sub(added as u64);
    if sealed_bytes <= limit {
        return Ok(());
    }
    let text = format!(
        "a seal file has at most {MAX_SEAL_FILE_BYTES} bytes; hint: move the log away, and begin another one"
    );
    Err(Error::new(ErrorKind::Limit, text))
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
    let ended = seals.last().is_some_and(|last| last.is_final) && !scan.new_lines.is_empty();
    let what = match scan.difference {
        Some((line, _, _)) => format!("differs from its seals at line {line}"),
        None if scan.lines < sealed => {
            format!("lacks sealed lines from line {} on", scan.lines + 1)
        }
        None if ended => "was ended by its last seal, and has new lines".to_owned(),
        None => return Ok(()),
    };
    let log = log.display();
    Err(Error::refused(format!(
        "{log} {what}; hint: threadseal verify {log}, or threadseal seal --restart --why TEXT {log}"
    )))
}

#[cfg(test)]
mod tests;
