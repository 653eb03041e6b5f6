//! All that one file shows by itself, gathered while it is read, in constant memory.
//!
//! ```text
//! FileReader ─ push(chunk)… ─ finish ─► LinkFacts { name, folder, bytes, LinkRead::Link | LinkRead::Refused }
//! v2, v3   content hash; and whether it is a v4 whose first byte was changed
//! v4       content hash; signature over header and state (two passes of hashing, one of reading)
//! v5       content hash of the header; its signatures; digest and length of the state
//! ```
//! A link is some 500 bytes, of v0x05 1,100, whatever its state. What a link means beside others, `chain` and
//! `policy` say; whose key counts, `conclude`.

use super::authority::Link;
use super::chain::record_of;
use super::hash::ContentHash;
use super::header::{CheckpointHeader, HeaderError, Version};
use super::links::{LinkBody, body_length};
use super::v4::Verifier as OriginalVerifier;
use super::v5::{self, HEADER_LENGTH, LinkKind};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::record::RecordId;

/// What stands in front of a header of v0x05 that a store keeps without its state.
pub const HEAD_MAGIC: &[u8; 8] = b"TSHEAD1\n";
/// As much of a file as any header has, with that in front.
const LONGEST_HEAD: usize = HEADER_LENGTH + HEAD_MAGIC.len();

/// What a file shows.
#[derive(Debug, Clone)]
pub struct LinkFacts {
    /// How the caller calls it; for people only.
    pub name: Box<str>,
    /// Which folder it lies in, as the caller numbers them.
    pub folder: u32,
    /// Which store it lies in, as the caller numbers those: the folder of `<agent>.checkpoint`, to which
    /// its `history` belongs.
    pub home: u32,
    /// Its length.
    pub bytes: u64,
    /// What it begins with.
    pub first: Option<u8>,
    /// What was read.
    pub read: LinkRead,
}

/// What was read of a file.
#[derive(Debug, Clone)]
pub enum LinkRead {
    /// It is no checkpoint.
    Refused(HeaderError),
    /// It is one.
    Link(Box<ReadLink>),
}

/// What a link says, and whether its seal holds.
#[derive(Debug, Clone)]
pub struct ReadLink {
    /// What its child names it by.
    pub hash: ContentHash,
    /// What it says before its state.
    pub header: CheckpointHeader,
    /// Who it says it is of; `None` before v0x04.
    pub identity: Option<Identity>,
    /// Does the seal hold?
    pub seal: Seal,
    /// Does the signature of v0x04 hold by the rules of the original?
    pub as_original: bool,
    /// What it says where it moves authority.
    pub body: Option<Box<LinkBody>>,
    /// Bytes of its state.
    pub state_bytes: u64,
    /// Is the state here, or only the header that names it?
    pub has_state: bool,
}

/// Who a link says it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The agent id; before v0x05, which binds no name to the key, the digest of the key.
    pub agent: Digest,
    /// By what a head store knows the lineage.
    pub record: RecordId,
}

/// Whether a seal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// There is none in this format.
    Unsigned,
    /// It does.
    Good,
    /// It does not.
    Bad(ReadFault),
}

/// Why a seal does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// The key is none, or one of small order.
    Key,
    /// The signature does not verify.
    Signature,
    /// The root did not delegate to the signer.
    Delegation,
    /// The link states a time outside the delegation.
    DelegationTime,
    /// The state is not the one that was signed.
    State,
    /// The state of a link that hands authority over does not say what it must.
    Body,
    /// It is a signed link of another version with its first byte changed.
    VersionChanged,
}

impl Identity {
    /// Who a header says it is of.
    pub fn of(header: &CheckpointHeader) -> Option<Self> {
        let agent = match &header.native {
            Some(native) => native.agent_id().digest(),
            // Before v0x05 the key is all that an agent is known by.
            None => Digest::of(&header.signer?),
        };
        Some(Self {
            agent,
            record: record_of(&agent),
        })
    }
}

impl ReadLink {
    /// Its format.
    pub fn version(&self) -> Version {
        self.header.version
    }

    /// Its number, from v0x05.
    pub fn seq(&self) -> Option<u64> {
        self.header.native.as_ref().map(|native| native.seq)
    }

    /// When it says it was made, in nanoseconds since 1970, from v0x05.
    pub fn time(&self) -> Option<i64> {
        self.header.native.as_ref().map(|native| native.time)
    }

    /// The key of the agent, as its bytes stand there: the root, or the key of v0x04.
    pub fn root(&self) -> Option<[u8; 32]> {
        let native = self.header.native.as_ref();
        native.map_or(self.header.signer, |native| Some(*native.root.as_bytes()))
    }

    /// As the rule of authority takes it.
    pub(super) fn step(&self) -> Link<'_> {
        Link {
            header: &self.header,
            hash: self.hash,
            body: self.body.as_deref(),
        }
    }

    /// Does it move authority, and keep no state?
    pub fn is_handover(&self) -> bool {
        let native = self.header.native.as_ref();
        native.is_some_and(|native| native.kind != LinkKind::Checkpoint)
    }
}

impl ReadFault {
    fn of_native(fault: v5::SealFault) -> Self {
        match fault {
            v5::SealFault::Signature | v5::SealFault::NotNative => Self::Signature,
            v5::SealFault::Delegation => Self::Delegation,
            v5::SealFault::Window => Self::DelegationTime,
        }
    }
}

impl LinkFacts {
    /// Reads a whole file in memory.
    pub fn of(name: &str, bytes: &[u8]) -> Self {
        let mut reader = FileReader::new();
        reader.push(bytes);
        reader.finish(name, 0)
    }

    /// The link, if the file is one.
    pub fn link(&self) -> Option<&ReadLink> {
        match &self.read {
            LinkRead::Link(link) => Some(link),
            LinkRead::Refused(_) => None,
        }
    }

    /// The tick that the original's history would keep under this name: `0000000055.ckpt`.
    pub(super) fn claimed_tick(&self) -> Option<u64> {
        let digits = self.last_part().strip_suffix(".ckpt")?;
        let named = (10..=20).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        named.then(|| digits.parse().ok()).flatten()
    }

    /// Is it named as what an agent is started from: `<agent>.checkpoint`?
    pub(super) fn is_live(&self) -> bool {
        self.last_part().ends_with(".checkpoint")
    }

    /// Its name without its folders.
    pub(super) fn last_part(&self) -> &str {
        self.name.rsplit(['/', '\\']).next().unwrap_or_default()
    }
}

/// Reads one file from its first byte to its last.
#[derive(Debug)]
pub struct FileReader {
    bytes: u64,
    first: Option<u8>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The header is not whole yet; what there is of it.
    Header(Vec<u8>),
    Refused(HeaderError),
    Reading(Box<Reading>),
}

/// A file behind its header.
#[derive(Debug)]
struct Reading {
    header: CheckpointHeader,
    seal: Sealing,
    state_bytes: u64,
    has_state: bool,
    /// The state, where it says how authority moves.
    body: Vec<u8>,
}

/// What each version asks to be followed through the state.
#[derive(Debug)]
enum Sealing {
    /// v0x02, v0x03: the content hash, and the signature that a changed first byte would hide.
    Bare(Hasher, Option<Box<OriginalVerifier>>),
    /// v0x04.
    Original(Box<OriginalVerifier>),
    /// v0x05: the hash of the header, what speaks against its seal, the state's digest.
    Native(ContentHash, Option<ReadFault>, Hasher),
    /// The header cannot be sealed at all; its bytes have a content hash.
    Unsealable(Hasher),
}

impl Default for FileReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FileReader {
    /// A reader before the first byte.
    pub fn new() -> Self {
        Self {
            bytes: 0,
            first: None,
            state: State::Header(Vec::new()),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.first = self.first.or(chunk.first().copied());
        let mut rest = chunk;
        if let State::Header(head) = &mut self.state {
            let (taken, after) = rest.split_at(rest.len().min(LONGEST_HEAD - head.len()));
            head.extend_from_slice(taken);
            rest = after;
            if head.len() < LONGEST_HEAD {
                return;
            }
            self.state = begin(head);
        }
        if let State::Reading(reading) = &mut self.state {
            reading.push(rest);
        }
    }

    /// Ends the file; `name` is for people, `folder` as the caller numbers folders.
    pub fn finish(mut self, name: &str, folder: u32) -> LinkFacts {
        if let State::Header(head) = &self.state {
            self.state = begin(head);
        }
        let read = match self.state {
            State::Refused(why) => LinkRead::Refused(why),
            State::Reading(reading) => LinkRead::Link(Box::new(reading.finish())),
            // The match above leaves no header unread.
            State::Header(_) => LinkRead::Refused(HeaderError::Empty),
        };
        LinkFacts {
            name: name.into(),
            folder,
            home: folder,
            bytes: self.bytes,
            first: self.first,
            read,
        }
    }
}

/// Reads the header at the beginning of a file, of which `head` is as much as any header has, or all.
fn begin(head: &[u8]) -> State {
    let (head, has_state) = match head.strip_prefix(HEAD_MAGIC) {
        Some(head) if head.len() == HEADER_LENGTH => (head, false),
        _ => (head, true),
    };
    match CheckpointHeader::parse(head) {
        Err(why) => State::Refused(why),
        Ok(header) => State::Reading(Box::new(Reading::begin(header, head, has_state))),
    }
}

impl Reading {
    fn begin(header: CheckpointHeader, head: &[u8], has_state: bool) -> Self {
        let (bytes, state) = head
            .split_at_checked(header.version.header_length())
            .unwrap_or((head, &[]));
        let hashed = || {
            let mut hasher = Hasher::new();
            hasher.update(bytes);
            hasher
        };
        let seal = match header.version {
            Version::V2 | Version::V3 => Sealing::Bare(hashed(), hidden(head)),
            Version::V4 => match OriginalVerifier::new(&header) {
                Ok(verifier) => Sealing::Original(Box::new(verifier)),
                Err(_) => Sealing::Unsealable(hashed()),
            },
            Version::V5 => {
                let fault = v5::verify_read(&header, bytes, &mut None)
                    .err()
                    .map(ReadFault::of_native);
                Sealing::Native(ContentHash::of(bytes), fault, Hasher::new())
            }
        };
        let mut reading = Self {
            header,
            seal,
            state_bytes: 0,
            has_state,
            body: Vec::new(),
        };
        reading.push(state);
        reading
    }

    fn push(&mut self, state: &[u8]) {
        if let Some(length) = body_length(self.kind()) {
            let room = length.saturating_sub(self.body.len());
            self.body.extend(state.iter().take(room));
        }
        match &mut self.seal {
            Sealing::Bare(hasher, hidden) => {
                hasher.update(state);
                if let Some(verifier) = hidden {
                    // What it calls its state begins further on.
                    let lag = Version::V4.header_length() - self.header.version.header_length();
                    let skip = (lag as u64).saturating_sub(self.state_bytes);
                    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                    verifier.update(state.get(skip..).unwrap_or_default());
                }
            }
            Sealing::Original(verifier) => verifier.update(state),
            Sealing::Native(_, _, hasher) | Sealing::Unsealable(hasher) => hasher.update(state),
        }
        self.state_bytes += state.len() as u64;
    }

    fn kind(&self) -> LinkKind {
        let native = self.header.native.as_ref();
        native.map_or(LinkKind::Checkpoint, |native| native.kind)
    }

    fn finish(self) -> ReadLink {
        let body = match self.kind() {
            LinkKind::Checkpoint => Ok(None),
            kind => LinkBody::parse(kind, &self.body).map(|body| Some(Box::new(body))),
        };
        let mut as_original = false;
        let (hash, mut seal) = match self.seal {
            Sealing::Bare(hasher, hidden) => {
                let found = hidden.is_some_and(|verifier| verifier.finish().0.is_ok());
                let seal = if found {
                    Seal::Bad(ReadFault::VersionChanged)
                } else {
                    Seal::Unsigned
                };
                (ContentHash::of_digest(hasher.finish()), seal)
            }
            Sealing::Original(verifier) => {
                let (held, original, hash) = verifier.finish_beside();
                as_original = original;
                let usable = matches!(self.header.signer_key(), Some(Ok(_)));
                let seal = match held {
                    Ok(()) => Seal::Good,
                    Err(_) if usable => Seal::Bad(ReadFault::Signature),
                    Err(_) => Seal::Bad(ReadFault::Key),
                };
                (hash, seal)
            }
            Sealing::Unsealable(hasher) => {
                let hash = ContentHash::of_digest(hasher.finish());
                (hash, Seal::Bad(ReadFault::Signature))
            }
            Sealing::Native(hash, fault, hasher) => {
                let sealed = self.header.native.as_ref().map(|native| &native.state);
                let read = hasher.finish();
                let absent = !self.has_state && self.state_bytes == 0;
                let same = self.has_state
                    && sealed.is_some_and(|of| of.digest == read && of.length == self.state_bytes);
                let fault = fault.or((!same && !absent).then_some(ReadFault::State));
                (hash, fault.map_or(Seal::Good, Seal::Bad))
            }
        };
        if body.is_err() && seal == Seal::Good {
            seal = Seal::Bad(ReadFault::Body);
        }
        ReadLink {
            hash,
            identity: Identity::of(&self.header),
            header: self.header,
            seal,
            as_original,
            body: body.unwrap_or_default(),
            state_bytes: self.state_bytes,
            has_state: self.has_state,
        }
    }
}

/// A file of v0x02 or v0x03 as one of v0x04, if it can have been one: nobody looks at a signature
/// in a version that has none.
fn hidden(head: &[u8]) -> Option<Box<OriginalVerifier>> {
    let mut bytes = head.get(..Version::V4.header_length())?.to_vec();
    if let Some(first) = bytes.first_mut() {
        *first = Version::V4.byte();
    }
    let header = CheckpointHeader::parse(&bytes).ok()?;
    header.signer_key()?.ok()?;
    OriginalVerifier::new(&header).ok().map(Box::new)
}
