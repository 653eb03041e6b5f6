//! `thread handoff`: a successor continues with as much of a verified record as fits, and with a
//! summary if one is configured.

use super::resume::wanted;
use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in, told};
use crate::exit::Outcome;
use crate::orders::OrderArgs;
use crate::output::Out;
use clap::Args;
use threadseal_runtime::runner::ResumeMode;
use threadseal_runtime::toolbox::Cancel;

/// The default message.
const GO_ON: &str = "Go on with the directive where the conversation above ends.";

/// What `thread handoff` takes.
#[derive(Debug, Args)]
pub(crate) struct HandoffArgs {
    /// The thread, or any other thread of its chain
    #[arg(value_name = "THREAD")]
    thread: String,
    /// Message to the agent [default: continue with the directive]
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &HandoffArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let message = args.message.as_deref().unwrap_or(GO_ON);
    let wanted = wanted(&args.thread, message, &args.engine, cancel)?;
    let fleet = args.order.open(&args.engine, context)?;
    let engine = engine_in(&args.engine, context, fleet.as_ref())?;
    if let Some(fleet) = fleet {
        let lasts = args.order.lasts()?;
        let given = fleet.resume(&engine, &wanted, ResumeMode::HandOver, lasts)?;
        let cancel = &wanted.cancel;
        return args
            .order
            .follow(&fleet, &given, &engine, cancel, context, out);
    }
    told(&engine, &engine.handoff(&wanted)?, context, out)
}
