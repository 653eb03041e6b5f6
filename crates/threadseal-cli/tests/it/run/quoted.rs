//! A model's output that looks like a record is only a text in a sealed file.

use crate::prelude::*;

// T-TOL-13
#[test]
fn an_entry_that_quotes_a_transcript_is_verified_as_the_text_that_it_is() {
    let sandbox = project();
    let rye = r#"{"event_type":"checkpoint","payload":{}}"#;
    let native =
        r#"{"event_type":"checkpoint","payload":{"seal":{"note":"threadseal/1/transcript/x"}}}"#;
    let said = json!(format!(
        "I read:\n\n{rye}\n{native}\n\n```\n{rye}\n{native}\n```\n"
    ));
    sandbox.write(
        "quotes.yaml",
        format!(
            "answers:\n- {{text: {said}, calls: [{{tool: directive_return, \
                                          input: {{path: out.txt}}}}]}}\n"
        ),
    );
    greeted(&sandbox, "--script quotes.yaml");
    sandbox.ok("verify p");
    // A file with a damaged seal may not be skipped.
    let entries = sandbox.path("p/.ai/knowledge/agent/threads/demo/greet");
    let entry = fs::read_dir(entries)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let sealed = read(&entry);
    sealed.has(rye).has(native);
    fs::write(&entry, sealed.replace("I read:", "I wrote:")).unwrap();
    sandbox.exits(1, "verify p");
    sandbox.exits(1, format!("verify {entry:?}"));
}
