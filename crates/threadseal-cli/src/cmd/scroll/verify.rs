//! `scroll verify`: prints a report or, with `--compat`, the answer of agent-scroll's own command.

use super::input;
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::progress::Bar;
use crate::render::clean::Clean;
use crate::render::json::VerifyOutput;
use crate::render::text;
use crate::verifying::{self, IdArgs, ScrollArgs};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Report, combined_exit_code};
use threadseal_verify::detect::container_of;
use threadseal_verify::request::{RequestedProfile, VerifyRequest};
use threadseal_verify::trust_locality::Locality;

/// What `scroll verify` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct VerifyArgs {
    /// A scroll: a JSON array, one turn in each line, or a CBOR sequence [default: standard input]
    file: Option<PathBuf>,
    /// Require this key's signature on every turn: 64 hex digits, did:key, PEM file, or a name of
    /// the trust store; repeatable, then one of these keys must have signed
    #[arg(long, visible_alias = "pubkey", value_name = "KEY")]
    key: Vec<String>,
    /// Trust these instead of the home's trust store; repeatable
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    #[command(flatten)]
    id: IdArgs,
    /// How much the signatures must cover
    #[arg(long, value_enum, default_value = "auto")]
    profile: CoverageArg,
    /// A head that the scroll must contain: <record>:<seq>:<size>:<sha256>, or sha256:HEX
    #[arg(long, value_name = "HEAD", value_parser = ExpectedHead::parse)]
    expect_head: Option<ExpectedHead>,
    /// Require the expected head to be the last one
    #[arg(long, requires = "expect_head")]
    exact_head: bool,
    #[command(flatten)]
    scroll: ScrollArgs,
    /// Answer as agent-scroll's own command, which accepts stripped signatures
    #[arg(long)]
    compat: bool,
    /// Accept a home or trust inside the folder of the scroll; the report mentions it
    #[arg(long)]
    allow_local_trust: bool,
}

/// `--profile`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CoverageArg {
    /// All that v0.1 can cover; parts without cover count against the scroll
    Auto,
    /// The coverage of v0.1 is enough
    #[value(name = "scroll-v0.1")]
    ScrollV01,
}

pub(super) fn run(args: &VerifyArgs, context: &Context, out: &mut Out) -> Outcome {
    let report = report(args, context)?;
    if args.compat {
        return as_reference(&report, out);
    }
    let exit = Exit::from_code(combined_exit_code(&[report.verdict], 0));
    if context.json {
        out.json_line(&VerifyOutput::new(&[report], &[], 0, exit.code()));
    } else if exit != Exit::Done || !context.quiet {
        out.line(text::report(&report, context.palette));
    }
    Ok(exit)
}

fn report(args: &VerifyArgs, context: &Context) -> Result<Report, Failure> {
    let folder = input::file_of(args.file.as_ref()).filter(|path| path.is_dir());
    if let Some(folder) = folder {
        return Err(Failure::new(
            "this is a folder; hint: name one scroll, or use threadseal verify DIR",
        )
        .about(folder));
    }
    let paths: Vec<PathBuf> = input::file_of(args.file.as_ref())
        .map(Path::to_owned)
        .into_iter()
        .collect();
    let local = Locality::to(&paths, args.allow_local_trust, &context.fs);
    let trust = verifying::gather(&args.id.and(&args.trust), &args.key, &local, context)?;
    let verifier = verifying::verifier(asked(args, trust, context)?, &Bar::hidden(), context)?;
    let Some(path) = input::file_of(args.file.as_ref()) else {
        let source = input::from_first_turn()?;
        let first = source.first.clone();
        let outcome = verifier.scroll_stream(&first, source, container_of(&first))?;
        let mut report = outcome.report;
        report.path = "-".to_owned();
        return Ok(report);
    };
    let file = input::file(path, context)?;
    let container = input::container_in(&file)?;
    Ok(verifier.scroll_file(&file, container)?.report)
}

fn asked(
    args: &VerifyArgs,
    trust: threadseal_core::trust::Trust,
    context: &Context,
) -> Result<VerifyRequest, Failure> {
    Ok(VerifyRequest {
        profile: match args.profile {
            CoverageArg::Auto => RequestedProfile::Auto,
            CoverageArg::ScrollV01 => RequestedProfile::ScrollV01,
        },
        expect_head: args.expect_head,
        exact_head: args.exact_head,
        scroll: args.scroll.request(context)?,
        ..VerifyRequest::by(trust)
    })
}

/// The answer of v0.1, as it is in the report.
#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    failures: Vec<Failed>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Failed {
    turn: u64,
    reason: String,
    detail: Option<String>,
}

/// Output and exit code of agent-scroll's own command.
fn as_reference(report: &Report, out: &mut Out) -> Outcome {
    complain(
        "warning: --compat accepts stripped signatures, swapped keys and truncated scrolls; use it to compare, not to trust",
    );
    let answer = report.compat.get("agent_scroll");
    let answer: Answer = answer
        .and_then(|answer| serde_json::from_str(answer.as_json()).ok())
        .ok_or_else(|| Failure::new("there is no answer of agent-scroll v0.1"))?;
    if answer.ok {
        out.line("ok");
        return Ok(Exit::Done);
    }
    let mut stderr = std::io::stderr();
    for failed in &answer.failures {
        let detail = failed.detail.as_ref().map(|detail| format!(" ({detail})"));
        let line = format!(
            "turn {}: {}{}",
            failed.turn,
            failed.reason,
            detail.unwrap_or_default()
        );
        // If standard error is closed, the exit code still reports it.
        let _ = writeln!(stderr, "{}", Clean(&line));
    }
    if let Some(error) = &answer.error {
        complain(error);
    }
    Ok(Exit::Evidence)
}
