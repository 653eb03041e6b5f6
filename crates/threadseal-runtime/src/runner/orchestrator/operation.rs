//! [`Operation`]: the seed's JSON for operations on threads.
//!
//! ```text
//! {"operation": "wait_threads", "thread_ids": […], "timeout": 600}
//! {"operation": "chain_search", "thread_id": "…", "query": "err.*timeout", "search_type": "regex"}
//! ```
//! The words are Rye's (`orchestrator.py`), and `run`, `spawn`, `cancel` and `kill` beside them. An
//! unknown member is an error: a part of a request must not be ignored silently.

use super::super::stop;
use super::reach::Reach;
use super::records::Records;
use super::search::{Search, SearchType};
use crate::bounds::MAX_WAITED_THREADS;
use crate::limit::Limits;
use crate::runner::child_spawner::{self, ChildSpawner};
use crate::runner::order::{Order, ResumeMode, Resumption};
use crate::runner::services::Services;
use crate::runner::starter::Starter;
use crate::runner::stop::Killed;
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;

/// Something to do about threads.
#[derive(Debug, Clone)]
pub struct Operation {
    kind: Kind,
    members: Map<String, Value>,
}

/// What an operation is, where another machine does the work.
#[derive(Debug)]
pub(crate) enum Request {
    /// It only reads.
    Look,
    Run(Order),
    Spawn(Order),
    Cancel(ThreadId),
    Kill(ThreadId),
    Resume(Resumption, ResumeMode),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Run,
    Spawn,
    Wait,
    Status,
    Active,
    Cancel,
    Kill,
    Aggregate,
    Chain,
    Search,
    Transcript,
    Resume,
    Handoff,
}

/// Each word, its meaning, and its members.
const WORDS: [(&str, Kind, &[&str]); 15] = [
    ("run", Kind::Run, DIRECTIVE),
    ("spawn", Kind::Spawn, DIRECTIVE),
    (
        "wait_threads",
        Kind::Wait,
        &["thread_ids", "thread_id", "timeout"],
    ),
    ("get_status", Kind::Status, &["thread_id"]),
    ("list_active", Kind::Active, &[]),
    ("cancel_thread", Kind::Cancel, &["thread_id"]),
    ("cancel", Kind::Cancel, &["thread_id"]),
    ("kill_thread", Kind::Kill, &["thread_id"]),
    ("kill", Kind::Kill, &["thread_id"]),
    (
        "aggregate_results",
        Kind::Aggregate,
        &["thread_ids", "thread_id"],
    ),
    ("get_chain", Kind::Chain, &["thread_id"]),
    (
        "chain_search",
        Kind::Search,
        &["thread_id", "query", "search_type", "max_results"],
    ),
    (
        "read_transcript",
        Kind::Transcript,
        &["thread_id", "tail_lines"],
    ),
    (
        "resume_thread",
        Kind::Resume,
        &["thread_id", "message", "limit_overrides"],
    ),
    (
        "handoff_thread",
        Kind::Handoff,
        &["thread_id", "message", "limit_overrides"],
    ),
];

/// The default message for a thread that is handed over.
const GO_ON: &str = "Go on with the directive where the conversation above ends.";

const DIRECTIVE: &[&str] = &[
    "directive_id",
    "directive_name",
    "inputs",
    "limit_overrides",
];

/// The caller of an operation.
pub(super) struct Doer<'a> {
    pub(super) services: &'a Services,
    pub(super) starter: Starter,
    pub(super) reach: &'a Reach,
    /// Where children of the thread that asks begin; None for people.
    pub(super) spawner: Option<&'a ChildSpawner>,
    pub(super) cancel: &'a Cancel,
}

impl Operation {
    /// Reads an operation.
    ///
    /// # Errors
    /// Kind `InvalidInput`, naming the fault.
    pub fn parse(value: &Value) -> Result<Self, Error> {
        let members = value.as_object();
        let mut members = members
            .cloned()
            .ok_or_else(|| Error::invalid("an operation is an object"))?;
        let word = members.remove("operation");
        let word = word.as_ref().and_then(Value::as_str).unwrap_or_default();
        let found = WORDS.iter().find(|(known, ..)| *known == word);
        let &(_, kind, known) = found.ok_or_else(|| {
            let words: Vec<&str> = WORDS.iter().map(|(word, ..)| *word).collect();
            Error::invalid(format!(
                "no operation {word:?}; there are: {}",
                words.join(", ")
            ))
        })?;
        if let Some(other) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::invalid(format!("{word} takes no {other:?}")));
        }
        Ok(Self { kind, members })
    }

    pub(super) fn words() -> Vec<&'static str> {
        WORDS.iter().map(|(word, ..)| *word).collect()
    }

    /// What is asked of workers.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a member is none.
    pub(crate) fn request(&self, cancel: &Cancel) -> Result<Request, Error> {
        let order = || child_spawner::order(&Value::Object(self.members.clone()), cancel);
        Ok(match self.kind {
            Kind::Run => Request::Run(order()?),
            Kind::Spawn => Request::Spawn(order()?),
            Kind::Cancel => Request::Cancel(self.named()?),
            Kind::Kill => Request::Kill(self.named()?),
            Kind::Resume | Kind::Handoff => {
                let (wanted, way) = self.resumption(self.named()?, cancel)?;
                Request::Resume(wanted, way)
            }
            _ => Request::Look,
        })
    }

    /// Its name in capabilities: the first of its words.
    pub(super) fn word(&self) -> &'static str {
        let found = WORDS.iter().find(|(_, kind, _)| *kind == self.kind);
        found.map_or("", |(word, ..)| word)
    }

    /// Does it only read, or begin something in parallel with its caller?
    pub(super) fn is_parallel(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Run | Kind::Cancel | Kind::Kill | Kind::Resume | Kind::Handoff
        )
    }

    /// Runs it, for people and their programs: all threads of the project may be touched.
    ///
    /// # Errors
    /// Those of the operation.
    pub(in crate::runner) fn execute(
        &self,
        services: &Services,
        starter: Starter,
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        self.execute_as(&Doer {
            services,
            starter,
            reach: &Reach::All,
            spawner: None,
            cancel,
        })
    }

    pub(super) fn execute_as(&self, doer: &Doer<'_>) -> Result<Value, Error> {
        let records = Records::from(doer.services);
        match self.kind {
            Kind::Run | Kind::Spawn => self.begin(doer),
            Kind::Active => records.active(doer.reach),
            Kind::Wait => {
                let threads = self.threads(doer, &records)?;
                records.wait(&threads, self.timeout(doer.services)?, doer.cancel)
            }
            Kind::Aggregate => records.aggregate(&self.threads(doer, &records)?),
            Kind::Status => records.status(&self.thread(doer, &records)?),
            Kind::Chain => records.chain_of(&self.thread(doer, &records)?),
            Kind::Search => {
                let kind = self.text("search_type")?.unwrap_or("text");
                let kind = SearchType::parse(kind)
                    .ok_or_else(|| Error::invalid("search_type is text or regex"))?;
                let query = self.text("query")?.unwrap_or_default();
                let search = Search::new(query, kind, self.count("max_results")?)?;
                records.search(&self.thread(doer, &records)?, &search, doer.cancel)
            }
            Kind::Transcript => {
                let lines = self.count("tail_lines")?;
                records.transcript(&self.thread(doer, &records)?, lines)
            }
            Kind::Cancel => {
                let id = self.thread(doer, &records)?;
                stop::request_cancel(doer.services, &id)?;
                Ok(json!({"success": true, "thread_id": id.as_str(), "cancelled": true}))
            }
            Kind::Kill => {
                let id = self.thread(doer, &records)?;
                let killed = stop::kill(doer.services, &id)?;
                Ok(json!({"success": true, "thread_id": id.as_str(), "status": told(killed)}))
            }
            Kind::Resume | Kind::Handoff => self.go_on(doer, &records),
        }
    }

    fn begin(&self, doer: &Doer<'_>) -> Result<Value, Error> {
        let input = Value::Object(self.members.clone());
        match (doer.spawner, self.kind) {
            (Some(spawner), Kind::Spawn) => spawner.spawn(&input),
            (Some(spawner), _) => spawner.run(&input, doer.cancel),
            (None, Kind::Spawn) => Err(Error::refused(
                "no process would remain to run a spawned thread: use run, or let a thread spawn it",
            )),
            (None, _) => {
                let order = child_spawner::order(&input, doer.cancel)?;
                let ran = doer.starter.run(doer.services, &order)?;
                doer.services.check_children(&ran)?;
                Ok(ran.to_json())
            }
        }
    }

    fn go_on(&self, doer: &Doer<'_>, records: &Records) -> Result<Value, Error> {
        let id = self.thread(doer, records)?;
        let resolved = records.registry.resolve(&id)?;
        let (wanted, way) = self.resumption(id.clone(), doer.cancel)?;
        let hands_over = way == ResumeMode::HandOver;
        let ran = match doer.spawner {
            Some(spawner) => spawner.resume(wanted, way)?,
            None => doer.starter.resume(doer.services, &wanted, way)?,
        };
        doer.services.check_children(&ran)?;
        Ok(
            json!({"success": true, "resumed": !hands_over, "handed_over": hands_over, "old_thread_id": resolved.id.as_str(),
                  "new_thread_id": ran.thread.as_str(), "original_thread_id": id.as_str(),
                  "resolved_thread_id": resolved.id.as_str(), "directive": resolved.directive,
                  "new_thread_result": ran.to_json()}),
        )
    }

    /// The continuation that it asks for.
    fn resumption(
        &self,
        thread: ThreadId,
        cancel: &Cancel,
    ) -> Result<(Resumption, ResumeMode), Error> {
        let (way, default) = match self.kind {
            Kind::Handoff => (ResumeMode::HandOver, GO_ON),
            _ => (ResumeMode::Resume, ""),
        };
        let message = self.text("message")?.unwrap_or(default);
        if message.is_empty() {
            return Err(Error::invalid("message says what to do next"));
        }
        let overrides = self.members.get("limit_overrides");
        let empty = Value::Object(Map::new());
        let wanted = Resumption {
            thread,
            message: message.to_owned(),
            limits: Limits::from_json(overrides.unwrap_or(&empty))?,
            cancel: cancel.clone(),
        };
        Ok((wanted, way))
    }

    /// The thread that it names.
    fn named(&self) -> Result<ThreadId, Error> {
        let id = self.text("thread_id")?;
        ThreadId::parse(id.ok_or_else(|| Error::invalid("thread_id must be a text"))?)
    }

    /// The one thread that it is about, which may be touched.
    fn thread(&self, doer: &Doer<'_>, records: &Records) -> Result<ThreadId, Error> {
        let id = self.named()?;
        self.touch(doer, records, &id)?;
        Ok(id)
    }

    fn touch(&self, doer: &Doer<'_>, records: &Records, id: &ThreadId) -> Result<(), Error> {
        let itself = doer.reach.thread() == Some(id);
        let ends = matches!(
            self.kind,
            Kind::Wait | Kind::Kill | Kind::Cancel | Kind::Resume | Kind::Handoff | Kind::Aggregate
        );
        if itself && ends {
            return Err(Error::refused("a thread does not do this to itself"));
        }
        doer.reach.check(records, id, self.word())
    }

    /// All threads that it is about, which may be touched.
    fn threads(&self, doer: &Doer<'_>, records: &Records) -> Result<Vec<ThreadId>, Error> {
        let both = ["thread_ids", "thread_id"].map(|name| self.members.contains_key(name));
        if both == [true, true] {
            return Err(Error::invalid("say thread_ids or thread_id, not both"));
        }
        let listed = match self.members.get("thread_ids") {
            Some(Value::Array(ids)) => ids.iter().collect(),
            Some(_) => return Err(Error::invalid("thread_ids is a list")),
            None => self
                .members
                .get("thread_id")
                .into_iter()
                .collect::<Vec<_>>(),
        };
        if listed.is_empty() {
            return Err(Error::invalid("thread_ids names no thread"));
        }
        if listed.len() > MAX_WAITED_THREADS {
            let text = format!("at most {MAX_WAITED_THREADS} threads at once");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let read = |id: &Value| {
            let text = id
                .as_str()
                .ok_or_else(|| Error::invalid("thread_ids are texts"))?;
            let id = ThreadId::parse(text)?;
            self.touch(doer, records, &id)?;
            Ok(id)
        };
        listed.into_iter().map(read).collect()
    }

    fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        match self.members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::invalid(format!("{name} must be a text"))),
        }
    }

    fn count(&self, name: &str) -> Result<Option<usize>, Error> {
        let wrong = || Error::invalid(format!("{name} must be a whole number above 0"));
        match self.members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let count = value
                    .as_u64()
                    .filter(|count| *count > 0)
                    .ok_or_else(wrong)?;
                usize::try_from(count).map(Some).map_err(|_| wrong())
            }
        }
    }

    fn timeout(&self, services: &Services) -> Result<Duration, Error> {
        let settings = &services.config.coordination;
        match self.members.get("timeout") {
            None | Some(Value::Null) => Ok(settings.wait(None)),
            Some(value) => {
                let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0);
                let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let wait = wait.ok_or_else(|| Error::invalid("timeout must be seconds"))?;
                Ok(settings.wait(Some(wait)))
            }
        }
    }
}

/// How a thread was killed, in a word of the registry where there is one.
fn told(killed: Killed) -> &'static str {
    match killed {
        Killed::Ended(status) | Killed::Process(status) => status.as_str(),
        Killed::Asked => "cancelling",
    }
}
