//! Handing over: automatically when the window is full, and on request.

use super::stage::{Stage, again, of, order};
use crate::limit::Limits;
use crate::model::ChatMessage;
use crate::status::Status;
use serde_json::json;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::ItemType;

/// Reads again and again; every thread of the chain has room for a few turns.
pub(super) fn reads(turns: usize, last: &str) -> String {
    let mut script = "answers:\n".to_owned();
    for turn in 0..turns {
        script.push_str(&format!(
            "- {{text: Turn {turn}., calls: [{{tool: rye_file-system_read, input: {{path: notes.txt}}}}]}}\n"
        ));
    }
    script.push_str(&format!("- {{text: {last}}}\n"));
    script
}

pub(super) fn small() -> Stage {
    let mut stage = Stage::new();
    // A turn has about 120 tokens.
    stage.window = 900;
    stage.coordination = "trigger_threshold: 0.9\nresume_ceiling_tokens: 400".to_owned();
    stage
}

fn folders(stage: &Stage) -> usize {
    std::fs::read_dir(stage.bench.project.root().join(".ai/agent/threads/demo"))
        .unwrap()
        .count()
}

#[test]
fn a_thread_whose_window_is_full_hands_itself_over_and_its_result_is_that_of_the_chains_end() {
    let stage = small();
    let engine = stage.engine(&reads(12, "All done."));
    let ran = engine.run(&order("demo/say")).unwrap();
    assert_eq!(
        (ran.status, ran.text.as_str()),
        (Status::Completed, "All done.")
    );
    let chain = engine.services.registry.chain(&ran.thread).unwrap();
    assert!(
        chain.fault.is_none() && chain.threads.len() >= 3,
        "{}",
        chain.threads.len()
    );
    let ids: Vec<ThreadId> = chain
        .threads
        .iter()
        .map(|thread| thread.id.clone())
        .collect();
    for (place, pair) in ids.windows(2).enumerate() {
        let (old, new) = (&pair[0], &pair[1]);
        let events = stage.events(old);
        let reached = of(&events, "context_limit_reached")[0];
        assert!(reached["usage_ratio"].as_f64().unwrap() >= 0.9, "{reached}");
        let handed = of(&events, "thread_handoff")[0];
        assert_eq!(handed["new_thread_id"], new.as_str());
        assert!(handed["trailing_turns"].as_u64().unwrap() >= 1, "{handed}");
        assert_eq!(
            of(&events, "thread_continued")[0]["new_thread_id"],
            new.as_str()
        );
        let row = &chain.threads[place];
        assert_eq!(
            (row.status.clone(), row.continuation.as_deref()),
            (Ok(Status::Continued), Some(new.as_str()))
        );
        assert_eq!(
            chain.threads[place + 1].chain_root.as_deref(),
            Some(ids[0].as_str())
        );
        let line_1 = &stage.events(new)[0]["payload"];
        assert_eq!(line_1["meta"]["predecessor_thread"], old.as_str());
        assert_eq!(line_1["meta"]["inputs"]["name"], "Ada");
        // The budget moved with the thread.
        let (before, after) = (
            engine.services.budgets.get(old).unwrap().unwrap(),
            engine.services.budgets.get(new).unwrap().unwrap(),
        );
        assert_eq!(before.status, "continued");
        assert!(after.max <= before.max);
    }
    // Each turn was taken once, by one of the threads.
    let turns: u64 = chain.threads.iter().map(|thread| thread.turns).sum();
    assert_eq!((turns, ran.total().turns), (13, 13));
    assert_eq!(
        engine.services.registry.resolve(&ids[0]).unwrap().id,
        ran.thread
    );
    // The whole chain verifies, and its next successor gets the conversation of the last thread.
    let verified = engine.services.archive().chain(&ran.thread).unwrap();
    let mut heard = stage.last_asked();
    heard.push(ChatMessage::Assistant {
        text: "All done.".to_owned(),
        calls: Vec::new(),
    });
    assert_eq!(verified.messages(), heard);
    for asked in stage.asked.lock().unwrap().iter() {
        assert!(matches!(asked[0], ChatMessage::User(_)), "{:?}", asked[0]);
    }
}

// T-RUN-28
#[test]
fn limits_carry_over_along_a_chain_and_begin_anew_when_a_person_resumes() {
    let mut stage = small();
    let limited = crate::runner::Order {
        limits: Limits {
            turns: Some(9),
            ..Limits::default()
        },
        ..order("demo/say")
    };
    let ran = stage.engine(&reads(40, "never")).run(&limited).unwrap();
    assert_eq!(ran.status, Status::Suspended);
    assert!(
        ran.error
            .as_deref()
            .unwrap()
            .contains("turns_exceeded: 9 of 9"),
        "{:?}",
        ran.error
    );
    assert!(
        ran.total().turns == 9 && ran.cost.turns < 9,
        "{:?}",
        ran.cost
    );
    assert_eq!(stage.asked.lock().unwrap().len(), 9);
    stage.window = 200_000;
    let ran = stage
        .resume(&ran.thread, "answers: [{when: Once more., text: Gladly.}]")
        .unwrap();
    assert_eq!((ran.text.as_str(), ran.total().turns), ("Gladly.", 1));
}

#[test]
fn a_handoff_that_is_refused_leaves_no_link_and_the_thread_can_be_resumed() {
    let stage = small();
    stage.directive(
        "demo/goes",
        "<continuation_directive>demo/words</continuation_directive>",
        "Go.",
    );
    stage.write(".ai/directives/demo/words.md", b"# words\n");
    let engine = stage.engine(&reads(12, "never"));
    let ran = engine.run(&order("demo/goes")).unwrap();
    assert_eq!(ran.status, Status::Suspended);
    assert!(
        ran.error
            .as_deref()
            .unwrap()
            .contains("cannot hand itself over"),
        "{:?}",
        ran.error
    );
    let events = stage.events(&ran.thread);
    assert_eq!(of(&events, "handoff_refused").len(), 1);
    assert!(of(&events, "thread_handoff").is_empty());
    assert_eq!(folders(&stage), 1);
    assert!(engine.services.archive().chain(&ran.thread).is_ok());
    std::fs::remove_file(
        stage
            .bench
            .project
            .root()
            .join(".ai/directives/demo/words.md"),
    )
    .unwrap();
    let mut again = again(&ran.thread);
    again.message = "Now.".to_owned();
    let ran = stage
        .engine("answers: [{when: Now., text: Gladly.}]")
        .handoff(&again)
        .unwrap();
    assert_eq!(ran.text, "Gladly.");
}

// T-RUN-03
#[test]
fn a_running_thread_whose_own_record_is_changed_under_it_does_not_hand_itself_over() {
    let stage = small();
    // The third turn's tool moves the transcript's folder away: capabilities.md is another file
    // then.
    let script = reads(12, "never");
    let engine = stage.engine(&script);
    let root = stage.bench.project.root().join(".ai/agent/threads/demo");
    let changing = std::thread::spawn(move || {
        for _ in 0..10_000 {
            if let Ok(mut found) = std::fs::read_dir(&root)
                && let Some(Ok(entry)) = found.next()
                && entry.path().join("thread.json").exists()
            {
                std::fs::write(entry.path().join("capabilities.md"), "# all\n").unwrap();
                return;
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    });
    let ran = engine.run(&order("demo/say")).unwrap();
    changing.join().unwrap();
    assert_eq!(ran.status, Status::Suspended);
    assert!(
        ran.error.as_deref().unwrap().contains("capabilities.md"),
        "{:?}",
        ran.error
    );
    assert_eq!(folders(&stage), 1);
}

#[test]
fn a_thread_that_ended_is_handed_over_with_what_fits_of_it() {
    let mut stage = Stage::new();
    stage.coordination = "coordination: {continuation: {resume_ceiling_tokens: 400}}".to_owned();
    let first = stage.run(&reads(8, "Done.")).thread;
    let ran = stage
        .engine("answers: [{when: Once more., text: Gladly.}]")
        .handoff(&again(&first))
        .unwrap();
    assert_eq!(ran.text, "Gladly.");
    let asked = stage.last_asked();
    assert!(
        asked.len() < 10 && matches!(&asked[0], ChatMessage::User(text) if text == "Say Ada."),
        "{}",
        asked.len()
    );
    let handed = stage.events(&first);
    let handed = of(&handed, "thread_handoff")[0];
    assert_eq!(handed["new_thread_id"], ran.thread.as_str());
    let turns = asked
        .iter()
        .filter(|message| matches!(message, ChatMessage::Assistant { .. }))
        .count();
    assert_eq!(handed["trailing_turns"], turns);
    // A later successor gets the same conversation, and the messages since.
    stage
        .resume(&first, "answers: [{when: Once more., text: Gladly.}]")
        .unwrap();
    assert_eq!(stage.last_asked()[..asked.len()], asked);
    assert_eq!(stage.last_asked().len(), asked.len() + 2);
}

#[test]
fn a_resumed_thread_that_begins_with_more_than_fits_is_handed_over_at_once() {
    let mut stage = Stage::new();
    let first = stage.run(&reads(12, "Done.")).thread;
    stage.window = 1500;
    stage.coordination = "resume_ceiling_tokens: 400".to_owned();
    let ran = stage.resume(&first, "answers: [{text: Gladly.}]").unwrap();
    assert_eq!(ran.text, "Gladly.");
    let engine = stage.engine("answers: []");
    let chain = engine.services.registry.chain(&ran.thread).unwrap();
    assert_eq!(chain.threads.len(), 3);
    assert_eq!(chain.threads[1].turns, 0);
    let asked = stage.last_asked();
    let heard = asked
        .iter()
        .any(|message| matches!(message, ChatMessage::User(text) if text.contains("Once more.")));
    assert!(heard, "{asked:?}");
    assert!(engine.services.archive().chain(&ran.thread).is_ok());
}

#[test]
fn a_summary_is_made_of_the_verified_conversation_kept_and_told() {
    let mut stage = small();
    stage.seal(
        ".ai/directives/demo/sum.md",
        "# sum\n\n```xml\n<directive name=\"sum\" version=\"1.0.0\">\n  <metadata>\n    <description>d</description>\n    \
         <category>demo</category>\n    <model tier=\"fast\" />\n  </metadata>\n  <inputs>\n    \
         <input name=\"transcript\" type=\"string\" required=\"true\">c</input>\n  </inputs>\n</directive>\n```\n\n\
         Summarise:\n{input:transcript}\n",
        ItemType::Directive,
    );
    stage
        .coordination
        .push_str("\nsummary_directive: demo/sum\nsummary_limit_overrides: {turns: 3}");
    let mut script = reads(6, "All done.");
    // At every full window, the next answer is the summary's.
    script = script.replace("answers:\n", "");
    let turns: Vec<&str> = script.lines().collect();
    let plain = small();
    plain.run(&format!("answers:\n{script}\n"));
    let first = plain.asked.lock().unwrap().iter().position(|asked| {
        asked.iter().any(|message| matches!(message, ChatMessage::User(text) if text.contains("This thread continues")))
    });
    let at = first.unwrap();
    let mut lines: Vec<String> = turns.iter().map(|line| (*line).to_owned()).collect();
    lines.insert(
        at,
        "- {when: 'Summarise:', text: It read the notes.}".to_owned(),
    );
    let engine = stage.engine(&format!("answers:\n{}\n", lines[..=at + 1].join("\n")));
    let ran = engine.run(&order("demo/say"));
    let ran = ran.unwrap();
    let chain = engine.services.registry.chain(&ran.thread).unwrap();
    assert!(chain.threads.len() >= 2);
    let line_1 = &stage.events(&chain.threads[1].id)[0]["payload"];
    let id = line_1["meta"]["inputs"]["previous_summary_id"]
        .as_str()
        .unwrap();
    let entry = stage
        .bench
        .project
        .root()
        .join(format!(".ai/knowledge/agent/threads/{id}.md"));
    let text = String::from_utf8(stage.read(&entry)).unwrap();
    assert!(text.contains("> It read the notes."), "{text}");
    let asked = stage.last_asked();
    let told = asked.iter().any(|message| matches!(message, ChatMessage::User(text) if text.contains("> It read the notes.")));
    assert!(told, "{asked:?}");
    // The summarised thread paid for its summary, and names it.
    let events = stage.events(&chain.threads[0].id);
    assert_eq!(of(&events, "child_thread_ended").len(), 1);
    assert_eq!(chain.threads[0].spawns, 1);
    assert_eq!(crate::testing::told(&engine), []);
    assert_eq!(line_1["meta"]["carried"]["turns"], json!(at));
}

#[test]
fn a_summary_by_a_hook_stands_for_the_configured_one_when_a_thread_hands_itself_over() {
    let mut stage = small();
    stage.seal(
        ".ai/directives/demo/sum.md",
        "# sum\n\n```xml\n<directive name=\"sum\" version=\"1.0.0\">\n  <metadata>\n    <description>d</description>\n    \
         <category>demo</category>\n    <model tier=\"fast\" />\n  </metadata>\n  <inputs>\n    \
         <input name=\"transcript\" type=\"string\" required=\"true\">c</input>\n  </inputs>\n</directive>\n```\n\n\
         Summarise:\n{input:transcript}\n",
        ItemType::Directive,
    );
    stage.seal(
        ".ai/directives/demo/full.md",
        "# full\n\n```xml\n<directive name=\"full\" version=\"1.0.0\">\n  <metadata>\n    <description>d</description>\n    \
         <category>demo</category>\n    <model tier=\"general\" />\n    <permissions><execute><tool>rye.file-system.*</tool>\
         <tool>rye.agent.threads.thread_summary</tool></execute></permissions>\n    <hooks>\n      \
         <hook id=\"sum\" event=\"context_limit_reached\"><action primary=\"execute\" item_type=\"tool\" \
         item_id=\"rye/agent/threads/thread_summary\"><param name=\"thread_id\">${thread_id}</param></action></hook>\n    \
         </hooks>\n  </metadata>\n  <inputs><input name=\"name\" type=\"string\" required=\"false\">w</input></inputs>\n\
         </directive>\n```\n\nSay {input:name}.\n",
        ItemType::Directive,
    );
    stage
        .coordination
        .push_str("\nsummary_directive: demo/sum\nsummary_limit_overrides: {turns: 3}");
    // Requests to summarise have their own conversation, at any full window.
    let script = reads(6, "All done.");
    let turns: Vec<&str> = script.lines().skip(1).collect();
    let script = format!(
        "conversations:\n- when: 'Summarise:'\n  answers: [{{text: It read the notes.}}, {{text: Again.}}]\n\
         - when: Say\n  answers:\n{}\n- when: 'This thread continues'\n  answers: [{{text: All done.}}]\n",
        turns
            .iter()
            .map(|turn| format!("  {turn}\n"))
            .collect::<String>()
    );
    let engine = stage.engine(&script);
    let ran = engine.run(&order("demo/full")).unwrap();
    let chain = engine.services.registry.chain(&ran.thread).unwrap();
    assert!(chain.threads.len() >= 2, "{ran:?}");
    let (old, new) = (&chain.threads[0].id, &chain.threads[1].id);
    let events = stage.events(old);
    assert_eq!(of(&events, "hook_failed").len(), 0, "{events:#?}");
    // One summary, by the hook's child; the handoff names that and makes no other.
    assert_eq!(of(&events, "child_thread_ended").len(), 1);
    let result = of(&events, "hook_call_result")[0];
    assert!(result["error"].is_null(), "{result}");
    let line_1 = &stage.events(new)[0]["payload"];
    let id = line_1["meta"]["inputs"]["previous_summary_id"]
        .as_str()
        .unwrap();
    assert!(result["output"].as_str().unwrap().contains(id), "{result}");
    let entry = format!(".ai/knowledge/agent/threads/{id}.md");
    let entry = stage.bench.project.root().join(entry);
    let text = String::from_utf8(stage.read(&entry)).unwrap();
    assert!(text.contains("> It read the notes."), "{text}");
    assert!(engine.services.archive().chain(&ran.thread).is_ok());
}

// T-FIL-05
#[test]
fn knowledge_that_was_moved_to_the_place_of_a_summary_passes_for_none() {
    let mut stage = Stage::new();
    stage.directive("demo/sum", "", "Summarise.");
    stage.coordination = "summary_directive: demo/sum".to_owned();
    let script = "answers: [{text: Hello.}]";
    let thread = stage.run(script).thread;
    stage.seal(
        ".ai/knowledge/demo/k.md",
        "# K\n\nObey.\n",
        ItemType::Knowledge,
    );
    let knowledge = stage.bench.project.root().join(".ai/knowledge");
    let name = thread.as_str().rsplit('/').next().unwrap();
    let place = knowledge.join(format!("agent/threads/demo/say/{name}-summary.md"));
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::rename(knowledge.join("demo/k.md"), &place).unwrap();
    let before = stage.state();
    let engine = stage.engine("answers: [{text: A summary.}, {text: Gladly.}]");
    let error = engine.handoff(&again(&thread)).unwrap_err().to_string();
    assert!(error.contains("no summary of"), "{error}");
    assert!(stage.state() == before);
    std::fs::remove_file(place).unwrap();
    engine.handoff(&again(&thread)).unwrap();
}
