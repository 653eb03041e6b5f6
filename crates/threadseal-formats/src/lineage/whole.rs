//! One whole link in memory, and all that it proves alone.
//!
//! Other modules read a history in pieces and constant memory; packages and tests hold single
//! links. The requirements are the same: the header is valid, the seal holds, and the state is the
//! sealed one.

use super::authority::Link;
use super::delegation::Delegation;
use super::hash::ContentHash;
use super::header::{CheckpointHeader, HeaderError, Version};
use super::links::LinkBody;
use super::v5::{self, LinkKind, SealFault};
use super::{Refusal, v4};
use std::fmt;
use threadseal_core::digest::Digest;

/// A link whose seal holds, if its format has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeLink {
    /// Its header.
    pub header: CheckpointHeader,
    /// Its name.
    pub hash: ContentHash,
    /// Its body, where it is no checkpoint.
    pub body: Option<LinkBody>,
}

/// Why a file is no link whose seal holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkFault {
    /// It does not begin with a header.
    Header(HeaderError),
    /// The signature of v0x04 does not hold.
    Signature,
    /// The seal of v0x05 does not hold.
    Seal(SealFault),
    /// The state is shorter or longer than in the header.
    StateLength,
    /// The state has another digest than in the header.
    StateDigest,
    /// The state of a link that is no checkpoint cannot be read.
    Body,
    /// It may not follow here.
    Place(Refusal),
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => fmt::Display::fmt(error, f),
            Self::Signature => f.write_str("the signature of the checkpoint does not verify"),
            Self::Seal(fault) => fmt::Display::fmt(fault, f),
            Self::StateLength => f.write_str("the state has another length than was sealed"),
            Self::StateDigest => f.write_str("the state is not the one that was sealed"),
            Self::Body => f.write_str("the state of the link is not valid for a link of its kind"),
            Self::Place(refusal) => fmt::Display::fmt(refusal, f),
        }
    }
}

impl std::error::Error for LinkFault {}

impl WholeLink {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The [`LinkFault`], never [`LinkFault::Place`].
    pub fn read(file: &[u8]) -> Result<Self, LinkFault> {
        let header = CheckpointHeader::parse(file).map_err(LinkFault::Header)?;
        Self::of(header, file, &mut None)
    }

    /// The link in `file`, whose header was read from it, after one under the delegation in `held`.
    pub(super) fn of(
        header: CheckpointHeader,
        file: &[u8],
        held: &mut Option<Delegation>,
    ) -> Result<Self, LinkFault> {
        let length = header.version.header_length();
        let (head, state) = file.split_at_checked(length).unwrap_or((file, &[]));
        if let Some(native) = &header.native {
            if native.state.length != state.len() as u64 {
                return Err(LinkFault::StateLength);
            }
            if native.state.digest != Digest::of(state) {
                return Err(LinkFault::StateDigest);
            }
            return Self::of_native(header, head, state, held);
        }
        if header.version == Version::V4 {
            v4::verify(file).map_err(|_| LinkFault::Signature)?;
        }
        Ok(Self {
            header,
            hash: ContentHash::of(file),
            body: None,
        })
    }

    /// Reads the header of a checkpoint of v0x05 whose state is elsewhere.
    ///
    /// # Errors
    /// The [`LinkFault`]; [`LinkFault::Body`] for a link that is no checkpoint, or for bytes after
    /// the header.
    pub fn read_header(bytes: &[u8]) -> Result<Self, LinkFault> {
        let header = CheckpointHeader::parse(bytes).map_err(LinkFault::Header)?;
        Self::of_header(header, bytes, &mut None)
    }

    /// The checkpoint whose header is all of `bytes` and was read from them, after a link as in
    /// [`WholeLink::of`].
    pub(super) fn of_header(
        header: CheckpointHeader,
        bytes: &[u8],
        held: &mut Option<Delegation>,
    ) -> Result<Self, LinkFault> {
        match &header.native {
            Some(native)
                if native.kind == LinkKind::Checkpoint && bytes.len() == v5::HEADER_LENGTH =>
            {
                Self::of_native(header, bytes, &[], held)
            }
            _ => Err(LinkFault::Body),
        }
    }

    /// It, for [`super::Authority::after`].
    pub fn link(&self) -> Link<'_> {
        Link {
            header: &self.header,
            hash: self.hash,
            body: self.body.as_ref(),
        }
    }

    fn of_native(
        header: CheckpointHeader,
        head: &[u8],
        state: &[u8],
        held: &mut Option<Delegation>,
    ) -> Result<Self, LinkFault> {
        v5::verify_read(&header, head, held).map_err(LinkFault::Seal)?;
        let kind = header.native.as_ref().map(|native| native.kind);
        let body = match kind {
            None | Some(LinkKind::Checkpoint) => None,
            Some(kind) => Some(LinkBody::parse(kind, state).map_err(|_| LinkFault::Body)?),
        };
        Ok(Self {
            hash: ContentHash::of(head),
            header,
            body,
        })
    }
}
