//! A journal with a batch that was committed and never signed, as a crash or a backup leaves it: it is signed only where all that the
//! second places know is one history with it.

use super::crashes::{commit, one_history, open_or};
use super::*;
use std::collections::BTreeMap;
use threadseal_store::fault::{FaultKind, Keep};

/// What was committed to the log since its first two entries, and is known to its second place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// Nothing.
    Behind,
    /// The batch.
    Same,
    /// The batch, and another one behind it.
    Ahead,
    /// Another entry in the place of the batch.
    Forked,
    /// Another entry in the place of the batch, and one behind it.
    ForkedAhead,
}

impl Marked {
    const ALL: [Self; 5] = [
        Self::Behind,
        Self::Same,
        Self::Ahead,
        Self::Forked,
        Self::ForkedAhead,
    ];

    fn heads(self) -> Vec<LoggedHead> {
        match self {
            Self::Behind => vec![],
            Self::Same => vec![head(2, 0)],
            Self::Ahead => vec![head(2, 0), head(2, 1)],
            Self::Forked => vec![head(3, 0)],
            Self::ForkedAhead => vec![head(3, 0), head(3, 1)],
        }
    }

    /// May the batch be signed?
    fn goes_on(self) -> bool {
        matches!(self, Self::Behind | Self::Same)
    }
}

fn begun() -> (FaultFs, LogRegistry, Arc<Remembering>) {
    let (fs, places, key) = in_memory();
    commit(&open(&places, &key), &[head(1, 0), head(1, 1)]).unwrap();
    (fs, places, key)
}

fn journal(places: &LogRegistry) -> PathBuf {
    places.home.dir(LogId::from_bytes([0xab; 16])).journal()
}

/// The journal of a log of two entries with a third one that is committed and not signed.
fn unsigned() -> Vec<u8> {
    let (fs, places, key) = begun();
    commit(&open(&places, &key), &[head(2, 0)]).unwrap();
    let mut bytes = fs.bytes_of(&journal(&places)).unwrap();
    bytes.pop();
    let line = bytes.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    assert!(bytes[line..].starts_with(b"signed "));
    bytes.truncate(line);
    bytes
}

/// A log whose second place knows `marked`, and whose journal was put back to the one with the batch.
pub(crate) fn put_back(marked: Marked) -> (FaultFs, LogRegistry, Arc<Remembering>) {
    let (fs, places, key) = begun();
    for head in marked.heads() {
        commit(&open(&places, &key), &[head]).unwrap();
    }
    fs.set_bytes(&journal(&places), &unsigned()).unwrap();
    (fs, places, key)
}

fn signed(key: &Remembering) -> Vec<TreeHead> {
    key.signed.lock().unwrap().clone()
}

#[track_caller]
fn one_tree_of_each_size(key: &Remembering, what: &str) {
    let mut by_size: BTreeMap<u64, TreeHead> = BTreeMap::new();
    for tree in signed(key) {
        assert_eq!(*by_size.entry(tree.size).or_insert(tree), tree, "{what}");
    }
}

/// A way in which a log comes to sign.
type Way = fn(&SealLog) -> Result<(), Error>;

const WAYS: [Way; 4] = [
    |log| commit(log, &[head(4, 0)]),
    |log| commit(log, &[]),
    SealLog::fold,
    |log| log.catch_up(Path::new("/copy")).map(drop),
];

/// A copy of the log with these entries behind the first two.
fn copied(fs: &FaultFs, heads: &[LoggedHead]) {
    let (other, places, key) = begun();
    for head in heads {
        commit(&open(&places, &key), &[*head]).unwrap();
    }
    let bytes = other.bytes_of(&journal(&places)).unwrap();
    atomic::create_directories(fs, Path::new("/copy"), PRIVATE_DIRECTORY).unwrap();
    atomic::create_new(fs, Path::new("/copy/journal"), &bytes, atomic::PRIVATE_FILE).unwrap();
}

// T-LOG-29
#[test]
fn a_batch_that_was_never_signed_is_signed_only_after_the_marks_were_asked() {
    for marked in Marked::ALL {
        for (way, work) in WAYS.into_iter().enumerate() {
            let (fs, places, key) = put_back(marked);
            // It has all that the second place knows: of a log that forked it is no continuation.
            copied(&fs, &[marked.heads(), vec![head(3, 9)]].concat());
            let before = signed(&key).len();
            let log = open(&places, &key);
            let done = work(&log);
            let what = format!("{marked:?} {way} {done:?}");
            let mended = way == 3 && matches!(marked, Marked::Same | Marked::Ahead);
            assert_eq!(
                done.is_ok(),
                mended || (way < 3 && marked.goes_on()),
                "{what}"
            );
            assert_eq!(signed(&key).len() > before, done.is_ok(), "{what}");
            one_tree_of_each_size(&key, &what);
            if done.is_ok() {
                one_history(&open(&places, &key), &key, &what);
            }
        }
    }
}

/// A power cut took the last signature from the journal, but not from the mark: a reader finds all
/// signed entries, and writes nothing.
// T-LOG-28
#[test]
fn a_signature_that_only_the_mark_has_left_is_read_from_there() {
    for marked in Marked::ALL {
        let (fs, places, key) = put_back(marked);
        let (log, before) = (open(&places, &key), signed(&key).len());
        let is_same = marked == Marked::Same;
        assert_eq!(log.view().unwrap().tree().size, if is_same { 3 } else { 2 });
        let is_good = is_same || marked == Marked::Behind;
        assert_eq!(log.standing() == Standing::Good, is_good, "{marked:?}");
        assert_eq!(fs.bytes_of(&journal(&places)), Some(unsigned()));
        assert_eq!(signed(&key).len(), before);
    }
}

/// Neither is one that has ended, that `current` does not name, or that is on another machine.
// T-LOG-29
#[test]
fn a_log_that_is_out_of_place_signs_nothing_that_its_journal_holds() {
    for out_of_place in 0..3 {
        for (way, work) in WAYS.into_iter().enumerate() {
            let (fs, mut places, key) = put_back(Marked::Behind);
            copied(&fs, &[head(2, 0), head(2, 1)]);
            let log = match out_of_place {
                0 => {
                    let ended = places.home.mark.join(format!("{}.ended", "ab".repeat(16)));
                    atomic::create_new(&fs, &ended, b"", atomic::PRIVATE_FILE).unwrap();
                    open(&places, &key)
                }
                1 => {
                    let log = open(&places, &key);
                    let other = format!("{}\n", "cd".repeat(16));
                    let current = places.home.logs().join("current");
                    fs.set_bytes(&current, other.as_bytes()).unwrap();
                    log
                }
                _ => {
                    places.home.host = Some(Digest::of(b"another machine"));
                    let description = Description {
                        host: Some(Digest::of(b"this machine")),
                        ..places.current().unwrap().unwrap()
                    };
                    let log_key = LogKey(Arc::clone(&key) as _);
                    let random = Arc::new(SeededRandom::new(5));
                    SealLog::open(places, description, Some(log_key), random)
                }
            };
            let before = signed(&key);
            let error = work(&log).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{out_of_place} {way}");
            assert_eq!(signed(&key), before, "{out_of_place} {way}");
        }
    }
}

/// Whatever fails while the marks are asked: what they would have forbidden is never signed, and what they allow is one history.
// T-LOG-29
#[test]
fn whatever_fails_no_journal_that_was_put_back_makes_a_log_sign_two_histories() {
    let keeps = [
        Keep::Nothing,
        Keep::Everything,
        Keep::ByLot(5),
        Keep::ByLot(6),
    ];
    for marked in [Marked::Behind, Marked::Ahead, Marked::Forked] {
        for way in [0, 3] {
            let work = WAYS[way];
            let prepared = || {
                let (fs, places, key) = put_back(marked);
                copied(&fs, &[marked.heads(), vec![head(2, 9)]].concat());
                (fs, places, key)
            };
            let calls = {
                let (fs, places, key) = prepared();
                fs.plan(usize::MAX, FaultKind::Io);
                let _ = open_or(&places, &key).and_then(|log| work(&log));
                fs.calls()
            };
            let mended = way == 3 && marked == Marked::Ahead;
            for call in (0..calls).step_by(4) {
                for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
                    let (fs, places, key) = prepared();
                    let before = signed(&key);
                    fs.plan(call, kind);
                    let done = open_or(&places, &key).and_then(|log| work(&log));
                    let what = format!("{marked:?} {way} {kind:?} at {call} of {calls}, {done:?}");
                    let turn = call / 4 + number;
                    match turn.is_multiple_of(3) {
                        true => {
                            fs.heal();
                            fs.kill_process();
                        }
                        false => fs.cut_power(keeps[turn % keeps.len()]),
                    }
                    let log = open(&places, &key);
                    let later = commit(&log, &[head(5, 0)]);
                    match marked.goes_on() {
                        true => assert!(later.is_ok(), "{what}: {later:?}"),
                        false if mended => {}
                        false => {
                            assert!(done.is_err() && later.is_err(), "{what}");
                            assert_eq!(signed(&key), before, "{what}");
                        }
                    }
                    one_tree_of_each_size(&key, &what);
                    if later.is_ok() {
                        one_history(&log, &key, &what);
                    }
                }
            }
        }
    }
}
