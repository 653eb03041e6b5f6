//! The plan and its results, for people and as JSON.

use super::{Done, Plan};
use crate::capture::{Setup, counted};
use crate::output::Out;
use crate::render::clean::Clean;
use serde::Serialize;
use threadseal_capture::Agent;
use threadseal_capture::agent::found::FoundAgent;
use threadseal_capture::install::{Action, FilePlan, WATCHER};
use threadseal_store::sys::path_text;

/// Columns of an agent with its version.
const NAME_WIDTH: usize = 22;
/// Columns of what is done.
const WORK_WIDTH: usize = 55;

/// One line for each agent, the service and a new home.
pub(super) fn plan(plan: &Plan, setup: &Setup, out: &mut Out) {
    for found in &plan.found {
        let work = match plan.file(found.agent.name()) {
            Some(file) => hooks(file, setup),
            None if is_refused(plan, found.agent.name()) => "refused: see below".to_owned(),
            None if !found.is_there() => continue,
            None => watched(found, setup),
        };
        let version = found.version.as_deref().unwrap_or_default();
        let name = format!("{} {version}", found.agent);
        line(out, &name, &work, &counted(found.sessions(), "session"));
    }
    let service = match (plan.file(WATCHER), &plan.manager) {
        (Some(file), Some(manager)) => {
            let path = setup.machine.shown(&file.path);
            format!("{} in {path}{}", manager.name(), kept(file))
        }
        _ if is_refused(plan, WATCHER) => "refused: see below".to_owned(),
        _ => {
            "no service here; run threadseal watch, or from cron threadseal watch --once".to_owned()
        }
    };
    line(out, WATCHER, &service, "");
    if plan.manager.is_none() {
        let sealed = "sealed and archived now, as by threadseal watch --once";
        line(out, "sessions", sealed, "");
    }
    if plan.makes_home {
        let home = setup.machine.shown(&setup.home);
        line(
            out,
            "home",
            &format!("{home} will be made, as by threadseal init"),
            "",
        );
    }
}

fn is_refused(plan: &Plan, owner: &str) -> bool {
    plan.refused.iter().any(|(refused, _)| refused == owner)
}

fn line(out: &mut Out, name: &str, work: &str, sessions: &str) {
    let (name, work) = (Clean(name).to_string(), Clean(work).to_string());
    let line = format!("{name:<NAME_WIDTH$}{work:<WORK_WIDTH$}  {sessions}");
    out.line(line.trim_end());
}

fn hooks(file: &FilePlan, setup: &Setup) -> String {
    let path = setup.machine.shown(&file.path);
    let what = match file.owner == Agent::OpenCode.name() {
        true => "plugin",
        false => "hooks",
    };
    let own = match file.kept {
        0 => String::new(),
        count => format!(" (kept: {count} of yours)"),
    };
    let trusted = match file.owner == Agent::Codex.name() {
        true => ", trusted in config.toml",
        false => "",
    };
    format!("{what} in {path}{own}{trusted}{}", kept(file))
}

fn kept(file: &FilePlan) -> &'static str {
    match file.action() {
        Action::Keep => ", up to date",
        Action::Create | Action::Edit => "",
    }
}

fn watched(found: &FoundAgent, setup: &Setup) -> String {
    let folders: Vec<String> = found
        .logs
        .iter()
        .map(|(folder, _)| setup.machine.shown(&folder.path))
        .collect();
    match (found.program.is_some(), folders.is_empty()) {
        (true, true) if found.agent == Agent::Aider => {
            "writes into each project; hint: threadseal watch PROJECT".to_owned()
        }
        (true, true) => "watched from its first session on".to_owned(),
        (true, false) => format!("watched in {}", folders.join(", ")),
        (false, _) => format!("not installed; watched in {}", folders.join(", ")),
    }
}

/// What was done, after the plan.
pub(super) fn done(plan: &Plan, done: &Done, out: &mut Out) {
    if let Some(count) = done.trusted {
        out.line(format_args!("codex trusts {}", counted(count, "hook")));
    }
    if let (true, Some(manager)) = (done.runs_service, &plan.manager) {
        out.line(format_args!("{} runs", manager.name()));
    }
    match done.sealed {
        Some(count) => out.line(format_args!(
            "{} sealed and archived",
            counted(usize::try_from(count).unwrap_or(usize::MAX), "session")
        )),
        None => out.line("the watcher seals and archives all sessions now"),
    }
    out.line("Next: threadseal list · threadseal status");
}

#[derive(Serialize)]
pub(super) struct InstallOutput {
    schema: &'static str,
    home: String,
    makes_home: bool,
    applied: bool,
    agents: Vec<AgentOutput>,
    watcher: Option<FileOutput>,
    watcher_runs: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    codex_trusts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<u64>,
    problems: Vec<ProblemOutput>,
}

#[derive(Serialize)]
struct AgentOutput {
    agent: &'static str,
    installed: bool,
    version: Option<String>,
    program: Option<String>,
    sessions: usize,
    watched: Vec<String>,
    hooks: Option<FileOutput>,
}

#[derive(Serialize)]
struct FileOutput {
    path: String,
    action: &'static str,
    kept: usize,
    replaced: usize,
}

#[derive(Serialize)]
struct ProblemOutput {
    of: String,
    message: String,
}

/// Plan and results as one object.
pub(super) fn output(plan: &Plan, done: &Done, setup: &Setup) -> InstallOutput {
    let problems = plan.refused.iter().chain(&done.failed);
    InstallOutput {
        schema: "threadseal.install/1",
        home: path_text(&setup.home),
        makes_home: plan.makes_home,
        applied: done.is_applied,
        agents: plan.found.iter().map(|found| agent(found, plan)).collect(),
        watcher: plan.file(WATCHER).map(file),
        watcher_runs: done.runs_service,
        codex_trusts: done.trusted,
        sealed: done.sealed,
        problems: problems
            .map(|(of, why)| ProblemOutput {
                of: of.clone(),
                message: why.to_string(),
            })
            .collect(),
    }
}

fn agent(found: &FoundAgent, plan: &Plan) -> AgentOutput {
    AgentOutput {
        agent: found.agent.name(),
        installed: found.program.is_some(),
        version: found.version.clone(),
        program: found.program.as_deref().map(path_text),
        sessions: found.sessions(),
        watched: found.log_folders(),
        hooks: plan.file(found.agent.name()).map(file),
    }
}

fn file(file: &FilePlan) -> FileOutput {
    FileOutput {
        path: path_text(&file.path),
        action: file.action().name(),
        kept: file.kept,
        replaced: file.replaced,
    }
}
