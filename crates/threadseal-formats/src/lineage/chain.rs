//! Joins the facts of files, in any order, to lineages: by content, never by file name.
//!
//! ```text
//! LinkFacts… ─► Lineages    the same content once; a link is placed after its `prev`
//!            ─► Lineage     linked files, or files signed by one identity
//! ```
//! The order of the files changes nothing but the names in messages. Memory: up to 1,800 bytes for
//! each link, of which there are at most [`MAX_LINEAGE_LINKS`]. Time grows with n log n. The rules
//! between two links are in `policy`; the facts of a whole lineage in `seen`.

use super::facts::{Identity, LinkFacts, LinkRead, ReadLink, Seal};
use super::hash::ContentHash;
use super::header::Version;
use std::collections::{BTreeMap, BTreeSet};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINEAGE_LINKS;
use threadseal_core::record::RecordId;

/// Place of a file among those that were given.
pub(super) type Index = usize;

/// All lineages of a set of files.
#[derive(Debug)]
pub struct Lineages {
    pub(super) facts: Vec<LinkFacts>,
    /// For each file the one that represents its content: itself, or another with the same content.
    pub(super) same: Vec<Index>,
    /// The link before each, where it is here.
    pub(super) parents: Vec<Option<Index>>,
    /// Links that represent their content and name a link before them, by that name.
    by_prev: Vec<Index>,
    groups: Vec<Vec<Index>>,
}

/// One lineage among [`Lineages`]: files that are linked, or are signed by one identity.
#[derive(Debug, Clone, Copy)]
pub struct Lineage<'a> {
    pub(super) all: &'a Lineages,
    /// Its files, in the order of the lineage.
    pub(super) members: &'a [Index],
}

impl Lineages {
    /// Joins the facts of files.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] beyond [`MAX_LINEAGE_LINKS`].
    pub fn join(facts: Vec<LinkFacts>) -> Result<Self, Error> {
        if facts.len() > MAX_LINEAGE_LINKS {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("at most {MAX_LINEAGE_LINKS} checkpoints are verified at once"),
            ));
        }
        let same = representatives(&facts);
        let mut joined = Self {
            parents: vec![None; facts.len()],
            by_prev: Vec::new(),
            groups: Vec::new(),
            facts,
            same,
        };
        joined.hang();
        joined.groups = joined.grouped();
        Ok(joined)
    }

    /// The lineages, those that begin earliest in the set first.
    pub fn iter(&self) -> impl Iterator<Item = Lineage<'_>> {
        self.groups
            .iter()
            .map(|members| Lineage { all: self, members })
    }

    pub(super) fn link(&self, index: Index) -> Option<&ReadLink> {
        match self.facts.get(index).map(|facts| &facts.read) {
            Some(LinkRead::Link(link)) => Some(link),
            _ => None,
        }
    }

    /// The link that `index` follows, if it is here.
    pub(super) fn parent(&self, index: Index) -> Option<Index> {
        self.parents.get(index).copied().flatten()
    }

    /// The links that name `hash` as the one before them.
    pub(super) fn naming(&self, hash: &ContentHash) -> &[Index] {
        let prev = |index: &Index| self.link(*index).and_then(|link| link.header.prev);
        let from = self
            .by_prev
            .partition_point(|index| prev(index).as_ref() < Some(hash));
        let rest = self.by_prev.get(from..).unwrap_or_default();
        let count = rest.partition_point(|index| prev(index).as_ref() == Some(hash));
        rest.get(..count).unwrap_or_default()
    }

    pub(super) fn children(&self, index: Index) -> &[Index] {
        let hash = self.link(index).map(|link| link.hash);
        hash.map_or(&[][..], |hash| self.naming(&hash))
    }

    fn stand_alone(&self) -> impl Iterator<Item = (Index, &ReadLink)> {
        let own = |(place, same): (Index, &Index)| (place == *same).then_some(place);
        let own = self.same.iter().enumerate().filter_map(own);
        own.filter_map(|index| Some((index, self.link(index)?)))
    }

    fn hang(&mut self) {
        let mut by_hash: Vec<(ContentHash, Index)> =
            self.stand_alone().map(|(i, link)| (link.hash, i)).collect();
        by_hash.sort_unstable();
        let mut by_prev: Vec<(ContentHash, ContentHash, Index)> = self
            .stand_alone()
            .filter_map(|(i, link)| Some((link.header.prev?, link.hash, i)))
            .collect();
        by_prev.sort_unstable();
        for (prev, _, child) in &by_prev {
            let found = by_hash.binary_search_by(|(hash, _)| hash.cmp(prev));
            let parent = found.ok().and_then(|at| by_hash.get(at));
            if let (Some((_, parent)), Some(slot)) = (parent, self.parents.get_mut(*child)) {
                *slot = Some(*parent).filter(|parent| parent != child);
            }
        }
        self.by_prev = by_prev.into_iter().map(|(_, _, index)| index).collect();
    }

    /// Files of each lineage, in its order.
    fn grouped(&self) -> Vec<Vec<Index>> {
        let mut sets = Sets::new(self.facts.len());
        for (index, parent) in self.parents.iter().enumerate() {
            if let Some(parent) = parent {
                sets.join(index, *parent);
            }
        }
        for (index, same) in self.same.iter().enumerate() {
            sets.join(index, *same);
        }
        self.join_identities(&mut sets);
        self.join_folders(&mut sets);
        let mut groups: BTreeMap<Index, Vec<Index>> = BTreeMap::new();
        for index in 0..self.facts.len() {
            groups.entry(sets.find(index)).or_default().push(index);
        }
        let mut groups: Vec<Vec<Index>> = groups.into_values().collect();
        for group in &mut groups {
            *group = self.in_order(group);
        }
        groups
    }

    /// Parts of one lineage with missing links between them belong together by their signer. A
    /// stranger's branch does not add other parts that the stranger signed.
    fn join_identities(&self, sets: &mut Sets) {
        let everything: Vec<Index> = (0..self.facts.len()).collect();
        let order = self.in_order(&everything);
        // The key of a part is that of its first good link, else of its first signed one.
        let mut keys: BTreeMap<Index, (bool, [u8; 32])> = BTreeMap::new();
        for index in &order {
            let Some((link, _, root)) = self.signed(*index) else {
                continue;
            };
            let good = link.seal == Seal::Good;
            let known = keys.entry(sets.find(*index)).or_insert((good, root));
            if good && !known.0 {
                *known = (true, root);
            }
        }
        let mut parts: BTreeMap<(Version, Digest), Index> = BTreeMap::new();
        for index in &order {
            let Some((link, identity, root)) = self.signed(*index) else {
                continue;
            };
            let part = sets.find(*index);
            if keys.get(&part).is_none_or(|(_, key)| *key != root) {
                continue;
            }
            let name = (link.version(), identity.agent);
            match parts.get(&name) {
                Some(other) => {
                    let key = keys.get(&part).copied();
                    sets.join(*index, *other);
                    // The joined part continues under the same key.
                    if let Some(key) = key {
                        keys.insert(sets.find(*index), key);
                    }
                }
                None => {
                    parts.insert(name, *index);
                }
            }
        }
    }

    /// Unsigned files belong to the lineage in the same folder, if there is exactly one.
    fn join_folders(&self, sets: &mut Sets) {
        let mut folders: BTreeMap<u32, BTreeSet<Index>> = BTreeMap::new();
        let mut loose = Vec::new();
        for (index, facts) in self.facts.iter().enumerate() {
            let known = folders.entry(facts.folder).or_default();
            match self.signed(index) {
                Some(_) => {
                    known.insert(sets.find(index));
                }
                None => loose.push((index, facts.folder)),
            }
        }
        let mut first: BTreeMap<u32, Index> = BTreeMap::new();
        for (index, folder) in loose {
            let mut lineages = folders.get(&folder).into_iter().flatten();
            match (lineages.next(), lineages.next()) {
                (Some(only), None) => sets.join(index, *only),
                // Unsigned links name nothing: together they are one history at best.
                (None, _) => sets.join(index, *first.entry(folder).or_insert(index)),
                (Some(_), Some(_)) => {}
            }
        }
    }

    fn signed(&self, index: Index) -> Option<(&ReadLink, Identity, [u8; 32])> {
        let link = self.link(index)?;
        Some((link, link.identity?, link.root()?))
    }

    /// The rank of a link among others that do not follow each other. It does not depend on the
    /// order of files.
    fn rank(&self, index: Index) -> (u64, u64, Option<ContentHash>) {
        self.link(index).map_or((u64::MAX, u64::MAX, None), |link| {
            (link.seq().unwrap_or(0), link.header.tick, Some(link.hash))
        })
    }

    /// Each link after the one that it follows, a branch whole before the next.
    fn in_order(&self, group: &[Index]) -> Vec<Index> {
        let own = |index: &&Index| self.same.get(**index) == Some(*index);
        let mut roots: Vec<Index> = group.iter().filter(own).copied().collect();
        roots.retain(|index| self.parent(*index).is_none());
        roots.sort_by_cached_key(|index| self.rank(*index));
        roots.reverse();
        let mut order = Vec::with_capacity(group.len());
        let mut waiting = roots;
        while let Some(index) = waiting.pop() {
            order.push(index);
            let mut children = self.children(index).to_vec();
            children.retain(|child| self.parent(*child) == Some(index));
            children.sort_by_cached_key(|index| self.rank(*index));
            waiting.extend(children.into_iter().rev());
        }
        let copies = group.iter().filter(|index| !own(index));
        order.extend(copies);
        order
    }
}

impl<'a> Lineage<'a> {
    /// Its files: each link after the one that it follows, copies of links last.
    pub fn files(&self) -> impl Iterator<Item = &'a LinkFacts> {
        let all = self.all;
        self.members
            .iter()
            .filter_map(|index| all.facts.get(*index))
    }

    /// Its links, each once, in order, and the place in this list of the one that each follows.
    pub fn links(&self) -> Vec<(&'a ReadLink, Option<usize>)> {
        let mut places = BTreeMap::new();
        let mut links = Vec::new();
        for (index, link) in self.own() {
            let parent = self.all.parent(index);
            links.push((link, parent.and_then(|parent| places.get(&parent).copied())));
            places.insert(index, links.len() - 1);
        }
        links
    }

    /// The records that its links are of: one for each identity that they name.
    pub fn records(&self) -> BTreeSet<RecordId> {
        let identities = self.own().filter_map(|(_, link)| link.identity.as_ref());
        identities.map(|identity| identity.record).collect()
    }

    /// Links that represent their content.
    pub(super) fn own(&self) -> impl Iterator<Item = (Index, &'a ReadLink)> {
        let all = self.all;
        let own = |index: &&Index| all.same.get(**index) == Some(*index);
        let own = self.members.iter().filter(own);
        own.filter_map(|index| Some((*index, all.link(*index)?)))
    }
}

/// Of files with the same content, one represents all: a valid and whole one, where only some are.
fn representatives(facts: &[LinkFacts]) -> Vec<Index> {
    let mut same: Vec<Index> = (0..facts.len()).collect();
    let hash = |index: &Index| match facts.get(*index).map(|facts| &facts.read) {
        Some(LinkRead::Link(link)) => {
            let worse = (link.seal != Seal::Good, !link.has_state);
            Some((link.hash, worse))
        }
        _ => None,
    };
    let mut by_hash: Vec<(ContentHash, (bool, bool), Index)> = same
        .iter()
        .filter_map(|index| hash(index).map(|(hash, worse)| (hash, worse, *index)))
        .collect();
    by_hash.sort_unstable();
    let mut first: Option<(ContentHash, Index)> = None;
    for (hash, _, index) in by_hash {
        match first {
            Some((known, stands)) if known == hash => {
                if let Some(slot) = same.get_mut(index) {
                    *slot = stands;
                }
            }
            _ => first = Some((hash, index)),
        }
    }
    same
}

struct Sets {
    up: Vec<Index>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self {
            up: (0..count).collect(),
        }
    }

    /// The smallest place of the set, so that its name does not depend on the order of joining.
    fn find(&mut self, mut index: Index) -> Index {
        while let Some(up) = self.up.get(index).copied().filter(|up| *up != index) {
            let above = self.up.get(up).copied().unwrap_or(up);
            if let Some(slot) = self.up.get_mut(index) {
                *slot = above;
            }
            index = above;
        }
        index
    }

    fn join(&mut self, a: Index, b: Index) {
        let (a, b) = (self.find(a), self.find(b));
        if let Some(slot) = self.up.get_mut(a.max(b)) {
            *slot = a.min(b);
        }
    }
}

/// The record id of an identity, under which a head store knows a lineage.
pub(super) fn record_of(agent: &Digest) -> RecordId {
    let name = Digest::tagged("threadseal/lineage-record/1", &[agent.as_bytes()]);
    RecordId::from_bytes(*name.as_bytes())
}
