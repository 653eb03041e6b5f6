//! Loops with a scripted model: their records, and their ends.

use super::super::block::Block;
use super::super::hooks::{Callees, Hooks};
use super::*;
use crate::capability::Capabilities;
use crate::directive::Directive;
use crate::hook_control::Scope;
use crate::hook_declaration::Primary;
use crate::item::ItemKind;
use crate::model::{ScriptModel, ToolSchema};
use crate::testing::prelude::*;
use std::sync::Barrier;
use threadseal_core::canon::json::parse_python;
use threadseal_formats::transcript::Ending;

/// How a thread ended, its cost, and its verified events.
struct Looped {
    scene: Scene,
    id: ThreadId,
    end: End,
    cost: Cost,
    events: Events,
}

/// Runs a script with these tools.
fn looped(script: &str, tools: Vec<Arc<dyn Tool>>) -> Looped {
    looped_within(script, tools, Limits::default(), &Cancel::default())
}

fn looped_within(
    script: &str,
    tools: Vec<Arc<dyn Tool>>,
    limits: Limits,
    cancel: &Cancel,
) -> Looped {
    let model = ScriptModel::parse("script", script).unwrap();
    looped_with(&model, tools, limits, cancel)
}

fn looped_with(
    model: &dyn Model,
    tools: Vec<Arc<dyn Tool>>,
    limits: Limits,
    cancel: &Cancel,
) -> Looped {
    let scene = Scene::new();
    let (id, mut journal) = scene.journal();
    let tools = Toolbox::new(Capabilities::parse(["rye.execute.tool.*"]).unwrap(), tools).unwrap();
    let directive = Directive::parse("say.md", DIRECTIVE).unwrap();
    let secrets = Secrets::default();
    secrets.learn(KEY);
    let cycle = Cycle {
        thread: id.as_str(),
        clock: &SystemClock,
        model,
        max_output_tokens: 100,
        system: None,
        tools: &tools,
        returning: Returning(&directive),
        limits,
        cancel,
        recovery: match model.name() {
            "silent" => &Later,
            _ => &Twice,
        },
        writer: &RecordWriter::unwatched(),
        hook_runner: &HookRunner {
            hooks: &Hooks::default(),
            callees: &Nothing,
            scope: Scope::Thread,
            thread: id.as_str(),
            clock: &SystemClock,
            cancel,
            end: &Cancel::default(),
            secrets: &secrets,
            facts: json!({}),
        },
        fence: None,
        secrets: &secrets,
        unresolved: &HashSet::new(),
    };
    let mut course = Course {
        messages: vec![ChatMessage::User("Go.".to_owned())],
        cost: Cost::default(),
        carried: Cost::default(),
        own: Nanos::ZERO,
        began: SystemClock.elapsed(),
        before: Duration::ZERO,
        pressure: 0,
    };
    if let Some(seconds) = limits.duration_seconds {
        cancel.set_after(&scene.host.clock, Duration::from_secs(seconds));
    }
    let end = cycle.run(&mut course, &mut journal, &mut Penny).unwrap();
    journal
        .end(Ending::Completed, &course.cost, json!({}))
        .unwrap();
    let events = scene.verified(&id);
    Looped {
        scene,
        id,
        end,
        cost: course.cost,
        events,
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
    fn allow(
        &mut self,
        _: Attempt,
        request: &Request<'_>,
        _: Option<u64>,
    ) -> Result<Result<Allowed, Short>, Error> {
        Ok(Ok(Allowed {
            max_output_tokens: request.max_output_tokens,
            held: Nanos::MAX,
            clamped: None,
        }))
    }

    fn settle(&mut self, _: Attempt, _: usize, _: &Allowed, bill: Bill) -> Result<Nanos, Error> {
        Ok(match bill {
            Bill::Used(usage) => {
                Nanos::new((usage.input_tokens + usage.output_tokens) * 1_000_000).unwrap()
            }
            Bill::Held | Bill::Nothing => Nanos::ZERO,
        })
    }

    fn children(&self) -> (Nanos, u64) {
        (Nanos::ZERO, 0)
    }

    fn turn_over(&mut self, _: &mut Journal, _: &Cost) -> Result<(), Error> {
        Ok(())
    }

    fn progress(&mut self, progress: Progress<'_>) {
        if let Progress::Text(text) = progress {
            assert!(!text.contains(KEY), "{text}");
        }
    }
}

/// A secret that no record of a loop repeats.
const KEY: &str = "sk-abc/DEF+ghi=0123";

const DIRECTIVE: &str = "```xml\n<directive name=\"say\" version=\"1\"><metadata>\
    <description>d</description><category>demo</category></metadata>\
    <outputs><output name=\"answer\" required=\"true\">a</output></outputs></directive>\n```\n\nGo.\n";

const CALL_AND_END: &str = "answers:\n\
    - {text: Looking., calls: [{tool: test_echo, input: {n: 1}}, {tool: test/none}], usage: {input_tokens: 3, output_tokens: 2}}\n\
    - {text: Done., usage: {input_tokens: 4, output_tokens: 1}}\n";

#[test]
fn each_turn_is_sealed_before_the_next_is_asked() {
    let (echo, calls) = counted("test/echo");
    let looped = looped(CALL_AND_END, vec![echo]);
    assert!(matches!(looped.end, End::Completed { text, outputs: None } if text == "Done."));
    assert_eq!(
        looped.events.kinds().join(" "),
        "thread_started checkpoint cognition_in cognition_out tool_call_start tool_call_result \
         tool_call_start tool_call_result checkpoint cognition_in cognition_out thread_completed \
         checkpoint"
    );
    let cost = looped.cost;
    assert_eq!(
        (cost.turns, cost.input_tokens, cost.output_tokens),
        (2, 7, 3)
    );
    assert_eq!(cost.spend.to_string(), "0.01");
    assert_eq!(calls.get(), 1);
    let results = looped.events.of("tool_call_result");
    assert_eq!(results[0]["output"], "{\"n\":1}");
    results[1]["error"].text().has("no leave");
    assert_eq!(looped.events.of("cognition_in")[1]["role"], "tool");
}

#[test]
fn the_final_seal_covers_where_the_ledger_ends() {
    let looped = looped(CALL_AND_END, vec![ok("test/echo")]);
    let end = &looped.events.one("thread_completed")["ledger"];
    let path = looped.scene.ledger(&looped.id);
    let name = format!("ledger_{}.jsonl", end["run_id"].text());
    assert!(path.ends_with(name), "{path:?}");
    let ledger = looped.scene.text(path);
    let last = parse_python(ledger.lines().last().unwrap().as_bytes())
        .unwrap()
        .value;
    assert_eq!(
        last.get("record_hash").unwrap().as_str(),
        end["head"].as_str()
    );
    // Genesis, and two records for each of two answers and two calls.
    assert_eq!(
        (end["count"].as_u64(), ledger.lines().count()),
        (Some(9), 9)
    );
}

#[test]
fn a_return_ends_the_thread_with_its_outputs_and_a_wrong_one_does_not() {
    let script = "answers:\n- {calls: [{tool: directive_return, input: {}}]}\n\
                  - {calls: [{tool: directive_return, input: {answer: forty-two}}, {tool: test_echo}]}\n";
    let (echo, calls) = counted("test/echo");
    let looped = looped(script, vec![echo]);
    let End::Completed { outputs, .. } = looped.end else {
        panic!("{:?}", looped.end);
    };
    assert_eq!(
        Value::Object(outputs.unwrap()),
        json!({"answer": "forty-two"})
    );
    assert_eq!(calls.get(), 0);
    looped.events.one("directive_return");
}

#[test]
fn an_error_that_passes_is_asked_again_and_one_that_stays_ends_the_thread() {
    let busy = "{error: {status: 529, message: busy}}";
    let flaky = looped(&format!("answers: [{busy}, {{text: Done.}}]"), Vec::new());
    assert!(matches!(flaky.end, End::Completed { .. }));
    assert_eq!(flaky.cost.turns, 1);
    assert_ne!(flaky.events.count("error_classified"), 0);
    let dead = looped(&format!("answers: [{busy}, {busy}]"), Vec::new());
    assert_eq!(dead.end, End::Failed("http_529: busy".to_owned()));
}

// T-RUN-29
#[test]
fn a_limit_is_seen_before_a_turn_and_after_it() {
    for (limit, value, turns) in [
        ("turns", json!(1), 1),
        ("tokens", json!(4), 1),
        ("spend", json!(0.004), 1),
        ("turns", json!(0), 0),
    ] {
        let mut limits = Limits::default();
        limits.set(limit, &value).unwrap();
        let looped = looped_within(
            CALL_AND_END,
            vec![ok("test/echo")],
            limits,
            &Cancel::default(),
        );
        let End::LimitReached(reached) = looped.end else {
            panic!("{limit} {value}: {:?}", looped.end);
        };
        assert_eq!(reached.hit.code, format!("{limit}_exceeded"));
        assert_eq!(looped.cost.turns, turns, "{limit} {value}");
    }
}

// T-RUN-29
#[test]
fn an_answer_over_a_limit_neither_completes_the_thread_nor_has_its_calls_run() {
    for (script, text, calls) in [
        (
            "{text: Done., obeys: false, usage: {output_tokens: 54000}}",
            "Done.",
            0,
        ),
        (
            "{text: Now., calls: [{tool: test_echo}, {tool: directive_return, input: {answer: a}}], \
             usage: {output_tokens: 51}}",
            "Now.",
            2,
        ),
    ] {
        let (echo, ran) = counted("test/echo");
        let mut limits = Limits::default();
        limits.set("tokens", &json!(50)).unwrap();
        let script = format!("answers: [{script}]");
        let looped = looped_within(&script, vec![echo], limits, &Cancel::default());
        let End::LimitReached(reached) = looped.end else {
            panic!("{:?}", looped.end);
        };
        assert_eq!(
            (reached.hit.code, &*reached.text),
            ("tokens_exceeded", text)
        );
        assert_eq!((reached.outputs, ran.get()), (None, 0));
        assert_eq!(looped.events.count("directive_return"), 0);
        let results = looped.events.of("tool_call_result");
        assert_eq!(results.len(), calls);
        for result in results {
            result["error"].text().has("over its limit");
        }
    }
}

/// Answers only when it is stopped, or with an error at once.
struct Silent {
    fails: bool,
}

impl Model for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn ask(&self, request: &Request<'_>, _: &mut dyn FnMut(&str)) -> Result<Answer, ModelError> {
        let stopped = self.fails || request.cancel.within(Duration::from_secs(600));
        assert!(stopped, "the time of the thread was over long before");
        Err(ModelError {
            message: "no answer".to_owned(),
            ..ModelError::default()
        })
    }
}

/// Waits a long time before another attempt.
struct Later;

impl Recovery for Later {
    fn judge(&self, error: &ModelError, attempts: u32) -> Judgement {
        Judgement {
            retry: Some(Duration::from_secs(600)),
            ..Twice.judge(error, attempts)
        }
    }
}

// T-TOL-38
#[test]
fn neither_a_model_nor_a_wait_for_it_takes_longer_than_the_thread_may() {
    for fails in [false, true] {
        let mut limits = Limits::default();
        limits.set("duration_seconds", &json!(1)).unwrap();
        let cancel = Cancel::default();
        let looped = looped_with(&Silent { fails }, Vec::new(), limits, &cancel);
        let End::LimitReached(reached) = looped.end else {
            panic!("{:?}", looped.end);
        };
        assert_eq!(reached.hit.code, "duration_seconds_exceeded");
        assert!(looped.cost.elapsed >= Duration::from_secs(1));
    }
}

#[test]
fn a_cancelled_thread_runs_no_further_call_and_answers_each() {
    let script = "answers: [{calls: [{tool: test_echo}, {tool: test_echo}]}]";
    let (calls, cancel) = (Count::default(), Cancel::default());
    let (counted, stop) = (calls.clone(), cancel.clone());
    let echo = tool("test/echo", move |input| {
        counted.add();
        stop.set();
        Outcome::ok(input.clone())
    });
    let looped = looped_within(script, vec![echo], Limits::default(), &cancel);
    assert_eq!((looped.end, calls.get()), (End::Cancelled, 1));
    assert_eq!(looped.events.count("tool_call_result"), 2);
}

// T-RUN-27
#[test]
fn what_is_too_long_to_be_recorded_is_an_error_or_cut_and_the_thread_ends_sealed() {
    let long = "x".repeat(MAX_RECORDED_TEXT_BYTES + 1);
    let script =
        format!("answers: [{{text: {long}, obeys: false}}, {{text: {long}, obeys: false}}]");
    let end = looped(&script, Vec::new()).end;
    assert!(matches!(end, End::Failed(why) if why.contains("more than")));
    let cut = Outcome::ok(format!("{long}{long}"))
        .bounded(MAX_RECORDED_TEXT_BYTES)
        .text();
    assert!(cut.len() < MAX_RECORDED_TEXT_BYTES + 100 && cut.ends_with("bytes in all]"));
    let wide = Outcome::failed("\u{1f980}".repeat(10))
        .bounded(6)
        .error
        .unwrap();
    assert!(wide.starts_with("\u{1f980}\n[cut"), "{wide}");
}

// T-TOL-35
#[test]
fn a_secret_that_a_model_or_a_tool_returns_is_neither_recorded_nor_used() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let leak = tool("test/leak", move |input| {
        log.lock().unwrap().push(input.clone());
        match input["fail"] == true {
            true => Outcome::failed(format!("no {KEY}")),
            false => Outcome::ok(json!({"env": format!("KEY={KEY}"), KEY: 1})),
        }
    });
    let script = format!(
        "answers:\n- {{error: {{status: 401, type: t, message: \"bad key {KEY}\"}}}}\n\
         - {{text: \"You sent {KEY}.\", calls: [{{tool: test_leak, id: \"{KEY}\", input: {{a: \"{KEY}\"}}}}, \
         {{tool: test_leak, input: {{fail: true}}}}]}}\n- {{text: Done.}}\n"
    );
    let looped = looped(&script, vec![leak]);
    assert!(matches!(looped.end, End::Completed { .. }));
    assert_eq!(seen.lock().unwrap()[0], json!({"a": "[secret]"}));
    let noted: Vec<String> = looped
        .events
        .of("secrets_replaced")
        .into_iter()
        .map(|event| format!("{} {}", event["where"].text(), event["count"]))
        .collect();
    assert_eq!(noted, ["error 1", "model 3", "tool 2", "tool 1"]);
    let record = looped.scene.text(looped.scene.transcript(&looped.id));
    let ledger = looped.scene.text(looped.scene.ledger(&looped.id));
    for text in [record, ledger] {
        text.lacks(KEY).lacks(&KEY.replace('/', "\\/"));
    }
    looped.events.of("cognition_out")[0]["text"]
        .text()
        .has("You sent [secret].");
}

#[test]
fn an_answer_that_was_cut_off_is_not_acted_on() {
    let (echo, calls) = counted("test/echo");
    let script = "answers: [{truncated: true, text: x, calls: [{tool: test_echo}]}]";
    let looped = looped(script, vec![echo]);
    assert!(matches!(looped.end, End::Failed(_)));
    assert_eq!(calls.get(), 0);
}

#[test]
fn calls_without_ids_or_with_the_same_get_their_own() {
    let script = "answers: [{calls: [{tool: test_echo, id: a}, {tool: test_echo, id: a}, {tool: test_echo, id: call_1_3}, {tool: test_echo, id: ''}]}, {text: x}]";
    let looped = looped(script, vec![ok("test/echo")]);
    let starts = looped.events.of("tool_call_start").into_iter();
    let ids: HashSet<&str> = starts.map(|start| start["call_id"].text()).collect();
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

#[test]
fn calls_that_may_be_at_once_are_and_their_results_stand_in_the_order_of_the_calls() {
    let script = "answers:\n- {calls: [{tool: test_pair, input: {n: 1, pause: 200}}, {tool: test_pair, input: {n: 2}}, \
                  {tool: test_pair, input: {n: 3, alone: true}}]}\n- {text: Done.}\n";
    let schema = ok("test/pair").schema().clone();
    let looped = looped(script, vec![Arc::new(Pair(schema, Barrier::new(2)))]);
    assert!(matches!(looped.end, End::Completed { .. }));
    let calls = looped.events.iter().filter_map(|event| {
        let kind = event["event_type"].text().strip_prefix("tool_call_")?;
        Some(format!(
            "{kind} {}",
            event["payload"]["output"].as_str().unwrap_or_default()
        ))
    });
    let calls: Vec<String> = calls.collect();
    assert_eq!(
        calls.join(", "),
        "start , start , result 1, result 2, start , result 3"
    );
}

#[test]
#[should_panic(expected = "a bug of a tool")]
fn a_panic_in_a_call_is_not_taken_for_a_result() {
    let broken = tool("test/broken", |_| panic!("a bug of a tool"));
    looped("answers: [{calls: [{tool: test_broken}]}]", vec![broken]);
}
