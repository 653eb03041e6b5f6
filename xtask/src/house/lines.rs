//! How many lines each package has: production, tests, comments.
//!
//! What a feature adds for the tests of other crates (`fault`) counts as production.

use super::Package;
use crate::tidy::repository::Repository;
use crate::tidy::rust;
use std::collections::BTreeSet;
use std::ops::AddAssign;

/// Lines by kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) production: usize,
    pub(super) tests: usize,
    /// Lines that are only a comment, wherever they are.
    pub(super) docs: usize,
    pub(super) blank: usize,
}

impl Lines {
    pub(super) fn total(self) -> usize {
        self.production + self.tests + self.docs + self.blank
    }
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.production += other.production;
        self.tests += other.tests;
        self.docs += other.docs;
        self.blank += other.blank;
    }
}

/// The lines of all Rust files of `package`.
pub(super) fn of(repository: &Repository, package: &Package) -> Lines {
    let ships: BTreeSet<&str> = package.modules().map(|node| &*node.file).collect();
    let tests = &package.test_files;
    let mut out = Lines::default();
    for (path, text) in package.files(repository) {
        let inner = &path[package.folder.len()..];
        let in_tests = inner.starts_with("tests/") || inner.contains("/tests/");
        let only_test = tests.contains(path) && !ships.contains(path);
        out += count(text, in_tests || only_test);
    }
    out
}

/// The lines of one file; `test` when all of it is for tests.
fn count(source: &str, test: bool) -> Lines {
    let layers = rust::layers(source);
    let ranges = rust::test_ranges(&layers.code);
    let mut out = Lines::default();
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let first = start + (line.len() - line.trim_start().len());
        if line.trim().is_empty() {
            out.blank += 1;
        } else if layers.code[start..end].trim().is_empty()
            && !layers.comments[first..end].starts_with(char::is_whitespace)
        {
            out.docs += 1;
        } else if test || ranges.iter().any(|range| range.contains(&first)) {
            out.tests += 1;
        } else {
            out.production += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_production_test_comment_or_blank() {
        let source = "//! Doc.\n\nfn a() { // b\n    let c = \"\n // no comment\n\"; /* d\n e */\n}\n\
                      #[cfg(test)]\nmod tests {\n    // f\n    fn g() {}\n}\n";
        let expected = Lines {
            production: 5,
            tests: 4,
            docs: 3,
            blank: 1,
        };
        assert_eq!(count(source, false), expected);
        let all = Lines {
            production: 0,
            tests: 9,
            ..expected
        };
        assert_eq!(count(source, true), all);
    }

    #[test]
    fn files_below_tests_and_files_of_test_modules_are_tests() {
        let repository = Repository::from([
            ("p/Cargo.toml", "[package]"),
            ("p/src/lib.rs", "mod a;\n#[cfg(test)]\nmod b;\n"),
            ("p/src/a.rs", "fn a() {}\n"),
            ("p/src/b.rs", "mod c;\n"),
            ("p/src/b/c.rs", "fn c() {}\n"),
            ("p/tests/d.rs", "fn d() {}\n"),
            ("p/examples/e.rs", "fn e() {}\n"),
        ]);
        let lines = of(&repository, &super::super::packages(&repository)[0]);
        assert_eq!((lines.production, lines.tests), (3, 5));
    }
}
