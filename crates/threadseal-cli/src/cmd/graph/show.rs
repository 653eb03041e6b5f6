//! `graph show`: a run according to its verified record: status, nodes, state.

use crate::context::Context;
use crate::engine::{HoldArgs, holding};
use crate::exit::{Exit, Outcome};
use crate::fleet::DatabaseArgs;
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde_json::{Value, json};
use threadseal_core::record::ThreadId;
use threadseal_runtime::graph_state::Standing;

/// What `graph show` takes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    hold: HoldArgs,
}

pub(super) fn run(args: &ShowArgs, context: &Context, out: &mut Out) -> Outcome {
    let id = ThreadId::parse(&args.run)?;
    let fleet = args.database.open(context)?;
    let engine = holding(&args.hold, context, fleet.as_ref())?;
    let shown = match &fleet {
        Some(fleet) => fleet.looking(&engine)?.show_graph(&id)?,
        None => engine.show_graph(&id)?,
    };
    let course = &shown.course;
    let visits: Vec<Value> = course
        .visits()
        .into_iter()
        .map(|visit| {
            json!({"node": visit.node, "step": visit.step, "status": visit.status, "action": visit.action,
                   "elapsed_s": visit.elapsed, "error": visit.error, "run": visit.run})
        })
        .collect();
    if context.json {
        out.json(&json!({
            "schema": "threadseal.graph.show/1", "graph_id": course.graph, "graph_run_id": course.run,
            "status": course.standing.as_str(), "current_node": course.at.node(), "step_count": course.step,
            "resumed_from": course.resumed_from, "inputs": course.inputs, "state": course.state,
            "nodes": visits, "unresolved": shown.unresolved, "head": shown.head.to_string(),
            "unsealed_bytes": shown.tail_bytes,
        }));
    } else {
        let (status, node) = (course.standing.as_str(), course.at.node());
        let line = format!("{}  {status}, step {} at {node}", course.run, course.step);
        out.line(Clean(&line));
        for visit in course.visits() {
            let run = visit
                .run
                .map_or(String::new(), |run| format!("  (in {run})"));
            let line = format!(
                "{:>6}  {:<9}  {}  {}{run}",
                visit.step, visit.status, visit.node, visit.action
            );
            out.line(Clean(line.trim_end()));
        }
        for call in &shown.unresolved {
            out.line(Clean(&format!("unresolved  {call}")));
        }
        out.line(Clean(&Value::Object(course.state.clone()).to_string()));
    }
    // A run without an end, and one with an unsealed tail, are not confirmed.
    Ok(match (course.standing, shown.tail_bytes) {
        (Standing::Running, _) => Exit::Unconfirmed,
        (_, 0) => Exit::Done,
        _ => Exit::Unconfirmed,
    })
}
