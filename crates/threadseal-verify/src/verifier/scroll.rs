//! Scrolls: files, and bytes from standard input.

use super::as_of;
use super::context;
use super::context::Context;
use super::finish;
use crate::error::VerifyError;
use crate::request::RequestedProfile;
use crate::trust_sources;
use threadseal_core::key::KeyUsage;
use threadseal_core::record::RecordId;
use threadseal_core::report::Expectation;
use threadseal_core::report::Report;
use threadseal_formats::scroll::{ChainOptions, Container, Judging, Outcome, conclude};
use threadseal_store::read::{RegularFile, Source, Stream};
use threadseal_store::scroll::{self, Beginning, Known};

/// Verifies a scroll in a file.
///
/// # Errors
/// When it cannot be read or the heads are damaged.
pub(super) fn look(
    context: &Context,
    file: &RegularFile,
    container: Container,
) -> Result<Report, VerifyError> {
    Ok(judge(context, file.chunks(), file.chunks(), container)?.report)
}

/// Verifies a scroll in memory.
///
/// # Errors
/// When the heads are damaged.
pub(super) fn scroll_bytes(
    context: &Context,
    bytes: &[u8],
    container: Container,
) -> Result<Outcome, VerifyError> {
    let source = || Stream::new(bytes, "standard input");
    judge(context, source(), source(), container)
}

/// Verifies a scroll that comes once; `first` is its beginning, with the whole first turn.
///
/// # Errors
/// When it cannot be read or the heads are damaged.
pub(super) fn scroll_stream(
    context: &Context,
    first: &[u8],
    source: impl Source + Send,
    container: Container,
) -> Result<Outcome, VerifyError> {
    judge(
        context,
        Stream::new(first, "standard input"),
        source,
        container,
    )
}

/// Verifies a scroll in a file.
///
/// # Errors
/// When it cannot be read or the heads are damaged.
pub(super) fn scroll_file(
    context: &Context,
    file: &RegularFile,
    container: Container,
) -> Result<Outcome, VerifyError> {
    let mut outcome = judge(context, file.chunks(), file.chunks(), container)?;
    finish::finish(context, &mut outcome.report, file.path());
    Ok(outcome)
}

/// What is seen is judged again, with what this host held, where a key was revoked: only the turns
/// held before count then.
fn judge(
    context: &Context,
    first: impl Source,
    source: impl Source + Send,
    container: Container,
) -> Result<Outcome, VerifyError> {
    let Beginning { record, conversion } = scroll::beginning(first, container)?;
    let known = match &record {
        Some(record) => scroll::known(&context.host, record)?,
        None => Known::default(),
    };
    let request = &context.request;
    let options = ChainOptions {
        expect: expectations(context, &known, record),
        pinned: request.trust.pinned.keys_for(KeyUsage::Scroll).collect(),
        not_before_ns: request.scroll.not_before_ns,
        strict_digits: request.scroll.strict_digits,
    };
    let mut judging = Judging {
        length: request.scroll.length,
        signers: &known.signers,
        as_v01: request.profile == RequestedProfile::ScrollV01,
        ..Judging::new(&request.trust, context.now)
    };
    let tick = context.tick();
    let (seen, end) = scroll::read(source, container, options, &tick)?;
    let mut outcome = conclude(seen.clone(), &end, &judging);
    trust_sources::refuse_pinned_id(&request.trust, &outcome.report)?;
    let held = known.head.is_some() && outcome.report.head == known.head;
    if held && context::has_revoked_signer(&outcome.report) {
        judging.held_since = known.updated;
        outcome = conclude(seen, &end, &judging);
    }
    // It is shown with the scroll that it begins, and changes no verdict.
    if record.is_some() && outcome.report.record == record {
        outcome.report.conversion = conversion.map(Box::new);
    }
    Ok(outcome)
}

fn expectations(context: &Context, known: &Known, record: Option<RecordId>) -> Vec<Expectation> {
    let given = context
        .request
        .expect_head
        .map(|head| Expectation::given(head, context.request.exact_head));
    let remembered = as_of::without_later(context, known.expect.clone());
    let remembered = remembered.into_iter().filter(|_| record.is_some());
    given.into_iter().chain(remembered).collect()
}
