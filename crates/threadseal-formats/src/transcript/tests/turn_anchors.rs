//! The evidence of a log and its witnesses for a proved turn, and attacks on it.

use super::turns::rotated;
use super::*;
use crate::transcript::turn_proof::{Checked, TurnProof, check_file_by};
use threadseal_core::digest::Digest;
use threadseal_core::merkle::{InclusionProof, ProofError, TreeHead, leaf_hash, root};
use threadseal_core::note::{KeyName, SignedNote};
use threadseal_core::record::{Head, RecordKind};
use threadseal_core::report::CheckResult;
use threadseal_core::tlog::checkpoint::{Checkpoint, Origin};
use threadseal_core::tlog::cosignature::{CosignatureTime, cosign};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::proof_file::ProofFile;
use threadseal_core::tlog::verifier::VerifierKey;

const ORIGIN: &str = "threadseal.log/0102";

fn log_signer() -> LocalSigner {
    signer(61, KeyUsage::Log)
}

fn witness(number: u8) -> LocalSigner {
    signer(70 + number, KeyUsage::Witness)
}

fn witness_name(number: u8) -> KeyName {
    KeyName::parse(&format!("witness.example/w{number}")).unwrap()
}

/// A policy of this log and this many witnesses, of which `least` must have cosigned.
fn policy_of(origin: &str, least: usize) -> Policy {
    let log = VerifierKey::of_log(KeyName::parse(origin).unwrap(), *log_signer().public_key());
    let mut text = format!("log {log}\n");
    for number in 0..2 {
        let key = VerifierKey::of_witness(witness_name(number), *witness(number).public_key());
        text.push_str(&format!("witness w{number} {key}\n"));
    }
    text.push_str(&match least {
        0 => "quorum none\n".to_owned(),
        _ => format!("group all {least} w0 w1\nquorum all\n"),
    });
    Policy::parse(text.as_bytes()).unwrap()
}

fn policy() -> Policy {
    policy_of(ORIGIN, 2)
}

/// A log of a few entries, `entry` at number 3.
struct Logged {
    entries: Vec<Vec<u8>>,
}

impl Logged {
    fn with(entry: &[u8]) -> Self {
        let mut entries: Vec<Vec<u8>> = (0..7_u8).map(|n| vec![n; 5]).collect();
        entries[3] = entry.to_vec();
        Self { entries }
    }

    fn leaves(&self) -> Vec<Digest> {
        self.entries.iter().map(|entry| leaf_hash(entry)).collect()
    }

    fn checkpoint(&self, origin: &str) -> Checkpoint {
        let tree = TreeHead {
            size: 7,
            root: root(&self.leaves()),
        };
        Checkpoint::new(Origin::parse(origin).unwrap(), tree).unwrap()
    }

    /// The checkpoint, signed by the log, and cosigned by these witnesses.
    fn note(&self, origin: &str, witnesses: &[u8]) -> SignedNote {
        let checkpoint = self.checkpoint(origin);
        let mut note = checkpoint.sign(&log_signer()).unwrap();
        for number in witnesses {
            let time = CosignatureTime::from_seconds(1_700_000_000 + u64::from(*number)).unwrap();
            let by = witness(*number);
            note.add(cosign(&checkpoint, &witness_name(*number), time, &by).unwrap())
                .unwrap();
        }
        note
    }

    fn proof(&self, index: u64, note: SignedNote) -> ProofFile {
        let leaves = self.leaves();
        let proof = InclusionProof::make::<ProofError>(index, 7, &mut |node| {
            let from = usize::try_from(node.index << node.level).unwrap();
            Ok(root(&leaves[from..from + (1 << node.level)]))
        });
        ProofFile {
            extra: None,
            index,
            proof: proof.unwrap(),
            note,
        }
    }
}

/// The proof of the third turn, and the entry of a log for its closing seal.
fn proved(bench: &Bench) -> (TurnProof, LoggedHead) {
    let bytes = rotated(bench, 7);
    let verified = bench.verify(&bytes).verified.unwrap();
    let proof = TurnProof::make(&verified, &bytes, 3).unwrap();
    let head = proof.check(&bench.options()).report.head.unwrap();
    let logged = LoggedHead {
        kind: RecordKind::Transcript,
        head,
        root: None,
        key: None,
    };
    (proof, logged)
}

fn bytes_of(logged: LoggedHead) -> Vec<u8> {
    LogEntry::Head(logged).to_bytes().unwrap()
}

fn anchored(proof: &TurnProof, entry: &[u8], file: ProofFile) -> String {
    proof.clone().anchored(entry, file).unwrap().to_string()
}

fn judge(bench: &Bench, text: &str, policy: Option<&Policy>) -> Checked {
    check_file_by(text.as_bytes(), &bench.options(), policy)
}

#[track_caller]
fn says(checked: &Checked, verdict: Verdict, codes: &[&str]) {
    let report = &checked.report;
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect();
    assert_eq!((report.verdict, &found[..]), (verdict, codes));
    let believed = verdict > Verdict::Malformed;
    assert_eq!(checked.lines.is_empty(), !believed);
}

#[test]
fn what_a_log_and_its_witnesses_say_of_a_turn_is_judged_by_the_file_and_a_policy_alone() {
    let bench = Bench::new();
    let (proof, logged) = proved(&bench);
    let entry = bytes_of(logged);
    let log = Logged::with(&entry);
    let text = anchored(&proof, &entry, log.proof(3, log.note(ORIGIN, &[0, 1])));
    assert_eq!(TurnProof::parse(text.as_bytes()).unwrap().to_string(), text);
    let checked = judge(&bench, &text, Some(&policy()));
    says(&checked, Verdict::Verified, &[]);
    let anchor = checked.anchor.unwrap();
    assert_eq!((anchor.index, anchor.size), (3, 7));
    assert_eq!(anchor.origin.as_str(), ORIGIN);
    let witnessed = anchor.witnessed.unwrap();
    assert_eq!(witnessed.at().seconds(), 1_700_000_000);
    assert_eq!(witnessed.signed().cosignatures().len(), 2);
    // Without a policy the entry is proved to be in that tree, but the tree's log is not.
    let checked = judge(&bench, &text, None);
    says(&checked, Verdict::Verified, &[]);
    assert_eq!(checked.anchor.unwrap().witnessed, None);
    let check = checked.report.checks.iter().find(|c| c.name == "anchor");
    assert_eq!(check.unwrap().result, CheckResult::Skipped);
}

// T-PRF-22
#[test]
fn a_signature_line_of_the_logs_checkpoint_stands_once_wherever_it_stands() {
    let bench = Bench::new();
    let (proof, logged) = proved(&bench);
    let entry = bytes_of(logged);
    let log = Logged::with(&entry);
    let text = anchored(&proof, &entry, log.proof(3, log.note(ORIGIN, &[0, 1])));
    let swapped = anchored(&proof, &entry, log.proof(3, log.note(ORIGIN, &[1, 0])));
    assert_ne!(swapped, text);
    says(
        &judge(&bench, &swapped, Some(&policy())),
        Verdict::Verified,
        &[],
    );
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for line in &lines[lines.len() - 3..] {
        let doubled = format!("{text}{line}");
        assert!(TurnProof::parse(doubled.as_bytes()).is_err(), "{line}");
    }
    let twice = log.proof(3, log.note(ORIGIN, &[0, 0]));
    assert!(proof.clone().anchored(&entry, twice).is_err());
}

// T-PRF-19
#[test]
fn a_proof_without_a_log_says_so_and_meets_no_policy() {
    let bench = Bench::new();
    let (proof, _) = proved(&bench);
    let text = proof.to_string();
    let checked = judge(&bench, &text, None);
    says(&checked, Verdict::Verified, &[]);
    let check = checked.report.checks.iter().find(|c| c.name == "anchor");
    assert!(check.unwrap().why.as_ref().unwrap().contains("unanchored"));
    says(
        &judge(&bench, &text, Some(&policy())),
        Verdict::Open,
        &["anchor_missing"],
    );
}

// T-PRF-19
#[test]
fn a_quorum_that_is_short_another_log_and_no_witness_at_all_are_missing() {
    let bench = Bench::new();
    let (proof, logged) = proved(&bench);
    let entry = bytes_of(logged);
    let log = Logged::with(&entry);
    let text = |witnesses| anchored(&proof, &entry, log.proof(3, log.note(ORIGIN, witnesses)));
    for (text, policy) in [
        (text(&[]), policy()),
        (text(&[0]), policy()),
        (text(&[1]), policy()),
        (text(&[0, 1]), policy_of("threadseal.log/0304", 2)),
        (text(&[0, 1]), policy_of(ORIGIN, 0)),
    ] {
        let checked = judge(&bench, &text, Some(&policy));
        says(&checked, Verdict::Open, &["anchor_missing"]);
        assert_eq!(checked.anchor.unwrap().witnessed, None);
    }
    says(
        &judge(&bench, &text(&[0]), Some(&policy_of(ORIGIN, 1))),
        Verdict::Verified,
        &[],
    );
}

// T-PRF-18
#[test]
fn cosignatures_of_another_tree_or_of_another_origin_are_none() {
    let bench = Bench::new();
    let (proof, logged) = proved(&bench);
    let entry = bytes_of(logged);
    let log = Logged::with(&entry);
    let own = log.note(ORIGIN, &[0]);
    let other_tree = Logged::with(b"another entry").note(ORIGIN, &[1]);
    let other_origin = log.note("threadseal.log/0304", &[1]);
    for other in [other_tree, other_origin] {
        let mut note = own.clone();
        note.add(other.signatures()[1].clone()).unwrap();
        let text = anchored(&proof, &entry, log.proof(3, note));
        let checked = judge(&bench, &text, Some(&policy()));
        says(&checked, Verdict::Tampered, &["anchor_bad"]);
        assert_eq!(checked.anchor, None);
    }
}

// T-PRF-18 T-PRF-20
#[test]
fn an_entry_that_is_not_in_the_tree_or_of_another_seal_proves_nothing() {
    let bench = Bench::new();
    let (proof, logged) = proved(&bench);
    let entry = bytes_of(logged);
    let (log, fork) = (Logged::with(&entry), Logged::with(b"another entry"));
    let both = [0, 1];
    // The log signed a fork without the entry, and witnesses cosigned that fork.
    let forked = log.proof(3, fork.note(ORIGIN, &both));
    let elsewhere = log.proof(2, log.note(ORIGIN, &both));
    for file in [forked, elsewhere] {
        let text = anchored(&proof, &entry, file);
        for policy in [None, Some(&policy())] {
            says(
                &judge(&bench, &text, policy),
                Verdict::Tampered,
                &["anchor_bad"],
            );
        }
    }
    // Entries that are in the tree, but for other seals.
    let Head {
        record, seq, size, ..
    } = logged.head;
    let others = [
        Head {
            record: RecordId::from_bytes([9; 32]),
            ..logged.head
        },
        Head {
            seq: seq + 1,
            ..logged.head
        },
        Head {
            size: size + 1,
            ..logged.head
        },
        Head {
            line: Digest::of(b"another line"),
            ..logged.head
        },
    ];
    assert_eq!(record, logged.head.record);
    let heads = others.map(|head| LoggedHead { head, ..logged });
    let wrong = [
        LoggedHead {
            kind: RecordKind::Ledger,
            ..logged
        },
        LoggedHead {
            root: Some(Digest::of(b"another root")),
            ..logged
        },
        LoggedHead {
            key: Some(bench.rye.public_key().key_id()),
            ..logged
        },
    ];
    for other in heads.into_iter().chain(wrong) {
        let entry = bytes_of(other);
        let log = Logged::with(&entry);
        let text = anchored(&proof, &entry, log.proof(3, log.note(ORIGIN, &both)));
        let checked = judge(&bench, &text, Some(&policy()));
        says(&checked, Verdict::Tampered, &["anchor_bad"]);
    }
}

/// After any change in the log's part, no quorum is met, or the proof is refused.
// T-PRF-21
#[test]
fn no_changed_byte_of_the_logs_part_is_witnessed() {
    let bench = Bench::new();
    let (proof, logged) = proved(&bench);
    let entry = bytes_of(logged);
    let log = Logged::with(&entry);
    let text = anchored(&proof, &entry, log.proof(3, log.note(ORIGIN, &[0, 1])));
    let (start, policy) = (proof.to_string().len(), policy());
    for at in start..text.len() {
        for bit in [1_u8, 0x20] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= bit;
            let checked = check_file_by(&bytes, &bench.options(), Some(&policy));
            let witnessed = checked.anchor.and_then(|anchor| anchor.witnessed);
            assert_eq!(witnessed, None, "byte {at}");
            assert_ne!(checked.report.verdict, Verdict::Verified, "byte {at}");
        }
    }
    // Nor is any text allowed there that no signature covers.
    let mut file = log.proof(3, log.note(ORIGIN, &[0, 1]));
    file.extra = Some(b"believe me".to_vec());
    let text = anchored(&proof, &entry, file);
    says(
        &judge(&bench, &text, Some(&policy)),
        Verdict::Malformed,
        &["proof_malformed"],
    );
}
