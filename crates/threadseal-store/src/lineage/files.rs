//! [`FileCheckpointStore`]: lineages in a folder, in a layout that also reads igor's folders as
//! they are.
//!
//! ```text
//! <agent>.checkpoint                   the newest link, a whole file
//! <agent>.identity             0600    the agent's key
//! <agent>.deleted                      64 hex of the link that was newest when it was deleted, LF
//! .<agent>.lock                0600    locked while a link is published; "begun" LF once one was
//! history/<agent>/<hash>.ckpt          every older link, by its content hash
//! history/<agent>/<hash>.head          "TSHEAD1" LF and the header of a link without its state
//! ```
//! ```text
//! write   temporary file: header, state; checked; fsync     no process waits for this
//! lock    newest as expected?
//! archive link(<agent>.checkpoint, history/…); fsync(history/<agent>)
//! publish rename(temporary, <agent>.checkpoint); fsync(folder)
//! ```
//! The one rename decides. Before it the older link is the newest; after it the new one is, and the
//! older one is in the archive already. An unpublished link never has a name, so a crash leaves no
//! second child. igor names its archive by ticks (`%010d.ckpt`); such files are found by their
//! hash.

use super::advance::Proven;
use super::state::{StoredLink, each_chunk};
use super::{Advance, CheckpointStore, Newest, Saved};
use crate::atomic::{self, NewFile, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::lock::Exclusive;
use crate::owned_files::read_private_key_file;
use crate::read::{self, RegularFile, Source};
use crate::sys::{self, Access, Fs, directory_of};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_formats::lineage::{
    AgentIdentity, AgentName, CheckpointHeader, ContentHash, HEADER_LENGTH, Version,
};

const HEAD_MAGIC: &[u8] = b"TSHEAD1\n";
const BEGUN: &[u8] = b"begun\n";
/// Bytes of a tombstone: a hash in hex and LF.
const TOMBSTONE_BYTES: usize = 65;

/// Lineages in a folder, which is made with the first link.
#[derive(Debug)]
pub struct FileCheckpointStore {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    /// The hashes of files of archives that are not named by them, as far as they were read.
    foreign: Mutex<BTreeMap<PathBuf, ContentHash>>,
}

/// A file that contains a link.
struct Found {
    file: RegularFile,
    hash: ContentHash,
    head: Vec<u8>,
    /// Offset of its state.
    state_at: Option<u64>,
}

impl FileCheckpointStore {
    /// The lineages in `folder`.
    pub fn new(fs: Arc<dyn Fs>, folder: impl Into<PathBuf>) -> Self {
        Self {
            fs,
            folder: folder.into(),
            foreign: Mutex::default(),
        }
    }

    /// Is the newest link of an agent gone from `folder`, although the lock shows that one was
    /// published, and no tombstone that the agent was deleted? Nothing is made.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when a file cannot be read.
    pub fn has_lost_newest(fs: &dyn Fs, folder: &Path, agent: &AgentName) -> Result<bool, Error> {
        let is_there = |name: String| {
            let path = folder.join(name);
            match fs.symlink_metadata(&path) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(sys::failure("read", &path, &error)),
            }
        };
        let lock = folder.join(format!(".{agent}.lock"));
        let begun = read::read_small(fs, &lock, BEGUN.len())?;
        // A link is replaced by a rename, and a deletion writes its tombstone first.
        Ok(begun == BEGUN
            && !is_there(format!("{agent}.checkpoint"))?
            && !is_there(format!("{agent}.deleted"))?)
    }

    fn live(&self, agent: &AgentName) -> PathBuf {
        self.folder.join(format!("{agent}.checkpoint"))
    }

    fn identity(&self, agent: &AgentName) -> PathBuf {
        self.folder.join(format!("{agent}.identity"))
    }

    fn tombstone(&self, agent: &AgentName) -> PathBuf {
        self.folder.join(format!("{agent}.deleted"))
    }

    fn lock(&self, agent: &AgentName) -> PathBuf {
        self.folder.join(format!(".{agent}.lock"))
    }

    fn archive(&self, agent: &AgentName) -> PathBuf {
        self.folder.join("history").join(agent.as_str())
    }

    /// The file at `path`, if there is one.
    fn open(&self, path: &Path) -> Result<Option<RegularFile>, Error> {
        match self.fs.symlink_metadata(path) {
            Ok(_) => read::open_regular(&*self.fs, path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(sys::failure("read", path, &error)),
        }
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>, Error> {
        match self.fs.read_dir(folder) {
            Ok(names) => Ok(names
                .into_iter()
                .filter_map(|name| name.into_string().ok())
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(sys::failure("read", folder, &error)),
        }
    }

    fn sync(&self, folder: &Path) -> Result<(), Error> {
        let synced = self.fs.sync_dir(folder);
        synced.map_err(|error| sys::failure("write", folder, &error))
    }

    fn unlink(&self, path: &Path) -> Result<(), Error> {
        match self.fs.unlink(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(sys::failure("remove", path, &error))
            }
            _ => Ok(()),
        }
    }

    /// The newest link as the folder shows it now.
    fn look(&self, agent: &AgentName) -> Result<(Newest, Option<Found>), Error> {
        let live = self.open(&self.live(agent))?;
        let live = live.map(found).transpose()?;
        let deleted = self.read_tombstone(agent)?;
        match (live, deleted) {
            // It is being deleted: the tombstone was there first.
            (Some(live), Some(hash)) if live.hash == hash => Ok((Newest::Deleted(hash), None)),
            (Some(live), _) => Ok((Newest::Link(live.hash), Some(live))),
            (None, Some(hash)) => Ok((Newest::Deleted(hash), None)),
            (None, None) if self.has_begun(agent)? => Err(Error::refused(format!(
                "{} is gone, but {} shows that it existed; restore the newest link",
                self.live(agent).display(),
                self.archive(agent).display()
            ))),
            (None, None) => Ok((Newest::Nothing, None)),
        }
    }

    fn read_tombstone(&self, agent: &AgentName) -> Result<Option<ContentHash>, Error> {
        let path = self.tombstone(agent);
        let Some(file) = self.open(&path)? else {
            return Ok(None);
        };
        let text = String::from_utf8(file.read_whole(TOMBSTONE_BYTES)?);
        let hash = text.ok().and_then(|text| {
            let hex = text.strip_suffix('\n')?;
            ContentHash::parse_hex(hex)
        });
        let damaged = || Error::refused(format!("{} is damaged", path.display()));
        hash.map(Some).ok_or_else(damaged)
    }

    /// Was there a newest link once? igor's archive shows it too.
    fn has_begun(&self, agent: &AgentName) -> Result<bool, Error> {
        let path = self.lock(agent);
        match self.fs.metadata(&path) {
            Ok(found) if found.size > 0 => return Ok(true),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(sys::failure("read", &path, &error));
            }
            _ => {}
        }
        let names = self.names(&self.archive(agent))?;
        Ok(names.iter().any(|name| is_foreign(name)))
    }

    fn mark_begun(&self, agent: &AgentName) -> Result<(), Error> {
        let path = self.lock(agent);
        let fail = |error: io::Error| sys::failure("write", &path, &error);
        if self.fs.metadata(&path).map_err(fail)?.size == 0 {
            let file = self.fs.open(&path, Access::Append).map_err(fail)?;
            sys::append_all(&*file, BEGUN).map_err(fail)?;
            file.sync_all().map_err(fail)?;
            self.sync(&self.folder)?;
        }
        Ok(())
    }

    /// Writes a link into the archive, where it is not there already.
    fn archive_link(
        &self,
        agent: &AgentName,
        link: &Proven,
        state: &mut dyn Source,
    ) -> Result<(), Error> {
        let folder = self.archive(agent);
        let whole = folder.join(format!("{}.ckpt", link.hash));
        let bare = folder.join(format!("{}.head", link.hash));
        if let Some(there) = self.open(&whole)? {
            check_name(there, &link.hash)?;
            return link.write_state(state, &mut |_| Ok(())).map(drop);
        }
        let mut file = NewFile::begin(&*self.fs, &whole, PRIVATE_FILE)?;
        file.write(&link.head)?;
        if link.write_state(state, &mut |piece| file.write(piece))? {
            return file.commit_new().map(drop);
        }
        drop(file);
        if self.open(&bare)?.is_some() {
            return Ok(());
        }
        let bytes = [HEAD_MAGIC, &link.head].concat();
        atomic::create_new(&*self.fs, &bare, &bytes, PRIVATE_FILE)
    }

    /// Gives the newest link its name in the archive.
    fn archive_live(&self, agent: &AgentName, live: &Found) -> Result<(), Error> {
        let folder = self.archive(agent);
        let to = folder.join(format!("{}.ckpt", live.hash));
        match self.open(&to)? {
            Some(there) => check_name(there, &live.hash)?,
            None => match self.fs.hard_link(&self.live(agent), &to) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Not every file system gives a file two names.
                Err(_) => {
                    let mut copy = NewFile::begin(&*self.fs, &to, PRIVATE_FILE)?;
                    each_chunk(&mut live.file.chunks(), &mut |piece| copy.write(piece))?;
                    copy.commit_new()?;
                }
            },
        }
        self.sync(&folder)
    }

    fn find(&self, agent: &AgentName, link: &ContentHash) -> Result<Option<Found>, Error> {
        let live = self.open(&self.live(agent))?.map(found).transpose();
        if let Ok(Some(live)) = live
            && live.hash == *link
        {
            return Ok(Some(live));
        }
        let folder = self.archive(agent);
        if let Some(file) = self.open(&folder.join(format!("{link}.ckpt")))? {
            return named(file, link).map(Some);
        }
        if let Some(file) = self.open(&folder.join(format!("{link}.head")))? {
            let bytes = file.read_whole(HEAD_MAGIC.len() + HEADER_LENGTH)?;
            let head = bytes.strip_prefix(HEAD_MAGIC).unwrap_or_default().to_vec();
            return Ok(Some(Found {
                file,
                hash: *link,
                head,
                state_at: None,
            }));
        }
        self.find_foreign(&folder, link)
    }

    fn find_foreign(&self, folder: &Path, link: &ContentHash) -> Result<Option<Found>, Error> {
        let names = self.names(folder)?;
        for path in names
            .iter()
            .filter(|name| is_foreign(name))
            .map(|name| folder.join(name))
        {
            // The map is whole whatever panicked.
            let known = || self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            let remembered = known().get(&path).copied();
            if remembered.is_some_and(|hash| hash != *link) {
                continue;
            }
            let Some(file) = self.open(&path)? else {
                continue;
            };
            // A file that neither this store nor igor reads as a checkpoint is not the one that was
            // searched for.
            let Ok(read) = found(file) else { continue };
            known().insert(path, read.hash);
            if read.hash == *link {
                return Ok(Some(read));
            }
        }
        Ok(None)
    }

    fn publish(
        &self,
        agent: &AgentName,
        advance: &Advance,
        file: NewFile<'_>,
    ) -> Result<Saved, Error> {
        let _section = Exclusive::enter(&*self.fs, &self.lock(agent))?;
        let (now, live) = self.look(agent)?;
        if let Some(saved) = advance.compared(&now) {
            if saved == Saved::Stored {
                self.sync(&self.folder)?;
            }
            return Ok(saved);
        }
        if let Some(live) = &live {
            self.archive_live(agent, live)?;
        }
        file.commit_replace()?;
        self.mark_begun(agent)?;
        if let Newest::Deleted(_) = now {
            self.unlink(&self.tombstone(agent))?;
            self.sync(&self.folder)?;
        }
        Ok(Saved::Stored)
    }
}

impl CheckpointStore for FileCheckpointStore {
    fn newest(&self, agent: &AgentName) -> Result<Newest, Error> {
        let (newest, _) = self.look(agent)?;
        if newest != Newest::Nothing {
            // The process that published it may have died before its name was durable.
            self.sync(&self.folder)?;
        }
        Ok(newest)
    }

    fn save(
        &self,
        agent: &AgentName,
        advance: &Advance,
        state: &mut dyn Source,
    ) -> Result<Saved, Error> {
        advance.check_agent(agent)?;
        let Some((last, older)) = advance.parts() else {
            return Err(Error::invalid("there is no link to save"));
        };
        // Before gigabytes are written in vain.
        if let Some(saved @ Saved::Differs(_)) = advance.compared(&self.look(agent)?.0) {
            return Ok(saved);
        }
        atomic::create_directories(&*self.fs, &self.archive(agent), PRIVATE_DIRECTORY)?;
        for link in older {
            self.archive_link(agent, link, state)?;
        }
        let mut file = NewFile::begin(&*self.fs, &self.live(agent), PRIVATE_FILE)?;
        file.write(&last.head)?;
        if !last.write_state(state, &mut |piece| file.write(piece))? {
            return Err(Error::invalid("the newest link must contain its state"));
        }
        self.publish(agent, advance, file)
    }

    fn load(&self, agent: &AgentName, link: &ContentHash) -> Result<Option<StoredLink>, Error> {
        let Some(found) = self.find(agent, link)? else {
            return Ok(None);
        };
        let state = found.state_at.map(|at| -> Box<dyn Source + Send> {
            Box::new(FileState {
                file: found.file,
                at,
            })
        });
        StoredLink::new(*link, found.head, state).map(Some)
    }

    fn list(&self, after: Option<&AgentName>, limit: usize) -> Result<Vec<AgentName>, Error> {
        let names = self.names(&self.folder)?;
        let mut agents: Vec<AgentName> = names
            .iter()
            .filter_map(|name| AgentName::parse(name.strip_suffix(".checkpoint")?).ok())
            .filter(|agent| after.is_none_or(|after| agent > after))
            .collect();
        agents.sort_unstable();
        agents.truncate(limit);
        Ok(agents)
    }

    fn delete(&self, agent: &AgentName, expected: &ContentHash) -> Result<Saved, Error> {
        if self.look(agent)?.0.known().is_none() {
            return Ok(Saved::Differs(Newest::Nothing));
        }
        let _section = Exclusive::enter(&*self.fs, &self.lock(agent))?;
        let (now, _) = self.look(agent)?;
        match now {
            Newest::Link(hash) if hash == *expected => {
                let path = self.tombstone(agent);
                let text = format!("{hash}\n");
                let mode = atomic::Mode::Set(PRIVATE_FILE);
                atomic::replace(&*self.fs, &path, text.as_bytes(), mode)?;
            }
            Newest::Deleted(hash) if hash == *expected => {}
            _ => return Ok(Saved::Differs(now)),
        }
        let archive = self.archive(agent);
        for name in self.names(&archive)? {
            self.unlink(&archive.join(name))?;
        }
        self.unlink(&self.live(agent))?;
        self.sync(&self.folder)?;
        Ok(Saved::Stored)
    }

    fn save_identity(&self, agent: &AgentName, identity: &AgentIdentity) -> Result<(), Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)?;
        let path = self.identity(agent);
        atomic::create_new(&*self.fs, &path, &identity.to_file(), PRIVATE_FILE)
    }

    fn load_identity(&self, agent: &AgentName) -> Result<Option<AgentIdentity>, Error> {
        let path = self.identity(agent);
        match self.fs.symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::failure("read", &path, &error)),
            Ok(_) => {}
        }
        let bytes = zeroize::Zeroizing::new(read_private_key_file(&*self.fs, &path)?);
        let identity = AgentIdentity::read(&bytes);
        let in_file = |error: Error| Error::key(format!("{}: {error}", path.display()));
        identity.map(Some).map_err(in_file)
    }

    fn delete_identity(&self, agent: &AgentName) -> Result<(), Error> {
        self.unlink(&self.identity(agent))?;
        match self.fs.sync_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(sys::failure("remove", &self.folder, &error))
            }
            _ => Ok(()),
        }
    }

    fn place(&self) -> String {
        self.folder.display().to_string()
    }
}

/// The rest of an open file from `at` on.
struct FileState {
    file: RegularFile,
    at: u64,
}

impl Source for FileState {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        let mut rest = self.file.range(self.at, self.file.size());
        rest.next_chunk(buffer)?;
        self.at += buffer.len() as u64;
        Ok(())
    }
}

/// Is this a file of igor's archive, named by a tick?
fn is_foreign(name: &str) -> bool {
    let stem = name.strip_suffix(".ckpt");
    stem.is_some_and(|stem| !stem.starts_with('.') && ContentHash::parse_hex(stem).is_none())
}

/// Reads the header of a file and finds its hash, reading all of it before v0x05.
fn found(file: RegularFile) -> Result<Found, Error> {
    let mut head = Vec::new();
    each_chunk(&mut file.range(0, HEADER_LENGTH as u64), &mut |piece| {
        head.extend_from_slice(piece);
        Ok(())
    })?;
    let header = CheckpointHeader::parse(&head)
        .map_err(|error| Error::refused(format!("{}: {error}", file.path().display())))?;
    head.truncate(header.version.header_length());
    let hash = match header.version {
        Version::V5 => ContentHash::of(&head),
        _ => {
            let mut hasher = threadseal_core::digest::Hasher::new();
            each_chunk(&mut file.chunks(), &mut |piece| {
                hasher.update(piece);
                Ok(())
            })?;
            ContentHash::of_digest(hasher.finish())
        }
    };
    Ok(Found {
        state_at: Some(head.len() as u64),
        file,
        hash,
        head,
    })
}

/// A file that is named by the hash of its link.
fn named(file: RegularFile, link: &ContentHash) -> Result<Found, Error> {
    let path = file.path().to_owned();
    match found(file) {
        Ok(found) if found.hash == *link => Ok(found),
        Err(error) if error.kind() == ErrorKind::External => Err(error),
        _ => Err(Error::refused(format!(
            "{} does not match its name; move it out of {}",
            path.display(),
            directory_of(&path).display()
        ))),
    }
}

fn check_name(file: RegularFile, link: &ContentHash) -> Result<(), Error> {
    named(file, link).map(drop)
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
