//! `thread …`: the threads of a project (`spec/runtime.md`).
//!
//! Only `resume`, `handoff`, `adopt`, `recover`, `cancel`, `kill` and `exec` write. All others read
//! registries without leaving a trace, including those of Rye's earlier and later layouts. A
//! registry proves nothing; `thread inspect` reports impossible rows, and `verify` judges the
//! records themselves.

mod adopt;
mod cancel;
mod chain;
mod exec;
#[cfg(feature = "cloud")]
mod export;
mod handoff;
mod inspect;
mod kill;
mod list;
mod recover;
mod resume;
mod search;
mod show;
mod status;
mod transcript;
mod wait;
mod watch;

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::project::{Layout, Project};
use threadseal_runtime::registry::{RegistryView, SqliteRegistry, Thread};
use threadseal_store::sys::FileKind;

/// What to do with threads.
#[derive(Debug, Subcommand)]
pub(crate) enum ThreadCommand {
    /// List threads, newest first
    List(list::ListArgs),
    /// Show one thread, and the places of its files
    Show(show::ShowArgs),
    /// Print the status of a thread, or of its last successor
    Status(status::StatusArgs),
    /// Wait until threads and their successors have ended, and print their results
    Wait(wait::WaitArgs),
    /// Follow a thread, its children and its successors while they run
    Watch(watch::WatchArgs),
    /// Request the end of a thread
    Cancel(cancel::CancelArgs),
    /// Kill the process that runs a thread, with all threads in it
    Kill(kill::KillArgs),
    /// Search the texts and calls in the threads of a chain
    Search(search::SearchArgs),
    /// Print the verified part of a thread's record
    Transcript(transcript::TranscriptArgs),
    /// Run an operation of the orchestrator, given as JSON
    Exec(exec::ExecArgs),
    /// Export the files of a thread in a database to a folder
    #[cfg(feature = "cloud")]
    Export(export::ExportArgs),
    /// Show the chain of threads that continue each other
    Chain(chain::ChainArgs),
    /// Check the registry and the budgets for impossible rows
    Inspect(inspect::InspectArgs),
    /// Resume an ended thread as a new thread, if its record verifies
    Resume(resume::ResumeArgs),
    /// Continue a thread as a new thread, with as much of its conversation as fits
    Handoff(handoff::HandoffArgs),
    /// Adopt a finished thread of Rye, and report the verified part
    Adopt(adopt::AdoptArgs),
    /// End a thread whose process is gone, and list its calls with an unknown outcome
    Recover(recover::RecoverArgs),
}

pub(crate) fn run(command: &ThreadCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        ThreadCommand::List(args) => list::run(args, context, out),
        ThreadCommand::Show(args) => show::run(args, context, out),
        ThreadCommand::Status(args) => status::run(args, context, out),
        ThreadCommand::Wait(args) => wait::run(args, context, out),
        ThreadCommand::Watch(args) => watch::run(args, context, out),
        ThreadCommand::Cancel(args) => cancel::run(args, context, out),
        ThreadCommand::Kill(args) => kill::run(args, context, out),
        ThreadCommand::Search(args) => search::run(args, context, out),
        ThreadCommand::Transcript(args) => transcript::run(args, context, out),
        ThreadCommand::Exec(args) => exec::run(args, context, out),
        #[cfg(feature = "cloud")]
        ThreadCommand::Export(args) => export::run(args, context, out),
        ThreadCommand::Chain(args) => chain::run(args, context, out),
        ThreadCommand::Inspect(args) => inspect::run(args, context, out),
        ThreadCommand::Resume(args) => resume::run(args, context, out),
        ThreadCommand::Handoff(args) => handoff::run(args, context, out),
        ThreadCommand::Adopt(args) => adopt::run(args, context, out),
        ThreadCommand::Recover(args) => recover::run(args, context, out),
    }
}

/// The existing databases of a project that `place` names, one for each layout.
pub(in crate::cmd) fn databases(
    context: &Context,
    project: &Project,
    place: impl Fn(&Project, Layout) -> PathBuf,
) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for layout in Layout::ALL {
        let path = place(project, layout);
        // What is there and is no file is refused by its reader.
        let there = context.fs.metadata(&path);
        if there.is_ok_and(|found| found.size > 0 || found.kind != FileKind::Regular) {
            project.inside(&*context.fs, &path)?;
            found.push(path);
        }
    }
    Ok(found)
}

/// The result of `work` for `id`, from the first registry that has the thread.
fn in_registry<T>(
    context: &Context,
    project: &Project,
    id: &ThreadId,
    work: impl Fn(&RegistryView<'_>) -> Result<T, Error>,
) -> Result<T, Failure> {
    for path in databases(context, project, Project::registry)? {
        let found = SqliteRegistry::view(&path, |view| match view.get(id)? {
            Some(_) => work(view).map(Some),
            None => Ok(None),
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err(Failure::new(format!("no thread {id} is registered here")))
}

/// A thread in JSON, with the registry's own names.
#[derive(Serialize)]
struct Row<'a> {
    thread_id: &'a str,
    directive: &'a str,
    parent_id: Option<&'a str>,
    status: &'a str,
    created_at: Option<&'a str>,
    updated_at: Option<&'a str>,
    completed_at: Option<&'a str>,
    turns: u64,
    input_tokens: u64,
    output_tokens: u64,
    spend: f64,
    spawn_count: u64,
    pid: Option<u32>,
    model: Option<&'a str>,
    continuation_of: Option<&'a str>,
    continuation_thread_id: Option<&'a str>,
    chain_root_id: Option<&'a str>,
    record: Option<String>,
}

impl<'a> Row<'a> {
    fn of(thread: &'a Thread) -> Self {
        Self {
            thread_id: thread.id.as_str(),
            directive: &thread.directive,
            parent_id: thread.parent.as_deref(),
            status: word(thread),
            created_at: thread.created_at.as_deref(),
            updated_at: thread.updated_at.as_deref(),
            completed_at: thread.completed_at.as_deref(),
            turns: thread.turns,
            input_tokens: thread.input_tokens,
            output_tokens: thread.output_tokens,
            spend: thread.spend.to_real(),
            spawn_count: thread.spawns,
            pid: thread.pid,
            model: thread.model.as_deref(),
            continuation_of: thread.continuation_of.as_deref(),
            continuation_thread_id: thread.continuation.as_deref(),
            chain_root_id: thread.chain_root.as_deref(),
            record: thread.record.map(|record| record.to_hex()),
        }
    }
}

/// The status in the spelling of the registry, even an unknown one.
fn word(thread: &Thread) -> &str {
    match &thread.status {
        Ok(status) => status.as_str(),
        Err(word) => word,
    }
}
