//! Which second places a log has, what each says, and what follows from all of them together.

use super::contents::Contents;
use super::cosigned;
use super::description::Description;
use super::far::{Far, Said};
use super::mark_place::MarkPlace;
use super::writer::Writer;
use super::{Fault, LogId, LogPlaces, SealLog, Shared};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_store::lock::Exclusive;

/// Most second places of one log.
const MAX_MARKS: usize = 16;

/// A second place, and what it says.
#[derive(Debug)]
pub struct MarkState {
    /// Where it is.
    pub place: MarkPlace,
    /// The tree that it knows, if it knows any; or why that is not known.
    pub tree: Result<Option<TreeHead>, Error>,
}

/// What the second places know. One that cannot be read hides nothing that another one shows.
#[derive(Debug, Default)]
pub(super) struct KnownMarks {
    pub(super) trees: Vec<TreeHead>,
    ended: bool,
    /// Another log of this home, which never ended.
    displaced: Option<LogId>,
    pub(super) unread: Option<Error>,
}

impl SealLog {
    /// What each second place says.
    pub fn mark_states(&self) -> Vec<MarkState> {
        let Shared {
            places,
            description,
            far,
            ..
        } = &*self.shared;
        let near = places.marks(description).into_iter().map(|mark| MarkState {
            place: MarkPlace::Folder(mark.folder().to_owned()),
            tree: mark.read(description).map(|known| {
                let trees = known.into_iter().map(|(_, tree)| tree);
                trees.max_by_key(|tree| tree.size)
            }),
        });
        let said = far.places().iter().zip(far.said(false));
        let said = said.map(|(place, said)| MarkState {
            place: place.clone(),
            tree: said.map(|said| said.known.map(|(_, tree)| tree)),
        });
        near.chain(said).collect()
    }

    /// What the second places know, each its largest checkpoint, if it has one: the folders first.
    ///
    /// # Errors
    /// Kind `External` when one cannot be read or is damaged.
    pub fn marks(&self) -> Result<Vec<Option<TreeHead>>, Error> {
        let states = self.mark_states().into_iter();
        states.map(|state| state.tree).collect()
    }

    /// Brings all second places up to the log, and waits for those that do not answer at once no longer than `longest`.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when a place or a file cannot be read or written.
    pub fn raise_marks(&self, longest: Duration) -> Result<(), Error> {
        self.fold()?;
        self.shared.far.offer();
        self.shared.far.settled(longest).map_or(Ok(()), Err)
    }
}

impl LogPlaces {
    /// Has a log keep its last checkpoint in these places from now on. What it has in others stays there, and is not asked any more. The
    /// first one stays what it was. Processes that have the log open go on with the places that they know.
    ///
    /// # Errors
    /// Kind `InvalidInput` for too many places; where one is added, `Refused` when one of them contradicts the log, and `External` when
    /// one does not answer; `External` also when a file cannot be read or written. Then nothing was changed.
    pub fn keep_marks_in(
        &self,
        description: &Description,
        marks: Vec<MarkPlace>,
    ) -> Result<Description, Error> {
        if marks.len() > MAX_MARKS {
            let text = format!("a log has at most {MAX_MARKS} second places");
            return Err(Error::invalid(text));
        }
        let place = self.place(description.id);
        let _alone = Exclusive::enter(&*self.fs, &place.file("lock"))?;
        // What stands there now, and not what the caller read before.
        let now = Description::read(&place, description.id)?;
        let adds = marks.iter().any(|mark| !now.marks.contains(mark));
        let changed = Description { marks, ..now };
        // Whoever only removes one is rid of it also where the log went back or another place is gone: else nobody gets out.
        if adds {
            let known = self.known_marks(&changed, &Far::new(self, &changed).said(false));
            let view = super::LogView::read(&place, &changed)?;
            if let Some(fault) = known.fault(view.contents(), view.tree())? {
                return Err(fault.into_error());
            }
        }
        changed.rewrite(&place)?;
        Ok(changed)
    }

    /// What the second places know of this log, as far as they can be read.
    fn known_marks(&self, description: &Description, far: &[Result<Said, Error>]) -> KnownMarks {
        let mut known = KnownMarks {
            displaced: self.displaced_by(description.id).into_iter().next(),
            ..KnownMarks::default()
        };
        for mark in self.marks(description) {
            match mark.read(description) {
                Ok(read) => known.trees.extend(read.into_iter().map(|(_, tree)| tree)),
                Err(error) => known.miss(error),
            }
            match mark.has_ended() {
                Ok(ended) => known.ended |= ended,
                Err(error) => known.miss(error),
            }
        }
        // Whoever signed two histories goes on with neither.
        let convicting = cosigned::convicting(&self.place(description.id), description);
        known.trees.extend(convicting);
        for said in far {
            match said {
                Ok(said) => {
                    known.ended |= said.ended;
                    known
                        .trees
                        .extend(said.known.as_ref().map(|(_, tree)| *tree));
                }
                Err(error) => known.miss(error.clone()),
            }
        }
        known
    }
}

impl KnownMarks {
    fn miss(&mut self, error: Error) {
        self.unread.get_or_insert(error);
    }

    pub(super) fn fault(self, contents: &Contents, tree: TreeHead) -> Result<Option<Fault>, Error> {
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

impl Shared {
    pub(super) fn known_marks(&self, far: &[Result<Said, Error>]) -> KnownMarks {
        self.places.known_marks(&self.description, far)
    }

    /// Why it commits nothing whatever its entries are.
    pub(super) fn out_of_place(&self) -> Result<Option<Fault>, Error> {
        if self.description.host != self.places.host && self.description.host.is_some() {
            return Ok(Some(Fault::OtherHost));
        }
        let current = self.places.current_id()?;
        Ok((current != Some(self.description.id)).then_some(Fault::Ended))
    }

    pub(super) fn fault(
        &self,
        marks: KnownMarks,
        contents: &Contents,
        tree: TreeHead,
    ) -> Result<Option<Fault>, Error> {
        match self.out_of_place()? {
            None => marks.fault(contents, tree),
            fault => Ok(fault),
        }
    }

    /// Brings the folders up to what was committed, and has the other places follow.
    pub(super) fn mark(&self, writer: &Writer<'_>) -> Result<(), Error> {
        // They read the log by themselves, whatever becomes of the folders.
        self.far.offer();
        for mark in self.places.marks(&self.description) {
            let known = mark.read(&self.description)?;
            if !known.iter().any(|(_, tree)| *tree == writer.tree()) {
                mark.write(writer.head())?;
                self.places.claim(&mark, self.description.id)?;
            }
        }
        Ok(())
    }
}
