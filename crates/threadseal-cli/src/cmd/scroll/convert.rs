//! `scroll convert`: the same sealed turns in another container. Hashes and signatures stay.

use super::ContainerArg;
use super::input::{self, Writer};
use crate::context::Context;
use crate::exit::{Exit, Outcome, complain};
use crate::output::Out;
use clap::Args;
use std::path::PathBuf;
use threadseal::canon::jcs;
use threadseal::error::Error;
use threadseal::scroll::{Form, SealedTurn};

/// What `scroll convert` takes.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A scroll [default: standard input]
    file: Option<PathBuf>,
    /// The container to write
    #[arg(long, value_enum)]
    to: ContainerArg,
    /// Write a new file instead of printing
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Converts; what no hash covers is told, because its canonical value is what is written.
pub(super) fn run(args: &ConvertArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut writer = Writer::new(args.to.into(), args.out.as_deref(), context, out)?;
    let (mut place, mut lost) = (0_u64, 0_u64);
    let end = input::turns(args.file.as_deref(), context, |bytes, form| {
        let about = |why: String| Error::invalid(format!("turn at place {place}: {why}"));
        if form == Form::Json {
            let (_, spelling) =
                jcs::canonicalize_closely(bytes).map_err(|error| about(error.to_string()))?;
            lost += u64::from(spelling.digits.is_some());
        }
        let value = input::value(bytes, form).map_err(about)?;
        let turn = SealedTurn::from_value(value).map_err(|error| about(error.to_string()))?;
        place += 1;
        writer.turn(&turn)
    })?;
    input::refuse_fault(&end)?;
    writer.finish()?;
    if lost > 0 {
        complain(&format!(
            "note: numbers in {lost} turns had digits that no hash covers; their canonical value was written"
        ));
    }
    Ok(Exit::Done)
}
