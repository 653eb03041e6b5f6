//! `ledger verify`: prints a report for each run or, with `--compat`, the answer of
//! AbstractRuntime's verifier.

use super::place::{self, Place};
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::progress::Bar;
use crate::render::json::VerifyOutput;
use crate::render::text;
use crate::verifying::{self, IdArgs};
use clap::Args;
use serde::Deserialize;
use std::iter;
use std::path::{Path, PathBuf};
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Report, Verdict, combined_exit_code};
use threadseal_formats::ledger::RunId;
use threadseal_verify::notices::Progress as _;
use threadseal_verify::request::{LedgerRequest, VerifyRequest};
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::Verifier;

/// What `ledger verify` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct VerifyArgs {
    /// A file of records, a bundle, an SQLite file, a folder, or file:DIR, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "LEDGER")]
    ledger: String,
    /// The run; a file must be the ledger of this run [default: all runs]
    #[arg(long, value_name = "ID", value_parser = RunId::parse)]
    run: Option<RunId>,
    /// Require this key's signature on every record: 64 hex digits, did:key, PEM file, or a name of
    /// the trust store; repeatable, then one of these keys must have signed
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// Trust these instead of the home's trust store; repeatable
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    #[command(flatten)]
    id: IdArgs,
    /// A head that the ledger must contain: <record>:<seq>:<size>:<sha256>, or a record hash
    #[arg(long, value_name = "HEAD", value_parser = ExpectedHead::parse)]
    expect_head: Option<ExpectedHead>,
    /// Require the expected head to be the last one
    #[arg(long, requires = "expect_head")]
    exact_head: bool,
    /// Number of records that the ledger must have
    #[arg(long, value_name = "N")]
    expect_length: Option<u64>,
    /// Answer as AbstractRuntime's verifier, one line for each run; it accepts truncated and
    /// rewritten ledgers
    #[arg(long)]
    compat: bool,
    /// Accept a home or trust inside the folder of the ledger; the report mentions it
    #[arg(long)]
    allow_local_trust: bool,
}

pub(super) fn run(args: &VerifyArgs, context: &Context, out: &mut Out) -> Outcome {
    let reports = reports(args, context)?;
    if reports.is_empty() {
        return Err(Failure::new("no run was found to verify"));
    }
    if args.compat {
        return as_original(&reports, out);
    }
    let verdicts: Vec<Verdict> = reports.iter().map(|report| report.verdict).collect();
    let exit = Exit::from_code(combined_exit_code(&verdicts, 0));
    if context.json {
        out.json_line(&VerifyOutput::new(&reports, &[], 0, exit.code()));
        return Ok(exit);
    }
    for report in &reports {
        if report.verdict != Verdict::Verified || !context.quiet {
            out.line(text::report(report, context.palette));
        }
    }
    Ok(exit)
}

fn reports(args: &VerifyArgs, context: &Context) -> Result<Vec<Report>, Failure> {
    let place = match place::readable(&args.ledger, context) {
        // A damaged bundle gets a report, like any other record.
        Err(_) if !args.compat && place::is_bundle(&args.ledger, context) => None,
        place => Some(place?),
    };
    let paths: Vec<PathBuf> = path_of(&args.ledger).into_iter().collect();
    let local = Locality::to(&paths, args.allow_local_trust, &context.fs);
    let trust = verifying::gather(&args.id.and(&args.trust), &args.key, &local, context)?;
    let asked = VerifyRequest {
        expect_head: args.expect_head,
        exact_head: args.exact_head,
        ledger: LedgerRequest {
            run: args.run.clone(),
            length: args.expect_length,
        },
        ..VerifyRequest::by(trust)
    };
    let bytes = match &place {
        Some(Place::Lines(file)) => file.size(),
        _ => 0,
    };
    let bar = match bytes {
        0 => Bar::hidden(),
        bytes => Bar::over(bytes, context),
    };
    let verifier = verifying::verifier(asked, &bar, context)?;
    let reports = match &place {
        Some(place) => of_place(place, args, &verifier, context),
        None => verifier.bundle_file(&args.ledger).map_err(Failure::from),
    };
    bar.done();
    reports
}

fn of_place(
    place: &Place,
    args: &VerifyArgs,
    verifier: &Verifier,
    context: &Context,
) -> Result<Vec<Report>, Failure> {
    let of_file = |path: &Path| {
        let report = verifier.ledger_at(path)?.1.report;
        let index = match args.compat {
            true => None,
            false => verifier.ledger_index(path)?,
        };
        Ok::<_, Failure>(iter::once(report).chain(index).collect::<Vec<_>>())
    };
    match place {
        Place::Lines(file) => of_file(file.path()),
        Place::Bundle(_) => Ok(verifier.bundle_file(&args.ledger)?),
        Place::Store(store) => Ok(verifier.store(&**store, &args.ledger)?),
        Place::Files(store) => {
            let runs = match &args.run {
                Some(run) => vec![run.clone()],
                None => place.runs()?,
            };
            let report = |run: &RunId| match place.file_of(Some(run), context)? {
                Some(path) => of_file(&path),
                None => Ok(vec![verifier.run(store, run, &args.ledger)?.report]),
            };
            let reports = runs.iter().map(report).collect::<Result<Vec<_>, _>>()?;
            let mut reports = reports.concat();
            if args.run.is_none() {
                reports.extend(verifier.strays(store, &args.ledger)?);
            }
            Ok(reports)
        }
    }
}

/// The path of a place that is on the disk.
pub(super) fn path_of(ledger: &str) -> Option<PathBuf> {
    let path = ["file://", "file:", "sqlite://", "sqlite:"]
        .into_iter()
        .find_map(|scheme| ledger.strip_prefix(scheme))
        .unwrap_or(ledger);
    let path = PathBuf::from(path);
    path.exists().then_some(path)
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    ok: bool,
}

fn as_original(reports: &[Report], out: &mut Out) -> Outcome {
    complain(
        "warning: --compat accepts truncated, rewritten and re-chained ledgers; use it to compare, not to trust",
    );
    let mut exit = Exit::Done;
    for report in reports {
        let answer = report.compat.get("abstractruntime");
        let text = answer.map(threadseal_core::report::Compat::as_json);
        let text = text.ok_or_else(|| Failure::new("there is no answer of AbstractRuntime"))?;
        if !serde_json::from_str::<Answer>(text).is_ok_and(|answer| answer.ok) {
            exit = Exit::Evidence;
        }
        out.line(text);
    }
    Ok(exit)
}
