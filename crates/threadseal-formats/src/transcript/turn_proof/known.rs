//! A host's knowledge of a record, compared with a proof of one of its turns (`spec/proofs.md`,
//! "Proofs of turns").
//!
//! A proof shows a part of the record as it once was. So it is never too old or too new. Only facts
//! that cannot be of one history with it count against it.

use super::Checked;
use threadseal_core::digest::Digest;
use threadseal_core::key::KeyId;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::heads::{check_forks, check_logged};
use threadseal_core::report::{
    Bearing, CheckName, CheckResult, Expectation, Finding, FindingCode, Verdict,
};
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};

/// The facts of a closing seal that a log may contradict, besides its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosingSeal {
    /// SHA-256 of line 1 of the record.
    pub(super) manifest: Digest,
    /// The authority, and the keys from line 1 to the one of the seal.
    pub(super) keys: Vec<KeyId>,
}

impl ClosingSeal {
    /// A turn that was closed before the histories parted is of both. Later turns are of one,
    /// unless the key that sealed both is a delegate. Such a key can invent seals of a record that
    /// ended without it.
    fn bearing(&self, fork: &LoggedFork, number: u64) -> Bearing {
        match fork.place {
            ForkPlace::Transcript { manifest, seq }
                if manifest == self.manifest && seq <= number =>
            {
                match self.keys.contains(&fork.key) {
                    true => Bearing::Forked,
                    false => Bearing::Unknown,
                }
            }
            _ => Bearing::Clear,
        }
    }
}

impl Checked {
    /// Compares the proof with a host's log: with the logged head of the same number, and with
    /// logged forks.
    pub fn hold(&mut self, expect: &[Expectation]) {
        let (Some(closing), Some(head)) = (&self.closing, self.report.head) else {
            return;
        };
        let mut is_known = false;
        for expected in expect {
            let ExpectedHead::Head(known) = expected.head else {
                continue;
            };
            if !expected.is_head() || (known.record, known.seq) != (head.record, head.seq) {
                continue;
            }
            let why = "another seal is in the place of the closing seal";
            is_known = true;
            let fits = known == head;
            let result = CheckResult::of(fits);
            check_logged(&mut self.report, expected, result, (!fits).then_some(why));
            if !fits {
                let finding =
                    Finding::error(FindingCode::HeadDiffers, format!("{known} is known: {why}"));
                self.report.downgrade(Verdict::Forked, finding);
            }
        }
        if !is_known {
            let why = format!("seal {} of the record is not known here", head.seq);
            self.report
                .check(CheckName::Log, CheckResult::Skipped, Some(why));
        }
        check_forks(&mut self.report, expect, |fork| {
            closing.bearing(fork, head.seq)
        });
        if self.report.verdict.is_evidence() {
            (self.turn, self.anchor) = (None, None);
            self.lines.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::record::RecordId;
    use threadseal_core::tlog::entry::fork::ForkedLinks;

    fn key(text: &[u8]) -> KeyId {
        KeyId::parse_hex(&Digest::of(text).to_hex()).unwrap()
    }

    #[test]
    fn a_fork_speaks_against_turns_behind_it_in_the_record_of_that_line_1_alone() {
        let line_1 = Digest::of(b"line 1");
        let closing = ClosingSeal {
            manifest: line_1,
            keys: vec![key(b"authority"), key(b"of the seal")],
        };
        let by = |place: ForkPlace, by: &[u8]| {
            let fork = LoggedFork {
                record: RecordId::from_bytes([7; 32]),
                key: key(by),
                evidence: Digest::of(b"evidence"),
                place,
            };
            closing.bearing(&fork, 5)
        };
        let seals = |manifest, seq| ForkPlace::Transcript { manifest, seq };
        assert_eq!(by(seals(line_1, 5), b"of the seal"), Bearing::Forked);
        assert_eq!(by(seals(line_1, 3), b"authority"), Bearing::Forked);
        assert_eq!(by(seals(line_1, 6), b"of the seal"), Bearing::Clear);
        // The key may be a delegate's, which can invent seals of a record that ended without it.
        assert_eq!(by(seals(line_1, 5), b"another"), Bearing::Unknown);
        let namesake = Digest::of(b"another line 1");
        assert_eq!(by(seals(namesake, 5), b"of the seal"), Bearing::Clear);
        let links = ForkedLinks {
            parent: Some(line_1),
            links: [line_1, line_1],
            seq: Some(1),
        };
        assert_eq!(by(ForkPlace::Lineage(links), b"authority"), Bearing::Clear);
    }
}
