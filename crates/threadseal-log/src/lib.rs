//! [`SealLog`]: the log of a host, in which every head that it stores is written down (`spec/anchors.md`).
//!
//! ```text
//! head stored ─► spool file ─► waits ─┐                      one thread of each process
//!                                     ├─► Writer: journal, fsync, sign ─► tiles, checkpoint
//! heads of processes that ended ──────┘                      one process at a time
//!
//! reader ─► journal, tiles ─► LogView: proofs against the signed checkpoint
//! ```
//! | file | owns |
//! |---|---|
//! | `places` | where the logs of a home are, which one goes on, and how one is made |
//! | `place`, `contents` | tiles on the disk; the tree over tiles and journal |
//! | `journal`, `writer` | what is committed, and in which order things become durable |
//! | `view` | reading without the lock |
//! | `index`, `index_file` | where the heads of a record are |
//! | `rare` | which entries are no heads |
//! | `spool`, `spool_key` | heads that wait, and how a home knows its own |
//! | `batch`, `committer` | what the log lacks of them, and who commits it |
//! | `unproved` | what becomes of lines that nothing shows to be the home's |
//! | `mark` | a folder as a second place |
//! | `mark_place`, `far`, `marks` | how second places are named; those that do not answer at once |
//! | `marking` | which second places there are, and what each says |
//! | `again`, `past` | the ways out for a log that commits nothing |
//! | `kept`, `ends` | what of the entries comes along into the next log; where keys ended before it |
//! | `twins` | copies of one home, and which of them is the log's own |
//! | `key_events`, `judging` | what keys said of themselves; which seals stood there before they ended |
//! | `redactions` | which redactions of records it knows |
//! | `tombstones` | which records it knows to be pruned |
//! | `forks` | of which records it knows that two histories were sealed |
//! | `cosigned`, `kept_notes` | what witnesses said of it, and what of that is kept |
//! | `mirror` | the log in object storage, for readers elsewhere |
//! | `record_log` | a record as a log, for tools that know logs |
//! | `listing` | which records a log knows |
//! | `standing` | what the log is worth to who judges by it |
//! | `whereabouts` | where the records lie that only the log knows |
//! | `timestamps` | what time-stamping authorities said of it (feature `timestamp`) |
//! | `heads` | a store of heads that logs what it stores, and believes the log where that knows more |
//!
//! Laws:
//! * No two trees of one size are ever signed, whatever fails.
//! * That a head waits, or cannot be committed, never holds up or undoes its seal.
//! * Of one record and number the first head that was committed stands.
//! * A log that is behind its mark, or on another machine, commits nothing.

#![forbid(unsafe_code)]

mod again;
mod batch;
mod committer;
mod contents;
mod cosigned;
mod description;
mod ends;
mod far;
mod forks;
mod fsck;
mod heads;
mod index;
mod index_file;
mod journal;
#[cfg(feature = "timestamp")]
mod judging;
mod kept;
mod kept_notes;
mod key_events;
mod listing;
mod mark;
mod mark_place;
mod marking;
mod marks;
mod mirror;
mod past;
mod place;
mod places;
mod rare;
mod record_log;
mod redactions;
mod spool;
mod spool_key;
mod standing;
#[cfg(test)]
mod tests;
#[cfg(feature = "timestamp")]
mod timestamps;
mod tombstones;
mod twins;
mod unproved;
mod view;
mod whereabouts;
mod writer;

#[cfg(feature = "peer")]
pub mod asking;
#[cfg(feature = "timestamp")]
pub mod timestamp;
pub mod witness;

pub use committer::{Fork, Published};
pub use description::{Description, LogId};
pub use forks::Accused;
pub use fsck::Checked;
pub use heads::LoggedHeads;
#[cfg(feature = "timestamp")]
pub use judging::JudgedPlaces;
pub use kept_notes::CosignedNote;
pub use mark_place::MarkPlace;
pub use marking::MarkState;
pub use mirror::Mirrored;
pub use past::Past;
pub use places::{LogPlaces, machine, new_id, refuse_shared};
pub use record_log::write_record_log;
pub use standing::Standing;
#[cfg(feature = "timestamp")]
pub use timestamps::{JudgedStamp, KeptStamp};
pub use unproved::SetAside;
pub use view::LogView;

use committer::Committer;
use contents::Contents;
use far::Far;
use index::Index;
use place::Place;
use rare::Rare;
use standing::Stamps;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::Signer;
use threadseal_core::merkle::TreeHead;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_store::lock::Exclusive;
use threadseal_store::random::Random;
use threadseal_store::read::{self, Stamp};
use writer::Writer;

/// Longest wait at the end of a command for second places that do not answer at once.
const MAX_RAISE_WAIT: Duration = Duration::from_secs(5);

/// Why a log commits nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The second place knows a checkpoint that this log does not continue.
    RolledBack {
        /// There.
        mark: TreeHead,
        /// Here.
        log: TreeHead,
    },
    /// It was made on another machine.
    OtherHost,
    /// Another log was put in its place, or none.
    Ended,
    /// It was put in the place of another log of this home, which the second place knows and which never ended.
    Displaced {
        /// That one.
        other: LogId,
    },
}

impl Fault {
    fn into_error(self) -> Error {
        Error::refused(format!(
            "log_rolled_back: {self}; nothing is committed. See: threadseal log status"
        ))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack { mark, log } => write!(
                f,
                "the second place knows a checkpoint of {} entries that this log of {} does not continue",
                mark.size, log.size
            ),
            Self::OtherHost => f.write_str("this log was made on another machine"),
            Self::Ended => f.write_str("another log was put in the place of this one"),
            Self::Displaced { other } => write!(
                f,
                "the second place knows the log {other} of this home, which never ended, and this one stands in its place"
            ),
        }
    }
}

/// The log of a host, to read and to commit to.
#[derive(Debug)]
pub struct SealLog {
    shared: Arc<Shared>,
    committer: OnceLock<Committer>,
    seen: Mutex<Option<(Stamp, Arc<LogView>)>>,
    standing: Mutex<Option<(Stamps, Standing)>>,
    rare: Mutex<Rare>,
}

/// What the one thread that commits and all that read have together.
#[derive(Debug)]
struct Shared {
    places: LogPlaces,
    place: Place,
    description: Description,
    key: Option<LogKey>,
    random: Arc<dyn Random>,
    index: Mutex<Index>,
    commits: AtomicU64,
    /// Somebody has waited long enough for what another process holds.
    leaving: AtomicBool,
    /// Second places that do not answer at once.
    far: Far,
    /// Did this process try to commit before?
    tried: AtomicBool,
}

impl SealLog {
    /// Opens a log. Without its key it is only read.
    pub fn open(
        places: LogPlaces,
        description: Description,
        key: Option<LogKey>,
        random: Arc<dyn Random>,
    ) -> Self {
        let place = places.place(description.id);
        let index = Index::of(&place, description.id);
        let far = Far::new(&places, &description);
        Self {
            shared: Arc::new(Shared {
                places,
                place,
                description,
                key,
                random,
                index: Mutex::new(index),
                commits: AtomicU64::default(),
                leaving: AtomicBool::default(),
                far,
                tried: AtomicBool::default(),
            }),
            committer: OnceLock::new(),
            seen: Mutex::default(),
            standing: Mutex::default(),
            rare: Mutex::default(),
        }
    }

    /// What is fixed of it.
    pub fn description(&self) -> &Description {
        &self.shared.description
    }

    /// The log as it stands.
    ///
    /// # Errors
    /// Kind `External` when a file is lacking or damaged, or cannot be read.
    pub fn view(&self) -> Result<Arc<LogView>, Error> {
        let path = self.shared.place.journal();
        let stamp = read::open_regular(&*self.shared.place.fs, &path)?.stamp();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, view)) = &*seen
            && *known == stamp
        {
            return Ok(Arc::clone(view));
        }
        let Shared {
            places,
            place,
            description,
            ..
        } = &*self.shared;
        // What a place says that cannot be read is asked for where the log is held against it.
        let marks = || {
            let marks = places.marks(description).into_iter();
            let known = marks.flat_map(|mark| mark.read(description).unwrap_or_default());
            known.collect()
        };
        let view = Arc::new(LogView::read_beside(place, description, marks)?);
        *seen = Some((stamp, Arc::clone(&view)));
        Ok(view)
    }

    /// Why it commits nothing; None when nothing is wrong with it.
    ///
    /// # Errors
    /// As [`SealLog::view`].
    pub fn fault(&self) -> Result<Option<Fault>, Error> {
        // The marks first: whoever commits in between makes the log larger, and no mark is ever ahead of it.
        let marks = self.shared.known_marks(&self.shared.far.said(false));
        let view = self.view()?;
        self.shared.fault(marks, view.contents(), view.tree())
    }

    /// The newest head of a record, and the number of its entry, proved to be in the log.
    ///
    /// # Errors
    /// As [`SealLog::view`].
    pub fn newest(&self, record: &RecordId) -> Result<Option<(u64, LoggedHead)>, Error> {
        let view = self.view()?;
        let newest = |index: &Index| index.newest(record, view.tree().size);
        let in_tiles = self.shared.ask_index(view.contents(), newest)?;
        // Threads that ask at the same time wait for each other's index, not for each other's proofs.
        view.newest(record, in_tiles)
    }

    /// The numbers of all entries that are heads of a record, in their order.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn entries_of(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        let view = self.view()?;
        let all = |index: &Index| index.all(record);
        let mut numbers = self.shared.ask_index(view.contents(), all)?;
        numbers.retain(|at| *at < view.contents().base());
        numbers.extend(view.fresh_of(record));
        Ok(numbers)
    }

    /// Lets a head wait for the next commit. Never waits itself; that nothing could be written down is told by
    /// [`SealLog::flush`].
    pub fn publish(&self, head: &LoggedHead) {
        self.committer().publish(head);
    }

    /// Waits until everything that waits in this process was committed, or cannot be.
    pub fn flush(&self) -> Published {
        self.flush_within(Duration::MAX)
    }

    /// As [`SealLog::flush`], but waits no longer than this for another process that is in the log: then what waits is left in the
    /// spool, for whoever commits next. What this process has begun to commit is waited for; so are second places that do not answer at
    /// once, but no longer than five seconds.
    pub fn flush_within(&self, longest: Duration) -> Published {
        let mut published = self.committer().flush(longest);
        let behind = self.shared.far.settled(MAX_RAISE_WAIT);
        published.error = published.error.or(behind);
        published
    }

    /// How often this process has committed heads; each time one fsync made all that waited durable.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// Writes the tiles and the checkpoint of all that was committed, for those who read the files; before that, of lines that were set
    /// aside, what is known by now to be this home's.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn fold(&self) -> Result<(), Error> {
        let folded = self.shared.write(&|| false, |writer, index| {
            self.shared.look_again(writer, index)?;
            writer.fold()
        })?;
        folded.1.map_or(Ok(()), Err)
    }

    fn committer(&self) -> &Committer {
        let start = || Committer::start(Arc::clone(&self.shared));
        self.committer.get_or_init(start)
    }
}

impl Shared {
    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the index says of these contents; where a file of it is damaged, once more without its files.
    fn ask_index<T>(
        &self,
        contents: &Contents,
        ask: impl Fn(&Index) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut index = self.index();
        index.catch_up(contents)?;
        match ask(&index) {
            Err(_) if index.is_damaged() => {
                index.catch_up(contents)?;
                ask(&index)
            }
            answer => answer,
        }
    }

    /// The right to look at the marks and to commit by what they say. Two copies of one home have their marks in common: one
    /// of them commits at a time.
    fn enter(&self, patient: &dyn Fn() -> bool) -> Result<Vec<Exclusive>, Error> {
        let marks = self.places.marks(&self.description);
        marks.iter().map(|mark| mark.enter_while(patient)).collect()
    }

    fn key(&self) -> Result<&LogKey, Error> {
        self.key.as_ref().ok_or_else(|| {
            let key = self.description.id.key_name();
            Error::new(
                ErrorKind::Key,
                format!("the key of the log, {key}, is not there; nothing is committed"),
            )
        })
    }

    /// Does `work` as the one who commits, and brings the marks up to the log unless more is to come at once. Answers
    /// with why that failed, if it did.
    fn write<T>(
        &self,
        more: &dyn Fn() -> bool,
        work: impl FnOnce(&mut Writer<'_>, &Index) -> Result<T, Error>,
    ) -> Result<(T, Option<Error>), Error> {
        let key = self.key()?;
        // Before anything is locked: places that do not answer at once hold up nobody else. What failed once is asked again.
        let far = self.far.said(self.tried.swap(true, Ordering::Relaxed));
        let patient = || !self.leaving.load(Ordering::Relaxed);
        let _alone = self.enter(&patient)?;
        let judge = |contents: &Contents, tree: TreeHead| {
            let fault = self.fault(self.known_marks(&far), contents, tree)?;
            fault.map_or(Ok(()), |fault| Err(fault.into_error()))
        };
        let mut writer = Writer::open(&self.place, &self.description, key, &patient, &judge)?;
        let mut index = self.index();
        index.catch_up(writer.contents())?;
        let done = work(&mut writer, &index);
        self.commits.fetch_add(writer.commits(), Ordering::Relaxed);
        let done = done?;
        // What was committed stays so, whatever becomes of the marks.
        let unmarked = match more() {
            true => None,
            false => self.mark(&writer).err(),
        };
        Ok((done, unmarked))
    }
}

/// The key of a log: of the usage `log`, and in this process.
#[derive(Clone)]
pub struct LogKey(pub Arc<dyn Signer + Send + Sync>);

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogKey").field(self.0.public_key()).finish()
    }
}
