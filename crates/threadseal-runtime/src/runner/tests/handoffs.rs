//! Handing over: automatically when the window is full, and on request.

use crate::testing::prelude::*;

const AGAIN: &str = "answers: [{when: Once more., text: Gladly.}]";

/// Reads again and again; every thread of the chain has room for a few turns.
pub(super) fn reads(turns: usize, last: &str) -> String {
    let turn = |turn: usize| {
        format!(
            "- {{text: Turn {turn}., calls: [{{tool: rye_file-system_read, input: {{path: notes.txt}}}}]}}\n"
        )
    };
    let turns: String = (0..turns).map(turn).collect();
    format!("answers:\n{turns}- {{text: {last}}}\n")
}

pub(super) fn small() -> Scene {
    let mut scene = Scene::new().signed();
    // A turn has about 120 tokens.
    scene.window = 900;
    scene.coordination = "trigger_threshold: 0.9\nresume_ceiling_tokens: 400".to_owned();
    scene
}

/// The same with summaries by `demo/sum`.
fn summarised() -> Scene {
    let mut scene = small();
    let input =
        "<inputs><input name=\"transcript\" type=\"string\" required=\"true\">c</input></inputs>";
    scene.directive("demo/sum", "", input, "Summarise:\n{input:transcript}");
    scene
        .coordination
        .push_str("\nsummary_directive: demo/sum\nsummary_limit_overrides: {turns: 3}");
    scene
}

fn folders(scene: &Scene) -> usize {
    fs::read_dir(scene.path(".ai/agent/threads/demo"))
        .unwrap()
        .count()
}

/// The ids of a chain.
fn chain(engine: &Engine, id: &ThreadId) -> Vec<ThreadId> {
    let chain = engine.services.registry.chain(id).unwrap();
    assert_eq!(chain.fault, None);
    chain.threads.into_iter().map(|thread| thread.id).collect()
}

/// The text of the summary that line 1 of a thread names, and its id.
fn summary(scene: &Scene, id: &ThreadId) -> (String, String) {
    let meta = &scene.events(id)[0]["payload"]["meta"];
    let id = meta["inputs"]["previous_summary_id"].text().to_owned();
    (
        scene.text(format!(".ai/knowledge/agent/threads/{id}.md")),
        id,
    )
}

#[test]
fn a_thread_whose_window_is_full_hands_itself_over_and_its_result_is_that_of_the_chains_end() {
    let scene = small();
    let mut engine = scene.engine(&reads(12, "All done."));
    let heard = Arc::new(Heard::default());
    engine.services.watch = Arc::clone(&heard) as Arc<dyn Watch>;
    let wanted = ordered("demo/say", json!({"name": "Ada"}));
    let ran = engine.run(&wanted).unwrap().completed();
    assert_eq!(ran.text, "All done.");
    let ids = chain(&engine, &ran.thread);
    assert!(ids.len() >= 3, "{ids:?}");
    let told =
        |pair: &[ThreadId]| format!("{}: the window is full; {} continues", pair[0], pair[1]);
    let told: Vec<String> = ids.windows(2).map(told).collect();
    assert_eq!(heard.notices(), told);
    for pair in ids.windows(2) {
        let (old, new) = (&pair[0], &pair[1]);
        let events = scene.events(old);
        let ratio = events.of("context_limit_reached")[0]["usage_ratio"].as_f64();
        assert!(ratio.unwrap() >= 0.9, "{ratio:?}");
        let handed = events.of("thread_handoff")[0];
        assert_eq!(handed["new_thread_id"], new.as_str());
        assert!(handed["trailing_turns"].as_u64().unwrap() >= 1, "{handed}");
        let continued = events.of("thread_continued")[0];
        assert_eq!(continued["new_thread_id"], new.as_str());
        let (old_row, new_row) = (row(&engine, old), row(&engine, new));
        assert_eq!(old_row.status, Ok(Status::Continued));
        assert_eq!(old_row.continuation.as_deref(), Some(new.as_str()));
        assert_eq!(new_row.chain_root.as_deref(), Some(ids[0].as_str()));
        let meta = &scene.events(new)[0]["payload"]["meta"];
        assert_eq!(meta["predecessor_thread"], old.as_str());
        assert_eq!(meta["inputs"]["name"], "Ada");
        // The budget moved with the thread.
        let budget = |id: &ThreadId| engine.services.budgets.get(id).unwrap().unwrap();
        let (before, after) = (budget(old), budget(new));
        assert_eq!(before.status, "continued");
        assert!(after.max <= before.max);
    }
    // Each turn was taken once, by one of the threads.
    let turns: u64 = ids.iter().map(|id| row(&engine, id).turns).sum();
    assert_eq!((turns, ran.total().turns), (13, 13));
    let last = engine.services.registry.resolve(&ids[0]).unwrap();
    assert_eq!(last.id, ran.thread);
    // The whole chain verifies, and its next successor gets the conversation of the last thread.
    let verified = engine.services.archive().chain(&ran.thread).unwrap();
    let mut heard = scene.last_asked();
    heard.push(ChatMessage::Assistant {
        text: "All done.".to_owned(),
        calls: Vec::new(),
    });
    assert_eq!(verified.messages(), heard);
    for (_, asked) in scene.asked.lock().unwrap().iter() {
        assert!(matches!(asked[0], ChatMessage::User(_)), "{:?}", asked[0]);
    }
}

// T-RUN-28
#[test]
fn limits_carry_over_along_a_chain_and_begin_anew_when_a_person_resumes() {
    let mut scene = small();
    let mut limited = order("demo/say");
    limited.limits.turns = Some(9);
    let ran = scene.engine(&reads(40, "never")).run(&limited).unwrap();
    let ran = ran.ended(Status::LimitReached);
    ran.error.as_deref().unwrap().has("turns_exceeded: 9 of 9");
    assert!(ran.total().turns == 9 && ran.cost.turns < 9, "{ran:?}");
    assert_eq!(scene.asked.lock().unwrap().len(), 9);
    scene.window = 200_000;
    let ran = scene.resume(&ran.thread, AGAIN).unwrap();
    assert_eq!((ran.text.as_str(), ran.total().turns), ("Gladly.", 1));
}

// T-RUN-45
#[test]
fn a_chain_that_is_resumed_unasked_has_what_its_limits_have_left_and_passes_its_count_on() {
    let mut scene = small();
    let action = "\norphan_detection: {action: resume}";
    scene.coordination.push_str(action);
    let mut limited = order("demo/say");
    limited.limits.turns = Some(30);
    let first = scene.engine(&reads(8, "Done.")).run(&limited).unwrap();
    assert_eq!((first.total().turns, first.cost.turns < 9), (9, true));
    let engine = scene.engine(&reads(40, "never"));
    let mut resumed = engine.resume_orphans([&first.thread], &Cancel::default());
    let ran = resumed.pop().unwrap().ran.unwrap();
    let ran = ran.ended(Status::LimitReached);
    assert_eq!((ran.total().turns, ran.cost.turns < 21), (21, true));
    let line_1 = &scene.events(&ran.thread)[0]["payload"]["meta"];
    assert_eq!(line_1["orphan_resumed"], 1);
}

#[test]
fn a_handoff_that_is_refused_leaves_no_link_and_the_thread_can_be_resumed() {
    let scene = small();
    let continuation = "<continuation_directive>demo/words</continuation_directive>";
    scene.reader("demo/goes", continuation, "Go.");
    scene.file(".ai/directives/demo/words.md", "# words\n");
    let engine = scene.engine(&reads(12, "never"));
    let ran = engine.run(&order("demo/goes")).unwrap();
    let ran = ran.ended(Status::Suspended);
    ran.error.unwrap().has("cannot hand itself over");
    let events = scene.events(&ran.thread);
    events.one("handoff_refused");
    assert_eq!((events.count("thread_handoff"), folders(&scene)), (0, 1));
    assert!(engine.services.archive().chain(&ran.thread).is_ok());
    fs::remove_file(scene.path(".ai/directives/demo/words.md")).unwrap();
    let ran = scene.engine(AGAIN).handoff(&again(&ran.thread)).unwrap();
    assert_eq!(ran.text, "Gladly.");
}

// T-RUN-03
#[test]
fn a_running_thread_whose_own_record_is_changed_under_it_does_not_hand_itself_over() {
    let scene = small();
    let engine = scene.engine(&reads(12, "never"));
    // While it runs, its capabilities.md becomes another file.
    let root = scene.path(".ai/agent/threads/demo");
    let changing = std::thread::spawn(move || {
        for _ in 0..100_000 {
            if let Ok(mut found) = fs::read_dir(&root)
                && let Some(Ok(entry)) = found.next()
                && entry.path().join("thread.json").exists()
            {
                return fs::write(entry.path().join("capabilities.md"), "# all\n").unwrap();
            }
            std::thread::sleep(Duration::from_micros(10));
        }
    });
    let ran = engine.run(&order("demo/say")).unwrap();
    changing.join().unwrap();
    ran.ended(Status::Suspended)
        .error
        .unwrap()
        .has("capabilities.md");
    assert_eq!(folders(&scene), 1);
}

#[test]
fn a_thread_that_ended_is_handed_over_with_what_fits_of_it() {
    let mut scene = Scene::new().signed();
    scene.coordination = "coordination: {continuation: {resume_ceiling_tokens: 400}}".to_owned();
    let first = scene.run(&reads(8, "Done.")).thread;
    let ran = scene.engine(AGAIN).handoff(&again(&first)).unwrap();
    assert_eq!(ran.text, "Gladly.");
    let asked = scene.last_asked();
    assert!(asked.len() < 10, "{}", asked.len());
    assert_eq!(asked[0], ChatMessage::User("Say Ada.".to_owned()));
    let events = scene.events(&first);
    let handed = events.of("thread_handoff")[0];
    assert_eq!(handed["new_thread_id"], ran.thread.as_str());
    let is_turn = |message: &&ChatMessage| matches!(message, ChatMessage::Assistant { .. });
    assert_eq!(
        handed["trailing_turns"],
        asked.iter().filter(is_turn).count()
    );
    // A later successor gets the same conversation, and the messages since.
    scene.resume(&first, AGAIN).unwrap();
    assert_eq!(scene.last_asked()[..asked.len()], asked);
    assert_eq!(scene.last_asked().len(), asked.len() + 2);
}

#[test]
fn a_resumed_thread_that_begins_with_more_than_fits_is_handed_over_at_once() {
    let mut scene = Scene::new().signed();
    let first = scene.run(&reads(12, "Done.")).thread;
    scene.window = 1500;
    scene.coordination = "resume_ceiling_tokens: 400".to_owned();
    let ran = scene.resume(&first, GLADLY).unwrap();
    assert_eq!(ran.text, "Gladly.");
    let engine = scene.engine("answers: []");
    let ids = chain(&engine, &ran.thread);
    assert_eq!((ids.len(), row(&engine, &ids[1]).turns), (3, 0));
    let asked = scene.last_asked();
    let is_told = |message: &ChatMessage| matches!(message, ChatMessage::User(text) if text.contains("Once more."));
    assert!(asked.iter().any(is_told), "{asked:?}");
    assert!(engine.services.archive().chain(&ran.thread).is_ok());
}

#[test]
fn a_summary_is_made_of_the_verified_conversation_kept_and_told() {
    let scene = summarised();
    let script = reads(6, "All done.");
    let mut lines: Vec<&str> = script.lines().collect();
    // At every full window, the next answer is the summary's.
    let plain = small();
    plain.run(&script);
    let continues = |(_, asked): &(String, Vec<ChatMessage>)| {
        let is_told = |message: &ChatMessage| matches!(message, ChatMessage::User(text) if text.contains("This thread continues"));
        asked.iter().any(is_told)
    };
    let at = plain
        .asked
        .lock()
        .unwrap()
        .iter()
        .position(continues)
        .unwrap();
    lines.insert(at + 1, "- {when: 'Summarise:', text: It read the notes.}");
    let engine = scene.engine(&lines[..=at + 2].join("\n"));
    let ran = engine
        .run(&ordered("demo/say", json!({"name": "Ada"})))
        .unwrap();
    let ids = chain(&engine, &ran.thread);
    assert!(ids.len() >= 2);
    let kept = "> It read the notes.";
    summary(&scene, &ids[1]).0.has(kept);
    let asked = scene.last_asked();
    let is_told =
        |message: &ChatMessage| matches!(message, ChatMessage::User(text) if text.contains(kept));
    assert!(asked.iter().any(is_told), "{asked:?}");
    // The summarised thread paid for its summary, and names it.
    scene.events(&ids[0]).one("child_thread_ended");
    assert_eq!(row(&engine, &ids[0]).spawns, 1);
    assert_eq!(told(&engine), []);
    let meta = &scene.events(&ids[1])[0]["payload"]["meta"];
    assert_eq!(meta["carried"]["turns"], json!(at));
}

#[test]
fn a_summary_by_a_hook_stands_for_the_configured_one_when_a_thread_hands_itself_over() {
    let scene = summarised();
    let metadata = "<permissions><execute><tool>rye.file-system.*</tool>\
         <tool>rye.agent.threads.thread_summary</tool></execute></permissions><hooks>\
         <hook id=\"sum\" event=\"context_limit_reached\"><action primary=\"execute\" item_type=\"tool\" \
         item_id=\"rye/agent/threads/thread_summary\"><param name=\"thread_id\">${thread_id}</param></action></hook></hooks>";
    scene.directive("demo/full", metadata, "", "Say w.");
    // Requests to summarise have their own conversation, at any full window.
    let turns = reads(6, "All done.")
        .replace("answers:\n", "")
        .replace("- {", "  - {");
    let script = format!(
        "conversations:\n- when: 'Summarise:'\n  answers: [{{text: It read the notes.}}, {{text: Again.}}]\n\
         - when: Say\n  answers:\n{turns}- when: 'This thread continues'\n  answers: [{{text: All done.}}]\n"
    );
    let engine = scene.engine(&script);
    let ran = engine.run(&order("demo/full")).unwrap();
    let ids = chain(&engine, &ran.thread);
    assert!(ids.len() >= 2, "{ran:?}");
    let events = scene.events(&ids[0]);
    assert_eq!(events.count("hook_failed"), 0, "{events:#?}");
    // One summary, by the hook's child; the handoff names that and makes no other.
    events.one("child_thread_ended");
    let result = events.of("hook_call_result")[0];
    assert_eq!(result["error"], Value::Null);
    let (text, id) = summary(&scene, &ids[1]);
    result["output"].text().has(&id);
    text.has("> It read the notes.");
    assert!(engine.services.archive().chain(&ran.thread).is_ok());
}

#[test]
fn a_hook_of_the_end_writes_the_summary_of_a_thread_that_is_continued() {
    let scene = summarised();
    let metadata = "<permissions><execute><tool>rye.file-system.*</tool>\
         <tool>rye.agent.threads.thread_summary</tool></execute></permissions><hooks>\
         <hook id=\"sum\" event=\"after_complete\"><condition path=\"status\" value=\"continued\"/>\
         <action primary=\"execute\" item_type=\"tool\" item_id=\"rye/agent/threads/thread_summary\">\
         <param name=\"thread_id\">${thread_id}</param></action></hook></hooks>";
    scene.directive("demo/full", metadata, "", "Say w.");
    let turns = reads(6, "All done.")
        .replace("answers:\n", "")
        .replace("- {", "  - {");
    let script = format!(
        "conversations:\n- when: 'Summarise:'\n  answers: [{{text: It read the notes.}}]\n\
         - when: Say\n  answers:\n{turns}- when: 'This thread continues'\n  answers: [{{text: All done.}}]\n"
    );
    let engine = scene.engine(&script);
    let ran = engine.run(&order("demo/full")).unwrap();
    let ids = chain(&engine, &ran.thread);
    assert!(ids.len() >= 2, "{ran:?}");
    let events = scene.verified(&ids[0]);
    assert_eq!(events.count("hook_failed"), 0, "{events:#?}");
    let call = events.one("hook_call_start");
    assert_eq!(call["event"], "after_complete");
    let output: Value =
        serde_json::from_str(events.one("hook_call_result")["output"].text()).unwrap();
    let entry = format!(".ai/knowledge/{}.md", output["knowledge_id"].text());
    scene.text(entry).has("> It read the notes.");
    // The summary is there before the successor is.
    let place = |kind| events.kinds().iter().position(|found| *found == kind);
    assert!(
        place("hook_call_result") < place("thread_handoff"),
        "{events:#?}"
    );
    // The last thread of the chain is not continued: its hook does nothing.
    assert_eq!(scene.verified(&ran.thread).count("hook_call_start"), 0);
}

// T-FIL-05
#[test]
fn knowledge_that_was_moved_to_the_place_of_a_summary_passes_for_none() {
    let mut scene = Scene::new().signed();
    scene.reader("demo/sum", "", "Summarise.");
    scene.coordination = "summary_directive: demo/sum".to_owned();
    let thread = scene.run("answers: [{text: Hello.}]").thread;
    scene.seal(".ai/knowledge/demo/k.md", "# K\n\nObey.\n");
    let name = thread.as_str().rsplit('/').next().unwrap();
    let place = format!(".ai/knowledge/agent/threads/demo/say/{name}-summary.md");
    let place = scene.path(place);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(scene.path(".ai/knowledge/demo/k.md"), &place).unwrap();
    let engine = scene.engine("answers: [{text: A summary.}, {text: Gladly.}]");
    let handoff = || engine.handoff(&again(&thread));
    scene.unchanged(handoff).fails_with("no summary of");
    fs::remove_file(place).unwrap();
    handoff().unwrap();
}

#[test]
fn hooks_hear_of_each_twentieth_of_the_window_once_and_may_stop_the_thread() {
    let hook = |more: &str| {
        format!(
            "hooks:\n- {{id: own, event: context_window_pressure, {more}, item_type: tool, \
             item_id: rye/agent/threads/internal/control, params: {{action: ACTION}}}}}}\n"
        )
    };
    let run = |action: &str, condition: &str| {
        let mut scene = Scene::new().signed();
        scene.window = 2000;
        let text = hook(&format!("{condition}action: {{primary: execute"));
        let text = text.replace("ACTION", action);
        scene.seal(".ai/config/agent/hooks.yaml", &text);
        let ran = scene
            .engine(&reads(6, "Done."))
            .run(&order("demo/say"))
            .unwrap();
        (ran.status, ran.cost.turns)
    };
    assert_eq!(run("continue", ""), (Status::Completed, 7));
    let late = "condition: {path: pressure_ratio, op: gte, value: 0.2}, ";
    let (status, turns) = run("suspend", late);
    assert_eq!(status, Status::Suspended);
    assert!((2..7).contains(&turns), "{turns}");
}
