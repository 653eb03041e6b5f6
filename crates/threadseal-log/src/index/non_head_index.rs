//! [`NonHeadIndex`]: which entries of a log are no heads, so that what is rare is found, and is missed, without reading all the others.
//!
//! ```text
//! <log id>/rare-1    threadseal/1 rare entries LF
//!                    tree <size> <root in hex> LF          none is left out below this size
//!                    <number> <what> <record id, or -> LF  each of them, in order
//!                    tag <64 hex> LF                       HMAC-SHA-256( secret of the home, "threadseal/1 rare entries" 0x00 ‖ log id ‖ LF ‖ all before )
//! ```
//! The absence of entries shows that a key did not end, or that a record was not forked. So nothing of the file counts but what this
//! home wrote itself, of a tree that the signed one continues; all entries beyond are read, and have to be those of the signed tree. Without
//! the file, or where it is not this home's, that are all entries. What it names is proved like any entry.
//!
//! Another layout has another name, so that no program reads what one of another version left out.

use crate::layout::description::LogId;
use crate::layout::home_secret::HomeSecret;
use crate::layout::log_dir::{LogDir, damaged};
use crate::tree::contents::Contents;
use crate::tree::view::{LogView, of_another_log, proved_entry};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::merkle::{TreeHead, leaf_hash};
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};

pub(crate) const FILE: &str = "rare-1";
const FIRST_LINE: &str = "threadseal/1 rare entries";
const DOMAIN: &[u8] = b"threadseal/1 rare entries\0";
/// Largest such file in bytes. Of a log with more of them each process reads all entries.
const MAX_RARE_BYTES: usize = 64 << 20;
/// Entries by which a log grows until the file is written again: so many a process reads for itself.
const MAX_UNWRITTEN: u64 = 1_024;
/// The end of each head, and of no other known entry.
const HEAD_MARK: &[u8] = b"\"type\":\"head/";

/// What an entry speaks of that is no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NonHeadKind {
    /// A key.
    Key,
    /// A redaction of a record.
    Redaction(RecordId),
    /// A record that was pruned.
    Tombstone(RecordId),
    /// A record of which two histories were sealed.
    Fork(RecordId),
    /// A signature that is in no record, by its digest in the place of an id.
    Signature(RecordId),
    /// Something that the index has no word for.
    Other,
}

/// The entries that are no heads, of the first entries of a log.
#[derive(Debug)]
pub(crate) struct NonHeadIndex {
    /// None was left out of this tree.
    tree: TreeHead,
    entries: Vec<(u64, NonHeadKind)>,
    /// Entries of the tree that the file knows; None before it was read.
    written: Option<u64>,
}

impl Default for NonHeadIndex {
    fn default() -> Self {
        Self {
            tree: TreeHead::empty(),
            entries: Vec::new(),
            written: None,
        }
    }
}

impl NonHeadKind {
    /// None for a head.
    pub(crate) fn of(entry: &[u8]) -> Option<Self> {
        if is_head(entry) {
            return None;
        }
        Some(match LogEntry::read(entry) {
            Ok(LogEntry::Key(_)) => Self::Key,
            Ok(LogEntry::Redaction(logged)) => Self::Redaction(logged.head.record),
            Ok(LogEntry::Tombstone(logged)) => Self::Tombstone(logged.head.record),
            Ok(LogEntry::Fork(fork)) => Self::Fork(fork.record),
            Ok(LogEntry::Signature(digest)) => {
                Self::Signature(RecordId::from_bytes(*digest.as_bytes()))
            }
            Ok(
                LogEntry::Head(_) | LogEntry::Restart(_) | LogEntry::Places(_) | LogEntry::Unknown,
            )
            | Err(_) => Self::Other,
        })
    }

    fn parse(what: &str, record: &str) -> Option<Self> {
        let record = match record {
            "-" => None,
            record => Some(RecordId::parse_hex(record)?),
        };
        Some(match (what, record) {
            ("key", None) => Self::Key,
            ("redaction", Some(record)) => Self::Redaction(record),
            ("tombstone", Some(record)) => Self::Tombstone(record),
            ("fork", Some(record)) => Self::Fork(record),
            ("signature", Some(record)) => Self::Signature(record),
            ("other", None) => Self::Other,
            _ => return None,
        })
    }

    fn words(&self) -> (&'static str, Option<&RecordId>) {
        match self {
            Self::Key => ("key", None),
            Self::Redaction(record) => ("redaction", Some(record)),
            Self::Tombstone(record) => ("tombstone", Some(record)),
            Self::Fork(record) => ("fork", Some(record)),
            Self::Signature(record) => ("signature", Some(record)),
            Self::Other => ("other", None),
        }
    }
}

/// Is the outermost object of this entry, of which `type` is then the last member, of the type of a head?
fn is_head(entry: &[u8]) -> bool {
    let kind = memchr::memmem::rfind(entry, HEAD_MARK).map(|at| &entry[at + HEAD_MARK.len()..]);
    kind.and_then(|kind| kind.strip_suffix(b"\"}"))
        .is_some_and(|kind| kind.iter().all(u8::is_ascii_lowercase))
}

/// The index that the threads of a process have in common.
#[derive(Debug, Default)]
pub(crate) struct SharedNonHeadIndex(Mutex<NonHeadIndex>);

impl SharedNonHeadIndex {
    /// The log as it is now, and the numbers of its entries that are no heads and are `wanted`: none of them is left out.
    ///
    /// # Errors
    /// What `view` returns; kind `External` also when the entries are not those of the signed tree.
    pub(crate) fn find(
        &self,
        id: LogId,
        view: impl FnOnce() -> Result<Arc<LogView>, Error>,
        wanted: impl Fn(&NonHeadKind) -> bool,
    ) -> Result<(Arc<LogView>, Vec<u64>), Error> {
        let mut index = self.lock();
        // The view is taken under the lock: the index is never of a later state than the view.
        let view = view()?;
        index.catch_up(view.contents(), view.tree(), id)?;
        let numbers = index.numbers(wanted);
        Ok((view, numbers))
    }

    /// The numbers of the entries of this tree that are no heads and are `wanted`: none of them is left out. Who signed the tree
    /// is not asked.
    ///
    /// # Errors
    /// Kind `External` when the entries are not those of the tree.
    pub(crate) fn find_in(
        &self,
        id: LogId,
        contents: &Contents,
        tree: TreeHead,
        wanted: impl Fn(&NonHeadKind) -> bool,
    ) -> Result<Vec<u64>, Error> {
        let mut index = self.lock();
        index.catch_up(contents, tree, id)?;
        Ok(index.numbers(wanted))
    }

    /// Does the index leave one of these entries out, which are all among the first `size` ones, or name another one? It must
    /// have been brought up to the log before.
    pub(crate) fn differs(&self, found: &[(u64, NonHeadKind)], size: u64) -> bool {
        let index = self.lock();
        let known = index.entries.iter().filter(|(at, _)| *at < size);
        !known.eq(found)
    }

    fn lock(&self) -> MutexGuard<'_, NonHeadIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NonHeadIndex {
    fn numbers(&self, wanted: impl Fn(&NonHeadKind) -> bool) -> Vec<u64> {
        let found = self.entries.iter().filter(|(_, kind)| wanted(kind));
        found.map(|(at, _)| *at).collect()
    }

    fn catch_up(&mut self, contents: &Contents, tree: TreeHead, id: LogId) -> Result<(), Error> {
        let dir = contents.dir();
        if self.written.is_none()
            && let Some(there) = Self::read(dir, id)
            && contents.continues(&there.tree, &tree)?
        {
            *self = there.anew(contents, &tree)?;
        }
        if self.tree == tree && self.written.is_some() {
            return Ok(());
        }
        if !contents.continues(&self.tree, &tree)? {
            // The log was put back: no entry is known to be in its place.
            *self = Self::default();
        }
        let mut frontier = contents.frontier(self.tree.size)?;
        let mut entries = self.entries.clone();
        contents.each_from(self.tree.size, tree.size, &mut |at, entry| {
            frontier.push_leaf(leaf_hash(entry));
            entries.extend(NonHeadKind::of(entry).map(|kind| (at, kind)));
            Ok(())
        })?;
        if frontier.head() != tree {
            return Err(damaged(&dir.file("tile")));
        }
        let written = self.written.unwrap_or_default();
        *self = Self {
            tree,
            entries,
            written: Some(written),
        };
        if tree.size - written >= MAX_UNWRITTEN && self.write(dir, id).is_some() {
            self.written = Some(tree.size);
        }
        Ok(())
    }

    /// What an earlier version did not look for may be something by now.
    fn anew(mut self, contents: &Contents, tree: &TreeHead) -> Result<Self, Error> {
        for (at, kind) in &mut self.entries {
            if *kind == NonHeadKind::Other {
                let entry = proved_entry(contents, tree, *at)?;
                *kind = NonHeadKind::of(&entry).ok_or_else(of_another_log)?;
            }
        }
        Ok(self)
    }

    /// None where there is no file that this home wrote.
    fn read(dir: &LogDir, id: LogId) -> Option<Self> {
        let bytes = dir.read(&dir.file(FILE), MAX_RARE_BYTES).ok()??;
        let key = HomeSecret::find(dir).ok()??;
        let text = std::str::from_utf8(&bytes).ok()?;
        let (body, tag) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let body = text.get(..=body.len())?;
        let tag = tag.strip_prefix("tag ")?;
        if !key.made(tag, DOMAIN, &tagged(id, body)) {
            return None;
        }
        let rest = body.strip_prefix(FIRST_LINE)?.strip_prefix("\ntree ")?;
        let (tree, lines) = rest.split_once('\n')?;
        let (size, root) = tree.split_once(' ')?;
        let size = size.parse().ok()?;
        let entries = lines.lines().map(line).collect::<Option<Vec<_>>>()?;
        Some(Self {
            tree: TreeHead {
                size,
                root: Digest::parse_hex(root)?,
            },
            entries,
            written: Some(size),
        })
    }

    /// Where it cannot be written, on a disk that is full or only read or for want of the secret, the next process reads the entries again.
    fn write(&self, dir: &LogDir, id: LogId) -> Option<()> {
        let key = HomeSecret::find(dir).ok()??;
        let TreeHead { size, root } = self.tree;
        let mut text = format!("{FIRST_LINE}\ntree {size} {root}\n");
        for (at, kind) in &self.entries {
            let (what, record) = kind.words();
            let record = record.map_or_else(|| "-".to_owned(), ToString::to_string);
            // Written to memory, which does not fail.
            let _ = writeln!(text, "{at} {what} {record}");
        }
        let tag = key.tag(DOMAIN, &tagged(id, &text));
        let _ = writeln!(text, "tag {tag}");
        if text.len() > MAX_RARE_BYTES {
            return None;
        }
        let path = dir.file(FILE);
        atomic::replace(&*dir.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE)).ok()
    }
}

/// What the tag is over.
fn tagged(id: LogId, body: &str) -> Vec<u8> {
    format!("{id}\n{body}").into_bytes()
}

fn line(line: &str) -> Option<(u64, NonHeadKind)> {
    let mut words = line.split(' ');
    let (at, what, record) = (words.next()?, words.next()?, words.next()?);
    let kind = NonHeadKind::parse(what, record).filter(|_| words.next().is_none())?;
    Some((at.parse().ok()?, kind))
}
