//! [`JudgedPlaces`]: the log as evidence about seals of a key that was revoked later.
//!
//! A seal counts by its entry, as far as a second place or witnesses vouch for that entry, and by its time, as far as an
//! authority stamped it.

use crate::seal_log::SealLog;
#[cfg(feature = "timestamp")]
use crate::timestamps::{Authority, KeptStamp, first_covering};
#[cfg(feature = "timestamp")]
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
#[cfg(feature = "timestamp")]
use std::sync::{Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::record::Head;
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::KeyHistory;
use threadseal_core::trust::{SealPlaces, signature_in};

/// The places of seals in a log, for the judgement of keys. Key events, and how far others vouch for the log, are read once.
#[derive(Debug)]
pub struct JudgedPlaces {
    log: Arc<SealLog>,
    keys: OnceLock<Option<KeyHistory>>,
    vouched_for: OnceLock<u64>,
    /// Entries that witnesses saw.
    witnessed: u64,
    in_doubt: OnceLock<bool>,
    #[cfg(feature = "timestamp")]
    stamps: Option<Stamps>,
}

/// The authorities that stamp the log.
#[cfg(feature = "timestamp")]
#[derive(Debug)]
struct Stamps {
    /// By name.
    authorities: Vec<(String, Authority)>,
    warn: fn(&str),
    /// The responses of these authorities that are kept.
    kept: OnceLock<Vec<KeptStamp>>,
    /// Those that were judged, with the moment of a good one. `warn` was called for the others.
    judged: Mutex<BTreeMap<KeptStamp, Option<Timestamp>>>,
}

#[cfg(feature = "timestamp")]
impl Stamps {
    /// By when the log had an entry, by the first good stamp that covers it. Each stamp is judged once.
    fn first_covering(&self, log: &SealLog, entry: u64) -> Option<Timestamp> {
        let files = log.stamp_files();
        // What cannot be listed stamps nothing.
        let kept = self.kept.get_or_init(|| files.list().unwrap_or_default());
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        let found = first_covering(kept, entry, |one| {
            let moment = match judged.get(one) {
                Some(moment) => *moment,
                None => {
                    let moment = self.judge(log, one);
                    judged.insert(one.clone(), moment);
                    moment
                }
            }?;
            Some((moment, moment))
        });
        found.map(|(_, moment)| moment)
    }

    fn judge(&self, log: &SealLog, kept: &KeptStamp) -> Option<Timestamp> {
        let mut warn = |kept: &KeptStamp, why: &str| {
            (self.warn)(&format!("the stamp {} does not count: {why}", kept.file()));
        };
        let view = log.view().ok()?;
        let stamp = log
            .stamp_files()
            .good(kept, &self.authorities, &view, &mut warn)?;
        Some(stamp.latest())
    }
}

impl JudgedPlaces {
    /// The places of `log`, of whose entries a quorum of witnesses saw the first `witnessed`.
    pub fn of(log: Arc<SealLog>, witnessed: u64) -> Self {
        Self {
            log,
            witnessed,
            keys: OnceLock::new(),
            vouched_for: OnceLock::new(),
            in_doubt: OnceLock::new(),
            #[cfg(feature = "timestamp")]
            stamps: None,
        }
    }

    /// The same with the authorities that stamp the log. `warn` is called for stamps that do not count.
    #[cfg(feature = "timestamp")]
    #[must_use]
    pub fn stamped_by(mut self, authorities: Vec<(String, Authority)>, warn: fn(&str)) -> Self {
        self.stamps = Some(Stamps {
            authorities,
            warn,
            kept: OnceLock::new(),
            judged: Mutex::default(),
        });
        self
    }

    /// How many entries a writer to this home alone could not have put there later.
    fn vouched_for(&self) -> u64 {
        let marked = || self.log.marked().unwrap_or(0).max(self.witnessed);
        *self.vouched_for.get_or_init(marked)
    }
}

impl SealPlaces for JudgedPlaces {
    /// What cannot be read is nowhere: it is no evidence.
    fn place(&self, head: &Head) -> Option<u64> {
        self.claimed(head).filter(|at| *at < self.vouched_for())
    }

    /// Without authorities, or in a program without time stamps, no time is known.
    #[cfg(not(feature = "timestamp"))]
    fn stamped(&self, _: &Head) -> Option<Timestamp> {
        None
    }

    #[cfg(feature = "timestamp")]
    fn stamped(&self, head: &Head) -> Option<Timestamp> {
        let stamps = self.stamps.as_ref()?;
        if stamps.authorities.is_empty() {
            return None;
        }
        stamps.first_covering(&self.log, self.claimed(head)?)
    }

    fn keys(&self) -> Option<&KeyHistory> {
        let read = || {
            self.log
                .key_events()
                .ok()
                .map(|events| KeyHistory::of(&events))
        };
        self.keys.get_or_init(read).as_ref()
    }

    fn root(&self, head: &Head) -> Option<Digest> {
        let at = self.log.head_at(&head.record, head.seq).ok().flatten()?;
        at.logged.root.filter(|_| at.logged.head == *head)
    }

    fn is_in_doubt(&self) -> bool {
        let look = || !self.log.standing().vouches();
        *self.in_doubt.get_or_init(look)
    }

    fn claimed(&self, head: &Head) -> Option<u64> {
        if let Some(signature) = signature_in(head) {
            return self.log.signature_at(signature).ok().flatten();
        }
        let at = self.log.head_at(&head.record, head.seq).ok().flatten()?;
        (at.logged.head == *head).then_some(at.number)
    }
}
