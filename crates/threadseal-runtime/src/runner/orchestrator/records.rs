//! [`Records`]: the trusted facts about threads.

use super::super::Services;
use crate::bounds::{MAX_BUDGET_DEPTH, MAX_CONVERSATION_BYTES};
use crate::config::coordination::Integrity;
use crate::history::Archive;
use crate::judge;
use crate::limit::Cost;
use crate::project::Project;
use crate::project_id;
use crate::registry::{Registry, Thread, suits};
use crate::signed_file::refused;
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, TrustedMeta};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::{NotVerified, Verdict};
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::event::is_terminal;
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::host::Host;
use threadseal_verify as verify;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::{OpenError, VerifiedRecord, Verifier};

/// Where threads are looked at, and by whose signatures they are judged. All clones are one.
#[derive(Clone)]
pub struct Records {
    /// The project of the threads.
    pub project: Arc<Project>,
    /// Files, clock, heads.
    pub host: Host,
    /// Whose signatures count.
    pub trust: Arc<Trust>,
    /// The log of this host.
    pub log: HomeLog,
    /// Where to look.
    pub registry: Arc<dyn Registry>,
}

impl From<&Services> for Records {
    fn from(services: &Services) -> Self {
        Self {
            project: Arc::clone(&services.project),
            host: services.host.clone(),
            trust: Arc::clone(&services.trust),
            log: services.log.clone(),
            registry: Arc::clone(&services.registry),
        }
    }
}

/// How much of a record is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Need {
    /// All of it: nothing but `verified` will do.
    Whole,
    /// The part under its seals, of a thread that still runs.
    Sealed,
}

/// A record that may be trusted, as far as its seals reach.
pub(in crate::runner) struct Past {
    pub(in crate::runner) manifest: Manifest,
    record: VerifiedRecord,
}

impl Past {
    /// Its lines, from the very bytes that verified.
    ///
    /// # Errors
    /// Kind `Refused` when the file was changed while it was read.
    pub(in crate::runner) fn lines(&self) -> Result<VerifiedLines<'_>, Error> {
        self.record.lines()
    }

    /// Its verdict.
    pub(super) fn verdict(&self) -> Verdict {
        self.record.report().verdict
    }

    /// The head of its last seal.
    pub(super) fn head(&self) -> String {
        self.sealed().to_string()
    }

    /// Its last seal.
    pub(super) fn sealed(&self) -> Head {
        self.record.head()
    }

    /// All its bytes, also after that.
    pub(super) fn bytes(&self) -> &[u8] {
        self.record.bytes()
    }
}

/// The end of a thread in its record.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended {
    /// The status by the terminal event, where there is one.
    pub(super) status: Option<Status>,
    /// The error.
    pub(super) error: Option<String>,
    /// The last text of the model.
    pub(super) text: String,
    /// The named outputs.
    pub(super) outputs: Option<Value>,
}

impl Ended {
    /// Does the terminal event suit this status?
    fn suits(&self, status: Status) -> bool {
        self.status
            .is_some_and(|ended| status == Status::Continued || suits(ended, status))
    }
}

impl Records {
    /// The row of a thread.
    ///
    /// # Errors
    /// Kind `Refused` when there is none; errors of the registry.
    pub(super) fn row(&self, id: &ThreadId) -> Result<Thread, Error> {
        let unknown = || Error::refused(format!("no thread {id} is registered here"));
        self.registry.get(id)?.ok_or_else(unknown)
    }

    /// The record of a thread.
    ///
    /// # Errors
    /// Kind `Refused` with the verdict, unless it is of this project and may be trusted as far as
    /// `need` asks.
    pub(in crate::runner) fn past(&self, id: &ThreadId, need: Need) -> Result<Past, Error> {
        let folder = self
            .project
            .find_thread(&*self.host.fs, id)?
            .ok_or_else(|| Error::refused(format!("{id} has no record here")))?;
        let path = folder.transcript();
        self.project.inside(&*self.host.fs, &path)?;
        let opened = self.verifier(id)?.open_verified_within(
            &path,
            match need {
                Need::Whole => verify::Need::Whole,
                Need::Sealed => verify::Need::Sealed,
            },
            MAX_CONVERSATION_BYTES,
        );
        let record = opened.map_err(|error| refused(error, &path, &self.host))?;
        let manifest = record.manifest().cloned().ok_or_else(|| {
            Error::refused(format!("{}: it is not a native record", path.display()))
        })?;
        project_id::check(&self.host, &self.project, &self.trust, &path, &manifest)?;
        Ok(Past { manifest, record })
    }

    /// The evidence against the record of a thread, or of a child whose end it seals. Where they
    /// verify there is none, whatever the files beside them are.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn evidence(&self, id: &ThreadId) -> Result<Option<NotVerified>, Error> {
        let path = self.project.thread(id).transcript();
        let need = verify::Need::Whole;
        let verifier = self.verifier(id)?;
        match verifier.open_verified_within(&path, need, MAX_CONVERSATION_BYTES) {
            Ok(_) => {
                let held = self.archive().children_hold(id).err();
                let changed = held.and_then(|error| NotVerified::cause_of(&error));
                Ok(changed.filter(|changed| changed.report().verdict.is_evidence()))
            }
            Err(OpenError::NotVerified(report)) => {
                Ok(Some(NotVerified::of(&report)).filter(|_| report.verdict.is_evidence()))
            }
            Err(OpenError::Failed(error)) => Err(error.into()),
        }
    }

    /// The same places, for the histories of threads. Of an adopted tail nothing counts.
    pub(super) fn archive(&self) -> Archive<'_> {
        Archive {
            host: &self.host,
            project: &self.project,
            trust: &self.trust,
            log: &self.log,
            registry: &*self.registry,
            integrity: Integrity::Lenient,
        }
    }

    /// Judges transcripts of thread `id`.
    pub(in crate::runner) fn verifier(&self, id: &ThreadId) -> Result<Verifier, Error> {
        judge::of_transcripts(self.grounds(), id, None)
    }

    /// By what records are judged.
    pub(in crate::runner) fn grounds(&self) -> (&Host, &HomeLog, &Trust) {
        (&self.host, &self.log, &self.trust)
    }

    /// The contents of `thread.json`, checked against the record.
    ///
    /// # Errors
    /// Kind `Refused` unless both verify and agree.
    pub(super) fn meta(&self, id: &ThreadId, past: &Past) -> Result<TrustedMeta, Error> {
        let folder = self
            .project
            .find_thread(&*self.host.fs, id)?
            .ok_or_else(|| Error::refused(format!("{id} has no files here")))?;
        let read = || ThreadMeta::read(&self.host, &folder, id, Some(&past.manifest), &self.trust);
        // A running thread may replace it between the reads of the file and its head: then the new
        // file agrees.
        read().or_else(|_| read())
    }

    /// The end of a thread in its record.
    ///
    /// # Errors
    /// Kind `Refused` when the file was changed while it was read.
    pub(super) fn ended(past: &Past) -> Result<Ended, Error> {
        let mut ended = Ended::default();
        for line in past.lines()?.iter() {
            let Ok(event) = serde_json::from_slice::<Value>(&line.bytes) else {
                continue;
            };
            let payload = &event["payload"];
            let text = |name: &str| payload[name].as_str().map(str::to_owned);
            match event["event_type"].as_str().unwrap_or_default() {
                "cognition_out" => ended.text = text("text").unwrap_or_default(),
                "directive_return" => ended.outputs = Some(payload["outputs"].clone()),
                kind if is_terminal(kind) => {
                    let stated = payload["status"].as_str();
                    ended.status = Some(Status::of_end(kind, stated).unwrap_or(Status::Error));
                    ended.error = text("error").or_else(|| text("reason"));
                    if let Some(limit) = payload["limit"]["limit_code"].as_str() {
                        ended.error = Some(limit.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(ended)
    }

    /// The result of a thread, by its record and its `thread.json` alone: as its parent gets it
    /// (seed 001, "thread result").
    ///
    /// # Errors
    /// Kind `Refused` unless both verify, agree, and show an end or a suspension.
    pub fn result(&self, id: &ThreadId) -> Result<Value, Error> {
        let past = self.past(id, Need::Whole)?;
        let meta = self.meta(id, &past)?;
        let meta = meta.get();
        let ended = Self::ended(&past)?;
        if !ended.suits(meta.status) {
            let says = ended.status.map_or("no end", Status::as_str);
            return Err(Error::refused(format!(
                "thread.json of {id} has {}, but its record has {says}",
                meta.status
            )));
        }
        let returned = ended.outputs.as_ref();
        let stated = meta.outputs.clone().map(Value::Object);
        if stated.is_some() && stated.as_ref() != returned {
            return Err(Error::refused(format!(
                "thread.json of {id} has other outputs than its record"
            )));
        }
        let mut out = json!({
            "success": meta.status == Status::Completed,
            "thread_id": id.as_str(),
            "status": meta.status.as_str(),
            "result": ended.text,
            "cost": meta.cost.unwrap_or_default().to_json(),
            "head": past.head(),
        });
        if let Some(outputs) = stated {
            out["outputs"] = outputs;
        }
        if let Some(error) = ended.error {
            out["error"] = error.into();
        }
        Ok(out)
    }

    /// Does a row contradict the result in record and `thread.json`? The times of both may differ,
    /// and the last text of a thread that failed is no result.
    pub(in crate::runner) fn denies_result(&self, row: &Thread) -> bool {
        let (Some(noted), Ok(right)) = (&row.result, self.result(&row.id)) else {
            return false;
        };
        let Ok(noted) = serde_json::from_str::<Value>(noted) else {
            return true;
        };
        let cost = |result: &Value| {
            let cost = Cost::from_json(&result["cost"]).ok();
            cost.map(|cost| Cost {
                elapsed: Duration::ZERO,
                ..cost
            })
        };
        let failed = noted["success"] != true && noted["result"] == "";
        // A thread that was adopted as it ended gives its predecessor's last text.
        let silent = right["result"] == "";
        let over = right["status"] != Status::Continued.as_str();
        noted["outputs"] != right["outputs"]
            || cost(&noted) != cost(&right)
            || (over && noted["success"] != right["success"])
            || (noted["result"] != right["result"] && !failed && !silent)
    }

    /// The threads of the chain that ends with `last`, back to `first`, each the one that the next
    /// one's line 1 names.
    ///
    /// # Errors
    /// Kind `Refused` when the records do not lead there.
    pub(super) fn leads_back(&self, last: &ThreadId, first: &ThreadId) -> Result<(), Error> {
        let mut id = last.clone();
        for _ in 0..MAX_BUDGET_DEPTH {
            if id == *first {
                return Ok(());
            }
            let broken = || {
                Error::refused(format!(
                    "the record of {id} does not continue the thread that the registry names"
                ))
            };
            let head = self.past(&id, Need::Sealed)?.manifest.predecessor;
            let before = self.row(&id)?.continuation_of.ok_or_else(broken)?;
            let before = ThreadId::parse(&before)?;
            let there = self.past(&before, Need::Sealed)?.manifest.record;
            if head.map(|head| head.record) != Some(there) {
                return Err(broken());
            }
            id = before;
        }
        Err(Error::refused("the chain of threads is too long"))
    }

    /// The records of a thread and of its predecessors.
    ///
    /// # Errors
    /// As [`Records::leads_back`].
    pub(super) fn own_chain(&self, id: &ThreadId) -> Result<Vec<RecordId>, Error> {
        let mut records = Vec::new();
        let mut id = id.clone();
        for _ in 0..MAX_BUDGET_DEPTH {
            let manifest = self.past(&id, Need::Sealed)?.manifest;
            let expected = records.is_empty();
            records.push(manifest.record);
            let Some(head) = manifest.predecessor else {
                return Ok(records);
            };
            let broken = || {
                Error::refused(format!(
                    "the record of {id} does not continue the thread that the registry names"
                ))
            };
            let before = self.row(&id)?.continuation_of.ok_or_else(broken)?;
            let before = ThreadId::parse(&before)?;
            if !expected && records.contains(&head.record) {
                return Err(broken());
            }
            if self.past(&before, Need::Sealed)?.manifest.record != head.record {
                return Err(broken());
            }
            id = before;
        }
        Err(Error::refused("the chain of threads is too long"))
    }
}
