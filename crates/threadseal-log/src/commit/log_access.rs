//! [`LogAccess`]: one log of a home, and the right to commit to it; the committing thread and all readers have it in common.

use crate::index::head_index::HeadIndex;
use crate::index::head_lookup::SharedHeadIndex;
use crate::layout::description::Description;
use crate::layout::log_dir::LogDir;
use crate::layout::log_home::LogHome;
use crate::marks::mark_set::MarkSet;
use crate::tree::contents::Contents;
use crate::tree::writer::{LogKey, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::TreeHead;
use threadseal_store::random::Random;

/// One log, open.
#[derive(Debug)]
pub(crate) struct LogAccess {
    pub(crate) dir: LogDir,
    pub(crate) description: Description,
    key: Option<LogKey>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) index: SharedHeadIndex,
    pub(crate) marks: MarkSet,
    commits: AtomicU64,
    /// Has a caller waited long enough for what another process holds?
    pub(crate) leaving: AtomicBool,
    /// Did this process try to commit before?
    tried: AtomicBool,
}

impl LogAccess {
    pub(crate) fn new(
        home: LogHome,
        description: Description,
        key: Option<LogKey>,
        random: Arc<dyn Random>,
    ) -> Self {
        let dir = home.dir(description.id);
        let index = HeadIndex::of(&dir, description.id);
        Self {
            dir,
            key,
            random,
            index: SharedHeadIndex::new(index),
            marks: MarkSet::new(home, description.clone()),
            description,
            commits: AtomicU64::default(),
            leaving: AtomicBool::default(),
            tried: AtomicBool::default(),
        }
    }

    pub(crate) fn key(&self) -> Result<&LogKey, Error> {
        self.key.as_ref().ok_or_else(|| {
            let key = self.description.id.key_name();
            Error::new(
                ErrorKind::Key,
                format!("the key of the log, {key}, is missing; nothing is committed"),
            )
        })
    }

    /// How often this process has committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Does `work` with the right to commit, and brings the marks up to the log unless `more` is to come at once. The second
    /// answer is why the marks failed, if they did.
    pub(crate) fn write<T>(
        &self,
        more: &dyn Fn() -> bool,
        work: impl FnOnce(&mut Writer<'_>, &HeadIndex) -> Result<T, Error>,
    ) -> Result<(T, Option<Error>), Error> {
        let key = self.key()?;
        // Before anything is locked: a place that does not answer at once must not delay other processes. A read that failed is tried again.
        let remote = self
            .marks
            .remote_states(self.tried.swap(true, Ordering::Relaxed));
        let patient = || !self.leaving.load(Ordering::Relaxed);
        let _alone = self.marks.enter(&patient)?;
        let judge = |contents: &Contents, tree: TreeHead| {
            let fault = self
                .marks
                .fault(self.marks.known(&remote), contents, tree)?;
            fault.map_or(Ok(()), |fault| Err(fault.into_error()))
        };
        let mut writer = Writer::open(&self.dir, &self.description, key, &patient, &judge)?;
        let mut index = self.index.lock();
        index.catch_up(writer.contents())?;
        let done = work(&mut writer, &index);
        self.commits.fetch_add(writer.commits(), Ordering::Relaxed);
        let done = done?;
        // A commit stays, even if the marks fail.
        let unmarked = match more() {
            true => None,
            false => self.marks.update(&writer).err(),
        };
        Ok((done, unmarked))
    }

    /// Commits entries, after `before` had the chance to commit others; answers the number of the first of them.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails, also when only the marks fail.
    pub(crate) fn commit(
        &self,
        entries: &[Vec<u8>],
        before: impl FnOnce(&mut Writer<'_>, &HeadIndex) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let written = self.write(&|| false, |writer, index| {
            before(writer, index)?;
            let at = writer.tree().size;
            writer.commit(entries).map(|()| at)
        });
        let (at, unmarked) = written?;
        unmarked.map_or(Ok(at), Err)
    }
}
