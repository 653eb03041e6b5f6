//! `prove RECORD#TURN`: writes a file that proves one turn of a record to any person, and shows no
//! other turn (`spec/proofs.md`, "Proofs of turns").

#[cfg(feature = "capture")]
mod session;

use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::policies::policies;
use crate::project::ProjectArgs;
use crate::record;
use crate::render::clean::Clean;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::{Profile, Report, Severity, Verdict};
use threadseal_core::tlog::checkpoint::parse_size;
use threadseal_core::trust::Trust;
use threadseal_formats::transcript::VerifyOptions;
use threadseal_formats::transcript::turn_proof::{Checked, TurnProof};
use threadseal_store::atomic;
use threadseal_store::sys::path_text;
use threadseal_verify::Need;
use threadseal_verify::trust_locality::Locality;

/// The answer to a name without a turn; turns of a record are counted from 1.
const NAMED_WRONGLY: &str = "name a record and one of its turns, for example t.jsonl#2";

/// Permission bits of a proof: it is public.
const MODE: u32 = 0o644;

/// What `prove` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct ProveArgs {
    /// A native transcript (a path, STORE#NAME, or a thread of the project) and the number of the turn, from 1.
    /// Or an archived session by the beginning of its id, and the number that `show` prints
    #[arg(value_name = "RECORD#TURN", value_parser = Named::parse)]
    named: Named,
    /// New file for the proof, *.turn-proof [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Leave out the log's entry for the seal and its cosignatures, which show the log's name and
    /// size
    #[arg(long)]
    no_anchor: bool,
    /// Leave out detached bodies, so that the proof shows only commitments
    #[arg(long)]
    without_bodies: bool,
    #[command(flatten)]
    place: ProjectArgs,
}

/// A turn of a record.
#[derive(Debug, Clone)]
struct Named {
    record: String,
    turn: u64,
}

impl Named {
    fn parse(text: &str) -> Result<Self, String> {
        let parts = text
            .rsplit_once('#')
            .filter(|(record, _)| !record.is_empty());
        let named = parts.and_then(|(record, turn)| {
            Some(Self {
                record: record.to_owned(),
                turn: parse_size(turn)?,
            })
        });
        named.ok_or_else(|| NAMED_WRONGLY.to_owned())
    }
}

#[derive(Serialize)]
struct ProveOutput<'a> {
    schema: &'static str,
    /// The proof; none if the record is not verified.
    path: Option<String>,
    turn: u64,
    /// The report on the whole record.
    result: &'a Report,
}

/// Verifies the record, and proves the turn if it is verified.
pub(crate) fn run(args: &ProveArgs, context: &Context, out: &mut Out) -> Outcome {
    if context.json && args.out.is_none() {
        let text = "a proof is not JSON; hint: add --out, or remove --json";
        return Err(Failure::new(text));
    }
    #[cfg(feature = "capture")]
    if let Some(named) = crate::sessions::named(Path::new(&args.named.record), context)? {
        return session::run(&named, args, context, out);
    }
    if args.named.turn == 0 {
        return Err(Failure::new(NAMED_WRONGLY));
    }
    let path = place_of(args, context)?;
    let trust = verifying::gather(&[], &[], &Locality::to(&[], false, &context.fs), context)?;
    let verifier = verifying::verifier_by(trust.clone(), context)?;
    let opened = verifying::opened(verifier.open_verified(&path, Need::Whole))?;
    let report = match &opened {
        Ok(record) => record.report(),
        Err(report) => report,
    };
    if report.profile != Profile::Native {
        let text = "the seals of a transcript in Rye's format have no tree: one turn cannot be proved without the others";
        return Err(Failure::new(text).about(&path));
    }
    let exit = Exit::from_code(report.verdict.exit_code());
    out.because(report);
    let Ok(record) = &opened else {
        if context.json {
            out.json(&output(args, report, None));
        }
        complain(&format!(
            "{} is {}: only turns of a verified record can be proved; hint: threadseal verify",
            report.path, report.verdict
        ));
        return Ok(exit);
    };
    let proof = TurnProof::make(record.verified(), record.bytes(), args.named.turn)?;
    let proof = with_bodies(proof, record.bytes(), record.bodies(), args)?;
    let checked = proof.check(&options(&trust, context)?);
    settle(&checked)?;
    let head = checked.report.head.filter(|_| !args.no_anchor);
    let text = anchored(proof, head, context)?.to_string();
    match &args.out {
        None => out.bytes(text.as_bytes()),
        Some(path) => {
            atomic::create_new(&*context.fs, path, text.as_bytes(), MODE)?;
            if context.json {
                out.json(&output(args, report, Some(path)));
            } else if !context.quiet {
                let (size, turn) = (text.len(), args.named.turn);
                let path = path_text(path);
                out.line(format_args!(
                    "{}: {size} bytes prove turn {turn}",
                    Clean(&path)
                ));
            }
        }
    }
    Ok(exit)
}

/// The proof with the bodies of its turn. Reports each body that is not in it, with the reason.
fn with_bodies(
    proof: TurnProof,
    record: &[u8],
    bodies: &[u8],
    args: &ProveArgs,
) -> Result<TurnProof, Failure> {
    if args.without_bodies {
        return Ok(proof);
    }
    let carried = proof.with_bodies(record, bodies)?;
    for redacted in &carried.redacted {
        complain(&format!("note: not in the proof: {redacted}"));
    }
    Ok(carried.proof)
}

/// The proof with the log's entry of its closing seal, if the log of this home has one.
fn anchored(proof: TurnProof, head: Option<Head>, context: &Context) -> Result<TurnProof, Failure> {
    let (Some(log), Some(head)) = (context.known_log(), head) else {
        return Ok(proof);
    };
    if !log.standing().vouches() {
        complain("warning: the proof is unanchored: the log was rolled back or cannot be read");
        return Ok(proof);
    }
    let policies = match context.home()? {
        Some(home) => policies(&home, context)?.telling(context),
        None => Vec::new(),
    };
    match log.proof_of(&head, &policies)? {
        Some((entry, file)) => Ok(proof.anchored(&entry, file)?),
        None => Ok(proof),
    }
}

/// The options to check a proof: only trust and the time.
fn options<'t>(trust: &'t Trust, context: &Context) -> Result<VerifyOptions<'t>, Failure> {
    Ok(VerifyOptions {
        trust,
        now: context.now()?,
        held_since: None,
        thread: None,
    })
}

/// Refuses a proof that would fail here, and prints its warnings.
fn settle(checked: &Checked) -> Result<(), Failure> {
    let report = &checked.report;
    let told = |severity| {
        report
            .findings
            .iter()
            .filter(move |f| f.severity == severity)
    };
    // `partial` here means missing bodies: a record with adopted unsealed bytes gets no proof.
    if !matches!(
        report.verdict,
        Verdict::Verified | Verdict::Open | Verdict::Partial
    ) {
        let why = told(Severity::Error).next();
        let why = why.map_or_else(String::new, |finding| format!(": {}", finding.message));
        let text = format!(
            "the record is verified, but a proof of it would be {}{why}",
            report.verdict
        );
        return Err(Failure::new(text));
    }
    for finding in told(Severity::Warning).chain(told(Severity::Note)) {
        complain(&format!("warning: {} [{}]", finding.message, finding.code));
    }
    Ok(())
}

fn output<'a>(args: &ProveArgs, report: &'a Report, path: Option<&Path>) -> ProveOutput<'a> {
    ProveOutput {
        schema: "threadseal.prove/1",
        path: path.map(path_text),
        turn: args.named.turn,
        result: report,
    }
}

/// The place of the record: a path or an address, or else a thread of the project.
fn place_of(args: &ProveArgs, context: &Context) -> Result<PathBuf, Failure> {
    let text = &args.named.record;
    let path = Path::new(text);
    if path.exists() || record::address_of(path).is_some() {
        return Ok(path.to_owned());
    }
    let neither = || {
        Failure::new(format!(
            "{text} is neither a file nor a thread of the project"
        ))
    };
    let id = ThreadId::parse(text).map_err(|_| neither())?;
    let transcript = args.place.transcript_of(&id, context)?;
    transcript.ok_or_else(neither)
}
