//! [`Kept`]: what of the entries of a log comes along into the next one, and in which order.
//!
//! Entries that are no heads come along, and before each of them the newest heads that stood there and that a second place vouches
//! for: what a key sealed before it ended stands before its end in the new log as in the old one. Heads for which none vouches come
//! last. Whoever may write to the home has the log's key, and can put such a head before the end of a key that he stole; in the new
//! log it would be as good as any.

use super::contents::Contents;
use super::places::entries_of;
use std::collections::BTreeMap;
use threadseal::error::Error;
use threadseal::key::PublicKey;
use threadseal::merkle::{Frontier, TreeHead, leaf_hash};
use threadseal::record::{Head, RecordId};
use threadseal::tlog::entry::key_event::{KeyEvent, KeyHistory};
use threadseal::tlog::entry::{LogEntry, LoggedHead};

/// What comes along into the next log.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The newest of each record.
    heads: BTreeMap<RecordId, LoggedHead>,
    /// The newest of each record among those that a second place vouches for.
    proved: BTreeMap<RecordId, LoggedHead>,
    /// Entries that are no heads, each behind the proved heads that changed since the one before.
    ordered: Vec<Vec<u8>>,
    /// The number of the last seal of each record in `ordered`.
    written: BTreeMap<RecordId, u64>,
    /// What keys said, with the numbers of the entries.
    key_events: Vec<(u64, KeyEvent)>,
    /// Does a head for which nothing vouches stand before the end of a key?
    unproved_before_key: bool,
    /// Entries that were read.
    pub(super) read: u64,
}

impl Kept {
    /// Takes what entries of this tree say, of which the first `proved` are vouched for; where files are damaged, what can be
    /// proved all the same.
    pub(super) fn take(
        &mut self,
        contents: &Contents,
        tree: &TreeHead,
        proved: u64,
    ) -> Result<(), Error> {
        let (mut all, mut frontier) = (Self::default(), Frontier::new());
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
    pub(super) fn ended(&self) -> impl Iterator<Item = (PublicKey, u64)> {
        let history = KeyHistory::of(&self.key_events);
        let keys = self.key_events.iter().map(|(_, event)| *event.public());
        keys.filter_map(move |key| Some((key, history.ended(&key)?)))
    }

    /// Does a head for which nothing vouches stand before the end of a key?
    pub(super) fn is_order_lost(&self) -> bool {
        self.unproved_before_key
    }

    /// The entries of the next log behind its first one, with what the home has `stored`; and of how many records.
    pub(super) fn into_entries(
        self,
        stored: &[LoggedHead],
    ) -> Result<(usize, Vec<Vec<u8>>), Error> {
        let (mut heads, written) = (self.heads, self.written);
        for head in stored {
            let known = heads.entry(head.head.record).or_insert(*head);
            if known.head.seq < head.head.seq {
                *known = *head;
            }
        }
        let came = heads.len();
        let is_new = |head: &LoggedHead| written.get(&head.head.record) != Some(&head.head.seq);
        let heads: Vec<LoggedHead> = heads.into_values().filter(is_new).collect();
        let mut entries = self.ordered;
        entries.extend(entries_of(&heads)?);
        Ok((came, entries))
    }

    fn add(&mut self, number: u64, entry: &[u8], proved: bool) -> Result<(), Error> {
        self.read += 1;
        match LogEntry::read(entry) {
            Ok(LogEntry::Head(logged)) => {
                newer(&mut self.heads, logged);
                if proved {
                    newer(&mut self.proved, logged);
                }
            }
            // What the log before this one was, its own entry 0 said.
            Ok(LogEntry::Restart(_)) | Err(_) => {}
            Ok(other) => {
                let new: Vec<LoggedHead> = self.proved.values().copied().collect();
                for head in new {
                    let Head { record, seq, .. } = head.head;
                    if self.written.insert(record, seq) != Some(seq) {
                        self.ordered.extend(entries_of(&[head])?);
                    }
                }
                self.ordered.push(entry.to_vec());
                if let LogEntry::Key(event) = other {
                    let ends = event.change().ends();
                    self.unproved_before_key |= ends && self.heads != self.proved;
                    self.key_events.push((number, *event));
                }
            }
        }
        Ok(())
    }
}

fn newer(heads: &mut BTreeMap<RecordId, LoggedHead>, logged: LoggedHead) {
    let known = heads.entry(logged.head.record).or_insert(logged);
    if known.head.seq < logged.head.seq {
        *known = logged;
    }
}
