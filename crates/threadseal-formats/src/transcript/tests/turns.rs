//! Proofs of single turns: the facts that they prove, and attacks on them.

use super::*;
use crate::transcript::manifest;
use crate::transcript::seal::{self, Seal, SealFrame};
use crate::transcript::turn_proof::{Checked, TurnProof, check_file};
use threadseal_core::digest::Digest;
use threadseal_core::encoding::base64;
use threadseal_core::note::KeyName;
use threadseal_core::report::Report;

/// A record of seven turns. The second has a seal in its middle. The key changes by an event before
/// the third, and by a seal that names it before the fifth. A delegate seals the sixth, and the key
/// of the fifth seals the seventh.
pub(super) fn rotated(bench: &Bench, record: u8) -> Vec<u8> {
    let (second, third, delegate) = keys();
    let mut out = Vec::new();
    let mut sealer = bench.begin(record, &mut out);
    let say = |sealer: &mut Sealer, text: &str, out: &mut Vec<u8>| {
        let payload = format!("{{\"text\":\"{text}\",\"role\":\"user\"}}");
        bench.event(sealer, "cognition_in", &payload, out);
    };
    let seal = |sealer: &mut Sealer, turn, key: &LocalSigner, next_key, out: &mut Vec<u8>| {
        let ext = Ext {
            next_key,
            ..Ext::default()
        };
        let signers = Signers {
            native: key,
            rye: &bench.rye,
        };
        sealer
            .seal(bench.stamp(), turn, false, ext, signers, out)
            .unwrap();
    };
    say(&mut sealer, "secret-1", &mut out);
    seal(&mut sealer, 1, &bench.native, None, &mut out);
    say(&mut sealer, "secret-2", &mut out);
    seal(&mut sealer, 2, &bench.native, None, &mut out);
    say(&mut sealer, "secret-2-more", &mut out);
    sealer
        .announce_key(bench.stamp(), second.public_key(), &mut out)
        .unwrap();
    seal(&mut sealer, 2, &bench.native, None, &mut out);
    say(&mut sealer, "secret-3", &mut out);
    seal(&mut sealer, 3, &second, None, &mut out);
    say(&mut sealer, "secret-4", &mut out);
    let next = Some(*third.public_key());
    seal(&mut sealer, 4, &second, next, &mut out);
    say(&mut sealer, "secret-5", &mut out);
    seal(&mut sealer, 5, &third, None, &mut out);
    sealer
        .delegate(
            bench.stamp(),
            delegate.public_key(),
            &bench.native,
            &mut out,
        )
        .unwrap();
    say(&mut sealer, "secret-6", &mut out);
    seal(&mut sealer, 6, &delegate, None, &mut out);
    say(&mut sealer, "secret-7", &mut out);
    let payload = Payload::parse(b"{}").unwrap();
    sealer
        .end(bench.stamp(), Ending::Completed, &payload, &mut out)
        .unwrap();
    let signers = Signers {
        native: &third,
        rye: &bench.rye,
    };
    sealer
        .seal(bench.stamp(), 7, true, Ext::default(), signers, &mut out)
        .unwrap();
    out
}

pub(super) fn keys() -> (LocalSigner, LocalSigner, LocalSigner) {
    let key = |seed| signer(seed, KeyUsage::Native);
    (key(31), key(32), key(33))
}

fn prove(bench: &Bench, bytes: &[u8], turn: u64) -> TurnProof {
    let verified = bench.verify(bytes).verified.unwrap();
    TurnProof::make(&verified, bytes, turn).unwrap()
}

/// The check of a proof's text, which is its only one.
fn check(bench: &Bench, text: &str) -> Checked {
    let proof = TurnProof::parse(text.as_bytes()).unwrap();
    assert_eq!(proof.to_string(), text);
    proof.check(&bench.options())
}

fn found(report: &Report) -> Vec<&'static str> {
    report
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect()
}

/// No part of it is trusted, or it is no proof.
#[track_caller]
fn refused(bench: &Bench, text: &str, code: Option<&str>) {
    let checked = check_file(text.as_bytes(), &bench.options());
    let codes = found(&checked.report);
    assert_eq!(checked.report.verdict.exit_code(), 1, "{codes:?}\n{text}");
    assert!(checked.lines.is_empty());
    assert!(code.is_none_or(|code| codes == [code]), "{codes:?}");
}

// T-PRF-10
#[test]
fn each_turn_is_proved_by_its_file_alone_and_no_other_turn_is_shown() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    let lines: Vec<&str> = std::str::from_utf8(&bytes).unwrap().lines().collect();
    for turn in 1..=7 {
        let text = prove(&bench, &bytes, turn).to_string();
        let checked = check(&bench, &text);
        let report = &checked.report;
        assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(!checked.lines.is_empty());
        let said = format!("secret-{turn}");
        for line in &checked.lines {
            let number = usize::try_from(line.number).unwrap();
            assert_eq!(line.text, lines[number - 1]);
            assert!(line.event_type != "cognition_in" || line.text.contains(&said));
        }
        for other in (1..=7).filter(|other| *other != turn) {
            assert!(
                !text.contains(&format!("secret-{other}")),
                "{turn}: {other}"
            );
        }
        let shown = checked
            .lines
            .iter()
            .filter(|line| line.event_type == "cognition_in");
        assert_eq!(shown.count(), if turn == 2 { 2 } else { 1 });
    }
    let head = bench.verify(&bytes).report.head;
    let last = prove(&bench, &bytes, 7).check(&bench.options());
    assert_eq!(last.report.head, head);
}

// T-PRF-09
#[test]
fn who_sealed_a_turn_is_judged_as_of_a_record() {
    let bench = Bench::new();
    let bytes = rotated(&bench, 7);
    let (second, _, delegate) = keys();
    for turn in 1..=7 {
        let proof = prove(&bench, &bytes, turn);
        let by = |trust: &Trust| {
            let options = VerifyOptions {
                trust,
                ..bench.options()
            };
            proof.check(&options)
        };
        let nobody = by(&Trust::default());
        assert_eq!(nobody.report.verdict, Verdict::UnknownSigner);
        assert!(!nobody.lines.is_empty());
        let authority = by(&Trust::key(*bench.native.public_key()));
        assert_eq!(authority.report.verdict, Verdict::Verified);
        let other = by(&Trust::key(*bench.rye.public_key()));
        assert_eq!(other.report.verdict, Verdict::Forged);
        assert!(other.lines.is_empty());
        // A key in the middle of the way is not the only signer.
        let middle = by(&Trust::key(*second.public_key()));
        assert_eq!(middle.report.verdict, Verdict::Forged, "{turn}");
        let delegated = by(&Trust::key(*delegate.public_key())).report.verdict;
        assert_eq!(delegated == Verdict::Verified, turn == 5, "{turn}");
    }
    let other = ThreadId::parse("demo/t-2").unwrap();
    let options = VerifyOptions {
        thread: Some(&other),
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
            refused(&bench, &without, None);
            let twice = [&lines[..=at], &lines[at..]].concat().concat();
            refused(&bench, &twice, None);
            refused(&bench, &lines[..at].concat(), None);
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
        for number in 1..=bytes.iter().filter(|byte| **byte == b'\n').count() {
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
    let bench = Bench::new();
    let (one, two) = (rotated(&bench, 7), rotated(&bench, 8));
    let text = |bytes: &[u8], turn| prove(&bench, bytes, turn).to_string();
    for (mine, theirs) in [
        (text(&one, 5), text(&two, 5)),
        (text(&one, 1), text(&two, 1)),
        (text(&one, 3), text(&one, 4)),
        (text(&one, 4), text(&one, 5)),
    ] {
        let words = [
            "turn", "first", "manifest", "next", "key", "line", "hash", "seal",
        ];
        for choice in 1..(1_u32 << words.len()) - 1 {
            let chosen = |line: &&str| {
                let word = line.split(' ').next().unwrap();
                let place = words.iter().position(|known| *known == word);
                place.is_some_and(|place| choice >> place & 1 == 1)
            };
            let mut mixed = Vec::new();
            for word in words {
                let source = |text: &'_ str| -> Vec<String> {
                    let of_word = |line: &&str| line.split(' ').next() == Some(word);
                    text.lines().filter(of_word).map(str::to_owned).collect()
                };
                let from = if chosen(&word) { &theirs } else { &mine };
                mixed.push(source(from));
            }
            // This separates steps; a proof without them is unchanged after parsing.
            let mixed = format!(
                "threadseal/1 proof of a turn\n{}\n",
                mixed.concat().join("\n")
            );
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
    assert_eq!(checked.report.verdict, Verdict::Open);
    assert_eq!(found(&checked.report), ["turn_may_go_on"]);
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
    let attacker = signer(99, KeyUsage::Native);
    let bytes = rotated(&bench, 7);
    let lines: Vec<String> = lines_of(&bytes)
        .iter()
        .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
        .collect();
    let origin = KeyName::parse(&manifest::origin(lines[0].as_bytes())).unwrap();
    let frame = SealFrame {
        timestamp: bench.stamp().timestamp,
        thread: &ThreadId::parse("demo/t-1").unwrap(),
        salt: Salt::from_bytes([9; 16]),
        origin: &origin,
    };
    let genuine = {
        let line = lines[3].as_bytes();
        let frame = event::parse_frame(line).unwrap();
        seal::parse(line, &frame).unwrap().seal
    };
    let forge = |key| {
        let forged = Seal {
            key,
            ..genuine.clone()
        };
        let line = seal::write(&frame, &forged, &attacker).unwrap();
        String::from_utf8(line).unwrap()
    };
    let proof = prove(&bench, &bytes[..], 1).to_string();
    let own = Some(*attacker.public_key());
    let with = |steps: &str, closing: &str| {
        // Turn 1 up to its own seal, which the attacker makes again.
        let shown = format!("line {}\nline {}\n", lines[1], lines[2]);
        let head = proof.split_inclusive('\n').take(4).collect::<String>();
        let hash = base64(threadseal_core::merkle::leaf_hash(lines[0].as_bytes()).as_bytes());
        format!("{head}{steps}{shown}hash {hash}\nseal {closing}\n")
    };
    // The same by the key of the record is a good proof, though an open one.
    let good = with("", &lines[3]);
    assert_eq!(check(&bench, &good).report.verdict, Verdict::Open);

    let closing = forge(attacker.public_key().key_id());
    refused(
        &bench,
        &with("", &forge(genuine.key)),
        Some("signature_bad"),
    );
    refused(&bench, &with("", &closing), Some("key_not_allowed"));
    let by_nobody = format!("next {}\n", lines[1]);
    refused(&bench, &with(&by_nobody, &closing), Some("key_step_bad"));
    let named = Seal {
        seq: 0,
        ext: Ext {
            next_key: own,
            ..Ext::default()
        },
        ..genuine.clone()
    };
    let named = String::from_utf8(seal::write(&frame, &named, &attacker).unwrap()).unwrap();
    let by_itself = format!("next {named}\n");
    refused(&bench, &with(&by_itself, &closing), Some("signature_bad"));
    let event = lines[2].replace("cognition_in", "key");
    let event = event.replace(
        r#"{"text":"secret-1","role":"user"}"#,
        &format!("{{\"next\":\"{}\"}}", attacker.public_key().to_hex()),
    );
    let by_event = format!("key {event}\nseal {}\n", lines[1]);
    refused(&bench, &with(&by_event, &closing), Some("key_step_bad"));
    let origin = KeyName::parse(&manifest::origin(lines[0].as_bytes())).unwrap();
    for by in [&attacker, &bench.rye] {
        let message = manifest::delegation_message(&origin, attacker.public_key());
        let Ok(signature) = by.sign(&message) else {
            continue;
        };
        let key = attacker.public_key().to_hex();
        let delegation = format!("delegation {key} {}\n", base64(signature.as_bytes()));
        refused(&bench, &with(&delegation, &closing), Some("delegation_bad"));
    }
}

// T-PRF-08
#[test]
fn an_announcement_in_an_adopted_tail_lets_nobody_in() {
    let bench = Bench::new();
    let attacker = signer(99, KeyUsage::Native);
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(4, &mut bytes);
    let before = sealer.clone();
    let mut tail = Vec::new();
    sealer
        .announce_key(bench.stamp(), attacker.public_key(), &mut tail)
        .unwrap();
    bytes.extend_from_slice(&tail);
    let mut recovering = before;
    recovering
        .tail_adopted(bench.stamp(), &tail, &mut bytes)
        .unwrap();
    bench.seal(&mut recovering, 1, &mut bytes);
    let verified = bench.verify(&bytes).lenient().unwrap().verified;
    assert!(TurnProof::make(&verified, &bytes, 1).is_err());

    // Made by hand, with the true place of the event: the seal is not the next line.
    let lines: Vec<String> = lines_of(&bytes)
        .iter()
        .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
        .collect();
    let leaf = |at: usize| threadseal_core::merkle::leaf_hash(lines[at].as_bytes());
    let (left, right) = (
        threadseal_core::merkle::node_hash(&leaf(0), &leaf(1)),
        leaf(3),
    );
    let [left, right] = [left, right].map(|hash: Digest| base64(hash.as_bytes()));
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
    let shown: Vec<String> = lines[1..4]
        .iter()
        .map(|line| format!("line {line}\n"))
        .collect();
    let text = format!("{begin}{}hash {hash}\nseal {}\n", shown.concat(), lines[4]);
    let checked = check(&bench, &text);
    assert_eq!(checked.report.verdict, Verdict::Partial);
    assert!(found(&checked.report).contains(&"tail_adopted"));
}

// T-PRF-11
#[test]
fn what_cannot_be_proved_is_refused() {
    let bench = Bench::new();
    let bytes = bench.record();
    let verified = bench.verify(&bytes).verified.unwrap();
    for turn in [0, 3, u64::MAX] {
        let error = TurnProof::make(&verified, &bytes, turn).unwrap_err();
        assert!(error.to_string().contains("closes turn"), "{error}");
    }
    let mut other = bytes.clone();
    other[100] ^= 1;
    assert!(TurnProof::make(&verified, &other, 1).is_err());

    let mut bytes = Vec::new();
    let mut sealer = bench.begin(9, &mut bytes);
    let next = signer(31, KeyUsage::Native);
    sealer
        .announce_key(bench.stamp(), next.public_key(), &mut bytes)
        .unwrap();
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    bench.seal(&mut sealer, 1, &mut bytes);
    bench.event(&mut sealer, "cognition_in", "{}", &mut bytes);
    let signers = Signers {
        native: &next,
        rye: &bench.rye,
    };
    for turn in [3, 4] {
        sealer
            .seal(
                bench.stamp(),
                turn,
                false,
                Ext::default(),
                signers,
                &mut bytes,
            )
            .unwrap();
    }
    let verified = bench.verify(&bytes).lenient().unwrap().verified;
    let why = |turn| {
        TurnProof::make(&verified, &bytes, turn)
            .unwrap_err()
            .to_string()
    };
    assert!(why(1).contains("during another turn"), "{}", why(1));
    assert!(why(2).contains("closes turn"), "{}", why(2));
    assert!(why(3).contains("closes turn"), "{}", why(3));
}

// T-PRF-10 T-TRA-19
#[test]
fn lines_that_share_a_salt_are_a_warning() {
    let bench = Bench::new();
    let mut bytes = Vec::new();
    let mut sealer = bench.begin(9, &mut bytes);
    let stamp = bench.stamp();
    for text in ["{\"a\":1}", "{\"b\":2}"] {
        let payload = Payload::parse(text.as_bytes()).unwrap();
        let event_type = EventType::parse("note").unwrap();
        sealer
            .event(stamp, &event_type, &payload, &mut bytes)
            .unwrap();
    }
    bench.finish(&mut sealer, 1, &mut bytes);
    let checked = prove(&bench, &bytes, 1).check(&bench.options());
    assert_eq!(checked.report.verdict, Verdict::Verified);
    assert_eq!(found(&checked.report), ["siblings_guessable"]);
}
