//! Disks that fail while a run is continued. The earlier run is unchanged, or linked to a successor
//! that exists. No call that succeeded, or was given up, is made again.

use super::resumption::resume;
use super::scene::{Field, order, tool};
use crate::project::Project;
use crate::registry::Filter;
use crate::runner::Engine;
use crate::runner::Unresolved;
use crate::status::Status;
use crate::toolbox::{Outcome, Tool};
use serde_json::json;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_store::fault::{FaultFs, FaultKind, Keep};

/// Three items: the call for 0 succeeds, for 1 its end is unknown, for 2 it fails.
const EACH: &str = "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  state: {l: [0, 1, 2]}\n  nodes:\n    a: {type: foreach, over: \"${state.l}\", action: {primary: execute, item_type: tool, item_id: demo/t, params: {n: \"${item}\"}}, collect: all, next: b}\n    b: {type: return, output: {all: \"${state.all}\"}}\n";

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

fn stopped(field: &Field, calls: &Calls) -> (Engine, ThreadId) {
    field.graph("g/each", EACH);
    let engine = field.engine(vec![calls.tool()]);
    let run = engine.run_graph(&order("g/each", json!({}))).unwrap();
    assert_eq!(run.status, Status::Error);
    (engine, run.thread)
}

// T-GRA-07
#[test]
fn a_call_that_was_given_up_is_not_made_again_unasked() {
    let (field, calls) = (Field::new(), Calls::default());
    let (engine, run) = stopped(&field, &calls);
    assert!(resume(&engine, &run, Unresolved::Refuse).is_err());
    // Another item fails, too.
    let failed = resume(&engine, &run, Unresolved::Fail).unwrap();
    assert_eq!((failed.status, calls.of(1)), (Status::Error, 1));
    calls.well.store(true, Ordering::SeqCst);
    let again = resume(&engine, &failed.thread, Unresolved::Refuse).unwrap();
    assert_eq!(
        (again.status, calls.of(0), calls.of(1)),
        (Status::Error, 1, 1)
    );
    assert_eq!(calls.of(2), 3);
    // A person who checked may still decide that it counts as made.
    let done = resume(&engine, &again.thread, Unresolved::Skip).unwrap();
    assert_eq!(
        (done.status, calls.of(1), calls.of(2)),
        (Status::Completed, 1, 3)
    );
    assert_eq!(done.outputs.unwrap()["all"], json!([0, null, 2]));
    field.all_verify();
}

/// A process that is killed leaves rows as they were.
fn as_if_killed(field: &Field, run: &ThreadId) {
    let database = rusqlite::Connection::open(field.database(Project::registry)).unwrap();
    let sql = "update threads set status = 'running', completed_at = null \
               where thread_id <> ?1 and status = 'error'";
    database.execute(sql, [run.as_str()]).unwrap();
}

/// The invariant after any failure: each run verifies or can be recovered, and only one run can be
/// continued. No call of the step that succeeded or was given up is made again.
fn sound(field: &Field, calls: &Calls, first: &ThreadId, what: &str) {
    let engine = field.engine(vec![calls.tool()]);
    let listed = engine
        .services
        .registry
        .list(&Filter::default())
        .unwrap()
        .threads;
    let running = |run: &ThreadId| {
        let row = engine.services.registry.get(run).unwrap().unwrap();
        matches!(row.status, Ok(Status::Created | Status::Running))
    };
    let verdict = |run: &ThreadId| {
        let path = field.folder(run).join("transcript.jsonl");
        let there = field.bench.host.fs.symlink_metadata(&path).is_ok();
        there.then(|| field.transcript_verdict(&path))
    };
    for run in listed.iter().map(|thread| &thread.id) {
        let cut_off = matches!(verdict(run), Some(Verdict::UnsignedTail | Verdict::Open));
        if cut_off || (run != first && running(run)) {
            let recovered = engine.recover(run);
            recovered.unwrap_or_else(|error| panic!("{what}: {run}: {error}"));
        }
    }
    let events = field.events(first);
    let links = events.iter().filter(|(kind, _)| kind == "thread_resumed");
    let links: Vec<&str> = links
        .map(|(_, link)| link["new_thread_id"].as_str().unwrap())
        .collect();
    assert!(links.len() <= 1, "{what}: {links:?}");
    let last = links
        .first()
        .map_or(first.clone(), |id| ThreadId::parse(id).unwrap());
    // No other run can be continued.
    for run in listed
        .iter()
        .map(|thread| &thread.id)
        .filter(|run| **run != last)
    {
        let before = calls.seen.lock().unwrap().len();
        let why = resume(&engine, run, Unresolved::Fail);
        assert!(why.is_err(), "{what}: {run} goes on, not {last}");
        assert_eq!(calls.seen.lock().unwrap().len(), before, "{what}");
    }
    calls.well.store(true, Ordering::SeqCst);
    let complete = engine.services.registry.get(&last).unwrap().unwrap();
    if complete.status == Ok(Status::Completed) {
        return;
    }
    // The successor's record contains the decision: no person is asked again.
    let decision = match links.is_empty() {
        true => Unresolved::Fail,
        false => Unresolved::Refuse,
    };
    let mut ran = resume(&engine, &last, decision);
    if let Err(error) = &ran
        && error.to_string().contains("--skip-unresolved")
    {
        // It died within the call of the last item.
        assert!(error.to_string().contains("1.2"), "{what}: {error}");
        ran = resume(&engine, &last, Unresolved::Fail);
    }
    let ran = ran.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((calls.of(0), calls.of(1)), (1, 1), "{what}");
    let done = resume(&engine, &ran.thread, Unresolved::Skip);
    let done = done.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(done.status, Status::Completed, "{what}");
    assert_eq!((calls.of(0), calls.of(1)), (1, 1), "{what}");
}

/// Lets the calls `which` picks fail, of as many as there are, and of those before the run's first
/// call of a tool.
fn at_calls(kinds: &[FaultKind], killed: bool, which: &dyn Fn(usize, usize) -> Vec<usize>) {
    let begun = || -> (FaultFs, Field, Calls, Engine, ThreadId) {
        let (disk, field) = Field::failing();
        let calls = Calls {
            disk: Some(disk.clone()),
            ..Calls::default()
        };
        let (engine, run) = stopped(&field, &calls);
        (disk, field, calls, engine, run)
    };
    let (disk, _field, calls, engine, run) = begun();
    let before = disk.calls();
    resume(&engine, &run, Unresolved::Fail).unwrap();
    let (count, first) = (
        disk.calls() - before,
        calls.at.load(Ordering::SeqCst) - before,
    );
    let (chosen, mut struck) = (which(count, first), 0);
    for (place, call) in chosen.iter().enumerate() {
        let kind = kinds[place % kinds.len()];
        let (disk, field, calls, engine, run) = begun();
        disk.plan(*call, kind);
        let done = resume(&engine, &run, Unresolved::Fail);
        let at = disk.struck();
        struck += usize::from(at.is_some());
        disk.kill_process();
        match kind {
            FaultKind::PowerOff if !killed => disk.cut_power(Keep::Nothing),
            _ => disk.heal(),
        }
        if killed {
            as_if_killed(&field, &run);
        }
        let what = format!(
            "call {call} of {count}, {kind:?} at {at:?}, {:?}",
            done.err()
        );
        sound(&field, &calls, &run, &what);
    }
    assert!(
        struck * 10 >= chosen.len() * 9,
        "{struck} of {}",
        chosen.len()
    );
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
