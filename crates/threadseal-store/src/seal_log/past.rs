//! [`Past`]: what is left of a log that does not go on, and another log in its place.
//!
//! ```text
//! old log, copies of it ─► entries that are proved ─┐
//! its checkpoint, the second place ─► entry 0       ├─► the end of the old one ─► the new log, whole ─► log/current
//! heads that the home has ──────────────────────────┘
//! ```
//! The newest head of each record comes along, so that no record is worse protected than before. Of two that the log and the home
//! know, the later one; of one number, the log's. Entries that are no heads come along, too, and before each of them the newest heads that
//! stood there: what a key sealed before it ended stands before its end in the new log as in the old one.

use super::contents::Contents;
use super::description::{Description, LogId};
use super::far::Far;
use super::mark::{self, Mark};
use super::place::{Place, damaged};
use super::places::entries_of;
use super::view::read_committed;
use super::writer::Loaded;
use super::{LogKey, LogPlaces};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal::error::{Error, ErrorKind};
use threadseal::limits::MAX_NOTE_BYTES;
use threadseal::merkle::{Frontier, TreeHead, leaf_hash};
use threadseal::note::SignedNote;
use threadseal::record::{Head, RecordId};
use threadseal::tlog::checkpoint::Checkpoint;
use threadseal::tlog::entry::key_event::{KeyEvent, KeyHistory};
use threadseal::tlog::entry::{LogEntry, LoggedHead, Restart};

/// Bytes of the signature of a log: Ed25519.
const SIGNATURE_BYTES: usize = 64;

/// What is left of a log that does not go on.
#[derive(Debug)]
pub struct Past {
    id: LogId,
    description: Option<Description>,
    restart: Restart,
    kept: Kept,
    /// The largest tree of it that is known.
    pub tree: TreeHead,
    /// Entries of that tree that are not there any more: what only they said is lost.
    pub lacking: u64,
    /// Why the log, which is there, cannot be read whole.
    damage: Option<Error>,
}

/// A signed checkpoint, and its tree.
type Known = (SignedNote, TreeHead);

/// What comes along into the next log.
#[derive(Debug, Default)]
struct Kept {
    /// The newest of each record.
    heads: BTreeMap<RecordId, LoggedHead>,
    /// Entries that are no heads, each behind the heads that changed since the one before.
    ordered: Vec<Vec<u8>>,
    /// The number of the last seal of each record in `ordered`.
    written: BTreeMap<RecordId, u64>,
    /// What keys said, with the numbers of the entries.
    key_events: Vec<(u64, KeyEvent)>,
    /// Entries that were read.
    read: u64,
}

impl Past {
    /// Where keys ended in the log, as far as it can be read.
    pub fn key_history(&self) -> KeyHistory {
        KeyHistory::of(&self.kept.key_events)
    }
}

impl LogPlaces {
    /// What is left of the log of this home, its copies in the folders `copies` among it. None when there was none.
    ///
    /// # Errors
    /// Kind `External` when neither the log nor its second place can be read, or a copy cannot be; `Refused` when a copy is of
    /// another log.
    pub fn past(&self, copies: &[PathBuf]) -> Result<Option<Past>, Error> {
        let (id, description) = match self.current() {
            Ok(None) => return Ok(None),
            Ok(Some(description)) => (description.id, Ok(description)),
            Err(error) => {
                let id = self.lost()?.ok_or(error)?;
                (id, Description::read(&self.place(id), id))
            }
        };
        let own = description.as_ref().map_err(Clone::clone);
        let own = own.and_then(|description| read_committed(&self.place(id), description));
        let description = description.ok();
        let there = self.marked(id, description.as_ref());
        let (mut found, mut damage) = (Vec::new(), None);
        match own {
            Ok(own) => found.push(own),
            Err(error) => damage = self.is_there(id).then_some(error),
        }
        for folder in copies {
            found.push(self.copy(folder, id, description.as_ref(), there.as_ref())?);
        }
        let here = found.into_iter().max_by_key(|found| found.frontier.size());
        let mut kept = Kept::default();
        if let Some(found) = &here {
            kept.take(&found.contents, &found.frontier.head())?;
            if kept.read < found.frontier.size() {
                damage = Some(damaged(&self.place(id).file("tile")));
            }
        }
        let mut here = here.map(|found| (found.signed, found.signed_tree));
        if here.is_none()
            && let Some((note, tree)) = self.folded(id, description.as_ref())
        {
            // The journal is damaged; what was folded before it is not.
            kept.take(&Contents::new(self.place(id), tree.size), &tree)?;
            here = Some((note, tree));
        }
        let [here, there] =
            [here, there].map(|known| known.and_then(|known| of_log_alone(known, id)));
        let Some((note, tree)) = here.clone().or_else(|| there.clone()) else {
            let text = "neither the log nor its second place can be read";
            return Err(Error::new(ErrorKind::External, text));
        };
        let other = there.filter(|(known, _)| *known != note);
        let largest = other.as_ref().map(|(_, tree)| *tree);
        let largest = largest
            .filter(|other| other.size > tree.size)
            .unwrap_or(tree);
        Ok(Some(Past {
            id,
            description,
            restart: Restart {
                origin: checkpoint_of(&note, id)?.origin().clone(),
                checkpoint: note.to_string().into_bytes(),
                mark: other.map(|(note, _)| note.to_string().into_bytes()),
            },
            lacking: largest.size.saturating_sub(kept.read),
            damage: damage.filter(|_| kept.read < largest.size.max(1)),
            kept,
            tree: largest,
        }))
    }

    /// Makes another log in the place of the one that does not go on; its first entry says which that was, and behind it stand
    /// the newest heads that the old one or the home has. Answers how many came.
    ///
    /// # Errors
    /// As [`LogPlaces::create`]; kind `Refused` also when the log is there and cannot be read whole, unless `all_the_same`.
    pub fn restart(
        &self,
        past: Past,
        description: &Description,
        key: &LogKey,
        stored: &[LoggedHead],
        all_the_same: bool,
    ) -> Result<usize, Error> {
        let Past { kept, restart, .. } = past;
        if let Some(damage) = past.damage.filter(|_| !all_the_same) {
            return Err(Error::refused(format!(
                "{damage}; so not all that the log knows would come along: name a copy of it with --copy, or go on without with \
                 --anyway"
            )));
        }
        let first = LogEntry::Restart(restart).to_bytes();
        let first =
            first.ok_or_else(|| Error::invalid("what is known of the log fits no entry"))?;
        let (mut heads, written) = (kept.heads, kept.written);
        for head in stored {
            let known = heads.entry(head.head.record).or_insert(*head);
            if known.head.seq < head.head.seq {
                *known = *head;
            }
        }
        let came = heads.len();
        let is_new = |head: &LoggedHead| written.get(&head.head.record) != Some(&head.head.seq);
        let heads: Vec<LoggedHead> = heads.into_values().filter(is_new).collect();
        let mut entries = vec![first];
        entries.extend(kept.ordered);
        entries.extend(entries_of(&heads)?);
        let replaced = self.current_id().ok().flatten();
        // Durable before the other log goes on: the old origin never signs again, also in a copy.
        let marks = match &past.description {
            Some(ended) => self.marks(ended),
            None => vec![self.default_mark(past.id)],
        };
        {
            let _alone = marks
                .iter()
                .map(Mark::enter)
                .collect::<Result<Vec<_>, _>>()?;
            // First where it is most likely to fail: what ended in one place is over.
            if let Some(ended) = &past.description {
                Far::new(self, ended).end()?;
            }
            marks.iter().try_for_each(Mark::end)?;
        }
        self.make(description, key, &entries, replaced)?;
        Ok(came)
    }

    fn is_there(&self, id: LogId) -> bool {
        let found = self.fs.symlink_metadata(&self.place(id).root);
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    fn default_mark(&self, id: LogId) -> Mark {
        self.mark_in(&self.mark, id)
    }

    /// The log that was here, of which nothing can be opened: the one that `current` names, else of those that the second place
    /// knows the largest that did not end.
    pub(super) fn lost(&self) -> Result<Option<LogId>, Error> {
        if let Ok(Some(id)) = self.current_id() {
            return Ok(Some(id));
        }
        let ids = mark::of_home(&*self.fs, &self.mark, &self.home)?;
        let size = |id: LogId| self.marked(id, None).map_or(0, |(_, tree)| tree.size);
        Ok(ids.into_iter().max_by_key(|id| {
            let ended = self.default_mark(*id).has_ended().unwrap_or(false);
            (!ended, size(*id))
        }))
    }

    /// The largest checkpoint of this log in its second places. One that cannot be read tells nothing, and must not stand in
    /// the way out.
    fn marked(&self, id: LogId, description: Option<&Description>) -> Option<Known> {
        let known: Vec<Known> = match description {
            Some(description) => {
                let marks = self.marks(description);
                let read = marks.iter().filter_map(|mark| mark.read(description).ok());
                let far = Far::new(self, description).said(false).into_iter();
                let far = far.filter_map(|said| said.ok()?.known);
                read.flatten().chain(far).collect()
            }
            // Who signed it is not known here: the key went with the log.
            None => self.default_mark(id).read_unproved(),
        };
        known.into_iter().max_by_key(|(_, tree)| tree.size)
    }

    /// The checkpoint that was written with the last tiles.
    fn folded(&self, id: LogId, description: Option<&Description>) -> Option<Known> {
        let place = self.place(id);
        let bytes = place.read(&place.checkpoint(), MAX_NOTE_BYTES).ok()??;
        let note = SignedNote::parse(&String::from_utf8(bytes).ok()?).ok()?;
        let tree = *description?.checkpoint(&note)?.tree();
        Some((note, tree))
    }

    /// A copy of the log in another folder, which must be of this log and not contradict the second place.
    fn copy(
        &self,
        folder: &std::path::Path,
        id: LogId,
        description: Option<&Description>,
        there: Option<&Known>,
    ) -> Result<Loaded, Error> {
        let place = Place {
            fs: Arc::clone(&self.fs),
            root: folder.to_owned(),
        };
        let refused = || {
            let shown = folder.display();
            Error::refused(format!("{shown} is no copy of the log {}", id.origin()))
        };
        let own = match description {
            Some(description) => description.clone(),
            None => Description::read(&place, id).map_err(|_| refused())?,
        };
        let found = read_committed(&place, &own)?;
        let contradicts = match there {
            Some((_, tree)) if tree.size <= found.frontier.size() => {
                !found.contents.begins_with(tree)?
            }
            _ => false,
        };
        match contradicts {
            true => Err(refused()),
            false => Ok(found),
        }
    }
}

impl Kept {
    /// Takes what entries of this tree say; where files are damaged, what can be proved all the same.
    fn take(&mut self, contents: &Contents, tree: &TreeHead) -> Result<(), Error> {
        let (mut all, mut frontier) = (Self::default(), Frontier::new());
        let whole = contents.each(tree.size, &mut |number, entry| {
            frontier.push_leaf(leaf_hash(entry));
            all.add(number, entry)
        });
        if whole.is_ok() && frontier.head() == *tree {
            *self = all;
            return Ok(());
        }
        for number in 0..tree.size {
            let Ok(entry) = contents.entry(number) else {
                continue;
            };
            let proof = contents.inclusion(number, tree.size);
            if proof.is_ok_and(|proof| proof.check(&leaf_hash(&entry), number, tree).is_ok()) {
                self.add(number, &entry)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, number: u64, entry: &[u8]) -> Result<(), Error> {
        self.read += 1;
        match LogEntry::read(entry) {
            Ok(LogEntry::Head(logged)) => {
                let known = self.heads.entry(logged.head.record).or_insert(logged);
                if known.head.seq < logged.head.seq {
                    *known = logged;
                }
            }
            // What the log before this one was, its own entry 0 said.
            Ok(LogEntry::Restart(_)) | Err(_) => {}
            Ok(other) => {
                let new: Vec<LoggedHead> = self.heads.values().copied().collect();
                for head in new {
                    let Head { record, seq, .. } = head.head;
                    if self.written.insert(record, seq) != Some(seq) {
                        self.ordered.extend(entries_of(&[head])?);
                    }
                }
                self.ordered.push(entry.to_vec());
                if let LogEntry::Key(event) = other {
                    self.key_events.push((number, *event));
                }
            }
        }
        Ok(())
    }
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
