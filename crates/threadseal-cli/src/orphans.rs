//! Threads whose process is gone, before a command begins a new one (`orphan_detection`).

use crate::context::Context;
use crate::exit::complain;
use crate::render::clean::Clean;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_runtime::runner::{Engine, Found, Healed};

/// Ends them as the settings ask, and names each on standard error.
///
/// # Errors
/// When registry or budgets cannot be read or written.
pub(crate) fn end_orphans(engine: &Engine, context: &Context) -> Result<(), Error> {
    let found = engine.look_for_orphans()?;
    if context.quiet {
        return Ok(());
    }
    match found {
        Found::Off => {}
        Found::Ended(healed) => healed.iter().for_each(name),
        Found::Left(left) => left.iter().for_each(leave),
    }
    Ok(())
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
