//! `transcript list`: lists the records of a store.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use threadseal_store::address::Intent;

/// What `transcript list` takes.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// file:DIR, s3://…, gs://…, az://… or object+file:DIR
    #[arg(value_name = "STORE")]
    store: String,
}

#[derive(Serialize)]
struct ListOutput {
    schema: &'static str,
    records: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    bytes: u64,
}

/// Prints a line for each record, without verification.
pub(super) fn run(args: &ListArgs, context: &Context, out: &mut Out) -> Outcome {
    let (store, only) = record::store(&args.store, Intent::Read)?;
    let names = match only {
        Some(name) => vec![name],
        None => record::names(&*store)?,
    };
    let mut records = Vec::new();
    for name in &names {
        let file = store.read(name)?;
        let file = file.ok_or_else(|| Failure::new(format!("there is no record {name}")))?;
        let (name, bytes) = (name.to_string(), file.size());
        if !context.json {
            out.line(format!("{}  {bytes} bytes", Clean(&name)));
        }
        records.push(Listed { name, bytes });
    }
    if context.json {
        out.json(&ListOutput {
            schema: "threadseal.transcript.list/1",
            records,
        });
    }
    Ok(Exit::Done)
}
