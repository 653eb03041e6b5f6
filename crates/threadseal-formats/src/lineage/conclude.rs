//! The verdict on a lineage (`spec/lineage.md` §8).
//!
//! ```text
//! files ─► FileReader (any order, any core) ─► Lineages ─► each Lineage ─► conclude
//! Lineage + expectations + trust + now ─► Outcome { report, Verified<LineageHead>? }
//! ```
//! A lineage that holds under the key that it names itself is only *consistent*. An attacker who
//! can write the files can sign other ones. Only a key for which the trust vouches makes it
//! *authentic*. The format has no end mark, so only a head that the verifier holds proves that it
//! was not truncated.

use super::accused::check_known_forks;
use super::authority::Authority;
use super::chain::{Index, Lineage, Lineages};
use super::compat;
use super::delegation::Certificate;
use super::expected::check_heads;
use super::facts::{LinkFacts, ReadLink, Seal};
use super::hash::ContentHash;
use super::header::Version;
use super::seen::{Seen, View};
use crate::verified::{Grounds, Verified};
use std::collections::BTreeMap;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Expectation, Finding, FindingCode, Format, Profile,
    Report, SignerReport, SignerStatus, Stats, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Purpose, ScopeFormat, Standing, Trust};

/// The inputs of the verdict besides the files.
#[derive(Debug, Clone)]
pub struct Judging<'a> {
    /// Whose signature counts.
    pub trust: &'a Trust,
    /// The moment by which validity windows are judged.
    pub now: Timestamp,
    /// Heads that the lineage must contain.
    pub expect: Vec<Expectation>,
    /// The code that may have run; any code, where the list is empty.
    pub code: &'a [Digest],
    /// The relation of the files.
    pub view: View,
    /// When this verifier held the head of the lineage before: evidence against later revocations.
    pub held_since: Option<Timestamp>,
    /// Whether the outcome shall have all links, to be drawn.
    pub draw: bool,
}

impl<'a> Judging<'a> {
    /// Judging by `trust` at `now`, with nothing else known.
    pub fn new(trust: &'a Trust, now: Timestamp) -> Self {
        Self {
            trust,
            now,
            expect: Vec::new(),
            code: &[],
            view: View::History,
            held_since: None,
            draw: false,
        }
    }
}

/// The facts that a verified lineage proves: its newest link.
#[derive(Debug, Clone)]
pub struct LineageHead {
    /// The link.
    pub link: ReadLink,
    /// Links before it, where they are known.
    pub position: Option<u64>,
    /// The authority after it.
    pub authority: Authority,
}

impl LineageHead {
    /// As a head for a head store: `seq` is the number of links before it, `size` its tick. `None`
    /// where its history is not known, or it is unsigned.
    pub fn head(&self) -> Option<Head> {
        head_of(&self.link, self.position)
    }

    /// When the link was made, by the claim of its signer.
    fn time(&self) -> Option<Timestamp> {
        let micros = self.link.time()? / 1000;
        Timestamp::from_micros(u64::try_from(micros).ok()?).ok()
    }
}

/// Several links that the agent signed in a place for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The link that they follow; `None` where they are beginnings, or only have one number.
    pub parent: Option<ContentHash>,
    /// The file of that link, by its place among those that were given.
    pub parent_file: Option<usize>,
    /// The links.
    pub children: Vec<ForkChild>,
}

/// One of the links of a fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkChild {
    /// It.
    pub hash: ContentHash,
    /// Its file, by its place among those that were given.
    pub file: usize,
    /// The caller's name of the file.
    pub name: Box<str>,
}

/// A link for drawing, after the one that it follows.
#[derive(Debug, Clone)]
pub struct DrawnLink {
    /// It.
    pub link: ReadLink,
    /// The caller's name of its file.
    pub name: Box<str>,
    /// The link that it follows, where that is here.
    pub parent: Option<ContentHash>,
    /// Is it of the line: signed by the lineage's identity, with no forgery found?
    pub of_line: bool,
    /// Codes of its findings.
    pub findings: Vec<FindingCode>,
}

/// The end of a verification.
#[derive(Debug)]
pub struct Outcome {
    /// The report to show.
    pub report: Report,
    /// Present exactly when the verdict is `verified`.
    pub verified: Option<Verified<LineageHead>>,
    /// The newest link without evidence against it, whichever key signed it.
    pub tip: Option<LineageHead>,
    /// The forks.
    pub forks: Vec<Fork>,
    /// All links, each after the one that it follows; none unless they are to be drawn.
    pub links: Vec<DrawnLink>,
}

/// Judges the lineages of a set of files.
///
/// # Errors
/// As [`Lineages::join`].
pub fn judge(facts: Vec<LinkFacts>, judging: &Judging<'_>) -> Result<Vec<Outcome>, Error> {
    let lineages = Lineages::join(facts)?;
    let outcomes = lineages.iter().map(|lineage| conclude(&lineage, judging));
    Ok(outcomes.collect())
}

/// Gives the verdict on a lineage.
pub fn conclude(lineage: &Lineage<'_>, judging: &Judging<'_>) -> Outcome {
    let seen = Seen::of(lineage, judging.view);
    let tip = tip(lineage, &seen);
    let mut report = Report::begin(Format::Lineage, profile(lineage));
    report.stats = stats(lineage, &seen);
    report.trust = Some(judging.trust.digest());
    report.record = record(lineage, &seen);
    check_chain(&mut report, &seen, judging.view);
    check_code(&mut report, lineage, judging.code);
    let sound = !report.verdict.is_evidence();
    let vouched = check_signers(&mut report, lineage, &seen, tip.as_ref(), judging);
    let met = check_heads(&mut report, lineage, &seen, &judging.expect, judging.view);
    check_known_forks(&mut report, lineage, &seen, &judging.expect);
    if sound && met {
        report.completeness = Completeness::Head;
    }
    check_protection(&mut report, lineage, &seen, judging);
    let igor = compat::of(lineage, judging.view);
    report.compat.extend(igor.map(|answer| ("igor", answer)));
    let tip = tip.filter(|_| sound);
    report.head = tip.as_ref().and_then(LineageHead::head);
    report.dates.sealed = tip.as_ref().and_then(LineageHead::time);
    report.trusted_until = seen.until.filter(|_| vouched);
    Outcome {
        verified: mint(&report, tip.as_ref(), judging),
        forks: forks(lineage, &seen),
        links: match judging.draw {
            true => drawn(lineage, &seen),
            false => Vec::new(),
        },
        tip,
        report,
    }
}

fn profile(lineage: &Lineage<'_>) -> Profile {
    let native = |(_, link): (Index, &ReadLink)| link.version() == Version::V5;
    if lineage.own().any(native) {
        Profile::ThreadSeal
    } else {
        Profile::Igor
    }
}

fn stats(lineage: &Lineage<'_>, seen: &Seen) -> Stats {
    Stats {
        bytes: lineage.files().map(|facts| facts.bytes).sum(),
        events: lineage.files().filter(|f| f.link().is_some()).count() as u64,
        checkpoints: seen.signed,
    }
}

/// The newest link of the line, if there is one.
fn tip(lineage: &Lineage<'_>, seen: &Seen) -> Option<LineageHead> {
    let [index] = seen.tips.as_slice() else {
        return None;
    };
    Some(LineageHead {
        link: lineage.all.link(*index)?.clone(),
        position: seen.line.get(index).copied().flatten(),
        // A forged or void child does not move the authority, and its state is not known here.
        authority: seen.ends.get(index).cloned().unwrap_or(Authority::Unknown),
    })
}

/// The record of the newest identity of the line, else of the identity that the files claim.
fn record(lineage: &Lineage<'_>, seen: &Seen) -> Option<RecordId> {
    let of_line = lineage
        .own()
        .filter(|(index, _)| seen.line.contains_key(index));
    let newest = of_line.filter_map(|(_, link)| link.identity).last();
    let any = || lineage.own().find_map(|(_, link)| link.identity);
    newest.or_else(any).map(|identity| identity.record)
}

fn head_of(link: &ReadLink, position: Option<u64>) -> Option<Head> {
    Some(Head {
        record: link.identity?.record,
        seq: position?,
        size: link.header.tick,
        line: link.hash.digest(),
    })
}

fn drawn(lineage: &Lineage<'_>, seen: &Seen) -> Vec<DrawnLink> {
    let all = lineage.all;
    let draw = |(index, link): (Index, &ReadLink)| DrawnLink {
        link: link.clone(),
        name: all
            .facts
            .get(index)
            .map(|facts| facts.name.clone())
            .unwrap_or_default(),
        parent: all.parent(index).and_then(|p| Some(all.link(p)?.hash)),
        of_line: seen.line.contains_key(&index),
        findings: seen.findings.of(index).to_vec(),
    };
    lineage.own().map(draw).collect()
}

fn forks(lineage: &Lineage<'_>, seen: &Seen) -> Vec<Fork> {
    let child = |index: &Index| {
        let facts = lineage.all.facts.get(*index)?;
        Some(ForkChild {
            hash: facts.link()?.hash,
            file: *index,
            name: facts.name.clone(),
        })
    };
    let forks = seen.forks.iter().map(|fork| Fork {
        parent: fork.parent,
        parent_file: fork
            .children
            .first()
            .and_then(|index| lineage.all.parent(*index))
            .filter(|_| fork.parent.is_some()),
        children: fork.children.iter().filter_map(child).collect(),
    });
    forks.collect()
}

/// Links, the rules between them, and missing links.
fn check_chain(report: &mut Report, seen: &Seen, view: View) {
    if let Some(worst) = seen.findings.worst {
        report.hold(worst);
    }
    for finding in &seen.findings.list {
        report.find(finding.clone());
    }
    let sound = seen.findings.worst.is_none();
    if view == View::Single {
        let why = "only one link was given: the links before it were not checked".to_owned();
        report.check(CheckName::History, CheckResult::Skipped, Some(why));
    } else {
        report.check(CheckName::History, CheckResult::of(sound), None);
    }
    report.check(
        CheckName::Forks,
        CheckResult::of(seen.forks.is_empty()),
        None,
    );
}

/// The code that ran, where the caller names some.
fn check_code(report: &mut Report, lineage: &Lineage<'_>, allowed: &[Digest]) {
    if allowed.is_empty() {
        return;
    }
    let mut good = true;
    for (_, link) in lineage.own() {
        if !allowed.contains(&link.header.code) {
            good = false;
            let text = format!("link {} was made by other code", link.hash);
            let finding =
                Finding::error(FindingCode::CodeDiffers, text).in_turn(Some(link.header.tick));
            report.downgrade(Verdict::Foreign, finding);
        }
    }
    report.check(CheckName::Code, CheckResult::of(good), None);
}

/// A key of an agent, and the usage under which it signed.
type RootUse = ([u8; 32], KeyUsage);

/// Judges the keys under which seals hold; true when the trust vouches for those of the line.
fn check_signers(
    report: &mut Report,
    lineage: &Lineage<'_>,
    seen: &Seen,
    tip: Option<&LineageHead>,
    judging: &Judging<'_>,
) -> bool {
    let mut roots: BTreeMap<RootUse, (bool, Option<&str>)> = BTreeMap::new();
    let mut sessions: BTreeMap<[u8; 32], bool> = BTreeMap::new();
    for (index, link) in lineage.own() {
        let (Seal::Good, Some(root), Some(signer)) = (link.seal, link.root(), link.header.signer)
        else {
            continue;
        };
        let native = link.header.native.as_ref();
        let usage = native.map_or(KeyUsage::Igor, |_| KeyUsage::Native);
        let of_line = seen.line.contains_key(&index);
        let name = native.map(|native| native.name.as_str());
        roots.entry((root, usage)).or_insert((false, name)).0 |= of_line;
        if signer != root {
            *sessions.entry(signer).or_default() |= of_line;
        }
        if roots.len() + sessions.len() > MAX_RECORD_KEYS {
            let text = "more keys sign this lineage than a verifier supports";
            report.downgrade(
                Verdict::Malformed,
                Finding::error(FindingCode::TooManyKeys, text),
            );
            return false;
        }
    }
    if seen.signed == 0 {
        let why = "no link is signed".to_owned();
        report.check(CheckName::Signatures, CheckResult::Skipped, Some(why));
        return false;
    }
    let bad = lineage
        .own()
        .any(|(_, link)| matches!(link.seal, Seal::Bad(_)));
    report.check(CheckName::Signatures, CheckResult::of(!bad), None);
    let mut vouched = !seen.line.is_empty();
    let heads: Vec<Head> = tip.and_then(LineageHead::head).into_iter().collect();
    for ((root, usage), (of_line, name)) in &roots {
        let counts = judge_root(report, root, (*usage, *name), &heads, judging);
        vouched &= counts || !of_line;
    }
    for (session, of_line) in &sessions {
        vouched &= judge_session(report, session, vouched, &heads, judging) || !of_line;
    }
    vouched &= check_window(report, tip, judging);
    report.check(CheckName::Trust, CheckResult::of(vouched), None);
    vouched
}

pub(super) fn judge_root(
    report: &mut Report,
    key: &[u8; 32],
    (usage, agent): (KeyUsage, Option<&str>),
    heads: &[Head],
    judging: &Judging<'_>,
) -> bool {
    // A seal that holds has a usable key.
    let Ok(key) = PublicKey::from_bytes(key) else {
        return false;
    };
    let judgement = judging.trust.judge(
        &key,
        &Purpose {
            usage,
            format: ScopeFormat::Lineage,
            thread: agent,
            evidence: judging.held_since,
            heads,
        },
        judging.now,
    );
    report.signer(&key, &judgement)
}

/// The root vouches for the keys that it delegated to; this checks only for a revocation.
pub(super) fn judge_session(
    report: &mut Report,
    key: &[u8; 32],
    vouched: bool,
    heads: &[Head],
    judging: &Judging<'_>,
) -> bool {
    let Ok(key) = PublicKey::from_bytes(key) else {
        return false;
    };
    let purpose = Purpose {
        usage: KeyUsage::Native,
        format: ScopeFormat::Lineage,
        thread: None,
        evidence: judging.held_since,
        heads,
    };
    let judgement = judging.trust.judge_unpinned(&key, &purpose, judging.now);
    if matches!(judgement.standing, Standing::Revoked { .. }) {
        return report.signer(&key, &judgement);
    }
    report.signers.push(SignerReport {
        key: key.key_id().to_hex(),
        did: Some(key.to_did_key()),
        name: judgement.name.map(|name| name.as_str().to_owned()),
        status: if vouched {
            SignerStatus::Trusted
        } else {
            SignerStatus::Unknown
        },
        sealed_by: Vec::new(),
    });
    vouched
}

/// The newest link alone covers all others. So its signer's delegation must hold now, or have held
/// when this verifier first had the link. The time in the link is its signer's claim.
fn check_window(report: &mut Report, tip: Option<&LineageHead>, judging: &Judging<'_>) -> bool {
    let native = tip.and_then(|tip| tip.link.header.native.as_ref());
    let Some(certificate) = native.and_then(|native| native.certificate.as_ref()) else {
        return true;
    };
    let text = "the delegation of the newest link's signer does not hold now, and nothing proves that the link is older";
    holds_now(report, certificate, text, judging)
}

/// Does a delegation hold now, or did it hold when this verifier first had the bytes signed under
/// it? `text` reports that it does not.
pub(super) fn holds_now(
    report: &mut Report,
    certificate: &Certificate,
    text: &str,
    judging: &Judging<'_>,
) -> bool {
    let at = judging.held_since.unwrap_or(judging.now).as_micros();
    let at = i64::try_from(at).unwrap_or(i64::MAX).saturating_mul(1000);
    if certificate.covers(at) {
        return true;
    }
    report.downgrade(
        Verdict::UnknownSigner,
        Finding::warning(FindingCode::DelegationEnded, text),
    );
    false
}

/// Does anything protect this lineage?
fn check_protection(
    report: &mut Report,
    lineage: &Lineage<'_>,
    seen: &Seen,
    judging: &Judging<'_>,
) {
    for index in &seen.bare {
        if let Some(facts) = lineage.all.facts.get(*index) {
            report
                .unauthenticated
                .push(format!("checkpoint={}", facts.name));
        }
    }
    if seen.signed > 0 || seen.bare.is_empty() {
        return;
    }
    if !judging.trust.pinned.is_empty() {
        let text = "the lineage is not signed, and a signature by a named key was asked for";
        let finding = Finding::error(FindingCode::SignatureMissing, text);
        return report.downgrade(Verdict::Forged, finding);
    }
    let text = "this format has no signature: any writer of the file can change it";
    report.downgrade(
        Verdict::Unsigned,
        Finding::note(FindingCode::Unsigned, text),
    );
}

fn mint(
    report: &Report,
    tip: Option<&LineageHead>,
    judging: &Judging<'_>,
) -> Option<Verified<LineageHead>> {
    if report.verdict != Verdict::Verified {
        return None;
    }
    let tip = tip?;
    let grounds = Grounds {
        record: tip.link.identity.map(|identity| identity.record),
        head: tip.head(),
        trusted_until: report.trusted_until?,
        trust: judging.trust.digest(),
        now: judging.now,
    };
    Some(Verified::mint(tip.clone(), grounds))
}
