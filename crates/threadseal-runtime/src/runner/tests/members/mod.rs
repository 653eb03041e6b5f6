//! Each member of directives, conditions, templates, hooks, tools and graphs has an effect: what
//! happens without it, and with it.
//!
//! The members are those of the tables of `spec/declarations.md` §§2 to 6 and 8. The tests fail for
//! one that has no row here, and print all rows into `docs/members.md`.

mod decisions;
mod directives;
mod expressions;
mod graphs;
mod hooks;
mod searches;
mod tools;

use super::shown_effects::{Page, Specified, compare, spans, specified};
use crate::testing::prelude::*;

/// Rows of one table of the specification that are seen in one way. A row has the member, and what
/// is declared without and with it.
struct Group {
    of: &'static str,
    seen: fn(&str) -> String,
    rows: &'static str,
}

const fn group(of: &'static str, seen: fn(&str) -> String, rows: &'static str) -> Group {
    Group { of, seen, rows }
}

/// The chapters of the specification, each with its rows.
const CHAPTERS: [(&str, &[Group]); 4] = [
    ("Directives", directives::ROWS),
    ("Conditions and templates", expressions::ROWS),
    ("Hooks", hooks::ROWS),
    ("Tools and graphs", tools::ROWS),
];

fn groups() -> impl Iterator<Item = &'static Group> {
    let chapters = CHAPTERS.into_iter().flat_map(|(_, groups)| groups);
    chapters.chain(graphs::ROWS)
}

// T-DEC-22
#[test]
fn each_member_of_a_declaration_has_an_effect() {
    let mut page = Page::new(
        "# What each member does\n\n\
         Each row is a run of a test: what happens without the member, and with it. The members are\n\
         described in [`declarations.md`](../spec/declarations.md), sections 2 to 6 and 8.\n\
         Words in capitals are parts of the test: the rest of a file, or a text that is looked for.\n\n",
    );
    page.table(&["of", "member", "declared", "without", "with"]);
    for group in groups() {
        for [member, without, with] in rows(group.rows) {
            let seen = [&without, &with].map(|text| (group.seen)(text));
            page.row([group.of, &named(group.of, &member)], &with, &seen);
        }
    }
    decisions::show(&mut page);
    page.check("members.md");
}

// T-DEC-22
#[test]
fn each_member_of_the_specification_has_a_row_and_no_row_another() {
    let mut members = specified("## 2. ", "## 7. ");
    members.extend(specified("## 8. ", "## 9. "));
    members.retain(|row| row.of != decisions::TABLE);
    let members: Vec<_> = members.iter().flat_map(names).collect();
    assert!(members.len() > 200, "{}", members.len());
    let shown = groups().flat_map(|group| {
        let names = rows::<3>(group.rows).into_iter();
        names.map(|[name, _, _]| (group.of.to_owned(), name))
    });
    compare(&members, &shown.collect(), |member, row| member == row);
}

/// The names of a row of the specification: the texts between backticks of its first cell, or that
/// cell, where it is a sentence.
fn names(row: &Specified) -> Vec<(String, String)> {
    let first = row.cells[0].clone();
    let found: Vec<String> = match is_sentence(&row.of) || !first.starts_with('`') {
        true => vec![first],
        false => spans(&first).map(ToOwned::to_owned).collect(),
    };
    let of = |name| (row.of.clone(), name);
    found.into_iter().map(of).collect()
}

/// Has the table sentences in its first column?
fn is_sentence(of: &str) -> bool {
    matches!(of, "error" | "warning")
}

/// The name of a row as the page has it.
fn named(of: &str, name: &str) -> String {
    match is_sentence(of) || name.contains(' ') && !name.contains('{') {
        true => name.to_owned(),
        false => format!("`{}`", name.replace('|', "\\|")),
    }
}

/// How a thread or a run ended, or why it did not begin.
fn ended(scene: &Scene, ran: &Result<Ran, Error>) -> String {
    match ran {
        Ok(Ran {
            status,
            error: Some(why),
            ..
        }) => format!("{status}: {}", local(scene, why)),
        Ok(ran) => ran.status.to_string(),
        Err(why) => format!("refused: {}", local(scene, &why.to_string())),
    }
}

/// A message without the folder of the project, and without a measured time.
fn local(scene: &Scene, text: &str) -> String {
    let root = format!("{}/", scene.project.root().display());
    let late = "duration_seconds_exceeded";
    match text.starts_with(late) {
        true => late.to_owned(),
        false => text.replace(&root, ""),
    }
}

/// The marks of a text, in their order.
fn marks(text: &str) -> String {
    const MARKS: [&str; 6] = ["RULES", "ALT", "LIST", "PROMPT", "ONWARD", "BASE"];
    let found = MARKS.iter().flat_map(|mark| text.match_indices(mark));
    let mut found: Vec<(usize, &str)> = found.collect();
    found.sort_unstable();
    let found: Vec<&str> = found.into_iter().map(|(_, mark)| mark).collect();
    found.join(" ")
}

/// The knowledge that directives and hooks add.
fn knowledge(scene: &Scene) {
    for mark in ["RULES", "ALT", "LIST"] {
        let path = format!(".ai/knowledge/demo/{}.md", mark.to_lowercase());
        scene.file(&path, format!("{mark}\n"));
    }
}

/// What the record of a thread shows: each fact that is there.
fn account(scene: &Scene, ran: &Result<Ran, Error>) -> String {
    let mut facts = vec![ended(scene, ran)];
    let Ok(ran) = ran else { return facts.remove(0) };
    let events = scene.verified(&ran.thread);
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            facts.push(format!("{name} {value}"));
        }
    };
    for system in events.of("system_prompt") {
        fact("system prompt:", marks(system["text"].text()));
    }
    if let Some(asked) = events.of("cognition_in").first() {
        let text = asked["text"].text();
        let element = match text.contains("<knowledge") {
            true => ", with an element around knowledge",
            false => "",
        };
        fact("first message:", format!("{}{element}", marks(text)));
    }
    for risk in events.of("risk_acknowledged") {
        let texts = ["risk", "reason"].map(|name| risk[name].text());
        fact("risk_acknowledged", format!("({})", texts.join(", ")));
    }
    fact("calls by hooks:", calls(&events));
    for failed in events.of("hook_failed") {
        fact("a hook failed:", failed["error"].text().to_owned());
    }
    if let Some(outputs) = &ran.outputs {
        fact("outputs:", Value::Object(outputs.clone()).to_string());
    }
    for warning in &ran.warnings {
        fact("warning:", local(scene, warning));
    }
    facts.join("; ")
}

/// The calls of hooks in a record: each with the event, the hook, the item and its input.
fn calls(events: &Events) -> String {
    let calls = events.of("hook_call_start").into_iter().map(|call| {
        let word = |name: &str| call[name].text().to_owned();
        let input = match call["input"].as_object().is_some_and(Map::is_empty) {
            true => String::new(),
            false => format!(" {}", call["input"]),
        };
        let item = format!("{} {}", word("item_type"), word("item_id"));
        let (hook, primary) = (word("hook"), word("primary"));
        format!("{hook} at {}: {primary} {item}{input}", word("event"))
    });
    calls.collect::<Vec<_>>().join(", ")
}
