//! Trees of threads whose process ends at any call to the disk, and recoveries that do, too.
//!
//! After the next recovery no thread is running, every record verifies, the money of the ledgers adds
//! up, each call of a tool that ran is named once, and a further recovery finds nothing.

use crate::budget::inspect;
use crate::config::models::Prices;
use crate::runner::orphans::Scope;
use crate::testing::prelude::*;
use threadseal_store::fault::sweeps_are_whole;
use threadseal_store::heads::FileHeadStore;

const USAGE: &str = "usage: {input_tokens: 100, output_tokens: 10}";

/// A thread that reads, waits for a child, and begins another one that it does not wait for; each
/// child reads.
fn script() -> String {
    let read = "{tool: rye_file-system_read}";
    let child = |parallel: bool| {
        format!(
            "{{tool: rye_agent_threads_thread_directive, input: {{directive_id: demo/child, async: {parallel}}}}}"
        )
    };
    format!(
        "conversations:\n\
         - when: I am the parent\n  answers: [{{calls: [{read}], {USAGE}}}, {{calls: [{}], {USAGE}}}, \
         {{calls: [{}, {read}], {USAGE}}}, {{text: Done., {USAGE}}}]\n\
         - when: I am a child\n  answers: [{{calls: [{read}], {USAGE}}}, {{text: Here., {USAGE}}}]\n",
        child(false),
        child(true)
    )
}

/// A project on a disk that fails, and what its tools ran.
struct Tree {
    disk: FaultFs,
    scene: Scene,
    tool: Arc<dyn Tool>,
    ran: Arc<Mutex<Vec<String>>>,
}

impl Tree {
    fn new() -> Self {
        let (disk, mut scene) = Scene::failing();
        scene.host.heads = Arc::new(FileHeadStore::new(disk.shared(), "/heads"));
        let usd = |text: &str| Nanos::parse(text).unwrap();
        scene.prices = Prices {
            input: usd("3"),
            output: usd("15"),
            ..Prices::default()
        };
        let scene = scene.signed();
        scene.reader("demo/parent", "", "I am the parent.");
        scene.reader("demo/child", "", "I am a child.");
        let (tool, ran) = noting_tool();
        Self {
            disk,
            scene,
            tool,
            ran,
        }
    }

    fn engine(&self) -> Engine {
        self.scene
            .engine_with(&script(), vec![Arc::clone(&self.tool)])
    }

    /// Runs the parent; the process ends in it, at this call.
    fn run_until(&self, call: usize) -> Result<Ran, Error> {
        let engine = self.engine();
        self.disk.plan(call, FaultKind::PowerOff);
        engine.run(&order("demo/parent"))
    }

    /// The process has ended: what it still put into the databases is as a killed one leaves it.
    fn is_killed(&self, keep: Option<Keep>) {
        match keep {
            None => self.disk.kill_process(),
            Some(keep) => self.disk.cut_power(keep),
        }
        self.disk.heal();
        for thread in listed(&self.engine()) {
            self.scene.as_if_killed(&thread.id);
            let dead = "UPDATE threads SET pid = 999999 WHERE thread_id = ?1";
            self.scene.edit(dead, &thread.id);
        }
    }

    fn heals(&self) -> Result<usize, Error> {
        self.engine().heal(Scope::All).map(|healed| healed.len())
    }

    /// What must hold after a recovery.
    fn is_whole(&self, what: &str) {
        let engine = self.engine();
        assert_eq!(self.heals().unwrap(), 0, "{what}");
        let mut named = Vec::new();
        for thread in listed(&engine) {
            let status = thread.status.unwrap();
            assert!(
                !matches!(status, Status::Created | Status::Running),
                "{what}: {} is {status:?}",
                thread.id
            );
            if self.scene.is_there(self.scene.transcript(&thread.id)) {
                assert_eq!(self.scene.verdict(&thread.id), Verdict::Verified, "{what}");
                named.extend(self.scene.events(&thread.id).keys_of_calls());
            }
            let budget = engine.services.budgets.get(&thread.id).unwrap();
            if let Some(budget) = budget {
                assert_ne!(budget.status, "active", "{what}: {budget:?}");
                // What it did not spend, its parent has again.
                assert_eq!(budget.reserved, budget.actual, "{what}: {budget:?}");
            }
        }
        for key in &*self.ran.lock().unwrap() {
            let times = named.iter().filter(|named| *named == key).count();
            assert_eq!(times, 1, "{what}: {key} of {named:?}");
        }
        if self.scene.budgets().exists() {
            let found = inspect(&self.scene.budgets()).unwrap();
            assert!(found.faults.is_empty(), "{what}: {:?}", found.faults);
        }
    }
}

/// Calls of `0..of` in even steps; all of them in a whole sweep.
fn some_of(of: usize, share: usize) -> impl Iterator<Item = usize> {
    let step = match sweeps_are_whole() {
        true => 1,
        false => (of / share).max(1),
    };
    (0..of).step_by(step)
}

// T-RUN-44
#[test]
fn a_tree_whose_process_or_recovery_ends_at_any_call_is_healed_whole() {
    let whole = Tree::new();
    whole.run_until(usize::MAX).unwrap().completed();
    let calls = whole.disk.calls();
    let (mut orphans, mut interrupted) = (0, 0);
    for (round, call) in some_of(calls, 40).enumerate() {
        for keep in [None, Some(Keep::Nothing), Some(Keep::ByLot(call as u64))] {
            let tree = Tree::new();
            let done = tree.run_until(call).err();
            tree.is_killed(keep);
            // A recovery has fewer calls than this for a tree of three threads.
            let second = (round * 37) % 400;
            let engine = tree.engine();
            tree.disk.plan(second, FaultKind::PowerOff);
            let first = engine.heal(Scope::All).map(|healed| healed.len());
            let what =
                format!("call {call} of {calls}, {keep:?}, then {second}: {done:?}, {first:?}");
            if tree.disk.struck().is_some() {
                interrupted += 1;
                tree.is_killed(keep);
            } else {
                tree.disk.heal();
            }
            let healed = tree.heals();
            orphans +=
                first.unwrap_or(0) + healed.unwrap_or_else(|error| panic!("{what}: {error}"));
            tree.is_whole(&what);
        }
    }
    assert!(orphans > 40 && interrupted > 10, "{orphans} {interrupted}");
}
