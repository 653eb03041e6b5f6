//! Levels of references: how a head stays small however many sealed objects it leads to.
//!
//! ```text
//! levels[0]   references to sealed pieces, the newest last
//! levels[1]   references to indexes of FANOUT references of levels[0]
//! levels[n]   references to indexes of FANOUT references of levels[n-1]
//! ```
//! From the last level to the first, the pieces that they cover are numbered without gap from 0.
//! The users of this module define the other contents of a reference, and the format of an index.

/// References that one index holds.
pub(crate) const FANOUT: usize = 32;
/// Most levels; with all of them full no counter could number the pieces.
pub(crate) const MAX_LEVELS: usize = 14;

/// The pieces that a reference covers.
pub(crate) trait Span {
    /// Number of the first piece.
    fn first(&self) -> u64;

    /// Number of pieces.
    fn count(&self) -> u64;

    /// The number after the last.
    fn end(&self) -> u64 {
        self.first().saturating_add(self.count())
    }
}

/// The end of `refs`, if they begin at `first` and follow each other without gap.
pub(super) fn joins<R: Span>(refs: &[R], first: u64) -> Option<u64> {
    refs.iter().try_fold(first, |next, found| {
        (found.first() == next && found.count() > 0).then(|| found.end())
    })
}

/// The end of all levels, if there is no gap and there are not too many.
pub(super) fn end<R: Span>(levels: &[Vec<R>]) -> Option<u64> {
    let mut below = levels.iter().rev();
    let end = below.try_fold(0, |next, refs| joins(refs, next));
    end.filter(|_| levels.len() <= MAX_LEVELS)
}

/// Adds the newest piece. A full level becomes one index; `fold` makes it from the number of the
/// level and its references.
pub(super) fn push<R>(
    levels: &mut Vec<Vec<R>>,
    level: usize,
    found: R,
    fold: &mut dyn FnMut(usize, Vec<R>) -> R,
) {
    if levels.len() == level {
        levels.push(Vec::new());
    }
    if levels[level].len() == FANOUT {
        let full = std::mem::take(&mut levels[level]);
        let index = fold(level, full);
        push(levels, level + 1, index, fold);
    }
    levels[level].push(found);
}
