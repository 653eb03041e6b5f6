//! Where tests find their data: the testkit of this repository, and optional data next to it.

use std::path::{Path, PathBuf};

/// A file or folder of the repository.
pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// A file or folder of the data next to the repository, or in `$THREADSEAL_SHARED`.
///
/// Prints `skipped: …` when it is absent, so that a run shows which tests had no data.
#[expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "only tests call this"
)]
pub fn beside_repository(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("THREADSEAL_SHARED")
        .map_or_else(|| in_repository("../shared"), PathBuf::from);
    let found = Some(root.join(path)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: no {path} beside the repository");
    }
    found
}
