//! `run`: runs a directive, in a thread of its own, to its end.
//!
//! ```text
//! threadseal run demo/greet --input name=Ada
//!   standard error    progress: turns, tokens, money, tools (one line on a terminal)
//!   standard output   the thread's text and result; with --json its whole result
//! ```
//! With --database a worker on any machine runs it (`threadseal worker`). The order is signed by
//! this home's key, and the result is that of the record.
//!
//! Exits 0 if the thread completed, 3 if it is suspended, 1 if the record of a child was changed
//! meanwhile, else 2. Ctrl-C cancels it: the thread
//! ends, sealed.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in, told, typed};
use crate::exit::Outcome;
use crate::orders::OrderArgs;
use crate::orphans;
use crate::output::Out;
use clap::Args;
use threadseal_runtime::item::ItemId;
use threadseal_runtime::runner::Order;
use threadseal_runtime::toolbox::Cancel;

/// What `run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The directive's id: demo/greet is .ai/directives/demo/greet.md
    #[arg(value_name = "DIRECTIVE")]
    directive: String,
    /// An input of the directive: text, or JSON if another type is declared
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) fn run(args: &RunArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let order = Order {
        directive: ItemId::parse(&args.directive)?,
        inputs: typed(&args.inputs, "--input")?,
        limits: args.engine.limits()?,
        cancel,
    };
    let fleet = args.order.open(&args.engine, context)?;
    let engine = engine_in(&args.engine, context, fleet.as_ref())?;
    if let Some(fleet) = fleet {
        let given = fleet.put(&engine, &order, args.order.lasts()?)?;
        let cancel = &order.cancel;
        return args
            .order
            .follow(&fleet, &given, &engine, cancel, context, out);
    }
    orphans::settle(&engine, &order.cancel, context)?;
    let ran = engine.run(&order)?;
    told(&engine, &ran, context, out)
}
