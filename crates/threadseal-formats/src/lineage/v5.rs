//! v0x05: a checkpoint whose header has all facts, and only the header is signed (`spec/lineage.md`
//! §2.2).
//!
//! ```text
//! off size field                              off size field                         little-endian
//! 0   1   version 0x05                        192 32  prev: content hash of the parent link
//! 1   7   magic "TSLINE\n"                    224 32  transcript head digest      zero = none
//! 8   2   kind u16: 1 checkpoint 2 release    256 32  tool manifest digest        zero = none
//!         3 accept 4 refuse 5 recover         288 32  receipts digest             zero = none
//! 10  2   reserved, zero                      320 32  parent agent's link         zero = none
//! 12  4   header length u32 = 624             352 64  agent name: length, UTF-8, zeros
//! 16  8   seq u64                             416 32  root public key
//! 24  8   tick u64                            448 32  signer public key
//! 32  8   budget i64 >= 0                     480 8   delegation: not before i64 ns
//! 40  8   price i64 >= 0                      488 8   delegation: not after i64 ns
//! 48  8   epoch u64                           496 64  delegation: signature by the root
//! 56  8   lease generation u64                560 64  signature by the signer
//! 64  8   lease expiry i64 ns, 0 none         624 ..  state, exactly `state length` bytes
//! 72  8   time i64 ns
//! 80  8   key epoch u64, 0 = the root         96  32  state type: length, ASCII media type, zeros
//! 88  8   state length u64                    128 32  state digest SHA-256
//!                                             160 32  code hash SHA-256
//! ```
//! * signed: `Message::tagged("threadseal/lineage-checkpoint/1", [header[0..560]])`;
//! * every value has one spelling: reserved bytes and padding are zero, keys canonical. `prev` is
//!   zero exactly where `seq` is. The four fields of the delegation are zero exactly where the
//!   signer is the root;
//! * the content hash is that of the header alone, so the state is hashed once, while it is
//!   streamed.

use super::delegation::{Certificate, Delegation};
use super::hash::ContentHash;
use super::header::{CheckpointHeader, Epoch, HeaderError, Version, field};
use super::identity::{AgentId, AgentName};
use super::links;
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::{Message, PublicKey, Signature, Signer};
use threadseal_core::limits::{MAX_AGENT_NAME_BYTES, MAX_MEDIA_TYPE_BYTES};

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 624;
/// The domain of a link's signature.
pub const CHECKPOINT_TAG: &str = "threadseal/lineage-checkpoint/1";

const MAGIC: &[u8; 7] = b"TSLINE\n";
/// Where the signature begins, after all bytes that it signs.
const SIGNATURE_AT: usize = 560;

/// The action of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Keeps the state of the agent.
    Checkpoint,
    /// Offers the authority to another key.
    Release,
    /// Takes it.
    Accept,
    /// Gives it back.
    Refuse,
    /// The root takes it from its holder, and gives it to a key.
    Recover,
}

impl LinkKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Checkpoint,
        Self::Release,
        Self::Accept,
        Self::Refuse,
        Self::Recover,
    ];

    /// Its number.
    pub fn number(self) -> u16 {
        match self {
            Self::Checkpoint => 1,
            Self::Release => 2,
            Self::Accept => 3,
            Self::Refuse => 4,
            Self::Recover => 5,
        }
    }

    /// `checkpoint`, `release`, `accept`, `refuse` or `recover`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Release => "release",
            Self::Accept => "accept",
            Self::Refuse => "refuse",
            Self::Recover => "recover",
        }
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The type of the state, as `type/subtype` of lower-case letters, digits and `!#$&-^_.+`, at most
/// [`MAX_MEDIA_TYPE_BYTES`] bytes (RFC 6838 §4.2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaType(String);

impl MediaType {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// Kind `InvalidInput`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "!#$&-^_.+".contains(c);
        let part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(allowed)
        };
        let ok = text.len() <= MAX_MEDIA_TYPE_BYTES
            && text
                .split_once('/')
                .is_some_and(|(kind, sub)| part(kind) && part(sub));
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!(
                "a media type is `type/subtype` in lower case, at most {MAX_MEDIA_TYPE_BYTES} bytes"
            )))
        }
    }

    /// `application/octet-stream`: bytes without a description.
    pub fn bytes() -> Self {
        Self("application/octet-stream".to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The seal of a state: its length, digest and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSeal {
    /// How many.
    pub length: u64,
    /// SHA-256 of them.
    pub digest: Digest,
    /// Their type.
    pub media: MediaType,
}

impl StateSeal {
    /// The seal of `state`.
    pub fn of(state: &[u8], media: MediaType) -> Self {
        Self {
            length: state.len() as u64,
            digest: Digest::of(state),
            media,
        }
    }
}

/// The fields that only the header of v0x05 has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeHeader {
    /// The action of the link.
    pub kind: LinkKind,
    /// Links before it, or more where an older history's were not counted.
    pub seq: u64,
    /// Nanoseconds since 1970, by the signer's claim; not negative.
    pub time: i64,
    /// The seal of the state after the header.
    pub state: StateSeal,
    /// The digest of the agent's transcript head.
    pub transcript: Option<Digest>,
    /// The tools that the agent may use.
    pub manifest: Option<Digest>,
    /// SHA-256 of the file of receipts.
    pub receipts: Option<Digest>,
    /// The link of the agent that started this one.
    pub parent: Option<ContentHash>,
    /// The agent's name.
    pub name: AgentName,
    /// The agent's root key.
    pub root: PublicKey,
    /// The delegation under which the signer signs; `None` where it is the root.
    pub certificate: Option<Certificate>,
}

impl NativeHeader {
    /// The agent.
    pub fn agent_id(&self) -> AgentId {
        AgentId::new(&self.root, &self.name)
    }

    fn delegation(&self, signer: PublicKey) -> Option<Delegation> {
        Some(Delegation {
            root: self.root,
            name: self.name.clone(),
            signer,
            certificate: self.certificate?,
        })
    }
}

/// Why the seal of a link of v0x05 does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealFault {
    /// The signature is not the signer's.
    Signature,
    /// The delegation is not the root's.
    Delegation,
    /// The link states a time outside the delegation.
    Window,
    /// It is no link of v0x05.
    NotNative,
}

impl fmt::Display for SealFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signature => "the signature of the link does not verify",
            Self::Delegation => "the delegation of the link's signer does not verify",
            Self::Window => "the link states a time outside the delegation of its signer",
            Self::NotNative => "the link is not of v0x05",
        })
    }
}

impl std::error::Error for SealFault {}

/// A header with its signature, its bytes and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedHeader {
    /// It.
    pub header: CheckpointHeader,
    /// Its bytes as stored before the state.
    pub bytes: Vec<u8>,
    /// The name that a child uses.
    pub hash: ContentHash,
}

/// Signs a header of v0x05; the signature that it has is replaced.
///
/// # Errors
/// Kind `InvalidInput` where a field does not fit. `Key` where `signer` is not the header's signer.
/// `Refused` where the delegation is not the root's or does not cover the time. Those of
/// [`Signer::sign`].
pub fn seal(mut header: CheckpointHeader, signer: &dyn Signer) -> Result<SealedHeader, Error> {
    if header.signer.as_ref() != Some(signer.public_key().as_bytes()) {
        return Err(Error::key("the header names another signer"));
    }
    header.signature = Some(Signature::from_bytes([0; 64]));
    let unsigned = header.encode()?;
    check_delegation(&header, *signer.public_key(), &mut None)
        .map_err(|fault| Error::refused(fault.to_string()))?;
    header.signature = Some(signer.sign(&message(&unsigned))?);
    let bytes = header.encode()?;
    let hash = ContentHash::of(&bytes);
    Ok(SealedHeader {
        header,
        bytes,
        hash,
    })
}

/// Does the seal of a header of v0x05 hold? Whether that signer may sign here is another question.
///
/// # Errors
/// The [`SealFault`].
pub fn verify(header: &CheckpointHeader) -> Result<(), SealFault> {
    let bytes = header.encode().map_err(|_| SealFault::NotNative)?;
    verify_read(header, &bytes, &mut None)
}

/// Does the seal of `header` hold, which was read from `bytes`? The delegation in `held` was valid
/// before; the one that is checked here takes its place.
pub(super) fn verify_read(
    header: &CheckpointHeader,
    bytes: &[u8],
    held: &mut Option<Delegation>,
) -> Result<(), SealFault> {
    let (Some(Ok(signer)), Some(signature)) = (header.signer_key(), &header.signature) else {
        return Err(SealFault::Signature);
    };
    check_delegation(header, signer, held)?;
    signer
        .verify(&message(bytes), signature)
        .map_err(|_| SealFault::Signature)
}

impl CheckpointHeader {
    /// The delegation of the signer, where there is one.
    pub fn delegation(&self) -> Option<Delegation> {
        let native = self.native.as_ref()?;
        native.certificate?;
        native.delegation(self.signer_key()?.ok()?)
    }
}

fn check_delegation(
    header: &CheckpointHeader,
    signer: PublicKey,
    held: &mut Option<Delegation>,
) -> Result<(), SealFault> {
    let native = header.native.as_ref().ok_or(SealFault::NotNative)?;
    let Some(delegation) = native.delegation(signer) else {
        return Ok(());
    };
    if held.as_ref() != Some(&delegation) {
        delegation.verify().map_err(|_| SealFault::Delegation)?;
    }
    let covers = delegation.certificate.covers(native.time);
    *held = Some(delegation);
    covers.then_some(()).ok_or(SealFault::Window)
}

fn message(header: &[u8]) -> Message {
    let signed = header.get(..SIGNATURE_AT).unwrap_or_default();
    Message::tagged(CHECKPOINT_TAG, &[signed])
}

/// Does the magic follow the version, as far as the file goes?
pub(super) fn has_magic(file: &[u8]) -> bool {
    let found = file.get(1..).unwrap_or_default();
    let length = found.len().min(MAGIC.len());
    found.get(..length) == MAGIC.get(..length)
}

/// Reads a header of v0x05: 624 bytes that begin with the version and the magic.
pub(super) fn parse(header: &[u8]) -> Result<CheckpointHeader, HeaderError> {
    let number = |at| u64::from_le_bytes(field(header, at));
    let signed = |at| i64::from_le_bytes(field(header, at));
    let digest = |at| ContentHash::from_field(field(header, at)).map(|hash| hash.digest());
    require(field(header, 10) == [0; 2], "reserved", "be zero")?;
    require(
        u32::from_le_bytes(field(header, 12)) as usize == HEADER_LENGTH,
        "header length",
        "be 624",
    )?;
    let (budget, price) = (signed(32), signed(40));
    if budget < 0 {
        return Err(HeaderError::NegativeBudget(budget));
    }
    if price < 0 {
        return Err(HeaderError::NegativePrice(price));
    }
    require(signed(64) >= 0, "lease expiry", "not be negative")?;
    require(signed(72) >= 0, "time", "not be negative")?;
    let prev = ContentHash::from_field(field(header, 192));
    let seq = number(16);
    require(
        (seq == 0) == prev.is_none(),
        "prev",
        "be zero in the first link and in no other",
    )?;
    let kind = u16::from_le_bytes(field(header, 8));
    let kind = LinkKind::ALL.into_iter().find(|k| k.number() == kind);
    let kind = kind.ok_or(malformed("kind", "be 1 to 5"))?;
    let state = StateSeal {
        length: number(88),
        digest: Digest::from_bytes(field(header, 128)),
        media: padded(header.get(96..128), "state type", |text| {
            MediaType::parse(text)
        })?,
    };
    require(
        links::fits(kind, &state),
        "state",
        "have the type and length of the link's kind",
    )?;
    let signer = field(header, 448);
    let root = usable(&field(header, 416), "root key")?;
    let by_root = root.as_bytes() == &signer;
    if !by_root {
        usable(&signer, "signer key")?;
    }
    Ok(CheckpointHeader {
        version: Version::V5,
        budget,
        price,
        tick: number(24),
        code: Digest::from_bytes(field(header, 160)),
        epoch: Epoch {
            major: number(48),
            generation: number(56),
        },
        lease_expiry: signed(64),
        prev,
        signer: Some(signer),
        signature: Some(Signature::from_bytes(field(header, SIGNATURE_AT))),
        native: Some(Box::new(NativeHeader {
            kind,
            seq,
            time: signed(72),
            state,
            transcript: digest(224),
            manifest: digest(256),
            receipts: digest(288),
            parent: ContentHash::from_field(field(header, 320)),
            name: padded(header.get(352..416), "agent name", |text| {
                AgentName::parse(text)
            })?,
            root,
            certificate: certificate(header, by_root)?,
        })),
    })
}

fn certificate(header: &[u8], by_root: bool) -> Result<Option<Certificate>, HeaderError> {
    let certificate = Certificate {
        key_epoch: u64::from_le_bytes(field(header, 80)),
        not_before: i64::from_le_bytes(field(header, 480)),
        not_after: i64::from_le_bytes(field(header, 488)),
        signature: Signature::from_bytes(field(header, 496)),
    };
    if !by_root {
        return match certificate.fault() {
            Some(fault) => Err(malformed("delegation", fault)),
            None => Ok(Some(certificate)),
        };
    }
    let none = certificate.key_epoch == 0
        && field(header, 480) == [0_u8; 16]
        && field(header, 496) == [0_u8; 64];
    require(none, "delegation", "be zero where the root signs itself")?;
    Ok(None)
}

/// The bytes of a header of v0x05. Reading it back checks the values of its fields.
pub(super) fn encode(header: &CheckpointHeader) -> Result<Vec<u8>, Error> {
    let native = header
        .native
        .as_ref()
        .ok_or_else(|| Error::invalid("a header of v0x05 names its agent"))?;
    let hash = |hash: &Option<ContentHash>| hash.map_or([0; 32], |hash| *hash.as_bytes());
    let digest = |digest: &Option<Digest>| digest.map_or([0; 32], |digest| *digest.as_bytes());
    let (key_epoch, not_before, not_after, delegated) = match &native.certificate {
        None => (0, 0, 0, [0; 64]),
        Some(of) => (
            of.key_epoch,
            of.not_before,
            of.not_after,
            *of.signature.as_bytes(),
        ),
    };
    let mut bytes = Vec::with_capacity(HEADER_LENGTH);
    bytes.push(Version::V5.byte());
    bytes.extend(MAGIC);
    bytes.extend(native.kind.number().to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(624_u32.to_le_bytes());
    bytes.extend(native.seq.to_le_bytes());
    bytes.extend(header.tick.to_le_bytes());
    bytes.extend(header.budget.to_le_bytes());
    bytes.extend(header.price.to_le_bytes());
    bytes.extend(header.epoch.major.to_le_bytes());
    bytes.extend(header.epoch.generation.to_le_bytes());
    bytes.extend(header.lease_expiry.to_le_bytes());
    bytes.extend(native.time.to_le_bytes());
    bytes.extend(key_epoch.to_le_bytes());
    bytes.extend(native.state.length.to_le_bytes());
    pad(
        &mut bytes,
        native.state.media.as_str(),
        MAX_MEDIA_TYPE_BYTES,
    );
    bytes.extend(native.state.digest.as_bytes());
    bytes.extend(header.code.as_bytes());
    bytes.extend(hash(&header.prev));
    bytes.extend(digest(&native.transcript));
    bytes.extend(digest(&native.manifest));
    bytes.extend(digest(&native.receipts));
    bytes.extend(hash(&native.parent));
    pad(&mut bytes, native.name.as_str(), MAX_AGENT_NAME_BYTES);
    bytes.extend(native.root.as_bytes());
    bytes.extend(header.signer.unwrap_or_default());
    bytes.extend(not_before.to_le_bytes());
    bytes.extend(not_after.to_le_bytes());
    bytes.extend(delegated);
    bytes.extend(
        header
            .signature
            .map_or([0; 64], |signed| *signed.as_bytes()),
    );
    Ok(bytes)
}

/// Appends a text as its length in one byte, itself, and zeros up to `longest`.
fn pad(bytes: &mut Vec<u8>, text: &str, longest: usize) {
    let end = bytes.len() + 1 + longest;
    bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    bytes.extend(text.as_bytes());
    bytes.resize(end, 0);
}

fn padded<T>(
    bytes: Option<&[u8]>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, Error>,
) -> Result<T, HeaderError> {
    let read = || {
        let (length, rest) = bytes?.split_first()?;
        let (text, zeros) = rest.split_at_checked(usize::from(*length))?;
        let text = std::str::from_utf8(text).ok()?;
        zeros
            .iter()
            .all(|byte| *byte == 0)
            .then(|| parse(text).ok())?
    };
    read().ok_or(malformed(name, "be its length, a valid text and zeros"))
}

fn usable(bytes: &[u8; 32], name: &'static str) -> Result<PublicKey, HeaderError> {
    PublicKey::from_bytes(bytes).map_err(|_| HeaderError::Key { field: name })
}

fn require(holds: bool, field: &'static str, must: &'static str) -> Result<(), HeaderError> {
    holds.then_some(()).ok_or(malformed(field, must))
}

fn malformed(field: &'static str, must: &'static str) -> HeaderError {
    HeaderError::Malformed { field, must }
}
