//! [`KeyringMark`]: the mark in the keyring that the system keeps for the user who is logged in.
//!
//! That is the Keychain, the Credential Manager, or a Secret Service on the session bus; never the kernel's keyring, which forgets when the
//! machine starts anew.
//!
//! * A keyring knows no condition. Who raises the mark is alone by a lock in each folder of marks, which all copies of a home on this machine
//!   have in common; it is read, replaced by what continues it, and read back.
//! * A bus may hang, and a keyring that is locked waits for its user. So each call runs on a thread that is given up after a while; it
//!   takes the lock along, and while one is under way no other is started in this process.

use crate::layout::description::{Description, LogId};
use crate::layout::log_home::LogHome;
use crate::marks::folder_mark::FolderMark;
use crate::marks::mark_state::{MAX_MARK_BYTES, MarkState, RemoteMark, UpdateResult};
use crate::tree::view::LogView;
use keyring::v1::{Entry, Error as KeyringError};
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::atomic;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::lock::Exclusive;
use threadseal_store::sys::Fs;

/// Under what the system's own programs show it.
const SERVICE: &str = "threadseal log mark";
/// Longest wait for one call: less than a command waits for a look, or a raise.
const MAX_KEYRING_WAIT: Duration = Duration::from_secs(4);

/// The call that was given up last, while it is still under way.
pub(crate) type Late = Mutex<Weak<()>>;
/// That of this process: all marks are in one keyring.
static LATE: Late = Mutex::new(Weak::new());

/// Where the bytes are kept.
pub(crate) trait Vault: fmt::Debug + Send + Sync {
    fn late(&self) -> &Late;
    fn get(&self) -> Result<Option<Vec<u8>>, Error>;
    fn set(&self, bytes: &[u8]) -> Result<(), Error>;
}

/// The mark in the user's keyring.
#[derive(Debug)]
pub(crate) struct KeyringMark {
    vault: Arc<dyn Vault>,
    fs: Arc<dyn Fs>,
    /// One for each folder of marks, in the order in which all take them.
    locks: Vec<PathBuf>,
    longest: Duration,
}

impl KeyringMark {
    pub(crate) fn new(home: &LogHome, description: &Description) -> Self {
        let vault = Arc::new(System(description.id));
        Self::over(vault, home, description, MAX_KEYRING_WAIT)
    }

    pub(crate) fn over(
        vault: Arc<dyn Vault>,
        home: &LogHome,
        description: &Description,
        longest: Duration,
    ) -> Self {
        let name = format!("{}.keyring.lock", description.id);
        let folders = FolderMark::all(home, description);
        Self {
            vault,
            fs: Arc::clone(&home.fs),
            locks: folders
                .iter()
                .map(|mark| mark.folder().join(&name))
                .collect(),
            longest,
        }
    }

    /// The right to replace the content, and the content.
    fn enter(&self) -> Result<(Vec<Exclusive>, Option<Vec<u8>>), Error> {
        let (fs, locks) = (Arc::clone(&self.fs), self.locks.clone());
        self.ask(move |vault| {
            let alone = locks.iter().map(|lock| {
                let folder = lock.parent().unwrap_or(lock);
                atomic::create_directories(&*fs, folder, PRIVATE_DIRECTORY)?;
                Exclusive::enter(&*fs, lock)
            });
            let alone = alone.collect::<Result<Vec<_>, _>>()?;
            Ok((alone, vault.get()?))
        })
    }

    fn replace(&self, alone: Vec<Exclusive>, text: String) -> Result<(), Error> {
        self.ask(move |vault| {
            let _alone = alone;
            vault.set(text.as_bytes())?;
            match vault.get()?.as_deref() == Some(text.as_bytes()) {
                true => Ok(()),
                false => Err(external("it does not keep the written value")),
            }
        })
    }

    /// Has `job` done on a thread of its own, and waits for it no longer than is allowed.
    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&(dyn Vault + 'static)) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if self.late().strong_count() > 0 {
            return Err(external("it has not answered yet"));
        }
        let (tell, told) = mpsc::channel();
        let (vault, under_way) = (Arc::clone(&self.vault), Arc::new(()));
        let watched = Arc::downgrade(&under_way);
        let asking = thread::Builder::new().name("keyring".to_owned());
        let asking = asking.spawn(move || {
            let _under_way = under_way;
            // If the caller gave up, the locks in the answer are released with it.
            let _ = tell.send(job(&*vault));
        });
        asking.map_err(|error| {
            external(format!("cannot start a thread: {error}")).with_source(error)
        })?;
        match told.recv_timeout(self.longest) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                *self.late() = watched;
                Err(external(
                    "it did not answer in time: is it locked, or does its bus hang?",
                ))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(external("an internal error")),
        }
    }

    fn late(&self) -> std::sync::MutexGuard<'_, Weak<()>> {
        let late = self.vault.late();
        late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteMark for KeyringMark {
    fn can_end(&self) -> Result<(), Error> {
        self.ask(Vault::get).map(drop)
    }

    fn read(&self, description: &Description) -> Result<MarkState, Error> {
        MarkState::parse(self.ask(Vault::get)?.as_deref(), description)
    }

    fn update(
        &self,
        description: &Description,
        view: &dyn Fn() -> Result<LogView, Error>,
    ) -> Result<UpdateResult, Error> {
        let (alone, bytes) = self.enter()?;
        let there = MarkState::parse(bytes.as_deref(), description)?;
        let next = match there.next(&view()?)? {
            ControlFlow::Break(result) => return Ok(result),
            ControlFlow::Continue(next) => next,
        };
        self.replace(alone, next.to_text())?;
        Ok(UpdateResult::Updated(next))
    }

    fn end(&self, description: &Description) -> Result<(), Error> {
        let (alone, bytes) = self.enter()?;
        // Damaged content must not block the way out.
        let there = MarkState::parse(bytes.as_deref(), description).unwrap_or_default();
        match there.ended {
            true => Ok(()),
            false => self.replace(alone, there.into_ended().to_text()),
        }
    }
}

/// The keyring of the user whose process this is, and the log whose mark it is.
#[derive(Debug)]
struct System(LogId);

impl System {
    fn entry(&self) -> Result<Entry, Error> {
        if let Err(error) = Entry::store_status() {
            return Err(refused(error));
        }
        Entry::new(SERVICE, &self.0.to_string()).map_err(|error| refused(&error))
    }
}

impl Vault for System {
    fn late(&self) -> &Late {
        &LATE
    }

    fn get(&self) -> Result<Option<Vec<u8>>, Error> {
        match self.entry()?.get_secret() {
            Ok(bytes) if bytes.len() > MAX_MARK_BYTES => {
                Err(external("the value there is not a mark of this log"))
            }
            Ok(bytes) => Ok(Some(bytes)),
            Err(KeyringError::NoEntry) => Ok(None),
            Err(error) => Err(refused(&error)),
        }
    }

    fn set(&self, bytes: &[u8]) -> Result<(), Error> {
        let stored = self.entry()?.set_secret(bytes);
        stored.map_err(|error| refused(&error))
    }
}

fn refused(error: &KeyringError) -> Error {
    match error {
        // Its own text lists all that was found.
        KeyringError::Ambiguous(_) => external("it has more than one secret of this name"),
        error => external(format!("the keyring of this user cannot be used: {error}")),
    }
}

fn external(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::External, text)
}
