//! Proofs and evidence, checked: a turn, observed lines, a copy, two histories, a tombstone.
//!
//! It needs only the file: no record, no home, no log.

use crate::claims;
use crate::content::{Content as _, InMemory};
use crate::events::Event;
use crate::recognise;
use serde::Serialize;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyUsage;
use threadseal_core::limits::{MAX_CONFLICT_BYTES, MAX_TOMBSTONE_BYTES, MAX_TURN_PROOF_BYTES};
use threadseal_core::record::RecordKind;
use threadseal_core::report::{
    CheckName, CheckResult, Finding, FindingCode, Format, Profile, Report, Verdict,
};
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::conflict::{self as checkpoints, Conflict};
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_core::trust::{Pin, Purpose, ScopeFormat, Standing};
use threadseal_formats::lineage::{FORK_FIRST_LINE, ForkReader, Judging, check_fork};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::copy::{self, CopiedLine};
use threadseal_formats::transcript::observed_proof;
use threadseal_formats::transcript::turn_proof::conflict as seals;
use threadseal_formats::transcript::turn_proof::{
    Anchored, Checked, FIRST_LINE, ShownLine, check_file_by,
};

/// The most bytes of a copy, and of a fork of a lineage that is held.
const MAX_COPY_BYTES: usize = 2 << 30;

/// A file that was checked.
#[derive(Debug, Clone)]
pub struct CheckedFile {
    /// The report, and what a proof of a turn or of lines shows.
    pub checked: Checked,
    /// What the maker of a proof of observed lines calls them; nothing proves it.
    pub label: Option<String>,
    /// The lines of a copy: type and text, or how many bytes are left out.
    pub copied: Vec<Copied>,
}

/// A line of a copy.
#[derive(Debug, Clone)]
pub enum Copied {
    /// It is there: its type and text.
    Shown(String, String),
    /// It is left out, with so many bytes.
    LeftOut(u64),
}

/// Checks the file `bytes`, called `name`. `policy` is for proofs of turns, `pinned` for conflicts of checkpoints.
///
/// # Errors
/// When it is too large, or no proof.
pub fn check(
    name: &str,
    bytes: &[u8],
    options: &VerifyOptions<'_>,
    policy: Option<&Policy>,
    pinned: &[LogKey],
) -> Result<CheckedFile, Error> {
    let first = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let file = InMemory {
        name,
        bytes,
        is_sealed: false,
    };
    file.whole(most_bytes(first))?;
    let first = std::str::from_utf8(first).unwrap_or_default();
    let mut found = match first {
        FIRST_LINE => {
            let checked = check_file_by(bytes, options, policy);
            CheckedFile {
                checked,
                ..CheckedFile::report_only(Report::begin(Format::Proof, Profile::Native))
            }
        }
        copy::FIRST_LINE => {
            let found = copy::check(bytes, options);
            let copied = found.lines.iter().map(Copied::of).collect();
            CheckedFile {
                copied,
                ..CheckedFile::report_only(found.report)
            }
        }
        seals::FIRST_LINE => CheckedFile::report_only(seals::check_file(bytes, options).report),
        observed_proof::FIRST_LINE => {
            CheckedFile::of_lines(observed_proof::check_file(bytes, options))
        }
        FORK_FIRST_LINE => {
            let mut reader = ForkReader::new();
            reader.push(bytes);
            let judging = Judging::new(options.trust, options.now);
            CheckedFile::report_only(check_fork(reader, &judging).report)
        }
        checkpoints::FIRST_LINE => CheckedFile::report_only(of_checkpoints(bytes, pinned)),
        _ => {
            if recognise::proof(&file)?.is_none() {
                let text = "not a proof of a turn, a copy with lines left out, evidence of a fork or a tombstone";
                return Err(file.error(ErrorKind::Refused, text));
            }
            CheckedFile::report_only(of_tombstone(bytes, options))
        }
    };
    // The others name the thread of their transcript, and were held against the request.
    let may_name = matches!(first, FIRST_LINE | copy::FIRST_LINE | seals::FIRST_LINE);
    if options.thread.is_some() && !may_name {
        claims::names_no_thread(&mut found.checked.report);
    }
    Ok(found)
}

/// The most bytes of a file that begins with this line, if it is a proof.
pub fn most_bytes(first_line: &[u8]) -> usize {
    match std::str::from_utf8(first_line).unwrap_or_default() {
        FIRST_LINE | seals::FIRST_LINE | observed_proof::FIRST_LINE => MAX_TURN_PROOF_BYTES,
        checkpoints::FIRST_LINE => MAX_CONFLICT_BYTES,
        copy::FIRST_LINE | FORK_FIRST_LINE => MAX_COPY_BYTES,
        _ => MAX_TOMBSTONE_BYTES,
    }
}

impl Copied {
    fn of(line: &CopiedLine<'_>) -> Self {
        match *line {
            CopiedLine::Shown { event_type, text } => {
                Self::Shown(event_type.to_owned(), text.to_owned())
            }
            CopiedLine::LeftOut { bytes } => Self::LeftOut(bytes),
        }
    }
}

impl CheckedFile {
    /// A file of which there is only a report.
    pub fn report_only(report: Report) -> Self {
        Self {
            checked: Checked {
                report,
                turn: None,
                lines: Vec::new(),
                anchor: None,
                closing: None,
            },
            label: None,
            copied: Vec::new(),
        }
    }

    fn of_lines(found: observed_proof::CheckedLines) -> Self {
        let shown = |(number, bytes): (u64, Vec<u8>)| {
            let event = Event::alone(number, &bytes);
            ShownLine {
                number,
                event_type: event.event_type,
                text: String::from_utf8_lossy(&bytes).into_owned(),
                restored: None,
            }
        };
        let mut file = Self::report_only(found.report);
        file.label = found.label;
        file.checked.lines = found.lines.into_iter().map(shown).collect();
        file
    }

    /// As `threadseal check-proof --json` prints it.
    pub fn output(&self) -> ProofOutput<'_> {
        let of_turn = self.checked.lines.iter().map(LineOutput::of_turn);
        let of_copy = self.copied.iter().zip(1..).map(LineOutput::of_copy);
        ProofOutput {
            schema: "threadseal.check-proof/1",
            result: &self.checked.report,
            turn: self.checked.turn,
            label: self.label.as_deref(),
            lines: of_turn.chain(of_copy).collect(),
            anchor: self.checked.anchor.as_ref().map(AnchorOutput::of),
        }
    }
}

/// All of one `check-proof`.
#[derive(Debug, Serialize)]
pub struct ProofOutput<'a> {
    schema: &'static str,
    result: &'a Report,
    /// The turn; none if the proof fails.
    turn: Option<u64>,
    /// What the maker of a proof of observed lines calls them; nothing proves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    /// The lines that it shows.
    pub lines: Vec<LineOutput<'a>>,
    /// The place of the closing seal in a log; none if the proof does not contain one.
    anchor: Option<AnchorOutput<'a>>,
}

#[derive(Debug, Serialize)]
struct AnchorOutput<'a> {
    /// Did a quorum of the policy's witnesses see it? Otherwise the rest is the proof's own claim.
    authenticated: bool,
    origin: &'a str,
    index: u64,
    size: u64,
    /// When a quorum of the policy's witnesses had seen it, in seconds since 1970; none without a
    /// policy, or if it was not met.
    witnessed_at: Option<u64>,
    /// Names of the policy's witnesses that saw it, if the quorum was met.
    witnesses: Vec<String>,
}

impl<'a> AnchorOutput<'a> {
    fn of(anchored: &'a Anchored) -> Self {
        let witnessed = anchored.witnessed.as_ref();
        let cosigned = witnessed.map_or(&[][..], |seen| seen.signed().cosignatures());
        Self {
            authenticated: witnessed.is_some(),
            origin: anchored.origin.as_str(),
            index: anchored.index,
            size: anchored.size,
            witnessed_at: witnessed.map(|witnessed| witnessed.at().seconds()),
            witnesses: cosigned.iter().map(|by| by.witness.to_string()).collect(),
        }
    }
}

/// A line that a proof shows.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LineOutput<'a> {
    /// Its number, from 1.
    pub line: u64,
    /// None if the line is left out.
    pub event_type: Option<&'a str>,
    /// The line's JSON text, as it is in the record.
    pub text: Option<&'a str>,
    /// The same with bodies, or redaction marks, in place of its commitments; none if it has no
    /// commitment.
    pub restored: Option<&'a str>,
    /// The number of bytes of a line that a copy leaves out.
    pub left_out_bytes: Option<u64>,
}

impl<'a> LineOutput<'a> {
    fn of_turn(line: &'a ShownLine) -> Self {
        Self {
            line: line.number,
            event_type: Some(&line.event_type),
            text: Some(&line.text),
            restored: line.restored.as_deref(),
            left_out_bytes: None,
        }
    }

    fn of_copy((line, number): (&'a Copied, u64)) -> Self {
        let (event_type, text, left_out_bytes) = match line {
            Copied::Shown(event_type, text) => (Some(&**event_type), Some(&**text), None),
            Copied::LeftOut(bytes) => (None, None, Some(*bytes)),
        };
        Self {
            line: number,
            event_type,
            text,
            restored: None,
            left_out_bytes,
        }
    }
}

/// A key of a log or a witness that a caller accepts.
#[derive(Debug, Clone)]
pub enum LogKey {
    /// The key alone.
    Key(Box<Pin>),
    /// As the file has it, and `log status` and `witness serve` print it.
    Verifier(Box<VerifierKey>),
}

impl LogKey {
    fn admits(&self, other: &VerifierKey) -> bool {
        match self {
            Self::Key(pin) => {
                let is_for = pin.is_for(KeyUsage::Log) || pin.is_for(KeyUsage::Witness);
                is_for && other.ed25519().is_some_and(|key| pin.admits(key))
            }
            Self::Verifier(key) => key.is_same_key(other),
        }
    }
}

/// The report on a conflict of checkpoints, for a caller who accepts these keys alone, or names none. No trust store holds keys of
/// logs and witnesses.
pub fn of_checkpoints(file: &[u8], pinned: &[LogKey]) -> Report {
    let mut report = Report::begin(Format::Proof, Profile::ThreadSeal);
    report.stats.bytes = file.len() as u64;
    let text = std::str::from_utf8(file).unwrap_or_default();
    let found = match Conflict::parse(text) {
        Ok(found) => found,
        Err(why) => {
            let finding = Finding::error(FindingCode::ProofMalformed, why.to_string());
            report.downgrade(Verdict::Malformed, finding);
            return report;
        }
    };
    let key = found.key();
    let [one, other] = found.checkpoints().each_ref().map(Checkpoint::tree);
    let origin = found.checkpoints()[0].origin().as_str();
    let text = match (found.went_back(), found.parted()) {
        (Some([later, earlier]), _) => format!(
            "{key} cosigned {} entries of {origin} at {earlier}, and stated at {later} that it had seen at most {}",
            other.size, one.size
        ),
        (None, Some(entry)) => format!(
            "{key} signed {} entries of {origin}, and {} with another entry {entry}: {} and {}",
            one.size, other.size, one.root, other.root
        ),
        (None, None) => format!(
            "{key} signed two trees of {} entries of {origin}: {} and {}",
            one.size, one.root, other.root
        ),
    };
    report.find(Finding::warning(FindingCode::CheckpointsConflict, text));
    report.check(CheckName::Signatures, CheckResult::Pass, None);
    report.check(CheckName::Conflict, CheckResult::Pass, None);
    match pinned {
        [_, ..] if pinned.iter().any(|pinned| pinned.admits(key)) => {}
        [_, ..] => {
            let text = format!("signed by {key}, which is not a key that was asked for");
            report.downgrade(
                Verdict::UnknownSigner,
                Finding::warning(FindingCode::OtherSigner, text),
            );
        }
        [] => {
            let text = "the file does not prove who owns the key: name the expected key with --key, as the file shows it";
            report.downgrade(
                Verdict::UnknownSigner,
                Finding::note(FindingCode::KeyUnknown, text),
            );
        }
    }
    report
}

/// The report on a tombstone: it proves that a key declared these records pruned, and no more.
pub fn of_tombstone(file: &[u8], options: &VerifyOptions<'_>) -> Report {
    let mut report = Report::begin(Format::Proof, Profile::Native);
    report.trust = Some(options.trust.digest());
    report.stats.bytes = file.len() as u64;
    let Some(found) = Tombstone::read(file) else {
        let text = "it is not a tombstone signed by the key that it names";
        report.downgrade(
            Verdict::Malformed,
            Finding::error(FindingCode::ProofMalformed, text),
        );
        return report;
    };
    let statement = found.statement();
    let why = match statement.why.as_str() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let (by, at) = (&statement.by, statement.at.to_iso_seconds());
    for logged in &statement.records {
        let text = format!(
            "the key states that {} ({}) was pruned by {by} on {at}{why}",
            logged.head,
            logged.kind.as_str()
        );
        report.find(Finding::note(FindingCode::Pruned, text));
    }
    report.record = statement.records.first().map(|logged| logged.head.record);
    report.check(CheckName::Signatures, CheckResult::Pass, None);
    let format = match statement.records.first().map(|logged| logged.kind) {
        Some(RecordKind::Observed) => ScopeFormat::Log,
        Some(RecordKind::Document) => ScopeFormat::Text,
        Some(RecordKind::Scroll) => ScopeFormat::Scroll,
        Some(RecordKind::Ledger) => ScopeFormat::Ledger,
        Some(RecordKind::Lineage) => ScopeFormat::Lineage,
        Some(RecordKind::Transcript) | None => ScopeFormat::Transcript,
    };
    let purpose = Purpose {
        usage: KeyUsage::Native,
        format,
        thread: None,
        evidence: None,
        heads: &[],
    };
    let judgement = options.trust.judge(found.public(), &purpose, options.now);
    let vouched = match &judgement.standing {
        // Who pruned may have done so while the key lived.
        Standing::Revoked { .. } => {
            let text = "the key ended: any of its holders may have signed this, before its end or later, and nothing here shows which one";
            report.downgrade(
                Verdict::UnknownSigner,
                Finding::warning(FindingCode::KeyEnded, text),
            );
            false
        }
        _ => report.signer(found.public(), &judgement),
    };
    report.check(CheckName::Trust, CheckResult::of(vouched), None);
    report
}
