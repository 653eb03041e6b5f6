//! `--as-of HEAD`: an older copy of a record, looked at on purpose (`spec/report.md` §4).
//!
//! What this host knows of later states is not held against it then. Everything else is; and that the copy is an earlier state of the
//! same record, rather than another continuation, the log must show.

use super::context::Context;
use super::logged::CHECK;
use crate::home_log::HomeLog;
use threadseal_core::record::{ExpectedHead, Head, RecordId};
use threadseal_core::report::{
    CheckResult, Expectation, Finding, FindingCode, KnownBy, Report, Verdict,
};
use threadseal_store::heads::LoggedAt;

const SUPERSEDED: FindingCode = FindingCode::Superseded;

/// Leaves out of what a record must contain what is later than the state that was asked for.
pub(super) fn without_later(context: &Context, expect: Vec<Expectation>) -> Vec<Expectation> {
    let stays = |expected: &Expectation| match (&expected.by, expected.head) {
        (KnownBy::Fork(known), _) => {
            let as_of = context.request.as_of.as_ref();
            !as_of.is_some_and(|as_of| known.fork.is_behind(as_of))
        }
        (KnownBy::Caller, _) | (_, ExpectedHead::Line(_)) => true,
        (_, ExpectedHead::Head(known)) => !is_later(context, &known),
    };
    expect.into_iter().filter(stays).collect()
}

/// Is this a later state of the record of which an older one was asked for?
pub(super) fn is_later(context: &Context, known: &Head) -> bool {
    let as_of = context.request.as_of;
    as_of.is_some_and(|as_of| as_of.record == known.record && as_of.seq < known.seq)
}

/// Reports which later state is known, and what shows that this one came before it. This host has
/// the record under the name `stored_as`, where that is another one than its own.
pub(super) fn supersede(context: &Context, report: &mut Report, stored_as: Option<RecordId>) {
    let Some(as_of) = context.request.as_of else {
        return;
    };
    if report.head != Some(as_of) {
        if report.verdict == Verdict::Verified {
            let text = format!("its last seal is not the requested {as_of}");
            report.downgrade(
                Verdict::Open,
                Finding::error(FindingCode::HeadNotLast, text),
            );
        }
        return;
    }
    let own = stored_as.unwrap_or(as_of.record);
    let stored = context.host.heads.fetch(&own).ok().flatten();
    let stored = stored.map(|stored| Head {
        record: as_of.record,
        ..stored.head
    });
    let Some(newest) = stored.filter(|stored| is_later(context, stored)) else {
        return;
    };
    let under_own_name = Head {
        record: own,
        ..as_of
    };
    match logged(context, &under_own_name) {
        Some(at) if at.logged.head == under_own_name => {
            report.check(CHECK, CheckResult::Pass, Some(at.entry.to_string()));
            let text = format!(
                "{} is this state; the newest known state is {newest}",
                at.entry
            );
            report.find(Finding::note(SUPERSEDED, text));
        }
        Some(at) => {
            report.check(
                CHECK,
                CheckResult::Fail,
                Some(format!("{}: another seal", at.entry)),
            );
            let text = format!("{} has another seal {} of the record", at.entry, as_of.seq);
            report.downgrade(
                Verdict::Forked,
                Finding::error(FindingCode::HeadDiffers, text),
            );
        }
        None => {
            let text = format!(
                "the newest known state is {newest}, and nothing here shows that it continues this one"
            );
            report.downgrade(Verdict::Open, Finding::warning(SUPERSEDED, text));
        }
    }
}

fn logged(context: &Context, head: &Head) -> Option<LoggedAt> {
    match &context.log {
        HomeLog::There(log) => log.head_at(&head.record, head.seq).ok()?,
        _ => None,
    }
}
