//! Threads that resume threads: only from records that verify, whatever other files of the project
//! contain.

use crate::prelude::*;

/// An ended thread, and the answers for its successors.
fn ended() -> (Sandbox, String) {
    let sandbox = project();
    let first = greeted(&sandbox, "");
    (sandbox, first)
}

fn resume(sandbox: &Sandbox, thread: &str, more: &str) -> Ran {
    sandbox.sh(format!("{} {more}", once_more(thread)))
}

/// Every record of the project's threads, and the content of the registry.
fn state(sandbox: &Sandbox) -> (BTreeMap<PathBuf, Vec<u8>>, String) {
    let mut files = BTreeMap::new();
    let mut folders = vec![sandbox.path("p/.ai/agent/threads/demo")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    (files, sandbox.ok("thread list --project p --json").stdout)
}

#[test]
fn a_resumed_thread_gets_the_conversation_and_both_records_name_each_other() {
    let (sandbox, first) = ended();
    let ran = resume(&sandbox, &first, "--json").exits(0).json();
    assert_eq!(ran["result"], "Gladly.");
    let second = ran["thread_id"].text();
    // The id of the first thread leads to the end of its chain, and the third thread gets both
    // conversations.
    sandbox.write("more.yaml", "answers: [{when: Once more., text: Again.}]");
    let third = resume(&sandbox, &first, "--json").exits(0).json();
    sandbox.ok("verify p");
    let shown = sandbox.json(format!("thread chain {second} --project p"));
    let chain: Vec<&str> = shown["chain"].texts("thread_id");
    assert_eq!(chain, [first.as_str(), second, third["thread_id"].text()]);
    assert_eq!(shown["chain"][1]["status"], "continued");
    let folder = |id: &str| sandbox.path("p/.ai/agent/threads").join(id);
    let meta = json_file(folder(&first).join("thread.json"));
    assert_eq!(meta["status"], "continued");
    let lines = |id: &str| json_lines(folder(id).join("transcript.jsonl"));
    let (old, new) = (lines(&first), lines(second));
    let is_link = |event: &Value| event["event_type"] == "thread_resumed";
    let link = old.iter().rposition(is_link).unwrap();
    assert_eq!(
        old[link + 1]["payload"]["seal"]["ext"]["successor"],
        new[0]["payload"]["record"]
    );
    let named = new[0]["payload"]["predecessor"].text();
    assert!(named.starts_with(old[0]["payload"]["record"].text()));
    // The user's message; four answers with a result each.
    assert_eq!(new[0]["payload"]["meta"]["inherited_messages"], 9);
    let third = &lines(third["thread_id"].text())[0]["payload"];
    assert_eq!(third["meta"]["inherited_messages"], 11);
}

#[test]
fn a_thread_is_handed_over_by_command_and_all_that_it_leaves_verifies() {
    let (sandbox, first) = ended();
    let hand_over = |thread: &str, more: &str| {
        let own = format!("thread handoff {thread} --project p --script more.yaml");
        sandbox.sh(format!("{own} {more}"))
    };
    let ran = hand_over(&first, "-m 'Once more.' --json").exits(0).json();
    assert_eq!(ran["result"], "Gladly.");
    sandbox.ok("verify p");
    sandbox
        .ok(format!("thread chain {first} --project p"))
        .prints(ran["thread_id"].text());
    // Without a message the model is asked to continue.
    sandbox.write(
        "more.yaml",
        "answers: [{when: Go on with the directive, text: I go on.}]",
    );
    assert_eq!(
        hand_over(&first, "--json").exits(0).json()["result"],
        "I go on."
    );
    hand_over("demo/none-1", "").fails_with("demo/none-1");
    sandbox
        .sh(format!(
            "thread adopt {first} --project p --script more.yaml"
        ))
        .fails_with("resumed without adoption");
}

// T-RUN-01
#[test]
fn no_record_that_does_not_verify_is_resumed_and_nothing_changes() {
    let (sandbox, first) = ended();
    let folder = sandbox.path("p/.ai/agent/threads").join(&first);
    let child = transcript(&sandbox, "child");
    let transcript = folder.join("transcript.jsonl");
    let meta = folder.join("thread.json");
    let text = read(&transcript);
    let signed = read(&meta);
    let half: String = text.split_inclusive('\n').take(9).collect();
    let stripped: String = text
        .split_inclusive('\n')
        .filter(|line| !line.contains("\"checkpoint\""))
        .collect();
    let event = text.lines().nth(3).unwrap();
    for (attack, path, bytes) in [
        (
            "edit an answer",
            &transcript,
            text.replace("I write it.", "I rob it."),
        ),
        ("cut", &transcript, half),
        ("strip the seals", &transcript, stripped),
        ("add an event", &transcript, format!("{text}{event}")),
        ("another thread's", &transcript, read(child)),
        (
            "add a capability",
            &meta,
            signed.replace("tool.demo.count", "tool.*"),
        ),
        (
            "strip the signature",
            &meta,
            signed.replace("_signature", "_signatur"),
        ),
    ] {
        while_it_holds(path, bytes, || {
            let before = state(&sandbox);
            let ran = resume(&sandbox, &first, "").fails();
            assert!(state(&sandbox) == before, "{attack}: something changed");
            assert!(!ran.stderr.is_empty(), "{attack}");
        });
    }
    resume(&sandbox, &first, "").exits(0);
}

// T-RUN-05
#[test]
fn a_continuation_directive_that_does_not_verify_is_refused() {
    let (sandbox, first) = ended();
    let text =
        include_str!("../../../../threadseal-runtime/builtin/directives/rye/agent/continuation.md");
    let path = sandbox.write("p/.ai/directives/rye/agent/continuation.md", text);
    let before = state(&sandbox);
    resume(&sandbox, &first, "").exits(2);
    assert!(state(&sandbox) == before);
    sandbox.ok(format!("seal -q {path:?}"));
    resume(&sandbox, &first, "").exits(0);
}

#[test]
fn an_unknown_thread_is_not_resumed() {
    let (sandbox, first) = ended();
    resume(&sandbox, "demo/none-1", "").fails_with("demo/none-1");
    resume(&sandbox, "../x", "").exits(2);
    let listed = sandbox.ok("thread list --project p --status completed");
    assert_eq!(listed.stdout.lines().count(), 2, "{}", listed.stdout);
    listed.prints(&first);
    sandbox.exits(2, "thread list --project p --status gone");
    sandbox.exits(2, "thread show demo/none-1 --project p");
}

#[test]
fn a_thread_is_found_by_its_text_until_its_entry_is_changed() {
    let (sandbox, first) = ended();
    let search = || sandbox.sh("knowledge search write it. --project p --json");
    let found = search().exits(0).json();
    let id = found["hits"][0]["id"].text();
    assert!(id.starts_with("agent/threads/demo/greet/greet-"), "{found}");
    assert!(id.ends_with(first.rsplit('/').next().unwrap()));
    let path = sandbox.path("p/.ai/knowledge").join(format!("{id}.md"));
    let entry = read(&path);
    for part in [
        "status: completed",
        "## Input \u{2014} Turn 1",
        "### Tool: rye_file-system_write",
        "**Completed** -- 4 turns",
    ] {
        entry.has(part);
    }
    fs::write(&path, entry.replace("I write it.", "I rob it, write it.")).unwrap();
    assert_eq!(search().exits(1).json()["hits"][0]["verdict"], "tampered");
    sandbox.exits(2, "knowledge search nowhere --project p");
}

// T-RUN-22
#[test]
fn a_killed_thread_is_ended_honestly_and_its_open_call_is_named() {
    let sandbox = project();
    let write = "{tool: rye_file-system_write, input: {path: out.txt, content: Hello}}";
    let running = running(&sandbox, &format!("- {{calls: [{write}]}}\n"), 2);
    let (folder, id) = (running.folder.clone(), running.thread.clone());
    let recover = || sandbox.sh(format!("thread recover {id} --project p --json"));
    recover().exits(2);
    drop(running);
    resume(&sandbox, &id, "").fails_with("running");
    // Anyone who can write the file can add lines after the last seal; none of them counts.
    let path = folder.join("transcript.jsonl");
    let mut text = read(&path);
    let start = text.rfind("\"call_id\":\"").unwrap() + 11;
    let call = text[start..].split('"').next().unwrap().to_owned();
    for (kind, payload) in [
        (
            "tool_call_result",
            json!({"call_id": call, "output": "done"}),
        ),
        ("thread_completed", json!({})),
    ] {
        let line =
            json!({"timestamp": 1.5, "thread_id": id, "event_type": kind, "payload": payload});
        text.push_str(&format!("{line}\n"));
    }
    fs::write(&path, text).unwrap();
    let recovered = recover().exits(0).json();
    assert_eq!(recovered["status"], "error");
    let open = recovered["unresolved"].list();
    assert_eq!(
        (open.len(), &open[0]["item_id"]),
        (1, &"demo/count".into()),
        "{recovered}"
    );
    sandbox.ok(format!("verify {:?}", folder.join("transcript.jsonl")));
    sandbox
        .ok(format!("thread status {id} --project p"))
        .prints("error");
    recover().exits(2);
    let ran = resume(&sandbox, &id, "--json").exits(0).json();
    assert_eq!(ran["result"], "Gladly.");
}

fn registry(sandbox: &Sandbox) -> rusqlite::Connection {
    rusqlite::Connection::open(sandbox.path("p/.ai/agent/threads/registry.db")).unwrap()
}

// T-REG-01
#[test]
fn the_registry_counts_of_a_chain_only_as_far_as_records_agree() {
    let attacks = [
        "UPDATE threads SET directive = 'demo/child' WHERE thread_id LIKE 'demo/greet%'",
        "UPDATE threads SET parent_id = NULL WHERE thread_id LIKE 'demo/child%'",
        "UPDATE threads SET parent_id = thread_id WHERE thread_id LIKE 'demo/child%'",
        "UPDATE threads SET status = 'continued', continuation_thread_id = \
         (SELECT thread_id FROM threads WHERE thread_id LIKE 'demo/child%') WHERE thread_id LIKE 'demo/greet%'",
    ];
    for attack in attacks {
        let (sandbox, first) = ended();
        let child = thread(&sandbox, "child");
        let child = thread_id(&child);
        registry(&sandbox).execute(attack, []).unwrap();
        let resumed = if attack.contains("parent_id") {
            &child
        } else {
            &first
        };
        let ran = resume(&sandbox, resumed, "--json");
        if attack.contains("directive =") {
            // The directive comes from the record, whatever the registry contains.
            let again = ran.exits(0).json();
            assert!(
                again["thread_id"].text().starts_with("demo/greet-"),
                "{again}"
            );
        } else {
            assert_eq!(ran.code, 2, "{attack}: {}", ran.stdout);
        }
    }
}

// T-REG-01
#[test]
fn a_continued_thread_is_not_forked_by_an_older_registry() {
    let (sandbox, first) = ended();
    resume(&sandbox, &first, "").exits(0);
    registry(&sandbox)
        .execute(
            "UPDATE threads SET status = 'completed', continuation_thread_id = NULL WHERE thread_id = ?1",
            [&first],
        )
        .unwrap();
    sandbox.write("more.yaml", "answers: [{text: Twice.}]");
    resume(&sandbox, &first, "").exits(2);
}

// T-REG-01
#[test]
fn a_resumed_child_keeps_its_parent_and_what_that_left_it() {
    let (sandbox, _) = ended();
    let child = thread(&sandbox, "child");
    let id = thread_id(&child);
    let ran = resume(&sandbox, &id, "--json").exits(0).json();
    let first = |folder: &Path| -> Value { json_lines(folder.join("transcript.jsonl")).remove(0) };
    let successor = sandbox
        .path("p/.ai/agent/threads")
        .join(ran["thread_id"].text());
    assert_eq!(
        first(&successor)["payload"]["parent"],
        first(&child)["payload"]["parent"]
    );
    assert!(first(&child)["payload"]["parent"].is_string());
}

#[test]
fn a_row_that_contradicts_signed_metadata_is_named() {
    let (sandbox, first) = ended();
    let inspect = || sandbox.sh("thread inspect --project p");
    inspect().exits(0);
    for (sql, code) in [
        (
            "UPDATE threads SET status = 'error' WHERE thread_id = ?1",
            "status_mismatch",
        ),
        (
            "UPDATE threads SET status = 'completed', directive = 'demo/child' WHERE thread_id = ?1",
            "directive_mismatch",
        ),
    ] {
        registry(&sandbox).execute(sql, [&first]).unwrap();
        inspect().exits(1).prints(code).prints(&first);
    }
    let meta = sandbox
        .path("p/.ai/agent/threads")
        .join(&first)
        .join("thread.json");
    let text = read(&meta);
    fs::write(&meta, text.replace("completed", "cancelled")).unwrap();
    inspect().exits(1).prints("metadata_refused");
}

// T-REG-08
#[test]
fn a_row_with_another_cost_is_named_and_recovered_by_the_record() {
    let (sandbox, first) = ended();
    let inspect = || sandbox.sh("thread inspect --project p");
    let row = || -> (i64, i64, String, String) {
        let select = "SELECT turns, input_tokens, status, result FROM threads WHERE thread_id = ?1";
        let read =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        registry(&sandbox)
            .query_row(select, [&first], read)
            .unwrap()
    };
    let before = row();
    assert_ne!(before.0, 0);
    let zero = "turns = 0, input_tokens = 0, output_tokens = 0, spend = 0.0";
    for more in ["", ", status = 'running', result = NULL"] {
        let sql = format!("UPDATE threads SET {zero}{more} WHERE thread_id = ?1");
        registry(&sandbox).execute(&sql, [&first]).unwrap();
        inspect().exits(1).prints("cost_mismatch").prints(&first);
        let recover = format!("thread recover {first} --project p");
        assert_eq!(sandbox.ok(&recover).stdout, format!("completed  {first}\n"));
        inspect().exits(0);
        let after = row();
        assert_eq!(
            (after.0, after.1, &after.2),
            (before.0, before.1, &before.2)
        );
        let result = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for member in ["success", "thread_id", "status", "result", "cost", "head"] {
            let (before, after) = (result(&before.3), result(&after.3));
            assert_eq!(before[member], after[member], "{member}");
        }
        sandbox.sh(&recover).fails_with("nothing to recover");
    }
}

// T-REG-09
#[test]
fn a_missing_registry_is_reported_and_rebuilt_from_records_alone() {
    let (sandbox, first) = ended();
    let ran = resume(&sandbox, &first, "--json").exits(0).json();
    let second = ran["thread_id"].text();
    let child = thread(&sandbox, "child");
    let child = thread_id(&child);
    let inspect = || sandbox.sh("thread inspect --project p");
    let listed = || {
        let mut rows = sandbox.json("thread list --project p")["threads"].take();
        for row in rows.as_array_mut().unwrap() {
            for member in ["updated_at", "completed_at", "created_at", "pid"] {
                row[member].take();
            }
        }
        let rows = rows.as_array_mut().unwrap();
        rows.sort_by_key(|row| row["thread_id"].to_string());
        rows.clone()
    };
    inspect().exits(0);
    let before = listed();
    assert_eq!(before.len(), 3);
    let folder = sandbox.path("p/.ai/agent/threads");
    for name in ["registry.db", "registry.db-wal", "registry.db-shm"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let told = inspect().exits(1).stdout;
    assert_eq!(told.matches("row_missing").count(), 3, "{told}");
    let transcript = folder.join(&first).join("transcript.jsonl");
    let whole = read(&transcript);
    fs::write(&transcript, whole.replace("I write it.", "I rob it.")).unwrap();
    let recover = |id: &str| sandbox.sh(format!("thread recover {id} --project p"));
    recover(&first).exits(1);
    assert!(!folder.join("registry.db").exists());
    fs::write(&transcript, whole).unwrap();
    for id in [second, &child, &first] {
        let said = recover(id).exits(0).stdout;
        let status = if id == first {
            "continued"
        } else {
            "completed"
        };
        assert_eq!(said, format!("{status}  {id}\n"));
    }
    inspect().exits(0);
    assert_eq!(listed(), before);
    sandbox.write("more.yaml", "answers: [{text: Again.}]");
    resume(&sandbox, &first, "").exits(0);
    inspect().exits(0);
}

// T-REG-18
#[test]
fn a_ledger_of_budgets_that_is_gone_is_reported_for_each_thread() {
    let (sandbox, first) = ended();
    resume(&sandbox, &first, "").exits(0);
    sandbox.ok("thread inspect --project p");
    let folder = sandbox.path("p/.ai/agent/threads");
    for name in [
        "budget_ledger.db",
        "budget_ledger.db-wal",
        "budget_ledger.db-shm",
    ] {
        let _ = fs::remove_file(folder.join(name));
    }
    let told = sandbox.sh("thread inspect --project p").exits(1).stdout;
    assert_eq!(told.matches("budget_missing").count(), 3, "{told}");
    assert!(!folder.join("budget_ledger.db").exists());
}
