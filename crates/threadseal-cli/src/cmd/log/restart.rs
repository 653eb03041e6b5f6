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
                "this home has no log; hint: threadseal log init".to_owned(),
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
            "this log has no fault; hint: --anyway ends it nevertheless".to_owned(),
        ));
    }
    let Some(past) = places.past(&args.copy, witnessed)? else {
        complain(
            "warning: only the key of the previous log is left: for records that only that log knew, a loss or a rollback \
             cannot be detected",
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
            "the previous log had {}, as far as known; the newest heads of {} were carried over",
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
                "next: the policy {name:?} names the previous key; replace it with threadseal anchor add; the new policy needs the line: log {vkey}"
            ));
        }
    }
    complain(&format!(
        "next: on each host that is a witness of this log: threadseal witness add {vkey}"
    ));
    complain(
        "next: if the log is published, publish it to a new place: threadseal log publish STORE",
    );
    complain("next: others who check proofs with their own policy need the new key");
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
            "warning: it is not known whether the previous log had other second places; hint: add them again with threadseal log mark add",
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
                "warning: the previous log is not the one of {} that its second place knows: entries that only \
                 that log contained are lost",
                entries(*of)
            ));
        } else if *lacking > 0 {
            complain(&format!(
                "warning: {lacking} of {} of the previous log are lost: for records that only they named, a loss or a rollback \
                 cannot be detected",
                entries(*of)
            ));
        }
        if self.order {
            complain(
                "warning: no second place confirms the entries that the previous log had before a key ended: the log no longer \
                 proves that seals of that key count",
            );
        }
    }
}
