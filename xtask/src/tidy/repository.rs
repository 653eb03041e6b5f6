//! The files of the repository, as text by path.
//!
//! Paths are relative to the root and use `/`. Only UTF-8 files are here. The others are vectors,
//! which no rule concerns. Files that git ignores are not part of the repository, and a symbolic link
//! has no text of its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// The text files of a repository.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    files: BTreeMap<String, String>,
}

impl Repository {
    /// Reads the repository at `root`: files that git tracks, and new files that it does not
    /// ignore.
    ///
    /// # Errors
    /// When git cannot list the files.
    pub(crate) fn read(root: &Path) -> Result<Self, Box<dyn Error>> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()?;
        if !listed.status.success() {
            return Err("git ls-files failed".into());
        }
        let mut files = BTreeMap::new();
        for path in String::from_utf8(listed.stdout)?.split_terminator('\0') {
            let file = root.join(path);
            // git still lists a file that was deleted without a commit.
            if file.is_symlink() {
                continue;
            }
            if let Ok(text) = std::fs::read_to_string(file) {
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self { files })
    }

    /// The text of `path`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether the file exists, or a folder with files.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// All files, in the order of their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends in `extension`.
    pub(crate) fn ending(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files()
            .filter(move |(path, _)| path.ends_with(extension))
    }
}

#[cfg(test)]
impl From<&[(&str, &str)]> for Repository {
    fn from(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self {
            files: files.iter().map(owned).collect(),
        }
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Repository {
    fn from(files: [(&str, &str); N]) -> Self {
        Self::from(files.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_holds_its_own_manifest_and_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let repository = Repository::read(&root).unwrap();
        assert!(
            repository
                .text("Cargo.toml")
                .unwrap()
                .contains("[workspace]")
        );
        assert!(repository.holds("crates/threadseal-core") && repository.holds("spec/"));
        assert!(!repository.holds("crates/thread"));
        assert!(!repository.holds("crates/threadseal/README.md"));
    }
}
