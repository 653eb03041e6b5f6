//! Where the files of a fleet's threads are.

use crate::project::{THREAD_FILE, TRANSCRIPT_FILE};
use std::path::{Path, PathBuf};
use threadseal_core::record::ThreadId;

/// The folder of the threads' folders, relative to a project's root.
pub const THREADS: &str = ".ai/agent/threads";

/// Folders of a project that are stored in the database, relative to its root.
pub(crate) const FOLDERS: [&str; 3] = [
    THREADS,
    ".ai/knowledge/agent/threads",
    ".ai/knowledge/graphs",
];

/// The path of a thread's transcript, below `/`.
pub fn transcript_of(thread: &ThreadId) -> PathBuf {
    let folder = Path::new("/").join(THREADS).join(thread.as_str());
    folder.join(TRANSCRIPT_FILE)
}

/// The thread that owns the transcript or `thread.json` at a path.
pub(super) fn thread_of(path: &str) -> Option<ThreadId> {
    let below = path.strip_prefix(THREADS)?.strip_prefix('/')?;
    let (folder, name) = below.rsplit_once('/')?;
    let known = name == TRANSCRIPT_FILE || name == THREAD_FILE;
    known.then(|| ThreadId::parse(folder).ok()).flatten()
}
