//! Members of directives, shown by their threads.

use super::super::settings::{a_thread_that_pays, a_thread_that_reads, two_children};
use super::searches;
use super::*;
use crate::config::Config;
use crate::directive::Directive;
use crate::model::{Catalogue, Wish};
use crate::testing::prelude::Heard;

pub(super) const ROWS: &[Group] = &[
    group(
        "part of a directive",
        a_directive,
        r#"
        name     => <directive HEAD>META</directive> => <directive name="tell" version="1">META</directive>
        version  => <directive HEAD>META</directive> => <directive name="say" version="2.0">META</directive>
        extends  => <directive HEAD>META</directive> => <directive HEAD extends="demo/base">META</directive>
        metadata => <directive HEAD></directive>     => <directive HEAD>META</directive>
        inputs   => <directive HEAD>META</directive> => <directive HEAD>META<inputs><input name="who" required="true"/></inputs></directive>
        outputs  => <directive HEAD>META</directive> => <directive HEAD>META<outputs><output name="path"/></outputs></directive>
        permissions => <directive HEAD>META</directive> => <directive HEAD>META<permissions>*</permissions></directive>
        process  => <directive HEAD>META</directive> => <directive HEAD>META<process/></directive>
        success_criteria => <directive HEAD>META</directive> => <directive HEAD>META<success_criteria/></directive>
        template => <directive HEAD>META</directive> => <directive HEAD>META<template/></directive>
        example  => <directive HEAD>META</directive> => <directive HEAD>META<example/></directive>
        raw      => <directive HEAD>META</directive> => <directive HEAD>META<raw/></directive>"#,
    ),
    group(
        "part of a directive",
        searches::a_directive,
        "description => => META<description>A heron.</description>",
    ),
    group(
        "element of the metadata",
        searches::a_directive,
        "description => => <description>A heron.</description>META
         author      => => <author>B. Heron</author>META",
    ),
    group(
        "element of the metadata",
        with_metadata,
        r#"
        category    => CAT => <category>other</category>
        limits      => CAT => CAT<limits turns="0"/>
        permissions => CAT HOOK => CAT HOOK ECHO
        context     => CAT => CAT<context><before>demo/rules</before></context>
        hooks       => CAT ECHO => CAT ECHO HOOK
        tags        => CAT => CAT<tags/>
        license     => CAT => CAT<license/>
        runtime     => CAT => CAT<runtime/>
        relationships => CAT => CAT<relationships/>"#,
    ),
    group(
        "element of the metadata",
        its_model,
        r#"
        model       => => <model id="b"/>
        model_class => => <model_class id="b"/>"#,
    ),
    group(
        "element of the metadata",
        its_successor,
        "continuation_directive => => <continuation_directive>demo/onward</continuation_directive>",
    ),
    group(
        "attribute of `<model>`",
        its_model,
        r#"
        tier     => => <model tier="fast"/>
        id       => => <model id="b"/>
        provider => => <model provider="far"/>
        fallback => <model id="locked"/> => <model id="locked" fallback="b"/>"#,
    ),
    group(
        "attribute of `<limits>`",
        |text| limited(text, a_thread_that_reads),
        r#"
        turns  => => turns="1"
        tokens => => tokens="300""#,
    ),
    group(
        "attribute of `<limits>`",
        |text| limited(text, a_thread_that_pays),
        r#"
        spend  => => spend="0.0001"
        spend_currency => spend="0.5" spend_currency="USD" => spend="0.5" spend_currency="EUR""#,
    ),
    group(
        "attribute of `<limits>`",
        |text| limited(text, two_children),
        r#"
        spawns => => spawns="1"
        depth  => => depth="0""#,
    ),
    group(
        "attribute of `<limits>`",
        time_of_a_thread,
        r#"duration_seconds => => duration_seconds="1""#,
    ),
    group(
        "element of `<context>`",
        with_metadata,
        "system   => CAT => CAT<context><system>demo/rules</system></context>
         before   => CAT => CAT<context><before>demo/rules</before></context>
         after    => CAT => CAT<context><after>demo/rules</after></context>
         suppress => CAT => CAT<context><suppress>demo/list</suppress></context>",
    ),
    group(
        "element of `<permissions>`",
        permitted,
        "execute => <execute><tool>x</tool></execute> => <execute><tool>demo.echo</tool></execute>
         search  => => <search><knowledge>*</knowledge></search>
         load    => => <load><knowledge>demo.rules</knowledge></load>
         sign    => => <sign><knowledge>demo.rules</knowledge></sign>
         fetch   => => <fetch><knowledge>*</knowledge></fetch>",
    ),
    group(
        "element of `<permissions>`",
        risky,
        r#"acknowledge => ECHO => ECHO<acknowledge risk="echoes">It is mine.</acknowledge>"#,
    ),
    group(
        "element of an operation",
        permitted,
        "tool      => <execute><tool>x</tool></execute> => <execute><tool>demo.*</tool></execute>
         directive => <execute><tool>x</tool></execute> => <execute><directive>demo/child</directive></execute>
         knowledge => <load><knowledge>x</knowledge></load> => <load><knowledge>demo/rules</knowledge></load>",
    ),
    group(
        "attribute of `<input>`",
        asked_with_inputs,
        r#"
        name     => name="what" => name="who"
        type     => name="who" => name="who" type="integer"
        required => name="other" => name="other" required="true"
        default  => name="other" => name="other" default="RULES""#,
    ),
    group(
        "type of an input or output",
        values_of_a_type,
        "string  => array  => string
         boolean => string => boolean
         object  => string => object
         array   => string => array
         integer => string => integer
         number  => string => number",
    ),
    group(
        "attribute of `<output>`",
        returned,
        r#"
        name     => <output name="other"/> => <output name="path"/>
        type     => <output name="path"/> => <output name="path" type="array"/>
        required => <output name="path"/><output name="note"/> => <output name="path"/><output name="note" required="true"/>
        default  => <output name="path"/><output name="note"/> => <output name="path"/><output name="note" default="none"/>"#,
    ),
    group(
        "other element of `<outputs>`",
        returned,
        "success => <path/> => <path/><success>It is there.</success>
         any other, without attributes => <other/> => <path/>",
    ),
    group(
        "other element of `<outputs>`",
        fails,
        "failure => => <failure>It is not there.</failure>",
    ),
];

const ECHO: &str = "<execute><tool>demo.echo</tool></execute>";
const HOOK: &str = r#"<hooks><hook id="own" event="after_complete"><action primary="execute" item_type="tool" item_id="demo/echo"/></hook></hooks>"#;

/// A scene in which hooks add LIST to each system prompt, and RULES where the version is 2.0.
fn scene() -> Scene {
    let scene = Scene::new();
    knowledge(&scene);
    let adds = |id: &str, condition: &str| {
        format!(
            "- {{id: {id}, event: build_system_prompt, {condition}action: {{primary: execute, item_type: knowledge, item_id: demo/{id}}}}}\n"
        )
    };
    let (list, rules) = (
        adds("list", ""),
        adds("rules", "condition: {path: version, value: '2.0'}, "),
    );
    scene.file(
        ".ai/config/agent/hooks.yaml",
        format!("hooks:\n{list}{rules}"),
    );
    let base = "<context><before>demo/alt</before></context>";
    scene.directive("demo/base", base, "", "Base.");
    scene.directive("demo/child", "", "", "I am a child.");
    scene
}

/// Writes `demo/say`.
fn write(scene: &Scene, xml: &str) {
    let text = format!("```xml\n{xml}\n```\n\nPROMPT {{input:who?}}{{input:other?}}\n");
    scene.file(".ai/directives/demo/say.md", text);
}

/// The whole of a directive with this metadata and these sections.
fn whole(metadata: &str, rest: &str) -> String {
    format!(
        "<directive name=\"say\" version=\"1\"><metadata>{metadata}</metadata>{rest}</directive>"
    )
}

const GREETS: &str =
    "answers: [{calls: [{tool: directive_return, input: {path: p}}]}, {text: Gladly.}]";

/// A thread of `demo/say`, as its record shows it, and what people are shown.
fn runs(scene: &Scene, script: &str, inputs: Value) -> String {
    let mut engine = scene.engine_with(script, vec![ok("demo/echo")]);
    let heard = Arc::new(Heard::default());
    engine.services.watch = Arc::clone(&heard) as _;
    let ran = engine.run(&ordered("demo/say", inputs));
    let mut shown = account(scene, &ran);
    for notice in heard.notices() {
        let (_, text) = notice.split_once(": ").unwrap();
        shown.push_str(&format!("; a person is shown: {text}"));
    }
    shown
}

fn a_directive(xml: &str) -> String {
    let scene = scene();
    let meta = "<metadata><category>demo</category></metadata>";
    let xml = xml.replace("META", meta);
    write(&scene, &xml.replace("HEAD", "name=\"say\" version=\"1\""));
    runs(&scene, GREETS, json!({}))
}

fn with_metadata(metadata: &str) -> String {
    let scene = scene();
    let metadata = metadata
        .replace("CAT", "<category>demo</category>")
        .replace("HOOK", HOOK)
        .replace("ECHO", &format!("<permissions>{ECHO}</permissions>"));
    write(&scene, &whole(&metadata, ""));
    runs(&scene, GLADLY, json!({}))
}

/// The tools that a thread with these permissions is shown, and its children.
fn permitted(permissions: &str) -> String {
    let scene = scene();
    let metadata = format!("<category>demo</category><permissions>{permissions}</permissions>");
    write(&scene, &whole(&metadata, ""));
    let call = "{tool: rye_execute, input: {item_type: directive, item_id: demo/child}}";
    let script = format!("answers: [{{calls: [{call}]}}, {{text: Here.}}, {{text: Done.}}]");
    let engine = scene.engine_with(&script, vec![ok("demo/echo")]);
    let ran = engine.run(&order("demo/say")).unwrap().completed();
    let file = scene.text(scene.project.thread(&ran.thread).capabilities());
    let definitions = file
        .split("```json\n")
        .nth(1)
        .unwrap()
        .split("\n```")
        .next();
    let tools: Value = serde_json::from_str(definitions.unwrap()).unwrap();
    let tools: Vec<&str> = tools.each("name").into_iter().map(Json::text).collect();
    let held = &scene.events(&ran.thread)[0]["payload"]["capabilities"];
    format!(
        "it holds {held}, is shown {}, and starts {} children",
        tools.join(", "),
        ran.cost.spawns
    )
}

/// A thread whose call of `demo/echo` is a risk that blocks it.
fn risky(permissions: &str) -> String {
    let scene = scene();
    let risk = "risk_levels: {echoes: {policy: block}}\nclassifications: [{risk: echoes, patterns: [rye.execute.tool.demo.*]}]\n";
    scene.file(".ai/config/agent/capability_risk.yaml", risk);
    let permissions = permissions.replace("ECHO", ECHO);
    let metadata = format!("<category>demo</category><permissions>{permissions}</permissions>");
    write(&scene, &whole(&metadata, ""));
    runs(&scene, GLADLY, json!({}))
}

// T-DEC-22
#[test]
fn an_acknowledged_risk_that_no_class_has_is_an_error() {
    let why = risky(r#"ECHO<acknowledge risk="echos">It is mine.</acknowledge>"#);
    let expected = r#"acknowledges the risk "echos", which is none; hint: the risks of"#;
    assert!(why.contains(expected) && why.contains("echoes"), "{why}");
}

/// The model of a thread. `a` and `c` are near, `b` is far, the key of `locked` is not there.
fn its_model(model: &str) -> String {
    let scene = scene();
    let prices = "prices: {input: 1, output: 1}";
    let one =
        |id: &str, provider: &str| format!("- {{id: {id}, provider: {provider}, {prices}}}\n");
    let models: String = [
        ("a", "near"),
        ("b", "far"),
        ("c", "near"),
        ("locked", "shut"),
    ]
    .map(|(id, provider)| one(id, provider))
    .concat();
    let says = |text| {
        format!(
            "{{adapter: script, conversations: [{{when: PROMPT, answers: [{{text: I am {text}.}}]}}]}}"
        )
    };
    let text = format!(
        "providers:\n  near: {}\n  far: {}\n  shut: {{adapter: openai, key_env: NO_SUCH_KEY}}\n\
         models:\n{models}tiers: {{general: [a, b], fast: [c]}}\n",
        says("near"),
        says("far"),
    );
    scene.seal(".ai/config/agent/models.yaml", &text);
    write(
        &scene,
        &whole(&format!("<category>demo</category>{model}"), ""),
    );
    let mut engine = scene.engine(GLADLY);
    let config = Config::load(&scene.finder(), &scene.grounds()).unwrap();
    engine.services.models = Arc::new(Catalogue::new(
        config.models,
        config.agent,
        Wish::default(),
        9000,
        Arc::default(),
    ));
    match engine.run(&order("demo/say")) {
        Err(why) => local(&scene, &format!("refused: {why}")),
        Ok(ran) => {
            let answer = scene.verified(&ran.thread).one("cognition_out").clone();
            format!(
                "{} answers: {}",
                answer["model"].text(),
                answer["text"].text()
            )
        }
    }
}

/// The first message of the successor of a thread with this metadata.
fn its_successor(metadata: &str) -> String {
    let scene = scene();
    let names = [
        "original_directive",
        "original_directive_body",
        "previous_thread_id",
        "continuation_message",
    ];
    let inputs = names
        .map(|name| format!("<input name=\"{name}\"/>"))
        .concat();
    let inputs = format!("<inputs>{inputs}</inputs>");
    let words = "ONWARD with {input:original_directive}: {input:continuation_message}";
    scene.directive("demo/onward", "", &inputs, words);
    let metadata = format!("<category>demo</category>{metadata}");
    write(&scene, &whole(&metadata, ""));
    let first = scene.engine(GLADLY).run(&order("demo/say")).unwrap();
    let second = scene.resume(&first.thread, GLADLY).unwrap();
    let events = scene.verified(&second.thread);
    let asked = events.one("cognition_in")["text"].text();
    format!(
        "its first message has {} bytes: {}",
        asked.len(),
        asked.lines().last().unwrap()
    )
}

/// A thread of a reader with these limits.
fn limited(limits: &str, seen: fn(&mut Scene) -> String) -> String {
    let mut scene = Scene::new();
    scene.reader("demo/say", &format!("<limits {limits}/>"), "Say it.");
    scene.file("notes.txt", "some notes ".repeat(40));
    seen(&mut scene)
}

/// A thread whose tool takes three seconds.
fn time_of_a_thread(limits: &str) -> String {
    let scene = scene();
    let slow = "tool_type: command\ncommand: [/bin/sleep, \"3\"]\n";
    scene.file(".ai/tools/demo/slow.yaml", slow);
    let rights = "<permissions><execute><tool>demo.slow</tool></execute></permissions>";
    let metadata = format!("<category>demo</category>{rights}<limits {limits}/>");
    write(&scene, &whole(&metadata, ""));
    let script = "answers: [{calls: [{tool: demo_slow}]}, {text: Done.}]";
    let ran = scene.engine(script).run(&order("demo/say")).unwrap();
    ran.status.to_string()
}

fn with_sections(sections: &str) -> Scene {
    let scene = scene();
    write(&scene, &whole("<category>demo</category>", sections));
    scene
}

/// A thread that is given `who`, and no other input.
fn asked_with_inputs(attributes: &str) -> String {
    let other = match attributes.contains("\"who\"") {
        true => "",
        false if attributes.contains("\"other\"") => "<input name=\"who\"/>",
        false => "<input name=\"else\"/>",
    };
    let scene = with_sections(&format!("<inputs><input {attributes}/>{other}</inputs>"));
    runs(&scene, GLADLY, json!({"who": "ALT"}))
}

/// The values that an input of this type takes.
fn values_of_a_type(of: &str) -> String {
    let inputs = format!("<inputs><input name=\"who\" type=\"{of}\"/></inputs>");
    let text = format!(
        "```xml\n{}\n```\n",
        whole("<category>demo</category>", &inputs)
    );
    let directive = Directive::parse("say.md", &text).unwrap();
    let values = [
        json!("a"),
        json!(true),
        json!({"a": 1}),
        json!([1]),
        json!(1),
        json!(1.5),
    ];
    let taken = values.into_iter().filter_map(|value| {
        let given = Map::from_iter([("who".to_owned(), value)]);
        let taken = directive.resolve_inputs(&given).ok()?;
        Some(taken["who"].to_string())
    });
    let taken: Vec<String> = taken.collect();
    format!("it takes {}", taken.join(", "))
}

/// A thread that returns `path` once, and then answers.
fn returned(outputs: &str) -> String {
    let scene = with_sections(&format!("<outputs>{outputs}</outputs>"));
    runs(&scene, GREETS, json!({}))
}

/// A thread whose model fails.
fn fails(outputs: &str) -> String {
    let scene = with_sections(&format!("<outputs>{outputs}</outputs>"));
    let script = "answers: [{error: {status: 401, message: no}}]";
    runs(&scene, script, json!({}))
}
