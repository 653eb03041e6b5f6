//! Arrows point one way: between modules of the pure crates and of the runtime, and between crates.
//!
//! The table at the top of their `lib.rs` defines the order of the modules, lowest first. No second
//! list exists.

use super::modules;
use super::repository::Repository;
use super::rust;

/// Crates whose modules have an order.
const ORDERED: [&str; 5] = [
    "crates/threadseal-core/src/lib.rs",
    "crates/threadseal-formats/src/lib.rs",
    "crates/threadseal-reader/src/lib.rs",
    "crates/threadseal-log/src/lib.rs",
    "crates/threadseal-runtime/src/lib.rs",
];

/// Crates, lowest first: each may depend only on those before it.
const CRATES: [&str; 14] = [
    "threadseal-testkit",
    "threadseal-core",
    "threadseal-formats",
    "threadseal-convert",
    "threadseal-reader",
    "threadseal-wasm",
    "threadseal-store",
    "threadseal-log",
    "threadseal-verify",
    "threadseal-capture",
    "threadseal-view",
    "threadseal-runtime",
    "threadseal",
    "threadseal-cli",
];

/// Modules that use one that does not precede them.
pub(crate) fn modules(repository: &Repository) -> Vec<String> {
    let roots = ORDERED.iter();
    roots
        .flat_map(|root| modules_of(repository, root))
        .collect()
}

fn modules_of(repository: &Repository, path: &str) -> Vec<String> {
    let Some(root) = repository.text(path) else {
        return vec![format!("{path}: missing")];
    };
    let order = order(root);
    let mut faults: Vec<String> = rust::declared_modules(&rust::shipped(root))
        .into_iter()
        .filter(|name| !order.contains(name))
        .map(|name| format!("{path}: module {name} is missing in the table"))
        .collect();
    for module in modules::reached(repository, path) {
        let (false, [owner, ..]) = (module.test, module.names.as_slice()) else {
            continue;
        };
        let Some(place) = order.iter().position(|name| name == owner) else {
            continue;
        };
        let code = rust::shipped(repository.text(&module.file).unwrap_or_default());
        let upward = rust::paths(&code, "super").into_iter();
        let upward = upward.filter(|path| path.depth == module.names.len());
        for path in rust::paths(&code, "crate").into_iter().chain(upward) {
            let used = &path.segments[0];
            let allowed = used == owner || order[..place].contains(&used.as_str());
            if !allowed {
                let (file, line) = (&module.file, path.line);
                faults.push(format!("{file}:{line}: {owner} uses {used}"));
            }
        }
    }
    faults
}

/// The modules in the table of `lib.rs`, lowest first.
pub(crate) fn order(root: &str) -> Vec<&str> {
    // A public module is a link in its crate's documentation, a private one is not.
    let name = |line: &'_ str| {
        let links = ["//! | [`", "//! | `"];
        let start = links.iter().find(|link| line.contains(**link))?;
        let start = line.find(start)? + start.len();
        let length = line[start..].find('`')?;
        Some(start..start + length)
    };
    root.lines()
        .filter_map(|line| name(line).map(|range| &line[range]))
        .collect()
}

/// Crates that depend on one that does not precede them.
pub(crate) fn crates(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    for (place, name) in CRATES.iter().enumerate() {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = repository
            .text(&path)
            .and_then(|text| text.parse::<toml::Table>().ok());
        let Some(manifest) = manifest else {
            faults.push(format!("{path}: missing or not TOML"));
            continue;
        };
        for used in dependencies(&manifest) {
            let ours = used == "xtask" || used.starts_with("threadseal");
            // A crate may depend on itself for tests, to turn a feature on.
            if ours && used != *name && !CRATES[..place].contains(&used.as_str()) {
                faults.push(format!("{path}: {name} depends on {used}"));
            }
        }
    }
    let unknown = |path: &str| {
        let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!CRATES.contains(&name)).then(|| format!("{path}: has no place in the order of crates"))
    };
    faults.extend(
        repository
            .ending("Cargo.toml")
            .filter_map(|(path, _)| unknown(path)),
    );
    faults
}

/// Names of all dependencies, of any kind and platform.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values);
    let tables = targets.filter_map(toml::Value::as_table).chain([manifest]);
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut out = Vec::new();
    for table in tables {
        for kind in kinds {
            let listed = table.get(kind).and_then(toml::Value::as_table);
            for (name, value) in listed.into_iter().flatten() {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                out.push(renamed.unwrap_or(name).to_owned());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const ROOT: &str = "//! | module | owns |\n//! | [`low`] | a |\n//! | [`high`] | b |\n\
                        pub mod high;\npub mod low;\n";

    const CORE: &str = ORDERED[0];

    fn faults(low: &str, high: &str) -> Vec<String> {
        let repository = Repository::from([
            (CORE, ROOT),
            ("crates/threadseal-core/src/low.rs", low),
            ("crates/threadseal-core/src/high/mod.rs", "mod inner;"),
            ("crates/threadseal-core/src/high/inner.rs", high),
        ]);
        modules_of(&repository, CORE)
    }

    #[test]
    fn a_module_may_use_what_stands_before_it() {
        let clean: [String; 0] = [];
        assert_eq!(
            faults("", "use crate::low::A;\nuse super::super::low;"),
            clean
        );
        assert_eq!(
            faults("use crate::low::B; // crate::high", "use super::C;"),
            clean
        );
        assert_eq!(
            faults("#[cfg(test)]\nmod tests { use crate::high::A; }", ""),
            clean
        );
    }

    #[test]
    fn a_module_that_uses_a_later_one_is_named_with_its_line() {
        let expected = ["crates/threadseal-core/src/low.rs:2: low uses high"];
        assert_eq!(faults("\nuse crate::high::A;", ""), expected);
        assert_eq!(faults("\nuse super::high::A;", ""), expected);
        assert_eq!(faults("\nuse crate::{low, high};", ""), expected);
        assert_eq!(faults("\nfn f() { crate::high::g(); }", ""), expected);
    }

    #[test]
    fn a_module_that_is_in_no_table_is_a_fault() {
        let root = "//! | [`low`] | a |\npub mod low;\nmod other;\n";
        let repository = Repository::from([(CORE, root)]);
        assert_eq!(modules_of(&repository, CORE).len(), 1);
    }

    /// Faults of a workspace whose manifests are otherwise empty.
    fn with_manifests(manifests: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| format!("crates/{name}/Cargo.toml");
        let mut files: BTreeMap<String, &str> = CRATES.map(|name| (path(name), "")).into();
        files.extend(manifests.iter().map(|(name, text)| (path(name), *text)));
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        crates(&Repository::from(files.as_slice()))
    }

    #[test]
    fn a_crate_that_points_back_is_a_fault() {
        let forward = "[dependencies]\nthreadseal-store = \"1\"\n";
        assert!(with_manifests(&[("threadseal-cli", forward)]).is_empty());
        for back in [
            "[dependencies]\nthreadseal-store = \"1\"\n",
            "[dev-dependencies]\nthreadseal-cli = \"1\"\n",
            "[target.'cfg(unix)'.dependencies]\nthreadseal-store = \"1\"\n",
            "[build-dependencies]\nshop = { package = \"threadseal-store\" }\n",
        ] {
            assert_eq!(with_manifests(&[(CRATES[0], back)]).len(), 1, "{back}");
        }
    }

    #[test]
    fn a_crate_without_a_place_is_a_fault() {
        assert_eq!(with_manifests(&[("threadseal-more", "")]).len(), 1);
    }
}
