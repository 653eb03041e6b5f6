//! [`ThreadLinks`]: the facts in records that a registry repeats: the parent and the successor of each
//! thread.
//!
//! ```text
//! line 1                      directive, model, parent_thread, and the seal of the predecessor
//! link of the predecessor     names the thread, its seal the record: only both make a chain
//! child_thread_started        the number of children
//! ```
//! Only sealed parts are read, also of records that still grow. A fact that no record contains
//! comes from the row. A predecessor of Rye is named only by the registry, since Rye's records do
//! not describe chains.

use super::record::{self, Need, Successor};
use super::{Archive, VerifiedRecord};
use crate::bounds::MAX_CHAIN_THREADS;
use crate::config::coordination::Integrity;
use crate::registry::{Recorded, Thread};
use crate::status::Status;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::manifest::Manifest;

/// Reads each record once, and connects them.
pub struct ThreadLinks<'a> {
    archive: Archive<'a>,
    read: HashMap<ThreadId, Rc<RecordFacts>>,
    /// The first thread of the chain of each, itself included.
    first: HashMap<ThreadId, ThreadId>,
}

/// The facts in one record alone.
#[derive(Debug)]
struct RecordFacts {
    id: ThreadId,
    record: RecordId,
    manifest: Manifest,
    parent: Option<String>,
    predecessor: Option<String>,
    began: Timestamp,
    spawns: u64,
    successors: Vec<Successor>,
    ended: Option<Status>,
}

impl<'a> ThreadLinks<'a> {
    /// Of the threads that `archive` reads.
    pub fn new(archive: Archive<'a>) -> Self {
        Self {
            // Nothing is taken from unsealed events; an adopted tail takes nothing from the rest.
            archive: Archive {
                integrity: Integrity::Lenient,
                ..archive
            },
            read: HashMap::new(),
            first: HashMap::new(),
        }
    }

    /// The facts in the record of `id` that `row` should repeat; facts without a record are as in
    /// `row`.
    ///
    /// # Errors
    /// Kind `Refused` with the verdict, unless the record verifies as far as its seals reach; for a
    /// record of Rye; errors of the disk.
    pub fn recorded(&mut self, id: &ThreadId, row: Option<&Thread>) -> Result<Recorded, Error> {
        let said = self.said(id)?;
        let noted = |text: Option<&String>| text.and_then(|text| ThreadId::parse(text).ok());
        let before = self.before(&said);
        let root = match &before {
            Ok(None) => Ok(None),
            Ok(Some(before)) => self.first_of(before).map(Some),
            Err(error) => Err(error.clone()),
        };
        let parent = match (&said.parent, said.manifest.parent) {
            (Some(name), _) => Some(ThreadId::parse(name)?),
            (None, None) => None,
            // Its seal alone does not name its thread.
            (None, Some(_)) => noted(row.and_then(|row| row.parent.as_ref())),
        };
        let after = said.successors.last();
        Ok(Recorded {
            id: id.clone(),
            record: said.record,
            directive: said.manifest.directive.clone().unwrap_or_default(),
            model: said.manifest.model.clone(),
            parent,
            began: said.began,
            spawns: said.spawns,
            before: before
                .unwrap_or_else(|_| noted(row.and_then(|row| row.continuation_of.as_ref()))),
            after: after
                .map(|after| ThreadId::parse(&after.thread))
                .transpose()?,
            root: root.unwrap_or_else(|_| noted(row.and_then(|row| row.chain_root.as_ref()))),
            ended: said.ended,
        })
    }

    fn said(&mut self, id: &ThreadId) -> Result<Rc<RecordFacts>, Error> {
        if let Some(said) = self.read.get(id) {
            return Ok(Rc::clone(said));
        }
        let folder = self.archive.folder(id)?;
        let record = record::open(&self.archive, &folder, id, None, Need::Sealed)?;
        let said = Rc::new(RecordFacts::of(&record)?);
        self.read.insert(id.clone(), Rc::clone(&said));
        Ok(said)
    }

    /// The thread that this one continues, if that thread names this one, too.
    fn before(&mut self, said: &RecordFacts) -> Result<Option<ThreadId>, Error> {
        let Some(head) = said.manifest.predecessor else {
            return Ok(None);
        };
        let name = said.predecessor.as_ref();
        let name = name.ok_or_else(|| Error::refused("line 1 does not name its predecessor"))?;
        let id = ThreadId::parse(name)?;
        if self.archive.is_original(&id)? {
            let known = self.archive.registry.get(&id)?;
            let after = known.and_then(|known| known.continuation);
            return Ok(after
                .is_some_and(|after| after == said.id.as_str())
                .then_some(id));
        }
        let before = self.said(&id)?;
        let names = |successor: &Successor| {
            successor.thread == said.id.as_str() && successor.record == Some(said.record)
        };
        let both = before.record == head.record && before.successors.iter().any(names);
        Ok(both.then_some(id))
    }

    /// The first thread of the chain of `id`.
    fn first_of(&mut self, id: &ThreadId) -> Result<ThreadId, Error> {
        let (mut passed, mut at) = (HashSet::new(), id.clone());
        let first = loop {
            if let Some(first) = self.first.get(&at) {
                break first.clone();
            }
            if passed.len() >= MAX_CHAIN_THREADS || !passed.insert(at.clone()) {
                return Err(Error::refused(format!(
                    "the chain of {id} has no beginning"
                )));
            }
            if self.archive.is_original(&at)? {
                let known = self.archive.registry.get(&at)?;
                let root = known.and_then(|known| known.chain_root);
                break root.map_or(Ok(at), |root| ThreadId::parse(&root))?;
            }
            let said = self.said(&at)?;
            match self.before(&said)? {
                Some(before) => at = before,
                None => break at,
            }
        };
        for id in passed {
            self.first.insert(id, first.clone());
        }
        Ok(first)
    }
}

impl RecordFacts {
    fn of(record: &VerifiedRecord) -> Result<Self, Error> {
        let id = record.id();
        let manifest = record.manifest();
        let manifest = manifest
            .ok_or_else(|| Error::refused(format!("the record of {id} is a Rye record")))?;
        let mut said = Self {
            id: id.clone(),
            record: manifest.record,
            manifest: manifest.clone(),
            parent: record.text_of_line_1("parent_thread")?,
            predecessor: record.text_of_line_1("predecessor_thread")?,
            began: Timestamp::from_micros(0)?,
            spawns: 0,
            successors: record.successors().to_vec(),
            ended: record.ended(),
        };
        for line in record.lines().filter(|line| !line.unverified) {
            let Ok(event) = serde_json::from_slice::<Value>(&line.bytes) else {
                continue;
            };
            if line.number == 1 {
                said.began = time_of(&event)?;
            }
            match event["event_type"].as_str() {
                Some("child_thread_started") => said.spawns += 1,
                // Line 1 of an earlier version's run of a graph does not name the run before.
                Some("graph_started") if said.predecessor.is_none() => {
                    let before = event["payload"]["resumed_from"].as_str();
                    said.predecessor = before.map(str::to_owned);
                }
                _ => {}
            }
        }
        Ok(said)
    }
}

fn time_of(event: &Value) -> Result<Timestamp, Error> {
    let seconds = event["timestamp"].as_f64().unwrap_or_default();
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or_default())
}
