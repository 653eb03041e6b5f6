//! Scrolls: files, and bytes from standard input.

use super::{Examiner, ProfileArg};
use crate::context::Context;
use crate::exit::Failure;
use crate::gather;
use clap::Args;
use threadseal_core::record::RecordId;
use threadseal_core::report::Expectation;
use threadseal_core::report::Report;
use threadseal_core::time::Timestamp;
use threadseal_formats::scroll::{ChainOptions, Container, Judging, Outcome, conclude};
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

/// What may be asked of scrolls only.
#[derive(Debug, Args)]
pub(crate) struct ScrollArgs {
    /// The number of turns that a scroll must have; for scrolls only
    #[arg(long, value_name = "N")]
    pub(crate) expect_length: Option<u64>,
    /// Refuse signed turns that say to be older: 90s, 15m, 12h, 30d; for scrolls only
    #[arg(long, value_name = "DUR", value_parser = duration_ns)]
    max_age: Option<u64>,
    /// The moment by which --max-age is counted: 2026-01-31T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, requires = "max_age")]
    now: Option<Timestamp>,
}

impl ScrollArgs {
    /// The question; its moments are counted from the clock where no other is named.
    ///
    /// # Errors
    /// When the clock is out of range.
    pub(crate) fn asked(&self, context: &Context) -> Result<ScrollAsked, Failure> {
        let now = match self.now {
            Some(now) => now,
            None => context.now()?,
        };
        let now_ns = now.as_micros().saturating_mul(1000);
        Ok(ScrollAsked {
            length: self.expect_length,
            not_before_ns: self.max_age.map(|age| now_ns.saturating_sub(age)),
        })
    }
}

impl ScrollAsked {
    /// Is anything asked?
    pub(super) fn is_some(self) -> bool {
        self.length.is_some() || self.not_before_ns.is_some()
    }
}

const NANOS: u64 = 1_000_000_000;

fn duration_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no duration: write 90s, 15m, 12h or 30d");
    let split = text.len() - usize::from(text.ends_with(|c: char| c.is_ascii_alphabetic()));
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds * NANOS).ok_or_else(wrong)
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso_seconds(text)
        .ok_or_else(|| format!("{text:?} is no time: write 2026-01-31T12:00:00Z"))
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
    Ok(judge(examiner, file.chunks(), file.chunks(), container)?.report)
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
        let source = || Stream::new(bytes, "standard input");
        judge(self, source(), source(), container)
    }

    /// Verifies a scroll that comes once; `first` is its beginning, with the whole first turn.
    ///
    /// # Errors
    /// When it cannot be read or the heads are damaged.
    pub(crate) fn scroll_stream(
        &self,
        first: &[u8],
        source: impl Source + Send,
        container: Container,
    ) -> Result<Outcome, Failure> {
        judge(
            self,
            Stream::new(first, "standard input"),
            source,
            container,
        )
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
        let mut outcome = judge(self, file.chunks(), file.chunks(), container)?;
        self.finish(&mut outcome.report, file.path());
        Ok(outcome)
    }
}

/// What is seen is judged again, with what this host held, where a key was revoked: only the turns
/// held before count then.
fn judge(
    examiner: &Examiner,
    first: impl Source,
    source: impl Source + Send,
    container: Container,
) -> Result<Outcome, Failure> {
    let record = scroll::record_of(first, container)?;
    let known = match &record {
        Some(record) => scroll::known(&examiner.host, record)?,
        None => Known::default(),
    };
    let asked = &examiner.asked;
    let options = ChainOptions {
        expect: expectations(examiner, &known, record),
        pinned: asked.trust.pinned_key(),
        not_before_ns: asked.scroll.not_before_ns,
    };
    let mut judging = Judging {
        length: asked.scroll.length,
        signers: &known.signers,
        as_v01: asked.profile == ProfileArg::ScrollV01,
        ..Judging::new(&asked.trust, examiner.now)
    };
    let tick = examiner.tick();
    let (seen, end) = scroll::read(source, container, options, &tick)?;
    let outcome = conclude(seen.clone(), &end, &judging);
    gather::refuse_pinned_id(&asked.trust, &outcome.report)?;
    let held = known.head.is_some() && outcome.report.head == known.head;
    if held && super::has_revoked_signer(&outcome.report) {
        judging.held_since = known.updated;
        return Ok(conclude(seen, &end, &judging));
    }
    Ok(outcome)
}

fn expectations(examiner: &Examiner, known: &Known, record: Option<RecordId>) -> Vec<Expectation> {
    let given = examiner
        .asked
        .expect_head
        .map(|head| Expectation::given(head, examiner.asked.exact_head));
    let remembered = examiner.without_later(known.expect.clone());
    let remembered = remembered.into_iter().filter(|_| record.is_some());
    given.into_iter().chain(remembered).collect()
}
