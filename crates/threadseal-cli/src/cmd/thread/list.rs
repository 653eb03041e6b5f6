//! `thread list`.

use super::{Row, databases, word};
use crate::context::Context;
use crate::engine::records;
use crate::exit::{Exit, Outcome, complain};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::project::ProjectArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use serde::Serialize;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::project::Project;
use threadseal_runtime::project_id::Identity;
use threadseal_runtime::registry::{Filter, Listing, Registry as _, SqliteRegistry, Thread};
use threadseal_runtime::runner::orchestrator::Records;
use threadseal_runtime::status::Status;

/// What `thread list` takes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Only threads with this status; repeatable
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,
    /// Only threads that have not ended
    #[arg(long, conflicts_with = "status")]
    active: bool,
    /// Only threads of this directive
    #[arg(long, value_name = "NAME")]
    directive: Option<String>,
    /// Only children of this thread
    #[arg(long, value_name = "THREAD")]
    parent: Option<String>,
    /// Maximum number of threads
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Serialize)]
struct ListOutput<'a> {
    schema: &'static str,
    project: String,
    threads: Vec<Row<'a>>,
    /// Threads whose record names another project.
    foreign: Vec<&'a str>,
    /// Threads that are marked as running, and whose process is gone.
    orphaned: Vec<&'a str>,
    unusable: u64,
}

pub(super) fn run(args: &ListArgs, context: &Context, out: &mut Out) -> Outcome {
    let fleet = args.database.open(context)?;
    let records = records(&args.project, context, fleet.as_ref())?;
    let project = &records.project;
    let parent = args.parent.as_deref().map(ThreadId::parse).transpose()?;
    let statuses = match args.active {
        true => Filter::active().statuses,
        false => args.status.clone(),
    };
    let filter = Filter {
        statuses,
        directive: args.directive.clone(),
        parent,
        limit: Some(args.limit),
    };
    let (mut threads, mut unusable) = (Vec::new(), 0);
    let mut take = |listing: Listing| {
        threads.extend(listing.threads);
        unusable += listing.unusable;
    };
    match &fleet {
        Some(fleet) => take(fleet.registry().list(&filter)?),
        None => {
            for path in databases(context, project, Project::registry)? {
                take(SqliteRegistry::view(&path, |view| view.list(&filter))?);
            }
        }
    }
    threads.sort_by(|a, b| b.created_at.cmp(&a.created_at));
    threads.truncate(args.limit);
    let foreign = foreign(&records, &threads);
    let orphaned = match &fleet {
        None => orphaned(&records, &threads)?,
        // The leases of a database show whether a worker is alive.
        Some(_) => Vec::new(),
    };
    if context.json {
        out.json(&ListOutput {
            schema: "threadseal.thread.list/1",
            project: project.root().to_string_lossy().into_owned(),
            threads: threads.iter().map(Row::of).collect(),
            foreign,
            orphaned,
            unusable,
        });
        return Ok(Exit::Done);
    }
    for thread in &threads {
        let id = &thread.id.as_str();
        let mark = match (foreign.contains(id), orphaned.contains(id)) {
            (true, _) => "  foreign",
            (_, true) => "  its process is gone",
            _ => "",
        };
        out.line(format_args!("{}{mark}", line(thread)));
    }
    if !orphaned.is_empty() {
        out.line(format_args!(
            "{} marked as running without a process; hint: threadseal thread recover --all",
            orphaned.len()
        ));
    }
    if unusable > 0 {
        out.line(format_args!(
            "{unusable} left out: their ids cannot be used as paths; hint: threadseal thread inspect"
        ));
    }
    Ok(Exit::Done)
}

/// The threads whose line 1 names another project: this project does not resume them.
fn foreign<'t>(records: &Records, threads: &'t [Thread]) -> Vec<&'t str> {
    let (host, project) = (&records.host, &records.project);
    let identity = match Identity::read(host, project, &records.trust) {
        Ok(identity) => identity,
        Err(error) => {
            complain(&format!("warning: {}", Clean(&error.to_string())));
            return Vec::new();
        }
    };
    let strays = threads
        .iter()
        .filter(|thread| identity.stray(host, project, &thread.id).is_some());
    strays.map(|thread| thread.id.as_str()).collect()
}

/// The threads that are marked as running, and whose process is gone.
fn orphaned<'t>(records: &Records, threads: &'t [Thread]) -> Result<Vec<&'t str>, Error> {
    let mut found = Vec::new();
    for thread in threads {
        if records.is_orphaned(thread)? {
            found.push(thread.id.as_str());
        }
    }
    Ok(found)
}

fn line(thread: &Thread) -> String {
    let tokens = thread.input_tokens.saturating_add(thread.output_tokens);
    format!(
        "{:<21}  {}  {}  {}  ${}  {}",
        Clean(word(thread)).to_string(),
        Clean(thread.created_at.as_deref().unwrap_or("-")),
        counted(thread.turns, "turn", "turns"),
        counted(tokens, "token", "tokens"),
        thread.spend,
        Clean(thread.id.as_str()),
    )
}
