//! What the log of this home has of a record, in its report (`spec/report.md` §4).
//!
//! Whether a record contains what the log has of it is decided with the other heads. This module reports the state of the log. A log that
//! went back, is gone or cannot be read is no evidence against a record: it only vouches for none.

use super::displacement;
use crate::error::VerifyError;
use crate::home_log::HomeLog;
use threadseal_core::key::PublicKey;
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Finding, FindingCode, Report, Verdict,
};
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_formats::transcript::SealedDelegation;
use threadseal_formats::transcript::bodies::SealedRedaction;
use threadseal_log::{Fault, SealLog, Standing};
use threadseal_store::heads::StoredHead;

/// The check that each report has.
pub(super) const CHECK: CheckName = CheckName::Log;

const DAMAGED: FindingCode = FindingCode::SealLogDamaged;
const UNREAD: &str = "the log cannot be read";

/// Reports the state of the log, and why it was not compared with the record where it was not.
pub fn tell_log(report: &mut Report, log: &HomeLog) {
    let skipped = match log {
        HomeLog::Never => Some("this home has no log".to_owned()),
        HomeLog::Missing(why) => Some(warn(
            report,
            FindingCode::SealLogMissing,
            why,
            "the log is gone",
        )),
        HomeLog::Damaged(why) => Some(warn(report, DAMAGED, why, UNREAD)),
        HomeLog::There(log) => of_log(report, log),
    };
    if let (Some(why), false) = (skipped, has_check(report)) {
        report.check(CHECK, CheckResult::Skipped, Some(why));
    }
}

/// Reports each redaction that this host never recorded although it sealed the record later: the
/// redaction was made where its log is not.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn hold_redactions(
    report: &mut Report,
    redactions: &[SealedRedaction],
    log: &HomeLog,
) -> Result<(), VerifyError> {
    let (HomeLog::There(log), Some(first)) = (log, redactions.first()) else {
        return Ok(());
    };
    let record = first.head.record;
    if !log.standing().vouches() || log.newest(&record)?.is_none() {
        return Ok(());
    }
    let known = log.redactions_of(&record)?;
    let unknown = redactions.iter().filter(|seal| !known.contains(&seal.head));
    for seal in unknown {
        let seq = seal.head.seq;
        let text = format!(
            "the log of this host does not know the redaction that seal {seq} covers: it was made elsewhere, or \
             the log lacks its entry; hint: threadseal redact --finish"
        );
        report.find(Finding::warning(FindingCode::RedactionUnlogged, text));
    }
    Ok(())
}

/// Reports each key that the record's authority lets in without an entry in the log of the
/// authority's home: it was let in where that log is not. Other homes, and logs that are younger
/// than the key, know of none.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn hold_delegations(
    report: &mut Report,
    delegations: &[SealedDelegation],
    log: &HomeLog,
) -> Result<(), VerifyError> {
    let (HomeLog::There(log), Some(first)) = (log, delegations.first()) else {
        return Ok(());
    };
    if !log.standing().vouches() || log.newest(&first.record)?.is_none() {
        return Ok(());
    }
    let events = log.key_events()?;
    let says = |by: &PublicKey, change: KeyChange| {
        let mut events = events.iter();
        events.any(|(_, event)| event.public() == by && *event.change() == change)
    };
    for SealedDelegation {
        record,
        by,
        to,
        line,
    } in delegations
    {
        let (record, to) = (*record, *to);
        if !says(by, KeyChange::Create) || says(by, KeyChange::Delegate { record, to }) {
            continue;
        }
        let text = format!(
            "the log of this host knows the record's authority from its first day, but not its delegation to key {}: that was \
             made elsewhere, or the log lacks its entry; hint: threadseal key delegate",
            to.key_id()
        );
        report.find(Finding::warning(FindingCode::DelegationUnlogged, text).at_line(*line));
    }
    Ok(())
}

/// Compares the newest seal of a copy with the seal of that number which the log has.
pub(super) fn hold_copy(report: &mut Report, log: &HomeLog) {
    let (HomeLog::There(log), Some(head)) = (log, report.head) else {
        return;
    };
    // Another seal counts against it only where a trusted key made both.
    let is_trusted = matches!(report.verdict, Verdict::Verified | Verdict::Open);
    match log.head_at(&head.record, head.seq) {
        Ok(Some(at)) if at.logged.head == head => {
            report.check(CHECK, CheckResult::Pass, Some(at.entry.to_string()));
        }
        Ok(Some(at)) if is_trusted => {
            let why = format!("{}: another seal", at.entry);
            report.check(CHECK, CheckResult::Fail, Some(why));
            let text = format!("{} has another seal {} of the record", at.entry, head.seq);
            let finding = Finding::error(FindingCode::HeadDiffers, text);
            report.downgrade(Verdict::Forked, finding);
        }
        _ => {}
    }
}

/// A scroll and a lineage have no end of their own: a log that went back, is gone or cannot be read does not
/// show that nothing is missing from one. Other formats check the log themselves; a document is always whole.
pub(super) fn doubt(report: &mut Report, log: &HomeLog) {
    let is_endless = !report.format.has_end() && report.completeness == Completeness::Unproved;
    if is_endless && !log.vouches() && report.verdict == Verdict::Verified {
        let text = "the state of the record that this host knows may be outdated, too";
        report.downgrade(Verdict::Open, Finding::note(FindingCode::EndUnproved, text));
    }
}

/// Why a report without the check has none, where that is known.
fn of_log(report: &mut Report, log: &SealLog) -> Option<String> {
    match log.standing() {
        Standing::Good => {}
        Standing::Faulty(fault) => {
            let why =
                format!("{fault}: the states of records that this host knows may be outdated");
            let code = match fault {
                Fault::PlaceForgotten(_) => FindingCode::PlaceForgotten,
                _ => FindingCode::LogRolledBack,
            };
            warn(report, code, &why, "");
        }
        Standing::Damaged(why) => return Some(warn(report, DAMAGED, &why, UNREAD)),
        Standing::MarkUnread(why) => {
            warn(report, FindingCode::MarkUnreadable, &why, "");
        }
        Standing::MarkGone => {
            let why =
                "the second place of the log is gone: a rollback of the log would not be detected";
            warn(report, FindingCode::MarkMissing, why, "");
        }
    }
    if has_check(report) {
        return None;
    }
    let Some(record) = report.record else {
        return Some("nothing shows which record it is".to_owned());
    };
    Some(match log.newest_at(&record) {
        Ok(None) => "the log has no head of this record".to_owned(),
        Ok(Some(at)) if report.verdict == Verdict::Missing => {
            format!(
                "{}: the record is not here to be compared with it",
                at.entry
            )
        }
        Ok(Some(at)) if at.logged.kind == displacement::kind_of(report) => {
            format!("{}: the record could not be compared with it", at.entry)
        }
        Ok(Some(at)) => format!("{}: another kind of record has this id there", at.entry),
        Err(error) => warn(report, DAMAGED, &error.to_string(), UNREAD),
    })
}

/// Notes that a document is, or is not, what the log has of it. Its versions do not contain each other.
pub(super) fn hold_document(report: &mut Report, stored: &StoredHead) {
    let Some(at) = &stored.logged else {
        return;
    };
    let (result, why) = if report.head == Some(at.logged.head) {
        (CheckResult::Pass, None)
    } else if report
        .head
        .is_some_and(|head| head.seq > at.logged.head.seq)
    {
        (
            CheckResult::Skipped,
            Some("a newer version, which is not in the log yet"),
        )
    } else if stored.head == at.logged.head {
        (CheckResult::Fail, Some("another version"))
    } else {
        (
            CheckResult::Skipped,
            Some("an older version; the newer one is not in the log yet"),
        )
    };
    let why = why.map_or_else(
        || at.entry.to_string(),
        |why| format!("{}: {why}", at.entry),
    );
    report.check(CHECK, result, Some(why));
}

fn has_check(report: &Report) -> bool {
    report.checks.iter().any(|check| check.name == CHECK)
}

/// A warning, once in each report; gives back the text of the check.
fn warn(report: &mut Report, code: FindingCode, why: &str, check: &str) -> String {
    if !report.findings.iter().any(|found| found.code == code) {
        report.find(Finding::warning(code, why));
    }
    check.to_owned()
}
