//! Policies of other projects, every refused line, quorums by an oracle, attacks on cosigned notes.

use super::super::testing::*;
use super::*;
use crate::key::{KeyUsage, PrivateKey};
use crate::limits::{MAX_POLICY_BYTES, MAX_POLICY_GROUPS, MAX_POLICY_LOGS, MAX_POLICY_WITNESSES};
use crate::testing::{key, signer};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn policy(text: &str) -> Policy {
    Policy::parse(text.as_bytes()).unwrap()
}

/// The log, and this many witnesses `w1`, `w2`, … before `rest`.
fn lines(witnesses: u8, rest: &str) -> String {
    let mut text = format!("log {}\n", log_key());
    for number in 1..=witnesses {
        text += &format!("witness w{number} {}\n", witness_key(number));
    }
    text + rest
}

fn at(judged: &Result<Judgement, NotAccepted>) -> Option<u64> {
    match judged {
        Ok(Judgement::Witnessed(witnessed)) => Some(witnessed.at().seconds()),
        _ => None,
    }
}

#[test]
fn a_note_and_a_policy_of_another_implementation_are_read() {
    let file = include_str!("../../../../../testkit/tlog/cosigned.note");
    let policy = policy(include_str!("../../../../../testkit/tlog/cosigned.policy"));
    let read = SignedNote::parse(file).unwrap();
    let Ok(Judgement::Witnessed(witnessed)) = policy.judge(&read) else {
        panic!("a quorum cosigned");
    };
    let signed = witnessed.signed();
    assert_eq!(signed.log(), &log_key());
    assert_eq!(signed.checkpoint().tree().size, 5);
    let cosigned: Vec<_> = signed.cosignatures().iter().collect();
    let seconds: Vec<_> = cosigned.iter().map(|by| by.time.seconds()).collect();
    assert_eq!(seconds, [1_679_315_148, 1_679_315_149]);
    assert_eq!(cosigned[1].witness.as_str(), Some("W2"));
    assert_eq!(witnessed.at(), time(1_679_315_148));
    let url = policy.logs()[0].url.as_ref();
    let url = url.and_then(PolicyText::as_str);
    assert_eq!(url, Some("https://log.example/"));
    // The same keys sign the same bytes here.
    let cosigned = [(1, 1_679_315_148), (2, 1_679_315_149)];
    assert_eq!(note(signed.checkpoint(), &cosigned).to_string(), file);
}

#[test]
fn the_example_of_the_specification_asks_for_two_of_one_group_and_one_of_the_other() {
    let text = lines(
        6,
        "group X-witnesses 2 w1 w2 w3\n\n# the others\n group\tY-witnesses any w4 w5 w6 \n\
         group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n",
    );
    let policy = policy(&text);
    assert!(policy.asks_for_witnesses());
    for set in 0..64_u8 {
        let who: Vec<_> = (1..=6).filter(|n| set >> (n - 1) & 1 == 1).collect();
        let cosigned: Vec<_> = who.iter().map(|n| (*n, 7)).collect();
        let judged = policy.judge(&note(&checkpoint(5), &cosigned));
        let expected = who.iter().filter(|n| **n <= 3).count() >= 2 && who.iter().any(|n| *n > 3);
        assert_eq!(at(&judged).is_some(), expected, "{who:?}");
        if let Err(why) = judged {
            let NotAccepted::NoQuorum(signed) = why else {
                panic!("{why}");
            };
            assert_eq!(signed.cosignatures().len(), who.len());
        }
    }
}

// T-WIT-06
#[test]
fn without_a_quorum_the_word_of_the_log_is_all_that_there_is() {
    let policy = policy(&lines(1, "quorum none\n"));
    assert!(!policy.asks_for_witnesses());
    for cosignatures in [&[][..], &[(1, 7)]] {
        let judged = policy.judge(&note(&checkpoint(5), cosignatures)).unwrap();
        assert!(matches!(judged, Judgement::LogOnly(_)));
        assert_eq!(judged.signed().cosignatures().len(), cosignatures.len());
    }
}

// T-WIT-07
#[test]
fn a_quorum_is_as_old_as_the_cosignature_that_completes_it() {
    let policy = policy(&lines(3, "group g 2 w1 w2 w3\nquorum g\n"));
    for (cosigned, expected) in [
        (&[(1, 10), (2, 20)][..], Some(10)),
        (&[(1, 10), (2, 20), (3, 30)], Some(20)),
        (&[(1, 10), (1, 40), (2, 20)], Some(20)),
        (&[(1, 10), (1, 40)], None),
        (&[], None),
    ] {
        let judged = policy.judge(&note(&checkpoint(5), cosigned));
        assert_eq!(at(&judged), expected, "{cosigned:?}");
    }
}

#[test]
fn only_a_log_of_the_policy_counts_under_its_own_origin() {
    let policy = policy(&lines(1, "quorum w1\n"));
    let unknown = checkpoint_of("example.com/other", tree(5));
    let not_signed = || NotAccepted::NotSigned(origin(ORIGIN));
    let text = checkpoint(5).to_note_text().unwrap();
    for (note, why) in [
        (
            signed(&unknown),
            NotAccepted::UnknownLog(origin("example.com/other")),
        ),
        (
            checkpoint(5).sign(&signer(99, KeyUsage::Log)).unwrap(),
            not_signed(),
        ),
        // Cosignatures alone are not enough: they do not identify the log.
        (
            SignedNote::of(text, cosigned(&checkpoint(5), 1, 7)),
            not_signed(),
        ),
    ] {
        assert_eq!(policy.judge(&note), Err(why));
    }
}

#[test]
fn of_several_keys_of_one_log_any_counts() {
    let later = signer(99, KeyUsage::Log);
    let later_key = VerifierKey::of_log(name(ORIGIN), key(99));
    let policy = policy(&lines(0, &format!("log {later_key}\nquorum none\n")));
    for (signer, key) in [(&log(), &log_key()), (&later, &later_key)] {
        let note = checkpoint(5).sign(signer).unwrap();
        assert_eq!(policy.judge(&note).unwrap().signed().log(), key);
    }
}

// T-WIT-02
#[test]
fn every_changed_bit_of_a_cosigned_note_is_noticed() {
    let policy = policy(&lines(2, "group g all w1 w2\nquorum g\n"));
    let text = note(&checkpoint(5), &[(1, 7), (2, 9)]).to_string();
    let accepts = |text: &str| {
        let note = SignedNote::parse(text).ok();
        note.is_some_and(|note| policy.judge(&note).is_ok())
    };
    assert!(accepts(&text));
    for changed in bit_flips(&text) {
        assert!(!accepts(&changed), "{changed}");
    }
}

// T-WIT-02
#[test]
fn a_cosignature_moved_to_another_tree_or_witness_condemns_the_note() {
    let policy = policy(&lines(2, "quorum w1\n"));
    let mut moved = note(&checkpoint(5), &[(1, 7)]);
    moved.add(cosigned(&checkpoint(6), 2, 7)).unwrap();
    let condemned = NotAccepted::Note(NoteError::BadSignature(witness_name(2)));
    assert_eq!(policy.judge(&moved), Err(condemned));
    let mut other = signed(&other_checkpoint(5));
    other.add(cosigned(&checkpoint(5), 1, 7)).unwrap();
    assert!(policy.judge(&other).is_err());
    let mut renamed = signed(&checkpoint(5));
    let line = cosigned(&checkpoint(5), 1, 7);
    let as_w2 = line.to_string().replace("/w1 ", "/w2 ");
    let as_w2 = crate::note::NoteSignature::parse(as_w2.trim_end());
    renamed.add(as_w2.unwrap()).unwrap();
    let judged = policy.judge(&renamed);
    assert!(matches!(judged, Err(NotAccepted::NoQuorum(_))));
}

// T-WIT-04 T-WIT-05
#[test]
fn whatever_is_not_understood_is_refused_with_its_line() {
    let (one, nine) = (witness_key(1), witness_key(9));
    let log_of_one = VerifierKey::of_log(name(ORIGIN), key(2));
    let renamed = VerifierKey::of_witness(name("another.example"), key(2));
    let record = VerifierKey::of_log(name("threadseal/1/transcript/0"), key(1));
    let good = lines(3, "group g any w1 w2\n");
    let refused = |text: &str, line: Option<usize>, why: &str| {
        let refused = Policy::parse(text.as_bytes()).unwrap_err();
        assert_eq!(refused.line(), line, "{text:?}: {refused}");
        assert!(refused.to_string().contains(why), "{text:?}: {refused}");
    };
    // The sixth line is wrong; a good quorum follows it.
    for (line, why) in [
        ("quorum x", "\"x\" is not defined"),
        ("quorum", "after `quorum`"),
        ("quorum g # all", "after `quorum`"),
        ("quorum G", "not defined"),
        ("Quorum g", "does not begin with log"),
        ("quorum g\u{a0}", "not defined"),
        ("group h all w3 h", "\"h\" is not defined"),
        ("group h all g w1", "\"w1\" is already a member"),
        ("group h 1 w3 w3", "\"w3\" is already a member"),
        ("group h any none", "\"none\" is not defined"),
        ("group none any w3", "\"none\" is already defined"),
        ("group g any w3", "\"g\" is already defined"),
        ("group w1 any w3", "\"w1\" is already defined"),
        ("group h all", "after `group`"),
        ("group h 0 w3", "1 to 1"),
        ("group h 2 w3", "1 to 1"),
        ("group h 01 w3", "1 to 1"),
        ("group h +1 w3", "1 to 1"),
        ("group h ALL w3", "1 to 1"),
        ("group h 99999999999999999999 w3", "1 to 1"),
        (&format!("witness w9 {one}"), "an earlier line"),
        (&format!("witness w9 {renamed}"), "an earlier line"),
        (&format!("log {log_of_one}"), "an earlier line"),
        (&format!("witness w1 {nine}"), "\"w1\" is already defined"),
        (
            &format!("witness none {nine}"),
            "\"none\" is already defined",
        ),
        (&format!("witness w9 {}", log_key()), "not a witness's key"),
        (&format!("log {nine}"), "not a log's key"),
        (&format!("log {record}"), "not a log's key"),
        (&format!("log {nine} a b"), "after `log`"),
        ("log", "after `log`"),
        ("log x", "not a verifier key"),
        ("witness w9", "after `witness`"),
    ] {
        refused(&format!("{good}{line}\nquorum g\n"), Some(6), why);
    }
    for (rest, line, why) in [
        ("quorum g\nquorum g\n", Some(7), "one quorum"),
        ("quorum g\n\r\n", Some(7), "control character"),
        ("quorum g\n# \u{7f}\n", Some(7), "control character"),
        ("quorum g", None, "newline"),
        ("", None, "quorum"),
        ("# quorum g\n", None, "quorum"),
    ] {
        refused(&format!("{good}{rest}"), line, why);
    }
    refused("", None, "");
    let no_text = Policy::parse(b"log \xff\nquorum none\n").unwrap_err();
    assert_eq!(no_text.line(), Some(1));
}

#[test]
fn names_comments_and_addresses_are_any_bytes_that_are_no_blanks() {
    let mut file = b"  # caf\xe9\n\t\n".to_vec();
    file.extend(format!("witness \u{212a} {} ", witness_key(1)).bytes());
    file.extend(b"https://\xe9/\nwitness K ");
    file.extend(format!("{}\nquorum \u{212a}\n", witness_key(2)).bytes());
    let read = Policy::parse(&file).unwrap();
    assert_eq!(read.witnesses()[0].name.as_str(), Some("\u{212a}"));
    let url = read.witnesses()[0].url.as_ref().unwrap();
    assert_eq!(url.as_bytes(), b"https://\xe9/");
    assert_eq!(url.as_str(), None);
    assert_eq!(read.quorum, Some(0));
}

/// A policy with the given numbers of logs, witnesses and groups.
fn crowd(logs: usize, witnesses: usize, groups: usize) -> String {
    let key = |seed: usize| {
        let seed = crate::digest::Digest::of(&seed.to_be_bytes());
        *PrivateKey::from_seed(*seed.as_bytes()).public_key()
    };
    let mut text = String::new();
    for number in 0..logs {
        let key = VerifierKey::of_log(name(&format!("log/{number}")), key(number));
        text += &format!("log {key}\n");
    }
    for number in 0..witnesses {
        let key = VerifierKey::of_witness(name("w"), key(logs + number));
        text += &format!("witness w{number} {key}\n");
    }
    let mut last = "w0".to_owned();
    for number in 0..groups {
        text += &format!("group g{number} any {last}\n");
        last = format!("g{number}");
    }
    text + &format!("quorum {last}\n")
}

// T-WIT-14
#[test]
fn as_many_as_there_may_be_are_read_and_no_more() {
    // C2SP tlog-policy requires support for this many.
    assert_eq!(policy(&crowd(32, 32, 32)).rules.len(), 64);
    let (logs, witnesses, groups) = (MAX_POLICY_LOGS, MAX_POLICY_WITNESSES, MAX_POLICY_GROUPS);
    let most = policy(&crowd(logs, witnesses, groups));
    assert_eq!(most.rules.len(), witnesses + groups);
    for (logs, witnesses, groups) in [(logs + 1, 1, 1), (1, witnesses + 1, 1), (1, 1, groups + 1)] {
        let refused = Policy::parse(crowd(logs, witnesses, groups).as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("at most"), "{refused}");
    }
    let long = format!("{}\nquorum none\n", "#".repeat(MAX_POLICY_BYTES));
    assert_eq!(Policy::parse(long.as_bytes()).unwrap_err().line(), None);
}

/// A group in the oracle: how many of these names.
type Group = (usize, Vec<String>);

/// The value of a name, by the definition.
fn defined(name: &str, groups: &BTreeMap<String, Group>, cosigned: &dyn Fn(&str) -> bool) -> bool {
    match groups.get(name) {
        None => cosigned(name),
        Some((least, members)) => {
            let met = members
                .iter()
                .filter(|name| defined(name, groups, cosigned));
            met.count() >= *least
        }
    }
}

const WITNESSES: u8 = 6;

/// Groups over six witnesses and each other. Each name is a member at most once.
fn any_groups() -> impl Strategy<Value = Vec<(String, Group)>> {
    let group = (
        prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        any::<prop::sample::Index>(),
    );
    prop::collection::vec(group, 0..6).prop_map(|picks| {
        let mut free: Vec<String> = (1..=WITNESSES).map(|n| format!("w{n}")).collect();
        let mut groups = Vec::new();
        for (number, (members, least)) in picks.into_iter().enumerate() {
            let mut taken = Vec::new();
            for member in members {
                if !free.is_empty() {
                    taken.push(free.swap_remove(member.index(free.len())));
                }
            }
            if !taken.is_empty() {
                let name = format!("g{number}");
                groups.push((name.clone(), (least.index(taken.len()) + 1, taken)));
                free.push(name);
            }
        }
        groups
    })
}

proptest! {
    // T-WIT-04
    #[test]
    fn quorums_are_met_as_they_are_defined(
        groups in any_groups(),
        quorum in any::<prop::sample::Index>(),
        times in prop::collection::vec(prop::option::of(1_u64..5), usize::from(WITNESSES)),
    ) {
        let mut text = lines(WITNESSES, "");
        for (name, (least, members)) in &groups {
            text += &format!("group {name} {least} {}\n", members.join(" "));
        }
        let mut names: Vec<String> = (1..=WITNESSES).map(|n| format!("w{n}")).collect();
        names.extend(groups.iter().map(|(name, _)| name.clone()));
        let quorum = &names[quorum.index(names.len())];
        text += &format!("quorum {quorum}\n");
        let groups: BTreeMap<_, _> = groups.into_iter().collect();
        let cosigned: Vec<_> = (1..).zip(&times).filter_map(|(n, time)| Some((n, (*time)?))).collect();
        let since = |time: u64| {
            let cosigned = |name: &str| {
                cosigned.iter().any(|(n, at)| *at >= time && name == format!("w{n}"))
            };
            defined(quorum, &groups, &cosigned)
        };
        let expected = (1..5).rev().find(|time| since(*time));
        let judged = policy(&text).judge(&note(&checkpoint(5), &cosigned));
        prop_assert_eq!(at(&judged), expected);
    }

    #[test]
    fn reading_any_lines_never_panics(
        text in "(log|witness|group|quorum|#|any|all|none|w1|w2|g|1|2|[ \t\n\\x00-\\xff]){0,30}\n",
    ) {
        let _ = Policy::parse(text.as_bytes());
        let _ = Policy::parse(lines(2, &text).as_bytes());
    }
}
