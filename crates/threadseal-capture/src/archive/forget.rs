//! Removal from the archive, and the tombstones it leaves (`spec/archive.md` §6, §7).
//!
//! ```text
//! tombstone, durable ─► chunks that no other session needs ─► tails ─► journals
//! ```
//! Invariant: a session whose tombstone is durable is no part of the archive, whatever is left of it.

use super::{Archive, ArchivedLog, StreamKind, list, read_if_there, remove};
use crate::session::SessionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::sys::{self, Fs};

/// Most bytes of `forgotten.jsonl`.
const MAX_FORGOTTEN_BYTES: usize = 64 << 20;
/// Most bytes of a reason.
pub(super) const MAX_REASON_BYTES: usize = 4 << 10;

/// Why a session was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// A person asked for it.
    Asked,
    /// The archive exceeded its quota.
    Quota,
}

/// The tombstone of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The session.
    pub session: SessionId,
    /// When it was removed.
    pub when: Timestamp,
    /// Why.
    pub why: Why,
    /// The person's reason.
    pub reason: String,
    /// Its records, as they were archived last.
    pub records: Vec<RecordId>,
    /// Bytes of its logs.
    pub size: u64,
}

/// The result of meeting a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaResult {
    /// The sessions that were removed.
    pub removed: Vec<Forgotten>,
    /// Bytes of all files now.
    pub size: u64,
    /// Bytes beyond the quota that are left.
    pub over: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Forgotten {
        forgotten: String,
        session: String,
        why: Why,
        reason: String,
        records: Vec<(String, u64, String)>,
        size: u64,
    },
    Recalled {
        recalled: String,
        session: String,
    },
}

impl Archive {
    /// The tombstones of all forgotten sessions, oldest first.
    ///
    /// # Errors
    /// Kind `External` or `InvalidInput` when they cannot be read.
    pub fn forgotten(&self) -> Result<Vec<Forgotten>, Error> {
        Ok(self.tombstones()?.0)
    }

    /// Removes a session, and leaves a tombstone. Chunks that another session needs stay.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is not archived; `Limit` when the reason is too long; `External`
    /// when the system fails: then the next removal completes it.
    pub fn forget(&self, id: &SessionId, why: Why, reason: &str) -> Result<Forgotten, Error> {
        if reason.len() > MAX_REASON_BYTES {
            let text = format!("a reason has {MAX_REASON_BYTES} bytes at most");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let _lock = self.enter()?;
        self.forget_within(id, why, reason)
    }

    /// Removes files that no session needs: those that crashes left, and what is left of forgotten
    /// sessions. Returns their number and bytes.
    ///
    /// # Errors
    /// Kind `Refused` when a journal is damaged, since the chunks that it needs are not known;
    /// `External` when the system fails.
    pub fn prune(&self) -> Result<(u64, u64), Error> {
        let _lock = self.enter()?;
        self.complete()?;
        let logs = self.logs()?;
        if let Some(log) = logs.iter().find(|log| log.damage.is_some()) {
            let (name, hint) = (&log.name, "hint: threadseal archive fsck");
            return Err(Error::refused(format!(
                "nothing is removed: the journal of {name} is damaged, and the chunks that it needs are not known; {hint}"
            )));
        }
        let (mut count, mut bytes) = (0, 0);
        for place in self.orphans(&logs)? {
            bytes += self.fs().metadata(&place).map_or(0, |found| found.size);
            remove(self.fs(), &place)?;
            count += 1;
        }
        Ok((count, bytes))
    }

    /// Bytes of all files of the archive.
    ///
    /// # Errors
    /// Kind `External` when the system cannot read its folders.
    pub fn size(&self) -> Result<u64, Error> {
        let mut size = 0;
        each_file_below(self.fs(), &self.root, |_, found| size += found.size)?;
        Ok(size)
    }

    /// Has it a quota now? Another process may have changed that.
    ///
    /// # Errors
    /// When the settings cannot be read.
    pub fn has_quota(&self) -> Result<bool, Error> {
        Ok(self.renewed()?.settings.quota > 0)
    }

    /// Removes sessions until the quota is met: only those whose sources are gone, those first that
    /// were archived longest ago.
    ///
    /// # Errors
    /// As [`Archive::forget`].
    pub fn meet_quota(&self) -> Result<QuotaResult, Error> {
        let mut result = QuotaResult {
            removed: Vec::new(),
            size: self.size()?,
            over: 0,
        };
        let quota = self.renewed()?.settings.quota;
        if quota > 0 && result.size > quota {
            let _lock = self.enter()?;
            for (_, id) in self.removable()? {
                if result.size <= quota {
                    break;
                }
                let reason = format!("the archive has a quota of {quota} bytes");
                let removed = self.forget_within(&id, Why::Quota, &reason)?;
                result.removed.push(removed);
                result.size = self.size()?;
            }
        }
        if quota > 0 {
            result.over = result.size.saturating_sub(quota);
        }
        Ok(result)
    }

    /// Sessions whose sources are all gone, with the time of their last state, oldest first.
    fn removable(&self) -> Result<Vec<(Timestamp, SessionId)>, Error> {
        let mut sessions: Vec<(Timestamp, SessionId, bool)> = Vec::new();
        for log in self.logs()? {
            let Some(kept) = log.newest().map(|newest| newest.last().kept) else {
                continue;
            };
            let source = log.source();
            let is_there = source.is_some_and(|path| self.fs().symlink_metadata(&path).is_ok());
            match sessions.last_mut() {
                Some((last, id, there)) if *id == log.name.session => {
                    *last = kept.max(*last);
                    *there |= is_there;
                }
                _ => sessions.push((kept, log.name.session, is_there)),
            }
        }
        let gone = sessions.into_iter().filter(|(.., is_there)| !is_there);
        let mut gone: Vec<_> = gone.map(|(kept, id, _)| (kept, id)).collect();
        gone.sort();
        Ok(gone)
    }

    fn forget_within(&self, id: &SessionId, why: Why, reason: &str) -> Result<Forgotten, Error> {
        let logs = self.session(id)?;
        if logs.is_empty() {
            let text = format!("{id} is not archived; hint: threadseal list");
            return Err(Error::invalid(text));
        }
        // Of the versions of one document the newest counts.
        let versions = || {
            let newest = |log: &'_ ArchivedLog, number: usize| {
                let record = log.versions[number].record();
                log.versions[number + 1..]
                    .iter()
                    .all(|later| later.record() != record)
            };
            logs.iter().flat_map(move |log| {
                let versions = log.versions.iter().enumerate();
                versions
                    .filter(move |(number, _)| newest(log, *number))
                    .map(|(_, version)| version)
            })
        };
        let size = logs.iter().filter_map(ArchivedLog::newest);
        let size = size.map(|newest| newest.last().head.size).sum();
        let when = self.effects.clock.now()?;
        let heads = versions().map(|version| version.last().head);
        self.write_tombstone(&Line::Forgotten {
            forgotten: when.to_epoch_text(),
            session: id.to_string(),
            why,
            reason: reason.to_owned(),
            records: heads
                .map(|head| (head.record.to_hex(), head.seq, head.line.to_hex()))
                .collect(),
            size,
        })?;
        let records = versions().map(super::Version::record).collect();
        self.remove_session(id)?;
        Ok(Forgotten {
            session: id.clone(),
            when,
            why,
            reason: reason.to_owned(),
            records,
            size,
        })
    }

    /// Lets a forgotten session be archived again.
    pub(super) fn recall(&self, id: &SessionId) -> Result<(), Error> {
        self.remove_session(id)?;
        self.write_tombstone(&Line::Recalled {
            recalled: self.effects.clock.now()?.to_epoch_text(),
            session: id.to_string(),
        })
    }

    /// Completes removals that a crash interrupted.
    fn complete(&self) -> Result<(), Error> {
        for gone in self.forgotten()? {
            if !list(self.fs(), &self.session_folder(&gone.session))?.is_empty() {
                self.remove_session(&gone.session)?;
            }
        }
        Ok(())
    }

    /// Removes the files of a forgotten session.
    fn remove_session(&self, id: &SessionId) -> Result<(), Error> {
        let mut own = BTreeSet::new();
        let names = self.names_in(id)?;
        for name in &names {
            own.extend(chunks_of(&self.read_log(name.clone())?));
        }
        // A damaged journal of another session may need any chunk.
        let others = self.logs()?;
        let others: Vec<_> = others
            .iter()
            .filter(|log| log.name.session != *id)
            .collect();
        if others.iter().all(|log| log.damage.is_none()) {
            let needed: BTreeSet<Digest> = others.iter().flat_map(|log| chunks_of(log)).collect();
            for chunk in own.difference(&needed) {
                remove(self.fs(), &self.chunk_place(chunk))?;
            }
        }
        let folder = self.session_folder(id);
        let journals: Vec<PathBuf> = names.iter().map(|name| self.journal_place(name)).collect();
        for place in files_below(self.fs(), &folder)? {
            if !journals.contains(&place) {
                remove(self.fs(), &place)?;
            }
        }
        for place in &journals {
            remove(self.fs(), place)?;
        }
        if journals.is_empty() {
            return Ok(());
        }
        let synced = self.fs().sync_dir(&folder);
        synced.map_err(|error| sys::failure("remove", &folder, &error))
    }

    /// Files that no state needs.
    pub(super) fn orphans(&self, logs: &[ArchivedLog]) -> Result<Vec<PathBuf>, Error> {
        let mut needed = BTreeSet::from([
            self.root.join("archive.json"),
            self.root.join("lock"),
            self.tombstone_place(),
        ]);
        needed.extend(self.fronts()?.into_iter().map(|(_, place)| place));
        for log in logs {
            needed.insert(self.journal_place(&log.name));
            needed.extend(chunks_of(log).map(|id| self.chunk_place(&id)));
            for version in &log.versions {
                for kind in StreamKind::ALL {
                    let tail = kind.of(version).tail;
                    needed.extend(tail.map(|tail| self.tail_place(&log.name, kind, &tail.id)));
                }
            }
        }
        let there = files_below(self.fs(), &self.root)?;
        Ok(there
            .into_iter()
            .filter(|place| !needed.contains(place))
            .collect())
    }

    /// The tombstones that count, and the numbers of lines that cannot be read.
    pub(super) fn tombstones(&self) -> Result<(Vec<Forgotten>, Vec<usize>), Error> {
        let bytes = read_if_there(self.fs(), &self.tombstone_place(), MAX_FORGOTTEN_BYTES)?;
        let (mut found, mut unread) = (Vec::<Forgotten>::new(), Vec::new());
        let bytes = bytes.unwrap_or_default();
        for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            match Line::read(line) {
                Some(Ok(gone)) => {
                    found.retain(|other| other.session != gone.session);
                    found.push(gone);
                }
                Some(Err(recalled)) => found.retain(|other| other.session != recalled),
                None if line.ends_with(b"\n") => unread.push(number),
                None => {}
            }
        }
        Ok((found, unread))
    }

    pub(super) fn tombstone_place(&self) -> PathBuf {
        self.root.join("forgotten.jsonl")
    }

    fn write_tombstone(&self, line: &Line) -> Result<(), Error> {
        let place = self.tombstone_place();
        let mut bytes = read_if_there(self.fs(), &place, MAX_FORGOTTEN_BYTES)?.unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(whole.map_or(0, |end| end + 1));
        // Serialising strings and numbers does not fail.
        bytes.extend(serde_json::to_vec(line).unwrap_or_default());
        bytes.push(b'\n');
        if bytes.len() > MAX_FORGOTTEN_BYTES {
            let text = format!("{} has too many tombstones", place.display());
            return Err(Error::new(ErrorKind::Limit, text));
        }
        atomic::replace(self.fs(), &place, &bytes, Mode::Set(PRIVATE_FILE))
    }
}

impl Line {
    /// The tombstone of a line, or the session that it recalls.
    fn read(line: &[u8]) -> Option<Result<Forgotten, SessionId>> {
        match serde_json::from_slice(line).ok()? {
            Self::Recalled { session, .. } => Some(Err(session.parse().ok()?)),
            Self::Forgotten {
                forgotten,
                session,
                why,
                reason,
                records,
                size,
            } => Some(Ok(Forgotten {
                session: session.parse().ok()?,
                when: Timestamp::parse_epoch_text(&forgotten)?,
                why,
                reason,
                records: records
                    .iter()
                    .map(|(record, ..)| RecordId::parse_hex(record))
                    .collect::<Option<_>>()?,
                size,
            })),
        }
    }
}

/// The ids of the chunks that a log needs; tails are files of its own.
pub(super) fn chunks_of(log: &ArchivedLog) -> impl Iterator<Item = Digest> {
    let streams = log
        .versions
        .iter()
        .flat_map(|version| [&version.log, &version.seal]);
    let pieces = streams.flat_map(|stream| stream.chunks.iter());
    pieces.map(|piece| piece.id)
}

/// All files below a folder, also temporary ones.
fn files_below(fs: &dyn Fs, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    each_file_below(fs, folder, |place, _| files.push(place))?;
    files.sort();
    Ok(files)
}

/// Names each file below a folder, also temporary ones. An archive has very many: no list is made.
fn each_file_below(
    fs: &dyn Fs,
    folder: &Path,
    mut each: impl FnMut(PathBuf, sys::Metadata),
) -> Result<(), Error> {
    const DEEPEST: usize = 4;
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let names = match fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(sys::failure("read", &folder, &error)),
        };
        for name in names {
            let place = folder.join(name);
            match fs.symlink_metadata(&place) {
                Ok(found) if found.kind == sys::FileKind::Directory && depth < DEEPEST => {
                    open.push((place, depth + 1));
                }
                Ok(found) => each(place, found),
                Err(_) => {}
            }
        }
    }
    Ok(())
}
