//! [`Archive::keep`]: what a new sealed state adds to the archive.

use super::chunk::{self, Cutter};
use super::journal::{Facts, Journal, MAX_JOURNAL_BYTES, NewState, Piece, Stream};
use super::secrets::{MAX_MARKS, Mark, Search, Secrets};
use super::{Archive, LogName, StreamKind, read_if_there, remove};
use crate::session::{Growth, Part, SessionFile};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::Head;
use threadseal_core::trust::Trust;
use threadseal_formats::document::{self, DocumentKind, Options};
use threadseal_formats::transcript::observed::{self, LeafWalk};
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::read::{Source as _, open_regular};
use threadseal_store::sys::{self, Access, append_all, directory_of, path_text};

/// A log that was sealed.
#[derive(Debug, Clone, Copy)]
pub struct SealedLog<'a> {
    /// The log.
    pub path: &'a Path,
    /// The head that its last seal makes: `size` bytes are sealed.
    pub head: Head,
    /// The seal file, up to the end of that seal.
    pub seals: &'a [u8],
    /// Is it archived again if its session was forgotten? Only if a person named it.
    pub recall: bool,
    /// How its new lines are searched for secrets.
    pub search: Option<Search<'a>>,
}

/// The result of [`Archive::keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// A state was added, with so many bytes of the log.
    Added(u64),
    /// This state, or a later one of the record, is archived already.
    Unchanged,
    /// The session was forgotten: it is not archived again.
    Forgotten,
    /// The archive is off.
    Off,
}

impl Archive {
    /// Archives the state of `file` that was sealed. Only bytes after the last archived state are
    /// read from a log that grew. A state that is archived already changes nothing.
    ///
    /// # Errors
    /// Kind `Refused` when the log no longer has the sealed lines, or its journal is damaged;
    /// `External` or `InvalidInput` when the system fails, `Key` without the archive's key.
    pub fn keep(&self, file: &SessionFile, sealed: &SealedLog<'_>) -> Result<Kept, Error> {
        if !self.renewed()?.settings.on {
            return Ok(Kept::Off);
        }
        let _lock = self.enter()?;
        // Nothing else changes them now.
        let now = self.renewed()?;
        if !now.settings.on {
            return Ok(Kept::Off);
        }
        // Without the key nothing is begun.
        now.secret()?;
        now.keep_within(file, sealed)
    }

    fn keep_within(&self, file: &SessionFile, sealed: &SealedLog<'_>) -> Result<Kept, Error> {
        let name = self.name_of(file, sealed.path)?;
        if self
            .forgotten()?
            .iter()
            .any(|gone| gone.session == name.session)
        {
            if !sealed.recall {
                return Ok(Kept::Forgotten);
            }
            self.recall(&name.session)?;
        }
        let mut journal = self.journal(&name)?;
        if let Some(why) = &journal.damage {
            let place = self.journal_place(&name);
            let (place, hint) = (place.display(), "hint: threadseal archive fsck");
            return Err(Error::refused(format!(
                "nothing is added to {place}: {why}; {hint}"
            )));
        }
        let known = journal
            .versions
            .iter()
            .rfind(|known| known.record() == sealed.head.record);
        if let Some(known) = known.filter(|known| known.last().head.seq >= sealed.head.seq) {
            if known.last().head == sealed.head {
                self.follow(&name, &journal, file, sealed)?;
            }
            return Ok(Kept::Unchanged);
        }
        let mut marks = self.search(sealed, known)?;
        let mut front = self.front(&sealed.head.record)?;
        if self.settings.secrets == Secrets::Omit && !marks.is_empty() {
            front = Some(self.omit(sealed, front.as_deref(), &marks)?);
            marks.clear();
        }
        marks.truncate(MAX_MARKS);
        let folder = self.session_folder(&name.session);
        atomic::create_directories(self.fs(), &folder, PRIVATE_DIRECTORY)?;
        let added = match front {
            Some(front) => {
                marks.splice(0..0, known.iter().flat_map(|known| known.secrets.clone()));
                self.add_redacted(&name, file, sealed, (&front, marks))
            }
            None => self.add(&name, &mut journal, file, (sealed, &marks)),
        };
        added.map(Kept::Added)
    }

    /// The name under which the log at `path` is archived. That is its own, unless another log that is
    /// still there has this name: a copy, or a log that only claims the id, does not take its place.
    ///
    /// # Errors
    /// Kind `External` when the archive cannot be read.
    pub fn name_of(&self, file: &SessionFile, path: &Path) -> Result<LogName, Error> {
        let own = LogName::of(file);
        let other = own.beside(path);
        if self.fs().metadata(&self.journal_place(&other)).is_ok() {
            return Ok(other);
        }
        let known = self.log(&own)?.source();
        let known = known.filter(|known| known != path);
        let is_there = known.is_some_and(|known| self.fs().symlink_metadata(&known).is_ok());
        Ok(if is_there { other } else { own })
    }

    fn add(
        &self,
        name: &LogName,
        journal: &mut Journal,
        file: &SessionFile,
        (sealed, marks): (&SealedLog<'_>, &[Mark]),
    ) -> Result<u64, Error> {
        let last = journal.versions.last();
        let is_document = document::is_beside(sealed.seals);
        let grown = last.filter(|last| !is_document && last.record() == sealed.head.record);
        let before = grown.map(|last| last.log.clone()).unwrap_or_default();
        let earlier_tails = grown.map(|last| [last.log.tail, last.seal.tail]);
        let sealed_before = grown.map_or(0, |last| last.seal.size);
        let keeps_tail = file.growth == Growth::Appends;
        let mut writing = Writing {
            known: grown
                .map(|last| last.seal.chunks.clone())
                .unwrap_or_default(),
            ..Writing::new(self, name, keeps_tail)
        };
        let (log, new_bytes) = match is_document {
            true => writing.document(sealed)?,
            false => writing.log(&before, sealed, sealed_before)?,
        };
        let seal = writing.whole(StreamKind::Seal, sealed.seals)?;
        writing.settle()?;
        let new = NewState {
            kept: self.effects.clock.now()?,
            head: sealed.head,
            log: &log,
            seal: &seal,
            facts: &facts(file, sealed.path),
            secrets: marks,
        };
        self.append(name, journal, &journal.line(&new))?;
        for (kind, tail) in StreamKind::ALL
            .into_iter()
            .zip(earlier_tails.into_iter().flatten())
        {
            let now = if kind == StreamKind::Log { &log } else { &seal };
            if let Some(tail) = tail.filter(|tail| now.tail != Some(*tail)) {
                // Only a file that no line names any more: the next writer or `fsck` finds it, too.
                let _ = remove(self.fs(), &self.tail_place(name, kind, &tail.id));
            }
        }
        Ok(new_bytes)
    }

    /// Notes that the log was moved, if its last state is this one: the line of that state is written
    /// anew with the path of now.
    fn follow(
        &self,
        name: &LogName,
        journal: &Journal,
        file: &SessionFile,
        sealed: &SealedLog<'_>,
    ) -> Result<(), Error> {
        let facts = Facts {
            source: facts(file, sealed.path).source,
            ..journal.facts.clone()
        };
        let last = journal.versions.last();
        let Some(last) = last.filter(|last| last.last().head == sealed.head) else {
            return Ok(());
        };
        if journal.facts.source == facts.source {
            return Ok(());
        }
        let place = self.journal_place(name);
        let bytes = read_if_there(self.fs(), &place, MAX_JOURNAL_BYTES)?.unwrap_or_default();
        let new = NewState {
            kept: last.last().kept,
            head: sealed.head,
            log: &last.log,
            seal: &last.seal,
            facts: &facts,
            secrets: &journal.last_secrets,
        };
        let bytes = journal.with_last(&bytes, &new);
        atomic::replace(self.fs(), &place, &bytes, Mode::Set(PRIVATE_FILE))
    }

    /// Adds a line to a journal, durably.
    fn append(&self, name: &LogName, journal: &Journal, line: &[u8]) -> Result<(), Error> {
        let place = self.journal_place(name);
        if journal.good_bytes == 0 {
            return atomic::replace(self.fs(), &place, line, Mode::Set(PRIVATE_FILE));
        }
        let fail = |error: &std::io::Error| sys::failure("write", &place, error);
        let file = self
            .fs()
            .open(&place, Access::Append)
            .map_err(|error| fail(&error))?;
        let size = file.metadata().map_err(|error| fail(&error))?.size;
        let written = match size == journal.good_bytes {
            true => Ok(()),
            // The line that a crash left unended.
            false => file.set_len(journal.good_bytes),
        };
        let written = written
            .and_then(|()| append_all(&*file, line))
            .and_then(|()| file.sync_all());
        written.map_err(|error| {
            // What reached the disk is unknown. Nothing may follow a line that did not.
            let _ = file
                .set_len(journal.good_bytes)
                .and_then(|()| file.sync_all());
            fail(&error)
        })
    }
}

pub(super) fn facts(file: &SessionFile, path: &Path) -> Facts {
    Facts {
        source: Some(path_text(path)),
        project: file.project.clone(),
        parent: match &file.part {
            Part::Main => None,
            Part::SubAgent { parent, .. } => Some(parent.clone()),
        },
        rewrites: file.growth == Growth::Rewrites,
    }
}

/// Chunks on their way to the disk.
pub(super) struct Writing<'a> {
    archive: &'a Archive,
    name: &'a LogName,
    /// The folders whose names must be durable.
    folders: BTreeSet<PathBuf>,
    /// Chunks of the seal file that a durable line names already.
    known: Vec<Piece>,
    keeps_tail: bool,
}

impl<'a> Writing<'a> {
    pub(super) fn new(archive: &'a Archive, name: &'a LogName, keeps_tail: bool) -> Self {
        Self {
            archive,
            name,
            folders: BTreeSet::new(),
            known: Vec::new(),
            keeps_tail,
        }
    }

    /// The stream of the log, and the number of bytes that were read for it.
    fn log(
        &mut self,
        before: &Stream,
        sealed: &SealedLog<'_>,
        sealed_before: u64,
    ) -> Result<(Stream, u64), Error> {
        let start = before.size;
        let mut lines = Lines::new(sealed.seals, sealed_before)?;
        let mut stream = Stream {
            size: sealed.head.size,
            chunks: before.chunks.clone(),
            tail: None,
        };
        let mut cutter = Cutter::default();
        let mut pieces = Vec::new();
        let mut put = |writing: &mut Self, bytes: &[u8]| {
            pieces.push(writing.chunk(bytes)?);
            Ok(())
        };
        if let Some(tail) = &before.tail {
            let bytes = self
                .archive
                .piece(self.name, StreamKind::Log, tail, before)?;
            lines.follows(bytes.last().copied());
            cutter.push(&bytes, |bytes| put(self, bytes))?;
        } else if let Some(last) = before.chunks.last() {
            let bytes = self
                .archive
                .piece(self.name, StreamKind::Log, last, before)?;
            lines.follows(bytes.last().copied());
        }
        let file = open_regular(self.archive.fs(), sealed.path)?;
        if file.size() < sealed.head.size {
            return Err(changed(sealed.path));
        }
        let mut chunks = file.range(start, sealed.head.size);
        let mut buffer = Vec::new();
        loop {
            chunks.next_chunk(&mut buffer)?;
            if buffer.is_empty() {
                break;
            }
            lines.push(&buffer)?;
            cutter.push(&buffer, |bytes| put(self, bytes))?;
        }
        if !lines.are_sealed() {
            return Err(changed(sealed.path));
        }
        let rest = cutter.rest();
        stream.chunks.append(&mut pieces);
        self.end(StreamKind::Log, &rest, &mut stream)?;
        Ok((stream, sealed.head.size.saturating_sub(start)))
    }

    /// The stream of a document, and its size. The seal covers all of it.
    fn document(&mut self, sealed: &SealedLog<'_>) -> Result<(Stream, u64), Error> {
        let file = open_regular(self.archive.fs(), sealed.path)?;
        let bytes = file.read_whole(MAX_DOCUMENT_BYTES)?;
        // Whose the seal is, is judged when the archive is verified.
        let trust = Trust::default();
        let now = self.archive.effects.clock.now()?;
        let options = Options::new(DocumentKind::Json, &trust, now);
        let report = document::verify_beside(&bytes, sealed.seals, &options).report;
        if report.head != Some(sealed.head) {
            return Err(changed(sealed.path));
        }
        let stream = self.whole(StreamKind::Log, &bytes)?;
        Ok((stream, bytes.len() as u64))
    }

    /// A stream of bytes in memory.
    pub(super) fn whole(&mut self, kind: StreamKind, bytes: &[u8]) -> Result<Stream, Error> {
        let mut stream = Stream {
            size: bytes.len() as u64,
            ..Stream::default()
        };
        let mut cutter = Cutter::default();
        cutter.push(bytes, |bytes| {
            stream.chunks.push(self.chunk(bytes)?);
            Ok(())
        })?;
        self.end(kind, &cutter.rest(), &mut stream)?;
        Ok(stream)
    }

    /// Stores the bytes after the last boundary: beside the journal if the stream grows.
    fn end(&mut self, kind: StreamKind, rest: &[u8], stream: &mut Stream) -> Result<(), Error> {
        if rest.is_empty() {
            return Ok(());
        }
        if !self.keeps_tail {
            stream.chunks.push(self.chunk(rest)?);
            return Ok(());
        }
        let id = chunk::id(self.archive.secret()?, rest);
        let place = self.archive.tail_place(self.name, kind, &id);
        stream.tail = Some(self.store(id, &place, rest)?);
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<Piece, Error> {
        let id = chunk::id(self.archive.secret()?, bytes);
        let place = self.archive.chunk_place(&id);
        let folder = directory_of(&place);
        if !self.folders.contains(folder) {
            atomic::create_directories(self.archive.fs(), folder, PRIVATE_DIRECTORY)?;
        }
        self.store(id, &place, bytes)
    }

    fn store(&mut self, id: Digest, place: &Path, bytes: &[u8]) -> Result<Piece, Error> {
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let piece = Piece { id, size };
        if self.known.contains(&piece) {
            return Ok(piece);
        }
        // A file that is there may be damaged, and its name not durable yet.
        if self.archive.read_piece(place, &piece).is_err() {
            let secret = self.archive.secret()?;
            let file = chunk::seal(secret, &id, bytes, &*self.archive.effects.random)?;
            atomic::replace(self.archive.fs(), place, &file, Mode::Set(PRIVATE_FILE))?;
        }
        self.folders.insert(directory_of(place).to_owned());
        Ok(piece)
    }

    /// Makes all names durable.
    pub(super) fn settle(&self) -> Result<(), Error> {
        for folder in &self.folders {
            let synced = self.archive.fs().sync_dir(folder);
            synced.map_err(|error| sys::failure("write", folder, &error))?;
        }
        Ok(())
    }
}

pub(super) fn changed(path: &Path) -> Error {
    let (path, hint) = (path.display(), "hint: threadseal verify");
    let text = format!("{path} is not archived: it changed after it was sealed; {hint}");
    Error::new(ErrorKind::Refused, text)
}

/// Compares new lines of a log with the leaves that were sealed for them.
struct Lines {
    leaves: std::vec::IntoIter<Digest>,
    walk: LeafWalk,
    cutter: LineCutter,
    differ: bool,
}

/// Cuts bytes of a log, which follow others that were sealed, into lines.
#[derive(Default)]
pub(super) struct LineCutter {
    line: Vec<u8>,
    /// The earlier bytes ended in a line without LF, which was sealed.
    is_open: bool,
}

impl LineCutter {
    /// The last byte before the new ones.
    pub(super) fn follows(&mut self, last: Option<u8>) {
        self.is_open = last.is_some_and(|last| last != b'\n');
    }

    /// Calls `each` for each line that ends in these bytes.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.is_open
            && let Some(rest) = bytes.strip_prefix(b"\n")
        {
            (bytes, self.is_open) = (rest, false);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                None => self.line.extend_from_slice(part),
                Some(end) => {
                    self.line.extend_from_slice(end);
                    each(&self.line)?;
                    self.line.clear();
                }
            }
        }
        Ok(())
    }

    /// The last line, if it has no LF.
    pub(super) fn rest(&self) -> Option<&[u8]> {
        (!self.line.is_empty()).then_some(&self.line)
    }
}

impl Lines {
    /// The leaves that the seal file has after its first `before` bytes.
    fn new(seals: &[u8], before: u64) -> Result<Self, Error> {
        let unreadable = || Error::refused("the seal file has no leaves that can be read");
        let front = observed::front(seals).ok_or_else(unreadable)?;
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let (mut leaves, mut at, mut earlier) = (Vec::new(), 0, 0);
        for line in seals.split_inclusive(|byte| *byte == b'\n') {
            let is_new = at >= before;
            at += line.len();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if !line.starts_with(observed::LEAVES_START) {
                continue;
            }
            let found = observed::parse_leaves(line).ok_or_else(unreadable)?;
            match is_new {
                true => leaves.extend(found),
                false => earlier += found.len() as u64,
            }
        }
        Ok(Self {
            leaves: leaves.into_iter(),
            walk: LeafWalk::new(front.salts.as_ref(), earlier),
            cutter: LineCutter::default(),
            differ: false,
        })
    }

    /// The last byte before the new ones.
    fn follows(&mut self, last: Option<u8>) {
        self.cutter.follows(last);
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (leaves, walk, differ) = (&mut self.leaves, &mut self.walk, &mut self.differ);
        self.cutter.push(bytes, |line| {
            *differ |= !is_next(line, leaves, walk);
            Ok(())
        })
    }

    /// Were these exactly the sealed lines?
    fn are_sealed(&mut self) -> bool {
        let rest = self.cutter.rest();
        let is_rest = rest.is_none_or(|line| is_next(line, &mut self.leaves, &mut self.walk));
        is_rest && !self.differ && self.leaves.next().is_none()
    }
}

/// Is it the line that was sealed next?
fn is_next(line: &[u8], leaves: &mut impl Iterator<Item = Digest>, walk: &mut LeafWalk) -> bool {
    let leaf = walk.next_leaf(&leaf_hash(line));
    let sealed = leaves.next();
    leaf.is_some() && leaf == sealed
}
