//! Which key seals a record now, and when the next one takes its place.
//!
//! ```text
//! due ─► (1) the next key, durable
//!     ─► (2) a seal by the old key that names it, durable
//!     ─► (3) the head is published
//!     ─► (4) the old key's file is overwritten and removed, durably
//!     ─► (5) the next key seals
//! ```
//! Due: at the first seal of a process that opened the record, and in each [`SEALS_PER_EPOCH`]th of
//! an epoch. After a final seal no key of the record is left; its authority seals links after the
//! end.
//!
//! Invariant: the last durable seal names the current key. A crash between two steps leaves one
//! extra file. Before (2) is durable, it is of a key that no seal names. Afterwards, it is of a key
//! that was given up.

use crate::epochs::EpochKeys;
use crate::host::Host;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{LocalSigner, PublicKey, Signer};
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Sealer, Signers};

/// Seals of an epoch, the last of which names the next key. A rotation takes four fsyncs beside the
/// two of each seal; so they affect only one of this many seals.
pub const SEALS_PER_EPOCH: u32 = 64;

/// How many of the keys that a record may have are left for those who take it over.
const KEPT_FOR_TAKING_OVER: usize = 64;

/// The keys that seal records.
#[derive(Clone)]
pub struct Keys {
    /// Signs notes, or lets keys of epochs sign them.
    pub native: Arc<dyn Signer + Send + Sync>,
    /// Signs Rye's prefix digests.
    pub rye: Arc<dyn Signer + Send + Sync>,
    /// The folder of keys that seal a part of one record each; without it `native` makes all seals
    /// of new records.
    pub epochs: Option<EpochKeys>,
}

/// The key of a record's present epoch.
pub(super) struct Epoch {
    files: EpochKeys,
    record: RecordId,
    /// None where the authority is to seal: after the end, and to take the record over.
    living: Option<LocalSigner>,
    seals: u32,
    due: bool,
}

impl Epoch {
    /// Makes the first key of a record whose authority is `keys.native`, and names it in the
    /// manifest.
    pub(super) fn begin(
        host: &Host,
        keys: &Keys,
        thread: &ThreadId,
        manifest: &mut Manifest,
    ) -> Result<Option<Self>, Error> {
        let Some(files) = &keys.epochs else {
            return Ok(None);
        };
        if manifest.delegation.is_some() || manifest.authority != *keys.native.public_key() {
            return Ok(None);
        }
        let record = manifest.record;
        let first = files.begin(&record, &*host.random)?;
        manifest.key = *first.public_key();
        let word = manifest.first_key_message(thread)?;
        manifest.delegation = Some(keys.native.sign(&word)?);
        Ok(Some(Self {
            files: files.clone(),
            record,
            living: Some(first),
            seals: 0,
            due: false,
        }))
    }

    /// The current key according to the record's last seal; None where its keys are not of a home.
    pub(super) fn current(keys: &Keys, sealer: &Sealer) -> Result<Option<Self>, Error> {
        let manifest = sealer.manifest();
        let current = sealer.current_key().unwrap_or(&manifest.key);
        let own = keys.native.public_key();
        // A delegate seals with a key of its own, wherever the record's keys are.
        if manifest.delegation.is_none() || current == own || sealer.is_delegate(own) {
            return Ok(None);
        }
        let record = manifest.record;
        let Some(files) = &keys.epochs else {
            return match sealer.is_ended() {
                true => Ok(None),
                false => Err(not_here(current)),
            };
        };
        let living = match sealer.is_ended() {
            true => None,
            false => files.open(&record, current)?,
        };
        if living.is_none() && !sealer.is_ended() && !files.takes_over() {
            return Err(not_here(current));
        }
        Ok(Some(Self {
            files: files.clone(),
            record,
            due: !sealer.is_ended(),
            living,
            seals: 0,
        }))
    }

    /// The key that makes the next seal, where it is not the authority's own.
    pub(super) fn signer(&self) -> Option<&dyn Signer> {
        self.living.as_ref().map(|living| living as &dyn Signer)
    }

    /// Makes the key that the next seal is to name, if it is to name one.
    pub(super) fn next(
        &self,
        host: &Host,
        sealer: &Sealer,
        is_final: bool,
    ) -> Result<Option<LocalSigner>, Error> {
        let may = self.living.is_none()
            || sealer.keys_given_up() + KEPT_FOR_TAKING_OVER < MAX_RECORD_KEYS;
        if is_final || !self.due || !may {
            return Ok(None);
        }
        let made = match self.living {
            Some(_) => self.files.create(&self.record, &*host.random),
            None => self.files.begin(&self.record, &*host.random),
        };
        made.map(Some)
    }

    /// Called after the seal is durable and its head is published. Removes the key that it gave up
    /// from the disk.
    pub(super) fn sealed(
        &mut self,
        next: Option<LocalSigner>,
        is_final: bool,
    ) -> Result<(), Error> {
        self.seals += 1;
        self.due = self.seals + 1 >= SEALS_PER_EPOCH;
        if is_final {
            (self.living, self.due) = (None, false);
        } else if next.is_some() {
            (self.living, self.seals, self.due) = (next, 0, false);
        } else {
            return Ok(());
        }
        self.clear()
    }

    /// Removes all files except the current key's.
    pub(super) fn clear(&self) -> Result<(), Error> {
        let living = self.living.as_ref().map(LocalSigner::public_key);
        self.files.remove_all_but(&self.record, living)
    }

    /// Removes the key of a record that was not created.
    ///
    /// After a failure of the system the record may exist all the same. Then the key stays: an
    /// unused key does no harm.
    pub(super) fn abandon(&self, why: &Error) {
        if why.kind() != ErrorKind::External {
            let _ = self.files.remove_all_but(&self.record, None);
        }
    }
}

/// The key of the epoch, where there is one, and Rye's.
pub(super) fn signers<'a>(keys: &'a Keys, epoch: Option<&'a Epoch>) -> Signers<'a> {
    Signers {
        native: epoch.and_then(Epoch::signer).unwrap_or(&*keys.native),
        rye: &*keys.rye,
    }
}

fn not_here(current: &PublicKey) -> Error {
    Error::refused(format!(
        "the key that seals this record now, {}, is not in this home: continue where it was sealed last, or take it over \
         with its authority; hint: threadseal seal --take-over",
        current.key_id()
    ))
}

#[cfg(test)]
pub(super) mod tests;
