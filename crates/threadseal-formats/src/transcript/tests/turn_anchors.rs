//! The evidence of a log and its witnesses for a proved turn, and attacks on it.

use super::*;
use threadseal_core::tlog::checkpoint::{Checkpoint, Origin};
use threadseal_core::tlog::cosignature::{CosignatureTime, cosign};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::proof_file::ProofFile;
use threadseal_core::tlog::verifier::VerifierKey;

const ORIGIN: &str = "threadseal.log/0102";
const OTHER_ORIGIN: &str = "threadseal.log/0304";

fn log_signer() -> LocalSigner {
    signer(61, KeyUsage::Log)
}

fn witness(number: u8) -> LocalSigner {
    signer(70 + number, KeyUsage::Witness)
}

fn witness_name(number: u8) -> KeyName {
    KeyName::parse(&format!("witness.example/w{number}")).unwrap()
}

/// A policy of this log and two witnesses, of which `least` must have cosigned.
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

/// The leaves of a log of a few entries, `entry` at number 3.
struct Logged {
    leaves: Vec<Digest>,
}

impl Logged {
    fn with(entry: &[u8]) -> Self {
        let mut leaves: Vec<Digest> = (0..7_u8).map(|n| leaf_hash(&[n; 5])).collect();
        leaves[3] = leaf_hash(entry);
        Self { leaves }
    }

    /// The checkpoint, signed by the log, and cosigned by these witnesses.
    fn note(&self, origin: &str, witnesses: &[u8]) -> SignedNote {
        let tree = TreeHead {
            size: 7,
            root: root(&self.leaves),
        };
        let checkpoint = Checkpoint::new(Origin::parse(origin).unwrap(), tree).unwrap();
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
        ProofFile {
            extra: None,
            index,
            proof: inclusion(&self.leaves, index, 7),
            note,
        }
    }
}

/// The proof of the third turn, and the entry of a log for its closing seal.
struct Scene {
    bench: Bench,
    proof: TurnProof,
    head: LoggedHead,
    entry: Vec<u8>,
    log: Logged,
}

fn scene() -> Scene {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    let proof = TurnProof::make(&bench.verified(&bytes), &bytes, 3).unwrap();
    let head = LoggedHead {
        kind: RecordKind::Transcript,
        head: proof.check(&bench.options()).report.head.unwrap(),
        root: None,
        key: None,
    };
    let entry = LogEntry::Head(head).to_bytes().unwrap();
    Scene {
        bench,
        proof,
        head,
        log: Logged::with(&entry),
        entry,
    }
}

impl Scene {
    /// The proof with the entry and this evidence for it.
    fn anchored(&self, file: ProofFile) -> String {
        let anchored = self.proof.clone().anchored(&self.entry, file);
        anchored.unwrap().to_string()
    }

    /// The proof with a checkpoint that these witnesses cosigned.
    fn cosigned(&self, witnesses: &[u8]) -> String {
        self.anchored(self.log.proof(3, self.log.note(ORIGIN, witnesses)))
    }

    #[track_caller]
    fn judged(&self, text: &str, policy: Option<&Policy>, expected: &str) -> Checked {
        let checked = check_file_by(text.as_bytes(), &self.bench.options(), policy);
        assert_eq!(shown(&checked.report), expected);
        let refused = checked.report.verdict.is_evidence();
        assert_eq!(checked.lines.is_empty(), refused);
        checked
    }
}

#[test]
fn what_a_log_and_its_witnesses_say_of_a_turn_is_judged_by_the_file_and_a_policy_alone() {
    let scene = scene();
    let text = scene.cosigned(&[0, 1]);
    assert_eq!(TurnProof::parse(text.as_bytes()).unwrap().to_string(), text);
    let checked = scene.judged(&text, Some(&policy()), "verified");
    let anchor = checked.anchor.unwrap();
    assert_eq!((anchor.index, anchor.size), (3, 7));
    assert_eq!(anchor.origin.as_str(), ORIGIN);
    let witnessed = anchor.witnessed.unwrap();
    assert_eq!(witnessed.at().seconds(), 1_700_000_000);
    assert_eq!(witnessed.signed().cosignatures().len(), 2);
    // Without a policy the entry is proved to be in that tree, but the tree's log is not.
    let checked = scene.judged(&text, None, "verified");
    assert_eq!(checked.anchor.unwrap().witnessed, None);
    let check = checked.report.checks.iter().find(|c| c.name == "anchor");
    assert_eq!(check.unwrap().result, CheckResult::Skipped);
}

// T-PRF-22
#[test]
fn a_signature_line_of_the_logs_checkpoint_stands_once_wherever_it_stands() {
    let scene = scene();
    let (text, swapped) = (scene.cosigned(&[0, 1]), scene.cosigned(&[1, 0]));
    assert_ne!(swapped, text);
    scene.judged(&swapped, Some(&policy()), "verified");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for line in &lines[lines.len() - 3..] {
        let doubled = format!("{text}{line}");
        assert!(TurnProof::parse(doubled.as_bytes()).is_err(), "{line}");
    }
    let twice = scene.log.proof(3, scene.log.note(ORIGIN, &[0, 0]));
    assert!(scene.proof.anchored(&scene.entry, twice).is_err());
}

// T-PRF-19
#[test]
fn a_proof_without_a_log_says_so_and_meets_no_policy() {
    let scene = scene();
    let text = scene.proof.to_string();
    let checked = scene.judged(&text, None, "verified");
    let check = checked.report.checks.iter().find(|c| c.name == "anchor");
    assert!(check.unwrap().why.as_ref().unwrap().contains("unanchored"));
    scene.judged(&text, Some(&policy()), "open: anchor_missing");
}

// T-PRF-19
#[test]
fn a_quorum_that_is_short_another_log_and_no_witness_at_all_are_missing() {
    let scene = scene();
    for (witnesses, policy) in [
        (&[][..], policy()),
        (&[0], policy()),
        (&[1], policy()),
        (&[0, 1], policy_of(OTHER_ORIGIN, 2)),
        (&[0, 1], policy_of(ORIGIN, 0)),
    ] {
        let text = scene.cosigned(witnesses);
        let checked = scene.judged(&text, Some(&policy), "open: anchor_missing");
        assert_eq!(checked.anchor.unwrap().witnessed, None, "{witnesses:?}");
    }
    let text = scene.cosigned(&[0]);
    scene.judged(&text, Some(&policy_of(ORIGIN, 1)), "verified");
}

// T-PRF-18
#[test]
fn cosignatures_of_another_tree_or_of_another_origin_are_none() {
    let scene = scene();
    let other_tree = Logged::with(b"another entry").note(ORIGIN, &[1]);
    let other_origin = scene.log.note(OTHER_ORIGIN, &[1]);
    for other in [other_tree, other_origin] {
        let mut note = scene.log.note(ORIGIN, &[0]);
        note.add(other.signatures()[1].clone()).unwrap();
        let text = scene.anchored(scene.log.proof(3, note));
        let checked = scene.judged(&text, Some(&policy()), "tampered: anchor_bad");
        assert_eq!(checked.anchor, None);
    }
}

// T-PRF-18 T-PRF-20
#[test]
fn an_entry_that_is_not_in_the_tree_or_of_another_seal_proves_nothing() {
    let scene = scene();
    let fork = Logged::with(b"another entry");
    // The log signed a fork without the entry, and witnesses cosigned that fork.
    let forked = scene.log.proof(3, fork.note(ORIGIN, &[0, 1]));
    let elsewhere = scene.log.proof(2, scene.log.note(ORIGIN, &[0, 1]));
    for file in [forked, elsewhere] {
        let text = scene.anchored(file);
        for policy in [None, Some(&policy())] {
            scene.judged(&text, policy, "tampered: anchor_bad");
        }
    }
    // Entries that are in the tree, but for other seals.
    let edits: [fn(&mut LoggedHead); 7] = [
        |logged| logged.head.record = RecordId::from_bytes([9; 32]),
        |logged| logged.head.seq += 1,
        |logged| logged.head.size += 1,
        |logged| logged.head.line = Digest::of(b"another line"),
        |logged| logged.kind = RecordKind::Ledger,
        |logged| logged.root = Some(Digest::of(b"another root")),
        |logged| logged.key = Some(signer(2, KeyUsage::Rye).public_key().key_id()),
    ];
    for edit in edits {
        let mut other = scene.head;
        edit(&mut other);
        let entry = LogEntry::Head(other).to_bytes().unwrap();
        let log = Logged::with(&entry);
        let file = log.proof(3, log.note(ORIGIN, &[0, 1]));
        let text = scene.proof.clone().anchored(&entry, file).unwrap();
        scene.judged(&text.to_string(), Some(&policy()), "tampered: anchor_bad");
    }
}

/// After any change in the log's part, no quorum is met, or the proof is refused.
// T-PRF-21
#[test]
fn no_changed_byte_of_the_logs_part_is_witnessed() {
    let scene = scene();
    let text = scene.cosigned(&[0, 1]);
    let (start, policy) = (scene.proof.to_string().len(), policy());
    for at in start..text.len() {
        for bit in [1_u8, 0x20] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= bit;
            let checked = check_file_by(&bytes, &scene.bench.options(), Some(&policy));
            let witnessed = checked.anchor.and_then(|anchor| anchor.witnessed);
            assert_eq!(witnessed, None, "byte {at}");
            assert_ne!(checked.report.verdict, Verdict::Verified, "byte {at}");
        }
    }
    // Nor is any text allowed there that no signature covers.
    let mut file = scene.log.proof(3, scene.log.note(ORIGIN, &[0, 1]));
    file.extra = Some(b"believe me".to_vec());
    let text = scene.anchored(file);
    scene.judged(&text, Some(&policy), "malformed: proof_malformed");
}
