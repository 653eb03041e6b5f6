//! Attacks on secrets that are marked, and on those that are left out.

use super::*;
use crate::archive::redact::tests::{ends, has_word, text};
use crate::archive::testing::{Bench, LOG, WORD};
use crate::archive::{Kept, Settings};
use threadseal_core::error::ErrorKind;
use threadseal_core::report::Verdict;
use threadseal_store::fault;

impl Bench {
    fn decide(&self, secrets: Secrets) {
        let mut archive = self.archive();
        let settings = Settings {
            secrets,
            ..archive.settings()
        };
        archive.set(settings, None).unwrap();
    }

    fn marks(&self) -> Vec<u64> {
        let log = self.archive().logs().unwrap().remove(0);
        let marks = &log.newest().unwrap().secrets;
        marks.iter().map(|mark| mark.line).collect()
    }

    fn is_verified(&self) {
        let log = self.archive().logs().unwrap().remove(0);
        assert_eq!(self.newest_verdict(&log), Verdict::Verified);
    }
}

// T-CAP-84
#[test]
fn a_line_with_a_secret_is_marked_under_its_own_number_and_by_its_rule_only() {
    for bench in [Bench::new(), Bench::encrypted()] {
        for count in [6, 7, 30] {
            bench.keep_text(LOG, &text(count, 7));
        }
        let log = bench.archive().logs().unwrap().remove(0);
        let newest = log.newest().unwrap();
        let rule = "test-word".to_owned();
        assert_eq!(newest.secrets, [Mark { line: 7, rule }]);
        assert!(has_word(&bench.archive().read(&log, newest, 0).unwrap()));
        let journal = bench
            .disk
            .bytes_of(&bench.archive().journal_place(&log.name));
        assert!(!has_word(&journal.unwrap()));
        bench.is_verified();
    }
}

// T-CAP-84
#[test]
fn marks_stay_with_their_record_until_their_lines_are_redacted() {
    let bench = Bench::new();
    bench.keep_text(LOG, &text(10, 3));
    bench.keep_text(LOG, &[text(10, 3), text(10, 2)].concat());
    assert_eq!(bench.marks(), [3, 12]);
    bench.redact(3).unwrap();
    assert_eq!(bench.marks(), [12]);
    bench.keep_text(LOG, &[text(10, 3), text(10, 2), text(5, 4)].concat());
    assert_eq!(bench.marks(), [12, 24]);
}

// T-CAP-85
#[test]
fn a_line_with_a_secret_that_is_left_out_is_in_no_file_of_the_archive() {
    for bench in [Bench::new(), Bench::encrypted()] {
        bench.decide(Secrets::Omit);
        for count in [3, 7, 30, 400] {
            bench.keep_text(LOG, &text(count, 7));
            bench.is_clean();
            bench.is_verified();
        }
        assert_eq!(bench.marks(), [] as [u64; 0]);
        // Another one, and one more after the user changed the settings.
        let grown = [text(400, 7), text(9, 2)].concat();
        bench.keep_text(LOG, &grown);
        bench.is_clean();
        bench.decide(Secrets::Mark);
        bench.keep_text(LOG, &[grown, text(3, 3)].concat());
        assert_eq!(bench.marks(), [412]);
        bench.is_verified();
        bench.redact(412).unwrap();
        bench.is_clean();
    }
}

// T-CAP-84 T-CAP-85
#[test]
fn blank_lines_and_a_line_that_was_sealed_before_its_end_move_no_number() {
    let whole = b"{\"sessionId\":\"3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6\",\"type\":\"user\",\"uuid\":\"a\",\"cwd\":\"/p\",\"message\":{\"role\":\"user\",\"content\":\"t\"}}";
    let secret = format!("{{\"word\":\"{WORD}\"}}\n");
    for (end, before, line) in [("\n", "\n\n", 4), ("", "\n", 2), ("", "\n\n", 3)] {
        for secrets in [Secrets::Mark, Secrets::Omit] {
            let bench = Bench::new();
            bench.decide(secrets);
            bench.keep_text(LOG, &[whole, end.as_bytes()].concat());
            let grown = [
                whole,
                end.as_bytes(),
                before.as_bytes(),
                secret.as_bytes(),
                b"{}\n",
            ];
            bench.keep_text(LOG, &grown.concat());
            match secrets {
                Secrets::Mark => assert_eq!(bench.marks(), [line], "{end:?} {before:?}"),
                _ => bench.is_clean(),
            }
            bench.is_verified();
        }
    }
}

// T-CAP-85
#[test]
fn no_crash_while_a_secret_is_left_out_brings_its_line_back() {
    let start = Bench::new();
    start.decide(Secrets::Omit);
    start.keep_text(LOG, &text(5, 7));
    start.write(LOG, &text(20, 7));
    start.seal(LOG);
    fault::fail_each_call(20, ends, |call, kind, end| {
        let bench = start.copy();
        bench.disk.plan(call, kind);
        let _ = bench.keep(LOG);
        let struck = bench.disk.struck().is_some();
        bench.disk.heal();
        bench.disk.end(end);
        assert_eq!(bench.fsck().damage, vec![], "{call} {kind:?} {end:?}");
        bench.keep(LOG).unwrap();
        bench.archive().prune().unwrap();
        bench.is_clean();
        bench.is_verified();
        struck
    });
}

// T-CAP-86
#[test]
fn what_cannot_be_left_out_is_not_archived() {
    let bench = Bench::new();
    bench.decide(Secrets::Omit);
    bench.write(LOG, &text(20, 7));
    bench.seal(LOG);
    let seals = threadseal_store::observer::read_seals(&bench.host, std::path::Path::new(LOG));
    let seals = seals.unwrap().unwrap();
    let sealed = SealedLog {
        path: std::path::Path::new(LOG),
        head: observed::parse(&seals).unwrap().last().unwrap().head,
        seals: &seals,
        recall: false,
        search: None,
    };
    let refused = bench.archive().keep(&bench.file(LOG), &sealed);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(bench.archive().logs().unwrap(), []);
    assert!(matches!(bench.keep(LOG).unwrap(), Kept::Added(_)));
}

#[test]
fn names_of_rules_have_one_form_in_a_journal() {
    assert_eq!(rule_name("aws key\n\u{e9}"), "aws-key---");
    assert_eq!(rule_name(""), "-");
    assert_eq!(rule_name(&"x".repeat(200)).len(), MAX_RULE_BYTES);
    for (line, rule) in [(0, "a"), (1, ""), (1, "a b")] {
        assert_eq!(Mark::read(&(line, rule.to_owned())), None, "{line} {rule}");
    }
    let marks: Vec<Mark> = (1..20)
        .map(|line| Mark {
            line,
            rule: format!("rule-{line:02}"),
        })
        .collect();
    assert_eq!(
        why(&marks[..2]),
        "secrets found at capture: rule-01, rule-02"
    );
    assert!(why(&marks).ends_with("rule-08, …") && !why(&marks).contains(WORD));
}
