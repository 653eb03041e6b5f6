//! `thread status`: prints the status from the registry, and from `thread.json` if that verifies.

use super::show::{known, unknown};
use super::{in_registry, word};
use crate::context::Context;
use crate::engine::{records, refuse_evidence};
use crate::exit::{Exit, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal_core::record::ThreadId;
use threadseal_runtime::registry::Registry as _;

/// What `thread status` takes.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// The thread
    thread: String,
    /// Print the status of this thread, not of its last successor
    #[arg(long)]
    itself: bool,
}

#[derive(Serialize)]
struct StatusOutput<'a> {
    schema: &'static str,
    asked: &'a str,
    thread_id: &'a str,
    status: &'a str,
    /// Does `thread.json` verify, and state this status?
    verified: bool,
    /// Is it marked as running, and is its process gone?
    orphaned: bool,
}

pub(super) fn run(args: &StatusArgs, context: &Context, out: &mut Out) -> Outcome {
    let project = args.project.open(context)?;
    let id = ThreadId::parse(&args.thread)?;
    let fleet = args.database.open(context)?;
    let thread = match (&fleet, args.itself) {
        (Some(fleet), true) => fleet.registry().get(&id)?.ok_or_else(|| unknown(&id))?,
        (Some(fleet), false) => fleet.registry().resolve(&id)?,
        (None, itself) => in_registry(context, &project, &id, |view| match itself {
            true => known(view, &id),
            false => view.resolve(&id),
        })?,
    };
    // Without a home no key is trusted, and only the registry gives a status.
    let records = records(&args.project, context, fleet.as_ref()).ok();
    let said = records
        .as_ref()
        .and_then(|records| records.status(&thread.id).ok());
    let verified = said.as_ref().is_some_and(|said| said["verified"] == true);
    if let (Some(records), false) = (&records, verified) {
        refuse_evidence(records, &thread.id)?;
    }
    let status = match (&said, verified) {
        (Some(said), true) => said["status"].as_str().unwrap_or_default(),
        _ => word(&thread),
    };
    let orphaned = match (&records, &fleet) {
        (Some(records), None) => records.is_orphaned(&thread)?,
        _ => false,
    };
    if orphaned && !context.quiet {
        complain(&format!(
            "note: its process is gone; hint: threadseal thread recover {}",
            Clean(thread.id.as_str())
        ));
    }
    if context.json {
        out.json(&StatusOutput {
            schema: "threadseal.thread.status/1",
            asked: id.as_str(),
            thread_id: thread.id.as_str(),
            status,
            verified,
            orphaned,
        });
    } else if thread.id == id {
        out.line(Clean(status));
    } else {
        out.line(format_args!(
            "{}  {}",
            Clean(status),
            Clean(thread.id.as_str())
        ));
    }
    Ok(Exit::Done)
}
