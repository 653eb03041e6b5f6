//! Waiting for threads to end.
//!
//! ```text
//! registry's folder changes (notify), or database notice (NOTIFY) ─┐
//! every 500 ms, or with database notices every 30 s ───────────────┴─► end of each chain: ended?
//!   ─► its result, from its record
//! ```
//! The watch is set before the first look, so that nothing that happens between them is missed.
//! Where there is none (a file system without notices, no more watches, a lost hint), the polls
//! alone find each end.

use super::records::{Need, Records};
use crate::bounds::{MAX_CONVERSATION_BYTES, MAX_WAITED_THREADS, POLL_INTERVAL, REGISTRY_POLL};
use crate::project::Layout;
use crate::registry::{Registry, Subject, Thread};
use crate::status::Status;
use crate::toolbox::Cancel;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_store::read::read_small;

/// The status in the place of a result that may not be trusted.
const REFUSED: &str = "refused";
/// The status of a thread that has not ended when the time is over.
pub(super) const TIMEOUT: &str = "timeout";
/// The status of a thread that has not ended when its waiting caller was ended. The thread runs on.
pub const WAITING_STOPPED: &str = "waiting_stopped";

fn refused(id: &ThreadId, why: &Error) -> Value {
    json!({"success": false, "thread_id": id.as_str(), "status": REFUSED, "error": why.to_string()})
}

/// Receives the changes of a registry, and of folders.
pub(super) struct Changes {
    heard: Receiver<()>,
    watcher: Option<RecommendedWatcher>,
    /// The folders of the files that are watched, too.
    folders: BTreeSet<PathBuf>,
    /// A registry that sends its own notices.
    telling: Option<(Arc<dyn Registry>, Subject)>,
}

impl Changes {
    /// `subject`: what a registry that gives notices is asked for.
    pub(super) fn of(records: &Records, subject: Subject) -> Self {
        if matches!(records.registry.notices(subject), Ok(Some(_))) {
            return Self {
                telling: Some((Arc::clone(&records.registry), subject)),
                ..Self::none()
            };
        }
        let (tell, heard) = mpsc::sync_channel(1);
        let registry = records.project.registry(Layout::Seed);
        let watch = || {
            let watcher = notify::recommended_watcher(move |_| {
                // One is enough: its receiver checks everything.
                let _ = tell.try_send(());
            });
            let mut watcher = watcher.ok()?;
            watcher
                .watch(registry.parent()?, RecursiveMode::NonRecursive)
                .ok()?;
            Some(watcher)
        };
        Self {
            watcher: watch(),
            folders: BTreeSet::new(),
            heard,
            telling: None,
        }
    }

    fn none() -> Self {
        let (_, heard) = mpsc::sync_channel(1);
        Self {
            heard,
            watcher: None,
            folders: BTreeSet::new(),
            telling: None,
        }
    }

    /// Watches the folder of this file, too, once it is there.
    pub(super) fn also(&mut self, file: &Path) {
        if let (Some(watcher), Some(folder)) = (&mut self.watcher, file.parent())
            && !self.folders.contains(folder)
            && watcher.watch(folder, RecursiveMode::NonRecursive).is_ok()
        {
            self.folders.insert(folder.to_owned());
        }
    }

    /// Receives nothing, as where files are watched in vain.
    #[cfg(test)]
    pub(super) fn unheard() -> Self {
        Self::none()
    }

    /// The number of notices so far: taken before a look, so that nothing after it is missed.
    pub(super) fn mark(&self) -> u64 {
        let told = self.telling.as_ref();
        let notices = told.map(|(registry, subject)| registry.notices(*subject));
        notices.and_then(Result::ok).flatten().unwrap_or_default()
    }

    /// Until something changes after `mark`, or this time is over.
    pub(super) fn wait(&self, mark: u64, most: Duration, cancel: &Cancel) {
        if let Some((registry, subject)) = &self.telling {
            registry.wait_for_notice(*subject, mark, most, &|| cancel.is_set());
            return;
        }
        let mut left = most.min(REGISTRY_POLL);
        while !left.is_zero() && !cancel.is_set() {
            let slice = left.min(POLL_INTERVAL);
            match self.heard.recv_timeout(slice) {
                Ok(()) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                // No notice can arrive: there is no watch.
                Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(slice),
            }
            left -= slice;
        }
    }
}

impl Records {
    /// Waits until each thread, or its successor, has ended or is suspended. Returns `{success,
    /// results: {id: …}}`, each result from a record that verifies. `success` is true when all
    /// completed. A thread that has not ended has the status `timeout`, or `waiting_stopped` where
    /// `cancel` ended the wait.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_WAITED_THREADS`], `InvalidInput` for none; errors of the registry.
    pub fn wait(
        &self,
        threads: &[ThreadId],
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        if threads.is_empty() {
            return Err(Error::invalid("no thread to wait for"));
        }
        if threads.len() > MAX_WAITED_THREADS {
            let text = format!("at most {MAX_WAITED_THREADS} threads are waited for at once");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        self.wait_hearing(&Changes::of(self, Subject::End), threads, timeout, cancel)
    }

    /// As [`Records::wait`], with notices of `changes`.
    pub(super) fn wait_hearing(
        &self,
        changes: &Changes,
        threads: &[ThreadId],
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        let began = self.host.clock.elapsed();
        let mut results: BTreeMap<&ThreadId, Value> = BTreeMap::new();
        loop {
            let mark = changes.mark();
            for id in threads {
                if !results.contains_key(id)
                    && let Some(result) = self.end_of(id)?
                {
                    results.insert(id, result);
                }
            }
            let elapsed = self.host.clock.elapsed().saturating_sub(began);
            let left = timeout.saturating_sub(elapsed);
            let all = threads.iter().all(|id| results.contains_key(id));
            if all || left.is_zero() || cancel.is_set() {
                break;
            }
            changes.wait(mark, left, cancel);
        }
        let word = if cancel.is_set() {
            WAITING_STOPPED
        } else {
            TIMEOUT
        };
        let mut out = Map::new();
        for id in threads {
            let waiting = || json!({"success": false, "thread_id": id.as_str(), "status": word});
            let result = results.remove(id).unwrap_or_else(waiting);
            out.entry(id.as_str()).or_insert(result);
        }
        let success = out.values().all(|result| result["success"] == true);
        Ok(json!({"success": success, "results": out}))
    }

    /// The result of the thread at which the chain of `id` ends, if that has ended; or why there is
    /// none that may be trusted: also where the record of a child was changed since it ended.
    pub(super) fn end_of(&self, id: &ThreadId) -> Result<Option<Value>, Error> {
        // Chains that lead nowhere have no end to wait for.
        let last = match self.registry.resolve(id) {
            Ok(last) => last,
            Err(error) if error.kind() == ErrorKind::Refused => {
                return Ok(Some(refused(id, &error)));
            }
            Err(error) => return Err(error),
        };
        if !self.has_ended(&last) {
            return Ok(None);
        }
        let result = self
            .leads_back(&last.id, id)
            .and_then(|()| self.archive().children_hold(&last.id))
            .and_then(|()| self.result(&last.id));
        Ok(Some(result.unwrap_or_else(|why| refused(id, &why))))
    }

    /// As [`Records::end_of`], of a thread whose record must be this one.
    ///
    /// # Errors
    /// Errors of the registry.
    pub(crate) fn end_under(
        &self,
        id: &ThreadId,
        record: &RecordId,
    ) -> Result<Option<Value>, Error> {
        let Some(result) = self.end_of(id)? else {
            return Ok(None);
        };
        if result["status"] == REFUSED {
            return Ok(Some(result));
        }
        // Of the thread itself the result names the seal; of a successor's the chain is verified.
        let head = result["head"].as_str().and_then(Head::parse);
        let found = match result["thread_id"] == id.as_str() {
            true => head.map(|head| head.record),
            false => Some(self.past(id, Need::Sealed)?.manifest.record),
        };
        Ok(Some(match found == Some(*record) {
            true => result,
            false => refused(id, &Error::refused(format!("{id} has another record"))),
        }))
    }

    /// Does `thread.json` claim an end, signed or not? For a `continued` thread another one is the
    /// end.
    fn is_said_to_have_ended(&self, id: &ThreadId) -> bool {
        let Ok(Some(folder)) = self.project.find_thread(&*self.host.fs, id) else {
            return false;
        };
        let bytes = read_small(&*self.host.fs, &folder.metadata(), MAX_CONVERSATION_BYTES);
        let said = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let status = said.and_then(|said| said["status"].as_str().and_then(Status::parse));
        status.is_some_and(|status| {
            status == Status::Suspended || (status.is_terminal() && status != Status::Continued)
        })
    }

    /// Is it worth reading the record? Decided by the registry or by `thread.json`, which changes
    /// first.
    fn has_ended(&self, row: &Thread) -> bool {
        let over = |status: Status| status.is_terminal() || status == Status::Suspended;
        match row.standing() {
            Ok(status) if over(status) => true,
            // Or it was edited. `thread.json` only decides when to read the record, which alone is
            // trusted.
            Ok(_) => self.is_said_to_have_ended(&row.id) && self.result(&row.id).is_ok(),
            // A word that is no status: the record knows better.
            Err(_) => true,
        }
    }
}
