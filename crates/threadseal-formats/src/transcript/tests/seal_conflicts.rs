//! Two histories of one record: evidence against the key that sealed both, and cases without
//! evidence.

use super::*;
use crate::transcript::turn_proof::conflict::{CheckedConflict, SealConflict, check_file};

/// The record up to and including its n-th seal, from 0.
fn cut(record: &[u8], seals: usize) -> Vec<u8> {
    let lines = lines_of(record);
    let seal = (0..lines.len()).filter(|at| is_seal(lines[*at])).nth(seals);
    lines[..=seal.unwrap()].concat()
}

/// The n-th seal, from 0.
fn seal_of(record: &[u8], number: usize) -> String {
    let seals = texts_of(record).into_iter();
    let mut seals = seals.filter(|line| is_seal(line.as_bytes()));
    seals.nth(number).unwrap().to_owned()
}

/// The copy continued with this text, sealed by `key`.
fn gone_on(bench: &Bench, copy: &[u8], text: &str, key: &LocalSigner) -> Vec<u8> {
    let mut draft = Draft::reopened(bench, copy);
    draft.event("cognition_in", &format!("{{\"text\":\"{text}\"}}"));
    draft.seal_by(key, draft.sealer.turn() + 1).unwrap();
    draft.bytes
}

/// Two continuations of a record after three keys, by the key that seals it then.
fn forked(bench: &Bench) -> [Vec<u8>; 2] {
    let (_, third, _) = rotated_keys();
    let before = cut(&rotated(bench, 7), 5);
    ["one", "other"].map(|text| gone_on(bench, &before, text, &third))
}

/// The evidence in two copies.
fn evidence(one: &[u8], other: &[u8]) -> String {
    let found = SealConflict::find(one, other).unwrap().unwrap();
    found.to_string()
}

fn checked(bench: &Bench, file: &str) -> CheckedConflict {
    check_file(file.as_bytes(), &bench.options())
}

fn judged(bench: &Bench, file: &str) -> String {
    shown(&checked(bench, file).report)
}

/// All but the two seals, and these.
fn parts(file: &str) -> (&str, &str, &str) {
    let (rest, second) = file.trim_end().rsplit_once("\nseal ").unwrap();
    let (head, first) = rest.rsplit_once("\nseal ").unwrap();
    (head, first, second)
}

/// The evidence of `file` with these seals in place of its own.
fn with_seals(file: &str, one: &str, other: &str) -> String {
    let mut seals = [one, other];
    seals.sort_unstable();
    format!("{}\nseal {}\nseal {}\n", parts(file).0, seals[0], seals[1])
}

fn line_1(record: &[u8]) -> Digest {
    Digest::of(lines_of(record)[0].trim_ascii_end())
}

fn known(fork: LoggedFork) -> Expectation {
    Expectation::forked(KnownFork {
        fork,
        entry: "entry 7 of a log".into(),
    })
}

// T-FRK-02
#[test]
fn who_sealed_two_histories_is_convicted_in_whatever_order_they_are_found() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let text = evidence(&one, &other);
    assert_eq!(evidence(&other, &one), text);
    let parsed = SealConflict::parse(text.as_bytes()).unwrap();
    assert_eq!(parsed.to_string(), text);
    let report = checked(&bench, &text).report;
    assert_eq!(shown(&report), "verified: seals_conflict");
    for record in [&one, &other] {
        let head = bench.verify(record).report.head.unwrap().to_string();
        assert!(report.findings[0].message.contains(&head), "{report:?}");
    }
    // The proof contains no text of either.
    assert!(!text.contains("secret-") && !text.contains("other"));
    // They part at their first difference, independent of their lengths and tails.
    let longer = gone_on(&bench, &one, "more", &rotated_keys().1);
    let torn = [&longer[..], b"{\"timestamp\""].concat();
    assert_eq!(evidence(&torn, &other), text);
}

/// A logged fork affects each copy, but no record of the same id with another line 1.
// T-FRK-14
#[test]
fn a_known_fork_speaks_against_every_copy_and_no_other_record() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let text = evidence(&one, &other);
    let fork = *checked(&bench, &text).proved.unwrap().get();
    let place = |manifest| ForkPlace::Transcript { manifest, seq: 6 };
    let expected = LoggedFork {
        record: RecordId::from_bytes([7; 32]),
        key: rotated_keys().1.public_key().key_id(),
        evidence: Digest::of(text.as_bytes()),
        place: place(line_1(&one)),
    };
    assert_eq!(fork, expected);
    for copy in [&one, &other, &cut(&one, 3)] {
        let outcome = bench.expecting(copy, known(fork));
        assert_eq!(outcome.report.verdict, Verdict::Forked);
        assert_eq!(codes(&outcome.report).first(), Some(&"fork_known"));
        assert!(outcome.verified.is_none() && outcome.sealer.is_none());
        assert!(outcome.lenient().is_none());
    }
    let namesake = LoggedFork {
        place: place(Digest::of(b"another line 1")),
        ..fork
    };
    let report = bench.expecting(&one, known(namesake)).report;
    assert_eq!(report, bench.verify(&one).report);
}

/// A delegate can sign seals of any number after the end of a record. They are evidence of two
/// histories, but of none of this one.
// T-FRK-13
#[test]
fn a_record_that_ended_without_whom_the_evidence_convicts_stays_whole() {
    let bench = Bench::new();
    let record = bench.record();
    assert_eq!(bench.verdict(&record), Verdict::Verified);
    let stranger = rotated_keys().2;
    let far = 1_000_000;
    for (row, record, key, seq, verdict) in [
        ("a stranger's", &record, &stranger, far, Verdict::Verified),
        (
            "after the end",
            &record,
            &bench.native,
            far,
            Verdict::Verified,
        ),
        // With seals that the copy has, it is one of two histories. A copy without an end may still
        // become one.
        ("its own seal", &record, &bench.native, 0, Verdict::Forked),
        ("no end", &cut(&record, 0), &stranger, far, Verdict::Forked),
    ] {
        let fork = LoggedFork {
            record: RecordId::from_bytes([7; 32]),
            key: key.public_key().key_id(),
            evidence: Digest::of(b"evidence"),
            place: ForkPlace::Transcript {
                manifest: line_1(record),
                seq,
            },
        };
        let report = bench.expecting(record, known(fork)).report;
        assert_eq!(report.verdict, verdict, "{row}");
    }
}

// T-FRK-16
#[test]
fn whose_keys_they_are_is_for_the_readers_trust() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let text = evidence(&one, &other);
    let elsewhere = thread_id("demo/other");
    for (trust, thread, verdict) in [
        (Trust::default(), None, Verdict::UnknownSigner),
        (pin(&native(77)), None, Verdict::UnknownSigner),
        (pin(&bench.native), None, Verdict::Verified),
        (pin(&bench.native), Some(&elsewhere), Verdict::Foreign),
    ] {
        let options = VerifyOptions {
            thread,
            ..bench.trusting(&trust)
        };
        let report = check_file(text.as_bytes(), &options).report;
        assert_eq!(report.verdict, verdict);
    }
}

fn every_change_is_noticed(bench: &Bench, text: &str) {
    for at in 0..text.len() {
        let mut bad = text.as_bytes().to_vec();
        bad[at] ^= 1;
        let report = check_file(&bad, &bench.options()).report;
        assert_eq!(report.verdict.exit_code(), 1, "{at}: {report:?}");
        let cut = check_file(&text.as_bytes()[..at], &bench.options()).report;
        assert_eq!(cut.verdict, Verdict::Malformed, "{at}");
    }
}

// T-FRK-12
#[test]
fn every_changed_bit_of_the_evidence_is_noticed() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    every_change_is_noticed(&bench, &evidence(&one, &other));
}

// T-FRK-12
#[test]
fn an_honest_record_however_it_is_cut_convicts_nobody() {
    let bench = Bench::new();
    let record = rotated(&bench, 7);
    for seals in 0..7 {
        let older = cut(&record, seals);
        assert_eq!(SealConflict::find(&older, &record), Ok(None));
        let torn = &record[..older.len() + 9];
        assert_eq!(SealConflict::find(&record, torn), Ok(None));
    }
    assert!(SealConflict::find(&record, &rotated(&bench, 8)).is_err());
    assert!(SealConflict::find(b"", b"").is_err());
    // Nor does a file with its seals that an attacker writes: two numbers, one seal twice, another
    // record's.
    let [one, other] = forked(&bench);
    let text = evidence(&one, &other);
    let third = rotated_keys().1;
    let longer = gone_on(&bench, &one, "more", &third);
    let foreign = gone_on(&bench, &cut(&rotated(&bench, 8), 5), "x", &third);
    for (seals, expected) in [
        (
            [seal_of(&longer, 6), seal_of(&longer, 7)],
            "malformed: no_conflict",
        ),
        (
            [seal_of(&one, 6), seal_of(&one, 6)],
            "malformed: proof_malformed",
        ),
        (
            [seal_of(&one, 6), seal_of(&foreign, 6)],
            "tampered: checkpoint_altered",
        ),
    ] {
        let file = with_seals(&text, &seals[0], &seals[1]);
        assert_eq!(judged(&bench, &file), expected);
    }
}

/// A key that was given up is no evidence against the one that replaced it. A thief of the old key
/// could frame an honest record.
// T-FRK-12
#[test]
fn seals_of_two_keys_convict_neither() {
    let bench = Bench::new();
    let (_, third, delegate) = rotated_keys();
    // The delegate may seal beside the key; the number is the same and both are admitted.
    let before = cut(&rotated(&bench, 7), 7);
    let honest = gone_on(&bench, &before, "one", &third);
    let by_delegate = gone_on(&bench, &before, "other", &delegate);
    assert!(SealConflict::find(&honest, &by_delegate).is_err());
    let text = evidence(&honest, &gone_on(&bench, &before, "again", &third));
    let made = with_seals(&text, parts(&text).1, &seal_of(&by_delegate, 8));
    let report = checked(&bench, &made).report;
    assert_eq!(report.verdict, Verdict::Forged);
}

/// Two continuations by two keys in turn, such that no seal of one number is of one key in both.
fn crossed(bench: &Bench) -> [Vec<u8>; 2] {
    let (_, third, delegate) = rotated_keys();
    let before = cut(&rotated(bench, 7), 7);
    [("one", [&third, &delegate]), ("other", [&delegate, &third])].map(|(text, [first, then])| {
        let once = gone_on(bench, &before, text, first);
        gone_on(bench, &once, "more", then)
    })
}

// T-FRK-03
#[test]
fn who_sealed_two_histories_at_two_sizes_is_convicted_by_the_line_where_they_part() {
    let bench = Bench::new();
    let [one, other] = crossed(&bench);
    let text = evidence(&one, &other);
    let parsed = SealConflict::parse(text.as_bytes()).unwrap();
    assert_eq!(parsed.to_string(), text);
    let both = lines_of(&one).into_iter().zip(lines_of(&other));
    let parted = both.take_while(|(here, there)| here == there).count() + 1;
    let part = format!("\nparted {parted}\nleaf ");
    assert!(text.contains(&part), "{text}");
    let checked = checked(&bench, &text);
    assert_eq!(shown(&checked.report), "verified: seals_conflict");
    let fork = *checked.proved.unwrap().get();
    let place = ForkPlace::Transcript {
        manifest: line_1(&one),
        seq: 8,
    };
    let evidence_of = Digest::of(text.as_bytes());
    assert_eq!((fork.place, fork.evidence), (place, evidence_of));
    // In the other order the evidence may be against the other key, but it is from the same two
    // copies.
    let report = judged(&bench, &evidence(&other, &one));
    assert_eq!(report, "verified: seals_conflict");
    assert!(!text.contains("secret-") && !text.contains("\"other\""));
    every_change_is_noticed(&bench, &text);
}

/// The later seal of an honest record covers the same lines as the earlier one.
// T-FRK-11
#[test]
fn two_seals_of_one_history_convict_nobody_by_any_line() {
    let bench = Bench::new();
    let (_, third, _) = rotated_keys();
    let before = cut(&rotated(&bench, 7), 7);
    let once = gone_on(&bench, &before, "one", &third);
    let honest = gone_on(&bench, &once, "more", &third);
    let conflict = evidence(&honest, &gone_on(&bench, &before, "again", &third));
    let (head, one, two) = parts(&conflict);
    let lines = texts_of(&honest);
    let leaves: Vec<Digest> = lines
        .iter()
        .map(|line| leaf_hash(line.as_bytes()))
        .collect();
    let sealed = |number| {
        let seal = seal_of(&honest, number);
        let at = lines.iter().position(|line| *line == seal).unwrap();
        (at, seal)
    };
    let by_hand = |line: usize, seals: [usize; 2]| {
        let mut shown = seals.map(|number| {
            let (size, seal) = sealed(number);
            let proof = inclusion(&leaves, line as u64, size as u64);
            let hash = |hash: &Digest| format!("hash {}\n", base64(hash.as_bytes()));
            let hashes: String = proof.hashes().iter().map(hash).collect();
            let leaf = base64(leaves[line].as_bytes());
            let text = format!("leaf {leaf}\n{hashes}seal {seal}\n");
            (seal, text)
        });
        shown.sort();
        format!("{head}\nparted {}\n{}{}", line + 1, shown[0].1, shown[1].1)
    };
    for line in 0..sealed(8).0 {
        let report = judged(&bench, &by_hand(line, [8, 9]));
        assert_eq!(report, "malformed: no_conflict", "{line}");
    }
    // Another leaf is not in the tree.
    let text = by_hand(3, [8, 9]);
    let [leaf, other] = [3, 4].map(|line: usize| base64(leaves[line].as_bytes()));
    let report = judged(&bench, &text.replacen(&leaf, &other, 1));
    assert_eq!(report, "tampered: content_changed");
    // A line is shown only where it is needed.
    let superfluous = text
        .replacen(&sealed(8).1, one, 1)
        .replacen(&sealed(9).1, two, 1);
    let report = checked(&bench, &superfluous).report;
    assert_eq!(report.verdict.exit_code(), 1);
}
