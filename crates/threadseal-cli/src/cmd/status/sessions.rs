//! The sessions in `status`: how many are in which state, which are gone, which need a person.
//!
//! ```text
//! archived sessions ─► states of `list` ─┬─ red, amber ─► a problem each
//!                                        └─ the source is gone, verified ─► named, no problem
//! files in the agents' folders ─► a session without seals, older than a minute ─► a problem each
//! ```

use crate::capture::counted;
use crate::context::Context;
use crate::exit::Failure;
use crate::output::Out;
use crate::render::clean::Clean;
use crate::sessions::{Judge, JudgedSession, Sessions, Unlock};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use threadseal_capture::Agent;
use threadseal_capture::agent::found::FoundAgent;
use threadseal_capture::health::Problem;
use threadseal_capture::state::{Light, StateKind};
use threadseal_store::sys::path_text;

/// Sessions of one kind that are named for a person; the others are counted.
const MAX_NAMED: usize = 10;
/// A log that is younger may be sealed soon: its hook or the watcher is at work.
const PATIENCE: Duration = Duration::from_secs(60);

/// The archived sessions, by their states.
#[derive(Default, Serialize)]
pub(crate) struct SessionsOutput {
    total: usize,
    /// The number of sessions in each state.
    states: BTreeMap<&'static str, usize>,
    /// Those whose source is gone, and that verify from the archive.
    gone: Vec<GoneOutput>,
    /// The logs that verify whole, in their places.
    #[serde(skip)]
    verified: BTreeSet<String>,
}

#[derive(Serialize)]
struct GoneOutput {
    id: String,
    state_text: String,
}

impl SessionsOutput {
    /// Judges the archived sessions as `list` does, and adds what needs a person to `problems`.
    ///
    /// # Errors
    /// When the archive or its index cannot be read.
    pub(super) fn look(problems: &mut Vec<Problem>, context: &Context) -> Result<Self, Failure> {
        let sessions = Sessions::open(Unlock::Never, context)?;
        let judge = Judge::of_home(&sessions.home, context)?;
        let judged = sessions.judged(&judge, false, &|_, _| true)?;
        let mut output = Self {
            total: judged.len(),
            ..Self::default()
        };
        let mut bad = Vec::new();
        for session in &judged {
            *output.states.entry(session.state.kind.name()).or_default() += 1;
            match session.state.kind {
                StateKind::Archived => output.gone.push(GoneOutput {
                    id: session.id.to_string(),
                    state_text: session.words(),
                }),
                StateKind::Verified => output.verified.extend(sources(session)),
                kind if kind.light() != Light::Green => bad.push(problem(session)),
                _ => {}
            }
        }
        problems.extend(limited(bad));
        Ok(output)
    }

    /// Does this log verify whole? Then a trouble about it is over.
    pub(super) fn verifies(&self, log: &str) -> bool {
        self.verified.contains(log)
    }

    /// The lines for a person.
    pub(super) fn show(&self, width: usize, out: &mut Out) {
        if self.total == 0 {
            return;
        }
        let states = self.states.iter();
        let states: Vec<String> = states
            .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
            .collect();
        let (name, total) = ("archive", counted(self.total, "session"));
        out.line(format_args!("{name:<width$}{total}: {}", states.join(", ")));
        for gone in self.gone.iter().take(MAX_NAMED) {
            out.line(format_args!("  {}  {}", gone.id, Clean(&gone.state_text)));
        }
        if let Some(more) = self.gone.len().checked_sub(MAX_NAMED + 1) {
            out.line(format_args!("  and {} more; threadseal list", more + 1));
        }
    }
}

fn sources(session: &JudgedSession) -> impl Iterator<Item = String> {
    let logs = session.logs.iter();
    logs.filter_map(|log| log.source.as_deref().map(path_text))
}

fn problem(session: &JudgedSession) -> Problem {
    let id = session.id.to_string();
    let message = format!("{}; hint: threadseal show {id}", session.words());
    Problem { of: id, message }
}

/// A problem for each session in the folders of agents that has no seals for a while.
pub(super) fn unsealed(agents: &[FoundAgent], context: &Context) -> Vec<Problem> {
    let folders = agents.iter().flat_map(|found| {
        let folders = found.logs.iter();
        folders.map(|(folder, _)| (found.agent, folder.clone()))
    });
    let folders: Vec<_> = folders.collect();
    let unsealed = crate::sessions::unsealed(&folders, context);
    let old = unsealed.into_iter().filter(|(_, log)| !is_young(log));
    let hint = "is not sealed; hint: threadseal watch --once";
    let problem =
        |(agent, log): (Agent, PathBuf)| Problem::of(agent, format!("{} {hint}", path_text(&log)));
    let mut problems = limited(old.map(problem).collect());
    match crate::sessions::unsealed_databases(&folders, context) {
        Ok(databases) => {
            let old = databases.into_iter().filter(|(_, path, _)| !is_young(path));
            let old = old.map(|(agent, _, message)| Problem::of(agent, message));
            problems.extend(limited(old.collect()));
        }
        Err(failure) => problems.push(Problem {
            of: "archive".to_owned(),
            message: failure.to_string(),
        }),
    }
    problems
}

fn is_young(log: &Path) -> bool {
    let changed = std::fs::metadata(log).and_then(|found| found.modified());
    let age = changed.ok().and_then(|changed| changed.elapsed().ok());
    age.is_none_or(|age| age < PATIENCE)
}

/// The first of many problems, and a last one that counts the others.
fn limited(mut problems: Vec<Problem>) -> Vec<Problem> {
    let more = problems.len().saturating_sub(MAX_NAMED);
    problems.truncate(MAX_NAMED);
    if let (true, Some(last)) = (more > 0, problems.last()) {
        problems.push(Problem {
            of: last.of.clone(),
            message: format!("{more} more like this; hint: threadseal list"),
        });
    }
    problems
}
