//! `search WORDS`: the turns of archived sessions that have all words.

use super::list::{FilterArgs, age_words};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::sessions::{Sessions, Unlock};
use clap::Args;
use serde::Serialize;
use threadseal_capture::index::{Hit, Query, search_archive};

/// What `search` takes.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that a turn must have; `word*` for a beginning, "two words" in quotes for a sequence
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Most turns to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct SearchOutput<'a> {
    schema: &'static str,
    hits: Vec<HitOutput<'a>>,
    /// Were there more than `--limit`?
    more: bool,
}

#[derive(Serialize)]
struct HitOutput<'a> {
    /// What `show` takes.
    turn: String,
    role: &'a str,
    time: Option<String>,
    project: Option<&'a str>,
    text: &'a str,
}

/// Exits with 0 if there is a hit, and with 3 if there is none.
pub(crate) fn run(args: &SearchArgs, context: &Context, out: &mut Out) -> Outcome {
    let sessions = Sessions::open(Unlock::Ask(&args.passphrase), context)?;
    let now = context.now()?.as_micros();
    let query = Query {
        words: args.words.join(" "),
        agent: args.filter.agent,
        project: args.filter.project.clone(),
        since: args.filter.since.map(|age| now.saturating_sub(age)),
        most: args.limit.saturating_add(1),
    };
    let mut hits = match sessions.archive.settings().encrypted {
        // The index of an encrypted archive holds no text.
        true => search_archive(&sessions.archive, &query)?,
        false => sessions.index.search(&query)?,
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = hits.len() > limit;
    hits.truncate(limit);
    if context.json {
        out.json(&SearchOutput {
            schema: "threadseal.search/1",
            hits: hits.iter().map(json).collect(),
            more,
        });
    } else {
        print(&hits, more, now, context, out)?;
    }
    Ok(match hits.is_empty() {
        true => Exit::Unconfirmed,
        false => Exit::Done,
    })
}

fn json(hit: &Hit) -> HitOutput<'_> {
    let time = hit
        .time
        .and_then(|time| threadseal_core::time::Timestamp::from_micros(time).ok());
    HitOutput {
        turn: format!("{}#{}", hit.name, hit.turn),
        role: &hit.role,
        time: time.map(|time| time.to_iso_seconds()),
        project: hit.project.as_deref(),
        text: &hit.snippet,
    }
}

fn print(
    hits: &[Hit],
    more: bool,
    now: u64,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    for hit in hits {
        let name = format!("{}#{}", hit.name, hit.turn);
        let age = hit
            .time
            .map_or_else(String::new, |time| age_words(now.saturating_sub(time)));
        let project = hit.project.as_deref().unwrap_or_default();
        let (role, project) = (Clean(&hit.role), Clean(project));
        let place = context.palette.strong(&name);
        out.line(format_args!("{place}  {age}  {role}  {project}"));
        out.line(format_args!("  | {}", Clean(&hit.snippet)));
    }
    if hits.is_empty() {
        complain("no turn has all these words");
    } else if more && !context.quiet {
        complain("note: there are more; hint: --limit N");
    }
    Ok(())
}
