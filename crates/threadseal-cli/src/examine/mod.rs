//! One file in, its reports out.
//!
//! | kind | looked at by |
//! |---|---|
//! | document | `document` |
//!
//! A file inside a folder is passed over when nothing claims to protect it and it is no record by
//! itself (a plain source file); a file that was named is always answered for.

mod document;

use crate::cmd::trust::FormatArg;
use crate::context::Context;
use crate::detect::{self, Kind};
use crate::exit::Failure;
use crate::render::json::PathError;
use crate::walk::Candidate;
use clap::ValueEnum;
use std::path::Path;
use std::sync::Arc;
use threadseal::document::DocumentKind;
use threadseal::record::{ExpectedHead, ThreadId};
use threadseal::report::{Finding, Report};
use threadseal::time::Timestamp;
use threadseal::trust::Trust;
use threadseal_store::heads::FileHeadStore;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::Fs;

/// `--profile`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    /// By what the file carries; what a format leaves open is held against it
    Auto,
    /// ThreadSeal's own seals
    Native,
    /// Rye's signatures, as far as Rye covers
    Rye,
    /// Detached seals
    Observed,
}

/// What a run asks of each record.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Whose signatures count.
    pub(crate) trust: Trust,
    /// `--profile`
    pub(crate) profile: ProfileArg,
    /// `--format`
    pub(crate) format: Option<FormatArg>,
    /// `--thread`
    pub(crate) thread: Option<ThreadId>,
    /// `--expect-head`
    pub(crate) expect_head: Option<ExpectedHead>,
    /// `--exact-head`
    pub(crate) exact_head: bool,
    /// `--every-signature`
    pub(crate) every_signature: bool,
}

/// What came of a file.
#[derive(Debug)]
pub(crate) enum Seen {
    /// One report for each claim that the file carries.
    Reports(Vec<Report>),
    /// No record.
    PassedOver,
    /// Its report stands with another file of the same folder.
    SeenElsewhere,
    /// No verdict.
    Failed(PathError),
}

/// Looks at files, all by the same trust and the same moment.
pub(crate) struct Examiner {
    asked: Asked,
    now: Timestamp,
    heads: Option<FileHeadStore>,
    fs: Arc<dyn Fs>,
}

impl Examiner {
    /// Takes the question, the clock and the heads of the home.
    ///
    /// # Errors
    /// When the home must not be trusted, or the clock is out of range.
    pub(crate) fn new(asked: Asked, context: &Context) -> Result<Self, Failure> {
        Ok(Self {
            asked,
            now: context.now()?,
            heads: context.home()?.map(|home| home.heads()),
            fs: Arc::clone(&context.fs),
        })
    }

    /// Looks at one file.
    pub(crate) fn examine(&self, candidate: &Candidate) -> Seen {
        let mut seen = self.look(candidate).unwrap_or_else(|failure| {
            Seen::Failed(PathError {
                path: Some(shown(&candidate.path)),
                message: failure.to_string(),
            })
        });
        if let Seen::Reports(reports) = &mut seen {
            for report in reports {
                self.finish(report, &candidate.path);
            }
        }
        seen
    }

    fn look(&self, candidate: &Candidate) -> Result<Seen, Failure> {
        let file = open_regular(&*self.fs, &candidate.path)?;
        match self.kind(&file)? {
            Some(Kind::Document(kind)) => document::look(self, &file, kind, candidate.named),
            Some(Kind::Transcript | Kind::Log | Kind::Sidecar) | None if candidate.named => {
                Err(Failure::new("unknown format").about(&candidate.path))
            }
            _ => Ok(Seen::PassedOver),
        }
    }

    fn kind(&self, file: &RegularFile) -> Result<Option<Kind>, Failure> {
        let name = file.path().to_string_lossy();
        Ok(match self.asked.format {
            None => detect::kind(file)?,
            Some(FormatArg::Transcript) => Some(Kind::Transcript),
            Some(FormatArg::Log) => Some(Kind::Log),
            Some(FormatArg::Json) => Some(Kind::Document(DocumentKind::Json)),
            Some(FormatArg::Text) => {
                let by_name = DocumentKind::of_name(&name);
                let text = by_name.filter(|kind| *kind != DocumentKind::Json);
                Some(Kind::Document(text.unwrap_or(DocumentKind::Markdown)))
            }
        })
    }

    /// Says in every report what holds for the whole run.
    fn finish(&self, report: &mut Report, path: &Path) {
        if report.path.is_empty() {
            report.path = shown(path);
        }
        if self.asked.trust.local {
            report.find(Finding::warning(
                "local_trust",
                "the trust lies inside the tree that it judges: whoever made the one could make the other",
            ));
        }
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
