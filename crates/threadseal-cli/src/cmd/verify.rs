//! `verify PATH|DIR…`: verifies records and prints a verdict for each.

use crate::cmd::trust::FormatArg;
use crate::context::Context;
use crate::evidence;
use crate::examine::all::{AllRecords, Unread};
use crate::examine::pruned::{self, Pruned};
use crate::examine::{
    Anchors, Asked, Examiner, LedgerAsked, LineageAsked, ProfileArg, ScrollArgs, Seen,
};
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::gather;
use crate::local::Local;
use crate::output::Out;
use crate::progress;
use crate::record;
use crate::render::clean::Clean;
use crate::render::json::{PathError, VerifyOutput};
use crate::render::text;
use crate::rotation;
use crate::walk::{self, Candidate, Found};
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use threadseal_core::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal_core::report::{Report, SignerReport, SignerStatus, Verdict, combined_exit_code};
use threadseal_store::sys::path_text;
use threadseal_store::tombstones;

/// What `verify` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct VerifyArgs {
    /// Records, or folders of records; a store by its address (s3://…, sqlite:FILE, postgres://…), or STORE#NAME
    /// for one transcript or thread in it
    #[arg(required_unless_present = "all", value_name = "PATH|DIR")]
    paths: Vec<PathBuf>,
    /// Every record that this home knows, in its last place or in the paths that are named; one that is nowhere is missing
    #[arg(long, conflicts_with_all = ["expect_head", "as_of", "thread", "profile"])]
    all: bool,
    /// Which signatures count, and how much they must cover
    #[arg(long, value_enum, default_value = "auto")]
    profile: ProfileArg,
    /// What resume would accept; never changes a verdict
    #[arg(long, value_enum, default_value = "strict")]
    policy: PolicyArg,
    /// Trust these instead of the home's trust store: PEM files, Rye trusted keys, trust stores,
    /// folders of them; may be given several times
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    /// Accept this signer only: PEM file, 64 hex digits of the key or of its id, did:key, or a name of the trust store
    #[arg(long)]
    key: Option<String>,
    /// The thread that the record must belong to
    #[arg(long, value_name = "ID", value_parser = ThreadId::parse)]
    thread: Option<ThreadId>,
    /// A head that the record, or in a folder a lineage, must contain: <record>:<seq>:<size>:<sha256>, or its
    /// digest
    #[arg(long, value_name = "HEAD", value_parser = ExpectedHead::parse)]
    expect_head: Option<ExpectedHead>,
    /// The expected head must be the last
    #[arg(long, requires = "expect_head")]
    exact_head: bool,
    /// Look at an older copy on purpose: its last seal must be this head, in full, and what is known of later ones does
    /// not count against it
    #[arg(long, value_name = "HEAD", value_parser = full_head, conflicts_with = "expect_head")]
    as_of: Option<Head>,
    /// Only what witnesses saw counts: the newest head must be in the log under a checkpoint that a quorum cosigned (see
    /// anchor check); nobody is asked
    #[arg(long)]
    require_anchor: bool,
    #[command(flatten)]
    scroll: ScrollArgs,
    /// Read the files as this format, whatever they look like
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// Check every signature, not only the last of each key
    #[arg(long)]
    every_signature: bool,
    /// Where a key sealed two histories of one of the named records, write the evidence into this new file; threadseal
    /// check-proof judges it
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    evidence: Option<PathBuf>,
    /// Accept a home or trust that lies inside the folders to verify; reports say so
    #[arg(long)]
    allow_local_trust: bool,
}

/// `--policy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// Resume from verified records only
    Strict,
    /// Resume from the sealed part of a record, its tail kept apart
    Lenient,
}

fn full_head(text: &str) -> Result<Head, String> {
    Head::parse(text).ok_or_else(|| "a head is <record>:<seq>:<size>:<sha256>".to_owned())
}

/// The results of a run.
#[derive(Default)]
struct Run {
    results: Vec<Report>,
    errors: Vec<PathError>,
    passed_over: u64,
}

impl Run {
    fn add(&mut self, seen: Seen) {
        match seen {
            Seen::Reports(reports) => self.results.extend(reports),
            Seen::PassedOver => self.passed_over += 1,
            Seen::Elsewhere | Seen::Link(..) => {}
            Seen::NoRecord(error) | Seen::Failed(error) => self.errors.push(error),
        }
    }

    /// Verifies the named stores and databases, and adds those without a record to `fruitless`.
    /// Returns whether all of them could be read.
    fn look_into_stores(
        &mut self,
        found: &Found,
        thread: Option<&ThreadId>,
        examiner: &Examiner,
        fruitless: &mut Vec<PathBuf>,
    ) -> Result<bool, Failure> {
        let mut all_read = true;
        let mut failed = |run: &mut Self, path, failure: &Failure| {
            all_read = false;
            run.errors.push(PathError::of(path, failure));
        };
        for address in &found.stores {
            match record::ledgers(address).and_then(|store| examiner.store(&*store, address)) {
                Ok(reports) => {
                    if reports.is_empty() && !found.has_files_of(address) {
                        fruitless.push(record::without_secrets(address).into());
                    }
                    self.results.extend(reports);
                }
                Err(failure) => failed(self, Some(Path::new(address)), &failure),
            }
        }
        for (url, named) in &found.databases {
            let named = named.as_ref();
            if let (Some(named), Some(asked)) =
                (named, thread.filter(|asked| Some(*asked) != named))
            {
                let text = format!("the address names {named}, and --thread {asked}");
                return Err(Failure::new(text));
            }
            match examiner.database(url, named.or(thread)) {
                Ok(seen) => {
                    if !seen.iter().any(Seen::tells) {
                        fruitless.push(record::without_secrets(url).into());
                    }
                    seen.into_iter().for_each(|seen| self.add(seen));
                }
                Err(failure) => failed(self, None, &failure),
            }
        }
        Ok(all_read)
    }

    /// Reports each named path without any record: an empty set is never a success. A path has a
    /// record if any report is inside it.
    fn note_fruitless(&mut self, named: Vec<PathBuf>) {
        for path in named {
            let is_inside = |report: &Report| Path::new(&report.path).starts_with(&path);
            if !self.results.iter().any(is_inside) {
                let path = path_text(&path);
                self.errors.push(PathError {
                    message: format!("nothing to verify in {path}: no file of a known format"),
                    path: Some(path),
                });
            }
        }
    }

    /// Replaces the error of a missing named path by the report on its tombstone, if it was pruned.
    fn excuse(&mut self, pruned: &Pruned, examiner: &Examiner) -> Result<(), Failure> {
        for error in std::mem::take(&mut self.errors) {
            let absent = error.path.as_deref().map(Path::new);
            let absent = absent.filter(|path| !path.exists());
            let left = absent.map(|path| pruned.left_at(examiner, &tombstones::place_of(path)));
            match left.transpose()?.filter(|left| !left.is_empty()) {
                Some(left) => self.results.extend(left),
                None => self.errors.push(error),
            }
        }
        Ok(())
    }
}

/// Verifies and reports. In JSON, a failure has the shape of a result, too.
pub(crate) fn run(args: &VerifyArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut run = examine_all(args, context).unwrap_or_else(|failure| Run {
        errors: vec![PathError::of(None, &failure)],
        ..Run::default()
    });
    let mut evidence = None;
    if let Some(to) = &args.evidence {
        let is_written = evidence::write(&args.paths, to, context).unwrap_or_else(|failure| {
            run.errors.push(PathError::of(None, &failure));
            false
        });
        evidence = Some(is_written.then(|| path_text(to)));
    }
    let verdicts: Vec<Verdict> = run.results.iter().map(|report| report.verdict).collect();
    let exit = Exit::from_code(combined_exit_code(&verdicts, run.errors.len()));
    for error in &run.errors {
        complain(&error.message);
    }
    if run.results.is_empty() && run.errors.is_empty() {
        complain("nothing to verify: no file of a known format");
    }
    if context.json {
        let output = VerifyOutput::new(&run.results, &run.errors, run.passed_over, exit);
        let output = output.with_evidence(evidence);
        out.json(&output);
    } else {
        print(args, &run, context, out);
    }
    if let Some((name, kept)) = superseded(args, &run.results).filter(|_| !context.quiet) {
        let (name, kept) = (Clean(name), Clean(kept));
        complain(&format!(
            "note: {name} is another key since it was rotated; what the one before sealed: --key {kept}"
        ));
    }
    Ok(exit)
}

/// If the predecessor of `--key` made a signature that was rejected: the given name, and the
/// present name of that predecessor.
fn superseded<'r>(args: &'r VerifyArgs, results: &'r [Report]) -> Option<(&'r str, &'r str)> {
    let asked = args.key.as_deref()?;
    let rejected = |signer: &&SignerReport| signer.status == SignerStatus::Rejected;
    let mut signers = results
        .iter()
        .flat_map(|report| &report.signers)
        .filter(rejected);
    signers.find_map(|signer| {
        let name = signer.name.as_deref()?;
        (name == rotation::kept_name_of(asked, &signer.key)).then_some((asked, name))
    })
}

fn examine_all(args: &VerifyArgs, context: &Context) -> Result<Run, Failure> {
    let has_folder = args.paths.iter().any(|path| path.is_dir());
    let is_store = |path: &PathBuf| record::address_of(path).is_some_and(|a| !a.contains('#'));
    let has_store = args.paths.iter().any(is_store);
    // Many files can be one record: a lineage. In all other cases the head belongs to only one of
    // them.
    let are_many = args.paths.len() > 1 || has_folder || has_store;
    if are_many && args.scroll.expect_length.is_some() {
        return Err(Failure::new(
            "--expect-length is of one record: name one file",
        ));
    }
    if are_many && args.as_of.is_some() {
        return Err(Failure::new("--as-of is of one record: name one file"));
    }
    let key = args.key.as_deref();
    let local = Local::to(&args.paths, args.allow_local_trust, context);
    let trust = gather::gather(&args.trust, key, &local, context)?;
    let mut found = walk::find(&args.paths);
    let named = found.files.len();
    let all = all_records(args, context)?;
    if let Some(all) = &all {
        let more = all.candidates(&found.files);
        found.files.extend(more);
    }
    let expect_head = args.expect_head.or(args.as_of.map(ExpectedHead::Head));
    let bar = progress::bar(found.files.iter().map(|file| file.bytes).sum(), context);
    let examiner = Examiner::new(
        Asked {
            trust,
            profile: args.profile,
            format: args.format,
            thread: args.thread.clone(),
            expect_head: expect_head.filter(|_| !are_many),
            exact_head: args.exact_head || args.as_of.is_some(),
            as_of: args.as_of,
            anchors: anchors(args, context)?,
            every_signature: args.every_signature,
            scroll: args.scroll.asked(context)?,
            ledger: LedgerAsked::default(),
            lineage: LineageAsked {
                head: expect_head,
                ..LineageAsked::default()
            },
        },
        bar.clone(),
        context,
    )?
    .among(found.files.len());
    let look = |candidate: &Candidate| examiner.examine(candidate);
    let mut seen: Vec<Seen> = match found.files.as_slice() {
        // A single record may use both cores by its own parallel work.
        [only] => vec![look(only)],
        files => files.par_iter().map(look).collect(),
    };
    bar.finish_and_clear();
    let mut fruitless = fruitless(&found, &seen);
    let mut run = Run {
        errors: std::mem::take(&mut found.errors),
        passed_over: found.passed_over,
        ..Run::default()
    };
    let all_read = run.look_into_stores(&found, args.thread.as_ref(), &examiner, &mut fruitless)?;
    // A single file shows nothing about missing others.
    if has_folder || args.all {
        let (missing, unread) = examiner.missing(&found.files, &mut seen, &found.others);
        run.results.extend(missing);
        run.errors.extend(unread);
    }
    let lineages = examiner.lineage_reports(&found.files, &mut seen)?;
    if are_many && args.expect_head.is_some() && lineages.is_empty() {
        return Err(Failure::new(
            "--expect-head is of one record: name one file, or the folder of a lineage",
        ));
    }
    run.results.extend(lineages);
    let unread = Unread::of(&found.files, &seen, named, found.unread || !all_read);
    seen.into_iter().for_each(|seen| run.add(seen));
    let absent = args.paths.iter().filter(|path| !path.exists()).cloned();
    let known = all.iter().flat_map(AllRecords::files).chain(absent);
    let mut places = pruned::places(&*context.fs, &found.files, known);
    let here = run.results.iter().filter_map(|report| report.record);
    let known = here.chain(all.iter().flat_map(AllRecords::records));
    places.extend(pruned::in_home(context, known)?);
    let pruned = Pruned::at(&examiner, &places)?;
    for report in &mut run.results {
        pruned.tell(&examiner, report)?;
    }
    run.excuse(&pruned, &examiner)?;
    let Some(all) = all else {
        run.note_fruitless(fruitless);
        return Ok(run);
    };
    // With `--all`, named paths are only further places to search: their former records may have
    // been pruned.
    let here = run.results.iter().filter_map(|report| report.record);
    let mut here: BTreeSet<RecordId> = here.chain(examiner.joined()).collect();
    run.results
        .extend(all.pruned(&examiner, &pruned, &mut here));
    let (elsewhere, unasked) = all.elsewhere(&examiner, &mut here);
    run.results.extend(elsewhere);
    run.errors.extend(unasked);
    let (missing, unknown) = all.missing(&examiner, &here, &unread);
    run.results.extend(missing);
    run.errors.extend(unknown);
    Ok(run)
}

/// The named folders without any file that is a record.
fn fruitless(found: &Found, seen: &[Seen]) -> Vec<PathBuf> {
    let holds_none = |(_, files): &&(PathBuf, Range<usize>)| {
        let seen = seen.get(files.clone()).unwrap_or_default();
        !seen.iter().any(Seen::tells)
    };
    let folders = found.folders.iter().filter(holds_none);
    folders.map(|(folder, _)| folder.clone()).collect()
}

/// With `--all`, the records that this home knows.
fn all_records(args: &VerifyArgs, context: &Context) -> Result<Option<AllRecords>, Failure> {
    if !args.all {
        return Ok(None);
    }
    let (_, log) = context.reading_host()?;
    let searched = !args.paths.is_empty();
    AllRecords::of(&context.existing_home()?, &log, searched).map(Some)
}

/// With `--require-anchor`, the evidence of witnesses.
fn anchors(args: &VerifyArgs, context: &Context) -> Result<Option<Anchors>, Failure> {
    if !args.require_anchor {
        return Ok(None);
    }
    let (_, log) = context.reading_host()?;
    Anchors::of(&log, context).map(Some)
}

/// Prints the whole report of a single record; for several, each problem and one line of totals.
fn print(args: &VerifyArgs, run: &Run, context: &Context, out: &mut Out) {
    let alone = matches!(args.paths.as_slice(), [path] if !path.is_dir()) && run.results.len() < 2;
    for report in &run.results {
        let is_told = !context.quiet && (alone || pruned::is_pruned(report));
        if report.verdict != Verdict::Verified || is_told {
            out.line(text::report(report, context.palette));
            if args.policy == PolicyArg::Lenient {
                out.line(text::lenient(report, context.palette));
            }
        }
    }
    if !alone && !context.quiet {
        out.line(text::closing(&run.results, &run.errors, run.passed_over));
    }
}
