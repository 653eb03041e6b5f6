//! `log accuse`: adds evidence of a fork to the log, so that every copy of the record fails here.

use super::existing;
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text;
use crate::verifying;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use threadseal_core::limits::MAX_EVIDENCE_BYTES;
use threadseal_core::report::Report;
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};
use threadseal_formats::lineage::{FORK_FIRST_LINE, ForkReader, Judging, check_fork};
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::conflict::{FIRST_LINE, check_file};
use threadseal_formats::verified::Verified;
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;
use threadseal_verify::trust_locality::Locality;

/// What `log accuse` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct AccuseArgs {
    /// Evidence: a conflict of seals (verify COPY COPY --evidence FILE) or a fork of a lineage
    /// (lineage fork-proof); check-proof shows its content
    #[arg(value_name = "FILE")]
    evidence: PathBuf,
}

/// Logs the fork if the evidence is valid by the home's trust. Otherwise it logs nothing, and exits
/// as `check-proof` does.
pub(super) fn run(args: &AccuseArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let local = Locality::to(&[], false, &context.fs);
    let trust = verifying::gather(&[], &[], &local, context)?;
    let options = VerifyOptions {
        trust: &trust,
        now: context.now()?,
        held_since: None,
        thread: None,
    };
    let bytes = open_regular(&*context.fs, &args.evidence)?.read_whole(MAX_EVIDENCE_BYTES)?;
    let (mut report, proved) = judge(&bytes, &options).map_err(|why| why.about(&args.evidence))?;
    report.path = path_text(&args.evidence);
    let exit = Exit::from_code(report.verdict.exit_code());
    let schema = "threadseal.log.accuse/1";
    out.because(&report);
    let Some(proved) = proved else {
        match context.json {
            true => out.json(&json!({"schema": schema, "state": "refused", "result": report})),
            false => out.line(text::report(&report, context.palette)),
        }
        return Ok(exit);
    };
    let accused = log.commit_fork(&proved, &bytes)?;
    let fork = proved.get();
    let seq = match fork.place {
        ForkPlace::Transcript { seq, .. } => Some(seq),
        ForkPlace::Lineage(found) => found.seq,
    };
    let (entry, path) = (&accused.entry, path_text(&accused.path));
    if context.json {
        let state = if accused.is_new { "written" } else { "known" };
        out.json(&json!({"schema": schema, "state": state, "entry": entry, "record": fork.record.to_string(),
                         "seq": seq, "key": fork.key.to_hex(), "evidence": path}));
    } else if !context.quiet {
        let known = if accused.is_new {
            ""
        } else {
            "known already: "
        };
        out.line(format_args!("{known}{entry}: {fork}"));
        out.line(format_args!("the evidence is kept as {}", Clean(&path)));
    }
    Ok(exit)
}

/// The fork that the evidence proves by this trust.
fn judge(
    bytes: &[u8],
    options: &VerifyOptions<'_>,
) -> Result<(Report, Option<Verified<LoggedFork>>), Failure> {
    if bytes.starts_with(FIRST_LINE.as_bytes()) {
        let checked = check_file(bytes, options);
        return Ok((checked.report, checked.proved));
    }
    if bytes.starts_with(FORK_FIRST_LINE.as_bytes()) {
        let mut reader = ForkReader::new();
        reader.push(bytes);
        let checked = check_fork(reader, &Judging::new(options.trust, options.now));
        return Ok((checked.report, checked.proved));
    }
    Err(Failure::new(
        "neither a conflict of seals (threadseal verify COPY COPY --evidence FILE) nor a fork of a lineage \
         (threadseal lineage fork-proof)",
    ))
}
