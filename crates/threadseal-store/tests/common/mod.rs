//! A sealer in miniature, and the list of its promises.
//!
//! ```text
//! event <n>            seal <seq> <size of all bytes before this line>
//! ```
//! It follows the order of a recorder: events, sync, seal, sync, head. Four rounds make the record
//! complete.

use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::time::Timestamp;
use threadseal_store::append::Log;
use threadseal_store::fault::FaultFs;
use threadseal_store::heads::{Durability, FileHeadStore, HeadStore, RecordKind, StoredHead, Swap};
use threadseal_store::lock::WriterLock;
use threadseal_store::sys::Fs;

pub(crate) const WORK: &str = "/disk";
pub(crate) const RECORD: &str = "/disk/record.jsonl";
pub(crate) const HEADS: &str = "/home/heads";
const FIRST: &[u8] = b"event 0\nseal 0 8\n";
const LAST_SEAL: u64 = 4;

fn record_id() -> RecordId {
    RecordId::from_bytes([0xab; 32])
}

fn first_line() -> Digest {
    Digest::of(b"event 0")
}

/// The directory that holds the record's head.
pub(crate) fn shard() -> String {
    format!("{HEADS}/ab")
}

/// The acknowledged bytes and heads, which must be there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    /// Acknowledged bytes of the record.
    written: Vec<u8>,
    /// How many of them are durable.
    durable: usize,
    /// Head that survives the process.
    head_written: Option<Head>,
    /// Head that survives power loss.
    head_durable: Option<Head>,
    /// A tail that must be in the record at this offset, or beside it.
    tail: Option<(usize, Vec<u8>)>,
}

impl Promises {
    pub(crate) fn forget_what_was_only_written(&mut self) {
        self.written.truncate(self.durable);
        self.head_written = self.head_durable;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.head_durable.is_some_and(|head| head.seq == LAST_SEAL)
    }

    /// Checks the disk as it is now.
    pub(crate) fn check(&self, fs: &FaultFs) {
        let file = fs.bytes_of(Path::new(RECORD)).unwrap_or_default();
        assert!(
            file.starts_with(&self.written),
            "acknowledged bytes are gone: {} is not the beginning of {}",
            self.written.escape_ascii(),
            file.escape_ascii()
        );
        if let Some((offset, tail)) = &self.tail {
            let aside = fs.bytes_of(&aside_path(*offset, tail));
            let in_place = file.get(*offset..*offset + tail.len()) == Some(tail);
            assert!(in_place || aside.as_ref() == Some(tail), "a tail is gone");
        }
        let heads = FileHeadStore::new(fs.shared(), HEADS);
        let stored = heads.fetch(&record_id()).unwrap();
        if let Some(promised) = self.head_written {
            let stored = stored.as_ref().expect("an acknowledged head is gone");
            assert!(stored.head.seq >= promised.seq, "a head went back");
            assert_eq!(heads.find_by_line(&first_line()).unwrap(), [record_id()]);
        }
        if let Some(stored) = stored {
            let seals = seals_of(&file);
            assert!(
                seals.contains(&stored.head),
                "head {} names bytes that the file has not: {}",
                stored.head,
                file.escape_ascii()
            );
        }
    }
}

/// Works on the record until it has [`LAST_SEAL`] seals, whatever state it is in.
pub(crate) struct Sealer<'p> {
    fs: FaultFs,
    heads: FileHeadStore,
    promises: &'p mut Promises,
}

impl<'p> Sealer<'p> {
    pub(crate) fn new(fs: &FaultFs, promises: &'p mut Promises) -> Self {
        Self {
            fs: fs.clone(),
            heads: FileHeadStore::new(fs.shared(), HEADS),
            promises,
        }
    }

    pub(crate) fn run(mut self) -> Result<(), Error> {
        let exists =
            self.fs
                .metadata(Path::new(RECORD))
                .map(|_| true)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(false),
                    _ => Err(Error::invalid(error.to_string())),
                })?;
        let mut log = if exists {
            self.resume()?
        } else {
            self.create()?
        };
        let result = self.seal_to_the_end(&mut log);
        if let Err(error) = &result {
            assert_silent(&mut log, error);
        }
        result
    }

    fn create(&mut self) -> Result<Log, Error> {
        let log = Log::create(self.fs.shared(), Path::new(RECORD), 0o600, FIRST)?;
        self.promises.written = FIRST.to_vec();
        self.promises.durable = FIRST.len();
        Ok(log)
    }

    /// Locks and reads the record, makes it durable, moves the tail aside, and updates the head.
    fn resume(&mut self) -> Result<Log, Error> {
        let lock = WriterLock::acquire(self.fs.shared(), Path::new(RECORD))?;
        let known = self.heads.fetch(&record_id())?.map(|stored| stored.head);
        let bytes = lock.reader()?.read_whole(1 << 20)?;
        let seals = seals_of(&bytes);
        if let Some(known) = known {
            assert!(seals.contains(&known), "a head is ahead of its file");
        }
        let last = *seals.last().expect("a record appears with its first seal");
        let floor = known.map_or(0, |head| head.size);
        let mut log = Log::open(lock, floor)?;
        self.promises.written.clone_from(&bytes);
        self.promises.durable = bytes.len();

        let sealed = usize::try_from(last.size).unwrap();
        if sealed < bytes.len() {
            self.promises.tail = Some((sealed, bytes[sealed..].to_vec()));
            self.promises.written.truncate(sealed);
            self.promises.durable = sealed;
        }
        let moved = log.move_tail_aside(last.size)?;
        assert_eq!(moved.is_some(), sealed < bytes.len());
        if let Some(moved) = moved {
            assert_eq!(moved.path, aside_path(sealed, &bytes[sealed..]));
            assert_eq!(moved.sha256, Digest::of(&bytes[sealed..]));
        }
        Ok(log)
    }

    fn seal_to_the_end(&mut self, log: &mut Log) -> Result<(), Error> {
        loop {
            let seals = seals_of(&self.promises.written);
            let last = *seals.last().expect("sealed from the first line on");
            self.store_head(last)?;
            if last.seq == LAST_SEAL {
                return Ok(());
            }
            let next = last.seq + 1;
            log.append_buffered(format!("event {next}a\n").as_bytes())?;
            self.append(
                log,
                &format!("event {next}a\n"),
                &format!("event {next}b\n"),
            )?;
            self.sync(log)?;
            let seal = format!("seal {next} {}\n", log.written_size());
            self.append(log, "", &seal)?;
            self.sync(log)?;
        }
    }

    fn append(&mut self, log: &mut Log, buffered: &str, line: &str) -> Result<(), Error> {
        let size = log.append(line.as_bytes())?;
        self.promises.written.extend_from_slice(buffered.as_bytes());
        self.promises.written.extend_from_slice(line.as_bytes());
        assert_eq!(size, self.promises.written.len() as u64);
        Ok(())
    }

    fn sync(&mut self, log: &mut Log) -> Result<(), Error> {
        let size = log.sync()?;
        self.promises.durable = usize::try_from(size).unwrap();
        assert_eq!(self.promises.durable, self.promises.written.len());
        Ok(())
    }

    fn store_head(&mut self, head: Head) -> Result<(), Error> {
        // Some heads do not wait for the disk, two of them in a row; a later one makes up for it.
        let durability = match head.seq {
            1 | 2 => Durability::Written,
            _ => Durability::Durable,
        };
        let new = StoredHead {
            head,
            root: None,
            salts: None,
            key: None,
            kind: RecordKind::Transcript,
            is_final: head.seq == LAST_SEAL,
            thread: None,
            first_seen: Timestamp::from_micros(head.seq).unwrap(),
            updated: Timestamp::from_micros(head.seq).unwrap(),
            path_hint: Some(RECORD.to_owned()),
            aliases: vec![first_line()],
            logged: None,
            vouches: true,
        };
        let swap = match self.heads.fetch(&record_id())? {
            None => self.heads.create(&new)?,
            Some(old) => self.heads.replace_if(&old.head, &new, durability)?,
        };
        assert_eq!(swap, Swap::Stored);
        self.promises.head_written = Some(head);
        if durability == Durability::Durable {
            self.promises.head_durable = Some(head);
        }
        Ok(())
    }
}

/// After a failure of the log nothing on it may succeed; after one elsewhere it still works.
fn assert_silent(log: &mut Log, error: &Error) {
    let first = log.flush();
    let log_failed = error.to_string().contains(RECORD);
    assert_eq!(first.is_err(), log_failed, "{error}");
    if log_failed {
        assert!(log.append(b"x\n").is_err());
        assert!(log.append_buffered(b"x\n").is_err());
        assert!(log.sync().is_err());
        assert!(log.move_tail_aside(0).is_err());
    }
}

/// All good seals of `bytes`, in order.
fn seals_of(bytes: &[u8]) -> Vec<Head> {
    let mut seals: Vec<Head> = Vec::new();
    let mut start = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let expected = format!("seal {} {start}\n", seals.len());
        if line == expected.as_bytes() {
            seals.push(Head {
                record: record_id(),
                seq: seals.len() as u64,
                size: (start + line.len()) as u64,
                line: Digest::of(line.strip_suffix(b"\n").unwrap()),
            });
        }
        start += line.len();
    }
    seals
}

fn aside_path(offset: usize, tail: &[u8]) -> PathBuf {
    PathBuf::from(format!("{RECORD}.tail-{offset}-{}", Digest::of(tail)))
}
