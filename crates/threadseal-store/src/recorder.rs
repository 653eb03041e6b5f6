//! Writes native records so that no crash loses promised bytes.
//!
//! ```text
//! create   line 1 + seal 0 ─► one file, whole or not at all ─► head
//! append   event ─► file                                      "written": survives the process
//! seal     fsync ─► checkpoint line ─► fsync ─► head           "durable": survives power loss
//! open     lock, or claim ─► verify ─► refuse | set the tail aside | adopt it ─► continue
//! ```
//! Invariants (`ARCHITECTURE.md`, "Sealing"):
//! * A record has one writer.
//! * Running digests are never loaded from disk. They are computed from the file while it is
//!   verified under the lock.
//! * A head is published only after the bytes it names are durable.
//! * After any failure the recorder gives no promise any more.

mod admit;
mod epoch;
mod judge;
mod publish_last;
mod tail;

pub use epoch::{Keys, SEALS_PER_EPOCH};
pub use judge::{Judge, Judged};
pub use publish_last::publish_last_seal;
pub use tail::TailPolicy;

use crate::append::{Log, MovedTail};
use crate::atomic::PRIVATE_FILE;
use crate::bodies::{self, BodiesFile};
use crate::examine;
use crate::heads::{Durability, RecordKind};
use crate::host::{Host, Published};
use crate::key_ends::SealSection;
use crate::lock::WriterLock;
use crate::random;
use crate::read::RegularFile;
use crate::transcripts::{Appender, Claim, RecordName, TranscriptStore};
use epoch::{Epoch, signers};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{PublicKey, Signer as _};
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::Report;
use threadseal_core::tlog::entry::key_event::KeyEvent;
use threadseal_formats::transcript::bodies::{BodySalt, Detached, Redaction, detach};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{Ending, Link, SealedDelegation, Sealer, Signers};

/// Most keys that a recorder lets in. The keys that it gives up with each epoch need the rest of
/// the room for keys of a record.
const MAX_DELEGATES: usize = 32;

/// A record that was begun: the state of its writer, its file, and the leaf of line 1.
type Begun = (Sealer, Box<dyn Appender>, Vec<Digest>);

/// The one writer of a record.
pub struct Recorder {
    host: Host,
    keys: Keys,
    epoch: Option<Epoch>,
    log: Box<dyn Appender>,
    sealer: Sealer,
    lines: Vec<u8>,
    /// The file of detached bodies.
    bodies: Option<BodiesFile>,
    /// Leaves of line 1 and of the first event: they identify the record without its seals.
    aliases: Vec<Digest>,
    /// The tail that [`TailPolicy::Hold`] left.
    held: Option<Vec<u8>>,
    failed: bool,
    /// Has it a final seal?
    closed: bool,
    /// Why nothing may be added to it, though it may be looked at under its lock.
    barred: Option<Error>,
    /// Key events by which `keys.native` took the place of the authority; they are recorded before
    /// it seals.
    key_events: Vec<KeyEvent>,
}

/// A record that was opened again.
pub struct Opened {
    /// Its writer.
    pub recorder: Recorder,
    /// The report of the verification, before anything was written.
    pub report: Report,
    /// The file that holds the tail, if one was set aside.
    pub moved: Option<MovedTail>,
    /// The keys that its authority let in under a seal, also of a record that has ended.
    pub delegations: Vec<SealedDelegation>,
}

impl Recorder {
    /// Creates the record at `path`, sealed and durable from its first byte on.
    ///
    /// # Errors
    /// Kind `InvalidInput` when `path` exists or the manifest is none, else as [`Recorder::seal`].
    pub fn create(
        host: Host,
        path: &Path,
        thread: ThreadId,
        manifest: Manifest,
        keys: Keys,
    ) -> Result<Self, Error> {
        let fs = Arc::clone(&host.fs);
        let bodies = BodiesFile::for_new(&host.fs, path, &manifest)?;
        // The contents of a record are private to its owner.
        let begin = |first: &[u8]| -> Result<Box<dyn Appender>, Error> {
            Ok(Box::new(Log::create(fs, path, PRIVATE_FILE, first)?))
        };
        Self::begin(host, begin, thread, manifest, keys, bodies)
    }

    /// As [`Recorder::create`], in a store.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_in(
        host: Host,
        store: &dyn TranscriptStore,
        name: &RecordName,
        thread: ThreadId,
        manifest: Manifest,
        keys: Keys,
    ) -> Result<Self, Error> {
        bodies::refuse_unless(store.holds_bodies(), &manifest)?;
        let bodies = BodiesFile::for_new(&host.fs, &store.place(name), &manifest)?;
        let begin = |first: &[u8]| store.create(name, first);
        Self::begin(host, begin, thread, manifest, keys, bodies)
    }

    fn begin(
        host: Host,
        begin: impl FnOnce(&[u8]) -> Result<Box<dyn Appender>, Error>,
        thread: ThreadId,
        manifest: Manifest,
        keys: Keys,
        bodies: Option<BodiesFile>,
    ) -> Result<Self, Error> {
        let mut manifest = manifest;
        let section = host.enter_seal(&[keys.native.public_key(), &manifest.authority])?;
        let epoch = Epoch::begin(&host, &keys, &thread, &mut manifest)?;
        let begun = Self::write_first(
            &host,
            begin,
            thread,
            manifest,
            signers(&keys, epoch.as_ref()),
        );
        let (sealer, log, aliases) = begun.inspect_err(|why| {
            if let Some(epoch) = &epoch {
                epoch.abandon(why);
            }
        })?;
        let mut recorder = Self {
            host,
            keys,
            epoch,
            log,
            sealer,
            lines: Vec::new(),
            bodies,
            aliases,
            held: None,
            failed: false,
            closed: false,
            barred: None,
            key_events: Vec::new(),
        };
        recorder.publish(Durability::Durable)?;
        drop(section);
        Ok(recorder)
    }

    /// Line 1 and seal 0, in their place.
    fn write_first(
        host: &Host,
        begin: impl FnOnce(&[u8]) -> Result<Box<dyn Appender>, Error>,
        thread: ThreadId,
        manifest: Manifest,
        signers: Signers<'_>,
    ) -> Result<Begun, Error> {
        let stamps = [host.stamp()?, host.stamp()?];
        let mut lines = Vec::new();
        let fence = host.heads.fence();
        let sealer = Sealer::begin_under(fence, thread, manifest, stamps, signers, &mut lines)?;
        let log = begin(&lines)?;
        let first = lines.split(|byte| *byte == b'\n').next();
        let aliases = vec![leaf_hash(first.unwrap_or_default())];
        Ok((sealer, log, aliases))
    }

    /// Opens an existing record to continue it, if `judge` finds that it verifies.
    ///
    /// # Errors
    /// Kind `Refused` when the record does not verify (the report's worst finding is in the
    /// message). Kind `External` when another writer holds it or the system fails.
    pub fn open(
        host: Host,
        path: &Path,
        keys: Keys,
        judge: &dyn Judge,
        tail: TailPolicy,
    ) -> Result<Opened, Error> {
        let lock = WriterLock::acquire(Arc::clone(&host.fs), path)?;
        Self::continue_record(host, Box::new(lock), keys, judge, tail)
    }

    /// As [`Recorder::open`], in a store. In a store without locks this supersedes the earlier
    /// writer of the record, also when the record is then refused.
    ///
    /// # Errors
    /// As [`Recorder::open`].
    pub fn open_in(
        host: Host,
        store: &dyn TranscriptStore,
        name: &RecordName,
        keys: Keys,
        judge: &dyn Judge,
        tail: TailPolicy,
    ) -> Result<Opened, Error> {
        Self::continue_record(host, store.claim(name)?, keys, judge, tail)
    }

    fn continue_record(
        host: Host,
        claim: Box<dyn Claim>,
        keys: Keys,
        judge: &dyn Judge,
        tail: TailPolicy,
    ) -> Result<Opened, Error> {
        let file = claim.reader()?;
        let record = judge::record_in(&file)?;
        examine::refuse_displacing(&host, file.path(), RecordKind::Transcript, &record)?;
        let mut judged = judge.judge(&host, &file)?;
        let tail = match tail {
            TailPolicy::SetAsideRedaction => tail::of_redaction(&file, &judged.report)?,
            other => other,
        };
        judged.accept(&host, tail)?;
        // A caller that prunes it once more only reads it.
        let barred = host.refuse_pruned(&record).err();
        let sealed = judged.report.head.map_or(0, |head| head.size);
        let mut sealer = judged.sealer(&file, judge)?;
        if let Some(token) = host.heads.fence() {
            sealer.raise_fence(token)?;
        }
        let key_events = admit::admit_keys(&keys, &sealer, &judge.options())?;
        let epoch = Epoch::current(&keys, &sealer)?;
        // Nothing is written that these keys could not seal.
        admit::check_signers(&host, &sealer, &key_events, signers(&keys, epoch.as_ref()))?;
        let aliases = examine::naming_leaves(&file)?
            .into_iter()
            .step_by(2)
            .collect();
        bodies::refuse_unless(claim.holds_bodies(), sealer.manifest())?;
        let bodies = BodiesFile::of_record(&host.fs, file.path(), sealer.manifest());
        let log = claim.appender(judged.durable_floor(&file))?;
        let closed = sealer.is_ended();
        let mut recorder = Self {
            host,
            keys,
            epoch,
            log,
            sealer,
            lines: Vec::new(),
            bodies,
            aliases,
            held: None,
            failed: false,
            closed,
            barred,
            key_events,
        };
        if let Some(bodies) = &mut recorder.bodies {
            // A redaction that was sealed and not carried out is carried out now, before anything
            // else.
            bodies.take_up(&judged.unfinished, judged.scan.bodies.as_deref())?;
        }
        let moved = recorder.settle_tail(&file, sealed, tail)?;
        // A caller that only holds the record may find a reason not to continue, and then has
        // changed nothing. The next seal publishes what it covers.
        if matches!(tail, TailPolicy::SetAside | TailPolicy::Adopt) {
            recorder.publish(Durability::Durable)?;
            // All found bytes are durable now, so the key that its last seal gave up has no use any
            // more.
            recorder.epoch.as_ref().map_or(Ok(()), Epoch::clear)?;
        }
        recorder.close_again()?;
        Ok(Opened {
            recorder,
            report: judged.report,
            moved,
            delegations: judged.delegations,
        })
    }

    fn settle_tail(
        &mut self,
        file: &RegularFile,
        sealed: u64,
        policy: TailPolicy,
    ) -> Result<Option<MovedTail>, Error> {
        if file.size() == sealed {
            return Ok(None);
        }
        if matches!(policy, TailPolicy::Adopt | TailPolicy::Hold) {
            self.held = Some(tail::read(file, sealed)?);
            if policy == TailPolicy::Adopt {
                self.adopt_tail()?;
            }
            return Ok(None);
        }
        let stamp = self.host.stamp()?;
        let moved = self.log.move_tail_aside(sealed)?;
        if let Some(moved) = &moved {
            self.sealer
                .tail_dropped(stamp, moved.length, &moved.sha256, &mut self.lines)?;
            self.write_lines()?;
        }
        Ok(moved)
    }

    /// Keeps the tail that [`TailPolicy::Hold`] left, marked as unverified for ever; without one
    /// nothing happens.
    ///
    /// # Errors
    /// As [`Recorder::append`].
    pub fn adopt_tail(&mut self) -> Result<(), Error> {
        let Some(tail) = self.held.take() else {
            return Ok(());
        };
        let stamp = self.host.stamp()?;
        self.sealer.tail_adopted(stamp, &tail, &mut self.lines)?;
        self.write_lines()
    }

    /// Seals the statements about the tail of an ended record, so that it ends with a final seal
    /// again.
    fn close_again(&mut self) -> Result<(), Error> {
        if !self.sealer.is_ended() || self.sealer.unsealed_lines() == 0 {
            return Ok(());
        }
        self.succeed()?;
        let turn = self.sealer.turn();
        self.seal_with(turn, true, Ext::default()).map(drop)
    }

    /// Appends an event. On `Ok` it is *written*: it survives this process.
    ///
    /// In object storage that is one request; use [`Recorder::append_buffered`] for events that may
    /// wait for the next seal.
    ///
    /// # Errors
    /// Kind `Refused` for a reserved type or after the end; `External` when writing fails, now or
    /// earlier: drop the recorder then and open the record again.
    pub fn append(&mut self, event_type: &EventType, payload: &Payload) -> Result<(), Error> {
        self.append_buffered(event_type, payload)?;
        self.flush()
    }

    /// Appends an event without any promise until [`Recorder::flush`] or [`Recorder::sync`].
    ///
    /// # Errors
    /// As [`Recorder::append`].
    pub fn append_buffered(
        &mut self,
        event_type: &EventType,
        payload: &Payload,
    ) -> Result<(), Error> {
        self.check()?;
        let stamp = self.host.stamp()?;
        let detached = self.detached(payload)?;
        let payload = detached.as_ref().map_or(payload, |out| &out.payload);
        self.sealer
            .event(stamp, event_type, payload, &mut self.lines)?;
        self.keep_bodies(detached.as_ref())?;
        if self.aliases.len() == 1 {
            let line = self.lines.strip_suffix(b"\n").unwrap_or(&self.lines);
            self.aliases.push(leaf_hash(line));
        }
        self.buffer_lines()
    }

    /// Writes the buffered lines: they then survive this process.
    ///
    /// # Errors
    /// As [`Recorder::append`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check()?;
        let bodies = self.bodies.as_mut().map_or(Ok(()), BodiesFile::flush);
        let done = bodies.and_then(|()| self.log.flush());
        self.or_fail(done)
    }

    /// Makes all events so far *durable*: they survive power loss.
    ///
    /// # Errors
    /// As [`Recorder::append`].
    pub fn sync(&mut self) -> Result<(), Error> {
        self.check()?;
        let bodies = self.bodies.as_mut().map_or(Ok(()), BodiesFile::sync);
        let done = bodies.and_then(|()| self.log.sync());
        self.or_fail(done)
    }

    /// Seals everything so far, durably, and publishes the head.
    ///
    /// # Errors
    /// As [`Recorder::append`]; kind `Key` when a signer fails.
    pub fn seal(&mut self, turn: u64, ext: Ext) -> Result<Head, Error> {
        self.seal_with(turn, false, ext)
    }

    /// Ends the record: a terminal event and a final seal.
    ///
    /// # Errors
    /// As [`Recorder::seal`].
    pub fn end(&mut self, ending: Ending, payload: &Payload, turn: u64) -> Result<Head, Error> {
        self.check()?;
        let stamp = self.host.stamp()?;
        let detached = self.detached(payload)?;
        let payload = detached.as_ref().map_or(payload, |out| &out.payload);
        self.sealer.end(stamp, ending, payload, &mut self.lines)?;
        self.keep_bodies(detached.as_ref())?;
        self.buffer_lines()?;
        self.seal_with(turn, true, Ext::default())
    }

    /// Links to the thread that continues this one; on an ended record with a final seal.
    ///
    /// # Errors
    /// As [`Recorder::seal`].
    pub fn link(&mut self, link: Link, payload: &Payload, ext: Ext) -> Result<Head, Error> {
        self.check()?;
        self.succeed()?;
        let (stamp, turn) = (self.host.stamp()?, self.sealer.turn());
        let ended = self.sealer.is_ended();
        self.sealer.link(stamp, link, payload, &mut self.lines)?;
        self.buffer_lines()?;
        self.seal_with(turn, ended, ext)
    }

    /// Lets `key` seal beside the record's own keys, by a delegation of the recorder's own key,
    /// which is its authority.
    ///
    /// A seal covers the delegation, and is durable and published. None where the record contains
    /// the delegation already.
    ///
    /// # Errors
    /// As [`Recorder::seal`]; kind `Refused` when the record has ended, `Key` when the recorder's
    /// key is not its authority, `InvalidInput` for a key that seals already or was given up.
    pub fn delegate(&mut self, key: &PublicKey) -> Result<Option<Head>, Error> {
        self.check()?;
        if self.sealer.is_ended() {
            return Err(Error::refused(
                "the record has ended, and lets no key in any more",
            ));
        }
        if self.sealer.is_delegate(key) {
            return Ok(None);
        }
        if self.sealer.delegates() >= MAX_DELEGATES {
            let text =
                format!("a record lets at most {MAX_DELEGATES} keys in; continue in a new one");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let (stamp, turn) = (self.host.stamp()?, self.sealer.turn());
        self.sealer
            .delegate(stamp, key, &*self.keys.native, &mut self.lines)?;
        self.buffer_lines()?;
        self.seal_with(turn, false, Ext::default()).map(Some)
    }

    /// Drops the bodies of these commitments. A seal covers the redaction, and is durable and
    /// published before a body is removed. After a crash in between, the next writer that opens the
    /// record removes them.
    ///
    /// # Errors
    /// As [`Recorder::seal`]; kind `Refused` when the record's bodies are inline.
    pub fn redact(
        &mut self,
        commitments: Vec<Digest>,
        by: String,
        why: String,
    ) -> Result<Head, Error> {
        self.check()?;
        self.succeed()?;
        let (stamp, turn) = (self.host.stamp()?, self.sealer.turn());
        let ended = self.sealer.is_ended();
        let redaction = Redaction {
            commitments,
            key: signers(&self.keys, self.epoch.as_ref())
                .native
                .public_key()
                .key_id(),
            by,
            why,
        };
        self.sealer.redacted(stamp, &redaction, &mut self.lines)?;
        self.buffer_lines()?;
        let head = self.seal_with(turn, ended, Ext::default())?;
        self.drop_bodies(&redaction.commitments)?;
        Ok(head)
    }

    /// Drops bodies that no line of the record commits to. A tail that was set aside leaves such
    /// bodies, and so do lines that a crash kept from the disk. Returns their number. The record
    /// never names them.
    ///
    /// # Errors
    /// As [`Recorder::seal`].
    pub fn drop_unbound(&mut self) -> Result<u64, Error> {
        self.check()?;
        self.sync()?;
        self.drop_bodies(&[])
    }

    fn seal_with(&mut self, turn: u64, is_final: bool, ext: Ext) -> Result<Head, Error> {
        self.sync()?;
        let epoch = self.epoch.as_ref();
        let next = epoch.map_or(Ok(None), |epoch| {
            epoch.next(&self.host, &self.sealer, is_final)
        });
        let next = self.or_fail(next)?;
        let named = next.as_ref().map(|next| *next.public_key());
        let ext = Ext {
            next_key: named.or(ext.next_key),
            ..ext
        };
        // The lines before it are durable. If a key has ended, they stay without a seal.
        let _section = self.enter_seal()?;
        let stamp = self.host.stamp()?;
        let signers = signers(&self.keys, self.epoch.as_ref());
        let head = self
            .sealer
            .seal(stamp, turn, is_final, ext, signers, &mut self.lines)?;
        self.buffer_lines()?;
        self.sync()?;
        self.closed |= is_final;
        // The file is durable: a head lost with the power only leaves the file ahead of it.
        let durability = if is_final {
            Durability::Durable
        } else {
            Durability::Written
        };
        self.publish(durability)?;
        let passed = match &mut self.epoch {
            Some(epoch) => epoch.sealed(next, is_final),
            None => Ok(()),
        };
        self.or_fail(passed)?;
        Ok(head)
    }

    /// No key whose end would make the next seal a forgery ends until the section is dropped: the
    /// recorder's own, and the authority of a record that has not ended.
    fn enter_seal(&self) -> Result<SealSection, Error> {
        let own = self.keys.native.public_key();
        let authority = self.sealer.authority();
        match self.closed || own == authority {
            true => self.host.enter_seal(&[own]),
            false => self.host.enter_seal(&[own, authority]),
        }
    }

    fn publish(&mut self, durability: Durability) -> Result<(), Error> {
        let Some(head) = self.sealer.head().copied() else {
            return Ok(());
        };
        let path = self.log.path().to_owned();
        let stated = self.sealer.stated();
        let done = self.host.publish(&Published {
            head,
            root: stated.map(|(root, _)| root),
            salts: None,
            key: stated.map(|(_, key)| key),
            kind: RecordKind::Transcript,
            is_final: self.sealer.is_ended(),
            thread: Some(self.sealer.thread()),
            path: Some(&path),
            aliases: &self.aliases,
            durability,
        });
        self.or_fail(done)
    }

    /// The state of the record.
    pub fn state(&self) -> &Sealer {
        &self.sealer
    }

    /// The path of the record.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// Did a write fail, so that it gives no promise any more? An event that was refused alone, for
    /// example for its length, leaves the recorder as it was.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn buffer_lines(&mut self) -> Result<(), Error> {
        let done = self.log.append_buffered(&self.lines);
        self.lines.clear();
        self.or_fail(done)
    }

    fn write_lines(&mut self) -> Result<(), Error> {
        self.buffer_lines()?;
        self.sync()
    }

    /// Lets the recorder's own key seal after the end, where it took the place of the record's
    /// authority.
    fn succeed(&mut self) -> Result<(), Error> {
        for key_event in std::mem::take(&mut self.key_events) {
            let stamp = self.host.stamp()?;
            self.sealer.succeed(stamp, &key_event, &mut self.lines)?;
            self.buffer_lines()?;
        }
        Ok(())
    }

    fn drop_bodies(&mut self, commitments: &[Digest]) -> Result<u64, Error> {
        let dropped = match &mut self.bodies {
            Some(bodies) => bodies.drop_bodies(commitments),
            None => Ok(0),
        };
        self.or_fail(dropped)
    }

    fn detached(&self, payload: &Payload) -> Result<Option<Detached>, Error> {
        if self.bodies.is_none() {
            return Ok(None);
        }
        let salt = || random::array(&*self.host.random).map(BodySalt::from_bytes);
        detach(&self.sealer.manifest().record, payload, &mut { salt }).map(Some)
    }

    /// Bodies are written before the lines that commit to them.
    fn keep_bodies(&mut self, detached: Option<&Detached>) -> Result<(), Error> {
        let done = match (&mut self.bodies, detached) {
            (Some(bodies), Some(detached)) => bodies.append(&detached.entries),
            _ => Ok(()),
        };
        self.or_fail(done)
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(why) = &self.barred {
            return Err(why.clone());
        }
        if self.failed {
            let text = "an earlier write failed; open the record again to see what is there";
            return Err(Error::new(ErrorKind::External, text));
        }
        if self.held.is_some() {
            return Err(Error::refused("the record has a tail; adopt it first"));
        }
        Ok(())
    }

    fn or_fail<T>(&mut self, done: Result<T, Error>) -> Result<T, Error> {
        self.failed |= done.is_err();
        done
    }
}

#[cfg(test)]
mod tests;
