//! `graph resume`: resumes a stopped run from its sealed state, without repeating any call.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in, told};
use crate::exit::Outcome;
use crate::orders::OrderArgs;
use crate::output::Out;
use clap::Args;
use threadseal_core::record::ThreadId;
use threadseal_runtime::runner::{GraphResumption, Unresolved};
use threadseal_runtime::toolbox::Cancel;

/// What `graph resume` takes.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Treat calls with an unknown outcome as made, without a result
    #[arg(long)]
    skip_unresolved: bool,
    /// Treat calls with an unknown outcome as failed
    #[arg(long, alias = "fail", conflicts_with = "skip_unresolved")]
    fail_unresolved: bool,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &ResumeArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let wanted = GraphResumption {
        run: ThreadId::parse(&args.run)?,
        unresolved: match (args.skip_unresolved, args.fail_unresolved) {
            (true, _) => Unresolved::Skip,
            (_, true) => Unresolved::Fail,
            _ => Unresolved::Refuse,
        },
        limits: args.engine.limits()?,
        cancel,
    };
    let fleet = args.order.open(&args.engine, context)?;
    let engine = engine_in(&args.engine, context, fleet.as_ref())?;
    if let Some(fleet) = fleet {
        let given = fleet.resume_graph(&engine, &wanted, args.order.lasts()?)?;
        let cancel = &wanted.cancel;
        return args
            .order
            .follow(&fleet, &given, &engine, cancel, context, out);
    }
    let ran = engine.resume_graph(&wanted)?;
    told(&engine, &ran, context, out)
}
