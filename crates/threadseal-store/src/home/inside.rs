//! Is a path inside a tree, or does the tree decide where it leads?
//!
//! Every symbolic link on the way is followed by hand, and the folder that holds it is checked,
//! too. The person who made the tree chooses where the links in it lead.

use crate::sys::{self, FileKind, Fs, directory_of};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use threadseal_core::error::Error;

/// Most links on one way, as Linux has it (`path_resolution(7)`).
const MAX_LINKS: usize = 40;

/// Is `path` inside `tree`, or a symbolic link on the way to it? `path` is a home or a trust store
/// that may not exist yet. Directories are compared by identity, not by spelling.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] when `tree` does not exist or the way to
/// `path` cannot be followed.
pub fn is_inside(fs: &dyn Fs, path: &Path, tree: &Path) -> Result<bool, Error> {
    let fail = |at: &Path, error: &io::Error| sys::failure("follow", at, error);
    let tree_identity = fs
        .metadata(tree)
        .map_err(|error| fail(tree, &error))?
        .identity;
    let existing = deepest_existing(fs, path)?;
    for real in way_to(fs, existing).map_err(|error| fail(existing, &error))? {
        for above in real.ancestors() {
            let found = fs.metadata(above).map_err(|error| fail(above, &error))?;
            if found.identity == tree_identity {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn deepest_existing<'p>(fs: &dyn Fs, path: &'p Path) -> Result<&'p Path, Error> {
    let mut at = path;
    loop {
        match fs.symlink_metadata(at) {
            Ok(_) => return Ok(at),
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory_of(at) != at => {
                if at.file_name().is_none() {
                    // ".." after a part that does not exist leads nowhere yet.
                    return Err(sys::failure("follow", path, &error));
                }
                at = directory_of(at);
            }
            Err(error) => return Err(sys::failure("follow", at, &error)),
        }
    }
}

/// The folders of all links on the way to `path`, and where it ends; none of them holds a link.
fn way_to(fs: &dyn Fs, path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut at = fs.canonicalize(Path::new(if path.is_absolute() { "/" } else { "." }))?;
    let mut left = parts(path);
    let mut way = Vec::new();
    while let Some(part) = left.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        if fs.symlink_metadata(&next)?.kind != FileKind::Symlink {
            at = next;
            continue;
        }
        way.push(at.clone());
        if way.len() > MAX_LINKS {
            return Err(io::Error::other("too many symbolic links"));
        }
        let target = fs.read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        let mut all = parts(&target);
        all.append(&mut left);
        left = all;
    }
    way.push(at);
    Ok(way)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}
