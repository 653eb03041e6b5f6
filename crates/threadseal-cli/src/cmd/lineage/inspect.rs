//! `lineage inspect FILE`: prints every field of one checkpoint, and whether its seal is valid.
//!
//! ```text
//! exit   0 verified · 1 the seal is invalid, or no expected one · 3 the key is not trusted
//! ```

use super::input::{InStore, Input, TrustArgs};
use crate::context::Context;
use crate::exit::{self, Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use threadseal_core::encoding;
use threadseal_core::key::PublicKey;
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_formats::lineage::{LinkBody, LinkFacts, NativeHeader, ReadLink, Seal, View};
use threadseal_store::read::{Source as _, open_regular};

/// The number of bytes of the state that are shown.
const SHOWN_BYTES: usize = 256;
/// One unit of igor's budgets, in microcents.
const MICROCENTS: i64 = 1_000_000;

/// What `lineage inspect` takes.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct InspectArgs {
    /// The checkpoint: a file, or STORE#AGENT[/HASH] for the newest or any link in a store
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// Omit the dump of the state
    #[arg(long)]
    no_state: bool,
}

#[derive(Serialize)]
struct InspectOutput<'a> {
    schema: &'static str,
    path: &'a str,
    checkpoint: Option<Value>,
    report: &'a Report,
}

/// Shows the checkpoint; exits with its verdict.
pub(super) fn run(args: &InspectArgs, context: &Context, out: &mut Out) -> Outcome {
    if args.file.is_dir() {
        let text = "this is a folder; hint: name one file, or use threadseal lineage verify";
        return Err(Failure::new(text).about(&args.file));
    }
    let store = InStore::of(&args.file)?.map(InStore::one).transpose()?;
    let paths = [store
        .as_ref()
        .map_or_else(|| args.file.clone(), InStore::path)];
    let input = Input::of(&paths, &args.trust, false, context)?;
    let found = input.links()?;
    let facts = found.first().map(|found| found.facts.clone());
    let outcomes = input.verifier.lineages(found, View::Single)?;
    let (Some(facts), Some(outcome)) = (facts, outcomes.first()) else {
        return Err(Failure::new("no checkpoint was found").about(&args.file));
    };
    let exit = Exit::from_code(outcome.report.verdict.exit_code());
    out.because(&outcome.report);
    let fields = facts.link().map(fields);
    if context.json {
        out.json(&InspectOutput {
            schema: "threadseal.lineage.inspect/1",
            path: &facts.name,
            checkpoint: fields.map(|fields| {
                let pairs = fields
                    .into_iter()
                    .map(|field| (field.name.to_owned(), field.value));
                Value::Object(pairs.collect::<Map<_, _>>())
            }),
            report: &outcome.report,
        });
        return Ok(exit);
    }
    for field in fields.unwrap_or_default() {
        let label = context.palette.faint(&format!("{:<17}", field.label));
        out.line(format_args!("{label}{}", Clean(&field.text)));
    }
    if let (Some(link), false) = (facts.link(), args.no_state) {
        let bytes = match &store {
            Some(store) => store.state(SHOWN_BYTES)?,
            None => state(&args.file, &facts, link, context)?,
        };
        dump(&bytes, link, out);
    }
    out.line(crate::render::text::report(
        &outcome.report,
        context.palette,
    ));
    Ok(exit)
}

/// One line of text, one member in JSON.
struct Field {
    label: &'static str,
    name: &'static str,
    text: String,
    value: Value,
}

fn field(label: &'static str, name: &'static str, text: String, value: Value) -> Field {
    Field {
        label,
        name,
        text,
        value,
    }
}

fn plain(label: &'static str, name: &'static str, value: &impl ToString) -> Field {
    let text = value.to_string();
    field(label, name, text.clone(), Value::String(text))
}

/// Every field of the header, in its order; integers beyond 2^53 are texts in JSON as well.
fn fields(link: &ReadLink) -> Vec<Field> {
    let header = &link.header;
    let mut fields = vec![
        plain("version", "version", &header.version),
        plain("content hash", "content_hash", &link.hash),
        plain("cid", "cid", &link.hash.to_cid()),
        field(
            "seal",
            "seal",
            seal(link.seal).to_owned(),
            json!(seal(link.seal)),
        ),
        amount("budget", "budget", header.budget),
        amount("price / second", "price", header.price),
        field("tick", "tick", header.tick.to_string(), json!(header.tick)),
        plain("code hash", "code", &header.code),
    ];
    if link.version().byte() >= 3 {
        let epoch = header.epoch;
        let value = json!({"major": epoch.major, "generation": epoch.generation});
        fields.push(field("epoch", "epoch", epoch.to_string(), value));
        fields.push(moment("lease expiry", "lease_expiry", header.lease_expiry));
    }
    if link.version().is_signed() {
        let prev = header.prev.map(|prev| prev.to_hex());
        fields.push(optional("prev", "prev", prev));
    }
    if let Some(native) = &header.native {
        fields.extend(native_fields(link, native));
    }
    if let Some(signer) = &header.signer {
        fields.push(plain("signer", "signer", &encoding::hex(signer)));
        let did = PublicKey::from_bytes(signer)
            .ok()
            .map(|key| key.to_did_key());
        fields.push(optional("signer did", "signer_did", did));
    }
    if let Some(signature) = &header.signature {
        fields.push(plain(
            "signature",
            "signature",
            &encoding::hex(signature.as_bytes()),
        ));
    }
    let header_bytes = header.version.header_length();
    let bytes = link.state_bytes;
    fields.push(field(
        "header bytes",
        "header_bytes",
        header_bytes.to_string(),
        json!(header_bytes),
    ));
    fields.push(field(
        "state bytes",
        "state_bytes",
        bytes.to_string(),
        json!(bytes),
    ));
    fields
}

fn native_fields(link: &ReadLink, native: &NativeHeader) -> Vec<Field> {
    let mut fields = vec![
        plain("kind", "kind", &native.kind),
        field("seq", "seq", native.seq.to_string(), json!(native.seq)),
        moment("time", "time", native.time),
        plain("agent", "agent_name", &native.name),
        plain("agent id", "agent_id", &native.agent_id()),
        plain("root key", "root", &native.root.to_hex()),
        plain("root did", "root_did", &native.root.to_did_key()),
        plain("state type", "state_type", &native.state.media),
        plain("state digest", "state_digest", &native.state.digest),
        field(
            "sealed length",
            "sealed_length",
            native.state.length.to_string(),
            json!(native.state.length),
        ),
        optional(
            "transcript head",
            "transcript",
            native.transcript.map(|digest| digest.to_hex()),
        ),
        optional(
            "tool manifest",
            "manifest",
            native.manifest.map(|digest| digest.to_hex()),
        ),
        optional(
            "receipts",
            "receipts",
            native.receipts.map(|digest| digest.to_hex()),
        ),
        optional(
            "parent agent",
            "parent_agent",
            native.parent.map(|hash| hash.to_hex()),
        ),
    ];
    match &native.certificate {
        None => fields.push(field(
            "delegation",
            "delegation",
            "none: the root signs itself".to_owned(),
            Value::Null,
        )),
        Some(held) => {
            let value = json!({
                "key_epoch": held.key_epoch,
                "not_before": held.not_before,
                "not_after": held.not_after,
                "signature": encoding::hex(held.signature.as_bytes()),
            });
            let window = [held.not_before, held.not_after]
                .map(|ns| at(ns).unwrap_or_else(|| ns.to_string()));
            let text = format!(
                "number {}, from {} to {}",
                held.key_epoch, window[0], window[1]
            );
            fields.push(field("delegation", "delegation", text, value));
        }
    }
    if let Some(body) = &link.body {
        fields.push(authority(body));
    }
    fields
}

fn authority(body: &LinkBody) -> Field {
    let (text, value) = match body {
        LinkBody::Release(release) => (
            format!(
                "offered to key {} at epoch {}",
                release.target.to_hex(),
                release.epoch
            ),
            json!({
                "epoch": release.epoch,
                "checkpoint": release.checkpoint.to_hex(),
                "target": release.target.to_hex(),
                "nonce": encoding::hex(&release.nonce),
            }),
        ),
        LinkBody::Accept { release } => (
            format!("accepted, as offered by {release}"),
            json!({"release": release.to_hex()}),
        ),
        LinkBody::Refuse { release, reason } => (
            format!("refused, as offered by {release}: {reason}"),
            json!({"release": release.to_hex(), "reason": reason.as_str()}),
        ),
        LinkBody::Recover(recover) => (
            format!(
                "assigned by the root to key {} at epoch {}",
                recover.key.to_hex(),
                recover.epoch
            ),
            json!({
                "epoch": recover.epoch,
                "void": recover.void.map(|hash| hash.to_hex()),
                "key": recover.key.to_hex(),
                "nonce": encoding::hex(&recover.nonce),
            }),
        ),
    };
    field("authority", "authority", text, value)
}

fn seal(seal: Seal) -> &'static str {
    match seal {
        Seal::Unsigned => "none in this version",
        Seal::Good => "holds",
        Seal::Bad(_) => "does not hold",
    }
}

fn amount(label: &'static str, name: &'static str, microcents: i64) -> Field {
    let (units, rest) = (microcents / MICROCENTS, microcents % MICROCENTS);
    let text = format!("{units}.{rest:06} ({microcents} microcents)");
    field(label, name, text, json!(microcents))
}

fn optional(label: &'static str, name: &'static str, text: Option<String>) -> Field {
    let value = text.clone().map_or(Value::Null, Value::String);
    field(
        label,
        name,
        text.unwrap_or_else(|| "none".to_owned()),
        value,
    )
}

fn moment(label: &'static str, name: &'static str, ns: i64) -> Field {
    let text = match (ns, at(ns)) {
        (0, _) => "none".to_owned(),
        (_, Some(at)) => format!("{at} ({ns} ns)"),
        (_, None) => format!("{ns} ns"),
    };
    field(label, name, text, json!(ns))
}

fn at(ns: i64) -> Option<String> {
    let micros = u64::try_from(ns).ok()? / 1000;
    Some(Timestamp::from_micros(micros).ok()?.to_iso_seconds())
}

/// The first bytes of the state of a file.
fn state(
    path: &Path,
    facts: &LinkFacts,
    link: &ReadLink,
    context: &Context,
) -> Result<Vec<u8>, Failure> {
    let from = link.header.version.header_length() as u64;
    let file = open_regular(&*context.fs, path)?;
    let mut bytes = Vec::new();
    let end = facts.bytes.min(from + SHOWN_BYTES as u64);
    file.range(from, end).next_chunk(&mut bytes)?;
    Ok(bytes)
}

/// The first bytes of the state, in hex and as text.
fn dump(bytes: &[u8], link: &ReadLink, out: &mut Out) {
    for (row, piece) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = piece.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        };
        let text: String = piece.iter().map(shown).collect();
        out.line(format_args!(
            "  {:08x}  {:<47}  {text}",
            row * 16,
            hex.join(" ")
        ));
    }
    let more = link.state_bytes.saturating_sub(bytes.len() as u64);
    if more > 0 {
        out.line(format_args!("  … {more} more bytes"));
    }
}
