//! `log restart`: another log in the place of one that does not go on.

use super::init::{self, LogArgs};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::seal_log;
use clap::Args;

/// What `log restart` takes.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    init: LogArgs,
    /// Also when nothing is wrong with the log
    #[arg(long)]
    anyway: bool,
}

/// Makes the log; its first entry holds the last checkpoint of the one before.
pub(super) fn run(args: &RestartArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let places = seal_log::places(&home, context)?;
    let good = match places.current() {
        Ok(None) => {
            return Err(Failure::new(
                "this home has no log; run: threadseal log init".to_owned(),
            ));
        }
        Ok(Some(description)) => {
            let log = seal_log::of(&home, places.clone(), description, context)?;
            log.fault().is_ok_and(|fault| fault.is_none())
        }
        Err(_) => false,
    };
    if good && !args.anyway {
        return Err(Failure::new(
            "nothing is wrong with this log; --anyway ends it all the same".to_owned(),
        ));
    }
    let past = places
        .past()?
        .ok_or_else(|| Failure::new("nothing is left of a log".to_owned()))?;
    let before = past.tree.size;
    let (description, key) = init::describe(&home, &places, &args.init, context)?;
    places.restart(past, &description, &key)?;
    if !context.json && !context.quiet {
        out.line(format_args!(
            "the log before had {before} entries, as far as is known"
        ));
    }
    init::tell(&description, context, out);
    Ok(Exit::Done)
}
