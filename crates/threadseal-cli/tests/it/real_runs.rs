//! Logs that real agents wrote: each is sealed with a detached seal, verifies, and every edit is
//! found at its line. A run tries one edit of each log, so each kind with many; `THREADSEAL_ALL_EDITS`
//! tries all.

use crate::prelude::*;
use crate::sandbox::option_env;

/// Every `.jsonl` below `folder`.
fn logs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            logs(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
}

/// The four edits at line `at`, counted from 0, each with the code of its finding.
fn edits<'l>(lines: &[&'l str], at: usize) -> Vec<(&'static str, Vec<&'l str>)> {
    let mut changed = lines.to_vec();
    changed[at] = "{\"evil\":1}\n";
    let mut inserted = lines.to_vec();
    inserted.insert(at, "{\"evil\":1}\n");
    let mut all = vec![("line_changed", changed), ("line_inserted", inserted)];
    let next = lines[at + 1];
    if lines[at].trim_end() != next.trim_end() && next.ends_with('\n') {
        let mut deleted = lines.to_vec();
        deleted.remove(at);
        let mut moved = lines.to_vec();
        moved.swap(at, at + 1);
        all.extend([("line_deleted", deleted), ("line_moved", moved)]);
    }
    all
}

#[test]
fn logs_of_real_agents_are_sealed_and_every_edit_is_found_at_its_line() {
    let Some(corpus) = shared("corpus/real-runs") else {
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let mut found = Vec::new();
    logs(&corpus, &mut found);
    found.sort();
    assert!(found.len() > 100, "{} logs", found.len());
    let all_edits = option_env("THREADSEAL_ALL_EDITS").is_some();
    let mut tried = BTreeMap::new();
    for (number, path) in found.iter().enumerate() {
        let log = sandbox.path(format!("{number}.jsonl"));
        let original = fs::read(path).unwrap();
        fs::write(&log, &original).unwrap();
        sandbox.ok(format!("seal {log:?}"));
        sandbox.ok(format!("verify {log:?}"));
        let Ok(text) = std::str::from_utf8(&original) else {
            continue;
        };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        if lines.len() < 3 {
            continue;
        }
        let at = number * 7 % (lines.len() - 1);
        let mut edits = edits(&lines, at);
        if !all_edits {
            let one = number % edits.len();
            edits = vec![edits.swap_remove(one)];
        }
        for (code, edited) in edits {
            *tried.entry(code).or_insert(0) += 1;
            fs::write(&log, edited.concat()).unwrap();
            let report = sandbox.exits(1, format!("verify --json {log:?}")).json();
            let finding = &report["results"][0]["findings"][0];
            let place = (finding["code"].as_str(), finding["line"].as_u64());
            assert_eq!(
                place,
                (Some(code), Some(at as u64 + 1)),
                "{}",
                path.display()
            );
        }
        fs::write(&log, &original).unwrap();
    }
    assert!(
        tried.len() == 4 && tried.values().all(|logs| *logs > 10),
        "{tried:?}"
    );
}
