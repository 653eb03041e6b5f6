//! [`HeadStore`]: the calls of a store of heads, and the rules that each one keeps.

use std::fmt;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyId;
use threadseal_core::limits::MAX_SAFE_INTEGER;
use threadseal_core::record::{ExpectedHead, Head, RecordId, RecordKind, ThreadId};
use threadseal_core::report::{Expectation, KnownFork};
use threadseal_core::salts::Secret;
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::entry::LoggedHead;

/// Most aliases that the head of one record names. Where the first lines of a record change, these
/// are the newest; look-ups also find the earlier ones.
pub const MAX_ALIASES: usize = 64;
/// Largest number and size of a head: a log holds no larger ones.
pub const MAX_HEAD_NUMBER: u64 = MAX_SAFE_INTEGER;
/// Most records that one line is looked up for.
pub const MAX_RECORDS_PER_LINE: usize = 65_536;
/// Longest path hint in bytes; longer ones are left out.
pub const MAX_PATH_HINT_BYTES: usize = 4096;

/// A head and the facts that are remembered with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHead {
    /// The newest seal.
    pub head: Head,
    /// The root that it states, where its format has one and the store keeps it.
    pub root: Option<Digest>,
    /// The secret of the salts of its lines, where it is an observed log that has them.
    pub salts: Option<KnownSalts>,
    /// The key that signed it, where something was signed and the store keeps it.
    pub key: Option<KeyId>,
    /// The kind of the record.
    pub kind: RecordKind,
    /// Did that seal end the record?
    pub is_final: bool,
    /// The thread of the record, where it names one.
    pub thread: Option<ThreadId>,
    /// When this host first knew the record. A store keeps the first value that it gets.
    pub first_seen: Timestamp,
    /// When this head was stored.
    pub updated: Timestamp,
    /// The path of the record at that time. A place never identifies a file; it only shows which
    /// record the file displaced.
    pub path_hint: Option<String>,
    /// Digests of lines by which the record can be found. A store only ever adds to those that it
    /// finds a record by; where first lines change, these are the newest.
    pub aliases: Vec<Digest>,
    /// The newest head of the record in the log of this host. No store keeps it: it is looked up.
    pub logged: Option<LoggedAt>,
    /// Is this provably the newest head that this host ever knew? No store keeps it.
    pub vouches: bool,
}

/// The salts of an observed log, as a host knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownSalts {
    /// Those from this secret.
    Of(Secret),
    /// A line was redacted: this host knows the secret no longer, and does not learn it again.
    Removed,
}

/// A head in the log of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedAt {
    /// The head, and the facts that the log holds with it.
    pub logged: LoggedHead,
    /// The number of its entry.
    pub number: u64,
    /// The name of the entry.
    pub entry: Arc<str>,
}

impl StoredHead {
    /// The part of a head that a log records.
    pub fn to_log(&self) -> LoggedHead {
        LoggedHead {
            kind: self.kind,
            head: self.head,
            root: self.root,
            key: self.key,
        }
    }

    /// The part of a head that a log alone knows.
    pub fn of_log(at: LoggedAt) -> Self {
        let logged = at.logged;
        Self {
            head: logged.head,
            root: logged.root,
            salts: None,
            key: logged.key,
            kind: logged.kind,
            is_final: false,
            thread: None,
            first_seen: Timestamp::UNIX_EPOCH,
            updated: Timestamp::UNIX_EPOCH,
            path_hint: None,
            aliases: Vec::new(),
            logged: Some(at),
            vouches: true,
        }
    }

    /// When this host already held the head: evidence against a later revocation. A log has no
    /// times.
    pub fn held_since(&self) -> Option<Timestamp> {
        (self.updated != Timestamp::UNIX_EPOCH).then_some(self.updated)
    }

    /// The expectations for a record: the head, and the log's head where that is another one.
    pub fn expectations(&self) -> Vec<Expectation> {
        let logged = self.logged.as_ref().map(|at| {
            let head = ExpectedHead::Head(at.logged.head);
            Expectation::logged(head, Arc::clone(&at.entry))
        });
        let in_log = self.logged.as_ref().map(|at| at.logged.head);
        let own = (in_log != Some(self.head))
            .then(|| Expectation::remembered(ExpectedHead::Head(self.head)));
        let mut all: Vec<_> = own.into_iter().chain(logged).collect();
        all.iter_mut().for_each(|one| one.vouches = self.vouches);
        all
    }
}

/// The failure that a stored head survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The end of this process. After power loss the last durable head counts, or a later one.
    Written,
    /// Power loss.
    Durable,
}

/// The result of a compare-and-swap.
#[must_use = "the head may not have been stored"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The new head is stored.
    Stored,
    /// Another head is stored (`None`: no head at all); nothing changed.
    Differs(Option<Box<StoredHead>>),
}

/// Last known heads.
pub trait HeadStore: fmt::Debug + Send + Sync {
    /// The head of `record`, if this store knows one.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read or is damaged.
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error>;

    /// The head of `record` in this store alone, to be replaced by a newer one.
    ///
    /// # Errors
    /// As [`HeadStore::fetch`].
    fn fetch_to_replace(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.fetch(record)
    }

    /// Stores the first head of a record, durably.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read or written;
    /// the head may be stored all the same.
    fn create(&self, new: &StoredHead) -> Result<Swap, Error>;

    /// Stores `new` if the head of its record is `expected`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when `new` would go back (see the module's
    /// heading), or as [`HeadStore::create`].
    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error>;

    /// The records that have `line` among their aliases, sorted.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read or is damaged.
    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error>;

    /// The record of this kind whose head was stored last with the path hint `place`. It is left
    /// out if it was sealed in another place since.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read or is damaged.
    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error>;

    /// Forks of `record` in the log of this host.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the log exists and cannot be read: it
    /// may contain a fork of the record.
    fn forks(&self, _record: &RecordId) -> Result<Vec<KnownFork>, Error> {
        Ok(Vec::new())
    }

    /// The entry by which the log of this host names `record` as pruned, if there is one. Such a
    /// record takes no seal any more.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the log cannot be read.
    fn pruned(&self, _record: &RecordId) -> Result<Option<Arc<str>>, Error> {
        Ok(None)
    }

    /// `heads`, logged where the heads of this store are logged. The log of a host covers all of
    /// its seals, wherever their heads are kept.
    fn logged(&self, heads: Arc<dyn HeadStore>) -> Arc<dyn HeadStore> {
        heads
    }

    /// Is this store's knowledge of records, and its lack of it, provably the newest that this host
    /// ever had?
    fn vouches(&self) -> bool {
        true
    }

    /// The place of the records whose heads are stored here, where that is one place: a database.
    fn place(&self) -> Option<String> {
        None
    }

    /// Remembers a place of a record that its head does not name. A later search of all records
    /// needs it.
    fn note_place(&self, _record: &RecordId, _place: &str) {}

    /// The places that were noted of a record ([`HeadStore::note_place`]), as far as they are known.
    fn noted_places(&self, _record: &RecordId) -> Vec<String> {
        Vec::new()
    }

    /// The records whose known places, the last one last, `is_there` accepts.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store cannot be read or is damaged.
    fn records_in(&self, _is_there: &dyn Fn(&[String]) -> bool) -> Result<Vec<RecordId>, Error> {
        Ok(Vec::new())
    }

    /// The fencing token of the lease under which heads are stored here: each seal of a transcript
    /// holds it.
    fn fence(&self) -> Option<u64> {
        None
    }
}

/// `new` as it is stored after `old`: with the first `first_seen` and the aliases of both.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::Refused`] when `new` goes back,
/// [`threadseal_core::error::ErrorKind::Limit`] above [`MAX_ALIASES`].
pub(crate) fn succeed(old: &StoredHead, new: &StoredHead) -> Result<StoredHead, Error> {
    if let Some(complaint) = going_back(old, new) {
        return Err(Error::refused(format!(
            "the head of record {} must not go back: {complaint} (known head {})",
            old.head.record, old.head
        )));
    }
    let mut next = new.clone();
    next.first_seen = old.first_seen;
    next.aliases = old.aliases.clone();
    for alias in &new.aliases {
        if !next.aliases.contains(alias) {
            next.aliases.push(*alias);
        }
    }
    if changes_beginning(next.kind) {
        let earlier = next.aliases.len().saturating_sub(MAX_ALIASES);
        next.aliases.drain(..earlier);
    }
    checked(next)
}

/// May the first lines of such a record change? Documents are edited, and Rye replaces transcripts.
/// The aliases of other kinds name lines that stay, or signers.
fn changes_beginning(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Document | RecordKind::Transcript)
}

/// The bounds of a head that is to be stored after `known`, asked before its seal is made.
///
/// # Errors
/// [`ErrorKind::Limit`] above [`MAX_HEAD_NUMBER`], [`MAX_ALIASES`] or [`MAX_RECORDS_PER_LINE`],
/// [`ErrorKind::Refused`] when the record is of another kind; those of the store.
pub(crate) fn admit(
    heads: &dyn HeadStore,
    (record, kind): (&RecordId, RecordKind),
    (seq, size): (u64, u64),
    aliases: &[Digest],
) -> Result<(), Error> {
    let limit = |text: String| Err(Error::new(ErrorKind::Limit, text));
    if seq.max(size) > MAX_HEAD_NUMBER {
        return limit(format!(
            "number and size of a seal are at most {MAX_HEAD_NUMBER}; hint: begin another record"
        ));
    }
    let known = heads.fetch_to_replace(record)?;
    if let Some(known) = known.as_ref().filter(|known| known.kind != kind) {
        let text = format!("record {record} is {}, not {kind}", known.kind);
        return Err(Error::refused(text));
    }
    let known = known.map_or_else(Vec::new, |known| known.aliases);
    let mut new: Vec<&Digest> = Vec::new();
    for alias in aliases {
        if !known.contains(alias) && !new.contains(&alias) {
            new.push(alias);
        }
    }
    if !changes_beginning(kind) && known.len() + new.len() > MAX_ALIASES {
        return limit(format!(
            "a record has at most {MAX_ALIASES} aliases, which name its signers or first lines; hint: begin another record"
        ));
    }
    for alias in new {
        if heads.find_by_line(alias)?.len() >= MAX_RECORDS_PER_LINE {
            return limit(format!(
                "{MAX_RECORDS_PER_LINE} records have the line {alias} already"
            ));
        }
    }
    Ok(())
}

/// `new` within the bounds of a store.
pub(crate) fn checked(mut new: StoredHead) -> Result<StoredHead, Error> {
    if new.aliases.len() > MAX_ALIASES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("a record has at most {MAX_ALIASES} aliases"),
        ));
    }
    new.path_hint = new
        .path_hint
        .filter(|hint| hint.len() <= MAX_PATH_HINT_BYTES);
    Ok(new)
}

pub(super) fn going_back(old: &StoredHead, new: &StoredHead) -> Option<String> {
    let (was, is) = (&old.head, &new.head);
    let grows_only = old.kind != RecordKind::Document;
    if was.record != is.record {
        Some(format!("the new head belongs to record {}", is.record))
    } else if old.kind != new.kind {
        Some(format!("it is {}, not {}", old.kind, new.kind))
    } else if is.seq < was.seq {
        Some(format!("seal {} is older than seal {}", is.seq, was.seq))
    } else if is.seq == was.seq && (is.line != was.line || is.size != was.size) {
        Some(format!("there are two seals {}", is.seq))
    } else if grows_only && is.size < was.size {
        Some(format!("{} bytes are fewer than {}", is.size, was.size))
    } else if is.seq == was.seq && old.is_final && !new.is_final {
        Some(format!("seal {} is final", is.seq))
    } else {
        None
    }
}
