//! The recovery key of a home: it replaces a native key that is lost or stolen, in the identity of
//! the home alone. No record counts by it.
//!
//! ```text
//! HOME.recovery.key       0600   private half, beside the home: the user moves it elsewhere
//! HOME/recovery.pub       0600   public half
//! ```
//! Once an identity was exported, its own recovery key counts, and these files do not.

use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::keyring::{self, open_pem};
use crate::passphrase::PassphraseArgs;
use crate::render::clean::Clean;
use std::path::{Path, PathBuf};
use threadseal_core::key::{PrivateKey, PublicKey};
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::home::Home;
use threadseal_store::owned_files::{read_private_key_file, read_trusted_file};
use threadseal_store::random;
use threadseal_verify::identities::Identities;
use zeroize::Zeroizing;

const PUBLIC: &str = "recovery.pub";
const ENDING: &str = ".recovery.key";

/// The recovery key of the home, if it has one.
///
/// # Errors
/// When it cannot be read, or others could have written it.
pub(crate) fn public(home: &Home, context: &Context) -> Result<Option<PublicKey>, Failure> {
    let path = home.path().join(PUBLIC);
    let bytes = read_trusted_file(&*context.fs, &path, MAX_KEY_FILE_BYTES)?;
    let key = bytes.map(PublicKey::parse_any).transpose();
    key.map_err(|error| Failure::from(error).about(&path))
}

/// Makes a recovery key, unless the home has one or its identity was exported; returns the file of a
/// new one.
///
/// # Errors
/// When a file cannot be written, or the private half of an interrupted run cannot be read.
pub(crate) fn ensure(
    home: &Home,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<Option<PathBuf>, Failure> {
    let has_identity = Identities::of(home, &context.fs).own()?.is_some();
    if has_identity || public(home, context)?.is_some() {
        return Ok(None);
    }
    let path = private_path(home)?;
    let key = match context.fs.symlink_metadata(&path) {
        // An earlier run was interrupted before it wrote the public half.
        Ok(_) => read(&path, passphrase, context)?,
        Err(_) => {
            let key = keyring::generate(context)?;
            let pem = match passphrase.for_new_key()? {
                None => key.to_pem(),
                Some(passphrase) => {
                    let salt = random::array(&context.random)?;
                    let iv = random::array(&context.random)?;
                    key.to_encrypted_pem(passphrase.as_bytes(), salt, iv)?
                }
            };
            atomic::create_new(&*context.fs, &path, pem.as_bytes(), PRIVATE_FILE)?;
            key
        }
    };
    let public = key.public_key().to_pem();
    let to = home.path().join(PUBLIC);
    atomic::create_new(&*context.fs, &to, public.as_bytes(), PRIVATE_FILE)?;
    Ok(Some(path))
}

/// As [`ensure`], for commands that are also of use without a recovery key: a failure is a warning.
pub(crate) fn ensure_or_warn(
    home: &Home,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Option<PathBuf> {
    match ensure(home, passphrase, context) {
        Ok(made) => made,
        Err(error) => {
            complain(&format!("warning: there is no recovery key: {error}"));
            None
        }
    }
}

/// Prints what the new file is for.
pub(crate) fn tell(path: &Path, context: &Context) {
    if !context.quiet {
        let path = path.to_string_lossy();
        complain(&format!(
            "note: {} is the recovery key of your identity: it replaces a lost key; move it to another place, such as a USB stick",
            Clean(&path)
        ));
    }
}

/// Reads a private recovery key.
///
/// # Errors
/// When it cannot be read, others may read it, or the passphrase is wrong.
pub(crate) fn read(
    path: &Path,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<PrivateKey, Failure> {
    let bytes = Zeroizing::new(read_private_key_file(&*context.fs, path)?);
    let shown = path.to_string_lossy();
    let pem =
        std::str::from_utf8(&bytes).map_err(|_| Failure::new("not UTF-8 text").about(path))?;
    open_pem(pem, &shown, passphrase).map_err(|error| error.about(path))
}

fn private_path(home: &Home) -> Result<PathBuf, Failure> {
    let name = home.path().file_name();
    let mut name = name
        .ok_or_else(|| Failure::new("the home must not be a root folder"))?
        .to_owned();
    name.push(ENDING);
    Ok(home.path().with_file_name(name))
}
