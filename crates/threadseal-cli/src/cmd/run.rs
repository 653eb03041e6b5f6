//! `run`: a directive, in a thread of its own, to its end.
//!
//! ```text
//! threadseal run demo/greet --input name=Ada
//!   standard error    what happens: turns, tokens, money, tools (a line each, or one line on a terminal)
//!   standard output   what the thread said and returned; with --json its whole result
//! ```
//! 0 when the thread completed, 3 when it is suspended, else 2. Ctrl-C cancels it: it ends, sealed.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, pairs, told};
use crate::exit::Outcome;
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
    /// An input of the directive; JSON where it reads as such, else text
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the directive.
pub(super) fn run(args: &RunArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let order = Order {
        directive: ItemId::parse(&args.directive)?,
        inputs: pairs(&args.inputs, "--input")?,
        limits: args.engine.limits()?,
        cancel,
    };
    let ran = engine(&args.engine, context)?.run(&order)?;
    Ok(told(&ran, context, out))
}
