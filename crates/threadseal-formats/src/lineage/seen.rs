//! The facts of one lineage, before any decision about trust.
//!
//! ```text
//! Lineage ─► Seen    faults of links and between links, forks, ends, how far it holds
//! ```
//! A link is *of the line* when its seal holds and the line's identity signed it. Also, no rule
//! between it and its parent may make it forged. Only such links fork. A link beside the line,
//! signed by a stranger or unsigned, is forged. It is not reported as the agent's act. `conclude`
//! turns the facts into a verdict.

use super::authority::Authority;
use super::chain::{Index, Lineage};
use super::facts::{LinkFacts, LinkRead, ReadLink, Seal};
use super::findings::{at, not_one, told};
use super::hash::ContentHash;
use super::header::Version;
use super::links::LinkBody;
use super::policy::{self, Breach};
use std::collections::{BTreeMap, BTreeSet};
use threadseal_core::limits::MAX_FINDINGS;
use threadseal_core::report::{Finding, FindingCode, Severity, TrustedUntil, Verdict};

/// The relation of the files of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// They are, or should be, all links of their lineage.
    #[default]
    History,
    /// One link, whose history was not asked for.
    Single,
}

/// Two or more links of the line in a place for one.
#[derive(Debug, Clone)]
pub(super) struct Forking {
    /// The link that they all follow; `None` where all are beginnings, or where they only have the
    /// same number.
    pub(super) parent: Option<ContentHash>,
    /// The links.
    pub(super) children: Vec<Index>,
}

/// All facts of a lineage.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) findings: Findings,
    pub(super) forks: Vec<Forking>,
    /// Links of the line without a link of the line after them.
    pub(super) tips: Vec<Index>,
    /// Links of the line whose parent is not here, beginnings aside.
    pub(super) orphans: Vec<Index>,
    /// Beginnings of the line: without `prev`, or unsigned and named by the line.
    pub(super) beginnings: Vec<Index>,
    /// Links that are unsigned and not covered.
    pub(super) bare: Vec<Index>,
    /// Links of the line, and their places from its beginning where all earlier links are here.
    pub(super) line: BTreeMap<Index, Option<u64>>,
    /// The authority after a link that nothing follows.
    pub(super) ends: BTreeMap<Index, Authority>,
    /// Links of branches that a recovery replaced.
    pub(super) voided: BTreeSet<Index>,
    /// Links with a signature, good or not.
    pub(super) signed: u64,
    /// Files that are no checkpoint.
    pub(super) refused: u64,
    /// The line up to the first evidence against it.
    pub(super) until: Option<TrustedUntil>,
}

/// Evidence against a lineage, and findings that only inform: of each code one more
/// than a report takes, but every verdict.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) worst: Option<Verdict>,
    pub(super) list: Vec<Finding>,
    counts: BTreeMap<FindingCode, usize>,
    against: BTreeSet<Index>,
    codes: BTreeMap<Index, Vec<FindingCode>>,
}

impl Findings {
    fn add(&mut self, index: Option<Index>, verdict: Option<Verdict>, finding: Finding) {
        if let Some(verdict) = verdict {
            self.worst = Some(self.worst.map_or(verdict, |worst| worst.min(verdict)));
            self.against.extend(index);
        }
        if let Some(index) = index {
            self.codes.entry(index).or_default().push(finding.code);
        }
        let count = self.counts.entry(finding.code).or_default();
        *count += 1;
        if *count <= MAX_FINDINGS + 1 {
            self.list.push(finding);
        }
    }

    /// Codes of the findings of this link.
    pub(super) fn of(&self, index: Index) -> &[FindingCode] {
        self.codes.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Is there evidence against this link?
    pub(super) fn are_against(&self, index: Index) -> bool {
        self.against.contains(&index)
    }
}

impl Seen {
    /// Examines a lineage whose files relate as `view` states.
    pub(super) fn of(lineage: &Lineage<'_>, view: View) -> Self {
        let mut seen = Self::default();
        seen.files(lineage);
        seen.transitions(lineage);
        seen.unsigned(lineage, view);
        seen.ends(lineage, view);
        seen.forking(lineage);
        seen.names(lineage, view);
        seen.reach(lineage);
        seen
    }

    fn files(&mut self, lineage: &Lineage<'_>) {
        for index in lineage.members {
            let Some(facts) = lineage.all.facts.get(*index) else {
                continue;
            };
            match &facts.read {
                LinkRead::Refused(why) => {
                    self.refused += 1;
                    let (verdict, finding) = not_one(facts, why);
                    self.findings.add(Some(*index), Some(verdict), finding);
                }
                LinkRead::Link(link) => {
                    self.signed += u64::from(link.seal != Seal::Unsigned);
                    if let Seal::Bad(fault) = link.seal {
                        let (verdict, code, text) = told(fault);
                        let finding = at(facts, link, Severity::Error, code, text);
                        self.findings.add(Some(*index), Some(verdict), finding);
                    }
                }
            }
        }
    }

    /// Follows each link from the one before it, and finds out which are of the line.
    fn transitions(&mut self, lineage: &Lineage<'_>) {
        let all = lineage.all;
        let mut key: Option<[u8; 32]> = None;
        let mut led_to: BTreeMap<Index, (Authority, usize)> = BTreeMap::new();
        for (index, child) in lineage.own() {
            let before = all.parent(index);
            let parent = before.and_then(|index| all.link(index));
            let held = match (before, child.header.prev) {
                (Some(before), _) => take(&mut led_to, before),
                (None, None) => Authority::Nobody,
                (None, Some(_)) => Authority::Unknown,
            };
            let sound = !matches!(child.seal, Seal::Bad(_));
            let mut next = Authority::Unknown;
            let mut of_line = child.seal == Seal::Good;
            if sound {
                if let Some(parent) = parent {
                    policy::transition(parent, child, &mut |breach| {
                        self.breach(index, lineage, breach);
                    });
                }
                match held.after(&child.step()) {
                    Ok(after) => next = after,
                    Err(why) => {
                        of_line = false;
                        let breach = match parent {
                            Some(parent) => policy::refused(parent, child, why),
                            None => policy::refused_first(why),
                        };
                        self.breach(index, lineage, breach);
                    }
                }
            }
            let strays = parent.is_some_and(|parent| parent.seal != Seal::Unsigned)
                && before.is_some_and(|before| !self.line.contains_key(&before));
            if let (true, Some(root)) = (of_line && !strays, child.root()) {
                // The first signature gives the line its key; `chain` orders no other link before
                // it.
                if *key.get_or_insert(root) == root {
                    self.line.insert(index, place(child, before, &self.line));
                }
            }
            match all.children(index).len() {
                0 => self.ends.insert(index, next).map(|_| ()),
                children => led_to.insert(index, (next, children)).map(|_| ()),
            };
        }
        self.void(lineage);
    }

    /// A recovery may name the branch that it replaces: that branch is void, and is no fork.
    fn void(&mut self, lineage: &Lineage<'_>) {
        let all = lineage.all;
        let recoveries: Vec<(ContentHash, ContentHash)> = self
            .line
            .keys()
            .filter_map(|index| {
                match (
                    all.link(*index)?.body.as_deref(),
                    all.link(*index)?.header.prev,
                ) {
                    (Some(LinkBody::Recover(recover)), Some(prev)) => Some((prev, recover.void?)),
                    _ => None,
                }
            })
            .collect();
        for (prev, void) in recoveries {
            // Only a branch beside the recovery: a recovery cannot undo the links that it builds
            // on.
            let named = |index: &&Index| all.link(**index).is_some_and(|link| link.hash == void);
            let mut waiting: Vec<Index> = all.naming(&prev).iter().filter(named).copied().collect();
            while let Some(index) = waiting.pop() {
                if self.line.remove(&index).is_some() {
                    self.voided.insert(index);
                }
                waiting.extend(all.children(index));
            }
        }
        for index in self.voided.clone() {
            let text = "the agent's root key took the authority from the key that signed it";
            let breach = Breach::look(Severity::Note, FindingCode::LinkVoid, text);
            self.breach(index, lineage, breach);
        }
    }

    fn breach(&mut self, index: Index, lineage: &Lineage<'_>, breach: Breach) {
        if let Some(facts) = lineage.all.facts.get(index)
            && let Some(link) = lineage.all.link(index)
        {
            let finding = at(facts, link, breach.severity, breach.code, breach.text);
            self.findings.add(Some(index), breach.verdict, finding);
        }
    }

    /// Unsigned links: a history from before there was an identity, or links with stripped
    /// signatures.
    fn unsigned(&mut self, lineage: &Lineage<'_>, view: View) {
        let all = lineage.all;
        if self.line.is_empty() && self.signed == 0 {
            self.bare = lineage.own().map(|(index, _)| index).collect();
            return;
        }
        let old = |link: &ReadLink| link.version() < Version::V4;
        let named = |index: Index| {
            let children = all.children(index);
            children.iter().any(|child| self.line.contains_key(child))
        };
        let unsigned: Vec<(Index, &ReadLink)> =
            lineage.own().filter(|(_, link)| old(link)).collect();
        // igor cuts the history where it gets an identity: its first signed link has no parent.
        // ThreadSeal's first link names the last unsigned one, and then vouches for it.
        let first_tick = self.line.keys().filter_map(|index| {
            let link = all.link(*index)?;
            let cut = link.version() == Version::V4 && link.header.prev.is_none();
            let linked = all.parent(*index).and_then(|parent| all.link(parent));
            (cut || linked.is_some_and(old)).then_some(link.header.tick)
        });
        let first_tick = first_tick.min();
        for (index, link) in unsigned {
            if matches!(link.seal, Seal::Bad(_)) {
                continue;
            }
            let named = named(index);
            let before = first_tick.is_some_and(|tick| link.header.tick <= tick);
            let facts = all.facts.get(index);
            let Some(facts) = facts else { continue };
            if before && !named {
                self.bare.push(index);
                let text = "it is from before the lineage was signed, and nothing covers it";
                let finding = at(
                    facts,
                    link,
                    Severity::Warning,
                    FindingCode::UnsignedPrefix,
                    text,
                );
                self.findings.add(Some(index), None, finding);
            } else if before && view == View::History {
                self.beginnings.push(index);
                let text = "it is from before the lineage was signed; the first signed link confirms its bytes";
                let finding = at(
                    facts,
                    link,
                    Severity::Note,
                    FindingCode::UnsignedPrefix,
                    text,
                );
                self.findings.add(Some(index), None, finding);
            } else if !before {
                let text = "it is not signed, and this lineage is signed";
                let finding = at(
                    facts,
                    link,
                    Severity::Error,
                    FindingCode::UnsignedMember,
                    text,
                );
                self.findings
                    .add(Some(index), Some(Verdict::Forged), finding);
            }
        }
    }

    fn ends(&mut self, lineage: &Lineage<'_>, view: View) {
        let all = lineage.all;
        let line: Vec<Index> = lineage
            .own()
            .filter_map(|(index, _)| self.line.contains_key(&index).then_some(index))
            .collect();
        for index in line {
            let children = all.children(index);
            let is_tip = !children.iter().any(|child| self.line.contains_key(child));
            if is_tip {
                self.tips.push(index);
            }
            self.stateless(lineage, index, is_tip);
            let (Some(link), None) = (all.link(index), all.parent(index)) else {
                continue;
            };
            match link.header.prev {
                None => self.beginnings.push(index),
                Some(_) => self.orphans.push(index),
            }
        }
        if view == View::Single {
            return;
        }
        let begins = !self.beginnings.is_empty();
        for index in self.orphans.clone() {
            let (Some(facts), Some(link)) = (all.facts.get(index), all.link(index)) else {
                continue;
            };
            let (verdict, code, text) = if begins || self.orphans.len() > 1 {
                let text = "the link before it is not here";
                (Verdict::Truncated, FindingCode::Gap, text)
            } else {
                let text = "the lineage begins before it, and the links before it are not here";
                (Verdict::Partial, FindingCode::NoGenesis, text)
            };
            let finding = at(facts, link, Severity::Error, code, text);
            self.findings.add(Some(index), Some(verdict), finding);
        }
    }

    /// A header proves its place in the lineage; starting an agent from a link needs its state.
    fn stateless(&mut self, lineage: &Lineage<'_>, index: Index, is_tip: bool) {
        let (Some(facts), Some(link)) = (lineage.all.facts.get(index), lineage.all.link(index))
        else {
            return;
        };
        if link.has_state {
            return;
        }
        let (severity, verdict) = match is_tip {
            true => (Severity::Warning, Some(Verdict::Partial)),
            false => (Severity::Note, None),
        };
        let finding = at(
            facts,
            link,
            severity,
            FindingCode::StateAbsent,
            "only its header is here",
        );
        self.findings.add(Some(index), verdict, finding);
    }

    /// Two links of the line with one parent, two beginnings, or two links with one number.
    fn forking(&mut self, lineage: &Lineage<'_>) {
        let mut by_parent: BTreeMap<Option<ContentHash>, Vec<Index>> = BTreeMap::new();
        let mut by_number: BTreeMap<u64, Vec<Index>> = BTreeMap::new();
        for (index, link) in lineage.own() {
            if self.line.contains_key(&index) {
                by_parent.entry(link.header.prev).or_default().push(index);
                if let Some(seq) = link.seq() {
                    by_number.entry(seq).or_default().push(index);
                }
            }
        }
        let forks = by_parent.into_iter().filter(|(_, links)| links.len() > 1);
        for (parent, children) in forks {
            self.fork(lineage, Forking { parent, children });
        }
        let forked: BTreeSet<Index> = self
            .forks
            .iter()
            .flat_map(|fork| fork.children.iter().copied())
            .collect();
        // After a fork every number occurs twice: only the fork itself is reported.
        if forked.is_empty() {
            let twice = by_number.into_values().find(|links| links.len() > 1);
            if let Some(children) = twice {
                let parent = None;
                self.fork(lineage, Forking { parent, children });
            }
        }
    }

    fn fork(&mut self, lineage: &Lineage<'_>, fork: Forking) {
        let names: Vec<&str> = fork
            .children
            .iter()
            .take(MAX_SHOWN_CHILDREN)
            .filter_map(|index| lineage.all.facts.get(*index).map(|facts| &*facts.name))
            .collect();
        let links: Vec<&ReadLink> = fork
            .children
            .iter()
            .filter_map(|index| lineage.all.link(*index))
            .collect();
        let beginnings = links.iter().all(|link| link.header.prev.is_none());
        let names = names.join(" and ");
        let text = match (fork.parent, beginnings) {
            (Some(parent), _) => {
                format!("{names}: the agent signed both as the link after {parent}")
            }
            (None, true) => format!("{names}: the agent signed both as its beginning"),
            (None, false) => format!("{names}: the agent signed both under the same number"),
        };
        let last = fork.children.last().copied();
        self.findings.add(
            last,
            Some(Verdict::Forked),
            Finding::error(FindingCode::Fork, text)
                .in_turn(links.last().map(|link| link.header.tick)),
        );
        if beginnings {
            let text =
                format!("{names}: the lineage begins twice, as if its history had been discarded");
            let finding = Finding::error(FindingCode::SecondGenesis, text);
            self.findings.add(last, Some(Verdict::Forked), finding);
        }
        self.forks.push(fork);
    }

    /// The same content under several names, and names that contradict their content.
    fn names(&mut self, lineage: &Lineage<'_>, view: View) {
        if view == View::Single {
            return;
        }
        let all = lineage.all;
        let homes = homes(lineage);
        for index in lineage.members {
            let same = all.same.get(*index).copied().unwrap_or(*index);
            let (Some(facts), Some(link)) = (all.facts.get(*index), all.link(*index)) else {
                continue;
            };
            let claims = facts.claimed_tick();
            let misnamed = claims.is_some_and(|tick| tick != link.header.tick);
            let copied = all.facts.get(same).filter(|_| same != *index);
            match copied {
                Some(first) if misnamed || renamed(first, link) => {
                    let text = format!(
                        "it occurs here a second time, under the name of another tick ({})",
                        first.name
                    );
                    let finding = at(facts, link, Severity::Error, FindingCode::Replay, &text);
                    self.findings
                        .add(Some(*index), Some(Verdict::RolledBack), finding);
                }
                Some(first) if !facts.is_live() && !first.is_live() => {
                    let text = format!("it is a copy of {}", first.name);
                    let finding = at(facts, link, Severity::Note, FindingCode::Duplicate, &text);
                    self.findings.add(Some(*index), None, finding);
                }
                Some(_) => {}
                None if misnamed => {
                    let text = "its name is that of another tick; names prove nothing";
                    let finding = at(facts, link, Severity::Note, FindingCode::NameDiffers, text);
                    self.findings.add(Some(*index), None, finding);
                }
                None => {}
            }
            if facts.is_live() {
                let is_here = |index: Index| homes.contains(&(index, facts.home));
                self.live(lineage, same, facts, &is_here);
            }
        }
    }

    /// The checkpoint from which an agent would start must be the end of its history, or the one
    /// before. A writer archives a link before it publishes it.
    fn live(
        &mut self,
        lineage: &Lineage<'_>,
        index: Index,
        facts: &LinkFacts,
        is_here: &dyn Fn(Index) -> bool,
    ) {
        let Some(link) = facts.link() else { return };
        let followers = |index: Index| -> Vec<Index> {
            let children = lineage.all.children(index).iter().copied();
            children
                .filter(|child| self.line.contains_key(child))
                .collect()
        };
        let next = followers(index);
        if !self.line.contains_key(&index) || next.is_empty() {
            return;
        }
        if link.is_handover() && !next.iter().any(|next| is_here(*next)) {
            let text = "the agent continued on another machine, whose links are beside these";
            let finding = at(
                facts,
                link,
                Severity::Note,
                FindingCode::LiveElsewhere,
                text,
            );
            self.findings.add(Some(index), None, finding);
        } else if next.iter().any(|next| followers(*next).is_empty()) {
            let text = "its history continues for one link: a writer was stopped, or the older link was put back";
            let finding = at(
                facts,
                link,
                Severity::Warning,
                FindingCode::LiveBehind,
                text,
            );
            self.findings.add(Some(index), None, finding);
        } else {
            let text = "the agent would start from it, but its history continues after it";
            let finding = at(facts, link, Severity::Error, FindingCode::LiveBehind, text);
            self.findings
                .add(Some(index), Some(Verdict::RolledBack), finding);
        }
    }

    /// The part of the line from its beginning without evidence against it.
    fn reach(&mut self, lineage: &Lineage<'_>) {
        let all = lineage.all;
        let begins: Vec<Index> = self
            .beginnings
            .iter()
            .chain(&self.orphans)
            .copied()
            .collect();
        let [first] = begins.as_slice() else { return };
        let (mut line, mut byte) = (0, 0);
        let mut next = Some(*first);
        while let Some(index) = next {
            let partial = self.orphans.contains(&index) && self.beginnings.is_empty();
            if self.findings.are_against(index) && !partial {
                break;
            }
            let (Some(facts), Some(link)) = (all.facts.get(index), all.link(index)) else {
                break;
            };
            line += 1;
            byte += facts.bytes;
            let turn = Some(link.header.tick);
            self.until = Some(TrustedUntil { line, byte, turn });
            let children = all.children(index).iter();
            let mut children = children.filter(|child| self.line.contains_key(child));
            next = children
                .next()
                .copied()
                .filter(|_| children.next().is_none());
        }
    }
}

/// The stores of each link.
fn homes(lineage: &Lineage<'_>) -> BTreeSet<(Index, u32)> {
    let all = lineage.all;
    let home = |index: &Index| {
        let same = all.same.get(*index).copied()?;
        Some((same, all.facts.get(*index)?.home))
    };
    lineage.members.iter().filter_map(home).collect()
}

/// The authority before the children of `index`; the last of them removes it.
fn take(led_to: &mut BTreeMap<Index, (Authority, usize)>, index: Index) -> Authority {
    match led_to.remove(&index) {
        Some((held, waiting)) if waiting > 1 => {
            led_to.insert(index, (held.clone(), waiting - 1));
            held
        }
        Some((held, _)) => held,
        None => Authority::Unknown,
    }
}

/// Most links that a fork's message names.
const MAX_SHOWN_CHILDREN: usize = 4;

/// The place of a link from the beginning of its lineage, from 0.
fn place(
    link: &ReadLink,
    parent: Option<Index>,
    line: &BTreeMap<Index, Option<u64>>,
) -> Option<u64> {
    if link.seq().is_some() {
        return link.seq();
    }
    match (link.header.prev, parent) {
        (None, _) => Some(0),
        (Some(_), Some(parent)) => match line.get(&parent) {
            Some(before) => before.and_then(|before| before.checked_add(1)),
            // An unsigned link names no previous link.
            None => Some(1),
        },
        (Some(_), None) => None,
    }
}

/// Is the copy that was met first the one with the wrong name?
fn renamed(first: &LinkFacts, link: &ReadLink) -> bool {
    first
        .claimed_tick()
        .is_some_and(|tick| tick != link.header.tick)
}
