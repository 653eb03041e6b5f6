//! Ends of observed keys, keys of Rye and of scrolls in the log: their earlier seals still count,
//! whatever a clock shows, and a growing log continues under the next key.

use crate::prelude::*;
use crate::scene::signer;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};
use threadseal_formats::transcript::log::LogReader;
use threadseal_formats::transcript::observed;
use threadseal_store::clock::Clock;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::observer;
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::RealFs;

const ENDS: [&str; 2] = [
    "key rotate self-observed",
    "key revoke self-observed --why stolen",
];

/// A clock that was set back.
#[derive(Debug)]
struct SetBack;

impl Clock for SetBack {
    fn now(&self) -> Result<Timestamp, Error> {
        Timestamp::from_micros(1_500_000_000_000_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// The copy that a thief made of this key.
fn copied(sandbox: &Sandbox, file: &str, usage: KeyUsage) -> LocalSigner {
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    signer(&home, file, usage)
}

/// A thief who writes to the home seals a log with a copied key, and by a clock that they set back.
fn steal_in_the_past(sandbox: &Sandbox, log: &str, key: &LocalSigner) {
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    let host = Host {
        fs: RealFs::shared(),
        clock: Arc::new(SetBack),
        random: Arc::new(SystemRandom),
        heads: Arc::new(home.heads()),
        keys: Arc::new(NoKeyEnds),
    };
    let wait = Duration::from_secs(1);
    observer::seal(&host, &sandbox.path(log), false, wait, key, &|_| {}).unwrap();
}

fn grow(sandbox: &Sandbox, log: &str) {
    let text = sandbox.read(log) + "{\"more\":true}\n";
    sandbox.write(log, text);
}

fn seal(sandbox: &Sandbox, log: &str) {
    sandbox.ok(format!("seal --detached {log}"));
}

/// A home that sealed `a.jsonl`, and a thief's copy of the key.
fn sealed() -> (Sandbox, LocalSigner) {
    let sandbox = ready();
    sandbox.write("a.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    seal(&sandbox, "a.jsonl");
    sandbox.ok("verify a.jsonl");
    let stolen = copied(&sandbox, "self-observed.observed", KeyUsage::Observed);
    (sandbox, stolen)
}

fn is_forged(sandbox: &Sandbox, path: &str, code: &str) {
    let ran = sandbox.exits(1, format!("verify {path} --json")).json();
    let report = &ran["results"][0];
    assert_eq!(report["verdict"], "forged", "{report}");
    assert!(report.codes().contains(&code), "{report}");
}

/// A line more is not sealed, and the seal file stays as it is.
fn is_not_sealed(sandbox: &Sandbox, log: &str) -> Ran {
    grow(sandbox, log);
    let seals = sandbox.path(format!("{log}.seal"));
    let before = fs::read(&seals).unwrap();
    let refused = sandbox.sh(format!("seal --detached {log}")).fails();
    assert_eq!(fs::read(seals).unwrap(), before);
    refused
}

// T-KLOG-52
#[test]
fn an_observed_key_that_ended_made_its_earlier_seals_and_a_clock_set_back_makes_no_others() {
    for end in ENDS {
        let (sandbox, stolen) = sealed();
        sandbox.ok(end);
        sandbox.ok("verify a.jsonl");
        sandbox.write("thief.jsonl", "{\"a\":9}\n");
        steal_in_the_past(&sandbox, "thief.jsonl", &stolen);
        is_forged(&sandbox, "thief.jsonl", "key_revoked");
        // More seals by the old key make even the earlier ones doubtful.
        grow(&sandbox, "a.jsonl");
        steal_in_the_past(&sandbox, "a.jsonl", &stolen);
        is_forged(&sandbox, "a.jsonl", "key_revoked");
        is_not_sealed(&sandbox, "a.jsonl");
        sandbox.ok("log fsck");
    }
}

/// The trust store was put back, or edited: the log has the end all the same.
// T-KLOG-53
#[test]
fn the_end_of_an_observed_key_in_the_log_outlives_the_trust_store() {
    for end in ENDS {
        let (sandbox, stolen) = sealed();
        let trust = sandbox.home().join("trust.toml");
        let before = fs::read(&trust).unwrap();
        sandbox.ok(end);
        fs::write(&trust, before).unwrap();
        sandbox.write("thief.jsonl", "{\"a\":9}\n");
        steal_in_the_past(&sandbox, "thief.jsonl", &stolen);
        is_forged(&sandbox, "thief.jsonl", "key_revoked");
        sandbox.ok("verify a.jsonl");
    }
}

// T-KLOG-54
#[test]
fn a_growing_log_continues_under_the_next_key_and_who_has_the_old_one_follows() {
    let (sandbox, _) = sealed();
    let old = sandbox.path("old.pem");
    let old = old.to_str().unwrap();
    sandbox.ok(format!("key export self-observed --out {old}"));
    sandbox
        .ok("key rotate self-observed")
        .does_not_warn("--restart");
    grow(&sandbox, "a.jsonl");
    seal(&sandbox, "a.jsonl");
    let report = sandbox.json("verify a.jsonl");
    let signers = report["results"][0]["signers"].list();
    assert_eq!(signers.len(), 2, "{report}");
    // The key in between seals nothing here.
    sandbox.ok("key rotate self-observed");
    sandbox.ok("key rotate self-observed");
    grow(&sandbox, "a.jsonl");
    sandbox.ok("seal --detached --final a.jsonl");
    sandbox.ok("verify a.jsonl");
    let named = sandbox.read("a.jsonl.seal");
    assert_eq!(named.matches("\"next\":{").count(), 3, "{named}");
    // A stranger who accepts the old key alone.
    let stranger = Sandbox::new();
    let log = sandbox.path("a.jsonl");
    stranger.ok(format!("verify {log:?} --key {old:?}"));
    // The log that takes the place of the log keeps all of that.
    sandbox.ok("log restart --anyway");
    sandbox.ok("verify a.jsonl");
    sandbox.ok("verify --all");
}

/// Continues the seal file of a log by keys of a thief, who signs the change with the old key.
fn continue_as_thief(sandbox: &Sandbox, log: &str, old: &LocalSigner) {
    let thief = LocalSigner::new(PrivateKey::from_seed([66; 32]), KeyUsage::Observed);
    grow(sandbox, log);
    let seal_file = sandbox.path(format!("{log}.seal"));
    let mut bytes = fs::read(&seal_file).unwrap();
    let mut seals = observed::parse(&bytes).unwrap();
    let change = KeyChange::Rotate(*thief.public_key());
    seals
        .hand_over(&[KeyEvent::sign(change, old).unwrap()])
        .unwrap();
    let content = fs::read(sandbox.path(log)).unwrap();
    let mut reader = LogReader::new(Some(&seals), false);
    reader.push(&content);
    let scan = reader.finish();
    let (size, time) = (content.len() as u64, SetBack.now().unwrap());
    seals
        .seal(&scan.new_lines, size, false, time, &thief, &mut bytes)
        .unwrap();
    fs::write(seal_file, bytes).unwrap();
}

// T-KLOG-55
#[test]
fn a_thief_of_an_ended_observed_key_continues_no_log_with_a_key_of_theirs() {
    for end in ENDS {
        let (sandbox, stolen) = sealed();
        sandbox.ok(end);
        continue_as_thief(&sandbox, "a.jsonl", &stolen);
        is_forged(&sandbox, "a.jsonl", "key_not_allowed");
        is_not_sealed(&sandbox, "a.jsonl");
        // Another home that ended its trust in the key.
        let other = Sandbox::new();
        other.ok("init -q");
        let old = stolen.public_key().to_did_key();
        other.ok(format!("trust add {old} --name old --usage observed"));
        other.ok("trust revoke old --why stolen");
        let log = sandbox.path("a.jsonl");
        other
            .exits(1, format!("verify {log:?}"))
            .prints("key_revoked");
    }
}

/// Seals that the home does not know are not followed by the next key.
// T-KLOG-56
#[test]
fn the_next_key_does_not_continue_seals_that_the_home_does_not_know() {
    let (sandbox, stolen) = sealed();
    sandbox.ok("key rotate self-observed");
    grow(&sandbox, "a.jsonl");
    let home = sandbox.work().with_file_name("thief");
    copy(&sandbox.home(), &home);
    let host = Host {
        fs: RealFs::shared(),
        clock: Arc::new(SetBack),
        random: Arc::new(SystemRandom),
        heads: Arc::new(Home::open(RealFs::shared(), &home).unwrap().heads()),
        keys: Arc::new(NoKeyEnds),
    };
    let (log, wait) = (sandbox.path("a.jsonl"), Duration::from_secs(1));
    observer::seal(&host, &log, false, wait, &stolen, &|_| {}).unwrap();
    is_not_sealed(&sandbox, "a.jsonl").warns("does not have it from before that");
    is_forged(&sandbox, "a.jsonl", "key_revoked");
}

// T-KLOG-57
#[test]
fn without_a_log_a_moment_decides_about_an_observed_key_and_its_log_begins_anew() {
    let sandbox = Sandbox::new();
    sandbox.ok("init -q --no-log");
    sandbox.write("a.jsonl", "{\"a\":1}\n");
    seal(&sandbox, "a.jsonl");
    sandbox.ok("key rotate self-observed").warns("no log");
    sandbox.ok("verify a.jsonl");
    grow(&sandbox, "a.jsonl");
    sandbox
        .sh("seal --detached a.jsonl")
        .fails_with("another key made the seals of this log");
}

// T-KLOG-58
#[test]
fn a_log_that_went_back_leaves_the_seals_of_an_ended_observed_key_in_doubt() {
    let (sandbox, _) = sealed();
    let older = set_aside(&sandbox.home().join("log"));
    sandbox.ok("key rotate self-observed");
    grow(&sandbox, "a.jsonl");
    let newer = set_aside(&sandbox.home().join("log"));
    let log = sandbox.home().join("log");
    put_back(&older, &log);
    let ran = sandbox.exits(3, "verify a.jsonl --json").json();
    let report = &ran["results"][0];
    assert_eq!(report["verdict"], "unknown_signer", "{report}");
    assert!(report.codes().contains(&"key_end_doubted"), "{report}");
    is_not_sealed(&sandbox, "a.jsonl");
    put_back(&newer, &log);
    seal(&sandbox, "a.jsonl");
    sandbox.ok("verify a.jsonl");
}

// T-KLOG-59
#[test]
fn a_transcript_of_rye_keeps_its_checkpoints_after_their_key_ended_in_the_log() {
    for end in ["key rotate self-rye", "key revoke self-rye --why stolen"] {
        let sandbox = ready();
        rye_events(&sandbox, "a.jsonl", 2);
        sandbox.ok("seal --profile rye a.jsonl");
        let before = sandbox.sh("verify a.jsonl");
        let stolen = copied(&sandbox, "self-rye.rye", KeyUsage::Rye);
        sandbox.ok(end);
        sandbox
            .sh("verify a.jsonl")
            .exits(before.code)
            .omits("key_revoked");
        // The thief's home has the key and nothing else.
        rye_events(&sandbox, "thief.jsonl", 1);
        let thief = Sandbox::new();
        thief.ok("init -q --no-log");
        let pem = thief.path("stolen.pem");
        let kept = match end.contains("rotate") {
            true => format!("self-rye-{}", &stolen.public_key().key_id().to_hex()[..8]),
            false => "self-rye".to_owned(),
        };
        sandbox.ok(format!("key export {kept} --private --out {pem:?}"));
        thief.ok(format!("key import {pem:?} --name stolen --usage rye"));
        let path = sandbox.path("thief.jsonl");
        thief.ok(format!("seal --profile rye --key stolen {path:?}"));
        is_forged(&sandbox, "thief.jsonl", "key_revoked");
        if end.contains("revoke") {
            sandbox.ok("key rotate self-rye");
        }
        // The transcript grows, and the next key seals it.
        let more = sandbox.read("a.jsonl") + &sandbox.read(rye_events(&sandbox, "more.jsonl", 1));
        sandbox.write("a.jsonl", more);
        sandbox.ok("seal --profile rye a.jsonl");
        sandbox
            .sh("verify a.jsonl")
            .exits(before.code)
            .prints("signer_changed")
            .omits("key_revoked");
    }
}

fn turns(sandbox: &Sandbox) {
    let turn = |number: u64| {
        json!({
            "version": "scroll/0.1", "turn": number, "role": "user",
            "model": {"vendor": "example", "id": "m-1"},
            "params": {"temperature": 0.5, "top_p": 1.0},
            "messages": [{"role": "user", "content": format!("turn {number}")}],
            "timestamp_ns": 1_700_000_000_000_000_000_u64 + 1_000_000 * number,
        })
    };
    let turns = json!([turn(0), turn(1)]);
    sandbox.write("turns.json", turns.to_string());
}

// T-KLOG-60
#[test]
fn a_scroll_keeps_its_signatures_after_their_key_ended_in_the_log() {
    for end in [
        "key rotate self-scroll",
        "key revoke self-scroll --why stolen",
    ] {
        let sandbox = ready();
        turns(&sandbox);
        sandbox.ok("scroll seal turns.json --key self-scroll --out a.json");
        sandbox.ok("verify a.json");
        let seed = copied_seed(&sandbox, "self-scroll.scroll");
        sandbox.ok(end);
        sandbox.ok("verify a.json");
        // Another scroll by the thief.
        replace(sandbox.path("turns.json"), "turn 1", "turn one");
        let thief = Sandbox::new();
        let path = |name: &str| sandbox.path(name);
        let (from, to) = (path("turns.json"), path("thief.json"));
        thief.ok("init -q --no-log");
        thief.ok(format!("scroll seal {from:?} --key {seed} --out {to:?}"));
        is_forged(&sandbox, "thief.json", "key_revoked");
        sandbox.ok("log fsck");
    }
}

/// Key files hold the seed of a thief's copy.
fn copied_seed(sandbox: &Sandbox, file: &str) -> String {
    let home = Home::open(RealFs::shared(), &sandbox.home()).unwrap();
    let name = threadseal_store::home::KeyFileName::parse(file).unwrap();
    let pem = home.keys().read_private(&name).unwrap();
    let body = String::from_utf8(pem.to_vec()).unwrap();
    let body: String = body.lines().filter(|line| !line.starts_with('-')).collect();
    let der = threadseal_core::encoding::parse_base64(&body).unwrap();
    threadseal_core::encoding::hex(&der[der.len() - 32..])
}

/// The log knew the turns before the key ended, without a signature of it.
// T-KLOG-61
#[test]
fn a_thief_of_an_ended_key_signs_no_turns_that_the_log_knew_unsigned() {
    let sandbox = ready();
    turns(&sandbox);
    sandbox.ok("scroll seal turns.json --out a.json");
    sandbox.sh("verify a.json").omits("key_revoked");
    let seed = copied_seed(&sandbox, "self-scroll.scroll");
    sandbox.ok("key revoke self-scroll --why stolen");
    let thief = Sandbox::new();
    thief.ok("init -q --no-log");
    let (from, to) = (sandbox.path("turns.json"), sandbox.path("b.json"));
    thief.ok(format!("scroll seal {from:?} --key {seed} --out {to:?}"));
    is_forged(&sandbox, "b.json", "key_revoked");
}

// T-KLOG-65
#[test]
fn a_document_keeps_the_signature_of_rye_after_its_key_ended_in_the_log() {
    for end in ["key rotate self-rye", "key revoke self-rye --why stolen"] {
        let sandbox = ready();
        for name in ["a.md", "thief.md"] {
            sandbox.write(name, format!("# {name}\n"));
        }
        sandbox.ok("seal --profile rye a.md");
        let before = sandbox.sh("verify a.md");
        let stolen = sandbox.home().join("keys/self-rye.rye.key");
        let pem = sandbox.path("stolen.pem");
        fs::copy(stolen, &pem).unwrap();
        sandbox.ok(end);
        sandbox
            .sh("verify a.md")
            .exits(before.code)
            .omits("key_revoked");
        let thief = Sandbox::new();
        thief.ok("init -q");
        thief.ok(format!("key import {pem:?} --name stolen --usage rye"));
        let path = sandbox.path("thief.md");
        thief.ok(format!("seal --profile rye --key stolen {path:?}"));
        is_forged(&sandbox, "thief.md", "key_revoked");
        sandbox.ok("log restart --anyway");
        sandbox
            .sh("verify a.md")
            .exits(before.code)
            .omits("key_revoked");
        is_forged(&sandbox, "thief.md", "key_revoked");
        sandbox.ok("log fsck");
    }
}

#[test]
fn key_list_and_key_history_show_keys_of_each_usage_that_ended_in_the_log() {
    let sandbox = ready();
    for name in ["self-observed", "self-rye", "self-scroll"] {
        sandbox.ok(format!("key rotate {name}"));
        sandbox.ok(format!("key revoke {name} --why x"));
    }
    let listed = sandbox.json("key list");
    let ended = listed["keys"].list().iter();
    let ended: Vec<_> = ended.filter(|key| key["ended"]["entry"].is_u64()).collect();
    assert_eq!(ended.len(), 6, "{listed}");
    let history = sandbox.json("key history");
    let usages: BTreeSet<&str> = history["events"]
        .list()
        .iter()
        .map(|event| event["usage"].text())
        .collect();
    let expected = ["native", "observed", "rye", "scroll"];
    assert_eq!(usages, BTreeSet::from(expected), "{history}");
    sandbox.ok("log fsck");
}
