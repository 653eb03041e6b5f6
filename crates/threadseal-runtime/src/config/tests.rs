//! Settings as files give them, which one counts, and every mistake with its line.

use super::coordination::Integrity;
use super::errors::RetryPolicy;
use super::models::Tokens;
use super::resilience::ChildPolicy;
use super::*;
use crate::item::ItemPolicy;
use crate::money::Nanos;
use crate::shared::shared;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::sys::RealFs;

fn node(text: &str) -> Node {
    yaml::parse("c.yaml", text).unwrap()
}

fn coordination(text: &str) -> Result<Coordination, Error> {
    let mut read = Coordination::default();
    read.overlay(&node(text)).map(|()| read)
}

/// The settings of a project with these files in `.ai/config/agent`.
fn load(files: &[(&str, &str)]) -> Result<Config, Error> {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join(".ai/config/agent");
    fs::create_dir_all(&agent).unwrap();
    for (name, text) in files {
        fs::write(agent.join(format!("{name}.yaml")), text).unwrap();
    }
    load_from(folder.path())
}

fn load_from(project: &Path) -> Result<Config, Error> {
    let finder = Finder::new(RealFs::shared(), vec![project.to_owned()]);
    let (trust, heads) = (Trust::default(), MemoryHeadStore::default());
    let grounds = Grounds {
        trust: &trust,
        now: Timestamp::from_micros(0).unwrap(),
        heads: &heads,
        policy: ItemPolicy::AllowUnsigned,
    };
    Config::load(&finder, &grounds)
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
        assert_eq!(read.wait_default, Duration::from_secs(7), "{text}");
        assert!(
            (read.trigger_threshold - 0.5).abs() < f64::EPSILON,
            "{text}"
        );
        assert_eq!(read.transcript_integrity, Integrity::Lenient, "{text}");
        assert_eq!(read.resume_ceiling_tokens, 16_000);
    }
    assert_eq!(coordination("").unwrap(), Coordination::default());
}

// T-DEC-17
#[test]
fn one_key_with_two_values_names_both_lines() {
    let text = "transcript_integrity: strict\ncoordination:\n  transcript_integrity: lenient\n";
    assert_eq!(
        coordination(text).unwrap_err().to_string(),
        "c.yaml:3: `transcript_integrity` has another value than at c.yaml:1"
    );
    let text =
        "coordination:\n  wait_threads:\n    default_timeout: 5\nwait_threads.default_timeout: 6\n";
    let error = coordination(text).unwrap_err().to_string();
    assert!(
        error.starts_with("c.yaml:4: `wait_threads.default_timeout`"),
        "{error}"
    );
}

#[test]
fn mistakes_in_settings_have_their_line() {
    for (name, text, message) in [
        (
            "coordination",
            "trigger_treshold: 0.9",
            ":1: the coordination has no member `trigger_treshold`",
        ),
        (
            "coordination",
            "trigger_threshold: 1.5",
            ":1: `trigger_threshold` must be above 0",
        ),
        (
            "coordination",
            "resume_ceiling_tokens: 0",
            ":1: `resume_ceiling_tokens` must be at least 1",
        ),
        (
            "coordination",
            "transcript_integrity: lax",
            ":1: `transcript_integrity` must be strict",
        ),
        (
            "coordination",
            "wait_threads: {default_timeout: -1}",
            ":1: the value must be a time in seconds",
        ),
        (
            "coordination",
            "wait_threads: {timeout: 1}",
            ":1: `wait_threads` has no member",
        ),
        ("resilience", "limits:\n  defaults:\n    turn: 3", ":3: "),
        (
            "resilience",
            "child_policy: {on_parent_error: orphan}",
            ":1: a child policy",
        ),
        (
            "resilience",
            "concurrency: {max_total_threads: 0}",
            ":1: at least 1",
        ),
        (
            "error_classification",
            "patterns:\n- {id: a, category: x, retryable: true, match: {path: x, op: like, value: 1}}",
            ":2: unknown operator `like`",
        ),
        (
            "error_classification",
            "patterns:\n- {id: a, category: x, retryable: true, match: {}, retry_policy: {type: linear}}",
            ":2: unknown policy `linear`",
        ),
        (
            "capability_risk",
            "risk_levels: {a: {policy: allow}}\nclassifications:\n- {risk: b, patterns: []}",
            ":3: unknown level `b`",
        ),
        (
            "hooks",
            "hooks:\n- {id: a, event: never, action: {}}",
            ":2: unknown event `never`",
        ),
        (
            "agent",
            "provider: {default: anthropic, fallback: x}",
            ":1: `provider` has no member",
        ),
        (
            "models",
            "models:\n- {id: a, provider: nobody}",
            ":2: unknown provider `nobody`",
        ),
        (
            "models",
            "providers: {x: {adapter: smtp}}",
            ":1: unknown adapter",
        ),
        (
            "models",
            "models:\n- {id: a, provider: openai, prices: {input: -1, output: 1}}",
            ":2: ",
        ),
    ] {
        let error = load(&[(name, text)]).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{name}.yaml{message}")),
            "{text} gave {error}"
        );
    }
}

#[test]
fn what_is_built_in_reads_and_a_project_goes_before_it() {
    let read = load(&[]).unwrap();
    assert!(read.used.is_empty());
    assert_eq!(read.hooks.builtin.len(), 4);
    assert_eq!(read.resilience.limits, crate::limit::Limits::shipped());
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
    let read = load(&files).unwrap();
    assert_eq!(read.used.len(), 5);
    assert_eq!(read.resilience.limits.turns, Some(3));
    assert_eq!(read.resilience.limits.tokens, Some(200_000));
    assert_eq!(
        read.resilience.on_parent_complete,
        ChildPolicy::CascadeCancel
    );
    assert_eq!(read.resilience.tool_preload_tokens, None);
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
    for (context, code, retryable) in [
        (
            json!({"status_code": 429, "error": {"code": "insufficient_quota"}}),
            "quota_exhausted",
            false,
        ),
        (
            json!({"status_code": 429, "error": {"message": "Too Many Requests"}}),
            "rate_limited",
            true,
        ),
        (json!({"status_code": 529}), "transient_server", true),
        (
            json!({"status_code": 401, "error": {"message": "network of keys"}}),
            "permanent_auth",
            false,
        ),
        (
            json!({"error": {"message": "the request timed out"}}),
            "transient_timeout",
            true,
        ),
        (
            json!({"error": {"message": "Connection refused"}}),
            "transient_connection",
            true,
        ),
        (json!({"cancelled": true}), "cancelled", false),
        (
            json!({"error": {"message": "something else"}}),
            "unclassified",
            false,
        ),
        (json!({}), "unclassified", false),
    ] {
        let found = read.errors.classify(&context).unwrap();
        assert_eq!(
            (found.code.as_str(), found.retryable),
            (code, retryable),
            "{context}"
        );
        assert_eq!(found.retry != RetryPolicy::None, retryable, "{context}");
    }
    let limited = read.errors.classify(&json!({"status_code": 429})).unwrap();
    let none = |_: &str| None;
    let told = |name: &str| (name == "retry-after").then(|| "7".to_owned());
    let hostile = |_: &str| Some("1e300".to_owned());
    let wait = |attempt, header| limited.retry.delay(attempt, header).unwrap().as_secs();
    assert_eq!(
        [wait(0, &none), wait(1, &none), wait(40, &none)],
        [2, 4, 60]
    );
    assert_eq!([wait(0, &told), wait(0, &hostile)], [7, 3600]);
}

#[test]
fn costs_are_rounded_up_to_a_billionth_and_never_wrap() {
    let models = load(&[]).unwrap().models;
    let prices = models.model("claude-haiku-4-5").unwrap().prices.unwrap();
    let cost = |input, output, cache_read, cache_write| {
        let tokens = Tokens {
            input,
            output,
            cache_read,
            cache_write,
        };
        prices.cost(&tokens).to_string()
    };
    assert_eq!(cost(1000, 200, 0, 0), "0.002");
    assert_eq!(cost(0, 0, 10_000, 4), "0.001005");
    let max = u64::MAX;
    let most = Tokens {
        input: max,
        output: max,
        cache_read: max,
        cache_write: max,
    };
    assert_eq!(prices.cost(&most), Nanos::MAX);
    let tiny = models::Prices {
        input: Nanos::new(1).unwrap(),
        ..Default::default()
    };
    let one = Tokens {
        input: 1,
        ..Tokens::default()
    };
    assert_eq!(tiny.cost(&one).get(), 1);
}

#[test]
fn real_settings_of_the_original_are_read() {
    let Some(folder) = shared("corpus/rye-real/config") else {
        return;
    };
    let project = tempfile::tempdir().unwrap();
    let agent = project.path().join(".ai/config/agent");
    fs::create_dir_all(&agent).unwrap();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, agent.join(path.file_name().unwrap())).unwrap();
        count += 1;
    }
    assert!(count >= 6, "{count}");
    let read = load_from(project.path()).unwrap();
    assert_eq!(read.used.len(), 6);
    assert_eq!(read.coordination.summary_max_tokens, 4000);
    assert_eq!(
        (
            read.hooks.builtin.len(),
            read.hooks.infra.len(),
            read.hooks.context.len()
        ),
        (6, 2, 1)
    );
    assert!(read.errors.patterns().len() >= 9);
    let quota = json!({"error": {"code": "insufficient_quota"}, "status_code": 429});
    assert_eq!(
        read.errors.classify(&quota).unwrap().code,
        "quota_exhausted"
    );
}
