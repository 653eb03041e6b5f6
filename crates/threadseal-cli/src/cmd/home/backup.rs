//! `home backup`

use crate::backup::{self, Description, Sealer};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::seal_log;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use threadseal_store::home::is_inside;
use threadseal_store::sys::path_text;

/// What `home backup` takes.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// New file to write, outside of the home
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// File with the passphrase of the backup in its first line; `prompt` asks for it [default:
    /// prompt]
    #[arg(long, value_name = "FILE|prompt", conflicts_with = "recipient")]
    passphrase_file: Option<PathBuf>,
    /// Encrypt for the holder of this age identity (age1…), instead of with a passphrase;
    /// repeatable
    #[arg(long, value_name = "AGE1")]
    recipient: Vec<String>,
}

#[derive(Serialize)]
struct BackupOutput {
    schema: &'static str,
    path: String,
    home: String,
    files: u64,
    bytes: u64,
    /// The origin of its log.
    origin: Option<String>,
}

pub(super) fn run(args: &BackupArgs, context: &Context, out: &mut Out) -> Outcome {
    let home = context.existing_home()?;
    let folder = args
        .out
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), ToOwned::to_owned);
    if is_inside(&*context.fs, &folder, home.path())? {
        return Err(Failure::new(
            "a backup inside the home is lost with it; hint: -o FILE on another disk",
        )
        .about(&args.out));
    }
    if context.fs.symlink_metadata(&args.out).is_ok() {
        return Err(Failure::new(
            "the file exists, and a backup is never replaced; hint: choose another name",
        )
        .about(&args.out));
    }
    let sealer = match args.recipient.is_empty() {
        false => Sealer::recipients(&args.recipient)?,
        true => Sealer::Passphrase(
            PassphraseArgs::of_file(args.passphrase_file.as_deref()).for_new_backup()?,
        ),
    };
    let log = seal_log::places(&home, context)?.current()?;
    let description = Description::new(
        path_text(home.path()),
        context.now()?.to_iso_seconds(),
        log.map(|log| log.id.origin()),
    );
    let amount = backup::write(&home, &args.out, &description, &sealer, context)?;
    if context.json {
        out.json(&BackupOutput {
            schema: "threadseal.home.backup/1",
            path: path_text(&args.out),
            home: description.home,
            files: amount.files,
            bytes: amount.bytes,
            origin: description.origin,
        });
    } else if !context.quiet {
        out.line(format_args!(
            "wrote {}: {}, {} of {}",
            Clean(&args.out.to_string_lossy()),
            counted(amount.files, "file", "files"),
            counted(amount.bytes, "byte", "bytes"),
            Clean(&description.home)
        ));
    }
    Ok(Exit::Done)
}
