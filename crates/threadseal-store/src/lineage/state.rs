//! States on their way in and out: in pieces, and checked against the link that seals them.

use crate::read::{CHUNK_BYTES, Source};
use std::fmt;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_formats::lineage::{
    CheckpointHeader, ContentHash, LinkKind, OriginalVerifier, Version, WholeLink, body_length,
};

/// Bytes in memory as a [`Source`].
#[derive(Debug, Clone)]
pub struct StateBytes<B>(B, usize);

/// The state of links that bring none.
pub const NO_STATE: StateBytes<&[u8]> = StateBytes::new(&[]);

impl<B> StateBytes<B> {
    /// These bytes.
    pub const fn new(bytes: B) -> Self {
        Self(bytes, 0)
    }
}

impl<B: AsRef<[u8]>> Source for StateBytes<B> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        buffer.clear();
        let rest = self.0.as_ref().get(self.1..).unwrap_or_default();
        let piece = rest.get(..rest.len().min(CHUNK_BYTES)).unwrap_or_default();
        buffer.extend_from_slice(piece);
        self.1 += piece.len();
        Ok(())
    }
}

/// A link from a store.
pub struct StoredLink {
    /// The header before its state.
    pub header: CheckpointHeader,
    /// The bytes of the header.
    pub head: Vec<u8>,
    /// Its name.
    pub hash: ContentHash,
    /// Its state, which fails at its end where it is not the sealed one; `None` where only the
    /// header is here.
    pub state: Option<Box<dyn Source + Send>>,
}

impl fmt::Debug for StoredLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredLink")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl StoredLink {
    /// A link named `hash` whose first bytes are `head`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when the bytes are no header, or another
    /// link's.
    pub(super) fn new(
        hash: ContentHash,
        head: Vec<u8>,
        state: Option<Box<dyn Source + Send>>,
    ) -> Result<Self, Error> {
        let header = CheckpointHeader::parse(&head)
            .map_err(|error| Error::refused(format!("the stored link {hash}: {error}")))?;
        let expected = match &header.native {
            Some(_) if ContentHash::of(&head) != hash => return Err(damaged(&hash)),
            Some(native) => Expected::State(native.state.length, native.state.digest),
            None => Expected::File(hash),
        };
        let mut hasher = Hasher::new();
        if matches!(expected, Expected::File(_)) {
            hasher.update(&head);
        }
        let checked = |source| -> Box<dyn Source + Send> {
            Box::new(Checked {
                source,
                hasher: Some(hasher),
                seen: 0,
                expected,
                name: hash,
            })
        };
        Ok(Self {
            header,
            head,
            hash,
            state: state.map(checked),
        })
    }

    /// The whole file, of which header and state have at most `limit` bytes.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when the state is not here, is not the sealed
    /// one, or is longer.
    pub fn whole(self, limit: usize) -> Result<Vec<u8>, Error> {
        let text = || format!("the state of the link {} is not here", self.hash);
        let mut state = self.state.ok_or_else(|| Error::refused(text()))?;
        let mut bytes = self.head;
        let room = limit.saturating_sub(bytes.len());
        bytes.extend(read_all(&mut *state, room)?);
        Ok(bytes)
    }

    /// The link with all that it proves alone. The state of a checkpoint of v0x05 is not read for
    /// that.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when its seal does not verify, or the needed
    /// part of its state is not here.
    pub fn verified(mut self) -> Result<WholeLink, Error> {
        let faulty = |fault: &dyn fmt::Display| {
            Error::refused(format!("the stored link {}: {fault}", self.hash))
        };
        let (header, hash) = (self.header.clone(), self.hash);
        match (&header.native, header.version) {
            (Some(native), _) if native.kind == LinkKind::Checkpoint => {
                WholeLink::read_header(&self.head).map_err(|fault| faulty(&fault))
            }
            (Some(native), _) => {
                let limit = body_length(native.kind).unwrap_or(0);
                let mut file = self.head.clone();
                let mut state = self.state.take().ok_or_else(|| damaged(&hash))?;
                file.extend(read_all(&mut *state, limit)?);
                WholeLink::read(&file).map_err(|fault| faulty(&fault))
            }
            (None, Version::V4) => {
                let verifier = OriginalVerifier::new(&header);
                let mut verifier = verifier.map_err(|fault| faulty(&fault))?;
                let mut state = self.state.take().ok_or_else(|| damaged(&hash))?;
                each_chunk(&mut *state, &mut |piece| {
                    verifier.update(piece);
                    Ok(())
                })?;
                verifier.finish().0.map_err(|fault| faulty(&fault))?;
                Ok(WholeLink {
                    header,
                    hash,
                    body: None,
                })
            }
            (None, _) => Ok(WholeLink {
                header,
                hash,
                body: None,
            }),
        }
    }
}

/// The expected digest of the bytes that were read when a state ends.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// v0x05: length and digest of the state.
    State(u64, Digest),
    /// Earlier versions: header and state have this hash.
    File(ContentHash),
}

struct Checked {
    source: Box<dyn Source + Send>,
    /// `None` once the end was verified.
    hasher: Option<Hasher>,
    seen: u64,
    expected: Expected,
    name: ContentHash,
}

impl Source for Checked {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.source.next_chunk(buffer)?;
        self.seen += buffer.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(buffer);
        }
        if !buffer.is_empty() {
            return Ok(());
        }
        let Some(hasher) = self.hasher.take() else {
            return Ok(());
        };
        let found = hasher.finish();
        let holds = match self.expected {
            Expected::State(length, digest) => self.seen == length && found == digest,
            Expected::File(hash) => found == hash.digest(),
        };
        holds.then_some(()).ok_or_else(|| damaged(&self.name))
    }
}

fn damaged(link: &ContentHash) -> Error {
    Error::refused(format!(
        "the stored link {link} is damaged: it differs from what was sealed"
    ))
}

/// Calls `each` with every piece of a source.
pub(super) fn each_chunk(
    source: &mut dyn Source,
    each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut chunk = Vec::new();
    loop {
        source.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(());
        }
        each(&chunk)?;
    }
}

/// All of a source that has at most `limit` bytes.
pub(super) fn read_all(source: &mut dyn Source, limit: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    each_chunk(source, &mut |piece| {
        if bytes.len() + piece.len() > limit {
            return Err(Error::refused("the state is longer than it may be"));
        }
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}
