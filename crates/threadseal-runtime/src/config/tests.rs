//! Settings as files give them, which one counts, and every mistake with its line.

use super::coordination::Integrity;
use super::models::Tokens;
use super::resilience::{ChildPolicy, ToolPreload};
use super::*;
use crate::testing::prelude::*;
use threadseal_core::time::Timestamp;

fn coordination(text: &str) -> Result<Coordination, Error> {
    let mut read = Coordination::default();
    let node = yaml::parse("c.yaml", text).unwrap();
    read.overlay(&node).map(|()| read)
}

/// The settings of a project with these files in `.ai/config/agent`.
fn load(files: &[(&str, &str)]) -> Result<Config, Error> {
    let scene = Scene::new();
    for (name, text) in files {
        scene.file(&format!(".ai/config/agent/{name}.yaml"), text);
    }
    Config::load(&scene.finder(), &scene.grounds())
}

#[test]
fn coordination_keys_may_stand_in_three_places() {
    for text in [
        "trigger_threshold: 0.5\nwait_threads: {default_timeout: 7}\ntranscript_integrity: lenient\n",
        "coordination:\n  trigger_threshold: 0.5\n  wait_threads: {default_timeout: 7.0}\n  transcript_integrity: lenient\n",
        "coordination:\n  continuation:\n    trigger_threshold: 0.5\n    wait_threads: {default_timeout: 7}\n    transcript_integrity: lenient\n",
        "wait_threads.default_timeout: 7\ntrigger_threshold: 0.5\ncoordination: {continuation: {trigger_threshold: 0.5, transcript_integrity: lenient}}\n",
    ] {
        let read = coordination(text).unwrap();
        let expected = Coordination {
            wait_default: Duration::from_secs(7),
            trigger_threshold: 0.5,
            transcript_integrity: Integrity::Lenient,
            ..Coordination::default()
        };
        assert_eq!(read, expected, "{text}");
        assert_eq!(read.resume_ceiling_tokens, 16_000);
    }
    assert_eq!(coordination("").unwrap(), Coordination::default());
}

// T-DEC-17
#[test]
fn one_key_with_two_values_names_both_lines() {
    let text = "transcript_integrity: strict\ncoordination:\n  transcript_integrity: lenient\n";
    assert_eq!(
        coordination(text).why(),
        "c.yaml:3: `transcript_integrity` has another value than at c.yaml:1"
    );
    let text =
        "coordination:\n  wait_threads:\n    default_timeout: 5\nwait_threads.default_timeout: 6\n";
    let why = coordination(text).why();
    assert!(
        why.starts_with("c.yaml:4: `wait_threads.default_timeout`"),
        "{why}"
    );
}

#[test]
fn mistakes_in_settings_have_their_line() {
    for [name, text, message] in rows(
        r"coordination => trigger_treshold: 0.9 => 1: the coordination has no member `trigger_treshold`
          coordination => trigger_threshold: 1.5 => 1: `trigger_threshold` must be above 0
          coordination => resume_ceiling_tokens: 0 => 1: `resume_ceiling_tokens` must be at least 1
          coordination => transcript_integrity: lax => 1: `transcript_integrity` must be strict
          coordination => wait_threads: {default_timeout: -1} => 1: the value must be a time in seconds
          coordination => wait_threads: {timeout: 1} => 1: `wait_threads` has no member
          resilience => limits:\n  defaults:\n    turn: 3 => 3:
          resilience => child_policy: {on_parent_error: orphan} => 1: a child policy
          resilience => concurrency: {max_total_threads: 0} => 1: at least 1
          error_classification => patterns:\n- {id: a, category: x, retryable: true, match: {path: x, op: like, value: 1}} => 2: unknown operator `like`
          error_classification => patterns:\n- {id: a, category: x, retryable: true, match: {}, retry_policy: {type: linear}} => 2: unknown policy `linear`
          capability_risk => risk_levels: {a: {policy: allow}}\nclassifications:\n- {risk: b, patterns: []} => 3: unknown level `b`
          resilience => category: agents => 1: `category` of these settings can only be agent
          resilience => checkpoint:\n  triggers: {pre_turn: true, on_rain: true} => 2: `checkpoint.triggers` has no member `on_rain`
          resilience => retry: {policies: {a: {policy: b}}} => 1: unknown policy `b`; known: exponential
          error_classification => patterns:\n- {id: a, category: x, retryable: true, match: {}, retry_policy: slow} => 2: unknown policy `slow`
          hooks => hooks:\n- {id: a, event: error, wrap: false, action: {primary: execute, item_type: tool, item_id: x/y}} => 2: `position` and `wrap`
          hooks => hooks:\n- {id: a, event: never, action: {}} => 2: unknown event `never`
          agent => provider: {default: anthropic, fallback: x} => 1: `provider` has no member
          models => models:\n- {id: a, provider: nobody} => 2: unknown provider `nobody`
          models => providers: {x: {adapter: smtp}} => 1: unknown adapter
          models => models:\n- {id: a, provider: openai, prices: {input: 1, output: 1, as_of: soon}} => 2: a day
          models => models:\n- {id: a, provider: openai, prices: {input: -1, output: 1}} => 2:",
    ) {
        let message = format!("{name}.yaml:{message}");
        load(&[(&name, &text)]).fails_with(&message);
    }
}

#[test]
fn what_is_built_in_reads_and_a_project_goes_before_it() {
    let read = load(&[]).unwrap();
    assert!(read.used.is_empty());
    assert_eq!(read.hooks.builtin.len(), 4);
    assert_eq!(read.resilience.limits, Limits::shipped());
    let fast = read.models.tier("fast", Some("openai"));
    assert_eq!(fast[0].id, "gpt-5-mini");
    assert!(fast.iter().all(|model| model.prices.is_some()));
    let files = [
        (
            "resilience",
            "limits: {defaults: {turns: 3, spend: 0.25}}\nchild_policy: {on_parent_complete: cascade_cancel}\ntool_preload: {enabled: false}\n",
        ),
        (
            "models",
            "models:\n- {id: gpt-5-mini, provider: ollama}\n- {id: own, provider: home, prices: {input: 1, output: 2}}\nproviders: {home: {adapter: openai, base_url: 'http://10.0.0.1/'}}\ntiers: {fast: [own]}\n",
        ),
        (
            "error_classification",
            "patterns:\n- {id: mine, name: busy, category: transient, retryable: true, match: {path: status_code, value: 429}}\n- {id: cancelled, category: stopped, retryable: false, match: {path: cancelled, value: true}}\n",
        ),
        (
            "hooks",
            "hooks:\n- {id: a, event: after_step, action: {primary: execute, item_type: tool, item_id: x/y}}\n",
        ),
        ("agent", "provider: {default: home}\n"),
    ];
    let scene = Scene::new();
    for (name, text) in files {
        scene.seal(&format!(".ai/config/agent/{name}.yaml"), text);
    }
    let read = Config::load(&scene.finder(), &scene.grounds()).unwrap();
    assert_eq!(read.used.len(), 5);
    assert_eq!(read.resilience.limits.turns, Some(3));
    assert_eq!(read.resilience.limits.tokens, Some(200_000));
    assert_eq!(
        read.resilience.on_parent_complete,
        ChildPolicy::CascadeCancel
    );
    assert_eq!(read.resilience.tool_preload, ToolPreload::UpTo(0));
    assert_eq!(read.models.model("gpt-5-mini").unwrap().provider, "ollama");
    assert_eq!(read.models.tier("fast", None)[0].id, "own");
    assert_eq!(read.hooks.own.len(), 1);
    assert_eq!(read.agent.provider.as_deref(), Some("home"));
    let code = |context: &Value| read.errors.classify(context).unwrap().code.clone();
    assert_eq!(code(&json!({"status_code": 429})), "busy");
    assert_eq!(code(&json!({"cancelled": true})), "cancelled");
    assert_eq!(code(&json!({"status_code": 503})), "transient_server");
}

#[test]
fn errors_are_classified_and_waits_follow_their_policy() {
    let read = load(&[]).unwrap();
    for [context, code, retryable] in rows(
        r#"{"status_code": 429, "error": {"code": "insufficient_quota"}} => quota_exhausted => no
           {"status_code": 429, "error": {"message": "Too Many Requests"}} => rate_limited => yes
           {"status_code": 529} => transient_server => yes
           {"status_code": 401, "error": {"message": "network of keys"}} => permanent_auth => no
           {"error": {"message": "the request timed out"}} => transient_timeout => yes
           {"error": {"message": "Connection refused"}} => transient_connection => yes
           {"cancelled": true} => cancelled => no
           {"error": {"message": "something else"}} => unclassified => no
           {} => unclassified => no"#,
    ) {
        let found = read
            .errors
            .classify(&serde_json::from_str(&context).unwrap());
        let (found, retryable) = (found.unwrap(), retryable == "yes");
        assert_eq!(
            (&found.code, found.retryable),
            (&code, retryable),
            "{context}"
        );
        assert_eq!(found.retry.is_some(), retryable, "{context}");
    }
    let limited = read.errors.classify(&json!({"status_code": 429})).unwrap();
    let none = |_: &str| None;
    let seven = |name: &str| (name == "retry-after").then(|| "7".to_owned());
    let hostile = |_: &str| Some("1e300".to_owned());
    let policy = limited.retry.as_ref().unwrap();
    let wait = |attempt, header| policy.delay(attempt, header).unwrap().as_secs();
    assert_eq!(
        [wait(0, &none), wait(1, &none), wait(40, &none)],
        [2, 4, 60]
    );
    assert_eq!([wait(0, &seven), wait(0, &hostile)], [7, 3600]);
}

// T-DEC-19
#[test]
fn keys_addresses_and_moved_models_are_never_taken_from_an_unsigned_file() {
    for [text, message] in rows(
        r"providers: {x: {adapter: openai, key_env: AWS_SECRET_ACCESS_KEY}} => 1: `key_env`
          providers:\n  x:\n    adapter: openai\n    base_url: 'http://10.0.0.1/' => 4: `base_url`
          providers: {openai: {adapter: anthropic}} => 1: another provider `openai`
          models:\n- {id: gpt-5-mini, provider: ollama} => 2: another provider of the known model",
    ) {
        let unsigned = load(&[("models", &text)]);
        unsigned.fails_with(&format!("models.yaml:{message}"));
        let scene = Scene::new();
        scene.seal(".ai/config/agent/models.yaml", &text);
        assert!(Config::load(&scene.finder(), &scene.grounds()).is_ok());
    }
    let rest = "providers: {x: {adapter: openai}}\nmodels:\n- {id: own, provider: x}\n\
                - {id: gpt-5-mini, provider: openai, prices: {input: 1, output: 2}}\ntiers: {fast: [own]}\n";
    let read = load(&[("models", rest)]).unwrap();
    assert_eq!(read.models.tier("fast", None)[0].id, "own");
}

#[test]
fn costs_are_rounded_up_to_a_billionth_and_never_wrap() {
    let models = load(&[]).unwrap().models;
    let haiku = models.model("claude-haiku-4-5").unwrap().prices.unwrap();
    let pro = models.model("gemini-2.5-pro").unwrap().prices.unwrap();
    let tiny = models::Prices {
        input: Nanos::new(1).unwrap(),
        ..Default::default()
    };
    for (prices, [input, output, cache_read, cache_write], cost) in [
        (haiku, [1000, 200, 0, 0], "0.002"),
        (haiku, [0, 0, 10_000, 4], "0.001005"),
        (haiku, [u64::MAX; 4], &Nanos::MAX.to_string()),
        // More than 200,000 tokens of input: all tokens at the higher prices.
        (pro, [150_000, 1000, 50_000, 0], "0.213"),
        (pro, [150_001, 1000, 50_000, 0], "0.4212525"),
        (tiny, [1, 0, 0, 0], "0.000000001"),
    ] {
        let tokens = Tokens {
            input,
            output,
            cache_read,
            cache_write,
        };
        assert_eq!(prices.cost(&tokens).to_string(), cost);
    }
}

#[test]
fn built_in_prices_have_a_list_and_a_day_and_grow_old() {
    let models = load(&[]).unwrap().models;
    for model in models.iter().filter(|model| model.provider != "script") {
        let listed = model.listed.as_ref().unwrap();
        assert!(listed.source.as_ref().unwrap().starts_with("https://"));
        let days = |days: u64| {
            let begin = Timestamp::parse_rfc3339(&format!("{}T00:00:00Z", listed.as_of));
            let micros = begin.unwrap().as_micros() + days * 86_400_000_000;
            Timestamp::from_micros(micros).unwrap()
        };
        assert_eq!([90, 91].map(|age| listed.is_old(days(age))), [false, true]);
    }
}

#[test]
fn real_settings_of_the_original_are_read() {
    let Some(folder) = beside_repository("corpus/rye-real/config") else {
        return;
    };
    let scene = Scene::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        scene.file(
            &format!(".ai/config/agent/{name}"),
            fs::read(&path).unwrap(),
        );
        count += 1;
    }
    assert!(count >= 6, "{count}");
    let read = Config::load(&scene.finder(), &scene.grounds()).unwrap();
    assert_eq!(read.used.len(), 6);
    assert_eq!(read.coordination.summary_max_tokens, 4000);
    let hooks = &read.hooks;
    assert_eq!(
        (hooks.builtin.len(), hooks.infra.len(), hooks.context.len()),
        (6, 2, 1)
    );
    assert!(read.errors.patterns().len() >= 9);
    let quota = json!({"error": {"code": "insufficient_quota"}, "status_code": 429});
    assert_eq!(
        read.errors.classify(&quota).unwrap().code,
        "quota_exhausted"
    );
}
