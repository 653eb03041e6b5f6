//! `thread export`: writes the files of a thread in a database to a folder.
//!
//! ```text
//! threadseal thread export --database postgres://… demo/greet-1 DIR
//!                                       ─► DIR/transcript.jsonl, DIR/thread.json, …
//! threadseal verify DIR
//! ```
//! The thread is verified first, and nothing is written where there is evidence against it. It copies only the detached bodies to
//! which the transcript commits, and leaves out files of interrupted writes.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use crate::render::json::VerifyOutput;
use crate::render::text::counted;
use crate::verifying;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::slice;
use threadseal_core::record::ThreadId;
use threadseal_core::report::Report;
use threadseal_runtime::bounds::MAX_CONVERSATION_BYTES;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::bodies;
use threadseal_store::read::{open_regular, read_small};
use threadseal_verify::FileResult;

/// Permission bits of the folder: only its owner may read the work of an agent.
const FOLDER_MODE: u32 = 0o700;

/// What `thread export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    project: ProjectArgs,
    /// The thread
    thread: String,
    /// New folder for the files
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    let fleet = args.database.required(context)?;
    let project = args.project.open(context)?;
    let id = ThreadId::parse(&args.thread)?;
    let host = fleet.host(&context.host()?, project.root(), None)?;
    let folder = project.thread(&id);
    if let Some(report) = evidence(args, &id, context)? {
        let exit = Exit::from_code(report.verdict.exit_code());
        if context.json {
            out.json_line(&VerifyOutput::new(
                slice::from_ref(&report),
                &[],
                0,
                exit.code(),
            ));
        }
        complain(&format!(
            "{} is {}: nothing was written; hint: threadseal verify",
            Clean(&report.path),
            report.verdict
        ));
        return Ok(exit);
    }
    let names = host.fs.read_dir(folder.path());
    let names = names.map_err(|_| Failure::new(format!("{id} has no files in this database")))?;
    atomic::create_directories(&*context.fs, &args.folder, FOLDER_MODE)?;
    let mut written = Vec::new();
    for name in names {
        let from = folder.path().join(&name);
        if host
            .fs
            .metadata(&from)
            .is_ok_and(|found| found.size == 0 && found.identity.inode == 0)
        {
            // A folder.
            continue;
        }
        if atomic::is_temporary(&name.to_string_lossy()) {
            continue;
        }
        let bytes = match from == bodies::place_of(&folder.transcript()) {
            true => {
                let record = open_regular(&*host.fs, &folder.transcript())?;
                bodies::text_for_copy(&*host.fs, &record, MAX_CONVERSATION_BYTES)?
            }
            false => read_small(&*host.fs, &from, MAX_CONVERSATION_BYTES)?,
        };
        atomic::create_new(&*context.fs, &args.folder.join(&name), &bytes, PRIVATE_FILE)?;
        written.push(name.to_string_lossy().into_owned());
    }
    written.sort();
    if context.json {
        out.json(&json!({"schema": "threadseal.thread.export/1", "thread_id": id.as_str(), "files": written}));
    } else if !context.quiet {
        complain(&format!(
            "{} written to {}",
            counted(written.len() as u64, "file", "files"),
            args.folder.display()
        ));
    }
    Ok(Exit::Done)
}

/// The worst report on a file of the thread, if there is evidence against one.
fn evidence(
    args: &ExportArgs,
    id: &ThreadId,
    context: &Context,
) -> Result<Option<Report>, Failure> {
    let verifier = verifying::verifier_of_home(context)?;
    let seen = verifier.database(args.database.url().unwrap_or_default(), Some(id))?;
    for result in &seen {
        if let FileResult::Failed(error) | FileResult::NoRecord(error) = result {
            return Err(Failure::new(error.message.clone()));
        }
    }
    let reports = seen.iter().flat_map(FileResult::reports);
    let evidence = reports.filter(|report| report.verdict.is_evidence());
    Ok(evidence.min_by_key(|report| report.verdict).cloned())
}
