//! Live scrolls: written, truncated, rolled back, continued.

use super::*;
use crate::clock::SystemClock;
use crate::heads::MemoryHeadStore;
use crate::random::SystemRandom;
use crate::read::open_regular;
use crate::sys::RealFs;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::report::Verdict;
use threadseal_formats::scroll::{Form, deserialize};

struct Bench {
    host: Host,
    signer: LocalSigner,
    folder: tempfile::TempDir,
}

fn turn(number: u64, text: &str) -> Turn {
    let json = format!(
        r#"{{"version":"scroll/0.1","turn":{number},"role":"user","model":{{"vendor":"v","id":"m"}},"params":{{"temperature":1,"top_p":1}},"messages":[{{"role":"user","content":"{text}"}}],"timestamp_ns":{number}}}"#
    );
    deserialize(json.as_bytes()).unwrap()
}

impl Bench {
    fn new() -> Self {
        Self {
            host: Host {
                fs: Arc::new(RealFs),
                clock: Arc::new(SystemClock),
                random: Arc::new(SystemRandom),
                heads: Arc::new(MemoryHeadStore::default()),
            },
            signer: LocalSigner::new(PrivateKey::from_seed([3; 32]), KeyUsage::Scroll),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("live.jsonl")
    }

    fn create(&self) -> LiveScroll {
        let first = turn(0, "first");
        LiveScroll::create(self.host.clone(), &self.path(), first, Some(&self.signer)).unwrap()
    }

    fn open(&self) -> Result<Opened, Error> {
        LiveScroll::open(self.host.clone(), &self.path())
    }

    /// A scroll of `turns` turns, closed again.
    fn written(&self, turns: u64) -> Vec<u8> {
        let mut scroll = self.create();
        for number in 1..turns {
            scroll
                .append(turn(number, "x"), Some(&self.signer))
                .unwrap();
        }
        scroll.sync().unwrap();
        drop(scroll);
        std::fs::read(self.path()).unwrap()
    }

    fn verdict(&self) -> Verdict {
        let file = open_regular(&RealFs, &self.path()).unwrap();
        let trust = Trust::key(*self.signer.public_key());
        let judging = Judging::new(&trust, self.host.clock.now().unwrap());
        let options = ChainOptions {
            pinned: trust.pinned_key(),
            ..ChainOptions::default()
        };
        let outcome = verify(file.chunks(), Container::Lines, options, &judging, &|_| {});
        outcome.unwrap().report.verdict
    }
}

#[test]
fn a_scroll_goes_on_where_it_was_left() {
    let bench = Bench::new();
    bench.written(3);
    let opened = bench.open().unwrap();
    assert!(opened.moved.is_none() && !opened.ended);
    let mut scroll = opened.scroll;
    assert_eq!(scroll.tip().turn, 2);
    assert!(scroll.append(turn(4, "x"), None).is_err(), "turn 3 is next");
    let head = scroll.append(turn(3, "x"), Some(&bench.signer)).unwrap();
    assert_eq!(scroll.sync().unwrap(), head);
    assert_eq!(known(&bench.host, &head.record).unwrap().head, Some(head));
    drop(scroll);
    assert_eq!(bench.verdict(), Verdict::Verified);
    assert_eq!(bench.open().unwrap().scroll.tip().head, head);
}

#[test]
fn a_scroll_has_one_writer() {
    let bench = Bench::new();
    let scroll = bench.create();
    assert_eq!(bench.open().unwrap_err().kind(), ErrorKind::External);
    drop(scroll);
    bench.open().unwrap();
}

#[test]
fn wherever_a_write_was_cut_the_torn_turn_is_set_aside_and_told() {
    let bench = Bench::new();
    let whole = bench.written(2);
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // A third turn that was being written when the machine stopped.
    let third = {
        let mut scroll = bench.open().unwrap().scroll;
        scroll.append(turn(2, "x"), Some(&bench.signer)).unwrap();
        drop(scroll);
        std::fs::read(bench.path()).unwrap()[whole.len()..].to_vec()
    };
    assert!(second < whole.len());
    let telling = |cut: &usize| cut % 41 == 1 || cut + 3 > third.len();
    for cut in (1..third.len()).filter(telling) {
        std::fs::write(bench.path(), [&whole[..], &third[..cut]].concat()).unwrap();
        let opened = bench.open().unwrap();
        if cut == third.len() - 1 {
            assert!(opened.ended && opened.moved.is_none());
            assert_eq!(opened.scroll.tip().turn, 2);
            continue;
        }
        let moved = opened.moved.unwrap();
        assert_eq!(std::fs::read(&moved.path).unwrap(), third[..cut]);
        assert_eq!(moved.offset, whole.len() as u64);
        assert_eq!(opened.scroll.tip().turn, 1);
        drop(opened.scroll);
        assert_eq!(std::fs::read(bench.path()).unwrap(), whole);
    }
}

#[test]
fn an_older_copy_that_was_put_back_is_not_continued() {
    let bench = Bench::new();
    let whole = bench.written(3);
    let end = whole.len() - 1;
    let shorter = whole[..end]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    std::fs::write(bench.path(), &whole[..shorter]).unwrap();
    let refused = bench.open().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("rolled_back"), "{refused}");
}

#[test]
fn a_changed_scroll_or_one_without_its_signatures_is_not_continued() {
    let bench = Bench::new();
    let whole = String::from_utf8(bench.written(3)).unwrap();
    std::fs::write(bench.path(), whole.replace("first", "worst")).unwrap();
    assert_eq!(bench.open().unwrap_err().kind(), ErrorKind::Refused);
    let stripped: String = whole
        .lines()
        .map(|line| {
            let from = line.find(",\"sig\":").unwrap();
            let to = line.find("\"},\"timestamp_ns\"").unwrap() + 2;
            format!("{}{}\n", &line[..from], &line[to..])
        })
        .collect();
    std::fs::write(bench.path(), stripped).unwrap();
    let refused = bench.open().unwrap_err().to_string();
    assert!(refused.contains("tampered"), "{refused}");
}

#[test]
fn a_long_scroll_is_verified_the_same_on_many_threads() {
    let bench = Bench::new();
    let text = "x".repeat(20_000);
    let mut scroll = bench.create();
    for number in 1..40 {
        scroll
            .append(turn(number, &text), Some(&bench.signer))
            .unwrap();
    }
    drop(scroll);
    assert_eq!(bench.verdict(), Verdict::Verified);
    let bytes = std::fs::read_to_string(bench.path()).unwrap();
    let changed = bytes.replacen("\"timestamp_ns\":33", "\"timestamp_ns\":34", 1);
    assert_ne!(changed, bytes);
    std::fs::write(bench.path(), changed).unwrap();
    assert_eq!(bench.verdict(), Verdict::Tampered);
}

// T-SCR-19
#[test]
fn going_on_from_what_this_host_does_not_know_or_nobody_signed_is_told() {
    let bench = Bench::new();
    let bytes = bench.written(3);
    let opened = bench.open().unwrap();
    assert!(opened.known && opened.doubts.is_empty());
    drop(opened);
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    let unsigned = seal(turn(1, "x"), record_hash(first), None).unwrap();
    let other = Bench::new();
    std::fs::write(other.path(), [first, &line_of(&unsigned)].concat()).unwrap();
    let opened = other.open().unwrap();
    assert!(!opened.known);
    assert_eq!(opened.doubts.len(), 1, "{:?}", opened.doubts);
}

fn record_hash(line: &[u8]) -> Option<Digest> {
    read_turn(line.trim_ascii_end(), Form::Json, None).hash()
}

#[test]
fn a_refusal_names_what_decided() {
    let bench = Bench::new();
    let bytes = bench.written(3);
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    std::fs::write(bench.path(), &bytes[..=end]).unwrap();
    let error = bench.open().unwrap_err();
    assert!(error.to_string().contains("the known head is turn 2"));
}

#[test]
fn the_smallest_turns_are_taken_in_order_and_all_of_them() {
    const TURNS: usize = 200_000;
    for (container, open, turn, close) in [
        (Container::Array, &b"[1"[..], &b",1"[..], &b"]"[..]),
        (Container::Lines, b"1\n", b"1\n", b""),
        (Container::Sequence, b"\x01", b"\x01", b""),
    ] {
        let bytes = [open, &turn.repeat(TURNS - 1), close].concat();
        let source = crate::read::Stream::new(&bytes[..], "bytes");
        let mut cutter = Cutter::new(source, Splitter::new(container), &|_| {});
        let mut places = Vec::new();
        let take = |_: &(), _: &[u8], place: Place| places.push(place.from);
        read_all(&mut cutter, || |_: &[u8]| (), take).unwrap();
        let end = cutter.end().unwrap();
        assert_eq!(places.len(), TURNS, "{container:?}");
        assert!(places.is_sorted_by(|a, b| a < b));
        assert_eq!((end.bytes, end.fault), (bytes.len() as u64, None));
    }
}
