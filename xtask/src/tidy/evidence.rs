//! Documents and code must agree: specifications, codes of findings, links.

use super::repository::Repository;
use super::rust;
use std::collections::BTreeSet;

/// Specifications that no shipped module cites.
pub(crate) fn specifications(repository: &Repository) -> Vec<String> {
    let cited = |path: &str| {
        let mut sources = repository.ending(".rs").chain(repository.ending(".py"));
        let is_shipped = |file: &str| {
            file.starts_with("crates/") && file.contains("/src/")
                || file.starts_with("bindings/python/python/")
        };
        sources.any(|(file, text)| is_shipped(file) && text.contains(path))
    };
    let specs = repository.ending(".md").map(|(path, _)| path);
    let is_one = |path: &str| path.starts_with("spec/") && path != "spec/README.md";
    let orphans = specs.filter(|path| is_one(path) && !cited(path));
    orphans
        .map(|path| format!("{path}: no module cites this specification"))
        .collect()
}

/// The file that lists the codes of findings.
const CODES: &str = "crates/threadseal-core/src/report/code.rs";

/// Codes of findings that no specification explains, or that no shipped code reports.
pub(crate) fn codes(repository: &Repository) -> Vec<String> {
    let Some(table) = repository.text(CODES) else {
        return vec![format!("{CODES}: the table of codes is missing")];
    };
    let specs = repository
        .ending(".md")
        .filter(|(path, _)| path.starts_with("spec/"));
    let specs: Vec<&str> = specs.map(|(_, text)| text).collect();
    let used = codes_used(repository);
    let mut faults = Vec::new();
    for (line, (variant, code)) in codes_listed(table) {
        let quoted = format!("`{code}`");
        if !specs.iter().any(|spec| spec.contains(&quoted)) {
            faults.push(format!("{CODES}:{line}: no specification explains {code}"));
        }
        if !used.contains(variant) {
            faults.push(format!("{CODES}:{line}: no code that ships reports {code}"));
        }
    }
    if faults.is_empty() && codes_listed(table).next().is_none() {
        faults.push(format!("{CODES}: the table of codes is empty"));
    }
    faults
}

/// The lines `Variant => "code",` of the table, with their numbers.
fn codes_listed(table: &str) -> impl Iterator<Item = (usize, (&str, &str))> {
    table.lines().enumerate().filter_map(|(at, line)| {
        let (variant, rest) = line.trim().split_once(" => \"")?;
        let code = rest.strip_suffix("\",")?;
        Some((at + 1, (variant, code)))
    })
}

/// The variants that shipped code names as `FindingCode::Variant`.
fn codes_used(repository: &Repository) -> BTreeSet<String> {
    const TYPE: &str = "FindingCode::";
    let mut used = BTreeSet::new();
    for (path, text) in repository.ending(".rs") {
        let of_product = path.starts_with("crates/") && path.contains("/src/");
        if !of_product || path == CODES || path.contains("test") || !text.contains(TYPE) {
            continue;
        }
        let shipped = rust::shipped(text);
        for (at, _) in shipped.match_indices(TYPE) {
            let rest = &shipped[at + TYPE.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric());
            used.insert(rest[..end.unwrap_or(rest.len())].to_owned());
        }
    }
    used
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
            ("spec/README.md", ""),
            ("crates/c/src/lib.rs", "//! See `spec/a.md`.\n"),
            ("spec/p.md", ""),
            ("crates/c/tests/t.rs", "//! See `spec/b.md`.\n"),
            (
                "bindings/python/python/p.py",
                "\"\"\"See `spec/p.md`.\"\"\"\n",
            ),
            ("bindings/python/tests/t.py", "# `spec/b.md`\n"),
        ]);
        assert_eq!(
            specifications(&repository),
            ["spec/b.md: no module cites this specification"]
        );
    }

    fn faults_of_codes(table: &str, source: &str) -> Vec<String> {
        codes(&Repository::from([
            ("spec/report.md", "| `seal_gone` | text |"),
            (CODES, table),
            ("crates/c/src/lib.rs", source),
        ]))
    }

    const SEAL_GONE: &str = "pub enum FindingCode {\n    SealGone => \"seal_gone\",\n";
    const USE: &str = "Finding::error(\n    FindingCode::SealGone, text)";

    #[test]
    fn a_code_that_no_specification_explains_is_found() {
        assert!(faults_of_codes(SEAL_GONE, USE).is_empty());
        let table = format!("{SEAL_GONE}    NewCode => \"new_code\",\n");
        let uses = format!("{USE}; matches!(code, FindingCode::NewCode)");
        let expected = format!("{CODES}:3: no specification explains new_code");
        assert_eq!(faults_of_codes(&table, &uses), [expected]);
    }

    #[test]
    fn a_code_that_nothing_reports_is_found() {
        let expected = format!("{CODES}:2: no code that ships reports seal_gone");
        for source in [
            "",
            "// FindingCode::SealGone",
            "let text = \"FindingCode::SealGone\";",
            "let code = FindingCode::SealGoneElsewhere;",
            "#[cfg(test)]\nmod tests { fn f() { x(FindingCode::SealGone) } }",
        ] {
            assert_eq!(
                faults_of_codes(SEAL_GONE, source),
                [expected.as_str()],
                "{source}"
            );
        }
    }

    #[test]
    fn a_table_of_codes_that_is_gone_is_found() {
        for table in ["", "pub enum FindingCode {}"] {
            let expected = format!("{CODES}: the table of codes is empty");
            assert_eq!(faults_of_codes(table, USE), [expected]);
        }
        let expected = format!("{CODES}: the table of codes is missing");
        assert_eq!(codes(&Repository::from([("spec/a.md", "")])), [expected]);
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
