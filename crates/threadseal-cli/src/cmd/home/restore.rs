//! `home restore`

use crate::backup::{self, Opener};
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
use threadseal_log::{MarkReport, SealLog, Standing};
use threadseal_store::owned_files::read_private_key_file;
use threadseal_store::sys::path_text;
use zeroize::Zeroizing;

/// What `home restore` takes.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the passphrase of the backup in its first line; `prompt` asks for it [default:
    /// prompt]
    #[arg(long, value_name = "FILE|prompt")]
    passphrase_file: Option<PathBuf>,
    /// File with your age identity (AGE-SECRET-KEY-1…), for a backup that was made for recipients
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

#[derive(Serialize)]
struct RestoreOutput {
    schema: &'static str,
    home: String,
    /// The home that was backed up, and when.
    from: String,
    made: String,
    files: u64,
    bytes: u64,
    origin: Option<String>,
    /// Does every second place agree that the restored log is the newest?
    newest: bool,
    marks: Vec<RestoredMark>,
    next: Vec<String>,
}

/// A second place of the restored log.
#[derive(Serialize)]
struct RestoredMark {
    place: String,
    /// The size of the log that it knows; null where it knows none, or does not answer.
    size: Option<u64>,
}

struct Asked<'a> {
    args: &'a RestoreArgs,
    context: &'a Context,
}

impl Opener for Asked<'_> {
    fn passphrase(&self) -> Result<Zeroizing<String>, Failure> {
        PassphraseArgs::of_file(self.args.passphrase_file.as_deref()).for_existing_key("the backup")
    }

    fn identities(&self) -> Result<Option<Zeroizing<String>>, Failure> {
        let Some(path) = &self.args.identity else {
            return Ok(None);
        };
        let bytes = Zeroizing::new(read_private_key_file(&*self.context.fs, path)?);
        let text =
            std::str::from_utf8(&bytes).map_err(|_| Failure::new("not UTF-8 text").about(path))?;
        Ok(Some(Zeroizing::new(text.to_owned())))
    }
}

/// Restores, and exits 3 where a second place does not confirm that the log is the newest.
pub(super) fn run(args: &RestoreArgs, context: &Context, out: &mut Out) -> Outcome {
    let path = context.home_path()?;
    let (description, amount) =
        backup::restore(&args.file, &path, &Asked { args, context }, context)?;
    let home = context.existing_home()?;
    let log = seal_log::open(&home, context);
    let (newest, marks, next) = judge(log);
    let exit = match newest {
        true => Exit::Done,
        false => Exit::Unconfirmed,
    };
    if context.json {
        out.json(&RestoreOutput {
            schema: "threadseal.home.restore/1",
            home: path_text(home.path()),
            from: description.home,
            made: description.made,
            files: amount.files,
            bytes: amount.bytes,
            origin: description.origin,
            newest,
            marks,
            next,
        });
        return Ok(exit);
    }
    if !context.quiet {
        out.line(format_args!(
            "restored {}: {}, as of {}",
            Clean(&path_text(home.path())),
            counted(amount.files, "file", "files"),
            Clean(&description.made)
        ));
        for mark in &marks {
            let known = match mark.size {
                Some(size) => format!("knows {}", counted(size, "entry", "entries")),
                None => "knows nothing, or does not answer".to_owned(),
            };
            out.line(format_args!(
                "second place  {}  {known}",
                Clean(&mark.place)
            ));
        }
    }
    for line in &next {
        out.line(line);
    }
    Ok(exit)
}

/// Whether the log is the newest, what second places know, and what to do next.
fn judge(log: Result<Option<SealLog>, Failure>) -> (bool, Vec<RestoredMark>, Vec<String>) {
    let log = match log {
        Ok(Some(log)) => log,
        Ok(None) => {
            let next = "it has no log, so later seals are not noticed as missing; hint: threadseal log init";
            return (true, Vec::new(), vec![next.to_owned()]);
        }
        Err(error) => {
            return (
                false,
                Vec::new(),
                vec![format!("its log cannot be read: {error}")],
            );
        }
    };
    let of = |mark: &MarkReport| RestoredMark {
        place: mark.place.to_string(),
        size: mark
            .tree
            .as_ref()
            .ok()
            .and_then(|tree| tree.as_ref())
            .map(|tree| tree.size),
    };
    let marks = log.mark_states().iter().map(of).collect();
    let (newest, next): (bool, &[&str]) = match log.standing() {
        Standing::Good => (
            true,
            &["its second places agree: nothing was logged after the backup; seal as before"],
        ),
        Standing::Faulty(_) => (
            false,
            &[
                "the log went on after the backup: it takes no entries, so nothing is lost in silence",
                "if a copy of the newer log is left: threadseal log catch-up DIR",
                "otherwise begin a new log with all that is here: threadseal log restart",
            ],
        ),
        Standing::MarkGone | Standing::MarkUnread(_) => (
            false,
            &[
                "no second place shows whether the log went on after the backup",
                "if anything was sealed after it: threadseal log restart",
                "otherwise seal as before; see threadseal log status",
            ],
        ),
        Standing::Damaged(_) => (false, &["its log is damaged; hint: threadseal log fsck"]),
    };
    (
        newest,
        marks,
        next.iter().map(|line| (*line).to_owned()).collect(),
    )
}
