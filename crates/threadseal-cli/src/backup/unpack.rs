//! Reads a backup into a folder beside the home, which becomes the home when all of it is durable.
//!
//! The writer of a backup decides its paths, kinds and sizes. Only regular files are taken, by plain
//! names below the folder, each once, and within the bounds of [`super`].

use super::pack::Bytes;
use super::seal::{self, Opener};
use super::{
    Amount, DESCRIPTION, Description, FORMAT, MAX_BACKUP_BYTES, MAX_BACKUP_DEPTH, MAX_BACKUP_FILES,
    MAX_BACKUP_PADDING, MAX_BACKUP_PATH_BYTES, MAX_DESCRIPTION_BYTES,
};
use crate::context::Context;
use crate::exit::Failure;
use crate::render::clean::Clean;
use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use tar::{Archive, Entry, EntryType};
use threadseal_store::atomic::{PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::random;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::{self, Access, Fs};

const CHUNK_BYTES: usize = 64 << 10;

/// Restores the backup `from` as the home at `home`, which must be absent or an empty folder.
///
/// # Errors
/// When there is a home, the backup cannot be opened, or anything in it is not allowed. No home is
/// there then.
pub(crate) fn restore(
    from: &Path,
    home: &Path,
    opener: &dyn Opener,
    context: &Context,
) -> Result<(Description, Amount), Failure> {
    let fs = &*context.fs;
    let is_there = refuse_home(fs, home)?;
    let file = open_regular(fs, from)?;
    let staging = Staging::begin(home, context)?;
    let restored = unpack(file, &staging, opener).map_err(|error| error.about(from))?;
    staging.finish(home, is_there)?;
    Ok(restored)
}

/// Is an empty folder there? Anything else in the place of the home is refused.
fn refuse_home(fs: &dyn Fs, home: &Path) -> Result<bool, Failure> {
    let names = match fs.read_dir(home) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Failure::io("read", home, &error)),
    };
    match names.is_empty() {
        true => Ok(true),
        false => Err(Failure::new(
            "there is a home or another folder with files; hint: restore elsewhere with --home DIR, or move it away",
        )
        .about(home)),
    }
}

fn unpack(
    file: RegularFile,
    staging: &Staging<'_>,
    opener: &dyn Opener,
) -> Result<(Description, Amount), Failure> {
    let opened = seal::open(
        BufReader::with_capacity(CHUNK_BYTES, Whole::of(file)),
        opener,
    )?;
    let mut archive = Archive::new(opened);
    let mut amount = Amount::default();
    let mut description = None;
    // Raw: no header of another format may give an entry another name or size.
    let entries = archive.entries().map_err(|error| unread(&error))?.raw(true);
    for entry in entries {
        let mut entry = entry.map_err(|error| unread(&error))?;
        let path = path_of(&entry)?;
        if description.is_none() {
            description = Some(describe(&path, &mut entry)?);
            continue;
        }
        amount.files += 1;
        amount.bytes = amount.bytes.saturating_add(entry.size());
        if amount.files > MAX_BACKUP_FILES || amount.bytes > MAX_BACKUP_BYTES {
            return Err(Failure::new(format!(
                "it has more than {MAX_BACKUP_FILES} files or {MAX_BACKUP_BYTES} bytes"
            )));
        }
        staging.write(&path, &mut entry)?;
    }
    // The last bytes authenticate that none is missing.
    finish(archive.into_inner())?;
    let description = description.ok_or_else(|| Failure::new("it is no backup of a home"))?;
    Ok((description, amount))
}

/// The path of a regular file; every other kind, and every other path, is refused.
fn path_of<R: Read>(entry: &Entry<'_, R>) -> Result<String, Failure> {
    let bytes = entry.path_bytes();
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    let refused = |why: &str| {
        Failure::new(format!(
            "not restored: {:?} {why}",
            Clean(&shown).to_string()
        ))
    };
    if entry.header().entry_type() != EntryType::Regular || entry.header().as_ustar().is_none() {
        return Err(refused("is no regular file"));
    }
    let path = std::str::from_utf8(&bytes).map_err(|_| refused("is not UTF-8"))?;
    let parts: Vec<&str> = path.split('/').collect();
    let is_plain = |part: &&str| {
        !part.is_empty() && **part != *"." && **part != *".." && !part.chars().any(char::is_control)
    };
    if !parts.iter().all(is_plain) {
        return Err(refused("leads out of the home, or has an empty name"));
    }
    if path.len() > MAX_BACKUP_PATH_BYTES || parts.len() > MAX_BACKUP_DEPTH {
        return Err(refused("is longer or deeper than a path of a home"));
    }
    Ok(path.to_owned())
}

fn describe<R: Read>(path: &str, entry: &mut Entry<'_, R>) -> Result<Description, Failure> {
    let no_backup = || Failure::new("it is no backup of a home");
    if path != DESCRIPTION || entry.size() > MAX_DESCRIPTION_BYTES {
        return Err(no_backup());
    }
    let mut text = Vec::new();
    entry
        .read_to_end(&mut text)
        .map_err(|error| unread(&error))?;
    let description: Description = serde_json::from_slice(&text).map_err(|_| no_backup())?;
    match description.format == FORMAT {
        true => Ok(description),
        false => Err(Failure::new(format!(
            "its format {:?} is none that this version knows",
            Clean(&description.format).to_string()
        ))),
    }
}

/// Reads to the end: zeros alone.
fn finish(mut rest: impl Read) -> Result<(), Failure> {
    let mut chunk = [0; 4096];
    let mut read = 0_u64;
    loop {
        let count = rest.read(&mut chunk).map_err(|error| unread(&error))?;
        if count == 0 {
            return Ok(());
        }
        read += count as u64;
        if read > MAX_BACKUP_PADDING || chunk[..count].iter().any(|byte| *byte != 0) {
            return Err(Failure::new("more bytes follow the end of its archive"));
        }
    }
}

fn unread(error: &io::Error) -> Failure {
    Failure::new(format!("the backup is damaged or cut: {error}"))
}

/// The folder that becomes the home. Dropped before that, it is removed.
struct Staging<'s> {
    fs: &'s dyn Fs,
    folder: PathBuf,
    is_home: bool,
}

impl<'s> Staging<'s> {
    fn begin(home: &Path, context: &'s Context) -> Result<Self, Failure> {
        let name = home.file_name();
        let name = name.ok_or_else(|| Failure::new("the home must not be a root folder"))?;
        let number = u64::from_be_bytes(random::array(&context.random)?);
        let mut staged = std::ffi::OsString::from(".");
        staged.push(name);
        staged.push(format!(".restoring-{number:016x}"));
        let folder = home.with_file_name(staged);
        let made = context.fs.create_dir(&folder, PRIVATE_DIRECTORY);
        made.map_err(|error| Failure::io("make", &folder, &error))?;
        let staging = Self {
            fs: &*context.fs,
            folder,
            is_home: false,
        };
        // A home has these even where they are empty.
        for part in ["keys", "heads"] {
            staging.make_folder(Path::new(part))?;
        }
        Ok(staging)
    }

    fn make_folder(&self, part: &Path) -> Result<(), Failure> {
        let path = self.folder.join(part);
        match self.fs.create_dir(&path, PRIVATE_DIRECTORY) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Failure::io("make", &path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a new file durably.
    fn write(&self, path: &str, bytes: &mut impl Read) -> Result<(), Failure> {
        let parts: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
        for folder in parts
            .iter()
            .rev()
            .filter(|part| !part.as_os_str().is_empty())
        {
            self.make_folder(folder)?;
        }
        let to = self.folder.join(path);
        let failed = |error: io::Error| Failure::io("write", &to, &error);
        // A name that was there before is refused by this.
        let file = self
            .fs
            .open(&to, Access::CreateNew(PRIVATE_FILE))
            .map_err(failed)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let count = bytes.read(&mut chunk).map_err(|error| unread(&error))?;
            if count == 0 {
                break;
            }
            sys::append_all(&*file, &chunk[..count]).map_err(failed)?;
        }
        file.sync_all().map_err(failed)
    }

    /// Makes all folders durable, and gives the folder the name of the home.
    fn finish(mut self, home: &Path, is_there: bool) -> Result<(), Failure> {
        let mut open = vec![self.folder.clone()];
        let mut folders = BTreeSet::new();
        while let Some(folder) = open.pop() {
            for name in self
                .fs
                .read_dir(&folder)
                .map_err(|error| Failure::io("read", &folder, &error))?
            {
                let path = folder.join(name);
                let found = self.fs.symlink_metadata(&path);
                let found = found.map_err(|error| Failure::io("read", &path, &error))?;
                if found.kind == sys::FileKind::Directory {
                    open.push(path);
                }
            }
            folders.insert(folder);
        }
        let failed = |error: io::Error| Failure::io("make", home, &error);
        for folder in &folders {
            self.fs.sync_dir(folder).map_err(failed)?;
        }
        if is_there {
            self.fs.remove_dir(home).map_err(failed)?;
        }
        self.fs
            .rename_no_replace(&self.folder, home)
            .map_err(failed)?;
        self.is_home = true;
        let parent = home
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        self.fs
            .sync_dir(parent.unwrap_or(Path::new(".")))
            .map_err(failed)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if !self.is_home {
            // The error on its way to the caller matters more than a folder that remains.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A file as a reader that owns it.
struct Whole {
    file: RegularFile,
    at: u64,
}

impl Whole {
    fn of(file: RegularFile) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.at.saturating_add(buffer.len() as u64);
        let count = Bytes::of_range(&self.file, self.at, end).read(buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}
