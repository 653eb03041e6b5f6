//! Content that redaction removes, and content that it keeps.

use super::super::find;
use super::*;
use crate::account::Group;
use threadseal_core::canon::json::parse;
use threadseal_formats::scroll::serialize;

/// Finds `SECRETn` for digits n, the value of a member called `password`, and the text between
/// `OPEN` and `CLOSE`.
struct Marked;

impl Detector for Marked {
    fn find(&self, text: &str) -> Vec<Secret> {
        let mut found: Vec<Secret> = text
            .match_indices("SECRET")
            .map(|(start, word)| Secret {
                place: start..start + word.len() + 1,
                rule: "marked".into(),
            })
            .filter(|secret| secret.place.end <= text.len())
            .collect();
        if let Some(start) = text.find("OPEN") {
            let end = text.find("CLOSE").map(|end| end + "CLOSE".len());
            found.push(Secret {
                place: start..end.unwrap_or(start + "OPEN".len()),
                rule: "block".into(),
            });
        }
        if let (Some(rest), []) = (text.strip_prefix("password=\""), found.as_slice()) {
            let end = rest.find('"').unwrap_or(rest.len());
            found.push(Secret {
                place: 10..10 + end,
                rule: "named".into(),
            });
        }
        found
    }
}

fn mapped(messages: &str) -> Mapped {
    find("mini-swe-agent")
        .unwrap()
        .map(messages.as_bytes())
        .unwrap()
}

fn turns(mapped: Mapped) -> Vec<String> {
    let turns = mapped.into_turns().unwrap();
    turns
        .iter()
        .map(|turn| String::from_utf8(serialize(turn)).unwrap())
        .collect()
}

fn jcs_text(text: &str) -> String {
    String::from_utf8(threadseal_core::canon::jcs::to_vec(&text.into()).unwrap()).unwrap()
}

fn told(mapped: &Mapped) -> Vec<String> {
    let told = |group: Group<'_>| format!("{} {} {}", group.lines, group.pointer, group.reason);
    mapped.account.redacted().map(told).collect()
}

const CALL: &str = r#"[{"role":"user","content":"please"},
    {"role":"assistant","content":"I run\n  ls -la /home\nnow","tool_calls":[
      {"id":"c1","function":{"name":"bash","arguments":"{\"command\":\"ls -la /home\",\"n\":1}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"alice\nbob"},
    {"role":"assistant","content":"There is alice\nand\nalice\n"},
    {"role":"user","content":[{"type":"blob","input":{"n":1,"command":"ls -la /home"}},{"type":"text","text":"alice\nbob"}]}]"#;

// T-SCR-29
#[test]
fn bodies_are_left_out_everywhere_and_their_hashes_stay() {
    let whole = mapped(CALL);
    let hash = whole.turns()[1].tool_calls[0].args_hash;
    let answer = whole.turns()[2].tool_results[0].response_hash;
    let redacted = redact(whole, Bodies::All, &Marked);
    assert_eq!(redacted.turns()[1].tool_calls[0].args, None);
    assert_eq!(redacted.turns()[1].tool_calls[0].args_hash, hash);
    assert_eq!(redacted.turns()[2].tool_results[0].response, None);
    assert_eq!(
        told(&redacted),
        [
            "4 /messages/0/content/0/input repeats a body",
            "4 /messages/0/content/0/input/command repeats a body",
            "1, 3 /messages/0/content/0/text repeats a body",
            "4 /messages/0/content/1/text repeats a body",
            "1 /tool_calls/0/args body",
            "2 /tool_results/0/response body",
        ]
    );
    let turns = turns(redacted);
    let all = turns.concat();
    assert!(!all.contains("ls -la") && !all.contains("bob"), "{all}");
    assert!(
        turns[1].contains(&format!("I run\\n  [redacted sha256:{hash}]\\nnow")),
        "{}",
        turns[1]
    );
    assert!(turns[3].contains(&format!(
        "There is alice\\nand\\n[redacted sha256:{answer}]\\n"
    )));
    assert!(turns[4].contains(&format!("\"input\":\"[redacted sha256:{hash}]\"")));
    assert!(turns[4].contains("\"type\":\"blob\""));
}

#[test]
fn only_bodies_with_secrets_are_left_out_if_that_is_asked() {
    let source = r#"[{"role":"assistant","content":"SECRET1 and no more","tool_calls":[
        {"id":"a","function":{"name":"f","arguments":"{\"x\":\"open\"}"}},
        {"id":"b","function":{"name":"f","arguments":"{\"password\":\"hunter2\"}"}},
        {"id":"c","function":{"name":"f","arguments":"{\"SECRET3\":1}"}}],
        "note":{"password":"hunter2","SECRET2":"x","deep":[{"password":"other"}]}}]"#;
    let redacted = redact(mapped(source), Bodies::WithSecrets, &Marked);
    let calls = &redacted.turns()[0].tool_calls;
    let kept: Vec<_> = calls.iter().map(|call| call.args.is_some()).collect();
    assert_eq!(kept, [true, false, false]);
    let report = told(&redacted).join("\n");
    assert!(
        !report.contains("SECRET") && !report.contains("hunter2"),
        "{report}"
    );
    let turn = turns(redacted).remove(0);
    for gone in ["SECRET", "hunter2", "other"] {
        assert!(!turn.contains(gone), "{gone} in {turn}");
    }
    assert!(
        turn.contains("[redacted marked] and no more") && turn.contains("[redacted named]"),
        "{turn}"
    );
    assert!(
        report.contains("/tool_calls/1/args named") && report.contains("name of a member"),
        "{report}"
    );
}

#[test]
fn a_secret_that_a_list_breaks_into_parts_is_hidden_in_all_of_them() {
    let source = r#"[{"role":"user","content":[
        {"type":"text","text":"see OPEN"},{"type":"text","text":"first half"},
        {"type":"text","text":"second halfCLOSE, and so on"},
        {"type":"blob","lines":["before","x OPEN","third half","CLOSE y","after"],
         "numbered":[{"n":1,"line":"OPEN"},{"n":2,"line":"fourth half"},{"n":3,"line":"CLOSE"}]}],
        "note":[{"deep":["OPEN","","fifth half","CLOSE"]}]}]"#;
    let redacted = redact(mapped(source), Bodies::WithSecrets, &Marked);
    let report = told(&redacted).join("\n");
    let turn = turns(redacted).remove(0);
    for gone in ["half", "OPEN", "CLOSE"] {
        assert!(!turn.contains(gone), "{gone} in {turn}");
    }
    for stays in [
        "see [redacted block]",
        "[redacted block], and so on",
        r#"["before","x [redacted block]","[redacted block]","[redacted block] y","after"]"#,
        r#"{"line":"[redacted block]","n":2}"#,
    ] {
        assert!(turn.contains(stays), "{stays} not in {turn}");
    }
    assert!(report.contains("/lines/2 block"), "{report}");
}

#[test]
fn a_body_whose_list_breaks_a_secret_into_parts_is_left_out() {
    let call = |args: &str| {
        let args = jcs_text(args);
        format!(
            r#"[{{"role":"assistant","content":"x","tool_calls":[
                {{"id":"a","function":{{"name":"f","arguments":{args}}}}}]}},
               {{"role":"user","content":[{{"type":"blob","same":["a","OPEN","half","CLOSE"]}}]}}]"#
        )
    };
    for (args, kept) in [
        (r#"{"lines":["a","OPEN","half","CLOSE"]}"#, false),
        (r#"{"env":[{"name":"password","value":"hunter2"}]}"#, false),
        (
            r#"[{"key":"password","value":{"stringValue":"hunter2"}}]"#,
            false,
        ),
        (r#"{"argv":["login","--password","hunter2"]}"#, false),
        (
            r#"{"name":"x","value":"hunter2","argv":["-v","--","x"]}"#,
            true,
        ),
    ] {
        let redacted = redact(mapped(&call(args)), Bodies::WithSecrets, &Marked);
        let turns = redacted.turns();
        assert_eq!(turns[0].tool_calls[0].args.is_some(), kept, "{args}");
        let all = self::turns(redacted).concat();
        assert!(!all.contains("half"), "{all}");
    }
}

#[test]
fn a_value_is_known_by_the_name_that_stands_beside_it() {
    let source = r#"[{"role":"user","content":"x","note":{
        "env":[{"name":"password","value":"one1"},{"name":"PATH","value":"/bin"}],
        "attributes":[{"key":"password","value":{"stringValue":"two2"}}],
        "argv":["tool","--password","three3","--verbose","four4"]}}]"#;
    let turn = turns(redact(mapped(source), Bodies::WithSecrets, &Marked)).remove(0);
    for gone in ["one1", "two2", "three3"] {
        assert!(!turn.contains(gone), "{gone} in {turn}");
    }
    assert!(turn.contains("/bin") && turn.contains("four4"), "{turn}");
}

#[test]
fn a_list_that_repeats_a_body_and_holds_a_broken_secret_is_that_body() {
    let source = r#"[{"role":"assistant","content":"x","tool_calls":[
        {"id":"a","function":{"name":"f","arguments":"[\"OPEN\",\"half\",\"CLOSE\"]"}}]},
        {"role":"user","content":[{"type":"blob","all":[["OPEN","half","CLOSE"],"z"]}]}]"#;
    let whole = mapped(source);
    let hash = whole.turns()[0].tool_calls[0].args_hash;
    let turn = turns(redact(whole, Bodies::All, &Marked)).remove(1);
    let marker = format!(r#""all":["[redacted sha256:{hash}]","z"]"#);
    assert!(turn.contains(&marker), "{turn}");
}

#[test]
fn words_that_give_an_item_its_meaning_stay() {
    let source = r#"[{"role":"assistant","content":"text","tool_calls":[{"id":"tool_call",
        "function":{"name":"f","arguments":"{\"x\":\"tool_call\\ntext\\nchat\"}"}}]}]"#;
    let turn = turns(redact(mapped(source), Bodies::All, &Marked)).remove(0);
    assert!(
        turn.contains(r#"{"id":"tool_call","type":"tool_call"}"#),
        "{turn}"
    );
    assert!(turn.contains(r#""text":"[redacted sha256:"#), "{turn}");
}

#[test]
fn a_scroll_that_holds_no_secret_is_not_changed() {
    let whole = mapped(CALL);
    assert_eq!(redact(whole.clone(), Bodies::WithSecrets, &Marked), whole);
}

#[test]
fn names_of_members_that_become_the_same_stay_apart() {
    let source = r#"[{"role":"user","content":"x","note":{"SECRET1":1,"SECRET2":2}}]"#;
    let turn = turns(redact(mapped(source), Bodies::All, &Marked)).remove(0);
    assert!(
        turn.contains(r#"{"[redacted marked]":1,"[redacted marked] #2":2}"#),
        "{turn}"
    );
}

// T-SCR-29
#[test]
fn pointers_of_the_account_do_not_tell_secrets() {
    let mut account = Account::default();
    for line in [1, 2, 4] {
        account.drop_part(
            line,
            &format!("/SECRET{line}"),
            super::super::Reason::Unknown,
        );
    }
    let mapped = redact(
        Mapped {
            drafts: super::super::Drafts::default(),
            account,
        },
        Bodies::All,
        &Marked,
    );
    let dropped: Vec<_> = mapped
        .account
        .dropped()
        .map(|group| (group.pointer, group.lines.ranges()))
        .collect();
    assert_eq!(dropped, [("/[redacted marked]", &[(1, 2), (4, 4)][..])]);
}

#[test]
fn a_value_is_recognised_whatever_the_order_of_its_members() {
    let one = parse(br#"{"a":[1,"x"],"b":null}"#).unwrap();
    let other = parse(br#"{"b":null,"a":[1,"x"]}"#).unwrap();
    assert_eq!(print(&one), print(&other));
    for different in [
        &br#"{"a":[1,"x"],"b":0}"#[..],
        b"[]",
        b"{}",
        b"\"\"",
        br#"{"a":["x",1],"b":null}"#,
    ] {
        assert_ne!(print(&one), print(&parse(different).unwrap()));
    }
}
