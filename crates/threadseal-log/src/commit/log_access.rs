//! [`LogAccess`]: one log of a home, and the right to commit to it; the committing thread and all readers have it in common.

use crate::entries::{EntryView as _, PlacesEntry};
use crate::index::head_index::HeadIndex;
use crate::index::head_lookup::SharedHeadIndex;
use crate::index::non_head_index::SharedNonHeadIndex;
use crate::layout::description::{Description, LogId};
use crate::layout::home_secret::HomeSecret;
use crate::layout::log_dir::LogDir;
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
use crate::marks::fault::Fault;
use crate::marks::mark_set::{KnownMarks, MarkSet};
use crate::marks::place_list::PlaceList;
use crate::tree::contents::Contents;
use crate::tree::view::{LogView, proved_entry};
use crate::tree::writer::{LogKey, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::TreeHead;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_store::random::Random;

/// One log, open.
#[derive(Debug)]
pub(crate) struct LogAccess {
    pub(crate) dir: LogDir,
    pub(crate) description: Description,
    key: Option<LogKey>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) index: SharedHeadIndex,
    pub(crate) non_heads: SharedNonHeadIndex,
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
            non_heads: SharedNonHeadIndex::default(),
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
            let fault = self.fault(self.marks.known(&remote), contents, tree, false)?;
            fault.map_or(Ok(()), |fault| Err(fault.into_error()))
        };
        let mut writer = Writer::open(
            &self.dir,
            &self.description,
            key,
            &patient,
            &judge,
            self.commits() > 0,
        )?;
        let mut index = self.index.lock();
        index.catch_up(writer.contents())?;
        self.list_places(&mut writer)?;
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

    /// Why a log with these contents commits nothing, where its second places are `known`. Those that were forgotten are asked, too, if
    /// `ask`.
    ///
    /// # Errors
    /// Kind `External` when the log cannot be read, or, where no place shows a fault, one cannot be.
    pub(crate) fn fault(
        &self,
        mut known: KnownMarks,
        contents: &Contents,
        tree: TreeHead,
        ask: bool,
    ) -> Result<Option<Fault>, Error> {
        let unread = known.unread.take();
        let fault = self.marks.fault(known, contents, tree)?;
        if fault.is_some() {
            return Ok(fault);
        }
        let forgotten = match self.known_list(contents, tree)? {
            Some(list) => self.marks.forgotten(&list, contents, tree, ask)?,
            None => None,
        };
        match forgotten {
            None => unread.map_or(Ok(None), Err),
            fault => Ok(fault),
        }
    }

    /// As [`LogAccess::place_list`]; None where damage keeps it from being read and nothing shows that there are any such places.
    fn known_list(&self, contents: &Contents, tree: TreeHead) -> Result<Option<PlaceList>, Error> {
        match self.place_list(contents, tree) {
            Err(_) if !self.marks.has_more() => Ok(None),
            list => list.map(Some),
        }
    }

    /// The second places that this tree lists last, beside those that `log.json` names now.
    pub(crate) fn place_list(
        &self,
        contents: &Contents,
        tree: TreeHead,
    ) -> Result<PlaceList, Error> {
        let id = self.description.id;
        let listed = last_list(&self.non_heads, id, contents, tree)?;
        PlaceList::read(&self.dir, id, listed)
    }

    /// Has the log list the places that `log.json` names and it does not, and the folders know their addresses.
    fn list_places(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let list = self.known_list(writer.contents(), writer.tree())?;
        let Some(list) = list.filter(|list| !list.named.is_empty()) else {
            return Ok(());
        };
        let secret = HomeSecret::make(&self.dir, &*self.random)?;
        let list = list.under(secret);
        if let Some(entry) = list.due()? {
            writer.commit(&[entry])?;
        }
        self.marks.note_places(&list.named);
        Ok(())
    }

    /// Commits that the log has the second places `kept` from now on, without `removed`, or without all that were forgotten; then has
    /// `log.json` name them. The place that is removed need not answer.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, also by what the removed place knows; `External` when another place or a file
    /// cannot be read or written. Then `log.json` is as it was.
    pub(crate) fn remove_place(
        &self,
        removed: Option<&MarkLocation>,
        kept: &Description,
    ) -> Result<(), Error> {
        let home = self.marks.home();
        let view = LogView::read(&self.dir, &self.description)?;
        let list = self.place_list(view.contents(), view.tree())?;
        let gone = match removed {
            Some(removed) => vec![removed.clone()],
            None => self.marks.forgotten_places(&list),
        };
        // Before anything is locked. What they know counts for the last time.
        let last_known = self.marks.known_to(&gone).trees;
        let marks = MarkSet::new(home.clone(), kept.clone());
        let remote = marks.remote_states(false);
        let patient = || true;
        let _alone = marks.enter(&patient)?;
        let judge = |contents: &Contents, tree: TreeHead| {
            let mut known = marks.known(&remote);
            known.trees.extend(&last_known);
            let fault = marks.fault(known, contents, tree)?;
            fault.map_or(Ok(()), |fault| Err(fault.into_error()))
        };
        let mut writer = Writer::open(&self.dir, kept, self.key()?, &patient, &judge, false)?;
        let list = self.place_list(writer.contents(), writer.tree())?;
        let list = list.under(HomeSecret::make(&self.dir, &*self.random)?);
        if let Some(entry) = list.without(removed, kept.marks.get(1..).unwrap_or_default())? {
            writer.commit(&[entry])?;
        }
        kept.rewrite(&self.dir)?;
        marks.note_places(kept.marks.get(1..).unwrap_or_default());
        marks.update(&writer)
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

/// The last entry of this tree that lists second places, proved to be in it.
///
/// # Errors
/// Kind `External` when the entries are not those of the tree.
pub(crate) fn last_list(
    index: &SharedNonHeadIndex,
    id: LogId,
    contents: &Contents,
    tree: TreeHead,
) -> Result<Option<PlacesEntry>, Error> {
    let numbers = index.find_in(id, contents, tree, PlacesEntry::is_listed)?;
    for number in numbers.into_iter().rev() {
        let entry = LogEntry::read(&proved_entry(contents, &tree, number)?).ok();
        let list = entry.and_then(|entry| PlacesEntry::from_entry(number, entry));
        if list.is_some() {
            return Ok(list);
        }
    }
    Ok(None)
}
