//! Resuming: the checks before it, and the refusals.

use crate::history::UNVERIFIED;
use crate::testing::prelude::*;

const BEGETS: &str = "answers:\n- {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/say}}]}\n\
                      - {text: I am the child.}\n- {text: Done.}\n";

/// The first so many lines of a text.
fn lines(text: &str, count: usize) -> String {
    text.split_inclusive('\n').take(count).collect()
}

/// A file of `attacked` with this change keeps `resumed` from being continued, for a reason with one
/// of these parts.
#[track_caller]
fn refuses(
    scene: &Scene,
    [attacked, resumed]: [&ThreadId; 2],
    name: &str,
    attack: &Attack<'_>,
    parts: &str,
) {
    let path = match name {
        "ledger" => scene.ledger(attacked),
        name => scene.folder_of(attacked).join(name),
    };
    let whole = scene.text(&path);
    let changed = attack(&whole);
    assert_ne!(changed, whole, "{name} {parts}: nothing was attacked");
    fs::write(&path, changed).unwrap();
    scene.refuses(resumed, parts);
    fs::write(&path, whole).unwrap();
}

// T-RUN-02 T-RUN-07
#[test]
fn every_record_of_a_chain_its_papers_and_its_parent_must_verify() {
    let scene = Scene::new().signed();
    let first = scene.run(READS).thread;
    let other = scene.run(READS).thread;
    let second = scene.resume(&first, GLADLY).unwrap().thread;
    let foreign = scene.text(scene.transcript(&other));
    let tail = |text: &str| format!("{text}{}", text.lines().nth(2).unwrap());
    let last = |text: &str| format!("{text}{}", text.lines().last().unwrap());
    let but = |text: &str, count: usize| lines(text, text.lines().count() - count);
    let attacks: [(&str, &Attack<'_>, &str); 13] = [
        (
            "transcript.jsonl",
            &|text| {
                text.replace("ome notes", "ome n0tes")
                    .replace("Gladly.", "Sadly..")
            },
            "tampered",
        ),
        ("transcript.jsonl", &|text| but(text, 2), ""),
        ("transcript.jsonl", &|text| lines(text, 2), "rolled_back"),
        (
            "transcript.jsonl",
            &|_| foreign.clone(),
            "contains another one|foreign",
        ),
        ("transcript.jsonl", &tail, "unsigned_tail"),
        (
            "thread.json",
            &|text| text.replace("file-system", "file-systems"),
            "thread.json",
        ),
        (
            "thread.json",
            &|text| text.replace("_signature", "_signatur"),
            "thread.json",
        ),
        (
            "capabilities.md",
            &|text| text.replace("es Tree", "es tree"),
            "capabilities.md",
        ),
        ("capabilities.md", &|_| String::new(), "capabilities.md"),
        ("ledger", &|text| but(text, 1), "rolled_back"),
        ("ledger", &|_| String::new(), "ledger_"),
        (
            "ledger",
            &|text| text.replace("llm_call", "llm_cell"),
            "tampered|forged",
        ),
        ("ledger", &last, "ledger_"),
    ];
    for attacked in [&first, &second] {
        for (name, attack, parts) in &attacks {
            refuses(&scene, [attacked, &first], name, attack, parts);
        }
    }
    assert_eq!(scene.resume(&first, GLADLY).unwrap().text, "Gladly.");
    // Prompt, call, result, end; twice the continuation, once its answer.
    assert_eq!(scene.last_asked().len(), 7);
}

// T-RUN-07
#[test]
fn a_step_ledger_is_missed_and_held_against_the_end_that_names_it() {
    let mut scene = Scene::new().signed();
    let thread = scene.run(READS).thread;
    let path = scene.ledger(&thread);
    let whole = scene.text(&path);
    fs::remove_file(&path).unwrap();
    scene.refuses(&thread, "is missing");
    // A host without heads relies on the seals of the transcript.
    scene.forget_heads();
    scene.refuses(&thread, "is missing");
    fs::write(&path, lines(&whole, whole.lines().count() - 1)).unwrap();
    scene.refuses(&thread, "rolled_back");
    // Without its index, too.
    fs::remove_file(path.with_extension("index")).unwrap();
    scene.refuses(&thread, "truncated");
    let other = scene.run(READS).thread;
    fs::copy(scene.ledger(&other), &path).unwrap();
    scene.refuses(&thread, "ledger_");
    fs::write(&path, whole).unwrap();
    scene.resume(&thread, GLADLY).unwrap().completed();
}

/// The child of a parent.
fn child_of(scene: &Scene, parent: &ThreadId) -> ThreadId {
    let events = scene.events(parent);
    let child = events.of("child_thread_started")[0]["child_thread_id"].text();
    ThreadId::parse(child).unwrap()
}

// T-FIL-07
#[test]
fn a_child_whose_end_is_sealed_must_be_there() {
    let mut scene = Scene::new().signed();
    let parent = scene.run(BEGETS).thread;
    let other = scene.run(BEGETS).thread;
    let (child, foreign) = (child_of(&scene, &parent), child_of(&scene, &other));
    let folder = scene.folder_of(&child);
    let kept = folder.with_extension("kept");
    fs::rename(&folder, &kept).unwrap();
    scene.refuses(&parent, "is missing");
    scene.forget_heads();
    scene.refuses(&parent, "is missing");
    fs::create_dir(&folder).unwrap();
    fs::copy(scene.transcript(&foreign), scene.transcript(&child)).unwrap();
    scene.refuses(&parent, "foreign");
    // Only its parent's record shows that its end is missing.
    let whole = scene.text(kept.join("transcript.jsonl"));
    fs::write(scene.transcript(&child), lines(&whole, 2)).unwrap();
    scene.refuses(&parent, "truncated");
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&kept, &folder).unwrap();
    // A child with a successor has more than its end.
    scene.resume(&child, GLADLY).unwrap();
    scene.resume(&parent, GLADLY).unwrap().completed();
}

// T-RUN-02
#[test]
fn a_child_is_resumed_only_under_a_parent_that_verifies() {
    let scene = Scene::new().signed();
    let parent = scene.run(BEGETS).thread;
    let child = child_of(&scene, &parent);
    let attacks: [(&str, &Attack<'_>, &str); 4] = [
        (
            "thread.json",
            &|text| text.replace("\"turns\": 25", "\"turns\": 99"),
            "thread.json",
        ),
        (
            "capabilities.md",
            &|text| text.replace("read", "write"),
            "capabilities.md",
        ),
        (
            "transcript.jsonl",
            &|text| text.replace("I am the child.", "I am the parent"),
            "tampered",
        ),
        ("transcript.jsonl", &|text| lines(text, 2), "rolled_back"),
    ];
    for (name, attack, parts) in attacks {
        refuses(&scene, [&parent, &child], name, attack, parts);
    }
    scene.edit(
        "UPDATE threads SET parent_id = NULL WHERE thread_id = ?1",
        &child,
    );
    scene.refuses(&child, "");
}

// T-RUN-04
#[test]
fn a_continuation_directive_must_verify_where_it_is_there_and_is_told_where_it_is_not() {
    let scene = Scene::new().signed();
    let continuation = "<continuation_directive>demo/words</continuation_directive>";
    scene.reader("demo/goes", continuation, "Go.");
    let engine = scene.engine("answers: [{text: Done.}]");
    let first = engine.run(&order("demo/goes")).unwrap().thread;
    scene.file(".ai/directives/demo/words.md", "# words\n");
    scene.refuses(&first, "");
    fs::remove_file(scene.path(".ai/directives/demo/words.md")).unwrap();
    let ran = scene.resume(&first, GLADLY).unwrap();
    ran.warnings[0].has("continuation_missing");
    assert_eq!(scene.last_told(), "Once more.");
}

#[test]
fn a_directive_of_its_own_words_the_first_message_of_a_continuation() {
    let scene = Scene::new().signed();
    let names = [
        "original_directive",
        "original_directive_body",
        "previous_thread_id",
        "continuation_message",
    ];
    let inputs = names
        .map(|name| format!("<input name=\"{name}\"/>"))
        .concat();
    let words = names.map(|name| format!("{{input:{name}}}")).join(" | ");
    let inputs = format!("<inputs>{inputs}</inputs>");
    scene.directive("demo/words", "", &inputs, &format!("Words: {words}"));
    let own = "<continuation_directive>demo/words</continuation_directive>";
    scene.reader("demo/goes", own, "Go.");
    let first = scene.engine(GLADLY).run(&order("demo/goes")).unwrap();
    let second = scene.resume(&first.thread, GLADLY).unwrap().completed();
    let words = format!("Words: demo/goes | Go. | {} | Once more.", first.thread);
    assert_eq!(scene.last_told(), words);
    let events = scene.verified(&second.thread);
    assert_eq!(events.one("cognition_in")["text"], words.as_str());
    let used = events.of("item_used");
    assert!(
        used.iter().any(|item| item["id"] == "demo/words"),
        "{used:?}"
    );
}

// T-RUN-06
#[test]
fn a_successor_that_no_link_names_is_resumed_by_nobody() {
    let mut scene = Scene::new().signed();
    let first = scene.run(READS).thread;
    let folder = scene.folder_of(&first);
    let paths = ["transcript.jsonl", "thread.json"].map(|name| folder.join(name));
    let before = paths.each_ref().map(|path| scene.read(path));
    let second = scene.resume(&first, GLADLY).unwrap().thread;
    // As if the process had died before the link; on another host, which knows no head.
    for (path, bytes) in paths.iter().zip(before) {
        fs::write(path, bytes).unwrap();
    }
    scene.forget_heads();
    scene.refuses(&second, "does not name this successor");
}

// T-RUN-16
#[test]
fn what_stands_behind_the_last_seal_is_refused_or_taken_marked_and_told() {
    let mut scene = Scene::new().signed();
    let lenient = "transcript_integrity: lenient";
    let first = scene.run(READS).thread;
    let path = scene.transcript(&first);
    let text = scene.text(&path);
    let asks = |line: &&str| line.contains("\"cognition_in\"");
    let forged = text
        .lines()
        .find(asks)
        .unwrap()
        .replace("Say Ada.", "Say Eve.");
    fs::write(&path, format!("{text}{forged}\n")).unwrap();
    scene.refuses(&first, "unsigned_tail");
    scene.coordination = lenient.to_owned();
    let ran = scene.resume(&first, GLADLY).unwrap();
    ran.warnings.concat().has("unverified_included");
    let is_marked = |message: &&ChatMessage| matches!(message, ChatMessage::User(text) if text.starts_with(UNVERIFIED) && text.contains("Eve"));
    assert_eq!(scene.last_asked().iter().filter(is_marked).count(), 1);
    scene.events(&first).one("tail_adopted");
    scene.events(&ran.thread).one("unverified_included");
    // The mark is permanent: a strict reader does not continue from it.
    scene.coordination.clear();
    scene.refuses(&first, "partial");
    // No other verdict is softened.
    scene.coordination = lenient.to_owned();
    edit(&path, "I read.", "I rest.");
    scene.refuses(&first, "tampered");
}

// T-RUN-23
#[test]
fn a_call_that_only_the_ledger_knows_is_named_and_not_repeated() {
    let scene = Scene::new().signed();
    let first = scene.run(READS).thread;
    // The transcript as a power cut may leave it, in the middle of the first turn: the ledger is
    // ahead.
    let (path, ledger) = (scene.transcript(&first), scene.ledger(&first));
    let before = |text: String, kind: &str| {
        let end = text.find(kind).unwrap();
        let end = text[..end].rfind('\n').unwrap() + 1;
        (text[..end].to_owned(), text[end..].to_owned())
    };
    fs::write(&path, before(scene.text(&path), "tool_call_start").0).unwrap();
    let (kept, rest) = before(scene.text(&ledger), "\"tool_call\"");
    fs::write(&ledger, kept + &lines(&rest, 1)).unwrap();
    fs::remove_file(ledger.with_extension("index")).unwrap();
    scene.as_if_killed(&first);
    let engine = scene.elsewhere(GLADLY);
    let unresolved = engine.recover(&first).unwrap().unresolved;
    assert_eq!(unresolved.len(), 1, "{unresolved:?}");
    assert_eq!(unresolved[0]["item_id"], "rye/file-system/read");
    assert_eq!(unresolved[0]["in_ledger"], true);
    engine.resume(&again(&first)).unwrap().completed();
    let told = scene.last_told();
    told.has("do not repeat them unseen")
        .has("rye/file-system/read");
}

// T-RUN-12
#[test]
fn a_chain_is_read_up_to_its_bound() {
    let scene = Scene::new().signed();
    let first = scene.run(READS).thread;
    let mut last = first.clone();
    for _ in 0..3 {
        last = scene.resume(&first, GLADLY).unwrap().thread;
    }
    let engine = scene.engine(GLADLY);
    let archive = engine.services.archive();
    let chain = archive.chain(&last).unwrap();
    assert_eq!(chain.threads().len(), 4);
    assert!(chain.has(&first) && chain.threads()[0].id == first);
    assert_eq!(chain.last().record().report().verdict, Verdict::Verified);
    let error = archive.chain_within(&last, 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

// T-DEC-07
#[test]
fn a_signed_setting_that_is_gone_is_named_by_the_thread_that_continues() {
    const FILE: &str = ".ai/config/agent/resilience.yaml";
    let missing = |scene: &Scene, ran: &Ran| scene.events(&ran.thread).count("settings_missing");
    let mut scene = Scene::new().signed();
    drop(scene.seal(FILE, "limits: {defaults: {turns: 9}}\n"));
    drop(scene.seal(".ai/config/agent/hooks.yaml", "hooks: []\n"));
    let [kept, lost] = [scene.run(READS).thread, scene.run(READS).thread];
    let used = scene.events(&lost);
    let is_it = |used: &&Value| used["id"] == "agent/resilience";
    let sha256 = used.of("item_used").into_iter().find(is_it).unwrap()["sha256"].clone();
    let ran = scene.resume(&kept, GLADLY).unwrap();
    assert_eq!(missing(&scene, &ran), 0);
    // A changed setting is an event of its own; on another host, which knows no seal of it.
    drop(scene.seal(FILE, "limits: {defaults: {turns: 8}}\n"));
    scene.forget_heads();
    let ran = scene.resume(&ran.thread, GLADLY).unwrap();
    assert_eq!(missing(&scene, &ran), 0);
    fs::remove_file(scene.path(FILE)).unwrap();
    let ran = scene.resume(&lost, GLADLY).unwrap();
    let events = scene.events(&ran.thread);
    assert_eq!(
        *events.one("settings_missing"),
        json!({"settings": [{"id": "agent/resilience", "sha256": sha256}]})
    );
    ran.warnings.concat().has("settings_missing");
    // Its own record names what it used, so the next one has nothing to miss.
    let ran = scene.resume(&ran.thread, GLADLY).unwrap();
    assert_eq!(missing(&scene, &ran), 0);
}
