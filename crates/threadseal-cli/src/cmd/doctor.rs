//! `doctor`: runs each installed hook as its agent would, and reports which one did not arrive.
//!
//! ```text
//! status ─► a folder with a home of its own and a small session of each agent
//!        ─► each hook, by a shell, with a payload ─► is the session sealed in that home?
//!        ─► Codex: which hooks does it trust? ─► does the real home verify?
//! ```
//! The folder is removed at the end. The real home gets no head of a session that does not exist.

use super::status::{self, ProblemOutput, Status, StatusOutput};
use crate::capture::{Setup, counted};
use crate::cmd::init;
use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use threadseal_capture::Agent;
use threadseal_capture::agent::found::FoundAgent;
use threadseal_capture::codex::{self, AppServer};
use threadseal_capture::doctor::{Fired, Rehearsal};
use threadseal_capture::health::{AgentHealth, Problem};
use threadseal_capture::install::Journal;
use threadseal_capture::process;
use threadseal_core::encoding::hex;
use threadseal_store::random::{Random as _, SystemRandom};

/// How long `verify` and `log fsck` may take.
const VERIFY_LIMIT: Duration = Duration::from_secs(60);

/// What `doctor` takes.
#[derive(Debug, Default, Args)]
pub(crate) struct DoctorArgs {
    /// Only these agents
    #[arg(value_name = "AGENT")]
    agents: Vec<Agent>,
}

#[derive(Serialize)]
struct DoctorOutput<'a> {
    #[serde(flatten)]
    status: StatusOutput<'a>,
    fired: Vec<FiredOutput>,
    /// Of each agent: is the session sealed after its hooks?
    sealed: Vec<SealedOutput>,
}

#[derive(Serialize)]
struct FiredOutput {
    agent: &'static str,
    event: String,
    arrived: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

#[derive(Serialize)]
struct SealedOutput {
    agent: &'static str,
    sealed: bool,
}

/// The results of the hooks.
#[derive(Default)]
struct Examined {
    fired: Vec<Fired>,
    sealed: Vec<(Agent, bool)>,
}

/// Runs each hook, and prints the status with the results.
pub(crate) fn run(args: &DoctorArgs, context: &Context, out: &mut Out) -> Outcome {
    let setup = Setup::new(context)?;
    let mut status = status::look(&setup, context)?;
    let folder = Folder::new()?;
    let examined = examine(args, &status, &setup, &folder, context)?;
    for fired in &examined.fired {
        if let Some(failure) = &fired.failure {
            let text = format!("the hook of {} did not arrive: {failure}", fired.event);
            status.problems.push(Problem::of(fired.agent, text));
        }
    }
    for (agent, sealed) in &examined.sealed {
        if !sealed {
            let text = "its hooks ran, and did not seal the session of the check";
            status.problems.push(Problem::of(*agent, text));
        }
    }
    let trust = untrusted(args, &status, &setup, context);
    status.problems.extend(trust);
    status.problems.extend(home(&setup));
    let exit = status::exit(&status.problems);
    if context.json {
        out.json(&output(&status, &examined, &setup));
    } else {
        if !context.quiet {
            show(&examined, out);
        }
        status::show(&status, &setup, context, out);
    }
    Ok(exit)
}

/// A folder that is removed with the value.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Self, Failure> {
        let mut random = [0; 8];
        SystemRandom.fill(&mut random)?;
        let name = format!("threadseal-doctor-{}", hex(&random));
        let path = std::env::temp_dir().join(name);
        let made = std::fs::create_dir(&path);
        made.map_err(|error| Failure::io("make", &path, &error))?;
        let path = path.canonicalize().unwrap_or(path);
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is in the system's folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn examine(
    args: &DoctorArgs,
    status: &Status,
    setup: &Setup,
    folder: &Folder,
    context: &Context,
) -> Result<Examined, Failure> {
    let home = folder.path.join("home");
    let inner = context.with_home(home.clone());
    init::make(None, &PassphraseArgs::default(), &inner)?;
    let mut examined = Examined::default();
    for (agent, health) in examinees(args, status) {
        let rehearsal = Rehearsal::new(agent, &folder.path, &home, &*context.fs)?;
        let fire = |hook| rehearsal.fire(hook, setup.machine.system());
        let fired: Vec<Fired> = health.hooks.iter().map(fire).collect();
        let arrived = fired.iter().any(|fired| fired.failure.is_none());
        if let (true, Some(log)) = (arrived, rehearsal.log()) {
            examined.sealed.push((agent, is_sealed(log, &home, setup)));
        }
        examined.fired.extend(fired);
    }
    Ok(examined)
}

fn examinees<'s>(
    args: &DoctorArgs,
    status: &'s Status,
) -> impl Iterator<Item = (Agent, &'s AgentHealth)> {
    let agents = args.agents.clone();
    let is_meant = move |agent: &Agent| agents.is_empty() || agents.contains(agent);
    let hooked = |(found, health): &'s (FoundAgent, Option<AgentHealth>)| {
        let health = health.as_ref()?;
        (!health.hooks.is_empty()).then_some((found.agent, health))
    };
    let hooked = status.agents.iter().filter_map(hooked);
    hooked.filter(move |(agent, _)| is_meant(agent))
}

/// Does the verifier find a seal that covers the log?
fn is_sealed(log: &Path, home: &Path, setup: &Setup) -> bool {
    let mut verify = Command::new(&setup.program);
    verify
        .args(["verify", "--json", "--home"])
        .arg(home)
        .arg(log);
    let ended = process::run(&mut verify, b"", VERIFY_LIMIT);
    ended.is_ok_and(|ended| ended.succeeded())
}

fn untrusted(
    args: &DoctorArgs,
    status: &Status,
    setup: &Setup,
    context: &Context,
) -> Option<Problem> {
    examinees(args, status).find(|(agent, _)| *agent == Agent::Codex)?;
    let mut agents = status.agents.iter();
    let found = agents.find(|(found, _)| found.agent == Agent::Codex);
    let program = found.and_then(|(found, _)| found.program.as_deref())?;
    let journal = setup.journal(context).ok()?;
    match distrusted(program, setup, &journal) {
        Ok(events) if events.is_empty() => None,
        Ok(events) => {
            let text = format!(
                "codex does not run the hooks of {}; hint: threadseal install codex",
                events.join(", ")
            );
            Some(Problem::of(Agent::Codex, text))
        }
        Err(error) => Some(Problem::of(Agent::Codex, error.to_string())),
    }
}

/// The events whose hooks Codex does not run.
fn distrusted(program: &Path, setup: &Setup, journal: &Journal) -> Result<Vec<String>, Failure> {
    let codex_home = Agent::Codex.folder(&setup.machine);
    let mut server = AppServer::start(program, &codex_home, setup.machine.home())?;
    let hooks = codex::own_hooks(&mut server, &setup.machine, journal)?;
    let idle = hooks
        .into_iter()
        .filter(|hook| !hook.is_trusted || !hook.is_enabled);
    Ok(idle.map(|hook| hook.event).collect())
}

/// Does the log of the home verify?
fn home(setup: &Setup) -> Option<Problem> {
    if !setup.home.join("log/current").exists() {
        return None;
    }
    let mut fsck = Command::new(&setup.program);
    fsck.args(["log", "fsck", "--quiet", "--home"])
        .arg(&setup.home);
    let why = match process::run(&mut fsck, b"", VERIFY_LIMIT) {
        Ok(ended) if ended.succeeded() => return None,
        Ok(ended) => ended.reason(),
        Err(error) => error.to_string(),
    };
    Some(Problem {
        of: "home".to_owned(),
        message: format!("its log does not verify: {why}; hint: threadseal log fsck"),
    })
}

fn show(examined: &Examined, out: &mut Out) {
    let mut agents: Vec<Agent> = examined.fired.iter().map(|fired| fired.agent).collect();
    agents.dedup();
    for agent in agents {
        let of_agent = || examined.fired.iter().filter(|fired| fired.agent == agent);
        let arrived = of_agent().filter(|fired| fired.failure.is_none()).count();
        let all = counted(of_agent().count(), "hook");
        let line = format!("{agent}: {arrived} of {all} arrived");
        out.line(Clean(&line));
    }
}

fn output<'a>(status: &'a Status, examined: &Examined, setup: &Setup) -> DoctorOutput<'a> {
    let fired = |fired: &Fired| FiredOutput {
        agent: fired.agent.name(),
        event: fired.event.clone(),
        arrived: fired.failure.is_none(),
        failure: fired.failure.clone(),
    };
    let sealed = |(agent, sealed): &(Agent, bool)| SealedOutput {
        agent: agent.name(),
        sealed: *sealed,
    };
    let mut output = status::output("threadseal.doctor/1", status, setup);
    output.problems = status.problems.iter().map(ProblemOutput::new).collect();
    DoctorOutput {
        status: output,
        fired: examined.fired.iter().map(fired).collect(),
        sealed: examined.sealed.iter().map(sealed).collect(),
    }
}
