//! `prune RECORD…`: deletes whole records that have ended, and leaves a signed tombstone of each.
//!
//! ```text
//! lock ─► verify ─► RECORD.tombstone, durable ─► entries in the log of the host ─► files beside it ─► the record
//! ```
//! Killed in between, it is finished by the next `prune` of the same record: the tombstone is there, and the record still is.

use crate::context::Context;
use crate::examine::pruned::is_newest;
use crate::examine::{Asked, Examiner, Seen, kin};
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_log;
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::render::json::PathError;
use crate::signing::SigningArgs;
use crate::trusting;
use crate::walk::{self, Candidate};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal::key::{LocalSigner, Signer as _};
use threadseal::record::{RecordId, ThreadId};
use threadseal::report::Verdict;
use threadseal::tlog::tombstone::{Statement, Tombstone};
use threadseal::transcript::manifest::parse_line;
use threadseal_runtime::project::{CANCEL_FILE, CAPABILITIES_FILE, THREAD_FILE, TRANSCRIPT_FILE};
use threadseal_store::bodies;
use threadseal_store::examine::first_line;
use threadseal_store::heads::StoredHead;
use threadseal_store::host::Host;
use threadseal_store::lock::WriterLock;
use threadseal_store::read::open_regular;
use threadseal_store::seal_log::SealLog;
use threadseal_store::sys::{directory_of, path_text};
use threadseal_store::tombstones::{self, Found};

/// Microseconds of an hour.
const HOUR: u64 = 3_600_000_000;

/// What `prune` takes.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Native transcripts in files, folders of threads, or threads of the project; with --older-than, folders to look in
    #[arg(value_name = "RECORD", required = true)]
    records: Vec<PathBuf>,
    /// Why; stands in the tombstone for everybody to read
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Who prunes, as it is to be shown [default: the name of the key]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// All records in these folders that ended and that nobody has sealed for so long: 90d, 12h
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<u64>,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    signing: SigningArgs,
}

/// One record that was pruned, or would be.
#[derive(Debug, Serialize)]
struct Done {
    path: String,
    head: String,
    tombstone: String,
    /// Files that went with it.
    files: Vec<String>,
    /// What else lies in the folder of its thread, and stays.
    left: Vec<String>,
}

#[derive(Serialize)]
struct PruneOutput<'a> {
    schema: &'static str,
    /// Is it only what would be deleted?
    dry_run: bool,
    pruned: &'a [Done],
    refused: &'a [PathError],
    exit: u8,
}

/// What pruning needs of the home.
struct Tools<'a> {
    args: &'a PruneArgs,
    context: &'a Context,
    host: Host,
    log: Arc<SealLog>,
    signer: Arc<LocalSigner>,
}

/// Prunes what the arguments name.
pub(crate) fn run(args: &PruneArgs, context: &Context, out: &mut Out) -> Outcome {
    let tools = Tools::new(args, context)?;
    let (mut pruned, mut refused) = (Vec::new(), Vec::new());
    for named in &args.records {
        let paths = match args.older_than {
            None => path_of(args, named, context).map(|path| vec![path]),
            Some(age) => tools.older(named, age),
        };
        let paths = paths.unwrap_or_else(|failure| {
            refused.push(error(named, &failure));
            Vec::new()
        });
        for path in paths {
            match tools.prune(&path) {
                Ok(done) => pruned.push(done),
                Err(failure) => refused.push(error(&path, &failure.about(&path))),
            }
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
                "this home has no log, and nothing would tell what was pruned from what is missing: threadseal log init",
            )
        })?;
        Ok(Self {
            args,
            context,
            host: context.host()?,
            log,
            signer: args.signing.signer(context)?,
        })
    }

    fn prune(&self, path: &Path) -> Result<Done, Failure> {
        let place = tombstones::place_of(path);
        match tombstones::read(&*self.host.fs, &place)? {
            Found::Other => Err(Failure::new(format!(
                "{} is no tombstone; nothing is pruned while it lies there",
                Clean(&path_text(&place))
            ))),
            Found::Tombstone(found) if found.public() != self.signer.public_key() => {
                Err(Failure::new(
                    "another key signed the tombstone that lies beside it; nothing is pruned while it is there",
                ))
            }
            Found::Tombstone(found) if self.is_logged(&found)? => self.finish(path, &found),
            // Of a prune that was cut short before it counted, or of whoever has a copy of the key: nothing is deleted by it.
            Found::Tombstone(_) | Found::Nothing => self.begin(path),
        }
    }

    fn is_logged(&self, found: &Tombstone) -> Result<bool, Failure> {
        let known = self.log.tombstones()?;
        let mut records = found.statement().records.iter();
        Ok(records.all(|logged| known.contains(logged)))
    }

    /// Refuses when a later seal of a record is known than the tombstone names.
    fn refuse_later(&self, found: &Tombstone) -> Result<(), Failure> {
        for logged in &found.statement().records {
            let stored = self.host.heads.fetch(&logged.head.record)?;
            if !stored.is_some_and(|stored| is_newest(&stored, &logged.head)) {
                return Err(Failure::new(
                    "it was sealed on after it was pruned; verify it, and remove its tombstone if it is to be pruned again",
                ));
            }
        }
        Ok(())
    }

    /// Goes on where a tombstone and the log say that the record is pruned.
    fn finish(&self, path: &Path, found: &Tombstone) -> Result<Done, Failure> {
        self.refuse_later(found)?;
        let records = &found.statement().records;
        let first = records.first().map(|logged| logged.head.record);
        let record = first.ok_or_else(|| Failure::new("its tombstone names no record"))?;
        if self.host.fs.metadata(path).is_err() {
            // It goes last: what lies there now is of another one.
            return self.carry_out(path, found, &[], Vec::new());
        }
        let lock = WriterLock::acquire(Arc::clone(&self.host.fs), path)?;
        let line = first_line(&lock.reader()?)?;
        let there = line.as_deref().and_then(parse_line);
        if there.is_none_or(|manifest| manifest.record != record) {
            return Err(Failure::new(
                "another record lies where its tombstone says that one was pruned",
            ));
        }
        let (files, left) = self.beside(path, record, records.len() > 1)?;
        let done = self.carry_out(path, found, &files, left)?;
        drop(lock);
        Ok(done)
    }

    /// Verifies the record under its lock, and says with a tombstone that it is pruned.
    fn begin(&self, path: &Path) -> Result<Done, Failure> {
        // It opens only for who may seal the record: its authority, or the key in the place of that.
        let signing = &self.args.signing;
        let opened = signing.open(path, &self.signer, self.host.clone(), self.context)?;
        let verdict = opened.report.verdict;
        let state = opened.recorder.state();
        let (true, Verdict::Verified, Some(head)) = (state.is_ended(), verdict, state.head())
        else {
            return Err(Failure::new(format!(
                "it is {verdict} and has no end that holds: only whole records that have ended are pruned"
            )));
        };
        let file = open_regular(&*self.host.fs, path)?;
        if let Some(why) = kin::unfinished(&*self.host.heads, &file, head.size)? {
            return Err(Failure::new(why));
        }
        let stored = self.host.heads.fetch(&head.record)?;
        let stored = stored.filter(|stored| is_newest(stored, head)).ok_or_else(|| {
            Failure::new("its last seal is not the one that this home knows: it was sealed elsewhere, or its head is lost")
        })?;
        let with_thread = self.is_in_its_folder(path, state.thread());
        let (files, left) = self.beside(path, head.record, with_thread)?;
        let mut records = vec![stored.to_log()];
        records.extend(self.verified(&files)?.iter().map(StoredHead::to_log));
        let by = self.args.by.clone();
        let statement = Statement {
            at: self.context.now()?,
            by: by.unwrap_or_else(|| signing.key_name().to_owned()),
            why: self.args.reason.clone(),
            records,
        };
        let tombstone = Tombstone::sign(statement, &*self.signer)?;
        if !self.args.dry_run {
            tombstones::put(&*self.host.fs, &tombstones::place_of(path), &tombstone)?;
        }
        let done = self.carry_out(path, &tombstone, &files, left)?;
        drop(opened.recorder);
        Ok(done)
    }

    /// The tombstone is durable: has the log say the same, and deletes what it is of.
    fn carry_out(
        &self,
        path: &Path,
        tombstone: &Tombstone,
        files: &[PathBuf],
        left: Vec<String>,
    ) -> Result<Done, Failure> {
        let records = &tombstone.statement().records;
        if !self.args.dry_run {
            self.log.commit_tombstones(records)?;
            tombstones::drop_all(&*self.host.fs, path, files)?;
        }
        Ok(Done {
            path: path_text(path),
            head: records
                .first()
                .map_or_else(String::new, |logged| logged.head.to_string()),
            tombstone: path_text(&tombstones::place_of(path)),
            files: files.iter().map(|file| path_text(file)).collect(),
            left,
        })
    }

    fn is_in_its_folder(&self, path: &Path, thread: &ThreadId) -> bool {
        let folder = directory_of(path);
        path.file_name().is_some_and(|name| name == TRANSCRIPT_FILE)
            && folder.ends_with(thread.as_str())
            && self.host.fs.metadata(&folder.join(THREAD_FILE)).is_ok()
    }

    /// The files that go with the record at `path`, and the names of others in the folder of its thread.
    fn beside(
        &self,
        path: &Path,
        record: RecordId,
        with_thread: bool,
    ) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
        let folder = directory_of(path);
        let names = self.host.fs.read_dir(folder);
        let names = names.map_err(|error| Failure::io("read", folder, &error))?;
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let [tail, ledger] = [format!("{own}.tail-"), format!("ledger_{record}.")];
        let bodies = bodies::place_of(path);
        let tombstone = tombstones::place_of(path);
        let (mut files, mut left) = (Vec::new(), Vec::new());
        for name in names {
            let there = folder.join(&name);
            let name = name.to_string_lossy().into_owned();
            let of_thread = [THREAD_FILE, CAPABILITIES_FILE, CANCEL_FILE].contains(&name.as_str())
                || name.starts_with(&ledger);
            if there == bodies || name.starts_with(&tail) || (with_thread && of_thread) {
                files.push(there);
            } else if with_thread && name != own && there != tombstone {
                left.push(name);
            }
        }
        files.sort();
        left.sort();
        Ok((files, left))
    }

    /// The heads of the records among `files`, each of which must be verified.
    fn verified(&self, files: &[PathBuf]) -> Result<Vec<StoredHead>, Failure> {
        let trust = trusting::trust_of_home(&self.context.existing_home()?, self.context)?;
        let examiner = Examiner::new(Asked::by(trust), ProgressBar::hidden(), self.context)?;
        let mut records = Vec::new();
        for path in files {
            let candidate = Candidate {
                path: path.clone(),
                named: false,
                bytes: 0,
            };
            let reports = match examiner.examine(&candidate) {
                Seen::Reports(reports) => reports,
                Seen::Failed(error) => return Err(Failure::new(error.message)),
                Seen::PassedOver | Seen::Elsewhere | Seen::Link(..) => Vec::new(),
            };
            for report in reports {
                let verdict = report.verdict;
                if verdict != Verdict::Verified {
                    let name = path_text(path);
                    let text = format!("{} beside it is {verdict}", Clean(&name));
                    return Err(Failure::new(text));
                }
                let stored = report.record.map(|record| self.host.heads.fetch(&record));
                records.extend(stored.transpose()?.flatten());
            }
        }
        Ok(records)
    }

    /// The transcripts below `folder` that ended, and that this home has not sealed for `age`.
    fn older(&self, folder: &Path, age: u64) -> Result<Vec<PathBuf>, Failure> {
        if !folder.is_dir() {
            return Err(
                Failure::new("--older-than looks in folders, and this is none").about(folder),
            );
        }
        let before = self.context.now()?.as_micros().saturating_sub(age);
        let mut found = Vec::new();
        for file in walk::find(&[folder.to_owned()]).files {
            if file.path.extension().is_none_or(|ending| ending != "jsonl") {
                continue;
            }
            let line = first_line(&open_regular(&*self.host.fs, &file.path)?)?;
            let Some(manifest) = line.as_deref().and_then(parse_line) else {
                continue;
            };
            let stored = self.host.heads.fetch(&manifest.record)?;
            if stored.is_some_and(|known| known.is_final && known.updated.as_micros() < before) {
                found.push(file.path);
            }
        }
        Ok(found)
    }
}

/// A path, the transcript in a folder, or where the transcript of a thread lies.
fn path_of(args: &PruneArgs, named: &Path, context: &Context) -> Result<PathBuf, Failure> {
    if record::address_of(named).is_some() {
        let text = "only transcripts in files are pruned; records in databases and other stores are not yet";
        return Err(Failure::new(text).about(named));
    }
    // Of one that was pruned in part, the tombstone may be all that is left.
    if context.fs.metadata(&tombstones::place_of(named)).is_ok() {
        return Ok(named.to_owned());
    }
    args.signing.transcript_at(named, context)
}

/// Days or hours, in microseconds.
fn parse_age(text: &str) -> Result<u64, String> {
    let hours = |unit: char, hours: u64| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        count.checked_mul(hours)?.checked_mul(HOUR)
    };
    hours('d', 24)
        .or_else(|| hours('h', 1))
        .ok_or_else(|| "an age is a number of days or hours: 90d, 12h".to_owned())
}

fn error(path: &Path, failure: &Failure) -> PathError {
    PathError {
        path: Some(path_text(path)),
        message: failure.to_string(),
    }
}

fn tell(
    args: &PruneArgs,
    pruned: &[Done],
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
             name these records or hold what was in them",
        );
    }
}
