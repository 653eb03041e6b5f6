//! `transcript export`: the bytes of a record, as they are in its store.

use crate::context::Context;
use crate::exit::{Exit, Outcome};
use crate::output::Out;
use crate::record;
use clap::Args;
use std::path::PathBuf;
use threadseal_store::atomic::{NewFile, PRIVATE_FILE};
use threadseal_store::read::Source as _;

/// What `transcript export` takes.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// STORE#NAME
    #[arg(value_name = "TRANSCRIPT")]
    from: PathBuf,
    /// A new file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Writes the record; whether it holds, verify says of the store and of the file.
pub(super) fn run(args: &ExportArgs, context: &Context, out: &mut Out) -> Outcome {
    let file = record::open(&*context.fs, &args.from)?;
    let mut to = match &args.out {
        Some(path) => Some(NewFile::begin(&*context.fs, path, PRIVATE_FILE)?),
        None => None,
    };
    let (mut chunks, mut chunk) = (file.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            break;
        }
        match &mut to {
            Some(to) => to.write(&chunk)?,
            None => out.bytes(&chunk),
        }
    }
    if let Some(to) = to {
        to.commit_new()?;
    }
    Ok(Exit::Done)
}
