//! Metrics and health of workers, and what `worker --status` prints.

use super::*;
use std::net::TcpStream;
use threadseal_testkit::in_repository;

/// A worker that serves metrics, until it is dropped.
struct Watched {
    worker: Child,
    address: String,
    log: BufReader<std::process::ChildStderr>,
}

impl Watched {
    fn start(sandbox: &Sandbox, url: &str, more: &str) -> Self {
        let mut command = sandbox.command();
        command
            .args(["worker", "--project", "p", "--metrics", "127.0.0.1:0"])
            .args(words(more))
            .env("THREADSEAL_DATABASE", url)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut worker = command.spawn().unwrap();
        let mut log = BufReader::new(worker.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_suffix("/metrics");
        let address = address.and_then(|line| line.split_once("http://"));
        let address = address.expect(&line).1.to_owned();
        Self {
            worker,
            address,
            log,
        }
    }

    /// Status and body of a page.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    fn metrics(&self) -> String {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// The value of a series.
    fn value(&self, series: &str) -> f64 {
        let text = self.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        let value = line.unwrap_or_else(|| panic!("{series}: {text}"));
        value.trim().parse().unwrap()
    }

    /// Asks until `is` holds.
    fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if is(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!(
            "never {what}: {:?} {}",
            self.get("/healthz"),
            self.metrics()
        );
    }

    /// The worker is asked to end, and ends well; what it printed.
    fn ends(mut self) -> String {
        let id = self.worker.id().to_string();
        let asked = Command::new("kill").arg(&id).status();
        assert!(asked.unwrap().success());
        assert!(self.worker.wait().unwrap().success());
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // One that ended is gone already.
        let _ = self.worker.kill();
        let _ = self.worker.wait();
    }
}

/// The names in a text that begin as metrics do.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_metric = |word: &&str| {
        [
            "threadseal_worker_",
            "threadseal_orders",
            "threadseal_threads_",
            "threadseal_database_",
        ]
        .iter()
        .any(|start| word.starts_with(start))
    };
    let words = words.filter(is_metric).map(family);
    words.map(str::to_owned).collect()
}

/// The metric of a series: a histogram has three kinds of them.
fn family(series: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    let found = ends.iter().find_map(|end| series.strip_suffix(end));
    found.unwrap_or(series)
}

#[test]
fn a_worker_shows_what_it_did_and_the_manual_names_no_other_metric() {
    let Some(ended) = Ended::new() else { return };
    let watched = Watched::start(
        &ended.sandbox,
        &ended.url,
        "--script answers.yaml --price input=3,output=15 --name w\\1",
    );
    assert_eq!(watched.get("/healthz"), (200, "well\n".to_owned()));
    assert_eq!(watched.get("/other").0, 404);
    let busy = watched.metrics();
    assert!(busy.contains(r#",worker="w\\1"} 1"#), "{busy}");
    // It found no order, and rests.
    watched.until("idle", |it| {
        it.value("threadseal_worker_polls_total") > 0.0
            && it.value("threadseal_worker_listening") == 1.0
    });
    let polls = watched.value("threadseal_worker_polls_total");
    ended.ok("run demo/greet -i name=Eve -q");
    watched.until("done", |it| {
        it.value("threadseal_worker_orders_total{end=\"done\"}") == 1.0
    });
    assert!(watched.value("threadseal_worker_turns_total") >= 2.0);
    assert!(watched.value("threadseal_worker_tokens_total{kind=\"input\"}") > 0.0);
    // Each turn of the thread and its child has a time.
    let turns = watched.value("threadseal_worker_turns_total");
    let all = "threadseal_worker_turn_seconds_bucket{le=\"+Inf\"}";
    assert_eq!(watched.value(all), turns);
    assert_eq!(watched.value("threadseal_worker_turn_seconds_count"), turns);
    let sum = watched.value("threadseal_worker_turn_seconds_sum");
    assert!(sum > 0.0 && sum < 600.0, "{sum}");
    let spent = watched.value("threadseal_worker_spend_dollars_total");
    let sum = "SELECT sum(own_nanos) / 1e9 FROM threadseal_budgets b JOIN threadseal_threads t USING (thread_id)
               WHERE t.order_id = (SELECT max(id) FROM threadseal_orders)";
    let of_order: f64 = ended.sql(sum).trim().parse().unwrap();
    assert!(
        spent > 0.0 && (spent - of_order).abs() < 1e-9,
        "{spent} {of_order}"
    );
    // The thread and its child.
    assert_eq!(
        watched.value("threadseal_worker_threads_total{status=\"completed\"}"),
        2.0
    );
    assert_eq!(watched.value("threadseal_worker_listening"), 1.0);
    assert_eq!(watched.value("threadseal_worker_busy"), 0.0);
    // One for the order, one that found none.
    let more = watched.value("threadseal_worker_polls_total") - polls;
    assert!(more <= 3.0, "{more} polls");
    let text = watched.metrics();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let name = family(name);
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let kind = match name {
            "threadseal_worker_turn_seconds" => "histogram",
            name if name.ends_with("_total") => "counter",
            _ => "gauge",
        };
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{line}");
        assert!(text.contains(&format!("# HELP {name} ")), "{line}");
    }
    let manual = fs::read_to_string(in_repository("docs/operators.md")).unwrap();
    let (_, section) = manual.split_once("## Watch workers").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (there, named) = (names(&text), names(section));
    let not_there: Vec<_> = named.difference(&there).collect();
    assert!(not_there.is_empty(), "{not_there:?}");
    let not_named: Vec<_> = there.difference(&named).collect();
    assert!(not_named.is_empty(), "{not_named:?}");
    let (_, rules) = section.split_once("```yaml").unwrap();
    for rule in rules.split("- alert:").skip(1) {
        let uses = names(rule).iter().any(|name| there.contains(name));
        assert!(uses || rule.contains("up{job="), "{rule}");
    }
    assert_eq!(watched.ends().matches("orders done").count(), 1);
}

#[test]
fn what_waits_and_who_holds_it_is_printed() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(60);
    ended.ok("run demo/slow --detach");
    let idle = ended.json("worker --status");
    idle.is(
        json!({"schema": "threadseal.worker.status/1", "orders/ready": 1, "orders/taken": 0,
                   "orders/expired": 0, "orders/set_aside": 0, "threads/orphaned": 0}),
    );
    let mut worker = ended.worker("--script nap.yaml --name nappy --lease 2");
    while ended.naps() < 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = ended.json("worker --status");
    let thread = ended.root().unwrap();
    held.is(
        json!({"orders/ready": 0, "orders/taken": 1, "held/0/worker": "nappy",
                   "held/0/thread_id": thread.as_str(), "held/0/token": 1}),
    );
    // Those of the thread that ended: a turn counts when its tools are done.
    assert!(idle["turns"].as_u64() > Some(2), "{idle}");
    assert_eq!(held["turns"], idle["turns"]);
    let shown = ended.ok("worker --status");
    shown.prints("worker nappy").prints("taken      1");
    worker.kill().unwrap();
    worker.wait().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    ended
        .json("worker --status")
        .is(json!({"orders/taken": 0, "orders/expired": 1, "held/0/lease_seconds": 0.0}));
    ended.ok("worker --status").prints("expired");
    let refused = ended.sh("worker --status --until-idle").fails();
    refused.stderr.has("cannot be used with");
}

// T-FLT-32
#[test]
fn a_worker_outlives_its_server_and_says_so() {
    let Some(mut cluster) = Cluster::start("") else {
        return;
    };
    let (sandbox, url) = (project(), cluster.fresh());
    let watched = Watched::start(&sandbox, &url, "--script answers.yaml");
    watched.until("well", |it| it.get("/healthz").0 == 200);
    cluster.crash_and_restart();
    let run = "run demo/greet -i name=Eve -q --project p";
    let mut command = sandbox.command();
    command.args(words(run)).env("THREADSEAL_DATABASE", &url);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    watched.until("done", |it| {
        it.value("threadseal_worker_orders_total{end=\"done\"}") == 1.0
    });
    watched.until("well again", |it| {
        it.get("/healthz").0 == 200 && it.value("threadseal_worker_listening") == 1.0
    });
    drop(cluster);
    watched.until("ill", |it| {
        let (status, why) = it.get("/healthz");
        status == 503 && !why.contains("postgres://")
    });
    let text = watched.metrics();
    assert!(text.contains("\nthreadseal_database_up 0\n"), "{text}");
    assert!(!text.contains("threadseal_orders{"), "{text}");
    // A worker that waits for its server is not lost: it ends when it is asked to.
    watched.ends();
}
