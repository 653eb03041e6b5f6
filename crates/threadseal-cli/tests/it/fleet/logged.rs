//! What workers seal in a database is written down in the log of their host.

use super::Ended;

#[test]
fn a_database_that_goes_back_with_its_heads_does_not_take_back_what_a_worker_sealed() {
    let Some(ended) = Ended::new() else { return };
    let listed = ["log", "entries", "--json", "--from", "0", "--limit", "1000"];
    let listed = ended.sandbox.run(listed).exits(0).stdout;
    let logged = |kind: &str| {
        let kind = format!("\"type\":\"head/{kind}\"");
        listed.lines().filter(|line| line.contains(&kind)).count()
    };
    // Two threads with their seals, and what is signed with each.
    assert!(logged("transcript") >= 8, "{listed}");
    assert!(logged("ledger") >= 2 && logged("document") >= 4, "{listed}");
    let checked = ended.sandbox.run(["log", "fsck"]).exits(0);
    assert!(!checked.stderr.contains("warning"), "{}", checked.stderr);
    ended.verify("").exits(0);
    // The end of each record is gone, and so is all that the database knew of their heads.
    let cut = "WITH last AS (SELECT f.inode, max(c.at) AS at FROM threadseal_files f JOIN threadseal_chunks c USING (inode)
                             WHERE f.path LIKE '%/transcript.jsonl' GROUP BY f.inode),
                    gone AS (DELETE FROM threadseal_chunks c USING last WHERE c.inode = last.inode AND c.at = last.at)
               UPDATE threadseal_files f SET size = last.at FROM last WHERE f.inode = last.inode";
    let forgotten = format!("{cut}; DELETE FROM threadseal_known_heads");
    ended.tells(&forgotten, "head_ahead", "transcript.jsonl");
    // The bytes are back, the heads are not: the log has them.
    ended.verify("").exits(0);
    // Who looks for all records without naming the database is told to.
    let all = ended.sandbox.run(["verify", "--all"]).exits(2);
    assert!(
        all.stderr.contains("was sealed in postgres://"),
        "{}",
        all.stderr
    );
    let all = ended.sandbox.run(["verify", "--all", &ended.url]);
    assert!(!all.stdout.contains("record_missing"), "{}", all.stdout);
}
