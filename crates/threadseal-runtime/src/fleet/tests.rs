//! Workers that lose their lease in the middle of a call, and the next worker's handling of it.

use super::*;
use crate::config::Config;
use crate::config::models::Prices;
use crate::directive::ModelChoice;
use crate::item::{Finder, Grounds, ItemId, ItemPolicy};
use crate::limit::Limits;
use crate::model::{Answer, Chosen, Model, ModelError, Models, Request, ScriptModel, ToolSchema};
use crate::money::Nanos;
use crate::registry::Thread;
use crate::runner::Services;
use crate::runner::{Progress, Watch};
use crate::status::Status;
use crate::testing::Bench;
use crate::toolbox::{Invocation, Outcome, Tool};
use serde_json::{Map, Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::{ScanOptions, VerifyOptions, verify};
use threadseal_store::clock::{Clock, SystemClock};
use threadseal_store::postgres::throwaway::{Cluster, database_of};
use threadseal_store::read::read_small;

const DIRECTIVE: &str = "# Job\n\n```xml\n<directive name=\"job\" version=\"1.0.0\">\n<metadata><description>d</description>\
<category>t</category><author>a</author><model tier=\"fast\"/><limits turns=\"9\" spend=\"1\"/>\
<permissions><execute><tool>t.effect</tool><tool>t.graph</tool></execute></permissions></metadata>\n</directive>\n```\n\nThe job.\n";

const GRAPH: &str = "tool_type: graph\npermissions: [rye.execute.tool.t.effect]\nconfig:\n  start: a\n  nodes:\n    a: {type: return}\n";

const SCRIPT: &str = "{conversations: [{when: The job., answers: [\
  {text: one, calls: [{tool: t_effect, input: {n: 1}, id: a1}], usage: {input_tokens: 100, output_tokens: 10}},\
  {text: two, calls: [{tool: t_effect, input: {n: 2}, id: a2}], usage: {input_tokens: 200, output_tokens: 20}},\
  {text: done, usage: {input_tokens: 300, output_tokens: 30}}]}]}";

/// Nothing of it may come to a model.
const MARK: &str = "INJECTED";

/// Loses the lease while it runs, at its first call.
struct Effect {
    schema: ToolSchema,
    done: Arc<Mutex<Vec<(String, Value)>>>,
    crash: Box<dyn Fn() + Send + Sync>,
}

impl Tool for Effect {
    fn id(&self) -> &str {
        "t/effect"
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let mut done = self.done.lock().unwrap();
        done.push((call.idempotency_key.to_owned(), call.input["n"].clone()));
        if done.len() == 1 {
            (self.crash)();
        }
        Outcome::ok("fine")
    }
}

/// A script that keeps the requests that it receives.
struct Heard {
    script: ScriptModel,
    prompts: Arc<Mutex<Vec<String>>>,
}

impl Model for Heard {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let said: Vec<String> = request.messages.iter().map(|m| format!("{m:?}")).collect();
        self.prompts.lock().unwrap().push(said.join("\n"));
        self.script.ask(request, on_text)
    }
}

struct One(Arc<dyn Model>);

impl Models for One {
    fn choose(&self, _: &ModelChoice) -> Result<Chosen, Error> {
        Ok(Chosen {
            model: Arc::clone(&self.0),
            prices: Prices {
                input: Nanos::parse("3.000001").unwrap(),
                output: Nanos::parse("15.000007").unwrap(),
                ..Prices::default()
            },
            context_window: 200_000,
            max_output_tokens: 1000,
            system_prompt: None,
        })
    }
}

struct Nobody;

impl Watch for Nobody {
    fn progress(&self, _: &ThreadId, _: Progress<'_>) {}
}

struct Outcomes {
    bench: Bench,
    fleet: Fleet,
    tally: Tally,
    done: Vec<(String, Value)>,
    prompts: Vec<String>,
    standing: Standing,
}

/// Gives one order to a worker, under which `crash` happens to the database during the first call.
fn outcomes(cluster: &'static Cluster, crash: &'static str) -> Outcomes {
    outcomes_by(cluster, crash, SCRIPT, Limits::default())
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

fn outcomes_by(
    cluster: &'static Cluster,
    crash: &'static str,
    script: &str,
    limits: Limits,
) -> Outcomes {
    let url = cluster.fresh();
    let fleet = Fleet::open(&url).unwrap();
    let mut bench = Bench::new();
    if limits != Limits::default() {
        bench.host.clock = Arc::new(Minutes(AtomicU64::new(0)));
    }
    bench.file(".ai/graphs/t/graph.yaml", GRAPH);
    let folder = bench.folder.path().join(".ai/directives/t");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("job.md"), DIRECTIVE).unwrap();
    let (done, prompts) = (
        Arc::<Mutex<Vec<_>>>::default(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let database = database_of(&url).to_owned();
    let effect = Effect {
        schema: ToolSchema {
            name: "t_effect".to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        },
        done: Arc::clone(&done),
        crash: Box::new(move || drop(cluster.sql(&database, crash))),
    };
    let model = Heard {
        script: ScriptModel::parse("script", script).unwrap(),
        prompts: Arc::clone(&prompts),
    };
    let (registry, budgets) = fleet.books().unwrap();
    let finder = Finder::new(
        Arc::clone(&bench.host.fs),
        vec![bench.project.root().to_owned()],
    );
    let policy = ItemPolicy::AllowUnsigned;
    let grounds = Grounds {
        trust: &bench.trust,
        now: bench.host.clock.now().unwrap(),
        heads: &*bench.host.heads,
        policy,
    };
    let config = Config::load(&finder, &grounds).unwrap();
    let engine = Engine::new(Services {
        project: Arc::new(bench.project.clone()),
        host: bench.host.clone(),
        keys: bench.keys.clone(),
        trust: Arc::new(bench.trust.clone()),
        log: threadseal_verify::home_log::HomeLog::Never,
        config: Arc::new(config),
        finder,
        policy,
        registry,
        budgets,
        models: Arc::new(One(Arc::new(model))),
        tools: vec![Arc::new(effect)],
        environment: Arc::default(),
        watch: Arc::new(Nobody),
    });
    let order = fleet
        .put(&Order {
            directive: ItemId::parse("t/job").unwrap(),
            inputs: Map::new(),
            limits,
            cancel: Cancel::default(),
        })
        .unwrap();
    let worker = Worker {
        fleet: &fleet,
        engine: &engine,
        name: "w".to_owned(),
        lease: Duration::from_secs(60),
        may_seal: &|| Ok(()),
        until_idle: true,
        cancel: Cancel::default(),
    };
    let tally = worker.work(&mut |_| {}).unwrap();
    let standing = fleet
        .wait(order, Some(Duration::ZERO), &Cancel::default(), &bench.host)
        .unwrap();
    let (done, prompts) = (
        done.lock().unwrap().clone(),
        prompts.lock().unwrap().clone(),
    );
    Outcomes {
        bench,
        fleet,
        tally,
        done,
        prompts,
        standing,
    }
}

impl Outcomes {
    fn thread(&self) -> Thread {
        let listing = self
            .fleet
            .registry()
            .list(&crate::registry::Filter::default());
        let mut threads = listing.unwrap().threads;
        assert_eq!(threads.len(), 1);
        threads.pop().unwrap()
    }

    /// The transcript, which verifies with the heads that all machines share.
    fn transcript(&self) -> String {
        let host = self
            .fleet
            .host(&self.bench.host, self.bench.project.root(), None)
            .unwrap();
        let path = self.bench.project.thread(&self.thread().id).transcript();
        let bytes = read_small(&*host.fs, &path, 1 << 20).unwrap();
        let options = VerifyOptions {
            trust: &self.bench.trust,
            now: host.clock.now().unwrap(),
            held_since: None,
            thread: None,
        };
        let report = verify(&bytes, &ScanOptions::default(), &options).report;
        assert_eq!(report.verdict, Verdict::Verified, "{:?}", report.findings);
        String::from_utf8(bytes).unwrap()
    }

    fn keys(&self) -> Vec<String> {
        let id = self.thread().id;
        self.done
            .iter()
            .map(|(key, _)| key.replace(id.as_str(), "T"))
            .collect()
    }

    fn unresolved(&self) -> Vec<String> {
        let lines = self.transcript();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let listed = lines.filter(|event| event["event_type"] == "tool_call_unresolved");
        let keys = listed.map(|event| {
            // A later successor of the thread learns that the signed ledger vouches for this.
            assert_eq!(event["payload"]["in_ledger"], true, "{event}");
            event["payload"]["idempotency_key"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        let id = self.thread().id;
        keys.map(|key| key.replace(id.as_str(), "T")).collect()
    }
}

const EXPIRE: &str = "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour'";

// T-FLT-06
#[test]
fn another_worker_goes_on_in_the_same_record_and_repeats_no_call() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let crash: &'static str = Box::leak(
        format!(
            "{EXPIRE};
             WITH line AS (SELECT convert_to(E'{{\"event_type\":\"cognition_in\",\"payload\":{{\"text\":\"{MARK}\",\"role\":\"user\"}}}}\\n\
             {{\"event_type\":\"tool_call_start\",\"payload\":{{\"call_id\":\"{MARK}\",\"idempotency_key\":\"{MARK}/1/x\"}}}}\\n', 'UTF8') AS bytes),
             file AS (UPDATE threadseal_files SET size = size + length(line.bytes), version = version + 1
                      FROM line WHERE path LIKE '%transcript.jsonl' RETURNING inode, size)
             INSERT INTO threadseal_chunks SELECT inode, size - length(bytes), bytes FROM file, line"
        )
        .into_boxed_str(),
    );
    let seen = outcomes(cluster, crash);
    assert_eq!(
        (seen.tally.left, seen.tally.taken_over, seen.tally.done),
        (1, 1, 1)
    );
    assert_eq!(seen.standing.token, 2);
    let result: Value = serde_json::from_str(seen.standing.result.as_deref().unwrap()).unwrap();
    assert_eq!(result["status"], "completed");
    // The first call was carried out, by the worker that was lost, and not again.
    assert_eq!(seen.keys(), ["T/1/a1#1", "T/2/a2#2"]);
    assert_eq!(seen.unresolved(), ["T/1/a1#1"]);
    let text = seen.transcript();
    assert!(text.contains(r#""ext":{"fence":1}"#) && text.contains(r#""ext":{"fence":2}"#));
    assert!(text.contains("tail_dropped") && !text.contains(MARK));
    assert!(
        seen.prompts.iter().all(|prompt| !prompt.contains(MARK)),
        "{:?}",
        seen.prompts
    );
    let told = seen.prompts.last().unwrap();
    assert!(told.contains("unresolved"), "{told}");
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
    assert!(
        budget.actual.get().abs_diff(exact.get()) <= 4,
        "{budget:?} {exact}"
    );
}

// T-FLT-16
#[test]
fn the_time_that_earlier_workers_spent_counts_against_the_limit_of_a_thread_and_of_its_children() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let within = |seconds| Limits {
        duration_seconds: Some(seconds),
        ..Limits::default()
    };
    // By the times in its record the first worker had it for more than a minute.
    let seen = outcomes_by(cluster, EXPIRE, SCRIPT, within(50));
    let result: Value = serde_json::from_str(seen.standing.result.as_deref().unwrap()).unwrap();
    let tally = (seen.tally.taken_over, seen.done.len());
    assert_eq!(tally, (1, 1), "{result}");
    assert_eq!(result["status"], "suspended", "{result}");
    let why = result["error"].as_str().unwrap();
    assert!(why.contains("duration_seconds_exceeded"), "{why}");
    // The remainder is its children's.
    let script = SCRIPT.replace(
        "{tool: t_effect, input: {n: 2}, id: a2}",
        "{tool: t_graph, input: {}, id: a2}",
    );
    let seen = outcomes_by(cluster, EXPIRE, &script, within(360_000));
    let listing = seen
        .fleet
        .registry()
        .list(&crate::registry::Filter::default());
    let threads = listing.unwrap().threads;
    let graph = threads
        .iter()
        .find(|thread| thread.directive == "t/graph")
        .unwrap();
    let host = seen
        .fleet
        .host(&seen.bench.host, seen.bench.project.root(), None)
        .unwrap();
    let papers = seen.bench.project.thread(&graph.id).metadata();
    let papers: Value =
        serde_json::from_slice(&read_small(&*host.fs, &papers, 1 << 20).unwrap()).unwrap();
    let left = papers["limits"]["duration_seconds"].as_u64().unwrap();
    assert!((1..=360_000 - 60).contains(&left), "{papers}");
}

// T-FLT-07
#[test]
fn a_call_of_which_only_the_step_ledger_knows_is_listed_and_not_repeated() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    // The intent was lost from the transcript.
    let seen = outcomes(
        cluster,
        "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour';
         WITH last AS (SELECT f.inode, max(c.at) AS at FROM threadseal_files f JOIN threadseal_chunks c USING (inode)
                       WHERE f.path LIKE '%transcript.jsonl' GROUP BY f.inode),
              gone AS (DELETE FROM threadseal_chunks c USING last WHERE c.inode = last.inode AND c.at = last.at)
         UPDATE threadseal_files f SET size = last.at, version = version + 1 FROM last WHERE f.inode = last.inode",
    );
    assert_eq!(seen.keys(), ["T/1/a1#1", "T/2/a2#2"]);
    assert_eq!(seen.unresolved(), ["T/1/a1#1"]);
}

// T-FLT-08
#[test]
fn a_record_whose_sealed_lines_were_changed_is_not_gone_on_with() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let seen = outcomes(
        cluster,
        "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour';
         UPDATE threadseal_chunks c SET bytes = set_byte(c.bytes, octet_length(c.bytes) - 90, get_byte(c.bytes, octet_length(c.bytes) - 90) # 1) FROM threadseal_files f
         WHERE f.inode = c.inode AND f.path LIKE '%transcript.jsonl' AND c.at = 0",
    );
    assert_eq!((seen.prompts.len(), seen.done.len()), (1, 1));
    let result: Value = serde_json::from_str(seen.standing.result.as_deref().unwrap()).unwrap();
    assert_eq!(result["success"], false);
    // Which of both depends on where the byte falls.
    let why = result["error"].as_str().unwrap();
    assert!(why.contains("forged") || why.contains("tampered"), "{why}");
    assert_eq!(seen.standing.state, "done");
}

// T-PRO-01
#[test]
fn a_thread_of_another_project_that_lies_in_this_ones_database_is_not_taken_over() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    // Its rows and files were copied from the database of another project.
    let seen = outcomes(
        cluster,
        "UPDATE threadseal_orders SET expires_at = now() - interval '1 hour';
         UPDATE threadseal_project SET id = repeat('a', 64)",
    );
    assert_eq!((seen.prompts.len(), seen.done.len()), (1, 1));
    let result: Value = serde_json::from_str(seen.standing.result.as_deref().unwrap()).unwrap();
    assert_eq!(result["success"], false);
    let why = result["error"].as_str().unwrap();
    assert!(why.contains("is foreign"), "{why}");
    let thread = seen.thread();
    assert_eq!(thread.status, Ok(Status::Running));
    let (host, root) = (&seen.bench.host, seen.bench.project.root());
    let host = seen.fleet.host(host, root, None).unwrap();
    let path = seen.bench.project.thread(&thread.id).transcript();
    let record = read_small(&*host.fs, &path, 1 << 20).unwrap();
    let record = String::from_utf8(record).unwrap();
    // Neither its tail nor its end was touched.
    assert!(record.contains("\"tool_call_start\""), "{record}");
    assert!(!record.contains("tail_dropped") && !record.contains("thread_error"));
}

#[test]
fn an_order_that_is_none_is_refused() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let fleet = Fleet::open(&cluster.fresh()).unwrap();
    assert_eq!(fleet.registry().of_order(1).unwrap(), []);
    let missing = fleet.wait(7, None, &Cancel::default(), &Bench::new().host);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Refused);
    for none in [
        "{}",
        "{\"directive\":\"../x\",\"limits\":{}}",
        "{\"resume\":{\"thread\":\"../x\",\"last\":\"t\",\"way\":\"resume\",\"message\":\"\"},\"after\":1}",
        "{\"resume\":{\"thread\":\"t\",\"last\":\"t\",\"way\":\"resume\",\"message\":\"\"}}",
    ] {
        assert!(Task::parse(none, &Cancel::default()).is_err(), "{none}");
    }
}
