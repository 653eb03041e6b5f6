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
use crate::signing::SigningArgs;
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::{LocalSigner, Signer as _};
use threadseal_core::record::Head;
use threadseal_core::report::{Report, Verdict};
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::tombstone::{Statement, Tombstone};
use threadseal_formats::ledger::RunId;
use threadseal_formats::lineage::AgentName;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_log::SealLog;
use threadseal_store::examine::first_line;
use threadseal_store::heads::StoredHead;
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::read::open_regular;
use threadseal_store::sys::path_text;
use threadseal_store::tombstones::{self, Found};
use threadseal_verify::inputs;
use threadseal_verify::verifier::Verifier;
use threadseal_verify::verifier::pruned::is_newest;

/// Microseconds of an hour.
const HOUR: u64 = 3_600_000_000;

/// What `prune` takes.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Records to prune: native transcripts, scrolls, logs with detached seals, sealed documents,
    /// folders of threads, or threads of the project. STORE#NAME names a transcript in object
    /// storage (s3://…), postgres://…#THREAD a thread in a database. With --older-than: folders.
    /// With --run or --agent: the store, as a folder, sqlite:FILE, postgres://… or s3://…
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,
    /// Reason, which every reader of the tombstone can see
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Name of the person who prunes [default: the name of the key]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Prune the ended transcripts in these folders that were not sealed for this long: 90d, 12h.
    /// Also prune the logs that were neither sealed nor written for this long
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<u64>,
    /// Prune the ledger of this run, in the store
    #[arg(long, value_name = "ID", value_parser = RunId::parse, conflicts_with_all = ["older_than", "agent"])]
    run: Option<RunId>,
    /// Prune the checkpoints of this agent, in the store; its key stays
    #[arg(long, value_name = "NAME", value_parser = AgentName::parse, conflicts_with = "older_than")]
    agent: Option<AgentName>,
    /// Only list what would be deleted
    #[arg(long)]
    dry_run: bool,
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

#[derive(Serialize)]
struct PruneOutput<'a> {
    schema: &'static str,
    /// Did the run only list deletions?
    dry_run: bool,
    pruned: &'a [PrunedRecord],
    refused: &'a [PathError],
    exit: u8,
}

/// The parts of the home that pruning needs.
struct Tools<'a> {
    args: &'a PruneArgs,
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

/// Prunes the records that the arguments name.
pub(crate) fn run(args: &PruneArgs, context: &Context, out: &mut Out) -> Outcome {
    let tools = Tools::new(args, context)?;
    let (mut pruned, mut refused) = (Vec::new(), Vec::new());
    let mut take = |path: &Path, done: Result<PrunedRecord, Failure>| match done {
        Ok(done) => pruned.push(done),
        Err(failure) => {
            // The address of a store can contain a password.
            let shown = path.to_str().map(record::without_secrets);
            let shown = shown.map_or_else(|| path.to_owned(), PathBuf::from);
            refused.push(PathError::of(Some(&shown), &failure.about(&shown).into()));
        }
    };
    match (args.records.as_slice(), &args.run, &args.agent) {
        ([store], Some(run), _) => take(store, tools.prune_run(store, run)),
        ([store], None, Some(agent)) => take(store, tools.prune_agent(store, agent)),
        (_, None, None) => {
            for named in &args.records {
                match tools.paths(named) {
                    Ok(paths) => paths
                        .iter()
                        .for_each(|path| take(path, tools.prune_file(path))),
                    Err(failure) => take(named, Err(failure)),
                }
            }
        }
        _ => {
            return Err(Failure::new(
                "--run and --agent select from one store; name only one store",
            ));
        }
    }
    let exit = match refused.is_empty() {
        true => Exit::Done,
        false => Exit::NoVerdict,
    };
    tell(args, &pruned, &refused, exit, context, out);
    Ok(exit)
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
            context,
            home: context.existing_home()?,
            host: context.host()?,
            log,
            signer: args.signing.signer(context)?,
        })
    }

    /// The paths of an argument.
    fn paths(&self, named: &Path) -> Result<Vec<PathBuf>, Failure> {
        match self.args.older_than {
            None => file::path_of(self.args, named, self.context).map(|path| vec![path]),
            Some(age) => self.older(named, age),
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

    /// Signs a tombstone of these records; the first one is the named record.
    fn sign(&self, records: Vec<LoggedHead>) -> Result<Tombstone, Failure> {
        let by = self.args.by.clone();
        let statement = Statement {
            at: self.context.now()?,
            by: by.unwrap_or_else(|| self.args.signing.key_name().to_owned()),
            why: self.args.reason.clone(),
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
        if !self.args.dry_run {
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

    /// The ended transcripts below `folder` that this home did not seal for `age`, and the logs
    /// without a write for that time.
    fn older(&self, folder: &Path, age: u64) -> Result<Vec<PathBuf>, Failure> {
        if !folder.is_dir() {
            return Err(
                Failure::new("--older-than needs a folder, and this is not a folder").about(folder),
            );
        }
        let before = self.context.now()?.as_micros().saturating_sub(age);
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

fn tell(
    args: &PruneArgs,
    pruned: &[PrunedRecord],
    refused: &[PathError],
    exit: Exit,
    context: &Context,
    out: &mut Out,
) {
    for error in refused {
        complain(&error.message);
    }
    if context.json {
        out.json(&PruneOutput {
            schema: "threadseal.prune/1",
            dry_run: args.dry_run,
            pruned,
            refused,
            exit: exit.code(),
        });
        return;
    }
    let word = if args.dry_run {
        "would prune"
    } else {
        "pruned"
    };
    for done in pruned {
        let files = done.files.len() + 1;
        out.line(format_args!(
            "{word}  {}  {files} files  head {}",
            Clean(&done.path),
            done.head
        ));
        for name in done.left.iter().filter(|_| !context.quiet) {
            complain(&format!("note: {} stays in its folder", Clean(name)));
        }
    }
    if pruned.is_empty() && refused.is_empty() {
        out.line("nothing to prune");
    }
    if !pruned.is_empty() && !args.dry_run && !context.quiet {
        complain(
            "note: the registry, budgets, knowledge and summaries of the project, other threads, mirrors and backups may still \
             name these records or contain their content",
        );
    }
}
