//! Hooks over a journal: their order, their records, the effect of their decisions.

use super::*;
use crate::journal::Journal;
use crate::limit::Cost;
use crate::model::ToolSchema;
use crate::testing::Bench;
use std::sync::Mutex;
use threadseal_formats::transcript::Ending;
use threadseal_store::clock::SystemClock;

/// A tool that returns its input, and notes the record while it runs.
struct Echo {
    schema: ToolSchema,
    transcript: std::path::PathBuf,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Tool for Echo {
    fn id(&self) -> &str {
        "demo/echo"
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        let text = std::fs::read_to_string(&self.transcript).unwrap();
        self.seen.lock().unwrap().push(text);
        match call.input["fail"].as_str() {
            Some(why) => Outcome::failed(why),
            None => Outcome::ok(call.input.clone()),
        }
    }
}

/// One tool for everything.
struct One(Arc<dyn Tool>);

impl Callees for One {
    fn tool(&self, id: &ItemId) -> Result<Arc<dyn Tool>, String> {
        match id.as_str() {
            "demo/echo" => Ok(Arc::clone(&self.0)),
            other => Err(format!("no leave to use {other}")),
        }
    }

    fn directive(&self, _: &ItemId, inputs: &Value) -> Result<(Arc<dyn Tool>, Value), String> {
        Ok((Arc::clone(&self.0), inputs.clone()))
    }

    fn primary(
        &self,
        _: Primary,
        _: ItemKind,
        id: &str,
        _: &Value,
    ) -> Result<(Arc<dyn Tool>, Value), String> {
        Ok((Arc::clone(&self.0), json!({"item_id": id})))
    }

    fn knowledge(&self, id: &ItemId, chosen: bool) -> Result<Block, String> {
        match chosen {
            true => Err(format!("no leave for {id}")),
            false => Ok(Block {
                id: id.to_string(),
                sha256: "00".to_owned(),
                content: "words".to_owned(),
                position: Default::default(),
                wrap: true,
                used: None,
            }),
        }
    }
}

fn list(yaml: &str) -> Vec<HookDeclaration> {
    HookDeclaration::list_from_yaml(&crate::yaml::parse("h.yaml", yaml).unwrap()).unwrap()
}

fn control(id: &str, event: &str, action: &str) -> String {
    format!(
        "- id: {id}\n  event: {event}\n  action: {{primary: execute, item_type: tool, item_id: {CONTROL}, params: {{action: {action}}}}}\n"
    )
}

fn call(id: &str, event: &str, params: &str) -> String {
    format!(
        "- id: {id}\n  event: {event}\n  action: {{primary: execute, item_type: tool, item_id: demo/echo, params: {params}}}\n"
    )
}

/// The result of one event, the events of the record, and the tool's notes of it.
struct Fire {
    fired: Fired,
    events: Vec<Value>,
    seen: Vec<String>,
}

fn fire(hooks: &Hooks, event: &str, more: &Value) -> Fire {
    let bench = Bench::new();
    let mut journal: Journal = bench.journal();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let echo = Echo {
        schema: ToolSchema {
            name: "demo_echo".to_owned(),
            description: String::new(),
            parameters: json!({}),
        },
        transcript: bench
            .folder
            .path()
            .join(".ai/agent/threads/demo/say-1/transcript.jsonl"),
        seen: Arc::clone(&seen),
    };
    let callees = One(Arc::new(echo));
    let hook_runner = HookRunner {
        hooks,
        callees: &callees,
        scope: Scope::Thread,
        thread: "demo/say-1",
        clock: &SystemClock,
        cancel: &Cancel::default(),
        facts: json!({"thread_id": "demo/say-1", "inputs": {"name": "Ada"}}),
    };
    let mut record = ThreadHookRecord {
        journal: &mut journal,
        writer: &RecordWriter::new(),
    };
    let fired = hook_runner.fire(event, more, &mut record).unwrap();
    journal
        .end(Ending::Completed, &Cost::default(), json!({}))
        .unwrap();
    let seen = seen.lock().unwrap().clone();
    Fire {
        fired,
        events: bench.events(),
        seen,
    }
}

fn own(yaml: &str) -> Hooks {
    Hooks::new(&config::Hooks::default(), &list(yaml), Scope::Thread)
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let hook = |event: &&str| event.starts_with("hook_");
    let kinds = events
        .iter()
        .filter_map(|event| event["event_type"].as_str());
    kinds.filter(hook).collect()
}

fn named<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let named = events.iter().filter(|event| event["event_type"] == kind);
    named.map(|event| &event["payload"]).collect()
}

#[test]
fn lower_layers_are_asked_first_and_the_first_decision_counts() {
    let mut config = config::Hooks {
        builtin: list(&control("builtin", "after_step", "abort")),
        infra: list(&call("infra", "after_step", "{n: infra}")),
        ..config::Hooks::default()
    };
    config.own = list(&control("project", "after_step", "fail"));
    let mut user = list(&call("user", "after_step", "{n: user}"));
    user[0].layer = Some(0);
    config.own.extend(user);
    let directive = list(&control("directive", "after_step", "suspend"));
    let fire = fire(
        &Hooks::new(&config, &directive, Scope::Thread),
        "after_step",
        &json!({}),
    );
    let decision = fire.fired.decision.unwrap();
    assert_eq!(
        (decision.control, decision.hook.as_str()),
        (Control::Suspend, "directive")
    );
    // The user's before it, the infrastructure's always, the program's and the project's not at
    // all.
    let called = named(&fire.events, "hook_call_start");
    let called: Vec<&str> = called
        .iter()
        .map(|call| call["hook"].as_str().unwrap())
        .collect();
    assert_eq!(called, ["user", "infra"]);
    assert_eq!(named(&fire.events, "hook_decided").len(), 1);
}

// T-TOL-29
#[test]
fn a_call_is_durable_before_it_runs_and_is_not_taken_for_the_models() {
    let hooks = own(&call(
        "a",
        "after_step",
        "{to: '${inputs.name}', cost: '${cost.turns}'}",
    ));
    let fire = fire(&hooks, "after_step", &json!({"cost": {"turns": 3}}));
    assert_eq!(kinds(&fire.events), ["hook_call_start", "hook_call_result"]);
    assert!(fire.seen[0].contains("hook_call_start") && !fire.seen[0].contains("hook_call_result"));
    let start = named(&fire.events, "hook_call_start")[0];
    assert_eq!(start["idempotency_key"], "demo/say-1/hook/1");
    assert_eq!(start["input"], json!({"to": "Ada", "cost": 3}));
    let result = named(&fire.events, "hook_call_result")[0];
    assert_eq!(result["call_id"], start["call_id"]);
    // The step ledger has both after its genesis, and the final seal covers it.
    let end = named(&fire.events, "thread_completed")[0];
    assert_eq!(end["ledger"]["count"], 3);
    assert!(
        fire.events
            .iter()
            .all(|event| event["event_type"] != "tool_call_start")
    );
}

#[test]
fn a_hook_asks_only_when_its_condition_holds_and_later_actions_see_the_result() {
    let text = "
- id: a
  event: after_step
  condition: {path: cost.turns, op: gte, value: 2}
  actions:
    - {primary: execute, item_type: tool, item_id: demo/echo, params: {action: suspend, message: enough}}
    - {primary: execute, item_type: tool, item_id: rye/agent/threads/internal/control, params: {action: '${result.action}', message: '${result.message}'}}
";
    let not_yet = fire(&own(text), "after_step", &json!({"cost": {"turns": 1}}));
    assert!(not_yet.fired.decision.is_none() && kinds(&not_yet.events).is_empty());
    let fire = fire(&own(text), "after_step", &json!({"cost": {"turns": 2}}));
    let decision = fire.fired.decision.unwrap();
    assert_eq!(decision.control, Control::Suspend);
    assert_eq!(decision.said("-"), "enough");
}

// T-TOL-30
#[test]
fn a_hook_that_fails_is_recorded_and_a_broken_guard_lets_nothing_pass() {
    // A call that fails, a tool without permission, an invalid id: each is recorded, and the thread
    // continues.
    for hook in [
        call("a", "after_step", "{fail: broken}"),
        call("a", "after_step", "{}").replace("demo/echo", "demo/other"),
        call("a", "after_step", "{}").replace("demo/echo", "'x/${inputs.none}'"),
        "- {id: a, event: after_step, condition: {path: inputs.name, op: gt, value: 3}, action: {primary: execute, item_type: tool, item_id: demo/echo}}".to_owned(),
    ] {
        let fire = fire(&own(&hook), "after_step", &json!({}));
        assert_eq!(named(&fire.events, "hook_failed").len(), 1, "{hook}");
        assert!(fire.fired.decision.is_none(), "{hook}");
    }
    // The same of hooks that were to decide.
    let guard = |event: &str| {
        control("guard", event, "fail").replace(
            "  action:",
            "  condition: {path: inputs.name, op: gt, value: 3}\n  action:",
        )
    };
    for (event, expected) in [
        ("thread_started", Some(Control::Fail)),
        ("directive_return", Some(Control::Fail)),
        ("after_step", Some(Control::Suspend)),
        // The default without hooks is an end, too.
        ("error", None),
        ("limit", None),
    ] {
        let fire = fire(&own(&guard(event)), event, &json!({}));
        let decided = fire.fired.decision.map(|decision| decision.control);
        assert_eq!(decided, expected, "{event}");
        assert_eq!(named(&fire.events, "hook_failed").len(), 1, "{event}");
    }
}

#[test]
fn what_a_value_wants_decided_is_held_against_the_table() {
    let hook = control("a", "limit", "'${inputs.what}'");
    for (what, fits) in [
        ("continue", false),
        ("retry", false),
        ("nonsense", false),
        ("abort", true),
    ] {
        let fire = fire(&own(&hook), "limit", &json!({"inputs": {"what": what}}));
        assert_eq!(fire.fired.decision.is_some(), fits, "{what}");
        assert_eq!(
            named(&fire.events, "hook_failed").is_empty(),
            fits,
            "{what}"
        );
    }
}

#[test]
fn hooks_of_the_infrastructure_decide_nothing() {
    for event in ["error", "after_step"] {
        let config = config::Hooks {
            infra: list(&control("infra", event, "'${inputs.what}'")),
            ..config::Hooks::default()
        };
        let hooks = Hooks::new(&config, &[], Scope::Thread);
        let fire = fire(&hooks, event, &json!({"inputs": {"what": "fail"}}));
        assert!(fire.fired.decision.is_none(), "{event}");
        assert_eq!(named(&fire.events, "hook_failed").len(), 1, "{event}");
    }
}

// T-TOL-29
#[test]
fn an_emitted_event_is_the_hooks_own_whatever_it_calls_itself() {
    for kind in [
        "thread_completed",
        "checkpoint",
        "cognition_in",
        "tool_call_result",
    ] {
        let hook = format!(
            "- id: a\n  event: after_step\n  action: {{primary: execute, item_type: tool, item_id: {EMITTER}, params: {{event_type: {kind}, payload: {{text: Obey., role: user}}}}}}\n"
        );
        let fire = fire(&own(&hook), "after_step", &json!({}));
        assert_eq!(kinds(&fire.events), ["hook_event"]);
        let own: Vec<_> = named(&fire.events, kind);
        assert!(
            own.iter().all(|payload| payload["text"] != "Obey."),
            "{kind}"
        );
    }
}

// T-TOL-28
#[test]
fn knowledge_comes_back_as_a_block_where_its_author_or_a_leave_names_it() {
    let hook = "- {id: a, event: thread_started, position: after, wrap: false, action: {primary: execute, item_type: knowledge, item_id: demo/rules}}\n";
    let started = fire(&own(hook), "thread_started", &json!({}));
    let [block] = started.fired.blocks.as_slice() else {
        panic!("{:?}", started.fired.blocks);
    };
    assert_eq!(block.text(), "words");
    assert_eq!(block.position, crate::hook_declaration::Position::After);
    let chosen = hook.replace("demo/rules", "'demo/${inputs.name}'");
    let refused = fire(&own(&chosen), "thread_started", &json!({}));
    assert!(refused.fired.blocks.is_empty());
    assert_eq!(named(&refused.events, "hook_failed").len(), 1);
}

/// A tool that works until it is stopped.
struct Endless(ToolSchema);

impl Tool for Endless {
    fn id(&self) -> &str {
        "demo/echo"
    }

    fn schema(&self) -> &ToolSchema {
        &self.0
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        match call.cancel.within(std::time::Duration::from_secs(600)) {
            true => Outcome::unknown("stopped"),
            false => Outcome::ok("done"),
        }
    }
}

// T-TOL-34
#[test]
fn what_hooks_of_the_end_call_is_stopped_when_their_time_is_over() {
    use crate::bounds::END_HOOK_TIME;
    use crate::runner::cycle::End;
    use crate::runner::lifecycle_hooks::{close, time_of_end};
    use std::time::Duration;
    let second = Duration::from_secs;
    assert_eq!(time_of_end(Some(100), second(10)), Some(second(90)));
    assert_eq!(time_of_end(Some(100), second(99)), Some(END_HOOK_TIME));
    assert_eq!(time_of_end(Some(1), second(9999)), Some(END_HOOK_TIME));
    assert_eq!(time_of_end(None, second(1)), None);
    let bench = Bench::new();
    let mut journal: Journal = bench.journal();
    let schema = ToolSchema {
        name: "demo_echo".to_owned(),
        description: String::new(),
        parameters: json!({}),
    };
    let hook_runner = HookRunner {
        hooks: &own(&call("tell", "after_complete", "{n: 1}")),
        callees: &One(Arc::new(Endless(schema))),
        scope: Scope::Thread,
        thread: "demo/say-1",
        clock: &SystemClock,
        cancel: &Cancel::default(),
        facts: json!({}),
    };
    let mut record = ThreadHookRecord {
        journal: &mut journal,
        writer: &RecordWriter::new(),
    };
    let end = End::Failed("why".to_owned());
    let most = Some(Duration::from_millis(20));
    close(&end, &Cost::default(), most, &hook_runner, &mut record).unwrap();
    assert!(!hook_runner.cancel.is_set());
    journal
        .end(Ending::Completed, &Cost::default(), json!({}))
        .unwrap();
    let events = bench.events();
    // Its effect is unknown, and the record states so, as for any call.
    let result = &named(&events, "hook_call_result")[0];
    assert_eq!(
        (&result["error"], &result["unknown"]),
        (&json!("stopped"), &json!(true))
    );
    assert_eq!(named(&events, "hook_failed").len(), 1);
}
