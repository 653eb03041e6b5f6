//! igor's migration messages: an agent in one JSON document (`spec/lineage.md` §10.1).
//!
//! ```text
//! {"Package":{"AgentID","WASMBinary","WASMHash","Checkpoint","ManifestData","Budget",
//!             "PricePerSecond",
//!             "ReplayData"?:{"PreTickState","TickNumber","Entries":[{"HostcallID","Payload"},…]},
//!             "Receipts"?,"MajorVersion"?,"LeaseGeneration"?,"AgentIdentity"?},"SourceNodeID"}
//! {"AgentID","NodeID","Success","Error"}
//! ```
//! As Go's `encoding/json` writes them, with a line end and members in this order. Members with `?`
//! are left out where zero or empty. Bytes are in base64 or `null`. The characters `<`, `>`, `&`,
//! U+2028 and U+2029 are `\u` escapes. Its reader is lax about names, repeated and unknown members;
//! this one is not.
//!
//! `AgentIdentity` is the agent's private key. Every receiver of such a package can act as the
//! agent from then on. ThreadSeal reads and writes it so that agents can move between it and igor,
//! never by default. All claims of a package are checked against its checkpoint before the package
//! is released.

use super::header::{CheckpointHeader, HeaderError, Version};
use super::identity::{AgentIdentity, AgentName};
use super::receipts::{Receipt, parse_receipts};
use super::whole::{LinkFault, WholeLink};
use std::fmt;
use threadseal_core::canon::json::{self, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_PACKAGE_BYTES;
use zeroize::Zeroizing;

/// The observations of a tick, so that it can be run again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayData {
    /// The state before the tick; `None` for Go's nil.
    pub pre_tick_state: Option<Vec<u8>>,
    /// Which tick.
    pub tick: u64,
    /// The observations in order: the number of the call and its bytes.
    pub entries: Option<Vec<(u16, Option<Vec<u8>>)>>,
}

/// The package that moves an agent from one igor node to another.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AgentPackage {
    /// The operator's name of the agent.
    pub agent: String,
    /// Its code.
    pub code: Option<Vec<u8>>,
    /// SHA-256 of the code.
    pub code_hash: Option<Vec<u8>>,
    /// The whole file of its newest checkpoint.
    pub checkpoint: Option<Vec<u8>>,
    /// JSON text.
    pub manifest: Option<Vec<u8>>,
    /// As in the checkpoint.
    pub budget: i64,
    /// As in the checkpoint.
    pub price: i64,
    /// Of the last tick.
    pub replay: Option<ReplayData>,
    /// The file of its receipts; empty for none.
    pub receipts: Vec<u8>,
    /// As in the checkpoint.
    pub epoch: u64,
    /// As in the checkpoint.
    pub generation: u64,
    /// The 68 bytes of its identity file; empty for none. Secret.
    pub identity: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for AgentPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentPackage")
            .field("agent", &self.agent)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// A package on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentTransfer {
    /// The package.
    pub package: AgentPackage,
    /// The sender, by its own claim.
    pub source: String,
}

/// The answer of the receiving node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentStarted {
    /// Which agent.
    pub agent: String,
    /// The node that answers.
    pub node: String,
    /// Does it run there?
    pub success: bool,
    /// Why not.
    pub error: String,
}

/// A transfer that was read. Its content is not accessible before it is checked.
#[derive(Debug)]
pub struct UncheckedTransfer(AgentTransfer);

/// A transfer whose parts all fit together, and those parts.
#[derive(Debug)]
pub struct CheckedTransfer {
    /// It, as it was sent.
    pub transfer: AgentTransfer,
    /// The agent's name.
    pub name: AgentName,
    /// The checkpoint; its signature holds if its version has one.
    pub checkpoint: WholeLink,
    /// The agent's private key, where the transfer has it: the key that signed the checkpoint.
    pub identity: Option<AgentIdentity>,
    /// The receipts. Only a caller that knows the nodes can check whether they hold.
    pub receipts: Vec<Receipt>,
}

/// Why a transfer is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferFault {
    /// The agent's name cannot be a file's.
    Name,
    /// The code is missing, or has another hash than in the package or the checkpoint.
    Code,
    /// The checkpoint is missing, or does not hold on its own.
    Checkpoint(LinkFault),
    /// A value of the package differs from the checkpoint.
    Differs(&'static str),
    /// The checkpoint has no signature, although the agent's key is known.
    Unsigned,
    /// Another key signed than the agent's.
    Signer,
    /// The identity is no key, or not the one that signed.
    Identity,
    /// The receipts cannot be read, or are another agent's.
    Receipts,
}

impl fmt::Display for TransferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("the agent's name cannot be the name of a file"),
            Self::Code => {
                f.write_str("the code is not the one that the package and its checkpoint name")
            }
            Self::Checkpoint(fault) => fmt::Display::fmt(fault, f),
            Self::Differs(what) => {
                write!(f, "the package's {what} differs from the checkpoint's")
            }
            Self::Unsigned => {
                f.write_str("the checkpoint is unsigned, and the agent's key is known")
            }
            Self::Signer => f.write_str("the checkpoint is not signed by the agent's key"),
            Self::Identity => f.write_str("the identity is not the key that signed the checkpoint"),
            Self::Receipts => f.write_str("the receipts are not this agent's"),
        }
    }
}

impl std::error::Error for TransferFault {}

impl AgentTransfer {
    /// Reads a message: one JSON text, with or without a line end.
    ///
    /// # Errors
    /// Kind `Limit` beyond [`MAX_PACKAGE_BYTES`]; `InvalidInput` for anything but such a message.
    pub fn parse(text: &[u8]) -> Result<UncheckedTransfer, Error> {
        let value = read(text)?;
        let mut members = Members::of(&value)?;
        let transfer = Self {
            package: AgentPackage::from_value(members.value("Package")?)?,
            source: members.text("SourceNodeID")?,
        };
        members.finish()?;
        Ok(UncheckedTransfer(transfer))
    }

    /// The message, byte for byte as igor sends it. It holds a private key if the package does.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(
            self.package.longest() + longest_text(&self.source),
        ));
        out.extend(b"{\"Package\":");
        self.package.write(&mut out);
        out.extend(b",\"SourceNodeID\":");
        write_text(&mut out, &self.source);
        out.extend(b"}\n");
        out
    }
}

impl AgentStarted {
    /// Reads an answer.
    ///
    /// # Errors
    /// As [`AgentTransfer::parse`].
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let value = read(text)?;
        let mut members = Members::of(&value)?;
        let answer = Self {
            agent: members.text("AgentID")?,
            node: members.text("NodeID")?,
            success: members
                .value("Success")?
                .as_bool()
                .ok_or_else(|| wrong("Success"))?,
            error: members.text("Error")?,
        };
        members.finish()?;
        Ok(answer)
    }

    /// The answer, as igor sends it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, text) in [("{\"AgentID\":", &self.agent), (",\"NodeID\":", &self.node)] {
            out.extend(name.bytes());
            write_text(&mut out, text);
        }
        out.extend(format!(",\"Success\":{},\"Error\":", self.success).bytes());
        write_text(&mut out, &self.error);
        out.extend(b"}\n");
        out
    }
}

impl UncheckedTransfer {
    /// Checks that all parts fit together; with `key`, also that the agent is that one.
    ///
    /// # Errors
    /// The first [`TransferFault`].
    pub fn check(self, key: Option<&PublicKey>) -> Result<CheckedTransfer, TransferFault> {
        let package = &self.0.package;
        let name = AgentName::parse(&package.agent).map_err(|_| TransferFault::Name)?;
        let file = package.checkpoint.as_deref().unwrap_or_default();
        let checkpoint = WholeLink::read(file).map_err(TransferFault::Checkpoint)?;
        let header = &checkpoint.header;
        if header.version == Version::V5 {
            // igor does not know this version, and its own messages never carry it.
            let fault = HeaderError::Unsupported(Version::V5.byte());
            return Err(TransferFault::Checkpoint(LinkFault::Header(fault)));
        }
        package.check_numbers(header)?;
        check_signer(header, key)?;
        let identity = package.check_identity(header)?;
        let receipts = package.check_receipts()?;
        Ok(CheckedTransfer {
            name,
            checkpoint,
            identity,
            receipts,
            transfer: self.0,
        })
    }
}

fn check_signer(header: &CheckpointHeader, key: Option<&PublicKey>) -> Result<(), TransferFault> {
    match (key, &header.signer) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(TransferFault::Unsigned),
        (Some(key), Some(signer)) if key.as_bytes() == signer => Ok(()),
        (Some(_), Some(_)) => Err(TransferFault::Signer),
    }
}

impl AgentPackage {
    /// The package of an agent with its newest checkpoint, without replay data, receipts and
    /// private key.
    ///
    /// # Errors
    /// The [`TransferFault`] for which it would be refused.
    pub fn of(
        name: &AgentName,
        checkpoint: &[u8],
        code: &[u8],
        manifest: &[u8],
    ) -> Result<Self, TransferFault> {
        let header = CheckpointHeader::parse(checkpoint);
        let header = header.map_err(|error| TransferFault::Checkpoint(LinkFault::Header(error)))?;
        let package = Self {
            agent: name.as_str().to_owned(),
            code: Some(code.to_vec()),
            code_hash: Some(header.code.as_bytes().to_vec()),
            checkpoint: Some(checkpoint.to_vec()),
            manifest: Some(manifest.to_vec()),
            budget: header.budget,
            price: header.price,
            epoch: header.epoch.major,
            generation: header.epoch.generation,
            ..Self::default()
        };
        let transfer = UncheckedTransfer(AgentTransfer {
            package,
            source: String::new(),
        });
        Ok(transfer.check(None)?.transfer.package)
    }

    fn check_numbers(&self, header: &CheckpointHeader) -> Result<(), TransferFault> {
        let code = self.code.as_deref().map(Digest::of);
        let named = self.code_hash.as_deref();
        if code != Some(header.code) || named != Some(header.code.as_bytes().as_slice()) {
            return Err(TransferFault::Code);
        }
        let numbers = [
            ("budget", self.budget == header.budget),
            ("price", self.price == header.price),
            ("epoch", self.epoch == header.epoch.major),
            ("generation", self.generation == header.epoch.generation),
        ];
        match numbers.into_iter().find(|(_, same)| !same) {
            Some((what, _)) => Err(TransferFault::Differs(what)),
            None => Ok(()),
        }
    }

    fn check_identity(
        &self,
        header: &CheckpointHeader,
    ) -> Result<Option<AgentIdentity>, TransferFault> {
        if self.identity.is_empty() {
            return Ok(None);
        }
        let identity = AgentIdentity::read(&self.identity).map_err(|_| TransferFault::Identity)?;
        let same = header.signer.as_ref() == Some(identity.public_key().as_bytes());
        // An unsigned checkpoint is from before the agent had a key.
        if header.version.is_signed() && !same {
            return Err(TransferFault::Identity);
        }
        Ok(Some(identity))
    }

    fn check_receipts(&self) -> Result<Vec<Receipt>, TransferFault> {
        if self.receipts.is_empty() {
            return Ok(Vec::new());
        }
        let receipts = parse_receipts(&self.receipts).map_err(|_| TransferFault::Receipts)?;
        let own = receipts.iter().all(|receipt| receipt.agent == self.agent);
        own.then_some(receipts).ok_or(TransferFault::Receipts)
    }

    fn from_value(value: &Value) -> Result<Self, Error> {
        let mut members = Members::of(value)?;
        let package = Self {
            agent: members.text("AgentID")?,
            code: members.bytes("WASMBinary")?,
            code_hash: members.bytes("WASMHash")?,
            checkpoint: members.bytes("Checkpoint")?,
            manifest: members.bytes("ManifestData")?,
            budget: members.i64("Budget")?,
            price: members.i64("PricePerSecond")?,
            replay: members
                .optional("ReplayData")
                .filter(|value| !value.is_null())
                .map(ReplayData::from_value)
                .transpose()?,
            receipts: members.optional_bytes("Receipts")?,
            epoch: members.optional_u64("MajorVersion")?,
            generation: members.optional_u64("LeaseGeneration")?,
            identity: Zeroizing::new(members.optional_bytes("AgentIdentity")?),
        };
        members.finish()?;
        Ok(package)
    }

    /// Upper bound of the package's bytes as a message. A buffer of that size never grows, so no
    /// copy of the private key remains in freed memory.
    pub(super) fn longest(&self) -> usize {
        let replay = self.replay.iter().flat_map(|replay| {
            let entries = replay.entries.iter().flatten();
            let payloads =
                entries.map(|(_, payload)| payload.as_ref().map_or(64, |of| of.len() + 64));
            payloads.chain(replay.pre_tick_state.as_ref().map(Vec::len))
        });
        let parts = [
            &self.code,
            &self.code_hash,
            &self.checkpoint,
            &self.manifest,
        ];
        let parts = parts.into_iter().flatten().map(Vec::len);
        let more = [self.receipts.len(), self.identity.len()];
        let bytes: usize = parts.chain(more).chain(replay).sum();
        bytes.div_ceil(3) * 4 + longest_text(&self.agent) + 1024
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(b"{\"AgentID\":");
        write_text(out, &self.agent);
        for (name, bytes) in [
            ("WASMBinary", &self.code),
            ("WASMHash", &self.code_hash),
            ("Checkpoint", &self.checkpoint),
            ("ManifestData", &self.manifest),
        ] {
            out.extend(format!(",\"{name}\":").bytes());
            write_bytes(out, bytes.as_deref());
        }
        out.extend(format!(",\"Budget\":{}", self.budget).bytes());
        out.extend(format!(",\"PricePerSecond\":{}", self.price).bytes());
        if let Some(replay) = &self.replay {
            out.extend(b",\"ReplayData\":");
            replay.write(out);
        }
        if !self.receipts.is_empty() {
            out.extend(b",\"Receipts\":");
            write_bytes(out, Some(&self.receipts));
        }
        for (name, number) in [
            ("MajorVersion", self.epoch),
            ("LeaseGeneration", self.generation),
        ] {
            if number != 0 {
                out.extend(format!(",\"{name}\":{number}").bytes());
            }
        }
        if !self.identity.is_empty() {
            out.extend(b",\"AgentIdentity\":");
            write_bytes(out, Some(&self.identity));
        }
        out.push(b'}');
    }
}

impl ReplayData {
    fn from_value(value: &Value) -> Result<Self, Error> {
        let mut members = Members::of(value)?;
        let replay = Self {
            pre_tick_state: members.bytes("PreTickState")?,
            tick: members
                .value("TickNumber")?
                .as_u64()
                .ok_or_else(|| wrong("TickNumber"))?,
            entries: match members.value("Entries")? {
                Value::Null => None,
                list => {
                    let list = list.as_array().ok_or_else(|| wrong("Entries"))?;
                    Some(list.iter().map(entry).collect::<Result<_, _>>()?)
                }
            },
        };
        members.finish()?;
        Ok(replay)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(b"{\"PreTickState\":");
        write_bytes(out, self.pre_tick_state.as_deref());
        out.extend(format!(",\"TickNumber\":{},\"Entries\":", self.tick).bytes());
        let Some(entries) = &self.entries else {
            out.extend(b"null}");
            return;
        };
        out.push(b'[');
        for (number, (call, payload)) in entries.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend(format!("{{\"HostcallID\":{call},\"Payload\":").bytes());
            write_bytes(out, payload.as_deref());
            out.push(b'}');
        }
        out.extend(b"]}");
    }
}

fn entry(value: &Value) -> Result<(u16, Option<Vec<u8>>), Error> {
    let mut members = Members::of(value)?;
    let call = members.value("HostcallID")?.as_u64();
    let call = call.and_then(|call| u16::try_from(call).ok());
    let payload = members.bytes("Payload")?;
    members.finish()?;
    Ok((call.ok_or_else(|| wrong("HostcallID"))?, payload))
}

fn read(text: &[u8]) -> Result<Value, Error> {
    if text.len() > MAX_PACKAGE_BYTES {
        let limit = format!("a message of igor has at most {MAX_PACKAGE_BYTES} bytes");
        return Err(Error::new(ErrorKind::Limit, limit));
    }
    let refuse = |_| Error::invalid("this is not a message of igor: not a JSON text");
    json::parse(text).map_err(refuse)
}

/// The members of an object, each asked for once.
struct Members<'a> {
    all: &'a [(Text, Value)],
    asked: usize,
}

impl<'a> Members<'a> {
    fn of(value: &'a Value) -> Result<Self, Error> {
        let all = value
            .as_object()
            .ok_or_else(|| Error::invalid("this is not a message of igor: not an object"))?;
        Ok(Self { all, asked: 0 })
    }

    fn optional(&mut self, name: &str) -> Option<&'a Value> {
        let found = self.all.iter().find(|(known, _)| *known == *name)?;
        self.asked += 1;
        Some(&found.1)
    }

    fn value(&mut self, name: &str) -> Result<&'a Value, Error> {
        self.optional(name).ok_or_else(|| wrong(name))
    }

    fn text(&mut self, name: &str) -> Result<String, Error> {
        let text = self.value(name)?.as_str();
        Ok(text.ok_or_else(|| wrong(name))?.to_owned())
    }

    fn i64(&mut self, name: &str) -> Result<i64, Error> {
        self.value(name)?.as_i64().ok_or_else(|| wrong(name))
    }

    fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let value = self.value(name)?;
        if value.is_null() {
            return Ok(None);
        }
        let bytes = value.as_str().and_then(encoding::parse_base64);
        bytes.map(Some).ok_or_else(|| wrong(name))
    }

    fn optional_bytes(&mut self, name: &str) -> Result<Vec<u8>, Error> {
        match self.optional(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(value) => {
                let bytes = value.as_str().and_then(encoding::parse_base64);
                bytes.ok_or_else(|| wrong(name))
            }
        }
    }

    fn optional_u64(&mut self, name: &str) -> Result<u64, Error> {
        match self.optional(name) {
            None => Ok(0),
            Some(value) => value.as_u64().ok_or_else(|| wrong(name)),
        }
    }

    /// Members that were not asked for are refused: names are unique, so counting is enough.
    fn finish(self) -> Result<(), Error> {
        if self.asked == self.all.len() {
            return Ok(());
        }
        Err(Error::invalid(
            "this is not a message of igor: it has members that igor does not write",
        ))
    }
}

fn wrong(name: &str) -> Error {
    Error::invalid(format!(
        "this is not a message of igor: `{name}` is not valid"
    ))
}

/// Go's nil is `null`; bytes are standard base64 with padding.
fn write_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else {
        out.extend(b"null");
        return;
    };
    let text = Zeroizing::new(encoding::base64(bytes));
    out.push(b'"');
    out.extend(text.as_bytes());
    out.push(b'"');
}

/// Bytes of a text when each of its characters is escaped.
pub(super) fn longest_text(text: &str) -> usize {
    6 * text.len() + 2
}

/// A string as Go's encoder writes it; by default it escapes text for use in HTML.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for letter in text.chars() {
        match letter {
            '"' => out.extend(b"\\\""),
            '\\' => out.extend(b"\\\\"),
            '\n' => out.extend(b"\\n"),
            '\r' => out.extend(b"\\r"),
            '\t' => out.extend(b"\\t"),
            '\u{8}' => out.extend(b"\\b"),
            '\u{c}' => out.extend(b"\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend(format!("\\u{:04x}", u32::from(letter)).bytes());
            }
            _ => out.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    out.push(b'"');
}
