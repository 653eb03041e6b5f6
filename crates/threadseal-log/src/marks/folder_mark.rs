//! [`FolderMark`]: the mark of a log in a folder.
//!
//! ```text
//! <folder>/<16 hex of the home's path>-<log id>.mark   the signed checkpoint
//!          <log id>.ended                              another log has taken its place
//!          <16 hex of a home>-<log id>.ended           in that home
//!          <log id>.places                             the second places of the log, as far as is known; proves nothing
//!          <log id>.home                               which home the log belongs to (`home_identity`)
//!          <log id>.lock                               held while one of all copies of a home commits
//! ```

use crate::layout::description::{Description, LogId};
use crate::layout::home_identity::HomeIdentity;
use crate::layout::log_dir::damaged;
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::lock::Exclusive;
use threadseal_store::read;
use threadseal_store::sys::{Fs, path_text};

const ENDING: &str = ".mark";
const ENDED: &str = ".ended";
/// Ending of the folder of marks beside a home.
const BESIDE: &str = ".marks";
/// Longest text of the places of a log.
const MAX_PLACES_BYTES: usize = 128 << 10;
/// Longest text of a home's identity.
const MAX_IDENTITY_BYTES: usize = 16 << 10;

/// One second place.
#[derive(Debug, Clone)]
pub(crate) struct FolderMark {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    path: PathBuf,
    /// The name of this home in the folder.
    here: String,
    id: LogId,
}

impl FolderMark {
    pub(crate) fn new(home: &LogHome, folder: &Path, id: LogId) -> Self {
        Self {
            path: folder.join(format!("{}-{id}{ENDING}", prefix(&home.path))),
            folder: folder.to_owned(),
            here: HomeIdentity::of(home).name(),
            fs: Arc::clone(&home.fs),
            id,
        }
    }

    /// The folders among the second places of a log.
    pub(crate) fn all(home: &LogHome, description: &Description) -> Vec<Self> {
        let named = description.marks.iter();
        let mut folders: Vec<&Path> = named.filter_map(MarkLocation::folder).collect();
        if !folders.contains(&&*home.mark) {
            if moved_with_home(home, description) {
                folders.remove(0);
            }
            folders.push(&home.mark);
        }
        // One order, so that two who wait for all of them do not wait for each other.
        folders.sort();
        let folders = folders.into_iter();
        folders
            .map(|folder| Self::new(home, folder, description.id))
            .collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The mark that this home writes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The checkpoints there: of a home that was moved, more than one.
    pub(crate) fn read(
        &self,
        description: &Description,
    ) -> Result<Vec<(SignedNote, TreeHead)>, Error> {
        let ending = format!("-{}{ENDING}", description.id);
        let names = names(&*self.fs, &self.folder)?;
        let ours = names.iter().filter(|name| name.ends_with(&ending));
        ours.map(|name| read_one(&*self.fs, &self.folder.join(name), description))
            .collect()
    }

    /// The notes there that have the form of a checkpoint of this log; who signed them is not known.
    pub(crate) fn read_unproved(&self) -> Vec<(SignedNote, TreeHead)> {
        let ending = format!("-{}{ENDING}", self.id);
        let names = names(&*self.fs, &self.folder).unwrap_or_default();
        let ours = names.iter().filter(|name| name.ends_with(&ending));
        let known = ours.filter_map(|name| {
            let bytes =
                read::read_small(&*self.fs, &self.folder.join(name), MAX_NOTE_BYTES).ok()?;
            let note = SignedNote::parse(&String::from_utf8(bytes).ok()?).ok()?;
            let tree = *self.id.unproved_checkpoint(&note).ok()?.tree();
            Some((note, tree))
        });
        known.collect()
    }

    /// Is any mark there?
    pub(crate) fn is_there(&self) -> bool {
        let ending = format!("-{}{ENDING}", self.id);
        let names = names(&*self.fs, &self.folder);
        names.is_ok_and(|names| names.iter().any(|name| name.ends_with(&ending)))
    }

    /// The right to look at the marks in this folder and to commit by what they say.
    pub(crate) fn enter(&self) -> Result<Exclusive, Error> {
        self.enter_while(&|| true)
    }

    /// As [`FolderMark::enter`], but waits only as long as `patient` is true.
    pub(crate) fn enter_while(&self, patient: &dyn Fn() -> bool) -> Result<Exclusive, Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)?;
        let path = self.folder.join(format!("{}.lock", self.id));
        Exclusive::enter_while(&*self.fs, &path, patient)
    }

    /// Records that another log has taken the place of this one, `for_all` homes that have it or for this one.
    pub(crate) fn end(&self, for_all: bool) -> Result<(), Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)?;
        let path = match for_all {
            true => self.ended_for_all(),
            false => self.ended_here(),
        };
        atomic::replace(&*self.fs, &path, b"", Mode::Set(PRIVATE_FILE))
    }

    /// Is the end of the log recorded, for all homes or for this one?
    pub(crate) fn has_ended(&self) -> Result<bool, Error> {
        Ok(self.has_ended_for_all()? || self.is(&self.ended_here())?)
    }

    /// Is the end of the log recorded for all homes?
    pub(crate) fn has_ended_for_all(&self) -> Result<bool, Error> {
        self.is(&self.ended_for_all())
    }

    /// Is the end of the log recorded, perhaps under the home's name before it moved here?
    pub(crate) fn has_ended_before(&self, here: &HomeIdentity) -> Result<bool, Error> {
        let is_ours = self.owner().is_none_or(|known| known == *here);
        let ended = self.has_ended()?;
        if ended || is_ours {
            return Ok(ended);
        }
        let ending = format!("-{}{ENDED}", self.id);
        let names = names(&*self.fs, &self.folder)?;
        Ok(names.iter().any(|name| name.ends_with(&ending)))
    }

    fn ended_for_all(&self) -> PathBuf {
        self.folder.join(format!("{}{ENDED}", self.id))
    }

    fn ended_here(&self) -> PathBuf {
        self.folder
            .join(format!("{}-{}{ENDED}", self.here, self.id))
    }

    fn is(&self, path: &Path) -> Result<bool, Error> {
        match self.fs.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(threadseal_store::sys::failure("read", path, &error)),
        }
    }

    /// The home that the log belongs to, as far as that is known.
    pub(crate) fn owner(&self) -> Option<HomeIdentity> {
        let bytes = read::read_small(&*self.fs, &self.owner_path(), MAX_IDENTITY_BYTES).ok()?;
        HomeIdentity::parse(std::str::from_utf8(&bytes).ok()?)
    }

    /// Records which home the log belongs to.
    pub(crate) fn set_owner(&self, owner: &HomeIdentity) -> Result<(), Error> {
        let (path, text) = (self.owner_path(), owner.to_text());
        atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    fn owner_path(&self) -> PathBuf {
        self.folder.join(format!("{}.home", self.id))
    }

    /// The second places that were noted here. Any writer of the folder can change them.
    pub(crate) fn known_places(&self) -> Vec<MarkLocation> {
        let bytes = read::read_small(&*self.fs, &self.places_path(), MAX_PLACES_BYTES);
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.unwrap_or_default();
        let places = text.lines().map(MarkLocation::parse);
        places.filter_map(Result::ok).collect()
    }

    /// Notes the second places of the log. The next commit does it again where that fails.
    pub(crate) fn note_places(&self, places: &[MarkLocation]) {
        if self.known_places() == places {
            return;
        }
        let text: String = places.iter().map(|place| format!("{place}\n")).collect();
        let path = self.places_path();
        let _ = atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE));
    }

    fn places_path(&self) -> PathBuf {
        self.folder.join(format!("{}.places", self.id))
    }

    pub(crate) fn write(&self, note: &SignedNote) -> Result<(), Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)?;
        let text = note.to_string();
        atomic::replace(
            &*self.fs,
            &self.path,
            text.as_bytes(),
            Mode::Set(PRIVATE_FILE),
        )
    }
}

fn read_one(
    fs: &dyn Fs,
    path: &Path,
    description: &Description,
) -> Result<(SignedNote, TreeHead), Error> {
    let bytes = read::read_small(fs, path, MAX_NOTE_BYTES)?;
    let text = String::from_utf8(bytes).ok();
    let note = text.and_then(|text| SignedNote::parse(&text).ok());
    let checkpoint = note.as_ref().and_then(|note| description.checkpoint(note));
    let both = note.zip(checkpoint).ok_or_else(|| damaged(path))?;
    Ok((both.0, *both.1.tree()))
}

/// Logs of this home that have a mark in `folder`. A folder beside the home, and named after it, belongs to no other home: marks
/// there count also if the home had another name when they were written.
pub(crate) fn of_home(fs: &dyn Fs, folder: &Path, home: &Path) -> Result<Vec<LogId>, Error> {
    let own = prefix(home);
    let is_its_own = folder == beside(home);
    let names = names(fs, folder)?;
    let ids = names.iter().filter_map(|name| {
        let (of, id) = name.strip_suffix(ENDING)?.split_once('-')?;
        LogId::parse_hex(id).filter(|_| is_its_own || of == own)
    });
    Ok(ids.collect())
}

/// The folder of marks that a home has beside itself.
fn beside(home: &Path) -> PathBuf {
    let mut name = home.file_name().unwrap_or_default().to_owned();
    name.push(BESIDE);
    home.with_file_name(name)
}

/// Did the default place, the first one of a log, move together with the home? Then nothing is made where both were.
fn moved_with_home(home: &LogHome, description: &Description) -> bool {
    let Some(first) = description.marks.first().and_then(MarkLocation::folder) else {
        return false;
    };
    let gone = home.fs.symlink_metadata(first);
    gone.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        && FolderMark::new(home, &home.mark, description.id).is_there()
}

fn prefix(home: &Path) -> String {
    let digest = Digest::tagged("log mark", &[path_text(home).as_bytes()]);
    digest.to_hex()[..16].to_owned()
}

fn names(fs: &dyn Fs, folder: &Path) -> Result<Vec<String>, Error> {
    match fs.read_dir(folder) {
        Ok(names) => Ok(names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(threadseal_store::sys::failure("read", folder, &error)),
    }
}
