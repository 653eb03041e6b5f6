//! Fork proofs: two links that one agent signed in one place; any verifier can check them
//! (`spec/lineage.md` §8.1).
//!
//! ```text
//! "TSFORK1\n"  parts u16le = 2 or 3   then each part: length u64le, bytes          little-endian
//! part 1, 2    the links, that with the smaller content hash first
//! part 3       the link that they follow, where two keys signed them
//! a part       v0x04: the whole file, since its signature is over the state as well
//!              v0x05: the 624 bytes of the header; also the body where the link moves authority
//! ```
//! A proof needs no trust and no network. It shows that the holder of the agent's key signed both,
//! or let another party sign with it. It is read in pieces, since a state of v0x04 has any length.
//!
//! Elsewhere: forks among files (`seen`); the verdict on a proof, and its effect in a log
//! (`accused`).

use super::authority::Authority;
use super::delegation::Certificate;
use super::facts::{FileReader, HEAD_MAGIC, LinkFacts, LinkRead, ReadFault, ReadLink, Seal};
use super::hash::ContentHash;
use super::header::Version;
use super::identity::AgentName;
use super::links::LinkBody;
use super::v5::{HEADER_LENGTH, LinkKind};
use std::fmt;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_core::key::KeyUsage;
use threadseal_core::record::RecordId;

/// The beginning of a proof, up to an LF.
pub const FORK_FIRST_LINE: &str = "TSFORK1";
const MAGIC: &[u8; 8] = b"TSFORK1\n";
/// The magic and the number of parts.
const PREFIX_LENGTH: usize = 10;
/// The length before each part.
const LENGTH_LENGTH: usize = 8;

/// The fork that a proof shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Equivocation {
    /// The agent id; for v0x04 the digest of the agent's key. For links of two versions, that of
    /// the older.
    pub agent: Digest,
    /// The id under which logs and stores of heads know it.
    pub record: RecordId,
    /// Its name, from v0x05.
    pub name: Option<AgentName>,
    /// The agent's key, as its raw bytes.
    pub root: [u8; 32],
    /// The link that both follow; `None` where both are beginnings, or only have one number.
    pub parent: Option<ContentHash>,
    /// The two links.
    pub links: [ContentHash; 2],
    /// The lesser of their numbers, where they are of v0x05.
    pub seq: Option<u64>,
    /// The signers of the two, then of the link that they follow, where that is in the proof.
    pub signers: Vec<LinkSigner>,
}

/// The signer of a link of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSigner {
    /// The key, as its raw bytes.
    pub key: [u8; 32],
    /// The usage under which it signed.
    pub usage: KeyUsage,
    /// The delegation by the agent's key, where the signer is another key.
    pub certificate: Option<Certificate>,
}

/// Why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkFault {
    /// It is no proof: other magic, other parts, too short or too long.
    Format,
    /// A part is no checkpoint.
    NoLink,
    /// The seal of a link does not hold, or its format has none.
    Seal,
    /// Both parts are one link, or they are in the wrong order.
    Same,
    /// The links are of two agents.
    Agents,
    /// They neither follow one link nor have one number.
    Places,
    /// Two keys signed, and the link that they follow is not in the proof.
    ParentMissing,
    /// The third part is not the link that both follow.
    Parent,
    /// One of the two was signed by a key without the authority, so it is not the agent's fork.
    Authority,
    /// One is the recovery that replaces the other.
    Void,
}

impl fmt::Display for ForkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "this is not a fork proof",
            Self::NoLink => "a part is not a checkpoint",
            Self::Seal => "the seal of a link does not hold",
            Self::Same => "it does not contain two links in their order",
            Self::Agents => "the links belong to two agents",
            Self::Places => "the links are not in one place",
            Self::ParentMissing => {
                "two keys signed, and the proof lacks the link that shows which of them could sign"
            }
            Self::Parent => "the third part is not the link that both follow",
            Self::Authority => "one of the links was signed without authority",
            Self::Void => "one of the links is the recovery that replaces the other",
        })
    }
}

impl std::error::Error for ForkFault {}

/// How many bytes of a link's file a proof needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofPart {
    /// Where they begin in it.
    pub from: u64,
    /// How many.
    pub bytes: u64,
}

impl ProofPart {
    /// The bytes before the part.
    pub fn prefix(&self) -> [u8; LENGTH_LENGTH] {
        self.bytes.to_le_bytes()
    }

    /// Of a file whose seal holds.
    ///
    /// # Errors
    /// Kind `InvalidInput` where its format has no signature, or it is no checkpoint.
    pub fn of(facts: &LinkFacts) -> Result<Self, Error> {
        let link = facts.link();
        match link.map(|link| (link.version(), &link.header.native)) {
            Some((Version::V4, _)) => Ok(Self {
                from: 0,
                bytes: facts.bytes,
            }),
            Some((Version::V5, Some(native))) if native.kind == LinkKind::Checkpoint => Ok(Self {
                from: match link.is_some_and(|link| link.has_state) {
                    true => 0,
                    false => HEAD_MAGIC.len() as u64,
                },
                bytes: HEADER_LENGTH as u64,
            }),
            Some((Version::V5, Some(_))) => Ok(Self {
                from: 0,
                bytes: facts.bytes,
            }),
            _ => Err(Error::invalid("only signed links make a fork proof")),
        }
    }
}

/// The bytes before the parts of a proof: two links, and whether the link that they follow comes
/// after them.
pub fn proof_prefix(with_parent: bool) -> Vec<u8> {
    let parts = 2 + u16::from(with_parent);
    [MAGIC.as_slice(), &parts.to_le_bytes()].concat()
}

/// Reads a proof from its first byte to its last.
#[derive(Debug, Default)]
pub struct ForkReader {
    /// Bytes of the prefix, or of the length of the next part.
    head: Vec<u8>,
    parts: Option<u16>,
    reading: Option<(u64, FileReader)>,
    read: Vec<LinkFacts>,
    broken: bool,
    /// The hash of all bytes read.
    hasher: Hasher,
    bytes: u64,
}

impl ForkReader {
    /// A reader before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut chunk: &[u8]) {
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        while !chunk.is_empty() && !self.broken {
            chunk = match &mut self.reading {
                Some((left, reader)) => {
                    let room = usize::try_from(*left).unwrap_or(usize::MAX);
                    let (taken, rest) = chunk.split_at(room.min(chunk.len()));
                    reader.push(taken);
                    *left -= taken.len() as u64;
                    rest
                }
                None => self.begin(chunk),
            };
            self.end_part();
        }
    }

    /// The end of the proof: the fork that it shows.
    ///
    /// # Errors
    /// The [`ForkFault`].
    pub fn finish(self) -> Result<Equivocation, ForkFault> {
        let whole = self.reading.is_none() && self.head.is_empty() && !self.broken;
        let parts = self.parts.map(usize::from);
        if !whole || parts != Some(self.read.len()) {
            return Err(ForkFault::Format);
        }
        let mut links = self.read.iter().map(|facts| match &facts.read {
            LinkRead::Link(link) => holds(link).then_some(link).ok_or(ForkFault::Seal),
            LinkRead::Refused(_) => Err(ForkFault::NoLink),
        });
        let mut next = || links.next().transpose();
        let (Some(first), Some(second), parent) = (next()?, next()?, next()?) else {
            return Err(ForkFault::Format);
        };
        prove(first, second, parent.map(|link| &**link))
    }

    /// The same, with the digest and the length of the bytes read.
    pub(super) fn finish_with_digest(mut self) -> (Digest, u64, Result<Equivocation, ForkFault>) {
        let (digest, bytes) = (std::mem::take(&mut self.hasher).finish(), self.bytes);
        (digest, bytes, self.finish())
    }

    /// Takes the missing bytes of the prefix or of a length; returns the rest.
    fn begin<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        let needed = match self.parts {
            None => PREFIX_LENGTH,
            Some(parts) if self.read.len() < usize::from(parts) => LENGTH_LENGTH,
            Some(_) => {
                // There are bytes after the last part.
                self.broken = true;
                return &[];
            }
        };
        let room = needed.saturating_sub(self.head.len());
        let (taken, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(taken);
        if self.head.len() == needed {
            let head = std::mem::take(&mut self.head);
            self.take_head(&head);
        }
        rest
    }

    fn take_head(&mut self, head: &[u8]) {
        if self.parts.is_none() {
            let count = head.strip_prefix(MAGIC.as_slice());
            let count = count.and_then(|count| count.try_into().ok());
            match count.map(u16::from_le_bytes) {
                Some(parts @ 2..=3) => self.parts = Some(parts),
                _ => self.broken = true,
            }
        } else if let Ok(length) = head.try_into() {
            self.reading = Some((u64::from_le_bytes(length), FileReader::new()));
        }
    }

    fn end_part(&mut self) {
        if let Some((_, reader)) = self.reading.take_if(|(left, _)| *left == 0) {
            self.read.push(reader.finish("", 0));
        }
    }
}

/// In a checkpoint of v0x05 only the header is signed, and a proof has no more of it. A link that
/// moves authority needs its body: the body may declare the other link void.
fn holds(link: &ReadLink) -> bool {
    let is_header = link.version() == Version::V5 && !link.is_handover() && link.state_bytes == 0;
    link.seal == Seal::Good || (is_header && link.seal == Seal::Bad(ReadFault::State))
}

fn prove(
    first: &ReadLink,
    second: &ReadLink,
    parent: Option<&ReadLink>,
) -> Result<Equivocation, ForkFault> {
    if first.hash >= second.hash {
        return Err(ForkFault::Same);
    }
    let older = match first.version() < second.version() {
        true => first,
        false => second,
    };
    let (Some(identity), Some(root)) = (older.identity, older.root()) else {
        return Err(ForkFault::Seal);
    };
    let same = match (first.version(), second.version()) {
        (Version::V5, Version::V5) => first.identity == second.identity,
        _ => first.root() == second.root(),
    };
    if !same {
        return Err(ForkFault::Agents);
    }
    let follow = first.header.prev == second.header.prev;
    // A key of v0x04 may be that of several agents of v0x05, each with its beginning.
    let begin = first.header.prev.is_none() && first.version() == second.version();
    let numbered = first.seq().is_some() && first.seq() == second.seq();
    if !(follow && (first.header.prev.is_some() || begin)) && !numbered {
        return Err(ForkFault::Places);
    }
    for (recovery, other) in [(first, second), (second, first)] {
        if let (Some(LinkBody::Recover(recover)), true) = (recovery.body.as_deref(), follow)
            && recover.void == Some(other.hash)
        {
            return Err(ForkFault::Void);
        }
    }
    entitled(first, second, parent.filter(|_| follow))?;
    if parent.is_some() && !follow {
        return Err(ForkFault::Parent);
    }
    let native = |link: &ReadLink| {
        link.header
            .native
            .as_ref()
            .map(|native| native.name.clone())
    };
    Ok(Equivocation {
        agent: identity.agent,
        record: identity.record,
        name: native(first).or_else(|| native(second)),
        root,
        parent: first.header.prev.filter(|_| follow),
        links: [first.hash, second.hash],
        seq: first.seq().min(second.seq()),
        signers: [first, second]
            .into_iter()
            .chain(parent)
            .filter_map(signer)
            .collect(),
    })
}

fn signer(link: &ReadLink) -> Option<LinkSigner> {
    let native = link.header.native.as_ref();
    Some(LinkSigner {
        key: link.header.signer?,
        usage: native.map_or(KeyUsage::Igor, |_| KeyUsage::Native),
        certificate: native.and_then(|native| native.certificate),
    })
}

/// Could both signers sign there? If one key signed both, the agent, or the key's holder, did it.
fn entitled(
    first: &ReadLink,
    second: &ReadLink,
    parent: Option<&ReadLink>,
) -> Result<(), ForkFault> {
    let Some(parent) = parent else {
        let one_key = first.header.signer == second.header.signer;
        return one_key.then_some(()).ok_or(ForkFault::ParentMissing);
    };
    if Some(parent.hash) != first.header.prev {
        return Err(ForkFault::Parent);
    }
    let held = Authority::Unknown
        .after(&parent.step())
        .map_err(|_| ForkFault::Parent)?;
    for link in [first, second] {
        held.after(&link.step()).map_err(|_| ForkFault::Authority)?;
    }
    Ok(())
}
