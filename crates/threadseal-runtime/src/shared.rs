//! Where tests find the data beside the repository, or in `$THREADSEAL_SHARED`.

use std::path::{Path, PathBuf};

/// The shared file or folder `path`; reports its absence.
#[expect(
    clippy::disallowed_methods,
    reason = "the place of the shared data is told by the environment"
)]
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("THREADSEAL_SHARED").map_or_else(beside, PathBuf::from);
    let found = Some(root.join(path)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: no {path}");
    }
    found
}
