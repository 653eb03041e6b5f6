//! From the paths of the command line to the files that are looked at.
//!
//! A file that is named is always looked at; a folder is walked to its leaves in the order of its
//! names, without following symbolic links, so that a link cannot lead out of it or in circles. Of a store
//! each transcript is looked at, of a database each thread.

use crate::address::{self, Stores};
use crate::error::{VerifyError, is_gone};
use crate::output::PathError;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use threadseal_core::record::ThreadId;
use threadseal_store::address::{Intent, folder_of, is_object_storage};
use threadseal_store::objects::shape::{is_object_of, store_of_head};
use threadseal_store::sys::{self, RealFs, path_text};
use walkdir::WalkDir;

/// Most folders inside each other below a folder that is named.
const MAX_FOLDER_DEPTH: usize = 128;

/// A file to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it is, as the user would name it.
    pub path: PathBuf,
    /// Was it named itself, rather than found in a folder?
    pub named: bool,
    /// Its size, for the progress bar.
    pub bytes: u64,
}

impl Candidate {
    /// Is it a record of the store at `address`?
    pub fn is_in(&self, address: &str) -> bool {
        let path = self.path.to_str();
        let rest = path.and_then(|path| path.strip_prefix(address));
        rest.is_some_and(|rest| rest.starts_with('#'))
    }
}

/// What the paths come to.
#[derive(Debug, Default)]
pub struct Found {
    /// The files, in the order of the paths.
    pub files: Vec<Candidate>,
    /// Stores that may hold ledgers.
    pub stores: Vec<String>,
    /// PostgreSQL databases in which threads may lie, and the one that is meant, if one is.
    pub databases: Vec<(String, Option<ThreadId>)>,
    /// What could not be walked.
    pub errors: Vec<PathError>,
    /// Is any of that there for all that is known?
    pub unread: bool,
    /// What was in a folder when that was read, and is gone.
    pub vanished: Vec<(PathBuf, PathError)>,
    /// Links, pipes and devices inside folders.
    pub passed_over: u64,
    /// These, and all folders: what may lie in the place of a record without being a file to look at.
    pub others: Vec<PathBuf>,
    /// The folders that were named, and which of the files lie in each.
    pub folders: Vec<(PathBuf, Range<usize>)>,
    /// Folders in these that are stores of objects, as the system names them.
    roots: BTreeSet<PathBuf>,
}

/// Follows each path.
pub fn find(paths: &[PathBuf], stores: &Stores) -> Found {
    let mut found = Found::default();
    for path in paths {
        if let Some(input) = stores.input(path) {
            match input {
                Ok(file) => found.files.push(Candidate {
                    path: path.clone(),
                    named: true,
                    bytes: file.size(),
                }),
                Err(failure) => {
                    found.unread = true;
                    found.fail(path, &failure);
                }
            }
            continue;
        }
        if let Some(address) = address::address_of(path) {
            found.try_address(address, stores);
            continue;
        }
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => found.walk(path),
            Ok(metadata) => found.files.push(Candidate {
                path: path.clone(),
                named: true,
                bytes: metadata.len(),
            }),
            Err(error) => {
                found.unread |= !is_gone(&error);
                found.fail(path, &VerifyError::io("read", path, &error));
            }
        }
    }
    found
}

impl Found {
    /// Are files of the store at `address` among these?
    pub fn has_files_of(&self, address: &str) -> bool {
        self.files.iter().any(|file| file.is_in(address))
    }

    /// Looks at the records of each store of objects in the folders, in place of its objects, which are parts of
    /// records. A file that is named and is such an object is an error.
    pub fn fold_stores(&mut self, stores: &Stores) {
        let mut roots = BTreeSet::new();
        let mut parts = Vec::new();
        for file in &self.files {
            match store_of_head(&RealFs, &file.path) {
                Some(root) if file.named => parts.push((file.path.clone(), root)),
                Some(root) => _ = roots.insert(root),
                None => {}
            }
        }
        for (path, root) in &parts {
            let (part, root) = (path.display(), root.display());
            let message = format!(
                "cannot verify {part}: it is a part of a store; hint: threadseal verify object+file:{root}"
            );
            self.fail(path, &VerifyError::refused(message));
        }
        self.retain(|file| match file.named {
            true => !parts.iter().any(|(path, _)| *path == file.path),
            false => {
                let folders = file.path.ancestors().skip(2).take(2);
                !folders
                    .filter(|folder| roots.contains(*folder))
                    .any(|root| is_object_of(root, &file.path))
            }
        });
        for root in roots {
            self.roots.extend(root.canonicalize());
            self.try_address(&format!("object+file:{}", path_text(&root)), stores);
        }
    }

    /// Leaves only these files.
    fn retain(&mut self, keep: impl Fn(&Candidate) -> bool) {
        let mut kept = vec![0];
        for file in &self.files {
            kept.push(kept.last().unwrap_or(&0) + usize::from(keep(file)));
        }
        let place = |at: usize| kept.get(at).copied().unwrap_or_default();
        for (_, files) in &mut self.folders {
            *files = place(files.start)..place(files.end);
        }
        self.files.retain(keep);
    }

    /// Adds the stores at these addresses, which are folders in what was named. What cannot be read there is
    /// an error.
    pub fn add_stores(&mut self, addresses: Vec<String>, stores: &Stores) {
        for address in addresses {
            let folder = address.strip_prefix("object+file:").map(Path::new);
            let root = folder.and_then(|folder| folder.canonicalize().ok());
            if self.stores.contains(&address) || root.is_some_and(|root| self.roots.contains(&root))
            {
                continue;
            }
            self.try_address(&address, stores);
        }
    }

    fn try_address(&mut self, address: &str, stores: &Stores) {
        if let Err(failure) = self.address(address, stores) {
            self.unread = true;
            self.fail(Path::new(address), &failure);
        }
    }

    /// A record in a store; or a store, in which each transcript is looked at as if it had been named.
    fn address(&mut self, address: &str, stores: &Stores) -> Result<(), VerifyError> {
        if let Some(folder) = folder_of(address)?
            && folder.is_dir()
        {
            self.walk(&folder);
            return Ok(());
        }
        let candidate = |name: String| Candidate {
            path: PathBuf::from(name),
            named: true,
            bytes: 0,
        };
        if let Some((url, name)) = address::database(address) {
            let thread = name.map(ThreadId::parse).transpose()?;
            self.databases.push((url.to_owned(), thread));
            return Ok(());
        }
        if !is_object_storage(address) && !address.contains('#') {
            self.stores.push(address.to_owned());
            return Ok(());
        }
        let (store, name) = stores.transcripts(address, Intent::Read)?;
        if name.is_some() {
            self.files.push(candidate(address.to_owned()));
            return Ok(());
        }
        let address = address.trim_end_matches('#');
        let names = address::names(&*store)?;
        let names = names.iter().map(|name| format!("{address}#{name}"));
        self.files.extend(names.map(candidate));
        self.stores.push(address.to_owned());
        Ok(())
    }

    fn walk(&mut self, folder: &Path) {
        let before = self.files.len();
        let deepest = WalkDir::new(folder).max_depth(MAX_FOLDER_DEPTH);
        for entry in deepest.sort_by_file_name() {
            match entry {
                Ok(entry) if entry.depth() == MAX_FOLDER_DEPTH && entry.file_type().is_dir() => {
                    self.unread = true;
                    let path = entry.path().display();
                    let message = format!(
                        "cannot read {path}: more than {MAX_FOLDER_DEPTH} folders are inside each other; hint: verify \
                         that folder"
                    );
                    self.fail(entry.path(), &VerifyError::refused(message));
                }
                Ok(entry) if entry.file_type().is_file() => self.files.push(Candidate {
                    bytes: entry.metadata().map_or(0, |metadata| metadata.len()),
                    path: entry.into_path(),
                    named: false,
                }),
                Ok(entry) => {
                    let is_folder = entry.file_type().is_dir() || entry.depth() == 0;
                    self.passed_over += u64::from(!is_folder);
                    self.others.push(entry.into_path());
                }
                Err(error) => {
                    let path = error.path().unwrap_or(folder).to_owned();
                    let gone = error.io_error().is_some_and(is_gone);
                    self.unread |= !gone;
                    let reason = error.io_error().map(sys::reason).unwrap_or_default();
                    let message = format!("cannot read {}: {reason}", path.display());
                    let failure = VerifyError::refused(message);
                    if gone && error.depth() > 0 {
                        let error = PathError::of(Some(&path), &failure);
                        self.vanished.push((path, error));
                    } else {
                        self.fail(&path, &failure);
                    }
                }
            }
        }
        let files = before..self.files.len();
        self.folders.push((folder.to_owned(), files));
    }

    fn fail(&mut self, path: &Path, failure: &VerifyError) {
        self.errors.push(PathError::of(Some(path), failure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    // T-CMD-25
    #[test]
    fn folders_inside_each_other_without_end_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        deep.extend(std::iter::repeat_n("d", MAX_FOLDER_DEPTH - 1));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("a"), "").unwrap();
        let found = || find(&[folder.path().to_owned()], &Stores::default());
        assert_eq!((found().files.len(), found().errors.len()), (1, 0));
        fs::create_dir_all(deep.join("d/d")).unwrap();
        fs::write(deep.join("d/d/b"), "").unwrap();
        let found = found();
        assert_eq!((found.files.len(), found.errors.len()), (1, 1));
    }

    // T-CMD-10
    #[test]
    fn folders_are_walked_in_order_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("b")).unwrap();
        for name in ["c", "a", "b/d"] {
            fs::write(root.join(name), "").unwrap();
        }
        symlink(root, root.join("loop")).unwrap();
        let found = find(
            &[root.to_owned(), root.join("a"), root.join("none")],
            &Stores::default(),
        );
        let names: Vec<_> = found
            .files
            .iter()
            .map(|f| (f.path.strip_prefix(root).unwrap().to_owned(), f.named))
            .collect();
        let expected = [("a", false), ("b/d", false), ("c", false), ("a", true)];
        assert_eq!(names, expected.map(|(p, named)| (PathBuf::from(p), named)));
        assert_eq!((found.errors.len(), found.passed_over), (1, 1));
        let others = ["", "b", "loop"].map(|name| root.join(name));
        assert_eq!(found.others, others);
        assert_eq!(found.folders, [(root.to_owned(), 0..3)]);
    }
}
