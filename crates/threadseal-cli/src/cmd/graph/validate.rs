//! `graph validate`: lists every fault of graphs (`spec/declarations.md` §8).

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_runtime::bounds::MAX_ITEM_BYTES;
use threadseal_runtime::graph::{Fault, Inspection, Severity, inspect};
use threadseal_runtime::place::Place;
use threadseal_store::read::read_small;

/// What `graph validate` takes.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// YAML files of graphs
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct ValidateOutput {
    schema: &'static str,
    graphs: Vec<GraphOutput>,
    errors: usize,
    warnings: usize,
}

#[derive(Serialize)]
struct GraphOutput {
    path: String,
    /// The number of nodes; null if an error keeps the file from being a graph.
    nodes: Option<usize>,
    faults: Vec<FaultOutput>,
}

#[derive(Serialize)]
struct FaultOutput {
    severity: &'static str,
    /// Counted from 1; null if the fault is a missing part.
    line: Option<u64>,
    message: String,
}

/// Prints the faults; exits 1 if one is an error.
pub(super) fn run(args: &ValidateArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut graphs = Vec::new();
    let (mut errors, mut warnings) = (0, 0);
    let mut unread = false;
    for path in &args.files {
        let text = match read(path, context) {
            Ok(text) => text,
            Err(failure) => {
                unread = true;
                complain(&failure.to_string());
                continue;
            }
        };
        let (nodes, faults) = look(path, &text);
        for fault in &faults {
            match fault.severity {
                Severity::Error => errors += 1,
                Severity::Warning => warnings += 1,
            }
            if !context.json {
                out.line(Clean(&fault.to_string()));
            }
        }
        let shown = path.display().to_string();
        if let (Some(nodes), false, false) = (nodes, context.json, context.quiet) {
            let line = format!("{shown}: {nodes} nodes, {} warnings", faults.len());
            out.line(Clean(&line));
        }
        graphs.push(GraphOutput {
            path: shown,
            nodes,
            faults: faults.iter().map(FaultOutput::new).collect(),
        });
    }
    if context.json {
        out.json(&ValidateOutput {
            schema: "threadseal.graph.validate/1",
            graphs,
            errors,
            warnings,
        });
    }
    Ok(match (errors, unread) {
        (0, false) => Exit::Done,
        (0, true) => Exit::NoVerdict,
        _ => Exit::Evidence,
    })
}

fn read(path: &Path, context: &Context) -> Result<String, Failure> {
    let bytes = read_small(&*context.fs, path, MAX_ITEM_BYTES)?;
    String::from_utf8(bytes).map_err(|_| Failure::new("not UTF-8").about(path))
}

/// The number of nodes of a graph without errors, and all faults. A file that is no graph has
/// exactly one fault.
fn look(path: &Path, text: &str) -> (Option<usize>, Vec<Fault>) {
    let file = path.display().to_string();
    match inspect(&file, text) {
        Ok(Inspection { graph, faults }) => (graph.map(|graph| graph.nodes().len()), faults),
        Err(error) => {
            let (place, message) = Place::new(&file).split(&error);
            let fault = Fault {
                severity: Severity::Error,
                place,
                message,
            };
            (None, vec![fault])
        }
    }
}

impl FaultOutput {
    fn new(fault: &Fault) -> Self {
        Self {
            severity: match fault.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            line: Some(fault.place.line()).filter(|line| *line > 0),
            message: fault.message.clone(),
        }
    }
}
