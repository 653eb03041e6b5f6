//! Connections to an SQLite file: to write, and to read without leaving a trace.
//!
//! ```text
//! to write         WAL, synchronous = FULL: a commit that returned has reached the disk
//! to read          no -wal beside the file             immutable: no lock, no second file
//!                  a -wal and its -shm, in use         read-only, also the shared memory
//!                  a -wal, not in use (copy, crash)    read-only, its index in this process
//! ```
//! Without locks a reader gets no signal of a change. Therefore [`Reading::is_unchanged`] compares
//! the sizes and times of both files after each read. An unfinished rollback journal (`-journal`)
//! can only be played back by writing, so such a file is refused. SQLite plays back no journal
//! without the magic of one, and neither does such a file hide anything here. A writer keeps no
//! rollback journal, so one that is found beside its file is not its own and is refused as well.
//!
//! SQLite opens what it finds beside a file, and waits for ever at a pipe. So every file that it
//! would open is looked at before, and once more before its first read.
//!
//! Files are untrusted: schemas are not trusted, values above [`MAX_VALUE_BYTES`] are not loaded,
//! and pages are checked as they are read.

use super::failure::failed;
use crate::clock::{Clock, SystemClock};
use crate::lock::MAX_TURN_WAIT;
use crate::sys::{FileKind, Fs as _, Metadata, RealFs, directory_of};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;

/// Longest wait of the writer whose turn it is, before it gives up.
const PATIENCE: Duration = MAX_TURN_WAIT;
/// How long a journal of pages may be that of a writer at work.
const MAX_JOURNAL_WAIT: Duration = Duration::from_secs(1);
/// First and longest pause between two looks whether it is a writer's turn.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// Longest value that is loaded: a record, and a little that SQLite adds when it stores one.
const MAX_VALUE_BYTES: i32 = 64 + (16 << 20);
const _: () = assert!(MAX_LINE_BYTES + 64 == 64 + (16 << 20));
/// Pages of the write-ahead log after which it is copied into the file.
const CHECKPOINT_PAGES: u32 = 4000;
/// SQLite's way to files without locks; its `nolock=1` would do without the log as well.
const NO_LOCKS: &str = "vfs=unix-none";
/// Mode of a new file: an agent's words are for its user.
const FILE_MODE: u32 = 0o600;

/// Files that SQLite opens beside a database.
const SIDE_FILES: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A connection that may write, to a file that is made where there is none, whatever tables there
/// are.
pub(super) fn durable(path: &Path) -> Result<Connection, Error> {
    durable_with(path, OpenFlags::empty())
}

/// The same of a file that is no link: the maker of a link would choose which file is written.
pub(super) fn durable_itself(path: &Path) -> Result<Connection, Error> {
    let link = RealFs
        .symlink_metadata(path)
        .is_ok_and(|found| found.kind == FileKind::Symlink);
    if link {
        return Err(Error::refused(format!(
            "{}: it is a symbolic link, and no database is written through one; remove the link, or put the file \
             itself in its place",
            path.display()
        )));
    }
    // The maker of the project may have put links on the way to the folder.
    let real = directory_of(path);
    let real = RealFs.canonicalize(real);
    let real = real.map_err(|error| crate::sys::failure("open", path, &error))?;
    let name = path.file_name().unwrap_or_default();
    durable_with(&real.join(name), OpenFlags::SQLITE_OPEN_NOFOLLOW)
}

fn durable_with(path: &Path, more: OpenFlags) -> Result<Connection, Error> {
    create_if_absent(path)?;
    check_to_write(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let mut connection = Connection::open_with_flags(path, flags)
        .map_err(|error| failed("it cannot be opened", path, &error))?;
    let fail = |error| failed("it cannot be opened", path, &error);
    // SQLite opens the files beside it at the first statement that reads.
    check_to_write(path)?;
    wait_for_others(&mut connection).map_err(fail)?;
    distrust(&connection).map_err(fail)?;
    use_write_ahead_log(&connection, path)?;
    sync_commits(&connection, true).map_err(fail)?;
    connection
        .pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
        .map_err(fail)?;
    Ok(connection)
}

/// Do commits wait until they have reached the disk? In a write-ahead log the next one that does
/// brings all before it there.
pub(super) fn sync_commits(connection: &Connection, wait: bool) -> rusqlite::Result<()> {
    let level = if wait { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", level)
}

/// Looks at each file that SQLite would open for the database at `path`, so that none holds it up.
///
/// # Errors
/// Kind `Refused` when one of them is no regular file.
pub(super) fn check_files(path: &Path) -> Result<(), Error> {
    for suffix in [""].into_iter().chain(SIDE_FILES) {
        let file = beside(path, suffix);
        let kind = match RealFs.symlink_metadata(&file) {
            Ok(found) => found.kind,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(crate::sys::failure("read", &file, &error)),
        };
        if kind != FileKind::Regular {
            return Err(Error::refused(format!(
                "{}: it is {kind} and no regular file, so SQLite cannot open {}; remove it",
                file.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// [`check_files`] for a writer, which would play back a journal that it finds.
///
/// # Errors
/// Kind `Refused` also for a journal that is not of the first transaction of the file.
pub(super) fn check_to_write(path: &Path) -> Result<(), Error> {
    check_files(path)?;
    let journal = beside(path, "-journal");
    if ends_as_super_journal(&journal) {
        return Err(Error::refused(format!(
            "{}: the journal leads to other files, which SQLite would open and remove; move it away",
            journal.display()
        )));
    }
    refuse_unfinished(path, |found| matches!(found, Journal::OfPages { .. }))
}

/// A transaction is unfinished where its journal stays, and no process is at work on the file.
fn refuse_unfinished(path: &Path, is_bad: impl Fn(Journal) -> bool) -> Result<(), Error> {
    let journal = beside(path, "-journal");
    let start = SystemClock.elapsed();
    loop {
        let found = Journal::at(&journal);
        if !is_bad(found) {
            return Ok(());
        }
        let locked = RealFs
            .metadata(path)
            .is_ok_and(|found| crate::sys::is_locked(found.identity));
        let late = SystemClock.elapsed().saturating_sub(start) >= MAX_JOURNAL_WAIT;
        // The writer may have ended its transaction between the two looks, and begun another.
        if late || !locked && Journal::at(&journal) == found {
            return Err(unfinished(path));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn unfinished(path: &Path) -> Error {
    Error::refused(format!(
        "a transaction on {} was not finished; open it once with the program that wrote it, \
         which rolls it back",
        path.display()
    ))
}

fn create_if_absent(path: &Path) -> Result<(), Error> {
    let fs = RealFs::shared();
    let io = |error: io::Error| {
        Error::new(
            ErrorKind::External,
            format!("cannot create {}: {error}", path.display()),
        )
        .with_source(error)
    };
    if fs.metadata(path).is_ok() {
        return Ok(());
    }
    match fs.open(path, crate::sys::Access::CreateNew(FILE_MODE)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
        _ => {}
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    fs.sync_dir(folder.unwrap_or(Path::new("."))).map_err(io)
}

/// Other writers hold the file for the time of one commit, so the first pauses are short. Where
/// many write all the time, each check slows the present writer, so pauses get longer.
fn wait_for_others(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut since = Duration::ZERO;
    connection.busy_handler(Some(move |attempt: i32| {
        let now = SystemClock.elapsed();
        if attempt == 0 {
            since = now;
        }
        if now.saturating_sub(since) >= PATIENCE {
            return false;
        }
        let pause = FIRST_PAUSE * (1 << attempt.clamp(0, 10));
        thread::sleep(pause.min(LONGEST_PAUSE));
        true
    }))
}

fn distrust(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Keeps the file from changing the written rows by triggers, and the read ones by views.
pub(super) fn without_triggers(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    Ok(())
}

fn use_write_ahead_log(connection: &Connection, path: &Path) -> Result<(), Error> {
    let start = SystemClock.elapsed();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| {
            row.get::<_, String>(0)
        });
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {
                return Err(Error::invalid(format!(
                    "{} is in a place where SQLite cannot keep a write-ahead log; use a local disk",
                    path.display()
                )));
            }
            // Two who make the same file: the busy handler is not asked while the mode changes.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && SystemClock.elapsed().saturating_sub(start) < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(failed("it cannot be opened", path, &error)),
        }
    }
}

/// A connection that only reads, and the state of the files when it was made.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) connection: Connection,
    path: PathBuf,
    /// `None` where SQLite's own locks keep readers and writers apart.
    stamps: Option<[Option<Stamp>; 2]>,
}

/// The values that change when a file is written to: size and time. The time of the metadata is not
/// one of them. SQLite gives a log that it opens as root to the owner of the file, who mostly has
/// it already.
type Stamp = (u64, i128);

impl Reading {
    /// Opens an existing file, whatever tables there are.
    pub(super) fn bare(path: &Path) -> Result<Self, Error> {
        let fs = RealFs::shared();
        let size = |suffix: &str| fs.metadata(&beside(path, suffix)).map_or(0, |m| m.size);
        check_files(path)?;
        if !fs.metadata(path).is_ok_and(|found| found.size > 0) {
            return Err(Error::new(
                ErrorKind::External,
                format!("cannot read {}: there is no SQLite file", path.display()),
            ));
        }
        refuse_unfinished(path, |found| found != Journal::None)?;
        let stamps = stamps(path);
        let (how, locked) = match (size("-wal") > 0, is_in_use(&beside(path, "-shm"))) {
            (false, _) => ("immutable=1", false),
            (true, true) => ("readonly_shm=1", true),
            (true, false) => (NO_LOCKS, false),
        };
        let connection = open_uri(path, how)?;
        check_files(path)?;
        if how == NO_LOCKS {
            // Without shared memory: the index of the log is made in this process.
            connection
                .pragma_update(None, "locking_mode", "EXCLUSIVE")
                .map_err(|error| failed("it cannot be opened", path, &error))?;
        }
        Ok(Self {
            connection,
            path: path.to_owned(),
            stamps: (!locked).then_some(stamps),
        })
    }

    /// Do SQLite's own locks keep readers and writers apart?
    pub(super) fn is_locked(&self) -> bool {
        self.stamps.is_none()
    }

    /// Did no process write since this was opened, or would SQLite have noticed?
    pub(super) fn is_unchanged(&self) -> bool {
        self.stamps
            .is_none_or(|before| before == stamps(&self.path))
    }
}

/// Has any process the shared memory open?
///
/// A process that died may have left it half written, and SQLite waits ten seconds for that process
/// then. This check does not open it: closing it again would release SQLite's locks of this process
/// (sqlite.org/howtocorrupt.html, §2.2).
fn is_in_use(shared_memory: &Path) -> bool {
    let Ok(found) = RealFs.metadata(shared_memory) else {
        return false;
    };
    crate::sys::is_locked(found.identity) || crate::sys::is_open_here(found.identity)
}

/// Is there a file at `path` of which the first transaction was never finished? It is empty, and
/// the next writer completes it.
pub(super) fn is_unmade(path: &Path) -> bool {
    let Ok(found) = RealFs.metadata(path) else {
        return false;
    };
    let regular = found.kind == FileKind::Regular;
    let journal = || Journal::at(&beside(path, "-journal"));
    regular && (found.size == 0 || journal() == Journal::OfNothing)
}

/// Name, its length, its sum and the magic: a shorter end names no super-journal.
const MIN_SUPER_JOURNAL_END: u64 = 16;

/// What every rollback journal begins with (sqlite.org/fileformat2.html, §3).
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// What SQLite may play back from a journal. One look answers: its writer may remove it at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journal {
    /// There is none, or one without its magic: it was not synced, so the file was not written yet.
    None,
    /// It restores a file to no page at all.
    OfNothing,
    /// It restores pages, or it cannot be read. Each transaction has a random number of its own.
    OfPages { nonce: [u8; 4] },
}

impl Journal {
    fn at(path: &Path) -> Self {
        let mut header = [0; 20];
        match read_beginning(path, &mut header) {
            Ok(8..) if !header.starts_with(&JOURNAL_MAGIC) => Self::None,
            Ok(20) if header[16..] == [0; 4] => Self::OfNothing,
            Ok(0..8) => Self::None,
            Ok(_) | Err(_) => Self::OfPages {
                nonce: [header[12], header[13], header[14], header[15]],
            },
        }
    }
}

/// May SQLite play this journal back? One that cannot be read may be such a one.
pub(super) fn begins_as_journal(journal: &Path) -> bool {
    Journal::at(journal) != Journal::None
}

/// Does a journal name a super-journal? SQLite opens and removes that file, wherever it is.
fn ends_as_super_journal(journal: &Path) -> bool {
    let end = || -> io::Result<bool> {
        let file = RealFs.open(journal, crate::sys::Access::Read)?;
        let size = file.metadata()?.size;
        let mut bytes = [0; JOURNAL_MAGIC.len()];
        // One that is just being made begins with the same bytes.
        if size < MIN_SUPER_JOURNAL_END {
            return Ok(false);
        }
        let start = size - bytes.len() as u64;
        let read = crate::sys::read_full_at(&*file, &mut bytes, start)?;
        Ok(read == bytes.len() && bytes == JOURNAL_MAGIC)
    };
    match end() {
        Ok(ends) => ends,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The first bytes of a regular file that has as many.
pub(super) fn beginning<const N: usize>(path: &Path) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    let read = read_beginning(path, &mut bytes)?;
    Ok((read == N).then_some(bytes))
}

/// Reads the beginning of a regular file into `bytes`: how many it has, none where there is no file.
fn read_beginning(path: &Path, bytes: &mut [u8]) -> io::Result<usize> {
    let mut read = || {
        if RealFs.metadata(path)?.kind != FileKind::Regular {
            return Ok(0);
        }
        let file = RealFs.open(path, crate::sys::Access::Read)?;
        crate::sys::read_full_at(&*file, bytes, 0)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        read => read,
    }
}

fn open_uri(path: &Path, how: &str) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let uri = format!("file:{}?mode=ro&{how}", escaped(path)?);
    let mut connection = Connection::open_with_flags(uri, flags)
        .map_err(|error| failed("it cannot be opened", path, &error))?;
    let fail = |error| failed("it cannot be opened", path, &error);
    wait_for_others(&mut connection).map_err(fail)?;
    distrust(&connection).map_err(fail)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(fail)?;
    connection
        .pragma_update(None, "temp_store", "MEMORY")
        .map_err(fail)?;
    Ok(connection)
}

/// `path` as the path of a `file:` URI (sqlite.org/uri.html §3.1).
fn escaped(path: &Path) -> Result<String, Error> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Error::invalid(error.to_string()).with_source(error))?;
    let text = absolute
        .to_str()
        .ok_or_else(|| Error::invalid(format!("the path {} is not UTF-8", path.display())))?;
    Ok(text
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23"))
}

/// A file that belongs to the database at `path`: beside the real one, whatever link leads there,
/// as SQLite has its own.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let real = RealFs.canonicalize(path);
    let mut name = OsString::from(real.unwrap_or_else(|_| path.to_owned()));
    name.push(suffix);
    PathBuf::from(name)
}

fn stamps(path: &Path) -> [Option<Stamp>; 2] {
    let fs = RealFs::shared();
    let of = |found: Metadata| (found.size, found.modified_ns);
    [path.to_owned(), beside(path, "-wal")].map(|file| fs.metadata(&file).ok().map(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Looks at a file that a writer changes all the time.
    const MAX_LOOKS: usize = 100_000;

    // T-STO-27
    #[test]
    fn a_writer_at_work_has_no_unfinished_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        let writer = Connection::open(&path).unwrap();
        writer
            .execute_batch("PRAGMA synchronous = OFF; CREATE TABLE words (word)")
            .unwrap();
        let (stop, mut seen) = (AtomicBool::new(false), 0);
        thread::scope(|scope| -> Result<(), Error> {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    writer.execute("INSERT INTO words VALUES (1)", []).unwrap();
                }
            });
            for _ in 0..MAX_LOOKS {
                seen += usize::from(begins_as_journal(&beside(&path, "-journal")));
                let looks = [check_to_write(&path), Reading::bare(&path).map(drop)];
                if seen > 20 || looks.iter().any(Result::is_err) {
                    stop.store(true, Ordering::Relaxed);
                    return looks.into_iter().collect();
                }
            }
            stop.store(true, Ordering::Relaxed);
            Err(Error::invalid("no look met a transaction"))
        })
        .unwrap();
    }

    #[test]
    fn a_journal_that_no_process_finishes_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        Connection::open(&path)
            .and_then(|made| made.execute_batch("CREATE TABLE words (word)"))
            .unwrap();
        let journal = |pages: u8, length: usize| {
            let mut header = [JOURNAL_MAGIC.as_slice(), &[0; 11], &[pages]].concat();
            header.truncate(length);
            std::fs::write(beside(&path, "-journal"), header).unwrap();
            check_to_write(&path).map_err(|error| error.to_string())
        };
        assert_eq!(journal(0, 20), Ok(()));
        assert_eq!(journal(9, 7), Ok(()));
        for length in [8, 9, 19, 20] {
            assert!(journal(9, length).unwrap_err().contains("not finished"));
        }
    }
}
