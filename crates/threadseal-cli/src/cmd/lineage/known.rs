//! What this host remembers of an agent's lineage, beside what a store has of it.
//!
//! A link is remembered once it is durable: a store may be ahead of what is remembered, never behind.

use crate::exit::Failure;
use threadseal::error::{Error, ErrorKind};
use threadseal::lineage::{AgentName, CheckpointHeader, ContentHash, Identity};
use threadseal::record::{Head, RecordId};
use threadseal_store::heads::{Durability, RecordKind};
use threadseal_store::host::{Host, Published};
use threadseal_store::lineage::{CheckpointStore, overtaken};

/// Times that a head is published while other writers publish theirs; each time one of them got on.
const MAX_PUBLISH_ATTEMPTS: usize = 16;

/// An agent's history in a store, and the host that holds heads.
pub(super) struct Known<'a> {
    pub(super) host: &'a Host,
    pub(super) store: &'a dyn CheckpointStore,
    pub(super) agent: &'a AgentName,
    /// Oldest first.
    pub(super) history: &'a [ContentHash],
}

impl Known<'_> {
    /// Refuses to build on less than this host knew already, of the agents of `headers`: that would be a
    /// fork.
    ///
    /// # Errors
    /// When a known link is not here, or the heads cannot be read.
    pub(super) fn check_known(
        &self,
        headers: [Option<&CheckpointHeader>; 2],
    ) -> Result<(), Failure> {
        for header in headers.into_iter().flatten() {
            let Some(identity) = Identity::of(header) else {
                continue;
            };
            let known = self.host.heads.fetch(&identity.record)?;
            let Some(line) = known.map(|known| known.head.line) else {
                continue;
            };
            let has = |history: &[ContentHash]| history.iter().any(|hash| hash.digest() == line);
            if has(self.history) {
                continue;
            }
            // It may have come since the history was read.
            if has(&self.store.history(self.agent)?) {
                return Err(overtaken(self.agent, &self.store.newest(self.agent)?).into());
            }
            let text = format!(
                "the store lacks link {line} of {}, which this host has seen; put it back",
                self.agent
            );
            return Err(Failure::new(text));
        }
        Ok(())
    }

    /// Remembers the link behind the history, by its place where all before it are here.
    ///
    /// # Errors
    /// When this host knows another link in its place.
    pub(super) fn publish(
        &self,
        header: &CheckpointHeader,
        hash: ContentHash,
    ) -> Result<(), Failure> {
        let Some(identity) = Identity::of(header) else {
            return Ok(());
        };
        let seq = match &header.native {
            Some(native) => native.seq,
            None if self.is_cut()? => return Ok(()),
            None => u64::try_from(self.history.len()).unwrap_or(u64::MAX),
        };
        let head = Head {
            record: identity.record,
            seq,
            size: header.tick,
            line: hash.digest(),
        };
        for _ in 1..MAX_PUBLISH_ATTEMPTS {
            match self.publish_head(head) {
                // Another writer's link came first: one that builds on this, or one before it.
                Err(error) if error.kind() == ErrorKind::Refused => {}
                published => return Ok(published?),
            }
            if self.is_ahead(&head.record, hash)? {
                return Ok(());
            }
        }
        Ok(self.publish_head(head)?)
    }

    fn publish_head(&self, head: Head) -> Result<(), Error> {
        self.host.publish(&Published {
            head,
            kind: RecordKind::Lineage,
            is_final: false,
            thread: None,
            // An agent moves: no place is its own.
            path: None,
            aliases: &[],
            durability: Durability::Durable,
        })
    }

    fn is_cut(&self) -> Result<bool, Failure> {
        let Some(first) = self.history.first() else {
            return Ok(false);
        };
        let first = self.store.load(self.agent, first)?;
        Ok(first.is_none_or(|first| first.header.prev.is_some()))
    }

    fn is_ahead(&self, record: &RecordId, hash: ContentHash) -> Result<bool, Failure> {
        let Some(known) = self.host.heads.fetch(record)? else {
            return Ok(false);
        };
        let now = self.store.history(self.agent)?;
        let mut after = now.iter().skip_while(|link| **link != hash);
        Ok(after.any(|link| link.digest() == known.head.line))
    }
}
