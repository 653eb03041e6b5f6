//! Seals the file of a session as its agent writes it: lines that are appended, or a document that is
//! written anew.
//!
//! ```text
//! Appends    FILE.seal gets a seal over the new lines     ─┐
//! Rewrites   FILE.seal becomes the seal of the next version ─┴─► the new bytes are archived
//! ```

use crate::cmd::archive::size_words;
use crate::cmd::seal::note_moved;
use crate::cmd::seal::{SealArgs, Versions};
use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::keyring::{Keyring, self_name};
use crate::passphrase::PassphraseArgs;
use crate::secrets::Rules;
use crate::sessions::{self, Unlock};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use threadseal_capture::AgentFolder;
use threadseal_capture::archive::{
    Archive, ArchiveFs, Finder, Kept, QuotaResult, SealedLog, Search,
};
use threadseal_capture::session::{Growth, MAX_IDENTIFY_BYTES, SessionFile, SessionId, identify};
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, LocalSigner};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::Head;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{
    DocumentKind, MAX_BESIDE_BYTES, Options, is_beside, verify_beside,
};
use threadseal_formats::transcript::observed;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::home::Home;
use threadseal_store::host::Host;
use threadseal_store::observer::{self, MAX_SEAL_FILE_BYTES, seal_path};
use threadseal_store::read::{RegularFile, Source as _, open_regular, read_small};

/// Seals files of sessions for one home.
pub(crate) struct SessionSealer {
    host: Host,
    signer: LocalSigner,
    /// Or why it cannot be opened: a log is sealed all the same.
    archive: Result<Archive, String>,
    /// The name of its key.
    key: String,
    secrets: SecretFinder,
    args: SealArgs,
    passphrase: PassphraseArgs,
    wait: Duration,
    /// A hook prints nothing.
    is_silent: bool,
}

/// The rules of secrets, read when a line is searched.
#[derive(Default)]
struct SecretFinder(OnceLock<Result<Rules, String>>);

impl Finder for SecretFinder {
    fn rule_for(&self, line: &[u8]) -> Result<Option<String>, Error> {
        let rules = self.0.get_or_init(Rules::builtin).as_ref();
        let rules =
            rules.map_err(|error| Error::invalid(format!("the rules of secrets: {error}")))?;
        Ok(rules.rule_of_line(line))
    }
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
        let home = context.existing_home()?;
        let keyring = Keyring::of(&home);
        Ok(Self {
            archive: archive_of(&home, passphrase, context),
            host: context.host()?,
            signer: keyring.signer(key, KeyUsage::Observed, passphrase, context)?,
            key: key
                .unwrap_or_else(|| self_name(KeyUsage::Observed))
                .to_owned(),
            secrets: SecretFinder::default(),
            args: SealArgs::of_documents(passphrase.clone()),
            passphrase: passphrase.clone(),
            wait,
            is_silent: false,
        })
    }

    /// The same, which prints no notes.
    pub(crate) fn silent(self) -> Self {
        Self {
            is_silent: true,
            ..self
        }
    }

    /// The same, which archives in `archive`: one whose key was opened.
    pub(crate) fn with_archive(self, archive: Archive) -> Self {
        Self {
            archive: Ok(archive),
            ..self
        }
    }

    /// The host that is sealed for.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Opens the home anew: since then it may have another log, an archive with a key, or a next key
    /// under the name of this one.
    ///
    /// # Errors
    /// As [`SessionSealer::open`].
    pub(crate) fn renew(&mut self, context: &Context) -> Result<(), Failure> {
        self.host = context.host()?;
        let home = context.existing_home()?;
        let keyring = Keyring::of(&home);
        let next = keyring.next_signer(&self.key, &self.signer, &self.passphrase, context)?;
        if let Some(next) = next {
            self.signer = next;
        }
        // The key of one that was encrypted all along is known.
        let is_known = |archive: &Archive| archive.settings().encrypted;
        if !self.archive.as_ref().is_ok_and(is_known) {
            self.archive = archive_of(&home, &self.passphrase, context);
        }
        Ok(())
    }

    /// Removes sessions from the archive until its quota is met, and prints which.
    ///
    /// # Errors
    /// When the archive fails, or exceeds its quota afterwards.
    pub(crate) fn meet_quota(&self) -> Result<(), Failure> {
        let archive = self.archive()?;
        if !archive.has_quota()? {
            return Ok(());
        }
        let met = archive.meet_quota()?;
        quota_notes(&met);
        match met.over {
            0 => Ok(()),
            over => Err(Failure::new(excess(over))),
        }
    }

    /// The name of the key that seals logs.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The key that seals logs.
    pub(crate) fn signer(&self) -> &LocalSigner {
        &self.signer
    }

    /// Seals the present content of the file at `path`, and archives it.
    ///
    /// # Errors
    /// When it differs from its seals, another key made them, or the system fails.
    pub(crate) fn seal(
        &self,
        path: &Path,
        session: &SessionFile,
        context: &Context,
    ) -> Result<SessionSealed, Failure> {
        let sealed = self.seal_lines(path, session.growth, context)?;
        if sealed != SessionSealed::Nothing {
            self.keep(path, session, false)?;
        }
        Ok(sealed)
    }

    /// Archives what is sealed of a file; with `recall` also if its session was forgotten.
    ///
    /// # Errors
    /// When the archive refuses it, or the system fails.
    pub(crate) fn keep(
        &self,
        path: &Path,
        session: &SessionFile,
        recall: bool,
    ) -> Result<Option<Kept>, Error> {
        let seals = observer::read_seal_file(&self.host, &seal_path(path))?.unwrap_or_default();
        if is_beside(&seals) {
            let seals = read_small(&*self.host.fs, &seal_path(path), MAX_BESIDE_BYTES)?;
            return self.keep_version(path, session, &seals, recall);
        }
        let read = observed::parse(&seals).ok();
        let last = read.and_then(|read| Some((read.last()?.head, read.sealed_bytes)));
        let Some((head, end)) = last else {
            return Ok(None);
        };
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let sealed = SealedLog {
            path,
            head,
            seals: seals.get(..end).unwrap_or_default(),
            recall,
            search: Some(self.search()),
        };
        let archive = self.archive()?;
        let kept = archive.keep(session, &sealed)?;
        // A line that was left out cannot be guessed by who has the home alone.
        if archive.is_redacted(&head.record) {
            self.host.forget_salts(&head.record)?;
        }
        Ok(Some(kept))
    }

    fn search(&self) -> Search<'_> {
        Search {
            finder: &self.secrets,
            signer: &self.signer,
            by: &self.key,
        }
    }

    /// Puts the archived log of a file and its seals back at `path`, if it was archived from there and is
    /// gone. A log of ours that a person removed is continued, and not begun anew.
    ///
    /// # Errors
    /// When the archive cannot be read, or a file cannot be written.
    pub(crate) fn restore(&self, path: &Path, session: &SessionFile) -> Result<(), Error> {
        let Ok(archive) = &self.archive else {
            return Ok(());
        };
        let log = archive.log(&archive.name_of(session, path)?)?;
        let Some(newest) = log
            .newest()
            .filter(|_| log.source().as_deref() == Some(path))
        else {
            return Ok(());
        };
        let mut fs = ArchiveFs::new(archive);
        let mounted = fs.mount(&log, newest, &newest.last());
        let seals = read_small(&fs, &mounted.seals, MAX_SEAL_FILE_BYTES)?;
        let bytes = archive.read(&log, newest, 0)?;
        let disk = &*self.host.fs;
        // The seals first: a log without them would be refused.
        atomic::replace(disk, &seal_path(path), &seals, Mode::Set(PRIVATE_FILE))?;
        atomic::create_new(disk, path, &bytes, PRIVATE_FILE)
    }

    /// Was the session forgotten?
    ///
    /// # Errors
    /// When the tombstones cannot be read.
    pub(crate) fn is_forgotten(&self, session: &SessionId) -> Result<bool, Error> {
        let Ok(archive) = &self.archive else {
            return Ok(false);
        };
        let forgotten = archive.forgotten()?;
        Ok(forgotten.iter().any(|gone| gone.session == *session))
    }

    fn archive(&self) -> Result<&Archive, Error> {
        let opened = self.archive.as_ref();
        opened.map_err(|why| Error::refused(format!("it is sealed, but not archived: {why}")))
    }

    /// Archives a version of a document.
    fn keep_version(
        &self,
        path: &Path,
        session: &SessionFile,
        seals: &[u8],
        recall: bool,
    ) -> Result<Option<Kept>, Error> {
        let bytes = open_regular(&*self.host.fs, path)?.read_whole(MAX_DOCUMENT_BYTES)?;
        let trust = Trust::default();
        let options = Options::new(DocumentKind::Json, &trust, self.host.clock.now()?);
        let Some(head) = verify_beside(&bytes, seals, &options).report.head else {
            return Ok(None);
        };
        let sealed = SealedLog {
            path,
            head,
            seals,
            recall,
            search: Some(self.search()),
        };
        self.archive()?.keep(session, &sealed).map(Some)
    }

    /// Seals a file that no session is archived from.
    ///
    /// # Errors
    /// As [`SessionSealer::seal`].
    pub(crate) fn seal_lines(
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
        let done = observer::seal(&self.host, path, false, self.wait, &self.signer, &|_| {})?;
        if !self.is_silent {
            note_moved(done.moved.as_ref());
        }
        Ok(match done.sealed {
            observer::Sealed::Added(seal) => SessionSealed::Added(seal.head, Some(seal.lines)),
            observer::Sealed::Unchanged => SessionSealed::Unchanged,
            observer::Sealed::Nothing => SessionSealed::Nothing,
        })
    }
}

fn archive_of(
    home: &Home,
    passphrase: &PassphraseArgs,
    context: &Context,
) -> Result<Archive, String> {
    let opened = sessions::archive(home, Unlock::Ask(passphrase), context);
    opened.map_err(|failure| failure.to_string())
}

/// Prints which sessions the quota removed.
pub(crate) fn quota_notes(met: &QuotaResult) {
    for gone in &met.removed {
        let name = &gone.session;
        complain(&format!(
            "note: {name} was removed from the archive: its source is gone, and the quota is exceeded"
        ));
    }
}

/// The words about an archive that exceeds its quota.
pub(crate) fn excess(over: u64) -> String {
    let over = size_words(over);
    format!(
        "the archive exceeds its quota by {over}: all other sessions have their sources; hint: threadseal forget SESSION"
    )
}

/// The session that a file is of, by its content. Seals are of none, whatever their name.
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
    let first = head.split(|byte| *byte == b'\n').next();
    if is_beside(&head) || first.and_then(observed::Header::parse).is_some() {
        return Ok(None);
    }
    Ok(identify(file.path(), &head, folders))
}
