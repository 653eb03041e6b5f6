//! Compares the Python dialects with the machine's own Python: acceptance, and every written byte.

use super::arbitrary::{self, mutated};
use super::{Unrepresentable, json, python};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::io::Write;
use std::process::{Command, Stdio};

/// Reads one text in hex from each line. Answers `refused`, or the four dialects with tabs between
/// (no dialect contains a raw tab or line feed).
const SCRIPT: &str = r#"
import json, sys
for line in sys.stdin:
    try:
        value = json.loads(bytes.fromhex(line).decode("utf-8"))
    except (ValueError, RecursionError):
        sys.stdout.buffer.write(b"refused\n")
        continue
    rye = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    try:
        ledger = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        line = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        ledger = line = b"lone surrogate"
    answer = [rye, ledger, line, json.dumps(value).encode()]
    sys.stdout.buffer.write(b"\t".join(answer) + b"\n")
"#;

/// Python's answer for each text, or `None` where there is no Python.
fn ask(texts: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        println!("skipped: python3 not found");
        return None;
    };
    let questions: String = texts
        .iter()
        .map(|text| crate::encoding::hex(text) + "\n")
        .collect();
    let mut stdin = python.stdin.take().unwrap();
    let asking = std::thread::spawn(move || stdin.write_all(questions.as_bytes()));
    let output = python.wait_with_output().unwrap();
    asking.join().unwrap().unwrap();
    assert!(output.status.success());
    let answers = output.stdout.split(|byte| *byte == b'\n');
    Some(answers.take(texts.len()).map(<[u8]>::to_vec).collect())
}

fn our_answer(text: &[u8]) -> Vec<u8> {
    let Ok(document) = json::parse_python(text) else {
        return b"refused".to_vec();
    };
    let value = document.value;
    let in_utf8 = |written| match written {
        Ok(written) => written,
        Err(Unrepresentable::LoneSurrogate) => b"lone surrogate".to_vec(),
        Err(other) => panic!("{other}"),
    };
    let (ledger, line) = (python::ledger(&value), python::ledger_line(&value));
    let (rye, rye_line) = (python::rye(&value), python::rye_line(&value));
    [rye, in_utf8(ledger), in_utf8(line), rye_line].join(&b'\t')
}

fn compare(texts: &[Vec<u8>]) {
    let Some(answers) = ask(texts) else { return };
    assert_eq!(answers.len(), texts.len());
    for (text, theirs) in texts.iter().zip(answers) {
        let ours = our_answer(text);
        // To escape texts that are equal would cost more than to compare them.
        let escaped = || [&ours, &theirs, text].map(|bytes| bytes.escape_ascii().to_string());
        assert!(ours == theirs, "{:#?}", escaped());
    }
}

fn draw<T>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    let mut tree = || strategy.new_tree(&mut runner).unwrap().current();
    (0..count).map(|_| tree()).collect()
}

#[test]
fn random_doubles_are_written_as_python_writes_them() {
    let mut bits: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits
    };
    let mut literals = Vec::new();
    for round in 0..200_000_i32 {
        let any = f64::from_bits(next());
        let mantissa = f64::from(u32::try_from(next() >> 40).unwrap());
        let human = mantissa * 10_f64.powi(round % 48 - 30);
        for value in [any, human].into_iter().filter(|value| value.is_finite()) {
            literals
                .push(format!("{value:e}").replace('e', if round % 2 == 0 { "e" } else { "E" }));
        }
    }
    // Each power of ten where the layout changes, and its neighbours.
    for power in -8..24 {
        let value: f64 = format!("1e{power}").parse().unwrap();
        for neighbour in [value.next_down(), value, value.next_up()] {
            literals.push(format!("{neighbour:?}"));
            literals.push(format!("-{neighbour:?}"));
        }
    }
    let arrays: Vec<_> = literals
        .chunks(1000)
        .map(|chunk| format!("[{}]", chunk.join(",")).into_bytes())
        .collect();
    compare(&arrays);
}

#[test]
fn random_documents_are_written_as_python_writes_them() {
    let documents = draw((arbitrary::value(), proptest::num::u64::ANY), 5_000);
    let texts: Vec<_> = documents
        .iter()
        .map(|(value, seed)| arbitrary::spell(value, *seed).into_bytes())
        .collect();
    compare(&texts);
}

#[test]
fn what_python_accepts_is_accepted_and_nothing_else() {
    compare(&draw(mutated(), 40_000));
    let pieces = "0 - -0 01 1. .5 1e 1e5 1E+05 1e-400 1e999 -1e999 NaN -NaN nan Infinity -Infinity \
        +Infinity infinity Infinit True true nul \"\\ud800\" \"\\udc00\\ud800\" \"\\ud800\\udc00\" \
        \"\\uD83E\\uDD80\" \"\\ud800\\u0041\" \"\\ud800\\n\" \"\\ud800\\ud800\\udc00\" \"\\u00e\" \
        \"\\U0041\" \"\\x41\" \"\\'\" \"\\/\" \"\u{7f}\u{80}\u{2028}\" {\"a\":1,\"b\":2,\"a\":3} {} \
        {\"a\":1,} {1:2} {\"a\"} [1,] [,1] [1,,2] '' \u{feff}1 1\u{a0} /**/1 \"\t\"";
    let texts: Vec<_> = pieces
        .split(' ')
        .map(|piece| piece.as_bytes().to_vec())
        .collect();
    compare(&texts);
    let digits = "7".repeat(4300);
    compare(&[
        digits.clone().into_bytes(),
        format!("-{digits}").into_bytes(),
        format!("{digits}7").into_bytes(),
        format!("{digits}7.0").into_bytes(),
        format!("0.{digits}7").into_bytes(),
        b"\x0b1".to_vec(),
        b"\x0c1".to_vec(),
        b" \t\r\n1 \t\r\n".to_vec(),
        b"\"\xed\xa0\x80\"".to_vec(),
        b"".to_vec(),
        format!("{}{}", "[".repeat(512), "]".repeat(512)).into_bytes(),
    ]);
}
