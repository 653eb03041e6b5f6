//! `key show`

use super::print_keys;
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::{Keyring, OwnKey};
use crate::output::Out;
use clap::{Args, ValueEnum};
use threadseal_core::key::KeyUsage;
use threadseal_core::note::{KeyName, vkey};

/// What `key show` takes.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The key
    name: String,
    /// Print only the public half, in this format
    #[arg(long, value_enum)]
    format: Option<KeyFormat>,
}

/// The texts of a public key.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyFormat {
    /// SubjectPublicKeyInfo, RFC 8410
    Pem,
    /// 64 hex digits
    Hex,
    /// did:key
    Did,
    /// Rye's fingerprint, 16 hex digits
    Rye,
    /// Verifier key of C2SP signed notes
    Vkey,
}

pub(crate) fn run(args: &ShowArgs, context: &Context, out: &mut Out) -> Outcome {
    let key = Keyring::of(&context.existing_home()?).find(&args.name)?;
    match args.format {
        Some(format) => {
            let text = text(&key, format)?;
            if context.json {
                out.json(&serde_json::json!({"schema": "threadseal.key.show/1", "text": text}));
            } else {
                out.line(text.trim_end());
            }
        }
        None if context.json => print_keys(&[key], context, out)?,
        None => describe(&key, out),
    }
    Ok(Exit::Done)
}

fn describe(key: &OwnKey, out: &mut Out) {
    let public = &key.public;
    out.line(format_args!("name         {}", key.name));
    out.line(format_args!("usage        {}", key.usage));
    out.line(format_args!("key id       {}", public.key_id()));
    out.line(format_args!("public key   {}", public.to_hex()));
    out.line(format_args!("did:key      {}", public.to_did_key()));
    out.line(format_args!("Rye's name   {}", public.rye_fingerprint()));
    let private = if key.has_private { "here" } else { "not here" };
    out.line(format_args!("private half {private}"));
}

fn text(key: &OwnKey, format: KeyFormat) -> Result<String, Failure> {
    let public = &key.public;
    Ok(match format {
        KeyFormat::Pem => public.to_pem(),
        KeyFormat::Hex => public.to_hex(),
        KeyFormat::Did => public.to_did_key(),
        KeyFormat::Rye => public.rye_fingerprint().to_hex(),
        // A vkey contains the name of its log or witness, which differs from the name of the file.
        // A vkey with the file's name would be a false one.
        KeyFormat::Vkey if key.usage == KeyUsage::Log => {
            return Err(Failure::new(
                "the vkey of a log contains the name of the log; hint: threadseal log status",
            ));
        }
        KeyFormat::Vkey if key.usage == KeyUsage::Witness => {
            return Err(Failure::new(
                "the vkey of a witness contains the name of the witness; hint: threadseal witness serve prints it",
            ));
        }
        KeyFormat::Vkey => {
            let name = KeyName::parse(&key.name)
                .map_err(|error| Failure::new(format!("{:?}: {error}", key.name)))?;
            vkey(&name, public)
        }
    })
}
