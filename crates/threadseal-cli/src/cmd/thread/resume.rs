//! `thread resume`: a successor continues a verified record, and nothing else.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in, told};
use crate::exit::{Failure, Outcome};
use crate::orders::OrderArgs;
use crate::output::Out;
use clap::Args;
use threadseal_core::record::ThreadId;
use threadseal_runtime::runner::{ResumeMode, Resumption};
use threadseal_runtime::toolbox::Cancel;

/// What `thread resume` takes.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The thread, or any other thread of its chain
    #[arg(value_name = "THREAD")]
    thread: String,
    /// Message to the agent
    #[arg(long, short, value_name = "TEXT")]
    message: String,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &ResumeArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let wanted = wanted(&args.thread, &args.message, &args.engine, cancel)?;
    let fleet = args.order.open(&args.engine, context)?;
    let engine = engine_in(&args.engine, context, fleet.as_ref())?;
    if let Some(fleet) = fleet {
        let lasts = args.order.lasts()?;
        let given = fleet.resume(&engine, &wanted, ResumeMode::Resume, lasts)?;
        let cancel = &wanted.cancel;
        return args
            .order
            .follow(&fleet, &given, &engine, cancel, context, out);
    }
    told(&engine, &engine.resume(&wanted)?, context, out)
}

/// The requested continuation.
///
/// # Errors
/// When the thread's name or a limit is invalid.
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
