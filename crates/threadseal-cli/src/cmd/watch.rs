//! `watch DIR`: seals the logs below a folder as they grow.
//!
//! ```text
//! watch set ─► everything once ─► wait for changes ─► quiet for a moment ─► seal what changed ─┐
//!                                      ▲                                                       │
//!                                      └──────────── and look at everything now and then ◄─────┘
//! ```
//! The watch is set before the first look, so that no change is lost between them. The periodic
//! look finds changes that the system did not report (a full queue, a network disk). Sealing
//! verifies first and never replaces a seal; each refusal is reported once.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_status;
use crate::keyring::Keyring;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use clap::Args;
use notify::{Event, RecursiveMode, Watcher as _};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use threadseal_core::key::{KeyUsage, LocalSigner, Signer as _};
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::host::Host;
use threadseal_store::observer::{self, Sealed};
use threadseal_store::read::{Stamp, open_regular};
use threadseal_store::sys::path_text;
use threadseal_verify::detect::{self, Kind};
use walkdir::WalkDir;

/// A log that was quiet for this long is sealed.
const QUIET: Duration = Duration::from_millis(250);
/// A log that is never quiet is sealed after this long.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Longest wait for another process that seals the same log. The next look follows anyway.
const SEAL_WAIT: Duration = Duration::from_secs(1);
/// The interval of looks at all logs, whatever the system reports.
const LOOK_AT_ALL: Duration = Duration::from_secs(10);

/// What `watch` takes.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The folder of logs
    dir: PathBuf,
    /// Name of the signing key [default: self-observed]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct SealedOutput<'a> {
    schema: &'static str,
    path: &'a str,
    lines: u64,
    head: String,
}

type Changes = Receiver<notify::Result<Event>>;

/// The state of the logs so far.
struct Watch<'a> {
    dir: &'a Path,
    host: Host,
    signer: LocalSigner,
    context: &'a Context,
    /// The home after it was last opened again, if it was.
    renewed: Option<Context>,
    /// The state of each log when it was last sealed or refused.
    seen: BTreeMap<PathBuf, Stamp>,
    /// The reported refusal of each log.
    refused: BTreeMap<PathBuf, String>,
}

/// Seals until standard output is closed, the folder is gone, or a signal arrives.
pub(crate) fn run(args: &WatchArgs, context: &Context, out: &mut Out) -> Outcome {
    let keyring = Keyring::of(&context.existing_home()?);
    let key = args.key.as_deref();
    let mut watch = Watch {
        dir: &args.dir,
        host: context.host()?,
        signer: keyring.signer(key, KeyUsage::Observed, &args.passphrase, context)?,
        context,
        renewed: None,
        seen: BTreeMap::new(),
        refused: BTreeMap::new(),
    };
    let found = std::fs::metadata(&args.dir);
    if !found
        .map_err(|error| Failure::io("watch", &args.dir, &error))?
        .is_dir()
    {
        return Err(Failure::new("not a folder").about(&args.dir));
    }
    let (tell, changes) = channel();
    let failure = |error: notify::Error| {
        Failure::new(format!("cannot watch {}: {error}", args.dir.display()))
    };
    let mut watcher = notify::recommended_watcher(tell).map_err(failure)?;
    watcher
        .watch(&args.dir, RecursiveMode::Recursive)
        .map_err(failure)?;
    let mut changed = watch.all()?;
    loop {
        // The key may end while this runs.
        key_status::refuse(watch.signer.public_key(), context)?;
        for log in changed {
            watch.look_at(&log, out);
        }
        if !out.flush() {
            watch.settle();
            return Ok(Exit::NoVerdict);
        }
        changed = match gather(&changes) {
            Some(changed) => changed,
            None => watch.all()?,
        };
    }
}

/// The logs that changed; `None` when all logs are due.
fn gather(changes: &Changes) -> Option<BTreeSet<PathBuf>> {
    let mut changed = BTreeSet::new();
    let mut take = |event: Event| {
        changed.extend(event.paths.iter().filter(|path| is_log(path)).cloned());
        !event.need_rescan()
    };
    let first = changes.recv_timeout(LOOK_AT_ALL).ok()?.ok()?;
    let mut complete = take(first);
    let began = SystemClock.elapsed();
    while complete && SystemClock.elapsed().saturating_sub(began) < LONGEST_WAIT {
        match changes.recv_timeout(QUIET) {
            Ok(Ok(event)) => complete = take(event),
            Err(RecvTimeoutError::Timeout) => break,
            // The system lost events, or the watch failed.
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => complete = false,
        }
    }
    complete.then_some(changed)
}

fn is_log(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl"))
}

impl Watch<'_> {
    fn all(&self) -> Result<BTreeSet<PathBuf>, Failure> {
        if !self.dir.is_dir() {
            return Err(Failure::new("the folder no longer exists").about(self.dir));
        }
        let entries = WalkDir::new(self.dir).into_iter().flatten();
        let logs = entries.filter(|entry| entry.file_type().is_file());
        Ok(logs
            .map(walkdir::DirEntry::into_path)
            .filter(|path| is_log(path))
            .collect())
    }

    fn look_at(&mut self, log: &Path, out: &mut Out) {
        match self.seal(log) {
            Ok(Some(Sealed::Added(seal))) => {
                self.refused.remove(log);
                let path = path_text(log);
                if self.context.json {
                    out.json(&SealedOutput {
                        schema: "threadseal.sealed/1",
                        path: &path,
                        lines: seal.lines,
                        head: seal.head.to_string(),
                    });
                } else if !self.context.quiet {
                    let (path, lines, head) = (Clean(&path), seal.lines, seal.head);
                    out.line(format_args!("sealed  {path}  {lines} lines, head {head}"));
                }
            }
            Ok(_) => {}
            Err(failure) => {
                let message = failure.to_string();
                if self.refused.get(log) != Some(&message) {
                    complain(&message);
                    self.refused.insert(log.to_owned(), message);
                }
            }
        }
    }

    /// Seals a log that changed since the last look; skips native records, which their recorders
    /// seal.
    fn seal(&mut self, log: &Path) -> Result<Option<Sealed>, Failure> {
        let Ok(file) = open_regular(&*self.host.fs, log) else {
            // It disappeared between the change and the look: `verify` will report its seals as
            // orphaned.
            return Ok(None);
        };
        if self.seen.get(log) == Some(&file.stamp()) {
            return Ok(None);
        }
        self.seen.insert(log.to_owned(), file.stamp());
        if !matches!(detect::kind(&file)?, Some(Kind::Log | Kind::Events)) {
            return Ok(None);
        }
        let seal = |watch: &Self| {
            let sealed = observer::seal(&watch.host, log, false, SEAL_WAIT, &watch.signer, &|_| {});
            sealed.map(Some).map_err(Failure::from)
        };
        let sealed = seal(self);
        if sealed.is_ok() {
            return sealed;
        }
        // The home may have another log since (`log restart`): the previous one accepts no entries
        // any more.
        self.open_anew()?;
        seal(self)
    }

    fn open_anew(&mut self) -> Result<(), Failure> {
        let context = self.context.anew();
        self.host = context.host()?;
        self.renewed = Some(context);
        Ok(())
    }

    /// Writes the heads for a log that was opened again into that log.
    fn settle(&self) {
        if let Some(context) = &self.renewed {
            context.settle_log();
        }
    }
}
