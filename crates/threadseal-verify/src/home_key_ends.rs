//! [`HomeKeyEnds`]: the keys of a home that ended, by its log and its trust store.
//!
//! A verifier that knows of the end of a key calls its later seals forged. So each writer asks here
//! right before each seal. Such a key signs only entries about its own end.

use crate::clean::Clean;
use crate::error::VerifyError;
use crate::home_keys::{self, OwnKey};
use crate::home_log::HomeLog;
use crate::notices::Silent;
use crate::trust_file;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyHistory};
use threadseal_core::trust::Revocation;
use threadseal_store::home::Home;
use threadseal_store::key_ends::{HandedOver, KeyEnds, SealGate, SealSection};
use threadseal_store::sys::{FileIdentity, Fs};

/// How a key ended.
#[derive(Debug, Clone)]
pub enum End {
    /// By its own event, at this entry of the log.
    Logged(u64, KeyChange),
    /// The user revoked it.
    Revoked(Revocation),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Logged(entry, KeyChange::Rotate(_)) => write!(f, "entry {entry}: rotated"),
            Self::Logged(entry, _) => write!(f, "entry {entry}: revoked"),
            Self::Revoked(revoked) => {
                let at = revoked.at.to_iso_seconds();
                write!(f, "revoked {at}: {}", Clean(&revoked.reason))
            }
        }
    }
}

/// The state of a home while no key ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// How many keys have ended.
    ends: u64,
    /// The trust store, if there is one: its file, size and last change.
    trust: Option<(FileIdentity, u64, i128)>,
}

/// The ends of a home's keys.
#[derive(Clone)]
pub struct HomeKeyEnds {
    fs: Arc<dyn Fs>,
    home: Home,
    log: HomeLog,
    /// The keys that were found not to have ended, in this state of the home.
    living: Arc<Mutex<Option<(State, BTreeSet<PublicKey>)>>>,
}

impl fmt::Debug for HomeKeyEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HomeKeyEnds")
            .field(&self.home.path())
            .finish()
    }
}

impl HomeKeyEnds {
    /// Of `home`, whose log is `log`.
    pub fn new(fs: Arc<dyn Fs>, home: Home, log: HomeLog) -> Self {
        Self {
            fs,
            home,
            log,
            living: Arc::default(),
        }
    }

    /// The locks under which seals are made and keys end.
    pub fn gate(&self) -> SealGate {
        SealGate::new(Arc::clone(&self.fs), self.home.path().to_owned())
    }

    /// Did the key end, by its own event or by the user's revocation?
    ///
    /// # Errors
    /// When trust store or log cannot be read.
    pub fn is_over(&self, key: &PublicKey) -> Result<bool, VerifyError> {
        Ok(self.end_of(key)?.is_some())
    }

    /// Refuses to sign with a `key` that ended.
    ///
    /// # Errors
    /// When it ended; or when trust store or log cannot be read, so that its state is unknown.
    pub fn refuse_ended(&self, key: &PublicKey) -> Result<(), VerifyError> {
        let Some(end) = self.end_of(key)? else {
            return Ok(());
        };
        let own = home_keys::list(&self.home, &Silent)?;
        let name = |key: &PublicKey| own.iter().find(|own| own.public == *key);
        let who = match name(key) {
            Some(own) => Clean(&own.name).to_string(),
            None => key.key_id().to_hex(),
        };
        let next = match &end {
            End::Logged(_, KeyChange::Rotate(next)) => {
                name(next).map(|next| format!("seal with its successor, {}", Clean(&next.name)))
            }
            _ => None,
        };
        let next = next
            .or_else(|| name(key).map(replace))
            .map(|next| format!("; hint: {next}"));
        Err(VerifyError::refused(format!(
            "the key {who} has ended ({end}) and cannot seal any more{}",
            next.unwrap_or_default()
        )))
    }

    /// How the key ended, if it did.
    ///
    /// # Errors
    /// When trust store or log cannot be read.
    pub fn end_of(&self, key: &PublicKey) -> Result<Option<End>, VerifyError> {
        if let HomeLog::There(log) = &self.log {
            let events = log.key_events()?;
            let mut ends = events.iter().filter(|(_, event)| event.change().ends());
            // Only the first end counts.
            if let Some((entry, event)) = ends.find(|(_, event)| event.public() == key) {
                return Ok(Some(End::Logged(*entry, *event.change())));
            }
        }
        self.revoked(key)
    }

    /// How the user ended the key, if so.
    ///
    /// # Errors
    /// When the trust store cannot be read.
    pub fn revoked(&self, key: &PublicKey) -> Result<Option<End>, VerifyError> {
        let store = trust_file::of_home(&self.home)?;
        Ok(store.end_of(key).map(End::Revoked))
    }

    fn state(&self, ends: u64) -> State {
        let trust = self.fs.metadata(&self.home.trust_path()).ok();
        let trust = trust.map(|found| (found.identity, found.size, found.changed_ns));
        State { ends, trust }
    }
}

/// The command that replaces a key that ended.
pub fn replace(key: &OwnKey) -> String {
    let name = Clean(&key.name);
    match key.usage {
        KeyUsage::Native | KeyUsage::Rye | KeyUsage::Observed | KeyUsage::Scroll => {
            format!("threadseal key rotate {name}")
        }
        usage => {
            format!(
                "threadseal key new --usage {usage} --name {name}-2, then seal with --key {name}-2"
            )
        }
    }
}

impl KeyEnds for HomeKeyEnds {
    fn enter(&self, keys: &[&PublicKey]) -> Result<SealSection, Error> {
        let (section, ends) = self.gate().begin_seal()?;
        let state = self.state(ends);
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match living.take() {
            Some((before, known)) if before == state => known,
            _ => BTreeSet::new(),
        };
        let (_, known) = living.insert((state, known));
        for key in keys {
            if !known.contains(*key) {
                self.refuse_ended(key)?;
                known.insert(**key);
            }
        }
        Ok(section)
    }

    fn wait_for_seals(&self) -> bool {
        self.gate().wait_for_seals()
    }

    fn handed_over(&self, from: &PublicKey, to: &PublicKey) -> Result<Option<HandedOver>, Error> {
        let HomeLog::There(log) = &self.log else {
            return Ok(None);
        };
        let history = KeyHistory::of(&log.key_events()?);
        let rotations = history.handed_over(from, to).unwrap_or_default();
        let rotations: Vec<_> = rotations.into_iter().cloned().collect();
        let ended = history.ended(from).filter(|_| !rotations.is_empty());
        Ok(ended.map(|ended| HandedOver { ended, rotations }))
    }
}
