//! The bytes that each store leaves after a fixed life, frozen in `tests/snapshots`: clock, chance and keys are fixed.
//!
//! A file is frozen by its mode, its length, its digest, and, where it is short, its text; a database by the rows of its tables.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use rusqlite::types::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::{Head, RecordId, RecordKind, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::{Statement, Tombstone};
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::ledger::{ActorFingerprint, Effect, Genesis, RunId};
use threadseal_formats::lineage::{AgentIdentity, IdentityForm};
use threadseal_formats::scroll::{Turn, deserialize};
use threadseal_formats::transcript::bodies::commitments;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::{Bodies, Manifest};
use threadseal_formats::transcript::{Ending, VerifyOptions};
use threadseal_store::clock::{Clock as _, ManualClock};
use threadseal_store::epochs::EpochKeys;
use threadseal_store::fault::FaultFs;
use threadseal_store::heads::{Durability, FileHeadStore, HeadStore, ObjectHeadStore};
use threadseal_store::host::{Host, Published};
use threadseal_store::key_ends::NoKeyEnds;
use threadseal_store::ledger::{
    ActorSigners, HashChainedLedgerStore, JsonlLedgerStore, LedgerStore, ObjectLedgerStore,
    RunRecorder, Step,
};
use threadseal_store::lineage::conformance::{agent, begin, tick};
use threadseal_store::lineage::{CheckpointStore, FileCheckpointStore, KeyedCheckpointStore};
use threadseal_store::objects::{Folder, Objects};
use threadseal_store::postgres::throwaway::{Cluster, database_of};
use threadseal_store::postgres::{
    PostgresDatabase, PostgresHeadStore, PostgresLedgerStore, PostgresObjects, PostgresTables,
};
use threadseal_store::random::SeededRandom;
use threadseal_store::recorder::{Keys, Opened, Recorder, TailPolicy};
use threadseal_store::scroll::LiveScroll;
use threadseal_store::sqlite::{SqliteLedgerStore, SqliteObjects};
use threadseal_store::transcripts::{
    FileTranscriptStore, ObjectTranscriptStore, RecordName, TranscriptStore,
};
use threadseal_store::{atomic, bodies, observer, snapshot, tombstones};

const DISK: &str = "/disk";
const HOME: &str = "/home";
/// The longest value of a row that is frozen as it is.
const TEXT_BYTES: usize = 1500;
const MINUTE_MICROS: u64 = 60_000_000;

/// An empty disk, and a host on it of which nothing is left to chance.
struct Scene {
    fs: FaultFs,
    clock: Arc<ManualClock>,
    host: Host,
    native: Arc<LocalSigner>,
}

fn signer(seed: u8, usage: KeyUsage) -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage)
}

impl Scene {
    fn new() -> Self {
        let fs = FaultFs::new();
        for folder in [DISK, HOME] {
            atomic::create_directories(&fs, Path::new(folder), 0o700).unwrap();
        }
        let start = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
        let clock = Arc::new(ManualClock::new(start));
        let host = Host {
            fs: fs.shared(),
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SeededRandom::new(7)),
            heads: Arc::new(FileHeadStore::new(fs.shared(), "/home/heads")),
            keys: Arc::new(NoKeyEnds),
        };
        let native = Arc::new(signer(1, KeyUsage::Native));
        Self {
            fs,
            clock,
            host,
            native,
        }
    }

    fn objects(&self) -> Arc<dyn Objects> {
        Arc::new(Folder::new(self.fs.shared(), DISK))
    }

    fn wait(&self) {
        self.clock.advance_micros(MINUTE_MICROS);
    }

    fn keys(&self) -> Keys {
        Keys {
            native: Arc::clone(&self.native) as _,
            rye: Arc::new(signer(2, KeyUsage::Rye)),
            epochs: Some(EpochKeys::new(self.fs.shared(), "/home/epochs".into())),
        }
    }

    fn manifest(&self, bodies: Bodies) -> Manifest {
        let keys = self.keys();
        let record = self.host.new_record().unwrap();
        Manifest {
            bodies,
            ..Manifest::new(record, *keys.native.public_key(), *keys.rye.public_key())
        }
    }

    fn open(&self, store: &dyn TranscriptStore, name: &RecordName) -> Opened {
        let mut trusted = TrustStore::new();
        let own = TrustName::parse("self").unwrap();
        let key = TrustedKey::new(own, *self.native.public_key(), [KeyUsage::Native]);
        trusted.add(key).unwrap();
        let options = VerifyOptions {
            trust: &Trust::new(trusted),
            now: self.clock.now().unwrap(),
            held_since: None,
            thread: None,
        };
        let (host, tail) = (self.host.clone(), TailPolicy::SetAside);
        Recorder::open_in(host, store, name, self.keys(), &options, tail).unwrap()
    }

    /// Everything below these folders.
    fn dump(&self) -> String {
        let mut out = String::new();
        for folder in [DISK, HOME] {
            out.push_str(&snapshot::tree(&*self.fs.shared(), Path::new(folder)));
        }
        out
    }

    fn freeze(&self, name: &str) {
        freeze(name, &self.dump());
    }
}

/// Freezes in `tests/snapshots`; `THREADSEAL_BLESS=1` writes there instead.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment of the test run says whether a change is meant"
)]
fn freeze(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let bless = std::env::var_os("THREADSEAL_BLESS").is_some();
    snapshot::check(&folder.join(format!("{name}.txt")), text, bless);
}

fn payload(text: &str) -> Payload {
    Payload::parse(format!("{{\"text\":\"{text}\"}}").as_bytes()).unwrap()
}

fn say(recorder: &mut Recorder, event_type: &str, text: &str) {
    recorder
        .append(&EventType::parse(event_type).unwrap(), &payload(text))
        .unwrap();
}

// ---------------------------------------------------------------------- transcripts

/// Two turns, a tail that the next writer sets aside, and the end. Another record stays open.
fn record_transcripts(scene: &Scene, store: &dyn TranscriptStore, bodies: Bodies) {
    for (name, ends) in [("ended", true), ("open", false)] {
        let name = RecordName::parse(name).unwrap();
        let thread = ThreadId::parse("t/1").unwrap();
        let manifest = scene.manifest(bodies);
        let made = Recorder::create_in(
            scene.host.clone(),
            store,
            &name,
            thread,
            manifest,
            scene.keys(),
        );
        let mut recorder = made.unwrap();
        for turn in 1..=2 {
            say(&mut recorder, "cognition_in", &format!("question {turn}"));
            scene.wait();
            // Long enough that object storage cuts a segment.
            say(&mut recorder, "cognition_out", &"answer ".repeat(12_000));
            recorder.seal(turn, Ext::default()).unwrap();
        }
        say(&mut recorder, "cognition_in", "no seal covers this");
        recorder.sync().unwrap();
        drop(recorder);
        if ends {
            let mut recorder = scene.open(store, &name).recorder;
            scene.wait();
            say(&mut recorder, "tool_call_result", "result");
            recorder
                .end(Ending::Completed, &payload("the end"), 3)
                .unwrap();
        }
    }
}

#[test]
fn transcripts_in_files_are_frozen() {
    let scene = Scene::new();
    let store = FileTranscriptStore::new(scene.fs.shared(), DISK);
    record_transcripts(&scene, &store, Bodies::Inline);
    scene.freeze("transcripts-file");
}

#[test]
fn transcripts_in_objects_are_frozen() {
    let scene = Scene::new();
    let store = ObjectTranscriptStore::new(scene.objects());
    record_transcripts(&scene, &store, Bodies::Inline);
    scene.freeze("transcripts-object");
}

#[test]
fn detached_bodies_and_what_a_redaction_leaves_of_them_are_frozen() {
    let scene = Scene::new();
    let store = FileTranscriptStore::new(scene.fs.shared(), DISK);
    record_transcripts(&scene, &store, Bodies::Detached);
    let mut all = format!("# written\n{}", scene.dump());
    let name = RecordName::parse("open").unwrap();
    let first = commitments(&scene.fs.bytes_of(&store.place(&name)).unwrap()).unwrap()[0].digest;
    let mut recorder = scene.open(&store, &name).recorder;
    recorder
        .redact(vec![first], "Ada".into(), "asked to".into())
        .unwrap();
    drop(recorder);
    assert!(bodies::place_of(&store.place(&name)).ends_with("open.bodies"));
    write!(all, "\n# redacted\n{}", scene.dump()).unwrap();
    freeze("bodies", &all);
}

// ---------------------------------------------------------------------- heads

fn head(record: u8, seq: u64) -> Head {
    Head {
        record: RecordId::from_bytes([record; 32]),
        seq,
        size: 100 * (seq + 1),
        line: Digest::of(format!("{record} {seq}").as_bytes()),
    }
}

fn logged(record: u8, seq: u64) -> LoggedHead {
    LoggedHead {
        kind: RecordKind::Transcript,
        head: head(record, seq),
        root: Some(Digest::of(b"root")),
        key: None,
    }
}

fn store_heads(scene: &Scene, heads: Arc<dyn HeadStore>) {
    let host = Host {
        heads,
        ..scene.host.clone()
    };
    let thread = ThreadId::parse("t/1").unwrap();
    let kinds = RecordKind::ALL;
    for (kind, record) in kinds.into_iter().zip(1..) {
        for seq in 0..2 {
            scene.wait();
            let published = Published {
                head: head(record, seq),
                root: (record == 1).then(|| Digest::of(b"root")),
                salts: None,
                key: Some(scene.native.public_key().key_id()),
                kind,
                is_final: seq == 1 && record == 2,
                thread: (record == 1).then_some(&thread),
                path: (record < 4).then_some(Path::new("/disk/a record")),
                aliases: &[Digest::of(&[record])],
                durability: Durability::Durable,
            };
            host.publish(&published).unwrap();
        }
    }
}

#[test]
fn heads_in_files_are_frozen() {
    let scene = Scene::new();
    store_heads(&scene, Arc::clone(&scene.host.heads));
    scene.freeze("heads-file");
}

#[test]
fn heads_in_objects_are_frozen() {
    let scene = Scene::new();
    store_heads(&scene, Arc::new(ObjectHeadStore::new(scene.objects())));
    scene.freeze("heads-object");
}

// ---------------------------------------------------------------------- ledgers

/// A signed run with a step that succeeds, one that fails and one that stays open, and a run that is deleted.
fn keep_ledgers<S: LedgerStore>(scene: &Scene, open: &dyn Fn() -> S) {
    for run in ["kept", "deleted"] {
        let run = RunId::parse(run).unwrap();
        let agent = ActorFingerprint::for_key("agent", None, Vec::new(), scene.native.public_key())
            .unwrap();
        let actor = agent.actor_id().to_owned();
        let mut genesis =
            Genesis::new(scene.host.new_record().unwrap(), scene.clock.now().unwrap());
        genesis.actors.add(agent).unwrap();
        let signers = ActorSigners::new().with(actor.clone(), Arc::clone(&scene.native) as _);
        let ledger = HashChainedLedgerStore::new(open())
            .with_signer(Arc::new(signers))
            .with_host(scene.host.clone());
        let host = scene.host.clone();
        let recorder =
            RunRecorder::create(ledger, host, run.clone(), Some(actor), None, &genesis).unwrap();
        for node in ["ask", "act", "wait"] {
            scene.wait();
            let asked = threadseal_core::canon::json::parse(b"{\"prompt\":\"hi\"}").unwrap();
            let effect = Effect::new("llm_call", asked.clone());
            let step = Step {
                idempotency_key: Some(format!("key of {node}")),
                ..Step::new(node, Some(effect))
            };
            let step = recorder.start(step).unwrap();
            scene.wait();
            match node {
                "ask" => recorder.succeed(step, Some(asked)).unwrap(),
                "act" => recorder.fail(step, "no").unwrap(),
                _ => drop(step),
            }
        }
    }
    let (store, run) = (open(), RunId::parse("deleted").unwrap());
    let tip = store.tip(&run).unwrap().unwrap();
    assert!(
        store
            .delete(&run, Some(&tip), scene.clock.now().unwrap())
            .unwrap()
    );
}

#[test]
fn ledgers_in_files_are_frozen() {
    let scene = Scene::new();
    keep_ledgers(&scene, &|| {
        JsonlLedgerStore::open(scene.fs.shared(), Path::new(DISK)).unwrap()
    });
    scene.freeze("ledger-file");
}

#[test]
fn ledgers_in_objects_are_frozen() {
    let scene = Scene::new();
    keep_ledgers(&scene, &|| ObjectLedgerStore::new(scene.objects()));
    scene.freeze("ledger-object");
}

/// The schema of an SQLite file, and the rows of its tables.
fn dump_sqlite(path: &Path) -> String {
    let database = rusqlite::Connection::open(path).unwrap();
    let rows = |sql: &str| -> Vec<Vec<Value>> {
        let mut query = database.prepare(sql).unwrap();
        // The system's generator gives the nonces of writers.
        let names: Vec<String> = query.column_names().map(str::to_owned).collect();
        let value = |row: &rusqlite::Row<'_>, at: usize| match names[at].as_str() {
            "writer" => Ok(Value::Text("<nonce>".to_owned())),
            _ => row.get(at),
        };
        let row = |row: &rusqlite::Row<'_>| (0..names.len()).map(|at| value(row, at)).collect();
        query
            .query_map([], row)
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    let mut out = String::new();
    for pragma in [
        "application_id",
        "user_version",
        "journal_mode",
        "page_size",
        "encoding",
    ] {
        writeln!(
            out,
            "{pragma} {:?}",
            rows(&format!("PRAGMA {pragma}"))[0][0]
        )
        .unwrap();
    }
    let schema =
        rows("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name");
    for found in schema {
        let [Value::Text(kind), Value::Text(name), Value::Text(sql)] = &found[..] else {
            panic!("{found:?}");
        };
        writeln!(out, "\n# {kind} {name}\n{sql}").unwrap();
        if kind == "table" {
            let mut lines: Vec<String> = rows(&format!("SELECT * FROM {name}"))
                .iter()
                .map(|row| row_text(row))
                .collect();
            lines.sort();
            lines
                .iter()
                .for_each(|line| writeln!(out, "  | {line}").unwrap());
        }
    }
    out
}

fn row_text(row: &[Value]) -> String {
    let texts = row.iter().map(|value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Blob(bytes) if bytes.len() > TEXT_BYTES => {
            format!("x {} {}", bytes.len(), Digest::of(bytes))
        }
        Value::Blob(bytes) => format!("x'{}'", bytes.escape_ascii()),
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn ledgers_in_sqlite_are_frozen() {
    let (scene, folder) = (Scene::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("ledgers.sqlite");
    keep_ledgers(&scene, &|| SqliteLedgerStore::open(&path).unwrap());
    freeze("ledger-sqlite", &(dump_sqlite(&path) + &scene.dump()));
}

/// The columns, indexes and triggers of a database of PostgreSQL, and the rows of its tables.
fn dump_postgres(cluster: &Cluster, url: &str) -> String {
    let ask = |sql: &str| cluster.sql(database_of(url), sql);
    let own = "'public'";
    let mut out = ask(&format!(
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns \
         WHERE table_schema = {own} ORDER BY table_name, ordinal_position"
    ));
    out += &ask(&format!(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = {own} ORDER BY indexname"
    ));
    out += &ask(
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname",
    );
    let tables = ask(&format!(
        "SELECT tablename FROM pg_tables WHERE schemaname = {own} ORDER BY tablename"
    ));
    for table in tables.lines() {
        // The system's generator gives the nonces of writers, and the server's clock the time of the schema.
        let rows = ask(&format!(
            "SET bytea_output TO escape; SELECT to_jsonb(found) - 'writer' - 'applied_at' AS rows FROM {table} AS found ORDER BY rows"
        ));
        writeln!(out, "\n# {table}").unwrap();
        rows.lines()
            .for_each(|row| writeln!(out, "  | {row}").unwrap());
    }
    out
}

#[test]
fn ledgers_heads_and_objects_in_postgresql_are_frozen() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let (scene, url) = (Scene::new(), cluster.fresh());
    keep_ledgers(&scene, &|| PostgresLedgerStore::open(&url).unwrap());
    let tables = PostgresTables::make(&PostgresDatabase::open(&url).unwrap()).unwrap();
    let objects = PostgresObjects::over(tables.clone());
    store_heads(&scene, Arc::new(PostgresHeadStore::over(tables)));
    continue_lineage(&KeyedCheckpointStore::new(Arc::new(objects)));
    freeze("postgres", &dump_postgres(cluster, &url));
}

// ---------------------------------------------------------------------- lineages

/// Three links, and the agent's key.
fn continue_lineage(store: &dyn CheckpointStore) {
    begin(store, b"one").unwrap();
    tick(store, b"two").unwrap();
    tick(store, &[3; 5000]).unwrap();
    let identity = AgentIdentity::new(PrivateKey::from_seed([1; 32]), IdentityForm::Igor);
    store.save_identity(&agent(), &identity).unwrap();
}

#[test]
fn lineages_in_files_are_frozen() {
    let scene = Scene::new();
    let store = FileCheckpointStore::new(scene.fs.shared(), DISK);
    continue_lineage(&store);
    let written = scene.dump();
    let newest = store.newest(&agent()).unwrap().known().unwrap();
    let deleted = store.delete(&agent(), &newest);
    assert!(matches!(
        deleted,
        Ok(threadseal_store::lineage::Saved::Stored)
    ));
    freeze(
        "lineage-file",
        &format!("# written\n{written}\n# deleted\n{}", scene.dump()),
    );
}

#[test]
fn lineages_by_keys_are_frozen() {
    let scene = Scene::new();
    continue_lineage(&KeyedCheckpointStore::new(scene.objects()));
    scene.freeze("lineage-keyed");
}

#[test]
fn lineages_in_sqlite_are_frozen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lineages.sqlite");
    let objects = SqliteObjects::open(&path).unwrap();
    continue_lineage(&KeyedCheckpointStore::new(Arc::new(objects)));
    freeze("lineage-sqlite", &dump_sqlite(&path));
}

// ---------------------------------------------------------------------- single files

#[test]
fn seals_of_logs_that_others_write_are_frozen() {
    let (scene, log) = (Scene::new(), Path::new("/disk/session.jsonl"));
    let key = signer(3, KeyUsage::Observed);
    atomic::create_new(&scene.fs, log, b"{\"n\":1}\n{\"n\":2}\n", 0o644).unwrap();
    observer::seal(&scene.host, log, false, Duration::ZERO, &key, &|_| {}).unwrap();
    scene.wait();
    scene
        .fs
        .set_bytes(log, b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\nunended")
        .unwrap();
    observer::seal(&scene.host, log, true, Duration::ZERO, &key, &|_| {}).unwrap();
    scene.freeze("observer");
}

fn turn(number: u64) -> Turn {
    let json = format!(
        r#"{{"version":"scroll/0.1","turn":{number},"role":"user","model":{{"vendor":"v","id":"m"}},"params":{{"temperature":1,"top_p":1}},"messages":[{{"role":"user","content":"hi"}}],"timestamp_ns":{number}}}"#
    );
    deserialize(json.as_bytes()).unwrap()
}

#[test]
fn a_live_scroll_is_frozen() {
    let (scene, key) = (Scene::new(), signer(4, KeyUsage::Scroll));
    let path = Path::new("/disk/live.jsonl");
    let mut scroll = LiveScroll::create(scene.host.clone(), path, turn(0), Some(&key)).unwrap();
    for number in 1..4 {
        scene.wait();
        scroll
            .append(turn(number), (number != 2).then_some(&key as _))
            .unwrap();
        scroll.sync().unwrap();
    }
    drop(scroll);
    let mut scroll = LiveScroll::open(scene.host.clone(), path).unwrap().scroll;
    scroll.append(turn(4), None).unwrap();
    scroll.sync().unwrap();
    scene.freeze("scroll");
}

#[test]
fn a_tombstone_is_frozen() {
    let scene = Scene::new();
    let statement = Statement {
        at: scene.clock.now().unwrap(),
        by: "self".to_owned(),
        why: "ninety days are over".to_owned(),
        records: vec![logged(1, 1), logged(2, 7)],
    };
    let tombstone = Tombstone::sign(statement, &*scene.native).unwrap();
    let record = Path::new("/disk/transcript.jsonl");
    tombstones::put(&scene.fs, &tombstones::place_of(record), &tombstone).unwrap();
    let elsewhere = tombstones::place_in(Path::new("/home/tombstones"), &head(1, 1).record);
    tombstones::put(&scene.fs, &elsewhere, &tombstone).unwrap();
    scene.freeze("tombstones");
}
