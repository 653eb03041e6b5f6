//! The ways out for a log that commits nothing: what a copy of it knows beyond it, or another log in its place.

use super::view::LogView;
use super::writer::Writer;
use super::{Description, Fault, LogKey, LogPlaces, Place, SealLog, mark};
use std::path::Path;
use std::sync::Arc;
use threadseal::error::{Error, ErrorKind};
use threadseal::limits::MAX_NOTE_BYTES;
use threadseal::merkle::TreeHead;
use threadseal::note::SignedNote;
use threadseal::tlog::entry::{LogEntry, Restart};

impl SealLog {
    /// Takes over what a copy of this log, in `folder`, has beyond it: `<folder>/journal`, `<folder>/tile`, ….
    /// Answers the number of entries that came.
    ///
    /// # Errors
    /// Kind `Refused` when the copy is no copy of this log, does not continue it, or ends before the mark; `External` when
    /// one of both cannot be read or written.
    pub fn catch_up(&self, folder: &Path) -> Result<u64, Error> {
        let shared = &self.shared;
        if shared.description.host != shared.places.host && shared.description.host.is_some() {
            return Err(Fault::OtherHost.into_error());
        }
        let copy = Place {
            fs: Arc::clone(&shared.places.fs),
            root: folder.to_owned(),
        };
        let copy = LogView::read(&copy, &shared.description)?;
        let key = shared.key()?;
        let mut writer = Writer::open(&shared.place, &shared.description, key)?;
        if !copy.contents().begins_with(&writer.tree())? {
            return Err(Error::refused("this copy does not continue the log"));
        }
        for mark in shared.places.marks(&shared.description) {
            for (_, known) in mark.read(&shared.description)? {
                if !copy.contents().begins_with(&known)? {
                    let size = known.size;
                    return Err(Error::refused(format!(
                        "this copy does not continue the checkpoint of {size} entries in the second place"
                    )));
                }
            }
        }
        let first = writer.tree().size;
        let entries = (first..copy.tree().size).map(|number| copy.entry(number));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        writer.commit(&entries)?;
        writer.fold()?;
        shared.mark(&writer)?;
        Ok(entries.len() as u64)
    }
}

/// What is left of a log that does not go on.
#[derive(Debug)]
pub struct Past {
    restart: Restart,
    /// The largest tree of it that is known.
    pub tree: TreeHead,
}

impl LogPlaces {
    /// What is left of the log of this home: its last checkpoint, and that of the second place. None when there was none.
    ///
    /// # Errors
    /// Kind `External` when something cannot be read.
    pub fn past(&self) -> Result<Option<Past>, Error> {
        let (description, here) = match self.current() {
            Ok(None) => return Ok(None),
            Ok(Some(description)) => {
                let place = self.place(description.id);
                let here = LogView::read(&place, &description).ok();
                let here = here.map(|view| (view.checkpoint().clone(), view.tree()));
                (Some(description), here)
            }
            Err(_) => (None, None),
        };
        let there = match &description {
            Some(description) => {
                let marks = self.marks(description);
                // One that cannot be read tells nothing, and must not stand in the way out.
                let known = marks.iter().filter_map(|mark| mark.read(description).ok());
                known
                    .into_iter()
                    .flatten()
                    .max_by_key(|(_, tree)| tree.size)
            }
            None => mark::last_of_home(&*self.fs, &self.mark, &self.home)?,
        };
        let Some((note, tree)) = here.clone().or_else(|| there.clone()) else {
            let text = "neither the log nor its second place can be read";
            return Err(Error::new(ErrorKind::External, text));
        };
        let other = there.filter(|(known, _)| *known != note);
        let largest = other
            .as_ref()
            .map_or(tree, |(_, known)| match known.size > tree.size {
                true => *known,
                false => tree,
            });
        Ok(Some(Past {
            restart: Restart {
                origin: origin(&note)?,
                checkpoint: note.to_string().into_bytes(),
                mark: other.map(|(note, _)| note.to_string().into_bytes()),
            },
            tree: largest,
        }))
    }

    /// Makes another log in the place of the one that does not go on; its first entry says which that was.
    ///
    /// # Errors
    /// As [`LogPlaces::create`].
    pub fn restart(
        &self,
        past: Past,
        description: &Description,
        key: &LogKey,
    ) -> Result<(), Error> {
        // Durable before the other log goes on: the old origin never signs again, also in a copy.
        if let Ok(Some(ended)) = self.current() {
            let marks = self.marks(&ended);
            let _alone = marks
                .iter()
                .map(mark::Mark::enter)
                .collect::<Result<Vec<_>, _>>()?;
            marks.iter().try_for_each(mark::Mark::end)?;
        }
        let entry = LogEntry::Restart(past.restart).to_bytes();
        let entry = entry.ok_or_else(|| {
            Error::new(
                ErrorKind::Limit,
                "the last checkpoint of the log is too long for an entry",
            )
        })?;
        let replaced = self.current_id().ok().flatten();
        self.make(description, key, &[entry], replaced)
    }
}

fn origin(note: &SignedNote) -> Result<threadseal::tlog::checkpoint::Origin, Error> {
    let checkpoint = threadseal::tlog::checkpoint::Checkpoint::parse(note.text());
    let checkpoint = checkpoint.map_err(|error| Error::invalid(error.to_string()))?;
    Ok(checkpoint.origin().clone())
}

/// A note that somebody left; nothing is known of who signed it.
pub(super) fn read_note(bytes: Vec<u8>) -> Option<(SignedNote, TreeHead)> {
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| text.len() <= MAX_NOTE_BYTES)?;
    let note = SignedNote::parse(&text).ok()?;
    let checkpoint = threadseal::tlog::checkpoint::Checkpoint::parse(note.text()).ok()?;
    Some((note, *checkpoint.tree()))
}
