//! The way out for a log of which somebody has a copy: what that knows beyond it.

use super::contents::Contents;
use super::far::Said;
use super::view::LogView;
use super::writer::Writer;
use super::{Fault, Place, SealLog, Shared};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;

impl SealLog {
    /// Takes over what a copy of this log, in `folder`, has beyond it: `<folder>/journal`, `<folder>/tile`, …; and behind it what
    /// the home's store of heads has beyond both. Answers the number of entries that came.
    ///
    /// # Errors
    /// Kind `Refused` when the copy is no copy of this log, does not continue it, or ends before the mark, and when this log was
    /// made on another machine or has ended; `External` when one of both cannot be read or written, or, with all taken over that the
    /// copy has, when a stored head cannot be.
    pub fn catch_up(&self, folder: &Path) -> Result<u64, Error> {
        let shared = &self.shared;
        let copy = Place {
            fs: Arc::clone(&shared.places.fs),
            root: folder.to_owned(),
        };
        let copy = LogView::read(&copy, &shared.description)?;
        let far = shared.far.said(true);
        let key = shared.key()?;
        let patient = || true;
        // Whoever commits by what the marks say keeps all others out, a copy of this home among them.
        let _alone = shared.enter(&patient)?;
        let judge = |_: &Contents, tree: TreeHead| shared.continued_by(&copy, &tree, &far);
        let mut writer = Writer::open(&shared.place, &shared.description, key, &patient, &judge)?;
        let first = writer.tree().size;
        let entries = (first..copy.tree().size).map(|number| copy.entry(number));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        writer.commit(&entries)?;
        writer.fold()?;
        shared.mark(&writer)?;
        let mut index = shared.index();
        index.catch_up(writer.contents())?;
        shared.look_again(&mut writer, &index)?;
        writer.fold()?;
        index.catch_up(writer.contents())?;
        let stored = shared.commit_stored(&mut writer, &index)?;
        shared.mark(&writer)?;
        Ok((entries.len() + stored) as u64)
    }
}

impl Shared {
    /// Is this copy a continuation of `tree`, all that was committed here, and of what each second place knows?
    fn continued_by(
        &self,
        copy: &LogView,
        tree: &TreeHead,
        far: &[Result<Said, Error>],
    ) -> Result<(), Error> {
        let fault = self.out_of_place()?;
        fault.map_or(Ok(()), |fault| Err(fault.into_error()))?;
        if !copy.continues(tree)? {
            return Err(Error::refused("this copy does not continue the log"));
        }
        match self.known_marks(far).fault(copy.contents(), copy.tree())? {
            None => Ok(()),
            Some(Fault::RolledBack { mark, .. }) => Err(Error::refused(format!(
                "this copy does not continue the checkpoint of {} entries in the second place",
                mark.size
            ))),
            Some(fault) => Err(fault.into_error()),
        }
    }
}
