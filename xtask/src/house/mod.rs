//! `cargo xtask house [--list] [--root DIR]`: figures that describe how the repository is built.
//!
//! ```text
//! lines   production, tests, comments      graph   circles of modules, upward arrows
//! names   files with an `impl` of one type, public items, repeated type names
//! ```
//! They describe and are no quota. Two checkouts are compared by running it on each.

mod graph;
mod lines;
mod names;

use crate::tidy::modules;
use crate::tidy::repository::Repository;
use graph::{Graph, Node};
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Circles whose modules are named.
const NAMED_CIRCLES: usize = 5;
/// Types whose `impl` files are shown.
const SHOWN_TYPES: usize = 10;
/// The longest line of names, in bytes.
const LINE: usize = 110;

/// One package of the repository.
struct Package {
    name: String,
    /// Its folder, with a `/` at the end.
    folder: String,
    library: bool,
    /// The modules of its library, or else of its program.
    graph: Option<Graph>,
    /// Files that a test module declares.
    test_files: BTreeSet<String>,
}

impl Package {
    fn modules(&self) -> impl Iterator<Item = &Node> {
        self.graph.iter().flat_map(|graph| &graph.nodes)
    }

    /// The items that ship, each with the name of its module.
    fn items(&self) -> impl Iterator<Item = (String, &crate::tidy::rust::Item)> {
        let graphs = self.graph.iter();
        let nodes = graphs.flat_map(|graph| {
            let named = move |(at, node): (usize, _)| (graph.name(at), node);
            graph.nodes.iter().enumerate().map(named)
        });
        nodes.flat_map(|(name, node): (String, &Node)| {
            node.items.iter().map(move |item| (name.clone(), item))
        })
    }

    /// Its Rust files; packages inside of it have their own.
    fn files<'a>(&self, repository: &'a Repository) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = repository.ending(".rs");
        files.filter(|(path, _)| folder_of(repository, path).is_some_and(|of| of == self.folder))
    }
}

/// Prints the figures.
///
/// # Errors
/// When an argument is not known or the repository cannot be read.
pub(crate) fn run(words: &[&str]) -> Result<bool, Box<dyn Error>> {
    let mut root = crate::console::root();
    let mut list = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (*word, words.as_slice()) {
            ("--list", _) => list = true,
            ("--root", [folder, ..]) => {
                root = PathBuf::from(folder);
                words.next();
            }
            _ => return Err(crate::USAGE.into()),
        }
    }
    let text = figures(&Repository::read(&root)?, list)?;
    crate::console::say(text.trim_end());
    Ok(true)
}

/// All packages of the repository, in the order of their folders.
fn packages(repository: &Repository) -> Vec<Package> {
    let manifests = repository.ending("Cargo.toml").map(|(path, _)| path);
    let folders = manifests.filter_map(|path| path.strip_suffix("Cargo.toml"));
    let package = |folder: &str| {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| format!("{folder}{file}"));
        let exists = |root: &&String| repository.text(root).is_some();
        let modules = roots
            .iter()
            .flat_map(|root| modules::reached(repository, root));
        let name = folder.trim_end_matches('/');
        Package {
            name: name.strip_prefix("crates/").unwrap_or(name).to_owned(),
            folder: folder.to_owned(),
            library: exists(&&roots[0]),
            graph: roots
                .iter()
                .find(exists)
                .map(|root| Graph::new(repository, root)),
            test_files: modules
                .filter(|module| module.test)
                .map(|module| module.file)
                .collect(),
        }
    };
    folders
        .filter(|folder| !folder.is_empty())
        .map(package)
        .collect()
}

/// The folder of the package that owns `path`.
fn folder_of<'a>(repository: &Repository, path: &'a str) -> Option<&'a str> {
    let ends = path.rmatch_indices('/').map(|(at, _)| at + 1);
    let mut folders = ends.map(|end| &path[..end]);
    folders.find(|folder| repository.text(&format!("{folder}Cargo.toml")).is_some())
}

fn figures(repository: &Repository, list: bool) -> Result<String, std::fmt::Error> {
    let packages = packages(repository);
    let mut out = String::new();
    line_table(&mut out, repository, &packages)?;
    circles(&mut out, &packages)?;
    upward(&mut out, &packages, list)?;
    writeln!(
        out,
        "\nfiles with an inherent impl of one type, the {SHOWN_TYPES} largest"
    )?;
    for (count, name) in names::impl_files(&packages).iter().take(SHOWN_TYPES) {
        writeln!(out, "  {count:>6}  {name}")?;
    }
    unused(&mut out, repository, &packages, list)?;
    let repeated = names::repeated(&packages);
    writeln!(
        out,
        "\ntype names defined in more than two modules: {}",
        repeated.len()
    )?;
    let name = |(count, name): &(usize, String)| format!("{name} {count}");
    wrap(&mut out, repeated.iter().map(name))?;
    Ok(out)
}

fn line_table(out: &mut String, repository: &Repository, packages: &[Package]) -> std::fmt::Result {
    let mut sum = lines::Lines::default();
    writeln!(out, "lines of Rust by package")?;
    let head = ["production", "tests", "docs", "blank", "total"];
    writeln!(
        out,
        "  {:<24}{}",
        "",
        head.map(|name| format!("{name:>11}")).concat()
    )?;
    let mut row = |name: &str, lines: lines::Lines| {
        let columns = [
            lines.production,
            lines.tests,
            lines.docs,
            lines.blank,
            lines.total(),
        ];
        writeln!(
            out,
            "  {name:<24}{}",
            columns.map(|count| format!("{count:>11}")).concat()
        )
    };
    for package in packages {
        let lines = lines::of(repository, package);
        sum += lines;
        row(&package.name, lines)?;
    }
    row("all", sum)
}

fn circles(out: &mut String, packages: &[Package]) -> std::fmt::Result {
    let mut found = Vec::new();
    for package in packages {
        let graph = package.graph.iter();
        found.extend(graph.flat_map(|graph| {
            graph
                .circles()
                .into_iter()
                .map(move |circle| (package, graph, circle))
        }));
    }
    found.sort_by_key(|(_, _, circle)| std::cmp::Reverse(circle.len()));
    let inside: usize = found.iter().map(|(_, _, circle)| circle.len()).sum();
    let all: usize = packages
        .iter()
        .map(|package| package.modules().count())
        .sum();
    writeln!(
        out,
        "\ncircles of modules: {}, with {inside} of {all} modules",
        found.len()
    )?;
    for (place, (package, graph, circle)) in found.iter().enumerate() {
        let first = graph.name(circle[0]);
        writeln!(out, "  {:>6}  {} {first}", circle.len(), package.name)?;
        if place < NAMED_CIRCLES {
            wrap(out, circle.iter().map(|at| graph.name(*at)))?;
        }
    }
    Ok(())
}

fn upward(out: &mut String, packages: &[Package], list: bool) -> std::fmt::Result {
    writeln!(
        out,
        "\nupward arrows (`-`: no table), and pairs of siblings that use each other"
    )?;
    for package in packages {
        let Some(graph) = &package.graph else {
            continue;
        };
        let (upward, pairs) = (graph.against_table(), graph.mutual());
        let count = upward
            .as_ref()
            .map_or("-".to_owned(), |arrows| arrows.len().to_string());
        writeln!(out, "  {:<24}{count:>11}{:>11}", package.name, pairs.len())?;
        for line in upward.iter().flatten().chain(&pairs).filter(|_| list) {
            writeln!(out, "          {line}")?;
        }
    }
    Ok(())
}

fn unused(
    out: &mut String,
    repository: &Repository,
    packages: &[Package],
    list: bool,
) -> std::fmt::Result {
    writeln!(
        out,
        "\npublic items whose name no other crate, test, example or target contains"
    )?;
    for package in packages.iter().filter(|package| package.library) {
        let names = names::unused(repository, package);
        let all = package
            .items()
            .filter(|(_, item)| item.public && item.keyword != "use")
            .count();
        writeln!(out, "  {:<24}{:>11} of {all}", package.name, names.len())?;
        for name in names.iter().filter(|_| list) {
            writeln!(out, "          {name}")?;
        }
    }
    Ok(())
}

/// Names on indented lines of bounded length.
fn wrap(out: &mut String, names: impl Iterator<Item = String>) -> std::fmt::Result {
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() > LINE {
            writeln!(out, "          {}", line.trim_end())?;
            line.clear();
        }
        line.push_str(&name);
        line.push_str(", ");
    }
    writeln!(out, "          {}", line.trim_end().trim_end_matches(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_text_of_fixed_width() {
        let repository = Repository::from([
            ("crates/p/Cargo.toml", "[package]"),
            (
                "crates/p/src/lib.rs",
                "mod a;\nmod b;\npub struct A;\nimpl A {}\n",
            ),
            ("crates/p/src/a.rs", "use crate::b::B;\npub struct A;\n"),
            ("crates/q/Cargo.toml", "[package]"),
            ("crates/q/src/main.rs", "mod r;\nmod s;\nuse r::R;\n"),
            ("crates/q/src/r.rs", "use crate::s::S;\npub struct R;\n"),
            ("crates/q/src/s.rs", "use super::T;\npub struct S;\n"),
            (
                "crates/p/src/b.rs",
                "use crate::a::A;\npub struct B;\nstruct A;\n",
            ),
        ]);
        let text = figures(&repository, true).unwrap();
        for part in [
            "  p                                 9          0          0          0          9\n",
            "circles of modules: 2, with 5 of 6 modules\n       3  q crate\n          crate, r, s\n       2  p a\n",
            "  p                                 -          1\n          a <-> b (1 and 1)\n",
            "       1  p crate::A\n",
            "  p                                 3 of 3\n",
            "          struct a::A\n",
            "more than two modules: 1\n          A 3\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
