//! Evidence of two histories: made of copies of a record (`verify --evidence`), and judged where it is of a log or a lineage
//! (`check-proof`).
//!
//! What is made needs no verdict of the copies: what comes out is checked like any evidence, before it is written.

use crate::believed::MAX_TAKEN_UP_BYTES;
use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::render::clean::Clean;
use crate::walk;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::key::KeyUsage;
use threadseal_core::record::{RecordId, RecordKind};
use threadseal_core::report::{
    CheckName, CheckResult, Finding, FindingCode, Format, Profile, Report, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_core::tlog::tombstone::Tombstone;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_core::trust::{Pin, Purpose, ScopeFormat, Standing, Trust, TrustStore};
use threadseal_formats::lineage::{CheckedFork, ForkReader, Judging, check_fork};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::conflict::{SealConflict, check_file};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::examine;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::sys::path_text;

/// Copies of one record that are held against each other.
const MAX_COPIES: usize = 16;

/// Writes the first evidence that `paths` hold into `to`, a new file, and says what it found; true if there was some.
///
/// # Errors
/// When a file cannot be read, or `to` not be written.
pub(crate) fn write(paths: &[PathBuf], to: &Path, context: &Context) -> Result<bool, Failure> {
    for copies in copies(paths, context)?.into_values() {
        for (first, path) in pairs(&copies) {
            let (one, other) = (read(first, context)?, read(path, context)?);
            if let Some(found) = parted(&one, &other, context)? {
                atomic::create_new(&*context.fs, to, found.as_bytes(), PRIVATE_FILE)?;
                let names = [to, first, path].map(path_text);
                let [to, first, path] = names.each_ref().map(|name| Clean(name));
                complain(&format!(
                    "note: {to} shows that one key sealed {first} and {path} in two ways; threadseal check-proof judges it, threadseal log accuse takes \
                     it into the log of this home"
                ));
                return Ok(true);
            }
        }
    }
    complain("note: no evidence was written: no key sealed two histories of one of these records");
    Ok(false)
}

/// Each two of these copies, and a word where there are more than are compared. A short copy parts from nobody and hides nothing of
/// the others.
fn pairs(copies: &[PathBuf]) -> impl Iterator<Item = (&PathBuf, &PathBuf)> {
    if let Some(left) = copies
        .len()
        .checked_sub(MAX_COPIES)
        .filter(|left| *left > 0)
    {
        complain(&format!(
            "note: {MAX_COPIES} copies of one record were held against each other, {left} more were not"
        ));
    }
    let taken = &copies[..copies.len().min(MAX_COPIES)];
    let after = |at: usize| taken.iter().skip(at + 1);
    (0..taken.len()).flat_map(move |at| after(at).map(move |other| (&taken[at], other)))
}

/// The key of a log or a witness that somebody accepts.
#[derive(Debug, Clone)]
pub(crate) enum LogKey {
    /// By itself.
    Key(Box<Pin>),
    /// As the file shows it, and `log status` and `witness serve` print it.
    Verifier(Box<VerifierKey>),
}

impl LogKey {
    fn admits(&self, other: &VerifierKey) -> bool {
        match self {
            Self::Key(pin) => other.ed25519().is_some_and(|key| pin.admits(key)),
            Self::Verifier(key) => key.is_same_key(other),
        }
    }
}

/// Says what a conflict of checkpoints proves to somebody who accepts this key alone, or who names none. No trust store holds keys of
/// logs and witnesses.
pub(crate) fn of_checkpoints(file: &[u8], pinned: Option<&LogKey>) -> Report {
    let mut report = Report::begin(Format::Proof, Profile::ThreadSeal);
    report.stats.bytes = file.len() as u64;
    let text = std::str::from_utf8(file).unwrap_or_default();
    let found = match Conflict::parse(text) {
        Ok(found) => found,
        Err(why) => {
            let finding = Finding::error(FindingCode::ProofMalformed, why.to_string());
            report.hold_because(Verdict::Malformed, finding);
            return report;
        }
    };
    let key = found.key();
    let [one, other] = found.checkpoints().each_ref().map(Checkpoint::tree);
    let origin = found.checkpoints()[0].origin().as_str();
    let text = match (found.went_back(), found.parted()) {
        (Some([later, earlier]), _) => format!(
            "{key} cosigned {} entries of {origin} at {earlier}, and at {later} said that {} were the most it had seen",
            other.size, one.size
        ),
        (None, Some(entry)) => format!(
            "{key} signed {} entries of {origin}, and {} in which entry {entry} is another one: {} and {}",
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
    match pinned.map(|pinned| pinned.admits(key)) {
        Some(true) => {}
        Some(false) => {
            let text = "it is not the key that was asked for";
            report.hold_because(
                Verdict::Forged,
                Finding::error(FindingCode::KeyNotPinned, text),
            );
        }
        None => {
            let text = "whose key it is, the file does not prove: say with --key which it has to be, as the file shows it";
            report.hold_because(
                Verdict::UnknownSigner,
                Finding::note(FindingCode::KeyUnknown, text),
            );
        }
    }
    report
}

/// Says what a fork proof of a lineage proves to somebody with this trust. It is read in pieces: a state of the original has any length.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn of_lineage(
    file: &RegularFile,
    trust: &Trust,
    now: Timestamp,
) -> Result<CheckedFork, Failure> {
    let (mut chunks, mut chunk, mut reader) = (file.chunks(), Vec::new(), ForkReader::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(check_fork(reader, &Judging::new(trust, now)));
        }
        reader.push(&chunk);
    }
}

/// Says what a tombstone proves: that a key said that these records were pruned, and no more.
pub(crate) fn of_tombstone(file: &[u8], options: &VerifyOptions<'_>) -> Report {
    let mut report = Report::begin(Format::Proof, Profile::Native);
    report.trust = Some(options.trust.digest());
    report.stats.bytes = file.len() as u64;
    let Some(found) = Tombstone::read(file) else {
        let text = "it is no tombstone that the key which it names signed";
        report.hold_because(
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
            "the key says that {} ({}) was pruned by {by} on {at}{why}",
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
            let text = "the key ended: this is by whoever had it, before that or later, and nothing here says who that was";
            report.hold_because(
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

fn parted(one: &[u8], other: &[u8], context: &Context) -> Result<Option<String>, Failure> {
    let found = match SealConflict::find(one, other) {
        Ok(found) => found.map(|found| found.to_string()),
        Err(why) => {
            complain(&format!("note: no evidence: {why}"));
            None
        }
    };
    let nobody = Trust::new(TrustStore::new());
    let options = VerifyOptions {
        trust: &nobody,
        now: context.now()?,
        held_since: None,
        thread: None,
    };
    let is_evidence = |text: &String| {
        check_file(text.as_bytes(), &options).report.verdict == Verdict::UnknownSigner
    };
    Ok(found.filter(is_evidence))
}

/// The native records that lie in more than one of these files.
fn copies(
    paths: &[PathBuf],
    context: &Context,
) -> Result<BTreeMap<RecordId, Vec<PathBuf>>, Failure> {
    let mut copies = BTreeMap::<RecordId, Vec<PathBuf>>::new();
    for candidate in walk::find(paths).files {
        let file = open_regular(&*context.fs, &candidate.path)?;
        let first = examine::first_line(&file)?;
        if let Some(record) = first.as_deref().and_then(examine::native_record) {
            copies.entry(record).or_default().push(candidate.path);
        }
    }
    copies.retain(|_, files| files.len() > 1);
    Ok(copies)
}

fn read(path: &Path, context: &Context) -> Result<Vec<u8>, Failure> {
    let file = open_regular(&*context.fs, path)?;
    Ok(file.read_whole(MAX_TAKEN_UP_BYTES)?)
}
