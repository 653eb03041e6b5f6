//! Each key of the settings has an effect: what happens without it, and with it.
//!
//! The keys are those of the tables of `spec/declarations.md` §7. The test fails for one that has no
//! row here, and prints all rows into `docs/settings.md`.

use super::handoffs::reads;
use super::lenient_tails::forge;
use super::shown_effects::{Page, compare, spans, specified};
use crate::config::Config;
use crate::config::models::Prices;
use crate::directive::ModelChoice;
use crate::model::{
    Answer, Catalogue, Chosen, Model, ModelError, Models, Request, ScriptModel, Wish,
};
use crate::runner::cycle::Recovery as _;
use crate::runner::orphans::Found;
use crate::runner::recovery::Configured;
use crate::testing::prelude::*;
use std::collections::BTreeSet;
use threadseal_core::error::Error;

/// A key, settings without and with it, and what can be seen then.
struct Row {
    file: &'static str,
    key: &'static str,
    without: &'static str,
    with: &'static str,
    seen: fn(&mut Scene) -> String,
}

const fn row(
    file: &'static str,
    key: &'static str,
    without: &'static str,
    with: &'static str,
    seen: fn(&mut Scene) -> String,
) -> Row {
    Row {
        file,
        key,
        without,
        with,
        seen,
    }
}

const COORDINATION: &str = "coordination";
const RESILIENCE: &str = "resilience";
const ERRORS: &str = "error_classification";
const RISK: &str = "capability_risk";
const CONDITIONS: &str = "hook_conditions";
const HOOKS: &str = "hooks";
const AGENT: &str = "agent";
const MODELS: &str = "models";

/// What a hook calls: it reads the notes.
const CALLS: &str = "- {id: own, event: after_step, action: {primary: execute, item_type: tool, item_id: rye/file-system/read, params: {path: notes.txt}}}";

static COORDINATION_ROWS: [Row; 15] = [
    row(
        COORDINATION,
        "trigger_threshold",
        "resume_ceiling_tokens: 400",
        "resume_ceiling_tokens: 400\ntrigger_threshold: 0.3",
        threads_of_a_chain,
    ),
    row(
        COORDINATION,
        "resume_ceiling_tokens",
        "",
        "resume_ceiling_tokens: 100",
        messages_that_are_handed_over,
    ),
    row(
        COORDINATION,
        "context_window",
        "",
        "context_window: 9000",
        the_small_model,
    ),
    row(
        COORDINATION,
        "transcript_integrity",
        "",
        "transcript_integrity: lenient",
        a_resume_with_a_tail,
    ),
    row(
        COORDINATION,
        "transcript_bodies",
        "",
        "transcript_bodies: detached",
        files_of_a_thread,
    ),
    row(
        COORDINATION,
        "wait_threads.default_timeout",
        "",
        "wait_threads: {default_timeout: 7}",
        waits,
    ),
    row(
        COORDINATION,
        "wait_threads.max_timeout",
        "",
        "wait_threads: {max_timeout: 60}",
        waits,
    ),
    row(
        COORDINATION,
        "summary_directive",
        "",
        "summary_directive: demo/sum",
        a_summary,
    ),
    row(
        COORDINATION,
        "summary_model",
        "summary_directive: demo/sum",
        "summary_directive: demo/sum\nsummary_model: fast",
        a_summary,
    ),
    row(
        COORDINATION,
        "summary_limit_overrides",
        "summary_directive: demo/sum",
        "summary_directive: demo/sum\nsummary_limit_overrides: {turns: 3}",
        a_summary,
    ),
    row(
        COORDINATION,
        "summary_max_tokens",
        "summary_directive: demo/sum",
        "summary_directive: demo/sum\nsummary_max_tokens: 9",
        a_summary,
    ),
    row(
        COORDINATION,
        "orphan_detection.enabled",
        "",
        "orphan_detection: {enabled: false}",
        orphans,
    ),
    row(
        COORDINATION,
        "orphan_detection.scan_on_startup",
        "",
        "orphan_detection: {scan_on_startup: false}",
        orphans,
    ),
    row(
        COORDINATION,
        "orphan_detection.stale_threshold_minutes",
        "",
        "orphan_detection: {stale_threshold_minutes: 5}",
        silent_orphans,
    ),
    row(
        COORDINATION,
        "orphan_detection.action",
        "",
        "orphan_detection: {action: report}",
        orphans,
    ),
];

static RESILIENCE_ROWS: [Row; 20] = [
    row(
        RESILIENCE,
        "limits.defaults.turns",
        "",
        "limits: {defaults: {turns: 1}}",
        a_thread_that_reads,
    ),
    row(
        RESILIENCE,
        "limits.defaults.tokens",
        "",
        "limits: {defaults: {tokens: 300}}",
        a_thread_that_reads,
    ),
    row(
        RESILIENCE,
        "limits.defaults.spend",
        "",
        "limits: {defaults: {spend: 0.0001}}",
        a_thread_that_pays,
    ),
    row(
        RESILIENCE,
        "limits.defaults.spend_currency",
        "limits: {defaults: {spend_currency: USD}}",
        "limits: {defaults: {spend_currency: EUR}}",
        reading,
    ),
    row(
        RESILIENCE,
        "limits.defaults.spawns",
        "",
        "limits: {defaults: {spawns: 0}}",
        two_children,
    ),
    row(
        RESILIENCE,
        "limits.defaults.depth",
        "",
        "limits: {defaults: {depth: 0}}",
        two_children,
    ),
    row(
        RESILIENCE,
        "limits.defaults.duration_seconds",
        "",
        "limits: {defaults: {duration_seconds: 1}}",
        a_thread_that_sleeps,
    ),
    row(
        RESILIENCE,
        "limits.child_share",
        "",
        "limits: {child_share: 0.5}",
        money_of_a_child,
    ),
    row(
        RESILIENCE,
        "limits.enforcement",
        "limits: {enforcement: {check_before_turn: true, check_after_turn: true, on_exceed: escalate}}",
        "limits: {enforcement: {on_exceed: ignore}}",
        reading,
    ),
    row(
        RESILIENCE,
        "retry.max_retries",
        "retry: {policies: {exponential: {type: exponential, base: 0.001}}}",
        "retry: {max_retries: 0}",
        a_busy_provider,
    ),
    row(
        RESILIENCE,
        "retry.policies",
        "",
        "retry: {policies: {exponential: {type: fixed, delay: 7}}}",
        a_wait,
    ),
    row(
        RESILIENCE,
        "child_policy.on_parent_cancel",
        "child_policy: {on_parent_cancel: allow}",
        "child_policy: {on_parent_cancel: cascade_cancel}",
        child_of_a_cancelled_thread,
    ),
    row(
        RESILIENCE,
        "child_policy.on_parent_complete",
        "child_policy: {on_parent_complete: allow}",
        "child_policy: {on_parent_complete: cascade_cancel}",
        child_of_a_complete_thread,
    ),
    row(
        RESILIENCE,
        "child_policy.on_parent_error",
        "child_policy: {on_parent_error: allow}",
        "child_policy: {on_parent_error: cascade_cancel}",
        child_of_a_failed_thread,
    ),
    row(
        RESILIENCE,
        "concurrency.max_concurrent_children",
        "",
        "concurrency: {max_concurrent_children: 1}",
        two_children,
    ),
    row(
        RESILIENCE,
        "concurrency.max_total_threads",
        "",
        "concurrency: {max_total_threads: 1}",
        two_children,
    ),
    row(
        RESILIENCE,
        "tool_preload.enabled",
        "",
        "tool_preload: {enabled: false}",
        tools_that_are_shown,
    ),
    row(
        RESILIENCE,
        "tool_preload.max_tokens",
        "",
        "tool_preload: {max_tokens: 80}",
        tools_that_are_shown,
    ),
    row(
        RESILIENCE,
        "checkpoint",
        "checkpoint: {triggers: {pre_turn: true}, persistence: {format: json}}",
        "checkpoint: {triggers: {pre_turn: false}}",
        reading,
    ),
    row(
        RESILIENCE,
        "coordination",
        "coordination: {fail_fast: false}",
        "coordination: {fail_fast: true}",
        reading,
    ),
];

static ERROR_ROWS: [Row; 15] = [
    row(
        ERRORS,
        "patterns",
        "",
        "patterns: [{id: tea, category: drinks, retryable: false, match: {path: status_code, value: 418}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "default",
        "",
        "default: {category: odd, retryable: true, retry_policy: {type: fixed, delay: 3}}",
        a_teapot,
    ),
    row(
        ERRORS,
        "operators",
        "operators: {eq: {description: equal}}",
        "operators: {like: {}}",
        reading,
    ),
    row(
        ERRORS,
        "combinators",
        "combinators: {any: {}}",
        "combinators: {none: {}}",
        reading,
    ),
    row(
        ERRORS,
        "retry_policy_types",
        "retry_policy_types: {fixed: {}}",
        "retry_policy_types: {random: {}}",
        reading,
    ),
    row(
        ERRORS,
        "patterns.id",
        "patterns: [{id: tea, category: c, retryable: false, match: {}}]",
        "patterns: [{id: pot, category: c, retryable: false, match: {}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "patterns.name",
        "patterns: [{id: tea, category: c, retryable: false, match: {}}]",
        "patterns: [{id: tea, name: pot, category: c, retryable: false, match: {}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "patterns.category",
        "patterns: [{id: tea, category: c, retryable: false, match: {}}]",
        "patterns: [{id: tea, category: d, retryable: false, match: {}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "patterns.retryable",
        "patterns: [{id: tea, category: c, retryable: false, match: {}}]",
        "patterns: [{id: tea, category: c, retryable: true, match: {}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "patterns.match",
        "patterns: [{id: tea, category: c, retryable: false, match: {}}]",
        "patterns: [{id: tea, category: c, retryable: false, match: {path: cancelled, value: true}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "patterns.retry_policy",
        "patterns: [{id: tea, category: c, retryable: true, match: {}}]",
        "patterns: [{id: tea, category: c, retryable: true, match: {}, retry_policy: fixed}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "retry_policy.none",
        "patterns: [{id: tea, category: c, retryable: true, match: {}, retry_policy: fixed}]",
        "patterns: [{id: tea, category: c, retryable: true, match: {}, retry_policy: {type: none}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "retry_policy.exponential",
        "patterns: [{id: tea, category: c, retryable: true, match: {}}]",
        "patterns: [{id: tea, category: c, retryable: true, match: {}, retry_policy: {type: exponential, base: 9, max: 10}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "retry_policy.fixed",
        "patterns: [{id: tea, category: c, retryable: true, match: {}}]",
        "patterns: [{id: tea, category: c, retryable: true, match: {}, retry_policy: {type: fixed, delay: 4}}]",
        a_teapot,
    ),
    row(
        ERRORS,
        "retry_policy.use_header",
        "patterns: [{id: tea, category: c, retryable: true, match: {}}]",
        "patterns: [{id: tea, category: c, retryable: true, match: {}, retry_policy: {type: use_header, header: x-wait, fallback: {type: fixed, delay: 1}}}]",
        a_teapot,
    ),
];

static OTHER_ROWS: [Row; 13] = [
    row(
        RISK,
        "risk_levels",
        "risk_levels: {high: {policy: allow}}\nclassifications: [{risk: high, patterns: [rye.execute.tool.rye.file-system.*]}]",
        "risk_levels: {high: {policy: block}}\nclassifications: [{risk: high, patterns: [rye.execute.tool.rye.file-system.*]}]",
        a_thread_that_reads,
    ),
    row(
        RISK,
        "classifications",
        "risk_levels: {high: {policy: block}}\nclassifications: []",
        "risk_levels: {high: {policy: block}}\nclassifications: [{risk: high, patterns: [rye.execute.tool.rye.file-system.*]}]",
        a_thread_that_reads,
    ),
    row(
        CONDITIONS,
        "builtin_hooks",
        "",
        "builtin_hooks: [HOOK]",
        calls_of_hooks,
    ),
    row(
        CONDITIONS,
        "infra_hooks",
        "",
        "infra_hooks: [HOOK]",
        calls_of_hooks,
    ),
    row(
        CONDITIONS,
        "context_hooks",
        "",
        "context_hooks: [HOOK]",
        calls_of_hooks,
    ),
    row(
        CONDITIONS,
        "action_primaries",
        "action_primaries: [execute, load]",
        "action_primaries: [erase]",
        reading,
    ),
    row(
        CONDITIONS,
        "action_item_types",
        "action_item_types: [tool]",
        "action_item_types: [table]",
        reading,
    ),
    row(HOOKS, "hooks", "", "hooks: [HOOK]", calls_of_hooks),
    row(
        AGENT,
        "provider.default",
        "",
        "provider: {default: far}",
        the_small_model,
    ),
    row(
        AGENT,
        "max_output_tokens",
        "",
        "max_output_tokens: 99",
        the_small_model,
    ),
    row(
        AGENT,
        "min_output_tokens",
        "",
        "min_output_tokens: 900",
        a_thread_with_few_tokens,
    ),
    row(
        AGENT,
        "system_prompt",
        "",
        "system_prompt: Be kind.",
        the_system_prompt,
    ),
    row(
        MODELS,
        "tiers",
        "TWO",
        "TWO\ntiers: {general: [b]}",
        the_model,
    ),
];

static MODEL_ROWS: [Row; 12] = [
    row(
        MODELS,
        "providers",
        "",
        "providers: {own: {adapter: openai}}\nmodels: [{id: c, provider: own, prices: {input: 1, output: 1}}]\ntiers: {general: [c]}",
        the_model,
    ),
    row(
        MODELS,
        "models",
        "TWO",
        "TWO\n- {id: c, provider: near, prices: {input: 1, output: 1}}\ntiers: {general: [c]}",
        the_model,
    ),
    row(
        MODELS,
        "providers.adapter",
        "providers: {p: {adapter: openai, base_url: 'http://127.0.0.1:1/v1/'}}\nONE",
        "providers: {p: {adapter: anthropic, base_url: 'http://127.0.0.1:1/v1/'}}\nONE",
        its_answer,
    ),
    row(
        MODELS,
        "providers.base_url",
        "providers: {p: {adapter: openai, base_url: 'http://127.0.0.1:1/v1/'}}\nONE",
        "providers: {p: {adapter: openai, base_url: 'http://127.0.0.1:2/v1/'}}\nONE",
        its_answer,
    ),
    row(
        MODELS,
        "providers.key_env",
        "providers: {p: {adapter: openai}}\nONE",
        "providers: {p: {adapter: openai, key_env: NO_SUCH_KEY}}\nONE",
        the_model,
    ),
    row(
        MODELS,
        "providers.conversations",
        "providers: {p: {adapter: script, conversations: [{when: Hello, answers: [{text: Hi.}]}]}}\nONE",
        "providers: {p: {adapter: script, conversations: [{when: Hello, answers: [{text: Good day.}]}]}}\nONE",
        its_answer,
    ),
    row(
        MODELS,
        "models.id",
        "TWO\ntiers: {general: [a]}",
        "TWO\n- {id: d, provider: near, prices: {input: 1, output: 1}}\ntiers: {general: [d]}",
        the_model,
    ),
    row(
        MODELS,
        "models.provider",
        "TWO\ntiers: {general: [a]}",
        "providers: {near: {adapter: openai, key_env: NO_SUCH_KEY}}\nmodels: [{id: a, provider: near, prices: {input: 1, output: 1}}]\ntiers: {general: [a]}",
        the_model,
    ),
    row(
        MODELS,
        "models.context_window",
        "TWO\ntiers: {general: [a]}",
        "TWO\n- {id: d, provider: near, context_window: 77, prices: {input: 1, output: 1}}\ntiers: {general: [d]}",
        the_model,
    ),
    row(
        MODELS,
        "models.max_output_tokens",
        "TWO\ntiers: {general: [a]}",
        "TWO\n- {id: d, provider: near, max_output_tokens: 66, prices: {input: 1, output: 1}}\ntiers: {general: [d]}",
        the_model,
    ),
    row(
        MODELS,
        "models.prices",
        "TWO\ntiers: {general: [a]}",
        "TWO\n- {id: d, provider: near, prices: {input: 5, output: 1}}\ntiers: {general: [d]}",
        the_model,
    ),
    row(
        MODELS,
        "models.system_prompt",
        "TWO\ntiers: {general: [a]}",
        "TWO\n- {id: d, provider: near, prices: {input: 1, output: 1}, system_prompt: Be brief.}\ntiers: {general: [d]}",
        the_model,
    ),
];

const TWO: &str = "providers:\n  near: {adapter: openai}\n  far: {adapter: openai}\n\
    models:\n- {id: a, provider: near, prices: {input: 1, output: 1}}\n\
    - {id: b, provider: far, prices: {input: 2, output: 2}}";
const ONE: &str =
    "models: [{id: a, provider: p, prices: {input: 1, output: 1}}]\ntiers: {general: [a]}";
const SPAWN: &str = "{tool: rye_agent_threads_thread_directive, \
    input: {directive_id: demo/child, async: true, limit_overrides: {spend: 0.1}}}";

fn rows_of_all_files() -> impl Iterator<Item = &'static Row> {
    let tables: [&[Row]; 5] = [
        &COORDINATION_ROWS,
        &RESILIENCE_ROWS,
        &ERROR_ROWS,
        &OTHER_ROWS,
        &MODEL_ROWS,
    ];
    tables.into_iter().flatten()
}

/// A project whose `demo/say` reads notes, with these settings.
fn project(file: &str, settings: &str) -> Scene {
    let scene = Scene::new();
    scene.reader("demo/say", "", "Say it.");
    scene.file("notes.txt", "some notes ".repeat(40));
    let hook = CALLS.trim_start_matches("- ");
    let text = settings.replace("TWO", TWO).replace("ONE", ONE);
    let text = text.replace("HOOK", hook);
    scene.seal(&format!(".ai/config/agent/{file}.yaml"), &text);
    scene
}

// T-DEC-22
#[test]
fn each_key_of_the_settings_has_an_effect() {
    let mut page = Page::new(
        "# What each setting does\n\n\
         Each row is a run of a test: what happens without the setting, and with it. The keys are\n\
         described in [`declarations.md`](../spec/declarations.md), section 7. `HOOK` is a hook that calls\n\
         a tool after each step; `ONE` and `TWO` list one model `a`, and two models `a` and `b`.\n\n",
    );
    page.table(&["file", "key", "setting", "without", "with"]);
    for row in rows_of_all_files() {
        let seen = |settings| (row.seen)(&mut project(row.file, settings));
        let names = [format!("`agent/{}`", row.file), format!("`{}`", row.key)];
        let seen = [seen(row.without), seen(row.with)];
        page.row(names.each_ref().map(String::as_str), row.with, &seen);
    }
    page.check("settings.md");
}

// T-DEC-22
#[test]
fn each_key_of_the_specification_has_a_row_and_no_row_another() {
    let keys = keys();
    assert!(keys.len() > 60, "{keys:?}");
    let shown = rows_of_all_files().map(|row| (row.file.to_owned(), row.key.to_owned()));
    compare(&keys, &shown.collect(), |key, shown| {
        let rest = shown.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
}

/// The keys of the tables of section 7, with their files.
fn keys() -> Vec<(String, String)> {
    let mut file = String::new();
    let mut keys = Vec::new();
    for row in specified("## 7. ", "## 8. ") {
        if let Some(name) = spans(&row.heading).next() {
            file = name.replace("agent/", "");
        }
        let prefix = match row.of.as_str() {
            "key" => "",
            "member of a pattern" => "patterns.",
            "member of a provider" => "providers.",
            "member of a model" => "models.",
            "`type`" => "retry_policy.",
            other => panic!("a table of {other}"),
        };
        for span in spans(&row.cells[0]) {
            match span.strip_prefix("agent/") {
                Some(name) => name.clone_into(&mut file),
                None => keys.push((file.clone(), format!("{prefix}{span}"))),
            }
        }
    }
    keys
}

fn config(scene: &Scene) -> Result<Config, Error> {
    Config::load(&scene.finder(), &scene.grounds())
}

/// Whether the settings are read, or the error.
fn reading(scene: &mut Scene) -> String {
    match config(scene) {
        Ok(_) => "they are read".to_owned(),
        Err(why) => {
            let why = why.to_string();
            why.rsplit("yaml:").next().unwrap().to_owned()
        }
    }
}

fn ended(ran: Result<Ran, Error>) -> String {
    match ran {
        Ok(ran) => ran.status.as_str().to_owned(),
        Err(_) => "refused".to_owned(),
    }
}

fn threads_of_a_chain(scene: &mut Scene) -> String {
    scene.window = 2000;
    let engine = scene.engine(&reads(6, "Done."));
    engine.run(&order("demo/say")).unwrap().completed();
    format!("{} threads", listed(&engine).len())
}

fn messages_that_are_handed_over(scene: &mut Scene) -> String {
    let thread = scene.engine(&reads(3, "Done.")).run(&order("demo/say"));
    let handed = scene
        .engine(GLADLY)
        .handoff(&again(&thread.unwrap().thread));
    handed.unwrap();
    format!("{} messages", scene.last_asked().len())
}

fn choose(scene: &Scene) -> Result<Chosen, Error> {
    let config = config(scene)?;
    let window = config.coordination.context_window;
    let wish = Wish::default();
    let catalogue = Catalogue::new(config.models, config.agent, wish, window, Arc::default());
    catalogue.choose(&ModelChoice::default())
}

fn the_model(scene: &mut Scene) -> String {
    match choose(scene) {
        Err(why) => why.to_string(),
        Ok(chosen) => format!(
            "{}: window {}, answers of {} tokens, {} dollars a million{}",
            chosen.model.name(),
            chosen.context_window,
            chosen.max_output_tokens,
            chosen.prices.input,
            chosen
                .system_prompt
                .map_or(String::new(), |text| format!(", {text:?}")),
        ),
    }
}

fn the_small_model(scene: &mut Scene) -> String {
    let models = format!("{TWO}\ntiers: {{general: [a, b]}}\n");
    scene.seal(".ai/config/agent/models.yaml", &models);
    the_model(scene)
}

fn its_answer(scene: &mut Scene) -> String {
    let model = choose(scene).unwrap().model;
    match ask(&*model, &[user("Hello")]) {
        Ok(answer) => answer.text,
        Err(error) => error.message.split(": ").next().unwrap().to_owned(),
    }
}

fn a_resume_with_a_tail(scene: &mut Scene) -> String {
    let thread = scene.run(READS).thread;
    forge(
        scene,
        &thread,
        &[("cognition_out", json!({"text": "More."}))],
    );
    match scene.resume(&thread, GLADLY) {
        Ok(_) => "it is resumed".to_owned(),
        Err(_) => "it is refused".to_owned(),
    }
}

fn files_of_a_thread(scene: &mut Scene) -> String {
    let folder = scene.folder_of(&scene.run(GLADLY).thread);
    match folder.join("transcript.bodies").exists() {
        true => "`transcript.jsonl` and `transcript.bodies`".to_owned(),
        false => "`transcript.jsonl`".to_owned(),
    }
}

fn waits(scene: &mut Scene) -> String {
    let settings = config(scene).unwrap().coordination;
    let (usual, longest) = (settings.wait(None), settings.wait(Some(Duration::MAX)));
    format!("{} s, at most {} s", usual.as_secs(), longest.as_secs())
}

/// Models that note the tiers that are asked for.
struct Tiers(Chosen, Arc<Mutex<BTreeSet<String>>>);

impl Models for Tiers {
    fn choose(&self, wanted: &ModelChoice) -> Result<Chosen, Error> {
        let tier = wanted.tier.clone().unwrap_or_default();
        self.1.lock().unwrap().insert(tier);
        Ok(self.0.clone())
    }
}

fn a_summary(scene: &mut Scene) -> String {
    let input = |(name, of)| format!("<input name=\"{name}\" type=\"{of}\">i</input>");
    let inputs = [("transcript", "string"), ("max_tokens", "integer")]
        .map(input)
        .concat();
    let inputs = format!("<inputs>{inputs}</inputs>");
    scene.directive("demo/sum", "", &inputs, "Summarise.");
    let thread = scene.run(GLADLY).thread;
    let mut engine = scene.engine("answers: [{text: A summary.}, {text: Gladly.}]");
    let chosen = engine.services.models.choose(&ModelChoice::default());
    let tiers = Arc::default();
    engine.services.models = Arc::new(Tiers(chosen.unwrap(), Arc::clone(&tiers)));
    engine.handoff(&again(&thread)).unwrap();
    let rows = listed(&engine);
    let Some(summary) = rows.iter().find(|row| row.directive == "demo/sum") else {
        return "none".to_owned();
    };
    let meta = scene.events(&summary.id)[0]["payload"]["meta"].clone();
    let tiers = tiers.lock().unwrap().iter().cloned().collect::<Vec<_>>();
    format!(
        "of {} tokens in at most {} turns, with models {}",
        meta["inputs"]["max_tokens"],
        limits(scene, &summary.id)["turns"],
        tiers.join(", "),
    )
}

fn orphans(scene: &mut Scene) -> String {
    found(scene, "pid = 999999")
}

/// One that names no process, ten minutes old.
fn silent_orphans(scene: &mut Scene) -> String {
    let old = "strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-10 minutes')";
    found(scene, &format!("pid = NULL, updated_at = {old}"))
}

fn found(scene: &Scene, row: &str) -> String {
    let thread = scene.run(GLADLY).thread;
    scene.as_if_killed(&thread);
    let sql = format!("UPDATE threads SET {row} WHERE thread_id = ?1");
    scene.edit(&sql, &thread);
    match scene.engine(GLADLY).look_for_orphans().unwrap() {
        Found::Off => "nothing is looked for".to_owned(),
        Found::Ended(ended) => format!("{} ended", ended.len()),
        Found::Left(left) => format!("{} named", left.len()),
    }
}

pub(super) fn a_thread_that_reads(scene: &mut Scene) -> String {
    ended(scene.engine(READS).run(&order("demo/say")))
}

pub(super) fn a_thread_that_pays(scene: &mut Scene) -> String {
    scene.prices = prices();
    a_thread_that_reads(scene)
}

fn prices() -> Prices {
    let price = |dollars| Nanos::parse(dollars).unwrap();
    Prices {
        input: price("3"),
        output: price("15"),
        cache_read: price("3"),
        cache_write: price("3"),
        above: None,
    }
}

fn slow(scene: &Scene, seconds: &str) {
    let slow = format!("tool_type: command\ncommand: [/bin/sleep, \"{seconds}\"]\n");
    scene.file(".ai/tools/demo/slow.yaml", slow);
    let calls = "<permissions><execute><tool>demo.slow</tool></execute></permissions>";
    scene.directive("demo/child", calls, "", "I am a child.");
}

fn a_thread_that_sleeps(scene: &mut Scene) -> String {
    slow(scene, "3");
    let script = "answers: [{calls: [{tool: demo_slow}]}, {text: Done.}]";
    ended(scene.engine(script).run(&order("demo/child")))
}

pub(super) fn two_children(scene: &mut Scene) -> String {
    slow(scene, "0.3");
    let child = "- when: I am a child\n  answers: [{calls: [{tool: demo_slow}]}, {text: Here.}]";
    let script = format!(
        "conversations:\n- when: Say\n  answers: [{{calls: [{SPAWN}, {SPAWN}]}}, {{text: Done.}}]\n{child}\n"
    );
    let ran = scene.engine(&script).run(&order("demo/say")).unwrap();
    let events = scene.events(&ran.thread);
    let errors = events.of("tool_call_result").into_iter();
    let errors = errors.filter_map(|result| result["error"].as_str()?.split(':').next());
    let errors: Vec<&str> = errors.collect();
    let begun = events.count("child_thread_started");
    format!("{begun} begun {}", errors.join(", "))
        .trim()
        .to_owned()
}

fn money_of_a_child(scene: &mut Scene) -> String {
    scene.prices = prices();
    slow(scene, "0");
    let call = "{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child}}";
    let script = format!(
        "conversations:\n- when: Say\n  answers: [{{calls: [{call}]}}, {{text: Done.}}]\n\
         - when: I am a child\n  answers: [{{text: Here.}}]\n"
    );
    let engine = scene.engine(&script);
    engine.run(&order("demo/say")).unwrap().completed();
    let child = listed(&engine).into_iter().find(|row| row.parent.is_some());
    let spend = limits(scene, &child.unwrap().id)["spend"].as_f64();
    format!("about {:.1} dollars", spend.unwrap())
}

/// The limits in a thread's `thread.json`.
fn limits(scene: &Scene, thread: &ThreadId) -> Value {
    scene.json(scene.project.thread(thread).metadata())["limits"].clone()
}

fn a_busy_provider(scene: &mut Scene) -> String {
    let script = "answers: [{error: {status: 529, message: busy}}, {text: Done.}]";
    ended(scene.engine(script).run(&order("demo/say")))
}

fn judged(scene: &Scene, status: u16) -> String {
    let error = ModelError {
        status,
        kind: "HttpError".to_owned(),
        retry_after: Some(Duration::from_secs(11)),
        headers: [("x-wait".to_owned(), "8".to_owned())].into(),
        ..ModelError::default()
    };
    let judgement = Configured::new(&config(scene).unwrap()).judge(&error, 1);
    let again = judgement
        .retry
        .map_or("not asked again".to_owned(), |wait| {
            format!("asked again after {} s", wait.as_secs_f64())
        });
    format!("{}, {}, {again}", judgement.code, judgement.category)
}

fn a_teapot(scene: &mut Scene) -> String {
    judged(scene, 418)
}

/// An error whose pattern names no wait.
fn a_wait(scene: &mut Scene) -> String {
    let patterns = "patterns: [{id: tea, category: c, retryable: true, match: {}}]";
    scene.seal(".ai/config/agent/error_classification.yaml", patterns);
    judged(scene, 418)
}

fn child_of_a_complete_thread(scene: &mut Scene) -> String {
    child_of(scene, "{text: All.}", false)
}

fn child_of_a_failed_thread(scene: &mut Scene) -> String {
    child_of(scene, "{error: {status: 401, message: no}}", false)
}

fn child_of_a_cancelled_thread(scene: &mut Scene) -> String {
    child_of(scene, "{calls: [{tool: demo_slow}]}", true)
}

/// How an asynchronous child of a thread ends that ends by these answers, or is cancelled.
fn child_of(scene: &Scene, answers: &str, cancels: bool) -> String {
    slow(scene, "1");
    let calls = "<permissions><execute><tool>rye.agent.threads.thread_directive</tool><tool>demo.*</tool></execute></permissions>";
    scene.directive("demo/parent", calls, "", "Begin them.");
    // The parent's call waits for that of its child. Then the parent ends, or is cancelled.
    let hold = "tool_type: command\ncommand: [/bin/sh, -c, 'while ! grep -qs tool_call_start \
                .ai/agent/threads/demo/child-*/transcript.jsonl; do sleep 0.05; done']\n";
    scene.file(".ai/tools/demo/hold.yaml", hold);
    let script = format!(
        "conversations:\n- when: I am a child\n  answers: [{{calls: [{{tool: demo_slow}}]}}, {{text: Done.}}]\n\
         - when: Begin\n  answers: [{{calls: [{SPAWN}, {{tool: demo_hold}}]}}, {answers}]\n"
    );
    let engine = scene.engine(&script);
    let wanted = order("demo/parent");
    let cancel = wanted.cancel.clone();
    let folder = scene.path(".ai/agent/threads/demo");
    let calls = move || {
        let threads = fs::read_dir(&folder).into_iter().flatten();
        let mut paths = threads.map(|entry| entry.unwrap().path().join("transcript.jsonl"));
        paths.any(|path| {
            path.to_string_lossy().contains("/child-")
                && fs::read_to_string(path).is_ok_and(|text| text.contains("tool_call_start"))
        })
    };
    let stop = std::thread::spawn(move || {
        while cancels && !calls() {
            std::thread::sleep(Duration::from_millis(20));
        }
        if cancels {
            cancel.set();
        }
    });
    engine.run(&wanted).unwrap();
    stop.join().unwrap();
    let child = listed(&engine).into_iter().find(|row| row.parent.is_some());
    child.unwrap().status.unwrap().as_str().to_owned()
}

/// A model that notes the tools that it is shown.
struct Shown(ScriptModel, Arc<Mutex<Vec<String>>>);

impl Model for Shown {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let names = request.tools.iter().map(|tool| tool.name.clone());
        self.1.lock().unwrap().extend(names);
        self.0.ask(request, on_text)
    }
}

fn tools_that_are_shown(scene: &mut Scene) -> String {
    let mut engine = scene.engine(GLADLY);
    let mut chosen = engine
        .services
        .models
        .choose(&ModelChoice::default())
        .unwrap();
    let names = Arc::default();
    let script = ScriptModel::parse("script", GLADLY).unwrap();
    chosen.model = Arc::new(Shown(script, Arc::clone(&names)));
    engine.services.models = Arc::new(Only(chosen));
    engine.run(&order("demo/say")).unwrap().completed();
    let names = names.lock().unwrap();
    names.join(", ")
}

fn calls_of_hooks(scene: &mut Scene) -> String {
    let ran = scene.engine(READS).run(&order("demo/say")).unwrap();
    let events = scene.events(&ran.thread);
    format!("{} calls by hooks", events.count("hook_call_start"))
}

fn a_thread_with_few_tokens(scene: &mut Scene) -> String {
    let completes = |tokens: &u64| {
        let mut order = order("demo/say");
        order.limits.tokens = Some(*tokens);
        let ran = scene.engine(GLADLY).run(&order).unwrap();
        ran.status == Status::Completed
    };
    let least = (1..100).map(|hundreds| hundreds * 100).find(completes);
    format!("completes within {} tokens", least.unwrap())
}

fn the_system_prompt(scene: &mut Scene) -> String {
    scene.run(GLADLY);
    let asked = scene.asked.lock().unwrap();
    match asked[0].0.as_str() {
        "" => "none".to_owned(),
        text => text.to_owned(),
    }
}
