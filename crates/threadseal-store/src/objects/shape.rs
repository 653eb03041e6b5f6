//! How the files of a store of objects are distinguished from other files, when they lie in a folder that is walked.
//!
//! ```text
//! ROOT/heads/HEX        begins with `threadseal.object-head/1 `       ROOT/{segments,indexes,gone}/…
//! ROOT/transcripts/HEX  begins with `threadseal.transcript-head/1 `   ROOT/{transcript-segments,…-indexes,…-tails,…-gone}/…
//! ROOT/lineages/HEX     begins with `threadseal.lineage-link/1 `      ROOT/{lineage-links,lineage-states}/…
//! ```
//! A head shows that ROOT is a store: its objects are parts of records, and none of them is a record. Only names
//! that the store itself would give are left to it, so that no other file hides among them.

use crate::read::{self, Source as _};
use crate::sys::Fs;
use std::path::{Path, PathBuf};

/// A kind of logs in a store: where its heads are, how each begins, and where its other objects are.
struct Kind {
    heads: &'static str,
    label: &'static [u8],
    others: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind {
        heads: "heads",
        label: b"threadseal.object-head/1 ",
        others: &["segments", "indexes", "gone"],
    },
    Kind {
        heads: "transcripts",
        label: b"threadseal.transcript-head/1 ",
        others: &[
            "transcript-segments",
            "transcript-indexes",
            "transcript-tails",
            "transcripts-gone",
        ],
    },
    Kind {
        heads: "lineages",
        label: b"threadseal.lineage-link/1 ",
        others: &["lineage-links", "lineage-states"],
    },
];

/// The folder that is a store, if the file at `path` is a head in it.
pub fn store_of_head(fs: &dyn Fs, path: &Path) -> Option<PathBuf> {
    let kind = KINDS.iter().find(|kind| {
        path.parent()
            .is_some_and(|folder| folder.ends_with(kind.heads))
    })?;
    is_hex(path.file_name()?.to_str()?).then_some(())?;
    let file = read::open_regular(fs, path).ok()?;
    let mut begin = Vec::new();
    file.range(0, kind.label.len() as u64)
        .next_chunk(&mut begin)
        .ok()?;
    let root = path.parent()?.parent()?;
    (begin == kind.label).then(|| root.to_owned())
}

/// Would the store in the folder `root` give this name to one of its objects?
pub fn is_object_of(root: &Path, path: &Path) -> bool {
    let Ok(name) = path.strip_prefix(root) else {
        return false;
    };
    let parts: Option<Vec<&str>> = name.iter().map(|part| part.to_str()).collect();
    let Some([folder, rest @ ..]) = parts.as_deref() else {
        return false;
    };
    let is_part = |part: &&str| {
        let is_plain = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-';
        part.chars().all(is_plain)
    };
    let is_head = KINDS.iter().any(|kind| kind.heads == *folder);
    let is_other = KINDS.iter().any(|kind| kind.others.contains(folder));
    match rest {
        [name] => (is_head || is_other) && is_hex(name),
        [owner, name] => is_other && is_hex(owner) && is_part(name),
        _ => false,
    }
}

fn is_hex(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    !text.is_empty() && text.len().is_multiple_of(2) && text.chars().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::RealFs;
    use std::fs;

    // T-STO-37
    #[test]
    fn a_store_is_known_by_a_head_and_its_objects_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("heads")).unwrap();
        let head = root.join("heads/7231");
        fs::write(&head, "threadseal.object-head/1 00\n").unwrap();
        assert_eq!(store_of_head(&RealFs, &head).as_deref(), Some(root));
        let other = root.join("heads/7232");
        fs::write(&other, "{\"a\":1}\n").unwrap();
        assert_eq!(store_of_head(&RealFs, &other), None);
        for (name, is_object) in [
            ("heads/7231", true),
            ("segments/7231/00000000000000000000-ab", true),
            ("transcripts/6f", true),
            ("transcripts-gone/6f", true),
            ("lineage-states/6f/ab-cd-0", true),
            ("heads/r1.jsonl", false),
            ("segments/7231/transcript.jsonl", false),
            ("segments/a/b/c", false),
            ("bodies/7231", false),
            ("7231", false),
        ] {
            assert_eq!(is_object_of(root, &root.join(name)), is_object, "{name}");
        }
        assert!(!is_object_of(&root.join("other"), &head));
    }
}
