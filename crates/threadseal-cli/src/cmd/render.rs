//! `render PATH`: the verified part of a transcript as Markdown.

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use crate::output::Out;
use crate::render::markdown;
use crate::verified_events::VerifiedEvents;
use clap::Args;
use std::path::PathBuf;

/// What `render` takes.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// A transcript, or STORE#NAME
    path: PathBuf,
}

/// Prints the Markdown; nothing for a record without a trusted key.
pub(crate) fn run(args: &RenderArgs, context: &Context, out: &mut Out) -> Outcome {
    if context.json {
        return Err(Failure::new(
            "Markdown is not JSON; hint: remove --json, or use threadseal messages",
        ));
    }
    let believed = VerifiedEvents::read(&args.path, context)?;
    if !believed.events.is_empty() {
        out.bytes(markdown::transcript(&believed).as_bytes());
    }
    Ok(believed.settle(context))
}
