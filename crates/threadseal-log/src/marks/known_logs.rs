//! The logs of a home that its second places know, and which of them is missing from the home.

use crate::layout::description::{Description, LogId};
use crate::layout::home_identity::HomeIdentity;
use crate::layout::log_home::LogHome;
use crate::marks::folder_mark::{self, FolderMark};
use crate::marks::remote_marks::RemoteMarks;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;

/// A signed checkpoint, and its tree.
pub(crate) type Known = (SignedNote, TreeHead);

/// What the second places know of one log. One that cannot be read knows nothing, and must not block the way out alone.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    pub(crate) known: Vec<Known>,
    pub(crate) unread: Option<Error>,
}

/// All folders in which a mark of a log may be.
pub(crate) fn folders(
    home: &LogHome,
    id: LogId,
    description: Option<&Description>,
) -> Vec<FolderMark> {
    let mut marks = match description {
        Some(description) => FolderMark::all(home, description),
        None => vec![FolderMark::new(home, &home.mark, id)],
    };
    for folder in &home.elsewhere {
        let mark = FolderMark::new(home, folder, id);
        if mark.is_there() && marks.iter().all(|other| other.folder() != folder) {
            marks.push(mark);
        }
    }
    marks.sort_by(|one, other| one.folder().cmp(other.folder()));
    marks
}

/// The checkpoints of a log in its second places. Without a description, who signed them is not known.
pub(crate) fn checkpoints(home: &LogHome, id: LogId, description: Option<&Description>) -> Marked {
    let mut marked = Marked::default();
    for mark in folders(home, id, description) {
        match description.map(|description| mark.read(description)) {
            None => marked.known.extend(mark.read_unproved()),
            Some(Ok(read)) => marked.known.extend(read),
            Some(Err(error)) => marked.unread = Some(error),
        }
    }
    let remote = description.map(|description| RemoteMarks::new(home, description).states(false));
    for state in remote.into_iter().flatten() {
        match state {
            Ok(state) => marked.known.extend(state.known),
            Err(error) => marked.unread = Some(error),
        }
    }
    marked
}

/// The log that was here and cannot be opened: the one that `current` names, else the largest that the second places know
/// and that did not end.
pub(crate) fn lost(home: &LogHome) -> Result<Option<LogId>, Error> {
    if let Ok(Some(id)) = home.current_id() {
        return Ok(Some(id));
    }
    let rank = |id: LogId| {
        let marks = folders(home, id, None);
        let ended = marks.iter().any(|mark| mark.has_ended().unwrap_or(false));
        let known = checkpoints(home, id, None).known;
        let size = known.iter().map(|(_, tree)| tree.size).max();
        (!ended, size)
    };
    Ok(in_default_folders(home)?
        .into_iter()
        .max_by_key(|id| rank(*id)))
}

/// Logs of this home other than `current` that never ended, as far as the default folders can be read. `current` was put in
/// their place: a log that is made there ends the others.
pub(crate) fn displaced_by(home: &LogHome, current: LogId) -> Vec<LogId> {
    let here = HomeIdentity::of(home);
    let ended = |id: &LogId| {
        let marks = folders(home, *id, None);
        let mut ends = marks.iter().map(|mark| mark.has_ended_before(&here));
        ends.any(|ended| ended.unwrap_or(false))
    };
    let known = in_default_folders(home).unwrap_or_default().into_iter();
    known.filter(|id| *id != current && !ended(id)).collect()
}

/// Logs of this home that the default folders know.
fn in_default_folders(home: &LogHome) -> Result<Vec<LogId>, Error> {
    let in_folder = |folder: &Path| folder_mark::of_home(&*home.fs, folder, &home.path);
    let mut ids = in_folder(&home.mark)?;
    // A folder of another name that cannot be read is no concern of this home.
    ids.extend(
        home.elsewhere
            .iter()
            .flat_map(|folder| in_folder(folder).unwrap_or_default()),
    );
    Ok(ids)
}
