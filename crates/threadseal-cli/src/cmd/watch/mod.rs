//! `watch [PATH…]`: seals the sessions of agents, or the logs below folders, as they grow.
//!
//! ```text
//! watch set ─► everything once ─► wait for changes and hooks ─► quiet for a moment ─► seal what changed ─┐
//!                                      ▲                                                                 │
//!                                      └────────────── and look at everything now and then ◄─────────────┘
//! ```
//! The watch is set before the first look, so that no change is lost between them. The periodic
//! look finds changes that the system did not report (a full queue, a network disk), and folders that
//! an agent made since. Sealing verifies first and never replaces a seal; each refusal is reported once.
//!
//! A key that was rotated seals nothing more: the next key under its name continues. While there is
//! none, what grows is refused, and it is tried again as soon as there is one.
//!
//! Without paths it is the watcher of the home: it listens for hooks, and holds what they ask for
//! until it is sealed. There is one for each home.

#[cfg(feature = "capture")]
mod databases;
mod files;
#[cfg(all(feature = "capture", unix))]
mod server;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_status;
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::refused_path::{self, RefusedPath};
use crate::render::clean::Clean;
use crate::render::text::counted;
use clap::Args;
use files::{Folder, Taken};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher as _};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use threadseal_core::key::Signer as _;
use threadseal_core::record::Head;
use threadseal_store::atomic::is_temporary;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::read::{Stamp, open_regular};
use threadseal_store::sys::{FileKind, path_text};

/// A log that was quiet for this long is sealed.
const QUIET: Duration = Duration::from_millis(250);
/// A log that is never quiet is sealed after this long.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Longest wait for another process that seals the same log. The next look follows anyway.
const SEAL_WAIT: Duration = Duration::from_secs(1);
/// The interval of looks at all files, whatever the system reports.
const LOOK_AT_ALL: Duration = Duration::from_secs(30);
/// The same where the system reports nothing.
const POLL: Duration = Duration::from_secs(1);
/// The shortest interval between looks at the size of the archive.
#[cfg(feature = "capture")]
const LOOK_AT_QUOTA: Duration = Duration::from_secs(600);
/// What a refusal of the key itself is about.
const KEY: &str = "key";
/// How often a request to stop is looked for.
const LOOK_FOR_STOP: Duration = Duration::from_millis(500);

/// What `watch` takes.
#[derive(Debug, Default, Args)]
pub(crate) struct WatchArgs {
    /// Folders of logs [default: where the agents of this machine keep their sessions]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Seal everything once, and end: for cron
    #[arg(long)]
    once: bool,
    /// Name of the key that seals logs [default: self-observed]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

#[derive(Serialize)]
struct SealedOutput<'a> {
    schema: &'static str,
    path: &'a str,
    /// Lines under the seal; `null` for a document.
    lines: Option<u64>,
    head: String,
}

#[derive(Serialize)]
struct StartOutput<'a> {
    schema: &'static str,
    folders: Vec<FolderOutput<'a>>,
}

#[derive(Serialize)]
struct FolderOutput<'a> {
    agent: Option<&'a str>,
    path: String,
    /// Files that are sealed.
    logs: u64,
    /// Files that are no sessions and no logs.
    passed_over: u64,
}

/// What ends a wait.
enum Wake {
    /// The system reports changes.
    Changed(notify::Result<Event>),
    /// A hook asks for a seal.
    #[cfg(all(feature = "capture", unix))]
    Request(server::Asked),
}

/// The state of the files so far.
struct Watch<'a> {
    args: &'a WatchArgs,
    context: &'a Context,
    /// The home after it was last opened again, if it was.
    renewed: Option<Context>,
    folders: Vec<Folder>,
    sealer: files::Sealer,
    /// The state of each file when it was last sealed, refused or passed over.
    seen: BTreeMap<PathBuf, Stamp>,
    /// The files that are no sessions and no logs.
    passed_over: BTreeSet<PathBuf>,
    /// The reported refusal of each file.
    refused: BTreeMap<PathBuf, RefusedPath>,
    /// Databases with sessions, as they were when they were last sealed.
    #[cfg(feature = "capture")]
    databases: BTreeMap<PathBuf, databases::Known>,
    /// Seals so far.
    seals: u64,
    /// When the size of the archive was last looked at.
    #[cfg(feature = "capture")]
    quota_met: Option<Duration>,
    /// What earlier watchers of the home found sealed, unless a person named folders.
    #[cfg(feature = "capture")]
    known: Option<threadseal_capture::seen::Seen>,
    /// The troubles of the home, unless a person named folders.
    #[cfg(all(feature = "capture", unix))]
    troubles: Option<threadseal_capture::hook::troubles::Troubles>,
    #[cfg(all(feature = "capture", unix))]
    server: Option<server::Server>,
}

/// The sessions of this machine's agents: how many are sealed now, and how many were refused.
///
/// # Errors
/// When there is no home or no key.
#[cfg(feature = "capture")]
pub(crate) fn seal_all_once(context: &Context) -> Result<(u64, usize), Failure> {
    let args = WatchArgs {
        once: true,
        ..WatchArgs::default()
    };
    let mut watch = watch(&args, None, context)?;
    let mut nowhere = Out::to(Box::new(std::io::sink()));
    watch.seal_all(&watch.all()?, &mut nowhere);
    watch.save_known();
    Ok((watch.seals, watch.refused.len()))
}

/// Seals until standard output is closed, the folder is gone, or a signal arrives.
pub(crate) fn run(args: &WatchArgs, context: &Context, out: &mut Out) -> Outcome {
    let (wake, wakes) = channel();
    let mut watch = watch(args, Some(&wake), context)?;
    if args.once {
        let all = watch.all()?;
        watch.seal_all(&all, out);
        watch.announce(out);
        watch.save_known();
        return Ok(match watch.refused.is_empty() {
            true => Exit::Done,
            false => {
                let refused: Vec<RefusedPath> = watch.refused.into_values().collect();
                refused_path::exit(&refused, Exit::Unconfirmed, out)
            }
        });
    }
    watch.keep_sealing(wake, &wakes, out)
}

/// A watch of the folders; with `wake` it is the watcher of the home if no folder is named.
fn watch<'a>(
    args: &'a WatchArgs,
    wake: Option<&Sender<Wake>>,
    context: &'a Context,
) -> Result<Watch<'a>, Failure> {
    #[cfg(not(all(feature = "capture", unix)))]
    let _ = wake;
    Ok(Watch {
        args,
        context,
        renewed: None,
        folders: files::folders(&args.paths, context)?,
        sealer: files::Sealer::open(args.key.as_deref(), &args.passphrase, context)?,
        seen: BTreeMap::new(),
        passed_over: BTreeSet::new(),
        refused: BTreeMap::new(),
        #[cfg(feature = "capture")]
        databases: BTreeMap::new(),
        seals: 0,
        #[cfg(feature = "capture")]
        quota_met: None,
        #[cfg(feature = "capture")]
        known: match args.paths.is_empty() {
            true => Some(files::known(context)?),
            false => None,
        },
        #[cfg(all(feature = "capture", unix))]
        troubles: match args.paths.is_empty() {
            true => Some(server::troubles(context)?),
            false => None,
        },
        #[cfg(all(feature = "capture", unix))]
        server: match wake.filter(|_| args.paths.is_empty() && !args.once) {
            Some(wake) => Some(server::Server::start(context, wake.clone())?),
            None => None,
        },
    })
}

impl Watch<'_> {
    fn keep_sealing(
        &mut self,
        wake: Sender<Wake>,
        wakes: &Receiver<Wake>,
        out: &mut Out,
    ) -> Outcome {
        let stop = files::stop_flag()?;
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.as_ref().is_ok_and(is_idle) {
                return;
            }
            // Where the receiver is gone, the command ends.
            let _ = wake.send(Wake::Changed(event));
        })
        .map_err(|error| Failure::new(format!("cannot watch: {error}")))?;
        let mut watched = BTreeSet::new();
        let mut polls = self.watch_folders(&mut watcher, &mut watched);
        let mut changed = Changed::of(self.all()?);
        let mut is_first = true;
        let mut looked = Some(SystemClock.elapsed());
        loop {
            changed.paths.extend(self.follow_key());
            self.seal_all(&changed.paths, out);
            #[cfg(all(feature = "capture", unix))]
            self.answer(&std::mem::take(&mut changed.asked), out);
            if std::mem::take(&mut is_first) {
                // A watcher that is killed from here on reads no file again that did not change.
                self.save_known();
                self.announce(out);
                #[cfg(all(feature = "capture", unix))]
                self.take_up_requests(out);
            }
            #[cfg(all(feature = "capture", unix))]
            self.report_state(polls);
            if !out.flush() {
                return Ok(Exit::NoVerdict);
            }
            let every = if polls { POLL } else { LOOK_AT_ALL };
            changed = loop {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    self.save_known();
                    return Ok(Exit::Done);
                }
                let now = SystemClock.elapsed();
                if looked.is_none_or(|looked| now.saturating_sub(looked) >= every) {
                    looked = Some(now);
                    self.save_known();
                    polls = self.watch_folders(&mut watcher, &mut watched);
                    break Changed::of(self.all()?);
                }
                if let Some((mut changed, is_complete)) = gather(wakes) {
                    changed.paths = changed.paths.iter().map(|path| self.named(path)).collect();
                    looked = looked.filter(|_| is_complete);
                    break changed;
                }
            };
        }
    }

    /// Takes the next key if the present one has ended. Returns the files that were refused before.
    /// While there is no next key, the reason is reported, and each seal is refused.
    fn follow_key(&mut self) -> Vec<PathBuf> {
        let state =
            |watch: &Self| key_status::refuse(watch.sealer.signer().public_key(), watch.context());
        let about = Path::new(KEY);
        let followed = match state(self) {
            Err(_) => self.renew().and_then(|()| state(self)),
            usable => usable,
        };
        match followed {
            Err(failure) => self.refuse(about, &failure),
            Ok(()) if self.refused.contains_key(about) => self.settle(about),
            Ok(()) => {}
        }
        let refused = self.refused.keys();
        let is_watched = |path: &Path| self.folders.iter().any(|folder| folder.holds(path));
        let again = refused.filter(|path| !self.seen.contains_key(*path) && is_watched(path));
        again.cloned().collect()
    }

    /// Opens the home anew: since then it may have another log (`log restart`), which alone accepts
    /// entries, or a next key. What was refused under the key before is tried again.
    fn renew(&mut self) -> Result<(), Failure> {
        let before = *self.sealer.signer().public_key();
        let context = self.context.anew();
        self.sealer.renew(&context)?;
        self.renewed = Some(context);
        let now = self.sealer.signer().public_key();
        if *now == before {
            return Ok(());
        }
        if !self.context.quiet {
            complain(&format!(
                "note: {} is another key now, {}, which seals from here on",
                Clean(self.sealer.key()),
                now.to_did_key()
            ));
        }
        for path in self.refused.keys() {
            self.seen.remove(path);
        }
        Ok(())
    }

    /// Watches the folders that are there and not watched yet. True if the system cannot report
    /// changes of all of them.
    fn watch_folders(
        &self,
        watcher: &mut notify::RecommendedWatcher,
        watched: &mut BTreeSet<PathBuf>,
    ) -> bool {
        let mut polls = false;
        for folder in &self.folders {
            if watched.contains(&folder.path) || !folder.path.is_dir() {
                continue;
            }
            match watcher.watch(&folder.path, RecursiveMode::Recursive) {
                Ok(()) => drop(watched.insert(folder.path.clone())),
                Err(error) => {
                    polls = true;
                    let path = path_text(&folder.path);
                    let (path, error) = (Clean(&path), error.to_string());
                    self.context.warn_once(&format!(
                        "the system reports no changes in {path} ({}); looking at it each second",
                        Clean(&error)
                    ));
                }
            }
        }
        polls
    }

    /// A reported file by the name that the look at all files gives it.
    fn named(&self, path: &Path) -> PathBuf {
        let mut named = self.folders.iter().filter_map(|folder| folder.named(path));
        named.next().unwrap_or_else(|| path.to_owned())
    }

    /// All files of the folders.
    fn all(&self) -> Result<BTreeSet<PathBuf>, Failure> {
        let mut all = BTreeSet::new();
        for folder in &self.folders {
            if !folder.path.exists() {
                // An agent makes its folder with its first session.
                if folder.agent.is_some() {
                    continue;
                }
                return Err(Failure::new("the folder no longer exists").about(&folder.path));
            }
            all.extend(folder.files());
        }
        Ok(all)
    }

    /// Seals what changed, the files of the newest change first; then writes their heads into the
    /// log of the home.
    fn seal_all(&mut self, paths: &BTreeSet<PathBuf>, out: &mut Out) {
        #[cfg(feature = "capture")]
        let paths = &databases::without_side_files(paths);
        let fs = self.sealer.host().fs.clone();
        let mut changed = Vec::new();
        for path in paths {
            let stamp = fs.symlink_metadata(path).ok();
            let stamp = stamp.filter(|found| found.kind == FileKind::Regular);
            let stamp = stamp.map(Stamp::from);
            // Most files did not change since the last look, and need not be opened.
            if !self.is_unchanged(path, stamp) {
                let modified = stamp.map(|stamp| stamp.modified_ns);
                changed.push((std::cmp::Reverse(modified), path));
            }
        }
        changed.sort();
        let mut any = false;
        for (_, path) in changed {
            any |= self.look_at(path, out);
        }
        if any {
            self.context().settle_log();
            #[cfg(feature = "capture")]
            self.meet_quota();
        }
    }

    /// Is the file as it was at the last look? A database is also what its journals hold.
    fn is_unchanged(&self, path: &Path, stamp: Option<Stamp>) -> bool {
        #[cfg(feature = "capture")]
        if self.databases.contains_key(path) {
            return false;
        }
        stamp.is_some() && self.seen.get(path) == stamp.as_ref()
    }

    /// Lets the archive meet its quota, now and then.
    #[cfg(feature = "capture")]
    fn meet_quota(&mut self) {
        let now = SystemClock.elapsed();
        let is_soon = |met: Duration| now.saturating_sub(met) < LOOK_AT_QUOTA;
        if self.quota_met.is_some_and(is_soon) {
            return;
        }
        self.quota_met = Some(now);
        let about = Path::new("archive");
        match self.sealer.meet_quota() {
            Ok(()) => self.settle(about),
            Err(failure) => self.refuse(about, &failure),
        }
    }

    /// Seals a file if it changed since the last look; true if that made a seal.
    fn look_at(&mut self, path: &Path, out: &mut Out) -> bool {
        #[cfg(feature = "capture")]
        if self.is_database(path) {
            return self.look_at_database(path, out);
        }
        match self.seal(path) {
            Ok(Taken::Sealed(head, lines)) => {
                self.settle(path);
                self.report_seal(path, &head, lines, out);
                return true;
            }
            Ok(Taken::Unchanged) => self.settle(path),
            Ok(Taken::PassedOver) => {}
            Err(failure) => {
                let failure = refused_path::with_evidence(failure, path, self.context());
                self.refuse(path, &failure);
            }
        }
        false
    }

    fn report_seal(&mut self, path: &Path, head: &Head, lines: Option<u64>, out: &mut Out) {
        self.seals += 1;
        let path = path_text(path);
        if self.context.json {
            out.json_line(&SealedOutput {
                schema: "threadseal.watch.seal/1",
                path: &path,
                lines,
                head: head.to_string(),
            });
        } else if !self.context.quiet {
            let words = |lines| format!("{}, ", counted(lines, "line", "lines"));
            let lines = lines.map_or_else(String::new, words);
            out.line(format_args!("sealed  {}  {lines}head {head}", Clean(&path)));
        }
    }

    /// Reports a refusal, unless it was reported already.
    fn refuse(&mut self, path: &Path, failure: &Failure) {
        let refused = RefusedPath::of(path, failure);
        let known = self.refused.get(path);
        if known.is_none_or(|known| known.message != refused.message) {
            // An ended key is the reason of each refusal then.
            let of_key = self.refused.get(Path::new(KEY));
            if of_key.is_none_or(|of_key| of_key.message != refused.message) {
                complain(&refused.message);
            }
            #[cfg(all(feature = "capture", unix))]
            self.note_trouble(path, Some(&refused.message));
            self.refused.insert(path.to_owned(), refused);
        }
    }

    /// Notes that a file is sealed.
    fn settle(&mut self, path: &Path) {
        self.refused.remove(path);
        #[cfg(all(feature = "capture", unix))]
        self.note_trouble(path, None);
    }

    fn seal(&mut self, path: &Path) -> Result<Taken, Failure> {
        let Ok(file) = open_regular(&*self.sealer.host().fs, path) else {
            // It disappeared between the change and the look: `verify` will report its seals as
            // orphaned.
            return Ok(Taken::PassedOver);
        };
        if self.seen.get(path) == Some(&file.stamp()) {
            return Ok(Taken::PassedOver);
        }
        let stamp = file.stamp();
        self.seen.insert(path.to_owned(), stamp);
        if let Some(taken) = self.known(path, stamp) {
            return Ok(taken);
        }
        let Some(kind) = self.sealer.kind(&file, &self.folders)? else {
            self.passed_over.insert(path.to_owned());
            self.note_known(path, stamp);
            return Ok(Taken::PassedOver);
        };
        self.passed_over.remove(path);
        let sealed = self.seal_kind(path, &kind);
        if sealed.is_ok() {
            self.note_known(path, stamp);
        }
        sealed
    }

    fn seal_kind(&mut self, path: &Path, kind: &files::FileKind) -> Result<Taken, Failure> {
        let sealed = self.sealer.seal(path, kind, self.context());
        if sealed.is_ok() {
            return sealed;
        }
        self.renew()?;
        self.sealer.seal(path, kind, self.context())
    }

    /// The result for a file that an earlier watcher found, if nothing changed since.
    #[cfg(feature = "capture")]
    fn known(&mut self, path: &Path, stamp: Stamp) -> Option<Taken> {
        use threadseal_capture::seen::Known;
        let fs = &*self.sealer.host().fs;
        match self.known.as_ref()?.known(fs, path, stamp)? {
            Known::Sealed => Some(Taken::Unchanged),
            Known::PassedOver => {
                self.passed_over.insert(path.to_owned());
                Some(Taken::PassedOver)
            }
        }
    }

    #[cfg(not(feature = "capture"))]
    fn known(&mut self, _path: &Path, _stamp: Stamp) -> Option<Taken> {
        None
    }

    /// Notes that a file needs no work until it changes.
    #[cfg(feature = "capture")]
    fn note_known(&mut self, path: &Path, stamp: Stamp) {
        if let Some(known) = &mut self.known {
            known.note(&*self.sealer.host().fs, path, stamp);
        }
    }

    #[cfg(not(feature = "capture"))]
    fn note_known(&mut self, _path: &Path, _stamp: Stamp) {}

    /// Writes what needs no work, for the next start.
    #[cfg(feature = "capture")]
    fn save_known(&mut self) {
        if let Some(known) = &mut self.known
            && let Err(error) = known.save(&*self.sealer.host().fs)
        {
            complain(&error.to_string());
        }
    }

    #[cfg(not(feature = "capture"))]
    fn save_known(&mut self) {}

    /// The folders that are there; of each the files that are sealed, and those passed over.
    fn numbered(&self) -> impl Iterator<Item = (&Folder, u64, u64)> {
        let folders = self.folders.iter().filter(|folder| folder.path.exists());
        folders.map(|folder| {
            let files = self.seen.keys().filter(|path| folder.holds(path));
            let (passed, logs): (Vec<_>, Vec<_>) =
                files.partition(|path| self.passed_over.contains(*path));
            (folder, logs.len() as u64, passed.len() as u64)
        })
    }

    /// Reports which folders are watched, and how many of their files are taken.
    fn announce(&self, out: &mut Out) {
        let numbered = self.numbered();
        let numbered = numbered.map(|(folder, logs, passed_over)| FolderOutput {
            agent: folder.agent_name(),
            path: path_text(&folder.path),
            logs,
            passed_over,
        });
        let folders: Vec<_> = numbered.collect();
        if self.context.json {
            let schema = "threadseal.watch.folders/1";
            return out.json_line(&StartOutput { schema, folders });
        }
        if self.context.quiet {
            return;
        }
        let total: u64 = folders.iter().map(|folder| folder.logs).sum();
        let verb = if self.args.once {
            "looked at"
        } else {
            "watching"
        };
        let refused = match self.refused.len() {
            0 => String::new(),
            count => format!(", {count} refused"),
        };
        out.line(format_args!(
            "{verb} {}: {}{refused}",
            counted(folders.len() as u64, "folder", "folders"),
            counted(total, "log", "logs")
        ));
        for FolderOutput {
            agent,
            path,
            logs,
            passed_over,
        } in &folders
        {
            let agent = agent.unwrap_or("-");
            out.line(format_args!(
                "  {agent:<14}  {}  {}, {} passed over",
                Clean(path),
                counted(*logs, "log", "logs"),
                counted(*passed_over, "other file", "other files")
            ));
        }
    }

    fn context(&self) -> &Context {
        self.renewed.as_ref().unwrap_or(self.context)
    }
}

/// What changed since the last work.
#[derive(Default)]
struct Changed {
    paths: BTreeSet<PathBuf>,
    #[cfg(all(feature = "capture", unix))]
    asked: Vec<server::Asked>,
}

impl Changed {
    fn of(paths: BTreeSet<PathBuf>) -> Self {
        Self {
            paths,
            #[cfg(all(feature = "capture", unix))]
            asked: Vec::new(),
        }
    }

    /// Takes what woke the watch. False if the system lost events.
    fn take(&mut self, wake: Wake) -> bool {
        match wake {
            Wake::Changed(Ok(event)) => {
                for path in &event.paths {
                    // Files may have been made in a new folder before it was watched.
                    match path.is_dir() {
                        true => self.paths.extend(files::below(path)),
                        false if files::is_seal(path) => {}
                        false => drop(self.paths.insert(path.clone())),
                    }
                }
                !event.need_rescan()
            }
            Wake::Changed(Err(_)) => false,
            #[cfg(all(feature = "capture", unix))]
            Wake::Request(asked) => {
                self.asked.push(asked);
                true
            }
        }
    }

    /// Does a hook wait for it?
    fn is_urgent(&self) -> bool {
        #[cfg(all(feature = "capture", unix))]
        return !self.asked.is_empty();
        #[cfg(not(all(feature = "capture", unix)))]
        return false;
    }
}

/// Is there nothing to do for an event? The system also reports who opened a file or a folder, and
/// what this command writes: it would wake itself without end, and a first look at many files would
/// fill the queue.
fn is_idle(event: &Event) -> bool {
    let is_change = match event.kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    };
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        files::is_seal(path) || is_temporary(&name.to_string_lossy())
    };
    let are_own = !event.paths.is_empty() && event.paths.iter().all(is_own);
    !event.need_rescan() && (!is_change || are_own)
}

/// Waits for a change, and then until none follows for a moment; false if the system lost events, so
/// that all files are due. `None` if nothing changed.
fn gather(wakes: &Receiver<Wake>) -> Option<(Changed, bool)> {
    let mut changed = Changed::default();
    let first = wakes.recv_timeout(LOOK_FOR_STOP).ok()?;
    let mut is_complete = changed.take(first);
    let began = SystemClock.elapsed();
    while is_complete && SystemClock.elapsed().saturating_sub(began) < LONGEST_WAIT {
        let quiet = if changed.is_urgent() {
            Duration::ZERO
        } else {
            QUIET
        };
        match wakes.recv_timeout(quiet) {
            Ok(wake) => is_complete = changed.take(wake),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some((changed, is_complete))
}
