//! Pages of effects: each row of the tables of `spec/declarations.md` is shown by a run without it
//! and a run with it.
//!
//! ```text
//! tables of the specification ─► Specified ─┬─ the same names ─► compare
//! rows of a test ─► run twice ─► Page ──────┘
//!                                 └─► docs/NAME.md
//! ```
//! A row of one side that the other has not is a failure, and so is a row without an effect.

use crate::testing::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use threadseal_store::snapshot;

/// A page of `docs/`, as far as it is written.
pub(super) struct Page {
    text: String,
    /// The rows without an effect.
    same: Vec<String>,
}

impl Page {
    pub(super) fn new(heading: &str) -> Self {
        Self {
            text: heading.to_owned(),
            same: Vec::new(),
        }
    }

    /// The first lines of a table.
    pub(super) fn table(&mut self, head: &[&str]) {
        self.line(head);
        let _ = writeln!(self.text, "|{}", "---|".repeat(head.len()));
    }

    fn line(&mut self, cells: &[&str]) {
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    /// A row: its first cells, what is declared, and what a run without and one with it shows.
    pub(super) fn row(&mut self, names: [&str; 2], declared: &str, seen: &[String; 2]) {
        // What is shown is no code: a `<` would begin an element there.
        let [without, with] = seen.each_ref().map(|text| cell(text).replace('<', "\\<"));
        if without == with {
            self.same.push(format!("{names:?}: {without}"));
        }
        let declared = match declared {
            "" => String::new(),
            text => format!("`{}`", cell(text)),
        };
        self.line(&[names[0], names[1], &declared, &without, &with]);
    }

    /// Compares the page with the file, or writes the file where a person asks for it.
    #[track_caller]
    pub(super) fn check(self, file: &str) {
        assert_eq!(self.same, Vec::<String>::new(), "rows without an effect");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        #[expect(
            clippy::disallowed_methods,
            reason = "a person who runs the test asks for the new text"
        )]
        let bless = std::env::var_os("THREADSEAL_BLESS").is_some();
        snapshot::check(&path.join(file), &self.text, bless);
    }
}

/// A text as it is in a cell.
fn cell(text: &str) -> String {
    text.trim().replace('\n', "; ").replace('|', "\\|")
}

/// A row of a table of the specification.
pub(super) struct Specified {
    /// The heading above its table.
    pub(super) heading: String,
    /// The first cell of the first line of its table.
    pub(super) of: String,
    pub(super) cells: Vec<String>,
}

/// The rows of all tables of `spec/declarations.md` between two headings.
pub(super) fn specified(from: &str, to: &str) -> Vec<Specified> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/declarations.md");
    let text = fs::read_to_string(path).unwrap();
    let text = text.split(&format!("\n{from}")).nth(1).unwrap();
    let text = text.split(&format!("\n{to}")).next().unwrap();
    let (mut heading, mut of) = (String::new(), None);
    let mut rows = Vec::new();
    for line in text.lines() {
        if line.starts_with("###") {
            line.clone_into(&mut heading);
        }
        if !line.starts_with("| ") {
            of = of.filter(|_| line.starts_with('|'));
            continue;
        }
        let cells = cells(line);
        match &of {
            None => of = Some(cells[0].clone()),
            Some(of) => rows.push(Specified {
                heading: heading.clone(),
                of: of.clone(),
                cells,
            }),
        }
    }
    rows
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\0");
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    let cells = inner.split('|').map(|cell| cell.trim().replace('\0', "|"));
    cells.collect()
}

/// The texts between backticks.
pub(super) fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Each name of the specification has a row that covers it, and each row a name.
#[track_caller]
pub(super) fn compare(
    specified: &[(String, String)],
    shown: &BTreeSet<(String, String)>,
    covers: fn(&str, &str) -> bool,
) {
    for (of, name) in specified {
        let found = shown.iter().any(|row| row.0 == *of && covers(name, &row.1));
        assert!(found, "no row shows {name} of {of}");
    }
    for (of, row) in shown {
        let found = specified.iter();
        let found = found.filter(|known| known.0 == *of);
        assert!(
            found.into_iter().any(|known| covers(&known.1, row)),
            "{of} has no {row}"
        );
    }
}
