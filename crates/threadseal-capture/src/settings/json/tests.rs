//! Settings as people write them, through both ways of an edit.

use super::*;
use crate::agent::Agent;
use crate::agent::machine::System;
use crate::settings::{HookCommand, hooks};
use proptest::prelude::*;

fn command(program: &str, agent: Agent) -> HookCommand {
    HookCommand {
        program: program.into(),
        agent,
        home: None,
        strict: false,
    }
}

fn wanted() -> Vec<HookEntry> {
    hooks::entries(&command("/opt/threadseal", Agent::ClaudeCode), System::Unix)
}

fn ours(text: &str) -> bool {
    HookCommand::is_ours(text, &[])
}

fn install(text: &str) -> WithHooks {
    with_hooks(text, Shape::Grouped, &wanted(), &ours).unwrap()
}

fn remove(text: &str, before: Option<&str>) -> WithoutHooks {
    without_hooks(text, before, Shape::Grouped, &ours).unwrap()
}

const COMMENTED: &str = r#"{
  // my model
  "model": "opus", /* the large one */
  "hooks": {
    "Stop": [
      // ring the bell
      { "hooks": [{ "type": "command", "command": "bell" }] }
    ],
    "Notification": []
  },
  "env": { "A": "1", }, // a trailing comma
}
"#;

// T-CAP-03
#[test]
fn hooks_are_added_after_those_of_the_user_and_all_else_keeps_its_bytes() {
    let added = install(COMMENTED);
    assert_eq!((added.kept, added.replaced), (1, 0));
    for line in COMMENTED.lines().filter(|line| !line.trim().is_empty()) {
        let line = line.trim_end_matches(',');
        assert!(added.text.contains(line), "{line}\n{}", added.text);
    }
    let found = hooks(&added.text, Shape::Grouped).unwrap();
    let stop: Vec<&FoundHook> = found.iter().filter(|hook| hook.event == "Stop").collect();
    assert_eq!(stop[0].command, "bell");
    assert_eq!(stop[1].command, "'/opt/threadseal' hook claude-code");
    assert_eq!((stop[1].group, stop[1].timeout), (1, Some(20)));
    let matched = |event: &str| {
        let hook = found.iter().find(|hook| hook.event == event).unwrap();
        hook.matcher.clone()
    };
    assert_eq!(matched("PostToolUse").as_deref(), Some("*"));
    assert_eq!(matched("SessionStart"), None);
    // A second time changes nothing.
    let again = install(&added.text);
    assert_eq!(again.text, added.text);
    assert_eq!((again.kept, again.replaced), (1, wanted().len()));
}

// T-CAP-03
#[test]
fn a_removal_after_edits_of_the_user_leaves_his_comments_members_and_order() {
    let added = install(COMMENTED);
    let edited = added.text.replace("\"bell\"", "\"bell --twice\"");
    let edited = edited.replace("// my model", "// our model");
    let removed = remove(&edited, Some(COMMENTED));
    assert_eq!(removed.removed, wanted().len());
    let expected = COMMENTED.replace("\"bell\"", "\"bell --twice\"");
    let expected = expected.replace("// my model", "// our model");
    assert_eq!(removed.text, expected);
}

#[test]
fn what_was_empty_before_stays_empty_and_what_was_not_there_goes() {
    let before = "{\n  \"hooks\": {\n    \"Stop\": []\n  },\n  \"x\": 1\n}\n";
    let removed = remove(&install(before).text, Some(before));
    assert_eq!(removed.text, before);
    let removed = remove(&install("{\"x\": 1}").text, Some("{\"x\": 1}"));
    assert!(!removed.text.contains("hooks"), "{}", removed.text);
    assert!(!removed.is_empty);
    let removed = remove(&install("").text, None);
    assert!(removed.is_empty, "{}", removed.text);
}

// T-CAP-04
#[test]
fn hooks_of_another_version_or_place_are_changed_where_they_are() {
    let old = r#"{
  "hooks": {
    "Stop": [
      {"hooks": [
        {"type": "command", "command": "first"},
        {"type": "command", "command": "/old/threadseal hook claude-code", "timeout": 5}, // noted
        {"type": "command", "command": "last"}
      ]}
    ],
    "PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "/old/threadseal hook claude-code"}]}],
    "SubagentStart": [{"hooks": [{"type": "command", "command": "/old/threadseal hook claude-code"}]}]
  }
}"#;
    let new = install(old);
    assert_eq!((new.kept, new.replaced), (2, 3));
    assert!(!new.text.contains("/old/"), "{}", new.text);
    assert!(new.text.contains("// noted"), "{}", new.text);
    let found = hooks(&new.text, Shape::Grouped).unwrap();
    let stop: Vec<&str> = found
        .iter()
        .filter(|hook| hook.event == "Stop")
        .map(|hook| hook.command.as_str())
        .collect();
    assert_eq!(
        stop,
        ["first", "'/opt/threadseal' hook claude-code", "last"]
    );
    let tool = found
        .iter()
        .find(|hook| hook.event == "PostToolUse")
        .unwrap();
    assert_eq!(
        (tool.matcher.as_deref(), tool.timeout),
        (Some("*"), Some(20))
    );
    assert!(!new.text.contains("SubagentStart"), "{}", new.text);
    assert_eq!(install(&new.text).text, new.text);
}

#[test]
fn a_hook_of_ours_that_is_there_twice_is_left_once() {
    let once = install("{}").text;
    let doubled = once.replacen(
        "\"Stop\": [",
        "\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"'/opt/threadseal' hook claude-code\", \"timeout\": 20}]},",
        1,
    );
    assert_ne!(doubled, once);
    let mended = install(&doubled);
    let found = hooks(&mended.text, Shape::Grouped).unwrap();
    assert_eq!(found.len(), wanted().len());
}

// T-CAP-05
#[test]
fn settings_that_readers_take_in_two_ways_are_refused_with_the_place() {
    let refused = |text: &str| {
        let refused = with_hooks(text, Shape::Grouped, &wanted(), &ours);
        refused.unwrap_err().to_string()
    };
    assert!(refused("{\n  \"a\": 1,\n  oops\n}").contains("line 3"));
    assert!(refused("{\"a\": 1").contains("line 1"));
    assert!(refused("[]").contains("no JSON object"));
    assert!(refused("{\"hooks\": []}").contains("hooks is no object"));
    assert!(refused("{\"hooks\": {}, \"hooks\": {}}").contains("hooks twice"));
    assert!(refused("{\"hooks\": {\"Stop\": [], \"Stop\": []}}").contains("Stop twice"));
    assert!(refused("{\"hooks\": {\"Stop\": 3}}").contains("hooks.Stop is no list"));
    assert!(refused(&"{\"a\":".repeat(100_000)).contains("nesting"));
}

#[test]
fn line_ends_and_a_byte_order_mark_stay() {
    let text = "\u{feff}{\r\n\t\"model\": \"x\"\r\n}\r\n";
    let added = install(text).text;
    assert!(added.starts_with('\u{feff}') && added.ends_with("}\r\n"));
    assert!(!added.replace("\r\n", "").contains('\n'), "{added:?}");
    assert!(added.contains("\r\n\t\"hooks\": {"), "{added:?}");
    assert_eq!(remove(&added, Some(text)).text, text);
}

#[test]
fn a_file_of_copilot_has_flat_hooks_and_a_version() {
    let entries = hooks::entries(&command("/opt/threadseal", Agent::Copilot), System::Unix);
    let with = with_hooks("", Shape::Flat, &entries, &ours).unwrap();
    let value: serde_json::Value = serde_json::from_str(&with.text).unwrap();
    assert_eq!(value["version"], 1);
    assert_eq!(
        value["hooks"]["agentStop"][0],
        serde_json::json!({
            "type": "command",
            "bash": "'/opt/threadseal' hook copilot",
            "timeoutSec": 20
        })
    );
    let removed = without_hooks(&with.text, None, Shape::Flat, &ours).unwrap();
    assert!(removed.is_empty, "{}", removed.text);
}

#[test]
fn hooks_of_the_user_after_ours_are_counted_as_moved() {
    let mut text = install("{}").text;
    text = text.replacen(
        "\"Stop\": [",
        "\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"before\"}]},",
        1,
    );
    assert_eq!(remove(&text, None).moved, 0);
    let after = text.replacen(
        "\"SessionEnd\"",
        "\"Other\": [{\"hooks\": [{\"command\": \"threadseal hook claude-code\"}, {\"command\": \"after\"}]}], \"SessionEnd\"",
        1,
    );
    assert_eq!(remove(&after, None).moved, 1);
}

/// JSON objects with comments, in the manners of editors.
fn settings() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("-1.5e3".to_owned()),
        "[a-z /*\\-]{0,8}".prop_map(|text| format!("\"{text}\"")),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("{\"hooks\": {\"Stop\": []}}".to_owned()),
    ];
    let gap = prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n  ".to_owned()),
        Just("\n  // note {\n  ".to_owned()),
        Just("\n  // [\n".to_owned()),
        Just(" /* note */ ".to_owned()),
        Just("\n\n\t".to_owned()),
    ];
    let hooks = prop_oneof![
        Just(String::new()),
        Just("\"hooks\": {}".to_owned()),
        Just("\"hooks\": {\n    // none yet {\n  }".to_owned()),
        Just("\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"bell\"}]}]}".to_owned()),
        Just("\"hooks\": {\n    \"PostToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [\n        {\"command\": \"a\"}, // a\n        {\"command\": \"b\"}\n      ]},\n    ],\n  }".to_owned()),
    ];
    let members = proptest::collection::vec((gap.clone(), leaf, gap.clone()), 0..5);
    (
        gap.clone(),
        members,
        hooks,
        any::<bool>(),
        any::<bool>(),
        gap,
    )
        .prop_map(|(start, members, hooks, first, trailing, end)| {
            let mut parts: Vec<String> = members
                .into_iter()
                .enumerate()
                .map(|(index, (before, value, after))| {
                    format!("{before}\"m{index}\": {value}{after}")
                })
                .collect();
            if !hooks.is_empty() {
                let at = if first { 0 } else { parts.len() };
                parts.insert(at, hooks);
            }
            let comma = if trailing && !parts.is_empty() {
                ","
            } else {
                ""
            };
            format!("{start}{{{}{comma}{end}}}\n", parts.join(","))
        })
}

fn comments(text: &str) -> usize {
    let options = jsonc_parser::CollectOptions {
        comments: jsonc_parser::CommentCollectionStrategy::AsTokens,
        tokens: true,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &options, &ParseOptions::default()).unwrap();
    let tokens = parsed.tokens.unwrap();
    let is_comment = |text: &str| text.starts_with("//") || text.starts_with("/*");
    tokens
        .iter()
        .filter(|token| is_comment(&text[token.range.start..token.range.end]))
        .count()
}

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(&plain(&File::parse(text, Shape::Grouped).unwrap().root)).unwrap()
}

proptest! {
    // T-CAP-03
    #[test]
    fn any_settings_keep_values_and_comments_through_both_ways(text in settings()) {
        let added = install(&text);
        prop_assert_eq!(comments(&added.text), comments(&text));
        prop_assert_eq!(&install(&added.text).text, &added.text);
        let found = hooks(&added.text, Shape::Grouped).unwrap();
        prop_assert_eq!(found.iter().filter(|hook| ours(&hook.command)).count(), wanted().len());
        let removed = remove(&added.text, Some(&text));
        prop_assert_eq!(value(&removed.text), value(&text), "{}", removed.text);
        prop_assert_eq!(comments(&removed.text), comments(&text), "{}", removed.text);
    }
}
