//! What 0.1.0 made is opened, verified and continued by this build (`docs/stability.md`).
//!
//! ```text
//! crates/threadseal-cli/tests/kept/0.1.0.tar   home, home.marks, work: what the life in `frozen/home.rs` leaves
//! ```
//! The archive is never made anew: a build that cannot open it breaks the promise.

use crate::frozen::home::lineage_link;
use crate::prelude::*;
use threadseal_testkit::in_repository;

/// The kept files, in the place of a new sandbox.
fn kept(version: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let archive = in_repository(&format!("crates/threadseal-cli/tests/kept/{version}.tar"));
    let root = sandbox.home().parent().unwrap().to_owned();
    let mut archive = tar::Archive::new(fs::File::open(archive).unwrap());
    archive.set_preserve_permissions(true);
    archive.unpack(root).unwrap();
    sandbox
}

// T-LOG-52
#[test]
fn what_0_1_0_made_is_opened_verified_and_continued() {
    let sandbox = kept("0.1.0");
    sandbox.ok("log fsck");
    sandbox.ok("key list").prints("second");
    let verified = sandbox.ok("verify . --json").json();
    assert_eq!(verified["errors"], json!([]), "{verified}");
    let counts = &verified["summary"];
    assert_eq!(counts["verified"].number(), 23, "{counts}");
    sandbox.ok("verify object+file:../objects#one");
    sandbox.ok("ledger verify sqlite:l.db --run r2");
    sandbox.ok("lineage verify links");
    // Each kind continues where 0.1.0 stopped.
    let mut log = sandbox.read("c.log");
    log.push_str("{\"n\": 2}\n");
    sandbox.write("c.log", log);
    sandbox.ok("seal --detached c.log");
    sandbox.ok("seal open.jsonl");
    let step = "{\"node\":\"act\",\"result\":{\"text\":\"ha\"}}\n";
    piped(&sandbox, "ledger append sqlite:l.db --run r2 --sign", step).exits(0);
    sandbox.write("state.bin", "two");
    sandbox.ok(lineage_link(2));
    greet(&sandbox, "").exits(0);
    sandbox.write("new.json", "{\"n\": 3}\n");
    sandbox.ok("seal new.json");
    sandbox.ok("verify .");
    sandbox.ok("log fsck");
    // Its keys of each usage rotate, and all that it sealed stays whole.
    for name in ["self-observed", "self-scroll", "self-rye"] {
        sandbox.ok(format!("key rotate {name}"));
    }
    sandbox.ok("verify .");
    let mut log = sandbox.read("c.log");
    log.push_str("{\"n\": 4}\n");
    sandbox.write("c.log", log);
    sandbox.ok("seal --detached c.log");
    sandbox.ok("verify .");
    sandbox.ok("log fsck");
}

// T-LOG-52
#[test]
fn a_change_to_what_0_1_0_made_is_found() {
    let sandbox = kept("0.1.0");
    for name in [
        "a.json",
        "c.log",
        "open.jsonl",
        "runs/ledger_r1.jsonl",
        "s.json",
    ] {
        let honest = sandbox.read(name);
        let at = honest.len() / 3;
        let digit = honest[at..].find(|c: char| c.is_ascii_digit()).unwrap() + at;
        let other = if honest.as_bytes()[digit] == b'1' {
            "2"
        } else {
            "1"
        };
        let changed = format!("{}{other}{}", &honest[..digit], &honest[digit + 1..]);
        sandbox.write(name, changed);
        assert_ne!(sandbox.sh(format!("verify {name}")).code, 0, "{name}");
        sandbox.write(name, honest);
    }
}
