//! Sessions on a disk that fails: no answer promises more than the disk holds.

use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use threadseal_core::report::Verdict;
use threadseal_store::atomic;
use threadseal_store::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call, sweeps_are_whole};
use threadseal_store::heads::FileHeadStore;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::TailPolicy;
use threadseal_store::sys::Fs as _;
use threadseal_store::testing::{CALM, EndingKeys, Scene};

const EVENTS: u64 = 9;
const RECORD: &str = "/disk/record.jsonl";

/// Answers, as their reader gets them.
#[derive(Debug, Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// The kinds of the answers, and their contents.
    fn answers(&self) -> Vec<(String, Value)> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let answer = |line: &str| {
            let answer: Value = serde_json::from_str(line).unwrap();
            let (kind, content) = answer.as_object().unwrap().iter().next().unwrap();
            (kind.clone(), content.clone())
        };
        text.lines().map(answer).collect()
    }
}

fn scene(fs: &FaultFs) -> Scene {
    let heads = FileHeadStore::new(fs.shared(), Path::new("/disk/heads"));
    Scene::new(fs.shared(), heads)
}

fn fresh_disk() -> FaultFs {
    let fs = FaultFs::new();
    atomic::create_directories(&fs, Path::new("/disk"), 0o700).unwrap();
    fs
}

fn policy() -> Policy {
    Policy {
        every: 4,
        after: Duration::from_secs(3600),
        strict: false,
        on_eof: None,
    }
}

fn line(text: &str) -> Cut {
    Cut::Line(text.as_bytes().to_vec())
}

/// A record that has just begun.
fn begun(recorder: Recorder) -> Started {
    Started {
        recorder,
        resumed: false,
        continues: None,
        set_aside: None,
        adopted: None,
    }
}

/// Sends these lines, two at a time; the answers, and why no more was taken.
fn talk(recorder: Recorder, lines: &[String], policy: Policy) -> Vec<(String, Value)> {
    let sink = Sink::default();
    let hour = Duration::from_secs(3600);
    let answers = Answers::to(sink.clone(), false, hour, Arc::default()).unwrap();
    let mut none = |_: &Begin| Err(Failure::new("no record is begun here"));
    let mut session = Session::new(policy, answers, &mut none);
    let started = begun(recorder);
    let take_all = || {
        session.start(None, started)?;
        for (text, number) in lines.iter().zip(1..) {
            session.take(line(text))?;
            if number % 2 == 0 {
                session.commit()?;
            }
        }
        Err(Stop::Cause(EndCause::InputEnded, "over".to_owned()))
    };
    let taken: Result<(), Stop> = take_all();
    session.end_after(taken.unwrap_err(), &mut Lines::default());
    sink.answers()
}

/// Lines with events `from..=EVENTS`, seals, refused lines and an end.
fn work(from: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for number in from..=EVENTS {
        let event_type = if number % 4 == 0 {
            "note"
        } else {
            "cognition_in"
        };
        lines.push(format!(
            "{{\"type\":\"{event_type}\",\"payload\":{{\"n\":\"event {number}.\"}},\"id\":{number}}}"
        ));
        if number % 3 == 0 {
            lines.push("{\"type\":\"checkpoint\",\"payload\":{}}".to_owned());
            lines.push("{\"seal\":true}".to_owned());
        }
    }
    lines.push("{\"end\":\"completed\"}".to_owned());
    lines
}

/// What the answers promise.
#[derive(Debug, Default)]
struct Promises {
    written: BTreeSet<u64>,
    durable: BTreeSet<u64>,
    sealed: Option<Head>,
    ended: bool,
}

impl Promises {
    fn take(&mut self, answers: &[(String, Value)]) {
        let mut ids = Vec::new();
        for (kind, content) in answers {
            match kind.as_str() {
                "written" => {
                    let id = content["id"].as_u64().unwrap();
                    ids.push((content["input"].as_u64().unwrap(), id));
                    self.written.insert(id);
                }
                "durable" => {
                    let until = content["input"].as_u64().unwrap();
                    let durable = ids.iter().filter(|(input, _)| *input <= until);
                    self.durable.extend(durable.map(|(_, id)| id));
                }
                "sealed" => self.sealed = Head::parse(content["head"].as_str().unwrap()),
                "ended" => {
                    self.ended = content["status"].is_string();
                    if self.ended {
                        self.sealed = Head::parse(content["head"].as_str().unwrap());
                    }
                }
                _ => {}
            }
        }
    }
}

fn holds(bytes: &[u8], number: u64) -> bool {
    let needle = format!("\"event {number}.\"");
    bytes
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

/// All bytes of the record and of the tails that were set aside.
fn all_bytes(fs: &FaultFs) -> Vec<u8> {
    let names = fs.read_dir(Path::new("/disk")).unwrap();
    let records = names.iter().filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("record.jsonl") && !name.ends_with(".tmp")
    });
    let bytes = records.filter_map(|name| fs.bytes_of(&Path::new("/disk").join(name)));
    bytes.flatten().collect()
}

fn verdict(fs: &FaultFs, expected: Option<Head>) -> Option<Verdict> {
    let file = open_regular(fs, Path::new(RECORD)).ok()?;
    Some(scene(fs).verify(&file, expected).unwrap().report.verdict)
}

fn check(fs: &FaultFs, promises: &Promises, end: Option<Keep>, context: &str) {
    let bytes = all_bytes(fs);
    let promised = match end {
        None => &promises.written,
        Some(_) => &promises.durable,
    };
    for number in promised {
        assert!(holds(&bytes, *number), "{context}: event {number} is lost");
    }
    let verdict = verdict(fs, promises.sealed);
    let is_calm = verdict.map_or(promises.written.is_empty(), |verdict| {
        CALM.contains(&verdict)
    });
    assert!(is_calm, "{context}: {verdict:?}");
    if promises.ended {
        assert_eq!(verdict, Some(Verdict::Verified), "{context}");
    }
}

/// All ends of the process in a whole sweep, else one of them for each call.
fn ends_of(call: usize) -> Vec<Option<Keep>> {
    let all = ends(call);
    match sweeps_are_whole() {
        true => all.to_vec(),
        false => all.into_iter().skip(call / 3 % 4).take(1).collect(),
    }
}

/// Each call of the disk fails in each way; then the process dies, or the power is cut. Then another
/// session continues the record and ends it.
// T-REC-53 T-REC-54
#[test]
fn no_answer_promises_more_than_a_failing_disk_holds() {
    fail_each_call(
        30,
        |call, _| ends_of(call),
        |call, kind, end| {
            let fs = fresh_disk();
            let scene_of = scene(&fs);
            fs.plan(call, kind);
            let mut promises = Promises::default();
            if let Ok(recorder) = scene_of.create(Path::new(RECORD)) {
                promises.take(&talk(recorder, &work(1), policy()));
            }
            let Some(struck) = fs.struck() else {
                assert!(promises.ended && promises.durable.len() as u64 == EVENTS);
                return false;
            };
            let context = format!("{kind:?} in {struck}, call {call}, {end:?}");
            assert!(
                kind != FaultKind::Interrupted || promises.ended,
                "{context}"
            );
            fs.end(end);
            check(&fs, &promises, end, &context);
            finish(&fs, &mut promises, &context);
            true
        },
    );
}

/// Continues the record as `--resume` does, and ends it.
fn finish(fs: &FaultFs, promises: &mut Promises, context: &str) {
    let scene = scene(fs);
    let path = Path::new(RECORD);
    if promises.ended {
        return;
    }
    let recorder = match fs.bytes_of(path) {
        None => scene.create(path).unwrap(),
        Some(_) => {
            let opened = scene.open(path, TailPolicy::SetAside);
            opened
                .unwrap_or_else(|error| panic!("{context}: {error}"))
                .recorder
        }
    };
    if recorder.state().is_ended() {
        // The end was durable, and its answer was lost.
        return check(fs, promises, Some(Keep::Nothing), context);
    }
    let from = promises.durable.last().map_or(1, |last| last + 1);
    promises.take(&talk(recorder, &work(from), policy()));
    assert!(promises.ended, "{context}");
    fs.cut_power(Keep::Nothing);
    check(fs, promises, Some(Keep::Nothing), context);
}

// T-REC-54
#[test]
fn after_a_failed_fsync_nothing_is_answered_but_the_failure() {
    let mut syncs = 0;
    for call in 0.. {
        let fs = fresh_disk();
        let recorder = scene(&fs).create(Path::new(RECORD)).unwrap();
        fs.plan(call, FaultKind::SyncLost);
        let answers = talk(recorder, &work(1), policy());
        match fs.struck() {
            None => break,
            Some("fsync") => syncs += 1,
            Some(_) => continue,
        }
        let (kind, ended) = answers.last().unwrap();
        assert_eq!(kind, "ended");
        assert_eq!(ended["cause"], "not_recorded", "{ended}");
        assert_eq!(
            (&ended["status"], &ended["exit"]),
            (&Value::Null, &2.into())
        );
        // The head is one that was answered, and the disk has it after a power cut.
        let mut seals = answers
            .iter()
            .filter(|(kind, _)| kind == "sealed" || kind == "recording");
        let last = seals.next_back().unwrap();
        assert_eq!(ended["head"], last.1["head"]);
        fs.cut_power(Keep::Nothing);
        let head = Head::parse(ended["head"].as_str().unwrap());
        assert!(CALM.contains(&verdict(&fs, head).unwrap()));
    }
    assert!(syncs > 10, "{syncs} fsyncs only");
}

// T-REC-55
#[test]
fn a_key_that_ends_meanwhile_ends_the_answers_too() {
    let fs = fresh_disk();
    let mut scene = scene(&fs);
    scene.host.keys = EndingKeys::after(2);
    let recorder = scene.create(Path::new(RECORD)).unwrap();
    let lines: Vec<_> = (0..9).flat_map(|_| work(9)).collect();
    let lines: Vec<_> = lines
        .into_iter()
        .filter(|line| !line.contains("end"))
        .collect();
    let answers = talk(recorder, &lines, policy());
    let (kind, ended) = answers.last().unwrap();
    assert_eq!(
        (kind.as_str(), &ended["cause"]),
        ("ended", &"not_recorded".into())
    );
    // The lines before it are as good as they were.
    let mut promises = Promises::default();
    promises.take(&answers);
    assert_eq!(verdict(&fs, promises.sealed), Some(Verdict::UnsignedTail));
}

#[test]
fn answers_come_in_the_order_of_the_lines_and_one_fsync_serves_many() {
    let fs = fresh_disk();
    let recorder = scene(&fs).create(Path::new(RECORD)).unwrap();
    let event = |number: u64| format!("{{\"type\":\"x\",\"payload\":{{}},\"id\":{number}}}");
    let mut lines: Vec<_> = (1..=50).map(event).collect();
    lines.insert(10, "nonsense".to_owned());
    lines.insert(11, String::new());
    lines.push("{\"flush\":true,\"id\":\"f\"}".to_owned());
    let policy = Policy {
        every: 1 << 20,
        ..policy()
    };
    let sink = Sink::default();
    let hour = Duration::from_secs(3600);
    let answers = Answers::to(sink.clone(), false, hour, Arc::default()).unwrap();
    let mut none = |_: &Begin| Err(Failure::new("no record is begun here"));
    let mut session = Session::new(policy, answers, &mut none);
    let started = begun(recorder);
    session.start(None, started).unwrap();
    fs.plan(usize::MAX, FaultKind::Io);
    for text in &lines {
        session.take(line(text)).unwrap();
    }
    session.commit().unwrap();
    let syncs = fs.called().iter().filter(|call| **call == "fsync").count();
    assert_eq!(syncs, 1);
    let over = Stop::Cause(EndCause::InputEnded, "over".to_owned());
    let (exit, complaint) = session.end_after(over, &mut Lines::default());
    assert_eq!(
        (exit, complaint.as_deref()),
        (Exit::NoVerdict, Some("over"))
    );
    let inputs: Vec<_> = sink.answers();
    let inputs: Vec<u64> = inputs
        .iter()
        .filter(|(kind, _)| kind == "written" || kind == "refused")
        .map(|(_, content)| content["input"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=52).filter(|input| *input != 12).collect();
    assert_eq!(inputs, expected);
    let answers = sink.answers();
    let (kind, durable) = &answers[answers.len() - 2];
    assert_eq!((kind.as_str(), &durable["id"]), ("durable", &"f".into()));
}

#[test]
fn a_turn_ends_with_an_asked_seal_or_before_the_next_question() {
    let mut turn = Turn::default();
    let mut numbers = Vec::new();
    for event in [
        "note", "q", "a", "q", "seal", "seal", "note", "q", "q", "seal", "note",
    ] {
        match event {
            "seal" => turn.end(),
            event => turn.take(event == "q"),
        }
        numbers.push(turn.number);
    }
    assert_eq!(numbers, [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5]);
}
