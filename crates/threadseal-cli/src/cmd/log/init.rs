//! `log init`: makes the log of this home, with a key of its own.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::keyring::Keyring;
use crate::output::Out;
use crate::seal_log;
use clap::Args;
use serde::Serialize;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_log::{Description, LogKey, LogRegistry, MarkLocation};
use threadseal_store::home::Home;
use threadseal_store::random;
use zeroize::Zeroizing;

/// What `log init` takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArgs {
    /// Another place for the log's newest checkpoint: a folder, best on another disk;
    /// postgres://USER@HOST/DATABASE; s3://BUCKET/PREFIX; `keyring` for the user's keyring; or the
    /// https:// address of another host's witness; repeatable
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub(crate) mark: Vec<MarkLocation>,
    /// Confirm that only one machine uses this home on a network file system
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

pub(super) fn run(args: &LogArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let places = seal_log::places(&home, context)?;
    if finish(&home, &places, context)?
        && let Some(description) = places.current()?
    {
        tell(&description, context, out);
        return Ok(Exit::Done);
    }
    if let Some(there) = places.current()? {
        return Err(Failure::new(format!(
            "this home already has the log {}",
            there.id.origin()
        )));
    }
    let description = make(&home, &places, args, context)?;
    tell(&description, context, out);
    Ok(Exit::Done)
}

/// Makes the first log of a home, and adds every head of the home to it.
///
/// # Errors
/// When the home is on a network file system, or a file cannot be read or written.
pub(crate) fn make(
    home: &Home,
    places: &LogRegistry,
    args: &LogArgs,
    context: &Context,
) -> Result<Description, Failure> {
    let known = home.heads().all()?;
    let made = NewLog::describe(home, places, args, context)?;
    let keep = || {
        let kept = made.keep(home, context);
        kept.map_err(|failure| Error::new(ErrorKind::External, failure.to_string()))
    };
    let NewLog {
        description, key, ..
    } = &made;
    match places.create(description, key, &known, &keep) {
        Ok(()) => {
            raise(home, places, description, context)?;
            Ok(made.description)
        }
        Err(error) => {
            // A key without its log would suggest that the log was lost. If the log may still
            // continue, the key stays, whatever else cannot be read.
            if places
                .current_id()
                .is_ok_and(|there| there != Some(description.id))
            {
                Keyring::of(home).remove_unused(&description.id.key_name(), KeyUsage::Log, context);
            }
            Err(error.into())
        }
    }
}

/// Completes a log whose creation was interrupted, with every present head of the home. Returns
/// whether there was one.
///
/// # Errors
/// When a file cannot be read or written.
pub(crate) fn finish(
    home: &Home,
    places: &LogRegistry,
    context: &Context,
) -> Result<bool, Failure> {
    let has_key = |description: &Description| seal_log::has_key(home, description);
    if !places.finish(&has_key)? {
        return Ok(false);
    }
    if let Some(description) = places.current()? {
        let log = seal_log::of(home, places.clone(), description, context)?;
        let known = home.heads().all()?;
        known.iter().for_each(|head| log.publish(head));
        seal_log::settle(&log);
    }
    Ok(true)
}

/// Updates all second places to a log. Warns of one that lags: a witness of another host must first
/// be configured for the log.
pub(super) fn raise(
    home: &Home,
    places: &LogRegistry,
    description: &Description,
    context: &Context,
) -> Result<bool, Failure> {
    let log = seal_log::of(home, places.clone(), description.clone(), context)?;
    let raised = log.raise_marks(seal_log::MAX_RAISE_WAIT);
    if let Err(error) = &raised {
        complain(&format!("warning: a second place of the log lags: {error}"));
    }
    Ok(raised.is_ok())
}

/// A second place, as the command line names it; folders are relative to the working folder.
pub(super) fn place(text: &str) -> Result<MarkLocation, String> {
    match MarkLocation::parse(text).map_err(|error| error.to_string())? {
        MarkLocation::Folder(folder) => match std::path::absolute(&folder) {
            Ok(folder) => Ok(MarkLocation::Folder(folder)),
            Err(error) => Err(error.to_string()),
        },
        place => Ok(place),
    }
}

/// A log and its key before they are written to the disk.
pub(super) struct NewLog {
    pub(super) description: Description,
    pub(super) key: LogKey,
    private: PrivateKey,
}

impl NewLog {
    pub(super) fn describe(
        home: &Home,
        places: &LogRegistry,
        args: &LogArgs,
        context: &Context,
    ) -> Result<Self, Failure> {
        if !args.single_host {
            threadseal_log::refuse_shared(&*context.fs, home.path())?;
        }
        // The description contains the default place, too: a copy of the home must find it,
        // wherever the copy is.
        let own_mark = std::path::absolute(&places.home().mark);
        let own_mark =
            own_mark.map_err(|error| Failure::io("find", &places.home().mark, &error))?;
        let mut marks = vec![MarkLocation::Folder(own_mark)];
        for mark in &args.mark {
            if !marks.contains(mark) {
                marks.push(mark.clone());
            }
        }
        let seed = Zeroizing::new(random::array(&context.random)?);
        let private = PrivateKey::from_seed(*seed);
        let description = Description {
            id: threadseal_log::new_id(&context.random)?,
            key: *private.public_key(),
            host: places.home().host,
            marks,
            single_host: args.single_host,
        };
        let signer = LocalSigner::new(PrivateKey::from_seed(*seed), KeyUsage::Log);
        Ok(Self {
            description,
            key: LogKey(Arc::new(signer)),
            private,
        })
    }

    /// Adds the key to those of the home.
    pub(super) fn keep(&self, home: &Home, context: &Context) -> Result<(), Failure> {
        let (keyring, name) = (Keyring::of(home), self.description.id.key_name());
        let kept = keyring.create(&name, KeyUsage::Log, &self.private, None, context);
        kept.map(drop)
    }
}

/// Reports the new log.
pub(super) fn tell(description: &Description, context: &Context, out: &mut Out) {
    let marks = marks(description);
    let vkey = description.vkey();
    if context.json {
        let value = InitOutput {
            schema: "threadseal.log.init/1",
            origin: description.id.origin(),
            vkey,
            marks,
        };
        out.json(&value);
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

/// The second places, as text.
pub(crate) fn marks(description: &Description) -> Vec<String> {
    description.marks.iter().map(ToString::to_string).collect()
}
