//! One turn shown without the others: [`prove`] and [`check_proof`].

use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::turn_proof::{self, Checked, TurnProof};
use threadseal_formats::transcript::{self, Coverage, ScanOptions, VerifyOptions};
use threadseal_formats::verified::Verified;

/// Writes a proof of one turn, counted from 1, of a native record.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("session.jsonl");
/// use threadseal::{Trust, Writer};
///
/// let writer = Writer::danger_with_seed([7; 32], folder.path())?;
/// let mut record = writer.record(&path, "agency/scout")?;
/// record.append(&"cognition_in".parse()?, &r#"{"text":"May I deploy?"}"#.parse()?)?;
/// record.seal(1, Default::default())?;
/// record.append(&"cognition_in".parse()?, &r#"{"text":"a secret"}"#.parse()?)?;
/// record.end(threadseal::Ending::Completed, &"{}".parse()?, 2)?;
///
/// let (bytes, now) = (std::fs::read(&path)?, writer.now()?);
/// let trust = Trust::key(writer.public_key());
/// let proof = threadseal::prove(&bytes, 1, &trust, now)?;
/// assert!(!String::from_utf8_lossy(&proof).contains("secret"));
///
/// let checked = threadseal::check_proof(&proof, &trust, now);
/// assert_eq!(checked.report.verdict.as_str(), "verified");
/// assert_eq!(checked.turn, Some(1));
/// # Ok(()) }
/// ```
///
/// # Errors
/// Kind `Refused` when the record is not verified under `trust`; else as [`TurnProof::make`].
pub fn prove(record: &[u8], turn: u64, trust: &Trust, now: Timestamp) -> Result<Vec<u8>, Error> {
    let options = options(trust, now);
    let outcome = transcript::verify(record, &ScanOptions::default(), &options);
    let verified: Verified<Coverage> = outcome.verified.ok_or_else(|| {
        let verdict = outcome.report.verdict;
        Error::refused(format!("the record is {verdict}: no turn of it is proved"))
    })?;
    let proof = TurnProof::make(&verified, record, turn)?;
    Ok(proof.to_string().into_bytes())
}

/// Checks a proof of a turn, and gives its lines. The record is not needed.
pub fn check_proof(file: &[u8], trust: &Trust, now: Timestamp) -> Checked {
    turn_proof::check_file(file, &options(trust, now))
}

fn options(trust: &Trust, now: Timestamp) -> VerifyOptions<'_> {
    VerifyOptions {
        trust,
        now,
        held_since: None,
        thread: None,
    }
}
