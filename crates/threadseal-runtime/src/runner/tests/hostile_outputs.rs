//! Outputs of models and tools: lines that look like seals, and numbers that no sum holds.

use super::stage::{Stage, again};
use crate::status::Status;
use serde_json::json;
use threadseal_core::report::Verdict;
use threadseal_formats::document::{DocumentKind, Options, verify};

// T-TOL-15
#[test]
fn a_thread_reads_sealed_files_and_lines_like_seals_and_ends_well() {
    let stage = Stage::new();
    let claims = ["# ", "// ", "<!-- "]
        .map(|open| format!("{open}threadseal:signed:1-x\n"))
        .concat();
    stage.write("claims.txt", format!("first\n{claims}last").as_bytes());
    let said = json!(format!("So:\n{claims}and\n```\n{claims}```"));
    let read = |path: &str| {
        format!(
            "- {{text: {said}, calls: [{{tool: rye_file-system_read, input: {{path: {path}}}}}]}}\n"
        )
    };
    let script = format!(
        "answers:\n{}{}- {{text: {said}}}\n",
        read(".ai/directives/demo/say.md"),
        read("claims.txt")
    );
    let ran = stage.run(&script);
    assert_eq!(ran.status, Status::Completed, "{:?}", ran.error);
    assert!(ran.warnings.is_empty(), "{:?}", ran.warnings);
    let engine = stage.engine(&script);
    let row = engine.services.registry.get(&ran.thread).unwrap().unwrap();
    assert_eq!(row.status, Ok(Status::Completed));
    let directive = threadseal_core::record::ThreadId::parse("demo/say").unwrap();
    let entry = stage.bench.project.knowledge_entry(&directive, &ran.thread);
    let bytes = stage.read(&entry);
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains("\n # threadseal:signed:1-x\n"), "{text}");
    let now = stage.bench.host.clock.now().unwrap();
    let options = Options::new(DocumentKind::Markdown, &stage.bench.trust, now);
    let report = verify(&bytes, &options).unwrap().report;
    assert_eq!(report.verdict, Verdict::Verified, "{report:?}");
    let gone_on = stage
        .engine("answers: [{text: Gladly.}]")
        .resume(&again(&ran.thread));
    assert_eq!(gone_on.unwrap().status, Status::Completed);
}

// T-TOL-27
#[test]
fn no_count_of_tokens_is_too_large_to_add() {
    let stage = Stage::new();
    let most = u64::MAX;
    let turn = "calls: [{tool: rye_file-system_read, input: {path: notes.txt}}]";
    let usage = format!("usage: {{input_tokens: {most}, output_tokens: {most}}}");
    let ran = stage.run(&format!(
        "answers:\n- {{text: a, {usage}, {turn}}}\n- {{text: b, {usage}, {turn}}}\n- {{text: c, {usage}}}\n"
    ));
    assert_eq!(ran.cost.tokens(), most);
    assert_eq!(ran.total().tokens(), most);
}
