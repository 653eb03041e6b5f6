//! Histories of Aider, hand-made.

use super::*;
use crate::testing::*;

const HISTORY: &str = "\n# aider chat started at 2025-01-31 10:15:02\n\n> Aider v0.70.0  \n> Model: m  \n\n#### make a file  \n#### with two lines  \n\nSure.\n\n# A heading of the model\n> Tokens: 2.3k sent, 10 received.\n\n# aider chat started at 2025-02-01 09:00:00\n\n#### /ls\n> 1 file\n";

#[test]
fn lines_of_one_speaker_are_one_turn() {
    let mapped = detected(NAME, HISTORY);
    assert_eq!(roles(&mapped), "system user assistant system user system");
    let turns = mapped.turns();
    let text = |index: usize| {
        items(&turns[index])[0]
            .get("text")
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(text(1), "make a file  \nwith two lines  ");
    assert_eq!(text(2), "\nSure.\n\n# A heading of the model");
    assert_eq!(word(&turns[1], "session"), Some("2025-01-31 10:15:02"));
    assert_eq!(word(&turns[4], "session"), Some("2025-02-01 09:00:00"));
    assert_eq!(source(&turns[1], "lines"), Some(&json("[7,8]")));
    assert_eq!(calls(&mapped), (0, 0));
}

#[test]
fn a_history_without_its_first_line_is_less_sure() {
    let tail = "> Aider v0.70.0\n#### hi\nHello.\n";
    let found = crate::recognise(tail.as_bytes()).unwrap();
    assert_eq!(
        (found.format.name, found.confidence),
        (NAME, Confidence::Likely)
    );
    let found = crate::recognise(HISTORY.as_bytes()).unwrap();
    assert_eq!(found.confidence, Confidence::Certain);
    assert!(crate::recognise(b"# Notes\n#### Part\n> quote\n").is_none());
}

#[test]
fn other_bytes_are_refused() {
    let broken = [HISTORY.as_bytes(), b"\xff\xfe"].concat();
    assert!(find(NAME).unwrap().map(&broken).is_err());
    hostile(NAME, &[HISTORY]);
}
