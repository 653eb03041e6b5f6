//! Keys that ended: every command that would seal with one is refused, and writes nothing.

use crate::prelude::*;

/// Each of these commands is refused, and leaves the working folder as it is.
fn refused(sandbox: &Sandbox, commands: &[&str], why: &[&str]) {
    let before = tree_digest(&sandbox.work());
    for command in commands {
        let ran = sandbox.exits(2, command).warns("cannot seal any more");
        for part in why {
            assert!(ran.stderr.contains(part), "{command}: {}", ran.stderr);
        }
        assert_eq!(tree_digest(&sandbox.work()), before, "{command:?}");
    }
}

/// The commands that need a native key, in a project with a thread, an open record and a ledger.
fn native(thread: &str) -> [&str; 9] {
    [
        "seal new.json",
        "seal old.json new.json",
        "seal open.jsonl --final",
        "run demo/greet --project p -i name=Ada --script answers.yaml",
        thread,
        "ledger append file:new --run r1 --sign",
        "ledger sign open.jsonl",
        "key delegate open.jsonl --to self",
        "prune --yes ended.jsonl --reason x",
    ]
}

// T-KLOG-01
#[test]
fn no_command_seals_with_a_key_that_ended() {
    for (end, how) in [("key", ": revoked)"), ("trust", ": stolen)")] {
        let sandbox = project();
        let thread = greeted(&sandbox, "");
        drop(recorder(&sandbox, "open.jsonl", 1));
        drop(recorder(&sandbox, "ended.jsonl", 1));
        sandbox.ok("seal ended.jsonl --final");
        for name in ["old.json", "new.json"] {
            sandbox.write(name, "{}\n");
        }
        sandbox.ok("seal old.json");
        let ended = sandbox.ok(format!("{end} revoke self --reason stolen"));
        let next = "hint: threadseal key rotate self";
        assert!(
            end == "trust" || ended.stderr.contains(next),
            "{}",
            ended.stderr
        );
        refused(
            &sandbox,
            &native(&once_more(&thread)),
            &["the key self has ended", how, next],
        );
        // Existing records verify, and `key rotate` is a way out.
        sandbox.ok("key rotate self");
        sandbox.ok("seal new.json");
        sandbox.ok("verify new.json");
        if end == "key" {
            // After an end by the clock, nothing proves that the project was sealed before that
            // end.
            greeted(&sandbox, "");
        }
    }
}

// T-KLOG-01
#[test]
fn a_rotated_key_names_its_successor() {
    let sandbox = ready();
    let own = sandbox.key("self");
    let old = format!("self-{}", &own["key_id"].text()[..8]);
    sandbox.ok("key rotate self");
    sandbox.write("new.json", "{}\n");
    let seal = format!("seal new.json --key {old}");
    refused(
        &sandbox,
        &[&seal],
        &[&old, ": rotated)", "its successor, self"],
    );
    // Removing the key from the trust store changes nothing.
    sandbox.ok(format!("trust remove {old} --anyway"));
    refused(&sandbox, &[&seal], &[": rotated)"]);
}

// T-KLOG-01
#[test]
fn keys_of_other_usages_end_in_the_trust_store() {
    let sandbox = ready();
    sandbox.write("some.jsonl", "{\"a\":1}\n");
    sandbox.write("turns.json", "[]");
    for (name, command) in [
        ("self-observed", "seal --detached some.jsonl"),
        ("self-observed", "watch ."),
        ("self-rye", "seal --profile rye some.jsonl"),
        ("self-scroll", "scroll seal turns.json --key self-scroll"),
    ] {
        sandbox.ok(format!("trust revoke {name}"));
        let next = format!("hint: threadseal key rotate {name}");
        refused(&sandbox, &[command], &[name, &next]);
    }
    // Only native seals make a native record count, so its Rye key cannot replace the native one.
    drop(recorder(&sandbox, "open.jsonl", 1));
    sandbox.ok("seal open.jsonl --final");
    sandbox.ok("verify open.jsonl");
}
