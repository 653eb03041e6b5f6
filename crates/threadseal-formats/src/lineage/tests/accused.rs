//! Verdicts on fork proofs, and the copies that a known fork affects.

use super::proofs::of;
use super::*;

fn check(proof: &[u8], trust: &Trust, now: Timestamp) -> CheckedFork {
    let mut reader = ForkReader::new();
    proof.chunks(7).for_each(|piece| reader.push(piece));
    let checked = check_fork(reader, &Judging::new(trust, now));
    let proved = checked.report.verdict == Verified;
    assert_eq!(checked.proved.is_some(), proved);
    checked
}

/// The entry of a log that accepts this evidence.
fn logged(proof: &[u8]) -> LoggedFork {
    let checked = check(proof, &Trust::key(key(1)), now());
    *checked.proved.unwrap().get()
}

/// Checks the verdict on these files where a log knows that fork.
#[track_caller]
fn seen(files: &[&Made], fork: LoggedFork, view: View, verdict: Verdict, code: &str) {
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
    is(&judged(facts(files), &judging).report, verdict, code);
}

// T-FRK-15
#[test]
fn a_fork_convicts_the_agent_whose_key_is_trusted_now_and_nobody_else() {
    let a = first(1, 2);
    let (b, c) = (a.next(2, b"one"), a.next(2, b"two"));
    let proof = of(&b, &c);
    let expected = LoggedFork {
        record: record_of(&a),
        key: key(1).key_id(),
        evidence: Digest::of(&proof),
        place: ForkPlace::Lineage(ForkedLinks {
            parent: Some(a.hash.digest()),
            links: [b.hash.min(c.hash).digest(), b.hash.max(c.hash).digest()],
            seq: Some(1),
        }),
    };
    assert_eq!(logged(&proof), expected);
    let both = || trust_in([1, 2].map(|seed| (key(seed), KeyUsage::Native)));
    for (trust, at, verdict, code) in [
        (Trust::default(), now(), UnknownSigner, "key_unknown"),
        (Trust::key(key(5)), now(), UnknownSigner, "other_signer"),
        // An attacker with an expired key can sign another link beside one that the key once
        // signed.
        (
            Trust::key(key(1)),
            later(),
            UnknownSigner,
            "delegation_ended",
        ),
        (
            revoked(both(), "key-1", now()),
            now(),
            UnknownSigner,
            "key_ended",
        ),
        (
            revoked(both(), "key-2", now()),
            now(),
            UnknownSigner,
            "key_ended",
        ),
    ] {
        let _row = Row((&trust.pinned, at, code));
        let checked = check(&proof, &trust, at);
        is(&checked.report, verdict, "links_conflict");
        assert_eq!(codes(&checked.report).last(), Some(&code));
        assert!(checked.shown.is_ok());
    }
}

// T-FRK-15
#[test]
fn what_proves_nothing_convicts_nobody() {
    let a = first(1, 2);
    let b = a.next(2, b"one");
    let proof = of(&b, &a.next(2, b"two"));
    let trust = Trust::key(key(1));
    for (proof, code) in [
        (&proof[..90], "proof_malformed"),
        (&of(&b, &b.next(2, b"three")), "no_conflict"),
    ] {
        let checked = check(proof, &trust, now());
        assert!(checked.shown.is_err());
        is(&checked.report, Verdict::Malformed, "");
        assert_eq!(codes(&checked.report)[0], code);
    }
    for at in 0..proof.len() {
        let mut changed = proof.clone();
        changed[at] ^= 1;
        assert!(check(&changed, &trust, now()).proved.is_none(), "{at}");
    }
}

// T-FRK-08 T-FRK-15
#[test]
fn a_known_fork_speaks_against_every_copy_that_goes_on_from_it_and_no_other() {
    let a = first(1, 2);
    let before = a.next(2, b"before");
    let parent = before.next(2, b"parent");
    let [b, c, third] = [&b"one"[..], b"two", b"three"].map(|state| parent.next(2, state));
    let later = b.next(2, b"later");
    let last = later.next(2, b"last");
    // The root continued after `before` by giving up all of the fork.
    let healed = before.recover(1, Some(&parent));
    let fork = logged(&of(&b, &c));
    for (files, verdict) in [
        (&[&a, &before, &parent][..], Forked),
        (&[&a, &before, &parent, &b], Forked),
        (&[&a, &before, &parent, &b, &later], Forked),
        (&[&a, &before, &parent, &c], Forked),
        (&[&a, &before, &parent, &third], Forked),
        (&[&a, &before], Verified),
        (&[&a, &before, &healed], Verified),
        (&[&a, &before, &parent, &b, &later, &healed], Verified),
    ] {
        let _row = Row(files.iter().map(|made| made.hash).collect::<Vec<_>>());
        let code = if verdict == Forked { "fork_known" } else { "" };
        seen(files, fork, View::History, verdict, code);
    }
    // For one link alone, its history is missing.
    for (link, verdict, code) in [
        (&b, Forked, "fork_known"),
        (&third, Forked, "fork_known"),
        (&later, Forked, "fork_known"),
        (&last, Open, "forks_unknown"),
        (&before, Verified, ""),
    ] {
        let _row = Row(link.hash);
        seen(&[link], fork, View::Single, verdict, code);
    }
}

/// A key of v0x04 may be that of several agents. A verifier that knows only the key sees one
/// record.
// T-FRK-15
#[test]
fn a_fork_of_one_agent_of_a_key_says_nothing_of_another_agent_of_that_key() {
    let seal = |prev: Option<&Made>, state| Made::igor(original(prev.map(|it| it.hash)), 1, state);
    let (a, other) = (seal(None, b"first"), seal(None, b"first of another"));
    let (b, c) = (seal(Some(&a), b"one"), seal(Some(&a), b"two"));
    let goes_on = seal(Some(&other), b"more");
    let fork = logged(&of(&b, &c));
    assert_eq!(fork.record, record_of(&other));
    seen(&[&a, &b], fork, View::History, Forked, "fork_known");
    seen(&[&other, &goes_on], fork, View::History, Verified, "");
}

fn record_of(made: &Made) -> RecordId {
    Identity::of(&made.header).unwrap().record
}
