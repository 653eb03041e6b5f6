//! Pruning of threads in a database, under the lease of their order.

use super::Ended;
use crate::prelude::*;
use crate::prune::codes;
use crate::prune_kinds::prune;

const KEEP: &str = "DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept;
    CREATE TABLE kept.files AS SELECT * FROM threadseal_files; CREATE TABLE kept.chunks AS SELECT * FROM threadseal_chunks";
const PUT_BACK: &str =
    "INSERT INTO threadseal_files SELECT * FROM kept.files ON CONFLICT DO NOTHING;
    INSERT INTO threadseal_chunks SELECT * FROM kept.chunks ON CONFLICT DO NOTHING";

impl Ended {
    fn address(&self) -> String {
        format!("{}#{}", self.url, self.thread)
    }

    /// How many files of the thread there are.
    fn files(&self) -> u64 {
        let count = format!(
            "SELECT count(*) FROM threadseal_files WHERE NOT is_folder AND path LIKE '.ai/agent/threads/{}/%'",
            self.thread
        );
        self.sql(&count).trim().parse().unwrap()
    }

    /// The content of the files of the thread.
    fn contents(&self) -> String {
        self.sql(&format!(
            "SELECT string_agg(concat(f.path, ' ', f.size, ' ', encode(sha256(c.bytes), 'hex')), E'\\n' ORDER BY f.path, c.at)
             FROM threadseal_files f JOIN threadseal_chunks c USING (inode) WHERE f.path LIKE '.ai/agent/threads/{}/%'",
            self.thread
        ))
    }

    fn orders(&self) -> String {
        let orders = "SELECT string_agg(id || state || coalesce(result, ''), ',' ORDER BY id) FROM threadseal_orders";
        self.sql(orders)
    }

    fn seen(&self, exit: i32) -> Vec<String> {
        codes(&self.verify("").exits(exit).json())
    }
}

// T-PRU-16
#[test]
fn a_thread_in_a_database_is_pruned_whole_and_nothing_misses_it() {
    let Some(ended) = Ended::new() else { return };
    let (address, sandbox) = (ended.address(), &ended.sandbox);
    let stood = ended.orders();
    let whole = ended.files();
    assert!(whole >= 4, "{whole}");
    let would = prune(sandbox, &format!("{address} --dry-run"), 0);
    assert!(would.contains("would prune") && ended.files() == whole);
    // No other process writes there meanwhile.
    ended.sql(
        "UPDATE threadseal_orders SET state = 'taken', expires_at = now() + interval '1 hour'",
    );
    assert!(prune(sandbox, &address, 2).contains("held by a worker"));
    ended.sql("UPDATE threadseal_orders SET state = 'done', expires_at = NULL");
    ended.sql(KEEP);
    let told = prune(sandbox, &address, 0);
    told.lacks("stays in its folder");
    assert_eq!((ended.files(), ended.orders()), (0, stood));
    // The record is missing neither from the registry, nor for the child that names it, nor for
    // `verify --all`.
    ended.seen(0).has("pruned").lacks("record_missing");
    let all = sandbox.sh(format!("verify --all {} --json", ended.url));
    codes(&all.json()).has("pruned").lacks("record_missing");
    prune(sandbox, &address, 0);
    // A restored record is reported, is neither redacted nor resumed, and goes with the next prune.
    ended.sql(PUT_BACK);
    assert_eq!(ended.files(), whole);
    ended.seen(0).has("pruned_but_present");
    let before = ended.contents();
    ended.ok(format!(
        "thread resume {} -m 'Once more.' --detach",
        ended.thread
    ));
    ended.work("more.yaml");
    assert!(ended.orders().contains("was pruned"), "{}", ended.orders());
    assert_eq!(ended.contents(), before);
    prune(sandbox, &address, 0);
    assert_eq!(ended.files(), 0);
    ended.seen(0).lacks("pruned_but_present");
}

// T-PRU-16
#[test]
fn a_prune_in_a_database_that_was_cut_short_is_finished_by_the_next() {
    let Some(ended) = Ended::new() else { return };
    ended.sql(KEEP);
    prune(&ended.sandbox, &ended.address(), 0);
    // The record, which is deleted last, is still there with one more file.
    ended.sql(PUT_BACK);
    ended.sql("DELETE FROM threadseal_files WHERE NOT is_folder AND path NOT LIKE '%transcript.jsonl' AND path NOT LIKE '%.md'");
    prune(&ended.sandbox, &ended.address(), 0);
    assert_eq!(ended.files(), 0);
}

// T-PRU-16
#[test]
fn what_was_changed_cut_or_is_open_in_a_database_is_not_pruned_and_no_forged_tombstone_excuses_it()
{
    let Some(ended) = Ended::new() else { return };
    let (address, sandbox) = (ended.address(), &ended.sandbox);
    let folder = format!(".ai/agent/threads/{}/", ended.thread);
    let edited = format!(
        "UPDATE threadseal_chunks c SET bytes = convert_to(replace(convert_from(c.bytes, 'UTF8'), 'Ada', 'Eve'), 'UTF8')
         FROM threadseal_files f WHERE f.inode = c.inode AND f.path = '{folder}"
    );
    let cut = format!(
        "WITH last AS (SELECT f.inode, max(c.at) AS at FROM threadseal_files f JOIN threadseal_chunks c USING (inode)
                       WHERE f.path = '{folder}transcript.jsonl' GROUP BY f.inode),
              gone AS (DELETE FROM threadseal_chunks c USING last WHERE c.inode = last.inode AND c.at = last.at)
         UPDATE threadseal_files f SET size = last.at FROM last WHERE f.inode = last.inode"
    );
    ended.sql(KEEP);
    for attack in [
        format!("{edited}transcript.jsonl'"),
        format!("{edited}thread.json'").replace("'Ada', 'Eve'", "'completed', 'cancelled'"),
        cut,
    ] {
        let whole = ended.contents();
        ended.sql(&attack);
        let before = ended.contents();
        assert_ne!(before, whole, "{attack}");
        prune(sandbox, &address, 2);
        assert_eq!(ended.contents(), before, "{attack}");
        ended.sql("DELETE FROM threadseal_files; DELETE FROM threadseal_chunks");
        ended.sql(PUT_BACK);
    }
    prune(sandbox, &format!("{}#demo/none", ended.url), 2);
    let stranger = sandbox.home().with_file_name("stranger");
    for arguments in ["init -q", &format!("prune --yes {address}")] {
        let mut command = sandbox.command();
        command
            .args(words(arguments))
            .env("THREADSEAL_HOME", &stranger);
        command.output().unwrap();
    }
    assert!(ended.files() >= 4);
    assert!(!sandbox.home().join("tombstones").exists());
    prune(sandbox, &format!("{address:?}"), 0);
    let folder = sandbox.home().join("tombstones");
    let place = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let good = read(&place);
    for other in [Some(good.replace("time is up", "time is mine")), None] {
        match other {
            Some(forged) => fs::write(&place, forged).unwrap(),
            None => fs::remove_file(&place).unwrap(),
        }
        ended.seen(1).has("record_missing").lacks("pruned");
    }
    fs::write(&place, good).unwrap();
    ended.seen(0).has("pruned");
    // After its children are pruned too, `verify --all` no longer needs the name of the database.
    let child = ended.sql("SELECT thread_id FROM threadseal_threads WHERE parent_id IS NOT NULL");
    prune(sandbox, &format!("{}#{}", ended.url, child.trim()), 0);
    sandbox
        .sh(format!("verify --all {}", ended.url))
        .omits("record_missing");
    ended.seen(0).has("pruned");
    sandbox.ok("log fsck");
}
