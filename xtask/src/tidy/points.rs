//! The statements of the five sources: each row names tests that are there.
//!
//! ```text
//! docs/source-points/igor.md   | L-002 | section | statement | here | `FILE` `TEST` | `FILE` `TEST` |
//! FILE                         fn TEST() {
//! ```

use super::repository::Repository;
use std::collections::BTreeSet;

/// The folder of the tables.
const FOLDER: &str = "docs/source-points/";

/// Cells of a row: number, section, statement, what differs here, two tests.
const CELLS: usize = 6;

/// Rows with a wrong shape, a number that another row has, or a test that is not there.
pub(crate) fn tests(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    let mut numbers = BTreeSet::new();
    let pages = repository
        .files()
        .filter(|(file, _)| file.starts_with(FOLDER));
    for (file, text) in pages {
        for (index, line) in text.lines().enumerate() {
            let Some(cells) = cells(line) else { continue };
            let fault = |what: String| format!("{file}:{}: {what}", index + 1);
            if cells.len() != CELLS {
                faults.push(fault(format!("{} has not {CELLS} cells", cells[0])));
                continue;
            }
            if !numbers.insert(cells[0]) {
                faults.push(fault(format!("{} is used twice", cells[0])));
            }
            if cells[4].is_empty() {
                faults.push(fault(format!("{} has no test", cells[0])));
            }
            for cell in cells[4..].iter().filter(|cell| !cell.is_empty()) {
                if let Some(what) = missing(repository, cell) {
                    faults.push(fault(what));
                }
            }
        }
    }
    if numbers.is_empty() {
        faults.push(format!("{FOLDER}: no row"));
    }
    faults
}

/// The cells of a row with a number.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix("| ")?.trim_end().strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let (letter, number) = cells[0].split_once('-')?;
    let is_number = letter.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(cells)
}

/// Why a cell names no test that is there.
fn missing(repository: &Repository, cell: &str) -> Option<String> {
    let spans: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    let [file, test] = spans[..] else {
        return Some(format!("{cell:?} is not `FILE` `TEST`"));
    };
    match repository.text(file) {
        None => Some(format!("there is no file {file}")),
        Some(text) if text.contains(&format!("fn {test}(")) => None,
        Some(_) => Some(format!("{file} has no test {test}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_its_test_is_a_fault() {
        let row = |tests: &str| format!("| L-001 | S | It holds. |  | {tests} |  |\n");
        let faults = |page: String| {
            let files = [
                ("docs/source-points/igor.md", page.as_str()),
                ("crates/a/src/b.rs", "#[test]\nfn it_holds() {}\n"),
            ];
            let repository = Repository::from(files.as_slice());
            tests(&repository).len()
        };
        let good = row("`crates/a/src/b.rs` `it_holds`");
        assert_eq!(faults(good.clone()), 0);
        assert_eq!(faults(format!("{good}{good}")), 1);
        assert_eq!(faults(row("`crates/a/src/b.rs` `it_held`")), 1);
        assert_eq!(faults(row("`crates/a/src/c.rs` `it_holds`")), 1);
        assert_eq!(faults(row("")), 1);
        assert_eq!(faults(row("it_holds")), 1);
        assert_eq!(faults(format!("{good}| L-002 | S | It holds. |\n")), 1);
        assert_eq!(faults(String::new()), 1);
    }
}
