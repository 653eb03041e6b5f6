//! The effects of one host, bundled: files, clock, randomness, heads.

use crate::clock::Clock;
use crate::heads::{self, Durability, HeadStore, KnownSalts, RecordKind, StoredHead, Swap};
use crate::key_ends::{KeyEnds, SealSection};
use crate::random::{self, Random};
use crate::sys::{Fs, path_text};
use std::path::Path;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyId, PublicKey};
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::salts::Secret;
use threadseal_formats::transcript::Stamp;
use threadseal_formats::transcript::event::Salt;

/// Everything that a writer or verifier of this host needs from outside.
#[derive(Debug, Clone)]
pub struct Host {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Last known heads.
    pub heads: Arc<dyn HeadStore>,
    /// Which keys may still seal.
    pub keys: Arc<dyn KeyEnds>,
}

impl Host {
    /// Time and salt of one line.
    ///
    /// # Errors
    /// Kind `External` when the clock or the random source fails.
    pub fn stamp(&self) -> Result<Stamp, Error> {
        let salt = Salt::from_bytes(random::array(&*self.random)?);
        Ok(Stamp {
            timestamp: self.clock.now()?,
            salt,
        })
    }

    /// A new record id.
    ///
    /// # Errors
    /// Kind `External` when the random source fails.
    pub fn new_record(&self) -> Result<RecordId, Error> {
        Ok(RecordId::from_bytes(random::array(&*self.random)?))
    }

    /// A new secret for the salts of a record's lines.
    ///
    /// # Errors
    /// Kind `External` when the random source fails.
    pub fn new_salts(&self) -> Result<Secret, Error> {
        Ok(Secret::from_bytes(random::array(&*self.random)?))
    }

    /// Refuses to continue something that exists while this host's knowledge of it may be out of
    /// date.
    ///
    /// Both may come from one older copy, and a second continuation would fork it. `known` is its
    /// stored head.
    ///
    /// # Errors
    /// Kind `Refused` when the log of this host was rolled back, is gone or cannot be read.
    pub fn refuse_doubted(&self, what: &str, known: Option<&StoredHead>) -> Result<(), Error> {
        if self.heads.vouches() && known.is_none_or(|known| known.vouches) {
            return Ok(());
        }
        Err(Error::refused(format!(
            "{what}, but the log of this host went back or cannot be read: the state of the record that this host knows may be \
             outdated, too; hint: threadseal log status"
        )))
    }

    /// Refuses to continue a record that this host pruned: a copy of it was put back.
    ///
    /// # Errors
    /// Kind `Refused` when the log of this host names it as pruned, `External` when it cannot be
    /// read.
    pub fn refuse_pruned(&self, record: &RecordId) -> Result<(), Error> {
        let Some(entry) = self.heads.pruned(record)? else {
            return Ok(());
        };
        Err(Error::refused(format!(
            "record {record} was pruned on this host ({entry}): this is a restored copy, and it cannot be sealed"
        )))
    }

    /// The real location of `path`, as far as the system can resolve it.
    pub fn place(&self, path: &Path) -> String {
        let real = self.fs.canonicalize(path);
        path_text(&real.unwrap_or_else(|_| path.to_owned()))
    }

    /// Begins a seal by these keys: it is asked right before the seal is made, under the lock of the
    /// record, and held until the head is stored.
    ///
    /// # Errors
    /// Kind `Refused` when one of the keys has ended, `External` when its state cannot be read.
    pub fn enter_seal(&self, keys: &[&PublicKey]) -> Result<SealSection, Error> {
        match keys {
            [] => Ok(SealSection::unlocked()),
            keys => self.keys.enter(keys),
        }
    }

    /// Refuses a seal whose head could not be published: its number, size or aliases are beyond a
    /// bound. Each writer asks before it signs or writes.
    ///
    /// # Errors
    /// Kind `Limit` beyond a bound, `Refused` when the record is of another kind; `External` when
    /// the store fails.
    pub fn admit(
        &self,
        record: (&RecordId, RecordKind),
        (seq, size): (u64, u64),
        aliases: &[Digest],
    ) -> Result<(), Error> {
        heads::admit(&*self.heads, record, (seq, size), aliases)
    }

    /// Makes `head` the known head of its record. The bytes it names must be durable.
    ///
    /// # Errors
    /// Kind `Refused` when another head was published meanwhile or `head` would go back;
    /// `External` when the store fails.
    pub fn publish(&self, published: &Published<'_>) -> Result<(), Error> {
        let now = self.clock.now()?;
        let known = self.heads.fetch_to_replace(&published.head.record)?;
        let known_salts = known.as_ref().and_then(|known| known.salts);
        let new = StoredHead {
            head: published.head,
            root: published.root,
            salts: known_salts.or(published.salts.map(KnownSalts::Of)),
            key: published.key,
            kind: published.kind,
            is_final: published.is_final,
            thread: published.thread.cloned(),
            first_seen: now,
            updated: now,
            path_hint: published.path.map(|path| self.place(path)),
            aliases: published.aliases.to_vec(),
            logged: None,
            vouches: true,
        };
        let swap = match &known {
            None => self.heads.create(&new)?,
            Some(known) if known.head == new.head => return Ok(()),
            Some(known) => self
                .heads
                .replace_if(&known.head, &new, published.durability)?,
        };
        match swap {
            Swap::Stored => Ok(()),
            Swap::Differs(_) => Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "another writer sealed record {} meanwhile; verify it",
                    new.head.record
                ),
            )),
        }
    }
}

/// Tries to change what is known of a record while others seal it.
const MAX_ATTEMPTS: usize = 16;

impl Host {
    /// Forgets the salts of an observed log whose lines were redacted, for good.
    ///
    /// # Errors
    /// Kind `Refused` when others seal the record again and again, `External` when the store fails.
    pub fn forget_salts(&self, record: &RecordId) -> Result<(), Error> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(known) = self.heads.fetch_to_replace(record)? else {
                return Ok(());
            };
            if known.salts == Some(KnownSalts::Removed) {
                return Ok(());
            }
            let next = StoredHead {
                salts: Some(KnownSalts::Removed),
                logged: None,
                ..known.clone()
            };
            let (head, durability) = (&known.head, Durability::Durable);
            if let Swap::Stored = self.heads.replace_if(head, &next, durability)? {
                return Ok(());
            }
        }
        let text = format!("record {record} is sealed again and again; hint: redact it again");
        Err(Error::refused(text))
    }
}

/// A head on its way into the store.
#[derive(Debug, Clone, Copy)]
pub struct Published<'a> {
    /// The head.
    pub head: Head,
    /// The root that the seal states, where its format has one.
    pub root: Option<Digest>,
    /// The secret of the salts of its lines, where it has them.
    pub salts: Option<Secret>,
    /// The key that sealed, where something was signed.
    pub key: Option<KeyId>,
    /// The kind of the record.
    pub kind: RecordKind,
    /// Does it end the record?
    pub is_final: bool,
    /// The thread of the record.
    pub thread: Option<&'a ThreadId>,
    /// Its path, for people.
    pub path: Option<&'a Path>,
    /// Leaf hashes of lines that identify the record when its seals are gone.
    pub aliases: &'a [Digest],
    /// The failure that the head survives.
    pub durability: Durability,
}
