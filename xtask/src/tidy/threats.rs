//! The tables of threats: each row has an id, and the tests that show the row carry it.
//!
//! ```text
//! threats/log.md     | T-LOG-07 | attack | answer | `some_test` +1 |
//! crates/…/log.rs    // T-LOG-07
//!                    #[test]
//!                    fn some_test() {
//! bindings/…/test.py # T-PY-07
//!                    def test_it() -> None:
//! bindings/…/a.mjs   // T-JS-07
//!                    test("it holds", () => {
//! threats/tests.md   generated: which test carries which id
//! ```
//! A row without a test is marked as open, and the list in `threats/README.md` names it.

use super::repository::Repository;
use super::rust;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

/// The folder of the tables.
const FOLDER: &str = "threats/";

/// The model, and the list of open rows.
const README: &str = "threats/README.md";

/// The generated table.
const TESTS: &str = "threats/tests.md";

/// The mark of a hole or a limit.
const OPEN: &str = "**open**";

/// A longer cell does not fit on a screen.
const MAX_CELL_CHARS: usize = 120;

/// One row of a table.
struct Row<'a> {
    file: &'a str,
    line: usize,
    id: &'a str,
    answer: &'a str,
    tests: &'a str,
}

/// A test and an id above it; the order is that of the generated table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Carrier<'a> {
    id: &'a str,
    file: &'a str,
    test: &'a str,
}

/// Rows with a wrong shape, a wrong id, or neither a test nor the mark of an open row.
pub(crate) fn tables(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    for (file, text) in documents(repository) {
        for (line, cells) in table_lines(text) {
            for cell in &cells {
                let chars = cell.chars().count();
                if chars > MAX_CELL_CHARS {
                    faults.push(format!(
                        "{file}:{line}: a cell of {chars} characters, more than {MAX_CELL_CHARS}"
                    ));
                }
            }
            let is_row = cells[0].starts_with("T-") && file != TESTS;
            if is_row && (cells.len() != 4 || !is_id(cells[0])) {
                faults.push(format!(
                    "{file}:{line}: not `| T-SUBJECT-NN | attack | answer | test |`"
                ));
            }
        }
    }
    let rows = rows(repository);
    if rows.is_empty() {
        faults.push(format!("{FOLDER}: no row"));
    }
    let mut ids = BTreeSet::new();
    for row in &rows {
        let Row { file, line, id, .. } = row;
        if !ids.insert(id) {
            faults.push(format!("{file}:{line}: {id} is used twice"));
        }
        if names(row.tests).is_empty() && !row.answer.contains(OPEN) {
            faults.push(format!("{file}:{line}: {id} has neither a test nor {OPEN}"));
        }
    }
    faults
}

/// Rows and tests that do not name each other.
pub(crate) fn tests(repository: &Repository) -> Vec<String> {
    let (carriers, mut faults) = carriers(repository);
    let rows = rows(repository);
    let known: BTreeSet<&str> = rows.iter().map(|row| row.id).collect();
    let mut carrying: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Carrier { id, file, test } in &carriers {
        if !known.contains(id) {
            faults.push(format!("{file}: {test} carries {id}, which no row has"));
        }
        carrying.entry(id).or_default().insert(test);
    }
    for Row {
        file,
        line,
        id,
        tests,
        ..
    } in rows
    {
        let carrying = carrying.remove(id).unwrap_or_default();
        let named = names(tests);
        for test in named.difference(&carrying) {
            faults.push(format!("{file}:{line}: no test {test} carries {id}"));
        }
        let counted = named.len() + more(tests);
        if named.is_subset(&carrying) && counted != carrying.len() {
            let number = carrying.len();
            faults.push(format!(
                "{file}:{line}: {number} tests carry {id}, the row counts {counted}"
            ));
        }
    }
    faults
}

/// Open rows that the list of open rows lacks, and the reverse.
pub(crate) fn open(repository: &Repository) -> Vec<String> {
    let rows = rows(repository);
    let open = rows.iter().filter(|row| row.answer.contains(OPEN));
    let open: BTreeSet<&str> = open.map(|row| row.id).collect();
    let readme = repository.text(README).unwrap_or_default();
    let listed = readme.lines().filter_map(|line| {
        let (id, _) = line.strip_prefix("* ")?.split_once(':')?;
        is_id(id).then_some(id)
    });
    let listed: BTreeSet<&str> = listed.collect();
    let missing = open.difference(&listed);
    let missing = missing.map(|id| format!("{README}: the list of open rows lacks {id}"));
    let extra = listed.difference(&open);
    let extra = extra.map(|id| format!("{README}: {id} is listed, and no row marks it {OPEN}"));
    missing.chain(extra).collect()
}

/// Whether the generated table is current.
pub(crate) fn generated(repository: &Repository) -> Vec<String> {
    let (carriers, _) = carriers(repository);
    if repository.text(TESTS) == Some(&table(&carriers)) {
        return Vec::new();
    }
    vec![format!("{TESTS}: not current; run `cargo xtask threats`")]
}

/// Writes the generated table.
///
/// # Errors
/// When the repository cannot be read or the table cannot be written.
pub(crate) fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    let repository = Repository::read(root)?;
    let (carriers, _) = carriers(&repository);
    std::fs::write(root.join(TESTS), table(&carriers))?;
    Ok(())
}

fn table(carriers: &[Carrier<'_>]) -> String {
    let mut out = String::from(
        "# Which test shows which row\n\n\
         `cargo xtask threats` writes this file from the comments `// T-…` and `# T-…` above the tests. \
         Do not edit it.\n\n\
         | id | file | test |\n|---|---|---|\n",
    );
    for Carrier { id, file, test } in carriers {
        out.push_str(&format!("| {id} | `{file}` | `{test}` |\n"));
    }
    out
}

fn documents(repository: &Repository) -> impl Iterator<Item = (&str, &str)> {
    let documents = repository.ending(".md");
    documents.filter(|(path, _)| path.starts_with(FOLDER))
}

/// The lines of tables, numbered from 1, with their cells.
fn table_lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let inner = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
        Some((index + 1, inner.split('|').map(str::trim).collect()))
    })
}

fn rows(repository: &Repository) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (file, text) in documents(repository) {
        for (line, cells) in table_lines(text) {
            if let [id, _, answer, tests] = cells[..]
                && is_id(id)
            {
                rows.push(Row {
                    file,
                    line,
                    id,
                    answer,
                    tests,
                });
            }
        }
    }
    rows
}

/// The names in backquotes of a cell.
fn names(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// How many tests a cell counts and does not name: `+2`.
fn more(cell: &str) -> usize {
    let number = cell.rsplit_once('+').map(|(_, number)| number);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// `T-`, a subject in capitals, `-`, and two digits or more.
fn is_id(text: &str) -> bool {
    let parts = text
        .strip_prefix("T-")
        .and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(subject, number)| {
        !subject.is_empty()
            && subject.bytes().all(|byte| byte.is_ascii_uppercase())
            && number.len() >= 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Each id above a test, in order and once; and the comments with ids that are not above a test.
fn carriers(repository: &Repository) -> (Vec<Carrier<'_>>, Vec<String>) {
    let mut carriers = BTreeSet::new();
    let mut faults = Vec::new();
    for (file, text) in repository.ending(".rs") {
        if !text.contains("// T-") {
            continue;
        }
        // Layers keep every byte in its place, so their lines are those of the file.
        let layers = rust::layers(text);
        let code: Vec<&str> = layers.code.lines().collect();
        let lines: Vec<&str> = text.lines().collect();
        for (index, comment) in layers.comments.lines().enumerate() {
            let Some(ids) = lines[index].trim().strip_prefix("// ") else {
                continue;
            };
            let begins_with_id = ids.split(' ').next().is_some_and(is_id);
            if comment.trim().is_empty() || !begins_with_id {
                continue;
            }
            let number = index + 1;
            let test = test_below(&code, index + 1).and_then(|at| function(lines[at]));
            let Some(test) = test else {
                faults.push(format!("{file}:{number}: {ids} is not above a test"));
                continue;
            };
            for id in ids.split(' ') {
                if is_id(id) {
                    carriers.insert(Carrier { id, file, test });
                } else {
                    faults.push(format!("{file}:{number}: {id} is no id of a threat"));
                }
            }
        }
    }
    for language in [PYTHON, JAVASCRIPT] {
        for (file, text) in repository.ending(language.ending) {
            let (found, wrong) = language.carriers(file, text);
            carriers.extend(found);
            faults.extend(wrong);
        }
    }
    (carriers.into_iter().collect(), faults)
}

/// A language whose tests are found by their first lines.
struct Language {
    ending: &'static str,
    comment: &'static str,
    /// The name of the test that a line begins.
    test: fn(&str) -> Option<&str>,
}

const PYTHON: Language = Language {
    ending: ".py",
    comment: "# ",
    test: python_test,
};

const JAVASCRIPT: Language = Language {
    ending: ".test.mjs",
    comment: "// ",
    test: javascript_test,
};

impl Language {
    /// Each id above a test, as in Rust: decorators and loops may be between a comment and its test.
    fn carriers<'a>(&self, file: &'a str, text: &'a str) -> (Vec<Carrier<'a>>, Vec<String>) {
        let (mut carriers, mut faults) = (Vec::new(), Vec::new());
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let ids = line.trim().strip_prefix(self.comment).unwrap_or_default();
            if !ids.split(' ').next().is_some_and(is_id) {
                continue;
            }
            let below = lines[index + 1..].iter().find_map(|line| (self.test)(line));
            match below {
                Some(test) => carriers.extend(ids.split(' ').map(|id| Carrier { id, file, test })),
                None => faults.push(format!("{file}:{}: {ids} is not above a test", index + 1)),
            }
        }
        (carriers, faults)
    }
}

/// The name of the test that a line of Python begins.
fn python_test(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_prefix("async ").unwrap_or(line);
    let name = rest.strip_prefix("def ")?.split('(').next()?;
    name.starts_with("test_").then_some(name)
}

/// The name of the test that a line of JavaScript begins: a text, or a template.
fn javascript_test(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("test(")?;
    let quote = rest.chars().next()?;
    let name = rest[1..].split(quote).next()?;
    (matches!(quote, '"' | '`') && !name.is_empty()).then_some(name)
}

/// The line of the test function that follows, with only its attributes and comments before it.
fn test_below(code: &[&str], from: usize) -> Option<usize> {
    let mut is_test = false;
    let mut in_attribute = false;
    for (at, line) in code.iter().enumerate().skip(from) {
        let line = line.trim();
        if in_attribute || line.starts_with("#[") {
            is_test |= line.starts_with("#[test]");
            in_attribute = !line.ends_with(']');
        } else if !line.is_empty() {
            return (is_test && function(line).is_some()).then_some(at);
        }
    }
    None
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == "fn")?;
    let name = words.next()?.split(['(', '<']).next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/// Doc.\n// T-LOG-01 T-LOG-02\n#[test]\nfn it_holds() {}\n\n\
                          // T-LOG-01\n#[cfg_attr(\n    miri,\n    x\n)]\n#[test]\nfn it_stays() {}\n";

    const TABLE: &str = "| T-LOG-01 | cut | `tampered` | `it_holds` +1 |\n\
                         | T-LOG-02 | swap | `tampered` | `it_holds` |\n\
                         | T-LOG-03 | wait | **open**: no clock | none |\n";

    const LIST: &str = "* T-LOG-03: wait\n";

    fn faults(rule: fn(&Repository) -> Vec<String>, table: &str, source: &str) -> Vec<String> {
        rule(&Repository::from([
            ("threats/log.md", table),
            (README, LIST),
            ("c/t.rs", source),
        ]))
    }

    #[test]
    fn rows_and_tests_that_name_each_other_are_in_order() {
        for rule in [tables, tests, open] {
            assert_eq!(faults(rule, TABLE, SOURCE), Vec::<String>::new());
        }
    }

    #[test]
    fn tests_in_python_carry_ids_too() {
        let table = "| T-PY-01 | cut | `tampered` | `test_it_holds` |\n";
        let source = "# T-PY-01\n@parametrize(\"a\", [\n    1,\n])\nasync def test_it_holds(a: int) -> None:\n    ...\n";
        let faults = |source: &str| {
            tests(&Repository::from([
                ("threats/py.md", table),
                ("c/test.py", source),
            ]))
        };
        assert_eq!(faults(source), Vec::<String>::new());
        assert_eq!(faults(&source.replace("# T-PY-01", "# T-PY-02")).len(), 2);
        assert_eq!(faults("# T-PY-01\n").len(), 2);
    }

    #[test]
    fn tests_in_javascript_carry_ids_too() {
        let table = "| T-JS-01 | cut | `tampered` | `it holds, twice` +1 |\n";
        let source = "// T-JS-01\ntest(\"it holds, twice\", async () => {});\n\n\
                      // T-JS-01\nfor (const name of ALL) {\n  test(`of ${name}`, () => {});\n}\n";
        let faults = |source: &str| {
            tests(&Repository::from([
                ("threats/js.md", table),
                ("c/a.test.mjs", source),
            ]))
        };
        assert_eq!(faults(source), Vec::<String>::new());
        assert_eq!(faults(&source.replacen("T-JS-01", "T-JS-02", 1)).len(), 2);
        assert_eq!(faults("// T-JS-01\ntest(name, run);\n").len(), 2);
    }

    #[test]
    fn a_row_with_a_wrong_shape_is_found() {
        let long = format!("| T-LOG-01 | {} | b | `c` |\n", "a".repeat(121));
        for row in [
            "| T-LOG-1 | a | b | `c` |\n",
            "| T-log-01 | a | b | `c` |\n",
            "| T-LOG-01 | a | b |\n",
            "| T-LOG-01 | a | b | surely |\n",
            &long,
        ] {
            let table = format!("{row}{}", TABLE.replace("T-LOG-01", "T-LOG-09"));
            assert_eq!(faults(tables, &table, "").len(), 1, "{row}");
        }
        let twice = faults(tables, &TABLE.repeat(2), "");
        assert_eq!(twice.len(), 3);
        assert!(twice[0].ends_with("T-LOG-01 is used twice"));
        assert_eq!(faults(tables, "", ""), ["threats/: no row"]);
    }

    #[test]
    fn a_row_and_a_test_that_do_not_name_each_other_are_found() {
        for (from, to, expected) in [
            (
                "01\n#[cfg",
                "02\n#[cfg",
                "1 tests carry T-LOG-01, the row counts 2",
            ),
            ("it_holds", "it_held", "no test it_holds carries T-LOG-02"),
            (
                "T-LOG-02",
                "T-LOG-04",
                "it_holds carries T-LOG-04, which no row has",
            ),
            ("T-LOG-02", "and", "and is no id of a threat"),
            (
                "#[test]\nfn it_holds",
                "fn it_holds",
                "T-LOG-01 T-LOG-02 is not above a test",
            ),
            (
                "#[test]\nfn it_holds",
                "fn f() {}\n#[test]\nfn it_holds",
                "T-LOG-01 T-LOG-02 is not above a test",
            ),
        ] {
            assert!(SOURCE.contains(from), "{from}");
            let found = faults(tests, TABLE, &SOURCE.replacen(from, to, 1));
            assert!(
                found.iter().any(|fault| fault.ends_with(expected)),
                "{expected}: {found:?}"
            );
        }
    }

    #[test]
    fn text_that_looks_like_an_id_carries_nothing() {
        for text in [
            "let a = \"\n// T-LOG-09\n\";",
            "// A T-LOG-09 in a sentence.",
            "// T-shirts\n",
        ] {
            let source = format!("{text}\n{SOURCE}");
            assert_eq!(
                faults(tests, TABLE, &source),
                Vec::<String>::new(),
                "{text}"
            );
        }
    }

    #[test]
    fn the_list_of_open_rows_names_exactly_those() {
        let none = TABLE.replace(OPEN, "shut");
        assert!(faults(open, &none, "")[0].contains("T-LOG-03 is listed"));
        let more = TABLE.replace("`tampered` | `it_holds` |", "**open** | none |");
        assert!(faults(open, &more, "")[0].ends_with("lacks T-LOG-02"));
    }

    #[test]
    fn the_generated_table_must_be_current() {
        let find = |tests: &str| generated(&Repository::from([("c/t.rs", SOURCE), (TESTS, tests)]));
        let old = find("");
        assert_eq!(old.len(), 1);
        assert!(old[0].contains("run `cargo xtask threats`"));
        let (repository, rows) = (
            Repository::from([("c/t.rs", SOURCE)]),
            "| T-LOG-01 | `c/t.rs` | `it_holds` |\n\
             | T-LOG-01 | `c/t.rs` | `it_stays` |\n\
             | T-LOG-02 | `c/t.rs` | `it_holds` |\n",
        );
        let current = table(&carriers(&repository).0);
        assert!(current.ends_with(rows));
        assert!(find(&current).is_empty());
    }
}
