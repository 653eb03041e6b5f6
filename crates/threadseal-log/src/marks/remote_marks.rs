//! [`RemoteMarks`]: the second places that do not answer at once: a database, an object storage, a keyring, a witness.
//!
//! ```text
//! before the first commit   all places are read at once; a place that does not answer keeps the log from committing
//! after each commit         a thread of its own updates them to the newest checkpoint; no commit waits for it
//! at the end of a command   the command waits for that thread, for a bounded time
//! ```
//! A place may lag by as much as was committed since its last answered update. The next read, or the next update, which never
//! lowers a mark, shows a place that went beyond this log: then nothing more is committed.

use crate::layout::description::Description;
use crate::layout::log_dir::LogDir;
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
#[cfg(feature = "keyring")]
use crate::marks::keyring_mark::KeyringMark;
use crate::marks::mark_state::{MarkState, RemoteMark, UpdateResult};
use crate::marks::store_mark::StoreMark;
#[cfg(feature = "peer")]
use crate::marks::witness_mark::WitnessMark;
use crate::tree::view::LogView;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
#[cfg(not(all(feature = "peer", feature = "keyring")))]
use threadseal_core::error::Unbuilt;
use threadseal_core::error::{Error, ErrorKind};

/// Longest wait for the places that are read.
const MAX_READ_WAIT: Duration = Duration::from_secs(5);
/// Longest wait of a log that is closed for an update that is under way.
const MAX_CLOSING_WAIT: Duration = Duration::from_secs(1);

/// All second places of a log that do not answer at once.
#[derive(Debug)]
pub(crate) struct RemoteMarks {
    inner: Arc<Inner>,
    reading: Mutex<()>,
    /// Started at the first update; holds why it could not be.
    updater: OnceLock<Option<Error>>,
}

#[derive(Debug)]
struct Inner {
    locations: Vec<MarkLocation>,
    marks: Vec<Box<dyn RemoteMark>>,
    dir: LogDir,
    description: Description,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug)]
struct Progress {
    known: Vec<Known>,
    /// How often a place has answered.
    answers: u64,
    /// Is there a newer checkpoint to bring to the places?
    wanted: bool,
    busy: bool,
    closing: bool,
    /// Why the last update failed at some place.
    error: Option<Error>,
}

/// What is known of one place.
#[derive(Debug, Clone)]
enum Known {
    Never,
    Unread(Error),
    Read(MarkState),
}

impl RemoteMarks {
    pub(crate) fn new(home: &LogHome, description: &Description) -> Self {
        let named = description.marks.iter();
        let remote = named.filter_map(|location| {
            let mark = open(location, description, home)?;
            Some((location.clone(), mark))
        });
        let (locations, marks): (Vec<_>, Vec<_>) = remote.unzip();
        let progress = Progress {
            known: vec![Known::Never; marks.len()],
            answers: 0,
            wanted: false,
            busy: false,
            closing: false,
            error: None,
        };
        Self {
            inner: Arc::new(Inner {
                locations,
                marks,
                dir: home.dir(description.id),
                description: description.clone(),
                progress: Mutex::new(progress),
                changed: Condvar::new(),
            }),
            reading: Mutex::default(),
            updater: OnceLock::new(),
        }
    }

    /// What each place knows, in the order of [`RemoteMarks::locations`]. Each is read once; a read that failed is tried once
    /// more if `again`.
    pub(crate) fn states(&self, again: bool) -> Vec<Result<MarkState, Error>> {
        self.read(again);
        let progress = self.inner.progress();
        let states = progress.known.iter().map(|known| match known {
            Known::Never => Err(late()),
            Known::Unread(error) => Err(error.clone()),
            Known::Read(state) => Ok(state.clone()),
        });
        states.collect()
    }

    /// Changes whenever what is known of a place may have changed.
    pub(crate) fn answers(&self) -> u64 {
        self.inner.progress().answers
    }

    pub(crate) fn locations(&self) -> &[MarkLocation] {
        &self.inner.locations
    }

    fn read(&self, again: bool) {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.inner.progress().known.clone();
        let open = |known: &Known| match known {
            Known::Never => true,
            Known::Unread(_) => again,
            Known::Read(_) => false,
        };
        let asked: Vec<usize> = (0..known.len()).filter(|at| open(&known[*at])).collect();
        let (sender, receiver) = mpsc::channel();
        for at in &asked {
            let (inner, sender, at) = (Arc::clone(&self.inner), sender.clone(), *at);
            let reader = thread::Builder::new().name("second place".to_owned());
            // If no thread can be started, no answer comes.
            let _ = reader.spawn(move || {
                let state = inner.marks[at].read(&inner.description);
                let state = state.map_err(|error| at_location(&inner.locations[at], &error));
                let _ = sender.send((at, state));
            });
        }
        drop(sender);
        for at in asked {
            let late = Known::Unread(at_location(&self.inner.locations[at], &late()));
            self.inner.progress().set(at, late);
        }
        while let Ok((at, state)) = receiver.recv_timeout(MAX_READ_WAIT) {
            let known = state.map_or_else(Known::Unread, Known::Read);
            self.inner.progress().set(at, known);
        }
    }

    /// Has all places brought up to the log, some time soon.
    pub(crate) fn request_update(&self) {
        if self.inner.marks.is_empty() {
            return;
        }
        self.inner.progress().wanted = true;
        self.inner.changed.notify_all();
        let failed = self.updater.get_or_init(|| {
            let inner = Arc::clone(&self.inner);
            let updater = thread::Builder::new().name("second places".to_owned());
            let started = updater.spawn(move || inner.run());
            started.err().map(|error| {
                let text = format!("cannot start a thread: {error}");
                Error::new(ErrorKind::External, text).with_source(error)
            })
        });
        if let Some(error) = failed {
            let mut progress = self.inner.progress();
            progress.wanted = false;
            progress.error = Some(error.clone());
        }
    }

    /// Waits until no update is due any more, and answers with why an update failed somewhere since the last call.
    pub(crate) fn wait_for_updates(&self, longest: Duration) -> Option<Error> {
        let (mut progress, timed_out) = self.inner.idle_within(longest);
        let failed = progress.error.take();
        match timed_out {
            true => Some(failed.unwrap_or_else(late)),
            false => failed,
        }
    }

    /// Records everywhere that another log takes the place of this one; nowhere, if one place does not answer.
    pub(crate) fn end(&self) -> Result<(), Error> {
        let Inner {
            marks,
            locations,
            description,
            ..
        } = &*self.inner;
        let each = || marks.iter().zip(locations);
        each().try_for_each(|(mark, location)| {
            let answered = mark.can_end();
            answered.map_err(|error| must_know(location, &error))
        })?;
        each().try_for_each(|(mark, location)| {
            let ended = mark.end(description);
            ended.map_err(|error| must_know(location, &error))
        })
    }
}

impl Drop for RemoteMarks {
    fn drop(&mut self) {
        let (mut progress, _) = self.inner.idle_within(MAX_CLOSING_WAIT);
        progress.closing = true;
        self.inner.changed.notify_all();
    }
}

impl Inner {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no update is due or under way; the second value is true if that took longer.
    fn idle_within(&self, longest: Duration) -> (MutexGuard<'_, Progress>, bool) {
        let is_working = |progress: &mut Progress| progress.wanted || progress.busy;
        let waited = self
            .changed
            .wait_timeout_while(self.progress(), longest, is_working);
        let (progress, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (progress, waited.timed_out())
    }

    fn run(&self) {
        loop {
            let is_idle = |progress: &mut Progress| !(progress.wanted || progress.closing);
            let waited = self.changed.wait_while(self.progress(), is_idle);
            let mut progress = waited.unwrap_or_else(PoisonError::into_inner);
            if progress.closing && !progress.wanted {
                return;
            }
            progress.wanted = false;
            progress.busy = true;
            drop(progress);
            let results = self.update_all();
            let mut progress = self.progress();
            progress.error = None;
            for (at, result) in results.into_iter().enumerate() {
                match result {
                    Ok(UpdateResult::Updated(state)) => progress.set(at, Known::Read(state)),
                    Ok(UpdateResult::Contradicted(state)) => {
                        progress.error = Some(contradicted(&self.locations[at], &state));
                        progress.set(at, Known::Read(state));
                    }
                    Err(error) => progress.error = Some(at_location(&self.locations[at], &error)),
                }
            }
            progress.busy = false;
            self.changed.notify_all();
        }
    }

    fn update_all(&self) -> Vec<Result<UpdateResult, Error>> {
        let view = || LogView::read(&self.dir, &self.description);
        thread::scope(|scope| {
            let updating = self
                .marks
                .iter()
                .map(|mark| scope.spawn(move || mark.update(&self.description, &view)));
            let updating: Vec<_> = updating.collect();
            let internal = |_| Err(Error::new(ErrorKind::External, "an internal error"));
            let done = updating.into_iter().map(thread::ScopedJoinHandle::join);
            done.map(|one| one.unwrap_or_else(internal)).collect()
        })
    }
}

impl Progress {
    fn set(&mut self, at: usize, known: Known) {
        self.known[at] = known;
        self.answers += 1;
    }
}

/// None for a folder.
fn open(
    location: &MarkLocation,
    description: &Description,
    home: &LogHome,
) -> Option<Box<dyn RemoteMark>> {
    Some(match location {
        MarkLocation::Folder(_) => return None,
        MarkLocation::Store(address) => {
            Box::new(StoreMark::new(address, description.id, &home.settings))
        }
        #[cfg(feature = "keyring")]
        MarkLocation::Keyring => Box::new(KeyringMark::new(home, description)),
        #[cfg(not(feature = "keyring"))]
        MarkLocation::Keyring => Box::new(UnbuiltMark(location.clone(), Unbuilt::Keyring)),
        #[cfg(feature = "peer")]
        MarkLocation::Peer(url) => Box::new(WitnessMark::new(url)),
        #[cfg(not(feature = "peer"))]
        MarkLocation::Peer(_) => Box::new(UnbuiltMark(location.clone(), Unbuilt::Http)),
    })
}

/// A place of a kind that this program was built without.
#[cfg(not(all(feature = "peer", feature = "keyring")))]
#[derive(Debug)]
struct UnbuiltMark(MarkLocation, Unbuilt);

#[cfg(not(all(feature = "peer", feature = "keyring")))]
impl UnbuiltMark {
    fn error(&self) -> Error {
        self.1.error(format_args!("ask {}", self.0))
    }
}

#[cfg(not(all(feature = "peer", feature = "keyring")))]
impl RemoteMark for UnbuiltMark {
    fn read(&self, _: &Description) -> Result<MarkState, Error> {
        Err(self.error())
    }

    fn update(
        &self,
        _: &Description,
        _: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<UpdateResult, Error> {
        Err(self.error())
    }

    fn can_end(&self) -> Result<(), Error> {
        Err(self.error())
    }

    fn end(&self, _: &Description) -> Result<(), Error> {
        Err(self.error())
    }
}

fn contradicted(location: &MarkLocation, state: &MarkState) -> Error {
    let size = state.known.as_ref().map_or(0, |(_, tree)| tree.size);
    Error::refused(match state.ended {
        true => format!("{location} shows that another log replaced this one"),
        false => format!(
            "log_rolled_back: {location} knows a checkpoint of {size} entries that this log does not continue"
        ),
    })
}

fn must_know(location: &MarkLocation, why: &Error) -> Error {
    let text = format!(
        "{location}: {why}; it must know that the log ends; hint: if it is gone for good: threadseal log mark remove {location}"
    );
    Error::new(why.kind(), text)
}

fn at_location(location: &MarkLocation, error: &Error) -> Error {
    Error::new(error.kind(), format!("{location}: {error}")).with_source(error.clone())
}

fn late() -> Error {
    Error::new(ErrorKind::External, "it did not answer in time")
}
