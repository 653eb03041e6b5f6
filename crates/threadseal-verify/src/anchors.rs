//! `--require-anchor`: only what witnesses saw counts (`spec/report.md` §4). No witness is asked: the collected cosignatures are judged.

use crate::anchor_files;
use crate::error::VerifyError;
use crate::home_log::HomeLog;
use crate::notices::Notices;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};
use threadseal_core::tlog::policy::{Judgement, Policy};
use threadseal_log::{CosignedNote, SealLog};
use threadseal_store::home::Home;
use threadseal_store::sys::Fs;

const CHECK: CheckName = CheckName::Anchor;

/// What witnesses saw of the log.
#[derive(Debug, Clone)]
pub enum Anchors {
    /// A quorum cosigned this tree, which the log continues.
    Seen {
        /// The tree.
        tree: TreeHead,
        /// By which policy, and when, in seconds since 1970.
        by: String,
    },
    /// None did: the reason.
    None(String),
}

impl Anchors {
    /// Judges what was collected for the log of the home.
    ///
    /// # Errors
    /// When the policies, or what was collected, cannot be read at all.
    pub fn of(
        log: &HomeLog,
        home: Option<&Home>,
        fs: &dyn Fs,
        notices: &dyn Notices,
    ) -> Result<Self, VerifyError> {
        let HomeLog::There(log) = log else {
            return Ok(Self::None("there is no log to anchor".to_owned()));
        };
        let none = |why: &str| Ok(Self::None(why.to_owned()));
        if !log.standing().vouches() {
            return none("the log was rolled back or cannot be read");
        }
        let policies = policies(home, fs, notices)?;
        let notes = cosigned(log, &policies, notices)?;
        if notes.is_empty() {
            return none(
                "no cosignature of a witness was collected; hint: threadseal anchor check",
            );
        }
        let Some((tree, by)) = best(&notes, &policies) else {
            return none("no quorum of witnesses cosigned the log; hint: threadseal anchor check");
        };
        match log.view()?.consistency(&tree)? {
            Some(_) => Ok(Self::Seen { tree, by }),
            None => none("the log does not continue the checkpoint that witnesses cosigned"),
        }
    }

    /// Holds it against a record that witnesses did not see its newest head. The log has the record
    /// under the name `logged_as`, where that is another one than its own.
    pub(crate) fn hold(&self, report: &mut Report, log: &HomeLog, logged_as: Option<RecordId>) {
        match self.covers(report, log, logged_as) {
            Ok(why) => report.check(CHECK, CheckResult::Pass, Some(why)),
            Err(why) => {
                report.check(CHECK, CheckResult::Fail, Some(why.clone()));
                report.downgrade(
                    Verdict::Open,
                    Finding::warning(FindingCode::AnchorMissing, why),
                );
            }
        }
    }

    fn covers(
        &self,
        report: &Report,
        log: &HomeLog,
        logged_as: Option<RecordId>,
    ) -> Result<String, String> {
        let (tree, by) = match self {
            Self::Seen { tree, by } => (tree, by),
            Self::None(why) => return Err(why.clone()),
        };
        let HomeLog::There(log) = log else {
            return Err("there is no log to anchor".to_owned());
        };
        let Some(head) = report.head else {
            return Err("none of its seals is valid".to_owned());
        };
        let record = logged_as.unwrap_or(head.record);
        match entry_of(log, &Head { record, ..head })? {
            (number, entry) if number < tree.size => Ok(format!("{entry}, seen by {by}")),
            (_, entry) => Err(format!(
                "{entry} is newer than the checkpoint that witnesses cosigned; hint: threadseal anchor check"
            )),
        }
    }
}

/// The newest tree of a log that a quorum cosigned, and by which policy and when; whether the log continues it is not asked.
///
/// # Errors
/// When the policies, or what was collected, cannot be read at all.
pub fn witnessed(
    log: &SealLog,
    home: Option<&Home>,
    fs: &dyn Fs,
    notices: &dyn Notices,
) -> Result<Option<(TreeHead, String)>, VerifyError> {
    let policies = policies(home, fs, notices)?;
    Ok(best(&cosigned(log, &policies, notices)?, &policies))
}

/// The collected notes; reports files that cannot be read to `notices`.
fn cosigned(
    log: &SealLog,
    policies: &[(String, Policy)],
    notices: &dyn Notices,
) -> Result<Vec<CosignedNote>, VerifyError> {
    Ok(log.cosigned(policies, &mut |why| notices.unread(why))?)
}

/// Of the home.
fn policies(
    home: Option<&Home>,
    fs: &dyn Fs,
    notices: &dyn Notices,
) -> Result<Vec<(String, Policy)>, VerifyError> {
    match home {
        Some(home) => Ok(anchor_files::policies(home, fs)?.telling(notices)),
        None => Ok(Vec::new()),
    }
}

/// The newest one that counts. One that the log does not continue is not passed over: it shows that the log was rolled back.
fn best(notes: &[CosignedNote], policies: &[(String, Policy)]) -> Option<(TreeHead, String)> {
    let best = notes.iter().find(|note| note.is_witnessed)?;
    Some((best.tree, quorum_of(policies, &best.note)?))
}

/// By which policy a note counts, and when. A policy without witnesses is met by the log alone.
fn quorum_of(policies: &[(String, Policy)], note: &SignedNote) -> Option<String> {
    policies.iter().find_map(|(name, policy)| {
        let Ok(Judgement::Witnessed(witnessed)) = policy.judge(note) else {
            return None;
        };
        let at = witnessed.at().seconds();
        Some(format!("the quorum of {name} at {at}"))
    })
}

/// The entry that is this head. It is in the tree of the log. An entry below the size of an earlier
/// tree is in that tree, too.
fn entry_of(log: &SealLog, head: &Head) -> Result<(u64, String), String> {
    let at = log.head_at(&head.record, head.seq);
    match at.map_err(|error| error.to_string())? {
        Some(at) if at.logged.head == *head => Ok((at.number, at.entry.to_string())),
        _ => Err("its newest head is not in the log".to_owned()),
    }
}
