//! Policies of witnesses and time-stamping authorities that a home keeps.

use crate::error::VerifyError;
use crate::notices::Notices;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::limits::MAX_POLICY_BYTES;
use threadseal_core::tlog::policy::Policy;
#[cfg(feature = "timestamp")]
use threadseal_log::timestamps::{Authority, MAX_AUTHORITY_BYTES};
use threadseal_store::home::Home;
use threadseal_store::owned_files::read_trusted_file;
use threadseal_store::sys::Fs;

/// The ending of a file with a policy.
pub const POLICY: &str = "policy";
/// The ending of a file with an authority.
pub const AUTHORITY: &str = "tsa";

/// What a home keeps of one kind, by name. A file that cannot be read hides no other.
#[derive(Debug, Clone)]
pub struct Kept<T> {
    /// Those that can be read.
    pub good: Vec<(String, T)>,
    /// The others, with why they cannot.
    pub bad: Vec<(String, String)>,
}

impl<T> Kept<T> {
    /// Returns the files that can be read; reports each of the others to `notices`.
    pub fn telling(self, notices: &dyn Notices) -> Vec<(String, T)> {
        for (_, why) in &self.bad {
            notices.unread(why);
        }
        self.good
    }

    /// Leaves those that are meant.
    pub fn retain(&mut self, is_meant: impl Fn(&String) -> bool) {
        self.good.retain(|(name, _)| is_meant(name));
        self.bad.retain(|(name, _)| is_meant(name));
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let good = self.good.iter().map(|(name, _)| name);
        good.chain(self.bad.iter().map(|(name, _)| name))
    }
}

/// The folder of both.
pub fn folder(home: &Home) -> PathBuf {
    home.path().join("anchors")
}

/// The file of this name and ending.
pub fn path_of(home: &Home, name: &str, ending: &str) -> PathBuf {
    folder(home).join(format!("{name}.{ending}"))
}

/// All policies of a home.
///
/// # Errors
/// When the folder cannot be read.
pub fn policies(home: &Home, fs: &dyn Fs) -> Result<Kept<Policy>, VerifyError> {
    files(home, fs, POLICY, MAX_POLICY_BYTES, |bytes| {
        Policy::parse(bytes).map_err(|error| error.to_string())
    })
}

/// All time-stamping authorities of a home.
///
/// # Errors
/// When the folder cannot be read.
#[cfg(feature = "timestamp")]
pub fn authorities(home: &Home, fs: &dyn Fs) -> Result<Kept<Authority>, VerifyError> {
    files(home, fs, AUTHORITY, MAX_AUTHORITY_BYTES, |bytes| {
        Authority::parse(bytes).map_err(|error| error.to_string())
    })
}

/// Does a home keep time-stamping authorities, which this program cannot read?
#[cfg(not(feature = "timestamp"))]
pub(crate) fn has_authorities(home: &Home, fs: &dyn Fs) -> bool {
    let ending = Some(OsStr::new(AUTHORITY));
    let names = fs.read_dir(&folder(home)).unwrap_or_default();
    names
        .iter()
        .any(|name| Path::new(name).extension() == ending)
}

fn files<T>(
    home: &Home,
    fs: &dyn Fs,
    ending: &str,
    limit: usize,
    parse: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Kept<T>, VerifyError> {
    let folder = folder(home);
    let mut names = match fs.read_dir(&folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(VerifyError::io("read", &folder, &error)),
    };
    names.sort();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for name in names {
        let path = Path::new(&name);
        let Some(stem) = path.file_stem().and_then(OsStr::to_str) else {
            continue;
        };
        if path.extension() != Some(OsStr::new(ending)) {
            continue;
        }
        let path = path_of(home, stem, ending);
        let read = read_trusted_file(fs, &path, limit).map_err(VerifyError::from);
        let parsed = read.and_then(|bytes| {
            let parsed = bytes.map(|bytes| parse(&bytes)).transpose();
            parsed.map_err(|error| VerifyError::refused(error).about(&path))
        });
        match parsed {
            Ok(Some(parsed)) => good.push((stem.to_owned(), parsed)),
            Ok(None) => {}
            Err(failure) => bad.push((stem.to_owned(), failure.to_string())),
        }
    }
    Ok(Kept { good, bad })
}
