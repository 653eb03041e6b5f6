//! Does trust come from the tree that it judges? Then whoever brought the tree brought the trust.
//!
//! The tree of a folder is the folder; that of a file is the folder that it lies in, and the one
//! that it leads to. What is looked at is each file that is really read: where every link on the
//! way to it lies, where it ends, and whether the tree has another name for it (a hard link).
//!
//! The default home is left out where only files are named: people keep records in their home
//! folder, and the home lies below it, where no project chose to put it.

use crate::context::Context;
use crate::exit::Failure;
use std::cell::Cell;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_store::home::{Home, is_inside};
use threadseal_store::sys::Fs;
use walkdir::WalkDir;

/// The trees that are judged, and whether trust from inside them was admitted.
pub(crate) struct Local {
    fs: Arc<dyn Fs>,
    trees: Vec<Tree>,
    allowed: bool,
    found: Cell<bool>,
}

struct Tree {
    path: PathBuf,
    /// Was only a file in it named?
    of_file: bool,
}

impl Local {
    /// The trees of `paths`; trust from inside them is refused unless it is `allowed`.
    pub(crate) fn to(paths: &[PathBuf], allowed: bool, context: &Context) -> Self {
        let mut trees = Vec::new();
        for path in paths {
            if path.is_dir() {
                trees.push(Tree {
                    path: path.clone(),
                    of_file: false,
                });
                continue;
            }
            let leads_to = context.fs.canonicalize(path).ok();
            for file in [Some(path.clone()), leads_to].into_iter().flatten() {
                trees.push(Tree {
                    path: folder_of(&file),
                    of_file: true,
                });
            }
        }
        Self {
            fs: Arc::clone(&context.fs),
            trees,
            allowed,
            found: Cell::new(false),
        }
    }

    /// Was any trust admitted from inside?
    pub(crate) fn found(&self) -> bool {
        self.found.get()
    }

    /// Admits a file or folder of trust that was named.
    ///
    /// # Errors
    /// When it lies inside and that is not allowed, or the way to it cannot be followed.
    pub(crate) fn admit(&self, path: &Path) -> Result<(), Failure> {
        self.trees
            .iter()
            .try_for_each(|tree| self.judge(path, tree))
    }

    /// Admits a home: its folder, its trust store, and its heads.
    ///
    /// # Errors
    /// As [`Local::admit`].
    pub(crate) fn admit_home(&self, home: &Home, is_default: bool) -> Result<(), Failure> {
        for tree in self.trees.iter().filter(|tree| tree.path.exists()) {
            if is_default && tree.of_file && is_inside(&*self.fs, home.path(), &tree.path)? {
                continue;
            }
            let heads = home.path().join("heads");
            for part in [home.path(), &home.trust_path(), &heads] {
                self.judge(part, tree)?;
            }
        }
        Ok(())
    }

    fn judge(&self, path: &Path, tree: &Tree) -> Result<(), Failure> {
        // A folder that is not there holds nothing; the file in it is reported as it is.
        let inside = tree.path.exists()
            && (is_inside(&*self.fs, path, &tree.path)? || self.has_name_in(path, &tree.path));
        if !inside {
            return Ok(());
        }
        if self.allowed {
            self.found.set(true);
            return Ok(());
        }
        Err(Failure::new(format!(
            "the trust at {} lies inside {}, which it would judge; keep it outside, or let verify take it with --allow-local-trust",
            path.display(),
            tree.path.display()
        )))
    }

    /// Has the tree another name for the file at `path`?
    fn has_name_in(&self, path: &Path, tree: &Path) -> bool {
        let Ok(file) = self.fs.metadata(path) else {
            return false;
        };
        let is_it = |found: &std::fs::Metadata| {
            (found.dev(), found.ino()) == (file.identity.device, file.identity.inode)
        };
        file.links > 1
            && std::fs::metadata(path).is_ok_and(|found| found.is_file())
            && WalkDir::new(tree)
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.metadata().ok())
                .any(|found| is_it(&found))
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
