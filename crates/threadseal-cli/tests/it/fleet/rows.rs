//! Rows of a registry in PostgreSQL that an attacker deleted or edited: they are named, and
//! restored from the records.

use super::*;
use crate::prelude::*;

/// The columns of a row that the record states, too.
const SAID: &str = "SELECT thread_id, directive, parent_id, status, turns, input_tokens, output_tokens, spend_nanos,
  spawn_count, model, continuation_of, continuation_thread_id, chain_root_id, record, order_id
  FROM threadseal_threads ORDER BY thread_id";

// T-REG-09 T-REG-18
#[test]
fn rows_of_a_database_that_were_deleted_or_edited_are_named_and_recovered_by_their_records() {
    let Some(ended) = Ended::new() else { return };
    let resume = format!("thread resume {} -m 'Once more.' --detach", ended.thread);
    ended.ok(&resume);
    ended.work("more.yaml");
    let before = ended.sql(SAID);
    let ids = ended.sql("SELECT thread_id FROM threadseal_threads ORDER BY thread_id");
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), 3);
    ended.ok("thread inspect");
    let inspect = || ended.sh("thread inspect --json");
    let named = |code: &str, id: &str| {
        let seen = inspect().exits(1).json();
        let mut faults = seen["databases"][0]["faults"].list().iter();
        faults.any(|fault| fault["code"] == code && fault["thread"] == id)
    };
    for id in &ids {
        let edits = [
            ("DELETE FROM threadseal_threads", "row_missing"),
            (
                "UPDATE threadseal_threads SET parent_id = 'x'",
                "parent_mismatch",
            ),
            (
                "UPDATE threadseal_threads SET record = NULL",
                "record_mismatch",
            ),
            (
                "UPDATE threadseal_threads SET continuation_of = 'x'",
                "chain_mismatch",
            ),
            ("UPDATE threadseal_threads SET turns = 77", "cost_mismatch"),
        ];
        for (edit, code) in edits {
            ended.sql(&format!("{edit} WHERE thread_id = '{id}'"));
            // The cost of a thread that continues elsewhere also comes from its record.
            assert!(named(code, id), "{edit} {id}: {}", inspect().stdout);
            ended.ok(format!("thread recover {id}"));
            assert_eq!(ended.sql(SAID), before, "{edit} {id}");
            ended.ok("thread inspect");
            ended.refuses(&format!("thread recover {id}"), "nothing to recover");
        }
    }
    // A record that does not verify adds no row.
    ended.sql(&format!(
        "DELETE FROM threadseal_threads WHERE thread_id = '{}'",
        ended.thread
    ));
    ended.edit("Ada", "Eve");
    ended.refuses(&format!("thread recover {}", ended.thread), "tampered");
    ended.edit("Eve", "Ada");
    assert!(named("row_missing", &ended.thread));
    ended.ok(format!("thread recover {}", ended.thread));
    ended.ok(&resume);
    // A deleted budget is named, too.
    ended.sql(&format!(
        "DELETE FROM threadseal_budgets WHERE thread_id = '{}'",
        ended.thread
    ));
    assert!(named("budget_missing", &ended.thread));
}

#[test]
fn an_order_whose_rows_are_gone_when_its_worker_is_lost_does_not_begin_anew() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(2);
    ended.ok("run demo/slow --detach");
    ended.lose_worker(1);
    let thread = ended.root().unwrap();
    ended.sql(&format!(
        "DELETE FROM threadseal_threads WHERE thread_id = '{thread}';
         UPDATE threadseal_orders SET expires_at = now() - interval '1 hour' WHERE state = 'taken'"
    ));
    ended.work("nap.yaml");
    assert_eq!(ended.naps(), 1);
    let waited = ended.exits(2, format!("thread wait {thread} --json"));
    assert_eq!(waited.json()["results"][&thread]["status"], "error");
    ended.ok("thread inspect");
    ended.verify("").exits(0);
    assert_eq!(
        ended.sql("SELECT DISTINCT state FROM threadseal_orders"),
        "done\n"
    );
}

// T-FLT-20
#[test]
fn threads_that_were_removed_with_their_rows_are_missing_where_they_were_sealed() {
    let Some(ended) = Ended::new() else { return };
    ended.verify("").exits(0);
    ended.sql(
        "DELETE FROM threadseal_files; DELETE FROM threadseal_chunks; DELETE FROM threadseal_threads;
         DELETE FROM threadseal_known_heads; DELETE FROM threadseal_head_lines;
         DELETE FROM threadseal_head_places",
    );
    let output = ended.verify("").exits(1).json();
    let reports = output["results"].list().iter();
    let missing = |report: &&Value| {
        report["verdict"] == "missing" && report.codes().contains(&"record_missing")
    };
    assert_eq!(reports.filter(missing).count(), 2, "{output:#}");
    // Another home never knew them.
    let other = ready();
    let code = other.sh(format!("verify {}", ended.url)).code;
    assert_eq!(code, 2);
}
