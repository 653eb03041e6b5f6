//! `prune RECORD…`: deletes whole records, and leaves a signed tombstone of each.
//!
//! ```text
//! lock ─► verify ─► tombstone, durable ─► entries in the log ─► files beside it ─► the record
//!
//! RECORD.tombstone                                 of a record in a file
//! $THREADSEAL_HOME/tombstones/<record>.tombstone   of a record in a store
//! ```
//! If it is killed in between, the next `prune` of the same record completes it: the tombstone
//! exists, and so does the record.
//!
//! A record is deleted if it has ended, or is older than the given age. Without `--yes`, the records
//! are listed before a question on the terminal.
//!
//! [`file`] prunes native transcripts in files, [`elsewhere`] those in databases and object
//! storage.
//! [`held`] prunes other records in files, [`stored`] ledgers and lineages in stores.

mod elsewhere;
mod file;
mod held;
#[cfg(all(feature = "agent", feature = "cloud"))]
mod in_database;
mod stored;

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_log;
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::render::json::PathError;
use crate::render::text::counted;
use crate::signing::SigningArgs;
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::ffi::OsStr;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::{LocalSigner, Signer as _};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{Report, Verdict};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::{Statement, Tombstone};
use threadseal_formats::ledger::RunId;
use threadseal_formats::lineage::AgentName;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_log::SealLog;
use threadseal_store::examine::first_line;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;
use threadseal_store::tombstones::{self, Found};
use threadseal_verify::VerifyError;
use threadseal_verify::inputs;
use threadseal_verify::verifier::Verifier;
use threadseal_verify::verifier::pruned::is_newest;

/// Microseconds of an hour.
const HOUR: u64 = 3_600_000_000;

/// Bytes of an answer to the question.
const MAX_ANSWER: u64 = 64;

/// What `prune` takes.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Records to prune: native transcripts, scrolls, logs with detached seals, sealed documents,
    /// folders of threads, or threads of the project. STORE#NAME names a transcript in object
    /// storage (s3://…), postgres://…#THREAD a thread in a database. With --older-than: also
    /// folders. With --run or --agent: the store, as a folder, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,
    /// Reason, which every reader of the tombstone can see
    #[arg(long, alias = "reason", value_name = "TEXT", default_value = "")]
    why: String,
    /// Name of the person who prunes [default: the name of the key]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Prune only what was not sealed for this long: 90d, 12h. Logs, scrolls, ledgers and
    /// checkpoints that have no end need it. In folders: ended transcripts and logs
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<u64>,
    /// Prune the ledger of this run, in the store
    #[arg(long, value_name = "ID", value_parser = RunId::parse, conflicts_with = "agent")]
    run: Option<RunId>,
    /// Prune the checkpoints of this agent, in the store; its key stays
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse)]
    agent: Option<AgentName>,
    /// Only list what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Delete without a question; without a terminal nothing is deleted otherwise
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    signing: SigningArgs,
}

/// One record that was pruned or, with `--dry-run`, would be.
#[derive(Debug, Serialize)]
struct PrunedRecord {
    path: String,
    head: String,
    tombstone: String,
    /// Files that were deleted with it.
    files: Vec<String>,
    /// Other files in the folder of its thread, which stay.
    left: Vec<String>,
}

impl PrunedRecord {
    fn line(&self, word: &str) -> String {
        let files = counted(self.files.len() as u64 + 1, "file", "files");
        format!("{word}  {}  {files}  head {}", Clean(&self.path), self.head)
    }
}

#[derive(Serialize)]
struct PruneOutput<'a> {
    schema: &'static str,
    /// Were records only listed, and not deleted?
    dry_run: bool,
    pruned: &'a [PrunedRecord],
    refused: &'a [PathError],
}

/// The parts of the home that pruning needs.
struct Tools<'a> {
    args: &'a PruneArgs,
    /// Are records only listed, and not deleted?
    is_dry: bool,
    context: &'a Context,
    home: Home,
    host: Host,
    log: Arc<SealLog>,
    signer: Arc<LocalSigner>,
}

/// One record after verification: its printed name, the place of its tombstone, and the files to
/// delete with it.
struct Grave<'g> {
    shown: String,
    place: &'g Path,
    files: Vec<PathBuf>,
    left: Vec<String>,
}

/// What is pruned by one call of the command.
enum Target<'t> {
    File(PathBuf),
    Run(&'t Path, &'t RunId),
    Agent(&'t Path, &'t AgentName),
}

/// The results of one pass over all targets.
#[derive(Default)]
struct Passed<'t> {
    /// The targets of `pruned`, in the same order.
    targets: Vec<Target<'t>>,
    pruned: Vec<PrunedRecord>,
    refused: Vec<PathError>,
}

/// Prunes the records that the arguments name.
pub(crate) fn run(args: &PruneArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut tools = Tools::new(args, context)?;
    let mut passed = tools.find()?;
    let targets = std::mem::take(&mut passed.targets);
    tools.is_dry = args.dry_run || !args.yes;
    tools.pass(targets, &mut passed);
    let is_asked = tools.is_dry && !args.dry_run && !passed.pruned.is_empty();
    if is_asked && io::stdin().is_terminal() && io::stderr().is_terminal() {
        let lines = passed
            .pruned
            .iter()
            .map(|listed| listed.line("would prune"));
        lines.for_each(|line| complain(&line));
        if !confirm(passed.pruned.len())? {
            return Err(Failure::new("nothing was deleted: the answer was not yes"));
        }
        tools.is_dry = false;
        let targets = std::mem::take(&mut passed.targets);
        passed.pruned.clear();
        tools.pass(targets, &mut passed);
    }
    let is_unanswered = is_asked && tools.is_dry;
    let exit = match passed.refused.is_empty() && !is_unanswered {
        true => Exit::Done,
        false => Exit::NoVerdict,
    };
    tell(tools.is_dry, &passed, context, out);
    if is_unanswered {
        complain("nothing was deleted: there is no terminal for the question; hint: add --yes");
    }
    Ok(exit)
}

/// Asks on the terminal; true for yes.
pub(super) fn confirm(records: usize) -> Result<bool, Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot ask on the terminal: {error}"));
    let noun = if records == 1 { "record" } else { "records" };
    let mut terminal = io::stderr().lock();
    write!(terminal, "delete {records} {noun}? [y/N] ").map_err(failed)?;
    terminal.flush().map_err(failed)?;
    let mut answer = String::new();
    let mut input = io::stdin().lock().take(MAX_ANSWER);
    input.read_line(&mut answer).map_err(failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

impl<'a> Tools<'a> {
    fn new(args: &'a PruneArgs, context: &'a Context) -> Result<Self, Failure> {
        let log = key_log::log(context)?.ok_or_else(|| {
            Failure::new(
                "this home has no log, so pruned records could not be distinguished from missing ones; hint: threadseal log init",
            )
        })?;
        Ok(Self {
            args,
            is_dry: true,
            context,
            home: context.existing_home()?,
            host: context.host()?,
            log,
            signer: args.signing.signer(context)?,
        })
    }

    /// The records that the arguments name, as targets.
    fn find(&self) -> Result<Passed<'a>, Failure> {
        let mut found = Passed::default();
        match (
            self.args.records.as_slice(),
            &self.args.run,
            &self.args.agent,
        ) {
            ([store], Some(run), _) => found.targets.push(Target::Run(store, run)),
            ([store], None, Some(agent)) => found.targets.push(Target::Agent(store, agent)),
            (records, None, None) => {
                for named in records {
                    match self.paths(named) {
                        Ok(paths) => found.targets.extend(paths.into_iter().map(Target::File)),
                        Err(failure) => found.refused.push(refusal(named, failure)),
                    }
                }
            }
            _ => {
                return Err(Failure::new(
                    "--run and --agent select from one store; name only one store",
                ));
            }
        }
        Ok(found)
    }

    /// Prunes or lists each target. What is refused is not among the targets of the next pass.
    fn pass(&self, targets: Vec<Target<'a>>, passed: &mut Passed<'a>) {
        for target in targets {
            let (named, done) = match &target {
                Target::File(path) => (path.clone(), self.prune_file(path)),
                Target::Run(store, run) => (store.to_path_buf(), self.prune_run(store, run)),
                Target::Agent(store, agent) => {
                    (store.to_path_buf(), self.prune_agent(store, agent))
                }
            };
            match done {
                Ok(done) => {
                    passed.pruned.push(done);
                    passed.targets.push(target);
                }
                Err(failure) => passed.refused.push(refusal(&named, failure)),
            }
        }
    }

    /// The paths of an argument.
    fn paths(&self, named: &Path) -> Result<Vec<PathBuf>, Failure> {
        match self.args.older_than {
            Some(_) if named.is_dir() => self.older(named),
            _ => file::path_of(self.args, named, self.context).map(|path| vec![path]),
        }
    }

    /// The tombstone at `place` that permits the deletion of the record: one that the log knows.
    /// Any other tombstone is from an interrupted prune, or from an attacker with a copy of the
    /// key, and permits no deletion. If the record `is_gone`, there is nothing to delete; then an
    /// entry in a log after a restart may only repeat a former one.
    fn tombstone_at(&self, place: &Path, is_gone: bool) -> Result<Option<Tombstone>, Failure> {
        match tombstones::read(&*self.host.fs, place)? {
            Found::Other => Err(Failure::new(format!(
                "{} is not a tombstone; nothing is pruned while it exists",
                Clean(&path_text(place))
            ))),
            Found::Tombstone(found) if found.public() != self.signer.public_key() => {
                Err(Failure::new(
                    "another key signed the tombstone beside it; nothing is pruned while that tombstone exists",
                ))
            }
            Found::Tombstone(found)
                if self.is_logged(&found)? || (is_gone && self.log.follows_another()?) =>
            {
                self.refuse_later(&found)?;
                Ok(Some(*found))
            }
            Found::Tombstone(_) | Found::Nothing => Ok(None),
        }
    }

    fn is_logged(&self, found: &Tombstone) -> Result<bool, Failure> {
        let known = self.log.tombstones()?;
        let mut records = found.statement().records.iter();
        Ok(records.all(|logged| known.contains(logged)))
    }

    /// Refuses if a later seal of a record is known than the tombstone names.
    fn refuse_later(&self, found: &Tombstone) -> Result<(), Failure> {
        for logged in &found.statement().records {
            let stored = self.host.heads.fetch(&logged.head.record)?;
            if !stored.is_some_and(|stored| is_newest(&stored, &logged.head)) {
                return Err(Failure::new(
                    "it was sealed again after it was pruned; verify it, and delete its tombstone to prune it again",
                ));
            }
        }
        Ok(())
    }

    fn verifier(&self) -> Result<Verifier, Failure> {
        let trust = trust_file::trust_of_home(&self.home, self.context)?;
        verifying::verifier_by(trust, self.context)
    }

    /// The known head of a record in this home and its log, which must equal its newest one.
    fn newest(&self, head: &Head) -> Result<StoredHead, Failure> {
        let stored = self.host.heads.fetch(&head.record)?;
        stored.filter(|stored| is_newest(stored, head)).ok_or_else(|| {
            Failure::new("its last seal is not the one that this home knows: it was sealed elsewhere, or its head is lost")
        })
    }

    /// Refuses a record that neither has ended nor is older than the age that was given, and any
    /// that is younger than that age.
    fn refuse_running(&self, record: &RecordId) -> Result<(), Failure> {
        let Some(stored) = self.host.heads.fetch(record)? else {
            return Ok(());
        };
        // Each seal of a document is of a whole one.
        let has_ended = stored.is_final || stored.kind == RecordKind::Document;
        match self.oldest()? {
            None if has_ended => Ok(()),
            None => Err(Failure::new(
                "it has no end, so a program may still write to it; hint: threadseal prune --older-than AGE RECORD",
            )),
            Some(before) if stored.updated.as_micros() < before => Ok(()),
            Some(_) => Err(Failure::new(
                "it was sealed too recently: --older-than excludes it",
            )),
        }
    }

    /// The time, in microseconds, before which the last seal of each record must be. None where no
    /// age was given.
    fn oldest(&self) -> Result<Option<u64>, Failure> {
        let now = self.context.now()?.as_micros();
        let age = self.args.older_than;
        Ok(age.map(|age| now.saturating_sub(age)))
    }

    /// Signs a tombstone of these records; the first one is the named record.
    fn sign(&self, records: Vec<LoggedHead>) -> Result<Tombstone, Failure> {
        let by = self.args.by.clone();
        let statement = Statement {
            at: self.context.now()?,
            by: by.unwrap_or_else(|| self.args.signing.key_name().to_owned()),
            why: self.args.why.clone(),
            records,
        };
        Ok(Tombstone::sign(statement, &*self.signer)?)
    }

    /// Writes the tombstone if it `is_new`, adds its entries to the log, and deletes the record
    /// with `drop`.
    fn bury(
        &self,
        grave: Grave<'_>,
        tombstone: &Tombstone,
        is_new: bool,
        drop: impl FnOnce(&[PathBuf]) -> Result<(), Failure>,
    ) -> Result<PrunedRecord, Failure> {
        let records = &tombstone.statement().records;
        if !self.is_dry {
            if is_new {
                tombstones::put(&*self.host.fs, grave.place, tombstone)?;
            }
            self.log.commit_tombstones(records)?;
            drop(&grave.files)?;
        }
        let first = records.first();
        Ok(PrunedRecord {
            path: grave.shown,
            head: first.map_or_else(String::new, |logged| logged.head.to_string()),
            tombstone: path_text(grave.place),
            files: grave.files.iter().map(|file| path_text(file)).collect(),
            left: grave.left,
        })
    }

    /// The ended transcripts below `folder` that this home did not seal for the given age, and the
    /// logs without a write for that time.
    fn older(&self, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
        let before = self.oldest()?.unwrap_or_default();
        let mut found = Vec::new();
        for file in inputs::find(&[folder.to_owned()], &record::stores()).files {
            match file.path.extension().and_then(OsStr::to_str) {
                Some("jsonl") if self.ended_before(&file.path, before)? => found.push(file.path),
                Some("seal") => found.extend(self.log_before(&file.path, before)?),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Is it an ended transcript, whose last seal by this home is older?
    fn ended_before(&self, path: &Path, before: u64) -> Result<bool, Failure> {
        let line = first_line(&open_regular(&*self.host.fs, path)?)?;
        let Some(manifest) = line.as_deref().and_then(parse_line) else {
            return Ok(false);
        };
        let stored = self.host.heads.fetch(&manifest.record)?;
        Ok(stored.is_some_and(|known| known.is_final && known.updated.as_micros() < before))
    }
}

/// The head of a fully valid record. An unsigned record is valid by its chain and the head that
/// this home knows.
fn whole(report: &Report) -> Result<Head, Failure> {
    let verdict = report.verdict;
    let holds = matches!(verdict, Verdict::Verified | Verdict::Consistent);
    let head = report.head.filter(|_| holds);
    head.ok_or_else(|| {
        Failure::new(format!(
            "it is {verdict}: only records that are valid as a whole are pruned"
        ))
    })
}

/// Days or hours, in microseconds.
fn parse_age(text: &str) -> Result<u64, String> {
    let hours = |unit: char, hours: u64| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        count.checked_mul(hours)?.checked_mul(HOUR)
    };
    hours('d', 24)
        .or_else(|| hours('h', 1))
        .ok_or_else(|| "write an age in days or hours: 90d, 12h".to_owned())
}

/// The address of a store can contain a password.
fn refusal(named: &Path, failure: Failure) -> PathError {
    let shown = named.to_str().map(record::without_secrets);
    let shown = shown.map_or_else(|| named.to_owned(), PathBuf::from);
    PathError::of(Some(&shown), &VerifyError::from(failure.about(&shown)))
}

fn tell(is_dry: bool, passed: &Passed<'_>, context: &Context, out: &mut Out) {
    let (pruned, refused) = (&passed.pruned, &passed.refused);
    for error in refused {
        complain(&error.message);
    }
    if context.json {
        out.json(&PruneOutput {
            schema: "threadseal.prune/1",
            dry_run: is_dry,
            pruned,
            refused,
        });
        return;
    }
    let word = if is_dry { "would prune" } else { "pruned" };
    for done in pruned {
        out.line(done.line(word));
        for name in done.left.iter().filter(|_| !context.quiet) {
            complain(&format!("note: {} stays in its folder", Clean(name)));
        }
    }
    if pruned.is_empty() && refused.is_empty() {
        out.line("nothing to prune");
    }
    if !pruned.is_empty() && !is_dry && !context.quiet {
        complain(
            "note: the registry, budgets, knowledge and summaries of the project, other threads, mirrors and backups may still \
             name these records or contain their content",
        );
    }
}
