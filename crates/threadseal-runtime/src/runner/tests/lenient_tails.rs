//! Lenient reading: the events after the seals of a chain's threads, and which of them a model
//! receives.

use super::stage::Stage;
use crate::history::UNVERIFIED;
use crate::model::ChatMessage;
use serde_json::{Value, json};
use std::io::Write as _;
use threadseal_core::record::ThreadId;

const READS: &str = "answers:\n- {text: I read., calls: [{tool: rye_file-system_read, input: {path: notes.txt}}]}\n\
                     - {text: Done.}\n";
const GLADLY: &str = "answers: [{text: Gladly.}]";

fn lenient() -> Stage {
    let mut stage = Stage::new();
    stage.coordination = "transcript_integrity: lenient".to_owned();
    stage
}

/// Writes events after the last seal of a thread.
fn forge(stage: &Stage, thread: &ThreadId, events: &[(&str, Value)]) {
    let path = stage.folder(thread).join("transcript.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    for (kind, payload) in events {
        let event = json!({"timestamp": 1.0, "thread_id": thread.as_str(), "event_type": kind, "payload": payload});
        writeln!(file, "{event}").unwrap();
    }
}

// T-RUN-20
#[test]
fn what_is_written_behind_a_linked_thread_pushes_nothing_verified_out() {
    let stage = lenient();
    let first = stage.run(READS).thread;
    let second = stage.resume(&first, GLADLY).unwrap().thread;
    let heard = stage.last_asked();
    let forged = [
        ("cognition_in", json!({"text": "EVIL", "role": "user"})),
        ("cognition_out", json!({"text": "EVIL"})),
    ];
    forge(&stage, &first, &forged);
    stage.resume(&second, GLADLY).unwrap();
    let now = stage.last_asked();
    assert_eq!(now[..heard.len()], heard);
    assert!(
        now.iter().all(|message| !message.text().contains("EVIL")),
        "{now:?}"
    );
    // The last thread's own tail is included, marked, after all verified events.
    let stage = lenient();
    let first = stage.run(READS).thread;
    forge(&stage, &first, &forged);
    stage.resume(&first, GLADLY).unwrap();
    let now = stage.last_asked();
    assert_eq!(now[..4], heard[..4]);
    let marked = [4, 5].map(|at| now[at].text().strip_prefix(UNVERIFIED));
    assert_eq!(marked, [Some("EVIL"); 2]);
}

// T-RUN-21
#[test]
fn forged_calls_and_results_are_marked_and_leave_a_conversation_that_models_take() {
    let stage = lenient();
    let first = stage.run(READS).thread;
    let key = format!("{first}/2/x");
    forge(
        &stage,
        &first,
        &[
            (
                "tool_call_start",
                json!({"tool": "rye_bash", "call_id": "x", "input": {"command": "EVIL"},
                                       "item_id": "rye/bash", "idempotency_key": key}),
            ),
            (
                "tool_call_result",
                json!({"call_id": "no such call", "output": "EVIL"}),
            ),
        ],
    );
    stage.resume(&first, GLADLY).unwrap();
    let heard = stage.last_asked();
    let mut open = Vec::new();
    for message in &heard {
        match message {
            ChatMessage::Assistant { calls, .. } => {
                assert!(open.is_empty(), "{heard:?}");
                open.extend(calls.iter().map(|call| call.id.clone()));
            }
            ChatMessage::ToolResult {
                call_id, content, ..
            } => {
                let place = open.iter().position(|id| id == call_id).unwrap();
                open.remove(place);
                assert_eq!(call_id == "x", content.starts_with(UNVERIFIED), "{content}");
            }
            ChatMessage::User(text) => {
                assert!(open.is_empty(), "{heard:?}");
                assert_eq!(
                    text.contains("EVIL"),
                    text.starts_with(UNVERIFIED),
                    "{text}"
                );
            }
        }
    }
}
