//! [`Past`]: what is left of a log that does not go on, and another log in its place.
//!
//! ```text
//! old log, copies of it ─► the one that continues the marks ─► entries that are proved ─┐
//! its checkpoint, the second place ─► entry 0                                           ├─► the end of the old one ─► the new log,
//! heads that the home has ──────────────────────────────────────────────────────────────┘    whole ─► log/current
//! ```
//! The newest head of each record comes along, so that no record is worse protected than before. Of two that the log and the home
//! know, the later one; of one number, the log's. What of the order of entries comes along: `kept`. Whose log goes on where there are
//! several copies of a home: `twins`.

use super::contents::Contents;
use super::description::{Description, LogId};
use super::ends::Ends;
use super::far::Far;
use super::kept::Kept;
use super::mark::{self, Mark};
use super::mark_place::MarkPlace;
use super::place::{Place, damaged};
use super::twins::Dwelling;
use super::view::read_committed;
use super::writer::Loaded;
use super::{LogKey, LogPlaces};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead, Restart};

/// Bytes of the signature of a log: Ed25519.
const SIGNATURE_BYTES: usize = 64;

/// What is left of a log that does not go on.
#[derive(Debug)]
pub struct Past {
    id: LogId,
    description: Option<Description>,
    restart: Restart,
    kept: Kept,
    /// The tree of the log itself when it was read.
    own: Option<TreeHead>,
    ends: Ends,
    /// The largest tree of it that is known.
    pub tree: TreeHead,
    /// Entries of that tree that are not known to be there any more: what only they said is lost.
    pub lacking: u64,
    /// Does all that could be read contradict the second place?
    pub forked: bool,
    /// Why the log, which is there, cannot be read whole.
    damage: Option<Error>,
}

/// A signed checkpoint, and its tree.
type Known = (SignedNote, TreeHead);

/// What second places know. One that cannot be read tells nothing, and must not stand in the way out by itself.
#[derive(Default)]
struct Marked {
    known: Vec<Known>,
    unread: Option<Error>,
}

/// What says of a log how it goes on, from outside of the home.
struct Vouched {
    known: Vec<Known>,
    witnessed: Option<TreeHead>,
}

impl Vouched {
    fn trees(&self) -> Vec<TreeHead> {
        let known = self.known.iter().map(|(_, tree)| *tree);
        known.chain(self.witnessed).collect()
    }
}

/// How a log stands to what its second places know; the later the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is damaged such that it may be any history.
    Unknown,
    /// It is another history.
    Forked,
    /// It ends before; whether that continues it, nobody can say.
    Shorter,
    /// It continues all of it.
    Continues,
}

/// The log itself or a copy of it.
struct Found {
    contents: Contents,
    tree: TreeHead,
    signed: Known,
    fit: Fit,
    folder: Place,
}

impl Past {
    /// Does anything that a key sealed before it ended stand in an order that nothing proves?
    pub fn is_order_lost(&self) -> bool {
        self.kept.is_order_lost()
    }

    /// The second places that it had besides the one that goes without saying; None where nothing tells any more.
    pub fn more_marks(&self) -> Option<&[MarkPlace]> {
        let marks = &self.description.as_ref()?.marks;
        marks.get(1..)
    }

    fn refuse_losses(&self) -> Result<(), Error> {
        if let Some(damage) = &self.damage {
            return Err(Error::refused(format!(
                "{damage}; so not all that the log knows would come along: name a copy of it with --copy, or go on without with \
                 --anyway"
            )));
        }
        if self.kept.is_thinned() {
            return Err(Error::refused(
                "more heads stand in this log before the end of a key than a next one takes over: of the older ones the newest of each record                  before each such end come along, and single turns and other actors' records that the key sealed would be forged from now                  on; go on with that by --anyway",
            ));
        }
        match self.is_order_lost() {
            false => Ok(()),
            true => Err(Error::refused(
                "a key ended in this log, and no second place or quorum of witnesses vouches for the order in which its entries stand: all \
                 that the key sealed would be forged from now on. Name a newer copy of the log with --copy, or have that come true \
                 with --anyway",
            )),
        }
    }
}

impl LogPlaces {
    /// What is left of the log of this home, its copies in the folders `copies` among it; `witnessed` is the tree of it that a quorum
    /// of witnesses cosigned, as far as the caller knows. None when there was none, or nothing but its key is left.
    ///
    /// # Errors
    /// Kind `External` when neither the log nor its second place can be read, or a copy cannot be; `Refused` when a copy is of
    /// another log.
    pub fn past(
        &self,
        copies: &[PathBuf],
        witnessed: Option<TreeHead>,
    ) -> Result<Option<Past>, Error> {
        let id = match self.current() {
            Ok(None) => return Ok(None),
            Ok(Some(description)) => description.id,
            Err(error) => match self.lost()? {
                Some(id) => id,
                None if error.kind() == ErrorKind::Refused => return Ok(None),
                None => return Err(error),
            },
        };
        let mut description = self.described(id);
        let Marked { mut known, unread } = self.marked(id, description.as_ref().ok());
        if let (Err(_), [first, ..]) = (&description, copies) {
            let own = self.vouched(first, id, &known)?;
            known.retain(|(note, _)| own.checkpoint(note).is_some());
            description = Ok(own);
        }
        let place = self.place(id);
        let own = description.as_ref().map_err(Clone::clone);
        let own = own.and_then(|own| read_committed(&place, own));
        let description = description.ok();
        let (mut found, mut damage, mut tree) = (Vec::new(), None, None);
        match own {
            Ok(loaded) => {
                tree = Some(loaded.frontier.head());
                found.push(Found::of(loaded, place, &known));
            }
            Err(error) => damage = self.is_there(id).then_some(error),
        }
        for folder in copies {
            let own = description.as_ref().ok_or_else(|| refused(folder, id))?;
            found.push(self.copy(folder, own, &known)?);
        }
        let best = found
            .into_iter()
            .max_by_key(|found| (found.fit, found.tree.size));
        let known = Vouched { known, witnessed };
        let mut past = self.collected(id, description, known, best, damage, tree)?;
        if past.is_order_lost() {
            // What cannot be read would perhaps have vouched for it.
            past.damage = past.damage.or(unread);
        }
        Ok(Some(past))
    }

    /// Puts together what was found; `best` is what entries are taken from.
    fn collected(
        &self,
        id: LogId,
        description: Option<Description>,
        vouched: Vouched,
        best: Option<Found>,
        mut damage: Option<Error>,
        own: Option<TreeHead>,
    ) -> Result<Past, Error> {
        let (mut kept, trees) = (Kept::default(), vouched.trees());
        let (mut here, mut ends, mut fit) = (None, Ends::default(), Fit::Continues);
        if let Some(best) = best {
            kept.take(
                &best.contents,
                &best.tree,
                proved_by(&best.contents, &best.tree, &trees),
            )?;
            if kept.read < best.tree.size || best.fit == Fit::Unknown {
                damage = Some(damaged(&self.place(id).file("tile")));
            }
            ends = Ends::read(&best.folder);
            fit = best.fit;
            here = Some(best.signed);
        } else if let Some((note, tree)) = self.folded(id, description.as_ref()) {
            // The journal is damaged; what was folded before it is not.
            let contents = Contents::new(self.place(id), tree.size);
            fit = fit_of(&contents, &tree, &vouched.known);
            kept.take(&contents, &tree, proved_by(&contents, &tree, &trees))?;
            ends = Ends::read(&self.place(id));
            here = Some((note, tree));
        }
        let there = vouched.known.into_iter().max_by_key(|(_, tree)| tree.size);
        let [here, there] =
            [here, there].map(|known| known.and_then(|known| of_log_alone(known, id)));
        let Some((note, tree)) = here.clone().or_else(|| there.clone()) else {
            let text = "neither the log nor its second place can be read";
            return Err(Error::new(ErrorKind::External, text));
        };
        let other = there.filter(|(known, _)| *known != note);
        let forked = fit == Fit::Forked;
        let marked = other.as_ref().map(|(_, tree)| *tree);
        let largest = marked
            .filter(|other| forked || other.size > tree.size)
            .unwrap_or(tree);
        // Of a history that forked, or that may be any, nothing is known to be in the one that the second place knows.
        let has = if fit <= Fit::Forked { 0 } else { kept.read };
        ends.add(kept.ended());
        Ok(Past {
            id,
            description,
            restart: Restart {
                origin: checkpoint_of(&note, id)?.origin().clone(),
                checkpoint: note.to_string().into_bytes(),
                mark: other.map(|(note, _)| note.to_string().into_bytes()),
            },
            lacking: largest.size.saturating_sub(has),
            damage: damage.filter(|_| fit <= Fit::Forked || kept.read < largest.size.max(1)),
            kept,
            own,
            ends,
            tree: largest,
            forked,
        })
    }

    /// Makes another log in the place of the one that does not go on; its first entry says which that was, and behind it stand
    /// the newest heads that the old one or the home has. Answers how many came.
    ///
    /// # Errors
    /// As [`LogPlaces::create`]; kind `Refused` also when the log is there and cannot be read whole, unless `all_the_same`, and
    /// when it grew meanwhile.
    pub fn restart(
        &self,
        past: Past,
        description: &Description,
        key: &LogKey,
        stored: &[LoggedHead],
        all_the_same: bool,
    ) -> Result<usize, Error> {
        let displaced = self.displaced_by(past.id);
        if !all_the_same {
            past.refuse_losses()?;
            if let Some(other) = displaced.first() {
                return Err(Error::refused(format!(
                    "the second place knows the log {other} of this home, which never ended: bring that one back, with its name in \
                     log/current, or go on without what it knows by --anyway"
                )));
            }
        }
        let first = LogEntry::Restart(past.restart).to_bytes();
        let first =
            first.ok_or_else(|| Error::invalid("what is known of the log fits no entry"))?;
        let (came, more) = past.kept.into_entries(stored);
        let mut entries = std::iter::once(Ok(first)).chain(more);
        let replaced = self.current_id().ok().flatten();
        // Before anything ends: a new second place that cannot be asked leaves the log as it was.
        self.reach_marks(description)?;
        let marks = self.second_places(past.id, past.description.as_ref());
        // Held until the other log goes on: what is committed meanwhile would not come along.
        let _alone = marks
            .iter()
            .map(Mark::enter)
            .collect::<Result<Vec<_>, _>>()?;
        if let (Some(own), Some(ended)) = (past.own, &past.description) {
            let now = read_committed(&self.place(past.id), ended)?.frontier.head();
            if now != own {
                return Err(Error::refused("the log grew meanwhile; run this again"));
            }
        }
        // Durable before the other log goes on: the old origin never signs again in this home, nor, unless it is the log of
        // another home that goes on, in any copy.
        let lives = self.lives_elsewhere(past.id, past.description.as_ref(), &marks);
        if let Some(ended) = past.description.as_ref().filter(|_| !lives) {
            // First where it is most likely to fail: what ended in one place is over.
            Far::new(self, ended).end()?;
        }
        marks.iter().try_for_each(|mark| mark.end(!lives))?;
        let displaced = displaced
            .iter()
            .flat_map(|id| self.second_places(*id, None));
        displaced.into_iter().try_for_each(|mark| mark.end(false))?;
        let kept = || Ok(());
        self.make(description, key, &mut entries, replaced, &past.ends, &kept)?;
        Ok(came)
    }

    fn is_there(&self, id: LogId) -> bool {
        let found = self.fs.symlink_metadata(&self.place(id).root);
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// What is fixed of a log of this home. The key is that among the keys of the home, where it is there.
    fn described(&self, id: LogId) -> Result<Description, Error> {
        let place = self.place(id);
        match (Description::read(&place, id), self.own_key(id)) {
            (Ok(read), key) if key.is_none_or(|key| key == read.key) => Ok(read),
            (_, Some(key)) => Ok(Description {
                id,
                key,
                host: None,
                marks: Vec::new(),
                single_host: false,
            }),
            (read, None) => read,
        }
    }

    /// All second places in which something may be known of a log.
    fn second_places(&self, id: LogId, description: Option<&Description>) -> Vec<Mark> {
        let mut marks = match description {
            Some(description) => self.marks(description),
            None => vec![self.mark_in(&self.mark, id)],
        };
        for folder in &self.elsewhere {
            let mark = self.mark_in(folder, id);
            if mark.is_there() && marks.iter().all(|other| other.folder() != folder) {
                marks.push(mark);
            }
        }
        marks.sort_by(|one, other| one.folder().cmp(other.folder()));
        marks
    }

    /// The log that was here, of which nothing can be opened: the one that `current` names, else of those that the second places
    /// know the largest that did not end.
    pub(super) fn lost(&self) -> Result<Option<LogId>, Error> {
        if let Ok(Some(id)) = self.current_id() {
            return Ok(Some(id));
        }
        let ids = self.known_here()?;
        let newest = |id: LogId| {
            let marks = self.second_places(id, None);
            let ended = marks.iter().any(|mark| mark.has_ended().unwrap_or(false));
            let known = self.marked(id, None).known;
            let size = known.iter().map(|(_, tree)| tree.size).max();
            (!ended, size)
        };
        Ok(ids.into_iter().max_by_key(|id| newest(*id)))
    }

    /// Logs of this home of which the folders know that go without saying.
    fn known_here(&self) -> Result<Vec<LogId>, Error> {
        let in_folder = |folder| mark::of_home(&*self.fs, folder, &self.home);
        let mut ids = in_folder(&self.mark)?;
        // This home has nothing to do with a folder of another name that cannot be read.
        ids.extend(
            self.elsewhere
                .iter()
                .flat_map(|folder| in_folder(folder).unwrap_or_default()),
        );
        Ok(ids)
    }

    /// Logs of this home other than `current` that never ended, as far as those folders can be read: it was put in their place, for nobody
    /// who makes one there leaves them so.
    pub(super) fn displaced_by(&self, current: LogId) -> Vec<LogId> {
        let here = Dwelling::of(self);
        let ended = |id: &LogId| {
            let marks = self.second_places(*id, None);
            let mut ends = marks.iter().map(|mark| mark.has_ended_before(&here));
            ends.any(|ended| ended.unwrap_or(false))
        };
        let known = self.known_here().unwrap_or_default().into_iter();
        known.filter(|id| *id != current && !ended(id)).collect()
    }

    /// The checkpoints of this log in its second places. Without a description, who signed them is not known.
    fn marked(&self, id: LogId, description: Option<&Description>) -> Marked {
        let mut marked = Marked::default();
        for mark in self.second_places(id, description) {
            match description.map(|description| mark.read(description)) {
                None => marked.known.extend(mark.read_unproved()),
                Some(Ok(read)) => marked.known.extend(read),
                Some(Err(error)) => marked.unread = Some(error),
            }
        }
        let far = description.map(|description| Far::new(self, description).said(false));
        for said in far.into_iter().flatten() {
            match said {
                Ok(said) => marked.known.extend(said.known),
                Err(error) => marked.unread = Some(error),
            }
        }
        marked
    }

    /// The checkpoint that was written with the last tiles.
    fn folded(&self, id: LogId, description: Option<&Description>) -> Option<Known> {
        let place = self.place(id);
        let bytes = place.read(&place.checkpoint(), MAX_NOTE_BYTES).ok()??;
        let note = SignedNote::parse(&String::from_utf8(bytes).ok()?).ok()?;
        let tree = *description?.checkpoint(&note)?.tree();
        Some((note, tree))
    }

    /// What a copy says of a log of which nothing else is left here: believed if its key signed what a second place knows. The
    /// folders that it names are not.
    fn vouched(&self, folder: &Path, id: LogId, known: &[Known]) -> Result<Description, Error> {
        let place = self.place_at(folder);
        let said = Description::read(&place, id).map_err(|_| refused(folder, id))?;
        if !known
            .iter()
            .any(|(note, _)| said.checkpoint(note).is_some())
        {
            return Err(Error::refused(format!(
                "{}: nothing here says that the log {} had the key that this copy names: neither a second place nor the keys of \
                 this home",
                folder.display(),
                id.origin()
            )));
        }
        Ok(Description {
            marks: Vec::new(),
            ..said
        })
    }

    /// A copy of the log in another folder, which must be of this log and not contradict the second place.
    fn copy(&self, folder: &Path, own: &Description, known: &[Known]) -> Result<Found, Error> {
        let place = self.place_at(folder);
        let loaded = read_committed(&place, own)?;
        let found = Found::of(loaded, place, known);
        match found.fit {
            Fit::Forked => Err(refused(folder, own.id)),
            Fit::Unknown => Err(damaged(&found.folder.file("tile"))),
            Fit::Shorter | Fit::Continues => Ok(found),
        }
    }

    fn place_at(&self, folder: &Path) -> Place {
        Place {
            fs: Arc::clone(&self.fs),
            root: folder.to_owned(),
        }
    }
}

impl Found {
    fn of(loaded: Loaded, folder: Place, known: &[Known]) -> Self {
        let mut found = Self {
            fit: fit_of(&loaded.contents, &loaded.frontier.head(), known),
            tree: loaded.frontier.head(),
            contents: loaded.contents,
            signed: (loaded.signed, loaded.signed_tree),
            folder,
        };
        if found.fit == Fit::Forked && loaded.unsigned {
            // A batch that was never signed may be no part of what the log signed since.
            found.tree = loaded.signed_tree;
            found.contents.truncate(found.tree.size);
            found.fit = fit_of(&found.contents, &found.tree, known);
        }
        found
    }
}

fn fit_of(contents: &Contents, tree: &TreeHead, known: &[Known]) -> Fit {
    let one = |(_, known): &Known| match contents.continues(known, tree) {
        Ok(true) => Fit::Continues,
        Ok(false) if known.size <= tree.size => Fit::Forked,
        Ok(false) => Fit::Shorter,
        Err(_) => Fit::Unknown,
    };
    known.iter().map(one).min().unwrap_or(Fit::Continues)
}

/// How many of these entries one of these trees vouches for.
fn proved_by(contents: &Contents, tree: &TreeHead, trees: &[TreeHead]) -> u64 {
    let proved = trees
        .iter()
        .filter(|known| contents.continues(known, tree).unwrap_or(false));
    proved.map(|tree| tree.size).max().unwrap_or(0)
}

fn refused(folder: &Path, id: LogId) -> Error {
    let shown = folder.display();
    Error::refused(format!("{shown} is no copy of the log {}", id.origin()))
}

/// A note with the line of the log alone: those of witnesses are of any number and length, and an entry is not.
fn of_log_alone((note, tree): Known, id: LogId) -> Option<Known> {
    checkpoint_of(&note, id).ok()?;
    let lines = note.signatures().iter();
    let mut lines = lines.filter(|line| line.signature().len() == SIGNATURE_BYTES);
    let line = lines.find(|line| line.name().as_str() == id.origin())?;
    let text = format!("{}\n{line}", note.text().as_str());
    Some((SignedNote::parse(&text).ok()?, tree))
}

/// The checkpoint of a note, where it is one of this log.
pub(super) fn checkpoint_of(note: &SignedNote, id: LogId) -> Result<Checkpoint, Error> {
    let checkpoint = Checkpoint::parse(note.text());
    let checkpoint = checkpoint.map_err(|error| Error::invalid(error.to_string()))?;
    let ours = checkpoint.origin().as_str() == id.origin() && checkpoint.extensions().is_empty();
    match ours {
        true => Ok(checkpoint),
        false => Err(Error::invalid("the checkpoint is of another log")),
    }
}
