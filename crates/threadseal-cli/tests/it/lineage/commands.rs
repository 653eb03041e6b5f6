//! `lineage inspect`, `log`, `fork-proof` and `check-proof`, on lineages that the tests make.

use crate::prelude::*;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_formats::lineage::{
    AgentName, CheckpointHeader, ContentHash, Epoch, LinkKind, MediaType, NativeHeader, StateSeal,
    Version, Writer, seal_native, seal_original,
};

fn key() -> PrivateKey {
    PrivateKey::from_seed([7; 32])
}

fn did() -> String {
    key().public_key().to_did_key()
}

fn header(version: Version, prev: Option<ContentHash>, tick: u64) -> CheckpointHeader {
    CheckpointHeader {
        version,
        budget: 2_500_000,
        price: 10,
        tick,
        code: Digest::of(b"code"),
        epoch: Epoch::default(),
        lease_expiry: 0,
        prev,
        signer: None,
        signature: None,
        native: None,
    }
}

/// A checkpoint of v0x04, and its name.
fn original(prev: Option<ContentHash>, tick: u64, state: &[u8]) -> (Vec<u8>, ContentHash) {
    let signer = LocalSigner::new(key(), KeyUsage::Igor);
    let sealed = seal_original(header(Version::V4, prev, tick), state, &signer).unwrap();
    ([sealed.bytes.as_slice(), state].concat(), sealed.hash)
}

/// The first checkpoint of v0x05, and a following one with each of `states`.
fn native(states: &[&[u8]]) -> Vec<Vec<u8>> {
    let signer = LocalSigner::new(key(), KeyUsage::Native);
    let first = CheckpointHeader {
        signer: Some(*key().public_key().as_bytes()),
        native: Some(Box::new(NativeHeader {
            kind: LinkKind::Checkpoint,
            seq: 0,
            time: 1_700_000_000_000_000_000,
            state: StateSeal::of(b"first", MediaType::bytes()),
            transcript: None,
            manifest: None,
            receipts: None,
            parent: None,
            name: AgentName::parse("counter").unwrap(),
            root: *key().public_key(),
            certificate: None,
        })),
        ..header(Version::V5, None, 1)
    };
    let first = seal_native(first, &signer).unwrap();
    let mut files = vec![[first.bytes.as_slice(), b"first"].concat()];
    for state in states {
        let writer = Writer {
            key: *key().public_key(),
            certificate: None,
            time: 1_700_000_000_000_000_000,
        };
        let mut header = first.header.following(first.hash, &writer).unwrap();
        header.tick = 2;
        header.native.as_mut().unwrap().state = StateSeal::of(state, MediaType::bytes());
        let sealed = seal_native(header, &signer).unwrap();
        files.push([sealed.bytes.as_slice(), state].concat());
    }
    files
}

// T-LIN-27
#[test]
fn inspect_shows_every_field_and_exits_by_the_verdict() {
    let sandbox = Sandbox::new();
    let files = native(&[b"\x1b[2J and more"]);
    let path = sandbox.write("c.ckpt", &files[1]);
    let ran = sandbox.ok(format!("lineage inspect {path:?} --did {}", did()));
    for part in [
        "version          v0x05",
        "tick             2",
        "counter",
        "holds",
        "2.500000",
        "verified",
    ] {
        ran.stdout.has(part);
    }
    assert!(!ran.stdout.contains('\u{1b}'));
    let json = sandbox
        .exits(3, format!("lineage inspect {path:?} --json"))
        .json();
    let checkpoint = &json["checkpoint"];
    checkpoint.is(json!({"seq": 1, "root_did": did()}));
    assert_eq!(checkpoint["cid"].text().len(), 59);
    assert_eq!(json["report"]["verdict"], "unknown_signer");
    let mut changed = files[1].clone();
    *changed.last_mut().unwrap() ^= 1;
    let path = sandbox.write("c.ckpt", &changed);
    sandbox
        .exits(1, format!("lineage inspect {path:?}"))
        .prints("state_differs");
    let path = sandbox.write("none", b"\x07");
    sandbox
        .exits(1, format!("lineage inspect {path:?}"))
        .prints("unsupported checkpoint version: 7");
    sandbox.sh("lineage inspect .").fails_with("name one file");
}

#[test]
fn log_draws_the_branches_of_a_fork() {
    let sandbox = Sandbox::new();
    for (at, file) in native(&[b"one", b"two"]).iter().enumerate() {
        sandbox.write(format!("d/{at}"), file);
    }
    let ran = sandbox.exits(1, "lineage log d");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("forked  d  3 links"), "{}", ran.stdout);
    assert!(
        lines[1].starts_with("* ") && lines[1].ends_with("d/0"),
        "{}",
        ran.stdout
    );
    assert!(lines[2].contains("2 links follow"), "{}", ran.stdout);
    assert!(
        lines[3].starts_with("* | ") && lines[4].starts_with("  * "),
        "{}",
        ran.stdout
    );
    assert!(lines[4].ends_with("[fork]"), "{}", ran.stdout);
    let json = sandbox.exits(1, "lineage log d --json").json();
    let lineage = &json["lineages"][0];
    assert_eq!(lineage["links"].list().len(), 3);
    assert_eq!(lineage["forks"][0]["links"].list().len(), 2);
    assert_eq!(lineage["forks"][0]["parent"], lineage["links"][0]["hash"]);
    // The log of a partial history names the missing part.
    fs::remove_file(sandbox.path("d/0")).unwrap();
    sandbox.exits(1, "lineage log d").prints("is missing");
}

// T-LIN-24
#[test]
fn a_fork_of_either_version_becomes_a_proof_that_needs_nothing_else() {
    let sandbox = Sandbox::new();
    let natives = native(&[b"one", b"two"]);
    sandbox.write("here/a", &natives[1]);
    sandbox.write("there/b", &natives[2]);
    let (first, parent) = original(None, 5, b"first");
    sandbox.write("old/0", first);
    sandbox.write("old/1", original(Some(parent), 10, b"one").0);
    sandbox.write("old/2", original(Some(parent), 10, b"two").0);
    for (paths, proof) in [
        (["here", "there"], "v5.fork"),
        (["old/1", "old"], "v4.fork"),
    ] {
        sandbox.ok(format!(
            "lineage fork-proof {} {} -o {proof}",
            paths[0], paths[1]
        ));
        let elsewhere = Sandbox::new();
        let path = elsewhere.write("p", fs::read(sandbox.path(proof)).unwrap());
        let json = elsewhere.json(format!("lineage check-proof {path:?}"));
        json.is(json!({"proves": true, "did": did()}));
        assert_eq!(json["links"].list().len(), 2);
        elsewhere.ok(format!("lineage check-proof {path:?} --key {}", did()));
        let other = PrivateKey::from_seed([8; 32]).public_key().to_hex();
        let judge = format!("lineage check-proof {path:?} --key {other}");
        elsewhere
            .exits(3, &judge)
            .prints("another key than --key names");
        elsewhere.ok(format!("{judge} --key {}", did()));
        elsewhere.exits(2, format!("lineage check-proof {path:?} --key nothing"));
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        elsewhere
            .exits(1, format!("lineage check-proof {path:?}"))
            .begins_with("no proof: ");
        // An existing proof is not overwritten.
        sandbox.exits(
            2,
            format!("lineage fork-proof {} {} -o {proof}", paths[0], paths[1]),
        );
    }
    sandbox
        .sh("lineage fork-proof here -o x")
        .fails_with("no agent signed two links");
}

#[test]
fn several_agents_in_one_tree_get_a_report_each() {
    let sandbox = Sandbox::new();
    sandbox.write("t/a.ckpt", &native(&[])[0]);
    sandbox.write("t/b.ckpt", original(None, 5, b"state").0);
    let ran = sandbox.exits(3, "verify t --json");
    assert_eq!(ran.json()["results"].list().len(), 2);
    let head = Digest::of(&original(None, 5, b"state").0).to_hex();
    let ran = sandbox.sh(format!("lineage verify t --expect-head {head} --json"));
    assert_eq!(ran.exits(3).json()["summary"]["unknown_signer"], 2);
    sandbox.exits(2, "lineage verify t/none");
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox
        .sh("lineage verify empty")
        .fails_with("no checkpoint");
}

#[test]
fn a_checkpoint_is_neither_sealed_nor_shown_as_something_else() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("c.ckpt", &native(&[])[0]);
    sandbox.ok("init");
    sandbox
        .sh(format!("show {path:?}"))
        .fails_with("lineage inspect");
    sandbox
        .sh(format!("seal {path:?}"))
        .fails_with("lineage append");
}

// T-LIN-30
#[test]
fn a_state_of_half_a_gigabyte_is_read_in_little_memory() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("big.ckpt", header(Version::V3, None, 1).encode().unwrap());
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(512 << 20).unwrap();
    let mut command = Command::new("sh");
    let limited = "ulimit -v 409600 && exec \"$0\" lineage verify \"$1\" --json";
    command.args([
        "-c",
        limited,
        crate::sandbox::PROGRAM,
        path.to_str().unwrap(),
    ]);
    let output = command
        .env_clear()
        .env("THREADSEAL_HOME", sandbox.home())
        .output()
        .unwrap();
    let ran = Ran::of(output).exits(3);
    assert_eq!(ran.json()["results"][0]["verdict"], "unsigned");
}

// T-LIN-32
#[test]
fn what_was_not_asked_for_by_its_name_is_not_judged() {
    let sandbox = Sandbox::new();
    sandbox.write("d/c.ckpt", &native(&[])[0]);
    sandbox.write(
        "d/model.bin",
        b"\x04\0\0\0 something else that begins with a four",
    );
    sandbox.write(
        "d/table.dbf",
        [&[3, 0x7a, 1, 1, 9, 0, 0, 0, 0x61, 1][..], &[0; 90]].concat(),
    );
    let report = sandbox.report("verify d");
    assert_eq!(report["verdict"], "unknown_signer");
    assert!(report.codes().contains(&"key_unknown"));
}

#[test]
fn an_identity_is_made_once_and_delegates_to_session_keys() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    let made = sandbox.json("lineage identity new counter");
    let path = sandbox.path("counter.identity");
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 68);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let shown = sandbox.sh("lineage identity show counter.identity --json");
    assert_eq!(shown.exits(0).json()["did"], made["did"]);
    // An identity is never overwritten, and a damaged one is never taken for missing.
    sandbox.exits(2, "lineage identity new counter");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let to = did();
    let delegate =
        format!("lineage identity delegate counter.identity --to {to} --key-epoch 1 -o d");
    let given = sandbox.json(delegate);
    assert_eq!(given["agent_id"], made["agent_id"]);
    let text = sandbox.read("d");
    let delegation = threadseal_formats::lineage::Delegation::parse(&text).unwrap();
    delegation.verify().unwrap();
    assert_eq!(delegation.signer.to_did_key(), to);
    assert_eq!(delegation.root.to_did_key(), made["did"].text());
    fs::write(&path, &bytes[..67]).unwrap();
    sandbox.exits(2, "lineage identity show counter.identity");
    sandbox.exits(2, "lineage identity new counter");
    assert_eq!(fs::read(&path).unwrap(), &bytes[..67]);
    sandbox.exits(2, "lineage identity new ../counter");
    sandbox.sh("lineage identity new other --pem").exits(0);
    sandbox.ok("lineage identity show other.identity");
}
