//! Hooks over a journal: their order, their records, the effect of their decisions.

use super::*;
use crate::testing::prelude::*;
use threadseal_formats::transcript::Ending;

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

fn hook(id: &str, event: &str, item: &str, params: &str) -> String {
    format!(
        "- id: {id}\n  event: {event}\n  action: {{primary: execute, item_type: tool, item_id: {item}, params: {{{params}}}}}\n"
    )
}

fn control(id: &str, event: &str, action: &str) -> String {
    hook(id, event, CONTROL, &format!("action: {action}"))
}

fn call(params: &str) -> String {
    hook("a", "after_step", "demo/echo", params)
}

/// Hooks of the directive alone.
fn own(yaml: &str) -> Hooks {
    Hooks::new(&config::Hooks::default(), &list(yaml), Scope::Thread)
}

/// The result of one event, the events of the record, and the record as the tool found it at each
/// call.
struct Fire {
    fired: Fired,
    events: Events,
    seen: Vec<String>,
}

impl Fire {
    fn decision(&self) -> Option<Control> {
        self.fired
            .decision
            .as_ref()
            .map(|decision| decision.control)
    }

    fn failures(&self) -> usize {
        self.events.count("hook_failed")
    }

    fn kinds(&self) -> Vec<&str> {
        let kinds = self.events.kinds().into_iter();
        kinds.filter(|kind| kind.starts_with("hook_")).collect()
    }
}

const KEY: &str = "sk-abc/DEF+ghi=0123";

fn known() -> Secrets {
    let secrets = Secrets::default();
    secrets.learn(KEY);
    secrets
}

// T-TOL-35
#[test]
fn a_secret_that_a_hooks_call_returns_is_not_recorded() {
    let hooks = own(&hook(
        "a",
        "after_step",
        "demo/echo",
        &format!("leak: \"x {KEY}\""),
    ));
    let fire = fire(&hooks, "after_step", &json!({}));
    let result = fire.events.one("hook_call_result");
    result["output"].text().has("x [secret]").lacks(KEY);
    assert_eq!(fire.events.one("secrets_replaced")["where"], "hook");
}

/// Asks `hooks` at an event of a thread, whose tool returns its input.
fn fire(hooks: &Hooks, event: &str, more: &Value) -> Fire {
    let scene = Scene::new();
    let (id, mut journal) = scene.journal();
    let (transcript, seen) = (scene.transcript(&id), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&seen);
    let echo = tool("demo/echo", move |input| {
        log.lock()
            .unwrap()
            .push(fs::read_to_string(&transcript).unwrap());
        match input["fail"].as_str() {
            Some(why) => Outcome::failed(why),
            None => Outcome::ok(input.clone()),
        }
    });
    let hook_runner = HookRunner {
        hooks,
        callees: &One(echo),
        scope: Scope::Thread,
        thread: id.as_str(),
        clock: &SystemClock,
        cancel: &Cancel::default(),
        end: &Cancel::default(),
        secrets: &known(),
        facts: json!({"thread_id": id.as_str(), "inputs": {"name": "Ada"}}),
    };
    let mut record = ThreadHookRecord {
        journal: &mut journal,
        writer: &RecordWriter::unwatched(),
    };
    let fired = hook_runner.fire(event, more, &mut record).unwrap();
    journal
        .end(Ending::Completed, &Cost::default(), json!({}))
        .unwrap();
    let seen = seen.lock().unwrap().clone();
    Fire {
        fired,
        events: scene.verified(&id),
        seen,
    }
}

#[test]
fn lower_layers_are_asked_first_and_the_first_decision_counts() {
    let mut config = config::Hooks {
        builtin: list(&control("builtin", "after_step", "abort")),
        infra: list(&hook("infra", "after_step", "demo/echo", "n: infra")),
        ..config::Hooks::default()
    };
    config.own = list(&control("project", "after_step", "fail"));
    let mut user = list(&hook("user", "after_step", "demo/echo", "n: user"));
    user[0].layer = Some(0);
    config.own.extend(user);
    let directive = list(&control("directive", "after_step", "suspend"));
    let hooks = Hooks::new(&config, &directive, Scope::Thread);
    let fire = fire(&hooks, "after_step", &json!({}));
    assert_eq!(fire.decision(), Some(Control::Suspend));
    assert_eq!(fire.fired.decision.as_ref().unwrap().hook, "directive");
    // The user's before it, the infrastructure's always, the program's and the project's not at
    // all.
    let called = fire.events.of("hook_call_start").into_iter();
    let called: Vec<&str> = called.map(|call| call["hook"].text()).collect();
    assert_eq!(called, ["user", "infra"]);
    fire.events.one("hook_decided");
}

// T-TOL-29
#[test]
fn a_call_is_durable_before_it_runs_and_is_not_taken_for_the_models() {
    let hooks = own(&call("to: '${inputs.name}', cost: '${cost.turns}'"));
    let fire = fire(&hooks, "after_step", &json!({"cost": {"turns": 3}}));
    assert_eq!(fire.kinds(), ["hook_call_start", "hook_call_result"]);
    fire.seen[0]
        .has("hook_call_start")
        .lacks("hook_call_result");
    let start = fire.events.one("hook_call_start");
    assert_eq!(start["idempotency_key"], "demo/say-1/hook/1");
    assert_eq!(start["input"], json!({"to": "Ada", "cost": 3}));
    let result = fire.events.one("hook_call_result");
    assert_eq!(result["call_id"], start["call_id"]);
    // The step ledger has both after its genesis, and the final seal covers it.
    assert_eq!(fire.events.one("thread_completed")["ledger"]["count"], 3);
    assert_eq!(fire.events.count("tool_call_start"), 0);
}

#[test]
fn a_hook_asks_only_when_its_condition_holds_and_later_actions_see_the_result() {
    let hooks = own("
- id: a
  event: after_step
  condition: {path: cost.turns, op: gte, value: 2}
  actions:
    - {primary: execute, item_type: tool, item_id: demo/echo, params: {action: suspend, message: enough}}
    - {primary: execute, item_type: tool, item_id: rye/agent/threads/internal/control, params: {action: '${result.action}', message: '${result.message}'}}
");
    let not_yet = fire(&hooks, "after_step", &json!({"cost": {"turns": 1}}));
    assert!(not_yet.decision().is_none() && not_yet.kinds().is_empty());
    let fire = fire(&hooks, "after_step", &json!({"cost": {"turns": 2}}));
    assert_eq!(fire.decision(), Some(Control::Suspend));
    assert_eq!(fire.fired.decision.unwrap().said("-"), "enough");
}

// T-TOL-30
#[test]
fn a_hook_that_fails_is_recorded_and_a_broken_guard_lets_nothing_pass() {
    // A call that fails, a tool without permission, an invalid id: each is recorded, and the thread
    // continues. The same of hooks that were to decide; without hooks the default at an error or a
    // limit is an end, too.
    let broken = "condition: {path: inputs.name, op: gt, value: 3}\n  action:";
    let guard = |event: &str| {
        control("guard", event, "fail").replace("action: {pri", &format!("{broken} {{pri"))
    };
    let step = "after_step";
    for (hook, event, expected) in [
        (call("fail: broken"), step, None),
        (call("").replace("demo/echo", "demo/other"), step, None),
        (
            call("").replace("demo/echo", "'x/${inputs.none}'"),
            step,
            None,
        ),
        (call("").replace("action:", broken), step, None),
        (
            guard("thread_started"),
            "thread_started",
            Some(Control::Fail),
        ),
        (
            guard("directive_return"),
            "directive_return",
            Some(Control::Fail),
        ),
        (guard(step), step, Some(Control::Suspend)),
        (guard("error"), "error", None),
        (guard("limit"), "limit", None),
    ] {
        let fire = fire(&own(&hook), event, &json!({}));
        assert_eq!((fire.decision(), fire.failures()), (expected, 1), "{hook}");
    }
}

#[test]
fn what_a_value_wants_decided_is_held_against_the_table() {
    let hooks = own(&control("a", "limit", "'${inputs.what}'"));
    for (what, fits) in [
        ("continue", false),
        ("retry", false),
        ("nonsense", false),
        ("abort", true),
    ] {
        let fire = fire(&hooks, "limit", &json!({"inputs": {"what": what}}));
        assert_eq!(fire.decision().is_some(), fits, "{what}");
        assert_eq!(fire.failures() == 0, fits, "{what}");
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
        assert_eq!((fire.decision(), fire.failures()), (None, 1), "{event}");
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
        let params = format!("event_type: {kind}, payload: {{text: Obey., role: user}}");
        let hooks = own(&hook("a", "after_step", EMITTER, &params));
        let fire = fire(&hooks, "after_step", &json!({}));
        assert_eq!(fire.kinds(), ["hook_event"]);
        let own = fire.events.of(kind);
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
    assert_eq!(refused.failures(), 1);
}

// T-TOL-34
#[test]
fn what_hooks_of_the_end_call_is_stopped_when_their_time_is_over() {
    use crate::runner::cycle::End;
    use crate::runner::lifecycle_hooks::close;
    let scene = Scene::new();
    let (id, mut journal) = scene.journal();
    // It works until it is stopped.
    let endless = stub("demo/echo", |call| {
        match call.cancel.within(Duration::from_secs(600)) {
            true => Outcome::unknown("stopped"),
            false => Outcome::ok("done"),
        }
    });
    let ending = Cancel::default();
    ending.set_after(&scene.host.clock, Duration::from_millis(20));
    let hook_runner = HookRunner {
        hooks: &own(&hook("tell", "after_complete", "demo/echo", "n: 1")),
        callees: &One(endless),
        scope: Scope::Thread,
        thread: id.as_str(),
        clock: &SystemClock,
        cancel: &Cancel::default(),
        end: &ending,
        secrets: &known(),
        facts: json!({}),
    };
    let mut record = ThreadHookRecord {
        journal: &mut journal,
        writer: &RecordWriter::unwatched(),
    };
    let end = End::Failed("why".to_owned());
    close(&end, &Cost::default(), &hook_runner, &mut record).unwrap();
    assert!(!hook_runner.cancel.is_set());
    journal
        .end(Ending::Completed, &Cost::default(), json!({}))
        .unwrap();
    let events = scene.verified(&id);
    // Its effect is unknown, and the record states so, as for any call.
    let result = events.one("hook_call_result");
    assert_eq!(
        (&result["error"], &result["unknown"]),
        (&json!("stopped"), &json!(true))
    );
    events.one("hook_failed");
}
