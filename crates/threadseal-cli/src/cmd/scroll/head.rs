//! `scroll head`: prints the head to keep elsewhere, so that a truncated or forked scroll is
//! noticed.

use super::input;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_core::digest::Hasher;
use threadseal_core::error::Error;
use threadseal_core::trust::Trust;
use threadseal_formats::scroll::{
    ChainOptions, Judging, SealedTurn, TurnReader, Verifier, conclude,
};

/// What `scroll head` takes.
#[derive(Debug, Args)]
pub(crate) struct HeadArgs {
    /// A scroll [default: standard input]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct HeadOutput {
    schema: &'static str,
    head: String,
    hash: String,
    turns: u64,
    transcript_sha256: String,
}

/// Prints the head of a valid chain; it does not prove the author.
pub(super) fn run(args: &HeadArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut verifier = Verifier::new(ChainOptions::default());
    let (mut reader, mut turns) = (None, 0_u64);
    let mut transcript = Hasher::new();
    let end = input::turns(
        input::file_of(args.file.as_ref()),
        context,
        |bytes, form, place| {
            let reader = reader.get_or_insert_with(|| TurnReader::new(form, &[]));
            verifier.take(&reader.read(bytes), place);
            let refuse = |why: String| {
                Error::refused(format!(
                    "turn at index {turns}: {why}; hint: threadseal scroll verify"
                ))
            };
            let value = input::value(bytes, form).map_err(refuse)?;
            let sealed =
                SealedTurn::from_value(value).map_err(|violation| refuse(violation.to_string()))?;
            transcript.update(if turns == 0 { b"[" } else { b"," });
            transcript.update(sealed.canonical());
            turns += 1;
            Ok(())
        },
    )?;
    transcript.update(b"]");
    let trust = Trust::default();
    let outcome = conclude(verifier, &end, &Judging::new(&trust, context.now()?));
    let (report, tip) = (outcome.report, outcome.tip);
    if report.verdict.exit_code() == 1 {
        let hint = ", so it has no head to keep; hint: threadseal scroll verify";
        return Err(Failure::refused("the scroll", &report, hint));
    }
    let Some(head) = tip.map(|tip| tip.head) else {
        return Err(Failure::new("a scroll without turns has no head"));
    };
    if context.json {
        out.json(&HeadOutput {
            schema: "threadseal.scroll.head/1",
            head: head.to_string(),
            hash: format!("sha256:{}", head.line),
            turns,
            transcript_sha256: transcript.finish().to_hex(),
        });
    } else {
        out.line(head);
    }
    Ok(Exit::Done)
}
