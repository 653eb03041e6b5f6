//! Rows of orders by an attacker who can write the table and has no key.

use super::{Ended, database_of};
use crate::prelude::*;

/// A result that no thread has.
const CLAIM: &str = r#"{"success":true,"status":"completed","thread_id":"demo/x","result":"FORGED","outputs":{"path":"FORGED"}}"#;

impl Ended {
    /// The number of an order that was queued.
    fn order(&self, line: &str) -> String {
        let ran = self.ok(format!("{line} --detach"));
        ran.stdout.trim().to_owned()
    }

    /// A worker that runs all waiting orders; its report.
    fn worked(&self, more: &str) -> Value {
        self.json(format!("worker --until-idle {more}"))
    }

    fn aside(&self, order: &str) -> String {
        self.sql(&format!(
            "SELECT state || ' ' || coalesce(aside, '-') FROM threadseal_orders WHERE id = {order}"
        ))
    }

    fn threads(&self) -> String {
        self.sql("SELECT count(*) FROM threadseal_threads")
    }

    /// A command that waits for its order.
    fn waiting(&self, line: &str) -> Child {
        let mut command = self.sandbox.command();
        command
            .args(words(line))
            .args(["--project", "p"])
            .env("THREADSEAL_DATABASE", &self.url)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The same; an attacker writes `sql` as soon as the order is there.
    fn attached(&self, line: &str, sql: &str) -> Ran {
        let mut waiting = self.waiting(line);
        let open = "SELECT count(*) FROM threadseal_orders WHERE state = 'ready'";
        while self.sql(open) != "1\n" {
            assert_eq!(waiting.try_wait().unwrap(), None, "{line}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // A writer by hand gives no notice, and would be noticed with the next poll.
        self.sql(&format!("{sql}; NOTIFY threadseal_ends"));
        Ran::of(waiting.wait_with_output().unwrap())
    }
}

#[test]
fn an_order_without_a_worker_and_an_option_without_effect_are_told_at_once() {
    let Some(ended) = Ended::new() else { return };
    let line = "run demo/greet -i name=Eve --detach";
    ended.sh(line).exits(0).warns("no worker is there");
    let mut worker = ended.worker("");
    let there =
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'threadseal worker'
                 AND datname = current_database()";
    while ended.sql(there) != "t\n" {
        std::thread::sleep(Duration::from_millis(20));
    }
    ended.sh(line).exits(0).does_not_warn("no worker");
    worker.kill().unwrap();
    worker.wait().unwrap();
    let orders = || ended.sql("SELECT count(*) FROM threadseal_orders");
    let before = orders();
    for more in ["--script answers.yaml", "--bodies inline", "--model x"] {
        ended.refuses(&format!("{line} {more}"), "has no effect on an order");
    }
    assert_eq!(orders(), before);
}

// T-FLT-22
#[test]
fn an_order_without_a_signature_is_set_aside_and_ends_no_worker() {
    let Some(ended) = Ended::new() else { return };
    ended.sql("ALTER TABLE threadseal_orders ALTER task DROP NOT NULL");
    let tasks = [
        "{\"directive\":\"demo/greet\",\"inputs\":{\"name\":\"Eve\"},\"limits\":{\"spend\":1000000}}",
        "{}",
        "no JSON",
        "",
    ];
    for task in tasks {
        ended.sql(&format!(
            "INSERT INTO threadseal_orders (task) VALUES ('{task}')"
        ));
    }
    let rows = "INSERT INTO threadseal_orders (task, token, state) VALUES";
    ended.sql(&format!("{rows} ('x', 9223372036854775807, 'ready')"));
    ended.sql(&format!("{rows} ('x', 9223372036854775806, 'ready')"));
    ended.sql(&format!("{rows} (NULL, 0, 'ready')"));
    ended.sql(&format!("{rows} (repeat('x', 1048577), 0, 'ready')"));
    ended.sql("ALTER TABLE threadseal_orders DROP CONSTRAINT threadseal_orders_state_check");
    ended.sql(&format!("{rows} ('x', 0, 'asleep')"));
    // An honest order behind all of them.
    let honest = ended.order("run demo/greet -i name=Eve");
    let ran = ended.sh("worker --until-idle --json --script answers.yaml");
    let told = ran.exits(0);
    told.json()
        .is(json!({"done": 1, "left": 0, "set_aside": 9}));
    told.stderr.has("order 2: set aside: it is not signed");
    told.stderr.has("order 6: set aside: its token cannot rise");
    told.stderr.has("order 8: set aside: it has no task");
    told.stderr.has("order 9: set aside: its task is longer");
    told.stderr.has("order 10: set aside: its state is none");
    assert_eq!(ended.threads(), "4\n");
    assert_eq!(ended.aside(&honest), "done -\n");
    ended.aside("2").has("done it is not signed");
    let left = "SELECT count(*) FROM threadseal_orders WHERE state <> 'done'";
    assert_eq!(ended.sql(left), "0\n");
    ended.refuses("thread cancel 6", "is done");
    ended.verify("").exits(0);
}

// T-FLT-22
#[test]
fn a_row_that_does_not_keep_its_holder_is_left_and_ends_no_worker() {
    let Some(ended) = Ended::new() else { return };
    ended.sql(
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN NEW.holder := convert_to(''FORGED'', ''UTF8''); RETURN NEW; END';
         CREATE TRIGGER f BEFORE UPDATE ON threadseal_orders FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION f()",
    );
    let forged = ended.order("run demo/greet -i name=Eve");
    assert_eq!(forged, "2");
    ended.order("run demo/greet -i name=Ada");
    let ran = ended.sh("worker --until-idle --json --script answers.yaml");
    let told = ran.exits(0);
    told.json()
        .is(json!({"done": 1, "left": 1, "set_aside": 0}));
    told.stderr
        .has("order 2: the row of order 2 does not keep who holds it");
}

// T-FLT-22
#[test]
fn a_row_that_cannot_be_set_aside_ends_no_worker() {
    let Some(ended) = Ended::new() else { return };
    ended.sql(
        "INSERT INTO threadseal_orders (task) VALUES ('x');
         CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN IF NEW.aside IS NOT NULL THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END';
         CREATE TRIGGER no BEFORE UPDATE ON threadseal_orders FOR EACH ROW EXECUTE FUNCTION no()",
    );
    ended.order("run demo/greet -i name=Eve");
    let tally = ended.worked("-q --script answers.yaml");
    tally.is(json!({"done": 1, "set_aside": 1}));
}

// T-FLT-31
#[test]
fn an_order_that_fails_under_all_workers_is_set_aside() {
    let Some(ended) = Ended::new() else { return };
    // Its row takes no result.
    ended.sql(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN IF NEW.state = ''done'' AND NEW.aside IS NULL THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END';
         CREATE TRIGGER no BEFORE UPDATE ON threadseal_orders FOR EACH ROW EXECUTE FUNCTION no()",
    );
    let mut waiting = ended.waiting("run demo/greet -i name=Eve --json");
    // One worker leaves it to others after three times.
    let failures = || ended.sql("SELECT sum(failures) FROM threadseal_orders WHERE failures > 0");
    for most in ["3\n", "6\n"] {
        let mut worker = ended.worker("--script answers.yaml");
        for _ in 0..3000 {
            if failures() == most {
                break;
            }
            // The pauses of an order are longer than a test may take.
            ended.sql("UPDATE threadseal_orders SET ready_at = now() WHERE state = 'ready'; NOTIFY threadseal_orders");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(failures(), most);
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    ended
        .aside("2")
        .has("done it failed 6 times, at last: ")
        .has("no (P0001)");
    // What its thread did is in the record, and is printed.
    let thread = ended
        .sql("SELECT count(*) FROM threadseal_threads WHERE order_id > 1 AND status = 'completed'");
    assert_eq!(thread, "2\n");
    assert!(waiting.wait().unwrap().success());
    ended
        .worked("")
        .is(json!({"done": 0, "left": 0, "set_aside": 0}));
}

// T-FLT-23
#[test]
fn an_order_counts_in_the_words_of_its_giver_alone_and_once() {
    let Some(ended) = Ended::new() else { return };
    let thread = ended.thread.as_str();
    // Another message, in an order that waits.
    let resumed = ended.order(&format!("thread resume {thread} -m 'Once more.'"));
    ended.sql("UPDATE threadseal_orders SET task = replace(task, 'Once more.', 'FORGED') WHERE state = 'ready'");
    ended
        .worked("-q --script more.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    ended
        .aside(&resumed)
        .has("it is not signed, or was changed");
    assert_eq!(ended.threads(), "2\n");
    // Members that are unknown, doubled or spelt otherwise.
    for (from, to) in [
        ("{\"continues\"", "{\"a\":1,\"continues\""),
        ("\"kind\":\"run\"", "\"kind\":\"graph\",\"kind\":\"run\""),
        ("\"limits\":{}", "\"limits\":{\"spend\":1000000}"),
        ("\"limits\":{}", "\"limits\": {}"),
    ] {
        let order = ended.order("run demo/greet -i name=Eve");
        ended.sql(&format!(
            "UPDATE threadseal_orders SET task = replace(task, '{from}', '{to}') WHERE id = {order}"
        ));
        ended
            .worked("-q --script answers.yaml")
            .is(json!({"done": 0, "set_aside": 1}));
        ended.aside(&order).has("it is not signed, or was changed");
    }
    // The same line in two rows, and again after it was carried out.
    let order = ended.order("run demo/greet -i name=Eve");
    let again = format!(
        "INSERT INTO threadseal_orders (task) SELECT task FROM threadseal_orders WHERE id = {order}"
    );
    ended.sql(&again);
    ended
        .worked("-q --script answers.yaml")
        .is(json!({"done": 1, "set_aside": 1}));
    ended.sql(&again);
    ended
        .worked("-q --script answers.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    assert_eq!(ended.threads(), "4\n");
    // Also where every row of its thread is gone.
    ended.sql(&format!(
        "DELETE FROM threadseal_threads WHERE order_id = {order};
         DELETE FROM threadseal_files WHERE order_id = {order};
         UPDATE threadseal_orders SET state = 'ready' WHERE id = {order}"
    ));
    ended
        .worked("-q --script answers.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    ended.aside(&order).has("was carried out before");
    assert_eq!(ended.threads(), "2\n");
    // An order to continue counts in its own row, from the end that it names.
    let resumed = ended.order(&format!("thread resume {thread} -m 'Once more.'"));
    ended.sql(&format!(
        "INSERT INTO threadseal_orders (task, token) SELECT task, 50 FROM threadseal_orders WHERE id = {resumed};
         UPDATE threadseal_orders SET state = 'done' WHERE id = {resumed}"
    ));
    ended
        .worked("-q --script more.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    let copy = ended.sql("SELECT max(id) FROM threadseal_orders");
    ended.aside(copy.trim()).has("in another row");
    ended.sql(&format!(
        "UPDATE threadseal_orders SET state = 'ready', token = 0 WHERE id = {resumed}"
    ));
    ended
        .worked("-q --script more.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    ended.aside(&resumed).has("the token of its row is lower");
    assert_eq!(ended.threads(), "2\n");
}

// T-FLT-24
#[test]
fn an_order_counts_in_time_and_in_the_database_that_it_was_given_to() {
    let Some(ended) = Ended::new() else { return };
    let late = ended.order("run demo/greet -i name=Eve --expires 0");
    ended
        .worked("-q --script answers.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    ended.aside(&late).has("it expired at");
    ended.refuses(
        "run demo/greet -i name=Eve --expires 99999999",
        "at most 30 days",
    );
    let order = ended.order("run demo/greet -i name=Eve");
    let task = ended.sql(&format!(
        "SELECT task FROM threadseal_orders WHERE id = {order}"
    ));
    let other = Ended::of(project()).unwrap();
    let put = format!(
        "INSERT INTO threadseal_orders (task) VALUES ($line${}$line$)",
        task.trim()
    );
    ended.cluster.sql(database_of(&other.url), &put);
    // The worker of another home does not know the key; that of this one finds another database.
    let told = other
        .sh("worker --until-idle --json --script answers.yaml")
        .exits(0);
    told.stderr.has("takes no orders of key");
    ended.cluster.sql(database_of(&other.url), &put);
    let line = format!(
        "worker --until-idle --json --script answers.yaml --project p --database {}",
        other.url
    );
    let told = ended.sandbox.sh(line).exits(0);
    told.stderr.has("it was given to another database");
    // A file that changed since, although it is sealed.
    let greet = ended.sandbox.path("p/.ai/directives/demo/greet.md");
    let text = fs::read_to_string(&greet).unwrap();
    fs::write(&greet, text.replace("Greet {", "Welcome {")).unwrap();
    seal_all(&ended.sandbox, &[greet]);
    ended
        .worked("-q --script answers.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    ended
        .aside(&order)
        .has("is another one than the order names");
    assert_eq!(ended.threads(), "2\n");
}

// T-FLT-25
#[test]
fn what_a_row_claims_is_no_result() {
    let Some(ended) = Ended::new() else { return };
    let thread = ended.thread.clone();
    let graph = ended.sandbox.write(
        "p/.ai/graphs/demo/empty.yaml",
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: end\n  nodes:\n    end: {type: return}\n",
    );
    seal_all(&ended.sandbox, &[graph]);
    let claim = format!(
        "UPDATE threadseal_orders SET state = 'done', result = '{CLAIM}' WHERE state = 'ready'"
    );
    for line in [
        "run demo/greet -i name=Eve".to_owned(),
        "run demo/greet -i name=Eve --json".to_owned(),
        "graph run demo/empty".to_owned(),
        format!("thread resume {thread} -m 'Once more.'"),
        format!("thread handoff {thread} --json"),
    ] {
        let ran = ended.attached(&line, &claim).exits(2);
        assert!(
            !format!("{}{}", ran.stdout, ran.stderr).contains("FORGED"),
            "{line}"
        );
        ran.stderr.has("no record shows a result of order");
    }
    let failed = claim.replace(CLAIM, "{\"error\":\"CALL 555\"}");
    let ran = ended
        .attached("run demo/greet -i name=Eve", &failed)
        .exits(2);
    assert_eq!(ran.stdout, "");
    ran.stderr.has("its row states, unverified: CALL 555");
    // The registry claims a result, and the order is ready again.
    let order = ended.order("run demo/greet -i name=Eve");
    ended.work("answers.yaml");
    ended.sql(&format!(
        "UPDATE threadseal_threads SET result = '{CLAIM}';
         UPDATE threadseal_orders SET state = 'ready', result = NULL WHERE id = {order}"
    ));
    let tally = ended.worked("-q --script more.yaml");
    tally.is(json!({"done": 1, "set_aside": 0}));
    let result = ended.sql(&format!(
        "SELECT result FROM threadseal_orders WHERE id = {order}"
    ));
    result.has("out.txt").lacks("FORGED");
    assert_eq!(ended.threads(), "4\n");
}

// T-FLT-25
#[test]
fn a_result_is_that_of_the_record_though_its_row_never_ends() {
    let Some(ended) = Ended::new() else { return };
    // An attacker keeps the row from being done.
    ended.sql(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN IF NEW.state = ''done'' THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END';
         CREATE TRIGGER no BEFORE UPDATE ON threadseal_orders FOR EACH ROW EXECUTE FUNCTION no()",
    );
    let mut worker = ended.worker("--script answers.yaml");
    let ran = ended.sh("run demo/greet -i name=Eve --json");
    worker.kill().unwrap();
    worker.wait().unwrap();
    ran.exits(0)
        .json()
        .is(json!({"status": "completed", "outputs/path": "out.txt"}));
    ended.sql("DROP TRIGGER no ON threadseal_orders");
    // A record that was changed is evidence, whatever its row claims.
    ended.sql("UPDATE threadseal_orders SET state = 'done'");
    ended.slow(60);
    let waiting = ended.waiting("run demo/slow --json");
    ended.lose_worker(1);
    ended.edit("tool.demo.nap", "tool.demo.nax");
    ended.sql(&format!(
        "UPDATE threadseal_threads SET status = 'completed', result = '{CLAIM}' WHERE directive = 'demo/slow';
         UPDATE threadseal_orders SET state = 'done', result = '{CLAIM}'; NOTIFY threadseal_ends"
    ));
    let ran = Ran::of(waiting.wait_with_output().unwrap()).exits(1);
    ran.json()
        .is(json!({"success": false, "report/verdict": "tampered", "exit": 1}));
    ran.stdout.lacks("FORGED");
    ran.stderr.has("tampered").lacks("FORGED");
}

// T-FLT-26
#[test]
fn no_limit_of_an_order_is_higher_than_that_of_directive_or_worker() {
    let Some(ended) = Ended::new() else { return };
    let limits = |order: &str| {
        let folder = ended.sql(&format!(
            "SELECT thread_id FROM threadseal_threads WHERE order_id = {order} AND parent_id IS NULL
             ORDER BY created_at DESC LIMIT 1"
        ));
        let papers = ended.sql(&format!(
            "SELECT convert_from(string_agg(bytes, '' ORDER BY at), 'UTF8') FROM threadseal_chunks c
             JOIN threadseal_files f USING (inode) WHERE f.path = '.ai/agent/threads/{}/thread.json'",
            folder.trim()
        ));
        let papers: Value = serde_json::from_str(papers.trim()).unwrap();
        papers["limits"].clone()
    };
    let high = "run demo/greet -i name=Eve --limit spend=1000000 --limit turns=5";
    let order = ended.sh(format!("{high} --detach")).exits(0);
    order
        .stderr
        .has("workers lower these limits")
        .has("spend")
        .lacks("turns");
    let order = order.stdout.trim().to_owned();
    ended.work("answers.yaml");
    limits(&order).is(json!({"spend": 0.05, "turns": 5, "tokens": 200_000}));
    let order = ended.order(high);
    ended.worked("-q --script answers.yaml --limit turns=4 --limit spend=1");
    limits(&order).is(json!({"spend": 0.05, "turns": 4}));
    // Also of a thread that continues another.
    let order = ended.order(&format!(
        "thread resume {} -m 'Once more.' --limit turns=1000",
        ended.thread
    ));
    ended.worked("-q --script more.yaml --limit tokens=1000");
    limits(&order).is(json!({"turns": 6, "tokens": 1000}));
}

// T-FLT-28
#[test]
fn a_thread_that_was_moved_under_another_order_is_neither_continued_nor_ended() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(2);
    ended.ok("run demo/slow --detach");
    ended.lose_worker(1);
    let thread = ended.root().unwrap();
    let mine = ended.order("run demo/greet -i name=Eve");
    ended.sql(&format!(
        "UPDATE threadseal_orders SET state = 'done' WHERE state = 'taken';
         UPDATE threadseal_orders SET token = 1 WHERE id = {mine};
         UPDATE threadseal_threads SET order_id = {mine} WHERE thread_id = '{thread}';
         UPDATE threadseal_files SET order_id = {mine} WHERE path LIKE '.ai/agent/threads/{thread}/%'"
    ));
    let lines = format!(
        "SELECT f.path, f.size, f.version FROM threadseal_files f WHERE path LIKE '%/{thread}/%' ORDER BY 1"
    );
    let before = ended.sql(&lines);
    let told = ended
        .sh("worker --until-idle --json --script answers.yaml")
        .exits(0);
    told.json().is(json!({"done": 1, "set_aside": 0}));
    told.stderr
        .has(&format!("{thread} is under the order by its row"));
    assert_eq!(ended.sql(&lines), before);
    let status = ended.sql(&format!(
        "SELECT status FROM threadseal_threads WHERE thread_id = '{thread}'"
    ));
    assert_eq!(status, "running\n");
}

// T-FLT-24
#[test]
fn orders_of_another_key_are_carried_out_where_the_worker_names_that_key() {
    let Some(ended) = Ended::new() else { return };
    let giver = ready();
    ended.sandbox.ok("key export self --out worker.pem");
    giver.ok("key export self --out giver.pem");
    let (theirs, ours) = (giver.path("giver.pem"), ended.sandbox.path("worker.pem"));
    giver.ok(format!("trust add {ours:?} --name worker --usage native"));
    ended
        .sandbox
        .ok(format!("trust add {theirs:?} --name giver --usage native"));
    let project = ended.sandbox.path("p");
    let place = format!("--project {project:?} --database {}", ended.url);
    let order = || {
        let ran = giver.ok(format!("run demo/greet -i name=Eve --detach {place}"));
        ran.stdout.trim().to_owned()
    };
    let refused = order();
    ended
        .worked("-q --script answers.yaml")
        .is(json!({"done": 0, "set_aside": 1}));
    ended.aside(&refused).has("takes no orders of key");
    let done = order();
    ended
        .worked(&format!(
            "-q --script answers.yaml --orders-from {theirs:?}"
        ))
        .is(json!({"done": 1, "set_aside": 0}));
    assert_eq!(ended.aside(&done), "done -\n");
    // The giver takes the result from the record that the worker sealed.
    let threads = giver.ok(format!("thread list --json {place}")).json();
    let mut rows = threads["threads"].list().iter();
    let newest = rows.find(|row| row["parent_id"].is_null()).unwrap();
    let thread = newest["thread_id"].text();
    let waited = giver.ok(format!("thread wait {thread} --json {place}"));
    assert_eq!(waited.json()["results"][thread]["status"], "completed");
    // Who is named alone is not trusted for it.
    ended.sandbox.ok("trust remove giver");
    let untrusted = order();
    ended
        .worked(&format!(
            "-q --script answers.yaml --orders-from {theirs:?}"
        ))
        .is(json!({"done": 0, "set_aside": 1}));
    ended.aside(&untrusted).has("may not give it");
}
