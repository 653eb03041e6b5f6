//! A journal with a batch that was committed and never signed, as a crash or a backup leaves it: it is signed only where all that the
//! second places know is one history with it.

use super::prelude::*;

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
        let (number, count) = match self {
            Self::Behind => (2, 0),
            Self::Same => (2, 1),
            Self::Ahead => (2, 2),
            Self::Forked => (3, 1),
            Self::ForkedAhead => (3, 2),
        };
        heads(number, 0..count).collect()
    }

    /// May the batch be signed?
    fn goes_on(self) -> bool {
        matches!(self, Self::Behind | Self::Same)
    }
}

/// A log of two entries, and these, each of which is a batch of its own.
fn begun(more: &[LoggedHead]) -> InMemory {
    let scene = in_memory();
    commit(&scene.open(), &[head(1, 0), head(1, 1)]).unwrap();
    for head in more {
        commit(&scene.open(), &[*head]).unwrap();
    }
    scene
}

/// The journal of a log of two entries with a third one that is committed and not signed.
fn unsigned() -> Vec<u8> {
    let mut bytes = begun(&[head(2, 0)]).get("journal");
    bytes.pop();
    let line = bytes.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    assert!(bytes[line..].starts_with(b"signed "));
    bytes.truncate(line);
    bytes
}

/// A log whose second place knows `marked`, and whose journal was put back to the one with the batch.
pub(crate) fn put_back(marked: Marked) -> InMemory {
    let scene = begun(&marked.heads());
    scene.put("journal", unsigned());
    scene
}

/// The same, beside a copy that has all that the second place knows, and this entry behind it.
fn with_copy(marked: Marked, last: LoggedHead) -> InMemory {
    let scene = put_back(marked);
    copied(&scene, &[marked.heads(), vec![last]].concat());
    scene
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
fn copied(scene: &InMemory, heads: &[LoggedHead]) {
    scene.put("/copy/journal", begun(heads).get("journal"));
}

// T-LOG-29
#[test]
fn a_batch_that_was_never_signed_is_signed_only_after_the_marks_were_asked() {
    for marked in Marked::ALL {
        // Of a log that forked the copy is no continuation.
        let prepared = with_copy(marked, head(3, 9));
        for (way, work) in WAYS.into_iter().enumerate() {
            let scene = prepared.fork();
            let before = scene.key.signed().len();
            let done = work(&scene.open());
            let what = format!("{marked:?} {way} {done:?}");
            let mended = way == 3 && matches!(marked, Marked::Same | Marked::Ahead);
            let expected = mended || (way < 3 && marked.goes_on());
            assert_eq!(done.is_ok(), expected, "{what}");
            assert_eq!(scene.key.signed().len() > before, done.is_ok(), "{what}");
            scene.key.assert_one_tree_of_each_size(&what);
            if done.is_ok() {
                one_history(&scene.open(), &scene.key, &what);
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
        let scene = put_back(marked);
        let (log, before) = (scene.open(), scene.key.signed());
        let size = if marked == Marked::Same { 3 } else { 2 };
        assert_eq!(log.size(), size);
        let is_good = log.standing() == Standing::Good;
        assert_eq!(is_good, marked.goes_on(), "{marked:?}");
        assert_eq!(scene.get("journal"), unsigned());
        assert_eq!(scene.key.signed(), before);
    }
}

/// Neither is one that has ended, that `current` does not name, or that is on another machine.
// T-LOG-29
#[test]
fn a_log_that_is_out_of_place_signs_nothing_that_its_journal_holds() {
    let out_of_place: [(&str, fn(&InMemory) -> SealLog); 3] = [
        ("ended", |scene| {
            scene.put(scene.ended_file(), "");
            scene.open()
        }),
        ("not current", |scene| {
            let log = scene.open();
            scene.put("/home/log/current", format!("{NEXT}\n"));
            log
        }),
        ("on another machine", |scene| {
            let there = scene.with(|home| home.host = Some(Digest::of(b"another machine")));
            let description = Description {
                host: Some(Digest::of(b"this machine")),
                ..scene.current()
            };
            let log_key = LogKey(Arc::clone(&scene.key) as _);
            let random = Arc::new(SeededRandom::new(5));
            SealLog::open(there.registry, description, Some(log_key), random)
        }),
    ];
    let prepared = put_back(Marked::Behind);
    copied(&prepared, &[head(2, 0), head(2, 1)]);
    for (what, open) in out_of_place {
        for (way, work) in WAYS.into_iter().enumerate() {
            let scene = prepared.fork();
            let log = open(&scene);
            let before = scene.key.signed();
            let error = work(&log).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{what} {way}");
            assert_eq!(scene.key.signed(), before, "{what} {way}");
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
        let prepared = with_copy(marked, head(2, 9));
        for way in [0, 3] {
            let work = |scene: &InMemory| scene.try_open().and_then(|log| WAYS[way](&log));
            let scene = prepared.fork();
            let calls = scene.disk.calls_of(|| drop(work(&scene)));
            let mended = way == 3 && marked == Marked::Ahead;
            for call in (0..calls).step_by(4) {
                for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
                    let scene = prepared.fork();
                    let before = scene.key.signed();
                    scene.disk.plan(call, kind);
                    let done = work(&scene);
                    let what = format!("{marked:?} {way} {kind:?} at {call} of {calls}, {done:?}");
                    let turn = call / 4 + number;
                    let cut = (!turn.is_multiple_of(3)).then(|| keeps[turn % keeps.len()]);
                    scene.disk.end(cut);
                    let log = scene.open();
                    let later = commit(&log, &[head(5, 0)]);
                    match marked.goes_on() {
                        true => assert!(later.is_ok(), "{what}: {later:?}"),
                        false if mended => {}
                        false => {
                            assert!(done.is_err() && later.is_err(), "{what}");
                            assert_eq!(scene.key.signed(), before, "{what}");
                        }
                    }
                    scene.key.assert_one_tree_of_each_size(&what);
                    if later.is_ok() {
                        one_history(&log, &scene.key, &what);
                    }
                }
            }
        }
    }
}
