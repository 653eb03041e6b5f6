//! Money and tokens are hard limits, of a thread and of its tree.

use crate::budget::inspect;
use crate::config::models::Prices;
use crate::directive::ModelChoice;
use crate::model::{Answer, Model, ModelError, Request, ScriptModel};
use crate::runner::orchestrator::Records;
use crate::testing::prelude::*;
use std::fmt::Write as _;

fn usd(text: &str) -> Nanos {
    Nanos::parse(text).unwrap()
}

/// A project whose model costs 3 and 15 dollars for a million tokens.
fn priced() -> Scene {
    let mut scene = Scene::new();
    scene.prices = Prices {
        input: usd("3"),
        output: usd("15"),
        cache_read: usd("0.3"),
        cache_write: usd("3.75"),
        above: None,
    };
    scene.directive("demo/say", "", "", "Say it.");
    scene
}

fn within(limit: &str, value: &Value) -> Order {
    let mut order = order("demo/say");
    order.limits.set(limit, value).unwrap();
    order
}

fn actual(engine: &Engine, id: &ThreadId) -> Nanos {
    engine.services.budgets.get(id).unwrap().unwrap().actual
}

// T-RUN-29
#[test]
fn a_limit_that_pays_no_useful_answer_ends_a_thread_before_its_model_is_asked() {
    let scene = priced();
    let greedy = "answers: [{text: Done., usage: {input_tokens: 100, output_tokens: 72000}}]";
    let engine = scene.engine(greedy);
    for (limit, value) in [("spend", json!(0.001)), ("tokens", json!(50))] {
        let ran = engine.run(&within(limit, &value)).unwrap();
        let ran = ran.ended(Status::LimitReached);
        assert_eq!((ran.cost.spend, ran.cost.tokens()), (Nanos::ZERO, 0));
        let why = ran.error.unwrap();
        why.has(&format!("{limit}_exceeded"));
        why.has("the next answer needs");
        let events = scene.events(&ran.thread);
        assert!(!events.one("limit_escalation_requested")["needed"].is_null());
        let end = events.one("thread_suspended");
        assert_eq!(end["status"], "limit_reached");
        let result = Records::from(&engine.services).result(&ran.thread).unwrap();
        assert_eq!(result["status"], "limit_reached");
    }
    assert_eq!(scene.asked.lock().unwrap().len(), 0);
}

// T-RUN-29
#[test]
fn an_answer_is_as_long_as_the_money_pays_and_its_text_stays() {
    let scene = priced();
    let long = "word ".repeat(4000);
    let script =
        format!("answers: [{{text: {long}, usage: {{input_tokens: 100, output_tokens: 72000}}}}]");
    let engine = scene.engine(&script);
    let ran = engine.run(&within("spend", &json!(0.012))).unwrap();
    let ran = ran.ended(Status::LimitReached);
    assert!(ran.text.starts_with("word word"), "{:?}", ran.error);
    assert!(ran.cost.spend <= usd("0.012") && ran.cost.spend > Nanos::ZERO);
    assert!(
        (256..1000).contains(&ran.cost.output_tokens),
        "{:?}",
        ran.cost
    );
    assert_eq!(actual(&engine, &ran.thread), ran.cost.spend);
    assert_eq!(scene.events(&ran.thread).count("charged_beyond"), 0);
}

// T-RUN-30
#[test]
fn a_provider_that_does_not_obey_is_paid_once_and_not_asked_again() {
    let scene = priced();
    let answer =
        "{calls: [{tool: none}], obeys: false, usage: {input_tokens: 9, output_tokens: 72000}}";
    let engine = scene.engine(&format!("answers: [{answer}, {answer}]"));
    let ran = engine.run(&within("spend", &json!(0.05))).unwrap();
    let ran = ran.ended(Status::LimitReached);
    assert_eq!((ran.cost.turns, ran.cost.spend), (1, usd("1.080027")));
    assert_eq!(actual(&engine, &ran.thread), ran.cost.spend);
    let events = scene.events(&ran.thread);
    let beyond = events.one("charged_beyond");
    assert_eq!(beyond["charged"], 1.080_027);
    assert!(beyond["held"].as_f64().unwrap() <= 0.05);
    events.one("tool_call_result")["error"]
        .text()
        .has("over its limit");
}

// T-RUN-31
#[test]
fn an_answer_that_breaks_costs_all_that_was_held_and_one_that_never_began_nothing() {
    for (began, costs) in [("true", true), ("false", false)] {
        let scene = priced();
        let broken = format!("{{error: {{status: 529, message: busy, began: {began}}}}}");
        let done = "{text: Done., usage: {input_tokens: 100, output_tokens: 10}}";
        let fast =
            "retry:\n  policies: {exponential: {type: exponential, base: 0.001, max: 0.01}}\n";
        scene.file(".ai/config/agent/resilience.yaml", fast);
        let engine = scene.engine(&format!("answers: [{broken}, {done}]"));
        let ran = engine.run(&order("demo/say")).unwrap().completed();
        let answered = usd("0.00045");
        assert_eq!(ran.cost.spend > answered, costs, "{:?}", ran.cost);
        assert_eq!(actual(&engine, &ran.thread), ran.cost.spend);
    }
}

const SPAWN: &str =
    "tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child, async: true";

fn parent(scene: &Scene) {
    let spawns = "<permissions><execute><tool>rye.agent.threads.thread_directive</tool></execute></permissions>";
    scene.directive("demo/say", spawns, "", "Begin them.");
    scene.directive("demo/child", "", "", "I am a child.");
}

// T-RUN-32
#[test]
fn children_with_default_limits_get_shares_and_none_starves_the_next() {
    let scene = priced();
    parent(&scene);
    let call = format!("{{{SPAWN}}}}}");
    let said = "usage: {input_tokens: 100, output_tokens: 10}";
    let script = format!(
        "conversations:\n- when: Begin\n  answers: [{{calls: [{call}, {call}, {call}], {said}}}, {{text: Done., {said}}}]\n\
         - when: I am a child\n  answers: [{{text: Here., {said}}}]\n"
    );
    let ran = scene.engine(&script).run(&order("demo/say")).unwrap();
    let ran = ran.completed();
    assert_eq!((ran.cost.spawns, ran.cost.spend), (3, usd("0.00225")));
    let limits: Vec<f64> = scene
        .events(&ran.thread)
        .of("child_thread_started")
        .iter()
        .map(|event| {
            let child = ThreadId::parse(event["child_thread_id"].text()).unwrap();
            let papers = scene.json(scene.project.thread(&child).metadata());
            papers["limits"]["spend"].as_f64().unwrap()
        })
        .collect();
    assert!(
        limits.iter().all(|limit| *limit > 0.1 && *limit <= 0.2),
        "{limits:?}"
    );
}

// T-RUN-32
#[test]
fn a_child_that_declares_more_than_its_parent_has_left_gets_the_rest() {
    let scene = priced();
    parent(&scene);
    let call = format!("{{{SPAWN}, limit_overrides: {{spend: 0.7}}}}}}");
    let script = format!(
        "conversations:\n- when: Begin\n  answers: [{{calls: [{call}, {call}]}}, {{text: Done.}}]\n\
         - when: I am a child\n  answers: [{{delay_ms: 5000, text: Here.}}]\n"
    );
    let ran = scene.engine(&script).run(&order("demo/say")).unwrap();
    // Both have begun; while they hold all the money, their parent asks for nothing.
    assert_eq!((ran.status, ran.cost.spawns), (Status::LimitReached, 2));
    let events = scene.events(&ran.thread);
    let errors = events.of("tool_call_result").into_iter();
    assert_eq!(
        errors.filter(|result| result["error"].is_string()).count(),
        0
    );
}

/// Starts a child, resumes it, and answers at length; the child answers shortly, then at length.
struct Boss;

impl Model for Boss {
    fn name(&self) -> &str {
        "script"
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let small = "usage: {input_tokens: 100, output_tokens: 10}";
        let long = "word ".repeat(700);
        let long = format!("text: {long}, usage: {{input_tokens: 100, output_tokens: 900}}");
        let last = request.messages.last().unwrap().text();
        let answer = match request.messages[0].text().contains("the boss") {
            true if request.messages.len() == 1 => {
                let begin =
                    "tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child}";
                format!("calls: [{{{begin}}}], {small}")
            }
            true if request.messages.len() == 3 => {
                let child: Value = serde_json::from_str(last).unwrap();
                let input = json!({"operation": "resume_thread", "message": "Go on.",
                                   "thread_id": child["thread_id"]});
                format!(
                    "calls: [{{tool: rye_agent_threads_orchestrator, input: {input}}}], {small}"
                )
            }
            false if !last.contains("Go on.") => format!("text: One., {small}"),
            _ => long,
        };
        let script = ScriptModel::parse("script", &format!("answers: [{{{answer}}}]"));
        script.unwrap().ask(request, on_text)
    }
}

// T-RUN-32
#[test]
fn a_thread_that_another_resumes_is_paid_from_its_money() {
    let scene = priced();
    parent(&scene);
    let may = "<permissions><execute><tool>rye.agent.threads.*</tool></execute></permissions>";
    scene.directive("demo/boss", may, "", "Be the boss.");
    let mut engine = scene.engine(GLADLY);
    let mut chosen = engine
        .services
        .models
        .choose(&ModelChoice::default())
        .unwrap();
    chosen.model = Arc::new(Boss);
    engine.services.models = Arc::new(Only(chosen));
    let mut order = order("demo/boss");
    order.limits.spend = Some(usd("0.024"));
    let ran = engine.run(&order).unwrap();
    let ran = ran.ended(Status::LimitReached);
    // Two answers of its own, the child's, and the long one of the resumed thread. The rest pays no
    // third one; without the hold it would have paid for both.
    assert_eq!((ran.cost.spawns, ran.cost.turns), (2, 2));
    assert_eq!(ran.cost.spend, usd("0.0147"));
    assert_eq!(actual(&engine, &ran.thread), ran.cost.spend);
}

/// A source of numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Trees that a test run grows; a campaign grows more.
const TREES: u64 = 200;

/// The script of a tree of greedy threads; and what its disobedient answers may cost in all.
fn tree(seed: u64, dice: &mut Dice) -> (String, Nanos) {
    let (nodes, disobeys) = (2 + dice.below(3), dice.below(2) == 0);
    let (mut script, mut beyond) = ("conversations:\n".to_owned(), 0);
    for node in 0..nodes {
        let _ = write!(script, "- when: node {node} of tree {seed}.\n  answers:\n");
        let (answers, input) = (2 + dice.below(4), dice.below(500));
        for answer in 0..answers {
            let output = dice.below(4000);
            let obeys = !disobeys || dice.below(4) > 0;
            if !obeys {
                beyond += input * 3_000 + output * 15_000 + 1;
            }
            let calls: Vec<String> = (0..1 + dice.below(3))
                .filter(|_| node + 1 < nodes && answer + 1 < answers)
                .map(|_| {
                    let child = node + 1 + dice.below(nodes - node - 1);
                    let limits = match dice.below(3) {
                        0 => format!(", limit_overrides: {{spend: 0.0{}}}", 1 + dice.below(9)),
                        _ => String::new(),
                    };
                    let parallel = dice.below(2) == 0;
                    format!(
                        "{{tool: rye_agent_threads_thread_directive, \
                         input: {{directive_id: demo/n{child}, inputs: {{tree: \"{seed}\"}}, async: {parallel}{limits}}}}}"
                    )
                })
                .collect();
            let _ = writeln!(
                script,
                "  - {{text: \"{}\", calls: [{}], obeys: {obeys}, usage: {{input_tokens: {input}, output_tokens: {output}}}}}",
                "x".repeat(usize::try_from(output).unwrap()),
                calls.join(", ")
            );
        }
    }
    (script, Nanos::new(beyond).unwrap())
}

// T-RUN-32
#[test]
fn no_tree_of_greedy_threads_spends_more_than_its_root_may() {
    let scene = priced();
    let spawns = "<permissions><execute><tool>rye.agent.threads.thread_directive</tool></execute></permissions>";
    let input = "<inputs><input name=\"tree\" type=\"string\" required=\"true\">t</input></inputs>";
    for node in 0..4 {
        let prompt = format!("I am node {node} of tree {{input:tree}}.");
        scene.directive(&format!("demo/n{node}"), spawns, input, &prompt);
    }
    let trees = option_env!("THREADSEAL_BUDGETS");
    let trees = trees.map_or(TREES, |trees| trees.parse().unwrap());
    let (mut at_limits, mut children) = (0, 0);
    for seed in 0..trees {
        let mut dice = Dice(seed);
        let (script, beyond) = tree(seed, &mut dice);
        let engine = scene.engine(&script);
        let mut order = order("demo/n0");
        order
            .inputs
            .insert("tree".to_owned(), seed.to_string().into());
        let limit = usd("0.01").saturating_add(Nanos::new(dice.below(150_000_000)).unwrap());
        let tokens = 3_000 + dice.below(20_000);
        order.limits.spend = Some(limit);
        order.limits.tokens = Some(tokens);
        let ran = engine.run(&order).unwrap();
        let budget = engine.services.budgets.get(&ran.thread).unwrap().unwrap();
        let what = format!("seed {seed}: {ran:?} {budget:?}");
        assert!(budget.actual <= limit.saturating_add(beyond), "{what}");
        assert_eq!(budget.actual, ran.cost.spend, "{what}");
        assert!(
            beyond > Nanos::ZERO || ran.cost.tokens() <= tokens,
            "{what}"
        );
        let over = ran.cost.spend > limit || ran.cost.tokens() > tokens;
        assert!(!over || ran.status != Status::Completed, "{what}");
        at_limits += u64::from(ran.status == Status::LimitReached);
        children += ran.cost.spawns;
    }
    assert!(
        at_limits > trees / 10 && children > trees / 4,
        "{at_limits} {children}"
    );
    let found = inspect(&scene.budgets()).unwrap();
    let faults = found
        .faults
        .iter()
        .filter(|fault| fault.code != "overspent");
    assert_eq!(faults.count(), 0, "{:?}", found.faults);
}
