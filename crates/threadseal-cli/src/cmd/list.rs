//! `list`: the sessions of all agents, newest first, each with its state.
//!
//! ```text
//! AGE   AGENT        PROJECT     SESSION   TURNS  TOOLS   TOKENS  STATE
//! 2m    claude-code  ~/src/api   3f9c1a       14     52    1.2 M  sealed, still growing
//! ```
//! A state is that of the one verifier, kept until source, seals, archive or trust change.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::style::Palette;
use crate::sessions::{self, Judge, JudgedSession, Sessions, Unlock};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{PathBuf, is_separator};
use threadseal_capture::Agent;
use threadseal_capture::index::{Figures, IndexedLog};
use threadseal_capture::session::{SessionId, is_beside};
use threadseal_capture::state::Light;
use threadseal_core::time::Timestamp;
use threadseal_store::sys::path_text;

/// Fewest characters of an id in the table.
const MIN_SHOWN_ID: usize = 6;
/// Most columns of a project in the table.
const MAX_PROJECT: usize = 32;
/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// Which sessions.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<Agent>,
    /// Only sessions whose project's path contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) project: Option<String>,
    /// Only what is younger: 90s, 15m, 12h, 30d
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub(crate) since: Option<u64>,
}

/// What `list` takes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Verify each session again, also where nothing changed
    #[arg(long)]
    fresh: bool,
}

#[derive(Serialize)]
struct ListOutput {
    schema: &'static str,
    sessions: Vec<SessionOutput>,
    forgotten: Vec<ForgottenOutput>,
    /// Logs of sessions without seals; not with `--project` or `--since`.
    unsealed: Vec<UnsealedOutput>,
}

#[derive(Serialize)]
struct UnsealedOutput {
    agent: &'static str,
    path: String,
}

/// One session with its subagents.
#[derive(Serialize)]
pub(super) struct SessionOutput {
    id: String,
    agent: &'static str,
    project: Option<String>,
    /// Moments as 2026-01-31T12:00:00Z.
    first: Option<String>,
    last: Option<String>,
    /// Turns of the session's own log; none if its content is not understood.
    turns: Option<u64>,
    /// Calls and tokens, those of subagents included; none if one of the logs is not understood.
    tools: Option<u64>,
    tokens: Option<u64>,
    model: Option<String>,
    bytes: u64,
    sub_agents: usize,
    source: Option<String>,
    source_gone: bool,
    state: &'static str,
    state_text: String,
    #[serde(skip)]
    light: Option<Light>,
    #[serde(skip)]
    last_micros: u64,
}

#[derive(Serialize)]
struct ForgottenOutput {
    id: String,
    when: String,
    text: String,
}

pub(crate) fn run(args: &ListArgs, context: &Context, out: &mut Out) -> Outcome {
    let sessions = Sessions::open(Unlock::Never, context)?;
    let now = context.now()?;
    let rows = rows(&sessions, args, now, context)?;
    let forgotten = sessions.archive.forgotten()?;
    let forgotten = forgotten.iter().filter(|gone| {
        let is_agents = args
            .filter
            .agent
            .is_none_or(|agent| agent == gone.session.agent());
        is_agents
            && args.filter.project.is_none()
            && is_since(&args.filter, gone.when.as_micros(), now)
    });
    let output = ListOutput {
        schema: "threadseal.list/1",
        sessions: rows,
        forgotten: forgotten
            .map(|gone| ForgottenOutput {
                id: gone.session.to_string(),
                when: gone.when.to_iso_seconds(),
                text: gone.words(),
            })
            .collect(),
        unsealed: unsealed(&args.filter, context)?,
    };
    if context.json {
        out.json(&output);
    } else {
        print(&output, now, context, out)?;
    }
    Ok(Exit::Done)
}

fn rows(
    sessions: &Sessions,
    args: &ListArgs,
    now: Timestamp,
    context: &Context,
) -> Result<Vec<SessionOutput>, Failure> {
    let judge = Judge::of_home(&sessions.home, context)?;
    let is_asked = |id: &SessionId, logs: &[IndexedLog]| {
        let last = logs.iter().filter_map(|log| log.last).max();
        is_asked(&args.filter, id, logs, last, now)
    };
    let judged = sessions.judged(&judge, args.fresh, &is_asked)?;
    let mut rows: Vec<_> = judged.iter().map(|session| row(session, context)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.last_micros));
    Ok(rows)
}

fn unsealed(filter: &FilterArgs, context: &Context) -> Result<Vec<UnsealedOutput>, Failure> {
    if filter.project.is_some() || filter.since.is_some() || context.user_home().is_none() {
        return Ok(Vec::new());
    }
    let machine = context.machine()?;
    let agents = Agent::ALL.into_iter();
    let agents = agents.filter(|agent| filter.agent.is_none_or(|asked| asked == *agent));
    let folders = agents.flat_map(|agent| {
        let folders = agent.logs(&machine).into_iter();
        folders.map(move |folder| (agent, folder))
    });
    let found = sessions::unsealed(&folders.collect::<Vec<_>>(), context);
    let output = |(agent, log): (Agent, PathBuf)| UnsealedOutput {
        agent: agent.name(),
        path: path_text(&log),
    };
    Ok(found.into_iter().map(output).collect())
}

fn row(session: &JudgedSession, context: &Context) -> SessionOutput {
    let (id, logs) = (&session.id, &session.logs);
    let figures = Figures::of(logs);
    let of_main = session.main();
    let moment = |micros: Option<u64>| {
        let moment = Timestamp::from_micros(micros?).ok()?;
        Some(moment.to_iso_seconds())
    };
    let last = logs.iter().filter_map(|log| log.last).max();
    let source = of_main.and_then(|log| log.source.clone());
    let is_gone = |path: &PathBuf| context.fs.symlink_metadata(path).is_err();
    SessionOutput {
        id: id.to_string(),
        agent: id.agent().name(),
        project: of_main.and_then(|log| log.project.clone()),
        first: moment(logs.iter().filter_map(|log| log.first).min()),
        last: moment(last),
        turns: figures.turns,
        tools: figures.tools,
        tokens: figures.tokens,
        model: figures.model,
        bytes: logs.iter().map(|log| log.size).sum(),
        sub_agents: logs
            .iter()
            .filter(|log| log.name.sub_agent.is_some())
            .count(),
        source_gone: source.as_ref().is_none_or(is_gone),
        source: source.map(|path| path_text(&path)),
        state: session.state.kind.name(),
        state_text: session.words(),
        light: Some(session.state.kind.light()),
        last_micros: last.unwrap_or(0),
    }
}

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn is_asked(
    filter: &FilterArgs,
    id: &SessionId,
    logs: &[IndexedLog],
    last: Option<u64>,
    now: Timestamp,
) -> bool {
    let has_project = |text: &String| {
        let mut projects = logs.iter().filter_map(|log| log.project.as_deref());
        projects.any(|project| project.contains(text.as_str()))
    };
    filter.agent.is_none_or(|agent| agent == id.agent())
        && filter.project.as_ref().is_none_or(has_project)
        && is_since(filter, last.unwrap_or(0), now)
}

fn is_since(filter: &FilterArgs, micros: u64, now: Timestamp) -> bool {
    filter
        .since
        .is_none_or(|age| micros >= now.as_micros().saturating_sub(age))
}

fn print(
    output: &ListOutput,
    now: Timestamp,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    if output.sessions.is_empty() && output.forgotten.is_empty() && output.unsealed.is_empty() {
        crate::exit::complain("no session is archived; hint: threadseal archive add FOLDER");
        return Ok(());
    }
    let ids: Vec<&str> = output.sessions.iter().map(|row| own(&row.id)).collect();
    let lengths = shown_lengths(&ids);
    let shown = lengths.iter().copied().max().unwrap_or(MIN_SHOWN_ID);
    let home = context.user_home();
    let project = |row: &SessionOutput| match &row.project {
        Some(project) => short_path(project, home.as_deref()),
        None => "-".to_owned(),
    };
    let widest = |cells: Vec<usize>, least: usize| cells.into_iter().max().unwrap_or(0).max(least);
    let projects: Vec<String> = output
        .sessions
        .iter()
        .map(|row| Clean(&project(row)).to_string())
        .collect();
    let of_project = widest(
        projects.iter().map(|text| text.chars().count()).collect(),
        7,
    );
    let of_agent = widest(
        output.sessions.iter().map(|row| row.agent.len()).collect(),
        5,
    );
    let of_id = shown.max(7);
    let heading = format!(
        "{:<5}  {:<of_agent$}  {:<of_project$}  {:<of_id$}  {:>5}  {:>5}  {:>7}  STATE",
        "AGE", "AGENT", "PROJECT", "SESSION", "TURNS", "TOOLS", "TOKENS"
    );
    out.line(context.palette.faint(&heading));
    for ((row, project), length) in output.sessions.iter().zip(&projects).zip(lengths) {
        let id: String = own(&row.id).chars().take(length).collect();
        let age = match row.last_micros {
            0 => "-".to_owned(),
            last => age_words(now.as_micros().saturating_sub(last)),
        };
        let state = coloured(&row.state_text, row.light, context.palette);
        out.line(format_args!(
            "{age:<5}  {:<of_agent$}  {project:<of_project$}  {id:<of_id$}  {:>5}  {:>5}  {:>7}  {state}",
            row.agent,
            known(row.turns.map(|turns| turns.to_string())),
            known(row.tools.map(|tools| tools.to_string())),
            known(row.tokens.map(count_words)),
        ));
    }
    for unsealed in &output.unsealed {
        let state = coloured("not sealed", Some(Light::Amber), context.palette);
        let (agent, path) = (unsealed.agent, Clean(&unsealed.path));
        out.line(format_args!(
            "{:<5}  {agent:<of_agent$}  {path}  {state}",
            "-"
        ));
    }
    if !output.unsealed.is_empty() && !context.quiet {
        crate::exit::complain("note: sessions are not sealed; hint: threadseal watch --once");
    }
    for gone in &output.forgotten {
        let text = Clean(&gone.text);
        out.line(context.palette.faint(&format!("{}  {text}", gone.id)));
    }
    Ok(())
}

fn own(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, own)| own)
}

/// For each id the fewest characters that no other id begins with; all of one that claims another.
pub(super) fn shown_lengths(ids: &[&str]) -> Vec<usize> {
    let known: BTreeSet<&str> = ids.iter().copied().collect();
    let claims = |id: &str| {
        let split = id.rsplit_once('-');
        split.is_some_and(|(of, _)| known.contains(of) && is_beside(id, of))
    };
    let sorted: Vec<&str> = known.iter().copied().filter(|id| !claims(id)).collect();
    let common = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let length = |id: &&str| {
        if claims(id) {
            return id.len();
        }
        let at = sorted.binary_search(id).unwrap_or(0);
        let before = at.checked_sub(1).and_then(|at| sorted.get(at));
        let neighbours = before.into_iter().chain(sorted.get(at + 1));
        let longest = neighbours.map(|other| common(id, other) + 1).max();
        longest.unwrap_or(0).max(MIN_SHOWN_ID)
    };
    ids.iter().map(length).collect()
}

/// A state in its colour.
pub(super) fn coloured(text: &str, light: Option<Light>, palette: Palette) -> String {
    let text = Clean(text).to_string();
    match light {
        Some(Light::Green) => palette.good(&text),
        Some(Light::Red) => palette.bad(&text),
        _ => palette.doubtful(&text),
    }
}

fn short_path(path: &str, home: Option<&str>) -> String {
    let path = match home.and_then(|home| path.strip_prefix(home)) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with(is_separator) => format!("~{rest}"),
        _ => path.to_owned(),
    };
    let length = path.chars().count();
    if length <= MAX_PROJECT {
        return path;
    }
    let end: String = path.chars().skip(length + 1 - MAX_PROJECT).collect();
    format!("…{end}")
}

/// An age for people: `2m`, `9d`.
pub(super) fn age_words(micros: u64) -> String {
    let seconds = micros / SECOND;
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.into_iter().find(|(unit, _)| seconds >= *unit) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

/// A number for people: `1.2 M`.
pub(super) fn count_words(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        1..10_000 => count.to_string(),
        _ => {
            let tenths = count.saturating_add(50_000) / 100_000;
            format!("{}.{} M", tenths / 10, tenths % 10)
        }
    }
}

/// An age as a person writes it, in microseconds.
pub(super) fn parse_age(text: &str) -> Result<u64, String> {
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let age = units.into_iter().find_map(|(name, unit)| {
        let number = text.strip_suffix(name)?;
        number.parse::<u64>().ok()?.checked_mul(unit * SECOND)
    });
    age.ok_or_else(|| "write an age as 90s, 15m, 12h or 30d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_counts_and_paths_are_short() {
        assert_eq!(parse_age("2d"), Ok(2 * 86_400 * SECOND));
        assert!(parse_age("2").is_err());
        assert_eq!(age_words(125 * SECOND), "2m");
        assert_eq!([0, 999, 1_234_567].map(count_words), ["-", "999", "1.2 M"]);
        assert_eq!(
            short_path("/home/ann/src/api", Some("/home/ann")),
            "~/src/api"
        );
        assert_eq!(short_path("/home/anna", Some("/home/ann")), "/home/anna");
        assert_eq!(
            short_path(&"x".repeat(90), None).chars().count(),
            MAX_PROJECT
        );
    }

    #[test]
    fn ids_are_as_long_as_it_takes_to_distinguish_them() {
        assert_eq!(shown_lengths(&["3f9c1a2e", "77b2c0aa"]), [6, 6]);
        assert_eq!(
            shown_lengths(&["3f9c1a2f", "77b2c0aa", "3f9c1a2e"]),
            [8, 6, 8]
        );
        assert_eq!(shown_lengths(&["3f9c1a2e", "3f9c1a2e"]), [6, 6]);
        assert_eq!(shown_lengths(&["3f9c1a2e-0a1b2c3d", "3f9c1a2e"]), [17, 6]);
    }
}
