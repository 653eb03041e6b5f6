//! `trust`.

use crate::sandbox::{Sandbox, tree_digest};

fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run(["init"]).exits(0);
    sandbox.run(["key", "new", "--name", "ann"]).exits(0);
    sandbox
        .run(["key", "export", "ann", "--out", "ann.pem"])
        .exits(0);
    sandbox
}

#[test]
fn a_key_is_trusted_for_what_was_said_and_no_more() {
    let sandbox = ready();
    sandbox
        .run([
            "trust",
            "add",
            "ann.pem",
            "--name",
            "ann",
            "--threads",
            "agency/*",
            "--formats",
            "transcript,json",
            "--not-before",
            "2026-01-01",
            "--not-after",
            "2026-12-31",
        ])
        .exits(0);
    let trusted = sandbox.run(["trust", "list", "--json"]).exits(0).json();
    let keys = trusted["keys"].as_array().unwrap();
    let ann = keys.iter().find(|key| key["name"] == "ann").unwrap();
    assert_eq!(ann["usage"], serde_json::json!(["native"]));
    assert_eq!(ann["threads"], serde_json::json!(["agency/*"]));
    assert_eq!(ann["formats"], serde_json::json!(["transcript", "json"]));
    assert_eq!(ann["not_before"], "2026-01-01T00:00:00Z");
    assert_eq!(ann["not_after"], "2026-12-31T23:59:59Z");
    let listed = sandbox.run(["trust", "list"]).exits(0).stdout;
    assert!(
        listed.contains("threads agency/*; formats transcript,json"),
        "{listed}"
    );
}

#[test]
fn every_text_of_a_public_key_serves() {
    for format in ["hex", "did"] {
        let sandbox = ready();
        let shown = sandbox
            .run(["key", "show", "ann", "--format", format])
            .exits(0);
        sandbox
            .run(["trust", "add", shown.stdout.trim(), "--name", "ann"])
            .exits(0);
    }
}

#[test]
fn what_is_no_public_key_is_refused_and_nothing_changes() {
    let sandbox = ready();
    sandbox
        .run(["key", "export", "ann", "--private", "--out", "private.pem"])
        .exits(0);
    sandbox.write("text.pem", "hello\n");
    let before = tree_digest(&sandbox.home());
    for (key, part) in [
        ("private.pem", "private key"),
        ("text.pem", "public key"),
        ("absent.pem", "absent.pem"),
        (&"0".repeat(64), "key"),
        ("did:key:zNo", "did:key"),
    ] {
        sandbox
            .run(["trust", "add", key, "--name", "x"])
            .fails_with(part);
    }
    sandbox
        .run(["trust", "add", "ann.pem", "--name", "a\nb"])
        .fails_with("name");
    sandbox
        .run(["trust", "add", "ann.pem", "--name", "self"])
        .fails_with("taken");
    sandbox
        .run(["trust", "remove", "nobody"])
        .fails_with("nobody is trusted");
    sandbox
        .run(["trust", "revoke", "nobody"])
        .fails_with("nobody is trusted");
    let after = tree_digest(&sandbox.home());
    assert_eq!(before, after);
}

#[test]
fn a_revocation_stays_and_removal_forgets() {
    let sandbox = ready();
    sandbox
        .run(["trust", "add", "ann.pem", "--name", "ann"])
        .exits(0);
    sandbox
        .run([
            "trust",
            "revoke",
            "ann",
            "--reason",
            "lost laptop",
            "--at",
            "2026-03-01",
        ])
        .exits(0);
    let listed = sandbox.run(["trust", "list"]).exits(0).stdout;
    assert!(
        listed.contains("REVOKED 2026-03-01T00:00:00Z lost laptop"),
        "{listed}"
    );
    sandbox.run(["trust", "remove", "ann"]).exits(0);
    let listed = sandbox.run(["trust", "list"]).exits(0).stdout;
    assert!(!listed.contains("ann"), "{listed}");
}

#[test]
fn a_trust_store_that_others_could_have_written_is_not_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = ready();
    let file = sandbox.home().join("trust.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    sandbox
        .run(["trust", "list"])
        .fails_with("others may write");
}
