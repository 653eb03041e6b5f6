//! The key and the project for commands that write into an existing record.

use crate::context::Context;
use crate::exit::Failure;
use crate::keyring::{Keyring, self_name};
use crate::passphrase::PassphraseArgs;
use crate::project::ProjectArgs;
use crate::record;
use crate::trust_file;
use crate::verifying::verifier_by;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_formats::transcript::manifest::{Manifest, parse_line};
use threadseal_store::examine;
use threadseal_store::host::Host;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::recorder::{Keys, Opened, Recorder, TailPolicy};
use threadseal_store::sys::{Fs, led_to};
use threadseal_store::transcripts::{RecordName, TranscriptStore};

/// With which key, and in which project.
#[derive(Debug, Args)]
pub(crate) struct SigningArgs {
    /// Name of the signing key [default: self]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    #[command(flatten)]
    place: ProjectArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
}

impl SigningArgs {
    /// The transcript, with links followed, that a path, the folder of a thread or its id names.
    ///
    /// # Errors
    /// As [`record::transcript_at`].
    pub(crate) fn transcript_at(
        &self,
        named: &Path,
        context: &Context,
    ) -> Result<PathBuf, Failure> {
        let path = record::transcript_at(named, &self.place, context)?;
        Ok(led_to(&*context.fs, &path))
    }

    /// The name of the key in this home.
    pub(crate) fn key_name(&self) -> &str {
        let own = self_name(KeyUsage::Native);
        self.key.as_deref().unwrap_or(own)
    }

    /// The key.
    ///
    /// # Errors
    /// As [`Keyring::signer`].
    pub(crate) fn signer(&self, context: &Context) -> Result<Arc<LocalSigner>, Failure> {
        let keyring = Keyring::of(&context.existing_home()?);
        let key = self.key.as_deref();
        let signer = keyring.signer(key, KeyUsage::Native, &self.passphrase, context)?;
        Ok(Arc::new(signer))
    }

    /// How a passphrase is given.
    #[cfg(feature = "capture")]
    pub(crate) fn passphrase(&self) -> &PassphraseArgs {
        &self.passphrase
    }

    /// The key that seals logs of other programs, and its name.
    ///
    /// # Errors
    /// As [`Keyring::signer`].
    pub(crate) fn observer(&self, context: &Context) -> Result<(LocalSigner, &str), Failure> {
        let keyring = Keyring::of(&context.existing_home()?);
        let key = self.key.as_deref();
        let signer = keyring.signer(key, KeyUsage::Observed, &self.passphrase, context)?;
        Ok((signer, key.unwrap_or(self_name(KeyUsage::Observed))))
    }

    /// Verifies the record at `path` under its lock. Refuses a record with a tail, and leaves the
    /// tail as it is.
    ///
    /// # Errors
    /// As [`Recorder::open`]; when a key that it needs is missing here.
    pub(crate) fn open(
        &self,
        path: &Path,
        signer: &Arc<LocalSigner>,
        host: Host,
        context: &Context,
    ) -> Result<Opened, Failure> {
        self.open_with(path, signer, host, TailPolicy::Refuse, context)
    }

    /// The same, with the policy `tail` for a tail.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_with(
        &self,
        path: &Path,
        signer: &Arc<LocalSigner>,
        host: Host,
        tail: TailPolicy,
        context: &Context,
    ) -> Result<Opened, Failure> {
        let keys = self.keys(&manifest_of(&*host.fs, path)?, signer, context)?;
        let trust = trust_file::trust_of_home(&context.existing_home()?, context)?;
        let verifier = verifier_by(trust, context)?;
        Ok(Recorder::open(host, path, keys, &verifier, tail)?)
    }

    /// The same for a record in a store. A store without locks needs a claim, which fences off the
    /// former writer.
    ///
    /// # Errors
    /// As [`Recorder::open_in`]; when a key that it needs is missing here.
    pub(crate) fn open_in(
        &self,
        store: &dyn TranscriptStore,
        name: &RecordName,
        signer: &Arc<LocalSigner>,
        host: Host,
        context: &Context,
    ) -> Result<Opened, Failure> {
        let file = store.read(name)?;
        let file = file.ok_or_else(|| Failure::new(format!("there is no record {name}")))?;
        let keys = self.keys(&manifest_in(&file)?, signer, context)?;
        let trust = trust_file::trust_of_home(&context.existing_home()?, context)?;
        let verifier = verifier_by(trust, context)?;
        let tail = TailPolicy::Refuse;
        Ok(Recorder::open_in(host, store, name, keys, &verifier, tail)?)
    }

    fn keys(
        &self,
        manifest: &Manifest,
        signer: &Arc<LocalSigner>,
        context: &Context,
    ) -> Result<Keys, Failure> {
        let home = context.existing_home()?;
        let rye = Keyring::of(&home).rye_half(Some(&manifest.rye_key), &self.passphrase)?;
        Ok(Keys {
            native: Arc::clone(signer) as _,
            rye: Arc::new(rye),
            epochs: Some(home.epochs()),
        })
    }
}

/// Line 1 of the record at `path`.
///
/// # Errors
/// When it cannot be read, or is no native record.
pub(crate) fn manifest_of(fs: &dyn Fs, path: &Path) -> Result<Manifest, Failure> {
    manifest_in(&open_regular(fs, path)?)
}

fn manifest_in(file: &RegularFile) -> Result<Manifest, Failure> {
    let first = examine::first_line(file)?;
    let manifest = first.as_deref().and_then(parse_line);
    manifest.ok_or_else(|| Failure::new("not a native record, which this command needs"))
}
