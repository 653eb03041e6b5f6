//! `thread resume`: a successor goes on with a record that verifies, and with nothing else.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, told};
use crate::exit::Outcome;
use crate::output::Out;
use clap::Args;
use threadseal::record::ThreadId;
use threadseal_runtime::runner::Resumption;
use threadseal_runtime::toolbox::Cancel;

/// What `thread resume` takes.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The thread, or any other one of its chain
    #[arg(value_name = "THREAD")]
    thread: String,
    /// What to do next
    #[arg(long, short, value_name = "TEXT")]
    message: String,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Resumes the thread.
pub(super) fn run(args: &ResumeArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let wanted = Resumption {
        thread: ThreadId::parse(&args.thread)?,
        message: args.message.clone(),
        limits: args.engine.limits()?,
        cancel,
    };
    let ran = engine(&args.engine, context)?.resume(&wanted)?;
    Ok(told(&ran, context, out))
}
