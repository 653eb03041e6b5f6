//! [`OldLog`]: the remains of a log that does not continue, and another log in its place.
//!
//! ```text
//! old log, copies of it ─► the one that continues the marks ─► entries that are proved ─┐
//! its checkpoint, the second place ─► entry 0                                           ├─► the end of the old one ─► the new log,
//! heads that the home has ──────────────────────────────────────────────────────────────┘    whole ─► log/current
//! ```
//! The newest head of each record is carried over, so that no record is protected less than before. Of two heads that the log
//! and the home know, the later one counts; of one number, the log's. `carry_over` decides which of the other entries are
//! carried over, and in which order. `home_clones` decides which of several copies of a home owns the log.

use crate::commit::log_access::last_list;
use crate::index::non_head_index::SharedNonHeadIndex;
use crate::layout::description::{Description, LogId};
use crate::layout::log_dir::{LogDir, damaged};
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
use crate::marks::folder_mark::FolderMark;
use crate::marks::known_logs::{self, Known, Marked};
use crate::marks::place_list::{self, Forgotten};
use crate::marks::remote_marks::RemoteMarks;
use crate::marks::{home_clones, mark_set};
use crate::recovery::carry_over::CarryOver;
use crate::recovery::creation::{self, NewLog};
use crate::recovery::key_ends::KeyEnds;
use crate::tree::contents::Contents;
use crate::tree::view::read_committed;
use crate::tree::writer::{Loaded, LogKey};
use std::path::{Path, PathBuf};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead, Restart};

/// Bytes of the signature of a log: Ed25519.
const SIGNATURE_BYTES: usize = 64;

/// The remains of a log that does not continue.
#[derive(Debug)]
pub struct OldLog {
    id: LogId,
    description: Option<Description>,
    restart: Restart,
    carried: CarryOver,
    /// The tree of the log itself when it was read.
    own: Option<TreeHead>,
    ends: KeyEnds,
    /// The largest tree of it that is known.
    pub tree: TreeHead,
    /// Entries of that tree that are not known to be there any more: they are lost.
    pub lacking: u64,
    /// Does all that could be read contradict the second place?
    pub forked: bool,
    /// Why the log, which is there, cannot be read whole.
    damage: Option<Error>,
    /// Second places that it lists and whose addresses are not known.
    nameless: Option<Forgotten>,
}

/// Trees of the log that something outside of the home vouches for.
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

/// The relation of a log to what its second places know; the later the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is damaged such that it may be any history.
    Unknown,
    /// It is another history.
    Forked,
    /// It ends before; nothing shows whether their checkpoint continues it.
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
    dir: LogDir,
}

impl OldLog {
    /// Collects the remains of the log of `home`, with its copies in the folders `copies`; `witnessed` is the tree of it that a
    /// quorum of witnesses cosigned, as far as the caller knows. None when there was none, or only its key remains.
    ///
    /// # Errors
    /// As [`crate::LogRegistry::past`].
    pub(crate) fn find(
        home: &LogHome,
        copies: &[PathBuf],
        witnessed: Option<TreeHead>,
    ) -> Result<Option<Self>, Error> {
        let id = match creation::current(home) {
            Ok(None) => return Ok(None),
            Ok(Some(description)) => description.id,
            Err(error) => match known_logs::lost(home)? {
                Some(id) => id,
                None if error.kind() == ErrorKind::Refused => return Ok(None),
                None => return Err(error),
            },
        };
        let mut description = home.description(id);
        let nameless = description.as_mut().ok().and_then(|own| recall(home, own));
        let Marked { mut known, unread } =
            known_logs::checkpoints(home, id, description.as_ref().ok());
        if let (Err(_), [first, ..]) = (&description, copies) {
            let own = described_by_copy(home, first, id, &known)?;
            known.retain(|(note, _)| own.checkpoint(note).is_some());
            description = Ok(own);
        }
        let dir = home.dir(id);
        let own = description.as_ref().map_err(Clone::clone);
        let own = own.and_then(|own| read_committed(&dir, own));
        let description = description.ok();
        let (mut found, mut damage, mut tree) = (Vec::new(), None, None);
        match own {
            Ok(loaded) => {
                tree = Some(loaded.frontier.head());
                found.push(Found::of(loaded, dir, &known));
            }
            Err(error) => damage = home.has_dir(id).then_some(error),
        }
        for folder in copies {
            let own = description.as_ref().ok_or_else(|| no_copy(folder, id))?;
            found.push(Found::in_copy(home.dir_at(folder), own, &known)?);
        }
        let best = found
            .into_iter()
            .max_by_key(|found| (found.fit, found.tree.size));
        let known = Vouched { known, witnessed };
        let mut old = Self::collect(home, id, description, known, best, damage, tree)?;
        old.nameless = nameless;
        if old.is_order_lost() {
            // The place that cannot be read might have vouched for the order.
            old.damage = old.damage.or(unread);
        }
        Ok(Some(old))
    }

    /// Puts together what was found; entries are taken from `best`.
    fn collect(
        home: &LogHome,
        id: LogId,
        description: Option<Description>,
        vouched: Vouched,
        best: Option<Found>,
        mut damage: Option<Error>,
        own: Option<TreeHead>,
    ) -> Result<Self, Error> {
        let (mut carried, trees) = (CarryOver::default(), vouched.trees());
        let (mut here, mut ends, mut fit) = (None, KeyEnds::default(), Fit::Continues);
        if let Some(best) = best {
            carried.take(
                &best.contents,
                &best.tree,
                proved_by(&best.contents, &best.tree, &trees),
            )?;
            if carried.read < best.tree.size || best.fit == Fit::Unknown {
                damage = Some(damaged(&home.dir(id).file("tile")));
            }
            ends = KeyEnds::read(&best.dir);
            fit = best.fit;
            here = Some(best.signed);
        } else if let Some((note, tree)) = folded(&home.dir(id), description.as_ref()) {
            // The journal is damaged; the tiles that were written before it are not.
            let contents = Contents::new(home.dir(id), tree.size);
            fit = fit_of(&contents, &tree, &vouched.known);
            carried.take(&contents, &tree, proved_by(&contents, &tree, &trees))?;
            ends = KeyEnds::read(&home.dir(id));
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
        // No entry of a history that forked, or that may be any, is known to be in the one that the second place knows.
        let has = if fit <= Fit::Forked { 0 } else { carried.read };
        ends.add(carried.ended());
        Ok(Self {
            id,
            description,
            restart: Restart {
                origin: id.unproved_checkpoint(&note)?.origin().clone(),
                checkpoint: note.to_string().into_bytes(),
                mark: other.map(|(note, _)| note.to_string().into_bytes()),
            },
            lacking: largest.size.saturating_sub(has),
            damage: damage.filter(|_| fit <= Fit::Forked || carried.read < largest.size.max(1)),
            carried,
            own,
            ends,
            tree: largest,
            forked,
            nameless: None,
        })
    }

    /// Does anything that a key sealed before it ended stand in an order that nothing proves?
    pub fn is_order_lost(&self) -> bool {
        self.carried.is_order_lost()
    }

    /// The second places that it had besides the default one; None if no file names them any more.
    pub fn more_marks(&self) -> Option<&[MarkLocation]> {
        let marks = &self.description.as_ref()?.marks;
        marks.get(1..)
    }

    /// Makes another log in its place, whose first entry names this one; the newest heads that this log or the home has
    /// follow. Answers the number of records that were carried over.
    ///
    /// # Errors
    /// As [`crate::LogRegistry::restart`].
    pub(crate) fn replace(
        self,
        home: &LogHome,
        description: &Description,
        key: &LogKey,
        stored: &[LoggedHead],
        all_the_same: bool,
    ) -> Result<usize, Error> {
        let displaced = known_logs::displaced_by(home, self.id);
        if !all_the_same {
            self.refuse_losses()?;
            if let Some(other) = displaced.first() {
                return Err(Error::refused(format!(
                    "the second place knows the log {other} of this home, which never ended: restore that log, with its name in \
                     log/current, or continue without its entries with --anyway"
                )));
            }
        }
        let first = LogEntry::Restart(self.restart).to_bytes();
        let first = first.ok_or_else(|| {
            Error::invalid("the known state of the log does not fit into an entry")
        })?;
        let (came, more) = self.carried.into_entries(stored);
        let mut entries = std::iter::once(Ok(first)).chain(more);
        let replaces = home.current_id().ok().flatten();
        // Before anything ends: a new second place that does not answer leaves the log as it was.
        mark_set::check_reachable(home, description)?;
        let marks = known_logs::folders(home, self.id, self.description.as_ref());
        // Held until the new log is current: an entry that is committed meanwhile would be lost.
        let _alone = marks
            .iter()
            .map(FolderMark::enter)
            .collect::<Result<Vec<_>, _>>()?;
        if let (Some(own), Some(ended)) = (self.own, &self.description) {
            let now = read_committed(&home.dir(self.id), ended)?.frontier.head();
            if now != own {
                return Err(Error::refused("the log grew meanwhile; run this again"));
            }
        }
        // Durable before the new log is current: the old origin never signs again in this home, nor in any copy, unless the
        // log belongs to another home that continues it.
        let lives = home_clones::lives_elsewhere(home, self.id, self.description.as_ref(), &marks);
        if let Some(ended) = self.description.as_ref().filter(|_| !lives) {
            // First where it is most likely to fail: an end in one place ends the log.
            RemoteMarks::new(home, ended).end()?;
        }
        marks.iter().try_for_each(|mark| mark.end(!lives))?;
        let displaced = displaced.iter();
        let displaced = displaced.flat_map(|id| known_logs::folders(home, *id, None));
        displaced.into_iter().try_for_each(|mark| mark.end(false))?;
        let new = NewLog {
            description,
            key,
            entries: &mut entries,
            replaces,
            ends: &self.ends,
            keep_key: &|| Ok(()),
        };
        creation::make(home, new)?;
        Ok(came)
    }

    fn refuse_losses(&self) -> Result<(), Error> {
        if let Some(forgotten) = &self.nameless {
            return Err(Error::refused(format!(
                "place_forgotten: {forgotten}: what they know cannot be asked. Name them with threadseal log mark add, or continue without \
                 them with --anyway"
            )));
        }
        if let Some(damage) = &self.damage {
            return Err(Error::refused(format!(
                "{damage}; a part of the log would be lost: name a copy of the log with --copy, or continue without that part with \
                 --anyway"
            )));
        }
        if self.carried.is_thinned() {
            return Err(Error::refused(
                "this log has more heads before the end of a key than the next log takes over. Of the older heads it takes the newest of each \
                 record before each such end. Single turns and other actors' records that the key sealed would be forged from \
                 now on; accept that with --anyway",
            ));
        }
        match self.is_order_lost() {
            false => Ok(()),
            true => Err(Error::refused(
                "a key ended in this log, and no second place or quorum of witnesses confirms the order of its entries: all \
                 that the key sealed would be forged from now on. Name a newer copy of the log with --copy, or accept that \
                 with --anyway",
            )),
        }
    }
}

/// Adds the places that the log lists and `log.json` does not name any more, as far as their addresses are known; answers which there are if
/// some are not.
fn recall(home: &LogHome, own: &mut Description) -> Option<Forgotten> {
    // A log that cannot be read lists nothing, and is reported as damaged.
    let loaded = read_committed(&home.dir(own.id), own).ok()?;
    let (index, tree) = (SharedNonHeadIndex::default(), loaded.frontier.head());
    let listed = last_list(&index, own.id, &loaded.contents, tree).ok()?;
    let forgotten = place_list::forgotten(home, own, listed).ok()??;
    own.marks.extend(forgotten.places.iter().cloned());
    (forgotten.nameless > 0).then_some(forgotten)
}

impl Found {
    fn of(loaded: Loaded, dir: LogDir, known: &[Known]) -> Self {
        let mut found = Self {
            fit: fit_of(&loaded.contents, &loaded.frontier.head(), known),
            tree: loaded.frontier.head(),
            contents: loaded.contents,
            signed: (loaded.signed, loaded.signed_tree),
            dir,
        };
        if found.fit == Fit::Forked && loaded.unsigned {
            // A batch that was never signed may be no part of what the log signed since.
            found.tree = loaded.signed_tree;
            found.contents.truncate(found.tree.size);
            found.fit = fit_of(&found.contents, &found.tree, known);
        }
        found
    }

    /// A copy of the log in another folder, which must be of this log and not contradict the second place.
    fn in_copy(dir: LogDir, own: &Description, known: &[Known]) -> Result<Self, Error> {
        let loaded = read_committed(&dir, own)?;
        let found = Self::of(loaded, dir, known);
        match found.fit {
            Fit::Forked => Err(no_copy(&found.dir.root, own.id)),
            Fit::Unknown => Err(damaged(&found.dir.file("tile"))),
            Fit::Shorter | Fit::Continues => Ok(found),
        }
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

/// The checkpoint that was written with the last tiles.
fn folded(dir: &LogDir, description: Option<&Description>) -> Option<Known> {
    let bytes = dir.read(&dir.checkpoint(), MAX_NOTE_BYTES).ok()??;
    let note = SignedNote::parse(&String::from_utf8(bytes).ok()?).ok()?;
    let tree = *description?.checkpoint(&note)?.tree();
    Some((note, tree))
}

/// The description in a copy of a log of which nothing else remains here. It counts if its key signed a checkpoint that a
/// second place knows. The folders that it names do not count.
fn described_by_copy(
    home: &LogHome,
    folder: &Path,
    id: LogId,
    known: &[Known],
) -> Result<Description, Error> {
    let found = Description::read(&home.dir_at(folder), id).map_err(|_| no_copy(folder, id))?;
    let mut notes = known.iter();
    if !notes.any(|(note, _)| found.checkpoint(note).is_some()) {
        return Err(Error::refused(format!(
            "{}: nothing here shows that the log {} had the key that this copy names: neither a second place nor the keys of \
             this home",
            folder.display(),
            id.origin()
        )));
    }
    Ok(Description {
        marks: Vec::new(),
        ..found
    })
}

fn no_copy(folder: &Path, id: LogId) -> Error {
    let shown = folder.display();
    Error::refused(format!("{shown} is not a copy of the log {}", id.origin()))
}

/// A note with the line of the log alone: those of witnesses are of any number and length, and an entry is not.
fn of_log_alone((note, tree): Known, id: LogId) -> Option<Known> {
    id.unproved_checkpoint(&note).ok()?;
    let lines = note.signatures().iter();
    let mut lines = lines.filter(|line| line.signature().len() == SIGNATURE_BYTES);
    let line = lines.find(|line| line.name().as_str() == id.origin())?;
    let text = format!("{}\n{line}", note.text().as_str());
    Some((SignedNote::parse(&text).ok()?, tree))
}
