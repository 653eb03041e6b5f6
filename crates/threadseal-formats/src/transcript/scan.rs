//! The first of the two halves of native verification: lines, Merkle tree, seals.
//!
//! ```text
//! bytes ─┬─► Scanner       lines, JSON, leaves, every number of every seal ─► Scan
//!        │      └ points: where prefix digests are needed, and their values
//!        └─► PrefixHasher  one running SHA-256 over all bytes              ─► (prefix)
//! ```
//! The halves share nothing but the points, so that a caller may run them on two cores, chunk by
//! chunk. [`super::verify`] joins their results. Both use constant memory: one line, one Merkle
//! frontier, one note for each key.
//!
//! Invariants: a line is judged only once. After the first failure no later line is trusted. All
//! bytes after the last good seal are kept separate as the tail.

use super::bodies::{self, Bodies, watch::Watch};
use super::event::{self, Frame, LineFault};
use super::manifest::{self, Manifest};
use super::order::Order;
use super::payloads::{TailAdopted, TailDigest, TailDropped};
use super::sealing_keys::SealingKeys;
use super::statement::LineNote;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::key::{Message, PublicKey, RyeFingerprint, Signature};
use threadseal_core::limits::{MAX_ADOPTED_TAILS, MAX_FINDINGS, MAX_LINE_BYTES, MAX_RECORD_KEYS};
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::note::KeyName;
use threadseal_core::record::Head;
use threadseal_core::report::heads::HeadMatch;
use threadseal_core::report::{Expectation, Finding, FindingCode, TrustedUntil, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::LastOf;

/// A place where the digest of all bytes before it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixPoint {
    /// Bytes before the place.
    pub offset: u64,
    /// The reason.
    pub kind: PointKind,
}

/// Why a prefix digest matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointKind {
    /// A line begins here whose end is not yet seen: a claim may follow.
    LineStart,
    /// Seal `seq` claims this digest.
    Claim {
        /// The digest in the seal.
        hash: Digest,
        /// Its number.
        seq: u64,
    },
    /// A good seal ends here: the digest of all bytes up to its end.
    Sealed,
}

/// A good seal, as the rest of verification needs it.
#[derive(Debug, Clone)]
pub(crate) struct GoodSeal {
    pub(crate) head: Head,
    pub(crate) line: u64,
    pub(crate) turn: u64,
    pub(crate) is_final: bool,
    pub(crate) fence: Option<u64>,
    pub(crate) time: Timestamp,
}

impl GoodSeal {
    pub(crate) fn trusted_until(&self) -> TrustedUntil {
        TrustedUntil {
            line: self.line,
            byte: self.head.size,
            turn: Some(self.turn),
        }
    }
}

/// A signature that is still to be checked: the last of its key, covering all before it.
pub(crate) struct PendingSignature {
    pub(crate) key: PublicKey,
    pub(crate) signed: Signed,
    pub(crate) line: u64,
    pub(crate) turn: u64,
}

/// The signed bytes.
pub(crate) enum Signed {
    /// The note, by a sealing key.
    Note(LineNote),
    /// The text of the prefix digest, by the record's Rye key.
    Rye(Digest, Signature),
}

impl PendingSignature {
    pub(crate) fn holds(&self) -> bool {
        match &self.signed {
            Signed::Note(note) => note.holds(&self.key),
            Signed::Rye(hash, signature) => {
                self.key.verify(&Message::rye_hash(hash), signature).is_ok()
            }
        }
    }

    pub(crate) fn code(&self) -> FindingCode {
        match self.signed {
            Signed::Note(_) => FindingCode::SignatureBad,
            Signed::Rye(..) => FindingCode::RyeSignatureBad,
        }
    }
}

/// The first evidence against the record.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) verdict: Verdict,
    pub(crate) findings: Vec<Finding>,
}

/// The result of the scan.
pub(crate) struct Scan {
    pub(crate) manifest: Option<Manifest>,
    /// The thread id as every line spells it, quotes included.
    pub(crate) thread_text: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) checkpoints: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) last: Option<GoodSeal>,
    pub(crate) pending: Vec<PendingSignature>,
    /// Every key that sealed, in order of its first seal, with its last one.
    pub(crate) sealers: Vec<LastOf>,
    pub(crate) tail_lines: u64,
    pub(crate) tail_fault: Option<Finding>,
    pub(crate) torn: bool,
    /// Tails that the recorder adopted or dropped, as lines under the last good seal state it. What
    /// was adopted is kept to its end: no line of it may ever count as sealed.
    pub(crate) adopted: Vec<[u64; 2]>,
    /// Whether any line states that, sealed or not: only a closer look checks the digest of a tail.
    pub(crate) adopts: bool,
    pub(crate) dropped: Vec<Finding>,
    /// How many of each there were then; those since are no more than a tail.
    pub(super) sealed_recoveries: (usize, usize),
    /// Commitments to bodies, and redactions.
    pub(super) watch: Watch,
    /// Keys that the authority admitted beside the current one, with their lines: those under the
    /// last good seal, then those since.
    pub(crate) delegated: Vec<(PublicKey, u64)>,
    pub(super) delegated_since: Vec<(PublicKey, u64)>,
    /// Number of the first seal over all statements of the authority about delegates.
    pub(crate) last_word: u64,
    /// Keys that replaced the authority, under the last good seal.
    pub(crate) heirs: Vec<PublicKey>,
    /// For each expectation: was its seal met, and did a seal of its number differ?
    pub(crate) met: Vec<HeadMatch>,
}

/// Options of a scan.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// The closer look: check every signature as it comes, not only the last of each key, and the
    /// digests of adopted tails.
    pub every_signature: bool,
    /// Heads that the record must contain.
    pub expect: Vec<Expectation>,
    /// The content of its file of bodies, for a record with detached bodies; None where it was not
    /// read.
    pub bodies: Option<Arc<Bodies>>,
}

/// The line half of verification. Push the file in order, then let [`super::verify`] conclude.
pub struct Scanner {
    pub(super) options: ScanOptions,
    carry: Vec<u8>,
    /// Bytes of the line that has begun, kept or not.
    carried: usize,
    offset: u64,
    /// Lines may be known by their leaf alone.
    is_copy: bool,
    pub(super) chain: Chain,
    pub(super) out: Scan,
}

/// The state from one seal to the next.
pub(super) struct Chain {
    pub(super) leaves: Frontier,
    pub(super) origin: Option<KeyName>,
    pub(super) rye_fp: Option<RyeFingerprint>,
    pub(super) keys: SealingKeys,
    /// Those under the last good seal: a recovering writer begins again from them.
    pub(super) keys_at_seal: SealingKeys,
    pub(super) prev: Option<Digest>,
    pub(super) next_seq: u64,
    pub(super) order: Order,
    /// The lines since the last seal, where the closer look needs their digest.
    pub(super) tail: Option<TailDigest>,
    /// First line since the last seal that no seal may cover.
    pub(super) fault: Option<Finding>,
}

/// What is wrong with an event behind the end.
const AFTER_END: &str = "an event follows the end of the thread";

/// The position of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Place {
    pub(super) fn error(self, code: FindingCode, message: impl Into<String>) -> Finding {
        Finding::error(code, message)
            .at_line(self.line)
            .at_bytes(self.start, self.end)
    }
}

impl Scanner {
    /// A scanner at the beginning of a file.
    pub fn new(options: ScanOptions) -> Self {
        let met = vec![HeadMatch::NotYet; options.expect.len()];
        let chain = Chain {
            leaves: Frontier::new(),
            origin: None,
            rye_fp: None,
            keys: SealingKeys::default(),
            keys_at_seal: SealingKeys::default(),
            prev: None,
            next_seq: 0,
            order: Order::default(),
            tail: None,
            fault: None,
        };
        let out = Scan {
            manifest: None,
            thread_text: Vec::new(),
            bytes: 0,
            lines: 0,
            checkpoints: 0,
            failure: None,
            last: None,
            pending: Vec::new(),
            sealers: Vec::new(),
            tail_lines: 0,
            tail_fault: None,
            torn: false,
            adopted: Vec::new(),
            adopts: false,
            dropped: Vec::new(),
            sealed_recoveries: (0, 0),
            watch: Watch::default(),
            delegated: Vec::new(),
            delegated_since: Vec::new(),
            last_word: 0,
            heirs: Vec::new(),
            met,
        };
        Self {
            options,
            carry: Vec::new(),
            carried: 0,
            offset: 0,
            is_copy: false,
            chain,
            out,
        }
    }

    /// A scanner of a copy with lines left out: every signature is checked, and no digest of more
    /// than one line.
    pub(super) fn of_copy() -> Self {
        let mut scanner = Self::new(ScanOptions {
            every_signature: true,
            ..ScanOptions::default()
        });
        scanner.is_copy = true;
        scanner
    }

    /// Takes the next bytes; returns the places whose prefix digest matters, in order of offset.
    /// Each is in these bytes, or is the place without a claim at the end of the last call.
    pub fn push(&mut self, mut chunk: &[u8]) -> Vec<PrefixPoint> {
        let mut points = Vec::new();
        while let Some(length) = memchr::memchr(b'\n', chunk) {
            let head = &chunk[..length];
            let start = self.offset - self.carried as u64;
            self.offset += length as u64 + 1;
            let place = Place {
                line: self.out.lines + 1,
                start,
                end: self.offset,
            };
            if self.carried == 0 {
                self.line(head, place, &mut points);
            } else {
                self.keep(head);
                let line = std::mem::take(&mut self.carry);
                self.line(&line, place, &mut points);
                // The buffer is reused, so that lines across chunks do not allocate each time.
                self.carry = line;
                self.carry.clear();
            }
            self.carried = 0;
            chunk = &chunk[length + 1..];
        }
        if !chunk.is_empty() {
            if self.carried == 0 {
                points.push(PrefixPoint {
                    offset: self.offset,
                    kind: PointKind::LineStart,
                });
            }
            self.keep(chunk);
            self.offset += chunk.len() as u64;
        }
        points
    }

    /// Takes a line of which only its leaf and its length are known; the lines around it are whole.
    pub(super) fn push_stub(&mut self, leaf: Digest, bytes: u64) {
        let start = self.offset;
        self.offset += bytes + 1;
        self.out.lines += 1;
        // No writer leaves out a line that may follow an end.
        if !self.chain.order.event("") {
            let place = Place {
                line: self.out.lines,
                start,
                end: self.offset,
            };
            self.fault(|| place.error(FindingCode::EventAfterEnd, AFTER_END));
        }
        self.out.watch.line_left_out();
        if self.out.failure.is_none() {
            self.out.tail_lines += 1;
            self.chain.leaves.push_leaf(leaf);
        }
    }

    /// Keeps a piece of a line that began in an earlier chunk, or ends in a later one.
    fn keep(&mut self, bytes: &[u8]) {
        self.carried += bytes.len();
        if self.carried <= MAX_LINE_BYTES {
            self.carry.extend_from_slice(bytes);
        } else {
            self.carry = Vec::new();
        }
    }

    fn line(&mut self, line: &[u8], place: Place, points: &mut Vec<PrefixPoint>) {
        self.out.lines = place.line;
        if self.out.failure.is_some() {
            return;
        }
        let checked = if place.end - place.start > MAX_LINE_BYTES as u64 {
            Err(LineFault::TooLong)
        } else {
            event::check_line(line)
        };
        // The id of line 1 is native, so only another one needs to be looked at.
        let is_native = |frame: &Frame<'_>| {
            frame.thread_id == self.out.thread_text || event::is_native_id(frame.thread_id)
        };
        let checked = checked.and_then(|frame| match place.line == 1 || is_native(&frame) {
            true => Ok(frame),
            false => Err(LineFault::Frame),
        });
        match checked {
            _ if place.line == 1 => self.first_line(line, place, checked.ok()),
            Ok(frame) => self.event(line, &frame, place, points),
            Err(fault) => {
                self.out.tail_lines += 1;
                self.fault(|| place.error(FindingCode::LineMalformed, fault.message()));
            }
        }
        if self.options.every_signature && self.out.tail_lines > 0 {
            let tail = self.chain.tail.get_or_insert_with(TailDigest::default);
            tail.push(line);
        }
        self.chain.leaves.push_leaf(leaf_hash(line));
    }

    fn first_line(&mut self, line: &[u8], place: Place, frame: Option<Frame<'_>>) {
        let started = frame.filter(|frame| frame.event_type == "thread_started");
        let started = started.filter(|frame| event::is_native_id(frame.thread_id));
        let manifest = started
            .as_ref()
            .and_then(|frame| Manifest::parse(frame.payload));
        let (Some(frame), Some(manifest)) = (started, manifest) else {
            let text = "line 1 is not the manifest that a native transcript begins with";
            return self.fail(
                Verdict::Tampered,
                place.error(FindingCode::ManifestMissing, text),
            );
        };
        self.out.thread_text = frame.thread_id.to_vec();
        if !manifest.lets_first_key_in(frame.thread_id) {
            let text = "the authority did not delegate to the first signing key";
            self.fail(
                Verdict::Forged,
                place.error(FindingCode::DelegationBad, text),
            );
        }
        self.chain.origin = KeyName::parse(&manifest::origin(line)).ok();
        self.chain.rye_fp = Some(manifest.rye_key.rye_fingerprint());
        self.chain.keys = SealingKeys::of(&manifest);
        self.chain.keys_at_seal = self.chain.keys.clone();
        if manifest.bodies == manifest::Bodies::Detached {
            self.out.watch.begin();
        }
        self.out.manifest = Some(manifest);
    }

    fn event(
        &mut self,
        line: &[u8],
        frame: &Frame<'_>,
        place: Place,
        points: &mut Vec<PrefixPoint>,
    ) {
        if frame.thread_id != self.out.thread_text {
            let text = "the line names another thread than line 1";
            self.fault(|| place.error(FindingCode::ThreadIdChanged, text));
        }
        if frame.event_type == "checkpoint" {
            self.out.checkpoints += 1;
            return self.checkpoint(line, frame, place, points);
        }
        if self.out.last.is_none() {
            let text = "line 2 is not the first seal: every native record begins with one";
            return self.fail(
                Verdict::Tampered,
                place.error(FindingCode::Seal0Missing, text),
            );
        }
        if !self.chain.order.event(frame.event_type) {
            self.fault(|| place.error(FindingCode::EventAfterEnd, AFTER_END));
        }
        self.out.tail_lines += 1;
        let understood = match frame.event_type {
            "thread_started" => Err("a second manifest".to_owned()),
            "key" => self.chain.keys.announce(frame.payload),
            "delegation" => self.delegation(frame.payload, place),
            "authority" => self.succession(frame.payload),
            "tail_adopted" => self.tail_adopted(frame.payload, place),
            "tail_dropped" => self.tail_dropped(frame.payload, place),
            "redacted" => {
                let watch = &mut self.out.watch;
                watch.redacted(frame.payload, frame.timestamp, place.line)
            }
            kind if bodies::may_hold(kind) => self.bodies(frame.payload, place),
            _ => Ok(()),
        };
        if let Err(why) = understood {
            self.fault(|| place.error(FindingCode::EventMalformed, why));
        }
    }

    fn bodies(&mut self, payload: &[u8], place: Place) -> Result<(), String> {
        match self.out.watch.event(payload, place.line) {
            Ok(understood) => understood,
            Err(bodies::watch::TooMany) => {
                let text = "more commitments to bodies than a record may have";
                self.fail(
                    Verdict::Malformed,
                    place.error(FindingCode::TooManyBodies, text),
                );
                Ok(())
            }
        }
    }

    fn delegation(&mut self, payload: &[u8], place: Place) -> Result<(), String> {
        let manifest = self.out.manifest.as_ref().ok_or("no manifest")?;
        let origin = self.chain.origin.as_ref().ok_or("no manifest")?;
        let key = self.chain.keys.delegate(payload, manifest, origin)?;
        if self.out.delegated.len() + self.out.delegated_since.len() < MAX_RECORD_KEYS {
            self.out.delegated_since.push((key, place.line));
        }
        Ok(())
    }

    fn succession(&mut self, payload: &[u8]) -> Result<(), String> {
        if !self.chain.order.has_ended() {
            return Err("a key replaces the authority of a record that has not ended".to_owned());
        }
        let manifest = self.out.manifest.as_ref().ok_or("no manifest")?;
        self.chain.keys.succeed(payload, manifest)
    }

    fn tail_adopted(&mut self, payload: &[u8], place: Place) -> Result<(), String> {
        let TailAdopted {
            from,
            to,
            lines,
            sha256,
        } = TailAdopted::parse(payload)
            .ok_or("the payload does not have the form of this event")?;
        let after_seal = self.out.last.as_ref().map_or(0, |seal| seal.head.size);
        let adopted = self.out.tail_lines - 1;
        if (from, to, lines) != (after_seal, place.start, adopted) {
            return Err(
                "the adopted tail is not the bytes between the last seal and this line".into(),
            );
        }
        // A tail of no line has the digest of no bytes.
        let tail = self.chain.tail.clone().unwrap_or_default();
        if self.options.every_signature && !self.is_copy && !tail.fits(&sha256) {
            return Err("the adopted tail has another digest than the event states".into());
        }
        if self.out.sealed_recoveries.0 >= MAX_ADOPTED_TAILS {
            return Err(format!(
                "the record adopts more than {MAX_ADOPTED_TAILS} tails"
            ));
        }
        // The adopted bytes stay unread. The verdict reports this, so sealing them is no fault.
        self.chain.fault = None;
        self.speak_for_nobody();
        let after_line = self.out.last.as_ref().map_or(0, |seal| seal.line);
        self.out.watch.adopted(after_line);
        self.out.adopts = true;
        let (sealed, _) = self.out.sealed_recoveries;
        // A second event about one tail names all that the first one did.
        self.out.adopted.truncate(sealed);
        self.out.adopted.push([from, to]);
        Ok(())
    }

    fn tail_dropped(&mut self, payload: &[u8], place: Place) -> Result<(), String> {
        let TailDropped { offset, length, .. } = TailDropped::parse(payload)
            .ok_or("the payload does not have the form of this event")?;
        self.speak_for_nobody();
        if offset != place.start {
            return Err("the dropped tail did not begin at this line".into());
        }
        if self.out.dropped.len() <= MAX_FINDINGS {
            let text = format!("the recorder set {length} unsealed bytes aside here");
            self.out
                .dropped
                .push(Finding::note(FindingCode::TailDropped, text).at_line(place.line));
        }
        Ok(())
    }

    /// Ignores the tail's statements about keys: a recorder that adopts the tail does not vouch for
    /// its writer. It repeats the necessary statements.
    fn speak_for_nobody(&mut self) {
        self.chain.keys.clone_from(&self.chain.keys_at_seal);
        self.out.delegated_since.clear();
    }

    /// Remembers the first line since the last seal that no seal may cover: only its text is made.
    fn fault(&mut self, finding: impl FnOnce() -> Finding) {
        self.chain.fault.get_or_insert_with(finding);
    }

    pub(super) fn fail(&mut self, verdict: Verdict, finding: Finding) {
        let findings = vec![finding];
        self.out
            .failure
            .get_or_insert(Failure { verdict, findings });
    }

    pub(crate) fn finish(mut self) -> Scan {
        let (adopted, dropped) = self.out.sealed_recoveries;
        self.out.adopted.truncate(adopted);
        self.out.dropped.truncate(dropped);
        self.out.bytes = self.offset;
        self.out.torn = self.carried > 0;
        if self.out.last.is_none() && self.out.failure.is_none() {
            let text = "the record has no seal: every native record begins with one";
            self.fail(
                Verdict::Tampered,
                Finding::error(FindingCode::Seal0Missing, text),
            );
        }
        self.out.tail_fault = self.chain.fault.take();
        self.out
    }
}
