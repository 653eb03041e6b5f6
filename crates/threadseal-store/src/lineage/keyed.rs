//! [`KeyedCheckpointStore`]: lineages in named objects: object storage, SQLite, PostgreSQL, memory.
//!
//! ```text
//! lineages/<hex agent>                          the newest link, or "deleted"    replaced in place
//! lineage-links/<hex agent>/<hash>              every older link                 created once
//! lineage-states/<hex agent>/<hash>-<nonce>-<n> pieces of a state, 4 MiB each    created once
//! identities/<hex agent>                        the agent's key                  created once
//!
//! newest, link  threadseal.lineage-link/1 <64 hex: SHA-256 of everything after this line> LF
//!               <hash> here|absent|<nonce> <bytes of the state> LF  header  state, if it is here
//! deleted       threadseal.lineage-link/1 <sum> LF  <hash> deleted 0 LF
//! ```
//! The newest link is *in* the object that is replaced, so one write decides. The older one is
//! archived before it. After a lost answer the store reads the result. No other writer draws the
//! name of a piece of a state. A piece has no effect until a link leads to it.

use super::advance::{Proven, ProvenState};
use super::state::StoredLink;
use super::{Advance, CheckpointStore, MAX_HISTORY_LINKS, Newest, Saved, Survey, Surveyed};
use crate::objects::memory::MemoryObjects;
use crate::objects::{self, Objects, Put, Version, spell};
use crate::random::{self, SystemRandom};
use crate::read::{CHUNK_BYTES, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_formats::lineage::{
    AgentIdentity, AgentName, ContentHash, HEADER_LENGTH, Version as LinkVersion,
};

const LABEL: &str = "threadseal.lineage-link/1";
const HEADS: &str = "lineages";
const LINKS: &str = "lineage-links";
/// Longest state in the object of its link.
const MAX_HERE_BYTES: usize = 64 << 10;
/// Bytes of a piece of a longer one.
const PIECE_BYTES: usize = 4 << 20;
/// Most bytes of an object with a link.
const MAX_LINK_OBJECT_BYTES: usize = MAX_HERE_BYTES + HEADER_LENGTH + 512;

/// Lineages in named objects.
#[derive(Debug)]
pub struct KeyedCheckpointStore {
    objects: Arc<dyn Objects>,
}

/// Lineages that live as long as the process; for tests and short runs.
#[derive(Debug, Default)]
pub struct MemoryCheckpointStore;

impl MemoryCheckpointStore {
    /// A store without an agent.
    #[expect(
        clippy::new_ret_no_self,
        reason = "what a memory store is, is a keyed one"
    )]
    pub fn new() -> KeyedCheckpointStore {
        KeyedCheckpointStore::new(Arc::new(MemoryObjects::new()))
    }
}

/// A link as an object contains it.
struct Record {
    hash: ContentHash,
    state: RecordState,
    head: Vec<u8>,
}

enum RecordState {
    Here(Vec<u8>),
    /// In pieces with this part of their names.
    Pieces(String, u64),
    Absent,
    Deleted,
}

impl KeyedCheckpointStore {
    /// The lineages in `objects`.
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects }
    }

    fn read(&self, name: &str) -> Result<Option<(Record, Version, Vec<u8>)>, Error> {
        let Some(found) = self.objects.read(name, MAX_LINK_OBJECT_BYTES)? else {
            return Ok(None);
        };
        match Record::decode(&found.bytes) {
            Some(record) => Ok(Some((record, found.version, found.bytes))),
            None => Err(objects::damaged(&*self.objects, name, "is damaged")),
        }
    }

    /// Writes the state of a link to its place; returns the object that leads to it.
    fn record(
        &self,
        agent: &AgentName,
        link: &Proven,
        state: &mut dyn Source,
    ) -> Result<Vec<u8>, Error> {
        let is_long = match &link.state {
            ProvenState::Here(bytes) => bytes.len() > MAX_HERE_BYTES,
            ProvenState::Given(length, _) => *length > MAX_HERE_BYTES as u64,
            ProvenState::Absent => return Ok(encode(link, "absent", 0, &[])),
        };
        let mut pieces = Pieces {
            store: self,
            prefix: String::new(),
            waiting: Vec::new(),
            next: 0,
            length: 0,
        };
        if !is_long {
            link.write_state(state, &mut |piece| {
                pieces.waiting.extend_from_slice(piece);
                Ok(())
            })?;
            return Ok(encode(link, "here", 0, &pieces.waiting));
        }
        let nonce = encoding::hex(&random::array::<16>(&SystemRandom)?);
        pieces.prefix = format!("{}/{}-{nonce}-", states(agent), link.hash);
        let written = link.write_state(state, &mut |piece| pieces.take(piece));
        if let Err(error) = written.and_then(|_| pieces.end()) {
            pieces.withdraw();
            return Err(error);
        }
        Ok(encode(link, &nonce, pieces.length, &[]))
    }

    /// The result of a write of the newest link, where its answer does not show it.
    fn settled(&self, put: Result<Put, Error>, name: &str, new: &[u8]) -> Result<Saved, Error> {
        let error = match put {
            Ok(Put::Stored(_)) => return Ok(Saved::Stored),
            Ok(Put::Differs) => None,
            Err(error) => Some(error),
        };
        match (self.read(name)?, error) {
            (Some((_, _, bytes)), _) if bytes == new => Ok(Saved::Stored),
            (_, Some(error)) => Err(error),
            (found, None) => Ok(Saved::Differs(newest_of(
                found.as_ref().map(|found| &found.0),
            ))),
        }
    }

    fn remove_all(&self, folder: &str) -> Result<(), Error> {
        let objects = &*self.objects;
        objects::each_name(objects, folder, &mut |names| {
            for name in names {
                objects.remove(&format!("{folder}/{name}"))?;
            }
            Ok(())
        })
    }
}

impl CheckpointStore for KeyedCheckpointStore {
    fn newest(&self, agent: &AgentName) -> Result<Newest, Error> {
        let found = self.read(&head_name(agent))?;
        Ok(newest_of(found.as_ref().map(|found| &found.0)))
    }

    fn save(
        &self,
        agent: &AgentName,
        advance: &Advance,
        state: &mut dyn Source,
    ) -> Result<Saved, Error> {
        advance.check_agent(agent)?;
        let Some((last, older)) = advance.parts() else {
            return Err(Error::invalid("there is no link to save"));
        };
        let name = head_name(agent);
        let found = self.read(&name)?;
        let now = newest_of(found.as_ref().map(|found| &found.0));
        if let Some(saved) = advance.compared(&now) {
            return Ok(saved);
        }
        for link in older {
            let object = link_name(agent, &link.hash);
            // An object that leads to a state names its pieces, so two writers' objects may differ.
            if self
                .read(&object)?
                .is_none_or(|there| there.0.is_less_than(&link.state))
            {
                let bytes = self.record(agent, link, state)?;
                self.put_link(&object, &bytes)?;
            } else {
                link.write_state(state, &mut |_| Ok(()))?;
            }
        }
        let new = self.record(agent, last, state)?;
        let put = match &found {
            None => self.objects.create(&name, &new),
            Some((record, version, bytes)) => {
                if !matches!(record.state, RecordState::Deleted) {
                    self.put_link(&link_name(agent, &record.hash), bytes)?;
                }
                self.objects.replace_if(&name, version, &new)
            }
        };
        self.settled(put, &name, &new)
    }

    fn load(&self, agent: &AgentName, link: &ContentHash) -> Result<Option<StoredLink>, Error> {
        let older = || Ok::<_, Error>(self.read(&link_name(agent, link))?.map(|found| found.0));
        let record = match self.read(&head_name(agent)) {
            Ok(Some((record, _, _))) if record.hash == *link => Some(record),
            Ok(_) => older()?,
            // A damaged newest link takes no older one with it.
            Err(error) => match older()? {
                Some(record) => Some(record),
                None => return Err(error),
            },
        };
        let Some(record) = record.filter(|record| record.hash == *link) else {
            return Ok(None);
        };
        let state: Option<Box<dyn Source + Send>> = match record.state {
            RecordState::Absent => None,
            RecordState::Deleted => return Ok(None),
            RecordState::Here(bytes) => Some(Box::new(super::StateBytes::new(bytes))),
            RecordState::Pieces(nonce, length) => Some(Box::new(PieceSource {
                objects: Arc::clone(&self.objects),
                prefix: format!("{}/{link}-{nonce}-", states(agent)),
                next: 0,
                left: length,
                piece: Vec::new(),
                at: 0,
            })),
        };
        StoredLink::new(*link, record.head, state).map(Some)
    }

    fn list(&self, after: Option<&AgentName>, limit: usize) -> Result<Vec<AgentName>, Error> {
        let mut after = after.map_or(String::new(), hex);
        let mut agents = Vec::new();
        while agents.len() < limit {
            let names = self.objects.list(HEADS, &after, objects::PAGE)?;
            let Some(last) = names.last() else { break };
            after.clone_from(last);
            for name in &names {
                let Some(agent) = agent_of(name) else {
                    continue;
                };
                if matches!(self.newest(&agent)?, Newest::Link(_)) && agents.len() < limit {
                    agents.push(agent);
                }
            }
        }
        Ok(agents)
    }

    fn delete(&self, agent: &AgentName, expected: &ContentHash) -> Result<Saved, Error> {
        let name = head_name(agent);
        let Some((record, version, _)) = self.read(&name)? else {
            return Ok(Saved::Differs(Newest::Nothing));
        };
        if record.hash != *expected {
            return Ok(Saved::Differs(newest_of(Some(&record))));
        }
        if !matches!(record.state, RecordState::Deleted) {
            let stone = spell::summed(LABEL, format!("{expected} deleted 0\n").as_bytes());
            let put = self.objects.replace_if(&name, &version, &stone);
            if let differs @ Saved::Differs(_) = self.settled(put, &name, &stone)? {
                return Ok(differs);
            }
        }
        self.remove_all(&links(agent))?;
        self.remove_all(&states(agent))?;
        Ok(Saved::Stored)
    }

    fn save_identity(&self, agent: &AgentName, identity: &AgentIdentity) -> Result<(), Error> {
        let name = identity_name(agent);
        let file = identity.to_file();
        let exists = || {
            Error::invalid(format!(
                "{agent} has an identity in {}, and a key is never replaced",
                self.place()
            ))
        };
        if self.objects.read(&name, MAX_KEY_FILE_BYTES)?.is_some() {
            return Err(exists());
        }
        match self.objects.create(&name, &file) {
            Ok(Put::Stored(_)) => Ok(()),
            Ok(Put::Differs) => match self.objects.read(&name, MAX_KEY_FILE_BYTES)? {
                Some(found) if found.bytes == *file => Ok(()),
                _ => Err(exists()),
            },
            Err(error) => Err(error),
        }
    }

    fn load_identity(&self, agent: &AgentName) -> Result<Option<AgentIdentity>, Error> {
        let found = self
            .objects
            .read(&identity_name(agent), MAX_KEY_FILE_BYTES)?;
        let read = |found: objects::Object| {
            let bytes = zeroize::Zeroizing::new(found.bytes);
            AgentIdentity::read(&bytes)
        };
        found.map(read).transpose()
    }

    fn delete_identity(&self, agent: &AgentName) -> Result<(), Error> {
        self.objects.remove(&identity_name(agent))
    }

    fn survey(&self) -> Result<Survey, Error> {
        let mut found = BTreeMap::<AgentName, Vec<ContentHash>>::new();
        let (mut strays, mut links_seen) = (BTreeSet::new(), 0);
        for folder in [HEADS, LINKS] {
            objects::each_name(&*self.objects, folder, &mut |names| {
                for name in names {
                    // Storage lists what is below a folder, or the folders in it.
                    let first = name.split('/').next().unwrap_or_default();
                    if let Some(agent) = agent_of(first) {
                        found.entry(agent).or_default();
                    } else {
                        strays.insert(format!("{folder}/{first}"));
                    }
                }
                Ok(())
            })?;
        }
        for (agent, older) in &mut found {
            let folder = links(agent);
            objects::each_name(&*self.objects, &folder, &mut |names| {
                links_seen += names.len();
                if links_seen > MAX_HISTORY_LINKS {
                    let text = format!("the store has more than {MAX_HISTORY_LINKS} links");
                    return Err(Error::new(ErrorKind::Limit, text));
                }
                for name in names {
                    if let Some(hash) = ContentHash::parse_hex(name) {
                        older.push(hash);
                    } else {
                        strays.insert(format!("{folder}/{name}"));
                    }
                }
                Ok(())
            })?;
        }
        let agents = found.into_iter().map(|(agent, older)| Surveyed {
            newest: self.newest(&agent),
            agent,
            older,
        });
        Ok(Survey {
            agents: agents.collect(),
            strays: strays.into_iter().collect(),
        })
    }

    fn place(&self) -> String {
        self.objects.place()
    }

    fn own_place(&self) -> Option<String> {
        self.objects.own_place()
    }
}

impl KeyedCheckpointStore {
    /// Archives a link. One that is there already stays, unless only its header was.
    fn put_link(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        match self.objects.create(name, bytes)? {
            Put::Stored(_) => Ok(()),
            Put::Differs => match self.read(name)? {
                Some((record, version, _)) if matches!(record.state, RecordState::Absent) => {
                    // Another writer that does the same is as good.
                    let _ = self.objects.replace_if(name, &version, bytes)?;
                    Ok(())
                }
                Some(_) => Ok(()),
                None => Err(Error::new(
                    ErrorKind::External,
                    format!("{name} disappeared; another process deletes the agent"),
                )),
            },
        }
    }
}

impl Record {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (line, rest) = spell::line(spell::body(LABEL, bytes)?)?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let (hash, how, length) = (words.next()?, words.next()?, words.next()?);
        let hash = ContentHash::parse_hex(hash)?;
        let length: u64 = length.parse().ok()?;
        let version = rest.first().copied().and_then(LinkVersion::of_byte);
        let head_end = match how {
            "deleted" => 0,
            _ => version?.header_length(),
        };
        let (head, state) = rest.split_at_checked(head_end)?;
        let state = match how {
            "here" => RecordState::Here(state.to_vec()),
            "absent" => RecordState::Absent,
            "deleted" => RecordState::Deleted,
            nonce => {
                let _: [u8; 16] = encoding::parse_hex_array(nonce)?;
                RecordState::Pieces(nonce.to_owned(), length)
            }
        };
        let head = head.to_vec();
        Some(Self { hash, state, head })
    }

    /// Would a link with this state add something to it?
    fn is_less_than(&self, state: &ProvenState) -> bool {
        matches!(self.state, RecordState::Absent) && *state != ProvenState::Absent
    }
}

fn encode(link: &Proven, how: &str, length: u64, state: &[u8]) -> Vec<u8> {
    let mut body = format!("{} {how} {length}\n", link.hash).into_bytes();
    body.extend_from_slice(&link.head);
    body.extend_from_slice(state);
    spell::summed(LABEL, &body)
}

fn newest_of(record: Option<&Record>) -> Newest {
    match record {
        None => Newest::Nothing,
        Some(record) => match record.state {
            RecordState::Deleted => Newest::Deleted(record.hash),
            _ => Newest::Link(record.hash),
        },
    }
}

/// A state on its way into pieces.
struct Pieces<'s> {
    store: &'s KeyedCheckpointStore,
    prefix: String,
    waiting: Vec<u8>,
    next: u64,
    length: u64,
}

impl Pieces<'_> {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.waiting.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.waiting.extend_from_slice(now);
            bytes = later;
            if self.waiting.len() == PIECE_BYTES {
                self.put()?;
            }
        }
        Ok(())
    }

    fn put(&mut self) -> Result<(), Error> {
        let name = format!("{}{:08}", self.prefix, self.next);
        self.next += 1;
        self.length += self.waiting.len() as u64;
        objects::seal(&*self.store.objects, &name, &self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.waiting.is_empty() {
            true => Ok(()),
            false => self.put(),
        }
    }

    /// Removes the pieces that no link will ever lead to.
    fn withdraw(&self) {
        for number in 0..self.next {
            // There is an error on its way to the caller already.
            let _ = self
                .store
                .objects
                .remove(&format!("{}{number:08}", self.prefix));
        }
    }
}

struct PieceSource {
    objects: Arc<dyn Objects>,
    prefix: String,
    next: u64,
    left: u64,
    piece: Vec<u8>,
    at: usize,
}

impl Source for PieceSource {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        buffer.clear();
        if self.at == self.piece.len() && self.left > 0 {
            let name = format!("{}{:08}", self.prefix, self.next);
            let found = self.objects.read(&name, PIECE_BYTES)?;
            let found = found.filter(|found| {
                let length = found.bytes.len() as u64;
                length > 0 && length <= self.left
            });
            let Some(found) = found else {
                return Err(objects::damaged(
                    &*self.objects,
                    &name,
                    "is missing or has another length",
                ));
            };
            self.left -= found.bytes.len() as u64;
            (self.piece, self.at, self.next) = (found.bytes, 0, self.next + 1);
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let now = rest.get(..rest.len().min(CHUNK_BYTES)).unwrap_or_default();
        buffer.extend_from_slice(now);
        self.at += now.len();
        Ok(())
    }
}

fn hex(agent: &AgentName) -> String {
    encoding::hex(agent.as_str().as_bytes())
}

/// The agent whose name `hex` spells, as this store spells it.
fn agent_of(hex_name: &str) -> Option<AgentName> {
    let agent = AgentName::parse(&spell::text_of_hex(hex_name)?).ok()?;
    (hex(&agent) == hex_name).then_some(agent)
}

fn head_name(agent: &AgentName) -> String {
    format!("{HEADS}/{}", hex(agent))
}

fn identity_name(agent: &AgentName) -> String {
    format!("identities/{}", hex(agent))
}

fn links(agent: &AgentName) -> String {
    format!("{LINKS}/{}", hex(agent))
}

fn link_name(agent: &AgentName, link: &ContentHash) -> String {
    format!("{}/{link}", links(agent))
}

fn states(agent: &AgentName) -> String {
    format!("lineage-states/{}", hex(agent))
}

#[cfg(test)]
mod tests;
