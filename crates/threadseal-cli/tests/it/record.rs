//! `record`: events from standard input into a native record, answered line by line.

use crate::prelude::*;
use crate::sandbox::option_env;
use std::io::Lines;
use std::process::{ChildStdin, ChildStdout};

/// Longest wait for a process that must end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that records, and both ends of the talk with it. It is killed with the value.
struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn start(sandbox: &Sandbox, line: &str) -> Self {
        let mut command = sandbox.command();
        command.args(words(line)).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    fn send(&mut self, text: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    /// The next answer; `None` at their end.
    fn next(&mut self) -> Option<(String, Value)> {
        self.answers.next().map(|line| answer(&line.unwrap()))
    }

    /// The next answer of this kind.
    #[track_caller]
    fn until(&mut self, kind: &str) -> Value {
        loop {
            match self.next() {
                Some((found, content)) if found == kind => return content,
                Some(_) => {}
                None => panic!("no {kind}"),
            }
        }
    }

    /// Sends an event, and waits until it is durable.
    #[track_caller]
    fn say(&mut self, text: &str) {
        self.send(&event("note", text));
        self.until("durable");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let done = Command::new("kill")
            .args([&format!("-{name}"), &id])
            .status();
        assert!(done.unwrap().success());
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The exit of the process, which must end soon.
    #[track_caller]
    fn exit(&mut self) -> i32 {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(waited < PATIENCE, "the process does not end");
            std::thread::sleep(Duration::from_millis(20));
            waited += Duration::from_millis(20);
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answer(line: &str) -> (String, Value) {
    schemas::check(line);
    let answer: Value = serde_json::from_str(line).unwrap();
    let members = answer.as_object().unwrap();
    assert_eq!(members.len(), 1, "{line}");
    let (kind, content) = members.iter().next().unwrap();
    (kind.clone(), content.clone())
}

/// The answers of a run that is over.
fn answers(ran: &Ran) -> Vec<(String, Value)> {
    ran.stdout.lines().map(answer).collect()
}

/// The last answer.
#[track_caller]
fn ended(ran: &Ran) -> Value {
    let (kind, content) = answers(ran).pop().unwrap();
    assert_eq!(kind, "ended");
    content
}

fn event(event_type: &str, text: &str) -> String {
    json!({"type": event_type, "payload": {"text": text, "role": "user"}}).to_string()
}

/// Two turns and an end.
fn conversation() -> String {
    let end = json!({"end": "completed", "payload": {"cost": {"turns": 2}}}).to_string();
    let lines = [
        event("cognition_in", "question 1"),
        event("cognition_out", "answer 1"),
        "{\"seal\":true}".to_owned(),
        event("cognition_in", "question 2"),
        event("cognition_out", "answer 2"),
        end,
    ];
    lines.map(|line| line + "\n").concat()
}

/// The types of a record's events.
fn types(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let events = json_lines(sandbox.path(name));
    let types = events.iter().map(|event| event["event_type"].text());
    types.map(str::to_owned).collect()
}

#[test]
fn events_become_a_record_that_all_commands_read() {
    let sandbox = ready();
    let line = "record --thread demo/1 --directive demo/greet --model m-1 --capability a.b --capability c \
                --limits '{\"turns\":6,\"spend\":0.50}' --meta '{\"team\":\"x\"}' --workspace 0f1e";
    let ran = piped(&sandbox, line, &conversation())
        .exits(0)
        .warns_nothing();
    let kinds: Vec<_> = answers(&ran).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds.first().unwrap(), "recording");
    assert_eq!(kinds.iter().filter(|kind| *kind == "written").count(), 4);
    let (_, recording) = &answers(&ran)[0];
    recording.is(json!({"protocol": "threadseal-record/1", "thread": "demo/1", "path": "demo-1.jsonl",
                        "resumed": false, "continues": null, "lines": 2, "turn": 0, "set_aside": null, "adopted": null}));
    ended(&ran).is(json!({"input": 6, "status": "completed", "cause": "asked", "refused": 0, "seq": 2, "lines": 9,
                          "turn": 2, "exit": 0}));
    let expected = [
        "thread_started",
        "checkpoint",
        "cognition_in",
        "cognition_out",
        "checkpoint",
        "cognition_in",
        "cognition_out",
        "thread_completed",
        "checkpoint",
    ];
    assert_eq!(types(&sandbox, "demo-1.jsonl"), expected);
    let first = &json_lines(sandbox.path("demo-1.jsonl"))[0]["payload"];
    first.is(json!({"directive": "demo/greet", "model": "m-1", "capabilities": ["a.b", "c"], "workspace": "0f1e",
                    "limits": {"turns": 6, "spend": 0.50}, "meta": {"team": "x"}}));
    let head = ended(&ran)["head"].text().to_owned();
    sandbox.ok(format!("verify demo-1.jsonl --expect-head {head}"));
    sandbox.ok("verify --all").prints("1 verified");
    sandbox
        .ok("show demo-1.jsonl --turn 2")
        .prints("answer 2")
        .omits("answer 1");
    sandbox.ok("messages demo-1.jsonl").prints("question 2");
    sandbox.ok("render demo-1.jsonl").prints("answer 1");
    sandbox.ok("prove demo-1.jsonl#2 --out two.turn-proof");
    let key = sandbox.home().join("keys/self.native.pub");
    let proof = sandbox.ok(format!("check-proof two.turn-proof --key {key:?}"));
    proof.prints("question 2").omits("question 1");
    sandbox.is_good("demo-1.jsonl");
}

/// The example of the specification, answer by answer; `…` is any text.
#[test]
fn the_example_of_the_specification_is_what_happens() {
    let spec = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/record-protocol.md"));
    let example = spec
        .split("<!-- example: record-protocol -->")
        .nth(1)
        .unwrap();
    let example = example.split("```").nth(1).unwrap();
    let sandbox = ready();
    let mut talk = Talk::start(&sandbox, "record --thread demo/1");
    for line in example.trim().lines() {
        let (mark, text) = line.split_once(' ').unwrap();
        if mark == ">" {
            talk.send(text);
            continue;
        }
        let mut found = talk.answers.next().unwrap().unwrap();
        for part in text.split('…') {
            let at = found
                .find(part)
                .unwrap_or_else(|| panic!("{part:?} is not in {found:?}"));
            assert!(part != text.split('…').next().unwrap() || at == 0, "{text}");
            found = found[at + part.len()..].to_owned();
        }
        assert_eq!(found, "", "{text}");
    }
    assert!(talk.next().is_none());
    assert_eq!(talk.exit(), 2);
}

/// A sender may wait for each answer: none of them needs another line first.
#[test]
fn a_sender_that_waits_for_each_answer_gets_it() {
    let sandbox = ready();
    let mut talk = Talk::start(&sandbox, "record --thread t --seal-every 3");
    talk.until("recording");
    for number in 1..=10 {
        talk.send(
            &json!({"type": "note", "payload": {"n": number}, "id": format!("n{number}")})
                .to_string(),
        );
        let written = talk.until("written");
        assert_eq!(written["id"], format!("n{number}"));
        let durable = talk.until("durable");
        assert_eq!(
            (&durable["input"], &durable["id"]),
            (&json!(number), &json!(format!("n{number}")))
        );
        // The bytes are in the file, also before a seal.
        sandbox.read("t.jsonl").has(&format!("\"n\":{number}}}"));
    }
    talk.send("{\"flush\":true,\"id\":7}");
    assert_eq!(talk.until("durable")["id"], 7);
    talk.send("{\"end\":\"suspended\",\"id\":\"e\"}");
    talk.until("ended")
        .is(json!({"status": "suspended", "id": "e", "exit": 0}));
    assert_eq!(talk.exit(), 0);
    sandbox.ok("verify t.jsonl");
}

// T-REC-50 T-REC-51 T-REC-52
#[test]
fn a_refused_line_leaves_no_trace_and_the_next_one_is_recorded() {
    let sandbox = ready();
    let mut input = Vec::new();
    let lines: [&[u8]; 11] = [
        b"{\"type\":\"note\",\"payload\":{\"good\":1}}",
        b"not json",
        b"{\"type\":\"note\",\"type\":\"note\",\"payload\":{}}",
        b"{\"type\":\"note\",\"payload\":{\"bad\":\"\xff\xfe\"}}",
        b"{\"type\":\"note\",\"payload\":{\"bad\":\"\0\"}}",
        b"{\"type\":\"note\",\"payload\":{\"bad\":1e999}}",
        b"{\"type\":\"thread_completed\",\"payload\":{}}",
        b"{\"type\":\"redacted\",\"payload\":{}}",
        b"{\"begin\":{\"thread\":\"other\"}}",
        b"{\"type\":\"note\",\"payload\":{\"good\":2}}",
        b"{\"end\":\"continued\"}",
    ];
    for line in lines {
        input.extend_from_slice(line);
        input.push(b'\n');
    }
    input.extend_from_slice(b"{\"type\":\"note\",\"payload\":{\"bad\":\"");
    input.extend_from_slice(&vec![b'x'; 17 << 20]);
    input.extend_from_slice(
        b"\"}}\n{\"end\":\"completed\"}\n{\"type\":\"note\",\"payload\":{\"bad\":1}}\n",
    );
    sandbox.write("lines", &input);
    let lines = sandbox.path("lines");
    let mut command = sandbox.command();
    command.args(words("record --thread t"));
    command.stdin(fs::File::open(lines).unwrap());
    let ran = Ran::of(command.output().unwrap()).exits(2);
    let refused = answers(&ran)
        .into_iter()
        .filter(|(kind, _)| kind == "refused");
    let refused: Vec<_> = refused
        .map(|(_, content)| (content["input"].number(), content["code"].text().to_owned()))
        .collect();
    let expected = [
        (2, "not_json"),
        (3, "duplicate_key"),
        (4, "not_utf8"),
        (5, "not_json"),
        (6, "not_json"),
        (7, "type_reserved"),
        (8, "type_reserved"),
        (9, "begun"),
        (11, "ending_unknown"),
        (12, "line_too_long"),
        (14, "after_end"),
    ];
    assert_eq!(
        refused,
        expected.map(|(input, code)| (input, code.to_owned()))
    );
    ended(&ran).is(json!({"status": "completed", "refused": 11, "exit": 2}));
    sandbox.ok("verify t.jsonl");
    let text = sandbox.read("t.jsonl");
    text.has("\"good\":1").has("\"good\":2").lacks("\"bad\"");
}

#[test]
fn a_strict_recorder_ends_at_the_first_refused_line() {
    let sandbox = ready();
    let input = format!("{}\nnot json\n{}\n", event("note", "a"), event("note", "b"));
    let ran = piped(&sandbox, "record --thread t --strict", &input).exits(2);
    ended(&ran).is(json!({"status": "error", "cause": "line_refused", "refused": 1}));
    sandbox.ok("verify t.jsonl");
    sandbox
        .read("t.jsonl")
        .has("line 2 was refused")
        .lacks("\"b\"");
}

#[test]
fn the_end_of_the_input_is_an_error_unless_the_caller_states_another_ending() {
    let sandbox = ready();
    let line = event("note", "a");
    for (option, status, exit) in [
        ("", "error", 2),
        ("--on-eof complete", "completed", 0),
        ("--on-eof suspend", "suspended", 0),
        ("--on-eof cancel", "cancelled", 0),
        ("--on-eof error", "error", 0),
    ] {
        let name = format!("{status}{exit}");
        // The last line has no LF, and is whole.
        let ran = piped(&sandbox, &format!("record --thread {name} {option}"), &line).exits(exit);
        ended(&ran).is(json!({"status": status, "cause": "input_ended", "lines": 5}));
        sandbox.ok(format!("verify {name}.jsonl"));
    }
    // A line that was cut is refused.
    let cut = format!("{line}\n{}", &line[..20]);
    let ran = piped(&sandbox, "record --thread cut --on-eof complete", &cut).exits(2);
    let refused = answers(&ran)
        .into_iter()
        .find(|(kind, _)| kind == "refused");
    refused
        .unwrap()
        .1
        .is(json!({"input": 2, "code": "line_cut"}));
    sandbox.ok("verify cut.jsonl");
    // Nothing at all is a record, too.
    piped(&sandbox, "record --thread none --on-eof complete", "").exits(0);
    sandbox.ok("verify none.jsonl");
}

// T-REC-56
#[test]
fn a_signal_ends_the_record_also_while_half_a_line_stalls() {
    let sandbox = ready();
    for signal in ["INT", "TERM"] {
        let mut talk = Talk::start(&sandbox, &format!("record --thread {signal}"));
        talk.until("recording");
        talk.say("before");
        let input = talk.input.as_mut().unwrap();
        input.write_all(b"{\"type\":\"note\",\"payl").unwrap();
        talk.signal(signal);
        talk.until("refused")
            .is(json!({"input": 2, "code": "line_cut"}));
        talk.until("ended")
            .is(json!({"status": "cancelled", "cause": "interrupted", "exit": 2}));
        assert_eq!(talk.exit(), 2);
        sandbox.ok(format!("verify {signal}.jsonl"));
    }
    let mut talk = Talk::start(&sandbox, "record --thread clean");
    talk.until("recording");
    talk.say("before");
    talk.signal("TERM");
    talk.until("ended")
        .is(json!({"status": "cancelled", "refused": 0, "exit": 0}));
    assert_eq!(talk.exit(), 0);
    sandbox.ok("verify clean.jsonl");
}

// T-REC-57
#[test]
fn a_reader_of_the_answers_that_goes_away_ends_the_record() {
    let sandbox = ready();
    let mut child = sandbox
        .command()
        .args(words("record --thread t"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    answers.read_line(&mut String::new()).unwrap();
    drop(answers);
    // It learns of this with the next answer, and then reads no more.
    while input
        .write_all(format!("{}\n", event("note", "a")).as_bytes())
        .is_ok()
    {}
    let ran = Ran::of(child.wait_with_output().unwrap()).exits(2);
    ran.stderr.has("the answers cannot be written");
    sandbox.ok("verify t.jsonl");
    sandbox.read("t.jsonl").has("\"cause\":\"answers_closed\"");
}

// T-REC-58
#[test]
fn a_reader_that_never_reads_ends_the_record_after_a_limit() {
    let sandbox = ready();
    let id = "i".repeat(250);
    let line = format!("{{\"type\":\"note\",\"payload\":{{}},\"id\":\"{id}\"}}\n");
    sandbox.write("lines", line.repeat(30_000));
    let mut command = sandbox.command();
    command.args(words(
        "record --thread t --stall-after 1 --seal-every 100000 --seal-after 3600",
    ));
    command.stdin(fs::File::open(sandbox.path("lines")).unwrap());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut talk = Talk {
        input: None,
        answers: BufReader::new(child.stdout.take().unwrap()).lines(),
        child,
    };
    assert_eq!(talk.exit(), 2);
    sandbox.ok("verify t.jsonl");
    sandbox.read("t.jsonl").has("\"cause\":\"answers_stalled\"");
    // With --quiet there are no answers to be read.
    let mut command = sandbox.command();
    command.args(words(
        "record -q --thread q --on-eof complete --seal-every 100000 --seal-after 3600",
    ));
    command.stdin(fs::File::open(sandbox.path("lines")).unwrap());
    let ran = Ran::of(command.output().unwrap()).exits(0);
    let kinds: Vec<_> = answers(&ran).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["recording", "ended"]);
    ended(&ran).is(json!({"lines": 30_004}));
    sandbox.ok("verify q.jsonl");
}

#[test]
fn many_events_share_few_fsyncs_and_none_is_lost_between_chunks() {
    let sandbox = ready();
    let lines: Vec<_> = (1..=10_000)
        .map(|n| event("note", &format!("event {n}.")))
        .collect();
    sandbox.write("lines", lines.join("\n") + "\n{\"end\":\"completed\"}\n");
    let mut command = sandbox.command();
    command.args(words("record --thread t"));
    command.stdin(fs::File::open(sandbox.path("lines")).unwrap());
    let ran = Ran::of(command.output().unwrap()).exits(0);
    let answers = answers(&ran);
    let count = |kind: &str| answers.iter().filter(|(found, _)| found == kind).count();
    assert_eq!(count("written"), 10_000);
    assert!(count("durable") < 200, "{} answers", count("durable"));
    assert_eq!(count("sealed"), 10);
    let events = json_lines(sandbox.path("t.jsonl")).into_iter();
    let notes = events.filter(|event| event["event_type"] == "note");
    let texts: Vec<_> = notes
        .map(|note| note["payload"]["text"].text().to_owned())
        .collect();
    let expected: Vec<_> = (1..=10_000).map(|n| format!("event {n}.")).collect();
    assert_eq!(texts, expected);
    sandbox.ok("verify t.jsonl");
}

#[test]
fn seals_are_made_before_questions_by_count_and_by_time() {
    let sandbox = ready();
    let mut talk = Talk::start(&sandbox, "record --thread t --seal-after 1 --seal-every 2");
    talk.until("recording");
    for (line, cause) in [
        (event("cognition_in", "1"), None),
        (event("cognition_in", "2"), Some(("turn", 1))),
        (event("note", "3"), Some(("count", 2))),
        (event("note", "4"), Some(("time", 2))),
    ] {
        talk.send(&line);
        if let Some((cause, turn)) = cause {
            talk.until("sealed")
                .is(json!({"cause": cause, "turn": turn, "input": null}));
        }
    }
    talk.send("{\"seal\":true}");
    // Nothing is unsealed: the answer names the last seal, and no new one is made.
    talk.until("sealed")
        .is(json!({"cause": "asked", "turn": 2, "seq": 3}));
    talk.send(&event("note", "5"));
    talk.send("{\"end\":\"completed\"}");
    talk.until("ended").is(json!({"turn": 3, "seq": 4}));
    sandbox.ok("verify t.jsonl");
}

#[test]
fn a_line_can_begin_the_record() {
    let sandbox = ready();
    let begin = |members: &str| format!("{{\"begin\":{{{members}}}}}\n");
    let input = [
        event("note", "too early") + "\n",
        begin("\"thread\":\"../t\""),
        begin("\"thread\":\"x/t\",\"model\":\"m\",\"bodies\":\"detached\""),
        event("note", "on time") + "\n",
        "{\"end\":\"completed\"}\n".to_owned(),
    ];
    let ran = piped(&sandbox, "record", &input.concat()).exits(2);
    let kinds: Vec<_> = answers(&ran).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(
        kinds,
        [
            "refused",
            "refused",
            "recording",
            "written",
            "durable",
            "ended"
        ]
    );
    let (_, recording) = &answers(&ran)[2];
    recording.is(json!({"input": 3, "thread": "x/t", "path": "x-t.jsonl"}));
    sandbox.ok("verify x-t.jsonl");
    sandbox.read("x-t.bodies").has("on time");
    sandbox
        .read("x-t.jsonl")
        .lacks("on time")
        .lacks("too early");
    sandbox.ok("redact x-t.jsonl --match 'on time' --why test");
    sandbox.ok("verify x-t.jsonl");
    // A name that is taken is refused, and another one may follow.
    let again = begin("\"thread\":\"x/t\"") + &begin("\"thread\":\"y\"") + "{\"end\":\"error\"}\n";
    let ran = piped(&sandbox, "record", &again).exits(2);
    answers(&ran)[0].1.is(json!({"code": "begin_refused"}));
    ended(&ran).is(json!({"status": "error", "refused": 1}));
    // Without a beginning there is no record.
    let ran = piped(&sandbox, "record", "").fails_with("no line began the record");
    ended(&ran).is(json!({"status": null, "cause": "not_begun", "head": null}));
}

#[test]
fn a_record_that_cannot_begin_leaves_no_file() {
    let sandbox = Sandbox::new();
    piped(&sandbox, "record --thread t", "").fails_with("threadseal init");
    sandbox.ok("init -q");
    sandbox.write("t.jsonl", "mine");
    piped(&sandbox, "record --thread t", "").fails_with("t.jsonl");
    assert_eq!(sandbox.read("t.jsonl"), "mine");
    piped(&sandbox, "record --thread ../x", "").fails_with("thread id");
    piped(&sandbox, "record --thread u --limits []", "").fails_with("limits must be an object");
    let links = "record --thread u --meta '{\"parent_thread\":\"p\"}'";
    piped(&sandbox, links, "").fails_with("parent_thread");
    let place = "p/.ai/agent/threads/a/transcript.jsonl";
    piped(&sandbox, &format!("record --thread u {place}"), "").fails_with("thread resume");
    assert!(!sandbox.path("u.jsonl").exists());
    piped(&sandbox, "record --resume nothing", "").fails_with("neither a file nor a thread");
    piped(&sandbox, "record --resume t.jsonl", "").fails_with("t.jsonl");
}

#[test]
fn a_key_with_a_passphrase_is_opened_by_a_file_and_no_one_is_asked() {
    let sandbox = ready();
    sandbox.write("word", "open sesame\n");
    sandbox.ok("key new --name locked --passphrase-file word");
    let line = "record --thread t --key locked";
    piped(&sandbox, line, "").fails_with("threadseal record --passphrase-file FILE");
    let prompt = format!("{line} --passphrase-file prompt");
    piped(&sandbox, &prompt, "").fails_with("no one can be asked");
    assert!(!sandbox.path("t.jsonl").exists());
    let given = format!("{line} --passphrase-file word");
    piped(&sandbox, &given, "{\"end\":\"completed\"}\n").exits(0);
}

// T-REC-59
#[test]
fn a_record_has_one_recorder_at_a_time() {
    let sandbox = ready();
    let mut first = Talk::start(&sandbox, "record --thread t");
    first.until("recording");
    first.say("first");
    let before = sandbox.read("t.jsonl");
    piped(
        &sandbox,
        "record --resume t.jsonl",
        &event("note", "second"),
    )
    .fails_with("one writer at a time");
    piped(&sandbox, "record --thread t", &event("note", "second")).fails_with("t.jsonl");
    assert_eq!(sandbox.read("t.jsonl"), before);
    first.send("{\"end\":\"completed\"}");
    first.until("ended");
    assert_eq!(first.exit(), 0);
    sandbox.ok("verify t.jsonl");
}

// T-REC-60
#[test]
fn a_killed_recorder_leaves_a_tail_that_the_next_one_sets_aside_or_adopts() {
    let sandbox = ready();
    for (option, verdict) in [("", "verified"), ("--adopt-tail", "partial")] {
        let name = format!("t{}", option.len());
        let mut talk = Talk::start(&sandbox, &format!("record --thread {name}"));
        talk.until("recording");
        talk.say("sealed");
        talk.send("{\"seal\":true}");
        talk.until("sealed");
        talk.say("durable");
        talk.kill();
        assert_eq!(
            sandbox.verdict(format!("verify {name}.jsonl")),
            "unsigned_tail"
        );
        // The id of the thread leads to its record.
        let input = format!("{}\n{{\"end\":\"completed\"}}\n", event("note", "later"));
        let ran = piped(
            &sandbox,
            &format!("record --resume {name} {option}"),
            &input,
        )
        .exits(0);
        let (_, recording) = &answers(&ran)[0];
        recording.is(json!({"resumed": true, "thread": name, "turn": 1}));
        answers(&ran)[1].1.is(json!({"cause": "opened"}));
        assert_eq!(sandbox.verdict(format!("verify {name}.jsonl")), verdict);
        let text = sandbox.read(format!("{name}.jsonl"));
        text.has("sealed").has("later");
        if option.is_empty() {
            text.lacks("\"durable\"");
            let aside = recording["set_aside"]["path"].text();
            sandbox.read(aside).has("\"durable\"");
        } else {
            text.has("\"durable\"");
            assert!(recording["adopted"].is_array(), "{recording}");
        }
    }
}

#[test]
fn a_record_that_does_not_verify_is_not_continued() {
    let sandbox = ready();
    piped(&sandbox, "record --thread t", &conversation()).exits(0);
    let path = sandbox.path("t.jsonl");
    let changed = sandbox.read("t.jsonl").replacen("answer 1", "answer 9", 1);
    while_it_holds(&path, &changed, || {
        piped(&sandbox, "record --resume t --thread u", "").fails_with("tampered");
        assert_eq!(read(&path), changed);
    });
    assert!(!sandbox.path("u.jsonl").exists());
}

// T-REC-61
#[test]
fn an_ended_record_is_continued_by_one_other_record() {
    let sandbox = ready();
    let suspended = format!("{}\n{{\"end\":\"suspended\"}}\n", event("note", "first"));
    piped(&sandbox, "record --thread a", &suspended).exits(0);
    let before = sandbox.read("a.jsonl");
    // A record has a thread of its own, and a refusal changes nothing.
    piped(&sandbox, "record --resume a --thread a b.jsonl", "").fails_with("a thread of its own");
    piped(&sandbox, "record --resume a --thread b a.jsonl", "").fails_with("a.jsonl");
    assert_eq!(sandbox.read("a.jsonl"), before);
    let ended = format!("{}\n{{\"end\":\"completed\"}}\n", event("note", "second"));
    let ran = piped(&sandbox, "record --resume a --thread b", &ended).exits(0);
    let (_, recording) = &answers(&ran)[0];
    recording.is(json!({"resumed": false, "thread": "b", "path": "b.jsonl"}));
    let first = &json_lines(sandbox.path("b.jsonl"))[0]["payload"];
    first.is(json!({"predecessor": recording["continues"], "meta": {"predecessor_thread": "a"}}));
    let link = json_lines(sandbox.path("a.jsonl"));
    let [.., link, seal] = link.as_slice() else {
        panic!("no link");
    };
    link.is(json!({"event_type": "thread_resumed", "payload/new_thread_id": "b"}));
    seal.is(json!({"payload/seal/ext/successor": recording["record"], "payload/seal/final": true}));
    sandbox.ok("verify a.jsonl b.jsonl");
    sandbox.is_good("a.jsonl b.jsonl");
    // Of one record there are no two continuations.
    let before = sandbox.read("a.jsonl");
    piped(&sandbox, "record --resume a --thread c", "").fails_with("continues it already");
    assert_eq!(sandbox.read("a.jsonl"), before);
    assert!(!sandbox.path("c.jsonl").exists());
}

// T-REC-61
#[test]
fn a_continuation_that_no_link_names_is_not_continued() {
    let sandbox = ready();
    let suspended = format!("{}\n{{\"end\":\"suspended\"}}\n", event("note", "first"));
    piped(&sandbox, "record --thread a", &suspended).exits(0);
    let unlinked = sandbox.read("a.jsonl");
    let mut talk = Talk::start(&sandbox, "record --resume a --thread b");
    talk.until("recording");
    talk.kill();
    // As if the process had been killed before it sealed the link.
    while_it_holds(&sandbox.path("a.jsonl"), &unlinked, || {
        piped(&sandbox, "record --resume b", "").fails_with("does not name it");
    });
    piped(&sandbox, "record --resume b", "{\"end\":\"completed\"}\n").exits(0);
    sandbox.ok("verify a.jsonl b.jsonl");
}

/// Kills recorders at random moments; each is followed by one that resumes the record. The
/// campaign kills more.
// T-REC-60
#[test]
fn nothing_that_was_answered_durable_is_lost_when_recorders_are_killed() {
    const KILLS: u64 = 20;
    let sandbox = ready();
    let (mut sent, mut durable, mut sealed) = (0_u64, BTreeSet::<u64>::new(), None::<Value>);
    for round in 0..KILLS {
        let line = match round {
            0 => "record --thread t --seal-every 7",
            _ => "record --resume t.jsonl --seal-every 7",
        };
        let mut talk = Talk::start(&sandbox, line);
        talk.until("recording");
        // Some kills hit a seal, some a write, some a wait.
        let moment = (round * 7919) % 23 + 1;
        let mut open = Vec::new();
        for number in 1..=moment {
            sent += 1;
            open.push(sent);
            talk.send(&event("note", &format!("event {sent}.")));
            if number % 5 == 0 {
                talk.send("{\"seal\":true}");
            }
        }
        let mut waited = 0;
        while waited < moment / 2 {
            match talk.next().unwrap() {
                (kind, content) if kind == "durable" => {
                    let input = content["input"].number();
                    // Every fifth event has a line for a seal after it.
                    let events = input - input / 6;
                    durable.extend(open.iter().take(usize::try_from(events).unwrap()));
                    waited = events;
                }
                (kind, content) if kind == "sealed" => sealed = Some(content),
                _ => {}
            }
        }
        talk.kill();
        if let Some(sealed) = &sealed {
            let head = sealed["head"].text();
            // Without a tail this host confirms it; with one no one does. There is no alarm.
            let ran = sandbox.sh(format!("verify t.jsonl --expect-head {head}"));
            assert!(matches!(ran.code, 0 | 3), "{}", ran.stdout);
        }
    }
    piped(&sandbox, "record --resume t", "{\"end\":\"completed\"}\n").exits(0);
    assert_eq!(sandbox.verdict("verify t.jsonl"), "verified");
    let all = fs::read_dir(sandbox.work()).unwrap();
    let all = all.map(|file| fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    let all: String = all.collect();
    assert!(durable.len() as u64 > KILLS, "{durable:?}");
    for number in durable {
        all.has(&format!("\"event {number}.\""));
    }
}

/// The examples of the guide for developers, in Python and in a shell.
#[test]
fn the_examples_of_the_guide_record() {
    let guide = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/developers.md"));
    let sandbox = ready();
    let block = |fence: &str| {
        let block = guide.split(&format!("```{fence}\n")).nth(1);
        block
            .and_then(|block| block.split("```").next())
            .unwrap()
            .to_owned()
    };
    let folder = Path::new(crate::sandbox::PROGRAM).parent().unwrap();
    for (program, fence, thread) in [
        ("python3", "python", "demo-python"),
        ("sh", "sh", "demo-shell"),
    ] {
        let is_there = Command::new(program).args(["-c", ""]).output();
        if !is_there.is_ok_and(|done| done.status.success()) {
            println!("skipped: {program} is not installed");
            continue;
        }
        let script = sandbox.write(format!("example.{fence}"), block(fence));
        let own = option_env("PATH").unwrap();
        let path = format!("{}:{}", folder.display(), own.display());
        let mut command = Command::new(program);
        command.arg(script).env("PATH", path);
        command
            .env("THREADSEAL_HOME", sandbox.home())
            .current_dir(sandbox.work());
        Ran::of(command.stdin(Stdio::null()).output().unwrap())
            .exits(0)
            .warns_nothing();
        let path = format!("{thread}.jsonl");
        assert_eq!(sandbox.verdict(format!("verify {path}")), "verified");
        let types = types(&sandbox, &path);
        types.has("cognition_in").has("thread_completed");
    }
}
