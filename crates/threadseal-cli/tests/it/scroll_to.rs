//! `scroll to`: a verified scroll is written; any other input is only named.

use crate::prelude::*;

const TURNS: &str = concat!(
    r#"[{"version":"scroll/0.1","turn":0,"role":"user","model":{"vendor":"v","id":"m"},"#,
    r#""params":{"temperature":1,"top_p":1},"messages":[{"role":"user","content":"hi"}],"#,
    r#""timestamp_ns":1700000000000000000}]"#
);

/// A scroll of one turn, in a file called `name`, signed or not.
fn scroll(sandbox: &Sandbox, name: &str, signed: bool) -> String {
    let turns = sandbox.write("turns.json", TURNS);
    let out = sandbox.path(name);
    let (turns, out) = (turns.to_str().unwrap(), out.to_str().unwrap());
    let key = if signed { "--key self-scroll" } else { "" };
    let arguments = format!("scroll seal {turns:?} --out {out} {key}");
    sandbox.ok(arguments);
    out.to_owned()
}

#[test]
fn a_verified_scroll_is_written_in_every_format_with_an_account() {
    let sandbox = ready();
    let signed = scroll(&sandbox, "a.json", true);
    for (format, part) in [
        (
            "anthropic",
            r#""messages":[{"content":"hi","role":"user"}]"#,
        ),
        ("openai", r#""messages":[{"content":"hi","role":"user"}]"#),
        ("atif", r#""timestamp":"2023-11-14T22:13:20Z""#),
        ("markdown", "## Turn 0: user"),
    ] {
        let ran = sandbox
            .ok(format!("scroll to {format:?} {signed}"))
            .prints(part)
            .warns_nothing();
        let work = sandbox.work();
        let (out, account) = (work.join(format), work.join(format!("{format}.account")));
        let (out, account) = (out.to_str().unwrap(), account.to_str().unwrap());
        let write = format!("scroll to {format} {signed} --out {out} --account {account:?}");
        sandbox.ok(&write);
        assert_eq!(read(out), ran.stdout);
        let account = read(account);
        account.has("threadseal.scroll.to/1");
        schemas::check(&account);
        sandbox.exits(2, &write);
    }
    sandbox.exits(2, format!("scroll to poem {signed:?}"));
}

// T-SCR-25
#[test]
fn an_unverified_scroll_is_converted_only_on_request() {
    let sandbox = ready();
    let unsigned = scroll(&sandbox, "unsigned.json", false);
    let text = read(&unsigned);
    let other = sandbox.write("other.json", text.replace("17000", "16000"));
    let changed = other.to_str().unwrap();
    let ran = sandbox.exits(1, format!("scroll to openai {changed}"));
    assert_eq!(ran.stdout, "");
    ran.stderr.has("tampered");
    let out = sandbox.path("never");
    let report = sandbox
        .exits(1, format!("scroll to atif {changed} --out {out:?} --json"))
        .json();
    assert_eq!(report["results"][0]["verdict"], "tampered");
    assert!(!out.exists());
    let ran = sandbox.exits(1, format!("scroll to openai {changed:?} --anyway"));
    assert_eq!(ran.stdout, "");
    ran.stderr
        .has("the scroll is tampered, so nothing was written");
    let sandbox = ready();
    let foreign = sandbox.write("foreign.json", text);
    sandbox
        .exits(3, format!("scroll to openai {foreign:?}"))
        .warns("consistent");
    sandbox
        .exits(3, format!("scroll to openai {foreign:?} --anyway"))
        .prints("hi")
        .warns("warning: the scroll is consistent");
    let none = sandbox.write("none.json", "[{}]");
    sandbox.exits(1, format!("scroll to openai {none:?} --anyway"));
}

// T-SCR-23
#[test]
fn output_of_an_unverified_scroll_is_marked() {
    let sandbox = ready();
    let good = scroll(&sandbox, "good.json", true);
    let head = sandbox.ok(format!("scroll head {good:?}")).stdout;
    let stranger = ready();
    let sentence =
        "This was made from a scroll that was not verified: its verdict was unknown_signer.";
    for (format, shows) in [
        ("markdown", true),
        ("atif", true),
        ("openai", false),
        ("anthropic", false),
    ] {
        let account = sandbox.path(format);
        let to = format!("scroll to {format} --anyway {good}");
        let ran = stranger.exits(3, format!("{to} --account {account:?}"));
        assert_eq!(ran.stdout.contains(sentence), shows, "{}", ran.stdout);
        json_file(&account).is(json!({"verified": null, "verdict": "unknown_signer"}));
        let account = sandbox.path(format!("{format}.good"));
        sandbox
            .ok(format!("{to} --account {account:?}"))
            .omits("not verified");
        json_file(&account).is(json!({"verified": head.trim(), "verdict": "verified"}));
    }
    sandbox
        .ok(format!("scroll to markdown {good:?}"))
        .prints(&format!("verified up to {}", head.trim()));
}

// T-SCR-38
#[test]
fn no_evidence_against_a_scroll_is_converted_away() {
    let sandbox = ready();
    // The seals beside the file are of a longer scroll.
    let two = crate::scroll::signed(&sandbox, "two.json", 2);
    sandbox.ok(format!("scroll convert {two} --to lines --out lines.jsonl"));
    let lines = sandbox.path("lines.jsonl");
    sandbox.ok(format!("seal {lines:?} --detached"));
    sandbox.is_good(&format!("{lines:?}"));
    cut_line(&lines);
    // This host knows a longer scroll that begins with the same turn.
    let text = read(&two);
    let end = text.find("},{\"hash\"").unwrap();
    let cut = sandbox.write("cut.json", format!("{}}}]", &text[..end]));
    let (lines, cut) = (lines.to_str().unwrap(), cut.to_str().unwrap());
    for (path, verdict) in [(lines, "truncated"), (cut, "truncated")] {
        sandbox.exits(1, format!("verify {path}"));
        for command in [
            "scroll to markdown",
            "scroll to atif --anyway",
            "scroll convert --to array",
            "scroll convert --to lines --json",
        ] {
            let out = sandbox.path("out");
            sandbox.exits(1, format!("{command} {path} --out {out:?}"));
            assert!(!out.exists(), "{command} {path}");
            let ran = sandbox.exits(1, format!("{command} {path}"));
            ran.stderr.has("nothing was written");
            assert!(!ran.stdout.contains("content"), "{verdict}: {}", ran.stdout);
        }
    }
    let piped = piped(&sandbox, "scroll convert --to lines", &read(cut)).exits(1);
    assert_eq!(piped.stdout, "");
    sandbox.ok(format!("scroll convert --to lines {two}"));
}

// T-SCR-22
#[test]
fn no_turn_can_claim_a_verdict_or_begin_another_turn_in_markdown() {
    let sandbox = ready();
    let evil = concat!(
        "\\u001b[2Jx\\n```\\n</code>\\n# Scroll\\n````\\n```\\n\\n## Turn 7: system\\n",
        "- ## Turn 8: system\\n\\\\<script>\\n\\\\![x](http://x/y)\\nx\\r## Turn 9: system\\n===",
    );
    let turns = TURNS
        .replacen("\"hi\"", &format!("\"{evil}\""), 1)
        .replacen(
            r#""messages":[{"#,
            &format!(r#""messages":[{{"role":"{evil}","content":[{{"type":"{evil}"}}]}},{{"#),
            1,
        );
    let turns = sandbox.write("evil.json", turns);
    let out = sandbox.path("evil.scroll");
    let (turns, path) = (turns.to_str().unwrap(), out.to_str().unwrap());
    sandbox.ok(format!(
        "scroll seal {turns:?} --key self-scroll --out {path}"
    ));
    let text = sandbox.ok(format!("scroll to markdown {path}")).stdout;
    let mut fence = "";
    let mut headings = Vec::new();
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        if fence.is_empty() && ticks.len() > 2 {
            fence = ticks;
        } else if !fence.is_empty() {
            let closes = ticks == line && ticks.len() >= fence.len();
            fence = if closes { "" } else { fence };
        } else {
            headings.extend(line.trim_start_matches(['-', ' ']).strip_prefix('#'));
            assert!(
                !line.starts_with("\\\\<") && !line.starts_with("\\\\!"),
                "{line}"
            );
        }
    }
    assert_eq!(fence, "", "{text}");
    assert_eq!(headings.len(), 3, "{headings:?}");
    assert!(headings[1].starts_with("# Turn 0: user"), "{headings:?}");
    assert!(headings[2].starts_with("## Other: "), "{headings:?}");
    assert!(!text.contains('\u{1b}') && !text.contains('\r'));
}
