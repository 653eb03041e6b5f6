//! State graphs.
//!
//! * Inspection never panics. Its faults are the same each time, in the order of their lines.
//! * A graph is returned exactly when no fault is an error.
//! * A returned graph can be walked: its start and every edge lead to existing nodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use threadseal_runtime::graph::{Graph, Severity, inspect};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(inspection) = inspect("fuzz.yaml", text) else {
        assert!(Graph::parse("fuzz.yaml", text).is_err());
        return;
    };
    let again = inspect("fuzz.yaml", text).expect("read twice alike");
    assert_eq!(again.faults, inspection.faults);
    let lines: Vec<_> = inspection.faults.iter().map(|fault| fault.place.line()).collect();
    assert!(lines.is_sorted(), "{lines:?}");
    let broken = inspection.faults.iter().any(|fault| fault.severity == Severity::Error);
    assert_eq!(inspection.graph.is_none(), broken);
    assert_eq!(Graph::parse("fuzz.yaml", text).is_err(), broken);
    let Some(graph) = inspection.graph else {
        return;
    };
    assert!(graph.start().is_some());
    for node in graph.nodes() {
        assert!(std::ptr::eq(graph.node(&node.name).expect("it is there"), node), "two of one name");
        for edge in node.edges() {
            assert!(graph.node(&edge.to).is_some(), "{} leads to {}", node.name, edge.to);
        }
    }
});
