//! Threads whose process is gone, before a command begins a new one (`orphan_detection`).

use crate::context::Context;
use crate::engine::as_configured;
use crate::exit::complain;
use crate::render::clean::Clean;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::cancel::Cancel;
use threadseal_runtime::runner::{Engine, Found, Healed, Recovered, ResumedOrphan};

/// Ends them and resumes them as the settings ask, and names each on standard error.
///
/// # Errors
/// When registry or budgets cannot be read or written.
pub(crate) fn settle(engine: &Engine, cancel: &Cancel, context: &Context) -> Result<(), Error> {
    match engine.look_for_orphans()? {
        Found::Ended(healed) => {
            if !context.quiet {
                healed.iter().for_each(name);
            }
            drop(resume(engine, cut_off(&healed), cancel, context));
        }
        Found::Left(left) if !context.quiet => left.iter().for_each(leave),
        Found::Off | Found::Left(_) => {}
    }
    Ok(())
}

/// The threads that were cut off, and got their end now.
pub(crate) fn cut_off(healed: &[Healed]) -> impl Iterator<Item = &ThreadId> {
    let was_cut_off = |end: &Recovered| end.was_cut_off;
    let ended = healed
        .iter()
        .filter(move |one| one.end.as_ref().is_ok_and(was_cut_off));
    ended.map(|one| &one.id)
}

/// Resumes those of `ended` that the settings have resumed, with the models of the settings, and
/// names each on standard error.
pub(crate) fn resume<'a>(
    engine: &Engine,
    ended: impl Iterator<Item = &'a ThreadId>,
    cancel: &Cancel,
    context: &Context,
) -> Vec<ResumedOrphan> {
    let resumed = as_configured(engine).resume_orphans(ended, cancel);
    if !context.quiet {
        resumed.iter().for_each(tell);
    }
    resumed
}

fn tell(resumed: &ResumedOrphan) {
    let before = Clean(resumed.before.as_str());
    complain(&match &resumed.ran {
        Ok(ran) => format!(
            "note: {before} was resumed as {}: {}",
            Clean(ran.thread.as_str()),
            ran.status.as_str()
        ),
        Err(why) => format!(
            "warning: {before} was not resumed: {}",
            Clean(&why.to_string())
        ),
    });
}

fn name(healed: &Healed) {
    let id = Clean(healed.id.as_str());
    let recovered = match &healed.end {
        Ok(recovered) => recovered,
        Err(why) => {
            return complain(&format!(
                "warning: {id} has no process, and was not ended: {}",
                Clean(&why.to_string())
            ));
        }
    };
    let mut text = format!(
        "note: the process of {id} is gone; it ended as {}",
        recovered.status.as_str()
    );
    let open = recovered.unresolved.len();
    if open > 0 {
        text += &format!(", with {open} calls of unknown outcome");
    }
    if let Some(tail) = &recovered.tail {
        text += &format!(
            "; bytes after its last seal are in {}",
            Clean(&tail.display().to_string())
        );
    }
    complain(&text);
}

fn leave(id: &ThreadId) {
    complain(&format!(
        "note: the process of {0} is gone; hint: threadseal thread recover {0}",
        Clean(id.as_str())
    ));
}
