//! Records in a database: written as on a disk, by the holder of the lease and by no other process.

use super::*;
use crate::atomic::{self, Mode};
use crate::clock::ManualClock;
use crate::ledger::{Append, Entry, JsonlLedgerStore, LedgerStore, Tip};
use crate::postgres::leases::Orders;
use crate::postgres::throwaway::{Cluster, database_of};
use crate::postgres::{PostgresHeadStore, PostgresTables};
use crate::read::read_small;
use crate::recorder::{Opened, Recorder, TailPolicy};
use crate::sys::RealFs;
use crate::testing::{Scene, host, say};
use std::time::Duration;
use threadseal_core::error::ErrorKind;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;
use threadseal_formats::transcript::ext::Ext;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(40);

/// A database with one order, and a folder that begins in it.
struct Bench {
    cluster: &'static Cluster,
    url: String,
    database: PostgresDatabase,
    orders: Orders,
    folder: tempfile::TempDir,
}

impl Bench {
    /// None where PostgreSQL is not installed.
    fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        let url = cluster.fresh();
        let database = PostgresDatabase::open(&url).unwrap();
        let orders = Orders::open(&database).unwrap();
        orders.put("{}").unwrap();
        Some(Self {
            cluster,
            url,
            database,
            orders,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    fn take(&self, worker: &str, lasts: Duration) -> Lease {
        let holder = [worker.as_bytes()[0]; 16];
        self.orders
            .take(worker, holder, lasts, &[])
            .unwrap()
            .unwrap()
            .lease
    }

    fn fs(&self, lease: Option<&Lease>) -> LeasedFs {
        let (root, real) = (self.folder.path(), RealFs::shared());
        LeasedFs::open(&self.database, lease.cloned(), real, root, &["in/db"]).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        let root = self.folder.path().canonicalize().unwrap();
        root.join("in/db").join(name)
    }

    /// A worker under this lease.
    fn worker(&self, lease: &Lease) -> Scene {
        let tables = PostgresTables::make(&self.database).unwrap();
        let heads = PostgresHeadStore::leased(tables, lease.clone());
        Scene::of(host(Arc::new(self.fs(Some(lease))), heads))
    }

    fn create(&self, worker: &Scene) -> Recorder {
        worker.create(&self.path("t.jsonl")).unwrap()
    }

    fn open(&self, worker: &Scene) -> Result<Opened, Error> {
        worker.open(&self.path("t.jsonl"), TailPolicy::SetAside)
    }

    fn refusal(&self, worker: &Scene) -> String {
        self.open(worker).map(drop).unwrap_err().to_string()
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.sql(database_of(&self.url), sql)
    }

    /// Everything that is written under leases, as text.
    fn everything(&self) -> String {
        let tables = [
            "SELECT path, inode, order_id, size, version FROM threadseal_files ORDER BY path",
            "SELECT * FROM threadseal_chunks ORDER BY inode, at",
            "SELECT * FROM threadseal_known_heads ORDER BY record",
        ];
        tables.map(|sql| self.sql(sql)).concat()
    }
}

/// Puts a file in place whose contents are `x`.
fn put(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    atomic::replace(fs, path, b"x", Mode::Set(0o600))
}

#[test]
fn a_database_holds_files_and_folders_as_a_disk_does() {
    let Some(bench) = Bench::new() else { return };
    let lease = bench.take("a", LONG);
    let fs = bench.fs(Some(&lease));
    let folder = bench.path("one/two");
    atomic::create_directories(&fs, &folder, 0o700).unwrap();
    atomic::create_directories(&fs, &folder, 0o700).unwrap();
    let file = folder.join("f");
    assert!(fs.open(&file, Access::Read).is_err());
    atomic::create_new(&fs, &file, b"one", 0o600).unwrap();
    assert!(atomic::create_new(&fs, &file, b"x", 0o600).is_err());
    atomic::replace(&fs, &file, b"three", Mode::KeepOr(0o600)).unwrap();
    assert_eq!(read_small(&fs, &file, 100).unwrap(), b"three");
    let handle = fs.open(&file, Access::Append).unwrap();
    for piece in ["-4", "", "-five"] {
        assert_eq!(handle.append(piece.as_bytes()).unwrap(), piece.len());
    }
    let mut middle = [0; 4];
    assert_eq!(handle.read_at(&mut middle, 4).unwrap(), 4);
    assert_eq!(&middle, b"e-4-");
    handle.set_len(6).unwrap();
    handle.append(b"!").unwrap();
    assert_eq!(read_small(&fs, &file, 100).unwrap(), b"three-!");
    assert!(fs.open(&file, Access::Append).unwrap().try_lock().unwrap());
    assert!(handle.try_lock().unwrap());
    assert!(!fs.open(&file, Access::Append).unwrap().try_lock().unwrap());
    assert_eq!(fs.read_dir(&folder).unwrap(), ["f"]);
    // The folder above is one of the disk, and is empty.
    let root = bench.folder.path().canonicalize().unwrap();
    assert_eq!(fs.read_dir(&root).unwrap(), ["in"]);
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0);
    for odd in ["../up", "a/../../b"] {
        let made = fs.open(&bench.path(odd), Access::CreateNew(0o600));
        assert!(made.is_err(), "{odd}");
    }
    // Without a lease it is read-only.
    let reader = bench.fs(None);
    assert_eq!(read_small(&reader, &file, 100).unwrap(), b"three-!");
    for access in [
        Access::Append,
        Access::CreateNew(0o600),
        Access::OpenOrCreate(0o600),
    ] {
        let opened = reader.open(&folder.join("g"), access);
        assert!(opened.is_err(), "{access:?}");
    }
    assert!(reader.unlink(&file).is_err());
    fs.unlink(&file).unwrap();
    assert!(reader.metadata(&file).is_err());
    let chunks = bench.sql("SELECT count(*) FROM threadseal_chunks");
    assert_eq!(chunks, "0\n");
}

#[test]
fn a_ledger_of_lines_lies_in_a_database_whole() {
    let Some(bench) = Bench::new() else { return };
    let lease = bench.take("a", LONG);
    let run = RunId::parse("r").unwrap();
    let entry = |n: u32| Entry {
        line: format!("{{\"run_id\":\"r\",\"n\":{n}}}").into_bytes(),
        record_hash: None,
        idempotency_key: None,
        status: "started".to_owned(),
    };
    // Each time another process, from its own view.
    let open = || {
        let fs = Arc::new(bench.fs(Some(&lease)));
        JsonlLedgerStore::open(fs, &bench.path("l")).unwrap()
    };
    let mut tip = Tip::EMPTY;
    for n in 0..6 {
        let store = open();
        assert_eq!(store.tip(&run).unwrap().unwrap_or_default(), tip);
        match store.append_if(&run, &tip, &[entry(n)]).unwrap() {
            Append::Stored(stored) => tip = stored,
            Append::Differs(other) => panic!("{other:?}"),
        }
    }
    let store = open();
    assert_eq!(store.list_after(&run, 0, 100).unwrap().len(), 6);
    let report = store.fsck(&run, false).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
}

// T-FLT-01
#[test]
fn a_writer_whose_lease_expired_writes_nothing_more_whatever_its_clock_says() {
    let Some(bench) = Bench::new() else { return };
    let lease = bench.take("a", Duration::from_secs(2));
    let mut worker = bench.worker(&lease);
    // A clock that is ten years late makes a lease neither longer nor shorter.
    let late = Timestamp::from_micros(1_400_000_000_000_000).unwrap();
    worker.host.clock = Arc::new(ManualClock::new(late));
    let mut recorder = bench.create(&worker);
    say(&mut recorder, "one").unwrap();
    recorder.seal(1, Ext::default()).unwrap();
    lease.renew(SHORT).unwrap();
    std::thread::sleep(2 * SHORT);
    let before = bench.everything();
    assert!(say(&mut recorder, "two").is_err());
    assert!(recorder.seal(1, Ext::default()).is_err());
    drop(recorder);
    let fs = &worker.host.fs;
    assert!(put(&**fs, &bench.path("other")).is_err());
    assert!(fs.unlink(&bench.path("t.jsonl")).is_err());
    assert_eq!(bench.everything(), before);
    for refused in [
        lease.renew(LONG),
        lease.check(),
        lease.finish("x"),
        lease.give_up(),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Superseded);
    }
}

// T-FLT-02
#[test]
fn a_zombie_that_wakes_after_a_takeover_writes_neither_bytes_nor_heads() {
    let Some(bench) = Bench::new() else { return };
    let first = bench.take("a", SHORT);
    first.renew(LONG).unwrap();
    let zombies = bench.worker(&first);
    let mut zombie = bench.create(&zombies);
    say(&mut zombie, "sealed").unwrap();
    let head = zombie.seal(1, Ext::default()).unwrap();
    say(&mut zombie, "not sealed").unwrap();
    assert!(
        bench
            .orders
            .take("b", [9; 16], LONG, &[])
            .unwrap()
            .is_none()
    );
    first.renew(SHORT).unwrap();
    std::thread::sleep(2 * SHORT);
    let second = bench.take("b", LONG);
    assert_eq!((first.token(), second.token()), (1, 2));
    let worker = bench.worker(&second);
    let mut opened = bench.open(&worker).unwrap();
    assert!(opened.moved.is_some());
    say(&mut opened.recorder, "taken over").unwrap();
    let taken = opened.recorder.seal(1, Ext::default()).unwrap();
    let before = bench.everything();
    // The first one wakes, with all its open handles.
    assert!(say(&mut zombie, "late").is_err());
    let heads = &zombies.host.heads;
    let stored = heads.fetch(&head.record).unwrap().unwrap();
    let durable = crate::heads::Durability::Durable;
    assert!(heads.replace_if(&taken, &stored, durable).is_err());
    drop(zombie);
    assert_eq!(bench.everything(), before);
    let text = read_small(&*worker.host.fs, &bench.path("t.jsonl"), 1 << 20).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches(r#""ext":{"fence":1}"#).count(), 2);
    assert_eq!(text.matches(r#""ext":{"fence":2}"#).count(), 1);
}

// T-FLT-03
#[test]
fn two_workers_with_one_token_are_told_apart() {
    let Some(bench) = Bench::new() else { return };
    let lease = bench.take("a", LONG);
    let twin = lease.held_by([7; 16]);
    let mut recorder = bench.create(&bench.worker(&lease));
    let before = bench.everything();
    assert_eq!(twin.renew(LONG).unwrap_err().kind(), ErrorKind::Superseded);
    let refused = bench.refusal(&bench.worker(&twin));
    assert!(refused.contains("lease"), "{refused}");
    assert_eq!(bench.everything(), before);
    say(&mut recorder, "still mine").unwrap();
}

// T-FLT-04
#[test]
fn an_order_whose_token_was_set_back_cannot_go_on_with_its_record() {
    let Some(bench) = Bench::new() else { return };
    for _ in 0..2 {
        bench.take("a", LONG).give_up().unwrap();
    }
    let lease = bench.take("a", LONG);
    drop(bench.create(&bench.worker(&lease)));
    lease.give_up().unwrap();
    bench.sql("UPDATE threadseal_orders SET token = 0");
    let fallen = bench.take("b", LONG);
    let refused = bench.refusal(&bench.worker(&fallen));
    let reason = "fencing token 1 is lower than 3";
    assert!(refused.contains(reason), "{refused}");
}

// T-FLT-05
#[test]
fn bytes_that_somebody_put_into_a_file_stop_its_writer_and_are_set_aside() {
    let Some(bench) = Bench::new() else { return };
    let lease = bench.take("a", LONG);
    let worker = bench.worker(&lease);
    let mut recorder = bench.create(&worker);
    say(&mut recorder, "one").unwrap();
    bench.sql(
        "WITH line AS (SELECT convert_to(E'{\"event_type\":\"cognition_out\"}\\n', 'UTF8') AS bytes),
         file AS (UPDATE threadseal_files SET size = size + length(line.bytes), version = version + 1
                  FROM line WHERE path LIKE '%t.jsonl' RETURNING inode, size)
         INSERT INTO threadseal_chunks SELECT inode, size - length(bytes), bytes FROM file, line",
    );
    assert!(say(&mut recorder, "two").is_err());
    assert!(recorder.seal(1, Ext::default()).is_err());
    drop(recorder);
    // It writes nothing else either.
    let beside = put(&*worker.host.fs, &bench.path("beside"));
    assert!(beside.unwrap_err().to_string().contains("has stopped"));
    // Another process, from its own view.
    let opened = bench.open(&bench.worker(&lease)).unwrap();
    assert!(opened.moved.unwrap().length > 0);
    // This order may not write or replace a file of another order.
    bench.orders.put("{}").unwrap();
    let other = bench.fs(Some(&bench.take("b", LONG)));
    let path = bench.path("t.jsonl");
    let handle = other.open(&path, Access::Append).unwrap();
    assert!(handle.append(b"x").is_err());
    assert!(put(&other, &path).is_err());
    assert!(other.unlink(&path).is_err());
}

#[test]
fn of_many_who_make_the_tables_and_take_orders_each_order_is_one_workers() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.fresh();
    let taken: Vec<i64> = std::thread::scope(|scope| {
        let work = |n| {
            let url = &url;
            scope.spawn(move || {
                let database = PostgresDatabase::open(url).unwrap();
                let orders = Orders::open(&database).unwrap();
                let (real, root) = (RealFs::shared(), Path::new("/"));
                LeasedFs::open(&database, None, real, root, &["x"]).unwrap();
                orders.put("{}").unwrap();
                orders.put("{}").unwrap();
                let take = || orders.take("w", [n; 16], LONG, &[]).unwrap();
                let taken = std::iter::from_fn(take);
                taken.map(|taken| taken.lease.order()).collect::<Vec<_>>()
            })
        };
        let workers: Vec<_> = (0_u8..6).map(work).collect();
        let orders = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap());
        orders.collect()
    });
    let distinct: BTreeSet<i64> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (12, 12));
}
