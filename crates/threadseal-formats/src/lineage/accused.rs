//! The verdict on a fork proof, and the effect of a logged fork on a lineage (`spec/lineage.md`
//! §8.1).
//!
//! ```text
//! proof ─► ForkReader ─► does it show a fork? ─► does the trust vouch for its keys now?
//!       ─► Verified<LoggedFork> ─► a log
//! LoggedFork + the links of a copy ─► Bearing: it continues from the fork, it does not, or unknown
//! ```
//! A fork counts against every copy that has one of the two links, or the link that both follow. A
//! writer that continues from there makes a third branch. A recovery that gave up all of them is on
//! another branch, and is no part of the fork.

use super::chain::Lineage;
use super::conclude::{Judging, holds_now, judge_root, judge_session};
use super::fork::{Equivocation, ForkFault, ForkReader};
use super::hash::ContentHash;
use super::header::CheckpointHeader;
use super::identity::AgentName;
use super::seen::Seen;
use crate::verified::{Grounds, Verified};
use std::collections::BTreeSet;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::report::heads::check_forks;
use threadseal_core::report::{
    Bearing, CheckName, CheckResult, Expectation, Finding, FindingCode, Format, Profile, Report,
    TrustedUntil, Verdict,
};
use threadseal_core::tlog::entry::fork::{ForkPlace, ForkedLinks, LoggedFork};

/// The result of checking a fork proof.
#[derive(Debug, Clone)]
pub struct CheckedFork {
    /// The verdict and its evidence.
    pub report: Report,
    /// The fork that the proof shows alone, without any trust.
    pub shown: Result<Equivocation, ForkFault>,
    /// The fork as a log may record it; present exactly when the verdict is `verified`.
    pub proved: Option<Verified<LoggedFork>>,
}

/// Gives the verdict of this trust on a proof that was read to its end. `verified`: an agent for
/// whose key the trust vouches signed two links in one place.
pub fn check_fork(reader: ForkReader, judging: &Judging<'_>) -> CheckedFork {
    let (evidence, bytes, shown) = reader.finish_with_digest();
    let mut report = Report::begin(Format::Proof, Profile::ThreadSeal);
    report.trust = Some(judging.trust.digest());
    report.stats.bytes = bytes;
    let found = match &shown {
        Ok(found) => found,
        Err(fault) => {
            let (verdict, code) = told(*fault);
            report.downgrade(verdict, Finding::error(code, fault.to_string()));
            return CheckedFork {
                report,
                shown,
                proved: None,
            };
        }
    };
    report.stats.checkpoints = 2;
    report.record = Some(found.record);
    let [one, other] = found.links;
    let place = found.parent.map_or_else(
        || "both are beginnings, or have the same number".to_owned(),
        |parent| format!("both follow {parent}"),
    );
    let text = format!(
        "agent {} signed two links in one place, {one} and {other}: {place}",
        found.agent
    );
    report.find(Finding::warning(FindingCode::LinksConflict, text));
    let report = judged(found, report, judging);
    let proved = minted(found, evidence, &report, judging);
    CheckedFork {
        report,
        shown,
        proved,
    }
}

/// The verdict on a proof that proves nothing.
fn told(fault: ForkFault) -> (Verdict, FindingCode) {
    match fault {
        ForkFault::Format | ForkFault::NoLink => (Verdict::Malformed, FindingCode::ProofMalformed),
        ForkFault::Seal => (Verdict::Forged, FindingCode::SignatureBad),
        ForkFault::Authority => (Verdict::Forged, FindingCode::NotHolder),
        ForkFault::Same
        | ForkFault::Agents
        | ForkFault::Places
        | ForkFault::ParentMissing
        | ForkFault::Parent
        | ForkFault::Void => (Verdict::Malformed, FindingCode::NoConflict),
    }
}

/// `report` with the trust's answers for the keys. All of them count now or none does. An attacker
/// with an expired key can sign a second link wherever the key once signed the first.
fn judged(found: &Equivocation, report: Report, judging: &Judging<'_>) -> Report {
    let mut judged = report.clone();
    let usages: BTreeSet<KeyUsage> = found.signers.iter().map(|signer| signer.usage).collect();
    let mut vouched = true;
    for usage in usages {
        let name = found.name.as_ref().filter(|_| usage == KeyUsage::Native);
        let name = name.map(AgentName::as_str);
        vouched &= judge_root(&mut judged, &found.root, (usage, name), &[], judging);
    }
    let sessions = found.signers.iter().map(|signer| signer.key);
    let sessions: BTreeSet<[u8; 32]> = sessions.filter(|key| *key != found.root).collect();
    for session in &sessions {
        vouched &= judge_session(&mut judged, session, vouched, &[], judging);
    }
    // The link that the two follow is older, and its signer may have passed on the agent since.
    let mut certificates = found
        .signers
        .iter()
        .take(2)
        .filter_map(|signer| signer.certificate);
    let text = "the delegation of a key that signed one of the links does not hold now: a holder of the key may have signed since";
    vouched &= certificates.all(|certificate| holds_now(&mut judged, &certificate, text, judging));
    judged.check(CheckName::Trust, CheckResult::of(vouched), None);
    let text = "a key of the agent ended: a holder of the key signed these two links, before its end or later; nothing here \
                identifies that holder";
    report.judged_unless_ended(judged, text)
}

fn minted(
    found: &Equivocation,
    evidence: Digest,
    report: &Report,
    judging: &Judging<'_>,
) -> Option<Verified<LoggedFork>> {
    if report.verdict != Verdict::Verified {
        return None;
    }
    let fork = LoggedFork {
        record: found.record,
        key: PublicKey::from_bytes(&found.root).ok()?.key_id(),
        evidence,
        place: ForkPlace::Lineage(ForkedLinks {
            parent: found.parent.map(|parent| parent.digest()),
            links: found.links.map(|link| link.digest()),
            seq: found.seq,
        }),
    };
    let grounds = Grounds {
        record: Some(found.record),
        head: None,
        trusted_until: TrustedUntil {
            line: 2,
            byte: report.stats.bytes,
            turn: None,
        },
        trust: judging.trust.digest(),
        now: judging.now,
    };
    Some(Verified::mint(fork, grounds))
}

/// A link of a copy, as far as a known fork may affect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedLink {
    hash: ContentHash,
    prev: Option<ContentHash>,
    seq: Option<u64>,
}

impl PlacedLink {
    /// The link of this header.
    pub fn of(hash: ContentHash, header: &CheckpointHeader) -> Self {
        Self {
            hash,
            prev: header.prev,
            seq: header.native.as_ref().map(|native| native.seq),
        }
    }

    /// Does it claim to be the beginning?
    pub fn is_beginning(&self) -> bool {
        self.prev.is_none()
    }
}

/// The effect of a known fork on a copy that has these links of the agent. `whole`: the copy also
/// has all links before them.
pub fn bearing(
    fork: &LoggedFork,
    links: impl IntoIterator<Item = PlacedLink>,
    whole: bool,
) -> Bearing {
    let ForkPlace::Lineage(ForkedLinks {
        parent,
        links: forked,
        seq,
    }) = fork.place
    else {
        return Bearing::Clear;
    };
    let (mut is_empty, mut newest) = (true, None);
    for link in links {
        let (hash, prev) = (link.hash.digest(), link.prev.map(|prev| prev.digest()));
        let is_forked = |named: &Digest| forked.contains(named) || parent.as_ref() == Some(named);
        if is_forked(&hash) || prev.as_ref().is_some_and(is_forked) {
            return Bearing::Forked;
        }
        is_empty = false;
        newest = newest.max(link.seq);
    }
    let is_before = newest.zip(seq).is_some_and(|(newest, seq)| newest < seq);
    match whole || is_empty || is_before {
        true => Bearing::Clear,
        false => Bearing::Unknown,
    }
}

/// Reports forks that the log of this host knows and that affect this lineage.
pub(super) fn check_known_forks(
    report: &mut Report,
    lineage: &Lineage<'_>,
    seen: &Seen,
    expect: &[Expectation],
) {
    let whole = seen.orphans.is_empty() && !seen.beginnings.is_empty();
    check_forks(report, expect, |fork| {
        let links = seen
            .line
            .keys()
            .filter_map(|index| lineage.all.link(*index));
        let placed = links.map(|link| PlacedLink::of(link.hash, &link.header));
        bearing(fork, placed, whole)
    });
}
