//! [`Project`]: the places of everything in an `.ai/` folder.
//!
//! ```text
//! .ai/agent/threads/registry.db  budget_ledger.db  project.json
//! .ai/agent/threads/<thread_id>/thread.json  transcript.jsonl  capabilities.md
//! .ai/knowledge/agent/threads/<directive>/<last part of thread_id>.md
//! .ai/knowledge/graphs/<graph_id>/<graph_run_id>.md
//! .ai/config/agent/coordination.yaml
//! .ai/directives  .ai/tools  .ai/knowledge  .ai/config      the project's declarations
//! ```
//! New threads are written only there: that is seed 001's layout. Rye also used `.ai/threads`
//! (February 2026), `.ai/agent/graphs` (March) and `.ai/state/threads` (April); threads in those
//! folders are found and read.
//!
//! Ids become paths only here. A [`ThreadId`] has no part that leads out. [`Project::inside`] also
//! follows symbolic links, so that no folder of a project may point to another place.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_formats::ledger::RunId;
use threadseal_store::atomic;
use threadseal_store::sys::{FileKind, Fs, cause};

pub use threadseal_verify::layout::{
    CANCEL_FILE, CAPABILITIES_FILE, IDENTITY_FILE, THREAD_FILE, TRANSCRIPT_FILE,
};

/// The folder that makes a folder a project.
pub(crate) const AI_FOLDER: &str = ".ai";
/// Name of the registry's database.
pub(crate) const REGISTRY_FILE: &str = "registry.db";
/// Name of the budgets' database.
pub(crate) const BUDGET_FILE: &str = "budget_ledger.db";

/// Permission bits of a new folder, before the umask.
const FOLDER_MODE: u32 = 0o777;
/// Folders of a new project, below `.ai`.
const NEW_FOLDERS: [&str; 6] = [
    "agent/threads",
    "knowledge/agent/threads",
    "knowledge/graphs",
    "config/agent",
    "directives",
    "tools",
];

/// The possible layouts of threads, the seed's first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// `.ai/agent/threads`: the seed, and ours.
    Seed,
    /// `.ai/agent/graphs`: runs of graphs, March 2026.
    Graphs,
    /// `.ai/threads`: February 2026.
    Early,
    /// `.ai/state/threads`: April 2026.
    State,
}

impl Layout {
    /// All, in the order in which threads are looked for.
    pub const ALL: [Self; 4] = [Self::Seed, Self::Graphs, Self::Early, Self::State];

    /// The folder of threads below `.ai`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Seed => "agent/threads",
            Self::Graphs => "agent/graphs",
            Self::Early => "threads",
            Self::State => "state/threads",
        }
    }
}

/// The identity of a project, independent of its place: 32 random bytes, written as 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectId(RecordId);

impl ProjectId {
    /// The id of these random bytes.
    pub fn new(random: RecordId) -> Self {
        Self(random)
    }

    /// Reads 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        RecordId::parse_hex(text).map(Self)
    }
}

impl fmt::Display for ProjectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    /// The identity from the database, where threads are stored in one.
    in_database: Option<ProjectId>,
}

impl Project {
    /// The project whose `.ai` folder is in `root`.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is none, `External` when the system fails.
    pub fn open(fs: &dyn Fs, root: &Path) -> Result<Self, Error> {
        let real = fs
            .canonicalize(root)
            .map_err(|error| failed(root, &error))?;
        match folder_at(fs, &real.join(AI_FOLDER))? {
            true => Ok(Self {
                root: real,
                in_database: None,
            }),
            false => Err(Error::invalid(format!(
                "{} is not a project: it has no {AI_FOLDER} folder; hint: threadseal init --project DIR",
                root.display()
            ))),
        }
    }

    /// The project of the nearest folder with an `.ai`, from `start` upwards.
    ///
    /// # Errors
    /// As [`Project::open`].
    pub fn find(fs: &dyn Fs, start: &Path) -> Result<Self, Error> {
        let real = fs
            .canonicalize(start)
            .map_err(|error| failed(start, &error))?;
        for folder in real.ancestors() {
            if folder_at(fs, &folder.join(AI_FOLDER))? {
                return Self::open(fs, folder);
            }
        }
        Err(Error::invalid(format!(
            "neither {} nor a folder above it is a project; hint: threadseal init --project DIR",
            start.display()
        )))
    }

    /// Creates the missing folders of a project in `root`, each durable.
    ///
    /// # Errors
    /// Kind `InvalidInput` when `root` or a part of the tree is no folder, `External` when the
    /// system fails.
    pub fn init(fs: &dyn Fs, root: &Path) -> Result<Self, Error> {
        let real = fs
            .canonicalize(root)
            .map_err(|error| failed(root, &error))?;
        for folder in NEW_FOLDERS {
            let path = real.join(AI_FOLDER).join(folder);
            atomic::create_directories(fs, &path, FOLDER_MODE)?;
        }
        Self::open(fs, &real)
    }

    /// The same project, with its threads in the database of the project `id`.
    #[must_use]
    pub fn in_database(&self, id: ProjectId) -> Self {
        Self {
            in_database: Some(id),
            ..self.clone()
        }
    }

    /// The project's identity from its database; None where threads are stored in files.
    pub(crate) fn id_of_database(&self) -> Option<ProjectId> {
        self.in_database
    }

    /// The file with the project's identity, where threads are stored in files.
    pub fn identity(&self) -> PathBuf {
        self.threads(Layout::Seed).join(IDENTITY_FILE)
    }

    /// The folder that holds `.ai`, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The `.ai` folder.
    pub fn ai(&self) -> PathBuf {
        self.root.join(AI_FOLDER)
    }

    /// The folder of all threads of a layout.
    pub fn threads(&self, layout: Layout) -> PathBuf {
        self.ai().join(layout.folder())
    }

    /// The registry of a layout.
    pub fn registry(&self, layout: Layout) -> PathBuf {
        self.threads(layout).join(REGISTRY_FILE)
    }

    /// The budgets of a layout.
    pub fn budgets(&self, layout: Layout) -> PathBuf {
        self.threads(layout).join(BUDGET_FILE)
    }

    /// Where the files of a new thread go.
    pub fn thread(&self, id: &ThreadId) -> ThreadFolder {
        ThreadFolder::new(&self.threads(Layout::Seed), id)
    }

    /// The folder of `id` in any layout; None when there is none.
    ///
    /// # Errors
    /// Kind `Refused` when the folder leads out of the project, `External` when the system fails.
    pub fn find_thread(&self, fs: &dyn Fs, id: &ThreadId) -> Result<Option<ThreadFolder>, Error> {
        for layout in Layout::ALL {
            let folder = ThreadFolder::new(&self.threads(layout), id);
            if folder_at(fs, folder.path())? {
                self.inside(fs, folder.path())?;
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    /// The knowledge entry of a thread or a run of a graph: `<directive>/<last part of the id>.md`.
    /// The seed's text names the whole id; its files, as Rye writes them, have the last part.
    pub(crate) fn knowledge_entry(&self, directive: &ThreadId, id: &ThreadId) -> PathBuf {
        let last = id.as_str().rsplit('/').next().unwrap_or_default();
        self.ai()
            .join("knowledge/agent/threads")
            .join(directive.as_str())
            .join(format!("{last}.md"))
    }

    /// The state of a run of a graph.
    pub fn graph_state(&self, graph: &ThreadId, run: &ThreadId) -> PathBuf {
        self.ai()
            .join("knowledge/graphs")
            .join(graph.as_str())
            .join(format!("{run}.md"))
    }

    /// `path` relative to the project, with `/`, as files refer to each other.
    pub fn relative(&self, path: &Path) -> Option<String> {
        let path = path.strip_prefix(&self.root).ok()?;
        path.to_str().map(str::to_owned)
    }

    /// Checks that `path` is in this project when symbolic links are followed, as far as it exists.
    ///
    /// # Errors
    /// Kind `Refused` when it leads elsewhere, `External` when the system fails.
    pub fn inside(&self, fs: &dyn Fs, path: &Path) -> Result<(), Error> {
        for part in path.ancestors() {
            match fs.canonicalize(part) {
                Ok(real) if real.starts_with(&self.root) => return Ok(()),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // A link that leads nowhere yet can be made to lead anywhere.
                    if fs.symlink_metadata(part).is_ok() {
                        break;
                    }
                }
                Err(error) => return Err(failed(part, &error)),
            }
        }
        Err(Error::refused(format!(
            "{} leads out of the project {}; remove the link that leads there",
            path.display(),
            self.root.display()
        )))
    }
}

/// The files of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadFolder {
    path: PathBuf,
}

impl ThreadFolder {
    pub(crate) fn new(threads: &Path, id: &ThreadId) -> Self {
        let path = threads.join(id.as_str());
        Self { path }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `thread.json`.
    pub fn metadata(&self) -> PathBuf {
        self.path.join(THREAD_FILE)
    }

    /// `transcript.jsonl`.
    pub fn transcript(&self) -> PathBuf {
        self.path.join(TRANSCRIPT_FILE)
    }

    /// The step ledger of the run of its record.
    pub fn ledger(&self, run: &RunId) -> PathBuf {
        self.path.join(format!("ledger_{}.jsonl", run.as_str()))
    }

    /// `cancel.json`: a request to end the thread.
    pub fn cancel(&self) -> PathBuf {
        self.path.join(CANCEL_FILE)
    }

    /// `capabilities.md`.
    pub fn capabilities(&self) -> PathBuf {
        self.path.join(CAPABILITIES_FILE)
    }
}

fn folder_at(fs: &dyn Fs, path: &Path) -> Result<bool, Error> {
    match fs.metadata(path) {
        Ok(found) => Ok(found.kind == FileKind::Directory),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(failed(path, &error)),
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::InvalidInput,
        _ => ErrorKind::External,
    };
    let text = format!("cannot look at {}: {error}", path.display());
    Error::new(kind, text).with_source(cause(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use threadseal_store::sys::RealFs;

    fn id(text: &str) -> ThreadId {
        ThreadId::parse(text).unwrap()
    }

    #[test]
    fn a_new_project_has_the_folders_of_the_seed_and_making_it_twice_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Project::open(&RealFs, folder.path()).is_err());
        let project = Project::init(&RealFs, folder.path()).unwrap();
        for name in NEW_FOLDERS {
            assert!(project.ai().join(name).is_dir(), "{name}");
        }
        fs::write(project.registry(Layout::Seed), b"x").unwrap();
        assert_eq!(Project::init(&RealFs, folder.path()).unwrap(), project);
        assert_eq!(fs::read(project.registry(Layout::Seed)).unwrap(), b"x");
    }

    #[test]
    fn paths_are_those_of_the_seed() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::init(&RealFs, folder.path()).unwrap();
        let thread = id("agency-kiwi/discover_leads/discover_leads-1739820456");
        let relative = |path: &Path| project.relative(path).unwrap();
        let files = project.thread(&thread);
        assert_eq!(
            relative(&files.metadata()),
            ".ai/agent/threads/agency-kiwi/discover_leads/discover_leads-1739820456/thread.json"
        );
        let directive = id("agency-kiwi/discover_leads");
        assert_eq!(
            relative(&project.knowledge_entry(&directive, &thread)),
            ".ai/knowledge/agent/threads/agency-kiwi/discover_leads/discover_leads-1739820456.md"
        );
        assert_eq!(
            relative(&project.graph_state(&id("graphs/demo"), &id("graphs-demo-100"))),
            ".ai/knowledge/graphs/graphs/demo/graphs-demo-100.md"
        );
        assert_eq!(project.relative(Path::new("/etc")), None);
    }

    #[test]
    fn a_project_is_found_from_a_folder_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::init(&RealFs, folder.path()).unwrap();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(Project::find(&RealFs, &deep).unwrap(), project);
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(Project::open(&RealFs, &file).is_err());
    }

    #[test]
    fn threads_of_later_layouts_are_found_and_the_seeds_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::init(&RealFs, folder.path()).unwrap();
        let thread = id("r/r-1");
        assert_eq!(project.find_thread(&RealFs, &thread).unwrap(), None);
        for layout in [Layout::State, Layout::Early, Layout::Graphs, Layout::Seed] {
            let path = project.threads(layout).join("r/r-1");
            fs::create_dir_all(&path).unwrap();
            let found = project.find_thread(&RealFs, &thread).unwrap().unwrap();
            assert_eq!(found.path(), path);
        }
    }

    #[test]
    fn a_folder_that_leads_out_of_the_project_is_refused() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = Project::init(&RealFs, folder.path()).unwrap();
        let link = project.threads(Layout::Seed).join("t");
        symlink(other.path(), &link).unwrap();
        let refused = project.find_thread(&RealFs, &id("t")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
        let below = project.inside(&RealFs, &link.join("new/thread.json"));
        assert_eq!(below.unwrap_err().kind(), ErrorKind::Refused);
        symlink("nowhere", project.threads(Layout::Seed).join("u")).unwrap();
        let dangling = project.thread(&id("u")).metadata();
        assert!(project.inside(&RealFs, &dangling).is_err());
        let fresh = project.thread(&id("new/thread-1")).metadata();
        project.inside(&RealFs, &fresh).unwrap();
        assert!(project.inside(&RealFs, Path::new("/etc/passwd")).is_err());
    }
}
