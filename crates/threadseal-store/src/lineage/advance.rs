//! [`Advance`]: links that were verified, may follow, and so may be saved. Nothing else makes one.
//!
//! ```text
//! Standing + sealed link            ─► one link
//! newest + a package that was read  ─► the links that are new here, the last of them the release
//! ```
//! At most one of the links brings its state as a stream, when it is saved. Its length and digest
//! are known before, so that the saved bytes are the verified ones.

use super::state::each_chunk;
use super::{Newest, Saved};
use crate::read::Source;
use std::fmt;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_formats::lineage::{
    AgentName, CheckedPackage, CheckpointHeader, ContentHash, HEADER_LENGTH, LinkKind,
    OriginalVerifier, PlacedLink, Standing, Version, WholeLink,
};

/// Links that may be saved.
#[derive(Debug, Clone)]
pub struct Advance {
    expected: Newest,
    /// At least one; links that were known before are not among them.
    links: Vec<Proven>,
    /// After the last link.
    standing: Standing,
    /// If the links came from another machine: all links that the sender proved, themselves
    /// included.
    history: Vec<ContentHash>,
    /// Was it signed on another machine, and given to others there?
    is_answer: bool,
}

/// A link that was verified.
#[derive(Debug, Clone)]
pub(super) struct Proven {
    pub(super) header: CheckpointHeader,
    pub(super) head: Vec<u8>,
    pub(super) hash: ContentHash,
    pub(super) state: ProvenState,
}

/// The place of the state of a verified link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProvenState {
    Here(Vec<u8>),
    /// Given when the link is saved: length and digest.
    Given(u64, Digest),
    /// Not here: only the header is known, which proves its place.
    Absent,
}

impl Advance {
    /// The link whose whole file is `file`, after `from`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when its seal does not verify or it may not
    /// follow.
    pub fn of_bytes(from: &Standing, file: &[u8]) -> Result<Self, Error> {
        let link = WholeLink::read(file).map_err(|fault| refused(&fault))?;
        let (head, state) = file
            .split_at_checked(link.header.version.header_length())
            .unwrap_or((file, &[]));
        let state = ProvenState::Here(state.to_vec());
        Self::one(from, link, head.to_vec(), state)
    }

    /// The link whose whole file is `file`, after `from`, as another machine made and sent it.
    ///
    /// # Errors
    /// As [`Advance::of_bytes`].
    pub fn of_answer(from: &Standing, file: &[u8]) -> Result<Self, Error> {
        let advance = Self::of_bytes(from, file)?;
        Ok(Self {
            is_answer: true,
            ..advance
        })
    }

    /// The checkpoint whose whole file is `file`, after `from`, from a message of igor. It may be
    /// one that was known before.
    ///
    /// # Errors
    /// As [`Advance::of_bytes`].
    pub fn of_message(from: &Standing, file: &[u8]) -> Result<Self, Error> {
        let advance = Self::of_bytes(from, file)?;
        Ok(Self {
            history: advance.newest().into_iter().collect(),
            ..advance
        })
    }

    /// The checkpoint of v0x05 whose header is `head`, after `from`; its state is given when it is
    /// saved.
    ///
    /// # Errors
    /// As [`Advance::of_bytes`].
    pub fn of_header(from: &Standing, head: &[u8]) -> Result<Self, Error> {
        let link = WholeLink::read_header(head).map_err(|fault| refused(&fault))?;
        let state = given(&link.header);
        Self::one(from, link, head.to_vec(), state)
    }

    /// The link that `file` streams, of any version, after `from`. Its state is given when it is
    /// saved: the same bytes once more, without the header.
    ///
    /// # Errors
    /// As [`Advance::of_bytes`]; those of reading.
    pub fn of_file(from: &Standing, file: &mut dyn Source) -> Result<Self, Error> {
        let mut reading = Reading::default();
        each_chunk(file, &mut |piece| reading.push(piece))?;
        reading.end(from)
    }

    fn one(
        from: &Standing,
        link: WholeLink,
        head: Vec<u8>,
        state: ProvenState,
    ) -> Result<Self, Error> {
        let standing = from.follow(&link).map_err(|fault| refused(&fault))?;
        let expected = from.newest().map_or(Newest::Nothing, Newest::Link);
        Ok(Self {
            expected,
            links: vec![Proven {
                header: link.header,
                head,
                hash: link.hash,
                state,
            }],
            standing,
            history: Vec::new(),
            is_answer: false,
        })
    }

    /// The links of a package that are new here, its release last.
    ///
    /// With `with_state`, the state of its checkpoint is given when this is saved. Without it, only
    /// the place of the checkpoint is kept.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when the newest link here is not in the
    /// history of the package: it is stale, or a fork.
    pub fn of_package(
        newest: &Newest,
        package: &CheckedPackage,
        with_state: bool,
    ) -> Result<Self, Error> {
        let links = package.links();
        let history: Vec<ContentHash> = links.iter().map(|(hash, _)| *hash).collect();
        let new = match newest.known() {
            None => 0,
            Some(known) => match history.iter().position(|hash| *hash == known) {
                Some(at) => at + 1,
                None => return Err(refused(&"it lacks the newest link that is known here")),
            },
        };
        let new = links.iter().skip(new);
        let new = new.map(|(hash, bytes)| Proven::of_part(*hash, bytes));
        let mut links: Vec<Proven> = new.collect::<Result<_, Error>>()?;
        if links.is_empty() {
            return Err(refused(&"it contains nothing new"));
        }
        for link in &mut links {
            let is_last = link.hash == package.checkpoint.hash;
            if is_last && with_state && link.state == ProvenState::Absent {
                link.state = given(&link.header);
            }
        }
        Ok(Self {
            expected: *newest,
            links,
            standing: package.standing().clone(),
            history,
            is_answer: false,
        })
    }

    /// The standing of the lineage after this is saved.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The link that will be the newest.
    pub fn newest(&self) -> Option<ContentHash> {
        self.standing.newest()
    }

    /// The length of the state that must be given with it, if one must.
    pub fn state(&self) -> Option<u64> {
        self.links.iter().find_map(|link| match link.state {
            ProvenState::Given(length, _) => Some(length),
            _ => None,
        })
    }

    /// Was it signed on another machine? Then saving it signs nothing here.
    pub(super) fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// The headers of the links that are saved.
    pub(super) fn headers(&self) -> impl Iterator<Item = &CheckpointHeader> {
        self.links.iter().map(|link| &link.header)
    }

    /// The places of the links that are saved.
    pub(super) fn placed(&self) -> impl Iterator<Item = PlacedLink> {
        let placed = |link: &Proven| PlacedLink::of(link.hash, &link.header);
        self.links.iter().map(placed)
    }

    /// All links that the sender of the newest one proved, itself included.
    pub(super) fn proved(&self) -> &[ContentHash] {
        &self.history
    }

    /// The newest link, and those before it. The one whose state is given comes first. So a wrong
    /// state is noticed before any file gets its name.
    pub(super) fn parts(&self) -> Option<(&Proven, Vec<&Proven>)> {
        let (last, older) = self.links.split_last()?;
        let given = |link: &&Proven| matches!(link.state, ProvenState::Given(..));
        let (mut first, rest): (Vec<_>, Vec<_>) = older.iter().partition(given);
        first.extend(rest);
        Some((last, first))
    }

    /// The result of saving while `now` is the newest; `None` where saving is allowed.
    pub(super) fn compared(&self, now: &Newest) -> Option<Saved> {
        if now.known() == self.newest() && matches!(now, Newest::Link(_)) {
            return Some(Saved::Stored);
        }
        let fits = match now {
            // A deleted agent comes back only with a history that continues from its last link.
            Newest::Deleted(last) => *now == self.expected && self.history.contains(last),
            _ => *now == self.expected,
        };
        (!fits).then_some(Saved::Differs(*now))
    }

    /// Refuses links that name another agent.
    pub(super) fn check_agent(&self, agent: &AgentName) -> Result<(), Error> {
        let named = |link: &Proven| {
            link.header
                .native
                .as_ref()
                .map(|native| native.name.clone())
        };
        let other = self
            .links
            .iter()
            .filter_map(named)
            .find(|name| name != agent);
        match other {
            None => Ok(()),
            Some(name) => Err(Error::invalid(format!(
                "the link belongs to {name}, but would be saved as one of {agent}"
            ))),
        }
    }
}

impl Proven {
    /// A link as a checked package has it: a checkpoint of v0x05 as its header.
    fn of_part(hash: ContentHash, bytes: &[u8]) -> Result<Self, Error> {
        let header = CheckpointHeader::parse(bytes).map_err(|error| refused(&error))?;
        let length = header.version.header_length();
        let (head, state) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
        let is_here = header
            .native
            .as_ref()
            .is_none_or(|native| native.state.length == state.len() as u64);
        let state = match is_here {
            true => ProvenState::Here(state.to_vec()),
            false => ProvenState::Absent,
        };
        let head = head.to_vec();
        Ok(Self {
            header,
            head,
            hash,
            state,
        })
    }

    /// Hands the state to `take` in pieces, the given one from `state`, and checks it at its end.
    /// False where there is none.
    pub(super) fn write_state(
        &self,
        state: &mut dyn Source,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        match &self.state {
            ProvenState::Absent => Ok(false),
            ProvenState::Here(bytes) => take(bytes).map(|()| true),
            ProvenState::Given(length, digest) => {
                let (mut seen, mut hasher) = (0, Hasher::new());
                each_chunk(state, &mut |piece| {
                    seen += piece.len() as u64;
                    if seen > *length {
                        return Err(other_state(&self.hash));
                    }
                    hasher.update(piece);
                    take(piece)
                })?;
                match seen == *length && hasher.finish() == *digest {
                    true => Ok(true),
                    false => Err(other_state(&self.hash)),
                }
            }
        }
    }
}

/// A file whose first bytes decide the format of the rest.
#[derive(Default)]
struct Reading {
    head: Vec<u8>,
    header: Option<CheckpointHeader>,
    original: Option<OriginalVerifier>,
    file: Hasher,
    state: Hasher,
    length: u64,
}

impl Reading {
    fn push(&mut self, piece: &[u8]) -> Result<(), Error> {
        if self.header.is_some() {
            self.state(piece);
            return Ok(());
        }
        self.head.extend_from_slice(piece);
        if self.head.len() < HEADER_LENGTH {
            return Ok(());
        }
        self.begin()
    }

    fn begin(&mut self) -> Result<(), Error> {
        let header = CheckpointHeader::parse(&self.head).map_err(|error| refused(&error))?;
        let rest = self.head.split_off(header.version.header_length());
        if header.version == Version::V4 {
            let verifier = OriginalVerifier::new(&header).map_err(|fault| refused(&fault))?;
            self.original = Some(verifier);
        }
        self.file.update(&self.head);
        self.header = Some(header);
        self.state(&rest);
        Ok(())
    }

    fn state(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        self.state.update(piece);
        if let Some(verifier) = &mut self.original {
            verifier.update(piece);
        }
        self.file.update(piece);
    }

    fn end(mut self, from: &Standing) -> Result<Advance, Error> {
        if self.header.is_none() {
            self.begin()?;
        }
        let header = self.header.take().ok_or_else(|| refused(&"it is empty"))?;
        let state = ProvenState::Given(self.length, self.state.finish());
        if let Some(native) = &header.native {
            if native.kind != LinkKind::Checkpoint {
                return Err(refused(&"it moves authority; give its bytes"));
            }
            if state != given(&header) {
                return Err(refused(&"its state is not the one that was sealed"));
            }
            let link = WholeLink::read_header(&self.head).map_err(|fault| refused(&fault))?;
            return Advance::one(from, link, self.head, state);
        }
        if let Some(verifier) = self.original {
            verifier.finish().0.map_err(|fault| refused(&fault))?;
        }
        let hash = ContentHash::of_digest(self.file.finish());
        let link = WholeLink {
            header,
            hash,
            body: None,
        };
        Advance::one(from, link, self.head, state)
    }
}

fn given(header: &CheckpointHeader) -> ProvenState {
    match &header.native {
        Some(native) => ProvenState::Given(native.state.length, native.state.digest),
        None => ProvenState::Absent,
    }
}

fn refused(why: &dyn fmt::Display) -> Error {
    Error::refused(format!("this link is not accepted: {why}"))
}

fn other_state(link: &ContentHash) -> Error {
    Error::refused(format!(
        "the state that was given is not the one that {link} seals; nothing was saved"
    ))
}
