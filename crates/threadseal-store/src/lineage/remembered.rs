//! [`RememberedStore`]: a store of which this host remembers the newest links.
//!
//! ```text
//! save ─► do the links build on the one that this host knows? ─► the store ─► the new head
//! ```
//! A link is remembered once it is durable: the store may be ahead of this host's heads, never the
//! reverse. So a store that was rolled back takes nothing more from this host, because that would
//! be a fork. A verification of it here reports the rollback.

use super::{Advance, CheckpointStore, Newest, Saved, StoredLink, Survey};
use crate::heads::{Durability, RecordKind};
use crate::host::{Host, Published};
use crate::key_ends::SealSection;
use crate::read::Source;
use std::collections::BTreeSet;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyId, PublicKey};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{Bearing, KnownFork};
use threadseal_formats::lineage::{
    AgentIdentity, AgentName, CheckpointHeader, ContentHash, Identity, PlacedLink, bearing,
};

/// Attempts to publish a head while other writers publish theirs; after each one of them has
/// advanced.
const MAX_PUBLISH_ATTEMPTS: usize = 16;

/// A store, and the host that holds heads.
#[derive(Debug)]
pub struct RememberedStore {
    store: Box<dyn CheckpointStore>,
    host: Host,
    /// The place that a later search opens, where it is no folder.
    address: Option<String>,
}

impl RememberedStore {
    /// `host` remembers the links that are saved to `store`.
    pub fn new(store: Box<dyn CheckpointStore>, host: Host) -> Self {
        Self {
            store,
            host,
            address: None,
        }
    }

    /// The same of a store that `address` opens: one without secrets, whose path is absolute.
    #[must_use]
    pub fn at(self, address: Option<String>) -> Self {
        Self { address, ..self }
    }

    /// Refuses to build on less than this host knew already. True where the saved links were built
    /// on another machine and this host knows later ones from another store.
    fn check_known(&self, agent: &AgentName, advance: &Advance) -> Result<bool, Error> {
        let newest = self.store.newest(agent)?;
        if newest != Newest::Nothing {
            let what = format!("{agent} has links in {}", self.store.place());
            self.host.refuse_doubted(&what, None)?;
        }
        for record in self.records(agent, &newest, advance)? {
            self.host.refuse_pruned(&record)?;
            self.refuse_forked(agent, &record, advance)?;
            let Some(known) = self.host.heads.fetch(&record)? else {
                continue;
            };
            let line = known.head.line;
            let is_known = |hash: &ContentHash| hash.digest() == line;
            if newest.known().as_ref().is_some_and(is_known)
                || advance.proved().iter().any(is_known)
                || self.store.history(agent)?.iter().any(is_known)
            {
                continue;
            }
            if advance.is_answer() {
                return Ok(true);
            }
            return Err(Error::refused(format!(
                "the store lacks link {line} of {agent}, which this host has seen; restore it"
            )));
        }
        Ok(false)
    }

    /// Refuses to continue after a fork in the log of this host: the agent signed two links in one
    /// place. Also refuses where the links do not show whether this is such a continuation.
    fn refuse_forked(
        &self,
        agent: &AgentName,
        record: &RecordId,
        advance: &Advance,
    ) -> Result<(), Error> {
        let forks = self.host.heads.forks(record)?;
        if forks.is_empty() {
            return Ok(());
        }
        let mut links = Vec::new();
        for hash in self.store.history(agent)? {
            let link = self.store.load(agent, &hash)?;
            links.extend(link.map(|link| PlacedLink::of(hash, &link.header)));
        }
        links.extend(advance.placed());
        let whole = links.first().is_some_and(PlacedLink::is_beginning);
        for KnownFork { fork, entry } in forks {
            let why = match bearing(&fork, links.iter().copied(), whole) {
                Bearing::Clear => continue,
                Bearing::Forked => "nothing continues from there",
                Bearing::Unknown => {
                    "the links that are here do not show whether this continues from there"
                }
            };
            return Err(Error::refused(format!("{entry}: {fork}; {why}")));
        }
        Ok(())
    }

    /// The record ids by which head stores know the agents of the newest link and of the saved
    /// ones. An agent that continues in v0x05 is known by its name from there on.
    fn records(
        &self,
        agent: &AgentName,
        newest: &Newest,
        advance: &Advance,
    ) -> Result<BTreeSet<RecordId>, Error> {
        let identities = advance.headers().filter_map(Identity::of);
        let mut records: BTreeSet<RecordId> = identities.map(|of| of.record).collect();
        if let Newest::Link(newest) = newest {
            let newest = self.store.load(agent, newest)?;
            let identity = newest.and_then(|newest| Identity::of(&newest.header));
            records.extend(identity.map(|of| of.record));
        }
        Ok(records)
    }

    /// Refuses links whose heads could not be remembered.
    fn admit(&self, advance: &Advance) -> Result<(), Error> {
        for header in advance.headers() {
            if let Some(identity) = Identity::of(header) {
                let seq = header.native.as_ref().map_or(0, |native| native.seq);
                let of = (&identity.record, RecordKind::Lineage);
                self.host.admit(of, (seq, header.tick), &[])?;
            }
        }
        Ok(())
    }

    /// Remembers the newest link, by its place where all before it are here.
    fn remember(
        &self,
        agent: &AgentName,
        header: &CheckpointHeader,
        hash: ContentHash,
    ) -> Result<(), Error> {
        let Some(identity) = Identity::of(header) else {
            return Ok(());
        };
        let seq = match &header.native {
            Some(native) => native.seq,
            None => match self.place_of(agent, &identity.record, hash)? {
                Some(place) => place,
                None => return Ok(()),
            },
        };
        let head = Head {
            record: identity.record,
            seq,
            size: header.tick,
            line: hash.digest(),
        };
        let signer = header
            .signer
            .and_then(|raw| PublicKey::from_bytes(&raw).ok());
        let key = signer.map(|signer| signer.key_id());
        for _ in 1..MAX_PUBLISH_ATTEMPTS {
            match self.publish(head, key) {
                // Another writer's link came first: one that builds on this, or one before it.
                Err(error) if error.kind() == ErrorKind::Refused => {}
                published => return published,
            }
            if self.is_ahead(agent, &identity.record, hash)? {
                return Ok(());
            }
        }
        self.publish(head, key)
    }

    fn publish(&self, head: Head, key: Option<KeyId>) -> Result<(), Error> {
        self.host.publish(&Published {
            head,
            root: None,
            salts: None,
            key,
            kind: RecordKind::Lineage,
            is_final: false,
            thread: None,
            // An agent moves: no place belongs to it.
            path: None,
            aliases: &[],
            durability: Durability::Durable,
        })?;
        self.note_place(&head.record);
        Ok(())
    }

    fn note_place(&self, record: &RecordId) {
        let Some(address) = &self.address else {
            let place = self.store.place();
            let place = match std::path::Path::new(&place) {
                folder if self.host.fs.metadata(folder).is_ok() => self.host.place(folder),
                _ => place,
            };
            return self.host.heads.note_place(record, &place);
        };
        let own = self.store.own_place();
        let noted = self.host.heads.noted_places(record);
        let last = noted
            .iter()
            .rev()
            .find(|place| Some(*place) != own.as_ref());
        if last != Some(address) {
            self.host.heads.note_place(record, address);
        }
        // An address has many spellings, and the store knows one name of its place.
        if let Some(own) = own.filter(|own| !noted.contains(own)) {
            self.host.heads.note_place(record, &own);
        }
    }

    /// The number of links before `hash`: counted from the first, or from the one that this host
    /// knows; unknown where neither is here.
    fn place_of(
        &self,
        agent: &AgentName,
        record: &RecordId,
        hash: ContentHash,
    ) -> Result<Option<u64>, Error> {
        let history = self.store.history(agent)?;
        let at = |line: Digest| history.iter().position(|link| link.digest() == line);
        let (Some(place), Some(first)) = (at(hash.digest()), history.first()) else {
            return Ok(None);
        };
        let first = self.store.load(agent, first)?;
        let (from, before) = if first.is_none_or(|first| first.header.prev.is_some()) {
            let known = self.host.heads.fetch(record)?.map(|known| known.head);
            match known.and_then(|known| Some((at(known.line)?, known.seq))) {
                Some(known) => known,
                None => return Ok(None),
            }
        } else {
            (0, 0)
        };
        let behind = place.checked_sub(from).and_then(|n| u64::try_from(n).ok());
        Ok(behind.and_then(|behind| before.checked_add(behind)))
    }

    /// Does this host know a link after `hash`?
    fn is_ahead(
        &self,
        agent: &AgentName,
        record: &RecordId,
        hash: ContentHash,
    ) -> Result<bool, Error> {
        let Some(known) = self.host.heads.fetch(record)? else {
            return Ok(false);
        };
        let now = self.store.history(agent)?;
        let mut after = now.iter().skip_while(|link| **link != hash);
        Ok(after.any(|link| link.digest() == known.head.line))
    }
}

impl CheckpointStore for RememberedStore {
    fn newest(&self, agent: &AgentName) -> Result<Newest, Error> {
        self.store.newest(agent)
    }

    fn save(
        &self,
        agent: &AgentName,
        advance: &Advance,
        state: &mut dyn Source,
    ) -> Result<Saved, Error> {
        self.admit(advance)?;
        let is_behind = self.check_known(agent, advance)?;
        let saved = self.store.save(agent, advance, state)?;
        let standing = advance.standing();
        if let (Saved::Stored, Some(header), Some(hash)) =
            (saved, standing.header(), standing.newest())
            && !is_behind
        {
            self.remember(agent, header, hash)?;
        }
        Ok(saved)
    }

    fn load(&self, agent: &AgentName, link: &ContentHash) -> Result<Option<StoredLink>, Error> {
        self.store.load(agent, link)
    }

    fn list(&self, after: Option<&AgentName>, limit: usize) -> Result<Vec<AgentName>, Error> {
        self.store.list(after, limit)
    }

    fn delete(&self, agent: &AgentName, expected: &ContentHash) -> Result<Saved, Error> {
        self.store.delete(agent, expected)
    }

    fn save_identity(&self, agent: &AgentName, identity: &AgentIdentity) -> Result<(), Error> {
        self.store.save_identity(agent, identity)
    }

    fn load_identity(&self, agent: &AgentName) -> Result<Option<AgentIdentity>, Error> {
        self.store.load_identity(agent)
    }

    fn delete_identity(&self, agent: &AgentName) -> Result<(), Error> {
        self.store.delete_identity(agent)
    }

    fn survey(&self) -> Result<Survey, Error> {
        self.store.survey()
    }

    fn place(&self) -> String {
        self.store.place()
    }

    fn own_place(&self) -> Option<String> {
        self.store.own_place()
    }

    fn enter_seal(&self, key: &PublicKey) -> Result<SealSection, Error> {
        self.host.enter_seal(&[key])
    }
}
