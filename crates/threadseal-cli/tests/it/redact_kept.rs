//! What remains valid after a redaction: seals of earlier epochs, proofs, heads, Rye's hashes, the
//! log. And the log's knowledge of redactions.

use crate::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread with detached bodies that was resumed, so that keys of two epochs sealed it. Also its
/// transcript, and its head before it was resumed.
fn resumed() -> (Sandbox, PathBuf, String) {
    let sandbox = project();
    let id = greeted(&sandbox, "--bodies detached");
    let transcript = transcript(&sandbox, "greet");
    let head = head_of(&sandbox, &transcript);
    sandbox.ok(once_more(&id));
    (sandbox, transcript, head)
}

fn head_of(sandbox: &Sandbox, transcript: &Path) -> String {
    let ran = sandbox.sh(format!("transcript head {transcript:?}"));
    let text = ran.exits(0).stdout;
    let mut words = text.split_whitespace();
    let head = words.find(|word| word.matches(':').count() == 3);
    head.unwrap().to_owned()
}

/// A crash or a full disk stopped a redaction between its line and its seal.
// T-RED-17
#[test]
fn a_redaction_that_was_cut_before_its_seal_is_made_again_by_redact() {
    let (sandbox, transcript, _) = resumed();
    let bodies = transcript.with_file_name("transcript.bodies");
    let (path, whole) = (transcript.to_str().unwrap(), fs::read(&bodies).unwrap());
    let parts = ["home", "home.marks"].map(|name| sandbox.home().with_file_name(name));
    let kept = parts.clone().map(|part| part.with_extension("kept"));
    for (part, kept) in parts.iter().zip(&kept) {
        copy(part, kept);
    }
    let redact = format!("redact {path} --match 'I write it.' --why 'a name'");
    sandbox.ok(&redact);
    let redacted = fs::read(&transcript).unwrap();
    for cut in ["\"checkpoint\"", "\"seal\"", "\"commitments\""] {
        for (part, kept) in parts.iter().zip(&kept) {
            put_back(kept, part);
        }
        let mut places = places_of(&redacted, cut.as_bytes());
        let place = places.pop().unwrap();
        let from = redacted[..place].iter().rposition(|b| *b == b'\n').unwrap() + 1;
        let end = if cut == "\"checkpoint\"" { from } else { place };
        fs::write(&transcript, &redacted[..end]).unwrap();
        fs::write(&bodies, &whole).unwrap();
        let said = sandbox.exits(3, format!("verify {path}")).stdout;
        assert!(said.contains("unsigned_tail"), "{cut}: {said}");
        let finish = sandbox.sh(format!("redact {path} --finish"));
        finish.fails_with("threadseal seal sets the tail aside");
        sandbox.ok(&redact);
        sandbox.ok(format!("verify {path}"));
        let left = read(&bodies);
        assert!(!left.contains("I write it."), "{cut}: {left}");
    }
}

/// Where `text` begins in `bytes`.
fn places_of(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(text.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == text);
    found.map(|(place, _)| place).collect()
}

// T-RED-22
#[test]
fn readers_call_no_record_tampered_that_is_redacted_meanwhile() {
    let (sandbox, transcript, _) = resumed();
    let path = transcript.to_str().unwrap();
    let all = ["redact", path, "--match", "", "--dry-run", "--json"];
    let all = sandbox.run(all).exits(0).json();
    let bodies = all["redacted"].list().iter();
    let lines: BTreeSet<u64> = bodies.filter_map(|body| body["line"].as_u64()).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in lines {
                let line = line.to_string();
                let ran = sandbox.sh(format!("redact {path} --line {line} --why x -q"));
                ran.exits(0);
            }
            is_done.store(true, Ordering::Release);
        });
        let turn = format!("{path}#1");
        let readers: [&str; 4] = [
            &format!("messages {path}"),
            &format!("render {path}"),
            &format!("prove {turn}"),
            &format!("transcript export {path} --redact --line 5"),
        ];
        while !is_done.load(Ordering::Acquire) {
            for reader in readers {
                let ran = sandbox.sh(reader);
                // Between the line and its seal the record briefly has an unsigned tail.
                let is_calm = ran.code == 0 || ran.stderr.contains("is unsigned_tail");
                assert!(is_calm, "{reader:?}: {}", ran.stderr);
            }
        }
    });
}

/// The keys of all seals.
fn sealers(record: &[u8]) -> BTreeSet<String> {
    let lines = record.split(|byte| *byte == b'\n');
    let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let keys = events.map(|event| event["payload"]["seal"]["key"].clone());
    keys.filter_map(|key| key.as_str().map(str::to_owned))
        .collect()
}

/// The offset of each seal, and its hash of the bytes before it.
fn prefix_hashes(record: &[u8]) -> Vec<(usize, String)> {
    let lines = record.split(|byte| *byte == b'\n');
    let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let seals = events.filter(|event| event["event_type"] == "checkpoint");
    let read = |event: Value| {
        let offset = event["payload"]["byte_offset"].number();
        let hash = event["payload"]["hash"].text().to_owned();
        (usize::try_from(offset).unwrap(), hash)
    };
    seals.map(read).collect()
}

fn verify(sandbox: &Sandbox, more: &str) -> Value {
    let ran = sandbox.sh(format!("verify --json {more}"));
    ran.exits(0).json()["results"][0].take()
}

// T-RED-09
#[test]
fn what_an_earlier_epoch_sealed_is_redacted_and_all_that_was_made_before_holds() {
    let (sandbox, transcript, before_resumed) = resumed();
    let path = transcript.to_str().unwrap();
    let before = fs::read(&transcript).unwrap();
    let last = head_of(&sandbox, &transcript);
    assert!(sealers(&before).len() > 1, "one epoch only");
    let turn = format!("{path}#1");
    let older = sandbox.ok(format!("prove {turn}")).stdout;
    sandbox.write("older.turn-proof", &older);
    sandbox.ok(format!("redact {path} --turn 1 --why 'a greeting'"));
    assert!(fs::read(&transcript).unwrap().starts_with(&before));
    // Every head that was handed out before, of either epoch.
    for head in [&before_resumed, &last] {
        let report = verify(
            &sandbox,
            &format!("{path} --expect-head {head} --every-signature"),
        );
        assert_eq!(report["verdict"], "verified", "{head}");
        assert!(report.codes().contains(&"redacted"), "{report}");
    }
    // Rye's own verifier computes each prefix hash anew.
    let whole = fs::read(&transcript).unwrap();
    let hashes = prefix_hashes(&whole);
    assert!(hashes.len() > 4);
    for (offset, hash) in hashes {
        assert_eq!(Digest::of(&whole[..offset]).to_string(), hash, "{offset}");
    }
    // The proof of a turn of the earlier epoch stays as it was, but contains no body.
    let newer = sandbox.ok(format!("prove {turn}")).stdout;
    assert!(older.contains("\nbody ") && !newer.contains("\nbody "));
    // The part from the log has grown since.
    let sealed = |proof: &str| {
        let sealed = proof.split("\nentry ").next().unwrap();
        sealed
            .split("\nbody ")
            .next()
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let [newer, earlier] = [&newer, &older].map(|proof| sealed(proof));
    assert_eq!(newer, earlier);
    sandbox.ok("check-proof older.turn-proof");
    // The exported log continues its source; the home's log has all entries.
    sandbox.ok(format!("transcript export {path} --as-log as-log"));
    sandbox.ok("log fsck");
    sandbox.ok("verify p");
}

#[test]
fn a_project_says_where_the_bodies_of_its_threads_lie() {
    let sandbox = project();
    let config = "p/.ai/config/agent/coordination.yaml";
    let file = sandbox.write(config, "coordination:\n  transcript_bodies: detached\n");
    sandbox.ok(format!("seal {file:?}"));
    greeted(&sandbox, "");
    let bodies = thread(&sandbox, "greet").join("transcript.bodies");
    assert!(bodies.exists());
    sandbox.ok("verify p");
    // The option of a run overrides the configuration.
    let other = project();
    let file = other.write(config, "coordination:\n  transcript_bodies: detached\n");
    other.ok(format!("seal {file:?}"));
    greeted(&other, "--bodies inline");
    assert!(!thread(&other, "greet").join("transcript.bodies").exists());
    let third = project();
    let file = third.write(config, "coordination:\n  transcript_bodies: elsewhere\n");
    third.ok(format!("seal {file:?}"));
    greet(&third, "").exits(2).warns("inline or detached");
}

fn redactions_in(sandbox: &Sandbox, home: &Path) -> usize {
    let entries = sandbox
        .in_home(home, "log entries --from 0 --limit 1000")
        .exits(0)
        .stdout;
    entries
        .lines()
        .filter(|line| line.contains(" redaction "))
        .count()
}

// T-RED-15
#[test]
fn the_log_knows_each_redaction_and_one_that_was_made_elsewhere_is_told() {
    let (sandbox, transcript, _) = resumed();
    let (path, home) = (transcript.to_str().unwrap(), sandbox.home());
    let elsewhere = home.with_file_name("elsewhere");
    copy(&home, &elsewhere);
    take_log_away(&elsewhere);
    sandbox.ok(format!("redact {path} --turn 1 --why 'a greeting'"));
    assert_eq!(redactions_in(&sandbox, &home), 1);
    let report = verify(&sandbox, path);
    assert!(!report.codes().contains(&"redaction_unlogged"), "{report}");
    sandbox.ok(format!("redact {path} --finish"));
    assert_eq!(
        redactions_in(&sandbox, &home),
        1,
        "each is written down once"
    );
    // Another holder of the same key redacts more, where this log is not.
    let more = format!("redact {path} --turn 2 --why 'more of it'");
    sandbox.in_home(&elsewhere, &more).exits(0);
    let report = verify(&sandbox, path);
    assert!(report.codes().contains(&"redaction_unlogged"), "{report}");
    sandbox.ok(format!("redact {path} --finish"));
    assert_eq!(redactions_in(&sandbox, &home), 2);
    let report = verify(&sandbox, path);
    assert!(!report.codes().contains(&"redaction_unlogged"), "{report}");
    sandbox.ok("log fsck");
    // The log after a restart knows them as well.
    sandbox.ok("log restart --anyway");
    assert_eq!(redactions_in(&sandbox, &home), 2);
    assert!(
        !verify(&sandbox, path)
            .codes()
            .contains(&"redaction_unlogged")
    );
    // Without a log no finding is possible.
    sandbox.forget();
    let report = verify(&sandbox, path);
    assert!(!report.codes().contains(&"redaction_unlogged"), "{report}");
}
