//! The report of each fact of one link or file: its verdict, code and sentence (`spec/lineage.md`
//! §8).
//!
//! Elsewhere: the rules between links (`policy`), the facts of a whole lineage (`seen`).

use super::facts::{LinkFacts, ReadFault, ReadLink};
use super::header::HeaderError;
use threadseal_core::report::{Finding, FindingCode, Severity, Verdict};

/// A finding about a link, with the name of its file and its tick.
pub(super) fn at(
    facts: &LinkFacts,
    link: &ReadLink,
    severity: Severity,
    code: FindingCode,
    text: &str,
) -> Finding {
    let text = format!("{}: {text}", facts.name);
    let finding = match severity {
        Severity::Error => Finding::error(code, text),
        Severity::Warning => Finding::warning(code, text),
        Severity::Note => Finding::note(code, text),
    };
    finding.in_turn(Some(link.header.tick))
}

/// The verdict and finding for a file that is no checkpoint.
pub(super) fn not_one(facts: &LinkFacts, why: &HeaderError) -> (Verdict, Finding) {
    if let HeaderError::Key { .. } = why {
        let (verdict, code, _) = told(ReadFault::Key);
        return (
            verdict,
            Finding::error(code, format!("{}: {why}", facts.name)),
        );
    }
    let text = format!("{}: this is not a checkpoint: {why}", facts.name);
    (
        Verdict::Malformed,
        Finding::error(FindingCode::CheckpointMalformed, text),
    )
}

/// The verdict, code and sentence for a seal that does not hold.
pub(super) fn told(fault: ReadFault) -> (Verdict, FindingCode, &'static str) {
    match fault {
        ReadFault::Key => (
            Verdict::Forged,
            FindingCode::KeyUnusable,
            "its key is not an Ed25519 key, or is one under which any signature verifies",
        ),
        ReadFault::Signature => (
            Verdict::Forged,
            FindingCode::SignatureBad,
            "its signature does not verify under the key that it names",
        ),
        ReadFault::Delegation => (
            Verdict::Forged,
            FindingCode::DelegationBad,
            "the agent's root key did not delegate to the key that signed it",
        ),
        ReadFault::DelegationTime => (
            Verdict::Forged,
            FindingCode::DelegationTime,
            "it states a time at which the delegation of its signer did not hold",
        ),
        ReadFault::State => (
            Verdict::Tampered,
            FindingCode::StateDiffers,
            "its state is not the one that was signed",
        ),
        ReadFault::Body => (
            Verdict::Malformed,
            FindingCode::BodyMalformed,
            "its state is not valid for a link of its kind",
        ),
        ReadFault::VersionChanged => (
            Verdict::Tampered,
            FindingCode::VersionChanged,
            "it was signed as another version: its first byte was changed to avoid the check of its signature",
        ),
    }
}
