//! Records of real programs, of every format that is read from documents and traces.
//!
//! Each is recognized, maps, is sealed and verifies, and does so again with all bodies removed.

use std::path::{Path, PathBuf};
use threadseal_convert::{Bodies, Detector, Mapped, Secret};
use threadseal_formats::scroll::{SealedTurn, seal_chain, verify_as_v01};

const SOURCES: &[(&str, &str, &[&str])] = &[
    ("atif", "atif-json", &[]),
    ("swe-agent", "swe-agent-traj", &[]),
    ("mini-swe-agent", "mini-swe-agent-json", &[]),
    ("inspect", "inspect-eval-json", &[]),
    ("langfuse", "langfuse-otel-trace-json", &[]),
    ("otlp", "otlp-traces-json", &["versions"]),
    ("opencode", "generated-here", &["opencode-1.18.33-export"]),
];

/// Finds nothing.
struct Blind;

impl Detector for Blind {
    fn find(&self, _: &str) -> Vec<Secret> {
        Vec::new()
    }
}

/// The files of a folder in the format `name`. File names with one of `words` are of `opencode`,
/// all others of the other format.
fn files(folder: &Path, name: &str, words: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let holds = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap();
        words.iter().any(|word| file.contains(word))
    };
    let mixed = name == "opencode";
    let mut files: Vec<_> = entries
        .filter(|path| words.is_empty() || holds(path) == mixed)
        .collect();
    files.sort();
    files
}

fn verifies(mapped: Mapped, path: &Path) {
    let sealed = seal_chain(mapped.into_turns().unwrap(), None).unwrap();
    assert!(!sealed.is_empty(), "{}", path.display());
    let values: Vec<_> = sealed.into_iter().map(SealedTurn::into_value).collect();
    let result = verify_as_v01(&values, None);
    assert!(result.ok(), "{}: {result:?}", path.display());
}

#[test]
fn records_of_real_programs_map_seal_and_verify() {
    let Some(folder) = threadseal_testkit::beside_repository("corpus/real-runs") else {
        return;
    };
    for (name, below, words) in SOURCES {
        let files = files(&folder.join(below), name, words);
        assert!(!files.is_empty(), "{name}");
        for path in files {
            let source = std::fs::read(&path).unwrap();
            let format = threadseal_convert::detect(&source).map(|format| format.name);
            assert_eq!(format, Some(*name), "{}", path.display());
            let mapped = threadseal_convert::find(name)
                .unwrap()
                .map(&source)
                .unwrap();
            assert_eq!(mapped.account.ungrouped(), 0);
            let redacted = threadseal_convert::redact(mapped.clone(), Bodies::All, &Blind);
            let mut calls = redacted
                .turns()
                .into_iter()
                .flat_map(|turn| turn.tool_calls);
            assert!(calls.all(|call| call.args.is_none()));
            verifies(mapped, &path);
            verifies(redacted, &path);
        }
    }
}
