//! `thread inspect`.

use super::databases;
use crate::context::Context;
use crate::engine::records;
use crate::exit::{Exit, Failure, Outcome};
use crate::fleet::{DatabaseArgs, Fleet};
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use threadseal_runtime::budget::LateBudgets;
use threadseal_runtime::project::{Layout, Project};
use threadseal_runtime::registry::{Filter, Inspection};
use threadseal_runtime::runner::orchestrator::Records;
use threadseal_runtime::{budget, registry};

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

/// Exits 1 if a database contains an impossible row.
pub(super) fn run(args: &InspectArgs, context: &Context, out: &mut Out) -> Outcome {
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    let found = match &fleet {
        Some(fleet) => in_fleet(fleet, &records)?,
        None => in_files(&records, context)?,
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
            schema: "threadseal.thread.inspect/1",
            databases: shown,
        });
        return Ok(exit);
    }
    for database in &shown {
        let path = Clean(&database.path);
        match database.faults.as_slice() {
            [] if context.quiet => {}
            [] => {
                let rows = counted(database.rows, "row", "rows");
                out.line(format_args!("{path}: {rows}, no fault"));
            }
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

fn in_files(records: &Records, context: &Context) -> Result<Vec<(String, Inspection)>, Failure> {
    let project = &records.project;
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let (own, found) = (
        project.registry(Layout::Seed),
        databases(context, project, Project::registry)?,
    );
    let mut inspected = Vec::new();
    if !found.contains(&own) {
        // A deleted registry must not hide threads: records without a row are reported.
        let mut inspection = Inspection::default();
        records.audit(&[], &records.left()?, None, &mut inspection)?;
        if !inspection.faults.is_empty() {
            inspected.push((name(&own), inspection));
        }
    }
    for path in found {
        let mut inspection = registry::inspect(&path)?;
        // A damaged registry was reported already.
        if path == own
            && let Ok(listing) = records.registry.list(&Filter::default())
        {
            let budgets = LateBudgets::new(Arc::clone(&context.fs), project.budgets(Layout::Seed));
            let (rows, left) = (listing.threads, records.left()?);
            records.audit(&rows, &left, Some(&budgets), &mut inspection)?;
        }
        inspected.push((name(&path), inspection));
    }
    for path in databases(context, project, Project::budgets)? {
        inspected.push((name(&path), budget::inspect(&path)?));
    }
    Ok(inspected)
}

fn in_fleet(fleet: &Fleet, records: &Records) -> Result<Vec<(String, Inspection)>, Failure> {
    let mut found = fleet.inspect()?;
    let rows = records.registry.list(&Filter::default())?.threads;
    let (_, budgets) = fleet.books()?;
    records.audit(&rows, &fleet.left()?, Some(&*budgets), &mut found[0].1)?;
    let named = found.map(|(table, inspection)| (format!("{}#{table}", fleet.place()), inspection));
    Ok(named.into())
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
