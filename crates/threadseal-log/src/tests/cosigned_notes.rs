//! The stored cosignatures: those of one checkpoint never remove those of another.

use super::prelude::*;
use threadseal_core::tlog::cosignature::{CosignatureTime, cosign};
use threadseal_core::tlog::policy::{Judgement, Policy};
use threadseal_core::tlog::verifier::VerifierKey;

fn witness(number: u8) -> (KeyName, LocalSigner) {
    let name = KeyName::parse(&format!("witness.example/w{number}")).unwrap();
    let key = PrivateKey::from_seed([number + 20; 32]);
    (name, LocalSigner::new(key, KeyUsage::Witness))
}

/// A policy of the witnesses 0 and 1 of which at least so many count.
fn policy(log: &SealLog, name: &str, group: &str) -> (String, Policy) {
    let keys = [0, 1].map(|number| {
        let (name, signer) = witness(number);
        VerifierKey::of_witness(name, *signer.public_key())
    });
    let vkey = log.description().vkey();
    let text = format!(
        "log {vkey}\nwitness w0 {}\nwitness w1 {}\ngroup all {group}\nquorum all\n",
        keys[0], keys[1]
    );
    (name.to_owned(), Policy::parse(text.as_bytes()).unwrap())
}

fn both(log: &SealLog) -> Vec<(String, Policy)> {
    vec![policy(log, "both", "2 w0 w1")]
}

fn line(note: &SignedNote, number: u8, time: u64) -> NoteSignature {
    let (name, signer) = witness(number);
    let checkpoint = Checkpoint::parse(note.text()).unwrap();
    let time = CosignatureTime::from_seconds(time).unwrap();
    cosign(&checkpoint, &name, time, &signer).unwrap()
}

/// The last checkpoint, cosigned by these witnesses at a time.
fn cosigned(log: &SealLog, witnesses: &[u8], time: u64) -> SignedNote {
    let mut note = log.view().unwrap().checkpoint().clone();
    for number in witnesses {
        note.add(line(&note, *number, time)).unwrap();
    }
    note
}

/// The log with as many entries as this.
fn grown(log: &SealLog, size: u64) {
    log.commit_heads(heads(1, log.size()..size));
    assert_eq!(log.size(), size);
}

/// Keeps the last checkpoint, cosigned by these witnesses at a time.
fn keep(log: &SealLog, policies: &[(String, Policy)], witnesses: &[u8], time: u64) {
    let note = cosigned(log, witnesses, time);
    log.keep_cosigned(&note, policies).unwrap();
}

/// Sizes, numbers of lines, and whether a policy is met: the newest first.
fn kept(log: &SealLog, policies: &[(String, Policy)]) -> Vec<(u64, usize, bool)> {
    let kept = log.cosigned(policies, &mut |_| {}).unwrap().into_iter();
    let each = kept.map(|one| {
        let lines = one.note.signatures().len();
        (one.tree.size, lines, one.is_witnessed)
    });
    each.collect()
}

/// A log of which a quorum cosigned the first entry and not the second one; returns the cosigned
/// note.
fn seen_and_grown(log: &SealLog, policies: &[(String, Policy)]) -> SignedNote {
    grown(log, 1);
    let first = cosigned(log, &[0, 1], 100);
    log.keep_cosigned(&first, policies).unwrap();
    grown(log, 2);
    first
}

fn path(log: &SealLog, size: u64) -> PathBuf {
    log.access.dir.file(&format!("{size}.cosigned"))
}

// T-WIT-09
#[test]
fn a_witness_that_is_silent_takes_away_nothing_that_it_said_of_the_same_tree() {
    let scene = on_disk();
    let log = scene.open();
    grown(&log, 1);
    let policies = both(&log);
    keep(&log, &policies, &[0, 1], 100);
    keep(&log, &policies, &[0], 200);
    assert_eq!(kept(&log, &policies), [(1, 3, true)]);
    // Of each the latest, whichever came last.
    keep(&log, &policies, &[0, 1], 150);
    let note = log.cosigned(&policies, &mut |_| {}).unwrap().remove(0).note;
    let times = [line(&note, 0, 200), line(&note, 1, 150)];
    assert!(times.iter().all(|line| note.signatures().contains(line)));
    assert_eq!(note.signatures().len(), 3);
}

/// The newest file, as a disk that fails or any writer of the folder leaves it.
// T-WIT-13
#[test]
fn a_cosigned_checkpoint_that_cannot_be_read_is_told_and_hides_no_other() {
    let scene = on_disk();
    let log = scene.open();
    let policies = both(&log);
    seen_and_grown(&log, &policies);
    fs::create_dir(path(&log, 2)).unwrap();
    let mut told = 0;
    let seen = log.cosigned(&policies, &mut |_| told += 1).unwrap();
    let seen: Vec<_> = seen
        .iter()
        .map(|one| (one.tree.size, one.is_witnessed))
        .collect();
    assert_eq!((seen, told), (vec![(1, true)], 1));
    // What is heard later is kept beside it.
    grown(&log, 3);
    keep(&log, &policies, &[0], 200);
    assert_eq!(kept(&log, &policies), [(3, 2, false), (1, 3, true)]);
}

// T-WIT-09
#[test]
fn a_newer_tree_counts_only_once_it_meets_the_quorum_and_an_older_one_never_again() {
    let scene = on_disk();
    let log = scene.open();
    let policies = both(&log);
    let first = seen_and_grown(&log, &policies);
    keep(&log, &policies, &[0], 200);
    assert_eq!(kept(&log, &policies), [(2, 2, false), (1, 3, true)]);
    // A proof contains the tree that a quorum cosigned.
    let (_, proof) = log.proof_of(&head(1, 0).head, &policies).unwrap().unwrap();
    assert_eq!(proof.note, first);
    let judged = policies[0].1.judge(&proof.note);
    assert!(matches!(judged, Ok(Judgement::Witnessed(_))), "{judged:?}");
    let (_, proof) = log.proof_of(&head(1, 1).head, &policies).unwrap().unwrap();
    assert_eq!(proof.note, cosigned(&log, &[0], 200));
    grown(&log, 3);
    keep(&log, &policies, &[1], 300);
    assert_eq!(kept(&log, &policies), [(3, 2, false), (1, 3, true)]);
    keep(&log, &policies, &[0], 400);
    assert_eq!(kept(&log, &policies), [(3, 3, true)]);
    // A slow process stores the first one late.
    log.keep_cosigned(&first, &policies).unwrap();
    assert_eq!(kept(&log, &policies), [(3, 3, true)]);
    assert!(!path(&log, 1).exists() && !path(&log, 2).exists());
}

// T-WIT-09
#[test]
fn each_policy_keeps_the_newest_tree_that_meets_it() {
    let scene = on_disk();
    let log = scene.open();
    let mut policies = both(&log);
    policies.push(policy(&log, "second", "1 w1"));
    for (size, witnesses) in [(1, &[0, 1][..]), (2, &[1]), (3, &[0]), (4, &[0])] {
        grown(&log, size);
        keep(&log, &policies, witnesses, 100 * size);
    }
    let expected = [(4, 2, false), (2, 2, true), (1, 3, true)];
    assert_eq!(kept(&log, &policies), expected);
}

/// A writer of the folder has no witness key.
// T-WIT-10
#[test]
fn lines_of_another_tree_and_notes_of_another_log_count_for_nothing_and_hide_nothing() {
    let scene = on_disk();
    let log = scene.open();
    let policies = both(&log);
    let first = seen_and_grown(&log, &policies);
    let second = cosigned(&log, &[0], 200);
    log.keep_cosigned(&second, &policies).unwrap();
    // Witness 1's line for the first tree is below the second one, alone or after a line that
    // holds.
    let moved = line(&first, 1, 100);
    fs::write(path(&log, 2), format!("{second}{moved}")).unwrap();
    assert_eq!(kept(&log, &policies), [(2, 2, false), (1, 3, true)]);
    fs::write(path(&log, 1), format!("{first}{}", line(&second, 1, 300))).unwrap();
    assert_eq!(kept(&log, &policies), [(2, 2, false), (1, 3, true)]);
    log.keep_cosigned(&second, &policies).unwrap();
    assert_eq!(
        fs::read_to_string(path(&log, 2)).unwrap(),
        second.to_string()
    );
    // A checkpoint of another log, one by another name, and what is none.
    let log_key = LogKey(Arc::clone(&scene.key) as _);
    let tree = log.tree();
    let other = scene.describe(NEXT);
    let mut foreign = sign(&other, &log_key, TreeHead { size: 9, ..tree }).unwrap();
    foreign.add(line(&foreign, 0, 900)).unwrap();
    foreign.add(line(&foreign, 1, 900)).unwrap();
    for (size, bytes) in [
        (9, foreign.to_string()),
        (8, first.to_string()),
        (7, "none".to_owned()),
        (6, first.text().as_str().to_owned()),
    ] {
        fs::write(path(&log, size), bytes).unwrap();
        assert_eq!(kept(&log, &policies), [(2, 2, false), (1, 3, true)]);
    }
    let refused = log.keep_cosigned(&foreign, &policies).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    // Another history of this log: the note that was stored first stays, and the fork is reported.
    let root = Digest::of(b"another history");
    let forked = TreeHead { size: 1, root };
    let mut forked = sign(log.description(), &log_key, forked).unwrap();
    forked.add(line(&forked, 0, 900)).unwrap();
    let refused = log.keep_cosigned(&forked, &policies).unwrap_err();
    assert!(refused.to_string().starts_with("forked: "), "{refused}");
    assert_eq!(kept(&log, &policies), [(2, 2, false), (1, 3, true)]);
}
