//! Outputs for programs and `spec/schemas` must agree: each output has a schema, and no schema is of
//! an output that is gone.

use super::repository::Repository;
use super::rust;
use std::collections::BTreeMap;

const FOLDER: &str = "spec/schemas/";
const ENDING: &str = ".schema.json";
const TABLE: &str = "spec/schemas/README.md";
const PREFIX: &str = "threadseal.";

/// Schemas that are of no one output: definitions, and the answers of `record`.
const SHARED: [&str; 2] = ["common", "threadseal-record-1"];

/// Names of the same form that no command prints: what each is of.
const NOT_PRINTED: [(&str, &str); 11] = [
    ("threadseal.head/1", "files of the store of heads"),
    (
        "threadseal.installed/1",
        "the journal of what was installed",
    ),
    ("threadseal.ledger.deleted/1", "marks of deleted runs"),
    ("threadseal.ledger.index/1", "indexes of ledgers"),
    ("threadseal.lineage-link/1", "objects of lineages"),
    ("threadseal.log/1", "the description of a log"),
    ("threadseal.object-head/1", "objects of ledgers"),
    ("threadseal.object-index/1", "objects of ledgers"),
    ("threadseal.object-segment/1", "objects of ledgers"),
    ("threadseal.transcript-head/1", "objects of transcripts"),
    ("threadseal.transcript-index/1", "objects of transcripts"),
];

/// Outputs without a schema, schemas without an output, and rows that the table of schemas lacks.
pub(crate) fn schemas(repository: &Repository) -> Vec<String> {
    let names = names(repository);
    let mut faults = Vec::new();
    for (name, place) in &names {
        let file = format!("{FOLDER}{}{ENDING}", name.replace('/', "-"));
        let is_printed = NOT_PRINTED.iter().all(|(other, _)| other != name);
        if is_printed && repository.text(&file).is_none() {
            faults.push(format!("{place}: {name} has no schema; write {file}"));
        }
    }
    for (name, of) in NOT_PRINTED {
        if !names.contains_key(name) {
            faults.push(format!("{name}: no source names it, {of}"));
        }
    }
    let table = repository.text(TABLE).unwrap_or_default();
    for (path, _) in repository.ending(ENDING) {
        let Some(file) = path.strip_prefix(FOLDER) else {
            continue;
        };
        let stem = file.strip_suffix(ENDING).unwrap_or(file);
        let name = stem.rsplit_once('-');
        let name = name.map(|(name, version)| format!("{name}/{version}"));
        if !SHARED.contains(&stem) && !name.is_some_and(|name| names.contains_key(&name)) {
            faults.push(format!("{path}: no source names this output"));
        }
        if !table.contains(&format!("]({file})")) {
            faults.push(format!("{path}: {TABLE} does not list it"));
        }
    }
    faults
}

/// The names in literals of what ships, each with the place of the first.
fn names(repository: &Repository) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (path, text) in repository.ending(".rs") {
        let is_of_crate = path.starts_with("crates/") && path.contains("/src/");
        if !is_of_crate || path.contains("test") || !text.contains(PREFIX) {
            continue;
        }
        let layers = rust::layers(text);
        let tests = rust::test_ranges(&layers.code);
        for (at, _) in layers.literals.match_indices(PREFIX) {
            let is_of_test = tests.iter().any(|range| range.contains(&at));
            if let (Some(name), false) = (name_at(&layers.literals[at..]), is_of_test) {
                let place = format!("{path}:{}", rust::line_of(text, at));
                names.entry(name.to_owned()).or_insert(place);
            }
        }
    }
    names
}

/// The name `threadseal.NAME/VERSION` with which a text begins.
fn name_at(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once('/')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'-' | b'_');
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let is_one = digits > 0 && name.bytes().all(is_name);
    is_one.then(|| &text[..name.len() + 1 + digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with these files, in which all names that are not printed occur.
    fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
        let others = NOT_PRINTED.map(|(name, _)| format!("const A: &str = \"{name}\";\n"));
        let others = others.concat();
        let all = [files, &[("crates/b/src/lib.rs", others.as_str())]].concat();
        schemas(&Repository::from(all.as_slice()))
    }

    const SOURCE: (&str, &str) = (
        "crates/a/src/lib.rs",
        "// \"threadseal.gone/1\"\nconst A: &[u8] = b\"{\\\"schema\\\":\\\"threadseal.list.all/2\\\"\";\n\
         #[cfg(test)]\nmod tests { const B: &str = \"threadseal.tried/1\"; }\n",
    );
    const SCHEMA: (&str, &str) = ("spec/schemas/threadseal.list.all-2.schema.json", "{}");
    const ROWS: (&str, &str) = (
        TABLE,
        "[x](threadseal.list.all-2.schema.json) [y](threadseal.gone-1.schema.json)",
    );

    #[test]
    fn an_output_without_a_schema_is_found() {
        assert!(faults_of(&[SOURCE, SCHEMA, ROWS]).is_empty());
        assert_eq!(
            faults_of(&[SOURCE, ROWS]),
            [
                "crates/a/src/lib.rs:2: threadseal.list.all/2 has no schema; write \
              spec/schemas/threadseal.list.all-2.schema.json"
            ]
        );
    }

    #[test]
    fn a_schema_without_an_output_is_found() {
        let gone = ("spec/schemas/threadseal.gone-1.schema.json", "{}");
        assert_eq!(
            faults_of(&[SOURCE, SCHEMA, ROWS, gone]),
            [format!("{}: no source names this output", gone.0)]
        );
    }

    #[test]
    fn a_schema_that_the_table_does_not_list_is_found() {
        assert_eq!(
            faults_of(&[SOURCE, SCHEMA]),
            [format!("{}: {TABLE} does not list it", SCHEMA.0)]
        );
    }

    #[test]
    fn a_name_that_is_gone_is_found() {
        let repository = Repository::from([SOURCE, SCHEMA, ROWS]);
        let faults = schemas(&repository);
        assert_eq!(faults.len(), NOT_PRINTED.len());
        assert_eq!(
            faults[0],
            "threadseal.head/1: no source names it, files of the store of heads"
        );
    }
}
