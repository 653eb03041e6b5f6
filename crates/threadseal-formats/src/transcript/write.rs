//! The native writer: lines in order, seals in O(new bytes).
//!
//! ```text
//! begin ─► manifest, seal 0          published together
//! event, seal, event, seal …         one running SHA-256, one Merkle frontier
//! terminal ─► final seal ─► link ─► final seal …
//! ```
//! Invariants: the writer never writes a line that the verifier would refuse. A state comes only
//! from [`Sealer::begin`] or from a verification that ended at a good seal. The returned bytes must
//! reach the file, in order, or the sealer must be dropped.
//!
//! Not here: files, locks, fsync, heads (`threadseal-store`); clock and randomness come in as
//! [`Stamp`].

use super::event::{self, EventType, Payload, Salt};
use super::ext::Ext;
use super::manifest::{self, Manifest};
use super::order::Order;
use super::payloads::{Delegation, NextKey, TailAdopted, TailDropped};
use super::seal::{self, Seal, SealFrame};
use super::sealing_keys::SealingKeys;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyId, Message, PublicKey, RyeFingerprint, Signer};
use threadseal_core::limits::{MAX_ADOPTED_TAILS, MAX_LINE_BYTES, MAX_RECORD_KEYS};
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::note::KeyName;
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::time::Timestamp;

/// Time and salt of one line, drawn by the caller.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Now.
    pub timestamp: Timestamp,
    /// 16 random bytes.
    pub salt: Salt,
}

/// The two keys that every checkpoint needs.
#[derive(Clone, Copy)]
pub struct Signers<'a> {
    /// Signs the note.
    pub native: &'a dyn Signer,
    /// Signs Rye's `hash`.
    pub rye: &'a dyn Signer,
}

/// How a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It completed its task.
    Completed,
    /// It failed.
    Error,
    /// A user or program stopped it.
    Cancelled,
    /// Another thread continues.
    Continued,
    /// It waits for a decision.
    Suspended,
}

impl Ending {
    fn event_type(self) -> &'static str {
        match self {
            Self::Completed => "thread_completed",
            Self::Error => "thread_error",
            Self::Cancelled => "thread_cancelled",
            Self::Continued => "thread_continued",
            Self::Suspended => "thread_suspended",
        }
    }
}

/// A link to a thread that continues from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A user resumed the thread.
    Resumed,
    /// The thread handed itself over.
    Handoff,
}

impl Link {
    fn event_type(self) -> &'static str {
        match self {
            Self::Resumed => "thread_resumed",
            Self::Handoff => "thread_handoff",
        }
    }
}

/// The state of a record at its end.
#[derive(Debug, Clone)]
pub struct Sealer {
    pub(super) thread: ThreadId,
    pub(super) manifest: Manifest,
    pub(super) origin: KeyName,
    pub(super) rye_fp: RyeFingerprint,
    pub(super) keys: SealingKeys,
    pub(super) leaves: Frontier,
    pub(super) prefix: Hasher,
    pub(super) size: u64,
    pub(super) head: Option<Head>,
    pub(super) turn: u64,
    pub(super) unsealed_lines: u64,
    pub(super) order: Order,
    /// The fencing token of the last seal, or of the continuing writer.
    pub(super) fence: Option<u64>,
    /// Root and key of the last seal that this writer made.
    pub(super) stated: Option<(Digest, KeyId)>,
    /// Commitments to bodies so far.
    pub(super) bodies: usize,
    /// Adopted tails so far.
    pub(super) adopted: usize,
}

impl Sealer {
    /// Begins a record: `out` gets line 1 and seal 0, which must enter the file together.
    ///
    /// # Errors
    /// Kind `InvalidInput` for a manifest that is no strict JSON, `Key` or `External` from the
    /// signers.
    pub fn begin(
        thread: ThreadId,
        manifest: Manifest,
        stamps: [Stamp; 2],
        signers: Signers<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, Error> {
        Self::begin_under(None, thread, manifest, stamps, signers, out)
    }

    /// As [`Sealer::begin`], under the lease with this fencing token, which each seal will contain.
    ///
    /// # Errors
    /// As [`Sealer::begin`].
    pub fn begin_under(
        fence: Option<u64>,
        thread: ThreadId,
        manifest: Manifest,
        stamps: [Stamp; 2],
        signers: Signers<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, Error> {
        let mut line = Vec::new();
        let payload = manifest.to_payload()?;
        let [first, second] = stamps;
        event::write_frame(
            &mut line,
            first.timestamp,
            &thread,
            "thread_started",
            first.salt,
        );
        line.extend_from_slice(payload.as_bytes());
        line.push(b'}');
        if manifest::parse_line(&line).as_ref() != Some(&manifest) {
            return Err(Error::invalid(
                "a verifier could not read this manifest back",
            ));
        }
        let origin =
            KeyName::parse(&manifest::origin(&line)).map_err(|e| Error::invalid(e.to_string()))?;
        let keys = SealingKeys::of(&manifest);
        let manifest_fp = manifest.rye_key.rye_fingerprint();
        let mut sealer = Self {
            thread,
            manifest,
            origin,
            rye_fp: manifest_fp,
            keys,
            leaves: Frontier::new(),
            prefix: Hasher::new(),
            size: 0,
            head: None,
            turn: 0,
            unsealed_lines: 0,
            order: Order::default(),
            fence,
            stated: None,
            bodies: 0,
            adopted: 0,
        };
        sealer.take_line(&line, out);
        sealer.seal(second, 0, false, Ext::default(), signers, out)?;
        Ok(sealer)
    }

    /// The content of line 1.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The thread.
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// The last seal.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The root and the key of the last seal that this writer made; None before its first.
    pub fn stated(&self) -> Option<(Digest, KeyId)> {
        self.stated
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Lines written so far, seals included.
    pub fn lines(&self) -> u64 {
        self.leaves.size()
    }

    /// Turn of the last seal.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Lines that no seal covers yet.
    pub fn unsealed_lines(&self) -> u64 {
        self.unsealed_lines
    }

    /// The fencing token that its next seal will contain.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// Continues under a lease with this fencing token: no later seal may have a lower one.
    ///
    /// # Errors
    /// Kind `Refused` when a later holder has sealed the record already.
    pub fn raise_fence(&mut self, token: u64) -> Result<(), Error> {
        if let Some(sealed) = self.fence.filter(|sealed| *sealed > token) {
            let text = format!(
                "fencing token {token} is lower than {sealed}, which the record has: another writer owns the record"
            );
            return Err(Error::refused(text));
        }
        self.fence = Some(token);
        Ok(())
    }

    /// The key that must make the next seal, apart from delegates and the authority.
    pub fn current_key(&self) -> Option<&PublicKey> {
        self.keys.current()
    }

    /// The number of keys that the record has given up; it may have at most [`MAX_RECORD_KEYS`]
    /// keys in all.
    pub fn keys_given_up(&self) -> usize {
        self.keys.given_up()
    }

    /// Did a final seal end the record?
    pub fn is_ended(&self) -> bool {
        self.order.has_ended()
    }

    /// Appends an event of a caller: hook, tool, model, runner.
    ///
    /// # Errors
    /// Kind `Refused` for a reserved type and after the end; `Limit` for a line beyond
    /// [`MAX_LINE_BYTES`].
    pub fn event(
        &mut self,
        stamp: Stamp,
        event_type: &EventType,
        payload: &Payload,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if event_type.is_reserved() {
            let text = format!(
                "event type {:?} is reserved for the recorder",
                event_type.as_str()
            );
            return Err(Error::refused(text));
        }
        self.append(stamp, event_type.as_str(), payload.as_bytes(), out)
    }

    /// Appends the event that ends the thread; a final seal must follow.
    ///
    /// # Errors
    /// As [`Sealer::event`].
    pub fn end(
        &mut self,
        stamp: Stamp,
        ending: Ending,
        payload: &Payload,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.append(stamp, ending.event_type(), payload.as_bytes(), out)
    }

    /// Appends a link to a continuing thread; allowed after the end, a final seal must follow.
    ///
    /// # Errors
    /// As [`Sealer::event`].
    pub fn link(
        &mut self,
        stamp: Stamp,
        link: Link,
        payload: &Payload,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.append(stamp, link.event_type(), payload.as_bytes(), out)
    }

    /// Announces `next` as the key after the current one. It may seal once a seal of the current
    /// key covers this event.
    ///
    /// # Errors
    /// As [`Sealer::event`].
    pub fn announce_key(
        &mut self,
        stamp: Stamp,
        next: &PublicKey,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let payload = NextKey(*next).to_string();
        self.append(stamp, "key", payload.as_bytes(), out)?;
        self.keys
            .announce(payload.as_bytes())
            .map_err(Error::invalid)
    }

    /// Lets `key` seal beside the current one, by a signed statement of the record's authority.
    ///
    /// # Errors
    /// As [`Sealer::event`]; kind `Key` when `authority` is not the record's authority.
    /// `InvalidInput` for a key that seals already or that the record gave up.
    pub fn delegate(
        &mut self,
        stamp: Stamp,
        key: &PublicKey,
        authority: &dyn Signer,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if *authority.public_key() != self.manifest.authority {
            return Err(Error::key(
                "only the record's authority can delegate; hint: use its key",
            ));
        }
        if key == authority.public_key() || self.keys.current() == Some(key) {
            return Err(Error::invalid(
                "the key already seals this record, and needs no delegation",
            ));
        }
        let signature = authority.sign(&manifest::delegation_message(&self.origin, key))?;
        let key = *key;
        let payload = Delegation { key, signature }.to_string();
        self.keys
            .delegate(payload.as_bytes(), &self.manifest, &self.origin)
            .map_err(Error::invalid)?;
        self.append(stamp, "delegation", payload.as_bytes(), out)
    }

    /// Records that `dropped`, the bytes found after the last seal, were set aside.
    ///
    /// # Errors
    /// As [`Sealer::event`].
    pub fn tail_dropped(
        &mut self,
        stamp: Stamp,
        length: u64,
        sha256: &Digest,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let payload = TailDropped {
            offset: self.size,
            length,
            sha256: *sha256,
        }
        .to_string();
        self.recorder_event(stamp, "tail_dropped", payload.as_bytes(), out)
    }

    /// Keeps `tail`, the bytes found after the last seal, marked as unverified for ever. A torn
    /// last line is ended with LF first: `out` then begins with that LF.
    ///
    /// # Errors
    /// As [`Sealer::event`]; kind `Refused` when lines were written since the last seal, `Limit` for
    /// a line beyond [`MAX_LINE_BYTES`] and a tail beyond [`MAX_ADOPTED_TAILS`].
    pub fn tail_adopted(
        &mut self,
        stamp: Stamp,
        tail: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.unsealed_lines > 0 {
            return Err(Error::refused(
                "a tail can only be adopted directly after the record is opened",
            ));
        }
        if self.adopted >= MAX_ADOPTED_TAILS {
            let text = format!(
                "a record adopts at most {MAX_ADOPTED_TAILS} tails; hint: begin a new one that links to it"
            );
            return Err(Error::new(threadseal_core::error::ErrorKind::Limit, text));
        }
        let from = self.size;
        let kept = tail.strip_suffix(b"\n").unwrap_or(tail);
        let lines = kept.split(|b| *b == b'\n');
        if lines.clone().any(|line| line.len() >= MAX_LINE_BYTES) {
            let text = format!("a line of the tail has more than {MAX_LINE_BYTES} bytes");
            return Err(Error::new(threadseal_core::error::ErrorKind::Limit, text));
        }
        lines.for_each(|line| self.count_line(line));
        if !tail.ends_with(b"\n") {
            out.push(b'\n');
        }
        let payload = TailAdopted {
            from,
            to: self.size,
            lines: self.unsealed_lines,
            sha256: Digest::of(tail),
        }
        .to_string();
        self.recorder_event(stamp, "tail_adopted", payload.as_bytes(), out)?;
        self.adopted += 1;
        Ok(())
    }

    /// Appends a checkpoint over everything so far.
    ///
    /// # Errors
    /// Kind `Refused` when `is_final` does not follow an ending or link, a plain seal follows the
    /// end, or `turn` falls. Kind `Key` when a signer may not seal this record, or may not name the
    /// next key.
    pub fn seal(
        &mut self,
        stamp: Stamp,
        turn: u64,
        is_final: bool,
        ext: Ext,
        signers: Signers<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Head, Error> {
        self.check_seal(turn, is_final, signers)?;
        if let Some(next) = &ext.next_key {
            let named = self.keys.check_named(signers.native.public_key(), next);
            named.map_err(Error::key)?;
        }
        if let Some(token) = ext.fence {
            self.raise_fence(token)?;
        }
        let ext = Ext {
            fence: self.fence,
            ..ext
        };
        if ext.next_key.is_some() && self.keys.count() >= MAX_RECORD_KEYS {
            let text = format!("a record has at most {MAX_RECORD_KEYS} keys");
            return Err(Error::new(threadseal_core::error::ErrorKind::Limit, text));
        }
        let hash = self.prefix.digest_so_far();
        let seal = Seal {
            turn,
            byte_offset: self.size,
            hash,
            sig: signers.rye.sign(&Message::rye_hash(&hash))?,
            fp: self.rye_fp,
            seq: self.head.map_or(0, |head| head.seq + 1),
            lines: self.leaves.size(),
            root: self.leaves.root(),
            prev: self.head.map(|head| head.line),
            is_final,
            time: stamp.timestamp,
            key: signers.native.public_key().key_id(),
            ext,
        };
        let frame = SealFrame {
            thread: &self.thread,
            salt: stamp.salt,
            origin: &self.origin,
        };
        let line = seal::write(&frame, &seal, signers.native)?;
        self.take_line(&line, out);
        let head = Head {
            record: self.manifest.record,
            seq: seal.seq,
            size: self.size,
            line: Digest::of(&line),
        };
        self.keys
            .sealed(signers.native.public_key(), seal.ext.next_key.as_ref());
        if is_final {
            self.keys.ended();
        }
        self.head = Some(head);
        self.stated = Some((seal.root, seal.key));
        self.turn = turn;
        self.unsealed_lines = 0;
        self.order = Order::after_seal(is_final);
        Ok(head)
    }

    fn check_seal(&self, turn: u64, is_final: bool, signers: Signers<'_>) -> Result<(), Error> {
        if !self.order.allows_seal(is_final) {
            return Err(Error::refused(match is_final {
                true => "a final seal must follow the end of the thread or a link",
                false => "the thread has ended; only a final seal may follow",
            }));
        }
        if turn < self.turn {
            let text = format!("turn {turn} is before turn {} of the last seal", self.turn);
            return Err(Error::refused(text));
        }
        self.check_signers(signers)
    }

    /// May these keys make the next seal? A writer checks this before it writes a line that only
    /// they could seal.
    ///
    /// # Errors
    /// Kind `Key` when one of them may not.
    pub fn check_signers(&self, signers: Signers<'_>) -> Result<(), Error> {
        if self
            .keys
            .find(&signers.native.public_key().key_id())
            .is_none()
        {
            return Err(Error::key(
                "this key may not seal the record; hint: ask its authority to delegate",
            ));
        }
        if *signers.rye.public_key() != self.manifest.rye_key {
            return Err(Error::key(
                "the Rye key is not the one that the record's manifest names and every checkpoint needs; hint: bring it here with \
                 threadseal key export and key import",
            ));
        }
        Ok(())
    }

    /// A recorder's own event, which recovery may write after the end as well.
    pub(super) fn recorder_event(
        &mut self,
        stamp: Stamp,
        event_type: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.keys.forget_announced();
        self.append(stamp, event_type, payload, out)
    }

    pub(super) fn append(
        &mut self,
        stamp: Stamp,
        event_type: &str,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut order = self.order;
        if !order.event(event_type) {
            return Err(Error::refused(match order.has_ended() {
                true => "the record has ended; hint: begin a new one that links to it",
                false => "the thread has ended; only a final seal may follow",
            }));
        }
        self.count_bodies(event_type, payload)?;
        let start = out.len();
        event::write_frame(out, stamp.timestamp, &self.thread, event_type, stamp.salt);
        out.extend_from_slice(payload);
        out.push(b'}');
        if out.len() - start > MAX_LINE_BYTES {
            out.truncate(start);
            let text = format!(
                "an event line has at most {MAX_LINE_BYTES} bytes; hint: store the body apart"
            );
            return Err(Error::new(threadseal_core::error::ErrorKind::Limit, text));
        }
        self.count_line(&out[start..]);
        out.push(b'\n');
        self.order = order;
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        self.count_line(line);
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    /// Takes lines that another writer wrote, for tests of odd records.
    #[cfg(test)]
    pub(super) fn count_lines(&mut self, lines: &str) {
        lines
            .lines()
            .for_each(|line| self.count_line(line.as_bytes()));
    }

    fn count_line(&mut self, line: &[u8]) {
        self.leaves.push_leaf(leaf_hash(line));
        self.prefix.update(line);
        self.prefix.update(b"\n");
        self.size += line.len() as u64 + 1;
        self.unsealed_lines += 1;
    }
}
