//! Texts that are frozen in files, to notice a change that was not meant; only for tests.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Lines of each text that a difference shows.
const SHOWN_LINES: usize = 12;
/// Characters of a line that it shows around the first that differs.
const SHOWN_CHARS: usize = 300;

/// Compares `text` with the file at `path`; `bless` writes the file instead.
///
/// # Panics
/// When they differ: with the name of the file and the first lines that differ.
#[track_caller]
pub fn check(path: &Path, text: &str, bless: bool) {
    if bless {
        let folder = path.parent().expect("a snapshot is in a folder");
        fs::create_dir_all(folder).expect("the folder of snapshots can be made");
        fs::write(path, text).expect("the snapshot can be written");
        return;
    }
    let frozen = fs::read_to_string(path).unwrap_or_default();
    if let Some(difference) = difference(&frozen, text) {
        panic!(
            "{} differs{difference}\nset THREADSEAL_BLESS=1 if this change is meant",
            path.display()
        );
    }
}

/// The first lines that differ, as a diff shows them; none where the texts are the same.
fn difference(frozen: &str, now: &str) -> Option<String> {
    if frozen == now {
        return None;
    }
    let lines = |text: &str| -> Vec<String> {
        let lines = text.split_inclusive('\n');
        lines.map(|line| line.escape_debug().to_string()).collect()
    };
    let (frozen, now) = (lines(frozen), lines(now));
    let same = frozen.iter().zip(&now).take_while(|(a, b)| a == b).count();
    let mut shown = format!(" at line {}:\n", same + 1);
    // Of long lines, only the part that differs helps.
    let of = |lines: &[String]| lines.get(same).cloned().unwrap_or_default();
    let (before, after) = (of(&frozen), of(&now));
    let alike = before
        .chars()
        .zip(after.chars())
        .take_while(|(a, b)| a == b);
    let skipped = alike.count().saturating_sub(SHOWN_CHARS / 2);
    let part = |line: &str| -> String { line.chars().skip(skipped).take(SHOWN_CHARS).collect() };
    for line in &frozen[same.saturating_sub(3)..same] {
        let _ = writeln!(shown, "  {}", part(line));
    }
    for (sign, lines) in [('-', &frozen), ('+', &now)] {
        for line in lines.iter().skip(same).take(SHOWN_LINES) {
            let _ = writeln!(shown, "{sign} {}", part(line));
        }
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_that_differ_are_shown_with_those_before() {
        assert_eq!(difference("a\n", "a\n"), None);
        let shown = difference("a\nb\nc\n", "a\nB\nc\n").unwrap();
        assert!(
            shown.starts_with(" at line 2:\n  a\\n\n- b\\n\n- c\\n\n+ B\\n\n"),
            "{shown}"
        );
        assert!(difference("a", "a\n").is_some());
        assert!(difference("", "a").is_some());
    }

    #[test]
    fn another_text_than_the_frozen_one_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/frozen.txt");
        check(&path, "text\n", true);
        check(&path, "text\n", false);
        let failed = std::panic::catch_unwind(|| check(&path, "Text\n", false));
        assert!(failed.is_err());
        let absent = std::panic::catch_unwind(|| check(&path.with_extension("no"), "x", false));
        assert!(absent.is_err());
    }
}
