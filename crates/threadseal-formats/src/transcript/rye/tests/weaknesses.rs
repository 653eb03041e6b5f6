//! A test `rye_8_<number>_…` shows that each weakness of Rye's own verifier for transcripts is
//! closed. The numbers are those of `threats/rye.md`.

use super::*;
use crate::transcript::lines::VerifiedLines;
use threadseal_core::digest::work::hashed_by;
use threadseal_core::encoding;
use threadseal_core::key::Message;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Expectation;
use threadseal_core::report::Severity;

// T-RYE-01
#[test]
fn rye_8_1_content_smuggled_past_line_ends_is_tampered() {
    let bytes = record(2);
    let at = last_line(&bytes);
    for separator in [
        "\r", "\u{b}", "\u{c}", "\u{1c}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}",
    ] {
        let before = [
            &bytes[..at],
            EVIL.as_bytes(),
            separator.as_bytes(),
            &bytes[at..],
        ]
        .concat();
        let behind = [
            &bytes[..bytes.len() - 1],
            separator.as_bytes(),
            EVIL.as_bytes(),
            b"\n",
        ]
        .concat();
        let torn = [
            &bytes[..bytes.len() - 1],
            separator.as_bytes(),
            EVIL.as_bytes(),
        ]
        .concat();
        for changed in [before, behind, torn] {
            assert!(original_accepts(&changed), "{separator:?}");
            let report = report(&changed);
            assert_eq!(report.verdict, Verdict::Tampered, "{separator:?}");
            assert!(codes(&report).contains(&"smuggled_line_break"));
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

// T-RYE-03
#[test]
fn rye_8_3_a_cut_at_a_checkpoint_is_noticed_with_a_head() {
    let whole = record(3);
    let cut = record(2);
    assert!(whole.starts_with(&cut));
    assert!(original_accepts(&cut));
    let head = report(&whole).head.unwrap();
    let trust = trust(&[1]);
    let expecting = |head, remembered| Options {
        expect: vec![if remembered {
            Expectation::remembered(head)
        } else {
            Expectation::given(head, false)
        }],
        ..Options::new(&trust, now())
    };
    let full = ExpectedHead::Head(head);
    let verdict = |bytes: &[u8], options: &Options<'_>| verify(bytes, options).report.verdict;
    assert_eq!(verdict(&cut, &expecting(full, false)), Verdict::Truncated);
    assert_eq!(verdict(&cut, &expecting(full, true)), Verdict::RolledBack);
    assert_eq!(
        verdict(&cut, &expecting(ExpectedHead::Line(head.line), false)),
        Verdict::Truncated
    );
    let known = verify(&whole, &expecting(full, true)).report;
    assert_eq!(
        (known.verdict, known.completeness),
        (Verdict::Verified, Completeness::Head)
    );
    let older = report(&cut).head.unwrap();
    assert_eq!(
        verdict(&whole, &expecting(ExpectedHead::Head(older), true)),
        Verdict::Verified
    );
    let exact = Expectation::given(ExpectedHead::Head(older), true);
    let options = Options {
        expect: vec![exact],
        ..Options::new(&trust, now())
    };
    assert_eq!(verdict(&whole, &options), Verdict::Open);
    let mut other = Recorder::new();
    other.turn().seal(1).turn().turn().seal(1).turn().seal(1);
    assert_eq!(
        verdict(&other.bytes, &expecting(full, true)),
        Verdict::Forked
    );
}

// T-RYE-04
#[test]
fn rye_8_4_a_replay_under_another_thread_is_foreign() {
    let bytes = record(1);
    let other = ThreadId::parse("clean/other").unwrap();
    let trust = trust(&[1]);
    let options = Options {
        thread: Some(&other),
        ..Options::new(&trust, now())
    };
    assert_eq!(verify(&bytes, &options).report.verdict, Verdict::Foreign);
    let own = thread();
    let options = Options {
        thread: Some(&own),
        ..Options::new(&trust, now())
    };
    assert_eq!(verify(&bytes, &options).report.verdict, Verdict::Verified);
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
        signer(1).public_key().rye_fingerprint(),
    );
    recorder.raw(line.as_bytes());
    assert!(original_accepts(&recorder.bytes));
    assert_eq!(verdict(&recorder.bytes), Verdict::Tampered);
    let mut store = TrustStore::new();
    let name = TrustName::parse("native").unwrap();
    store
        .add(TrustedKey::new(
            name,
            *signer(1).public_key(),
            [KeyUsage::Native],
        ))
        .unwrap();
    let native_only = Trust::new(store);
    let outcome = verify(&record(1), &Options::new(&native_only, now()));
    assert_eq!(outcome.report.verdict, Verdict::UnknownSigner);
}

// T-RYE-08
#[test]
fn rye_8_7_another_signer_is_a_warning_and_forged_when_a_key_is_pinned() {
    let mut recorder = Recorder::new();
    recorder.turn().seal(1).turn().seal(2);
    let both = trust(&[1, 2]);
    let outcome = verify(&recorder.bytes, &Options::new(&both, now()));
    assert_eq!(outcome.report.verdict, Verdict::Verified);
    assert!(codes(&outcome.report).contains(&"signer_changed"));
    let pinned = Trust {
        pinned: Some((*signer(1).public_key()).into()),
        ..both
    };
    let outcome = verify(&recorder.bytes, &Options::new(&pinned, now()));
    assert_eq!(outcome.report.verdict, Verdict::Forged);
    assert_eq!(outcome.report.trusted_until.unwrap().turn, Some(1));
    let outcome = verify(&recorder.bytes, &Options::new(&trust(&[1]), now())).report;
    assert_eq!(outcome.verdict, Verdict::Forged);
    assert_eq!(outcome.trusted_until.unwrap().turn, Some(1));
    let outcome = verify(&recorder.bytes, &Options::new(&trust(&[2]), now())).report;
    assert_eq!(outcome.verdict, Verdict::UnknownSigner);
}

// T-RYE-09
#[test]
fn rye_8_8_a_fingerprint_is_a_hint_and_never_a_file_name() {
    let bytes = record(1);
    let own = signer(1).public_key().rye_fingerprint().to_hex();
    let climbing = replace_in_last_line(&bytes, &own, "../../../tmp/evil");
    assert_eq!(verdict(&climbing), Verdict::Tampered);
    let shared = replace_in_last_line(
        &bytes,
        &own,
        &signer(2).public_key().rye_fingerprint().to_hex(),
    );
    let outcome = verify(&shared, &Options::new(&trust(&[1, 2]), now()));
    assert_eq!(
        outcome.report.verdict,
        Verdict::Forged,
        "the hinted key did not sign"
    );
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
        assert!(
            report
                .findings
                .iter()
                .any(|f| f.severity == Severity::Error),
            "{tail:?}"
        );
    }
    for payload in ["[]", "{}", "null", "5", "{\"turn\": 1}"] {
        let line = format!(
            "{{\"timestamp\": 1.0, \"thread_id\": \"clean/one-1\", \"event_type\": \"checkpoint\", \"payload\": {payload}}}\n"
        );
        let changed = [&bytes, line.as_bytes()].concat();
        assert_eq!(verdict(&changed), Verdict::Tampered, "{payload}");
    }
    let missing = "{\"event_type\": \"checkpoint\"}\n";
    assert_eq!(
        verdict(&[&bytes, missing.as_bytes()].concat()),
        Verdict::Tampered
    );
}

// T-RYE-11
#[test]
fn rye_8_10_places_and_names_have_one_reading() {
    let bytes = record(2);
    let offset = format!("\"byte_offset\": {}", last_line(&bytes));
    let from_end = format!("\"byte_offset\": -{}", bytes.len() - last_line(&bytes));
    for (from, to) in [
        (offset.as_str(), from_end.as_str()),
        (offset.as_str(), "\"byte_offset\": null"),
        (
            offset.as_str(),
            "\"byte_offset\": 1000000000000000000000000000000",
        ),
        (offset.as_str(), "\"byte_offset\": 0"),
        ("\"turn\": 2, ", ""),
        ("\"event_type\"", "\"event_type\": \"x\", \"event_type\""),
        ("\"payload\"", "\"payload\": {}, \"payload\""),
        ("\"turn\"", "\"turn\": 1, \"t\\u0075rn\""),
    ] {
        let changed = replace_in_last_line(&bytes, from, to);
        assert_eq!(verdict(&changed), Verdict::Tampered, "{to}");
    }
    let mut recorder = Recorder::new();
    recorder.turn().raw(
        format!(
            "{}\n",
            EVIL.replace("\"payload\"", "\"payload\": {}, \"payload\"")
        )
        .as_bytes(),
    );
    recorder.seal(1);
    assert!(original_accepts(&recorder.bytes));
    assert_eq!(
        verdict(&recorder.bytes),
        Verdict::Tampered,
        "sealed, yet two readers differ"
    );
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
    let report = report(&as_rye_does.bytes);
    assert_eq!(report.verdict, Verdict::UnsignedTail);
    let outcome = verify(&as_rye_does.bytes, &Options::new(&trust(&[1]), now()));
    let with_tail = outcome.lenient().unwrap();
    assert_eq!(with_tail.unverified.to, as_rye_does.bytes.len() as u64);
    assert_eq!(
        with_tail.unverified.from,
        with_tail.verified.get().head.size
    );
    let mut as_we_do = Recorder::new();
    as_we_do.turn().event("thread_completed", "{}").seal(1);
    assert_eq!(verdict(&as_we_do.bytes), Verdict::Verified);
}

// T-RYE-17
#[test]
fn rye_8_16_a_torn_line_is_a_tail_and_a_sealed_torn_line_is_named() {
    let bytes = record(2);
    for cut in last_line(&bytes) + 1..bytes.len() {
        let report = report(&bytes[..cut]);
        assert_eq!(report.verdict, Verdict::UnsignedTail, "{cut}");
        assert!(
            report
                .findings
                .iter()
                .all(|f| f.severity != Severity::Error),
            "{cut}"
        );
        assert!(codes(&report).contains(&"torn_tail"));
    }
    let mut recorder = Recorder::new();
    recorder
        .turn()
        .raw(b"{\"timestamp\": 1.0, \"thr\n")
        .turn()
        .seal(1);
    let report = report(&recorder.bytes);
    assert_eq!(report.verdict, Verdict::Tampered);
    let named = report
        .findings
        .iter()
        .find(|f| f.code == "not_json")
        .unwrap();
    assert_eq!(named.line, Some(4));
}

// T-RYE-18
#[test]
fn rye_8_17_checkpointing_and_verifying_hash_each_byte_as_often_whatever_the_length() {
    let write = |turns: u64| {
        let mut recorder = Recorder::new();
        for _ in 0..turns {
            recorder.turn().seal(1);
        }
        recorder.bytes
    };
    let trust = trust(&[1]);
    let keys = rye_compat::keys_of(&trust);
    let per_byte = |turns: u64| {
        let record = write(turns);
        let text = String::from_utf8(record.clone()).unwrap();
        let changed = text.replacen("unsafe", "harmless", 1);
        // Each of these needs a second pass.
        let elsewhere = text.replace("\"byte_offset\": ", "\"byte_offset\": -");
        [
            hashed_by(|| write(turns)),
            hashed_by(|| verify(&record, &Options::new(&trust, now()))),
            hashed_by(|| verify(changed.as_bytes(), &Options::new(&trust, now()))),
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
    let changed = replace_in_last_line(&bytes, signature, unpadded);
    assert_eq!(
        verdict(&changed),
        Verdict::Verified,
        "as Rye's Rust part writes it"
    );
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
