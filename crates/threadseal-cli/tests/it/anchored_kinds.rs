//! The knowledge that only the log has of ledgers, scrolls, documents, lineages and observed logs.
//! An older copy, a cut and a fork are found even without a store of heads, or with an older one.

use crate::prelude::*;
use crate::scroll::turn;

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";

/// The kinds, and the path of each that is verified.
const KINDS: [(&str, &str); 5] = [
    ("ledger", "k/ledger_r1.jsonl"),
    ("scroll", "k/s.jsonl"),
    ("document", "k/d.json"),
    ("lineage", "k/agents"),
    ("observed", "k/a.log"),
];

/// Seals one more version, turn, step, link or line of a kind, from a home.
pub(crate) fn go_on(sandbox: &Sandbox, home: &Path, kind: &str, number: u64, text: &str) {
    let path = sandbox.path("k");
    let run = |arguments: &str, input: &str| {
        let all = format!("--home {home:?} {arguments}");
        piped(sandbox, &all, input).exits(0);
    };
    match kind {
        "ledger" => {
            let step = format!("{{\"node\":\"n{number}\",\"result\":{{\"text\":\"{text}\"}}}}\n");
            run("ledger append file:k --run r1 --sign", &step);
        }
        "scroll" => run(
            "scroll seal --append k/s.jsonl --key self-scroll",
            &turn(number, text),
        ),
        "document" => {
            let before = fs::read_to_string(path.join("d.json")).unwrap_or_default();
            let old = before
                .split("\"v\":\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let new = match old {
                Some(old) => {
                    before.replacen(&format!("\"v\":\"{old}\""), &format!("\"v\":\"{text}\""), 1)
                }
                None => format!("{{\"v\":\"{text}\"}}\n"),
            };
            sandbox.write("k/d.json", new);
            run("seal --inline k/d.json", "");
        }
        "lineage" => {
            sandbox.write("state", text);
            let tick = number.to_string();
            let own = "lineage append k/agents --agent counter --state state --budget 9 --price 1";
            run(&format!("{own} --tick {tick} --code {CODE}"), "");
        }
        _ => {
            let before = fs::read_to_string(path.join("a.log")).unwrap_or_default();
            sandbox.write("k/a.log", before + text + "\n");
            run("seal --detached k/a.log", "");
        }
    }
}

/// Three seals of each kind; `between` has the records and the home as they were after two.
fn world(kind: &str) -> Sandbox {
    let sandbox = ready();
    fs::create_dir(sandbox.path("k")).unwrap();
    let home = sandbox.home();
    go_on(&sandbox, &home, kind, 0, "one");
    go_on(&sandbox, &home, kind, 1, "two");
    let between = sandbox.path("between");
    copy(&sandbox.home(), &between.join("home"));
    copy(&sandbox.path("k"), &between.join("k"));
    go_on(&sandbox, &home, kind, 2, "three");
    sandbox
}

fn put(sandbox: &Sandbox, from: &str, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    copy(&sandbox.path(from), to);
}

/// Checks the verdict and the check `log`, with the store of heads gone, and with an older one.
#[track_caller]
fn told(sandbox: &Sandbox, path: &str, verdicts: &[&str]) {
    let heads = sandbox.home().join("heads");
    for older in [false, true] {
        match older {
            true => put(sandbox, "between/home/heads", &heads),
            false => {
                empty(&heads);
            }
        }
        let output = sandbox.exits(1, format!("verify {path} --json")).json();
        let report = &output["results"][0];
        let verdict = report["verdict"].text();
        assert!(
            verdicts.contains(&verdict),
            "{path}, older {older}: {report}"
        );
        let log = report["checks"].item("name", "log");
        assert_eq!(log["result"], "fail", "{path}, older {older}: {report}");
    }
}

// T-LOG-03
#[test]
fn the_log_alone_finds_an_older_copy_of_every_kind() {
    for (kind, path) in KINDS {
        let sandbox = world(kind);
        sandbox.ok(format!("verify {path}"));
        put(&sandbox, "between/k", &sandbox.path("k"));
        told(&sandbox, path, &["rolled_back"]);
    }
}

// T-LOG-03
#[test]
fn the_log_alone_finds_another_continuation_of_every_kind() {
    for (kind, path) in KINDS {
        let sandbox = world(kind);
        let stolen = sandbox.path("stolen");
        put(&sandbox, "between/home", &stolen);
        // Without a log nothing stops the copy of the home from sealing.
        take_log_away(&stolen);
        put(&sandbox, "between/k", &sandbox.path("k"));
        go_on(&sandbox, &stolen, kind, 2, "forged");
        told(&sandbox, path, &["forked"]);
    }
}

// T-LOG-03
#[test]
fn the_log_alone_finds_a_cut_by_hand() {
    for (kind, path) in [KINDS[0], KINDS[1]] {
        let sandbox = world(kind);
        let file = sandbox.path(path);
        let text = read(&file);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        fs::write(&file, lines[..lines.len() - 1].concat()).unwrap();
        told(&sandbox, path, &["rolled_back", "truncated"]);
    }
}

#[test]
fn entries_of_every_kind_name_who_sealed_and_roots_where_there_are_any() {
    for (kind, _) in KINDS {
        let sandbox = world(kind);
        let listed = sandbox.json("log entries --from 0 --limit 100");
        let of_kind = format!("head/{kind}");
        let entries = listed["entries"].list().iter();
        let entries: Vec<&Value> = entries
            .filter(|entry| entry["entry"]["type"] == of_kind)
            .collect();
        assert!(entries.len() >= 3, "{listed}");
        for entry in entries {
            let entry = entry.to_string();
            entry.has("\"key\":\"");
            // That of a ledger or scroll is the digest of the signatures in it.
            let has_root = matches!(kind, "observed" | "ledger" | "scroll");
            assert_eq!(entry.contains("\"root\":\""), has_root, "{entry}");
        }
    }
}
