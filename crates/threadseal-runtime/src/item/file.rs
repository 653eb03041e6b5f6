//! [`Item`]: a file of a project, verified before use.

use super::id::{ItemId, ItemKind};
use crate::bounds::MAX_ITEM_BYTES;
use serde::Serialize;
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{ExpectedHead, RecordId};
use threadseal_core::report::{Profile, Report, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{self, DocumentKind, Options, Outcome, ProfileChoice};
use threadseal_store::heads::HeadStore;
use threadseal_store::heads::{RecordKind, StoredHead};
use threadseal_store::read::read_small;
use threadseal_store::sys::{Fs, text_path};

/// Members of tools and graphs without a meaning here: the id gives name and place, the others
/// belong to Rye.
pub(crate) const IGNORED_MEMBERS: [&str; 6] = [
    "name",
    "category",
    "author",
    "tags",
    "schema_version",
    "executor_id",
];

/// Which items may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ItemPolicy {
    /// Those wholly covered by the signature of a trusted key, and built-in ones.
    #[default]
    Signed,
    /// Also unsigned ones, ones by unknown signers, and ones whose Rye signature leaves out a part
    /// that one reads. Which these were is recorded.
    AllowUnsigned,
}

/// Why an item may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// By a trusted key.
    Signed {
        /// Key id (64 hex) or Rye's fingerprint (16 hex).
        key: String,
        /// How much of the file the signature covers.
        coverage: Coverage,
    },
    /// Its signature may be valid, but the trust file does not contain the key.
    UnknownSigner,
    /// Nothing signs it.
    Unsigned,
    /// It is a part of this program.
    Builtin,
}

impl Standing {
    /// Does a trusted key vouch for all of the file, or is it a part of this program? Only then may
    /// it name secrets and addresses.
    pub fn vouches(&self) -> bool {
        match self {
            Self::Signed { coverage, .. } => *coverage != Coverage::RyePart,
            Self::Builtin => true,
            Self::UnknownSigner | Self::Unsigned => false,
        }
    }
}

/// How much of a file its signature covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// All of it, by a native seal.
    Native,
    /// All that one reads, by a Rye signature.
    Rye,
    /// The part that Rye signs of such a file. It excludes a directive's prompt.
    RyePart,
}

/// A file that was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub(super) kind: ItemKind,
    pub(super) id: ItemId,
    pub(super) path: String,
    pub(super) text: String,
    pub(super) sha256: Digest,
    pub(super) standing: Standing,
}

/// The facts about a used item in the transcript (event `item_used`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Used {
    /// Its kind.
    pub kind: ItemKind,
    /// Its id.
    pub id: ItemId,
    /// SHA-256 of the file, 64 hex digits.
    pub sha256: String,
    /// Why it might be used.
    #[serde(flatten)]
    pub standing: Standing,
}

impl Item {
    /// Its kind.
    pub fn kind(&self) -> ItemKind {
        self.kind
    }

    /// Its id.
    pub fn id(&self) -> &ItemId {
        &self.id
    }

    /// Its place, for people and errors; `builtin:…` for a part of this program.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The readable text of the file: all but the native seal at the end of a Markdown text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of the file.
    pub fn sha256(&self) -> Digest {
        self.sha256
    }

    /// Why it may be used.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The facts about it for the transcript.
    pub fn used(&self) -> Used {
        Used {
            kind: self.kind,
            id: self.id.clone(),
            sha256: self.sha256.to_hex(),
            standing: self.standing.clone(),
        }
    }
}

/// The basis on which an item is judged.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// Whose signatures count.
    pub trust: &'a Trust,
    /// The moment by which keys are judged.
    pub now: Timestamp,
    /// The seals that this host knows, so that an older or a stripped version is noticed.
    pub heads: &'a dyn HeadStore,
    /// The items that may be used.
    pub policy: ItemPolicy,
}

/// A file on its way to being an item.
pub(super) struct Candidate<'a> {
    pub(super) kind: ItemKind,
    /// For people and errors.
    pub(super) path: &'a str,
    /// As the head store spells places.
    pub(super) place: &'a str,
    /// The other places that its id permits, where no file exists.
    pub(super) absent: &'a [String],
    /// The space's `.ai`, its links followed.
    pub(super) home: &'a Path,
    pub(super) fs: &'a dyn Fs,
    pub(super) bytes: &'a [u8],
}

impl Candidate<'_> {
    /// The standing of the file, from its signatures and the heads of this host, and the report on
    /// them. A policy may still exclude it.
    pub(super) fn standing(&self, grounds: &Grounds<'_>) -> Result<(Standing, Report), Error> {
        let document = DocumentKind::of_name(self.path).ok_or_else(|| {
            Error::invalid(format!("{}: not a supported kind of document", self.path))
        })?;
        let mut options = Options {
            path: self.path,
            item_type: Some(self.kind.rye_type()).filter(|kind| document.fits(*kind)),
            ..Options::new(document, grounds.trust, grounds.now)
        };
        let mut report = self.verify(&options)?;
        if let Some(record) = report.record
            && let Some(stored) = grounds.heads.fetch(&record)?
        {
            self.is_no_copy(record, stored.path_hint.as_deref(), grounds)?;
            self.is_the_newest(&stored, grounds)?;
            options.expect_head = Some(ExpectedHead::Head(stored.head));
            report = self.verify(&options)?;
        }
        // A seal does not name a place, but this host knows its own last seal here.
        let here = grounds
            .heads
            .find_by_place(RecordKind::Document, self.place)?;
        if let Some(here) = here.filter(|here| report.record != Some(here.head.record)) {
            let (verdict, what) = match report.record {
                Some(_) => (Verdict::Foreign, "has the seal of another file"),
                None => (Verdict::Tampered, "has no seal"),
            };
            return Err(Error::refused(format!(
                "{}: {verdict}: this host knows a sealed file in this place (record {}), and this file {what}",
                self.path, here.head.record
            )));
        }
        let key = || {
            let signer = report.signers.first();
            signer.map(|signer| signer.key.clone()).unwrap_or_default()
        };
        let signed = |coverage| Standing::Signed {
            key: key(),
            coverage,
        };
        let standing = match report.verdict {
            Verdict::Verified if report.profile == Profile::Native => signed(Coverage::Native),
            Verdict::Verified => signed(Coverage::Rye),
            Verdict::Partial if self.rye_accepts(options)? => signed(Coverage::RyePart),
            Verdict::Unsigned => Standing::Unsigned,
            Verdict::UnknownSigner => Standing::UnknownSigner,
            _ => return Err(self.refuse(&report, "")),
        };
        Ok((standing, report))
    }

    /// Refuses a file that was sealed as another item: capabilities judge ids, and a seal names
    /// none. A moved file is no copy, and neither is a file of a project that was copied whole.
    fn is_no_copy(
        &self,
        record: RecordId,
        sealed: Option<&str>,
        grounds: &Grounds<'_>,
    ) -> Result<(), Error> {
        let Some(other) = sealed.filter(|other| *other != self.place) else {
            return Ok(());
        };
        let Some(path) = text_path(other).filter(|path| path.starts_with(self.home)) else {
            return Ok(());
        };
        let Some(document) = DocumentKind::of_name(other) else {
            return Ok(());
        };
        if self.fs.symlink_metadata(&path).is_err() {
            return Ok(());
        }
        let bytes = read_small(self.fs, &path, MAX_ITEM_BYTES)?;
        let options = Options {
            path: other,
            ..Options::new(document, grounds.trust, grounds.now)
        };
        match document::verify(&bytes, &options)?.report.record == Some(record) {
            true => Err(Error::refused(format!(
                "{}: {}: it is a copy of {other}, which is sealed as that item and still exists; move it, or seal it as a \
                 separate item (without the copied seal)",
                self.path,
                Verdict::Foreign
            ))),
            false => Ok(()),
        }
    }

    /// An id has several spellings of its file. A file that this host sealed before another
    /// spelling is an older item.
    fn is_the_newest(&self, stored: &StoredHead, grounds: &Grounds<'_>) -> Result<(), Error> {
        for place in self.absent {
            let known = grounds.heads.find_by_place(RecordKind::Document, place)?;
            let is_other = |known: &StoredHead| known.head.record != stored.head.record;
            if known.is_some_and(|known| is_other(&known) && known.updated > stored.updated) {
                return Err(Error::refused(format!(
                    "{}: {}: this host sealed {place} later, under the same id",
                    self.path,
                    Verdict::RolledBack
                )));
            }
        }
        Ok(())
    }

    fn verify(&self, options: &Options<'_>) -> Result<Report, Error> {
        document::verify(self.bytes, options).map(|Outcome { report, .. }| report)
    }

    fn rye_accepts(&self, options: Options<'_>) -> Result<bool, Error> {
        let options = Options {
            profile: ProfileChoice::Rye,
            ..options
        };
        Ok(self.verify(&options)?.verdict == Verdict::Verified)
    }

    pub(super) fn refuse(&self, report: &Report, advice: &str) -> Error {
        let mut findings: Vec<_> = report.findings.iter().collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let why = findings.first().map_or("", |finding| &*finding.message);
        Error::refused(format!("{}: {}: {why}{advice}", self.path, report.verdict))
    }

    pub(super) fn into_item(self, id: &ItemId, standing: Standing) -> Result<Item, Error> {
        let text = std::str::from_utf8(self.bytes)
            .map_err(|_| Error::invalid(format!("{}: not UTF-8", self.path)))?;
        Ok(Item {
            kind: self.kind,
            id: id.clone(),
            path: self.path.to_owned(),
            text: without_seal(text).to_owned(),
            sha256: Digest::of(self.bytes),
            standing,
        })
    }
}

/// A Markdown text without its native seal, which is its last line: models must not read it.
fn without_seal(text: &str) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let start = body.rfind('\n').map_or(0, |end| end + 1);
    if body[start..].starts_with("<!-- threadseal:signed:") && body.ends_with("-->") {
        &text[..start]
    } else {
        text
    }
}
