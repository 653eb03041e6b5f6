//! Proofs of single turns: the facts that they prove, and attacks on them.

use super::*;
use crate::transcript::manifest;
use crate::transcript::seal::{self, Seal, SealFrame};

fn prove(bench: &Bench, bytes: &[u8], turn: u64) -> TurnProof {
    TurnProof::make(&bench.verified(bytes), bytes, turn).unwrap()
}

/// The check of a proof's text, which is its only one.
fn check(bench: &Bench, text: &str) -> Checked {
    let proof = TurnProof::parse(text.as_bytes()).unwrap();
    assert_eq!(proof.to_string(), text);
    proof.check(&bench.options())
}

/// No part of it is trusted, or it is no proof.
#[track_caller]
fn refused(bench: &Bench, text: &str, code: Option<&str>) {
    let checked = check_file(text.as_bytes(), &bench.options());
    let codes = codes(&checked.report);
    assert_eq!(checked.report.verdict.exit_code(), 1, "{codes:?}\n{text}");
    assert!(checked.lines.is_empty());
    assert!(code.is_none_or(|code| codes == [code]), "{codes:?}");
}

// T-PRF-10
#[test]
fn each_turn_is_proved_by_its_file_alone_and_no_other_turn_is_shown() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    let lines = texts_of(&bytes);
    for turn in 1..=7 {
        let text = prove(&bench, &bytes, turn).to_string();
        let checked = check(&bench, &text);
        assert_eq!(shown(&checked.report), "verified");
        let mut said = 0;
        for line in &checked.lines {
            let number = usize::try_from(line.number).unwrap();
            assert_eq!(line.text, lines[number - 1]);
            if line.event_type == "cognition_in" {
                assert!(line.text.contains(&format!("secret-{turn}")));
                said += 1;
            }
        }
        assert_eq!(said, if turn == 2 { 2 } else { 1 });
        for other in (1..=7).filter(|other| *other != turn) {
            let shows = text.contains(&format!("secret-{other}"));
            assert!(!shows, "{turn}: {other}");
        }
    }
    let last = prove(&bench, &bytes, 7).check(&bench.options());
    assert_eq!(last.report.head, bench.verify(&bytes).report.head);
}

// T-PRF-09
#[test]
fn who_sealed_a_turn_is_judged_as_of_a_record() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    let (second, _, delegate) = rotated_keys();
    for turn in 1..=7 {
        let proof = prove(&bench, &bytes, turn);
        for (row, trust, verdict) in [
            ("none", Trust::default(), Verdict::UnknownSigner),
            ("authority", pin(&bench.native), Verdict::Verified),
            ("another", pin(&bench.rye), Verdict::UnknownSigner),
            // A key in the middle of the way is not the only signer.
            ("middle", pin(&second), Verdict::UnknownSigner),
        ] {
            let checked = proof.check(&bench.trusting(&trust));
            assert_eq!(checked.report.verdict, verdict, "{turn}: {row}");
            let shows = matches!(row, "none" | "authority");
            assert_eq!(!checked.lines.is_empty(), shows, "{turn}: {row}");
        }
        let delegated = proof.check(&bench.trusting(&pin(&delegate)));
        let verified = delegated.report.verdict == Verdict::Verified;
        assert_eq!(verified, turn == 5, "{turn}");
    }
    let options = VerifyOptions {
        thread: Some(&thread_id("demo/t-2")),
        ..bench.options()
    };
    let checked = prove(&bench, &bytes, 1).check(&options);
    assert_eq!(checked.report.verdict, Verdict::Foreign);
}

// T-PRF-01
#[test]
fn a_bit_flipped_in_any_byte_of_a_proof_is_noticed() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    // By the first key, by way of an event, by way of both kinds of steps, by a delegate.
    for turn in [1, 2, 5, 7] {
        let text = prove(&bench, &bytes, turn).to_string();
        for at in 0..text.len() {
            for bit in 0..8 {
                if bit != at % 8 && (turn != 1 || bit != (at + 3) % 8) {
                    continue;
                }
                let mut other = text.clone().into_bytes();
                other[at] ^= 1 << bit;
                let Ok(proof) = TurnProof::parse(&other) else {
                    continue;
                };
                let verdict = proof.check(&bench.options()).report.verdict;
                assert_eq!(verdict.exit_code(), 1, "turn {turn}, byte {at}, bit {bit}");
            }
        }
    }
}

// T-PRF-02
#[test]
fn lines_left_out_doubled_swapped_or_moved_prove_nothing() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    for turn in [2, 5, 7] {
        let text = prove(&bench, &bytes, turn).to_string();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for at in 0..lines.len() {
            let without = [&lines[..at], &lines[at + 1..]].concat().concat();
            let twice = [&lines[..=at], &lines[at..]].concat().concat();
            for text in [without, twice, lines[..at].concat()] {
                refused(&bench, &text, None);
            }
            for with in at + 1..lines.len() {
                let mut swapped = lines.clone();
                swapped.swap(at, with);
                refused(&bench, &swapped.concat(), None);
            }
        }
    }
}

// T-PRF-03
#[test]
fn a_turn_is_proved_under_no_other_number_and_in_no_other_place() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    for turn in 1..=7 {
        let text = prove(&bench, &bytes, turn).to_string();
        for other in (1..=8).filter(|other| *other != turn) {
            let renamed = text.replacen(&format!("turn {turn}"), &format!("turn {other}"), 1);
            refused(&bench, &renamed, Some("turn_bounds_wrong"));
        }
        let first = text.lines().nth(2).unwrap();
        for number in 1..=lines_of(&bytes).len() {
            let moved = text.replacen(first, &format!("first {number}"), 1);
            if moved != text {
                refused(&bench, &moved, Some("content_changed"));
            }
        }
    }
}

// T-PRF-04
#[test]
fn parts_of_two_proofs_never_make_a_third() {
    const WORDS: [&str; 8] = [
        "turn", "first", "manifest", "next", "key", "line", "hash", "seal",
    ];
    let bench = Bench::new();
    let (one, two) = (rotated(&bench, 7), rotated(&bench, 8));
    let text = |bytes: &[u8], turn| prove(&bench, bytes, turn).to_string();
    for (mine, theirs) in [
        (text(&one, 5), text(&two, 5)),
        (text(&one, 1), text(&two, 1)),
        (text(&one, 3), text(&one, 4)),
        (text(&one, 4), text(&one, 5)),
    ] {
        for choice in 1..(1_u32 << WORDS.len()) - 1 {
            // This separates steps; a proof without them is unchanged after parsing.
            let mut mixed = "threadseal/1 proof of a turn\n".to_owned();
            for (place, word) in WORDS.iter().enumerate() {
                let from = if choice >> place & 1 == 1 {
                    &theirs
                } else {
                    &mine
                };
                let lines = from.split_inclusive('\n');
                mixed.extend(lines.filter(|line| line.split(' ').next() == Some(word)));
            }
            if mixed != mine && mixed != theirs {
                refused(&bench, &mixed, None);
            }
        }
    }
}

// T-PRF-06
#[test]
fn a_turn_cut_at_a_seal_in_its_midst_is_open() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    let lines = lines_of(&bytes);
    // Manifest, seal, turn 1, seal, then the first event and seal of turn 2.
    let cut = lines[..6].concat();
    let outcome = bench.verify(&cut);
    assert_eq!(outcome.report.verdict, Verdict::Open);
    let verified = outcome.lenient().unwrap().verified;
    let proof = TurnProof::make(&verified, &cut, 2).unwrap();
    let checked = proof.check(&bench.options());
    assert_eq!(shown(&checked.report), "open: turn_may_go_on");
    assert_eq!(checked.lines.len(), 1);
    // In the whole record the next seal shows that the turn has more lines.
    let closing = format!("\nseal {}", String::from_utf8_lossy(lines[9]));
    let text = proof.to_string();
    let own = text.rfind("\nseal ").unwrap();
    refused(&bench, &format!("{}{closing}", &text[..own]), None);
}

// T-PRF-07
#[test]
fn no_key_that_the_record_did_not_let_in_seals_a_turn() {
    let bench = Bench::new();
    let attacker = native(99);
    let bytes = rotated(&bench, 7);
    let lines = texts_of(&bytes);
    let origin = KeyName::parse(&manifest::origin(lines[0].as_bytes())).unwrap();
    let frame = SealFrame {
        thread: &thread_id("demo/t-1"),
        salt: Salt::from_bytes([9; 16]),
        origin: &origin,
    };
    let genuine = {
        let line = lines[3].as_bytes();
        let frame = event::parse_frame(line).unwrap();
        seal::parse(line, &frame).unwrap().seal
    };
    let forge = |change: &dyn Fn(&mut Seal)| {
        let mut forged = genuine.clone();
        change(&mut forged);
        let line = seal::write(&frame, &forged, &attacker).unwrap();
        String::from_utf8(line).unwrap()
    };
    let proof = prove(&bench, &bytes, 1).to_string();
    // Turn 1 up to its own seal, which the attacker makes again.
    let with = |steps: &str, closing: &str| {
        let shown = format!("line {}\nline {}\n", lines[1], lines[2]);
        let head = proof.split_inclusive('\n').take(4).collect::<String>();
        let hash = base64(leaf_hash(lines[0].as_bytes()).as_bytes());
        format!("{head}{steps}{shown}hash {hash}\nseal {closing}\n")
    };
    // The same by the key of the record is a good proof, though an open one.
    let good = with("", lines[3]);
    assert_eq!(check(&bench, &good).report.verdict, Verdict::Open);

    let own = *attacker.public_key();
    let under_the_first_key = forge(&|_| {});
    let closing = forge(&|seal| seal.key = own.key_id());
    let named = forge(&|seal| {
        seal.seq = 0;
        seal.ext.next_key = Some(own);
    });
    let event = lines[2].replace("cognition_in", "key").replace(
        r#"{"text":"secret-1","role":"user"}"#,
        &format!("{{\"next\":\"{}\"}}", own.to_hex()),
    );
    let message = manifest::delegation_message(&origin, &own);
    let signature = base64(attacker.sign(&message).unwrap().as_bytes());
    assert!(bench.rye.sign(&message).is_err());
    for (steps, closing, code) in [
        ("", &under_the_first_key, "signature_bad"),
        ("", &closing, "key_not_allowed"),
        (&format!("next {}\n", lines[1]), &closing, "key_step_bad"),
        (&format!("next {named}\n"), &closing, "signature_bad"),
        (
            &format!("key {event}\nseal {}\n", lines[1]),
            &closing,
            "key_step_bad",
        ),
        (
            &format!("delegation {} {signature}\n", own.to_hex()),
            &closing,
            "delegation_bad",
        ),
    ] {
        refused(&bench, &with(steps, closing), Some(code));
    }
}

// T-PRF-08
#[test]
fn an_announcement_in_an_adopted_tail_lets_nobody_in() {
    let bench = Bench::new();
    let mut draft = bench.begin(4);
    draft.adopt(|tail| tail.announce(&native(99)));
    draft.seal(1);
    let bytes = draft.bytes;
    let verified = bench.verify(&bytes).lenient().unwrap().verified;
    assert!(TurnProof::make(&verified, &bytes, 1).is_err());

    // Made by hand, with the true place of the event: the seal is not the next line.
    let lines = texts_of(&bytes);
    let leaf = |at: usize| leaf_hash(lines[at].as_bytes());
    let [left, right] =
        [node_hash(&leaf(0), &leaf(1)), leaf(3)].map(|hash| base64(hash.as_bytes()));
    let begin = format!(
        "threadseal/1 proof of a turn\nturn 1\nfirst 2\nmanifest {}\n",
        lines[0]
    );
    let step = format!(
        "key {}\nhash {right}\nhash {left}\nseal {}\n",
        lines[2], lines[4]
    );
    let rest = format!("line {}\nseal {}\n", lines[1], lines[4]);
    refused(
        &bench,
        &format!("{begin}{step}{rest}"),
        Some("key_step_bad"),
    );
    // Shown correctly, the turn has a part that was not sealed in time.
    let hash = base64(leaf(0).as_bytes());
    let shown: String = lines[1..4]
        .iter()
        .map(|line| format!("line {line}\n"))
        .collect();
    let text = format!("{begin}{shown}hash {hash}\nseal {}\n", lines[4]);
    let report = check(&bench, &text).report;
    is(&report, Verdict::Partial, "tail_adopted");
}

// T-PRF-11
#[test]
fn what_cannot_be_proved_is_refused() {
    let bench = Bench::new();
    let bytes = bench.record();
    let verified = bench.verified(&bytes);
    let why = |verified: &Verified<Coverage>, bytes: &[u8], turn| {
        let error = TurnProof::make(verified, bytes, turn).unwrap_err();
        error.to_string()
    };
    let mut other = bytes.clone();
    other[100] ^= 1;
    assert!(TurnProof::make(&verified, &other, 1).is_err());

    let mut draft = bench.begin(9);
    let next = native(31);
    draft.announce(&next);
    draft.event("cognition_in", "{}");
    draft.seal(1);
    draft.event("cognition_in", "{}");
    for turn in [3, 4] {
        draft.seal_by(&next, turn).unwrap();
    }
    let moved = bench.verify(&draft.bytes).lenient().unwrap().verified;
    for (verified, bytes, turn, part) in [
        (&verified, &bytes, 0, "closes turn"),
        (&verified, &bytes, 3, "closes turn"),
        (&verified, &bytes, u64::MAX, "closes turn"),
        (&moved, &draft.bytes, 1, "during another turn"),
        (&moved, &draft.bytes, 2, "closes turn"),
        (&moved, &draft.bytes, 3, "closes turn"),
    ] {
        let why = why(verified, bytes, turn);
        assert!(why.contains(part), "{turn}: {why}");
    }
}

// T-PRF-10 T-TRA-19
#[test]
fn lines_that_share_a_salt_are_a_warning() {
    let bench = Bench::new();
    let mut draft = bench.begin(9);
    let (stamp, note) = (bench.stamp(), EventType::parse("note").unwrap());
    for text in ["{\"a\":1}", "{\"b\":2}"] {
        draft
            .add(|sealer, _, out| sealer.event(stamp, &note, &payload(text), out))
            .unwrap();
    }
    draft.finish(1);
    let report = prove(&bench, &draft.bytes, 1)
        .check(&bench.options())
        .report;
    assert_eq!(shown(&report), "verified: siblings_guessable");
}

// T-PRF-10
#[test]
fn fuzzing_begins_with_proofs_that_hold() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/turn_proof");
    let read = |name: &str| std::fs::read_to_string(format!("{seeds}/{name}")).unwrap();
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    assert_eq!(read("rotated.jsonl").as_bytes(), bytes);
    for turn in [1, 2, 5, 6, 7] {
        let text = prove(&bench, &bytes, turn).to_string();
        assert_eq!(read(&format!("rotated_{turn}.turn-proof")), text);
        assert_eq!(shown(&check(&bench, &text).report), "verified");
    }
}
