//! Packages as streams, on their way out and in.
//!
//! ```text
//! history in a store ─► OutgoingPackage: head, then the state as it is read from the store
//! Source ─► Behind: as much as the head has, and then the rest of the source is the state
//! ```
//! `threadseal_formats::lineage` defines the contents of a package; this module holds no state.

use crate::lineage::state::{StateBytes, StoredLink};
use crate::read::Source;
use std::fmt;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::{MAX_PACKAGE_BYTES, MAX_REFUSAL_BYTES};
use threadseal_formats::lineage::{Delegation, HEADER_LENGTH, LinkKind, PackageParts};

/// Longest link that moves authority.
pub const MAX_HANDOVER_BYTES: usize = HEADER_LENGTH + 33 + MAX_REFUSAL_BYTES;

/// The parts of a package beside its links and its state.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackageExtras<'a> {
    /// The delegation of the target.
    pub delegation: Option<&'a Delegation>,
    /// The tools that the checkpoint names.
    pub manifest: Option<&'a [u8]>,
    /// The file of receipts that the checkpoint names.
    pub receipts: Option<&'a [u8]>,
}

/// A package on its way out: read it as a [`Source`].
pub struct OutgoingPackage {
    head: StateBytes<Vec<u8>>,
    state: Option<Box<dyn Source + Send>>,
    /// The key of the machine that it is for.
    pub target: PublicKey,
    /// Its length.
    pub bytes: u64,
}

impl OutgoingPackage {
    /// The package of a history, oldest link first, whose last checkpoint brings its state.
    pub(super) fn of(
        history: impl Iterator<Item = Result<StoredLink, Error>>,
        extras: &PackageExtras<'_>,
        target: PublicKey,
    ) -> Result<Self, Error> {
        let (mut links, mut state, mut length) = (Vec::new(), None, 0);
        for link in history {
            let (bytes, rest) = part_of(link?)?;
            if let Some((of, rest)) = rest {
                (state, length) = (rest, of);
            }
            links.push(bytes);
        }
        if state.is_none() {
            let text = "the state of the newest checkpoint is not here";
            return Err(Error::refused(text));
        }
        let links: Vec<&[u8]> = links.iter().map(Vec::as_slice).collect();
        let head = PackageParts {
            links: &links,
            delegation: extras.delegation,
            manifest: extras.manifest,
            receipts: extras.receipts,
        }
        .write(length)?;
        Ok(Self {
            bytes: head.len() as u64 + length,
            head: StateBytes::new(head),
            state,
            target,
        })
    }
}

impl fmt::Debug for OutgoingPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingPackage")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Source for OutgoingPackage {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.head.next_chunk(buffer)?;
        match &mut self.state {
            Some(state) if buffer.is_empty() => state.next_chunk(buffer),
            _ => Ok(()),
        }
    }
}

/// The rest of a source after the head of a package.
pub(super) struct Behind<'s> {
    source: &'s mut dyn Source,
    rest: Vec<u8>,
}

impl<'s> Behind<'s> {
    pub(super) fn new(source: &'s mut dyn Source) -> Self {
        Self {
            source,
            rest: Vec::new(),
        }
    }

    /// The next `length` bytes, or as many as there are.
    pub(super) fn take(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        let mut chunk = Vec::new();
        while self.rest.len() < length {
            self.source.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            self.rest.extend_from_slice(&chunk);
        }
        let later = self.rest.split_off(length.min(self.rest.len()));
        Ok(std::mem::replace(&mut self.rest, later))
    }
}

impl Source for Behind<'_> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        if self.rest.is_empty() {
            return self.source.next_chunk(buffer);
        }
        *buffer = std::mem::take(&mut self.rest);
        Ok(())
    }
}

/// A state that is left out of a link: its length, and itself where it is here.
type LeftOut = (u64, Option<Box<dyn Source + Send>>);

/// A link as a package contains it, and the state that is left out of it.
fn part_of(link: StoredLink) -> Result<(Vec<u8>, Option<LeftOut>), Error> {
    let native = link.header.native.as_ref();
    match native.map(|native| (native.kind, native.state.length)) {
        Some((LinkKind::Checkpoint, length)) => Ok((link.head, Some((length, link.state)))),
        _ => Ok((link.whole(MAX_PACKAGE_BYTES)?, None)),
    }
}
