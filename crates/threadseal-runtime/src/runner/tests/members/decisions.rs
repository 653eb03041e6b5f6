//! The decisions of hooks: each that the specification permits changes the end of a thread or a
//! graph, and each that it does not is an error of the file.

use super::hooks::{graph_happens, happens, project};
use super::*;
use crate::directive::Directive;
use crate::graph::Graph;
use crate::hook_control::{CONTROL, Control};

/// The first cell of the table of the specification.
pub(super) const TABLE: &str = "decision at";

/// Writes the rows of all decisions.
pub(super) fn show(page: &mut Page) {
    for row in specified("## 5. ", "## 6. ") {
        if row.of != TABLE {
            continue;
        }
        for event in spans(&row.cells[0]) {
            let threads: Vec<&str> = spans(&row.cells[1]).collect();
            let graphs: Vec<&str> = match row.cells.get(2).map(String::as_str) {
                Some("the same") => threads.clone(),
                Some("these, `continue`, `skip`") => threads
                    .iter()
                    .copied()
                    .chain(["continue", "skip"])
                    .collect(),
                Some(cell) => spans(cell).collect(),
                None => Vec::new(),
            };
            for (of, permitted) in [("threads", threads), ("graphs", graphs)] {
                decisions(page, event, of, &permitted);
            }
        }
    }
}

/// The rows of the decisions at one event.
fn decisions(page: &mut Page, event: &str, of: &str, permitted: &[&str]) {
    for control in Control::ALL.map(Control::as_str) {
        let names = [format!("{event} in {of}"), format!("`{control}`")];
        if !permitted.contains(&control) {
            if let Some(why) = refused(event, of, control) {
                let without = "the file is read".to_owned();
                page.row(names.each_ref().map(String::as_str), "", &[without, why]);
            }
            continue;
        }
        // A decision that is the default shows itself in that a later hook is not asked.
        let later = match control {
            "fail" => String::new(),
            _ => decides("later", "fail", event),
        };
        let first = decides("first", control, event);
        let seen = [later.clone(), format!("{first}{later}")];
        let seen = seen.map(|hooks| end(event, of, &hooks));
        page.row(names.each_ref().map(String::as_str), "", &seen);
    }
}

/// A hook with a decision, once where it is to do something again.
fn decides(id: &str, control: &str, event: &str) -> String {
    let once = match (control, event) {
        ("retry", "directive_return") => "condition: {path: cost.turns, op: lt, value: 2}, ",
        ("retry", _) => "condition: {path: attempt, op: lt, value: 2}, ",
        _ => "",
    };
    format!(
        "{{id: {id}, event: {event}, layer: 0, {once}action: {{primary: execute, item_type: tool, item_id: {CONTROL}, \
         params: {{action: {control}, error: {id}}}}}}}, "
    )
}

/// How a thread or a graph with these hooks ends.
fn end(event: &str, of: &str, hooks: &str) -> String {
    let scene = project(hooks.trim_end_matches(", "));
    let (scene, _, ran) = match of {
        "graphs" => graph_happens(scene, event),
        _ => happens(scene, event),
    };
    let events = scene.verified(&ran.thread);
    let asks = ["escalation_requested", "limit_escalation_requested"];
    let asks = match asks.iter().any(|kind| events.count(kind) > 0) {
        true => ", a person is asked",
        false => "",
    };
    let turns = ran.cost.turns;
    format!("{} after {turns} turns{asks}", ended(&scene, &Ok(ran)))
}

/// Why a file that decides so is refused; None where its event happens elsewhere alone.
fn refused(event: &str, of: &str, control: &str) -> Option<String> {
    let action = format!(
        "primary: execute, item_type: tool, item_id: {CONTROL}, params: {{action: {control}}}"
    );
    let why = match of {
        "graphs" => Graph::parse(
            "g.yaml",
            &format!(
                "tool_type: graph\npermissions: [rye.*]\nconfig:\n  start: a\n  \
                 hooks: [{{id: h, event: {event}, action: {{{action}}}}}]\n  nodes: {{a: {{type: return}}}}\n"
            ),
        )
        .why(),
        _ => Directive::parse(
            "d.md",
            &format!(
                "```xml\n<directive name=\"d\" version=\"1\"><metadata><hooks><hook id=\"h\" event=\"{event}\">\
                 <action primary=\"execute\" item_type=\"tool\" item_id=\"{CONTROL}\">\
                 <param name=\"action\">{control}</param></action></hook></hooks></metadata></directive>\n```\n"
            ),
        )
        .why(),
    };
    if why.contains("is never asked at") {
        return None;
    }
    why.has("cannot be decided at");
    Some(why)
}
