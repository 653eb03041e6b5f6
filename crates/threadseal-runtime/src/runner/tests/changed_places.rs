//! What a running thread leaves outside of its record is changed by another program: files, rows.

use crate::directive::ModelChoice;
use crate::model::{Chosen, Models, ScriptModel};
use crate::runner::Progress;
use crate::testing::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

const CALLS: &str = "answers:\n- {text: I call., calls: [{tool: demo_t}], \
     usage: {input_tokens: 100, output_tokens: 10}}\n\
     - {text: Done., usage: {input_tokens: 100, output_tokens: 10}}\n";

/// When another program is at work.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    Model,
    Tool,
    BetweenTurns,
}

/// Where, how, and the word of the event.
type Place = (&'static str, fn(&Stage));

const PLACES: [Place; 6] = [
    ("thread_json", |stage| {
        edit(stage.folder().join("thread.json"), "running", "suspended");
    }),
    ("registry", |stage| {
        stage.sql(
            "registry.db",
            "UPDATE threads SET status = 'completed', turns = 77",
        );
    }),
    ("registry", |stage| {
        stage.sql("registry.db", "DELETE FROM threads");
    }),
    ("budget", |stage| {
        let raised = "UPDATE threadseal_budgets SET max_nanos = 900000000000;
             UPDATE budget_ledger SET max_spend = 900.0";
        stage.sql("budget_ledger.db", raised);
    }),
    ("budget", |stage| {
        stage.sql("budget_ledger.db", "DELETE FROM budget_ledger");
    }),
    // In place: the size stays.
    ("ledger", |stage| {
        let files = fs::read_dir(stage.folder()).unwrap();
        let mut paths = files.map(|entry| entry.unwrap().path());
        let is_ledger = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "jsonl");
        let is_steps = |path: &PathBuf| path.to_string_lossy().contains("ledger_");
        let ledger = paths
            .find(|path| is_ledger(path) && is_steps(path))
            .unwrap();
        edit(ledger, "\"agent\"", "\"Agent\"");
    }),
];

/// A thread that runs, and another program beside it, which acts once.
#[derive(Clone)]
struct Stage {
    threads: PathBuf,
    heard: Arc<Heard>,
    edit: fn(&Stage),
    at: Moment,
    acted: Arc<AtomicBool>,
}

impl Stage {
    fn folder(&self) -> PathBuf {
        let entries = fs::read_dir(self.threads.join("demo")).unwrap();
        entries.map(|entry| entry.unwrap().path()).next().unwrap()
    }

    fn sql(&self, database: &str, sql: &str) {
        let database = rusqlite::Connection::open(self.threads.join(database)).unwrap();
        database.busy_timeout(Duration::from_secs(10)).unwrap();
        database
            .execute_batch(&format!("BEGIN; {sql}; COMMIT"))
            .unwrap();
    }

    /// Edits the place at this moment, once. In the middle of a turn it is announced at once.
    fn now(&self, moment: Moment) {
        if moment != self.at || self.acted.swap(true, Ordering::SeqCst) {
            return;
        }
        (self.edit)(self);
        for _ in 0..1000 {
            if moment == Moment::BetweenTurns || !self.heard.notices().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it was not announced while the thread was in {moment:?}");
    }
}

impl Watch for Stage {
    fn progress(&self, thread: &ThreadId, progress: Progress<'_>) {
        if let Progress::Asking(cost) = progress
            && cost.turns == 1
        {
            self.now(Moment::BetweenTurns);
        }
        self.heard.progress(thread, progress);
    }
}

/// Other models for the same engine.
struct Others(Chosen);

impl Models for Others {
    fn choose(&self, _: &ModelChoice) -> Result<Chosen, Error> {
        Ok(self.0.clone())
    }
}

fn priced() -> Scene {
    let mut scene = Scene::new();
    let usd = |text| Nanos::parse(text).unwrap();
    scene.prices = crate::config::models::Prices {
        input: usd("3"),
        output: usd("15"),
        ..scene.prices
    };
    let tools = "<permissions><execute><tool>demo.*</tool></execute></permissions>";
    scene.directive("demo/say", tools, "", "Say it.");
    scene.seal(".ai/knowledge/note.md", "# A note\n");
    scene
}

/// An engine for `script`, beside which another program is at work.
fn staged(scene: &Scene, script: &str, edit: fn(&Stage), at: Moment) -> (Engine, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let stage = Stage {
        threads: scene.path(".ai/agent/threads"),
        heard: Arc::clone(&heard),
        edit,
        at,
        acted: Arc::default(),
    };
    let (in_tool, in_model) = (stage.clone(), stage.clone());
    let t = tool("demo/t", move |_| {
        in_tool.now(Moment::Tool);
        Outcome::ok("done")
    });
    let mut engine = scene.engine_with(script, vec![t]);
    let choice = ModelChoice::default();
    let chosen = engine.services.models.choose(&choice).unwrap();
    engine.services.models = Arc::new(Others(Chosen {
        model: Arc::new(Acting {
            script: ScriptModel::parse("script", script).unwrap(),
            does: Box::new(move || in_model.now(Moment::Model)),
        }),
        ..chosen
    }));
    engine.services.watch = Arc::new(stage);
    (engine, heard)
}

// T-RUN-42
#[test]
fn a_change_under_a_running_thread_is_told_once_and_at_once_wherever_and_whenever() {
    for (what, edit) in PLACES {
        for at in [Moment::Model, Moment::Tool, Moment::BetweenTurns] {
            let scene = priced();
            let (engine, heard) = staged(&scene, CALLS, edit, at);
            let ran = engine.run(&order("demo/say"));
            let about = format!("{what} in {at:?}: {ran:?}");
            // No call begins once the ledger will not verify.
            let fails = what == "ledger" && at == Moment::Model;
            let status = if fails {
                Status::Error
            } else {
                Status::Completed
            };
            assert_eq!(
                ran.map(|ran| ran.status).unwrap_or(Status::Error),
                status,
                "{about}"
            );
            let id = listed(&engine)[0].id.clone();
            let events = scene.verified(&id);
            assert_eq!(events.one("changed_outside")["what"], what, "{about}");
            assert_eq!(heard.notices().len(), 1, "{about}: {:?}", heard.notices());
            let row = row(&engine, &id);
            assert_eq!(
                (row.status, row.turns),
                (Ok(status), 2 - u64::from(fails)),
                "{about}"
            );
            let budget = engine.services.budgets.get(&id).unwrap().unwrap();
            assert!(budget.max < Nanos::parse("2").ok(), "{about}: {budget:?}");
            assert!(
                budget.actual > Nanos::ZERO && budget.actual == row.spend,
                "{about}"
            );
            scene.all_verify();
            let faults = told(&engine);
            assert_eq!(faults, [], "{about}");
        }
    }
}

// T-RUN-42
#[test]
fn what_another_program_wrote_into_thread_json_is_kept() {
    let scene = priced();
    let (engine, _) = staged(&scene, CALLS, PLACES[0].1, Moment::Tool);
    let ran = engine.run(&order("demo/say")).unwrap().completed();
    let told = scene.verified(&ran.thread).one("changed_outside").clone();
    let kept = scene.folder_of(&ran.thread).join(told["kept"].text());
    let bytes = fs::read(kept).unwrap();
    String::from_utf8_lossy(&bytes).has("suspended");
    let sha256 = threadseal_core::digest::Digest::of(&bytes).to_hex();
    assert_eq!(told["found"]["sha256"], sha256);
}

// T-RUN-43
#[test]
fn a_raised_budget_pays_for_nothing_and_a_lowered_one_counts() {
    const RAISE: fn(&Stage) = PLACES[3].1;
    const LOWER: fn(&Stage) = |stage| {
        let lowered = "UPDATE threadseal_budgets SET max_nanos = 1;
             UPDATE budget_ledger SET max_spend = 0.000000001";
        stage.sql("budget_ledger.db", lowered);
    };
    let answer = "{calls: [{tool: demo_t}], usage: {input_tokens: 100, output_tokens: 300}}";
    let script = format!("answers: [{}]", [answer; 20].join(", "));
    for at in [Moment::Model, Moment::Tool, Moment::BetweenTurns] {
        for (edit, most) in [(RAISE, "0.05"), (LOWER, "0.0096")] {
            let scene = priced();
            let (engine, heard) = staged(&scene, &script, edit, at);
            let mut order = order("demo/say");
            order.limits.set("spend", &json!(0.05)).unwrap();
            let ran = engine.run(&order).unwrap().ended(Status::LimitReached);
            let most = Nanos::parse(most).unwrap();
            assert!(ran.cost.spend <= most, "{at:?}: {:?}", ran.cost);
            assert_eq!(heard.notices().len(), 1, "{at:?}: {:?}", heard.notices());
            scene.verified(&ran.thread).one("changed_outside");
        }
    }
}
