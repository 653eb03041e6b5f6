//! The paths of the test data: the testkit of this repository, and data that may be beside it.

use std::path::{Path, PathBuf};

/// A file or folder of the repository.
pub(crate) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// A folder of the data beside the repository, or in `$THREADSEAL_SHARED`; prints a message when
/// absent.
#[expect(clippy::disallowed_methods, reason = "tests may look where data lies")]
pub(crate) fn beside_repository(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("THREADSEAL_SHARED")
        .map_or_else(|| in_repository("../shared"), PathBuf::from);
    let found = Some(root.join(path)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: no {path} beside the repository");
    }
    found
}
