//! `init` and `key`.

use crate::prelude::*;
use std::os::unix::fs::PermissionsExt as _;
use threadseal_core::key::PrivateKey;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn init_makes_three_keys_and_trusts_them_and_a_second_run_changes_nothing() {
    let sandbox = Sandbox::new();
    let first = sandbox.ok("init").warns("recovery key");
    let before = tree_digest(&sandbox.home());
    let second = sandbox.ok("init");
    first.stdout.has("ready: ");
    second.stdout.has("nothing to do: ");
    assert_eq!(
        first.stdout.lines().take(3).collect::<Vec<_>>(),
        second.stdout.lines().take(3).collect::<Vec<_>>()
    );
    assert_eq!(tree_digest(&sandbox.home()), before);

    let keys = sandbox.json("key list");
    let listed: Vec<_> = keys["keys"]
        .list()
        .iter()
        .map(|key| (key["name"].text(), key["usage"].text()))
        .collect();
    let expected = [
        ("self", "native"),
        ("self-observed", "observed"),
        ("self-rye", "rye"),
        ("self-scroll", "scroll"),
    ];
    // The key of the log comes on top; it signs nothing but the log.
    let ((log, usage), kept) = listed.split_first().unwrap();
    assert!(log.starts_with("log-") && *usage == "log", "{listed:?}");
    assert_eq!(kept, expected);
    let trusted = sandbox.json("trust list");
    for (name, usage) in expected {
        let entry = trusted["keys"].item("name", name);
        assert_eq!(entry["usage"], json!([usage]));
    }
}

#[test]
fn init_does_not_take_back_what_the_user_decided_since() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.ok("trust revoke self-rye");
    sandbox.ok("init");
    let trusted = sandbox.json("trust list");
    let keys = trusted["keys"].list();
    assert_eq!(keys.len(), 4);
    let rye = keys.iter().find(|key| key["name"] == "self-rye").unwrap();
    assert!(rye["revoked"].is_object());
}

// T-RYE-22
#[test]
fn private_files_are_for_their_user_alone() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    assert_eq!(mode(&sandbox.home()), 0o700);
    assert_eq!(mode(&sandbox.home().join("keys")), 0o700);
    assert_eq!(mode(&sandbox.home().join("keys/self.native.key")), 0o600);
    sandbox.ok("key export self --private --out k.pem");
    assert_eq!(mode(&sandbox.path("k.pem")), 0o600);
}

// T-RYE-22
#[test]
fn keys_are_never_replaced() {
    let sandbox = Sandbox::new();
    sandbox.ok("key new --name a");
    let before = tree_digest(&sandbox.home());
    for usage in ["native", "rye", "observed"] {
        sandbox
            .sh(format!("key new --name a --usage {usage}"))
            .fails_with("never replaced");
    }
    assert_eq!(tree_digest(&sandbox.home()), before);
    sandbox.ok("key export a --out a.pem");
    sandbox.sh("key export a --out a.pem").fails_with("a.pem");
}

#[test]
fn names_that_would_leave_the_folder_are_refused() {
    let sandbox = Sandbox::new();
    for name in ["../x", "", "A", "x.rye", "a/b", "-", "\u{202e}"] {
        let ran = sandbox
            .sh(format!("key new --name={name}"))
            .fails_with("key name");
        assert!(!ran.stderr.contains('\u{202e}'));
    }
}

#[test]
fn the_texts_of_a_key_are_each_one_line_or_one_pem_file() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let show = |format: &str| {
        let ran = sandbox.ok(format!("key show self --format {format}"));
        ran.stdout
    };
    assert_eq!(show("hex").len(), 65);
    assert!(show("did").starts_with("did:key:z6Mk"));
    assert_eq!(show("rye").len(), 17);
    assert!(show("vkey").starts_with("self+"));
    assert!(show("pem").starts_with("-----BEGIN PUBLIC KEY-----\n"));
    let exported = sandbox.ok("key export self").stdout;
    assert_eq!(exported, show("pem"));
}

/// The names of a log and of a witness are not in their key files.
#[test]
fn the_vkey_of_a_log_or_a_witness_is_shown_by_what_knows_its_name() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.ok("key new --name w --usage witness");
    let keys = sandbox.json("key list");
    let log = keys["keys"].item("usage", "log");
    for (name, hint) in [(log["name"].text(), "log status"), ("w", "witness serve")] {
        sandbox
            .sh(format!("key show {name:?} --format vkey"))
            .fails_with(hint);
    }
    sandbox.ok("log status").prints("key    threadseal.log/");
}

#[test]
fn a_key_under_a_passphrase_opens_with_it_only() {
    let sandbox = Sandbox::new();
    sandbox.write("right", "correct horse\n");
    sandbox.write("wrong", "incorrect\n");
    sandbox.write("empty", "\n");
    sandbox.ok("key new --name a --passphrase-file right");
    let pem = sandbox
        .ok("key export a --private")
        .begins_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
        .stdout;
    sandbox.write("a.pem", pem);
    let other = Sandbox::new();
    let file = sandbox.path("a.pem");
    let import = |passphrase: &str| {
        let passphrase = sandbox.path(passphrase);
        other.sh(format!(
            "key import {file:?} --passphrase-file {passphrase:?}"
        ))
    };
    import("wrong").fails_with("wrong passphrase");
    import("empty").fails_with("empty");
    import("absent").fails_with("absent");
    assert!(!other.home().join("keys").exists() || other.sh("key list").stdout.is_empty());
    import("right").exits(0);
    let stored = fs::read_dir(other.home().join("keys")).unwrap().flatten();
    let private = stored
        .map(|e| e.path())
        .find(|p| p.extension().unwrap() == "key")
        .unwrap();
    assert!(read(private).starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
}

#[test]
fn an_encrypted_key_without_terminal_and_passphrase_file_gives_a_hint() {
    let sandbox = Sandbox::new();
    sandbox.write("p", "x\n");
    sandbox.ok("key new --name a --passphrase-file p");
    sandbox.ok("key export a --private --out a.pem");
    sandbox
        .detached(["key", "import", "a.pem", "--name", "b"])
        .fails_with("--passphrase-file");
}

#[test]
fn keys_of_rye_and_igor_are_taken_over() {
    let Some(vectors) = shared("vectors") else {
        return;
    };
    let sandbox = Sandbox::new();
    let rye = vectors.join("rye/valid/user/.ai/config/keys/signing");
    let igor = vectors.join("igor/identities/A.identity");
    let import =
        |path: &Path, name: &str| sandbox.sh(format!("key import {path:?} --name {name:?}"));
    import(&rye, "rye").exits(0);
    import(&igor, "igor").exits(0);
    import(&igor, "again").fails_with("already has this key");
    let public = read(rye.join("public_key.pem"));
    assert_eq!(sandbox.ok("key export rye").stdout, public);
    sandbox
        .ok("key list")
        .prints("rye               rye")
        .prints("igor              native");
}

// T-KEY-19
#[test]
fn keys_that_others_can_guess_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let text = *b"correct horse battery staple 123";
    for (name, seed) in [("zero", [0; 32]), ("one", [1; 32]), ("text", text)] {
        let pem = PrivateKey::from_seed(seed).to_pem();
        fs::write(sandbox.path("k.pem"), pem.as_bytes()).unwrap();
        sandbox
            .sh(format!("key import k.pem --name {name}"))
            .fails_with("others can guess this key");
        sandbox.ok(format!("key import k.pem --name {name} --anyway"));
    }
    let mut good = text;
    good[31] = 0x80;
    fs::write(
        sandbox.path("k.pem"),
        PrivateKey::from_seed(good).to_pem().as_bytes(),
    )
    .unwrap();
    sandbox.ok("key import k.pem --name good");
}

/// A home, and a log in its folder.
fn home_and_log() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    sandbox.write("some.jsonl", "{\"a\":1}\n");
    sandbox
}

/// The status of a user of these keys, which is not good.
fn status(sandbox: &Sandbox) -> Ran {
    let mut command = sandbox.command();
    command.arg("status").env("HOME", sandbox.path("user"));
    Ran::of(command.output().unwrap()).exits(3)
}

fn copy_key(from: &Sandbox, name: &str, to: &Sandbox, as_name: &str) {
    for half in ["key", "pub"] {
        let source = from.home().join(format!("keys/{name}.{half}"));
        fs::copy(source, to.home().join(format!("keys/{as_name}.{half}"))).unwrap();
    }
}

// T-KEY-20
#[test]
fn a_key_file_that_another_home_made_seals_nothing() {
    let (sandbox, other) = (home_and_log(), home_and_log());
    for (usage, command) in [
        ("native", "seal some.md"),
        ("observed", "seal --detached some.jsonl"),
        ("rye", "seal --profile rye some.md"),
    ] {
        sandbox.write("some.md", "# a\n");
        let name = match usage {
            "native" => "self.native".to_owned(),
            usage => format!("self-{usage}.{usage}"),
        };
        let own = Sandbox::new();
        own.ok("init");
        copy_key(&sandbox, &name, &own, &name);
        copy_key(&other, &name, &sandbox, &name);
        sandbox.sh(command).fails_with("its files were exchanged");
        sandbox.sh("init").fails_with("its files were exchanged");
        status(&sandbox).prints("its files were exchanged");
        copy_key(&own, &name, &sandbox, &name);
        sandbox.ok(command);
    }
}

// T-KEY-21
#[test]
fn one_key_for_two_usages_is_noticed() {
    let sandbox = home_and_log();
    sandbox.write("some.md", "# a\n");
    copy_key(&sandbox, "self.native", &sandbox, "twice.observed");
    for command in ["seal --detached some.jsonl --key twice", "seal some.md"] {
        sandbox
            .sh(command)
            .fails_with("are one key, and a key has one usage");
    }
    status(&sandbox).prints("are one key");
}

// T-KEY-22
#[test]
fn a_lost_private_half_is_named_with_the_command_that_replaces_the_key() {
    let sandbox = home_and_log();
    sandbox.ok("seal --detached some.jsonl");
    for name in ["self.native", "self-rye.rye", "self-observed.observed"] {
        let file = sandbox.home().join(format!("keys/{name}.key"));
        let (name, _) = name.split_once('.').unwrap();
        fs::remove_file(file).unwrap();
        let hint = format!("threadseal key rotate {name} --anyway");
        sandbox.ok("init").warns(&hint);
        status(&sandbox).prints(&hint);
        if name == "self" {
            sandbox.write("some.md", "# a\n");
            sandbox.sh("seal some.md").fails_with(&hint);
            sandbox.sh("key rotate self").fails_with(&hint);
        }
        sandbox.ok(format!("key rotate {name} --anyway"));
        sandbox.ok("init");
        let listed = sandbox.json("key list");
        let ended = listed["keys"]
            .list()
            .iter()
            .filter(|key| !key["ended"].is_null());
        let begin = format!("{name}-");
        assert!(
            ended
                .clone()
                .any(|key| key["name"].text().starts_with(&begin)),
            "{listed}"
        );
    }
    // What was sealed before still holds, and its log begins a new record with the new key.
    sandbox.ok("verify some.jsonl");
    sandbox.write("some.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    sandbox.sh("seal --detached some.jsonl").fails_with(
        "another key made the seals of this log; hint: seal with that key, or --restart",
    );
    sandbox.ok("seal --detached some.jsonl --restart --why 'the key was lost'");
    sandbox.ok("verify some.jsonl");
}

// T-KEY-22
#[test]
fn a_key_of_which_both_halves_are_gone_is_replaced_under_its_name() {
    let sandbox = home_and_log();
    for half in ["key", "pub"] {
        fs::remove_file(sandbox.home().join(format!("keys/self.native.{half}"))).unwrap();
    }
    let hint = "both halves of the key self are gone";
    sandbox.write("some.md", "# a\n");
    for command in ["init", "seal some.md"] {
        sandbox.sh(command).fails_with(hint);
    }
    sandbox.ok("key rotate self --anyway");
    sandbox.ok("init");
    sandbox.ok("seal some.md");
    sandbox.ok("verify some.md");
}

// T-RYE-22
#[test]
fn a_rye_folder_with_another_keys_public_half_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    fs::create_dir(sandbox.path("k")).unwrap();
    sandbox.ok("key export self-rye --private --out k/private_key.pem");
    sandbox.ok("key export self --out k/public_key.pem");
    let other = Sandbox::new();
    let folder = sandbox.path("k");
    other
        .sh(format!("key import {folder:?}"))
        .fails_with("not the public half");
}

#[test]
fn a_key_whose_making_was_cut_short_is_still_found() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let before = sandbox.ok("key list");
    fs::remove_file(sandbox.home().join("keys/self.native.pub")).unwrap();
    assert_eq!(sandbox.ok("key list").stdout, before.stdout);
}

// T-RYE-22
#[test]
fn a_private_key_that_others_may_read_is_not_used() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let file = sandbox.home().join("keys/self.native.key");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    sandbox
        .sh("key export self --private")
        .fails_with("self.native.key");
}

#[test]
fn json_failures_are_json_too() {
    let sandbox = Sandbox::new();
    let ran = sandbox.sh("--json key show nobody").fails_with("no home");
    assert_eq!(ran.json()["schema"], "threadseal.error/1");
    assert_eq!(ran.json()["exit"], 2);
}
