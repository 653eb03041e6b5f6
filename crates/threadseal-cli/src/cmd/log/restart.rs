//! `log restart`: makes another log in place of one that cannot continue.

use super::init::{self, LogArgs, NewLog};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_log;
use crate::output::Out;
use crate::policies::{names, policies};
use crate::render::text::{counted, entries};
use crate::seal_log;
use clap::Args;
use std::path::PathBuf;
use threadseal_log::{OldLog, SealLog};
use threadseal_store::home::Home;
use threadseal_verify::anchors::witnessed as witnessed_by;

/// What `log restart` takes.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    init: LogArgs,
    /// Also carry over the knowledge of a copy of the log: its folder with `journal` and `tile`;
    /// repeatable
    #[arg(long, value_name = "DIR")]
    copy: Vec<PathBuf>,
    /// Restart even if the log is valid, or cannot be read completely
    #[arg(long)]
    anyway: bool,
}

/// Makes the log; its first entry holds the last checkpoint of the previous log.
pub(super) fn run(args: &RestartArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let places = seal_log::places(&home, context)?;
    let mut witnessed = None;
    let good = match places.current() {
        Ok(None) => {
            return Err(Failure::new(
                "this home has no log; run: threadseal log init".to_owned(),
            ));
        }
        Ok(Some(description)) => {
            let log = seal_log::of(&home, places.clone(), description, context)?;
            // A witness that cannot be judged now vouches for nothing.
            witnessed = witnessed_by(&log, Some(&home), &*context.fs, context)
                .ok()
                .flatten()
                .map(|(tree, _)| tree);
            log.fault().is_ok_and(|fault| fault.is_none())
        }
        Err(_) => false,
    };
    if good && !args.anyway {
        return Err(Failure::new(
            "nothing is wrong with this log; --anyway ends it all the same".to_owned(),
        ));
    }
    let Some(past) = places.past(&args.copy, witnessed)? else {
        complain(
            "warning: nothing but its key is left of the log before: of records that only it knew, nothing shows that they are gone or \
             older",
        );
        let description = init::make(&home, &places, &args.init, context)?;
        init::tell(&description, context, out);
        return Ok(Exit::Done);
    };
    let wanted = with_places_of(&past, &args.init);
    let lost = Lost::of(&past);
    let before = past.tree.size;
    let stored = home.heads().all()?;
    let made = NewLog::describe(&home, &places, &wanted, context)?;
    made.keep(&home, context)?;
    let NewLog {
        description, key, ..
    } = made;
    let came = places.restart(past, &description, &key, &stored, args.anyway)?;
    init::raise(&home, &places, &description, context)?;
    let log = seal_log::of(&home, places, description.clone(), context)?;
    key_log::follow(&home, &log, context)?;
    lost.tell();
    if !context.json && !context.quiet {
        out.line(format_args!(
            "the log before had {}, as far as is known; the newest heads of {} came along",
            entries(before),
            counted(came as u64, "record", "records")
        ));
    }
    init::tell(&description, context, out);
    if !context.json && !context.quiet {
        what_follows(&home, &log, &description.vkey(), context)?;
    }
    Ok(Exit::Done)
}

/// Reports what to do about witnesses, which know only the previous log.
fn what_follows(home: &Home, log: &SealLog, vkey: &str, context: &Context) -> Result<(), Failure> {
    let key = log.verifier()?;
    for (name, policy) in policies(home, context)?.telling(context) {
        if !names(&policy, &key) {
            complain(&format!(
                "next: the policy {name:?} names the key before: threadseal anchor add one with the line: log {vkey}"
            ));
        }
    }
    complain(&format!(
        "next: on each host that is a witness of this log: threadseal witness add {vkey}"
    ));
    complain("next: if the log is published, into a new place: threadseal log publish STORE");
    complain("next: whoever checks proofs by a policy of his own needs the new key");
    Ok(())
}

/// Keeps the second places of the previous log.
fn with_places_of(past: &OldLog, args: &LogArgs) -> LogArgs {
    let mut wanted = args.clone();
    match past.more_marks() {
        Some(there) => {
            let stays = there.iter().filter(|place| !args.mark.contains(place));
            wanted.mark.extend(stays.cloned());
        }
        None => complain(
            "warning: nothing tells any more whether the log before had other second places: name them again with threadseal log mark add",
        ),
    }
    wanted
}

/// The parts that are not carried over.
struct Lost {
    lacking: u64,
    of: u64,
    forked: bool,
    order: bool,
}

impl Lost {
    fn of(past: &OldLog) -> Self {
        Self {
            lacking: past.lacking,
            of: past.tree.size,
            forked: past.forked,
            order: past.is_order_lost(),
        }
    }

    fn tell(&self) {
        let Self { lacking, of, .. } = self;
        if self.forked {
            complain(&format!(
                "warning: the log before is not the one of {} that its second place knows: whatever that one held and \
                 this one did not is lost",
                entries(*of)
            ));
        } else if *lacking > 0 {
            complain(&format!(
                "warning: of {} of the log before {lacking} are not there any more: of records that only they knew, nothing shows \
                 that they are gone or older",
                entries(*of)
            ));
        }
        if self.order {
            complain(
                "warning: no second place vouches for what stood in the log before a key ended: what that key sealed does not count \
                 by it any more",
            );
        }
    }
}
