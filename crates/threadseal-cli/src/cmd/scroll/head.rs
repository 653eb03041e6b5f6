//! `scroll head`: what to keep elsewhere, so that a cut or forked scroll is noticed.

use super::input;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal::digest::Hasher;
use threadseal::error::Error;
use threadseal::record::Head;
use threadseal::scroll::{SealedTurn, verify};

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

/// Prints the head of a chain that holds; whose it is, it does not say.
pub(super) fn run(args: &HeadArgs, context: &Context, out: &mut Out) -> Outcome {
    let (mut head, mut place): (Option<Head>, u64) = (None, 0);
    let mut transcript = Hasher::new();
    let end = input::turns(args.file.as_deref(), context, |bytes, form| {
        let refuse = |why: &str| Error::refused(format!("turn at place {place}: {why}; verify it"));
        let value = input::value(bytes, form).map_err(|why| refuse(&why))?;
        let linked = value
            .get("prev_hash")
            .and_then(|hash| hash.as_str().map(str::to_owned));
        // Alone the turn is a chain of one: its hash, bodies and signature are looked at.
        let mut alone = verify(std::slice::from_ref(&value), None);
        if let Some(failure) = alone.failures.pop() {
            return Err(refuse(failure.reason.as_str()));
        }
        if linked != head.map(|head| format!("sha256:{}", head.line)) {
            return Err(refuse("it does not follow the turn before it"));
        }
        let sealed =
            SealedTurn::from_value(value).map_err(|violation| refuse(&violation.to_string()))?;
        transcript.update(if place == 0 { b"[" } else { b"," });
        transcript.update(sealed.canonical());
        head = Some(super::seal::after(head, &sealed));
        place += 1;
        Ok(())
    })?;
    input::refuse_fault(&end)?;
    transcript.update(b"]");
    let Some(head) = head else {
        return Err(Failure::new("a scroll without turns has no head"));
    };
    if context.json {
        out.json(&HeadOutput {
            schema: "threadseal.scroll.head/1",
            head: head.to_string(),
            hash: format!("sha256:{}", head.line),
            turns: place,
            transcript_sha256: transcript.finish().to_hex(),
        });
    } else {
        out.line(head);
    }
    Ok(Exit::Done)
}
