//! `install --managed DIR`: the files of an organisation, for an administrator.

use super::InstallArgs;
use crate::capture::{Answer, Setup, ask};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_capture::Agent;
use threadseal_capture::install;
use threadseal_capture::settings::{HookCommand, managed};
use threadseal_store::atomic::{self, Mode, SHARED_FILE};
use threadseal_store::sys::{directory_of, path_text};

/// Folders that other users read.
const SHARED_DIRECTORY: u32 = 0o755;

#[derive(Serialize)]
struct ManagedOutput {
    schema: &'static str,
    applied: bool,
    files: Vec<FileOutput>,
}

#[derive(Serialize)]
struct FileOutput {
    agent: &'static str,
    path: String,
    /// Where the agent reads it.
    place: String,
    changes: bool,
}

/// A file of the folder.
struct Planned {
    agent: Agent,
    path: PathBuf,
    place: PathBuf,
    text: String,
    changes: bool,
}

pub(super) fn run(
    folder: &Path,
    args: &InstallArgs,
    setup: &Setup,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let folder =
        std::path::absolute(folder).map_err(|error| Failure::io("find", folder, &error))?;
    let files = plan(&folder, args, setup, context)?;
    if !context.json && !context.quiet {
        for file in &files {
            let work = if file.changes { "" } else { ", up to date" };
            out.line(format_args!(
                "{:<14}{}{work}; its place is {}",
                file.agent.name(),
                Clean(&file.path.to_string_lossy()),
                Clean(&file.place.to_string_lossy())
            ));
        }
        out.flush();
    }
    let answer = match args.consent.dry_run {
        true => Answer::No,
        false => ask("Write these files?", args.consent.yes, context)?,
    };
    if answer == Answer::Yes {
        for file in files.iter().filter(|file| file.changes) {
            let fs = &*context.fs;
            atomic::create_directories(fs, directory_of(&file.path), SHARED_DIRECTORY)?;
            let mode = Mode::KeepOr(SHARED_FILE);
            atomic::replace(fs, &file.path, file.text.as_bytes(), mode)?;
        }
    }
    let exit = match answer {
        Answer::Yes => Exit::Done,
        Answer::No if args.consent.dry_run => Exit::Done,
        _ => Exit::NoVerdict,
    };
    if context.json {
        let output = ManagedOutput {
            schema: "threadseal.install.managed/1",
            applied: answer == Answer::Yes,
            files: files.iter().map(output).collect(),
        };
        out.json(&output);
    } else if exit == Exit::NoVerdict {
        complain("nothing was written; hint: add --yes");
    }
    Ok(exit)
}

fn plan(
    folder: &Path,
    args: &InstallArgs,
    setup: &Setup,
    context: &Context,
) -> Result<Vec<Planned>, Failure> {
    let is_meant = |agent: &Agent| args.agents.is_empty() || args.agents.contains(agent);
    if let Some(agent) = args
        .agents
        .iter()
        .find(|agent| managed::file(**agent).is_none())
    {
        let names = managed::AGENTS.map(Agent::name).join(", ");
        return Err(Failure::new(format!(
            "{agent} reads no hooks of an organisation; those that do: {names}"
        )));
    }
    let mut files = Vec::new();
    for agent in managed::AGENTS.into_iter().filter(is_meant) {
        let system = setup.machine.system();
        let (Some(name), Some(place)) = (managed::file(agent), managed::place(agent, system))
        else {
            continue;
        };
        let path = folder.join(name);
        let current = install::read_settings(&*context.fs, &path)?;
        // Each user has a home of his own, which the hook finds.
        let command = HookCommand {
            program: setup.program.clone(),
            agent,
            home: None,
            strict: args.strict,
        };
        let text = managed::text(&command, current.as_deref(), system);
        let text = text.map_err(|error| Failure::from(error).about(&path))?;
        files.push(Planned {
            agent,
            changes: current.as_ref() != Some(&text),
            path,
            place,
            text,
        });
    }
    Ok(files)
}

fn output(file: &Planned) -> FileOutput {
    FileOutput {
        agent: file.agent.name(),
        path: path_text(&file.path),
        place: path_text(&file.place),
        changes: file.changes,
    }
}
