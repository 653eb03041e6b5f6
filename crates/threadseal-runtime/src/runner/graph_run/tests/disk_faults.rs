//! Disks that fail while a run is continued. The earlier run is unchanged, or linked to a successor
//! that exists. No call that succeeded, or was given up, is made again.

use super::scene::{demo_graph, engine, outputs, run};
use crate::testing::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Three items: the call for 0 succeeds, for 1 its end is unknown, for 2 it fails.
const EACH: &str = "
    a: {type: foreach, over: \"${state.l}\", action: {primary: execute, item_type: tool, item_id: demo/t, params: {n: \"${item}\"}}, collect: all, next: b}
    b: {type: return, output: {all: \"${state.all}\"}}";

/// Which items were called, and whether the last one succeeds.
#[derive(Default, Clone)]
struct Calls {
    seen: Arc<Mutex<Vec<u64>>>,
    well: Arc<AtomicBool>,
    /// How far the disk was when the last item was called.
    disk: Option<FaultFs>,
    at: Arc<AtomicUsize>,
}

impl Calls {
    fn tool(&self) -> Arc<dyn Tool> {
        let calls = self.clone();
        tool("demo/t", move |input| {
            let item = input["n"].as_u64().unwrap();
            calls.seen.lock().unwrap().push(item);
            if let Some(disk) = &calls.disk {
                calls.at.store(disk.calls(), Ordering::SeqCst);
            }
            match item {
                0 => Outcome::ok(json!(0)),
                1 => Outcome::unknown("no answer"),
                _ if calls.well.load(Ordering::SeqCst) => Outcome::ok(json!(item)),
                _ => Outcome::failed("not now"),
            }
        })
    }

    fn of(&self, item: u64) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|seen| **seen == item).count()
    }
}

fn stopped(scene: &Scene, calls: &Calls) -> (Engine, ThreadId) {
    scene.graph("g/each", &demo_graph("state: {l: [0, 1, 2]}", EACH));
    let engine = engine(scene, vec![calls.tool()]);
    let run = run(&engine, "g/each").ended(Status::Error).thread;
    (engine, run)
}

// T-GRA-07
#[test]
fn a_call_that_was_given_up_is_not_made_again_unasked() {
    let (scene, calls) = (Scene::new(), Calls::default());
    let (engine, run) = stopped(&scene, &calls);
    let resume = |run: &ThreadId, decision| resume_graph(&engine, run, decision);
    assert!(resume(&run, Unresolved::Refuse).is_err());
    // Another item fails, too.
    let failed = resume(&run, Unresolved::Fail).unwrap().ended(Status::Error);
    assert_eq!(calls.of(1), 1);
    calls.well.store(true, Ordering::SeqCst);
    let again = resume(&failed.thread, Unresolved::Refuse).unwrap();
    let again = again.ended(Status::Error).thread;
    assert_eq!([0, 1, 2].map(|item| calls.of(item)), [1, 1, 3]);
    // A person who checked may still decide that it counts as made.
    let done = resume(&again, Unresolved::Skip).unwrap().completed();
    assert_eq!((calls.of(1), calls.of(2)), (1, 3));
    assert_eq!(outputs(done)["all"], json!([0, null, 2]));
    scene.all_verify();
}

/// The invariant after any failure: each run verifies or can be recovered, and only one run can be
/// continued. No call of the step that succeeded or was given up is made again.
fn sound(scene: &Scene, calls: &Calls, first: &ThreadId, what: &str) {
    let engine = engine(scene, vec![calls.tool()]);
    let rows = listed(&engine);
    let resume = |run: &ThreadId, decision| resume_graph(&engine, run, decision);
    let good = |ran: Result<Ran, Error>| ran.unwrap_or_else(|error| panic!("{what}: {error}"));
    for run in rows.iter().map(|row| &row.id) {
        let is_there = scene.is_there(scene.transcript(run));
        let verdict = is_there.then(|| scene.verdict(run));
        let cut_off = matches!(verdict, Some(Verdict::UnsignedTail | Verdict::Open));
        let runs = || {
            matches!(
                row(&engine, run).status,
                Ok(Status::Created | Status::Running)
            )
        };
        if cut_off || (run != first && runs()) {
            let recovered = engine.recover(run);
            recovered.unwrap_or_else(|error| panic!("{what}: {run}: {error}"));
        }
    }
    let events = scene.verified(first);
    let links = events.of("thread_resumed");
    assert!(links.len() <= 1, "{what}: {links:?}");
    let last = links.first().map_or(first.clone(), |link| {
        ThreadId::parse(link["new_thread_id"].text()).unwrap()
    });
    let made = || calls.seen.lock().unwrap().len();
    // No other run can be continued.
    for row in rows.iter().filter(|row| row.id != last) {
        let before = made();
        let went_on = resume(&row.id, Unresolved::Fail);
        assert!(went_on.is_err(), "{what}: {} goes on, not {last}", row.id);
        assert_eq!(made(), before, "{what}");
    }
    calls.well.store(true, Ordering::SeqCst);
    if row(&engine, &last).status == Ok(Status::Completed) {
        return;
    }
    // The successor's record contains the decision: no person is asked again.
    let decision = match links.is_empty() {
        true => Unresolved::Fail,
        false => Unresolved::Refuse,
    };
    let mut ran = resume(&last, decision);
    if let Err(error) = &ran
        && error.to_string().contains("--skip-unresolved")
    {
        // It died within the call of the last item.
        assert!(error.to_string().contains("1.2"), "{what}: {error}");
        ran = resume(&last, Unresolved::Fail);
    }
    let ran = good(ran);
    assert_eq!((calls.of(0), calls.of(1)), (1, 1), "{what}");
    let done = good(resume(&ran.thread, Unresolved::Skip));
    assert_eq!(done.status, Status::Completed, "{what}");
    assert_eq!((calls.of(0), calls.of(1)), (1, 1), "{what}");
}

/// Lets the calls `which` picks fail, of as many as there are, and of those before the run's first
/// call of a tool.
fn at_calls(kinds: &[FaultKind], killed: bool, which: &dyn Fn(usize, usize) -> Vec<usize>) {
    let begun = || {
        let (disk, scene) = Scene::failing();
        let calls = Calls {
            disk: Some(disk.clone()),
            ..Calls::default()
        };
        let (engine, run) = stopped(&scene, &calls);
        (disk, scene, calls, engine, run)
    };
    let (disk, _scene, calls, engine, run) = begun();
    let before = disk.calls();
    resume_graph(&engine, &run, Unresolved::Fail).unwrap();
    let count = disk.calls() - before;
    let first = calls.at.load(Ordering::SeqCst) - before;
    let (chosen, mut struck) = (which(count, first), 0);
    for (place, call) in chosen.iter().enumerate() {
        let kind = kinds[place % kinds.len()];
        let (disk, scene, calls, engine, run) = begun();
        disk.plan(*call, kind);
        let done = resume_graph(&engine, &run, Unresolved::Fail).err();
        let at = disk.struck();
        struck += usize::from(at.is_some());
        disk.kill_process();
        match kind {
            FaultKind::PowerOff if !killed => disk.cut_power(Keep::Nothing),
            _ => disk.heal(),
        }
        if killed {
            // A process that is killed leaves rows as they were.
            scene.edit(
                "UPDATE threads SET status = 'running', completed_at = NULL
                 WHERE thread_id <> ?1 AND status = 'error'",
                &run,
            );
        }
        let what = format!("call {call} of {count}, {kind:?} at {at:?}, {done:?}");
        sound(&scene, &calls, &run, &what);
    }
    let planned = chosen.len();
    assert!(struck * 10 >= planned * 9, "{struck} of {planned}");
}

// T-GRA-06
#[test]
fn a_resume_that_is_killed_anywhere_leaves_one_run_to_go_on_from() {
    at_calls(&[FaultKind::PowerOff], true, &|count, first| {
        // A sample: every call takes a minute. After the first call of a tool it is a run like any
        // other.
        let mut chosen: Vec<usize> = (1..first).step_by(3).collect();
        chosen.extend((first..count).step_by(20));
        chosen
    });
}

// T-GRA-06
#[test]
fn a_resume_on_a_disk_that_fails_leaves_one_run_to_go_on_from() {
    let kinds = [
        FaultKind::Io,
        FaultKind::DoneButFailed,
        FaultKind::PowerOff,
        FaultKind::ShortThenNoSpace,
    ];
    at_calls(&kinds, false, &|count, _| (0..count).step_by(11).collect());
}
