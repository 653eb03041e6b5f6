//! The threads that belong together by their sealed records, whatever rows say.

use super::records::{Need, Records};
use std::collections::HashSet;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{RecordId, ThreadId};

impl Records {
    /// Those of `threads` that the thread with the record `first` started or was continued by, also
    /// through others of them, by their first lines. One without a record belongs to it, since
    /// nothing of it can be continued; one whose record may not be trusted does not.
    ///
    /// # Errors
    /// Kind `External` when a record cannot be read.
    pub(crate) fn kin(
        &self,
        first: &RecordId,
        threads: Vec<ThreadId>,
    ) -> Result<HashSet<ThreadId>, Error> {
        let (mut kin, mut left) = (HashSet::new(), Vec::new());
        for id in threads {
            if !self.has_record(&id) {
                kin.insert(id);
                continue;
            }
            match self.past(&id, Need::Sealed) {
                Ok(past) => left.push((id, past.manifest)),
                Err(error) if error.kind() == ErrorKind::Refused => {}
                Err(error) => return Err(error),
            }
        }
        let mut known = HashSet::from([*first]);
        loop {
            let before = left.len();
            left.retain(|(id, line_1)| {
                let named = [line_1.predecessor, line_1.parent].into_iter().flatten();
                let is_kin = known.contains(&line_1.record)
                    || named
                        .map(|head| head.record)
                        .any(|record| known.contains(&record));
                if is_kin {
                    known.insert(line_1.record);
                    kin.insert(id.clone());
                }
                !is_kin
            });
            if left.len() == before {
                return Ok(kin);
            }
        }
    }

    /// Is there a transcript of the thread, of whatever content?
    pub(crate) fn has_record(&self, id: &ThreadId) -> bool {
        let transcript = self.project.thread(id).transcript();
        self.host.fs.metadata(&transcript).is_ok()
    }
}
