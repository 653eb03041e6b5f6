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
        ("langgraph-1.2.22-sqlitesaver-3.1.2.db", "langgraph:t1", 0),
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
    sandbox.ok("show langgraph:t1").prints("checkpoints");
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
