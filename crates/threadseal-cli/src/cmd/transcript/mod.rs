//! `transcript …`: native records in stores (`spec/transcript-store.md`).
//!
//! A store is `file:DIR`, `s3://…`, `gs://…`, `az://…` or `object+file:DIR`; `STORE#NAME` is a
//! record in it. `verify`, `seal`, `show`, `messages`, `render`, `diff` and `fsck` take these
//! addresses too.

mod export;
mod head;
mod import;
mod list;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::Out;
use clap::Subcommand;

/// What to do with transcripts in stores.
#[derive(Debug, Subcommand)]
pub(crate) enum TranscriptCommand {
    /// List the records of a store
    List(list::ListArgs),
    /// Print the head of a record, to keep it elsewhere
    Head(head::HeadArgs),
    /// Take a native record into a store, byte for byte
    Import(import::ImportArgs),
    /// Write a record as it is
    Export(export::ExportArgs),
}

pub(crate) fn run(command: &TranscriptCommand, context: &Context, out: &mut Out) -> Outcome {
    match command {
        TranscriptCommand::List(args) => list::run(args, context, out),
        TranscriptCommand::Head(args) => head::run(args, context, out),
        TranscriptCommand::Import(args) => import::run(args, context, out),
        TranscriptCommand::Export(args) => export::run(args, context, out),
    }
}
