//! Reads the YAML of a graph. A fault of one node does not prevent reading the others.

use super::{Edge, Fault, Foreach, Graph, GraphNode, NodeKind, OnError};
use crate::bounds::{MAX_GRAPH_CONCURRENCY, MAX_GRAPH_NODES, MAX_GRAPH_STEPS};
use crate::capability::Capabilities;
use crate::condition::Condition;
use crate::hook_control::{self, Scope};
use crate::hook_declaration::{Action, HookDeclaration};
use crate::interpolate::{Template, Tree};
use crate::item::IGNORED_MEMBERS;
use crate::limit::Limits;
use crate::place::Place;
use crate::schema::Schema;
use crate::yaml::{Entry, Fields, Node};
use serde_json::Value;
use threadseal_core::error::Error;

const DEFAULT_STEPS: u64 = 100;
const DEFAULT_CONCURRENCY: u64 = 8;

/// The graph, unless a fault keeps it from being one.
pub(super) fn graph(node: &Node) -> Result<(Option<Graph>, Vec<Fault>), Error> {
    let mut faults = Vec::new();
    let mut fields = node.fields()?;
    fields.ignore(&IGNORED_MEMBERS);
    let kind = fields.require("tool_type")?;
    if kind.text()? != "graph" {
        return Err(kind.error("`tool_type` of a graph must be graph"));
    }
    let permissions = keep(permissions(&mut fields), &node.place, &mut faults);
    let config = fields.take("config");
    let head = Head::read(&mut fields).and_then(|head| fields.finish("a graph").map(|()| head));
    let head = keep(head, &node.place, &mut faults);
    let Some(config) = config else {
        faults.push(Fault::error(&node.place, "`config` is missing"));
        return Ok((None, faults));
    };
    let body = Body::read(config, &mut faults);
    let body = keep(body, &node.place, &mut faults);
    let (Some(permissions), Some(head), Some(body)) = (permissions, head, body) else {
        return Ok((None, faults));
    };
    let graph = Graph {
        version: head.version,
        description: head.description,
        permissions,
        limits: head.limits,
        schema: head.schema,
        env_requires: head.env_requires,
        state: body.state,
        hooks: body.hooks,
        max_steps: body.max_steps,
        on_error: body.on_error,
        max_concurrency: body.max_concurrency,
        start: body.start,
        nodes: body.nodes,
    };
    Ok((Some(graph), faults))
}

/// An error of one part becomes a fault; its message names the place.
fn keep<T>(result: Result<T, Error>, file: &Place, faults: &mut Vec<Fault>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let (place, message) = file.split(&error);
            faults.push(Fault::error(&place, message));
            None
        }
    }
}

struct Head {
    version: String,
    description: String,
    limits: Limits,
    schema: Option<Schema>,
    env_requires: Vec<String>,
}

impl Head {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let mut text = |name| match fields.take(name) {
            Some(node) => node.text().map(ToOwned::to_owned),
            None => Ok(String::new()),
        };
        let (version, description) = (text("version")?, text("description")?);
        let limits = match fields.take("limits") {
            Some(node) => {
                let limits = Limits::from_json(&node.to_json());
                limits.map_err(|error| node.error(error))?
            }
            None => Limits::default(),
        };
        Ok(Self {
            version,
            description,
            limits,
            schema: fields
                .take("config_schema")
                .map(Schema::parse)
                .transpose()?,
            env_requires: texts(fields, "env_requires")?,
        })
    }
}

struct Body {
    start: String,
    nodes: Vec<GraphNode>,
    state: serde_json::Map<String, Value>,
    hooks: Vec<HookDeclaration>,
    max_steps: u64,
    on_error: OnError,
    max_concurrency: u64,
}

impl Body {
    fn read(config: &Node, faults: &mut Vec<Fault>) -> Result<Self, Error> {
        let mut fields = config.fields()?;
        fields.ignore(&["description", "comment"]);
        let start = fields.take("start");
        let nodes = fields.require("nodes")?;
        let max_steps = within(&mut fields, "max_steps", MAX_GRAPH_STEPS)?;
        let most = within(&mut fields, "max_concurrency", MAX_GRAPH_CONCURRENCY)?;
        let state = match fields.take("state").map(Node::to_json) {
            None => serde_json::Map::new(),
            Some(Value::Object(state)) => state,
            Some(_) => return Err(config.error("`state` must be a mapping")),
        };
        let hooks = match fields.take("hooks") {
            Some(list) => {
                let hooks = HookDeclaration::list_from_yaml(list)?;
                hook_control::check(&hooks, Scope::Graph)?;
                hooks
            }
            None => Vec::new(),
        };
        let on_error = match fields.take("on_error") {
            None => OnError::Fail,
            Some(node) => match node.text()? {
                "fail" => OnError::Fail,
                "continue" => OnError::Continue,
                _ => return Err(node.error("`on_error` of a graph must be fail or continue")),
            },
        };
        keep(fields.finish("`config`"), &config.place, faults);
        let entries = nodes.entries()?;
        if entries.len() > MAX_GRAPH_NODES {
            let message = format!("a graph has at most {MAX_GRAPH_NODES} nodes");
            return Err(nodes.place.beyond(message));
        }
        let start = start.ok_or_else(|| config.error("`start` is missing"))?;
        let name = start.text()?;
        let known = entries.iter().any(|entry| entry.key == name);
        let nodes = entries
            .iter()
            .filter_map(|entry| keep(graph_node(entry), &config.place, faults));
        let nodes: Vec<GraphNode> = nodes.collect();
        // Where a node could not be read, its fault is known; edges that lead to it are no fault.
        targets(entries, &nodes, faults);
        if !known {
            return Err(start.error(format!("`start`: unknown node `{name}`")));
        }
        Ok(Self {
            start: name.to_owned(),
            nodes,
            state,
            hooks,
            max_steps: max_steps.unwrap_or(DEFAULT_STEPS),
            on_error,
            max_concurrency: most.unwrap_or(DEFAULT_CONCURRENCY),
        })
    }
}

/// Every target is the name of a node.
fn targets(entries: &[Entry], nodes: &[GraphNode], faults: &mut Vec<Fault>) {
    let names: std::collections::HashSet<&str> =
        entries.iter().map(|entry| entry.key.as_str()).collect();
    for node in nodes {
        for edge in node.edges().filter(|edge| !names.contains(&*edge.to)) {
            let message = format!(
                "node `{}` leads to `{}`, which is not a node",
                node.name, edge.to
            );
            faults.push(Fault::error(&edge.place, message));
        }
    }
}

fn permissions(fields: &mut Fields<'_>) -> Result<Capabilities, Error> {
    let place = fields.place().clone();
    let Some(list) = fields.take("permissions") else {
        return Err(place.error("`permissions` is missing: the graph could do nothing"));
    };
    let texts = list.list()?.iter().map(Node::text);
    let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
    if texts.is_empty() {
        return Err(list.error("`permissions` is empty: the graph could do nothing"));
    }
    Capabilities::parse(texts).map_err(|error| list.error(error))
}

fn graph_node(entry: &Entry) -> Result<GraphNode, Error> {
    let name = &entry.key;
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        let message = format!("{name:?} is not a valid node name: use letters, digits and _ - .");
        return Err(entry.place.error(message));
    }
    let mut fields = entry.value.fields()?;
    fields.ignore(&["description", "comment"]);
    let kind = match fields.take("type") {
        Some(node) => node.text()?,
        None => "action",
    };
    let mut node = GraphNode {
        name: name.clone(),
        place: entry.place.clone(),
        kind: NodeKind::Gate,
        next: Vec::new(),
        on_error: None,
        assign: Vec::new(),
        env_requires: Vec::new(),
        cache: false,
        idempotent: false,
    };
    match kind {
        "return" => {
            node.kind = NodeKind::Return(fields.take("output").map(Tree::parse).transpose()?);
        }
        "gate" => {
            node.next = edges(&mut fields)?;
            node.assign = assign(&mut fields)?;
        }
        "action" => {
            node.kind = NodeKind::Action(action(&mut fields, entry)?);
            node.assign = assign(&mut fields)?;
            common(&mut fields, &mut node)?;
        }
        "foreach" => {
            node.kind = NodeKind::Foreach(foreach(&mut fields, entry)?);
            common(&mut fields, &mut node)?;
        }
        other => {
            let message =
                format!("unknown node type `{other}`; known: action, foreach, gate, return");
            return Err(entry.value.error(message));
        }
    }
    fields.finish(&format!("a node of type {kind}"))?;
    Ok(node)
}

/// Reads the members that all nodes with a call have.
fn common(fields: &mut Fields<'_>, node: &mut GraphNode) -> Result<(), Error> {
    node.next = edges(fields)?;
    node.env_requires = texts(fields, "env_requires")?;
    // Later versions of Rye use `cache_result`.
    node.cache = match (fields.take("cache"), fields.take("cache_result")) {
        (Some(_), Some(second)) => {
            return Err(second.error("`cache` and `cache_result` are the same: use one"));
        }
        (flag, second) => flag.or(second).map_or(Ok(false), Node::bool)?,
    };
    node.idempotent = fields.take("idempotent").map_or(Ok(false), Node::bool)?;
    if let Some(target) = fields.take("on_error") {
        node.on_error = Some(Edge {
            to: target.text()?.to_owned(),
            place: target.place.clone(),
            when: None,
        });
    }
    Ok(())
}

fn action(fields: &mut Fields<'_>, entry: &Entry) -> Result<Action, Error> {
    let node = fields
        .take("action")
        .ok_or_else(|| entry.place.error("the node has no `action`"))?;
    Action::from_yaml(node)
}

fn foreach(fields: &mut Fields<'_>, entry: &Entry) -> Result<Foreach, Error> {
    let over = fields
        .take("over")
        .ok_or_else(|| entry.place.error("a foreach node needs `over`"))?;
    let item = match fields.take("as") {
        None => "item".to_owned(),
        Some(node) => match node.text()? {
            "state" | "inputs" | "result" | "" => {
                return Err(node.error("`as` would hide the value of that name"));
            }
            name => name.to_owned(),
        },
    };
    let action = action(fields, entry)?;
    let collect = fields.take("collect").map(Node::text).transpose()?;
    let parallel = fields.take("parallel").map_or(Ok(false), Node::bool)?;
    let max_concurrency = within(fields, "max_concurrency", MAX_GRAPH_CONCURRENCY)?;
    if max_concurrency.is_some() && !parallel {
        let text = "`max_concurrency` needs `parallel: true`";
        return Err(entry.place.error(text));
    }
    Ok(Foreach {
        over: Template::parse(over.text()?, &over.place)?,
        item,
        action,
        collect: collect.map(ToOwned::to_owned),
        parallel,
        max_concurrency,
    })
}

/// A name, or a list of `{to, when}`.
fn edges(fields: &mut Fields<'_>) -> Result<Vec<Edge>, Error> {
    let Some(next) = fields.take("next") else {
        return Ok(Vec::new());
    };
    let Ok(list) = next.list() else {
        return Ok(vec![Edge {
            to: next.text()?.to_owned(),
            place: next.place.clone(),
            when: None,
        }]);
    };
    let edge = |node: &Node| {
        let mut fields = node.fields()?;
        let edge = Edge {
            to: fields.require("to")?.text()?.to_owned(),
            place: node.place.clone(),
            when: fields.take("when").map(Condition::parse).transpose()?,
        };
        fields.finish("an edge")?;
        Ok(edge)
    };
    list.iter().map(edge).collect()
}

fn assign(fields: &mut Fields<'_>) -> Result<Vec<(String, Tree)>, Error> {
    let Some(node) = fields.take("assign") else {
        return Ok(Vec::new());
    };
    let entries = node.entries()?.iter();
    let assigned = entries.map(|entry| match entry.key.as_str() {
        "inputs" => Err(entry
            .place
            .error("`inputs` of the state cannot be assigned")),
        name => Ok((name.to_owned(), Tree::parse(&entry.value)?)),
    });
    assigned.collect()
}

fn texts(fields: &mut Fields<'_>, name: &str) -> Result<Vec<String>, Error> {
    let Some(node) = fields.take(name) else {
        return Ok(Vec::new());
    };
    let items = node.list()?.iter();
    items
        .map(|item| item.text().map(ToOwned::to_owned))
        .collect()
}

fn within(fields: &mut Fields<'_>, name: &str, most: u64) -> Result<Option<u64>, Error> {
    let Some(node) = fields.take(name) else {
        return Ok(None);
    };
    match node.whole()? {
        value @ 1.. if value <= most => Ok(Some(value)),
        _ => Err(node.error(format!("`{name}` is 1 to {most}"))),
    }
}
