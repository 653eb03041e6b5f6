//! Live scrolls: written, truncated, rolled back, continued.

use super::*;
use crate::heads::{MAX_ALIASES, MemoryHeadStore};
use crate::read::open_regular;
use crate::sys::RealFs;
use crate::testing::{EndingKeys, host, signer};
use std::fs;
use threadseal_core::error::ErrorKind;
use threadseal_core::key::{KeyUsage, LocalSigner};
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
            host: host(RealFs::shared(), MemoryHeadStore::default()),
            signer: signer(3, KeyUsage::Scroll),
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

    /// Appends a signed turn.
    fn append(&self, scroll: &mut LiveScroll, number: u64, text: &str) -> Head {
        let turn = turn(number, text);
        scroll.append(turn, Some(&self.signer)).unwrap()
    }

    /// A scroll of `turns` turns with this text, closed again.
    fn written(&self, turns: u64, text: &str) -> Vec<u8> {
        let mut scroll = self.create();
        for number in 1..turns {
            self.append(&mut scroll, number, text);
        }
        scroll.sync().unwrap();
        drop(scroll);
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn put(&self, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(), bytes).unwrap();
    }

    fn verdict(&self) -> Verdict {
        let file = open_regular(&RealFs, &self.path()).unwrap();
        let trust = Trust::key(*self.signer.public_key());
        let judging = Judging::new(&trust, self.host.clock.now().unwrap());
        let options = ChainOptions {
            pinned: trust.pinned.keys().collect(),
            ..ChainOptions::default()
        };
        let outcome = verify(file.chunks(), Container::Lines, options, &judging, &|_| {});
        outcome.unwrap().report.verdict
    }
}

#[test]
fn a_scroll_goes_on_where_it_was_left() {
    let bench = Bench::new();
    bench.written(3, "x");
    let opened = bench.open().unwrap();
    assert!(opened.moved.is_none() && !opened.ended);
    let mut scroll = opened.scroll;
    assert_eq!(scroll.tip().turn, 2);
    assert!(scroll.append(turn(4, "x"), None).is_err(), "turn 3 is next");
    let head = bench.append(&mut scroll, 3, "x");
    assert_eq!(scroll.sync().unwrap(), head);
    assert_eq!(known(&bench.host, &head.record).unwrap().head, Some(head));
    drop(scroll);
    assert_eq!(bench.verdict(), Verdict::Verified);
    assert_eq!(bench.open().unwrap().scroll.tip().head, head);
}

// T-CMD-20
#[test]
fn a_signer_too_many_is_refused_before_anything_is_written() {
    let bench = Bench::new();
    let mut scroll = bench.create();
    let most = u8::try_from(MAX_ALIASES).unwrap();
    let append = |scroll: &mut LiveScroll, number: u8| {
        let signer = signer(100 + number, KeyUsage::Scroll);
        scroll.append(turn(u64::from(number), "x"), Some(&signer))
    };
    for number in 1..most {
        append(&mut scroll, number).unwrap();
        scroll.sync().unwrap();
    }
    let before = bench.bytes();
    let error = append(&mut scroll, most).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(bench.bytes(), before);
    // The writer continues with a key that signed before.
    bench.append(&mut scroll, u64::from(most), "x");
    scroll.sync().unwrap();
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
    let whole = bench.written(2, "x");
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // A third turn that was being written when the machine stopped.
    let third = {
        let mut scroll = bench.open().unwrap().scroll;
        bench.append(&mut scroll, 2, "x");
        drop(scroll);
        bench.bytes()[whole.len()..].to_vec()
    };
    assert!(second < whole.len());
    let telling = |cut: &usize| cut % 41 == 1 || cut + 3 > third.len();
    for cut in (1..third.len()).filter(telling) {
        bench.put([&whole[..], &third[..cut]].concat());
        let opened = bench.open().unwrap();
        if cut == third.len() - 1 {
            assert!(opened.ended && opened.moved.is_none());
            assert_eq!(opened.scroll.tip().turn, 2);
            continue;
        }
        let moved = opened.moved.unwrap();
        assert_eq!(fs::read(&moved.path).unwrap(), third[..cut]);
        assert_eq!(moved.offset, whole.len() as u64);
        assert_eq!(opened.scroll.tip().turn, 1);
        drop(opened.scroll);
        assert_eq!(bench.bytes(), whole);
    }
}

#[test]
fn an_older_copy_that_was_put_back_is_not_continued() {
    let bench = Bench::new();
    let whole = bench.written(3, "x");
    let mut before_last = whole[..whole.len() - 1].iter();
    let shorter = before_last.rposition(|byte| *byte == b'\n').unwrap() + 1;
    bench.put(&whole[..shorter]);
    let refused = bench.open().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("rolled_back"), "{refused}");
}

#[test]
fn a_changed_scroll_or_one_without_its_signatures_is_not_continued() {
    let bench = Bench::new();
    let whole = String::from_utf8(bench.written(3, "x")).unwrap();
    bench.put(whole.replace("first", "worst"));
    assert_eq!(bench.open().unwrap_err().kind(), ErrorKind::Refused);
    let stripped: String = whole
        .lines()
        .map(|line| {
            let from = line.find(",\"sig\":").unwrap();
            let to = line.find("\"},\"timestamp_ns\"").unwrap() + 2;
            format!("{}{}\n", &line[..from], &line[to..])
        })
        .collect();
    bench.put(stripped);
    let refused = bench.open().unwrap_err().to_string();
    assert!(refused.contains("tampered"), "{refused}");
}

#[test]
fn a_long_scroll_is_verified_the_same_on_many_threads() {
    let bench = Bench::new();
    let bytes = bench.written(40, &"x".repeat(20_000));
    assert_eq!(bench.verdict(), Verdict::Verified);
    let bytes = String::from_utf8(bytes).unwrap();
    let changed = bytes.replacen("\"timestamp_ns\":33", "\"timestamp_ns\":34", 1);
    assert_ne!(changed, bytes);
    bench.put(changed);
    assert_eq!(bench.verdict(), Verdict::Tampered);
}

// T-SCR-19
#[test]
fn going_on_from_what_this_host_does_not_know_or_nobody_signed_is_told() {
    let bench = Bench::new();
    let bytes = bench.written(3, "x");
    let opened = bench.open().unwrap();
    assert!(opened.known && opened.doubts.is_empty());
    drop(opened);
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    let unsigned = seal(turn(1, "x"), record_hash(first), None).unwrap();
    let other = Bench::new();
    other.put([first, &line_of(&unsigned)].concat());
    let opened = other.open().unwrap();
    assert!(!opened.known);
    assert_eq!(opened.doubts.len(), 1, "{:?}", opened.doubts);
}

// T-SCR-56
#[test]
fn unsigned_turns_behind_the_known_head_are_told_and_the_scroll_goes_on() {
    let bench = Bench::new();
    let first = turn(0, "first");
    let mut scroll = LiveScroll::create(bench.host.clone(), &bench.path(), first, None).unwrap();
    scroll.append(turn(1, "x"), None).unwrap();
    // The process ends before it makes the turn durable.
    drop(scroll);
    let opened = bench.open().unwrap();
    assert!(opened.known);
    assert_eq!(opened.doubts.len(), 1, "{:?}", opened.doubts);
    let mut scroll = opened.scroll;
    assert_eq!(scroll.tip().turn, 1);
    scroll.append(turn(2, "x"), None).unwrap();
    let head = scroll.sync().unwrap();
    drop(scroll);
    let opened = bench.open().unwrap();
    assert!(opened.known && opened.doubts.is_empty());
    assert_eq!(opened.scroll.tip().head, head);
}

fn record_hash(line: &[u8]) -> Option<Digest> {
    read_turn(line.trim_ascii_end(), Form::Json, &[]).hash()
}

#[test]
fn a_refusal_names_what_decided() {
    let bench = Bench::new();
    let bytes = bench.written(3, "x");
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    bench.put(&bytes[..=end]);
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

// T-KLOG-48
#[test]
fn a_key_that_ends_right_before_a_turn_signs_none() {
    let mut bench = Bench::new();
    bench.host.keys = EndingKeys::after(1);
    let mut scroll = bench.create();
    let (before, head) = (bench.bytes(), scroll.tip().head);
    let refused = scroll.append(turn(1, "x"), Some(&bench.signer));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(bench.bytes(), before);
    assert_eq!(scroll.sync().unwrap(), head);
    let path = bench.folder.path().join("other.jsonl");
    let refused = LiveScroll::create(
        bench.host.clone(),
        &path,
        turn(0, "other"),
        Some(&bench.signer),
    );
    assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::Refused);
    assert!(!path.exists());
}
