//! Second places that do not answer at once: a database, an object storage, a keyring, a witness.
//!
//! ```text
//! before the first commit   each place is looked at, all at once; one that does not answer keeps the log from committing
//! behind each commit        a thread of its own brings them up to the newest checkpoint; no commit waits for it
//! at the end of a command   it is waited for, for a bounded time
//! ```
//! A place is as far behind as the last raise that was answered. That it went beyond this log shows at the next look, or at
//! the next raise, which never lowers it: then nothing more is committed.

use super::LogPlaces;
use super::description::Description;
use super::mark_place::MarkPlace;
#[cfg(feature = "keyring")]
use super::marks::keyring::KeyringMark;
#[cfg(feature = "peer")]
use super::marks::peer::PeerMark;
use super::marks::store::StoreMark;
use super::place::Place;
use super::view::LogView;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;

/// Longest wait for the places that are looked at.
const MAX_LOOK_WAIT: Duration = Duration::from_secs(5);
/// Longest wait of a log that is closed for a raise that is under way.
const MAX_CLOSING_WAIT: Duration = Duration::from_secs(1);

/// What a place says of the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    /// The last checkpoint that stands there.
    pub(super) known: Option<(SignedNote, TreeHead)>,
    /// Was another log put in the place of this one?
    pub(super) ended: bool,
}

/// What became of bringing a place up to the log.
#[derive(Debug)]
pub(super) enum Raised {
    /// It has this tree.
    To(Said),
    /// What stands there the log does not continue, or the log has ended. Nothing was changed.
    Not(Said),
}

/// One place.
#[derive(Debug)]
pub(super) enum FarMark {
    /// A row or an object, replaced on condition that nobody else did.
    Store(StoreMark),
    /// The keyring of the user.
    #[cfg(feature = "keyring")]
    Keyring(KeyringMark),
    /// A witness.
    #[cfg(feature = "peer")]
    Peer(PeerMark),
    /// One that this program was built without.
    #[cfg(not(all(feature = "peer", feature = "keyring")))]
    Unknown(MarkPlace),
}

impl FarMark {
    /// None for a folder.
    fn of(place: &MarkPlace, description: &Description, places: &LogPlaces) -> Option<Self> {
        Some(match place {
            MarkPlace::Folder(_) => return None,
            MarkPlace::Store(address) => {
                Self::Store(StoreMark::new(address, description.id, &places.settings))
            }
            #[cfg(feature = "keyring")]
            MarkPlace::Keyring => Self::Keyring(KeyringMark::new(places, description)),
            #[cfg(not(feature = "keyring"))]
            MarkPlace::Keyring => Self::Unknown(place.clone()),
            #[cfg(feature = "peer")]
            MarkPlace::Peer(url) => Self::Peer(PeerMark::new(url)),
            #[cfg(not(feature = "peer"))]
            MarkPlace::Peer(_) => Self::Unknown(place.clone()),
        })
    }

    fn read(&self, description: &Description) -> Result<Said, Error> {
        match self {
            Self::Store(mark) => mark.read(description),
            #[cfg(feature = "keyring")]
            Self::Keyring(mark) => mark.read(description),
            #[cfg(feature = "peer")]
            Self::Peer(mark) => mark.read(description),
            #[cfg(not(all(feature = "peer", feature = "keyring")))]
            Self::Unknown(place) => Err(unknown(place)),
        }
    }

    /// The view must be taken after the place was read: then it holds whatever a process of this host brought there.
    fn raise(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<Raised, Error> {
        match self {
            Self::Store(mark) => mark.raise(description, view),
            #[cfg(feature = "keyring")]
            Self::Keyring(mark) => mark.raise(description, view),
            #[cfg(feature = "peer")]
            Self::Peer(mark) => mark.raise(description, view),
            #[cfg(not(all(feature = "peer", feature = "keyring")))]
            Self::Unknown(place) => Err(unknown(place)),
        }
    }

    /// Would it be told that the log ends, whatever stands there?
    fn answer(&self) -> Result<(), Error> {
        match self {
            Self::Store(mark) => mark.answer(),
            #[cfg(feature = "keyring")]
            Self::Keyring(mark) => mark.answer(),
            #[cfg(feature = "peer")]
            Self::Peer(_) => Ok(()),
            #[cfg(not(all(feature = "peer", feature = "keyring")))]
            Self::Unknown(place) => Err(unknown(place)),
        }
    }

    fn end(&self, description: &Description) -> Result<(), Error> {
        match self {
            Self::Store(mark) => mark.end(description),
            #[cfg(feature = "keyring")]
            Self::Keyring(mark) => mark.end(description),
            // A witness cannot be told; the old origin is never signed for again all the same.
            #[cfg(feature = "peer")]
            Self::Peer(_) => Ok(()),
            #[cfg(not(all(feature = "peer", feature = "keyring")))]
            Self::Unknown(place) => Err(unknown(place)),
        }
    }
}

#[cfg(not(all(feature = "peer", feature = "keyring")))]
fn unknown(place: &MarkPlace) -> Error {
    Error::invalid(format!("this program was built without {place}"))
}

/// What is known of one place.
#[derive(Debug, Clone)]
enum Seen {
    Never,
    Unread(Error),
    Read(Said),
}

#[derive(Debug)]
struct State {
    seen: Vec<Seen>,
    /// How often a place was heard.
    heard: u64,
    /// Is there something newer to bring there?
    wanted: bool,
    busy: bool,
    closing: bool,
    /// Why the last raise failed somewhere.
    error: Option<Error>,
}

impl State {
    fn hear(&mut self, at: usize, seen: Seen) {
        self.seen[at] = seen;
        self.heard += 1;
    }
}

#[derive(Debug)]
struct Inner {
    places: Vec<MarkPlace>,
    marks: Vec<FarMark>,
    place: Place,
    description: Description,
    state: Mutex<State>,
    changed: Condvar,
}

/// All places of a log that do not answer at once.
#[derive(Debug)]
pub(super) struct Far {
    inner: Arc<Inner>,
    looking: Mutex<()>,
    raiser: OnceLock<Option<Error>>,
}

impl Far {
    pub(super) fn new(places: &LogPlaces, description: &Description) -> Self {
        let named = description.marks.iter();
        let far = named.filter_map(|place| {
            let mark = FarMark::of(place, description, places)?;
            Some((place.clone(), mark))
        });
        let (named, marks): (Vec<_>, Vec<_>) = far.unzip();
        let state = State {
            seen: vec![Seen::Never; marks.len()],
            heard: 0,
            wanted: false,
            busy: false,
            closing: false,
            error: None,
        };
        Self {
            inner: Arc::new(Inner {
                places: named,
                marks,
                place: places.place(description.id),
                description: description.clone(),
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            looking: Mutex::default(),
            raiser: OnceLock::new(),
        }
    }

    /// What each place says, in the order of [`Far::places`]; looked at once, and where that failed, once more if `again`.
    pub(super) fn said(&self, again: bool) -> Vec<Result<Said, Error>> {
        self.look(again);
        let state = self.inner.state();
        let said = state.seen.iter().map(|seen| match seen {
            Seen::Never => Err(late()),
            Seen::Unread(error) => Err(error.clone()),
            Seen::Read(said) => Ok(said.clone()),
        });
        said.collect()
    }

    /// Changes whenever what is known of a place may have changed.
    pub(super) fn heard(&self) -> u64 {
        self.inner.state().heard
    }

    pub(super) fn places(&self) -> &[MarkPlace] {
        &self.inner.places
    }

    fn look(&self, again: bool) {
        let _alone = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.inner.state().seen.clone();
        let open = |seen: &Seen| match seen {
            Seen::Never => true,
            Seen::Unread(_) => again,
            Seen::Read(_) => false,
        };
        let asked: Vec<usize> = (0..seen.len()).filter(|at| open(&seen[*at])).collect();
        let (tell, told) = mpsc::channel();
        for at in &asked {
            let (inner, tell, at) = (Arc::clone(&self.inner), tell.clone(), *at);
            let looking = thread::Builder::new().name("second place".to_owned());
            // Where no thread can be started nobody answers.
            let _ = looking.spawn(move || {
                let said = inner.marks[at].read(&inner.description);
                let said = said.map_err(|error| at_place(&inner.places[at], &error));
                let _ = tell.send((at, said));
            });
        }
        drop(tell);
        for at in asked {
            let late = Seen::Unread(at_place(&self.inner.places[at], &late()));
            self.inner.state().hear(at, late);
        }
        while let Ok((at, said)) = told.recv_timeout(MAX_LOOK_WAIT) {
            let seen = said.map_or_else(Seen::Unread, Seen::Read);
            self.inner.state().hear(at, seen);
        }
    }

    /// Has all places brought up to the log, some time soon.
    pub(super) fn offer(&self) {
        if self.inner.marks.is_empty() {
            return;
        }
        self.inner.state().wanted = true;
        self.inner.changed.notify_all();
        let started = self.raiser.get_or_init(|| {
            let inner = Arc::clone(&self.inner);
            let raiser = thread::Builder::new().name("second places".to_owned());
            let started = raiser.spawn(move || inner.run());
            let text = |error| format!("no thread can be started: {error}");
            let failed = started.err();
            failed.map(|error| Error::new(ErrorKind::External, text(error)))
        });
        if let Some(error) = started {
            let mut state = self.inner.state();
            state.wanted = false;
            state.error = Some(error.clone());
        }
    }

    /// Waits until nothing more is to be brought anywhere, and answers with why that failed somewhere since the last time.
    pub(super) fn settled(&self, longest: Duration) -> Option<Error> {
        let state = self.inner.state();
        let waited = self
            .inner
            .changed
            .wait_timeout_while(state, longest, |state| state.wanted || state.busy);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let failed = state.error.take();
        match waited.timed_out() {
            true => Some(failed.unwrap_or_else(late)),
            false => failed,
        }
    }

    /// Says everywhere that another log takes the place of this one; nowhere, where one of them does not answer.
    pub(super) fn end(&self) -> Result<(), Error> {
        let Inner {
            marks,
            places,
            description,
            ..
        } = &*self.inner;
        let each = || marks.iter().zip(places);
        each().try_for_each(|(mark, place)| {
            let answered = mark.answer();
            answered.map_err(|error| must_know(place, &error))
        })?;
        each().try_for_each(|(mark, place)| {
            let ended = mark.end(description);
            ended.map_err(|error| must_know(place, &error))
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let state = self.inner.state();
        let waited = self
            .inner
            .changed
            .wait_timeout_while(state, MAX_CLOSING_WAIT, |state| state.wanted || state.busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.closing = true;
        self.inner.changed.notify_all();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let idle = |state: &mut State| !(state.wanted || state.closing);
            let waited = self.changed.wait_while(self.state(), idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.closing && !state.wanted {
                return;
            }
            state.wanted = false;
            state.busy = true;
            drop(state);
            let raised = self.raise_all();
            let mut state = self.state();
            state.error = None;
            for (at, raised) in raised.into_iter().enumerate() {
                match raised {
                    Ok(Raised::To(said)) => state.hear(at, Seen::Read(said)),
                    Ok(Raised::Not(said)) => {
                        state.error = Some(contradicted(&self.places[at], &said));
                        state.hear(at, Seen::Read(said));
                    }
                    Err(error) => state.error = Some(at_place(&self.places[at], &error)),
                }
            }
            state.busy = false;
            self.changed.notify_all();
        }
    }

    fn raise_all(&self) -> Vec<Result<Raised, Error>> {
        let view = || LogView::read(&self.place, &self.description);
        thread::scope(|scope| {
            let raising = self
                .marks
                .iter()
                .map(|mark| scope.spawn(move || mark.raise(&self.description, &view)));
            let raising: Vec<_> = raising.collect();
            let internal = |_| Err(Error::new(ErrorKind::External, "an internal error"));
            let done = raising.into_iter().map(thread::ScopedJoinHandle::join);
            done.map(|one| one.unwrap_or_else(internal)).collect()
        })
    }
}

fn contradicted(place: &MarkPlace, said: &Said) -> Error {
    let size = said.known.as_ref().map_or(0, |(_, tree)| tree.size);
    Error::refused(match said.ended {
        true => format!("{place} says that another log was put in the place of this one"),
        false => format!(
            "log_rolled_back: {place} knows a checkpoint of {size} entries that this log does not continue"
        ),
    })
}

fn must_know(place: &MarkPlace, why: &Error) -> Error {
    let text = format!(
        "{place}: {why}; it must know that the log ends. Where it is gone for good: threadseal log mark remove {place}"
    );
    Error::new(why.kind(), text)
}

fn at_place(place: &MarkPlace, error: &Error) -> Error {
    Error::new(error.kind(), format!("{place}: {error}"))
}

fn late() -> Error {
    Error::new(ErrorKind::External, "it did not answer in time")
}
