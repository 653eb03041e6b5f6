//! The evidence of a host's log for the seal that closes a turn, inside the proof of that turn.
//!
//! ```text
//! entry <the log's entry for the closing seal> LF
//! <a C2SP tlog-proof of that entry, as it is, without `extra`>
//! ```
//! The proof of the turn is complete without it. This part shows where a log has the seal, and
//! which witnesses saw the log. The checker's policy names the log and the witnesses that count.

use super::NotAProof;
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_LOG_ENTRY_BYTES;
use threadseal_core::record::{Head, RecordKind};
use threadseal_core::report::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};
use threadseal_core::tlog::checkpoint::Origin;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_core::tlog::policy::{Judgement, NotAccepted, Policy, Witnessed};
use threadseal_core::tlog::proof_file::ProofFile;

/// The check that each report has.
const CHECK: CheckName = CheckName::Anchor;

/// The log's evidence, as written in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Anchor {
    entry: String,
    proof: ProofFile,
}

/// Where a log has the closing seal: proved to be in the tree of the included checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchored {
    /// The origin that its checkpoint claims.
    pub origin: Origin,
    /// The number of the entry.
    pub index: u64,
    /// The number of entries in that checkpoint.
    pub size: u64,
    /// The witnesses that saw it, where there was a policy and its quorum was met. Without it the
    /// checkpoint may be any log's.
    pub witnessed: Option<Witnessed>,
}

impl Anchored {
    /// Reports it among the data that nothing covers: the maker of the proof chose the log.
    fn claim(&self, report: &mut Report) {
        report.unauthenticated.extend([
            format!("log={}", self.origin),
            format!("log_entry={}", self.index),
            format!("log_size={}", self.size),
        ]);
    }
}

/// The seal that the log must have.
pub(super) struct Sealed<'s> {
    pub(super) head: &'s Head,
    pub(super) root: &'s Digest,
    pub(super) sealer: Option<&'s PublicKey>,
}

impl Anchor {
    pub(super) fn new(entry: &[u8], proof: ProofFile) -> Result<Self, Error> {
        let entry = std::str::from_utf8(entry).ok().filter(|text| fits(text));
        let entry = entry.ok_or_else(|| Error::invalid("not an entry of a log"))?;
        if repeats_a_line(&proof) {
            return Err(Error::invalid(
                "a signature line of the checkpoint occurs twice",
            ));
        }
        Ok(Self {
            entry: entry.to_owned(),
            proof,
        })
    }

    /// Reads the text after the word `entry`.
    pub(super) fn parse(text: &str) -> Result<Self, NotAProof> {
        let bad = NotAProof("its evidence of a log is malformed");
        let (entry, rest) = text.split_once('\n').ok_or(bad)?;
        let proof = ProofFile::parse(rest).map_err(|_| bad)?;
        // One proof has one text, and no text that no signature covers.
        let plain = proof.extra.is_none() && proof.to_string() == rest && !repeats_a_line(&proof);
        match plain && fits(entry) {
            true => Ok(Self {
                entry: entry.to_owned(),
                proof,
            }),
            false => Err(bad),
        }
    }

    /// Reports its evidence for `sealed` under this policy.
    pub(super) fn judge(
        anchor: Option<&Self>,
        sealed: &Sealed<'_>,
        policy: Option<&Policy>,
        report: &mut Report,
    ) -> Option<Anchored> {
        let Some(anchor) = anchor else {
            let why = "unanchored: the proof has no evidence of a log";
            match policy {
                None => report.check(CHECK, CheckResult::Skipped, Some(why.to_owned())),
                Some(_) => missing(report, why.to_owned()),
            }
            return None;
        };
        let mut anchored = match anchor.place(sealed) {
            Ok(anchored) => anchored,
            Err(why) => {
                bad(report, why);
                return None;
            }
        };
        let Some(policy) = policy else {
            let why = "no policy names this log and the witnesses that count";
            report.check(CHECK, CheckResult::Skipped, Some(why.to_owned()));
            anchored.claim(report);
            return Some(anchored);
        };
        match policy.judge(&anchor.proof.note) {
            Ok(Judgement::Witnessed(witnessed)) => {
                let Anchored {
                    origin,
                    index,
                    size,
                    ..
                } = &anchored;
                let at = witnessed.at().seconds();
                let why = format!(
                    "entry {index} of {origin}; a quorum cosigned its {size} entries at {at}"
                );
                report.check(CHECK, CheckResult::Pass, Some(why));
                anchored.witnessed = Some(witnessed);
            }
            Ok(Judgement::LogOnly(_)) => {
                let why = "the policy requires no witness, and the signature of a log alone is not enough";
                missing(report, why.to_owned());
                anchored.claim(report);
            }
            Err(NotAccepted::Note(why)) => {
                bad(report, format!("the checkpoint of the log: {why}"));
                return None;
            }
            Err(why) => {
                missing(report, why.to_string());
                anchored.claim(report);
            }
        }
        Some(anchored)
    }

    /// Where the log has the seal, or why it does not.
    fn place(&self, sealed: &Sealed<'_>) -> Result<Anchored, String> {
        let Ok(LogEntry::Head(logged)) = LogEntry::read(self.entry.as_bytes()) else {
            return Err("the log entry is not the head of a record".to_owned());
        };
        let LoggedHead {
            kind,
            head,
            root,
            key,
        } = logged;
        let same = kind == RecordKind::Transcript
            && head == *sealed.head
            && root.is_none_or(|root| root == *sealed.root)
            && key.is_none_or(|key| sealed.sealer.is_some_and(|by| by.key_id() == key));
        if !same {
            return Err("the log entry is for another seal".to_owned());
        }
        let checkpoint = self.proof.check(self.entry.as_bytes());
        let checkpoint =
            checkpoint.map_err(|why| format!("the entry is not in the named log: {why}"))?;
        Ok(Anchored {
            origin: checkpoint.origin().clone(),
            index: self.proof.index,
            size: checkpoint.tree().size,
            witnessed: None,
        })
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}\n{}", self.entry, self.proof)
    }
}

fn fits(entry: &str) -> bool {
    entry.len() <= MAX_LOG_ENTRY_BYTES && entry.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// No signature covers the choice and order of the collected signatures; but each is written once.
fn repeats_a_line(proof: &ProofFile) -> bool {
    let mut rest = proof.note.signatures();
    while let Some((line, behind)) = rest.split_first() {
        if behind.contains(line) {
            return true;
        }
        rest = behind;
    }
    false
}

fn missing(report: &mut Report, why: String) {
    report.check(CHECK, CheckResult::Fail, Some(why.clone()));
    report.downgrade(
        Verdict::Open,
        Finding::warning(FindingCode::AnchorMissing, why),
    );
}

fn bad(report: &mut Report, why: String) {
    report.check(CHECK, CheckResult::Fail, Some(why.clone()));
    report.downgrade(
        Verdict::Tampered,
        Finding::error(FindingCode::AnchorBad, why),
    );
}
