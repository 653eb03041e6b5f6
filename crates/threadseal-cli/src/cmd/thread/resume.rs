//! `thread resume`: a successor goes on with a record that verifies, and with nothing else.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, told};
use crate::exit::{Failure, Outcome};
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
    let wanted = wanted(&args.thread, &args.message, &args.engine, cancel)?;
    let ran = engine(&args.engine, context)?.resume(&wanted)?;
    Ok(told(&ran, context, out))
}

/// What shall be gone on with.
///
/// # Errors
/// When the thread's name or a limit is none.
pub(super) fn wanted(
    thread: &str,
    message: &str,
    engine: &EngineArgs,
    cancel: Cancel,
) -> Result<Resumption, Failure> {
    Ok(Resumption {
        thread: ThreadId::parse(thread)?,
        message: message.to_owned(),
        limits: engine.limits()?,
        cancel,
    })
}
