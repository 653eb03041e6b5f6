//! `thread inspect`.

use super::databases;
use crate::context::Context;
use crate::engine::ProjectArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::fleet::DatabaseArgs;
use crate::gather;
use crate::local::Local;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use threadseal::error::Error;
use threadseal_runtime::fleet::Fleet;
use threadseal_runtime::identity::Identity;
use threadseal_runtime::project::Project;
use threadseal_runtime::registry::{
    Fault, Filter, Inspection, Registry as _, SqliteRegistry, Thread, contradictions,
};
use threadseal_runtime::thread_meta::ThreadMeta;
use threadseal_runtime::{budget, registry};
use threadseal_store::host::Host;

/// What `thread inspect` takes.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
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
    let found = match args.database.open(context)? {
        Some(fleet) => in_fleet(&fleet, &project, context)?,
        None => in_files(&project, context)?,
    };
    let shown: Vec<DatabaseOutput> = found
        .into_iter()
        .map(|(path, inspection)| database(path, inspection))
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

fn in_files(project: &Project, context: &Context) -> Result<Vec<(String, Inspection)>, Failure> {
    let mut found = Vec::new();
    let name = |path: &Path| path.to_string_lossy().into_owned();
    for path in databases(context, project, Project::registry)? {
        let mut inspection = registry::inspect(&path)?;
        // A registry that is damaged has told so already.
        if let Ok(listing) = SqliteRegistry::view(&path, |view| view.list(&Filter::default())) {
            let host = context.host()?;
            against_metadata(&listing.threads, project, &host, context, &mut inspection)?;
        }
        found.push((name(&path), inspection));
    }
    for path in databases(context, project, Project::budgets)? {
        found.push((name(&path), budget::inspect(&path)?));
    }
    Ok(found)
}

fn in_fleet(
    fleet: &Fleet,
    project: &Project,
    context: &Context,
) -> Result<Vec<(String, Inspection)>, Failure> {
    let mut found = fleet.inspect()?;
    let listing = fleet.registry().list(&Filter::default())?;
    let host = fleet.host(&context.host()?, project.root(), None)?;
    let project = &fleet.project(project)?;
    against_metadata(&listing.threads, project, &host, context, &mut found[0].1)?;
    let named = found.map(|(table, inspection)| (format!("{}#{table}", fleet.place()), inspection));
    Ok(named.into())
}

/// Holds the rows of our own threads against the project that their records name, and against what their `thread.json`
/// says, where that verifies.
fn against_metadata(
    rows: &[Thread],
    project: &Project,
    host: &Host,
    context: &Context,
    inspection: &mut Inspection,
) -> Result<(), Failure> {
    let root = project.root().to_owned();
    let local = Local::to(std::slice::from_ref(&root), false, context);
    let trust = gather::gather(&[], None, &local, context)?;
    let fault = |code, thread: Option<String>, error: Error| Fault {
        code,
        thread,
        message: error.to_string(),
    };
    let identity = match Identity::read(host, project, &trust) {
        Ok(identity) => Some(identity),
        Err(error) => {
            let refused = fault("project_refused", None, error);
            inspection.faults.push(refused);
            None
        }
    };
    for row in rows.iter().filter(|row| row.record.is_some()) {
        let folder = project.thread(&row.id);
        let stray = identity
            .as_ref()
            .and_then(|identity| identity.stray(host, project, &row.id));
        let thread = Some(row.id.to_string());
        inspection
            .faults
            .extend(stray.map(|error| fault("foreign", thread, error)));
        if host.fs.symlink_metadata(&folder.metadata()).is_err() {
            continue;
        }
        let found = match ThreadMeta::read(host, &folder, &row.id, None, &trust) {
            Ok(meta) => {
                let meta = meta.get();
                contradictions(row, meta.status, &meta.directive, meta.cost.as_ref())
            }
            Err(error) => vec![fault("metadata_refused", Some(row.id.to_string()), error)],
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
