//! `thread recover`: ends threads whose process is gone, and records why.
//!
//! ```text
//! threadseal thread recover THREAD     this thread, also one whose papers only disagree
//! threadseal thread recover --tree T   its whole tree, children before their parents
//! threadseal thread recover --all      all of the project, or of the database
//! ```
//! With `orphan_detection.action: resume` they are then resumed, but for children, one after the other.
//! Exits 0 if each was ended and resumed, 1 if a record was changed, 3 if one was refused for another
//! reason.

use crate::context::{self, Context};
use crate::engine::{HoldArgs, holding};
use crate::exit::{Exit, Failure, Outcome};
use crate::fleet::DatabaseArgs;
use crate::orphans;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::bounds::LEASE_TIME;
use threadseal_runtime::cancel::Cancel;
use threadseal_runtime::runner::orchestrator::Records;
use threadseal_runtime::runner::{Engine, Healed, Recovered, ResumedOrphan, Scope};

/// What `thread recover` takes.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The thread
    #[arg(value_name = "THREAD", required_unless_present_any = ["all", "tree"])]
    thread: Option<String>,
    /// End all threads of the project whose process is gone; with --database those that no worker holds
    #[arg(long, conflicts_with_all = ["thread", "tree"])]
    all: bool,
    /// End those of the tree of this thread
    #[arg(long, value_name = "THREAD", conflicts_with_all = ["thread", "database"])]
    tree: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

/// Recovers them, and lists the calls whose outcome is unknown.
pub(super) fn run(args: &RecoverArgs, context: &Context, out: &mut Out) -> Outcome {
    let fleet = args.database.open(context)?;
    let engine = holding(&args.hold, context, fleet.as_ref())?;
    let Some(thread) = &args.thread else {
        if let Some(fleet) = &fleet {
            let healed = fleet.recover_all(&engine, &worker(), LEASE_TIME)?;
            return several(&fleet.looking(&engine)?, &healed, &[], context, out);
        }
        let tree = args.tree.as_deref().map(ThreadId::parse).transpose()?;
        let scope = tree.as_ref().map_or(Scope::All, Scope::Tree);
        let healed = engine.heal(scope)?;
        let resumed = resume(&engine, orphans::cut_off(&healed), context)?;
        return several(&engine, &healed, &resumed, context, out);
    };
    let id = ThreadId::parse(thread)?;
    let was_orphan = fleet.is_none() && is_orphaned(&engine, &id)?;
    let recovered = match &fleet {
        Some(fleet) => fleet.recover(&engine, &id, &worker(), LEASE_TIME)?,
        None => engine.recover(&id)?,
    };
    let cut_off = (was_orphan && recovered.was_cut_off).then_some(&id);
    let resumed = resume(&engine, cut_off.into_iter(), context)?;
    if context.json {
        let mut object = members(&id, &recovered, &resumed);
        object["schema"] = "threadseal.thread.recover/1".into();
        out.json(&object);
    } else {
        show(&id, &recovered, "", out);
    }
    Ok(exit_after(Exit::Done, &resumed))
}

/// Is the process of this thread of files gone, before it is recovered?
fn is_orphaned(engine: &Engine, id: &ThreadId) -> Result<bool, Error> {
    let row = engine.services.registry.get(id)?;
    let records = Records::from(&engine.services);
    row.map_or(Ok(false), |row| records.is_orphaned(&row))
}

/// Resumes those of `ended` that the settings have resumed.
fn resume<'a>(
    engine: &Engine,
    ended: impl Iterator<Item = &'a ThreadId>,
    context: &Context,
) -> Result<Vec<ResumedOrphan>, Failure> {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    Ok(orphans::resume(engine, ended, &cancel, context))
}

/// One that was not resumed is a refusal.
fn exit_after(exit: Exit, resumed: &[ResumedOrphan]) -> Exit {
    match exit == Exit::Done && resumed.iter().any(|one| one.ran.is_err()) {
        true => Exit::Unconfirmed,
        false => exit,
    }
}

/// How it is called while it holds an order.
fn worker() -> String {
    format!("recover {}", std::process::id())
}

/// Prints what became of each.
fn several(
    engine: &Engine,
    healed: &[Healed],
    resumed: &[ResumedOrphan],
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let exit = exit_after(exit_of(engine, healed)?, resumed);
    if context.json {
        let each = |one: &Healed| {
            let mut object = match &one.end {
                Ok(recovered) => members(&one.id, recovered, resumed),
                Err(_) => json!({"thread_id": one.id.as_str(), "status": null, "head": null,
                                 "unresolved": [], "tail": null}),
            };
            object["error"] = one.end.as_ref().err().map(ToString::to_string).into();
            object["parent_id"] = one.parent.as_ref().map(ThreadId::as_str).into();
            object
        };
        let threads: Vec<Value> = healed.iter().map(each).collect();
        out.json(&json!({"schema": "threadseal.thread.recover_all/1", "threads": threads}));
        return Ok(exit);
    }
    for one in healed {
        let parent = match &one.parent {
            Some(parent) => format!("  (started by {})", Clean(parent.as_str())),
            None => String::new(),
        };
        match &one.end {
            Ok(recovered) => show(&one.id, recovered, &parent, out),
            Err(why) => out.line(format_args!(
                "refused  {}{parent}: {}",
                Clean(one.id.as_str()),
                Clean(&why.to_string())
            )),
        }
    }
    if healed.is_empty() {
        out.line("nothing to recover: each running thread has its process");
    }
    Ok(exit)
}

/// Evidence against a record counts most.
fn exit_of(engine: &Engine, healed: &[Healed]) -> Result<Exit, Error> {
    let records = Records::from(&engine.services);
    let mut exit = Exit::Done;
    for one in healed.iter().filter(|one| one.end.is_err()) {
        exit = Exit::Unconfirmed;
        if records.evidence(&one.id)?.is_some() {
            return Ok(Exit::Evidence);
        }
    }
    Ok(exit)
}

fn members(id: &ThreadId, recovered: &Recovered, resumed: &[ResumedOrphan]) -> Value {
    let mut object = json!({"thread_id": id.as_str(), "status": recovered.status.as_str(),
           "head": recovered.head.map(|head| head.to_string()), "unresolved": recovered.unresolved,
           "tail": recovered.tail.as_ref().map(|path| path.display().to_string())});
    if let Some(resumed) = resumed.iter().find(|resumed| resumed.before == *id) {
        object["resumed"] = match &resumed.ran {
            Ok(ran) => {
                json!({"thread_id": ran.thread.as_str(), "status": ran.status.as_str(), "error": null})
            }
            Err(why) => json!({"thread_id": null, "status": null, "error": why.to_string()}),
        };
    }
    object
}

fn show(id: &ThreadId, recovered: &Recovered, more: &str, out: &mut Out) {
    out.line(format_args!(
        "{}  {}{more}",
        recovered.status.as_str(),
        Clean(id.as_str())
    ));
    for call in &recovered.unresolved {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        // What that thread did is in its own record.
        let child = match call["child_thread_id"].as_str() {
            Some(child) => format!("  (it began {})", Clean(child)),
            None => String::new(),
        };
        out.line(format_args!(
            "unresolved  {}  {}{child}",
            Clean(&text("item_id")),
            Clean(&text("idempotency_key"))
        ));
    }
    if let Some(tail) = &recovered.tail {
        out.line(format_args!(
            "set aside  {}",
            Clean(&tail.display().to_string())
        ));
    }
}
