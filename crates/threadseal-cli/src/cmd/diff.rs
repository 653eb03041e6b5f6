//! `diff A B`: the first difference between two records.
//!
//! It gives two answers: the first byte that differs, and the first event with a different effect.
//! The second leaves out seals, times, salts and thread names, since those differ between any two
//! runs.

use crate::context::Context;
use crate::events::{Event, Events};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_store::read::RegularFile;
use threadseal_store::sys::path_text;

/// The number of bytes that are shown before and after the first difference of an event.
const CONTEXT_BEFORE: usize = 40;
const CONTEXT_AFTER: usize = 120;

const EXITS: &str = "\
Exit codes:
  0  no byte differs
  1  the events differ
  2  a file cannot be read
  3  the events are the same; only seals, times, salts or names differ";

/// What `diff` takes.
#[derive(Debug, Args)]
#[command(after_help = EXITS)]
pub(crate) struct DiffArgs {
    /// The first record, or an archived session by the beginning of its id
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second record or session
    #[arg(value_name = "B")]
    b: PathBuf,
}

#[derive(Serialize)]
struct DiffOutput {
    schema: &'static str,
    a: String,
    b: String,
    identical: bool,
    /// The number of lines and bytes that both have in common at the beginning.
    same_until: Option<Place>,
    /// The first event that differs; absent if all events have the same effect.
    first_difference: Option<Parting>,
}

#[derive(Serialize, Clone, Copy)]
struct Place {
    line: u64,
    byte: u64,
}

#[derive(Serialize)]
struct Parting {
    turn: u64,
    /// Absent if the record ended.
    a: Option<Side>,
    b: Option<Side>,
}

#[derive(Serialize)]
struct Side {
    line: u64,
    byte: u64,
    event_type: String,
    /// The payload around the first byte that differs.
    text: String,
}

pub(crate) fn run(args: &DiffArgs, context: &Context, out: &mut Out) -> Outcome {
    let a = open(&args.a, context)?;
    let b = open(&args.b, context)?;
    let same_until = first_byte(&a, &b)?;
    let first_difference = match same_until {
        Some(_) => first_event(&a, &b)?,
        None => None,
    };
    let first_difference = first_difference.map(|parting| parting.in_turns_of(&a, &b));
    let exit = match (&same_until, &first_difference) {
        (None, _) => Exit::Done,
        (Some(_), Some(_)) => Exit::Evidence,
        (Some(_), None) => Exit::Unconfirmed,
    };
    let shown = |path: &Path| path_text(path);
    let output = DiffOutput {
        schema: "threadseal.diff/1",
        a: shown(&args.a),
        b: shown(&args.b),
        identical: same_until.is_none(),
        same_until,
        first_difference,
    };
    if context.json {
        out.json(&output);
    } else {
        print(&output, context, out);
    }
    Ok(exit)
}

/// The record at a path, or the archived log of a session.
fn open(named: &Path, context: &Context) -> Result<RegularFile, Failure> {
    #[cfg(feature = "capture")]
    if let Some(file) = crate::sessions::file_of(named, context)? {
        return Ok(file);
    }
    record::open(&*context.fs, named)
}

/// The end of the common lines at the beginning of both files; `None` if the files are equal.
fn first_byte(a: &RegularFile, b: &RegularFile) -> Result<Option<Place>, Failure> {
    let (mut of_a, mut of_b) = (Events::of(a), Events::of(b));
    let mut same = Place { line: 0, byte: 0 };
    loop {
        match (of_a.next()?, of_b.next()?) {
            // A missing final LF makes different files with equal lines.
            (None, None) => return Ok((a.size() != b.size()).then_some(same)),
            (Some(x), Some(y)) if x.bytes == y.bytes => {
                same = Place {
                    line: x.line,
                    byte: x.byte + x.bytes.len() as u64,
                };
            }
            _ => return Ok(Some(same)),
        }
    }
}

fn first_event(a: &RegularFile, b: &RegularFile) -> Result<Option<Parting>, Failure> {
    let (mut of_a, mut of_b) = (Events::of(a), Events::of(b));
    loop {
        let (x, y) = (next_deed(&mut of_a)?, next_deed(&mut of_b)?);
        let turn = match (&x, &y) {
            (None, None) => return Ok(None),
            (Some(x), Some(y)) if same_deed(x, y) => continue,
            (Some(x), Some(y)) => x.turn.min(y.turn),
            (Some(one), None) | (None, Some(one)) => one.turn,
        };
        let at = match (&x, &y) {
            (Some(x), Some(y)) => first_difference_in(x.payload(), y.payload()),
            _ => 0,
        };
        return Ok(Some(Parting {
            turn,
            a: x.map(|event| Side::of(&event, at)),
            b: y.map(|event| Side::of(&event, at)),
        }));
    }
}

/// The next event that is neither a seal nor a manifest.
fn next_deed(events: &mut Events<'_>) -> Result<Option<Event>, Failure> {
    while let Some(event) = events.next()? {
        if !event.is_seal() && event.event_type != "thread_started" {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

fn same_deed(x: &Event, y: &Event) -> bool {
    x.event_type == y.event_type && x.payload() == y.payload()
}

fn first_difference_in(x: &[u8], y: &[u8]) -> usize {
    let same = x.iter().zip(y).take_while(|(x, y)| x == y);
    same.count()
}

impl Parting {
    /// With its turn counted as `show` counts them, if a mapping reads the log of an agent.
    fn in_turns_of(mut self, a: &RegularFile, b: &RegularFile) -> Self {
        let turn = |file, side: &Option<Side>| turn_of(file, side.as_ref()?.line);
        let turn = turn(a, &self.a).or_else(|| turn(b, &self.b));
        self.turn = turn.unwrap_or(self.turn);
        self
    }
}

#[cfg(feature = "capture")]
fn turn_of(file: &RegularFile, line: u64) -> Option<u64> {
    use threadseal_verify::detect::{self, Kind};
    let kind = detect::kind(file).ok()?;
    matches!(kind, Some(Kind::Log | Kind::Events)).then_some(())?;
    let source = file.read_whole(threadseal_verify::verifier::MAX_TAKEN_UP_BYTES);
    crate::sessions::turn_of(&source.ok()?, line)
}

#[cfg(not(feature = "capture"))]
fn turn_of(_: &RegularFile, _: u64) -> Option<u64> {
    None
}

impl Side {
    fn of(event: &Event, at: usize) -> Self {
        let payload = event.payload();
        let from = at.saturating_sub(CONTEXT_BEFORE).min(payload.len());
        let to = at.saturating_add(CONTEXT_AFTER).min(payload.len());
        let text = String::from_utf8_lossy(&payload[from..to]);
        Self {
            line: event.line,
            byte: event.byte,
            event_type: event.event_type.clone(),
            text: format!(
                "{}{text}{}",
                if from > 0 { "…" } else { "" },
                if to < payload.len() { "…" } else { "" }
            ),
        }
    }
}

fn print(output: &DiffOutput, context: &Context, out: &mut Out) {
    let palette = context.palette;
    let Some(same) = output.same_until else {
        if !context.quiet {
            out.line("no byte differs");
        }
        return;
    };
    out.line(format_args!(
        "the same up to line {} (byte {})",
        same.line, same.byte
    ));
    let Some(parting) = &output.first_difference else {
        out.line("the events are the same: only seals, times, salts or names differ");
        return;
    };
    out.line(format_args!("first difference in turn {}:", parting.turn));
    for (path, side) in [(&output.a, &parting.a), (&output.b, &parting.b)] {
        let path = palette.strong(&Clean(path).to_string());
        match side {
            None => out.line(format_args!("  {path} has ended")),
            Some(side) => out.line(format_args!(
                "  {path} line {} (byte {})  {}\n    {}",
                side.line,
                side.byte,
                Clean(&side.event_type),
                Clean(&side.text)
            )),
        }
    }
}
