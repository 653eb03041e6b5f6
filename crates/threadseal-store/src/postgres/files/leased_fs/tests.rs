//! Records in a database: written as on a disk, by the holder of the lease and by no other process.

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::host::Host;
use crate::ledger::{Append, Entry, JsonlLedgerStore, LedgerStore, Tip};
use crate::postgres::leases::Orders;
use crate::postgres::throwaway::{Cluster, database_of};
use crate::postgres::{PostgresHeadStore, PostgresTables};
use crate::random::SystemRandom;
use crate::read::read_small;
use crate::recorder::{Keys, Recorder, TailPolicy};
use crate::sys::RealFs;
use std::time::Duration;
use threadseal_core::error::ErrorKind;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::ledger::RunId;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(40);

/// A database, a folder that begins in it, keys.
struct Bench {
    url: String,
    database: PostgresDatabase,
    orders: Orders,
    folder: tempfile::TempDir,
    keys: Keys,
    trust: Trust,
}

impl Bench {
    fn new(cluster: &Cluster) -> Self {
        let url = cluster.fresh();
        let database = PostgresDatabase::open(&url).unwrap();
        let key =
            |seed, usage| Arc::new(LocalSigner::new(PrivateKey::from_seed([seed; 32]), usage));
        let native = key(1, KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("self").unwrap();
        let trusted = TrustedKey::new(name, *native.public_key(), [KeyUsage::Native]);
        store.add(trusted).unwrap();
        Self {
            orders: Orders::open(&database).unwrap(),
            url,
            database,
            folder: tempfile::tempdir().unwrap(),
            keys: Keys {
                native,
                rye: key(2, KeyUsage::Rye),
                epochs: None,
            },
            trust: Trust::new(store),
        }
    }

    fn take(&self, worker: &str, lasts: Duration) -> Lease {
        let holder = [worker.as_bytes()[0]; 16];
        self.orders
            .take(worker, holder, lasts)
            .unwrap()
            .unwrap()
            .lease
    }

    fn fs(&self, lease: Option<&Lease>) -> LeasedFs {
        let (root, real) = (self.folder.path(), RealFs::shared());
        LeasedFs::open(&self.database, lease.cloned(), real, root, &["in/db"]).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder
            .path()
            .canonicalize()
            .unwrap()
            .join("in/db")
            .join(name)
    }

    fn host(&self, lease: &Lease) -> Host {
        let tables = PostgresTables::make(&self.database).unwrap();
        Host {
            fs: Arc::new(self.fs(Some(lease))),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            heads: Arc::new(PostgresHeadStore::leased(tables, lease.clone())),
        }
    }

    fn create(&self, host: &Host) -> Recorder {
        let (native, rye) = (*self.keys.native.public_key(), *self.keys.rye.public_key());
        let manifest = Manifest::new(host.new_record().unwrap(), native, rye);
        let (path, thread) = (self.path("t.jsonl"), ThreadId::parse("t/1").unwrap());
        Recorder::create(host.clone(), &path, thread, manifest, self.keys.clone()).unwrap()
    }

    fn open(&self, host: &Host) -> Result<crate::recorder::Opened, Error> {
        let options = VerifyOptions {
            trust: &self.trust,
            now: host.clock.now().unwrap(),
            held_since: None,
            thread: None,
        };
        let (path, keys) = (self.path("t.jsonl"), self.keys.clone());
        Recorder::open(host.clone(), &path, keys, &options, TailPolicy::SetAside)
    }

    fn sql(&self, cluster: &Cluster, sql: &str) -> String {
        cluster.sql(database_of(&self.url), sql)
    }

    /// Everything that is written under leases, as text.
    fn everything(&self, cluster: &Cluster) -> String {
        let tables = [
            "SELECT path, inode, order_id, size, version FROM threadseal_files ORDER BY path",
            "SELECT * FROM threadseal_chunks ORDER BY inode, at",
            "SELECT * FROM threadseal_known_heads ORDER BY record",
        ];
        tables.map(|sql| self.sql(cluster, sql)).concat()
    }
}

fn event(recorder: &mut Recorder, text: &str) -> Result<(), Error> {
    let payload = format!("{{\"text\":\"{text}\"}}");
    recorder.append(
        &EventType::parse("cognition_out").unwrap(),
        &Payload::parse(payload.as_bytes()).unwrap(),
    )
}

#[test]
fn a_database_holds_files_and_folders_as_a_disk_does() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    let lease = bench.take("a", LONG);
    let fs = bench.fs(Some(&lease));
    let folder = bench.path("one/two");
    crate::atomic::create_directories(&fs, &folder, 0o700).unwrap();
    crate::atomic::create_directories(&fs, &folder, 0o700).unwrap();
    let file = folder.join("f");
    assert!(fs.open(&file, Access::Read).is_err());
    crate::atomic::create_new(&fs, &file, b"one", 0o600).unwrap();
    assert!(crate::atomic::create_new(&fs, &file, b"x", 0o600).is_err());
    crate::atomic::replace(&fs, &file, b"three", crate::atomic::Mode::KeepOr(0o600)).unwrap();
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
        assert!(
            fs.open(&bench.path(odd), Access::CreateNew(0o600)).is_err(),
            "{odd}"
        );
    }
    // Without a lease it is read-only.
    let reader = bench.fs(None);
    assert_eq!(read_small(&reader, &file, 100).unwrap(), b"three-!");
    for access in [
        Access::Append,
        Access::CreateNew(0o600),
        Access::OpenOrCreate(0o600),
    ] {
        assert!(
            reader.open(&folder.join("g"), access).is_err(),
            "{access:?}"
        );
    }
    assert!(reader.unlink(&file).is_err());
    fs.unlink(&file).unwrap();
    assert!(reader.metadata(&file).is_err());
    assert_eq!(
        bench.sql(cluster, "SELECT count(*) FROM threadseal_chunks"),
        "0\n"
    );
}

#[test]
fn a_ledger_of_lines_lies_in_a_database_whole() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    let lease = bench.take("a", LONG);
    let run = RunId::parse("r").unwrap();
    let entry = |n: u32| Entry {
        line: format!("{{\"run_id\":\"r\",\"n\":{n}}}").into_bytes(),
        record_hash: None,
        idempotency_key: None,
        status: "started".to_owned(),
    };
    let mut tip = Tip::EMPTY;
    for n in 0..6 {
        // Each time another process, from its own view.
        let store =
            JsonlLedgerStore::open(Arc::new(bench.fs(Some(&lease))), &bench.path("l")).unwrap();
        assert_eq!(store.tip(&run).unwrap().unwrap_or_default(), tip);
        match store.append_if(&run, &tip, &[entry(n)]).unwrap() {
            Append::Stored(stored) => tip = stored,
            Append::Differs(other) => panic!("{other:?}"),
        }
    }
    let store = JsonlLedgerStore::open(Arc::new(bench.fs(Some(&lease))), &bench.path("l")).unwrap();
    assert_eq!(store.list_after(&run, 0, 100).unwrap().len(), 6);
    let report = store.fsck(&run, false).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
}

// T-FLT-01
#[test]
fn a_writer_whose_lease_expired_writes_nothing_more_whatever_its_clock_says() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    let lease = bench.take("a", Duration::from_secs(2));
    let mut host = bench.host(&lease);
    // A clock that is ten years late makes a lease neither longer nor shorter.
    let late = Timestamp::from_micros(1_400_000_000_000_000).unwrap();
    host.clock = Arc::new(ManualClock::new(late));
    let mut recorder = bench.create(&host);
    event(&mut recorder, "one").unwrap();
    recorder.seal(1, Ext::default()).unwrap();
    lease.renew(SHORT).unwrap();
    std::thread::sleep(2 * SHORT);
    let before = bench.everything(cluster);
    assert!(event(&mut recorder, "two").is_err());
    assert!(recorder.seal(1, Ext::default()).is_err());
    drop(recorder);
    let path = bench.path("other");
    assert!(
        crate::atomic::replace(&*host.fs, &path, b"x", crate::atomic::Mode::Set(0o600)).is_err()
    );
    assert!(host.fs.unlink(&bench.path("t.jsonl")).is_err());
    assert_eq!(bench.everything(cluster), before);
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
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    let first = bench.take("a", SHORT);
    first.renew(LONG).unwrap();
    let zombie_host = bench.host(&first);
    let mut zombie = bench.create(&zombie_host);
    event(&mut zombie, "sealed").unwrap();
    let head = zombie.seal(1, Ext::default()).unwrap();
    event(&mut zombie, "not sealed").unwrap();
    assert!(bench.orders.take("b", [9; 16], LONG).unwrap().is_none());
    first.renew(SHORT).unwrap();
    std::thread::sleep(2 * SHORT);
    let second = bench.take("b", LONG);
    assert_eq!((first.token(), second.token()), (1, 2));
    let host = bench.host(&second);
    let mut opened = bench.open(&host).unwrap();
    assert!(opened.moved.is_some());
    event(&mut opened.recorder, "taken over").unwrap();
    let taken = opened.recorder.seal(1, Ext::default()).unwrap();
    let before = bench.everything(cluster);
    // The first one wakes, with all its open handles.
    assert!(event(&mut zombie, "late").is_err());
    let stored = zombie_host.heads.fetch(&head.record).unwrap().unwrap();
    let swapped = zombie_host
        .heads
        .replace_if(&taken, &stored, crate::heads::Durability::Durable);
    assert!(swapped.is_err());
    drop(zombie);
    assert_eq!(bench.everything(cluster), before);
    let text = read_small(&*host.fs, &bench.path("t.jsonl"), 1 << 20).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches(r#""ext":{"fence":1}"#).count(), 2);
    assert_eq!(text.matches(r#""ext":{"fence":2}"#).count(), 1);
}

// T-FLT-03
#[test]
fn two_workers_with_one_token_are_told_apart() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    let lease = bench.take("a", LONG);
    let twin = lease.held_by([7; 16]);
    let mut recorder = bench.create(&bench.host(&lease));
    let before = bench.everything(cluster);
    assert_eq!(twin.renew(LONG).unwrap_err().kind(), ErrorKind::Superseded);
    let host = bench.host(&twin);
    let Err(refused) = bench.open(&host) else {
        panic!("a stranger opened the record");
    };
    assert!(refused.to_string().contains("lease"), "{refused}");
    assert_eq!(bench.everything(cluster), before);
    event(&mut recorder, "still mine").unwrap();
}

// T-FLT-04
#[test]
fn an_order_whose_token_was_set_back_cannot_go_on_with_its_record() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    for _ in 0..2 {
        bench.take("a", LONG).give_up().unwrap();
    }
    let lease = bench.take("a", LONG);
    drop(bench.create(&bench.host(&lease)));
    lease.give_up().unwrap();
    bench.sql(cluster, "UPDATE threadseal_orders SET token = 0");
    let fallen = bench.take("b", LONG);
    let Err(refused) = bench.open(&bench.host(&fallen)) else {
        panic!("a lower token went on");
    };
    assert!(
        refused
            .to_string()
            .contains("fencing token 1 is lower than 3"),
        "{refused}"
    );
}

// T-FLT-05
#[test]
fn bytes_that_somebody_put_into_a_file_stop_its_writer_and_are_set_aside() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let bench = Bench::new(cluster);
    bench.orders.put("{}").unwrap();
    let lease = bench.take("a", LONG);
    let host = bench.host(&lease);
    let mut recorder = bench.create(&host);
    event(&mut recorder, "one").unwrap();
    bench.sql(
        cluster,
        "WITH line AS (SELECT convert_to(E'{\"event_type\":\"cognition_out\"}\\n', 'UTF8') AS bytes),
         file AS (UPDATE threadseal_files SET size = size + length(line.bytes), version = version + 1
                  FROM line WHERE path LIKE '%t.jsonl' RETURNING inode, size)
         INSERT INTO threadseal_chunks SELECT inode, size - length(bytes), bytes FROM file, line",
    );
    assert!(event(&mut recorder, "two").is_err());
    assert!(recorder.seal(1, Ext::default()).is_err());
    drop(recorder);
    // It writes nothing else either.
    let beside = crate::atomic::replace(
        &*host.fs,
        &bench.path("beside"),
        b"x",
        crate::atomic::Mode::Set(0o600),
    );
    assert!(beside.unwrap_err().to_string().contains("has stopped"));
    // Another process, from its own view.
    let opened = bench.open(&bench.host(&lease)).unwrap();
    assert!(opened.moved.unwrap().length > 0);
    // This order may not write or replace a file of another order.
    bench.orders.put("{}").unwrap();
    let other = bench.fs(Some(&bench.take("b", LONG)));
    let path = bench.path("t.jsonl");
    assert!(
        other
            .open(&path, Access::Append)
            .unwrap()
            .append(b"x")
            .is_err()
    );
    assert!(crate::atomic::replace(&other, &path, b"x", crate::atomic::Mode::Set(0o600)).is_err());
    assert!(other.unlink(&path).is_err());
}

#[test]
fn of_many_who_make_the_tables_and_take_orders_each_order_is_one_workers() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.fresh();
    let taken: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0_u8..6)
            .map(|n| {
                let url = &url;
                scope.spawn(move || {
                    let database = PostgresDatabase::open(url).unwrap();
                    let orders = Orders::open(&database).unwrap();
                    LeasedFs::open(&database, None, RealFs::shared(), Path::new("/"), &["x"])
                        .unwrap();
                    orders.put("{}").unwrap();
                    orders.put("{}").unwrap();
                    let mut mine = Vec::new();
                    while let Some(taken) = orders.take("w", [n; 16], LONG).unwrap() {
                        mine.push(taken.lease.order());
                    }
                    mine
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let distinct: BTreeSet<i64> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (12, 12));
}
