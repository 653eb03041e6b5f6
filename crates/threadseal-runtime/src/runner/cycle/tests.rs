//! Loops with a scripted model: their records, and their ends.

use super::super::block::Block;
use super::super::hooks::{Callees, Hooks};
use super::*;
use crate::capability::Capabilities;
use crate::directive::Directive;
use crate::hook_control::Scope;
use crate::hook_declaration::Primary;
use crate::item::{ItemId, ItemKind};
use crate::journal::Origin;
use crate::model::{ScriptModel, ToolSchema};
use crate::testing::Bench;
use crate::toolbox::{Invocation, Outcome, Tool};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use threadseal_core::canon::json::parse_python;
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::{ScanOptions, VerifyOptions, verify};
use threadseal_store::clock::SystemClock;

impl Bench {
    pub(crate) fn journal(&self) -> Journal {
        let thread = ThreadId::parse("demo/say-1").unwrap();
        let folder = self.project.thread(&thread);
        std::fs::create_dir_all(folder.path()).unwrap();
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let manifest = Manifest::new(self.host.new_record().unwrap(), native, rye);
        let keys = self.keys.clone();
        Journal::begin(
            &self.host,
            &folder,
            thread,
            manifest,
            keys,
            Origin::default(),
        )
        .unwrap()
    }

    /// Runs `script` and gives how it ended, its cost, and its events after they were verified.
    fn run(
        &self,
        script: &str,
        tools: Vec<Arc<dyn Tool>>,
        limits: Limits,
    ) -> (End, Cost, Vec<Value>) {
        self.run_with(script, tools, limits, &Cancel::default())
    }

    fn run_with(
        &self,
        script: &str,
        tools: Vec<Arc<dyn Tool>>,
        limits: Limits,
        cancel: &Cancel,
    ) -> (End, Cost, Vec<Value>) {
        let mut journal = self.journal();
        let model = ScriptModel::parse("script", script).unwrap();
        let tools =
            Toolbox::new(Capabilities::parse(["rye.execute.tool.*"]).unwrap(), tools).unwrap();
        let directive = Directive::parse("say.md", DIRECTIVE).unwrap();
        let cycle = Cycle {
            thread: "demo/say-1",
            clock: &SystemClock,
            model: &model,
            max_output_tokens: 100,
            system: None,
            tools: &tools,
            returning: Returning(&directive),
            limits,
            cancel,
            recovery: &Twice,
            writer: &RecordWriter::new(),
            hook_runner: &HookRunner {
                hooks: &Hooks::default(),
                callees: &Nothing,
                scope: Scope::Thread,
                thread: "demo/say-1",
                clock: &SystemClock,
                cancel,
                facts: json!({}),
            },
            fence: None,
            unresolved: &HashSet::new(),
        };
        let mut course = Course {
            messages: vec![ChatMessage::User("Go.".to_owned())],
            cost: Cost::default(),
            carried: Cost::default(),
            own: Nanos::ZERO,
            began: SystemClock.elapsed(),
            before: Duration::ZERO,
        };
        let end = cycle.run(&mut course, &mut journal, &mut Penny).unwrap();
        journal
            .end(Ending::Completed, &course.cost, json!({}))
            .unwrap();
        (end, course.cost, self.events())
    }

    /// The events of its thread, after they were verified.
    pub(crate) fn events(&self) -> Vec<Value> {
        let path = self
            .folder
            .path()
            .join(".ai/agent/threads/demo/say-1/transcript.jsonl");
        let bytes = std::fs::read(path).unwrap();
        let options = VerifyOptions {
            trust: &self.trust,
            now: Timestamp::from_micros(1_900_000_000_000_000).unwrap(),
            held_since: None,
            thread: None,
        };
        let outcome = verify(&bytes, &ScanOptions::default(), &options);
        assert_eq!(
            outcome.report.verdict,
            Verdict::Verified,
            "{:?}",
            outcome.report.findings
        );
        let lines = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }
}

/// Hooks that call nothing.
struct Nothing;

impl Callees for Nothing {
    fn tool(&self, id: &ItemId) -> Result<Arc<dyn Tool>, String> {
        Err(id.to_string())
    }

    fn directive(&self, id: &ItemId, _: &Value) -> Result<(Arc<dyn Tool>, Value), String> {
        Err(id.to_string())
    }

    fn primary(
        &self,
        _: Primary,
        _: ItemKind,
        id: &str,
        _: &Value,
    ) -> Result<(Arc<dyn Tool>, Value), String> {
        Err(id.to_owned())
    }

    fn knowledge(&self, id: &ItemId, _: bool) -> Result<Block, String> {
        Err(id.to_string())
    }
}

/// Retries once, at once.
struct Twice;

impl Recovery for Twice {
    fn judge(&self, error: &ModelError, attempts: u32) -> Judgement {
        Judgement {
            code: format!("http_{}", error.status),
            category: "transient".to_owned(),
            retryable: true,
            retry: (attempts < 2).then_some(Duration::ZERO),
            again: (attempts < 2).then_some(Duration::ZERO),
        }
    }
}

/// A tenth of a cent for each token.
struct Penny;

impl Surroundings for Penny {
    fn charge(&mut self, _: u64, usage: &Usage) -> Result<Nanos, Error> {
        Ok(Nanos::new((usage.input_tokens + usage.output_tokens) * 1_000_000).unwrap())
    }

    fn children(&self) -> (Nanos, u64) {
        (Nanos::ZERO, 0)
    }

    fn turn_over(&mut self, _: &mut Journal, _: &Cost) -> Result<(), Error> {
        Ok(())
    }

    fn progress(&mut self, _: Progress<'_>) {}
}

/// Returns its input; counts.
struct Echo {
    schema: ToolSchema,
    calls: AtomicU32,
    cancels: Mutex<Option<Cancel>>,
}

fn echo() -> Arc<Echo> {
    Arc::new(Echo {
        schema: ToolSchema {
            name: "test_echo".to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        },
        calls: AtomicU32::new(0),
        cancels: Mutex::new(None),
    })
}

impl Tool for Echo {
    fn id(&self) -> &str {
        "test/echo"
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(cancel) = &*self.cancels.lock().unwrap() {
            cancel.set();
        }
        Outcome::ok(call.input.clone())
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect()
}

const DIRECTIVE: &str = "```xml\n<directive name=\"say\" version=\"1\"><metadata>\
    <description>d</description><category>demo</category></metadata>\
    <outputs><output name=\"answer\" required=\"true\">a</output></outputs></directive>\n```\n\nGo.\n";

const CALL_AND_END: &str = "answers:\n\
    - {text: Looking., calls: [{tool: test_echo, input: {n: 1}}, {tool: test/none}], usage: {input_tokens: 3, output_tokens: 2}}\n\
    - {text: Done., usage: {input_tokens: 4, output_tokens: 1}}\n";

#[test]
fn each_turn_is_sealed_before_the_next_is_asked() {
    let tool = echo();
    let (end, cost, events) = Bench::new().run(CALL_AND_END, vec![tool.clone()], Limits::default());
    assert!(matches!(end, End::Completed { text, outputs: None } if text == "Done."));
    assert_eq!(
        types(&events),
        [
            "thread_started",
            "checkpoint",
            "cognition_in",
            "cognition_out",
            "tool_call_start",
            "tool_call_result",
            "tool_call_start",
            "tool_call_result",
            "checkpoint",
            "cognition_in",
            "cognition_out",
            "thread_completed",
            "checkpoint",
        ]
    );
    assert_eq!(
        (cost.turns, cost.input_tokens, cost.output_tokens),
        (2, 7, 3)
    );
    assert_eq!(cost.spend.to_string(), "0.01");
    assert_eq!(tool.calls.load(Ordering::SeqCst), 1);
    assert_eq!(events[5]["payload"]["output"], "{\"n\":1}");
    assert!(
        events[7]["payload"]["error"]
            .as_str()
            .unwrap()
            .contains("no leave")
    );
    assert_eq!(events[9]["payload"]["role"], "tool");
}

#[test]
fn the_final_seal_covers_where_the_ledger_ends() {
    let bench = Bench::new();
    let (_, _, events) = bench.run(CALL_AND_END, vec![echo()], Limits::default());
    let said = &events[events.len() - 2]["payload"]["ledger"];
    let folder = bench.folder.path().join(".ai/agent/threads/demo/say-1");
    let name = format!("ledger_{}.jsonl", said["run_id"].as_str().unwrap());
    let ledger = std::fs::read_to_string(folder.join(name)).unwrap();
    let last = parse_python(ledger.lines().last().unwrap().as_bytes())
        .unwrap()
        .value;
    assert_eq!(
        last.get("record_hash").unwrap().as_str(),
        said["head"].as_str()
    );
    // Genesis, and two records for each of two answers and two calls.
    assert_eq!(
        (said["count"].as_u64(), ledger.lines().count()),
        (Some(9), 9)
    );
}

#[test]
fn a_return_ends_the_thread_with_its_outputs_and_a_wrong_one_does_not() {
    let script = "answers:\n- {calls: [{tool: directive_return, input: {}}]}\n\
                  - {calls: [{tool: directive_return, input: {answer: forty-two}}, {tool: test_echo}]}\n";
    let tool = echo();
    let (end, _, events) = Bench::new().run(script, vec![tool.clone()], Limits::default());
    let End::Completed {
        outputs: Some(outputs),
        ..
    } = end
    else {
        panic!("{end:?}");
    };
    assert_eq!(Value::Object(outputs), json!({"answer": "forty-two"}));
    assert_eq!(tool.calls.load(Ordering::SeqCst), 0);
    assert_eq!(
        types(&events)
            .iter()
            .filter(|kind| **kind == "directive_return")
            .count(),
        1
    );
}

#[test]
fn an_error_that_passes_is_asked_again_and_one_that_stays_ends_the_thread() {
    let flaky = "answers: [{error: {status: 529, message: busy}}, {text: Done.}]";
    let (end, cost, events) = Bench::new().run(flaky, Vec::new(), Limits::default());
    assert!(matches!(end, End::Completed { .. }));
    assert_eq!(cost.turns, 1);
    assert!(types(&events).contains(&"error_classified"));
    let dead =
        "answers: [{error: {status: 529, message: busy}}, {error: {status: 529, message: busy}}]";
    let (end, ..) = Bench::new().run(dead, Vec::new(), Limits::default());
    assert_eq!(end, End::Failed("http_529: busy".to_owned()));
}

// T-RUN-29
#[test]
fn a_limit_is_seen_before_a_turn_and_after_it() {
    let limit = |name: &str, value: Value| {
        let mut limits = Limits::default();
        limits.set(name, &value).unwrap();
        limits
    };
    for (limits, code, turns) in [
        (limit("turns", json!(1)), "turns_exceeded", 1),
        (limit("tokens", json!(4)), "tokens_exceeded", 1),
        (limit("spend", json!(0.004)), "spend_exceeded", 1),
        (limit("turns", json!(0)), "turns_exceeded", 0),
    ] {
        let (end, cost, _) = Bench::new().run(CALL_AND_END, vec![echo()], limits);
        let End::Suspended(pause) = end else {
            panic!("{end:?}");
        };
        let hit = pause.hit.unwrap();
        assert_eq!((hit.code, cost.turns), (code, turns));
    }
}

#[test]
fn a_cancelled_thread_runs_no_further_call_and_answers_each() {
    let script = "answers: [{calls: [{tool: test_echo}, {tool: test_echo}]}]";
    let (tool, cancel) = (echo(), Cancel::default());
    *tool.cancels.lock().unwrap() = Some(cancel.clone());
    let (end, _, events) =
        Bench::new().run_with(script, vec![tool.clone()], Limits::default(), &cancel);
    assert_eq!(end, End::Cancelled);
    assert_eq!(tool.calls.load(Ordering::SeqCst), 1);
    assert_eq!(
        types(&events)
            .iter()
            .filter(|kind| **kind == "tool_call_result")
            .count(),
        2
    );
}

// T-RUN-27
#[test]
fn what_is_too_long_to_be_recorded_is_an_error_or_cut_and_the_thread_ends_sealed() {
    let long = "x".repeat(MAX_RECORDED_TEXT_BYTES + 1);
    let script = format!("answers: [{{text: {long}}}, {{text: {long}}}]");
    let (end, ..) = Bench::new().run(&script, Vec::new(), Limits::default());
    assert!(matches!(end, End::Failed(why) if why.contains("more than")));
    let cut = Outcome::ok(format!("{long}{long}")).bounded(MAX_RECORDED_TEXT_BYTES);
    assert!(
        cut.text().len() < MAX_RECORDED_TEXT_BYTES + 100 && cut.text().ends_with("bytes in all]")
    );
    let wide = Outcome::failed("\u{1f980}".repeat(10))
        .bounded(6)
        .error
        .unwrap();
    assert!(wide.starts_with("\u{1f980}\n[cut"), "{wide}");
}

#[test]
fn an_answer_that_was_cut_off_is_not_acted_on() {
    let tool = echo();
    let script = "answers: [{truncated: true, text: x, calls: [{tool: test_echo}]}]";
    let (end, ..) = Bench::new().run(script, vec![tool.clone()], Limits::default());
    assert!(matches!(end, End::Failed(_)));
    assert_eq!(tool.calls.load(Ordering::SeqCst), 0);
}

#[test]
fn calls_without_ids_or_with_the_same_get_their_own() {
    let script = "answers: [{calls: [{tool: test_echo, id: a}, {tool: test_echo, id: a}, {tool: test_echo, id: call_1_3}, {tool: test_echo, id: ''}]}, {text: x}]";
    let (_, _, events) = Bench::new().run(script, vec![echo()], Limits::default());
    let starts = events
        .iter()
        .filter(|event| event["event_type"] == "tool_call_start");
    let ids: HashSet<&str> = starts
        .map(|event| event["payload"]["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 4);
}

/// Ends only when another call of it runs at the same time.
struct Pair(ToolSchema, Barrier);

impl Tool for Pair {
    fn id(&self) -> &str {
        "test/pair"
    }

    fn schema(&self) -> &ToolSchema {
        &self.0
    }

    fn parallel(&self, input: &Value) -> bool {
        input["alone"] != true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        if call.input["alone"] != true {
            self.1.wait();
            // The later of two calls ends first.
            let pause = call.input["pause"].as_u64().unwrap_or(0);
            std::thread::sleep(Duration::from_millis(pause));
        }
        Outcome::ok(call.input["n"].clone())
    }
}

fn pair() -> Arc<Pair> {
    let schema = ToolSchema {
        name: "test_pair".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    Arc::new(Pair(schema, Barrier::new(2)))
}

#[test]
fn calls_that_may_be_at_once_are_and_their_results_stand_in_the_order_of_the_calls() {
    let script = "answers:\n- {calls: [{tool: test_pair, input: {n: 1, pause: 200}}, {tool: test_pair, input: {n: 2}}, \
                  {tool: test_pair, input: {n: 3, alone: true}}]}\n- {text: Done.}\n";
    let (end, _, events) = Bench::new().run(script, vec![pair()], Limits::default());
    assert!(matches!(end, End::Completed { .. }));
    let told: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| {
            event["event_type"]
                .as_str()
                .unwrap()
                .starts_with("tool_call")
        })
        .map(|event| {
            let payload = &event["payload"];
            let said = payload["output"].as_str().unwrap_or_default();
            (event["event_type"].as_str().unwrap(), said)
        })
        .collect();
    let (start, result) = ("tool_call_start", "tool_call_result");
    let expected = [
        (start, ""),
        (start, ""),
        (result, "1"),
        (result, "2"),
        (start, ""),
        (result, "3"),
    ];
    assert_eq!(told, expected);
}

#[test]
#[should_panic(expected = "a bug of a tool")]
fn a_panic_in_a_call_is_not_taken_for_a_result() {
    struct Broken(ToolSchema);
    impl Tool for Broken {
        fn id(&self) -> &str {
            "test/broken"
        }
        fn schema(&self) -> &ToolSchema {
            &self.0
        }
        fn run(&self, _: &mut Invocation<'_>) -> Outcome {
            panic!("a bug of a tool")
        }
    }
    let schema = ToolSchema {
        name: "test_broken".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    let script = "answers: [{calls: [{tool: test_broken}]}]";
    Bench::new().run(script, vec![Arc::new(Broken(schema))], Limits::default());
}
