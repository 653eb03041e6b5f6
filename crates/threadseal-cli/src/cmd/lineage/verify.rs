//! `lineage verify PATH|DIR…`: verifies checkpoints and prints a verdict for each lineage.

use super::input::{Input, TrustArgs};
use crate::context::Context;
use crate::exit::{self, Exit, Outcome, complain};
use crate::output::Out;
use crate::render::json::VerifyOutput;
use crate::render::text;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::report::{Verdict, combined_exit_code};

/// What `lineage verify` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct VerifyArgs {
    /// Checkpoints, folders of them, or stores: sqlite:FILE, postgres://…, s3://…, also with #AGENT; a single file is judged as one link
    #[arg(required = true, value_name = "FILE|DIR|STORE")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(super) fn run(args: &VerifyArgs, context: &Context, out: &mut Out) -> Outcome {
    let input = Input::of(&args.paths, &args.trust, false, context)?;
    let reports = input.reports()?;
    let verdicts: Vec<Verdict> = reports.iter().map(|report| report.verdict).collect();
    let exit = Exit::from_code(combined_exit_code(&verdicts, input.errors.len()));
    for error in &input.errors {
        complain(&error.message);
    }
    if context.json {
        out.json_line(&VerifyOutput::new(&reports, &input.errors, 0, exit.code()));
        return Ok(exit);
    }
    for report in &reports {
        if report.verdict != Verdict::Verified || !context.quiet {
            out.line(text::report(report, context.palette));
        }
    }
    Ok(exit)
}
