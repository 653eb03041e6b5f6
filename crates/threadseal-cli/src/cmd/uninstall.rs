//! `uninstall`: the settings of agents as they were before `install`, and no service.
//!
//! A file that no one edited since gets back its bytes. An edited one loses our hooks and nothing
//! else. Records, archive and keys stay in the home.

use crate::capture::{Answer, ConsentArgs, Setup, ask, counted};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal_capture::Agent;
use threadseal_capture::install::WATCHER;
use threadseal_capture::install::undo::{self, Removal, RemovalAction};
use threadseal_capture::service::ServiceManager;
use threadseal_store::sys::path_text;

/// What `uninstall` takes.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Only these agents; the service stays
    #[arg(value_name = "AGENT")]
    agents: Vec<Agent>,
    #[command(flatten)]
    consent: ConsentArgs,
}

#[derive(Serialize)]
struct UninstallOutput {
    schema: &'static str,
    applied: bool,
    files: Vec<FileOutput>,
    problems: Vec<ProblemOutput>,
}

#[derive(Serialize)]
struct FileOutput {
    of: String,
    path: String,
    action: &'static str,
}

#[derive(Serialize)]
struct ProblemOutput {
    path: String,
    message: String,
}

/// All that is to be done.
#[derive(Default)]
struct Plan {
    removals: Vec<Removal>,
    refused: Vec<ProblemOutput>,
}

/// Removes hooks and service.
pub(crate) fn run(args: &UninstallArgs, context: &Context, out: &mut Out) -> Outcome {
    let setup = Setup::new(context)?;
    let plan = plan(args, &setup, context)?;
    if !context.json && !context.quiet {
        show(&plan, &setup, out);
    }
    let answer = match (args.consent.dry_run, plan.removals.is_empty()) {
        (true, _) => Answer::No,
        (_, true) => Answer::Yes,
        _ => {
            out.flush();
            ask("Change these files?", args.consent.yes, context)?
        }
    };
    let mut problems = plan.refused;
    if answer == Answer::Yes && !plan.removals.is_empty() {
        stop_service(&plan.removals, &setup, context, &mut problems);
        undo::apply(&plan.removals, &setup.folder(), &*context.fs)?;
        forget_service(&plan.removals, &setup, context);
    }
    let exit = match (answer, problems.is_empty()) {
        (Answer::Yes, true) => Exit::Done,
        (Answer::No, true) if args.consent.dry_run => Exit::Done,
        _ => Exit::NoVerdict,
    };
    if context.json {
        let output = UninstallOutput {
            schema: "threadseal.uninstall/1",
            applied: answer == Answer::Yes,
            files: plan.removals.iter().map(file).collect(),
            problems,
        };
        out.json(&output);
        return Ok(exit);
    }
    for problem in &problems {
        complain(&problem.message);
    }
    match answer {
        Answer::No if !args.consent.dry_run => {
            complain("nothing was changed: the answer was not yes");
        }
        Answer::None => {
            complain("nothing was changed: there is no terminal for the question; hint: add --yes");
        }
        _ => {}
    }
    Ok(exit)
}

fn plan(args: &UninstallArgs, setup: &Setup, context: &Context) -> Result<Plan, Failure> {
    let journal = setup.journal(context)?;
    let owners: Vec<Option<Agent>> = match args.agents.is_empty() {
        true => vec![None],
        false => args.agents.iter().copied().map(Some).collect(),
    };
    let mut plan = Plan::default();
    for owner in owners {
        for (path, removal) in undo::plan(owner, &setup.machine, &journal, &*context.fs) {
            match removal {
                Ok(removal) => plan.removals.push(removal),
                Err(error) => plan.refused.push(ProblemOutput {
                    path: path_text(&path),
                    message: Failure::from(error).to_string(),
                }),
            }
        }
    }
    Ok(plan)
}

/// The service is stopped before its file goes: then its manager knows it.
fn stop_service(
    removals: &[Removal],
    setup: &Setup,
    context: &Context,
    problems: &mut Vec<ProblemOutput>,
) {
    let Some(manager) = service(removals, setup, context) else {
        return;
    };
    if manager.is_there()
        && let Err(error) = manager.stop()
    {
        problems.push(ProblemOutput {
            path: path_text(&manager.file(&setup.machine)),
            message: Failure::from(error).to_string(),
        });
    }
}

fn forget_service(removals: &[Removal], setup: &Setup, context: &Context) {
    if let Some(manager) = service(removals, setup, context)
        && manager.is_there()
    {
        manager.forget();
    }
}

fn service(removals: &[Removal], setup: &Setup, context: &Context) -> Option<ServiceManager> {
    let has_service = removals.iter().any(|removal| removal.owner == WATCHER);
    has_service
        .then(|| ServiceManager::of(&setup.machine, &*context.fs))
        .flatten()
}

fn show(plan: &Plan, setup: &Setup, out: &mut Out) {
    if plan.removals.is_empty() && plan.refused.is_empty() {
        out.line("nothing is installed");
    }
    for removal in &plan.removals {
        let path = setup.machine.shown(&removal.path);
        let work = match &removal.action {
            RemovalAction::Nothing => "is as it was before".to_owned(),
            RemovalAction::Restore(Some(_)) => "gets back its bytes from before".to_owned(),
            RemovalAction::Restore(None) => "is removed".to_owned(),
            RemovalAction::Strip {
                text,
                removed,
                moved,
            } => {
                let rest = match text {
                    Some(_) => "loses",
                    None => "is removed with",
                };
                let moved = match moved {
                    0 => String::new(),
                    _ => format!(
                        "; {} of yours get another position, so confirm them in codex with /hooks",
                        counted(*moved, "hook")
                    ),
                };
                let moved = if removal.owner == Agent::Codex.name() {
                    moved
                } else {
                    String::new()
                };
                format!(
                    "{rest} {} of threadseal, and keeps your edits{moved}",
                    counted(*removed, "entry").replace("entrys", "entries")
                )
            }
        };
        out.line(format_args!("{:<14}{} {work}", removal.owner, Clean(&path)));
    }
}

fn file(removal: &Removal) -> FileOutput {
    FileOutput {
        of: removal.owner.clone(),
        path: path_text(&removal.path),
        action: removal.action.name(),
    }
}
