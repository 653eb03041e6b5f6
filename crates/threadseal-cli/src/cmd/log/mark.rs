//! `log mark`: the second places of an existing log.

use super::init;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::seal_log;
use clap::{Args, Subcommand};
use serde::Serialize;
use threadseal_log::MarkLocation;

/// What to do with second places.
#[derive(Debug, Subcommand)]
pub(crate) enum MarkCommand {
    /// Add a second place for the log's newest checkpoint
    ///
    /// An older copy of the home does not know the place, and does not ask it.
    Add(PlaceArgs),
    /// Remove a second place; its checkpoint stays there
    Remove(PlaceArgs),
    /// Update all second places to the log now
    Raise,
}

/// Which place.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// A folder, postgres://USER@HOST/DATABASE, s3://BUCKET/PREFIX, `keyring`, or the https:// address of another host's witness
    #[arg(value_name = "PLACE", value_parser = init::place)]
    place: MarkLocation,
}

#[derive(Serialize)]
struct MarkOutput {
    schema: &'static str,
    origin: String,
    marks: Vec<String>,
    /// Does every place have the log's last checkpoint?
    raised: bool,
}

/// Changes the places, and updates the remaining ones; exits 3 if one of them lags.
pub(super) fn run(command: &MarkCommand, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let places = seal_log::places(&home, context)?;
    let description = places.current()?;
    let description = description.ok_or_else(|| {
        Failure::new("this home has no log; hint: threadseal log init".to_owned())
    })?;
    let wanted = wanted(command, &description.marks)?;
    let changed = match wanted == description.marks {
        true => description,
        false => places.keep_marks_in(&description, wanted)?,
    };
    let raised = init::raise(&home, &places, &changed, context)?;
    let marks = init::marks(&changed);
    if context.json {
        out.json(&MarkOutput {
            schema: "threadseal.log.mark/1",
            origin: changed.id.origin(),
            marks,
            raised,
        });
    } else if !context.quiet {
        for mark in &marks {
            out.line(format_args!("mark   {}", Clean(mark)));
        }
    }
    Ok(match raised {
        true => Exit::Done,
        false => Exit::Unconfirmed,
    })
}

fn wanted(command: &MarkCommand, there: &[MarkLocation]) -> Result<Vec<MarkLocation>, Failure> {
    let mut wanted = there.to_vec();
    match command {
        MarkCommand::Raise => {}
        MarkCommand::Add(args) => {
            if !wanted.contains(&args.place) {
                wanted.push(args.place.clone());
            }
        }
        MarkCommand::Remove(args) => {
            let at = wanted.iter().position(|place| *place == args.place);
            match at {
                // The default place is always used, whether `log.json` names it or not.
                Some(0) => {
                    return Err(Failure::new(format!(
                        "{} is the default second place and cannot be removed",
                        args.place
                    )));
                }
                Some(at) => drop(wanted.remove(at)),
                None => {
                    return Err(Failure::new(format!(
                        "{} is not a second place of this log",
                        args.place
                    )));
                }
            }
        }
    }
    Ok(wanted)
}
