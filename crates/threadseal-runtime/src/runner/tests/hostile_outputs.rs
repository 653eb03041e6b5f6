//! Outputs of models and tools: lines that look like seals, and numbers that no sum holds.

use crate::testing::prelude::*;
use threadseal_formats::document::{Options, verify};

// T-TOL-15
#[test]
fn a_thread_reads_sealed_files_and_lines_like_seals_and_ends_well() {
    let scene = Scene::new().signed();
    let claims = ["# ", "// ", "<!-- "]
        .map(|open| format!("{open}threadseal:signed:1-x\n"))
        .concat();
    scene.file("claims.txt", format!("first\n{claims}last"));
    let text = json!(format!("So:\n{claims}and\n```\n{claims}```"));
    let read = |path: &str| {
        format!(
            "- {{text: {text}, calls: [{{tool: rye_file-system_read, input: {{path: {path}}}}}]}}\n"
        )
    };
    let (directive, claims) = (read(".ai/directives/demo/say.md"), read("claims.txt"));
    let ran = scene.run(&format!(
        "answers:\n{directive}{claims}- {{text: {text}}}\n"
    ));
    let ran = ran.completed();
    assert_eq!(ran.warnings, [""; 0]);
    assert_eq!(
        row(&scene.engine(GLADLY), &ran.thread).status,
        Ok(Status::Completed)
    );
    let directive = ThreadId::parse("demo/say").unwrap();
    let entry = scene.project.knowledge_entry(&directive, &ran.thread);
    scene.text(&entry).has("\n # threadseal:signed:1-x\n");
    let now = scene.host.clock.now().unwrap();
    let options = Options::new(DocumentKind::Markdown, &scene.trust, now);
    let report = verify(&scene.read(&entry), &options).unwrap().report;
    assert_eq!(report.verdict, Verdict::Verified, "{report:?}");
    scene.resume(&ran.thread, GLADLY).unwrap().completed();
}

// T-TOL-27
#[test]
fn no_count_of_tokens_is_too_large_to_add() {
    let scene = Scene::new().signed();
    let most = u64::MAX;
    let turn = "calls: [{tool: rye_file-system_read, input: {path: notes.txt}}]";
    let usage = format!("usage: {{input_tokens: {most}, output_tokens: {most}}}");
    let ran = scene.run(&format!(
        "answers:\n- {{text: a, {usage}, {turn}}}\n- {{text: b, {usage}, {turn}}}\n- {{text: c, {usage}}}\n"
    ));
    assert_eq!((ran.cost.tokens(), ran.total().tokens()), (most, most));
}
