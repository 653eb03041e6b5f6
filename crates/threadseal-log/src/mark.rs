//! The high-water mark: the log's last checkpoint in a second place.
//!
//! ```text
//! <folder>/<16 hex of the home's path>-<log id>.mark   the signed checkpoint
//!          <log id>.ended                              another log has taken its place
//!          <16 hex of a home>-<log id>.ended           in that home
//!          <log id>.home                               which home the log belongs to (`twins`)
//!          <log id>.lock                               held while one of all copies of a home commits
//! ```
//! A log that is restored from a copy is good by itself. That it went back shows only where something stands that did not go back
//! with it. How strong that is depends on the place: a folder beside the home is restored with the disk, one on another disk
//! is not, and a witness is in other hands.

use super::LogPlaces;
use super::description::{Description, LogId};
use super::past::checkpoint_of;
use super::place::damaged;
use super::twins::Dwelling;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_NOTE_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::home::PRIVATE_DIRECTORY;
use threadseal_store::lock::Exclusive;
use threadseal_store::read;
use threadseal_store::sys::{Fs, path_text};

const ENDING: &str = ".mark";
const ENDED: &str = ".ended";
/// Ending of the folder of marks beside a home.
const BESIDE: &str = ".marks";
/// Longest text of which home a log belongs to.
const MAX_DWELLING_BYTES: usize = 16 << 10;

/// One second place.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    path: PathBuf,
    /// What this home is called here.
    here: String,
    id: LogId,
}

impl Mark {
    pub(super) fn new(places: &LogPlaces, folder: &Path, id: LogId) -> Self {
        Self {
            path: folder.join(format!("{}-{id}{ENDING}", prefix(&places.home))),
            folder: folder.to_owned(),
            here: Dwelling::of(places).name(),
            fs: Arc::clone(&places.fs),
            id,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The mark that this home writes.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What stands there: of a home that was moved, more than one.
    pub(super) fn read(
        &self,
        description: &Description,
    ) -> Result<Vec<(SignedNote, TreeHead)>, Error> {
        let ending = format!("-{}{ENDING}", description.id);
        let names = names(&*self.fs, &self.folder)?;
        let ours = names.iter().filter(|name| name.ends_with(&ending));
        ours.map(|name| read_one(&*self.fs, &self.folder.join(name), description))
            .collect()
    }

    /// What stands there, where it has the form of a checkpoint of this log; who signed it is not known.
    pub(super) fn read_unproved(&self) -> Vec<(SignedNote, TreeHead)> {
        let ending = format!("-{}{ENDING}", self.id);
        let names = names(&*self.fs, &self.folder).unwrap_or_default();
        let ours = names.iter().filter(|name| name.ends_with(&ending));
        let known = ours.filter_map(|name| {
            let bytes =
                read::read_small(&*self.fs, &self.folder.join(name), MAX_NOTE_BYTES).ok()?;
            let note = SignedNote::parse(&String::from_utf8(bytes).ok()?).ok()?;
            let tree = *checkpoint_of(&note, self.id).ok()?.tree();
            Some((note, tree))
        });
        known.collect()
    }

    /// Does anything stand there?
    pub(super) fn is_there(&self) -> bool {
        let ending = format!("-{}{ENDING}", self.id);
        let names = names(&*self.fs, &self.folder);
        names.is_ok_and(|names| names.iter().any(|name| name.ends_with(&ending)))
    }

    /// The right to look at the marks in this folder and to commit by what they say.
    pub(super) fn enter(&self) -> Result<Exclusive, Error> {
        self.enter_while(&|| true)
    }

    /// As [`Mark::enter`], but waits only as long as `patient` says so.
    pub(super) fn enter_while(&self, patient: &dyn Fn() -> bool) -> Result<Exclusive, Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)?;
        let path = self.folder.join(format!("{}.lock", self.id));
        Exclusive::enter_while(&*self.fs, &path, patient)
    }

    /// Says that another log has taken the place of this one, `for_all` homes that have it or for this one.
    pub(super) fn end(&self, for_all: bool) -> Result<(), Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)?;
        let path = match for_all {
            true => self.ended_for_all(),
            false => self.ended_here(),
        };
        atomic::replace(&*self.fs, &path, b"", Mode::Set(PRIVATE_FILE))
    }

    /// Did somebody say so?
    pub(super) fn has_ended(&self) -> Result<bool, Error> {
        Ok(self.has_ended_for_all()? || self.is(&self.ended_here())?)
    }

    /// Did somebody say so, and not of one home?
    pub(super) fn has_ended_for_all(&self) -> Result<bool, Error> {
        self.is(&self.ended_for_all())
    }

    /// Did somebody say so, of whatever home it was before it moved here?
    pub(super) fn has_ended_before(&self, here: &Dwelling) -> Result<bool, Error> {
        let is_ours = self.dwelling().is_none_or(|known| known == *here);
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
    pub(super) fn dwelling(&self) -> Option<Dwelling> {
        let bytes = read::read_small(&*self.fs, &self.dwelling_path(), MAX_DWELLING_BYTES).ok()?;
        Dwelling::parse(std::str::from_utf8(&bytes).ok()?)
    }

    /// Remembers which home the log belongs to.
    pub(super) fn remember(&self, dwelling: &Dwelling) -> Result<(), Error> {
        let (path, text) = (self.dwelling_path(), dwelling.to_text());
        atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    fn dwelling_path(&self) -> PathBuf {
        self.folder.join(format!("{}.home", self.id))
    }

    pub(super) fn write(&self, note: &SignedNote) -> Result<(), Error> {
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

/// Logs of this home that have a mark in `folder`. A folder beside the home, and called after it, is of no other home: what stands
/// there counts also if the home was called otherwise then.
pub(super) fn of_home(fs: &dyn Fs, folder: &Path, home: &Path) -> Result<Vec<LogId>, Error> {
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
