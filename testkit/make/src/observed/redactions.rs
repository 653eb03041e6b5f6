//! Redactions of observed logs: `spec/transcript.md` §9, steps 3 and 9 of the seal file, and steps 2,
//! 4 and 6 of the log.

use super::{Adder, Verdict, split};
use crate::observed_forge::{Log, Statement, replacement};

pub(super) fn add(add: &mut Adder) {
    done(add);
    half_done(add);
    replacements(add);
    edited(add);
    misspelled(add);
    bounds(add);
    not_holding(add);
    misplaced(add);
}

/// A log of five lines under one seal.
fn five() -> Log {
    let mut log = Log::new(2);
    log.some(5).seal();
    log
}

fn open(log: &Log) -> Verdict {
    Verdict::open(log).and("redacted")
}

fn done(add: &mut Adder) {
    let mut log = five();
    log.redact(&[2]);
    let rule = "log, step 2: a note for a statement that holds";
    add.log("redacted", &log, open(&log), rule);
    log.some(1).seal();
    let rule = "the log is sealed further: sizes count the lengths that were sealed";
    add.log("redacted-and-continued", &log, open(&log), rule);
    log.end();
    let verdict = Verdict::whole(&log).and("redacted");
    add.log(
        "redacted-final",
        &log,
        verdict,
        "log, step 2: it changes no verdict",
    );
    for (name, lines) in [
        ("redacted-first", &[1_u64] as &[u64]),
        ("redacted-last", &[5]),
        ("redacted-runs", &[1, 3, 4]),
        ("redacted-all", &[1, 2, 3, 4, 5]),
    ] {
        let mut log = five();
        log.redact(lines);
        add.log(
            name,
            &log,
            open(&log),
            "log, step 4: a line fits where it is redacted",
        );
    }
    let mut log = five();
    log.redact(&[2])
        .replace(&[4])
        .unsalt(&[2, 4])
        .state(&[4], |_| {});
    add.log("redacted-twice", &log, open(&log), "two statements");
    log.state(&[4], |_| {});
    add.log(
        "redacted-again",
        &log,
        open(&log),
        "two statements may name one line",
    );
    let mut log = five();
    log.some(1).seal().redact_with(&[2], |_| {});
    let earlier = log.seals[0].head.clone();
    let mut log = five();
    log.some(1)
        .seal()
        .redact_with(&[2], |statement| statement.head = earlier);
    let rule = "seal file, step 9: the head of an earlier seal that covers the line";
    add.log("redacted-under-earlier-seal", &log, open(&log), rule);
}

/// What a crash between two steps leaves.
fn half_done(add: &mut Adder) {
    let mut log = five();
    log.state(&[2], |_| {});
    let rule = "log, step 2: a line that a statement names is still there";
    let verdict = open(&log).and("redaction_unfinished");
    add.log("redaction-unfinished", &log, verdict, rule);
    let mut log = five();
    log.replace(&[2]).state(&[2], |_| {});
    add.log(
        "redacted-salt-there",
        &log,
        open(&log),
        "the salts are not compared with the statements",
    );
    let mut log = five();
    log.unsalt(&[2]).state(&[2], |_| {});
    let rule = "log, step 4: without its salt the line that is named does not fit";
    let verdict = Verdict::differs("line_changed", &split(&log.out)[..1]).and("redacted");
    add.log("redacted-line-there", &log, verdict, rule);
    let mut log = five();
    log.replace(&[2]).unsalt(&[2]);
    let rule = "log, step 4: replaced, and no statement names the line";
    let verdict = || Verdict::differs("salt_missing", &split(&log.out)[..1]);
    add.log("replaced-unstated", &log, verdict(), rule);
    let mut log = five();
    log.replace(&[2]);
    let rule = "log, step 4: replaced without a statement, its salt there";
    let verdict = Verdict::differs("line_changed", &split(&log.out)[..1]);
    add.log("replaced-unstated-salt-there", &log, verdict, rule);
}

fn replacements(add: &mut Adder) {
    let mut log = five();
    log.redact(&[2]);
    let lines = split(&log.out);
    let leaf = |number: usize| log.leaves[number];
    let good = replacement(2, &leaf(1));
    let cases = [
        (
            "replacement-leaf",
            replacement(2, &leaf(2)),
            "the leaf of another line",
        ),
        (
            "replacement-number",
            replacement(3, &leaf(1)),
            "the number of another line",
        ),
        (
            "replacement-blank",
            good.replacen(':', ": ", 1),
            "one spelling",
        ),
        ("replacement-cr", format!("{good}\r"), "CR before LF"),
        (
            "replacement-more",
            good.replacen("}}", ",\"more\":1}}", 1),
            "no more members",
        ),
    ];
    for (name, line, rule) in cases {
        let line = format!("{line}\n");
        let mut edited = lines.clone();
        edited[1] = line.as_bytes();
        let verdict = Verdict::differs("line_changed", &lines[..1]).and("redacted");
        let rule = format!("log, step 4: {rule}");
        add.edited(name, &edited.concat(), &log, verdict, &rule);
    }
    let mut plain = Log::new(1);
    plain.some(3).seal();
    let line = format!("{}\n", replacement(2, &plain.leaves[1]));
    let lines = split(&plain.out);
    let edited = [lines[0], line.as_bytes(), lines[2]].concat();
    let verdict = Verdict::differs("line_changed", &lines[..1]);
    let rule = "log, step 4: format 1 has no redactions";
    add.edited("replacement", &edited, &plain, verdict, rule);
}

/// Other changes of a log with a redacted line.
fn edited(add: &mut Adder) {
    let mut log = five();
    log.redact(&[2]);
    let lines = split(&log.out);
    let with = |verdict: Verdict| verdict.and("redacted");
    let mut changed = lines.clone();
    changed[3] = b"{}\n";
    let verdict = with(Verdict::differs("line_changed", &lines[..3]));
    add.edited(
        "redacted-and-changed",
        &changed.concat(),
        &log,
        verdict,
        "log, step 4: another line differs",
    );
    let verdict = with(Verdict::bad("truncated", &["lines_missing"]));
    add.edited(
        "redacted-and-missing",
        &lines[..4].concat(),
        &log,
        verdict,
        "log, step 5: a line is missing",
    );
    let verdict = with(Verdict::tail(&log));
    let more = [lines.concat().as_slice(), b"{}\n"].concat();
    add.edited(
        "redacted-and-tail",
        &more,
        &log,
        verdict,
        "log, step 6: a line is behind",
    );
    let verdict = with(Verdict::differs("line_deleted", &lines[..1]));
    let without = [&lines[..1], &lines[2..]].concat().concat();
    add.edited(
        "redacted-line-deleted",
        &without,
        &log,
        verdict,
        "log, step 4: its replacement was removed",
    );
    let mut sized = Log::new(2);
    sized.some(5).seal_with(|seal| seal.size += 9).redact(&[2]);
    let rule = "log, step 6: lengths are not compared where a line was redacted";
    add.log("redacted-size", &sized, open(&sized), rule);
}

/// Statements with another spelling, or beyond a bound.
fn misspelled(add: &mut Adder) {
    type Alter = fn(&mut Statement);
    let cases: [(&str, Alter, &str); 19] = [
        (
            "blank",
            |s| s.alter = |line| line.replacen("\"lines\":", "\"lines\": ", 1),
            "no blank",
        ),
        (
            "more",
            |s| s.alter = |line| line.replacen("\"}}", "\",\"more\":1}}", 1),
            "no more members",
        ),
        ("runs-none", |s| s.lines = "[]".to_owned(), "1 run or more"),
        (
            "runs-touch",
            |s| s.lines = "[[1,1],[2,1]]".to_owned(),
            "a line between two runs",
        ),
        (
            "runs-descend",
            |s| s.lines = "[[4,1],[2,1]]".to_owned(),
            "runs ascend",
        ),
        (
            "runs-overlap",
            |s| s.lines = "[[1,3],[2,1]]".to_owned(),
            "runs do not overlap",
        ),
        (
            "first-zero",
            |s| s.lines = "[[0,1]]".to_owned(),
            "lines count from 1",
        ),
        (
            "count-zero",
            |s| s.lines = "[[1,0]]".to_owned(),
            "1 line or more",
        ),
        (
            "count-2-32",
            |s| s.lines = "[[1,4294967296]]".to_owned(),
            "counts below 2^32",
        ),
        (
            "first-spelled-02",
            |s| s.lines = "[[02,1]]".to_owned(),
            "no leading zeros",
        ),
        (
            "time-five-digits",
            |s| s.time = "1771356405.90000".to_owned(),
            "a time as in §1",
        ),
        (
            "author-empty",
            |s| s.author = "\"\"".to_owned(),
            "`by` has 1 byte or more",
        ),
        (
            "author-null",
            |s| s.author = "null".to_owned(),
            "`by` is text",
        ),
        (
            "author-257-bytes",
            |s| s.author = text(257),
            "`by` has at most 256 bytes",
        ),
        (
            "author-spelling",
            |s| s.author = "\"caf\\u00E9\"".to_owned(),
            "texts in the native spelling",
        ),
        (
            "why-empty",
            |s| s.why = "\"\"".to_owned(),
            "`why` has 1 byte or more",
        ),
        (
            "why-4097-bytes",
            |s| s.why = text(4097),
            "`why` has at most 4,096 bytes",
        ),
        (
            "why-not-ascii",
            |s| s.why = "\"caf\u{e9}\"".to_owned(),
            "ASCII only",
        ),
        ("head-short", |s| _ = s.head.pop(), "a head (§6)"),
    ];
    for (name, alter, rule) in cases {
        let mut log = five();
        log.redact_with(&[2], alter);
        let verdict = Verdict::bad("tampered", &["redaction_bad", "no_seal"]);
        let rule = format!("seal file, step 3: {rule}");
        add.log(&format!("statement-{name}"), &log, verdict, &rule);
    }
}

/// JSON text of so many bytes.
fn text(bytes: usize) -> String {
    format!("\"{}\"", "a".repeat(bytes))
}

fn bounds(add: &mut Adder) {
    type Alter = fn(&mut Statement);
    let cases: [(&str, Alter, &str); 3] = [
        (
            "author-256-bytes",
            |s| s.author = text(256),
            "`by` has at most 256 bytes",
        ),
        (
            "author-256-bytes-escaped",
            |s| s.author = format!("\"{}\"", "\\u00e9".repeat(128)),
            "bytes of the text, not of its spelling",
        ),
        (
            "why-4096-bytes",
            |s| s.why = text(4096),
            "`why` has at most 4,096 bytes",
        ),
    ];
    for (name, alter, rule) in cases {
        let mut log = five();
        log.redact_with(&[2], alter);
        let rule = format!("seal file, step 3: {rule}");
        add.log(&format!("statement-{name}"), &log, open(&log), &rule);
    }
}

/// Statements that are well spelled, and do not hold; the line that they name is still there.
fn not_holding(add: &mut Adder) {
    let wrong_end = |head: &mut String| {
        head.truncate(head.len() - 64);
        head.push_str(&"ab".repeat(32));
    };
    type Alter = Box<dyn FnOnce(&mut Statement)>;
    let cases: Vec<(&str, Alter, &str)> = vec![
        (
            "by-another-key",
            Box::new(|s| s.by = 5),
            "the signature is of another key",
        ),
        (
            "edited",
            Box::new(|s| s.alter = |line| line.replacen("a name", "a game", 1)),
            "its text was changed after it was signed",
        ),
        (
            "head-of-no-seal",
            Box::new(move |s| wrong_end(&mut s.head)),
            "no seal of this file has that head",
        ),
        (
            "head-of-another-record",
            Box::new(|s| s.head = s.head.replacen("0808", "0809", 1)),
            "a head of another record",
        ),
        (
            "head-size",
            Box::new(|s| s.head = s.head.replacen(":0:", ":0:1", 1)),
            "a head of another size",
        ),
        (
            "line-not-covered",
            Box::new(|s| s.lines = "[[6,1]]".to_owned()),
            "a line that the seal does not cover",
        ),
        (
            "run-not-covered",
            Box::new(|s| s.lines = "[[5,2]]".to_owned()),
            "a run of which the seal covers a part",
        ),
    ];
    for (name, alter, rule) in cases {
        let mut log = five();
        log.state(&[2], alter);
        let verdict = Verdict::bad("tampered", &["redaction_bad"]);
        let rule = format!("seal file, step 9: {rule}");
        add.log(&format!("statement-{name}"), &log, verdict, &rule);
    }
    let mut log = five();
    log.redact(&[2]).state(&[4], |statement| statement.by = 5);
    let verdict = Verdict::bad("tampered", &["redaction_bad", "redacted"]);
    let rule = "seal file, step 9: one statement holds, and one does not";
    add.log("statement-one-of-two", &log, verdict, rule);
    let mut log = five();
    log.state(&[2], |_| {}).some(1).seal();
    let earlier = log.seals[0].head.clone();
    let mut log = five();
    log.some(1)
        .seal()
        .state(&[6], |statement| statement.head = earlier);
    let verdict = Verdict::bad("tampered", &["redaction_bad"]);
    let rule = "seal file, step 9: the seal that is named covers fewer lines";
    add.log("statement-under-earlier-seal", &log, verdict, rule);
}

/// Statements in another place.
fn misplaced(add: &mut Adder) {
    let malformed = |codes: &[&'static str]| Verdict::bad("tampered", codes);
    let mut log = five();
    log.state(&[2], |_| {});
    let statement = log.statements.pop().unwrap_or_default();
    let mut behind = log.clone();
    behind
        .body
        .extend_from_slice(format!("{statement}\n").as_bytes());
    let rule = "seal file, step 5: a statement behind the last seal";
    add.log(
        "statement-behind",
        &behind,
        malformed(&["seal_malformed"]),
        rule,
    );
    let mut after = Log::new(2);
    after.some(5).leaves();
    after
        .body
        .extend_from_slice(format!("{statement}\n").as_bytes());
    after.seal();
    let rule = "seal file, step 5: a statement between leaves and their seal";
    let codes = ["seal_malformed", "no_seal"];
    add.log("statement-behind-leaves", &after, malformed(&codes), rule);
    let mut plain = Log::new(1);
    plain.body = format!("{statement}\n").into_bytes();
    plain.some(5).seal();
    let rule = "seal file, step 5: format 1 has no statements";
    add.log("statement", &plain, malformed(&codes), rule);
    let mut odd = log.clone();
    odd.statements = vec![statement.replacen(":{", ": {", 1)];
    let rule = "seal file, step 5: a line that does not begin as a statement";
    add.log("statement-begins-otherwise", &odd, malformed(&codes), rule);
    let mut salts = log;
    salts.salts = format!("{statement}\n{}", salts.salts);
    let verdict = Verdict::bad("malformed", &["salts_bad", "no_seal"]);
    add.log(
        "statement-before-salts",
        &salts,
        verdict,
        "seal file, step 2: a statement in the place of the salts",
    );
}
