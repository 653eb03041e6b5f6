//! [`HashChainedLedgerStore`]: any store, each record bound to the one before it.
//!
//! ```text
//! record ─► prev_hash, record_hash (signature) ─► append_if the tip is unchanged ─► head
//!                 ▲                                     │ Differs: another writer was faster
//!                 └───────────── the tip now ◄──────────┘
//! ```
//! * The caller's records are never changed; the returned records are the stored ones.
//! * The first record is decided by compare-and-swap, too. Of several writers that begin one run,
//!   one does ([`ChainedLedger::begin_batch`]), and the others continue its ledger.
//! * An acknowledged tip must stay in the ledger. If it is gone, the ledger is `rolled_back`; if
//!   another is in its place, it is `forked`. Then nothing is appended. With a host the last known
//!   head holds over restarts too, and is published only after the records are durable. The head of
//!   an unsigned ledger holds in its own place alone ([`known::Known`]).
//! * A lost answer is not a lost record. After a failure this checks whether the records are at the
//!   end of the store.
//!
//! Types enforce the order of decorators. A decorator that changes a record, or reports it, wraps a
//! [`ChainedLedger`]. Only a [`LedgerStore`], which keeps bytes as they are, can be chained. In the
//! other order every record would be a false alarm (AbstractRuntime allows it):
//!
//! ```
//! # use threadseal_store::ledger::*;
//! let chained = HashChainedLedgerStore::new(MemoryLedgerStore::new());
//! let ledger = Observable::new(Offloading::new(chained, MemoryArtifacts::default()));
//! ```
//! ```compile_fail,E0277
//! # use threadseal_store::ledger::*;
//! let offloading = Offloading::new(MemoryLedgerStore::new(), MemoryArtifacts::default());
//! let ledger = HashChainedLedgerStore::new(offloading);
//! ```
//! ```compile_fail,E0277
//! # use threadseal_store::ledger::*;
//! let once = HashChainedLedgerStore::new(MemoryLedgerStore::new());
//! let twice = HashChainedLedgerStore::new(once);
//! ```

use super::known;
use super::{Append, Entry, LedgerStore, MAX_BATCH_RECORDS, Tip};
use crate::heads::{Durability, RecordKind, StoredHead, Swap};
use crate::host::Host;
use crate::key_ends::SealSection;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use threadseal_core::canon::json::{Text, Value, parse_python};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signer};
use threadseal_core::limits::MAX_LENIENT_RECORD_BYTES;
use threadseal_core::record::Head;
use threadseal_formats::ledger::{
    ACTORS_EFFECT, BEGINNINGS_EFFECT, GENESIS_EFFECT, RecordSignature, RunId, Signatures,
    StepRecord, compute_record_hash, head_of, line_of_unsigned, record_in_place,
};

/// Times that another writer may be faster before an append gives up.
const MAX_RACES: usize = 10_000;
/// With fewer items a second thread costs more than it saves.
const ITEMS_A_THREAD: usize = 16;
/// Runs whose tips are remembered between appends.
const MAX_REMEMBERED_RUNS: usize = 1024;

/// Signs the hashes of records.
pub trait RecordSigner: fmt::Debug + Send + Sync {
    /// The `signature` of `record`, whose hash is `hash`; none where another actor must sign.
    ///
    /// # Errors
    /// [`ErrorKind::Key`] or [`ErrorKind::External`] when the key does not serve.
    fn sign(&self, record: &StepRecord, hash: &Digest) -> Result<Option<String>, Error>;

    /// The key that signs `record`, where it is one of ours.
    fn key_of(&self, _record: &StepRecord) -> Option<PublicKey> {
        None
    }
}

/// The keys of the actors whose records are written here. A record of another actor stays unsigned.
#[derive(Default)]
pub struct ActorSigners(BTreeMap<String, Arc<dyn Signer + Send + Sync>>);

impl ActorSigners {
    /// Without a key.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the key that signs for `actor_id`.
    #[must_use]
    pub fn with(
        mut self,
        actor_id: impl Into<String>,
        signer: Arc<dyn Signer + Send + Sync>,
    ) -> Self {
        self.0.insert(actor_id.into(), signer);
        self
    }
}

impl fmt::Debug for ActorSigners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActorSigners").field(&self.0.keys()).finish()
    }
}

impl RecordSigner for ActorSigners {
    fn sign(&self, record: &StepRecord, hash: &Digest) -> Result<Option<String>, Error> {
        let signer = record.actor_id.as_ref().and_then(|actor| self.0.get(actor));
        let signature = signer.map(|signer| RecordSignature::sign(hash, &**signer));
        Ok(signature
            .transpose()?
            .map(|signature| signature.to_string()))
    }

    fn key_of(&self, record: &StepRecord) -> Option<PublicKey> {
        let signer = self.0.get(record.actor_id.as_ref()?)?;
        Some(*signer.public_key())
    }
}

/// A ledger whose records are chained when they are stored.
pub trait ChainedLedger: fmt::Debug + Send + Sync {
    /// Appends records of one run, all or none, after the present end.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when a record is of another run or cannot be written,
    /// [`ErrorKind::Refused`] when the ledger was deleted, truncated, rolled back or is not
    /// chained,
    /// [`ErrorKind::External`] when the store fails.
    fn append_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Appended, Error>;

    /// Appends the first records of a run, all or none. `None`: the run has records already, from
    /// another writer or an earlier time, and nothing changed.
    ///
    /// # Errors
    /// As [`ChainedLedger::append_batch`].
    fn begin_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Option<Appended>, Error>;

    /// The stored records.
    fn records(&self) -> &dyn LedgerStore;

    /// Appends one record.
    ///
    /// # Errors
    /// As [`ChainedLedger::append_batch`].
    fn append(&self, record: &StepRecord) -> Result<Appended, Error> {
        self.append_batch(&record.run_id, std::slice::from_ref(record))
    }

    /// Appends one record as the first of its run. `None`: the run has records already.
    ///
    /// # Errors
    /// As [`ChainedLedger::append_batch`].
    fn begin(&self, record: &StepRecord) -> Result<Option<Appended>, Error> {
        self.begin_batch(&record.run_id, std::slice::from_ref(record))
    }
}

impl<C: ChainedLedger + ?Sized> ChainedLedger for Arc<C> {
    fn append_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Appended, Error> {
        (**self).append_batch(run, records)
    }

    fn begin_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Option<Appended>, Error> {
        (**self).begin_batch(run, records)
    }

    fn records(&self) -> &dyn LedgerStore {
        (**self).records()
    }
}

/// Records that are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The records as they are stored, with their hashes.
    pub records: Vec<StepRecord>,
    /// The end of the ledger after the append.
    pub tip: Tip,
    /// Why the head could not be published, if it could not. The records are stored all the same,
    /// and the next append publishes a later head.
    pub unpublished: Option<Error>,
}

/// Chains the records of any store.
#[derive(Debug)]
pub struct HashChainedLedgerStore<S> {
    store: S,
    signer: Option<Arc<dyn RecordSigner>>,
    host: Option<Host>,
    runs: Mutex<BTreeMap<RunId, Arc<Mutex<Remembered>>>>,
}

/// The known facts of one run between appends.
#[derive(Debug, Default)]
struct Remembered {
    /// The last tip that was acknowledged here, or that this host knows; later ones contain it.
    floor: Tip,
    /// The end of the ledger at the last read.
    tip: Option<Tip>,
    /// The signatures of the records up to this end.
    signatures: Option<(Tip, Signatures)>,
}

impl<S: LedgerStore> HashChainedLedgerStore<S> {
    /// Chains the records of `store`.
    pub fn new(store: S) -> Self {
        Self {
            store,
            signer: None,
            host: None,
            runs: Mutex::default(),
        }
    }

    /// With a signature in each record that `signer` signs.
    #[must_use]
    pub fn with_signer(mut self, signer: Arc<dyn RecordSigner>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// With the heads of a host. The last known head is read before the first append to a run, and
    /// published after each.
    #[must_use]
    pub fn with_host(mut self, host: Host) -> Self {
        self.host = Some(host);
        self
    }

    fn remembered(&self, run: &RunId) -> Arc<Mutex<Remembered>> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= MAX_REMEMBERED_RUNS && !runs.contains_key(run) {
            let idle = runs.iter().find(|(_, known)| Arc::strong_count(known) == 1);
            if let Some(run) = idle.map(|(run, _)| run.clone()) {
                runs.remove(&run);
            }
        }
        Arc::clone(runs.entry(run.clone()).or_default())
    }

    /// The end of the ledger; at the first call it is compared with the head that this host knows.
    fn first_look(&self, run: &RunId, known: &mut Remembered) -> Result<Tip, Error> {
        let tip = || Ok::<_, Error>(self.store.tip(run)?.unwrap_or_default());
        let Some(host) = self.host.as_ref().filter(|_| known.floor == Tip::EMPTY) else {
            let tip = tip()?;
            self.check_contains(run, &tip, &known.floor)?;
            return Ok(tip);
        };
        // The heads are read before the end: what another writer adds in between is no rollback.
        let record = run.record_id();
        let stored = known::known(host, &record, self.store.place_of(run).as_deref())?;
        host.refuse_pruned(&record)?;
        if let Some(own) = &stored.own {
            host.refuse_pruned(own)?;
        }
        let mut floors: Vec<Tip> = stored.bound().map(|stored| floor(&stored.head)).collect();
        floors.sort_by_key(|floor| floor.count);
        known.floor = floors.last().copied().unwrap_or_default();
        let newest = stored.bound().max_by_key(|stored| stored.head.size);
        let signatures = newest.and_then(|newest| newest.root);
        known.signatures = signatures.map(|all| (known.floor, Signatures::of_digest(all)));
        let tip = tip()?;
        for floor in floors.iter().rev() {
            self.check_contains(run, &tip, floor)?;
        }
        if tip.count > 0 {
            let doubted = stored.bound().find(|stored| !stored.vouches);
            host.refuse_doubted(&format!("run {run} has {tip}"), doubted)?;
        }
        Ok(tip)
    }

    /// Refuses a ledger that ends at `tip` and has lost the records up to `floor`.
    fn check_contains(&self, run: &RunId, tip: &Tip, floor: &Tip) -> Result<(), Error> {
        if floor.count == 0 || tip == floor {
            return Ok(());
        }
        if tip.count < floor.count {
            return Err(Error::refused(format!(
                "the ledger of run {run} is rolled back: it has {tip}, and had {floor}; verify it"
            )));
        }
        let last = self.store.list_after(run, floor.count - 1, 1)?;
        let hash = last.first().and_then(|record| hash_in(&record.line));
        if hash != floor.hash {
            return Err(Error::refused(format!(
                "the ledger of run {run} is forked: it had {floor}, and has another record there; \
                 verify it"
            )));
        }
        Ok(())
    }

    /// The records after `tip`, each also as a store takes it.
    fn chain(
        &self,
        run: &RunId,
        tip: &Tip,
        records: &[StepRecord],
    ) -> Result<Vec<(StepRecord, Entry)>, Error> {
        let mut prev = tip.hash;
        let mut hashed = Vec::with_capacity(records.len());
        for record in records {
            if record.run_id != *run {
                return Err(Error::invalid(format!(
                    "a record of run {} does not belong to run {run}",
                    record.run_id
                )));
            }
            let next = Hashed::new(record.clone(), prev)?;
            prev = Some(next.hash);
            hashed.push(next);
        }
        // Each hash needs the one before; signatures and lines need only the hash.
        let signer = self.signer.as_deref();
        on_all_cores(hashed, |hashed| hashed.finish(signer))
    }

    /// Checks after a failure whether the records are stored all the same, durably.
    fn settled(&self, run: &RunId, tip: &Tip, entries: &[Entry]) -> Option<Tip> {
        let expected = Tip {
            count: tip.count + entries.len() as u64,
            hash: entries.last()?.record_hash,
        };
        match self.store.append_if(run, &expected, &[]) {
            Ok(Append::Stored(now)) => Some(now),
            _ => None,
        }
    }

    /// The signatures of the records up to `end`. What is known of them is not read again: it was
    /// known before another could change the records.
    fn signatures_to(
        &self,
        run: &RunId,
        end: &Tip,
        known: Option<(Tip, Signatures)>,
    ) -> Result<Signatures, Error> {
        let known = known.filter(|(tip, _)| tip.count <= end.count);
        let (tip, mut all) = known.unwrap_or_default();
        let mut next = tip.count;
        while next < end.count {
            let limit = usize::try_from(end.count - next).unwrap_or(usize::MAX);
            let records = self
                .store
                .list_after(run, next, limit.min(MAX_BATCH_RECORDS))?;
            if records.is_empty() {
                return Err(Error::refused(format!(
                    "the ledger of run {run} lost records while it was read; verify it"
                )));
            }
            for record in records {
                all.take(record.seq, signature_in(&record.line).as_deref());
                next = record.seq + 1;
            }
        }
        Ok(all)
    }

    /// Publishes the head after `records`, which follow on `before`.
    fn publish(
        &self,
        run: &RunId,
        (before, tip): (&Tip, &Tip),
        records: &[StepRecord],
        remembered: &mut Remembered,
    ) -> Result<(), Error> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let Some(head) = tip.hash.and_then(|hash| head_of(run, tip.count, hash)) else {
            return Ok(());
        };
        let mut all = self.signatures_to(run, before, remembered.signatures)?;
        for (index, record) in (before.count..).zip(records) {
            all.take(index, record.signature.as_deref());
        }
        remembered.signatures = Some((*tip, all));
        let last = records.last();
        let signed = last.filter(|last| last.signature.is_some());
        let signer = self.signer.as_ref();
        let now = host.clock.now()?;
        // Only a signature binds a ledger to its run everywhere.
        let place = self.store.place_of(run).filter(|_| signed.is_none());
        let (record, aliases) = match place {
            Some(place) => (
                record_in_place(&head.record, &place),
                vec![line_of_unsigned(&head.record)],
            ),
            None => (head.record, Vec::new()),
        };
        let new = StoredHead {
            head: Head { record, ..head },
            root: Some(all.digest()),
            salts: None,
            key: signed.and_then(|last| Some(signer?.key_of(last)?.key_id())),
            kind: RecordKind::Ledger,
            is_final: false,
            thread: None,
            first_seen: now,
            updated: now,
            path_hint: None,
            aliases,
            logged: None,
            vouches: true,
        };
        let known = host.heads.fetch_to_replace(&new.head.record)?;
        let mut known = known.map(Box::new);
        for _ in 0..MAX_RACES {
            let swap = match &known {
                None => host.heads.create(&new)?,
                // Another writer continued from our head, which its append made sure of.
                Some(known) if known.head.seq > new.head.seq => return Ok(()),
                Some(known) if known.head == new.head => return Ok(()),
                Some(known) => host
                    .heads
                    .replace_if(&known.head, &new, Durability::Written)?,
            };
            match swap {
                Swap::Stored => return Ok(()),
                Swap::Differs(other) => known = other,
            }
        }
        Err(out_of_breath(run))
    }
}

impl<S: LedgerStore> HashChainedLedgerStore<S> {
    /// No key that signs one of these records ends until the section is dropped.
    fn enter_seal(&self, records: &[StepRecord]) -> Result<SealSection, Error> {
        let (Some(host), Some(signer)) = (&self.host, &self.signer) else {
            return Ok(SealSection::unlocked());
        };
        let keys: BTreeSet<PublicKey> = records.iter().filter_map(|r| signer.key_of(r)).collect();
        host.enter_seal(&keys.iter().collect::<Vec<_>>())
    }

    /// Appends at the end that the ledger has, if `may_follow` permits it.
    fn append_where(
        &self,
        run: &RunId,
        records: &[StepRecord],
        may_follow: impl Fn(&Tip) -> bool,
    ) -> Result<Option<Appended>, Error> {
        let known = self.remembered(run);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tip = match known.tip.take() {
            Some(tip) => tip,
            None => self.first_look(run, &mut known)?,
        };
        for _ in 0..MAX_RACES {
            if !may_follow(&tip) {
                return Ok(None);
            }
            if tip.count > 0 && tip.hash.is_none() {
                return Err(Error::refused(format!(
                    "the last record of run {run} is not chained: nothing can be chained to it"
                )));
            }
            let _section = self.enter_seal(records)?;
            let (records, entries): (_, Vec<Entry>) =
                self.chain(run, &tip, records)?.into_iter().unzip();
            let stored = match self.store.append_if(run, &tip, &entries) {
                Ok(Append::Stored(now)) => now,
                Ok(Append::Differs(now)) => {
                    self.check_contains(run, &now, &known.floor)?;
                    tip = now;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::External => {
                    self.settled(run, &tip, &entries).ok_or(error)?
                }
                Err(error) => return Err(error),
            };
            known.floor = stored;
            known.tip = Some(stored);
            let records: Vec<StepRecord> = records;
            let ends = (&tip, &stored);
            let unpublished = self.publish(run, ends, &records, &mut known).err();
            return Ok(Some(Appended {
                records,
                tip: stored,
                unpublished,
            }));
        }
        Err(out_of_breath(run))
    }
}

impl<S: LedgerStore> ChainedLedger for HashChainedLedgerStore<S> {
    fn append_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Appended, Error> {
        let appended = self.append_where(run, records, |_| true)?;
        appended.ok_or_else(|| out_of_breath(run))
    }

    fn begin_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Option<Appended>, Error> {
        self.append_where(run, records, |tip| *tip == Tip::EMPTY)
    }

    fn records(&self) -> &dyn LedgerStore {
        &self.store
    }
}

/// A record that has its place in the chain.
struct Hashed {
    record: StepRecord,
    value: Value,
    hash: Digest,
}

impl Hashed {
    fn new(mut record: StepRecord, prev: Option<Digest>) -> Result<Self, Error> {
        record.prev_hash = prev;
        record.record_hash = None;
        record.signature = None;
        let mut value = record.to_value();
        let hash = compute_record_hash(&value, prev.as_ref())
            .map_err(|why| Error::invalid(format!("the record cannot be hashed: {why}")))?;
        record.record_hash = Some(hash);
        set(&mut value, "record_hash", hash.to_hex());
        Ok(Self {
            record,
            value,
            hash,
        })
    }

    fn finish(self, signer: Option<&dyn RecordSigner>) -> Result<(StepRecord, Entry), Error> {
        let Self {
            mut record,
            mut value,
            hash,
        } = self;
        if let Some(signer) = signer {
            record.signature = signer.sign(&record, &hash)?;
        }
        if let Some(signature) = &record.signature {
            set(&mut value, "signature", signature.clone());
        }
        let line = python::ledger_line(&value)
            .map_err(|why| Error::invalid(format!("the record cannot be written: {why}")))?;
        let kind = record.effect.as_ref().map(|effect| effect.kind.as_str());
        let declares = matches!(
            kind,
            Some(GENESIS_EFFECT | ACTORS_EFFECT | BEGINNINGS_EFFECT)
        );
        if declares && line.len() > MAX_LENIENT_RECORD_BYTES {
            let text = format!(
                "the genesis of a ledger and a record of its actors or beginnings have at most {MAX_LENIENT_RECORD_BYTES} bytes"
            );
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let entry = Entry {
            line,
            record_hash: Some(hash),
            idempotency_key: record.idempotency_key.clone(),
            status: record.status.as_str().to_owned(),
        };
        Ok((record, entry))
    }
}

/// The results of `work` on each item, in order; the cores share many items.
fn on_all_cores<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(items.len() / ITEMS_A_THREAD).max(1);
    let share = items.len().div_ceil(threads).max(1);
    let all = &|items: Vec<T>| items.into_iter().map(&work).collect::<Result<Vec<_>, _>>();
    let mut rest = items.into_iter();
    let own: Vec<T> = rest.by_ref().take(share).collect();
    thread::scope(|scope| {
        let mut others = Vec::new();
        while rest.len() > 0 {
            let items = rest.by_ref().take(share).collect();
            others.push(scope.spawn(move || all(items)));
        }
        let mut done = all(own)?;
        for other in others {
            let broken = || Error::new(ErrorKind::External, "a signing thread failed");
            done.extend(other.join().unwrap_or_else(|_| Err(broken()))?);
        }
        Ok(done)
    })
}

fn floor(head: &Head) -> Tip {
    Tip {
        count: head.size,
        hash: Some(head.line),
    }
}

fn out_of_breath(run: &RunId) -> Error {
    let text = format!("others appended to run {run} {MAX_RACES} times meanwhile; try again");
    Error::new(ErrorKind::External, text)
}

fn hash_in(line: &[u8]) -> Option<Digest> {
    let value = parse_python(line).ok()?.value;
    Digest::parse_hex(value.get("record_hash")?.as_str()?)
}

/// The text of the signature of a record. What is no text is no signature either, and counts as an
/// empty one.
fn signature_in(line: &[u8]) -> Option<String> {
    let value = parse_python(line).ok()?.value;
    let signature = value.get("signature").filter(|text| !text.is_null())?;
    Some(signature.as_str().unwrap_or_default().to_owned())
}

fn set(record: &mut Value, name: &str, text: String) {
    if let Value::Object(members) = record
        && let Some((_, value)) = members.iter_mut().find(|(key, _)| *key == *name)
    {
        *value = Value::String(Text::from(text));
    }
}

#[cfg(test)]
mod tests;
