//! The index: made from the archive, brought up to it, and searched.

use super::*;
use crate::archive::testing::{Bench, COPY, LOG};
use crate::archive::{Kept, Why};
use threadseal_store::sys::RealFs;

fn line(number: usize, words: &str) -> Vec<u8> {
    format!(
        "{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}},\"uuid\":\"{number}\",\"parentUuid\":null,\"timestamp\":\"2026-11-21T20:41:{number:02}.000Z\",\"cwd\":\"/src/api\",\"sessionId\":\"s\"}}\n"
    )
    .into_bytes()
}

fn keep(bench: &Bench, path: &str, words: &[&str]) {
    let lines = words
        .iter()
        .enumerate()
        .flat_map(|(number, words)| line(number, words));
    let text: Vec<u8> = lines.collect();
    assert!(matches!(bench.keep_text(path, &text), Kept::Added(_)));
}

fn found(index: &Index, words: &str) -> Vec<String> {
    let query = Query {
        words: words.to_owned(),
        most: 10,
        ..Query::default()
    };
    let hits = index.search(&query).unwrap();
    hits.iter()
        .map(|hit| format!("{}#{}", &hit.name.session.own()[..2], hit.turn))
        .collect()
}

// T-STO-34
#[test]
fn an_index_with_a_pipe_or_a_journal_beside_it_is_made_anew() {
    let home = tempfile::tempdir().unwrap();
    drop(Index::open(&RealFs, home.path()).unwrap());
    for ending in ["", "-journal", "-wal", "-shm"] {
        let path = home.path().join(format!("index.sqlite{ending}"));
        let _absent = std::fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let index = Index::open(&RealFs, home.path()).unwrap();
        assert_eq!(index.logs().unwrap(), []);
    }
}

#[test]
fn only_new_turns_of_a_growing_log_are_written_and_each_is_found() {
    let (bench, home) = (Bench::new(), tempfile::tempdir().unwrap());
    let mut index = Index::open(&RealFs, home.path()).unwrap();
    keep(&bench, LOG, &["alpha beta", "gamma"]);
    let done = index.refresh(&bench.archive()).unwrap();
    assert_eq!((done.logs, done.turns), (1, 2));
    assert_eq!(
        index.refresh(&bench.archive()).unwrap(),
        Refreshed::default()
    );
    keep(&bench, LOG, &["alpha beta", "gamma", "alpha delta"]);
    let done = index.refresh(&bench.archive()).unwrap();
    assert_eq!((done.logs, done.turns), (1, 1));
    assert_eq!(found(&index, "alpha"), ["3f#2", "3f#0"]);
    assert_eq!(found(&index, "beta alpha"), ["3f#0"]);
    assert_eq!(found(&index, "\"beta alpha\""), Vec::<String>::new());
    assert_eq!(found(&index, "\"alpha beta\""), ["3f#0"]);
    assert_eq!(found(&index, "GAM*"), ["3f#1"]);
    let log = &index.logs().unwrap()[0];
    assert_eq!(
        (log.turns, log.project.as_deref()),
        (Some(3), Some("/src/api"))
    );
    let without = search_archive(
        &bench.archive(),
        &Query {
            words: "alpha \"del*\" de*".to_owned(),
            most: 10,
            ..Query::default()
        },
    );
    assert!(
        without.unwrap().is_empty(),
        "a star in a sequence is no prefix"
    );
    for words in [
        "alpha",
        "beta alpha",
        "\"beta alpha\"",
        "\"alpha beta\"",
        "gam*",
    ] {
        let query = Query {
            words: words.to_owned(),
            most: 10,
            ..Query::default()
        };
        let turns = |hits: Vec<Hit>| hits.iter().map(|hit| hit.turn).collect::<Vec<_>>();
        let slow = turns(search_archive(&bench.archive(), &query).unwrap());
        assert_eq!(slow, turns(index.search(&query).unwrap()), "{words}");
    }
}

// T-ARC-19
#[test]
fn words_of_a_forgotten_session_leave_the_file() {
    let (bench, home) = (Bench::new(), tempfile::tempdir().unwrap());
    let mut index = Index::open(&RealFs, home.path()).unwrap();
    keep(&bench, LOG, &["frobnicator frobnicator"]);
    keep(&bench, COPY, &["something else"]);
    index.refresh(&bench.archive()).unwrap();
    let id = bench.archive().sessions().unwrap().remove(0);
    bench.archive().forget(&id, Why::Asked, "").unwrap();
    assert_eq!(index.refresh(&bench.archive()).unwrap().removed, 1);
    assert_eq!(found(&index, "frobnicator"), Vec::<String>::new());
    assert_eq!(found(&index, "something"), ["77#0"]);
    drop(index);
    for entry in std::fs::read_dir(home.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("frobnicator"));
    }
}

#[test]
fn an_encrypted_archive_leaves_no_word_in_the_index() {
    let (bench, home) = (Bench::encrypted(), tempfile::tempdir().unwrap());
    let mut index = Index::open(&RealFs, home.path()).unwrap();
    keep(&bench, LOG, &["frobnicator"]);
    index.refresh(&bench.archive()).unwrap();
    assert_eq!(found(&index, "frobnicator"), Vec::<String>::new());
    assert_eq!(index.logs().unwrap()[0].turns, Some(1));
}

#[test]
fn an_index_of_another_layout_or_without_sense_is_made_anew() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("index.sqlite");
    std::fs::write(&place, "no database").unwrap();
    assert!(Index::open(&RealFs, home.path()).is_ok());
    let index = Index::open(&RealFs, home.path()).unwrap();
    index
        .connection
        .pragma_update(None, "user_version", 99)
        .unwrap();
    drop(index);
    let index = Index::open(&RealFs, home.path()).unwrap();
    assert!(index.logs().unwrap().is_empty());
}

#[test]
fn case_is_folded_as_unicode_does_with_and_without_an_index() {
    let (bench, home) = (Bench::new(), tempfile::tempdir().unwrap());
    let mut index = Index::open(&RealFs, home.path()).unwrap();
    keep(&bench, LOG, &["Die Straße", "DIE STRASSE", "Ὀδυσσεύς"]);
    index.refresh(&bench.archive()).unwrap();
    for (words, turns) in [("straẞe", vec![1, 0]), ("ὈΔΥΣΣΕΎΣ", vec![2])] {
        let query = Query {
            words: words.to_owned(),
            most: 10,
            ..Query::default()
        };
        let turns_of = |hits: Vec<Hit>| hits.iter().map(|hit| hit.turn).collect::<Vec<_>>();
        assert_eq!(turns_of(index.search(&query).unwrap()), turns, "{words}");
        let without = search_archive(&bench.archive(), &query).unwrap();
        assert_eq!(turns_of(without), turns, "{words}");
    }
}
