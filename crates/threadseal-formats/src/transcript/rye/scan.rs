//! One pass over the lines of a Rye transcript, in constant memory.
//!
//! ```text
//! line ─► event        counted; the next seal, or the end, shows whether a fault is sealed
//!      ─► checkpoint   frame, place, prefix digest, turn, signer ─► a seal, or a finding
//! ```
//! A fault before a good seal is sealed. The signer's text was not a transcript, and two readers
//! would disagree on it. A fault after the last seal belongs to the tail.
//!
//! The turn of a checkpoint has no signature of its own. It must not fall, and not exceed the turns
//! in the lines before. Rye counts a turn after its `cognition_in` (`runner.py`), and a graph its
//! steps (`walker.py`). So the turn never exceeds the number of `cognition_in` or `step_started`
//! lines, or the highest step.

use super::checkpoint::{Checkpoint, Malformed, odd_byte};
use super::line::{self, Event, Fault, Kind, Oddity};
use super::lines::{Part, Piece};
use super::signers::{Seal, Signed, Signers};
use std::borrow::Cow;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::limits::MAX_FINDINGS;
use threadseal_core::record::{ExpectedHead, RecordId};
use threadseal_core::report::heads::{HeadMatch, Seal as SealAt};
use threadseal_core::report::{Finding, FindingCode, Verdict};

/// All facts from one pass.
pub(super) struct Scan<'t> {
    pub(super) signers: Signers<'t>,
    /// Evidence, with its effect on the verdict.
    pub(super) findings: Vec<(Verdict, Finding)>,
    /// Findings without effect on the verdict.
    pub(super) remarks: Vec<Finding>,
    /// Faults since the last seal.
    pub(super) waiting: Vec<Finding>,
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) checkpoints: u64,
    pub(super) last: Option<(Seal, Checkpoint)>,
    /// Where the last checkpoint's line has a byte that no writer puts there.
    pub(super) odd: Option<u64>,
    /// Do lines end with CR LF, as the first one does?
    ends_with_cr: bool,
    pub(super) seals: u64,
    /// Digest of all bytes up to the last seal's LF.
    pub(super) sealed: Option<Digest>,
    pub(super) record: Option<RecordId>,
    /// The thread that the first line names.
    pub(super) thread: Option<String>,
    pub(super) torn: bool,
    /// The torn line is a checkpoint that fits and lacks only its LF.
    pub(super) torn_checkpoint: bool,
    /// Checkpoints after the first that does not hold, which therefore cannot hold either.
    pub(super) also_broken: u64,
    /// The result for each expected head.
    pub(super) expected: Vec<(ExpectedHead, HeadMatch)>,
    prefix: Hasher,
    content_changed: bool,
    turns: u64,
    steps: u64,
    highest_step: u64,
}

impl<'t> Scan<'t> {
    pub(super) fn new(signers: Signers<'t>, expected: Vec<ExpectedHead>) -> Self {
        Self {
            signers,
            findings: Vec::new(),
            remarks: Vec::new(),
            waiting: Vec::new(),
            bytes: 0,
            lines: 0,
            checkpoints: 0,
            last: None,
            odd: None,
            ends_with_cr: false,
            seals: 0,
            sealed: None,
            record: None,
            thread: None,
            torn: false,
            torn_checkpoint: false,
            also_broken: 0,
            expected: expected
                .into_iter()
                .map(|head| (head, HeadMatch::NotYet))
                .collect(),
            prefix: Hasher::new(),
            content_changed: false,
            turns: 0,
            steps: 0,
            highest_step: 0,
        }
    }

    /// Takes the next line, or part of one.
    pub(super) fn piece(&mut self, piece: &Piece<'_>) {
        match piece.part {
            Part::Whole if piece.is_terminated() => self.line(piece),
            Part::Whole => self.torn_line(piece),
            Part::First => self.fault(Fault::TooLong, piece),
            Part::Middle => {}
            Part::Last => self.torn = !piece.is_terminated(),
        }
        if piece.is_terminated() {
            self.lines += 1;
        }
        self.prefix.update(piece.bytes);
        self.bytes = piece.end();
        if self
            .last
            .as_ref()
            .is_some_and(|(seal, _)| seal.end == self.bytes)
        {
            self.sealed = Some(self.prefix.digest_so_far());
        }
    }

    fn line(&mut self, piece: &Piece<'_>) {
        if self.lines == 0 {
            self.record = Some(record_id(piece.content()));
            self.ends_with_cr = piece.content().ends_with(b"\r");
        }
        match line::read(piece.content()) {
            Err(fault) => self.fault(fault, piece),
            Ok(Event {
                kind: Kind::Checkpoint,
                thread,
                ..
            }) => self.checkpoint(piece, &thread),
            Ok(event) => self.event(event, piece),
        }
    }

    /// An interrupted write, except where another reader sees whole events in it.
    fn torn_line(&mut self, piece: &Piece<'_>) {
        self.torn = true;
        match line::read(piece.content()) {
            Err(fault) if fault.is_attack() || !line::is_cut(piece.content()) => {
                self.fault(fault, piece);
            }
            Ok(Event {
                kind: Kind::Checkpoint,
                ..
            }) => {
                let digest = self.prefix.digest_so_far();
                let fits = |c: Checkpoint| c.byte_offset == piece.start && c.hash == digest;
                self.torn_checkpoint = Checkpoint::parse(piece.content()).is_ok_and(fits);
            }
            _ => {}
        }
    }

    fn event(&mut self, event: Event<'_>, piece: &Piece<'_>) {
        match event.kind {
            Kind::TurnStarted => self.turns += 1,
            Kind::StepStarted(number) => {
                self.steps += 1;
                self.highest_step = self.highest_step.max(number);
            }
            Kind::Checkpoint | Kind::Other => {}
        }
        if let Some(oddity) = event.oddity {
            let (code, text) = match oddity {
                Oddity::Nonstandard => (
                    FindingCode::NonstandardJson,
                    "the line is JSON for Python only",
                ),
                Oddity::CutElsewhere => (
                    FindingCode::RawLineSeparator,
                    "Rye's own verifier splits this line at a raw separator",
                ),
            };
            let finding = Finding::warning(code, text);
            self.remark(self.place(finding, piece));
        }
        if !self.same_thread(event.thread) {
            let text = "the line belongs to another thread than the first line";
            let finding = self.place(Finding::error(FindingCode::ThreadIdMixed, text), piece);
            self.wait(finding);
        }
    }

    fn same_thread(&mut self, thread: Cow<'_, str>) -> bool {
        match &self.thread {
            None => {
                self.thread = Some(thread.into_owned());
                true
            }
            Some(known) => *known == thread,
        }
    }

    fn checkpoint(&mut self, piece: &Piece<'_>, thread: &str) {
        self.checkpoints += 1;
        let checkpoint = match Checkpoint::parse(piece.content()) {
            Ok(checkpoint) => checkpoint,
            Err(malformed) => return self.malformed(malformed, piece),
        };
        let mine = self.same_thread(Cow::Borrowed(thread));
        let digest = self.prefix.digest_so_far();
        if checkpoint.hash != digest {
            return self.mismatch(&checkpoint, piece);
        }
        if checkpoint.byte_offset != piece.start {
            let text = "the checkpoint's byte_offset is not its position, though its hash matches";
            let finding = self.place(Finding::error(FindingCode::OffsetWrong, text), piece);
            return self.hold(Verdict::Tampered, finding);
        }
        self.promote_waiting();
        let line = self.lines + 1;
        let seal = Seal {
            start: piece.start,
            end: piece.end(),
            line,
            turn: checkpoint.turn,
            seq: self.seals,
            digest: Digest::of(piece.content()),
            hash: digest,
            signature: checkpoint.signature,
        };
        if !mine {
            let text = "the checkpoint belongs to another thread than the first line";
            self.against(Verdict::Tampered, FindingCode::ThreadIdMixed, text, &seal);
        }
        self.check_turn(&seal);
        let signed = self
            .signers
            .take(&seal, checkpoint.fingerprint, &checkpoint.thread);
        self.judge_signer(signed, &seal);
        self.meet(&seal);
        self.seals += 1;
        let line = piece.content();
        let line = match self.ends_with_cr {
            true => line.strip_suffix(b"\r").unwrap_or(line),
            false => line,
        };
        self.odd = odd_byte(line).map(|at| piece.start + at as u64);
        self.last = Some((seal, checkpoint));
    }

    fn malformed(&mut self, Malformed(member): Malformed, piece: &Piece<'_>) {
        let verdict = if member == "sig" {
            Verdict::Forged
        } else {
            Verdict::Tampered
        };
        let text = match member {
            "line" => "the checkpoint line is not strict JSON".to_owned(),
            "unknown member" => "the checkpoint has a member that Rye never writes".to_owned(),
            _ => format!("the checkpoint's member {member} is missing or not as Rye writes it"),
        };
        let finding = self.place(
            Finding::error(FindingCode::MalformedCheckpoint, text),
            piece,
        );
        self.hold(verdict, finding);
    }

    /// The checkpoint does not fit the bytes before it.
    fn mismatch(&mut self, checkpoint: &Checkpoint, piece: &Piece<'_>) {
        if self.content_changed {
            self.also_broken += 1;
            return;
        }
        self.content_changed = true;
        let from = self.last.as_ref().map_or(0, |(seal, _)| seal.start);
        let (code, text) = if checkpoint.byte_offset == piece.start {
            (
                FindingCode::ContentChanged,
                "these bytes are not those that the checkpoint after them sealed".to_owned(),
            )
        } else {
            let text = format!(
                "the checkpoint after these bytes was written at byte {} and is now at byte {}",
                checkpoint.byte_offset, piece.start
            );
            (FindingCode::CheckpointDisplaced, text)
        };
        let finding = Finding::error(code, text)
            .at_bytes(from, piece.start)
            .in_turn(Some(checkpoint.turn));
        self.hold(Verdict::Tampered, finding);
    }

    fn check_turn(&mut self, seal: &Seal) {
        let before = self.last.as_ref().map_or(0, |(last, _)| last.turn);
        let shown = self.turns.max(self.steps).max(self.highest_step);
        if seal.turn < before {
            let text = "the checkpoint's turn is lower than that of the checkpoint before it";
            self.against(Verdict::Tampered, FindingCode::TurnImplausible, text, seal);
        } else if seal.turn > shown {
            let text = "the checkpoint's turn is higher than the lines before it show";
            self.against(Verdict::Tampered, FindingCode::TurnImplausible, text, seal);
        }
    }

    fn judge_signer(&mut self, signed: Signed, seal: &Seal) {
        match signed {
            Signed::Again | Signed::First => {}
            Signed::Another { vouched: true } => {
                let text = "from here on another trusted key seals the record";
                let finding = Finding::warning(FindingCode::SignerChanged, text).at_line(seal.line);
                self.remark(finding.in_turn(Some(seal.turn)));
            }
            Signed::Another { vouched: false } => {
                let text =
                    "sealed by a key that is not trusted here, in a record that another key began";
                self.against(Verdict::Forged, FindingCode::SignerChanged, text, seal);
            }
            Signed::Invalid => {
                let text = "no trusted key with this fingerprint made the signature";
                self.against(Verdict::Forged, FindingCode::SignatureInvalid, text, seal);
            }
            Signed::TooMany => {
                let text = "too many keys seal this record";
                self.against(Verdict::Forged, FindingCode::TooManySigners, text, seal);
            }
        }
    }

    fn meet(&mut self, seal: &Seal) {
        let here = SealAt {
            seq: seal.seq,
            size: seal.end,
            line: seal.digest,
        };
        for (head, met) in &mut self.expected {
            met.meet(*head, self.record, here);
        }
    }

    fn fault(&mut self, fault: Fault, piece: &Piece<'_>) {
        let (code, text) = fault.words();
        let finding = self.place(Finding::error(code, text), piece);
        if fault.is_attack() {
            self.hold(Verdict::Tampered, finding);
        } else {
            self.wait(finding);
        }
    }

    /// A seal covers the faults before it.
    fn promote_waiting(&mut self) {
        for finding in std::mem::take(&mut self.waiting) {
            self.hold(Verdict::Tampered, finding);
        }
    }

    fn place(&self, finding: Finding, piece: &Piece<'_>) -> Finding {
        let end = if piece.is_terminated() {
            piece.end() - 1
        } else {
            piece.end()
        };
        finding.at_line(self.lines + 1).at_bytes(piece.start, end)
    }

    fn against(&mut self, verdict: Verdict, code: FindingCode, text: &str, seal: &Seal) {
        let finding = Finding::error(code, text)
            .at_line(seal.line)
            .in_turn(Some(seal.turn));
        self.hold(verdict, finding);
    }

    fn hold(&mut self, verdict: Verdict, finding: Finding) {
        self.signers.broken = true;
        if has_room(self.findings.iter().map(|(_, known)| known), finding.code) {
            self.findings.push((verdict, finding));
        }
    }

    fn wait(&mut self, finding: Finding) {
        if has_room(&self.waiting, finding.code) {
            self.waiting.push(finding);
        }
    }

    fn remark(&mut self, finding: Finding) {
        if has_room(&self.remarks, finding.code) {
            self.remarks.push(finding);
        }
    }
}

/// May one more of this code be kept? A report takes one less, and then mentions that there are more.
fn has_room<'a>(kept: impl IntoIterator<Item = &'a Finding>, code: FindingCode) -> bool {
    let same = kept.into_iter().filter(|known| known.code == code);
    same.count() <= MAX_FINDINGS
}

/// Rye gives a record no id. Its first line, without its LF, which its first seal covers, replaces one.
pub fn record_id(first_line: &[u8]) -> RecordId {
    RecordId::from_bytes(*Digest::tagged("rye record", &[first_line]).as_bytes())
}
