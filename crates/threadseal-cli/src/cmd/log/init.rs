//! `log init`: the log of this home, with a key of its own.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::{self, Keyring};
use crate::output::Out;
use crate::seal_log;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal::key::{KeyUsage, LocalSigner};
use threadseal_store::home::Home;
use threadseal_store::seal_log::{self as store, Description, LogKey, LogPlaces};

/// What `log init` takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArgs {
    /// Another folder for the log's last checkpoint, best on another disk; may be given again
    #[arg(long, value_name = "DIR")]
    pub(crate) mark: Vec<PathBuf>,
    /// The home lies on a network file system, and one machine alone uses it
    #[arg(long)]
    pub(crate) single_host: bool,
}

#[derive(Serialize)]
struct InitOutput {
    schema: &'static str,
    origin: String,
    vkey: String,
    marks: Vec<String>,
}

/// Makes the log.
pub(super) fn run(args: &LogArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let places = seal_log::places(&home, context)?;
    if let Some(there) = places.current()? {
        return Err(Failure::new(format!(
            "this home has the log {} already",
            there.id.origin()
        )));
    }
    let description = make(&home, &places, args, context)?;
    tell(&description, context, out);
    Ok(Exit::Done)
}

/// Makes the first log of a home, and writes into it every head that the home has.
///
/// # Errors
/// When the home lies on a network file system, or a file cannot be read or written.
pub(crate) fn make(
    home: &Home,
    places: &LogPlaces,
    args: &LogArgs,
    context: &Context,
) -> Result<Description, Failure> {
    let (description, key) = describe(home, places, args, context)?;
    places.create(&description, &key, &home.heads().all()?)?;
    Ok(description)
}

/// A new log with a new key; nothing of it but the key is on the disk yet.
pub(super) fn describe(
    home: &Home,
    places: &LogPlaces,
    args: &LogArgs,
    context: &Context,
) -> Result<(Description, LogKey), Failure> {
    if !args.single_host {
        store::refuse_shared(&*context.fs, home.path())?;
    }
    let id = store::new_id(&context.random)?;
    let private = keyring::generate(context)?;
    let own = Keyring::of(home).create(&id.key_name(), KeyUsage::Log, &private, None, context)?;
    // Also the one that goes without saying: a copy of the home must find it, wherever it lies.
    let marks = std::iter::once(&places.mark).chain(&args.mark);
    let marks = marks
        .map(std::path::absolute)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::new(error.to_string()))?;
    let description = Description {
        id,
        key: own.public,
        host: places.host,
        marks,
        single_host: args.single_host,
    };
    let signer = LocalSigner::new(private, KeyUsage::Log);
    Ok((description, LogKey(Arc::new(signer))))
}

/// Says what was made.
pub(super) fn tell(description: &Description, context: &Context, out: &mut Out) {
    let marks = marks(description);
    let vkey = description.vkey();
    if context.json {
        out.json(&InitOutput {
            schema: "threadseal.log.init/1",
            origin: description.id.origin(),
            vkey,
            marks,
        });
        return;
    }
    out.line(format_args!("log    {}", description.id.origin()));
    out.line(format_args!("key    {vkey}"));
    for mark in marks {
        out.line(format_args!(
            "mark   {}",
            crate::render::clean::Clean(&mark)
        ));
    }
}

/// The folders of the second place, for people and programs.
pub(crate) fn marks(description: &Description) -> Vec<String> {
    let folders = description.marks.iter();
    folders.map(|folder| folder.display().to_string()).collect()
}
