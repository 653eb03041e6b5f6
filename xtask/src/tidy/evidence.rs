//! Documents and code must agree: specifications, codes of findings, links.

use super::repository::Repository;
use super::rust;

/// Specifications that no shipped module cites.
pub(crate) fn specifications(repository: &Repository) -> Vec<String> {
    let cited = |path: &str| {
        let mut sources = repository.ending(".rs");
        sources.any(|(file, text)| {
            file.starts_with("crates/") && file.contains("/src/") && text.contains(path)
        })
    };
    let specs = repository.ending(".md").map(|(path, _)| path);
    let orphans = specs.filter(|path| path.starts_with("spec/") && !cited(path));
    orphans
        .map(|path| format!("{path}: no module cites this specification"))
        .collect()
}

/// Codes of findings that no specification explains.
pub(crate) fn codes(repository: &Repository) -> Vec<String> {
    let specs = repository
        .ending(".md")
        .filter(|(path, _)| path.starts_with("spec/"));
    let specs: Vec<&str> = specs.map(|(_, text)| text).collect();
    let mut faults = Vec::new();
    for (path, text) in repository.ending(".rs") {
        let of_product = path.starts_with("crates/") && path.contains("/src/");
        if !of_product || path.contains("test") {
            continue;
        }
        let shipped = rust::shipped(text);
        for (at, code) in codes_named(text) {
            // Blank if the code is in a test or a comment.
            let ships = shipped
                .as_bytes()
                .get(at)
                .is_some_and(|byte| !byte.is_ascii_whitespace());
            let quoted = format!("`{code}`");
            if ships && !specs.iter().any(|spec| spec.contains(&quoted)) {
                let line = rust::line_of(text, at);
                faults.push(format!("{path}:{line}: no specification explains {code}"));
            }
        }
    }
    faults
}

/// The code of each finding, with the place of the bracket or comma before it.
fn codes_named(source: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    for (at, _) in source.match_indices('"') {
        let before = source[..at].trim_end();
        let made = ["error(", "warning(", "note("]
            .iter()
            .any(|call| before.ends_with(call));
        let with_verdict = before.strip_suffix(',').is_some_and(|before| {
            let word = before
                .rsplit(|c: char| !c.is_alphanumeric() && c != ':')
                .next();
            word.is_some_and(|word| word.starts_with("Verdict::"))
        });
        let code = source[at + 1..].split('"').next().unwrap_or_default();
        let is_code = code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || b"_0".contains(&byte));
        if (made || with_verdict) && is_code && !code.is_empty() {
            out.push((before.len() - 1, code));
        }
    }
    out
}

/// Links of the documents that lead to no file.
pub(crate) fn links(repository: &Repository) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in repository.ending(".md") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !resolve(folder, target).is_some_and(|file| repository.holds(&file)) {
                let line = rust::line_of(text, at);
                faults.push(format!("{path}:{line}: link to {target} leads nowhere"));
            }
        }
    }
    faults
}

/// `target` relative to `folder`; `None` when it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_that_nobody_cites_is_found() {
        let repository = Repository::from([
            ("spec/a.md", ""),
            ("spec/b.md", ""),
            ("crates/c/src/lib.rs", "//! See `spec/a.md`.\n"),
            ("crates/c/tests/t.rs", "//! See `spec/b.md`.\n"),
        ]);
        assert_eq!(
            specifications(&repository),
            ["spec/b.md: no module cites this specification"]
        );
    }

    #[test]
    fn a_code_that_no_specification_explains_is_found() {
        let find = |source: &str| {
            codes(&Repository::from([
                ("spec/report.md", "| `seal_gone` | text |"),
                ("crates/c/src/lib.rs", source),
            ]))
        };
        assert!(find("Finding::error(\n    \"seal_gone\", text)").is_empty());
        assert!(find("Error::note(\"two words\")").is_empty());
        assert!(
            find("#[cfg(test)]\nmod tests { fn f() { place.error(\"new_code\", x) } }").is_empty()
        );
        for source in [
            "Finding::warning(\"new_code\", text)",
            "place.error(\n    \"new_code\", text)",
            "Some((Verdict::Forked, \"new_code\", text))",
        ] {
            let expected = "no specification explains new_code";
            assert!(find(source)[0].ends_with(expected), "{source}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "[a](b.md#x) [b](../spec/) [c](https://example.org) [d](#here) [e](gone.md)";
        let repository =
            Repository::from([("docs/a.md", text), ("docs/b.md", ""), ("spec/c.md", "")]);
        assert_eq!(
            links(&repository),
            ["docs/a.md:1: link to gone.md leads nowhere"]
        );
    }
}
