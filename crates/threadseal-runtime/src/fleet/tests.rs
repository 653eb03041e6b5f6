//! Workers that lose their lease in the middle of a call, and the next worker's handling of it.

use super::*;
use crate::bounds::ORDER_LIFETIME;
use crate::config::models::Prices;
use crate::model::{Chosen, ScriptModel};
use crate::registry::{Registry, Thread};
use crate::signed_order::SignedOrder;
use crate::testing::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::{ScanOptions, VerifyOptions, verify};
use threadseal_store::postgres::leases::Standing;
use threadseal_store::postgres::throwaway::{Cluster, database_of};
use threadseal_store::read::read_small;

const DIRECTIVE: &str = "# Job\n\n```xml\n<directive name=\"job\" version=\"1.0.0\">\n<metadata><description>d</description>\
<category>t</category><author>a</author><model tier=\"fast\"/><limits turns=\"9\" spend=\"1\" duration_seconds=\"400000\"/>\
<permissions><execute><tool>t.effect</tool><tool>t.graph</tool></execute></permissions></metadata>\n</directive>\n```\n\nThe job.\n";

const GRAPH: &str = "tool_type: graph\npermissions: [rye.execute.tool.t.effect]\nconfig:\n  start: a\n  nodes:\n    a: {type: return}\n";

const SCRIPT: &str = "{conversations: [{when: The job., answers: [\
  {text: one, calls: [{tool: t_effect, input: {n: 1}, id: a1}], usage: {input_tokens: 100, output_tokens: 10}},\
  {text: two, calls: [{tool: t_effect, input: {n: 2}, id: a2}], usage: {input_tokens: 200, output_tokens: 20}},\
  {text: done, usage: {input_tokens: 300, output_tokens: 30}}]}]}";

/// Nothing of it may come to a model.
const MARK: &str = "INJECTED";

struct Outcomes {
    scene: Scene,
    fleet: Fleet,
    tally: Tally,
    done: Vec<(String, Value)>,
    prompts: Vec<String>,
    standing: Standing,
}

/// Each read of this clock finds another minute gone; the time that a process measures passes
/// normally.
#[derive(Debug)]
struct Minutes(AtomicU64);

impl Clock for Minutes {
    fn now(&self) -> Result<Timestamp, Error> {
        let minutes = self.0.fetch_add(1, Ordering::SeqCst);
        let micros = SystemClock.now()?.as_micros() + minutes * 60_000_000;
        Timestamp::from_micros(micros)
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }
}

/// Gives one order to a worker, under which `crash` happens to the database during the first call.
fn outcomes(crash: impl Into<String>) -> Option<Outcomes> {
    outcomes_by(crash, SCRIPT, Limits::default())
}

fn outcomes_by(crash: impl Into<String>, script: &str, limits: Limits) -> Option<Outcomes> {
    let cluster = Cluster::shared()?;
    let url = cluster.fresh();
    let fleet = Fleet::open(&url).unwrap();
    let mut scene = Scene::new();
    if limits != Limits::default() {
        scene.host.clock = Arc::new(Minutes(AtomicU64::new(0)));
    }
    scene.file(".ai/graphs/t/graph.yaml", GRAPH);
    scene.file(".ai/directives/t/job.md", DIRECTIVE);
    let done = Arc::<Mutex<Vec<_>>>::default();
    let (calls, crash) = (Arc::clone(&done), crash.into());
    let database = database_of(&url).to_owned();
    let effect = stub("t/effect", move |call| {
        let mut calls = calls.lock().unwrap();
        calls.push((call.idempotency_key.to_owned(), call.input["n"].clone()));
        if calls.len() == 1 {
            drop(cluster.sql(&database, &crash));
        }
        Outcome::ok("fine")
    });
    let mut engine = scene.engine_with(script, vec![effect]);
    (engine.services.registry, engine.services.budgets) = fleet.books().unwrap();
    engine.services.models = Arc::new(Only(Chosen {
        model: Arc::new(Listener {
            script: ScriptModel::parse("script", script).unwrap(),
            asked: Arc::clone(&scene.asked),
        }),
        listed: None,
        prices: Prices {
            input: Nanos::parse("3.000001").unwrap(),
            output: Nanos::parse("15.000007").unwrap(),
            ..Prices::default()
        },
        context_window: 200_000,
        max_output_tokens: 1000,
        system_prompt: None,
    }));
    let order = Order {
        limits,
        ..order("t/job")
    };
    let order = fleet.put(&engine, &order, ORDER_LIFETIME).unwrap().order;
    let worker = Worker {
        fleet: &fleet,
        engine: &engine,
        name: "w".to_owned(),
        lease: Duration::from_secs(60),
        orders_from: vec![scene.keys.native.public_key().key_id()],
        limits: Limits::default(),
        may_seal: &|| Ok(()),
        until_idle: true,
        cancel: Cancel::default(),
    };
    let tally = worker.work(&mut |_| {}).unwrap();
    let now = Some(Duration::ZERO);
    let standing = fleet.wait(order, now, &Cancel::default(), &scene.host);
    let standing = standing.unwrap();
    let done = done.lock().unwrap().clone();
    let asked = scene.asked.lock().unwrap().clone();
    let prompt = |(_, messages): (String, Vec<ChatMessage>)| format!("{messages:?}");
    Some(Outcomes {
        scene,
        fleet,
        tally,
        done,
        prompts: asked.into_iter().map(prompt).collect(),
        standing,
    })
}

impl Outcomes {
    /// The result of the order.
    fn result(&self) -> Value {
        serde_json::from_str(self.standing.result.as_deref().unwrap()).unwrap()
    }

    fn threads(&self) -> Vec<Thread> {
        let listing = self.fleet.registry().list(&Filter::default());
        listing.unwrap().threads
    }

    /// The only thread.
    fn thread(&self) -> Thread {
        let mut threads = self.threads();
        assert_eq!(threads.len(), 1);
        threads.pop().unwrap()
    }

    /// A file of the database.
    fn read(&self, path: &Path) -> Vec<u8> {
        let (host, root) = (&self.scene.host, self.scene.project.root());
        let host = self.fleet.host(host, root, None).unwrap();
        read_small(&*host.fs, path, 1 << 20).unwrap()
    }

    /// The transcript, whether it verifies or not.
    fn unverified(&self) -> String {
        let path = self.scene.transcript(&self.thread().id);
        String::from_utf8(self.read(&path)).unwrap()
    }

    /// The transcript, which verifies with the heads that all machines share.
    fn transcript(&self) -> String {
        let text = self.unverified();
        let options = VerifyOptions {
            trust: &self.scene.trust,
            now: self.scene.host.clock.now().unwrap(),
            held_since: None,
            thread: None,
        };
        let report = verify(text.as_bytes(), &ScanOptions::default(), &options).report;
        assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
        text
    }

    /// An idempotency key without the id of the thread.
    fn short(&self, key: &str) -> String {
        key.replace(self.thread().id.as_str(), "T")
    }

    /// The keys of the calls that were made.
    fn keys(&self) -> Vec<String> {
        self.done.iter().map(|(key, _)| self.short(key)).collect()
    }

    fn unresolved(&self) -> Vec<String> {
        let events = Events::parse(self.transcript().as_bytes());
        let calls = events.of("tool_call_unresolved").into_iter();
        let key = |call: &Value| {
            // A later successor of the thread learns that the signed ledger vouches for this.
            assert_eq!(call["in_ledger"], true, "{call}");
            self.short(call["idempotency_key"].text())
        };
        calls.map(key).collect()
    }
}

const EXPIRE: &str = "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour'";

// T-FLT-06
#[test]
fn another_worker_goes_on_in_the_same_record_and_repeats_no_call() {
    let crash = format!(
        "{EXPIRE};
         WITH line AS (SELECT convert_to(E'{{\"event_type\":\"cognition_in\",\"payload\":{{\"text\":\"{MARK}\",\"role\":\"user\"}}}}\\n\
         {{\"event_type\":\"tool_call_start\",\"payload\":{{\"call_id\":\"{MARK}\",\"idempotency_key\":\"{MARK}/1/x\"}}}}\\n', 'UTF8') AS bytes),
         file AS (UPDATE threadseal_files SET size = size + length(line.bytes), version = version + 1
                  FROM line WHERE path LIKE '%transcript.jsonl' RETURNING inode, size)
         INSERT INTO threadseal_chunks SELECT inode, size - length(bytes), bytes FROM file, line"
    );
    let Some(seen) = outcomes(crash) else {
        return;
    };
    let tally = &seen.tally;
    assert_eq!((tally.left, tally.taken_over, tally.done), (1, 1, 1));
    assert_eq!(seen.standing.token, 2);
    assert_eq!(seen.result()["status"], "completed");
    // The first call was carried out, by the worker that was lost, and not again.
    assert_eq!(seen.keys(), ["T/1/a1#1", "T/2/a2#2"]);
    assert_eq!(seen.unresolved(), ["T/1/a1#1"]);
    let text = seen.transcript();
    text.has(r#""ext":{"fence":1}"#).has(r#""ext":{"fence":2}"#);
    text.has("tail_dropped").lacks(MARK);
    for prompt in &seen.prompts {
        prompt.lacks(MARK);
    }
    seen.prompts.last().unwrap().has("unresolved");
    // Four answers were paid: the first one twice.
    let thread = seen.thread();
    let (_, budgets) = seen.fleet.books().unwrap();
    let budget = budgets.get(&thread.id).unwrap().unwrap();
    assert_eq!(thread.standing().unwrap(), Status::Completed);
    assert_eq!(
        (budget.actual, budget.status.as_str()),
        (thread.spend, "completed")
    );
    let paid = 2 * (100 * 3_000_001_000 + 10 * 15_000_007_000)
        + (200 * 3_000_001_000 + 20 * 15_000_007_000)
        + (300 * 3_000_001_000 + 30 * 15_000_007_000);
    let exact = Nanos::new(paid / 1_000_000).unwrap();
    let differs = budget.actual.get().abs_diff(exact.get());
    assert!(differs <= 4, "{budget:?} {exact}");
}

// T-FLT-16
#[test]
fn the_time_that_earlier_workers_spent_counts_against_the_limit_of_a_thread_and_of_its_children() {
    let within = |seconds| Limits {
        duration_seconds: Some(seconds),
        ..Limits::default()
    };
    // By the times in its record the first worker had it for more than a minute.
    let Some(seen) = outcomes_by(EXPIRE, SCRIPT, within(50)) else {
        return;
    };
    let result = seen.result();
    assert_eq!((seen.tally.taken_over, seen.done.len()), (1, 1), "{result}");
    assert_eq!(result["status"], "limit_reached", "{result}");
    result["error"].text().has("duration_seconds_exceeded");
    // The remainder is its children's.
    let graph = "{tool: t_graph, input: {}, id: a2}";
    let script = SCRIPT.replace("{tool: t_effect, input: {n: 2}, id: a2}", graph);
    let seen = outcomes_by(EXPIRE, &script, within(360_000)).unwrap();
    let mut threads = seen.threads().into_iter();
    let graph = threads
        .find(|thread| thread.directive == "t/graph")
        .unwrap();
    let papers = seen.read(&seen.scene.project.thread(&graph.id).metadata());
    let papers: Value = serde_json::from_slice(&papers).unwrap();
    let left = papers["limits"]["duration_seconds"].as_u64().unwrap();
    assert!((1..=360_000 - 60).contains(&left), "{papers}");
}

// T-FLT-07
#[test]
fn a_call_of_which_only_the_step_ledger_knows_is_listed_and_not_repeated() {
    // The intent was lost from the transcript.
    let Some(seen) = outcomes(format!(
        "{EXPIRE};
         WITH last AS (SELECT f.inode, max(c.at) AS at FROM threadseal_files f JOIN threadseal_chunks c USING (inode)
                       WHERE f.path LIKE '%transcript.jsonl' GROUP BY f.inode),
              gone AS (DELETE FROM threadseal_chunks c USING last WHERE c.inode = last.inode AND c.at = last.at)
         UPDATE threadseal_files f SET size = last.at, version = version + 1 FROM last WHERE f.inode = last.inode",
    )) else {
        return;
    };
    assert_eq!(seen.keys(), ["T/1/a1#1", "T/2/a2#2"]);
    assert_eq!(seen.unresolved(), ["T/1/a1#1"]);
}

// T-FLT-08
#[test]
fn a_record_whose_sealed_lines_were_changed_is_not_gone_on_with() {
    let Some(seen) = outcomes(format!(
        "{EXPIRE};
         UPDATE threadseal_chunks c SET bytes = set_byte(c.bytes, octet_length(c.bytes) - 90, get_byte(c.bytes, octet_length(c.bytes) - 90) # 1) FROM threadseal_files f
         WHERE f.inode = c.inode AND f.path LIKE '%transcript.jsonl' AND c.at = 0",
    )) else {
        return;
    };
    assert_eq!((seen.prompts.len(), seen.done.len()), (1, 1));
    let result = seen.result();
    assert_eq!(result["success"], false);
    // Which of both depends on where the byte falls.
    let why = result["error"].text();
    assert!(why.contains("forged") || why.contains("tampered"), "{why}");
    assert_eq!(seen.standing.state, "done");
}

// T-PRO-01
#[test]
fn a_thread_of_another_project_that_lies_in_this_ones_database_is_not_taken_over() {
    // Its rows and files were copied from the database of another project.
    let Some(seen) = outcomes(format!(
        "{EXPIRE}; UPDATE threadseal_project SET id = repeat('a', 64)"
    )) else {
        return;
    };
    assert_eq!((seen.prompts.len(), seen.done.len()), (1, 1));
    let result = seen.result();
    assert_eq!(result["success"], false);
    result["error"].text().has("is foreign");
    assert_eq!(seen.thread().status, Ok(Status::Running));
    // Neither its tail nor its end was touched.
    let record = seen.unverified();
    record
        .has("\"tool_call_start\"")
        .lacks("tail_dropped")
        .lacks("thread_error");
}

#[test]
fn an_order_that_is_none_is_refused() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let fleet = Fleet::open(&cluster.fresh()).unwrap();
    assert_eq!(fleet.registry().of_order(1).unwrap(), []);
    let missing = fleet.wait(7, None, &Cancel::default(), &Scene::new().host);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Refused);
    for none in [
        "{}",
        "{\"directive\":\"../x\",\"limits\":{}}",
        "{\"resume\":{\"thread\":\"../x\",\"last\":\"t\",\"way\":\"resume\",\"message\":\"\"},\"after\":1}",
        "{\"resume\":{\"thread\":\"t\",\"last\":\"t\",\"way\":\"resume\",\"message\":\"\"}}",
    ] {
        assert_eq!(SignedOrder::read(none), None, "{none}");
    }
}
