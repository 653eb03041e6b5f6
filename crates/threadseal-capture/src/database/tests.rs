//! Exports of databases that agents and attackers made.

use super::*;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use threadseal_store::sys::{Fs, RealFs};

const OPENCODE: &str = "
CREATE TABLE session(id text PRIMARY KEY, parent_id text, directory text NOT NULL, cost real, time_updated integer);
CREATE TABLE message(id text PRIMARY KEY, session_id text NOT NULL, time_created integer, time_updated integer, data text);
CREATE TABLE part(id text PRIMARY KEY, message_id text, session_id text NOT NULL, time_created integer, time_updated integer, data text);
CREATE INDEX part_session_idx ON part(session_id);
CREATE TABLE event_sequence(aggregate_id text PRIMARY KEY, seq integer NOT NULL);
INSERT INTO session VALUES ('ses_1', NULL, '/p', 1.5, 10);
INSERT INTO message VALUES ('msg_1', 'ses_1', 1, 1, '{\"role\":\"user\"}');
INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', 1, 1, '{\"type\":\"text\",\"text\":\"one\"}');
INSERT INTO event_sequence VALUES ('ses_1', 7);
";

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(sql: &str) -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        bench.sql(sql);
        bench
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("opencode.db")
    }

    fn sql(&self, sql: &str) {
        Connection::open(self.path())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    }

    fn lines(&self, session: &str) -> Vec<String> {
        let rows = read(&self.path(), session).unwrap().unwrap();
        let text = String::from_utf8(rows.export.bytes()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn log(&self) -> PathBuf {
        place(self.folder.path(), &self.path(), Kind::OpenCode, "ses_1")
    }

    fn add(&self) -> Result<Added, threadseal_core::error::Error> {
        self.add_with(0, false)
    }

    fn add_with(
        &self,
        sealed: u64,
        restored: bool,
    ) -> Result<Added, threadseal_core::error::Error> {
        let rows = read(&self.path(), "ses_1").unwrap().unwrap();
        let _lock = RowLog::enter(&RealFs, &self.log()).unwrap();
        RowLog::add(
            &RealFs,
            &self.log(),
            &self.path(),
            &rows,
            (sealed, restored),
        )
    }

    fn compared(&self) -> Difference {
        compare(&RealFs, &self.log()).unwrap().unwrap().1
    }
}

#[test]
fn each_storage_class_has_one_spelling_and_columns_of_later_versions_are_kept() {
    let bench = Bench::new(OPENCODE);
    bench.sql(
        "ALTER TABLE part ADD COLUMN \"later \"\"one\"\"\" ;
         INSERT INTO part(id, session_id, data, \"later \"\"one\"\"\") VALUES ('prt_2', 'ses_1', x'00ff', -9223372036854775808);
         INSERT INTO part(id, session_id, data) VALUES ('prt_3', 'ses_1', cast(x'61ff' AS TEXT));
         INSERT INTO part(id, session_id, data) VALUES ('prt_4', 'ses_1', cast(x'00091f22' AS TEXT) || char(0x202e));",
    );
    assert_eq!(
        bench.lines("ses_1"),
        [
            r#"{"table":"message","key":["msg_1"],"row":{"data":"{\"role\":\"user\"}","id":"msg_1","session_id":"ses_1","time_created":1,"time_updated":1}}"#,
            r#"{"table":"part","key":["prt_1"],"row":{"data":"{\"type\":\"text\",\"text\":\"one\"}","id":"prt_1","message_id":"msg_1","session_id":"ses_1","time_created":1,"time_updated":1}}"#,
            r#"{"table":"part","key":["prt_2"],"row":{"data":{"blob":"AP8="},"id":"prt_2","later \"one\"":-9223372036854775808,"session_id":"ses_1"}}"#,
            r#"{"table":"part","key":["prt_3"],"row":{"data":{"text":"Yf8="},"id":"prt_3","session_id":"ses_1"}}"#,
            "{\"table\":\"part\",\"key\":[\"prt_4\"],\"row\":{\"data\":\"\\u0000\\t\\u001f\\\"\u{202e}\",\"id\":\"prt_4\",\"session_id\":\"ses_1\"}}",
            r#"{"table":"session","key":["ses_1"],"row":{"cost":{"real":"3ff8000000000000"},"directory":"/p","id":"ses_1","time_updated":10}}"#,
        ]
    );
}

#[test]
fn rows_without_or_with_equal_keys_and_tables_without_row_ids_are_exported() {
    let bench = Bench::new(
        "CREATE TABLE agent_sessions(session_id text, created_at text, updated_at text);
         CREATE TABLE agent_messages(id integer, session_id text, message_data text);
         INSERT INTO agent_messages VALUES (NULL, 's', 'c'), (1, 's', 'b'), (1, 's', 'a'), (1, 's', 'a');",
    );
    assert_eq!(
        bench.lines("s"),
        [
            r#"{"table":"agent_messages","key":[1],"nth":1,"row":{"id":1,"message_data":"a","session_id":"s"}}"#,
            r#"{"table":"agent_messages","key":[1],"nth":2,"row":{"id":1,"message_data":"b","session_id":"s"}}"#,
            r#"{"table":"agent_messages","key":[1],"row":{"id":1,"message_data":"a","session_id":"s"}}"#,
            r#"{"table":"agent_messages","key":[null],"row":{"message_data":"c","session_id":"s"}}"#,
        ]
    );
    let bench = Bench::new(
        "CREATE TABLE checkpoints(thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, checkpoint BLOB,
           PRIMARY KEY(thread_id, checkpoint_ns, checkpoint_id)) WITHOUT ROWID;
         CREATE TABLE writes(thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, idx INTEGER);
         INSERT INTO checkpoints VALUES ('t', '', 'c1', x'80');",
    );
    assert_eq!(
        bench.lines("t"),
        [
            r#"{"table":"checkpoints","key":["","c1"],"row":{"checkpoint":{"blob":"gA=="},"checkpoint_id":"c1","checkpoint_ns":"","thread_id":"t"}}"#
        ]
    );
    assert_eq!(find(&bench.path()).unwrap().1.len(), 1);
}

// T-CAP-60
#[test]
fn views_virtual_tables_generated_columns_and_collations_run_nothing() {
    let refused = |sql: &str| match find(&Bench::new(sql).path()).unwrap().0 {
        Found::Other(why) => why,
        Found::Kind(kind) => panic!("{kind:?}"),
    };
    let with = |table: &str, by: &str| {
        let start = OPENCODE.find(&format!("CREATE TABLE {table}(")).unwrap();
        let end = start + OPENCODE[start..].find(';').unwrap();
        let tables = OPENCODE.replacen(&OPENCODE[start..end], by, 1);
        tables[..tables.find("INSERT").unwrap()].to_owned()
    };
    let view = with(
        "message",
        "CREATE VIEW message AS SELECT 1 AS id, 2 AS session_id, randomblob(9) AS data",
    );
    assert!(
        refused(&view).contains("message is no plain table"),
        "{}",
        refused(&view)
    );
    let found = refused(&with(
        "message",
        "CREATE VIRTUAL TABLE message USING fts5(id, session_id, data)",
    ));
    assert!(found.contains("no plain table"), "{found}");
    let found = refused(&with("message", "CREATE TABLE message(id, session_id)"));
    assert!(found.contains("message has no column data"), "{found}");
    let found = refused(&with(
        "message",
        "CREATE TABLE message(id, session_id, data AS (hex(id)))",
    ));
    assert!(found.contains("message has no column data"), "{found}");
    assert!(refused("CREATE TABLE x(y)").contains("no tables of an agent"));
    // A generated column and a collation that only the agent has are left alone.
    let bench = Bench::new(OPENCODE);
    bench.sql(
        "ALTER TABLE part ADD COLUMN made AS (hex(data));
         CREATE TRIGGER bad AFTER INSERT ON part BEGIN DELETE FROM part; END;
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'session_id text', 'session_id text COLLATE agents_own') WHERE name = 'message';",
    );
    let lines = bench.lines("ses_1");
    assert_eq!(lines.len(), 3);
    assert!(!lines.concat().contains("made"));
}

// T-CAP-61
#[test]
fn a_damaged_or_odd_file_is_an_error_and_never_an_empty_session() {
    let bench = Bench::new(OPENCODE);
    for number in 0..200 {
        bench.sql(&format!(
            "INSERT INTO part VALUES ('p{number}', 'msg_1', 'ses_1', 1, 1, '{}')",
            "x".repeat(900)
        ));
    }
    let whole = std::fs::read(bench.path()).unwrap();
    let pages = whole.len() / 4096;
    let mut errors = 0;
    for page in 1..pages {
        let mut damaged = whole.clone();
        damaged[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(bench.path(), &damaged).unwrap();
        match read(&bench.path(), "ses_1") {
            // The page is of an index that is not used, or holds no row of the session.
            Ok(Some(rows)) => assert!(rows.export.rows() > 0),
            Ok(None) => {}
            Err(_) => errors += 1,
        }
    }
    assert!(errors > pages / 2, "{errors} of {pages}");
    std::fs::write(bench.path(), b"SQLite format 3\0 and nothing else").unwrap();
    assert!(read(&bench.path(), "ses_1").is_err());
    assert!(find(bench.folder.path()).is_err(), "a folder");
    assert!(find(Path::new("/dev/zero")).is_err());
    assert!(read(&bench.folder.path().join("none.db"), "s").is_err());
}

// T-CAP-62
#[test]
fn bounds_hold_before_anything_is_written() {
    let bench = Bench::new(OPENCODE);
    bench.sql(
        "INSERT INTO part(id, session_id, data) VALUES ('large', 'ses_1', zeroblob(17000000))",
    );
    assert!(read(&bench.path(), "ses_1").is_err(), "a value");
    bench.sql("UPDATE part SET data = zeroblob(13000000) WHERE id = 'large'");
    let why = read(&bench.path(), "ses_1").unwrap_err().to_string();
    assert!(why.contains("bytes in one row"), "{why}");
    let bench = Bench::new(OPENCODE);
    bench.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
         INSERT INTO part(id, session_id, data) SELECT 'p' || i, 'ses_1', zeroblob(10000000) FROM n",
    );
    let why = read(&bench.path(), "ses_1").unwrap_err().to_string();
    assert!(why.contains("bytes in one session"), "{why}");
    assert!(!bench.log().exists());
}

// T-CAP-63
#[test]
fn a_change_a_deletion_and_a_move_of_a_row_are_named() {
    let bench = Bench::new(OPENCODE);
    assert_eq!(bench.add().unwrap(), Added::State(3));
    assert_eq!(bench.add().unwrap(), Added::Unchanged);
    assert_eq!(bench.compared(), Difference::None);
    bench.sql("UPDATE part SET data = replace(data, 'one', 'two')");
    let row = |is_gone, touched| ChangedRow {
        table: "part".to_owned(),
        key: "[\"prt_1\"]".to_owned(),
        is_gone,
        touched,
        is_update: false,
    };
    let only = |row| Difference::Rows {
        added: 0,
        changed: vec![row],
    };
    assert_eq!(
        bench.compared(),
        only(row(false, Some(("time_updated", false))))
    );
    bench.sql("UPDATE part SET time_updated = 2");
    assert_eq!(
        bench.compared(),
        only(row(false, Some(("time_updated", true))))
    );
    // Only where the agent's clock moved, too, it looks as an update of the agent does.
    bench.sql("UPDATE event_sequence SET seq = 8");
    let update = ChangedRow {
        is_update: true,
        ..row(false, Some(("time_updated", true)))
    };
    assert_eq!(bench.compared(), only(update));
    bench.sql("UPDATE event_sequence SET seq = 7");
    bench.sql("UPDATE part SET session_id = 'ses_2'");
    assert_eq!(bench.compared(), only(row(true, None)));
    bench.sql("INSERT INTO part(id, session_id) VALUES ('prt_9', 'ses_1')");
    let Difference::Rows { added: 1, changed } = bench.compared() else {
        panic!("{:?}", bench.compared());
    };
    assert_eq!(changed, [row(true, None)]);
    assert_eq!(bench.add().unwrap(), Added::State(2), "one gone, one new");
    assert_eq!(bench.compared(), Difference::None);
    bench.sql("DELETE FROM part; DELETE FROM message; DELETE FROM session");
    assert_eq!(bench.compared(), Difference::Deleted);
    std::fs::remove_file(bench.path()).unwrap();
    assert_eq!(bench.compared(), Difference::Deleted);
}

// T-CAP-64
#[test]
fn an_older_copy_of_a_database_is_noticed_and_taken_only_if_a_person_accepts_it() {
    let bench = Bench::new(OPENCODE);
    bench.add().unwrap();
    let older = std::fs::read(bench.path()).unwrap();
    bench.sql("INSERT INTO part(id, session_id) VALUES ('prt_2', 'ses_1'); UPDATE event_sequence SET seq = 9");
    bench.add().unwrap();
    std::fs::write(bench.path(), &older).unwrap();
    assert_eq!(bench.compared(), Difference::Older);
    let refused = bench.add().unwrap_err().to_string();
    assert!(refused.contains("older than what was sealed"), "{refused}");
    // The agent continued on the older copy: its clock is still behind.
    bench.sql("INSERT INTO part(id, session_id) VALUES ('prt_3', 'ses_1'); UPDATE event_sequence SET seq = 8");
    assert_eq!(bench.compared(), Difference::Older);
    assert_eq!(bench.add_with(0, true).unwrap(), Added::State(2));
    assert!(RowLog::read(&RealFs, &bench.log()).unwrap().unwrap().states[2].older);
    assert_eq!(bench.compared(), Difference::None);
    // Without a clock only an earlier state is known to be older.
    let bench = Bench::new(&OPENCODE.replace("event_sequence", "other"));
    bench.add().unwrap();
    bench.sql("UPDATE part SET data = 'x'");
    bench.add().unwrap();
    bench.sql("UPDATE part SET data = 'y'");
    bench.add().unwrap();
    bench.sql("UPDATE part SET data = 'x'");
    assert_eq!(bench.compared(), Difference::Older);
    assert!(bench.add().is_err());
}

// T-CAP-65
#[test]
fn what_a_crash_left_at_any_byte_is_removed_and_a_lost_sealed_byte_is_refused() {
    let bench = Bench::new(OPENCODE);
    bench.add().unwrap();
    let first = std::fs::read(bench.log()).unwrap();
    bench.sql("UPDATE part SET data = 'new'");
    bench.add().unwrap();
    let both = std::fs::read(bench.log()).unwrap();
    for end in 0..both.len() {
        std::fs::write(bench.log(), &both[..end]).unwrap();
        bench.add().unwrap();
        let now = std::fs::read(bench.log()).unwrap();
        match end < first.len() {
            true => assert_eq!(
                now.iter().filter(|byte| **byte == b'\n').count(),
                5,
                "{end}"
            ),
            false => assert_eq!(now, both, "{end}"),
        }
    }
    std::fs::write(bench.log(), &first[..first.len() - 1]).unwrap();
    let refused = bench.add_with(first.len() as u64, false).unwrap_err();
    assert!(refused.to_string().contains("lost lines"), "{refused}");
    // A log whose last state is not what it names is not continued.
    let changed = String::from_utf8(both)
        .unwrap()
        .replacen("\"new\"", "\"old\"", 1);
    std::fs::write(bench.log(), changed).unwrap();
    assert!(bench.add().is_err());
}

// T-CAP-66
#[test]
fn a_reading_leaves_no_trace_and_sees_the_write_ahead_log() {
    let bench = Bench::new(OPENCODE);
    bench.sql("PRAGMA journal_mode = wal");
    let writer = Connection::open(bench.path()).unwrap();
    writer
        .execute(
            "INSERT INTO part(id, session_id) VALUES ('in_wal', 'ses_1')",
            [],
        )
        .unwrap();
    // Within one process SQLite shares the memory of its connections, so -shm is not compared here.
    let state = || {
        ["", "-wal"].map(|ending| {
            let path = format!("{}{ending}", bench.path().display());
            let found = RealFs.metadata(Path::new(&path)).unwrap();
            (std::fs::read(&path).unwrap(), found.modified_ns)
        })
    };
    let before = state();
    assert!(bench.lines("ses_1").concat().contains("in_wal"));
    assert!(state() == before, "with a writer");
    // A write transaction of the agent is not waited for.
    writer
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO part(id, session_id) VALUES ('open', 'ses_1')")
        .unwrap();
    assert!(!bench.lines("ses_1").concat().contains("open"));
    writer.execute_batch("COMMIT").unwrap();
    assert!(bench.lines("ses_1").concat().contains("open"));
}

#[test]
fn stamps_change_with_the_session_that_its_agent_changed() {
    let bench = Bench::new(OPENCODE);
    bench.sql("INSERT INTO session(id, directory) VALUES ('ses_2', '/q')");
    let before = find(&bench.path()).unwrap().1;
    assert_eq!(before.len(), 2);
    bench.sql("UPDATE part SET data = 'x'; UPDATE event_sequence SET seq = 8");
    let after = find(&bench.path()).unwrap().1;
    let changed: Vec<_> = after
        .iter()
        .filter(|(id, stamp)| before.get(*id) != Some(*stamp))
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].0, "ses_1");
}

#[test]
fn a_subagent_belongs_to_the_session_at_the_end_of_the_chain() {
    let bench = Bench::new(OPENCODE);
    let connection = Connection::open(bench.path()).unwrap();
    for (id, parent) in [
        ("ses_2", "ses_1"),
        ("ses_3", "ses_2"),
        ("a", "b"),
        ("b", "a"),
    ] {
        connection
            .execute(
                "INSERT INTO session(id, parent_id, directory) VALUES (?1, ?2, '/p')",
                params![id, parent],
            )
            .unwrap();
    }
    let started_by = |id: &str| read(&bench.path(), id).unwrap().unwrap().started_by;
    let chain = |root: &str, parent: &str| Some((root.to_owned(), parent.to_owned()));
    assert_eq!(started_by("ses_1"), None);
    assert_eq!(started_by("ses_3"), chain("ses_1", "ses_2"));
    assert_eq!(started_by("a"), chain("b", "b"));
}

const CURSOR: &str = "
CREATE TABLE ItemTable(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV(key TEXT COLLATE NOCASE, value BLOB);
INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'the secret');
";

fn ids(path: &Path) -> Vec<String> {
    let (found, sessions) = find(path).unwrap();
    assert!(matches!(found, Found::Kind(_)), "{found:?}");
    sessions.into_keys().collect()
}

// T-CAP-94
#[test]
fn a_row_of_keys_belongs_to_the_session_before_its_second_colon() {
    let bench = Bench::new(CURSOR);
    let keys = [
        "composerData:ab",
        "composerData:ab:x",
        "bubbleId:ab:1",
        "bubbleId:ab:1:2",
        "bubbleId:ab:",
        "messageRequestContext:ab:1",
        "composerData:abc",
        "bubbleId:abc:1",
        "bubbleId:AB:1",
        "composerData:a%",
        "bubbleId:a_:1",
        "bubbleId::1",
        "composerData:",
        "bubbleId",
        "xbubbleId:ab:1",
        "BUBBLEID:ab:1",
        "agentKv:ab:1",
        "checkpointId:ab:1",
        "ab",
    ];
    let connection = Connection::open(bench.path()).unwrap();
    for key in keys {
        let sql = "INSERT INTO cursorDiskKV VALUES (?1, '{}')";
        connection.execute(sql, [key]).unwrap();
    }
    bench.sql("INSERT INTO cursorDiskKV VALUES (CAST('bubbleId:ab:9' AS BLOB), '{}'), (NULL, '{}'), (7, '{}')");
    assert_eq!(ids(&bench.path()), ["AB", "a%", "a_", "ab", "abc"]);
    let of = |session: &str| -> Vec<String> {
        let lines = bench.lines(session);
        let key = |line: &String| {
            let rest = line.split_once("\"key\":[\"").unwrap().1;
            rest.split_once('"').unwrap().0.to_owned()
        };
        lines.iter().map(key).collect()
    };
    assert_eq!(
        of("ab"),
        [
            "bubbleId:ab:",
            "bubbleId:ab:1",
            "bubbleId:ab:1:2",
            "composerData:ab",
            "composerData:ab:x",
            "messageRequestContext:ab:1"
        ]
    );
    assert_eq!(of("abc"), ["bubbleId:abc:1", "composerData:abc"]);
    assert_eq!(of("AB"), ["bubbleId:AB:1"]);
    assert_eq!(of("a%"), ["composerData:a%"]);
    assert_eq!(of("a_"), ["bubbleId:a_:1"]);
    for none in ["", "ab:1", "ab:", "a", ":1", "b", "the secret"] {
        assert_eq!(read(&bench.path(), none).unwrap(), None, "{none}");
    }
    // A change in a row of one session is no change of another one.
    let before = find(&bench.path()).unwrap().1;
    bench.sql("UPDATE cursorDiskKV SET value = '{\"a\":1}' WHERE key = 'bubbleId:abc:1'");
    let after = find(&bench.path()).unwrap().1;
    let differ = |id: &&String| before[*id] != after[*id];
    assert_eq!(before.keys().filter(differ).collect::<Vec<_>>(), ["abc"]);
    // In another encoding, bytes have another order.
    let other = Bench::new(&format!("PRAGMA encoding = 'UTF-16le'; {CURSOR}"));
    let (found, _) = find(&other.path()).unwrap();
    assert!(matches!(found, Found::Other(why) if why.contains("not in UTF-8")));
}

#[test]
fn a_database_of_one_chat_is_called_as_its_folder() {
    let bench = Bench::new("");
    let folder = bench.folder.path().join("hash/c1");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("store.db");
    let tables = "CREATE TABLE blobs(id TEXT PRIMARY KEY, data BLOB);
        CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
        INSERT INTO blobs VALUES ('a', x'00'); INSERT INTO meta VALUES ('0', '7b7d');";
    Connection::open(&path)
        .unwrap()
        .execute_batch(tables)
        .unwrap();
    assert_eq!(ids(&path), ["c1"]);
    assert_eq!(read(&path, "c1").unwrap().unwrap().export.rows(), 2);
    assert_eq!(read(&path, "c2").unwrap(), None);
    let link = bench.folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(ids(&link), ["c1"]);
    // Tables of these names are those of many programs.
    let other = folder.join("other.db");
    std::fs::copy(&path, &other).unwrap();
    assert!(matches!(find(&other).unwrap().0, Found::Other(_)));
}
