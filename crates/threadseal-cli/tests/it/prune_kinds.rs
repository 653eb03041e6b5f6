//! `prune` of scrolls, ledgers and lineages: it keeps the promises that it keeps for transcripts,
//! wherever the record is.

use crate::prelude::*;
use crate::prune::{codes, verify};
use crate::scroll::{signed, turn};

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
pub(crate) const STEP: &str =
    "{\"node\":\"plan\",\"effect\":{\"type\":\"llm_call\",\"payload\":{\"p\":\"a secret\"}}}\n";

pub(crate) fn step(sandbox: &Sandbox, store: &str) -> Ran {
    let append = format!("ledger append {store} --run r1 --sign");
    piped(sandbox, &append, STEP)
}

pub(crate) fn checkpoint(sandbox: &Sandbox, store: &str, tick: &str) -> Ran {
    sandbox.write("state", "what the agent is");
    let own = "--agent counter --state state --budget 100 --price 10";
    sandbox.sh(format!(
        "lineage append {store} {own} --tick {tick} --code {CODE}"
    ))
}

/// The only tombstone of the home.
pub(crate) fn in_home(sandbox: &Sandbox) -> PathBuf {
    let mut found = fs::read_dir(sandbox.home().join("tombstones")).unwrap();
    found.next().unwrap().unwrap().path()
}

/// Prunes without a question, at any age where none is named.
pub(crate) fn prune(sandbox: &Sandbox, arguments: &str, exit: i32) -> String {
    let age = match arguments.contains("--older-than") {
        true => "",
        false => "--older-than 0h",
    };
    let all = format!("prune --yes {age} --reason 'time is up' {arguments}");
    let ran = sandbox.exits(exit, all);
    ran.stdout + &ran.stderr
}

/// Every record that this home knows is pruned or verified.
pub(crate) fn is_excused(sandbox: &Sandbox) {
    let all = sandbox.json("verify --all");
    codes(&all).has("pruned").lacks("record_missing");
    assert!(all.to_string().contains("time is up"), "{all}");
    sandbox.ok("log fsck");
}

fn holds_secret(folder: &Path) -> bool {
    let files = walk(folder);
    files.iter().filter(|path| path.is_file()).any(|path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(8).any(|part| part == b"a secret")
    })
}

// T-PRU-18
#[test]
fn a_ledger_is_pruned_in_its_store_and_takes_no_record_any_more() {
    for store in ["file:runs", "sqlite:runs/db", "object+file:runs"] {
        let sandbox = ready();
        let runs = sandbox.path("runs");
        fs::create_dir(&runs).unwrap();
        step(&sandbox, store).exits(0);
        let kept = sandbox.path("kept");
        copy(&runs, &kept);
        let would = prune(&sandbox, &format!("{store} --run r1 --dry-run"), 0);
        would.has("would prune");
        assert!(holds_secret(&runs) && !sandbox.home().join("tombstones").exists());
        prune(&sandbox, &format!("{store} --run r1"), 0);
        assert!(!holds_secret(&runs), "{store}");
        is_excused(&sandbox);
        step(&sandbox, store).exits(2);
        // A second prune changes nothing.
        prune(&sandbox, &format!("{store} --run r1"), 0);
        // A complete copy, without a trace of the deletion, is reported, takes no writes, and goes
        // with the next prune.
        put_back(&kept, &runs);
        let seen = verify(&sandbox, store.strip_prefix("file:").unwrap_or(store), 0);
        seen.has("pruned_but_present");
        step(&sandbox, store).exits(2).warns("was pruned");
        prune(&sandbox, &format!("{store} --run r1"), 0);
        assert!(!holds_secret(&runs), "{store}");
        is_excused(&sandbox);
        let listed = sandbox.sh("log entries --from 0 --limit 100");
        let listed = listed.exits(0).stdout;
        assert_eq!(listed.matches(" tombstone ").count(), 1, "{listed}");
    }
}

// T-PRU-12
#[test]
fn a_ledger_goes_with_the_seals_of_its_file_as_a_log_and_neither_is_missed() {
    let sandbox = ready();
    step(&sandbox, "file:runs").exits(0);
    let seal = "seal --detached runs/ledger_r1.jsonl";
    sandbox.ok(seal);
    // Steps after those seals would be deleted without a tombstone that covers them.
    step(&sandbox, "file:runs").exits(0);
    let refused = prune(&sandbox, "file:runs --run r1", 2);
    refused.has("unsigned_tail");
    sandbox.ok(seal);
    prune(&sandbox, "file:runs --run r1", 0);
    is_excused(&sandbox);
    for name in ["ledger_r1.jsonl", "ledger_r1.jsonl.seal"] {
        assert!(!sandbox.path("runs").join(name).exists());
    }
}

// T-PRU-12
#[test]
fn a_ledger_that_was_changed_cut_or_belongs_to_a_thread_is_not_pruned() {
    let sandbox = ready();
    step(&sandbox, "file:runs").exits(0);
    let path = sandbox.path("runs/ledger_r1.jsonl");
    let whole = read(&path);
    let first = whole.split_inclusive('\n').next().unwrap();
    for other in [whole.replace("a secret", "a sacred"), first.to_owned()] {
        fs::write(&path, &other).unwrap();
        prune(&sandbox, "file:runs --run r1", 2);
        assert_eq!(read(&path), other);
    }
    fs::write(&path, &whole).unwrap();
    prune(&sandbox, "file:runs --run r2", 2);
    prune(&sandbox, "file:nowhere --run r1", 2);
    prune(&sandbox, &format!("{path:?}"), 2);
    prune(&sandbox, "file:runs file:runs --run r1", 2);
    assert!(!sandbox.home().join("tombstones").exists());
    sandbox.ok("verify runs");
}

// T-PRU-07
#[test]
fn a_tombstone_of_a_store_that_was_changed_or_removed_excuses_nothing() {
    let sandbox = ready();
    step(&sandbox, "file:runs").exits(0);
    prune(&sandbox, "file:runs --run r1", 0);
    let place = in_home(&sandbox);
    let good = read(&place);
    fs::write(&place, good.replace("time is up", "time is mine")).unwrap();
    verify(&sandbox, "--all", 1).has("record_missing");
    prune(&sandbox, "file:runs --run r1", 2);
    fs::remove_file(&place).unwrap();
    verify(&sandbox, "--all", 1).has("record_missing");
    fs::write(&place, good).unwrap();
    is_excused(&sandbox);
}

// T-PRU-18
#[test]
fn a_scroll_is_pruned_and_no_copy_of_it_continues() {
    let sandbox = ready();
    let path = signed(&sandbox, "talk.json", 2);
    prune(&sandbox, &path, 0);
    assert!(!Path::new(&path).exists() && Path::new(&format!("{path}.tombstone")).exists());
    is_excused(&sandbox);
    let live = sandbox.path("live.jsonl");
    let append = format!("scroll seal --key self-scroll --append {live:?}");
    piped(&sandbox, &append, &turn(0, "another talk")).exits(0);
    let kept = fs::read(&live).unwrap();
    prune(&sandbox, &format!("{live:?}"), 0);
    fs::write(&live, &kept).unwrap();
    verify(&sandbox, &format!("{live:?}"), 0).has("pruned_but_present");
    piped(&sandbox, &append, &turn(1, "more"))
        .exits(2)
        .warns("was pruned");
    assert_eq!(fs::read(&live).unwrap(), kept);
    prune(&sandbox, &format!("{live:?}"), 0);
    assert!(!live.exists());
    // The same first turn does not begin it again.
    piped(&sandbox, &append, &turn(0, "another talk")).exits(2);
    // Another scroll in the same place is not affected.
    piped(&sandbox, &append, &turn(0, "the next talk")).exits(0);
    let refused = prune(&sandbox, &format!("{live:?}"), 2);
    refused.has("another record");
    assert!(live.exists());
    is_excused(&sandbox);
}

// T-PRU-18
#[test]
fn the_checkpoints_of_an_agent_are_pruned_and_its_key_stays() {
    for store in ["here", "sqlite:here/db"] {
        let sandbox = ready();
        let here = sandbox.path("here");
        fs::create_dir(&here).unwrap();
        for tick in ["1", "2"] {
            checkpoint(&sandbox, store, tick).exits(0);
        }
        let kept = sandbox.path("kept");
        copy(&here, &kept);
        prune(&sandbox, &format!("{store} --agent nobody"), 2);
        prune(&sandbox, &format!("{store} --agent counter"), 0);
        let gone = |folder: &Path| {
            let files = walk(folder);
            let is_one = |path: &PathBuf| path.extension().is_some_and(|is| is == "checkpoint");
            !files.iter().any(is_one)
        };
        assert!(gone(&here));
        is_excused(&sandbox);
        checkpoint(&sandbox, store, "3").exits(2);
        prune(&sandbox, &format!("{store} --agent counter"), 0);
        put_back(&kept, &here);
        checkpoint(&sandbox, store, "3")
            .exits(2)
            .warns("was pruned");
        prune(&sandbox, &format!("{store} --agent counter"), 0);
        assert!(gone(&here));
        is_excused(&sandbox);
    }
}

#[test]
fn ledgers_and_checkpoints_in_a_database_are_pruned_and_not_missed() {
    let Some(cluster) = crate::fleet::cluster() else {
        return;
    };
    let (sandbox, url) = (ready(), cluster.fresh());
    step(&sandbox, &url).exits(0);
    checkpoint(&sandbox, &url, "1").exits(0);
    prune(&sandbox, &format!("{url} --run r1"), 0);
    prune(&sandbox, &format!("{url} --agent counter"), 0);
    // The same holds if the database is not named.
    is_excused(&sandbox);
    verify(&sandbox, &format!("--all {url}"), 0)
        .has("pruned")
        .lacks("pruned_but_present");
    step(&sandbox, &url).exits(2);
    checkpoint(&sandbox, &url, "2").exits(2);
}

// T-PRU-19
#[test]
fn a_prune_in_a_store_that_was_cut_short_is_finished_by_the_next() {
    let sandbox = ready();
    let (runs, kept) = (sandbox.path("runs"), sandbox.path("kept"));
    step(&sandbox, "file:runs").exits(0);
    copy(&runs, &kept);
    // Stopped before the entry in the log: the home is put back, except for the tombstone.
    let home = sandbox.home();
    let places = [home.clone(), home.with_extension("marks")];
    for place in &places {
        copy(place, &place.with_extension("kept"));
    }
    prune(&sandbox, "file:runs --run r1", 0);
    let tombstone = fs::read(in_home(&sandbox)).unwrap();
    let place = in_home(&sandbox);
    for place in &places {
        put_back(&place.with_extension("kept"), place);
    }
    fs::create_dir(place.parent().unwrap()).unwrap();
    fs::write(&place, &tombstone).unwrap();
    put_back(&kept, &runs);
    verify(&sandbox, "runs", 0).lacks("pruned_but_present");
    prune(&sandbox, "file:runs --run r1", 0);
    assert!(!holds_secret(&runs));
    is_excused(&sandbox);
    // Stopped after the mark in the store itself, and before its files were deleted.
    let ledger = "ledger_r1.jsonl";
    fs::copy(kept.join(ledger), runs.join(ledger)).unwrap();
    prune(&sandbox, "file:runs --run r1", 0);
    assert!(!holds_secret(&runs));
    is_excused(&sandbox);
}
