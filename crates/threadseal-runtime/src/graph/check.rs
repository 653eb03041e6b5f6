//! Faults of a graph whose parts are all valid: ways that lead nowhere, calls without permission,
//! names without a value.

use super::{Edge, Fault, Graph, GraphNode, NodeKind};
use crate::capability::Call;
use crate::hook_declaration::Primary;
use crate::interpolate::{Template, Tree};
use crate::path::Path;
use crate::place::Place;
use std::collections::{HashMap, HashSet};

/// Names that are there in every node.
const ROOTS: [&str; 5] = ["state", "inputs", "result", "_now", "_timestamp"];
/// Members of the state that the walker puts there.
const STATE: [&str; 3] = ["inputs", "_last_error", "_retries"];

pub(super) fn all(graph: &Graph, faults: &mut Vec<Fault>) {
    ways(graph, faults);
    permissions(graph, faults);
    names(graph, faults);
}

fn ways(graph: &Graph, faults: &mut Vec<Fault>) {
    let nodes = &graph.nodes;
    let index: HashMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (node.name.as_str(), at))
        .collect();
    let known = |edge: &Edge| index.contains_key(&*edge.to);
    // Where an edge leads to no node, or to one that could not be read, the actual ways are
    // unknown.
    if !nodes.iter().flat_map(GraphNode::edges).all(known) {
        return;
    }
    let leads = |node: &GraphNode| -> Vec<usize> {
        let edges = node.edges();
        edges
            .filter_map(|edge| index.get(&*edge.to).copied())
            .collect()
    };
    let forward: Vec<Vec<usize>> = nodes.iter().map(leads).collect();
    let mut backward = vec![Vec::new(); nodes.len()];
    for (from, targets) in forward.iter().enumerate() {
        targets.iter().for_each(|to| backward[*to].push(from));
    }
    let reached = reach(&forward, index.get(&*graph.start).copied());
    let ends = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.next.is_empty());
    let ending = reach(&backward, ends.map(|(at, _)| at));
    for (at, node) in nodes.iter().enumerate() {
        let message = if !reached[at] {
            "is never reached"
        } else if !ending[at] {
            "does not lead to an end, only to the limit of steps"
        } else {
            node_ways(node, faults);
            continue;
        };
        faults.push(Fault::warning(
            &node.place,
            format!("node `{}` {message}", node.name),
        ));
    }
}

fn node_ways(node: &GraphNode, faults: &mut Vec<Fault>) {
    let is_end = matches!(node.kind, NodeKind::Return(_));
    let message = match node.next.iter().position(|edge| edge.when.is_none()) {
        Some(always) => match node.next.get(always + 1) {
            None => return,
            Some(edge) => {
                let message = "never taken: the edge before it always holds";
                faults.push(Fault::warning(&edge.place, message));
                return;
            }
        },
        None if is_end => return,
        None if node.next.is_empty() => {
            "has no `next`: the graph is complete after it, without output"
        }
        None => "has no edge that always holds: the graph fails if no edge holds",
    };
    faults.push(Fault::warning(
        &node.place,
        format!("node `{}` {message}", node.name),
    ));
}

/// Which nodes can be reached from these.
fn reach(edges: &[Vec<usize>], from: impl IntoIterator<Item = usize>) -> Vec<bool> {
    let mut seen = vec![false; edges.len()];
    let mut open: Vec<usize> = from.into_iter().collect();
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut seen[at], true) {
            open.extend(&edges[at]);
        }
    }
    seen
}

/// A call that is known now must be permitted now. A call whose id is a template is checked when it
/// is made.
fn permissions(graph: &Graph, faults: &mut Vec<Fault>) {
    for action in graph.nodes.iter().filter_map(GraphNode::action) {
        if !action.item_id.is_plain() {
            continue;
        }
        let Ok(id) = action.item_id.render_text(&serde_json::Value::Null) else {
            continue;
        };
        let named = Some(id.as_str()).filter(|_| action.primary != Primary::Search);
        let call = Call::new(action.primary.as_str(), action.item_type.as_str(), named);
        match call {
            Ok(call) if graph.permissions.permits(&call) => {}
            Ok(call) => {
                let message = format!("`permissions` do not contain {call}");
                faults.push(Fault::error(&action.place, message));
            }
            Err(error) => faults.push(Fault::error(&action.place, error.to_string())),
        }
    }
}

fn names(graph: &Graph, faults: &mut Vec<Fault>) {
    let mut known: HashSet<&str> = STATE.into_iter().collect();
    known.extend(graph.state.keys().map(String::as_str));
    for node in &graph.nodes {
        known.extend(node.assign.iter().map(|(name, _)| name.as_str()));
        if let NodeKind::Foreach(foreach) = &node.kind {
            known.extend(foreach.collect.as_deref());
            known.insert(&foreach.item);
        }
    }
    for node in &graph.nodes {
        let item = match &node.kind {
            NodeKind::Foreach(foreach) => Some(foreach.item.as_str()),
            _ => None,
        };
        let mut told = HashSet::new();
        for (path, place) in paths(node) {
            let [root, rest @ ..] = path.parts() else {
                continue;
            };
            let message = if root == "state" {
                match rest.first() {
                    Some(member) if !known.contains(&**member) => {
                        format!("`{member}` is never assigned in the state")
                    }
                    _ => continue,
                }
            } else if ROOTS.contains(&&**root) || Some(&**root) == item {
                continue;
            } else {
                format!("no value here has the name `{root}`")
            };
            if told.insert(message.clone()) {
                faults.push(Fault::warning(place, message));
            }
        }
    }
}

/// Every path that the node looks at, and where.
fn paths(node: &GraphNode) -> Vec<(&Path, &Place)> {
    let mut templates: Vec<&Template> = Vec::new();
    let mut trees: Vec<&Tree> = node.assign.iter().map(|(_, tree)| tree).collect();
    if let NodeKind::Foreach(foreach) = &node.kind {
        templates.push(&foreach.over);
    }
    if let NodeKind::Return(Some(output)) = &node.kind {
        trees.push(output);
    }
    if let Some(action) = node.action() {
        templates.push(&action.item_id);
        trees.push(&action.params);
    }
    templates.extend(trees.into_iter().flat_map(Tree::templates));
    let mut paths: Vec<(&Path, &Place)> = Vec::new();
    for template in templates {
        paths.extend(template.paths().map(|path| (path, template.place())));
    }
    for edge in &node.next {
        let when = edge.when.iter().flat_map(|condition| condition.paths());
        paths.extend(when.map(|path| (path, &edge.place)));
    }
    paths
}
