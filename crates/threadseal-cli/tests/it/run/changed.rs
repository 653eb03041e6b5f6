//! Files of a running thread that a tool changes behind its back.

use crate::prelude::*;

// T-RUN-42
#[test]
fn a_tool_that_edits_the_papers_of_its_thread_is_told_and_all_that_is_left_verifies() {
    let sandbox = project();
    let edits = "for file in .ai/agent/threads/demo/greet-*/thread.json; \
                 do sed -i s/running/suspended/ $file; done; sleep 1";
    sandbox.sealed(
        "p/.ai/tools/demo/count.yaml",
        format!("tool_type: command\ncommand: [/bin/sh, -c, '{edits}']\n"),
    );
    let answers = "answers:\n- {calls: [{tool: demo_count}]}\n\
                   - {calls: [{tool: directive_return, input: {path: x}}]}\n";
    sandbox.write("edits.yaml", answers);
    let ran = greet(&sandbox, "--script edits.yaml --no-progress").exits(0);
    let ran = ran.warns("thread.json was changed by another program; its bytes are kept as");
    assert_eq!(
        ran.stderr.matches("was changed").count(),
        1,
        "{}",
        ran.stderr
    );
    let folder = thread(&sandbox, "greet");
    let kept = walk(&folder).into_iter();
    let mut kept = kept.filter(|path| name_of(path).starts_with("thread.json.changed-"));
    let kept = kept.next().unwrap();
    read(&kept).has("suspended");
    sandbox.ok("verify p");
    // Its name vouches for nothing else.
    replace(&kept, "suspended", "forgotten");
    sandbox.exits(1, "verify p");
}
