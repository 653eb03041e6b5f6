//! Hand-made sources of this format, well-formed and hostile.

use super::*;
use crate::testing::*;

#[test]
fn a_bare_list_of_messages_is_a_conversation() {
    let source = r#"[{"role":"system","content":"s"},{"role":"user","content":"u"},
        {"role":"assistant","content":"```bash\nls\n```"}]"#;
    let mapped = detected(NAME, source);
    assert_eq!(roles(&mapped), "system user assistant");
    assert!(
        mapped
            .account
            .dropped()
            .all(|group| group.pointer == "/role")
    );
}

#[test]
fn what_the_provider_answered_gives_model_usage_and_moment() {
    let source = r#"{"trajectory_format":"mini-swe-agent-1.1","info":{"exit_status":"ok",
        "config":{"model":{"model_name":"acme/m"}}},"messages":[
        {"role":"user","content":"u"},
        {"role":"assistant","content":"a","tool_calls":[{"id":"c","function":{"name":"bash",
          "arguments":"{\"command\":\"ls\"}"}}],
         "extra":{"timestamp":1700000000.25,"cost":1,"response":{"model":"m-2","id":"r",
           "usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}}},
        {"role":"tool","tool_call_id":"c","content":"<output>x</output>","extra":{"raw_output":"x","returncode":0}},
        {"role":"exit","content":"bye"}]}"#;
    let mapped = detected(NAME, source);
    let turn = &mapped.turns()[1];
    assert_eq!(turn.model.id.as_deref(), Some("m-2"));
    assert_eq!(turn.timestamp_ns, Some(1_700_000_000_250_000_000));
    assert_eq!(
        (mapped.account.tokens.input, mapped.account.tokens.cached),
        (5, 1)
    );
    assert_eq!(calls(&mapped), (1, 1));
    let expected = ["3 /extra/raw_output duplicate", "2 /extra/response/id view"];
    assert_eq!(dropped(&mapped), expected);
}

#[test]
fn moments_that_no_clock_shows_are_left_out() {
    for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(seconds_ns(seconds), None, "{seconds}");
    }
}
