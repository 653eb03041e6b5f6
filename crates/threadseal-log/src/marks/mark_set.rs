//! [`MarkSet`]: the second places of one log, what each knows, and what follows from all of them together.

use crate::layout::description::{Description, LogId};
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
use crate::marks::fault::Fault;
use crate::marks::folder_mark::FolderMark;
use crate::marks::mark_state::MarkState;
use crate::marks::place_list::PlaceList;
use crate::marks::remote_marks::RemoteMarks;
use crate::marks::{home_clones, known_logs};
use crate::tree::contents::Contents;
use crate::tree::view::LogView;
use crate::tree::writer::Writer;
use crate::witness::conflict_files;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_store::lock::Exclusive;
use threadseal_store::read::Stamp;

/// Most second places of one log.
const MAX_MARKS: usize = 16;

/// A second place, and the tree that it knows.
#[derive(Debug)]
pub struct MarkReport {
    /// Where it is.
    pub place: MarkLocation,
    /// The tree that it knows, if it knows any; or why that is not known.
    pub tree: Result<Option<TreeHead>, Error>,
}

/// The second places of one log.
#[derive(Debug)]
pub(crate) struct MarkSet {
    home: LogHome,
    description: Description,
    remote: RemoteMarks,
    /// Places that were forgotten: each is asked once.
    forgotten: Mutex<Option<(Vec<MarkLocation>, Arc<RemoteMarks>)>>,
}

/// What the second places know. One that cannot be read hides nothing that another one shows.
#[derive(Debug, Default)]
pub(crate) struct KnownMarks {
    pub(crate) trees: Vec<TreeHead>,
    ended: bool,
    /// Another log of this home, which never ended.
    displaced: Option<LogId>,
    pub(crate) unread: Option<Error>,
}

impl MarkSet {
    pub(crate) fn new(home: LogHome, description: Description) -> Self {
        let remote = RemoteMarks::new(&home, &description);
        Self {
            home,
            description,
            remote,
            forgotten: Mutex::default(),
        }
    }

    pub(crate) fn home(&self) -> &LogHome {
        &self.home
    }

    fn folders(&self) -> Vec<FolderMark> {
        FolderMark::all(&self.home, &self.description)
    }

    /// The right to look at the marks and to commit by what they know. Two copies of one home have their marks in common:
    /// one of them commits at a time.
    pub(crate) fn enter(&self, patient: &dyn Fn() -> bool) -> Result<Vec<Exclusive>, Error> {
        let marks = self.folders();
        marks.iter().map(|mark| mark.enter_while(patient)).collect()
    }

    /// What each place that does not answer at once knows; a read that failed is tried once more if `again`.
    pub(crate) fn remote_states(&self, again: bool) -> Vec<Result<MarkState, Error>> {
        self.remote.states(again)
    }

    /// What all places know, of which the remote ones answered this.
    pub(crate) fn known(&self, remote: &[Result<MarkState, Error>]) -> KnownMarks {
        KnownMarks::of(&self.home, &self.description, remote)
    }

    /// The signed checkpoints in the folders. A folder that cannot be read shows none here; [`MarkSet::known`] reports it.
    pub(crate) fn signed_checkpoints(&self) -> Vec<(SignedNote, TreeHead)> {
        let marks = self.folders().into_iter();
        let known = marks.flat_map(|mark| mark.read(&self.description).unwrap_or_default());
        known.collect()
    }

    /// What each second place knows.
    pub(crate) fn reports(&self) -> Vec<MarkReport> {
        let folders = self.folders().into_iter().map(|mark| MarkReport {
            place: MarkLocation::Folder(mark.folder().to_owned()),
            tree: mark.read(&self.description).map(|known| {
                let trees = known.into_iter().map(|(_, tree)| tree);
                trees.max_by_key(|tree| tree.size)
            }),
        });
        let states = self.remote.states(false);
        let remote = self.remote.locations().iter().zip(states);
        let remote = remote.map(|(location, state)| MarkReport {
            place: location.clone(),
            tree: state.map(|state| state.known.map(|(_, tree)| tree)),
        });
        folders.chain(remote).collect()
    }

    /// Why a log with these contents commits nothing, as far as `known` shows.
    pub(crate) fn fault(
        &self,
        known: KnownMarks,
        contents: &Contents,
        tree: TreeHead,
    ) -> Result<Option<Fault>, Error> {
        match self.displacement()? {
            None => known.fault(contents, tree),
            fault => Ok(fault),
        }
    }

    /// Why the log commits nothing although it continues all places that it asks: `list` has others. Those whose addresses are known are
    /// asked now if `ask`.
    pub(crate) fn forgotten(
        &self,
        list: &PlaceList,
        contents: &Contents,
        tree: TreeHead,
        ask: bool,
    ) -> Result<Option<Fault>, Error> {
        let Some(forgotten) = list.forgotten(&self.folders()) else {
            return Ok(None);
        };
        let known = match ask {
            true => self.known_to(&forgotten.places),
            false => KnownMarks::default(),
        };
        let fault = known.fault(contents, tree)?;
        Ok(Some(fault.unwrap_or(Fault::PlaceForgotten(forgotten))))
    }

    /// The places that the log lists and `log.json` lacks, as far as their addresses are known.
    pub(crate) fn forgotten_places(&self, list: &PlaceList) -> Vec<MarkLocation> {
        let forgotten = list.forgotten(&self.folders());
        forgotten.map_or_else(Vec::new, |forgotten| forgotten.places)
    }

    /// What these places know, as far as they answer.
    pub(crate) fn known_to(&self, places: &[MarkLocation]) -> KnownMarks {
        let asked = Description {
            marks: places.to_vec(),
            ..self.description.clone()
        };
        let remote = {
            let mut cached = self
                .forgotten
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            match &*cached {
                Some((known, remote)) if known == places => Arc::clone(remote),
                _ => {
                    let remote = Arc::new(RemoteMarks::new(&self.home, &asked));
                    *cached = Some((places.to_vec(), Arc::clone(&remote)));
                    remote
                }
            }
        };
        let mut known = KnownMarks::of(&self.home, &asked, &remote.states(false));
        known.unread = None;
        known
    }

    /// Was this log ever known here to have more places than the default one?
    pub(crate) fn has_more(&self) -> bool {
        let folders = self.folders();
        let mut known = folders.iter().map(FolderMark::known_places);
        self.description.marks.len() > 1 || known.any(|places| !places.is_empty())
    }

    /// Notes in the folders which places the log has.
    pub(crate) fn note_places(&self, places: &[MarkLocation]) {
        self.folders()
            .iter()
            .for_each(|mark| mark.note_places(places));
    }

    /// Why the log commits nothing whatever its entries are.
    pub(crate) fn displacement(&self) -> Result<Option<Fault>, Error> {
        let host = self.description.host;
        if host.is_some() && host != self.home.host {
            return Ok(Some(Fault::OtherHost));
        }
        let current = self.home.current_id()?;
        Ok((current != Some(self.description.id)).then_some(Fault::Ended))
    }

    /// Brings the folders up to what was committed, and has the other places follow.
    pub(crate) fn update(&self, writer: &Writer<'_>) -> Result<(), Error> {
        // They read the log themselves, even if a folder fails.
        self.remote.request_update();
        for mark in self.folders() {
            let known = mark.read(&self.description)?;
            if !known.iter().any(|(_, tree)| *tree == writer.tree()) {
                mark.write(writer.head())?;
                home_clones::claim(&self.home, &mark, self.description.id)?;
            }
        }
        Ok(())
    }

    /// Has the places that do not answer at once brought up to the log.
    pub(crate) fn request_remote_update(&self) {
        self.remote.request_update();
    }

    /// Waits for those updates, and answers with why one failed since the last call.
    pub(crate) fn wait_for_remote(&self, longest: Duration) -> Option<Error> {
        self.remote.wait_for_updates(longest)
    }

    /// What changes when a mark was touched: stamps of the folders and of their marks.
    pub(crate) fn stamps(&self) -> Vec<Option<Stamp>> {
        let stamp = |path: &_| self.home.fs.metadata(path).ok().map(Stamp::from);
        let marks = self.folders().into_iter();
        // Names that come and go change the folder: those of ends and of other homes.
        marks
            .flat_map(|mark| [stamp(mark.folder()), stamp(mark.path())])
            .collect()
    }

    /// Changes whenever what is known of a remote place may have changed.
    pub(crate) fn remote_answers(&self) -> u64 {
        self.remote.answers()
    }
}

impl KnownMarks {
    fn of(home: &LogHome, description: &Description, remote: &[Result<MarkState, Error>]) -> Self {
        let displaced = known_logs::displaced_by(home, description.id);
        let mut known = Self {
            displaced: displaced.into_iter().next(),
            ..Self::default()
        };
        for mark in FolderMark::all(home, description) {
            match mark.read(description) {
                Ok(read) => known.trees.extend(read.into_iter().map(|(_, tree)| tree)),
                Err(error) => known.miss(error),
            }
            match mark.has_ended() {
                Ok(ended) => known.ended |= ended,
                Err(error) => known.miss(error),
            }
        }
        // A log that signed two histories continues neither.
        let convicting = conflict_files::convicting(&home.dir(description.id), description);
        known.trees.extend(convicting);
        for state in remote {
            match state {
                Ok(state) => {
                    known.ended |= state.ended;
                    let tree = state.known.as_ref().map(|(_, tree)| *tree);
                    known.trees.extend(tree);
                }
                Err(error) => known.miss(error.clone()),
            }
        }
        known
    }

    fn miss(&mut self, error: Error) {
        self.unread.get_or_insert(error);
    }

    pub(crate) fn fault(self, contents: &Contents, tree: TreeHead) -> Result<Option<Fault>, Error> {
        if self.ended {
            return Ok(Some(Fault::Ended));
        }
        if let Some(other) = self.displaced {
            return Ok(Some(Fault::Displaced { other }));
        }
        for mark in self.trees {
            if !contents.continues(&mark, &tree)? {
                return Ok(Some(Fault::RolledBack { mark, log: tree }));
            }
        }
        self.unread.map_or(Ok(None), Err)
    }
}

/// Has a log keep its last checkpoint in these places from now on. Marks in other places stay there, and are not read any
/// more. The first place stays as it was. Processes that have the log open use the places that they know.
///
/// # Errors
/// As [`crate::LogRegistry::keep_marks_in`].
pub(crate) fn change_locations(
    home: &LogHome,
    id: LogId,
    marks: Vec<MarkLocation>,
) -> Result<Description, Error> {
    if marks.len() > MAX_MARKS {
        let text = format!("a log has at most {MAX_MARKS} second places");
        return Err(Error::invalid(text));
    }
    let dir = home.dir(id);
    let _alone = Exclusive::enter(&*home.fs, &dir.file("lock"))?;
    // The file as it is now, and not as the caller read it before.
    let now = Description::read(&dir, id)?;
    let adds = marks.iter().any(|mark| !now.marks.contains(mark));
    let changed = Description { marks, ..now };
    // A removal alone must also work for a log that went back, or that lost another place: else there is no way out.
    if adds {
        let remote = RemoteMarks::new(home, &changed).states(false);
        let known = KnownMarks::of(home, &changed, &remote);
        let view = LogView::read(&dir, &changed)?;
        if let Some(fault) = known.fault(view.contents(), view.tree())? {
            return Err(fault.into_error());
        }
    }
    changed.rewrite(&dir)?;
    Ok(changed)
}

/// Can each second place of a log that is to be made be written, or asked?
pub(crate) fn check_reachable(home: &LogHome, description: &Description) -> Result<(), Error> {
    let marks = FolderMark::all(home, description);
    marks.iter().try_for_each(|mark| mark.enter().map(drop))?;
    let remote = RemoteMarks::new(home, description).states(false);
    remote.into_iter().try_for_each(|state| state.map(drop))
}
