//! Scrolls: files, and bytes from standard input.

use super::{Examiner, ProfileArg};
use crate::exit::Failure;
use threadseal::record::RecordId;
use threadseal::report::Report;
use threadseal::scroll::{ChainOptions, Container, Judging, Outcome};
use threadseal::transcript::Expectation;
use threadseal_store::read::{RegularFile, Source, Stream};
use threadseal_store::scroll::{self, Known};

/// What is asked of scrolls only.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScrollAsked {
    /// `--expect-length`
    pub(crate) length: Option<u64>,
    /// `--max-age`, as the moment before which a signed turn is too old.
    pub(crate) not_before_ns: Option<u64>,
}

/// Verifies a scroll in a file.
///
/// # Errors
/// When it cannot be read or the heads are damaged.
pub(super) fn look(
    examiner: &Examiner,
    file: &RegularFile,
    container: Container,
) -> Result<Report, Failure> {
    Ok(judge(examiner, || file.chunks(), container)?.report)
}

impl Examiner {
    /// Verifies a scroll in memory.
    ///
    /// # Errors
    /// When the heads are damaged.
    pub(crate) fn scroll_bytes(
        &self,
        bytes: &[u8],
        container: Container,
    ) -> Result<Outcome, Failure> {
        judge(self, || Stream::new(bytes, "standard input"), container)
    }

    /// Verifies a scroll in a file.
    ///
    /// # Errors
    /// When it cannot be read or the heads are damaged.
    pub(crate) fn scroll_file(
        &self,
        file: &RegularFile,
        container: Container,
    ) -> Result<Outcome, Failure> {
        let mut outcome = judge(self, || file.chunks(), container)?;
        self.finish(&mut outcome.report, file.path());
        Ok(outcome)
    }
}

/// A second look, with what this host held, follows where a key was revoked: only the turns held
/// before count then.
fn judge<S: Source>(
    examiner: &Examiner,
    open: impl Fn() -> S,
    container: Container,
) -> Result<Outcome, Failure> {
    let record = scroll::record_of(open(), container)?;
    let known = match &record {
        Some(record) => scroll::known(&examiner.host, record)?,
        None => Known::default(),
    };
    let asked = &examiner.asked;
    let options = ChainOptions {
        expect: expectations(examiner, &known, record),
        pinned: asked.trust.pinned,
        not_before_ns: asked.scroll.not_before_ns,
    };
    let mut judging = Judging {
        length: asked.scroll.length,
        signers: &known.signers,
        as_v01: asked.profile == ProfileArg::ScrollV01,
        ..Judging::new(&asked.trust, examiner.now)
    };
    let tick = examiner.tick();
    let outcome = scroll::verify(open(), container, options.clone(), &judging, &tick)?;
    let held = known.head.is_some() && outcome.report.head == known.head;
    if held && super::has_revoked_signer(&outcome.report) {
        judging.held_since = known.updated;
        return Ok(scroll::verify(
            open(),
            container,
            options,
            &judging,
            &|_| {},
        )?);
    }
    Ok(outcome)
}

fn expectations(examiner: &Examiner, known: &Known, record: Option<RecordId>) -> Vec<Expectation> {
    let given = examiner.asked.expect_head.map(|head| Expectation {
        head,
        exact: examiner.asked.exact_head,
        remembered: false,
    });
    let remembered = known.expectation().filter(|_| record.is_some());
    given.into_iter().chain(remembered).collect()
}
