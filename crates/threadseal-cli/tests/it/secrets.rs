//! No command prints a secret from an address, wherever the address is given, and no file contains
//! it afterwards.

use crate::fleet::{cluster, database_of};
use crate::prelude::*;

/// Commands that read, write, name or refuse an address, which replaces `{}`.
const COMMANDS: [&str; 52] = [
    "seal {}",
    "seal --final {}",
    "seal --detached {}",
    "verify {}",
    "verify --all {}",
    "verify f.jsonl --trust {}",
    "verify f.jsonl --policy {}",
    "verify f.jsonl --expect-head {}",
    "show {}",
    "messages {}",
    "render {}",
    "prove {} --turn 1",
    "check-proof {}",
    "redact {} --line 2",
    "prune --yes {}",
    "prune --yes {} --run r",
    "prune --yes {} --agent a",
    "diff {} f.jsonl",
    "watch {}",
    "fsck {}",
    "run demo/greet --database {}",
    "run demo/greet --project {}",
    "worker --database {}",
    "thread list --database {}",
    "thread resume {}",
    "thread handoff {}",
    "thread recover x --database {}",
    "thread transcript {}",
    "graph validate {}",
    "transcript list {}",
    "transcript head {}",
    "transcript import f.jsonl {}",
    "transcript export {} --out out.jsonl",
    "scroll verify {}",
    "scroll seal {}",
    "ledger append {} --run r",
    "ledger verify {}",
    "ledger sign {}",
    "ledger import f.jsonl {}",
    "lineage append {}",
    "lineage verify {}",
    "lineage accept f.jsonl {}",
    "log mark add {}",
    "log mark remove {}",
    "log publish {}",
    "log fsck {}",
    "log restart --anyway --mark {}",
    "anchor add --tsa {} --root {}",
    "key export {}",
    "trust add {}",
    // This takes one address only; the next one reports an unknown option.
    "trust list {}",
    "init --no-such-option={}",
];

const ADDRESSES: [&str; 6] = [
    "s3://key:hidden@bucket/p#demo-1",
    "postgres://user:hidden@127.0.0.1:1/db#demo-1",
    "postgres://127.0.0.1:1/db?password=hidden",
    "postgres://user:hid%2Fhidden@x@127.0.0.1:1/db",
    "https://user:hidden@127.0.0.1:1/x",
    "ftp://user:hidden@127.0.0.1:1/x",
];

#[track_caller]
fn says_nothing(ran: &Ran, secret: &str) {
    for text in [&ran.stdout, &ran.stderr] {
        text.lacks(secret);
    }
}

/// No file below contains the secret.
fn keeps_nothing(folder: &Path, secret: &str) {
    for path in walk(folder).into_iter().filter(|path| path.is_file()) {
        let bytes = fs::read(&path).unwrap();
        let found = bytes
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

// T-CMD-05
#[test]
fn no_command_repeats_the_secret_of_an_address() {
    let sandbox = ready();
    sandbox.write("f.jsonl", "{\"event_type\":\"x\",\"payload\":{}}\n");
    for command in COMMANDS {
        for address in ADDRESSES {
            for more in ["", "--json"] {
                let line = command.replace("{}", address);
                let ran = sandbox.sh(format!("{line} {more}"));
                assert_ne!(ran.code, 0, "{command:?} {address}");
                says_nothing(&ran, "hidden");
            }
        }
    }
    keeps_nothing(&sandbox.home(), "hidden");
    keeps_nothing(&sandbox.home().with_file_name("home.marks"), "hidden");
}

/// A store that exists and needs its password: reports and files about it leave the password out.
// T-CMD-05
#[test]
fn records_in_a_database_are_reported_without_its_password() {
    let Some(cluster) = cluster() else {
        return;
    };
    let (sandbox, secret) = (ready(), "correct%20horse");
    let (base, port) = (cluster.fresh(), cluster.port());
    let database = database_of(&base);
    let url = format!("postgres://threadseal:{secret}@127.0.0.1:{port}/{database}");
    let append = format!("ledger append {url} --run r1 --sign");
    piped(&sandbox, &append, "{\"node\":\"plan\"}\n").exits(0);
    let commands: [&str; 7] = [
        &format!("verify {url}"),
        "verify --all",
        &format!("verify --all {url}"),
        &format!("ledger list {url}"),
        &format!("ledger head {url} --run r1"),
        &format!("fsck {url}"),
        &format!("prune --yes {url} --run r1 --older-than 0h --reason done"),
    ];
    for command in commands {
        for more in ["", "--json"] {
            says_nothing(&sandbox.sh(format!("{command} {more}")), secret);
        }
    }
    assert!(sandbox.home().join("tombstones").exists());
    keeps_nothing(&sandbox.home(), secret);
    let wrong = url.replace(secret, "wrong%20horse");
    for command in [&format!("verify {wrong}"), &format!("fsck {wrong:?}")] {
        says_nothing(&sandbox.exits(2, command), "wrong%20horse");
    }
}
