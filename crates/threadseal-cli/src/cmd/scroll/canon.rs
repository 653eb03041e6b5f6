//! `scroll canon`: the canonical bytes of one JSON value.

use super::input;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::canon::{cbor, jcs, json};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;

/// What `scroll canon` takes.
#[derive(Debug, Args)]
pub(crate) struct CanonArgs {
    /// A JSON file [default: standard input]
    file: Option<PathBuf>,
    /// Print deterministic CBOR (RFC 8949) instead of canonical JSON (RFC 8785)
    #[arg(long)]
    cbor: bool,
}

/// Prints only these bytes, without a line feed.
pub(super) fn run(args: &CanonArgs, context: &Context, out: &mut Out) -> Outcome {
    let bytes = match input::file_of(args.file.as_ref()) {
        Some(path) => input::file(path, context)?.read_whole(MAX_DOCUMENT_BYTES)?,
        None => input::whole_stdin()?,
    };
    let not_json = |error: json::JsonError| Failure::new(format!("not JSON: {error}"));
    let canonical = if args.cbor {
        let value = json::parse(&bytes).map_err(not_json)?;
        cbor::to_vec(&value).map_err(|error| Failure::new(error.to_string()))?
    } else {
        jcs::canonicalize(&bytes).map_err(not_json)?
    };
    out.bytes(&canonical);
    Ok(Exit::Done)
}
