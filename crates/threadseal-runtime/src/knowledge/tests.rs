//! Entries that are found, and distinguished from changed ones.

use super::*;
use crate::testing::prelude::*;

fn entry(scene: &Scene, id: &str, text: &str) {
    scene.seal(&format!(".ai/knowledge/{id}.md"), text);
}

fn found(scene: &Scene, query: &str) -> Result<Found, Error> {
    search(&scene.host, &scene.project, &scene.trust, query)
}

fn hits(scene: &Scene, query: &str) -> Vec<Hit> {
    found(scene, query).unwrap().hits
}

#[test]
fn an_entry_is_found_by_all_of_its_words_in_any_case_and_order() {
    let scene = Scene::new();
    let id = "agent/threads/test/task/task-1";
    entry(
        &scene,
        id,
        "# test/task\n\nThe *answer* is in the straße.\n",
    );
    // A word of the signature alone.
    assert!(hits(&scene, "signed").is_empty());
    let hits = hits(&scene, "STRASSE ANSWER");
    assert_eq!(hits.len(), 1);
    assert_eq!((&*hits[0].id, hits[0].verdict), (id, Verdict::Verified));
    assert_eq!((hits[0].count, hits[0].line), (2, 4));
    assert_eq!(hits[0].snippet, "The *answer* is in the straße.");
    assert!(found(&scene, "  ").is_err());
}

#[test]
fn changed_and_unsigned_entries_are_found_and_told_from_verified_ones() {
    let scene = Scene::new();
    entry(&scene, "a/verified", "needle\n");
    entry(&scene, "a/changed", "needle\n");
    let changed = scene.path(".ai/knowledge/a/changed.md");
    edit(changed, "needle\n", "needle, needle, needle\n");
    scene.file(".ai/knowledge/plain.md", "needle needle\n");
    let hits = hits(&scene, "needle");
    let found: Vec<_> = hits.iter().map(|hit| (&*hit.id, hit.verdict)).collect();
    let expected = [
        ("a/changed", Verdict::Tampered),
        ("plain", Verdict::Unsigned),
        ("a/verified", Verdict::Verified),
    ];
    assert_eq!(found, expected);
}

#[test]
fn links_are_not_followed_and_large_files_are_named() {
    let scene = Scene::new();
    let large = ".ai/knowledge/large.md";
    scene.file(large, vec![b'x'; MAX_KNOWLEDGE_BYTES + 1]);
    scene.file(".ai/knowledge/other.txt", "needle");
    symlink("/etc", scene.path(".ai/knowledge/etc")).unwrap();
    let found = found(&scene, "needle").unwrap();
    assert!(found.hits.is_empty());
    assert_eq!(found.too_large, [scene.path(large)]);
}
