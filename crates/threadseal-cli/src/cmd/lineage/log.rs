//! `lineage log PATH|DIR…`: draws lineages, each link under its predecessor.
//!
//! ```text
//! counter  3 links  verified
//! * 61bf8241  tick 5    epoch (0,0)  budget 1.000000  0000000005.ckpt
//! * f40710d4  tick 10   epoch (0,0)  budget 0.999863  0000000010.ckpt
//! |\
//! * | 75b5dcac  tick 15 …
//! | * 9d1e0c55  tick 16 …   fork
//! ```
//! The oldest link is on top. Every branch keeps its column until its last link.

use super::input::{Input, TrustArgs};
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use threadseal_core::report::{FindingCode, Report, Verdict, combined_exit_code};
use threadseal_formats::lineage::{ContentHash, DrawnLink, LinkKind, ReadLink, Seal};

/// The most columns of branches; links of further branches share the last one.
const MAX_COLUMNS: usize = 16;

/// What `lineage log` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct LogArgs {
    /// Checkpoints, folders of them, or stores: sqlite:FILE, postgres://…, s3://…, also with #AGENT
    #[arg(required = true, value_name = "FILE|DIR|STORE")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
}

#[derive(Serialize)]
struct LogOutput<'a> {
    schema: &'static str,
    lineages: Vec<LineageOutput<'a>>,
}

#[derive(Serialize)]
struct LineageOutput<'a> {
    report: &'a Report,
    links: Vec<LinkOutput<'a>>,
    forks: Vec<ForkOutput>,
}

#[derive(Serialize)]
struct LinkOutput<'a> {
    hash: String,
    prev: Option<String>,
    /// Is its predecessor among the files?
    prev_is_here: bool,
    version: String,
    kind: &'static str,
    seq: Option<u64>,
    tick: u64,
    budget: i64,
    epoch: [u64; 2],
    seal: &'static str,
    of_line: bool,
    findings: &'a [FindingCode],
    file: &'a str,
}

#[derive(Serialize)]
struct ForkOutput {
    parent: Option<String>,
    links: Vec<String>,
}

/// Draws; exits with the worst verdict.
pub(super) fn run(args: &LogArgs, context: &Context, out: &mut Out) -> Outcome {
    let input = Input::of(&args.paths, &args.trust, true, context)?;
    let found = input.links()?;
    let outcomes = input.verifier.lineages(found, input.view)?;
    if outcomes.is_empty() {
        return Err(Failure::new("no checkpoint was found"));
    }
    let verdicts: Vec<Verdict> = outcomes.iter().map(|o| o.report.verdict).collect();
    let exit = Exit::from_code(combined_exit_code(&verdicts, input.errors.len()));
    let worst = outcomes.iter().min_by_key(|o| o.report.verdict);
    if let Some(worst) = worst {
        out.because(&worst.report);
    }
    if context.json {
        let lineages = outcomes.iter().map(|outcome| LineageOutput {
            report: &outcome.report,
            links: outcome.links.iter().map(link_output).collect(),
            forks: outcome
                .forks
                .iter()
                .map(|fork| ForkOutput {
                    parent: fork.parent.map(|hash| hash.to_hex()),
                    links: fork
                        .children
                        .iter()
                        .map(|child| child.hash.to_hex())
                        .collect(),
                })
                .collect(),
        });
        out.json(&LogOutput {
            schema: "threadseal.lineage.log/1",
            lineages: lineages.collect(),
        });
        return Ok(exit);
    }
    for outcome in &outcomes {
        let report = &outcome.report;
        let links = outcome.links.len();
        out.line(format_args!(
            "{}  {}  {links} {}",
            context.palette.verdict(report.verdict),
            context.palette.strong(&Clean(&report.path).to_string()),
            if links == 1 { "link" } else { "links" },
        ));
        draw(&outcome.links, context, out);
    }
    Ok(exit)
}

fn link_output(drawn: &DrawnLink) -> LinkOutput<'_> {
    let link = &drawn.link;
    let epoch = link.header.epoch;
    LinkOutput {
        hash: link.hash.to_hex(),
        prev: link.header.prev.map(|prev| prev.to_hex()),
        prev_is_here: drawn.parent.is_some(),
        version: link.header.version.to_string(),
        kind: kind(link).as_str(),
        seq: link.seq(),
        tick: link.header.tick,
        budget: link.header.budget,
        epoch: [epoch.major, epoch.generation],
        seal: match link.seal {
            Seal::Unsigned => "none",
            Seal::Good => "good",
            Seal::Bad(_) => "bad",
        },
        of_line: drawn.of_line,
        findings: &drawn.findings,
        file: &drawn.name,
    }
}

fn kind(link: &ReadLink) -> LinkKind {
    let native = link.header.native.as_ref();
    native.map_or(LinkKind::Checkpoint, |native| native.kind)
}

/// Draws one line for each link. A column is a branch: it waits for the children of its last link.
fn draw(links: &[DrawnLink], context: &Context, out: &mut Out) {
    let mut children: BTreeMap<ContentHash, usize> = BTreeMap::new();
    for drawn in links {
        if let Some(parent) = drawn.parent {
            *children.entry(parent).or_default() += 1;
        }
    }
    // The link whose children each column waits for; none if the column is free.
    let mut columns: Vec<Option<ContentHash>> = Vec::new();
    for drawn in links {
        let hash = drawn.link.hash;
        let waiting = |column: &Option<ContentHash>| column.is_some() && *column == drawn.parent;
        let column = match columns.iter().position(waiting) {
            Some(column) => column,
            None => {
                if let Some(prev) = drawn.link.header.prev {
                    let text = format!("{}:  {} is missing", bars(&columns), short(&prev));
                    out.line(context.palette.faint(&text));
                }
                free(&mut columns)
            }
        };
        out.line(format_args!(
            "{}{}",
            marks(&columns, column, drawn),
            row(drawn)
        ));
        let branches = children.get(&hash).copied().unwrap_or(0);
        let slot = |columns: &mut Vec<Option<ContentHash>>, at: usize, to| {
            if let Some(slot) = columns.get_mut(at) {
                *slot = to;
            }
        };
        slot(&mut columns, column, (branches > 0).then_some(hash));
        for _ in 1..branches {
            let next = free(&mut columns);
            slot(&mut columns, next, Some(hash));
        }
        if branches > 1 {
            out.line(format_args!(
                "{}\\  {branches} links follow",
                bars(&columns)
            ));
        }
        while columns.last().is_some_and(Option::is_none) {
            columns.pop();
        }
    }
}

/// The first column that no branch is in.
fn free(columns: &mut Vec<Option<ContentHash>>) -> usize {
    match columns.iter().position(Option::is_none) {
        Some(column) => column,
        None if columns.len() < MAX_COLUMNS => {
            columns.push(None);
            columns.len() - 1
        }
        None => MAX_COLUMNS - 1,
    }
}

fn bars(columns: &[Option<ContentHash>]) -> String {
    let bar = |column: &Option<ContentHash>| if column.is_some() { "| " } else { "  " };
    columns.iter().map(bar).collect()
}

fn marks(columns: &[Option<ContentHash>], column: usize, drawn: &DrawnLink) -> String {
    let mark = match (drawn.link.seal, drawn.of_line) {
        (Seal::Bad(_), _) => "x ",
        (Seal::Unsigned, _) => "o ",
        (Seal::Good, true) => "* ",
        (Seal::Good, false) => "? ",
    };
    let each = columns
        .iter()
        .enumerate()
        .map(|(at, waiting)| match waiting {
            _ if at == column => mark,
            Some(_) => "| ",
            None => "  ",
        });
    each.collect()
}

fn row(drawn: &DrawnLink) -> String {
    let link = &drawn.link;
    let header = &link.header;
    let what = match kind(link) {
        LinkKind::Checkpoint => String::new(),
        kind => format!("  {kind}"),
    };
    let number = link
        .seq()
        .map(|seq| format!("  seq {seq}"))
        .unwrap_or_default();
    let codes: BTreeSet<&str> = drawn.findings.iter().map(|code| code.as_str()).collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    let seen = if codes.is_empty() {
        String::new()
    } else {
        format!("  [{}]", codes.join(", "))
    };
    format!(
        "{}{number}  tick {}  epoch {}  budget {}{what}  {}{seen}",
        short(&link.hash),
        header.tick,
        header.epoch,
        header.budget,
        Clean(&drawn.name),
    )
}

fn short(hash: &ContentHash) -> String {
    hash.to_hex().chars().take(12).collect()
}
