//! [`Services`]: all that the threads and graph runs of a project work with.

use super::order::Ran;
use crate::budget::BudgetLedger;
use crate::config::Config;
use crate::history::Archive;
use crate::item::{Finder, Grounds, ItemPolicy};
use crate::limit::Cost;
use crate::model::{Models, Preferring};
use crate::project::{Project, ProjectId};
use crate::project_id;
use crate::registry::Registry;
use crate::secrets::Secrets;
use crate::status::Status;
use crate::toolbox::{Hub, Supervisor, Tool, Workshop};
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::manifest::{Bodies, Manifest};
use threadseal_store::host::Host;
use threadseal_store::recorder::Keys;
use threadseal_verify::home_log::HomeLog;

/// The surroundings in which the threads of a project run.
#[derive(Clone)]
pub struct Services {
    /// Where they run.
    pub project: Arc<Project>,
    /// Files, clock, randomness, heads.
    pub host: Host,
    /// Their keys.
    pub keys: Keys,
    /// Whose signatures count.
    pub trust: Arc<Trust>,
    /// The log of this host.
    pub log: HomeLog,
    /// Where directives and tools are found.
    pub finder: Finder,
    /// Which of them may be used.
    pub policy: ItemPolicy,
    /// The registry of threads.
    pub registry: Arc<dyn Registry>,
    /// Their budgets.
    pub budgets: Arc<dyn BudgetLedger>,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The settings of program, user and project.
    pub config: Arc<Config>,
    /// Tools that are part of this program or of its caller.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The environment of this program's caller; declared commands see only the variables that they
    /// list.
    pub environment: Arc<Vec<(String, String)>>,
    /// The values that no record repeats.
    pub secrets: Arc<Secrets>,
    /// What ends all that a tool starts, also when this process dies. Without it only the process
    /// groups of tools are killed, and not when this process dies.
    pub supervisor: Option<Supervisor>,
    /// The MCP servers, which all threads of the process share.
    pub servers: Arc<Hub>,
    /// The observer.
    pub watch: Arc<dyn Watch>,
}

/// Follows threads, to show them to people.
pub trait Watch: Send + Sync {
    /// Something happened in `thread`.
    fn progress(&self, thread: &ThreadId, progress: Progress<'_>);
}

/// Progress for a person who watches.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// The model is asked.
    Asking(&'a Cost),
    /// A piece of the answer.
    Text(&'a str),
    /// A tool runs.
    Calling(&'a Cost, &'a str),
    /// A node of a graph begins: the number of the step, and its name.
    Step(u64, &'a str),
    /// The model gave no answer: the category of its error.
    Failed(&'a str),
    /// A turn is over, with its calls: how long it took.
    Turned(Duration),
    /// The model shall be asked again.
    Retrying(&'a str, Duration),
    /// What a person should know of it at once.
    Notice(Notice<'a>),
}

/// An event in the life of a thread that is shown whether or not its progress is.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// Its model's window is full, and this thread continues.
    HandedOver(&'a ThreadId),
    /// Its model's window is full, and no thread continues, for this reason.
    HandoffRefused(&'a str),
    /// So many bytes after the last seal of its record are in this file now.
    SetAside(u64, &'a Path),
    /// Its process is gone. It has this status now, and so many calls of unknown outcome.
    Recovered(Status, usize),
    /// Another worker began it. So many of its calls have an unknown outcome.
    TakenOver(usize),
    /// Another program changed what it left outside of its record.
    Changed(&'a str),
    /// An MCP server that had failed so often, at last for this reason, was started again for a call.
    ServerRestarted(&'a str, usize, &'a str),
    /// It ended, and its directive has this text for people about that.
    Outcome(&'a str),
    /// It was asked to end.
    CancelRequested,
    /// It was asked to end by a request that does not count, for this reason.
    CancelRefused(&'a str),
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandedOver(to) => write!(f, "the window is full; {to} continues"),
            Self::HandoffRefused(why) => write!(f, "it cannot hand itself over: {why}"),
            Self::SetAside(bytes, path) => write!(
                f,
                "{bytes} bytes after the last seal were set aside, in {}",
                path.display()
            ),
            Self::Recovered(status, 0) => write!(f, "its process is gone; it ended as {status}"),
            Self::Recovered(status, open) => write!(
                f,
                "its process is gone; it ended as {status}, with {open} calls of unknown outcome"
            ),
            Self::TakenOver(0) => write!(f, "taken over from another worker"),
            Self::TakenOver(open) => write!(
                f,
                "taken over from another worker, with {open} calls of unknown outcome"
            ),
            Self::ServerRestarted(server, failures, why) => write!(
                f,
                "MCP server {server} was started again; {failures} failures, the last one: {why}"
            ),
            Self::Changed(text) | Self::Outcome(text) => f.write_str(text),
            Self::CancelRequested => write!(f, "it was asked to end"),
            Self::CancelRefused(why) => write!(f, "a request to end it does not count: {why}"),
        }
    }
}

impl Services {
    /// The basis on which items are judged now.
    pub(super) fn grounds(&self) -> Result<Grounds<'_>, Error> {
        Ok(Grounds {
            trust: &self.trust,
            now: self.host.clock.now()?,
            heads: &*self.host.heads,
            policy: self.policy,
        })
    }

    /// Shows a person what happened in `thread`.
    pub(super) fn announce(&self, thread: &ThreadId, notice: Notice<'_>) {
        self.watch.progress(thread, Progress::Notice(notice));
    }

    pub(crate) fn archive(&self) -> Archive<'_> {
        Archive {
            host: &self.host,
            project: &self.project,
            trust: &self.trust,
            log: &self.log,
            registry: &*self.registry,
            integrity: self.config.coordination.transcript_integrity,
        }
    }

    /// Refuses a result where the record of a thread below `ran` is missing, or was changed since it
    /// ended.
    ///
    /// # Errors
    /// Kind `Refused` with the verdict; errors of the disk.
    pub(super) fn check_children(&self, ran: &Ran) -> Result<(), Error> {
        match ran.cost.spawns {
            0 => Ok(()),
            _ => self.archive().children_hold(&ran.thread),
        }
    }

    pub(super) fn workshop(&self) -> Workshop {
        Workshop {
            project: Arc::clone(&self.project),
            host: self.host.clone(),
            trust: Arc::clone(&self.trust),
            finder: self.finder.clone(),
            policy: self.policy,
            environment: Arc::clone(&self.environment),
            secrets: Arc::clone(&self.secrets),
            supervisor: self.supervisor.clone(),
        }
    }

    /// Does the thread of this line 1, whose record is at `path`, belong to this project?
    ///
    /// # Errors
    /// Kind `Refused`, with the verdict `foreign`, when it is another project's.
    pub(super) fn belongs_here(&self, path: &Path, manifest: &Manifest) -> Result<(), Error> {
        project_id::check(&self.host, &self.project, &self.trust, path, manifest)
    }

    /// The id of this project, which line 1 of its threads names; it gets one where it has none.
    ///
    /// # Errors
    /// As [`project_id::find_or_make`].
    pub(super) fn own_project(&self) -> Result<ProjectId, Error> {
        project_id::find_or_make(&self.host, &self.keys, &self.project, &self.trust)
    }

    /// The services of a child: the same, with the models of a child where these differ.
    pub(super) fn for_child(&self, directive: &str, inputs: &Map<String, Value>) -> Self {
        let mut services = self.clone();
        if let Some(models) = self.models.of_child(directive, inputs) {
            services.models = models;
        }
        services
    }

    /// The services for a successor of a record with this line 1. If the record keeps contents
    /// redactable, the successor and all threads that it starts keep them redactable too.
    pub(super) fn for_successor(&self, before: Option<&Manifest>) -> Self {
        let mut services = self.clone();
        let is_detached = before.is_some_and(|line_1| line_1.bodies == Bodies::Detached);
        if is_detached && self.config.coordination.bodies_inherited {
            Arc::make_mut(&mut services.config)
                .coordination
                .transcript_bodies = Bodies::Detached;
        }
        services
    }

    /// The same, with the models that the settings name for summaries.
    pub(super) fn for_summaries(&self) -> Self {
        let mut services = self.clone();
        if let Some(name) = &self.config.coordination.summary_model {
            services.models = Arc::new(Preferring {
                inner: Arc::clone(&self.models),
                name: name.clone(),
            });
        }
        services
    }
}
