//! Chains over stores: whole under races, restarts, lost answers and rolled back files.

use super::*;
use crate::clock::ManualClock;
use crate::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call};
use crate::heads::MemoryHeadStore;
use crate::key_ends::NoKeyEnds;
use crate::ledger::{Answer, ArtifactStore as _};
use crate::ledger::{
    FsckReport, JsonlLedgerStore, LedgerStoreExt as _, MemoryArtifacts, MemoryLedgerStore,
    Observable, Offloading, RunRecorder, Step, StoredRecord, Tombstone, artifact_id,
};
use crate::random::SeededRandom;
use crate::sys::RealFs;
use crate::testing::{EndingKeys, signer};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use threadseal_core::canon::json::Text;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{
    Effect, GENESIS_EFFECT, Genesis, StepStatus, WaitReason, WaitState,
};

fn run() -> RunId {
    RunId::parse("run").unwrap()
}

fn host() -> Host {
    let now = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
    Host {
        fs: RealFs::shared(),
        clock: Arc::new(ManualClock::new(now)),
        random: Arc::new(SeededRandom::new(3)),
        heads: Arc::new(MemoryHeadStore::default()),
        keys: Arc::new(NoKeyEnds),
    }
}

fn record(text: &str) -> StepRecord {
    let at = Timestamp::from_micros(1_800_000_000_000_001).unwrap();
    let payload = Value::Object(vec![("text".into(), text.into())]);
    let mut record = StepRecord::start(run(), text, "node", Some(Effect::new("e", payload)), at);
    record.finish_success(Some(text.into()), at);
    record
}

fn append(ledger: &impl ChainedLedger, text: &str) -> Result<Appended, Error> {
    ledger.append(&record(text))
}

/// Recomputes every hash from the stored bytes, as a verifier does.
fn hold(store: &dyn LedgerStore) -> u64 {
    let (run, mut prev, mut count) = (run(), None, 0);
    for stored in store.list(&run, 0) {
        let line = stored.unwrap().line;
        let value = parse_python(&line).unwrap().value;
        let record = StepRecord::from_value(value.clone()).unwrap();
        assert_eq!(record.prev_hash, prev);
        let hash = compute_record_hash(&value, prev.as_ref()).unwrap();
        assert_eq!(record.record_hash, Some(hash));
        prev = Some(hash);
        count += 1;
    }
    count
}

/// A store that loses answers; it does the requested work, or not.
#[derive(Debug)]
struct Losing<S> {
    store: S,
    does_it: AtomicBool,
    loses: AtomicBool,
}

impl<S: LedgerStore> LedgerStore for Losing<S> {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        self.store.tip(run)
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        if self.loses.swap(false, Ordering::SeqCst) {
            if self.does_it.load(Ordering::SeqCst) {
                let _ = self.store.append_if(run, expected, entries)?;
            }
            return Err(Error::new(ErrorKind::External, "the answer was lost"));
        }
        self.store.append_if(run, expected, entries)
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        self.store.list_after(run, after, limit)
    }

    fn find_completed(&self, run: &RunId, key: &str) -> Result<Option<StoredRecord>, Error> {
        self.store.find_completed(run, key)
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        self.store.runs(after, limit)
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        self.store.delete(run, expected, at)
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        self.store.tombstone(run)
    }

    fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
        self.store.fsck(run, repair)
    }
}

#[test]
fn every_record_names_the_one_before_it_and_the_callers_stay_as_they_were() {
    let ledger = HashChainedLedgerStore::new(MemoryLedgerStore::new());
    let records = ["a", "b", "c"].map(record);
    let given = records.clone();
    let appended = ledger.append_batch(&run(), &records).unwrap();
    assert_eq!(records, given);
    let [first, second, third] = &appended.records[..] else {
        panic!()
    };
    let tip = Tip {
        count: 3,
        hash: third.record_hash,
    };
    assert_eq!(appended.tip, tip);
    assert_eq!(second.prev_hash, first.record_hash);
    append(&ledger, "d").unwrap();
    assert_eq!(hold(ledger.records()), 4);
    let mut other = record("x");
    other.run_id = RunId::parse("other").unwrap();
    let refused = ledger.append_batch(&run(), &[record("y"), other]);
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(hold(ledger.records()), 4);
}

#[test]
fn a_large_batch_is_signed_in_order_and_a_signer_that_fails_stops_all_of_it() {
    #[derive(Debug)]
    struct Picky(LocalSigner);
    impl RecordSigner for Picky {
        fn sign(&self, record: &StepRecord, hash: &Digest) -> Result<Option<String>, Error> {
            match record.step_id.as_str() {
                "spoiled" => Err(Error::key("not this one")),
                _ => Ok(Some(RecordSignature::sign(hash, &self.0)?.to_string())),
            }
        }
    }
    let key = signer(7, KeyUsage::Native);
    let public = *key.public_key();
    let ledger =
        HashChainedLedgerStore::new(MemoryLedgerStore::new()).with_signer(Arc::new(Picky(key)));
    let mut records: Vec<_> = (0..1000).map(|n| record(&n.to_string())).collect();
    let appended = ledger.append_batch(&run(), &records).unwrap();
    for (number, record) in appended.records.iter().enumerate() {
        assert_eq!(record.step_id, number.to_string());
        let signature = RecordSignature::parse(record.signature.as_ref().unwrap()).unwrap();
        assert!(signature.holds(&record.record_hash.unwrap(), &public));
    }
    assert_eq!(hold(ledger.records()), 1000);
    records[777].step_id = "spoiled".into();
    let error = ledger.append_batch(&run(), &records).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Key);
    assert_eq!(hold(ledger.records()), 1000);
}

#[test]
fn a_restart_goes_on_where_the_chain_ends() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..4 {
        let store = JsonlLedgerStore::open(RealFs::shared(), folder.path()).unwrap();
        let ledger = HashChainedLedgerStore::new(store);
        append(&ledger, &format!("{number}a")).unwrap();
        append(&ledger, &format!("{number}b")).unwrap();
        assert_eq!(hold(ledger.records()), 2 * number + 2);
    }
}

#[test]
fn several_ledgers_over_one_store_in_many_threads_make_one_chain() {
    let store = Arc::new(MemoryLedgerStore::new());
    let ledgers = [0; 3].map(|_| HashChainedLedgerStore::new(Arc::clone(&store)));
    thread::scope(|scope| {
        for ledger in ledgers.iter().chain(&ledgers) {
            scope.spawn(move || {
                for number in 0..50 {
                    append(ledger, &number.to_string()).unwrap();
                }
            });
        }
    });
    assert_eq!(hold(&store), 300);
}

#[test]
fn a_lost_answer_is_no_lost_and_no_second_record() {
    for does_it in [true, false] {
        let ledger = HashChainedLedgerStore::new(Losing {
            store: MemoryLedgerStore::new(),
            does_it: does_it.into(),
            loses: true.into(),
        });
        assert_eq!(append(&ledger, "a").is_ok(), does_it);
        append(&ledger, "b").unwrap();
        assert_eq!(hold(ledger.records()), if does_it { 2 } else { 1 });
    }
}

#[test]
fn a_ledger_that_is_not_chained_is_not_gone_on_with() {
    let store = MemoryLedgerStore::new();
    let entry = Entry {
        line: b"{}".to_vec(),
        record_hash: None,
        idempotency_key: None,
        status: "started".into(),
    };
    let _ = store.append_if(&run(), &Tip::EMPTY, &[entry]).unwrap();
    let ledger = HashChainedLedgerStore::new(store);
    assert_eq!(append(&ledger, "a").unwrap_err().kind(), ErrorKind::Refused);
}

/// W1, with the heads of a host.
// T-STO-03
#[test]
fn a_ledger_behind_the_head_that_this_host_knows_takes_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (host, path) = (host(), folder.path().join("ledger_run.jsonl"));
    let open = || {
        let store = JsonlLedgerStore::open(RealFs::shared(), folder.path()).unwrap();
        HashChainedLedgerStore::new(store).with_host(host.clone())
    };
    // Without the index only the head shows that there were more records.
    let forget_index = || drop(std::fs::remove_file(folder.path().join("ledger_run.index")));
    append(&open(), "a").unwrap();
    let older = std::fs::read(&path).unwrap();
    let last = append(&open(), "b").unwrap();
    assert_eq!(last.unpublished, None);
    let place = open().records().place_of(&run()).unwrap();
    // Nothing signed binds the ledger to its run in other places.
    let record = record_in_place(&run().record_id(), &place);
    assert_eq!(host.heads.fetch(&run().record_id()), Ok(None));
    let head = || host.heads.fetch(&record).unwrap().unwrap();
    let known = head();
    let facts = (known.kind, known.head.seq, known.head.size);
    assert_eq!(facts, (RecordKind::Ledger, 1, 2));
    assert_eq!(Some(known.head.line), last.tip.hash);
    let newer = std::fs::read(&path).unwrap();

    forget_index();
    std::fs::write(&path, &older).unwrap();
    let refused = append(&open(), "c").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("rolled back"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), older);

    // Another continuation of the same beginning, as long or longer.
    for more in [1, 2] {
        forget_index();
        std::fs::write(&path, &older).unwrap();
        let store = JsonlLedgerStore::open(RealFs::shared(), folder.path()).unwrap();
        let stranger = HashChainedLedgerStore::new(store);
        for number in 0..more {
            append(&stranger, &format!("forged {number}")).unwrap();
        }
        let refused = append(&open(), "c").unwrap_err();
        assert!(refused.to_string().contains("forked"), "{refused}");
    }
    forget_index();
    std::fs::write(&path, newer).unwrap();
    append(&open(), "c").unwrap();
    assert_eq!(head().head.seq, 2);
}

type OnDisk = HashChainedLedgerStore<JsonlLedgerStore>;

/// A ledger on this disk.
fn on_disk(disk: &FaultFs, host: &Host) -> OnDisk {
    let store = JsonlLedgerStore::open(disk.shared(), Path::new("/ledgers")).unwrap();
    HashChainedLedgerStore::new(store)
        .with_signer(Arc::new(TestSigner))
        .with_host(host.clone())
}

/// The recorder of a run that has begun there.
fn begun(disk: &FaultFs, host: &Host) -> RunRecorder<OnDisk> {
    let genesis = Genesis::new(host.new_record().unwrap(), host.clock.now().unwrap());
    let (ledger, actor) = (on_disk(disk, host), Some("agent".to_owned()));
    let begun = RunRecorder::create(ledger, host.clone(), run(), actor, None, &genesis);
    begun.unwrap().with_held_ends()
}

/// How many records the head that a host knows covers.
fn covered(host: &Host) -> u64 {
    let known = host.heads.fetch(&run().record_id()).unwrap();
    known.map_or(0, |known| known.head.size)
}

/// A request, its answer, a batch of two calls, and their results.
fn turn(recorder: &RunRecorder<OnDisk>) -> Result<(), Error> {
    let asked = recorder.note_start(Step::new("ask", None))?;
    recorder.succeed(asked, None)?;
    for step in recorder.start_all(vec![Step::new("call", None), Step::new("call", None)])? {
        recorder.succeed(step, None)?;
    }
    Ok(())
}

// T-STO-39
#[test]
fn a_batch_of_starts_costs_one_sync_with_all_that_waits() {
    let (disk, host) = (FaultFs::new(), host());
    let recorder = begun(&disk, &host);
    let syncs = |work: &dyn Fn() -> Result<(), Error>| {
        disk.plan(usize::MAX, FaultKind::Io);
        work().unwrap();
        let called = disk.called();
        called.iter().filter(|call| call.contains("sync")).count()
    };
    for number in 0..5 {
        assert_eq!(syncs(&|| turn(&recorder)), 1);
        // The results of the last batch wait.
        assert_eq!(covered(&host), 1 + 6 * (number + 1) - 2);
    }
    let flush = || recorder.flush();
    assert_eq!((syncs(&flush), syncs(&flush)), (1, 0));
    assert_eq!(covered(&host), 31);
    let note = || recorder.note_start(Step::new("ask", None)).map(drop);
    assert_eq!((1..70).map(|_| syncs(&note)).sum::<usize>(), 1);
    assert_eq!(covered(&host), 31 + 64);
    disk.cut_power(Keep::Nothing);
    assert_eq!(hold(on_disk(&disk, &host).records()), 31 + 64);
}

// T-STO-39
#[test]
fn power_that_goes_within_a_turn_leaves_each_start_and_no_head_ahead() {
    let survives = |call, kind, end: Option<Keep>| {
        let (disk, host) = (FaultFs::new(), host());
        let recorder = begun(&disk, &host);
        disk.plan(call, kind);
        let mut turns = 0;
        let mut done = Ok(());
        while turns < 3 && done.is_ok() {
            done = turn(&recorder);
            turns += u64::from(done.is_ok());
        }
        let done = done.and_then(|()| recorder.flush());
        let struck = disk.struck().is_some();
        assert!(struck || done.is_ok());
        disk.end(end);
        let what = format!("call {call}, {kind:?}, {end:?}, {done:?}");
        // Before a writer settles the end, a reader finds whole records, and at most a torn end.
        let found = disk
            .bytes_of(Path::new("/ledgers/ledger_run.jsonl"))
            .unwrap();
        let lines = found.split_inclusive(|byte| *byte == b'\n');
        let whole = lines.filter(|line| line.ends_with(b"\n"));
        let records = whole.map(|line| parse_python(line.trim_ascii_end()).map(drop));
        let records = records.collect::<Result<Vec<_>, _>>();
        let count = records.unwrap_or_else(|why| panic!("{what}: {why}")).len() as u64;
        let known = covered(&host);
        assert!(
            count >= known && known + 2 > 6 * turns,
            "{what}: {count} {known}"
        );
        // A head that names what is gone would refuse this.
        let again = RunRecorder::resume(on_disk(&disk, &host), host.clone(), run(), None, None);
        again.start(Step::new("more", None)).map(drop).expect(&what);
        assert!(hold(on_disk(&disk, &host).records()) > known, "{what}");
        struck
    };
    fail_each_call(12, |call, _| ends(call), survives);
}

#[test]
fn a_ledger_that_is_put_back_under_a_running_process_is_noticed() {
    let store = Arc::new(Losing {
        store: MemoryLedgerStore::new(),
        does_it: true.into(),
        loses: false.into(),
    });
    let ledger = HashChainedLedgerStore::new(Arc::clone(&store));
    let stored = append(&ledger, "a").unwrap();
    append(&ledger, "b").unwrap();
    let other = MemoryLedgerStore::new();
    let entries = ledger.chain(&run(), &Tip::EMPTY, &["a", "x", "y"].map(record));
    let entries = entries.unwrap().into_iter();
    let entries: Vec<_> = entries.map(|(_, entry)| entry).collect();
    let _ = other.append_if(&run(), &Tip::EMPTY, &entries).unwrap();
    let known = ledger.remembered(&run());
    let floor = known.lock().unwrap().floor;
    assert_eq!(floor.count, 2);
    let replaced = HashChainedLedgerStore::new(other);
    let tip = replaced.store.tip(&run()).unwrap().unwrap();
    let contains = |tip, floor| replaced.check_contains(&run(), tip, floor).is_ok();
    assert!(!contains(&tip, &floor));
    assert!(contains(&tip, &stored.tip));
    assert!(!contains(&stored.tip, &floor));
}

#[derive(Debug)]
struct TestSigner;

impl RecordSigner for TestSigner {
    fn sign(&self, record: &StepRecord, hash: &Digest) -> Result<Option<String>, Error> {
        assert_eq!(record.record_hash, Some(*hash));
        if record.actor_id.as_deref() == Some("locked") {
            return Err(Error::key("the key is locked"));
        }
        Ok((record.actor_id.as_deref() == Some("agent")).then(|| format!("by agent {hash}")))
    }
}

// T-STO-08
#[test]
fn each_actor_signs_with_its_own_key_and_nobody_for_another() {
    let key = |seed| signer(seed, KeyUsage::Native);
    let signers = ActorSigners::new()
        .with("ar_agent", Arc::new(key(1)))
        .with("ar_human", Arc::new(key(2)));
    let ledger =
        HashChainedLedgerStore::new(MemoryLedgerStore::new()).with_signer(Arc::new(signers));
    for (actor, seed) in [
        ("ar_agent", Some(1)),
        ("ar_human", Some(2)),
        ("ar_other", None),
    ] {
        let mut record = record("a");
        record.actor_id = Some(actor.to_owned());
        let stored = ledger.append(&record).unwrap().records.remove(0);
        let signature = stored.signature.as_deref().and_then(RecordSignature::parse);
        let by = seed.map(key);
        assert_eq!(signature.is_some(), by.is_some());
        if let (Some(signature), Some(by)) = (signature, by) {
            assert!(signature.holds(&stored.record_hash.unwrap(), by.public_key()));
        }
    }
}

#[test]
fn a_signature_is_stored_beside_the_hash_and_a_key_that_fails_stores_nothing() {
    let store = MemoryLedgerStore::new();
    let ledger = HashChainedLedgerStore::new(store).with_signer(Arc::new(TestSigner));
    let by = |actor: &str| {
        let mut record = record("a");
        record.actor_id = Some(actor.to_owned());
        record.signature = Some("left over".to_owned());
        ledger.append(&record)
    };
    let signed = by("agent").unwrap().records.remove(0);
    let hash = signed.record_hash.unwrap();
    assert_eq!(signed.signature, Some(format!("by agent {hash}")));
    assert_eq!(by("human").unwrap().records[0].signature, None);
    assert_eq!(by("locked").unwrap_err().kind(), ErrorKind::Key);
    assert_eq!(hold(ledger.records()), 2);
    let stored = ledger.records().list_after(&run(), 0, 1).unwrap();
    assert_eq!(stored[0].line, signed.to_line().unwrap());
}

/// W12: chained outside the offloading, every record would be a false alarm.
// T-STO-04
#[test]
fn long_texts_lie_elsewhere_and_the_chain_holds() {
    let chained = HashChainedLedgerStore::new(MemoryLedgerStore::new());
    let ledger = Offloading::new(chained, MemoryArtifacts::default()).with_max_inline(10);
    let long = "a text of more than ten bytes";
    let stored = append(&ledger, long).unwrap().records.remove(0);
    let id = artifact_id(&run(), long.as_bytes());
    let marker = Value::Object(vec![(Text::from("$artifact"), id.as_str().into())]);
    assert_eq!(stored.result, Some(marker.clone()));
    assert_eq!(stored.effect.unwrap().payload.get("text"), Some(&marker));
    let artifact = ledger.artifacts().get(&run(), &id).unwrap();
    assert_eq!(artifact, long.as_bytes());
    append(&ledger, "short").unwrap();
    assert_eq!(hold(ledger.records()), 2);
}

// T-STO-10
#[test]
fn artifacts_in_files_are_what_their_names_say_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = crate::ledger::FileArtifacts::open(RealFs::shared(), folder.path()).unwrap();
    let id = artifacts.put(&run(), b"content").unwrap();
    assert_eq!(artifacts.get(&run(), &id).unwrap(), b"content");
    std::fs::write(folder.path().join(format!("{id}.bin")), "changed").unwrap();
    let kind_of = |id: &str| artifacts.get(&run(), id).unwrap_err().kind();
    assert_eq!(kind_of(&id), ErrorKind::Refused);
    for absent in ["../x", "", &"0".repeat(32)] {
        assert_eq!(kind_of(absent), ErrorKind::InvalidInput);
    }
}

#[test]
fn observers_see_hashes_and_cannot_harm_the_ledger() {
    let chained = HashChainedLedgerStore::new(MemoryLedgerStore::new());
    let ledger = Observable::new(chained);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let id = ledger.observe(Some(run()), move |record| {
        sink.lock().unwrap().push(record.record_hash.unwrap());
    });
    ledger.observe(Some(RunId::parse("other").unwrap()), |_| unreachable!());
    ledger.observe(None, |_| panic!("an observer's own affair"));
    let first = append(&ledger, "a").unwrap();
    ledger.forget(id);
    append(&ledger, "b").unwrap();
    assert_eq!(*seen.lock().unwrap(), [first.tip.hash.unwrap()]);
    assert_eq!(hold(ledger.records()), 2);
}

// T-STO-08
#[test]
fn a_recorder_stamps_every_record_and_names_whoever_answers() {
    let store = Arc::new(MemoryLedgerStore::new());
    let ledger = Arc::new(HashChainedLedgerStore::new(Arc::clone(&store)));
    let (host, actor) = (host(), Some("ar_agent".to_owned()));
    let begin = || {
        let id = host.new_record().unwrap();
        let genesis = Genesis::new(id, host.clock.now().unwrap());
        let (ledger, host, actor) = (Arc::clone(&ledger), host.clone(), actor.clone());
        RunRecorder::create(ledger, host, run(), actor, Some("s".to_owned()), &genesis)
    };
    let recorder = begin().unwrap();
    assert_eq!(begin().unwrap_err().kind(), ErrorKind::Refused);
    let step = |key: &str| {
        let mut step = Step::new("node", Some(Effect::new("llm_call", Value::Null)));
        step.idempotency_key = Some(key.to_owned());
        recorder.start(step).unwrap()
    };
    recorder.succeed(step("k1"), Some("done".into())).unwrap();
    recorder.fail(step("k2"), "no").unwrap();
    recorder.cancel(step("k3"), Vec::new()).unwrap();
    recorder
        .wait(step("k4"), &WaitState::new(WaitReason::User))
        .unwrap();
    let answer = Answer {
        node_id: "node".to_owned(),
        actor_id: "ar_human".to_owned(),
        payload: "yes".into(),
    };
    recorder.resumed_by(answer).unwrap();
    assert_eq!(hold(&store), 10);
    let records: Vec<StepRecord> = store
        .list(&run(), 0)
        .map(|stored| parse_python(&stored.unwrap().line).unwrap().value)
        .map(|value| StepRecord::from_value(value).unwrap())
        .collect();
    assert_eq!(records[0].effect.as_ref().unwrap().kind, GENESIS_EFFECT);
    for pair in records[1..9].chunks(2) {
        assert_eq!(pair[0].status, StepStatus::Started);
        assert_ne!(pair[1].status, StepStatus::Started);
        assert_eq!(pair[0].step_id, pair[1].step_id);
        assert_eq!(pair[0].started_at, pair[1].started_at);
    }
    for record in &records[..9] {
        assert_eq!(record.actor_id, actor);
        assert_eq!(record.session_id.as_deref(), Some("s"));
    }
    assert_eq!(records[9].actor_id.as_deref(), Some("ar_human"));
    assert_eq!(records[9].effect.as_ref().unwrap().kind, "resume");
    assert_eq!(recorder.find_completed("k1").unwrap().unwrap().seq, 2);
    assert_eq!(recorder.find_completed("k2").unwrap(), None);
}

#[derive(Debug)]
struct Everyone(LocalSigner);

impl RecordSigner for Everyone {
    fn sign(&self, _: &StepRecord, hash: &Digest) -> Result<Option<String>, Error> {
        Ok(Some(RecordSignature::sign(hash, &self.0)?.to_string()))
    }
}

// T-LED-32
#[test]
fn each_head_has_the_digest_of_all_signatures_also_after_a_restart() {
    let (host, store) = (host(), Arc::new(MemoryLedgerStore::new()));
    let open = |signs: bool| {
        let ledger = HashChainedLedgerStore::new(Arc::clone(&store)).with_host(host.clone());
        match signs {
            true => ledger.with_signer(Arc::new(Everyone(signer(7, KeyUsage::Native)))),
            false => ledger,
        }
    };
    let stored = || host.heads.fetch(&run().record_id()).unwrap().unwrap();
    let is_right = || {
        let mut all = Signatures::default();
        for record in store.list(&run(), 0) {
            let record = record.unwrap();
            all.take(record.seq, signature_in(&record.line).as_deref());
        }
        assert_eq!(stored().root, Some(all.digest()));
    };
    for (number, signs) in [false, true, true, false, true].into_iter().enumerate() {
        append(&open(signs), &format!("step {number}")).unwrap();
        is_right();
    }
    let ledger = open(true);
    for number in 5..8 {
        append(&ledger, &format!("step {number}")).unwrap();
        is_right();
    }
    // The host did not see these records, or its head is of a version that kept no digest.
    let other = HashChainedLedgerStore::new(Arc::clone(&store));
    let signing = other.with_signer(Arc::new(Everyone(signer(7, KeyUsage::Native))));
    append(&signing, "step 8").unwrap();
    append(&ledger, "step 9").unwrap();
    is_right();
    let old = StoredHead {
        root: None,
        ..stored()
    };
    let swap = host.heads.replace_if(&old.head, &old, Durability::Written);
    assert_eq!(swap.unwrap(), Swap::Stored);
    append(&open(true), "step 10").unwrap();
    is_right();
}

// T-KLOG-48
#[test]
fn a_key_that_ends_right_before_a_record_signs_none() {
    let key = Arc::new(signer(1, KeyUsage::Native));
    let signers = ActorSigners::new().with("ar_agent", key);
    let host = Host {
        keys: EndingKeys::after(1),
        ..host()
    };
    let ledger = HashChainedLedgerStore::new(MemoryLedgerStore::new())
        .with_signer(Arc::new(signers))
        .with_host(host);
    let by = |actor: &str| {
        let mut record = record("a");
        record.actor_id = Some(actor.to_owned());
        ledger.append(&record)
    };
    by("ar_agent").unwrap();
    assert_eq!(by("ar_agent").unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(hold(ledger.records()), 1);
    // Records that no key of this host signs need none.
    by("ar_other").unwrap();
    assert_eq!(hold(ledger.records()), 2);
}
