//! The package that the source sends to the target of a release (`spec/lineage.md` §10.2).
//!
//! ```text
//! 0   8  "TSMOVE1\n"
//! 8   8  head length u64le: bytes of the parts
//! 16  8  state length u64le
//! 24  .. parts, in this order: kind u16le ‖ 0 u16le ‖ length u32le ‖ bytes
//!          1 link        each, oldest first: a checkpoint of v0x05 as its header, any other
//!                        link of v0x05 as its header and state, an older checkpoint as its
//!                        whole file
//!          2 delegation  of the target, as a file            at most once
//!          3 manifest    of the tools                        where the checkpoint names one
//!          4 receipts    the file                            where the checkpoint names one
//!     .. the state of the checkpoint, to the end
//! ```
//! The last two links are the checkpoint and the release. Since links of v0x05 are named by their
//! headers, all history is proved without any state but the last. Nothing is released before
//! everything is checked. A state too large for memory goes through [`StateCheck`] on its way to
//! storage, which must allow its removal.
//!
//! The caller must know the agent's root key: it is an argument, never read from the package.

use super::authority::{Authority, Offer};
use super::delegation::Delegation;
use super::hash::ContentHash;
use super::header::CheckpointHeader;
use super::identity::AgentName;
use super::receipts::{Receipt, parse_receipts};
use super::standing::{Standing, StandingFault};
use super::v5::{LinkKind, StateSeal};
use super::whole::{LinkFault, WholeLink};
use std::fmt;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::limits::{MAX_PACKAGE_BYTES, MAX_PACKAGE_LINKS};

/// Bytes before the parts.
pub const PACKAGE_PROLOGUE_LENGTH: usize = 24;
const MAGIC: &[u8; 8] = b"TSMOVE1\n";
const PART_HEADER: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Link,
    Delegation,
    Manifest,
    Receipts,
}

impl Part {
    const ALL: [Self; 4] = [Self::Link, Self::Delegation, Self::Manifest, Self::Receipts];

    fn number(self) -> u16 {
        match self {
            Self::Link => 1,
            Self::Delegation => 2,
            Self::Manifest => 3,
            Self::Receipts => 4,
        }
    }
}

/// How long the rest of a package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackagePrologue {
    /// Bytes of the parts.
    pub head: usize,
    /// Bytes of the state after them.
    pub state: u64,
}

impl PackagePrologue {
    /// Reads the first bytes of a package.
    ///
    /// # Errors
    /// [`PackageFault::Shape`] where they are invalid, or announce a head beyond
    /// [`MAX_PACKAGE_BYTES`].
    pub fn parse(bytes: &[u8; PACKAGE_PROLOGUE_LENGTH]) -> Result<Self, PackageFault> {
        let [magic, head, state] = bytes.as_chunks::<8>().0 else {
            return Err(PackageFault::Shape);
        };
        let head = usize::try_from(u64::from_le_bytes(*head)).map_err(|_| PackageFault::Shape)?;
        if magic != MAGIC || head > MAX_PACKAGE_BYTES {
            return Err(PackageFault::Shape);
        }
        let state = u64::from_le_bytes(*state);
        Ok(Self { head, state })
    }
}

/// The contents of a package besides the state.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackageParts<'a> {
    /// All links, oldest first, in the form that the module's documentation gives. The last two are
    /// the checkpoint and the release.
    pub links: &'a [&'a [u8]],
    /// The delegation of the target.
    pub delegation: Option<&'a Delegation>,
    /// The tools that the checkpoint names.
    pub manifest: Option<&'a [u8]>,
    /// The file of receipts that the checkpoint names.
    pub receipts: Option<&'a [u8]>,
}

impl PackageParts<'_> {
    /// The package up to its state, which has `state` bytes.
    ///
    /// # Errors
    /// Kind `Limit` where the parts are longer than [`MAX_PACKAGE_BYTES`].
    pub fn write(&self, state: u64) -> Result<Vec<u8>, Error> {
        let delegation = self.delegation.map(Delegation::to_text);
        let once = [
            (Part::Delegation, delegation.as_deref().map(str::as_bytes)),
            (Part::Manifest, self.manifest),
            (Part::Receipts, self.receipts),
        ];
        let links = self.links.iter().map(|link| (Part::Link, *link));
        let once = once.into_iter().filter_map(|(part, of)| Some((part, of?)));
        let mut out = vec![0; PACKAGE_PROLOGUE_LENGTH];
        for (part, bytes) in links.chain(once) {
            let room = MAX_PACKAGE_BYTES + PACKAGE_PROLOGUE_LENGTH - out.len();
            let length = u32::try_from(bytes.len()).ok();
            let length = length.filter(|_| bytes.len().saturating_add(PART_HEADER) <= room);
            let Some(length) = length else {
                let text =
                    format!("a package has at most {MAX_PACKAGE_BYTES} bytes besides its state");
                return Err(Error::new(ErrorKind::Limit, text));
            };
            out.extend(part.number().to_le_bytes());
            out.extend([0; 2]);
            out.extend(length.to_le_bytes());
            out.extend(bytes);
        }
        let head = (out.len() - PACKAGE_PROLOGUE_LENGTH) as u64;
        let prologue = [*MAGIC, head.to_le_bytes(), state.to_le_bytes()].concat();
        out[..PACKAGE_PROLOGUE_LENGTH].copy_from_slice(&prologue);
        Ok(out)
    }
}

/// The target's own knowledge, before it reads the package.
#[derive(Debug, Clone, Copy)]
pub struct PackageExpectation<'a> {
    /// The root key of the agent.
    pub root: &'a PublicKey,
    /// The agent's name, where that is known.
    pub name: Option<&'a AgentName>,
    /// The key that the release must name.
    pub target: &'a PublicKey,
    /// The newest link of this agent that the target holds: the package's history must contain it.
    pub known: Option<ContentHash>,
}

/// Why a package is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageFault {
    /// The bytes are no package.
    Shape,
    /// A link is invalid, or may not follow here.
    Link {
        /// Its number, from 0, the oldest.
        number: usize,
        /// Why.
        fault: LinkFault,
    },
    /// A link does not name the one before it, or the first names one.
    Chain(usize),
    /// A value of a link may not follow the value of the link before it.
    Transition {
        /// Its number, from 0.
        number: usize,
        /// The field.
        field: &'static str,
    },
    /// The last link is no release.
    NoRelease,
    /// The agent is not the one that was expected.
    Agent,
    /// The release names another target.
    Target,
    /// The delegation is not one of the agent's root for the target.
    Delegation,
    /// The manifest is not the one that the checkpoint names.
    Manifest,
    /// The receipts are not those that the checkpoint names.
    Receipts,
    /// The target holds a link that this history does not have: it is stale, or a fork.
    Behind,
    /// The state is not the one that the checkpoint names.
    State,
}

impl fmt::Display for PackageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => f.write_str("these bytes are not a package of an agent"),
            Self::Link { number, fault } => write!(f, "link {number}: {fault}"),
            Self::Chain(number) => {
                write!(f, "link {number} does not follow the link before it")
            }
            Self::Transition { number, field } => {
                write!(f, "the {field} of link {number} may not follow that of the link before it")
            }
            Self::NoRelease => f.write_str("the history does not end in a release"),
            Self::Agent => f.write_str("the package belongs to another agent"),
            Self::Target => f.write_str("the release names another target"),
            Self::Delegation => f.write_str("the delegation is not by the root for the target"),
            Self::Manifest => f.write_str("the manifest is not the one that the checkpoint names"),
            Self::Receipts => f.write_str("the receipts are not those that the checkpoint names"),
            Self::Behind => f.write_str(
                "the history lacks a link that is known here: it is stale, or the lineage was forked",
            ),
            Self::State => f.write_str("the state is not the one that the checkpoint names"),
        }
    }
}

impl std::error::Error for PackageFault {}

/// A package of which everything is checked except its state.
#[derive(Debug, Clone)]
pub struct CheckedPackage {
    /// The checkpoint that the release names.
    pub checkpoint: WholeLink,
    /// The release.
    pub release: WholeLink,
    /// The offer in it.
    pub offer: Offer,
    /// The agent's name.
    pub name: AgentName,
    /// The delegation of the target.
    pub delegation: Option<Delegation>,
    /// The tools.
    pub manifest: Option<Vec<u8>>,
    /// The file of receipts, and its contents.
    pub receipts: Option<(Vec<u8>, Vec<Receipt>)>,
    standing: Standing,
    links: Vec<(ContentHash, Vec<u8>)>,
}

impl CheckedPackage {
    /// All links, oldest first, as they were sent, with their names. Every one was checked.
    pub fn links(&self) -> &[(ContentHash, Vec<u8>)] {
        &self.links
    }

    /// The state of the lineage after the release.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Reads a whole package, state included, and checks all of it.
    ///
    /// # Errors
    /// The first [`PackageFault`].
    pub fn read<'b>(
        bytes: &'b [u8],
        expect: &PackageExpectation<'_>,
    ) -> Result<(Self, &'b [u8]), PackageFault> {
        let (first, rest) = bytes
            .split_first_chunk::<PACKAGE_PROLOGUE_LENGTH>()
            .ok_or(PackageFault::Shape)?;
        let prologue = PackagePrologue::parse(first)?;
        let (head, state) = rest
            .split_at_checked(prologue.head)
            .ok_or(PackageFault::Shape)?;
        let (package, mut check) = Self::read_head(&prologue, head, expect)?;
        check.update(state);
        check.finish()?;
        Ok((package, state))
    }

    /// Checks all but the state, which is then given to the [`StateCheck`].
    ///
    /// # Errors
    /// The first [`PackageFault`].
    pub fn read_head(
        prologue: &PackagePrologue,
        head: &[u8],
        expect: &PackageExpectation<'_>,
    ) -> Result<(Self, StateCheck), PackageFault> {
        if head.len() != prologue.head {
            return Err(PackageFault::Shape);
        }
        let mut history = History::new(expect);
        let (mut delegation, mut manifest, mut receipts) = (None, None, None);
        let parts = Parts {
            rest: head,
            last: None,
        };
        for part in parts {
            match part? {
                (Part::Link, bytes) => history.push(bytes)?,
                (Part::Delegation, bytes) => delegation = Some(bytes),
                (Part::Manifest, bytes) => manifest = Some(bytes),
                (Part::Receipts, bytes) => receipts = Some(bytes),
            }
        }
        let package = history.end()?.with(delegation, manifest, receipts)?;
        let native = package.checkpoint.header.native.as_deref();
        let seal = native.map(|native| native.state.clone());
        let seal = seal.filter(|seal| seal.length == prologue.state);
        let seal = seal.ok_or(PackageFault::State)?;
        let check = StateCheck {
            seal,
            seen: 0,
            hasher: Hasher::new(),
        };
        Ok((package, check))
    }

    fn with(
        mut self,
        delegation: Option<&[u8]>,
        manifest: Option<&[u8]>,
        receipts: Option<&[u8]>,
    ) -> Result<Self, PackageFault> {
        if let Some(bytes) = delegation {
            let text = std::str::from_utf8(bytes).map_err(|_| PackageFault::Delegation)?;
            let delegation = Delegation::parse(text).map_err(|_| PackageFault::Delegation)?;
            let fits = delegation.root == self.offer.source.root
                && delegation.name == self.name
                && delegation.signer == self.offer.target
                && delegation.verify().is_ok();
            self.delegation = Some(delegation);
            fits.then_some(()).ok_or(PackageFault::Delegation)?;
        }
        let native = self.checkpoint.header.native.as_deref();
        let named = |bytes: Option<&[u8]>, of: Option<Digest>| bytes.map(Digest::of) == of;
        if !named(manifest, native.and_then(|native| native.manifest)) {
            return Err(PackageFault::Manifest);
        }
        if !named(receipts, native.and_then(|native| native.receipts)) {
            return Err(PackageFault::Receipts);
        }
        self.manifest = manifest.map(<[u8]>::to_vec);
        if let Some(file) = receipts {
            let read = parse_receipts(file).map_err(|_| PackageFault::Receipts)?;
            self.receipts = Some((file.to_vec(), read));
        }
        Ok(self)
    }
}

/// The state of a package, checked while it arrives.
#[derive(Debug, Clone)]
pub struct StateCheck {
    seal: StateSeal,
    seen: u64,
    hasher: Hasher,
}

impl StateCheck {
    /// The next bytes of the state.
    pub fn update(&mut self, piece: &[u8]) {
        self.seen = self.seen.saturating_add(piece.len() as u64);
        self.hasher.update(piece);
    }

    /// The state is whole: is it the one?
    ///
    /// # Errors
    /// [`PackageFault::State`] when not.
    pub fn finish(self) -> Result<(), PackageFault> {
        let same = self.seen == self.seal.length && self.hasher.finish() == self.seal.digest;
        same.then_some(()).ok_or(PackageFault::State)
    }
}

/// The parts of a head, in order; each kind but the links at most once.
struct Parts<'a> {
    rest: &'a [u8],
    last: Option<Part>,
}

impl<'a> Parts<'a> {
    fn read(&mut self) -> Option<(Part, &'a [u8])> {
        let (of, rest) = self.rest.split_first_chunk::<PART_HEADER>()?;
        let [k0, k1, 0, 0, length @ ..] = *of else {
            return None;
        };
        let number = u16::from_le_bytes([k0, k1]);
        let part = Part::ALL.into_iter().find(|part| part.number() == number)?;
        let in_order = match self.last {
            Some(last) => last < part || part == Part::Link && last == part,
            None => part == Part::Link,
        };
        let length = usize::try_from(u32::from_le_bytes(length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        (self.rest, self.last) = (rest, Some(part));
        in_order.then_some((part, bytes))
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<(Part, &'a [u8]), PackageFault>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.read().ok_or(PackageFault::Shape))
    }
}

/// The links of a package, followed from the first.
struct History<'a> {
    expect: &'a PackageExpectation<'a>,
    standing: Standing,
    /// The delegation of the last signer that had one: most links have the same.
    held: Option<Delegation>,
    links: Vec<(ContentHash, Vec<u8>)>,
    last: [Option<WholeLink>; 2],
}

impl<'a> History<'a> {
    fn new(expect: &'a PackageExpectation<'a>) -> Self {
        Self {
            expect,
            standing: Standing::begin(),
            held: None,
            links: Vec::new(),
            last: [None, None],
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), PackageFault> {
        let number = self.links.len();
        if number == MAX_PACKAGE_LINKS {
            return Err(PackageFault::Shape);
        }
        let faulty = |fault| PackageFault::Link { number, fault };
        // Before any signature is checked: a stranger's history does not deserve the time.
        let header =
            CheckpointHeader::parse(bytes).map_err(|error| faulty(LinkFault::Header(error)))?;
        if !self.is_expected(&header) {
            return Err(PackageFault::Agent);
        }
        let link = read_link(header, bytes, &mut self.held).map_err(faulty)?;
        self.standing = self.standing.follow(&link).map_err(|fault| match fault {
            StandingFault::Chain => PackageFault::Chain(number),
            StandingFault::Place(refusal) => faulty(LinkFault::Place(refusal)),
            StandingFault::Transition(field) => PackageFault::Transition { number, field },
        })?;
        self.links.push((link.hash, bytes.to_vec()));
        let [_, before] = std::mem::take(&mut self.last);
        self.last = [before, Some(link)];
        Ok(())
    }

    /// Is a link signed under the root that is expected? Unsigned ones cannot be.
    fn is_expected(&self, header: &CheckpointHeader) -> bool {
        let PackageExpectation { root, name, .. } = self.expect;
        match &header.native {
            Some(native) => native.root == **root && name.is_none_or(|name| native.name == *name),
            None => header
                .signer
                .is_none_or(|signer| signer == *root.as_bytes()),
        }
    }

    fn end(self) -> Result<CheckedPackage, PackageFault> {
        let (Authority::Released(offer), [Some(checkpoint), Some(release)]) =
            (self.standing.authority(), self.last)
        else {
            return Err(PackageFault::NoRelease);
        };
        let offer = **offer;
        let native = checkpoint.header.native.as_deref();
        let name = native.map(|native| native.name.clone());
        let name = name.ok_or(PackageFault::Agent)?;
        if offer.target != *self.expect.target {
            return Err(PackageFault::Target);
        }
        let holds = |known| self.links.iter().any(|(hash, _)| *hash == known);
        if !self.expect.known.is_none_or(holds) {
            return Err(PackageFault::Behind);
        }
        Ok(CheckedPackage {
            checkpoint,
            release,
            offer,
            name,
            standing: self.standing,
            links: self.links,
            delegation: None,
            manifest: None,
            receipts: None,
        })
    }
}

/// A checkpoint of v0x05 comes as its header; one without a state is whole with that.
fn read_link(
    header: CheckpointHeader,
    bytes: &[u8],
    held: &mut Option<Delegation>,
) -> Result<WholeLink, LinkFault> {
    match &header.native {
        Some(native) if native.kind == LinkKind::Checkpoint && native.state.length > 0 => {
            WholeLink::of_header(header, bytes, held)
        }
        _ => WholeLink::of(header, bytes, held),
    }
}
