//! Finished threads of Rye that are adopted into a database.

use super::*;
use threadseal_testkit::in_repository;

const OLD: &str = "test/plain/plain-1795293095262";
const RECORD: &str = ".ai/agent/threads/test/plain/plain-1795293095262/transcript.jsonl";

/// A project with a thread of Rye, and a database without threads.
struct Adopting {
    ended: Ended,
}

impl std::ops::Deref for Adopting {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

impl Adopting {
    fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        let sandbox = project();
        let key = in_repository("testkit/keys/rye/3ef44d1ee334ace7.toml");
        sandbox.ok(format!("trust add {key:?} --name rye-old"));
        let record = fs::read(in_repository("testkit/transcripts/rye/finished.jsonl")).unwrap();
        sandbox.write(format!("p/{RECORD}"), record);
        let ended = Ended {
            sandbox,
            cluster,
            url: cluster.fresh(),
            thread: OLD.to_owned(),
        };
        // Makes the tables.
        ended.exits(0, "thread inspect");
        Some(Self { ended })
    }

    fn adopt(&self) -> Ran {
        self.sh(format!(
            "thread adopt {OLD} --directive demo/greet --input name=Ada --script answers.yaml --json"
        ))
    }

    /// No row of a thread can be written any more.
    fn refuse_rows(&self) {
        self.sql(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
             CREATE TRIGGER no BEFORE INSERT ON threadseal_threads FOR EACH ROW EXECUTE FUNCTION no()",
        );
    }

    fn accept_rows(&self) {
        self.sql("DROP TRIGGER no ON threadseal_threads");
    }

    /// The state of the only order, and why it was set aside.
    fn order(&self) -> String {
        self.sql("SELECT state, coalesce(aside, '') FROM threadseal_orders")
    }

    /// The thread that was made.
    fn adopted(&self) -> Value {
        let threads = self.json("thread list");
        let mut rows = threads["threads"].list().iter();
        rows.find(|row| row["thread_id"] != OLD).unwrap().clone()
    }
}

// T-FLT-36
#[test]
fn a_thread_of_rye_is_adopted_into_a_database_and_continues_there() {
    let Some(adopting) = Adopting::new() else {
        return;
    };
    let adopted = adopting.adopt().exits(0).json();
    adopted
        .is(json!({"schema": "threadseal.thread.adopt/1", "adopted": OLD, "status": "completed"}));
    adopted["warnings"][0].text().has("thread_adopted");
    let thread = adopted["thread_id"].text();
    adopting.verify(thread).exits(0);
    let whole = adopting.verify("").exits(3).json();
    whole.is(json!({"summary": {"verified": 5, "unsigned_tail": 1}}));
    // It is there without the folder, and Rye's bytes are the same.
    let copied = adopting.sql(&format!(
        "SELECT encode(sha256(string_agg(c.bytes, '' ORDER BY c.at)), 'hex') FROM threadseal_chunks c
         JOIN threadseal_files f USING (inode) WHERE f.path = '{RECORD}'"
    ));
    let place = adopting.sandbox.path(format!("p/{RECORD}"));
    let bytes = fs::read(&place).unwrap();
    assert_eq!(copied.trim(), Digest::of(&bytes).to_hex());
    fs::remove_file(place).unwrap();
    adopting.ok(format!("thread resume {thread} --message Again --detach"));
    adopting.work("answers.yaml");
    let chain = adopting.json(format!("thread chain {OLD}"));
    chain.is(json!({"chain_length": 3, "chain/0/thread_id": OLD, "chain/1/thread_id": thread}));
    assert_eq!(adopting.order(), "done|\n");
    adopting.refuses(
        &format!("thread adopt {OLD} --directive demo/greet -i name=Ada --script answers.yaml"),
        "cannot be continued",
    );
}

// T-FLT-37
#[test]
fn an_adoption_that_was_lost_is_carried_out_by_the_next_worker() {
    let Some(adopting) = Adopting::new() else {
        return;
    };
    adopting.refuse_rows();
    adopting.adopt().fails();
    assert_eq!(adopting.order(), "ready|\n");
    adopting.accept_rows();
    adopting.work("answers.yaml");
    assert_eq!(adopting.order(), "done|\n");
    adopting
        .adopted()
        .is(json!({"status": "completed", "directive": "demo/greet"}));
    // Again, and by hand, although the folder has no such thread any more.
    let adopting = Adopting::new().unwrap();
    adopting.refuse_rows();
    adopting.adopt().fails();
    adopting.accept_rows();
    fs::remove_file(adopting.sandbox.path(format!("p/{RECORD}"))).unwrap();
    adopting.adopt().exits(0);
    assert_eq!(adopting.order(), "done|\n");
    let orders = adopting.sql("SELECT count(*), max(token) FROM threadseal_orders");
    assert_eq!(orders, "1|2\n");
}

// T-FLT-38
#[test]
fn a_record_of_rye_that_was_changed_is_not_adopted_into_a_database() {
    let Some(adopting) = Adopting::new() else {
        return;
    };
    let place = adopting.sandbox.path(format!("p/{RECORD}"));
    let genuine = fs::read_to_string(&place).unwrap();
    let forged = genuine.replacen("no tools", "no rules", 1);
    assert_ne!(forged, genuine);
    fs::write(&place, forged).unwrap();
    let adopt =
        format!("thread adopt {OLD} --directive demo/greet -i name=Ada --script answers.yaml");
    adopting.refuses(&adopt, "is tampered");
    assert_eq!(adopting.order(), "");
    fs::write(&place, genuine).unwrap();
    // A thread that another one started would lose its limits.
    adopting
        .sandbox
        .ok("run demo/greet -i name=Bob --project p --script answers.yaml");
    let registry = adopting.sandbox.path("p/.ai/agent/threads/registry.db");
    let registry = rusqlite::Connection::open(registry).unwrap();
    let row = "INSERT INTO threads (thread_id, directive, status, parent_id) VALUES (?1, 'demo/greet', 'completed', 'a/b')";
    registry.execute(row, [OLD]).unwrap();
    adopting.refuses(&adopt, "was started by a/b");
    registry
        .execute("DELETE FROM threads WHERE thread_id = ?1", [OLD])
        .unwrap();
    // The copy was changed before a worker came to it.
    adopting.refuse_rows();
    adopting.adopt().fails();
    adopting.accept_rows();
    adopting.edit("no tools", "no rules");
    adopting
        .sh("worker --until-idle --script answers.yaml")
        .exits(0)
        .warns("is tampered");
    adopting.order().has("done|").has("is tampered");
    assert_eq!(adopting.json("thread list")["threads"], json!([]));
    fs::rename(&place, adopting.sandbox.path("aside")).unwrap();
    adopting.refuses(&adopt, "is tampered");
    // The folder shows that the copy is another one, also where that verifies.
    fs::rename(adopting.sandbox.path("aside"), &place).unwrap();
    adopting.refuses(&adopt, "is another file than its copy");
    adopting.edit("no rules", "no tools");
    adopting.sql("UPDATE threadseal_orders SET aside = NULL");
    let whole = fs::read(&place).unwrap();
    let seal = b"\"checkpoint\"";
    let first_seal = whole
        .windows(seal.len())
        .position(|window| window == seal)
        .unwrap();
    let end = first_seal
        + whole[first_seal..]
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap()
        + 1;
    adopting.sql(&format!(
        "UPDATE threadseal_files SET size = {end} WHERE path = '{RECORD}';
         UPDATE threadseal_chunks c SET bytes = substring(bytes FOR {end}) FROM threadseal_files f
         WHERE f.inode = c.inode AND f.path = '{RECORD}'"
    ));
    adopting.refuses(&adopt, "is another file than its copy");
    // An order of another kind, made of this one, would ask a model.
    let adopting = Adopting::new().unwrap();
    adopting.refuse_rows();
    adopting.adopt().fails();
    adopting.accept_rows();
    adopting.sql("UPDATE threadseal_orders SET task = replace(task, '\"kind\":\"adopt\"', '\"kind\":\"run\"')");
    adopting
        .sh("worker --until-idle --script answers.yaml")
        .exits(0)
        .warns("was changed");
    assert_eq!(adopting.json("thread list")["threads"], json!([]));
}
