//! Ledgers made to cost memory or time, or to hide beyond a bound: each gets a verdict.

use super::*;
use threadseal_core::canon::json::Value;
use threadseal_core::limits::{MAX_COMPAT_FAILURE_BYTES, MAX_LINE_RECORDS, MAX_LINK_BYTES};
use threadseal_core::report::{CheckResult, Report, Verdict};
use threadseal_core::trust::Trust;

fn judged(bytes: &[u8]) -> (Report, String) {
    let trust = Trust::default();
    let outcome = judge(bytes, ChainOptions::default(), &Judging::new(&trust, at(0)));
    let compat = outcome.report.compat["abstractruntime"]
        .as_json()
        .to_owned();
    assert!(!compat.starts_with("{\"unknown") || !outcome.compat_ok);
    (outcome.report, compat)
}

fn check(report: &Report, name: &str) -> Option<CheckResult> {
    let found = report.checks.iter().find(|check| check.name == name);
    found.map(|check| check.result)
}

// T-LED-08
#[test]
fn a_line_of_a_million_records_is_not_held_in_memory() {
    let (report, compat) = judged(("{}".repeat(1 << 20) + "\n").as_bytes());
    assert_eq!(report.stats.events, MAX_LINE_RECORDS as u64);
    assert!(compat.starts_with("{\"unknown"));
    assert!(report.findings.iter().any(|f| f.code == "line_skipped"));
}

// T-LED-08
#[test]
fn large_failures_of_the_original_are_counted_and_not_kept() {
    let line = format!("{{\"record_hash\":\"{}\"}}\n", "x".repeat(60_000));
    let (report, compat) = judged(line.repeat(200).as_bytes());
    assert_eq!(report.verdict, Verdict::Tampered);
    assert!(compat.len() < MAX_COMPAT_FAILURE_BYTES + (1 << 20));
    let listed = compat.matches("\"index\": ").count();
    assert!(compat.ends_with(&format!(", \"more_errors\": {}}}", 399 - listed)));
}

#[test]
fn of_a_link_beyond_all_bounds_nobody_says_what_the_original_answers() {
    for name in ["record_hash", "prev_hash"] {
        let long = "x".repeat(MAX_LINK_BYTES);
        let (report, compat) = judged(format!("{{\"{name}\":\"{long}\"}}\n").as_bytes());
        assert_eq!(report.verdict, Verdict::Tampered);
        assert!(compat.starts_with("{\"unknown"), "{name}");
    }
}

#[test]
fn what_stands_before_the_last_record_on_its_line_is_no_torn_end() {
    let text = String::from_utf8(file(&chain(run("r", 2)))).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let (before, last) = (&lines[..3].join("\n"), lines[3]);
    let (report, _) = judged(format!("{before}\n[1]{last}\n").as_bytes());
    assert_eq!(report.verdict, Verdict::Tampered);
    assert!(report.findings.iter().any(|f| f.code == "line_skipped"));
    let (report, compat) = judged(format!("{before}{last}\n").as_bytes());
    assert!(compat.starts_with("{\"ok\": true, \"count\": 4"));
    let many = report.findings.iter().find(|f| f.code == "line_of_many");
    assert_eq!(many.unwrap().turn, Some(2));
}

const MESSAGES: [&str; 4] = [
    r#"{"role":"user","content":"one"}"#,
    r#"{"role":"user","content":"two"}"#,
    r#"{"role":"user","content":"three"}"#,
    r#"{"role":"user","content":"four"}"#,
];

/// A step whose payload has the first and the third message. Records of other steps have markers
/// that claim all four.
fn marked(markers: usize, body: &str) -> Report {
    let record = |step: &str, status: &str, messages: &str| {
        let pad = "x".repeat(600);
        format!(
            r#"{{"run_id":"r","step_id":"{step}","status":"{status}","started_at":"2026-01-01T00:00:00+00:00","effect":{{"type":"llm_call","payload":{{"pad":"{pad}","messages":{messages}}}}}}}"#
        ) + "\n"
    };
    let own = format!("[{},{}]", MESSAGES[0], MESSAGES[2]);
    let mut text = record("s", "started", &own);
    let digest = Digest::of(format!("[{}]", MESSAGES.join(",")).as_bytes()).to_hex();
    let slim = format!(r#"{{"$slim":{{"v":1,"step_id":"s","sha256":"{digest}",{body}}}}}"#);
    for number in 0..markers {
        text += &record(&format!("t{number}"), "completed", &slim);
    }
    judged(text.as_bytes()).0
}

fn appendix(first: usize, second: usize) -> String {
    let (two, four) = (MESSAGES[1], MESSAGES[3]);
    format!(
        r#""kind":"started_messages_layout","layout":["messages"],"appendix":[{{"at":{second},"item":{four}}},{{"at":{first},"item":{two}}}]"#
    )
}

#[test]
fn a_marker_is_resolved_with_what_it_carries_each_in_its_place() {
    assert_eq!(
        check(&marked(1, &appendix(1, 3)), "slim"),
        Some(CheckResult::Pass)
    );
    for (first, second) in [(1, 1), (0, 3), (1, 4), (3, usize::MAX)] {
        let report = marked(1, &appendix(first, second));
        assert_eq!(check(&report, "slim"), Some(CheckResult::Fail));
    }
}

// T-LED-08
#[test]
fn a_marker_that_would_swell_is_not_resolved() {
    let layout = vec!["\"messages\""; 100_000].join(",");
    let body = format!(r#""kind":"started_messages_layout","layout":[{layout}]"#);
    assert_eq!(check(&marked(1, &body), "slim"), Some(CheckResult::Fail));
}

// T-LED-08
#[test]
fn many_markers_to_one_record_are_a_check_that_was_skipped() {
    let body = appendix(1, 3);
    assert_eq!(check(&marked(8, &body), "slim"), Some(CheckResult::Pass));
    assert_eq!(
        check(&marked(40, &body), "slim"),
        Some(CheckResult::Skipped)
    );
}

#[test]
fn deep_links_are_compared_without_copies() {
    let deep = "{\"a\":".repeat(400) + "[]" + &"}".repeat(400);
    let line = format!("{{\"prev_hash\":{deep},\"record_hash\":{deep}}}\n");
    let (report, compat) = judged(line.repeat(2).as_bytes());
    assert_eq!(report.verdict, Verdict::Tampered);
    assert_eq!(compat.matches("prev_hash_mismatch").count(), 1);
    assert!(
        threadseal_core::canon::json::parse_python(compat.as_bytes()).is_ok_and(|document| {
            document.value.get("count").and_then(Value::as_u64) == Some(2)
        })
    );
}

fn answer(bytes: &[u8]) -> String {
    judged(bytes).1
}

#[test]
fn a_character_that_the_file_ends_in_is_decoded_alone() {
    let text = file(&chain(run("r", 9)));
    for cut in [&b"\xe6"[..], b"\xf0\x9f\x99"] {
        let compat = answer(&[&text, cut].concat());
        assert!(compat.contains("unexpected end of data"));
        assert!(compat.contains("in position 0"), "{compat}");
    }
}

#[test]
fn digits_before_a_point_that_leads_nowhere_are_an_integer_too_long() {
    for behind in ["", ".", ".e", "e", "E+", ".}", "e\"x\""] {
        let compat = answer(format!("{{\"a\":{}{behind}\n", "9".repeat(4301)).as_bytes());
        assert!(
            compat.contains("value has 4301 digits"),
            "{behind}: {compat}"
        );
        let compat = answer(format!("{{\"a\":{}{behind}\n", "9".repeat(4300)).as_bytes());
        assert!(compat.starts_with("{\"ok\": true"), "{behind}: {compat}");
    }
    // With a fraction it is a float, which may have any number of digits.
    let compat = answer(format!("{{\"a\":{}.5e\n", "9".repeat(4301)).as_bytes());
    assert!(compat.starts_with("{\"ok\": true"), "{compat}");
}

#[test]
fn members_of_a_link_are_shown_in_their_order() {
    let compat = answer(b"{\"record_hash\":{\"b\":1,\"a\":[{\"d\":1.50,\"c\":2}]}}\n");
    assert!(
        compat.contains(r#""stored": {"b": 1, "a": [{"d": 1.5, "c": 2}]}"#),
        "{compat}"
    );
}
