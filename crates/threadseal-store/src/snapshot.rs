//! Texts that are frozen in files, to notice a change that was not meant; only for tests.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

use crate::read::open_regular;
use crate::sys::{FileKind, Fs};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use threadseal_core::digest::Digest;

/// Lines of each text that a difference shows.
const SHOWN_LINES: usize = 12;
/// The longest text that a tree shows.
const TEXT_BYTES: usize = 1500;
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

/// All files below `folder`: each with mode, length and digest, and with its text where that is short.
///
/// # Panics
/// When a file cannot be read.
pub fn tree(fs: &dyn Fs, folder: &Path) -> String {
    let mut out = String::new();
    add_tree(fs, folder, &mut out);
    out
}

fn add_tree(fs: &dyn Fs, folder: &Path, out: &mut String) {
    let mut names = fs.read_dir(folder).expect("the tree can be read");
    names.sort();
    for name in names {
        let path = folder.join(name);
        let found = fs.symlink_metadata(&path).expect("the tree can be read");
        if found.kind == FileKind::Directory {
            let _ = writeln!(out, "{}/ {:o}", path.display(), found.mode);
            add_tree(fs, &path, out);
            continue;
        }
        let file = open_regular(fs, &path).expect("the tree can be read");
        let bytes = without_nonces(file.read_whole(1 << 26).expect("the file can be read"));
        let (length, digest) = (bytes.len(), Digest::of(&bytes));
        let mut place = path.display().to_string();
        if place.contains("/transcript-segments/") {
            // The name of a segment ends in its writer's nonce.
            place.replace_range(place.len() - 32.., &"0".repeat(32));
        }
        let _ = writeln!(out, "{place} {:o} {length} {digest}", found.mode);
        let text = String::from_utf8(bytes).unwrap_or_default();
        let is_text =
            text.len() <= TEXT_BYTES && !text.contains(|c: char| c.is_control() && c != '\n');
        for line in text.lines().filter(|_| is_text) {
            let _ = writeln!(out, "  | {line}");
        }
    }
}

/// The nonces of an object that is a head, and the checksum over them, as zeros: the system's generator gives them.
fn without_nonces(mut bytes: Vec<u8>) -> Vec<u8> {
    let heads = [
        &b"threadseal.object-head/1 "[..],
        b"threadseal.transcript-head/1 ",
    ];
    let Some(begin) = heads.into_iter().find(|begin| bytes.starts_with(begin)) else {
        return bytes;
    };
    for mark in [begin, b"\"append\":\"", b"\"writer\":\""] {
        let places: Vec<usize> = (0..bytes.len())
            .filter(|at| bytes[*at..].starts_with(mark))
            .collect();
        for at in places {
            let digits = bytes[at + mark.len()..]
                .iter_mut()
                .take_while(|byte| byte.is_ascii_hexdigit());
            digits.for_each(|byte| *byte = b'0');
        }
    }
    // In a ledger's head, each record begins with that of its append.
    let is_row =
        |line: &[u8]| line.get(32) == Some(&b' ') && line[..32].iter().all(u8::is_ascii_hexdigit);
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        if is_row(line) {
            line[..32].fill(b'0');
        }
    }
    bytes
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
