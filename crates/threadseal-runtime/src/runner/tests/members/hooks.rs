//! Members of hooks and their calls, and the events at which they are asked.

use super::super::handoffs::reads;
use super::searches;
use super::*;
use crate::config::Config;

pub(super) const ROWS: &[Group] = &[
    group(
        "member of a hook",
        hooked,
        "id        => {id: one, EVENT, ECHO} => {id: two, EVENT, ECHO}
         event     => {id: own, EVENT, ECHO} => {id: own, event: after_complete, ECHO}
         layer     => {id: one, EVENT, ECHO}, {id: two, EVENT, ECHO} => {id: one, layer: 9, EVENT, ECHO}, {id: two, EVENT, ECHO}
         condition => {id: own, EVENT, ECHO} => {id: own, EVENT, condition: {path: turn, op: gt, value: 9}, ECHO}
         action    => {id: own, EVENT} => {id: own, EVENT, ECHO}
         actions   => {id: own, EVENT, ECHO} => {id: own, EVENT, actions: [CALL, CALL]}
         position  => {id: own, STARTED, RULES} => {id: own, STARTED, RULES, position: after}
         wrap      => {id: own, STARTED, RULES} => {id: own, STARTED, RULES, wrap: false}",
    ),
    group(
        "member of a hook",
        searches::a_directive,
        r#"description => => <hooks><hook id="h" event="error"><description>A heron.</description><action primary="execute" item_type="tool" item_id="x"/></hook></hooks>META"#,
    ),
    group(
        "member of a hook",
        searches::a_graph,
        "name => PARTPART => PARThooks: [{id: h, name: A heron., event: error, action: {primary: execute, item_type: tool, item_id: x}}]PART",
    ),
    group(
        "event",
        asked_at,
        "build_system_prompt     => build_system_prompt, NEVER => build_system_prompt
         resolve_extends         => resolve_extends, NEVER => resolve_extends
         thread_started          => thread_started, NEVER => thread_started
         thread_continued        => thread_continued, NEVER => thread_continued
         after_step              => after_step, NEVER => after_step
         error                   => error, NEVER => error
         limit                   => limit, NEVER => limit
         context_limit_reached   => context_limit_reached, NEVER => context_limit_reached
         context_window_pressure => context_window_pressure, NEVER => context_window_pressure
         directive_return        => directive_return, NEVER => directive_return
         after_complete          => after_complete, NEVER => after_complete
         graph_started           => graph_started, NEVER => graph_started
         graph_completed         => graph_completed, NEVER => graph_completed
         graph_error             => graph_error, NEVER => graph_error
         graph_cancelled         => graph_cancelled, NEVER => graph_cancelled",
    ),
    group(
        "member of a call",
        called,
        "primary   => {primary: search, item_type: knowledge, item_id: demo/rules} => {primary: load, item_type: knowledge, item_id: demo/rules}
         item_type => {primary: load, item_type: knowledge, item_id: demo/same} => {primary: load, item_type: directive, item_id: demo/same}
         item_id   => {primary: load, item_type: knowledge, item_id: demo/rules} => {primary: load, item_type: knowledge, item_id: 'demo/${inputs.which}'}
         params    => CALL => {primary: execute, item_type: tool, item_id: demo/echo, params: {n: '${cost.turns}'}}",
    ),
    group(
        "operation",
        called,
        "execute => {primary: load, item_type: directive, item_id: demo/child} => {primary: execute, item_type: directive, item_id: demo/child}
         search  => CALL => {primary: search, item_type: knowledge, item_id: any, params: {query: RULES}}
         load    => CALL => {primary: load, item_type: knowledge, item_id: demo/rules}
         sign    => CALL => {primary: sign, item_type: knowledge, item_id: demo/rules}",
    ),
];

const CALL: &str = "{primary: execute, item_type: tool, item_id: demo/echo}";

/// A project with these hooks, whose `demo/say` may do anything below `demo`.
pub(super) fn project(hooks: &str) -> Scene {
    let scene = Scene::new();
    knowledge(&scene);
    scene.file(".ai/knowledge/demo/same.md", "Knowledge.\n");
    scene.directive("demo/same", "", "", "A directive.");
    scene.directive("demo/child", "", "", "I am a child.");
    let base = "<context><before>demo/list</before></context>";
    scene.directive("demo/base", base, "", "A base.");
    let rights = "<permissions><execute><tool>demo.*</tool><tool>rye.file-system.read</tool>\
                  <directive>demo.*</directive></execute><search>*</search><load>*</load>\
                  <sign>*</sign></permissions>";
    let rest = "<inputs><input name=\"which\" default=\"alt\"/></inputs>\
                <outputs><output name=\"path\"/></outputs>";
    scene.directive("demo/say", rights, rest, "PROMPT");
    scene.file("notes.txt", "some notes ".repeat(40));
    let hooks = format!("hooks: [{hooks}]\n");
    scene.file(".ai/config/agent/hooks.yaml", hooks);
    scene
}

/// A thread with one call, and these hooks.
fn hooked(hooks: &str) -> String {
    let hooks = hooks
        .replace("EVENT", "event: after_step")
        .replace("STARTED", "event: thread_started")
        .replace("ECHO", &format!("action: {CALL}"))
        .replace(
            "RULES",
            "action: {primary: execute, item_type: knowledge, item_id: demo/rules}",
        )
        .replace("CALL", CALL);
    let scene = project(&hooks);
    if let Err(why) = Config::load(&scene.finder(), &scene.grounds()) {
        return local(&scene, &format!("refused: {why}"));
    }
    let script = "answers: [{calls: [{tool: demo_echo}]}, {text: Gladly.}]";
    let engine = scene.engine_with(script, vec![ok("demo/echo")]);
    let ran = engine.run(&order("demo/say"));
    account(&scene, &ran)
}

/// What a call of a hook gives.
fn called(call: &str) -> String {
    let call = call.replace("CALL", CALL);
    let scene = project(&format!(
        "{{id: own, event: after_complete, action: {call}}}"
    ));
    let script = "answers: [{text: Gladly.}, {text: I am the child.}]";
    let engine = scene.engine_with(script, vec![ok("demo/echo")]);
    let ran = engine.run(&order("demo/say")).unwrap().completed();
    let events = scene.verified(&ran.thread);
    let result = events.one("hook_call_result");
    let output = result["output"].text();
    let output = match serde_json::from_str::<Value>(output) {
        Ok(Value::Object(output)) => output,
        _ => return output.to_owned(),
    };
    let facts = output
        .iter()
        .filter_map(|(name, value)| match name.as_str() {
            "head" => Some("a seal".to_owned()),
            "content" | "results" | "result" | "n" => Some(format!("{name} {value}")),
            _ => None,
        });
    let facts: Vec<String> = facts.collect();
    match facts.is_empty() {
        true => "it gives nothing".to_owned(),
        false => format!("it gives {}", facts.join(", ")),
    }
}

/// The calls of a hook at this event, in a thread or graph in which it happens.
fn asked_at(text: &str) -> String {
    let (event, never) = match text.split_once(", NEVER") {
        Some((event, _)) => (event, "condition: {path: none, op: exists}, "),
        None => (text, ""),
    };
    let action = match event {
        "build_system_prompt" => "{primary: execute, item_type: knowledge, item_id: demo/rules}",
        "resolve_extends" => "{primary: execute, item_type: directive, item_id: demo/base}",
        _ => CALL,
    };
    let scene = project(&format!(
        "{{id: own, event: {event}, layer: 0, {never}action: {action}}}"
    ));
    let (scene, engine, ran) = happens(scene, event);
    let ran = Ok(ran);
    let mut asked = listed(&engine)
        .iter()
        .map(|row| calls(&scene.events(&row.id)))
        .filter(|calls| !calls.is_empty())
        .collect::<Vec<_>>();
    asked.sort();
    asked.dedup();
    match event {
        "build_system_prompt" | "resolve_extends" => account(&scene, &ran),
        _ if asked.is_empty() => "it is not asked".to_owned(),
        _ => asked.join(", "),
    }
}

/// A thread or graph run in which this event happens, and its end.
pub(super) fn happens(mut scene: Scene, event: &str) -> (Scene, Engine, Ran) {
    if event.starts_with("graph_") {
        return graph_happens(scene, event);
    }
    const READ: &str = "answers: [{calls: [{tool: demo_echo}]}, {text: Gladly.}, {text: Again.}]";
    let script = match event {
        "error" => "answers: [{error: {status: 400, message: odd}}, {text: Gladly.}]".to_owned(),
        "directive_return" => {
            "answers: [{calls: [{tool: directive_return, input: {path: p}}]}, {text: Gladly.}]"
                .to_owned()
        }
        "context_limit_reached" => reads(6, "Done."),
        _ => READ.to_owned(),
    };
    let mut wanted = order("demo/say");
    match event {
        "context_limit_reached" => {
            scene.window = 2000;
            scene.coordination = "resume_ceiling_tokens: 400\ntrigger_threshold: 0.3".to_owned();
        }
        "context_window_pressure" => scene.window = 3000,
        "limit" => wanted.limits.turns = Some(1),
        _ => {}
    }
    let mut engine = scene.engine_with(&script, vec![ok("demo/echo")]);
    engine
        .services
        .tools
        .extend(scene.engine(&script).services.tools);
    let mut ran = engine.run(&wanted).unwrap();
    if event == "thread_continued" {
        ran = engine.resume(&again(&ran.thread)).unwrap();
    }
    (scene, engine, ran)
}

/// The same for a graph of two calls.
pub(super) fn graph_happens(scene: Scene, event: &str) -> (Scene, Engine, Ran) {
    let call =
        |id: &str| format!("action: {{primary: execute, item_type: tool, item_id: demo/{id}}}");
    let graph = format!(
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  nodes:\n    \
         a: {{{}, next: b}}\n    b: {{{}, next: c}}\n    c: {{type: return, output: {{a: 1}}}}\n",
        call("echo"),
        call("b"),
    );
    scene.graph("g/two", &graph);
    let mut wanted = graph_order("g/two", json!({}));
    let (stop, fails) = (
        wanted.cancel.clone(),
        ["graph_error", "error"].contains(&event),
    );
    let stops = event == "graph_cancelled";
    let tries = Count::default();
    let b = tool("demo/b", move |input| {
        if stops {
            stop.set();
        }
        match fails && tries.add() == 0 {
            true => Outcome::failed("not now"),
            false => Outcome::ok(input.clone()),
        }
    });
    if event == "limit" {
        wanted.limits.duration_seconds = Some(0);
    }
    let engine = scene.engine_with(GLADLY, vec![ok("demo/echo"), b]);
    let ran = engine.run_graph(&wanted).unwrap();
    (scene, engine, ran)
}
