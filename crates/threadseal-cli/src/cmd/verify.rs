//! `verify PATH|DIR…`: verifies records and prints a verdict for each.

#[cfg(feature = "capture")]
use crate::archived;
use crate::cmd::trust::FormatArg;
use crate::context::Context;
#[cfg(feature = "capture")]
use crate::database_verify;
use crate::evidence;
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::missing;
use crate::output::Out;
#[cfg(feature = "view")]
use crate::pages;
#[cfg(feature = "view")]
use crate::passphrase::PassphraseArgs;
use crate::progress::Bar;
use crate::record;
use crate::render::clean::Clean;
use crate::render::json::PathError;
use crate::render::{paper, text};
use crate::rotation;
use crate::verifying::{self, IdArgs, ProfileArg, ScrollArgs};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::report::{Report, SignerReport, SignerStatus, Verdict};
use threadseal_core::trust::ScopeFormat;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::sys::path_text;
use threadseal_verify::VerifyError;
use threadseal_verify::address::STANDARD_INPUT;
use threadseal_verify::all_records::AllRecords;
use threadseal_verify::anchors::Anchors;
use threadseal_verify::output::is_pruned;
use threadseal_verify::request::VerifyRequest;
use threadseal_verify::run::{Paths, VerifyRun};
use threadseal_verify::trust_locality::Locality;

/// What `verify` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct VerifyArgs {
    /// Records, or folders of records; archived sessions by the beginning of their ids. An address names a store (s3://…, sqlite:FILE,
    /// postgres://…), STORE#NAME one transcript or thread in it
    #[arg(required_unless_present = "all", value_name = "PATH|DIR")]
    paths: Vec<PathBuf>,
    /// Verify every record that this home knows, at its last place or in the named paths; a record
    /// that is in none of them is missing
    #[arg(long, conflicts_with_all = ["expect_head", "as_of", "thread", "profile"])]
    all: bool,
    /// Signatures that count, and how much they must cover
    #[arg(long, value_enum, default_value = "auto")]
    profile: ProfileArg,
    /// Records from which a thread may resume; never changes a verdict
    #[arg(long, value_enum, default_value = "strict")]
    policy: PolicyArg,
    /// Trust these instead of the home's trust store: PEM files, Rye trusted keys, trust stores,
    /// folders of them; repeatable
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    #[command(flatten)]
    id: IdArgs,
    /// Accept only this signer: PEM file, 64 hex digits of the key or of its id, did:key, or a name
    /// of the trust store; repeatable
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// The thread to which the record must belong
    #[arg(long, value_name = "ID", value_parser = ThreadId::parse)]
    thread: Option<ThreadId>,
    /// A head that the record, or a lineage in a folder, must contain:
    /// <record>:<seq>:<size>:<sha256>, or its digest
    #[arg(long, value_name = "HEAD", value_parser = ExpectedHead::parse)]
    expect_head: Option<ExpectedHead>,
    /// Require the expected head to be the last one
    #[arg(long, requires = "expect_head")]
    exact_head: bool,
    /// Verify an older copy on purpose: its last seal must be this full head, and known later heads
    /// do not count against it
    #[arg(long, value_name = "HEAD", value_parser = full_head, conflicts_with = "expect_head")]
    as_of: Option<Head>,
    /// Require witnesses: the newest head must be in the log under a checkpoint that a quorum
    /// cosigned (see anchor check); sends no requests
    #[arg(long)]
    require_anchor: bool,
    #[command(flatten)]
    scroll: ScrollArgs,
    /// Read the files as this format, without detection
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// Check every signature, not only the last one of each key
    #[arg(long)]
    every_signature: bool,
    /// New file for the evidence, if a key sealed two histories of a named record; check-proof
    /// judges it
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    evidence: Option<PathBuf>,
    /// Print a line for each verified record, too
    #[arg(long)]
    list: bool,
    /// New file for a report for people, of the form that its name ends in: .html or .md
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Accept a home or trust inside the verified folders; reports mention it
    #[arg(long)]
    allow_local_trust: bool,
    /// Open an encrypted page: its passphrase is the first line of this file [default: ask]
    #[cfg(feature = "view")]
    #[arg(long, value_name = "FILE")]
    unlock: Option<PathBuf>,
}

/// `--policy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// Resume from verified records only
    Strict,
    /// Resume also from the sealed part of a record, with its tail kept apart
    Lenient,
}

fn full_head(text: &str) -> Result<Head, String> {
    Head::parse(text).ok_or_else(|| "write a head as <record>:<seq>:<size>:<sha256>".to_owned())
}

/// Verifies and reports. In JSON also a failure has the shape of a result.
pub(crate) fn run(args: &VerifyArgs, context: &Context, out: &mut Out) -> Outcome {
    let mut run =
        verify_all(args, context).unwrap_or_else(|failure| VerifyRun::failed(&failure.into()));
    let mut evidence = None;
    if let Some(to) = &args.evidence {
        let is_written = evidence::write(&args.paths, to, context).unwrap_or_else(|failure| {
            run.errors
                .push(PathError::of(None, &VerifyError::from(failure)));
            false
        });
        evidence = Some(is_written.then(|| path_text(to)));
    }
    if let Some(to) = &args.report {
        let written = write_report(to, &run, context);
        if let Err(failure) = written {
            run.errors
                .push(PathError::of(Some(to), &VerifyError::from(failure)));
        }
    }
    let exit = Exit::from_code(run.exit_code());
    run.errors.iter_mut().for_each(missing::add_hint);
    for error in &run.errors {
        complain(&error.message);
    }
    if run.results.is_empty() && run.errors.is_empty() {
        complain("nothing to verify: no file of a known format");
    }
    if context.json {
        out.json_line(&run.output().with_evidence(evidence));
    } else {
        print(args, &run, context, out);
    }
    if let Some((name, kept)) = superseded(args, &run.results).filter(|_| !context.quiet) {
        let (name, kept) = (Clean(name), Clean(kept));
        complain(&format!(
            "note: {name} is a new key since its rotation; for records of the previous key: --key {kept}"
        ));
    }
    Ok(exit)
}

/// Writes the report for people.
fn write_report(to: &Path, run: &VerifyRun, context: &Context) -> Result<(), Failure> {
    let form = paper::Form::of(to)
        .ok_or_else(|| Failure::new("the name of a report ends in .html or .md").about(to))?;
    let page = form.page(run, context.now()?);
    atomic::create_new(&*context.fs, to, page.as_bytes(), PRIVATE_FILE)?;
    if !context.quiet {
        complain(&format!("note: the report is in {}", Clean(&path_text(to))));
    }
    Ok(())
}

/// If the predecessor of a `--key` signed instead: the given name, and the present name of that
/// predecessor.
fn superseded<'r>(args: &'r VerifyArgs, results: &'r [Report]) -> Option<(&'r str, &'r str)> {
    let other = |signer: &&SignerReport| signer.status == SignerStatus::Other;
    let mut signers = results
        .iter()
        .flat_map(|report| &report.signers)
        .filter(other);
    signers.find_map(|signer| {
        let name = signer.name.as_deref()?;
        let mut asked = args.key.iter().map(String::as_str);
        let asked = asked.find(|asked| name == rotation::kept_name_of(asked, &signer.key))?;
        Some((asked, name))
    })
}

fn verify_all(args: &VerifyArgs, context: &Context) -> Result<VerifyRun, Failure> {
    #[cfg(feature = "capture")]
    let (sessions, named) = archived::split(&args.paths, context)?;
    #[cfg(feature = "capture")]
    let (databases, named) = database_verify::split(named, context)?;
    // With --all, their logs are among the records that are known.
    #[cfg(feature = "capture")]
    let folders = match args.all {
        true => Vec::new(),
        false => database_verify::in_folders(&named, context)?,
    };
    #[cfg(not(feature = "capture"))]
    let named = args.paths.clone();
    let paths = Paths::new(named);
    paths.refuse_single(args.scroll.expect_length.is_some(), args.as_of.is_some())?;
    let files: Vec<PathBuf> = args.paths.iter().filter(is_file).cloned().collect();
    let locality = Locality::to(&files, args.allow_local_trust, &context.fs);
    let trust = verifying::gather(&args.id.and(&args.trust), &args.key, &locality, context)?;
    let set = paths.find(all_records(args, context)?, &record::stores());
    let bar = Bar::over(set.bytes(), context);
    let request = VerifyRequest {
        profile: args.profile.into(),
        format: args.format.map(ScopeFormat::from),
        thread: args.thread.clone(),
        expect_head: args.expect_head,
        exact_head: args.exact_head,
        as_of: args.as_of,
        anchors: anchors(args, context)?,
        every_signature: args.every_signature,
        scroll: args.scroll.request(context)?,
        ..VerifyRequest::by(trust)
    };
    let verifier = verifying::verifier(request, &bar, context)?;
    let run = verifier.verify_set(set)?;
    #[cfg(feature = "capture")]
    let run = {
        let mut run = run;
        for session in &sessions {
            archived::verify(session, &verifier, &mut run, context)?;
        }
        for database in &databases {
            database_verify::verify(database, &verifier, &mut run, context)?;
        }
        database_verify::verify_folders(&folders, &verifier, &mut run, context)?;
        #[cfg(feature = "view")]
        let passphrase = PassphraseArgs::of_page(args.unlock.as_deref());
        #[cfg(feature = "view")]
        for page in run.take_pages() {
            pages::verify(&page, &passphrase, &verifier, &mut run, context);
        }
        database_verify::compare(&mut run.results, context);
        archived::look(&mut run.results, &verifier, context)?;
        run
    };
    Ok(run)
}

/// Is it another path than standard input, which is in no folder?
fn is_file(path: &&PathBuf) -> bool {
    path.as_path() != Path::new(STANDARD_INPUT)
}

/// With `--all`, the records that this home knows.
fn all_records(args: &VerifyArgs, context: &Context) -> Result<Option<AllRecords>, Failure> {
    if !args.all {
        return Ok(None);
    }
    let (_, log) = context.reading_host()?;
    let searched = !args.paths.is_empty();
    Ok(Some(AllRecords::of(
        &context.existing_home()?,
        &log,
        searched,
    )?))
}

/// With `--require-anchor`, the evidence of witnesses.
fn anchors(args: &VerifyArgs, context: &Context) -> Result<Option<Anchors>, Failure> {
    if !args.require_anchor {
        return Ok(None);
    }
    let (_, log) = context.reading_host()?;
    let home = context.home()?;
    let anchors = Anchors::of(&log, home.as_ref(), &*context.fs, context)?;
    Ok(Some(anchors))
}

/// Was the record converted from one that was not verified? A reader must see that among many
/// records, too.
fn has_doubtful_source(report: &Report) -> bool {
    let claim = report.conversion.as_ref();
    claim.is_some_and(|claim| claim.verdict != Verdict::Verified)
}

/// Prints the whole report of one record; of several, the faults and one line that counts all.
fn print(args: &VerifyArgs, run: &VerifyRun, context: &Context, out: &mut Out) {
    let alone = matches!(args.paths.as_slice(), [path] if !path.is_dir()) && run.results.len() < 2;
    for report in &run.results {
        let is_told = !context.quiet && (alone || is_pruned(report) || has_doubtful_source(report));
        if report.verdict != Verdict::Verified || is_told {
            out.line(text::report(report, context.palette));
            if args.policy == PolicyArg::Lenient {
                out.line(text::lenient(report, context.palette));
            }
        } else if args.list {
            out.line(text::heading(report, context.palette));
        }
    }
    if !alone && !context.quiet {
        out.line(text::closing(&run.results, &run.errors, run.passed_over));
    }
}
