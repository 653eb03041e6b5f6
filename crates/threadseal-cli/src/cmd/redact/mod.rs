//! `redact RECORD`: deletes bodies of a native record, or lines of an archived session, for good; the
//! record states the author, the time and the reason.
//!
//! ```text
//! native record: lock ─► verify ─► choose by line, turn or text ─► `redacted` event, seal, head
//!      ─► transcript.bodies without them
//! ```
//! Sealed bytes never change. So every earlier seal, proof and anchor remains valid. `lines` redacts
//! logs of other programs, whose seals are beside them.

mod lines;

use crate::context::Context;
use crate::escaped_search::{says, staying};
use crate::exit::{Exit, Failure, Outcome, complain};
#[cfg(all(feature = "agent", feature = "cloud"))]
use crate::fleet::Fleet;
use crate::key_log;
#[cfg(not(all(feature = "agent", feature = "cloud")))]
use crate::missing;
use crate::options;
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::render::text::counted;
use crate::signing::{SigningArgs, manifest_of};
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
#[cfg(all(feature = "agent", feature = "cloud"))]
use threadseal_core::record::ThreadId;
use threadseal_core::record::{Head, RecordId};
use threadseal_formats::transcript::bodies::{Restorer, commitments};
use threadseal_formats::transcript::manifest::{Bodies, Manifest};
#[cfg(all(feature = "agent", feature = "cloud"))]
use threadseal_runtime::{bounds::LEASE_TIME, fleet::transcript_of};
use threadseal_store::append::tails_of;
use threadseal_store::bodies;
use threadseal_store::host::Host;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::TailPolicy;
use threadseal_store::sys::path_text;
use threadseal_verify::Need;
use threadseal_verify::verifier::{MAX_TAKEN_UP_BYTES, Verifier};

/// Names and numbers are in the sealed bytes of a line, which stay.
const WHOSE_STAY: &str = "the sealed lines themselves";

/// What `redact` takes.
#[derive(Debug, Args)]
pub(crate) struct RedactArgs {
    /// A native transcript with detached bodies, the folder of its thread, a thread of the project, or one in a database:
    /// postgres://…#THREAD; an archived session or SESSION#TURN; a log under seals beside it
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// Redact this line of a log, or all bodies of this line; repeatable
    #[arg(long = "line", value_name = "N")]
    lines: Vec<u64>,
    /// Redact all lines or bodies of this turn; repeatable. Native turns count from 1, those of
    /// logs as `show` does
    #[arg(long = "turn", value_name = "N")]
    turns: Vec<u64>,
    /// Redact all lines or bodies whose texts contain this; repeatable
    #[arg(long = "match", value_name = "TEXT")]
    texts: Vec<String>,
    /// Redact all lines of a log in which a secret is found
    #[arg(long)]
    secrets: bool,
    /// Write a redacted copy of a log and its seals into this folder; the log stays as it is
    #[arg(long, value_name = "DIR", conflicts_with = "finish")]
    output: Option<PathBuf>,
    /// Reason; sealed, and shown to every reader of the record
    #[arg(long, alias = "reason", value_name = "TEXT", required_unless_present_any = ["finish", "dry_run"], value_parser = options::reason)]
    why: Option<String>,
    /// Name of the person who redacts [default: the name of the key]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only list what would be redacted
    #[arg(long)]
    dry_run: bool,
    /// Complete a redaction that was interrupted after its seal; if it was interrupted before,
    /// redact again
    #[arg(long, conflicts_with_all = ["lines", "turns", "texts", "secrets", "dry_run"])]
    finish: bool,
    #[command(flatten)]
    signing: SigningArgs,
}

/// One body.
#[derive(Debug, Serialize)]
struct Chosen {
    line: u64,
    turn: u64,
    event_type: String,
    bytes: u64,
    commitment: String,
    #[serde(skip)]
    digest: Digest,
}

#[derive(Serialize)]
struct RedactOutput<'a> {
    schema: &'static str,
    path: String,
    /// Did the run only list redactions?
    dry_run: bool,
    redacted: &'a [Chosen],
    /// Bodies to which no line commits, which were deleted as well or, with `--dry-run`, would be.
    unbound: u64,
    /// Lines of the record that contain the texts outside of their bodies, and stay.
    staying: &'a BTreeSet<u64>,
    /// Files with bytes that were moved out of the record, which may contain the same texts.
    set_aside: &'a [String],
    /// The head to keep elsewhere.
    head: Option<String>,
}

/// The selection of the arguments.
#[derive(Default)]
struct Choice {
    /// The existing bodies.
    bodies: Vec<Chosen>,
    /// Lines that contain one of the texts outside of their bodies.
    staying: BTreeSet<u64>,
}

/// The result of a redaction.
struct Redacted {
    chosen: Choice,
    unbound: u64,
    set_aside: Vec<String>,
    head: Option<Head>,
}

/// Redacts the selected bodies.
pub(crate) fn run(args: &RedactArgs, context: &Context, out: &mut Out) -> Outcome {
    if let Some(log) = lines::log_of(args, context)? {
        return lines::run(log, args, context, out);
    }
    if args.secrets || args.output.is_some() {
        return Err(Failure::new(
            "--secrets and --output are for logs of other programs; hint: --match, or threadseal transcript export --redact",
        ));
    }
    let chooses = !(args.lines.is_empty() && args.turns.is_empty() && args.texts.is_empty());
    if !chooses && !args.finish {
        return Err(Failure::new(
            "select what to redact: --line, --turn or --match",
        ));
    }
    let (shown, done) = match record::address_of(&args.record) {
        Some(address) => {
            let shown = record::without_secrets(address);
            (shown, in_database(args, address, context))
        }
        None => {
            let path = args.signing.transcript_at(&args.record, context)?;
            (
                path_text(&path),
                redact_in(args, &context.host()?, &path, context),
            )
        }
    };
    let done = done.map_err(|failure| failure.about(Path::new(&shown)))?;
    tell(args, &shown, &done, context, out);
    Ok(Exit::Done)
}

#[cfg(not(all(feature = "agent", feature = "cloud")))]
fn in_database(_: &RedactArgs, address: &str, _: &Context) -> Result<Redacted, Failure> {
    match record::database(address) {
        Some((url, _)) => Err(missing::no_threads_in(url)),
        None => Err(in_store()),
    }
}

/// Redacts a thread in a database under the lease of its order, which excludes every worker.
#[cfg(all(feature = "agent", feature = "cloud"))]
fn in_database(args: &RedactArgs, address: &str, context: &Context) -> Result<Redacted, Failure> {
    let Some((url, thread)) = record::database(address) else {
        return Err(in_store());
    };
    let thread = thread.ok_or_else(|| Failure::new("name the thread: postgres://…#THREAD"))?;
    let thread = ThreadId::parse(thread)?;
    let none = || Failure::new("this database contains no threads");
    let fleet = Fleet::existing(url)?.ok_or_else(none)?;
    let path = transcript_of(&thread);
    let local = context.host()?;
    if args.dry_run {
        return redact_in(
            args,
            &fleet.host(&local, Path::new("/"), None)?,
            &path,
            context,
        );
    }
    let worker = format!("redact {}", std::process::id());
    fleet.with_files(&local, &thread, &worker, LEASE_TIME, |host| {
        redact_in(args, host, &path, context)
    })?
}

fn in_store() -> Failure {
    Failure::new(
        "records in stores contain their bodies inline, in sealed bytes: they cannot be redacted",
    )
}

fn redact_in(
    args: &RedactArgs,
    host: &Host,
    path: &Path,
    context: &Context,
) -> Result<Redacted, Failure> {
    let manifest = manifest_of(&*host.fs, path)?;
    refuse_inline(&manifest)?;
    match args.dry_run {
        true => look(args, path, host, context),
        false => redact(args, path, &manifest, host, context),
    }
}

/// Chooses from the record as it is verified, and changes nothing.
fn look(
    args: &RedactArgs,
    path: &Path,
    host: &Host,
    context: &Context,
) -> Result<Redacted, Failure> {
    let verifier = verifier_over(host, context)?;
    let opened = verifying::opened(verifier.open_verified(path, Need::Vouched))?;
    let opened = opened.map_err(|report| {
        let verdict = report.verdict;
        Failure::new(format!("the record is {verdict}; see: threadseal verify"))
    })?;
    let record = opened.head().record;
    Ok(Redacted {
        chosen: choose(args, &record, opened.bytes(), opened.bodies())?,
        unbound: count_unbound(path, host)?,
        set_aside: set_aside(path, host)?,
        head: None,
    })
}

fn redact(
    args: &RedactArgs,
    path: &Path,
    manifest: &Manifest,
    host: &Host,
    context: &Context,
) -> Result<Redacted, Failure> {
    let signer = args.signing.signer(context)?;
    // A redaction that was interrupted after its seal is completed with that seal. One that was
    // interrupted before its seal is made again from the present arguments: its unsealed line is no
    // instruction, since any writer could have added it.
    let tail = match args.finish {
        true => TailPolicy::Refuse,
        false => TailPolicy::SetAsideRedaction,
    };
    let opened = args
        .signing
        .open_with(path, &signer, host.clone(), tail, context)?;
    let mut recorder = opened.recorder;
    // Always: a body to which no line commits has lost its meaning, so no argument could select it.
    let unbound = recorder.drop_unbound()?;
    let chosen = match args.finish {
        true => Choice::default(),
        false => choose_opened(args, path, &manifest.record, host).inspect_err(|_| {
            if unbound > 0 {
                complain(&format!(
                    "note: deleted: {} that no line commits to",
                    counted(unbound, "body", "bodies")
                ));
            }
        })?,
    };
    let head = match chosen.bodies.is_empty() {
        true => recorder.state().head().copied(),
        false => {
            let digests = chosen.bodies.iter().map(|body| body.digest).collect();
            let by = args
                .by
                .clone()
                .unwrap_or_else(|| args.signing.key_name().to_owned());
            let why = args.why.clone().unwrap_or_default();
            Some(recorder.redact(digests, by, why)?)
        }
    };
    drop(recorder);
    log_redactions(path, host, context);
    Ok(Redacted {
        chosen,
        unbound,
        set_aside: set_aside(path, host)?,
        head,
    })
}

/// Adds the redactions of the record to the log of this host, including earlier ones that the log
/// lacks. The redaction itself is complete: a failure here is only a warning, and the next `redact`
/// repairs it.
fn log_redactions(path: &Path, host: &Host, context: &Context) {
    let logged = || -> Result<(), Failure> {
        let Some(log) = key_log::log(context)? else {
            return Ok(());
        };
        let opened = verifier_over(host, context)?.open_transcript(path)?;
        log.commit_redactions(&opened.result.redactions)?;
        Ok(())
    };
    if let Err(why) = logged() {
        let name = path_text(path);
        complain(&format!(
            "warning: the redaction of {} is not in the log ({why}); hint: threadseal redact --finish",
            Clean(&name)
        ));
    }
}

/// The verifier of this home, over the files of `host`.
fn verifier_over(host: &Host, context: &Context) -> Result<Verifier, Failure> {
    let trust = trust_file::trust_of_home(&context.existing_home()?, context)?;
    Ok(verifying::verifier_by(trust, context)?.over(host.clone()))
}

/// The number of bodies beside the record to which no line commits.
fn count_unbound(path: &Path, host: &Host) -> Result<u64, Failure> {
    let file = open_regular(&*host.fs, path)?;
    Ok(bodies::count_unbound(&*host.fs, &file, MAX_TAKEN_UP_BYTES)?)
}

/// Files beside the record with bytes that were moved out of it.
fn set_aside(path: &Path, host: &Host) -> Result<Vec<String>, Failure> {
    let names = tails_of(&*host.fs, path)?
        .into_iter()
        .filter_map(|tail| Some(tail.file_name()?.to_string_lossy().into_owned()));
    Ok(names.collect())
}

fn refuse_inline(manifest: &Manifest) -> Result<(), Failure> {
    match manifest.bodies {
        Bodies::Detached => Ok(()),
        Bodies::Inline => Err(Failure::new(
            "the record cannot be redacted: its bodies are inline, in sealed bytes; \
             hint: share a copy without some of its lines: threadseal transcript export --redact",
        )),
    }
}

/// Chooses from the record that a recorder has verified, and holds.
fn choose_opened(
    args: &RedactArgs,
    path: &Path,
    record: &RecordId,
    host: &Host,
) -> Result<Choice, Failure> {
    let bytes = open_regular(&*host.fs, path)?.read_whole(MAX_TAKEN_UP_BYTES)?;
    let first = bytes.split(|byte| *byte == b'\n').next();
    let first = first.unwrap_or_default();
    let text = bodies::text_beside(&*host.fs, path, first, MAX_TAKEN_UP_BYTES)?;
    choose(args, record, &bytes, &text)
}

/// The selected bodies that exist, at least one.
fn choose(
    args: &RedactArgs,
    record: &RecordId,
    bytes: &[u8],
    bodies: &[u8],
) -> Result<Choice, Failure> {
    let mut restorer = Restorer::new(record, bodies);
    let is_said = |json: &[u8]| args.texts.iter().any(|text| says(json, text));
    let lines = || bytes.split(|byte| *byte == b'\n');
    lines().for_each(|line| restorer.note(line));
    let (mut chosen, mut turn) = (Choice::default(), 0);
    for (line, number) in lines().zip(1..) {
        let event = crate::events::Event::alone(number, line);
        turn += u64::from(event.event_type == "cognition_in");
        let by_place = args.lines.contains(&number) || args.turns.contains(&turn);
        if is_said(&without_commitments(event.payload())) {
            chosen.staying.insert(number);
        }
        for found in commitments(line).unwrap_or_default() {
            let Some(body) = restorer.text_of(&found.digest) else {
                continue;
            };
            if by_place || is_said(body) {
                chosen.bodies.push(Chosen {
                    line: number,
                    turn,
                    event_type: event.event_type.clone(),
                    bytes: found.bytes,
                    commitment: found.digest.to_string(),
                    digest: found.digest,
                });
            }
        }
    }
    if chosen.bodies.is_empty() {
        let text = "no remaining body matches (see --dry-run)";
        return Err(Failure::new(match chosen.staying.is_empty() {
            true => text.to_owned(),
            false => format!("{text}; {}", staying(WHOSE_STAY, &chosen.staying)),
        }));
    }
    Ok(chosen)
}

/// The part of the payload outside of its commitments.
fn without_commitments(payload: &[u8]) -> Vec<u8> {
    let (mut inline, mut end) = (Vec::new(), 0);
    for found in commitments(payload).unwrap_or_default() {
        inline.extend_from_slice(payload.get(end..found.place.start).unwrap_or_default());
        end = found.place.end;
    }
    inline.extend_from_slice(payload.get(end..).unwrap_or_default());
    inline
}

fn tell(args: &RedactArgs, path: &str, done: &Redacted, context: &Context, out: &mut Out) {
    let head = done.head.map(|head| head.to_string());
    if context.json {
        out.json(&RedactOutput {
            schema: "threadseal.redact/1",
            path: path.to_owned(),
            dry_run: args.dry_run,
            redacted: &done.chosen.bodies,
            unbound: done.unbound,
            staying: &done.chosen.staying,
            set_aside: &done.set_aside,
            head,
        });
        return;
    }
    for body in &done.chosen.bodies {
        let (line, turn, bytes) = (body.line, body.turn, body.bytes);
        let event_type = Clean(&body.event_type);
        out.line(format_args!(
            "line {line}  turn {turn}  {event_type}  {bytes} bytes"
        ));
    }
    let path = Clean(path);
    let count = counted(done.chosen.bodies.len() as u64, "body", "bodies");
    out.line(match (&head, args.finish) {
        (None, _) => format!("{path}: {count} would be deleted"),
        (Some(head), true) => format!("{path}: nothing left to delete  head {head}"),
        (Some(head), false) => format!("redacted  {path}  {count}  head {head}"),
    });
    if context.quiet {
        return;
    }
    if done.unbound > 0 {
        let gone = if args.dry_run {
            "would be deleted"
        } else {
            "deleted"
        };
        let unbound = counted(done.unbound, "body", "bodies");
        complain(&format!(
            "note: also {gone}: {unbound} that no line commits to"
        ));
    }
    if !done.chosen.staying.is_empty() {
        let staying = staying(WHOSE_STAY, &done.chosen.staying);
        complain(&format!("note: {staying}"));
    }
    for name in &done.set_aside {
        let name = Clean(name);
        complain(&format!(
            "note: {name} contains bytes that were moved out of the record; it was not searched"
        ));
    }
    if head.is_some() && !args.finish {
        complain(
            "note: only this record was redacted; the same content may remain in line 1, files set aside, the step ledger, \
             thread.json, summaries, successors and backups",
        );
    }
}
