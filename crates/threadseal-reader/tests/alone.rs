//! One file alone, over the whole testkit: held or streamed, in chunks of any size, the reports are the same.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is test code; clippy knows only the functions marked #[test]"
)]

use std::fs;
use std::path::{Path, PathBuf};
use threadseal_core::key::PublicKey;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{ScopeFormat, Trust};
use threadseal_reader::alone::{FileVerifier, Step};
use threadseal_reader::asked::{Asked, Beside, GivenKind};

/// The key of most records of the testkit.
const KEY: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
const FOLDERS: [&str; 10] = [
    "documents",
    "ledger",
    "lineage",
    "native",
    "observed",
    "proofs",
    "rules",
    "scroll",
    "tlog",
    "transcripts",
];

fn testkit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testkit")
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => walk(&path, files),
            false => files.push(path),
        }
    }
}

fn asked(path: &Path) -> Asked {
    let trust = Trust::key(PublicKey::from_hex(KEY).unwrap());
    let now = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
    let beside = |ending: &str| fs::read(format!("{}{ending}", path.display())).ok();
    Asked {
        beside: Beside {
            seal: beside(".seal"),
            bodies: fs::read(path.with_extension("bodies")).ok(),
            head: beside(".head"),
            ..Beside::default()
        },
        ..Asked::of(path.file_name().unwrap().to_str().unwrap(), trust, now).unwrap()
    }
}

/// The report, and whether the bytes were streamed.
fn verify(asked: &Asked, bytes: &[u8], held: usize, chunk: usize) -> (String, bool) {
    let mut verifier = FileVerifier::holding(asked.clone(), held);
    let mut is_streamed = false;
    loop {
        for chunk in bytes.chunks(chunk) {
            verifier.push(chunk).unwrap();
        }
        is_streamed |= verifier.progress().is_streamed;
        if let Step::Done(outcome) = verifier.finish().unwrap() {
            return (String::from_utf8(outcome.to_json()).unwrap(), is_streamed);
        }
    }
}

/// The kind of the files of a folder, where it is one.
fn kind_of(path: &Path) -> Option<GivenKind> {
    let name = path.to_string_lossy();
    let is_in = |folder: &str| name.contains(&format!("testkit/{folder}/"));
    let log = name.ends_with(".log");
    match () {
        () if is_in("native") && name.ends_with(".jsonl") => Some(GivenKind::Native),
        () if is_in("observed") && log => Some(GivenKind::Format(ScopeFormat::Log)),
        () if is_in("rules/scroll") => Some(GivenKind::Format(ScopeFormat::Scroll)),
        () if is_in("rules/ledger") => Some(GivenKind::Format(ScopeFormat::Ledger)),
        () => None,
    }
}

// T-VIEW-01
#[test]
fn no_chunks_and_no_streaming_change_a_report() {
    let (mut files, mut streamed) = (Vec::new(), 0);
    for folder in FOLDERS {
        walk(&testkit().join(folder), &mut files);
    }
    files.sort();
    // Each of them is asked about in Node, too.
    for path in files.iter().step_by(8) {
        let (asked, bytes) = (asked(path), fs::read(path).unwrap());
        let given = Asked {
            kind: kind_of(path),
            ..asked.clone()
        };
        for (asked, chunk) in [(asked, 1013), (given, 64)] {
            let (expected, _) = verify(&asked, &bytes, usize::MAX, usize::MAX);
            for (held, chunk) in [(0, chunk), (0, usize::MAX)] {
                let (found, is_streamed) = verify(&asked, &bytes, held, chunk);
                assert_eq!(found, expected, "{}: {held}, {chunk}", path.display());
                streamed += usize::from(is_streamed);
            }
        }
    }
    assert!(files.len() > 3000, "{} files", files.len());
    assert!(streamed > 100, "{streamed} were streamed");
}

#[test]
fn long_files_of_each_kind_are_streamed_and_have_the_same_reports() {
    for (name, unit, times) in [
        (
            "transcripts/native/valid.jsonl",
            "{\"type\":\"user\"}\n",
            40_000,
        ),
        (
            "transcripts/native/turn_edited.jsonl",
            "{\"type\":\"user\"}\n",
            40_000,
        ),
        (
            "transcripts/native/observed.jsonl",
            "{\"type\":\"user\"}\n",
            40_000,
        ),
        ("transcripts/native/observed.jsonl", "not JSON\n", 80_000),
        ("rules/ledger/signed.jsonl", "{\"run_id\":\"x\"}\n", 40_000),
        (
            "rules/scroll/signed-lines.jsonl",
            "{\"version\":\"scroll/0.1\"}\n",
            40_000,
        ),
    ] {
        let path = testkit().join(name);
        let asked = asked(&path);
        let bytes = [fs::read(&path).unwrap(), unit.repeat(times).into_bytes()].concat();
        let (expected, _) = verify(&asked, &bytes, usize::MAX, usize::MAX);
        let (found, is_streamed) = verify(&asked, &bytes, 300 << 10, 70_000);
        assert_eq!(found, expected, "{name}");
        assert!(is_streamed, "{name}");
        // Its kind shows at its end alone.
        let late = [unit.repeat(times).into_bytes(), fs::read(&path).unwrap()].concat();
        let (expected, _) = verify(&asked, &late, usize::MAX, usize::MAX);
        let (found, _) = verify(&asked, &late, 300 << 10, 70_000);
        assert_eq!(found, expected, "{name}, late");
    }
}

// T-VIEW-02
#[test]
fn a_file_that_changes_between_two_passes_gets_no_mixed_report() {
    let folder = testkit().join("transcripts/native");
    let valid = fs::read(folder.join("valid.jsonl")).unwrap();
    let edited = fs::read(folder.join("turn_edited.jsonl")).unwrap();
    let asked = asked(&folder.join("valid.jsonl"));
    // A second look checks every signature.
    let closely = Asked {
        every_signature: true,
        ..asked.clone()
    };
    let alone = |bytes: &[u8]| verify(&closely, bytes, usize::MAX, usize::MAX).0;
    let long = |bytes: &[u8]| [bytes, &b"{}\n".repeat(100)].concat();
    let (first, second) = (long(&edited), long(&valid));
    let mut verifier = FileVerifier::holding(asked.clone(), 0);
    verifier.push(&first).unwrap();
    let Step::Again = verifier.finish().unwrap() else {
        panic!("a changed record is looked at twice");
    };
    verifier.push(&second).unwrap();
    let Step::Done(outcome) = verifier.finish().unwrap() else {
        panic!("the second look is the last");
    };
    let found = String::from_utf8(outcome.to_json()).unwrap();
    assert_eq!(found, alone(&second));
    assert_ne!(found, alone(&first));
}

// T-VIEW-03
#[test]
fn a_verification_that_ended_takes_no_more() {
    let path = testkit().join("transcripts/native/valid.jsonl");
    let bytes = fs::read(&path).unwrap();
    let mut verifier = FileVerifier::new(asked(&path));
    verifier.push(&bytes).unwrap();
    assert!(matches!(verifier.finish(), Ok(Step::Done(_))));
    assert!(verifier.push(&bytes).is_err());
    assert!(verifier.finish().is_err());
}
