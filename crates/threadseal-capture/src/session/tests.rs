//! Sessions by their content, and hostile ids.

use super::*;

const UUID: &str = "3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6";
const OTHER: &str = "77b2c0aa-0b1c-4d5e-8f60-718293a4b5c6";

fn look(path: &str, text: &str) -> Option<(String, Option<String>, Growth)> {
    let folders = [AgentFolder {
        agent: Agent::ClaudeCode,
        folder: PathBuf::from("/home/ann/.claude/projects"),
    }];
    let file = identify(Path::new(path), text.as_bytes(), &folders)?;
    Some((file.key(), file.project.clone(), file.growth))
}

fn of(
    key: &str,
    project: Option<&str>,
    growth: Growth,
) -> Option<(String, Option<String>, Growth)> {
    Some((key.to_owned(), project.map(str::to_owned), growth))
}

#[test]
fn each_agent_is_known_by_its_content() {
    use Growth::{Appends, Rewrites};
    let cases = [
        (
            format!(r#"{{"parentUuid":null,"isSidechain":false,"type":"user","message":{{"role":"user","content":"x"}},"uuid":"u","timestamp":"t","cwd":"/p","sessionId":"{UUID}"}}"#),
            format!("claude-code:{UUID}"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"parentUuid":null,"isSidechain":true,"agentId":"a7","type":"user","message":{{"role":"user","content":"x"}},"uuid":"u","timestamp":"t","cwd":"/p","sessionId":"{UUID}"}}"#),
            format!("claude-code:{UUID}/a7"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"uuid":"u","parentUuid":null,"sessionId":"{UUID}","timestamp":"t","type":"user","cwd":"/p","message":{{"role":"user","parts":[{{"text":"x"}}]}}}}"#),
            format!("qwen:{UUID}"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"uuid":"u","parentUuid":null,"sessionId":"{UUID}","timestamp":"t","type":"user","cwd":"/p","agentId":"general-purpose-call_1","isSidechain":true,"message":{{"role":"user","parts":[{{"text":"x"}}]}}}}"#),
            format!("qwen:{UUID}/general-purpose-call_1"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"type":"session.start","data":{{"sessionId":"{UUID}","context":{{"cwd":"/p"}}}},"id":"i","timestamp":"t"}}"#),
            format!("copilot:{UUID}"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"type":"session","version":3,"id":"{UUID}","timestamp":"t","cwd":"/p"}}"#),
            format!("pi:{UUID}"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"sessionId":"{UUID}","projectHash":"proj","startTime":"t","kind":"main"}}"#),
            format!("gemini:{UUID}"), None, Appends,
        ),
        (
            format!("{{\n \"sessionId\": \"{UUID}\",\n \"projectHash\": \"h\",\n \"messages\": [\n {{"),
            format!("gemini:{UUID}"), None, Rewrites,
        ),
        (
            format!(r#"{{"timestamp":"t","type":"session_meta","payload":{{"session_id":"{UUID}","id":"{UUID}","cwd":"/p","source":"exec"}}}}"#),
            format!("codex:{UUID}"), Some("/p"), Appends,
        ),
        (
            format!(r#"{{"timestamp":"t","type":"session_meta","payload":{{"id":"{OTHER}","cwd":"/p","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{UUID}","depth":1}}}}}}}}}}"#),
            format!("codex:{UUID}/{OTHER}"), Some("/p"), Appends,
        ),
        (
            "{\n  \"info\": {\n    \"id\": \"ses_e0\",\n \"directory\": \"/p\" },\n \"messages\": [".to_owned(),
            "opencode:ses_e0".to_owned(), Some("/p"), Rewrites,
        ),
        (
            "{\n \"version\": 1,\n \"updated_at\": \"t\",\n \"agent\": \"lead\",\n \"sessionId\": \"17_r\",\n \"messages\": [ {\"role\"".to_owned(),
            "cline:17_r".to_owned(), None, Rewrites,
        ),
        (
            format!(r#"{{"sessionId":"{UUID}","title":"T","workspaceDirectory":"/p","history":[{{"message":{{"role":"user"}}}}]}}"#),
            format!("continue:{UUID}"), Some("/p"), Rewrites,
        ),
        (
            "{\"working_dir\":\"/p\",\"description\":\"d\",\"message_count\":2}\n{\"role\":\"user\"}\n".to_owned(),
            "goose:f".to_owned(), Some("/p"), Appends,
        ),
        (
            r#"{"info":{"mini_version":"2.4.6","exit_status":""},"messages":[],"trajectory_format":"mini-swe-agent-1.1"}"#.to_owned(),
            format!("mini-swe-agent:{}", "8ba1b0ac2d1ce3f5ac5b1ee7a1d3fb4a"), None, Rewrites,
        ),
    ];
    for (text, key, project, growth) in cases {
        let (found, folder, grows) = look("/d/f.json", &text).unwrap_or_else(|| panic!("{text}"));
        // An id made from a path has no other source to compare it with.
        let known = key.starts_with("mini-swe-agent:") && found.starts_with("mini-swe-agent:");
        assert!(known || found == key, "{found} for {text}");
        assert_eq!((folder.as_deref(), grows), (project, growth), "{text}");
    }
}

#[test]
fn a_log_without_an_id_of_its_own_keeps_the_id_of_its_place() {
    let text = "\n# aider chat started at 2026-11-24 10:00:00\n\n#### fix it\n";
    let first = look("/p/.aider.chat.history.md", text).unwrap();
    let longer = look("/p/.aider.chat.history.md", &format!("{text}more\n")).unwrap();
    let elsewhere = look("/q/.aider.chat.history.md", text).unwrap();
    assert_eq!(first, longer);
    assert_eq!((first.1.as_deref(), first.2), (Some("/p"), Growth::Appends));
    assert_ne!(first.0, elsewhere.0);
}

// T-ARC-01
#[test]
fn a_path_alone_makes_no_session_and_content_wins_over_it() {
    let claude = format!("/home/ann/.claude/projects/-p/{UUID}.jsonl");
    assert_eq!(look(&claude, ""), None);
    assert_eq!(look(&claude, "not JSON\n"), None);
    assert_eq!(look("/d/x.jsonl", "{\"a\":1}\n"), None);
    let young = look(&claude, "{\"type\":\"mode\",\"mode\":\"x\"}\n");
    assert_eq!(
        young,
        of(&format!("claude-code:{UUID}"), None, Growth::Appends)
    );
    let pi = format!(r#"{{"type":"session","id":"{OTHER}","timestamp":"t","cwd":"/p"}}"#);
    let found = look(&claude, &pi).unwrap();
    assert_eq!(found.0, format!("pi:{OTHER}"));
}

#[test]
fn a_resumed_claude_log_has_the_id_of_its_file_and_a_moved_one_that_of_its_lines() {
    let line = format!(
        "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"x\"}},\"uuid\":\"u\",\"parentUuid\":null,\"timestamp\":\"t\",\"sessionId\":\"{UUID}\"}}\n"
    );
    let resumed = look(&format!("/d/{OTHER}.jsonl"), &line).unwrap();
    assert_eq!(resumed.0, format!("claude-code:{OTHER}"));
    let moved = look("/d/backup.jsonl", &line).unwrap();
    assert_eq!(moved.0, format!("claude-code:{UUID}"));
}

#[test]
fn a_first_line_longer_than_the_head_is_read_as_far_as_it_reaches() {
    let text = "y".repeat(2 * MAX_IDENTIFY_BYTES);
    let line = format!(
        r#"{{"timestamp":"t","type":"session_meta","payload":{{"id":"{UUID}","cwd":"/p","base_instructions":{{"text":"{text}"}}}}}}"#
    );
    let found = look("/d/rollout.jsonl", &line);
    assert_eq!(
        found,
        of(&format!("codex:{UUID}"), Some("/p"), Growth::Appends)
    );
}

// T-ARC-02
#[test]
fn a_hostile_id_becomes_a_name_that_no_path_can_be_made_of() {
    for hostile in [
        "../../etc/passwd",
        ".",
        "",
        "a/b",
        "a\u{1b}[2J",
        &"i".repeat(129),
    ] {
        let id = SessionId::new(Agent::Pi, hostile);
        assert_eq!(id.own().len(), 33, "{hostile}");
        assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
    }
    let line = r#"{"type":"session","id":"../up","timestamp":"t","cwd":"/p"}"#;
    assert!(!look("/d/f.jsonl", line).unwrap().0.contains('/'));
    let deep = "[".repeat(200_000);
    assert_eq!(look("/d/f.jsonl", &deep), None);
    assert_eq!(look("/d/f.jsonl", &format!("{{\"info\":{deep}")), None);
}

#[test]
fn ids_are_parsed_and_found_by_a_unique_prefix() {
    let all = [
        "claude-code:3f9c1a",
        "claude-code:3f9d",
        "codex:3f9c1a77",
        "codex:a8",
    ];
    let all = all.map(|id| id.parse::<SessionId>().unwrap());
    let found = |text: &str| {
        let prefix = text.parse::<SessionPrefix>().unwrap();
        match find(&prefix, all.iter(), |id| id) {
            Found::None => Vec::new(),
            Found::One(id) => vec![id.to_string()],
            Found::Many(many) => many.into_iter().map(SessionId::to_string).collect(),
        }
    };
    assert_eq!(found("a"), ["codex:a8"]);
    assert_eq!(found("claude-code:3f9c"), ["claude-code:3f9c1a"]);
    assert_eq!(found("3f9c1a"), ["claude-code:3f9c1a"], "an exact id wins");
    assert_eq!(found("3f9").len(), 3);
    assert!(found("zz").is_empty());
    for refused in ["", "unknown:3f", "3f/../x", "pi:\n"] {
        assert!(refused.parse::<SessionPrefix>().is_err(), "{refused}");
    }
    for refused in ["3f9c1a", "codex:", "codex:a/b"] {
        assert!(refused.parse::<SessionId>().is_err(), "{refused}");
    }
}

// T-ARC-27
#[test]
fn a_log_that_claims_an_id_makes_no_beginning_of_it_ambiguous() {
    let found = |text: &str, all: &[&str]| {
        let all: Vec<SessionId> = all.iter().map(|id| id.parse().unwrap()).collect();
        match find(&text.parse().unwrap(), all, |id| id) {
            Found::None => Vec::new(),
            Found::One(id) => vec![id.to_string()],
            Found::Many(many) => many.iter().map(ToString::to_string).collect(),
        }
    };
    let claimed = [
        "gemini:dc11",
        "gemini:dc11-0a1b2c3d",
        "gemini:dc11-fedba9bf",
    ];
    for text in ["dc", "dc11", "gemini:d"] {
        assert_eq!(found(text, &claimed), ["gemini:dc11"], "{text}");
    }
    assert_eq!(found("dc11-0", &claimed), ["gemini:dc11-0a1b2c3d"]);
    assert_eq!(found("dc11-", &claimed).len(), 2);
    for other in [
        "gemini:dc11-0a1b2c3",
        "gemini:dc11-0A1B2C3D",
        "gemini:dc110a1b2c3d",
        "qwen:dc11-0a1b2c3d",
    ] {
        assert_eq!(found("dc", &["gemini:dc11", other]).len(), 2, "{other}");
    }
}
