//! [`SealLog`]: the log of a host. Every head that the host stores is in it (`spec/host-log.md`).
//!
//! ```text
//! head stored ─► spool file ─► waits ─┐                      one thread of each process
//!                                     ├─► Writer: journal, fsync, sign ─► tiles, checkpoint
//! heads of processes that ended ──────┘                      one process at a time
//!
//! reader ─► journal, tiles ─► LogView: proofs against the signed checkpoint
//! ```
//! Laws:
//! * No two trees of one size are ever signed, whatever fails.
//! * A head that waits, or cannot be committed, never delays or undoes its seal.
//! * Of one record and number the first head that was committed counts.
//! * A log that lags its mark, or is on another machine, commits nothing.
//!
//! This file joins the parts, each of which owns its logic: [`LogAccess`] commits, [`ViewCache`] reads, [`MarkSet`] knows the
//! second places, the indexes find entries, and the files beside the log have types of their own.
//!
//! [`MarkSet`]: crate::marks::mark_set::MarkSet

use crate::commit::committer::{Committer, Published};
use crate::commit::log_access::LogAccess;
use crate::commit::spool_quarantine::{SetAside, SpoolQuarantine};
use crate::entries::evidence_files::{Accused, EvidenceFiles};
use crate::entries::{
    self, EntryView, ForkEntry, KeyEventEntry, RedactionEntry, SignatureEntry, StoredHeadsFirst,
    TombstoneEntry,
};
use crate::fsck;
use crate::index::head_lookup::{self, HeadLookup};
use crate::index::non_head_index::{self, NonHeadKind};
use crate::layout::description::Description;
use crate::layout::mark_location::MarkLocation;
use crate::layout::record_places::RecordPlaces;
use crate::log_registry::LogRegistry;
use crate::marks::fault::Fault;
use crate::marks::mark_set::MarkReport;
use crate::recovery::catch_up;
use crate::recovery::key_ends::KeyEnds;
use crate::standing::{Standing, StandingCache};
#[cfg(feature = "timestamp")]
use crate::timestamps::files::{JudgedStamp, KeptStamp, StampFiles};
#[cfg(feature = "timestamp")]
use crate::timestamps::{Authority, TimeStamp};
use crate::tree::checked::Checked;
use crate::tree::mirror::{Compared, Comparison, Mirror, Mirrored};
use crate::tree::view::LogView;
use crate::tree::view_cache::ViewCache;
use crate::tree::writer::LogKey;
use crate::witness::conflict_files;
use crate::witness::cosigned_notes::{CosignedNote, CosignedNotes};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::KnownFork;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_core::tlog::entry::fork::LoggedFork;
use threadseal_core::tlog::entry::key_event::KeyEvent;
use threadseal_core::tlog::policy::Policy;
use threadseal_core::tlog::proof_file::ProofFile;
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_formats::transcript::bodies::SealedRedaction;
use threadseal_formats::verified::Verified;
use threadseal_store::heads::LoggedAt;
use threadseal_store::objects::Objects;
use threadseal_store::random::Random;

/// Longest wait at the end of a command for second places that do not answer at once.
const MAX_UPDATE_WAIT: Duration = Duration::from_secs(5);

/// The log of a host, to read and to commit to.
#[derive(Debug)]
pub struct SealLog {
    pub(crate) access: Arc<LogAccess>,
    /// Started at the first head that is published. It is dropped before the last owner of `access`.
    committer: OnceLock<Committer>,
    views: ViewCache,
    standing: StandingCache,
}

impl SealLog {
    /// Opens a log. Without its key it is only read.
    pub fn open(
        registry: LogRegistry,
        description: Description,
        key: Option<LogKey>,
        random: Arc<dyn Random>,
    ) -> Self {
        let access = LogAccess::new(registry.into_home(), description, key, random);
        Self {
            access: Arc::new(access),
            committer: OnceLock::new(),
            views: ViewCache::default(),
            standing: StandingCache::default(),
        }
    }

    /// What is fixed of it.
    pub fn description(&self) -> &Description {
        &self.access.description
    }

    /// The key by which others know it.
    ///
    /// # Errors
    /// None that a log id can give.
    pub fn verifier(&self) -> Result<VerifierKey, Error> {
        self.description().verifier()
    }

    /// The name of one of its entries, for people.
    pub fn entry_name(&self, number: u64) -> Arc<str> {
        let origin = self.description().id.origin();
        Arc::from(format!("entry {number} of {origin}"))
    }

    /// The log as it is now.
    ///
    /// # Errors
    /// Kind `External` when a file is lacking or damaged, or cannot be read.
    pub fn view(&self) -> Result<Arc<LogView>, Error> {
        let LogAccess {
            dir,
            description,
            marks,
            ..
        } = &*self.access;
        self.views
            .get(dir, description, || marks.signed_checkpoints())
    }

    /// The newest head of a record, and the number of its entry, proved to be in the log.
    ///
    /// # Errors
    /// As [`SealLog::view`].
    pub fn newest(&self, record: &RecordId) -> Result<Option<(u64, LoggedHead)>, Error> {
        self.lookup(&*self.view()?).newest(record)
    }

    /// The newest head of a record, with the name of its entry.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn newest_at(&self, record: &RecordId) -> Result<Option<LoggedAt>, Error> {
        Ok(self.newest(record)?.map(|found| self.logged_at(found)))
    }

    /// The head of a record that has this number, proved to be in the log.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn head_at(&self, record: &RecordId, seq: u64) -> Result<Option<LoggedAt>, Error> {
        let found = self.lookup(&*self.view()?).at(record, seq)?;
        Ok(found.map(|found| self.logged_at(found)))
    }

    /// The numbers of all entries that are heads of a record, in their order.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn entries_of(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        self.lookup(&*self.view()?).all(record)
    }

    /// The newest head of each record. All entries are read, and are those of the signed checkpoint: none can be left out.
    ///
    /// # Errors
    /// As [`SealLog::view`]; kind `External` also when the entries do not fit the checkpoint.
    pub fn records(&self) -> Result<Vec<LoggedAt>, Error> {
        let newest = head_lookup::newest_of_all(&self.access.dir, &*self.view()?)?;
        Ok(newest
            .into_iter()
            .map(|found| self.logged_at(found))
            .collect())
    }

    /// The entry for this head, and the proof of it for others. The proof is in the last tree that meets one of these policies,
    /// else in the last one that a witness cosigned, if such a tree has the entry and the log continues it; else in the log as it is
    /// now. None if the log does not have the head.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn proof_of(
        &self,
        head: &Head,
        policies: &[(String, Policy)],
    ) -> Result<Option<(Vec<u8>, ProofFile)>, Error> {
        let at = self.head_at(&head.record, head.seq)?;
        let Some(at) = at.filter(|at| at.logged.head == *head) else {
            return Ok(None);
        };
        let view = self.view()?;
        let entry = view.entry(at.number)?;
        let mut chosen = (view.checkpoint().clone(), view.tree());
        // The best one last: the newest of those that meet a policy.
        let mut cosigned = self.cosigned(policies, &mut |_| {})?;
        cosigned.sort_by_key(|one| (one.is_witnessed, one.tree.size));
        for one in cosigned.into_iter().rev() {
            if at.number < one.tree.size && view.continues(&one.tree)? {
                chosen = (one.note, one.tree);
                break;
            }
        }
        let (note, tree) = chosen;
        let proof = view.contents().inclusion(at.number, tree.size)?;
        let file = ProofFile {
            extra: None,
            index: at.number,
            proof,
            note,
        };
        let held = file.check(&entry);
        held.map_err(|error| Error::new(ErrorKind::External, error.to_string()))?;
        Ok(Some((entry, file)))
    }

    /// Reads every file of the log and computes every hash again.
    ///
    /// # Errors
    /// Kind `External` when a file cannot be read at all, or is so damaged that the rest cannot be checked.
    pub fn fsck(&self) -> Result<Checked, Error> {
        let view = self.view()?;
        let fsck::Walked {
            mut checked,
            non_heads,
        } = fsck::walk(&self.access, &view)?;
        let brought_up = self.find_non_heads(|_| false);
        match brought_up.map(|_| self.access.non_heads.differs(&non_heads, view.tree().size)) {
            Ok(false) => {}
            Ok(true) => {
                let path = self.access.dir.file(non_head_index::FILE);
                let text = format!(
                    "{} does not contain the entries that are not heads; remove the file to have it made again",
                    path.display()
                );
                checked.fault(text);
            }
            Err(error) => checked.fault(error.to_string()),
        }
        match self.fault() {
            Ok(None) => {}
            Ok(Some(fault)) => checked.fault(format!("{}: {fault}", fault.code())),
            // The same damage, seen from the second places.
            Err(_) if !checked.faults.is_empty() => {}
            Err(error) => return Err(error),
        }
        Ok(checked)
    }

    fn lookup<'l>(&'l self, view: &'l LogView) -> HeadLookup<'l> {
        HeadLookup {
            view,
            index: &self.access.index,
        }
    }

    fn logged_at(&self, (number, logged): (u64, LoggedHead)) -> LoggedAt {
        LoggedAt {
            logged,
            number,
            entry: self.entry_name(number),
        }
    }

    // Committing heads.

    /// Lets a head wait for the next commit. It never blocks; [`SealLog::flush`] reports a head that could not be written.
    pub fn publish(&self, head: &LoggedHead) {
        self.committer().publish(head);
    }

    /// Has the heads that wait committed at once, and not with those that come a moment later.
    pub(crate) fn hurry(&self) {
        self.committer().hurry();
    }

    /// Waits until everything that waits in this process was committed, or cannot be.
    pub fn flush(&self) -> Published {
        self.flush_within(Duration::MAX)
    }

    /// As [`SealLog::flush`], but waits no longer than this for another process that is in the log: then what waits is left in the
    /// spool for the next process that commits. A commit of this process that has begun is waited for. So are second places that
    /// do not answer at once, but no longer than five seconds.
    pub fn flush_within(&self, longest: Duration) -> Published {
        let mut published = self.committer().flush(longest);
        let lagging = self.access.marks.wait_for_remote(MAX_UPDATE_WAIT);
        published.error = published.error.or(lagging);
        published
    }

    /// How often this process has committed heads; each time one fsync made all that waited durable.
    pub fn commits(&self) -> u64 {
        self.access.commits()
    }

    /// Writes the tiles and the checkpoint of all that was committed, for readers of the files. Before that it commits those
    /// lines that were set aside and that are known by now to be this home's.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn fold(&self) -> Result<(), Error> {
        let folded = self.access.write(&|| false, |writer, index| {
            self.quarantine().retry(writer, index)?;
            writer.fold()
        })?;
        folded.1.map_or(Ok(()), Err)
    }

    /// Takes from a copy of this log in `folder` (`<folder>/journal`, `<folder>/tile`, …) the entries that the log lacks, and then
    /// the heads that the home has stored and both lack. Answers the number of new entries.
    ///
    /// # Errors
    /// Kind `Refused` when the copy is no copy of this log, does not continue it, or ends before the mark, and when this log was
    /// made on another machine or has ended; `External` when one of both cannot be read or written, or, with all entries of the
    /// copy taken, when a stored head cannot be.
    pub fn catch_up(&self, folder: &Path) -> Result<u64, Error> {
        catch_up::catch_up(&self.access, folder)
    }

    /// Lines of the spool that were set aside, for people to look at and to remove.
    ///
    /// # Errors
    /// Kind `External` when a file cannot be read.
    pub fn set_aside(&self) -> Result<SetAside, Error> {
        self.quarantine().set_aside()
    }

    fn committer(&self) -> &Committer {
        let start = || Committer::start(Arc::clone(&self.access));
        self.committer.get_or_init(start)
    }

    fn quarantine(&self) -> SpoolQuarantine<'_> {
        SpoolQuarantine {
            dir: &self.access.dir,
            log: self.description().id,
        }
    }

    /// Waits until all that waits in this process was committed.
    fn flushed(&self) -> Result<(), Error> {
        self.flush().error.map_or(Ok(()), Err)
    }

    // Entries that are no heads.

    /// Commits a key event, after all that waits in this process. An event that ends its key is committed after all heads that
    /// the home has stored and all that wait in other processes, too: one of them would come after the end of its key. Answers with the
    /// number of the entry. An event that the log has is not written twice.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails; a stored head that cannot be read does not
    /// prevent a revocation.
    pub fn commit_key_event(&self, event: &KeyEvent) -> Result<u64, Error> {
        self.flushed()?;
        let events = self.key_events()?;
        if let Some((at, _)) = events.iter().find(|(_, known)| known == event) {
            return Ok(*at);
        }
        let entry = KeyEventEntry::bytes(event)?;
        self.access.commit(&[entry], |writer, index| {
            match KeyEventEntry::needs(event) {
                StoredHeadsFirst::No => Ok(()),
                StoredHeadsFirst::Required => {
                    self.quarantine().commit_waiting(writer, index)?;
                    self.quarantine().commit_stored(writer, index).map(drop)
                }
                StoredHeadsFirst::IfReadable => {
                    self.quarantine().commit_waiting(writer, index)?;
                    drop(self.quarantine().commit_stored(writer, index));
                    Ok(())
                }
            }
        })
    }

    /// All key events with the numbers of their entries, each proved to be in the log, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::view`]; kind `External` also when the entries do not fit the checkpoint.
    pub fn key_events(&self) -> Result<Vec<(u64, KeyEvent)>, Error> {
        let events = self.entries(KeyEventEntry::is_listed, |_: &KeyEventEntry| true)?;
        Ok(events.into_iter().map(KeyEventEntry::into_pair).collect())
    }

    /// Commits a signature that is in no record, by the SHA-256 of its bytes. One that the log has is not written twice.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_signature(&self, digest: &Digest) -> Result<(), Error> {
        self.flushed()?;
        if self.signature_at(digest)?.is_none() {
            let entry = SignatureEntry::bytes(digest)?;
            self.access.commit(&[entry], |_, _| Ok(()))?;
        }
        Ok(())
    }

    /// The number of the first entry of a signature, proved to be in the log; None if there is none.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn signature_at(&self, digest: &Digest) -> Result<Option<u64>, Error> {
        let listed = SignatureEntry::of_signature(digest);
        let is_its = |entry: &SignatureEntry| entry.digest == *digest;
        let entries = self.entries(|kind| *kind == listed, is_its)?;
        Ok(entries.first().map(|entry| entry.number))
    }

    /// Was this the number of the entry at which a key ended in a log before this one?
    pub fn ended_before(&self, key: &PublicKey, number: u64) -> bool {
        KeyEnds::read(&self.access.dir).holds(key, number)
    }

    /// Commits that these seals cover redactions, after all that waits in this process: those that the log does not have yet.
    /// Answers with how many that were.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_redactions(&self, seals: &[SealedRedaction]) -> Result<usize, Error> {
        let Some(record) = seals.first().map(|seal| seal.head.record) else {
            return Ok(0);
        };
        self.flushed()?;
        let known = self.redactions_of(&record)?;
        let new = seals.iter().filter(|seal| !known.contains(&seal.head));
        let entries: Vec<_> = new.filter_map(RedactionEntry::bytes).collect();
        if !entries.is_empty() {
            self.access.commit(&entries, |_, _| Ok(()))?;
        }
        Ok(entries.len())
    }

    /// The seals of a record that cover redactions by entries of the log, each proved to be in it, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn redactions_of(&self, record: &RecordId) -> Result<Vec<Head>, Error> {
        let listed = RedactionEntry::of_record(record);
        let entries = self.entries(|kind| *kind == listed, |_: &RedactionEntry| true)?;
        Ok(entries.iter().map(RedactionEntry::head).collect())
    }

    /// Commits that these records are pruned, after all that waits in this process: those that the log does not have yet, and all
    /// of them at once.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_tombstones(&self, pruned: &[LoggedHead]) -> Result<(), Error> {
        self.flushed()?;
        let known = self.tombstones()?;
        let new = pruned.iter().filter(|logged| !known.contains(logged));
        let entries = new.map(TombstoneEntry::bytes);
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        if !entries.is_empty() {
            self.access.commit(&entries, |_, _| Ok(()))?;
        }
        Ok(())
    }

    /// The last heads of all records that this host pruned, each proved to be in the log, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn tombstones(&self) -> Result<Vec<LoggedHead>, Error> {
        let entries = self.entries(TombstoneEntry::is_listed, |_: &TombstoneEntry| true)?;
        Ok(entries.into_iter().map(|entry| entry.last).collect())
    }

    /// The entry by which this host pruned a record, proved to be in the log; None if there is none.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn tombstone_of(&self, record: &RecordId) -> Result<Option<Arc<str>>, Error> {
        let listed = TombstoneEntry::of_record(record);
        let is_its = |entry: &TombstoneEntry| entry.last.head.record == *record;
        let entries = self.entries(|kind| *kind == listed, is_its)?;
        Ok(entries.first().map(|entry| self.entry_name(entry.number)))
    }

    /// Keeps the file that proves a fork, and commits what it proves, after all that waits in this process. A fork that the log
    /// has already, by any evidence against the same key, is not written twice.
    ///
    /// # Errors
    /// Kind `InvalidInput` when these bytes are other evidence, `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_fork(
        &self,
        proved: &Verified<LoggedFork>,
        evidence: &[u8],
    ) -> Result<Accused, Error> {
        let fork = *proved.get();
        if Digest::of(evidence) != fork.evidence {
            return Err(Error::invalid(
                "these are not the bytes of the evidence that was judged",
            ));
        }
        self.flushed()?;
        let files = EvidenceFiles(self.access.marks.home());
        let forks = self.forks_of(&fork.record)?;
        if let Some(known) = forks.iter().find(|known| known.fork.covers(&fork)) {
            // The file may be gone from its folder, and this is another copy.
            if known.fork.evidence == fork.evidence {
                files.keep(&fork, evidence)?;
            }
            return Ok(Accused {
                entry: known.entry.to_string(),
                is_new: false,
                path: files.path(&known.fork),
            });
        }
        let path = files.keep(&fork, evidence)?;
        let entry = ForkEntry::bytes(fork)?;
        let at = self.access.commit(&[entry], |_, _| Ok(()))?;
        Ok(Accused {
            entry: self.entry_name(at).to_string(),
            is_new: true,
            path,
        })
    }

    /// The forks of a record by entries of the log, each proved to be in it, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn forks_of(&self, record: &RecordId) -> Result<Vec<KnownFork>, Error> {
        let listed = ForkEntry::of_record(record);
        let is_its = |entry: &ForkEntry| entry.fork.record == *record;
        let entries = self.entries(|kind| *kind == listed, is_its)?;
        let known = entries.into_iter().map(|entry| KnownFork {
            fork: entry.fork,
            entry: self.entry_name(entry.number),
        });
        Ok(known.collect())
    }

    /// Was it made in the place of a log that was lost or went back, and may it lack entries of that log?
    ///
    /// # Errors
    /// Kind `External` when its first entry cannot be read or is not that of the signed tree.
    pub fn follows_another(&self) -> Result<bool, Error> {
        let replaced = entries::replaced_log(&*self.view()?)?;
        Ok(replaced.is_some())
    }

    fn find_non_heads(
        &self,
        listed: impl Fn(&NonHeadKind) -> bool,
    ) -> Result<(Arc<LogView>, Vec<u64>), Error> {
        let id = self.description().id;
        self.access.non_heads.find(id, || self.view(), listed)
    }

    /// All entries of one kind that the index lists so, each proved to be in the log.
    fn entries<V: EntryView>(
        &self,
        listed: impl Fn(&NonHeadKind) -> bool,
        wanted: impl Fn(&V) -> bool,
    ) -> Result<Vec<V>, Error> {
        let (view, numbers) = self.find_non_heads(listed)?;
        entries::read_all(&view, numbers, wanted)
    }

    // Second places.

    /// Why it commits nothing; None when nothing is wrong with it.
    ///
    /// # Errors
    /// As [`SealLog::view`].
    pub fn fault(&self) -> Result<Option<Fault>, Error> {
        // The marks first: a commit in between makes the log larger, and no mark is ever ahead of it.
        let marks = &self.access.marks;
        let known = marks.known(&marks.remote_states(false));
        let view = self.view()?;
        self.access.fault(known, view.contents(), view.tree(), true)
    }

    /// Whether it counts in the judgement of records now. That may change at any moment; a commit looks for itself, under a lock.
    pub fn standing(&self) -> Standing {
        self.standing.get(&self.access, || self.look())
    }

    fn look(&self) -> Standing {
        // The marks before the log, as in `fault`.
        let marks = &self.access.marks;
        let mut known = marks.known(&marks.remote_states(false));
        let (unread, know_nothing) = (known.unread.take(), known.trees.is_empty());
        let looked = self.view().and_then(|view| {
            let fault = self
                .access
                .fault(known, view.contents(), view.tree(), true)?;
            if fault.is_none() {
                // The absence of entries shows that no key ended and no record was forked: the index must be good.
                self.find_non_heads(|_| false)?;
            }
            Ok((fault, view.tree().size))
        });
        match (looked, unread) {
            // Also if a damaged tile prevents the comparison with the marks: it may be any history.
            (Err(error), _) => Standing::Damaged(error.to_string()),
            (Ok((Some(fault), _)), _) => Standing::Faulty(fault),
            (Ok((None, _)), Some(error)) => Standing::MarkUnread(error.to_string()),
            (Ok((None, size)), None) if size > 0 && know_nothing => Standing::MarkGone,
            (Ok((None, _)), None) => Standing::Good,
        }
    }

    /// How many entries a second place vouches for: a writer to this home alone cannot replace them. A place that cannot be read
    /// vouches for nothing, and takes nothing from what others show. None in a log that lags a mark or was made elsewhere.
    ///
    /// # Errors
    /// Kind `External` when the log cannot be read.
    pub fn marked(&self) -> Result<u64, Error> {
        // The marks before the log, as in `fault`.
        let marks = &self.access.marks;
        let mut known = marks.known(&marks.remote_states(false));
        known.unread = None;
        let largest = known.trees.iter().max_by_key(|tree| tree.size).copied();
        let view = self.view()?;
        let fault = marks.fault(known, view.contents(), view.tree())?;
        // No fault: the log was proved to continue each of them.
        let largest = largest.filter(|_| fault.is_none());
        Ok(largest.map_or(0, |largest| largest.size))
    }

    /// Does the log list this second place, whether `log.json` names it or not?
    ///
    /// # Errors
    /// As [`SealLog::view`].
    pub fn lists_place(&self, place: &MarkLocation) -> Result<bool, Error> {
        let view = self.view()?;
        let list = self.access.place_list(view.contents(), view.tree())?;
        Ok(list.lists(place))
    }

    /// Commits that the log has the second places `kept` from now on, without `removed`; where that is None, without all that it lists and
    /// `log.json` does not name. Then `log.json` names them. The place that is removed need not answer. The first of `kept` is the
    /// default one.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, also by what the removed place knows; `External` when another place or a file
    /// cannot be read or written. Then `log.json` is as it was.
    pub fn remove_place(
        &self,
        removed: Option<&MarkLocation>,
        kept: Vec<MarkLocation>,
    ) -> Result<Description, Error> {
        let description = Description {
            marks: kept,
            ..self.description().clone()
        };
        self.access.remove_place(removed, &description)?;
        Ok(description)
    }

    /// What each second place knows.
    pub fn mark_states(&self) -> Vec<MarkReport> {
        self.access.marks.reports()
    }

    /// The largest checkpoint that each second place knows, if it knows one: the folders first.
    ///
    /// # Errors
    /// Kind `External` when one cannot be read or is damaged.
    pub fn marks(&self) -> Result<Vec<Option<TreeHead>>, Error> {
        let reports = self.mark_states().into_iter();
        reports.map(|report| report.tree).collect()
    }

    /// Brings all second places up to the log, and waits for those that do not answer at once no longer than `longest`.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when a place or a file cannot be read or written.
    pub fn raise_marks(&self, longest: Duration) -> Result<(), Error> {
        self.fold()?;
        self.access.marks.request_remote_update();
        let failed = self.access.marks.wait_for_remote(longest);
        failed.map_or(Ok(()), Err)
    }

    // Mirrors and witnesses.

    /// Brings a mirror up to the log, and repairs the tiles there that are `compared` and are not those of the log.
    ///
    /// # Errors
    /// Kind `Refused` when another log is there, or the log commits nothing; `External` when the storage or a file fails: then the mirror is as it was, with more tiles at most.
    pub fn mirror(&self, to: &dyn Objects, compared: Compared) -> Result<Mirrored, Error> {
        self.fold()?;
        let comparison = Comparison {
            compared,
            random: &*self.access.random,
            fsck: &|| self.fsck(),
        };
        self.mirror_at(to)
            .update(&self.access.dir, &|| self.view(), &comparison)
    }

    /// Reads all of a mirror of this log and computes every hash again; the log itself is only asked whether it continues it.
    ///
    /// # Errors
    /// Kind `Refused` when there is no mirror of this log, `External` when it cannot be read.
    pub fn check_mirror(&self, of: &dyn Objects) -> Result<Checked, Error> {
        self.mirror_at(of).check(&|| self.view())
    }

    /// What a mirror and this log prove together against the log's key, to anybody: that it signed two histories. None if the log
    /// continues the mirror, or is only shorter.
    ///
    /// # Errors
    /// As [`SealLog::check_mirror`].
    pub fn conflict_with(&self, of: &dyn Objects) -> Result<Option<Conflict>, Error> {
        self.mirror_at(of).conflict(&|| self.view())
    }

    fn mirror_at<'m>(&'m self, objects: &'m dyn Objects) -> Mirror<'m> {
        Mirror {
            objects,
            description: self.description(),
        }
    }

    /// The checkpoints for which cosignatures are kept, the newest first, with the lines of witnesses of these policies. A note
    /// that is no checkpoint of this log is skipped, and so is a file that cannot be read, with which `warn` is called.
    ///
    /// # Errors
    /// Kind `External` when the folder cannot be read.
    pub fn cosigned(
        &self,
        policies: &[(String, Policy)],
        warn: &mut dyn FnMut(&str),
    ) -> Result<Vec<CosignedNote>, Error> {
        self.cosigned_notes().list(policies, warn)
    }

    /// Keeps the cosignatures of a checkpoint, together with those of it that are kept, and removes checkpoints that are worth
    /// nothing any more. `policies` are all policies of the home, not only those whose witnesses were asked.
    ///
    /// # Errors
    /// Kind `Refused` when the note is no checkpoint of this log, or another one of the same size is kept; `External` when
    /// the system fails.
    pub fn keep_cosigned(
        &self,
        note: &SignedNote,
        policies: &[(String, Policy)],
    ) -> Result<(), Error> {
        self.cosigned_notes().keep(note, policies)
    }

    fn cosigned_notes(&self) -> CosignedNotes<'_> {
        CosignedNotes {
            dir: &self.access.dir,
            description: self.description(),
        }
    }

    /// Keeps a conflict that convicts this log, and answers where.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn keep_conflict(&self, conflict: &Conflict) -> Result<PathBuf, Error> {
        conflict_files::keep(&self.access.dir, conflict)
    }

    // Files beside the log.

    /// Where a record was sealed, the last place last; nothing if no file has it, or it cannot be read.
    pub fn places_of(&self, record: &RecordId) -> Vec<String> {
        RecordPlaces(&self.access.dir).of(record)
    }

    /// The records whose places, the last one last, `is_there` accepts.
    ///
    /// # Errors
    /// Kind `External` when the index of places cannot be read.
    pub fn records_in(&self, is_there: &dyn Fn(&[String]) -> bool) -> Result<Vec<RecordId>, Error> {
        let places = RecordPlaces(&self.access.dir);
        let all = places.records()?.into_iter();
        Ok(all.filter(|record| is_there(&places.of(record))).collect())
    }

    pub(crate) fn note_place(&self, record: &RecordId, place: &str) {
        RecordPlaces(&self.access.dir).note(record, place);
    }

    /// Keeps a verified response to a request for a stamp of `note`, a checkpoint of this log.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    #[cfg(feature = "timestamp")]
    pub fn keep_timestamp(
        &self,
        size: u64,
        note: &SignedNote,
        authority: &str,
        response: &[u8],
    ) -> Result<(), Error> {
        self.stamp_files().keep(size, note, authority, response)
    }

    /// The time stamps that are kept, those of the smallest checkpoint first.
    ///
    /// # Errors
    /// Kind `External` when the folder cannot be read.
    #[cfg(feature = "timestamp")]
    pub fn timestamps(&self) -> Result<Vec<KeptStamp>, Error> {
        self.stamp_files().list()
    }

    /// Judges a stamp that is kept, against the log in `view`. A file that cannot be read stamps nothing, like one that does not
    /// verify.
    #[cfg(feature = "timestamp")]
    pub fn judge_timestamp(
        &self,
        kept: &KeptStamp,
        authority: &Authority,
        view: &LogView,
    ) -> JudgedStamp {
        self.stamp_files().judge(kept, authority, view)
    }

    /// The first good stamp that covers an entry: no later than [`TimeStamp::latest`] the entry was in the log. `warn` is called for
    /// each stamp before it that stamps nothing, with the reason.
    ///
    /// # Errors
    /// As [`SealLog::timestamps`].
    #[cfg(feature = "timestamp")]
    pub fn stamped(
        &self,
        entry: u64,
        authorities: &[(String, Authority)],
        view: &LogView,
        warn: &mut dyn FnMut(&KeptStamp, &str),
    ) -> Result<Option<(KeptStamp, TimeStamp)>, Error> {
        let files = self.stamp_files();
        files.first_covering(entry, authorities, view, warn)
    }

    #[cfg(feature = "timestamp")]
    pub(crate) fn stamp_files(&self) -> StampFiles<'_> {
        StampFiles {
            dir: &self.access.dir,
            description: self.description(),
        }
    }
}
