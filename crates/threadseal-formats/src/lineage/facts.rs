//! All facts of one file alone, gathered while it is read, in constant memory.
//!
//! ```text
//! FileReader ─ push(chunk)… ─ finish ─► LinkFacts { name, folder, bytes,
//!                                                   LinkRead::Link | LinkRead::Refused }
//! v2, v3   content hash; and whether it is a v4 whose first byte was changed
//! v4       content hash; signature over header and state (two passes of hashing, one of reading)
//! v5       content hash of the header; its signatures; digest and length of the state
//! ```
//! A link takes some 500 bytes of memory, one of v0x05 1,100, independent of its state. `chain` and
//! `policy` judge a link together with others; `conclude` decides which keys count.

use super::authority::Link;
use super::chain::record_of;
use super::hash::ContentHash;
use super::header::{CheckpointHeader, HeaderError, Version};
use super::links::{LinkBody, body_length};
use super::v4::Verifier as OriginalVerifier;
use super::v5::{self, HEADER_LENGTH, LinkKind};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::record::RecordId;

/// The bytes before a header of v0x05 that a store keeps without its state.
pub const HEAD_MAGIC: &[u8; 8] = b"TSHEAD1\n";
/// The longest header of any version, with the magic before it.
const LONGEST_HEAD: usize = HEADER_LENGTH + HEAD_MAGIC.len();

/// The facts of a file.
#[derive(Debug, Clone)]
pub struct LinkFacts {
    /// The caller's name of the file; for people only.
    pub name: Box<str>,
    /// Its folder, by the caller's numbering.
    pub folder: u32,
    /// Its store, by the caller's numbering: the folder of `<agent>.checkpoint`, to which its
    /// `history` belongs.
    pub home: u32,
    /// Its length.
    pub bytes: u64,
    /// Its first byte.
    pub first: Option<u8>,
    /// The result of reading it.
    pub read: LinkRead,
}

/// The result of reading a file.
#[derive(Debug, Clone)]
pub enum LinkRead {
    /// It is no checkpoint.
    Refused(HeaderError),
    /// It is one.
    Link(Box<ReadLink>),
}

/// The content of a link, and whether its seal holds.
#[derive(Debug, Clone)]
pub struct ReadLink {
    /// The name that its child uses.
    pub hash: ContentHash,
    /// Its header.
    pub header: CheckpointHeader,
    /// The identity that it claims; `None` before v0x04.
    pub identity: Option<Identity>,
    /// Does the seal hold?
    pub seal: Seal,
    /// Does the signature of v0x04 hold by the rules of igor?
    pub as_original: bool,
    /// Its body, where it moves authority.
    pub body: Option<Box<LinkBody>>,
    /// Bytes of its state.
    pub state_bytes: u64,
    /// Is the state available, or only the header that names it?
    pub has_state: bool,
}

/// The identity that a link claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The agent id; before v0x05, which binds no name to the key, the digest of the key.
    pub agent: Digest,
    /// The id under which a head store knows the lineage.
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
    /// The state of a link that moves authority is not valid.
    Body,
    /// It is a signed link of another version with its first byte changed.
    VersionChanged,
}

impl Identity {
    /// The identity that a header claims.
    pub fn of(header: &CheckpointHeader) -> Option<Self> {
        let agent = match &header.native {
            Some(native) => native.agent_id().digest(),
            // Before v0x05 the key alone identifies an agent.
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

    /// The time at which it claims to be made, in nanoseconds since 1970, from v0x05.
    pub fn time(&self) -> Option<i64> {
        self.header.native.as_ref().map(|native| native.time)
    }

    /// The key of the agent, as its raw bytes: the root, or the key of v0x04.
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

    /// The tick that igor's history would keep under this name: `0000000055.ckpt`.
    pub(super) fn claimed_tick(&self) -> Option<u64> {
        let digits = self.last_part().strip_suffix(".ckpt")?;
        let named = (10..=20).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        named.then(|| digits.parse().ok()).flatten()
    }

    /// Does it have the name of a file from which an agent is started: `<agent>.checkpoint`?
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
    /// The header is not whole yet; its bytes so far.
    Header(Vec<u8>),
    Refused(HeaderError),
    Reading(Box<Reading>),
}

/// A file after its header.
#[derive(Debug)]
struct Reading {
    header: CheckpointHeader,
    seal: Sealing,
    state_bytes: u64,
    has_state: bool,
    /// The state, where it moves authority.
    body: Vec<u8>,
}

/// The checks over the state for each version.
#[derive(Debug)]
enum Sealing {
    /// v0x02, v0x03: the content hash, and the signature that a changed first byte would hide.
    Bare(Hasher, Option<Box<OriginalVerifier>>),
    /// v0x04.
    Original(Box<OriginalVerifier>),
    /// v0x05: the hash of the header, the evidence against its seal, the state's digest.
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

/// Reads the header at the beginning of a file. `head` has as many bytes as the longest header, or
/// the whole file.
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
                    // The state of v0x04 would begin later in the file.
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

/// A file of v0x02 or v0x03 as one of v0x04, if it can have been one. Readers check no signature in
/// a version without one.
fn hidden(head: &[u8]) -> Option<Box<OriginalVerifier>> {
    let mut bytes = head.get(..Version::V4.header_length())?.to_vec();
    if let Some(first) = bytes.first_mut() {
        *first = Version::V4.byte();
    }
    let header = CheckpointHeader::parse(&bytes).ok()?;
    header.signer_key()?.ok()?;
    OriginalVerifier::new(&header).ok().map(Box::new)
}
