//! The ledgers that `AbstractRuntime`'s verifier accepts. There is one test for each weakness that
//! a verdict can close. `AbstractRuntime` reports `ok`, and the report here shows more.

use super::*;

/// The report on a ledger of these records, chained anew.
fn chained(records: Vec<StepRecord>) -> Report {
    plain(&file(&chain(records)))
}

/// The head of an honest ledger, as its host remembers it.
fn head_of(honest: &[StepRecord]) -> Expectation {
    let outcome = judged(&file(honest), ChainOptions::default());
    Expectation::remembered(ExpectedHead::Head(outcome.tip.unwrap().head()))
}

fn expecting(bytes: &[u8], head: &Expectation) -> Report {
    let options = ChainOptions {
        expect: vec![head.clone()],
        ..ChainOptions::default()
    };
    judged(bytes, options).report
}

// T-LED-01
#[test]
fn w1_a_cut_or_recomputed_chain_is_never_verified_and_a_known_head_finds_it() {
    let honest = chain(run("r", 10));
    let (whole, cut) = (file(&honest), file(&honest[..14]));
    let mut edited = run("r", 10);
    edited[3].error = Some("never happened".to_owned());
    let recomputed = file(&chain(edited));
    let mut more = run("r", 10);
    more.extend(run("r", 11).split_off(20));
    let appended = file(&chain(more));
    for bytes in [&cut, &recomputed, &appended] {
        let report = plain(bytes);
        assert!(ok(&report));
        assert_eq!(report.verdict, Consistent);
    }
    let head = head_of(&honest);
    let mut doubted = head.clone();
    doubted.vouches = false;
    let nothing = Vec::new();
    for (row, bytes, head, verdict) in [
        ("whole", &whole, &head, Verified),
        ("doubted", &whole, &doubted, Consistent),
        ("cut", &cut, &head, RolledBack),
        ("empty", &nothing, &head, RolledBack),
        ("recomputed", &recomputed, &head, Forked),
        ("appended", &appended, &head, UnsignedTail),
    ] {
        let report = expecting(bytes, head);
        assert_eq!(report.verdict, verdict, "{row}");
        match row {
            "doubted" => assert_eq!(report.completeness, Completeness::Unproved),
            "appended" => assert_eq!(report.trusted_until.unwrap().turn, Some(19)),
            _ => {}
        }
    }
}

// T-LED-02
#[test]
fn w2_who_acted_is_told_as_a_claim() {
    let mut records = run("r", 1);
    records[0].signature = Some("anything".to_owned());
    records[0].actor_id = Some("ar_stolen".to_owned());
    let report = chained(records);
    assert!(ok(&report));
    for claim in ["actor_id=ar_stolen", "actor_id=ar_agent"] {
        assert!(report.unauthenticated.iter().any(|told| told == claim));
    }
}

// T-LED-03
#[test]
fn w3_a_record_glued_to_a_torn_line_is_not_lost_in_silence() {
    let honest = chain(run("r", 4));
    let [torn, whole] = [6, 7].map(|at: usize| honest[at].to_line().unwrap());
    // Six records, a torn one, then one that links to the sixth; the glued one is gone.
    let mut after = honest[..6].to_vec();
    after.extend(run("r", 5).split_off(8));
    let after = chain(after);
    let mut bytes = file(&after[..6]);
    bytes.extend([&torn[..30], &whole, b"\n"].concat());
    let glued = plain(&bytes);
    assert!(ok(&glued));
    assert!(codes(&glued).contains(&"line_skipped"));
    bytes.extend_from_slice(&file(&after[6..]));
    let report = plain(&bytes);
    assert!(ok(&report));
    assert_eq!(report.verdict, Tampered);
    let skipped = report.findings.iter().find(|f| f.code == "line_skipped");
    assert_eq!(skipped.unwrap().line, Some(7));
}

// T-LED-04
#[test]
fn w4_records_of_another_run_are_foreign() {
    let mut mixed = run("r", 3);
    mixed.extend(run("other", 6).split_off(6));
    let report = chained(mixed);
    assert!(ok(&report));
    assert_eq!(report.verdict, Foreign);
    let options = ChainOptions {
        run: Some(RunId::parse("asked").unwrap()),
        ..ChainOptions::default()
    };
    let report = judged(&file(&chain(run("r", 3))), options).report;
    assert_eq!(report.verdict, Foreign);
}

// T-LED-06
#[test]
fn w5_what_only_a_lenient_reader_passes_is_told() {
    let honest = chain(run("r", 3));
    let text = String::from_utf8(file(&honest)).unwrap();
    for (from, to, verdict, code) in [
        (
            "{\"r",
            "{\"error\":\"shadow\",\"r",
            Tampered,
            "name_repeated",
        ),
        ("{\"r", "garbage\n{\"r", Tampered, "line_skipped"),
        ("{\"r", "[]\n{\"r", Tampered, "line_skipped"),
        ("\n{", "{", Consistent, "line_of_many"),
        ("}\n{", "} x\n{", Tampered, "line_skipped"),
    ] {
        let _row = Row(to);
        let report = plain(text.replacen(from, to, 1).as_bytes());
        assert!(ok(&report), "{to}");
        is(&report, verdict, code);
    }
    let respelled = text
        .replace("\"attempt\":1", " \"attempt\" : 1")
        .replace("node\"", "n\\u006fde\"");
    assert_eq!(plain(respelled.as_bytes()).verdict, Consistent);
}

// T-LED-07
#[test]
fn w6_the_peculiar_report_is_kept_and_the_verdict_is_right() {
    let mut records = chain(run("r", 10));
    records[0].node_id = "changed".to_owned();
    records[5].node_id = "changed".to_owned();
    let report = plain(&file(&records));
    let first_bad = "\"first_bad_index\": 5";
    assert!(answer(&report).contains(first_bad), "{report:?}");
    let first = report.findings.iter().find(|f| f.code == "hash_wrong");
    assert_eq!(first.unwrap().turn, Some(0));
    records.truncate(12);
    records[3].record_hash = None;
    records[8].node_id = "never looked at".to_owned();
    let report = plain(&file(&records));
    let answer = answer(&report);
    assert!(answer.contains("missing_record_hash") && !answer.contains("\"index\": 8"));
    assert!(codes(&report).contains(&"hash_missing"));
    let changed = report.findings.iter().filter(|f| f.code == "hash_wrong");
    assert_eq!(changed.count(), 3);
}

// T-LED-09
#[test]
fn w8_a_fork_is_named_also_where_both_branches_go_on() {
    let honest = chain(run("r", 6));
    let mut other = run("r", 6);
    other[4].node_id = "other writer".to_owned();
    let other = chain(other);
    let mut forked = honest[..5].to_vec();
    for number in 5..8 {
        forked.push(other[number - 1].clone());
        forked.push(honest[number].clone());
    }
    let report = plain(&file(&forked));
    assert!(!ok(&report));
    assert_eq!(report.verdict, Forked);
    // A fork is reported as no chain, even beyond the records that are kept to recognise it.
    let steps = u64::try_from(MAX_FORK_RECORDS).unwrap();
    let mut far = chain(run("r", steps));
    far.push(other[4].clone());
    assert_eq!(plain(&file(&far)).verdict, Tampered);
}

// T-LED-17
#[test]
fn w13_and_w15_other_runs_and_the_clock_are_beyond_a_chain() {
    let mut records = run("r", 3);
    records[4].started_at = at(0).to_python_text();
    let report = chained(records);
    assert!(ok(&report));
    is(&report, Consistent, "time_backwards");
    let mut claims = report.unauthenticated.iter();
    assert!(claims.any(|claim| claim.starts_with("last_time=")));
}

// T-LED-18
#[test]
fn steps_that_are_told_twice_or_by_halves_are_named() {
    type Edit = fn(&mut Vec<StepRecord>);
    let edits: [(&str, Edit); 8] = [
        ("unsigned", |_| {}),
        ("unsigned", |r| {
            let mut resume = r[7].clone();
            resume.step_id = "resume".to_owned();
            resume.effect = Some(Effect::new("resume", Value::Null));
            r.push(resume);
        }),
        ("unsigned", |r| {
            let mut end = r[7].clone();
            end.step_id = "end".to_owned();
            end.effect = None;
            r.push(end);
        }),
        ("step_started_twice", |r| r.insert(1, r[0].clone())),
        ("step_started_twice", |r| r.push(r[0].clone())),
        ("step_ended_twice", |r| r.push(r[1].clone())),
        ("step_unstarted", |r| drop(r.remove(2))),
        ("step_unended", |r| drop(r.remove(3))),
    ];
    for (number, (expected, edit)) in edits.into_iter().enumerate() {
        let mut records = run("r", 4);
        edit(&mut records);
        let report = chained(records);
        let codes = codes(&report);
        assert!(codes.contains(&expected), "{number}: {codes:?}");
        assert_eq!(codes.len() == 1, expected == "unsigned", "{number}");
    }
}

// T-LED-08
#[test]
fn too_many_open_steps_are_a_check_that_was_skipped() {
    let steps = u64::try_from(MAX_OPEN_STEPS).unwrap() + 1;
    let open = run("r", steps).into_iter().step_by(2).collect();
    let skipped = check(&chained(open), "steps");
    assert_eq!(skipped, Some(CheckResult::Skipped));
}

// T-LED-19
#[test]
fn windows_and_copies_for_replay_are_partial_and_a_change_in_them_is_not() {
    let honest = chain(run("r", 5));
    let window = file(&honest[4..]);
    let mut changed = honest[4..].to_vec();
    changed[2].node_id = "changed".to_owned();
    let text = String::from_utf8(file(&honest)).unwrap();
    let left_out = r#""payload":{"messages":{"$omitted":{"profile":"replay","bytes":3}}}"#;
    let replay = text.replace(r#""payload":"2""#, left_out);
    assert_ne!(replay, text);
    let spoiled = replay.replace(r#""payload":"3""#, r#""payload":"4""#);
    for (row, bytes, view, verdict) in [
        ("window", &window[..], View::Window, Partial),
        ("as a whole", &window, View::Whole, Truncated),
        ("changed", &file(&changed), View::Window, Tampered),
        ("replay", replay.as_bytes(), View::Replay, Partial),
        ("as a whole", replay.as_bytes(), View::Whole, Tampered),
        ("spoiled", spoiled.as_bytes(), View::Replay, Tampered),
    ] {
        let options = ChainOptions {
            view,
            ..ChainOptions::default()
        };
        assert_eq!(judged(bytes, options).report.verdict, verdict, "{row}");
    }
}

#[test]
fn every_byte_of_a_chain_under_a_known_head_is_noticed_or_means_nothing() {
    let honest = chain(run("r", 2));
    let (bytes, head) = (file(&honest), head_of(&honest));
    // A line that still verifies has the same values: another blank, another line end.
    let values = |bytes: &[u8]| {
        let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r' | 0x0b));
        let lines = lines.filter(|line| !line.is_empty());
        let values = lines.map(|line| json::parse(line).ok());
        values.collect::<Vec<_>>()
    };
    for at in 0..bytes.len() {
        for bit in [0x01, 0x20, 0x80] {
            let mut flipped = bytes.clone();
            flipped[at] ^= bit;
            if expecting(&flipped, &head).verdict == Verified {
                assert_eq!(values(&flipped), values(&bytes), "byte {at}, bit {bit}");
            }
        }
    }
}

// T-LED-02
#[test]
fn who_acted_behind_a_known_head_is_told_as_a_claim() {
    let mut records = run("r", 4);
    records[7].actor_id = Some("ar_stolen".to_owned());
    let records = chain(records);
    for (known, claims) in [(8, 0), (6, 4), (1, 4)] {
        let report = expecting(&file(&records), &head_of(&records[..known]));
        let told = &report.unauthenticated;
        assert_eq!(told.len(), claims, "{told:?}");
        let stolen = told.iter().any(|claim| claim == "actor_id=ar_stolen");
        assert_eq!(stolen, claims > 0);
    }
}

/// The report on records in a store, where key 1 is trusted.
fn in_rows(records: &[StepRecord], trust: &Trust, expect: &Expectation) -> Report {
    let mut verifier = Verifier::new(ChainOptions {
        expect: vec![expect.clone()],
        ..ChainOptions::default()
    });
    let mut reader = LineReader::knowing(&KnownKeys::of_trust(trust));
    for (number, record) in (1..).zip(records) {
        let row = record.to_line().unwrap();
        let place = Place::row(number, row.len() as u64);
        verifier.take(&reader.read_row(&row), &row, place);
    }
    conclude(verifier, 0, &Judging::new(trust, at(0))).report
}

fn sign(record: &mut StepRecord, seed: u8) {
    let by = signer(seed, KeyUsage::Native);
    let signature = RecordSignature::sign(&record.record_hash.unwrap(), &by);
    record.signature = Some(signature.unwrap().to_string());
}

#[test]
fn a_store_is_trusted_up_to_the_later_record_whatever_the_lengths_of_its_rows() {
    let trust = trust_in([(key(1), KeyUsage::Native)]);
    for (long, known, signed) in [(0, 3, 0), (3, 1, 3)] {
        let mut records = run("r", 2);
        records[long].error = Some("x".repeat(1000));
        let mut records = chain(records);
        sign(&mut records[signed], 1);
        let head = head_of(&records[..=known]);
        let until = in_rows(&records, &trust, &head).trusted_until.unwrap();
        assert_eq!((until.turn, until.line, until.byte), (Some(3), 4, 0));
    }
}

#[test]
fn a_known_head_proves_no_ledger_complete_against_which_there_is_evidence() {
    let trust = trust_in([(key(1), KeyUsage::Native)]);
    let ended = revoked(trust.clone(), "key-1", micros(1));
    let mut records = chain(run("r", 2));
    sign(&mut records[1], 1);
    let head = head_of(&records);
    for (trust, verdict, completeness) in [
        (&trust, Verified, Completeness::Head),
        (&ended, Forged, Completeness::Unproved),
    ] {
        let report = in_rows(&records, trust, &head);
        is(&report, verdict, "");
        assert_eq!(report.completeness, completeness);
    }
}
