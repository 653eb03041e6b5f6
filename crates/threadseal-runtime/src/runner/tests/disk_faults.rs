//! Disks that fail while a thread continues: its record is unchanged, properly linked, or to be
//! recovered; never forked.

use super::handoffs::reads;
use crate::testing::prelude::*;
use crate::thread_meta::ThreadMeta;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::heads::FileHeadStore;

/// A scene on a disk that can fail.
fn failing() -> (FaultFs, Scene) {
    let (disk, scene) = Scene::failing();
    (disk, scene.signed())
}

/// The process ends; the disk works again.
fn die(disk: &FaultFs) {
    disk.kill_process();
    disk.heal();
}

/// The power or the process ends, after a fault of this kind; the disk works again.
fn restart(disk: &FaultFs, kind: FaultKind) {
    match kind {
        FaultKind::PowerOff => disk.cut_power(Keep::Nothing),
        _ => die(disk),
    }
}

/// The calls to the disk that `work` makes.
fn calls_of<T>(disk: &FaultFs, work: impl FnOnce() -> T) -> usize {
    let before = disk.calls();
    work();
    disk.calls() - before
}

/// Recovers a thread.
fn recover(engine: &Engine, thread: &ThreadId, what: &str) {
    let recovered = engine.recover(thread);
    recovered.unwrap_or_else(|error| panic!("{what}: {thread}: {error}"));
}

/// Brings a thread whose process failed to its end.
fn end(engine: &Engine, thread: &ThreadId, what: &str) {
    let row = row(engine, thread);
    if !row.status.unwrap().is_resumable() && row.continuation.is_none() {
        recover(engine, thread, what);
    }
}

/// The invariant after any failure: the old record verifies, or shows a cut-off write and can be
/// recovered. If it names a successor, that one exists; and the chain can be continued, once.
fn sound(scene: &Scene, first: &ThreadId, what: &str) {
    let engine = scene.engine(GLADLY);
    if matches!(scene.verdict(first), Verdict::UnsignedTail | Verdict::Open) {
        recover(&engine, first, what);
    }
    assert_eq!(scene.verdict(first), Verdict::Verified, "{what}");
    let events = scene.events(first);
    let links = [events.of("thread_resumed"), events.of("thread_handoff")].concat();
    assert!(links.len() <= 1, "{what}: {links:?}");
    let last = match links.first() {
        None => first.clone(),
        Some(link) => {
            if row(&engine, first).continuation.is_none() {
                recover(&engine, first, what);
            }
            ThreadId::parse(link["new_thread_id"].text()).unwrap()
        }
    };
    end(&engine, &last, what);
    if !scene.is_there(scene.project.thread(&last).metadata()) {
        // It ended before its first request, and before anything could link to it.
        assert!(links.is_empty(), "{what}");
        return;
    }
    let ran = engine.resume(&again(first));
    let ran = ran.unwrap_or_else(|error| panic!("{what}: {error}"));
    let chain = engine.services.archive().chain(&ran.thread).unwrap();
    assert!(chain.has(first), "{what}");
}

type Work = dyn Fn(&Engine, &ThreadId) -> Result<Ran, Error>;

/// Lets a sample of the calls fail that `work` makes with a thread that ended.
fn each_fault(work: &Work) {
    let begun = || {
        let (disk, scene) = failing();
        let thread = scene.run(READS).thread;
        let engine = scene.engine(GLADLY);
        (disk, scene, thread, engine)
    };
    let (disk, _scene, thread, engine) = begun();
    let calls = calls_of(&disk, || work(&engine, &thread).unwrap());
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
            let (disk, scene, thread, engine) = begun();
            disk.plan(call, kind);
            let done = work(&engine, &thread).err();
            let struck = disk.struck();
            planned += 1;
            hits += usize::from(struck.is_some());
            restart(&disk, kind);
            let what = format!("call {call} of {calls}, {kind:?} at {struck:?}, {done:?}");
            sound(&scene, &thread, &what);
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
    each_fault(&|engine, thread| engine.resume(&again(thread)));
}

// T-RUN-06
#[test]
fn a_handoff_that_fails_anywhere_leaves_the_old_record_whole() {
    each_fault(&|engine, thread| engine.handoff(&again(thread)));
}

// T-RUN-06
#[test]
fn a_thread_that_hands_itself_over_on_a_failing_disk_ends_once() {
    let begun = || {
        let (disk, mut scene) = failing();
        scene.window = 900;
        scene.coordination = "resume_ceiling_tokens: 400".to_owned();
        let engine = scene.engine(&reads(7, "Done."));
        (disk, scene, engine)
    };
    let run = |engine: &Engine| engine.run(&ordered("demo/say", json!({"name": "Ada"})));
    let (disk, _scene, engine) = begun();
    let calls = calls_of(&disk, || run(&engine).unwrap());
    let (mut planned, mut hits) = (0, 0);
    for call in (0..calls).step_by((calls / 20).max(1)) {
        for kind in [FaultKind::Io, FaultKind::PowerOff] {
            let (disk, scene, engine) = begun();
            disk.plan(call, kind);
            let done = run(&engine).err();
            planned += 1;
            hits += usize::from(disk.struck().is_some());
            restart(&disk, kind);
            let what = format!("call {call} of {calls}, {kind:?}, {done:?}");
            let engine = scene.engine(GLADLY);
            let threads = listed(&engine);
            for thread in &threads {
                end(&engine, &thread.id, &what);
            }
            if let Some(first) = threads.last()
                && scene.is_there(scene.transcript(&first.id))
            {
                sound(&scene, &first.id, &what);
            }
        }
    }
    assert!(
        hits * 10 >= planned * 9,
        "{hits} of {planned} faults struck"
    );
}

/// A thread whose process died at this call to the disk.
fn dead(call: usize, script: &str) -> (FaultFs, Scene, Option<ThreadId>) {
    let (disk, scene) = failing();
    let engine = scene.engine(script);
    disk.plan(call, FaultKind::PowerOff);
    let _ = engine.run(&ordered("demo/say", json!({"name": "Ada"})));
    die(&disk);
    let id = listed(&engine).first().map(|thread| thread.id.clone());
    (disk, scene, id)
}

/// The metadata of a thread, which must suit its line 1.
fn metadata(scene: &Scene, id: &ThreadId, what: &str) -> ThreadMeta {
    let folder = scene.project.thread(id);
    let text = scene.text(folder.transcript());
    let manifest = parse_line(text.lines().next().unwrap().as_bytes()).unwrap();
    let meta = ThreadMeta::read(&scene.host, &folder, id, Some(&manifest), &scene.trust);
    let meta = meta.unwrap_or_else(|error| panic!("{what}: {error}"));
    meta.get().clone()
}

/// The first call at which a process dies so that it leaves line 1 and no thread.json. Whatever it
/// leaves so can be recovered, except without seal 0.
fn death_without_metadata() -> usize {
    let mut first = None;
    for call in 0.. {
        let (_disk, scene, id) = dead(call, GLADLY);
        let Some(id) = id else {
            continue;
        };
        if scene.is_there(scene.project.thread(&id).metadata()) {
            break;
        }
        // Without line 1 there is nothing to end; without seal 0 it is refused, as before.
        let is_there = scene.is_there(scene.transcript(&id));
        if !is_there || scene.engine(GLADLY).recover(&id).is_err() {
            continue;
        }
        first.get_or_insert(call);
        let what = format!("call {call}");
        assert_eq!(scene.verdict(&id), Verdict::Verified, "{what}");
        assert_eq!(metadata(&scene, &id, &what).status, Status::Error, "{what}");
    }
    first.unwrap()
}

// T-RUN-25 T-RUN-26
#[test]
fn a_thread_or_a_recovery_that_dies_before_the_first_thread_json_gets_one_by_the_next() {
    let call = death_without_metadata();
    let (disk, scene, id) = dead(call, GLADLY);
    let (engine, id) = (scene.engine(GLADLY), id.unwrap());
    let calls = calls_of(&disk, || engine.recover(&id).unwrap());
    let mut ended_without = 0;
    for fault in 0..calls {
        let (disk, scene, id) = dead(call, GLADLY);
        let (engine, id) = (scene.engine(GLADLY), id.unwrap());
        disk.plan(fault, FaultKind::PowerOff);
        let done = engine.recover(&id).err();
        die(&disk);
        let is_there = || scene.is_there(scene.project.thread(&id).metadata());
        let ended = scene.events(&id).count("thread_error") > 0;
        ended_without += usize::from(ended && !is_there());
        let again = engine.recover(&id);
        let what = format!("call {fault} of {calls}, {done:?}, {again:?}");
        assert!(is_there(), "{what}");
        assert_eq!(scene.verdict(&id), Verdict::Verified, "{what}");
        assert_eq!(metadata(&scene, &id, &what).status, Status::Error, "{what}");
    }
    assert!(ended_without > 0);
}

// T-RUN-26
#[test]
fn a_thread_json_that_was_never_written_is_made_of_a_record_that_has_its_end() {
    let mut scene = Scene::new().signed();
    let id = scene.run(READS).thread;
    let papers = scene.project.thread(&id).metadata();
    let before = scene.json(&papers);
    fs::remove_file(&papers).unwrap();
    // The host that sealed it misses it.
    assert!(scene.engine(GLADLY).recover(&id).is_err());
    assert!(!papers.exists());
    scene.forget_heads();
    let recovered = scene.engine(GLADLY).recover(&id).unwrap();
    assert_eq!(recovered.status, Status::Completed);
    let after = scene.json(&papers);
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
    scene.resume(&id, GLADLY).unwrap().completed();
}

/// Three batches of calls, and the end.
const BATCHES: &str = "answers:\n\
    - {calls: [{tool: rye_file-system_read}, {tool: rye_file-system_read}]}\n\
    - {calls: [{tool: rye_file-system_read}]}\n\
    - {calls: [{tool: rye_file-system_read}, {tool: rye_file-system_read}, {tool: rye_file-system_read}]}\n\
    - {text: Done.}\n";

/// A scene whose heads are on its disk, and the engine of a thread whose calls are kept.
fn noting() -> (FaultFs, Scene, Engine, Arc<Mutex<Vec<String>>>) {
    let (disk, mut scene) = Scene::failing();
    scene.host.heads = Arc::new(FileHeadStore::new(disk.shared(), "/heads"));
    let scene = scene.signed();
    let (tool, ran) = noting_tool();
    let engine = scene.engine_with(BATCHES, vec![tool]);
    (disk, scene, engine, ran)
}

// T-RUN-22 T-RUN-23
#[test]
fn power_that_goes_anywhere_in_a_run_leaves_each_call_that_ran_named_and_no_head_ahead() {
    let (disk, _scene, engine, _) = noting();
    let run = |engine: &Engine| engine.run(&ordered("demo/say", json!({"name": "Ada"})));
    let calls = calls_of(&disk, || run(&engine).unwrap().completed());
    let (mut in_the_middle, mut unresolved) = (0, 0);
    for call in (calls / 4..calls).step_by((calls / 60).max(1)) {
        for keep in [Keep::Nothing, Keep::Everything, Keep::ByLot(call as u64)] {
            let (disk, scene, engine, ran) = noting();
            disk.plan(call, FaultKind::PowerOff);
            let done = run(&engine).err();
            disk.cut_power(keep);
            let what = format!("call {call} of {calls}, {keep:?}, {done:?}");
            let engine = scene.engine(GLADLY);
            let Some(id) = listed(&engine).first().map(|thread| thread.id.clone()) else {
                continue;
            };
            if !scene.is_there(scene.transcript(&id)) {
                assert!(ran.lock().unwrap().is_empty(), "{what}");
                continue;
            }
            // A head that is ahead of its file would refuse this.
            match scene.verdict(&id) {
                Verdict::UnsignedTail | Verdict::Open => recover(&engine, &id, &what),
                _ => end(&engine, &id, &what),
            }
            assert_eq!(scene.verdict(&id), Verdict::Verified, "{what}");
            let (events, ran) = (scene.events(&id), ran.lock().unwrap().clone());
            let named = events.keys_of_calls();
            for key in &ran {
                let times = named.iter().filter(|named| *named == key).count();
                assert_eq!(times, 1, "{what}: {key} of {named:?}");
            }
            in_the_middle += usize::from((1..6).contains(&ran.len()));
            unresolved += events.count("tool_call_unresolved");
            let cost = metadata(&scene, &id, &what).cost.unwrap();
            let answers = events.count("cognition_out") as u64;
            assert_eq!(cost.turns, answers, "{what}");
            assert!(row(&engine, &id).cost_is(&cost), "{what}");
        }
    }
    assert!(
        in_the_middle > 10 && unresolved > 5,
        "{in_the_middle} {unresolved}"
    );
}

// T-REG-08
#[test]
fn whoever_is_recovered_stands_at_the_cost_and_the_result_of_its_record() {
    let calls = {
        let (disk, scene) = failing();
        calls_of(&disk, || scene.run(READS))
    };
    let mut ended = 0;
    for call in (calls.saturating_sub(36)..calls).step_by(2) {
        let (_disk, scene, id) = dead(call, READS);
        let (id, what) = (id.unwrap(), format!("call {call} of {calls}"));
        let engine = scene.engine(READS);
        let registry = &engine.services.registry;
        // As if the row had never received any cost.
        let now = scene.host.clock.now().unwrap();
        registry.correct(&id, Status::Running, now).unwrap();
        registry.set_cost(&id, &Cost::default(), now).unwrap();
        let recovered = engine.recover(&id);
        let recovered = recovered.unwrap_or_else(|error| panic!("{what}: {error}"));
        let cost = metadata(&scene, &id, &what).cost.unwrap();
        let row = || row(&engine, &id);
        assert!(row().cost_is(&cost), "{what}");
        assert_eq!(row().status, Ok(recovered.status), "{what}");
        let result: Value = serde_json::from_str(row().result.as_deref().unwrap()).unwrap();
        assert_eq!(result["status"], recovered.status.as_str(), "{what}");
        assert_eq!(result["cost"], cost.to_json(), "{what}");
        let events = scene.events(&id);
        let ends = [events.of("thread_completed"), events.of("thread_error")].concat();
        // An end that no seal covered does not count.
        if let Some(end) = ends
            .first()
            .map(|end| &end["cost"])
            .filter(|cost| cost.is_object())
        {
            ended += 1;
            assert_eq!(*end, cost.to_json(), "{what}");
            assert_ne!(cost.turns, 0, "{what}");
        }
        // Once is enough; and a row that was changed later is brought back.
        assert!(engine.recover(&id).is_err(), "{what}");
        let more = Cost { turns: 99, ..cost };
        registry.set_cost(&id, &more, now).unwrap();
        engine.recover(&id).unwrap();
        assert!(row().cost_is(&cost), "{what}");
    }
    assert!(ended > 0);
}
