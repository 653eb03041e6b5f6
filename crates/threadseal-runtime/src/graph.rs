//! State graphs: the order of nodes, as declared, and its faults.
//!
//! ```yaml
//! tool_type: graph
//! permissions: [rye.execute.tool.*]
//! config_schema: {type: object, …}
//! config:
//!   start: first
//!   nodes:
//!     first:  {action: {…}, assign: {x: "${result.stdout}"},
//!              next: [{to: each, when: {…}}, {to: done}]}
//!     each:   {type: foreach, over: "${state.list}", as: item, action: {…},
//!              collect: all, next: done}
//!     done:   {type: return, output: {x: "${state.x}"}}
//! ```
//! [`inspect`] names every fault with its line; [`Graph::parse`] yields only graphs without errors.
//!
//! Normative: `spec/declarations.md` §8. Elsewhere: walking them.

mod check;
mod declaration;
mod read;
use crate::yaml;
pub use declaration::{Edge, Fault, Foreach, Graph, GraphNode, NodeKind, OnError, Severity};
use threadseal_core::error::Error;

/// The content of a file: the graph, unless a fault is an error, and all faults in the order of
/// their lines.
#[derive(Debug)]
pub struct Inspection {
    /// The graph.
    pub graph: Option<Graph>,
    /// Its faults.
    pub faults: Vec<Fault>,
}

/// Reads a graph and looks for every fault. `file` is named in them.
///
/// # Errors
/// When the file is no YAML of a graph at all; its other faults are in the answer.
pub fn inspect(file: &str, text: &str) -> Result<Inspection, Error> {
    let (graph, mut faults) = read::graph(&yaml::parse(file, text)?)?;
    if let Some(graph) = &graph {
        check::all(graph, &mut faults);
    }
    faults.sort_by_key(|fault| (fault.place.line(), std::cmp::Reverse(fault.severity)));
    let broken = faults.iter().any(|fault| fault.severity == Severity::Error);
    Ok(Inspection {
        graph: graph.filter(|_| !broken),
        faults,
    })
}

impl Graph {
    /// Reads a graph. `file` is named in errors.
    ///
    /// # Errors
    /// Kind `InvalidInput` with all faults that are errors, a line for each.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let Inspection { graph, faults } = inspect(file, text)?;
        graph.ok_or_else(|| {
            let errors = faults
                .iter()
                .filter(|fault| fault.severity == Severity::Error);
            let lines: Vec<String> = errors.map(ToString::to_string).collect();
            Error::invalid(lines.join("\n"))
        })
    }
}

#[cfg(test)]
mod tests;
