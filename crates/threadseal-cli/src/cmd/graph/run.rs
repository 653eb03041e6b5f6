//! `graph run`: runs a graph, in a thread of its own, to its end.
//!
//! ```text
//! threadseal graph run demo/pipeline --input dir=out
//!   standard error    progress: steps, tools, the turns of threads that it starts
//!   standard output   its return value; with --json its whole result
//! ```
//! With --database a worker on any machine runs it (`threadseal worker`).
//!
//! Exits 0 if it completed, also with errors, 3 if it is suspended, else 2.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine_in, told, typed};
use crate::exit::Outcome;
use crate::orders::OrderArgs;
use crate::orphans;
use crate::output::Out;
use clap::Args;
use threadseal_runtime::item::ItemId;
use threadseal_runtime::runner::GraphOrder;
use threadseal_runtime::toolbox::Cancel;

/// What `graph run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The graph's id: demo/pipeline is .ai/graphs/demo/pipeline.yaml, or the same path below
    /// .ai/tools
    #[arg(value_name = "GRAPH")]
    graph: String,
    /// An input of the graph: text if it is declared as text, else JSON if it parses as JSON
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
    let graph = ItemId::parse(&args.graph)?;
    let given = typed(&args.inputs, "--input")?;
    let limits = args.engine.limits()?;
    let fleet = args.order.open(&args.engine, context)?;
    let engine = engine_in(&args.engine, context, fleet.as_ref())?;
    let order = GraphOrder {
        inputs: engine.graph_inputs(&graph, &given)?,
        graph,
        limits,
        cancel,
    };
    if let Some(fleet) = fleet {
        let given = fleet.put_graph(&engine, &order, args.order.lasts()?)?;
        let cancel = &order.cancel;
        return args
            .order
            .follow(&fleet, &given, &engine, cancel, context, out);
    }
    orphans::settle(&engine, &order.cancel, context)?;
    let ran = engine.run_graph(&order)?;
    told(&engine, &ran, context, out)
}
