//! The specification's example; every small case against its rules; answers.

use super::super::policy::{Judgement, Policy};
use super::super::testing::*;
use super::*;
use crate::key::KeyUsage;
use crate::merkle::{ProofError, TreeHead};
use crate::testing::{key, signer};
use proptest::prelude::*;

/// The example of C2SP tlog-witness.
const EXAMPLE: &str = "old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

\u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
\u{2014} example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
";

fn request(old: u64, proof: ConsistencyProof, note: &SignedNote) -> AddCheckpoint {
    AddCheckpoint::new(old, proof, note.clone()).unwrap()
}

#[test]
fn the_example_of_the_specification_is_read_and_written() {
    let read = AddCheckpoint::parse(EXAMPLE.as_bytes()).unwrap();
    assert_eq!((read.old, read.proof.hashes().len()), (20_852_014, 4));
    assert_eq!(read.origin().as_str(), "example.com/behind-the-sofa");
    assert_eq!(read.note().signatures().len(), 2);
    assert_eq!(read.to_string(), EXAMPLE);
    assert_eq!(judge(&read, &[log_key()], None), Err(Refusal::UnknownLog));
}

#[test]
fn a_request_of_another_implementation_is_accepted() {
    let body = include_bytes!("../../../../../testkit/tlog/add-checkpoint.txt");
    let read = AddCheckpoint::parse(body).unwrap();
    assert_eq!(read.to_string().as_bytes(), body);
    let leaves = [&b"one"[..], b"two", b"three"].map(crate::merkle::leaf_hash);
    let last = TreeHead {
        size: 3,
        root: crate::merkle::root(&leaves),
    };
    let accepted = judge(&read, &[log_key()], Some(&last)).unwrap();
    assert_eq!(accepted.checkpoint().tree().size, 5);
    let other = judge(&read, &[log_key()], Some(&tree(3)));
    assert_eq!(other, Err(Refusal::NotProved(ProofError::OtherRoot)));
}

// T-WIT-14
#[test]
fn every_other_spelling_of_a_request_is_refused() {
    let good = request(3, proof(3, 5), &signed(&checkpoint(5))).to_string();
    assert!(AddCheckpoint::parse(good.as_bytes()).is_ok());
    let hash = format!("{}\n", "A".repeat(43) + "=");
    let many = good.replacen("old 3\n", &format!("old 3\n{}", hash.repeat(62)), 1);
    let most = good.replacen("old 3\n", &format!("old 3\n{}", hash.repeat(59)), 1);
    assert_eq!(proof(3, 5).hashes().len(), 4);
    assert!(AddCheckpoint::parse(most.as_bytes()).is_ok());
    for bad in [
        String::new(),
        "old 3\n\n".into(),
        good.replacen("old 3", "old 03", 1),
        good.replacen("old 3", "old +3", 1),
        good.replacen("old 3", "old  3", 1),
        good.replacen("old 3", "old 3 ", 1),
        good.replacen("old 3", "Old 3", 1),
        good.replacen("old 3", "old 9223372036854775808", 1),
        good.replacen("old 3\n", "old 3\n\n", 1),
        good.replacen("old 3\n", "old 3\nAAAA\n", 1),
        good.replacen("old 3\n", &format!("old 3\r\n{hash}"), 1),
        good.replacen("\n\n", "\n", 1),
        good.trim_end().into(),
        many,
        format!("{good}{}", " ".repeat(MAX_WITNESS_BODY_BYTES)),
    ] {
        assert!(AddCheckpoint::parse(bad.as_bytes()).is_err(), "{bad:.40}");
    }
    assert!(AddCheckpoint::parse(b"old 3\n\n\xff").is_err());
}

/// The checks of the specification, written a second time in their order.
fn expected(old: u64, last: Option<u64>, new: u64, proved: bool, same_history: bool) -> u16 {
    let last = last.unwrap_or(0);
    if old > new {
        return 400;
    }
    if old != last {
        return 409;
    }
    if new == 0 && !same_history {
        return 422;
    }
    if old == new {
        return if same_history && proved { 200 } else { 422 };
    }
    match (old == 0 || same_history) && proved {
        true => 200,
        false => 422,
    }
}

// T-WIT-08
#[test]
fn every_small_case_is_decided_as_the_specification_says() {
    let mut seen = std::collections::BTreeMap::new();
    let size = |last: Option<u64>| last.unwrap_or(0);
    for last in [None, Some(0), Some(1), Some(2), Some(3), Some(5)] {
        for (old, new) in (0..7).flat_map(|old| (0..7).map(move |new| (old, new))) {
            for same_history in [true, false] {
                let cosigned_last = last.map(tree);
                let offered = match same_history {
                    true => signed(&checkpoint(new)),
                    false => signed(&other_checkpoint(new)),
                };
                let right = if size(last) <= new {
                    proof(size(last), new)
                } else {
                    proof(0, 0)
                };
                let wrong = vec![Digest::of(b"x"); right.hashes().len() + 1];
                let wrong = ConsistencyProof::from_hashes(wrong).unwrap();
                for (given, proved) in [(right, true), (wrong, false)] {
                    let request = request(old, given, &offered);
                    let judged = judge(&request, &[log_key()], cosigned_last.as_ref());
                    let status = judged.as_ref().map_or_else(Refusal::status, |_| 200);
                    let expected = expected(old, last, new, proved, same_history);
                    assert_eq!(status, expected, "{old} {last:?} {new} {proved} {judged:?}");
                    *seen.entry(status).or_insert(0) += 1;
                    if let Err(refusal @ Refusal::OtherSize(size)) = judged {
                        let (kind, body) = refusal.body();
                        assert_eq!(kind, SIZE_CONTENT_TYPE);
                        assert_eq!(read_size(body.as_bytes()), Ok(size));
                    }
                }
            }
        }
    }
    assert!(seen.into_keys().eq([200, 400, 409, 422]));
}

// T-WIT-08
#[test]
fn the_log_is_known_and_has_signed_before_anything_else_counts() {
    let by_stranger = checkpoint(5).sign(&signer(99, KeyUsage::Log)).unwrap();
    let good = signed(&checkpoint(5));
    let mut bad_line = good.clone();
    let other = signed(&checkpoint(6)).signatures()[0].clone();
    bad_line.add(other).unwrap();
    let elsewhere = VerifierKey::of_log(name("example.com/other"), key(1));
    for (note, keys, old, status) in [
        // The old size is wrong, too; that check comes later.
        (&good, &[][..], 9, 404),
        (&good, &[elsewhere, witness_key(1)], 9, 404),
        (&by_stranger, &[log_key()], 9, 403),
        (&bad_line, &[log_key()], 9, 403),
        (&good, &[log_key()], 9, 400),
        (&good, &[log_key()], 2, 409),
        (&good, &[log_key()], 3, 422),
    ] {
        let refused = judge(&request(old, proof(0, 0), note), keys, Some(&tree(3)));
        assert_eq!(refused.unwrap_err().status(), status, "{keys:?} {old}");
    }
}

// T-WIT-01
#[test]
fn a_witness_takes_no_record_for_a_log() {
    let of_record = name("threadseal/1/transcript/0");
    let text = checkpoint_of(of_record.as_str(), tree(5)).to_note_text();
    let native = signer(1, KeyUsage::Native);
    let seal = crate::note::sign(text.unwrap(), &of_record, &native).unwrap();
    let key = VerifierKey::of_log(of_record, key(1));
    let refused = judge(&request(0, proof(0, 5), &seal), &[key], None);
    assert_eq!(refused, Err(Refusal::UnknownLog));
}

#[test]
fn two_histories_of_one_size_are_told_apart_from_a_bad_proof() {
    let (same, other) = (signed(&checkpoint(5)), signed(&other_checkpoint(5)));
    let not_proved = Refusal::NotProved(ProofError::Length);
    for (note, given, why) in [
        (&other, proof(5, 5), Refusal::OtherRoot),
        (&other, proof(3, 5), Refusal::OtherRoot),
        (&same, proof(3, 5), not_proved),
    ] {
        let refused = judge(&request(5, given, note), &[log_key()], Some(&tree(5)));
        assert_eq!(refused, Err(why));
    }
    // An empty log has only one tree. A log with another one contradicts itself and no other log.
    let empty = request(0, proof(0, 0), &signed(&other_checkpoint(0)));
    let refused = judge(&empty, &[log_key()], None);
    assert_eq!(refused, Err(Refusal::EmptyWithLeaves));
}

#[test]
fn what_was_accepted_is_cosigned_answered_read_and_counts() {
    let asked = request(3, proof(3, 5), &signed(&checkpoint(5)));
    let accepted = judge(&asked, &[log_key()], Some(&tree(3))).unwrap();
    assert_eq!(accepted.checkpoint(), &checkpoint(5));
    let line = accepted.cosign(&witness_name(1), time(7), &witness(1));
    let line = line.unwrap();
    assert!(accepted.cosign(&witness_name(1), time(7), &log()).is_err());
    let stranger = cosigned(&checkpoint(5), 2, 8);
    let answer = write_cosignatures(&[stranger, line.clone()]);
    let read = read_cosignatures(answer.as_bytes(), asked.note(), &witness_key(1)).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!((&read[0].line, read[0].time), (&line, time(7)));

    let mut note = asked.note().clone();
    note.add(line).unwrap();
    let (log, witness) = (log_key(), witness_key(1));
    let policy = format!("log {log}\nwitness w {witness}\nquorum w\n");
    let judged = Policy::parse(policy.as_bytes()).unwrap().judge(&note);
    assert!(matches!(judged, Ok(Judgement::Witnessed(_))));
}

/// A client may add lines of any key. They are not kept, and leave room for the witness's own line.
// T-WIT-21
#[test]
fn of_an_accepted_note_the_lines_of_the_log_alone_are_kept() {
    let mut crowded = signed(&checkpoint(5));
    let own = crowded.signatures()[0].clone();
    for second in 1..MAX_NOTE_SIGNATURES as u64 {
        let line = match second % 2 {
            0 => own.clone(),
            _ => cosigned(&checkpoint(5), 1, second),
        };
        crowded.add(line).unwrap();
    }
    let asked = request(3, proof(3, 5), &crowded);
    let accepted = judge(&asked, &[log_key()], Some(&tree(3))).unwrap();
    assert_eq!(accepted.note(), &signed(&checkpoint(5)));
}

// T-WIT-16
#[test]
fn every_changed_bit_of_an_answer_is_noticed() {
    let asked = signed(&checkpoint(5));
    let answer = write_cosignatures(&[cosigned(&checkpoint(5), 1, 7)]);
    for changed in bit_flips(&answer) {
        let read = read_cosignatures(changed.as_bytes(), &asked, &witness_key(1));
        assert!(read.is_err(), "{changed}");
    }
    let of_another = write_cosignatures(&[cosigned(&checkpoint(6), 1, 7)]);
    let read = read_cosignatures(of_another.as_bytes(), &asked, &witness_key(1));
    assert_eq!(read, Err(NoteError::BadSignature(witness_name(1))));
    let none = read_cosignatures(answer.as_bytes(), &asked, &witness_key(2));
    assert_eq!(none, Err(NoteError::NoKnownSigner));
    let whole = note(&checkpoint(5), &[(1, 7)]).to_string();
    for bad in [
        "",
        "\n",
        &answer.repeat(MAX_NOTE_SIGNATURES + 1),
        answer.trim_end(),
        &whole,
    ] {
        assert!(read_cosignatures(bad.as_bytes(), &asked, &witness_key(1)).is_err());
    }
    // A second line of the log, and the lines of the specification's example, belong to no known
    // key.
    let example = "\u{2014} witness.example/w1 CMp+6LWBU0anHGH5aNDTJkH/gj79sG+T6+iP2ThYN5krrDJbR1HDnucjL39QsZTSvVjyQLrdk3DXDqI5G2HgLatVs0pWh6Up69HVOw==\n";
    let read = read_cosignatures(example.as_bytes(), &asked, &witness_key(1));
    assert_eq!(read, Err(NoteError::NoKnownSigner));
}

#[test]
fn a_size_has_one_spelling() {
    assert_eq!(read_size(b"0\n"), Ok(0));
    assert_eq!(read_size(b"20852014\n"), Ok(20_852_014));
    let large = "9223372036854775808\n";
    for bad in ["", "\n", "1", "01\n", "1\n\n", " 1\n", "-1\n", large] {
        assert!(read_size(bad.as_bytes()).is_err(), "{bad:?}");
    }
    assert_eq!(ORIGIN, checkpoint(1).origin().as_str());
}

proptest! {
    #[test]
    fn whatever_is_accepted_is_written_as_it_was_read(
        at in any::<prop::sample::Index>(),
        cut in 0usize..3,
        piece in "[ -~\n\t0-9A-Za-z+/=]{0,3}",
    ) {
        let mut text = request(3, proof(3, 5), &note(&checkpoint(5), &[(1, 7)])).to_string();
        let at = text.floor_char_boundary(at.index(text.len() + 1));
        let end = text.ceil_char_boundary(at + cut);
        text.replace_range(at..end, &piece);
        if let Ok(read) = AddCheckpoint::parse(text.as_bytes()) {
            prop_assert_eq!(read.to_string(), text);
        }
    }
}
