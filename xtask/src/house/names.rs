//! Names: files with an `impl` of one type, public items, type names of several types.

use super::Package;
use crate::tidy::repository::Repository;
use crate::tidy::rust::{self, Item};
use std::collections::{BTreeMap, BTreeSet};

/// For each type the number of files with an inherent `impl` of it, most first.
pub(super) fn impl_files(packages: &[Package]) -> Vec<(usize, String)> {
    let mut files: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let Some(graph) = &package.graph else {
            continue;
        };
        for (at, node) in graph.nodes.iter().enumerate() {
            for name in node.items.iter().filter_map(inherent) {
                let (home, name) = graph.type_of(at, &name);
                let path = format!("{} {}::{name}", package.name, graph.name(home));
                files.entry(path).or_default().insert(&node.file);
            }
        }
    }
    let count = |(path, files): (String, BTreeSet<&str>)| (files.len(), path);
    let mut out: Vec<_> = files.into_iter().map(count).collect();
    out.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    out
}

/// The path of the type whose inherent `impl` this is.
fn inherent(item: &Item) -> Option<String> {
    let is_for = |(at, _): (usize, &str)| !item.name[at + 5..].starts_with('<');
    let head = item.name.split(" where ").next().unwrap_or_default();
    if item.keyword != "impl" || head.match_indices(" for ").any(is_for) {
        return None;
    }
    let bytes = head.as_bytes();
    let mut depth = 0_usize;
    let start = bytes.iter().enumerate().find_map(|(at, byte)| {
        match byte {
            b'<' => depth += 1,
            b'>' if at > 0 && !b"-=".contains(&bytes[at - 1]) => depth -= 1,
            byte if depth == 0 && rust::is_word(*byte) => return Some(at),
            _ => {}
        }
        None
    })?;
    let path = head[start..].split(|letter: char| letter == '<' || letter.is_whitespace());
    Some(path.into_iter().next()?.to_owned())
}

/// Public items of a library whose name is nowhere outside of its own source.
pub(super) fn unused(repository: &Repository, package: &Package) -> Vec<String> {
    let source = format!("{}src/", package.folder);
    let outside = repository
        .ending(".rs")
        .filter(|(path, _)| !path.starts_with(&source));
    let code: Vec<String> = outside.map(|(_, text)| rust::layers(text).code).collect();
    let words: BTreeSet<&str> = code
        .iter()
        .flat_map(|code| code.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .collect();
    let mut out = Vec::new();
    for (place, item) in package.items() {
        if item.public && !matches!(&*item.keyword, "use" | "impl") && !words.contains(&*item.name)
        {
            out.push(format!("{} {place}::{}", item.keyword, item.name));
        }
    }
    out
}

/// Type names that are defined in more than two modules, with their number, most first.
pub(super) fn repeated(packages: &[Package]) -> Vec<(usize, String)> {
    let mut modules: BTreeMap<&str, BTreeSet<(&str, String)>> = BTreeMap::new();
    for package in packages {
        for (place, item) in package.items() {
            let is_type = matches!(&*item.keyword, "struct" | "enum" | "trait" | "type");
            if is_type && !item.member {
                modules
                    .entry(&item.name)
                    .or_default()
                    .insert((&package.name, place));
            }
        }
    }
    let count = |(name, places): (&str, BTreeSet<_>)| (places.len(), name.to_owned());
    let mut out: Vec<_> = modules
        .into_iter()
        .map(count)
        .filter(|(count, _)| *count > 2)
        .collect();
    out.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    out
}

#[cfg(test)]
mod tests {
    use super::super::packages;
    use super::*;

    fn repository() -> Repository {
        Repository::from([
            ("p/Cargo.toml", "[package]"),
            (
                "p/src/lib.rs",
                "mod a;\nmod b;\npub struct Kept;\nimpl Kept { pub fn used() {} pub fn unused() {} }\n\
                 pub(crate) fn inner() {}\n#[cfg(test)]\npub fn tests() {}\n",
            ),
            (
                "p/src/a.rs",
                "struct Other;\nimpl<'a, T: Fn() -> &'a u8> super::Kept<T> where T: for<'b> X<'b> {}\n\
                 impl Clone for Other { type Item = u8; }\n",
            ),
            (
                "p/src/b.rs",
                "struct Other;\nuse crate::Kept;\nimpl Kept {}\nimpl Kept {}\nimpl Other {}\n\
                 impl Iterator for Other { type Item = u8; }",
            ),
            (
                "p/tests/t.rs",
                "use p::Kept; // unused\nfn t() { Kept::used(\"unused\"); }\n",
            ),
            ("q/Cargo.toml", "[package]"),
            (
                "q/src/main.rs",
                "type Other = u8;\nstruct Kept;\npub fn alone() {}\nimpl Iterator for X { type Item = u8; }",
            ),
        ])
    }

    #[test]
    fn files_with_an_inherent_impl_are_counted_once_for_the_type_that_they_mean() {
        let found = impl_files(&packages(&repository()));
        let expected = [(3, "p crate::Kept"), (1, "p b::Other")];
        assert_eq!(
            found,
            expected.map(|(count, name)| (count, name.to_owned()))
        );
    }

    #[test]
    fn a_public_item_is_used_where_code_outside_names_it() {
        let repository = repository();
        let packages = packages(&repository);
        assert_eq!(unused(&repository, &packages[0]), ["fn crate::unused"]);
    }

    #[test]
    fn a_type_name_is_counted_once_for_each_module() {
        let found = repeated(&packages(&repository()));
        assert_eq!(found, [(3, "Other".to_owned())]);
    }
}
