//! `key delegate RECORD --to KEY`: lets another key seal an open record.
//!
//! ```text
//! lock ─► verify ─► `delegation` event, seal, head ─► entry `key/delegate` in the log of this home
//! ```
//! If it is killed in between, the next run of the same command writes the missing parts, and no
//! part twice. It writes the log's entry even if the record has ended meanwhile.

use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome, complain};
use crate::key_log;
use crate::keyring::Keyring;
use crate::output::Out;
use crate::record;
use crate::render::clean::Clean;
use crate::signing::{self, SigningArgs};
use crate::trust_file;
use crate::verifying;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, LocalSigner, PublicKey, Signer as _};
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::sys::path_text;

/// What `key delegate` takes.
#[derive(Debug, Args)]
pub(crate) struct DelegateArgs {
    /// An open native transcript, the folder of its thread, or a thread of the project
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// The other key: a name of the trust store or of a key of this home, 64 hex digits, did:key,
    /// or a PEM file
    #[arg(long, value_name = "KEY|NAME")]
    to: String,
    #[command(flatten)]
    signing: SigningArgs,
}

#[derive(Serialize)]
struct DelegateOutput {
    schema: &'static str,
    path: String,
    record: String,
    /// The authority, and the key that it delegates to.
    by: String,
    to: String,
    /// Is the delegation new in the record?
    new: bool,
    /// The head to keep elsewhere.
    head: Option<String>,
    /// The entry in the log of this home, if it has one.
    entry: Option<u64>,
}

pub(crate) fn run(args: &DelegateArgs, context: &Context, out: &mut Out) -> Outcome {
    if record::address_of(&args.record).is_some() {
        let text = "only a transcript in a file can be delegated; a record in a store is sealed by the key of its home";
        return Err(Failure::new(text).about(&args.record));
    }
    let path = args.signing.transcript_at(&args.record, context)?;
    let about = |failure: Failure| failure.about(&path);
    let keyring = Keyring::of(&context.existing_home()?);
    let to = key_of(&args.to, &keyring, context)?;
    let manifest = signing::manifest_of(&*context.fs, &path).map_err(about)?;
    let signer = args.signing.signer(context)?;
    let told = delegate(args, &path, &manifest, &to, &signer, context).map_err(about)?;
    tell(&told, context, out);
    Ok(Exit::Done)
}

/// The record comes first: otherwise the log could contain a delegation that was never sealed.
fn delegate(
    args: &DelegateArgs,
    path: &Path,
    manifest: &Manifest,
    to: &PublicKey,
    signer: &Arc<LocalSigner>,
    context: &Context,
) -> Result<DelegateOutput, Failure> {
    let by = *signer.public_key();
    if manifest.authority != by {
        return Err(Failure::new(format!(
            "{} is the authority of this record, {} is not; hint: name the authority with --key",
            manifest.authority.key_id(),
            by.key_id()
        )));
    }
    if by == *to {
        return Err(Failure::new(
            "the authority of a record needs no delegation to seal it",
        ));
    }
    key_log::refuse_silent(context)?;
    // A delegation must not cover an unsealed tail; that is for `seal` to settle.
    let opened = args.signing.open(path, signer, context.host()?, context)?;
    // An ended record takes no new delegation. It may contain this one already, without its entry
    // in the log.
    let mut said = opened.delegations.iter();
    let is_said = said.any(|said| (said.by, said.to) == (by, *to));
    let mut recorder = opened.recorder;
    let new = match is_said {
        true => None,
        false => recorder.delegate(to)?,
    };
    let head = new.or(recorder.state().head().copied());
    drop(recorder);
    let change = KeyChange::Delegate {
        record: manifest.record,
        to: *to,
    };
    let entry = key_log::say(change, &**signer, context).map_err(|failure| {
        Failure::new(format!(
            "the record delegates to {}, but the delegation is not in the log yet ({failure}); hint: run this command again",
            to.key_id()
        ))
    })?;
    Ok(DelegateOutput {
        schema: "threadseal.key.delegate/1",
        path: path_text(path),
        record: manifest.record.to_string(),
        by: by.key_id().to_hex(),
        to: to.key_id().to_hex(),
        new: new.is_some(),
        head: head.map(|head| head.to_string()),
        entry,
    })
}

/// A trusted key, a key of this home, or a key given as text. A key that is known to have another
/// usage is refused.
fn key_of(text: &str, keyring: &Keyring, context: &Context) -> Result<PublicKey, Failure> {
    let key = match (verifying::public_key(text, context), keyring.get(text)?) {
        (Ok(key), Some(own)) if own.public != key => {
            return Err(Failure::new(format!(
                "{text:?} names two keys, a trusted key and a key of this home; hint: give the key itself"
            )));
        }
        (Ok(key), _) => key,
        (Err(_), Some(own)) => own.public,
        (Err(failure), None) => return Err(failure),
    };
    let own = keyring.list()?;
    let own = own.iter().filter(|own| own.public == key);
    let trusted = trust_file::of_home(&context.existing_home()?)?;
    let trusted = trusted.by_key(&key).flat_map(|entry| &entry.usage).copied();
    let usages: Vec<KeyUsage> = own.map(|own| own.usage).chain(trusted).collect();
    match usages.as_slice() {
        [] => Ok(key),
        some if some.contains(&KeyUsage::Native) => Ok(key),
        [usage, ..] => Err(Failure::new(format!(
            "the key {text:?} is for {usage} records; only native keys seal transcripts"
        ))),
    }
}

fn tell(told: &DelegateOutput, context: &Context, out: &mut Out) {
    if context.json {
        out.json(told);
        return;
    }
    let path = Clean(&told.path);
    let word = if told.new {
        "delegated to"
    } else {
        "already delegated to"
    };
    let entry = told
        .entry
        .map_or(String::new(), |entry| format!("  entry {entry}"));
    out.line(format_args!("{path}  {word} {}{entry}", told.to));
    if let Some(head) = told.head.as_ref().filter(|_| told.new) {
        out.line(format_args!("  head {head}"));
    }
    if told.new && !context.quiet {
        complain(
            "note: the key may seal only this record, until the record or the key ends; to seal it elsewhere it also needs the \
             private half of the Rye key that line 1 names",
        );
    }
}
