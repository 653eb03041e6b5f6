//! `log mark`: the second places of an existing log.

use super::init;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::render::clean::Clean;
use crate::seal_log;
use clap::{Args, Subcommand};
use serde::Serialize;
use threadseal_log::{Description, LogRegistry, MarkLocation, SealLog};

/// What to do with second places.
#[derive(Debug, Subcommand)]
pub(crate) enum MarkCommand {
    /// Add a second place for the log's newest checkpoint
    ///
    /// An older copy of the home does not know the place, and does not ask it. The log lists the place, so that its
    /// removal from log.json is noticed.
    Add(PlaceArgs),
    /// Remove a second place; its checkpoint stays there
    ///
    /// The log states the removal. A place that is gone for good need not answer, the others must.
    Remove(RemoveArgs),
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

/// Which place is removed.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The place, as it was added
    #[arg(value_name = "PLACE", value_parser = init::place, required_unless_present = "forgotten")]
    place: Option<MarkLocation>,
    /// Remove all places that the log lists and log.json does not name any more
    #[arg(long, conflicts_with = "place")]
    forgotten: bool,
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
    let changed = match command {
        MarkCommand::Raise => description,
        MarkCommand::Add(args) if description.marks.contains(&args.place) => description,
        MarkCommand::Add(args) => {
            let there = description.marks.iter().chain([&args.place]);
            places.keep_marks_in(&description, there.cloned().collect())?
        }
        MarkCommand::Remove(args) => {
            let log = seal_log::of(&home, places.clone(), description, context)?;
            remove(args.place.as_ref(), &log, &places)?
        }
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

/// Removes a place, or all that were forgotten, from the log and from `log.json`. Where the log commits nothing, `log.json` changes
/// alone: a log that went back must not keep its owner from a restart.
fn remove(
    place: Option<&MarkLocation>,
    log: &SealLog,
    places: &LogRegistry,
) -> Result<Description, Failure> {
    let there = &log.description().marks;
    if let Some(place) = place {
        // The default place is always used, whether `log.json` names it or not.
        if there.first() == Some(place) {
            return Err(Failure::new(format!(
                "{place} is the default second place and cannot be removed"
            )));
        }
        if !there.contains(place) && !log.lists_place(place)? {
            return Err(Failure::new(format!(
                "{place} is not a second place of this log"
            )));
        }
    }
    let kept = there.iter().filter(|other| Some(*other) != place);
    let kept: Vec<MarkLocation> = kept.cloned().collect();
    let names_it = kept.len() < there.len();
    match log.remove_place(place, kept.clone()) {
        Ok(changed) => Ok(changed),
        Err(error) if names_it => {
            complain(&format!(
                "warning: the log does not state the removal yet: {error}; hint: repeat the command when it can"
            ));
            Ok(places.keep_marks_in(log.description(), kept)?)
        }
        Err(error) => Err(error.into()),
    }
}
