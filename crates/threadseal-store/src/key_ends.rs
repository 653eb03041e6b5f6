//! The end of keys, and the sections in which seals are made.
//!
//! ```text
//! writer   gate, shared ─► sealing, shared ─► gate off ─► key ended? ─► sign, write, head ─► off
//! the end  gate, alone ──► sealing, alone ──► counter + 1 ─► heads that wait, the end ─► off
//! ```
//! A key ends while no seal is made: each seal is either known before the end, or refused after it.
//! So no order of honest commands makes a forgery. The gate lets an end come to its turn among many
//! writers. The length of the sealing file counts the ends; while it stays, a writer need not look
//! for an end again.

use crate::lock::{Exclusive, Shared};
use crate::sys::Fs;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::tlog::entry::key_event::KeyEvent;

/// The file of the gate. A process that ends a key holds it alone.
const GATE: &str = "keys.lock";
/// The file that writers hold together while they seal.
const SEALING: &str = "sealing.lock";

/// Decides whether keys may still seal.
pub trait KeyEnds: fmt::Debug + Send + Sync {
    /// Begins a seal by these keys. None of them ends before the section is dropped.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when one of them has ended, `External` when
    /// the state of one cannot be read.
    fn enter(&self, keys: &[&PublicKey]) -> Result<SealSection, Error>;

    /// Waits for the seals that are being made now, if there are any: their files may be in a state
    /// that only their writer knows. Answers whether there were.
    fn wait_for_seals(&self) -> bool {
        false
    }

    /// How the key `to` took the place of `from`; `None` where it did not, as far as the host knows.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when that cannot be read.
    fn handed_over(&self, _from: &PublicKey, _to: &PublicKey) -> Result<Option<HandedOver>, Error> {
        Ok(None)
    }
}

/// The rotations by which one key took the place of another.
#[derive(Debug, Clone)]
pub struct HandedOver {
    /// The entry of the log at which the first of the keys ended.
    pub ended: u64,
    /// The rotations, in order; at least one.
    pub rotations: Vec<KeyEvent>,
}

/// For a host without a home: nothing is known of the end of a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeyEnds;

impl KeyEnds for NoKeyEnds {
    fn enter(&self, _: &[&PublicKey]) -> Result<SealSection, Error> {
        Ok(SealSection::unlocked())
    }
}

/// While it exists, no key of the home ends.
#[must_use = "a key may end as soon as it is dropped"]
#[derive(Debug)]
pub struct SealSection {
    _sealing: Option<Shared>,
}

impl SealSection {
    /// A section that holds nothing.
    pub fn unlocked() -> Self {
        Self { _sealing: None }
    }
}

/// While it exists, no seal is made with the keys of the home.
#[must_use = "seals go on as soon as it is dropped"]
#[derive(Debug)]
pub struct EndSection {
    _sealing: Exclusive,
    _gate: Exclusive,
}

/// The locks of one home.
#[derive(Debug, Clone)]
pub struct SealGate {
    fs: Arc<dyn Fs>,
    home: PathBuf,
}

impl SealGate {
    /// Of the home in this folder.
    pub fn new(fs: Arc<dyn Fs>, home: PathBuf) -> Self {
        Self { fs, home }
    }

    /// Begins a seal, and gives the number of ends so far. Waits while a key ends.
    ///
    /// # Errors
    /// As [`Exclusive::enter`].
    pub fn begin_seal(&self) -> Result<(SealSection, u64), Error> {
        let gate = Shared::enter(&*self.fs, &self.home.join(GATE))?;
        let sealing = Shared::enter(&*self.fs, &self.home.join(SEALING))?;
        drop(gate);
        let ends = sealing.length()?;
        let section = SealSection {
            _sealing: Some(sealing),
        };
        Ok((section, ends))
    }

    /// Waits up to ten seconds for seals that are being made. It makes no file. Answers whether
    /// there were any.
    pub fn wait_for_seals(&self) -> bool {
        Exclusive::wait_for_others(&*self.fs, &self.home.join(SEALING))
    }

    /// Begins the end of a key. Waits for seals that are being made.
    ///
    /// # Errors
    /// As [`Exclusive::enter`].
    pub fn begin_end(&self) -> Result<EndSection, Error> {
        let gate = Exclusive::enter_patiently(&*self.fs, &self.home.join(GATE))?;
        let sealing = Exclusive::enter_patiently(&*self.fs, &self.home.join(SEALING))?;
        sealing.lengthen()?;
        Ok(EndSection {
            _sealing: sealing,
            _gate: gate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::RealFs;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    // T-KLOG-48
    #[test]
    fn a_key_ends_only_while_no_process_seals_and_comes_to_its_turn_among_many() {
        const WRITERS: usize = 4;
        const ENDS: usize = 20;
        let home = tempfile::tempdir().unwrap();
        let gate = SealGate::new(RealFs::shared(), home.path().to_owned());
        let (sealing, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        let start = Barrier::new(WRITERS + 1);
        thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    start.wait();
                    let mut before = 0;
                    while !ended.load(Ordering::SeqCst) {
                        let (_section, ends) = gate.begin_seal().unwrap();
                        sealing.fetch_add(1, Ordering::SeqCst);
                        assert!(ends >= before, "{ends} after {before}");
                        before = ends;
                        thread::yield_now();
                        sealing.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            scope.spawn(|| {
                start.wait();
                for _ in 0..ENDS {
                    let _section = gate.begin_end().unwrap();
                    assert_eq!(sealing.load(Ordering::SeqCst), 0);
                }
                ended.store(true, Ordering::SeqCst);
            });
        });
        assert_eq!(gate.begin_seal().unwrap().1, u64::try_from(ENDS).unwrap());
    }
}
