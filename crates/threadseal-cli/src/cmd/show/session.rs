//! `show SESSION[#TURN]`: a session from the archive, turn by turn, with its state on top.
//!
//! ```text
//! claude-code:3f9c…  sealed, still growing
//!   14 turns, 52 calls, 1.2 M tokens, claude-sonnet-4-5, ~/src/api
//!
//! turn 3  assistant  2026-11-21T20:41:22Z
//!   | I will list the files.
//!   > Bash {"command":"ls"}  ok, 312 bytes
//! ```
//! Calls are folded to one line each; a turn that is named is shown in full. Each text has a margin
//! before it, so that it cannot pass for output of this command.

use super::super::list::{coloured, count_words};
use super::{ShowArgs, show_text};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::{Clean, quoted};
use crate::render::text::counted;
use crate::sessions::{Judge, Named, Sessions, Unlock};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::process::{Command, Stdio};
use threadseal_capture::archive::{ArchiveFs, ArchivedLog};
use threadseal_capture::index::Figures;
use threadseal_capture::state::{LogState, StateKind};
use threadseal_convert::{self as convert, Draft, Mapped, ToolResult};
use threadseal_core::error::ErrorKind;
use threadseal_reader::turns::{Turn, text_of, texts, time_of};
use threadseal_store::read::open_regular;

/// Most characters of a text that is folded.
const FOLDED_CHARS: usize = 120;
/// Most lines of a message that is not named.
const FOLDED_LINES: usize = 24;

#[derive(Serialize)]
struct SessionOutput<'a> {
    schema: &'static str,
    log: String,
    state: &'static str,
    state_text: &'a str,
    project: Option<&'a str>,
    source: Option<&'a str>,
    format: Option<&'static str>,
    sub_agents: Vec<String>,
    /// Lines that hold what looks like a secret.
    secrets: Vec<SecretOutput>,
    turns: Vec<Turn>,
}

#[derive(Serialize)]
struct SecretOutput {
    line: u64,
    rule: String,
}

pub(super) fn run(named: &Named, args: &ShowArgs, context: &Context, out: &mut Out) -> Outcome {
    let sessions = Sessions::open(Unlock::Ask(&args.passphrase), context)?;
    let log = sessions.log(named)?;
    let judge = Judge::of_home(&sessions.home, context)?;
    let state = LogState::of(&log, &sessions.archive, &judge.verifier);
    let turn = args.turn.or(named.turn);
    let newest = log.newest();
    let newest =
        newest.ok_or_else(|| Failure::new(format!("nothing of {} is archived", log.name)))?;
    let source = sessions.archive.read(&log, newest, 0)?;
    let Some(format) = convert::detect(&source) else {
        return lines(&log, &state, turn, &sessions, args, context, out);
    };
    let mapped = match format.map(&source) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            complain(&format!("note: {error}"));
            return lines(&log, &state, turn, &sessions, args, context, out);
        }
        mapped => mapped?,
    };
    let count = mapped.drafts.len() as u64;
    if let Some(turn) = turn.filter(|turn| *turn >= count) {
        let text = format!("{} has no turn {turn}; it has {count}, from 0", log.name);
        return Err(Failure::new(text));
    }
    if context.json {
        json(&log, &state, format.name, &mapped, turn, &sessions, out)?;
        return Ok(Exit::Done);
    }
    let figures = sessions.figures(&log.name)?;
    paged(turn.is_none(), context, out, |out| {
        heading(&log, &state, Some(figures), &sessions, context, out);
        let answers = answers(&mapped);
        for (number, draft) in (0..).zip(mapped.drafts.iter()) {
            if turn.is_none_or(|turn| turn == number) {
                print_turn(number, &draft, &answers, turn.is_some(), context, out);
            }
        }
    })
}

/// A log that no mapping reads, line by line.
fn lines(
    log: &ArchivedLog,
    state: &LogState,
    turn: Option<u64>,
    sessions: &Sessions,
    args: &ShowArgs,
    context: &Context,
    out: &mut Out,
) -> Outcome {
    let Some(newest) = log.newest() else {
        return Ok(Exit::NoVerdict);
    };
    let mut fs = ArchiveFs::new(&sessions.archive);
    let mounted = fs.mount(log, newest, &newest.last());
    let file = open_regular(&fs, &mounted.log)?;
    if context.json {
        super::show_json(args, turn, &file, context, out)?;
        return Ok(Exit::Done);
    }
    heading(log, state, None, sessions, context, out);
    show_text(turn, &file, context, out)?;
    Ok(Exit::Done)
}

/// Prints through a pager, if standard output is a terminal and the output may be long.
fn paged(is_long: bool, context: &Context, out: &mut Out, print: impl FnOnce(&mut Out)) -> Outcome {
    let words = context.pager();
    let mut words = words.split_whitespace();
    let program = words
        .next()
        .filter(|_| is_long && io::stdout().is_terminal());
    let child = program.and_then(|program| {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped());
        // Without a variable of the user, less must pass colours, and end on a short text.
        if program.ends_with("less") && !context.has_less_options() {
            command.args(["-F", "-R", "-X"]);
        }
        command.spawn().ok()
    });
    let Some(mut child) = child else {
        print(out);
        return Ok(Exit::Done);
    };
    if let Some(input) = child.stdin.take() {
        let mut pages = Out::to(Box::new(input));
        print(&mut pages);
        // A reader may leave the pager before the end.
        pages.flush();
    }
    let ended = child.wait();
    ended.map_err(|error| Failure::new(format!("cannot wait for the pager: {error}")))?;
    Ok(Exit::Done)
}

fn heading(
    log: &ArchivedLog,
    state: &LogState,
    figures: Option<Figures>,
    sessions: &Sessions,
    context: &Context,
    out: &mut Out,
) {
    let palette = context.palette;
    let name = palette.strong(&log.name.to_string());
    out.line(format_args!(
        "{name}  {}",
        coloured(&state.words, Some(state.kind.light()), palette)
    ));
    let mut facts = Vec::new();
    if let Some(figures) = figures {
        facts.extend(figures.turns.map(|turns| counted(turns, "turn", "turns")));
        facts.extend(figures.tools.map(|calls| counted(calls, "call", "calls")));
        let words = |tokens| format!("{} tokens", count_words(tokens));
        facts.extend(figures.tokens.map(words));
        facts.extend(figures.model);
    } else {
        facts.push("no mapping reads this log: its lines follow".to_owned());
    }
    facts.extend(log.facts.project.clone());
    out.line(format_args!("  {}", Clean(&facts.join(", "))));
    if state.kind == StateKind::Changed {
        let id = &log.name;
        let source = log.facts.source.as_deref().unwrap_or("FILE");
        out.line("  shown is the archived copy: what was sealed");
        out.line(format_args!(
            "  the change:  threadseal diff {} {id}",
            Clean(source)
        ));
        out.line(format_args!("  the copy:    threadseal export {id} FOLDER"));
    }
    let secrets = secrets(log);
    if let Some(first) = secrets.first() {
        out.line(format_args!(
            "  {} with what looks like a secret, first line {} ({})",
            counted(secrets.len() as u64, "line", "lines"),
            first.line,
            first.rule
        ));
        out.line(format_args!(
            "  remove:      threadseal redact {} --secrets --why TEXT",
            log.name
        ));
    }
    let others = sub_agents(log, sessions);
    if !others.is_empty() {
        out.line(format_args!("  subagents: {}", Clean(&others.join(", "))));
    }
}

/// The names of the logs of subagents, if `log` is the session's own.
fn sub_agents(log: &ArchivedLog, sessions: &Sessions) -> Vec<String> {
    if log.name.sub_agent.is_some() {
        return Vec::new();
    }
    let logs = sessions
        .archive
        .session(&log.name.session)
        .unwrap_or_default();
    let others = logs.iter().filter(|other| other.name.sub_agent.is_some());
    others.map(|other| other.name.to_string()).collect()
}

/// The result of each call, by the call's id.
fn answers(mapped: &Mapped) -> BTreeMap<String, ToolResult> {
    let results = mapped.drafts.iter().flat_map(|draft| draft.tool_results);
    results.map(|result| (result.id.clone(), result)).collect()
}

fn print_turn(
    number: u64,
    draft: &Draft,
    answers: &BTreeMap<String, ToolResult>,
    is_whole: bool,
    context: &Context,
    out: &mut Out,
) {
    let is_answer = texts(draft).is_empty() && draft.tool_calls.is_empty();
    if is_answer && !is_whole && !draft.tool_results.is_empty() {
        // The line of the call has it.
        return;
    }
    let palette = context.palette;
    let time = time_of(draft).unwrap_or_default();
    let turn = palette.strong(&format!("turn {number}"));
    let role = draft.role.as_str();
    out.line(format_args!("\n{turn}  {role}  {}", palette.faint(&time)));
    for text in texts(draft) {
        let kind = Clean(&text.kind).to_string();
        if text.kind != "text" {
            out.line(palette.faint(&format!("  {kind}")));
        }
        let is_text = ["text", "thinking"].contains(&text.kind.as_str());
        let text = match (is_whole, is_text) {
            (true, _) => text.text,
            (false, true) => fold_lines(&text.text),
            (false, false) => String::new(),
        };
        if !text.is_empty() {
            out.line(quoted(&text, "  | "));
        }
    }
    for call in &draft.tool_calls {
        let args = call.args.as_ref().map_or_else(String::new, text_of);
        let answer = answers.get(&call.id);
        let (name, id) = (Clean(&call.name), &call.id);
        if !is_whole {
            let ended = answer.map_or_else(|| "no result".to_owned(), result_words);
            let ended = palette.faint(&ended);
            out.line(format_args!("  > {name} {}  {ended}", Clean(&fold(&args))));
            continue;
        }
        out.line(format_args!(
            "  > {name}  {}",
            palette.faint(&Clean(id).to_string())
        ));
        out.line(quoted(&args, "    | "));
        if let Some(answer) = answer {
            print_result(answer, context, out);
        }
    }
    let own = draft.tool_results.iter();
    let own = own.filter(|result| !draft.tool_calls.iter().any(|call| call.id == result.id));
    for result in own.filter(|_| is_whole) {
        print_result(result, context, out);
    }
}

fn print_result(result: &ToolResult, context: &Context, out: &mut Out) {
    let words = context.palette.faint(&result_words(result));
    out.line(format_args!("  < {}  {words}", Clean(&result.id)));
    let text = result.response.as_ref().map_or_else(String::new, text_of);
    if !text.is_empty() {
        out.line(quoted(&text, "    | "));
    }
}

fn result_words(result: &ToolResult) -> String {
    let word = if result.ok { "ok" } else { "failed" };
    let size = result
        .response
        .as_ref()
        .map_or(0, |response| text_of(response).len());
    format!("{word}, {size} bytes")
}

/// The beginning of a text, on one line.
fn fold(text: &str) -> String {
    let short: String = text.chars().take(FOLDED_CHARS).collect();
    let more = if short.len() < text.len() { " …" } else { "" };
    format!(
        "{}{more}",
        short.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// The first lines of a text, and how many follow.
fn fold_lines(text: &str) -> String {
    let count = text.lines().count();
    if count <= FOLDED_LINES {
        return text.trim_end().to_owned();
    }
    let lines: Vec<&str> = text.lines().take(FOLDED_LINES).collect();
    format!(
        "{}\n… ({} more lines)",
        lines.join("\n"),
        count - FOLDED_LINES
    )
}

fn secrets(log: &ArchivedLog) -> Vec<SecretOutput> {
    let newest = log.newest().into_iter();
    let marks = newest.flat_map(|newest| &newest.secrets);
    marks
        .map(|mark| SecretOutput {
            line: mark.line,
            rule: mark.rule.clone(),
        })
        .collect()
}

fn json(
    log: &ArchivedLog,
    state: &LogState,
    format: &'static str,
    mapped: &Mapped,
    turn: Option<u64>,
    sessions: &Sessions,
    out: &mut Out,
) -> Result<(), Failure> {
    let turns = (0..).zip(mapped.drafts.iter());
    let turns = turns.filter(|(number, _)| turn.is_none_or(|turn| turn == *number));
    out.json(&SessionOutput {
        schema: "threadseal.show.session/1",
        log: log.name.to_string(),
        state: state.kind.name(),
        state_text: &state.words,
        project: log.facts.project.as_deref(),
        source: log.facts.source.as_deref(),
        format: Some(format),
        sub_agents: sub_agents(log, sessions),
        secrets: secrets(log),
        turns: turns
            .map(|(number, draft)| Turn::of(number, &draft))
            .collect(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_folded_and_name_what_is_left() {
        assert_eq!(fold("a\n b"), "a b");
        assert!(fold(&"x".repeat(200)).ends_with(" …"));
        let text = "line\n".repeat(30);
        assert!(fold_lines(&text).ends_with("(6 more lines)"));
        assert_eq!(fold_lines("a\nb\n"), "a\nb");
    }
}
