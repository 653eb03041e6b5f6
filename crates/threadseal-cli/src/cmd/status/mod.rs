//! `status`: which agents are recorded, which are not, and what to do about it. Exit 0 only if all is
//! well.
//!
//! It looks at files, judges sessions as `list` does, and asks the watcher; `doctor` also runs each hook.

mod sessions;
#[cfg(feature = "agent")]
mod threads;

use crate::capture::{Setup, counted};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use sessions::SessionsOutput;
use std::time::Duration;
use threadseal_capture::agent::found::{self, FoundAgent};
use threadseal_capture::health::{self, AgentHealth, HookState, Problem};
use threadseal_capture::hook::link::{self, Answer, Ask, WatcherStatus};
use threadseal_capture::hook::troubles::{Trouble, Troubles};
use threadseal_capture::install::{Journal, WATCHER, Wish, undo};
use threadseal_capture::service::ServiceManager;
use threadseal_store::home::Home;
use threadseal_store::sys::path_text;

/// How long the watcher may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Columns of an agent with its version.
const NAME_WIDTH: usize = 22;

/// What `status` takes.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Also run each hook with a session of its own, as doctor does
    #[arg(long)]
    deep: bool,
}

/// Agents, service and problems of this machine.
pub(crate) struct Status {
    pub(crate) agents: Vec<(FoundAgent, Option<AgentHealth>)>,
    pub(crate) watcher: Watcher,
    /// What the watcher answers, if it runs.
    pub(crate) answer: Option<WatcherStatus>,
    pub(crate) sessions: SessionsOutput,
    pub(crate) problems: Vec<Problem>,
}

/// The state of the watcher. Only its own answer shows that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watcher {
    Running,
    Stopped,
    Absent,
}

impl Watcher {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Absent => "absent",
        }
    }
}

#[derive(Serialize)]
pub(crate) struct StatusOutput<'a> {
    schema: &'static str,
    home: String,
    agents: Vec<AgentOutput>,
    watcher: &'static str,
    /// What the watcher answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    watching: Option<WatcherStatus>,
    archived: &'a SessionsOutput,
    pub(crate) problems: Vec<ProblemOutput>,
}

#[derive(Serialize)]
struct AgentOutput {
    agent: &'static str,
    installed: bool,
    version: Option<String>,
    hooks: Option<&'static str>,
    events: Vec<String>,
    sessions: usize,
    watched: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct ProblemOutput {
    of: String,
    message: String,
}

impl ProblemOutput {
    pub(crate) fn new(problem: &Problem) -> Self {
        Self {
            of: problem.of.clone(),
            message: problem.message.clone(),
        }
    }
}

/// Prints the status.
pub(crate) fn run(args: &StatusArgs, context: &Context, out: &mut Out) -> Outcome {
    if args.deep {
        return crate::cmd::doctor::run(&crate::cmd::doctor::DoctorArgs::default(), context, out);
    }
    let setup = Setup::new(context)?;
    let status = look(&setup, context)?;
    let exit = exit(&status.problems);
    match context.json {
        true => out.json(&output("threadseal.status/1", &status, &setup)),
        false => show(&status, &setup, context, out),
    }
    Ok(exit)
}

pub(crate) fn exit(problems: &[Problem]) -> Exit {
    match problems.is_empty() {
        true => Exit::Done,
        false => Exit::Unconfirmed,
    }
}

/// Looks at all parts of the installation. Each part adds its lines and its problems.
///
/// # Errors
/// When the home or its journal cannot be used.
pub(crate) fn look(setup: &Setup, context: &Context) -> Result<Status, Failure> {
    let journal = setup.journal(context)?;
    let mut problems = Vec::new();
    if context.home()?.is_none() {
        let message = "there is no home; hint: threadseal install".to_owned();
        problems.push(Problem {
            of: "home".to_owned(),
            message,
        });
    }
    let answer = asked(setup);
    let watcher = match (&answer, undo::has_service(&journal)) {
        (Some(_), _) => Watcher::Running,
        (None, true) => Watcher::Stopped,
        (None, false) => Watcher::Absent,
    };
    let agents = agents(setup, &journal, context);
    for (found, health) in &agents {
        match health {
            Some(health) => problems.extend(health.problems.iter().cloned()),
            None if found.sessions() > 0 && watcher != Watcher::Running => {
                let count = counted(found.sessions(), "session");
                let manager = ServiceManager::of(&setup.machine, &*context.fs);
                let hint = match manager {
                    Some(_) => "threadseal install".to_owned(),
                    // No service can be installed here, and hooks are installed for the agents that are named.
                    None => format!(
                        "threadseal watch, or threadseal install {}",
                        found.agent.name()
                    ),
                };
                let text = format!("{count} without a watcher; hint: {hint}");
                problems.push(Problem::of(found.agent, text));
            }
            None => {}
        }
    }
    if watcher == Watcher::Stopped {
        let manager = ServiceManager::of(&setup.machine, &*context.fs);
        let hint = manager.map(|manager| manager.start_command(&setup.machine));
        let hint = hint.unwrap_or_else(|| "threadseal watch".to_owned());
        problems.push(Problem {
            of: WATCHER.to_owned(),
            message: format!("the watcher is installed and does not run; hint: {hint}"),
        });
    }
    let mut sessions = SessionsOutput::default();
    if let Some(home) = context.home()? {
        problems.extend(of_keys(&home));
        let found: Vec<FoundAgent> = agents.iter().map(|(found, _)| found.clone()).collect();
        problems.extend(sessions::unsealed(&found, context));
        match SessionsOutput::look(&mut problems, context) {
            Ok(looked) => sessions = looked,
            Err(failure) => problems.push(Problem {
                of: "archive".to_owned(),
                message: failure.to_string(),
            }),
        }
    }
    #[cfg(feature = "agent")]
    problems.extend(threads::orphaned(context));
    // What status sees by looking may be a trouble of the watcher, too.
    let known = |problem: &Problem| {
        problems
            .iter()
            .any(|known| known.message == problem.message)
    };
    let mut troubles = troubles(setup, &sessions, context);
    troubles.retain(|trouble| !known(trouble));
    problems.extend(troubles);
    Ok(Status {
        agents,
        watcher,
        answer,
        sessions,
        problems,
    })
}

fn agents(
    setup: &Setup,
    journal: &Journal,
    context: &Context,
) -> Vec<(FoundAgent, Option<AgentHealth>)> {
    let wish = Wish {
        machine: &setup.machine,
        program: &setup.program,
        home: setup.named_home(),
        strict: false,
    };
    let found = found::all(&setup.machine, &*context.fs).into_iter();
    found
        .filter_map(|found| {
            let health = found
                .agent
                .has_hooks()
                .then(|| health::look(found.agent, &wish, journal, &*context.fs));
            // Hooks that were installed for an agent that is not there are looked at, too.
            let has_hooks = health
                .as_ref()
                .is_some_and(|health| !health.hooks.is_empty());
            let health = health.filter(|_| found.program.is_some() || has_hooks);
            (found.is_there() || has_hooks).then_some((found, health))
        })
        .collect()
}

fn asked(setup: &Setup) -> Option<WatcherStatus> {
    match link::ask(&setup.home, &Ask::Status, ANSWER_LIMIT) {
        Ok(Answer::Status(status)) => Some(status),
        _ => None,
    }
}

/// What hooks and the watcher could not do: their agents never see it.
fn troubles(setup: &Setup, sessions: &SessionsOutput, context: &Context) -> Vec<Problem> {
    let troubles = Troubles::of(&setup.home).all(&*context.fs).into_iter();
    let problem = |trouble: Trouble| {
        let why = trouble.why.unwrap_or_default();
        // Most reasons name the file.
        let message = match why.contains(&trouble.about) {
            true => why,
            false => format!("{}: {why}", trouble.about),
        };
        Problem {
            of: trouble.of,
            message,
        }
    };
    let left = troubles.filter(|trouble| !sessions.verifies(&trouble.about));
    left.map(problem).collect()
}

/// The keys of the home that must not seal.
fn of_keys(home: &Home) -> Vec<Problem> {
    let faults = match Keyring::of(home).faults() {
        Ok(faults) => faults.iter().map(ToString::to_string).collect(),
        Err(failure) => vec![failure.to_string()],
    };
    let problem = |message| Problem {
        of: "keys".to_owned(),
        message,
    };
    faults.into_iter().map(problem).collect()
}

/// The status as an object.
pub(crate) fn output<'a>(
    schema: &'static str,
    status: &'a Status,
    setup: &Setup,
) -> StatusOutput<'a> {
    let agent = |(found, health): &(FoundAgent, Option<AgentHealth>)| AgentOutput {
        agent: found.agent.name(),
        installed: found.program.is_some(),
        version: found.version.clone(),
        hooks: health.as_ref().map(|health| health.state.name()),
        events: health
            .iter()
            .flat_map(|health| health.hooks.iter().map(|hook| hook.event.clone()))
            .collect(),
        sessions: found.sessions(),
        watched: found.log_folders(),
    };
    StatusOutput {
        schema,
        home: path_text(&setup.home),
        agents: status.agents.iter().map(agent).collect(),
        watcher: status.watcher.name(),
        watching: status.answer.clone(),
        archived: &status.sessions,
        problems: status.problems.iter().map(ProblemOutput::new).collect(),
    }
}

/// The status for people.
pub(crate) fn show(status: &Status, setup: &Setup, context: &Context, out: &mut Out) {
    if !context.quiet {
        for (found, health) in &status.agents {
            let version = found.version.as_deref().unwrap_or_default();
            let name = format!("{} {version}", found.agent);
            let work = match health {
                Some(health) => hooks(health),
                None => folders(found, setup),
            };
            let sessions = counted(found.sessions(), "session");
            let name = Clean(&name).to_string();
            out.line(format_args!(
                "{name:<NAME_WIDTH$}{}, {sessions}",
                Clean(&work)
            ));
        }
        out.line(format_args!("{WATCHER:<NAME_WIDTH$}{}", watching(status)));
        status.sessions.show(NAME_WIDTH, out);
    }
    for problem in &status.problems {
        out.line(format_args!("{}: {}", problem.of, Clean(&problem.message)));
    }
    if status.problems.is_empty() && !context.quiet {
        out.line("all is well");
    }
}

fn watching(status: &Status) -> String {
    let name = status.watcher.name();
    match &status.answer {
        Some(answer) if answer.waiting > 0 => {
            let (waiting, behind) = (answer.waiting, answer.behind_ms);
            format!("{name}, {waiting} waiting, {behind} ms behind")
        }
        Some(answer) => format!("{name} since {}", answer.since),
        None => name.to_owned(),
    }
}

fn hooks(health: &AgentHealth) -> String {
    let count = counted(health.hooks.len(), "hook");
    match health.state {
        HookState::Installed => count,
        HookState::Outdated => format!("{count}, outdated"),
        HookState::Absent => "no hooks".to_owned(),
        HookState::Unreadable => "settings unreadable".to_owned(),
    }
}

fn folders(found: &FoundAgent, setup: &Setup) -> String {
    let folders = found.logs.iter();
    let folders: Vec<String> = folders
        .map(|(folder, _)| setup.machine.shown(&folder.path))
        .collect();
    match folders.is_empty() {
        true => "no logs yet".to_owned(),
        false => folders.join(", "),
    }
}
