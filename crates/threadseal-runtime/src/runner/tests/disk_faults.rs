//! Disks that fail while a thread continues: its record is unchanged, properly linked, or to be
//! recovered; never forked.

use super::stage::{Stage, again, of, order};
use crate::project::Project;
use crate::runner::Engine;
use crate::status::Status;
use crate::testing::Bench;
use crate::thread_meta::ThreadMeta;
use std::path::Path;
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::{ScanOptions, VerifyOptions, verify};
use threadseal_store::fault::{FaultFs, FaultKind, Keep};
use threadseal_store::sys::Fs as _;

const READS: &str = "answers:\n- {text: I read., calls: [{tool: rye_file-system_read, input: {path: notes.txt}}]}\n\
                     - {text: Done.}\n";
const GLADLY: &str = "answers: [{text: Gladly.}]";

/// A stage on a disk that can fail.
fn failing() -> (FaultFs, Stage) {
    let disk = FaultFs::new();
    disk.create_dir(Path::new("/p"), 0o700).unwrap();
    let mut bench = Bench::new();
    bench.host.fs = disk.shared();
    bench.project = Project::init(&*bench.host.fs, Path::new("/p")).unwrap();
    (disk, Stage::on(bench))
}

fn verdict(stage: &Stage, thread: &ThreadId) -> Verdict {
    let bytes = stage.read(&stage.folder(thread).join("transcript.jsonl"));
    let options = VerifyOptions {
        trust: &stage.bench.trust,
        now: stage.bench.host.clock.now().unwrap(),
        held_since: None,
        thread: Some(thread),
    };
    verify(&bytes, &ScanOptions::default(), &options)
        .report
        .verdict
}

/// The invariant after any failure: the old record verifies, or shows a cut-off write and can be
/// recovered. If it names a successor, that one exists; and the chain can be continued, once.
fn sound(stage: &Stage, first: &ThreadId, what: &str) {
    let engine = stage.engine(GLADLY);
    if matches!(verdict(stage, first), Verdict::UnsignedTail | Verdict::Open) {
        engine
            .recover(first)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert_eq!(verdict(stage, first), Verdict::Verified, "{what}");
    let events = stage.events(first);
    let links: Vec<_> = of(&events, "thread_resumed")
        .into_iter()
        .chain(of(&events, "thread_handoff"))
        .collect();
    assert!(links.len() <= 1, "{what}: {links:?}");
    let last = match links.first() {
        None => first.clone(),
        Some(link) => {
            let successor = ThreadId::parse(link["new_thread_id"].as_str().unwrap()).unwrap();
            let row = engine.services.registry.get(first).unwrap().unwrap();
            if row.continuation.is_none() {
                engine
                    .recover(first)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            ended(&engine, &successor, what);
            successor
        }
    };
    ended(&engine, &last, what);
    let papers = stage.folder(&last).join("thread.json");
    if stage.bench.host.fs.symlink_metadata(&papers).is_err() {
        // It ended before its first request, and before anything could link to it.
        assert!(links.is_empty(), "{what}");
        return;
    }
    let ran = engine
        .resume(&again(first))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let chain = engine.services.archive().chain(&ran.thread).unwrap();
    assert!(chain.has(first), "{what}");
}

/// Brings a thread whose process failed to its end.
fn ended(engine: &Engine, thread: &ThreadId, what: &str) {
    let row = engine.services.registry.get(thread).unwrap().unwrap();
    if !row.status.clone().unwrap().is_resumable() && row.continuation.is_none() {
        engine
            .recover(thread)
            .unwrap_or_else(|error| panic!("{what}: {thread}: {error}"));
    }
}

fn each_fault(
    work: &dyn Fn(&Engine, &ThreadId) -> Result<(), threadseal_core::error::Error>,
    first: &dyn Fn(&Stage) -> ThreadId,
) {
    let (disk, stage) = failing();
    let thread = first(&stage);
    let engine = stage.engine(GLADLY);
    let before = disk.calls();
    work(&engine, &thread).unwrap();
    let calls = disk.calls() - before;
    let kinds = [
        FaultKind::Io,
        FaultKind::ShortThenNoSpace,
        FaultKind::DoneButFailed,
        FaultKind::PowerOff,
    ];
    let (mut planned, mut hits) = (0, 0);
    // A sample: every call would take minutes.
    for call in (0..calls).step_by((calls / 14).max(1)) {
        for kind in kinds {
            let (disk, stage) = failing();
            let thread = first(&stage);
            let engine = stage.engine(GLADLY);
            disk.plan(call, kind);
            let done = work(&engine, &thread);
            let struck = disk.struck();
            planned += 1;
            hits += usize::from(struck.is_some());
            if kind == FaultKind::PowerOff {
                disk.cut_power(Keep::Nothing);
            } else {
                disk.kill_process();
                disk.heal();
            }
            let what = format!(
                "call {call} of {calls}, {kind:?} at {struck:?}, {:?}",
                done.err()
            );
            sound(&stage, &thread, &what);
        }
    }
    // A run makes a few calls more or fewer than another one.
    assert!(
        hits * 10 >= planned * 9,
        "{hits} of {planned} faults struck"
    );
}

// T-RUN-06
#[test]
fn a_resume_that_fails_anywhere_leaves_the_old_record_whole() {
    let ended = |stage: &Stage| stage.run(READS).thread;
    each_fault(
        &|engine, thread| engine.resume(&again(thread)).map(drop),
        &ended,
    );
}

// T-RUN-06
#[test]
fn a_handoff_that_fails_anywhere_leaves_the_old_record_whole() {
    let ended = |stage: &Stage| stage.run(READS).thread;
    each_fault(
        &|engine, thread| engine.handoff(&again(thread)).map(drop),
        &ended,
    );
}

// T-RUN-06
#[test]
fn a_thread_that_hands_itself_over_on_a_failing_disk_ends_once() {
    let script = {
        let mut script = "answers:\n".to_owned();
        for turn in 0..7 {
            script.push_str(&format!("- {{text: Turn {turn}., calls: [{{tool: rye_file-system_read, input: {{path: notes.txt}}}}]}}\n"));
        }
        script + "- {text: Done.}\n"
    };
    let small = |stage: &mut Stage| {
        stage.window = 900;
        stage.coordination = "resume_ceiling_tokens: 400".to_owned();
    };
    let (disk, mut stage) = failing();
    small(&mut stage);
    let engine = stage.engine(&script);
    let before = disk.calls();
    engine.run(&order("demo/say")).unwrap();
    let calls = disk.calls() - before;
    let (mut planned, mut hits) = (0, 0);
    for call in (0..calls).step_by((calls / 20).max(1)) {
        for kind in [FaultKind::Io, FaultKind::PowerOff] {
            let (disk, mut stage) = failing();
            small(&mut stage);
            let engine = stage.engine(&script);
            disk.plan(call, kind);
            let done = engine.run(&order("demo/say"));
            planned += 1;
            hits += usize::from(disk.struck().is_some());
            if kind == FaultKind::PowerOff {
                disk.cut_power(Keep::Nothing);
            } else {
                disk.kill_process();
                disk.heal();
            }
            let what = format!("call {call} of {calls}, {kind:?}, {:?}", done.err());
            let engine = stage.engine(GLADLY);
            let listed = engine
                .services
                .registry
                .list(&crate::registry::Filter::default())
                .unwrap();
            let Some(first) = listed.threads.last() else {
                continue;
            };
            for thread in &listed.threads {
                ended(&engine, &thread.id, &what);
            }
            let there = stage.folder(&first.id).join("transcript.jsonl");
            if stage.bench.host.fs.symlink_metadata(&there).is_ok() {
                sound(&stage, &first.id, &what);
            }
        }
    }
    assert!(
        hits * 10 >= planned * 9,
        "{hits} of {planned} faults struck"
    );
}

// T-RUN-25
#[test]
fn a_thread_that_dies_before_its_first_thread_json_gets_one_when_it_is_recovered() {
    let mut without = 0;
    for call in 0.. {
        let (disk, stage) = failing();
        let engine = stage.engine(GLADLY);
        disk.plan(call, FaultKind::PowerOff);
        let done = engine.run(&order("demo/say"));
        disk.kill_process();
        disk.heal();
        let what = format!("call {call}, {:?}", done.err());
        let engine = stage.engine(GLADLY);
        let listed = engine
            .services
            .registry
            .list(&crate::registry::Filter::default())
            .unwrap();
        let Some(id) = listed.threads.first().map(|thread| thread.id.clone()) else {
            continue;
        };
        let folder = engine.services.project.thread(&id);
        let there = |path: &Path| stage.bench.host.fs.symlink_metadata(path).is_ok();
        if there(&folder.metadata()) {
            break;
        }
        if !there(&folder.transcript()) {
            continue;
        }
        // Without line 1 there is nothing to end; without seal 0 it is refused, as before.
        if engine.recover(&id).is_err() {
            continue;
        }
        without += 1;
        assert_eq!(verdict(&stage, &id), Verdict::Verified, "{what}");
        let first = stage.read(&folder.transcript());
        let first = first.split(|byte| *byte == b'\n').next().unwrap();
        let manifest = threadseal_formats::transcript::manifest::parse_line(first).unwrap();
        let (host, trust) = (&engine.services.host, &engine.services.trust);
        let meta = ThreadMeta::read(host, &folder, &id, Some(&manifest), trust);
        let meta = meta.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(meta.get().status, Status::Error, "{what}");
    }
    assert!(without > 0);
}

// T-RUN-26
#[test]
fn a_thread_json_that_was_never_written_is_made_of_a_record_that_has_its_end() {
    let mut stage = Stage::new();
    let ran = stage.run(READS);
    let papers = stage.folder(&ran.thread).join("thread.json");
    let before: serde_json::Value = serde_json::from_slice(&stage.read(&papers)).unwrap();
    std::fs::remove_file(&papers).unwrap();
    // The host that sealed it misses it.
    assert!(stage.engine(GLADLY).recover(&ran.thread).is_err());
    assert!(!papers.exists());
    stage.bench.host.heads =
        std::sync::Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    let recovered = stage.engine(GLADLY).recover(&ran.thread).unwrap();
    assert_eq!(recovered.status, Status::Completed);
    let after: serde_json::Value = serde_json::from_slice(&stage.read(&papers)).unwrap();
    for member in [
        "thread_id",
        "status",
        "directive",
        "limits",
        "capabilities",
        "cost",
    ] {
        assert_eq!(before[member], after[member], "{member}");
    }
    assert_eq!(
        stage.resume(&ran.thread, GLADLY).unwrap().status,
        Status::Completed
    );
}

// T-RUN-26
#[test]
fn a_recovery_that_dies_before_the_first_thread_json_is_made_up_for_by_the_next() {
    // The call at which a process dies that leaves line 1 and no thread.json.
    let dead = |call: usize| {
        let (disk, stage) = failing();
        let engine = stage.engine(GLADLY);
        disk.plan(call, FaultKind::PowerOff);
        let _ = engine.run(&order("demo/say"));
        disk.kill_process();
        disk.heal();
        let listed = engine
            .services
            .registry
            .list(&crate::registry::Filter::default());
        let id = listed.unwrap().threads.first()?.id.clone();
        let folder = engine.services.project.thread(&id);
        let there = |path: &Path| stage.bench.host.fs.symlink_metadata(path).is_ok();
        let is_so = there(&folder.transcript()) && !there(&folder.metadata());
        is_so.then_some((disk, stage, id))
    };
    let well = |call: &usize| {
        let dead = dead(*call);
        dead.is_some_and(|(_, stage, id)| stage.engine(GLADLY).recover(&id).is_ok())
    };
    let call = (0..1000).find(well).unwrap();
    let (disk, stage, id) = dead(call).unwrap();
    let engine = stage.engine(GLADLY);
    let before = disk.calls();
    engine.recover(&id).unwrap();
    let calls = disk.calls() - before;
    let mut ended_without = 0;
    for fault in 0..calls {
        let (disk, stage, id) = dead(call).unwrap();
        let engine = stage.engine(GLADLY);
        disk.plan(fault, FaultKind::PowerOff);
        let done = engine.recover(&id);
        disk.kill_process();
        disk.heal();
        let papers = engine.services.project.thread(&id).metadata();
        let there = || stage.bench.host.fs.symlink_metadata(&papers).is_ok();
        let events = stage.events(&id);
        ended_without += usize::from(!of(&events, "thread_error").is_empty() && !there());
        let again = engine.recover(&id);
        let what = format!("call {fault} of {calls}, {:?}, {again:?}", done.err());
        assert!(there(), "{what}");
        assert_eq!(verdict(&stage, &id), Verdict::Verified, "{what}");
        let first = stage.read(&engine.services.project.thread(&id).transcript());
        let first = first.split(|byte| *byte == b'\n').next().unwrap();
        let manifest = threadseal_formats::transcript::manifest::parse_line(first).unwrap();
        let folder = engine.services.project.thread(&id);
        let meta = ThreadMeta::read(
            &engine.services.host,
            &folder,
            &id,
            Some(&manifest),
            &engine.services.trust,
        );
        assert_eq!(meta.unwrap().get().status, Status::Error, "{what}");
    }
    assert!(ended_without > 0);
}

// T-REG-08
#[test]
fn whoever_is_recovered_stands_at_the_cost_and_the_result_of_its_record() {
    let calls = {
        let (disk, stage) = failing();
        let engine = stage.engine(READS);
        let before = disk.calls();
        engine.run(&order("demo/say")).unwrap();
        disk.calls() - before
    };
    let mut ended = 0;
    for call in (calls.saturating_sub(36)..calls).step_by(2) {
        let (disk, stage) = failing();
        let engine = stage.engine(READS);
        disk.plan(call, FaultKind::PowerOff);
        let done = engine.run(&order("demo/say"));
        disk.kill_process();
        disk.heal();
        let what = format!("call {call} of {calls}, {:?}", done.err());
        let engine = stage.engine(READS);
        let filter = crate::registry::Filter::default();
        let row = engine
            .services
            .registry
            .list(&filter)
            .unwrap()
            .threads
            .remove(0);
        // As if the row had never received any cost.
        let zero = crate::limit::Cost::default();
        let at = engine.services.host.clock.now().unwrap();
        engine
            .services
            .registry
            .correct(&row.id, Status::Running, at)
            .unwrap();
        engine
            .services
            .registry
            .set_cost(&row.id, &zero, at)
            .unwrap();
        let recovered = engine
            .recover(&row.id)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        // An end that no seal covered does not count.
        let events = stage.events(&row.id);
        let end = |kind| of(&events, kind).first().map(|end| end["cost"].clone());
        let end = end("thread_completed").or_else(|| end("thread_error"));
        let folder = engine.services.project.thread(&row.id);
        let meta = ThreadMeta::read(
            &engine.services.host,
            &folder,
            &row.id,
            None,
            &engine.services.trust,
        )
        .unwrap();
        let cost = meta.get().cost.unwrap();
        let row = engine.services.registry.get(&row.id).unwrap().unwrap();
        assert!(row.cost_is(&cost), "{what}");
        assert_eq!(row.status, Ok(recovered.status), "{what}");
        let result: serde_json::Value =
            serde_json::from_str(row.result.as_deref().unwrap()).unwrap();
        assert_eq!(result["status"], recovered.status.as_str(), "{what}");
        assert_eq!(result["cost"], cost.to_json(), "{what}");
        if let Some(end) = end.filter(serde_json::Value::is_object) {
            ended += 1;
            assert_eq!(end, cost.to_json(), "{what}");
            assert_ne!(cost.turns, 0, "{what}");
        }
        // Once is enough; and a row that was changed later is brought back.
        assert!(engine.recover(&row.id).is_err(), "{what}");
        engine
            .services
            .registry
            .set_cost(&row.id, &crate::limit::Cost { turns: 99, ..cost }, at)
            .unwrap();
        engine.recover(&row.id).unwrap();
        assert!(
            engine
                .services
                .registry
                .get(&row.id)
                .unwrap()
                .unwrap()
                .cost_is(&cost),
            "{what}"
        );
    }
    assert!(ended > 0);
}
