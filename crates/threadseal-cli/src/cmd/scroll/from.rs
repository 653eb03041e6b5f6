//! `scroll from`: converts another program's session to a sealed scroll, with an account of every
//! part.
//!
//! ```text
//! source ─► verify ─► mapping ─► redaction ─┬─► turns ─► seal ─► standard output or a new file
//!             │     (members of an archive) └─► account ─► short on standard error; whole with --json
//!             └─► evidence: nothing is written; else: the claim in the first turn
//! folder ─► mapping of each file ─► one table (--table); nothing is written
//! ```

use super::ContainerArg;
use super::input::Writer;
use super::seal::{self, Written};
use super::source;
use super::table;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use crate::render::text::counted;
use crate::secrets::{MAX_RULES_BYTES, Rules};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use threadseal_convert::archive;
use threadseal_convert::{Account, Bodies, Detection, Drafts, Format, Mapped};
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python::rye_line;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::Signer;
use threadseal_core::limits::MAX_SOURCE_BYTES;
use threadseal_core::report::Conversion;
use threadseal_formats::scroll::{Encoding, seal as seal_turn};
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::read::read_small;
use threadseal_verify::JudgedSource;

/// The only format that is an archive.
const ARCHIVED: &str = "inspect";

/// What `scroll from` takes.
#[derive(Debug, Args)]
pub(crate) struct FromArgs {
    /// Program that wrote the source; auto detects it
    #[arg(value_parser = PossibleValuesParser::new(vendors()))]
    vendor: String,
    /// Source files; with --table also folders
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Read the sources as this format, without detection; like VENDOR, which it overrides
    #[arg(
        long,
        value_name = "FORMAT",
        value_parser = PossibleValuesParser::new(vendors()),
        hide_possible_values = true
    )]
    format: Option<String>,
    /// Print one line for each source and write no scroll
    #[arg(long)]
    table: bool,
    /// Sign with a key of this home by name, or with a seed of 64 hex digits [default: unsigned].
    /// Other users of this machine may see a seed
    #[arg(long, value_name = "NAME|HEX", conflicts_with = "table")]
    key: Option<String>,
    /// Hash and sign deterministic CBOR instead of canonical JSON
    #[arg(long, conflicts_with = "table")]
    cbor: bool,
    /// Container of the sealed turns [default: array; with --cbor: cbor]
    #[arg(long, value_enum, conflicts_with = "table")]
    to: Option<ContainerArg>,
    /// New file for the scroll, whose head this home remembers [default: standard output]
    #[arg(long, value_name = "FILE", conflicts_with = "table")]
    out: Option<PathBuf>,
    /// New file for the account, as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "table")]
    account: Option<PathBuf>,
    /// Replace tool bodies by their hashes, and remove secrets from all texts. A short body can be
    /// guessed from its hash
    #[arg(
        long,
        value_enum,
        value_name = "BODIES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with = "table"
    )]
    redact: Option<RedactArg>,
    /// Rules that find secrets, in the format of Gitleaks [default: built-in rules]
    #[arg(long, value_name = "FILE", requires = "redact")]
    secret_rules: Option<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// `--redact`
#[derive(Debug, Clone, Copy, ValueEnum)]
enum RedactArg {
    /// Arguments and responses of all tools
    All,
    /// Only those that contain a secret
    Secrets,
}

fn vendors() -> Vec<&'static str> {
    let known = threadseal_convert::FORMATS.iter().map(|format| format.name);
    std::iter::once("auto").chain(known).collect()
}

/// A source, mapped.
pub(super) struct MappedSource {
    pub(super) format: &'static Format,
    pub(super) mapped: Mapped,
    /// How the format was detected; absent where it was named.
    pub(super) detection: Option<Detection>,
}

/// Maps, seals and writes; or prints the table.
pub(super) fn run(args: &FromArgs, context: &Context, out: &mut Out) -> Outcome {
    let vendor = args.format.as_ref().unwrap_or(&args.vendor);
    if args.table {
        return table::run(vendor, &args.files, context, out);
    }
    let [path] = args.files.as_slice() else {
        return Err(Failure::new("name one source, or add --table"));
    };
    if context.json && args.out.is_none() {
        return Err(Failure::new(
            "--json prints the account; name a file for the scroll with --out",
        ));
    }
    // Checked before a scroll is written, which would then have no account.
    if let Some(path) = &args.account
        && context.fs.symlink_metadata(path).is_ok()
    {
        return Err(Failure::new("exists").about(path));
    }
    let source = source::read(path, MAX_SOURCE_BYTES, context)?;
    if let Some(report) = source.evidence() {
        return Ok(source::refuse(source.reports(), report, context, out));
    }
    let MappedSource {
        format,
        mapped,
        detection,
    } = map(vendor, path, &source)?;
    let mapped = redact(args, mapped, context)?;
    let Mapped {
        mut drafts,
        account,
    } = mapped;
    let nothing = drafts.is_empty();
    let mut claim = None;
    if !nothing {
        let signer = seal::signer(args.key.as_deref(), &args.passphrase, context)?;
        let signer = signer.as_ref().map(|signer| signer as &dyn Signer);
        let about = |error: Error| Failure::from(error).about(path);
        let conversion = conversion(args, format, &source, &drafts, signer).map_err(about)?;
        drafts.claim(&conversion);
        claim = Some(conversion);
        write(args, drafts, signer, context, out).map_err(|failure| failure.about(path))?;
    }
    let mut value = account.to_value(format.name);
    if let Value::Object(members) = &mut value {
        let detected = detection.map(|detection| ("detected".into(), detected(detection)));
        members.extend(detected);
        members.extend(
            claim
                .as_ref()
                .map(|claim| ("source".into(), claim.to_value())),
        );
    }
    if let Some(path) = &args.account {
        let mut text = rye_line(&value);
        text.push(b'\n');
        atomic::create_new(&*context.fs, path, &text, PRIVATE_FILE)?;
    }
    if context.json {
        print(&value, out);
    } else if !context.quiet {
        tell(format, &account, detection, claim.as_ref());
    }
    if source.left_out() > 0 {
        complain(&format!(
            "warning: {} bytes after the final seal are not converted",
            source.left_out()
        ));
    }
    match nothing {
        true => {
            Err(Failure::new("the source contains no turns, so no scroll was written").about(path))
        }
        false => Ok(Exit::Done),
    }
}

/// The mapping of a source that was read from `path`.
///
/// # Errors
/// When it is of no known format, or the format does not accept it.
pub(super) fn map(
    vendor: &str,
    path: &Path,
    source: &JudgedSource,
) -> Result<MappedSource, Failure> {
    let bytes = source.bytes();
    let is_archive = archive::is_archive(bytes);
    let is_auto = vendor == "auto" && !is_archive;
    let detection = is_auto
        .then(|| threadseal_convert::recognise(bytes))
        .flatten();
    let known = match vendor {
        "auto" if is_archive => threadseal_convert::find(ARCHIVED),
        "auto" => detection.map(|detection| detection.format),
        name => threadseal_convert::find(name),
    };
    let format = known.ok_or_else(|| {
        Failure::new("unknown source format; hint: name the program that wrote it instead of auto")
            .about(path)
    })?;
    let mapped = match is_archive && format.name == ARCHIVED {
        true => {
            archive::members(bytes).and_then(|members| threadseal_convert::map_members(&members))
        }
        false => format.map(bytes),
    };
    let mapped = mapped.map_err(|error| Failure::from(error).about(path))?;
    Ok(MappedSource {
        format,
        mapped,
        detection,
    })
}

/// `{"confidence":C,"why":W}`
pub(super) fn detected(detection: Detection) -> Value {
    Value::Object(vec![
        ("confidence".into(), detection.confidence.as_str().into()),
        ("why".into(), detection.why.into()),
    ])
}

/// The claim about the source: it binds the scroll to the source and to all its turns, so that
/// another conversion is another record.
///
/// # Errors
/// When a turn exceeds the bounds of a scroll.
fn conversion(
    args: &FromArgs,
    format: &Format,
    source: &JudgedSource,
    drafts: &Drafts,
    signer: Option<&dyn Signer>,
) -> Result<Conversion, Error> {
    let bytes = source.bytes();
    // The digest of a source without its secrets would confirm a guess of them.
    let sha256 = args.redact.is_none().then(|| Digest::of(bytes));
    Ok(Conversion {
        program: format.name.to_owned(),
        format: source.format(),
        verdict: source.verdict(),
        head: source.head(),
        bytes: bytes.len() as u64,
        sha256,
        turns: drafts.len() as u64,
        content: drafts.content()?,
        by: signer.map(|signer| *signer.public_key()),
    })
}

fn redact(args: &FromArgs, mapped: Mapped, context: &Context) -> Result<Mapped, Failure> {
    let bodies = match args.redact {
        None => return Ok(mapped),
        Some(RedactArg::All) => Bodies::All,
        Some(RedactArg::Secrets) => Bodies::WithSecrets,
    };
    let rules = match &args.secret_rules {
        None => Rules::builtin().map_err(Failure::new)?,
        Some(path) => {
            let bytes = read_small(&*context.fs, path, MAX_RULES_BYTES)?;
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| Failure::new("is not UTF-8").about(path))?;
            Rules::gitleaks(&text).map_err(|why| Failure::new(why).about(path))?
        }
    };
    Ok(threadseal_convert::redact(mapped, bodies, &rules))
}

fn write(
    args: &FromArgs,
    drafts: Drafts,
    signer: Option<&dyn Signer>,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    let to = args.to.unwrap_or(match args.cbor {
        true => ContainerArg::Cbor,
        false => ContainerArg::Array,
    });
    // Turns on standard output cannot be taken back, and a part of them would look like a whole
    // scroll.
    drafts.check()?;
    let mut writer = Writer::new(to.into(), args.out.as_deref(), context, out)?;
    let mut written: Option<Written> = None;
    for turn in drafts.into_turns() {
        let turn = turn?;
        let turn = match args.cbor {
            true => turn
                .with_encoding(Encoding::Cbor)
                .map_err(|violation| Error::invalid(violation.to_string()))?,
            false => turn,
        };
        let sealed = seal_turn(turn, written.map(|written| written.head.line), signer)?;
        written = Some(Written::then(written, &sealed));
        writer.turn(&sealed)?;
    }
    seal::finish(writer, written, signer, args.out.as_deref(), context)
}

/// One JSON value on one line, in ASCII.
pub(super) fn print(value: &Value, out: &mut Out) {
    let line = rye_line(value);
    out.bytes(line.strip_suffix(b"}").unwrap_or(&line));
    out.json_members();
}

/// Prints the account in a few lines.
fn tell(
    format: &Format,
    account: &Account,
    detection: Option<Detection>,
    claim: Option<&Conversion>,
) {
    if let Some(detection) = detection {
        let (confidence, why) = (detection.confidence.as_str(), detection.why);
        complain(&format!("format: {} ({confidence}: {why})", format.name));
    }
    if let Some(claim) = claim {
        complain(&format!("source: {claim}"));
    }
    let tokens = account.tokens;
    complain(&format!(
        "{}: {}, {}, {}, {}, {} tokens in, {} out",
        format.name,
        counted(account.records, "record", "records"),
        counted(account.turns, "turn", "turns"),
        counted(account.tool_calls, "tool call", "tool calls"),
        counted(account.tool_results, "result", "results"),
        tokens.input,
        tokens.output
    ));
    for group in account.not_mapped() {
        complain(&format!(
            "not mapped: line {}: {}",
            group.lines, group.reason
        ));
    }
    for group in account.altered() {
        let (pointer, reason, lines) = (group.pointer, group.reason, group.lines);
        complain(&format!(
            "carried as text: line {lines} {pointer}: {reason}"
        ));
    }
    for group in account
        .dropped()
        .filter(|group| group.reason == "unknown member")
    {
        let (pointer, lines) = (group.pointer, group.lines);
        complain(&format!(
            "not carried: line {lines} {pointer}: unknown member"
        ));
    }
    for (field, why, turns) in account.defaulted() {
        let turns = counted(turns, "turn", "turns");
        complain(&format!("default value: {field} in {turns}: {why}"));
    }
    for group in account.redacted() {
        let (pointer, reason, turns) = (group.pointer, group.reason, group.lines);
        complain(&format!("left out: turn {turns} {pointer}: {reason}"));
    }
    if account.ungrouped() > 0 {
        complain(&format!(
            "and {} more that the account does not name",
            account.ungrouped()
        ));
    }
}
