//! Ledgers made to cost memory or time, or to hide beyond a bound: each gets a verdict.

use super::*;

/// The report, and the answer of `AbstractRuntime`.
fn judged(bytes: impl AsRef<[u8]>) -> (Report, String) {
    let outcome = super::judged(bytes.as_ref(), ChainOptions::default());
    let compat = answer(&outcome.report).to_owned();
    assert!(!compat.starts_with("{\"unknown") || !outcome.compat_ok);
    (outcome.report, compat)
}

// T-LED-08
#[test]
fn a_line_of_a_million_records_is_not_held_in_memory() {
    let (report, compat) = judged("{}".repeat(1 << 20) + "\n");
    assert_eq!(report.stats.events, MAX_LINE_RECORDS as u64);
    assert!(compat.starts_with("{\"unknown"));
    assert!(codes(&report).contains(&"line_skipped"));
}

// T-LED-08
#[test]
fn large_failures_of_the_original_are_counted_and_not_kept() {
    let line = format!("{{\"record_hash\":\"{}\"}}\n", "x".repeat(60_000));
    let (report, compat) = judged(line.repeat(200));
    assert_eq!(report.verdict, Tampered);
    assert!(compat.len() < MAX_COMPAT_FAILURE_BYTES + (1 << 20));
    let listed = compat.matches("\"index\": ").count();
    assert!(compat.ends_with(&format!(", \"more_errors\": {}}}", 399 - listed)));
}

#[test]
fn of_a_link_beyond_all_bounds_nobody_says_what_the_original_answers() {
    for name in ["record_hash", "prev_hash"] {
        let long = "x".repeat(MAX_LINK_BYTES);
        let (report, compat) = judged(format!("{{\"{name}\":\"{long}\"}}\n"));
        assert_eq!(report.verdict, Tampered);
        assert!(compat.starts_with("{\"unknown"), "{name}");
    }
}

#[test]
fn what_stands_before_the_last_record_on_its_line_is_no_torn_end() {
    let text = String::from_utf8(file(&chain(run("r", 2)))).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let (before, last) = (&lines[..3].join("\n"), lines[3]);
    let (report, _) = judged(format!("{before}\n[1]{last}\n"));
    is(&report, Tampered, "line_skipped");
    let (report, compat) = judged(format!("{before}{last}\n"));
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
    judged(text).0
}

fn appendix(first: usize, second: usize) -> String {
    let (two, four) = (MESSAGES[1], MESSAGES[3]);
    format!(
        r#""kind":"started_messages_layout","layout":["messages"],"appendix":[{{"at":{second},"item":{four}}},{{"at":{first},"item":{two}}}]"#
    )
}

#[test]
fn a_marker_is_resolved_with_what_it_carries_each_in_its_place() {
    for (first, second, result) in [
        (1, 3, CheckResult::Pass),
        (1, 1, CheckResult::Fail),
        (0, 3, CheckResult::Fail),
        (1, 4, CheckResult::Fail),
        (3, usize::MAX, CheckResult::Fail),
    ] {
        let found = check(&marked(1, &appendix(first, second)), "slim");
        assert_eq!(found, Some(result), "{first} {second}");
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
    for (markers, result) in [(8, CheckResult::Pass), (40, CheckResult::Skipped)] {
        assert_eq!(check(&marked(markers, &body), "slim"), Some(result));
    }
}

#[test]
fn deep_links_are_compared_without_copies() {
    let deep = "{\"a\":".repeat(400) + "[]" + &"}".repeat(400);
    let line = format!("{{\"prev_hash\":{deep},\"record_hash\":{deep}}}\n");
    let (report, compat) = judged(line.repeat(2));
    assert_eq!(report.verdict, Tampered);
    assert_eq!(compat.matches("prev_hash_mismatch").count(), 1);
    let read = json::parse_python(compat.as_bytes()).unwrap().value;
    assert_eq!(read.get("count").and_then(Value::as_u64), Some(2));
}

#[test]
fn a_character_that_the_file_ends_in_is_decoded_alone() {
    let text = file(&chain(run("r", 9)));
    for cut in [&b"\xe6"[..], b"\xf0\x9f\x99"] {
        let (_, compat) = judged([&text, cut].concat());
        assert!(compat.contains("unexpected end of data"));
        assert!(compat.contains("in position 0"), "{compat}");
    }
}

#[test]
fn digits_before_a_point_that_leads_nowhere_are_an_integer_too_long() {
    let answer = |digits, rest: &str| judged(format!("{{\"a\":{}{rest}\n", "9".repeat(digits))).1;
    for rest in ["", ".", ".e", "e", "E+", ".}", "e\"x\""] {
        let compat = answer(4301, rest);
        assert!(compat.contains("value has 4301 digits"), "{rest}: {compat}");
        let compat = answer(4300, rest);
        assert!(compat.starts_with("{\"ok\": true"), "{rest}: {compat}");
    }
    // With a fraction it is a float, which may have any number of digits.
    let compat = answer(4301, ".5e");
    assert!(compat.starts_with("{\"ok\": true"), "{compat}");
}

#[test]
fn members_of_a_link_are_shown_in_their_order() {
    let (_, compat) = judged(b"{\"record_hash\":{\"b\":1,\"a\":[{\"d\":1.50,\"c\":2}]}}\n");
    let stored = r#""stored": {"b": 1, "a": [{"d": 1.5, "c": 2}]}"#;
    assert!(compat.contains(stored), "{compat}");
}
