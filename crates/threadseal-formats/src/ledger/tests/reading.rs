//! The quick way and the careful one give the same facts; lines are cut as Python cuts them.

use super::super::facts::{FactReader, Facts};
use super::super::load::{Found, LineRead, LineReader, LineSplitter, Place};
use super::*;
use proptest::prelude::*;
use threadseal_core::canon::arbitrary;
use threadseal_core::canon::json::parse_python;

fn slow(text: &[u8]) -> Option<Facts> {
    let document = parse_python(text).ok()?;
    FactReader::default().read_value(&document.value, &document.irregularities, text)
}

/// All facts that a verdict depends on. Where a number is inexact, the careful way does not know.
fn shown(facts: Facts) -> String {
    let mut facts = facts;
    for odd in &mut facts.oddities {
        odd.offset = None;
    }
    format!("{facts:?}")
}

fn agree(text: &[u8]) -> Result<bool, TestCaseError> {
    let Some(quick) = FactReader::default().read(text) else {
        return Ok(false);
    };
    let careful = slow(text).expect("what the strict rules take, Python takes");
    prop_assert_eq!(shown(quick), shown(careful));
    Ok(true)
}

proptest! {
    // T-LED-20
    #[test]
    fn the_quick_way_and_the_careful_one_find_the_same(
        payload in arbitrary::value(),
        seed in any::<u64>(),
        hash in any::<[u8; 32]>(),
    ) {
        let payload = arbitrary::spell(&payload, seed);
        let hash = threadseal_core::encoding::hex(&hash);
        let texts = [
            format!(r#"{{"run_id":"r","prev_hash":"{hash}","effect":{payload},"$slim":1,"status":"started"}}"#),
            format!(r#"{{ "record_hash" : "{hash}", "result":{payload} , "\u0073tep_id":"s","started_at":"x" }}"#),
            format!(r#"{{"prev_hash":{payload},"record_hash":{payload},"signature":{payload}}}"#),
            payload,
        ];
        for text in texts {
            agree(text.as_bytes())?;
        }
    }

    #[test]
    fn what_is_changed_in_a_line_is_read_both_ways_alike(payload in arbitrary::mutated()) {
        let text = [br#"{"run_id":"r","prev_hash":null,"effect":"#, &payload[..], b"}"].concat();
        agree(&text)?;
        agree(&payload)?;
    }

    #[test]
    fn any_bytes_are_cut_into_the_lines_of_python_whatever_the_chunks(
        bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..40),
        size in 1..10_usize,
    ) {
        let expected: Vec<_> = python_lines(&bytes);
        let mut found = Vec::new();
        let mut splitter = LineSplitter::new();
        let mut each = |line: &[u8], place: Place| {
            let from = usize::try_from(place.from).unwrap();
            let to = usize::try_from(place.to).unwrap();
            assert_eq!(&bytes[from..to], line);
            found.push((line.to_vec(), place.ended, place.line));
        };
        for chunk in bytes.chunks(size) {
            splitter.push(chunk, &mut each);
        }
        prop_assert_eq!(splitter.finish(&mut each), bytes.len() as u64);
        let numbered = expected.into_iter().zip(1..);
        let expected: Vec<_> = numbered.map(|((line, ended), number)| (line, ended, number)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_line_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut reader = LineReader::new();
        reader.read_line(&bytes);
        reader.read_row(&bytes);
    }
}

/// Universal newlines, the plain way.
fn python_lines(bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => (line.as_bytes().to_vec(), true),
            None => (line.as_bytes().to_vec(), false),
        })
        .collect()
}

fn count(read: &LineRead) -> usize {
    match &read.found {
        Found::Nothing => 0,
        Found::One(_) => 1,
        Found::Several(records) => records.len(),
    }
}

#[test]
fn a_line_holds_what_the_original_finds_on_it() {
    let digits = "1".repeat(4301);
    for (line, records, skips, raises) in [
        ("", 0, false, false),
        (" \u{a0}\u{85}\u{2028}\u{1c} ", 0, false, false),
        ("\u{3000}{}\u{1f}", 1, false, false),
        ("\u{feff}{}", 0, true, false),
        ("[{}]", 0, true, false),
        ("{}{}", 2, false, false),
        ("{} \u{2003}{\"a\":NaN}", 2, false, false),
        ("{} x {}", 1, true, false),
        ("x {}", 0, true, false),
        ("1 {} 2 {}", 2, true, false),
        ("0123{}", 1, true, false),
        ("{\"run_id\":\"r\",\"st{\"run_id\":\"r\"}", 0, true, false),
        ("{\"a\":1,\"a\":2}", 1, false, false),
        (&format!("{{\"a\":{digits}}}"), 0, true, true),
        (&format!("{{}}{{\"a\":-{digits}}}"), 1, true, true),
        (&format!("{{\"a\":{digits}.0}}"), 1, false, false),
    ] {
        let read = LineReader::new().read_line(line.as_bytes());
        assert_eq!(count(&read), records, "{line}");
        assert_eq!(read.skipped.is_some(), skips, "{line}");
        assert_eq!(read.raises.is_some(), raises, "{line}");
    }
    let read = LineReader::new().read_line(b"{\"a\":\"\xff\"}");
    assert!(read.skipped.is_some() && read.raises.is_some());
}

#[test]
fn a_row_holds_one_record_or_nothing_and_never_raises() {
    let digits = format!("{{\"a\":{}}}", "1".repeat(4301));
    for (text, records) in [
        ("{}", 1),
        (" {\"a\":NaN} ", 1),
        ("{}{}", 0),
        ("", 0),
        ("[]", 0),
        (&*digits, 0),
    ] {
        let read = LineReader::new().read_row(text.as_bytes());
        assert_eq!(count(&read), records, "{text}");
        assert!(read.raises.is_none(), "{text}");
        assert_eq!(read.skipped.is_some(), records == 0, "{text}");
    }
}

#[test]
fn a_row_that_is_no_text_makes_the_original_raise_whatever_stands_before_it() {
    let mut verifier = Verifier::new(ChainOptions::default());
    let mut reader = LineReader::new();
    let rows: [&[u8]; 3] = [b"{}", b"{\"a\":\"\xff\"}", b"\xfe"];
    for (number, row) in (1..).zip(rows) {
        let place = Place::row(number, row.len() as u64);
        verifier.take(&reader.read_row(row), row, place);
    }
    let trust = Trust::default();
    let report = conclude(verifier, 0, &Judging::new(&trust, at(0))).report;
    let text = "{\\\"a\\\":\\\"\u{fffd}\\\"}";
    let expected = format!(
        "{{\"exception\": {{\"type\": \"OperationalError\", \"message\": \"Could not decode to UTF-8 \
         column 'record_json' with text '{text}'\", \"stage\": \"load\"}}}}"
    );
    assert_eq!(answer(&report).replace("\\ufffd", "\u{fffd}"), expected);
}
