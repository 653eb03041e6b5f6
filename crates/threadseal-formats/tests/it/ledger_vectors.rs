//! Ledgers that `AbstractRuntime` wrote, and its own verifier's answer for each. The answer must be
//! equal key by key, and the verdict must match it.

use crate::scene::*;
use serde_json::json;
use std::fs;
use threadseal_formats::ledger::{ChainOptions, Judging, Outcome, RunId, judge};

const KEYS: [&str; 6] = [
    "ok",
    "count",
    "errors",
    "first_bad_index",
    "head_hash",
    "computed_head_hash",
];

fn judged(bytes: &[u8], run: Option<&str>) -> Outcome {
    let options = ChainOptions {
        run: run.map(|run| RunId::parse(run).unwrap()),
        ..ChainOptions::default()
    };
    judge(bytes, options, &Judging::new(&Trust::default(), now()))
}

/// The cases whose file consists of lines and exists; none without the vectors.
fn cases() -> Vec<(Value, Vec<u8>)> {
    let Some(folder) = beside_repository("vectors/ledger") else {
        return Vec::new();
    };
    let index = json_file(folder.join("index.json"));
    let lines = |case: &&Value| case["format"] == "jsonl" && case["name"] != "size_100000";
    let read = |case: &Value| {
        let file = folder.join(case["file"].as_str().unwrap());
        (case.clone(), fs::read(file).unwrap())
    };
    let all = index["cases"].as_array().unwrap();
    let cases: Vec<_> = all.iter().filter(lines).map(read).collect();
    assert!(cases.len() > 200);
    cases
}

#[test]
fn the_answer_is_the_originals_key_by_key() {
    for (case, bytes) in cases() {
        let outcome = judged(&bytes, None);
        let text = outcome.report.compat["abstractruntime"].as_json();
        let answer: Value = serde_json::from_str(text).unwrap();
        let expected = match case.get("expected_exception") {
            Some(exception) if !exception.is_null() => json!({ "exception": exception }),
            _ => case["expected"].clone(),
        };
        assert_eq!(answer, expected, "{}", case["name"]);
        if answer.get("ok").is_some() {
            let places = KEYS.map(|key| text.find(&format!("\"{key}\": ")).unwrap());
            assert!(places.is_sorted(), "{}: {text}", case["name"]);
            assert_eq!(outcome.compat_ok, answer["ok"], "{}", case["name"]);
        }
    }
}

#[test]
fn no_chain_is_verified_by_itself_and_no_alarm_is_lost() {
    for (case, bytes) in cases() {
        let outcome = judged(&bytes, None);
        let name = case["name"].as_str().unwrap();
        let verdict = outcome.report.verdict;
        assert_ne!(verdict, Verdict::Verified, "{name}");
        assert!(outcome.verified.is_none(), "{name}");
        // The one false alarm of `AbstractRuntime`, records without protection, and an unreadable
        // end, which a crash can leave as well.
        let known = [
            "content_int_keys",
            "unchained",
            "unchained_prefix",
            "tamper_bad_utf8",
        ];
        if !outcome.compat_ok && !known.contains(&name) && !name.starts_with("fuzz_") {
            assert_eq!(verdict.exit_code(), 1, "{name}: {verdict}");
        }
        if !outcome.compat_ok && verdict >= Verdict::Consistent {
            let codes = codes(&outcome.report);
            let told = ["numeric_names", "line_skipped", "torn_tail"];
            let is_told = codes.iter().any(|code| told.contains(code));
            assert!(is_told, "{name}: {codes:?}");
        }
    }
}

// T-LED-02 T-LED-13
#[test]
fn each_case_has_the_verdict_and_the_finding_that_it_deserves() {
    use Verdict::{Consistent, Foreign, Forged, Forked, Tampered, Truncated, Unsigned};
    let cases = cases();
    if cases.is_empty() {
        return;
    }
    let expected = [
        ("size_1000", Consistent, "unsigned"),
        ("content_nan_inf", Consistent, "number_not_finite"),
        ("content_int_keys", Consistent, "numeric_names"),
        ("content_int_keys_lucky", Consistent, "unsigned"),
        ("content_float_1e400", Tampered, "hash_wrong"),
        ("tamper_edit_result", Tampered, "hash_wrong"),
        ("tamper_edit_signature", Forged, "signature_unreadable"),
        ("tamper_delete_first", Truncated, "predecessor_missing"),
        ("tamper_delete_middle", Tampered, "chain_broken"),
        ("tamper_truncate_tail", Consistent, "unsigned"),
        ("tamper_truncate_to_one", Consistent, "step_unended"),
        ("tamper_truncate_all", Unsigned, "ledger_empty"),
        ("tamper_reorder_adjacent", Tampered, "chain_broken"),
        ("tamper_prev_hash_null", Tampered, "chain_restarted"),
        ("tamper_record_hash_upper", Tampered, "hash_wrong"),
        ("tamper_record_hash_removed", Tampered, "hash_missing"),
        ("tamper_recompute_full", Consistent, "unsigned"),
        ("tamper_recompute_suffix", Consistent, "unsigned"),
        ("tamper_delete_and_rechain", Consistent, "unsigned"),
        ("tamper_actor_swap_rechain", Consistent, "unsigned"),
        ("tamper_duplicate_record", Tampered, "record_repeated"),
        ("tamper_duplicate_rechain", Consistent, "step_ended_twice"),
        ("tamper_forged_append", Consistent, "unsigned"),
        ("tamper_mixed_runs_concat", Tampered, "record_foreign"),
        ("tamper_mixed_runs_rechain", Foreign, "record_foreign"),
        (
            "tamper_nonmonotonic_time_rechain",
            Consistent,
            "time_backwards",
        ),
        ("tamper_drop_started_rechain", Consistent, "step_unstarted"),
        ("tamper_drop_completed_rechain", Consistent, "step_unended"),
        ("tamper_torn_tail", Consistent, "torn_tail"),
        ("tamper_torn_middle", Tampered, "line_skipped"),
        ("tamper_crash_then_append", Tampered, "line_skipped"),
        ("tamper_crash_then_append_one", Consistent, "line_skipped"),
        ("tamper_crlf", Consistent, "unsigned"),
        ("tamper_blank_lines", Consistent, "unsigned"),
        ("tamper_pretty_keys_reordered", Consistent, "unsigned"),
        ("tamper_no_final_newline", Consistent, "unsigned"),
        ("tamper_concatenated_line", Consistent, "line_of_many"),
        ("tamper_bom", Tampered, "line_skipped"),
        ("tamper_bad_utf8", Consistent, "line_skipped"),
        ("tamper_non_object_lines", Tampered, "line_skipped"),
        ("tamper_garbage_lines", Tampered, "line_skipped"),
        (
            "tamper_duplicate_json_key_shadow",
            Tampered,
            "name_repeated",
        ),
        ("tamper_float_respelled", Consistent, "unsigned"),
        ("tamper_trailing_garbage_on_line", Tampered, "line_skipped"),
        ("concurrent_two_writers_jsonl", Forked, "chain_forked"),
        ("wiring_chain_outside_offload", Tampered, "hash_wrong"),
        (
            "wiring_offload_outside_chain",
            Consistent,
            "artifact_elsewhere",
        ),
        ("unchained", Unsigned, "record_unchained"),
        ("unchained_prefix", Unsigned, "record_unchained"),
    ];
    let mut wrong = Vec::new();
    for (name, verdict, code) in expected {
        let named = |(case, _): &&(Value, Vec<u8>)| case["name"] == name;
        let (_, bytes) = cases.iter().find(named).unwrap();
        let report = judged(bytes, None).report;
        if report.verdict != verdict || !codes(&report).contains(&code) {
            wrong.push(format!("{name}: {}", shown(&report)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let is_slim = |case: &Value| {
        let name = case["name"].as_str().unwrap_or_default();
        name.starts_with("run_jsonl_chat_big_slim")
    };
    let (_, slim) = cases.iter().find(|(case, _)| is_slim(case)).unwrap();
    let report = judged(slim, None).report;
    let mut checks = report.checks.iter();
    assert!(checks.any(|check| check.name == "slim" && check.result == CheckResult::Pass));
    // Without the record that it refers to, a marker resolves to nothing.
    let started = "\"status\":\"started\",\"effect\":{\"type\":\"llm_call\"";
    let text = String::from_utf8(slim.clone()).unwrap();
    let lines = text.split_inclusive('\n');
    let without: String = lines.filter(|line| !line.contains(started)).collect();
    let report = judged(without.as_bytes(), None).report;
    assert!(codes(&report).contains(&"slim_unresolved"));
}

#[test]
fn the_ledger_of_another_run_is_foreign() {
    let cases = cases();
    let named = |(case, _): &&(Value, Vec<u8>)| case["name"] == "tamper_wrong_run_file";
    let found = cases.iter().find(named);
    assert_eq!(found.is_none(), cases.is_empty());
    if let Some((case, bytes)) = found {
        let run = case["run_id"].as_str();
        assert_eq!(judged(bytes, run).report.verdict, Verdict::Foreign);
        assert_eq!(judged(bytes, None).report.verdict, Verdict::Consistent);
    }
}
