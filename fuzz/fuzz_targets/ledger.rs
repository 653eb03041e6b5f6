//! Step ledgers as lines and as rows of a table.
//!
//! * The verdict on a file does not depend on its chunks.
//! * If AbstractRuntime's report has no fault and ours has none, both read the same number of
//!   records.
//! * Without a head or a signature nothing is ever verified.
//! * A chain made of the input's records holds. With one byte changed it does not hold, or the byte
//!   is not hashed. In both cases it is not verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::digest::Digest;
use threadseal_formats::ledger::{
    ChainOptions, Judging, LineReader, LineSplitter, Place, RunState, SignedHead, StepRecord, Verifier,
    compute_record_hash, conclude, judge,
};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Expectation, Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;

static TRUST: LazyLock<Trust> = LazyLock::new(Trust::default);

fn judging() -> Judging<'static> {
    Judging::new(&TRUST, Timestamp::from_micros(1_800_000_000_000_000).expect("in range"))
}

fuzz_target!(|data: &[u8]| {
    any_chunks(data);
    rows(data);
    parts(data);
    if let [high, low, flip, rest @ ..] = data {
        changed(usize::from(*high) << 8 | usize::from(*low), *flip, rest);
    }
});

fn any_chunks(bytes: &[u8]) {
    let whole = judge(bytes, ChainOptions::default(), &judging());
    assert_ne!(whole.report.verdict, Verdict::Verified, "nothing vouches for it");
    assert!(whole.verified.is_none());
    let (mut verifier, mut reader) = (Verifier::new(ChainOptions::default()), LineReader::new());
    let mut each = |line: &[u8], place: Place| {
        let read = reader.read_line(line);
        verifier.take(&read, line, place);
    };
    let mut splitter = LineSplitter::new();
    bytes.chunks(1 + bytes.len() % 61).for_each(|chunk| splitter.push(chunk, &mut each));
    let length = splitter.finish(&mut each);
    assert_eq!(conclude(verifier, length, &judging()).report, whole.report);
}

/// A row is one record, like a line with one record.
fn rows(bytes: &[u8]) -> Report {
    let (mut verifier, mut reader) = (Verifier::new(ChainOptions::default()), LineReader::new());
    let mut number = 0;
    for text in bytes.split(|byte| *byte == b'\n') {
        number += 1;
        let read = reader.read_row(text);
        verifier.take(&read, text, Place::row(number, text.len() as u64));
    }
    let report = conclude(verifier, bytes.len() as u64, &judging()).report;
    assert_ne!(report.verdict, Verdict::Verified);
    report
}

fn parts(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = SignedHead::parse(text);
    }
    let Ok(document) = json::parse_python(bytes) else {
        return;
    };
    if let Ok(state) = RunState::from_value(document.value.clone()) {
        assert_eq!(RunState::from_value(state.to_value()).expect("what it wrote"), state);
    }
    if let Ok(record) = StepRecord::from_value(document.value) {
        assert_eq!(StepRecord::from_value(record.to_value()).expect("what it wrote"), record);
    }
}

/// The records in `rest`, chained again, one per line.
fn chained(rest: &[u8]) -> Option<(Vec<u8>, Digest)> {
    let mut prev: Option<Digest> = None;
    let mut file = Vec::new();
    for line in rest.split(|byte| *byte == b'\n') {
        let Ok(value @ Value::Object(_)) = json::parse(line) else {
            continue;
        };
        let Ok(mut record) = StepRecord::from_value(value) else {
            continue;
        };
        record.prev_hash = prev;
        record.signature = None;
        let hash = compute_record_hash(&record.to_value(), prev.as_ref()).ok()?;
        record.record_hash = Some(hash);
        file.extend(record.to_line().ok()?);
        file.push(b'\n');
        prev = Some(hash);
    }
    Some((file, prev?))
}

fn changed(at: usize, flip: u8, rest: &[u8]) {
    let Some((mut file, head)) = chained(rest) else {
        return;
    };
    let verdict = |file: &[u8]| {
        let options = ChainOptions {
            expect: vec![Expectation::given(
                ExpectedHead::parse(&head.to_hex()).expect("a digest"),
                true,
            )],
            ..ChainOptions::default()
        };
        judge(file, options, &judging()).report
    };
    if flip == 0 || verdict(&file).verdict != Verdict::Verified {
        return;
    }
    let at = at % file.len();
    file[at] ^= flip;
    let after = verdict(&file);
    assert_ne!(after.verdict, Verdict::Verified, "byte {at} of {:?}", String::from_utf8_lossy(&file));
}
