//! A test `rye_8_<number>_…` shows that each weakness of Rye's own verifier for transcripts is
//! closed. The numbers are those of `threats/rye.md`.

use super::*;
use crate::transcript::lines::VerifiedLines;
use threadseal_core::digest::work::hashed_by;
use threadseal_core::encoding;
use threadseal_core::key::Message;
use threadseal_core::trust::Pins;

// T-RYE-01
#[test]
fn rye_8_1_content_smuggled_past_line_ends_is_tampered() {
    let bytes = record(2);
    let (head, last) = bytes.split_at(last_line(&bytes));
    let evil = EVIL.as_bytes();
    for separator in [
        "\r", "\u{b}", "\u{c}", "\u{1c}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}",
    ] {
        let _row = Row(separator);
        let before = [head, evil, separator.as_bytes(), last].concat();
        let torn = [&bytes[..bytes.len() - 1], separator.as_bytes(), evil].concat();
        let behind = [&torn[..], b"\n"].concat();
        for changed in [before, behind, torn] {
            assert!(original_accepts(&changed), "{separator:?}");
            let report = report(&changed);
            is(&report, Verdict::Tampered, "smuggled_line_break");
            assert_eq!(report.trusted_until.unwrap().turn, Some(1));
        }
    }
}

// T-RYE-02
#[test]
fn rye_8_2_stripped_renamed_or_missing_checkpoints_are_never_verified() {
    let bytes = record(2);
    let text = std::str::from_utf8(&bytes).unwrap();
    let stripped: String = text
        .split_inclusive('\n')
        .filter(|line| !line.contains("checkpoint"))
        .collect();
    let renamed = text.replace("\"checkpoint\"", "\"checkpoint_x\"");
    for changed in [stripped.as_str(), renamed.as_str(), ""] {
        assert!(original_accepts(changed.as_bytes()));
        assert_eq!(verdict(changed.as_bytes()), Verdict::Unsigned);
    }
}

/// Python reads more than JSON: such a line is no way around the rule.
// T-RYE-01
#[test]
fn rye_8_1_a_line_that_python_alone_reads_hides_no_event_either() {
    let line = |between: &str| {
        format!(
            "{{\"timestamp\":1.0,\"thread_id\":\"clean/one-1\",{between}\"event_type\":\"cognition_out\",\"payload\":{{\"n\":NaN}}}}\n"
        )
    };
    let hidden = format!("\"x\":\r{EVIL}\r,");
    for between in ["", "\r", &hidden] {
        let _row = Row(between);
        let mut recorder = Recorder::new();
        recorder.turn().raw(line(between).as_bytes()).turn().seal(1);
        let report = report(&recorder.bytes);
        assert_eq!(report.verdict.is_evidence(), !between.is_empty());
        let named = codes(&report).contains(&"carriage_return");
        assert_eq!(named, !between.is_empty());
    }
}

// T-RYE-03
#[test]
fn rye_8_3_a_cut_at_a_checkpoint_is_noticed_with_a_head() {
    let whole = record(3);
    let cut = record(2);
    assert!(whole.starts_with(&cut));
    assert!(original_accepts(&cut));
    let (head, older) = (report(&whole).head.unwrap(), report(&cut).head.unwrap());
    let remembered = |head| Expectation::remembered(ExpectedHead::Head(head));
    let given = |head, exact| Expectation::given(head, exact);
    let mut other = Recorder::new();
    other.turn().seal(1).turn().turn().seal(1).turn().seal(1);
    let (full, line) = (ExpectedHead::Head(head), ExpectedHead::Line(head.line));
    let trust = trust(&[1]);
    for (row, bytes, expect, verdict) in [
        ("given", &cut, given(full, false), Verdict::Truncated),
        ("remembered", &cut, remembered(head), Verdict::RolledBack),
        ("its line", &cut, given(line, false), Verdict::Truncated),
        ("whole", &whole, remembered(head), Verdict::Verified),
        ("older", &whole, remembered(older), Verdict::Verified),
        (
            "exact",
            &whole,
            given(ExpectedHead::Head(older), true),
            Verdict::Open,
        ),
        ("another", &other.bytes, remembered(head), Verdict::Forked),
    ] {
        let options = Options {
            expect: vec![expect],
            ..Options::new(&trust, now())
        };
        let report = verify(bytes, &options).report;
        assert_eq!(report.verdict, verdict, "{row}");
        let proved = report.completeness == Completeness::Head;
        assert!(row != "whole" || proved);
    }
}

// T-RYE-04
#[test]
fn rye_8_4_a_replay_under_another_thread_is_foreign() {
    let other = ThreadId::parse("clean/other").unwrap();
    let trust = trust(&[1]);
    for (thread, verdict) in [(other, Verdict::Foreign), (thread(), Verdict::Verified)] {
        let options = Options {
            thread: Some(&thread),
            ..Options::new(&trust, now())
        };
        assert_eq!(verify(&record(1), &options).report.verdict, verdict);
    }
}

// T-RYE-05
#[test]
fn rye_8_5_what_nothing_covers_is_named_and_must_be_plausible() {
    let bytes = record(2);
    for (from, to) in [
        ("\"turn\": 2", "\"turn\": 3"),
        ("\"turn\": 2", "\"turn\": 0"),
        ("clean/one-1", "clean/two-2"),
        ("\"payload\": {", "\"payload\": {\"note\": \"x\", "),
        ("\"thread_id\"", "\"extra\": 1, \"thread_id\""),
    ] {
        let changed = replace_in_last_line(&bytes, from, to);
        assert!(original_accepts(&changed), "{to}");
        assert_eq!(verdict(&changed), Verdict::Tampered, "{to}");
    }
    let redated = replace_in_last_line(&bytes, "1800000000.123456", "1.0");
    let report = report(&redated);
    assert_eq!(report.verdict, Verdict::Verified);
    let named = [
        "line 8 turn=2",
        "line 8 timestamp=1.0",
        "line 8 ts=2027-01-15T08:00:00Z",
    ];
    assert_eq!(report.unauthenticated, named);
}

// T-RYE-06
#[test]
fn rye_8_6_a_signature_lent_from_another_purpose_must_still_fit_the_frame() {
    // The same bytes signed as another item: the format does not distinguish them; a separate key
    // does.
    let mut recorder = Recorder::new();
    recorder.turn();
    let hash = Digest::of(&recorder.bytes);
    let signature = signer(1).sign(&Message::rye_hash(&hash)).unwrap();
    let line = format!(
        "{{\"timestamp\": 1.0, \"thread_id\": \"x\", \"event_type\": \"checkpoint\", \"payload\": {{\"turn\": 1, \"byte_offset\": {}, \"hash\": \"{hash}\", \"sig\": \"{}\", \"fp\": \"{}\"}}}}\n",
        recorder.bytes.len(),
        encoding::base64url(signature.as_bytes()),
        fingerprint(1),
    );
    recorder.raw(line.as_bytes());
    assert!(original_accepts(&recorder.bytes));
    assert_eq!(verdict(&recorder.bytes), Verdict::Tampered);
    let native_only = trust_in([(key(1), KeyUsage::Native)]);
    let report = judged(&record(1), &native_only);
    assert_eq!(report.verdict, Verdict::UnknownSigner);
}

// T-RYE-08
#[test]
fn rye_8_7_another_signer_is_a_warning_and_not_verified_when_a_key_is_pinned() {
    let mut recorder = Recorder::new();
    recorder.turn().seal(1).turn().seal(2);
    is(
        &judged(&recorder.bytes, &trust(&[1, 2])),
        Verdict::Verified,
        "signer_changed",
    );
    let pinned = Trust {
        pinned: key(1).into(),
        ..trust(&[1, 2])
    };
    let both = Trust {
        pinned: Pins::new([1, 2].map(|seed| key(seed).into())).unwrap(),
        ..Trust::default()
    };
    // The trust vouches for the second signer, who was not asked for; else it has no right here.
    for (trust, verdict, turn) in [
        (pinned, Verdict::UnknownSigner, Some(1)),
        (trust(&[1]), Verdict::Forged, Some(1)),
        (Trust::key(key(1)), Verdict::Forged, Some(1)),
        (trust(&[2]), Verdict::UnknownSigner, Some(2)),
        (Trust::key(key(2)), Verdict::UnknownSigner, Some(2)),
        (Trust::key(key(3)), Verdict::Forged, None),
        (both, Verdict::Verified, Some(2)),
    ] {
        let report = judged(&recorder.bytes, &trust);
        assert_eq!(report.verdict, verdict, "{report:#?}");
        let until = report.trusted_until.and_then(|until| until.turn);
        assert_eq!(until, turn, "{report:#?}");
    }
}

// T-RYE-24
#[test]
fn a_byte_of_the_last_checkpoints_line_that_nothing_covers_is_named() {
    let bytes = record(2);
    let start = last_line(&bytes);
    let line = String::from_utf8(bytes[start..].to_vec()).unwrap();
    for (from, to, at) in [
        ("{\"timestamp", " {\"timestamp", 0),
        ("{\"timestamp", "\t{\"timestamp", 0),
        ("\n", " \n", line.len() - 1),
        ("\n", "\r\n", line.len() - 1),
        (
            ", \"payload",
            ",  \"payload",
            line.find("\"payload").unwrap(),
        ),
        ("\"turn", "\"\\u0074urn", line.find("turn\":").unwrap()),
    ] {
        let changed = line.replacen(from, to, 1);
        assert_ne!(changed, line);
        let changed = [&bytes[..start], changed.as_bytes()].concat();
        assert!(original_accepts(&changed));
        let report = judged(&changed, &trust(&[1]));
        is(&report, Verdict::Partial, "spelling_uncovered");
        let mut findings = report.findings.iter();
        let found = findings.find(|found| found.bytes.is_some()).unwrap();
        let at = (start + at) as u64;
        assert_eq!(found.bytes, Some([at, at + 1]), "{to:?}");
    }
    // A file whose lines all end with CR LF is written so.
    let mut plain = Recorder::new();
    plain.turn();
    let events = String::from_utf8(plain.bytes.clone()).unwrap();
    let mut windows = Recorder::new();
    windows.raw(events.replace('\n', "\r\n").as_bytes());
    windows.turn = plain.turn;
    windows.seal(1);
    windows.bytes.pop();
    windows.bytes.extend(b"\r\n");
    assert_eq!(verdict(&windows.bytes), Verdict::Verified);
}

// T-RYE-09
#[test]
fn rye_8_8_a_fingerprint_is_a_hint_and_never_a_file_name() {
    let bytes = record(1);
    let climbing = replace_in_last_line(&bytes, &fingerprint(1), "../../../tmp/evil");
    assert_eq!(verdict(&climbing), Verdict::Tampered);
    // The key that the hint names did not sign.
    let shared = replace_in_last_line(&bytes, &fingerprint(1), &fingerprint(2));
    let report = judged(&shared, &trust(&[1, 2]));
    assert_eq!(report.verdict, Verdict::Forged);
}

// T-RYE-10
#[test]
fn rye_8_9_what_crashes_the_original_gets_a_verdict() {
    let bytes = record(1);
    for tail in [
        &b"[]\n"[..],
        b"5\n",
        b"null\n",
        b"\xff\n",
        b"\xe2\x82\n",
        b"\xef\xbb\xbf{}\n",
    ] {
        let report = report(&[&bytes, tail].concat());
        assert_eq!(report.verdict, Verdict::UnsignedTail, "{tail:?}");
        let mut severities = report.findings.iter().map(|f| f.severity);
        assert!(severities.any(|it| it == Severity::Error), "{tail:?}");
    }
    for payload in ["[]", "{}", "null", "5", "{\"turn\": 1}"] {
        let line = format!(
            "{{\"timestamp\": 1.0, \"thread_id\": \"clean/one-1\", \"event_type\": \"checkpoint\", \"payload\": {payload}}}\n"
        );
        let changed = [&bytes, line.as_bytes()].concat();
        assert_eq!(verdict(&changed), Verdict::Tampered, "{payload}");
    }
    let missing = b"{\"event_type\": \"checkpoint\"}\n";
    let changed = [&bytes, &missing[..]].concat();
    assert_eq!(verdict(&changed), Verdict::Tampered);
}

// T-RYE-11
#[test]
fn rye_8_10_places_and_names_have_one_reading() {
    let bytes = record(2);
    let offset = format!("\"byte_offset\": {}", last_line(&bytes));
    let from_end = format!("\"byte_offset\": -{}", bytes.len() - last_line(&bytes));
    for (from, to) in [
        (&*offset, &*from_end),
        (&offset, "\"byte_offset\": null"),
        (&offset, "\"byte_offset\": 1000000000000000000000000000000"),
        (&offset, "\"byte_offset\": 0"),
        ("\"turn\": 2, ", ""),
        ("\"event_type\"", "\"event_type\": \"x\", \"event_type\""),
        ("\"payload\"", "\"payload\": {}, \"payload\""),
        ("\"turn\"", "\"turn\": 1, \"t\\u0075rn\""),
    ] {
        let changed = replace_in_last_line(&bytes, from, to);
        assert_eq!(verdict(&changed), Verdict::Tampered, "{to}");
    }
    // This line is sealed, yet two readers differ.
    let twice = EVIL.replace("\"payload\"", "\"payload\": {}, \"payload\"");
    let mut recorder = Recorder::new();
    recorder.turn().raw(twice.as_bytes()).raw(b"\n").seal(1);
    assert!(original_accepts(&recorder.bytes));
    assert_eq!(verdict(&recorder.bytes), Verdict::Tampered);
}

// T-RYE-12
#[test]
fn rye_8_11_impossible_dates_are_refused() {
    let bytes = record(1);
    for to in ["2027-02-30T08:00:00Z", "2027-01-15T25:00:00Z", "yesterday"] {
        let changed = replace_in_last_line(&bytes, "2027-01-15T08:00:00Z", to);
        assert!(original_accepts(&changed));
        assert_eq!(verdict(&changed), Verdict::Tampered, "{to}");
    }
}

// T-RYE-15
#[test]
fn rye_8_14_the_last_event_is_sealed_when_the_checkpoint_follows_it() {
    let mut as_rye_does = Recorder::new();
    as_rye_does.turn().seal(1).event("thread_completed", "{}");
    let outcome = verify(&as_rye_does.bytes, &Options::new(&trust(&[1]), now()));
    assert_eq!(outcome.report.verdict, Verdict::UnsignedTail);
    let with_tail = outcome.lenient().unwrap();
    let tail = (with_tail.unverified.from, with_tail.unverified.to);
    let sealed = with_tail.verified.get().head.size;
    assert_eq!(tail, (sealed, as_rye_does.bytes.len() as u64));
    let mut as_we_do = Recorder::new();
    as_we_do.turn().event("thread_completed", "{}").seal(1);
    assert_eq!(verdict(&as_we_do.bytes), Verdict::Verified);
}

// T-RYE-17
#[test]
fn rye_8_16_a_write_that_was_cut_anywhere_accuses_no_one() {
    let word = br#"{"timestamp":1.0,"thread_id":"clean/one-1","event_type":"cognition_out","payload":{"n":NaN,"a":true,"b":"\ud83e\udd80"}}"#;
    let mut recorder = Recorder::new();
    recorder.turn();
    for cut in 1..word.len() {
        let _row = Row(cut);
        let torn = [&recorder.bytes, &word[..cut]].concat();
        is(&report(&torn), Verdict::Unsigned, "torn_tail");
    }
}

// T-RYE-17
#[test]
fn rye_8_16_a_torn_line_is_a_tail_and_a_sealed_torn_line_is_named() {
    let bytes = record(2);
    for cut in last_line(&bytes) + 1..bytes.len() {
        let _row = Row(cut);
        let report = report(&bytes[..cut]);
        is(&report, Verdict::UnsignedTail, "torn_tail");
        let mut severities = report.findings.iter().map(|f| f.severity);
        assert!(severities.all(|it| it != Severity::Error), "{cut}");
    }
    let mut recorder = Recorder::new();
    let torn = b"{\"timestamp\": 1.0, \"thr\n";
    recorder.turn().raw(torn).turn().seal(1);
    let report = report(&recorder.bytes);
    assert_eq!(report.verdict, Verdict::Tampered);
    let named = report.findings.iter().find(|f| f.code == "not_json");
    assert_eq!(named.unwrap().line, Some(4));
}

#[test]
fn a_blank_line_that_the_original_skips_is_tampered_under_a_seal() {
    for blank in ["\n", " \t\n"] {
        let _row = Row(blank);
        let mut recorder = Recorder::new();
        recorder.turn().raw(blank.as_bytes()).turn().seal(1);
        assert!(original_accepts(&recorder.bytes));
        is(&report(&recorder.bytes), Verdict::Tampered, "blank_line");
        // Behind the last seal it is a tail for both.
        let behind = [record(1), blank.as_bytes().to_vec()].concat();
        assert!(!original_accepts(&behind));
        assert_eq!(verdict(&behind), Verdict::UnsignedTail);
    }
}

/// The limit that `README.md` states: a seal shows who recorded an event, not its truth.
#[test]
fn what_a_recorder_in_wrong_hands_invents_verifies() {
    let mut recorder = Recorder::new();
    recorder.turn().raw(format!("{EVIL}\n").as_bytes()).seal(1);
    assert!(original_accepts(&recorder.bytes));
    assert_eq!(verdict(&recorder.bytes), Verdict::Verified);
    // After the seal the same line is another hand's.
    let late = [record(1), format!("{EVIL}\n").into_bytes()].concat();
    assert_eq!(verdict(&late), Verdict::UnsignedTail);
}

// T-RYE-18
#[test]
fn rye_8_17_checkpointing_and_verifying_hash_each_byte_as_often_whatever_the_length() {
    let trust = trust(&[1]);
    let keys = rye_compat::keys_of(&trust);
    let per_byte = |turns: u64| {
        let record = record(turns);
        let text = String::from_utf8(record.clone()).unwrap();
        let changed = text.replacen("unsafe", "harmless", 1);
        // Each of these needs a second pass.
        let elsewhere = text.replace("\"byte_offset\": ", "\"byte_offset\": -");
        [
            hashed_by(|| self::record(turns)),
            hashed_by(|| judged(&record, &trust)),
            hashed_by(|| judged(changed.as_bytes(), &trust)),
            hashed_by(|| rye_compat::verify(&record, &keys)),
            hashed_by(|| rye_compat::verify(elsewhere.as_bytes(), &keys)),
        ]
        .map(|hashed| hashed / record.len() as u64)
    };
    let (short, long) = (per_byte(8), per_byte(256));
    // Hashing each prefix anew, as Rye does, would make the second 32 times the first.
    for (short, long) in short.into_iter().zip(long) {
        assert!(short > 0 && long <= short + 1, "{short} {long}");
    }
}

// T-RYE-20
#[test]
fn rye_8_19_a_signature_has_one_spelling() {
    let bytes = record(1);
    let text = std::str::from_utf8(&bytes[last_line(&bytes)..]).unwrap();
    let start = text.find("\"sig\": \"").unwrap() + 8;
    let signature = &text[start..start + 88];
    let unpadded = signature.trim_end_matches('=');
    // The last digit has four unused bits.
    let last = unpadded.as_bytes()[85];
    let other = char::from(if last == b'Q' { b'R' } else { last + 1 });
    for spelling in [
        format!("{}{other}==", &unpadded[..85]),
        format!("{unpadded}="),
        format!("{}!{}==", &unpadded[..9], &unpadded[9..]),
        format!("{signature}AAAA"),
        format!(" {signature}"),
    ] {
        let changed = replace_in_last_line(&bytes, signature, &spelling);
        assert_eq!(verdict(&changed), Verdict::Forged, "{spelling}");
    }
    // Rye's Rust part writes it so.
    let changed = replace_in_last_line(&bytes, signature, unpadded);
    assert_eq!(verdict(&changed), Verdict::Verified);
}

#[test]
fn rye_8_20_what_is_read_is_what_was_verified() {
    let bytes = record(2);
    let verified = verify(&bytes, &Options::new(&trust(&[1]), now()))
        .verified
        .unwrap();
    let longer = [&bytes, EVIL.as_bytes(), b"\n"].concat();
    let lines = VerifiedLines::open(&verified, &longer).unwrap();
    assert_eq!(lines.iter().count(), 8, "the tail is not among them");
    for at in [0, last_line(&bytes) - 1, bytes.len() - 2] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(VerifiedLines::open(&verified, &changed).is_err(), "{at}");
    }
    assert!(VerifiedLines::open(&verified, &bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn the_head_of_a_broken_record_is_the_last_that_is_trusted() {
    let mut recorder = Recorder::new();
    recorder.turn().seal(1);
    let before = report(&recorder.bytes).head;
    recorder.turn().seal(2);
    let forged = report(&recorder.bytes);
    assert_eq!((forged.verdict, forged.head), (Verdict::Forged, before));
    let edited = replace_in_last_line(&record(1), "\"turn\": 1", "\"turn\": 9");
    assert_eq!(report(&edited).head, None);
}
