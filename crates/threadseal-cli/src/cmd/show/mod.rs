//! `show PATH|SESSION[#TURN] [--turn N]`: prints a session turn by turn, or a record line by line.
//!
//! An existing path is never taken for the id of a session.
//!
//! The output is marked as not verified; `verify` does that. Each text of the record has a margin
//! before it, so that it cannot pass for output of this command.

#[cfg(feature = "capture")]
mod session;

use crate::context::Context;
use crate::events::{Event, Events};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::record;
use crate::render::clean::{Clean, quoted};
use crate::render::json;
#[cfg(feature = "capture")]
use crate::sessions;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_store::read::RegularFile;
use threadseal_store::sys::path_text;
use threadseal_verify::detect::{self, Kind, LedgerShape};

/// The most characters of an event that are shown, unless its turn is selected.
const SUMMARY_CHARS: usize = 240;
/// The most lines of it.
const SUMMARY_LINES: usize = 4;

/// What `show` takes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A transcript, log or document; STORE#NAME is a transcript in a store. Or an archived
    /// session, by the beginning of its id: SESSION, SESSION#TURN, SESSION/SUBAGENT
    #[arg(value_name = "PATH|SESSION")]
    path: PathBuf,
    /// Show only this turn, with every text in full
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct EventOutput<'e> {
    line: u64,
    byte: u64,
    turn: u64,
    event_type: &'e str,
    /// The payload's JSON text, unchanged from the file.
    payload: String,
}

pub(crate) fn run(args: &ShowArgs, context: &Context, out: &mut Out) -> Outcome {
    #[cfg(feature = "capture")]
    if let Some(named) = sessions::named(&args.path, context)? {
        return session::run(&named, args, context, out);
    }
    #[cfg(feature = "capture")]
    if context.fs.symlink_metadata(&args.path).is_err()
        && let Some(name) = args.path.to_str().filter(|name| is_like_id(name))
    {
        return Err(sessions::none(name));
    }
    let file = record::open(&*context.fs, &args.path)?;
    match detect::kind(&file)? {
        Some(Kind::Native | Kind::Events | Kind::Log | Kind::Document(_) | Kind::Scroll(_)) => {}
        Some(Kind::Ledger(LedgerShape::Lines)) => {}
        Some(Kind::Ledger(_)) => {
            let text = "the file contains several ledgers; hint: threadseal ledger list --run ID";
            return Err(Failure::new(text).about(&args.path));
        }
        Some(Kind::Checkpoint) => {
            let text = "a checkpoint has no lines; hint: threadseal lineage inspect";
            return Err(Failure::new(text).about(&args.path));
        }
        Some(Kind::Sidecar | Kind::LedgerHead | Kind::LedgerIndex) | None => {
            return Err(Failure::new("unknown format").about(&args.path));
        }
    }
    let shown = if context.json {
        show_json(args, args.turn, &file, context, out)?
    } else {
        show_text(args.turn, &file, context, out)?
    };
    if let (Some(turn), 0) = (args.turn, shown) {
        return Err(Failure::new(format!("there is no turn {turn}")).about(&args.path));
    }
    if !context.quiet {
        let path = args.path.display();
        complain(&format!(
            "note: the output is not verified; hint: threadseal verify {path}"
        ));
    }
    Ok(Exit::Done)
}

/// Can it be the beginning of a session's id, and hardly the name of a file?
#[cfg(feature = "capture")]
fn is_like_id(name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    name.chars().all(is_part) && name != "-"
}

fn is_asked(turn: Option<u64>, event: &Event) -> bool {
    turn.is_none_or(|turn| turn == event.turn)
}

fn show_json(
    args: &ShowArgs,
    turn: Option<u64>,
    file: &RegularFile,
    context: &Context,
    out: &mut Out,
) -> Result<u64, Failure> {
    let path = path_text(&args.path);
    out.bytes(b"{\"schema\":\"threadseal.show/1\",\"path\":");
    out.bytes(&json::to_vec(&path));
    out.bytes(b",\"events\":[");
    let (mut events, mut shown) = (Events::whole(file, context)?, 0);
    while let Some(event) = events.next()? {
        if !is_asked(turn, &event) {
            continue;
        }
        if shown > 0 {
            out.bytes(b",");
        }
        shown += 1;
        out.bytes(&json::to_vec(&EventOutput {
            line: event.line,
            byte: event.byte,
            turn: event.turn,
            event_type: &event.event_type,
            payload: String::from_utf8_lossy(event.payload()).into_owned(),
        }));
    }
    out.bytes(b"]");
    out.json_members();
    Ok(shown)
}

fn show_text(
    only: Option<u64>,
    file: &RegularFile,
    context: &Context,
    out: &mut Out,
) -> Result<u64, Failure> {
    let palette = context.palette;
    let (mut events, mut shown, mut turn) = (Events::whole(file, context)?, 0, 0);
    while let Some(event) = events.next()? {
        if !is_asked(only, &event) {
            continue;
        }
        if event.turn != turn {
            turn = event.turn;
            out.line(palette.strong(&format!("turn {turn}")));
        }
        shown += 1;
        let text = event.readable();
        let text = match only {
            Some(_) => text,
            None => summary(&text),
        };
        let place = palette.faint(&format!("line {}", event.line));
        out.line(format_args!("  {place}  {}", Clean(&event.event_type)));
        if !text.is_empty() {
            out.line(quoted(&text, "    | "));
        }
    }
    Ok(shown)
}

fn summary(text: &str) -> String {
    let lines = text.split('\n').take(SUMMARY_LINES).collect::<Vec<_>>();
    let mut short: String = lines.join("\n").chars().take(SUMMARY_CHARS).collect();
    let left = text.len() - short.len();
    if left > 0 {
        short.push_str(&format!(" … ({left} more bytes)"));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_how_much_it_leaves_out() {
        assert_eq!(summary("short\ntext"), "short\ntext");
        assert_eq!(summary("1\n2\n3\n4\n5\n6"), "1\n2\n3\n4 … (4 more bytes)");
        let long = "é".repeat(500);
        assert!(summary(&long).ends_with("é … (520 more bytes)"));
    }
}
