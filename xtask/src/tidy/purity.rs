//! The core has no effects: neither its source nor its dependencies have any.
//!
//! A verifier that reads a clock or a file could answer a different question than the caller's.

use super::modules;
use super::repository::Repository;
use super::rust;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Crates without effects.
const PURE: [&str; 4] = [
    "crates/threadseal-core/src/lib.rs",
    "crates/threadseal-formats/src/lib.rs",
    "crates/threadseal-convert/src/lib.rs",
    "crates/threadseal-reader/src/lib.rs",
];

/// The package that links all pure crates, with all its features.
const TOP: &str = "threadseal-reader";

/// Parts of the standard library that the core must not name.
const EFFECTS: &[&[&str]] = &[
    &["fs"],
    &["net"],
    &["env"],
    &["thread"],
    &["process"],
    &["os"],
    &["io", "stdin"],
    &["io", "stdout"],
    &["io", "stderr"],
    &["time", "SystemTime"],
    &["time", "Instant"],
];

/// Packages that bring a clock, randomness, files, threads or a network.
const PACKAGES: &[&str] = &[
    "async-io",
    "async-std",
    "chrono",
    "crossbeam-channel",
    "crossbeam-deque",
    "dirs",
    "errno",
    "fastrand",
    "getrandom",
    "home",
    "hyper",
    "instant",
    "js-sys",
    "libc",
    "linux-raw-sys",
    "memmap2",
    "mio",
    "nix",
    "notify",
    "num_cpus",
    "parking_lot",
    "polling",
    "quanta",
    "rand",
    "rand_chacha",
    "rayon",
    "reqwest",
    "rustix",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "ureq",
    "uuid",
    "wait-timeout",
    "walkdir",
    "wasm-bindgen",
    "web-sys",
    "web-time",
    "winapi",
    "windows-sys",
];

/// Features that give a harmless package an effect.
const FEATURES: &[(&str, &str)] = &[
    ("jiff", "std"),
    ("jiff", "js"),
    ("pkcs5", "getrandom"),
    ("pkcs8", "getrandom"),
    ("rand_core", "getrandom"),
    ("rand_core", "os_rng"),
    ("rand_core", "std"),
    ("ed25519-dalek", "rand_core"),
    ("crypto-common", "getrandom"),
];

/// Crates that must forbid unsafe code.
const FORBIDDING: [&str; 9] = [
    "crates/threadseal-core/src/lib.rs",
    "crates/threadseal-formats/src/lib.rs",
    "crates/threadseal-convert/src/lib.rs",
    "crates/threadseal-reader/src/lib.rs",
    "crates/threadseal-store/src/lib.rs",
    "crates/threadseal-log/src/lib.rs",
    "crates/threadseal-verify/src/lib.rs",
    "crates/threadseal-runtime/src/lib.rs",
    "crates/threadseal/src/lib.rs",
];

/// Places in the core's source that name an effect.
pub(crate) fn core_source(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    for module in PURE
        .iter()
        .flat_map(|root| modules::reached(repository, root))
    {
        if module.test {
            continue;
        }
        let code = rust::shipped(repository.text(&module.file).unwrap_or_default());
        for path in rust::paths(&code, "std") {
            if EFFECTS.iter().any(|effect| reaches(&path.segments, effect)) {
                let (file, line) = (&module.file, path.line);
                faults.push(format!(
                    "{file}:{line}: uses std::{}",
                    path.segments.join("::")
                ));
            }
        }
    }
    faults
}

/// Whether a path names `effect`, something in it, or a glob that includes it.
fn reaches(path: &[String], effect: &[&str]) -> bool {
    match path.split_last() {
        Some((last, before)) if last == "*" => before
            .iter()
            .zip(effect)
            .all(|(used, effect)| used == effect),
        _ => {
            path.len() >= effect.len()
                && path.iter().zip(effect).all(|(used, effect)| used == effect)
        }
    }
}

/// Crates that do not forbid unsafe code.
pub(crate) fn unsafe_forbidden(repository: &Repository) -> Vec<String> {
    let forbids = |path: &&str| {
        let text = repository.text(path).unwrap_or_default();
        !rust::shipped(text).contains("#![forbid(unsafe_code)]")
    };
    let faulty = FORBIDDING.iter().copied().filter(forbids);
    faulty
        .map(|path| format!("{path}: does not forbid unsafe code"))
        .collect()
}

/// The dependencies of the core, one `name vVERSION … features` per line, here and in a browser.
///
/// # Errors
/// When cargo cannot list them.
pub(crate) fn dependency_tree(root: &Path) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    for platform in [None, Some("wasm32-unknown-unknown")] {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root).args([
            "tree",
            "--package",
            TOP,
            "--all-features",
            "--edges",
            "normal",
        ]);
        cargo.args(["--prefix", "none", "--format", "{p} features {f}"]);
        if let Some(platform) = platform {
            cargo.args(["--target", platform]);
        }
        let told = cargo.output()?;
        if !told.status.success() {
            return Err(String::from_utf8_lossy(&told.stderr).into_owned().into());
        }
        out.push_str(&String::from_utf8(told.stdout)?);
    }
    Ok(out)
}

/// Packages and features in `tree` that have effects.
pub(crate) fn dependencies(tree: &str) -> Vec<String> {
    let mut faults: Vec<String> = tree
        .lines()
        .filter_map(|line| {
            let name = line.split(' ').next()?;
            let features = line.split(" features ").nth(1).unwrap_or_default();
            let features = features.trim_end_matches("(*)").trim();
            let has = |wanted: &str| features.split(',').any(|feature| feature == wanted);
            let bad = FEATURES
                .iter()
                .find(|(package, feature)| *package == name && has(feature));
            match bad {
                Some((_, feature)) => Some(format!("threadseal links {name} with {feature}")),
                None => PACKAGES
                    .contains(&name)
                    .then(|| format!("threadseal links {name}")),
            }
        })
        .collect();
    faults.sort();
    faults.dedup();
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(source: &str) -> usize {
        core_source(&Repository::from([
            (PURE[0], "mod a;"),
            ("crates/threadseal-core/src/a.rs", source),
        ]))
        .len()
    }

    #[test]
    fn an_effect_in_the_source_is_found() {
        for source in [
            "use std::fs;",
            "use std::fs::File;",
            "use std::{fmt, fs::File};",
            "fn f() { std::env::var(\"X\"); }",
            "use std::time::{Duration, SystemTime};",
            "fn f() { std::thread::spawn(g); }",
            "use std::io::{self, stdout};",
            "use std::fs::*;",
            "use std::io::*;",
        ] {
            assert_eq!(faults(source), 1, "{source}");
        }
    }

    #[test]
    fn what_has_no_effect_is_let_be() {
        for source in [
            "use std::time::Duration;",
            "use std::io::Read;",
            "use std::fmt::*;",
            "// std::fs is elsewhere",
            "#[cfg(test)]\nmod tests { use std::fs; }",
        ] {
            assert_eq!(faults(source), 0, "{source}");
        }
    }

    #[test]
    fn a_crate_without_the_ban_on_unsafe_code_is_found() {
        let mut files = FORBIDDING.map(|path| (path, "//! A.\n#![forbid(unsafe_code)]\n"));
        files[1].1 = "//! B.\n// #![forbid(unsafe_code)]\n";
        let repository = Repository::from(files);
        let expected = format!("{}: does not forbid unsafe code", FORBIDDING[1]);
        assert_eq!(unsafe_forbidden(&repository), [expected]);
    }

    #[test]
    fn packages_and_features_with_effects_are_found_once() {
        let tree = "threadseal v0.1.0 features \nlibc v0.2.1 features default\n\
                    libc v0.2.1 features default (*)\njiff v0.2.0 features alloc,std\n\
                    sha2 v0.11.0 features std\n";
        let expected = ["threadseal links jiff with std", "threadseal links libc"];
        assert_eq!(dependencies(tree), expected);
        assert!(dependencies("jiff v0.2.0 features alloc (*)\n").is_empty());
    }

    #[test]
    fn a_source_of_randomness_that_a_feature_brings_in_is_found() {
        // cargo's output for pkcs8 with that feature.
        let tree = "threadseal-convert v0.1.0 (/clone/crates/threadseal-convert) features \n\
                    pkcs8 v0.11.0 features alloc,encryption,getrandom,pem,pkcs5\n\
                    pkcs5 v0.8.1 features alloc,getrandom,pbes2,rand_core\n\
                    getrandom v0.4.3 features sys_rng\n\
                    cfg-if v1.0.5 features \n\
                    getrandom v0.4.3 features sys_rng (*)\n\
                    rand_core v0.10.1 features \n";
        let expected = [
            "threadseal links getrandom",
            "threadseal links pkcs5 with getrandom",
            "threadseal links pkcs8 with getrandom",
        ];
        assert_eq!(dependencies(tree), expected);
    }
}
