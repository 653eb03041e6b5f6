//! [`SignedFile`]: a file that the runtime writes again and again, signed as Rye signs it and
//! sealed natively.
//!
//! ```text
//! content ─► Rye's signature ─► native seal n of one record
//!   ─► written completely or not at all, durable ─► head
//! ```
//! Rye reads it as its own. The native seal covers the parts that Rye's signature excludes, binds
//! the file to its record, and numbers its versions. An older version that is put back is
//! `rolled_back` on the host that wrote it. A number is used once, even by a write that fails. A
//! reader, a head or a copy may have seen the result of that write.

use crate::left_file::LeftFile;
use crate::no_links::NoLinks;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal_core::report::{NotVerified, Report, Verdict};
use threadseal_core::trust::Trust;
use threadseal_formats::document::{
    self, DocumentKind, ItemType, NativeSealing, Options, RyeSigning, sign_native, sign_rye,
};
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::examine;
use threadseal_store::heads::{Durability, RecordKind};
use threadseal_store::host::{Host, Published};
use threadseal_store::key_ends::SealSection;
use threadseal_store::read::read_small;
use threadseal_store::recorder::Keys;
use threadseal_verify::OpenError;

/// Puts the bytes of a file in its place.
pub(crate) type Put<'a> = dyn Fn(&Path, &[u8]) -> Result<(), Error> + 'a;

/// A file of one record, at its newest version.
#[derive(Debug)]
pub(crate) struct SignedFile {
    path: PathBuf,
    kind: DocumentKind,
    item_type: Option<ItemType>,
    record: RecordId,
    next: u64,
    /// Was its record begun before, by any program?
    is_older: bool,
    left: LeftFile,
}

/// A version on its way to the disk.
struct Sealed {
    bytes: Vec<u8>,
    head: Head,
    /// Its key does not end before it is there.
    _section: SealSection,
}

impl SignedFile {
    /// A file that is not there yet.
    ///
    /// # Errors
    /// Kind `External` when the random source fails.
    pub(crate) fn new(
        host: &Host,
        path: &Path,
        kind: DocumentKind,
        item_type: Option<ItemType>,
    ) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_owned(),
            kind,
            item_type,
            record: host.new_record()?,
            next: 0,
            is_older: false,
            left: LeftFile::replaced(host, path),
        })
    }

    /// A file that was verified: `head` is its seal.
    ///
    /// # Errors
    /// Kind `Refused` when the log of this host went back: there may be a later version. Errors of
    /// the heads.
    pub(crate) fn after(
        host: &Host,
        path: &Path,
        kind: DocumentKind,
        item_type: Option<ItemType>,
        head: &Head,
    ) -> Result<Self, Error> {
        let known = host.heads.fetch(&head.record)?;
        let what = format!("{} was sealed here", path.display());
        host.refuse_doubted(&what, known.as_ref())?;
        Ok(Self {
            path: path.to_owned(),
            kind,
            item_type,
            record: head.record,
            next: head.seq.saturating_add(1),
            is_older: true,
            left: LeftFile::replaced(host, path),
        })
    }

    /// A file that need not verify any more, and whose head this host knows. It may be ahead of
    /// that head, where publishing failed: a seal of its own key keeps its number.
    ///
    /// # Errors
    /// As [`SignedFile::after`]; errors of the clock and the disk.
    pub(crate) fn over(
        host: &Host,
        keys: &Keys,
        path: &Path,
        kind: DocumentKind,
        item_type: Option<ItemType>,
        known: &Head,
    ) -> Result<Self, Error> {
        let mut file = Self::after(host, path, kind, item_type, known)?;
        if host.fs.symlink_metadata(path).is_ok() {
            let bytes = read_small(&*host.fs, path, MAX_DOCUMENT_BYTES)?;
            let trust = Trust::default();
            let options = Options::new(kind, &trust, host.clock.now()?);
            let own = keys.native.public_key().key_id().to_hex();
            if let Ok(found) = document::verify(&bytes, &options)
                && let report = found.report
                && report.verdict != Verdict::Tampered
                && report.signers.iter().any(|signer| signer.key == own)
                && let Some(head) = report.head
                && head.record == file.record
            {
                file.next = file.next.max(head.seq.saturating_add(1));
            }
        }
        Ok(file)
    }

    /// Leaves so many numbers to versions that may have been lost.
    pub(crate) fn pass_over(&mut self, numbers: u64) {
        self.next = self.next.saturating_add(numbers);
    }

    /// The file as this process leaves it.
    pub(crate) fn left(&self) -> LeftFile {
        self.left.clone()
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Signs `content`, replaces the file with it, and publishes the head.
    ///
    /// # Errors
    /// Errors of the signers, the disk and the heads; a symbolic link in its place is refused. The
    /// file may be ahead of its head then, never older; the next write has another number.
    pub(crate) fn write(
        &mut self,
        host: &Host,
        keys: &Keys,
        thread: Option<&ThreadId>,
        content: &[u8],
    ) -> Result<Head, Error> {
        self.write_by(host, keys, thread, content, &|path, signed| {
            let fs = NoLinks::over(&host.fs);
            atomic::replace(&fs, path, signed, Mode::KeepOr(PRIVATE_FILE))
        })
    }

    /// Signs `content` and replaces the file with it, whole but not durably, and publishes no head.
    /// After power loss the version before may be back. Neither is older than the head.
    ///
    /// # Errors
    /// As [`SignedFile::write`].
    pub(crate) fn write_ahead(
        &mut self,
        host: &Host,
        keys: &Keys,
        content: &[u8],
    ) -> Result<(), Error> {
        let sealed = self.seal(host, keys, content)?;
        let fs = NoLinks::over(&host.fs);
        let _writing = self.left.writing();
        atomic::replace_written(&fs, &self.path, &sealed.bytes, Mode::KeepOr(PRIVATE_FILE))
    }

    /// As [`SignedFile::write`], where `put` puts it in its place.
    pub(crate) fn write_by(
        &mut self,
        host: &Host,
        keys: &Keys,
        thread: Option<&ThreadId>,
        content: &[u8],
        put: &Put<'_>,
    ) -> Result<Head, Error> {
        let sealed = self.seal(host, keys, content)?;
        let naming = examine::naming_leaves_of(&sealed.bytes);
        {
            let _writing = self.left.writing();
            put(&self.path, &sealed.bytes)?;
        }
        host.publish(&Published {
            head: sealed.head,
            root: None,
            salts: None,
            key: Some(keys.native.public_key().key_id()),
            kind: RecordKind::Document,
            is_final: false,
            thread,
            path: Some(&self.path),
            aliases: &naming,
            durability: Durability::Durable,
        })?;
        Ok(sealed.head)
    }

    /// The next version of the file.
    fn seal(&mut self, host: &Host, keys: &Keys, content: &[u8]) -> Result<Sealed, Error> {
        // A pruned record takes no seal any more: its replacement is another record.
        if self.is_older && host.heads.pruned(&self.record)?.is_some() {
            (self.record, self.next) = (host.new_record()?, 0);
        }
        self.is_older = false;
        let record = (&self.record, RecordKind::Document);
        host.admit(record, (self.next, content.len() as u64), &[])?;
        let section = host.enter_seal(&[keys.native.public_key()])?;
        let now = host.clock.now()?;
        let rye = RyeSigning {
            item_type: self.item_type,
            time: now,
            signer: &*keys.rye,
        };
        let native = NativeSealing {
            record: self.record,
            seq: self.next,
            time: now,
            signer: &*keys.native,
        };
        let signed = sign_native(&sign_rye(content, self.kind, &rye)?, self.kind, &native)?;
        // Its head does not depend on the trusted keys.
        let report =
            document::verify(&signed, &Options::new(self.kind, &Trust::default(), now))?.report;
        let head = report.head.ok_or_else(|| refusal(&self.path, &report))?;
        self.next += 1;
        Ok(Sealed {
            bytes: signed,
            head,
            _section: section,
        })
    }
}

/// The bytes of a file that verified, and its head where it has a native seal.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its seal.
    pub head: Option<Head>,
    /// The report of the verification.
    pub report: Report,
}

/// Reads a file and verifies it under `options`. It is checked against two heads that this host
/// knows: of its record, and of the record last seen in its place.
///
/// # Errors
/// Kind `Refused` with the worst finding unless the verdict is `verified`; errors of the disk.
pub(crate) fn read_verified(
    host: &Host,
    path: &Path,
    options: &Options<'_>,
) -> Result<Checked, Error> {
    let bytes = read_small(&*host.fs, path, MAX_DOCUMENT_BYTES)?;
    let mut report = document::verify(&bytes, options)?.report;
    if let Some(head) = report.head {
        let known = host.heads.fetch(&head.record)?;
        let options = Options {
            expect_head: known.map(|known| ExpectedHead::Head(known.head)),
            ..*options
        };
        report = document::verify(&bytes, &options)?.report;
    }
    // Also checks a file without its native seal: Rye's signature alone leaves it readable.
    let last = host
        .heads
        .find_by_place(RecordKind::Document, &host.place(path))?;
    if let Some(last) = last
        && report.head.map(|head| head.record) != Some(last.head.record)
    {
        let text = format!(
            "{} is the place of record {}, and holds another one",
            path.display(),
            last.head.record
        );
        return Err(Error::refused(text));
    }
    if report.verdict != Verdict::Verified {
        return Err(refusal(path, &report));
    }
    Ok(Checked {
        head: report.head,
        bytes,
        report,
    })
}

/// The error for a file that is not verified: its verdict and its worst finding.
pub(crate) fn refusal(path: &Path, report: &Report) -> Error {
    NotVerified::of(report).error(path.display(), "")
}

/// The same of a transcript that was not opened.
pub(crate) fn refused(error: OpenError, path: &Path, host: &Host) -> Error {
    let report = match error {
        OpenError::NotVerified(report) => report,
        OpenError::Failed(error) => return error.into(),
    };
    if report.stats.bytes == 0 {
        return Error::refused(format!("{}: it is empty", path.display()));
    }
    let record = report.record.filter(|_| report.verdict == Verdict::Foreign);
    let displacing = record.and_then(|record| {
        examine::refuse_displacing(host, path, RecordKind::Transcript, &record).err()
    });
    let more = displacing.map_or(String::new(), |displacing| format!("; {displacing}"));
    NotVerified::of(&report).error(path.display(), &more)
}

#[cfg(test)]
mod tests;
