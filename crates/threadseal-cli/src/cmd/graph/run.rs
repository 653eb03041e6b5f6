//! `graph run`: a graph, in a thread of its own, to its end.
//!
//! ```text
//! threadseal graph run demo/pipeline --input dir=out
//!   standard error    what happens: steps, tools, the turns of threads that it starts
//!   standard output   what it returns; with --json its whole result
//! ```
//! 0 when it completed, 3 when it is suspended, else 2; also where it completed with errors.

use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, told, typed};
use crate::exit::Outcome;
use crate::output::Out;
use clap::Args;
use threadseal_runtime::item::ItemId;
use threadseal_runtime::runner::GraphOrder;
use threadseal_runtime::toolbox::Cancel;

/// What `graph run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The graph's id: demo/pipeline is .ai/graphs/demo/pipeline.yaml, or that below .ai/tools
    #[arg(value_name = "GRAPH")]
    graph: String,
    /// An input of the graph: text as it stands where that is declared, else JSON where it reads as such
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the graph.
pub(super) fn run(args: &RunArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let graph = ItemId::parse(&args.graph)?;
    let given = typed(&args.inputs, "--input")?;
    let limits = args.engine.limits()?;
    let engine = engine(&args.engine, context)?;
    let order = GraphOrder {
        inputs: engine.graph_inputs(&graph, &given)?,
        graph,
        limits,
        cancel,
    };
    let ran = engine.run_graph(&order)?;
    Ok(told(&ran, context, out))
}
