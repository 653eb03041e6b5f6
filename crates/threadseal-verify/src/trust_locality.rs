//! Does trust come from the tree that it judges? Then one party brought both.
//!
//! The tree is each folder that was named. What is looked at is each file that is really read:
//! where every link on the way to it is, where it ends, and whether the tree has another name for
//! it (a hard link). A file that is named has no tree: the user who names it and a key beside it
//! has chosen both.

use crate::error::VerifyError;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_store::home::{Home, is_inside};
use threadseal_store::sys::{Fs, Metadata};
use walkdir::WalkDir;

/// The trees that are judged, and whether trust from inside them was admitted.
pub struct Locality {
    fs: Arc<dyn Fs>,
    trees: Vec<PathBuf>,
    allowed: bool,
    found: Cell<bool>,
}

impl Locality {
    /// The trees of `paths`; trust from inside them is refused unless it is `allowed`.
    pub fn to(paths: &[PathBuf], allowed: bool, fs: &Arc<dyn Fs>) -> Self {
        let trees = paths.iter().filter(|path| path.is_dir()).cloned().collect();
        Self {
            fs: Arc::clone(fs),
            trees,
            allowed,
            found: Cell::new(false),
        }
    }

    /// Was any trust admitted from inside?
    pub fn found(&self) -> bool {
        self.found.get()
    }

    /// Admits a file or folder of trust that was named.
    ///
    /// # Errors
    /// When it is inside and that is not allowed, or the way to it cannot be followed.
    pub fn admit(&self, path: &Path) -> Result<(), VerifyError> {
        self.trees
            .iter()
            .try_for_each(|tree| self.judge(path, tree))
    }

    /// Admits a home: its folder, its trust store, and its heads.
    ///
    /// # Errors
    /// As [`Locality::admit`].
    pub fn admit_home(&self, home: &Home) -> Result<(), VerifyError> {
        let heads = home.path().join("heads");
        [home.path(), &home.trust_path(), &heads]
            .into_iter()
            .try_for_each(|part| self.admit(part))
    }

    fn judge(&self, path: &Path, tree: &Path) -> Result<(), VerifyError> {
        if !is_inside(&*self.fs, path, tree)? && !self.has_name_in(path, tree) {
            return Ok(());
        }
        if self.allowed {
            self.found.set(true);
            return Ok(());
        }
        Err(VerifyError::refused(format!(
            "the trust at {} is inside {}, which it would judge; move it outside, or accept it with --allow-local-trust",
            path.display(),
            tree.display()
        )))
    }

    /// Has the tree another name for the file at `path`?
    fn has_name_in(&self, path: &Path, tree: &Path) -> bool {
        let Ok(file) = self.fs.metadata(path) else {
            return false;
        };
        let is_it = |found: Metadata| found.identity == file.identity;
        file.links > 1
            && std::fs::metadata(path).is_ok_and(|found| found.is_file())
            && WalkDir::new(tree)
                .into_iter()
                .flatten()
                .any(|entry| self.fs.symlink_metadata(entry.path()).is_ok_and(is_it))
    }
}
