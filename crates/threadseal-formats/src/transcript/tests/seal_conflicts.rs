//! Two histories of one record: evidence against the key that sealed both, and cases without
//! evidence.

use super::turns::{keys, rotated};
use super::*;
use crate::transcript::turn_proof::conflict::{SealConflict, check_file};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::merkle::{InclusionProof, ProofError, leaf_hash, root};
use threadseal_core::report::{KnownFork, Report};
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};

/// The record up to and including its n-th seal, from 0.
fn cut(record: &[u8], seals: usize) -> Vec<u8> {
    let mut left = seals + 1;
    let lines = lines_of(record).into_iter().take_while(|line| {
        let goes = left > 0;
        left -= usize::from(is_seal(line) && goes);
        goes
    });
    lines.collect::<Vec<_>>().concat()
}

fn is_seal(line: &[u8]) -> bool {
    String::from_utf8_lossy(line).contains("\"event_type\":\"checkpoint\"")
}

/// The copy continued with this text, sealed by `key`.
fn gone_on(bench: &Bench, copy: &[u8], said: &str, key: &LocalSigner) -> Vec<u8> {
    let mut out = copy.to_vec();
    let mut sealer = bench.verify(copy).sealer.unwrap();
    let payload = format!("{{\"text\":\"{said}\"}}");
    bench.event(&mut sealer, "cognition_in", &payload, &mut out);
    let signers = Signers {
        native: key,
        rye: &bench.rye,
    };
    let turn = sealer.turn() + 1;
    sealer
        .seal(
            bench.stamp(),
            turn,
            false,
            Ext::default(),
            signers,
            &mut out,
        )
        .unwrap();
    out
}

/// Two continuations of a record after three keys, by the key that seals it then.
fn forked(bench: &Bench) -> [Vec<u8>; 2] {
    let (_, third, _) = keys();
    let before = cut(&rotated(bench, 7), 5);
    ["one", "other"].map(|said| gone_on(bench, &before, said, &third))
}

fn judged(bench: &Bench, file: &str) -> Report {
    check_file(file.as_bytes(), &bench.options()).report
}

fn codes_of(report: &Report) -> Vec<&'static str> {
    report
        .findings
        .iter()
        .map(|found| found.code.as_str())
        .collect()
}

/// All but the two seals, and these.
fn parts(file: &str) -> (&str, &str, &str) {
    let (rest, second) = file.trim_end().rsplit_once("\nseal ").unwrap();
    let (head, first) = rest.rsplit_once("\nseal ").unwrap();
    (head, first, second)
}

// T-FRK-02
#[test]
fn who_sealed_two_histories_is_convicted_in_whatever_order_they_are_found() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let found = SealConflict::find(&one, &other).unwrap().unwrap();
    assert_eq!(
        SealConflict::find(&other, &one).unwrap().as_ref(),
        Some(&found)
    );
    let text = found.to_string();
    assert_eq!(SealConflict::parse(text.as_bytes()).as_ref(), Ok(&found));
    let report = judged(&bench, &text);
    assert_eq!(report.verdict, Verdict::Verified, "{report:?}");
    assert_eq!(codes_of(&report), ["seals_conflict"]);
    for record in [&one, &other] {
        let head = bench.verify(record).report.head.unwrap().to_string();
        assert!(report.findings[0].message.contains(&head), "{report:?}");
    }
    // The proof contains no text of either.
    assert!(!text.contains("secret-") && !text.contains("other"));
    // They part at their first difference, independent of their lengths and tails.
    let (_, third, _) = keys();
    let longer = gone_on(&bench, &one, "more", &third);
    let torn = [&longer[..], b"{\"timestamp\""].concat();
    assert_eq!(SealConflict::find(&torn, &other).unwrap(), Some(found));
}

/// A logged fork affects each copy, but no record of the same id with another line 1.
// T-FRK-14
#[test]
fn a_known_fork_speaks_against_every_copy_and_no_other_record() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let text = SealConflict::find(&one, &other)
        .unwrap()
        .unwrap()
        .to_string();
    let checked = check_file(text.as_bytes(), &bench.options());
    let fork = *checked.proved.unwrap().get();
    assert_eq!(fork.evidence, Digest::of(text.as_bytes()));
    let line_1 = lines_of(&one)[0].strip_suffix(b"\n").unwrap();
    let place = |line_1: &[u8]| ForkPlace::Transcript {
        manifest: Digest::of(line_1),
        seq: 6,
    };
    assert_eq!(
        (fork.place, fork.key),
        (place(line_1), keys().1.public_key().key_id())
    );
    let seen = |record: &[u8], fork: LoggedFork| {
        let known = KnownFork {
            fork,
            entry: "entry 7 of a log".into(),
        };
        let scan = ScanOptions {
            expect: vec![Expectation::forked(known)],
            ..ScanOptions::default()
        };
        verify(record, &scan, &bench.options())
    };
    for copy in [&one, &other, &cut(&one, 3)] {
        let outcome = seen(copy, fork);
        assert_eq!(outcome.report.verdict, Verdict::Forked);
        assert_eq!(codes(&outcome).first(), Some(&"fork_known"));
        assert!(outcome.verified.is_none() && outcome.sealer.is_none());
        assert!(outcome.lenient().is_none());
    }
    let namesake = LoggedFork {
        place: place(b"another line 1"),
        ..fork
    };
    let (with, without) = (seen(&one, namesake), bench.verify(&one));
    assert_eq!(with.report, without.report);
}

/// A delegate can sign seals of any number after the end of a record. They are evidence of two
/// histories, but of none of this one.
// T-FRK-13
#[test]
fn a_record_that_ended_without_whom_the_evidence_convicts_stays_whole() {
    let bench = Bench::new();
    let record = bench.record();
    assert_eq!(bench.verify(&record).report.verdict, Verdict::Verified);
    let line_1 = lines_of(&record)[0].strip_suffix(b"\n").unwrap();
    let seen = |record: &[u8], key: &LocalSigner, seq: u64| {
        let known = KnownFork {
            fork: LoggedFork {
                record: RecordId::from_bytes([7; 32]),
                key: key.public_key().key_id(),
                evidence: Digest::of(b"evidence"),
                place: ForkPlace::Transcript {
                    manifest: Digest::of(line_1),
                    seq,
                },
            },
            entry: "entry 7 of a log".into(),
        };
        let scan = ScanOptions {
            expect: vec![Expectation::forked(known)],
            ..ScanOptions::default()
        };
        verify(record, &scan, &bench.options()).report.verdict
    };
    let stranger = keys().2;
    assert_eq!(seen(&record, &stranger, 1_000_000), Verdict::Verified);
    assert_eq!(seen(&record, &bench.native, 1_000_000), Verdict::Verified);
    // With seals that the copy has, it is one of two histories. A copy without an end may still
    // become one.
    assert_eq!(seen(&record, &bench.native, 0), Verdict::Forked);
    assert_eq!(
        seen(&cut(&record, 0), &stranger, 1_000_000),
        Verdict::Forked
    );
}

// T-FRK-16
#[test]
fn whose_keys_they_are_is_for_the_readers_trust() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let text = SealConflict::find(&one, &other)
        .unwrap()
        .unwrap()
        .to_string();
    let by = |trust: &Trust, thread: Option<&ThreadId>| {
        let options = VerifyOptions {
            trust,
            thread,
            ..bench.options()
        };
        check_file(text.as_bytes(), &options).report.verdict
    };
    assert_eq!(
        by(&Trust::new(TrustStore::new()), None),
        Verdict::UnknownSigner
    );
    let stranger = Trust::key(*signer(77, KeyUsage::Native).public_key());
    assert_eq!(by(&stranger, None), Verdict::Forged);
    let pinned = Trust::key(*bench.native.public_key());
    assert_eq!(by(&pinned, None), Verdict::Verified);
    let elsewhere = ThreadId::parse("demo/other").unwrap();
    assert_eq!(by(&pinned, Some(&elsewhere)), Verdict::Foreign);
}

fn every_change_is_noticed(bench: &Bench, text: &str) {
    for at in 0..text.len() {
        let mut bad = text.as_bytes().to_vec();
        bad[at] ^= 1;
        let report = check_file(&bad, &bench.options()).report;
        assert_eq!(report.verdict.exit_code(), 1, "{at}: {report:?}");
    }
    for cut in 0..text.len() {
        let report = check_file(&text.as_bytes()[..cut], &bench.options()).report;
        assert_eq!(report.verdict, Verdict::Malformed, "{cut}");
    }
}

// T-FRK-12
#[test]
fn every_changed_bit_of_the_evidence_is_noticed() {
    let bench = Bench::new();
    let [one, other] = forked(&bench);
    let text = SealConflict::find(&one, &other)
        .unwrap()
        .unwrap()
        .to_string();
    every_change_is_noticed(&bench, &text);
}

// T-FRK-12
#[test]
fn an_honest_record_however_it_is_cut_convicts_nobody() {
    let bench = Bench::new();
    let record = rotated(&bench, 7);
    for seals in 0..7 {
        let older = cut(&record, seals);
        assert_eq!(SealConflict::find(&older, &record), Ok(None));
        assert_eq!(
            SealConflict::find(&record, &record[..older.len() + 9]),
            Ok(None)
        );
    }
    assert!(SealConflict::find(&record, &rotated(&bench, 8)).is_err());
    assert!(SealConflict::find(b"", b"").is_err());
    // Nor does a file with its seals that an attacker writes: two numbers, one seal twice, another
    // record's.
    let [one, other] = forked(&bench);
    let text = SealConflict::find(&one, &other)
        .unwrap()
        .unwrap()
        .to_string();
    let (head, _, _) = parts(&text);
    let of = |record: &[u8], at: usize| {
        let seals: Vec<&[u8]> = lines_of(record)
            .into_iter()
            .filter(|l| is_seal(l))
            .collect();
        String::from_utf8(seals[at].to_vec())
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let by_hand = |one: String, other: String| {
        let mut seals = [one, other];
        seals.sort();
        format!("{head}\nseal {}\nseal {}\n", seals[0], seals[1])
    };
    let (_, third, _) = keys();
    let longer = gone_on(&bench, &one, "more", &third);
    let numbers = judged(&bench, &by_hand(of(&longer, 6), of(&longer, 7)));
    assert_eq!(codes_of(&numbers), ["no_conflict"]);
    let again = judged(&bench, &by_hand(of(&one, 6), of(&one, 6)));
    assert_eq!(again.verdict, Verdict::Malformed);
    let foreign = gone_on(&bench, &cut(&rotated(&bench, 8), 5), "x", &third);
    let foreign = judged(&bench, &by_hand(of(&one, 6), of(&foreign, 6)));
    assert_eq!(codes_of(&foreign), ["checkpoint_altered"]);
}

/// A key that was given up is no evidence against the one that replaced it. A thief of the old key
/// could frame an honest record.
// T-FRK-12
#[test]
fn seals_of_two_keys_convict_neither() {
    let bench = Bench::new();
    let (_, third, delegate) = keys();
    let record = rotated(&bench, 7);
    // The delegate may seal beside the key; the number is the same and both are admitted.
    let before = cut(&record, 7);
    let honest = gone_on(&bench, &before, "one", &third);
    let by_delegate = gone_on(&bench, &before, "other", &delegate);
    assert!(SealConflict::find(&honest, &by_delegate).is_err());
    let again = gone_on(&bench, &before, "again", &third);
    let found = SealConflict::find(&honest, &again)
        .unwrap()
        .unwrap()
        .to_string();
    let (head, own, _) = parts(&found);
    let other = lines_of(&by_delegate).pop().unwrap();
    let mut seals = [own.to_owned(), String::from_utf8(other.to_vec()).unwrap()];
    seals[1].pop();
    seals.sort();
    let made = format!("{head}\nseal {}\nseal {}\n", seals[0], seals[1]);
    assert_eq!(judged(&bench, &made).verdict, Verdict::Forged);
}

/// Two continuations by two keys in turn, such that no seal of one number is of one key in both.
fn crossed(bench: &Bench) -> [Vec<u8>; 2] {
    let (_, third, delegate) = keys();
    let before = cut(&rotated(bench, 7), 7);
    [("one", [&third, &delegate]), ("other", [&delegate, &third])].map(|(said, [first, then])| {
        let once = gone_on(bench, &before, said, first);
        gone_on(bench, &once, "more", then)
    })
}

// T-FRK-03
#[test]
fn who_sealed_two_histories_at_two_sizes_is_convicted_by_the_line_where_they_part() {
    let bench = Bench::new();
    let [one, other] = crossed(&bench);
    let found = SealConflict::find(&one, &other).unwrap().unwrap();
    let text = found.to_string();
    assert_eq!(SealConflict::parse(text.as_bytes()).as_ref(), Ok(&found));
    let both = lines_of(&one).into_iter().zip(lines_of(&other));
    let parted = both.take_while(|(here, there)| here == there).count() + 1;
    assert!(
        text.contains(&format!("\nparted {parted}\nleaf ")),
        "{text}"
    );
    let checked = check_file(text.as_bytes(), &bench.options());
    assert_eq!(
        checked.report.verdict,
        Verdict::Verified,
        "{:?}",
        checked.report
    );
    assert_eq!(codes_of(&checked.report), ["seals_conflict"]);
    let fork = *checked.proved.unwrap().get();
    let place = ForkPlace::Transcript {
        manifest: Digest::of(lines_of(&one)[0].trim_ascii_end()),
        seq: 8,
    };
    assert_eq!(
        (fork.place, fork.evidence),
        (place, Digest::of(text.as_bytes()))
    );
    // In the other order the evidence may be against the other key, but it is from the same two
    // copies.
    let found = SealConflict::find(&other, &one).unwrap().unwrap();
    assert_eq!(
        judged(&bench, &found.to_string()).verdict,
        Verdict::Verified
    );
    assert!(!text.contains("secret-") && !text.contains("\"other\""));
    every_change_is_noticed(&bench, &text);
}

/// The later seal of an honest record covers the same lines as the earlier one.
// T-FRK-11
#[test]
fn two_seals_of_one_history_convict_nobody_by_any_line() {
    let bench = Bench::new();
    let (_, third, _) = keys();
    let before = cut(&rotated(&bench, 7), 7);
    let once = gone_on(&bench, &before, "one", &third);
    let honest = gone_on(&bench, &once, "more", &third);
    let again = gone_on(&bench, &before, "again", &third);
    let conflict = SealConflict::find(&honest, &again).unwrap().unwrap();
    let conflict = conflict.to_string();
    let (head, _, _) = parts(&conflict);
    let lines: Vec<&[u8]> = honest
        .strip_suffix(b"\n")
        .unwrap()
        .split(|b| *b == b'\n')
        .collect();
    let leaves: Vec<Digest> = lines.iter().map(|line| leaf_hash(line)).collect();
    let sealed = |number: usize| {
        let at = (0..lines.len())
            .filter(|at| is_seal(lines[*at]))
            .nth(number)
            .unwrap();
        (at, String::from_utf8(lines[at].to_vec()).unwrap())
    };
    let by_hand = |line: usize, seals: [usize; 2]| {
        let mut shown = seals.map(|number| {
            let (size, seal) = sealed(number);
            let proof = InclusionProof::make::<ProofError>(line as u64, size as u64, &mut |node| {
                let from = usize::try_from(node.index << node.level).unwrap();
                Ok(root(&leaves[from..from + (1 << node.level)]))
            });
            let hashes = proof.unwrap().hashes().to_vec();
            let hashes = hashes
                .iter()
                .map(|hash| format!("hash {}\n", encoding::base64(hash.as_bytes())));
            let leaf = encoding::base64(leaves[line].as_bytes());
            (
                seal.clone(),
                format!("leaf {leaf}\n{}seal {seal}\n", hashes.collect::<String>()),
            )
        });
        shown.sort();
        format!("{head}\nparted {}\n{}{}", line + 1, shown[0].1, shown[1].1)
    };
    for line in 0..sealed(8).0 {
        let report = judged(&bench, &by_hand(line, [8, 9]));
        assert_eq!(codes_of(&report), ["no_conflict"], "{line}: {report:?}");
    }
    // Another leaf is not in the tree.
    let text = by_hand(3, [8, 9]);
    let leaf = encoding::base64(leaves[3].as_bytes());
    let other = encoding::base64(leaves[4].as_bytes());
    let report = judged(&bench, &text.replacen(&leaf, &other, 1));
    assert_eq!(codes_of(&report), ["content_changed"], "{report:?}");
    // A line is shown only where it is needed.
    let (_, one, two) = parts(&conflict);
    let superfluous = text
        .replacen(&sealed(8).1, one, 1)
        .replacen(&sealed(9).1, two, 1);
    assert_eq!(judged(&bench, &superfluous).verdict.exit_code(), 1);
}
