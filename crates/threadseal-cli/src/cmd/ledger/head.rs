//! `ledger head`: prints the head to keep elsewhere, so that a truncated or rewritten ledger is
//! noticed.

use super::place::{self, Place};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::progress::Bar;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use threadseal_core::report::Verdict;
use threadseal_core::trust::Trust;
use threadseal_formats::ledger::{self, ChainTip, RunId};
use threadseal_verify::request::VerifyRequest;
use threadseal_verify::verifier::Verifier;

/// What `ledger head` takes.
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// A file of records, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// The run [default: the only one]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
}

#[derive(Serialize)]
struct HeadOutput<'a> {
    schema: &'static str,
    run: &'a str,
    head: String,
    hash: String,
    records: u64,
}

/// Prints the head of a valid chain; it does not prove the author.
pub(super) fn run(args: &HeadArgs, context: &Context, out: &mut Out) -> Outcome {
    let place = place::readable(&args.ledger, context)?;
    let run = place.one(args.run.as_ref())?;
    let asked = VerifyRequest::by(Trust::default());
    let verifier = verifying::verifier(asked, &Bar::hidden(), context)?;
    let outcome = whole(&place, &run, &args.ledger, &verifier, context)?;
    let tip = tip_of(&outcome)?;
    let head = tip.head();
    if context.json {
        out.json(&HeadOutput {
            schema: "threadseal.ledger.head/1",
            run: run.as_str(),
            head: head.to_string(),
            hash: tip.hash.to_hex(),
            records: tip.count,
        });
    } else {
        out.line(head);
    }
    Ok(Exit::Done)
}

/// Verifies the whole ledger of `run`.
///
/// # Errors
/// When it cannot be read, or is in a bundle: a bundle may be a part.
pub(super) fn whole(
    place: &Place,
    run: &RunId,
    name: &str,
    verifier: &Verifier,
    context: &Context,
) -> Result<ledger::Outcome, Failure> {
    if let Some(path) = place.file_of(Some(run), context)? {
        return Ok(verifier.ledger_at(&path)?.1);
    }
    if let Place::Bundle(bundle) = place {
        let found = bundle.ledgers.iter().find(|ledger| ledger.run == *run);
        let ledger =
            found.ok_or_else(|| Failure::new(format!("there is no run {run} in this bundle")))?;
        return Ok(verifier.bundled(ledger)?);
    }
    Ok(verifier.run(place.store()?, run, name)?)
}

/// The end of a valid chain without a tail.
///
/// # Errors
/// Naming the verdict, when the ledger is not valid or its end is not chained.
pub(super) fn tip_of(outcome: &ledger::Outcome) -> Result<&ChainTip, Failure> {
    let verdict = outcome.report.verdict;
    let partial = matches!(verdict, Verdict::Partial | Verdict::Unsigned);
    outcome.tip.as_ref().filter(|_| !partial).ok_or_else(|| {
        let path = std::path::Path::new(&outcome.report.path);
        let hint = "; hint: threadseal ledger verify";
        Failure::refused("the ledger", &outcome.report, hint).about(path)
    })
}
