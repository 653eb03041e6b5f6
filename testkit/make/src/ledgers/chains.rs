//! Chains, steps and lines of ledgers without signatures: `spec/ledger.md` §5.

use super::forge::{Ledger, record};
use super::{Adder, Want};
use crate::values::Value;

pub(super) fn add(add: &mut Adder) {
    lines(add);
    steps(add);
    values(add);
}

fn lines(add: &mut Adder) {
    for (name, rule, behind, verdict, codes) in [
        (
            "line-torn",
            "behind the last record, without an end",
            "{\"run_id\":",
            "consistent",
            &["torn_tail", "unsigned"][..],
        ),
        (
            "line-of-no-object",
            "behind the last record, with an end",
            "[1]\n",
            "consistent",
            &["line_skipped", "unsigned"],
        ),
        (
            "lines-skipped-and-torn",
            "of each line the first part",
            "[1]\n{\"run_id\":",
            "consistent",
            &["line_skipped", "torn_tail", "unsigned"],
        ),
        (
            "line-of-blanks",
            "no finding",
            " \t\u{2003}\n",
            "consistent",
            &["unsigned"],
        ),
    ] {
        let mut ledger = Ledger::of_steps(1, None);
        ledger.behind = behind;
        add.add(
            name,
            &format!("§5.1: {rule}"),
            &ledger,
            Want::new(verdict, codes, None),
        );
    }
    for (name, behind, codes) in [
        ("nothing", "", &["ledger_empty"][..]),
        (
            "nothing-but-a-torn-line",
            "{",
            &["ledger_empty", "torn_tail"],
        ),
        (
            "nothing-but-a-number",
            "7\n",
            &["ledger_empty", "line_skipped"],
        ),
    ] {
        let mut ledger = Ledger::new();
        ledger.behind = behind;
        let verdict = if behind.is_empty() {
            "unsigned"
        } else {
            "malformed"
        };
        add.add(
            name,
            "§5.1, §5.5 step 4.1",
            &ledger,
            Want::new(verdict, codes, None),
        );
    }
    let mut ledger = Ledger::of_steps(1, None);
    ledger.lines[0].insert_str(0, "7\n8\n");
    ledger.behind = "{";
    add.add(
        "lines-skipped-before-and-behind",
        "§5.1",
        &ledger,
        Want::new("tampered", &["line_skipped", "torn_tail", "unsigned"], None),
    );
}

fn steps(add: &mut Adder) {
    let mut ledger = Ledger::new();
    ledger.record(record(1, "completed"), None);
    ledger.step(1, None);
    add.add(
        "step-that-ends-before-it-starts",
        "§5.4: a record that ends a step that was not open ends it, too",
        &ledger,
        Want::new(
            "consistent",
            &[
                "step_ended_twice",
                "step_started_twice",
                "step_unstarted",
                "unsigned",
            ],
            None,
        ),
    );
    let mut ledger = Ledger::new();
    ledger.record(record(1, "started"), None);
    ledger.record(record(1, "paused"), None);
    add.add(
        "status-of-another-word",
        "§5.4: it is of no step, and odd (§5.5)",
        &ledger,
        Want::new(
            "consistent",
            &["record_odd", "step_unended", "unsigned"],
            None,
        ),
    );
    for (name, started, codes) in [
        (
            "moment-of-year-26",
            Value::from("0026-11-22T20:30:00+00:00"),
            &["time_unreadable", "unsigned"][..],
        ),
        (
            "moment-with-a-small-t",
            "2026-11-22t20:30:01z".into(),
            &["unsigned"],
        ),
        (
            "moment-of-ten-digits",
            "2026-11-22T20:30:01.0000000000Z".into(),
            &["time_unreadable", "unsigned"],
        ),
        ("moment-null", Value::Null, &["record_odd", "unsigned"]),
        (
            "moment-that-is-a-number",
            7.into(),
            &["record_odd", "time_unreadable", "unsigned"],
        ),
    ] {
        let mut ledger = Ledger::new();
        ledger.record(record(1, "started"), None);
        let mut end = record(1, "completed");
        end.set("started_at", started);
        ledger.record(end, None);
        add.add(
            name,
            "§2, §5.4 step 1",
            &ledger,
            Want::new("consistent", codes, None),
        );
    }
}

fn values(add: &mut Adder) {
    let mut ledger = Ledger::of_steps(1, None);
    let mut unchained = record(2, "started");
    unchained
        .set("prev_hash", Value::Null)
        .set("record_hash", Value::Null);
    ledger.lines.push(unchained.plain());
    add.add(
        "record-unchained-behind",
        "§5.5 step 4.2",
        &ledger,
        Want::new(
            "unsigned",
            &[
                "record_unchained",
                "step_unended",
                "unsigned",
                "unsigned_tail",
            ],
            None,
        ),
    );
    let mut ledger = Ledger::of_steps(1, None);
    let mut wrong = record(2, "started");
    wrong
        .set("prev_hash", Value::Null)
        .set("record_hash", "none");
    ledger.lines.push(wrong.plain());
    add.add(
        "hash-that-is-no-digest",
        "§5.3 step 4; §5.5 step 4.2: it is not `record_unchained`",
        &ledger,
        Want::new(
            "tampered",
            &["hash_wrong", "step_unended", "unsigned"],
            None,
        ),
    );
}
