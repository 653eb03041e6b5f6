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

use crate::cmd::show;
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
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::limits::{
    MAX_CONFLICT_BYTES, MAX_POLICY_BYTES, MAX_TOMBSTONE_BYTES, MAX_TURN_PROOF_BYTES,
};
use threadseal_core::record::{ExpectedHead, Head, ThreadId};
use threadseal_core::report::{Expectation, Report};
use threadseal_core::tlog::conflict as checkpoints;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_formats::lineage::FORK_FIRST_LINE;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::copy::{self, CopiedLine};
use threadseal_formats::transcript::observed_proof;
use threadseal_formats::transcript::turn_proof::conflict as seals;
use threadseal_formats::transcript::turn_proof::{
    Anchored, Checked, FIRST_LINE, ShownLine, check_file_by,
};
use threadseal_log::SealLog;
use threadseal_store::examine;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::path_text;
use threadseal_verify::detect;
use threadseal_verify::home_log::HomeLog;
use threadseal_verify::trust_locality::Locality;
use threadseal_verify::verifier::{MAX_TAKEN_UP_BYTES, tell_log};

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

#[derive(Serialize)]
struct ProofOutput<'a> {
    schema: &'static str,
    result: &'a Report,
    /// The turn; none if the proof fails.
    turn: Option<u64>,
    /// What the maker of a proof of observed lines calls them; nothing proves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    lines: Vec<LineOutput<'a>>,
    /// The place of the closing seal in a log; none if the proof does not contain one.
    anchor: Option<AnchorOutput<'a>>,
}

#[derive(Serialize)]
struct AnchorOutput<'a> {
    /// Did a quorum of the policy's witnesses see it? Otherwise the rest is the proof's own claim.
    authenticated: bool,
    origin: &'a str,
    index: u64,
    size: u64,
    /// When a quorum of the policy's witnesses had seen it, in seconds since 1970; none without a
    /// policy, or if it was not met.
    witnessed_at: Option<u64>,
    /// Names of the policy's witnesses that saw it, if the quorum was met.
    witnesses: Vec<String>,
}

impl<'a> AnchorOutput<'a> {
    fn of(anchored: &'a Anchored) -> Self {
        let witnessed = anchored.witnessed.as_ref();
        let cosigned = witnessed.map_or(&[][..], |seen| seen.signed().cosignatures());
        Self {
            authenticated: witnessed.is_some(),
            origin: anchored.origin.as_str(),
            index: anchored.index,
            size: anchored.size,
            witnessed_at: witnessed.map(|witnessed| witnessed.at().seconds()),
            witnesses: cosigned.iter().map(|by| by.witness.to_string()).collect(),
        }
    }
}

#[derive(Serialize)]
struct LineOutput<'a> {
    line: u64,
    /// None if the line is left out.
    event_type: Option<&'a str>,
    /// The line's JSON text, as it is in the record.
    text: Option<&'a str>,
    /// The same with bodies, or redaction marks, in place of its commitments; none if it has no
    /// commitment.
    restored: Option<&'a str>,
    /// The number of bytes of a line that a copy leaves out.
    left_out_bytes: Option<u64>,
}

impl<'a> LineOutput<'a> {
    fn of_turn(line: &'a ShownLine) -> Self {
        Self {
            line: line.number,
            event_type: Some(&line.event_type),
            text: Some(&line.text),
            restored: line.restored.as_deref(),
            left_out_bytes: None,
        }
    }

    fn of_copy((line, number): (&CopiedLine<'a>, u64)) -> Self {
        let (event_type, text, left_out_bytes) = match *line {
            CopiedLine::Shown { event_type, text } => (Some(event_type), Some(text), None),
            CopiedLine::LeftOut { bytes } => (None, None, Some(bytes)),
        };
        Self {
            line: number,
            event_type,
            text,
            restored: None,
            left_out_bytes,
        }
    }
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
    let report_only = |report| Checked {
        report,
        turn: None,
        lines: Vec::new(),
        anchor: None,
        closing: None,
    };
    // A copy has no parsed lines: they are read from its bytes.
    let bytes;
    let mut lines = Vec::new();
    let mut label = None;
    let mut checked = match std::str::from_utf8(&first).unwrap_or_default() {
        FIRST_LINE => {
            let bytes = file.read_whole(MAX_TURN_PROOF_BYTES)?;
            let mut checked = check_file_by(&bytes, &options, policy.as_ref());
            hold_against_log(&mut checked, context)?;
            checked
        }
        copy::FIRST_LINE => {
            bytes = file.read_whole(MAX_TAKEN_UP_BYTES)?;
            let copied = copy::check(&bytes, &options);
            lines = copied.lines;
            report_only(copied.report)
        }
        seals::FIRST_LINE => {
            let bytes = file.read_whole(MAX_TURN_PROOF_BYTES)?;
            report_only(seals::check_file(&bytes, &options).report)
        }
        observed_proof::FIRST_LINE => {
            let bytes = file.read_whole(MAX_TURN_PROOF_BYTES)?;
            let found = observed_proof::check_file(&bytes, &options);
            let shown = |(number, bytes): (u64, Vec<u8>)| {
                let event = Event::alone(number, &bytes);
                ShownLine {
                    number,
                    event_type: event.event_type,
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                    restored: None,
                }
            };
            label = found.label;
            Checked {
                lines: found.lines.into_iter().map(shown).collect(),
                ..report_only(found.report)
            }
        }
        FORK_FIRST_LINE => report_only(evidence::of_lineage(&file, &trust, options.now)?.report),
        checkpoints::FIRST_LINE => {
            let bytes = file.read_whole(MAX_CONFLICT_BYTES)?;
            let pins = trust.pinned.iter();
            vkeys.extend(pins.map(|pin| LogKey::Key(Box::new(*pin))));
            report_only(evidence::of_checkpoints(&bytes, &vkeys))
        }
        _ if detect::proof(&file)?.is_some() => {
            let bytes = file.read_whole(MAX_TOMBSTONE_BYTES)?;
            report_only(evidence::of_tombstone(&bytes, &options))
        }
        _ => return Err(other(&file, &args.proof)),
    };
    checked.report.path = path_text(&args.proof);
    let exit = Exit::from_code(checked.report.verdict.exit_code());
    out.because(&checked.report);
    let of_turn = checked.lines.iter().map(LineOutput::of_turn);
    let of_copy = lines.iter().zip(1..).map(LineOutput::of_copy);
    let rows: Vec<LineOutput<'_>> = of_turn.chain(of_copy).collect();
    if context.json {
        out.json(&output(&checked, label.as_deref(), rows));
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
    if let Some(label) = label.filter(|_| !context.quiet) {
        let label = Clean(&label).to_string();
        out.line(context.palette.strong(&format!(
            "lines of {label}, as the maker of the proof calls them"
        )));
    }
    if !context.quiet {
        rows.iter().for_each(|line| print(line, context, out));
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

fn output<'a>(
    checked: &'a Checked,
    label: Option<&'a str>,
    lines: Vec<LineOutput<'a>>,
) -> ProofOutput<'a> {
    ProofOutput {
        label,
        schema: "threadseal.check-proof/1",
        result: &checked.report,
        turn: checked.turn,
        lines,
        anchor: checked.anchor.as_ref().map(AnchorOutput::of),
    }
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
    let text = show::said(&event);
    if !text.is_empty() {
        out.line(quoted(&text, "    | "));
    }
}
