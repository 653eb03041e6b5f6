//! [`CarryOver`]: the entries of a log that are carried over into the next one, and their order.
//!
//! ```text
//! up to the last end of a key     all heads that a second place vouches for, and entries that are no heads, in their order
//! after it                        entries that are no heads, before each the newest heads before it that are vouched for
//! last                            the newest of each record that is not there yet
//! ```
//! A seal from before the end of its key is before that end in the new log, too; also a seal of a record that continued later,
//! for it proves a turn of the record or judges another actor's records of a ledger. Heads for which no place vouches come
//! last. A writer to the home has the log's key, and can put such a head before the end of a key that he stole; in the new log
//! it would count like any other.

use crate::entries::{EntryView as _, KeyEventEntry};
use crate::recovery::creation::head_entry;
use crate::tree::contents::Contents;
use std::collections::{BTreeMap, BTreeSet};
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::merkle::{Frontier, TreeHead, leaf_hash};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::tlog::entry::key_event::{KeyEvent, KeyHistory};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};

/// Most heads before the last end of a key that are carried over though later ones of their records are as well; of more, the newest of each
/// record before each end.
const MAX_OLDER_HEADS: usize = if cfg!(test) { 100 } else { 1 << 19 };

/// An entry that keeps its place in the order.
#[derive(Debug)]
enum Ordered {
    Head(LoggedHead),
    Other(Vec<u8>),
}

/// The entries that are carried over.
#[derive(Debug, Default)]
pub(crate) struct CarryOver {
    /// The newest of each record.
    heads: BTreeMap<RecordId, LoggedHead>,
    /// The newest of each record among those that a second place vouches for.
    proved: BTreeMap<RecordId, LoggedHead>,
    /// Entries that are no heads, and proved heads before them.
    ordered: Vec<Ordered>,
    /// How many of them are heads of which it was not asked yet whether later ones make them older.
    unthinned: usize,
    /// Were there more heads before the end of a key than are carried over?
    thinned: bool,
    /// The number of the last seal of each record in `ordered`.
    written: BTreeMap<RecordId, u64>,
    /// The number after the last end of a key.
    last_end: u64,
    /// Key events, with the numbers of their entries.
    key_events: Vec<(u64, KeyEvent)>,
    /// Signatures for which nothing vouches.
    unproved_signatures: Vec<Vec<u8>>,
    /// Does a head for which nothing vouches stand before the end of a key?
    unproved_before_key: bool,
    /// Entries that were read.
    pub(crate) read: u64,
}

impl CarryOver {
    /// Takes what entries of this tree say, of which the first `proved` are vouched for; where files are damaged, what can be
    /// proved all the same.
    pub(crate) fn take(
        &mut self,
        contents: &Contents,
        tree: &TreeHead,
        proved: u64,
    ) -> Result<(), Error> {
        self.last_end = last_end(contents, tree.size);
        let mut all = Self {
            last_end: self.last_end,
            ..Self::default()
        };
        let mut frontier = Frontier::new();
        let whole = contents.each(tree.size, &mut |number, entry| {
            frontier.push_leaf(leaf_hash(entry));
            all.add(number, entry, number < proved)
        });
        if whole.is_ok() && frontier.head() == *tree {
            *self = all;
            return Ok(());
        }
        for number in 0..tree.size {
            let Ok(entry) = contents.entry(number) else {
                continue;
            };
            let proof = contents.inclusion(number, tree.size);
            if proof.is_ok_and(|proof| proof.check(&leaf_hash(&entry), number, tree).is_ok()) {
                self.add(number, &entry, number < proved)?;
            }
        }
        Ok(())
    }

    /// The keys that ended in the log, as far as it can be read, and where.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (PublicKey, u64)> {
        let history = KeyHistory::of(&self.key_events);
        let keys = self.key_events.iter().map(|(_, event)| *event.public());
        keys.filter_map(move |key| Some((key, history.ended(&key)?)))
    }

    /// Does a head for which nothing vouches stand before the end of a key?
    pub(crate) fn is_order_lost(&self) -> bool {
        self.unproved_before_key
    }

    /// Were there more heads before the end of a key than are carried over?
    pub(crate) fn is_thinned(&self) -> bool {
        self.thinned
    }

    /// The entries of the next log after its first one, with what the home has `stored`; and of how many records.
    pub(crate) fn into_entries(
        self,
        stored: &[LoggedHead],
    ) -> (usize, impl Iterator<Item = Result<Vec<u8>, Error>> + use<>) {
        let (mut heads, written) = (self.heads, self.written);
        for head in stored {
            let known = heads.entry(head.head.record).or_insert(*head);
            if known.head.seq < head.head.seq {
                *known = *head;
            }
        }
        let came = heads.len();
        let is_new =
            move |head: &LoggedHead| written.get(&head.head.record) != Some(&head.head.seq);
        let last = heads.into_values().filter(is_new).map(Ordered::Head);
        let signatures = self.unproved_signatures.into_iter().map(Ordered::Other);
        let all = self.ordered.into_iter().chain(last).chain(signatures);
        let entries = all.map(|one| match one {
            Ordered::Head(head) => head_entry(&head),
            Ordered::Other(entry) => Ok(entry),
        });
        (came, entries)
    }

    fn add(&mut self, number: u64, entry: &[u8], proved: bool) -> Result<(), Error> {
        self.read += 1;
        match LogEntry::read(entry) {
            Ok(LogEntry::Head(logged)) => {
                newer(&mut self.heads, logged);
                if proved {
                    newer(&mut self.proved, logged);
                    if number < self.last_end {
                        self.write(logged);
                        self.unthinned += 1;
                    }
                }
                if self.unthinned > MAX_OLDER_HEADS {
                    self.thin();
                }
            }
            // The log before this one is named by entry 0 of the new log, which lists places of its own.
            Ok(LogEntry::Restart(_) | LogEntry::Places(_)) | Err(_) => {}
            // It has its place where it is proved, and no place before the end of a key else.
            Ok(LogEntry::Signature(_)) => match proved {
                true => self.ordered.push(Ordered::Other(entry.to_vec())),
                false => self.unproved_signatures.push(entry.to_vec()),
            },
            Ok(other) => {
                let new: Vec<LoggedHead> = self.proved.values().copied().collect();
                new.into_iter().for_each(|head| self.write(head));
                self.ordered.push(Ordered::Other(entry.to_vec()));
                if let Some(event) = KeyEventEntry::from_entry(number, other) {
                    self.unproved_before_key |= event.ends_key() && self.heads != self.proved;
                    self.key_events.push(event.into_pair());
                }
            }
        }
        Ok(())
    }

    /// Heads of one record stand in the order of their numbers, each once.
    fn write(&mut self, head: LoggedHead) {
        let Head { record, seq, .. } = head.head;
        if self.written.get(&record).is_none_or(|last| *last < seq) {
            self.written.insert(record, seq);
            self.ordered.push(Ordered::Head(head));
        }
    }

    /// Keeps of the heads between two entries of another kind the newest of each record.
    fn thin(&mut self) {
        let (mut seen, before) = (BTreeSet::new(), self.ordered.len());
        let mut rest: Vec<Ordered> = Vec::new();
        for one in std::mem::take(&mut self.ordered).into_iter().rev() {
            match &one {
                Ordered::Other(_) => seen.clear(),
                Ordered::Head(head) if !seen.insert(head.head.record) => continue,
                Ordered::Head(_) => {}
            }
            rest.push(one);
        }
        rest.reverse();
        self.thinned |= rest.len() < before;
        self.ordered = rest;
        self.unthinned = 0;
    }
}

/// The number of the entry after the last one in which a key ends, as far as that can be read.
fn last_end(contents: &Contents, size: u64) -> u64 {
    let mut last = 0;
    let mut look = |number: u64, entry: &[u8]| {
        let entry = LogEntry::read(entry).ok();
        let event = entry.and_then(|entry| KeyEventEntry::from_entry(number, entry));
        if event.is_some_and(|event| event.ends_key()) {
            last = number + 1;
        }
        Ok(())
    };
    if contents.each(size, &mut look).is_ok() {
        return last;
    }
    for number in 0..size {
        if let Ok(entry) = contents.entry(number) {
            // It never fails.
            let _ = look(number, &entry);
        }
    }
    last
}

fn newer(heads: &mut BTreeMap<RecordId, LoggedHead>, logged: LoggedHead) {
    let known = heads.entry(logged.head.record).or_insert(logged);
    if known.head.seq < logged.head.seq {
        *known = logged;
    }
}
