//! `thread inspect`.

use super::databases;
use crate::context::Context;
use crate::engine::ProjectArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::gather;
use crate::local::Local;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use threadseal_runtime::project::Project;
use threadseal_runtime::registry::{Fault, Filter, Inspection, SqliteRegistry, contradictions};
use threadseal_runtime::thread_meta::ThreadMeta;
use threadseal_runtime::{budget, registry};

/// What `thread inspect` takes.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Serialize)]
struct InspectOutput {
    schema: &'static str,
    databases: Vec<DatabaseOutput>,
}

#[derive(Serialize)]
struct DatabaseOutput {
    path: String,
    rows: u64,
    faults: Vec<FaultOutput>,
    more: u64,
}

#[derive(Serialize)]
struct FaultOutput {
    code: &'static str,
    thread: Option<String>,
    message: String,
}

/// Exit 1 when a database says what cannot be true.
pub(super) fn run(args: &InspectArgs, context: &Context, out: &mut Out) -> Outcome {
    let project = args.project.open(context)?;
    let mut found = Vec::new();
    for path in databases(context, &project, Project::registry)? {
        let mut inspection = registry::inspect(&path)?;
        against_metadata(&path, &project, context, &mut inspection)?;
        found.push((path.clone(), inspection));
    }
    for path in databases(context, &project, Project::budgets)? {
        found.push((path.clone(), budget::inspect(&path)?));
    }
    let shown: Vec<DatabaseOutput> = found
        .into_iter()
        .map(|(path, inspection)| database(path.to_string_lossy().into_owned(), inspection))
        .collect();
    let exit = match shown.iter().all(|database| database.faults.is_empty()) {
        true => Exit::Done,
        false => Exit::Evidence,
    };
    if context.json {
        out.json(&InspectOutput {
            schema: "threadseal.thread-inspect/1",
            databases: shown,
        });
        return Ok(exit);
    }
    for database in &shown {
        let path = Clean(&database.path);
        match database.faults.as_slice() {
            [] if context.quiet => {}
            [] => out.line(format_args!("{path}: {} rows, no fault", database.rows)),
            faults => faults.iter().for_each(|fault| {
                let thread = fault.thread.as_deref().unwrap_or("-");
                let (thread, message) = (Clean(thread), Clean(&fault.message));
                out.line(format_args!("{path}: {} {thread}: {message}", fault.code));
            }),
        }
        if database.more > 0 {
            out.line(format_args!("{path}: {} more", database.more));
        }
    }
    Ok(exit)
}

/// Holds the rows of our own threads against what their `thread.json` says, where that verifies. A registry that is
/// damaged has told so already.
fn against_metadata(
    path: &Path,
    project: &Project,
    context: &Context,
    inspection: &mut Inspection,
) -> Result<(), Failure> {
    let Ok(listing) = SqliteRegistry::view(path, |view| view.list(&Filter::default())) else {
        return Ok(());
    };
    let root = project.root().to_owned();
    let local = Local::to(std::slice::from_ref(&root), false, context);
    let trust = gather::gather(&[], None, &local, context)?;
    let host = context.host()?;
    for row in listing.threads.iter().filter(|row| row.record.is_some()) {
        let folder = project.thread(&row.id);
        if context.fs.symlink_metadata(&folder.metadata()).is_err() {
            continue;
        }
        let found = match ThreadMeta::read(&host, &folder, &row.id, None, &trust) {
            Ok(meta) => contradictions(row, meta.get().status, &meta.get().directive),
            Err(error) => vec![Fault {
                code: "metadata_refused",
                thread: Some(row.id.to_string()),
                message: error.to_string(),
            }],
        };
        inspection.faults.extend(found);
    }
    Ok(())
}

fn database(path: String, inspection: Inspection) -> DatabaseOutput {
    let faults = inspection.faults.into_iter().map(|fault| FaultOutput {
        code: fault.code,
        thread: fault.thread,
        message: fault.message,
    });
    DatabaseOutput {
        path,
        rows: inspection.rows,
        faults: faults.collect(),
        more: inspection.more,
    }
}
