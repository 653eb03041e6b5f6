//! Verdicts on fork proofs, and the copies that a known fork affects.

use super::made::{Made, facts, first, hand, judged, next, now, says};
use super::proofs::of;
use super::*;
use threadseal_core::report::{Expectation, KnownFork, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::fork::{ForkPlace, ForkedLinks, LoggedFork};
use threadseal_core::trust::{Revocation, Trust, TrustName, TrustStore, TrustedKey};

fn check(proof: &[u8], judging: &Judging<'_>) -> CheckedFork {
    let mut reader = ForkReader::new();
    proof.chunks(7).for_each(|piece| reader.push(piece));
    check_fork(reader, judging)
}

fn codes(checked: &CheckedFork) -> Vec<&'static str> {
    checked
        .report
        .findings
        .iter()
        .map(|found| found.code.as_str())
        .collect()
}

/// The entry of a log that accepts this evidence.
fn logged(proof: &[u8], root: u8) -> LoggedFork {
    let trust = Trust::key(key(root));
    let checked = check(proof, &Judging::new(&trust, now()));
    *checked
        .proved
        .unwrap_or_else(|| panic!("{:?}", checked.report))
        .get()
}

/// The verdict on these files where a log knows that fork.
fn seen(files: &[&Made], fork: LoggedFork, view: View) -> Outcome {
    let trust = Trust::key(key(1));
    let known = KnownFork {
        fork,
        entry: "entry 7 of a log".into(),
    };
    let judging = Judging {
        expect: vec![Expectation::forked(known)],
        view,
        ..Judging::new(&trust, now())
    };
    judged(facts(files), &judging)
}

/// The root recovers the agent after `before`, and gives up `void`.
fn recovered(before: &Made, void: &Made) -> Made {
    let body = LinkBody::Recover(Recover {
        epoch: 2,
        void: Some(void.hash),
        key: key(4),
        nonce: [0; 32],
    });
    hand(before, 1, 1, &body)
}

fn revoked(seed: u8) -> Trust {
    let mut store = TrustStore::new();
    let usages = [KeyUsage::Native];
    for (name, seed) in [("root", 1), ("session", 2)] {
        let name = TrustName::parse(name).unwrap();
        store.add(TrustedKey::new(name, key(seed), usages)).unwrap();
    }
    let revocation = Revocation {
        at: now(),
        entry: None,
        reason: "stolen".into(),
    };
    let name = if seed == 1 { "root" } else { "session" };
    store
        .revoke(&TrustName::parse(name).unwrap(), revocation)
        .unwrap();
    Trust::new(store)
}

// T-FRK-15
#[test]
fn a_fork_convicts_the_agent_whose_key_is_trusted_now_and_nobody_else() {
    let a = first(1, 2);
    let (b, c) = (next(&a, 2, b"one", |_| {}), next(&a, 2, b"two", |_| {}));
    let proof = of(&b, &c);
    let fork = logged(&proof, 1);
    assert_eq!(
        (fork.key, fork.evidence),
        (key(1).key_id(), Digest::of(&proof))
    );
    let links = [b.hash.min(c.hash).digest(), b.hash.max(c.hash).digest()];
    let place = ForkedLinks {
        parent: Some(a.hash.digest()),
        links,
        seq: Some(1),
    };
    assert_eq!(fork.place, ForkPlace::Lineage(place));
    let by = |trust: &Trust, now: Timestamp| {
        let checked = check(&proof, &Judging::new(trust, now));
        let proved = checked.proved.is_some();
        assert_eq!(proved, checked.report.verdict == Verdict::Verified);
        assert!(checked.shown.is_ok() && codes(&checked).contains(&"links_conflict"));
        (checked.report.verdict, *codes(&checked).last().unwrap())
    };
    let nobody = Trust::new(TrustStore::new());
    assert_eq!(by(&nobody, now()), (Verdict::UnknownSigner, "key_unknown"));
    let other = Trust::key(key(5));
    assert_eq!(by(&other, now()), (Verdict::Forged, "key_not_pinned"));
    // An attacker with an expired key can sign another link beside one that the key once signed.
    let later = Timestamp::from_micros(now().as_micros() + 60_000_000).unwrap();
    let own = Trust::key(key(1));
    assert_eq!(
        by(&own, later),
        (Verdict::UnknownSigner, "delegation_ended")
    );
    for ended in [1, 2] {
        let trust = revoked(ended);
        assert_eq!(
            by(&trust, now()),
            (Verdict::UnknownSigner, "key_ended"),
            "{ended}"
        );
    }
}

// T-FRK-15
#[test]
fn what_proves_nothing_convicts_nobody() {
    let a = first(1, 2);
    let (b, c) = (next(&a, 2, b"one", |_| {}), next(&a, 2, b"two", |_| {}));
    let trust = Trust::key(key(1));
    let judging = Judging::new(&trust, now());
    let told = |proof: &[u8]| {
        let checked = check(proof, &judging);
        assert!(checked.proved.is_none() && checked.shown.is_err());
        (checked.report.verdict, codes(&checked)[0])
    };
    let proof = of(&b, &c);
    assert_eq!(told(&proof[..90]), (Verdict::Malformed, "proof_malformed"));
    let behind = next(&b, 2, b"three", |_| {});
    assert_eq!(told(&of(&b, &behind)), (Verdict::Malformed, "no_conflict"));
    for at in 0..proof.len() {
        let mut changed = proof.clone();
        changed[at] ^= 1;
        assert!(check(&changed, &judging).proved.is_none(), "{at}");
    }
}

// T-FRK-08 T-FRK-15
#[test]
fn a_known_fork_speaks_against_every_copy_that_goes_on_from_it_and_no_other() {
    let a = first(1, 2);
    let before = next(&a, 2, b"before", |_| {});
    let parent = next(&before, 2, b"parent", |_| {});
    let (b, c) = (
        next(&parent, 2, b"one", |_| {}),
        next(&parent, 2, b"two", |_| {}),
    );
    let later = next(&b, 2, b"later", |_| {});
    let third = next(&parent, 2, b"three", |_| {});
    let fork = logged(&of(&b, &c), 1);
    let forked: [&[&Made]; 5] = [
        &[&a, &before, &parent],
        &[&a, &before, &parent, &b],
        &[&a, &before, &parent, &b, &later],
        &[&a, &before, &parent, &c],
        &[&a, &before, &parent, &third],
    ];
    for copy in forked {
        let outcome = seen(copy, fork, View::History);
        says(&outcome, Verdict::Forked, "fork_known");
        assert!(outcome.verified.is_none());
    }
    // One that ends before the fork, and one that the root continued by giving up all of it.
    let healed = recovered(&before, &parent);
    let clear: [&[&Made]; 3] = [
        &[&a, &before],
        &[&a, &before, &healed],
        &[&a, &before, &parent, &b, &later, &healed],
    ];
    for copy in clear {
        says(&seen(copy, fork, View::History), Verdict::Verified, "");
    }
    // For one link alone, its history is missing.
    let last = next(&later, 2, b"last", |_| {});
    for link in [&b, &third, &later] {
        says(
            &seen(&[link], fork, View::Single),
            Verdict::Forked,
            "fork_known",
        );
    }
    says(
        &seen(&[&last], fork, View::Single),
        Verdict::Open,
        "forks_unknown",
    );
    says(&seen(&[&before], fork, View::Single), Verdict::Verified, "");
}

/// A key of v0x04 may be that of several agents. A verifier that knows only the key sees one
/// record.
// T-FRK-15
#[test]
fn a_fork_of_one_agent_of_a_key_says_nothing_of_another_agent_of_that_key() {
    let seal = |prev: Option<ContentHash>, state: &[u8]| {
        let sealed = seal_original(original(prev), state, &igor(1)).unwrap();
        Made {
            file: [sealed.bytes.as_slice(), state].concat(),
            header: sealed.header,
            hash: sealed.hash,
        }
    };
    let (a, other) = (seal(None, b"first"), seal(None, b"first of another"));
    let (b, c) = (seal(Some(a.hash), b"one"), seal(Some(a.hash), b"two"));
    let fork = logged(&of(&b, &c), 1);
    assert_eq!(fork.record, record_of(&other));
    says(
        &seen(&[&a, &b], fork, View::History),
        Verdict::Forked,
        "fork_known",
    );
    let goes_on = seal(Some(other.hash), b"more");
    let outcome = seen(&[&other, &goes_on], fork, View::History);
    says(&outcome, Verdict::Verified, "");
}

fn record_of(made: &Made) -> threadseal_core::record::RecordId {
    Identity::of(&made.header).unwrap().record
}
