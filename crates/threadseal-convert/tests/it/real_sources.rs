//! Sources from real agents: each source of a known format maps, seals and verifies.

use std::fs;
use std::path::{Path, PathBuf};
use threadseal_convert as convert;
use threadseal_formats::scroll::{seal_chain, verify};
use threadseal_testkit::beside_repository;

/// Requests of Anthropic's, OpenAI's and Google's clients in one file.
const MIXED: &str = "wire-requests-from-real-clients.jsonl";

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn every_real_source_of_a_known_format_maps_seals_and_verifies() {
    let Some(corpus) = beside_repository("corpus/real-runs") else {
        return;
    };
    let mut found = Vec::new();
    files(&corpus, &mut found);
    let mut mapped_files = 0;
    for path in &found {
        let source = fs::read(path).unwrap();
        let Some(format) = convert::detect(&source) else {
            continue;
        };
        let mapped = match format.map(&source) {
            // Its requests are of several providers, and one mapping would drop the others.
            Err(refused) if path.ends_with(MIXED) => {
                assert!(refused.to_string().contains("would drop them"), "{refused}");
                continue;
            }
            mapped => mapped.unwrap(),
        };
        let (turns, account) = (mapped.drafts.len() as u64, mapped.account.clone());
        assert_eq!((account.turns, account.ungrouped()), (turns, 0), "{path:?}");
        let chain = seal_chain(mapped.into_turns().unwrap(), None).unwrap();
        let chain: Vec<_> = chain.iter().map(|turn| turn.as_value().clone()).collect();
        let result = verify(&chain, None);
        assert!(
            result.failures.is_empty(),
            "{path:?}: {:?}",
            result.failures
        );
        mapped_files += 1;
    }
    assert!(
        mapped_files > 100,
        "{mapped_files} of {} files",
        found.len()
    );
}

#[test]
fn sessions_of_agents_are_told_apart_by_what_they_hold() {
    let Some(corpus) = beside_repository("corpus/real-runs") else {
        return;
    };
    for (folder, format) in [
        ("claude-code-jsonl", "claude-code"),
        ("claude-code-synthetic", "claude-code"),
        ("codex-rollout-jsonl", "codex"),
    ] {
        let mut found = Vec::new();
        files(&corpus.join(folder), &mut found);
        for path in found {
            let detected = convert::detect(&fs::read(&path).unwrap()).map(|format| format.name);
            assert_eq!(detected, Some(format), "{path:?}");
        }
    }
}
