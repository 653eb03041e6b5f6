//! What a witness promises, and that nothing which fails makes it sign two histories.

use super::*;
use std::sync::Mutex;
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PublicKey, Signature};
use threadseal_core::merkle::{ConsistencyProof, ProofError, leaf_hash, root};
use threadseal_core::note::{NoteText, SignedNote};
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::verifier;
use threadseal_store::clock::ManualClock;
use threadseal_store::fault::{FaultFs, FaultKind, Keep};
use threadseal_store::testing::signer;

const ORIGIN: &str = "example.com/log";
/// Two histories are one as far as here.
const COMMON: u64 = 3;

/// A key that remembers what it signed, and when.
#[derive(Debug)]
struct Remembering {
    signer: LocalSigner,
    signed: Mutex<Vec<(u64, TreeHead)>>,
}

impl Signer for Remembering {
    fn public_key(&self) -> &PublicKey {
        self.signer.public_key()
    }

    fn usage(&self) -> KeyUsage {
        self.signer.usage()
    }

    fn sign(&self, message: &Message) -> Result<Signature, Error> {
        let text = std::str::from_utf8(message.as_bytes()).unwrap();
        let text = text.strip_prefix("cosignature/v1\ntime ").unwrap();
        let (time, checkpoint) = text.split_once('\n').unwrap();
        let checkpoint = Checkpoint::parse(&NoteText::parse(checkpoint).unwrap()).unwrap();
        let signed = (time.parse().unwrap(), *checkpoint.tree());
        self.signed.lock().unwrap().push(signed);
        self.signer.sign(message)
    }
}

/// Everything that a test needs.
struct Stage {
    fs: FaultFs,
    files: WitnessFiles,
    signer: Arc<Remembering>,
    key: WitnessKey,
    clock: ManualClock,
}

fn name(text: &str) -> KeyName {
    KeyName::parse(text).unwrap()
}

fn origin() -> Origin {
    Origin::parse(ORIGIN).unwrap()
}

/// The key of a log, by its seed; that of the log has 1.
fn log_signer(seed: u8) -> LocalSigner {
    signer(seed, KeyUsage::Log)
}

fn log_key() -> VerifierKey {
    key_of(ORIGIN, 1)
}

fn key_of(origin: &str, seed: u8) -> VerifierKey {
    VerifierKey::of_log(name(origin), *log_signer(seed).public_key())
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000).unwrap()
}

impl Stage {
    fn new() -> Self {
        let fs = FaultFs::new();
        let home = Path::new("/home");
        atomic::create_directories(&fs, home, PRIVATE_DIRECTORY).unwrap();
        let files = WitnessFiles::of_home(fs.shared(), home);
        assert!(files.watch(&log_key(), None).unwrap());
        let signer = Arc::new(Remembering {
            signer: signer(2, KeyUsage::Witness),
            signed: Mutex::default(),
        });
        let key = WitnessKey {
            name: name("witness.example/w"),
            signer: Arc::clone(&signer) as _,
        };
        Self {
            fs,
            files,
            signer,
            key,
            clock: ManualClock::new(at(1000)),
        }
    }

    fn ask(&self, request: &AddCheckpoint) -> Result<Answer, Error> {
        self.files.add_checkpoint(request, &self.key, &self.clock)
    }

    #[track_caller]
    fn cosigned(&self, old: u64, history: char, size: u64) -> NoteSignature {
        match self.ask(&request(old, history, size)).unwrap() {
            Answer::Cosigned(line) => line,
            refused @ Answer::Refused { .. } => panic!("{refused:?}"),
        }
    }

    #[track_caller]
    fn refused(&self, request: &AddCheckpoint) -> (Refusal, Option<PathBuf>) {
        match self.ask(request).unwrap() {
            Answer::Refused { refusal, evidence } => (refusal, evidence),
            Answer::Cosigned(line) => panic!("{line}"),
        }
    }

    fn last(&self) -> Option<(TreeHead, CosignatureTime)> {
        self.files.remembered(&origin()).unwrap().last
    }

    /// The size that it reports as cosigned last, as a client learns it.
    fn size(&self) -> u64 {
        self.last().map_or(0, |(tree, _)| tree.size)
    }
}

fn leaves(history: char, size: u64) -> Vec<Digest> {
    let leaf = |number: u64| match number < COMMON {
        true => leaf_hash(&number.to_be_bytes()),
        false => leaf_hash(format!("{history}{number}").as_bytes()),
    };
    (0..size).map(leaf).collect()
}

fn tree(history: char, size: u64) -> TreeHead {
    TreeHead {
        size,
        root: root(&leaves(history, size)),
    }
}

fn proof(history: char, old: u64, new: u64) -> ConsistencyProof {
    let leaves = leaves(history, new);
    let made = ConsistencyProof::make::<ProofError>(old.min(new), new, &mut |node| {
        let from = usize::try_from(node.index << node.level).unwrap();
        Ok(root(&leaves[from..from + (1 << node.level)]))
    });
    made.unwrap()
}

fn note(history: char, size: u64) -> SignedNote {
    note_of(ORIGIN, 1, history, size)
}

/// A checkpoint of a log of this origin, by the key of this seed.
fn note_of(origin: &str, seed: u8, history: char, size: u64) -> SignedNote {
    let origin = Origin::parse(origin).unwrap();
    let checkpoint = Checkpoint::new(origin, tree(history, size)).unwrap();
    checkpoint.sign(&log_signer(seed)).unwrap()
}

fn request(old: u64, history: char, size: u64) -> AddCheckpoint {
    AddCheckpoint::new(old, proof(history, old, size), note(history, size)).unwrap()
}

/// The same for the checkpoint of another log or by another key.
fn request_of(origin: &str, seed: u8, old: u64, size: u64) -> AddCheckpoint {
    let note = note_of(origin, seed, 'a', size);
    AddCheckpoint::new(old, proof('a', old, size), note).unwrap()
}

#[test]
fn what_is_cosigned_is_remembered_and_can_be_read_with_both_lines() {
    let stage = Stage::new();
    assert_eq!(stage.last(), None);
    let folder = folder_name(&origin());
    assert_eq!(stage.files.cosigned(&folder).unwrap(), None);
    for (old, new, time) in [(0, 2, 1000), (2, 7, 1007), (7, 7, 1007)] {
        let line = stage.cosigned(old, 'a', new);
        let read = stage.files.cosigned(&folder).unwrap().unwrap();
        let read = SignedNote::parse(std::str::from_utf8(&read).unwrap()).unwrap();
        assert_eq!(read.signatures().last(), Some(&line));
        let keys = [log_key(), stage.key.verifier()];
        let (checkpoint, signers) = verifier::open(&read, &keys.each_ref()).unwrap();
        assert_eq!(*checkpoint.tree(), tree('a', new));
        let times: Vec<_> = signers.iter().map(|signed| signed.time).collect();
        let time = CosignatureTime::from_seconds(time).unwrap();
        assert_eq!(times, [None, Some(time)]);
        assert_eq!(stage.last(), Some((tree('a', new), time)));
        if old == 0 {
            stage.clock.advance_micros(7_000_000);
        }
    }
    assert_eq!(stage.files.cosigned("../home").unwrap(), None);
    assert_eq!(stage.files.cosigned(&"0".repeat(64)).unwrap(), None);
}

// T-WIT-19
#[test]
fn a_log_that_goes_back_or_parts_is_refused_and_the_evidence_is_kept() {
    let stage = Stage::new();
    stage.cosigned(0, 'a', 5);
    let (refusal, evidence) = stage.refused(&request(3, 'a', 4));
    assert_eq!((refusal, evidence), (Refusal::OtherSize(5), None));
    let (refusal, evidence) = stage.refused(&request(5, 'b', 7));
    assert_eq!(refusal.status(), 422);
    assert_eq!(evidence, None);
    let (refusal, evidence) = stage.refused(&request(5, 'b', 5));
    assert_eq!(refusal, Refusal::OtherRoot);
    let kept = stage.fs.bytes_of(&evidence.clone().unwrap()).unwrap();
    let conflict = Conflict::parse(std::str::from_utf8(&kept).unwrap()).unwrap();
    assert_eq!(conflict.key(), &log_key());
    // By whatever size it asks, and with whatever lines of others, it is the same conflict.
    let mut crowded = note('b', 5);
    crowded.add(note('a', 4).signatures()[0].clone()).unwrap();
    let bad = AddCheckpoint::new(0, proof('b', 0, 5), crowded).unwrap();
    assert_eq!(stage.refused(&bad).1, None);
    assert_eq!(stage.refused(&request(0, 'b', 5)).1, evidence);
    let remembered = stage.files.remembered(&origin()).unwrap();
    assert_eq!(remembered.conflicts, [evidence.unwrap()]);
    assert_eq!(remembered.last.unwrap().0, tree('a', 5));
    stage.cosigned(5, 'a', 6);
}

// T-WIT-19
#[test]
fn no_more_conflicts_are_kept_than_convict() {
    let stage = Stage::new();
    stage.cosigned(0, 'a', 5);
    let kept = |history: u32| {
        let history = char::from_u32(0x1000 + history).unwrap();
        stage.refused(&request(5, history, 5)).1.is_some()
    };
    let most = u32::try_from(MAX_KEPT_CONFLICTS).unwrap();
    assert!((0..most).all(kept));
    assert!(!kept(most));
    assert!(kept(0));
}

#[test]
fn what_is_not_watched_or_not_signed_is_not_remembered() {
    let stage = Stage::new();
    let other = request_of("example.com/other", 1, 0, 2);
    assert_eq!(stage.refused(&other).0, Refusal::UnknownLog);
    let forged = request_of(ORIGIN, 9, 0, 2);
    assert_eq!(stage.refused(&forged).0.status(), 403);
    assert_eq!(stage.last(), None);
    assert_eq!(stage.signer.signed.lock().unwrap().len(), 0);
}

#[test]
fn a_log_is_watched_by_every_key_of_it_that_was_named_and_keeps_what_was_cosigned() {
    let stage = Stage::new();
    stage.cosigned(0, 'a', 2);
    assert!(!stage.files.watch(&log_key(), None).unwrap());
    let by_second = request_of(ORIGIN, 7, 2, 4);
    assert_eq!(stage.refused(&by_second).0.status(), 403);
    let url = Some("https://log.example/");
    assert!(stage.files.watch(&key_of(ORIGIN, 7), url).unwrap());
    assert!(matches!(stage.ask(&by_second), Ok(Answer::Cosigned(_))));
    assert_eq!(stage.files.logs().unwrap().len(), 2);
    for url in ["two words", "a\nlog b", ""] {
        let third = key_of("example.com/third", 8);
        assert!(stage.files.watch(&third, Some(url)).is_err(), "{url:?}");
    }
    assert_eq!(stage.files.logs().unwrap().len(), 2);
    let witness = stage.key.verifier();
    let error = stage.files.watch(&witness, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Key);
}

// T-WIT-18
#[test]
fn a_log_whose_past_is_lost_or_damaged_is_not_cosigned() {
    let stage = Stage::new();
    stage.cosigned(0, 'a', 5);
    let folder = Path::new("/home/witness").join(folder_name(&origin()));
    let path = folder.join("last");
    let whole = stage.fs.bytes_of(&path).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    for bad in [
        String::new(),
        text[..text.len() - 1].to_owned(),
        text.replacen("time 1000", "time 0", 1),
        text.replacen("time 1000", "time 01000", 1),
        text.replacen(ORIGIN, "example.com/other", 1),
    ] {
        stage.fs.set_bytes(&path, bad.as_bytes()).unwrap();
        let error = stage.ask(&request(0, 'b', 5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External, "{bad}");
    }
    stage.fs.unlink(&path).unwrap();
    assert!(stage.ask(&request(0, 'b', 5)).is_err());
    // To name the log again does not make anybody forget.
    assert!(stage.files.watch(&log_key(), None).is_err());
    assert!(stage.ask(&request(0, 'b', 5)).is_err());
    assert_eq!(stage.signer.signed.lock().unwrap().len(), 1);
}

// T-WIT-20
#[test]
fn times_stand_still_where_the_clock_goes_back_a_little_and_nothing_is_cosigned_where_it_goes_back_far()
 {
    let mut stage = Stage::new();
    stage.cosigned(0, 'a', 2);
    stage.clock = ManualClock::new(at(1000 - MAX_CLOCK_STEP_SECONDS));
    stage.cosigned(2, 'a', 3);
    assert_eq!(stage.last().unwrap().1.seconds(), 1000);
    stage.clock = ManualClock::new(at(999 - MAX_CLOCK_STEP_SECONDS));
    let error = stage.ask(&request(3, 'a', 4)).unwrap_err();
    assert!(error.to_string().contains("the clock"), "{error}");
    assert_eq!(stage.last().unwrap().0, tree('a', 3));
}

/// Both histories are offered at every step, each by the size that the witness reports as cosigned
/// last.
fn both_histories(stage: &Stage) -> usize {
    let mut failed = 0;
    for size in [2, 4, 4, 6] {
        for history in ['a', 'b'] {
            stage.clock.advance_micros(1_000_000);
            let remembered = stage.files.remembered(&origin()).ok();
            let last = remembered.and_then(|remembered| remembered.last);
            let old = last.map_or(0, |(tree, _)| tree.size);
            failed += usize::from(stage.ask(&request(old, history, size)).is_err());
        }
    }
    failed
}

#[track_caller]
fn one_history(stage: &Stage, what: &str) {
    let signed = stage.signer.signed.lock().unwrap();
    let of = |history: char| {
        let mut trees = signed.iter().map(|(_, tree)| tree);
        trees.all(|signed| *signed == tree(history, signed.size))
    };
    assert!(of('a') || of('b'), "{what}: {signed:?}");
    let by_time = signed.is_sorted_by_key(|(time, _)| *time);
    let by_size = signed.is_sorted_by_key(|(_, tree)| tree.size);
    assert!(by_time && by_size, "{what}: {signed:?}");
}

// T-WIT-17
#[test]
fn whatever_fails_two_histories_are_never_signed_and_times_never_go_back() {
    let stage = Stage::new();
    let calls = (stage.fs).calls_of(|| assert_eq!(both_histories(&stage), 0));
    one_history(&stage, "no fault");
    assert_eq!(stage.size(), 6);
    let keeps = [
        Keep::Nothing,
        Keep::Everything,
        Keep::ByLot(7),
        Keep::ByLot(8),
    ];
    let (mut struck, mut failed, mut late) = (0, 0, 0);
    for call in 0..calls {
        for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
            let keep = keeps[(call + number) % keeps.len()];
            let stage = Stage::new();
            stage.fs.plan(call, kind);
            failed += usize::from(both_histories(&stage) > 0);
            struck += usize::from(stage.fs.struck().is_some());
            let what = format!("{kind:?} at {call} ({:?}), {keep:?}", stage.fs.struck());
            one_history(&stage, &what);
            stage.fs.cut_power(keep);
            late += usize::from(stage.size() < 6);
            // The other history comes first now, and nothing fails any more.
            assert!(stage.ask(&request(stage.size(), 'b', 6)).is_ok(), "{what}");
            assert_eq!(both_histories(&stage), 0, "{what}");
            one_history(&stage, &what);
            assert_eq!(stage.size(), 6, "{what}");
        }
    }
    let tried = calls * FaultKind::ALL.len();
    assert_eq!(struck, tried);
    assert!(failed > tried / 2 && late > 0, "{failed} {late} of {tried}");
}

// T-WIT-18
#[test]
fn while_a_log_is_added_whatever_fails_it_is_watched_or_not_and_never_forgotten() {
    let other = key_of("example.com/other", 7);
    let stage = Stage::new();
    let watch = || assert!(stage.files.watch(&other, None).unwrap());
    let calls = stage.fs.calls_of(watch);
    for call in 0..calls {
        for kind in FaultKind::ALL {
            let stage = Stage::new();
            stage.cosigned(0, 'a', 2);
            stage.fs.plan(call, kind);
            let done = stage.files.watch(&other, None).is_ok();
            stage.fs.cut_power(Keep::ByLot(call as u64));
            let what = format!("{kind:?} at {call}");
            assert_eq!(stage.size(), 2, "{what}");
            let known = stage.files.logs().unwrap();
            assert!(known.len() == 2 || !done && known.len() == 1, "{what}");
            stage.files.watch(&other, None).unwrap();
            assert_eq!(stage.files.logs().unwrap().len(), 2, "{what}");
            let other = Origin::parse("example.com/other").unwrap();
            assert_eq!(stage.files.remembered(&other).unwrap().last, None, "{what}");
        }
    }
}

// T-WIT-17
#[test]
fn many_who_ask_at_once_get_one_history() {
    let stage = Stage::new();
    std::thread::scope(|scope| {
        for history in ['a', 'b', 'a', 'b'] {
            let stage = &stage;
            scope.spawn(move || {
                for size in 1..40 {
                    let _ = stage.ask(&request(stage.size(), history, size));
                }
            });
        }
    });
    one_history(&stage, "at once");
    assert!(stage.size() > COMMON);
}
