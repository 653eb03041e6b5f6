//! [`LogHome`]: where the logs of a home are on its disk, and which of them is the current one.
//!
//! ```text
//! $THREADSEAL_HOME/log/current     <log id> LF
//!                  log/<log id>/   one log (`log_dir`)
//!                  keys/log-<16 hex>.log.{key,pub}
//! ```

use crate::layout::description::{Description, LogId};
use crate::layout::log_dir::{LogDir, damaged};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_KEY_FILE_BYTES;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::random::{self, Random};
use threadseal_store::read;
use threadseal_store::sys::{self, Fs};

/// Longest `current` in bytes.
const MAX_CURRENT_BYTES: usize = 64;

/// A home that has logs, or may have one, and its own second place.
#[derive(Clone)]
pub struct LogHome {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// The home, whose folder `log` holds its logs.
    pub path: PathBuf,
    /// The second place that this home has by default.
    pub mark: PathBuf,
    /// Where that place would be if the home were named in another way.
    pub elsewhere: Vec<PathBuf>,
    /// A tagged digest of the system's name of this machine, where the system has one.
    pub host: Option<Digest>,
    /// Settings of databases and storages that hold a mark, as environments spell them: `PGPASSWORD`, `AWS_…`.
    pub settings: Vec<(String, String)>,
}

impl LogHome {
    /// The folder of all its logs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The folder of one log.
    pub(crate) fn dir(&self, id: LogId) -> LogDir {
        self.dir_at(&self.logs().join(id.to_string()))
    }

    /// A log in any folder: a copy.
    pub(crate) fn dir_at(&self, folder: &Path) -> LogDir {
        LogDir {
            fs: Arc::clone(&self.fs),
            root: folder.to_owned(),
        }
    }

    pub(crate) fn has_dir(&self, id: LogId) -> bool {
        let found = self.fs.symlink_metadata(&self.dir(id).root);
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The log that `current` names, whether it can be opened or not.
    ///
    /// # Errors
    /// Kind `External` when the file is damaged or cannot be read.
    pub(crate) fn current_id(&self) -> Result<Option<LogId>, Error> {
        let path = self.logs().join("current");
        let Some(bytes) = self.dir_at(&self.logs()).read(&path, MAX_CURRENT_BYTES)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes).ok();
        let id = text.and_then(|text| LogId::parse_hex(text.strip_suffix('\n')?));
        id.map(Some).ok_or_else(|| damaged(&path))
    }

    /// Makes `current` name this log, durably.
    pub(crate) fn set_current(&self, id: LogId) -> Result<(), Error> {
        let (path, text) = (self.logs().join("current"), format!("{id}\n"));
        atomic::replace(&*self.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    /// The folders in `log` that are named as logs are.
    pub(crate) fn log_ids(&self) -> Vec<LogId> {
        let names = self.fs.read_dir(&self.logs()).unwrap_or_default();
        let ids = names.into_iter();
        ids.filter_map(|name| LogId::parse_hex(name.to_str()?))
            .collect()
    }

    /// The keys of logs that this home has, by the names of their files: `log-<16 hex>`.
    pub(crate) fn log_keys(&self) -> Result<Vec<String>, Error> {
        let folder = self.path.join("keys");
        let names = match self.fs.read_dir(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(sys::failure("read", &folder, &error)),
        };
        let log = |name: OsString| {
            let name = name.into_string().ok()?;
            let stem = name.strip_suffix(".log.key")?;
            let id = stem.strip_prefix("log-")?;
            let id = encoding::parse_hex_array::<8>(id);
            id.map(|_| stem.to_owned())
        };
        let mut logs: Vec<String> = names.into_iter().filter_map(log).collect();
        logs.sort();
        Ok(logs)
    }

    /// What is fixed of a log of this home. If the home has the log's public key among its keys, that key counts.
    pub(crate) fn description(&self, id: LogId) -> Result<Description, Error> {
        match (Description::read(&self.dir(id), id), self.public_key(id)) {
            (Ok(read), key) if key.is_none_or(|key| key == read.key) => Ok(read),
            (_, Some(key)) => Ok(Description {
                id,
                key,
                host: None,
                marks: Vec::new(),
                single_host: false,
            }),
            (read, None) => read,
        }
    }

    /// The public half of a log's key, where it is among the keys of this home.
    fn public_key(&self, id: LogId) -> Option<PublicKey> {
        let name = format!("{}.log.pub", id.key_name());
        let path = self.path.join("keys").join(name);
        let bytes = read::read_small(&*self.fs, &path, MAX_KEY_FILE_BYTES).ok()?;
        PublicKey::parse_any(std::str::from_utf8(&bytes).ok()?).ok()
    }
}

impl fmt::Debug for LogHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Settings hold secrets.
        let mut shown = f.debug_struct("LogHome");
        shown.field("path", &self.path).field("mark", &self.mark);
        shown.finish_non_exhaustive()
    }
}

/// Refuses a folder that other machines may write to as well: of two that commit to one log, neither would know of the other.
/// A folder that does not exist yet is judged by the nearest folder above it.
///
/// # Errors
/// Kind `Refused` for a network file system, `External` when the system does not answer.
pub fn refuse_shared(fs: &dyn Fs, folder: &Path) -> Result<(), Error> {
    let exists = |path: &&Path| fs.symlink_metadata(path).is_ok();
    let nearest = folder.ancestors().find(exists).unwrap_or(folder);
    let shared = fs.is_on_network(nearest);
    match shared.map_err(|error| sys::failure("look at", nearest, &error))? {
        false => Ok(()),
        true => Err(Error::refused(format!(
            "{} is on a network file system; if only this machine uses it, add --single-host",
            folder.display()
        ))),
    }
}

/// A new log id.
///
/// # Errors
/// Kind `External` when the random source fails.
pub fn new_id(random: &dyn Random) -> Result<LogId, Error> {
    Ok(LogId::from_bytes(random::array(random)?))
}

/// The system's name of this machine, as a tagged digest; None where it has none (machine-id(5)).
pub fn machine(fs: &dyn Fs) -> Option<Digest> {
    const FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    const MAX_MACHINE_ID_BYTES: usize = 4096;
    let read = |path: &&str| match read::read_small(fs, Path::new(path), MAX_MACHINE_ID_BYTES) {
        Ok(bytes) if !bytes.trim_ascii().is_empty() => Some(bytes),
        _ => None,
    };
    let bytes = FILES.iter().find_map(read)?;
    Some(Digest::tagged("log host", &[bytes.trim_ascii()]))
}
