//! `cargo xtask tidy`: the rules of this repository that no compiler and no lint checks.
//!
//! ```text
//! repository   the files, as text
//! rust         code without comments, literals, tests
//! modules      the module of each file
//! rules        direction · purity · words · evidence · outputs · threats · points
//! ```
//! A rule is a function from a [`Repository`] to a list of faults, each `file:line: message`. Every
//! rule has a test that shows it can fail.

pub(crate) mod direction;
mod evidence;
pub(crate) mod modules;
mod outputs;
mod points;
mod purity;
pub(crate) mod repository;
pub(crate) mod rust;
mod threats;
mod words;

use repository::Repository;
use std::error::Error;

/// One rule: its name and the function that finds its faults.
type Rule = (&'static str, fn(&Repository) -> Vec<String>);

const RULES: &[Rule] = &[
    (
        "modules use only what stands before them",
        direction::modules,
    ),
    ("crates depend in one direction", direction::crates),
    ("the core has no effects", purity::core_source),
    ("unsafe code is forbidden", purity::unsafe_forbidden),
    ("no file is forgotten", modules::forgotten),
    ("files say what they own", words::first_line),
    ("nothing is left to do", words::unfinished),
    ("no place of work is named", words::places),
    ("people read plain words", words::private_language),
    (
        "every specification is implemented",
        evidence::specifications,
    ),
    ("every code of a finding is specified", evidence::codes),
    ("every output has a schema", outputs::schemas),
    ("every threat has a row of four cells", threats::tables),
    ("threats and tests name each other", threats::tests),
    ("every open threat is listed", threats::open),
    ("the table of tests is current", threats::generated),
    ("each statement of a source has its test", points::tests),
    ("every link leads somewhere", evidence::links),
];

/// Checks every rule; true when none is broken.
///
/// # Errors
/// When the repository or its dependencies cannot be listed.
pub(crate) fn run() -> Result<bool, Box<dyn Error>> {
    let root = crate::console::root();
    let repository = Repository::read(&root)?;
    let mut faults = 0;
    for (name, rule) in RULES {
        faults += tell(name, &rule(&repository));
    }
    let tree = purity::dependency_tree(&root)?;
    faults += tell(
        "the core's dependencies have no effects",
        &purity::dependencies(&tree),
    );
    let rules = RULES.len() + 1;
    crate::console::say(&format!("tidy: {rules} rules, {faults} faults"));
    Ok(faults == 0)
}

/// Writes the table of the tests that show each threat.
///
/// # Errors
/// When the repository cannot be read or the table cannot be written.
pub(crate) fn write_threats() -> Result<bool, Box<dyn Error>> {
    let root = crate::console::root();
    threats::write(&root)?;
    Ok(true)
}

fn tell(name: &str, faults: &[String]) -> usize {
    for fault in faults {
        crate::console::complain(&format!("{fault} ({name})"));
    }
    faults.len()
}
