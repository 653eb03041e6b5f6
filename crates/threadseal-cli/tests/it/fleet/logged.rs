//! Seals that workers make in a database are recorded in the log of their host.

use super::Ended;
use crate::prelude::*;

// T-FLT-19
#[test]
fn a_database_that_goes_back_with_its_heads_does_not_take_back_what_a_worker_sealed() {
    let Some(ended) = Ended::new() else { return };
    let listed = ["log", "entries", "--json", "--from", "0", "--limit", "1000"];
    let listed = ended.sandbox.run(listed).exits(0).json();
    let logged = |kind: &str| {
        let entries = listed["entries"].list().iter();
        let kind = format!("head/{kind}");
        entries
            .filter(|entry| entry["entry"]["type"] == kind)
            .count()
    };
    // Two threads with their seals, and the ledgers and documents that are signed with each.
    assert!(logged("transcript") >= 8, "{listed}");
    assert!(logged("ledger") >= 2 && logged("document") >= 4, "{listed}");
    ended.sandbox.ok("log fsck").does_not_warn("warning");
    ended.verify("").exits(0);
    // The end of each record is gone, and so are all heads in the database.
    let cut = "WITH last AS (SELECT f.inode, max(c.at) AS at FROM threadseal_files f JOIN threadseal_chunks c USING (inode)
                             WHERE f.path LIKE '%/transcript.jsonl' GROUP BY f.inode),
                    gone AS (DELETE FROM threadseal_chunks c USING last WHERE c.inode = last.inode AND c.at = last.at)
               UPDATE threadseal_files f SET size = last.at FROM last WHERE f.inode = last.inode";
    let forgotten = format!("{cut}; DELETE FROM threadseal_known_heads");
    ended.tells(&forgotten, "head_ahead", "transcript.jsonl");
    // The bytes are restored but the heads are not: the log has them.
    ended.verify("").exits(0);
    // `verify --all` without the database names the database in its error.
    ended
        .sandbox
        .exits(2, "verify --all")
        .warns("was sealed in postgres://");
    ended
        .sandbox
        .sh(format!("verify --all {}", ended.url))
        .omits("record_missing");
}

// T-KLOG-23
#[test]
fn a_key_is_not_rotated_under_a_thread_of_a_database_that_goes_on_or_of_which_nobody_can_say() {
    let Some(ended) = Ended::new() else { return };
    let rotate = |more: &str| ended.sandbox.sh(format!("key rotate self {more}"));
    let named = format!("--database {}", ended.url);
    rotate("")
        .exits(2)
        .warns("cannot determine")
        .warns("postgres://");
    ended.slow(2);
    ended.ok("run demo/slow --detach");
    let mut worker = ended.worker("--script nap.yaml");
    while ended.naps() < 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    rotate(&named).exits(2).warns("have not ended");
    ended.sql(
        "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour' WHERE state = 'taken'",
    );
    let thread = ended.root().unwrap();
    ended.ok(format!("thread recover {thread}"));
    rotate(&named).exits(0);
    ended.verify("").exits(0);
}
