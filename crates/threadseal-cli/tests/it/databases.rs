//! Sessions in databases: OpenCode's, `LangGraph`'s, those of the Agents SDK.

use crate::hook::{Watcher, hook, troubles, wait_until};
use crate::prelude::*;
use rusqlite::Connection;

const SESSION: &str = "ses_1";
const TABLES: &str = "
PRAGMA journal_mode = wal;
CREATE TABLE session(id text PRIMARY KEY, project_id text, parent_id text, directory text NOT NULL, title text,
  time_created integer, time_updated integer);
CREATE TABLE message(id text PRIMARY KEY, session_id text NOT NULL, time_created integer, time_updated integer, data text NOT NULL);
CREATE TABLE part(id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer,
  time_updated integer, data text NOT NULL);
CREATE INDEX part_session_idx ON part(session_id);
CREATE TABLE todo(session_id text, content text, status text, position integer, PRIMARY KEY(session_id, position));
CREATE TABLE event_sequence(aggregate_id text PRIMARY KEY, seq integer NOT NULL);
CREATE TABLE credential(id text PRIMARY KEY, value text);
INSERT INTO credential VALUES ('c', 'the secret');
";

/// OpenCode's database in a sandbox.
struct OpenCode {
    path: PathBuf,
    connection: Connection,
}

impl OpenCode {
    fn new(sandbox: &Sandbox, name: &str) -> Self {
        let path = sandbox.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(TABLES).unwrap();
        Self { path, connection }
    }

    fn sql(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }

    fn session(&self, id: &str) {
        self.sql(&format!(
            "INSERT INTO session VALUES ('{id}', 'global', NULL, '/w/api', 'a title', 1, 1);
             INSERT INTO event_sequence VALUES ('{id}', 0);"
        ));
    }

    /// One prompt, and one answer with a call.
    fn turn(&self, session: &str, number: u64, words: &str) {
        let time = 1_795_718_953_000 + i64::try_from(number).unwrap() * 10;
        let (user, agent) = (
            format!("msg_{session}_{number}a"),
            format!("msg_{session}_{number}b"),
        );
        let message = |id: &str, time: i64, data: Value| {
            let sql = "INSERT INTO message VALUES (?1, ?2, ?3, ?3, ?4)";
            let values = rusqlite::params![id, session, time, data.to_string()];
            self.connection.execute(sql, values).unwrap();
        };
        let part = |id: String, of: &str, data: Value| {
            let sql = "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?4, ?5)";
            let values = rusqlite::params![id, of, session, time, data.to_string()];
            self.connection.execute(sql, values).unwrap();
        };
        message(
            &user,
            time,
            json!({"role": "user", "time": {"created": time}}),
        );
        part(
            format!("prt_{session}_{number}a"),
            &user,
            json!({"type": "text", "text": words}),
        );
        message(
            &agent,
            time + 1,
            json!({"role": "assistant", "modelID": "none", "providerID": "local", "time": {"created": time + 1},
                "tokens": {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}}),
        );
        part(
            format!("prt_{session}_{number}b"),
            &agent,
            json!({"type": "tool", "tool": "bash", "callID": format!("call_{number}"),
                "state": {"status": "completed", "input": {"command": "ls"}, "output": format!("output {number}")}}),
        );
        self.sql(&format!(
            "UPDATE session SET time_updated = {time} WHERE id = '{session}';
             UPDATE event_sequence SET seq = seq + 4 WHERE aggregate_id = '{session}'"
        ));
    }

    /// The bytes of its files.
    fn files(&self) -> [Vec<u8>; 3] {
        let path = self.path.to_str().unwrap();
        ["", "-wal", "-shm"].map(|ending| fs::read(format!("{path}{ending}")).unwrap())
    }

    fn payload(&self, session: Option<&str>, event: &str) -> String {
        json!({"session_id": session, "database": self.path, "cwd": "/w", "hook_event_name": event})
            .to_string()
    }
}

/// The logs of rows in a home.
fn logs(sandbox: &Sandbox) -> Vec<PathBuf> {
    let files = walk(&sandbox.home().join("exports")).into_iter();
    files
        .filter(|file| file.extension() == Some(OsStr::new("jsonl")))
        .collect()
}

fn listed(sandbox: &Sandbox) -> Value {
    sandbox.json("list")["sessions"].clone()
}

fn state(sandbox: &Sandbox) -> String {
    listed(sandbox)[0]["state_text"].text().to_owned()
}

// T-CAP-67 T-CAP-63
#[test]
fn a_hook_seals_the_session_of_a_database_and_all_commands_know_it() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "list the frobnicators");
    let before = agent.files();
    hook(
        &sandbox,
        "opencode",
        &agent.payload(Some(SESSION), "session.idle"),
    );
    assert!(troubles(&sandbox).is_empty(), "{:?}", troubles(&sandbox));
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
    assert!(agent.files() == before, "no byte of the agent's files");
    listed(&sandbox)[0].is(json!({
        "id": "opencode:ses_1", "project": "/w/api", "turns": 2, "tools": 1, "tokens": 15, "model": "none", "state": "verified",
    }));
    sandbox.ok("show ses_1").prints("frobnicators");
    sandbox.ok("search frobnicators").prints("ses_1");
    sandbox.ok("prove ses_1#0 --out turn.proof");
    sandbox.ok("check-proof turn.proof");
    sandbox.ok("export ses_1 out");
    assert_eq!(sandbox.verdict("verify out/ses_1.jsonl"), "verified");
    sandbox.ok("diff ses_1 out/ses_1.jsonl");
    assert!(!read(&logs(&sandbox)[0]).contains("the secret"));
    // More turns are a tail, until the next hook.
    agent.turn(SESSION, 2, "and again");
    assert_eq!(sandbox.verdict("verify opencode:ses_1"), "unsigned_tail");
    hook(
        &sandbox,
        "opencode",
        &agent.payload(Some(SESSION), "tool.execute.after"),
    );
    assert_eq!(sandbox.verdict("verify opencode:ses_1"), "verified");
    assert_eq!(listed(&sandbox)[0]["turns"], 4);
    // An edit is named, with what is known about it.
    agent.sql(
        "UPDATE part SET data = replace(data, 'output 1', 'output 9') WHERE id = 'prt_ses_1_1b'",
    );
    let report = sandbox.report("verify oc/opencode.db");
    report.is(json!({"verdict": "partial", "findings/0/code": "row_changed"}));
    let message = report["findings"][0]["message"].text();
    message.has("row [\"prt_ses_1_1b\"] of table part changed after seal 1");
    message.has("its time_updated did not");
    assert!(
        state(&sandbox).contains("prt_ses_1_1b"),
        "{}",
        state(&sandbox)
    );
    assert_eq!(sandbox.verdict("verify --all"), "partial");
    agent.sql("DELETE FROM part WHERE id = 'prt_ses_1_1b'");
    sandbox
        .report("verify oc/opencode.db")
        .is(json!({"verdict": "partial", "findings/0/code": "row_gone"}));
    sandbox.exits(3, "verify oc/opencode.db");
    // The next state has the row before and that it is gone, both under seals.
    hook(
        &sandbox,
        "opencode",
        &agent.payload(Some(SESSION), "dispose"),
    );
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
    let log = read(&logs(&sandbox)[0]);
    log.has("output 1")
        .has("\"key\":[\"prt_ses_1_1b\"],\"gone\":true}");
}

// T-CAP-64 T-CAP-68
#[test]
fn a_database_that_went_back_or_is_gone_is_reported_and_its_sessions_stay() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "first words");
    sandbox.ok("archive add oc");
    agent.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let older = fs::read(&agent.path).unwrap();
    agent.turn(SESSION, 2, "later words");
    sandbox.ok("archive add oc");
    let path = agent.path.clone();
    let payload = agent.payload(Some(SESSION), "session.idle");
    drop(agent);
    fs::write(&path, &older).unwrap();
    sandbox
        .report("verify oc/opencode.db")
        .is(json!({"verdict": "rolled_back", "findings/0/code": "database_older"}));
    hook(&sandbox, "opencode", &payload);
    troubles(&sandbox).pop().unwrap()["why"]
        .text()
        .has("older than what was sealed");
    sandbox.ok("show ses_1").prints("later words");
    sandbox.exits(3, "archive add oc");
    sandbox.ok("archive add --restored oc");
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
    // Its agent deletes the session, and then its folder.
    let agent = Connection::open(&path).unwrap();
    agent.execute_batch("DELETE FROM part; DELETE FROM message; DELETE FROM session; DELETE FROM event_sequence").unwrap();
    hook(&sandbox, "opencode", &payload);
    assert_eq!(
        state(&sandbox),
        "archived (gone from the database), verified"
    );
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
    drop(agent);
    fs::remove_dir_all(sandbox.path("oc")).unwrap();
    assert_eq!(sandbox.verdict("verify opencode:ses_1"), "verified");
    sandbox.ok("show ses_1").prints("first words");
    // And a person removes the exports of the home.
    fs::remove_dir_all(sandbox.home().join("exports")).unwrap();
    assert_eq!(sandbox.verdict("verify opencode:ses_1"), "verified");
    assert_eq!(state(&sandbox), "archived (source gone), verified");
}

#[test]
fn exports_that_a_person_removed_are_restored_from_the_archive() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "first words");
    sandbox.ok("archive add oc");
    fs::remove_dir_all(sandbox.home().join("exports")).unwrap();
    agent.turn(SESSION, 2, "later words");
    sandbox.ok("archive add oc");
    let report = sandbox.report("verify oc/opencode.db");
    report.is(json!({"verdict": "verified", "stats/checkpoints": 2}));
}

// T-CAP-69
#[test]
fn what_cannot_be_sealed_is_a_trouble_and_no_tool_runs_under_strict() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    let strict = |payload: &str| hook(&sandbox, "opencode --strict", payload);
    let denied = |answer: &str, why: &str| {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let answer = &answer["hookSpecificOutput"];
        assert_eq!(answer["permissionDecision"], "deny");
        answer["permissionDecisionReason"].text().has(why);
        troubles(&sandbox).pop().unwrap()["why"].text().has(why);
    };
    assert_eq!(strict(&agent.payload(Some(SESSION), "PreToolUse")), "");
    assert_eq!(strict(&agent.payload(None, "PreToolUse")), "");
    denied(
        &strict(&agent.payload(Some("ses_9"), "PreToolUse")),
        "has no session ses_9",
    );
    agent.sql("ALTER TABLE part RENAME COLUMN session_id TO session");
    denied(
        &strict(&agent.payload(Some(SESSION), "PreToolUse")),
        "part has no column session_id",
    );
    let named = |path: &Path| {
        json!({"session_id": SESSION, "database": path, "hook_event_name": "PreToolUse"})
            .to_string()
    };
    sandbox.write("text.db", "no database at all");
    for path in ["absent.db", "text.db", "oc"] {
        denied(&strict(&named(&sandbox.path(path))), path);
    }
    let pipe = sandbox.path("pipe.db");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    denied(&strict(&named(&pipe)), "no regular file");
    agent.sql("ALTER TABLE part RENAME COLUMN session TO session_id");
    assert_eq!(strict(&agent.payload(Some(SESSION), "PreToolUse")), "");
    let left = sandbox.sh("status --json");
    assert!(!left.stdout.contains("has no column"), "{left:?}");
}

// T-CAP-70
#[test]
fn a_link_is_followed_to_one_log_and_databases_with_one_session_id_have_two() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "of one");
    symlink(&agent.path, sandbox.path("link.db")).unwrap();
    hook(
        &sandbox,
        "opencode",
        &agent.payload(Some(SESSION), "session.idle"),
    );
    let payload = json!({"session_id": SESSION, "database": sandbox.path("link.db"), "hook_event_name": "dispose"});
    hook(&sandbox, "opencode", &payload.to_string());
    assert_eq!(sandbox.verdict("verify link.db"), "verified");
    assert_eq!(logs(&sandbox).len(), 1);
    let other = OpenCode::new(&sandbox, "oc2/opencode.db");
    other.session(SESSION);
    other.turn(SESSION, 1, "of another");
    sandbox.ok("archive add oc2");
    assert_eq!(logs(&sandbox).len(), 2);
    let ids: BTreeSet<String> = listed(&sandbox)
        .list()
        .iter()
        .map(|row| row["id"].text().to_owned())
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
    assert_eq!(sandbox.verdict("verify oc2/opencode.db"), "verified");
}

// T-CAP-71
#[test]
fn each_sealed_state_is_one_state_of_a_database_that_its_agent_writes() {
    let sandbox = ready();
    for mode in ["wal", "delete"] {
        let name = format!("{mode}/opencode.db");
        let agent = OpenCode::new(&sandbox, &name);
        agent.sql(&format!("PRAGMA journal_mode = {mode}"));
        agent.session(SESSION);
        let writing = std::thread::spawn(move || {
            agent
                .connection
                .busy_timeout(Duration::from_secs(20))
                .unwrap();
            for number in 0..1000 {
                agent.sql(&format!(
                    "BEGIN IMMEDIATE;
                     INSERT INTO part VALUES ('a{number}', 'm', '{SESSION}', 1, 1, '{{}}');
                     INSERT INTO part VALUES ('b{number}', 'm', '{SESSION}', 1, 1, '{{}}');
                     UPDATE event_sequence SET seq = seq + 2;
                     COMMIT"
                ));
            }
        });
        let mut exports = 0;
        while !writing.is_finished() || exports == 0 {
            // Where the agent never pauses, a reading without locks may be refused; then nothing is sealed.
            let ran = sandbox.sh(format!("archive add {mode}"));
            assert!([0, 3].contains(&ran.code), "{ran:?}");
            exports += 1;
        }
        writing.join().unwrap();
        sandbox.ok(format!("archive add {mode}"));
        assert_eq!(sandbox.verdict(format!("verify {name}")), "verified");
    }
    for log in logs(&sandbox) {
        let (mut pairs, mut states) = (BTreeMap::new(), 0);
        for line in read(&log).lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(rows) = line.get("state") {
                states += 1;
                assert!(pairs.values().all(|count| *count == 2), "{rows}: {pairs:?}");
            } else if line["table"] == "part" {
                *pairs
                    .entry(line["key"][0].text()[1..].to_owned())
                    .or_insert(0) += 1;
            }
        }
        assert_eq!(pairs.len(), 1000);
        assert!(states >= 1, "{states}");
    }
}

// T-CAP-72
#[test]
fn an_export_that_is_killed_at_any_moment_is_completed_by_the_next_one() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    for number in 0..20 {
        for more in 0..20 {
            agent.turn(SESSION, number * 20 + more, &"words ".repeat(200));
        }
        let mut command = sandbox.command();
        let mut child = command
            .args(["archive", "add", "oc"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(number * 7));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    sandbox.ok("archive add oc");
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
    sandbox.ok("verify --all");
    assert_eq!(state(&sandbox), "verified");
    assert_eq!(listed(&sandbox)[0]["turns"], 800);
}

// T-CAP-73
#[test]
fn a_watcher_seals_databases_as_they_change_and_names_those_it_cannot_seal() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "user/.local/share/opencode/opencode.db");
    let watcher = Watcher::start(&sandbox);
    agent.session("ses_2");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "the first words");
    let is_sealed = || {
        let ran = sandbox.run(["verify", "-q", agent.path.to_str().unwrap()]);
        ran.code == 0
    };
    wait_until("the first state is sealed", is_sealed);
    // The change is in the write-ahead log alone.
    agent.turn(SESSION, 2, "in the write-ahead log");
    wait_until("the second state is sealed", is_sealed);
    let seals = |session: &str| {
        let report = sandbox.report(format!("verify opencode:{session}"));
        report["stats"]["checkpoints"].as_u64().unwrap()
    };
    assert!(
        seals(SESSION) >= 2 && seals("ses_2") == 1,
        "only what changed"
    );
    agent.turn(SESSION, 3, "for a hook");
    assert_eq!(
        hook(
            &sandbox,
            "opencode --strict",
            &agent.payload(Some(SESSION), "PreToolUse")
        ),
        ""
    );
    assert!(is_sealed());
    let answer = hook(
        &sandbox,
        "opencode --strict",
        &agent.payload(Some("ses_9"), "PreToolUse"),
    );
    answer.has("deny").has("has no session ses_9");
    agent.sql("ALTER TABLE message RENAME COLUMN data TO body");
    let problems = || {
        sandbox
            .command()
            .args(["status", "--json"])
            .env("HOME", sandbox.path("user"))
            .output()
            .unwrap()
    };
    wait_until("status names it", || {
        let text = String::from_utf8(problems().stdout).unwrap();
        text.contains("message has no column data")
    });
    // A hook whose request is only held does not end the trouble that the watcher has with it.
    let requests = sandbox.home().join("capture/requests.jsonl");
    for _ in 0..2 {
        let payload = agent.payload(Some(SESSION), "session.idle");
        hook(&sandbox, "opencode", &payload);
        wait_until("no request is held", || read(&requests).is_empty());
    }
    let text = String::from_utf8(problems().stdout).unwrap();
    text.has("opencode.db#ses_1");
    agent.sql("ALTER TABLE message RENAME COLUMN body TO data");
    wait_until("it is no trouble any more", || {
        let text = String::from_utf8(problems().stdout).unwrap();
        !text.contains("message has no column data")
    });
    drop(watcher);
}

#[test]
fn a_forgotten_session_leaves_no_export_and_is_not_taken_again() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "oc/opencode.db");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "frobnicators");
    sandbox.ok("archive add oc");
    sandbox.ok("forget ses_1 --yes").warns("opencode.db");
    hook(
        &sandbox,
        "opencode",
        &agent.payload(Some(SESSION), "session.idle"),
    );
    for file in walk(&sandbox.home()) {
        let bytes = fs::read(&file).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("frobnicators"),
            "{file:?}"
        );
    }
    sandbox.ok("verify --all");
    sandbox.ok("archive add --recall oc");
    assert_eq!(sandbox.verdict("verify oc/opencode.db"), "verified");
}

#[test]
fn sessions_of_langgraph_and_the_agents_sdk_are_found_by_content() {
    let Some(folder) = shared("corpus/real-runs/generated-here") else {
        return;
    };
    let sandbox = ready();
    for (name, id, turns) in [
        ("langgraph-1.2.22-sqlitesaver-3.1.2.db", "langgraph:t1", 4),
        (
            "openai-agents-0.24.0-sqlitesession.db",
            "openai-agents:sess1",
            4,
        ),
    ] {
        let bytes = fs::read(folder.join(name)).unwrap();
        fs::create_dir_all(sandbox.path("data")).unwrap();
        fs::write(sandbox.path(format!("data/{name}")), bytes).unwrap();
        sandbox.ok("archive add data");
        assert_eq!(sandbox.verdict(format!("verify data/{name}")), "verified");
        let rows = listed(&sandbox);
        let row = rows
            .list()
            .iter()
            .find(|row| row["id"] == id)
            .unwrap()
            .clone();
        assert_eq!(row["turns"], turns, "{id}");
        sandbox.ok(format!("show {id}"));
    }
    sandbox
        .ok("show langgraph:t1")
        .prints("Done: the probe printed");
    sandbox
        .ok("show openai-agents:sess1")
        .prints("Run the probe");
    let path = sandbox.path("data/openai-agents-0.24.0-sqlitesession.db");
    let changed = "UPDATE agent_messages SET message_data = '{\"role\":\"user\",\"content\":\"x\"}' WHERE id = 1";
    Connection::open(path)
        .unwrap()
        .execute_batch(changed)
        .unwrap();
    let report = sandbox.report("verify openai-agents:sess1");
    report.is(json!({"verdict": "partial"}));
    report["findings"][0]["message"]
        .text()
        .has("row [1] of table agent_messages changed");
}

/// The schema of Goose's version 17, without tables that have no rows of sessions.
const GOOSE: &str = "
PRAGMA journal_mode = wal;
CREATE TABLE sessions(id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, extension_data TEXT DEFAULT '{}', accumulated_input_tokens INTEGER,
  accumulated_output_tokens INTEGER, model_config_json TEXT, parent_session_id TEXT);
CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL REFERENCES sessions(id),
  role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP DEFAULT '2026-11-01 10:00:00',
  tokens INTEGER, metadata_json TEXT);
CREATE TABLE usage_ledger(id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
  model TEXT, input_tokens INTEGER, output_tokens INTEGER);
CREATE TABLE provider_inventory_entries(id TEXT PRIMARY KEY, value TEXT);
INSERT INTO provider_inventory_entries VALUES ('p', 'the secret');
";

fn goose_message(database: &Connection, session: &str, role: &str, content: &Value) {
    let sql = "INSERT INTO messages(session_id, role, content_json, created_timestamp, metadata_json) VALUES (?1, ?2, ?3, 1795718953, '{}')";
    let values = rusqlite::params![session, role, content.to_string()];
    database.execute(sql, values).unwrap();
}

/// A prompt, a call and its result.
fn goose_turn(database: &Connection, session: &str, words: &str) {
    let call = json!([{"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}}}]);
    let result = json!([{"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": {"content": [{"type": "text", "text": "a file"}]}}}]);
    goose_message(
        database,
        session,
        "user",
        &json!([{"type": "text", "text": words}]),
    );
    goose_message(database, session, "assistant", &call);
    goose_message(database, session, "user", &result);
}

// T-CAP-90
#[test]
fn sessions_of_goose_are_rows_and_its_older_lines_are_logs() {
    let sandbox = ready();
    let folder = sandbox.path("user/.local/share/goose/sessions");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sessions.db");
    let goose = Connection::open(&path).unwrap();
    goose.execute_batch(GOOSE).unwrap();
    let session = |id: &str, parent: Option<&str>| {
        let sql = "INSERT INTO sessions(id, working_dir, accumulated_input_tokens, accumulated_output_tokens, parent_session_id) VALUES (?1, '/w/api', 90, 7, ?2)";
        goose.execute(sql, rusqlite::params![id, parent]).unwrap();
    };
    session("20261101_1", None);
    session("20261101_10", None);
    session("20261101_2", Some("20261101_1"));
    goose_turn(&goose, "20261101_1", "list the frobnicators");
    goose_turn(&goose, "20261101_10", "another session");
    goose_turn(&goose, "20261101_2", "for a subagent");
    let old = [
        r#"{"working_dir":"/w/old","description":"d","message_count":1}"#,
        r#"{"role":"user","created":1761000000,"content":[{"type":"text","text":"in older lines"}]}"#,
    ];
    fs::write(folder.join("20251020_1.jsonl"), old.join("\n") + "\n").unwrap();
    let user = sandbox.path("user");
    let watch = || {
        let mut command = sandbox.command();
        command.args(["watch", "--once"]).env("HOME", &user);
        command.output().unwrap()
    };
    assert!(watch().status.success());
    let rows = listed(&sandbox);
    let row = |id: &str| {
        let mut rows = rows.list().iter();
        rows.find(|row| row["id"] == id).unwrap().clone()
    };
    row("goose:20261101_1").is(json!({
        "project": "/w/api", "turns": 3, "tools": 2, "tokens": 194, "sub_agents": 1, "state": "verified",
    }));
    row("goose:20261101_10").is(json!({"turns": 3, "tools": 1, "tokens": 97, "sub_agents": 0}));
    row("goose:20251020_1").is(json!({"project": "/w/old", "turns": 1}));
    sandbox.ok("show 20261101_1").prints("frobnicators");
    sandbox.ok("search frobnicators").prints("20261101_1");
    sandbox.ok("show 20251020_1").prints("in older lines");
    for log in logs(&sandbox) {
        assert!(!read(&log).contains("the secret"));
    }
    let verify = format!("verify {}", path.display());
    let report = |verdict: &str| -> Value {
        let ran = sandbox.sh(format!("{verify} --json"));
        let report = ran.json();
        let verdicts = report["results"].texts("verdict");
        let worst = verdicts.iter().find(|found| **found != "verified");
        assert_eq!(*worst.unwrap_or(&"verified"), verdict, "{report:#}");
        report
    };
    report("verified");
    // An edit, and a row that moves to another session.
    goose
        .execute_batch("UPDATE messages SET content_json = replace(content_json, 'frob', 'blob') WHERE id = 1; UPDATE messages SET session_id = '20261101_10' WHERE id = 2")
        .unwrap();
    let found = report("partial").to_string();
    found.has("row [1] of table messages changed after seal 0");
    found.has("row [2] of table messages is gone since seal 0");
    found.has("1 rows of the database were added");
    // The next state has what was before, and what is now.
    assert!(watch().status.success());
    report("verified");
    sandbox.ok("show 20261101_1").prints("blobnicators");
    sandbox.sh("search frobnicators").stdout.lacks("20261101_1");
    // An older version of its tables is of no kind that is known, and is named.
    goose
        .execute_batch("ALTER TABLE messages RENAME COLUMN content_json TO content")
        .unwrap();
    let ran = watch();
    assert!(!ran.status.success());
    String::from_utf8(ran.stderr)
        .unwrap()
        .has("sessions.db: it is not sealed: its tables are not those of a known goose: messages has no column content_json");
}

// T-CAP-93
#[test]
fn verify_of_a_folder_verifies_its_databases_and_names_those_that_nothing_seals() {
    let sandbox = ready();
    let agent = OpenCode::new(&sandbox, "project/data/opencode.db");
    agent.session(SESSION);
    agent.turn(SESSION, 1, "first words");
    // Nothing was sealed: that accuses no one.
    let ran = sandbox.sh("verify project");
    assert_eq!(ran.code, 2, "{ran:?}");
    ran.stderr
        .has("opencode.db has 1 session without a seal; hint: threadseal archive add");
    assert!(!ran.stdout.contains("unsigned"), "{ran:?}");
    sandbox.ok("archive add project");
    let report = sandbox.report("verify project");
    report.is(json!({"verdict": "verified"}));
    // Other files are passed over as before: this one, and the two beside the database.
    sandbox.write("project/notes.bin", "\u{1}");
    assert_eq!(sandbox.json("verify project")["passed_over"], 3);
    agent.sql("UPDATE part SET data = replace(data, 'output 1', 'output 9')");
    let report = sandbox.report("verify project");
    report.is(json!({"verdict": "partial", "findings/0/code": "row_changed"}));
    // A session that its agent began since is unsigned, and evidence against nothing.
    agent.session("ses_2");
    agent.sql("UPDATE part SET data = replace(data, 'output 9', 'output 1')");
    let ran = sandbox.sh("verify project --json");
    assert_eq!(ran.code, 3, "{ran:?}");
    let report = ran.json();
    let mut verdicts = report["results"].texts("verdict");
    verdicts.sort_unstable();
    assert_eq!(verdicts, ["unsigned", "verified"]);
    // A database of other tables in the same place is no silent pass, either.
    agent.sql("ALTER TABLE message RENAME COLUMN data TO body");
    let report = sandbox.report("verify project");
    report.is(json!({"verdict": "open", "findings/0/code": "database_unread"}));
    // With --all its log is one of the known records, once.
    agent.sql("ALTER TABLE message RENAME COLUMN body TO data");
    let all = sandbox.sh("verify --all project --json").json();
    assert_eq!(all["results"].list().len(), 1, "{all:#}");
}

const CURSOR: &str = "
CREATE TABLE ItemTable(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'the secret');
";

fn bubble(database: &Connection, key: &str, value: &Value) {
    let sql = "INSERT INTO cursorDiskKV VALUES (?1, ?2)";
    let value = value.to_string();
    let values = rusqlite::params![key, value.as_bytes()];
    database.execute(sql, values).unwrap();
}

// T-CAP-95
#[test]
fn sessions_of_cursor_are_rows_of_keys_chats_and_transcripts() {
    let sandbox = ready();
    let user = sandbox.path("user");
    let state_folder = user.join(".config/Cursor/User/globalStorage");
    let chat_folder = user.join(".cursor/chats/hash/chat-1");
    let transcripts = user.join(".cursor/projects/p/agent-transcripts");
    for folder in [
        &state_folder,
        &chat_folder,
        &transcripts.join("t-1/subagents"),
    ] {
        fs::create_dir_all(folder).unwrap();
    }
    let path = state_folder.join("state.vscdb");
    let editor = Connection::open(&path).unwrap();
    editor.execute_batch(CURSOR).unwrap();
    let composer = json!({"composerId": "c1", "name": "n", "fullConversationHeadersOnly":
        [{"bubbleId": "b1", "type": 1}, {"bubbleId": "b2", "type": 2}]});
    bubble(&editor, "composerData:c1", &composer);
    bubble(
        &editor,
        "bubbleId:c1:b1",
        &json!({"type": 1, "bubbleId": "b1", "text": "list the frobnicators"}),
    );
    bubble(
        &editor,
        "bubbleId:c1:b2",
        &json!({"type": 2, "bubbleId": "b2", "text": "two", "tokenCount": {"inputTokens": 8, "outputTokens": 2},
        "toolFormerData": {"toolCallId": "t", "name": "grep", "rawArgs": "{}", "result": "{}", "status": "completed"}}),
    );
    bubble(&editor, "composerData:c2", &json!("odd"));
    let chat = Connection::open(chat_folder.join("store.db")).unwrap();
    chat.execute_batch(
        "CREATE TABLE blobs(id TEXT PRIMARY KEY, data BLOB); CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
         INSERT INTO meta VALUES ('0', '7b7d'); INSERT INTO blobs VALUES ('a', x'00');",
    )
    .unwrap();
    let line =
        r#"{"role":"user","message":{"content":[{"type":"text","text":"in a transcript"}]}}"#;
    fs::write(transcripts.join("t-1/t-1.jsonl"), format!("{line}\n")).unwrap();
    fs::write(
        transcripts.join("t-1/subagents/s-1.jsonl"),
        format!("{line}\n"),
    )
    .unwrap();
    let run = |words: &[&str]| {
        let mut command = sandbox.command();
        command.args(words).env("HOME", &user);
        command.output().unwrap()
    };
    let watched = run(&["watch", "--once"]);
    assert!(watched.status.success(), "{watched:?}");
    let rows = listed(&sandbox);
    let row = |id: &str| {
        let mut rows = rows.list().iter();
        let found = rows.find(|row| row["id"] == id);
        found
            .unwrap_or_else(|| panic!("no {id}: {rows:#?}"))
            .clone()
    };
    row("cursor:c1").is(json!({"turns": 2, "tools": 1, "tokens": 10, "state": "verified"}));
    row("cursor:t-1").is(json!({"turns": 1, "sub_agents": 1, "state": "verified"}));
    // What is not understood is sealed, and has no counts.
    for id in ["cursor:c2", "cursor:chat-1"] {
        row(id).is(json!({"turns": null, "tools": null, "tokens": null, "state": "verified"}));
    }
    sandbox.ok("list").prints("  -");
    sandbox.ok("show cursor:c1").prints("frobnicators");
    sandbox.ok("show cursor:c2").prints("cursorDiskKV");
    sandbox.ok("search frobnicators").prints("c1");
    for file in walk(&sandbox.home()) {
        let bytes = fs::read(&file).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("the secret"),
            "{file:?}"
        );
    }
    bubble(
        &editor,
        "bubbleId:c1:b1",
        &json!({"type": 1, "bubbleId": "b1", "text": "list nothing"}),
    );
    let report = sandbox.report("verify cursor:c1");
    report.is(json!({"verdict": "partial", "findings/0/code": "row_changed"}));
    report["findings"][0]["message"]
        .text()
        .has("row [\"bubbleId:c1:b1\"] of table cursorDiskKV changed after seal 0");
    assert_eq!(sandbox.verdict("verify cursor:c2"), "verified");
    assert!(run(&["watch", "--once"]).status.success());
    assert_eq!(sandbox.verdict("verify cursor:c1"), "verified");
    // Tables that are not known any more are one problem, with the reason and what to do.
    editor
        .execute_batch("ALTER TABLE cursorDiskKV RENAME COLUMN value TO content")
        .unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let changed = file.metadata().unwrap().modified().unwrap();
    file.set_modified(changed - Duration::from_secs(3600))
        .unwrap();
    for _ in 0..2 {
        assert!(!run(&["watch", "--once"]).status.success());
        let status = run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        let problems = status["problems"].list().iter();
        let about: Vec<&str> = problems
            .map(|problem| problem["message"].text())
            .filter(|message| message.contains("state.vscdb: it is not sealed"))
            .collect();
        assert_eq!(about.len(), 1, "{status:#}");
        about[0].has("cursorDiskKV has no column value");
        about[0].has("hint: install a newer threadseal");
    }
}
