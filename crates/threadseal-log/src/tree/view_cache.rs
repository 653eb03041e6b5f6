//! [`ViewCache`]: the last view that was read of a log, as long as its journal is untouched.

use crate::layout::description::Description;
use crate::layout::log_dir::LogDir;
use crate::tree::view::LogView;
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_store::read::{self, Stamp};

/// The last view, and the stamp of the journal that it was read from.
#[derive(Debug, Default)]
pub(crate) struct ViewCache(Mutex<Option<(Stamp, Arc<LogView>)>>);

impl ViewCache {
    /// The log in `dir` as it is now, where second places have `marks`.
    ///
    /// # Errors
    /// As [`LogView::read_beside`].
    pub(crate) fn get(
        &self,
        dir: &LogDir,
        description: &Description,
        marks: impl FnOnce() -> Vec<(SignedNote, TreeHead)>,
    ) -> Result<Arc<LogView>, Error> {
        let stamp = read::open_regular(&*dir.fs, &dir.journal())?.stamp();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, view)) = &*last
            && *known == stamp
        {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(LogView::read_beside(dir, description, marks)?);
        *last = Some((stamp, Arc::clone(&view)));
        Ok(view)
    }
}
