//! `check-proof FILE`: checks a proof and shows its content.
//!
//! A proof is one of these:
//! * a turn of a record;
//! * a copy of a record with lines left out;
//! * evidence that a key sealed or signed two histories, of a record, a lineage or a log;
//! * a tombstone.
//!
//! It needs only the file: no record, no network, no home. If there is a home whose log knows the
//! record of a turn, the log is asked whether it contradicts the proof.

use crate::context::Context;
use crate::events::Event;
use crate::evidence::{self, LogKey};
use crate::exit::{self, Exit, Failure, Outcome};
use crate::output::Out;
use crate::record;
use crate::render::clean::{Clean, quoted};
use crate::render::text::{self, counted, date, entries};
use crate::verifying::{self, IdArgs};
use clap::Args;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_POLICY_BYTES;
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::report::Expectation;
use threadseal_core::tlog::conflict as checkpoints;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_formats::lineage::FORK_FIRST_LINE;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::{Anchored, Checked, FIRST_LINE};
use threadseal_log::SealLog;
use threadseal_reader::proof::{self, CheckedFile, LineOutput};
use threadseal_store::examine;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::path_text;
use threadseal_verify::detect;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::tell_log;

/// What `check-proof` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct CheckProofArgs {
    /// A proof of a turn of a record or session (prove), a copy with lines left out (transcript export --redact), or a
    /// tombstone (prune). Or evidence of a conflict (verify --evidence, log fsck --evidence) or of
    /// a fork of a lineage (lineage fork-proof)
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// Trust these instead of the home's trust store: PEM files, trust stores, folders of them;
    /// repeatable
    #[arg(long, value_name = "PATH")]
    trust: Vec<PathBuf>,
    #[command(flatten)]
    id: IdArgs,
    /// Accept only this signer: PEM file, 64 hex digits of the key or of its id, did:key, or a name
    /// of the trust store; for checkpoints also the verifier key (name+id+base64) of the log or
    /// witness; repeatable
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// C2SP tlog-policy with the log and the witnesses that must have seen the seal
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The thread to which the record must belong
    #[arg(long, value_name = "ID", value_parser = ThreadId::parse)]
    thread: Option<ThreadId>,
}

pub(crate) fn run(args: &CheckProofArgs, context: &Context, out: &mut Out) -> Outcome {
    let local = Locality::to(&[], false, &context.fs);
    let mut vkeys = Vec::new();
    let mut keys = Vec::new();
    for key in &args.key {
        match VerifierKey::parse(key) {
            Ok(vkey) => vkeys.push(LogKey::Verifier(Box::new(vkey))),
            Err(_) => keys.push(key.clone()),
        }
    }
    let trust = verifying::gather_anywhere(&args.id.and(&args.trust), &keys, &local, context)?;
    let file = record::open(&*context.fs, &args.proof)?;
    let first = examine::first_line(&file)?.unwrap_or_default();
    let policy = args.policy.as_deref().map(|path| policy(path, context));
    let policy = policy.transpose()?;
    if policy.is_some() && first != FIRST_LINE.as_bytes() {
        let text = "--policy is for proofs of turns; this file is not a proof of a turn";
        return Err(Failure::new(text).about(&args.proof));
    }
    if !vkeys.is_empty() && first != checkpoints::FIRST_LINE.as_bytes() {
        let text = "--key is a verifier key of a log or a witness; this file is not evidence about their checkpoints";
        return Err(Failure::new(text).about(&args.proof));
    }
    let options = VerifyOptions {
        trust: &trust,
        now: context.now()?,
        held_since: None,
        thread: args.thread.as_ref(),
    };
    if checkpoints::FIRST_LINE.as_bytes() == first {
        let pins = trust.pinned.iter();
        vkeys.extend(pins.map(|pin| LogKey::Key(Box::new(*pin))));
    }
    if detect::proof(&file)?.is_none() {
        return Err(other(&file, &args.proof));
    }
    let name = path_text(&args.proof);
    let mut found = if FORK_FIRST_LINE.as_bytes() == first {
        // It is read in pieces: a state of igor has any length.
        CheckedFile::report_only(evidence::of_lineage(&file, &trust, options.now)?.report)
    } else {
        let bytes = file.read_whole(proof::most_bytes(&first))?;
        proof::check(&name, &bytes, &options, policy.as_ref(), &vkeys)?
    };
    hold_against_log(&mut found.checked, context)?;
    found.checked.report.path = name;
    let output = found.output();
    let checked = &found.checked;
    let exit = Exit::from_code(checked.report.verdict.exit_code());
    out.because(&checked.report);
    if context.json {
        out.json(&output);
        return Ok(exit);
    }
    if !context.quiet || exit != Exit::Done {
        out.line(text::report(&checked.report, context.palette));
    }
    let anchor = checked.anchor.as_ref().filter(|_| !context.quiet);
    if let Some(line) = anchor.and_then(anchor_line) {
        out.line(line);
    }
    if let Some(turn) = checked.turn.filter(|_| !context.quiet) {
        out.line(context.palette.strong(&format!("turn {turn}")));
    }
    if let Some(label) = found.label.as_ref().filter(|_| !context.quiet) {
        let label = Clean(label).to_string();
        out.line(context.palette.strong(&format!(
            "lines of {label}, as the maker of the proof calls them"
        )));
    }
    if !context.quiet {
        output
            .lines
            .iter()
            .for_each(|line| print(line, context, out));
    }
    Ok(exit)
}

/// Checks a proof of a turn against the home's log, if there is a home whose log knows the record.
/// Warns of a log that cannot be read.
fn hold_against_log(checked: &mut Checked, context: &Context) -> Result<(), Failure> {
    let Some(head) = checked.report.head.filter(|_| checked.closing.is_some()) else {
        return Ok(());
    };
    if context.home_where_named()?.is_none() {
        return Ok(());
    }
    let log = context.reading_host()?.1;
    let known = match &log {
        HomeLog::Never => return Ok(()),
        HomeLog::There(log) => known_of(log, &head).ok(),
        HomeLog::Missing(_) | HomeLog::Damaged(_) => None,
    };
    match known {
        Some(None) => {}
        Some(Some(known)) => {
            checked.hold(&known);
            tell_log(&mut checked.report, &log);
        }
        None => tell_log(&mut checked.report, &log),
    }
    Ok(())
}

/// The heads and forks in the log for the record of this seal; None if it does not know the record.
fn known_of(log: &SealLog, seal: &Head) -> Result<Option<Vec<Expectation>>, Error> {
    let forks = log.forks_of(&seal.record)?;
    if forks.is_empty() && log.newest(&seal.record)?.is_none() {
        return Ok(None);
    }
    let at = log.head_at(&seal.record, seal.seq)?;
    let at = at.map(|at| Expectation::logged(ExpectedHead::Head(at.logged.head), at.entry));
    let known = at
        .into_iter()
        .chain(forks.into_iter().map(Expectation::forked));
    Ok(Some(known.collect()))
}

/// Why a file that is no proof cannot be checked here.
fn other(file: &RegularFile, path: &Path) -> Failure {
    let text = match detect::kind(file) {
        Ok(Some(_)) => format!(
            "not a proof; hint: for a record or a seal: threadseal verify {}",
            Clean(&path_text(path))
        ),
        Ok(None) | Err(_) => {
            "not a proof of a turn, a copy with lines left out, evidence of a fork or a tombstone"
                .to_owned()
        }
    };
    Failure::new(text).about(path)
}

/// Where a quorum of witnesses saw the seal. What no policy vouches for is not shown as a fact: the
/// report lists it as a claim.
fn anchor_line(anchored: &Anchored) -> Option<String> {
    let Anchored {
        origin,
        index,
        size,
        witnessed,
    } = anchored;
    let (origin, witnessed) = (Clean(origin.as_str()), witnessed.as_ref()?);
    Some(format!(
        "log    entry {index} of {origin}; a quorum of witnesses cosigned its {} at {}",
        entries(*size),
        date(witnessed.at().seconds())
    ))
}

/// The policy in a file.
fn policy(path: &Path, context: &Context) -> Result<Policy, Failure> {
    let bytes = open_regular(&*context.fs, path)?.read_whole(MAX_POLICY_BYTES)?;
    Policy::parse(&bytes).map_err(|error| Failure::new(error.to_string()).about(path))
}

/// Prints a line as `show` does: every text of the record has a margin before it.
fn print(row: &LineOutput<'_>, context: &Context, out: &mut Out) {
    let place = context.palette.faint(&format!("line {}", row.line));
    if let Some(bytes) = row.left_out_bytes {
        let bytes = counted(bytes, "byte", "bytes");
        out.line(format_args!("  {place}  [left out, {bytes}]"));
        return;
    }
    out.line(format_args!(
        "  {place}  {}",
        Clean(row.event_type.unwrap_or_default())
    ));
    let text = row.restored.or(row.text).unwrap_or_default();
    let event = Event::alone(row.line, text.as_bytes());
    let text = event.readable();
    if !text.is_empty() {
        out.line(quoted(&text, "    | "));
    }
}
