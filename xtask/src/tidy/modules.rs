//! The module of each file, found by following `mod name;` from each target's root.
//!
//! A Rust file that no target reaches is never compiled, and a test in it never runs.

use super::repository::Repository;
use super::rust;
use std::collections::BTreeSet;

/// One file of a target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Path of the file in the repository.
    pub(crate) file: String,
    /// The module's path inside its target; empty for the root.
    pub(crate) names: Vec<String>,
    /// Whether it is compiled for tests only.
    pub(crate) test: bool,
}

/// All files of the target whose root is `root`.
pub(crate) fn reached(repository: &Repository, root: &str) -> Vec<Module> {
    let mut out = Vec::new();
    let mut waiting = vec![Module {
        file: root.to_owned(),
        names: Vec::new(),
        test: false,
    }];
    while let Some(module) = waiting.pop() {
        if let Some(text) = repository.text(&module.file) {
            waiting.extend(children(repository, &module, text));
            out.push(module);
        }
    }
    out
}

/// Rust files that belong to no target.
pub(crate) fn forgotten(repository: &Repository) -> Vec<String> {
    let mut known = BTreeSet::new();
    for root in roots(repository) {
        known.extend(
            reached(repository, &root)
                .into_iter()
                .map(|module| module.file),
        );
    }
    let lost = |(path, _): (&str, &str)| {
        (!known.contains(path)).then(|| format!("{path}: no target reaches this file"))
    };
    repository.ending(".rs").filter_map(lost).collect()
}

fn children(repository: &Repository, parent: &Module, text: &str) -> Vec<Module> {
    let code = rust::layers(text).code;
    let shipped = rust::shipped(text);
    let ships = rust::declared_modules(&shipped);
    let folder = child_folder(parent);
    let child = |name: &str| {
        let candidates = [
            format!("{folder}/{name}.rs"),
            format!("{folder}/{name}/mod.rs"),
        ];
        let file = candidates
            .into_iter()
            .find(|file| repository.text(file).is_some())?;
        let mut names = parent.names.clone();
        names.push(name.to_owned());
        Some(Module {
            file,
            names,
            test: parent.test || !ships.contains(&name),
        })
    };
    rust::declared_modules(&code)
        .into_iter()
        .filter_map(child)
        .collect()
}

/// The folder for the files of a module's children.
fn child_folder(module: &Module) -> String {
    let (folder, name) = module.file.rsplit_once('/').unwrap_or(("", &module.file));
    if module.names.is_empty() || name == "mod.rs" {
        return folder.to_owned();
    }
    format!("{folder}/{}", name.trim_end_matches(".rs"))
}

/// The root files of all targets of all packages.
fn roots(repository: &Repository) -> Vec<String> {
    let mut out = Vec::new();
    for (manifest, text) in repository.ending("Cargo.toml") {
        let Ok(table) = text.parse::<toml::Table>() else {
            continue;
        };
        let folder = manifest.trim_end_matches("Cargo.toml");
        out.extend(["src/lib.rs", "src/main.rs", "build.rs"].map(|file| format!("{folder}{file}")));
        for (kind, place, automatic) in [
            ("bin", "src/bin", "autobins"),
            ("test", "tests", "autotests"),
            ("bench", "benches", "autobenches"),
            ("example", "examples", "autoexamples"),
        ] {
            out.extend(stated(&table, kind, place).map(|file| format!("{folder}{file}")));
            let package = table
                .get("package")
                .and_then(|package| package.get(automatic));
            if package.and_then(toml::Value::as_bool) != Some(false) {
                out.extend(found(repository, &format!("{folder}{place}/")));
            }
        }
    }
    out
}

/// Targets that the manifest names: `[[test]]` and the like.
fn stated<'a>(
    table: &'a toml::Table,
    kind: &str,
    place: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let targets = table.get(kind).and_then(toml::Value::as_array);
    targets.into_iter().flatten().filter_map(move |target| {
        let text = |name| target.get(name).and_then(toml::Value::as_str);
        match text("path") {
            Some(path) => Some(path.to_owned()),
            None => Some(format!("{place}/{}.rs", text("name")?)),
        }
    })
}

/// Targets that cargo detects: files in `folder`, and folders in it with a `main.rs`.
fn found(repository: &Repository, folder: &str) -> Vec<String> {
    let is_root = |path: &&str| {
        let inner = path.strip_prefix(folder).unwrap_or("/");
        !inner.contains('/') || inner.ends_with("/main.rs") && inner.matches('/').count() == 1
    };
    repository
        .ending(".rs")
        .map(|(path, _)| path)
        .filter(is_root)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        "[package]\nautotests = false\n[[test]]\nname = \"it\"\npath = \"tests/it/main.rs\"\n";

    fn repository() -> Repository {
        Repository::from([
            ("c/Cargo.toml", MANIFEST),
            ("c/src/lib.rs", "pub mod a;\n#[cfg(test)]\nmod t;\n"),
            ("c/src/a/mod.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
            ("c/src/a/b.rs", "mod c;\n"),
            ("c/src/a/b/c.rs", ""),
            ("c/src/a/tests.rs", ""),
            ("c/src/t.rs", "mod u;"),
            ("c/src/t/u.rs", ""),
            ("c/tests/it/main.rs", "mod d;"),
            ("c/tests/it/d.rs", ""),
        ])
    }

    #[test]
    fn modules_are_followed_from_the_root_and_tests_are_known() {
        let mut found = reached(&repository(), "c/src/lib.rs");
        found.sort_by(|a, b| a.file.cmp(&b.file));
        let brief: Vec<_> = found
            .iter()
            .map(|module| (module.names.join("::"), module.test))
            .collect();
        let expected = [
            ("a::b::c", false),
            ("a::b", false),
            ("a", false),
            ("a::tests", true),
            ("", false),
            ("t::u", true),
            ("t", true),
        ];
        let mut expected = expected
            .map(|(names, test)| (names.to_owned(), test))
            .to_vec();
        expected.sort();
        let mut brief = brief;
        brief.sort();
        assert_eq!(brief, expected);
    }

    #[test]
    fn a_file_that_nobody_declares_is_forgotten() {
        assert!(forgotten(&repository()).is_empty());
        let repository = Repository::from([
            ("c/Cargo.toml", MANIFEST),
            ("c/src/lib.rs", "mod a;"),
            ("c/src/a.rs", "// mod gone;"),
            ("c/src/gone.rs", ""),
            ("c/tests/stray.rs", ""),
        ]);
        let lost = forgotten(&repository);
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(lost[0].starts_with("c/src/gone.rs") && lost[1].starts_with("c/tests/stray.rs"));
    }

    #[test]
    fn cargo_finds_targets_by_itself_unless_told_not_to() {
        let repository = Repository::from([
            ("c/Cargo.toml", "[package]\n"),
            ("c/tests/a.rs", ""),
            ("c/tests/b/main.rs", ""),
            ("c/tests/b/lost.rs", ""),
            ("c/examples/e.rs", ""),
        ]);
        assert_eq!(
            forgotten(&repository),
            ["c/tests/b/lost.rs: no target reaches this file"]
        );
    }
}
