//! Evidence of two histories: made of copies of a record, and judged where it is of a log or a lineage.
//!
//! Making evidence needs no verdict about the copies: it is checked like any evidence before a caller gets it.

use crate::address::Stores;
use crate::error::VerifyError;
use crate::inputs;
use crate::notices::Notices;
use crate::verifier::MAX_TAKEN_UP_BYTES;
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
use threadseal_store::examine;
use threadseal_store::read::{RegularFile, Source as _, open_regular};
use threadseal_store::sys::Fs;

/// Copies of one record that are compared with each other.
const MAX_COPIES: usize = 16;

/// Evidence that one key sealed two histories of a record.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The file, as text.
    pub text: String,
    /// The two copies.
    pub copies: [PathBuf; 2],
}

/// The first evidence that the native records of `paths` hold.
///
/// # Errors
/// When a file cannot be read.
pub fn find(
    paths: &[PathBuf],
    stores: &Stores,
    fs: &dyn Fs,
    now: Timestamp,
    notices: &dyn Notices,
) -> Result<Option<Evidence>, VerifyError> {
    for copies in copies(paths, stores, fs)?.into_values() {
        for (first, other) in pairs(&copies, notices) {
            let (one, another) = (read(first, fs)?, read(other, fs)?);
            if let Some(text) = parted(&one, &another, now, notices)? {
                let copies = [first.clone(), other.clone()];
                return Ok(Some(Evidence { text, copies }));
            }
        }
    }
    Ok(None)
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

/// The report on a fork proof of a lineage by this trust. It is read in pieces: a state of igor has any length.
///
/// # Errors
/// When it cannot be read.
pub fn of_lineage(
    file: &RegularFile,
    trust: &Trust,
    now: Timestamp,
) -> Result<CheckedFork, VerifyError> {
    let (mut chunks, mut chunk, mut reader) = (file.chunks(), Vec::new(), ForkReader::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(check_fork(reader, &Judging::new(trust, now)));
        }
        reader.push(&chunk);
    }
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

/// Each two of these copies, and a note where there are more than are compared. A short copy conflicts with none and hides nothing
/// of the others.
fn pairs<'c>(
    copies: &'c [PathBuf],
    notices: &dyn Notices,
) -> impl Iterator<Item = (&'c PathBuf, &'c PathBuf)> + use<'c> {
    if let Some(left) = copies
        .len()
        .checked_sub(MAX_COPIES)
        .filter(|left| *left > 0)
    {
        notices.note(&format!(
            "{MAX_COPIES} copies of one record were compared with each other, {left} more were not"
        ));
    }
    let taken = &copies[..copies.len().min(MAX_COPIES)];
    let after = |at: usize| taken.iter().skip(at + 1);
    (0..taken.len()).flat_map(move |at| after(at).map(move |other| (&taken[at], other)))
}

fn parted(
    one: &[u8],
    other: &[u8],
    now: Timestamp,
    notices: &dyn Notices,
) -> Result<Option<String>, VerifyError> {
    let found = match SealConflict::find(one, other) {
        Ok(found) => found.map(|found| found.to_string()),
        Err(why) => {
            notices.note(&format!("no evidence: {why}"));
            None
        }
    };
    let nobody = Trust::new(TrustStore::new());
    let options = VerifyOptions {
        trust: &nobody,
        now,
        held_since: None,
        thread: None,
    };
    let is_evidence = |text: &String| {
        check_file(text.as_bytes(), &options).report.verdict == Verdict::UnknownSigner
    };
    Ok(found.filter(is_evidence))
}

/// The native records that are in more than one of these files.
fn copies(
    paths: &[PathBuf],
    stores: &Stores,
    fs: &dyn Fs,
) -> Result<BTreeMap<RecordId, Vec<PathBuf>>, VerifyError> {
    let mut copies = BTreeMap::<RecordId, Vec<PathBuf>>::new();
    for candidate in inputs::find(paths, stores).files {
        let file = open_regular(fs, &candidate.path)?;
        let first = examine::first_line(&file)?;
        if let Some(record) = first.as_deref().and_then(examine::native_record) {
            copies.entry(record).or_default().push(candidate.path);
        }
    }
    copies.retain(|_, files| files.len() > 1);
    Ok(copies)
}

fn read(path: &Path, fs: &dyn Fs) -> Result<Vec<u8>, VerifyError> {
    let file = open_regular(fs, path)?;
    Ok(file.read_whole(MAX_TAKEN_UP_BYTES)?)
}
