//! The allowed changes from one link to the next (`spec/lineage.md` §8).
//!
//! ```text
//! parent ─► child    tick, epoch and time never fall, budget never rises, seq counts by one;
//!                    a link that moves authority changes nothing else
//! ```
//! Every rule compares two links, of which the later one's seal holds. So the signer is known, and
//! a breach is the signer's own act. A writer may not write a link that [`broken`] reports either
//! (`standing`). `authority` decides which key may sign next; `chain` joins the links.

use super::authority::Refusal;
use super::facts::ReadLink;
use super::header::CheckpointHeader;
use super::links;
use threadseal_core::report::{FindingCode, Severity, Verdict};

/// A rule that a link breaks, or almost breaks, next to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breach {
    /// Its effect on the verdict; none where the rule is only informative.
    pub(super) verdict: Option<Verdict>,
    pub(super) severity: Severity,
    pub(super) code: FindingCode,
    pub(super) text: &'static str,
}

impl Breach {
    pub(super) const fn error(verdict: Verdict, code: FindingCode, text: &'static str) -> Self {
        Self {
            verdict: Some(verdict),
            severity: Severity::Error,
            code,
            text,
        }
    }

    pub(super) const fn look(severity: Severity, code: FindingCode, text: &'static str) -> Self {
        Self {
            verdict: None,
            severity,
            code,
            text,
        }
    }
}

const KEY_CHANGED: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::KeyChanged,
    "it is signed by another identity than the link before it",
);
const VERSION_REGRESSED: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::VersionRegressed,
    "it has an older version than the link before it, and lacks content that the newer version covers",
);
const NOT_HOLDER: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::NotHolder,
    "it is signed by a key that did not have the agent's authority then",
);
const OUT_OF_TURN: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::OutOfTurn,
    "a link of its kind may not follow the link before it",
);
const EPOCH_WRONG: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::EpochWrong,
    "it acts at another epoch than the one that its signer received",
);
const DELEGATION_OLDER: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::DelegationOlder,
    "it is signed under an older delegation than its signer used before",
);
const HANDOVER_DIFFERS: Breach = Breach::error(
    Verdict::Forged,
    FindingCode::HandoverDiffers,
    "its content about the authority does not fit its place",
);
const HANDOVER_ALTERS: Breach = Breach::error(
    Verdict::Tampered,
    FindingCode::HandoverAlters,
    "it moves the authority, but also changes the agent",
);
const SEQ_WRONG: Breach = Breach::error(
    Verdict::Tampered,
    FindingCode::SeqWrong,
    "its number does not follow that of the link before it",
);
const TICK_REGRESSED: Breach = Breach::error(
    Verdict::RolledBack,
    FindingCode::TickRegressed,
    "its tick is before that of the link before it",
);
const EPOCH_REGRESSED: Breach = Breach::error(
    Verdict::RolledBack,
    FindingCode::EpochRegressed,
    "its epoch is older than that of the link before it",
);
const BUDGET_INCREASED: Breach = Breach::error(
    Verdict::Tampered,
    FindingCode::BudgetIncreased,
    "its budget is larger than the link before it left",
);
const SAME_TICK: Breach = Breach::look(
    Severity::Note,
    FindingCode::SameTick,
    "it is of the same tick as the link before it",
);
const CODE_CHANGED: Breach = Breach::look(
    Severity::Note,
    FindingCode::CodeChanged,
    "its code differs from that of the link before it",
);
const TIME_REGRESSED: Breach = Breach::look(
    Severity::Warning,
    FindingCode::TimeRegressed,
    "it states an earlier time than the link before it",
);
const LEASE_OVERRUN: Breach = Breach::look(
    Severity::Warning,
    FindingCode::LeaseOverrun,
    "it states a time after the end of the lease of the link before it",
);

/// The breach when `child` may not follow `parent`.
pub(super) fn refused(parent: &ReadLink, child: &ReadLink, why: Refusal) -> Breach {
    match why {
        Refusal::Downgrade => VERSION_REGRESSED,
        Refusal::Agent => KEY_CHANGED,
        Refusal::Signer if parent.root() != child.root() => KEY_CHANGED,
        Refusal::Signer => NOT_HOLDER,
        Refusal::Kind(_) => OUT_OF_TURN,
        Refusal::Epoch { .. } => EPOCH_WRONG,
        Refusal::KeyEpoch => DELEGATION_OLDER,
        Refusal::Body => HANDOVER_DIFFERS,
    }
}

/// The breach when `link` may not be the first of its lineage, or contradicts itself.
pub(super) fn refused_first(why: Refusal) -> Breach {
    match why {
        Refusal::Kind(_) => OUT_OF_TURN,
        _ => HANDOVER_DIFFERS,
    }
}

/// A change that no link may make to the values of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Its number is not the next.
    Seq,
    /// Its tick falls.
    Tick,
    /// Its epoch falls.
    Epoch,
    /// Its budget rises.
    Budget,
    /// It moves authority, and changes this field.
    Altered(&'static str),
}

/// The rule that `is` breaks after `was`.
pub(super) fn broken(
    was: &CheckpointHeader,
    is: &CheckpointHeader,
) -> impl Iterator<Item = Broken> {
    let seq = |header: &CheckpointHeader| header.native.as_ref().map(|native| native.seq);
    let counted = match (seq(was), seq(is)) {
        (Some(was), Some(is)) => was.checked_add(1) == Some(is),
        (None, Some(is)) => is > 0,
        (_, None) => true,
    };
    let rules = [
        (!counted).then_some(Broken::Seq),
        links::altered(was, is).map(Broken::Altered),
        (is.tick < was.tick).then_some(Broken::Tick),
        (is.epoch < was.epoch).then_some(Broken::Epoch),
        (is.budget > was.budget).then_some(Broken::Budget),
    ];
    rules.into_iter().flatten()
}

/// Passes to `each` the rules that `child` breaks after `parent`.
pub(super) fn transition(parent: &ReadLink, child: &ReadLink, each: &mut dyn FnMut(Breach)) {
    let (was, is) = (&parent.header, &child.header);
    for broken in broken(was, is) {
        each(match broken {
            Broken::Seq => SEQ_WRONG,
            Broken::Altered(_) => HANDOVER_ALTERS,
            Broken::Tick => TICK_REGRESSED,
            Broken::Epoch => EPOCH_REGRESSED,
            Broken::Budget => BUDGET_INCREASED,
        });
    }
    if is.tick == was.tick && !child.is_handover() && !parent.is_handover() {
        each(SAME_TICK);
    }
    if is.code != was.code {
        each(CODE_CHANGED);
    }
    if let Some(made) = child.time() {
        if parent.time().is_some_and(|before| made < before) {
            each(TIME_REGRESSED);
        }
        if was.lease_expiry != 0 && made > was.lease_expiry {
            each(LEASE_OVERRUN);
        }
    }
}
