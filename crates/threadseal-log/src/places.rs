//! [`LogPlaces`]: where the logs of a home are, which one goes on, and how one is made.
//!
//! ```text
//! make   log/<log id>/… with its first entries ─► its key ─► log/current ─► marks   each durable before the next
//! ```
//! Up to the key nothing has happened: the home has the log that it had, or none. A log whose making ended behind its key is
//! whole, and goes on when one is to be made again ([`LogPlaces::finish`]).

use super::LogKey;
use super::description::{Description, LogId};
use super::ends::Ends;
use super::far::Far;
use super::journal::Journal;
use super::mark::Mark;
use super::mark_place::MarkPlace;
use super::place::{self, Place};
use super::view::read_committed;
use super::writer::{self, Writer};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::home::PRIVATE_DIRECTORY;
use threadseal_store::lock::Exclusive;
use threadseal_store::random::{self, Random};
use threadseal_store::read;
use threadseal_store::sys::Fs;

/// Longest `current` in bytes.
const MAX_CURRENT_BYTES: usize = 64;
/// Entries of a log that is made that are in memory at once.
const MADE_AT_ONCE: usize = 8192;

/// Where the logs of a home are, and the second place.
#[derive(Clone)]
pub struct LogPlaces {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// The home, whose folder `log` holds its logs.
    pub home: PathBuf,
    /// The second place that this home has without being told.
    pub mark: PathBuf,
    /// Where it would have that if it were named in another way.
    pub elsewhere: Vec<PathBuf>,
    /// A tagged digest of what the system calls this machine, where it tells.
    pub host: Option<Digest>,
    /// What databases and storages that hold a mark are to be told, as environments spell it: `PGPASSWORD`, `AWS_…`.
    pub settings: Vec<(String, String)>,
}

impl LogPlaces {
    pub(super) fn logs(&self) -> PathBuf {
        self.home.join("log")
    }

    pub(super) fn place(&self, id: LogId) -> Place {
        Place {
            fs: Arc::clone(&self.fs),
            root: self.logs().join(id.to_string()),
        }
    }

    /// The folders among the second places.
    pub(super) fn marks(&self, description: &Description) -> Vec<Mark> {
        let named = description.marks.iter();
        let mut folders: Vec<&Path> = named.filter_map(MarkPlace::folder).collect();
        if !folders.contains(&&*self.mark) {
            if self.moved_along(description) {
                folders.remove(0);
            }
            folders.push(&self.mark);
        }
        // One order, so that two who wait for all of them do not wait for each other.
        folders.sort();
        folders
            .into_iter()
            .map(|folder| self.mark_in(folder, description.id))
            .collect()
    }

    pub(super) fn mark_in(&self, folder: &Path, id: LogId) -> Mark {
        Mark::new(self, folder, id)
    }

    /// Did the place that goes without saying, the first one of a log, move together with the home? Then nothing is made where
    /// both were.
    fn moved_along(&self, description: &Description) -> bool {
        let Some(first) = description.marks.first().and_then(MarkPlace::folder) else {
            return false;
        };
        let gone = self.fs.symlink_metadata(first);
        gone.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            && self.mark_in(&self.mark, description.id).is_there()
    }

    /// The log that goes on; None when this home never had one.
    ///
    /// # Errors
    /// Kind `Refused`, `log_missing`, when there is none and the second place knows one; `External` when a file is damaged
    /// or cannot be read.
    pub fn current(&self) -> Result<Option<Description>, Error> {
        if let Some(id) = self.current_id()? {
            return Description::read(&self.place(id), id).map(Some);
        }
        if let Some(id) = self.lost()? {
            return Err(Error::refused(format!(
                "log_missing: this home had the log {id} (its second place knows it), and it is gone; bring it back, or run: \
                 threadseal log restart"
            )));
        }
        match self.log_keys()?.first() {
            None => Ok(None),
            Some(name) => Err(Error::refused(format!(
                "log_missing: this home has {name}.log.key, the key of a log, and neither the log nor a second place; bring it \
                 back, or run: threadseal log restart"
            ))),
        }
    }

    /// The keys of logs that this home has, by the names of their files: `log-<16 hex>`.
    fn log_keys(&self) -> Result<Vec<String>, Error> {
        let folder = self.home.join("keys");
        let names = match self.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(threadseal_store::sys::failure("read", &folder, &error)),
        };
        let log = |name: OsString| {
            let name = name.into_string().ok()?;
            let stem = name.strip_suffix(".log.key")?;
            let id = stem.strip_prefix("log-")?;
            let id = threadseal_core::encoding::parse_hex_array::<8>(id);
            id.map(|_| stem.to_owned())
        };
        let mut logs: Vec<String> = names.into_iter().filter_map(log).collect();
        logs.sort();
        Ok(logs)
    }

    /// The public half of a log's key, where it is among the keys of this home.
    pub(super) fn own_key(&self, id: LogId) -> Option<PublicKey> {
        let path = self
            .home
            .join("keys")
            .join(format!("{}.log.pub", id.key_name()));
        let bytes = read::read_small(&*self.fs, &path, MAX_KEY_FILE_BYTES).ok()?;
        PublicKey::parse_any(std::str::from_utf8(&bytes).ok()?).ok()
    }

    /// The log that `current` names, whether it can be opened or not.
    ///
    /// # Errors
    /// Kind `External` when the file is damaged or cannot be read.
    pub fn current_id(&self) -> Result<Option<LogId>, Error> {
        let path = self.logs().join("current");
        let place = Place {
            fs: Arc::clone(&self.fs),
            root: self.logs(),
        };
        let Some(bytes) = place.read(&path, MAX_CURRENT_BYTES)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes).ok();
        let id = text.and_then(|text| LogId::parse_hex(text.strip_suffix('\n')?));
        id.map(Some).ok_or_else(|| place::damaged(&path))
    }

    /// Makes the first log of this home. Heads that are known already are its first entries. `keep` puts its key among those of
    /// the home, durably, once the log is whole: a key says that there was a log.
    ///
    /// # Errors
    /// Kind `Refused` when one was made meanwhile, `External` when the system fails; what `keep` says. The log goes on only after
    /// everything of it is durable.
    pub fn create(
        &self,
        description: &Description,
        key: &LogKey,
        known: &[LoggedHead],
        keep: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut entries = known.iter().map(entry_of);
        let ends = Ends::default();
        self.make(description, key, &mut entries, None, &ends, keep)
    }

    /// Lets the log go on whose making was cut short behind its key. It is whole, and nothing but that key says that there was a
    /// log; `has_key` tells whether the home has the key of this one. Answers whether there was such a log.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn finish(&self, has_key: &dyn Fn(&Description) -> bool) -> Result<bool, Error> {
        if self.unfinished(has_key)?.is_none() {
            return Ok(false);
        }
        let _alone = Exclusive::enter(&*self.fs, &self.logs().join("lock"))?;
        // Whoever was in there may have done the same.
        match self.unfinished(has_key)? {
            Some(id) => self.let_go_on(id).map(|()| true),
            None => Ok(false),
        }
    }

    fn unfinished(&self, has_key: &dyn Fn(&Description) -> bool) -> Result<Option<LogId>, Error> {
        let keys = self.log_keys()?;
        let [key] = keys.as_slice() else {
            return Ok(None);
        };
        if self.current_id()?.is_some() || self.lost()?.is_some() {
            return Ok(None);
        }
        let names = self.fs.read_dir(&self.logs()).unwrap_or_default();
        let ids = names.into_iter().filter_map(|name| {
            let id = LogId::parse_hex(name.to_str()?)?;
            (id.key_name() == *key).then_some(id)
        });
        let whole = |id: &LogId| {
            let place = self.place(*id);
            let description = Description::read(&place, *id).ok();
            description.is_some_and(|description| {
                has_key(&description) && read_committed(&place, &description).is_ok()
            })
        };
        Ok(ids.into_iter().find(whole))
    }

    /// Has `log/current` name this log.
    fn let_go_on(&self, id: LogId) -> Result<(), Error> {
        let (path, text) = (self.logs().join("current"), format!("{id}\n"));
        atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    /// Can each second place of a log that is to be made be written, or asked?
    pub(super) fn reach_marks(&self, description: &Description) -> Result<(), Error> {
        let marks = self.marks(description);
        marks.iter().try_for_each(|mark| mark.enter().map(drop))?;
        let far = Far::new(self, description).said(false);
        far.into_iter().try_for_each(|said| said.map(drop))
    }

    /// Makes a log with these entries, keeps its key, and lets it go on from now, in the place of `replaced`; keys had `ends` in the
    /// logs before.
    pub(super) fn make(
        &self,
        description: &Description,
        key: &LogKey,
        entries: &mut dyn Iterator<Item = Result<Vec<u8>, Error>>,
        replaced: Option<LogId>,
        ends: &Ends,
        keep: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        atomic::create_directories(&*self.fs, &self.logs(), PRIVATE_DIRECTORY)?;
        let _alone = Exclusive::enter(&*self.fs, &self.logs().join("lock"))?;
        if self.current_id().ok().flatten() != replaced {
            return Err(Error::refused("another log was made meanwhile"));
        }
        // Before anything of it is made: a second place that cannot be written refuses the log.
        let marks = self.marks(description);
        let _marking = marks
            .iter()
            .map(Mark::enter)
            .collect::<Result<Vec<_>, _>>()?;
        let far = Far::new(self, description);
        far.said(false)
            .into_iter()
            .try_for_each(|said| said.map(drop))?;
        let place = self.place(description.id);
        atomic::create_directories(&*self.fs, &place.root, PRIVATE_DIRECTORY)?;
        description.write(&place)?;
        ends.write(&place)?;
        let empty = writer::sign(description, key, TreeHead::empty())?;
        place.replace(&place.checkpoint(), empty.to_string().as_bytes())?;
        place.replace(&place.journal(), &Journal::begin(&empty))?;
        // Nobody else has ever heard of it.
        let mut writer = Writer::open(&place, description, key, &|| true, &|_, _| Ok(()))?;
        loop {
            let some: Vec<Vec<u8>> = (&mut *entries)
                .take(MADE_AT_ONCE)
                .collect::<Result<_, _>>()?;
            if some.is_empty() {
                break;
            }
            writer.commit(&some)?;
        }
        writer.fold()?;
        keep()?;
        self.let_go_on(description.id)?;
        // Behind `current`: a mark of a log that never went on would say that one is missing. The next commit makes up
        // for a mark that a crash kept from being written.
        for mark in &marks {
            mark.write(writer.head())?;
            self.claim(mark, description.id)?;
        }
        drop(writer);
        far.offer();
        Ok(())
    }
}

impl fmt::Debug for LogPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings hold secrets.
        let mut shown = f.debug_struct("LogPlaces");
        shown.field("home", &self.home).field("mark", &self.mark);
        shown.finish_non_exhaustive()
    }
}

/// Refuses a folder that other machines may write to as well: of two that commit to one log, neither would know of the other.
/// One that is not there yet would lie where the nearest folder above it lies.
///
/// # Errors
/// Kind `Refused` for a network file system, `External` when the system does not tell.
pub fn refuse_shared(fs: &dyn Fs, folder: &Path) -> Result<(), Error> {
    let there = |path: &&Path| fs.symlink_metadata(path).is_ok();
    let standing = folder.ancestors().find(there).unwrap_or(folder);
    let shared = fs.is_on_network(standing);
    match shared.map_err(|error| threadseal_store::sys::failure("look at", standing, &error))? {
        false => Ok(()),
        true => Err(Error::refused(format!(
            "{} lies on a network file system; if this machine alone uses it, say so with --single-host",
            folder.display()
        ))),
    }
}

/// A new log id.
///
/// # Errors
/// Kind `External` when the random source fails.
pub fn new_id(random: &dyn Random) -> Result<LogId, Error> {
    Ok(LogId::from_bytes(random::array(random)?))
}

/// What the system calls this machine, as a tagged digest; None where it does not tell (machine-id(5)).
pub fn machine(fs: &dyn Fs) -> Option<Digest> {
    const FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    const MAX_MACHINE_ID_BYTES: usize = 4096;
    let read = |path: &&str| match read::read_small(fs, Path::new(path), MAX_MACHINE_ID_BYTES) {
        Ok(bytes) if !bytes.trim_ascii().is_empty() => Some(bytes),
        _ => None,
    };
    let bytes = FILES.iter().find_map(read)?;
    Some(Digest::tagged("log host", &[bytes.trim_ascii()]))
}

/// The entry that says this head.
pub(super) fn entry_of(logged: &LoggedHead) -> Result<Vec<u8>, Error> {
    LogEntry::Head(*logged).to_bytes().ok_or_else(|| {
        let head = logged.head;
        let text = format!("the head {head} has a number that no log can hold");
        Error::new(ErrorKind::Limit, text)
    })
}
