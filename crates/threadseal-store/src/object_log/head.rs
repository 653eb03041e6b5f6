//! [`Head`]: the one object of a log that is written again, and how its items are sealed.
//!
//! The head holds the newest items, so that an append is one write that is done or not. Full, they
//! are sealed into segments, which the first level names. [`super::FANOUT`] segments make an index,
//! which the second level names, and so on. From the last level to the first and then in the head,
//! the items are numbered without gap.

use super::format::{Facts as _, Format, Names, Reference as _};
use super::levels::{self, Span as _};
use crate::objects::Sealed;
use crate::objects::spell::{self, json, line};
use serde::Deserialize;
use threadseal_core::digest::Digest;

/// The end of a log, and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head<F: Format> {
    pub(crate) facts: F::Facts,
    /// Level 0 names segments, each other one indexes of the level below; the newest last.
    pub(crate) levels: Vec<Vec<F::Ref>>,
    /// The items that are not sealed.
    pub(crate) open: Vec<F::Item>,
}

impl<F: Format> Head<F> {
    /// A head without items: of a log that begins, or was deleted.
    pub(crate) fn bare(facts: F::Facts) -> Self {
        Self {
            facts,
            levels: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Number of the first item that is not sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.facts.end().saturating_sub(self.open.len() as u64)
    }

    pub(crate) fn encode(&self, name: &F::Name) -> Vec<u8> {
        let mut body = F::form(name, &self.facts, &self.levels).into_bytes();
        F::write_items(&self.open, &mut body);
        spell::summed(F::HEAD, &body)
    }

    /// Reads the bytes that [`Head::encode`] wrote for this log; `None` for anything else.
    pub(crate) fn decode(name: &F::Name, bytes: &[u8]) -> Option<Self> {
        let (form, items) = line(spell::body(F::HEAD, bytes)?)?;
        let (facts, levels) = F::parse_form(name, form)?;
        let head = Self {
            facts,
            levels,
            open: F::parse_items(items)?,
        };
        let is_whole = match head.facts.is_deleted() {
            true => head.levels.is_empty() && head.open.is_empty(),
            false => {
                let sealed = levels::end(&head.levels)?;
                sealed.checked_add(head.open.len() as u64) == Some(head.facts.end())
            }
        };
        let are_spelled = head.levels.iter().flatten().all(F::Ref::is_spelled);
        let agrees = is_whole && are_spelled && F::agrees(&head.facts, &head.open);
        let is_canonical = !F::ONE_SPELLING || head.encode(name) == bytes;
        (agrees && is_canonical).then_some(head)
    }

    /// Adds items that the facts count already. Returns the objects that must be written before
    /// this head.
    pub(crate) fn push(
        &mut self,
        name: &F::Name,
        items: impl IntoIterator<Item = F::Item>,
    ) -> Vec<Sealed> {
        self.open.extend(items);
        match F::is_full(&self.open) {
            true => self.seal_open(name),
            false => Vec::new(),
        }
    }

    /// Seals all items that are not sealed yet.
    pub(crate) fn seal_open(&mut self, name: &F::Name) -> Vec<Sealed> {
        let mut first = self.sealed();
        let (open, facts) = (std::mem::take(&mut self.open), &self.facts);
        let mut sealed = Vec::new();
        for segment in F::segments(&open) {
            let bytes = F::encode_segment(name, first, segment);
            let count = segment.len() as u64;
            let found = F::reference(facts, first, count, &bytes, Some(segment));
            first = found.end();
            sealed.push(Sealed {
                name: Names::<F>::segment(name, &found),
                bytes,
            });
            levels::push(&mut self.levels, 0, found, &mut |level, full| {
                let (index, object) = seal_index::<F>(name, facts, level, &full);
                sealed.push(object);
                index
            });
        }
        sealed
    }
}

/// Seals the references to the objects of one level, at least one.
fn seal_index<F: Format>(
    name: &F::Name,
    facts: &F::Facts,
    level: usize,
    refs: &[F::Ref],
) -> (F::Ref, Sealed) {
    let first = refs.first().map_or(0, F::Ref::first);
    let end = refs.last().map_or(0, F::Ref::end);
    let text = json(&F::text(name));
    let bytes = format!(
        "{}{{\"{}\":{},\"level\":{level},\"refs\":{}}}\n",
        F::INDEX,
        F::NAME_MEMBER,
        text.trim_end(),
        json(&refs).trim_end()
    );
    let bytes = bytes.into_bytes();
    let found = F::reference(facts, first, end.saturating_sub(first), &bytes, None);
    let name = Names::<F>::index(name, level, &found);
    (found, Sealed { name, bytes })
}

/// The references in an index; `None` unless it is the index of `wanted`, without gaps.
pub(super) fn parse_index<F: Format>(
    name: &F::Name,
    level: usize,
    wanted: &F::Ref,
    bytes: &[u8],
) -> Option<Vec<F::Ref>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form<R> {
        #[serde(alias = "run")]
        name: String,
        level: usize,
        refs: Vec<R>,
    }
    if Digest::of(bytes).to_hex() != wanted.sha256() {
        return None;
    }
    let form: Form<F::Ref> =
        serde_json::from_slice(bytes.strip_prefix(F::INDEX.as_bytes())?).ok()?;
    let fits = form.name == F::text(name)
        && form.level == level
        && form.refs.iter().all(F::Ref::is_spelled)
        && levels::joins(&form.refs, wanted.first()) == Some(wanted.end());
    fits.then_some(form.refs)
}
