//! `thread resume`: a successor continues a verified record, and nothing else.

use crate::cmd::run::{result_of, told_number};
use crate::context::{self, Context};
use crate::engine::{EngineArgs, engine, records, settings, told};
use crate::exit::{Failure, Outcome};
use crate::fleet::{DatabaseArgs, Fleet};
use crate::output::Out;
use clap::Args;
use threadseal_core::record::ThreadId;
use threadseal_runtime::history::Archive;
use threadseal_runtime::runner::{ResumeMode, Resumption};
use threadseal_runtime::toolbox::Cancel;

/// What `thread resume` takes.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The thread, or any other thread of its chain
    #[arg(value_name = "THREAD")]
    thread: String,
    /// Message to the agent
    #[arg(long, short, value_name = "TEXT")]
    message: String,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Whether workers do it.
#[derive(Debug, Args)]
pub(super) struct OrderArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// With --database: only queue the order, and print its number
    #[arg(long, requires = "database")]
    detach: bool,
}

pub(super) fn run(args: &ResumeArgs, context: &Context, out: &mut Out) -> Outcome {
    let cancel = Cancel::default();
    context::cancel_on_interrupt(&cancel.flag())?;
    let wanted = wanted(&args.thread, &args.message, &args.engine, cancel)?;
    if let Some(fleet) = args.order.open(context)? {
        return args.order.give(
            &fleet,
            &wanted,
            ResumeMode::Resume,
            &args.engine,
            context,
            out,
        );
    }
    let ran = engine(&args.engine, context)?.resume(&wanted)?;
    Ok(told(&ran, context, out))
}

impl OrderArgs {
    /// The database of the thread, if one is named.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub(super) fn open(&self, context: &Context) -> Result<Option<Fleet>, Failure> {
        self.database.open(context)
    }

    /// Queues the order for workers if the record verifies, and waits for its result.
    ///
    /// # Errors
    /// When the thread may not be resumed, or the database cannot be reached.
    pub(super) fn give(
        &self,
        fleet: &Fleet,
        wanted: &Resumption,
        way: ResumeMode,
        engine: &EngineArgs,
        context: &Context,
        out: &mut Out,
    ) -> Outcome {
        let records = records(&engine.place, context, Some(fleet))?;
        let settings = settings(engine, &records.project, &records.trust, context)?;
        let archive = Archive {
            host: &records.host,
            project: &records.project,
            trust: &records.trust,
            log: &records.log,
            registry: &*records.registry,
            integrity: settings.config.coordination.transcript_integrity,
        };
        let number = fleet.resume(wanted, way, &archive)?;
        match self.detach {
            true => Ok(told_number(number, context, out)),
            false => result_of(fleet, number, &wanted.cancel, context, out),
        }
    }
}

/// The requested continuation.
///
/// # Errors
/// When the thread's name or a limit is invalid.
pub(super) fn wanted(
    thread: &str,
    message: &str,
    engine: &EngineArgs,
    cancel: Cancel,
) -> Result<Resumption, Failure> {
    Ok(Resumption {
        thread: ThreadId::parse(thread)?,
        message: message.to_owned(),
        limits: engine.limits()?,
        cancel,
    })
}
