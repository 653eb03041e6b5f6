//! The ledgers that `AbstractRuntime`'s verifier accepts. There is one test for each weakness that
//! a verdict can close. `AbstractRuntime` reports `ok`, and the report here shows more.

use super::*;
use threadseal_core::limits::{MAX_FORK_RECORDS, MAX_OPEN_STEPS};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::Expectation;
use threadseal_core::report::{CheckResult, Completeness, Report, Verdict};
use threadseal_core::trust::Trust;

fn judged(bytes: &[u8], options: ChainOptions) -> Outcome {
    judge(bytes, options, &Judging::new(&Trust::default(), at(0)))
}

fn plain(bytes: &[u8]) -> Report {
    judged(bytes, ChainOptions::default()).report
}

/// With the head of an honest ledger, as its host remembers it.
fn remembering(honest: &[StepRecord], bytes: &[u8]) -> Report {
    let outcome = judged(&file(honest), ChainOptions::default());
    let head = outcome.tip.unwrap().head();
    let expect = vec![Expectation::remembered(ExpectedHead::Head(head))];
    let options = ChainOptions {
        expect,
        ..ChainOptions::default()
    };
    judged(bytes, options).report
}

fn codes(report: &Report) -> Vec<&'static str> {
    report
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect()
}

fn ok(report: &Report) -> bool {
    report.compat["abstractruntime"]
        .as_json()
        .starts_with("{\"ok\": true")
}

// T-LED-01
#[test]
fn w1_a_cut_or_recomputed_chain_is_never_verified_and_a_known_head_finds_it() {
    let honest = chain(run("r", 10));
    let cut = file(&honest[..14]);
    let mut edited = run("r", 10);
    edited[3].error = Some("never happened".to_owned());
    let recomputed = file(&chain(edited));
    let mut more = run("r", 10);
    more.extend(run("r", 11).split_off(20));
    let appended = file(&chain(more));
    for bytes in [&cut, &recomputed, &appended] {
        let report = plain(bytes);
        assert!(ok(&report));
        assert_eq!(report.verdict, Verdict::Consistent);
    }
    let whole = remembering(&honest, &file(&honest));
    assert_eq!(whole.verdict, Verdict::Verified);
    let mut doubted = Expectation::remembered(ExpectedHead::Head(whole.head.unwrap()));
    doubted.vouches = false;
    let options = ChainOptions {
        expect: vec![doubted],
        ..ChainOptions::default()
    };
    let doubted = judged(&file(&honest), options).report;
    assert_eq!(doubted.verdict, Verdict::Consistent);
    assert_eq!(doubted.completeness, Completeness::Unproved);
    assert_eq!(remembering(&honest, &cut).verdict, Verdict::RolledBack);
    assert_eq!(remembering(&honest, b"").verdict, Verdict::RolledBack);
    assert_eq!(remembering(&honest, &recomputed).verdict, Verdict::Forked);
    let longer = remembering(&honest, &appended);
    assert_eq!(longer.verdict, Verdict::UnsignedTail);
    assert_eq!(longer.trusted_until.unwrap().turn, Some(19));
}

// T-LED-02
#[test]
fn w2_who_acted_is_told_as_a_claim() {
    let mut records = run("r", 1);
    records[0].signature = Some("anything".to_owned());
    records[0].actor_id = Some("ar_stolen".to_owned());
    let report = plain(&file(&chain(records)));
    assert!(ok(&report));
    for claim in ["actor_id=ar_stolen", "actor_id=ar_agent"] {
        assert!(report.unauthenticated.iter().any(|told| told == claim));
    }
}

// T-LED-03
#[test]
fn w3_a_record_glued_to_a_torn_line_is_not_lost_in_silence() {
    let honest = chain(run("r", 4));
    let lines: Vec<_> = honest
        .iter()
        .map(|record| record.to_line().unwrap())
        .collect();
    // Six records, a torn one, then one that links to the sixth; the glued one is gone.
    let mut after = honest[..6].to_vec();
    after.extend(run("r", 5).split_off(8));
    let after = chain(after);
    let mut bytes = file(&after[..6]);
    bytes.extend_from_slice(&lines[6][..30]);
    bytes.extend_from_slice(&lines[7]);
    bytes.push(b'\n');
    let glued = plain(&bytes);
    assert!(ok(&glued));
    assert!(codes(&glued).contains(&"line_skipped"));
    bytes.extend_from_slice(&file(&after[6..]));
    let report = plain(&bytes);
    assert!(ok(&report));
    assert_eq!(report.verdict, Verdict::Tampered);
    let skipped = report.findings.iter().find(|f| f.code == "line_skipped");
    assert_eq!(skipped.unwrap().line, Some(7));
}

// T-LED-04
#[test]
fn w4_records_of_another_run_are_foreign() {
    let mut mixed = run("r", 3);
    mixed.extend(run("other", 6).split_off(6));
    let report = plain(&file(&chain(mixed)));
    assert!(ok(&report));
    assert_eq!(report.verdict, Verdict::Foreign);
    let options = ChainOptions {
        run: Some(RunId::parse("asked").unwrap()),
        ..ChainOptions::default()
    };
    let report = judged(&file(&chain(run("r", 3))), options).report;
    assert_eq!(report.verdict, Verdict::Foreign);
}

// T-LED-06
#[test]
fn w5_what_only_a_lenient_reader_passes_is_told() {
    let honest = chain(run("r", 3));
    let text = String::from_utf8(file(&honest)).unwrap();
    for (from, to, verdict, code) in [
        (
            "{\"run_id\"",
            "{\"error\":\"shadow\",\"run_id\"",
            Verdict::Tampered,
            "name_repeated",
        ),
        (
            "{\"run_id\"",
            "garbage\n{\"run_id\"",
            Verdict::Tampered,
            "line_skipped",
        ),
        (
            "{\"run_id\"",
            "[]\n{\"run_id\"",
            Verdict::Tampered,
            "line_skipped",
        ),
        ("\n{", "{", Verdict::Consistent, "line_of_many"),
        ("}\n{", "} x\n{", Verdict::Tampered, "line_skipped"),
    ] {
        let report = plain(text.replacen(from, to, 1).as_bytes());
        assert!(ok(&report), "{to}");
        assert_eq!(report.verdict, verdict, "{to}");
        assert!(codes(&report).contains(&code), "{to}: {:?}", codes(&report));
    }
    let respelled = text
        .replace("\"attempt\":1", " \"attempt\" : 1")
        .replace("node\"", "n\\u006fde\"");
    assert_eq!(plain(respelled.as_bytes()).verdict, Verdict::Consistent);
}

// T-LED-07
#[test]
fn w6_the_peculiar_report_is_kept_and_the_verdict_is_right() {
    let mut records = chain(run("r", 10));
    records[0].node_id = "changed".to_owned();
    records[5].node_id = "changed".to_owned();
    let report = plain(&file(&records));
    let answer = report.compat["abstractruntime"].as_json().to_owned();
    assert!(answer.contains("\"first_bad_index\": 5"), "{answer}");
    let first = report.findings.iter().find(|f| f.code == "hash_wrong");
    assert_eq!(first.unwrap().turn, Some(0));
    records.truncate(12);
    records[3].record_hash = None;
    records[8].node_id = "never looked at".to_owned();
    let report = plain(&file(&records));
    let answer = report.compat["abstractruntime"].as_json();
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
    assert_eq!(report.verdict, Verdict::Forked);
    // A fork is reported as no chain, even beyond the records that are kept to recognise it.
    let steps = u64::try_from(MAX_FORK_RECORDS).unwrap();
    let mut far = chain(run("r", steps));
    far.push(other[4].clone());
    assert_eq!(plain(&file(&far)).verdict, Verdict::Tampered);
}

// T-LED-17
#[test]
fn w13_and_w15_other_runs_and_the_clock_are_beyond_a_chain() {
    let mut records = run("r", 3);
    records[4].started_at = at(0).to_python_text();
    let report = plain(&file(&chain(records)));
    assert!(ok(&report));
    assert_eq!(report.verdict, Verdict::Consistent);
    assert!(codes(&report).contains(&"time_backwards"));
    assert!(
        report
            .unauthenticated
            .iter()
            .any(|told| told.starts_with("last_time="))
    );
}

// T-LED-18
#[test]
fn steps_that_are_told_twice_or_by_halves_are_named() {
    let honest = run("r", 4);
    let with = |change: &dyn Fn(&mut Vec<StepRecord>)| {
        let mut records = honest.clone();
        change(&mut records);
        codes(&plain(&file(&chain(records))))
    };
    let named = |code: &'static str, codes: Vec<&'static str>| {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    };
    named("step_started_twice", with(&|r| r.insert(1, r[0].clone())));
    named("step_started_twice", with(&|r| r.push(r[0].clone())));
    named("step_ended_twice", with(&|r| r.push(r[1].clone())));
    named("step_unstarted", with(&|r| drop(r.remove(2))));
    named("step_unended", with(&|r| drop(r.remove(3))));
    let quiet = |codes: Vec<&'static str>| assert_eq!(codes, ["unsigned"]);
    quiet(with(&|_| {}));
    quiet(with(&|r| {
        let mut resume = r[7].clone();
        resume.step_id = "resume".to_owned();
        resume.effect = Some(Effect::new(
            "resume",
            threadseal_core::canon::json::Value::Null,
        ));
        r.push(resume);
    }));
    quiet(with(&|r| {
        let mut end = r[7].clone();
        end.step_id = "end".to_owned();
        end.effect = None;
        r.push(end);
    }));
}

// T-LED-08
#[test]
fn too_many_open_steps_are_a_check_that_was_skipped() {
    let steps = u64::try_from(MAX_OPEN_STEPS).unwrap() + 1;
    let open: Vec<_> = run("r", steps).into_iter().step_by(2).collect();
    let report = plain(&file(&chain(open)));
    let check = report.checks.iter().find(|check| check.name == "steps");
    assert_eq!(check.unwrap().result, CheckResult::Skipped);
}

// T-LED-19
#[test]
fn windows_and_copies_for_replay_are_partial_and_a_change_in_them_is_not() {
    let honest = chain(run("r", 5));
    let options = |view| ChainOptions {
        view,
        ..ChainOptions::default()
    };
    let window = |records: &[StepRecord]| judged(&file(records), options(View::Window)).report;
    assert_eq!(window(&honest[4..]).verdict, Verdict::Partial);
    assert_eq!(plain(&file(&honest[4..])).verdict, Verdict::Truncated);
    let mut changed = honest[4..].to_vec();
    changed[2].node_id = "changed".to_owned();
    assert_eq!(window(&changed).verdict, Verdict::Tampered);
    let text = String::from_utf8(file(&honest)).unwrap();
    let left_out = r#""payload":{"messages":{"$omitted":{"profile":"replay","bytes":3}}}"#;
    let replay = text.replace(r#""payload":"2""#, left_out);
    assert_ne!(replay, text);
    let seen = judged(replay.as_bytes(), options(View::Replay)).report;
    assert_eq!(seen.verdict, Verdict::Partial);
    assert_eq!(plain(replay.as_bytes()).verdict, Verdict::Tampered);
    let spoiled = replay.replace(r#""payload":"3""#, r#""payload":"4""#);
    let seen = judged(spoiled.as_bytes(), options(View::Replay)).report;
    assert_eq!(seen.verdict, Verdict::Tampered);
}

#[test]
fn every_byte_of_a_chain_under_a_known_head_is_noticed_or_means_nothing() {
    let honest = chain(run("r", 2));
    let bytes = file(&honest);
    for at in 0..bytes.len() {
        for bit in [0x01, 0x20, 0x80] {
            let mut flipped = bytes.clone();
            flipped[at] ^= bit;
            let report = remembering(&honest, &flipped);
            if report.verdict != Verdict::Verified {
                continue;
            }
            // A line that still verifies has the same values: another blank, another line end.
            let values = |bytes: &[u8]| {
                let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r' | 0x0b));
                let lines = lines.filter(|line| !line.is_empty());
                lines
                    .map(|line| threadseal_core::canon::json::parse(line).ok())
                    .collect::<Vec<_>>()
            };
            assert_eq!(values(&flipped), values(&bytes), "byte {at}, bit {bit}");
        }
    }
}
