//! `install`: the hooks of the agents on this machine, and the watcher as a service.
//!
//! ```text
//! find agents ─► plan each file ─► show ─► ask once ─► init, if there is no home
//!    ─► journal, files ─► Codex trusts our hooks ─► start the service
//! ```
//! An agent whose settings cannot be edited is refused alone, and the exit is 2.

mod managed;
mod shown;

use crate::capture::{Answer, ConsentArgs, Setup, ask};
use crate::cmd::init;
use crate::cmd::log::init::LogArgs;
use crate::cmd::watch;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use clap::Args;
use std::path::PathBuf;
use threadseal_capture::Agent;
use threadseal_capture::agent::found::{self, FoundAgent};
use threadseal_capture::codex;
use threadseal_capture::health;
use threadseal_capture::install::{self, Action, FilePlan, Journal, WATCHER, Wish};
use threadseal_capture::service::ServiceManager;

/// What `install` takes.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Only these agents, installed or not: claude-code, codex, gemini, opencode, copilot, qwen
    #[arg(value_name = "AGENT")]
    agents: Vec<Agent>,
    #[command(flatten)]
    consent: ConsentArgs,
    /// Write the files of an organisation into DIR, for an administrator; no file of this user
    #[arg(long, value_name = "DIR")]
    managed: Option<PathBuf>,
    /// Install no service that watches the logs
    #[arg(long)]
    no_watcher: bool,
    /// Let agents wait for the seal before each tool, and refuse the tool if sealing fails
    #[arg(long)]
    strict: bool,
    /// The program that hooks and service run, for packages that wrap this one
    #[arg(long, value_name = "PATH", hide = true)]
    program: Option<PathBuf>,
}

/// All that is to be done.
struct Plan {
    found: Vec<FoundAgent>,
    files: Vec<FilePlan>,
    /// Whose settings are not edited, and why.
    refused: Vec<(String, Failure)>,
    manager: Option<ServiceManager>,
    makes_home: bool,
}

impl Plan {
    fn file(&self, owner: &str) -> Option<&FilePlan> {
        self.files.iter().find(|file| file.owner == owner)
    }

    fn changes_nothing(&self) -> bool {
        let keeps = |file: &FilePlan| file.action() == Action::Keep;
        !self.makes_home && self.files.iter().all(keeps)
    }
}

/// Results of the steps after the files are written.
#[derive(Default)]
struct Done {
    is_applied: bool,
    trusted: Option<usize>,
    runs_service: bool,
    /// Seals of sessions that were there; `None` where a service makes them.
    sealed: Option<u64>,
    failed: Vec<(String, Failure)>,
}

/// Installs hooks and service.
pub(crate) fn run(args: &InstallArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut setup = Setup::new(context)?;
    if let Some(program) = &args.program {
        let found = std::path::absolute(program);
        setup.program = found.map_err(|error| Failure::io("find", program, &error))?;
    }
    if let Some(folder) = &args.managed {
        return managed::run(folder, args, &setup, context, out);
    }
    let journal = setup.journal(context)?;
    let plan = plan(args, &setup, &journal, context)?;
    if !context.json && !context.quiet {
        shown::plan(&plan, &setup, out);
    }
    let mut done = Done::default();
    let answer = match args.consent.dry_run {
        true => Answer::No,
        false if plan.files.is_empty() && !plan.makes_home => Answer::Yes,
        false => {
            out.flush();
            let yes = args.consent.yes || plan.changes_nothing();
            ask("Write these files?", yes, context)?
        }
    };
    if answer == Answer::Yes {
        done = apply(&plan, &setup, context)?;
    }
    let is_refused = !plan.refused.is_empty() || !done.failed.is_empty();
    let exit = match answer {
        Answer::Yes if !is_refused => Exit::Done,
        Answer::No if args.consent.dry_run && !is_refused => Exit::Done,
        _ => Exit::NoVerdict,
    };
    if context.json {
        out.json(&shown::output(&plan, &done, &setup));
    } else {
        report(answer, args, &plan, &done, context, out);
    }
    Ok(exit)
}

fn report(
    answer: Answer,
    args: &InstallArgs,
    plan: &Plan,
    done: &Done,
    context: &Context,
    out: &mut Out,
) {
    for (owner, why) in plan.refused.iter().chain(&done.failed) {
        complain(&format!("{owner}: {why}"));
    }
    match answer {
        Answer::Yes if context.quiet => {}
        Answer::Yes => shown::done(plan, done, out),
        Answer::No if args.consent.dry_run => {}
        Answer::No => complain("nothing was written: the answer was not yes"),
        Answer::None => {
            complain("nothing was written: there is no terminal for the question; hint: add --yes");
        }
    }
}

fn plan(
    args: &InstallArgs,
    setup: &Setup,
    journal: &Journal,
    context: &Context,
) -> Result<Plan, Failure> {
    let found = found::all(&setup.machine, &*context.fs);
    let is_meant = |found: &&FoundAgent| match args.agents.is_empty() {
        true => found.program.is_some(),
        false => args.agents.contains(&found.agent),
    };
    let wish = Wish {
        machine: &setup.machine,
        program: &setup.program,
        home: setup.named_home(),
        strict: args.strict,
    };
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    for agent in found.iter().filter(is_meant).map(|found| found.agent) {
        match install::plan_agent(agent, &wish, journal, &*context.fs) {
            Ok(file) => files.extend(file),
            Err(error) => refused.push((agent.name().to_owned(), error.into())),
        }
    }
    let manager = match args.no_watcher {
        true => None,
        false => ServiceManager::of(&setup.machine, &*context.fs).filter(ServiceManager::is_there),
    };
    if let Some(manager) = &manager {
        let path = manager.file(&setup.machine);
        let text = manager.text(&setup.program, setup.named_home());
        match install::plan_own(WATCHER, path, text, journal, &*context.fs) {
            Ok(file) => files.push(file),
            Err(error) => refused.push((WATCHER.to_owned(), error.into())),
        }
    }
    Ok(Plan {
        found,
        files,
        refused,
        manager,
        makes_home: context.home()?.is_none(),
    })
}

fn apply(plan: &Plan, setup: &Setup, context: &Context) -> Result<Done, Failure> {
    if plan.makes_home {
        init::make(
            Some(&LogArgs::default()),
            &PassphraseArgs::default(),
            context,
        )?;
    }
    let folder = setup.folder();
    install::apply(&plan.files, &setup.program, &folder, &*context.fs)?;
    let mut done = Done {
        is_applied: true,
        ..Done::default()
    };
    if plan.file(Agent::Codex.name()).is_some() {
        match trust(plan, setup, context) {
            Ok(trusted) => done.trusted = Some(trusted),
            Err(why) => done.failed.push((Agent::Codex.name().to_owned(), why)),
        }
    }
    let agents = plan.files.iter().filter_map(|file| file.owner.parse().ok());
    let ignored = agents.filter_map(|agent| health::ignored(agent, &setup.machine, &*context.fs));
    for problem in ignored {
        done.failed
            .push((problem.of, Failure::new(problem.message)));
    }
    if let (Some(manager), Some(file)) = (&plan.manager, plan.file(WATCHER)) {
        let is_right = file.action() == Action::Keep && manager.is_running();
        let started = match is_right {
            true => Ok(()),
            false => manager.start(&setup.machine),
        };
        match started {
            Ok(()) => done.runs_service = true,
            Err(error) => done.failed.push((WATCHER.to_owned(), error.into())),
        }
    }
    // A service seals what is there as soon as it runs.
    if !done.runs_service {
        match watch::seal_all_once(context) {
            Ok((sealed, _)) => done.sealed = Some(sealed),
            Err(why) => done.failed.push((WATCHER.to_owned(), why)),
        }
    }
    Ok(done)
}

fn trust(plan: &Plan, setup: &Setup, context: &Context) -> Result<usize, Failure> {
    let hint = "; hint: start codex and confirm the hooks with /hooks";
    let found = plan.found.iter().find(|found| found.agent == Agent::Codex);
    let Some(program) = found.and_then(|found| found.program.as_deref()) else {
        return Err(Failure::new(format!(
            "no codex here can trust the hooks{hint}"
        )));
    };
    let trusted = codex::trust_hooks(program, &setup.machine, &setup.folder(), &*context.fs);
    trusted.map_err(|error| Failure::new(format!("{error}{hint}")))
}
