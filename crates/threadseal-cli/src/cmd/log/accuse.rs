//! `log accuse`: takes evidence of two histories into the log, so that no copy of the record passes for the record here.

use super::existing;
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome};
use crate::gather;
use crate::local::Local;
use crate::output::Out;
use crate::render::clean::Clean;
use crate::render::text;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use threadseal::limits::MAX_TURN_PROOF_BYTES;
use threadseal::transcript::VerifyOptions;
use threadseal::transcript::turn_proof::conflict::{FIRST_LINE, check_file};
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;

/// What `log accuse` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct AccuseArgs {
    /// A conflict of seals (verify COPY COPY --evidence FILE); check-proof says what it proves
    #[arg(value_name = "FILE")]
    evidence: PathBuf,
}

/// Writes down what is proved by the home's trust; exits as check-proof does, and writes nothing, where nothing is.
pub(super) fn run(args: &AccuseArgs, context: &Context, out: &mut Out) -> Outcome {
    let log = existing(context)?;
    let local = Local::to(&[], false, context);
    let trust = gather::gather(&[], None, &local, context)?;
    let bytes = open_regular(&*context.fs, &args.evidence)?.read_whole(MAX_TURN_PROOF_BYTES)?;
    if !bytes.starts_with(FIRST_LINE.as_bytes()) {
        let text = "not a conflict of seals; threadseal verify COPY COPY --evidence FILE makes one";
        return Err(Failure::new(text).about(&args.evidence));
    }
    let options = VerifyOptions {
        trust: &trust,
        now: context.now()?,
        held_since: None,
        thread: None,
    };
    let mut checked = check_file(&bytes, &options);
    checked.report.path = path_text(&args.evidence);
    let exit = Exit::from_code(checked.report.verdict.exit_code());
    let schema = "threadseal.log.accuse/1";
    let Some(proved) = checked.proved else {
        match context.json {
            true => out.json(&json!({"schema": schema, "state": "refused",
                                     "result": checked.report, "exit": exit.code()})),
            false => out.line(text::report(&checked.report, context.palette)),
        }
        return Ok(exit);
    };
    let accused = log.commit_fork(&proved, &bytes)?;
    let fork = proved.get();
    let (entry, path) = (&accused.entry, path_text(&accused.path));
    if context.json {
        let state = if accused.is_new { "written" } else { "known" };
        out.json(&json!({"schema": schema, "state": state, "entry": entry, "record": fork.record.to_string(),
                         "seq": fork.seq, "key": fork.key.to_hex(), "evidence": path, "exit": exit.code()}));
    } else if !context.quiet {
        let known = if accused.is_new {
            ""
        } else {
            "known already: "
        };
        out.line(format_args!(
            "{known}{entry} says that key {} sealed record {} in two ways, from seal {}",
            fork.key, fork.record, fork.seq
        ));
        out.line(format_args!("the evidence is kept as {}", Clean(&path)));
    }
    Ok(exit)
}
