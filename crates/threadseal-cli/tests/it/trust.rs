//! `trust`.

use crate::prelude::*;

fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.ok("key new --name ann");
    sandbox.ok("key export ann --out ann.pem");
    sandbox
}

#[test]
fn a_key_is_trusted_for_its_declared_scope_and_no_more() {
    let sandbox = ready();
    sandbox
        .ok("trust add ann.pem --name ann --threads agency/* --formats transcript,json --not-before 2026-01-01 --not-after 2026-12-31");
    let trusted = sandbox.json("trust list");
    let ann = trusted["keys"].item("name", "ann");
    assert_eq!(ann["usage"], json!(["native"]));
    assert_eq!(ann["threads"], json!(["agency/*"]));
    assert_eq!(ann["formats"], json!(["transcript", "json"]));
    assert_eq!(ann["not_before"], "2026-01-01T00:00:00Z");
    assert_eq!(ann["not_after"], "2026-12-31T23:59:59Z");
    sandbox
        .ok("trust list")
        .prints("threads agency/*; formats transcript,json");
}

#[test]
fn every_text_of_a_public_key_serves() {
    for format in ["hex", "did"] {
        let sandbox = ready();
        let shown = sandbox.ok(format!("key show ann --format {format}"));
        sandbox.ok(format!("trust add {} --name ann", shown.stdout.trim()));
    }
}

#[test]
fn what_is_no_public_key_is_refused_and_nothing_changes() {
    let sandbox = ready();
    sandbox.ok("key export ann --private --out private.pem");
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
            .sh(format!("trust add {key:?} --name x"))
            .fails_with(part);
    }
    sandbox
        .run(["trust", "add", "ann.pem", "--name", "a\nb"])
        .fails_with("name");
    sandbox
        .sh("trust add ann.pem --name self")
        .fails_with("in use");
    sandbox
        .sh("trust remove nobody")
        .fails_with("no key is trusted");
    sandbox
        .sh("trust revoke nobody")
        .fails_with("no key is trusted");
    let after = tree_digest(&sandbox.home());
    assert_eq!(before, after);
}

// T-KEY-09
#[test]
fn a_revocation_stays_and_only_a_forced_removal_forgets() {
    let sandbox = ready();
    sandbox.ok("trust add ann.pem --name ann");
    sandbox.ok("trust revoke ann --reason 'lost laptop' --at 2026-03-01");
    sandbox
        .ok("trust list")
        .prints("REVOKED 2026-03-01T00:00:00Z lost laptop");
    sandbox.sh("trust remove ann").fails_with("--anyway");
    sandbox
        .sh("trust add ann.pem --name other")
        .fails_with("already trusts this key");
    sandbox.ok("trust list").prints("REVOKED");
    sandbox.ok("trust remove ann --anyway");
    sandbox.ok("trust list").omits("ann");
}

// T-KEY-07
#[test]
fn a_trust_store_that_others_could_have_written_is_not_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = ready();
    let file = sandbox.home().join("trust.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    sandbox.sh("trust list").fails_with("others may write");
}

// T-KEY-08 T-RYE-09
#[test]
fn trust_from_inside_the_tree_is_refused_unless_allowed_and_then_reported() {
    let sandbox = ready();
    ended_record(&sandbox, "d/t.jsonl", 1);
    sandbox.ok("key export self --out d/self.pem");
    sandbox
        .sh("verify d --trust d/self.pem")
        .fails_with("is inside");
    sandbox
        .sh("verify d --key d/self.pem")
        .fails_with("is inside");
    // A command line with one file and its key names both explicitly.
    for option in ["--trust", "--key"] {
        sandbox.ok(format!("verify d/t.jsonl {option} d/self.pem"));
    }
    let home = sandbox.home();
    let parent = home.parent().unwrap().to_str().unwrap().to_owned();
    sandbox
        .sh(format!("verify {parent}"))
        .fails_with("is inside");
    let json = sandbox.json("verify d --trust d/self.pem --allow-local-trust");
    assert_eq!(json["results"][0]["findings"][0]["code"], "local_trust");
}

// T-KEY-08
#[test]
fn trust_located_inside_the_tree_is_refused_under_any_name() {
    let sandbox = ready();
    ended_record(&sandbox, "d/t.jsonl", 1);
    sandbox.ok("key export self --out d/self.pem");
    let at = |name: &str| sandbox.path(name);
    for folder in ["keys", "linked", "named-twice", "d/out"] {
        fs::create_dir(at(folder)).unwrap();
    }
    fs::copy(at("d/self.pem"), at("keys/self.pem")).unwrap();
    symlink(at("d/self.pem"), at("linked/self.pem")).unwrap();
    fs::hard_link(at("d/self.pem"), at("named-twice/self.pem")).unwrap();
    symlink(at("keys/self.pem"), at("d/out/self.pem")).unwrap();
    symlink(at("d/out/self.pem"), at("linked/through.pem")).unwrap();
    let ask = |option: &str, trust: &str| sandbox.sh(format!("verify d {option:?} {trust:?}"));
    for trust in [
        "linked/self.pem",
        "named-twice/self.pem",
        "linked/through.pem",
    ] {
        ask("--trust", trust).fails_with("is inside");
        ask("--key", trust).fails_with("is inside");
    }
    for trust in ["linked", "named-twice", "d/out/self.pem"] {
        ask("--trust", trust).fails_with("is inside");
    }
    ask("--trust", "keys").exits(0);
    ask("--key", "keys/self.pem").exits(0);
    // The home's own trust store, and its heads.
    let store = sandbox.home().join("trust.toml");
    fs::copy(&store, at("d/trust.toml")).unwrap();
    let kept = fs::read(&store).unwrap();
    fs::remove_file(&store).unwrap();
    symlink(at("d/trust.toml"), &store).unwrap();
    sandbox.sh("verify d").fails_with("is inside");
    fs::remove_file(&store).unwrap();
    fs::write(&store, kept).unwrap();
    let heads = sandbox.home().join("heads");
    fs::rename(&heads, at("d/heads")).unwrap();
    symlink(at("d/heads"), &heads).unwrap();
    sandbox.sh("verify d").fails_with("is inside");
}

// T-KEY-08
#[test]
fn a_home_beside_the_file_that_is_named_serves() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 1);
    let home = sandbox.path("home");
    fs::rename(sandbox.home(), &home).unwrap();
    sandbox.ok(format!("verify t.jsonl --home {home:?}"));
    sandbox
        .sh(format!("verify . --home {home:?}"))
        .fails_with("is inside");
}
