//! What every report of a run gets at its end.

use super::context::{Context, shown};
use super::{as_of, logged};
use std::path::Path;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{Finding, FindingCode, Format, Report, Verdict};
use threadseal_core::time::Timestamp;

/// Adds to every report what holds for the whole run.
pub(super) fn finish(context: &Context, report: &mut Report, path: &Path) {
    finish_as(context, report, path, None);
}

/// The same of a record whose head this host keeps under the name `stored_as`.
pub(super) fn finish_as(
    context: &Context,
    report: &mut Report,
    path: &Path,
    stored_as: Option<RecordId>,
) {
    if report.path.is_empty() {
        report.path = shown(path);
    }
    if context.request.thread.is_some() && !report.format.may_name_a_thread() {
        let text = "a thread was requested, but this kind of record does not name one";
        report.downgrade(
            Verdict::Foreign,
            Finding::error(FindingCode::ThreadUnnamed, text),
        );
        if report.format == Format::Text {
            report.trusted_until = None;
        }
    }
    date(context, report, stored_as);
    as_of::supersede(context, report, stored_as);
    logged::tell_log(report, &context.log);
    logged::doubt(report, &context.log);
    if let Some(anchors) = &context.request.anchors {
        anchors.hold(report, &context.log, stored_as);
    }
    if context.request.trust.local {
        report.find(Finding::warning(
            FindingCode::LocalTrust,
            "the trust is inside the tree that it judges: the author of the tree could have made the trust, too",
        ));
    }
}

/// Adds when this host held the record, and by when its head was stamped. A store of heads that cannot be read knows no moment; the
/// check of heads reports that.
fn date(context: &Context, report: &mut Report, stored_as: Option<RecordId>) {
    let Some(record) = stored_as.or(report.record) else {
        return;
    };
    let moment = |moment: Timestamp| Some(moment).filter(|moment| *moment != Timestamp::UNIX_EPOCH);
    if let Ok(Some(stored)) = context.host.heads.fetch(&record) {
        report.dates.first_held = moment(stored.first_seen);
        report.dates.last_held = moment(stored.updated);
    }
    if let (Some(head), Some(places)) = (report.head, &context.request.trust.places) {
        report.dates.stamped = places.stamped(&Head { record, ..head });
    }
}
