//! Seals the file of a session as its agent writes it: lines that are appended, or a document that is
//! written anew.
//!
//! ```text
//! Appends    FILE.seal gets a seal over the new lines
//! Rewrites   FILE.seal becomes the seal of the next version
//! ```

use crate::cmd::seal::{SealArgs, Versions};
use crate::context::Context;
use crate::exit::Failure;
use crate::keyring::Keyring;
use crate::passphrase::PassphraseArgs;
use std::path::Path;
use std::time::Duration;
use threadseal_capture::AgentFolder;
use threadseal_capture::session::{Growth, MAX_IDENTIFY_BYTES, SessionFile, identify};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::record::Head;
use threadseal_store::host::Host;
use threadseal_store::observer;
use threadseal_store::read::{RegularFile, Source as _};

/// Seals files of sessions for one home.
pub(crate) struct SessionSealer {
    host: Host,
    signer: LocalSigner,
    args: SealArgs,
    wait: Duration,
}

/// The result for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionSealed {
    /// A new seal: its head, and the lines of a log under it.
    Added(Head, Option<u64>),
    /// All of it was sealed already.
    Unchanged,
    /// There is no whole line yet.
    Nothing,
}

impl SessionSealer {
    /// A sealer with the key `key`, or else the home's own for logs. It waits up to `wait` for
    /// another process that seals the same file.
    ///
    /// # Errors
    /// When there is no home, or no such key.
    pub(crate) fn open(
        key: Option<&str>,
        passphrase: &PassphraseArgs,
        wait: Duration,
        context: &Context,
    ) -> Result<Self, Failure> {
        let keyring = Keyring::of(&context.existing_home()?);
        Ok(Self {
            host: context.host()?,
            signer: keyring.signer(key, KeyUsage::Observed, passphrase, context)?,
            args: SealArgs::of_sessions(passphrase.clone()),
            wait,
        })
    }

    /// The host that is sealed for.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Opens the home anew: it may have another log since.
    ///
    /// # Errors
    /// As [`SessionSealer::open`].
    pub(crate) fn renew(&mut self, context: &Context) -> Result<(), Failure> {
        self.host = context.host()?;
        Ok(())
    }

    /// The key that seals logs.
    pub(crate) fn signer(&self) -> &LocalSigner {
        &self.signer
    }

    /// Seals the present content of the file at `path`.
    ///
    /// # Errors
    /// When it differs from its seals, another key made them, or the system fails.
    pub(crate) fn seal(
        &self,
        path: &Path,
        growth: Growth,
        context: &Context,
    ) -> Result<SessionSealed, Failure> {
        if growth == Growth::Rewrites {
            let sealed = Versions::of(&self.args, &self.host, context)?.seal(path)?;
            return Ok(match sealed {
                Some(head) => SessionSealed::Added(head, None),
                None => SessionSealed::Unchanged,
            });
        }
        let sealed = observer::seal(&self.host, path, false, self.wait, &self.signer, &|_| {})?;
        Ok(match sealed {
            observer::Sealed::Added(seal) => SessionSealed::Added(seal.head, Some(seal.lines)),
            observer::Sealed::Unchanged => SessionSealed::Unchanged,
            observer::Sealed::Nothing => SessionSealed::Nothing,
        })
    }
}

/// The session that a file is of, by its content.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn session_of(
    file: &RegularFile,
    folders: &[AgentFolder],
) -> Result<Option<SessionFile>, Error> {
    let mut head = Vec::new();
    file.range(0, MAX_IDENTIFY_BYTES as u64)
        .next_chunk(&mut head)?;
    Ok(identify(file.path(), &head, folders))
}
