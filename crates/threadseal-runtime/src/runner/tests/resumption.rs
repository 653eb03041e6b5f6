//! Resuming: the checks before it, and the refusals.

use super::stage::{Stage, again, of, order};
use crate::history::UNVERIFIED;
use crate::model::ChatMessage;
use crate::status::Status;
use threadseal_core::record::ThreadId;
use threadseal_core::report::Verdict;

const READS: &str = "answers:\n- {text: I read., calls: [{tool: rye_file-system_read, input: {path: notes.txt}}]}\n\
                     - {text: Done.}\n";
const GLADLY: &str = "answers: [{when: Once more., text: Gladly.}]";

/// Attacks the file `name` of the thread. The refusal must contain one of the words, and nothing
/// may change.
fn refused(
    stage: &Stage,
    attacked: &ThreadId,
    resumed: &ThreadId,
    name: &str,
    attack: &dyn Fn(&str) -> String,
    word: &str,
) {
    let path = stage.folder(attacked).join(name);
    let whole = stage.read(&path);
    let changed = attack(std::str::from_utf8(&whole).unwrap());
    assert_ne!(
        changed.as_bytes(),
        whole,
        "{name} {word}: nothing was attacked"
    );
    std::fs::write(&path, changed).unwrap();
    for handed in [false, true] {
        let before = stage.state();
        let engine = stage.engine(GLADLY);
        let error = match handed {
            false => engine.resume(&again(resumed)),
            true => engine.handoff(&again(resumed)),
        };
        let error = error.unwrap_err().to_string();
        let said = word.split('|').any(|word| error.contains(word));
        assert!(said, "{name}, {word}: {error}");
        assert!(stage.state() == before, "{name}, {word}: something changed");
    }
    std::fs::write(&path, whole).unwrap();
}

// T-RUN-02 T-RUN-07
#[test]
fn every_record_of_a_chain_its_papers_and_its_parent_must_verify() {
    let stage = Stage::new();
    let first = stage.run(READS).thread;
    let other = stage.run(READS).thread;
    let second = stage.resume(&first, GLADLY).unwrap().thread;
    let foreign =
        String::from_utf8(stage.read(&stage.folder(&other).join("transcript.jsonl"))).unwrap();
    for attacked in [&first, &second] {
        let refused = |name: &str, attack: &dyn Fn(&str) -> String, word: &str| {
            refused(&stage, attacked, &first, name, attack, word);
        };
        refused(
            "transcript.jsonl",
            &|text| {
                text.replace("ome notes", "ome n0tes")
                    .replace("Gladly.", "Sadly..")
            },
            "tampered",
        );
        let lines =
            |text: &str, count: usize| text.split_inclusive('\n').take(count).collect::<String>();
        refused(
            "transcript.jsonl",
            &|text| lines(text, text.lines().count() - 2),
            "",
        );
        refused("transcript.jsonl", &|text| lines(text, 2), "rolled_back");
        refused(
            "transcript.jsonl",
            &|_| foreign.clone(),
            "contains another one|foreign",
        );
        refused(
            "transcript.jsonl",
            &|text| format!("{text}{}", text.lines().nth(2).unwrap()),
            "unsigned_tail",
        );
        refused(
            "thread.json",
            &|text| text.replace("file-system", "file-systems"),
            "thread.json",
        );
        refused(
            "thread.json",
            &|text| text.replace("_signature", "_signatur"),
            "thread.json",
        );
        refused(
            "capabilities.md",
            &|text| text.replace("Capabilities Tree", "Capabilities tree"),
            "capabilities.md",
        );
        refused("capabilities.md", &|_| String::new(), "capabilities.md");
        let ledger = ledger_of(&stage, attacked);
        refused(
            &ledger,
            &|text| lines(text, text.lines().count() - 1),
            "rolled_back",
        );
        refused(&ledger, &|_| String::new(), "ledger_");
        refused(
            &ledger,
            &|text| text.replace("llm_call", "llm_cell"),
            "tampered|forged",
        );
        let again = |text: &str| format!("{text}{}", text.lines().last().unwrap());
        refused(&ledger, &again, "ledger_");
    }
    let ran = stage.resume(&first, GLADLY).unwrap();
    assert_eq!(ran.text, "Gladly.");
    // Prompt, call, result, end; twice the continuation, once its answer.
    assert_eq!(stage.last_asked().len(), 7);
}

/// The name of a thread's step ledger.
fn ledger_of(stage: &Stage, thread: &ThreadId) -> String {
    let events = stage.events(thread);
    let end = events
        .iter()
        .find_map(|event| event["payload"]["ledger"]["run_id"].as_str());
    format!("ledger_{}.jsonl", end.unwrap())
}

/// Neither resumed nor handed over, in these words, and nothing changes.
fn stays(stage: &Stage, thread: &ThreadId, word: &str) {
    let before = stage.state();
    let engine = stage.engine(GLADLY);
    for error in [
        engine.resume(&again(thread)),
        engine.handoff(&again(thread)),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(stage.state() == before, "{word}: something changed");
}

// T-RUN-07
#[test]
fn a_step_ledger_is_missed_and_held_against_the_end_that_names_it() {
    let mut stage = Stage::new();
    let thread = stage.run(READS).thread;
    let path = stage.folder(&thread).join(ledger_of(&stage, &thread));
    let whole = stage.read(&path);
    std::fs::remove_file(&path).unwrap();
    stays(&stage, &thread, "is missing");
    // A host without heads relies on the seals of the transcript.
    stage.bench.host.heads =
        std::sync::Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    stays(&stage, &thread, "is missing");
    let text = String::from_utf8(whole.clone()).unwrap();
    let (cut, _) = text.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&path, format!("{cut}\n")).unwrap();
    stays(&stage, &thread, "truncated");
    let other = stage.run(READS).thread;
    let foreign = stage.read(&stage.folder(&other).join(ledger_of(&stage, &other)));
    std::fs::write(&path, foreign).unwrap();
    stays(&stage, &thread, "ledger_");
    std::fs::write(&path, whole).unwrap();
    assert_eq!(
        stage.resume(&thread, GLADLY).unwrap().status,
        Status::Completed
    );
}

// T-FIL-07
#[test]
fn a_child_whose_end_is_sealed_must_be_there() {
    let mut stage = Stage::new();
    let script = "answers:\n- {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/say}}]}\n\
                  - {text: I am the child.}\n- {text: Done.}\n";
    let child_of = |stage: &Stage, parent: &ThreadId| {
        let events = stage.events(parent);
        let ended = of(&events, "child_thread_ended");
        ThreadId::parse(ended[0]["child_thread_id"].as_str().unwrap()).unwrap()
    };
    let parent = stage.run(script).thread;
    let other = stage.run(script).thread;
    let (child, foreign) = (child_of(&stage, &parent), child_of(&stage, &other));
    let folder = stage.folder(&child);
    let kept = folder.with_extension("kept");
    std::fs::rename(&folder, &kept).unwrap();
    stays(&stage, &parent, "is missing");
    stage.bench.host.heads =
        std::sync::Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    stays(&stage, &parent, "is missing");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(
        stage.folder(&foreign).join("transcript.jsonl"),
        folder.join("transcript.jsonl"),
    )
    .unwrap();
    stays(&stage, &parent, "foreign");
    // Only its parent's record shows that its end is missing.
    let whole = stage.read(&kept.join("transcript.jsonl"));
    let two: Vec<u8> = whole
        .split_inclusive(|byte| *byte == b'\n')
        .take(2)
        .flatten()
        .copied()
        .collect();
    std::fs::write(folder.join("transcript.jsonl"), two).unwrap();
    stays(&stage, &parent, "truncated");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&kept, &folder).unwrap();
    // A child with a successor has more than its end.
    stage.resume(&child, GLADLY).unwrap();
    assert_eq!(
        stage.resume(&parent, GLADLY).unwrap().status,
        Status::Completed
    );
}

// T-RUN-02
#[test]
fn a_child_is_resumed_only_under_a_parent_that_verifies() {
    let stage = Stage::new();
    let parent = stage
        .run(
            "answers:\n- {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/say}}]}\n\
             - {text: I am the child.}\n- {text: Done.}\n",
        )
        .thread;
    let started = stage.events(&parent);
    let child = of(&started, "child_thread_started")[0]["child_thread_id"]
        .as_str()
        .unwrap();
    let child = ThreadId::parse(child).unwrap();
    let refused = |name: &str, attack: &dyn Fn(&str) -> String, word: &str| {
        refused(&stage, &parent, &child, name, attack, word);
    };
    refused(
        "thread.json",
        &|text| text.replace("\"turns\": 25", "\"turns\": 99"),
        "thread.json",
    );
    refused(
        "capabilities.md",
        &|text| text.replace("read", "write"),
        "capabilities.md",
    );
    refused(
        "transcript.jsonl",
        &|text| text.replace("I am the child.", "I am the parent"),
        "tampered",
    );
    refused(
        "transcript.jsonl",
        &|text| text.split_inclusive('\n').take(2).collect(),
        "rolled_back",
    );
    stage.edit(
        "UPDATE threads SET parent_id = NULL WHERE thread_id = ?1",
        &child,
    );
    let before = stage.state();
    assert!(stage.resume(&child, GLADLY).is_err());
    assert!(stage.state() == before);
}

// T-RUN-04
#[test]
fn a_continuation_directive_must_verify_where_it_is_there_and_is_told_where_it_is_not() {
    let stage = Stage::new();
    stage.directive(
        "demo/goes",
        "<continuation_directive>demo/words</continuation_directive>",
        "Go.",
    );
    let engine = stage.engine("answers: [{text: Done.}]");
    let first = engine.run(&order("demo/goes")).unwrap().thread;
    stage.write(".ai/directives/demo/words.md", b"# words\n");
    let before = stage.state();
    assert!(stage.resume(&first, GLADLY).is_err());
    assert!(stage.engine(GLADLY).handoff(&again(&first)).is_err());
    assert!(stage.state() == before);
    std::fs::remove_file(
        stage
            .bench
            .project
            .root()
            .join(".ai/directives/demo/words.md"),
    )
    .unwrap();
    let ran = stage.resume(&first, GLADLY).unwrap();
    assert!(
        ran.warnings[0].contains("continuation_missing"),
        "{:?}",
        ran.warnings
    );
    assert_eq!(
        stage.last_asked().last(),
        Some(&ChatMessage::User("Once more.".to_owned()))
    );
}

// T-RUN-06
#[test]
fn a_successor_that_no_link_names_is_resumed_by_nobody() {
    let stage = Stage::new();
    let first = stage.run(READS).thread;
    let unlinked = stage.read(&stage.folder(&first).join("transcript.jsonl"));
    let meta = stage.read(&stage.folder(&first).join("thread.json"));
    let second = stage.resume(&first, GLADLY).unwrap().thread;
    // As if the process had died before the link; on another host, which knows no head.
    std::fs::write(stage.folder(&first).join("transcript.jsonl"), unlinked).unwrap();
    std::fs::write(stage.folder(&first).join("thread.json"), meta).unwrap();
    let mut elsewhere = stage.engine(GLADLY);
    elsewhere.services.host.heads =
        std::sync::Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    elsewhere.services.finder = crate::item::Finder::new(
        elsewhere.services.host.fs.clone(),
        vec![stage.bench.project.root().to_owned()],
    );
    let before = stage.state();
    let error = elsewhere.resume(&again(&second)).unwrap_err().to_string();
    assert!(error.contains("does not name this successor"), "{error}");
    assert!(stage.state() == before);
}

// T-RUN-16
#[test]
fn what_stands_behind_the_last_seal_is_refused_or_taken_marked_and_told() {
    let mut stage = Stage::new();
    let first = stage.run(READS).thread;
    let path = stage.folder(&first).join("transcript.jsonl");
    let mut text = String::from_utf8(stage.read(&path)).unwrap();
    let line = stage
        .events(&first)
        .into_iter()
        .find(|event| event["event_type"] == "cognition_in")
        .unwrap();
    let mut line = line.to_string();
    line = line.replace("Say Ada.", "Say Eve.");
    text.push_str(&format!("{line}\n"));
    std::fs::write(&path, text).unwrap();
    let before = stage.state();
    assert!(
        stage
            .resume(&first, GLADLY)
            .unwrap_err()
            .to_string()
            .contains("unsigned_tail")
    );
    assert!(stage.state() == before);
    stage.coordination = "transcript_integrity: lenient".to_owned();
    let ran = stage.resume(&first, GLADLY).unwrap();
    assert!(
        ran.warnings
            .iter()
            .any(|warning| warning.contains("unverified_included")),
        "{:?}",
        ran.warnings
    );
    let marked = |message: &ChatMessage| matches!(message, ChatMessage::User(text) if text.starts_with(UNVERIFIED) && text.contains("Eve"));
    assert_eq!(
        stage
            .last_asked()
            .iter()
            .filter(|message| marked(message))
            .count(),
        1
    );
    assert_eq!(of(&stage.events(&first), "tail_adopted").len(), 1);
    assert_eq!(
        of(&stage.events(&ran.thread), "unverified_included").len(),
        1
    );
    // The mark is permanent: a strict reader does not continue from it.
    stage.coordination = String::new();
    let before = stage.state();
    assert!(
        stage
            .resume(&first, GLADLY)
            .unwrap_err()
            .to_string()
            .contains("partial")
    );
    assert!(stage.state() == before);
    stage.coordination = "transcript_integrity: lenient".to_owned();
    // No other verdict is softened.
    let whole = stage.read(&path);
    let changed = String::from_utf8(whole)
        .unwrap()
        .replace("I read.", "I rest.");
    std::fs::write(&path, changed).unwrap();
    let before = stage.state();
    assert!(
        stage
            .resume(&first, GLADLY)
            .unwrap_err()
            .to_string()
            .contains("tampered")
    );
    assert!(stage.state() == before);
}

// T-RUN-23
#[test]
fn a_call_that_only_the_ledger_knows_is_named_and_not_repeated() {
    let stage = Stage::new();
    let first = stage.run(READS).thread;
    let path = stage.folder(&first).join("transcript.jsonl");
    let text = String::from_utf8(stage.read(&path)).unwrap();
    // The transcript as a power cut may leave it, in the middle of the first turn: the ledger is
    // ahead.
    let cut: String = text
        .split_inclusive('\n')
        .take_while(|line| !line.contains("tool_call_start"))
        .collect();
    std::fs::write(&path, cut).unwrap();
    let mut engine = stage.engine(GLADLY);
    engine.services.host.heads =
        std::sync::Arc::new(threadseal_store::heads::MemoryHeadStore::default());
    let ledger = std::fs::read_dir(stage.folder(&first)).unwrap();
    let ledger = ledger
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            // It has an index beside it.
            path.extension().is_some_and(|end| end == "jsonl")
                && path.to_string_lossy().contains("ledger_")
        })
        .unwrap();
    let steps = String::from_utf8(stage.read(&ledger)).unwrap();
    let mut kept = String::new();
    for line in steps.split_inclusive('\n') {
        kept.push_str(line);
        if line.contains("\"tool_call\"") {
            break;
        }
    }
    std::fs::write(&ledger, kept).unwrap();
    stage.edit(
        "UPDATE threads SET status = 'running' WHERE thread_id = ?1",
        &first,
    );
    stage.edit_in(
        "budgets.db",
        "UPDATE budget_ledger SET status = 'active' WHERE thread_id = ?1",
        &first,
    );
    let recovered = engine.recover(&first).unwrap();
    assert_eq!(recovered.unresolved.len(), 1, "{:?}", recovered.unresolved);
    assert_eq!(recovered.unresolved[0]["item_id"], "rye/file-system/read");
    assert_eq!(recovered.unresolved[0]["in_ledger"], true);
    let ran = engine.resume(&again(&first)).unwrap();
    assert_eq!(ran.status, Status::Completed);
    let asked = stage.last_asked();
    let last = match asked.last().unwrap() {
        ChatMessage::User(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert!(
        last.contains("do not repeat them unseen") && last.contains("rye/file-system/read"),
        "{last}"
    );
}

// T-RUN-12
#[test]
fn a_chain_is_read_up_to_its_bound() {
    let stage = Stage::new();
    let first = stage.run(READS).thread;
    let mut last = first.clone();
    for _ in 0..3 {
        last = stage.resume(&first, GLADLY).unwrap().thread;
    }
    let engine = stage.engine(GLADLY);
    let archive = engine.services.archive();
    let chain = archive.chain(&last).unwrap();
    assert_eq!(chain.threads().len(), 4);
    assert!(chain.has(&first) && chain.threads()[0].id == first);
    assert_eq!(chain.last().record().report().verdict, Verdict::Verified);
    let error = archive.chain_within(&last, 3).unwrap_err();
    assert_eq!(error.kind(), threadseal_core::error::ErrorKind::Limit);
}
