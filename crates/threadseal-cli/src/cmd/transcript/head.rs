//! `transcript head`: prints the head to keep elsewhere, so that a truncated or rolled back record
//! is noticed.

use super::import::whole;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// What `transcript head` takes.
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// A native transcript, or STORE#NAME
    #[arg(value_name = "TRANSCRIPT")]
    path: PathBuf,
}

#[derive(Serialize)]
struct HeadOutput {
    schema: &'static str,
    head: String,
    verdict: threadseal_core::report::Verdict,
}

/// Prints the head of a valid record.
pub(super) fn run(args: &HeadArgs, context: &Context, out: &mut Out) -> Outcome {
    let (_, report) = whole(&args.path, context)?;
    let head = report.head.map(|head| head.to_string());
    let head = head.ok_or_else(|| Failure::new("the record has no seal").about(&args.path))?;
    if context.json {
        out.json(&HeadOutput {
            schema: "threadseal.transcript.head/1",
            head,
            verdict: report.verdict,
        });
    } else {
        out.line(head);
    }
    Ok(Exit::Done)
}
