//! `thread export`: writes the files of a thread in a database to a folder.
//!
//! ```text
//! threadseal thread export --database postgres://… demo/greet-1 DIR
//!                                       ─► DIR/transcript.jsonl, DIR/thread.json, …
//! threadseal verify DIR
//! ```
//! The bytes are the sealed ones; `verify` must judge them. It copies only the detached bodies to
//! which the transcript commits, and leaves out files of interrupted writes.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use threadseal_core::record::ThreadId;
use threadseal_runtime::bounds::MAX_CONVERSATION_BYTES;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::bodies;
use threadseal_store::read::{open_regular, read_small};

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
        out.json(&json!({"schema": "threadseal.thread-export/1", "thread_id": id.as_str(), "files": written}));
    } else if !context.quiet {
        complain(&format!(
            "{} files written to {}",
            written.len(),
            args.folder.display()
        ));
    }
    Ok(Exit::Done)
}
