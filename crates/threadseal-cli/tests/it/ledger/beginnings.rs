//! Writers that begin one run at the same time, and the ledgers that such writers damaged before.

use super::commands::signed;
use crate::prelude::*;
use crate::scene::signer;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, Signer as _};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{ActorFingerprint, Genesis, RunId, StepRecord};
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::ledger::{
    ActorSigners, ChainedLedger as _, HashChainedLedgerStore, JsonlLedgerStore,
};
use threadseal_store::random::SystemRandom;
use threadseal_store::sys::RealFs;

const WRITERS: usize = 8;
const GENESIS: &str = "\"node_id\":\"threadseal.genesis\"";

/// Eight commands that wait for their input, and get it at the same time: one step each.
fn eight_at_once(sandbox: &Sandbox, store: &str, more: impl Fn(usize) -> &'static str) -> Vec<Ran> {
    let start = |writer: usize| {
        let line = format!("ledger append {store} {}", more(writer));
        let mut command = sandbox.command();
        command.args(words(&line));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..WRITERS).map(start).collect();
    for (writer, child) in children.iter_mut().enumerate() {
        let step = format!("{{\"run_id\":\"r1\",\"node\":\"step of {writer}\"}}\n");
        let mut input = child.stdin.take().unwrap();
        input.write_all(step.as_bytes()).unwrap();
    }
    let ended = children.into_iter().map(Child::wait_with_output);
    ended.map(|output| Ran::of(output.unwrap())).collect()
}

/// Which of the writers have their step in the store, each once.
fn writers_in(sandbox: &Sandbox, store: &str) -> Vec<usize> {
    let all = sandbox.ok(format!("ledger export {store} --run r1")).stdout;
    assert!(all.matches(GENESIS).count() <= 1, "{all}");
    let count = |writer: &usize| all.matches(&format!("\"step of {writer}\"")).count();
    assert!((0..WRITERS).all(|writer| count(&writer) <= 1), "{all}");
    (0..WRITERS).filter(|writer| count(writer) == 1).collect()
}

fn stores() -> Vec<String> {
    let mut stores = ["file:runs", "sqlite:runs.db", "object+file:objects"]
        .map(str::to_owned)
        .to_vec();
    if let Some(cluster) = crate::fleet::cluster() {
        stores.push(cluster.fresh());
    }
    stores
}

// T-STO-27
#[test]
fn of_eight_first_appends_at_once_one_begins_the_ledger() {
    for store in stores() {
        let sandbox = ready();
        for ran in eight_at_once(&sandbox, &store, |_| "--sign") {
            ran.exits(0);
        }
        assert_eq!(writers_in(&sandbox, &store).len(), WRITERS, "{store}");
        let verdict = sandbox.verdict(format!("ledger verify {store}"));
        assert_eq!(verdict, "verified", "{store}");
    }
}

/// Some sign and some do not: those that did not begin the ledger follow its rule, or stop.
// T-STO-27
#[test]
fn a_writer_that_lost_the_beginning_follows_the_winner_or_stops() {
    for store in stores() {
        let sandbox = ready();
        let signs = |writer: usize| match writer.is_multiple_of(2) {
            true => "--sign",
            false => "",
        };
        let ran = eight_at_once(&sandbox, &store, signs);
        let done: Vec<usize> = (0..WRITERS)
            .filter(|writer| ran[*writer].code == 0)
            .collect();
        assert_eq!(writers_in(&sandbox, &store), done, "{store}: {ran:?}");
        for ran in ran.iter().filter(|ran| ran.code != 0) {
            assert_eq!(ran.code, 2, "{ran:?}");
            ran.stderr.has("is signed; hint: append with --sign");
        }
        let report = sandbox.report(format!("ledger verify {store}"));
        let verdict = report["verdict"].text();
        assert!(exit_of(verdict) != 1, "{store}: {report:#}");
    }
}

/// A run with two beginnings by the home's own key, as two writers at once left it before.
fn begun_twice(sandbox: &Sandbox) -> Result<(), Error> {
    let home = Home::open(RealFs::shared(), &sandbox.home())?;
    let host = Host {
        fs: RealFs::shared(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        heads: Arc::new(home.heads()),
        keys: Arc::new(NoKeyEnds),
    };
    let key = signer(&home, "self.native", KeyUsage::Native);
    let actor = ActorFingerprint::for_key("agent", None, Vec::new(), key.public_key()).unwrap();
    let id = actor.actor_id().to_owned();
    let signers = ActorSigners::new().with(id.clone(), Arc::new(key));
    let store = JsonlLedgerStore::open(RealFs::shared(), &sandbox.path("runs"))?;
    let ledger = HashChainedLedgerStore::new(store).with_host(host);
    let ledger = ledger.with_signer(Arc::new(signers));
    let run = RunId::parse("r1")?;
    for seed in [1, 2] {
        let mut genesis = Genesis::new(RecordId::from_bytes([seed; 32]), SystemClock.now()?);
        genesis.actors.add(actor.clone())?;
        ledger.append(&genesis.to_record(run.clone(), seed.to_string(), Some(id.clone())))?;
    }
    let now: Timestamp = SystemClock.now()?;
    let mut step = StepRecord::start(run, "s", "node", None, now);
    step.actor_id = Some(id);
    step.finish_success(None, now);
    ledger.append(&step)?;
    Ok(())
}

// T-STO-28
#[test]
fn a_ledger_that_was_begun_twice_is_settled_by_a_signed_record_and_says_so_for_ever() {
    let sandbox = ready();
    begun_twice(&sandbox).unwrap();
    let verify = "ledger verify file:runs";
    let report = sandbox.report(verify);
    assert_eq!(report["verdict"], "tampered", "{report:#}");
    assert!(report.codes().contains(&"genesis_misplaced"), "{report:#}");
    let before = sandbox.read("runs/ledger_r1.jsonl");

    // Another key is not of this ledger, and a reason must be given.
    sandbox.ok("key new --name other");
    let settle = "ledger settle file:runs --run r1";
    sandbox
        .sh(format!("{settle} --why x --key other"))
        .fails_with("does not name the key");
    sandbox
        .exits(2, format!("{settle} --why ' '"))
        .warns("a reason has words");
    assert_eq!(sandbox.read("runs/ledger_r1.jsonl"), before);

    let settled = sandbox.json(format!("{settle} --why 'two workers began it'"));
    settled.is(json!({"run": "r1", "beginnings": [1], "records": 4}));
    let after = sandbox.read("runs/ledger_r1.jsonl");
    assert!(after.starts_with(&before), "no record changes");
    after.has("two workers began it");
    for verify in [verify, "verify runs/ledger_r1.jsonl"] {
        let report = sandbox.report(verify);
        assert_eq!(report["verdict"], "verified", "{report:#}");
        assert!(report.codes().contains(&"genesis_repeated"), "{report:#}");
    }
    let again = sandbox.sh(format!("{settle} --why again"));
    again.fails_with("no second beginning to settle");
    piped(
        &sandbox,
        "ledger append file:runs --run r1 --sign",
        "{\"node\":\"on\"}\n",
    )
    .exits(0);
    assert_eq!(sandbox.verdict(verify), "verified");
}

// T-STO-28
#[test]
fn no_other_fault_is_settled() {
    let sandbox = ready();
    let path = signed(&sandbox);
    let settle = "ledger settle file:runs --run r1 --why x";
    sandbox
        .sh(settle)
        .fails_with("no second beginning to settle");
    replace(&path, "\"ho\"", "\"he\"");
    sandbox
        .sh(settle)
        .fails_with("the ledger has another fault");
    let broken = ready();
    begun_twice(&broken).unwrap();
    replace(
        broken.path("runs/ledger_r1.jsonl"),
        "\"completed\"",
        "\"failed\"",
    );
    broken.sh(settle).fails_with("the ledger has another fault");
}
