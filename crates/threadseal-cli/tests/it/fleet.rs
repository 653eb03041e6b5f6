//! Threads in a PostgreSQL database: verified, followed, resumed and ended from the command line.

#[path = "../../../threadseal-store/src/postgres/throwaway.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is the cluster of another crate's tests, which use the rest of it"
)]
mod throwaway;

mod adopted;
mod bodies;
mod healed;
mod logged;
mod monitored;
mod orders;
mod pruned;
mod rows;
mod stopped;
mod strayed;
mod watched;

use crate::prelude::*;
pub(crate) use throwaway::{Cluster, database_of};

/// The cluster that all tests share; None where PostgreSQL is not installed.
pub(crate) fn cluster() -> Option<&'static Cluster> {
    Cluster::shared()
}

/// A thread with a child, which a worker ran to its end.
struct Ended {
    sandbox: Sandbox,
    cluster: &'static Cluster,
    url: String,
    thread: String,
}

/// Commands for this project and database.
impl Shell for Ended {
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ran {
        let mut command = self.sandbox.command();
        command
            .args(arguments)
            .args(["--project", "p"])
            .env("THREADSEAL_DATABASE", &self.url);
        Ran::of(command.output().unwrap())
    }
}

impl Ended {
    fn new() -> Option<Self> {
        Self::of(project())
    }

    /// Makes the same thread in another project.
    fn of(sandbox: Sandbox) -> Option<Self> {
        let cluster = Cluster::shared()?;
        let url = cluster.fresh();
        let mut ended = Self {
            sandbox,
            cluster,
            url,
            thread: String::new(),
        };
        let order = ended.json("run demo/greet -i name=Ada --detach");
        order.is(json!({"schema": "threadseal.run.order/1"}));
        ended.work("answers.yaml");
        ended.thread = ended.root().unwrap();
        Some(ended)
    }

    /// The newest thread without a parent.
    fn root(&self) -> Option<String> {
        let threads = self.json("thread list");
        let mut rows = threads["threads"].list().iter();
        let root = rows.find(|row| row["parent_id"].is_null())?;
        Some(root["thread_id"].text().to_owned())
    }

    /// A worker beside this test.
    fn worker(&self, more: &str) -> Child {
        let mut command = self.sandbox.command();
        command
            .args(["worker", "-q", "--project", "p"])
            .args(words(more))
            .env("THREADSEAL_DATABASE", &self.url)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// The directive `demo/slow`, whose script `nap.yaml` calls one tool that sleeps for `seconds`.
    fn slow(&self, seconds: u64) {
        let directive = "# Slow\n\n```xml\n<directive name=\"slow\" version=\"1.0.0\">\n<metadata><description>d</description>\
            <category>demo</category><author>a</author><model id=\"claude-haiku-4-5\" /><limits turns=\"6\" spend=\"0.05\" />\
            <permissions><execute><tool>demo.nap</tool></execute></permissions></metadata>\n</directive>\n```\n\nSleep.\n";
        let tool = format!(
            "tool_type: command\ncommand: [/bin/sh, -c, 'echo >>began; sleep {seconds}']\nconfig_schema:\n  type: object\n"
        );
        let sandbox = &self.sandbox;
        let paths = [
            sandbox.write("p/.ai/directives/demo/slow.md", directive),
            sandbox.write("p/.ai/tools/demo/nap.yaml", &tool),
        ];
        seal_all(sandbox, &paths);
        sandbox.write(
            "nap.yaml",
            "answers: [{calls: [{tool: demo_nap, input: {}, id: n1}]}]",
        );
    }

    /// A worker is killed as soon as the tool of `demo/slow` has started so often.
    fn lose_worker(&self, naps: usize) {
        let mut worker = self.worker("--script nap.yaml");
        while self.naps() < naps {
            std::thread::sleep(Duration::from_millis(20));
        }
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    /// How often the tool of `demo/slow` started.
    fn naps(&self) -> usize {
        let began = fs::read_to_string(self.sandbox.path("p/began"));
        began.map_or(0, |began| began.lines().count())
    }

    /// The command is refused for this reason, and changes nothing.
    #[track_caller]
    fn refuses(&self, arguments: &str, why: &str) {
        let before = self.everything();
        let ran = self.sh(arguments).fails();
        ran.stderr.has(why);
        assert_eq!(self.everything(), before, "{arguments:?}");
    }

    /// Replaces the name in the greeting of the thread, under all seals.
    fn edit(&self, from: &str, to: &str) {
        self.sql(&format!(
            "UPDATE threadseal_chunks c SET bytes = convert_to(replace(convert_from(c.bytes, 'UTF8'), '{from}', '{to}'), 'UTF8')
             FROM threadseal_files f WHERE f.inode = c.inode AND f.path LIKE '%/transcript.jsonl'"
        ));
    }

    /// A worker that runs all waiting orders.
    fn work(&self, script: &str) {
        self.json(format!("worker -q --until-idle --script {script:?}"));
    }

    fn verify(&self, thread: &str) -> Ran {
        let address = match thread {
            "" => self.url.clone(),
            thread => format!("{}#{thread}", self.url),
        };
        self.sandbox.sh(format!("verify --json {address:?}"))
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.sql(database_of(&self.url), sql)
    }

    /// The whole content of the database.
    fn everything(&self) -> String {
        let dumped = self.cluster.run(
            "pg_dump",
            &["--data-only", "--inserts", database_of(&self.url)],
        );
        // Each dump contains a new random token.
        let lines = dumped.lines().filter(|line| !line.starts_with('\\'));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Runs `sql`, expects a finding with `code` on a path that ends in `name`, and undoes the
    /// change.
    #[track_caller]
    fn tells(&self, sql: &str, code: &str, name: &str) {
        self.sql(
            "DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept;
                  CREATE TABLE kept.files AS SELECT * FROM threadseal_files;
                  CREATE TABLE kept.chunks AS SELECT * FROM threadseal_chunks",
        );
        self.sql(sql);
        let ran = self.verify("");
        assert_eq!(ran.code, 1, "{sql}: {}{}", ran.stdout, ran.stderr);
        let results = &ran.json()["results"];
        let told = results.list().iter().any(|report| {
            let mut findings = report["findings"].list().iter();
            report["path"].text().ends_with(name) && findings.any(|found| found["code"] == code)
        });
        assert!(told, "{sql}: {code} of {name}: {results:#}");
        self.sql(
            "DELETE FROM threadseal_files; DELETE FROM threadseal_chunks;
                  INSERT INTO threadseal_files SELECT * FROM kept.files;
                  INSERT INTO threadseal_chunks SELECT * FROM kept.chunks",
        );
    }
}

// T-FLT-09 T-FLT-10
#[test]
fn changes_of_threads_in_a_database_are_found_as_in_files() {
    let Some(ended) = Ended::new() else { return };
    let whole = ended.verify("").exits(0).json();
    // Of both threads: transcript, ledger, thread.json, capabilities.md and knowledge entry.
    assert_eq!(whole["summary"]["verified"], 10, "{whole:#}");
    let one = ended.verify(&ended.thread).exits(0).json();
    assert_eq!(one["summary"]["verified"], 4, "{one:#}");
    let folder = format!(".ai/agent/threads/{}/", ended.thread);
    let paths: Vec<&str> = one["results"].texts("path");
    assert!(
        paths
            .iter()
            .all(|path| path.contains(&format!("#{folder}"))),
        "{paths:?}"
    );
    ended.verify("demo/none").exits(2);
    let of = |name: &str| format!("path = '{folder}{name}'");
    let (record, papers) = (of("transcript.jsonl"), of("thread.json"));
    let ledger = format!("path LIKE '{folder}ledger\\_%.jsonl'");
    let edited = format!(
        "UPDATE threadseal_chunks c SET bytes = convert_to(replace(convert_from(c.bytes, 'UTF8'), 'Ada', 'Eve'), 'UTF8')
         FROM threadseal_files f WHERE f.inode = c.inode AND f.{record}"
    );
    let gone = |of: &str| format!("DELETE FROM threadseal_files WHERE {of}");
    ended.tells(&edited, "checkpoint_altered", "transcript.jsonl");
    ended.tells(&gone(&record), "record_missing", "transcript.jsonl");
    ended.tells(&gone(&papers), "companion_missing", "thread.json");
    ended.tells(&gone(&ledger), "companion_missing", ".jsonl");
    ended.tells(
        &gone(&of("capabilities.md")),
        "companion_missing",
        "capabilities.md",
    );
    // Every file of the thread: only the row of the registry and the head that all machines share
    // remain.
    ended.tells(
        &gone(&format!("path LIKE '{folder}%'")),
        "record_missing",
        "transcript.jsonl",
    );
    // The file is missing from the listing of its folder, but can still be opened.
    let hidden = format!("UPDATE threadseal_files SET folder = 'x' WHERE {record}");
    ended.tells(
        &format!("{hidden}; {edited}"),
        "checkpoint_altered",
        "transcript.jsonl",
    );
    // The file of another thread, which verifies alone.
    let swapped = format!(
        "UPDATE threadseal_files a SET inode = -1 WHERE a.{record};
         INSERT INTO threadseal_files SELECT '{folder}x', folder, 7, order_id, is_folder, mode, size, version, changed_at
           FROM threadseal_files WHERE path LIKE '%/demo/child%transcript.jsonl';
         INSERT INTO threadseal_chunks SELECT 7, at, c.bytes FROM threadseal_chunks c JOIN threadseal_files f USING (inode)
           WHERE f.path LIKE '%/demo/child%transcript.jsonl';
         DELETE FROM threadseal_files WHERE {record};
         UPDATE threadseal_files SET path = '{folder}transcript.jsonl' WHERE path = '{folder}x'");
    ended.tells(&swapped, "thread_differs", "transcript.jsonl");
    let cut = format!(
        "WITH last AS (SELECT f.inode, max(c.at) AS at FROM threadseal_files f JOIN threadseal_chunks c USING (inode)
                       WHERE f.{record} GROUP BY f.inode),
              gone AS (DELETE FROM threadseal_chunks c USING last WHERE c.inode = last.inode AND c.at = last.at)
         UPDATE threadseal_files f SET size = last.at FROM last WHERE f.inode = last.inode");
    ended.tells(&cut, "head_ahead", "transcript.jsonl");
    let stray =
        "INSERT INTO threadseal_files VALUES ('.ai/agent/threads//x', '', 7, 1, false, 0, 0, 0)";
    ended.tells(stray, "path_bad", ".ai/agent/threads//x");
    ended.verify("").exits(0);
    // Reports never contain a password, wherever they are kept.
    let (port, database) = (ended.cluster.port(), database_of(&ended.url));
    let open = format!("postgres://threadseal:correct%20horse@127.0.0.1:{port}/{database}");
    let append = format!("ledger append {open} --run r1 --sign");
    piped(&ended.sandbox, &append, "{\"node\":\"plan\"}\n").exits(0);
    let told = ended.sandbox.ok(format!("verify --json {open:?}"));
    assert_eq!(told.json()["summary"]["verified"], 11, "{}", told.stdout);
    assert!(!format!("{}{}", told.stdout, told.stderr).contains("horse"));
    // Looking for threads in an empty database creates nothing.
    let empty = ended.cluster.fresh();
    ended.sandbox.exits(2, format!("verify {empty}"));
    ended.sandbox.exits(2, format!("verify {empty}#demo/x"));
    let made = "SELECT count(*) FROM pg_tables WHERE tablename IN ('threadseal_files', 'threadseal_threads')";
    assert_eq!(ended.cluster.sql(database_of(&empty), made), "0\n");
}

// T-FLT-15
#[test]
fn threads_in_a_database_are_waited_for_followed_and_inspected() {
    let Some(ended) = Ended::new() else { return };
    // A client waits for a thread while it runs.
    ended.ok("run demo/greet -i name=Eve --detach");
    let mut worker = ended.worker("--script answers.yaml --until-idle");
    let next = loop {
        match ended.root() {
            Some(root) if root != ended.thread => break root,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // A reader during the writes never gets a report of a change.
    while worker.try_wait().unwrap().is_none() {
        let seen = ended.verify("");
        assert!(matches!(seen.code, 0 | 3), "{}{}", seen.stdout, seen.stderr);
    }
    let waited = ended.sh(format!("thread wait {next} {} --json", ended.thread));
    worker.wait().unwrap();
    let waited = waited.exits(0).json();
    for thread in [&next, &ended.thread] {
        let result = &waited["results"][thread];
        assert_eq!(result["outputs"]["path"], "out.txt", "{waited}");
    }
    let chain = ended.ok(format!("thread chain {next:?} --json"));
    assert_eq!(chain.json()["chain_length"], 1);
    let status = ended.ok(format!("thread status {next:?} --json"));
    assert_eq!(status.json()["verified"], true);
    for look in [
        &format!("transcript {next:?} -q"),
        &format!("search {next:?} 'Greet Eve'"),
    ] {
        ended.ok(format!("thread {look}")).prints("Greet Eve");
    }
    ended.ok("thread inspect");
    let of = format!("WHERE thread_id = '{next}'");
    for (change, code) in [
        (
            "threadseal_threads SET status = 'suspended'",
            "status_mismatch",
        ),
        (
            "threadseal_threads SET directive = 'demo/other'",
            "directive_mismatch",
        ),
        ("threadseal_threads SET status = 'asleep'", "unknown_status"),
        (
            "threadseal_threads SET continuation_thread_id = thread_id",
            "cycle",
        ),
        (
            "threadseal_threads SET continuation_of = 'demo/none'",
            "dangling",
        ),
        ("threadseal_threads SET turns = -1", "ill_typed"),
        (
            "threadseal_budgets SET actual_nanos = max_nanos + 1000000",
            "overspent",
        ),
        (
            "threadseal_budgets SET parent_thread_id = thread_id",
            "cycle",
        ),
    ] {
        ended.sql("DROP TABLE IF EXISTS kept_threads, kept_budgets;
                   CREATE TABLE kept_threads AS SELECT thread_id, status, directive, continuation_thread_id, continuation_of, turns FROM threadseal_threads;
                   CREATE TABLE kept_budgets AS SELECT thread_id, actual_nanos, parent_thread_id FROM threadseal_budgets");
        ended.sql(&format!("UPDATE {change} {of}"));
        let seen = ended.sh("thread inspect --json");
        assert!(
            seen.stdout.contains(&format!("\"code\":\"{code}\"")),
            "{change}: {}",
            seen.stdout
        );
        ended.sql("UPDATE threadseal_threads t SET status = k.status, directive = k.directive, turns = k.turns,
                     continuation_thread_id = k.continuation_thread_id, continuation_of = k.continuation_of
                   FROM kept_threads k WHERE k.thread_id = t.thread_id;
                   UPDATE threadseal_budgets b SET actual_nanos = k.actual_nanos, parent_thread_id = k.parent_thread_id
                   FROM kept_budgets k WHERE k.thread_id = b.thread_id");
    }
    ended.ok("thread inspect");
    ended.sql(&format!("UPDATE threadseal_threads SET status = 'continued', continuation_thread_id = thread_id {of}"));
    ended.exits(1, format!("thread chain {next:?}"));
    // `thread wait` does not wait for a chain without an end.
    let refused = ended.exits(2, format!("thread wait {next:?} --json"));
    assert_eq!(refused.json()["results"][&next]["status"], "refused");
}

// T-FLT-11
#[test]
fn a_thread_in_a_database_continues_only_from_records_that_verify() {
    let Some(ended) = Ended::new() else { return };
    let thread = ended.thread.as_str();
    let resume = format!("thread resume {thread} -m 'Once more.'");
    let detached = format!("{resume} --detach");
    ended.edit("Ada", "Eve");
    ended.refuses(&resume, "tampered");
    ended.refuses(&format!("thread handoff {thread}"), "tampered");
    ended.edit("Eve", "Ada");
    // A live worker may still continue the thread.
    ended.sql(
        "UPDATE threadseal_orders SET state = 'taken', expires_at = now() + interval '1 hour'",
    );
    ended.refuses(&resume, "is not done");
    ended.sql("UPDATE threadseal_orders SET state = 'done'");
    // A change that the order does not know stops the worker.
    ended.ok(&detached);
    ended.edit("Ada", "Eve");
    ended.work("more.yaml");
    let threads = "SELECT count(*) FROM threadseal_threads";
    assert_eq!(ended.sql(threads), "2\n");
    assert!(
        ended
            .sql("SELECT result FROM threadseal_orders")
            .contains("tampered")
    );
    ended.edit("Eve", "Ada");
    ended.verify("").exits(0);
    // Takeovers before this request do not count against it, however many there were.
    ended.sql("UPDATE threadseal_orders SET token = 100");
    // Once restored, the thread resumes; a client that waits for the first thread gets the result
    // of the last one.
    let mut worker = ended.worker("--script more.yaml");
    let resumed = ended.sh(format!("{resume} --json"));
    worker.kill().unwrap();
    worker.wait().unwrap();
    let resumed = resumed.exits(0).json();
    resumed.is(json!({"status": "completed", "result": "Gladly."}));
    ended.ok(format!("thread handoff {thread} -m 'Once more.' --detach"));
    ended.work("more.yaml");
    let waited = ended.json(format!("thread wait {thread}"));
    assert_eq!(waited["results"][thread]["result"], "Gladly.");
    let chain = ended.json(format!("thread chain {thread}"));
    chain.is(json!({"chain_length": 3, "chain/1/thread_id": resumed["thread_id"]}));
    // There is one order, whose token rose with each lease.
    assert_eq!(
        ended.sql("SELECT count(*), max(token) FROM threadseal_orders"),
        "1|102\n"
    );
    ended.verify("").exits(0);
    ended.ok("thread inspect");
}

// T-FLT-13
#[test]
fn a_thread_without_its_worker_is_ended_by_hand_but_not_during_a_lease() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(2);
    ended.ok("run demo/slow --detach");
    ended.lose_worker(1);
    let thread = ended.root().unwrap();
    let recover = format!("thread recover {thread} --json");
    let expires = |when: &str| {
        ended.sql(&format!("UPDATE threadseal_orders SET expires_at = now() + interval '{when}' WHERE state = 'taken'"));
    };
    expires("1 hour");
    ended.refuses(&recover, "held by a worker");
    expires("-1 hour");
    ended.edit("tool.demo.nap", "tool.demo.nax");
    ended.refuses(&recover, "tampered");
    ended.edit("tool.demo.nax", "tool.demo.nap");
    let recovered = ended.ok(&recover).json();
    assert_eq!(recovered["status"], "error");
    let call = format!("{thread}/1/n1#1");
    recovered.is(json!({"unresolved/0/idempotency_key": call}));
    ended.verify("").exits(0);
    assert_eq!(
        ended.sql("SELECT DISTINCT state FROM threadseal_orders"),
        "done\n"
    );
    ended.refuses(&recover, "nothing to recover");
    // The worker that resumes it is lost too. The next worker ends the successor, and repeats no
    // call.
    ended.ok(format!("thread resume {thread} -m Again. --detach"));
    ended.lose_worker(2);
    expires("-1 hour");
    ended.work("nap.yaml");
    assert_eq!(ended.naps(), 2);
    let chain = ended.json(format!("thread chain {thread}"));
    let statuses: Vec<&str> = chain["chain"].texts("status");
    assert_eq!(statuses, ["continued", "error"]);
    let waited = ended
        .exits(2, format!("thread wait {thread} --json"))
        .json();
    assert_eq!(waited["results"][&thread]["status"], "error", "{waited}");
    ended.verify("").exits(0);
    ended.ok("thread inspect");
}

// T-FLT-12
#[test]
fn a_graph_run_is_an_order_that_ends_with_its_worker_until_a_person_decides() {
    let Some(ended) = Ended::new() else { return };
    let sandbox = &ended.sandbox;
    let paths = [
        sandbox.write(
            "p/.ai/graphs/demo/naps.yaml",
            "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: one\n  nodes:\n\
             \x20   one: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: out.txt}}, next: two}\n\
             \x20   two: {action: {primary: execute, item_type: tool, item_id: demo/nap}, next: end}\n\
             \x20   end: {type: return}\n",
        ),
        sandbox.write(
            "p/.ai/tools/demo/nap.yaml",
            "tool_type: command\ncommand: [/bin/sh, -c, 'echo >>began; sleep 2']\nconfig_schema:\n  type: object\n",
        ),
    ];
    seal_all(sandbox, &paths);
    let naps = || {
        let began = fs::read_to_string(sandbox.path("p/began"));
        began.map_or(0, |began| began.lines().count())
    };
    ended.ok("graph run demo/naps --detach");
    let mut worker = ended.worker("");
    while naps() < 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    let run = ended.root().unwrap();
    let resume = format!("graph resume {run}");
    let decided = format!("{resume} --skip-unresolved --detach");
    // While the lease is valid, another worker may continue.
    ended.sql(
        "UPDATE threadseal_orders SET expires_at = now() + interval '1 hour' WHERE state = 'taken'",
    );
    ended.refuses(&decided, "is not done");
    ended.sql(
        "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour' WHERE state = 'taken'",
    );
    ended.work("answers.yaml");
    let waited = ended.exits(2, format!("thread wait {run} --json")).json();
    assert_eq!(waited["results"][&run]["status"], "error", "{waited}");
    assert_eq!(naps(), 1);
    // The outcome of the call is unknown: nothing continues until a person decides.
    ended.refuses(&resume, "--skip-unresolved");
    ended.edit("demo/naps", "demo/nap5");
    ended.refuses(&decided, "tampered");
    ended.edit("demo/nap5", "demo/naps");
    ended.ok(&decided);
    ended.work("answers.yaml");
    let waited = ended.json(format!("thread wait {run}"));
    assert_eq!(waited["results"][&run]["status"], "completed", "{waited}");
    assert_eq!(naps(), 1);
    let chain = ended.json(format!("thread chain {run}"));
    let last = chain["chain"][1]["thread_id"].text();
    let shown = ended.json(format!("graph show {last}"));
    shown.is(json!({"status": "completed", "resumed_from": run.as_str()}));
    ended.verify("").exits(0);
}
