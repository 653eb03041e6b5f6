//! The way out for a log of which somebody has a copy: what that knows beyond it.

use super::view::LogView;
use super::writer::Writer;
use super::{Fault, Place, SealLog};
use std::path::Path;
use std::sync::Arc;
use threadseal::error::Error;

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
