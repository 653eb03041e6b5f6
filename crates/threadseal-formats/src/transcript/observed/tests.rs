//! Attacks on salts and on redacted logs.

use super::*;
use crate::transcript::log::LogReader;
use crate::transcript::{VerifyOptions, observe};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::report::Report;
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_core::trust::Trust;

const ROOT: Secret = Secret::from_bytes([4; 16]);

fn signer(seed: u8) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Observed)
}

fn time() -> Timestamp {
    Timestamp::from_micros(1_771_356_405_001_000).unwrap()
}

/// A log and its seal file.
#[derive(Clone)]
struct Pair {
    lines: Vec<Vec<u8>>,
    seals: Vec<u8>,
}

impl Pair {
    fn new(record: u8, root: Option<Secret>, lines: &[&str]) -> Self {
        let mut seals = Vec::new();
        let record = RecordId::from_bytes([record; 32]);
        begin(record, *signer(3).public_key(), root, &mut seals);
        let mut pair = Self {
            lines: Vec::new(),
            seals,
        };
        pair.grow(lines);
        pair
    }

    fn of_five() -> Self {
        Self::new(
            8,
            Some(ROOT),
            &[
                "{\"n\":1}",
                "{\"n\":2}",
                "{\"n\":3}",
                "{\"n\":4}",
                "{\"n\":5}",
            ],
        )
    }

    /// Appends lines, and seals them.
    fn grow(&mut self, lines: &[&str]) {
        let mut file = parse(&self.seals).unwrap();
        let before = file.last().map_or(0, |last| last.head.size);
        let size: usize = lines.iter().map(|line| line.len() + 1).sum();
        let new: Vec<Digest> = lines
            .iter()
            .map(|line| leaf_hash(line.as_bytes()))
            .collect();
        let size = before + size as u64;
        file.seal(&new, size, false, time(), &signer(3), &mut self.seals)
            .unwrap();
        let lines = lines.iter().map(|line| line.as_bytes().to_vec());
        self.lines.extend(lines);
    }

    fn file(&self) -> SealFile {
        parse(&self.seals).unwrap()
    }

    fn redaction(&self, runs: &[(u64, u64)]) -> Redaction {
        Redaction {
            head: self.file().last().unwrap().head,
            runs: runs.to_vec(),
            time: time(),
            by: "Ada".to_owned(),
            why: "a \u{1f511} key".to_owned(),
        }
    }

    /// The redacted copy.
    fn without(&self, runs: &[(u64, u64)]) -> Self {
        let redaction = self.redaction(runs);
        let seals = redact(&self.seals, &redaction, &signer(3)).unwrap();
        let mut copy = Self {
            lines: self.lines.clone(),
            seals,
        };
        for range in redaction.lines() {
            for index in range {
                copy.replace(index);
            }
        }
        copy
    }

    /// Puts the replacement in the place of a line, from 0.
    fn replace(&mut self, index: u64) {
        let at = usize::try_from(index).unwrap();
        let leaf = self.file().leaves[at];
        self.lines[at] = replacement(index + 1, &leaf);
    }

    fn report(&self) -> Report {
        let trust = Trust::key(*signer(3).public_key());
        let options = VerifyOptions {
            trust: &trust,
            now: time(),
            held_since: None,
            thread: None,
        };
        let file = match parse(&self.seals) {
            Ok(file) => file,
            Err(finding) => panic!("{finding:?}"),
        };
        let mut reader = LogReader::new(Some(&file), false);
        for line in &self.lines {
            reader.push(line);
            reader.push(b"\n");
        }
        let found = reader.finish();
        let expect = file.last().map(|last| {
            threadseal_core::report::Expectation::given(
                threadseal_core::record::ExpectedHead::Head(last.head),
                true,
            )
        });
        observe::report(&file, &found, expect.as_slice(), &options)
    }

    fn verdict(&self) -> Verdict {
        self.report().verdict
    }

    fn codes(&self) -> Vec<&'static str> {
        let report = self.report();
        report
            .findings
            .iter()
            .map(|found| found.code.as_str())
            .collect()
    }

    fn seal_lines(&self) -> Vec<Vec<u8>> {
        lines_of(&self.seals).map(<[u8]>::to_vec).collect()
    }
}

// T-OBS-43
#[test]
fn salts_that_are_gone_doubled_changed_or_of_another_record_verify_nothing() {
    let pair = Pair::of_five();
    assert_eq!(pair.verdict(), Verdict::Verified);
    let other = Pair::new(9, Some(Secret::from_bytes([5; 16])), &["{\"n\":1}"]);
    let lines = pair.seal_lines();
    let mut changed = Vec::new();
    let mut gone = lines.clone();
    gone.remove(1);
    changed.push((gone, Verdict::Malformed));
    let mut doubled = lines.clone();
    doubled.insert(1, lines[1].clone());
    changed.push((doubled, Verdict::Tampered));
    let mut swapped = lines.clone();
    swapped[1] = other.seal_lines()[1].clone();
    changed.push((swapped, Verdict::Malformed));
    let mut last = lines.clone();
    last.swap(1, 2);
    changed.push((last, Verdict::Malformed));
    for text in [
        "{\"salts\":[]}\n",
        "{\"salts\":[[31,0,\"00000000000000000000000000000000\"]]}\n",
    ] {
        let mut other = lines.clone();
        other[1] = text.as_bytes().to_vec();
        changed.push((other, Verdict::Tampered));
    }
    for (lines, verdict) in changed {
        let seals = lines.concat();
        let changed = Pair {
            seals,
            ..pair.clone()
        };
        assert_eq!(changed.verdict(), verdict, "{:?}", changed.codes());
    }
    // Right secrets of another level are as good as the root, but for one that has nothing above.
    let halves = Salts::whole(ROOT)
        .without(std::slice::from_ref(&(1 << 31..(1 << 31) + 1)))
        .unwrap();
    let mut punctured = lines;
    punctured[1] = format!("{}\n", salts_line(&halves)).into_bytes();
    let punctured = Pair {
        seals: punctured.concat(),
        ..pair
    };
    assert_eq!(punctured.verdict(), Verdict::Verified);
}

// T-OBS-44
#[test]
fn no_byte_of_a_redacted_pair_can_be_changed() {
    let pair = Pair::of_five().without(&[(2, 2)]);
    assert_eq!(pair.verdict(), Verdict::Verified, "{:?}", pair.codes());
    for at in 0..pair.seals.len() {
        let mut changed = pair.clone();
        changed.seals[at] ^= 1;
        let is_verified = parse(&changed.seals).is_ok() && changed.verdict() == Verdict::Verified;
        // The secrets of lines that are not there yet give no leaf so far.
        let salts = lines_of(&pair.seals)
            .take(2)
            .map(<[u8]>::len)
            .sum::<usize>();
        let is_later = at > pair.seal_lines()[0].len() && at < salts;
        assert!(!is_verified || is_later, "byte {at}");
    }
    for (index, line) in pair.lines.iter().enumerate() {
        for at in 0..line.len() {
            let mut changed = pair.clone();
            changed.lines[index][at] ^= 1;
            assert_eq!(
                changed.verdict(),
                Verdict::Tampered,
                "line {index} byte {at}"
            );
        }
    }
}

#[test]
fn a_redacted_copy_names_its_lines_and_its_reason() {
    let pair = Pair::of_five();
    for runs in [
        vec![(1, 1)],
        vec![(5, 1)],
        vec![(1, 5)],
        vec![(1, 1), (3, 1), (5, 1)],
    ] {
        let copy = pair.without(&runs);
        let report = copy.report();
        assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
        let note = &report.findings[0];
        assert_eq!(note.code, FindingCode::Redacted);
        assert!(
            note.message.contains("Ada") && note.message.contains("key"),
            "{}",
            note.message
        );
        assert_eq!(report.head, pair.report().head, "seals are as they were");
        // A reader of the copy has no salt with which a guess could be tested.
        let read = copy.file();
        for (index, line) in pair.lines.iter().enumerate() {
            let is_gone = copy.lines[index] != *line;
            assert_eq!(
                read.walk(index).next_leaf(&leaf_hash(line)).is_none(),
                is_gone
            );
        }
    }
}

// T-OBS-45
#[test]
fn statements_of_another_record_line_head_or_key_redact_nothing() {
    let pair = Pair::of_five();
    let copy = pair.without(&[(2, 1)]);
    let statement = copy.seal_lines()[2].clone();
    let with = |pair: &Pair, statement: &[u8]| {
        let mut lines = pair.seal_lines();
        lines[2] = statement.to_vec();
        Pair {
            seals: lines.concat(),
            ..pair.clone()
        }
    };
    // Another line.
    let third = pair.without(&[(3, 1)]);
    let moved = with(&third, &statement);
    assert_eq!(moved.verdict(), Verdict::Tampered);
    assert_eq!(moved.codes()[0], "redacted");
    assert!(
        moved.codes().contains(&"salt_missing"),
        "{:?}",
        moved.codes()
    );
    // Another record, with equal lines.
    let other = Pair::new(
        9,
        Some(ROOT),
        &[
            "{\"n\":1}",
            "{\"n\":2}",
            "{\"n\":3}",
            "{\"n\":4}",
            "{\"n\":5}",
        ],
    );
    let other = with(&other.without(&[(2, 1)]), &statement);
    assert_eq!(other.verdict(), Verdict::Tampered);
    assert!(
        other.codes().contains(&"redaction_bad"),
        "{:?}",
        other.codes()
    );
    // A head that no seal of the file has, and lines beyond a seal.
    let header = copy.file().header;
    let mut unknown = pair.redaction(&[(2, 1)]);
    unknown.head.seq = 1;
    let mut beyond = pair.redaction(&[(2, 1)]);
    beyond.runs = vec![(2, 5)];
    for bad in [unknown, beyond] {
        let statement = bad.sign(&header, &signer(3)).unwrap();
        let changed = with(&copy, &statement);
        assert_eq!(changed.verdict(), Verdict::Tampered);
        assert!(
            changed.codes().contains(&"redaction_bad"),
            "{:?}",
            changed.codes()
        );
        assert!(redact(&pair.seals, &bad, &signer(3)).is_err());
    }
    // Another key.
    let forged = pair.redaction(&[(2, 1)]).sign(&header, &signer(4)).unwrap();
    let forged = with(&copy, &forged);
    assert_eq!(forged.verdict(), Verdict::Tampered);
    assert!(redact(&pair.seals, &pair.redaction(&[(2, 1)]), &signer(4)).is_err());
    // None.
    let mut lines = copy.seal_lines();
    lines.remove(2);
    let bare = Pair {
        seals: lines.concat(),
        ..copy
    };
    assert_eq!(bare.verdict(), Verdict::Tampered);
    assert_eq!(bare.codes(), ["salt_missing"]);
}

// T-OBS-46
#[test]
fn a_redaction_excuses_no_other_change() {
    let pair = Pair::of_five();
    let copy = pair.without(&[(3, 1)]);
    for index in [0, 1, 3, 4] {
        let mut edited = copy.clone();
        edited.lines[index] = b"{\"n\":9}".to_vec();
        assert_eq!(edited.verdict(), Verdict::Tampered);
        assert!(
            edited.codes().contains(&"line_changed"),
            "{:?}",
            edited.codes()
        );
        let mut hidden = copy.clone();
        hidden.replace(index as u64);
        assert_eq!(hidden.verdict(), Verdict::Tampered, "not a redacted line");
        let mut deleted = copy.clone();
        deleted.lines.remove(index);
        assert!(deleted.verdict().is_evidence());
        let mut moved = copy.clone();
        moved.lines.swap(index, 2);
        assert_eq!(moved.verdict(), Verdict::Tampered);
    }
    let mut cut = copy.clone();
    cut.lines.truncate(3);
    assert_eq!(cut.verdict(), Verdict::Truncated);
    let last = pair.without(&[(5, 1)]);
    let mut cut = last.clone();
    cut.lines.truncate(4);
    assert_eq!(
        cut.verdict(),
        Verdict::Truncated,
        "the redacted line is missing"
    );
    let mut other = last;
    other.lines[4] = b"{\"threadseal_redacted\":{\"line\":5,\"leaf\":\"\"}}".to_vec();
    assert_eq!(other.verdict(), Verdict::Tampered);
    // The line itself cannot be checked any more.
    let mut original = copy;
    original.lines[2] = pair.lines[2].clone();
    assert_eq!(original.verdict(), Verdict::Tampered);
}

// T-OBS-47
#[test]
fn lines_of_an_agent_that_look_redacted_are_its_lines() {
    let fake = replacement(2, &Digest::of(b"x"));
    let fake = String::from_utf8(fake).unwrap();
    let pair = Pair::new(8, Some(ROOT), &["{\"n\":1}", &fake, "{\"n\":3}"]);
    assert_eq!(pair.verdict(), Verdict::Verified);
    assert_eq!(pair.codes(), [""; 0], "nothing was redacted");
    let mut edited = pair.clone();
    edited.lines[1] = replacement(2, &Digest::of(b"y"));
    assert_eq!(edited.verdict(), Verdict::Tampered);
    let mut edited = pair.clone();
    edited.replace(1);
    assert_eq!(edited.verdict(), Verdict::Tampered);
    let copy = pair.without(&[(2, 1)]);
    assert_eq!(copy.verdict(), Verdict::Verified);
    assert_ne!(copy.lines[1], pair.lines[1]);
}

// T-OBS-48
#[test]
fn a_redacted_log_grows_and_is_redacted_again() {
    let mut pair = Pair::of_five().without(&[(5, 1)]);
    pair.grow(&["{\"n\":6}", "{\"n\":7}"]);
    assert_eq!(pair.verdict(), Verdict::Verified, "{:?}", pair.codes());
    let earlier = pair.clone();
    let twice = pair.without(&[(1, 1), (6, 1)]);
    assert_eq!(twice.verdict(), Verdict::Verified, "{:?}", twice.codes());
    assert_eq!(twice.codes(), ["redacted", "redacted"]);
    let again = twice.without(&[(5, 2)]);
    assert_eq!(again.verdict(), Verdict::Verified, "{:?}", again.codes());
    // An earlier copy is genuine, and shows what was redacted later. Its salts do not fit the later log.
    assert_eq!(earlier.verdict(), Verdict::Verified);
    let mixed = Pair {
        seals: earlier.seals.clone(),
        ..twice.clone()
    };
    assert_eq!(mixed.verdict(), Verdict::Tampered);
    // The log of its agent grows, and the copy takes the redactions along.
    let mut live = Pair::of_five();
    live.grow(&["{\"n\":6}", "{\"n\":7}"]);
    let newer = redact_again(&twice.seals, &live.seals).unwrap();
    assert_eq!(newer.len(), twice.seals.len());
    let newer = Pair {
        seals: newer,
        ..twice
    };
    assert_eq!(newer.verdict(), Verdict::Verified, "{:?}", newer.codes());
    let other = Pair::new(9, Some(ROOT), &["{\"n\":1}"]);
    assert!(redact_again(&newer.seals, &other.seals).is_err());
}

#[test]
fn a_redaction_that_is_only_stated_is_unfinished() {
    let pair = Pair::of_five();
    let copy = pair.without(&[(2, 1)]);
    let mut lines = copy.seal_lines();
    lines[1] = pair.seal_lines()[1].clone();
    let seals = lines.concat();
    let stated = Pair {
        seals: seals.clone(),
        ..pair
    };
    assert_eq!(stated.verdict(), Verdict::Verified);
    assert_eq!(stated.codes(), ["redacted", "redaction_unfinished"]);
    let replaced = Pair { seals, ..copy };
    assert_eq!(replaced.verdict(), Verdict::Verified);
}

// T-OBS-49
#[test]
fn a_file_of_format_1_is_continued_and_not_redacted() {
    let mut pair = Pair::new(8, None, &["{\"n\":1}", "{\"n\":2}"]);
    pair.grow(&["{\"n\":3}"]);
    assert_eq!(pair.verdict(), Verdict::Verified);
    assert!(
        pair.seals
            .starts_with(b"{\"format\":\"threadseal-observed/1\",")
    );
    assert_eq!(pair.file().leaves[1], leaf_hash(b"{\"n\":2}"));
    let refused = redact(&pair.seals, &pair.redaction(&[(2, 1)]), &signer(3)).unwrap_err();
    assert!(refused.to_string().contains("no salts"), "{refused}");
    // Neither format passes for the other one.
    let salted = Pair::of_five();
    for (pair, from, to) in [
        (&pair, "observed/1", "observed/2"),
        (&salted, "observed/2", "observed/1"),
    ] {
        let text = String::from_utf8(pair.seals.clone())
            .unwrap()
            .replace(from, to);
        let changed = Pair {
            seals: text.into_bytes(),
            ..pair.clone()
        };
        assert!(parse(&changed.seals).is_err() || changed.verdict().is_evidence());
    }
}

#[test]
fn statements_within_their_bounds_have_one_spelling() {
    let pair = Pair::of_five();
    let header = pair.file().header;
    let good = pair.redaction(&[(1, 1), (3, 2)]);
    let line = good.sign(&header, &signer(3)).unwrap();
    let line = line.strip_suffix(b"\n").unwrap();
    let read = SignedRedaction::parse(line, &header).unwrap();
    assert!(read.holds(&header));
    assert_eq!(read.redaction, good);
    let named: Vec<u64> = (0..7).filter(|number| good.names(*number)).collect();
    assert_eq!(named, [1, 3, 4]);
    for runs in [
        vec![],
        vec![(0, 1)],
        vec![(1, 0)],
        vec![(1, 2), (3, 1)],
        vec![(3, 1), (1, 1)],
        vec![(1, 1 << 32)],
    ] {
        let bad = Redaction {
            runs,
            ..good.clone()
        };
        assert!(bad.sign(&header, &signer(3)).is_err());
    }
    for text in ["", &"x".repeat(5000)] {
        let bad = Redaction {
            why: text.to_owned(),
            ..good.clone()
        };
        assert!(bad.sign(&header, &signer(3)).is_err());
    }
}

// T-OBS-51
#[test]
fn lines_beyond_those_of_a_seal_file_are_counted_only() {
    let mut reader = LogReader::new(None::<&SealFile>, true);
    let text = "\n".repeat(1 << 16);
    let pushed = 2 * MAX_OBSERVED_LINES / text.len();
    (0..pushed).for_each(|_| reader.push(text.as_bytes()));
    reader.push(b"x");
    let scan = reader.finish();
    let lines = 2 * MAX_OBSERVED_LINES as u64;
    assert_eq!((scan.lines, scan.whole_bytes), (lines + 1, lines + 1));
    assert_eq!(scan.new_lines.len(), MAX_OBSERVED_LINES);
    // A seal file is read for what it covers, however long its log became.
    let pair = Pair::new(7, Some(ROOT), &["a", "b"]);
    let seals = parse(&pair.seals).unwrap();
    let mut reader = LogReader::new(Some(&seals), true);
    reader.push(b"a\nb\n");
    (0..pushed).for_each(|_| reader.push(text.as_bytes()));
    let scan = reader.finish();
    assert_eq!((scan.sealed_end, scan.lines), (Some(4), lines + 2));
    assert_eq!(scan.new_lines.len(), MAX_OBSERVED_LINES - 2);
}

/// A line in which `by` names the key `next`.
fn names(by: &LocalSigner, next: u8) -> String {
    let next = *signer(next).public_key();
    let rotation = KeyEvent::sign(KeyChange::Rotate(next), by).unwrap();
    handover::line_of(&rotation, &next)
}

impl Pair {
    /// With these lines of the seal file, and a line of the log that `by` sealed, whatever a writer
    /// would allow.
    fn forged(&self, added: &[String], by: &LocalSigner) -> Self {
        let (file, mut copy) = (self.file(), self.clone());
        let (mut state, line) = (file.state.clone(), b"{\"n\":6}");
        let leaf = file.walk(file.leaves.len()).next_leaf(&leaf_hash(line));
        let leaf = leaf.unwrap();
        let leaves = encoding::base64(leaf.as_bytes());
        let leaves = format!("{{\"leaves\":\"{leaves}\"}}");
        for added in added.iter().chain([&leaves]) {
            let added = format!("{added}\n");
            state.sidecar.update(added.as_bytes());
            copy.seals.extend_from_slice(added.as_bytes());
        }
        state.tree.push_leaf(leaf);
        let values = SealValues {
            seq: file.seals.len() as u64,
            size: file.last().unwrap().head.size + line.len() as u64 + 1,
            time: time(),
            is_final: false,
            header: &file.header,
            state: &state,
        };
        copy.seals.extend(write_seal(&values, by).unwrap());
        copy.seals.push(b'\n');
        copy.lines.push(line.to_vec());
        copy
    }
}

// T-OBS-53
#[test]
fn only_the_key_before_names_the_next_one_and_seals_nothing_after_that() {
    for root in [Some(ROOT), None] {
        let pair = Pair::new(8, root, &["{\"n\":1}", "{\"n\":2}"]);
        let named = names(&signer(3), 5);
        let cases = [
            (vec![named.clone()], 5, Verdict::Verified),
            (
                vec![named.clone(), names(&signer(5), 6)],
                6,
                Verdict::Verified,
            ),
            // The old key seals behind the rotation; another one does; none was named.
            (vec![named.clone()], 3, Verdict::Forged),
            (vec![named.clone()], 6, Verdict::Forged),
            (Vec::new(), 5, Verdict::Forged),
            // A rotation of another key, and one by a key of another usage.
            (vec![names(&signer(6), 5)], 5, Verdict::Forged),
            (
                vec![names(
                    &LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Native),
                    5,
                )],
                5,
                Verdict::Forged,
            ),
            // In a circle.
            (
                vec![named.clone(), names(&signer(5), 3)],
                3,
                Verdict::Tampered,
            ),
            (vec![named.clone(), named.clone()], 5, Verdict::Tampered),
        ];
        for (added, by, verdict) in cases {
            let forged = pair.forged(&added, &signer(by));
            assert_eq!(forged.verdict(), verdict, "{added:?} {by}");
        }
    }
}

/// The rotation names no record, so it is the same in each file of the key. It helps only the key
/// that it names.
// T-OBS-54
#[test]
fn a_rotation_that_is_replayed_in_another_file_helps_only_the_key_that_it_names() {
    let first = Pair::of_five().forged(&[names(&signer(3), 5)], &signer(5));
    let text = String::from_utf8(first.seals).unwrap();
    let line = text.lines().find(|line| names_next(line.as_bytes()));
    let replayed = [line.unwrap().to_owned()];
    let other = Pair::new(9, Some(ROOT), &["{\"n\":1}"]);
    assert_eq!(
        other.forged(&replayed, &signer(6)).verdict(),
        Verdict::Forged
    );
    assert_eq!(
        other.forged(&replayed, &signer(5)).verdict(),
        Verdict::Verified
    );
}

#[test]
fn a_seal_file_is_handed_over_by_rotations_that_begin_at_its_key() {
    let rotation = |from: u8, to: u8| {
        let change = KeyChange::Rotate(*signer(to).public_key());
        KeyEvent::sign(change, &signer(from)).unwrap()
    };
    let pair = Pair::of_five();
    for bad in [vec![rotation(5, 6)], vec![rotation(3, 5), rotation(3, 6)]] {
        assert!(pair.file().hand_over(&bad).is_err());
    }
    let mut empty = begin(
        RecordId::from_bytes([8; 32]),
        *signer(3).public_key(),
        None,
        &mut Vec::new(),
    );
    assert!(empty.hand_over(&[rotation(3, 5)]).is_err());
    let (mut file, mut seals) = (pair.file(), pair.seals.clone());
    file.hand_over(&[rotation(3, 5), rotation(5, 6)]).unwrap();
    let (size, naming) = (file.last().unwrap().head.size, file.naming_bytes());
    let mut seal = |by: u8| file.seal(&[], size, false, time(), &signer(by), &mut seals);
    for other in [3, 5] {
        assert!(seal(other).is_err());
    }
    seal(6).unwrap();
    assert_eq!(*file.current_key(), *signer(6).public_key());
    let read = parse(&seals).unwrap();
    assert_eq!((read.next_keys.len(), read.faults.len()), (2, 0));
    assert_eq!(read.next_keys, file.next_keys);
    let lines = String::from_utf8(seals).unwrap();
    let named = lines.lines().filter(|line| names_next(line.as_bytes()));
    let bytes: usize = named.map(|line| line.len() + 1).sum();
    assert_eq!(bytes as u64, naming);
}

/// The next key redacts lines that the one before sealed.
// T-OBS-55
#[test]
fn a_redaction_is_by_a_key_that_the_file_names() {
    let pair = Pair::of_five().forged(&[names(&signer(3), 5)], &signer(5));
    let redaction = pair.redaction(&[(2, 1)]);
    assert!(redact(&pair.seals, &redaction, &signer(6)).is_err());
    let mut copy = pair.clone();
    copy.seals = redact(&pair.seals, &redaction, &signer(5)).unwrap();
    copy.replace(1);
    assert_eq!(copy.verdict(), Verdict::Verified);
    let text = String::from_utf8(copy.seals.clone()).unwrap();
    let member = |seed: u8| format!(",\"key\":\"{}\",\"sig", signer(seed).public_key().to_hex());
    assert!(text.contains(&member(5)), "{text}");
    for changed in [member(6), member(3), ",\"sig".to_owned()] {
        let mut bad = copy.clone();
        bad.seals = text.replace(&member(5), &changed).into_bytes();
        assert_eq!(bad.verdict(), Verdict::Tampered, "{changed}");
    }
}
