//! Files that the watcher of a home found sealed, so that its next start need not read them again.
//!
//! ```text
//! $THREADSEAL_HOME/capture/seen.jsonl
//! {"format":"threadseal-seen/1","program":"0.1.0","archive":{"inode":41,"settings":null}}
//! {"path":"/p/s.jsonl","log":"64769.131.85.…","seal":"64769.132.981.…"}    sealed, and archived
//! {"path":"/p/notes.md","log":"64769.133.12.…"}                            nothing to seal
//! ```
//! It saves work and proves nothing: no verdict is taken from it. A file whose log or seals have
//! another stamp is looked at again, and so are all files after another version of this program, or
//! another archive, wrote it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::observer::seal_path;
use threadseal_store::read::{Stamp, read_small};
use threadseal_store::sys::{Fs, directory_of, path_text, text_path};

/// The most bytes of the file. What does not fit is looked at again.
pub const MAX_SEEN_BYTES: usize = 64 << 20;
/// The format of the file.
const FORMAT: &str = "threadseal-seen/1";

/// The files that were found sealed.
#[derive(Debug)]
pub struct Seen {
    home: PathBuf,
    place: PathBuf,
    header: Header,
    files: BTreeMap<PathBuf, Found>,
    is_changed: bool,
}

/// How a file was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    log: String,
    seal: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    format: String,
    program: String,
    archive: Archive,
}

/// An archive and its settings: what was found under others was not archived in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Archive {
    /// The folder's inode; `None` before the first session is archived.
    inode: Option<u64>,
    settings: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    log: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    seal: Option<String>,
}

/// What is known of an unchanged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// All of it is sealed.
    Sealed,
    /// There is nothing to seal.
    PassedOver,
}

impl Seen {
    /// What an earlier watcher of the home at `home` found; nothing if its archive is another one
    /// since.
    pub fn read(fs: &dyn Fs, home: &Path) -> Self {
        let place = home.join("capture/seen.jsonl");
        let header = Header {
            format: FORMAT.to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            archive: Archive::of(fs, home),
        };
        let bytes = read_small(fs, &place, MAX_SEEN_BYTES).unwrap_or_default();
        let files = files(&bytes, &header);
        Self {
            home: home.to_owned(),
            place,
            header,
            files,
            is_changed: false,
        }
    }

    /// What is known of the file at `path`, if neither it nor its seals changed.
    pub fn known(&self, fs: &dyn Fs, path: &Path, log: Stamp) -> Option<Known> {
        let found = self.files.get(path)?;
        let is_same = found.log == stamp_text(log) && found.seal == seal_stamp(fs, path);
        is_same.then_some(match &found.seal {
            Some(_) => Known::Sealed,
            None => Known::PassedOver,
        })
    }

    /// Notes that the file at `path`, as it was when it had the stamp `log`, needs no work.
    pub fn note(&mut self, fs: &dyn Fs, path: &Path, log: Stamp) {
        let found = Found {
            log: stamp_text(log),
            seal: seal_stamp(fs, path),
        };
        let before = self.files.insert(path.to_owned(), found.clone());
        self.is_changed |= before != Some(found);
    }

    /// Writes what was noted since, without files that are gone.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&mut self, fs: &dyn Fs) -> Result<(), Error> {
        if !self.is_changed {
            return Ok(());
        }
        // What this process found is in the archive that it made.
        let inode = &mut self.header.archive.inode;
        *inode = inode.or_else(|| inode_of_archive(fs, &self.home));
        self.files
            .retain(|path, _| fs.symlink_metadata(path).is_ok());
        let mut text = json(&self.header);
        for (path, found) in &self.files {
            let line = json(&Line {
                path: path_text(path),
                log: found.log.clone(),
                seal: found.seal.clone(),
            });
            if text.len() + line.len() > MAX_SEEN_BYTES {
                break;
            }
            text.push_str(&line);
        }
        atomic::create_directories(fs, directory_of(&self.place), PRIVATE_DIRECTORY)?;
        atomic::replace(fs, &self.place, text.as_bytes(), Mode::Set(PRIVATE_FILE))?;
        self.is_changed = false;
        Ok(())
    }
}

/// The files in the text of an earlier watcher; none unless it has the same header.
fn files(bytes: &[u8], header: &Header) -> BTreeMap<PathBuf, Found> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    if serde_json::from_slice::<Header>(first).ok().as_ref() != Some(header) {
        return BTreeMap::new();
    }
    let lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    let file = |line: Line| {
        let Line { path, log, seal } = line;
        Some((text_path(&path)?, Found { log, seal }))
    };
    lines.filter_map(file).collect()
}

fn json(value: &impl Serialize) -> String {
    // Serialising strings does not fail.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

impl Archive {
    fn of(fs: &dyn Fs, home: &Path) -> Self {
        let settings = fs.metadata(&home.join("archive/archive.json")).ok();
        Self {
            inode: inode_of_archive(fs, home),
            settings: settings.map(|found| stamp_text(found.into())),
        }
    }
}

fn inode_of_archive(fs: &dyn Fs, home: &Path) -> Option<u64> {
    let folder = fs.metadata(&home.join("archive"));
    folder.ok().map(|found| found.identity.inode)
}

fn seal_stamp(fs: &dyn Fs, log: &Path) -> Option<String> {
    let found = fs.metadata(&seal_path(log)).ok()?;
    Some(stamp_text(found.into()))
}

fn stamp_text(stamp: Stamp) -> String {
    let (device, inode) = (stamp.identity.device, stamp.identity.inode);
    let (size, modified, changed) = (stamp.size, stamp.modified_ns, stamp.changed_ns);
    format!("{device}.{inode}.{size}.{modified}.{changed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use threadseal_store::sys::RealFs;

    fn stamp(path: &Path) -> Stamp {
        RealFs.metadata(path).unwrap().into()
    }

    // T-CAP-42
    #[test]
    fn only_an_unchanged_file_of_the_same_archive_is_known() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        fs::create_dir_all(home.join("archive")).unwrap();
        let (log, other) = (home.join("s.jsonl"), home.join("notes.md"));
        for path in [&log, &seal_path(&log), &other] {
            fs::write(path, "{}\n").unwrap();
        }
        let mut seen = Seen::read(&RealFs, home);
        assert_eq!(seen.known(&RealFs, &log, stamp(&log)), None);
        seen.note(&RealFs, &log, stamp(&log));
        seen.note(&RealFs, &other, stamp(&other));
        seen.save(&RealFs).unwrap();
        let read = || Seen::read(&RealFs, home);
        let known = |path: &Path| read().known(&RealFs, path, stamp(path));
        assert_eq!(known(&log), Some(Known::Sealed));
        assert_eq!(known(&other), Some(Known::PassedOver));

        // The archive may be made after a watcher began.
        fs::remove_dir(home.join("archive")).unwrap();
        let mut seen = Seen::read(&RealFs, home);
        fs::create_dir(home.join("archive")).unwrap();
        seen.note(&RealFs, &log, stamp(&log));
        seen.save(&RealFs).unwrap();
        assert_eq!(known(&log), Some(Known::Sealed));

        fs::write(seal_path(&log), "{}\n{}\n").unwrap();
        assert_eq!(known(&log), None, "its seals changed");
        seen.note(&RealFs, &log, stamp(&log));
        seen.save(&RealFs).unwrap();
        assert_eq!(known(&log), Some(Known::Sealed));
        fs::write(&log, "[]\n").unwrap();
        assert_eq!(known(&log), None, "it changed");
        fs::write(home.join("archive/archive.json"), "{}").unwrap();
        assert_eq!(known(&other), None, "the archive has other settings");
        fs::write(home.join("capture/seen.jsonl"), "no header\n").unwrap();
        assert_eq!(known(&other), None);
    }
}
