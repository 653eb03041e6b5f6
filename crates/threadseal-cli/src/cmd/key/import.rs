//! `key import`: imports private keys of other programs.
//!
//! | kind | file |
//! |---|---|
//! | pem | PKCS#8 v1 or v2, also encrypted |
//! | rye | a folder with `private_key.pem` and perhaps `public_key.pem` |
//! | igor | `<agent>.identity`, 68 bytes |
//!
//! It never overwrites a file, and leaves the source as it is.

use super::{UsageArg, name_of, print_keys, tell_untrusted};
use crate::context::Context;
use crate::exit::{Exit, Failure, Outcome};
use crate::keyring::{Keyring, open_pem};
use crate::output::Out;
use crate::passphrase::PassphraseArgs;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use threadseal_core::key::{KeyUsage, PrivateKey, PublicKey};
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_store::read::read_small;
use zeroize::Zeroizing;

/// Length of an igor identity file.
const IGOR_BYTES: usize = 68;

/// What `key import` takes.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// PEM file, Rye key folder or igor identity file
    path: PathBuf,
    /// Name in this home: a-z, 0-9, '-' and '_' [default: key- and eight digits of its id]
    #[arg(long)]
    name: Option<String>,
    /// Use of the key [default: rye for a Rye folder, else native]
    #[arg(long, value_enum)]
    usage: Option<UsageArg>,
    /// Kind of the file
    #[arg(long, value_enum, default_value = "auto")]
    kind: KindArg,
    /// Import a key that others can guess: its seed is one byte repeated, or a printable text
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

/// `--kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// Detected from the content
    Auto,
    /// PKCS#8 in PEM
    Pem,
    /// Rye key folder
    Rye,
    /// igor identity file
    Igor,
}

/// A private key and how its file protected it.
struct Imported {
    key: PrivateKey,
    passphrase: Option<Zeroizing<String>>,
    usage: KeyUsage,
}

pub(crate) fn run(args: &ImportArgs, context: &Context, out: &mut Out) -> Outcome {
    let imported = read(args, context)?;
    let keyring = Keyring::of(&context.made_home()?);
    let public = *imported.key.public_key();
    let usage = args.usage.map_or(imported.usage, KeyUsage::from);
    if let Some(same) = keyring.list()?.iter().find(|key| key.public == public) {
        return Err(Failure::new(format!(
            "this home already has this key, as {:?} ({})",
            same.name, same.usage
        )));
    }
    if let (Some(why), false) = (imported.key.seed_weakness(), args.anyway) {
        return Err(Failure::new(format!(
            "others can guess this key: {why}; hint: threadseal key new, or --anyway if it only signs tests"
        ))
        .about(&args.path));
    }
    let name = args.name.clone().unwrap_or_else(|| name_of(&public));
    let passphrase = imported.passphrase.as_ref();
    let made = keyring.create(&name, usage, &imported.key, passphrase, context)?;
    print_keys(std::slice::from_ref(&made), context, out)?;
    tell_untrusted(&made, context)?;
    Ok(Exit::Done)
}

fn read(args: &ImportArgs, context: &Context) -> Result<Imported, Failure> {
    let path = args.path.as_path();
    let folder = std::fs::metadata(path)
        .map_err(|error| Failure::io("read", path, &error))?
        .is_dir();
    let rye = args.kind == KindArg::Rye || (args.kind == KindArg::Auto && folder);
    if rye {
        return read_rye(args, context);
    }
    let bytes = Zeroizing::new(read_small(&*context.fs, path, MAX_KEY_FILE_BYTES)?);
    let is_pem = bytes.starts_with(b"-----BEGIN ");
    let igor = match args.kind {
        KindArg::Igor => true,
        KindArg::Auto => bytes.len() == IGOR_BYTES && !is_pem,
        KindArg::Pem | KindArg::Rye => false,
    };
    if igor {
        return Ok(Imported {
            key: PrivateKey::from_igor_identity(&bytes)
                .map_err(|error| Failure::from(error).about(path))?,
            passphrase: args.passphrase.for_new_key()?,
            usage: KeyUsage::Native,
        });
    }
    from_pem(&bytes, path, args, KeyUsage::Native)
}

fn read_rye(args: &ImportArgs, context: &Context) -> Result<Imported, Failure> {
    let private = args.path.join("private_key.pem");
    let bytes = Zeroizing::new(read_small(&*context.fs, &private, MAX_KEY_FILE_BYTES)?);
    let imported = from_pem(&bytes, &private, args, KeyUsage::Rye)?;
    let public = args.path.join("public_key.pem");
    // Rye silently makes a new identity if this file is missing; here it is only a cross-check.
    if public.exists() {
        let beside = PublicKey::parse_any(read_small(&*context.fs, &public, MAX_KEY_FILE_BYTES)?)
            .map_err(|error| Failure::from(error).about(&public))?;
        if beside != *imported.key.public_key() {
            return Err(Failure::new("it is not the public half of private_key.pem").about(&public));
        }
    }
    Ok(imported)
}

fn from_pem(
    bytes: &[u8],
    path: &Path,
    args: &ImportArgs,
    usage: KeyUsage,
) -> Result<Imported, Failure> {
    let pem = std::str::from_utf8(bytes)
        .map_err(|_| Failure::new("not a PEM file: not UTF-8 text").about(path))?;
    let shown = path.to_string_lossy();
    let (key, passphrase) = if PrivateKey::is_encrypted_pem(pem) {
        let passphrase = args.passphrase.for_existing_key(&shown)?;
        let key = PrivateKey::from_encrypted_pem(pem, passphrase.as_bytes())
            .map_err(|error| Failure::from(error).about(path))?;
        (key, Some(passphrase))
    } else {
        let key = open_pem(pem, &shown, &args.passphrase).map_err(|error| error.about(path))?;
        (key, args.passphrase.for_new_key()?)
    };
    Ok(Imported {
        key,
        passphrase,
        usage,
    })
}
