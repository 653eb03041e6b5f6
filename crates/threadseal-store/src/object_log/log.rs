//! [`SegmentedLog`]: reading one log through its head, and replacing the head.
//!
//! ```text
//! the head that was read ─► sealed objects, if any ─► the next head ─┬─ stored
//!                                  ▲                                 └─ refused, or no answer ─► read the head
//!                                  └──────── the one before ◄────────────────────────────────────┤
//!                                                the next one: stored ◄──────────────────────────┤
//!                                                  another one: overtaken ◄──────────────────────┘
//! ```
//! A write may be sent again. Of two copies of one request one can win, and no two heads have the
//! same bytes. After an error nothing is promised: the items of the failed write may be there.

use super::format::{Format, Names};
use super::head::{Head, parse_index};
use super::levels::Span;
use super::retry::Failures;
use crate::objects::{self, Objects, Put, Sealed, Version};
use std::ops::ControlFlow;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};

/// A head and its version in the storage.
pub(crate) type FoundHead<F> = (Head<F>, Version);

/// The result of a write of a head.
#[must_use = "the head may not have been written"]
pub(crate) enum Written<F: Format> {
    /// It is the head.
    Stored(Version),
    /// This one is in its place.
    Overtaken(FoundHead<F>),
}

/// Takes the number of the first of some items, and the items.
pub(crate) type Visit<'v, I> = dyn FnMut(u64, &[I]) -> Result<ControlFlow<()>, Error> + 'v;

/// One log in object storage.
#[derive(Debug, Clone)]
pub(crate) struct SegmentedLog<F: Format> {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) name: F::Name,
}

impl<F: Format> SegmentedLog<F> {
    pub(crate) fn new(objects: &Arc<dyn Objects>, name: &F::Name) -> Self {
        Self {
            objects: Arc::clone(objects),
            name: name.clone(),
        }
    }

    pub(crate) fn damaged(&self, object: &str, how: &str) -> Error {
        objects::damaged(&*self.objects, object, how)
    }

    pub(crate) fn head_name(&self) -> String {
        Names::<F>::head(&self.name)
    }

    #[cfg(test)]
    pub(crate) fn segment_name(&self, found: &F::Ref) -> String {
        Names::<F>::segment(&self.name, found)
    }

    #[cfg(test)]
    pub(crate) fn gone_name(&self) -> String {
        Names::<F>::gone(&self.name)
    }

    /// The folders of its sealed objects.
    pub(crate) fn folders(&self) -> [String; 2] {
        [
            Names::<F>::segments(&self.name),
            Names::<F>::indexes(&self.name),
        ]
    }

    /// The head as it is now.
    pub(crate) fn fetch(&self) -> Result<Option<FoundHead<F>>, Error> {
        let name = self.head_name();
        let read = || self.objects.read(&name, F::MAX_HEAD_BYTES);
        let found = Failures::default().until(read)?;
        found
            .map(|found| Ok((self.decode(&found.bytes)?, found.version)))
            .transpose()
    }

    fn decode(&self, bytes: &[u8]) -> Result<Head<F>, Error> {
        Head::decode(&self.name, bytes)
            .ok_or_else(|| self.damaged(&self.head_name(), "is damaged; check it with fsck"))
    }

    /// Writes `sealed`, and then `next` in place of `before`, or where there is no head.
    pub(crate) fn write(
        &self,
        before: Option<(&Head<F>, &Version)>,
        next: &Head<F>,
        sealed: &[Sealed],
    ) -> Result<Written<F>, Error> {
        self.seal_all(sealed)?;
        let (name, bytes) = (self.head_name(), next.encode(&self.name));
        let mut version = before.map(|(_, version)| version.clone());
        let mut failures = Failures::default();
        loop {
            let put = match &version {
                None => self.objects.create(&name, &bytes),
                Some(version) => self.objects.replace_if(&name, version, &bytes),
            };
            let is_refused = match put {
                Ok(Put::Stored(version)) => return Ok(Written::Stored(version)),
                Ok(Put::Differs) => true,
                Err(error) => {
                    failures.again(error)?;
                    false
                }
            };
            let found = failures.until(|| self.objects.read(&name, F::MAX_HEAD_BYTES))?;
            match (found, before) {
                (Some(found), _) if found.bytes == bytes => {
                    return Ok(Written::Stored(found.version));
                }
                (Some(found), Some((head, _)))
                    if Some(&found.version) == version.as_ref()
                        || found.bytes == head.encode(&self.name) =>
                {
                    version = Some(found.version);
                }
                (Some(found), _) => {
                    let head = self.decode(&found.bytes)?;
                    return Ok(Written::Overtaken((head, found.version)));
                }
                (None, Some(_)) => return Err(self.damaged(&name, "disappeared")),
                (None, None) => {}
            }
            if is_refused {
                let text = format!("{name} is unchanged, but cannot be replaced");
                failures.again(Error::new(ErrorKind::External, text))?;
            }
        }
    }

    /// Writes objects whose names follow from their bytes.
    pub(crate) fn seal_all(&self, sealed: &[Sealed]) -> Result<(), Error> {
        sealed.iter().try_for_each(|object| {
            let seal = || objects::seal(&*self.objects, &object.name, &object.bytes);
            Failures::default().until(seal)
        })
    }

    /// Marks the log as deleted in listings.
    pub(crate) fn mark_gone(&self) -> Result<(), Error> {
        self.seal_all(&[Sealed {
            name: Names::<F>::gone(&self.name),
            bytes: Vec::new(),
        }])
    }

    pub(crate) fn is_marked_gone(&self) -> Result<bool, Error> {
        Ok(self
            .objects
            .read(&Names::<F>::gone(&self.name), 1)?
            .is_some())
    }

    /// Removes all objects in `folder`.
    pub(crate) fn remove_folder(&self, folder: &str) -> Result<(), Error> {
        objects::each_name(&*self.objects, folder, &mut |names| {
            names.iter().try_for_each(|name| {
                let remove = || self.objects.remove(&format!("{folder}/{name}"));
                Failures::default().until(remove)
            })
        })
    }

    fn sealed(&self, name: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let found = Failures::default().until(|| self.objects.read(name, limit))?;
        let found = found.ok_or_else(|| self.damaged(name, "is missing"))?;
        Ok(found.bytes)
    }

    /// The references in the index of `level` at `found`.
    pub(crate) fn index(&self, level: usize, found: &F::Ref) -> Result<Vec<F::Ref>, Error> {
        let name = Names::<F>::index(&self.name, level, found);
        let bytes = self.sealed(&name, F::MAX_INDEX_BYTES)?;
        let refs = parse_index::<F>(&self.name, level, found, &bytes);
        refs.ok_or_else(|| self.damaged(&name, "does not match its name"))
    }

    /// The items of a segment; there are as many as it must have.
    pub(crate) fn segment(&self, found: &F::Ref) -> Result<Vec<F::Item>, Error> {
        let name = Names::<F>::segment(&self.name, found);
        let bytes = self.sealed(&name, F::MAX_SEGMENT_BYTES)?;
        let items = F::parse_segment(&self.name, found, bytes);
        items.ok_or_else(|| self.damaged(&name, "is not what its head names"))
    }

    /// Visits the items of all segments that end after `from`, oldest first, and then those of the
    /// head.
    pub(crate) fn forward(
        &self,
        head: &Head<F>,
        from: u64,
        visit: &mut Visit<'_, F::Item>,
    ) -> Result<(), Error> {
        for (level, refs) in head.levels.iter().enumerate().rev() {
            if self.down(level, refs, from, visit)?.is_break() {
                return Ok(());
            }
        }
        visit(head.sealed(), &head.open).map(drop)
    }

    fn down(
        &self,
        level: usize,
        refs: &[F::Ref],
        from: u64,
        visit: &mut Visit<'_, F::Item>,
    ) -> Result<ControlFlow<()>, Error> {
        for found in refs.iter().filter(|found| found.end() > from) {
            let flow = match level.checked_sub(1) {
                None => visit(found.first(), &self.segment(found)?)?,
                Some(below) => self.down(below, &self.index(below, found)?, from, visit)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The index of each level that was read last.
#[derive(Debug)]
pub(crate) struct Indexes<F: Format>(Vec<Option<KnownIndex<F>>>);

type KnownIndex<F> = (<F as Format>::Ref, Arc<Vec<<F as Format>::Ref>>);

impl<F: Format> Default for Indexes<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F: Format> Indexes<F> {
    /// The object of `level` that holds the item `number`. Of level 0 it is a segment, of level `n`
    /// an index of level `n - 1`. `None` when there is none.
    pub(crate) fn find(
        &mut self,
        log: &SegmentedLog<F>,
        head: &Head<F>,
        level: usize,
        number: u64,
    ) -> Result<Option<F::Ref>, Error> {
        let direct = head.levels.iter().enumerate().rev();
        let mut direct = direct.filter_map(|(at, refs)| Some((at, holding(refs, number)?)));
        let Some((top, found)) = direct.next().filter(|(top, _)| *top >= level) else {
            return Ok(None);
        };
        let mut found = found.clone();
        for below in (level..top).rev() {
            let refs = self.index(log, below, &found)?;
            found = holding(&refs, number)
                .ok_or_else(|| log.damaged("an index", "has a gap"))?
                .clone();
        }
        Ok(Some(found))
    }

    fn index(
        &mut self,
        log: &SegmentedLog<F>,
        level: usize,
        found: &F::Ref,
    ) -> Result<Arc<Vec<F::Ref>>, Error> {
        if self.0.len() <= level {
            self.0.resize(level + 1, None);
        }
        if let Some((known, refs)) = &self.0[level]
            && known == found
        {
            return Ok(Arc::clone(refs));
        }
        let refs = Arc::new(log.index(level, found)?);
        self.0[level] = Some((found.clone(), Arc::clone(&refs)));
        Ok(refs)
    }
}

/// The one of `refs` that holds the item `number`.
pub(crate) fn holding<R: Span>(refs: &[R], number: u64) -> Option<&R> {
    let mut all = refs.iter();
    all.find(|found| found.first() <= number && number < found.end())
}
